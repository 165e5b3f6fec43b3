//! Studies: many runs from one file, each of them a point with a result of its own.
//!
//! | part | holds |
//! | --- | --- |
//! | [`Study`] (`file.rs`) | a study file, read: its points, in order |
//! | [`Point`] (`point.rs`) | one run: a scheme, options, a seed, and a name that depends on these alone |
//! | [`Ended`] (`ended.rs`) | how a point ended: with a run, or with a reason |
//! | [`Folder`] (`folder.rs`) | the results folder: a file for each point that has ended |
//! | [`run`] (`run.rs`) | runs the points that have no result yet, on the cores |
//! | [`Table`] (`table.rs`) | a row for each point and phase, as CSV and Parquet |
//! | [`summary`] (`summary.rs`) | means over the seeds with confidence intervals |
//! | [`Quantity`] (`quantity.rs`) | what can be read off a run |
//!
//! A point depends on nothing but its set-up. So a study that was stopped goes on where it was, points can
//! run on any machine, and results of several folders are merged by copying.
//!
//! ```
//! let text = r#"
//!     seeds = 2
//!     [options]
//!     device = "tpftl-512m"
//!     synth = "financial1"
//!     requests = 1000
//!     warm-up = "none"
//!     [cross]
//!     schemes = ["dftl", "tpftl"]
//!     cache = ["1%", "4%"]
//! "#;
//! let study = study::Study::parse("caches.toml", text)?;
//! assert_eq!(study.points.len(), 8); // two schemes, two sizes, two seeds
//! # Ok::<(), study::StudyError>(())
//! ```
#![forbid(unsafe_code)]

mod ended;
mod error;
mod file;
mod folder;
mod point;
pub mod quantity;
mod run;
pub mod summary;
mod table;
#[cfg(test)]
mod tests;

pub use ended::{Ended, Stored};
pub use error::StudyError;
pub use file::Study;
pub use folder::Folder;
pub use point::Point;
pub use quantity::{Quantity, UnknownQuantity};
pub use run::run;
pub use table::Table;
