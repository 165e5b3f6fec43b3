//! A small device and short workloads.
#![allow(dead_code)]

use nand::{DeviceSpec, Geometry};
use sim::{Experiment, Load, PhaseSpec};
use workload::fio::{BlockSize, JobSpec, Pattern, Phase};

/// 64 dies, 64 superblocks of 64 x 32 pages of 4 KiB (512 MiB); `exported_percent` of them exported.
pub fn device(exported_percent: u32) -> DeviceSpec {
    let geometry = Geometry {
        channels: 8,
        luns_per_channel: 8,
        planes_per_lun: 1,
        blocks_per_plane: 64,
        pages_per_block: 32,
        page_bytes: 4096,
        oob_bytes: 64,
    };
    let exported = geometry.pages() / 100 * exported_percent;
    DeviceSpec::tiny(geometry, exported)
}

/// 4 dies, 32 superblocks of 4 x 16 pages.
pub fn tiny() -> DeviceSpec {
    let geometry = Geometry {
        channels: 2,
        luns_per_channel: 2,
        planes_per_lun: 1,
        blocks_per_plane: 32,
        pages_per_block: 16,
        page_bytes: 4096,
        oob_bytes: 64,
    };
    DeviceSpec::tiny(geometry, 1200)
}

pub fn job(rw: Pattern, numjobs: u32, iodepth: u32) -> JobSpec {
    let mut job = JobSpec::new(rw.name());
    (job.rw, job.numjobs, job.iodepth) = (rw, numjobs, iodepth);
    job.norandommap = true;
    job
}

/// `requests` requests of 4 KiB for each clone.
pub fn short(rw: Pattern, numjobs: u32, iodepth: u32, requests: u64) -> JobSpec {
    let mut job = job(rw, numjobs, iodepth);
    job.number_ios = Some(requests);
    job.loops = 1;
    job.io_size = Some(workload::fio::Amount::Bytes(1 << 50));
    job
}

pub fn with_block_size(mut job: JobSpec, bytes: u64) -> JobSpec {
    job.bs = [BlockSize::Fixed(bytes), BlockSize::Fixed(bytes), BlockSize::Fixed(bytes)];
    job
}

pub fn phase(name: &str, jobs: Vec<JobSpec>) -> PhaseSpec {
    PhaseSpec::new(name, Load::Jobs(Phase { jobs, warm_up: false }))
}

/// A filled device and these phases.
pub fn experiment(device: DeviceSpec, scheme: &str, phases: Vec<PhaseSpec>) -> Experiment {
    let mut experiment = Experiment::new(device, scheme);
    experiment.warm_up = vec![PhaseSpec::warm_up(workload::warm_up::FILL)];
    experiment.phases = phases;
    experiment
}
