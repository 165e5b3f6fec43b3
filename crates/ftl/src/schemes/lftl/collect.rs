//! Collection of linear groups: one victim at a time, a page a step.
//!
//! A page is copied in the place in which it lies, so that the LPAs of a stream stay in order, to a linear group that all
//! victims share; its mapping is a log mapping like that of a page of the host, and is trained like one. So a copy takes no read of a
//! translation page, and counts as soon as it is made: until the victim is erased, which waits for the copies, the original
//! is there for a power cut to find.

use super::map::Map;
use super::writer::Writer;
use crate::checkpoint::Journal;
use crate::counters::Cause;
use crate::engine::victim::{Collects, Victim};
use crate::flash::{Content, Flash};
use crate::scheme::VictimPolicy;
use crate::space::Stream;
use nand::{Done, Fault, Lpn, Nand, PageKind, Ppn, Source};

/// The collection under way, if any.
#[derive(Clone, Debug)]
pub struct Collector {
    policy: VictimPolicy,
    victim: Option<Victim>,
    done: Done,
}

impl Collects for Collector {
    fn policy(&self) -> VictimPolicy {
        self.policy
    }

    #[inline]
    fn victim(&self) -> Option<&Victim> {
        self.victim.as_ref()
    }

    fn steps(&self, victim: &Victim) -> u32 {
        victim.valid()
    }

    fn begin(&mut self, victim: Victim) {
        self.victim = Some(victim);
        self.done = Done::READY;
    }
}

impl Collector {
    /// No collection under way.
    pub fn new(policy: VictimPolicy) -> Collector {
        Collector { policy, victim: None, done: Done::READY }
    }

    /// One step of the collection under way: a page copied, or the victim erased.
    pub fn step<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        map: &mut Map,
        writer: &mut Writer,
        journal: &mut Journal,
    ) -> Result<(), Fault> {
        let Some(victim) = &mut self.victim else { return Ok(()) };
        let Some(from) = victim.next(flash) else {
            victim.erase(flash, journal, self.done)?;
            self.victim = None;
            return Ok(());
        };
        victim.pass(from);
        let done = if victim.kind(flash) == PageKind::Translation {
            flash.counters.moved(PageKind::Translation, 1, victim.cause());
            map.records.relocate(flash, from, Done::READY)?
        } else {
            Self::copy(flash, map, writer, from, victim.cause())?
        };
        self.done = flash.join(self.done, done);
        Ok(())
    }

    fn copy<N: Nand>(
        flash: &mut Flash<N>,
        map: &mut Map,
        writer: &mut Writer,
        from: Ppn,
        cause: Cause,
    ) -> Result<Done, Fault> {
        let (oob, read) = flash.read_to_move(from, cause, Done::READY)?;
        assert!(oob.kind == PageKind::Data);
        let (source, lpn) = (if oob.lost { Source::Nothing } else { Source::Page(from) }, Lpn(oob.id));
        let content = Content::of(oob);
        let (to, done) = writer.program(flash, map, Stream::COLLECTION, lpn, content, source, cause, read)?;
        map.put(flash, lpn, to, done, cause, Done::READY)?;
        flash.invalidate(from);
        flash.counters.moved(PageKind::Data, 1, cause);
        flash.counters.gc_hits += 1;
        Ok(done)
    }
}
