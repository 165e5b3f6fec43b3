//! Write-back: the records of a translation page, merged with what is newer in memory.

use super::cache::Cache;
use super::linear::{BlockLists, Half, LinearModel};
use super::map::{Map, Shape};
use super::offsets::{bit, set_bit, set_bits, Bits};
use super::record::{Candidates, Chunk, Covering, Packer, Parts, HEADER};
use crate::counters::Cause;
use crate::flash::Flash;
use crate::mapping::Pages;
use crate::records::{Merge, Records};
use crate::table::{entry, UNMAPPED};
use nand::{Done, Nand, Result};
use std::ops::Range;

/// Marks the number of a model that is one of the record's.
const OF_RECORD: u32 = 1 << 31;
/// Models of a chunk that become its record as they are, at most.
const MOST_LAID_OUT: usize = 8;

/// The models that a record may use: its own, and those trained since.
struct Known<'a> {
    old: Parts<'a>,
    cache: &'a Cache,
    chunk: u32,
}

impl Candidates for Known<'_> {
    fn claim(&self, owners: &mut [u32]) {
        self.old.each_model(|number, own| {
            owners[usize::from(own.first)..=usize::from(own.last)].fill(OF_RECORD + number);
        });
        for (number, own) in self.cache.trained(self.chunk) {
            for owner in &mut owners[usize::from(own.first)..=usize::from(own.last)] {
                // What is below is one of those trained later.
                if *owner >= OF_RECORD {
                    *owner = number;
                }
            }
        }
    }

    fn model(&self, number: u32) -> LinearModel {
        if number >= OF_RECORD {
            self.old.model((number - OF_RECORD) as usize)
        } else {
            self.cache.model(number)
        }
    }
}

/// Makes the records of one translation page.
struct Merger<'a> {
    shape: Shape,
    lists: &'a BlockLists,
    cache: &'a mut Cache,
    packer: &'a mut Packer,
    table: &'a mut Vec<u32>,
    /// Chunks of the page. Neighbours that are merged with it keep their records: they are not trained.
    range: Range<u32>,
    /// The chunk whose head is put out, if there is one.
    leaves: Option<u32>,
    /// When all pages that newer mappings lead to are programmed.
    waits: Done,
    /// Bytes of everything but the cache.
    others: u64,
    /// LPAs looked at.
    looked_at: u64,
}

impl Merger<'_> {
    fn is_meant(&self, number: u32) -> bool {
        self.range.contains(&number) && self.cache.is_dirty(number)
    }

    /// Makes the record of a chunk from its old one and all that is newer, and appends it if it takes no more
    /// than `room` bytes. Returns its bytes.
    fn pack(&mut self, number: u32, chunk: &Chunk, old: &[u8], room: usize, page: &mut Vec<u8>) -> usize {
        let (parts, predicted) = (chunk.parts(old), self.packer.predicted());
        chunk.decode_models(self.lists, &parts, predicted);
        self.table.clone_from(predicted);
        parts.each_outlier(|offset, ppn| self.table[usize::from(offset)] = ppn);
        let models = Map::newer_models(self.cache, self.lists, &self.shape, number, predicted);
        for (_, own) in self.cache.trained(number) {
            let newer = usize::from(own.first)..usize::from(own.last) + 1;
            self.table[newer.clone()].copy_from_slice(&predicted[newer]);
        }
        let points = Map::newer_points(self.cache, &self.shape, number, self.table);
        self.looked_at += models + points + u64::from(self.shape.chunk_lpas);
        let known = Known { old: parts, cache: self.cache, chunk: number };
        self.packer.pack(chunk, self.lists, self.table, &known, room, page)
    }

    /// Makes the record of a chunk whose models stay, or are all new ones side by side, each anchored where
    /// it begins in the chunk: what else is newer are outliers. New models of one or two pages are, too, as
    /// their point mappings take no more bytes. `None`: the chunk is not of that kind, or another record is
    /// shorter. Returns its bytes, and whether its models are those of the old one.
    ///
    /// A device that was filled in sequence is made of such chunks. Packed LPA by LPA, those of 30 GiB take
    /// the controller a second.
    fn lay_out(
        &mut self,
        number: u32,
        chunk: &Chunk,
        old: &[u8],
        room: usize,
        page: &mut Vec<u8>,
    ) -> Option<(usize, bool)> {
        let (mut models, mut count) = ([Covering::default(); MOST_LAID_OUT], 0);
        let (mut covered, mut outliers) = (Bits::default(), Bits::default());
        self.table.resize(usize::from(chunk.lpas), UNMAPPED);
        for (_, own) in self.cache.trained(number) {
            let pages = usize::from(own.last - own.first) + 1;
            self.looked_at += 1;
            if own.model.group == LinearModel::NOWHERE {
                return None;
            }
            if pages * chunk.point_bytes <= LinearModel::BYTES {
                for offset in (own.first..=own.last).filter(|&offset| !bit(&covered, offset)) {
                    self.table[usize::from(offset)] = entry(chunk.predict(self.lists, own.model, offset));
                    set_bit(&mut outliers, offset);
                }
                self.looked_at += pages as u64;
                set_bits(&mut covered, own.first, own.last);
                continue;
            }
            if own.model.slope != Half::ONE || count == MOST_LAID_OUT {
                return None;
            }
            let start = chunk.first_lpa + own.first;
            let model = LinearModel { start, base: own.model.predict(start)?, ..own.model };
            models[count] = Covering { model, ..*own };
            count += 1;
            set_bits(&mut covered, own.first, own.last);
        }
        for (offset, page) in self.cache.dirty_points(number) {
            self.table[usize::from(offset)] = page;
            set_bit(&mut outliers, offset);
        }
        let mut laid_out = [0; HEADER + MOST_LAID_OUT * LinearModel::BYTES];
        let kept = join_rows(&mut models[..count], chunk.lpas)?;
        self.looked_at += count as u64;
        laid_out[0] = kept.len() as u8;
        for (own, bytes) in kept.iter().zip(laid_out[HEADER..].chunks_exact_mut(LinearModel::BYTES)) {
            bytes.copy_from_slice(&own.model.to_bytes());
        }
        let old = if count == 0 { old } else { &laid_out[..HEADER + kept.len() * LinearModel::BYTES] };
        let bytes = self.packer.add_outliers(&chunk.parts(old), &outliers, self.table, room, page)?;
        Some((bytes, count == 0))
    }
}

