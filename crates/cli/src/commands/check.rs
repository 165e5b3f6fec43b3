//! `ftl check`: power cuts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::Duration;

use check::{
    damage, sweep, wear_out, DamageOptions, Failure, Outcome, SweepOptions, SweepReport, WearReport,
};
use clap::Args;
use nand::DeviceSpec;
use serde_json::json;
use sim::format::{digits, time, whole};
use sim::setup::{number, positive, positive_32, time_ns, SchemeSpec};
use sim::{CacheSize, Experiment};

use super::compare::rehearse;
use super::files;
use super::interrupt;
use super::options::threads;
use super::progress::Bars;
use super::stop::{note, one_line, say, Stop};
use crate::table::grid::Grid;

/// Arguments of `ftl check`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ftl check                                    every scheme, 10 000 power cuts each
  ftl check --scheme tpftl --cuts 1000000 --faults
  ftl check --scheme dftl --seed 7 --cut 123   one cut again, as a finding names it
  ftl check --budget 8h --faults --seed random --json night.json
                                               a night of cuts that nobody made before
  ftl check --swarm --faults --cuts 100000     devices of all shapes, utilisations, caches and parameters
  ftl check --damage --cuts 5000               flipped bits and lost sectors in images, 5000 for each scheme
  ftl check --until-worn --cuts 1000           a thousand devices of each scheme, used until their blocks have failed

