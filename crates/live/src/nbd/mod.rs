//! An NBD server: fixed newstyle, structured replies, `base:allocation`, several connections.
//!
//! | file | what |
//! | --- | --- |
//! | `wire.rs` | the protocol's numbers |
//! | `handshake.rs` | client and server agree |
//! | `transmit.rs` | requests and replies, one thread a connection |
//! | `durable.rs` | replies that wait for a sync |
//! | `server.rs` | accepting, and stopping in good order |

mod durable;
mod handshake;
mod server;
mod transmit;
mod wire;

pub(crate) use durable::nanos;
pub use handshake::{negotiate, Agreed, Offer};
pub use server::{serve, Ended, Served};
pub(crate) use transmit::transmit;
pub use transmit::Link;
