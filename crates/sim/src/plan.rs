//! From a phase as specified to jobs and arrivals with streams of requests.

use workload::{fio, InputError, Kind, Request};

use crate::source::Stream;
use crate::spec::{Load, PhaseSpec};

/// What a phase runs towards, as far as it is known beforehand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Goal {
    requests: Option<u64>,
    bytes: Option<u64>,
    ns: Option<u64>,
}

impl Goal {
    /// How far a phase is, 0..=1.
    pub(crate) fn fraction(&self, requests: u64, bytes: u64, ns: u64) -> f64 {
        let part = |done: u64, all: Option<u64>| all.map_or(0.0, |all| done as f64 / all.max(1) as f64);
        part(requests, self.requests).max(part(bytes, self.bytes)).max(part(ns, self.ns)).min(1.0)
    }
}

/// Host software: `cpus` processors that each handle one request at a time, first come first served.
#[derive(Clone, Debug)]
pub(crate) struct HostSoftware {
    pub(crate) overhead_ns: u64,
    free_ns: Vec<u64>,
}

impl HostSoftware {
    pub(crate) fn new(overhead_ns: u64, cpus: u32) -> HostSoftware {
        HostSoftware { overhead_ns, free_ns: vec![0; cpus.max(1) as usize] }
    }

    /// When a request submitted now is through.
    pub(crate) fn serve(&mut self, now_ns: u64) -> u64 {
        let mut first = 0;
        for cpu in 1..self.free_ns.len() {
            if self.free_ns[cpu] < self.free_ns[first] {
                first = cpu;
            }
        }
        self.free_ns[first] = self.free_ns[first].max(now_ns) + self.overhead_ns;
        self.free_ns[first]
    }
}

/// What a job of a phase does.
pub(crate) struct JobPlan {
    pub(crate) stream: Stream,
    pub(crate) depth: u32,
    /// Time after which it issues no more, ns.
    pub(crate) runtime_ns: Option<u64>,
    /// Pause after every `think_blocks` completions, ns.
    pub(crate) think_ns: u64,
    pub(crate) think_blocks: u64,
}

/// Requests that arrive at times of their own.
pub(crate) struct ArrivalPlan {
    pub(crate) stream: Stream,
    /// Most requests the device is given at once.
    pub(crate) outstanding: Option<u32>,
}

/// What happens in a phase.
pub(crate) struct Plan {
    pub(crate) jobs: Vec<JobPlan>,
    pub(crate) arrivals: Option<ArrivalPlan>,
    pub(crate) software: HostSoftware,
    /// Time between two calls of [`ftl::Scheme::rewrite`], ns.
    pub(crate) rewrite_every_ns: Option<u64>,
    /// Before and after the requests the device has idle time until it has nothing to do.
    pub(crate) rests: bool,
}

/// A phase ready to run.
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) goal: Goal,
}

/// Opens the streams of a phase on a device of `device_bytes`. `ticks`: whether there is a clock.
pub(crate) fn plan(
    spec: &PhaseSpec,
    device_bytes: u64,
    seed: u64,
    ticks: bool,
    software: HostSoftware,
    rewrite_every_ns: Option<u64>,
) -> Result<Planned, InputError> {
    let plan = Plan { jobs: Vec::new(), arrivals: None, software, rewrite_every_ns, rests: false };
    let mut planned = Planned { plan, goal: Goal::default() };
    let plan = &mut planned.plan;
    let job = |stream, depth| JobPlan { stream, depth, runtime_ns: None, think_ns: 0, think_blocks: 0 };
    match &spec.load {
        Load::Jobs(phase) => planned.goal = plan_jobs(plan, phase, device_bytes, seed, ticks)?,
        Load::Open { source, outstanding } => {
            let stream = Stream::Listed(source.requests(device_bytes, seed)?);
            plan.arrivals = Some(ArrivalPlan { stream, outstanding: *outstanding });
            planned.goal.requests = source.count();
        }
        Load::Closed { source, depth } => {
            plan.jobs.push(job(Stream::closed(source.requests(device_bytes, seed)?), *depth));
            planned.goal.requests = source.count();
        }
        Load::WarmUp(warm_up) => {
            let requests = warm_up.requests(device_bytes, seed).map(Ok);
            planned.goal.bytes = Some(warm_up.bytes(device_bytes));
            plan.jobs.push(job(Stream::Listed(Box::new(requests)), 1));
        }
        Load::Rest => {
            let first = Request { arrival_ns: 0, kind: Kind::Write, offset: 0, bytes: 1 };
            plan.jobs.push(job(Stream::Listed(Box::new(std::iter::once(Ok(first)))), 1));
            plan.rests = true;
        }
    }
    Ok(planned)
}

fn plan_jobs(
    plan: &mut Plan,
    phase: &fio::Phase,
    device_bytes: u64,
    seed: u64,
    ticks: bool,
) -> Result<Goal, InputError> {
    let (mut bytes, mut ns) = (Some(0_u64), 0);
    for spec in &phase.jobs {
        for stream in spec.streams(device_bytes, seed)? {
            if stream.time_based() && !ticks {
                return Err(endless(spec));
            }
            bytes = bytes.zip(stream.total_bytes()).map(|(sum, more)| sum.saturating_add(more));
            ns = ns.max(stream.runtime_ns().unwrap_or(0));
            plan.jobs.push(JobPlan {
                depth: stream.iodepth(),
                runtime_ns: stream.runtime_ns(),
                think_ns: stream.thinktime_ns(),
                think_blocks: stream.thinktime_blocks(),
                stream: Stream::Fio(Box::new(stream)),
            });
        }
    }
    Ok(Goal { requests: None, bytes, ns: (ns > 0 && ticks).then_some(ns) })
}

/// What is wrong with a job that runs for a time while there is no clock.
pub(crate) fn endless(job: &fio::JobSpec) -> InputError {
    let text = format!(
        "[{}] runs for a time, but the clock is off, so it would never end; give io_size or loops instead of time_based",
        job.name
    );
    InputError::in_file("", text)
}

/// What is wrong with a job that runs for a time whose requests take none.
pub(crate) fn timeless(job: &fio::JobSpec) -> InputError {
    let text = format!(
        "[{}] runs for a time, but its requests take none, as nothing is written where they go, so it would never end; \
         write there first, or give io_size or loops instead of time_based",
        job.name
    );
    InputError::in_file("", text)
}

/// The seed of one phase, so that two phases of the same jobs do not walk the same way.
pub(crate) fn phase_seed(seed: u64, phase: u64) -> u64 {
    let mut mixed = seed ^ phase.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
