//! FASTer: FAST with a second chance for pages at the end of the log.
//!
//! Lim, Lee, Moon, "FASTer FTL for Enterprise-Class Flash Memory SSDs", SNAPI 2010.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | SW log block | [`Faster::sequential`], as in FAST | `schemes/fast.rs` |
//! | RW log blocks, round robin | [`Faster::random`] | `log_block/random.rs` |
//! | second chance | [`Faster::reclaim`]: a valid page of the oldest block goes to the youngest once | |
//! | isolation of cold pages | [`Faster::isolate`]: a page that comes round again goes to log blocks of its own | |
//! | full merge | the pages of the oldest of those | `log_block/merge.rs` |
//!
//! The paper's text was not at hand; its abstract names the two techniques. Choices:
//! - The room for moved pages is the log block that the host writes, opened before the oldest is emptied. A
//!   page that finds no room there is merged. A rewrite by the host gives a page a new second chance.
//! - The isolated blocks are a FIFO of up to `isolation` percent of the log. Cold pages wait there for others
//!   of their logical block, with which one full merge takes them out, and leave the turns of the log to
//!   pages that are rewritten. The oldest block is merged when the area is full.

use super::fast::write_to_data_or_sw;
use crate::counters::{Counters, Stat};
use crate::flash::Flash;
use crate::log_block::random::{block_map_bytes, chosen, page_map_bytes, RandomArea};
use crate::log_block::sequential::SequentialArea;
use crate::log_block::stats::{
    FULL_MERGES, LOG_VICTIMS, LOG_VICTIM_PAGES, PARTIAL_MERGES, SECOND_CHANCES, SECOND_CHANCES_USED,
    SEQUENTIAL_BLOCKS, SWITCH_MERGES,
};
use crate::log_block::{Core, HostPage, Layout, LogBlock, Policy, LOG};
use crate::scheme::{Config, ConfigError, Info, Parameter};
use nand::{Done, Fault, Lpn, Nand};

/// Pages that had their second chance for nothing.
const ISOLATED: Stat = Stat::new(
    9,
    "isolated",
    "pages",
    "valid log pages that came round again and moved to the log blocks for cold pages",
);

/// FASTer: FAST with a second chance in the log.
pub type FasterFtl = LogBlock<Faster>;

/// One sequential log block, the rest random, with a second chance, or for cold pages.
#[derive(Clone, Debug)]
pub struct Faster {
    sequential: SequentialArea,
    random: RandomArea,
    /// Log blocks for cold pages.
    isolated: RandomArea,
    /// The most that they may be of the log, %.
    isolation: f64,
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
            ISOLATED,
        ],
        parameters: &[
            LOG,
            Parameter {
                name: "isolation",
                default: "25",
                what: "most of the log that holds isolated cold pages, %; 0: they are merged at once",
            },
        ],
    };
    const LEAST_LOG: u32 = 3;

    fn new(config: &Config, layout: &Layout) -> Result<Self, ConfigError> {
        Ok(Faster {
            sequential: SequentialArea::new(1),
            random: RandomArea::new(layout),
            isolated: RandomArea::new(layout),
            isolation: config.number(&Self::INFO, "isolation", 0.0..=90.0)?,
        })
    }

    fn restore<N: Nand>(&mut self, core: &mut Core, flash: &Flash<N>, mut logs: Vec<u32>) {
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
        self.random.spared(core, &mut flash.counters, page.lpn);
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

    fn trims(&mut self, core: &Core, counters: &mut Counters, first: Lpn, pages: u32) {
        self.random.all_spared(core, counters, first, pages);
    }

    fn shrink<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        let area = if self.random.len() > 0 { &mut self.random } else { &mut self.isolated };
        area.merge_oldest(core, flash, &mut self.sequential)
    }

    fn log_blocks(&self, each: &mut dyn FnMut(u32)) {
        let random = self.random.blocks.iter().chain(&self.isolated.blocks).copied();
        self.sequential.iter().chain(random).for_each(each);
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
    /// Opens an RW log block and empties the oldest ones until there are not too many. Each page moves twice
    /// only, so that this comes to an end. When blocks have failed and the log is smaller than it may be, one
    /// is left, and the next write is refused.
    fn make_room<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        loop {
            if self.random.rear(core).is_none() {
                self.random.open(core, flash)?;
            }
            let others = core.log_limit().saturating_sub(self.isolated.len()).max(2);
            if self.random.len() < others {
                return Ok(());
            }
            self.reclaim(core, flash)?;
        }
    }

    fn reclaim<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        let Some(victim) = self.random.blocks.pop_front() else { return Err(core.no_space(flash, 1)) };
        let emptied = self.empty(core, flash, victim);
        self.random.back(victim, emptied)
    }

    fn empty<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>, victim: u32) -> Result<(), Fault> {
        chosen(core, flash, victim);
        for position in 0..core.layout().block_pages {
            let Some(lpn) = core.log_lpn(flash, victim, position) else { continue };
            let fresh = !self.random.was_moved(core.pool.page(victim, position));
            if fresh && self.random.move_to_rear(core, flash, lpn)? {
                continue;
            }
            if !fresh && self.isolate(core, flash, lpn)? {
                continue;
            }
            // Making room for isolated pages may have merged it.
            if core.log_lpn(flash, victim, position).is_some() {
                self.sequential.full_merge(core, flash, lpn)?;
            }
        }
        self.random.free(core, flash, victim)
    }

    /// Moves a cold page to the log blocks for such pages, and merges the oldest of these when they are too
    /// many. `false`: the page is to be merged, or was.
    fn isolate<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>, lpn: Lpn) -> Result<bool, Fault> {
        let limit = core.log_limit();
        let most =
            ((f64::from(limit) * self.isolation / 100.0) as u32).min(limit.saturating_sub(Self::LEAST_LOG));
        if most == 0 {
            return Ok(false);
        }
        if self.isolated.rear(core).is_none() {
            while self.isolated.len() >= most {
                self.isolated.merge_oldest(core, flash, &mut self.sequential)?;
            }
            if core.log_page(lpn).is_none() {
                return Ok(false);
            }
            self.isolated.open(core, flash)?;
        }
        let moved = self.isolated.take_in(core, flash, lpn)?;
        flash.counters.count(&ISOLATED, u64::from(moved));
        Ok(moved)
    }
}
