//! RocksDB's db_bench, on ext4 on a loop device.

use std::sync::Arc;
use std::time::Instant;

use live::{fuse, Loop, Stop};
use sim::results::{Kind, Phase, Requests};

use super::{beside, latency, needs, Bench, Calls};

pub(super) fn possible() -> Result<(), String> {
    needs("db_bench", "--version", "rocksdb-tools")?;
    needs("mkfs.ext4", "-V", "e2fsprogs")?;
    fuse::possible(&std::env::temp_dir()).map_err(|error| error.to_string())?;
    Loop::possible()
        .map_err(|_| "RocksDB on a live device needs root and loop devices (/dev/loop-control)".to_owned())
}

pub(super) fn measure(bench: &Bench, calls: &Calls) -> Result<Vec<Phase>, String> {
    let (dir, ext4) = (bench.folder.join("dir"), bench.folder.join("ext4"));
    for folder in [&dir, &ext4] {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("{} cannot be made ({error})", folder.display()))?;
    }
    let text = |error: live::LiveError| error.to_string();
    let stop = Stop::new().map_err(text)?;
    let mounted = fuse::mount(bench.export.clone(), "disk", &dir, &stop).map_err(text)?;
    let attached = Loop::attach(mounted.file()).map(Arc::new);
    let served = attached.as_ref().ok().cloned();
    let body = || {
        let device = attached.map_err(text)?.device().display().to_string();
        // Without discard: the file system lies on a device that has been written over, as after the warm-up.
        let quick = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        bench.run("mkfs.ext4", &["-q", "-E", quick, &device])?;
        bench.run("mount", &["-t", "ext4", "-o", "nodiscard", &device, &ext4.display().to_string()])?;
        let phases = on(bench, calls, &ext4.display().to_string());
        // Also after a failure, and when somebody has asked to stop.
        let unmounted = std::process::Command::new("umount").arg(&ext4).output();
        unmounted.map_err(|error| format!("umount cannot be run ({error})"))?;
        phases
    };
    beside(&stop, || mounted.run(&stop, served.as_deref(), &mut || {}), body)
}

/// Makes the database in `folder` and measures.
fn on(bench: &Bench, calls: &Calls, folder: &str) -> Result<Vec<Phase>, String> {
    let place = format!("--db={folder}/rocksdb");
    let run = |call: &str, existing: bool| {
        let (benchmarks, own) = call.split_once(' ').unwrap_or((call, ""));
        let what = format!("--benchmarks={benchmarks}");
        let existing = format!("--use_existing_db={}", u8::from(existing));
        let mut arguments = vec![&*what, &*place, &*existing];
        arguments.extend(calls.options.split_whitespace().chain(own.split_whitespace()));
        bench.run("db_bench", &arguments)
    };
    for (number, call) in calls.load.iter().enumerate() {
        run(call, number > 0)?;
    }
    bench.run("sync", &["-f", folder])?;
    let phase = |call: &String| {
        let (begun, name) = (Instant::now(), call.split([',', ' ']).next().unwrap_or_default());
        let (said, counted, seen) = bench.paced(name, || run(call, true))?;
        let elapsed_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let program_ops_per_s = operations(&said, name);
        let mut phase = Phase { jobs: 1, elapsed_ns, program_ops_per_s, ..counted };
        for (kind, waited) in Kind::ALL.into_iter().zip(&seen.wall_latency.0) {
            let count = waited.count();
            phase.requests[kind] = Requests { issued: count, completed: count, ..Requests::default() };
            phase.latency[kind] = latency(&waited.counts().collect(), waited.mean_ns());
        }
        Ok(phase)
    };
    calls.run.iter().map(phase).collect()
}

/// The operations a second that db_bench says of a benchmark.
fn operations(said: &str, name: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.split(':').next().is_some_and(|begin| begin.trim() == name))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "ops/sec")?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_db_bench_says_is_understood() {
        let said = "Keys: 16 bytes each\nreadrandom   :      41.137 micros/op 24308 ops/sec 0.823 seconds 20000 operations; (1 of 1 found)\n";
        assert_eq!(operations(said, "readrandom"), Some(24308.0));
        assert_eq!(operations(said, "readseq"), None);
    }
}
