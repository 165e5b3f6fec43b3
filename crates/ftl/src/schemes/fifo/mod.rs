//! The scheme of docs/new-scheme.md: a demand cache that evicts first in, first out, and a stream for long
//! requests.
//!
//! No paper describes it. It is the least that a complete scheme needs, and a floor for caches that do
//! better.
//!
//! | term | here | where |
//! | --- | --- | --- |
//! | cached mapping table (CMT), FIFO | [`FifoTable`] | here |
//! | global translation directory (GTD), translation pages | [`Table`] | `table` |
//! | long requests apart | [`ByLength`] | here |
//!
//! **Choices**:
//! - An entry takes 8 bytes (LPN, PPN), as in DFTL.
//! - A dirty entry is written back alone when it is evicted: that is what batching in other schemes is
//!   measured against.
//! - A request of `long` pages or more goes to superblocks of its own, because its pages are likely to be
//!   overwritten together.

use crate::breach::Breach;
use crate::cmt::census::Census;
use crate::cmt::entries::{Entries, Entry};
use crate::counters::{Cause, Stat};
use crate::engine::collector::Grouped;
use crate::engine::{Ftl, Placement};
use crate::flash::Flash;
use crate::list::{List, NONE};
use crate::mapping::{Ask, Change, How, Lookup, Mapping, Moved, Unit, Update};
use crate::scheme::{CachedPage, Config, ConfigError, Info, Memory, Parameter};
use crate::space::Stream;
use crate::table::{entry, entry_in, mapped, Table, UNMAPPED};
use nand::{Done, Lpn, Nand, Ppn, Result, Vtpn};
use std::ops::Range;

/// The engine with this mapping and this placement is the scheme.
pub type Fifo = Ftl<FifoTable, ByLength>;

const ENTRY_BYTES: u64 = 8;

const WRITTEN: Stat = Stat::new(0, "pages_placed", "pages", "host pages written, of all requests");
const LONG: Stat =
    Stat::new(1, "pages_placed_long", "pages", "host pages written by long requests").of(&WRITTEN);

/// Cached mappings in the order in which they were loaded.
#[derive(Clone, Debug)]
pub struct FifoTable {
    entries: Entries,
    /// The entry loaded last is the head.
    order: List,
    capacity: usize,
    /// Cached and dirty entries of each translation page.
    census: Census,
    edits: Vec<(u32, u32)>,
}

impl FifoTable {
    /// Loads the mapping of `lpn`, which is not cached, and returns its slot.
    fn load<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, lpn: Lpn, at: Done) -> Result<u32> {
        let at = if self.entries.len() == self.capacity { self.evict(flash, table, at)? } else { at };
        let (vtpn, slot) = table.place(lpn);
        let (ppn, done) = match table.load(flash, vtpn, Cause::Translation, at)? {
            Some(done) => (entry_in(flash.buffer(), slot), done),
            None => (UNMAPPED, at),
        };
        let cached = self.entries.insert(lpn, ppn, done);
        self.entries.push_front(&mut self.order, cached);
        self.census.added(vtpn);
        Ok(cached)
    }

    /// Evicts the entry that was loaded first. A dirty one is written back.
    fn evict<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, at: Done) -> Result<Done> {
        let oldest = self.order.tail();
        if oldest == NONE {
            return Ok(at);
        }
        let victim = *self.entries.get(oldest);
        let (vtpn, slot) = table.place(victim.lpn);
        let mut at = at;
        if victim.is_dirty() {
            // No mapping reaches flash before the page that it leads to.
            let after = flash.join(at, victim.done);
            at = table.store(flash, vtpn, &[(slot, victim.ppn)], Cause::Translation, after)?;
            flash.counters.replaced_dirty += 1;
        }
        flash.counters.replaced += 1;
        self.drop_cached(vtpn, victim.lpn);
        Ok(at)
    }

    /// Drops the entry of `lpn`, if one is cached, and returns what it said.
    fn drop_cached(&mut self, vtpn: Vtpn, lpn: Lpn) -> Option<Option<Ppn>> {
        let slot = self.entries.find(lpn)?;
        self.entries.unlink(&mut self.order, slot);
        let dropped = self.entries.remove(slot);
        self.census.removed(vtpn, dropped.is_dirty());
        Some(mapped(dropped.ppn))
    }
}

/// Lets a cached entry lead to another page, and returns where it led.
fn lead(
    cached: &mut Entry,
    census: &mut Census,
    vtpn: Vtpn,
    ppn: Option<Ppn>,
    programmed: Done,
) -> Option<Ppn> {
    let old = std::mem::replace(&mut cached.ppn, entry(ppn));
    cached.done = programmed;
    if !cached.set_dirty(true) {
        census.dirtied(vtpn);
    }
    mapped(old)
}

impl Mapping for FifoTable {
    type Pages = Table;

    const INFO: Info = Info {
        name: "fifo",
        what: "demand-cached page map, first in first out; long requests in superblocks of their own",
        paper: "none: the scheme of docs/new-scheme.md",
        parameters: &[Parameter {
            name: "long",
            default: "16",
            what: "pages from which on a request is long",
        }],
        stats: &[WRITTEN, LONG],
    };

    fn new<N: Nand>(_flash: &mut Flash<N>, table: &Table, config: &Config) -> Result<Self, ConfigError> {
        let bytes = table.cache_bytes(Self::INFO.name, config, 8 * ENTRY_BYTES)?;
        let lpns = table.exported_pages();
        let capacity = (bytes / ENTRY_BYTES).min(u64::from(lpns)) as usize;
        Ok(FifoTable {
            entries: Entries::new(capacity, lpns as usize),
            order: List::default(),
            capacity,
            census: Census::new(table.pages()),
            edits: Vec::with_capacity(table.entries_per_page() as usize),
        })
    }

