//! FAST: fully associative sector translation.
//!
//! Lee, Park, Chung, Lee, Park, Song, "A Log Buffer-Based Flash Translation Layer Using Fully-Associative
//! Sector Translation", ACM TECS 6(3), 2007.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | SW log block | [`Fast::sequential`], at most one | `log_block/sequential.rs` |
//! | RW log blocks, round robin | [`Fast::random`], a FIFO | `log_block/random.rs` |
//! | switch, partial merge of SW | `SequentialArea::complete` | |
//! | full merge | `Core::full_merge` | `log_block/merge.rs` |
//!
//! Choices: an SW log block that is full is switched at once, not at the next write that needs it, which
//! costs the same and frees it earlier. A write to SW's logical block that leaves out offsets takes its place
//! in a partial merge (the pages between are copied in front of it, the rest behind it); one that goes back
//! is merged in full with SW, the new page in its place in a fresh block, as one of the request.

use crate::flash::Flash;
use crate::log_block::random::{block_map_bytes, page_map_bytes, RandomArea};
use crate::log_block::sequential::SequentialArea;
use crate::log_block::stats::{
    FULL_MERGES, LOG_VICTIMS, LOG_VICTIM_PAGES, PARTIAL_MERGES, SEQUENTIAL_BLOCKS, SWITCH_MERGES,
};
use crate::log_block::{Core, HostPage, Layout, LogBlock, Policy, LOG};
use crate::scheme::{Config, ConfigError, Info};
use nand::{Done, Fault, Nand};

/// FAST: log blocks that all logical blocks share.
pub type FastFtl = LogBlock<Fast>;

/// One sequential log block, the rest random.
#[derive(Clone, Debug)]
pub struct Fast {
    sequential: SequentialArea,
    random: RandomArea,
}

impl Policy for Fast {
    const INFO: Info = Info {
        name: "fast",
        what: "log blocks: one for sequential writes, the rest fully associative, emptied in order",
        paper: "Lee et al., ACM TECS 2007",
        stats: &[
            SWITCH_MERGES,
            PARTIAL_MERGES,
            FULL_MERGES,
            LOG_VICTIMS,
            LOG_VICTIM_PAGES,
            SEQUENTIAL_BLOCKS,
        ],
        parameters: &[LOG],
    };
    const LEAST_LOG: u32 = 2;

    fn new(_config: &Config, layout: &Layout) -> Result<Self, ConfigError> {
        Ok(Fast { sequential: SequentialArea::new(1), random: RandomArea::new(layout) })
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
        vec![
            ("map of RW log pages", page_map_bytes(layout.log_blocks - 1, layout.block_pages)),
            ("map of the SW log block", block_map_bytes(1)),
        ]
    }
}

impl Fast {
    /// Opens an RW log block, after merging the oldest ones if there are too many.
    fn make_room<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        while self.random.len() + 1 >= core.log_limit() {
            let Some(victim) = self.random.blocks.pop_front() else { return Err(core.no_space(flash, 1)) };
            self.random.merge(core, flash, &mut self.sequential, victim)?;
        }
        self.random.open(core, flash).map(|_| ())
    }
}

/// FAST's rules for what does not go to the RW log blocks: pages that are free in their data block, and those
/// of the SW log block. `None`: the page belongs into the RW log blocks.
pub(crate) fn write_to_data_or_sw<N: Nand>(
    core: &mut Core,
    flash: &mut Flash<N>,
    sequential: &mut SequentialArea,
    page: HostPage,
    at: Done,
) -> Result<Option<Done>, Fault> {
    let (logical, offset) = core.place(page.lpn);
    let owned = sequential.find(logical);
    if owned.is_none() {
        if let Some(done) = core.write_in_place(flash, page.lpn, at)? {
            return Ok(Some(done));
        }
    }
    if offset == 0 {
        if let Some(old) = sequential.oldest() {
            sequential.complete(core, flash, old)?;
        }
        let index = sequential.open(core, flash, logical)?;
        return sequential.write(core, flash, index, page.lpn, at);
    }
    let Some(mut index) = owned else { return Ok(None) };
    let next = sequential.next(core, index);
    if offset < next && sequential.is_replacing() {
        sequential.complete(core, flash, index)?;
        return Ok(None);
    }
    if offset < next {
        index = sequential.replace(core, flash, index)?;
    } else if offset > next {
        sequential.close_after_request(index);
    }
    let written = sequential.write(core, flash, index, page.lpn, at)?;
    if page.rest == 1 {
        sequential.end_request(core, flash, logical)?;
    }
    Ok(written)
}
