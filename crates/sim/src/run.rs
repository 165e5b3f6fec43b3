//! Runs experiments: one, or several on the cores.

use std::cell::RefCell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use ftl::schemes::Visitor;
use ftl::{Config, Device, HostError, OpenError, Scheme};
use nand::timing::{NoClock, Queued, Reserved};
use nand::{Fault, Nand, SimNand, SimOptions};

use crate::assemble::{self, Measured};
use crate::cpu::Stopwatch;
use crate::error::{impossible, RunError};
use crate::host::{Host, Rig, Stop, Timed};
use crate::invariants;
use crate::look::Tell;
use crate::meter::{Digest, Meter};
use crate::occupancy::{self, Occupancy};
use crate::plan::{self, HostSoftware};
use crate::progress::{Progress, Told};
use crate::reference::{Reference, Verify};
use crate::results::{Invariant, Recovery, Run, SchemeInfo, SimSpeed, StatInfo, WorkloadInfo, WornOut};
use crate::source::{Listed, Requests};
use crate::spec::{CacheState, Experiment, HostTime, Load, PhaseSpec, Series, TimingModel};

/// Runs one experiment. Every result has passed every invariant.
///
/// # Errors
/// [`RunError`]; [`RunError::Broken`] carries the results.
pub fn run(experiment: &Experiment, progress: &dyn Progress) -> Result<Run, RunError> {
    run_as(0, experiment, progress)
}

/// Opens the scheme on the device and issues nothing, so that what cannot work is told of at once.
///
/// # Errors
/// The experiment is impossible, or the scheme refuses the device.
pub fn rehearse(experiment: &Experiment) -> Result<(), RunError> {
    let nothing = Listed::new("nothing", Vec::new());
    let phase = PhaseSpec::new("start", Load::Closed { source: Arc::new(nothing), depth: 1 });
    let rehearsal = Experiment {
        warm_up: Vec::new(),
        phases: vec![phase],
        timing: TimingModel::NoClock,
        verify: Verify::Off,
        until_worn: false,
        ..experiment.clone()
    };
    run(&rehearsal, &()).map(|_| ())
}

/// What is known of a run before its first request: scheme, device, memory, workload.
///
/// # Errors
/// The experiment is impossible, or the scheme refuses the device.
pub fn describe(experiment: &Experiment) -> Result<Run, RunError> {
    struct Describe<'a>(&'a Experiment);
    impl Visitor for Describe<'_> {
        type Out = Result<Run, RunError>;

        fn visit<S: Scheme + Clone + Send + 'static>(self) -> Self::Out {
            let phase = RefCell::new(String::new());
            let mut runner = Runner::begin(0, self.0, &(), &phase)?;
            let rig = runner.new_rig::<S>()?;
            runner.describe::<S>(rig.device.nand());
            runner.run.memory = assemble::memory_use(&runner.config, &rig.device.memory());
            Ok(runner.run)
        }
    }
    ftl::schemes::with(&experiment.scheme, Describe(experiment))
        .unwrap_or_else(|| Err(unknown(&experiment.scheme)))
}

/// The requests of an experiment's warm-up in the order in which a run with the clock off makes them, jobs
/// that run together one after the other.
///
/// # Errors
/// The experiment is impossible, or its requests cannot be read.
pub fn warm_up(experiment: &Experiment) -> Result<Requests, RunError> {
    let phase = RefCell::new(String::new());
    let runner = Runner::begin(0, experiment, &(), &phase)?;
    let mut all: Requests = Box::new(std::iter::empty());
    for (number, spec) in (0..).zip(&experiment.warm_up) {
        let planned = runner.plan::<NoClock>(spec, number)?;
        for job in planned.plan.jobs {
            all = Box::new(all.chain(job.stream.requests()));
        }
    }
    Ok(all)
}

fn unknown(scheme: &str) -> RunError {
    let known: Vec<_> = ftl::schemes::ALL.iter().map(|info| info.name).collect();
    impossible(format!("there is no scheme `{scheme}`; there are {}", known.join(", ")))
}

