//! The simulator's own speed, in requests and flash operations per second of processor time of one core.
//!
//! Devices and loads are those of the comparison with other simulators: `femu-32g` with 30 GiB exported and a
//! cache of 3 %, and `d4`. Everything that a run counts and checks while it goes is on: latency histograms,
//! sampled read-back, digest, Little's law; the walks over the whole mapping at the end of a run are not part
//! of a rate.

use ftl::schemes::Visitor;
use ftl::{Config, OpenError, Scheme};
use nand::timing::NoClock;
use nand::{DeviceSpec, SimOptions};
use serde::{Deserialize, Serialize};
use workload::fio::{Amount, BlockSize, JobSpec, Pattern, Phase as FioPhase};

use crate::assemble::{self, Measured};
use crate::cpu::{resident_bytes, Stopwatch};
use crate::error::{impossible, RunError};
use crate::host::{Rig, Timed};
use crate::plan::{self, HostSoftware};
use crate::reference::Verify;
use crate::results::Kind;
use crate::run::{new_rig, queued, reserved, run_phase};
use crate::spec::{CacheSize, Load, PhaseSpec, Series, FULL_TABLE_ENTRY_BYTES};

/// Random writes before those that are measured, in volumes: six times the spare room of `femu-32g`.
const STEADY_AFTER: f64 = 0.4;

/// Which schemes, devices and loads are measured, and for how long.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// Schemes by name; all that are registered when empty.
    pub schemes: Vec<String>,
    /// Multiplies the numbers of measured requests; 1.0 takes some 10 s a scheme. What brings a device to its
    /// steady state before it is not multiplied: a shorter one would leave free room that collection has not
    /// paid for.
    pub effort: f64,
    /// The large device, for reads and for writes without a clock.
    pub device: DeviceSpec,
    /// The small one; none leaves it out.
    pub small: Option<DeviceSpec>,
    /// Memory for mapping, doubled for a scheme that refuses it.
    pub cache: CacheSize,
    /// Bytes written by the preconditioning of the large device.
    pub precondition_bytes: u64,
    /// Read-back while it runs.
    pub verify: Verify,
    /// Of every random choice.
    pub seed: u64,
}

impl BenchOptions {
    /// `femu-32g` with its 30 GiB exported, `d4`, 3 % cache, 64 GiB of preconditioning.
    ///
    /// # Errors
    /// A preset that does not exist: a mistake in the presets.
    pub fn standard() -> Result<BenchOptions, RunError> {
        let preset = |name| DeviceSpec::named(name).map_err(|error| impossible(error.to_string()));
        Ok(BenchOptions {
            schemes: Vec::new(),
            effort: 1.0,
            device: preset("femu-32g")?,
            small: Some(preset("d4")?),
            cache: CacheSize::Share(0.03),
            precondition_bytes: 64 << 30,
            verify: Verify::Sampled,
            seed: 1,
        })
    }
}

/// What was measured. All rates are per second of the thread's processor time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BenchReport {
    /// Name of the large device.
    pub device: String,
    /// By scheme, on the large device.
    pub schemes: Vec<SchemeBench>,
    /// The small device, if it was measured.
    pub small_device: String,
    /// By scheme, on the small device.
    pub small: Vec<SmallBench>,
}

/// One scheme on the large device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SchemeBench {
    /// Name of the scheme, with its parameters.
    pub scheme: String,
    /// Preconditioning: sequential writes of 512 KiB with the clock off, s.
    pub precondition_s: f64,
    /// Bytes that preconditioning wrote.
    pub precondition_bytes: u64,
    /// Memory of array and scheme after it, bytes a physical page; `None` where the system does not tell.
    pub bytes_per_page: Option<f64>,
    /// 4 KiB random reads of 64 jobs under the reservation model.
    pub reads_reserved: Rate,
    /// 4 KiB random reads of 64 jobs under the queue model.
    pub reads_queued: Rate,
    /// 4 KiB random writes in steady state with the clock off.
    pub writes_no_clock: Rate,
}

/// One scheme on the small device, queue model, one job of depth 32.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SmallBench {
    /// Name of the scheme, with its parameters.
    pub scheme: String,
    /// 4 KiB sequential writes to a new device, without collection.
    pub sequential_write: Rate,
    /// 4 KiB random reads.
    pub random_read: Rate,
    /// 4 KiB random writes in steady state.
    pub random_write: Rate,
}

