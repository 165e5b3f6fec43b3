//! Trim journal and checkpoints of log-block FTLs, in blocks of their own. Byte layout: docs/format.md.
//!
//! A checkpoint holds what OOB cannot tell: which block is the data block of each logical block, which of its
//! pages are valid (the others were superseded or trimmed), and the pages of the log. It is written at
//! power-off and when the journal is long. What was programmed before it is not searched by recovery.

use super::{Core, Layout, Role};
use crate::checkpoint::{self, crc32, get32, get64, header, put32, put64, Trim, FORMAT, HEADER, RECORD};
use crate::counters::Cause;
use crate::flash::{Content, Flash};
use crate::log_block::pool::NONE;
use nand::{Done, Fault, Lpn, Nand, PageKind, Source};

const MAGIC_CHECKPOINT: u32 = 0x4254_4346; // "FCTB"
/// Bytes of a checkpoint page before its words: header, number of openings.
const FIXED: usize = HEADER + 4;

#[derive(Clone, Debug)]
pub(super) struct Journal {
    pub(super) pending: Vec<Trim>,
    per_page: usize,
    /// Metadata blocks that recovery needs, oldest first.
    pub(super) blocks: Vec<u32>,
    /// Journal pages since the checkpoint.
    pub(super) pages: u32,
    most_pages: u32,
    most_blocks: u32,
    /// When all that was written of it so far is on flash.
    pub(super) written: Done,
    buffer: Vec<u8>,
    words: Vec<u32>,
}

impl Journal {
    pub(super) fn new(page_bytes: u32, layout: &Layout) -> Journal {
        let per_page = (page_bytes as usize - HEADER) / RECORD;
        Journal {
            pending: Vec::with_capacity(per_page),
            per_page,
            blocks: Vec::new(),
            pages: 0,
            written: Done::READY,
            most_pages: journal_pages(page_bytes, layout),
            most_blocks: blocks_while_running(page_bytes, layout),
            buffer: vec![0; page_bytes as usize],
            words: Vec::new(),
        }
    }
}

fn checkpoint_pages(page_bytes: u32, layout: &Layout) -> u32 {
    // Power cuts can leave more log blocks than the policy keeps.
    let logs = u64::from(layout.log_blocks + layout.merging + layout.leveling) + 8;
    let words = u64::from(layout.logical_blocks) * (2 + u64::from(layout.block_pages.div_ceil(32)))
        + 1
        + logs * (2 + u64::from(layout.block_pages));
    words.div_ceil(words_per_page(page_bytes as usize) as u64) as u32
}

fn words_per_page(page_bytes: usize) -> usize {
    (page_bytes - FIXED) / 4
}

/// As many journal pages as a checkpoint has, or half a block of them.
fn journal_pages(page_bytes: u32, layout: &Layout) -> u32 {
    checkpoint_pages(page_bytes, layout).max(layout.block_pages / 2)
}

/// Blocks of a checkpoint and its journal; one more, because power cuts leave them half full.
fn blocks_while_running(page_bytes: u32, layout: &Layout) -> u32 {
    let pages = checkpoint_pages(page_bytes, layout) + journal_pages(page_bytes, layout);
    pages.div_ceil(layout.block_pages) + 1
}

/// Blocks that journal and checkpoints need at most: while one checkpoint replaces another, both.
pub(super) fn blocks_needed(page_bytes: u32, layout: &Layout) -> u32 {
    blocks_while_running(page_bytes, layout)
        + checkpoint_pages(page_bytes, layout).div_ceil(layout.block_pages)
}

