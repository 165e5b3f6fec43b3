//! From a set-up to experiments: device, workload, warm-up.

use std::path::Path;
use std::sync::Arc;

use nand::{DeviceSpec, Geometry};
use workload::fio::{self, Amount, BlockSize, JobFile, JobSpec, Pattern};
use workload::trace::{AddressMap, Ratio, TraceOptions};
use workload::warm_up::{FILL, USUAL};
use workload::InputError;

use super::input::{scan, Adjusted, AsWrites, Counted, Input, Part, Prepare, Scaled, Scan};
use super::{CacheAtStart, JobText, Mode, Resolved, Setup, SetupError, WarmUp};
use crate::format::{bytes, time, whole};
use crate::plan;
use crate::reference::Verify;
use crate::source::{Source, Synthetic, TraceFile};
use crate::spec::{BadValue, CacheSize, CacheState, Experiment, Load, PhaseSpec, TimingModel};

/// The job file that runs when nothing else is asked for.
const DOUBLE_READ: (&str, &str) = ("double-read.fio", include_str!("../../../../examples/double-read.fio"));
const FIRST_LOOK: (&str, &str) = ("first-look.fio", include_str!("../../../../examples/first-look.fio"));
/// Blocks of a first look have one of this many parts of the pages.
const FIRST_LOOK_SHORTEN: u32 = 8;
/// Requests in flight of a closed-loop replay, unless told otherwise.
const DEPTH: u32 = 32;
/// Devices among which one is chosen for a trace, smallest first.
const CHOICE: [&str; 3] = ["tpftl-512m", "tpftl-16g", "femu-32g"];
/// The clock counts to 2^64 ns. The last requests have a sixteenth of that to be answered in.
const LATEST_ARRIVAL_NS: u64 = u64::MAX - u64::MAX / 16;
/// Random reads for each entry that the mapping cache can hold.
const SETTLING_READS: u64 = 4;
/// The smallest cached mapping entry of any scheme, bytes.
const SMALLEST_ENTRY_BYTES: u64 = 6;
const DEFAULT_DEVICE: &str = "femu-32g";
/// The mapping cache when nothing else is said.
const DEFAULT_CACHE: CacheSize = CacheSize::Share(0.03);

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

impl Setup {
    /// Reads everything that the set-up names, and checks what can be checked before anything runs.
    ///
    /// # Errors
    /// A file that cannot be read, a device that is impossible, values that do not go together.
    pub fn resolve(&self) -> Result<Resolved, SetupError> {
        if self.names_trace() {
            let asked = Setup { trace: self.job_file.clone(), job_file: None, ..self.clone() };
            return asked.resolve();
        }
        let mut notes = Vec::new();
        let input = Input::of(self)?;
        if self.first_look() {
            notes.push(format!(
                "no workload and no device is named: this is a first look, short jobs on a device with blocks of 1/{FIRST_LOOK_SHORTEN} \
                 of the pages; option device {DEFAULT_DEVICE} runs the jobs in full on the whole device, which takes minutes"
            ));
        }
        let (device, chosen) = device(self, &input)?;
        let found = match &input {
            Input::Jobs => jobs(self, &mut notes)?,
            Input::Trace { .. } | Input::Synth { .. } | Input::Given(_) => {
                replay(self, &input, &device, chosen, &mut notes)?
            }
        };
        if let Some(end) = input.end().filter(|&end| chosen && end <= device.exported_bytes()) {
            notes.push(format!(
                "the device is {}, the smallest preset that holds addresses up to {}; option device chooses another",
                device.name,
                bytes(end)
            ));
        }
        let mut warm_up = warm_up(self, &device, found.warm_up, &mut notes)?;
        warm_up.extend(found.first);
        if self.rest {
            warm_up.push(PhaseSpec::rest());
        }
        if self.cache_state == Some(CacheAtStart::Warm) {
            warm_up.push(settling(cache(self, &device), &device)?);
        }
        let mut base = Experiment::new(device, String::new());
        (base.workload, base.workload_source) = (found.name, found.source);
        (base.warm_up, base.phases) = (warm_up, found.phases);
        set(&mut base, self)?;
        check_jobs(&base)?;
        let (schemes, arrivals_end_ns) = (self.schemes.clone(), found.arrivals_end_ns);
        Ok(Resolved { base, schemes, notes, arrivals_end_ns })
    }

