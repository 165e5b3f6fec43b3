//! Every test of this folder in one program: the schemes are compiled for them once, and while a test waits
//! another one runs.
// Helpers of tests are tests, too.
#![allow(clippy::unwrap_used)]

mod adapt_threshold;
mod batch;
mod bench;
mod common;
mod engine;
mod model;
mod tpftl_claims;
mod wear_leveling;
mod zero_alloc;
