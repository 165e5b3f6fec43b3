//! WAFTL: workload-adaptive flash translation.
//!
//! Wei, Gong, Pathak, Veeravalli, Zeng, Okada, "WAFTL: A Workload Adaptive Flash Translation Layer with Data
//! Partition", MSST 2011.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | buffer zone, page-mapped | [`Waftl::zone`] | `log_block/random.rs` |
//! | block-level mapping blocks, BMB | data blocks | `log_block` |
//! | page-level mapping blocks, PMB | [`Waftl::pages`] | `log_block/random.rs` |
//! | access count of a logical block, threshold | [`Waftl::accesses`] | |
//! | data migration | [`Waftl::migrate`]: all of the zone at once | |
//!
//! Choices, where only the outline is known to us:
//! - Zone and PMBs together have as many pages as another scheme's log (3 %), so that the page map has the
//!   same size; the PMBs get a quarter.
//! - A page write counts as an access of its logical block; a migration halves all counts. A logical block is
//!   hot when its count exceeds half of its pages: its buffered pages go to PMBs, those of the others are
//!   merged into BMBs.
//! - PMBs full: the one with the fewest valid pages is emptied. If that gains half a block or more, its pages
//!   of hot logical blocks move to another PMB; else the PMBs are too small for what is hot, and all its
//!   pages are merged into BMBs.

use crate::flash::Flash;
use crate::log_block::random::{page_map_bytes, RandomArea};
use crate::log_block::sequential::SequentialArea;
use crate::log_block::stats::{FULL_MERGES, LOG_VICTIMS, LOG_VICTIM_PAGES, PARTIAL_MERGES, SWITCH_MERGES};
use crate::log_block::{Core, HostPage, Layout, LogBlock, Policy, LOG};
use crate::scheme::{Config, ConfigError, Info, Parameter};
use nand::{Done, Fault, Lpn, Nand};

/// WAFTL.
pub type WaftlFtl = LogBlock<Waftl>;

/// Buffer zone, page-mapped data blocks, and who is hot.
#[derive(Clone, Debug)]
pub struct Waftl {
    zone: RandomArea,
    pages: RandomArea,
    /// Of the log blocks, those for PMBs.
    page_share: f64,
    /// By logical block: page writes, halved at every migration.
    accesses: Vec<u16>,
    threshold: u32,
}

impl Policy for Waftl {
    const INFO: Info = Info {
        name: "waftl",
        what: "a buffer zone that migrates as a whole into page- or block-mapped data blocks",
        paper: "Wei et al., MSST 2011",
        stats: &[SWITCH_MERGES, PARTIAL_MERGES, FULL_MERGES, LOG_VICTIMS, LOG_VICTIM_PAGES],
        parameters: &[
            LOG,
            Parameter { name: "pmb", default: "25", what: "page-mapped data blocks, % of the log" },
            Parameter {
                name: "threshold",
                default: "50",
                what: "page writes above which a logical block is hot, % of its pages",
            },
        ],
    };
    const LEAST_LOG: u32 = 4;

    fn new(config: &Config, layout: &Layout) -> Result<Self, ConfigError> {
        let threshold = config.number(&Self::INFO, "threshold", 0.0..=1e6)?;
        Ok(Waftl {
            zone: RandomArea::new(layout),
            pages: RandomArea::new(layout),
            page_share: config.number(&Self::INFO, "pmb", 0.0..=90.0)?,
            accesses: vec![0; layout.logical_blocks as usize],
            threshold: ((f64::from(layout.block_pages) * threshold / 100.0) as u32).min(u32::from(u16::MAX)),
        })
    }

    fn restore<N: Nand>(&mut self, _core: &Core, _flash: &Flash<N>, logs: Vec<u32>) {
        self.zone.blocks.extend(logs);
    }

