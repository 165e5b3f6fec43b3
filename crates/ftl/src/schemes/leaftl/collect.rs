//! Collection of LeaFTL: pages move sorted by LPN, and are learned anew.
//!
//! Pages have to be read before they can be sorted. So as many as the second half of the data buffer takes
//! are read; then, group by group, those that are still valid are programmed next to each other and learned.
//! A group's pages are copied and mapped in one step. Sorting reaches as far as the buffer: a victim of
//! several buffers is sorted piece by piece.

use super::map::{Map, Page};
use crate::counters::Cause;
use crate::engine::{Copies, Parts, Placement};
use crate::flash::{Content, Flash};
use crate::scheme::{Config, ConfigError};
use crate::space::Stream;
use nand::{Done, Lpn, Nand, PageKind, Ppn, Result};

/// The write buffer sends pages to one stream; collection sorts them again.
#[derive(Clone, Copy, Debug)]
pub struct InOrder;

impl Placement<Map> for InOrder {
    type Copies = Sorted;

    fn open<N: Nand>(_: &mut Flash<N>, _: &mut Map, _: &Config) -> Result<Self, ConfigError> {
        Ok(InOrder)
    }
}

#[derive(Clone, Copy, Debug)]
struct Staged {
    lpn: Lpn,
    from: Ppn,
    page: Page,
}

impl Staged {
    /// Reads a page into a slot of the data buffer.
    fn read<N: Nand>(flash: &mut Flash<N>, from: Ppn, slot: u32, cause: Cause) -> Result<Staged> {
        let (oob, after) = flash.read_to_slot(from, slot, cause, Done::READY)?;
        assert!(oob.kind == PageKind::Data);
        let lpn = Lpn(oob.id);
        Ok(Staged { lpn, from, page: Page { lpn, slot, content: Content::of(oob), after } })
    }
}

/// Pages of a victim in the data buffer, which are programmed in the order of their LPNs.
#[derive(Clone, Debug)]
pub struct Sorted {
    /// The slots of the data buffer that are collection's: from `first_slot` on, `slots` of them.
    first_slot: u32,
    slots: u32,
    staged: Vec<Staged>,
    /// Their LPNs, and their places above in the lower half: ascending once all are staged.
    order: Vec<u64>,
    /// The next of these to be copied.
    next: usize,
    pages: Vec<Page>,
    froms: Vec<Ppn>,
}

impl<P> Copies<Map, P> for Sorted {
    const IN_PIECES: bool = true;

    fn new<N: Nand>(_flash: &Flash<N>, parts: &Parts<Map, P>) -> Sorted {
        let slots = parts.mapping.shape().slots;
        Sorted {
            first_slot: slots,
            slots,
            staged: Vec::with_capacity(slots as usize),
            order: Vec::with_capacity(slots as usize),
            next: 0,
            pages: Vec::with_capacity(256),
            froms: Vec::with_capacity(256),
        }
    }

    /// A step reads a page, or copies those of a group.
    fn steps(&self, valid: u32) -> u32 {
        2 * valid
    }

    fn has_room(&self) -> bool {
        self.staged.len() < self.slots as usize
    }

    fn is_empty(&self) -> bool {
        self.staged.is_empty()
    }

    fn take<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        _parts: &mut Parts<Map, P>,
        from: Ppn,
        _stream: Stream,
        cause: Cause,
    ) -> Result<Done> {
        let slot = self.first_slot + self.staged.len() as u32;
        self.staged.push(Staged::read(flash, from, slot, cause)?);
        Ok(Done::READY)
    }

    /// Copies the pages of one group, except where the host wrote or trimmed meanwhile.
    fn commit<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        parts: &mut Parts<Map, P>,
        cause: Cause,
    ) -> Result<Option<Done>> {
        let (map, records) = (&mut parts.mapping, &mut parts.pages);
        if self.next == 0 {
            self.order.clear();
            let places = (0..).zip(&self.staged);
            self.order.extend(places.map(|(at, staged): (u64, _)| u64::from(staged.lpn.0) << 32 | at));
            self.order.sort_unstable();
        }
        let lpn = |key: u64| Lpn((key >> 32) as u32);
        let Some(&first) = self.order.get(self.next) else {
            self.staged.clear();
            self.next = 0;
            return Ok(None);
        };
        let (group, _) = map.place(lpn(first));
        self.pages.clear();
        self.froms.clear();
        let of_group = self.order[self.next..].iter().take_while(|&&key| map.place(lpn(key)).0 == group);
        let mut end = self.next;
        for &key in of_group {
            end += 1;
            let staged = &self.staged[key as u32 as usize];
            if flash.space.is_valid(staged.from) {
                self.pages.push(staged.page);
                self.froms.push(staged.from);
            }
        }
        if let Some(&next) = self.order.get(end) {
            map.expect(flash, records, map.place(lpn(next)).0);
        }
        let mut done = Done::READY;
        if !self.pages.is_empty() {
            let count = self.pages.len() as u64;
            let hits = if map.cache.has(group) { count } else { 0 };
            map.touch(flash, records, group, cause, Done::READY)?;
            let learned = flash.compute(map.shape().learn_ns * count, Done::READY);
            for page in &mut self.pages {
                page.after = flash.join(page.after, learned);
            }
            done = map.write_run(flash, Stream::COLLECTION, &self.pages, cause)?;
            for &from in &self.froms {
                flash.invalidate(from);
            }
            flash.counters.moved(PageKind::Data, count, cause);
            flash.counters.gc_hits += hits;
            flash.counters.gc_misses += count - hits;
        }
        self.next = end;
        map.shrink(flash, records, group, cause)?;
        Ok(Some(done))
    }
}
