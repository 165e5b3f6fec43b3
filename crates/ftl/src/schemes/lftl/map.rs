//! The mapping: TP nodes in memory and chunks on flash; lookups, updates, trims.

use super::ahead::Seen;
use super::cache::{Answer, Cache, MODEL_BYTES, NODE_BYTES, POINT_BYTES};
use super::linear::{BlockLists, LinearModel, Point, Settings, Trainer};
use super::offsets::{bit, is_clear, set_bits, Bits};
use super::open::Open;
use super::record::{enter, identifier_bytes, Chunk, Covering, Packer, Parts};
use super::runs::{self, Runs};
use super::scratch::Scratch;
use super::training::InTraining;
use crate::breach::Breach;
use crate::counters::{Cause, Counters};
use crate::flash::Flash;
use crate::mapping::{Ask, How, Lookup, Pages};
use crate::prediction::Predictions;
use crate::records::{record_in, Records};
use crate::table::{entry, mapped, UNMAPPED};
use nand::{Done, Lpn, Nand, Ppn, Result};
use std::ops::{Range, RangeInclusive};

/// Bytes of a record up to which a chunk counts as linear: its head is worth loading before it is asked for.
const LINEAR_BYTES: usize = 48;
/// Bytes made free before a translation page is read: what most misses need.
const USUAL_BYTES: u64 = NODE_BYTES + 2 * MODEL_BYTES + 2 * POINT_BYTES;
/// So many of the least recently used chunks are looked at for the one to write back.
const COLDEST: usize = 33;
/// Eighths of the cache that may be newer than on flash, beyond which host writes write back; idle moments
/// begin an eighth earlier.
pub(super) const MOST_DIRTY: u64 = 4;
/// Lines of the processor's cache in which the head of a chunk lies on an aged device.
pub(super) const LINES_OF_A_HEAD: u32 = 10;
/// Bytes kept free for the directory when the head of a chunk is loaded.
const SPARE_BYTES: u64 = 128;

/// What the mapping is made of.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// LPNs of the device.
    pub exported_pages: u32,
    /// LPNs of a subspace, at most 65,536.
    pub subspace_pages: u32,
    /// LPNs of a chunk.
    pub chunk_lpas: u32,
    /// Bytes of a point mapping on flash.
    pub point_bytes: usize,
    /// Bytes for everything in memory.
    pub budget: u64,
    /// Bytes of log mappings beyond which some are trained.
    pub log_bytes: u64,
    /// Chunks behind the requested one whose heads are loaded with it.
    pub ahead: u32,
    /// Controller work of a prediction, ns.
    pub predict_ns: u64,
    /// Controller work of looking at a point while a model is made, or at an LPA of a record, ns.
    pub train_ns: u64,
    /// Controller work of a point in a level of sorting, ns.
    pub sort_ns: u64,
    /// Log mappings that are trained at once.
    pub set: u32,
}

impl Shape {
    /// LPAs whose outliers are loaded at once beyond those that are asked for: they take no more than a
    /// load's share of the cache. Else loads by turns would put out what others brought.
    pub(super) fn most_at_once(&self) -> u32 {
        (self.budget / (runs::LOADS as u64 * POINT_BYTES)) as u32
    }
}

/// A log mapping that is to be trained.
#[derive(Clone, Copy, Debug)]
pub(super) struct Logged {
    pub(super) group: u16,
    pub(super) point: Point,
}

/// Of which linear groups log mappings are trained.
#[derive(Clone, Copy, Debug)]
pub enum Trained {
    /// All groups that hold log mappings.
    All,
    /// Those of a superblock.
    Superblock(u32),
    /// A lane: superblock and node.
    Lane(u32, u32),
}

