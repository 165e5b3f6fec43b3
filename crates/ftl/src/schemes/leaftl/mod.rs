//! LeaFTL: a page map of learned segments in log-structured levels.
//!
//! Sun, Li, Sun, Sun, Vucinic, Huang: LeaFTL: A Learning-Based Flash Translation Layer for Solid-State Drives, ASPLOS
//! 2023; and what Wang et al. (LearnedFTL, HPCA 2024) say of it.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | learned segment (S, L, K, I), accurate and approximate | [`segment::Segment`] | [`segment`] |
//! | greedy piecewise linear regression, error bound gamma | [`segment::learn`] | [`segment`] |
//! | group of 256 LPNs, log-structured levels | [`group::Group`], `insert`, `compact` | [`group`] |
//! | conflict resolution buffer (CRB) | members of approximate segments | [`group`] |
//! | data buffer, sorted at its flush | [`buffer::Buffer`], `Leaftl::write_out` | memory of the array |
//! | reverse mapping in OOB, 2 gamma + 1 neighbours | spare bytes, [`map::told`] | OOB |
//! | model cache | [`cache::Cache`], LRU of groups | memory |
//! | translation pages | [`crate::records`] | flash |
//! | misprediction | `Guessed::Wrong`, [`crate::Cause::Misprediction`] | `Leaftl::read` |
//! | virtual PPN (LearnedFTL's addition) | PPNs here are in allocation order over all dies | - |
//!
//! **Choices**, where the papers are silent or something had to differ:
//! - A neighbour in OOB takes one byte, its offset in the group, not four: a segment never leaves its group. So gamma = 4
//!   takes 9 bytes of OOB beside the record. A neighbour is listed as far as it belongs to the same run of one group; and
//!   only what a page's OOB, as it was really programmed, tells is learned. So one more read is always enough, at the edge
//!   of a superblock, beside a bad block, and after a program that failed.
//! - Groups are smaller than 256 LPNs where a translation page could not hold the largest one (pages below 4 KiB).
//! - To overwrite a page, its old place must be known exactly, to invalidate it. Where the old segment is approximate the
//!   bitmap of valid pages decides, else a read of the predicted page's OOB, charged to translation.
//! - A trim that falls inside a stride is a segment of slope 0 above it, which leads nowhere.
//! - A group that outgrows 9 bytes a LPN, or 200 levels, is compacted at once. The periodic compaction goes over the
//!   groups in memory.
//! - A flush of the host writes the whole buffer, as full or empty as it is.
//! - Collection sorts as many pages as the write buffer has, in as many slots of its own ([`collect`]).
//! - After a power cut what was not in translation pages is mapped by segments without an error ([`recover`]).
//! - Controller work: 0.65 us a lookup and 100 ns a page sorted and learned, from LearnedFTL's measurements on a
//!   Cortex-A72 (0.65 us a prediction; 50 us for the 512 mappings of a translation page).
//!
//! The write buffer is not part of the mapping budget, as in the paper: 2,048 pages, 8 MiB, and as much for collection.

pub mod buffer;
pub mod cache;
mod collect;
pub mod group;
pub mod map;
mod recover;
pub mod segment;

use crate::checkpoint::{self, Journal};
use crate::counters::Cause;
use crate::engine::audit::Audit;
use crate::engine::check_room;
use crate::engine::room::{KeepsRoom, Thresholds};
use crate::flash::{Content, Flash, Guessed};
use crate::records::Records;
use crate::scheme::{Breach, Config, ConfigError, Info, Memory, OpenError, Parameter, Scheme};
use crate::space::Stream;
use buffer::{Buffer, Buffered};
use cache::Cache;
use collect::Collector;
use group::{most_bytes, Reach};
use map::{Map, Page, Shape};
use nand::{Done, Fault, Lpn, Nand, Oob, Ppn};

/// LeaFTL.
#[derive(Clone, Debug)]
pub struct Leaftl {
    map: Map,
    buffer: Buffer,
    collector: Collector,
    journal: Journal,
    /// Pages written between two compactions, and since the last.
    period: u64,
    since: u64,
    thresholds: Thresholds,
    /// What is written out: LPN and slot, ascending.
    order: Vec<(Lpn, u32)>,
    pages: Vec<Page>,
    olds: Vec<Ppn>,
}

impl Leaftl {
    // The buffer's way to flash

