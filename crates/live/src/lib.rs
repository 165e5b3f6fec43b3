//! The live device: an image file behind any scheme, served to real programs.
//!
//! | file | what |
//! | --- | --- |
//! | `settings.rs` | what an image says beside its device: scheme, cache, thresholds |
//! | `engine.rs` | one FTL, many clients: byte ranges become pages, bytes move beside it, answers keep their promises |
//! | `clock.rs` | virtual time beside the wall's |
//! | `pace.rs` | answers that wait for the device model |
//! | `export.rs` | images by name, opened with the scheme they were made for |
//! | `nbd/` | the NBD server |
//! | `convert.rs` | one device's content into another |
//! | `listen.rs` | sockets |
//! | `metrics.rs` | what is counted, for Prometheus |
//!
//! `sim` and this crate do not know each other: a scheme cannot tell which of them runs it.
#![forbid(unsafe_code)]

mod clock;
mod convert;
mod engine;
mod export;
mod listen;
mod metrics;
pub mod nbd;
mod pace;
mod settings;

pub use clock::{Latencies, Latency};
pub use convert::{convert, Converted};
pub use engine::{Answer, Engine, Extent, IoError, Op, Opened, Reads, Request, Snapshot};
pub use export::{create, describe, open, Export, LiveError};
pub use listen::{Address, Listeners};
pub use metrics::{publish, render};
pub use settings::Settings;
