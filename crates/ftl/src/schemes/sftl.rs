//! S-FTL: Jiang, Zhang, Yuan, Hu, Chen, "S-FTL: An Efficient Address Translation for Flash Memory by
//! Exploiting Spatial Locality", MSST 2011.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | cached translation pages, LRU | [`SpatialTable::pages`] | `cmt::pages` |
//! | a page shrunk by the sequentiality of its PPNs: one bit an entry, one PPN a run | [`Compression`] | here |
//! | dirty buffer for the sparse dirty entries of evicted pages | [`SpatialTable::buffer`] | `cmt::two_level` |
//! | GTD, translation pages | [`Table`] | `table` |
//!
//! Choices where only facts on the paper are at hand, or it is silent:
//! - A cached page is charged 8 bytes (VTPN, links, counts), one bit an entry that marks the head of a run,
//!   and 4 bytes a head; never more than its whole content and the 8 bytes. Entries that are mapped nowhere
//!   in a row are one run.
//! - The dirty entries of a page are known one by one while they are few enough for the dirty buffer (2 bytes
//!   each, charged); of a page with more, only that it is dirty, and the list is dropped. Without a buffer
//!   (`buffer=0`) no page has a list.
//! - An entry in the dirty buffer is charged 6 bytes, a page with entries there 8, as a TP node of TPFTL. It
//!   is found by lookups and changed by updates there, without its page. How cold a page is
//!   there goes by updates, not by lookups.
//! - The dirty buffer is a tenth of what the directory leaves (parameter `buffer`). A page is sparse with up
//!   to 16 dirty entries (parameter `sparse`). docs/schemes/sftl.md has the sweep.
//! - When an evicted sparse page does not fit the buffer, the coldest buffered pages are written, by a read
//!   and a program each. With `batch=largest` the page with the most entries is written, of this one
//!   (whole, by one program) and the buffered ones. That saves writes while a workload is new, until the
//!   buffer is full of pages with one entry that nobody uses again: docs/schemes/sftl.md has both.
//! - A page that is loaded takes its entries out of the dirty buffer.
//! - An update can lengthen a page; then others leave. The page in use does not.
//! - What counts as replaced is a page; as replaced dirty, one with dirty entries, whether they are written
//!   now or go to the buffer.
//! - Trims as in CDFTL.

use crate::breach::Breach;
use crate::cmt::pages::{continues, PageCache};
use crate::cmt::two_level::{TwoLevel, ENTRY_BYTES, NODE_BYTES};
use crate::counters::Cause;
use crate::engine::Ftl;
use crate::flash::Flash;
use crate::list::NONE;
use crate::mapping::{Ask, Change, How, Lookup, Mapping, Moved, Unit, Update};
use crate::scheme::{CachedPage, Coming, Config, ConfigError, Info, Memory, Parameter};
use crate::table::{entry, mapped, Table, PROGRAM_BUFFER};
use nand::{Done, Lpn, Nand, Result, Vtpn};
use std::ops::Range;

/// S-FTL: the engine with a cache of compressed translation pages.
pub type Sftl = Ftl<SpatialTable>;

const HEADER_BYTES: u64 = 8;
const HEAD_BYTES: u64 = 4;
/// A place in a page, kept for each dirty entry while they are few.
const SLOT_BYTES: u64 = 2;

/// Which page's entries leave a full dirty buffer.
#[derive(Clone, Copy, Debug)]
enum Batch {
    Coldest,
    Largest,
}

/// Runs of each cached page, and the bytes that they come to.
#[derive(Clone, Debug)]
struct Compression {
    /// By frame.
    runs: Vec<u32>,
    /// Of all cached pages.
    used_bytes: u64,
    budget_bytes: u64,
    entries: u32,
    /// Dirty entries up to which a page is sparse.
    sparse: u32,
}

