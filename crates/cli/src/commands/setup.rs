//! From options to experiments: device, workload, warm-up.

use std::path::Path;
use std::sync::Arc;

use ftl::VictimPolicy;
use nand::{Device, Geometry};
use sim::{CacheSize, Experiment, Load, PhaseSpec, Source, Synthetic, TimingModel, TraceFile, Verify};
use workload::fio::{self, Amount, BlockSize, JobFile, JobSpec, Pattern};
use workload::trace::{AddressMap, Ratio, TraceOptions};

use crate::table::format::{bytes, digits, time, whole};

use super::input::{scan, Counted, Input, Part, Prepare, Scaled};
use super::options::{Address, Mode, Options, Timing, Victims};
use super::repeat::Again;
use super::stop::Stop;
use super::values::{SchemeSpec, WarmUp};

/// The job file that runs when nothing else is asked for.
const DOUBLE_READ: &str = include_str!("../../../../examples/double-read.fio");
/// Requests in flight of a closed-loop replay, unless told otherwise.
const DEPTH: u32 = 32;
/// Devices among which one is chosen for a trace, smallest first.
const CHOICE: [&str; 3] = ["tpftl-512m", "tpftl-16g", "femu-32g"];
const LEARNEDFTL: &str = "learnedftl: six volumes of 512 KiB writes, random then sequential";
const FILL: &str = "fill: the device once, in sequential writes of 512 KiB";
/// Random reads for each entry that the mapping cache can hold.
const SETTLING_READS: u64 = 4;
/// The smallest cached mapping entry of any scheme, bytes.
const SMALLEST_ENTRY_BYTES: u64 = 6;
const DEFAULT_DEVICE: &str = "femu-32g";
/// The mapping cache when nothing else is said.
const DEFAULT_CACHE: CacheSize = CacheSize::Share(0.03);

/// One workload on one device, for any scheme.
pub(crate) struct Setup {
    base: Experiment,
    /// What the user should know before it runs.
    pub(crate) notes: Vec<String>,
    /// Arrival of the last request of an open-loop replay, ns.
    pub(crate) arrivals_end_ns: Option<u64>,
}

struct Measured {
    name: String,
    source: String,
    /// `None`: the workload has no warm-up of its own.
    warm_up: Option<Vec<PhaseSpec>>,
    /// What the workload needs to find on the device, run after any warm-up.
    first: Vec<PhaseSpec>,
    phases: Vec<PhaseSpec>,
    arrivals_end_ns: Option<u64>,
}

/// A fio job file that is at hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobText<'a> {
    /// Its name in messages.
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
}

impl Setup {
    /// Reads everything that options name, and checks what can be checked before anything runs.
    pub(crate) fn new(options: &Options) -> Result<Setup, Stop> {
        Setup::with_jobs(options, JobText { name: "double-read.fio", text: DOUBLE_READ })
    }

    /// The same with other jobs as those that run when the options name no workload.
    pub(crate) fn with_jobs(options: &Options, built_in: JobText) -> Result<Setup, Stop> {
        let mut notes = Vec::new();
        let input = Input::of(&options.input, &options.trace)?;
        let (device, chosen) = device(options, &input)?;
        let found = match &input {
            Input::Jobs(path) => jobs(path.as_deref(), built_in, &mut notes)?,
            Input::Trace { .. } | Input::Synth { .. } => {
                replay(options, &input, &device, chosen, &mut notes)?
            }
        };
        if let Some(end) = input.end().filter(|&end| chosen && end <= device.exported_bytes()) {
            notes.push(format!(
                "the device is {}, the smallest preset that holds addresses up to {}; --device chooses another",
                device.name,
                bytes(end)
            ));
        }
        let mut warm_up = warm_up(options, &device, found.warm_up, &mut notes)?;
        warm_up.extend(found.first);
        let mut base = Experiment::new(device, String::new());
        (base.workload, base.workload_source) = (found.name, found.source);
        (base.warm_up, base.phases) = (warm_up, found.phases);
        set(&mut base, options)?;
        check_jobs(&base)?;
        Ok(Setup { base, notes, arrivals_end_ns: found.arrivals_end_ns })
    }

    /// The experiment for a scheme.
    pub(crate) fn experiment(&self, scheme: &SchemeSpec, again: &Again) -> Experiment {
        let mut experiment = self.base.clone();
        experiment.scheme.clone_from(&scheme.name);
        experiment.parameters.clone_from(&scheme.parameters);
        experiment.command = again.run(scheme, experiment.seed);
        experiment
    }

    /// What every experiment has in common.
    pub(crate) fn base(&self) -> &Experiment {
        &self.base
    }
}

