//! The power-cut sweep. `docs/crash-model.md` says what it shows, and what it does not.

mod round;

use crate::failure::{panic_text, Failure};
use crate::world::Cuttable;
use ftl::schemes::{self, Visitor};
use ftl::Scheme;
use nand::CrashNand;
use round::{Round, Trouble};
use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::{Duration, Instant};

/// Cuts made in one run of the device; then another seed gives another device, workload and interleaving.
const CUTS_A_RUN: u64 = 500;
/// The same in a swarm, where the devices differ more than the cuts of one.
const CUTS_A_SWARM_RUN: u64 = 50;

/// What to sweep.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// The scheme, by its registered name.
    pub scheme: String,
    /// The first seed. A failure names the seed of its run.
    pub seed: u64,
    /// Cuts in all, 500 to a run.
    pub cuts: u64,
    /// Time to spend, in place of a number of cuts; the run under way is ended.
    pub budget: Option<Duration>,
    /// Only this cut, of the run with `seed`.
    pub only_cut: Option<u64>,
    /// Factory bad blocks, and programs and erases that fail, too.
    pub faults: bool,
    /// Devices by chance in every respect: shape, utilisation, cache, thresholds, parameters.
    pub swarm: bool,
    /// Requests made while the power may be cut.
    pub requests: u32,
    /// Parameters of the scheme.
    pub parameters: BTreeMap<String, String>,
    /// Whether somebody wants the sweep to end: it ends before its next run, with what it found so far.
    pub stop: fn() -> bool,
}

impl SweepOptions {
    /// Requests made while the power may be cut, unless told otherwise.
    pub const REQUESTS: u32 = 400;

    /// A sweep of `cuts` cuts without flash faults, with default parameters.
    pub fn new(scheme: &str, seed: u64, cuts: u64) -> SweepOptions {
        SweepOptions {
            scheme: scheme.to_owned(),
            seed,
            cuts,
            budget: None,
            only_cut: None,
            faults: false,
            swarm: false,
            requests: SweepOptions::REQUESTS,
            parameters: BTreeMap::new(),
            stop: || false,
        }
    }
}

/// What a sweep covered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Runs, each of another seed.
    pub runs: u64,
    /// Cuts of the running device.
    pub cuts: u64,
    /// Cuts of a device that was recovering from a cut, or working again after one.
    pub nested_cuts: u64,
    /// Cuts with nothing in flight.
    pub quiet_cuts: u64,
    /// Pages torn.
    pub torn_pages: u64,
    /// Blocks torn.
    pub torn_blocks: u64,
    /// Operations in flight that had happened.
    pub completed: u64,
    /// Operations in flight that had not happened.
    pub dropped: u64,
    /// Programs and erases in the logs that were cut.
    pub operations: u64,
    /// Pages programmed while cuts were possible: data, translation, metadata.
    pub programmed: [u64; 3],
    /// Blocks erased while cuts were possible: data, translation, metadata.
    pub erased: [u64; 3],
    /// Data superblocks collected while cuts were possible.
    pub collections_data: u64,
    /// Translation superblocks collected while cuts were possible.
    pub collections_translation: u64,
    /// Groups of LPNs brought together.
    pub collections_group: u64,
    /// What the scheme counted itself while cuts were possible, by the name of the statistic.
    pub stats: BTreeMap<&'static str, u64>,
    /// How long it took.
    pub elapsed: Duration,
}

impl SweepReport {
    /// Cuts, nested ones included, a second.
    pub fn cuts_a_second(&self) -> u64 {
        let micros = self.elapsed.as_micros().max(1);
        (u128::from(self.cuts + self.nested_cuts) * 1_000_000 / micros) as u64
    }

    /// What recovery must get right and these cuts did not show, if anything: a sweep that never collected
    /// proves little. A few runs of small devices can miss what thousands of cuts do not.
    pub fn not_exercised(&self) -> Option<String> {
        for (index, kind) in ["data", "translation", "metadata"].into_iter().enumerate() {
            if self.programmed[index] > 0 && self.erased[index] == 0 {
                return Some(format!(
                    "{} {kind} pages were programmed, but no block of them was erased",
                    self.programmed[index]
                ));
            }
        }
        (self.torn_pages == 0 || self.torn_blocks == 0).then(|| "no page was torn, or no block".to_owned())
    }
}