impl Compression {
    /// Bytes of a page of `runs` runs with `dirty` dirty entries.
    fn page_bytes(&self, runs: u32, dirty: u32) -> u64 {
        let compressed = u64::from(self.entries).div_ceil(8) + HEAD_BYTES * u64::from(runs);
        let list = if dirty <= self.sparse { SLOT_BYTES * u64::from(dirty) } else { 0 };
        HEADER_BYTES + compressed.min(4 * u64::from(self.entries)) + list
    }

    /// Bytes of a frame.
    fn bytes(&self, pages: &PageCache, frame: u32) -> u64 {
        self.page_bytes(self.runs[frame as usize], pages.dirty(frame))
    }

    /// Counts the runs of a frame anew.
    fn count(&self, pages: &PageCache, frame: u32) -> u32 {
        let words = pages.content(frame).chunks_exact(4);
        let entries = words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        let mut before = None;
        let mut runs = 0;
        for entry in entries {
            runs += u32::from(!before.is_some_and(|before| continues(before, entry)));
            before = Some(entry);
        }
        runs
    }

    /// Whether `slot` is the head of a run; past the end there is none.
    fn is_head(&self, pages: &PageCache, frame: u32, slot: u32) -> bool {
        slot < self.entries
            && (slot == 0 || !continues(pages.entry(frame, slot - 1), pages.entry(frame, slot)))
    }

    /// Heads at `slot` and after it: what a change of the entry at `slot` can change.
    fn heads_at(&self, pages: &PageCache, frame: u32, slot: u32) -> u32 {
        u32::from(self.is_head(pages, frame, slot)) + u32::from(self.is_head(pages, frame, slot + 1))
    }
}

/// Compressed translation pages and a dirty buffer.
///
/// Of a cached page nothing is in the dirty buffer.
#[derive(Clone, Debug)]
pub struct SpatialTable {
    pages: PageCache,
    compression: Compression,
    buffer: TwoLevel,
    batch: Batch,
    edits: Vec<(u32, u32)>,
}

impl SpatialTable {
    /// Changes an entry of a cached page. Returns what it was.
    fn set<N: Nand>(&mut self, flash: &mut Flash<N>, frame: u32, slot: u32, ppn: u32, done: Done) -> u32 {
        let (pages, compression) = (&mut self.pages, &mut self.compression);
        compression.used_bytes -= compression.bytes(pages, frame);
        compression.runs[frame as usize] -= compression.heads_at(pages, frame, slot);
        let old = pages.write(flash, frame, slot, ppn, done);
        compression.runs[frame as usize] += compression.heads_at(pages, frame, slot);
        compression.used_bytes += compression.bytes(pages, frame);
        old
    }

