//! CDFTL: Qin, Wang, Liu, Shao, "A Two-Level Caching Mechanism for Demand-Based Page-Level Address Mapping in
//! NAND Flash Memory Storage Systems", RTAS 2011.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | first level: cached mapping table (CMT), LRU over entries | [`TwoCaches::entries`] | `pinned` |
//! | second level: cached translation pages (CTP), LRU over pages | [`TwoCaches::pages`] | `cmt::pages` |
//! | lookup: CMT, then CTP, then flash | [`TwoCaches::bring`] | here |
//! | CTP as the kick-out buffer of the CMT | [`TwoCaches::kick_out`] | here |
//! | GTD, translation pages | [`Table`] | `table` |
//!
//! Choices where only other papers' account is at hand, or they are silent:
//! - A CMT entry is charged 8 bytes (LPN, PPN), a CTP page its content and 8 bytes (VTPN, links, dirty mark).
//!   Pages get half of what the directory leaves (parameter `pages`), and at least one.
//! - An entry that is found in the CTP goes to the CMT too: it is active.
//! - When every CMT entry is dirty and its page is not cached, the page of the least recently used one is
//!   loaded, as the account has it: dirty entries leave only into a cached page.
//! - A CTP page that leaves takes no dirty CMT entries along; they become cold dirty entries, as the account
//!   says.
//! - What counts as replaced is a CTP page, because that is what a write-back can cost.
//! - Room is made before the load, so that the page that was just loaded does not leave at once.
//! - Collection changes a mapping in the CMT, else in the CTP, else on flash, one update a translation page.
//! - A long trim changes a cached page in memory; else as in DFTL.

mod pinned;

use crate::breach::Breach;
use crate::cmt::census::Census;
use crate::cmt::pages::PageCache;
use crate::counters::Cause;
use crate::engine::Ftl;
use crate::flash::Flash;
use crate::mapping::{Ask, Change, How, Lookup, Mapping, Moved, Unit, Update};
use crate::scheme::{CachedPage, Coming, Config, ConfigError, Info, Memory, Parameter};
use crate::table::{entry, mapped, Table, PROGRAM_BUFFER};
use nand::{Done, Lpn, Nand, Result, Vtpn};
use pinned::PinnedLru;
use std::ops::Range;

/// CDFTL: the engine with a cache of entries before a cache of translation pages.
pub type Cdftl = Ftl<TwoCaches>;

const ENTRY_BYTES: u64 = 8;
const PAGE_HEADER_BYTES: u64 = 8;
/// Entries without which the first level is none.
const LEAST_ENTRIES: u64 = 8;

/// Entries and translation pages in memory.
///
/// A clean entry equals the cached page's, or flash's when the page is not cached; a dirty one is newer than
/// both. An entry is pinned exactly when it is dirty and its page is not cached.
#[derive(Clone, Debug)]
pub struct TwoCaches {
    entries: PinnedLru,
    pages: PageCache,
    /// Of the entries alone.
    census: Census,
    edits: Vec<(u32, u32)>,
}

impl TwoCaches {
    /// Bytes of a cached page.
    fn page_bytes(table: &Table) -> u64 {
        4 * u64::from(table.entries_per_page()) + PAGE_HEADER_BYTES
    }

