//! Traces and generators as sources of requests: looked through once before anything runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sim::{Requests, Source, Synthetic, TraceFile};
use workload::synth::Synth;
use workload::trace::{AddressMap, Ratio, Trace, TraceOptions};
use workload::{InputError, Request};

use super::options::{InputOptions, TraceArgs};
use super::stop::Stop;

/// Requests of `ftl compare --synth` unless told otherwise.
pub(crate) const SYNTHETIC_REQUESTS: u64 = 1_000_000;

/// What a trace holds, as far as setting up a run needs it.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub(crate) requests: u64,
    /// First byte past the last request.
    pub(crate) end: u64,
    /// Arrival of the last request.
    pub(crate) duration_ns: u64,
    pub(crate) rows: u64,
    pub(crate) bad_rows: u64,
    pub(crate) first_bad: Option<InputError>,
    pub(crate) adjusted_rows: u64,
    /// Names of the devices in it.
    pub(crate) devices: Vec<String>,
}

/// Reads a trace through, with its own addresses.
pub(crate) fn scan(path: &Path, options: &TraceOptions) -> Result<Scan, Stop> {
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
                format!("none of its {rows} rows lies in the window; give a wider --from, --until or --rows")
            }
            Some(first) => format!("not one of its {bad_rows} rows is understood: {first}"),
            None => "it has no rows".to_owned(),
        };
        return Err(Stop::user(format!("{}: there is no request to run: {why}", path.display())));
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

/// Options for reading the trace, without addresses.
pub(crate) fn trace_options(args: &TraceArgs) -> Result<TraceOptions, Stop> {
    let window = match (args.from, args.until) {
        (None, None) => None,
        (from, until) => {
            let window = from.unwrap_or(0)..until.unwrap_or(u64::MAX);
            if window.is_empty() {
                return Err(Stop::user(
                    "--until is not after --from, so no request is left; give a later --until",
                ));
            }
            Some(window)
        }
    };
    Ok(TraceOptions {
        strict: args.strict,
        time_scale: args.time_scale.unwrap_or(Ratio::ONE),
        max_gap_ns: args.max_gap,
        device: args.trace_device.clone(),
        time_window_ns: window,
        rows: args.rows.clone(),
        ..TraceOptions::default()
    })
}

/// A trace whose requests were counted, so that progress can be told.
pub(crate) struct Counted {
    pub(crate) trace: TraceFile,
    pub(crate) requests: u64,
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
pub(crate) struct Part {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) skip: u64,
    pub(crate) take: u64,
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

/// What a generator's requests need to find on the device.
pub(crate) struct Prepare {
    synth: &'static Synth,
    seed: u64,
    requests: u64,
}

impl Prepare {
    /// `None`: they need nothing.
    pub(crate) fn of(synth: &'static Synth, device_bytes: u64, seed: u64) -> Option<Prepare> {
        let requests = synth.preparation(seed, device_bytes)?.count() as u64;
        Some(Prepare { synth, seed, requests })
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
        Some(self.requests)
    }
}

/// A generator with its times multiplied.
pub(crate) struct Scaled {
    pub(crate) synth: Synthetic,
    pub(crate) scale: Ratio,
    /// The same in every phase, so that all of them speak of the same addresses.
    pub(crate) seed: u64,
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

/// Where requests come from.
pub(crate) enum Input {
    /// A job file's path, or the one that is built in.
    Jobs(Option<PathBuf>),
    Trace {
        path: PathBuf,
        options: Box<TraceOptions>,
        scan: Box<Scan>,
    },
    Synth {
        synth: &'static Synth,
        requests: u64,
    },
}

impl Input {
    /// Reads what was asked for, and refuses options that say nothing about it.
    pub(crate) fn of(input: &InputOptions, replay: &TraceArgs) -> Result<Input, Stop> {
        if let Some(path) = &input.trace {
            if input.requests.is_some() {
                return Err(Stop::user("--requests is for --synth; take rows of a trace with --rows 0..N"));
            }
            let options = trace_options(replay)?;
            let scan = Box::new(scan(path, &options)?);
            return Ok(Input::Trace { path: path.clone(), options: Box::new(options), scan });
        }
        for (option, given) in [
            ("--trace-device", replay.trace_device.is_some()),
            ("--max-gap", replay.max_gap.is_some()),
            ("--from", replay.from.is_some()),
            ("--until", replay.until.is_some()),
            ("--rows", replay.rows.is_some()),
            ("--strict", replay.strict),
        ] {
            if given {
                return Err(Stop::user(format!("{option} is for --trace FILE; leave it out")));
            }
        }
        if let Some(name) = &input.synth {
            let requests = input.requests.unwrap_or(SYNTHETIC_REQUESTS);
            return Ok(Input::Synth { synth: Synth::find(name)?, requests });
        }
        for (option, given, instead) in [
            ("--requests", input.requests.is_some(), "set io_size or number_ios in the job file"),
            (
                "--mode",
                replay.mode.is_some(),
                "jobs are closed loops; use rate_iops in the job file for arrivals",
            ),
            ("--depth", replay.depth.is_some(), "set iodepth and numjobs in the job file"),
            ("--time-scale", replay.time_scale.is_some(), "set rate_iops or thinktime in the job file"),
            ("--address", replay.address.is_some(), "set offset and size in the job file"),
            (
                "--warm-up-requests",
                input.warm_up_requests.is_some(),
                "call the sections that come first warmup-... in the job file",
            ),
        ] {
            if given {
                return Err(Stop::user(format!("{option} is for --trace and --synth; {instead}")));
            }
        }
        Ok(Input::Jobs(input.workload.clone()))
    }

    /// Bytes of the addresses used; `None` for jobs, which follow the device.
    pub(crate) fn end(&self) -> Option<u64> {
        match self {
            Input::Jobs(_) => None,
            Input::Trace { scan, .. } => Some(scan.end),
            Input::Synth { synth, .. } => Some(synth.span_bytes()),
        }
    }

    /// Whether it takes its size from the device.
    pub(crate) fn elastic(&self) -> bool {
        matches!(self, Input::Synth { synth, .. } if synth.elastic())
    }

    /// What to call it in messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Input::Jobs(None) => "the built-in jobs".to_owned(),
            Input::Jobs(Some(path)) | Input::Trace { path, .. } => path.display().to_string(),
            Input::Synth { synth, .. } => format!("workload {}", synth.name),
        }
    }
}
