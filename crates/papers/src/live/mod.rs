//! Experiments on a live device: the scheme behind an image, real programs in front of it, and every answer
//! held until the device model gives it.
//!
//! | file | runs |
//! | --- | --- |
//! | `fio.rs` | a case's job file, by fio over NBD |
//! | `rocksdb.rs` | RocksDB's db_bench, on ext4 on a loop device |
//! | `f2fs.rs` | fio on F2FS, in a virtual machine |
//!
//! Before, the device gets the same warm-up as in a simulation, as fast as it takes it. What the programs say
//! of throughput and latency, and what the FTL counted meanwhile, are phases of the same record as a
//! simulation's.

mod f2fs;
mod fio;
mod rocksdb;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use live::{Export, LiveError, Opening, Settings, Stop};
use serde::Deserialize;
use sim::results::{Kind, Latency, LatencySummary, Phase};
use sim::Experiment;

/// How often somebody is asked whether a program has ended.
const PATIENCE: Duration = Duration::from_millis(10);

/// What a case runs on its device.
#[derive(Clone, Debug)]
pub enum Live {
    /// The measured sections of a fio job file: its text.
    Fio(String),
    /// db_bench.
    Rocksdb(Calls),
    /// fio on F2FS.
    F2fs(Calls),
}

/// Calls of db_bench, or of fio on F2FS.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    /// What makes the database or the files, not paced and not measured: each a value of `--benchmarks`, or
    /// the name of a job, and options of its own.
    pub load: Vec<String>,
    /// What is measured, each a phase that has the name of its benchmark or job.
    pub run: Vec<String>,
    /// Options of all of them.
    pub options: String,
}

/// Why something could not be measured on a live device: what this machine lacks, or what failed; one
/// sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

impl From<String> for Failure {
    fn from(sentence: String) -> Failure {
        Failure(sentence)
    }
}

/// Whether this machine can run what is wanted.
///
/// # Errors
/// It lacks a program, a kernel or a right.
pub fn possible<'a>(mut wanted: impl Iterator<Item = &'a Live> + Clone) -> Result<(), Failure> {
    if wanted.clone().any(|live| matches!(live, Live::Fio(_))) {
        fio::possible()?;
    }
    if wanted.clone().any(|live| matches!(live, Live::Rocksdb(_))) {
        rocksdb::possible()?;
    }
    if wanted.any(|live| matches!(live, Live::F2fs(_))) {
        f2fs::possible()?;
    }
    Ok(())
}

/// Makes a device for the experiment, warms it up, and measures: a phase for each call of a program.
///
/// # Errors
/// A program or the device failed, or somebody asked to stop.
pub fn measure(experiment: &Experiment, what: &Live, stop: &Stop) -> Result<Vec<Phase>, Failure> {
    let bench = Bench::new(experiment, stop)?;
    let phases = match what {
        Live::Fio(jobs) => fio::measure(&bench, experiment, jobs),
        Live::Rocksdb(calls) => rocksdb::measure(&bench, calls),
        Live::F2fs(calls) => f2fs::measure(&bench, calls),
    }?;
    bench.export.power_off().map_err(|error| error.to_string())?;
    Ok(phases)
}

/// A live device of its own, in a folder of its own.
struct Bench {
    export: Arc<dyn Export>,
    folder: PathBuf,
    stop: Stop,
}

