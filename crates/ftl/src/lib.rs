//! What a flash translation layer (FTL) is: schemes that turn host requests into flash operations and mapping changes.
//!
//! Depends on `nand` only: no clock, file system, thread or source of chance is in sight here. The same code runs in
//! virtual time, on a live device, and under the crash checker.
#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod cmt;
pub mod counters;
pub mod device;
pub mod engine;
pub mod flash;
pub mod list;
pub mod log_block;
pub mod mapping;
pub mod records;
pub mod recover;
mod scheme;
pub mod schemes;
pub mod space;
pub mod table;

pub use counters::{Cause, Counters, Stat};
pub use device::{Device, HostError, HostOp, Outcome, Seen};
pub use flash::Flash;
pub use scheme::{
    Breach, CachedPage, Config, ConfigError, Info, Memory, OpenError, Parameter, Scheme, VictimPolicy,
};
