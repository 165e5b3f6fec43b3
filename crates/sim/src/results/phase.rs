//! What is counted between two points of simulated time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ratio, Invariant, LatencySummary, PerKind};

/// Names of the causes of flash operations, as `ftl::Cause::name` gives them, in the order of every table.
pub const CAUSES: [&str; 9] = [
    "host",
    "translation",
    "collection",
    "merge",
    "misprediction",
    "training",
    "rewrite",
    "checkpoint",
    "recovery",
];

/// Flash operations by the name of their cause.
pub type ByCause = BTreeMap<String, OpCounts>;

/// Makes a [`ByCause`] from parallel slices: names, and `[reads, programs, erases]` of each.
///
/// # Panics
/// When the slices differ in length.
pub fn by_cause<'a>(names: impl IntoIterator<Item = &'a str>, counts: &[[u64; 3]]) -> ByCause {
    let names: Vec<&str> = names.into_iter().collect();
    assert_eq!(names.len(), counts.len(), "one triple of counters for each cause");
    let entry = |(name, &[reads, programs, erases]): (&str, &[u64; 3])| {
        (name.to_owned(), OpCounts { reads, programs, erases })
    };
    names.into_iter().zip(counts).map(entry).collect()
}

/// Flash operations by kind, counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpCounts {
    /// Page reads, count.
    pub reads: u64,
    /// Page programs, count.
    pub programs: u64,
    /// Block erases, count.
    pub erases: u64,
}

impl OpCounts {
    /// All operations, count.
    pub fn total(&self) -> u64 {
        self.reads + self.programs + self.erases
    }
}

/// Flash operations on translation pages, count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableUse {
    /// Translation pages read, count.
    pub reads: u64,
    /// Translation pages programmed, count.
    pub programs: u64,
}

/// Host requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Requests handed to the device, count.
    pub issued: u64,
    /// Requests the device answered, failed ones included, count.
    pub completed: u64,
    /// Requests answered with an error, count.
    pub failed: u64,
    /// Data of the completed requests, bytes.
    pub bytes: u64,
}

/// Everything measured in one phase of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Name of the phase, for example `randread`.
    pub name: String,
    /// Jobs that ran at once, count.
    pub jobs: u32,
    /// Simulated time from the first request's issue to the last one's completion, ns; 0 without a clock.
    pub elapsed_ns: u64,
    /// Whether requests arrived at times of their own, whatever the device did (open loop). Throughput is
    /// then that of the arrivals, and latencies tell devices apart.
    #[serde(default)]
    pub open_loop: bool,
    /// Host requests of each kind: counts, bytes, latencies.
    pub requests: PerKind<Requests>,
    /// Requests that did not begin and end on a page, count. They were widened to whole pages, and pages
    /// written, write amplification included, count the widened ones.
    #[serde(default)]
    pub widened: u64,
    /// Host pages read, count. Every page of a request counts.
    pub pages_read: u64,
    /// Host pages written, count; the denominator of write amplification.
    pub pages_written: u64,
    /// Host pages trimmed, count.
    pub pages_trimmed: u64,
    /// Latency by kind, from issue to completion; none for a kind without requests or without a clock.
    pub latency: PerKind<Option<LatencySummary>>,
    /// Flash operations by cause.
    pub flash: ByCause,
    /// Translation pages read and written, whatever the cause.
    #[serde(default)]
    pub table: TableUse,
    /// Controller work charged (predictions, sorting, training), ns over all cores.
    #[serde(default)]
    pub compute_ns: u64,
    /// How many flash reads the host's page reads took.
    pub host_reads: HostReads,
    /// What the mapping did.
    pub mapping: MappingCounts,
    /// What garbage collection did.
    pub gc: GcCounts,
    /// What the scheme counted itself, by the name under which
    /// [`SchemeInfo::stats`](super::SchemeInfo::stats) explains it.
    pub stats: BTreeMap<String, u64>,
    /// Wear at the end of the phase.
    pub wear: Wear,
    /// Energy spent in the phase.
    pub energy: EnergyUse,
    /// How busy the dies were; none without a clock.
    pub die_use: Option<DieUse>,
    /// Requests outstanding, averaged over the elapsed time (the integral of requests in flight over time,
    /// not rate times latency: [`Phase::little_queue_depth`] gives that, and the two must agree); none
    /// without a clock.
    pub mean_queue_depth: Option<f64>,
    /// Faults of the flash and their effect on requests.
    pub faults: Faults,
    /// What a program on a live device counted as its operations, a second; none in a simulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_ops_per_s: Option<f64>,
    /// The phase over time, oldest first.
    pub series: Vec<Sample>,
    /// What a demand-cached mapping held over time, oldest first: every 10,000 lookups, or a power of two
    /// times as many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cache_samples: Vec<CacheSample>,
    /// Cached translation pages seen at those moments, by their dirty entries: index 0 is pages without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dirty_per_cached_page: Vec<u64>,
}

