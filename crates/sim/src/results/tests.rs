//! Results: what goes in comes out, and no ratio is ever NaN.

#![allow(clippy::unwrap_used)]

use super::*;

/// A phase of `reads` and `writes` with consistent counters.
fn phase(reads: u64, writes: u64) -> Phase {
    let mut phase =
        Phase { name: "mixed".to_owned(), jobs: 4, elapsed_ns: 1_000_000_000, ..Phase::default() };
    let mut latency = PerKind { read: Latency::new(), write: Latency::new(), ..PerKind::default() };
    for n in 0..reads {
        latency.read.record(40_000 + 40_000 * (n % 3));
        phase.host_reads.record((n % 6) as u32);
    }
    for n in 0..writes {
        latency.write.record(200_000 + n * 17 % 90_000);
    }
    phase.requests.read = Requests { issued: reads, completed: reads, failed: 0, bytes: reads * 4096 };
    phase.requests.write = Requests { issued: writes, completed: writes, failed: 0, bytes: writes * 4096 };
    (phase.pages_read, phase.pages_written) = (reads, writes);
    phase.latency = latency.map(Latency::summary);
    let mut counts = [[0; 3]; 9];
    counts[0] = [reads, writes, 0];
    counts[1] = [reads / 2, writes / 3, 1];
    counts[2] = [writes, writes, 7];
    phase.flash = by_cause(CAUSES, &counts);
    phase.mapping.lookups = reads + writes;
    phase.mapping.hits = (reads + writes) / 2;
    phase.mapping.misses = phase.mapping.lookups - phase.mapping.hits;
    phase.mapping.hits_by_level = [("cmt".to_owned(), phase.mapping.hits)].into();
    let busy = |ns| DieBusy { read_ns: ns, program_ns: 2 * ns, erase_ns: 5, transfer_ns: 0 };
    phase.die_use = DieUse::from_busy(phase.elapsed_ns, &[busy(3), busy(1000), busy(200_000_000)]).unwrap();
    phase.mean_queue_depth = phase.little_queue_depth();
    phase.series = vec![Sample { t_ns: 5, interval_ns: 5, requests: 3, pages_read: 2, ..Sample::default() }];
    phase
}

