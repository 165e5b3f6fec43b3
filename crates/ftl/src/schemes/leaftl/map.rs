//! The mapping: groups of learned segments, in the cache and on flash; lookups, learning, write-back.

use super::cache::Cache;
use super::group::{find, most_bytes, Answer, Group, Piece, Reach, Set};
use super::segment::learn;
use crate::breach::Breach;
use crate::counters::Cause;
use crate::flash::{Content, Flash};
use crate::mapping::{Ask, Pages};
use crate::prediction::Predictions;
use crate::records::{record_in, Records};
use crate::space::Stream;
use nand::{Done, Lpn, Nand, Ppn, Result, Source};

/// Levels with which a group is compacted whatever its size.
const MOST_LEVELS: u32 = 200;

/// What the mapping is made of.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// LPNs of the device.
    pub exported_pages: u32,
    /// A group is 2 to this many LPNs.
    pub group_shift: u32,
    /// Bytes for directory and cache.
    pub budget: u64,
    /// Error bound of approximate segments, pages.
    pub gamma: u32,
    /// How far down insertion takes overwritten members out.
    pub reach: Reach,
    /// Pages of the write buffer; collection sorts as many.
    pub slots: u32,
    /// Pages written between two compactions.
    pub period: u64,
    /// Controller work of a lookup that the top level answers, ns.
    pub predict_ns: u64,
    /// That of each level below, ns.
    pub level_ns: u64,
    /// Controller work of sorting and learning, ns a page.
    pub learn_ns: u64,
    /// Time of a page on the host's link, ns.
    pub link_ns: u64,
}

/// A page in the data buffer that is to be programmed.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Whose it is.
    pub lpn: Lpn,
    /// Where it is in the data buffer.
    pub slot: u32,
    /// Its version, and whether its content is lost.
    pub content: Content,
    /// What its program waits for.
    pub after: Done,
}

/// Cache and learning.
#[derive(Clone, Debug)]
pub struct Map {
    shape: Shape,
    /// Bytes of the directory.
    pub directory_bytes: u64,
    /// Groups in memory.
    pub cache: Cache,
    predictions: Predictions<Option<(u32, usize)>>,
    group: Group,
    pieces: Vec<Piece>,
    packed: Vec<u8>,
    /// Offset and PPN of the pages programmed last, and the completions of their programs.
    points: Vec<(u8, u32)>,
    dones: Vec<Done>,
    /// The spare bytes of these, and those of the next page.
    spares: Vec<u8>,
    spare: Vec<u8>,
    /// Pages whose LPNs are trimmed.
    pub olds: Vec<Ppn>,
    /// No group below this one is dirty.
    pub first_dirty: u32,
}

/// How far from the page with these spare bytes the page of `offset` is.
pub fn told(spare: &[u8], offset: u8) -> Option<i64> {
    let gamma = spare.len() / 2;
    if spare[gamma] == offset {
        return Some(0);
    }
    spare.iter().position(|&neighbour| neighbour == offset).map(|at| at as i64 - gamma as i64)
}

impl Map {
    /// An empty mapping.
    pub fn with(shape: Shape) -> Map {
        let groups = shape.exported_pages.div_ceil(1 << shape.group_shift);
        let window = 2 * shape.gamma as usize + 1;
        Map {
            predictions: Predictions::new(shape.predict_ns),
            shape,
            directory_bytes: Records::ENTRY_BYTES,
            cache: Cache::new(groups, shape.budget),
            group: Group::with_room(),
            pieces: Vec::with_capacity(256),
            packed: Vec::with_capacity(1 << 14),
            points: Vec::with_capacity(256),
            dones: Vec::with_capacity(256),
            spares: Vec::with_capacity(256 * window),
            spare: vec![0; window],
            olds: Vec::with_capacity(256),
            first_dirty: groups,
        }
    }

    /// What it is made of.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The group of an LPN, and its offset there.
    #[inline]
    pub fn place(&self, lpn: Lpn) -> (u32, u8) {
        (lpn.0 >> self.shape.group_shift, (lpn.0 & ((1 << self.shape.group_shift) - 1)) as u8)
    }

    /// The LPN at an offset of a group.
    #[inline]
    pub fn lpn(&self, group: u32, offset: u8) -> Lpn {
        Lpn((group << self.shape.group_shift) + u32::from(offset))
    }

    /// Bytes in use.
    pub fn bytes(&self) -> u64 {
        self.cache.bytes() + self.directory_bytes
    }

    // Lookups

