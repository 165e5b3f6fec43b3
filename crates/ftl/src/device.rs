//! Host requests become pages.

use crate::{Flash, Scheme};
use nand::{Done, Fault, Lpn, Nand, Oob};

/// What a host asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostOp {
    /// Read pages.
    Read,
    /// Write pages.
    Write,
    /// Forget pages (discard, deallocate).
    Trim,
    /// Make everything acknowledged durable.
    Flush,
}

/// What happened to one page of a request, told while the request is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Read: what was delivered; `None` for a page never written, or trimmed.
    Read(Option<Oob>),
    /// Written, with this version.
    Written(u64),
    /// The page could not be read or written.
    Failed,
}

/// How a request went.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// When its last page is done.
    pub done: Done,
    /// Pages that failed.
    pub failed: u32,
}

/// A request that cannot be carried out at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Past the end.
    #[error("request for pages {first}..{end} is outside the device, which has {exported} pages")]
    Outside {
        /// First page asked for.
        first: u32,
        /// One past the last page asked for.
        end: u64,
        /// Pages the device exports.
        exported: u32,
    },
    /// The medium is out of order.
    #[error("the medium is out of order")]
    Medium,
}

/// A scheme behind a host interface: splits requests into pages, bounds them, and counts them.
#[derive(Clone, Debug)]
pub struct Device<S> {
    scheme: S,
    exported_pages: u32,
}

impl<S: Scheme> Device<S> {
    /// Puts `scheme` behind an interface of `exported_pages` pages.
    pub fn new(scheme: S, exported_pages: u32) -> Device<S> {
        Device { scheme, exported_pages }
    }

    /// The scheme.
    pub fn scheme(&self) -> &S {
        &self.scheme
    }

    /// The scheme, to be driven directly.
    pub fn scheme_mut(&mut self) -> &mut S {
        &mut self.scheme
    }

    /// Pages the host sees.
    pub fn exported_pages(&self) -> u32 {
        self.exported_pages
    }

    /// Carries out a request for `pages` pages from `first` on, which waits for `at`. Its pages may complete out of
    /// order; the request is done when the last one is. `seen` hears of every page of a read or write.
    ///
    /// A page that fails is counted in the outcome and concerns no other page.
    #[inline]
    pub fn request<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        op: HostOp,
        first: Lpn,
        pages: u32,
        at: Done,
        seen: &mut impl FnMut(Lpn, Seen),
    ) -> Result<Outcome, HostError> {
        let end = u64::from(first.0) + u64::from(pages);
        if end > u64::from(self.exported_pages) {
            return Err(HostError::Outside { first: first.0, end, exported: self.exported_pages });
        }
        let mut outcome = Outcome { done: at, failed: 0 };
        match op {
            HostOp::Read | HostOp::Write => {
                for lpn in first.0..first.0 + pages {
                    let lpn = Lpn(lpn);
                    let done = self.page(flash, op, lpn, first.0 + pages - lpn.0, at, &mut outcome, seen)?;
                    outcome.done = if pages == 1 { done } else { flash.join(outcome.done, done) };
                }
            }
            HostOp::Trim => {
                flash.counters.host_trims += u64::from(pages);
                let trimmed = self.scheme.trim(flash, first, pages, at);
                outcome.done = settled(trimmed, &mut outcome)?;
            }
            HostOp::Flush => {
                let flushed = self.scheme.flush(flash, at);
                outcome.done = settled(flushed, &mut outcome)?;
            }
        }
        Ok(outcome)
    }

    #[inline]
    #[allow(clippy::too_many_arguments)]
    fn page<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        op: HostOp,
        lpn: Lpn,
        rest: u32,
        at: Done,
        outcome: &mut Outcome,
        seen: &mut impl FnMut(Lpn, Seen),
    ) -> Result<Done, HostError> {
        let result = if op == HostOp::Read {
            flash.begin_host_read();
            let read = self.scheme.read(flash, lpn, rest, at);
            flash.end_host_read();
            read.map(|(oob, done)| (Seen::Read(oob), done))
        } else {
            flash.counters.host_writes += 1;
            self.scheme.write(flash, lpn, rest, at).map(|done| (Seen::Written(flash.version()), done))
        };
        match result {
            Ok((what, done)) => {
                seen(lpn, what);
                Ok(done)
            }
            Err(fault) => {
                seen(lpn, Seen::Failed);
                settled(Err(fault), outcome)
            }
        }
    }
}

/// The completion of an operation that may have failed, in which case the failure is counted.
fn settled(result: Result<Done, Fault>, outcome: &mut Outcome) -> Result<Done, HostError> {
    match result {
        Ok(done) => Ok(done),
        Err(Fault::Medium) => Err(HostError::Medium),
        Err(
            Fault::Uncorrectable { done, .. }
            | Fault::ProgramFailed { done, .. }
            | Fault::EraseFailed { done, .. },
        ) => {
            outcome.failed += 1;
            Ok(done)
        }
    }
}