/// As [`run`], with a scheme that is in no registry: the experiment's name of it is only shown.
///
/// # Errors
/// The same as those of [`run`].
pub fn run_of<S: Scheme + Clone + Send + 'static>(
    experiment: &Experiment,
    progress: &dyn Progress,
) -> Result<Run, RunError> {
    let phase = RefCell::new(String::from("start"));
    let visitor = RunScheme { index: 0, experiment, progress, phase: &phase };
    let result = caught(experiment, &phase, || visitor.visit::<S>());
    progress.end(0);
    result
}

/// As [`run`], and `progress` hears of it as run `index` of several.
///
/// # Errors
/// The same as those of [`run`].
pub fn run_as(index: usize, experiment: &Experiment, progress: &dyn Progress) -> Result<Run, RunError> {
    let phase = RefCell::new(String::from("start"));
    let result = caught(experiment, &phase, || {
        let visitor = RunScheme { index, experiment, progress, phase: &phase };
        visit(experiment, progress, visitor)
    });
    progress.end(index);
    result
}

/// A device as the part of a warm-up left it that several runs share ([`Experiment::start`]), with what they
/// know of it.
pub(crate) trait Started: Send {
    fn copy(&self) -> Box<dyn Started>;
    fn go_on(self: Box<Self>, runner: Runner<'_>) -> Result<Run, RunError>;
}

/// The device that run `index`, and those that begin like it, go on with.
pub(crate) fn start_as(
    index: usize,
    experiment: &Experiment,
    progress: &dyn Progress,
) -> Result<Box<dyn Started>, RunError> {
    struct StartScheme<'a>(Runner<'a>);
    impl Visitor for StartScheme<'_> {
        type Out = Result<Box<dyn Started>, RunError>;

        fn visit<S: Scheme + Clone + Send + 'static>(self) -> Self::Out {
            Ok(Box::new(self.0.start::<S>()?))
        }
    }
    let phase = RefCell::new(String::from("start"));
    let result = caught(experiment, &phase, || {
        let runner = Runner::begin(index, experiment, progress, &phase)?;
        visit(experiment, progress, StartScheme(runner))
    });
    result.inspect_err(|_| progress.end(index))
}

/// As [`run_as`], on a device that has its start behind it.
pub(crate) fn run_from(
    start: Box<dyn Started>,
    index: usize,
    experiment: &Experiment,
    progress: &dyn Progress,
) -> Result<Run, RunError> {
    let phase = RefCell::new(String::from("start"));
    let result =
        caught(experiment, &phase, || start.go_on(Runner::begin(index, experiment, progress, &phase)?));
    progress.end(index);
    result
}

fn visit<T>(
    experiment: &Experiment,
    progress: &dyn Progress,
    visitor: impl Visitor<Out = Result<T, RunError>>,
) -> Result<T, RunError> {
    if progress.stops() {
        return Err(RunError::Stopped { scheme: experiment.scheme.clone() });
    }
    ftl::schemes::with(&experiment.scheme, visitor).unwrap_or_else(|| Err(unknown(&experiment.scheme)))
}

/// Runs `body`, and makes an error of its panic.
pub(crate) fn caught<T>(
    experiment: &Experiment,
    phase: &RefCell<String>,
    body: impl FnOnce() -> Result<T, RunError>,
) -> Result<T, RunError> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let message = payload.downcast_ref::<String>().cloned();
        let message = message.or_else(|| payload.downcast_ref::<&str>().map(|&text| text.to_owned()));
        Err(RunError::Panicked {
            scheme: experiment.scheme.clone(),
            phase: phase.try_borrow().map_or_else(|_| String::new(), |name| name.clone()),
            seed: experiment.seed,
            message: message.unwrap_or_else(|| "no message".to_owned()),
            repeat: experiment.repeat(),
        })
    })
}

