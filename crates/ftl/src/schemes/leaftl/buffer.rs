//! The write buffer: pages that the host has written and flash does not hold yet.

use crate::cmt::index::Index;
use nand::{Done, Lpn};
use std::collections::VecDeque;

/// A page in the buffer.
#[derive(Clone, Copy, Debug)]
pub struct Buffered {
    /// Whose it is.
    pub lpn: Lpn,
    /// Version of its content.
    pub version: u64,
    /// When the buffer has it.
    pub held: Done,
}

/// Slots of the array's data buffer, and which LPN is in which.
#[derive(Clone, Debug)]
pub struct Buffer {
    slot_of: Index,
    /// By slot.
    pages: Vec<Option<Buffered>>,
    /// Slots without a page that still needs them, in the order in which they are free, and from when on:
    /// until its program has ended, a page stays where it is.
    free: VecDeque<(u32, Done)>,
}

impl Buffer {
    /// An empty buffer of `slots` pages for LPNs below `lpns`.
    pub fn new(slots: u32, lpns: u32) -> Buffer {
        let mut free = VecDeque::with_capacity(slots as usize);
        free.extend((0..slots).map(|slot| (slot, Done::READY)));
        Buffer { slot_of: Index::new(slots as usize, lpns as usize), pages: vec![None; slots as usize], free }
    }

    /// Whether a page that is not in the buffer finds no slot.
    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Whether the buffer holds nothing.
    pub fn is_empty(&self) -> bool {
        self.slot_of.is_empty()
    }

    /// Pages held.
    pub fn len(&self) -> u32 {
        self.slot_of.len() as u32
    }

    /// The slot of a page, if it is in the buffer.
    #[inline]
    pub fn slot(&self, lpn: Lpn) -> Option<u32> {
        self.slot_of.find(lpn)
    }

    /// What a slot holds.
    pub fn page(&self, slot: u32) -> Option<Buffered> {
        self.pages[slot as usize]
    }

    /// Every page held, by slot.
    pub fn pages(&self) -> impl Iterator<Item = (u32, Buffered)> + '_ {
        (0..).zip(&self.pages).filter_map(|(slot, page)| page.map(|page| (slot, page)))
    }

    /// A free slot, and from when on; `None` when there is none.
    pub fn take(&mut self) -> Option<(u32, Done)> {
        self.free.pop_front()
    }

    /// Records what was put into a slot that was taken, or that holds an older version of the page.
    pub fn put(&mut self, slot: u32, page: Buffered) {
        if self.pages[slot as usize].is_none() {
            self.slot_of.insert(page.lpn, slot);
        }
        self.pages[slot as usize] = Some(page);
    }

    /// Forgets a page; its slot is free from `free` on.
    pub fn remove(&mut self, lpn: Lpn, free: Done) {
        if let Some(slot) = self.slot(lpn) {
            self.slot_of.remove(lpn);
            self.pages[slot as usize] = None;
            self.free.push_back((slot, free));
        }
    }
}
