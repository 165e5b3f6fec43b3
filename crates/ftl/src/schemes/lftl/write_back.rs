//! Write-back: the records of a translation page, merged with what is newer in memory.

use super::cache::Cache;
use super::linear::{BlockLists, LinearModel};
use super::map::{Map, Shape};
use super::record::{Candidates, Packer, Parts};
use crate::counters::Cause;
use crate::flash::Flash;
use crate::mapping::Pages;
use crate::records::{Merge, Records};
use nand::{Done, Nand, Result};
use std::ops::Range;

/// Marks the number of a model that is one of the record's.
const OF_RECORD: u32 = 1 << 31;

/// The models that a record may use: its own, and those trained since.
struct Known<'a> {
    old: Parts<'a>,
    cache: &'a Cache,
    chunk: u32,
}

impl Candidates for Known<'_> {
    fn claim(&self, owners: &mut [u32]) {
        for (number, own) in (OF_RECORD..).zip(self.old.models()) {
            owners[usize::from(own.first)..=usize::from(own.last)].fill(number);
        }
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
}

impl Merge for Merger<'_> {
    fn record(&mut self, number: u32, old: &[u8], room: usize, page: &mut Vec<u8>) -> Option<(usize, Done)> {
        if !self.is_meant(number) {
            return None;
        }
        let chunk = Map::chunk_of(&self.shape, number);
        if !self.cache.has_trained(number) {
            let (parts, newer) = (chunk.parts(old), self.cache.dirty_points(number));
            if let Some(bytes) = self.packer.add_outliers(&parts, newer, room, page) {
                self.cache.say_models_stay(number, true);
                return Some((bytes, self.waits));
            }
        }
        self.cache.say_models_stay(number, false);
        chunk.decode(self.lists, old, self.table);
        let newer = Map::newer(self.cache, self.lists, &self.shape, number, self.table);
        self.looked_at += newer + u64::from(self.shape.chunk_lpas);
        let known = Known { old: chunk.parts(old), cache: self.cache, chunk: number };
        let bytes = self.packer.pack(&chunk, self.lists, self.table, &known, room, page);
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
        let range = records.range(records.page_of(number));
        self.cache.expect_points(range.clone());
        self.train_chunks(flash, range.clone());
        let shape = *self.shape();
        let mut waits = Done::READY;
        for chunk in range.clone().filter(|&chunk| self.cache.is_dirty(chunk)) {
            let (known, programmed) = self.cache.waits(chunk);
            let both = flash.join(known, programmed);
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