    /// Brings a translation page that is not cached into memory. Returns its frame, and when there is room
    /// for it too: what it takes is known when it is read.
    fn fetch<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        vtpn: Vtpn,
        at: Done,
    ) -> Result<(u32, Done)> {
        let (frame, loaded) = self.pages.load(flash, table, vtpn, Cause::Translation, at)?;
        self.compression.runs[frame as usize] = self.compression.count(&self.pages, frame);
        self.compression.used_bytes += self.compression.bytes(&self.pages, frame);
        if self.buffer.len_of(vtpn) > 0 {
            let programmed = self.take_buffered(flash, table, vtpn);
            for at in 0..self.edits.len() {
                let (slot, ppn) = self.edits[at];
                self.set(flash, frame, slot, ppn, programmed);
            }
            self.drop_buffered(table, vtpn);
        }
        let room = self.shrink(flash, table, frame, Cause::Translation, loaded)?;
        Ok((frame, room))
    }

    /// Adds what the dirty buffer holds of a translation page to the edits. Returns when the pages they lead
    /// to are programmed.
    fn take_buffered<N: Nand>(&mut self, flash: &mut Flash<N>, table: &Table, vtpn: Vtpn) -> Done {
        let mut programmed = Done::READY;
        let edits = &mut self.edits;
        edits.clear();
        self.buffer.each_dirty(vtpn, |buffered| {
            edits.push((table.place(buffered.lpn).1, buffered.ppn));
            programmed = flash.join(programmed, buffered.done);
        });
        programmed
    }

    /// Drops from the dirty buffer what the edits hold of a translation page.
    fn drop_buffered(&mut self, table: &Table, vtpn: Vtpn) {
        let first = table.first_lpn(vtpn).0;
        for &(slot, _) in &self.edits {
            self.buffer.remove(Lpn(first + slot));
        }
    }

    /// Puts pages out of the cache until the budget holds, the least recently used first, but not `keep`.
    fn shrink<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        keep: u32,
        cause: Cause,
        at: Done,
    ) -> Result<Done> {
        let mut at = at;
        while self.compression.used_bytes > self.compression.budget_bytes {
            let tail = self.pages.tail();
            let victim = if tail == keep { self.pages.newer(tail) } else { tail };
            assert!(victim != NONE, "a single translation page does not fit the cache");
            at = self.evict(flash, table, victim, cause, at)?;
        }
        Ok(at)
    }

    /// Puts one page out of the cache: at most one translation page is written.
    fn evict<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        victim: u32,
        cause: Cause,
        at: Done,
    ) -> Result<Done> {
        let bytes = self.compression.bytes(&self.pages, victim);
        let dirty = self.pages.dirty(victim);
        let (buffered, done) = self.make_buffer_room(flash, table, dirty, cause, at)?;
        let mut done = done;
        if buffered {
            let first = table.first_lpn(self.pages.vtpn(victim)).0;
            let programmed = self.pages.settled(flash, victim, Done::READY);
            self.pages.each_dirty(victim, |slot, ppn| {
                self.buffer.insert(Lpn(first + slot), ppn, programmed);
                self.buffer.write(Lpn(first + slot), ppn, programmed);
            });
        } else if dirty > 0 {
            done = self.pages.write_back(flash, table, victim, cause, done)?;
        }
        flash.counters.replaced += 1;
        flash.counters.replaced_dirty += u64::from(dirty > 0);
        self.compression.used_bytes -= bytes;
        self.pages.remove(victim);
        Ok(done)
    }

    /// Makes room in the dirty buffer for `dirty` entries of a page, if that is worth it: if they are few
    /// and, where the largest page is written, a buffered one has more. Whether there is room now.
    fn make_buffer_room<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        dirty: u32,
        cause: Cause,
        at: Done,
    ) -> Result<(bool, Done)> {
        if dirty == 0 || dirty > self.compression.sparse {
            return Ok((false, at));
        }
        let needed = NODE_BYTES + u64::from(dirty) * ENTRY_BYTES;
        let (entries, nodes) = self.buffer.bytes();
        if needed > self.buffer.free_bytes() + entries + nodes {
            return Ok((false, at));
        }
        let mut at = at;
        while self.buffer.free_bytes() < needed {
            let leaving = match self.batch {
                Batch::Coldest => self.buffer.coldest(),
                Batch::Largest => {
                    self.largest_buffered().filter(|page| page.dirty > dirty).map(|page| page.vtpn)
                }
            };
            let Some(vtpn) = leaving else { return Ok((false, at)) };
            at = self.write_buffered(flash, table, vtpn, cause, at)?;
        }
        Ok((true, at))
    }

    fn largest_buffered(&self) -> Option<CachedPage> {
        let mut largest: Option<CachedPage> = None;
        self.buffer.each_node(&mut |page| {
            if largest.is_none_or(|l| (l.dirty, l.vtpn.0) < (page.dirty, page.vtpn.0)) {
                largest = Some(page);
            }
        });
        largest
    }

    /// Writes the buffered entries of a translation page, all in one update, and drops them.
    fn write_buffered<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        vtpn: Vtpn,
        cause: Cause,
        at: Done,
    ) -> Result<Done> {
        let programmed = self.take_buffered(flash, table, vtpn);
        let after = flash.join(at, programmed);
        let done = table.store(flash, vtpn, &self.edits, cause, after)?;
        self.drop_buffered(table, vtpn);
        Ok(done)
    }
}

impl Mapping for SpatialTable {
    type Pages = Table;

