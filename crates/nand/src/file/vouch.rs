//! One number that vouches for the records of all pages and blocks.
//!
//! A lost record reads as "never written", and an old one looks whole; a later page of the block tells, but
//! the newest page has none. So the state keeps a digest of what the array held when everything up to
//! *durable* was done: the sum, modulo 2^32, of a hash for each page programmed since the erase of its block
//! (from its PPN and the number of its program), and for each erased block (from its PBN and the number of
//! the erase). Opening adds up what it finds. The sum takes a program or an erase in a few instructions, and
//! the state is written anyway.

use std::collections::VecDeque;

use super::format::BlockRecord;
use crate::{Pbn, Ppn};

/// Moments that are remembered; those of which nobody has asked within so many say nothing any more.
const MOST_MARKS: usize = 4096;

/// The digest as it grows.
#[derive(Debug, Default)]
pub(super) struct Vouch {
    /// By PBN: the part of the sum that ends with the next erase.
    blocks: Vec<u32>,
    total: u32,
    /// After which operation the sum was what, ascending.
    marks: VecDeque<(u64, u32)>,
}

impl Vouch {
    /// Of an array with so many blocks, none of them ever written.
    pub fn new(blocks: u32) -> Vouch {
        Vouch { blocks: vec![0; blocks as usize], ..Vouch::default() }
    }

    /// Operation `sequence` programmed a page of `block`, or spent it in vain.
    pub fn program(&mut self, block: Pbn, ppn: Ppn, sequence: u64) {
        let part = hash(sequence, ppn.0, 0);
        let sum = &mut self.blocks[block.0 as usize];
        *sum = sum.wrapping_add(part);
        self.total = self.total.wrapping_add(part);
    }

    /// Operation `sequence` erased a block; 0: none ever did.
    pub fn erase(&mut self, block: Pbn, sequence: u64) {
        let part = if sequence == 0 { 0 } else { hash(sequence, block.0, 1) };
        let before = std::mem::replace(&mut self.blocks[block.0 as usize], part);
        self.total = self.total.wrapping_sub(before).wrapping_add(part);
    }

    /// Remembers the sum: `sequence` was the last operation.
    pub fn mark(&mut self, sequence: u64) {
        if self.marks.back().is_some_and(|mark| mark.0 == sequence) {
            return;
        }
        if self.marks.len() == MOST_MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back((sequence, self.total));
    }

    /// The digest after operation `sequence`, the first that anybody will ask for from now on; `None`: it was
    /// not remembered.
    pub fn at(&mut self, sequence: u64) -> Option<u32> {
        while self.marks.front().is_some_and(|mark| mark.0 < sequence) {
            self.marks.pop_front();
        }
        self.marks.front().filter(|mark| mark.0 == sequence).map(|mark| mark.1)
    }

    pub fn heap_bytes(&self) -> usize {
        size_of_val(&self.blocks[..])
    }
}

/// The digest as the records of an image make it: of what stood after the last durable operation.
#[derive(Debug, Default)]
pub(super) struct Then {
    durable: u64,
    /// By PBN: the last erase up to the last durable operation. `None`: the record tells of two since.
    erased: Vec<Option<u64>>,
    vouch: Vouch,
}

impl Then {
    /// Of an array with these records of blocks, by PBN, and no page yet.
    pub fn new(durable: u64, blocks: &[BlockRecord]) -> Then {
        let erased: Vec<_> = blocks.iter().map(|record| record.erased_by(durable)).collect();
        let mut vouch = Vouch::new(blocks.len() as u32);
        for (block, erased) in (0..).zip(&erased) {
            vouch.erase(Pbn(block), erased.unwrap_or(0));
        }
        Then { durable, erased, vouch }
    }

    /// The record of a page of `block` tells that operation `sequence` spent it. What is newer than the last
    /// durable operation, or older than the erase before it, does not count.
    pub fn page(&mut self, block: Pbn, ppn: Ppn, sequence: u64) {
        if sequence <= self.durable && self.erased[block.0 as usize].is_some_and(|erased| sequence > erased) {
            self.vouch.program(block, ppn, sequence);
        }
    }

    /// Whether the records are others than those of which the state has this digest. Two erases of a block
    /// since then leave that open, as the digest of an older format does.
    pub fn contradicts(&self, digest: Option<u32>) -> bool {
        let can_tell = self.erased.iter().all(Option::is_some);
        can_tell && digest.is_some_and(|digest| digest != self.vouch.total)
    }
}

/// The finalizer of SplitMix64 over an operation, where it happened, and what it was.
fn hash(sequence: u64, place: u32, kind: u64) -> u32 {
    let mut x = sequence ^ u64::from(place).rotate_left(40) ^ kind << 63;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ x >> 31) as u32
}