/// How fast a load was simulated.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Rate {
    /// Host requests a second of processor time.
    pub requests_per_s: f64,
    /// Flash operations a second of processor time.
    pub flash_ops_per_s: f64,
    /// Flash programs per host page written; `None` when nothing was written.
    pub write_amplification: Option<f64>,
    /// Requests a second of simulated time; `None` without a clock.
    pub simulated_iops: Option<f64>,
    /// Host requests that the measured time covers.
    pub requests: u64,
    /// Processor time of the measuring thread, s.
    pub seconds: f64,
}

/// Measures. `tell` hears what is being done.
///
/// # Errors
/// A scheme that does not exist, or that fails on these devices.
pub fn bench(options: &BenchOptions, tell: &mut dyn FnMut(&str)) -> Result<BenchReport, RunError> {
    let mut report = BenchReport { device: options.device.name.clone(), ..BenchReport::default() };
    let all: Vec<String> = ftl::schemes::ALL.iter().map(|info| info.name.to_owned()).collect();
    // Log-block schemes by name only: their random writes are merges of whole superblocks, hours of them on
    // 32 GiB.
    let is_fast = |name: &&String| !ftl::schemes::LOG_BLOCK.contains(&name.as_str());
    let usual: Vec<String> = all.iter().filter(is_fast).cloned().collect();
    for scheme in if options.schemes.is_empty() { &usual } else { &options.schemes } {
        let large = Large { name: scheme, options, tell: &mut *tell };
        let unknown = || impossible(format!("there is no scheme `{scheme}`; there are {}", all.join(", ")));
        report.schemes.push(ftl::schemes::with(scheme, large).ok_or_else(unknown)??);
        if let Some(device) = &options.small {
            report.small_device.clone_from(&device.name);
            let small = Small { name: scheme, options, device, tell: &mut *tell };
            report.small.push(ftl::schemes::with(scheme, small).ok_or_else(unknown)??);
        }
    }
    Ok(report)
}

struct Large<'a> {
    name: &'a str,
    options: &'a BenchOptions,
    tell: &'a mut dyn FnMut(&str),
}

impl Visitor for Large<'_> {
    type Out = Result<SchemeBench, RunError>;

    fn visit<S: Scheme + Clone + Send + 'static>(self) -> Self::Out {
        let Large { name, options, tell } = self;
        let device = &options.device;
        let count = |requests: f64| (requests * options.effort).max(1.0) as u64;
        let exported = f64::from(device.exported_pages);
        let before = resident_bytes();
        let mut bed = Bed::<S, NoClock>::new(name, options, device)?;

        tell(&format!("{name}: preconditioning"));
        let mut fill = job(Pattern::Write, 1, 1, u64::MAX);
        fill.bs[1] = BlockSize::Fixed(512 << 10);
        fill.io_size = Some(Amount::Bytes(options.precondition_bytes));
        let filled = bed.rate(fill)?;
        let resident = before.zip(resident_bytes()).map(|(before, now)| now.saturating_sub(before));

        tell(&format!("{name}: random reads, reserved"));
        let mut timed = bed.clone().with_clock(reserved(device));
        timed.rate(job(Pattern::RandRead, 64, 1, count(500e3)))?;
        let reads_reserved = timed.rate(job(Pattern::RandRead, 64, 1, count(6e6)))?;

        tell(&format!("{name}: random reads, queued"));
        drop(timed);
        let mut timed = bed.clone().with_clock(queued(device, None));
        timed.rate(job(Pattern::RandRead, 64, 1, count(500e3)))?;
        let reads_queued = timed.rate(job(Pattern::RandRead, 64, 1, count(4e6)))?;
        drop(timed);

        tell(&format!("{name}: random writes in steady state"));
        bed.rate(job(Pattern::RandWrite, 1, 1, (STEADY_AFTER * exported) as u64))?;
        let writes_no_clock = bed.rate(job(Pattern::RandWrite, 1, 1, count(0.1 * exported)))?;
        Ok(SchemeBench {
            scheme: name.to_owned(),
            precondition_s: filled.seconds,
            precondition_bytes: options.precondition_bytes,
            bytes_per_page: resident.map(|bytes| bytes as f64 / f64::from(device.geometry.pages())),
            reads_reserved,
            reads_queued,
            writes_no_clock,
        })
    }
}

struct Small<'a> {
    name: &'a str,
    options: &'a BenchOptions,
    device: &'a DeviceSpec,
    tell: &'a mut dyn FnMut(&str),
}