/// What a demand-cached mapping holds at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheSample {
    /// Lookups made in the phase before, count.
    pub lookups: u64,
    /// Translation pages of which something is cached, count.
    pub pages: u64,
    /// Their entries in memory, count.
    pub entries: u64,
    /// Of these, newer than on flash, count.
    pub dirty: u64,
}

impl Phase {
    /// A statistic of the scheme's own; `None` when the scheme has none of that name.
    pub fn stat(&self, name: &str) -> Option<f64> {
        self.stats.get(name).map(|&value| value as f64)
    }

    /// One statistic of the scheme's own set in relation to another; `None` when that one is missing, or
    /// zero.
    pub fn stat_ratio(&self, name: &str, of: &str) -> Option<f64> {
        ratio(self.stat(name)?, self.stat(of)?)
    }

    /// The checks that the record alone can answer; the simulator adds those that need the device.
    pub fn invariants(&self) -> Vec<Invariant> {
        let at = |name: &str| format!("{}: {name}", self.name);
        let mut found = Vec::new();
        for (kind, requests) in self.requests.iter() {
            if *requests != Requests::default() {
                let Requests { issued, completed, .. } = *requests;
                found.push(Invariant::new(
                    at(&format!("{} requests issued = completed", kind.name())),
                    issued == completed,
                    format!("{issued} issued, {completed} completed"),
                ));
            }
        }
        let MappingCounts { lookups, hits, misses, .. } = self.mapping;
        found.push(Invariant::new(
            at("hits + misses = lookups"),
            hits + misses == lookups,
            format!("{hits} + {misses}, {lookups} lookups"),
        ));
        let served = self.host_reads.total();
        found.push(Invariant::new(
            at("every host page read is counted once by its flash reads"),
            served == self.pages_read,
            format!("{served} counted, {} pages read", self.pages_read),
        ));
        if let (Some(depth), Some(little)) = (self.mean_queue_depth, self.little_queue_depth()) {
            found.push(Invariant::new(
                at("Little's law"),
                (depth - little).abs() <= 0.01 * depth.max(little),
                format!("{depth:.3} requests in flight, rate x latency {little:.3}"),
            ));
        }
        found
    }
}

/// Host page reads by the number of dependent flash reads each took, the data page's own read included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostReads {
    /// Host page reads served by 0 flash reads (the page is not mapped, or in a write buffer),
    /// 1, 2, 3, and 4 or more; count.
    pub by_flash_reads: [u64; 5],
    /// Flash reads of all of them together, count (exact, also for those of 4 or more).
    pub flash_reads: u64,
}

impl HostReads {
    /// Counts one host page read that took `flash_reads` dependent flash reads.
    #[inline]
    pub fn record(&mut self, flash_reads: u32) {
        self.by_flash_reads[(flash_reads as usize).min(4)] += 1;
        self.flash_reads += u64::from(flash_reads);
    }

    /// Host page reads counted.
    pub fn total(&self) -> u64 {
        self.by_flash_reads.iter().sum()
    }
}