    /// Sorts the buffer by LPN, programs it, and learns it, group by group.
    fn write_out<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<(), Fault> {
        self.order.clear();
        self.order.extend(self.buffer.pages().map(|(slot, page)| (page.lpn, slot)));
        self.order.sort_unstable();
        let count = self.order.len() as u64;
        let sorted = flash.compute(self.map.shape().learn_ns * count, Done::READY);
        let mut from = 0;
        while from < self.order.len() {
            let (group, _) = self.map.place(self.order[from].0);
            let of_group = self.order[from..].iter().take_while(|page| self.map.place(page.0).0 == group);
            let end = from + of_group.count();
            while from < end {
                from += self.write_group(flash, group, from..end, sorted)?;
            }
        }
        self.since += count;
        if self.since >= self.period {
            self.since = 0;
            let segments = self.map.compact(flash);
            flash.compute(self.map.shape().learn_ns * segments, Done::READY);
        }
        Ok(())
    }

    /// Programs and maps pages of one group, up to the end of a superblock. Returns how many.
    fn write_group<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        group: u32,
        which: std::ops::Range<usize>,
        sorted: Done,
    ) -> Result<usize, Fault> {
        self.make_room_for(flash, Some(Stream::HOST), which.len() as u32)?;
        let hits = if self.map.cache.has(group) { which.len() as u64 } else { 0 };
        let known = self.map.touch(flash, group, Cause::Translation, Done::READY)?;
        let left = match flash.space.left(Stream::HOST) {
            0 => flash.nand().geometry().superblock_pages(),
            left => left,
        };
        let count = which.len().min(left as usize);
        self.pages.clear();
        self.olds.clear();
        for at in which.start..which.start + count {
            let (lpn, slot) = self.order[at];
            let Some(page) = self.buffer.page(slot) else { unreachable!("slot {slot} is being written out") };
            let after = flash.join(page.held, sorted);
            self.pages.push(Page { lpn, slot, content: Content::version(page.version), after });
            let (_, offset) = self.map.place(lpn);
            if let (Some(answer), _) = self.map.answer(group, offset) {
                let (old, _) = self.map.exact(flash, lpn, answer, Cause::Translation, known)?;
                self.olds.push(old);
            }
        }
        self.map.write_run(flash, Stream::HOST, &self.pages, Cause::Host)?;
        for &old in &self.olds {
            flash.invalidate(old);
        }
        for (page, (_, _, done)) in self.pages.iter().zip(self.map.written()) {
            self.buffer.remove(page.lpn, done);
        }
        flash.counters.lookups += count as u64;
        flash.counters.cmt_hits += hits.min(count as u64);
        self.map.shrink(flash, group, Cause::Translation)?;
        Ok(count)
    }

    // Trims and checkpoints

    /// Trims offsets of one group that are on flash.
    fn trim_group<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        group: u32,
        first: u8,
        last: u8,
        at: Done,
    ) -> Result<Done, Fault> {
        self.make_room(flash, Some(Stream::HOST))?;
        if self.map.is_blank(group) {
            return Ok(at);
        }
        let mut done = self.map.touch(flash, group, Cause::Translation, at)?;
        let known = done;
        self.olds.clear();
        for offset in first..=last {
            if let (Some(answer), _) = self.map.answer(group, offset) {
                let lpn = self.map.lpn(group, offset);
                let (old, looked) = self.map.exact(flash, lpn, answer, Cause::Translation, known)?;
                done = flash.join(done, looked);
                self.olds.push(old);
            }
        }
        if !self.olds.is_empty() {
            for &old in &self.olds {
                flash.invalidate(old);
            }
            self.map.trim(flash, group, first, last);
        }
        self.map.shrink(flash, group, Cause::Translation)?;
        Ok(done)
    }

    /// Makes every translation page current, then writes a checkpoint. What is in the buffer is programmed later, and
    /// found by the search.
    fn checkpoint<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done, Fault> {
        let done = self.clean_all(flash)?;
        let records = &self.map.records;
        checkpoint::write_directory(flash, records.words(), |i| records.word(i), &mut self.journal, done)
    }
}

impl KeepsRoom for Leaftl {
    type Collector = Collector;

    #[inline]
    fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    #[inline]
    fn collector(&self) -> &Collector {
        &self.collector
    }

    fn collector_mut(&mut self) -> &mut Collector {
        &mut self.collector
    }

    fn step<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<(), Fault> {
        self.collector.step(flash, &mut self.map, &mut self.journal)
    }

    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>, Fault> {
        self.map.clean_one(flash)
    }
}