The power is cut at any flash operation of a running device, whatever is in flight torn or lost; the scheme recovers, and
everything acknowledged before must be there. With --damage, images of the live device are damaged instead: a page must
then read as what was written, or as an error. With --until-worn, a device whose blocks fail early is used until it refuses
writes: all that was written must stay readable, and the device must open again. Exit code 1 when something is not.")]
pub(crate) struct CheckArgs {
    /// Scheme, with parameters where they differ from the defaults, or `all`
    #[arg(long, value_name = "NAME[:key=value…]", default_value = "all")]
    scheme: String,
    /// First seed; each run of 500 cuts takes the next. `random` draws one and says which
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    seed: Seed,
    /// Power cuts for each scheme, places damaged, or devices worn out [default: 10000, or 100 devices]
    #[arg(long, value_name = "N", value_parser = positive)]
    cuts: Option<u64>,
    /// Time to spend on all schemes together, in place of a number of cuts
    #[arg(long, value_name = "TIME", value_parser = time_ns, conflicts_with_all = ["cuts", "cut", "damage"])]
    budget: Option<u64>,
    /// Only this cut of the run with --seed, as a finding names it
    #[arg(long, value_name = "K", value_parser = number, conflicts_with = "cuts")]
    cut: Option<u64>,
    /// Factory bad blocks, and programs and erases that fail, too
    #[arg(long)]
    faults: bool,
    /// Draw each device from all there are: shape, utilisation, cache, thresholds, victims, parameters
    #[arg(long, conflicts_with = "damage")]
    swarm: bool,
    /// Requests of a run, as a finding names them
    #[arg(long, value_name = "N", default_value_t = SweepOptions::REQUESTS, value_parser = positive_32, conflicts_with = "damage")]
    requests: u32,
    /// Damage image files in place of cutting the power
    #[arg(long, conflicts_with = "faults")]
    damage: bool,
    /// Use devices until they are worn out in place of cutting the power
    #[arg(long, conflicts_with_all = ["budget", "cut", "faults", "swarm", "requests", "damage", "json"])]
    until_worn: bool,
    /// Schemes checked at a time [default: the processors of this machine]
    #[arg(long, value_name = "N", value_parser = positive_32)]
    threads: Option<u32>,
    /// Write what was found as JSON (`-`: to standard output, in place of the table)
    #[arg(long, value_name = "FILE", conflicts_with = "damage")]
    json: Option<PathBuf>,
    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

impl CheckArgs {
    fn cuts(&self) -> u64 {
        self.cuts.unwrap_or(if self.until_worn { 100 } else { 10_000 })
    }
}

/// A seed, and whether it was drawn.
#[derive(Clone, Copy, Debug)]
struct Seed {
    value: u64,
    drawn: bool,
}

/// A number, or `random`.
fn seed(text: &str) -> Result<Seed, sim::BadValue> {
    if text != "random" {
        return Ok(Seed { value: number(text)?, drawn: false });
    }
    Ok(Seed { value: check::fresh_seed(), drawn: true })
}

/// `ftl check`.
pub(crate) fn check(args: CheckArgs) -> Result<(), Stop> {
    let schemes: Vec<SchemeSpec> = if args.scheme == "all" {
        ftl::schemes::ALL.iter().map(|info| info.name.parse()).collect::<Result<_, _>>()?
    } else {
        vec![args.scheme.parse()?]
    };
    for scheme in &schemes {
        let mut trial = Experiment::new(DeviceSpec::named("tpftl-512m")?, &scheme.name);
        trial.parameters.clone_from(&scheme.parameters);
        trial.cache = CacheSize::Share(1.0); // whether the parameters are possible at all
        rehearse(&trial)?;
    }
    files::check(&[("--json", args.json.as_deref())], &[])?;
    interrupt::catch()?;
    if args.seed.drawn {
        note(&format!("--seed random drew {}", args.seed.value));
    }
    if args.damage {
        return check_damage(&args, &schemes);
    }
    if args.until_worn {
        return check_lives(&args, &schemes);
    }
    let what = match (args.cut, args.budget) {
        (Some(cut), _) => format!("cut {cut}"),
        (_, Some(budget)) => format!("its share of {}", time(budget as f64)),
        _ => format!("{} power cuts", whole(args.cuts())),
    };
    let results = of_each(&args, &schemes, &what, |scheme, tell| {
        let result = sweep(&sweep_options(&args, scheme, schemes.len()), tell);
        match (&result, args.cut) {
            // A night has hours left when it finds something; nobody should wait for them.
            (Err(failure), _) if args.budget.is_some() && !args.quiet => note(&in_words(scheme, failure)),
            (Ok(report), None) if !interrupt::asked() => {
                if let Some(what) = report.not_exercised() {
                    note(&format!("{scheme}: nothing was lost, but {what}: more cuts would say more"));
                }
            }
            _ => {}
        }
        result
    });
    let found = with_result(&schemes, results)?;
    if let Some((_, Err(failure))) =
        found.iter().find(|(_, found)| found.as_ref().is_err_and(|of| of.no_such_cut))
    {
        return Err(Stop::user(format!("--cut: {}; give one of them", failure.what)));
    }
    let json =
        || sim::results::pretty(&found.iter().map(|(scheme, result)| in_json(scheme, result)).collect());
    match args.json.as_deref() {
        Some(path) if files::is_stdout(path) => say(&json())?,
        path => {
            say(&table(&found))?;
            path.map_or(Ok(()), |path| files::write(path, &json()))?;
        }
    }
    match found.iter().find_map(|(scheme, result)| result.as_ref().err().map(|failure| (*scheme, failure))) {
        Some((scheme, failure)) => Err(Stop::Finding(in_words(scheme, failure))),
        None => ended(found.len(), &schemes),
    }
}

/// The schemes that were checked, at least in part, with what was found.
fn with_result<R>(schemes: &[SchemeSpec], results: Vec<Option<R>>) -> Result<Vec<(&SchemeSpec, R)>, Stop> {
    let mut found = Vec::new();
    for (scheme, result) in schemes.iter().zip(results) {
        match result {
            Some(result) => found.push((scheme, result)),
            None if interrupt::asked() => {}
            None => return Err(Stop::user(format!("the check of {scheme} ended without a result"))),
        }
    }
    Ok(found)
}

/// The end of a check that found nothing, of so many of the schemes.
fn ended(checked: usize, schemes: &[SchemeSpec]) -> Result<(), Stop> {
    if !interrupt::asked() {
        return Ok(());
    }
    let all = schemes.len();
    Err(Stop::Interrupted(format!("stopped: {checked} of {all} schemes were checked, the last ones in part")))
}

/// Checks the schemes, several at a time, and shows how far each is.
fn of_each<R: Send>(
    args: &CheckArgs,
    schemes: &[SchemeSpec],
    what: &str,
    run: impl Fn(&SchemeSpec, &mut dyn FnMut(u64, u64)) -> R + Sync,
) -> Vec<Option<R>> {
    let names: Vec<String> = schemes.iter().map(ToString::to_string).collect();
    let bars = Bars::new(&names, args.quiet);
    let threads = threads(args.threads).clamp(1, schemes.len());
    let results: Vec<Mutex<Option<R>>> = schemes.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(scheme) = schemes.get(index).filter(|_| !interrupt::asked()) else { break };
                bars.begin(index, what);
                let mut tell = |done: u64, all: u64| bars.done(index, done as f64 / all.max(1) as f64);
                let result = run(scheme, &mut tell);
                bars.ended(index);
                if let Ok(mut place) = results[index].lock() {
                    *place = Some(result);
                }
            });
        }
    });
    bars.finish();
    results.into_iter().map(|place| place.into_inner().ok().flatten()).collect()
}

