//! Ratios computed from counters. Each is `None` when its denominator is zero.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ratio, GcCounts, Kind, MappingCounts, Phase, CAUSES};

const NS_PER_S: f64 = 1e9;

impl Phase {
    /// Completed requests of one kind per second of simulated time.
    pub fn iops(&self, kind: Kind) -> Option<f64> {
        self.per_second(self.requests[kind].completed)
    }

    /// Completed reads, writes and trims per second of simulated time; flushes do not count.
    pub fn iops_total(&self) -> Option<f64> {
        self.per_second(self.completed())
    }

    /// Bytes of one kind of request per second of simulated time.
    pub fn bandwidth(&self, kind: Kind) -> Option<f64> {
        self.per_second(self.requests[kind].bytes)
    }

    /// Bytes read and written per second of simulated time. Trimmed bytes do not move and do not count.
    pub fn bandwidth_total(&self) -> Option<f64> {
        self.per_second(self.requests.read.bytes + self.requests.write.bytes)
    }

    fn per_second(&self, count: u64) -> Option<f64> {
        ratio(count as f64 * NS_PER_S, self.elapsed_ns as f64)
    }

    /// Completed reads, writes and trims, count.
    pub fn completed(&self) -> u64 {
        Kind::DATA.iter().map(|&kind| self.requests[kind].completed).sum()
    }

    /// Kinds of request that the phase has completed.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        Kind::ALL.into_iter().filter(|&kind| self.requests[kind].completed > 0)
    }

    /// Mean latency over reads, writes and trims, ns.
    pub fn mean_latency_ns(&self) -> Option<f64> {
        let of = |kind: &Kind| self.latency[*kind].as_ref().map(|found| (found.count as f64, found.mean_ns));
        let (count, sum) = Kind::DATA
            .iter()
            .filter_map(of)
            .fold((0.0, 0.0), |(n, sum), (count, mean)| (n + count, sum + count * mean));
        ratio(sum, count)
    }

    /// Requests in flight by Little's law: completion rate times mean latency, over all kinds.
    pub fn little_queue_depth(&self) -> Option<f64> {
        let time_ns: f64 = self
            .latency
            .iter()
            .filter_map(|(_, found)| found.as_ref())
            .map(|l| l.count as f64 * l.mean_ns)
            .sum();
        ratio(time_ns, self.elapsed_ns as f64)
    }

    /// Dependent flash reads per host page read, the data page included.
    pub fn flash_reads_per_host_read(&self) -> Option<f64> {
        ratio(self.host_reads.flash_reads as f64, self.host_reads.total() as f64)
    }

    /// Shares of the host's page reads by their number of flash reads.
    pub fn read_shares(&self) -> Option<ReadShares> {
        let total = self.host_reads.total() as f64;
        let share = |index: usize| ratio(self.host_reads.by_flash_reads[index] as f64, total);
        Some(ReadShares {
            unmapped: share(0)?,
            single: share(1)?,
            double: share(2)?,
            triple: share(3)?,
            more: share(4)?,
        })
    }

    /// Flash operations for all causes together.
    pub fn flash_total(&self) -> super::OpCounts {
        let mut sum = super::OpCounts::default();
        for counts in self.flash.values() {
            sum.reads += counts.reads;
            sum.programs += counts.programs;
            sum.erases += counts.erases;
        }
        sum
    }

    /// Flash programs per host page written; none when the host wrote nothing.
    pub fn write_amplification(&self) -> Option<WriteAmplification> {
        let pages = self.pages_written as f64;
        let total = ratio(self.flash_total().programs as f64, pages)?;
        let of = |name: &str, programs: u64| Some((name.to_owned(), ratio(programs as f64, pages)?));
        // Known causes first and in their order, then any the table above does not know, so that nothing is
        // lost.
        let known = CAUSES.iter().filter_map(|&name| self.flash.get_key_value(name));
        let unknown = self.flash.iter().filter(|(name, _)| !CAUSES.contains(&name.as_str()));
        let by_cause = known
            .chain(unknown)
            .filter(|(_, counts)| counts.programs > 0)
            .filter_map(|(name, counts)| of(name, counts.programs))
            .collect();
        Some(WriteAmplification { total, by_cause })
    }

    /// All rates and ratios of the phase.
    pub fn derived(&self) -> Derived {
        let rates = |of: &dyn Fn(Kind) -> Option<f64>, total: Option<f64>| Rates {
            total,
            read: of(Kind::Read),
            write: of(Kind::Write),
            trim: of(Kind::Trim),
            flush: of(Kind::Flush),
        };
        let written = self.write_amplification();
        let energy = self.energy.total_j();
        Derived {
            iops: rates(&|kind| self.iops(kind), self.iops_total()),
            bytes_per_s: rates(&|kind| self.bandwidth(kind), self.bandwidth_total()),
            mean_latency_ns: self.mean_latency_ns(),
            little_queue_depth: self.little_queue_depth(),
            flash_reads_per_host_read: self.flash_reads_per_host_read(),
            read_shares: self.read_shares(),
            hit_ratio: self.mapping.hit_ratio(),
            hit_share_by_level: self.mapping.hit_shares(),
            gc_hit_ratio: self.mapping.gc_hit_ratio(),
            dirty_eviction_share: self.mapping.dirty_share(),
            valid_pages_per_collection: self.gc.valid_per_collection(),
            write_amplification: written.as_ref().map(|found| found.total),
            write_amplification_by_cause: written
                .map(|found| found.by_cause.into_iter().collect())
                .unwrap_or_default(),
            flash_reads: self.flash_total().reads,
            flash_programs: self.flash_total().programs,
            erases: self.flash_total().erases,
            energy_j: energy,
            energy_per_byte_j: ratio(energy, (self.requests.read.bytes + self.requests.write.bytes) as f64),
        }
    }
}

