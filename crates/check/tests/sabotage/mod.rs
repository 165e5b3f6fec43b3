//! Arrays that break one promise each: put between a sound scheme and the crash array, they make it a faulty
//! one.

use check::{Cuttable, World};
use nand::{
    Class, CrashNand, DataBuffer, Done, Fault, Geometry, Nand, Oob, OpCounts, PageKind, Pbn, Ppn, Sink,
    Source, SpareBytes, SpareRefused,
};

/// Erases wait for nothing: they overtake the copies out of the block.
pub const ERASE_AT_ONCE: u8 = 1;
/// A trim record is programmed as zeros.
pub const TRIM_DROPPED: u8 = 2;
/// Every other host write carries the version of the one before.
pub const VERSION_STUCK: u8 = 3;
/// Translation pages do not wait for the data that they map to.
pub const MAPPING_FIRST: u8 = 4;
/// All programs so far count as over at once: a flush waits for nothing.
pub const SETTLED_AT_ONCE: u8 = 5;
/// Host writes are acknowledged before they are programmed.
pub const WRITE_AT_ONCE: u8 = 6;
/// Spare bytes are programmed as zeros.
pub const SPARE_LOST: u8 = 7;

/// The first bytes of a page of trim records.
const JOURNAL: [u8; 4] = *b"FTTJ";

/// An array with the defect `HOW`.
pub struct Sabotage<const HOW: u8>(CrashNand);

impl<const HOW: u8> Nand for Sabotage<HOW> {
    fn geometry(&self) -> &Geometry {
        self.0.geometry()
    }

    fn is_bad(&self, block: Pbn) -> bool {
        self.0.is_bad(block)
    }

    fn read(&mut self, ppn: Ppn, class: Class, to: Sink, after: Done) -> Result<(Oob, Done), Fault> {
        self.0.read(ppn, class, to, after)
    }

    fn buffer(&self) -> &[u8] {
        self.0.buffer()
    }

    fn written(&self, block: Pbn) -> u32 {
        self.0.written(block)
    }

    fn scan(&mut self, ppn: Ppn, after: Done) -> Result<(Option<Oob>, Done), Fault> {
        self.0.scan(ppn, after)
    }

    fn program(
        &mut self,
        ppn: Ppn,
        oob: Oob,
        class: Class,
        from: Source<'_>,
        after: Done,
    ) -> Result<Done, Fault> {
        let mut oob = oob;
        let is_host = matches!(from, Source::Host);
        if HOW == VERSION_STUCK && is_host {
            oob.version &= !1;
        }
        let from = match from {
            Source::Metadata(bytes) if HOW == TRIM_DROPPED && bytes.starts_with(&JOURNAL) => {
                Source::Metadata(&[])
            }
            from => from,
        };
        let at_once = HOW == MAPPING_FIRST && oob.kind == PageKind::Translation;
        let done = self.0.program(ppn, oob, class, from, if at_once { Done::READY } else { after })?;
        Ok(if HOW == WRITE_AT_ONCE && is_host { after } else { done })
    }

    fn erase(&mut self, block: Pbn, after: Done) -> Result<Done, Fault> {
        self.0.erase(block, if HOW == ERASE_AT_ONCE { Done::READY } else { after })
    }

    fn retire(&mut self, block: Pbn) {
        self.0.retire(block);
    }

    fn join(&mut self, a: Done, b: Done) -> Done {
        self.0.join(a, b)
    }

    fn settle(&mut self) -> Done {
        if HOW == SETTLED_AT_ONCE {
            return Done::READY;
        }
        self.0.settle()
    }

    fn compute(&mut self, ns: u64, after: Done) -> Done {
        self.0.compute(ns, after)
    }

    fn inspect(&self, ppn: Ppn, content: &mut Vec<u8>) -> Option<Oob> {
        self.0.inspect(ppn, content)
    }
}

impl<const HOW: u8> DataBuffer for Sabotage<HOW> {
    fn reserve_slots(&mut self, slots: u32) {
        self.0.reserve_slots(slots);
    }

    fn store(&mut self, slot: u32, oob: Oob) {
        self.0.store(slot, oob);
    }

    fn deliver(&mut self, slot: u32) -> Oob {
        self.0.deliver(slot)
    }
}

impl<const HOW: u8> SpareBytes for Sabotage<HOW> {
    fn reserve_spare(&mut self, bytes: u32) -> Result<(), SpareRefused> {
        self.0.reserve_spare(bytes)
    }

    fn attach(&mut self, spare: &[u8]) {
        if HOW == SPARE_LOST {
            return;
        }
        self.0.attach(spare);
    }

    fn spare(&self) -> &[u8] {
        self.0.spare()
    }

    fn inspect_spare(&self, ppn: Ppn) -> &[u8] {
        self.0.inspect_spare(ppn)
    }
}

impl<const HOW: u8> World for Sabotage<HOW> {
    fn now(&self) -> u64 {
        self.0.now()
    }

    fn arrival(&self) -> Done {
        self.0.arrival()
    }

    fn time(&self, done: Done) -> u64 {
        self.0.time(done)
    }

    fn advance(&mut self, done: Done) {
        self.0.advance(done);
    }

    fn drain(&mut self) {
        self.0.drain();
    }

    fn counts(&self) -> OpCounts {
        *self.0.array().counts()
    }
}

impl<const HOW: u8> Cuttable for Sabotage<HOW> {
    fn wrap(nand: CrashNand) -> Self {
        Sabotage(nand)
    }

    fn crash(&self) -> &CrashNand {
        &self.0
    }

    fn into_crash(self) -> CrashNand {
        self.0
    }
}