/// The device, and whether it was our choice.
fn device(options: &Options, input: &Input) -> Result<(Device, bool), Stop> {
    let asked = &options.device;
    let (device, chosen) = match (&asked.device, input.end()) {
        (Some(name), _) => (Device::load(name)?, false),
        (None, Some(end)) if asked.export.is_none() => {
            let presets = CHOICE.into_iter().map(Device::named).collect::<Result<Vec<_>, _>>()?;
            let fitting = presets.into_iter().find(|device| device.exported_bytes() >= end);
            (fitting.map_or_else(|| Device::named(DEFAULT_DEVICE), Ok)?, true)
        }
        (None, end) => (Device::named(DEFAULT_DEVICE)?, end.is_none()),
    };
    let device = match asked.export {
        Some(bytes) => device.with_exported_bytes(bytes)?,
        None => device,
    };
    let device = smaller(device, asked.shrink, "--shrink", "blocks of a plane", |g| &mut g.blocks_per_plane)?;
    let device = smaller(device, asked.shorten, "--shorten", "pages of a block", |g| &mut g.pages_per_block)?;
    Ok((device, chosen))
}

/// A device with a `factor`-th of the `parts` that `count` names, and of the exported capacity; as it is without a factor.
fn smaller(
    mut device: Device,
    factor: Option<u32>,
    option: &str,
    parts: &str,
    count: fn(&mut Geometry) -> &mut u32,
) -> Result<Device, Stop> {
    let Some(factor) = factor else { return Ok(device) };
    let number = *count(&mut device.geometry);
    if !number.is_multiple_of(factor) || number == factor {
        return Err(Stop::user(format!(
            "{option} {factor} does not divide the {number} {parts} of {}; give a divisor of {number}, and leave at least two \
             of them",
            device.name
        )));
    }
    if factor > 1 {
        *count(&mut device.geometry) /= factor;
        device.exported_pages /= factor;
        device.sram_bytes = device.sram_bytes.map(|bytes| bytes / u64::from(factor));
        device.name = format!("{} (1/{factor} of the {parts})", device.name);
    }
    device.check()?;
    Ok(device)
}

/// A fio job file, or the one that is built in.
fn jobs(path: Option<&Path>, built_in: JobText, notes: &mut Vec<String>) -> Result<Measured, Stop> {
    let (file, name, source) = match path {
        None => {
            let JobText { name, text } = built_in;
            (JobFile::parse(name, text)?, stem(Path::new(name)), "built in".to_owned())
        }
        Some(path) => (job_file(path)?, stem(path), path.display().to_string()),
    };
    notes.extend(file.warnings.iter().cloned());
    let named = |error: sim::SpecError| Stop::user(format!("{source}: {error}"));
    let (warm_up, phases) = PhaseSpec::of_job_file(&file).map_err(named)?;
    let warm_up = (!warm_up.is_empty()).then_some(warm_up);
    Ok(Measured { name, source, warm_up, first: Vec::new(), phases, arrivals_end_ns: None })
}

fn job_file(path: &Path) -> Result<JobFile, Stop> {
    let name = path.display().to_string();
    let is_trace = || {
        let (format, _) = workload::trace::detect(path).ok()?;
        Some(Stop::user(format!(
            "{name} is a trace (format {}), not a fio job file; give it with --trace",
            format.name()
        )))
    };
    let text = std::fs::read_to_string(path).map_err(|error| {
        let missing = || {
            Stop::user(format!(
                "{name}: the job file cannot be read ({error}); name a fio job file, or a trace with --trace"
            ))
        };
        is_trace().unwrap_or_else(missing)
    })?;
    JobFile::parse(&name, &text).map_err(|error| is_trace().unwrap_or_else(|| Stop::from(error)))
}