impl Drop for Bench {
    fn drop(&mut self) {
        // Nothing can be done about what cannot be removed.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Bench {
    fn new(experiment: &Experiment, stop: &Stop) -> Result<Bench, String> {
        if experiment.cache_state != sim::CacheState::Dirty {
            return Err(
                "a live device has its mapping cache as the warm-up leaves it; leave cache-state out"
                    .to_owned(),
            );
        }
        let memory = Path::new("/dev/shm");
        let above = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = above.join(format!("ftl-live-{}", std::process::id()));
        let wrong = |error| format!("{} cannot be made ({error})", folder.display());
        std::fs::create_dir_all(&folder).map_err(wrong)?;
        let image = folder.join("disk.ftl");
        let made = make(experiment, &image);
        let export = made.inspect_err(|_| drop(std::fs::remove_dir_all(&folder)))?;
        let bench = Bench { export, folder, stop: stop.clone() };
        // Collection while it warms up is charged to nobody.
        bench.export.restart(false);
        let zeros = bytes::Bytes::from(vec![0; 512 << 10]);
        for request in sim::warm_up(experiment).map_err(|error| error.to_string())? {
            bench.carry_out(request.map_err(|error| error.to_string())?, &zeros)?;
        }
        Ok(bench)
    }

    fn carry_out(&self, request: workload::Request, zeros: &bytes::Bytes) -> Result<(), String> {
        let op = match request.kind {
            Kind::Read => live::Op::Read,
            Kind::Write => live::Op::Write,
            Kind::Trim => live::Op::Trim,
            Kind::Flush => live::Op::Flush,
        };
        let length = u32::try_from(request.bytes).map_err(|_| "a request of the warm-up is too long")?;
        let size = length as usize;
        let data = match op {
            live::Op::Write if size <= zeros.len() => zeros.slice(..size),
            live::Op::Write => bytes::Bytes::from(vec![0; size]),
            _ => bytes::Bytes::new(),
        };
        let mut to = vec![0; if op == live::Op::Read { size } else { 0 }];
        let request = live::Request { op, offset: request.offset, length, fua: false, data };
        let failed = |error| format!("a request of the warm-up failed: {error}");
        self.export.request(&request, &mut to).map_err(failed)
    }

    /// Runs `body` paced, and gives what it gives with what the FTL counted meanwhile, as a phase without
    /// requests.
    fn paced<T>(
        &self,
        name: &str,
        body: impl FnOnce() -> Result<T, String>,
    ) -> Result<(T, Phase, live::Snapshot), String> {
        self.export.restart(true);
        let found = body()?;
        let seen = self.export.snapshot().ok_or("the device is switched off")?;
        self.export.restart(false);
        Ok((found, sim::counted(name, &seen.counters, seen.stats), seen))
    }

    /// Runs a program to its end, or until somebody asks to stop; gives what it said.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let call = || format!("{program} {}", arguments.join(" "));
        let failed = |error: std::io::Error| format!("`{}` cannot be run ({error})", call());
        let (said, errors) = (self.folder.join("said"), self.folder.join("errors"));
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(File::create(&said).map_err(failed)?)
            .stderr(File::create(&errors).map_err(failed)?)
            .spawn()
            .map_err(failed)?;
        let status = ended(&mut child, &self.stop)?.map_err(failed)?;
        let read = |path: &Path| std::fs::read_to_string(path).map_err(failed);
        if !status.success() {
            return Err(format!("`{}` failed: {}", call(), last_lines(&read(&errors)?)));
        }
        read(&said)
    }
}

/// An image for the experiment's scheme and device, open.
fn make(experiment: &Experiment, image: &Path) -> Result<Arc<dyn Export>, String> {
    if experiment.warm_up.iter().any(|phase| matches!(phase.load, sim::Load::Rest)) {
        return Err(
            "rest is for simulated runs: a live device has no end of its idle time to wait for".to_owned()
        );
    }
    if experiment.foreground_only {
        return Err("foreground-only is for simulated runs: a live device collects in idle time".to_owned());
    }
    let device = &experiment.device;
    let cache = experiment.cache.bytes(device.exported_pages).map_err(|error| error.to_string())?;
    let mut settings = Settings::new(&experiment.scheme, cache);
    settings.parameters.clone_from(&experiment.parameters);
    settings.cost_benefit = experiment.victims == ftl::VictimPolicy::CostBenefit;
    let foreground = experiment.foreground_superblocks.unwrap_or(settings.foreground_superblocks);
    let background = settings.background_superblocks.max(foreground + 1);
    settings.foreground_superblocks = foreground;
    settings.background_superblocks = experiment.background_superblocks.unwrap_or(background);
    live::create(image, device, &settings).map_err(|error| error.to_string())?;
    let (export, _) =
        live::open(image, Opening { paced: true, read_only: false }).map_err(|error| error.to_string())?;
    Ok(export)
}

/// Runs `body` while `serve` serves the device, which it does until `stop` is asked for; it gives the words
/// of a panic.
fn beside<T>(
    stop: &Stop,
    serve: impl FnOnce() -> Result<Option<String>, LiveError> + Send,
    body: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    std::thread::scope(|scope| {
        let server = scope.spawn(serve);
        let found = body();
        stop.ask();
        let panic = server.join().map_err(|_| "the server panicked")?.map_err(|error| error.to_string())?;
        panic.map_or(found, |panic| Err(format!("the server panicked: {panic}")))
    })
}

/// How a program ended; `Err` when somebody asked to stop before.
fn ended(child: &mut Child, stop: &Stop) -> Result<std::io::Result<ExitStatus>, String> {
    loop {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => return Ok(Ok(status)),
            Err(error) => return Ok(Err(error)),
        }
        if stop.wait(Some(PATIENCE)) {
            // It may have ended meanwhile.
            let _ = (child.kill(), child.wait());
            return Err("stopped".to_owned());
        }
    }
}

/// The end of what a program said, for a sentence.
fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}

/// Whether a program is there; else one sentence.
fn needs(program: &str, try_with: &str, package: &str) -> Result<String, String> {
    let output = Command::new(program).arg(try_with).stdin(Stdio::null()).output();
    let output = output.map_err(|error| {
        format!(
            "{program} cannot be run ({error}), and a live figure needs it; install the package {package}"
        )
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Latencies in ns, each with how often it was, and their mean as the program has it.
fn latency(counts: &BTreeMap<u64, u64>, mean_ns: f64) -> Option<LatencySummary> {
    let mut all = Latency::new();
    for (&ns, &count) in counts.iter().filter(|(_, &count)| count > 0) {
        all.record_many(ns, count);
    }
    Some(LatencySummary { mean_ns, ..all.summary()? })
}
