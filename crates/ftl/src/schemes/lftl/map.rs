//! The mapping: TP nodes in memory and chunks on flash; lookups, training, write-back, trims.

use super::cache::{Answer, Cache, PutOut, MODEL_BYTES, NODE_BYTES, POINT_BYTES};
use super::linear::{BlockLists, LinearModel, Point, Settings, Trainer};
use super::open::{Lane, Open};
use super::record::{Chunk, Covering, Packer, Parts};
use super::stats;
use crate::breach::Breach;
use crate::counters::Cause;
use crate::flash::Flash;
use crate::list::NONE;
use crate::mapping::{How, Lookup, Pages};
use crate::records::{record_in, Records};
use crate::table::{entry, mapped, UNMAPPED};
use nand::{Done, Lpn, Nand, Ppn, Result};
use std::ops::Range;

/// Bytes of a record up to which a chunk counts as linear: its head is worth loading before it is asked for.
const LINEAR_BYTES: usize = 48;
/// Bytes made free before a translation page is read: what most misses need.
const USUAL_BYTES: u64 = NODE_BYTES + 2 * MODEL_BYTES + 2 * POINT_BYTES;

/// Controller work of training after which other work may come in between, ns.
const SLICE_NS: u64 = 5_000;

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
    /// Controller work of looking at a point while a model is made, ns.
    pub train_ns: u64,
}

/// A log mapping that is to be trained.
#[derive(Clone, Copy, Debug)]
struct Logged {
    group: u16,
    point: Point,
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
    trainer: Trainer,
    packer: Packer,
    /// State of the generator that draws random samples.
    random: u32,
    /// Log mappings by subspace.
    logs: Vec<u32>,
    logged: Vec<Logged>,
    points: Vec<Point>,
    exemplary: Vec<Point>,
    table: Vec<u32>,
    candidates: Vec<Covering>,
    /// A translation page, and the records that were merged for one: chunk and where its record begins.
    page: Vec<u8>,
    merged: Vec<u8>,
    bounds: Vec<(u32, u32)>,
    /// Pages whose LPNs were trimmed.
    pub trimmed: Vec<Ppn>,
    /// No chunk below this one is newer than on flash.
    pub clean_below: u32,
    /// Translation pages written back so far.
    write_backs: u64,
}

impl Map {
    /// An empty mapping.
    pub fn with(shape: Shape, lists: BlockLists, open: Open, settings: Settings, page_bytes: u32) -> Map {
        let chunks = shape.exported_pages.div_ceil(shape.chunk_lpas);
        let subspaces = shape.exported_pages.div_ceil(shape.subspace_pages);
        let subspace = shape.subspace_pages as usize;
        Map {
            shape,
            directory_bytes: Records::ENTRY_BYTES,
            cache: Cache::new(chunks, shape.chunk_lpas, shape.budget),
            lists,
            open,
            trainer: Trainer::new(settings, subspace),
            packer: Packer::default(),
            random: 1,
            logs: vec![0; subspaces as usize],
            logged: Vec::with_capacity(subspace),
            points: Vec::with_capacity(subspace),
            exemplary: Vec::with_capacity(Settings::MOST_SAMPLED),
            table: Vec::with_capacity(shape.chunk_lpas as usize),
            candidates: Vec::with_capacity(4 * shape.chunk_lpas as usize),
            page: Vec::with_capacity(page_bytes as usize),
            merged: Vec::with_capacity(shape.budget as usize + 2 * page_bytes as usize),
            bounds: Vec::with_capacity(chunks as usize),
            trimmed: Vec::with_capacity(shape.chunk_lpas as usize),
            clean_below: 0,
            write_backs: 0,
        }
    }

    /// What it is made of.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Bytes that one operation brings in, at most, and what is kept free beside: a chunk's node, its outlier
    /// mappings, and a model for three LPAs and one of nowhere for two.
    pub fn most_of_chunk(lpas: u32) -> u64 {
        2 * NODE_BYTES + u64::from(lpas) * (POINT_BYTES + MODEL_BYTES / 2) + 128
    }