/// Directory, TP nodes, block lists and training.
#[derive(Clone, Debug)]
pub struct Map {
    shape: Shape,
    /// Bytes of the directory.
    pub directory_bytes: u64,
    /// TP nodes.
    pub cache: Cache,
    /// Linear groups.
    pub lists: BlockLists,
    /// Subspaces and open groups.
    pub open: Open,
    pub(super) trainer: Trainer,
    pub(super) packer: Packer,
    /// State of the generator that draws random samples.
    pub(super) random: u32,
    /// Log mappings by subspace.
    pub(super) logs: Vec<u32>,
    pub(super) logged: Scratch<Logged>,
    pub(super) in_training: InTraining,
    pub(super) exemplary: Scratch<Point>,
    pub(super) table: Scratch<u32>,
    /// Bytes of the buffer in which a translation page is made.
    page_bytes: u64,
    /// Bytes of all buffers, which never change.
    buffer_bytes: u64,
    /// No chunk below this one is newer than on flash.
    pub clean_below: u32,
    /// Translation pages written back so far.
    pub(super) write_backs: u64,
    /// Things written to flash to make room, and not counted as put out yet.
    written_for_room: u64,
    /// Which loads go on where one before ended.
    pub(super) runs: Runs,
    /// The request that was looked through last.
    pub(super) seen: Seen,
    /// Controller work of predictions.
    pub predictions: Predictions<LinearModel>,
}

/// What was loaded of other chunks before it was asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Ahead {
    /// Models and outlier mappings.
    installed: u64,
    /// Models and outliers that were unpacked.
    unpacked: u64,
    /// What was put out for them.
    replaced: u64,
}

/// What is loaded of a chunk.
#[derive(Clone, Debug)]
struct Wanted {
    /// Models of these offsets.
    models: RangeInclusive<u16>,
    /// Outlier mappings of these.
    outliers: RangeInclusive<u16>,
    /// Bytes that it takes.
    bytes: u64,
}

impl Map {
    /// An empty mapping; `page_bytes` is the buffer in which translation pages are made.
    pub fn with(shape: Shape, lists: BlockLists, open: Open, settings: Settings, page_bytes: u64) -> Map {
        let chunks = shape.exported_pages.div_ceil(shape.chunk_lpas);
        let subspaces = shape.exported_pages.div_ceil(shape.subspace_pages);
        let (set, chunk_lpas) = (shape.set as usize, shape.chunk_lpas as usize);
        let mut map = Map {
            shape,
            directory_bytes: Records::ENTRY_BYTES,
            cache: Cache::new(chunks, shape.chunk_lpas, shape.budget),
            lists,
            open,
            trainer: Trainer::new(settings, set),
            packer: Packer::new(chunk_lpas),
            random: 1,
            logs: vec![0; subspaces as usize],
            logged: Scratch::with_room(set),
            in_training: InTraining::new(),
            exemplary: Scratch::with_room(Settings::MOST_SAMPLED),
            table: Scratch::with_room(chunk_lpas),
            page_bytes,
            buffer_bytes: 0,
            clean_below: 0,
            write_backs: 0,
            written_for_room: 0,
            runs: Runs::new(0),
            seen: Seen::new(shape.most_at_once() / shape.chunk_lpas + 2),
            predictions: Predictions::new(shape.predict_ns),
        };
        map.buffer_bytes = map.buffers().iter().sum();
        map
    }

    /// Bytes of the buffers as they are now: for training, and for translation pages.
    pub fn buffers(&self) -> [u64; 2] {
        let training = self.logged.bytes() + self.exemplary.bytes() + self.trainer.bytes();
        [training, self.page_bytes + self.table.bytes() + self.packer.bytes()]
    }

    /// Bytes that are always there: block lists, open groups, the last loads, buffers.
    pub fn fixed_bytes(&self) -> u64 {
        self.lists.bytes() + self.open.bytes() + self.runs.bytes() + self.buffer_bytes + InTraining::OWN_BYTES
    }

    /// What it is made of.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Bytes that one operation brings in, at least, and what is kept free beside: the node and identifier of
    /// a chunk, and a few models and outlier mappings.
    pub fn least_of_chunk(lpas: u32) -> u64 {
        2 * NODE_BYTES + u64::from(lpas.div_ceil(8)) + 2 * (POINT_BYTES + MODEL_BYTES) + SPARE_BYTES
    }

