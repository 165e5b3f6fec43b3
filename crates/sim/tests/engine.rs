//! The host model, end to end on small devices.

use std::sync::Arc;

use crate::common::{device, experiment, job, phase, short, tiny, with_block_size};
use nand::timing::Policy;
use sim::facts::{debt, facts, room};
use sim::results::{Kind, Run};
use sim::{run, CacheSize, CacheState, Experiment, Listed, Load, PhaseSpec, Series, TimingModel, Verify};
use workload::fio::Pattern;
use workload::Request;

fn good(experiment: &Experiment) -> Run {
    match run(experiment, &()) {
        Ok(run) => run,
        Err(error) => panic!("{error}"),
    }
}

fn near(found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() < tolerance, "{found} instead of {expected}");
}

#[test]
fn closed_form_of_one_read_a_request() {
    for timing in [TimingModel::Queued { policy: None }, TimingModel::Reserved] {
        let reads = phase("randread", vec![short(Pattern::RandRead, 64, 1, 10_000)]);
        let mut e = experiment(device(80), "page", vec![reads]);
        e.timing = timing;
        let run = good(&e);
        near(run.phases[0].iops(Kind::Read).unwrap(), 943_000.0, 0.01);
        assert_eq!(run.phases[0].requests.read.completed, 640_000);
    }
}

#[test]
fn one_job_of_depth_64_is_as_good_as_64_jobs() {
    let of = |jobs, depth| {
        let reads = phase("randread", vec![short(Pattern::RandRead, jobs, depth, 320_000 / u64::from(jobs))]);
        good(&experiment(device(80), "page", vec![reads])).phases[0].iops(Kind::Read).unwrap()
    };
    near(of(1, 64), of(64, 1), 0.01);
}

#[test]
fn the_seed_decides_everything() {
    let of = |seed, timing| {
        let mixed = phase("mixed", vec![short(Pattern::RandReadWrite, 4, 4, 5_000)]);
        let mut e = experiment(tiny(), "page", vec![mixed]);
        (e.seed, e.timing, e.cache) = (seed, timing, CacheSize::Bytes(64 << 10));
        good(&e)
    };
    for timing in [TimingModel::default(), TimingModel::Reserved, TimingModel::NoClock] {
        let (a, b, c) = (of(7, timing), of(7, timing), of(8, timing));
        assert!(a.same_findings(&b));
        assert_eq!(a.digest, b.digest);
        assert_ne!(a.digest, c.digest);
    }
}

#[test]
fn verification_and_series_do_not_change_the_digest() {
    let of = |verify, series| {
        let mixed = phase("mixed", vec![short(Pattern::RandReadWrite, 2, 8, 5_000)]);
        let mut e = experiment(tiny(), "page", vec![mixed]);
        (e.verify, e.series) = (verify, series);
        good(&e).digest
    };
    let digest = of(Verify::Off, Series::Off);
    assert_eq!(digest, of(Verify::Full, Series::Auto));
    assert_eq!(digest, of(Verify::Sampled, Series::Every(1_000_000)));
}

#[test]
fn a_phase_shorter_than_a_second_has_finite_rates() {
    let one = phase("one", vec![short(Pattern::RandRead, 1, 1, 1)]);
    let none = PhaseSpec::new("none", Load::Closed { source: Arc::new(Listed::new("empty", [])), depth: 1 });
    let run = good(&experiment(tiny(), "page", vec![one, none]));
    assert_eq!(run.phases[0].iops(Kind::Read), Some(25_000.0));
    assert_eq!(run.phases[0].elapsed_ns, 40_000);
    assert_eq!((run.phases[1].iops_total(), run.phases[1].elapsed_ns), (None, 0));
    let json = sim::results::to_json(&[run]).unwrap();
    assert!(!json.contains("inf") && !json.contains("NaN"));
}

#[test]
fn collection_triggers_and_its_time_is_in_the_latency() {
    let writes = |n| phase("randwrite", vec![short(Pattern::RandWrite, 8, 1, n)]);
    let mut e = experiment(tiny(), "page", vec![writes(100), writes(5_000)]);
    e.warm_up.push(phase("age", vec![short(Pattern::RandWrite, 1, 1, 6_000)]));
    let run = good(&e);
    let steady = &run.phases[1];
    assert!(steady.gc.collections() > 100, "{:?}", steady.gc);
    assert!(steady.write_amplification().unwrap().total > 1.2);
    let latency = steady.latency.write.as_ref().unwrap();
    // A die that is being erased keeps a write waiting for milliseconds; without collection it waits for
    // writes alone.
    assert!(latency.max_ns >= 2_000_000, "{}", latency.max_ns);
    let busy_ns = steady.flash_total().erases * 2_000_000 + steady.flash_total().programs * 200_000;
    let dies = steady.die_use.unwrap();
    assert!(dies.busy_mean * 4.0 * steady.elapsed_ns as f64 <= 1.1 * busy_ns as f64 + 1e9);
    assert!(dies.erase > 0.0 && dies.busy_max <= 1.0);
}

