//! Why a command ended early, as one sentence.

use std::any::Any;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Why a command ended without success.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The user can mend it: what, where, and what would be right.
    User(String),
    /// A finding: a broken invariant, a panic, something lost at a power cut.
    Finding(String),
    /// Help or version, printed by clap.
    Shown(ExitCode),
    /// The user stopped it; the sentence says what is missing.
    Interrupted(String),
    /// Nobody reads standard output any more.
    Unread,
}

/// The exit code after Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

impl Stop {
    /// A mistake of the user's.
    pub(crate) fn user(sentence: impl Display) -> Stop {
        Stop::User(sentence.to_string())
    }

    /// A panic that no run caught.
    pub(crate) fn panic(panic: &(dyn Any + Send), command: &str) -> Stop {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Stop::Finding(format!("this is a bug in ftl itself: {text}; repeat with: {command}"))
    }

    /// Prints the sentence, if there is one, and gives the exit code. `copy` is where standard input was
    /// kept: the sentence names it by what it is.
    pub(crate) fn report(self, copy: Option<&Path>) -> ExitCode {
        let (sentence, code) = match self {
            Stop::User(sentence) => (sentence, 2),
            Stop::Finding(sentence) => (sentence, 1),
            Stop::Interrupted(sentence) => (sentence, INTERRUPTED),
            Stop::Shown(code) => return code,
            Stop::Unread => return ExitCode::SUCCESS,
        };
        let sentence = match copy {
            Some(copy) => sentence.replace(&*copy.to_string_lossy(), "standard input"),
            None => sentence,
        };
        // Nothing is left to do when standard error is closed, too.
        let _ = writeln!(io::stderr(), "ftl: {}", one_line(&sentence));
        ExitCode::from(code)
    }

    /// What clap found wrong with the arguments. Help and version are printed here.
    pub(crate) fn of_clap(error: &clap::Error, arguments: &[OsString]) -> Stop {
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                let _ = error.print();
                Stop::Shown(ExitCode::SUCCESS)
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
                let _ = error.print();
                Stop::Shown(ExitCode::from(2))
            }
            _ => Stop::User(in_words(error, arguments)),
        }
    }
}

impl From<String> for Stop {
    fn from(sentence: String) -> Stop {
        Stop::User(sentence)
    }
}

impl From<workload::InputError> for Stop {
    fn from(error: workload::InputError) -> Stop {
        Stop::user(error)
    }
}

impl From<sim::BadValue> for Stop {
    fn from(error: sim::BadValue) -> Stop {
        Stop::user(error)
    }
}

impl From<sim::SetupError> for Stop {
    fn from(error: sim::SetupError) -> Stop {
        use sim::SetupError::{Unsuitable, Value};
        // Keys of a set-up are the options here.
        let dashes = if matches!(error, Value { .. } | Unsuitable { .. }) { "--" } else { "" };
        Stop::user(format!("{dashes}{error}"))
    }
}

impl From<nand::DeviceError> for Stop {
    fn from(error: nand::DeviceError) -> Stop {
        Stop::user(error)
    }
}

impl From<sim::results::OutputError> for Stop {
    fn from(error: sim::results::OutputError) -> Stop {
        Stop::user(error)
    }
}

/// Text without line breaks.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Writes to standard output. A reader that went away, as in `ftl schemes | head -1`, ends the command
/// quietly.
pub(crate) fn say(text: &str) -> Result<(), Stop> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Stop::Unread),
        Err(error) => Err(Stop::user(format!("standard output cannot be written ({error})"))),
    }
}

/// Tells the user something on standard error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "note: {}", one_line(text));
}

/// clap's finding as one sentence.
fn in_words(error: &clap::Error, arguments: &[OsString]) -> String {
    let of = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    };
    let option = of(ContextKind::InvalidArg);
    let name = option.split_whitespace().next().unwrap_or_default().trim_matches(['<', '>', '[', ']']);
    let value = of(ContextKind::InvalidValue);
    let similar = |kind| {
        let found = of(kind);
        if found.is_empty() {
            String::new()
        } else {
            format!("; did you mean `{found}`?")
        }
    };
    let help = help_of(arguments);
    match error.kind() {
        ErrorKind::UnknownArgument if option.parse::<f64>().is_ok() => {
            // Of `-3%` clap names `-3`.
            let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
            let at = words.iter().position(|word| word.starts_with(&option)).unwrap_or(0);
            let (before, given) = (&words[at.saturating_sub(1)], &words[at]);
            format!("{before} {given}: nothing here can be negative (see {help})")
        }
        ErrorKind::UnknownArgument if option.starts_with('-') => {
            format!("there is no option `{option}`{} (see {help})", similar(ContextKind::SuggestedArg))
        }
        ErrorKind::UnknownArgument => format!("`{option}` is one argument too many (see {help})"),
        ErrorKind::InvalidSubcommand => format!(
            "there is no command `{}`{} (see {help})",
            of(ContextKind::InvalidSubcommand),
            similar(ContextKind::SuggestedSubcommand)
        ),
        ErrorKind::InvalidValue if value.is_empty() => format!("{name} needs a value (see {help})"),
        ErrorKind::InvalidValue => {
            format!("{name} {value} is not possible; it is one of {}", of(ContextKind::ValidValue))
        }
        ErrorKind::ValueValidation => {
            let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            let value = if why.contains(&value) { String::new() } else { format!(" {value}") };
            format!("{name}{value}: {why}")
        }
        ErrorKind::MissingRequiredArgument => format!("{option} is missing (see {help})"),
        ErrorKind::ArgumentConflict => {
            let other = of(ContextKind::PriorArg);
            let other =
                other.split_whitespace().next().unwrap_or_default().trim_matches(['<', '>', '[', ']']);
            if other.is_empty() || other == name {
                format!("{name} may be given once only")
            } else {
                format!("{name} and {other} exclude each other; give one of them")
            }
        }
        _ => one_line(error.to_string().trim_start_matches("error: ")),
    }
}

fn help_of(arguments: &[OsString]) -> String {
    let words: Vec<String> = arguments
        .iter()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .take_while(|word| !word.starts_with('-'))
        .collect();
    let known = ["compare", "run", "trace", "schemes", "devices", "workloads", "bench", "check", "paper"];
    match words.first().map(String::as_str) {
        Some("trace") if words.get(1).is_some_and(|word| word == "info" || word == "make") => {
            format!("`ftl trace {} --help`", words[1])
        }
        Some(word) if known.contains(&word) => format!("`ftl {word} --help`"),
        _ => "`ftl --help`".to_owned(),
    }
}
