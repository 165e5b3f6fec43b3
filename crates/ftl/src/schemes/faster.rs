//! FASTer: FAST with a second chance for pages at the end of the log.
//!
//! Lim, Lee, Moon, "FASTer FTL for Enterprise-Class Flash Memory SSDs", SNAPI 2010.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | SW log block | [`Faster::sequential`], as in FAST | `schemes/fast.rs` |
//! | RW log blocks, round robin | [`Faster::random`] | `log_block/random.rs` |
//! | second chance | [`Faster::reclaim`]: a valid page of the oldest block goes to the youngest once | |
//! | full merge | a page that comes round again | `log_block/merge.rs` |
//!
//! Choices: the room for moved pages is the log block that the host writes, opened before the oldest is
//! emptied. A page that finds no room there is merged. A rewrite by the host gives a page a new second
//! chance.

use super::fast::write_to_data_or_sw;
use crate::flash::Flash;
use crate::log_block::random::{block_map_bytes, chosen, page_map_bytes, RandomArea};
use crate::log_block::sequential::SequentialArea;
use crate::log_block::stats::{
    FULL_MERGES, LOG_VICTIMS, LOG_VICTIM_PAGES, PARTIAL_MERGES, SECOND_CHANCES, SECOND_CHANCES_USED,
    SEQUENTIAL_BLOCKS, SWITCH_MERGES,
};
use crate::log_block::{Core, HostPage, Layout, LogBlock, Policy, LOG};
use crate::scheme::{Config, ConfigError, Info};
use nand::{Done, Fault, Nand};

/// FASTer.
pub type FasterFtl = LogBlock<Faster>;

/// One sequential log block, the rest random, with a second chance.
#[derive(Clone, Debug)]
pub struct Faster {
    sequential: SequentialArea,
    random: RandomArea,
}

impl Policy for Faster {
    const INFO: Info = Info {
        name: "faster",
        what: "FAST whose log pages get a second chance before they are merged",
        paper: "Lim et al., SNAPI 2010",
        stats: &[
            SWITCH_MERGES,
            PARTIAL_MERGES,
            FULL_MERGES,
            LOG_VICTIMS,
            LOG_VICTIM_PAGES,
            SECOND_CHANCES,
            SECOND_CHANCES_USED,
            SEQUENTIAL_BLOCKS,
        ],
        parameters: &[LOG],
    };
    const LEAST_LOG: u32 = 3;

    fn new(_config: &Config, layout: &Layout) -> Result<Self, ConfigError> {
        Ok(Faster { sequential: SequentialArea::new(1), random: RandomArea::new(layout) })
    }

    fn restore<N: Nand>(&mut self, core: &Core, flash: &Flash<N>, mut logs: Vec<u32>) {
        self.sequential.restore(core, flash, &mut logs, 1);
        self.random.blocks.extend(logs);
    }

    fn write<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        page: HostPage,
        at: Done,
    ) -> Result<Done, Fault> {
        self.random.rewritten(core, flash, page.lpn);
        if let Some(done) = write_to_data_or_sw(core, flash, &mut self.sequential, page, at)? {
            return Ok(done);
        }
        loop {
            if let Some(done) = self.random.append(core, flash, page.lpn, at)? {
                return Ok(done);
            }
            self.make_room(core, flash)?;
        }
    }

    fn shrink<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        self.random.merge_oldest(core, flash, &mut self.sequential)
    }

    fn log_blocks(&self, each: &mut dyn FnMut(u32)) {
        self.sequential.iter().chain(self.random.blocks.iter().copied()).for_each(each);
    }

    fn memory(&self, layout: &Layout) -> Vec<(&'static str, u64)> {
        let pages = u64::from(layout.log_blocks - 1) * u64::from(layout.block_pages);
        vec![
            ("map of RW log pages", page_map_bytes(layout.log_blocks - 1, layout.block_pages)),
            ("second-chance bits", pages.div_ceil(8)),
            ("map of the SW log block", block_map_bytes(1)),
        ]
    }
}

impl Faster {
    /// Opens an RW log block and empties the oldest ones until there are not too many. Each page moves once
    /// only, so that this comes to an end.
    fn make_room<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        loop {
            if self.random.rear(core).is_none() {
                self.random.open(core, flash);
            }
            if self.random.len() < core.log_limit() {
                return Ok(());
            }
            self.reclaim(core, flash)?;
        }
    }

    fn reclaim<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        let Some(victim) = self.random.blocks.pop_front() else { return Err(core.no_space(1)) };
        chosen(core, flash, victim);
        for position in 0..core.layout().block_pages {
            let Some(lpn) = core.log_lpn(flash, victim, position) else { continue };
            let fresh = !self.random.was_moved(core.pool.page(victim, position));
            if fresh && self.random.move_to_rear(core, flash, lpn)? {
                continue;
            }
            let (logical, _) = core.place(lpn);
            core.full_merge(flash, logical)?;
            self.sequential.merged(core, flash, logical)?;
        }
        self.random.free(core, flash, victim)
    }
}
