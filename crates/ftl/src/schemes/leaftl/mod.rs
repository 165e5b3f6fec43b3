//! LeaFTL: a page map of learned segments in log-structured levels.
//!
//! Sun, Li, Sun, Sun, Vucinic, Huang: LeaFTL: A Learning-Based Flash Translation Layer for Solid-State
//! Drives, ASPLOS 2023; and what Wang et al. (LearnedFTL, HPCA 2024) say of it.
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
//! | misprediction | [`Neighbours`], [`crate::Cause::Misprediction`] | here, `engine` |
//! | virtual PPN (LearnedFTL's addition) | PPNs here are in allocation order over all dies | - |
//!
//! **Choices**, where the papers are silent or something had to differ:
//! - A neighbour in OOB takes one byte, its offset in the group, not four: a segment never leaves its group.
//!   So gamma = 4 takes 9 bytes of OOB beside the record. A neighbour is listed as far as it belongs to the
//!   same run of one group; and only what a page's OOB, as it was really programmed, tells is learned. So one
//!   more read is always enough, at the edge of a superblock, beside a bad block, and after a program that
//!   failed.
//! - Groups are smaller than 256 LPNs where a translation page could not hold the largest one (pages below 4
//!   KiB).
//! - To overwrite a page, its old place must be known exactly, to invalidate it. Where the old segment is
//!   approximate the bitmap of valid pages decides, else a read of the predicted page's OOB, charged to
//!   translation.
//! - A trim that falls inside a stride is a segment of slope 0 above it, which leads nowhere.
//! - A group that outgrows 9 bytes a LPN, or 200 levels, is compacted at once. The periodic compaction goes
//!   over the groups in memory.
//! - A flush of the host writes the whole buffer, as full or empty as it is.
//! - Collection sorts as many pages as the write buffer has, in as many slots of its own ([`collect`]).
//! - After a power cut what was not in translation pages is mapped by segments without an error
//!   ([`recover`]).
//! - Controller work: 0.65 us a lookup and 100 ns a page sorted and learned, from LearnedFTL's measurements
//!   on a Cortex-A72 (0.65 us a prediction; 50 us for the 512 mappings of a translation page). For a
//!   further page of a request that the same segment predicts the lookup is a step
//!   ([`crate::prediction::Predictions`]). The levels above that segment are searched for each page.
//! - A page that goes from the host to the buffer, or back, takes the time of the host's link, 2,320 MB/s:
//!   two lanes of UFS 3.1 (11.6 Gbit/s each, of which 8b/10b leaves eight tenths). Nothing else stands
//!   between such a request and its answer, and pages go over the link one after the other. Where flash
//!   answers, its time covers the link's, for this scheme as for all others.
//!
//! The write buffer is not part of the mapping budget, as in the paper: 2,048 pages, 8 MiB, and as much for
//! collection.

pub mod buffer;
pub mod cache;
mod collect;
pub mod group;
pub mod map;
mod recover;
pub mod segment;

use crate::breach::Breach;
use crate::counters::Cause;
use crate::engine::{count_updates, Ftl, Predict};
use crate::flash::{Content, Flash};
use crate::mapping::{Ask, How, Lookup, Mapping, Pages, Unit};
use crate::records::{record_in, Records};
use crate::recover::Recovery;
use crate::scheme::{Config, ConfigError, Info, Memory, OpenError, Parameter, Scheme};
use crate::space::Stream;
use crate::table::UNMAPPED;
use buffer::{Buffer, Buffered};
use cache::Cache;
use collect::InOrder;
use group::{find, most_bytes, Reach};
use map::{told, Map, Page, Shape};
use nand::{Done, Geometry, Lpn, Nand, Oob, Ppn, Result, Vtpn};
use std::ops::Range;

/// LeaFTL: the engine behind a write buffer, which it learns from.
#[derive(Clone, Debug)]
pub struct Leaftl {
    ftl: Ftl<Map, InOrder, Neighbours>,
    buffer: Buffer,
    /// Pages written since the last compaction.
    since: u64,
    /// What is written out: LPN and slot, ascending.
    order: Vec<(Lpn, u32)>,
    pages: Vec<Page>,
    olds: Vec<Ppn>,
}

