//! Collection of LeaFTL: pages move sorted by LPN, and are learned anew.
//!
//! One victim at a time, in steps, as in [`crate::gc`]; but pages have to be read before they can be sorted. So as many as
//! the second half of the data buffer takes are read; then, group by group, those that are still valid are programmed
//! next to each other and learned. A group's pages are copied and mapped in one step, so nothing has to be committed
//! later. Sorting reaches as far as the buffer: a victim of several buffers is sorted piece by piece.

use super::map::{Map, Page};
use crate::checkpoint::Journal;
use crate::counters::Cause;
use crate::flash::{Content, Flash};
use crate::scheme::VictimPolicy;
use crate::space::Stream;
use nand::{Done, Fault, Lpn, Nand, PageKind, Ppn};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
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

/// The collection under way, if any.
#[derive(Clone, Debug)]
pub struct Collector {
    policy: VictimPolicy,
    phase: Phase,
    victim: u32,
    cursor: Ppn,
    end: Ppn,
    pace: u32,
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

impl Collector {
    /// No collection under way.
    pub fn new(policy: VictimPolicy, first_slot: u32, slots: u32) -> Collector {
        Collector {
            policy,
            phase: Phase::Idle,
            victim: 0,
            cursor: Ppn(0),
            end: Ppn(0),
            pace: 1,
            first_slot,
            slots,
            staged: Vec::with_capacity(slots as usize),
            next: 0,
            pages: Vec::with_capacity(256),
            froms: Vec::with_capacity(256),
            done: Done::READY,
        }
    }

    /// Whether a victim is being emptied.
    pub fn is_active(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// Steps for each page that the host's stream programs.
    pub fn pace(&self) -> u32 {
        self.pace
    }

    /// Chooses a victim. `false`: there is none whose collection gains a page.
    pub fn start<N: Nand>(&mut self, flash: &mut Flash<N>) -> bool {
        let victim = match self.policy {
            VictimPolicy::Greedy => flash.space.fewest_valid(),
            VictimPolicy::CostBenefit => flash.space.best_benefit(),
        };
        let Some(victim) = victim else { return false };
        let valid = flash.space.valid_in(victim);
        let gain = flash.space.capacity_of(victim).saturating_sub(valid).max(1);
        flash.space.collect(victim);
        // A step reads a page, or copies those of a group.
        self.pace = (2 * valid).div_ceil(gain) + 1;
        self.victim = victim;
        (self.cursor, self.end) = flash.space.pages_of(victim);
        self.done = Done::READY;
        self.phase = Phase::Reading;
        true
    }

    /// One step of the collection under way.
    pub fn step<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        map: &mut Map,
        journal: &mut Journal,
    ) -> Result<(), Fault> {
        match self.phase {
            Phase::Idle => Ok(()),
            Phase::Reading => match flash.space.next_valid(self.cursor, self.end) {
                Some(ppn) if flash.space.kind(self.victim) == PageKind::Translation => {
                    let done = map.records.relocate(flash, ppn, Done::READY)?;
                    self.done = flash.join(self.done, done);
                    flash.counters.moved_translation += 1;
                    self.cursor = Ppn(ppn.0 + 1);
                    Ok(())
                }
                Some(ppn) if self.staged.len() < self.slots as usize => self.stage(flash, ppn),
                None if self.staged.is_empty() => self.finish(flash, journal),
                _ => {
                    self.staged.sort_unstable_by_key(|staged| staged.lpn);
                    self.phase = Phase::Copying;
                    Ok(())
                }
            },
            Phase::Copying if self.next < self.staged.len() => self.copy(flash, map),
            Phase::Copying => {
                self.staged.clear();
                self.next = 0;
                self.phase = Phase::Reading;
                Ok(())
            }
        }
    }

    fn stage<N: Nand>(&mut self, flash: &mut Flash<N>, from: Ppn) -> Result<(), Fault> {
        let slot = self.first_slot + self.staged.len() as u32;
        let (oob, after) = flash.read_to_slot(from, slot, Cause::Collection, Done::READY)?;
        assert!(oob.kind == PageKind::Data);
        let lpn = Lpn(oob.id);
        self.staged.push(Staged { lpn, from, page: Page { lpn, slot, content: Content::of(oob), after } });
        self.cursor = Ppn(from.0 + 1);
        Ok(())
    }

    /// Copies the pages of one group, except where the host wrote or trimmed meanwhile.
    fn copy<N: Nand>(&mut self, flash: &mut Flash<N>, map: &mut Map) -> Result<(), Fault> {
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
            map.touch(flash, group, Cause::Collection, Done::READY)?;
            let learned = flash.compute(map.shape().learn_ns * count, Done::READY);
            for page in &mut self.pages {
                page.after = flash.join(page.after, learned);
            }
            let done = map.write_run(flash, Stream::COLLECTION, &self.pages, Cause::Collection)?;
            self.done = flash.join(self.done, done);
            for &from in &self.froms {
                flash.invalidate(from);
            }
            flash.counters.moved_data += count;
            flash.counters.gc_hits += hits;
            flash.counters.gc_misses += count - hits;
        }
        self.next = end;
        map.shrink(flash, group, Cause::Collection)?;
        Ok(())
    }

    /// Erases the victim. Trims are made durable first, as in [`crate::gc`].
    fn finish<N: Nand>(&mut self, flash: &mut Flash<N>, journal: &mut Journal) -> Result<(), Fault> {
        journal.write_pending(flash)?;
        if flash.space.kind(self.victim) == PageKind::Data {
            flash.counters.collections_data += 1;
        } else {
            flash.counters.collections_translation += 1;
        }
        flash.erase(self.victim, Cause::Collection, self.done)?;
        self.phase = Phase::Idle;
        Ok(())
    }
}