/// A trace or a generator.
fn replay(
    options: &Options,
    input: &Input,
    device: &Device,
    chosen: bool,
    notes: &mut Vec<String>,
) -> Result<Measured, Stop> {
    let (address, how) = addresses(options, input, device, chosen, notes)?;
    let scale = options.trace.time_scale.unwrap_or(Ratio::ONE);
    let before = options.input.warm_up_requests.unwrap_or(0);
    let mut first = Vec::new();
    let (source, measured, name, origin, duration_ns): (Arc<dyn Source>, _, _, _, _) = match input {
        Input::Trace { path, options: read, scan } => {
            notes.extend(remarks(path, scan));
            let trace = TraceFile::new(path, TraceOptions { address, ..(**read).clone() });
            let source = Counted { trace, requests: scan.requests };
            let measured = scan.requests.checked_sub(before).filter(|&left| left > 0).ok_or_else(|| {
                Stop::user(format!(
                    "--warm-up-requests {before} leaves none of the {} requests of {} to measure; give fewer",
                    scan.requests,
                    path.display()
                ))
            })?;
            // What the part before took is not known without reading it; the whole is the safe side.
            (Arc::new(source), measured, stem(path), path.display().to_string(), Some(scan.duration_ns))
        }
        Input::Synth { synth, requests } => {
            let seed = options.input.seed;
            if let Some(prepare) = Prepare::of(synth, device.exported_bytes(), seed) {
                first.push(closed(prepare.name(), Arc::new(prepare)));
            }
            let all = requests.saturating_add(before);
            let source = Scaled { synth: Synthetic::new(synth.name, all)?, scale, seed };
            let gap = scale.apply(synth.mean_gap_ns());
            let origin = "generated by ftl, synthetic".to_owned();
            (Arc::new(source), *requests, synth.name.to_owned(), origin, gap.checked_mul(*requests))
        }
        Input::Jobs(_) => return Err(Stop::user("a job file has no arrival times")),
    };
    if before > 0 {
        let part = Part { source: Arc::clone(&source), skip: 0, take: before };
        first.push(closed(format!("the first {} requests of {name}", whole(before)), Arc::new(part)));
    }
    let source = if before > 0 { Arc::new(Part { source, skip: before, take: measured }) } else { source };
    let (load, arrivals, end) = load(options, input, source, duration_ns)?;
    Ok(Measured {
        name: format!("{name}: {} requests, {arrivals}, {how}", whole(measured)),
        source: origin,
        warm_up: None,
        first,
        phases: vec![PhaseSpec::new(name, load)],
        arrivals_end_ns: end,
    })
}

/// A phase that runs one request after the other.
fn closed(name: String, source: Arc<dyn Source>) -> PhaseSpec {
    PhaseSpec::new(name, Load::Closed { source, depth: 1 })
}

/// How requests are replayed, in words too, and when the last one arrives.
fn load(
    options: &Options,
    input: &Input,
    source: Arc<dyn Source>,
    duration_ns: Option<u64>,
) -> Result<(Load, String, Option<u64>), Stop> {
    let depth = options.trace.depth;
    let threads = match input {
        Input::Synth { synth, .. } => synth.threads(),
        _ => None,
    };
    let usual = if threads.is_some() { Mode::Closed } else { Mode::Open };
    Ok(match options.trace.mode.unwrap_or(usual) {
        Mode::Open if threads.is_some() => {
            return Err(Stop::user(format!(
                "{} is made by threads that wait for their requests and has no arrival times; leave --mode open out",
                input.name()
            )));
        }
        Mode::Open => {
            let over = duration_ns.map_or_else(String::new, |ns| format!(" over {}", time(ns as f64)));
            let limit = depth.map_or_else(String::new, |depth| format!(", at most {depth} at the device"));
            let scaled = options.trace.time_scale.is_some_and(|scale| scale != Ratio::ONE);
            let kept = if scaled { "open loop, times scaled" } else { "open loop" };
            (Load::Open { source, outstanding: depth }, format!("{kept}{over}{limit}"), duration_ns)
        }
        Mode::Closed => {
            let depth = depth.or(threads).unwrap_or(DEPTH);
            (Load::Closed { source, depth }, format!("closed loop of depth {depth}"), None)
        }
    })
}

/// What to do with addresses, and in words what it does.
fn addresses(
    options: &Options,
    input: &Input,
    device: &Device,
    chosen: bool,
    notes: &mut Vec<String>,
) -> Result<(AddressMap, String), Stop> {
    let (end, capacity) = (input.end().unwrap_or(0), device.exported_bytes());
    let fits = end <= capacity || input.elastic();
    let name = input.name();
    let address = match options.trace.address {
        Some(Address::Scale) if matches!(input, Input::Synth { .. }) => {
            return Err(Stop::user("--address scale is for --trace; give as-is or wrap with --synth"));
        }
        Some(address) => address,
        None if !fits && chosen => {
            notes.push(format!(
                "{name} reaches {} and no preset is that large: on {} its addresses are wrapped (modulo {}); --address scale \
                 shrinks them, a larger --device keeps them",
                bytes(end),
                device.name,
                bytes(capacity)
            ));
            Address::Wrap
        }
        None => Address::AsIs,
    };
    if address == Address::AsIs && !fits {
        let scale = if matches!(input, Input::Trace { .. }) {
            ", --address scale to multiply them by capacity over span"
        } else {
            ""
        };
        return Err(Stop::user(format!(
            "{name} reaches {} but device {} has {}; give --address wrap to take addresses modulo the capacity{scale}, or \
             a larger device",
            bytes(end),
            device.name,
            bytes(capacity)
        )));
    }
    let how = match address {
        Address::Scale => format!("addresses scaled from {} to {}", bytes(end), bytes(capacity)),
        Address::Wrap if !fits => format!("addresses up to {} wrapped at {}", bytes(end), bytes(capacity)),
        Address::AsIs | Address::Wrap if input.elastic() => format!("laid out on {}", bytes(capacity)),
        Address::AsIs | Address::Wrap => format!("addresses as they are, up to {}", bytes(end)),
    };
    Ok((address.into(), how))
}