    /// The chunk of an LPN, and its offset there.
    #[inline]
    pub fn place(&self, lpn: Lpn) -> (u32, u16) {
        // A power of two, as the cache asserts.
        let lpas = self.shape.chunk_lpas;
        (lpn.0 >> lpas.trailing_zeros(), (lpn.0 & (lpas - 1)) as u16)
    }

    pub(super) fn first_lpn(&self, chunk: u32) -> Lpn {
        Lpn(chunk * self.shape.chunk_lpas)
    }

    /// LPNs of a chunk; the last one may be cut short by the device's end.
    fn lpns_in(&self, chunk: u32) -> u32 {
        self.shape.chunk_lpas.min(self.shape.exported_pages - self.first_lpn(chunk).0)
    }

    /// How a chunk is packed.
    pub fn chunk(&self, chunk: u32) -> Chunk {
        Self::chunk_of(&self.shape, chunk)
    }

    /// Bytes in use.
    pub fn bytes(&self) -> u64 {
        self.directory_bytes + self.cache.bytes() + self.in_training.bytes() + self.fixed_bytes()
    }

    /// The budget holds whenever something was added.
    pub(super) fn keep_budget(&self) {
        let bytes = self.bytes();
        assert!(bytes <= self.shape.budget, "the mapping takes {bytes} bytes of {}", self.shape.budget);
    }

    /// Bytes that have to be put out so that there is room for `bytes` more; `None`: there is room.
    fn missing(&self, bytes: u64) -> Option<u64> {
        (self.bytes() + bytes).checked_sub(self.shape.budget).filter(|&missing| missing > 0)
    }

    /// Whether nothing of a chunk was ever mapped, which is known without a read.
    pub fn is_blank(&self, records: &Records, chunk: u32) -> bool {
        !self.cache.has(chunk) && records.ppn(records.page_of(chunk)).is_none()
    }

    // Lookups

    /// Loads the head of a chunk, the outlier mapping at `offset` if there is one, and what is prefetched
    /// with them: the outlier mappings that the rest of the request will ask for, and more behind them (see
    /// [`Map::pages_at_once`]), as far as its translation page has them; and heads of linear chunks in it.
    pub fn load<N: Nand>(&mut self, flash: &mut Flash<N>, records: &mut Records, ask: Ask) -> Result<Lookup> {
        let (found, model) = self.bring(flash, records, ask)?;
        let predict = |model| flash.compute(self.predictions.ns(model, ask), found.done);
        Ok(Lookup { done: model.map_or(found.done, predict), ..found })
    }