    /// Brings the mapping of `lpn`, which the first level does not hold, there.
    fn bring<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        lpn: Lpn,
        at: Done,
    ) -> Result<Lookup> {
        let (vtpn, slot) = table.place(lpn);
        let (ppn, known, how) = match self.pages.find(vtpn) {
            Some(frame) => {
                self.pages.touch(frame);
                let (ppn, loaded) = (self.pages.entry(frame, slot), self.pages.loaded(frame));
                let room = self.kick_out(flash, table, at)?;
                (ppn, flash.join(loaded, room), How::CachedPage)
            }
            None => {
                let room = self.kick_out(flash, table, at)?;
                let (frame, done) = self.fetch(flash, table, vtpn, room)?;
                (self.pages.entry(frame, slot), done, How::Loaded)
            }
        };
        self.entries.insert(lpn, ppn, known);
        self.census.added(vtpn);
        Ok(Lookup::new(mapped(ppn), known, how))
    }

    /// Makes room for an entry in the first level: a clean one leaves freely, a dirty one into its cached
    /// page.
    fn kick_out<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, at: Done) -> Result<Done> {
        if !self.entries.is_full() {
            return Ok(at);
        }
        let mut at = at;
        if self.entries.victim().is_none() {
            if let Some(oldest) = self.entries.oldest_pinned() {
                let vtpn = table.place(oldest.lpn).0;
                at = self.fetch(flash, table, vtpn, at)?.1;
            }
        }
        let Some(&victim) = self.entries.victim() else { return Ok(at) };
        let (vtpn, slot) = table.place(victim.lpn);
        if victim.is_dirty() {
            let Some(frame) = self.pages.find(vtpn) else {
                unreachable!("dirty LPN {} may leave without its page", victim.lpn.0)
            };
            self.pages.write(flash, frame, slot, victim.ppn, victim.done);
        }
        self.entries.remove(victim.lpn);
        self.census.removed(vtpn, victim.is_dirty());
        Ok(at)
    }

    /// Loads a translation page that is not cached into the second level.
    fn fetch<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        vtpn: Vtpn,
        at: Done,
    ) -> Result<(u32, Done)> {
        let mut at = at;
        if self.pages.is_full() {
            let victim = self.pages.tail();
            let left = self.pages.vtpn(victim);
            if self.pages.dirty(victim) > 0 {
                at = self.pages.write_back(flash, table, victim, Cause::Translation, at)?;
                flash.counters.replaced_dirty += 1;
            }
            flash.counters.replaced += 1;
            self.pages.remove(victim);
            self.pin_dirty(table, left, true);
        }
        let loaded = self.pages.load(flash, table, vtpn, Cause::Translation, at)?;
        self.pin_dirty(table, vtpn, false);
        Ok(loaded)
    }

    /// Says of all dirty entries of a translation page whether they must stay.
    fn pin_dirty(&mut self, table: &Table, vtpn: Vtpn, stay: bool) {
        let mut left = self.census.dirty(vtpn);
        let mut from = table.first_lpn(vtpn);
        let end = Lpn(from.0 + table.lpns_in(vtpn));
        while left > 0 {
            let Some(lpn) = self.entries.next_present(from, end) else { break };
            if self.entries.peek(lpn).is_some_and(|entry| entry.is_dirty()) {
                self.entries.pin(lpn, stay);
                left -= 1;
            }
            from = Lpn(lpn.0 + 1);
        }
    }

    /// Changes an entry of the first level, which is of translation page `vtpn`. Whether there is one.
    fn change(&mut self, vtpn: Vtpn, lpn: Lpn, ppn: u32, done: Done) -> bool {
        let Some(cached) = self.entries.peek_mut(lpn) else { return false };
        (cached.ppn, cached.done) = (ppn, done);
        if !cached.set_dirty(true) {
            self.census.dirtied(vtpn);
            self.entries.pin(lpn, self.pages.find(vtpn).is_none());
        }
        true
    }

    /// Takes the dirty entries of a translation page as edits, and marks them clean.
    fn take_dirty<N: Nand>(&mut self, flash: &mut Flash<N>, table: &Table, vtpn: Vtpn) -> Done {
        self.edits.clear();
        let mut after = Done::READY;
        let first = table.first_lpn(vtpn);
        let (mut from, end) = (first, Lpn(first.0 + table.lpns_in(vtpn)));
        while let Some(lpn) = self.entries.next_present(from, end) {
            if let Some(cached) = self.entries.peek_mut(lpn).filter(|cached| cached.is_dirty()) {
                cached.set_dirty(false);
                self.edits.push((lpn.0 - first.0, cached.ppn));
                after = flash.join(after, cached.done);
                self.entries.pin(lpn, false);
            }
            from = Lpn(lpn.0 + 1);
        }
        self.census.cleaned(vtpn);
        after
    }
}

