//! The experiments of papers: data files, and one engine that runs them.
//!
//! | part | holds |
//! | --- | --- |
//! | `data/PAPER/paper.toml` | title, source and remarks of a paper |
//! | `data/PAPER/FIGURE.toml` | one figure: device, budget, workload, schemes, what the paper reports |
//! | [`load`], [`own`] (`paper.rs`) | papers that are built in, and figures of somebody's own |
//! | [`Figure`] (`file.rs`) | a figure file, read; every mistake in one is a sentence |
//! | [`Plan`] (`plan.rs`) | from figures to experiments, each run once however many figures share it |
//! | [`Finding`] (`claim.rs`) | from quantities ([`study::Quantity`]) to the number a paper states, and how the two compare |
//! | [`live`](mod@live) | cases that real programs run on a live device |
//! | [`Shown`] (`show.rs`) | what a figure found, and all of it as JSON or CSV |
//! | [`training`] | the processor's time of LearnedFTL's training |
//!
//! The files are part of the program; `docs/papers.md` describes their form.
//!
//! ```
//! use papers::{own, Plan, Results, Scale, Shown};
//!
//! let figure = r#"
//!     title = "Random reads"
//!     source = "an example"
//!     schemes = ["page", "dftl"]
//!     options = { device = "tpftl-512m", cache = "2%", warm-up = "fill" }
//!     [[case]]
//!     name = "reads"
//!     jobs = """
//!     [reads]
//!     rw=randread
//!     number_ios=1000
//!     """
//!     [[claim]]
//!     what = "{of} over {over}"
//!     kind = "ratio"
//!     quantity = "iops"
//!     of = "dftl"
//!     over = "page"
//!     paper = 0.5
//! "#;
//! let paper = own("example.toml", figure, Scale::Quick)?;
//! let figures: Vec<_> = paper.figures.iter().collect();
//! let plan = Plan::new(&figures, &|_scheme| true, 1, "")?;
//! let mut ended = Vec::new();
//! for point in &plan.points {
//!     let run = sim::run(&point.experiment("")?, &());
//!     ended.extend(study::Ended::of(run));
//! }
//! let results = Results { plan: &plan, ended: &ended, figure: 0, bench: None };
//! let shown = Shown::new(&paper.figures[0], results);
//! assert!(shown.findings[0].ours.as_ref().is_ok_and(|&ours| ours < 1.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod claim;
mod error;
mod file;
pub mod live;
mod paper;
mod plan;
mod show;
#[cfg(test)]
mod tests;
pub mod training;

pub use claim::{Finding, Measured, Missing, Verdict};
pub use error::PaperError;
pub use file::{Bound, Case, Claim, Figure, Host, Kind, PaperFile, Pick, Place, Row, Scale, TRACES};
pub use paper::{load, names, open, own, Paper};
pub use plan::{Cell, Plan, Results, WITH_HOST};
pub use show::{csv, json, scale, summary, Shown};
