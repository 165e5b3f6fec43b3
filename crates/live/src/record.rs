//! What a device sees, told as it happens.

use std::time::Instant;

use ftl::HostOp;

use crate::clock::nanos;
use crate::request::{Op, Request};

/// A request that the device took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When, in nanoseconds since the recording began. Never less than that of the request before.
    pub ns: u64,
    /// What.
    pub op: HostOp,
    /// First byte; 0 for a flush.
    pub offset: u64,
    /// Bytes; 0 for a flush, never else.
    pub bytes: u64,
}

/// Is told of requests in the order in which the device takes them. It is called within the device: it has to
/// be quick.
pub type Recorder = Box<dyn FnMut(&[Recorded]) + Send>;

/// A recording under way.
pub(crate) struct Recording {
    begun: Instant,
    to: Recorder,
    /// Of the batch under way.
    seen: Vec<Recorded>,
}

impl Recording {
    /// A recording that begins now.
    pub fn new(to: Recorder) -> Recording {
        Recording { begun: Instant::now(), to, seen: Vec::new() }
    }

    /// Notes a request that lies within the device. A write that must be durable when it is answered is a
    /// write and a flush; zeros are written or, when that is enough, forgotten.
    pub fn see(&mut self, request: &Request) {
        let op = match request.op {
            Op::Read => HostOp::Read,
            Op::Write | Op::WriteZeroes { allocate: true } => HostOp::Write,
            Op::Trim | Op::WriteZeroes { allocate: false } => HostOp::Trim,
            Op::Flush => HostOp::Flush,
        };
        let ns = nanos(Instant::now(), self.begun);
        let flush = Recorded { ns, op: HostOp::Flush, offset: 0, bytes: 0 };
        if op == HostOp::Flush {
            return self.seen.push(flush);
        }
        if request.length > 0 {
            self.seen.push(Recorded { ns, op, offset: request.offset, bytes: u64::from(request.length) });
        }
        if request.fua && op != HostOp::Read {
            self.seen.push(flush);
        }
    }

    /// Tells of what was noted; of reads alone, where the image took nothing.
    pub fn tell(&mut self, landed: bool) {
        self.seen.retain(|seen| landed || seen.op == HostOp::Read);
        if !self.seen.is_empty() {
            (self.to)(&self.seen);
            self.seen.clear();
        }
    }
}