    /// The chunk of an LPN, and its offset there.
    #[inline]
    pub fn place(&self, lpn: Lpn) -> (u32, u16) {
        (lpn.0 / self.shape.chunk_lpas, (lpn.0 % self.shape.chunk_lpas) as u16)
    }

    fn first_lpn(&self, chunk: u32) -> Lpn {
        Lpn(chunk * self.shape.chunk_lpas)
    }

    /// LPNs of a chunk; the last one may be cut short by the device's end.
    fn lpns_in(&self, chunk: u32) -> u32 {
        self.shape.chunk_lpas.min(self.shape.exported_pages - self.first_lpn(chunk).0)
    }

    /// How a chunk is packed.
    pub fn chunk(&self, chunk: u32) -> Chunk {
        Chunk {
            first_lpa: (self.first_lpn(chunk).0 % self.shape.subspace_pages) as u16,
            lpas: self.shape.chunk_lpas as u16,
            point_bytes: self.shape.point_bytes,
        }
    }

    /// Bytes in use.
    pub fn bytes(&self) -> u64 {
        self.directory_bytes + self.cache.bytes() + self.lists.bytes() + self.open.bytes()
    }

    /// The budget holds whenever something was added.
    fn keep_budget(&self) {
        let bytes = self.bytes();
        assert!(bytes <= self.shape.budget, "the mapping takes {bytes} bytes of {}", self.shape.budget);
    }

    /// Whether nothing of a chunk was ever mapped, which is known without a read.
    pub fn is_blank(&self, records: &Records, chunk: u32) -> bool {
        !self.cache.has(chunk) && records.ppn(records.page_of(chunk)).is_none()
    }

    // Lookups

