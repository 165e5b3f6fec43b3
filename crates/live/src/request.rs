//! What clients ask of a device, and what it answers.

use bytes::Bytes;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read bytes.
    Read,
    /// Write bytes.
    Write,
    /// Forget bytes. Only whole pages are forgotten.
    Trim,
    /// Make bytes zero: pages are forgotten, or with `allocate` written.
    WriteZeroes {
        /// The pages must be there afterwards.
        allocate: bool,
    },
    /// Make everything acknowledged durable.
    Flush,
}

impl Op {
    /// Its place in [`crate::Latencies`].
    pub fn kind(self) -> usize {
        match self {
            Op::Read => 0,
            Op::Write => 1,
            Op::Trim | Op::WriteZeroes { .. } => 2,
            Op::Flush => 3,
        }
    }
}

/// A request of a client.
#[derive(Clone, Debug)]
pub struct Request {
    /// What.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
    /// It must be durable when it is answered.
    pub fua: bool,
    /// What is written; else empty.
    pub data: Bytes,
}

/// How a request went in the FTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The bytes are to be had from [`crate::Reads::fill`] with this number.
    Read(usize),
    /// Done.
    Done,
    /// Done; may be said once [`crate::Export::make_durable`] has returned for this operation.
    Durable(u64),
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// Outside the device.
    #[error("outside the device")]
    Outside,
    /// The page cannot be read or written.
    #[error("the device failed")]
    Device,
    /// The host's file system is full.
    #[error("no space left on the host")]
    NoSpace,
    /// The flash of the device is full: too many of its blocks have failed.
    #[error("no space left on the flash of the device")]
    Full,
    /// The device is worn out, or was opened to be read alone.
    #[error("the device is read-only")]
    ReadOnly,
    /// The device is switched off.
    #[error("the device is switched off")]
    Off,
}

/// A range that is allocated throughout, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes.
    pub length: u64,
    /// Whether pages are mapped there.
    pub allocated: bool,
}