    const INFO: Info = Info {
        name: "sftl",
        what: "whole translation pages cached, compressed by sequential runs; a dirty buffer for sparse dirty entries",
        paper: "Jiang et al.: S-FTL, MSST 2011",
        stats: &[],
        parameters: &[
            Parameter {
                name: "buffer",
                default: "10",
                what: "bytes of the dirty buffer, percent of the cache",
            },
            Parameter {
                name: "sparse",
                default: "16",
                what: "dirty entries up to which an evicted page goes to the dirty buffer",
            },
            Parameter {
                name: "batch",
                default: "coldest",
                what: "which page's entries leave a full dirty buffer: coldest, or largest",
            },
            PROGRAM_BUFFER,
        ],
    };

    fn new<N: Nand>(_flash: &mut Flash<N>, table: &Table, config: &Config) -> Result<Self, ConfigError> {
        let percent = config.number(&Self::INFO, "buffer", 0..=90u32)?;
        let sparse = config.number(&Self::INFO, "sparse", 0..=table.entries_per_page())?;
        // Without a buffer nobody asks for a page's dirty entries one by one.
        let sparse = if percent == 0 { 0 } else { sparse };
        let batch = match config.parameter(&Self::INFO, "batch").as_str() {
            "coldest" => Batch::Coldest,
            "largest" => Batch::Largest,
            other => {
                return Err(ConfigError(format!(
                    "scheme sftl: batch = '{other}'; coldest or largest is needed"
                )))
            }
        };
        let entries = table.entries_per_page();
        let page = HEADER_BYTES + 4 * u64::from(entries) + SLOT_BYTES * u64::from(sparse);
        let least = (page * 100).div_ceil(u64::from(100 - percent)) + 1;
        let bytes = table.cache_bytes("sftl", config, least)?;
        let buffer_bytes = bytes * u64::from(percent) / 100;
        let mut compression = Compression {
            runs: Vec::new(),
            used_bytes: 0,
            budget_bytes: bytes - buffer_bytes,
            entries,
            sparse,
        };
        let most = compression.budget_bytes / compression.page_bytes(1, 0) + 1;
        let pages = PageCache::new(table, usize::try_from(most).unwrap_or(usize::MAX));
        compression.runs = vec![0; most.min(u64::from(table.pages())) as usize];
        let buffer = TwoLevel::new(buffer_bytes, table.pages(), entries);
        Ok(SpatialTable { pages, compression, buffer, batch, edits: Vec::with_capacity(entries as usize) })
    }

    // Lookups

