//! What to run: one scheme on one device under one workload.

use std::collections::BTreeMap;
use std::sync::Arc;

use ftl::VictimPolicy;
use nand::timing::Policy;
use nand::SimOptions;
use workload::fio;
use workload::warm_up::WarmUp;

use crate::reference::Verify;
use crate::source::Source;

/// Bytes of one mapping entry by which a share of the full table is counted, as the papers do.
pub const FULL_TABLE_ENTRY_BYTES: u64 = 8;

/// [`Experiment::workload_source`] of a workload that comes from no file.
const BUILT_IN: &str = "built in";

/// One scheme on one device under one workload.
#[derive(Clone)]
pub struct Experiment {
    /// Geometry, times and policy of the flash.
    pub device: nand::DeviceSpec,
    /// Pages the host sees; the device's own number unless given.
    pub exported_pages: Option<u32>,
    /// What the array does besides its description: faults. The seed in it is replaced by
    /// [`Experiment::seed`].
    pub faults: SimOptions,
    /// Registered name of the scheme.
    pub scheme: String,
    /// Parameters of the scheme.
    pub parameters: BTreeMap<String, String>,
    /// Memory for mapping structures, directory and all; the same bytes for every scheme that is compared.
    pub cache: CacheSize,
    /// Free superblocks at which a write waits; the FTL's default unless given.
    pub foreground_superblocks: Option<u32>,
    /// Free superblocks at which collection starts; the FTL's default unless given.
    pub background_superblocks: Option<u32>,
    /// Whether collection begins only when a write waits for it.
    pub foreground_only: bool,
    /// How victims of collection are chosen.
    pub victims: VictimPolicy,
    /// Static wear levelling: what lags so many erases behind the mean is moved; never unless given.
    pub wear_gap: Option<u32>,
    /// Time on the device in which everything is rewritten once, ns, while there is a clock; never unless
    /// given.
    pub rewrite_ns: Option<u64>,
    /// Run the measured phases again and again until the device is worn out. The first time is measured.
    pub until_worn: bool,
    /// Flush at the end, cut the power, and recover.
    pub power_cut: bool,
    /// Model of time for the measured phases.
    pub timing: TimingModel,
    /// Run first, with the clock off, and not measured.
    pub warm_up: Vec<PhaseSpec>,
    /// What is done about the mapping cache then.
    pub cache_state: CacheState,
    /// Run and measured, one after the other.
    pub phases: Vec<PhaseSpec>,
    /// Of every random choice.
    pub seed: u64,
    /// How much is read back against the reference.
    pub verify: Verify,
    /// Host software's time for each request, ns; the device's own unless given.
    pub host_overhead_ns: Option<u64>,
    /// Host processors that share it; the device's own unless given.
    pub host_cpus: Option<u32>,
    /// How often a point of the time series is taken.
    pub series: Series,
    /// Name of the workload in results.
    pub workload: String,
    /// Where it comes from: a job file, a trace file, or `built in`.
    pub workload_source: String,
    /// The command that repeats this run, for messages; only whoever made the experiment knows it.
    pub command: String,
}

impl Experiment {
    /// An experiment without phases: 3 % cache, queue model, sampled verification, seed 1, everything else as
    /// the device and the scheme have it.
    pub fn new(device: nand::DeviceSpec, scheme: impl Into<String>) -> Experiment {
        Experiment {
            device,
            exported_pages: None,
            faults: SimOptions::default(),
            scheme: scheme.into(),
            parameters: BTreeMap::new(),
            cache: CacheSize::Share(0.03),
            foreground_superblocks: None,
            background_superblocks: None,
            foreground_only: false,
            wear_gap: None,
            victims: VictimPolicy::default(),
            rewrite_ns: None,
            until_worn: false,
            power_cut: false,
            timing: TimingModel::default(),
            warm_up: Vec::new(),
            cache_state: CacheState::default(),
            phases: Vec::new(),
            seed: 1,
            verify: Verify::default(),
            host_overhead_ns: None,
            host_cpus: None,
            series: Series::default(),
            workload: String::new(),
            workload_source: BUILT_IN.to_owned(),
            command: String::new(),
        }
    }

    /// All that the first phases of the warm-up depend on, as text: runs with equal ones may share a device
    /// that has these phases behind it. They end where the requests come from a source, which has no text.
    /// `None`: the run has no such phases.
    pub fn start(&self) -> Option<String> {
        let phases = &self.warm_up[..self.start_phases()];
        if phases.is_empty() {
            return None;
        }
        // Every field is named, so that none is forgotten. The clock is off in a warm-up.
        let Experiment {
            device,
            exported_pages,
            faults,
            scheme,
            parameters,
            cache,
            foreground_superblocks,
            background_superblocks,
            foreground_only,
            victims,
            wear_gap,
            rewrite_ns,
            until_worn: _,
            power_cut,
            timing: _,
            warm_up: _,
            cache_state: _,
            phases: _,
            seed,
            verify,
            host_overhead_ns: _,
            host_cpus: _,
            series: _,
            workload: _,
            workload_source: _,
            command: _,
        } = self;
        // Not every scheme rewrites.
        let rewrites = rewrite_ns.is_some();
        let phases: Vec<_> = phases.iter().map(|phase| (&phase.name, phase.load.text())).collect();
        Some(format!(
            "{:?}",
            (
                (device, exported_pages, faults, scheme, parameters, cache),
                (foreground_superblocks, background_superblocks, foreground_only, victims),
                (wear_gap, rewrites, power_cut, seed, verify, phases),
            )
        ))
    }

