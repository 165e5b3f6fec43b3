//! WAFTL: workload-adaptive flash translation.
//!
//! Wei, Gong, Pathak, Veeravalli, Zeng, Okada, "WAFTL: A Workload Adaptive Flash Translation Layer with Data
//! Partition", MSST 2011.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | buffer zone, page-mapped | [`Waftl::zone`] | `log_block/random.rs` |
//! | block-level mapping blocks, BMB: "sequential data" | data blocks; [`Waftl::sequential`] while they are written | `log_block/sequential.rs` |
//! | page-level mapping blocks, PMB: "random data and partial updates" | [`Waftl::pages`] | `log_block/random.rs` |
//! | access count of a logical block, threshold | [`Waftl::accesses`] | |
//! | data migration | [`Waftl::migrate`]: all of the zone at once | |
//!
//! The paper's text was not at hand; its abstract says that PMBs store random data and partial updates, BMBs
//! sequential data, both allocated on demand, and that the zone migrates into them based on a threshold.
//! Choices:
//! - Zone, PMBs and BMBs being written together have as many pages as another scheme's log (3 %), so that the
//!   page map has the same size. Each of the three gets blocks on demand; PMBs a quarter at most, BMBs being
//!   written half.
//! - A write is sequential where it comes to the beginning of a logical block in a request of more than
//!   `sequential` pages, or as a direct continuation of the request before. A BMB is opened for it and takes
//!   what follows in order. It replaces the old data block when it is full, without a copy. A stream that
//!   stops has its rest copied when room is needed.
//! - Any other write, and one that leaves the order of its BMB, goes to the zone.
//! - A page write counts as an access of its logical block; a migration halves all counts. A logical block is
//!   hot when its count exceeds half of its pages: its buffered pages go to PMBs, those of the others are
//!   merged into BMBs.
//! - PMBs full: the one with the fewest valid pages is emptied. If that gains half a block or more, its pages
//!   of hot logical blocks move to another PMB; else the PMBs are too small for what is hot, and all its
//!   pages are merged into BMBs.

use crate::flash::Flash;
use crate::log_block::random::{block_map_bytes, chosen, page_map_bytes, RandomArea};
use crate::log_block::sequential::{Room, SequentialArea, Victim};
use crate::log_block::stats::{
    FULL_MERGES, LOG_VICTIMS, LOG_VICTIM_PAGES, PARTIAL_MERGES, SEQUENTIAL_BLOCKS, SWITCH_MERGES,
};
use crate::log_block::{Core, HostPage, Layout, LogBlock, Policy, LOG};
use crate::scheme::{Config, ConfigError, Info, Parameter};
use nand::{Done, Fault, Lpn, Nand};

/// WAFTL: page-mapped and block-mapped data blocks behind a buffer zone.
pub type WaftlFtl = LogBlock<Waftl>;

/// Buffer zone, page- and block-mapped data blocks, and who is hot.
#[derive(Clone, Debug)]
pub struct Waftl {
    zone: RandomArea,
    pages: RandomArea,
    /// Of the log blocks, those for PMBs.
    page_share: f64,
    /// Block-mapped data blocks being written, and the most that there may be.
    sequential: SequentialArea,
    most_sequential: u32,
    /// Requests of more pages are sequential.
    small: u32,
    /// The page behind the last write request.
    end: u32,
    /// By logical block: page writes, halved at every migration.
    accesses: Vec<u16>,
    threshold: u32,
}

impl Policy for Waftl {
    const INFO: Info = Info {
        name: "waftl",
        what: "a buffer zone that migrates as a whole into page- or block-mapped data blocks",
        paper: "Wei et al., MSST 2011",
        stats: &[
            SWITCH_MERGES,
            PARTIAL_MERGES,
            FULL_MERGES,
            LOG_VICTIMS,
            LOG_VICTIM_PAGES,
            SEQUENTIAL_BLOCKS,
        ],
        parameters: &[
            LOG,
            Parameter { name: "pmb", default: "25", what: "most page-mapped data blocks, % of the log" },
            Parameter {
                name: "sequential",
                default: "2",
                what:
                    "a request of more pages is sequential from the first beginning of a logical block in it",
            },
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
        let most_sequential = layout.log_blocks / 2;
        Ok(Waftl {
            zone: RandomArea::new(layout),
            pages: RandomArea::new(layout),
            page_share: config.number(&Self::INFO, "pmb", 0.0..=90.0)?,
            sequential: SequentialArea::new(most_sequential),
            most_sequential,
            small: config.number(&Self::INFO, "sequential", 0..=65_536)?,
            end: u32::MAX,
            accesses: vec![0; layout.logical_blocks as usize],
            threshold: ((f64::from(layout.block_pages) * threshold / 100.0) as u32).min(u32::from(u16::MAX)),
        })
    }

    fn restore<N: Nand>(&mut self, core: &mut Core, flash: &Flash<N>, mut logs: Vec<u32>) {
        self.sequential.restore(core, flash, &mut logs, self.most_sequential);
        self.zone.blocks.extend(logs);
    }

    fn write<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        page: HostPage,
        at: Done,
    ) -> Result<Done, Fault> {
        let (logical, offset) = core.place(page.lpn);
        let count = &mut self.accesses[logical as usize];
        *count = count.saturating_add(1);
        let goes_on = page.base.0 == self.end;
        if page.rest == 1 {
            self.end = page.lpn.0 + 1;
        }
        let mut owned = self.sequential.find(logical);
        if owned.is_none() {
            if let Some(done) = core.write_in_place(flash, page.lpn, at)? {
                return Ok(done);
            }
        }
        if offset == 0 && (page.size > self.small || goes_on) {
            self.open_block(core, flash, logical)?;
            owned = self.sequential.find(logical);
        }
        let in_order = owned.filter(|&index| self.sequential.next(core, index) == offset);
        if let Some(index) = in_order {
            if let Some(done) = self.sequential.write(core, flash, index, page.lpn, at)? {
                return Ok(done);
            }
        }
        loop {
            if let Some(done) = self.zone.append(core, flash, page.lpn, at)? {
                return Ok(done);
            }
            self.make_room(core, flash)?;
            self.zone.open(core, flash)?;
        }
    }

