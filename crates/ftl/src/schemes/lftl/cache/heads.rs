//! Models as they are on flash. A head on an aged device has fifty models, which come and go together: so
//! they lie in blocks, each of which fills a line of the processor's cache.

use super::{LinearModel, Parts};
use crate::list::NONE;
use std::ops::RangeInclusive;

/// Models of a block.
const IN_BLOCK: usize = 7;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Block {
    /// Ascending by start. Each covers up to the next one's, and the last one of the block up to `last`.
    models: [LinearModel; IN_BLOCK],
    last: u16,
    count: u16,
}

const _: () = assert!(size_of::<Block>() == 64);

/// The models of one head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    first: u32,
    last: u32,
    /// Models, and how many of the record are missing.
    pub(super) count: u16,
    pub(super) missing: u16,
}

impl Head {
    /// A head without models.
    pub(super) const NONE: Head = Head { first: NONE, last: NONE, count: 0, missing: 0 };
}

/// The models of all heads.
#[derive(Clone, Debug)]
pub(super) struct Heads {
    /// LPAs of a chunk, a power of two, less one: these bits of a start are its offset.
    mask: u16,
    blocks: Vec<Block>,
    /// By block: the next one of the head, or the next free one. They lie apart from the blocks, because
    /// these are seldom in the processor's cache: so several are fetched at once, not one after the other.
    next: Vec<u32>,
    free: u32,
}

impl Heads {
    /// A block is needed for so many bytes of the budget at most: those of a node with one model.
    const LEAST_BYTES: u64 = super::NODE_BYTES + super::MODEL_BYTES;

    /// Room, allocated now, for what `bytes` bytes hold of `models` models at most, of chunks of `lpas` LPAs.
    pub(super) fn new(lpas: u32, models: usize, bytes: u64) -> Heads {
        let blocks = models.min((bytes / Self::LEAST_BYTES) as usize + 1);
        let next = Vec::with_capacity(blocks);
        Heads { mask: (lpas - 1) as u16, blocks: Vec::with_capacity(blocks), next, free: NONE }
    }

    /// Enters the models of a record that cover any of `offsets`. They are neighbours.
    pub(super) fn enter(&mut self, parts: &Parts<'_>, offsets: RangeInclusive<u16>) -> Head {
        let mut head = Head::NONE;
        let all = parts.model_count() as usize;
        let mask = self.mask;
        let first = |at: usize| parts.model(at).start & mask;
        // The model before the first one that starts behind the first offset covers it.
        let behind = |offset: u16| (0..all).find(|&at| first(at) > offset).unwrap_or(all);
        let from = if *offsets.start() == 0 { 0 } else { behind(*offsets.start()).saturating_sub(1) };
        let end = if *offsets.end() >= self.mask { all } else { behind(*offsets.end()) };
        let mut at = from;
        while at < end {
            let count = (end - at).min(IN_BLOCK);
            let last = if at + count < all { first(at + count) - 1 } else { self.mask };
            let number = self.take_block();
            let block = &mut self.blocks[number as usize];
            (block.last, block.count) = (last, count as u16);
            block.models.iter_mut().zip(at..at + count).for_each(|(model, at)| *model = parts.model(at));
            at += count;
            match head.first {
                NONE => head.first = number,
                _ => self.next[head.last as usize] = number,
            }
            head.last = number;
        }
        (head.count, head.missing) = ((end - from) as u16, (all - (end - from)) as u16);
        head
    }

    /// A block that is behind none.
    fn take_block(&mut self) -> u32 {
        if self.free == NONE {
            self.blocks.push(Block { models: [LinearModel::default(); IN_BLOCK], last: 0, count: 0 });
            self.next.push(NONE);
            return self.blocks.len() as u32 - 1;
        }
        let at = self.free;
        self.free = std::mem::replace(&mut self.next[at as usize], NONE);
        at
    }

    /// Forgets the models of a head.
    pub(super) fn drop(&mut self, head: Head) {
        if head.first != NONE {
            // The blocks as a whole become the first free ones.
            self.next[head.last as usize] = self.free;
            self.free = head.first;
        }
    }

    /// The model of a head that covers an offset.
    pub(super) fn find(&self, head: &Head, offset: u16) -> Option<LinearModel> {
        let (mut at, mut block) = (head.first as usize, self.blocks.get(head.first as usize)?);
        while block.last < offset {
            at = self.next[at] as usize;
            block = self.blocks.get(at)?;
        }
        let models = &block.models[..usize::from(block.count)];
        models.iter().rev().find(|model| model.start & self.mask <= offset).copied()
    }

    /// How many models a head has, counted.
    pub(super) fn count(&self, head: &Head) -> u32 {
        let next = |&at: &u32| Some(self.next[at as usize]).filter(|&next| next != NONE);
        let blocks = std::iter::successors(Some(head.first).filter(|&first| first != NONE), next);
        blocks.map(|at| u32::from(self.blocks[at as usize].count)).sum()
    }
}
