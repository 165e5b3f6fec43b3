//! Fabricated runs with the numbers of a real device, for tests of tables and pages.

use sim::results::{
    by_cause, DieBusy, DieUse, EnergyUse, GcCounts, GcReserve, HostReads, Invariant, Kind, Latency,
    MappingCounts, MemoryPart, Phase, Run, Sample, SimSpeed, TimingInfo, Wear, CAUSES,
};

/// How one scheme behaves.
struct Character {
    name: &'static str,
    paper: &'static str,
    /// Host page reads of a thousand by 0, 1, 2, 3, 4 or more flash reads.
    reads: [u64; 5],
    /// Programs a host page written by cause: translation, collection.
    translation: f64,
    collection: f64,
    hits: f64,
    cache_bytes: u64,
}

const CHARACTERS: [Character; 3] = [
    Character {
        name: "page",
        paper: "ideal page map",
        reads: [0, 1000, 0, 0, 0],
        translation: 0.0,
        collection: 3.7,
        hits: 1.0,
        cache_bytes: 62_914_560,
    },
    Character {
        name: "dftl",
        paper: "Gupta et al., ASPLOS 2009",
        reads: [0, 31, 942, 27, 0],
        translation: 1.4,
        collection: 5.2,
        hits: 0.031,
        cache_bytes: 1_887_436,
    },
    Character {
        name: "tpftl",
        paper: "Zhou et al., EuroSys 2015",
        reads: [0, 46, 943, 11, 0],
        translation: 0.9,
        collection: 4.8,
        hits: 0.046,
        cache_bytes: 1_887_436,
    },
];

/// Three schemes over four phases of 4 KiB requests.
pub fn three_schemes() -> Vec<Run> {
    CHARACTERS.iter().map(run).collect()
}

/// The same schemes over one phase that reads and writes, with a mistake in the last.
pub fn mixed_and_broken() -> Vec<Run> {
    let mut runs = three_schemes();
    for run in &mut runs {
        let writes = run.phases.swap_remove(2);
        run.phases.truncate(1);
        let phase = &mut run.phases[0];
        phase.name = "websearch1, open loop".to_owned();
        phase.elapsed_ns += writes.elapsed_ns;
        phase.requests.write = writes.requests.write;
        phase.latency.write = writes.latency.write;
        phase.pages_written = writes.pages_written;
        phase.flash = writes.flash;
        phase.gc = writes.gc;
    }
    runs[2].invariants.push(Invariant::new(
        "read-back against the reference",
        false,
        "LPN 7 held version 3 of 4",
    ));
    runs
}

fn run(of: &Character) -> Run {
    let mut run = Run::new("ftlkit 0.1.0");
    run.scheme.name = of.name.to_owned();
    run.scheme.paper = of.paper.to_owned();
    if of.name == "tpftl" {
        run.scheme.parameters.insert("techniques".to_owned(), "rsbc".to_owned());
    }
    device(&mut run);
    run.memory.cache_bytes = 1_887_436;
    run.memory.full_table_bytes = 62_914_560;
    run.memory.parts = vec![MemoryPart::new("CMT", of.cache_bytes)];
    if of.name != "page" {
        run.memory.parts.push(MemoryPart::new("GTD", 30_720));
    }
    run.workload.name = "4 KiB random and sequential, 64 jobs".to_owned();
    run.workload.source = "built in".to_owned();
    run.workload.seed = 1;
    run.workload.warm_up = "512 KiB random then sequential writes, six device volumes, clock off".to_owned();
    run.phases = vec![
        phase("randread", of, Kind::Read, 1),
        phase("read", of, Kind::Read, 8),
        phase("randwrite", of, Kind::Write, 1),
        phase("write", of, Kind::Write, 8),
    ];
    run.invariants = run.phases.iter().flat_map(Phase::invariants).collect();
    run.invariants.push(Invariant::new(
        "mapping is a bijection with the valid pages",
        true,
        "7 864 320 pages",
    ));
    run.digest = "9f86d081884c7d65".to_owned();
    run.host = SimSpeed::new(4.2, 12_000_000, 40_000_000);
    run
}

fn device(run: &mut Run) {
    let device = &mut run.device;
    device.name = "femu-32g".to_owned();
    (device.channels, device.luns_per_channel, device.planes_per_lun) = (8, 8, 1);
    (device.blocks_per_plane, device.pages_per_block, device.page_bytes) = (256, 512, 4096);
    device.oob_bytes = 64;
    device.raw_bytes = 32 << 30;
    device.exported_bytes = 30 << 30;
    device.over_provisioning_bytes = 2 << 30;
    device.gc_reserve =
        GcReserve { superblocks: 2, bytes: 256 << 20, foreground_superblocks: 3, background_superblocks: 5 };
    device.timing = TimingInfo {
        model: "queued".to_owned(),
        policy: "first come first served".to_owned(),
        read_ns: 40_000,
        program_ns: 200_000,
        erase_ns: 2_000_000,
        ..TimingInfo::default()
    };
}

/// A small deterministic generator; quality does not matter here.
fn next(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1_u64 << 53) as f64
}