    /// The same without the work of a prediction. Returns the model that says where the page is, too, if one
    /// does.
    pub(super) fn bring<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &mut Records,
        ask: Ask,
    ) -> Result<(Lookup, Option<LinearModel>)> {
        let (number, offset) = self.place(ask.lpn);
        self.cache.expect_head(number);
        records.expect(flash, number, LINES_OF_A_HEAD);
        let goes_on = self.runs.goes_on(number, offset);
        let pages = self.pages_at_once(ask.rest, goes_on);
        let mut at = self.make_way(flash, records, USUAL_BYTES, Cause::Translation, ask.at)?;
        loop {
            let Some(read) = records.load(flash, number, Cause::Translation, at)? else {
                return Ok((Lookup::new(None, at, How::CachedEntry), None));
            };
            let parts = self.chunk(number).parts(records.record(flash.buffer(), number));
            let last = self.last_of(number, offset, pages);
            let wanted = self.wanted(&parts, offset, last);
            let unpacked = parts.looked_at(wanted.outliers.clone());
            let known = flash.compute_in_slices(unpacked * self.shape.train_ns, read);
            let before = self.write_backs;
            at = self.make_way(flash, records, wanted.bytes, Cause::Translation, known)?;
            if self.write_backs != before {
                // What was written back to make way may have been in this very page.
                continue;
            }
            let (found, model, mut prefetched) =
                self.install(records.record(flash.buffer(), number), number, offset, &wanted, known);
            let end = Lpn(ask.lpn.0.saturating_add(pages).min(self.shape.exported_pages));
            let mut ahead = Ahead::default();
            self.install_behind(flash.buffer(), records, number, end, known, &mut ahead);
            self.install_ahead(flash.buffer(), records, number, known, &mut ahead);
            prefetched += ahead.installed;
            flash.counters.prefetched += prefetched;
            self.count_put_out(&mut flash.counters, ahead.replaced);
            flash.compute_in_slices(ahead.unpacked * self.shape.train_ns, known);
            return Ok((Lookup::new(found, at, How::Loaded), model));
        }
    }

    /// Pages whose outliers a load brings, from the one asked for on: those of the request, and as many again
    /// if it has several, for a long read often goes on; more where loads go on (`runs`).
    fn pages_at_once(&self, rest: u32, goes_on: bool) -> u32 {
        let most = self.shape.most_at_once();
        let again = if rest > 1 { rest.min(most) } else { 0 };
        (rest + again).max(if goes_on { most } else { 0 })
    }

    /// The offset in a chunk of the last of `pages` pages from `offset` on.
    fn last_of(&self, number: u32, offset: u16, pages: u32) -> u16 {
        (u32::from(offset) + pages - 1).min(self.lpns_in(number) - 1) as u16
    }

    /// What is loaded of a chunk with `offset`: its head and the outlier mappings up to `last`, or, where
    /// memory is too small for that, what says where `offset` is.
    fn wanted(&self, parts: &Parts<'_>, offset: u16, last: u16) -> Wanted {
        let outliers = u64::from(u32::from(last - offset) + 1).min(u64::from(parts.outlier_count()));
        let bytes = NODE_BYTES + self.cache.head_bytes(parts) + outliers * POINT_BYTES;
        let others = self.directory_bytes + self.fixed_bytes() + SPARE_BYTES;
        if bytes + others <= self.shape.budget {
            return Wanted { models: 0..=self.shape.chunk_lpas as u16 - 1, outliers: offset..=last, bytes };
        }
        let identifier = identifier_bytes(parts.outlier_count(), self.shape.chunk_lpas);
        let bytes = NODE_BYTES + identifier + MODEL_BYTES + POINT_BYTES;
        Wanted { models: offset..=offset, outliers: offset..=offset, bytes }
    }

    /// Enters what is wanted of a chunk. There is room for it. Returns where `offset` is, the model that says
    /// so, if one does, and how many more outlier mappings came with it.
    fn install(
        &mut self,
        record: &[u8],
        number: u32,
        offset: u16,
        wanted: &Wanted,
        known: Done,
    ) -> (Option<Ppn>, Option<LinearModel>, u64) {
        let (mut found, mut prefetched) = (None, 0);
        let parts = self.chunk(number).parts(record);
        self.cache.set_head(number, &parts, wanted.models.clone(), known);
        let first = self.first_lpn(number);
        parts.each_outlier_in(wanted.outliers.clone(), |outlier, entry| {
            let lpn = Lpn(first.0 + u32::from(outlier));
            if outlier == offset {
                found = mapped(entry);
            }
            // A model trained since may have made it a member.
            if matches!(self.cache.peek(lpn, outlier), Answer::Missing) {
                self.cache.add_clean(lpn, entry, known);
                prefetched += u64::from(outlier != offset);
            }
        });
        self.keep_budget();
        self.cache.touch(number);
        if let Answer::Model(model, _) = self.cache.peek(Lpn(first.0 + u32::from(offset)), offset) {
            return (self.chunk(number).predict(&self.lists, model, offset), Some(model), prefetched);
        }
        (found, None, prefetched)
    }

    /// Enters what pages before `until` will miss of the chunks behind this one in the same translation page.
    fn install_behind(
        &mut self,
        page: &[u8],
        records: &Records,
        number: u32,
        until: Lpn,
        known: Done,
        all: &mut Ahead,
    ) {
        let end = self.place(Lpn(until.0 - 1)).0 + 1;
        for (next, record) in records.short_records(page, number, end, usize::MAX) {
            let first = self.first_lpn(next);
            let last = Lpn(until.0.min(first.0 + self.lpns_in(next)));
            let Some(missing) = self.cache.first_missing(first..last) else { continue };
            let offset = self.place(missing).1;
            let parts = self.chunk(next).parts(record);
            let wanted = self.wanted(&parts, offset, self.last_of(next, offset, last.0 - missing.0));
            let fits = wanted.models.start() != wanted.models.end();
            if !fits || !self.make_way_ahead(wanted.bytes, number, all) {
                return;
            }
            all.unpacked += parts.looked_at(wanted.outliers.clone());
            all.installed += self.install(record, next, offset, &wanted, known).2 + 1;
            self.cache.touch(number);
        }
    }

    /// Loads the heads of linear chunks behind this one, in the same translation page, that nobody has asked
    /// for yet.
    fn install_ahead(&mut self, page: &[u8], records: &Records, number: u32, known: Done, all: &mut Ahead) {
        let end = number + 1 + self.shape.ahead;
        for (ahead, record) in records.short_records(page, number, end, LINEAR_BYTES) {
            if self.cache.has(ahead) {
                continue;
            }
            let parts = self.chunk(ahead).parts(record);
            if !self.make_way_ahead(NODE_BYTES + self.cache.head_bytes(&parts), number, all) {
                return;
            }
            self.cache.set_head(ahead, &parts, 0..=self.shape.chunk_lpas as u16 - 1, known);
            self.cache.touch(ahead);
            self.cache.touch(number);
            all.installed += u64::from(parts.model_count());
            all.unpacked += u64::from(parts.model_count() + parts.outlier_count());
            self.keep_budget();
        }
    }

    /// Makes `bytes` bytes free for what is loaded beside chunk `number`. Whether there is room: what has to
    /// be written first is not put out for it, nor is the chunk.
    fn make_way_ahead(&mut self, bytes: u64, number: u32, all: &mut Ahead) -> bool {
        while let Some(missing) = self.missing(bytes) {
            if self.cache.coldest_clean().is_none_or(|coldest| coldest == number) {
                return false;
            }
            all.replaced += self.cache.put_out(missing);
        }
        true
    }

    // Updates

    /// `lpn` is at `ppn` from now on, programmed at `programmed`: a log mapping. The mapping before need not
    /// be known.
    #[allow(clippy::too_many_arguments)]
    pub fn put<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &mut Records,
        lpn: Lpn,
        ppn: Ppn,
        programmed: Done,
        cause: Cause,
        at: Done,
    ) -> Result<Done> {
        let at = self.make_way(flash, records, NODE_BYTES + POINT_BYTES + 1, cause, at)?;
        let subspace = (lpn.0 / self.shape.subspace_pages) as usize;
        // A page that recovery found in a block retired since its superblock was opened is in no linear
        // group.
        let logs = self.lists.has(ppn);
        let was_log = self.cache.set(lpn, ppn.0, programmed, logs);
        let number = self.place(lpn).0;
        let newer = flash.join(self.cache.waits(number).1, programmed);
        self.cache.set_newer(number, newer);
        self.logs[subspace] += u32::from(logs);
        self.logs[subspace] -= u32::from(was_log);
        self.keep_budget();
        self.clean_below = self.clean_below.min(number);
        if self.cache.log_bytes() > self.shape.log_bytes {
            let most = (0..self.logs.len()).max_by_key(|&at| (self.logs[at], std::cmp::Reverse(at)));
            self.train(flash, most.unwrap_or(0) as u32, Trained::All);
        }
        Ok(at)
    }

    // Replacement

    /// Makes `bytes` bytes free: of log mappings that models replace, then of what is clean, as long as there
    /// is any. Completes when that is free, and what had to be written is. Where that is more than one
    /// translation page, none waits for another: an aged chunk frees so few bytes that a miss needs up to 16,
    /// and one after the other they were the slowest reads.
    pub fn make_way<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &mut Records,
        bytes: u64,
        cause: Cause,
        at: Done,
    ) -> Result<Done> {
        let mut done = at;
        while let Some(missing) = self.missing(bytes) {
            if let Some(free) = self.in_training.give_back() {
                done = flash.join(done, free);
                continue;
            }
            let count = self.cache.put_out(missing);
            self.count_put_out(&mut flash.counters, count);
            if count > 0 {
                continue;
            }
            let Some(chunk) = self.cache.to_write_back(COLDEST) else {
                panic!("{} bytes are not enough for one chunk", self.shape.budget)
            };
            self.written_for_room += self.cache.newer_in(chunk);
            let written = self.write_back(flash, records, chunk, false, cause, at)?;
            done = flash.join(done, written);
        }
        Ok(done)
    }

    /// Counts what was put out: log mappings, outliers, models, heads. What goes is clean; as many of it
    /// count as dirty as had to be written for the room, once each.
    fn count_put_out(&mut self, counters: &mut Counters, count: u64) {
        let dirty = count.min(self.written_for_room);
        self.written_for_room -= dirty;
        counters.replaced += count;
        counters.replaced_dirty += dirty;
    }

    /// Writes back one translation page when memory is full, and what is newer than on flash takes more than
    /// a share of the cache, in eighths. So there is always something clean for what a read loads. Host
    /// writes do it and wait for it, and idle moments do it earlier. Were it done by reads, or waited for by
    /// nobody, write-backs would pile up: the P99 of telegram's reads on a full and aged `ufs-32g` was 80 ms
    /// and more.
    pub fn write_ahead<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &mut Records,
        eighths: u64,
        at: Done,
    ) -> Result<Option<Done>> {
        let room = self.shape.budget - self.fixed_bytes() - self.directory_bytes;
        // Room for any head: where heads are put out, they leave room for a smaller one.
        let has_room = self.bytes() - self.in_training.bytes() + self.page_bytes <= self.shape.budget;
        if flash.full || has_room || 8 * self.cache.dirty_bytes() <= eighths * room {
            return Ok(None);
        }
        let Some(chunk) = self.cache.to_write_back(COLDEST) else { return Ok(None) };
        self.written_for_room += self.cache.newer_in(chunk);
        let cause = Cause::Translation;
        let written = self.write_back(flash, records, chunk, true, cause, at)?;
        self.make_way(flash, records, 0, cause, written).map(Some)
    }

    // Trims

    /// Unmaps offsets `range` of a chunk. Completes when the pages that they led to are known. `trims`: they
    /// are looked for here, and what is found is invalidated.
    pub fn unmap<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &mut Records,
        number: u32,
        range: Range<u32>,
        trims: bool,
        at: Done,
    ) -> Result<Done> {
        if self.is_blank(records, number) {
            return Ok(at);
        }
        let mut done = self.make_way(flash, records, NODE_BYTES + MODEL_BYTES + 1, Cause::Translation, at)?;
        let first = self.first_lpn(number).0;
        let in_memory = |map: &Map, offset: u32| {
            let answer = map.cache.peek(Lpn(first + offset), offset as u16);
            map.cache.has(number) && !matches!(answer, Answer::Missing)
        };
        self.table.clear();
        self.table.resize(self.shape.chunk_lpas as usize, UNMAPPED);
        let mut work_ns = 0;
        if !range.clone().all(|offset| in_memory(self, offset)) {
            if let Some(loaded) = records.load(flash, number, Cause::Translation, done)? {
                done = loaded;
                let record = records.record(flash.buffer(), number);
                self.chunk(number).decode(&self.lists, record, &mut self.table);
                work_ns += u64::from(self.shape.chunk_lpas) * self.shape.train_ns;
            }
        }
        let mut any = false;
        for offset in range.clone() {
            let lpn = Lpn(first + offset);
            let entry = match self.cache.peek(lpn, offset as u16) {
                Answer::Point(entry, known) => {
                    done = flash.join(done, known);
                    mapped(entry)
                }
                Answer::Model(model, known) => {
                    done = flash.join(done, known);
                    work_ns += self.predictions.ns(model, Ask { lpn, rest: range.end - offset, at });
                    self.chunk(number).predict(&self.lists, model, offset as u16)
                }
                Answer::Nowhere(_) => None,
                Answer::Missing => mapped(self.table[offset as usize]),
            };
            any |= entry.is_some();
            if let Some(page) = entry.filter(|_| trims) {
                flash.invalidate(page);
            }
        }
        if any {
            self.forget(number, range);
        }
        Ok(if trims { flash.compute_in_slices(work_ns, done) } else { done })
    }

    /// Enters that offsets `range` of a chunk are mapped nowhere. There is room for it.
    fn forget(&mut self, number: u32, range: Range<u32>) {
        let first = self.first_lpn(number).0;
        let subspace = (first / self.shape.subspace_pages) as usize;
        for lpn in (first + range.start..first + range.end).map(Lpn) {
            let removed = self.cache.remove(lpn);
            self.logs[subspace] -= u32::from(removed.is_some_and(|point| Cache::is_log(&point)));
        }
        let chunk = self.chunk(number);
        let (start, group) = (chunk.first_lpa + range.start as u16, LinearModel::NOWHERE);
        let model = LinearModel { start, group, ..LinearModel::default() };
        let own = Covering { first: range.start as u16, last: range.end as u16 - 1, model };
        self.cache.train(number, own, self.cache.waits(number).0);
        self.keep_budget();
        self.clean_below = self.clean_below.min(number);
    }

    /// Enters what recovery found newer than the record of a chunk: where offsets are now.
    pub fn change<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &mut Records,
        number: u32,
        changes: &[(u16, Option<Ppn>)],
        at: Done,
    ) -> Result<()> {
        let first = self.first_lpn(number).0;
        let mut from = 0;
        while from < changes.len() {
            records.make_room(flash, Done::READY)?;
            let (offset, ppn) = changes[from];
            if let Some(ppn) = ppn {
                let lpn = Lpn(first + u32::from(offset));
                self.put(flash, records, lpn, ppn, Done::READY, Cause::Recovery, at)?;
                from += 1;
                continue;
            }
            let follows = |(i, change): (usize, &(u16, Option<Ppn>))| {
                change.1.is_none() && usize::from(change.0) == usize::from(offset) + i
            };
            let count = changes[from..].iter().enumerate().take_while(|&each| follows(each)).count();
            self.make_way(flash, records, NODE_BYTES + MODEL_BYTES + 1, Cause::Recovery, at)?;
            self.forget(number, u32::from(offset)..u32::from(offset) + count as u32);
            from += count;
        }
        Ok(())
    }

    // Content

    /// How a chunk is packed.
    pub(super) fn chunk_of(shape: &Shape, number: u32) -> Chunk {
        let first = number * shape.chunk_lpas;
        Chunk {
            first_lpa: (first % shape.subspace_pages) as u16,
            lpas: shape.chunk_lpas as u16,
            point_bytes: shape.point_bytes,
        }
    }

    /// Applies to the table of a chunk what memory holds that is newer than flash. Returns the LPAs that it
    /// looked at.
    pub(super) fn newer(
        cache: &Cache,
        lists: &BlockLists,
        shape: &Shape,
        number: u32,
        table: &mut [u32],
    ) -> u64 {
        let models = Self::newer_models(cache, lists, shape, number, table);
        models + Self::newer_points(cache, shape, number, table)
    }

    /// The same of models alone.
    pub(super) fn newer_models(
        cache: &Cache,
        lists: &BlockLists,
        shape: &Shape,
        number: u32,
        table: &mut [u32],
    ) -> u64 {
        let chunk = Self::chunk_of(shape, number);
        let (mut covered, mut looked_at) = (Bits::default(), 0);
        for (_, own) in cache.trained(number) {
            looked_at += u64::from(own.last - own.first) + 1;
            let is_free = is_clear(&covered, own.first, own.last);
            chunk.each_stretch(lists, own.model, own.first..own.last + 1, |offsets, page| {
                if is_free {
                    return enter(&mut table[usize::from(offsets.start)..usize::from(offsets.end)], page);
                }
                for offset in offsets.clone().filter(|&offset| !bit(&covered, offset)) {
                    let page = page.map(|first| Ppn(first.0 + u32::from(offset - offsets.start)));
                    table[usize::from(offset)] = entry(page);
                }
            });
            set_bits(&mut covered, own.first, own.last);
        }
        looked_at
    }

    /// The same of point mappings alone.
    pub(super) fn newer_points(cache: &Cache, shape: &Shape, number: u32, table: &mut [u32]) -> u64 {
        let mut looked_at = 0;
        let first = number * shape.chunk_lpas;
        let mut from = Lpn(first);
        while let Some(lpn) = cache.next_point(from, Lpn(first + shape.chunk_lpas)) {
            from = Lpn(lpn.0 + 1);
            looked_at += 1;
            if let Some(point) = cache.point(lpn) {
                table[(lpn.0 - first) as usize] = point.ppn;
            }
        }
        looked_at
    }

    // Checks

    /// The table of a chunk as memory and flash say, free of charge. `content` is its translation page.
    pub fn table(&self, number: u32, content: &[u8], table: &mut Vec<u32>) {
        let record = record_in(content, number);
        self.chunk(number).decode(&self.lists, record, table);
        if self.cache.has(number) {
            Self::newer(&self.cache, &self.lists, &self.shape, number, table);
        }
    }

    /// Checks the cache, and what is clean against flash.
    pub fn check<N: Nand>(&self, flash: &Flash<N>, records: &Records) -> Result<(), Breach> {
        self.cache.check()?;
        let buffers = self.buffers().iter().sum::<u64>();
        if buffers != self.buffer_bytes {
            return Err(
                format!("the buffers take {buffers} bytes, but {} are counted", self.buffer_bytes).into()
            );
        }
        let (mut content, mut clean, mut now) = (Vec::new(), Vec::new(), Vec::new());
        let mut logs = vec![0; self.logs.len()];
        for index in 0..records.pages() {
            records.inspect_page(flash, index, &mut content);
            for number in records.range(index).filter(|&number| self.cache.has(number)) {
                if self.cache.is_dirty(number) && number < self.clean_below {
                    return Err(
                        format!("chunk {number} is newer than on flash but would not be written").into()
                    );
                }
                logs[(self.first_lpn(number).0 / self.shape.subspace_pages) as usize] +=
                    self.cache.logs_of(number);
                let record = record_in(&content, number);
                self.chunk(number).decode(&self.lists, record, &mut clean);
                self.table(number, &content, &mut now);
                self.check_chunk(number, &clean, &now)?;
            }
        }
        if logs != self.logs {
            return Err(
                format!("log mappings by subspace are {logs:?} but {:?} are counted", self.logs).into()
            );
        }
        if self.bytes() > self.shape.budget || self.directory_bytes != records.directory_bytes() {
            return Err(format!("the mapping takes {} bytes of {}", self.bytes(), self.shape.budget).into());
        }
        Ok(())
    }

    /// What the cache says of a chunk is what it says together with flash, and flash alone where nothing is
    /// newer.
    fn check_chunk(&self, number: u32, clean: &[u32], now: &[u32]) -> Result<(), Breach> {
        let first = self.first_lpn(number).0;
        for (offset, (&now, &clean)) in (0u16..).zip(now.iter().zip(clean)) {
            let lpn = Lpn(first + u32::from(offset));
            let said = match self.cache.peek(lpn, offset) {
                Answer::Point(entry, _) => entry,
                Answer::Model(model, _) => entry(self.chunk(number).predict(&self.lists, model, offset)),
                Answer::Nowhere(_) => UNMAPPED,
                Answer::Missing => now,
            };
            let is_clean = self.cache.point(lpn).is_some_and(|point| !point.is_dirty());
            if said != now || (is_clean && said != clean) || (!self.cache.is_dirty(number) && now != clean) {
                return Err(
                    format!("LPN {} is at {now}, the cache says {said} and flash {clean}", lpn.0).into()
                );
            }
        }
        Ok(())
    }
}
