//! Results on standard output and in files.

use std::path::PathBuf;
use std::time::Duration;

use sim::format::digits;
use sim::results::{fio_json_runs, pretty, to_csv, to_json, Run};

use super::files::{self, is_stdout, write, Output};
use super::options::{Format, OutputOptions};
use super::stop::{note, say, Stop};
use crate::report::{self, Origin};
use crate::table::model::model_tables;
use crate::table::{compare_table, run_detail};

/// How much a table tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// A row for each run.
    SideBySide,
    /// Everything about one run.
    Full,
}

/// What standard output shows.
pub(crate) fn format(options: &OutputOptions) -> Result<Format, Stop> {
    let to_stdout = |path: &Option<std::path::PathBuf>| path.as_deref().is_some_and(is_stdout);
    let mut asked = Vec::new();
    if to_stdout(&options.json) {
        asked.push(Format::Json);
    }
    if to_stdout(&options.csv) {
        asked.push(Format::Csv);
    }
    if options.output_format != Format::Table && !asked.contains(&options.output_format) {
        asked.push(options.output_format);
    }
    match asked[..] {
        [] => Ok(Format::Table),
        [one] => Ok(one),
        _ => Err(Stop::user("standard output can show one format only; write the others to files")),
    }
}

/// Whether results will have a place to go that is none of `inputs`: asked before minutes are spent on them.
/// `others` are outputs beside the usual ones.
pub(crate) fn check(options: &OutputOptions, others: &[Output<'_>], inputs: &[PathBuf]) -> Result<(), Stop> {
    if format(options)? != Format::Table && options.model {
        return Err(Stop::user("--model shows a table; leave out the other format, or write it to a file"));
    }
    if options.report.as_deref().is_some_and(is_stdout) {
        return Err(Stop::user("--report - is not possible; name a file such as --report out.html"));
    }
    let usual = [
        ("--json", options.json.as_deref()),
        ("--csv", options.csv.as_deref()),
        ("--report", options.report.as_deref()),
    ];
    files::check(&[&usual, others].concat(), inputs)
}

/// Shows runs, and writes the files that were asked for.
pub(crate) fn show(
    runs: &[Run],
    options: &OutputOptions,
    detail: Detail,
    elapsed: Duration,
    origin: &Origin,
) -> Result<(), Stop> {
    let format = format(options)?;
    let text = match format {
        Format::Table => match (detail, runs) {
            (Detail::Full, [run]) => run_detail(run),
            _ if runs.is_empty() => String::new(),
            _ => compare_table(runs),
        },
        Format::Json => to_json(runs)?,
        Format::Csv => to_csv(runs)?,
        Format::FioJson => pretty(&fio_json_runs(runs)),
    };
    say(&text)?;
    if options.model && format == Format::Table {
        say(&model_tables(runs))?;
    }
    let mut written = Vec::new();
    if let Some(path) = options.json.as_deref().filter(|path| !is_stdout(path)) {
        write(path, &to_json(runs)?)?;
        written.push(("JSON", path, ""));
    }
    if let Some(path) = options.csv.as_deref().filter(|path| !is_stdout(path)) {
        write(path, &to_csv(runs)?)?;
        written.push(("CSV", path, ""));
    }
    if let Some(path) = &options.report {
        write(path, &report::html(runs, origin).map_err(Stop::user)?)?;
        written.push(("Report", path, " (opens offline in any browser)"));
    }
    let mut closing = format!("{:<9} {} s\n", "Took", digits(elapsed.as_secs_f64()));
    for (what, path, remark) in written {
        closing += &format!("{what:<9} {}{remark}\n", path.display());
    }
    if format == Format::Table && !runs.is_empty() {
        say(&closing)?;
    } else {
        closing.lines().skip(1).for_each(note);
    }
    Ok(())
}
