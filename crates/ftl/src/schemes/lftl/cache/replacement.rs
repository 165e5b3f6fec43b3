//! What is put out, and what is written back: clean things go first, by when they were looked up last; of
//! what is newer than on flash the chunk with most of it among the least recently used ones is written.

use super::{Cache, ABSENT, POINT_BYTES};
use crate::list::NONE;
use prefetch_index::prefetch_index;

impl Cache {
    /// All chunks that it holds something of, from the least recently used one.
    fn coldest_first(&self) -> impl Iterator<Item = u32> + '_ {
        let next =
            |&chunk: &u32| Some(self.used_places[chunk as usize].links.prev).filter(|&prev| prev != NONE);
        std::iter::successors(Some(self.used.tail()).filter(|&chunk| chunk != NONE), next)
    }

    /// The chunk to write back: of so many least recently used ones that with most that is newer than on
    /// flash, or the first one behind them that has such a thing.
    pub fn to_write_back(&self, coldest: usize) -> Option<u32> {
        let newer = |&chunk: &u32| self.nodes[chunk as usize].newer();
        let (mut most, mut found) = (0, None);
        for chunk in self.coldest_first().take(coldest) {
            if newer(&chunk) > most {
                (most, found) = (newer(&chunk), Some(chunk));
            }
        }
        found.or_else(|| self.coldest_first().skip(coldest).find(|chunk| newer(chunk) > 0))
    }

    /// Things of a chunk that are newer than on flash: log mappings, outliers, models.
    pub fn newer_in(&self, chunk: u32) -> u64 {
        self.nodes[chunk as usize].newer().into()
    }

    /// The chunk of which something clean goes next.
    pub fn coldest_clean(&self) -> Option<u32> {
        Some(self.clean.tail()).filter(|&chunk| chunk != NONE)
    }

    /// Puts out what is clean of the node that was looked up least recently: the last outlier mappings, up to
    /// `bytes` bytes of them; when it has none, its head. Returns how many things went; 0: nothing is clean.
    pub fn put_out(&mut self, bytes: u64) -> u64 {
        self.coldest_clean().map_or(0, |chunk| self.put_out_of(chunk, bytes))
    }

    /// Puts clean outlier mappings of a chunk out, or, when it has none, its head.
    fn put_out_of(&mut self, chunk: u32, bytes: u64) -> u64 {
        let things = match self.nodes[chunk as usize].clean.is_empty() {
            true => {
                let models = u64::from(self.nodes[chunk as usize].head.count);
                self.drop_head(chunk);
                models + 1
            }
            false => self.drop_clean_points(chunk, bytes),
        };
        self.list_clean(chunk);
        self.leave_if_empty(chunk);
        things
    }

    /// Drops the clean outlier mappings of a chunk that were used least recently, until `bytes` bytes are
    /// free or there are none. Returns how many.
    fn drop_clean_points(&mut self, chunk: u32, bytes: u64) -> u64 {
        let (list, mut dropped) = (&mut self.nodes[chunk as usize].clean, 0);
        while !list.is_empty() && dropped * POINT_BYTES < bytes {
            let slot = list.tail();
            self.points.unlink(list, slot);
            self.points.expect_removal(list);
            self.points.remove(slot);
            dropped += 1;
        }
        dropped
    }

    /// Drops the node of a chunk that holds nothing.
    pub(super) fn leave_if_empty(&mut self, chunk: u32) {
        let node = &self.nodes[chunk as usize];
        if node.clean.is_empty() && !node.is_dirty() && !node.has_identifier {
            self.used.unlink(&mut self.used_places, chunk);
            self.nodes[chunk as usize] = ABSENT;
            prefetch_index(&self.nodes, self.clean.tail() as usize);
        }
    }
}