    /// How many phases of the warm-up [`Experiment::start`] covers.
    pub(crate) fn start_phases(&self) -> usize {
        self.warm_up.iter().take_while(|phase| phase.load.text().is_some()).count()
    }

    /// How to repeat this run: the command it came from, else what it was in words.
    pub fn repeat(&self) -> String {
        if !self.command.is_empty() {
            return self.command.clone();
        }
        let Experiment { device, scheme, seed, workload, .. } = self;
        let parameters: String =
            self.parameters.iter().map(|(key, value)| format!(", {key} {value}")).collect();
        let workload = if workload.is_empty() { "the same phases" } else { workload };
        format!("scheme {scheme}{parameters} on {} with {workload} and seed {seed}", device.name)
    }
}

/// Memory for mapping structures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CacheSize {
    /// A number of bytes, the same on every device.
    Bytes(u64),
    /// So much of the full page-level table of the exported capacity, counted with
    /// [`FULL_TABLE_ENTRY_BYTES`] a page: 0.03 of 30 GiB in 4 KiB pages is 1.8 MiB.
    Share(f64),
}

/// What becomes of the mapping cache between warm-up and measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheState {
    /// It stays as the warm-up left it: the measured phases write back what the warm-up left dirty.
    #[default]
    Dirty,
    /// What is dirty is written back, as before an orderly power-off; the entries stay.
    Clean,
    /// It is empty: the device was switched off, and on again.
    Empty,
}

impl CacheState {
    /// The state in words; empty for [`CacheState::Dirty`], which is what a warm-up alone leaves.
    pub fn in_words(self) -> &'static str {
        match self {
            CacheState::Dirty => "",
            CacheState::Clean => "clean: what was dirty is written back",
            CacheState::Empty => "empty: the device was switched off and on",
        }
    }
}

impl CacheSize {
    /// The size in bytes for a device of `exported_pages`.
    ///
    /// # Errors
    /// A share that is not above 0 and at most 1, or no bytes at all.
    pub fn bytes(self, exported_pages: u32) -> Result<u64, BadValue> {
        let full = full_table_bytes(exported_pages);
        let bytes = match self {
            CacheSize::Bytes(bytes) => bytes,
            CacheSize::Share(share) if share > 0.0 && share <= 1.0 => (share * full as f64) as u64,
            CacheSize::Share(share) => {
                return Err(BadValue(format!(
                    "a cache of {} % of the full table is impossible; give a share above 0 % and up to 100 %, or bytes",
                    share * 100.0
                )));
            }
        };
        if bytes == 0 {
            let what = "a cache of 0 bytes holds no mapping; give some KiB, or a share such as 3%";
            return Err(BadValue(what.to_owned()));
        }
        Ok(bytes)
    }
}

/// Bytes of a full page-level table, counted as the papers do.
pub fn full_table_bytes(exported_pages: u32) -> u64 {
    u64::from(exported_pages) * FULL_TABLE_ENTRY_BYTES
}

/// A value that cannot be what was asked for: one sentence with what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadValue(pub String);

impl std::str::FromStr for CacheSize {
    type Err = BadValue;

    /// `3%`, or bytes with a unit: `8192`, `512KiB`, `2MiB`.
    fn from_str(text: &str) -> Result<CacheSize, BadValue> {
        let wrong = || {
            BadValue(format!("`{text}` is no cache size; give a share such as 3%, or bytes such as 512KiB"))
        };
        if let Some(percent) = text.trim().strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
            return Ok(CacheSize::Share(percent / 100.0));
        }
        nand::parse_size(text).map(CacheSize::Bytes).map_err(|_| wrong())
    }
}

/// Model of time: when an operation begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimingModel {
    /// A queue per die and channel.
    Queued {
        /// Who may overtake whom; the device's own policy unless given.
        policy: Option<Policy>,
    },
    /// Dies booked at submission, as FEMU does.
    Reserved,
    /// No operation takes time: for counting.
    NoClock,
}

impl Default for TimingModel {
    fn default() -> TimingModel {
        TimingModel::Queued { policy: None }
    }
}

impl TimingModel {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            TimingModel::Queued { .. } => "queued",
            TimingModel::Reserved => "reserved",
            TimingModel::NoClock => "none",
        }
    }
}

/// The time series of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Series {
    /// Between 256 and 512 points, whatever the length of the phase: the interval doubles as it goes on.
    #[default]
    Auto,
    /// One point every so many ns. Past 65,536 points the interval doubles.
    Every(u64),
    /// No time series.
    Off,
}

