//! A scheme and the flash it owns: what a host, real or simulated, talks to.

use crate::breach::Breach;
use crate::scheme::{CachedPage, Coming};
use crate::{Config, Counters, Flash, Memory, OpenError, Scheme};
use nand::{Done, Fault, Lpn, Nand, Oob, Ppn};

/// What a host asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostOp {
    /// Deliver the newest content of the pages.
    Read,
    /// Give the pages new content.
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
    /// Pages of the request that could not be read or written.
    pub failed: u32,
}

/// A request that cannot be carried out at all.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum HostError {
    /// The request reaches past the last page that the device exports.
    #[error("request for pages {first}..{end} is outside the device, which has {exported} pages")]
    Outside {
        /// First page asked for.
        first: u32,
        /// One past the last page asked for.
        end: u64,
        /// Pages the device exports.
        exported: u32,
    },
    /// The device could not carry it out to the end: [`Fault::NoSpace`], after which other requests may
    /// succeed, or [`Fault::Medium`], after which none does ([`Fault::is_fatal`]).
    #[error("{0}")]
    Fault(Fault),
}

/// A scheme with the flash it owns, behind a host interface: splits requests into pages, bounds them, and
/// counts them.
#[derive(Clone, Debug)]
pub struct Device<S, N> {
    scheme: S,
    flash: Flash<N>,
    config: Config,
}

/// Recoveries in a row after which a device that meets one translation page after the other that it cannot
/// read is given up. A recovery of LFTL with little memory writes a page up to ten times and reads it each
/// time: where one page in ten is lost, more than 64 in a row did not come to their end.
const MOST_RECOVERIES: u32 = 256;

impl<S: Scheme, N: Nand> Device<S, N> {
    /// Opens scheme `S` on an array, as [`Scheme::open`] says. The counters hold what that took.
    ///
    /// # Errors
    /// The configuration does not fit, or recovery failed.
    pub fn open(nand: N, config: &Config) -> Result<Device<S, N>, OpenError> {
        let mut flash = Flash::new(nand);
        let scheme = S::open(&mut flash, config)?;
        Ok(Device { scheme, flash, config: config.clone() })
    }

    /// Pages the host sees.
    pub fn exported_pages(&self) -> u32 {
        self.config.exported_pages
    }

    /// The scheme, to look at.
    pub fn scheme(&self) -> &S {
        &self.scheme
    }

    /// The scheme, for tests that break it.
    #[cfg(test)]
    pub(crate) fn scheme_mut(&mut self) -> &mut S {
        &mut self.scheme
    }

    /// The scheme and its flash, for tests that take a step by hand.
    #[cfg(test)]
    pub(crate) fn parts_mut(&mut self) -> (&mut S, &mut Flash<N>) {
        (&mut self.scheme, &mut self.flash)
    }

    /// Where the scheme's flash operations are counted and its space is managed, to look at.
    pub fn flash(&self) -> &Flash<N> {
        &self.flash
    }

    /// What happened since the device was opened, or since [`Device::take_counters`].
    #[inline]
    pub fn counters(&self) -> &Counters {
        &self.flash.counters
    }

    /// The counters; from now on they count from zero.
    pub fn take_counters(&mut self) -> Counters {
        std::mem::take(&mut self.flash.counters)
    }

    /// The flash array below the FTL, for what it counts and for its clock.
    #[inline]
    pub fn nand(&self) -> &N {
        self.flash.nand()
    }

    /// The array, for the world that drives its clock.
    #[inline]
    pub fn nand_mut(&mut self) -> &mut N {
        self.flash.nand_mut()
    }

    /// Gives the array back as it is: what the scheme holds in memory is gone, as after a power cut.
    pub fn into_nand(self) -> N {
        self.flash.into_nand()
    }

    /// Replaces the array by another view of the same one (another clock).
    pub fn map_nand<M: Nand>(self, map: impl FnOnce(N) -> M) -> Device<S, M> {
        let Device { scheme, flash, config } = self;
        Device { scheme, flash: flash.map_nand(map), config }
    }

    /// Whether the device has reached the end of its life, and is read-only.
    pub fn is_worn(&self) -> bool {
        self.flash.is_worn()
    }

    /// Superblocks that can be opened, and all.
    pub fn free_superblocks(&self) -> (u32, u32) {
        (self.flash.free_superblocks(), self.nand().geometry().superblocks())
    }