struct RunScheme<'a> {
    index: usize,
    experiment: &'a Experiment,
    progress: &'a dyn Progress,
    phase: &'a RefCell<String>,
}

impl Visitor for RunScheme<'_> {
    type Out = Result<Run, RunError>;

    fn visit<S: Scheme + Clone + Send + 'static>(self) -> Self::Out {
        Runner::begin(self.index, self.experiment, self.progress, self.phase)?.run::<S>()
    }
}

/// Checks the parts of an experiment that no lower layer checks, and gives the device as it will be run.
fn checked(experiment: &Experiment) -> Result<(Experiment, Config), RunError> {
    let mut experiment = experiment.clone();
    if let Some(pages) = experiment.exported_pages {
        experiment.device.exported_pages = pages;
    }
    experiment.device.check().map_err(|error| impossible(error.to_string()))?;
    let phases = experiment.warm_up.iter().chain(&experiment.phases);
    let cpus = phases.filter_map(|phase| phase.host).map(|host| Some(host.cpus));
    if cpus.chain([experiment.host_cpus]).any(|cpus| cpus == Some(0)) {
        return Err(impossible("the host has 0 CPUs; it must have at least 1"));
    }
    if experiment.phases.is_empty() {
        return Err(impossible("there is nothing to measure; give at least one phase"));
    }
    let depths = experiment.warm_up.iter().chain(&experiment.phases);
    for phase in depths {
        if let Load::Closed { depth: 0, .. } | Load::Open { outstanding: Some(0), .. } = phase.load {
            return Err(impossible(format!(
                "phase {}: a queue depth of 0 issues nothing; give at least 1",
                phase.name
            )));
        }
    }
    if experiment.phases.iter().any(|phase| matches!(phase.load, Load::Rest)) {
        return Err(impossible("a rest takes no time, so it belongs to a warm-up"));
    }
    let exported = experiment.device.exported_pages;
    let mut config = Config::new(exported, experiment.cache.bytes(exported)?);
    config.parameters = ftl::schemes::parameters(&experiment.scheme, &experiment.parameters);
    config.victims = experiment.victims;
    config.foreground_only = experiment.foreground_only;
    config.wear_gap = experiment.wear_gap.unwrap_or(0);
    config.foreground_superblocks =
        experiment.foreground_superblocks.unwrap_or(config.foreground_superblocks);
    config.background_superblocks = match experiment.background_superblocks {
        Some(superblocks) => superblocks,
        None => config.background_superblocks.max(config.foreground_superblocks + 1),
    };
    Ok((experiment, config))
}

/// A new device with scheme `S` on it.
pub(crate) fn new_rig<S: Scheme>(
    device: &nand::DeviceSpec,
    config: &Config,
    faults: &SimOptions,
    verify: Verify,
) -> Result<Rig<S, NoClock>, OpenError> {
    let nand = SimNand::new(device, NoClock::new(), faults.clone());
    let reference = Reference::new(verify, config.exported_pages);
    Ok(Rig { device: Device::open(nand, config)?, reference })
}

/// The queue model of a device.
pub(crate) fn queued(device: &nand::DeviceSpec, policy: Option<nand::timing::Policy>) -> Queued {
    let g = &device.geometry;
    Queued::new(device.times(), policy.unwrap_or(device.policy), g.dies(), g.channels, g.blocks())
}

/// The reservation model of a device.
pub(crate) fn reserved(device: &nand::DeviceSpec) -> Reserved {
    Reserved::new(device.times(), device.geometry.dies(), device.geometry.channels)
}