impl Leaftl {
    /// Sorts the buffer by LPN, programs it, and learns it, group by group.
    fn write_out<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<()> {
        self.order.clear();
        self.order.extend(self.buffer.pages().map(|(slot, page)| (page.lpn, slot)));
        self.order.sort_unstable();
        let count = self.order.len() as u64;
        let shape = *self.ftl.parts().mapping.shape();
        let sorted = flash.compute(shape.learn_ns * count, Done::READY);
        let mut from = 0;
        while from < self.order.len() {
            let group = self.order[from].0 .0 >> shape.group_shift;
            let of_group =
                self.order[from..].iter().take_while(|page| page.0 .0 >> shape.group_shift == group);
            let end = from + of_group.count();
            while from < end {
                from += self.write_group(flash, group, from..end, sorted)?;
            }
        }
        self.since += count;
        if self.since >= shape.period {
            self.since = 0;
            let segments = self.ftl.parts_mut().mapping.compact(flash);
            flash.compute(shape.learn_ns * segments, Done::READY);
        }
        Ok(())
    }

    /// Programs and maps pages of one group, up to the end of a superblock. Returns how many.
    fn write_group<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        group: u32,
        which: Range<usize>,
        sorted: Done,
    ) -> Result<usize> {
        self.ftl.make_room(flash, Some(Stream::HOST), which.len() as u32)?;
        let parts = self.ftl.parts_mut();
        let (map, records) = (&mut parts.mapping, &mut parts.pages);
        let how = if map.cache.has(group) { How::CachedEntry } else { How::Loaded };
        if let Some(next) = self.order.get(which.end) {
            map.expect(flash, records, next.0 .0 >> map.shape().group_shift);
        }
        let known = map.touch(flash, records, group, Cause::Translation, Done::READY)?;
        let left = match flash.space.left(Stream::HOST) {
            0 => flash.nand().geometry().superblock_pages(),
            left => left,
        };
        let (count, last) = (which.len().min(left as usize), self.order[which.end - 1].0);
        self.pages.clear();
        self.olds.clear();
        for at in which.start..which.start + count {
            let (lpn, slot) = self.order[at];
            let Some(page) = self.buffer.page(slot) else { unreachable!("slot {slot} is being written out") };
            let after = flash.join(page.held, sorted);
            self.pages.push(Page { lpn, slot, content: Content::version(page.version), after });
            let rest = last.0 - lpn.0 + 1;
            if let (Some(answer), searched) = map.search(flash, Ask { lpn, rest, at: known }) {
                let (old, _) = map.exact(flash, lpn, answer, Cause::Translation, searched)?;
                self.olds.push(old);
            }
        }
        map.write_run(flash, Stream::HOST, &self.pages, Cause::Host)?;
        self.olds.iter().for_each(|&old| flash.invalidate(old));
        for (page, (_, _, done)) in self.pages.iter().zip(map.written()) {
            self.buffer.remove(page.lpn, done);
        }
        count_updates(&mut flash.counters, how, count as u64);
        map.shrink(flash, records, group, Cause::Translation)?;
        Ok(count)
    }
}

/// Where an approximate segment was wrong, the page that it named says where the right one is.
#[derive(Clone, Copy, Debug)]
pub struct Neighbours;

impl Predict<Map> for Neighbours {
    fn corrected<N: Nand>(map: &Map, flash: &Flash<N>, read: Ppn, lpn: Lpn) -> Option<Ppn> {
        let (_, offset) = map.place(lpn);
        told(flash.spare(), offset).map(|distance| Ppn((i64::from(read.0) + distance) as u32))
    }
}

