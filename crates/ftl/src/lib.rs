//! What a flash translation layer (FTL) is: schemes that turn host requests into flash operations and mapping changes.
//!
//! Depends on `nand` only: no clock, file system, thread or source of chance is in sight here. The same code runs in
//! virtual time, on a live device, and under the crash checker.
#![forbid(unsafe_code)]

mod audit;
pub mod checkpoint;
pub mod cmt;
pub mod counters;
pub mod device;
pub mod flash;
pub mod gc;
pub mod groups;
pub mod linear;
pub mod list;
pub mod log_block;
pub mod model;
pub mod page_level;
pub mod pool;
pub mod records;
pub mod recover;
mod room;
mod scheme;
pub mod schemes;
pub mod space;
pub mod table;
mod victim;

pub use cmt::census::CachedPage;
pub use counters::{Cause, Counters};
pub use device::{Device, HostError, HostOp, Outcome, Seen};
pub use flash::Flash;
pub use scheme::{Config, ConfigError, Info, Memory, OpenError, Parameter, Scheme, VictimPolicy};