impl MappingCounts {
    /// Lookups answered without a flash read, 0..=1.
    pub fn hit_ratio(&self) -> Option<f64> {
        ratio(self.hits as f64, self.lookups as f64)
    }

    /// Share of all lookups that each level answered; sums to the hit ratio.
    pub fn hit_shares(&self) -> BTreeMap<String, f64> {
        let share =
            |(name, &hits): (&String, &u64)| Some((name.clone(), ratio(hits as f64, self.lookups as f64)?));
        self.hits_by_level.iter().filter_map(share).collect()
    }

    /// Mapping updates of collection found in memory, 0..=1.
    pub fn gc_hit_ratio(&self) -> Option<f64> {
        ratio(self.gc_hits as f64, (self.gc_hits + self.gc_misses) as f64)
    }

    /// Share of replaced entries that were dirty, 0..=1 (the TPFTL paper's probability of replacing a dirty
    /// entry).
    pub fn dirty_share(&self) -> Option<f64> {
        ratio(self.dirty_evictions as f64, self.evictions as f64)
    }
}

impl super::Run {
    /// At most this share of the flash programs measured wrote back what the warm-up had left dirty in the
    /// mapping cache, 0..=1: as many as entries were dirty, and no more than mapping write-backs there were.
    /// `None` when nothing was programmed.
    pub fn warm_up_debt(&self) -> Option<f64> {
        let written_back =
            self.sum(|phase| phase.flash.get("translation").map_or(0, |counts| counts.programs));
        let dirty = self.cache_before.map_or(0, |held| held.dirty);
        ratio(dirty.min(written_back) as f64, self.sum(|phase| phase.flash_total().programs) as f64)
    }

    /// Pages that the measured phases erased, less those that they programmed: how many more are free at the
    /// end than at the beginning, negative for fewer. A block that was closed before it was full counts as if
    /// it had been full.
    pub fn free_pages_gained(&self) -> i64 {
        let erased = self.sum(|phase| phase.flash_total().erases) * u64::from(self.device.pages_per_block);
        erased as i64 - self.sum(|phase| phase.flash_total().programs) as i64
    }

    /// The free pages gained as a share of the flash programs measured. `None` where nothing was erased.
    pub fn free_pages_share(&self) -> Option<f64> {
        let programs = self.sum(|phase| phase.flash_total().programs) as f64;
        let erases = self.sum(|phase| phase.flash_total().erases);
        ratio(self.free_pages_gained() as f64, programs).filter(|_| erases > 0)
    }

    fn sum(&self, of: impl Fn(&Phase) -> u64) -> u64 {
        self.phases.iter().map(of).sum()
    }
}

impl GcCounts {
    /// Valid pages moved per group brought together.
    pub fn valid_per_group(&self) -> Option<f64> {
        ratio(self.valid_moved_groups as f64, self.groups as f64)
    }

    /// Valid pages copied per victim. Those of groups do not count, as groups are no victims. With a log
    /// block go whole logical blocks that merges copy, so log-block schemes may have more of them than a
    /// block has pages.
    pub fn valid_per_collection(&self) -> Option<f64> {
        ratio((self.valid_moved_data + self.valid_moved_translation) as f64, self.collections() as f64)
    }
}

impl super::CacheSample {
    /// Entries in memory of each cached translation page (figure 1(a) of the TPFTL paper).
    pub fn entries_per_page(&self) -> Option<f64> {
        ratio(self.entries as f64, self.pages as f64)
    }

    /// Dirty entries of each cached translation page.
    pub fn dirty_per_page(&self) -> Option<f64> {
        ratio(self.dirty as f64, self.pages as f64)
    }
}

impl Phase {
    /// Entries in memory of each cached translation page, over all looks at the cache.
    pub fn entries_per_cached_page(&self) -> Option<f64> {
        let sum = |of: fn(&super::CacheSample) -> u64| self.cache_samples.iter().map(of).sum::<u64>() as f64;
        ratio(sum(|sample| sample.entries), sum(|sample| sample.pages))
    }

