//! DFTL: Gupta, Kim, Urgaonkar, "DFTL: a Flash Translation Layer Employing Demand-based Selective Caching of
//! Page-level Address Mappings", ASPLOS 2009.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | cached mapping table (CMT), segmented LRU | [`CachedTable::cache`] | `cmt::segmented` |
//! | global translation directory (GTD), translation pages | [`Table`] | `table` |
//! | lazy copying | [`Update::update`]: only the entry is changed | here |
//! | batch update in collection | [`Update::moved`] | here, grouped by `engine::collector` |
//!
//! Choices where only facts on the paper are at hand, or it is silent:
//! - An entry is charged 8 bytes (LPN, PPN), as in the papers that compare with DFTL; the directory comes out
//!   of the same budget.
//! - The protected segment holds half of the entries (parameter `protected`); the share is not known.
//! - A write that misses loads its entry, as a read does: the page that it replaces has to be known.
//! - A miss that replaces a dirty entry waits for the write-back, then for the load (TPFTL paper, equation
//!   1).
//! - A write-back reads its translation page, unless the program buffer holds it (see `table`).
//! - A trim of up to 8 pages of a translation page changes entries like a write; a longer one changes the
//!   translation page, because loading each entry would read the same page many times.

use crate::breach::Breach;
use crate::cmt::census::Census;
use crate::cmt::segmented::SegmentedLru;
use crate::counters::Cause;
use crate::engine::Ftl;
use crate::flash::Flash;
use crate::mapping::{Ask, Change, How, Lookup, Mapping, Moved, Unit, Update};
use crate::scheme::{CachedPage, Coming, Config, ConfigError, Info, Memory, Parameter};
use crate::table::{entry, entry_in, mapped, Table, PROGRAM_BUFFER, UNMAPPED};
use nand::{Done, Lpn, Nand, Result, Vtpn};
use std::ops::Range;

/// DFTL: the engine with a demand-cached table.
pub type Dftl = Ftl<CachedTable>;

const ENTRY_BYTES: u64 = 8;

/// A cached mapping table under segmented LRU.
#[derive(Clone, Debug)]
pub struct CachedTable {
    cache: SegmentedLru,
    census: Census,
    edits: Vec<(u32, u32)>,
}

impl CachedTable {
    /// Loads the mapping of `lpn`, which is not cached.
    fn load<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        lpn: Lpn,
        at: Done,
    ) -> Result<(u32, Done)> {
        let at = if self.cache.is_full() { self.evict(flash, table, at)? } else { at };
        let (vtpn, slot) = table.place(lpn);
        let (ppn, done) = match table.load(flash, vtpn, Cause::Translation, at)? {
            Some(done) => (entry_in(flash.buffer(), slot), done),
            None => (UNMAPPED, at),
        };
        self.cache.insert(lpn, ppn, done);
        self.census.added(vtpn);
        Ok((ppn, done))
    }

    /// Replaces the probationary segment's tail; a dirty entry is written back alone.
    fn evict<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, at: Done) -> Result<Done> {
        let Some(&victim) = self.cache.victim() else { return Ok(at) };
        let mut at = at;
        let (vtpn, slot) = table.place(victim.lpn);
        if victim.is_dirty() {
            let after = flash.join(at, victim.done);
            at = table.store(flash, vtpn, &[(slot, victim.ppn)], Cause::Translation, after)?;
            flash.counters.replaced_dirty += 1;
        }
        flash.counters.replaced += 1;
        self.cache.remove(victim.lpn);
        self.census.removed(vtpn, victim.is_dirty());
        Ok(at)
    }
}

impl Mapping for CachedTable {
    type Pages = Table;

    const INFO: Info = Info {
        name: "dftl",
        what: "demand-cached page map, segmented LRU over single entries, batch updates in collection",
        paper: "Gupta, Kim, Urgaonkar: DFTL, ASPLOS 2009",
        stats: &[],
        parameters: &[
            Parameter {
                name: "protected",
                default: "50",
                what: "entries in the protected segment, percent of the cache",
            },
            PROGRAM_BUFFER,
        ],
    };

