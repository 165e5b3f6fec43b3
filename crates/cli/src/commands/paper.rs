//! `ftl paper`: the experiments of a paper, its numbers beside ours.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use live::Stop as ServerStop;
use papers::live::{self as on_device, Live};
use papers::{load, names, Claim, Figure, Paper, PaperError, Place, Plan, Results, Scale, Shown};
use serde_json::Value as Json;
use sim::format::digits;
use sim::results::Run;
use sim::setup::{number, positive_32};
use sim::RunError;
use study::{Ended, Folder, Point, Stored};
use tempfile::TempDir;

use super::files;
use super::interrupt;
use super::options::{threads, Format, OutputOptions};
use super::output;
use super::overall::Overall;
use super::repeat::Again;
use super::serving::watch_signals;
use super::stop::{note, say, Stop};
use crate::report::{self, Origin};
use crate::table::paper as table;

/// Arguments of `ftl paper`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ftl paper --list                          papers and figures
  ftl paper tpftl                           all figures, a quick look
  ftl paper learnedftl --figure 14a,14b     two of them
  ftl paper learnedftl --full --results learnedftl.results --report learnedftl.html
                                            hours: what has ended is kept, and the same command goes on
  ftl paper learnedftl --live               fio and RocksDB on live devices of each scheme
  ftl paper lftl --live                     fio on F2FS on live devices, in a virtual machine
  ftl paper mine.toml                       a figure file of your own (docs/papers.md)

A quick look has smaller devices or fewer requests: the line \"Quick\" of a figure says what --full changes, and a figure without
that line is the same in both. Schemes that this build does not have are named in the tables. Exit code 0 also when a number
differs from the paper's: the verdict says so (docs/papers.md has the rules).")]
pub(crate) struct PaperArgs {
    /// Paper, or a figure file of your own (*.toml)
    #[arg(help_heading = "Arguments", value_name = "NAME|FILE.toml", required_unless_present = "list")]
    name: Option<String>,
    /// List papers and figures, and run nothing
    #[arg(long)]
    list: bool,
    /// Figures and tables to run [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    figure: Vec<String>,
    /// Schemes to run, of those that the figures name [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    schemes: Vec<String>,
    /// Run at the paper's scale, and not a quick look
    #[arg(long)]
    full: bool,
    /// Keep how each run ended in this folder; the same command goes on from there when it was stopped
    #[arg(long, value_name = "FOLDER")]
    results: Option<PathBuf>,
    /// Run the figures that real programs measure on live devices, and no others
    #[arg(long)]
    live: bool,
    /// What `ftl bench --json FILE` wrote, for figures about the processor's time
    #[arg(long, value_name = "FILE")]
    bench: Option<PathBuf>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number)]
    seed: u64,
    /// Runs at a time [default: the processors of this machine]
    #[arg(long, value_name = "N", value_parser = positive_32)]
    threads: Option<u32>,
    /// No progress and no notes on standard error
    #[arg(long, short)]
    quiet: bool,
    /// Write everything as JSON (`-`: to standard output, in place of the tables)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a row for each number as CSV (`-`: to standard output, in place of the tables)
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a page with plots that opens offline in any browser
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