    #[inline]
    fn lookup<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, ask: Ask) -> Result<Lookup> {
        let Ask { lpn, at, .. } = ask;
        let (vtpn, slot) = table.place(lpn);
        if let Some(frame) = self.pages.find(vtpn) {
            self.pages.touch(frame);
            let loaded = flash.join(at, self.pages.loaded(frame));
            return Ok(Lookup::new(mapped(self.pages.entry(frame, slot)), loaded, How::CachedPage));
        }
        if let Some(&buffered) = self.buffer.peek(lpn) {
            return Ok(Lookup::new(mapped(buffered.ppn), at, How::CachedEntry));
        }
        let (frame, known) = self.fetch(flash, table, vtpn, at)?;
        Ok(Lookup::new(mapped(self.pages.entry(frame, slot)), known, How::Loaded))
    }

    #[inline]
    fn expect<N: Nand>(&self, flash: &Flash<N>, table: &Table, lpn: Lpn, coming: Coming) {
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
        let Some(frame) = self.pages.find(vtpn) else {
            return table.trim(flash, vtpn, slots, at, |lpn| {
                self.buffer.remove(lpn).map(|(dropped, _)| mapped(dropped.ppn))
            });
        };
        let (pages, compression) = (&mut self.pages, &mut self.compression);
        compression.used_bytes -= compression.bytes(pages, frame);
        pages.trim(flash, frame, slots, |_| None);
        compression.runs[frame as usize] = compression.count(pages, frame);
        compression.used_bytes += compression.bytes(pages, frame);
        let loaded = flash.join(at, pages.loaded(frame));
        self.shrink(flash, table, frame, Cause::Translation, loaded)
    }

    // Checkpoint and checks

    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table) -> Result<Option<Done>> {
        if let Some(frame) = self.pages.find_dirty() {
            let before = self.compression.bytes(&self.pages, frame);
            let done = self.pages.write_back(flash, table, frame, Cause::Checkpoint, Done::READY)?;
            let after = self.compression.bytes(&self.pages, frame);
            self.compression.used_bytes = self.compression.used_bytes - before + after;
            return Ok(Some(done));
        }
        match self.buffer.coldest() {
            Some(vtpn) => self.write_buffered(flash, table, vtpn, Cause::Checkpoint, Done::READY).map(Some),
            None => Ok(None),
        }
    }

    fn entries<N: Nand>(&self, of: Unit<'_, N, Table>, entries: &mut Vec<u32>) {
        let frame = self.pages.find(of.unit);
        of.entries_or(entries, |lpn| match frame {
            Some(frame) => Some(self.pages.entry(frame, of.pages.place(lpn).1)),
            None => self.buffer.peek(lpn).map(|buffered| buffered.ppn),
        });
    }

    fn memory(&self, _table: &Table) -> Memory {
        let (entries, nodes) = self.buffer.bytes();
        Memory {
            parts: vec![("compressed pages", self.compression.used_bytes), ("dirty buffer", entries + nodes)],
        }
    }

    fn cached(&self, table: &Table, each: &mut dyn FnMut(CachedPage)) {
        for frame in self.pages.iter() {
            let vtpn = self.pages.vtpn(frame);
            each(CachedPage { vtpn, entries: table.lpns_in(vtpn), dirty: self.pages.dirty(frame) });
        }
        self.buffer.each_node(each);
    }

    fn check<N: Nand>(&self, _flash: &Flash<N>, _table: &Table) -> Result<(), Breach> {
        self.pages.check()?;
        self.buffer.check()?;
        let mut used = 0;
        for frame in self.pages.iter() {
            let vtpn = self.pages.vtpn(frame);
            used += self.compression.bytes(&self.pages, frame);
            if self.compression.runs[frame as usize] != self.compression.count(&self.pages, frame) {
                return Err(format!("the runs of translation page {} are miscounted", vtpn.0).into());
            }
            if self.buffer.len_of(vtpn) > 0 {
                return Err(format!("translation page {} is cached and in the dirty buffer", vtpn.0).into());
            }
        }
        if used != self.compression.used_bytes || used > self.compression.budget_bytes {
            return Err(format!(
                "cached pages take {used} bytes, counted as {}, of {}",
                self.compression.used_bytes, self.compression.budget_bytes
            )
            .into());
        }
        Ok(())
    }
}