    fn shrink<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        let area = if self.zone.len() > 0 { &mut self.zone } else { &mut self.pages };
        area.merge_oldest(core, flash, &mut self.sequential)
    }

    fn log_blocks(&self, each: &mut dyn FnMut(u32)) {
        let paged = self.zone.blocks.iter().chain(&self.pages.blocks).copied();
        self.sequential.iter().chain(paged).for_each(each);
    }

    fn memory(&self, layout: &Layout) -> Vec<(&'static str, u64)> {
        vec![
            ("map of zone and PMB pages", page_map_bytes(layout.log_blocks, layout.block_pages)),
            ("map of BMBs being written", block_map_bytes(self.most_sequential)),
            ("access counts", 2 * u64::from(layout.logical_blocks)),
        ]
    }
}

impl Waftl {
    // ---- Sequential data: block-mapped data blocks

    /// Gives `logical`, whose first page is written, a block of its own in place of one that it may have.
    fn open_block<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        logical: u32,
    ) -> Result<(), Fault> {
        if let Some(index) = self.sequential.find(logical) {
            if self.sequential.next(core, index) == 0 {
                return Ok(());
            }
            self.sequential.complete(core, flash, index)?;
        }
        let room = Room { most: self.most_sequential, victim: Victim::Oldest };
        self.sequential.make_room(core, flash, room)?;
        self.make_room(core, flash)?;
        self.sequential.open(core, flash, logical).map(|_| ())
    }

    /// Sees to it that the log may have one more block.
    fn make_room<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        // The zone takes what PMBs leave. A migration gives them their share of the blocks that it empties.
        while self.zone.len() + self.sequential.len() + self.pages.len() >= core.log_limit() {
            match self.sequential.oldest() {
                // Streams took more than half of the room: the one written longest ago has probably stopped.
                Some(oldest) if self.zone.len() < self.sequential.len() => {
                    self.sequential.complete(core, flash, oldest)?;
                }
                _ if self.zone.len() > 0 => self.migrate(core, flash)?,
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    // ---- The zone

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
            let emptied = self.empty(core, flash, victim);
            self.zone.back(victim, emptied)?;
        }
        self.accesses.iter_mut().for_each(|count| *count /= 2);
        Ok(())
    }

    /// Moves the pages of hot logical blocks in `victim` to page-mapped blocks, merges the others, and erases
    /// it.
    fn empty<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>, victim: u32) -> Result<(), Fault> {
        chosen(core, flash, victim);
        for position in 0..core.layout().block_pages {
            let Some(lpn) = core.log_lpn(flash, victim, position) else { continue };
            let moves = self.is_hot(core, lpn);
            if moves && self.move_to_pages(core, flash, lpn)? {
                continue;
            }
            // Making room among the page-mapped blocks may have merged the page.
            if core.log_lpn(flash, victim, position).is_some() {
                self.sequential.full_merge(core, flash, lpn)?;
            }
        }
        self.zone.free(core, flash, victim)
    }

    // ---- Random data: page-mapped data blocks

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
                self.pages.open(core, flash)?;
            }
            if core.log_page(lpn).is_none() {
                return Ok(false);
            }
        }
        self.pages.take_in(core, flash, lpn)
    }

    /// Empties the page-mapped block with the fewest valid pages.
    fn make_page_room<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        let valid = |&at: &usize| core.pool.valid(self.pages.blocks[at]);
        let Some(at) = (0..self.pages.blocks.len()).min_by_key(valid) else { return Ok(()) };
        let gains = 2 * core.pool.valid(self.pages.blocks[at]) <= core.layout().block_pages;
        let Some(victim) = self.pages.blocks.remove(at) else { return Ok(()) };
        let emptied = self.empty_pages(core, flash, victim, gains);
        self.pages.back(victim, emptied)
    }

    /// Moves the pages of hot logical blocks in the page-mapped block `victim` to a fresh one while that has
    /// room, if that `gains` anything; merges the others.
    fn empty_pages<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        victim: u32,
        gains: bool,
    ) -> Result<(), Fault> {
        chosen(core, flash, victim);
        if gains {
            self.pages.open(core, flash)?;
        }
        for position in 0..core.layout().block_pages {
            let Some(lpn) = core.log_lpn(flash, victim, position) else { continue };
            if gains && self.is_hot(core, lpn) && self.pages.take_in(core, flash, lpn)? {
                continue;
            }
            self.sequential.full_merge(core, flash, lpn)?;
        }
        self.pages.free(core, flash, victim)
    }
}