/// Sorts models that cover a chunk side by side, and makes one of those that go on in each other: sets that
/// were trained one after the other cut a line. `None`: they leave something of the chunk, or overlap. None
/// at all are in order.
fn join_rows(models: &mut [Covering], lpas: u16) -> Option<&[Covering]> {
    models.sort_unstable_by_key(|own| own.first);
    let (Some(first), Some(last)) = (models.first(), models.last()) else { return Some(&[]) };
    let is_whole = first.first == 0 && last.last + 1 == lpas;
    if !is_whole || models.windows(2).any(|pair| pair[0].last + 1 != pair[1].first) {
        return None;
    }
    let mut kept = 0;
    for at in 1..models.len() {
        let (before, own) = (models[kept], models[at]);
        let goes_on = before.model.group == own.model.group
            && before.model.predict(own.model.start) == Some(own.model.base);
        if !goes_on {
            kept += 1;
            models[kept] = own;
        }
    }
    Some(&models[..=kept])
}

impl Merge for Merger<'_> {
    fn record(&mut self, number: u32, old: &[u8], room: usize, page: &mut Vec<u8>) -> Option<(usize, Done)> {
        if !self.is_meant(number) {
            return None;
        }
        let chunk = Map::chunk_of(&self.shape, number);
        let laid_out = self.lay_out(number, &chunk, old, room, page);
        self.cache.say_models_stay(number, laid_out.is_some_and(|(_, stay)| stay));
        let bytes = match laid_out {
            Some((bytes, _)) => bytes,
            None => self.pack(number, &chunk, old, room, page),
        };
        Some((bytes, self.waits))
    }

    fn take_work(&mut self) -> u64 {
        let packed = std::mem::take(&mut self.packer.looked_at);
        (std::mem::take(&mut self.looked_at) + packed) * self.shape.train_ns
    }

    /// The chunk is on flash as it is in memory. A head that was in memory stays, anew, if there is room for
    /// it.
    fn written(&mut self, number: u32, record: &[u8]) {
        if !self.is_meant(number) {
            return;
        }
        let parts = Map::chunk_of(&self.shape, number).parts(record);
        let wants = self.cache.wants_head(number) && self.leaves != Some(number);
        self.cache.cleaned(number, &parts);
        let room = self.shape.budget.saturating_sub(self.others + self.cache.bytes());
        if wants && self.cache.renew_identifier(number, &parts, room) {
            return;
        }
        let (known, _) = self.cache.waits(number);
        self.cache.drop_head(number);
        let bytes = self.others + self.cache.bytes() + self.cache.head_bytes(&parts);
        if wants && bytes <= self.shape.budget {
            self.cache.set_head(number, &parts, 0..=self.shape.chunk_lpas as u16 - 1, known);
        } else {
            self.cache.without_head(number);
        }
    }
}