fn run() -> Run {
    let mut run = Run::new("ftlkit 0.1.0");
    run.scheme.name = "dftl".to_owned();
    run.device.raw_bytes = 32 << 30;
    run.device.exported_bytes = 30 << 30;
    run.device.over_provisioning_bytes = 2 << 30;
    run.workload.seed = u64::MAX;
    run.phases = vec![phase(1200, 600), phase(0, 0)];
    run.invariants = run.phases.iter().flat_map(Phase::invariants).collect();
    run.host = SimSpeed::new(0.1, 1, 3);
    run
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn json_round_trip() {
    let runs = [run(), Run::new("x")];
    let text = to_json(&runs).unwrap();
    assert!(from_json(&text).unwrap() == runs);
    assert!(text.contains("\"utilisation\": 0.9375"));
    assert!(text.lines().any(|line| line.trim().starts_with("\"bins\": [[")), "bins take one line");
    // One run without the list is read too.
    let single = serde_json::to_string(&runs[0]).unwrap();
    assert!(from_json(&single).unwrap() == runs[..1]);
    let whole = format!("{{\"title\": \"t\", \"runs\": [null, {single}]}}");
    assert!(from_json(&whole).unwrap() == runs[..1]);
}

#[test]
fn other_schemas_and_nonsense_are_refused_in_a_sentence() {
    let mut old = run();
    old.schema = 99;
    let error = from_json(&to_json(&[old]).unwrap()).unwrap_err().to_string();
    let expected =
        format!("results have schema 99, this version reads schema {SCHEMA}; run the experiment again");
    assert_eq!(error, expected);
    assert!(from_json("[{").unwrap_err().to_string().contains("line 1"));
    assert!(from_json(&format!("[{{\"schema\": {SCHEMA}}}]"))
        .unwrap_err()
        .to_string()
        .contains("missing field"));
    let mut forged = run();
    (forged.workload.seed, forged.phases[0].pages_read) = (u64::MAX, u64::MAX);
    let error = from_json(&to_json(&[forged]).unwrap()).unwrap_err().to_string();
    let place = "results in JSON: [0].phases[0].pages_read is 18446744073709551615";
    assert_eq!(error, format!("{place}, but no run counts beyond {}", 1u64 << 56));
}

#[test]
fn nothing_is_nan_in_any_output() {
    let mut wild = run();
    wild.host = SimSpeed::new(f64::NAN, 0, 0);
    wild.phases.push(Phase { elapsed_ns: 0, ..phase(3, 0) });
    wild.phases.push(Phase { mean_queue_depth: None, ..Phase::default() });
    for run in [wild, Run::default(), Run { phases: vec![Phase::default()], ..Run::default() }] {
        let runs = [run];
        // A NaN would appear as null here and fail to be read as a number, or as text in CSV.
        let json = to_json(&runs).unwrap();
        if runs[0].schema == SCHEMA {
            assert!(from_json(&json).unwrap() == runs);
        }
        let csv = to_csv(&runs).unwrap().to_lowercase();
        let cells = csv.lines().skip(1).flat_map(|line| line.split(','));
        for cell in cells {
            assert!(!["nan", "-nan", "inf", "-inf"].contains(&cell), "{csv}");
        }
        let mut fio = fio_json(&runs[0]);
        for job in fio["jobs"].as_array_mut().unwrap() {
            job.as_object_mut().unwrap().remove("ftlkit");
        }
        assert!(!fio.to_string().contains("null"), "a reader of fio's JSON expects numbers");
    }
    let empty = Phase::default();
    assert_eq!(empty.iops_total(), None);
    assert_eq!(empty.write_amplification(), None);
    assert_eq!(empty.read_shares(), None);
    assert_eq!(empty.flash_reads_per_host_read(), None);
    assert_eq!(empty.mapping.hit_ratio(), None);
    assert_eq!(empty.little_queue_depth(), None);
    assert_eq!(ratio(1.0, f64::INFINITY), Some(0.0));
    assert_eq!(ratio(f64::NAN, 1.0), None);
}

#[test]
fn a_phase_shorter_than_a_second_has_a_rate() {
    let phase = Phase { elapsed_ns: 500_000, ..phase(1000, 0) };
    assert_eq!(phase.iops(Kind::Read), Some(2_000_000.0));
}

#[test]
fn shares_sum_to_one() {
    let phase = phase(1200, 600);
    assert!(close(phase.read_shares().unwrap().as_array().iter().sum(), 1.0));
    // 0 to 5 flash reads, equally often: a sixth each, the last two together.
    assert!(close(phase.read_shares().unwrap().more, 2.0 / 6.0));
    assert!(close(phase.flash_reads_per_host_read().unwrap(), 2.5));
    let written = phase.write_amplification().unwrap();
    assert!(close(written.by_cause.iter().map(|(_, part)| part).sum(), written.total));
    assert!(close(written.total, (600.0 + 200.0 + 600.0) / 600.0));
    let dies = phase.die_use.unwrap();
    assert!(close(dies.read + dies.program + dies.erase + dies.transfer + dies.idle, 1.0));
    assert!(close(dies.busy_mean + dies.idle, 1.0));
    assert!(dies.busy_min <= dies.busy_mean && dies.busy_mean <= dies.busy_max && dies.busy_max <= 1.0);
    let mapping = &phase.mapping;
    assert!(close(mapping.hit_shares().values().sum(), mapping.hit_ratio().unwrap()));
    let summary = phase.latency.read.unwrap();
    assert_eq!(summary.bins.iter().map(|bin| bin.1).sum::<u64>(), summary.count);
    assert!(close(summary.cumulative().last().unwrap().1, 1.0));
}

#[test]
fn a_die_cannot_be_busier_than_time_allows() {
    let busy = |ns| DieBusy { read_ns: ns, ..DieBusy::default() };
    assert!(DieUse::from_busy(100, &[busy(100)]).unwrap().is_some());
    let error = DieUse::from_busy(100, &[busy(100), busy(101)]).unwrap_err();
    assert_eq!(error.to_string(), "die 1 was busy for 101 ns of a phase of 100 ns");
    assert_eq!(DieUse::from_busy(0, &[busy(0)]), Ok(None));
    assert!(DieUse::from_busy(0, &[busy(1)]).is_err());
}

#[test]
fn causes_nobody_listed_are_not_lost() {
    let mut phase = phase(0, 100);
    phase.flash.insert("refresh".to_owned(), OpCounts { programs: 50, ..OpCounts::default() });
    let written = phase.write_amplification().unwrap();
    assert!(close(written.of("refresh"), 0.5));
    assert!(close(written.by_cause.iter().map(|(_, part)| part).sum(), written.total));
}

#[test]
fn invariants_catch_what_other_simulators_missed() {
    let held = |phase: &Phase| phase.invariants().iter().all(|invariant| invariant.held);
    assert!(held(&phase(1200, 600)));
    let mut lost = phase(100, 0);
    lost.requests.read.issued += 31;
    assert!(!held(&lost), "requests generated and never serviced");
    let mut missing = phase(100, 0);
    missing.mapping.misses += 1;
    assert!(!held(&missing), "misses counted per something else than a miss");
    let mut queue = phase(100, 0);
    queue.mean_queue_depth = queue.mean_queue_depth.map(|depth| depth * 1.02);
    assert!(!held(&queue), "Little's law");
    let mut run = run();
    assert_eq!(run.broken().count(), 0);
    run.invariants.push(Invariant::new("x", false, ""));
    assert_eq!(run.broken().count(), 1);
}

#[test]
fn speed_of_the_machine_is_no_finding() {
    let (one, mut two) = (run(), run());
    two.host = SimSpeed::new(9.0, 9, 9);
    assert!(one.same_findings(&two) && one != two);
    two.phases[0].gc.foreground += 1;
    assert!(!one.same_findings(&two));
}

#[test]
fn latency_is_exact_where_it_says_so() {
    let mut latency = Latency::new();
    assert_eq!(latency.summary(), None);
    for ns in 1..=100_000 {
        latency.record(ns);
    }
    let found = latency.summary().unwrap();
    assert_eq!((found.count, found.min_ns, found.max_ns), (100_000, 1, 100_000));
    assert!(close(found.mean_ns, 50_000.5));
    for (percentile, exact) in
        [(found.p50_ns, 50_000.0), (found.p99_ns, 99_000.0), (found.p9999_ns, 99_990.0)]
    {
        assert!((percentile as f64 / exact - 1.0).abs() < 0.001, "{percentile} for {exact}");
    }
    assert!((found.quantile_ns(0.25) as f64 / 25_000.0 - 1.0).abs() < 0.011);
    assert!((found.stddev_ns / 28_867.5 - 1.0).abs() < 0.001);
    assert!(found.bins.len() < 1000, "{} bins", found.bins.len());
    assert!(found.bins.windows(2).all(|pair| pair[0].0 < pair[1].0));
}

#[test]
fn latencies_of_minutes_are_told_apart() {
    let mut latency = Latency::new();
    (1..=600).for_each(|second| latency.record(second * 1_000_000_000));
    let found = latency.summary().unwrap();
    assert!((found.p50_ns as f64 / 300e9 - 1.0).abs() < 0.001, "{}", found.p50_ns);
    assert!((found.p99_ns as f64 / 594e9 - 1.0).abs() < 0.001, "{}", found.p99_ns);
    assert!((found.stddev_ns / 173.2e9 - 1.0).abs() < 0.001, "{}", found.stddev_ns);
}

#[test]
fn latency_takes_extremes_and_merges() {
    let (mut one, mut two) = (Latency::new(), Latency::new());
    one.record(0);
    two.record(u64::MAX / 2);
    one.merge(&two);
    let found = one.summary().unwrap();
    assert_eq!((found.count, found.min_ns, found.max_ns), (2, 0, u64::MAX / 2));
    assert!(found.stddev_ns.is_finite() && found.mean_ns.is_finite());
    assert!(found.p9999_ns <= found.max_ns);
    one.clear();
    assert!(one.summary().is_none() && one.sum_ns() == 0);
}

#[test]
fn wear_has_a_spread() {
    assert_eq!(Wear::from_counts([].into_iter()), Wear::default());
    let wear = Wear::from_counts([1, 3].into_iter());
    assert_eq!(wear, Wear { min: 1, max: 3, mean: 2.0, stddev: 1.0 });
    // The difference of two sums of squares would have lost this.
    let high = Wear::from_counts([4_000_000_000, 4_000_000_002].into_iter());
    assert_eq!(high.stddev, 1.0);
}

#[test]
fn csv_has_a_row_for_each_phase_and_named_columns() {
    let runs = [run(), run()];
    let text = to_csv(&runs).unwrap();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    assert_eq!(header.iter().collect::<Vec<_>>(), csv_header());
    let rows: Vec<_> = reader.records().collect::<Result<_, _>>().unwrap();
    assert_eq!(rows.len(), 4);
    let at = |row: usize, name: &str| &rows[row][header.iter().position(|column| column == name).unwrap()];
    assert_eq!(at(0, "scheme"), "dftl");
    assert_eq!(at(0, "iops"), "1800");
    assert_eq!(at(0, "write_amplification_host"), "1");
    assert_eq!(at(0, "seed"), "18446744073709551615");
    assert_eq!(at(1, "write_amplification"), "");
    assert_eq!(at(1, "read_p99_ns"), "");
    let mut unique = csv_header();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), header.len());
}

