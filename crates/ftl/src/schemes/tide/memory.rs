//! What Tide keeps in memory, to the bit, as a firmware would pack it.
//!
//! The pages that the log holds of a group are a **row**: their offsets in the group, and for each its place
//! in the log. The offsets are a list, or a bitmap where that is shorter. Sixteen rows lie behind one another
//! on a **shelf**, which grows by 8 bytes at a time, and a pointer for each shelf finds them.
//!
//! A place is the page's PPN, or the log block's number among log blocks and the page in it, with a table
//! that leads from the one to the other: whichever takes less for a log that is half full of valid pages.

use super::put_off::Gathered;
use super::read_ahead::ReadAhead;
use super::rise::Rises;
use super::timetable::Timetable;
use crate::log_block::{Core, Layout};

/// Groups whose rows lie behind one another.
pub(super) const SHELF: u32 = 16;
/// Bytes by which a shelf grows.
pub(super) const GRAIN: u64 = 8;

/// Bits of what the log map consists of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Widths {
    block_pages: u32,
    /// Pages of a row.
    count: u32,
    offset: u32,
    place: u32,
    /// Whether a place is in memory: where some are on flash.
    flag: u32,
    /// The table of log blocks.
    numbers: u64,
}

impl Widths {
    /// `paged`: some places may be on flash.
    pub(super) fn new(layout: &Layout, paged: bool) -> Widths {
        let (logs, page) = (layout.log_blocks, bits(layout.block_pages));
        let (by_ppn, by_number) = (bits(layout.physical_pages), bits(logs) + page);
        let table = u64::from(logs) * u64::from(bits(layout.physical_pages / layout.block_pages));
        let half = u64::from(logs) * u64::from(layout.block_pages) / 2;
        let pays = half * u64::from(by_number) + table < half * u64::from(by_ppn);
        Widths {
            block_pages: layout.block_pages,
            count: bits(layout.block_pages + 1),
            offset: page,
            place: if pays { by_number } else { by_ppn },
            flag: u32::from(paged),
            numbers: if pays { table.div_ceil(8) } else { 0 },
        }
    }

    /// Bits of a row of so many pages, of so many of which the place is in memory.
    #[inline]
    pub(super) fn row(&self, pages: u32, here: u32) -> u32 {
        self.count + self.offsets(pages) + here * self.place
    }

    /// The same without places.
    fn offsets(&self, pages: u32) -> u32 {
        (pages * self.offset).min(self.block_pages) + pages * self.flag
    }

    /// Bits that a page takes at least that the log holds: its offset.
    pub(super) fn bits_of_offset(&self) -> u32 {
        self.offset + self.flag
    }

    /// Bytes of so many places.
    pub(super) fn places(&self, pages: u32) -> u64 {
        u64::from(pages) * u64::from(self.place) / 8
    }

    /// Places that so many bytes hold.
    pub(super) fn places_in(&self, bytes: u64) -> u64 {
        8 * bytes / u64::from(self.place)
    }

    /// The most that rows take for `pages` pages in the log, all of whose places are in memory.
    pub(super) fn most(&self, layout: &Layout, pages: u64) -> u64 {
        let pages = pages.min(u64::from(layout.exported_pages));
        let groups = u64::from(layout.logical_blocks);
        let offsets = (pages * u64::from(self.offset)).min(groups * u64::from(self.block_pages));
        let bits = groups * u64::from(self.count) + offsets + pages * u64::from(self.flag + self.place);
        bits.div_ceil(8) + GRAIN * groups.div_ceil(SHELF.into())
    }
}

/// Bytes of a shelf of so many bits.
#[inline]
pub(super) fn shelf_bytes(bits: u32) -> u64 {
    u64::from(bits.div_ceil(8)).next_multiple_of(GRAIN)
}

/// Bytes of the structures when rows take `rows`, groups of the mean rate wait `ahead` bins, and `vtpns`
/// translation pages hold places on flash.
pub(super) fn parts(layout: &Layout, ahead: u32, rows: u64, vtpns: u32) -> Vec<(&'static str, u64)> {
    let groups = u64::from(layout.logical_blocks);
    let blocks = layout.physical_pages / layout.block_pages;
    let shelves = groups.div_ceil(SHELF.into());
    // Where places are on flash: of each log block, superseded pages that are not known of; the last loads.
    let paged = if vtpns > 0 { u64::from(layout.log_blocks) + ReadAhead::BYTES } else { 0 };
    vec![
        ("homes", (groups * u64::from(bits(blocks))).div_ceil(8)),
        ("log map", rows + 4 * shelves + Widths::new(layout, vtpns > 0).numbers + paged),
        // PPN and links.
        ("GTD", 8 * u64::from(vtpns)),
        ("timetable", Timetable::bytes(layout, ahead) + Gathered::BYTES),
        // And what is owed.
        ("merges", u64::from(layout.merging) * u64::from(12 + layout.block_pages / 8) + 4),
        ("sequences", Rises::bytes(layout)),
    ]
}

/// Bytes of all structures but the rows.
pub(super) fn fixed(layout: &Layout, ahead: u32, vtpns: u32) -> u64 {
    parts(layout, ahead, 0, vtpns).iter().map(|&(_, bytes)| bytes).sum()
}

/// Bits of a number below `count`.
fn bits(count: u32) -> u32 {
    u32::BITS - count.saturating_sub(1).leading_zeros()
}

/// Bytes of the rows as they are, when all places are in memory.
pub(super) fn rows(core: &Core) -> u64 {
    let layout = core.layout();
    let widths = Widths::new(layout, false);
    let shelves = (0..layout.logical_blocks).step_by(SHELF as usize);
    let shelf = |first: u32| {
        let groups = first..(first + SHELF).min(layout.logical_blocks);
        shelf_bytes(groups.map(|group| core.pages_in_log(group)).map(|pages| widths.row(pages, pages)).sum())
    };
    shelves.map(shelf).sum()
}
