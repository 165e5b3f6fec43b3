//! One host request.

use serde::{Deserialize, Serialize};

/// What a host asks of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Read `bytes` at `offset`.
    Read,
    /// Write `bytes` at `offset`.
    Write,
    /// Discard `bytes` at `offset`.
    Trim,
    /// Make every acknowledged write durable; `offset` and `bytes` are 0.
    Flush,
}

impl Kind {
    /// All kinds, in the order of [`Kind::index`].
    pub const ALL: [Kind; 4] = [Kind::Read, Kind::Write, Kind::Trim, Kind::Flush];

    /// The kinds that carry data and count as I/O operations: all but flush.
    pub const DATA: [Kind; 3] = [Kind::Read, Kind::Write, Kind::Trim];

    /// 0 read, 1 write, 2 trim, 3 flush: the place of this kind in per-kind arrays.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The word for it, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Trim => "trim",
            Kind::Flush => "flush",
        }
    }
}

/// One host request: when it arrives, what it does, and the bytes that it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request {
    /// Arrival in nanoseconds since the source began. For a closed-loop job 0, which means "as soon as a
    /// slot of the queue is free"; with `rate_iops` the earliest time at which it may be issued.
    pub arrival_ns: u64,
    /// What it does.
    pub kind: Kind,
    /// First byte, from the start of the device.
    pub offset: u64,
    /// Length in bytes; not necessarily a multiple of a flash page.
    pub bytes: u64,
}

impl Request {
    /// A flush that arrives at `arrival_ns`.
    pub const fn flush(arrival_ns: u64) -> Self {
        Request { arrival_ns, kind: Kind::Flush, offset: 0, bytes: 0 }
    }

    /// The first byte after the request.
    pub const fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}