#[test]
fn fio_json_has_fios_shape() {
    let value = fio_json(&run());
    assert_eq!(value["fio version"], "fio-3.33");
    assert_eq!(value["timestamp"], 0);
    let job = &value["jobs"][0];
    assert_eq!(job["jobname"], "mixed");
    assert_eq!(job["error"], 0);
    let read = &job["read"];
    assert_eq!(read["total_ios"], 1200);
    assert_eq!(read["io_bytes"], 1200 * 4096);
    assert_eq!(read["io_kbytes"], 1200 * 4);
    assert_eq!(read["iops"], 1200.0);
    assert_eq!(read["bw_bytes"], 1200 * 4096);
    assert_eq!(read["bw"], 1200 * 4);
    assert_eq!(read["runtime"], 1000);
    assert_eq!(read["clat_ns"]["N"], 1200);
    assert_eq!(read["clat_ns"]["percentile"].as_object().unwrap().len(), 17);
    let median = read["clat_ns"]["percentile"]["50.000000"].as_f64().unwrap();
    assert!((median / 80_000.0 - 1.0).abs() < 0.01, "{median}");
    assert_eq!(job["trim"]["total_ios"], 0);
    assert_eq!(job["trim"]["clat_ns"]["percentile"], serde_json::Value::Null);
    assert_eq!(job["sync"]["lat_ns"]["N"], 0);
    let shares = ["latency_ns", "latency_us", "latency_ms"];
    let total: f64 = shares
        .iter()
        .flat_map(|of| job[of].as_object().unwrap().values())
        .map(|share| share.as_f64().unwrap())
        .sum();
    assert!((total - 100.0).abs() < 1e-6, "{total}");
    let depth: f64 =
        job["iodepth_level"].as_object().unwrap().values().map(|share| share.as_f64().unwrap()).sum();
    assert_eq!(depth, 100.0);
    assert_eq!(fio_json_runs(&[run(), run()])["jobs"][2]["jobname"], "dftl/mixed");
}