impl Core {
    /// Forgets pages, and remembers that.
    pub(super) fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        first: Lpn,
        pages: u32,
        at: Done,
    ) -> Result<Done, Fault> {
        let Journal { pages: written, most_pages, most_blocks, ref blocks, .. } = self.journal;
        if written >= most_pages || blocks.len() as u32 >= most_blocks {
            self.checkpoint(flash)?;
        }
        let mut forgotten = false;
        for lpn in first.0..first.0 + pages {
            forgotten |= self.forget(flash, Lpn(lpn));
        }
        if !forgotten {
            return Ok(at);
        }
        let version = flash.next_version();
        self.journal.pending.push(Trim { first, pages, version });
        if self.journal.pending.len() == self.journal.per_page {
            self.write_pending(flash)?;
        }
        for logical in self.layout.logicals(first.0, pages) {
            let empty = self.data_block(logical).filter(|&block| self.pool.valid(block) == 0);
            if let Some(block) = empty {
                self.release(flash, block, Cause::Merge)?;
            }
        }
        Ok(at)
    }

    /// Programs the trims that no page holds yet. They are durable when [`Flash::settle`] is reached.
    pub(super) fn write_pending<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<(), Fault> {
        if self.journal.pending.is_empty() {
            return Ok(());
        }
        let Journal { pending, buffer, .. } = &mut self.journal;
        let magic = checkpoint::MAGIC_JOURNAL;
        header(buffer, magic, pending.len() as u32, 0, 1, flash.version());
        for (trim, at) in pending.iter().zip((HEADER..).step_by(RECORD)) {
            put32(buffer, at, trim.first.0);
            put32(buffer, at + 4, trim.pages);
            put64(buffer, at + 8, trim.version);
        }
        let length = HEADER + pending.len() * RECORD;
        self.journal.pages += 1;
        self.program_metadata(flash, length, Done::READY)?;
        self.journal.pending.clear();
        Ok(())
    }

    fn program_metadata<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        length: usize,
        at: Done,
    ) -> Result<Done, Fault> {
        let check = crc32(&self.journal.buffer[8..length]);
        put32(&mut self.journal.buffer, 4, check);
        let content = Content::version(flash.next_metadata_version());
        let id = self.journal.pages;
        loop {
            let current = self.journal.blocks.last().copied();
            let open = current.filter(|&block| self.pool.next(block) < self.layout.block_pages);
            let block = match open {
                Some(block) => block,
                None => {
                    let block = self.pool.open(flash, false)?;
                    self.roles[block as usize] = Role::Metadata;
                    self.journal.blocks.push(block);
                    block
                }
            };
            let from = Source::Metadata(&self.journal.buffer[..length]);
            let (kind, cause) = (PageKind::Metadata, Cause::Checkpoint);
            if let Some((_, done)) = self.pool.append(flash, block, kind, id, content, from, cause, at)? {
                self.journal.written = flash.join(self.journal.written, done);
                return Ok(done);
            }
        }
    }

    /// Whether every trim is on flash.
    pub(super) fn is_journal_written(&self) -> bool {
        self.journal.pending.is_empty()
    }

    /// Writes a checkpoint and erases the metadata that it makes obsolete.
    pub(super) fn checkpoint<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done, Fault> {
        let obsolete = std::mem::take(&mut self.journal.blocks);
        let journaled = std::mem::take(&mut self.journal.pages);
        let mut words = std::mem::take(&mut self.journal.words);
        self.fill_words(flash, &mut words);
        let written = self.program_checkpoint(flash, &words);
        self.journal.words = words;
        if let Err(fault) = written {
            // A part is no checkpoint: the one before and the journal after it still count.
            let begun = std::mem::replace(&mut self.journal.blocks, obsolete);
            self.journal.blocks.extend(begun);
            self.journal.pages = journaled;
            return Err(fault);
        }
        self.journal.pending.clear();
        let durable = flash.settle();
        for block in obsolete {
            self.release(flash, block, Cause::Checkpoint)?;
        }
        Ok(durable)
    }

    fn program_checkpoint<N: Nand>(&mut self, flash: &mut Flash<N>, words: &[u32]) -> Result<(), Fault> {
        let at = flash.settle();
        let (version, openings) = (flash.version(), self.pool.openings());
        let per_page = words_per_page(self.journal.buffer.len());
        let pages = words.len().div_ceil(per_page) as u32;
        for (page, chunk) in (0..).zip(words.chunks(per_page)) {
            let buffer = &mut self.journal.buffer;
            header(buffer, MAGIC_CHECKPOINT, chunk.len() as u32, page, pages, version);
            put32(buffer, HEADER, openings);
            for (&word, at) in chunk.iter().zip((FIXED..).step_by(4)) {
                put32(buffer, at, word);
            }
            self.program_metadata(flash, FIXED + 4 * chunk.len(), at)?;
        }
        Ok(())
    }

    fn fill_words<N: Nand>(&self, flash: &Flash<N>, words: &mut Vec<u32>) {
        words.clear();
        let pages = self.layout.block_pages;
        for logical in 0..self.layout.logical_blocks {
            let block = self.data_block(logical);
            words.push(block.map_or(0, |block| self.pool.opening(block)));
            words.push(block.map_or(0, |block| self.pool.next(block)));
            for first in (0..pages).step_by(32) {
                let valid = |offset: u32| {
                    u32::from(block.is_some_and(|block| self.valid_page(flash, block, offset).is_some()))
                };
                let end = pages.min(first + 32);
                words.push((first..end).fold(0, |word, offset| word | valid(offset) << (offset - first)));
            }
        }
        let is_copy = |&block: &u32| self.roles[block as usize] == Role::Copy;
        let copies = (0..self.pool.numbers()).filter(is_copy);
        words.push(self.log_count + copies.clone().count() as u32);
        for block in copies {
            // Nothing in it is mapped yet, and all of it is searched: its merge may end after the checkpoint.
            words.extend([self.pool.opening(block), 0]);
            words.extend((0..pages).map(|_| NONE));
        }
        for block in (0..self.pool.numbers()).filter(|&block| self.is_log(block)) {
            words.push(self.pool.opening(block));
            words.push(self.pool.next(block));
            let lpn = |position| self.log_lpn(flash, block, position).map_or(NONE, |lpn| lpn.0);
            words.extend((0..pages).map(lpn));
        }
    }
}

