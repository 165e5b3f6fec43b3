//! The command that repeats one run, to be pasted into a shell.

use std::ffi::OsStr;

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Command};

use sim::setup::SchemeSpec;

use super::VERSION;
use crate::report::Origin;

/// What has no bearing on what a run does.
const LEFT_OUT: &[&str] =
    &["schemes", "scheme", "threads", "json", "csv", "output_format", "report", "metrics", "quiet"];

/// The options of the call under way, as words.
pub(crate) struct Again {
    words: Vec<String>,
    /// Words that have no option name.
    positional: Vec<String>,
    seeded: bool,
    origin: Origin,
}

impl Again {
    /// Takes down what was given to the subcommand.
    pub(crate) fn new(command: &Command, matches: &ArgMatches, arguments: &[impl AsRef<OsStr>]) -> Again {
        let origin = Origin { command: quoted(arguments), version: VERSION.to_owned() };
        let mut again = Again { words: Vec::new(), positional: Vec::new(), seeded: false, origin };
        let Some((name, given)) = matches.subcommand() else { return again };
        let Some(command) = command.find_subcommand(name) else { return again };
        for arg in command.get_arguments() {
            let id = arg.get_id().as_str();
            let present = given.ids().any(|known| known.as_str() == id)
                && given.value_source(id) == Some(ValueSource::CommandLine);
            if !present || LEFT_OUT.contains(&id) {
                continue;
            }
            let values: Vec<String> = given.get_raw(id).into_iter().flatten().map(quote).collect();
            match (arg.get_long(), arg.get_action()) {
                (Some(long), ArgAction::SetTrue) => again.words.push(format!("--{long}")),
                (Some(long), _) => again.words.extend(values.iter().map(|value| format!("--{long} {value}"))),
                (None, _) => again.positional.extend(values),
            }
            again.seeded |= id == "seed";
        }
        again
    }

    /// What a report says made it.
    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The command for one scheme.
    pub(crate) fn run(&self, scheme: &SchemeSpec, seed: u64) -> String {
        let mut words = vec!["ftl run".to_owned(), quote(OsStr::new(&scheme.to_string()))];
        words.extend(self.positional.iter().cloned());
        words.extend(self.words.iter().cloned());
        if !self.seeded {
            words.push(format!("--seed {seed}"));
        }
        words.join(" ")
    }
}

/// A whole command line.
pub(crate) fn quoted(arguments: &[impl AsRef<OsStr>]) -> String {
    let words: Vec<String> = arguments.iter().skip(1).map(|word| quote(word.as_ref())).collect();
    format!("ftl {}", words.join(" "))
}

/// A word that a POSIX shell takes as it is.
fn quote(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,%+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn words_survive_the_shell() {
        assert_eq!(quote(OsStr::new("a/b-1.fio")), "a/b-1.fio");
        assert_eq!(quote(OsStr::new("it's here")), r"'it'\''s here'");
        assert_eq!(quote(OsStr::new("")), "''");
        assert_eq!(quoted(&["x", "run", "$HOME"]), "ftl run '$HOME'");
    }

    #[test]
    fn one_run_of_a_comparison_is_repeated_by_itself() {
        let again = |words: &[&str]| {
            let command = super::super::Cli::command();
            let matches = command.clone().try_get_matches_from(words).expect("a call");
            let scheme: SchemeSpec = "tpftl:techniques=-".parse().expect("a scheme");
            Again::new(&command, &matches, words).run(&scheme, 1)
        };
        let call =
            ["ftl", "compare", "--trace", "a b.spc", "--cache=3%", "--report=x.html", "--verify", "-q"];
        assert_eq!(again(&call), "ftl run tpftl:techniques=- --trace 'a b.spc' --cache 3% --verify --seed 1");
        let call = ["ftl", "run", "page", "my.fio", "--seed", "9", "--rows", "..5", "--json", "-"];
        assert_eq!(again(&call), "ftl run tpftl:techniques=- my.fio --seed 9 --rows ..5");
    }
}
