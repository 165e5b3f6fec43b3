//! fio's own JSON (`fio --output-format=json`, the layout of fio 3.33), so that tools made for fio read a
//! run.
//!
//! One job for each phase. What differs: `timestamp` is 0 (a run depends on its seed, not on the day);
//! `slat_ns` is empty because submission takes no simulated time; percentiles are as exact as the bins of a
//! summary (1 %).

use serde_json::{json, Map, Value};

use super::{Kind, LatencySummary, Phase, Run};

/// fio's default percentiles, percent.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// Upper bounds of fio's latency shares in each unit; the last of all is open.
const LATENCY_NS: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];
const LATENCY_MS: [u64; 11] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000];

/// A run in fio's JSON, a job for each phase.
pub fn fio_json(run: &Run) -> Value {
    fio_json_runs(std::slice::from_ref(run))
}

/// Several runs in one document of fio's JSON; a job's name is the phase's, behind the scheme's when there
/// are several, and behind the parameters' where schemes alone do not tell the runs apart.
pub fn fio_json_runs(runs: &[Run]) -> Value {
    let mut jobs = Vec::new();
    for run in runs {
        for phase in &run.phases {
            let name = if runs.len() == 1 {
                phase.name.clone()
            } else {
                format!("{}/{}", variant(run, runs), phase.name)
            };
            jobs.push(job(run, phase, &name, jobs.len()));
        }
    }
    let options = runs.first().map_or(json!({}), |run| {
        json!({ "ioengine": "ftlkit", "filename": run.device.name, "randseed": run.workload.seed.to_string() })
    });
    // Readers take the version apart, so it is one that fio has; who wrote the document stands beside it.
    let tool = runs.first().map_or("ftlkit", |run| run.tool.as_str());
    json!({
        "fio version": "fio-3.33",
        "written by": tool,
        "timestamp": 0,
        "timestamp_ms": 0,
        "time": "Thu Jan  1 00:00:00 1970",
        "global options": options,
        "jobs": jobs,
    })
}

/// A run's scheme, with the parameters in which another run of that scheme differs.
fn variant(run: &Run, runs: &[Run]) -> String {
    let mut name = run.scheme.name.clone();
    for (key, value) in &run.scheme.parameters {
        let mut same = runs.iter().filter(|other| other.scheme.name == run.scheme.name);
        if same.any(|other| other.scheme.parameters.get(key) != Some(value)) {
            name.push_str(&format!(":{key}={value}"));
        }
    }
    name
}

fn job(run: &Run, phase: &Phase, name: &str, group: usize) -> Value {
    let error = if phase.faults.requests_failed == 0 { 0 } else { 5 };
    let depth = phase.mean_queue_depth.or_else(|| phase.little_queue_depth());
    let mut job = json!({
        "jobname": name,
        "groupid": group,
        "error": error,
        "eta": 0,
        "elapsed": phase.elapsed_ns.div_ceil(1_000_000_000),
        "job options": { "name": name, "numjobs": phase.jobs.to_string() },
        "read": direction(phase, Kind::Read),
        "write": direction(phase, Kind::Write),
        "trim": direction(phase, Kind::Trim),
        "sync": {
            "total_ios": phase.requests.flush.completed,
            "lat_ns": latency(phase.latency.flush.as_ref(), true),
        },
        "job_runtime": millis(phase.elapsed_ns),
        "usr_cpu": 0.0,
        "sys_cpu": 0.0,
        "ctx": 0,
        "majf": 0,
        "minf": 0,
        "iodepth_level": depth_shares(depth, &["1", "2", "4", "8", "16", "32", ">=64"]),
        "iodepth_submit": depth_shares(depth, &["0", "4", "8", "16", "32", "64", ">=64"]),
        "iodepth_complete": depth_shares(depth, &["0", "4", "8", "16", "32", "64", ">=64"]),
        "latency_depth": depth.map_or(0, |depth| depth.round() as u64),
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    });
    let [ns, us, ms] = latency_shares(phase);
    job["latency_ns"] = ns;
    job["latency_us"] = us;
    job["latency_ms"] = ms;
    job["ftlkit"] = json!({ "scheme": run.scheme.name, "derived": phase.derived() });
    job
}

/// The object fio writes for `read`, `write` and `trim`.
fn direction(phase: &Phase, kind: Kind) -> Value {
    let requests = phase.requests[kind];
    let used = requests.completed > 0;
    let bytes_per_s = if used { phase.bandwidth(kind).unwrap_or(0.0) } else { 0.0 };
    let iops = if used { phase.iops(kind).unwrap_or(0.0) } else { 0.0 };
    let (rates, kib_rates) = series_rates(phase, kind);
    json!({
        "io_bytes": requests.bytes,
        "io_kbytes": requests.bytes >> 10,
        "bw_bytes": bytes_per_s.round() as u64,
        "bw": (bytes_per_s / 1024.0).round() as u64,
        "iops": iops,
        "runtime": if used { millis(phase.elapsed_ns) } else { 0 },
        "total_ios": requests.completed,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": latency(None, false),
        "clat_ns": latency(phase.latency[kind].as_ref(), true),
        "lat_ns": latency(phase.latency[kind].as_ref(), false),
        "bw_min": kib_rates.min.round() as u64,
        "bw_max": kib_rates.max.round() as u64,
        "bw_agg": if kib_rates.count == 0 { 0.0 } else { 100.0 },
        "bw_mean": kib_rates.mean,
        "bw_dev": kib_rates.stddev,
        "bw_samples": kib_rates.count,
        "iops_min": rates.min.round() as u64,
        "iops_max": rates.max.round() as u64,
        "iops_mean": rates.mean,
        "iops_stddev": rates.stddev,
        "iops_samples": rates.count,
    })
}

