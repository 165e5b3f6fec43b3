//! What a run found: one serde type, written once by the simulator and read by every output.
//!
//! | part | holds |
//! | --- | --- |
//! | [`Run`] | one scheme on one device under one workload: facts, phases, invariants, digest |
//! | [`Phase`] (`phase.rs`) | everything counted between two points of simulated time |
//! | [`Latency`] (`latency.rs`) | the recorder behind [`LatencySummary`] |
//! | [`Derived`] (`derived.rs`) | ratios computed from counters; never stored, never NaN or infinite |
//! | [`to_json`], [`to_csv`] (`output.rs`), [`fio_json`] (`fio.rs`) | the machine-readable outputs |
//!
//! Only counters are stored. Every ratio is a method that returns `None` when its denominator is zero, so
//! that a phase without writes has no write amplification instead of a NaN.

mod derived;
mod fio;
mod latency;
mod output;
mod phase;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

pub use derived::{Derived, Rates, ReadShares, WriteAmplification};
pub use fio::{fio_json, fio_json_runs};
pub use latency::{Bin, Latency, LatencySummary};
pub use output::{
    cells, csv_columns, csv_header, from_json, pretty, to_csv, to_json, to_value, CellType, OutputError,
};
pub use phase::{
    by_cause, ByCause, CacheSample, DieBusy, DieUse, EnergyUse, Faults, GcCounts, HostReads, MappingCounts,
    OpCounts, Overbooked, Phase, Requests, Sample, TableUse, Wear, CAUSES,
};

/// Version of the layout of [`Run`]; raised whenever a field changes its meaning or goes away.
pub const SCHEMA: u32 = 2;

/// The kinds of host request, as workloads have them.
pub use workload::Kind;

/// One `T` for each kind of request; index with a [`Kind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerKind<T> {
    /// The value for read requests.
    pub read: T,
    /// The value for write requests.
    pub write: T,
    /// The value for trim requests.
    pub trim: T,
    /// The value for flush requests.
    pub flush: T,
}

impl<T> PerKind<T> {
    /// Applies `f` to each kind's value.
    pub fn map<U>(&self, mut f: impl FnMut(&T) -> U) -> PerKind<U> {
        PerKind { read: f(&self.read), write: f(&self.write), trim: f(&self.trim), flush: f(&self.flush) }
    }

    /// Each kind with its value, in the order of [`Kind::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Kind, &T)> {
        Kind::ALL.into_iter().map(move |kind| (kind, &self[kind]))
    }
}

impl<T> Index<Kind> for PerKind<T> {
    type Output = T;

    fn index(&self, kind: Kind) -> &T {
        match kind {
            Kind::Read => &self.read,
            Kind::Write => &self.write,
            Kind::Trim => &self.trim,
            Kind::Flush => &self.flush,
        }
    }
}

impl<T> IndexMut<Kind> for PerKind<T> {
    fn index_mut(&mut self, kind: Kind) -> &mut T {
        match kind {
            Kind::Read => &mut self.read,
            Kind::Write => &mut self.write,
            Kind::Trim => &mut self.trim,
            Kind::Flush => &mut self.flush,
        }
    }
}

/// What one scheme did on one device under one workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Layout of this record: [`SCHEMA`] when it was written.
    pub schema: u32,
    /// Version of the program that wrote it, for example `ftlkit 0.1.0`.
    pub tool: String,
    /// The scheme that ran, with its parameters and where it comes from.
    pub scheme: SchemeInfo,
    /// The device that it ran on, with geometry, times and exported capacity.
    pub device: DeviceInfo,
    /// Controller memory of the scheme.
    pub memory: MemoryUse,
    /// What the host did.
    pub workload: WorkloadInfo,
    /// What was measured, in the order it ran. The warm-up is not among them.
    pub phases: Vec<Phase>,
    /// What a demand-cached mapping held when the first phase began; `None` when it held nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_before: Option<CacheSample>,
    /// How the device came up again when its power was cut at the end, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// How the device's life ended, if it did: the run ends there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worn_out: Option<WornOut>,
    /// Checks made at the end of the run.
    pub invariants: Vec<Invariant>,
    /// Hexadecimal digest of everything that happened; depends on the seed and the configuration alone.
    pub digest: String,
    /// Speed of the simulator itself; differs from run to run and takes no part in [`Run::same_findings`].
    pub host: SimSpeed,
}