/// Requests that run together and are reported together.
#[derive(Clone)]
pub struct PhaseSpec {
    /// Its name in results.
    pub name: String,
    /// Requests that it makes, and when.
    pub load: Load,
    /// Host software's time in this phase; the experiment's unless given.
    pub host: Option<HostTime>,
}

/// What the host's software adds to each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostTime {
    /// Time of a processor for each request, ns.
    pub overhead_ns: u64,
    /// Processors that share the requests, at least 1.
    pub cpus: u32,
}

/// The requests of a phase.
#[derive(Clone)]
pub enum Load {
    /// fio jobs, each keeping `iodepth` requests in flight.
    Jobs(fio::Phase),
    /// Arrival times are kept: latency counts from arrival.
    Open {
        /// The requests.
        source: Arc<dyn Source>,
        /// Most requests that the device is given at once; those that arrive meanwhile wait. `None`: no
        /// limit.
        outstanding: Option<u32>,
    },
    /// Arrival times are ignored; `depth` requests are kept in flight.
    Closed {
        /// The requests.
        source: Arc<dyn Source>,
        /// Requests in flight, at least 1.
        depth: u32,
    },
    /// Writes that bring the device to a steady state, one request after the other.
    WarmUp(WarmUp),
    /// The end of a warm-up: idle time until the FTL has nothing more to do, what was dirty written back, one
    /// write of the first page, and the same again. The write tells an FTL that watches its host that the
    /// load before is over.
    Rest,
}

impl Load {
    /// The requests as text, if it says all of them.
    fn text(&self) -> Option<String> {
        match self {
            Load::Jobs(phase) => Some(format!("{phase:?}")),
            Load::WarmUp(warm_up) => Some(format!("{warm_up:?}")),
            Load::Rest => Some("rest".to_owned()),
            Load::Open { .. } | Load::Closed { .. } => None,
        }
    }
}

impl PhaseSpec {
    /// A phase of that name, with the experiment's host software.
    pub fn new(name: impl Into<String>, load: Load) -> PhaseSpec {
        PhaseSpec { name: name.into(), load, host: None }
    }

    /// A warm-up of [`workload::warm_up`], under its name and what it does.
    pub fn warm_up(warm_up: WarmUp) -> PhaseSpec {
        PhaseSpec::new(format!("{}: {warm_up}", warm_up.name), Load::WarmUp(warm_up))
    }

    /// [`Load::Rest`].
    pub fn rest() -> PhaseSpec {
        PhaseSpec::new("rest: idle time until the FTL has nothing more to do", Load::Rest)
    }

    /// The phases of a fio job file: those flagged as warm-up that come first, and the measured ones.
    ///
    /// # Errors
    /// A warm-up phase after a measured one, or no measured one.
    pub fn of_job_file(file: &fio::JobFile) -> Result<(Vec<PhaseSpec>, Vec<PhaseSpec>), BadValue> {
        let (mut warm_up, mut measured) = (Vec::new(), Vec::new());
        for phase in &file.phases {
            let spec = PhaseSpec::new(phase_name(phase), Load::Jobs(phase.clone()));
            if !phase.warm_up {
                measured.push(spec);
            } else if measured.is_empty() {
                warm_up.push(spec);
            } else {
                return Err(BadValue(format!(
                    "the warm-up [{}] comes after a measured section; put the warm-up sections first",
                    spec.name
                )));
            }
        }
        if measured.is_empty() {
            let what = "there are only warm-up sections; add one whose name does not start with warmup";
            return Err(BadValue(what.to_owned()));
        }
        Ok((warm_up, measured))
    }
}

/// The names of a phase's jobs, each once.
fn phase_name(phase: &fio::Phase) -> String {
    let mut names: Vec<&str> = Vec::new();
    for job in &phase.jobs {
        if !names.contains(&job.name.as_str()) {
            names.push(&job.name);
        }
    }
    names.join("+")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_of_three_percent_of_thirty_gib() {
        let pages = 30 << 18;
        let cache: CacheSize = "3%".parse().expect("a share");
        assert_eq!(cache.bytes(pages), Ok((0.03 * 8.0 * f64::from(pages)) as u64));
        assert_eq!("512KiB".parse(), Ok(CacheSize::Bytes(512 << 10)));
        assert_eq!("1TiB".parse(), Ok(CacheSize::Bytes(1 << 40)));
        assert_eq!("77".parse(), Ok(CacheSize::Bytes(77)));
    }

    #[test]
    fn impossible_cache_sizes_get_a_sentence() {
        for text in ["0%", "-3%", "101%", "nan%", "0", "0KiB"] {
            let size: CacheSize = text.parse().expect("a number");
            assert!(size.bytes(1000).is_err(), "{text}");
        }
        for text in ["", "%", "3x", "much", "99999999999GiB"] {
            assert!(text.parse::<CacheSize>().is_err_and(|e| e.0.contains("no cache size")), "{text}");
        }
    }
}