    /// Takes for a trace what is named as a job file and is one.
    pub(crate) fn take_trace(&mut self) {
        if self.names_trace() {
            self.trace = self.job_file.take();
        }
    }

    /// Whether the job file that is named is a trace.
    fn names_trace(&self) -> bool {
        let is_trace = |path: &Path| {
            let may_be = path.extension().is_none_or(|ending| ending != "fio");
            may_be && (self.columns.is_some() || workload::trace::detect(path).is_ok())
        };
        self.trace.is_none() && self.job_file.as_deref().is_some_and(is_trace)
    }

    fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }

    /// Neither a workload nor a device is named: what is wanted is a table, and soon.
    fn first_look(&self) -> bool {
        let workload = [
            self.job_file.is_some(),
            self.jobs.is_some(),
            self.trace.is_some(),
            self.synth.is_some(),
            self.given.is_some(),
        ];
        let device =
            [self.device.is_some(), self.export.is_some(), self.shrink.is_some(), self.shorten.is_some()];
        !workload.into_iter().chain(device).any(|given| given)
    }
}

/// The device, and whether it was our choice.
fn device(asked: &Setup, input: &Input) -> Result<(DeviceSpec, bool), SetupError> {
    let (device, chosen) = match (&asked.device, input.end()) {
        (Some(name), _) => (DeviceSpec::load(name)?, false),
        (None, Some(end)) if asked.export.is_none() => {
            let presets = CHOICE.into_iter().map(DeviceSpec::named).collect::<Result<Vec<_>, _>>()?;
            let fitting = presets.into_iter().find(|device| device.exported_bytes() >= end);
            (fitting.map_or_else(|| DeviceSpec::named(DEFAULT_DEVICE), Ok)?, true)
        }
        (None, end) => (DeviceSpec::named(DEFAULT_DEVICE)?, end.is_none()),
    };
    let device = match asked.export {
        Some(bytes) => device.with_exported_bytes(bytes)?,
        None => device,
    };
    let device = smaller(device, asked.shrink, "shrink", "blocks of a plane", |g| &mut g.blocks_per_plane)?;
    let shorten = asked.shorten.or(asked.first_look().then_some(FIRST_LOOK_SHORTEN));
    let device = smaller(device, shorten, "shorten", "pages of a block", |g| &mut g.pages_per_block)?;
    Ok((device, chosen))
}