impl Map {
    fn shape_of(geometry: &Geometry, config: &Config) -> Result<Shape, ConfigError> {
        let slots = config.number(&Self::INFO, "buffer", 1..=1 << 20)?;
        Ok(Shape {
            exported_pages: config.exported_pages,
            group_shift: Self::group_shift(geometry),
            budget: config.cache_bytes,
            gamma: config.number(&Self::INFO, "gamma", 0..=64)? as u32,
            reach: match config.parameter(&Self::INFO, "overwritten").as_str() {
                "top" => Reach::Top,
                "all" => Reach::All,
                given => {
                    let what = format!("scheme leaftl: overwritten = '{given}'; top or all is needed");
                    return Err(ConfigError(what));
                }
            },
            slots: slots.min(geometry.superblock_pages() / 2).max(1),
            period: config.number(&Self::INFO, "compaction", 1..=u64::MAX)?,
            predict_ns: config.number(&Self::INFO, "predict_ns", 0..=1_000_000)?,
            level_ns: config.number(&Self::INFO, "level_ns", 0..=1_000_000)?,
            learn_ns: config.number(&Self::INFO, "learn_ns", 0..=1_000_000)?,
            link_ns: match config.number(&Self::INFO, "link_mb_s", 0..=1_000_000)? {
                0 => 0,
                speed => u64::from(geometry.page_bytes) * 1_000 / speed,
            },
        })
    }

    fn group_shift(geometry: &Geometry) -> u32 {
        (geometry.page_bytes / 16).min(256).ilog2()
    }
}

impl Mapping for Map {
    type Pages = Records;

    const INFO: Info = Info {
        name: "leaftl",
        what: "learned segments with an error bound in log-structured levels, a write buffer, OOB reverse mapping",
        paper: "Sun et al.: LeaFTL, ASPLOS 2023",
        stats: &[],
        parameters: &[
            Parameter { name: "gamma", default: "4", what: "error bound of approximate segments, pages" },
            Parameter {
                name: "buffer",
                default: "2048",
                what: "write buffer, pages; one at least, half a superblock at most (collection has as many for sorting)",
            },
            Parameter { name: "compaction", default: "1000000", what: "pages written between compactions, 1 at least: at every flush of the buffer" },
            Parameter {
                name: "overwritten",
                default: "top",
                what: "levels out of which insertion takes overwritten members: top (the paper's), all",
            },
            Parameter {
                name: "predict_ns",
                default: "650",
                what: "controller work of a lookup that the top level answers, ns",
            },
            Parameter {
                name: "level_ns",
                default: "500",
                what: "controller work of each further level that a lookup searches, ns",
            },
            Parameter { name: "learn_ns", default: "100", what: "controller work of sorting and learning a page, ns" },
            Parameter {
                name: "link_mb_s",
                default: "2320",
                what: "speed at which pages go between the host and the buffer, MB/s; 0: they take no time",
            },
        ],
    };

    fn shape(records: &mut Records, geometry: &Geometry, _config: &Config) -> Result<(), ConfigError> {
        let shift = Self::group_shift(geometry);
        records.group(shift);
        Ok(())
    }

    fn new<N: Nand>(flash: &mut Flash<N>, records: &Records, config: &Config) -> Result<Self, ConfigError> {
        let geometry = flash.nand().geometry().clone();
        let shape = Self::shape_of(&geometry, config)?;
        let lpns = 1 << shape.group_shift;
        debug_assert!(most_bytes(lpns) <= Records::longest_record(geometry.page_bytes));
        let (gamma, window) = (shape.gamma, 2 * shape.gamma + 1);
        if flash.reserve(2 * shape.slots, window).is_err() {
            return Err(ConfigError(format!(
                "scheme leaftl: gamma = {gamma} needs {} bytes of OOB a page, and this array has {} bytes",
                Oob::BYTES + window,
                geometry.oob_bytes
            )));
        }
        let directory = u64::from(records.most_pages()) * Records::ENTRY_BYTES;
        let groups = 4 * (most_bytes(lpns) as u64 + Cache::GROUP_BYTES);
        if config.cache_bytes < directory + groups {
            return Err(ConfigError(format!(
                "scheme leaftl: a cache of {} bytes is too small; give at least {}: the directory may take {directory} and four \
                 groups {groups}",
                config.cache_bytes,
                directory + groups
            )));
        }
        Ok(Map::with(shape))
    }