/// Runs one phase and counts it. The device is drained before and after; counters begin at zero.
pub(crate) fn run_phase<S: Scheme, T: Timed>(
    rig: &mut Rig<S, T>,
    spec: &PhaseSpec,
    planned: plan::Planned,
    series: Series,
    tell: &mut dyn Tell,
) -> (Measured, Option<Stop>) {
    let plan::Planned { plan, goal } = planned;
    let open_loop = plan.arrivals.is_some();
    let jobs = plan.jobs.len() as u32 + u32::from(open_loop);
    rig.device.take_counters();
    let begun_ns = rig.clock().now();
    let dies_before = rig.clock().die_use();
    let array_before = *rig.device.nand().counts();
    let meter = Meter::new(series, begun_ns, T::TICKS);
    let mut engine = Host::new(rig, plan, meter);
    let stop = engine.run(&goal, tell).err();
    let reading = engine.reading();
    let series = engine.meter.series.finish(engine.meter.now_ns, engine.meter.ended_ns, reading);
    let mut meter = engine.into_meter();
    let occupancy = std::mem::replace(&mut meter.occupancy, Occupancy::new(false)).finish();
    let dies_after = rig.clock().die_use();
    let measured = Measured {
        name: spec.name.clone(),
        jobs,
        open_loop,
        dies_elapsed_ns: rig.clock().now() - begun_ns,
        dies: invariants::since(&dies_before, &dies_after),
        meter,
        series,
        occupancy,
        counters: rig.device.counters().clone(),
        stats: S::INFO.stats,
        array: rig.device.nand().counts().since(&array_before),
        wear: rig.device.nand().wear(),
        ticks: T::TICKS,
    };
    if stop.is_none() {
        rig.drain();
    }
    (measured, stop)
}

/// A run under way.
pub(crate) struct Runner<'a> {
    index: usize,
    experiment: Experiment,
    config: Config,
    progress: &'a dyn Progress,
    phase: &'a RefCell<String>,
    watch: Stopwatch,
    run: Run,
    digest: Digest,
    phases_begun: usize,
    /// Times that the measured phases were begun.
    rounds: u64,
    host_pages: u64,
    flash_ops: u64,
    /// Pages that the host has written.
    written: u64,
}

/// What [`Runner::start`] leaves: a device, and what its run knows so far.
#[derive(Clone)]
struct Start<S> {
    rig: Rig<S, NoClock>,
    run: Run,
    digest: Digest,
    phases_begun: usize,
    written: u64,
}

impl<S: Scheme + Clone + Send + 'static> Started for Start<S> {
    fn copy(&self) -> Box<dyn Started> {
        Box::new(self.clone())
    }

    fn go_on(self: Box<Self>, mut runner: Runner<'_>) -> Result<Run, RunError> {
        let Start { rig, run, digest, phases_begun, written } = *self;
        let bad_blocks = run.device.bad_blocks;
        runner = Runner { run, digest, phases_begun, written, ..runner };
        runner.describe::<S>(rig.device.nand());
        // Blocks that failed in the warm-up are no part of the description.
        runner.run.device.bad_blocks = bad_blocks;
        runner.run_on(rig)
    }
}

/// What the result keeps of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// Nothing, unless the device ends in it.
    WarmUp,
    Measured,
    /// A further round of measured phases: nothing.
    Nothing,
}