    fn new<N: Nand>(_flash: &mut Flash<N>, table: &Table, config: &Config) -> Result<Self, ConfigError> {
        let protected = config.number(&Self::INFO, "protected", 0..=90)?;
        let bytes = table.cache_bytes("dftl", config, 8 * ENTRY_BYTES)?;
        let entries = (bytes / ENTRY_BYTES).min(u64::from(table.exported_pages())) as usize;
        Ok(CachedTable {
            cache: SegmentedLru::new(entries, table.exported_pages() as usize, protected),
            census: Census::new(table.pages()),
            edits: Vec::with_capacity(table.entries_per_page() as usize),
        })
    }

    // Lookups

    #[inline]
    fn lookup<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, ask: Ask) -> Result<Lookup> {
        let Ask { lpn, at, .. } = ask;
        if let Some(&mut hit) = self.cache.touch(lpn) {
            return Ok(Lookup::new(mapped(hit.ppn), flash.join(at, hit.done), How::CachedEntry));
        }
        let (ppn, known) = self.load(flash, table, lpn, at)?;
        Ok(Lookup::new(mapped(ppn), known, How::Loaded))
    }

    #[inline]
    fn expect<N: Nand>(&self, flash: &Flash<N>, table: &Table, lpn: Lpn, coming: Coming) {
        self.cache.expect(lpn);
        table.expect(flash, lpn, coming);
    }

    fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        vtpn: Vtpn,
        slots: Range<u32>,
        at: Done,
    ) -> Result<Done> {
        table.trim(flash, vtpn, slots, at, |lpn| {
            self.cache.remove(lpn).map(|dropped| {
                self.census.removed(vtpn, dropped.is_dirty());
                mapped(dropped.ppn)
            })
        })
    }

    // Checkpoint and checks

    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table) -> Result<Option<Done>> {
        let Some(vtpn) = self.census.first_dirty() else { return Ok(None) };
        let first = table.first_lpn(vtpn).0;
        self.edits.clear();
        let mut after = Done::READY;
        for slot in 0..table.lpns_in(vtpn) {
            if let Some(cached) = self.cache.peek_mut(Lpn(first + slot)).filter(|cached| cached.is_dirty()) {
                cached.set_dirty(false);
                self.edits.push((slot, cached.ppn));
                after = flash.join(after, cached.done);
            }
        }
        self.census.cleaned(vtpn);
        table.store(flash, vtpn, &self.edits, Cause::Checkpoint, after).map(Some)
    }

    fn entries<N: Nand>(&self, of: Unit<'_, N, Table>, entries: &mut Vec<u32>) {
        of.entries_or(entries, |lpn| self.cache.peek(lpn).map(|cached| cached.ppn));
    }

    fn memory(&self, _table: &Table) -> Memory {
        Memory { parts: vec![("CMT", self.cache.len() as u64 * ENTRY_BYTES)] }
    }

    fn cached(&self, _table: &Table, each: &mut dyn FnMut(CachedPage)) {
        self.census.each(each);
    }

    fn check<N: Nand>(&self, _flash: &Flash<N>, _table: &Table) -> Result<(), Breach> {
        self.cache.check()
    }
}

impl Update for CachedTable {
    #[inline]
    fn update<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, to: Change) -> Result<Lookup> {
        let Change { lpn, ppn, programmed, at, .. } = to;
        let (known, how) = match self.cache.touch(lpn) {
            Some(&mut hit) => (flash.join(at, hit.done), How::CachedEntry),
            None => (self.load(flash, table, lpn, at)?.1, How::Loaded),
        };
        let Some(cached) = self.cache.peek_mut(lpn) else { unreachable!("LPN {} was just loaded", lpn.0) };
        let old = std::mem::replace(&mut cached.ppn, entry(ppn));
        cached.done = programmed;
        if !cached.set_dirty(true) {
            self.census.dirtied(table.place(lpn).0);
        }
        Ok(Lookup::new(mapped(old), known, how))
    }

    /// Cached mappings change in the cache; the others by one update of their translation page.
    fn moved<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, moves: &[Moved]) -> Result<Done> {
        let vtpn = table.place(moves[0].lpn).0;
        let CachedTable { cache, census, edits } = self;
        table.moved(flash, moves, edits, |_, moved| {
            let Some(cached) = cache.peek_mut(moved.lpn) else { return false };
            (cached.ppn, cached.done) = (moved.to.0, moved.done);
            if !cached.set_dirty(true) {
                census.dirtied(vtpn);
            }
            true
        })
    }
}
