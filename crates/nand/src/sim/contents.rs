//! What metadata pages hold: a slab of page-sized buffers, and which page has which.
//!
//! Metadata fills few blocks, and fills them whole. So the index has a row of pages for each block that holds
//! some, and finds a buffer by two loads: a hash table of pages costs a tenth of a mapping cache's speed.

use std::ops::Range;

use crate::Pbn;
use prefetch_index::prefetch_index;

/// A block without a row, or a page without a buffer.
const NONE: u32 = u32::MAX;
/// Bytes that the processor fetches at once.
const CACHE_LINE: usize = 64;

/// The buffers of all translation and metadata pages.
#[derive(Debug)]
pub(super) struct Contents {
    page_bytes: usize,
    pages_per_block: u32,
    /// Row by block, or [`NONE`].
    row_of: Vec<u32>,
    /// Rows: the buffer of each page of a block, or [`NONE`].
    rows: Vec<u32>,
    free_rows: Vec<u32>,
    /// Buffers, `page_bytes` each.
    bytes: Vec<u8>,
    /// By buffer: the bytes from here on are zeros.
    ends: Vec<u32>,
    free: Vec<u32>,
}

impl Clone for Contents {
    fn clone(&self) -> Contents {
        Contents {
            page_bytes: self.page_bytes,
            pages_per_block: self.pages_per_block,
            row_of: self.row_of.clone(),
            rows: self.rows.clone(),
            free_rows: self.free_rows.clone(),
            bytes: self.bytes.clone(),
            ends: self.ends.clone(),
            free: self.free.clone(),
        }
    }

    fn clone_from(&mut self, from: &Contents) {
        self.page_bytes = from.page_bytes;
        self.pages_per_block = from.pages_per_block;
        self.row_of.clone_from(&from.row_of);
        self.rows.clone_from(&from.rows);
        self.free_rows.clone_from(&from.free_rows);
        self.bytes.clone_from(&from.bytes);
        self.ends.clone_from(&from.ends);
        self.free.clone_from(&from.free);
    }
}

impl Contents {
    /// For `blocks` blocks. Room for `expected_pages` metadata pages is reserved (untouched memory costs
    /// nothing); more grow the slab. There is room for four times as many rows: blocks keep theirs until they
    /// are erased, however few of their pages still have contents.
    pub fn new(blocks: u32, pages_per_block: u32, page_bytes: usize, expected_pages: usize) -> Contents {
        let rows = (4 * expected_pages / pages_per_block as usize + 256).min(blocks as usize);
        Contents {
            page_bytes,
            pages_per_block,
            row_of: vec![NONE; blocks as usize],
            rows: Vec::with_capacity(rows * pages_per_block as usize),
            free_rows: Vec::with_capacity(rows),
            bytes: Vec::with_capacity(expected_pages * page_bytes),
            ends: Vec::with_capacity(expected_pages),
            free: Vec::with_capacity(expected_pages),
        }
    }

    /// The place in `rows` of a page; `None` when its block has no row.
    #[inline]
    fn place(&self, block: Pbn, page: u32) -> Option<usize> {
        let row = self.row_of[block.0 as usize];
        (row != NONE).then(|| (row * self.pages_per_block + page) as usize)
    }

    #[inline]
    fn range_of(&self, block: Pbn, page: u32) -> Option<Range<usize>> {
        let buffer = self.rows[self.place(block, page)?];
        (buffer != NONE).then(|| self.range(buffer))
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

    /// Starts bringing bytes of a page's content into the processor's cache.
    #[inline]
    pub fn expect(&self, block: Pbn, page: u32, bytes: Range<u32>) {
        if let Some(range) = self.range_of(block, page) {
            let lines = bytes.step_by(CACHE_LINE);
            lines.for_each(|byte| prefetch_index(&self.bytes, range.start + byte as usize));
        }
    }

    /// Gives a page `bytes`, filled up with zeros.
    pub fn put(&mut self, block: Pbn, page: u32, bytes: &[u8]) {
        let buffer = self.buffer();
        let range = self.range(buffer);
        let (head, tail) = self.bytes[range].split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        let before = std::mem::replace(&mut self.ends[buffer as usize], bytes.len() as u32);
        tail[..(before as usize).saturating_sub(bytes.len())].fill(0);
        self.set(block, page, buffer);
    }

    /// Gives `to` the content of `from`: its own copy with `keep`, else the buffer itself, and `from` has
    /// none from now on. Returns it, to be changed if that `is_changed`; `None` when `from` has none.
    pub fn carry(
        &mut self,
        from: (Pbn, u32),
        to: (Pbn, u32),
        keep: bool,
        is_changed: bool,
    ) -> Option<&mut [u8]> {
        let buffer = if keep {
            let source = self.range_of(from.0, from.1)?;
            let copy = self.buffer();
            let to = self.range(copy);
            self.bytes.copy_within(source, to.start);
            self.ends[copy as usize] = self.page_bytes as u32;
            copy
        } else {
            self.take(from.0, from.1)?
        };
        self.set(to.0, to.1, buffer);
        if is_changed {
            self.ends[buffer as usize] = self.page_bytes as u32;
        }
        let range = self.range(buffer);
        Some(&mut self.bytes[range])
    }

    /// Frees the content of one page, if it has any.
    pub fn drop_page(&mut self, block: Pbn, page: u32) {
        let dropped = self.take(block, page);
        self.free.extend(dropped);
    }

    /// Frees the contents of a block.
    pub fn drop_block(&mut self, block: Pbn) {
        let Some(first) = self.place(block, 0) else { return };
        for buffer in &mut self.rows[first..first + self.pages_per_block as usize] {
            if *buffer != NONE {
                self.free.push(*buffer);
                *buffer = NONE;
            }
        }
        self.free_rows.push(std::mem::replace(&mut self.row_of[block.0 as usize], NONE));
    }

    /// Buffers in use, and buffers allocated.
    pub fn buffers(&self) -> (usize, usize) {
        let allocated = self.bytes.len() / self.page_bytes;
        (allocated - self.free.len(), allocated)
    }

    /// Heap bytes in use, the reserve left out.
    pub fn heap_bytes(&self) -> usize {
        let words = [&self.row_of, &self.rows, &self.free_rows, &self.ends, &self.free];
        4 * words.iter().map(|words| words.len()).sum::<usize>() + self.bytes.len()
    }

    /// Takes the buffer of a page away from it.
    fn take(&mut self, block: Pbn, page: u32) -> Option<u32> {
        let place = self.place(block, page)?;
        let buffer = std::mem::replace(&mut self.rows[place], NONE);
        (buffer != NONE).then_some(buffer)
    }

    fn buffer(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let buffer = self.bytes.len() / self.page_bytes;
            self.bytes.resize(self.bytes.len() + self.page_bytes, 0);
            self.ends.push(0);
            buffer as u32
        })
    }

    fn set(&mut self, block: Pbn, page: u32, buffer: u32) {
        let place = self.place(block, page).unwrap_or_else(|| self.add_row(block, page));
        debug_assert_eq!(self.rows[place], NONE);
        self.rows[place] = buffer;
    }

    /// Gives a block a row, and returns the place of one of its pages.
    #[inline(never)]
    fn add_row(&mut self, block: Pbn, page: u32) -> usize {
        let row = self.free_rows.pop().unwrap_or_else(|| {
            let row = self.rows.len() as u32 / self.pages_per_block;
            self.rows.resize(self.rows.len() + self.pages_per_block as usize, NONE);
            row
        });
        self.row_of[block.0 as usize] = row;
        (row * self.pages_per_block + page) as usize
    }
}