    fn restore<N: Nand>(&mut self, recovery: &mut Recovery<'_, N>, records: &mut Records) -> Result<()> {
        recover::restore(recovery, self, records)
    }

    fn lookup<N: Nand>(&mut self, flash: &mut Flash<N>, records: &mut Records, ask: Ask) -> Result<Lookup> {
        let Ask { lpn, at, .. } = ask;
        let (group, _) = self.place(lpn);
        if self.is_blank(records, group) {
            return Ok(Lookup::new(None, at, How::Loaded));
        }
        let how = if self.cache.has(group) { How::Predicted } else { How::Loaded };
        let known = self.touch(flash, records, group, Cause::Translation, at)?;
        let (answer, searched) = self.search(flash, Ask { at: known, ..ask });
        let evicted = self.shrink(flash, records, group, Cause::Translation)?;
        let known = flash.join(searched, evicted);
        let exact = answer.is_none_or(|answer| answer.exact);
        Ok(Lookup { exact, ..Lookup::new(answer.map(|answer| Ppn(answer.ppn)), known, how) })
    }

    fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &mut Records,
        group: Vtpn,
        offsets: Range<u32>,
        at: Done,
    ) -> Result<Done> {
        let group = group.0;
        if self.is_blank(records, group) {
            return Ok(at);
        }
        let known = self.touch(flash, records, group, Cause::Translation, at)?;
        let (first, last) = (offsets.start as u8, (offsets.end - 1) as u8);
        let (mut done, mut olds) = (known, std::mem::take(&mut self.olds));
        for offset in first..=last {
            let (lpn, rest) = (self.lpn(group, offset), u32::from(last - offset) + 1);
            if let (Some(answer), searched) = self.search(flash, Ask { lpn, rest, at: known }) {
                let (old, looked) = self.exact(flash, lpn, answer, Cause::Translation, searched)?;
                done = flash.join(done, looked);
                olds.push(old);
            }
        }
        if !olds.is_empty() {
            olds.drain(..).for_each(|old| flash.invalidate(old));
            self.unmap(flash, group, first, last);
        }
        self.olds = olds;
        self.shrink(flash, records, group, Cause::Translation)?;
        Ok(done)
    }

    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>, records: &mut Records) -> Result<Option<Done>> {
        if !self.cache.has_dirty() {
            return Ok(None);
        }
        while !self.cache.is_dirty(self.first_dirty) {
            self.first_dirty += 1;
        }
        self.write_back(flash, records, self.first_dirty, Cause::Checkpoint, Done::READY).map(Some)
    }

    fn entries<N: Nand>(&self, of: Unit<'_, N, Records>, entries: &mut Vec<u32>) {
        let (lpns, group) = (of.pages.units().lpns_in(of.unit), of.unit.0);
        let is_cached = self.cache.has(group);
        let record = if is_cached { self.cache.record(group) } else { record_in(of.content, group) };
        entries.clear();
        if record.is_empty() {
            entries.resize(lpns as usize, UNMAPPED);
            return;
        }
        entries.extend((0..lpns).map(|offset| match find(record, offset as u8).0 {
            Some(answer) if answer.exact => answer.ppn,
            Some(answer) => {
                let (lpn, predicted) = (self.lpn(group, offset as u8), Ppn(answer.ppn));
                self.neighbour(of.flash.nand().inspect_spare(predicted), predicted, lpn).0
            }
            None => UNMAPPED,
        }));
    }

    fn memory(&self, records: &Records) -> Memory {
        let cache = &self.cache;
        let mut group = group::Group::with_room();
        let mut crb = 0;
        for number in (0..records.groups()).filter(|&group| cache.has(group)) {
            group.unpack(cache.record(number));
            crb += group.crb_bytes() as u64;
        }
        Memory {
            parts: vec![
                ("segments", cache.record_bytes() - crb),
                ("CRB", crb),
                ("list of groups", cache.cached() * Cache::GROUP_BYTES),
            ],
        }
    }

    fn check<N: Nand>(&self, flash: &Flash<N>, records: &Records) -> Result<(), Breach> {
        self.check_groups(flash, records)
    }
}