/// `ftl check --damage`.
fn check_damage(args: &CheckArgs, schemes: &[SchemeSpec]) -> Result<(), Stop> {
    let what = format!("{} places damaged", whole(args.cuts()));
    let results = of_each(args, schemes, &what, |scheme, tell| {
        let options = DamageOptions {
            scheme: scheme.name.clone(),
            parameters: scheme.parameters.clone(),
            seed: args.seed.value,
            tries: args.cuts(),
            only: args.cut,
            stop: interrupt::asked,
        };
        damage(&options, tell)
    });
    let header = ["scheme", "damaged", "right", "error", "refused", "WRONG", "PANIC"];
    let mut grid = Grid::new("Damaged images", header);
    let (mut parts, mut first) = (BTreeMap::<(&str, bool), [u64; 5]>::new(), None);
    let found = with_result(schemes, results)?;
    let checked = found.len();
    for (scheme, result) in found {
        match result {
            Ok(report) => {
                let counts = Outcome::ALL.map(|outcome| whole(report.count(outcome)));
                grid.row([scheme.to_string(), whole(report.tries())].into_iter().chain(counts));
                for (part, counts) in &report.parts {
                    let all = parts.entry(*part).or_default();
                    all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
                }
                first = first.or_else(|| report.finding.map(|finding| (scheme, finding)));
            }
            Err(failure) => {
                let cells = ["FAILED", "", "", "", "", ""].map(str::to_owned);
                grid.row(std::iter::once(scheme.to_string()).chain(cells));
                first.get_or_insert((scheme, failure));
            }
        }
    }
    let header = ["damaged part", "places", "right", "error", "refused", "WRONG", "PANIC"];
    let mut by_part = Grid::new("By part of the image", header);
    for ((part, is_in_both), counts) in parts {
        let name = if is_in_both { format!("{part}, both copies") } else { part.to_owned() };
        let cells = [name, whole(counts.iter().sum())];
        by_part.row(cells.into_iter().chain(counts.map(whole)));
    }
    say(&(grid.text() + &by_part.text()))?;
    first.map_or_else(
        || ended(checked, schemes),
        |(scheme, failure)| Err(Stop::Finding(in_words(scheme, &failure))),
    )
}

/// `ftl check --until-worn`.
fn check_lives(args: &CheckArgs, schemes: &[SchemeSpec]) -> Result<(), Stop> {
    let what = format!("{} devices worn out", whole(args.cuts()));
    let results = of_each(args, schemes, &what, |scheme, tell| {
        let (mut ended, mut lived, mut all) = (0, 0, WearReport::default());
        for number in 0..args.cuts() {
            if interrupt::asked() {
                break;
            }
            let life = wear_out(&scheme.name, &scheme.parameters, args.seed.value.wrapping_add(number))?;
            ended += u64::from(life.ended);
            (all.writes, all.erases) = (all.writes + life.writes, all.erases + life.erases);
            lived += 1;
            tell(lived, args.cuts());
        }
        Ok::<_, Failure>((ended, lived, all))
    });
    let header = ["scheme", "found", "devices", "worn out", "outlived the host", "pages written", "erases"];
    let (mut grid, mut first) = (Grid::new("Ends of life", header), None);
    let found = with_result(schemes, results)?;
    let checked = found.len();
    for (scheme, result) in found {
        let cells = match result {
            Ok((ended, lived, WearReport { writes, erases, .. })) => {
                let counts = [lived, ended, lived - ended, writes, erases];
                std::iter::once("nothing lost".to_owned()).chain(counts.map(whole)).collect()
            }
            Err(failure) => {
                first.get_or_insert((scheme, failure));
                ["FAILED", "", "", "", "", ""].map(str::to_owned).to_vec()
            }
        };
        grid.row(std::iter::once(scheme.to_string()).chain(cells));
    }
    say(&grid.text())?;
    first.map_or_else(
        || ended(checked, schemes),
        |(scheme, failure)| Err(Stop::Finding(in_words(scheme, &failure))),
    )
}