/// What the mapping did, in entries (one entry maps one page).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappingCounts {
    /// Lookups for host pages, count; equals `hits + misses`.
    pub lookups: u64,
    /// Lookups answered without a flash read, count.
    pub hits: u64,
    /// Lookups that had to read flash, count.
    pub misses: u64,
    /// Hits by what answered (`cmt`, `model`, `table`, ...), count; sums to `hits`.
    pub hits_by_level: BTreeMap<String, u64>,
    /// Units put out of the mapping cache for others, count: entries, or whole translation pages where a
    /// scheme replaces those.
    pub evictions: u64,
    /// Of these, dirty when they were chosen, count. One write can bring several of them to flash.
    pub dirty_evictions: u64,
    /// Translation pages written on the way of host requests, count: what dirty units cost.
    #[serde(default)]
    pub write_backs: u64,
    /// Entries loaded before anyone asked for them, count.
    pub prefetched: u64,
    /// Mapping updates of collection found in memory, count.
    pub gc_hits: u64,
    /// Mapping updates of collection not found in memory, count.
    pub gc_misses: u64,
}

/// What garbage collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcCounts {
    /// Victims that held data; of log-block schemes, log blocks that were emptied; count.
    pub collections_data: u64,
    /// Victims that held translation pages, count.
    pub collections_translation: u64,
    /// Groups of LPNs brought together and learned, count.
    #[serde(default)]
    pub groups: u64,
    /// Superblocks, or parts of groups, rewritten because they had lain long, count.
    #[serde(default)]
    pub rewritten: u64,
    /// Collections a host write had to wait for, count.
    pub foreground: u64,
    /// Collections that no write waited for: beside requests, and in idle time; count.
    pub background: u64,
    /// Valid pages copied out of victims that held data; of log-block schemes, all that merges copied; count.
    pub valid_moved_data: u64,
    /// Valid pages moved with their group, count.
    #[serde(default)]
    pub valid_moved_groups: u64,
    /// Valid translation pages moved, count.
    pub valid_moved_translation: u64,
}

impl GcCounts {
    /// All victims collected, count.
    pub fn collections(&self) -> u64 {
        self.collections_data + self.collections_translation
    }
}

/// Erase counts of the good blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wear {
    /// Of the least worn block, erases.
    pub min: u64,
    /// Of the most worn block, erases.
    pub max: u64,
    /// Mean over the good blocks, erases.
    pub mean: f64,
    /// Population standard deviation, erases.
    pub stddev: f64,
}

impl Wear {
    /// From each good block's erase count. No blocks give zeros.
    pub fn from_counts(counts: impl Iterator<Item = u32> + Clone) -> Self {
        let (mut blocks, mut sum, mut min, mut max) = (0_u64, 0_u64, u64::MAX, 0_u64);
        for count in counts.clone() {
            let count = u64::from(count);
            (blocks, sum, min, max) = (blocks + 1, sum + count, min.min(count), max.max(count));
        }
        if blocks == 0 {
            return Wear::default();
        }
        // Two passes: the difference of two large sums would lose the spread.
        let mean = sum as f64 / blocks as f64;
        let squares: f64 = counts.map(|count| (f64::from(count) - mean).powi(2)).sum();
        Wear { min, max, mean, stddev: (squares / blocks as f64).sqrt() }
    }
}

/// Energy by what spent it, joule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EnergyUse {
    /// Reads of the array, without the transfer, J.
    pub read_j: f64,
    /// Programs of the array, without the transfer, J.
    pub program_j: f64,
    /// Erases of blocks, J.
    pub erase_j: f64,
    /// Transfers over the channels, J.
    pub transfer_j: f64,
    /// Dies doing nothing, J.
    pub idle_j: f64,
}

impl EnergyUse {
    /// Sum of the five parts, J.
    pub fn total_j(&self) -> f64 {
        self.read_j + self.program_j + self.erase_j + self.transfer_j + self.idle_j
    }
}

/// Time one die was busy in a phase, ns. The parts do not overlap: a die does one thing at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DieBusy {
    /// With array reads, ns.
    pub read_ns: u64,
    /// With array programs, ns.
    pub program_ns: u64,
    /// With erases of blocks, ns.
    pub erase_ns: u64,
    /// With transfers that keep the die occupied, ns.
    pub transfer_ns: u64,
}

impl DieBusy {
    /// Busy with anything, ns.
    pub fn total_ns(&self) -> u64 {
        self.read_ns + self.program_ns + self.erase_ns + self.transfer_ns
    }
}

