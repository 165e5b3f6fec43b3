//! Shows that a scheme loses nothing: a reference map beside it, power cuts at every moment, random requests.
//!
//! - [`sweep()`] cuts the power of a running device thousands of times and recovers from each image. What a
//!   cut is and what is promised after one: `docs/crash-model.md`.
//! - [`conformance()`] drives a scheme without a clock through everything a host and flash can do to it.
//! - [`image_sweep()`] cuts the power of the host under an image file, which loses what was not synced.
//! - [`damage()`] flips bits and loses sectors of image files, and reads what is left.
//! - [`commands`] gives the digest of the flash commands of a fixed workload.
//!
//! Everything is decided by a seed; a [`Failure`] names the command that repeats it.
#![forbid(unsafe_code)]

mod conformance;
mod damage;
mod dice;
mod digest;
mod failure;
mod host;
mod image;
mod lossy;
mod oracle;
mod shape;
mod swarm;
mod sweep;
mod wear;
mod world;

pub use conformance::{conformance, conformance_of, conformance_with, ConformanceReport};
pub use damage::{damage, DamageOptions, DamageReport, Outcome};
pub use dice::{fresh_seed, Dice};
pub use digest::{commands, Recorder};
pub use failure::{Failure, Test};
pub use image::{image_commands, image_sweep, image_sweep_on, ImageReport};
pub use lossy::{Loss, LossyMedium};
pub use oracle::{Forbidden, History, State};
pub use sweep::{sweep, sweep_of, SweepOptions, SweepReport};
pub use wear::{wear_out, WearReport};
pub use world::{Cuttable, World};
