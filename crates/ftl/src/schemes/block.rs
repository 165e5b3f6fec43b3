//! Pure block mapping: no log, an overwrite rewrites its block.
//!
//! | term | here | where |
//! | --- | --- | --- |
//! | block map | `Core::data_block` | `log_block` |
//! | rewriting a block | [`Block::write`]: a fresh block takes the pages in front, the request, and the rest | |
//!
//! The floor that everything else is measured from. Pages that one request overwrites in one block share a
//! rewrite: the new block is finished when the request leaves it. A page at its data block's next free offset
//! is written in place.

use crate::flash::Flash;
use crate::log_block::random::RandomArea;
use crate::log_block::sequential::SequentialArea;
use crate::log_block::stats::{FULL_MERGES, PARTIAL_MERGES, SWITCH_MERGES};
use crate::log_block::{Core, HostPage, Layout, LogBlock, Policy};
use crate::scheme::{Config, ConfigError, Info};
use nand::{Done, Fault, Nand};

/// Block mapping without a log: an overwrite copies its logical block.
pub type BlockFtl = LogBlock<Block>;

/// The block being rewritten, if any.
#[derive(Clone, Debug)]
pub struct Block {
    rewriting: SequentialArea,
    /// What a power cut left: merged before anything else is written.
    left: RandomArea,
}

impl Policy for Block {
    const INFO: Info = Info {
        name: "block",
        what: "block map without a log: every overwrite rewrites its block (the floor)",
        paper: "the baseline of the log-block papers",
        stats: &[SWITCH_MERGES, PARTIAL_MERGES, FULL_MERGES],
        parameters: &[],
    };
    const LEAST_LOG: u32 = 0;

    fn new(_config: &Config, layout: &Layout) -> Result<Self, ConfigError> {
        Ok(Block { rewriting: SequentialArea::new(1), left: RandomArea::new(layout) })
    }

    fn restore<N: Nand>(&mut self, _core: &mut Core, _flash: &Flash<N>, logs: Vec<u32>) {
        self.left.blocks.extend(logs);
    }

    fn write<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        page: HostPage,
        at: Done,
    ) -> Result<Done, Fault> {
        let (logical, _) = core.place(page.lpn);
        loop {
            let written = match self.rewriting.find(logical) {
                Some(index) => self.rewriting.write(core, flash, index, page.lpn, at)?,
                None => match core.write_in_place(flash, page.lpn, at)? {
                    Some(done) => Some(done),
                    None => {
                        let index = self.rewriting.open(core, flash, logical)?;
                        self.rewriting.close_after_request(index);
                        self.rewriting.write(core, flash, index, page.lpn, at)?
                    }
                },
            };
            if let Some(done) = written {
                if page.rest == 1 {
                    self.rewriting.end_request(core, flash, logical)?;
                }
                return Ok(done);
            }
            // A program failed: the block was merged without the page. Another attempt needs another block.
            if core.pool.free_blocks() < 2 {
                return Err(core.no_space(flash, 2 - core.pool.free_blocks()));
            }
        }
    }

    fn shrink<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        self.left.merge_oldest(core, flash, &mut self.rewriting)
    }

    fn log_blocks(&self, each: &mut dyn FnMut(u32)) {
        self.rewriting.iter().chain(self.left.blocks.iter().copied()).for_each(each);
    }

    fn memory(&self, _layout: &Layout) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