impl<'a> Runner<'a> {
    /// Checks the experiment.
    pub(crate) fn begin(
        index: usize,
        experiment: &Experiment,
        progress: &'a dyn Progress,
        phase: &'a RefCell<String>,
    ) -> Result<Runner<'a>, RunError> {
        let (experiment, config) = checked(experiment)?;
        Ok(Runner {
            index,
            experiment,
            config,
            progress,
            phase,
            watch: Stopwatch::start(),
            run: Run::new(concat!("ftlkit ", env!("CARGO_PKG_VERSION"))),
            digest: Digest::new(),
            phases_begun: 0,
            rounds: 0,
            host_pages: 0,
            flash_ops: 0,
            written: 0,
        })
    }

    /// Runs it on scheme `S`.
    pub(crate) fn run<S: Scheme>(mut self) -> Result<Run, RunError> {
        let rig = self.new_rig::<S>()?;
        self.describe::<S>(rig.device.nand());
        self.run_on(rig)
    }

    /// Runs the part of the warm-up that several runs share.
    fn start<S: Scheme>(mut self) -> Result<Start<S>, RunError> {
        let mut rig = self.new_rig::<S>()?;
        self.describe::<S>(rig.device.nand());
        self.warm_up(&mut rig, self.experiment.start_phases())?;
        let Runner { run, digest, phases_begun, written, .. } = self;
        Ok(Start { rig, run, digest, phases_begun, written })
    }

    /// Runs the phases of the warm-up from the one at hand to number `end`.
    fn warm_up<S: Scheme>(&mut self, rig: &mut Rig<S, NoClock>, end: usize) -> Result<(), RunError> {
        for number in self.phases_begun..end {
            let spec = self.experiment.warm_up[number].clone();
            self.phase(rig, &spec, Kept::WarmUp)?;
        }
        Ok(())
    }

    /// Runs what is left.
    fn run_on<S: Scheme>(mut self, mut rig: Rig<S, NoClock>) -> Result<Run, RunError> {
        self.warm_up(&mut rig, self.experiment.warm_up.len())?;
        rig = self.set_cache(rig)?;
        match self.experiment.timing {
            TimingModel::Queued { policy } => {
                let clock = queued(&self.experiment.device, policy);
                self.measure(rig.with_clock(clock))
            }
            TimingModel::Reserved => {
                let clock = reserved(&self.experiment.device);
                self.measure(rig.with_clock(clock))
            }
            TimingModel::NoClock => self.measure(rig),
        }
    }

    fn new_rig<S: Scheme>(&self) -> Result<Rig<S, NoClock>, RunError> {
        if self.experiment.rewrite_ns.is_some() && !S::REWRITES {
            let name = S::INFO.name;
            let what = format!(
                "scheme {name} does not rewrite what has lain long; leave the rewriting period out for it"
            );
            return Err(impossible(what));
        }
        let Experiment { device, seed, verify, .. } = &self.experiment;
        // A cut may take back what superseded a metadata page: then the old one is read again.
        let keep_stale = self.experiment.power_cut;
        let faults = SimOptions { seed: *seed, keep_stale, ..self.experiment.faults.clone() };
        new_rig::<S>(device, &self.config, &faults, *verify).map_err(RunError::Open)
    }

    fn describe<S: Scheme>(&mut self, nand: &impl Nand) {
        let experiment = &self.experiment;
        let parameters = S::INFO.parameters.iter();
        let parameters = parameters.map(|p| (p.name.to_owned(), self.config.parameter(&S::INFO, p.name)));
        self.run.scheme = SchemeInfo {
            name: experiment.scheme.clone(),
            paper: S::INFO.paper.to_owned(),
            parameters: parameters.collect(),
            stats: S::INFO.stats.iter().map(StatInfo::from).collect(),
        };
        self.run.device = assemble::device_info(experiment, &self.config, nand);
        let warm_up: Vec<_> = experiment.warm_up.iter().map(|phase| phase.name.as_str()).collect();
        self.run.workload = WorkloadInfo {
            name: experiment.workload.clone(),
            source: experiment.workload_source.clone(),
            seed: experiment.seed,
            warm_up: warm_up.join(", "),
            cache_state: experiment.cache_state.in_words().to_owned(),
        };
    }

    /// Brings the mapping cache into the state that was asked for, and notes what it holds.
    fn set_cache<S: Scheme>(&mut self, mut rig: Rig<S, NoClock>) -> Result<Rig<S, NoClock>, RunError> {
        const PHASE: &str = "cleaning the mapping cache";
        PHASE.clone_into(&mut self.phase.borrow_mut());
        let state = self.experiment.cache_state;
        if state != CacheState::Dirty && self.run.worn_out.is_none() {
            rig.device.power_off().map_err(|fault| self.stopped(Stop::Unasked(fault), PHASE))?;
            if state == CacheState::Empty {
                rig = self.reopened(rig)?;
            }
        }
        self.run.cache_before = occupancy::held(rig.device.scheme());
        Ok(rig)
    }

    /// The measured phases, and the end of the run.
    fn measure<S: Scheme, T: Timed>(mut self, mut rig: Rig<S, T>) -> Result<Run, RunError> {
        self.rounds(&mut rig)?;
        let walk = invariants::of_mapping("end", &rig);
        self.digest.add(walk.digest);
        if self.experiment.verify != Verify::Off {
            self.run.invariants.extend(walk.invariants);
            self.run.invariants.push(invariants::of_scheme("end", &rig));
        }
        self.run.memory = assemble::memory_use(&self.config, &rig.device.memory());
        if self.experiment.power_cut {
            self.cut_power(rig)?;
        }
        self.finish()
    }

    /// Runs the phases once, or until the device is worn out.
    fn rounds<S: Scheme, T: Timed>(&mut self, rig: &mut Rig<S, T>) -> Result<(), RunError> {
        let phases = self.experiment.phases.clone();
        let mut kept = Kept::Measured;
        while self.run.worn_out.is_none() {
            let (written, checked) = (self.written, self.run.invariants.len());
            self.rounds += 1;
            for spec in &phases {
                self.phase(rig, spec, kept)?;
            }
            if !self.experiment.until_worn {
                break;
            }
            if self.written == written && self.run.worn_out.is_none() {
                return Err(impossible("until-worn needs a workload that writes; this one writes nothing"));
            }
            if kept == Kept::Nothing {
                // Thousands of rounds would bury what is worth reading.
                let mut index = 0;
                self.run.invariants.retain(|invariant| {
                    index += 1;
                    index <= checked || !invariant.held
                });
            }
            kept = Kept::Nothing;
        }
        Ok(())
    }

    /// Forgets what the scheme has in memory, and opens the array again.
    fn reopened<S: Scheme, T: Timed>(&self, rig: Rig<S, T>) -> Result<Rig<S, T>, RunError> {
        let Rig { device, reference } = rig;
        let device = Device::open(device.into_nand(), &self.config).map_err(RunError::Open)?;
        Ok(Rig { device, reference })
    }

    /// Flushes, forgets what is in memory, and opens the array again. All that was acknowledged must be
    /// there.
    fn cut_power<S: Scheme, T: Timed>(&mut self, mut rig: Rig<S, T>) -> Result<(), RunError> {
        const PHASE: &str = "after the power cut";
        PHASE.clone_into(&mut self.phase.borrow_mut());
        rig.flush().map_err(|stop| self.stopped(stop, "flush before the power cut"))?;
        rig.drain();
        let (begun_ns, before) = (rig.clock().now(), *rig.device.nand().counts());
        let mut rig = self.reopened(rig)?;
        rig.drain();
        let did = rig.device.nand().counts().since(&before);
        self.run.recovery = Some(Recovery {
            ns: if T::TICKS { rig.clock().now() - begun_ns } else { 0 },
            reads: did.total_reads(),
            programs: did.total_programs(),
            erases: did.total_erases(),
            compute_ns: rig.device.counters().compute_ns,
        });
        let walk = invariants::of_mapping(PHASE, &rig);
        self.run.invariants.extend(walk.invariants);
        self.run.invariants.push(invariants::of_scheme(PHASE, &rig));
        Ok(())
    }

    /// Fills in what is known at the end, and judges.
    fn finish(mut self) -> Result<Run, RunError> {
        self.run.digest = format!("{:016x}", self.digest.value());
        self.run.host = SimSpeed::new(self.watch.seconds(), self.host_pages, self.flash_ops);
        let first = self.run.broken().next().map(|broken| format!("{} ({})", broken.name, broken.detail));
        match first {
            None => Ok(self.run),
            Some(first) => {
                let repeat = self.experiment.repeat();
                Err(RunError::Broken { run: Box::new(self.run), first, repeat })
            }
        }
    }

    /// Runs a phase, checks it, and files it if it is measured. A worn-out device has no further phases.
    fn phase<S: Scheme, T: Timed>(
        &mut self,
        rig: &mut Rig<S, T>,
        spec: &PhaseSpec,
        kept: Kept,
    ) -> Result<(), RunError> {
        if self.run.worn_out.is_some() {
            return Ok(());
        }
        self.phase.borrow_mut().clone_from(&spec.name);
        let phases = self.experiment.warm_up.len() + self.experiment.phases.len();
        let (index, progress, number) = (self.index, self.progress, self.phases_begun);
        let whole = if kept == Kept::Nothing { self.worn_share(rig) } else { None };
        match (kept, whole) {
            (Kept::WarmUp, _) => progress.phase(index, number, phases, "warm-up"),
            (Kept::Measured, _) => progress.phase(index, number, phases, &spec.name),
            (Kept::Nothing, None) => {
                let name = format!("{}, round {}", spec.name, self.rounds);
                progress.phase(index, phases.saturating_sub(1), phases, &name);
            }
            (Kept::Nothing, Some(_)) if number == phases => {
                progress.phase(index, phases.saturating_sub(1), phases, "until worn out");
            }
            // Thousands of rounds are one phase to those who hear of it.
            (Kept::Nothing, Some(share)) => progress.fraction(index, share),
        }
        self.phases_begun += 1;

        let planned = self.plan::<T>(spec, number as u64)?;
        let series = if kept == Kept::Measured { self.experiment.series } else { Series::Off };
        let mut tell = Told { progress, run: index, whole };
        let (measured, stop) = run_phase(rig, spec, planned, series, &mut tell);
        self.take_in(&measured, spec, stop.is_none());
        let issued = measured.meter.issued();
        if kept == Kept::Measured || (kept == Kept::WarmUp && stop.is_some()) {
            let phase = assemble::phase(measured, &self.experiment.device);
            if stop.is_none() {
                self.run.invariants.extend(phase.invariants());
            }
            self.run.phases.push(phase);
        }
        match stop {
            // The end of a device's life is a result.
            Some(Stop::Host { request, error: HostError::Fault(Fault::WornOut { bad_blocks, blocks }) }) => {
                self.run.worn_out = Some(self.worn_out(rig, spec, request, (bad_blocks, blocks)));
            }
            Some(Stop::Unasked(Fault::WornOut { bad_blocks, blocks })) => {
                self.run.worn_out = Some(self.worn_out(rig, spec, issued, (bad_blocks, blocks)));
            }
            Some(stop) => return Err(self.stopped(stop, &spec.name)),
            None => {}
        }
        let counters = rig.device.counters();
        let changed = counters.host_writes + counters.host_trims > 0;
        if changed && self.experiment.verify != Verify::Off {
            let walk = invariants::of_mapping(&spec.name, rig);
            self.run.invariants.extend(walk.invariants);
            self.run.invariants.push(invariants::of_scheme(&spec.name, rig));
        }
        Ok(())
    }

    /// How much of its life the block has had that was erased most, 0..=1. The device ends some blocks
    /// later. `None`: how long a life is nobody knows.
    fn worn_share<S: Scheme, T: Timed>(&self, rig: &Rig<S, T>) -> Option<f64> {
        let endurance = self.experiment.device.endurance?;
        Some((f64::from(rig.device.nand().wear().max) / f64::from(endurance)).min(1.0))
    }

    fn worn_out<S: Scheme, T: Timed>(
        &self,
        rig: &Rig<S, T>,
        spec: &PhaseSpec,
        requests: u64,
        (bad_blocks, blocks): (u32, u32),
    ) -> WornOut {
        let (nand, wear) = (rig.device.nand(), rig.device.nand().wear());
        WornOut {
            phase: spec.name.clone(),
            requests,
            bad_blocks,
            blocks,
            bytes_written: self.written * u64::from(nand.geometry().page_bytes),
            pages_written: self.written,
            programs: nand.counts().total_programs(),
            erases: nand.counts().total_erases(),
            least_erases: wear.min,
            most_erases: wear.max,
            mean_erases: wear.mean,
            erase_histogram: nand.erase_histogram(),
            rounds: self.rounds,
        }
    }

    fn plan<T: Timed>(&self, spec: &PhaseSpec, number: u64) -> Result<plan::Planned, RunError> {
        let experiment = &self.experiment;
        let host = spec.host.unwrap_or(HostTime {
            overhead_ns: experiment.host_overhead_ns.unwrap_or(experiment.device.host_overhead_ns),
            cpus: experiment.host_cpus.unwrap_or(experiment.device.host_cpus),
        });
        let software = HostSoftware::new(host.overhead_ns, host.cpus);
        let bytes = u64::from(self.config.exported_pages) * u64::from(experiment.device.geometry.page_bytes);
        let seed = plan::phase_seed(experiment.seed, number);
        let geometry = &experiment.device.geometry;
        let calls = (geometry.pages() / geometry.units()).max(1);
        let rewrite = experiment.rewrite_ns.map(|period| (period / u64::from(calls)).max(1));
        Ok(plan::plan(spec, bytes, seed, T::TICKS, software, rewrite)?)
    }

    /// Checks what can be checked of every phase, and takes it into the digest.
    fn take_in(&mut self, measured: &Measured, spec: &PhaseSpec, ended: bool) {
        let Measured { meter, counters, array, dies, dies_elapsed_ns, ticks, .. } = measured;
        self.written += counters.host_writes;
        self.host_pages += counters.host_reads + counters.host_writes;
        self.flash_ops += array.total_reads() + array.total_programs() + array.total_erases();
        self.digest.add(meter.digest.value());
        for tally in &meter.tally {
            self.digest.add(tally.completed);
            self.digest.add(tally.bytes);
        }
        self.digest.add(meter.ended_ns - meter.begun_ns);
        invariants::digest_counters(&mut self.digest, counters);
        if !ended {
            return;
        }
        let found = &mut self.run.invariants;
        found.extend(invariants::of_requests(&spec.name, meter, *ticks));
        found.push(invariants::of_operations(&spec.name, counters, array));
        found.push(invariants::of_shares(&spec.name, counters));
        if *ticks {
            found.push(invariants::of_dies(&spec.name, dies, *dies_elapsed_ns));
        }
        if meter.widened > 0 {
            found.push(Invariant::new(
                format!(
                    "{}: requests that do not begin and end on a page are widened to whole pages",
                    spec.name
                ),
                true,
                format!("{} of {} requests", meter.widened, meter.issued()),
            ));
        }
    }

    /// What came in between.
    fn stopped(&mut self, stop: Stop, phase: &str) -> RunError {
        let scheme = self.experiment.scheme.clone();
        let request = |what: String, request: u64| RunError::Request {
            what,
            scheme: scheme.clone(),
            phase: phase.to_owned(),
            request,
        };
        match stop {
            Stop::Input(error) => RunError::Input(error),
            Stop::Asked => RunError::Stopped { scheme },
            Stop::Host { request: number, error } => request(error.to_string(), number),
            Stop::Request { request: number, what } => request(what, number),
            Stop::Overload { request } => {
                let (phase, operations) = (phase.to_owned(), crate::host::MOST_PENDING);
                RunError::Overload { scheme, phase, request, operations }
            }
            Stop::Unasked(fault) => request(format!("{fault}, found while the host asked for nothing"), 0),
            Stop::Mismatch { request: number, mismatch } => {
                let Experiment { seed, .. } = self.experiment;
                let detail = format!("{mismatch}; seed {seed}, phase {phase}, request {number}");
                self.run.invariants.push(Invariant::new(
                    format!("{phase}: reads return what was written"),
                    false,
                    &detail,
                ));
                let repeat = self.experiment.repeat();
                RunError::Broken { run: Box::new(std::mem::take(&mut self.run)), first: detail, repeat }
            }
        }
    }
}
