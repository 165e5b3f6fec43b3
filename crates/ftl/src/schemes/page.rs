//! The page map with its whole table in memory: what the papers call "ideal" or "optimal".
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | page-level mapping table | [`WholeTable`], 4 bytes a page | memory |
//!
//! It ignores the mapping budget: it is the bound that the others are measured from. Collection and reserve
//! are the same as theirs. Translation pages are written at checkpoints alone (power-off, full trim journal).

use crate::breach::Breach;
use crate::counters::Cause;
use crate::engine::Ftl;
use crate::flash::Flash;
use crate::mapping::{Ask, Change, How, Lookup, Mapping, Moved, Unit, Update};
use crate::recover::Recovery;
use crate::scheme::{Coming, Config, ConfigError, Info, Memory};
use crate::table::{entry, expect_page, mapped, Table, UNMAPPED};
use nand::{Done, Lpn, Nand, Ppn, Result, Vtpn};
use prefetch_index::prefetch_index;
use std::ops::Range;

/// The ideal page map.
pub type PageMap = Ftl<WholeTable>;

/// The whole table in memory.
#[derive(Clone, Debug)]
pub struct WholeTable {
    /// PPN by LPN.
    table: Vec<u32>,
    /// Translation pages on flash that are behind, by VTPN.
    dirty: Vec<bool>,
    /// No translation page below this one is dirty.
    first_dirty: usize,
    /// When every page that the table leads to is programmed; `None` since the table changed. So the pages of
    /// one checkpoint do not wait for each other.
    settled: Option<Done>,
    page: Vec<u8>,
}

impl WholeTable {
    #[inline(always)]
    fn set(&mut self, table: &Table, lpn: Lpn, ppn: Option<Ppn>) -> Option<Ppn> {
        let vtpn = table.place(lpn).0 .0 as usize;
        self.dirty[vtpn] = true;
        self.first_dirty = self.first_dirty.min(vtpn);
        self.settled = None;
        mapped(std::mem::replace(&mut self.table[lpn.0 as usize], entry(ppn)))
    }
}

impl Mapping for WholeTable {
    type Pages = Table;

    const INFO: Info = Info {
        name: "page",
        what: "page map with the whole table in memory: the bound (\"ideal\", \"optimal\")",
        paper: "the baseline of every paper",
        stats: &[],
        parameters: &[],
    };

    fn new<N: Nand>(_flash: &mut Flash<N>, table: &Table, _config: &Config) -> Result<Self, ConfigError> {
        Ok(WholeTable {
            table: vec![UNMAPPED; table.exported_pages() as usize],
            dirty: vec![false; table.pages() as usize],
            first_dirty: table.pages() as usize,
            settled: None,
            page: vec![0xff; table.entries_per_page() as usize * 4],
        })
    }

    fn restore<N: Nand>(&mut self, recovery: &mut Recovery<'_, N>, table: &mut Table) -> Result<()> {
        table.restore_beside(recovery, |table, vtpn, entries, changed| {
            let first = table.first_lpn(vtpn).0 as usize;
            self.table[first..first + entries.len()].copy_from_slice(entries);
            self.dirty[vtpn.0 as usize] = changed;
            if changed {
                self.first_dirty = self.first_dirty.min(vtpn.0 as usize);
            }
            true
        })
    }

    #[inline]
    fn lookup<N: Nand>(&mut self, _flash: &mut Flash<N>, _table: &mut Table, ask: Ask) -> Result<Lookup> {
        let Ask { lpn, at, .. } = ask;
        Ok(Lookup::new(mapped(self.table[lpn.0 as usize]), at, How::CachedEntry))
    }

    #[inline]
    fn expect<N: Nand>(&self, flash: &Flash<N>, _table: &Table, lpn: Lpn, coming: Coming) {
        match coming {
            Coming::Later => prefetch_index(&self.table, lpn.0 as usize),
            _ => expect_page(flash, Ppn(self.table[lpn.0 as usize]), coming),
        }
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
        for slot in slots {
            if let Some(old) = self.set(table, Lpn(first + slot), None) {
                flash.invalidate(old);
            }
        }
        Ok(at)
    }

    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table) -> Result<Option<Done>> {
        while self.first_dirty < self.dirty.len() && !self.dirty[self.first_dirty] {
            self.first_dirty += 1;
        }
        if self.first_dirty == self.dirty.len() {
            return Ok(None);
        }
        let vtpn = Vtpn(self.first_dirty as u32);
        let (first, lpns) = (table.first_lpn(vtpn).0 as usize, table.lpns_in(vtpn) as usize);
        self.page.fill(0xff);
        for (bytes, entry) in self.page.chunks_exact_mut(4).zip(&self.table[first..first + lpns]) {
            bytes.copy_from_slice(&entry.to_le_bytes());
        }
        let settled = *self.settled.get_or_insert_with(|| flash.settle());
        let done = table.replace(flash, vtpn, &self.page, Cause::Checkpoint, settled)?;
        self.dirty[self.first_dirty] = false;
        Ok(Some(done))
    }

    fn entries<N: Nand>(&self, of: Unit<'_, N, Table>, entries: &mut Vec<u32>) {
        of.entries_or(entries, |lpn| Some(self.table[lpn.0 as usize]));
    }

    fn memory(&self, _table: &Table) -> Memory {
        Memory { parts: vec![("page map", 4 * self.table.len() as u64)] }
    }

    fn check<N: Nand>(&self, _flash: &Flash<N>, _table: &Table) -> Result<(), Breach> {
        match self.dirty.iter().position(|&dirty| dirty) {
            Some(first) if first < self.first_dirty => {
                Err(format!("translation page {first} is dirty but would not be written").into())
            }
            _ => Ok(()),
        }
    }
}

impl Update for WholeTable {
    /// The table is at hand: no trim goes the way of a write.
    const TRIM_BY_ENTRY: u32 = 0;

    #[inline]
    fn update<N: Nand>(&mut self, _flash: &mut Flash<N>, table: &mut Table, to: Change) -> Result<Lookup> {
        let Change { lpn, ppn, at, .. } = to;
        Ok(Lookup::new(self.set(table, lpn, ppn), at, How::CachedEntry))
    }

    #[inline]
    fn moved<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, moves: &[Moved]) -> Result<Done> {
        for moved in moves {
            self.set(table, moved.lpn, Some(moved.to));
        }
        flash.counters.gc_hits += moves.len() as u64;
        Ok(Done::READY)
    }
}