impl Scheme for Leaftl {
    const INFO: Info = Info {
        name: "leaftl",
        what: "learned segments with an error bound in log-structured levels, a write buffer, OOB reverse mapping",
        paper: "Sun et al.: LeaFTL, ASPLOS 2023",
        parameters: &[
            Parameter { name: "gamma", default: "4", what: "error bound of approximate segments, pages" },
            Parameter {
                name: "buffer",
                default: "2048",
                what: "write buffer, pages; half a superblock at most (collection has as many for sorting)",
            },
            Parameter { name: "compaction", default: "1000000", what: "pages written between compactions" },
            Parameter {
                name: "overwritten",
                default: "top",
                what: "levels out of which insertion takes overwritten members: top (the paper's), all",
            },
            Parameter { name: "predict_ns", default: "650", what: "controller work of a lookup, ns" },
            Parameter { name: "learn_ns", default: "100", what: "controller work of sorting and learning a page, ns" },
        ],
    };

    const BUFFERS_WRITES: bool = true;

    const REWRITES: bool = true;

    fn open<N: Nand>(flash: &mut Flash<N>, config: &Config) -> Result<Self, OpenError> {
        config.check_parameters(&Self::INFO)?;
        let geometry = flash.nand().geometry().clone();
        let gamma = config.number(&Self::INFO, "gamma", 0..=64)? as u32;
        let slots = config.number(&Self::INFO, "buffer", 0..=1 << 20)?.max(1) as u32;
        let slots = slots.min(geometry.superblock_pages() / 2).max(1);
        let shape = Shape {
            exported_pages: config.exported_pages,
            group_shift: (geometry.page_bytes / 16).min(256).ilog2(),
            budget: config.cache_bytes,
            gamma,
            reach: match config.parameter(&Self::INFO, "overwritten").as_str() {
                "top" => Reach::Top,
                "all" => Reach::All,
                given => {
                    let what = format!("scheme leaftl: overwritten = '{given}'; top or all is needed");
                    return Err(ConfigError(what).into());
                }
            },
            predict_ns: config.number(&Self::INFO, "predict_ns", 0..=1_000_000)?,
            learn_ns: config.number(&Self::INFO, "learn_ns", 0..=1_000_000)?,
        };
        let (lpns, groups) = (1 << shape.group_shift, config.exported_pages.div_ceil(1 << shape.group_shift));
        debug_assert!(most_bytes(lpns) <= Records::longest_record(geometry.page_bytes));
        let window = 2 * gamma + 1;
        if flash.reserve(2 * slots, window).is_err() {
            return Err(ConfigError(format!(
                "scheme leaftl: gamma = {gamma} needs {} bytes of OOB a page, and this array has {} bytes",
                Oob::BYTES + window,
                geometry.oob_bytes
            ))
            .into());
        }
        check_room(flash, groups + 1, config)?;
        let least =
            u64::from(groups + 1) * Records::ENTRY_BYTES + 4 * (most_bytes(lpns) as u64 + Cache::GROUP_BYTES);
        if config.cache_bytes < least {
            return Err(ConfigError(format!(
                "scheme leaftl: a cache of {} bytes is too small: the directory may take {} and four groups {}",
                config.cache_bytes,
                u64::from(groups + 1) * Records::ENTRY_BYTES,
                least - u64::from(groups + 1) * Records::ENTRY_BYTES
            ))
            .into());
        }
        let mut map = Map::new(shape, geometry.page_bytes);
        let mut journal = Journal::new(geometry.page_bytes);
        recover::recover(flash, &mut map, &mut journal)?;
        flash.keep_reserve(config.foreground_superblocks);
        Ok(Leaftl {
            map,
            buffer: Buffer::new(slots, config.exported_pages),
            collector: Collector::new(config.victims, slots, slots),
            journal,
            period: config.number(&Self::INFO, "compaction", 0..=u64::MAX)?.max(1),
            since: 0,
            thresholds: Thresholds::new(config),
            order: Vec::with_capacity(slots as usize),
            pages: Vec::with_capacity(256),
            olds: Vec::with_capacity(256),
        })
    }

    // Lookups

