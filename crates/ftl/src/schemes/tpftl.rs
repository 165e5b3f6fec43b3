//! TPFTL: Zhou, Wu, Huang, He, Xie, Zhou, "An Efficient Page-level FTL to Optimize Address Translation in
//! Flash Memory", EuroSys 2015.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | TP node, entry node, two-level LRU, page-level hotness (4.2) | [`TwoLevel`] | `cmt::two_level` |
//! | request-level prefetching, `r` (4.3) | [`ClusteredTable::prefetch_length`] | here |
//! | selective prefetching, `s`, its counter (4.3) | [`Selective`] | here |
//! | batch-update replacement, `b` (4.4) | [`ClusteredTable::write_back`], [`Update::moved`] | here |
//! | clean-first replacement, `c` (4.4) | [`TwoLevel::victims_of`] | `cmt::two_level` |
//! | limits of prefetching (4.5) | [`ClusteredTable::prefetch_length`], [`ClusteredTable::replace`] | here |
//! | GTD, translation pages (4.1) | [`Table`] | `table` |
//!
//! Choices where the paper is silent:
//! - When both prefetching techniques apply, the longer length counts.
//! - `threshold=0` is ours, not the paper's: selective prefetching is always on. The number of cached
//!   predecessors, which is the length that it prefetches, tells a sequence by itself. So it works also where
//!   the number of TP nodes says nothing: in a cache that has a node of every translation page, and under
//!   several sequences at a time.
//! - Prefetched entries are as hot as if used just before the requested one, which is the most recently used.
//! - The hotness of an entry is the time of its last use, counted in uses; the paper defines only the average
//!   over it.
//! - A TP node is charged 8 bytes beside 6 bytes an entry (see `cmt::two_level`).
//! - Without batch update, the dirty victims of one replacement are written in one update of their
//!   translation page: 4.5 promises that there is no second.
//! - The victim node may be the one of the requested entry, when it is the coldest.
//! - Trims as in DFTL.

use crate::breach::Breach;
use crate::cmt::two_level::{TwoLevel, ENTRY_BYTES, NODE_BYTES};
use crate::counters::Cause;
use crate::engine::Ftl;
use crate::flash::Flash;
use crate::mapping::{Ask, Change, How, Lookup, Mapping, Moved, Unit, Update};
use crate::scheme::{CachedPage, Coming, Config, ConfigError, Info, Memory, Parameter};
use crate::table::{entry, entry_in, mapped, Table, PROGRAM_BUFFER, UNMAPPED};
use nand::{Done, Lpn, Nand, Ppn, Result, Vtpn};
use std::ops::Range;

/// TPFTL: the engine with entries clustered by translation page.
pub type Tpftl = Ftl<ClusteredTable>;

/// Which of the paper's techniques are on (its figures 7 and 8 switch them).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Techniques {
    /// A miss loads the mappings of its whole request (4.3), letter `r`.
    pub request_prefetch: bool,
    /// A miss in a sequence loads as many mappings ahead as it has predecessors (4.3), letter `s`.
    pub selective_prefetch: bool,
    /// A write-back takes all dirty entries of its TP node (4.4), letter `b`.
    pub batch_update: bool,
    /// Clean entries of a TP node leave before dirty ones (4.4), letter `c`.
    pub clean_first: bool,
}

impl Techniques {
    /// Reads a string of the paper's letters, in any order; `-` stands for none.
    fn parse(letters: &str) -> Option<Techniques> {
        let known = letters == "-" || letters.chars().all(|letter| "rsbc".contains(letter));
        known.then(|| Techniques {
            request_prefetch: letters.contains('r'),
            selective_prefetch: letters.contains('s'),
            batch_update: letters.contains('b'),
            clean_first: letters.contains('c'),
        })
    }
}

/// Recognises sequential access by the number of TP nodes (4.3): it falls while a sequence runs and rises
/// after it.
#[derive(Clone, Copy, Debug)]
pub struct Selective {
    counter: i32,
    /// 0: always active.
    threshold: i32,
    active: bool,
}

impl Selective {
    fn node_loaded(&mut self) {
        self.counter += 1;
        self.decide();
    }

    fn node_evicted(&mut self) {
        self.counter -= 1;
        self.decide();
    }