#[test]
fn preconditioning_ends_and_counts_nothing() {
    let reads = phase("randread", vec![short(Pattern::RandRead, 1, 1, 100)]);
    let mut e = experiment(device(80), "page", vec![reads]);
    e.warm_up = vec![PhaseSpec::warm_up(workload::warm_up::USUAL)];
    let run = good(&e);
    assert_eq!(run.phases.len(), 1);
    assert_eq!((run.phases[0].pages_written, run.phases[0].pages_read), (0, 100));
    assert_eq!(run.phases[0].host_reads.by_flash_reads, [0, 100, 0, 0, 0]);
    assert_eq!(run.workload.warm_up, "learnedftl: six volumes of 512 KiB writes, random then sequential");
    assert!(run.phases[0].wear.max > 1);
}

/// Reads of a device that was overwritten, with the mapping cache in this state.
fn reads_after(scheme: &str, cache_state: CacheState) -> Run {
    let reads = phase("reads", vec![short(Pattern::RandRead, 1, 4, 3_000)]);
    let mut e = experiment(device(80), scheme, vec![reads]);
    e.cache = CacheSize::Share(0.5);
    e.verify = Verify::Full;
    e.warm_up = vec![PhaseSpec::warm_up("fragmented=5%".parse().unwrap())];
    e.cache_state = cache_state;
    good(&e)
}

#[test]
fn every_scheme_starts_with_the_mapping_cache_as_asked() {
    let dirty = |run: &Run| run.cache_before.map_or(0, |held| held.dirty);
    let entries = |run: &Run| run.cache_before.map_or(0, |held| held.entries);
    let (mut owing, mut caching) = (0, 0);
    for info in ftl::schemes::ALL {
        let [left, clean, empty] = [CacheState::Dirty, CacheState::Clean, CacheState::Empty]
            .map(|state| reads_after(info.name, state));
        let name = info.name;
        assert_eq!((dirty(&clean), dirty(&empty)), (0, 0), "{name}");
        assert_eq!(entries(&empty), 0, "{name}");
        assert_eq!((clean.warm_up_debt().unwrap_or(0.0), empty.warm_up_debt().unwrap_or(0.0)), (0.0, 0.0));
        owing += usize::from(left.warm_up_debt() > Some(0.0));
        caching += usize::from(entries(&clean) > 0);
        assert_eq!(debt(&left).is_some(), left.warm_up_debt() > Some(0.01), "{name}");
        assert!(debt(&clean).is_none());
        let text = facts(&[clean]).into_iter().find(|(name, _)| name == "Warm-up").unwrap().1;
        assert!(text.ends_with("; mapping cache clean: what was dirty is written back"), "{text}");
    }
    assert!(owing >= 5 && caching >= 5, "{owing} schemes left something dirty, {caching} keep something");
}

#[test]
fn the_result_says_how_much_room_a_run_made_or_used() {
    // A device that was never written has room for twenty writes.
    let mut e = experiment(tiny(), "page", vec![phase("few", vec![short(Pattern::Write, 1, 1, 20)])]);
    let few = good(&e);
    assert_eq!((few.free_pages_gained(), few.free_pages_share(), room(&few)), (-20, None, None));
    // What collection has ready when the load ends is a part of a short run, and less of a long one.
    e.warm_up = vec![PhaseSpec::warm_up("fragmented".parse().unwrap())];
    let mut share_of = |requests| {
        e.phases = vec![phase("writes", vec![short(Pattern::RandWrite, 1, 1, requests)])];
        let run = good(&e);
        let share = run.free_pages_share().expect("a device that collects");
        let total = run.phases[0].flash_total();
        let erased = total.erases * u64::from(run.device.pages_per_block);
        assert_eq!(run.free_pages_gained(), erased as i64 - total.programs as i64);
        assert_eq!(room(&run).is_some(), share.abs() > 0.01, "{share}");
        if let Some(text) = room(&run) {
            assert_eq!(text.contains("more pages are free"), share > 0.0, "{text}");
        }
        share.abs()
    };
    let [short, long] = [1_000, 10_000].map(&mut share_of);
    assert!(short > 0.01 && long < 0.01, "{short} and {long}");
}