impl Scheme for Leaftl {
    const INFO: Info = Map::INFO;
    const BUFFERS_WRITES: bool = true;
    const REWRITES: bool = true;

    fn open<N: Nand>(flash: &mut Flash<N>, config: &Config) -> Result<Self, OpenError> {
        let ftl: Ftl<Map, _, _> = Ftl::take_over(flash, config)?;
        let slots = ftl.parts().mapping.shape().slots;
        Ok(Leaftl {
            ftl,
            buffer: Buffer::new(slots, config.exported_pages),
            since: 0,
            order: Vec::with_capacity(slots as usize),
            pages: Vec::with_capacity(256),
            olds: Vec::with_capacity(256),
        })
    }

    fn read<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        rest: u32,
        at: Done,
    ) -> Result<(Option<Oob>, Done)> {
        let Some(slot) = self.buffer.slot(lpn) else { return self.ftl.read(flash, lpn, rest, at) };
        let held = self.buffer.page(slot).map_or(at, |page| page.held);
        let there = flash.join(at, held);
        let sent = flash.compute(self.ftl.parts().mapping.shape().link_ns, there);
        Ok((Some(flash.deliver(slot, lpn)), sent))
    }

    fn write<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: Lpn, _rest: u32, at: Done) -> Result<Done> {
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
        flash.store(slot, lpn, version);
        let there = flash.join(at, free);
        let held = flash.compute(self.ftl.parts().mapping.shape().link_ns, there);
        self.buffer.put(slot, Buffered { lpn, version, held });
        Ok(held)
    }

    fn trim<N: Nand>(&mut self, flash: &mut Flash<N>, first: Lpn, pages: u32, at: Done) -> Result<Done> {
        let done = self.ftl.trim_units(flash, first, pages, at, |parts, flash, group, offsets, at| {
            parts.mapping.trim(flash, &mut parts.pages, group, offsets, at)
        })?;
        // Not before: a trim that is refused must not bring back what these pages held before.
        let mut lpns = first.0..first.0 + pages;
        while !self.buffer.is_empty() {
            let Some(lpn) = lpns.next() else { break };
            self.buffer.remove(Lpn(lpn), at);
        }
        Ok(done)
    }

    fn flush<N: Nand>(&mut self, flash: &mut Flash<N>, at: Done) -> Result<Done> {
        self.write_out(flash)?;
        self.ftl.flush(flash, at)
    }

    fn idle<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>> {
        self.ftl.idle(flash)
    }

    fn rewrite<N: Nand>(&mut self, flash: &mut Flash<N>, due: u32) -> Result<Option<Done>> {
        self.ftl.rewrite(flash, due)
    }

    fn power_off<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done> {
        self.write_out(flash)?;
        self.ftl.power_off(flash)
    }

    fn save<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<()> {
        self.ftl.save(flash)
    }

    fn inherit(&mut self, before: Leaftl) {
        self.buffer = before.buffer;
        self.since = before.since;
    }

    fn mapping<N: Nand>(&self, flash: &Flash<N>, each: &mut dyn FnMut(Lpn, Ppn)) {
        self.ftl.mapped_in(flash, Lpn(0), self.ftl.parts().pages.units().lpns(), each);
    }

    fn mapped_in<N: Nand>(&self, flash: &Flash<N>, first: Lpn, pages: u32, each: &mut dyn FnMut(Lpn, Ppn)) {
        self.ftl.mapped_in(flash, first, pages, each);
    }

    fn buffered(&self, each: &mut dyn FnMut(Lpn, u64)) {
        self.buffer.pages().for_each(|(_, page)| each(page.lpn, page.version));
    }

    fn check<N: Nand>(&self, flash: &Flash<N>) -> Result<(), Breach> {
        self.ftl.check(flash)
    }

    fn memory(&self) -> Memory {
        self.ftl.memory()
    }
}