impl Mapping for TwoCaches {
    type Pages = Table;

    const INFO: Info = Info {
        name: "cdftl",
        what: "two-level mapping cache: single entries in front of whole translation pages",
        paper:
            "Qin et al.: A Two-Level Caching Mechanism for Demand-Based Page-Level Address Mapping, RTAS 2011",
        stats: &[],
        parameters: &[
            Parameter {
                name: "pages",
                default: "50",
                what: "bytes for whole translation pages (CTP), percent of the cache; at least one page",
            },
            PROGRAM_BUFFER,
        ],
    };

    fn new<N: Nand>(_flash: &mut Flash<N>, table: &Table, config: &Config) -> Result<Self, ConfigError> {
        let percent = config.number(&Self::INFO, "pages", 0..=95)?;
        let page_bytes = Self::page_bytes(table);
        let bytes = table.cache_bytes("cdftl", config, page_bytes + LEAST_ENTRIES * ENTRY_BYTES)?;
        let most = (bytes - LEAST_ENTRIES * ENTRY_BYTES) / page_bytes;
        let pages = (bytes * percent / 100 / page_bytes).clamp(1, most).min(u64::from(table.pages()));
        let lpns = u64::from(table.exported_pages());
        let entries = ((bytes - pages * page_bytes) / ENTRY_BYTES).min(lpns) as usize;
        Ok(TwoCaches {
            entries: PinnedLru::new(entries, lpns as usize),
            pages: PageCache::new(table, pages as usize),
            census: Census::new(table.pages()),
            edits: Vec::with_capacity(table.entries_per_page() as usize),
        })
    }

    // Lookups