/// The end of a device's life: too many blocks are bad, and it is read-only from then on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WornOut {
    /// The phase in which it came.
    pub phase: String,
    /// Requests of that phase before the one that was refused.
    pub requests: u64,
    /// Blocks that are bad, those from the factory included.
    pub bad_blocks: u32,
    /// How many blocks the device has.
    pub blocks: u32,
    /// Bytes that the host had written in the whole run, warm-up included.
    pub bytes_written: u64,
    /// Pages that the host had written in the whole run.
    #[serde(default)]
    pub pages_written: u64,
    /// Flash programs of the whole run, for all causes.
    #[serde(default)]
    pub programs: u64,
    /// Blocks erased in the whole run.
    pub erases: u64,
    /// Erases of the block with the fewest, of those that are not bad.
    pub least_erases: u32,
    /// Erases of the one with the most.
    pub most_erases: u32,
    /// Erases of a block in the mean, of those that are not bad.
    #[serde(default)]
    pub mean_erases: f64,
    /// How many blocks had how many erases: the first count of each bin, and its blocks, of those that are
    /// not bad.
    #[serde(default)]
    pub erase_histogram: Vec<(u32, u32)>,
    /// Times that the measured phases were begun.
    #[serde(default)]
    pub rounds: u64,
}

/// A recovery after a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// Time on the device, ns; 0 without a clock.
    pub ns: u64,
    /// Flash reads, those of spare areas included.
    pub reads: u64,
    /// Pages programmed by the recovery: translation pages and the new checkpoint.
    pub programs: u64,
    /// NAND blocks erased by the recovery.
    pub erases: u64,
    /// Controller work in it, ns.
    pub compute_ns: u64,
}

impl Run {
    /// An empty record with schema and tool version filled in.
    pub fn new(tool: impl Into<String>) -> Self {
        Run { schema: SCHEMA, tool: tool.into(), ..Run::default() }
    }

    /// The invariants that did not hold; a run with any is worthless and must fail loudly.
    pub fn broken(&self) -> impl Iterator<Item = &Invariant> {
        self.invariants.iter().filter(|invariant| !invariant.held)
    }

    /// Whether two runs found the same, whatever the speed of the machines they ran on.
    pub fn same_findings(&self, other: &Run) -> bool {
        let strip = |run: &Run| Run { host: SimSpeed::default(), ..run.clone() };
        strip(self) == strip(other)
    }

    /// The phase called `name`.
    pub fn phase(&self, name: &str) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.name == name)
    }
}

/// A translation scheme as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemeInfo {
    /// Registered name, for example `dftl`.
    pub name: String,
    /// The paper it comes from, or empty.
    pub paper: String,
    /// Parameters as the user would write them.
    pub parameters: BTreeMap<String, String>,
    /// What the scheme counts itself: the keys of [`Phase::stats`], in the order of every table.
    #[serde(default)]
    pub stats: Vec<StatInfo>,
}

/// A statistic that a scheme counts itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatInfo {
    /// Its name in [`Phase::stats`].
    pub name: String,
    /// What is counted, as a plural.
    pub unit: String,
    /// The statistic of the same scheme that it is set in relation to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// One line of meaning.
    pub what: String,
}

impl From<&ftl::Stat> for StatInfo {
    fn from(stat: &ftl::Stat) -> StatInfo {
        StatInfo {
            name: stat.name.to_owned(),
            unit: stat.unit.to_owned(),
            of: stat.of.map(str::to_owned),
            what: stat.what.to_owned(),
        }
    }
}

/// The emulated device: geometry, times, and how much of it the host sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Preset or file it comes from, for example `femu-32g`.
    pub name: String,
    /// Channels, count.
    pub channels: u32,
    /// Luns (dies) a channel, count.
    pub luns_per_channel: u32,
    /// Planes a lun, count.
    pub planes_per_lun: u32,
    /// Blocks a plane, count.
    pub blocks_per_plane: u32,
    /// Pages a block, count.
    pub pages_per_block: u32,
    /// Data in a page, bytes.
    pub page_bytes: u32,
    /// Out-of-band area of a page, bytes.
    pub oob_bytes: u32,
    /// Factory bad blocks, count.
    pub bad_blocks: u64,
    /// Flash there is, bytes; bad blocks included.
    pub raw_bytes: u64,
    /// Capacity the host sees, bytes.
    pub exported_bytes: u64,
    /// Flash beyond the exported capacity, bytes.
    pub over_provisioning_bytes: u64,
    /// What garbage collection keeps free.
    pub gc_reserve: GcReserve,
    /// Timing model and times.
    pub timing: TimingInfo,
}

impl DeviceInfo {
    /// Dies (luns) on all channels, count.
    pub fn dies(&self) -> u64 {
        u64::from(self.channels) * u64::from(self.luns_per_channel)
    }

    /// Share of the raw flash that is exported, 0..=1.
    pub fn utilisation(&self) -> Option<f64> {
        ratio(self.exported_bytes as f64, self.raw_bytes as f64)
    }

