//! What Tide keeps in memory, to the bit, as a firmware would pack it.
//!
//! The pages that the log holds of a group are entries in a row, in the order of LPNs: a bit a page says
//! which pages are there, and the ones before a page's bit tell its place in the row. A row has an even
//! number of entries and a pointer that finds it.

use crate::log_block::{Core, Layout};

/// Bytes of the structures when the log holds `entries` pages, rows rounded up included.
pub(super) fn parts(layout: &Layout, bins: u32, entries: u64, sequences: u64) -> Vec<(&'static str, u64)> {
    let groups = u64::from(layout.logical_blocks);
    let blocks = layout.physical_pages / layout.block_pages;
    let bytes = |count: u64, bits: u32| (count * u64::from(bits)).div_ceil(8);
    let rows = bits(layout.log_blocks * layout.block_pages / 2 + layout.logical_blocks);
    vec![
        ("homes", bytes(groups, bits(blocks))),
        ("in-log bits", bytes(u64::from(layout.exported_pages), 1)),
        ("log map", bytes(entries, bits(layout.physical_pages)) + bytes(groups, rows)),
        ("timetable", 4 * groups + 12 * u64::from(bins) + 4 * u64::from(layout.log_blocks)),
        ("merges", u64::from(layout.merging) * u64::from(12 + layout.block_pages / 8)),
        ("sequences", sequences),
    ]
}

/// Bits of a number below `count`.
fn bits(count: u32) -> u32 {
    u32::BITS - count.saturating_sub(1).leading_zeros()
}

/// Entries of rows that can be needed for a log of so many pages.
pub(super) fn most_entries(layout: &Layout) -> u64 {
    let pages = u64::from(layout.log_blocks) * u64::from(layout.block_pages);
    // A row of an odd number of pages has an entry more.
    pages + pages.min(u64::from(layout.logical_blocks))
}

/// Entries of the rows as they are.
pub(super) fn entries(core: &Core) -> u64 {
    let groups = 0..core.layout().logical_blocks;
    groups.map(|group| u64::from(core.pages_in_log(group).next_multiple_of(2))).sum()
}