    /// Dirty entries of each cached translation page, over all looks at the cache.
    pub fn dirty_per_cached_page(&self) -> Option<f64> {
        let sum = |of: fn(&super::CacheSample) -> u64| self.cache_samples.iter().map(of).sum::<u64>() as f64;
        ratio(sum(|sample| sample.dirty), sum(|sample| sample.pages))
    }
}

impl super::Sample {
    /// This interval and the `next` one as a single interval.
    pub fn then(self, next: Self) -> Self {
        super::Sample {
            t_ns: next.t_ns,
            interval_ns: self.interval_ns + next.interval_ns,
            requests: self.requests + next.requests,
            latency_sum_ns: self.latency_sum_ns + next.latency_sum_ns,
            pages_read: self.pages_read + next.pages_read,
            pages_written: self.pages_written + next.pages_written,
            lookups: self.lookups + next.lookups,
            hits: self.hits + next.hits,
            flash_reads: self.flash_reads + next.flash_reads,
            flash_programs: self.flash_programs + next.flash_programs,
            collections: self.collections + next.collections,
            free_superblocks: next.free_superblocks,
        }
    }

    /// Requests per second in the interval.
    pub fn iops(&self) -> Option<f64> {
        ratio(self.requests as f64 * NS_PER_S, self.interval_ns as f64)
    }

    /// Mean latency of the requests completed in the interval, ns.
    pub fn mean_latency_ns(&self) -> Option<f64> {
        ratio(self.latency_sum_ns as f64, self.requests as f64)
    }

    /// Hit ratio in the interval, 0..=1.
    pub fn hit_ratio(&self) -> Option<f64> {
        ratio(self.hits as f64, self.lookups as f64)
    }

    /// Write amplification in the interval.
    pub fn write_amplification(&self) -> Option<f64> {
        ratio(self.flash_programs as f64, self.pages_written as f64)
    }
}

/// Shares of the host's page reads by dependent flash reads; the five sum to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReadShares {
    /// No flash read: the page is not mapped, or in a write buffer.
    pub unmapped: f64,
    /// One: the data page.
    pub single: f64,
    /// Two, for example a translation page and the data page.
    pub double: f64,
    /// Three, for example an eviction's read before the two.
    pub triple: f64,
    /// Four or more flash reads, one after the other.
    pub more: f64,
}

impl ReadShares {
    /// The shares in ascending order of flash reads.
    pub fn as_array(&self) -> [f64; 5] {
        [self.unmapped, self.single, self.double, self.triple, self.more]
    }
}

/// Flash programs per host page written.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WriteAmplification {
    /// For all causes together.
    pub total: f64,
    /// For each cause that programmed anything; sums to `total`.
    pub by_cause: Vec<(String, f64)>,
}

impl WriteAmplification {
    /// The part of `cause`; 0 when it programmed nothing.
    pub fn of(&self, cause: &str) -> f64 {
        self.by_cause.iter().find(|(name, _)| name == cause).map_or(0.0, |&(_, part)| part)
    }
}

/// A rate for each kind of request, per second of simulated time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// All data requests together.
    pub total: Option<f64>,
    /// Read requests, or their bytes; `None` without a clock.
    pub read: Option<f64>,
    /// Write requests, or their bytes.
    pub write: Option<f64>,
    /// Trim requests, or their bytes.
    pub trim: Option<f64>,
    /// Flush requests; they have no bytes.
    pub flush: Option<f64>,
}

/// The ratios of a phase as the JSON output carries them, under `derived`. Ignored when a record is read
/// back.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Derived {
    /// Host requests per second of simulated time.
    pub iops: Rates,
    /// Bytes that the host moved per second of simulated time.
    pub bytes_per_s: Rates,
    /// Mean latency over reads, writes and trims, ns.
    pub mean_latency_ns: Option<f64>,
    /// Rate times latency, requests.
    pub little_queue_depth: Option<f64>,
    /// Dependent flash reads per host page read.
    pub flash_reads_per_host_read: Option<f64>,
    /// Shares of host page reads by flash reads.
    pub read_shares: Option<ReadShares>,
    /// Mapping hits per lookup, 0..=1.
    pub hit_ratio: Option<f64>,
    /// The hit ratio by what answered.
    pub hit_share_by_level: BTreeMap<String, f64>,
    /// Hits of collection's mapping updates, 0..=1.
    pub gc_hit_ratio: Option<f64>,
    /// Dirty entries among those replaced, 0..=1.
    pub dirty_eviction_share: Option<f64>,
    /// Valid pages moved per collection.
    pub valid_pages_per_collection: Option<f64>,
    /// Flash programs per host page written.
    pub write_amplification: Option<f64>,
    /// The same by cause.
    pub write_amplification_by_cause: BTreeMap<String, f64>,
    /// Flash pages read, count.
    pub flash_reads: u64,
    /// Flash pages programmed, count.
    pub flash_programs: u64,
    /// NAND blocks erased, count.
    pub erases: u64,
    /// Energy of flash operations, transfers and idle dies, J.
    pub energy_j: f64,
    /// Energy per byte the host moved, J.
    pub energy_per_byte_j: Option<f64>,
}