/// `ftl paper`.
pub(crate) fn paper(args: PaperArgs, again: &Again) -> Result<(), Stop> {
    let scale = if args.full { Scale::Full } else { Scale::Quick };
    if args.list {
        return list(args.name.as_deref(), scale);
    }
    let outputs = OutputOptions {
        output_format: Format::Table,
        model: false,
        json: args.json.clone(),
        csv: args.csv.clone(),
        report: args.report.clone(),
    };
    let name = args.name.as_deref().unwrap_or_default();
    let inputs = [args.bench.clone(), Some(PathBuf::from(name)).filter(|path| path.is_file())];
    output::check(&outputs, &[], &inputs.into_iter().flatten().collect::<Vec<_>>())?;
    let paper = read(name, scale)?;
    let figures = chosen(&paper, &args.figure, args.live)?;
    known_schemes(&figures, &args.schemes)?;
    if !args.quiet {
        unjudged(&figures, &args.schemes).iter().for_each(|text| note(text));
    }
    let bench = args.bench.as_deref().map(|path| read_bench(path, &figures)).transpose()?;
    let keep = |scheme: &str| args.schemes.is_empty() || args.schemes.iter().any(|asked| asked == scheme);
    let (full, live) = (if args.full { " --full" } else { "" }, if args.live { " --live" } else { "" });
    let repeat = format!("ftl paper {name}{full}{live} --seed {}", args.seed);
    let plan = Plan::new(&figures, &keep, args.seed, &repeat)?;
    on_device::possible(plan.live.iter().flatten())?;
    let stop = ServerStop::new()?;
    if args.live {
        watch_signals(&stop)?;
    } else {
        interrupt::catch()?;
    }
    let began = Instant::now();
    let progress = Overall::new(&plan.labels, args.quiet);
    let tables = !args.to_stdout();
    if tables {
        progress.aside(|| say(&table::head(&paper, &figures, scale)))?;
    }
    let store = Store::open(args.results.as_deref(), &again.origin().version)?;
    store.tell(&plan.points, args.quiet)?;
    let mut ended = Vec::with_capacity(plan.points.len());
    // Figures whose runs have all ended.
    let mut whole = figures.len();
    for (figure, &what) in figures.iter().enumerate() {
        let from = ended.len();
        let part = from..plan.needed_up_to(figure).max(from);
        if args.live {
            for index in store.missing(&plan.points, part.clone(), &progress)? {
                store.keep(&plan.points[index], live_run(&plan, index, &progress, &stop)?)?;
            }
        } else {
            store.run(&plan.points, part.clone(), threads(args.threads), &progress)?;
        }
        ended.extend(store.ended(&plan.points[part])?);
        if interrupt::asked() {
            whole = figure;
            break;
        }
        if tables {
            let results = Results { plan: &plan, ended: &ended, figure, bench: bench.as_ref() };
            let text = table::figure(&paper, &Shown::new(what, results));
            progress.aside(|| say(&format!("\n{text}")))?;
        }
    }
    progress.finish();
    let results = |figure| Results { plan: &plan, ended: &ended, figure, bench: bench.as_ref() };
    let shown = figures[..whole].iter().enumerate().map(|(figure, &what)| Shown::new(what, results(figure)));
    let shown: Vec<Shown> = shown.collect();
    let stopped = Stop::Interrupted(format!("stopped after {whole} of {} figures", figures.len()));
    if whole == 0 {
        return Err(stopped);
    }
    write(&args, &paper, &shown, scale, began.elapsed(), again.origin())?;
    if whole < figures.len() {
        return Err(stopped);
    }
    conclude(&ended, &plan)
}

impl PaperArgs {
    /// Whether JSON or CSV goes to standard output in place of the tables.
    fn to_stdout(&self) -> bool {
        [&self.json, &self.csv].into_iter().flatten().any(|path| path.as_os_str() == "-")
    }
}

/// An experiment on a live device: jobs are simulated first, on the same set-up.
fn live_run(
    plan: &Plan,
    index: usize,
    progress: &Overall,
    stop: &ServerStop,
) -> Result<Result<Run, RunError>, Stop> {
    let experiment = &plan.points[index].experiment("")?;
    let what =
        plan.live[index].as_ref().ok_or_else(|| Stop::user("the figure has nothing that runs live"))?;
    let simulated = match what {
        Live::Fio(_) => sim::run(experiment, &()),
        Live::Rocksdb(_) | Live::F2fs(_) => sim::describe(experiment),
    };
    sim::Progress::fraction(progress, index, 0.1);
    let Ok(mut run) = simulated else { return Ok(simulated) };
    let measured = on_device::measure(experiment, what, stop);
    if stop.wait(Some(Duration::ZERO)) {
        return Err(Stop::user("stopped before the figure was measured"));
    }
    sim::Progress::end(progress, index);
    Ok(measured.map_err(|error| RunError::Spec(sim::BadValue(error.to_string()))).map(|phases| {
        run.phases.extend(phases);
        run
    }))
}

/// A finding ends the command after everything was shown. What a scheme refused stands beside the tables.
fn conclude(ended: &[Ended], plan: &Plan) -> Result<(), Stop> {
    for (ended, label) in ended.iter().zip(&plan.labels) {
        if let Ended::Failed { reason, finding: true } = ended {
            return Err(Stop::Finding(format!("{label}: {reason}")));
        }
    }
    Ok(())
}

/// The figures that were asked for, in the paper's order: those that run live, or the others.
fn chosen<'a>(paper: &'a Paper, asked: &[String], live: bool) -> Result<Vec<&'a Figure>, Stop> {
    let of_this_kind: Vec<&Figure> = paper.figures.iter().filter(|figure| figure.live == live).collect();
    if let Some(other) = asked.iter().find(|id| paper.figures.iter().any(|f| f.id == **id && f.live != live))
    {
        let right = if live { "leave --live out" } else { "give --live" };
        return Err(Stop::user(format!(
            "figure `{other}` {} on live devices; {right}",
            if live { "does not run" } else { "runs" }
        )));
    }
    if of_this_kind.is_empty() {
        let which = if live {
            "runs on live devices; `ftl paper learnedftl --live` has some"
        } else {
            "is simulated; give --live"
        };
        return Err(Stop::user(format!("no figure of {} {which}", paper.name)));
    }
    for id in asked {
        if !of_this_kind.iter().any(|figure| figure.id == *id) {
            let known: Vec<&str> = of_this_kind.iter().map(|figure| figure.id.as_str()).collect();
            return Err(Stop::user(format!(
                "{} has no figure `{id}` here; there are {}",
                paper.name,
                known.join(", ")
            )));
        }
    }
    let wanted = |figure: &&Figure| asked.is_empty() || asked.contains(&figure.id);
    Ok(of_this_kind.into_iter().filter(wanted).collect())
}