    /// Loads the head of a chunk, the outlier mapping at `offset` if there is one, and what is prefetched
    /// with them: the outlier mappings that the rest of the request will ask for, and the heads of linear
    /// chunks behind this one.
    pub fn load<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &mut Records,
        number: u32,
        offset: u16,
        rest: u32,
        at: Done,
    ) -> Result<Lookup> {
        let mut at = self.make_way(flash, records, USUAL_BYTES, Cause::Translation, at)?;
        loop {
            let Some(known) = records.load(flash, number, Cause::Translation, at)? else {
                return Ok(Lookup::new(None, at, How::CachedEntry));
            };
            let mut page = std::mem::take(&mut self.page);
            page.clear();
            page.extend_from_slice(flash.buffer());
            let parts = self.chunk(number).parts(record_in(&page, number));
            let last = (u32::from(offset) + rest - 1).min(self.lpns_in(number) - 1);
            let wanted = (last - u32::from(offset) + 1).min(parts.outlier_count());
            let need = NODE_BYTES + self.cache.head_bytes(&parts) + u64::from(wanted) * POINT_BYTES;
            let before = self.write_backs;
            at = self.make_way(flash, records, need, Cause::Translation, known)?;
            // What was written back to make way may have been in this very page.
            let found = (self.write_backs == before).then(|| {
                let found = self.install(flash, number, offset, last as u16, &parts, known);
                self.install_ahead(flash, records, number, &page, known);
                found
            });
            self.page = page;
            if let Some((ppn, by_model)) = found {
                let done = if by_model { flash.compute(self.shape.predict_ns, at) } else { at };
                return Ok(Lookup::new(ppn, done, How::Loaded));
            }
        }
    }

    /// Enters the head of a chunk, and its outlier mappings from `offset` to `last`. There is room for them.
    /// Returns where `offset` is, and whether a model says so.
    fn install<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        number: u32,
        offset: u16,
        last: u16,
        parts: &Parts<'_>,
        known: Done,
    ) -> (Option<Ppn>, bool) {
        let mut found = None;
        self.cache.set_head(number, parts, known);
        let first = self.first_lpn(number);
        parts.each_outlier(|outlier, entry| {
            let lpn = Lpn(first.0 + u32::from(outlier));
            if outlier == offset {
                found = mapped(entry);
            }
            // A model trained since may have made it a member.
            let is_missing = matches!(self.cache.peek(lpn, outlier), Answer::Missing);
            if offset <= outlier && outlier <= last && is_missing {
                self.cache.add_clean(lpn, entry, known);
                flash.counters.prefetched += u64::from(outlier != offset);
            }
        });
        self.keep_budget();
        self.cache.touch(number);
        if let Answer::Model(model, _) = self.cache.peek(Lpn(first.0 + u32::from(offset)), offset) {
            return (self.chunk(number).predict(&self.lists, model, offset), true);
        }
        (found, false)
    }

    /// Loads the heads of linear chunks behind this one, in the same translation page, that nobody has asked
    /// for yet. What has to be written first is not put out for them.
    fn install_ahead<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &Records,
        number: u32,
        page: &[u8],
        known: Done,
    ) {
        let range = records.range(records.page_of(number));
        for ahead in number + 1..range.end.min(number + 1 + self.shape.ahead) {
            let record = record_in(page, ahead);
            if record.is_empty() || record.len() > LINEAR_BYTES || self.cache.has(ahead) {
                continue;
            }
            let parts = self.chunk(ahead).parts(record);
            let need = NODE_BYTES + self.cache.head_bytes(&parts);
            while self.bytes() + need > self.shape.budget {
                let coldest = self.cache.coldest();
                if coldest == Some(number) || self.cache.put_out() != Some(PutOut::Something) {
                    return;
                }
                flash.counters.replaced += 1;
            }
            self.cache.set_head(ahead, &parts, known);
            self.cache.touch(number);
            flash.counters.prefetched += u64::from(parts.model_count());
            self.keep_budget();
        }
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
        let was_log = self.cache.point(lpn).is_some_and(Cache::is_log);
        let subspace = (lpn.0 / self.shape.subspace_pages) as usize;
        // A page that recovery found in a block retired since its superblock was opened is in no linear
        // group.
        let logs = self.lists.has(ppn);
        self.logs[subspace] += u32::from(logs);
        self.logs[subspace] -= u32::from(was_log);
        self.cache.set(lpn, ppn.0, programmed, logs);
        self.keep_budget();
        self.clean_below = self.clean_below.min(self.place(lpn).0);
        if self.cache.log_bytes() > self.shape.log_bytes {
            let most = (0..self.logs.len()).max_by_key(|&at| (self.logs[at], std::cmp::Reverse(at)));
            self.train(flash, most.unwrap_or(0) as u32, Trained::All);
        }
        Ok(at)
    }

    // Training

    /// Linear groups are closed: models are made of what was written to them.
    pub fn close<N: Nand>(&mut self, flash: &mut Flash<N>, which: Trained) {
        for subspace in 0..self.logs.len() as u32 {
            self.close_of(flash, subspace, which);
        }
    }

    /// Linear groups that one subspace wrote are closed.
    pub fn close_of<N: Nand>(&mut self, flash: &mut Flash<N>, subspace: u32, which: Trained) {
        if self.logs[subspace as usize] > 0 {
            self.train(flash, subspace, which);
        }
    }

    /// Makes models of the log mappings of a subspace in some groups.
    fn train<N: Nand>(&mut self, flash: &mut Flash<N>, subspace: u32, which: Trained) {
        let first = subspace * self.shape.subspace_pages;
        let end = (first + self.shape.subspace_pages).min(self.shape.exported_pages);
        let mut logged = std::mem::take(&mut self.logged);
        logged.clear();
        let (mut from, mut left) = (Lpn(first), self.logs[subspace as usize]);
        while let Some(lpn) = self.cache.next_point(from, Lpn(end)).filter(|_| left > 0) {
            from = Lpn(lpn.0 + 1);
            let Some(point) = self.cache.point(lpn).filter(|point| Cache::is_log(point)) else { continue };
            left -= 1;
            let Some((group, local)) = self.lists.local(Ppn(point.ppn)) else {
                unreachable!("PPN {} was programmed in a block that is in no linear group", point.ppn)
            };
            let is_meant = match which {
                Trained::All => true,
                Trained::Superblock(superblock) => self.lists.superblock_of(group) == superblock,
                Trained::Lane(superblock, node) => self.lists.is_of(group, superblock, node),
            };
            if is_meant {
                logged.push(Logged { group, point: ((lpn.0 - first) as u16, local) });
            }
        }
        logged.sort_unstable_by_key(|logged| (logged.group, logged.point.0));
        for of_group in logged.chunk_by(|a, b| a.group == b.group) {
            self.points.clear();
            self.points.extend(of_group.iter().map(|logged| logged.point));
            self.train_points(flash, subspace, of_group[0].group);
        }
        self.logs[subspace as usize] -= logged.len() as u32;
        self.logged = logged;
    }

    /// The controller looks at so many points, in slices: a request of the host waits for one of them at
    /// most.
    fn work<N: Nand>(&self, flash: &mut Flash<N>, points: u64) -> Done {
        let mut ns = points * self.shape.train_ns;
        let mut done = Done::READY;
        while ns > 0 {
            let slice = ns.min(SLICE_NS);
            done = flash.compute(slice, done);
            ns -= slice;
        }
        done
    }

    /// Makes models of `self.points`, all of one linear group.
    fn train_points<N: Nand>(&mut self, flash: &mut Flash<N>, subspace: u32, group: u16) {
        let lists = &self.lists;
        let is_there =
            |lane: &Lane| lane.superblock != NONE && lists.is_of(group, lane.superblock, lane.node);
        self.open.take_exemplary(subspace, is_there, &mut self.exemplary);
        let state = &mut self.random;
        let mut random = |below: u32| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((u64::from(*state) * u64::from(below)) >> 32) as u32
        };
        self.trainer.train(group, &self.points, &self.exemplary, &mut random);
        let trained = self.work(flash, self.trainer.looked_at);
        let first = Lpn(subspace * self.shape.subspace_pages);
        let mut outliers = self.trainer.outliers.len() as u64;
        for at in 0..self.trainer.outliers.len() {
            self.cache.is_outlier(Lpn(first.0 + u32::from(self.trainer.outliers[at].0)));
        }
        for at in 0..self.trainer.models.len() {
            let own = self.trainer.models[at];
            outliers += self.apply(flash, first, own.model, own.last, trained);
        }
        let counters = &mut flash.counters;
        counters.count(&stats::REGRESSIONS, u64::from(self.trainer.iterations > 0));
        counters.count(&stats::ITERATIONS, u64::from(self.trainer.iterations));
        counters.count(&stats::POINTS, self.points.len() as u64);
        counters.count(&stats::OUTLIERS, outliers);
        counters.count(&stats::LITERAL_OUTLIERS, self.trainer.literal_outliers);
    }

    /// Enters a sub-model in each chunk that it covers. Where it has a single page, that is an outlier.
    /// Returns how many such there were.
    fn apply<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        subspace: Lpn,
        model: LinearModel,
        last: u16,
        trained: Done,
    ) -> u64 {
        let (mut lpn, last) = (subspace.0 + u32::from(model.start), subspace.0 + u32::from(last));
        let mut alone = 0;
        while lpn <= last {
            let (number, offset) = self.place(Lpn(lpn));
            let end = (self.first_lpn(number).0 + self.shape.chunk_lpas - 1).min(last);
            let is_log = |map: &Map, lpn: u32| map.cache.point(Lpn(lpn)).is_some_and(Cache::is_log);
            let members = (lpn..=end).filter(|&lpn| is_log(self, lpn)).count();
            let (mut known, mut programmed) = self.cache.waits(number);
            for member in lpn..=end {
                if !is_log(self, member) {
                    continue;
                }
                if members == 1 {
                    self.cache.is_outlier(Lpn(member));
                    alone += 1;
                } else if let Some(point) = self.cache.remove(Lpn(member)) {
                    programmed = flash.join(programmed, point.done);
                }
            }
            if members > 1 {
                known = flash.join(known, trained);
                let own = Covering { first: offset, last: offset + (end - lpn) as u16, model };
                self.cache.train(number, own, known, programmed);
                self.keep_budget();
            }
            lpn = end + 1;
        }
        alone
    }

    // Replacement

    /// Makes `bytes` bytes free, in the order of the paper. Completes when what had to be written is.
    pub fn make_way<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &mut Records,
        bytes: u64,
        cause: Cause,
        at: Done,
    ) -> Result<Done> {
        let mut done = at;
        while self.bytes() + bytes > self.shape.budget {
            match self.cache.put_out() {
                Some(PutOut::Something) => flash.counters.replaced += 1,
                Some(PutOut::Dirty(chunk)) => {
                    flash.counters.replaced_dirty += 1;
                    done = self.write_back(flash, records, chunk, false, cause, done)?;
                }
                None => panic!("{} bytes are not enough for one chunk", self.shape.budget),
            }
        }
        Ok(done)
    }

    /// Writes the translation page of a chunk with all that is newer in memory, trained first. `stays`: the
    /// chunk's head is wanted further. The directory grows when the page is split: the budget holds again
    /// after [`Map::make_way`].
    pub fn write_back<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &mut Records,
        number: u32,
        stays: bool,
        cause: Cause,
        at: Done,
    ) -> Result<Done> {
        let range = records.range(records.page_of(number));
        self.train_chunks(flash, range.clone());
        let (shape, cache, lists) = (self.shape, &self.cache, &self.lists);
        let (packer, table, candidates) = (&mut self.packer, &mut self.table, &mut self.candidates);
        let (merged, bounds) = (&mut self.merged, &mut self.bounds);
        merged.clear();
        bounds.clear();
        let mut waits = Done::READY;
        for chunk in range.clone().filter(|&chunk| cache.is_dirty(chunk)) {
            waits = Self::programmed(flash, cache, &shape, chunk, waits);
        }
        let at = flash.join(at, waits);
        let merge = |number: u32, old: &[u8], record: &mut Vec<u8>| {
            // Not those of neighbours that are merged with this page: they are not trained.
            if !range.contains(&number) || !cache.is_dirty(number) {
                return None;
            }
            let chunk = Self::chunk_of(&shape, number);
            chunk.decode(lists, old, table);
            candidates.clear();
            candidates.extend(chunk.parts(old).models());
            Self::newer(cache, lists, &shape, number, table, candidates);
            packer.pack(&chunk, lists, table, candidates, record);
            bounds.push((number, merged.len() as u32));
            merged.extend_from_slice(record);
            Some(waits)
        };
        let (_, done) = records.merge(flash, number, merge, cause, at)?;
        self.directory_bytes = records.directory_bytes();
        self.write_backs += 1;
        self.refresh(number, stays);
        Ok(done)
    }

    /// Trains what is logged of some chunks.
    fn train_chunks<N: Nand>(&mut self, flash: &mut Flash<N>, chunks: Range<u32>) {
        for chunk in chunks {
            if self.cache.logs_of(chunk) > 0 {
                self.train(flash, self.first_lpn(chunk).0 / self.shape.subspace_pages, Trained::All);
            }
        }
    }

    /// When all pages that a chunk's newer mappings lead to are programmed.
    fn programmed<N: Nand>(flash: &mut Flash<N>, cache: &Cache, shape: &Shape, chunk: u32, at: Done) -> Done {
        let (known, programmed) = cache.waits(chunk);
        let trained = flash.join(known, programmed);
        let mut done = flash.join(at, trained);
        let (mut from, end) = (Lpn(chunk * shape.chunk_lpas), Lpn((chunk + 1) * shape.chunk_lpas));
        while let Some(lpn) = cache.next_point(from, end) {
            from = Lpn(lpn.0 + 1);
            if let Some(point) = cache.point(lpn).filter(|point| point.is_dirty()) {
                done = flash.join(done, point.done);
            }
        }
        done
    }

    fn chunk_of(shape: &Shape, number: u32) -> Chunk {
        let first = number * shape.chunk_lpas;
        Chunk {
            first_lpa: (first % shape.subspace_pages) as u16,
            lpas: shape.chunk_lpas as u16,
            point_bytes: shape.point_bytes,
        }
    }

    /// Applies to the table of a chunk what memory holds that is newer than flash, and adds its models to
    /// `candidates`.
    fn newer(
        cache: &Cache,
        lists: &BlockLists,
        shape: &Shape,
        number: u32,
        table: &mut [u32],
        candidates: &mut Vec<Covering>,
    ) {
        let chunk = Self::chunk_of(shape, number);
        let before = candidates.len();
        cache.trained(number, candidates);
        for own in &candidates[before..] {
            for offset in own.first..=own.last {
                let ppn = chunk.predict(lists, own.model, offset);
                table[usize::from(offset)] = entry(ppn);
            }
        }
        let first = number * shape.chunk_lpas;
        let mut from = Lpn(first);
        while let Some(lpn) = cache.next_point(from, Lpn(first + shape.chunk_lpas)) {
            from = Lpn(lpn.0 + 1);
            if let Some(point) = cache.point(lpn) {
                table[(lpn.0 - first) as usize] = point.ppn;
            }
        }
    }

    /// The chunks that were just merged are on flash as they are in memory. Heads that were in memory stay,
    /// anew, as far as there is room for them; that of `coldest` only if it `stays`.
    fn refresh(&mut self, coldest: u32, stays: bool) {
        let merged = std::mem::take(&mut self.merged);
        let bounds = std::mem::take(&mut self.bounds);
        for (at, &(number, from)) in bounds.iter().enumerate() {
            let end = bounds.get(at + 1).map_or(merged.len(), |next| next.1 as usize);
            let chunk = self.chunk(number);
            let parts = chunk.parts(&merged[from as usize..end]);
            let wants = self.cache.wants_head(number) && (number != coldest || stays);
            self.cache.cleaned(number, &parts);
            let (known, _) = self.cache.waits(number);
            let freed = self.cache.drop_head(number);
            debug_assert!(freed < self.shape.budget);
            if wants && self.bytes() + self.cache.head_bytes(&parts) <= self.shape.budget {
                self.cache.set_head(number, &parts, known);
            } else {
                self.cache.without_head(number);
            }
        }
        (self.merged, self.bounds) = (merged, bounds);
    }

    // Trims

    /// Unmaps offsets `range` of a chunk, and gives the pages that they led to. Completes when these are
    /// known.
    pub fn unmap<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &mut Records,
        number: u32,
        range: Range<u32>,
        at: Done,
        pages: &mut Vec<Ppn>,
    ) -> Result<Done> {
        pages.clear();
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
        if !range.clone().all(|offset| in_memory(self, offset)) {
            if let Some(loaded) = records.load(flash, number, Cause::Translation, done)? {
                done = loaded;
                let record = record_in(flash.buffer(), number);
                self.chunk(number).decode(&self.lists, record, &mut self.table);
            }
        }
        for offset in range.clone() {
            let lpn = Lpn(first + offset);
            let entry = match self.cache.peek(lpn, offset as u16) {
                Answer::Point(entry, known) => {
                    done = flash.join(done, known);
                    mapped(entry)
                }
                Answer::Model(model, known) => {
                    done = flash.join(done, known);
                    self.chunk(number).predict(&self.lists, model, offset as u16)
                }
                Answer::Nowhere(_) => None,
                Answer::Missing => mapped(self.table[offset as usize]),
            };
            pages.extend(entry);
        }
        if !pages.is_empty() {
            self.forget(number, range);
        }
        Ok(done)
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
        let (known, programmed) = self.cache.waits(number);
        self.cache.train(number, own, known, programmed);
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

    // Checks

    /// The table of a chunk as memory and flash say, free of charge. `content` is its translation page.
    pub fn table(&self, number: u32, content: &[u8], table: &mut Vec<u32>) {
        let record = record_in(content, number);
        self.chunk(number).decode(&self.lists, record, table);
        if self.cache.has(number) {
            Self::newer(&self.cache, &self.lists, &self.shape, number, table, &mut Vec::new());
        }
    }

    /// Checks the cache, and what is clean against flash.
    pub fn check<N: Nand>(&self, flash: &Flash<N>, records: &Records) -> Result<(), Breach> {
        self.cache.check()?;
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
