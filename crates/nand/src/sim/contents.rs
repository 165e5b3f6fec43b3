//! What metadata pages hold: a slab of page-sized buffers, and a table of slots for each block that has such pages.

use crate::Pbn;
use prefetch_index::prefetch_index;

/// No table, or no buffer.
const NONE: u32 = u32::MAX;

/// The buffers of all translation and metadata pages.
#[derive(Debug)]
pub(super) struct Contents {
    page_bytes: usize,
    pages_per_block: usize,
    /// Table of each block, or `NONE`.
    table_of: Vec<u32>,
    /// `tables * pages_per_block` buffer numbers, or `NONE`.
    slots: Vec<u32>,
    /// Buffers, `page_bytes` each.
    bytes: Vec<u8>,
    free_tables: Vec<u32>,
    free_buffers: Vec<u32>,
}

impl Clone for Contents {
    fn clone(&self) -> Contents {
        Contents {
            page_bytes: self.page_bytes,
            pages_per_block: self.pages_per_block,
            table_of: self.table_of.clone(),
            slots: self.slots.clone(),
            bytes: self.bytes.clone(),
            free_tables: self.free_tables.clone(),
            free_buffers: self.free_buffers.clone(),
        }
    }

    fn clone_from(&mut self, from: &Contents) {
        self.page_bytes = from.page_bytes;
        self.pages_per_block = from.pages_per_block;
        self.table_of.clone_from(&from.table_of);
        self.slots.clone_from(&from.slots);
        self.bytes.clone_from(&from.bytes);
        self.free_tables.clone_from(&from.free_tables);
        self.free_buffers.clone_from(&from.free_buffers);
    }
}

impl Contents {
    /// Room for `expected_pages` metadata pages is reserved (untouched memory costs nothing); more grow the slab.
    pub fn new(blocks: usize, pages_per_block: usize, page_bytes: usize, expected_pages: usize) -> Contents {
        let expected_blocks = blocks.min(expected_pages.div_ceil(pages_per_block) * 2);
        Contents {
            page_bytes,
            pages_per_block,
            table_of: vec![NONE; blocks],
            slots: Vec::with_capacity(expected_blocks * pages_per_block),
            bytes: Vec::with_capacity(expected_pages * page_bytes),
            free_tables: Vec::with_capacity(expected_blocks),
            free_buffers: Vec::with_capacity(expected_pages),
        }
    }

    /// Content of a page, `None` when it never had one or it moved.
    pub fn get(&self, block: Pbn, page: u32) -> Option<&[u8]> {
        let slot = self.slot_of(block, page)?;
        match self.slots[slot] {
            NONE => None,
            buffer => Some(&self.bytes[self.range(buffer)]),
        }
    }

    /// Starts bringing the word at `index` of a page's content into the processor's cache.
    #[inline]
    pub fn expect(&self, block: Pbn, page: u32, index: u32) {
        if let Some(buffer) = self.slot_of(block, page).map(|slot| self.slots[slot]).filter(|&b| b != NONE) {
            prefetch_index(&self.bytes, buffer as usize * self.page_bytes + index as usize * 4);
        }
    }

    /// Content of a page, to be changed in place.
    pub fn get_mut(&mut self, block: Pbn, page: u32) -> Option<&mut [u8]> {
        let slot = self.slot_of(block, page)?;
        match self.slots[slot] {
            NONE => None,
            buffer => {
                let range = self.range(buffer);
                Some(&mut self.bytes[range])
            }
        }
    }

    /// Gives a page `bytes`, filled up with zeros.
    pub fn put(&mut self, block: Pbn, page: u32, bytes: &[u8]) {
        let buffer = self.buffer();
        let range = self.range(buffer);
        let (head, tail) = self.bytes[range].split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        tail.fill(0);
        self.set(block, page, buffer);
    }

    /// Gives `to` the content of `from`: its own copy with `keep`, else the buffer itself, and `from` has none from
    /// now on. False when `from` has none.
    #[must_use]
    pub fn carry(&mut self, from: (Pbn, u32), to: (Pbn, u32), keep: bool) -> bool {
        let Some(source) = self.slot_of(from.0, from.1).filter(|&slot| self.slots[slot] != NONE) else {
            return false;
        };
        let buffer = if keep {
            let copy = self.buffer();
            let (from, to) = (self.range(self.slots[source]), self.range(copy));
            self.bytes.copy_within(from, to.start);
            copy
        } else {
            std::mem::replace(&mut self.slots[source], NONE)
        };
        self.set(to.0, to.1, buffer);
        true
    }

    /// Frees the content of one page, if it has any.
    pub fn drop_page(&mut self, block: Pbn, page: u32) {
        if let Some(slot) = self.slot_of(block, page) {
            match std::mem::replace(&mut self.slots[slot], NONE) {
                NONE => {}
                buffer => self.free_buffers.push(buffer),
            }
        }
    }

    /// Frees the contents and the table of a block, if it has one.
    #[inline]
    pub fn drop_block(&mut self, block: Pbn) {
        let table = std::mem::replace(&mut self.table_of[block.0 as usize], NONE);
        if table == NONE {
            return;
        }
        let first = table as usize * self.pages_per_block;
        for slot in &mut self.slots[first..first + self.pages_per_block] {
            match std::mem::replace(slot, NONE) {
                NONE => {}
                buffer => self.free_buffers.push(buffer),
            }
        }
        self.free_tables.push(table);
    }

    /// Buffers in use, and buffers allocated.
    pub fn buffers(&self) -> (usize, usize) {
        let allocated = self.bytes.len() / self.page_bytes;
        (allocated - self.free_buffers.len(), allocated)
    }

    /// Heap bytes in use, the reserve left out.
    pub fn heap_bytes(&self) -> usize {
        4 * (self.table_of.len() + self.slots.len() + self.free_tables.len() + self.free_buffers.len())
            + self.bytes.len()
    }

    fn slot_of(&self, block: Pbn, page: u32) -> Option<usize> {
        match self.table_of[block.0 as usize] {
            NONE => None,
            table => Some(table as usize * self.pages_per_block + page as usize),
        }
    }

    fn range(&self, buffer: u32) -> std::ops::Range<usize> {
        let start = buffer as usize * self.page_bytes;
        start..start + self.page_bytes
    }

    fn buffer(&mut self) -> u32 {
        self.free_buffers.pop().unwrap_or_else(|| {
            let buffer = self.bytes.len() / self.page_bytes;
            self.bytes.resize(self.bytes.len() + self.page_bytes, 0);
            buffer as u32
        })
    }

    fn set(&mut self, block: Pbn, page: u32, buffer: u32) {
        if self.table_of[block.0 as usize] == NONE {
            let table = self.free_tables.pop().unwrap_or_else(|| {
                let table = self.slots.len() / self.pages_per_block;
                self.slots.resize(self.slots.len() + self.pages_per_block, NONE);
                table as u32
            });
            self.table_of[block.0 as usize] = table;
        }
        let slot = self.table_of[block.0 as usize] as usize * self.pages_per_block + page as usize;
        debug_assert_eq!(self.slots[slot], NONE);
        self.slots[slot] = buffer;
    }
}
