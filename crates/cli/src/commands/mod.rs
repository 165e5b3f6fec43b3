//! The `ftl` command, subcommand by subcommand.
//!
//! | file | command |
//! | --- | --- |
//! | `compare.rs` | `ftl compare`, `ftl run` |
//! | `size.rs` | `ftl size` |
//! | `trace.rs` | `ftl trace info`, `ftl trace make` |
//! | `lists.rs` | `ftl schemes`, `ftl devices`, `ftl workloads` |
//! | `paper.rs` | `ftl paper` |
//! | `stored.rs` | `ftl report`, `ftl diff` |
//! | `study.rs` | `ftl study` |
//! | `bench.rs` | `ftl bench` |
//! | `check.rs` | `ftl check` |
//! | `live.rs` | `ftl create`, `ftl info`, `ftl convert`, `ftl serve` |
//! | `scrub.rs` | `ftl scrub` |
//! | `mount.rs`, `vhost.rs` | `ftl mount`, `ftl vhost` |
//! | `record.rs` | what a live device sees, as a trace |
//! | `top.rs` | `ftl top` |
//! | `options.rs` | what can be given to a run: a [`sim::Setup`] |
//! | `watched.rs` | simulations for `ftl top` |
//! | `shell.rs` | `ftl completions`, `ftl man` |
//! | `overall.rs` | one bar for the many runs of `ftl paper` and `ftl study` |
//! | `output.rs`, `progress.rs`, `stop.rs` | what is shown: results, progress, the one sentence when it fails |
//! | `files.rs`, `interrupt.rs` | files that are written as a whole; Ctrl-C, which loses nothing that has ended |
//! | `memory.rs` | whether there is memory enough |
//!
//! `complete.rs` gathers the commands of the feature `complete`. Without it the command is the simulator
//! alone, which compiles in about half of the time: `make demo` shows its tables from that and then builds
//! the rest.
//!
//! Exit codes: 0; 1 when a result is worthless, because an invariant did not hold or a scheme panicked; 2
//! when the user can mend it; 130 when the user stopped it.

#[cfg(feature = "complete")]
mod bench;
#[cfg(feature = "complete")]
mod check;
mod compare;
#[cfg(feature = "complete")]
mod complete;
mod files;
mod interrupt;
mod lists;
#[cfg(feature = "complete")]
mod live;
mod memory;
#[cfg(feature = "complete")]
mod mount;
pub(crate) mod options;
mod output;
#[cfg(feature = "complete")]
mod overall;
#[cfg(feature = "complete")]
mod paper;
mod progress;
#[cfg(feature = "complete")]
mod record;
mod repeat;
#[cfg(feature = "complete")]
mod scrub;
#[cfg(feature = "complete")]
mod serving;
mod shell;
mod size;
pub(crate) mod stdin;
mod stop;
#[cfg(feature = "complete")]
mod stored;
#[cfg(feature = "complete")]
mod study;
mod top;
mod trace;
#[cfg(feature = "complete")]
mod vhost;
#[cfg(feature = "complete")]
mod watched;

use std::ffi::OsString;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use stop::Stop;

const EXAMPLES: &str = "\
Examples:
  ftl compare                              page, dftl and tpftl on a small device: a first look in seconds
  ftl compare --trace oltp.spc.xz          the same schemes under a recorded trace
  ftl compare jobs.fio --report out.html   a fio job file in virtual time, with a page of plots
  ftl run tpftl --synth financial1         one scheme in full detail
  ftl size oltp.spc.xz                     how large a mapping cache this trace needs, scheme by scheme
  ftl trace info oltp.spc.xz               what a trace looks like
  ftl paper tpftl                          a paper's experiments, its numbers beside ours
  ftl schemes                              what can be compared

Exit code 0; 1 when an invariant did not hold or a scheme panicked; 2 when the call or a file is wrong; 130 after Ctrl-C,
which keeps what has ended.";

/// Version and commit.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("FTL_COMMIT"), ")");

/// Flash translation layers, simulated in virtual time: what does a scheme cost, under which load, on which
/// device?
#[derive(Parser)]
#[command(name = "ftl", version = VERSION, after_help = EXAMPLES, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run several schemes on one workload and show them side by side
    Compare(compare::CompareArgs),
    /// Run one scheme and show everything that was counted
    Run(compare::RunArgs),
    /// Find out how large a mapping cache must be
    Size(size::SizeArgs),
    /// Look at block traces, or make one
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    /// List the schemes with their papers and parameters
    Schemes(lists::SchemesArgs),
    /// List the device presets, or print one as a device file
    Devices(lists::DevicesArgs),
    /// List the synthetic workloads and how close they come to what was published
    Workloads(lists::WorkloadsArgs),
    #[cfg(feature = "complete")]
    #[command(flatten)]
    Complete(complete::Complete),
    /// Watch a device that is served, mounted or simulated
    Top(top::TopArgs),
    /// Print what makes a shell complete this command
    Completions(shell::CompletionsArgs),
    /// Write man pages
    Man(shell::ManArgs),
}

/// The whole program.
pub fn main() -> ExitCode {
    quiet_panics();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let ended = catch_unwind(AssertUnwindSafe(|| dispatch(&arguments)));
    let copy = stdin::forget();
    match ended {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(stop)) => stop.report(copy.as_deref()),
        Err(panic) => Stop::panic(panic.as_ref(), &repeat::quoted(&arguments)).report(copy.as_deref()),
    }
}

/// A panic becomes one sentence where it is caught; the trace is for those who ask for it.
fn quiet_panics() {
    if std::env::var_os("RUST_BACKTRACE").is_none_or(|value| value.is_empty() || value == "0") {
        std::panic::set_hook(Box::new(|_| {}));
    }
}

fn dispatch(arguments: &[OsString]) -> Result<(), Stop> {
    let command = Cli::command();
    let parsed = command.clone().try_get_matches_from(arguments);
    let matches = parsed.map_err(|error| Stop::of_clap(&error, arguments))?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| Stop::of_clap(&error, arguments))?;
    let again = repeat::Again::new(&command, &matches, arguments);
    match cli.command {
        Command::Compare(args) => compare::compare(args, &again),
        Command::Run(args) => compare::run(args, &again),
        Command::Size(args) => size::size(args, &again),
        Command::Trace(args) => trace::trace(args, &again),
        Command::Schemes(args) => lists::schemes(args),
        Command::Devices(args) => lists::devices(args),
        Command::Workloads(args) => lists::workloads(args),
        #[cfg(feature = "complete")]
        Command::Complete(command) => command.run(&again),
        Command::Top(args) => top::top(args),
        Command::Completions(args) => shell::completions(&args, command),
        Command::Man(args) => shell::man(&args, command),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