/// Cuts the power of a registered scheme and recovers, again and again. `progress` hears of the cuts made and
/// to make.
///
/// ```
/// let report = check::sweep(&check::SweepOptions::new("page", 1, 1000), &mut |_, _| {});
/// assert!(report.is_ok_and(|report| report.torn_pages > 0));
/// ```
pub fn sweep(options: &SweepOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<SweepReport, Failure> {
    struct Run<'a>(&'a SweepOptions, &'a mut dyn FnMut(u64, u64));
    impl Visitor for Run<'_> {
        type Out = Result<SweepReport, Failure>;
        fn visit<S: Scheme + Clone + Send + 'static>(self) -> Self::Out {
            sweep_of::<S, CrashNand>(self.0, self.1)
        }
    }
    schemes::with(&options.scheme, Run(options, progress)).unwrap_or_else(|| {
        let known: Vec<&str> = schemes::ALL.iter().map(|info| info.name).collect();
        let what = format!("there is no such scheme; there are {}", known.join(", "));
        Err(failure(options, options.seed, None, "sweep", what))
    })
}

/// The same for any scheme, registered or not, in any world that can be cut: `options.scheme` is only its
/// name here.
pub fn sweep_of<S: Scheme, N: Cuttable>(
    options: &SweepOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<SweepReport, Failure> {
    let start = Instant::now();
    let mut report = SweepReport::default();
    let total = if options.only_cut.is_some() { 1 } else { options.cuts };
    let mut seed = options.seed;
    let a_run = if options.swarm { CUTS_A_SWARM_RUN } else { CUTS_A_RUN };
    let is_due = |cuts: u64| options.budget.map_or(cuts < total, |budget| start.elapsed() < budget);
    while is_due(report.cuts) && !(options.stop)() {
        let before = report.cuts;
        let wanted = if options.budget.is_some() { a_run } else { (total - before).min(a_run) };
        let mut tell = |done: u64| match &options.budget {
            Some(budget) => {
                progress(start.elapsed().min(*budget).as_millis() as u64, budget.as_millis() as u64)
            }
            None => progress(before + done, total),
        };
        run::<S, N>(options, seed, wanted, &mut report, &mut tell)
            .map_err(|found| smallest::<S, N>(options, found))?;
        // A device of a swarm may be worn out before the power can be cut.
        if report.cuts == before && !options.swarm {
            return Err(failure(options, seed, None, "sweep", "the run has nothing to cut".to_owned()));
        }
        report.runs += 1;
        seed = seed.wrapping_add(1);
    }
    report.elapsed = start.elapsed();
    Ok(report)
}

fn failure(options: &SweepOptions, seed: u64, cut: Option<u64>, phase: &str, what: String) -> Failure {
    let requests = Some(options.requests).filter(|&requests| requests != SweepOptions::REQUESTS);
    let (faults, swarm) = (options.faults, options.swarm);
    let found = Failure::new(&options.scheme, seed, phase, what).with_parameters(&options.parameters);
    Failure { cut, faults, swarm, requests, ..found }
}

/// The same finding with as few requests as still show it at the same cut.
fn smallest<S: Scheme, N: Cuttable>(options: &SweepOptions, found: Failure) -> Failure {
    let (mut least, mut most, mut smallest) = (0, options.requests, found);
    if smallest.no_such_cut || options.only_cut.is_some() {
        return smallest;
    }
    let repeat = SweepOptions { seed: smallest.seed, only_cut: smallest.cut, ..options.clone() };
    while least + 1 < most {
        let requests = least + (most - least) / 2;
        let fewer = SweepOptions { requests, ..repeat.clone() };
        match run::<S, N>(&fewer, fewer.seed, 1, &mut SweepReport::default(), &mut |_| {}) {
            Err(failure) if (failure.cut, &failure.phase) == (smallest.cut, &smallest.phase) => {
                (most, smallest) = (requests, failure);
            }
            _ => least = requests,
        }
    }
    smallest
}

/// Makes `wanted` cuts of the run of `seed`.
fn run<S: Scheme, N: Cuttable>(
    options: &SweepOptions,
    seed: u64,
    wanted: u64,
    report: &mut SweepReport,
    tell: &mut dyn FnMut(u64),
) -> Result<(), Failure> {
    let mut round: Round<S, N> = Round::new(options, seed);
    // A panic is a finding: the scheme's or the array's assertion failed. The round is given up after it.
    let ended = catch_unwind(AssertUnwindSafe(|| round.run(wanted, report, tell)));
    let mut what = match ended {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(what)) => what,
        Err(panic) => panic_text(panic.as_ref()),
    };
    let Trouble { cut, no_such_cut, phase, device } = round.trouble();
    if let Some(device) = device {
        what += &format!("; the device: {device}");
    }
    Err(Failure { no_such_cut, ..failure(options, seed, cut, &phase, what) })
}