/// What is odd about a trace.
fn remarks(path: &Path, scan: &super::input::Scan) -> Vec<String> {
    let name = path.display();
    let mut found = Vec::new();
    if let Some(first) = &scan.first_bad {
        found.push(format!(
            "{name}: {} of {} rows are not understood and left out, the first is {}:{} ({}); --strict makes this an error",
            whole(scan.bad_rows),
            whole(scan.rows + scan.bad_rows),
            first.line(),
            first.column(),
            first.sentence()
        ));
    }
    if scan.adjusted_rows > 0 {
        found.push(format!("{name}: one sector too many was taken off {} rows", whole(scan.adjusted_rows)));
    }
    if scan.devices.len() > 1 {
        found.push(format!(
            "{name}: {} devices ({}) are laid out one behind the other; --trace-device NAME keeps one",
            scan.devices.len(),
            scan.devices.join(", ")
        ));
    }
    found
}

/// What runs before measuring; `own` is the job file's.
fn warm_up(
    options: &Options,
    device: &Device,
    own: Option<Vec<PhaseSpec>>,
    notes: &mut Vec<String>,
) -> Result<Vec<PhaseSpec>, Stop> {
    Ok(match (&options.input.warm_up, own) {
        (None, Some(own)) => own,
        (None | Some(WarmUp::Steady), _) => {
            vec![PhaseSpec::new(LEARNEDFTL, Load::LearnedFtl), settling(cache(options, device), device)?]
        }
        (Some(WarmUp::Swept), _) => vec![PhaseSpec::new(LEARNEDFTL, Load::LearnedFtl), sweep(device)],
        (Some(WarmUp::LearnedFtl), _) => vec![PhaseSpec::new(LEARNEDFTL, Load::LearnedFtl)],
        (Some(WarmUp::None), _) => Vec::new(),
        (Some(WarmUp::Fill), _) => vec![PhaseSpec { name: FILL.to_owned(), ..PhaseSpec::fill() }],
        (Some(WarmUp::File(path)), _) if path.extension().is_some_and(|ending| ending == "fio") => {
            let file = job_file(path)?;
            notes.extend(file.warnings.iter().cloned());
            let named = |phase: &fio::Phase| {
                let names: Vec<&str> = phase.jobs.iter().map(|job| job.name.as_str()).collect();
                PhaseSpec::new(names.join("+"), Load::Jobs(phase.clone()))
            };
            file.phases.iter().map(named).collect()
        }
        (Some(WarmUp::File(path)), _) => vec![trace_as_warm_up(path, options, device, notes)?],
    })
}

/// Random reads that push the entries which writes left dirty out of the mapping cache. A scheme that writes such
/// entries back one by one would otherwise spend the whole of a short trace on the warm-up's.
fn settling(cache: CacheSize, device: &Device) -> Result<PhaseSpec, Stop> {
    let entries = cache.bytes(device.exported_pages).map_err(Stop::User)? / SMALLEST_ENTRY_BYTES;
    let reads = (SETTLING_READS * entries).min(2 * u64::from(device.exported_pages)).max(1);
    let name = format!("then {} random reads, which clean the mapping cache", whole(reads));
    Ok(all_reads(name, Pattern::RandRead, u64::from(device.geometry.page_bytes), reads))
}

/// One sequential read of the device, which does the same and leaves what sequential requests leave.
fn sweep(device: &Device) -> PhaseSpec {
    let bytes = workload::warm_up::REQUEST_BYTES;
    let name = "then one sequential read in 512 KiB, which cleans the mapping cache".to_owned();
    all_reads(name, Pattern::Read, bytes, device.exported_bytes().div_ceil(bytes))
}

/// Reads of `bytes` each over the whole device, with the clock off.
fn all_reads(name: String, rw: Pattern, bytes: u64, reads: u64) -> PhaseSpec {
    let mut job = JobSpec::new("reads");
    (job.rw, job.norandommap, job.number_ios) = (rw, true, Some(reads));
    job.io_size = Some(Amount::Bytes(u64::MAX));
    job.bs = [BlockSize::Fixed(bytes), BlockSize::Fixed(bytes), BlockSize::Fixed(bytes)];
    PhaseSpec::new(name, Load::Jobs(fio::Phase { jobs: vec![job], warm_up: true }))
}