/// A metadata page as recovery reads it.
pub(super) enum Page {
    Journal(Vec<Trim>),
    Part { page: u32, pages: u32, version: u64, openings: u32, words: Vec<u32> },
}

/// Reads a metadata page; `None` when it is not one of ours, or damaged.
pub(super) fn parse(content: &[u8]) -> Option<Page> {
    if let Some(checkpoint::Page::Journal(trims)) = checkpoint::parse(content) {
        return Some(Page::Journal(trims));
    }
    let count = get32(content, 12) as usize;
    let length = FIXED.checked_add(count.checked_mul(4)?)?;
    let good = get32(content, 0) == MAGIC_CHECKPOINT
        && get32(content, 8) == FORMAT
        && length <= content.len()
        && get32(content, 4) == crc32(&content[8..length]);
    good.then(|| Page::Part {
        page: get32(content, 16),
        pages: get32(content, 20),
        version: get64(content, 24),
        openings: get32(content, HEADER),
        words: (0..count).map(|i| get32(content, FIXED + i * 4)).collect(),
    })
}

/// A block as a checkpoint knows it.
pub(super) struct Known {
    pub(super) opening: u32,
    pub(super) next: u32,
    /// `(position, LPN)` of its valid pages.
    pub(super) pages: Vec<(u32, u32)>,
}

/// The blocks of a complete checkpoint; `None` when it was made for another layout.
pub(super) fn blocks_of(words: &[u32], layout: &Layout) -> Option<Vec<Known>> {
    let pages = layout.block_pages;
    let mut words = words.iter().copied();
    let mut blocks = Vec::new();
    for logical in 0..layout.logical_blocks {
        let (opening, next) = (words.next()?, words.next()?);
        let mut known = Known { opening, next, pages: Vec::new() };
        for first in (0..pages).step_by(32) {
            let word = words.next()?;
            let valid = (0..32).filter(|bit| word >> bit & 1 == 1).map(|bit| first + bit);
            known.pages.extend(valid.map(|offset| (offset, layout.lpn(logical, offset))));
        }
        if opening != 0 {
            blocks.push(known);
        }
    }
    for _ in 0..words.next()? {
        let (opening, next) = (words.next()?, words.next()?);
        let mut known = Known { opening, next, pages: Vec::new() };
        for position in 0..pages {
            let lpn = words.next()?;
            if lpn != NONE {
                known.pages.push((position, lpn));
            }
        }
        blocks.push(known);
    }
    Some(blocks)
}
