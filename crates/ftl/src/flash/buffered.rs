//! The door for schemes with a data buffer, and for those that guess where a page is.

use super::{Content, Flash};
use crate::counters::Cause;
use crate::space::Stream;
use nand::{Class, Done, Fault, Lpn, Nand, Oob, PageKind, Ppn, Result, Sink, Source, SpareRefused};

/// What reading a guessed page brought.
#[derive(Clone, Copy, Debug)]
pub enum Guessed {
    /// The page asked for, which has been delivered.
    Right(Oob, Done),
    /// Another page. [`Flash::spare`] lends its spare bytes.
    Wrong(Done),
    /// The page asked for, whose content is lost.
    Lost(Fault),
}

impl<N: Nand> Flash<N> {
    /// A translation page was replaced by others whose programs were submitted: it is not needed, and not
    /// read, any more.
    pub(crate) fn supersede(&mut self, ppn: Ppn) {
        self.invalidate(ppn);
        self.give_back(ppn);
    }

    /// The same, of a page that [`Space`](crate::space::Space) does not count as valid.
    pub(crate) fn give_back(&mut self, ppn: Ppn) {
        self.nand.superseded(ppn);
    }

    /// Asks the array for a data buffer of so many slots, and for spare bytes in the OOB of every data page.
    /// After a restart the buffer is there, and holds what it held.
    pub fn reserve(&mut self, slots: u32, spare: u32) -> Result<(), SpareRefused> {
        self.nand.reserve_spare(spare)?;
        if self.known.is_none() {
            self.nand.reserve_slots(slots);
        }
        Ok(())
    }

    /// Takes the host's page under way into a slot of the data buffer.
    pub fn store(&mut self, slot: u32, lpn: Lpn, version: u64) {
        self.nand.store(slot, Oob { kind: PageKind::Data, id: lpn.0, version, epoch: 0, lost: false });
    }

    /// Delivers the page of `lpn` from a slot of the data buffer.
    pub fn deliver(&mut self, slot: u32, lpn: Lpn) -> Oob {
        let oob = self.nand.deliver(slot);
        assert!(oob.id == lpn.0, "slot {slot} of the data buffer holds LPN {}, not LPN {}", oob.id, lpn.0);
        oob
    }

    /// The spare bytes of the data page read or scanned last.
    #[inline]
    pub fn spare(&self) -> &[u8] {
        self.nand.spare()
    }

    /// Reads the page at which that of `lpn` is thought to be. When it is, that is the host's read; when not,
    /// one read was made because a prediction was wrong. A page that cannot be read is known by its OOB,
    /// at the price of another read.
    pub fn read_guess(&mut self, ppn: Ppn, lpn: Lpn, after: Done) -> Result<Guessed> {
        self.path_reads += 1;
        let read = self.nand.read(ppn, Class::HostRead, Sink::Host(lpn), after);
        let is_it = |oob: &Oob| oob.kind == PageKind::Data && oob.id == lpn.0;
        let mut count = |cause: Cause| self.counters.reads[cause as usize][PageKind::Data as usize] += 1;
        match read {
            Ok((oob, done)) if is_it(&oob) => {
                count(Cause::Host);
                Ok(Guessed::Right(oob, done))
            }
            Ok((_, done)) => {
                count(Cause::Misprediction);
                Ok(Guessed::Wrong(done))
            }
            Err(Fault::Uncorrectable { done, .. }) => {
                count(Cause::Misprediction);
                self.counters.uncorrectable += 1;
                let (oob, done) = self.look(ppn, Cause::Misprediction, done)?;
                if oob.as_ref().is_some_and(is_it) {
                    return Ok(Guessed::Lost(Fault::Uncorrectable { ppn, done }));
                }
                Ok(Guessed::Wrong(done))
            }
            Err(fault) => Err(fault),
        }
    }

    /// Reads the OOB of a data page for what its spare bytes say of its neighbours.
    pub fn look(&mut self, ppn: Ppn, cause: Cause, after: Done) -> Result<(Option<Oob>, Done)> {
        self.count_read(PageKind::Data, cause);
        self.pause_recovery(cause);
        self.nand.scan(ppn, after)
    }

    /// Reads a valid data page into a slot of the data buffer, to move it. As `Flash::read_to_move`.
    pub(crate) fn read_to_slot(
        &mut self,
        ppn: Ppn,
        slot: u32,
        cause: Cause,
        after: Done,
    ) -> Result<(Oob, Done)> {
        self.read_to_move_into(ppn, Sink::Buffer(slot), cause, after)
    }

    /// Programs a data page with spare bytes at the next page of `stream`, once, and marks it valid. The
    /// inner error is the completion of a program that failed: what the spare bytes say may not be true
    /// of the next page.
    #[allow(clippy::too_many_arguments)]
    pub fn program_with_spare(
        &mut self,
        stream: Stream,
        lpn: Lpn,
        content: Content,
        from: Source<'_>,
        spare: &[u8],
        cause: Cause,
        after: Done,
    ) -> Result<Result<(Ppn, Done), Done>> {
        self.nand.attach(spare);
        self.attempt(stream, PageKind::Data, lpn.0, content, from, cause, after)
    }
}