fn phase(name: &str, of: &Character, kind: Kind, locality: u64) -> Phase {
    let requests = 100_000_u64;
    let mut state = u64::from(of.name.as_bytes()[0]) + locality;
    // Sequential access finds most of its mappings.
    let hits = 1.0 - (1.0 - of.hits) / locality as f64;
    let mut host_reads = HostReads::default();
    let mut latency = Latency::new();
    let mut phase = Phase { name: name.to_owned(), jobs: 64, ..Phase::default() };
    let mut samples = vec![Sample::default(); 60];
    for request in 0..requests {
        let hit = next(&mut state) < hits;
        let dice = (next(&mut state) * 1000.0) as u64;
        let depth = if kind == Kind::Write {
            0
        } else if hit {
            1
        } else {
            2 + u32::from(dice < of.reads[3])
        };
        let queue = -next(&mut state).max(1e-9).ln();
        let ns = match kind {
            Kind::Read => f64::from(depth) * (40_000.0 + 12_000.0 * queue),
            _ => 205_000.0 + 30_000.0 * queue + (1.0 + of.collection) * if dice < 40 { 2.2e6 } else { 9e4 },
        } as u64;
        latency.record(ns);
        let sample = &mut samples[(request * 60 / requests) as usize];
        sample.requests += 1;
        sample.latency_sum_ns += ns;
        sample.lookups += 1;
        sample.hits += u64::from(hit);
        if kind == Kind::Read {
            host_reads.record(depth);
            sample.pages_read += 1;
            sample.flash_reads += u64::from(depth);
        } else {
            sample.pages_written += 1;
            sample.flash_programs += 1;
        }
        phase.mapping.hits += u64::from(hit);
    }
    phase.elapsed_ns = (latency.sum_ns() / 64) as u64;
    fill(&mut phase, of, kind, requests, &latency, host_reads);
    series(&mut phase, of, kind, samples);
    phase
}

fn fill(
    phase: &mut Phase,
    of: &Character,
    kind: Kind,
    requests: u64,
    latency: &Latency,
    host_reads: HostReads,
) {
    let counts = &mut phase.requests[kind];
    (counts.issued, counts.completed, counts.bytes) = (requests, requests, requests * 4096);
    phase.latency[kind] = latency.summary();
    let mut flash = [[0_u64; 3]; 9];
    let misses = requests - phase.mapping.hits;
    if kind == Kind::Read {
        phase.pages_read = requests;
        phase.host_reads = host_reads;
        flash[0] = [requests, 0, 0];
        flash[1] = [host_reads.flash_reads - requests, 0, 0];
    } else {
        phase.pages_written = requests;
        let moved = (requests as f64 * of.collection) as u64;
        let translation = (requests as f64 * of.translation) as u64;
        flash[0] = [0, requests, 0];
        flash[1] = [translation, translation, 0];
        flash[2] = [moved, moved, (requests + moved + translation) / 512];
        phase.gc = GcCounts {
            collections_data: moved / 20_000,
            collections_translation: translation / 60_000,
            groups: 0,
            rewritten: 0,
            foreground: moved / 25_000,
            background: moved / 100_000,
            valid_moved_data: moved,
            valid_moved_groups: 0,
            valid_moved_translation: 0,
        };
    }
    phase.flash = by_cause(CAUSES, &flash);
    phase.mapping = MappingCounts {
        lookups: requests,
        hits: phase.mapping.hits,
        misses,
        hits_by_level: [((if of.name == "page" { "table" } else { "cmt" }).to_owned(), phase.mapping.hits)]
            .into(),
        evictions: misses,
        dirty_evictions: if kind == Kind::Write { misses / 2 } else { 0 },
        ..MappingCounts::default()
    };
    phase.wear = Wear { min: 11, max: 19, mean: 14.2, stddev: 1.3 };
    let total = phase.flash_total();
    phase.energy = EnergyUse {
        read_j: total.reads as f64 * 5e-6,
        program_j: total.programs as f64 * 3e-5,
        erase_j: total.erases as f64 * 2e-4,
        transfer_j: (total.reads + total.programs) as f64 * 1e-6,
        idle_j: phase.elapsed_ns as f64 * 1e-9 * 0.3,
    };
    let busy = |ns: u64| ns.min(phase.elapsed_ns / 5);
    let die = |index: u64| DieBusy {
        read_ns: busy(total.reads * 40_000 / 64) - index * 10_000,
        program_ns: busy(total.programs * 200_000 / 64),
        erase_ns: busy(total.erases * 2_000_000 / 64),
        transfer_ns: 0,
    };
    let dies: Vec<DieBusy> = (0..64).map(|index| die(if total.reads > 10_000 { index } else { 0 })).collect();
    phase.die_use = DieUse::from_busy(phase.elapsed_ns, &dies).expect("busy times are capped");
    phase.mean_queue_depth = Some(63.98);
}

fn series(phase: &mut Phase, of: &Character, kind: Kind, samples: Vec<Sample>) {
    let interval_ns = phase.elapsed_ns / 60;
    phase.series = samples
        .into_iter()
        .enumerate()
        .map(|(index, sample)| {
            let collecting = u64::from(kind == Kind::Write && index % 3 != 0);
            Sample {
                t_ns: interval_ns * (index as u64 + 1),
                interval_ns,
                collections: collecting * 2,
                flash_programs: (sample.flash_programs as f64 * (1.0 + of.collection + of.translation))
                    as u64,
                free_superblocks: 4 + (index % 3) as u32,
                ..sample
            }
        })
        .collect();
}
