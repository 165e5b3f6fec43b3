//! Collection of LeaFTL: pages move sorted by LPN, and are learned anew.
//!
//! One victim at a time, in steps, as in [`crate::engine::collector`]; but pages have to be read before they can be sorted. So as many as
//! the second half of the data buffer takes are read; then, group by group, those that are still valid are programmed
//! next to each other and learned. A group's pages are copied and mapped in one step, so nothing has to be committed
//! later. Sorting reaches as far as the buffer: a victim of several buffers is sorted piece by piece.

use super::map::{Map, Page};
use crate::checkpoint::Journal;
use crate::counters::Cause;
use crate::engine::victim::{Collects, Victim};
use crate::flash::{Content, Flash};
use crate::scheme::VictimPolicy;
use crate::space::Stream;
use nand::{Done, Fault, Lpn, Nand, PageKind, Ppn};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Reading the victim's valid pages into the buffer.
    Reading,
    /// Programming them, sorted.
    Copying,
}

#[derive(Clone, Copy, Debug)]
struct Staged {
    lpn: Lpn,
    from: Ppn,
    page: Page,
}

impl Staged {
    /// Reads a page into a slot of the data buffer.
    fn read<N: Nand>(flash: &mut Flash<N>, from: Ppn, slot: u32, cause: Cause) -> Result<Staged, Fault> {
        let (oob, after) = flash.read_to_slot(from, slot, cause, Done::READY)?;
        assert!(oob.kind == PageKind::Data);
        let lpn = Lpn(oob.id);
        Ok(Staged { lpn, from, page: Page { lpn, slot, content: Content::of(oob), after } })
    }
}

/// The collection under way, if any.
#[derive(Clone, Debug)]
pub struct Collector {
    policy: VictimPolicy,
    victim: Option<Victim>,
    phase: Phase,
    /// The slots of the data buffer that are collection's: from `first_slot` on, `slots` of them.
    first_slot: u32,
    slots: u32,
    staged: Vec<Staged>,
    /// The next of these to be copied.
    next: usize,
    pages: Vec<Page>,
    froms: Vec<Ppn>,
    done: Done,
}

impl Collects for Collector {
    fn policy(&self) -> VictimPolicy {
        self.policy
    }

    fn victim(&self) -> Option<&Victim> {
        self.victim.as_ref()
    }

    /// A step reads a page, or copies those of a group.
    fn steps(&self, victim: &Victim) -> u32 {
        2 * victim.valid()
    }

    fn begin(&mut self, victim: Victim) {
        self.victim = Some(victim);
        self.done = Done::READY;
    }
}

impl Collector {
    /// No collection under way.
    pub fn new(policy: VictimPolicy, first_slot: u32, slots: u32) -> Collector {
        Collector {
            policy,
            victim: None,
            phase: Phase::Reading,
            first_slot,
            slots,
            staged: Vec::with_capacity(slots as usize),
            next: 0,
            pages: Vec::with_capacity(256),
            froms: Vec::with_capacity(256),
            done: Done::READY,
        }
    }

    /// One step of the collection under way.
    pub fn step<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        map: &mut Map,
        journal: &mut Journal,
    ) -> Result<(), Fault> {
        let Some(victim) = &mut self.victim else { return Ok(()) };
        match self.phase {
            Phase::Reading => match victim.next(flash) {
                Some(ppn) if victim.kind(flash) == PageKind::Translation => {
                    let done = map.records.relocate(flash, ppn, Done::READY)?;
                    self.done = flash.join(self.done, done);
                    flash.counters.moved(PageKind::Translation, 1, victim.cause());
                    victim.pass(ppn);
                    Ok(())
                }
                Some(ppn) if self.staged.len() < self.slots as usize => {
                    let slot = self.first_slot + self.staged.len() as u32;
                    self.staged.push(Staged::read(flash, ppn, slot, victim.cause())?);
                    victim.pass(ppn);
                    Ok(())
                }
                None if self.staged.is_empty() => {
                    victim.erase(flash, journal, self.done)?;
                    self.victim = None;
                    Ok(())
                }
                _ => {
                    self.staged.sort_unstable_by_key(|staged| staged.lpn);
                    self.phase = Phase::Copying;
                    Ok(())
                }
            },
            Phase::Copying if self.next < self.staged.len() => {
                let cause = victim.cause();
                self.copy(flash, map, cause)
            }
            Phase::Copying => {
                self.staged.clear();
                self.next = 0;
                self.phase = Phase::Reading;
                Ok(())
            }
        }
    }

    /// Copies the pages of one group, except where the host wrote or trimmed meanwhile.
    fn copy<N: Nand>(&mut self, flash: &mut Flash<N>, map: &mut Map, cause: Cause) -> Result<(), Fault> {
        let (group, _) = map.place(self.staged[self.next].lpn);
        self.pages.clear();
        self.froms.clear();
        let of_group = self.staged[self.next..].iter().take_while(|staged| map.place(staged.lpn).0 == group);
        let mut end = self.next;
        for staged in of_group {
            end += 1;
            if flash.space.is_valid(staged.from) {
                self.pages.push(staged.page);
                self.froms.push(staged.from);
            }
        }
        if !self.pages.is_empty() {
            let count = self.pages.len() as u64;
            let hits = if map.cache.has(group) { count } else { 0 };
            map.touch(flash, group, cause, Done::READY)?;
            let learned = flash.compute(map.shape().learn_ns * count, Done::READY);
            for page in &mut self.pages {
                page.after = flash.join(page.after, learned);
            }
            let done = map.write_run(flash, Stream::COLLECTION, &self.pages, cause)?;
            self.done = flash.join(self.done, done);
            for &from in &self.froms {
                flash.invalidate(from);
            }
            flash.counters.moved(PageKind::Data, count, cause);
            flash.counters.gc_hits += hits;
            flash.counters.gc_misses += count - hits;
        }
        self.next = end;
        map.shrink(flash, group, cause)?;
        Ok(())
    }
}