    fn decide(&mut self) {
        if self.threshold > 0 && self.counter.abs() >= self.threshold {
            self.active = self.counter < 0;
            self.counter = 0;
        }
    }
}

/// Mappings cached in TP nodes.
#[derive(Clone, Debug)]
pub struct ClusteredTable {
    cache: TwoLevel,
    techniques: Techniques,
    selective: Selective,
    edits: Vec<(u32, u32)>,
    victims: Vec<u32>,
    /// No translation page below this one has dirty entries, while a checkpoint runs.
    clean_below: u32,
}

impl ClusteredTable {
    /// The smallest cache beside the directory: four TP nodes with an entry each.
    pub(crate) const LEAST_BYTES: u64 = 4 * (ENTRY_BYTES + NODE_BYTES);

    /// Entries to load beside that of `lpn`, when `rest` pages of the request are left: within its
    /// translation page (first limit of 4.5).
    fn prefetch_length(&self, table: &Table, lpn: Lpn, rest: u32) -> u32 {
        let by_request = if self.techniques.request_prefetch { rest - 1 } else { 0 };
        let by_sequence = if self.techniques.selective_prefetch && self.selective.active {
            self.cache.predecessors(lpn)
        } else {
            0
        };
        let (vtpn, slot) = table.place(lpn);
        by_request.max(by_sequence).min(table.lpns_in(vtpn) - slot - 1)
    }

    /// What is cached of `lpn`, which is used now.
    #[inline]
    pub(crate) fn find(&mut self, lpn: Lpn) -> Option<(Option<Ppn>, Done)> {
        self.cache.touch(lpn).map(|hit| (mapped(hit.ppn), hit.done))
    }

    /// What is cached of `lpn`. That is no use of it.
    #[inline]
    pub(crate) fn held(&self, lpn: Lpn) -> Option<Option<Ppn>> {
        self.cache.peek(lpn).map(|cached| mapped(cached.ppn))
    }

    /// Whether `lpn` is cached. That is no use of it.
    #[inline]
    pub(crate) fn holds(&self, lpn: Lpn) -> bool {
        self.cache.contains(lpn)
    }

    /// Changes what is cached of `lpn`, if anything is; returns what it was.
    #[inline]
    pub(crate) fn change(
        &mut self,
        lpn: Lpn,
        ppn: Option<Ppn>,
        programmed: Done,
    ) -> Option<(Option<Ppn>, Done)> {
        self.clean_below = 0;
        self.cache.write(lpn, entry(ppn), programmed).map(|hit| (mapped(hit.ppn), hit.done))
    }

