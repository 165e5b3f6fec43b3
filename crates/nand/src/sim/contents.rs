//! What metadata pages hold: a slab of page-sized buffers, and which page has which.

use std::ops::Range;

use crate::Pbn;
use prefetch_index::prefetch_index;
use rustc_hash::FxHashMap;

/// The buffers of all translation and metadata pages.
#[derive(Debug)]
pub(super) struct Contents {
    page_bytes: usize,
    pages_per_block: u32,
    /// Buffer by page (`block * pages_per_block + page`). Never iterated, so its order decides nothing.
    buffer_of: FxHashMap<u32, u32>,
    /// Buffers, `page_bytes` each.
    bytes: Vec<u8>,
    free: Vec<u32>,
}

impl Clone for Contents {
    fn clone(&self) -> Contents {
        Contents {
            page_bytes: self.page_bytes,
            pages_per_block: self.pages_per_block,
            buffer_of: self.buffer_of.clone(),
            bytes: self.bytes.clone(),
            free: self.free.clone(),
        }
    }

    fn clone_from(&mut self, from: &Contents) {
        self.page_bytes = from.page_bytes;
        self.pages_per_block = from.pages_per_block;
        self.buffer_of.clone_from(&from.buffer_of);
        self.bytes.clone_from(&from.bytes);
        self.free.clone_from(&from.free);
    }
}

impl Contents {
    /// Room for `expected_pages` metadata pages is reserved (untouched memory costs nothing); more grow the
    /// slab. The index has twice as much: pages come and go, and it clears what removals leave in place only
    /// while it is at most half full.
    pub fn new(pages_per_block: u32, page_bytes: usize, expected_pages: usize) -> Contents {
        Contents {
            page_bytes,
            pages_per_block,
            buffer_of: FxHashMap::with_capacity_and_hasher(2 * expected_pages, Default::default()),
            bytes: Vec::with_capacity(expected_pages * page_bytes),
            free: Vec::with_capacity(expected_pages),
        }
    }

    #[inline]
    fn key(&self, block: Pbn, page: u32) -> u32 {
        block.0 * self.pages_per_block + page
    }

    #[inline]
    fn range_of(&self, block: Pbn, page: u32) -> Option<Range<usize>> {
        self.buffer_of.get(&self.key(block, page)).map(|&buffer| self.range(buffer))
    }

    #[inline]
    fn range(&self, buffer: u32) -> Range<usize> {
        let start = buffer as usize * self.page_bytes;
        start..start + self.page_bytes
    }

    /// Content of a page, `None` when it never had one or it moved.
    #[inline]
    pub fn get(&self, block: Pbn, page: u32) -> Option<&[u8]> {
        self.range_of(block, page).map(|range| &self.bytes[range])
    }

    /// Starts bringing the word at `index` of a page's content into the processor's cache.
    #[inline]
    pub fn expect(&self, block: Pbn, page: u32, index: u32) {
        if let Some(range) = self.range_of(block, page) {
            prefetch_index(&self.bytes, range.start + index as usize * 4);
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

    /// Gives `to` the content of `from`: its own copy with `keep`, else the buffer itself, and `from` has
    /// none from now on. Returns it, to be changed; `None` when `from` has none.
    pub fn carry(&mut self, from: (Pbn, u32), to: (Pbn, u32), keep: bool) -> Option<&mut [u8]> {
        let buffer = if keep {
            let source = self.range_of(from.0, from.1)?;
            let copy = self.buffer();
            let to = self.range(copy);
            self.bytes.copy_within(source, to.start);
            copy
        } else {
            self.buffer_of.remove(&self.key(from.0, from.1))?
        };
        self.set(to.0, to.1, buffer);
        let range = self.range(buffer);
        Some(&mut self.bytes[range])
    }

    /// Frees the content of one page, if it has any.
    pub fn drop_page(&mut self, block: Pbn, page: u32) {
        let dropped = self.buffer_of.remove(&self.key(block, page));
        self.free.extend(dropped);
    }

    /// Frees the contents of a block.
    pub fn drop_block(&mut self, block: Pbn) {
        for page in 0..self.pages_per_block {
            self.drop_page(block, page);
        }
    }

    /// Buffers in use, and buffers allocated.
    pub fn buffers(&self) -> (usize, usize) {
        (self.buffer_of.len(), self.bytes.len() / self.page_bytes)
    }

    /// Heap bytes in use, the reserve left out.
    pub fn heap_bytes(&self) -> usize {
        8 * self.buffer_of.len() + 4 * self.free.len() + self.bytes.len()
    }

    fn buffer(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let buffer = self.bytes.len() / self.page_bytes;
            self.bytes.resize(self.bytes.len() + self.page_bytes, 0);
            buffer as u32
        })
    }

    fn set(&mut self, block: Pbn, page: u32, buffer: u32) {
        let before = self.buffer_of.insert(self.key(block, page), buffer);
        debug_assert_eq!(before, None);
    }
}
