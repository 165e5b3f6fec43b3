//! What a flash translation layer (FTL) is: schemes that turn host requests into flash operations and mapping
//! changes.
//!
//! Depends on `nand` only: no clock, file system, thread or source of chance is in sight here. The same code
//! runs in virtual time, on a live device, and under the crash checker.
//!
//! ```
//! use ftl::schemes::dftl::Dftl;
//! use ftl::{Config, Device, HostOp, Seen};
//! use nand::timing::NoClock;
//! use nand::{Done, Lpn, SimNand, SimOptions};
//!
//! let preset = nand::DeviceSpec::named("tpftl-512m")?;
//! let array = SimNand::new(&preset, NoClock::new(), SimOptions::default());
//! let config = Config::new(preset.exported_pages, 64 << 10);
//! let mut device = Device::<Dftl, _>::open(array, &config)?;
//! device.request(HostOp::Write, Lpn(7), 2, Done::READY, &mut |_, _| {})?;
//! device.request(HostOp::Read, Lpn(8), 1, Done::READY, &mut |lpn, seen| {
//!     assert!(matches!(seen, Seen::Read(Some(oob)) if oob.id == lpn.0));
//! })?;
//! assert_eq!(device.counters().host_reads, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod bits;
mod breach;
mod checkpoint;
mod cmt;
pub mod counters;
pub mod device;
pub mod engine;
pub mod flash;
mod half;
mod list;
pub mod log_block;
pub mod mapping;
mod prediction;
pub mod records;
pub mod recover;
mod scheme;
pub mod schemes;
pub mod space;
pub mod table;

pub use breach::Breach;
pub use counters::{Cause, Counters, Stat};
pub use device::{Device, HostError, HostOp, Outcome, Seen};
pub use flash::Flash;
pub use scheme::{
    Alias, CachedPage, Coming, Config, ConfigError, Info, Memory, OpenError, Parameter, Scheme, VictimPolicy,
};