    /// Caches a new mapping of `lpn`, which is not cached, without loading the old one.
    pub(crate) fn put<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        lpn: Lpn,
        ppn: Option<Ppn>,
        programmed: Done,
        at: Done,
    ) -> Result<Done> {
        let (_, at) = self.replace(flash, table, lpn, 0, at)?;
        self.insert(lpn, entry(ppn), programmed);
        self.change(lpn, ppn, programmed);
        Ok(at)
    }

    /// Loads the mapping of `lpn`, which is not cached, and what is prefetched with it.
    pub(crate) fn load<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        lpn: Lpn,
        rest: u32,
        at: Done,
    ) -> Result<(u32, Done)> {
        let (vtpn, slot) = table.place(lpn);
        let wanted = if table.page(vtpn).is_some() { self.prefetch_length(table, lpn, rest) } else { 0 };
        let (length, at) = self.replace(flash, table, lpn, wanted, at)?;
        let Some(done) = table.load(flash, vtpn, Cause::Translation, at)? else {
            self.insert(lpn, UNMAPPED, at);
            return Ok((UNMAPPED, at));
        };
        let mut prefetched = 0;
        for ahead in (1..=wanted).filter(|_| length > 0) {
            let next = Lpn(lpn.0 + ahead);
            if prefetched < length && !self.cache.contains(next) {
                let ppn = entry_in(flash.buffer(), slot + ahead);
                self.insert(next, ppn, done);
                prefetched += 1;
            }
        }
        flash.counters.prefetched += u64::from(prefetched);
        let ppn = entry_in(flash.buffer(), slot);
        self.insert(lpn, ppn, done);
        Ok((ppn, done))
    }

    fn insert(&mut self, lpn: Lpn, ppn: u32, done: Done) {
        if self.cache.insert(lpn, ppn, done) {
            self.selective.node_loaded();
        }
    }

    /// Makes room for `lpn` and up to `wanted` absent successors, out of one TP node (second limit of 4.5).
    /// Returns how many successors there is room for.
    fn replace<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        lpn: Lpn,
        wanted: u32,
        at: Done,
    ) -> Result<(u32, Done)> {
        let vtpn = table.place(lpn).0;
        let absent = (1..=wanted).filter(|ahead| !self.cache.contains(Lpn(lpn.0 + ahead))).count() as u64;
        let base = ENTRY_BYTES + if self.cache.len_of(vtpn) == 0 { NODE_BYTES } else { 0 };
        let free = self.cache.free_bytes();
        if free >= base + absent * ENTRY_BYTES {
            return Ok((absent as u32, at));
        }
        let Some(victim) = self.cache.coldest() else { return Ok((0, at)) };
        let freed_node = if victim == vtpn { 0 } else { NODE_BYTES };
        let entries = self.cache.len_of(victim);
        let most = free + u64::from(entries) * ENTRY_BYTES + freed_node;
        let length = absent.min(most.saturating_sub(base) / ENTRY_BYTES);
        let needed = base + length * ENTRY_BYTES - free;
        let count = entries.min(needed.div_ceil(ENTRY_BYTES) as u32);
        let at = self.evict(flash, table, victim, count, at)?;
        Ok((length as u32, at))
    }

    /// Has the cache use `bytes` from now on, at most as many as it was made with: entries leave until it
    /// does, the coldest first.
    #[inline]
    pub(crate) fn resize<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        bytes: u64,
        at: Done,
    ) -> Result<Done> {
        let mut at = at;
        loop {
            let excess = self.cache.set_budget(bytes);
            let Some(victim) = self.cache.coldest().filter(|_| excess > 0) else { return Ok(at) };
            let count = self.cache.len_of(victim).min(excess.div_ceil(ENTRY_BYTES) as u32);
            at = self.evict(flash, table, victim, count, at)?;
        }
    }

    /// Replaces `count` entries of a TP node, with at most one update of its translation page.
    fn evict<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        node: Vtpn,
        count: u32,
        at: Done,
    ) -> Result<Done> {
        let mut victims = std::mem::take(&mut self.victims);
        self.cache.victims_of(node, count, self.techniques.clean_first, &mut victims);
        let written = self.write_victims(flash, table, node, &victims, at);
        if written.is_ok() {
            for &slot in &victims {
                flash.counters.replaced += 1;
                let (_, with_node) = self.cache.remove_slot(slot);
                if with_node {
                    self.selective.node_evicted();
                }
            }
        }
        self.victims = victims;
        written
    }

    /// Brings the dirty ones among `victims` to flash: with all other dirty entries of their node, which
    /// become clean (batch update), or alone.
    fn write_victims<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        node: Vtpn,
        victims: &[u32],
        at: Done,
    ) -> Result<Done> {
        let mut after = at;
        self.edits.clear();
        for victim in victims.iter().map(|&slot| self.cache.get(slot)).filter(|victim| victim.is_dirty()) {
            self.edits.push((table.place(victim.lpn).1, victim.ppn));
            after = flash.join(after, victim.done);
        }
        if self.edits.is_empty() {
            return Ok(at);
        }
        flash.counters.replaced_dirty += self.edits.len() as u64;
        if self.techniques.batch_update {
            self.edits.clear();
            return self.write_back(flash, table, node, Cause::Translation, at);
        }
        table.store(flash, node, &self.edits, Cause::Translation, after)
    }

    /// Writes all dirty entries of a TP node, with the edits collected already, in one update; they stay
    /// cached, clean.
    fn write_back<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        node: Vtpn,
        cause: Cause,
        at: Done,
    ) -> Result<Done> {
        let mut after = at;
        let edits = &mut self.edits;
        self.cache.each_dirty(node, |dirty| {
            edits.push((table.place(dirty.lpn).1, dirty.ppn));
            after = flash.join(after, dirty.done);
        });
        let stored = table.store(flash, node, &self.edits, cause, after);
        self.edits.clear();
        if stored.is_ok() {
            self.cache.cleaned(node);
        }
        stored
    }
}

