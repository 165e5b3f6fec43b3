//! `ftl size`: how large a mapping cache must be.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use sim::facts::labels;
use sim::format::{bytes, digits};
use sim::results::{pretty, to_csv, to_value, Run};
use sim::setup::{CacheAtStart, SchemeSpec, Setup, WarmUp};
use sim::size::{smallest, Locality, LruPoint, Point};
use sim::{BadValue, CacheSize, Experiment, Listed, Load, RunError, Source};

use super::files;
use super::interrupt;
use super::memory;
use super::options::{threads, Format, Options};
use super::output;
use super::progress::Bars;
use super::repeat::Again;
use super::stop::{note, say, Stop};
use crate::report::{self, Origin};
use crate::table::size::{curve_tables, Curve};
use crate::table::IDEAL;

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
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "0.1%,0.3%,1%,3%,10%,30%",
        conflicts_with = "cache"
    )]
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
    let mut setup = options.setup()?;
    output::check(&options.output, &[("--picture", picture.as_deref())], &setup.files())?;
    if options.output.output_format == Format::FioJson {
        return Err(Stop::user("ftl size has no fio-json; give table, json or csv"));
    }
    as_trace(&mut setup);
    let setup = setup.resolve()?;
    let experiment = |scheme: &SchemeSpec| Experiment {
        command: again.run(scheme, options.input.seed),
        ..setup.experiment(scheme)
    };
    let began = Instant::now();
    let ideal = experiment(&SchemeSpec { name: IDEAL.to_owned(), parameters: Default::default() });
    let exported = ideal.device.exported_pages;
    let mut sizes =
        caches.iter().map(|size| size.bytes(exported)).collect::<Result<Vec<_>, _>>().map_err(Stop::user)?;
    sizes.sort_unstable();
    sizes.dedup();
    let mut experiments = vec![ideal];
    let mut names = vec![IDEAL.to_owned()];
    for scheme in schemes.iter().filter(|scheme| scheme.name != IDEAL) {
        for &cache in &sizes {
            let cache_size = CacheSize::Bytes(cache);
            experiments.push(Experiment { cache: cache_size, ..experiment(scheme) });
            names.push(format!("{scheme} {}", bytes(cache)));
        }
    }
    if !options.running.quiet {
        setup.notes.iter().for_each(|text| note(text));
    }
    memory::check(&experiments, threads(options.running.threads))?;
    let locality = read_once(&mut experiments)?;
    interrupt::catch()?;
    let bars = Bars::new(&names, options.running.quiet);
    let results = sim::compare(&experiments, threads(options.running.threads), &bars);
    bars.finish();
    let runs = those_that_ran(results, &names)?;
    let stopped = Stop::Interrupted(format!("stopped after {} of {} runs", runs.len(), names.len()));
    if runs.first().is_none_or(|ideal| ideal.scheme.name != IDEAL) {
        return Err(stopped);
    }
    if runs.len() == 1 && names.len() > 1 && !interrupt::asked() {
        return Err(Stop::user("no scheme can run with any of these caches; give larger ones with --caches"));
    }
    let lru = locality.map(|locality| sizes.iter().map(|&size| locality.at(size)).collect());
    show(&runs, lru.unwrap_or_default(), within, picture, &options, (began, again.origin()))?;
    if interrupt::asked() {
        Err(stopped)
    } else {
        Ok(())
    }
}

/// A share in percent.
pub(crate) fn share(text: &str) -> Result<f64, BadValue> {
    match text.parse() {
        Ok(CacheSize::Share(share)) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(BadValue(format!("`{text}` is no share; write a percentage from 0 % to 100 %, such as 5%"))),
    }
}

/// What is asked about here is mostly a trace: one may stand where a job file stands elsewhere, and a device
/// that is filled in order will do.
fn as_trace(setup: &mut Setup) {
    let told = setup.columns.is_some() || setup.trace_format.is_some();
    if let Some(path) = setup.job_file.take_if(|path| told || workload::trace::detect(path).is_ok()) {
        setup.trace = Some(path);
    }
    if setup.warm_up.is_none() && (setup.trace.is_some() || setup.synth.is_some()) {
        setup.warm_up = Some(WarmUp::Writes(workload::warm_up::FILL));
    }
    // A larger cache would otherwise look worse, as it keeps more of the warm-up for the measurement to pay.
    setup.cache_state.get_or_insert(CacheAtStart::Clean);
}

