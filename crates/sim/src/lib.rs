//! Runs schemes in virtual time: hosts, clocks, measurements, invariants.
//!
//! ```
//! use sim::{Experiment, PhaseSpec};
//! use workload::fio::JobFile;
//!
//! let jobs = JobFile::parse("jobs.fio", "[reads]\nrw=randread\nbs=4k\nnumber_ios=1000\n")?;
//! let mut experiment = Experiment::new(nand::DeviceSpec::named("tpftl-512m")?, "dftl");
//! experiment.warm_up = vec![PhaseSpec::warm_up(workload::warm_up::FILL)];
//! experiment.phases = PhaseSpec::of_job_file(&jobs)?.1;
//! let run = sim::run(&experiment, &())?;
//! assert!(run.phases[0].flash_reads_per_host_read() > Some(1.0)); // DFTL loads mappings from flash
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | part | holds |
//! | --- | --- |
//! | [`Setup`] (`setup/`) | what to run, as data: what options, figure files and other programs say |
//! | [`Experiment`] (`spec.rs`) | what to run, ready: a scheme, a device, warm-up, phases, seed |
//! | [`run()`] (`run.rs`) | runs one; every result has passed its invariants |
//! | [`compare`], [`run_batch`] (`batch.rs`) | run several on the cores; those that begin alike share a warm-up |
//! | [`Progress`] (`progress.rs`), [`memory`] | who hears how far runs are; what memory they need |
//! | `host.rs`, `plan.rs`, `source.rs` | the host: closed-loop jobs, open-loop arrivals, streams of requests |
//! | `meter.rs`, `assemble.rs` | what is counted while a phase runs, and the record made of it |
//! | [`Reference`] (`reference.rs`) | what every page must hold |
//! | `invariants.rs` | what must hold after every phase |
//! | [`model`] | the analytical models of the TPFTL paper, to set beside what was found |
//! | [`size`] | how large a mapping cache must be |
//! | [`results`] | the record: one serde type, JSON, CSV |
//! | [`facts`], [`mod@format`] | what must stand beside every number, and numbers for people |
//! | [`mod@bench`] | the simulator's own speed |
#![forbid(unsafe_code)]

mod assemble;
mod batch;
pub mod bench;
mod cpu;
mod error;
pub mod facts;
pub mod format;
mod host;
mod invariants;
mod look;
pub mod memory;
mod meter;
pub mod model;
mod occupancy;
mod plan;
mod progress;
mod reference;
pub mod results;
mod run;
pub mod setup;
pub mod size;
mod source;
mod spec;
#[cfg(test)]
mod tests;

pub use assemble::counted;
pub use batch::{compare, run_batch, Batch};
pub use cpu::Stopwatch;
pub use error::RunError;
pub use look::Look;
pub use progress::Progress;
pub use reference::{Mismatch, Reference, Verify, SAMPLE_STRIDE};
pub use run::{describe, rehearse, run, run_as, run_of, warm_up};
pub use setup::{Setup, SetupError};
pub use source::{LeftOut, Listed, Requests, Source, Synthetic, TraceFile};
pub use spec::{
    full_table_bytes, BadValue, CacheSize, CacheState, Experiment, HostTime, Load, PhaseSpec, Series,
    TimingModel, FULL_TABLE_ENTRY_BYTES,
};
