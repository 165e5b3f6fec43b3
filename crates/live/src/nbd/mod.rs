//! An NBD server: fixed newstyle, structured replies, `base:allocation`, several connections.
//!
//! | file | what |
//! | --- | --- |
//! | `wire.rs` | the protocol's numbers |
//! | `handshake.rs` | client and server agree |
//! | `link.rs` | a connection |
//! | `budget.rs` | what clients hold of the server's memory |
//! | `reply.rs` | replies, as bytes |
//! | `durable.rs` | replies that wait for a sync |
//! | `transmit.rs` | requests and replies, one thread a connection |
//! | `server.rs` | accepting, and stopping in good order |

mod budget;
mod durable;
mod handshake;
mod link;
mod reply;
mod server;
mod transmit;
mod wire;

#[doc(hidden)]
pub use server::attend;
pub use server::serve;