/// fio's runtimes are in ms and its readers divide by them, so a phase that took any time took at least 1.
fn millis(ns: u64) -> u64 {
    ns.div_ceil(1_000_000)
}

fn latency(summary: Option<&LatencySummary>, with_percentiles: bool) -> Value {
    let Some(found) = summary else {
        return json!({ "min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0 });
    };
    let mut value = json!({
        "min": found.min_ns,
        "max": found.max_ns,
        "mean": found.mean_ns,
        "stddev": found.stddev_ns,
        "N": found.count,
    });
    if with_percentiles {
        let percentiles: Map<String, Value> = PERCENTILES
            .iter()
            .map(|percent| (format!("{percent:.6}"), found.quantile_ns(percent / 100.0).into()))
            .collect();
        value["percentile"] = Value::Object(percentiles);
    }
    value
}

/// Mean and spread of a rate over the intervals of the time series; zeros without a series.
#[derive(Default)]
struct Spread {
    count: u64,
    min: f64,
    max: f64,
    mean: f64,
    stddev: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Self {
        if values.is_empty() {
            return Spread::default();
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        Spread {
            count: values.len() as u64,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(0.0, f64::max),
            mean,
            stddev: variance.sqrt(),
        }
    }
}

/// Requests/s and KiB/s over the series; a sample counts pages, so both are scaled by the phase's pages per
/// request.
fn series_rates(phase: &Phase, kind: Kind) -> (Spread, Spread) {
    let requests = phase.requests[kind];
    let pages = match kind {
        Kind::Read => phase.pages_read,
        Kind::Write => phase.pages_written,
        Kind::Trim | Kind::Flush => 0,
    };
    if pages == 0 || requests.completed == 0 {
        return (Spread::default(), Spread::default());
    }
    let rates = |per_page: f64| {
        let of = |sample: &super::Sample| {
            let pages = if kind == Kind::Read { sample.pages_read } else { sample.pages_written };
            super::ratio(pages as f64 * per_page * 1e9, sample.interval_ns as f64)
        };
        Spread::of(&phase.series.iter().filter_map(of).collect::<Vec<_>>())
    };
    (rates(requests.completed as f64 / pages as f64), rates(requests.bytes as f64 / 1024.0 / pages as f64))
}

/// fio's shares of time at each queue depth; all of it at the mean depth, the only one known.
fn depth_shares(depth: Option<f64>, names: &[&str]) -> Value {
    let level = depth.map(|depth| {
        let reached = |name: &&str| {
            name.trim_start_matches(">=").parse::<f64>().is_ok_and(|from| from <= depth.round())
        };
        names.iter().rposition(reached).unwrap_or(0)
    });
    let share = |index: usize| if level == Some(index) { 100.0 } else { 0.0 };
    Value::Object(
        names.iter().enumerate().map(|(index, &name)| (name.to_owned(), share(index).into())).collect(),
    )
}

/// Percent of requests in each of fio's latency ranges: below 1 us, below 1 ms, and above.
fn latency_shares(phase: &Phase) -> [Value; 3] {
    let (us, ms) = (1_000, 1_000_000);
    let bounds: Vec<u64> = LATENCY_NS
        .iter()
        .copied()
        .chain(LATENCY_NS.iter().map(|bound| bound * us))
        .chain(LATENCY_MS.iter().map(|bound| bound * ms))
        .collect();
    let mut counts = vec![0_u64; bounds.len() + 1];
    for kind in Kind::DATA {
        for bin in phase.latency[kind].iter().flat_map(|found| &found.bins) {
            // A bin ends up to a thousandth above the latencies in it.
            counts[bounds.partition_point(|&bound| bound + bound / 1000 < bin.0)] += bin.1;
        }
    }
    let total = counts.iter().sum::<u64>().max(1) as f64;
    let mut shares = counts.iter().map(|&count| count as f64 * 100.0 / total);
    let mut object = |names: &[u64]| -> Map<String, Value> {
        names.iter().map(|name| (name.to_string(), shares.next().unwrap_or(0.0).into())).collect()
    };
    let (ns, us, mut ms) = (object(&LATENCY_NS), object(&LATENCY_NS), object(&LATENCY_MS));
    ms.insert(">=2000".to_owned(), shares.next().unwrap_or(0.0).into());
    [Value::Object(ns), Value::Object(us), Value::Object(ms)]
}