/// A device with a `factor`-th of the `parts` that `count` names, and of the exported capacity; as it is
/// without a factor.
fn smaller(
    mut device: DeviceSpec,
    factor: Option<u32>,
    key: &str,
    parts: &str,
    count: fn(&mut Geometry) -> &mut u32,
) -> Result<DeviceSpec, SetupError> {
    let Some(factor) = factor else { return Ok(device) };
    let number = *count(&mut device.geometry);
    let name = &device.name;
    if !number.is_multiple_of(factor) {
        let what =
            format!("{factor} does not divide the {number} {parts} of {name}; give a divisor of {number}");
        return Err(SetupError::unsuitable(key, what));
    }
    if number / factor < 2 {
        let most = number / 2;
        let what = format!(
            "{factor} leaves 1 of the {number} {parts} of {name}; at least 2 are needed: give at most {most}"
        );
        return Err(SetupError::unsuitable(key, what));
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
fn jobs(setup: &Setup, notes: &mut Vec<String>) -> Result<Measured, SetupError> {
    let (file, name, source) = match (&setup.job_file, &setup.jobs) {
        (Some(path), _) => (job_file(path)?, stem(path), path.display().to_string()),
        (None, at_hand) => {
            let at_hand = at_hand.as_ref().map(|JobText { name, text }| (&**name, &**text));
            let (name, text) = at_hand.unwrap_or(if setup.first_look() { FIRST_LOOK } else { DOUBLE_READ });
            (JobFile::parse(name, text)?, stem(Path::new(name)), "built in".to_owned())
        }
    };
    notes.extend(file.warnings.iter().cloned());
    let named = |error: BadValue| InputError::in_file(&source, error.0);
    let (warm_up, phases) = PhaseSpec::of_job_file(&file).map_err(named)?;
    let warm_up = (!warm_up.is_empty()).then_some(warm_up);
    Ok(Measured { name, source, warm_up, first: Vec::new(), phases, arrivals_end_ns: None })
}

fn job_file(path: &Path) -> Result<JobFile, InputError> {
    let name = path.display().to_string();
    let is_trace = || {
        let (format, _) = workload::trace::detect(path).ok()?;
        let what = format!(
            "{name} is a trace (format {}), not a fio job file; give it with the option trace",
            format.name()
        );
        Some(InputError::in_file("", what))
    };
    let text = std::fs::read_to_string(path).map_err(|error| {
        let missing = || {
            let what = format!(
                "the job file cannot be read ({error}); name a fio job file, or a trace with the option trace"
            );
            InputError::in_file(&name, what)
        };
        is_trace().unwrap_or_else(missing)
    })?;
    JobFile::parse(&name, &text).map_err(|error| is_trace().unwrap_or(error))
}

/// A trace or a generator.
fn replay(
    setup: &Setup,
    input: &Input,
    device: &DeviceSpec,
    chosen: bool,
    notes: &mut Vec<String>,
) -> Result<Measured, SetupError> {
    let (address, how) = addresses(setup, input, device, chosen, notes)?;
    let scale = setup.time_scale.unwrap_or(Ratio::ONE);
    let before = setup.warm_up_requests.unwrap_or(0);
    let mut first = Vec::new();
    let (source, measured, name, origin, duration_ns): (Arc<dyn Source>, _, _, _, _) = match input {
        Input::Trace { path, options: read, scan } => {
            notes.extend(remarks(path, scan));
            let trace = TraceFile::new(path, TraceOptions { address, ..(**read).clone() });
            let source = Counted { trace, requests: scan.requests };
            let measured = after(before, scan.requests, &path.display())?;
            // What the part before took is not known without reading it; the whole is the safe side.
            let origin = setup.trace_source.clone().unwrap_or_else(|| path.display().to_string());
            (Arc::new(source), measured, stem(path), origin, Some(scan.duration_ns))
        }
        Input::Synth { synth, requests } => {
            let seed = setup.seed();
            if let Some(prepare) = Prepare::of(synth, device.exported_bytes(), seed) {
                first.push(closed(prepare.name(), Arc::new(prepare)));
            }
            let all = requests.saturating_add(before);
            let source = Scaled { synth: Synthetic::new(synth.name, all)?, scale, seed };
            let gap = scale.apply(synth.mean_gap_ns());
            let origin = "generated by ftl, synthetic".to_owned();
            (Arc::new(source), *requests, synth.name.to_owned(), origin, gap.checked_mul(*requests))
        }
        Input::Given(given) => {
            let all = given.source.count().unwrap_or(0);
            let (measured, name) = (after(before, all, &input.name())?, input.name());
            let source = Adjusted { given: given.clone(), scale, address };
            let duration_ns = scale.apply(given.duration_ns);
            (Arc::new(source), measured, name, "requests at hand".to_owned(), Some(duration_ns))
        }
        Input::Jobs => return Err(SetupError::unsuitable("jobs", "have no arrival times")),
    };
    if setup.warm_up == Some(WarmUp::Workload) {
        let writes = AsWrites { source: Arc::clone(&source) };
        first.push(closed(format!("then the requests of {name}, each as a write"), Arc::new(writes)));
    }
    if before > 0 {
        let part = Part { source: Arc::clone(&source), skip: 0, take: before };
        first.push(closed(format!("the first {} requests of {name}", whole(before)), Arc::new(part)));
    }
    let left_out = match input {
        Input::Trace { scan, .. } if scan.bad_rows > 0 => {
            format!(", {} of {} rows left out", whole(scan.bad_rows), whole(scan.rows + scan.bad_rows))
        }
        _ => String::new(),
    };
    let source = if before > 0 { Arc::new(Part { source, skip: before, take: measured }) } else { source };
    let (load, arrivals, end) = load(setup, input, source, duration_ns)?;
    if end.is_some_and(|end| end > LATEST_ARRIVAL_NS) {
        let what = format!(
            "is needed: the last request of {name} arrives after more than {} years, and the clock counts no further; give a pause \
             such as 1s",
            LATEST_ARRIVAL_NS / (365 * 24 * 3600 * 1_000_000_000)
        );
        return Err(SetupError::unsuitable("max-gap", what));
    }
    Ok(Measured {
        name: format!("{name}: {} requests, {arrivals}, {how}{left_out}", whole(measured)),
        source: origin,
        warm_up: None,
        first,
        phases: vec![PhaseSpec::new(name, load)],
        arrivals_end_ns: end,
    })
}

/// Requests left to measure after `before` of `all`.
fn after(before: u64, all: u64, name: &dyn std::fmt::Display) -> Result<u64, SetupError> {
    all.checked_sub(before).filter(|&left| left > 0).ok_or_else(|| {
        let what = format!("{before} leaves none of the {all} requests of {name} to measure; give fewer");
        SetupError::unsuitable("warm-up-requests", what)
    })
}

/// A phase that runs one request after the other.
fn closed(name: String, source: Arc<dyn Source>) -> PhaseSpec {
    PhaseSpec::new(name, Load::Closed { source, depth: 1 })
}

/// How requests are replayed, in words too, and when the last one arrives.
fn load(
    setup: &Setup,
    input: &Input,
    source: Arc<dyn Source>,
    duration_ns: Option<u64>,
) -> Result<(Load, String, Option<u64>), SetupError> {
    let depth = setup.depth;
    let threads = match input {
        Input::Synth { synth, .. } => synth.threads(),
        _ => None,
    };
    let usual = if threads.is_some() { Mode::Closed } else { Mode::Open };
    Ok(match setup.mode.unwrap_or(usual) {
        Mode::Open if threads.is_some() => {
            let name = input.name();
            let what = format!("open needs arrival times, and threads that wait make {name}; leave it out");
            return Err(SetupError::unsuitable("mode", what));
        }
        Mode::Open => {
            let part = !matches!(input, Input::Synth { .. })
                && setup.warm_up_requests.is_some_and(|first| first > 0);
            let most = if part { "at most " } else { "" };
            let over = duration_ns.map_or_else(String::new, |ns| format!(" over {most}{}", time(ns as f64)));
            let limit = depth.map_or_else(String::new, |depth| format!(", at most {depth} at the device"));
            let scaled = setup.time_scale.is_some_and(|scale| scale != Ratio::ONE);
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
    setup: &Setup,
    input: &Input,
    device: &DeviceSpec,
    chosen: bool,
    notes: &mut Vec<String>,
) -> Result<(AddressMap, String), SetupError> {
    let (end, capacity) = (input.end().unwrap_or(0), device.exported_bytes());
    let fits = end <= capacity || input.elastic();
    let name = input.name();
    if input.least_bytes() > capacity {
        let what = format!(
            "{} is too small: {name} needs {} and it has {}; give a larger one",
            device.name,
            bytes(input.least_bytes()),
            bytes(capacity)
        );
        return Err(SetupError::unsuitable("device", what));
    }
    let address = match setup.address {
        Some(AddressMap::Scale) if matches!(input, Input::Synth { .. }) => {
            let what = "scale is for a trace; give as-is or wrap with a generator";
            return Err(SetupError::unsuitable("address", what));
        }
        Some(address) => address,
        None if !fits && chosen => {
            notes.push(format!(
                "{name} reaches {} and no preset is that large: on {} its addresses are wrapped (modulo {}); address scale \
                 shrinks them, a larger device keeps them",
                bytes(end),
                device.name,
                bytes(capacity)
            ));
            AddressMap::Wrap
        }
        None => AddressMap::AsIs,
    };
    if address == AddressMap::AsIs && !fits {
        let scale = if matches!(input, Input::Trace { .. } | Input::Given(_)) {
            ", scale to multiply them by capacity over span"
        } else {
            ""
        };
        let what = format!(
            "as-is is impossible: {name} reaches {} but device {} has {}; give wrap to take addresses modulo the \
             capacity{scale}, or a larger device",
            bytes(end),
            device.name,
            bytes(capacity)
        );
        return Err(SetupError::unsuitable("address", what));
    }
    let how = match address {
        AddressMap::Scale => format!("addresses scaled from {} to {}", bytes(end), bytes(capacity)),
        AddressMap::Wrap if !fits => format!("addresses up to {} wrapped at {}", bytes(end), bytes(capacity)),
        AddressMap::AsIs | AddressMap::Wrap if input.elastic() => format!("laid out on {}", bytes(capacity)),
        AddressMap::AsIs | AddressMap::Wrap => format!("addresses as they are, up to {}", bytes(end)),
    };
    Ok((address, how))
}

/// What is odd about a trace.
fn remarks(path: &Path, scan: &Scan) -> Vec<String> {
    let name = path.display();
    let mut found = Vec::new();
    if let Some(first) = &scan.first_bad {
        found.push(format!(
            "{name}: {} of {} rows are not understood and left out, the first is {}:{} ({}); option strict makes this an error",
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
            "{name}: {} devices ({}) are laid out one behind the other; option trace-device keeps one",
            scan.devices.len(),
            scan.devices.join(", ")
        ));
    }
    found
}

/// What runs before measuring; `own` is the job file's.
fn warm_up(
    setup: &Setup,
    device: &DeviceSpec,
    own: Option<Vec<PhaseSpec>>,
    notes: &mut Vec<String>,
) -> Result<Vec<PhaseSpec>, SetupError> {
    if let (Some(_), Some(own)) = (&setup.warm_up, &own) {
        let own: Vec<&str> = own.iter().map(|phase| phase.name.as_str()).collect();
        let what = format!(
            "would take the place of the job file's own warm-up, {}; leave it out, or give a job file without such sections",
            own.join(", ")
        );
        return Err(SetupError::unsuitable("warm-up", what));
    }
    Ok(match (&setup.warm_up, own) {
        (None, Some(own)) => own,
        (None | Some(WarmUp::Steady), _) => {
            vec![PhaseSpec::warm_up(USUAL), settling(cache(setup, device), device)?]
        }
        (Some(WarmUp::Swept), _) => vec![PhaseSpec::warm_up(USUAL), sweep(device)],
        (Some(WarmUp::Writes(warm_up)), _) => vec![PhaseSpec::warm_up(*warm_up)],
        (Some(WarmUp::Workload), _) => vec![PhaseSpec::warm_up(FILL)],
        (Some(WarmUp::None), _) => Vec::new(),
        (Some(WarmUp::File(path)), _) if path.extension().is_some_and(|ending| ending == "fio") => {
            let file = job_file(path)?;
            notes.extend(file.warnings.iter().cloned());
            let named = |phase: &fio::Phase| {
                let names: Vec<&str> = phase.jobs.iter().map(|job| job.name.as_str()).collect();
                PhaseSpec::new(names.join("+"), Load::Jobs(phase.clone()))
            };
            file.phases.iter().map(named).collect()
        }
        (Some(WarmUp::File(path)), _) => vec![trace_as_warm_up(path, setup, device, notes)?],
    })
}

/// Random reads that push the entries which writes left dirty out of the mapping cache. A scheme that writes
/// such entries back one by one would otherwise spend the whole of a short trace on the warm-up's.
fn settling(cache: CacheSize, device: &DeviceSpec) -> Result<PhaseSpec, BadValue> {
    let entries = cache.bytes(device.exported_pages)? / SMALLEST_ENTRY_BYTES;
    let reads = (SETTLING_READS * entries).min(2 * u64::from(device.exported_pages)).max(1);
    let name =
        format!("then {} random reads, which put out what is dirty in the mapping cache", whole(reads));
    Ok(all_reads(name, Pattern::RandRead, u64::from(device.geometry.page_bytes), reads))
}

/// One sequential read of the device, which does the same and leaves what sequential requests leave.
fn sweep(device: &DeviceSpec) -> PhaseSpec {
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
fn cache(setup: &Setup, device: &DeviceSpec) -> CacheSize {
    setup.cache.unwrap_or(device.sram_bytes.map_or(DEFAULT_CACHE, CacheSize::Bytes))
}

/// A trace replayed without its times, with its addresses treated as those of the measured one.
fn trace_as_warm_up(
    path: &Path,
    setup: &Setup,
    device: &DeviceSpec,
    notes: &mut Vec<String>,
) -> Result<PhaseSpec, SetupError> {
    let read = TraceOptions { strict: setup.strict, ..TraceOptions::default() };
    let scan = scan(path, &read)?;
    notes.extend(remarks(path, &scan));
    let fits = scan.end <= device.exported_bytes();
    let address = match setup.address {
        Some(address) => address,
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

/// Everything else that the set-up says.
fn set(base: &mut Experiment, setup: &Setup) -> Result<(), SetupError> {
    base.cache = cache(setup, &base.device);
    base.cache_state = match setup.cache_state {
        None | Some(CacheAtStart::Dirty) => CacheState::Dirty,
        Some(CacheAtStart::Clean | CacheAtStart::Warm) => CacheState::Clean,
        Some(CacheAtStart::Empty) => CacheState::Empty,
    };
    base.faults = setup.faults.clone().unwrap_or_default();
    base.foreground_superblocks = setup.gc_foreground;
    base.background_superblocks = setup.gc_background;
    base.foreground_only = setup.foreground_only;
    if base.foreground_only && setup.gc_background.is_some() {
        let what = "begins no collection ahead of need; leave gc-background out";
        return Err(SetupError::unsuitable("foreground-only", what));
    }
    base.wear_gap = setup.wear_gap;
    base.victims = setup.victims.unwrap_or_default();
    if setup.rewrite == Some(0) {
        return Err(SetupError::unsuitable(
            "rewrite",
            "0 would rewrite without end; give a time such as 30s",
        ));
    }
    base.rewrite_ns = setup.rewrite;
    base.power_cut = setup.power_cut;
    base.until_worn = setup.until_worn;
    if let Some(erases) = setup.endurance {
        base.device.endurance = Some(erases);
    }
    let fails = base.faults.program_fail_ppm > 0 || base.faults.erase_fail_ppm > 0;
    if base.until_worn && base.device.endurance.is_none() && !fails {
        let what = "needs blocks that wear out; give endurance, such as 100, or a device file with endurance";
        return Err(SetupError::unsuitable("until-worn", what));
    }
    base.timing = match (setup.timing.unwrap_or_default(), setup.policy) {
        (TimingModel::Queued { policy }, asked) => TimingModel::Queued { policy: asked.or(policy) },
        (_, Some(_)) => {
            let what = "orders the queues of timing queued; leave one of the two out";
            return Err(SetupError::unsuitable("policy", what));
        }
        (timing, None) => timing,
    };
    base.host_overhead_ns = setup.host_overhead_ns;
    base.host_cpus = setup.host_cpus;
    base.seed = setup.seed();
    base.verify = if setup.verify { Verify::Full } else { Verify::Sampled };
    Ok(())
}

/// Opens every job's requests, so that a job that does not fit is told of before the warm-up and not after
/// it.
fn check_jobs(base: &Experiment) -> Result<(), InputError> {
    let clock_off = base.timing == TimingModel::NoClock;
    let phases = base.warm_up.iter().map(|phase| (phase, true));
    for (phase, untimed) in phases.chain(base.phases.iter().map(|phase| (phase, clock_off))) {
        let Load::Jobs(jobs) = &phase.load else { continue };
        for job in &jobs.jobs {
            let streams = job.streams(base.device.exported_bytes(), base.seed)?;
            if untimed && streams.iter().any(fio::JobStream::time_based) {
                return Err(plan::endless(job));
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