#[test]
fn every_scheme_recovers_from_a_power_cut_on_an_aged_device() {
    for info in ftl::schemes::ALL {
        let after = phase("after", vec![short(Pattern::RandReadWrite, 2, 8, 2_000)]);
        let mut e = experiment(device(80), info.name, vec![after]);
        e.cache = CacheSize::Share(1.0);
        e.warm_up = vec![
            PhaseSpec::warm_up(workload::warm_up::FILL),
            phase("age", vec![short(Pattern::RandWrite, 1, 1, 20_000)]),
        ];
        e.power_cut = true;
        let recovery = good(&e).recovery.unwrap();
        assert!(recovery.ns > 0 && recovery.reads > 0, "{}: {recovery:?}", info.name);
    }
}

#[test]
fn spare_space_is_reported() {
    let run = good(&experiment(tiny(), "page", vec![phase("r", vec![short(Pattern::Read, 1, 1, 10)])]));
    assert_eq!(run.device.raw_bytes, 2048 * 4096);
    assert_eq!(run.device.exported_bytes, 1200 * 4096);
    assert_eq!(run.device.over_provisioning_bytes, 848 * 4096);
    assert!(run.device.gc_reserve.bytes > 0 && run.device.gc_reserve.foreground_superblocks > 0);
}

#[test]
fn every_invariant_is_checked_in_every_run() {
    let run =
        good(&experiment(tiny(), "page", vec![phase("rw", vec![short(Pattern::RandReadWrite, 2, 2, 500)])]));
    for wanted in [
        "issued = completed",
        "latencies recorded = completed",
        "Little's law",
        "operations at the array",
        "shares of host reads sum to 1",
        "busy + idle = elapsed",
        "no two pages share",
        "holds its own LPN",
        "newest version",
        "bijection with the valid pages",
    ] {
        assert!(run.invariants.iter().any(|i| i.held && i.name.contains(wanted)), "{wanted}");
    }
}

#[test]
fn shares_sum_to_one_also_when_pages_are_not_mapped() {
    let mut e = experiment(tiny(), "page", vec![phase("r", vec![short(Pattern::RandRead, 2, 2, 1000)])]);
    e.warm_up = vec![phase("some", vec![short(Pattern::RandWrite, 1, 1, 300)])];
    let phase = &good(&e).phases[0];
    let shares = phase.read_shares().unwrap();
    assert!(shares.unmapped > 0.0 && shares.single > 0.0);
    near(shares.as_array().iter().sum(), 1.0, 1e-12);
}

// ---- open loop ----