impl Visitor for Small<'_> {
    type Out = Result<SmallBench, RunError>;

    fn visit<S: Scheme + Clone + Send + 'static>(self) -> Self::Out {
        let Small { name, options, device, tell } = self;
        let count = |requests: f64| (requests * options.effort).max(1.0) as u64;
        let pages = u64::from(device.exported_pages);
        tell(&format!("{name}: {}", device.name));
        let mut bed = Bed::<S, NoClock>::new(name, options, device)?;
        let mut timed = bed.clone().with_clock(queued(device, None));
        let sequential_write = timed.rate(job(Pattern::Write, 1, 32, pages))?;
        let random_read = timed.rate(job(Pattern::RandRead, 1, 32, count(3e6)))?;
        drop(timed);
        bed.rate(job(Pattern::Write, 1, 1, pages))?;
        bed.rate(job(Pattern::RandWrite, 1, 1, 2 * pages))?;
        let mut timed = bed.with_clock(queued(device, None));
        let random_write = timed.rate(job(Pattern::RandWrite, 1, 32, count(1e6)))?;
        Ok(SmallBench { scheme: name.to_owned(), sequential_write, random_read, random_write })
    }
}

/// `requests` requests of 4 KiB in all, over the whole device.
fn job(rw: Pattern, numjobs: u32, iodepth: u32, requests: u64) -> JobSpec {
    let mut job = JobSpec::new(rw.name());
    (job.rw, job.numjobs, job.iodepth, job.norandommap) = (rw, numjobs, iodepth, true);
    job.number_ios = Some(requests.div_ceil(u64::from(numjobs)));
    job.io_size = Some(Amount::Bytes(u64::MAX));
    job
}

/// A device under test.
#[derive(Clone)]
struct Bed<S, T: Timed> {
    rig: Rig<S, T>,
    device: DeviceSpec,
    seed: u64,
    phases: u64,
}

impl<S: Scheme> Bed<S, NoClock> {
    fn new(name: &str, options: &BenchOptions, device: &DeviceSpec) -> Result<Self, RunError> {
        let exported = device.exported_pages;
        let mut config = Config::new(exported, options.cache.bytes(exported)?);
        config.parameters = ftl::schemes::parameters(name, &config.parameters);
        let faults = SimOptions { seed: options.seed, ..SimOptions::default() };
        let full_table = u64::from(exported) * FULL_TABLE_ENTRY_BYTES;
        let rig = loop {
            match new_rig(device, &config, &faults, options.verify) {
                Err(OpenError::Config(_)) if config.cache_bytes < full_table => config.cache_bytes *= 2,
                rig => break rig.map_err(RunError::Open)?,
            }
        };
        Ok(Bed { rig, device: device.clone(), seed: options.seed, phases: 0 })
    }

    fn with_clock<U: Timed>(self, clock: U) -> Bed<S, U> {
        let Bed { rig, device, seed, phases } = self;
        Bed { rig: rig.with_clock(clock), device, seed, phases }
    }
}

impl<S: Scheme, T: Timed> Bed<S, T> {
    /// Runs one job and tells how fast it went.
    fn rate(&mut self, job: JobSpec) -> Result<Rate, RunError> {
        self.phases += 1;
        let spec = PhaseSpec::new(job.name.clone(), Load::Jobs(FioPhase { jobs: vec![job], warm_up: false }));
        let seed = plan::phase_seed(self.seed, self.phases);
        let software = HostSoftware::new(0, 1);
        let planned = plan::plan(&spec, self.device.exported_bytes(), seed, T::TICKS, software, None)?;
        let watch = Stopwatch::start();
        let (measured, stop) = run_phase(&mut self.rig, &spec, planned, Series::Auto, &mut |_: f64| {});
        let seconds = watch.seconds();
        if let Some(stop) = stop {
            return Err(RunError::Request {
                what: format!("{stop:?}"),
                scheme: S::INFO.name.to_owned(),
                phase: spec.name,
                request: measured.meter.issued(),
            });
        }
        Ok(rate_of(measured, &self.device, seconds))
    }
}

fn rate_of(measured: Measured, device: &DeviceSpec, seconds: f64) -> Rate {
    let array = measured.array;
    let ops = array.total_reads() + array.total_programs() + array.total_erases();
    let phase = assemble::phase(measured, device);
    let requests: u64 = Kind::ALL.iter().map(|&kind| phase.requests[kind].completed).sum();
    Rate {
        requests_per_s: requests as f64 / seconds,
        flash_ops_per_s: ops as f64 / seconds,
        write_amplification: phase.write_amplification().map(|found| found.total),
        simulated_iops: phase.iops_total(),
        requests,
        seconds,
    }
}
