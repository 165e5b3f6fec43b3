//! What flash is. This crate knows no FTL: it offers pages that are read and programmed, blocks that are
//! erased, the rules that real NAND imposes on them, and models of the time they take.
//!
//! [`Nand`] is the contract between a flash translation layer and every world it runs in. Three arrays keep
//! it: [`SimNand`] in memory, [`FileNand`] in an image file with user bytes, [`CrashNand`] under the crash
//! checker.
//!
//! A page is programmed, read and erased like this:
//!
//! ```
//! use nand::timing::NoClock;
//! use nand::{Class, DeviceSpec, Done, Lpn, Nand, Oob, PageKind, Pbn, SimNand, SimOptions, Sink, Source};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = DeviceSpec::named("tpftl-512m")?;
//! let mut nand = SimNand::new(&device, NoClock::new(), SimOptions::default());
//! // The host's page 7, as the first page ever written: page 0 of the first block, which is erased.
//! let oob = Oob { kind: PageKind::Data, id: 7, version: 1, epoch: 1, lost: false };
//! let (block, ppn) = (Pbn(0), nand.geometry().page_in(Pbn(0), 0));
//! let programmed = nand.program(ppn, oob, Class::HostWrite, Source::Host, Done::READY)?;
//! // The read waits for the program. The OOB says what the page holds.
//! let (found, read) = nand.read(ppn, Class::HostRead, Sink::Host(Lpn(7)), programmed)?;
//! assert_eq!(found, oob);
//! // The erase waits for the read, and the page is free again.
//! nand.erase(block, read)?;
//! assert_eq!(nand.written(block), 0);
//! # Ok(())
//! # }
//! ```
#![deny(unsafe_code)] // but for `file/view.rs`

mod addr;
mod contract;
mod counts;
mod crash;
mod device;
mod energy;
mod file;
mod sim;
pub mod timing;

pub use addr::{Divisor, Geometry, GeometryError, Lpn, PageAddress, Pbn, Ppn, Vtpn};
pub use contract::{
    Class, DataBuffer, Done, Fault, Hint, Nand, Oob, PageKind, Result, Sink, Source, SpareBytes, SpareRefused,
};
pub use counts::OpCounts;
pub use crash::{CrashNand, Cut, Cutter, Log};
pub use device::{parse_size, DeviceError, DeviceSpec, SizeError};
pub use energy::{Energy, EnergyModel};
#[doc(hidden)]
pub use file::forge;
pub use file::{
    describe, give_name, image_parts, Description, Fetch, FileNand, ImageError, ImageFile, Medium, Mounted,
    Reader, Salvage, Salvaged, Scrub, Scrubbed,
};
pub use sim::{SimNand, SimOptions, WearSpread};