impl Mapping for ClusteredTable {
    type Pages = Table;

    const INFO: Info = Info {
        name: "tpftl",
        what: "two-level LRU mapping cache, adaptive prefetching, batched write-back",
        paper: "Zhou et al.: An Efficient Page-level FTL to Optimize Address Translation, EuroSys 2015",
        stats: &[],
        parameters: &[
            Parameter {
                name: "techniques",
                default: "rsbc",
                what: "r request-level and s selective prefetching, b batch-update and c clean-first replacement; \
                       - for none",
            },
            Parameter {
                name: "threshold",
                default: "3",
                what: "change in the number of TP nodes that turns selective prefetching on or off; 0 for always on",
            },
            PROGRAM_BUFFER,
        ],
    };

    fn new<N: Nand>(_flash: &mut Flash<N>, table: &Table, config: &Config) -> Result<Self, ConfigError> {
        let letters = config.parameter(&Self::INFO, "techniques");
        let techniques = Techniques::parse(&letters).ok_or_else(|| {
            ConfigError(format!(
                "scheme tpftl: techniques = '{letters}'; letters of 'rsbc', or '-', are needed"
            ))
        })?;
        let threshold = config.number(&Self::INFO, "threshold", 0..=1000)?;
        let bytes = table.cache_bytes("tpftl", config, ClusteredTable::LEAST_BYTES)?;
        Ok(ClusteredTable {
            cache: TwoLevel::new(bytes, table.pages(), table.entries_per_page()),
            techniques,
            selective: Selective { counter: 0, threshold, active: threshold == 0 },
            edits: Vec::with_capacity(table.entries_per_page() as usize),
            victims: Vec::with_capacity(table.entries_per_page() as usize),
            clean_below: 0,
        })
    }

    // Lookups

    #[inline]
    fn lookup<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, ask: Ask) -> Result<Lookup> {
        let Ask { lpn, rest, at } = ask;
        if let Some(hit) = self.cache.touch(lpn) {
            return Ok(Lookup::new(mapped(hit.ppn), flash.join(at, hit.done), How::CachedEntry));
        }
        let (ppn, known) = self.load(flash, table, lpn, rest, at)?;
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
            self.cache.remove(lpn).map(|(dropped, with_node)| {
                if with_node {
                    self.selective.node_evicted();
                }
                mapped(dropped.ppn)
            })
        })
    }

    // Checkpoint and checks

    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table) -> Result<Option<Done>> {
        while self.clean_below < table.pages() && self.cache.dirty_of(Vtpn(self.clean_below)) == 0 {
            self.clean_below += 1;
        }
        if self.clean_below == table.pages() {
            return Ok(None);
        }
        self.edits.clear();
        self.write_back(flash, table, Vtpn(self.clean_below), Cause::Checkpoint, Done::READY).map(Some)
    }

    fn entries<N: Nand>(&self, of: Unit<'_, N, Table>, entries: &mut Vec<u32>) {
        of.entries_or(entries, |lpn| self.cache.peek(lpn).map(|cached| cached.ppn));
    }

    fn memory(&self, _table: &Table) -> Memory {
        let (entries, nodes) = self.cache.bytes();
        Memory { parts: vec![("CMT entries", entries), ("CMT TP nodes", nodes)] }
    }

    fn cached(&self, _table: &Table, each: &mut dyn FnMut(CachedPage)) {
        self.cache.each_node(each);
    }

    fn check<N: Nand>(&self, _flash: &Flash<N>, _table: &Table) -> Result<(), Breach> {
        self.cache.check()
    }
}

