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
//! | warm-up | [`warm_up::learnedftl`] | [`warm_up::LearnedFtl`] |
//!
//! The same seed gives the same requests on every machine: random numbers are integers (xoshiro256++), and the few
//! real functions that a distribution needs come from the `libm` crate, never from the platform.
#![forbid(unsafe_code)]

mod error;
pub mod fio;
pub mod profile;
mod random;
mod request;
pub mod synth;
pub mod trace;
pub mod warm_up;

pub use error::InputError;
pub use request::{Kind, Request};
