//! Where host requests come from: fio job files, recorded block traces, and seeded generators.
//!
//! Everything here ends in an iterator of [`Request`]s. Nothing here knows a flash page, a scheme or a clock:
//! arrival times are what the source says, and the host model in `sim` decides what to make of them.
//!
//! | source | entry | item |
//! | --- | --- | --- |
//! | fio job file | [`fio::JobFile::parse`], [`fio::JobSpec::streams`] | [`fio::JobStream`] |
//! | recorded trace | [`trace::Trace::open`] | [`trace::Trace`] |
//! | generator (synthetic) | [`synth::Synth::open`] | [`synth::Stream`] |
//! | warm-up | [`warm_up::FILL`] and others, [`warm_up::WarmUp::requests`] | [`warm_up::Writes`] |
//!
//! ```
//! use workload::{fio::JobFile, synth::Synth};
//!
//! let writes = Synth::open("financial1", 1000, 1)?.filter(|request| request.kind == workload::Kind::Write);
//! assert!(writes.count() > 500);
//!
//! let file = JobFile::parse("jobs.fio", "[reader]\nrw=randread\nbs=4k\nnumber_ios=10\n")?;
//! let mut streams = file.phases[0].jobs[0].streams(1 << 30, 1)?;
//! assert!(streams[0].all(|request| request.bytes == 4096 && request.end() <= 1 << 30));
//! # Ok::<(), workload::InputError>(())
//! ```
//!
//! The same seed gives the same requests on every machine: random numbers are integers (xoshiro256++), and
//! the few real functions that a distribution needs come from the `libm` crate, never from the platform.
#![forbid(unsafe_code)]

mod error;
pub mod fio;
pub mod locality;
pub mod profile;
mod random;
mod request;
pub mod synth;
pub mod trace;
pub mod warm_up;

pub use error::InputError;
pub use request::{Kind, Request};
