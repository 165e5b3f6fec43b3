//! From what was counted to the record that is reported.

use ftl::{Cause, Config, Counters, Memory, Stat};
use nand::timing::{DieUse as DieNs, Policy};
use nand::{Nand, OpCounts, PageKind, Pbn, WearSpread};

use crate::meter::{Meter, Tally};
use crate::results::{
    by_cause, ByCause, CacheSample, DeviceInfo, DieBusy, DieUse, EnergyUse, Faults, GcCounts, GcReserve,
    HostReads, Kind, LatencySummary, MappingCounts, MemoryPart, MemoryUse, PerKind, Phase, Requests, Sample,
    TableUse, TimingInfo, Wear,
};
use crate::spec::{full_table_bytes, Experiment, TimingModel};

/// Everything counted in a phase.
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) jobs: u32,
    pub(crate) open_loop: bool,
    pub(crate) meter: Meter,
    pub(crate) series: Vec<Sample>,
    /// Looks at the cache, and cached pages seen by their dirty entries.
    pub(crate) occupancy: (Vec<CacheSample>, Vec<u64>),
    pub(crate) counters: Counters,
    /// What the scheme declares to count itself.
    pub(crate) stats: &'static [Stat],
    pub(crate) array: OpCounts,
    /// Empty without a clock.
    pub(crate) dies: Vec<DieNs>,
    /// Time to which `dies` goes since the phase began, ns.
    pub(crate) dies_elapsed_ns: u64,
    pub(crate) wear: WearSpread,
    pub(crate) ticks: bool,
}

/// What the FTL counted, as the record of a phase: without requests, times, wear and energy. `stats` are
/// those that its scheme declares.
pub fn counted(name: impl Into<String>, c: &Counters, stats: &[Stat]) -> Phase {
    Phase {
        name: name.into(),
        pages_read: c.host_reads,
        pages_written: c.host_writes,
        pages_trimmed: c.host_trims,
        flash: flash_by_cause(c),
        table: TableUse {
            reads: c.reads_of(PageKind::Translation),
            programs: c.programs_of(PageKind::Translation),
        },
        compute_ns: c.compute_ns,
        host_reads: host_reads(c),
        mapping: mapping(c),
        gc: collections(c),
        stats: stats.iter().map(|stat| (stat.name.to_owned(), c.value(stat))).collect(),
        faults: Faults {
            uncorrectable: c.uncorrectable,
            rebuilt: c.rebuilt,
            program_failed: c.programs_failed,
            erase_failed: c.erases_failed,
            requests_failed: 0,
        },
        ..Phase::default()
    }
}

/// The record of a phase.
pub(crate) fn phase(measured: Measured, device: &nand::DeviceSpec) -> Phase {
    let (cache_samples, dirty_per_cached_page) = measured.occupancy;
    let Measured {
        name,
        jobs,
        open_loop,
        meter,
        series,
        counters,
        stats,
        array,
        dies,
        dies_elapsed_ns,
        wear,
        ticks,
        ..
    } = measured;
    let elapsed_ns = meter.ended_ns - meter.begun_ns;
    let idle_ns = dies.iter().map(|die| die.idle_ns).sum();
    let counted = counted(name, &counters, stats);
    let failed = meter.tally.iter().map(|tally| tally.failed).sum();
    Phase {
        jobs,
        elapsed_ns,
        open_loop,
        requests: requests(&meter.tally),
        widened: meter.widened,
        latency: if ticks { latency(&meter) } else { PerKind::default() },
        wear: Wear {
            min: u64::from(wear.min),
            max: u64::from(wear.max),
            mean: wear.mean,
            stddev: wear.stddev,
        },
        energy: energy(device, &array, idle_ns),
        die_use: die_use(&dies, dies_elapsed_ns),
        mean_queue_depth: (ticks && elapsed_ns > 0).then(|| meter.in_flight_ns as f64 / elapsed_ns as f64),
        faults: Faults { requests_failed: failed, ..counted.faults },
        series,
        cache_samples,
        dirty_per_cached_page,
        ..counted
    }
}

fn requests(tally: &[Tally; 4]) -> PerKind<Requests> {
    let mut requests = PerKind::default();
    for (kind, t) in Kind::ALL.into_iter().zip(tally) {
        requests[kind] =
            Requests { issued: t.issued, completed: t.completed, failed: t.failed, bytes: t.bytes };
    }
    requests
}

fn latency(meter: &Meter) -> PerKind<Option<LatencySummary>> {
    let mut latency = PerKind::default();
    for (kind, recorded) in Kind::ALL.into_iter().zip(&meter.latency) {
        latency[kind] = recorded.summary();
    }
    latency
}

fn flash_by_cause(c: &Counters) -> ByCause {
    let counts = Cause::ALL.map(|cause| [c.reads_by(cause), c.programs_by(cause), c.erases[cause as usize]]);
    by_cause(Cause::ALL.map(Cause::name), &counts)
}

fn host_reads(c: &Counters) -> HostReads {
    HostReads { by_flash_reads: c.host_reads_by_flash_reads, flash_reads: c.flash_reads_waited_for }
}

