//! Traces, generators and requests at hand as sources: looked through once before anything runs.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use workload::synth::Synth;
use workload::trace::{AddressMap, Ratio, Trace, TraceOptions};
use workload::{InputError, Kind, Request};

use super::{Setup, SetupError, WarmUp};
use crate::source::{Requests, Source, Synthetic, TraceFile};

/// Requests of a generator unless told otherwise.
const SYNTHETIC_REQUESTS: u64 = 1_000_000;

/// What a trace holds, as far as setting up a run needs it.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    pub(super) requests: u64,
    /// First byte past the last request.
    pub(super) end: u64,
    /// Arrival of the last request.
    pub(super) duration_ns: u64,
    pub(super) rows: u64,
    pub(super) bad_rows: u64,
    pub(super) first_bad: Option<InputError>,
    pub(super) adjusted_rows: u64,
    /// Names of the devices in it.
    pub(super) devices: Vec<String>,
}

/// Reads a trace through, with its own addresses.
pub(super) fn scan(path: &Path, options: &TraceOptions) -> Result<Scan, InputError> {
    let own = TraceOptions { address: AddressMap::AsIs, device_bytes: None, ..options.clone() };
    let mut trace = Trace::open(path, &own)?;
    let (mut requests, mut end, mut duration_ns) = (0, 0, 0);
    for request in &mut trace {
        let request = request?;
        requests += 1;
        end = request.end().max(end);
        duration_ns = request.arrival_ns;
    }
    let (rows, bad_rows) = (trace.rows(), trace.bad_rows());
    if requests == 0 {
        let why = match trace.bad_samples().first() {
            _ if rows > 0 => {
                format!("none of its {rows} rows lies in the window of options from, until and rows; give a wider one")
            }
            Some(first) => format!("not one of its {bad_rows} rows is understood: {first}"),
            None => "it has no rows".to_owned(),
        };
        return Err(InputError::in_file(
            &path.display().to_string(),
            format!("there is no request to run: {why}"),
        ));
    }
    Ok(Scan {
        requests,
        end,
        duration_ns,
        rows,
        bad_rows,
        first_bad: trace.bad_samples().first().cloned(),
        adjusted_rows: trace.adjusted_rows(),
        devices: trace.devices().into_iter().map(|(name, ..)| name).collect(),
    })
}

impl Setup {
    /// The files that it reads, whether they are there or not: job file, trace, warm-up, device.
    pub fn files(&self) -> Vec<PathBuf> {
        let warm_up = match &self.warm_up {
            Some(WarmUp::File(path)) => Some(path),
            _ => None,
        };
        let device = self.device.as_deref().map(PathBuf::from).filter(|path| path.is_file());
        [&self.job_file, &self.trace].into_iter().flatten().chain(warm_up).cloned().chain(device).collect()
    }

    /// How the trace is read, addresses left as they are.
    ///
    /// # Errors
    /// The window of recorded time is empty.
    pub fn trace_options(&self) -> Result<TraceOptions, SetupError> {
        let window = match (self.from, self.until) {
            (None, None) => None,
            (from, until) => Some(from.unwrap_or(0)..until.unwrap_or(u64::MAX)),
        };
        if window.as_ref().is_some_and(Range::is_empty) {
            let what = "is not after from, so no request is left; give a later one";
            return Err(SetupError::unsuitable("until", what));
        }
        Ok(TraceOptions {
            format: self.trace_format,
            columns: self.columns.clone(),
            strict: self.strict,
            time_scale: self.time_scale.unwrap_or(Ratio::ONE),
            max_gap_ns: self.max_gap,
            device: self.trace_device.clone(),
            time_window_ns: window,
            rows: self.rows.clone(),
            ..TraceOptions::default()
        })
    }
}

/// A trace whose requests were counted, so that progress can be told.
pub(super) struct Counted {
    pub(super) trace: TraceFile,
    pub(super) requests: u64,
}

impl Source for Counted {
    fn name(&self) -> String {
        self.trace.name()
    }

    fn requests(&self, device_bytes: u64, seed: u64) -> Result<Requests, InputError> {
        self.trace.requests(device_bytes, seed)
    }

    fn count(&self) -> Option<u64> {
        Some(self.requests)
    }
}

/// Some of a source's requests, from the `skip`-th on, with times from the first of them.
pub(super) struct Part {
    pub(super) source: Arc<dyn Source>,
    pub(super) skip: u64,
    pub(super) take: u64,
}

impl Source for Part {
    fn name(&self) -> String {
        self.source.name()
    }