impl Map {
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
        let shape = *self.shape();
        let bytes_of = |map: &Map, chunk: u32| map.cache.bytes_of_newer(chunk, shape.point_bytes);
        let counted = records.cut_unwritten(number, |chunk| bytes_of(self, chunk));
        let index = records.page_of(number);
        records.expect_page(flash, index);
        self.cache.expect_newer(records.range(index));
        self.train_chunks(flash, records.range(index));
        // Training tells how many of them are outliers.
        let counted = counted + records.cut_unwritten(number, |chunk| bytes_of(self, chunk));
        let at = flash.compute_in_slices(u64::from(counted) * shape.train_ns, at);
        let range = records.range(records.page_of(number));
        let mut waits = Done::READY;
        for chunk in range.clone().filter(|&chunk| self.cache.is_dirty(chunk)) {
            let (known, newer) = self.cache.waits(chunk);
            let both = flash.join(known, newer);
            waits = flash.join(waits, both);
        }
        let at = flash.join(at, waits);
        let others = self.bytes() - self.cache.bytes();
        let mut merger = Merger {
            shape,
            lists: &self.lists,
            cache: &mut self.cache,
            packer: &mut self.packer,
            table: &mut self.table,
            range,
            leaves: (!stays).then_some(number),
            waits,
            others,
            looked_at: 0,
        };
        let merged = records.merge(flash, number, &mut merger, cause, at);
        self.directory_bytes = records.directory_bytes();
        self.write_backs += 1;
        merged.map(|(_, done)| done)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use nand::{Geometry, Lpn};
    use proptest::prelude::*;

    const SHAPE: Shape = Shape {
        exported_pages: 1024,
        subspace_pages: 1024,
        chunk_lpas: 512,
        point_bytes: 3,
        budget: 1 << 20,
        log_bytes: 1 << 17,
        ahead: 16,
        predict_ns: 650,
        train_ns: 16,
        sort_ns: 9,
        set: 512,
    };
    /// The second of two, so that its first LPA is not 0.
    const NUMBER: u32 = 1;

    fn lists() -> BlockLists {
        let geometry = Geometry {
            channels: 2,
            luns_per_channel: 2,
            planes_per_lun: 1,
            blocks_per_plane: 4,
            pages_per_block: 1024,
            page_bytes: 4096,
            oob_bytes: 64,
        };
        let mut lists = BlockLists::new(&geometry, 1).unwrap();
        (0..4).for_each(|superblock| lists.set(superblock, |unit| superblock != 1 || unit != 2));
        lists
    }

    /// The bytes that a record takes, and the record, if there is room for it.
    type Record = (usize, Vec<u8>);

    /// The record of a chunk of which some models were trained, in this order, as it is laid out, if it is,
    /// and as it is packed.
    fn both(models: &[Covering], old: &[u8], room: usize) -> (Option<Record>, Record) {
        both_with(models, &[], old, room)
    }

    /// The same with outliers that came later.
    fn both_with(
        models: &[Covering],
        points: &[(u16, u32)],
        old: &[u8],
        room: usize,
    ) -> (Option<Record>, Record) {
        let (lists, mut packer, mut table) = (lists(), Packer::new(512), Vec::new());
        let mut cache = Cache::new(2, 512, SHAPE.budget);
        models.iter().for_each(|&own| cache.train(NUMBER, own, Done::READY));
        for &(offset, ppn) in points {
            cache.set(Lpn(512 * NUMBER + u32::from(offset)), ppn, Done::READY, false);
        }
        let mut merger = Merger {
            shape: SHAPE,
            lists: &lists,
            cache: &mut cache,
            packer: &mut packer,
            table: &mut table,
            range: 0..2,
            leaves: None,
            waits: Done::READY,
            others: 0,
            looked_at: 0,
        };
        let chunk = Map::chunk_of(&SHAPE, NUMBER);
        let (mut laid_out, mut packed) = (Vec::new(), Vec::new());
        let bytes = merger.lay_out(NUMBER, &chunk, old, room, &mut laid_out);
        let packed_bytes = merger.pack(NUMBER, &chunk, old, room, &mut packed);
        (bytes.map(|(bytes, _)| (bytes, laid_out)), (packed_bytes, packed))
    }

    /// A run of slope 1 over some offsets, anchored `before` LPAs before its first one.
    fn run(offsets: Range<u16>, group: u16, base: u16, before: u16) -> Covering {
        let model = LinearModel { start: 512 + offsets.start - before, group, slope: Half::ONE, base };
        Covering { first: offsets.start, last: offsets.end - 1, model }
    }