fn arrivals(gap_ns: u64, count: u64) -> Arc<Listed> {
    let request = |n: u64| Request {
        arrival_ns: n * gap_ns,
        kind: Kind::Read,
        offset: ((n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % 1000 * 4096,
        bytes: 4096,
    };
    Arc::new(Listed::new("regular", (0..count).map(request).collect::<Vec<_>>()))
}

fn open(gap_ns: u64, count: u64, outstanding: Option<u32>) -> PhaseSpec {
    PhaseSpec::new("open", Load::Open { source: arrivals(gap_ns, count), outstanding })
}

#[test]
fn a_light_open_load_is_served_at_once() {
    let run = good(&experiment(tiny(), "page", vec![open(1_000_000, 1000, None)]));
    let phase = &run.phases[0];
    let latency = phase.latency.read.as_ref().unwrap();
    assert_eq!((latency.min_ns, latency.max_ns), (40_000, 40_000));
    assert_eq!(phase.elapsed_ns, 999 * 1_000_000 + 40_000);
    near(phase.mean_queue_depth.unwrap(), 0.04, 0.01);
}

#[test]
fn an_overload_waits_and_the_wait_is_in_the_latency() {
    // Four dies serve at most 100 K reads a second; 200 K arrive.
    let free = good(&experiment(tiny(), "page", vec![open(5_000, 20_000, None)]));
    let bounded = good(&experiment(tiny(), "page", vec![open(5_000, 20_000, Some(4))]));
    for run in [&free, &bounded] {
        let phase = &run.phases[0];
        assert_eq!(phase.requests.read.completed, 20_000);
        let backlog_ns = phase.elapsed_ns - 20_000 * 5_000;
        assert!(phase.latency.read.as_ref().unwrap().max_ns > backlog_ns / 2);
    }
    assert!(bounded.phases[0].elapsed_ns > free.phases[0].elapsed_ns);
    // At most four with the device: each takes at least 40 us, the rest of the latency is waiting.
    assert!(bounded.phases[0].iops(Kind::Read).unwrap() < 100_000.0);
}

#[test]
fn a_closed_loop_ignores_arrival_times() {
    let closed = Load::Closed { source: arrivals(1_000_000, 1000), depth: 1 };
    let run = good(&experiment(tiny(), "page", vec![PhaseSpec::new("closed", closed)]));
    assert_eq!(run.phases[0].elapsed_ns, 1000 * 40_000);
}

/// Writes of a page that arrive one in 20 ms, on a device that was aged.
fn slow_writes(device: nand::DeviceSpec, scheme: &str) -> Experiment {
    let request = |n: u64| Request {
        arrival_ns: n * 20_000_000,
        kind: Kind::Write,
        offset: (n * 7919 % 1200) * 4096,
        bytes: 4096,
    };
    let source = Arc::new(Listed::new("slow writes", (0..2000).map(request).collect::<Vec<_>>()));
    let mut e =
        experiment(device, scheme, vec![PhaseSpec::new("slow", Load::Open { source, outstanding: None })]);
    e.warm_up.push(phase("age", vec![short(Pattern::RandWrite, 1, 1, 6_000)]));
    e
}

#[test]
fn idle_time_is_offered_to_the_scheme() {
    let phase = &good(&slow_writes(tiny(), "page")).phases[0];
    assert!(phase.gc.collections() > 0);
    assert!(phase.gc.background > phase.gc.foreground, "{:?}", phase.gc);
}

#[test]
fn in_the_mode_of_flashsim_each_operation_is_in_a_response_time() {
    let geometry =
        nand::Geometry { channels: 1, luns_per_channel: 1, blocks_per_plane: 128, ..tiny().geometry };
    for scheme in ["dftl", "tpftl", "sftl", "page"] {
        let times_added_up = |foreground_only| {
            let mut e = slow_writes(nand::DeviceSpec::tiny(geometry.clone(), 1200), scheme);
            (e.timing, e.foreground_only) = (TimingModel::Reserved, foreground_only);
            e.cache = CacheSize::Bytes(6 << 10);
            let phase = good(&e).phases.swap_remove(0);
            assert!(phase.gc.collections() > 100, "{scheme}: {:?}", phase.gc);
            assert_eq!(phase.gc.background == 0, foreground_only, "{scheme}: {:?}", phase.gc);
            let latency = phase.latency.write.as_ref().unwrap();
            let operations = phase.die_use.as_ref().unwrap().busy_mean * phase.elapsed_ns as f64;
            latency.mean_ns * phase.requests.write.completed as f64 / operations
        };
        near(times_added_up(true), 1.0, 1e-3);
        assert!(times_added_up(false) < 0.9, "{scheme}: idle time is used");
    }
}

#[test]
fn a_trace_file_is_replayed_in_both_loops_and_its_bad_rows_are_counted() {
    let rows: String = (0..500)
        .map(|n| format!("0,{},4096,{},{}.5\n", n * 8, if n % 3 == 0 { "r" } else { "W" }, n))
        .collect();
    let path = std::env::temp_dir().join(format!("ftlkit-sim-{}.spc", std::process::id()));
    std::fs::write(&path, rows + "0,8,many,r,501\n").unwrap();
    let trace = Arc::new(sim::TraceFile::new(&path, workload::trace::TraceOptions::default()));
    let phases = vec![
        PhaseSpec::new("open", Load::Open { source: trace.clone(), outstanding: None }),
        PhaseSpec::new("closed", Load::Closed { source: trace.clone(), depth: 8 }),
    ];
    let run = good(&experiment(tiny(), "page", phases));
    std::fs::remove_file(&path).unwrap();
    for phase in &run.phases {
        assert_eq!((phase.requests.read.completed, phase.requests.write.completed), (167, 333));
    }
    assert!(run.phases[0].elapsed_ns > 499_000_000_000 && run.phases[1].elapsed_ns < 100_000_000);
    assert_eq!((trace.left_out().rows, trace.left_out().bad_rows), (500, 1));
}

#[test]
fn a_generator_fits_a_device_of_any_size() {
    let name = workload::synth::catalogue()[0].name;
    let source = Arc::new(sim::Synthetic::new(name, 3000).unwrap());
    let run =
        good(&experiment(tiny(), "page", vec![PhaseSpec::new(name, Load::Closed { source, depth: 4 })]));
    assert!(run.phases[0].completed() >= 2900);
    assert!(sim::Synthetic::new("no such", 1).is_err());
}

// ---- jobs ----

#[test]
fn host_software_caps_the_rate() {
    for (cpus, expected) in [(1, 200_000.0), (2, 400_000.0)] {
        let reads = phase("randread", vec![short(Pattern::RandRead, 64, 1, 3_000)]);
        let mut e = experiment(device(80), "page", vec![reads]);
        (e.host_overhead_ns, e.host_cpus) = (Some(5_000), Some(cpus));
        near(good(&e).phases[0].iops(Kind::Read).unwrap(), expected, 0.01);
    }
}

#[test]
fn a_time_based_job_ends_with_its_runtime() {
    let mut reads = job(Pattern::RandRead, 4, 2);
    (reads.time_based, reads.runtime_ns) = (true, Some(50_000_000));
    let run = good(&experiment(tiny(), "page", vec![phase("timed", vec![reads.clone()])]));
    let elapsed_ns = run.phases[0].elapsed_ns;
    assert!((50_000_000..51_000_000).contains(&elapsed_ns), "{elapsed_ns}");

    let mut e = experiment(tiny(), "page", vec![phase("timed", vec![reads])]);
    e.timing = TimingModel::NoClock;
    let error = run_error(&e);
    assert!(error.contains("never end"), "{error}");
}

#[test]
fn rate_and_thinktime_hold_a_job_back() {
    let mut paced = short(Pattern::RandRead, 1, 4, 1000);
    paced.rate_iops = [Some(10_000), None, None];
    let run = good(&experiment(tiny(), "page", vec![phase("paced", vec![paced])]));
    near(run.phases[0].iops(Kind::Read).unwrap(), 10_000.0, 0.01);

    let mut thinking = short(Pattern::RandRead, 1, 1, 1000);
    (thinking.thinktime_ns, thinking.thinktime_blocks) = (160_000, 2);
    let run = good(&experiment(tiny(), "page", vec![phase("thinking", vec![thinking])]));
    // Two reads of 40 us, then 160 us of thought.
    near(run.phases[0].iops(Kind::Read).unwrap(), 2.0 / 240e-6, 0.01);
}

#[test]
fn requests_of_many_pages_flushes_and_trims_are_all_counted() {
    let mut writes = with_block_size(short(Pattern::RandWrite, 2, 2, 200), 32 << 10);
    (writes.fsync_every, writes.end_fsync) = (10, true);
    let trims = with_block_size(short(Pattern::RandTrim, 1, 1, 50), 16 << 10);
    let reads = with_block_size(short(Pattern::RandRead, 1, 4, 300), 16 << 10);
    let both = phase("writes and trims", vec![writes, trims.clone()]);
    let mut e =
        experiment(tiny(), "page", vec![both, phase("trims", vec![trims]), phase("reads", vec![reads])]);
    e.verify = Verify::Full;
    let run = good(&e);
    let all = &run.phases[0];
    assert_eq!((all.requests.write.completed, all.pages_written), (400, 3200));
    assert_eq!((all.requests.trim.completed, all.pages_trimmed), (50, 200));
    assert!(all.requests.flush.completed >= 40);
    assert_eq!(all.requests.write.bytes, 400 * (32 << 10));
    assert_eq!((run.phases[2].pages_read, run.phases[2].requests.read.completed), (1200, 300));
    assert!(run.phases[2].host_reads.by_flash_reads[0] > 100, "trimmed pages are read");
}

#[test]
fn part_of_a_page_counts_as_the_page_and_is_reported() {
    let source = Arc::new(Listed::new(
        "odd",
        vec![
            Request { arrival_ns: 0, kind: Kind::Write, offset: 512, bytes: 512 },
            Request { arrival_ns: 0, kind: Kind::Write, offset: 4000, bytes: 200 },
            Request { arrival_ns: 0, kind: Kind::Write, offset: 8192, bytes: 4096 },
        ],
    ));
    let run =
        good(&experiment(tiny(), "page", vec![PhaseSpec::new("odd", Load::Closed { source, depth: 1 })]));
    assert_eq!(run.phases[0].pages_written, 4);
    assert!(run.invariants.iter().any(|i| i.name.contains("widened") && i.detail == "2 of 3 requests"));
}

#[test]
fn policies_of_the_queue_model_are_heard_of() {
    let of = |policy| {
        let mixed =
            phase("mixed", vec![short(Pattern::RandRead, 4, 1, 3000), short(Pattern::RandWrite, 4, 4, 3000)]);
        let mut e = experiment(tiny(), "page", vec![mixed]);
        e.timing = TimingModel::Queued { policy: Some(policy) };
        good(&e).phases[0].latency.read.clone().unwrap().mean_ns
    };
    let (fcfs, reads_first, suspend) = (of(Policy::Fcfs), of(Policy::HostReadsFirst), of(Policy::Suspend));
    assert!(suspend < reads_first && reads_first < fcfs, "{suspend} {reads_first} {fcfs}");
}

// ---- errors ----

fn run_error(e: &Experiment) -> String {
    match run(e, &()) {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn impossible_experiments_get_one_sentence() {
    let base = || experiment(tiny(), "page", vec![phase("r", vec![short(Pattern::Read, 1, 1, 10)])]);
    let one = |change: fn(&mut Experiment), wanted: &str| {
        let mut e = base();
        change(&mut e);
        let error = run_error(&e);
        assert!(error.contains(wanted) && !error.contains('\n'), "{error}");
    };
    one(|e| e.scheme = "nftl".into(), "there is no scheme `nftl`");
    one(|e| e.cache = CacheSize::Share(1.5), "150 % of the full table");
    one(|e| e.exported_pages = Some(2048), "over-provisioning");
    one(|e| e.exported_pages = Some(2000), "over-provisioning");
    one(|e| e.exported_pages = Some(0), "exported");
    one(|e| e.host_cpus = Some(0), "CPUs");
    one(|e| e.phases.clear(), "nothing to measure");
    one(|e| drop(e.parameters.insert("x".into(), "1".into())), "no parameter 'x'");
    one(
        |e| {
            let beyond = Request { arrival_ns: 0, kind: Kind::Read, offset: 1199 * 4096, bytes: 8192 };
            let source = Arc::new(Listed::new("beyond", vec![beyond]));
            e.phases = vec![PhaseSpec::new("beyond", Load::Closed { source, depth: 1 })];
        },
        "outside the device",
    );
    one(
        |e| {
            let far = Request { arrival_ns: 0, kind: Kind::Read, offset: 1 << 60, bytes: 8192 };
            let source = Arc::new(Listed::new("far", vec![far]));
            e.phases = vec![PhaseSpec::new("far", Load::Open { source, outstanding: None })];
        },
        "outside the device",
    );
    one(
        |e| {
            let source = Arc::new(Listed::new("deep", []));
            e.phases = vec![PhaseSpec::new("deep", Load::Closed { source, depth: 0 })];
        },
        "queue depth of 0",
    );
}

#[test]
fn after_a_rest_reads_with_pauses_cost_reads_alone() {
    for scheme in ftl::schemes::ALL.iter().map(|info| info.name) {
        let requests = (0..200).map(|n| Request {
            arrival_ns: n * 1_000_000,
            kind: workload::Kind::Read,
            offset: n % 100 * 4096,
            bytes: 4096,
        });
        let source = Arc::new(Listed::new("reads", requests.collect::<Vec<_>>()));
        let reads = PhaseSpec::new("reads", Load::Open { source, outstanding: None });
        let mut e = experiment(tiny(), scheme, vec![reads]);
        (e.cache, e.cache_state) = (CacheSize::Bytes(64 << 10), CacheState::Clean);
        e.warm_up = vec![phase("age", vec![short(Pattern::RandWrite, 1, 1, 6000)]), PhaseSpec::rest()];
        let programs = |run: &Run| run.phases[0].flash_total().programs;
        assert_eq!(programs(&good(&e)), 0, "{scheme}");
        let measured = Experiment { phases: vec![PhaseSpec::rest()], ..e.clone() };
        let error = run(&measured, &()).expect_err("a rest takes no time").to_string();
        assert!(error.contains("warm-up"), "{error}");
        e.warm_up.pop();
        let collects = ["page", "tpftl", "leaftl"].contains(&scheme);
        assert!(!collects || programs(&good(&e)) > 0, "{scheme} has nothing to do");
    }
}
