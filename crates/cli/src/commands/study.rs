//! `ftl study`: many runs from one file. What has ended is kept, and the same command goes on from there.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use sim::setup::positive_32;
use sim::{BadValue, Experiment};
use study::{Ended, Folder, Point, Stored, Study, StudyError};

use super::options::threads;
use super::overall::Overall;
use super::repeat::Again;
use super::stop::{note, one_line, say, Stop};
use super::{interrupt, memory};
use crate::table::study as table;

/// Arguments of `ftl study`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ftl study caches.toml                         every point that has no result yet, on all cores
  ftl study caches.toml --list                  the points, and which have a result
  ftl study caches.toml --point $SLURM_ARRAY_TASK_ID --results part-$SLURM_ARRAY_TASK_ID
  ftl study caches.toml --merge part-*          results of points that ran elsewhere

docs/studies.md describes the file. Ctrl-C and kill lose no point that has ended: the same command goes on.")]
pub(crate) struct StudyArgs {
    /// The study (TOML)
    #[arg(help_heading = "Arguments", value_name = "FILE.toml")]
    file: PathBuf,
    /// Folder of the results [default: FILE.results beside the study]
    #[arg(long, value_name = "FOLDER")]
    results: Option<PathBuf>,
    /// List the points and run none
    #[arg(long, conflicts_with_all = ["point", "merge", "again"])]
    list: bool,
    /// Run these points only, by number; writes no table
    #[arg(long, value_name = "N,...", value_delimiter = ',', conflicts_with = "merge", value_parser = point)]
    point: Vec<usize>,
    /// Take over results from these folders and run nothing
    #[arg(long, value_name = "FOLDER", num_args = 1.., conflicts_with = "again")]
    merge: Vec<PathBuf>,
    /// Run points that have a result, too
    #[arg(long)]
    again: bool,
    /// Points run at a time [default: the processors of this machine]
    #[arg(long, value_name = "N", value_parser = positive_32)]
    threads: Option<u32>,
    /// No progress and no notes on standard error
    #[arg(long, short)]
    quiet: bool,
}

/// The number of a point.
fn point(text: &str) -> Result<usize, BadValue> {
    let wrong = || BadValue(format!("`{text}` is no point; write numbers as --list shows them, such as 3,7"));
    text.parse().map_err(|_| wrong())
}

impl From<StudyError> for Stop {
    fn from(error: StudyError) -> Stop {
        Stop::user(error)
    }
}

/// `ftl study`.
pub(crate) fn study(args: &StudyArgs, again: &Again) -> Result<(), Stop> {
    let study = Study::open(&args.file)?;
    let path = args.results.clone().unwrap_or_else(|| args.file.with_extension("results"));
    if args.list {
        let stored = Folder::at(&path).load_all(&study)?;
        return say(&table::list(&study, &stored));
    }
    let chosen = match &args.point[..] {
        [] => study.points.iter().collect::<Vec<&Point>>(),
        asked => {
            let asked: BTreeSet<usize> = asked.iter().copied().collect();
            asked.into_iter().map(|number| study.point(number)).collect::<Result<_, _>>()?
        }
    };
    let folder = Folder::create(&path)?;
    let by = &again.origin().version;
    let asked = if !args.merge.is_empty() {
        for other in &args.merge {
            let taken = folder.merge(&study, &Folder::at(other))?;
            tell(args, &format!("{taken} points taken over from {}", other.display()));
        }
        0
    } else {
        run(args, &chosen, &folder, by)?
    };
    let stored = folder.load_all(&study)?;
    if args.point.is_empty() {
        folder.write_whole(&study, &stored)?;
        say(&table::summary(&study, &stored))?;
        let whole = folder.path().display();
        tell(
            args,
            &format!("{whole} holds table.csv, table.parquet and results.json (for ftl report and ftl diff)"),
        );
    }
    versions(args, &stored, by);
    conclude(&study, &stored, &chosen, asked)
}

fn tell(args: &StudyArgs, text: &str) {
    if !args.quiet {
        note(text);
    }
}

/// Runs the points among `chosen` that have no result yet. Returns how many did not end.
fn run(args: &StudyArgs, chosen: &[&Point], folder: &Folder, by: &str) -> Result<usize, Stop> {
    let mut points = Vec::new();
    for &point in chosen {
        if args.again || !folder.has(point)? {
            points.push(point.clone());
        }
    }
    if points.len() < chosen.len() {
        tell(
            args,
            &format!("{} of {} points have a result already", chosen.len() - points.len(), chosen.len()),
        );
    }
    interrupt::catch()?;
    let command = format!("ftl study {} --again", args.file.display());
    let labels: Vec<String> = points.iter().map(Point::label).collect();
    let progress = Overall::new(&labels, args.quiet);
    let admit =
        |experiment: &Experiment| memory::refusal(std::slice::from_ref(experiment), 1).map_or(Ok(()), Err);
    let ended = study::run(&points, folder, threads(args.threads), (&command, by), &progress, &admit);
    progress.finish();
    Ok(points.len() - ended?)
}

/// Whether results are this version's. Python knows its number alone, and not its commit.
fn may_be(of: &str, by: &str) -> bool {
    of == by || of.strip_suffix("(Python)").is_some_and(|number| by.starts_with(number))
}

/// Says so when results were made by other versions than this.
fn versions(args: &StudyArgs, stored: &[Option<Stored>], by: &str) {
    let others: Vec<&str> =
        stored.iter().flatten().map(|stored| stored.by.as_str()).filter(|&of| !may_be(of, by)).collect();
    if let Some(first) = others.first() {
        let count = others.len();
        tell(args, &format!("{count} results were made by another version ({first}; this is {by}); --again makes them anew"));
    }
}

/// How the command ends: findings first, then what was stopped, then points that failed.
fn conclude(study: &Study, stored: &[Option<Stored>], chosen: &[&Point], missing: usize) -> Result<(), Stop> {
    let mut failed = Vec::new();
    for (point, stored) in study.points.iter().zip(stored) {
        let asked = chosen.iter().any(|chosen| chosen.number == point.number);
        if let Some(Ended::Failed { reason, finding }) = stored.as_ref().filter(|_| asked).map(|of| &of.ended)
        {
            let sentence = format!("point {} ({}): {}", point.number, point.label(), one_line(reason));
            if *finding {
                return Err(Stop::Finding(sentence));
            }
            failed.push(sentence);
        }
    }
    if missing > 0 {
        let ended = stored.iter().flatten().count();
        let all = study.points.len();
        return Err(Stop::Interrupted(format!(
            "{ended} of {all} points have ended; the same command goes on"
        )));
    }
    match failed.first() {
        Some(first) => {
            Err(Stop::user(format!("{} of {} points failed; {first}", failed.len(), chosen.len())))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::may_be;

    #[test]
    fn what_python_made_is_of_this_version_if_the_number_is() {
        let by = "0.1.0 (c1e7)";
        assert!(may_be(by, by) && may_be("0.1.0 (Python)", by));
        assert!(!may_be("0.1.0 (d2f8)", by) && !may_be("0.2.0 (Python)", by));
    }
}