    proptest! {
        #[test]
        fn a_chunk_that_is_laid_out_has_the_record_that_packing_makes(
            lengths in prop::collection::vec(3u16..300, 1..=MOST_LAID_OUT),
            places in prop::collection::vec((0u16..4, 0u16..2000, 0u16..500, any::<bool>()), MOST_LAID_OUT),
            order in prop::collection::vec(any::<u32>(), MOST_LAID_OUT),
            room in prop_oneof![Just(4000usize), 0usize..80],
        ) {
            let (mut models, mut from) = (Vec::<Covering>::new(), 0);
            for (&pages, (group, base, before, goes_on)) in lengths.iter().zip(places) {
                let is_last = models.len() + 1 == lengths.len();
                let end = if is_last { 512 } else { (from + pages).min(512) };
                if end - from < 3 {
                    break;
                }
                let own = match models.last() {
                    // The line of the one before, as two sets that were trained one after the other make it.
                    Some(last) if goes_on => {
                        let base = last.model.predict(512 + from).unwrap();
                        run(from..end, last.model.group, base, 0)
                    }
                    _ => run(from..end, group, base, before),
                };
                models.push(own);
                from = end;
            }
            let is_whole = from == 512;
            let mut trained: Vec<_> = order.iter().zip(&models).collect();
            trained.sort_by_key(|pair| pair.0);
            let trained: Vec<Covering> = trained.into_iter().map(|pair| *pair.1).collect();
            let (_, (_, old)) = both(&[run(3..400, 3, 77, 0), run(100..110, 2, 9, 0)], &[], 4000);
            for old in [&[][..], &old] {
                let (laid_out, packed) = both(&trained, old, room);
                prop_assert_eq!(laid_out.is_some(), is_whole);
                prop_assert!(!is_whole || laid_out == Some(packed));
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_laid_out_leads_where_the_packed_record_does(
            cut in prop_oneof![Just(None), (3u16..509).prop_map(Some)],
            has_old in any::<bool>(),
            models in prop::collection::vec((0u16..510, 1u16..4, 0u16..4, 0u16..1500, 0usize..40), 0..40),
            points in prop::collection::vec((0u16..512, 0u32..4000), 0..40),
        ) {
            let (_, (_, old)) = both(&[run(3..400, 3, 77, 0), run(100..110, 2, 9, 0)], &[], 4000);
            let mut trained: Vec<Covering> = Vec::new();
            let mut large = cut.map_or(vec![], |cut| vec![run(0..cut, 0, 5, 0), run(cut..512, 2, 900, 0)]);
            for (first, pages, group, base, place) in models {
                if place == 0 {
                    trained.extend(large.pop());
                }
                trained.push(run(first..(first + pages).min(512), group, base, 0));
            }
            trained.extend(large);
            let old = if has_old { &old[..] } else { &[] };
            let (laid_out, packed) = both_with(&trained, &points, old, 4000);
            let has_long = trained.iter().any(|own| (3..510).contains(&(own.last - own.first + 1)));
            prop_assert!(laid_out.is_some() || has_long || has_old);
            if let Some((bytes, record)) = laid_out {
                let (chunk, lists) = (Map::chunk_of(&SHAPE, NUMBER), lists());
                let (mut found, mut right) = (Vec::new(), Vec::new());
                chunk.decode(&lists, &record, &mut found);
                chunk.decode(&lists, &packed.1, &mut right);
                prop_assert_eq!(bytes, record.len());
                prop_assert_eq!(found, right);
            }
        }
    }

    #[test]
    fn what_is_no_row_of_runs_is_not_laid_out() {
        let rows = [run(0..200, 0, 5, 0), run(200..512, 2, 900, 0)];
        let (laid_out, packed) = both(&rows, &[], 4000);
        assert_eq!(laid_out, Some(packed));
        let slope = Half::nearest(2.0);
        let steep = Covering { model: LinearModel { slope, ..rows[1].model }, ..rows[1] };
        let nowhere = LinearModel { group: LinearModel::NOWHERE, ..rows[1].model };
        let nowhere = Covering { model: nowhere, ..rows[1] };
        let (short, gap) = (run(510..512, 1, 0, 0), run(201..512, 2, 900, 0));
        let others: [&[Covering]; 4] = [
            &[rows[0], steep],
            &[rows[0], nowhere],
            &[rows[0], run(200..510, 2, 0, 0), short],
            &[rows[0], gap],
        ];
        for models in others {
            assert_eq!(both(models, &[], 4000).0, None, "{models:?}");
        }
    }
}