/// Refuses a scheme that no figure has.
fn known_schemes(figures: &[&Figure], asked: &[String]) -> Result<(), Stop> {
    let mut known: Vec<&str> = Vec::new();
    for row in figures.iter().flat_map(|figure| &figure.cases).flat_map(|case| &case.rows) {
        let name = row.spec.split(':').next().unwrap_or_default();
        if !known.contains(&name) {
            known.push(name);
        }
    }
    match asked.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            Err(Stop::user(format!("no figure has scheme `{name}`; they have {}", known.join(", "))))
        }
        None => Ok(()),
    }
}

/// A note when claims compare schemes that were not asked for: told before the runs, as they may take hours.
fn unjudged(figures: &[&Figure], asked: &[String]) -> Option<String> {
    if asked.is_empty() {
        return None;
    }
    let runs = |place: &Place| asked.iter().any(|name| Some(name.as_str()) == place.scheme.split(':').next());
    let claims: Vec<&Claim> =
        figures.iter().flat_map(|figure| &figure.claims).filter(|claim| !claim.of.is_empty()).collect();
    let judged = claims.iter().filter(|claim| claim.of.iter().chain(&claim.over).all(runs)).count();
    (judged < claims.len()).then(|| {
        format!(
            "{judged} of {} claims can be judged; the others compare schemes that --schemes leaves out",
            claims.len()
        )
    })
}

/// What `ftl bench --json` wrote, with every number that claims of these figures take from it.
fn read_bench(path: &Path, figures: &[&Figure]) -> Result<Json, Stop> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Stop::user(format!("{name} cannot be read ({error}); name what `ftl bench --json` wrote"))
    })?;
    let found: Json = serde_json::from_str(&text).map_err(|error| {
        Stop::user(format!("{name} is no JSON ({error}); name what `ftl bench --json` wrote"))
    })?;
    let wanted = figures.iter().flat_map(|figure| &figure.claims).flat_map(|claim| &claim.bench);
    for number in wanted {
        if !["device", "schemes"].iter().all(|key| found.get(key).is_some()) {
            return Err(Stop::user(format!("{name} is not what `ftl bench --json` wrote; name such a file")));
        }
        if found.pointer(number).and_then(Json::as_f64).is_none() {
            let learned = number.starts_with("/training/");
            let scheme = if learned { " --schemes learnedftl" } else { "" };
            return Err(Stop::user(format!(
                "{name} has no number {number}; name what `ftl bench{scheme} --json FILE` wrote"
            )));
        }
    }
    Ok(found)
}

/// A paper that is built in, or a figure file of the user's own.
fn read(name: &str, scale: Scale) -> Result<Paper, PaperError> {
    if name.ends_with(".toml") {
        papers::open(name, scale)
    } else {
        load(name, scale)
    }
}

fn list(name: Option<&str>, scale: Scale) -> Result<(), Stop> {
    let wanted: Vec<&str> = match name {
        Some(name) => vec![name],
        None => names(),
    };
    let papers = wanted.iter().map(|name| read(name, scale)).collect::<Result<Vec<Paper>, PaperError>>()?;
    let mut plans = Vec::new();
    for paper in &papers {
        let figures: Vec<&Figure> = paper.figures.iter().collect();
        plans.push(Plan::new(&figures, &|_| true, 1, "")?);
    }
    say(&table::list(&papers, &plans))
}

