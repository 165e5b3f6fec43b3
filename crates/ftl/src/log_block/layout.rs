//! The sizes of a log-block FTL: how an array is shared out.

use super::pool::Pool;
use super::{journal, Policy, LOG, RESERVE};
use crate::flash::Flash;
use crate::scheme::{Config, ConfigError};
use nand::{Divisor, Lpn, Nand, Pbn};

/// The sizes that follow from array and configuration.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Pages of a block.
    pub block_pages: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// NAND blocks of a block.
    pub units: u32,
    /// Pages the host sees.
    pub exported_pages: u32,
    /// Logical blocks that the exported pages fill, the last one perhaps in part.
    pub logical_blocks: u32,
    /// Log blocks at most.
    pub log_blocks: u32,
    /// Pages of the array.
    pub physical_pages: u32,
    /// Blocks kept for journal and checkpoints.
    pub(super) metadata_blocks: u32,
    /// Parallel units that a logical block may have its place on: 1 where a block lies on all of them.
    pub parallel_units: u32,
    /// Consecutive pages lie in so many logical blocks, one after the other.
    pub width: u32,
    /// The regions: runs of consecutive pages that lie in the same logical blocks.
    regions: Regions,
    /// Blocks that merges under way hold beside the log.
    pub merging: u32,
    /// The same, the part of the log map that is on flash.
    pub translation: u32,
    /// The same, a move that levels wear.
    pub(super) leveling: u32,
    /// Log blocks without which the policy cannot work.
    pub(super) least_log: u32,
}

/// How pages are divided among logical blocks.
#[derive(Clone, Copy, Debug)]
struct Regions {
    pages: Divisor,
    /// Logical blocks of a region.
    width: Divisor,
    /// The last region, and the logical blocks of it, of which fewer are enough.
    last: u32,
    last_width: Divisor,
}

/// What the spare blocks of a narrow pool are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Blocks for the log.
    pub log: u32,
    /// Blocks that merges under way hold.
    pub merging: u32,
    /// Blocks for translation pages of the log map.
    pub translation: u32,
}

impl Layout {
    /// Logical block and offset of a page.
    #[inline]
    pub fn place(&self, lpn: Lpn) -> (u32, u32) {
        let (region, within) = self.regions.pages.divide(lpn.0);
        let (offset, turn) = self.turns_of(region).divide(within);
        (region * self.width + turn, offset)
    }

    /// The page at `offset` of a logical block, which may lie past the end of the device.
    #[inline]
    pub fn lpn(&self, logical: u32, offset: u32) -> u32 {
        let (region, turn) = self.regions.width.divide(logical);
        region * self.regions.pages.get() + offset * self.turns_of(region).get() + turn
    }

    /// Logical blocks of a region: of those that consecutive pages lie in by turns.
    #[inline]
    fn turns_of(&self, region: u32) -> Divisor {
        if region == self.regions.last {
            self.regions.last_width
        } else {
            self.regions.width
        }
    }

    /// The parallel unit on which a logical block of a region has its place.
    #[inline]
    pub fn unit_of(&self, logical: u32) -> u32 {
        logical % self.parallel_units
    }

    /// Pages of a region.
    pub fn pages_of(&self, region: u32) -> u32 {
        let span = self.width * self.block_pages;
        span.min(self.exported_pages - region * span)
    }

    /// The logical blocks of the regions that `pages` pages from `first` on lie in.
    pub(super) fn logicals(&self, first: u32, pages: u32) -> std::ops::Range<u32> {
        let region = |lpn: u32| self.place(Lpn(lpn)).0 / self.width;
        let end = (region(first + pages - 1) + 1) * self.width;
        region(first) * self.width..end.min(self.logical_blocks)
    }
}

/// Blocks that a device must do with: of a fresh array those that are good. An array in use had enough when
/// it was new: when too many blocks have failed since, it can be read and not written.
pub(super) fn usable_blocks<N: Nand>(pool: &Pool, flash: &Flash<N>) -> u32 {
    let geometry = pool.geometry();
    let in_use = (0..geometry.blocks()).map(Pbn).any(|block| flash.nand().written(block) > 0);
    if in_use {
        all_blocks(pool)
    } else {
        pool.total_blocks()
    }
}

/// Blocks of the array, as if none was bad.
pub(super) fn all_blocks(pool: &Pool) -> u32 {
    pool.geometry().blocks() / pool.units()
}

/// The sizes, or why they do not fit the array.
pub(super) fn layout_of<P: Policy>(
    usable: u32,
    pool: &Pool,
    page_bytes: u32,
    config: &Config,
) -> Result<Layout, ConfigError> {
    let block_pages = pool.block_pages();
    let parallel_units = if P::NARROW { pool.geometry().units() } else { 1 };
    let width = P::width(config, parallel_units)?;
    let tail = (config.exported_pages.max(1) - 1) % (width * block_pages) + 1;
    let last_width = tail.div_ceil(block_pages);
    let logical_blocks = (config.exported_pages - tail.min(config.exported_pages)) / block_pages + last_width;
    let share: f64 = match P::LEAST_LOG {
        _ if P::NARROW => 0.0,
        0 => 0.0,
        _ => config.number(&P::INFO, LOG.name, 0.0..=100.0)?,
    };
    let wanted = (f64::from(logical_blocks) * share / 100.0).ceil() as u32;
    let mut layout = Layout {
        block_pages,
        page_bytes,
        units: pool.units(),
        exported_pages: config.exported_pages,
        logical_blocks,
        log_blocks: wanted.max(P::LEAST_LOG),
        physical_pages: pool.geometry().pages(),
        metadata_blocks: 0,
        parallel_units,
        width,
        regions: Regions {
            pages: Divisor::new(width * block_pages),
            width: Divisor::new(width),
            last: (logical_blocks - last_width) / width,
            last_width: Divisor::new(last_width),
        },
        merging: 0,
        translation: 0,
        leveling: u32::from(config.wear_gap > 0),
        least_log: P::LEAST_LOG,
    };
    if P::NARROW {
        // As if no block was bad: then a device is laid out alike whenever it is opened. Bad blocks make the
        // log smaller ([`Core::log_limit`]).
        let most = Layout { log_blocks: all_blocks(pool).saturating_sub(logical_blocks), ..layout };
        let others = journal::blocks_needed(page_bytes, &most) + layout.leveling + RESERVE;
        let shares = P::share_out(config, &layout, most.log_blocks.saturating_sub(others));
        layout.log_blocks = shares.log.max(P::LEAST_LOG);
        (layout.merging, layout.translation) = (shares.merging, shares.translation);
    }
    layout.metadata_blocks = journal::blocks_needed(page_bytes, &layout);
    let least_log = if P::NARROW { P::LEAST_LOG } else { layout.log_blocks };
    let log = u64::from(least_log + layout.merging + layout.translation);
    let free = RESERVE + layout.leveling;
    let spare = log + u64::from(layout.metadata_blocks) + u64::from(free);
    let total = u64::from(usable);
    if config.exported_pages == 0 || u64::from(logical_blocks) + spare > total {
        return Err(ConfigError(format!(
            "over-provisioning: {} pages are exported, which are {logical_blocks} logical blocks of {block_pages} pages, \
             and scheme {} needs {} log blocks, {} for journal and checkpoints and {free} to merge into, of {total} \
             usable; export from 1 to about {} pages",
            config.exported_pages,
            P::INFO.name,
            log,
            layout.metadata_blocks,
            total.saturating_sub(spare) * u64::from(block_pages)
        )));
    }
    Ok(layout)
}