    /// Makes a group the most recently used one, loading it if it is cold (a translation read, unless it was
    /// never written). Completes when it is known. The cache may be too full afterwards: [`Map::shrink`].
    pub fn touch<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &Records,
        group: u32,
        cause: Cause,
        at: Done,
    ) -> Result<Done> {
        if self.cache.has(group) {
            self.cache.touch(group);
            let (known, _) = self.cache.waits(group);
            return Ok(flash.join(at, known));
        }
        match records.load(flash, group, cause, at)? {
            Some(known) => {
                self.cache.load(group, records.record(flash.buffer(), group), known);
                Ok(known)
            }
            None => {
                self.cache.load(group, &[], at);
                Ok(at)
            }
        }
    }

    /// Starts bringing the record of a group, in memory or on flash, into the processor's cache.
    pub fn expect<N: Nand>(&self, flash: &Flash<N>, records: &Records, group: u32) {
        if self.cache.has(group) {
            self.cache.expect(group);
        } else {
            records.expect_record(flash, group);
        }
    }

    /// Whether nothing of a group was ever mapped, which is known without a read.
    pub fn is_blank(&self, records: &Records, group: u32) -> bool {
        !self.cache.has(group) && records.ppn(records.page_of(group)).is_none()
    }

    /// What a cached group says of an offset, and how many levels were looked at.
    #[inline]
    pub fn answer(&self, group: u32, offset: u8) -> (Option<Answer>, u32) {
        find(self.cache.record(group), offset)
    }

    /// The same as controller work: it completes when the levels are searched.
    #[inline]
    pub fn search<N: Nand>(&mut self, flash: &mut Flash<N>, ask: Ask) -> (Option<Answer>, Done) {
        let (group, offset) = self.place(ask.lpn);
        let (answer, levels) = self.answer(group, offset);
        let below = u64::from(levels.saturating_sub(1));
        let segment = answer.map(|answer| (group, answer.segment));
        let ns = self.predictions.ns(segment, ask) + self.shape.level_ns * below;
        (answer, flash.compute(ns, ask.at))
    }

    /// The page that an approximate answer means, to invalidate it. When it is the only valid page within the
    /// error, the bitmap of valid pages says so; else one read of the predicted page's OOB does.
    pub fn exact<N: Nand>(
        &self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        answer: Answer,
        cause: Cause,
        at: Done,
    ) -> Result<(Ppn, Done)> {
        let predicted = Ppn(answer.ppn);
        if answer.exact {
            return Ok((predicted, at));
        }
        let superblock = flash.nand().geometry().superblock_of(predicted);
        let (first, end) = flash.space.pages_of(superblock);
        let from = Ppn(predicted.0.saturating_sub(self.shape.gamma).max(first.0));
        let end = Ppn((predicted.0 + self.shape.gamma + 1).min(end.0));
        if let Some(only) = flash.space.next_valid(from, end) {
            if flash.space.next_valid(Ppn(only.0 + 1), end).is_none() {
                return Ok((only, at));
            }
        }
        let (_, done) = flash.look(predicted, cause, at)?;
        Ok((self.neighbour(flash.spare(), predicted, lpn), done))
    }

    /// Where the page of `lpn` is, as the OOB of the predicted page tells.
    pub fn neighbour(&self, spare: &[u8], predicted: Ppn, lpn: Lpn) -> Ppn {
        let (_, offset) = self.place(lpn);
        match told(spare, offset) {
            Some(distance) => Ppn((i64::from(predicted.0) + distance) as u32),
            None => panic!(
                "LPN {} was predicted at PPN {}, whose OOB does not tell where it is: {spare:?}",
                lpn.0, predicted.0
            ),
        }
    }

    // Learning

    /// Programs pages of one cached group, ascending by LPN, learns segments over them, and puts these on
    /// top. Completes with the programs.
    pub fn write_run<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        stream: Stream,
        pages: &[Page],
        cause: Cause,
    ) -> Result<Done> {
        let (group, _) = self.place(pages[0].lpn);
        self.points.clear();
        self.dones.clear();
        self.spares.clear();
        let mut programmed = Done::READY;
        for (i, page) in pages.iter().enumerate() {
            let (_, offset) = self.place(page.lpn);
            let from = page.content.source(Source::Buffer(page.slot));
            let mut after = page.after;
            let (ppn, done) = loop {
                self.describe(flash, stream, pages, i);
                let (lpn, content) = (page.lpn, page.content);
                match flash.program_with_spare(stream, lpn, content, from, &self.spare, cause, after) {
                    Ok(Ok(programmed)) => break programmed,
                    Ok(Err(failed)) => after = failed,
                    Err(fault) => {
                        // The end of the device's life: nothing maps what the run has written so far.
                        self.points.drain(..).for_each(|(_, ppn)| flash.invalidate(Ppn(ppn)));
                        return Err(fault);
                    }
                }
            };
            self.points.push((offset, ppn.0));
            self.dones.push(done);
            self.spares.extend_from_slice(&self.spare);
            programmed = flash.join(programmed, done);
        }
        self.learn_run(flash);
        let (pieces, reach) = (std::mem::take(&mut self.pieces), self.shape.reach);
        self.change(flash, group, programmed, |group| group.insert(&pieces, reach));
        self.pieces = pieces;
        Ok(programmed)
    }

    /// Offset, PPN and completion of each page of the last run.
    pub fn written(&self) -> impl Iterator<Item = (u8, Ppn, Done)> + '_ {
        self.points.iter().zip(&self.dones).map(|(&(offset, ppn), &done)| (offset, Ppn(ppn), done))
    }

    /// The spare bytes of page `i` of a run: the offsets in the group of the pages up to gamma before and
    /// behind it, as far as they belong to the run; its own offset in the middle, and wherever there is
    /// no such page.
    fn describe<N: Nand>(&mut self, flash: &Flash<N>, stream: Stream, pages: &[Page], i: usize) {
        let gamma = self.shape.gamma as usize;
        let offset = |page: &Page| (page.lpn.0 & ((1 << self.shape.group_shift) - 1)) as u8;
        self.spare.fill(offset(&pages[i]));
        if pages.len() == 1 {
            return;
        }
        let mut upcoming = flash.space.upcoming(flash.nand(), stream);
        let Some(own) = upcoming.next() else { return };
        for (page, ppn) in pages[i + 1..].iter().zip(upcoming) {
            let distance = (ppn.0 - own.0) as usize;
            if distance > gamma {
                break;
            }
            self.spare[gamma + distance] = offset(page);
        }
        let geometry = flash.nand().geometry();
        let (first, _) = flash.space.pages_of(geometry.superblock_of(own));
        for &(offset, ppn) in self.points.iter().rev() {
            let distance = own.0.wrapping_sub(ppn) as usize;
            if ppn < first.0 || distance > gamma {
                break;
            }
            self.spare[gamma - distance] = offset;
        }
    }

    /// Learns segments over the pages of the last run. A prediction counts only when the page it names was
    /// programmed in this run, in the same superblock, and its spare bytes, as programmed, tell where the
    /// page is.
    fn learn_run<N: Nand>(&mut self, flash: &Flash<N>) {
        self.pieces.clear();
        let geometry = flash.nand().geometry();
        let gamma = self.shape.gamma as usize;
        let window = 2 * gamma + 1;
        let mut first = 0;
        for points in self.points.chunk_by(|a, b| {
            a.1 < b.1 && geometry.superblock_of(Ppn(a.1)) == geometry.superblock_of(Ppn(b.1))
        }) {
            let spares = &self.spares[first * window..][..points.len() * window];
            let tells = |i: usize, predicted: u32| {
                let near = i.saturating_sub(gamma)..(i + gamma + 1).min(points.len());
                near.clone().find(|&j| points[j].1 == predicted).is_some_and(|j| {
                    let distance = i64::from(points[i].1) - i64::from(predicted);
                    told(&spares[j * window..][..window], points[i].0) == Some(distance)
                })
            };
            let mut from = 0;
            learn(points, self.shape.gamma, tells, |segment, count| {
                let members: Set = points[from..from + count].iter().map(|point| point.0).collect();
                self.pieces.push(Piece::new(segment, members));
                from += count;
            });
            first += points.len();
        }
    }

    /// Changes a cached group, which is newer than on flash from now on.
    fn change<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        group: u32,
        programmed: Done,
        change: impl FnOnce(&mut Group),
    ) {
        self.group.unpack(self.cache.record(group));
        change(&mut self.group);
        if self.group.packed_bytes() > most_bytes(1 << self.shape.group_shift)
            || self.group.levels() > MOST_LEVELS
        {
            flash.compute(self.shape.learn_ns * self.group.segments() as u64, Done::READY);
            self.group.compact();
        }
        self.packed.clear();
        self.group.pack(&mut self.packed);
        let (_, before) = self.cache.waits(group);
        let programmed = flash.join(before, programmed);
        self.cache.replace(group, &self.packed, programmed);
        self.first_dirty = self.first_dirty.min(group);
    }

    /// Unmaps offsets `first` to `last` of a cached group.
    pub fn unmap<N: Nand>(&mut self, flash: &mut Flash<N>, group: u32, first: u8, last: u8) {
        self.change(flash, group, Done::READY, |group| group.trim(first, last));
    }

    /// Sets offsets of a cached group to pages that are on flash, or to nowhere, by segments without an
    /// error: what recovery found newer than the group's record.
    pub fn set<N: Nand>(&mut self, flash: &mut Flash<N>, group: u32, changes: &[(u8, Option<Ppn>)]) {
        self.points.clear();
        self.points.extend(changes.iter().filter_map(|&(offset, ppn)| ppn.map(|ppn| (offset, ppn.0))));
        self.pieces.clear();
        let points = &self.points;
        let mut from = 0;
        learn(
            points,
            0,
            |_, _| false,
            |segment, count| {
                let members = points[from..from + count].iter().map(|point| point.0).collect();
                self.pieces.push(Piece::new(segment, members));
                from += count;
            },
        );
        let (pieces, reach) = (std::mem::take(&mut self.pieces), self.shape.reach);
        self.change(flash, group, Done::READY, |group| {
            for &(offset, _) in changes.iter().filter(|change| change.1.is_none()) {
                group.trim(offset, offset);
            }
            if !pieces.is_empty() {
                group.insert(&pieces, reach);
            }
        });
        self.pieces = pieces;
    }

    /// Compacts every cached group. Returns the segments looked at.
    pub fn compact<N: Nand>(&mut self, flash: &mut Flash<N>) -> u64 {
        let mut segments = 0;
        for group in 0..self.shape.exported_pages.div_ceil(1 << self.shape.group_shift) {
            if !self.cache.has(group) || self.cache.record(group).is_empty() {
                continue;
            }
            self.group.unpack(self.cache.record(group));
            segments += self.group.segments() as u64;
            let before = (self.group.packed_bytes(), self.group.levels());
            self.group.compact();
            if (self.group.packed_bytes(), self.group.levels()) != before {
                self.change(flash, group, Done::READY, Group::compact);
            }
        }
        segments
    }

    // Replacement

    /// Puts the coldest groups out until the rest is within the budget, but never `keep`. A dirty one is
    /// written back first, together with all dirty groups of its translation page.
    pub fn shrink<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &mut Records,
        keep: u32,
        cause: Cause,
    ) -> Result<Done> {
        let mut done = Done::READY;
        if self.bytes() <= self.shape.budget {
            // The coldest group is on its way already.
            return Ok(done);
        }
        while self.bytes() > self.shape.budget {
            let Some(coldest) = self.cache.coldest().filter(|&coldest| coldest != keep) else { break };
            if self.cache.is_dirty(coldest) {
                let written = self.write_back(flash, records, coldest, cause, Done::READY)?;
                done = flash.join(done, written);
                flash.counters.replaced_dirty += 1;
            }
            flash.counters.replaced += 1;
            self.cache.remove(coldest);
        }
        if let Some(next) = self.cache.coldest().filter(|&next| self.cache.is_dirty(next)) {
            records.expect_page(flash, records.page_of(next));
        }
        Ok(done)
    }

    /// Writes the translation page of a group with all that is newer in the cache.
    pub fn write_back<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &mut Records,
        group: u32,
        cause: Cause,
        at: Done,
    ) -> Result<Done> {
        let cache = &self.cache;
        let newer = |group: u32| {
            (cache.has(group) && cache.is_dirty(group)).then(|| (cache.record(group), cache.waits(group).1))
        };
        let (written, done) = records.store(flash, group, newer, cause, at)?;
        self.directory_bytes = records.directory_bytes();
        for group in written {
            self.cache.clean(group);
        }
        Ok(done)
    }

    /// Checks the cache, and clean groups against flash.
    pub fn check_groups<N: Nand>(&self, flash: &Flash<N>, records: &Records) -> Result<(), Breach> {
        self.cache.check()?;
        let mut content = Vec::new();
        for index in 0..records.pages() {
            records.inspect_page(flash, index, &mut content);
            for group in records.range(index) {
                let clean = self.cache.has(group) && !self.cache.is_dirty(group);
                if clean && self.cache.record(group) != record_in(&content, group) {
                    return Err(format!("group {group} is clean but differs from its record on flash").into());
                }
                if self.cache.is_dirty(group) && group < self.first_dirty {
                    return Err(format!("group {group} is dirty but would not be written").into());
                }
            }
        }
        Ok(())
    }
}
