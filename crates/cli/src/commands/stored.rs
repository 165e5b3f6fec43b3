//! `ftl report` and `ftl diff`: what `--json` has stored, shown again or side by side.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use sim::results::{from_json, Run};

use super::options::OutputOptions;
use super::output::{self, Detail};
use super::repeat::Again;
use super::size::share;
use super::stop::{say, Stop};
use crate::table::diff::differences;

const REPORT_EXAMPLES: &str = "\
Examples:
  ftl report monday.json                                the tables again
  ftl report monday.json --report monday.html           with plots
  ftl report dftl.json tpftl.json --csv both.csv        results of several calls as one

A result is what --json wrote, of ftl compare or ftl run.";

const DIFF_EXAMPLES: &str = "\
Examples:
  ftl diff before.json after.json
  ftl diff small-cache.json large-cache.json --within 5%

A result is what --json wrote, of ftl compare or ftl run. Exit code 0 also when they differ.";

/// Arguments of `ftl report`.
#[derive(Args, Debug)]
#[command(after_help = REPORT_EXAMPLES)]
pub(crate) struct ReportArgs {
    /// Results that --json wrote
    #[arg(help_heading = "Arguments", value_name = "RESULT.json", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputOptions,
}

/// Arguments of `ftl diff`.
#[derive(Args, Debug)]
#[command(after_help = DIFF_EXAMPLES)]
pub(crate) struct DiffArgs {
    /// A result that --json wrote
    #[arg(value_name = "A.json")]
    first: PathBuf,
    /// Another one, which is set against it
    #[arg(value_name = "B.json")]
    second: PathBuf,
    /// Changes up to this share, or of shares up to so many points, are not marked
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = share)]
    within: f64,
}

/// `ftl report`.
pub(crate) fn report(args: &ReportArgs, again: &Again) -> Result<(), Stop> {
    let began = Instant::now();
    output::check(&args.output, &[], &args.files)?;
    let mut runs = Vec::new();
    for file in &args.files {
        runs.extend(stored(file)?);
    }
    let detail = if runs.len() == 1 { Detail::Full } else { Detail::SideBySide };
    output::show(&runs, &args.output, detail, began.elapsed(), again.origin())
}

/// `ftl diff`.
pub(crate) fn diff(args: &DiffArgs) -> Result<(), Stop> {
    let (first, second) = (stored(&args.first)?, stored(&args.second)?);
    let names = [&args.first, &args.second].map(|path| path.display().to_string());
    say(&differences(&first, &second, &names, args.within))
}

/// The runs in a file; at least one.
fn stored(path: &Path) -> Result<Vec<Run>, Stop> {
    let name = path.display();
    let right = "name a file that --json of ftl compare or ftl run wrote";
    let text = std::fs::read_to_string(path)
        .map_err(|error| Stop::user(format!("{name} cannot be read ({error}); {right}")))?;
    match from_json(&text) {
        Ok(runs) if runs.is_empty() => Err(Stop::user(format!("{name} holds no run; {right}"))),
        Ok(runs) => Ok(runs),
        Err(error) => Err(Stop::user(format!("{name} is no result ({error}); {right}"))),
    }
}