    fn write<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        page: HostPage,
        at: Done,
    ) -> Result<Done, Fault> {
        let (logical, _) = core.place(page.lpn);
        let count = &mut self.accesses[logical as usize];
        *count = count.saturating_add(1);
        if let Some(done) = core.write_in_place(flash, page.lpn, at)? {
            return Ok(done);
        }
        loop {
            if let Some(done) = self.zone.append(core, flash, page.lpn, at)? {
                return Ok(done);
            }
            if self.zone.len() + self.page_blocks(core) >= core.log_limit() {
                self.migrate(core, flash)?;
            }
            self.zone.open(core, flash);
        }
    }

    fn shrink<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        let area = if self.zone.len() > 0 { &mut self.zone } else { &mut self.pages };
        area.merge_oldest(core, flash, &mut SequentialArea::new(0))
    }

    fn log_blocks(&self, each: &mut dyn FnMut(u32)) {
        self.zone.blocks.iter().chain(&self.pages.blocks).copied().for_each(each);
    }

    fn memory(&self, layout: &Layout) -> Vec<(&'static str, u64)> {
        vec![
            ("map of zone and PMB pages", page_map_bytes(layout.log_blocks, layout.block_pages)),
            ("access counts", 2 * u64::from(layout.logical_blocks)),
        ]
    }
}

impl Waftl {
    /// Page-mapped data blocks that there may be.
    fn page_blocks(&self, core: &Core) -> u32 {
        let limit = core.log_limit();
        ((f64::from(limit) * self.page_share / 100.0) as u32).min(limit.saturating_sub(2))
    }

    fn is_hot(&self, core: &Core, lpn: Lpn) -> bool {
        let (logical, _) = core.place(lpn);
        u32::from(self.accesses[logical as usize]) > self.threshold
    }

    /// Empties the whole zone.
    fn migrate<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        while let Some(victim) = self.zone.blocks.pop_front() {
            self.empty(core, flash, victim)?;
        }
        self.accesses.iter_mut().for_each(|count| *count /= 2);
        Ok(())
    }

    /// Moves the pages of hot logical blocks in `victim` to page-mapped blocks, merges the others, and erases
    /// it.
    fn empty<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>, victim: u32) -> Result<(), Fault> {
        for position in 0..core.layout().block_pages {
            let Some(lpn) = core.log_lpn(flash, victim, position) else { continue };
            let moves = self.is_hot(core, lpn);
            if moves && self.move_to_pages(core, flash, lpn)? {
                continue;
            }
            // Making room among the page-mapped blocks may have merged the page.
            if core.log_lpn(flash, victim, position).is_some() {
                let (logical, _) = core.place(lpn);
                core.full_merge(flash, logical)?;
            }
        }
        self.zone.free(core, flash, victim)
    }

    fn move_to_pages<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        lpn: Lpn,
    ) -> Result<bool, Fault> {
        if self.pages.rear(core).is_none() {
            if self.page_blocks(core) == 0 {
                return Ok(false);
            }
            if self.pages.len() >= self.page_blocks(core) {
                self.make_page_room(core, flash)?;
            }
            if self.pages.rear(core).is_none() {
                self.pages.open(core, flash);
            }
            if core.log_page(lpn).is_none() {
                return Ok(false);
            }
        }
        self.pages.move_to_rear(core, flash, lpn)
    }

    /// Empties the page-mapped block with the fewest valid pages: those of hot logical blocks move to a fresh
    /// one while it has room, the others are merged.
    fn make_page_room<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        let valid = |&at: &usize| core.pool.valid(self.pages.blocks[at]);
        let Some(at) = (0..self.pages.blocks.len()).min_by_key(valid) else { return Ok(()) };
        let Some(victim) = self.pages.blocks.remove(at) else { return Ok(()) };
        let gains = 2 * core.pool.valid(victim) <= core.layout().block_pages;
        if gains {
            self.pages.open(core, flash);
        }
        for position in 0..core.layout().block_pages {
            let Some(lpn) = core.log_lpn(flash, victim, position) else { continue };
            if gains && self.is_hot(core, lpn) && self.pages.move_to_rear(core, flash, lpn)? {
                continue;
            }
            let (logical, _) = core.place(lpn);
            core.full_merge(flash, logical)?;
        }
        self.pages.free(core, flash, victim)
    }
}