    fn requests(&self, device_bytes: u64, seed: u64) -> Result<Requests, InputError> {
        let mut requests = self.source.requests(device_bytes, seed)?;
        let mut begun_ns = 0;
        for _ in 0..self.skip {
            match requests.next() {
                Some(request) => begun_ns = request?.arrival_ns,
                None => break,
            }
        }
        let left = usize::try_from(self.take).unwrap_or(usize::MAX);
        let rebased = move |r: Request| Request { arrival_ns: r.arrival_ns.saturating_sub(begun_ns), ..r };
        Ok(Box::new(requests.take(left).map(move |request| request.map(rebased))))
    }

    fn count(&self) -> Option<u64> {
        Some(self.take)
    }
}

/// A source's reads and writes, each as a write.
pub(super) struct AsWrites {
    pub(super) source: Arc<dyn Source>,
}

impl Source for AsWrites {
    fn name(&self) -> String {
        self.source.name()
    }

    fn requests(&self, device_bytes: u64, seed: u64) -> Result<Requests, InputError> {
        let written = |r: Request| match r.kind {
            Kind::Read => Request { kind: Kind::Write, ..r },
            _ => r,
        };
        let requests = self.source.requests(device_bytes, seed)?;
        Ok(Box::new(requests.map(move |request| request.map(written))))
    }

    fn count(&self) -> Option<u64> {
        self.source.count()
    }
}

/// What a generator's requests need to find on the device.
pub(super) struct Prepare {
    synth: &'static Synth,
    seed: u64,
    device_bytes: u64,
    /// How many requests lay it out: counted when somebody asks, as a large layout takes seconds.
    requests: OnceLock<u64>,
}

impl Prepare {
    /// `None`: they need nothing.
    pub(super) fn of(synth: &'static Synth, device_bytes: u64, seed: u64) -> Option<Prepare> {
        synth.preparation(seed, device_bytes)?;
        Some(Prepare { synth, seed, device_bytes, requests: OnceLock::new() })
    }
}

impl Source for Prepare {
    fn name(&self) -> String {
        format!("the files of {}", self.synth.name)
    }

    fn requests(&self, device_bytes: u64, _seed: u64) -> Result<Requests, InputError> {
        let requests = self.synth.preparation(self.seed, device_bytes).into_iter().flatten();
        Ok(Box::new(requests.map(Ok)))
    }

    fn count(&self) -> Option<u64> {
        let laid =
            || self.synth.preparation(self.seed, self.device_bytes).into_iter().flatten().count() as u64;
        Some(*self.requests.get_or_init(laid))
    }
}

/// A generator with its times multiplied.
pub(super) struct Scaled {
    pub(super) synth: Synthetic,
    pub(super) scale: Ratio,
    /// The same in every phase, so that all of them speak of the same addresses.
    pub(super) seed: u64,
}

impl Source for Scaled {
    fn name(&self) -> String {
        self.synth.name()
    }

    fn requests(&self, device_bytes: u64, _seed: u64) -> Result<Requests, InputError> {
        let scale = self.scale;
        let requests = self.synth.requests(device_bytes, self.seed)?;
        let scaled =
            move |request: Request| Request { arrival_ns: scale.apply(request.arrival_ns), ..request };
        Ok(Box::new(requests.map(move |request| request.map(scaled))))
    }

    fn count(&self) -> Option<u64> {
        self.synth.count()
    }
}

/// Requests that the caller has at hand, with what a set-up needs to know of them.
#[derive(Clone)]
pub struct Given {
    /// The requests, in the order of their arrival times, which begin at 0.
    pub source: Arc<dyn Source>,
    /// First byte past the last request.
    pub end: u64,
    /// Arrival of the last request, ns.
    pub duration_ns: u64,
}

impl std::fmt::Debug for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Given { source, end, duration_ns } = self;
        write!(f, "Given({}, {end} bytes, {duration_ns} ns)", source.name())
    }
}

/// Requests at hand with times multiplied and addresses mapped onto the device.
pub(super) struct Adjusted {
    pub(super) given: Given,
    pub(super) scale: Ratio,
    pub(super) address: AddressMap,
}

impl Source for Adjusted {
    fn name(&self) -> String {
        self.given.source.name()
    }

    fn requests(&self, device_bytes: u64, seed: u64) -> Result<Requests, InputError> {
        let (scale, address, span) = (self.scale, self.address, self.given.end.max(1));
        let name = self.name();
        let place = move |request: Request| {
            let mapped = address.place(&request, device_bytes, span);
            let offset = mapped.map_err(|misfit| InputError::in_file(&name, misfit.to_string()))?;
            Ok(Request { arrival_ns: scale.apply(request.arrival_ns), offset, ..request })
        };
        let requests = self.given.source.requests(device_bytes, seed)?;
        Ok(Box::new(requests.map(move |request| request.and_then(&place))))
    }

    fn count(&self) -> Option<u64> {
        self.given.source.count()
    }
}