    #[inline]
    fn lookup<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, ask: Ask) -> Result<Lookup> {
        let Ask { lpn, at, .. } = ask;
        if let Some(&mut hit) = self.entries.touch(lpn) {
            return Ok(Lookup::new(mapped(hit.ppn), flash.join(at, hit.done), How::CachedEntry));
        }
        self.bring(flash, table, lpn, at)
    }

    #[inline]
    fn expect<N: Nand>(&self, flash: &Flash<N>, table: &Table, lpn: Lpn, coming: Coming) {
        self.entries.expect(lpn);
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
        let first = table.first_lpn(vtpn).0;
        let (entries, census) = (&mut self.entries, &mut self.census);
        let mut forget = |lpn| {
            let dropped = entries.remove(lpn)?;
            census.removed(vtpn, dropped.is_dirty());
            Some(dropped.ppn)
        };
        match self.pages.find(vtpn) {
            Some(frame) => {
                self.pages.trim(flash, frame, slots, |slot| forget(Lpn(first + slot)));
                Ok(flash.join(at, self.pages.loaded(frame)))
            }
            None => table.trim(flash, vtpn, slots, at, |lpn| forget(lpn).map(mapped)),
        }
    }

    // Checkpoint and checks

    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table) -> Result<Option<Done>> {
        let found = self.pages.find_dirty().map(|frame| self.pages.vtpn(frame));
        let Some(vtpn) = found.or_else(|| self.census.first_dirty()) else { return Ok(None) };
        let after = self.take_dirty(flash, table, vtpn);
        let written = match self.pages.find(vtpn) {
            Some(frame) => {
                for &(slot, ppn) in &self.edits {
                    self.pages.write(flash, frame, slot, ppn, after);
                }
                self.pages.write_back(flash, table, frame, Cause::Checkpoint, after)
            }
            None => table.store(flash, vtpn, &self.edits, Cause::Checkpoint, after),
        };
        written.map(Some)
    }

    fn entries<N: Nand>(&self, of: Unit<'_, N, Table>, entries: &mut Vec<u32>) {
        let frame = self.pages.find(of.unit);
        of.entries_or(entries, |lpn| {
            let cached = self.entries.peek(lpn).map(|cached| cached.ppn);
            cached.or_else(|| Some(self.pages.entry(frame?, of.pages.place(lpn).1)))
        });
    }

    fn memory(&self, table: &Table) -> Memory {
        let pages = self.pages.len() as u64 * Self::page_bytes(table);
        Memory { parts: vec![("CMT", self.entries.len() as u64 * ENTRY_BYTES), ("CTP", pages)] }
    }

    fn cached(&self, table: &Table, each: &mut dyn FnMut(CachedPage)) {
        for vtpn in (0..table.pages()).map(Vtpn) {
            let (mut entries, mut dirty) = (self.census.entries(vtpn), self.census.dirty(vtpn));
            if let Some(frame) = self.pages.find(vtpn) {
                entries = table.lpns_in(vtpn);
                let first = table.first_lpn(vtpn).0;
                self.pages.each_dirty(frame, |slot, _| {
                    let newer = self.entries.peek(Lpn(first + slot)).is_some_and(|entry| entry.is_dirty());
                    dirty += u32::from(!newer);
                });
            }
            if entries > 0 {
                each(CachedPage { vtpn, entries, dirty });
            }
        }
    }

    fn check<N: Nand>(&self, _flash: &Flash<N>, table: &Table) -> Result<(), Breach> {
        self.entries.check()?;
        self.pages.check()?;
        for vtpn in (0..table.pages()).map(Vtpn) {
            let frame = self.pages.find(vtpn);
            let first = table.first_lpn(vtpn);
            let (mut from, end) = (first, Lpn(first.0 + table.lpns_in(vtpn)));
            let (mut entries, mut dirty) = (0, 0);
            while let Some(lpn) = self.entries.next_present(from, end) {
                let Some(cached) = self.entries.peek(lpn) else { break };
                entries += 1;
                dirty += u32::from(cached.is_dirty());
                let pinned = cached.list() == 1;
                let differs =
                    frame.is_some_and(|frame| self.pages.entry(frame, lpn.0 - first.0) != cached.ppn);
                if pinned != (cached.is_dirty() && frame.is_none()) || (differs && !cached.is_dirty()) {
                    return Err(
                        format!("LPN {} is cached, but not as its translation page says", lpn.0).into()
                    );
                }
                from = Lpn(lpn.0 + 1);
            }
            if (entries, dirty) != (self.census.entries(vtpn), self.census.dirty(vtpn)) {
                return Err(format!("entries of translation page {} are miscounted", vtpn.0).into());
            }
        }
        Ok(())
    }
}

impl Update for TwoCaches {
    #[inline]
    fn update<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, to: Change) -> Result<Lookup> {
        let Change { lpn, ppn, programmed, at, .. } = to;
        let found = match self.entries.touch(lpn) {
            Some(&mut hit) => Lookup::new(mapped(hit.ppn), flash.join(at, hit.done), How::CachedEntry),
            None => self.bring(flash, table, lpn, at)?,
        };
        self.change(table.place(lpn).0, lpn, entry(ppn), programmed);
        Ok(found)
    }

    fn moved<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, moves: &[Moved]) -> Result<Done> {
        let vtpn = table.place(moves[0].lpn).0;
        let mut edits = std::mem::take(&mut self.edits);
        let frame = self.pages.find(vtpn);
        let done = table.moved(flash, moves, &mut edits, |flash, moved| {
            let is_cached = self.change(vtpn, moved.lpn, moved.to.0, moved.done);
            if let Some(frame) = frame.filter(|_| !is_cached) {
                self.pages.write(flash, frame, moved.slot, moved.to.0, moved.done);
            }
            is_cached || frame.is_some()
        });
        self.edits = edits;
        done
    }
}

#[cfg(test)]
mod tests;