/// A die that was busy for longer than the phase lasted: an accounting mistake, never rounded away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overbooked {
    /// Index of the die.
    pub die: usize,
    /// Its busy time, ns.
    pub busy_ns: u64,
    /// Length of the phase, ns.
    pub elapsed_ns: u64,
}

impl std::fmt::Display for Overbooked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Overbooked { die, busy_ns, elapsed_ns } = self;
        write!(f, "die {die} was busy for {busy_ns} ns of a phase of {elapsed_ns} ns")
    }
}

impl std::error::Error for Overbooked {}

/// How busy the dies were, as shares of the elapsed time. `read + program + erase + transfer + idle = 1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DieUse {
    /// Dies, count.
    pub dies: u64,
    /// Mean busy share of a die, 0..=1.
    pub busy_mean: f64,
    /// Busy share of the least busy die, 0..=1.
    pub busy_min: f64,
    /// Busy share of the busiest die, 0..=1.
    pub busy_max: f64,
    /// Mean share spent reading, 0..=1.
    pub read: f64,
    /// Mean share spent programming, 0..=1.
    pub program: f64,
    /// Mean share spent erasing, 0..=1.
    pub erase: f64,
    /// Mean share spent transferring, 0..=1.
    pub transfer: f64,
    /// Mean share spent idle, 0..=1.
    pub idle: f64,
}

impl DieUse {
    /// Shares from each die's busy times. `Ok(None)` when no time passed or there is no die.
    ///
    /// # Errors
    /// [`Overbooked`] for the first die that was busy for longer than the phase lasted.
    pub fn from_busy(elapsed_ns: u64, dies: &[DieBusy]) -> Result<Option<Self>, Overbooked> {
        for (die, busy) in dies.iter().enumerate() {
            let busy_ns = busy.total_ns();
            if busy_ns > elapsed_ns {
                return Err(Overbooked { die, busy_ns, elapsed_ns });
            }
        }
        if elapsed_ns == 0 || dies.is_empty() {
            return Ok(None);
        }
        let of_one = |ns: u64| ns as f64 / elapsed_ns as f64;
        let whole = elapsed_ns as f64 * dies.len() as f64;
        let mean = |part: fn(&DieBusy) -> u64| {
            dies.iter().map(|die| u128::from(part(die))).sum::<u128>() as f64 / whole
        };
        let busy_mean = mean(DieBusy::total_ns);
        Ok(Some(DieUse {
            dies: dies.len() as u64,
            busy_mean,
            busy_min: dies.iter().map(DieBusy::total_ns).min().map_or(0.0, of_one),
            busy_max: dies.iter().map(DieBusy::total_ns).max().map_or(0.0, of_one),
            read: mean(|die| die.read_ns),
            program: mean(|die| die.program_ns),
            erase: mean(|die| die.erase_ns),
            transfer: mean(|die| die.transfer_ns),
            idle: 1.0 - busy_mean,
        }))
    }
}

/// Faults of the flash and their effect, count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Faults {
    /// Reads that error correction could not save, count.
    pub uncorrectable: u64,
    /// Translation pages made anew because they could not be read, count.
    #[serde(default)]
    pub rebuilt: u64,
    /// Programs that failed, count.
    pub program_failed: u64,
    /// Erases that failed, count.
    pub erase_failed: u64,
    /// Host requests that failed for it, count.
    pub requests_failed: u64,
}

/// One interval of a phase's time series. All counts are of this interval alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// End of the interval since the phase began, ns.
    pub t_ns: u64,
    /// Length of the interval, ns; the last one of a phase may be shorter.
    pub interval_ns: u64,
    /// Requests completed, count.
    pub requests: u64,
    /// Latency of these requests added up, ns.
    pub latency_sum_ns: u64,
    /// Host pages read, count.
    pub pages_read: u64,
    /// Host pages written, count.
    pub pages_written: u64,
    /// Mapping lookups and updates by host pages, count.
    pub lookups: u64,
    /// Of these, answered without reading a translation page, count.
    pub hits: u64,
    /// Flash pages read, for whatever cause, count.
    pub flash_reads: u64,
    /// Flash pages programmed, for whatever cause, count.
    pub flash_programs: u64,
    /// Superblocks that collection emptied, count.
    pub collections: u64,
    /// Free superblocks at the end of the interval, count.
    pub free_superblocks: u32,
}