    /// Carries out a request for `pages` pages from `first` on, which waits for `at`. Its pages may complete
    /// out of order; the request is done when the last one is. `seen` hears of every page of a read or
    /// write.
    ///
    /// A page that fails is counted in the outcome and concerns no other page.
    ///
    /// # Errors
    /// The request lies outside the device, or the device could not carry it out to the end.
    #[inline]
    pub fn request(
        &mut self,
        op: HostOp,
        first: Lpn,
        pages: u32,
        at: Done,
        seen: &mut impl FnMut(Lpn, Seen),
    ) -> Result<Outcome, HostError> {
        let end = u64::from(first.0) + u64::from(pages);
        let exported = self.config.exported_pages;
        if end > u64::from(exported) {
            return Err(HostError::Outside { first: first.0, end, exported });
        }
        if self.flash.is_worn() && matches!(op, HostOp::Write | HostOp::Trim) {
            return Err(HostError::Fault(self.flash.worn_out()));
        }
        let mut outcome = Outcome { done: at, failed: 0 };
        match op {
            HostOp::Read | HostOp::Write => {
                for lpn in first.0..first.0 + pages {
                    let lpn = Lpn(lpn);
                    let done = self.page(op, lpn, first.0 + pages - lpn.0, at, &mut outcome, seen)?;
                    outcome.done = if pages == 1 { done } else { self.flash.join(outcome.done, done) };
                }
            }
            HostOp::Trim => {
                self.flash.counters.host_trims += u64::from(pages);
                let trimmed = self.mending(|scheme, flash| scheme.trim(flash, first, pages, at));
                outcome.done = settled(trimmed, &mut outcome)?;
            }
            HostOp::Flush => {
                let flushed = self.mending(|scheme, flash| scheme.flush(flash, at));
                outcome.done = settled(flushed, &mut outcome)?;
            }
        }
        Ok(outcome)
    }

