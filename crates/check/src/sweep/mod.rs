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
    /// Parameters of the scheme.
    pub parameters: BTreeMap<String, String>,
}

impl SweepOptions {
    /// A sweep of `cuts` cuts without flash faults, with default parameters.
    pub fn new(scheme: &str, seed: u64, cuts: u64) -> SweepOptions {
        SweepOptions {
            scheme: scheme.to_owned(),
            seed,
            cuts,
            budget: None,
            only_cut: None,
            faults: false,
            parameters: BTreeMap::new(),
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

    /// Whether everything that recovery must get right was under way when the power was cut. A sweep that
    /// never collected proves nothing.
    fn is_complete(&self) -> Result<(), String> {
        for (index, kind) in ["data", "translation", "metadata"].into_iter().enumerate() {
            if self.programmed[index] > 0 && self.erased[index] == 0 {
                return Err(format!(
                    "the sweep is too small: {} {kind} pages were programmed but no block of them was ever erased",
                    self.programmed[index]
                ));
            }
        }
        if self.torn_pages == 0 || self.torn_blocks == 0 {
            return Err("the sweep is too small: it tore no page, or no block".to_owned());
        }
        Ok(())
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
    while options.budget.map_or(report.cuts < total, |budget| start.elapsed() < budget) {
        let before = report.cuts;
        let mut round: Round<S, N> = Round::new(options, seed);
        let wanted = if options.budget.is_some() { CUTS_A_RUN } else { (total - before).min(CUTS_A_RUN) };
        let mut tell = |done: u64| match &options.budget {
            Some(budget) => {
                progress(start.elapsed().min(*budget).as_millis() as u64, budget.as_millis() as u64)
            }
            None => progress(before + done, total),
        };
        // A panic is a finding: the scheme's or the array's assertion failed. The round is given up after it.
        let ended = catch_unwind(AssertUnwindSafe(|| round.run(wanted, &mut report, &mut tell)));
        let trouble = match ended {
            Ok(Ok(())) => None,
            Ok(Err(what)) => Some(what),
            Err(panic) => Some(panic_text(panic.as_ref())),
        };
        if let Some(what) = trouble {
            let Trouble { cut, no_such_cut, phase } = round.trouble();
            return Err(Failure { no_such_cut, ..failure(options, seed, cut, &phase, what) });
        }
        if report.cuts == before {
            return Err(failure(options, seed, None, "sweep", "the run has nothing to cut".to_owned()));
        }
        report.runs += 1;
        seed = seed.wrapping_add(1);
    }
    report.elapsed = start.elapsed();
    if options.only_cut.is_none() && report.cuts >= CUTS_A_RUN {
        report.is_complete().map_err(|what| failure(options, options.seed, None, "coverage", what))?;
    }
    Ok(report)
}

fn failure(options: &SweepOptions, seed: u64, cut: Option<u64>, phase: &str, what: String) -> Failure {
    Failure { cut, faults: options.faults, ..Failure::new(&options.scheme, seed, phase, what) }
}
