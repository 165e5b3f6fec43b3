//! `ftl size`: how large a mapping cache must be.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use sim::format::digits;
use sim::results::{pretty, to_csv, Run};
use sim::setup::SchemeSpec;
use sim::size::{as_trace, Curve, Sweep};
use sim::{BadValue, CacheSize};

use super::compare::in_words;
use super::files;
use super::interrupt;
use super::memory;
use super::options::{threads, Format, Options};
use super::output;
use super::progress::Bars;
use super::repeat::Again;
use super::stop::{note, say, Stop};
use crate::report::{self, Origin};
use crate::table::size::curve_tables;

const EXAMPLES: &str = "\
Examples:
  ftl size trace.csv.xz --device femu-32g
  ftl size --synth financial1 --schemes dftl,tpftl,tpftl:techniques=-
  ftl size trace.csv.xz --caches 64KiB,256KiB,1MiB,4MiB --report size.html --picture size.svg

Every scheme is run with every cache size, and the ideal page map once. Plain LRU over entries and over translation
pages is computed for all sizes in one pass over the requests.";

/// Arguments of `ftl size`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SizeArgs {
    /// Schemes, with parameters where they differ from the defaults: NAME[:key=value…],… (see `ftl schemes`)
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "dftl,tpftl,cdftl,sftl")]
    schemes: Vec<SchemeSpec>,
    /// Cache sizes to try: shares of the full table (8 bytes a page), or sizes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0.1%,0.3%,1%,3%,10%,30%")]
    caches: Vec<CacheSize>,
    /// Write a picture of flash reads and mean latency by cache size
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
    /// How near to the ideal map counts as reached, in flash reads, write amplification and mean latency
    /// alike
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    within: f64,
    #[command(flatten)]
    options: Options,
}

/// `ftl size`.
pub(crate) fn size(args: SizeArgs, again: &Again) -> Result<(), Stop> {
    let SizeArgs { schemes, caches, picture, within, options } = args;
    if let Some((option, instead)) = without_meaning(&options, picture.as_deref()) {
        return Err(Stop::user(format!("ftl size has no {option}; {instead}")));
    }
    let mut setup = options.setup()?;
    output::check(&options.output, &[("--picture", picture.as_deref())], &setup.files())?;
    as_trace(&mut setup);
    let setup = setup.resolve()?;
    let began = Instant::now();
    let command = |scheme: &SchemeSpec| again.run(scheme, options.input.seed);
    let mut sweep = Sweep::new(&setup, &schemes, &caches, &command)?;
    if !options.running.quiet {
        setup.notes.iter().for_each(|text| note(text));
    }
    memory::check(&sweep.experiments, threads(options.running.threads))?;
    sweep.read_once(&())?;
    interrupt::catch()?;
    let bars = Bars::new(&sweep.names, options.running.quiet);
    let results = sim::compare(&sweep.experiments, threads(options.running.threads), &bars);
    bars.finish();
    let (runs, left_out) = sweep.ran(results).map_err(|error| in_words(&error))?;
    if !options.running.quiet {
        left_out.iter().for_each(|text| note(text));
    }
    let all = sweep.names.len();
    let stopped = Stop::Interrupted(format!("stopped after {} of {all} runs", runs.len()));
    let Some((curve, names)) = sweep.curve(&runs, within) else { return Err(stopped) };
    if runs.len() == 1 && all > 1 && !interrupt::asked() {
        return Err(Stop::user("no scheme can run with any of these caches; give larger ones with --caches"));
    }
    show((&curve, &names), &runs, picture, &options, (began, again.origin()))?;
    if interrupt::asked() {
        Err(stopped)
    } else {
        Ok(())
    }
}

/// An option of a run that says nothing about sizes, and what to give in its place.
fn without_meaning(options: &Options, picture: Option<&Path>) -> Option<(&'static str, &'static str)> {
    let Options { device, running, output, .. } = options;
    let given = [
        (device.cache.is_some(), "--cache", "give the sizes to try with --caches"),
        (running.power_cut, "--power-cut", "use ftl compare"),
        (output.model, "--model", "use ftl compare"),
        (output.output_format == Format::FioJson, "fio-json", "give table, json or csv"),
        (picture.is_some_and(files::is_stdout), "--picture -", "name a file such as --picture curve.svg"),
    ];
    given.into_iter().find(|(given, ..)| *given).map(|(_, option, instead)| (option, instead))
}

/// A share in percent.
pub(crate) fn share(text: &str) -> Result<f64, BadValue> {
    match text.parse() {
        Ok(CacheSize::Share(share)) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(BadValue(format!("`{text}` is no share; write a percentage from 0 % to 100 %, such as 5%"))),
    }
}

fn show(
    (curve, names): (&Curve, &[String]),
    runs: &[Run],
    picture: Option<PathBuf>,
    options: &Options,
    (began, origin): (Instant, &Origin),
) -> Result<(), Stop> {
    let [ideal, ..] = runs else { return Ok(()) };
    let json = || -> Result<String, Stop> { Ok(pretty(&curve.to_value(runs)?)) };
    let format = output::format(&options.output)?;
    say(&match format {
        Format::Json => json()?,
        Format::Csv => to_csv(runs)?,
        Format::Table | Format::FioJson => curve_tables(curve, ideal),
    })?;
    let file = |path: &Option<std::path::PathBuf>| path.clone().filter(|path| path != Path::new("-"));
    let mut written = Vec::new();
    if let Some(path) = file(&options.output.json) {
        files::write(&path, &json()?)?;
        written.push(path);
    }
    if let Some(path) = file(&options.output.csv) {
        files::write(&path, &to_csv(runs)?)?;
        written.push(path);
    }
    if let Some(path) = file(&options.output.report) {
        files::write(&path, &report::size(curve, ideal, names, origin).map_err(Stop::user)?)?;
        written.push(path);
    }
    if let Some(path) = picture {
        files::write(&path, &report::picture(curve, names))?;
        written.push(path);
    }
    let mut closing = format!("Took      {} s\n", digits(began.elapsed().as_secs_f64()));
    for path in written {
        closing += &format!("Written   {}\n", path.display());
    }
    if format == Format::Table {
        say(&closing)
    } else {
        if !options.running.quiet {
            closing.lines().skip(1).for_each(note);
        }
        Ok(())
    }
}
