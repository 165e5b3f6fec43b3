//! LAST: locality-aware sector translation.
//!
//! Lee, Shin, Kim, Kim, "LAST: Locality-Aware Sector Translation for NAND Flash Memory-Based Storage
//! Systems", ACM SIGOPS Operating Systems Review 42(6), 2008.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | sequential log buffer | [`Last::sequential`], 1/16 of the log | `log_block/sequential.rs` |
//! | random log buffer, hot and cold partition | [`Last::hot`], [`Last::cold`] | `log_block/random.rs` |
//! | dead blocks first | [`Last::reuse_dead`] | |
//!
//! Choices: a request of more than `threshold` pages is sequential (the paper's bound is 4 KiB, which is two
//! pages here; with pages of 4 KiB every request would be). A page is hot if it is rewritten while the random
//! log still holds it. A log block in which nothing is valid any more is erased at once; else the oldest
//! block of the full partition is merged. The sequential log block written longest ago is merged when another
//! is needed. Sequential writes that begin inside a logical block, or go back, as in `adapt`.

use crate::flash::Flash;
use crate::log_block::random::{block_map_bytes, page_map_bytes, RandomArea};
use crate::log_block::sequential::{Room, SequentialArea, Victim};
use crate::log_block::stats::{
    EARLY_REUSES, FULL_MERGES, LOG_VICTIMS, LOG_VICTIM_PAGES, PARTIAL_MERGES, SEQUENTIAL_BLOCKS,
    SWITCH_MERGES,
};
use crate::log_block::{Core, HostPage, Layout, LogBlock, Policy, LOG};
use crate::scheme::{Config, ConfigError, Info, Parameter};
use nand::{Done, Fault, Lpn, Nand};

/// LAST: a log with a sequential area, and hot and cold random areas.
pub type LastFtl = LogBlock<Last>;

/// The sequential area, the hot and the cold random area of LAST, and what chooses among them.
#[derive(Clone, Debug)]
pub struct Last {
    sequential: SequentialArea,
    sequential_blocks: u32,
    hot: RandomArea,
    hot_share: f64,
    cold: RandomArea,
    threshold: u32,
}

impl Policy for Last {
    const INFO: Info = Info {
        name: "last",
        what: "log blocks: sequential by request size, random ones divided into hot and cold",
        paper: "Lee et al., ACM SIGOPS OSR 2008",
        stats: &[
            SWITCH_MERGES,
            PARTIAL_MERGES,
            FULL_MERGES,
            LOG_VICTIMS,
            LOG_VICTIM_PAGES,
            SEQUENTIAL_BLOCKS,
            EARLY_REUSES,
        ],
        parameters: &[
            LOG,
            Parameter { name: "threshold", default: "2", what: "sequential requests have more pages" },
            Parameter { name: "hot", default: "50", what: "most of the random area that is hot, %" },
        ],
    };
    const LEAST_LOG: u32 = 4;
    const WATCHES: bool = true;

    fn new(config: &Config, layout: &Layout) -> Result<Self, ConfigError> {
        let sequential_blocks = (layout.log_blocks / 16).max(1);
        Ok(Last {
            sequential: SequentialArea::new(sequential_blocks),
            sequential_blocks,
            hot: RandomArea::new(layout),
            hot_share: config.number(&Self::INFO, "hot", 1.0..=99.0)?,
            cold: RandomArea::new(layout),
            threshold: config.number(&Self::INFO, "threshold", 1..=65_536)?,
        })
    }

    fn restore<N: Nand>(&mut self, core: &mut Core, flash: &Flash<N>, mut logs: Vec<u32>) {
        self.sequential.restore(core, flash, &mut logs, self.sequential_blocks);
        self.cold.blocks.extend(logs);
    }

    fn write<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        page: HostPage,
        at: Done,
    ) -> Result<Done, Fault> {
        let room = Room { most: self.sequential_blocks, victim: Victim::Oldest };
        let is_sequential = page.size > self.threshold;
        let mut done = self.sequential.place(core, flash, page.lpn, is_sequential, room, at)?;
        let hot = self.is_hot(core, page.lpn);
        while done.is_none() {
            let area = if hot { &mut self.hot } else { &mut self.cold };
            done = area.append(core, flash, page.lpn, at)?;
            if done.is_none() {
                self.make_room(core, flash, hot)?;
            }
        }
        self.reuse_dead(core, flash)?;
        Ok(done.unwrap_or(at))
    }

    fn shrink<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        let area = if self.cold.len() > 0 { &mut self.cold } else { &mut self.hot };
        area.merge_oldest(core, flash, &mut self.sequential)
    }

    fn log_blocks(&self, each: &mut dyn FnMut(u32)) {
        let random = self.hot.blocks.iter().chain(&self.cold.blocks).copied();
        self.sequential.iter().chain(random).for_each(each);
    }

    fn memory(&self, layout: &Layout) -> Vec<(&'static str, u64)> {
        let random = layout.log_blocks - self.sequential_blocks;
        let valid = u64::from(layout.block_pages.ilog2() / 8 + 1);
        vec![
            ("map of random log pages", page_map_bytes(random, layout.block_pages)),
            ("map of sequential log blocks", block_map_bytes(self.sequential_blocks)),
            ("valid pages of random log blocks", valid * u64::from(random)),
        ]
    }
}

impl Last {
    /// Whether the random log holds the page: it is rewritten soon.
    fn is_hot(&self, core: &Core, lpn: Lpn) -> bool {
        let Some(page) = core.log_page(lpn) else { return false };
        let (block, _) = core.pool.place_of(page);
        self.sequential.iter().all(|other| other != block)
    }

    /// Opens a block of the hot or the cold partition, after merging the oldest ones of the partition that
    /// has too many.
    fn make_room<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>, hot: bool) -> Result<(), Fault> {
        self.reuse_dead(core, flash)?;
        let random = core.log_limit().saturating_sub(self.sequential_blocks);
        let most_hot = ((f64::from(random) * self.hot_share / 100.0) as u32).clamp(1, random.max(2) - 1);
        while self.hot.len() + self.cold.len() >= random || (hot && self.hot.len() >= most_hot) {
            let too_hot = self.hot.len() >= most_hot && (hot || self.hot.len() > most_hot);
            let area = if too_hot || self.cold.len() == 0 { &mut self.hot } else { &mut self.cold };
            let Some(victim) = area.blocks.pop_front() else { return Err(core.no_space(flash, 1)) };
            area.merge(core, flash, &mut self.sequential, victim)?;
        }
        let area = if hot { &mut self.hot } else { &mut self.cold };
        area.open(core, flash).map(|_| ())
    }

    /// Erases the random log blocks whose last valid page went.
    fn reuse_dead<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        while let Some(block) = core.take_emptied() {
            for area in [&mut self.hot, &mut self.cold] {
                if core.is_dead_log(block) && Some(block) != area.rear(core) {
                    if let Some(at) = area.blocks.iter().position(|&other| other == block) {
                        area.free(core, flash, block)?;
                        area.blocks.remove(at);
                        flash.counters.count(&EARLY_REUSES, 1);
                    }
                }
            }
        }
        Ok(())
    }
}
