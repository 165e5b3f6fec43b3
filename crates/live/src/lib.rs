//! The live device: an image file behind any scheme, served to real programs.
//!
//! | file | what |
//! | --- | --- |
//! | `settings.rs` | what an image says beside its device: scheme, cache, thresholds |
//! | `engine.rs` | one FTL, many clients: byte ranges become pages, bytes move beside it, answers keep their promises |
//! | `clock.rs` | virtual time beside the wall's |
//! | `pace.rs` | answers that wait for the device model |
//! | `export.rs` | images by name, opened with the scheme they were made for |
//! | `reads.rs`, `record.rs` | the bytes of reads; what the device sees, told |
//! | `front.rs` | requests that bring what to do with their answer |
//! | `keeper.rs` | what a device needs beside its front end |
//! | `nbd/` | the NBD server |
//! | `fuse.rs`, `loops.rs` | a file that is the device, and a loop device on it |
//! | `vhost/` | a virtio block device for virtual machines |
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
mod front;
pub mod fuse;
mod keeper;
mod listen;
mod loops;
mod metrics;
pub mod nbd;
mod pace;
mod reads;
mod record;
mod settings;
pub mod vhost;

pub use clock::{Latencies, Latency};
pub use convert::{convert, Converted};
pub use engine::{Answer, Engine, Extent, IoError, Op, Opened, Request, Snapshot};
pub use export::{create, describe, open, Export, LiveError};
pub use front::{Asked, Reply};
pub use keeper::Stop;
pub use listen::{Address, Listeners};
pub use loops::Loop;
pub use metrics::{publish, publish_from, render};
pub use reads::Reads;
pub use record::{Recorded, Recorder};
pub use settings::Settings;