impl Update for ClusteredTable {
    #[inline]
    fn update<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, to: Change) -> Result<Lookup> {
        let Change { lpn, rest, ppn, programmed, at } = to;
        self.clean_below = 0;
        if let Some(hit) = self.cache.write(lpn, entry(ppn), programmed) {
            return Ok(Lookup::new(mapped(hit.ppn), flash.join(at, hit.done), How::CachedEntry));
        }
        let (old, known) = self.load(flash, table, lpn, rest, at)?;
        self.cache.write(lpn, entry(ppn), programmed);
        Ok(Lookup::new(mapped(old), known, How::Loaded))
    }

    /// Cached mappings change in the cache; if another has to change on flash, all dirty ones of the page go
    /// with it.
    fn moved<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, moves: &[Moved]) -> Result<Done> {
        let vtpn = table.place(moves[0].lpn).0;
        self.clean_below = 0;
        self.edits.clear();
        let mut copied = Done::READY;
        let absent = moves.iter().filter(|moved| !self.cache.contains(moved.lpn)).count();
        flash.counters.gc_hits += (moves.len() - absent) as u64;
        flash.counters.gc_misses += absent as u64;
        let all_are_written = self.techniques.batch_update && absent > 0;
        for moved in moves {
            let is_behind = if all_are_written {
                self.cache.correct(moved.lpn, moved.to.0, moved.done)
            } else {
                self.cache.relocate(moved.lpn, moved.to.0, moved.done)
            };
            if !is_behind {
                self.edits.push((moved.slot, moved.to.0));
                copied = flash.join(copied, moved.done);
            }
        }
        if self.edits.is_empty() {
            Ok(Done::READY)
        } else if all_are_written {
            let written = self.write_back(flash, table, vtpn, Cause::Collection, copied);
            if written.is_err() {
                for moved in moves {
                    self.cache.relocate(moved.lpn, moved.to.0, moved.done);
                }
            }
            written
        } else {
            table.store(flash, vtpn, &self.edits, Cause::Collection, copied)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmt::tests::mapped_table;
    use crate::mapping::Pages;
    use nand::timing::NoClock;
    use nand::SimNand;

    /// Six translation pages on flash, and an empty cache over them.
    fn setup() -> (Flash<SimNand<NoClock>>, Table, ClusteredTable) {
        let (mut flash, table) = mapped_table(6);
        let config = Config::new(6 * 128, table.directory_bytes() + 4096);
        let cached = ClusteredTable::new(&mut flash, &table, &config).unwrap();
        (flash, table, cached)
    }

    fn lpn(vtpn: u32, slot: u32) -> Lpn {
        Lpn(vtpn * 128 + slot)
    }

    #[test]
    fn figure_4_selective_prefetching_takes_as_much_as_one_node_leaves() {
        let (mut flash, mut table, mut cached) = setup();
        cached.cache = TwoLevel::new(3 * ENTRY_BYTES + 2 * NODE_BYTES, 6, 128);
        cached.cache.insert(lpn(3, 27), 0, Done::READY);
        cached.cache.insert(lpn(1, 34), 0, Done::READY);
        cached.cache.insert(lpn(1, 35), 0, Done::READY);
        cached.selective = Selective { counter: 0, threshold: 3, active: true };

        let found =
            cached.lookup(&mut flash, &mut table, Ask { lpn: lpn(1, 36), rest: 1, at: Done::READY }).unwrap();

        assert_eq!(found.ppn, Some(Ppn(10_000 + 128 + 36)));
        assert!(
            !cached.cache.contains(lpn(3, 27)),
            "the entry of TP node 3 is evicted, and the node with it"
        );
        assert!(cached.cache.contains(lpn(1, 36)) && cached.cache.contains(lpn(1, 37)));
        assert!(
            !cached.cache.contains(lpn(1, 38)),
            "two predecessors ask for two, but there is room for one"
        );
        assert_eq!(cached.selective.counter, -1);
        assert_eq!(flash.counters.prefetched, 1);
        assert_eq!(flash.counters.reads_by(Cause::Translation), 1);
    }

    #[test]
    fn always_on_a_sequence_is_found_also_where_no_node_comes_or_goes() {
        for (threshold, misses) in [("3", 100), ("0", 7)] {
            let (mut flash, mut table, _) = setup();
            let mut config = Config::new(6 * 128, table.directory_bytes() + 4096);
            config.parameters.insert("threshold".into(), threshold.into());
            let mut cached = ClusteredTable::new(&mut flash, &table, &config).unwrap();
            for slot in 0..100 {
                let ask = Ask { lpn: lpn(1, slot), rest: 1, at: Done::READY };
                cached.lookup(&mut flash, &mut table, ask).unwrap();
            }
            // One page after the other of one request each: 1, 2, 4, 8, .. are loaded at a time.
            assert_eq!(flash.counters.reads_by(Cause::Translation), misses, "threshold {threshold}");
        }
    }

    #[test]
    fn figure_5_clean_entries_leave_first_and_dirty_ones_are_written_together() {
        let bytes = 6 * ENTRY_BYTES + 2 * NODE_BYTES;
        let (mut flash, mut table, mut cached) = setup();
        cached.cache = TwoLevel::new(bytes, 6, 128);
        for slot in [55, 79, 35, 56, 36] {
            cached.cache.insert(lpn(5, slot), 0, Done::READY);
        }
        for (slot, ppn) in [(55, 77), (56, 78), (36, 79)] {
            cached.cache.write(lpn(5, slot), ppn, Done::READY);
        }
        cached.cache.insert(lpn(0, 99), 0, Done::READY);

        cached.lookup(&mut flash, &mut table, Ask { lpn: lpn(0, 100), rest: 3, at: Done::READY }).unwrap();

        for slot in [100, 101, 102] {
            assert!(cached.cache.contains(lpn(0, slot)));
        }
        for slot in [79, 35, 55] {
            assert!(!cached.cache.contains(lpn(5, slot)), "5:{slot} is a victim");
        }
        assert_eq!(
            (cached.cache.len_of(Vtpn(5)), cached.cache.dirty_of(Vtpn(5))),
            (2, 0),
            "56 and 36 stay, clean"
        );
        assert_eq!((flash.counters.replaced, flash.counters.replaced_dirty), (3, 1));
        assert_eq!(flash.counters.programs_by(Cause::Translation), 1, "one update for three dirty entries");
        let mut content = Vec::new();
        table.inspect(&flash, Vtpn(5), &mut content);
        for (slot, ppn) in [(55, 77), (56, 78), (36, 79)] {
            assert_eq!(entry_in(&content, slot), ppn);
        }
    }

    #[test]
    fn request_level_prefetching_stops_at_the_translation_page() {
        let (mut flash, mut table, mut cached) = setup();
        cached.lookup(&mut flash, &mut table, Ask { lpn: lpn(2, 120), rest: 20, at: Done::READY }).unwrap();
        assert_eq!(cached.cache.len(), 8, "120 to 127, and no second translation page");
        assert_eq!(flash.counters.reads_by(Cause::Translation), 1);
        let next = cached
            .lookup(&mut flash, &mut table, Ask { lpn: lpn(2, 121), rest: 19, at: Done::READY })
            .unwrap();
        assert_eq!((next.how, flash.counters.reads_by(Cause::Translation)), (How::CachedEntry, 1));
    }

    #[test]
    fn without_techniques_entries_come_and_go_one_by_one() {
        let bytes = 2 * ENTRY_BYTES + NODE_BYTES;
        let (mut flash, mut table, mut cached) = setup();
        cached.cache = TwoLevel::new(bytes, 6, 128);
        cached.techniques = Techniques::parse("-").unwrap();
        let mut write = |cached: &mut ClusteredTable, slot| {
            let ppn = Some(Ppn(slot));
            cached
                .update(
                    &mut flash,
                    &mut table,
                    Change { lpn: lpn(4, slot), rest: 9, ppn, programmed: Done::READY, at: Done::READY },
                )
                .unwrap();
        };
        write(&mut cached, 1);
        write(&mut cached, 2);
        write(&mut cached, 3);
        assert!(!cached.cache.contains(lpn(4, 1)));
        assert_eq!(cached.cache.dirty_of(Vtpn(4)), 2, "2 stays dirty when 1 is written back alone");
        assert_eq!((flash.counters.prefetched, flash.counters.programs_by(Cause::Translation)), (0, 1));
    }

    #[test]
    fn selective_prefetching_follows_the_number_of_nodes() {
        let mut selective = Selective { counter: 0, threshold: 3, active: false };
        selective.node_evicted();
        selective.node_evicted();
        assert!(!selective.active);
        selective.node_loaded();
        selective.node_evicted();
        selective.node_evicted();
        assert!(selective.active && selective.counter == 0);
        (0..3).for_each(|_| selective.node_loaded());
        assert!(!selective.active);
    }

    #[test]
    fn techniques_are_letters() {
        assert!(Techniques::parse("rsbc").is_some_and(|t| t.request_prefetch && t.clean_first));
        assert!(Techniques::parse("-").is_some_and(|t| !t.batch_update && !t.selective_prefetch));
        assert!(Techniques::parse("rx").is_none());
    }
}
