//! The live device: an image file behind any scheme, served to real programs.
//!
//! From what clients speak down to the flash, each room knows only those below it:
//!
//! | room | what |
//! | --- | --- |
//! | `nbd/`, `fuse.rs`, `vhost/` | front ends: an NBD server, a file, a virtio disk for virtual machines |
//! | `metrics.rs`, `convert.rs` | what is counted, for Prometheus; one device's content into another |
//! | `scrub.rs` | all of an image read and verified; what can be read of it copied out |
//! | `keeper.rs` | threads that look after devices while they are served |
//! | `front.rs`, `pace.rs` | a device as front ends use it: batches, and answers that wait |
//! | `guard.rs` | what a panic ends |
//! | `walk.rs` | all that a device holds, read in order |
//! | `image.rs` | images by name, opened with the scheme that they were made for |
//! | `engine/` | one FTL, many clients: byte ranges become pages |
//! | `export.rs` | a device as everything above sees it, whatever its scheme |
//! | `reads.rs`, `record.rs`, `clock.rs` | bytes of reads; requests, told as they come; virtual time |
//! | `request.rs`, `snapshot.rs`, `settings.rs` | requests and answers; counts; an image's scheme |
//! | `listen.rs`, `loops.rs`, `stop.rs`, `error.rs` | sockets, loop devices, how a server is stopped, errors |
//!
//! `sim` and this crate do not know each other: a scheme cannot tell which of them runs it.
#![forbid(unsafe_code)]

mod clock;
mod convert;
mod engine;
mod error;
mod export;
mod front;
pub mod fuse;
mod guard;
mod image;
mod keeper;
mod listen;
mod loops;
mod metrics;
pub mod nbd;
mod pace;
mod reads;
mod record;
mod request;
mod scrub;
mod settings;
mod snapshot;
mod stop;
pub mod vhost;
mod walk;

pub use clock::{Latencies, Latency};
pub use convert::{convert, Converted};
pub use engine::{Engine, Opening};
pub use error::{CheckError, LiveError, PowerOffError};
pub use export::{Export, Served};
pub use guard::Ended;
pub use image::{create, describe, open};
pub use listen::{Address, AddressError, Listeners};
pub use loops::Loop;
pub use metrics::{publish, publish_from, render};
pub use reads::Reads;
pub use record::{Recorded, Recorder};
pub use request::{Answer, Extent, IoError, Op, Request};
pub use scrub::{salvage, scrub, SalvageReport, ScrubReport};
pub use settings::Settings;
pub use snapshot::{Opened, ScrubCounts, Snapshot};
pub use stop::Stop;
