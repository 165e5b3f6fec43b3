//! A case's jobs, by fio over NBD.

use std::collections::BTreeMap;

use live::nbd::serve;
use live::{Address, Listeners, Served, Stop};
use serde_json::Value as Json;
use sim::results::{Kind, Phase, Requests};
use sim::{Experiment, Load, PhaseSpec};

use super::{beside, latency, needs, Bench};

/// Behind the name of a phase that fio measured.
const LIVE: &str = " live";
/// Keys of a job file that say how requests get to the device.
const OURS: [&str; 4] = ["ioengine", "direct", "filename", "uri"];

pub(super) fn possible() -> Result<(), String> {
    let engines = needs("fio", "--enghelp", "fio")?;
    if engines.lines().any(|line| line.trim() == "nbd") {
        return Ok(());
    }
    Err("this fio has no engine nbd, which a live figure needs; install fio of Debian, or build it with libnbd".into())
}

pub(super) fn measure(bench: &Bench, experiment: &Experiment, jobs: &str) -> Result<Vec<Phase>, String> {
    let socket = bench.folder.join("nbd.sock");
    let listeners = Listeners::bind(&[Address::Unix(socket.clone())]).map_err(|error| error.to_string())?;
    let stop = Stop::new().map_err(|error| error.to_string())?;
    let served = vec![Served {
        name: "disk".to_owned(),
        description: experiment.scheme.clone(),
        export: bench.export.clone(),
    }];
    let file = bench.folder.join("jobs.fio");
    let uri = format!("nbd+unix:///disk?socket={}", socket.display());
    std::fs::write(&file, over_nbd(jobs, &uri)).map_err(|error| format!("{}: {error}", file.display()))?;
    beside(
        &stop,
        || Ok(serve(&listeners, served, &stop)?.panic),
        || {
            let file = file.display().to_string();
            experiment.phases.iter().map(|spec| phase(bench, spec, &file)).collect()
        },
    )
}

/// The job file for fio: with its requests sent over NBD, and latency measured from submission.
fn over_nbd(jobs: &str, uri: &str) -> String {
    let ours = |line: &&str| OURS.contains(&line.split('=').next().unwrap_or_default().trim());
    let kept: Vec<&str> = jobs.lines().filter(|line| !ours(line)).collect();
    format!("[global]\nioengine=nbd\nuri={uri}\nlat_percentiles=1\ngroup_reporting=1\n{}\n", kept.join("\n"))
}

fn phase(bench: &Bench, spec: &PhaseSpec, file: &str) -> Result<Phase, String> {
    let Load::Jobs(jobs) = &spec.load else { return Err("only fio's jobs run live".to_owned()) };
    let mut arguments = vec!["--output-format=json+".to_owned()];
    arguments.extend(jobs.jobs.iter().map(|job| format!("--section={}", job.name)));
    arguments.push(file.to_owned());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let name = format!("{}{LIVE}", spec.name);
    let (said, counted, _) = bench.paced(&name, || bench.run("fio", &arguments))?;
    of_fio(&said, Phase { jobs: jobs.jobs.iter().map(|job| job.numjobs).sum(), ..counted })
}

/// Takes in what fio said in its form `json+`.
pub(super) fn of_fio(said: &str, mut phase: Phase) -> Result<Phase, String> {
    // Warnings may come first.
    let json = said.find('{').map_or(said, |begin| &said[begin..]);
    let found: Json =
        serde_json::from_str(json).map_err(|error| format!("fio's JSON is not understood ({error})"))?;
    let jobs = found["jobs"].as_array().map_or(&[][..], Vec::as_slice);
    for kind in Kind::ALL {
        let (mut counts, mut sum_ns, mut requests) = (BTreeMap::new(), 0.0, Requests::default());
        for job in jobs {
            let part = &job[if kind == Kind::Flush { "sync" } else { kind.name() }];
            let of = |key: &str| part[key].as_u64().unwrap_or(0);
            requests.issued += of("total_ios");
            requests.bytes += of("io_bytes");
            phase.elapsed_ns = phase.elapsed_ns.max(of("runtime") * 1_000_000);
            let times = &part["lat_ns"];
            sum_ns += times["mean"].as_f64().unwrap_or(0.0) * times["N"].as_f64().unwrap_or(0.0);
            for (ns, count) in times["bins"].as_object().into_iter().flatten() {
                let ns: u64 = ns.parse().map_err(|_| "fio's JSON has a latency that is no number")?;
                *counts.entry(ns).or_default() += count.as_u64().unwrap_or(0);
            }
        }
        requests.completed = requests.issued;
        phase.latency[kind] = latency(&counts, sum_ns / requests.issued.max(1) as f64);
        phase.requests[kind] = requests;
    }
    Ok(phase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_file_goes_over_nbd() {
        let text = over_nbd("[global]\nioengine = libaio\ndirect=1\n[a]\nrw=randread\n", "nbd+unix:///x");
        assert!(!text.contains("libaio") && !text.contains("direct"), "{text}");
        assert!(text.contains("ioengine=nbd") && text.ends_with("[a]\nrw=randread\n"), "{text}");
    }

    #[test]
    fn what_fio_says_becomes_a_phase() {
        let job = |bins: &str, n: u32| {
            format!(
                r#"{{"read": {{"total_ios": {n}, "io_bytes": 4096, "runtime": 2000, "lat_ns": {{"mean": 150.0, "N": {n},
                   "bins": {{{bins}}}}}}}, "write": {{"total_ios": 0}}}}"#
            )
        };
        let said = format!(
            "fio: a warning\n{{\"jobs\": [{}, {}]}}",
            job("\"100\": 1, \"200\": 1", 2),
            job("\"100\": 3, \"300\": 1", 4)
        );
        let phase = of_fio(&said, Phase::default()).expect("a phase");
        assert_eq!((phase.requests.read.completed, phase.elapsed_ns), (6, 2_000_000_000));
        assert_eq!(phase.iops_total(), Some(3.0));
        let read = phase.latency.read.expect("reads");
        assert_eq!((read.count, read.mean_ns, read.p50_ns, read.max_ns), (6, 150.0, 100, 300));
        assert_eq!(phase.latency.write, None);
        assert!(of_fio("nothing", Phase::default()).is_err());
    }
}
