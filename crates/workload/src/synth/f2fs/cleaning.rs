//! When checkpoints are due, and cleaning: the valid blocks of a segment are written anew, and the segment is
//! free after the next checkpoint.

use super::super::requests::{extend, push, Extents, Requests, WRITE_MOST};
use super::layout::SEGMENT;
use super::{F2fs, Segment, State, DIRTY_NODES, NOBODY, NODE};
use crate::Kind;

impl F2fs {
    /// Before a write: a checkpoint if one is due, and cleaning while there are too few free segments.
    pub(super) fn balance(&mut self, queue: &mut Requests) {
        let due = self.obsolete.len() as u32 > self.layout.segments / 20
            || self.dirty_nodes.len() >= DIRTY_NODES
            || self.dirty_nids.len() as u32 >= self.layout.nids() / 10;
        let short = |it: &F2fs| it.free <= it.layout.reserved + it.needed();
        if due || (short(self) && !self.obsolete.is_empty()) {
            self.checkpoint(queue);
        }
        for _ in 0..self.layout.reserved {
            if !short(self) {
                break;
            }
            let Some(victim) = self.victim(|_, segment| u64::from(segment.valid)) else { break };
            self.clean(queue, victim);
            self.checkpoint(queue);
        }
        self.clean_behind(queue);
    }

    /// Cleans in the background.
    fn clean_behind(&mut self, queue: &mut Requests) {
        if self.settings.background == 0 || self.since_cleaning < self.settings.background {
            return;
        }
        self.since_cleaning = 0;
        let worth = |it: &F2fs, segment: &Segment| {
            let used = u64::from(segment.valid) * 100 / u64::from(SEGMENT);
            let age = (it.written - segment.modified) * 100 / it.written.max(1);
            u64::MAX - (100 - used) * age * 100 / (100 + used)
        };
        if let Some(victim) = self.victim(worth) {
            self.clean(queue, victim);
        }
    }

    /// The segment with holes that costs least.
    pub(super) fn victim(&self, cost: impl Fn(&F2fs, &Segment) -> u64) -> Option<u32> {
        let dirty = |it: &Segment| it.state == State::Used && (1..SEGMENT as u16).contains(&it.valid);
        let all = self.segments.iter().enumerate().filter(|(_, it)| dirty(it));
        all.min_by_key(|(_, it)| cost(self, it)).map(|(at, _)| at as u32)
    }

    /// Reads the valid blocks of a segment and writes them to logs.
    pub(super) fn clean(&mut self, queue: &mut Requests, victim: u32) {
        let blocks = victim * SEGMENT..(victim + 1) * SEGMENT;
        let live: Vec<u32> = blocks.clone().filter(|&block| self.owners[block as usize] != NOBODY).collect();
        self.segments[victim as usize].state = State::Open;
        self.send_held(queue, blocks);
        let mut runs = Extents::new();
        for &block in &live {
            extend(&mut runs, (self.layout.main + block, 1));
        }
        push(queue, Kind::Read, &runs, WRITE_MOST);
        for block in live {
            let owner = self.owners[block as usize];
            if let Some(node) = owner.place.checked_sub(NODE) {
                self.dirty_nodes.remove(&(owner.file, node));
            }
            self.put(queue, owner, true);
        }
        self.close(victim);
        self.filled.remove(&victim);
    }
}
