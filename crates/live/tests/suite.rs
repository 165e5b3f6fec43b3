//! Every test of this folder in one program: the schemes are compiled for them once, and while a test waits
//! another one runs. `hostile.rs` alone has a process of its own.
// Helpers of tests are tests, too.
#![allow(clippy::unwrap_used)]

mod common;
mod engine;
mod failing;
mod formats;
mod lost_mapping;
mod nbd;
mod vhost;
mod watch;