#[test]
fn latencies_at_the_bounds_of_fio_are_below_them() {
    let mut run = run();
    let mut latency = Latency::new();
    [50_000, 60_000, 90_000].iter().for_each(|&ns| latency.record(ns));
    run.phases.truncate(1);
    run.phases[0].latency = PerKind { read: latency.summary(), ..PerKind::default() };
    let found = &fio_json(&run)["jobs"][0]["latency_us"];
    assert!(close(found["50"].as_f64().unwrap(), 100.0 / 3.0), "{found}");
}

#[test]
fn fio_json_names_variants_of_a_scheme_apart() {
    let with = |value: &str| {
        let mut run = run();
        run.scheme.parameters = [("same", "1"), ("width", value)].map(|(k, v)| (k.into(), v.into())).into();
        run
    };
    let jobs = fio_json_runs(&[with("2"), with("3")]);
    assert_eq!(jobs["jobs"][0]["jobname"], "dftl:width=2/mixed");
    assert_eq!(jobs["jobs"][2]["jobname"], "dftl:width=3/mixed");
}

/// Every key of a job that fio 3.33 writes, by `fio --output-format=json` with the null engine.
#[test]
fn fio_json_lacks_no_key_of_fio() {
    let value = fio_json(&run());
    let has = |value: &serde_json::Value, keys: &str| {
        for key in keys.split_whitespace() {
            assert!(value.get(key).is_some(), "{key}");
        }
    };
    has(&value, "timestamp timestamp_ms time jobs");
    let job = &value["jobs"][0];
    has(
        job,
        "jobname groupid error eta elapsed read write trim sync job_runtime usr_cpu sys_cpu ctx majf minf",
    );
    has(job, "iodepth_level iodepth_submit iodepth_complete latency_ns latency_us latency_ms latency_depth");
    has(job, "latency_target latency_percentile latency_window");
    for direction in ["read", "write", "trim"] {
        let of = &job[direction];
        has(
            of,
            "io_bytes io_kbytes bw_bytes bw iops runtime total_ios short_ios drop_ios slat_ns clat_ns lat_ns",
        );
        has(of, "bw_min bw_max bw_agg bw_mean bw_dev bw_samples iops_min iops_max iops_mean iops_stddev iops_samples");
    }
}