/// The mapping cache as asked for, else the device's memory, else a share.
fn cache(options: &Options, device: &Device) -> CacheSize {
    options.device.cache.unwrap_or(device.sram_bytes.map_or(DEFAULT_CACHE, CacheSize::Bytes))
}

/// A trace replayed without its times, with its addresses treated as those of the measured one.
fn trace_as_warm_up(
    path: &Path,
    options: &Options,
    device: &Device,
    notes: &mut Vec<String>,
) -> Result<PhaseSpec, Stop> {
    let read = TraceOptions { strict: options.trace.strict, ..TraceOptions::default() };
    let scan = scan(path, &read)?;
    notes.extend(remarks(path, &scan));
    let fits = scan.end <= device.exported_bytes();
    let address = match options.trace.address {
        Some(address) => address.into(),
        None if fits => AddressMap::AsIs,
        None => {
            notes.push(format!(
                "{}: addresses up to {} are wrapped at {}",
                path.display(),
                bytes(scan.end),
                bytes(device.exported_bytes())
            ));
            AddressMap::Wrap
        }
    };
    let trace = TraceFile::new(path, TraceOptions { address, ..read });
    let source = Arc::new(Counted { trace, requests: scan.requests });
    Ok(PhaseSpec::new(stem(path), Load::Closed { source, depth: 1 }))
}

/// Everything else that options say.
fn set(base: &mut Experiment, options: &Options) -> Result<(), Stop> {
    base.cache = cache(options, &base.device);
    base.faults = options.device.faults.clone().unwrap_or_default();
    base.foreground_superblocks = options.device.gc_foreground;
    base.background_superblocks = options.device.gc_background;
    base.victims = match options.device.victims {
        Victims::Greedy => VictimPolicy::Greedy,
        Victims::CostBenefit => VictimPolicy::CostBenefit,
    };
    base.rewrite_ns = options.device.rewrite;
    base.power_cut = options.running.power_cut;
    let policy = options.time.policy;
    base.timing = match options.time.timing {
        Timing::Queued => TimingModel::Queued { policy: policy.map(Into::into) },
        _ if policy.is_some() => {
            return Err(Stop::user(
                "--policy orders the queues of --timing queued; leave one of the two out",
            ));
        }
        Timing::Reserved => TimingModel::Reserved,
        Timing::None => TimingModel::NoClock,
    };
    base.host_overhead_ns = options.time.host_overhead_us;
    base.host_cpus = options.time.host_cpus;
    base.seed = options.input.seed;
    base.verify = if options.running.verify { Verify::Full } else { Verify::Sampled };
    Ok(())
}

/// Opens every job's requests, so that a job that does not fit is told of before the warm-up and not after it.
fn check_jobs(base: &Experiment) -> Result<(), Stop> {
    let clock_off = base.timing == TimingModel::NoClock;
    let phases = base.warm_up.iter().map(|phase| (phase, true));
    for (phase, untimed) in phases.chain(base.phases.iter().map(|phase| (phase, clock_off))) {
        let Load::Jobs(jobs) = &phase.load else { continue };
        for job in &jobs.jobs {
            let streams = job.streams(base.device.exported_bytes(), base.seed)?;
            if untimed && streams.iter().any(fio::JobStream::time_based) {
                return Err(Stop::user(format!(
                    "[{}] runs for a time, but the clock is off, so it would never end; give io_size or loops instead \
                     of time_based",
                    job.name
                )));
            }
        }
    }
    Ok(())
}

/// The file's name without its ending, compression and format included.
fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let mut name = name.as_ref();
    for ending in [".gz", ".xz", ".zst", ".bz2"] {
        name = name.strip_suffix(ending).unwrap_or(name);
    }
    name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned()
}

/// A note when requests of an open-loop replay waited ever longer.
pub(crate) fn saturation(setup: &Setup, label: &str, elapsed_ns: u64) -> Option<String> {
    let end = setup.arrivals_end_ns?;
    let late = elapsed_ns.saturating_sub(end);
    (late > end / 20 && late > 1_000_000_000).then(|| {
        format!(
            "{label} cannot keep up with the arrivals: it ended {} after the last one, so latencies tell the length of the \
             trace; replay it {} times as slowly (--time-scale), or without its times (--mode closed)",
            time(late as f64),
            digits((end + late) as f64 / end.max(1) as f64)
        )
    })
}