    // Lookups

    fn lookup<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, ask: Ask) -> Result<Lookup> {
        let Ask { lpn, at, .. } = ask;
        let (slot, how) = match self.entries.find(lpn) {
            Some(slot) => (slot, How::CachedEntry),
            None => (self.load(flash, table, lpn, at)?, How::Loaded),
        };
        let cached = self.entries.get(slot);
        Ok(Lookup::new(mapped(cached.ppn), flash.join(at, cached.done), how))
    }

    fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        vtpn: Vtpn,
        slots: Range<u32>,
        at: Done,
    ) -> Result<Done> {
        table.trim(flash, vtpn, slots, at, |lpn| self.drop_cached(vtpn, lpn))
    }

    // Checkpoint and checks

    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table) -> Result<Option<Done>> {
        let Some(vtpn) = self.census.first_dirty() else { return Ok(None) };
        let first = table.first_lpn(vtpn).0;
        self.edits.clear();
        let mut after = Done::READY;
        for place in 0..table.lpns_in(vtpn) {
            let Some(slot) = self.entries.find(Lpn(first + place)) else { continue };
            let cached = self.entries.get_mut(slot);
            if cached.set_dirty(false) {
                self.edits.push((place, cached.ppn));
                after = flash.join(after, cached.done);
            }
        }
        self.census.cleaned(vtpn);
        table.store(flash, vtpn, &self.edits, Cause::Checkpoint, after).map(Some)
    }

    fn entries<N: Nand>(&self, of: Unit<'_, N, Table>, entries: &mut Vec<u32>) {
        of.entries_or(entries, |lpn| self.entries.find(lpn).map(|slot| self.entries.get(slot).ppn));
    }

    fn cached(&self, _table: &Table, each: &mut dyn FnMut(CachedPage)) {
        self.census.each(each);
    }

    fn memory(&self, _table: &Table) -> Memory {
        Memory { parts: vec![("CMT", self.entries.len() as u64 * ENTRY_BYTES)] }
    }

    fn check<N: Nand>(&self, _flash: &Flash<N>, _table: &Table) -> Result<(), Breach> {
        let listed = self.order.len() as usize;
        if listed != self.entries.len() || listed > self.capacity {
            return Err(format!(
                "{} entries, {listed} in order, room for {}",
                self.entries.len(),
                self.capacity
            )
            .into());
        }
        Ok(())
    }
}

// Updates

impl Update for FifoTable {
    fn update<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, to: Change) -> Result<Lookup> {
        let Change { lpn, ppn, programmed, at, .. } = to;
        // The page that the write supersedes has to be known, so a miss loads the entry, as a read does.
        let (slot, how) = match self.entries.find(lpn) {
            Some(slot) => (slot, How::CachedEntry),
            None => (self.load(flash, table, lpn, at)?, How::Loaded),
        };
        let known = flash.join(at, self.entries.get(slot).done);
        let vtpn = table.place(lpn).0;
        let old = lead(self.entries.get_mut(slot), &mut self.census, vtpn, ppn, programmed);
        Ok(Lookup::new(old, known, how))
    }

    /// Cached mappings change in the cache; the others by one update of their translation page.
    fn moved<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, moves: &[Moved]) -> Result<Done> {
        let vtpn = table.place(moves[0].lpn).0;
        let FifoTable { entries, census, edits, .. } = self;
        table.moved(flash, moves, edits, |_, moved| {
            let Some(slot) = entries.find(moved.lpn) else { return false };
            lead(entries.get_mut(slot), census, vtpn, Some(moved.to), moved.done);
            true
        })
    }
}

/// Long requests go to a stream of their own, where the device has superblocks to spare for one.
#[derive(Clone, Debug)]
pub struct ByLength {
    /// Pages from which on a request is long; `None`: there is no second stream.
    long: Option<u32>,
    /// Pages still to come of the long request under way.
    rest: u32,
}

impl Placement<FifoTable> for ByLength {
    type Copies = Grouped;

    fn open<N: Nand>(
        flash: &mut Flash<N>,
        _mapping: &mut FifoTable,
        config: &Config,
    ) -> Result<Self, ConfigError> {
        let long = config.number(&FifoTable::INFO, "long", 2..=u32::MAX)?;
        // One superblock is being written, and one may be left half written by a power cut.
        let has_room = flash.space.spare >= 2;
        if has_room {
            flash.add_streams(1);
        }
        Ok(ByLength { long: has_room.then_some(long), rest: 0 })
    }

    fn spare_wanted(&self) -> u32 {
        u32::from(self.long.is_some())
    }

    /// The first page of a request has the greatest `rest`, so it decides for the pages that follow.
    fn stream<N: Nand>(
        &mut self,
        _mapping: &mut FifoTable,
        flash: &mut Flash<N>,
        _lpn: Lpn,
        rest: u32,
    ) -> Stream {
        let is_long = self.rest == rest || self.long.is_some_and(|long| rest >= long);
        self.rest = if is_long { rest - 1 } else { 0 };
        flash.counters.count(&WRITTEN, 1);
        flash.counters.count(&LONG, u64::from(is_long));
        if is_long {
            Stream::further(0)
        } else {
            Stream::HOST
        }
    }
}
