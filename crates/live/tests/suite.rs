//! Every test of this folder in one program: the schemes are compiled for them once, and while a test waits
//! another one runs.

mod common;
mod engine;
mod failing;
mod formats;
mod hostile;
mod lost_mapping;
mod nbd;
mod vhost;
mod watch;