/// What to do with one of so many schemes. Each has the same share of a budget, however many run at a time.
fn sweep_options(args: &CheckArgs, scheme: &SchemeSpec, schemes: usize) -> SweepOptions {
    let at_a_time = threads(args.threads).clamp(1, schemes);
    let share = |budget: u64| Duration::from_nanos(budget).mul_f64(at_a_time as f64 / schemes as f64);
    SweepOptions {
        only_cut: args.cut,
        budget: args.budget.map(share),
        faults: args.faults,
        swarm: args.swarm,
        requests: args.requests,
        parameters: scheme.parameters.clone(),
        stop: interrupt::asked,
        ..SweepOptions::new(&scheme.name, args.seed.value, args.cuts())
    }
}

fn table(found: &[(&SchemeSpec, Result<SweepReport, Failure>)]) -> String {
    let header = [
        "scheme",
        "found",
        "cuts",
        "while recovering",
        "pages torn",
        "in flight",
        "done",
        "dropped",
        "cuts/s",
    ];
    let mut grid = Grid::new("Power cuts", header);
    for (scheme, result) in found {
        let cells = match result {
            Ok(report) => [
                "nothing lost".to_owned(),
                whole(report.cuts),
                whole(report.nested_cuts),
                whole(report.torn_pages + report.torn_blocks),
                digits((report.completed + report.dropped) as f64 / report.cuts.max(1) as f64),
                whole(report.completed),
                whole(report.dropped),
                whole(report.cuts_a_second()),
            ],
            Err(_) => ["FAILED", "", "", "", "", "", "", ""].map(str::to_owned),
        };
        grid.row(std::iter::once(scheme.to_string()).chain(cells));
    }
    grid.text()
}

/// What was done with a scheme, and what was found, if anything was.
fn in_json(scheme: &SchemeSpec, result: &Result<SweepReport, Failure>) -> serde_json::Value {
    match result {
        Ok(report) => json!({
            "scheme": scheme.to_string(),
            "finding": null,
            "runs": report.runs,
            "cuts": report.cuts,
            "nested_cuts": report.nested_cuts,
            "torn_pages": report.torn_pages,
            "torn_blocks": report.torn_blocks,
            "completed": report.completed,
            "dropped": report.dropped,
            "not_exercised": report.not_exercised(),
            "elapsed_s": report.elapsed.as_secs_f64(),
        }),
        Err(failure) => json!({
            "scheme": scheme.to_string(),
            "finding": in_words(scheme, failure),
            "seed": failure.seed,
            "cut": failure.cut,
            "phase": failure.phase,
            "what": failure.what,
            "repeat": repeat(scheme, failure),
        }),
    }
}

/// The command that repeats a finding, with the parameters of its scheme, which the check does not name.
fn repeat(scheme: &SchemeSpec, failure: &Failure) -> String {
    Failure { scheme: scheme.to_string(), ..failure.clone() }.command()
}

fn in_words(scheme: &SchemeSpec, failure: &Failure) -> String {
    let cut = failure.cut.map_or_else(String::new, |cut| format!(", cut {cut}"));
    let command = repeat(scheme, failure);
    one_line(&format!(
        "scheme {scheme}, seed {}{cut}, {}: {}; repeat with: {command}",
        failure.seed, failure.phase, failure.what
    ))
}