impl Update for SpatialTable {
    #[inline]
    fn update<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, to: Change) -> Result<Lookup> {
        let Change { lpn, ppn, programmed, at, .. } = to;
        let (vtpn, slot) = table.place(lpn);
        let (frame, known, how) = match self.pages.find(vtpn) {
            Some(frame) => {
                self.pages.touch(frame);
                (frame, flash.join(at, self.pages.loaded(frame)), How::CachedPage)
            }
            None => {
                if let Some(buffered) = self.buffer.write(lpn, entry(ppn), programmed) {
                    return Ok(Lookup::new(mapped(buffered.ppn), at, How::CachedEntry));
                }
                let (frame, known) = self.fetch(flash, table, vtpn, at)?;
                (frame, known, How::Loaded)
            }
        };
        let old = self.set(flash, frame, slot, entry(ppn), programmed);
        let room = self.shrink(flash, table, frame, Cause::Translation, known)?;
        Ok(Lookup::new(mapped(old), room, how))
    }

    /// Mappings of a cached page, and buffered ones, change in memory. If another has to change on flash,
    /// what is buffered of its page goes with it.
    fn moved<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, moves: &[Moved]) -> Result<Done> {
        let vtpn = table.place(moves[0].lpn).0;
        if let Some(frame) = self.pages.find(vtpn) {
            for moved in moves {
                self.set(flash, frame, moved.slot, moved.to.0, moved.done);
            }
            flash.counters.gc_hits += moves.len() as u64;
            return self.shrink(flash, table, frame, Cause::Collection, Done::READY);
        }
        let mut misses = 0;
        for moved in moves {
            if self.buffer.relocate(moved.lpn, moved.to.0, moved.done) {
                flash.counters.gc_hits += 1;
            } else {
                misses += 1;
            }
        }
        flash.counters.gc_misses += misses;
        if misses == 0 {
            return Ok(Done::READY);
        }
        let mut after = self.take_buffered(flash, table, vtpn);
        let buffered = self.edits.len();
        for moved in moves.iter().filter(|moved| !self.buffer.contains(moved.lpn)) {
            self.edits.push((moved.slot, moved.to.0));
            after = flash.join(after, moved.done);
        }
        let done = table.store(flash, vtpn, &self.edits, Cause::Collection, after)?;
        self.edits.truncate(buffered);
        self.drop_buffered(table, vtpn);
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmt::tests::mapped_table;
    use crate::engine::count_updates;
    use crate::mapping::Pages;
    use nand::timing::NoClock;
    use nand::{Ppn, SimNand};
    use proptest::prelude::*;

    struct World {
        flash: Flash<SimNand<NoClock>>,
        table: Table,
        mapping: SpatialTable,
    }

    impl World {
        /// Six translation pages of 128 mapped entries; `cache_bytes` beside the directory.
        fn new(cache_bytes: u64, parameters: &[(&str, &str)]) -> World {
            let (mut flash, table) = mapped_table(6);
            let mut config = Config::new(6 * 128, table.directory_bytes() + cache_bytes);
            for (name, value) in parameters {
                config.parameters.insert((*name).to_owned(), (*value).to_owned());
            }
            let mapping = SpatialTable::new(&mut flash, &table, &config).unwrap();
            World { flash, table, mapping }
        }

        fn read(&mut self, lpn: u32) -> Option<Ppn> {
            let (flash, table) = (&mut self.flash, &mut self.table);
            let found =
                self.mapping.lookup(flash, table, Ask { lpn: Lpn(lpn), rest: 1, at: Done::READY }).unwrap();
            count_updates(&mut self.flash.counters, found.how, 1);
            found.ppn
        }

        fn write(&mut self, lpn: u32, ppn: u32) -> Option<Ppn> {
            let (flash, table) = (&mut self.flash, &mut self.table);
            let ppn = mapped(ppn);
            self.mapping
                .update(
                    flash,
                    table,
                    Change { lpn: Lpn(lpn), rest: 1, ppn, programmed: Done::READY, at: Done::READY },
                )
                .unwrap()
                .ppn
        }

        fn counts(&self) -> (u64, u64, u64, u64) {
            let c = &self.flash.counters;
            (c.reads_by(Cause::Translation), c.programs_by(Cause::Translation), c.replaced, c.replaced_dirty)
        }
    }

    /// A page as a firmware would hold it: a bit an entry for heads, and their PPNs.
    fn pack(entries: &[u32]) -> (Vec<u64>, Vec<u32>) {
        let mut bits = vec![0; entries.len().div_ceil(64)];
        let mut heads = Vec::new();
        for (slot, &entry) in entries.iter().enumerate() {
            if slot == 0 || !continues(entries[slot - 1], entry) {
                bits[slot / 64] |= 1 << (slot % 64);
                heads.push(entry);
            }
        }
        (bits, heads)
    }

    /// The entry of a packed page.
    fn unpack(bits: &[u64], heads: &[u32], slot: usize) -> u32 {
        let is_head = |slot: usize| bits[slot / 64] >> (slot % 64) & 1 == 1;
        let rank = (0..=slot).filter(|&slot| is_head(slot)).count();
        let distance = (0..=slot).rev().position(is_head).unwrap() as u32;
        let head = heads[rank - 1];
        if head == crate::table::UNMAPPED {
            head
        } else {
            head + distance
        }
    }

    proptest! {
        #[test]
        fn charged_is_what_the_packed_page_takes(changes in prop::collection::vec((0u32..128, 0u32..140), 0..150)) {
            let mut w = World::new(4096, &[("sparse", "0")]);
            w.read(0);
            let frame = w.mapping.pages.find(Vtpn(0)).unwrap();
            for (slot, to) in changes {
                let ppn = if to < 12 { crate::table::UNMAPPED } else { 9_990 + to };
                w.mapping.set(&mut w.flash, frame, slot, ppn, Done::READY);
                let entries: Vec<u32> = (0..128).map(|slot| w.mapping.pages.entry(frame, slot)).collect();
                let (bits, heads) = pack(&entries);
                let packed = 8 * bits.len() as u64 + 4 * heads.len() as u64;
                prop_assert_eq!(w.mapping.compression.used_bytes, HEADER_BYTES + packed.min(512));
                for (slot, &entry) in entries.iter().enumerate() {
                    prop_assert_eq!(unpack(&bits, &heads, slot), entry);
                }
                prop_assert_eq!(w.mapping.check(&w.flash, &w.table), Ok(()));
            }
        }
    }

    #[test]
    fn sequential_pages_are_small_and_many_fit() {
        let mut w = World::new(6 * (8 + 16 + 4) + 512, &[("buffer", "0"), ("sparse", "0")]);
        (0..6).for_each(|vtpn| _ = w.read(vtpn * 128 + 7));
        assert_eq!(w.mapping.pages.len(), 6, "28 bytes each instead of 520");
        (0..6).for_each(|vtpn| assert_eq!(w.read(vtpn * 128 + 9), Some(Ppn(10_009 + vtpn * 128))));
        assert_eq!((w.flash.counters.page_hits, w.counts()), (6, (6, 0, 0, 0)));
    }

    #[test]
    fn scattered_updates_lengthen_a_page_until_others_leave() {
        let mut w = World::new(600, &[("buffer", "0"), ("sparse", "0")]);
        (0..6).for_each(|vtpn| _ = w.read(vtpn * 128));
        for slot in (1..128).step_by(2) {
            w.write(slot, 500 + slot);
        }
        assert!(w.mapping.pages.find(Vtpn(0)).is_some(), "the page in use stays");
        assert_eq!(w.mapping.pages.find(Vtpn(1)), None, "the least recently used left");
        assert!(w.mapping.compression.used_bytes <= 600);
        assert_eq!(w.counts().3, 0);
        assert_eq!(w.mapping.check(&w.flash, &w.table), Ok(()));
    }

    #[test]
    fn without_a_buffer_no_page_has_a_list_of_dirty_entries() {
        let bytes = |buffer: &str| {
            let mut w = World::new(2000, &[("buffer", buffer), ("sparse", "4")]);
            w.write(0, 900);
            assert_eq!(w.mapping.check(&w.flash, &w.table), Ok(()));
            w.mapping.compression.used_bytes
        };
        assert_eq!(bytes("10"), bytes("0") + SLOT_BYTES);
    }

    fn evict(w: &mut World, vtpn: u32) {
        let frame = w.mapping.pages.find(Vtpn(vtpn)).unwrap();
        w.mapping.evict(&mut w.flash, &mut w.table, frame, Cause::Translation, Done::READY).unwrap();
    }

    /// One page with `dirty` entries changed, then pushed out by pages made too long for two.
    fn pushed_out(w: &mut World, dirty: u32) {
        (0..dirty).for_each(|slot| _ = w.write(3 * slot, 900 + 7 * slot));
        evict(w, 0);
    }

    #[test]
    fn a_sparse_page_goes_to_the_dirty_buffer_and_comes_back_with_its_page() {
        let mut w = World::new(2000, &[("buffer", "10"), ("sparse", "4")]);
        pushed_out(&mut w, 4);
        assert_eq!(w.counts(), (1, 0, 1, 1), "nothing is written");
        assert_eq!(w.mapping.buffer.len(), 4);
        assert_eq!((w.read(3), w.flash.counters.cmt_hits), (Some(Ppn(907)), 1));
        assert_eq!(w.write(3, 1000), Some(Ppn(907)));
        assert_eq!(w.read(1), Some(Ppn(10_001)), "its page is loaded");
        assert_eq!((w.mapping.buffer.len(), w.mapping.pages.dirty(0)), (0, 4));
        assert_eq!((w.read(3), w.read(6)), (Some(Ppn(1000)), Some(Ppn(914))));
        assert_eq!(w.mapping.check(&w.flash, &w.table), Ok(()));
    }

    #[test]
    fn a_dense_page_is_written_whole_without_a_read() {
        let mut w = World::new(2000, &[("buffer", "10"), ("sparse", "4")]);
        pushed_out(&mut w, 5);
        assert_eq!(w.counts(), (1, 1, 1, 1), "the read is the load");
        let mut content = Vec::new();
        w.table.inspect(&w.flash, Vtpn(0), &mut content);
        assert_eq!(crate::table::entry_in(&content, 12), 928);
    }

    #[test]
    fn entries_that_nobody_uses_again_leave_the_buffer() {
        // Room for two pages with two entries each.
        let mut w = World::new(2000, &[("buffer", "2")]);
        assert_eq!(w.mapping.buffer.free_bytes(), 40);
        for (page, lpn) in [(1, 128), (2, 256)] {
            w.write(lpn, 900);
            w.write(lpn + 2, 800);
            evict(&mut w, page);
        }
        assert_eq!((w.mapping.buffer.len_of(Vtpn(1)), w.mapping.buffer.len_of(Vtpn(2))), (2, 2));
        let before = w.counts();
        w.write(0, 700);
        evict(&mut w, 0);
        assert_eq!(
            (w.mapping.buffer.len_of(Vtpn(0)), w.mapping.buffer.len_of(Vtpn(1))),
            (1, 0),
            "page 1 is older"
        );
        assert_eq!(
            (w.counts().0, w.counts().1),
            (before.0 + 2, before.1 + 1),
            "a load, a read and a program"
        );
        pushed_out(&mut w, 6);
        assert_eq!(w.mapping.buffer.len_of(Vtpn(2)), 2, "six entries would not fit the empty buffer");
        assert_eq!(w.mapping.check(&w.flash, &w.table), Ok(()));
    }

    #[test]
    fn when_the_buffer_is_full_the_largest_is_written() {
        // Room for 8 + 5 * 6 + 8 + 2 * 6 bytes.
        let mut w = World::new(2000, &[("buffer", "3"), ("sparse", "9"), ("batch", "largest")]);
        assert_eq!(w.mapping.buffer.free_bytes(), 60);
        pushed_out(&mut w, 5);
        for lpn in [128, 130] {
            w.write(lpn, lpn);
        }
        evict(&mut w, 1);
        assert_eq!((w.mapping.buffer.len(), w.counts().1), (7, 0));
        for lpn in [256, 258, 260] {
            w.write(lpn, lpn);
        }
        let before = w.counts();
        evict(&mut w, 2);
        assert_eq!(w.mapping.buffer.len_of(Vtpn(0)), 0, "five are more than three and two");
        assert_eq!(
            (w.counts().0, w.counts().1),
            (before.0 + 1, 1),
            "a read and a program for the buffered page"
        );
        for slot in 0..8 {
            w.write(384 + slot, 700 + 2 * slot);
        }
        evict(&mut w, 3);
        assert_eq!(w.mapping.buffer.len(), 5, "eight are more than two and three: written whole");
        assert_eq!((w.counts().0, w.counts().1), (before.0 + 2, 2), "one read more for the load of page 3");
        assert_eq!(w.mapping.check(&w.flash, &w.table), Ok(()));
    }
}