/// Reads the requests of a replayed workload once, for all experiments, and gives their stack distances. Of a
/// job file there is no one sequence of requests.
fn read_once(experiments: &mut [Experiment]) -> Result<Option<Locality>, Stop> {
    let experiment = &experiments[0];
    let [phase] = &experiment.phases[..] else { return Ok(None) };
    let (Load::Open { source, .. } | Load::Closed { source, .. }) = &phase.load else { return Ok(None) };
    let device = &experiment.device;
    let requests =
        source.requests(device.exported_bytes(), experiment.seed)?.collect::<Result<Vec<_>, _>>()?;
    let locality = Locality::of(&requests, device.exported_pages, device.geometry.page_bytes);
    let listed: Arc<dyn Source> = Arc::new(Listed::new(source.name(), requests));
    for phase in experiments.iter_mut().flat_map(|experiment| &mut experiment.phases) {
        if let Load::Open { source, .. } | Load::Closed { source, .. } = &mut phase.load {
            *source = Arc::clone(&listed);
        }
    }
    Ok(Some(locality))
}

/// The runs. A cache too small for a scheme has none, which is told, and what was stopped has none either.
fn those_that_ran(results: Vec<Result<Run, RunError>>, names: &[String]) -> Result<Vec<Run>, Stop> {
    let mut runs = Vec::new();
    for (result, name) in results.into_iter().zip(names) {
        match result {
            Ok(run) => runs.push(run),
            Err(RunError::Stopped { .. }) => {}
            Err(RunError::Open(error)) if name != IDEAL => note(&format!("left out: {error}")),
            Err(error @ (RunError::Broken { .. } | RunError::Panicked { .. })) => {
                return Err(Stop::Finding(error.to_string()));
            }
            Err(error) => return Err(Stop::User(error.to_string())),
        }
    }
    Ok(runs)
}

/// What `--json` writes.
#[derive(Serialize)]
struct Document<'a> {
    ideal: &'a Point,
    points: &'a [Point],
    smallest_near_ideal: Vec<(String, Option<u64>)>,
    within: f64,
    lru: &'a [LruPoint],
    runs: Vec<serde_json::Value>,
}

fn show(
    runs: &[Run],
    lru: Vec<LruPoint>,
    within: f64,
    picture: Option<PathBuf>,
    options: &Options,
    (began, origin): (Instant, &Origin),
) -> Result<(), Stop> {
    let [ideal, others @ ..] = runs else { return Ok(()) };
    // One label for all sizes of a variant: label each variant once.
    let mut variants: Vec<Run> = Vec::new();
    for run in others {
        if !variants.iter().any(|known| known.scheme == run.scheme) {
            variants.push(Run { scheme: run.scheme.clone(), ..Run::default() });
        }
    }
    let names = labels(&variants);
    let name = |run: &Run| {
        let at = variants.iter().position(|known| known.scheme == run.scheme).unwrap_or(0);
        names.get(at).cloned().unwrap_or_default()
    };
    let points: Vec<Point> = others.iter().map(|run| Point::of(run, name(run))).collect();
    let curve = Curve { ideal: Point::of(ideal, IDEAL), points, lru, within };
    let json = || -> Result<String, Stop> {
        let document = Document {
            ideal: &curve.ideal,
            points: &curve.points,
            smallest_near_ideal: smallest(&curve.points, &curve.ideal, within),
            within,
            lru: &curve.lru,
            runs: runs.iter().map(to_value).collect::<Result<Vec<_>, _>>()?,
        };
        let value = serde_json::to_value(document).map_err(|error| Stop::user(format!("JSON: {error}")))?;
        Ok(pretty(&value))
    };
    let format = output::format(&options.output)?;
    say(&match format {
        Format::Json => json()?,
        Format::Csv => to_csv(runs)?,
        Format::Table | Format::FioJson => curve_tables(&curve, ideal),
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
        files::write(&path, &report::size(&curve, ideal, &names, origin).map_err(Stop::user)?)?;
        written.push(path);
    }
    if let Some(path) = picture {
        files::write(&path, &report::picture(&curve, &names))?;
        written.push(path);
    }
    let mut closing = format!("Took      {} s\n", digits(began.elapsed().as_secs_f64()));
    for path in written {
        closing += &format!("Written   {}\n", path.display());
    }
    if format == Format::Table {
        say(&closing)
    } else {
        closing.lines().skip(1).for_each(note);
        Ok(())
    }
}