/// Shows what there is to say of all figures together, and writes the files that were asked for.
fn write(
    args: &PaperArgs,
    paper: &Paper,
    shown: &[Shown],
    scale: Scale,
    took: Duration,
    origin: &Origin,
) -> Result<(), Stop> {
    let to_stdout = |path: &Option<PathBuf>| path.as_deref().is_some_and(|path| path.as_os_str() == "-");
    let json = || Ok::<_, Stop>(sim::results::pretty(&papers::json(paper, shown, scale)?));
    let mut written = Vec::new();
    if let Some(path) = args.json.as_deref().filter(|_| !to_stdout(&args.json)) {
        files::write(path, &json()?)?;
        written.push(("JSON", path));
    }
    if let Some(path) = args.csv.as_deref().filter(|_| !to_stdout(&args.csv)) {
        files::write(path, &papers::csv(paper, shown, scale)?)?;
        written.push(("CSV", path));
    }
    if let Some(path) = &args.report {
        files::write(
            path,
            &report::paper::html(paper, shown, scale, origin, args.seed).map_err(Stop::user)?,
        )?;
        written.push(("Report", path));
    }
    if to_stdout(&args.json) {
        return say(&json()?);
    }
    if to_stdout(&args.csv) {
        return say(&papers::csv(paper, shown, scale)?);
    }
    let mut out = format!("\n{}\n", papers::summary(shown));
    out += &format!("{:<9} {} s\n", "Took", digits(took.as_secs_f64()));
    for (what, path) in written {
        out += &format!("{what:<9} {}\n", path.display());
    }
    say(&out)
}

/// Where it is kept how points ended: in the user's folder, or for this command alone.
struct Store<'a> {
    folder: Folder,
    /// Version and commit of this program.
    by: &'a str,
    _temporary: Option<TempDir>,
}

impl<'a> Store<'a> {
    fn open(path: Option<&Path>, by: &'a str) -> Result<Store<'a>, Stop> {
        let Some(path) = path else {
            let temporary = TempDir::with_prefix("ftl-paper-").map_err(|error| {
                Stop::user(format!("no temporary folder can be made ({error}); name one with --results"))
            })?;
            let folder = Folder::create(&temporary.path().join("results"))?;
            return Ok(Store { folder, by, _temporary: Some(temporary) });
        };
        Ok(Store { folder: Folder::create(path)?, by, _temporary: None })
    }

    /// Says how many points have a run already, and of which version.
    fn tell(&self, points: &[Point], quiet: bool) -> Result<(), Stop> {
        let stored = points.iter().map(|point| self.folder.load(point)).collect::<Result<Vec<_>, _>>()?;
        let here: Vec<&Stored> =
            stored.iter().flatten().filter(|stored| stored.ended.run().is_some()).collect();
        if quiet || here.is_empty() {
            return Ok(());
        }
        note(&format!("{} of {} runs have a result already", here.len(), points.len()));
        if let Some(other) = here.iter().find(|stored| stored.by != self.by) {
            note(&format!(
                "some were made by another version ({}; this is {}); another folder makes them anew",
                other.by, self.by
            ));
        }
        Ok(())
    }

    /// How those of the points ended that have.
    fn ended(&self, points: &[Point]) -> Result<Vec<Ended>, Stop> {
        let stored = points.iter().map(|point| self.folder.load(point)).collect::<Result<Vec<_>, _>>()?;
        Ok(stored.into_iter().flatten().map(|stored| stored.ended).collect())
    }

    /// Indexes of the points in `part` that have no run yet; the others are told to `progress` as ended.
    fn missing(&self, points: &[Point], part: Range<usize>, progress: &Overall) -> Result<Vec<usize>, Stop> {
        let mut missing = Vec::new();
        for index in part {
            if self.folder.has(&points[index])? {
                sim::Progress::end(progress, index);
            } else {
                missing.push(index);
            }
        }
        Ok(missing)
    }

    fn keep(&self, point: &Point, result: Result<Run, RunError>) -> Result<(), Stop> {
        match Ended::of(result) {
            Some(ended) => Ok(self.folder.store(point, &ended, self.by)?),
            None => Ok(()),
        }
    }

    /// Runs the points in `part` that have no run yet.
    fn run(
        &self,
        points: &[Point],
        part: Range<usize>,
        threads: usize,
        progress: &Overall,
    ) -> Result<(), Stop> {
        let indexes = self.missing(points, part, progress)?;
        let missing: Vec<Point> = indexes.iter().map(|&index| points[index].clone()).collect();
        let progress = Among { progress, indexes: &indexes };
        study::run(&missing, &self.folder, threads, ("", self.by), &progress, &|_| Ok(()))?;
        Ok(())
    }
}

/// The progress of some of all points.
struct Among<'a> {
    progress: &'a Overall,
    indexes: &'a [usize],
}

impl sim::Progress for Among<'_> {
    fn stops(&self) -> bool {
        self.progress.stops()
    }

    fn phase(&self, run: usize, phase: usize, phases: usize, name: &str) {
        self.progress.phase(self.indexes[run], phase, phases, name);
    }

    fn fraction(&self, run: usize, done: f64) {
        self.progress.fraction(self.indexes[run], done);
    }

    fn end(&self, run: usize) {
        self.progress.end(self.indexes[run]);
    }
}