fn mapping(c: &Counters) -> MappingCounts {
    let hits = c.hits();
    let levels = [
        ("cmt", c.cmt_hits),
        ("page", c.page_hits),
        ("model", c.model_hits),
        ("model_updates", c.model_updates),
    ];
    MappingCounts {
        lookups: c.lookups,
        hits,
        misses: c.lookups.saturating_sub(hits),
        hits_by_level: levels
            .iter()
            .filter(|l| l.1 > 0)
            .map(|&(name, hits)| (name.to_owned(), hits))
            .collect(),
        evictions: c.replaced,
        dirty_evictions: c.replaced_dirty,
        write_backs: c.programs_by(Cause::Translation),
        prefetched: c.prefetched,
        gc_hits: c.gc_hits,
        gc_misses: c.gc_misses,
    }
}

fn collections(c: &Counters) -> GcCounts {
    let all = c.collections_data + c.collections_translation;
    GcCounts {
        collections_data: c.collections_data,
        collections_translation: c.collections_translation,
        groups: c.collections_group,
        rewritten: c.rewrites,
        foreground: c.foreground_collections,
        background: all.saturating_sub(c.foreground_collections),
        valid_moved_data: c.moved_data - c.moved_group,
        valid_moved_groups: c.moved_group,
        valid_moved_translation: c.moved_translation,
    }
}

fn energy(device: &nand::DeviceSpec, array: &OpCounts, idle_ns: u64) -> EnergyUse {
    let spent = device.energy.joules(array, &device.times(), idle_ns);
    EnergyUse {
        read_j: spent.read_j,
        program_j: spent.program_j,
        erase_j: spent.erase_j,
        transfer_j: spent.transfer_j,
        idle_j: spent.idle_j,
    }
}

/// Shares of the dies' time; none when they do not add up, which an invariant reports.
fn die_use(dies: &[DieNs], elapsed_ns: u64) -> Option<DieUse> {
    let busy = dies.iter().map(|die| DieBusy {
        read_ns: die.read_ns,
        program_ns: die.program_ns,
        erase_ns: die.erase_ns,
        transfer_ns: die.channel_ns,
    });
    let busy: Vec<DieBusy> = busy.collect();
    DieUse::from_busy(elapsed_ns, &busy).ok().flatten()
}

/// The device as it is run.
pub(crate) fn device_info<N: Nand>(experiment: &Experiment, config: &Config, nand: &N) -> DeviceInfo {
    let device = &experiment.device;
    let g = &device.geometry;
    let page_bytes = u64::from(g.page_bytes);
    let exported_bytes = u64::from(config.exported_pages) * page_bytes;
    DeviceInfo {
        name: device.name.clone(),
        channels: g.channels,
        luns_per_channel: g.luns_per_channel,
        planes_per_lun: g.planes_per_lun,
        blocks_per_plane: g.blocks_per_plane,
        pages_per_block: g.pages_per_block,
        page_bytes: g.page_bytes,
        oob_bytes: g.oob_bytes,
        bad_blocks: (0..g.blocks()).filter(|&block| nand.is_bad(Pbn(block))).count() as u64,
        raw_bytes: g.raw_bytes(),
        exported_bytes,
        over_provisioning_bytes: g.raw_bytes().saturating_sub(exported_bytes),
        gc_reserve: GcReserve {
            superblocks: config.foreground_superblocks,
            bytes: u64::from(config.foreground_superblocks) * u64::from(g.superblock_pages()) * page_bytes,
            foreground_superblocks: config.foreground_superblocks,
            background_superblocks: if config.foreground_only { 0 } else { config.background_superblocks },
        },
        timing: timing_info(experiment),
    }
}

fn timing_info(experiment: &Experiment) -> TimingInfo {
    let device = &experiment.device;
    let times = device.times();
    let policy = match experiment.timing {
        TimingModel::Queued { policy } => match policy.unwrap_or(device.policy) {
            Policy::Fcfs => "fcfs",
            Policy::HostReadsFirst => "host-reads-first",
            Policy::Suspend => "suspend",
        },
        TimingModel::Reserved => "fcfs",
        TimingModel::NoClock => "",
    };
    TimingInfo {
        model: experiment.timing.name().to_owned(),
        policy: policy.to_owned(),
        read_ns: times.read_ns,
        program_ns: times.program_ns,
        erase_ns: times.erase_ns,
        transfer_ns: times.transfer_ns,
        host_overhead_ns: experiment.host_overhead_ns.unwrap_or(device.host_overhead_ns),
        host_cpus: experiment.host_cpus.unwrap_or(device.host_cpus),
        controller_cores: times.controller_cores,
    }
}

/// Controller memory of the scheme as it is now.
pub(crate) fn memory_use(config: &Config, memory: &Memory) -> MemoryUse {
    MemoryUse {
        cache_bytes: config.cache_bytes,
        parts: memory.parts.iter().map(|&(name, bytes)| MemoryPart::new(name, bytes)).collect(),
        full_table_bytes: full_table_bytes(config.exported_pages),
    }
}
