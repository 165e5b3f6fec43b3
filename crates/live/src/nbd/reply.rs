//! Replies, as bytes.

use std::sync::Arc;
use std::time::Instant;

use super::budget::Share;
use super::link::Link;
use super::wire::{self, chunk, errno};
use crate::pace::{Delayed, Held, Pacer, To};
use crate::request::IoError;

/// A reply that is still to be given.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// The device model's, when the reply waits for it.
    pub ticket: Option<u64>,
    pub cookie: u64,
    pub kind: usize,
    pub structured: bool,
    pub since: Instant,
}

impl Pending {
    /// Sends `bytes`, which are the reply and belong to `share`, when the device model is done; gives them
    /// back when it need not be waited for.
    pub fn delay(
        &self,
        pacer: Option<&Pacer>,
        link: &Arc<Link>,
        bytes: Vec<u8>,
        share: &Option<Arc<Share>>,
    ) -> Option<Vec<u8>> {
        let Some((ticket, pacer)) = self.ticket.zip(pacer) else { return Some(bytes) };
        link.delay();
        let held = share.clone().map(|share| share as Held);
        let to = To::Outlet(link.clone(), bytes, held);
        pacer.delay(ticket, Delayed { to, kind: self.kind, since: self.since });
        None
    }
}

/// The head of the last chunk of a structured reply; `length` bytes follow.
pub fn put_chunk(out: &mut Vec<u8>, cookie: u64, kind: u16, length: usize) {
    out.extend_from_slice(&wire::STRUCTURED_REPLY.to_be_bytes());
    out.extend_from_slice(&chunk::DONE.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&(length as u32).to_be_bytes());
}

fn put_simple(out: &mut Vec<u8>, cookie: u64, error: u32) {
    out.extend_from_slice(&wire::SIMPLE_REPLY.to_be_bytes());
    out.extend_from_slice(&error.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
}

/// A reply without payload.
pub fn put_outcome(out: &mut Vec<u8>, pending: &Pending, outcome: Result<(), IoError>) {
    match outcome {
        Ok(()) => put_simple(out, pending.cookie, 0),
        Err(IoError::Outside) => put_error(out, pending, errno::EINVAL),
        Err(IoError::Device) => put_error(out, pending, errno::EIO),
        Err(IoError::ReadOnly) => put_error(out, pending, errno::EPERM),
        Err(IoError::NoSpace | IoError::Full) => put_error(out, pending, errno::ENOSPC),
        Err(IoError::Off) => put_error(out, pending, errno::ESHUTDOWN),
    }
}

pub fn put_error(out: &mut Vec<u8>, pending: &Pending, error: u32) {
    if pending.structured {
        put_chunk(out, pending.cookie, chunk::ERROR, 6);
        out.extend_from_slice(&error.to_be_bytes());
        out.extend_from_slice(&0u16.to_be_bytes());
    } else {
        put_simple(out, pending.cookie, error);
    }
}