/// Where requests come from.
pub(super) enum Input {
    /// A fio job file, its text, or the one that is built in.
    Jobs,
    Trace {
        path: PathBuf,
        options: Box<TraceOptions>,
        scan: Box<Scan>,
    },
    Synth {
        synth: &'static Synth,
        requests: u64,
    },
    Given(Given),
}

impl Input {
    /// Reads what was asked for, and refuses options that say nothing about it.
    pub(super) fn of(setup: &Setup) -> Result<Input, SetupError> {
        let given = [
            ("job-file", "a job file", setup.job_file.is_some()),
            ("jobs", "the text of a job file", setup.jobs.is_some()),
            ("trace", "a trace", setup.trace.is_some()),
            ("synth", "a generator", setup.synth.is_some()),
            ("requests at hand", "a list of requests", setup.given.is_some()),
        ];
        let mut given = given.into_iter().filter(|(.., given)| *given);
        if let (Some((_, first, _)), Some((key, ..))) = (given.next(), given.next()) {
            return Err(SetupError::unsuitable(
                key,
                format!("is one workload and {first} another; give one of them"),
            ));
        }
        if let Some(path) = &setup.trace {
            refuse(
                "a generator",
                &[("requests", setup.requests.is_some(), "take rows of a trace with rows 0..N")],
            )?;
            let options = setup.trace_options()?;
            let scan = Box::new(scan(path, &options)?);
            return Ok(Input::Trace { path: path.clone(), options: Box::new(options), scan });
        }
        const LEAVE: &str = "leave it out";
        refuse(
            "a trace",
            &[
                ("trace-format", setup.trace_format.is_some(), LEAVE),
                ("columns", setup.columns.is_some(), LEAVE),
                ("trace-device", setup.trace_device.is_some(), LEAVE),
                ("max-gap", setup.max_gap.is_some(), LEAVE),
                ("from", setup.from.is_some(), LEAVE),
                ("until", setup.until.is_some(), LEAVE),
                ("rows", setup.rows.is_some(), LEAVE),
                ("strict", setup.strict, LEAVE),
            ],
        )?;
        if let Some(name) = &setup.synth {
            let requests = setup.requests.unwrap_or(SYNTHETIC_REQUESTS);
            return Ok(Input::Synth { synth: Synth::find(name)?, requests });
        }
        let arrivals = "jobs are closed loops; use rate_iops in the job file for arrivals";
        let first = "call the sections that come first warmup-... in the job file";
        if let Some(given) = &setup.given {
            refuse(
                "a generator",
                &[("requests", setup.requests.is_some(), "give as many rows as are to be run")],
            )?;
            return Ok(Input::Given(given.clone()));
        }
        refuse(
            "a trace or a generator",
            &[
                ("requests", setup.requests.is_some(), "set io_size or number_ios in the job file"),
                ("mode", setup.mode.is_some(), arrivals),
                ("depth", setup.depth.is_some(), "set iodepth and numjobs in the job file"),
                ("time-scale", setup.time_scale.is_some(), "set rate_iops or thinktime in the job file"),
                ("address", setup.address.is_some(), "set offset and size in the job file"),
                ("warm-up-requests", setup.warm_up_requests.is_some(), first),
                (
                    "warm-up workload",
                    setup.warm_up == Some(WarmUp::Workload),
                    "write what is to run first as sections called warmup-...",
                ),
            ],
        )?;
        Ok(Input::Jobs)
    }

    /// Bytes of the addresses used; `None` for jobs, which follow the device.
    pub(super) fn end(&self) -> Option<u64> {
        match self {
            Input::Jobs => None,
            Input::Trace { scan, .. } => Some(scan.end),
            Input::Synth { synth, .. } => Some(synth.span_bytes()),
            Input::Given(given) => Some(given.end),
        }
    }

    /// Whether it takes its size from the device.
    pub(super) fn elastic(&self) -> bool {
        matches!(self, Input::Synth { synth, .. } if synth.elastic())
    }

    /// The least that a device must have, bytes, whatever is done with addresses.
    pub(super) fn least_bytes(&self) -> u64 {
        match self {
            Input::Synth { synth, .. } => synth.least_bytes(),
            _ => 0,
        }
    }

    /// What to call it in messages.
    pub(super) fn name(&self) -> String {
        match self {
            Input::Jobs => "the jobs".to_owned(),
            Input::Trace { path, .. } => path.display().to_string(),
            Input::Synth { synth, .. } => format!("workload {}", synth.name),
            Input::Given(given) => given.source.name(),
        }
    }
}

/// Refuses the first key that was given although it is for another workload: key, whether it was given, what
/// to do.
fn refuse(whose: &str, keys: &[(&str, bool, &str)]) -> Result<(), SetupError> {
    match keys.iter().find(|(_, given, _)| *given) {
        Some((key, _, instead)) => Err(SetupError::unsuitable(key, format!("is for {whose}; {instead}"))),
        None => Ok(()),
    }
}