    #[inline]
    fn page(
        &mut self,
        op: HostOp,
        lpn: Lpn,
        rest: u32,
        at: Done,
        outcome: &mut Outcome,
        seen: &mut impl FnMut(Lpn, Seen),
    ) -> Result<Done, HostError> {
        let result = if op == HostOp::Read {
            self.flash.begin_host_read();
            let read = self.mending(|scheme, flash| scheme.read(flash, lpn, rest, at));
            self.flash.end_host_read();
            read.map(|(oob, done)| (Seen::Read(oob), done))
        } else {
            self.flash.counters.host_writes += 1;
            let written = self.mending(|scheme, flash| scheme.write(flash, lpn, rest, at));
            written.map(|done| (Seen::Written(self.flash.version()), done))
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

    /// Carries out an operation. When it meets a translation page that cannot be read, the device recovers,
    /// as after a power cut, and the operation is carried out again.
    #[inline(always)]
    fn mending<T>(
        &mut self,
        mut act: impl FnMut(&mut S, &mut Flash<N>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut recoveries = 0;
        loop {
            match act(&mut self.scheme, &mut self.flash) {
                Err(fault) if self.mends(fault, recoveries)? => recoveries += 1,
                result => return result,
            }
        }
    }

    /// Recovers from a fault after so many recoveries, if that helps.
    #[cold]
    fn mends(&mut self, fault: Fault, recoveries: u32) -> Result<bool, Fault> {
        let is_lost = matches!(fault, Fault::Uncorrectable { ppn, .. } if self.flash.is_translation(ppn));
        if !is_lost || self.flash.is_worn() || recoveries == MOST_RECOVERIES {
            return Ok(false);
        }
        self.recover()?;
        Ok(true)
    }

    /// Builds the mapping anew from what is on flash, where translation pages that cannot be read are made
    /// from OOB ([`crate::Counters::rebuilt`]), and writes it to flash: the next recovery does not look at
    /// pages from before the checkpoint.
    #[cold]
    fn recover(&mut self) -> Result<(), Fault> {
        self.scheme.save(&mut self.flash)?;
        for _ in 0..MOST_RECOVERIES {
            self.flash.restart();
            let mut scheme = match S::open(&mut self.flash, &self.config) {
                Ok(scheme) => scheme,
                // A page that has just been written cannot be read, either.
                Err(OpenError::Fault(Fault::Uncorrectable { .. })) => continue,
                Err(_) => return Err(Fault::Medium),
            };
            match scheme.power_off(&mut self.flash) {
                Err(Fault::Uncorrectable { .. }) => continue,
                Ok(_) | Err(Fault::WornOut { .. }) => {}
                Err(_) => return Err(Fault::Medium),
            }
            self.flash.known = None;
            let before = std::mem::replace(&mut self.scheme, scheme);
            self.scheme.inherit(before);
            return Ok(());
        }
        Err(Fault::Medium)
    }

    /// Offers a moment without requests, as [`Scheme::idle`].
    ///
    /// # Errors
    /// What the work met. Unless it [is fatal](Fault::is_fatal), it concerns no request and the device goes
    /// on.
    pub fn idle(&mut self) -> Result<Option<Done>, Fault> {
        if self.flash.is_worn() || self.config.foreground_only {
            return Ok(None);
        }
        self.mending(|scheme, flash| scheme.idle(flash))
    }

    /// Rewrites some of what has lain longest, as [`Scheme::rewrite`].
    ///
    /// # Errors
    /// As [`Device::idle`].
    pub fn rewrite(&mut self, due: u32) -> Result<Option<Done>, Fault> {
        if self.flash.is_worn() {
            return Ok(None);
        }
        self.mending(|scheme, flash| scheme.rewrite(flash, due))
    }

    /// Prepares for an orderly power-off, as [`Scheme::power_off`].
    ///
    /// # Errors
    /// What kept it from that: the next [`Device::open`] then recovers as after a power cut.
    pub fn power_off(&mut self) -> Result<Done, Fault> {
        match self.mending(|scheme, flash| scheme.power_off(flash)) {
            // There is no room for what would make the next start short: it searches instead.
            Err(Fault::WornOut { .. }) => self.scheme.flush(&mut self.flash, Done::READY),
            done => done,
        }
    }

    /// Tells the memory hierarchy of this machine what will be asked for, as [`Scheme::expect`]. `lpn` may
    /// lie outside.
    #[inline]
    pub fn expect(&self, lpn: u64, coming: Coming) {
        if lpn < u64::from(self.config.exported_pages) {
            self.scheme.expect(&self.flash, Lpn(lpn as u32), coming);
        }
    }

    /// Checks the scheme's own structures against each other and the array.
    ///
    /// # Errors
    /// The first breach.
    pub fn check(&self) -> Result<(), Breach> {
        self.scheme.check(&self.flash)
    }

    /// Calls `each` for every page with content on flash, as [`Scheme::mapping`].
    pub fn mapping(&self, each: &mut dyn FnMut(Lpn, Ppn)) {
        self.scheme.mapping(&self.flash, each);
    }

    /// As [`Device::mapping`], for `pages` pages from `first` on.
    pub fn mapped_in(&self, first: Lpn, pages: u32, each: &mut dyn FnMut(Lpn, Ppn)) {
        self.scheme.mapped_in(&self.flash, first, pages, each);
    }

    /// Calls `each` with LPN and version for every page that the write buffer alone holds, as
    /// [`Scheme::buffered`].
    pub fn buffered(&self, each: &mut dyn FnMut(Lpn, u64)) {
        self.scheme.buffered(each);
    }

    /// Calls `each` for every translation page of which mappings are cached, as [`Scheme::cached`].
    pub fn cached(&self, each: &mut dyn FnMut(CachedPage)) {
        self.scheme.cached(each);
    }

    /// Mapping memory in use.
    pub fn memory(&self) -> Memory {
        self.scheme.memory()
    }
}

/// The completion of an operation that may have failed. The failure of a page or block is counted; nothing
/// else is left of it.
fn settled(result: Result<Done, Fault>, outcome: &mut Outcome) -> Result<Done, HostError> {
    match result {
        Ok(done) => Ok(done),
        Err(
            Fault::Uncorrectable { done, .. }
            | Fault::ProgramFailed { done, .. }
            | Fault::EraseFailed { done, .. },
        ) => {
            outcome.failed += 1;
            Ok(done)
        }
        Err(fault @ (Fault::NoSpace { .. } | Fault::WornOut { .. } | Fault::Medium)) => {
            Err(HostError::Fault(fault))
        }
    }
}