    fn read<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        _rest: u32,
        at: Done,
    ) -> Result<(Option<Oob>, Done), Fault> {
        if let Some(slot) = self.buffer.slot(lpn) {
            let held = self.buffer.page(slot).map_or(at, |page| page.held);
            return Ok((Some(flash.held(slot, lpn)), flash.join(at, held)));
        }
        self.make_room(flash, None)?;
        flash.counters.lookups += 1;
        let (group, offset) = self.map.place(lpn);
        if self.map.is_blank(group) {
            return Ok((None, at));
        }
        let hit = u64::from(self.map.cache.has(group));
        let known = self.map.touch(flash, group, Cause::Translation, at)?;
        let (answer, _) = self.map.answer(group, offset);
        let evicted = self.map.shrink(flash, group, Cause::Translation)?;
        let known = flash.join(known, evicted);
        let known = flash.compute(self.map.shape().predict_ns, known);
        let Some(answer) = answer else { return Ok((None, known)) };
        let predicted = Ppn(answer.ppn);
        if answer.exact {
            let (oob, done) = flash.read_data(predicted, lpn, Cause::Host, known)?;
            flash.counters.model_hits += hit;
            return Ok((Some(oob), done));
        }
        match flash.read_guess(predicted, lpn, known)? {
            Guessed::Right(oob, done) => {
                flash.counters.model_hits += hit;
                Ok((Some(oob), done))
            }
            Guessed::Wrong(done) => {
                let there = self.map.neighbour(flash.spare(), predicted, lpn);
                let (oob, done) = flash.read_data(there, lpn, Cause::Host, done)?;
                Ok((Some(oob), done))
            }
            Guessed::Lost(fault) => Err(fault),
        }
    }

    // Updates

    fn write<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        _rest: u32,
        at: Done,
    ) -> Result<Done, Fault> {
        let (slot, free) = match self.buffer.slot(lpn) {
            Some(slot) => (slot, self.buffer.page(slot).map_or(at, |page| page.held)),
            None => {
                if self.buffer.is_full() {
                    self.write_out(flash)?;
                }
                match self.buffer.take() {
                    Some(taken) => taken,
                    None => unreachable!("the buffer was just written out"),
                }
            }
        };
        let version = flash.next_version();
        flash.hold(slot, lpn, version);
        let held = flash.join(at, free);
        self.buffer.put(slot, Buffered { lpn, version, held });
        Ok(held)
    }

    fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        first: Lpn,
        pages: u32,
        at: Done,
    ) -> Result<Done, Fault> {
        if pages == 0 {
            return Ok(at);
        }
        self.make_room(flash, Some(Stream::HOST))?;
        if self.journal.is_nearly_full(flash) {
            self.checkpoint(flash)?;
        }
        // Recorded first: collection, which may run in between, makes it durable before it erases anything.
        self.journal.trimmed(flash, first, pages)?;
        let mut done = at;
        for lpn in (first.0..first.0 + pages).map(Lpn) {
            if self.buffer.is_empty() {
                break;
            }
            self.buffer.remove(lpn, at);
        }
        let (mut lpn, end) = (first.0, first.0 + pages);
        while lpn < end {
            let (group, offset) = self.map.place(Lpn(lpn));
            let next = self.map.lpn(group + 1, 0).0.min(end);
            let last = offset + (next - 1 - lpn) as u8;
            let trimmed = self.trim_group(flash, group, offset, last, at)?;
            done = flash.join(done, trimmed);
            lpn = next;
        }
        Ok(done)
    }

    fn flush<N: Nand>(&mut self, flash: &mut Flash<N>, at: Done) -> Result<Done, Fault> {
        self.write_out(flash)?;
        self.make_room(flash, Some(Stream::HOST))?;
        self.journal.write_pending(flash)?;
        let settled = flash.settle();
        Ok(flash.join(settled, at))
    }

    fn idle<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>, Fault> {
        self.use_pause(flash)
    }

    fn rewrite<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>, Fault> {
        self.rewrite_some(flash)
    }

    fn power_off<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done, Fault> {
        self.write_out(flash)?;
        self.make_room(flash, Some(Stream::HOST))?;
        self.checkpoint(flash)
    }

    // Checks

    fn mapping<N: Nand>(&self, flash: &Flash<N>, each: &mut dyn FnMut(Lpn, Ppn)) {
        self.map.each(flash, each);
    }

    fn buffered(&self, each: &mut dyn FnMut(Lpn, u64)) {
        self.buffer.pages().for_each(|(_, page)| each(page.lpn, page.version));
    }

    fn check<N: Nand>(&self, flash: &Flash<N>) -> Result<(), Breach> {
        flash.space.check()?;
        self.map.check(flash)?;
        let mut audit = Audit::new(flash);
        self.map.each(flash, &mut |lpn, ppn| audit.mapped(lpn, ppn));
        Ok(audit.finish(self.map.records.directory())?)
    }

    fn memory(&self) -> Memory {
        let cache = &self.map.cache;
        let mut group = group::Group::with_room();
        let mut crb = 0;
        for number in (0..self.map.records.groups()).filter(|&group| cache.has(group)) {
            group.unpack(cache.record(number));
            crb += group.crb_bytes() as u64;
        }
        Memory {
            parts: vec![
                ("directory", self.map.records.directory_bytes()),
                ("segments", cache.record_bytes() - crb),
                ("CRB", crb),
                ("list of groups", cache.cached() * Cache::GROUP_BYTES),
            ],
        }
    }
}