    /// Over-provisioning as the papers give it: spare bytes over exported bytes.
    pub fn over_provisioning(&self) -> Option<f64> {
        ratio(self.over_provisioning_bytes as f64, self.exported_bytes as f64)
    }
}

/// Free space that collection keeps, and the thresholds at which it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcReserve {
    /// Superblocks never filled by host writes, count.
    pub superblocks: u32,
    /// The same in bytes.
    pub bytes: u64,
    /// A host write collects first when fewer free superblocks than this are left, count.
    pub foreground_superblocks: u32,
    /// Idle time is used for collection when fewer free superblocks than this are left, count; 0 means
    /// never.
    pub background_superblocks: u32,
}

/// The timing model and its times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimingInfo {
    /// `queued`, `reserved` or `none`.
    pub model: String,
    /// Order within a die's queue, for example `fcfs`.
    pub policy: String,
    /// Array read of a page, ns.
    pub read_ns: u64,
    /// Program of a page, ns.
    pub program_ns: u64,
    /// Erase of a block, ns.
    pub erase_ns: u64,
    /// Transfer of a page over its channel, ns; 0 when no bandwidth is set.
    pub transfer_ns: u64,
    /// Host software's time for each request, ns.
    pub host_overhead_ns: u64,
    /// Host processors that share this overhead, count.
    pub host_cpus: u32,
    /// Controller cores that compute for the scheme, count.
    pub controller_cores: u32,
}

/// Controller memory of a scheme.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// Budget of the mapping cache, bytes; the same for all schemes compared.
    pub cache_bytes: u64,
    /// Where the memory goes (CMT, GTD, models, bitmaps, ...).
    pub parts: Vec<MemoryPart>,
    /// A whole page-level table for the exported capacity, bytes.
    pub full_table_bytes: u64,
}

impl MemoryUse {
    /// All parts together, bytes.
    pub fn total_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// The cache budget as a share of the full table, 0..=1.
    pub fn cache_share(&self) -> Option<f64> {
        ratio(self.cache_bytes as f64, self.full_table_bytes as f64)
    }
}

/// One consumer of controller memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPart {
    /// What it is, for example `CMT`.
    pub name: String,
    /// Controller memory that it takes, bytes.
    pub bytes: u64,
}

impl MemoryPart {
    /// A part of `bytes` bytes.
    pub fn new(name: impl Into<String>, bytes: u64) -> Self {
        MemoryPart { name: name.into(), bytes }
    }
}

/// What the host did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadInfo {
    /// Its name, for example `4 KiB random and sequential`.
    pub name: String,
    /// Where it comes from: a job file, a trace file, or `built in`.
    pub source: String,
    /// Seed of the random generator.
    pub seed: u64,
    /// What was written before the first phase, in words; empty when nothing was.
    pub warm_up: String,
    /// What was done about the mapping cache then, in words; empty when nothing was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cache_state: String,
}

/// A check made at the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invariant {
    /// What must be true, for example `issued = completed`.
    pub name: String,
    /// Whether that was true in this run.
    pub held: bool,
    /// The numbers behind it.
    pub detail: String,
}

impl Invariant {
    /// A check with its outcome.
    pub fn new(name: impl Into<String>, held: bool, detail: impl Into<String>) -> Self {
        Invariant { name: name.into(), held, detail: detail.into() }
    }
}

/// How fast the simulator itself was. Never part of a digest or a comparison. A warm-up that the run shared
/// with others ([`crate::run_batch`]) is no part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SimSpeed {
    /// Processor time of the run, s.
    pub cpu_seconds: f64,
    /// Host pages simulated, pages per second of processor time.
    pub host_pages_per_s: Option<f64>,
    /// Flash operations simulated, operations per second of processor time.
    pub flash_ops_per_s: Option<f64>,
}

impl SimSpeed {
    /// Speed from totals; a time of zero (or a clock that ran backwards) gives no rates.
    pub fn new(cpu_seconds: f64, host_pages: u64, flash_ops: u64) -> Self {
        let cpu_seconds = if cpu_seconds.is_finite() { cpu_seconds.max(0.0) } else { 0.0 };
        SimSpeed {
            cpu_seconds,
            host_pages_per_s: ratio(host_pages as f64, cpu_seconds),
            flash_ops_per_s: ratio(flash_ops as f64, cpu_seconds),
        }
    }
}

/// `numerator / denominator`, or `None` when that is not a finite number.
pub fn ratio(numerator: f64, denominator: f64) -> Option<f64> {
    if denominator == 0.0 {
        return None;
    }
    Some(numerator / denominator).filter(|quotient| quotient.is_finite())
}
