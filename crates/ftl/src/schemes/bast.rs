//! BAST: block associative sector translation.
//!
//! Kim, Kim, Noh, Min, Cho, "A Space-Efficient Flash Translation Layer for CompactFlash Systems", IEEE
//! Transactions on Consumer Electronics 48(2), 2002.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | log block of a data block | [`Bast::log_of`] | |
//! | switch, partial, full merge | `Core::merge_pair` | `log_block/merge.rs` |
//!
//! Choices: when no log block is free, the one whose logical block was written longest ago is merged. A full
//! log block is merged when the next page for it comes.

use crate::breach::Breach;
use crate::flash::Flash;
use crate::list::NONE;
use crate::log_block::random::{page_map_bytes, RandomArea};
use crate::log_block::sequential::SequentialArea;
use crate::log_block::stats::{FULL_MERGES, PARTIAL_MERGES, SWITCH_MERGES};
use crate::log_block::{Core, HostPage, Layout, LogBlock, Policy, LOG};
use crate::scheme::{Config, ConfigError, Info};
use nand::{Done, Fault, Nand};
use std::collections::VecDeque;

/// BAST: each log block belongs to one logical block.
pub type BastFtl = LogBlock<Bast>;

/// Which log block belongs to which logical block.
#[derive(Clone, Debug)]
pub struct Bast {
    /// By logical block.
    log_of: Vec<u32>,
    /// Logical blocks with a log block, the one written longest ago first.
    order: VecDeque<u32>,
    /// What a power cut left beside those: merged first when there are too many log blocks.
    left: RandomArea,
    none: SequentialArea,
}

impl Policy for Bast {
    const INFO: Info = Info {
        name: "bast",
        what: "log blocks that belong to one logical block each",
        paper: "Kim et al., IEEE TCE 2002",
        stats: &[SWITCH_MERGES, PARTIAL_MERGES, FULL_MERGES],
        parameters: &[LOG],
    };
    const LEAST_LOG: u32 = 1;

    fn new(_config: &Config, layout: &Layout) -> Result<Self, ConfigError> {
        Ok(Bast {
            log_of: vec![NONE; layout.logical_blocks as usize],
            order: VecDeque::with_capacity(layout.log_blocks as usize + 1),
            left: RandomArea::new(layout),
            none: SequentialArea::new(0),
        })
    }

    fn restore<N: Nand>(&mut self, core: &mut Core, flash: &Flash<N>, logs: Vec<u32>) {
        for block in logs {
            match core.logical_of_log(flash, block) {
                Some(logical) if self.log_of[logical as usize] == NONE => {
                    self.log_of[logical as usize] = block;
                    self.order.push_back(logical);
                }
                _ => self.left.blocks.push_back(block),
            }
        }
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
            let block = self.log_of[logical as usize];
            if block == NONE {
                if let Some(done) = core.write_in_place(flash, page.lpn, at)? {
                    return Ok(done);
                }
                self.open(core, flash, logical)?;
                continue;
            }
            self.touch(logical);
            if let Some(done) = core.append(flash, block, page.lpn, at)? {
                return Ok(done);
            }
            self.merge(core, flash, logical)?;
        }
    }

    fn shrink<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        match self.order.front() {
            Some(&victim) if self.left.len() == 0 => self.merge(core, flash, victim),
            _ => self.left.merge_oldest(core, flash, &mut self.none),
        }
    }

    fn log_blocks(&self, each: &mut dyn FnMut(u32)) {
        let owned = self.order.iter().map(|&logical| self.log_of[logical as usize]);
        owned.chain(self.left.blocks.iter().copied()).for_each(each);
    }

    fn memory(&self, layout: &Layout) -> Vec<(&'static str, u64)> {
        // A page's place in its log block is its index: 2 bytes for the offset; 12 for a log block's two
        // numbers and links.
        let pages = page_map_bytes(layout.log_blocks, layout.block_pages) / 4;
        vec![("offsets of log pages", pages), ("log blocks", 12 * u64::from(layout.log_blocks))]
    }

    fn check<N: Nand>(&self, core: &Core, flash: &Flash<N>) -> Result<(), Breach> {
        for &logical in &self.order {
            let block = self.log_of[logical as usize];
            let of = core.logical_of_log(flash, block);
            if of.is_some_and(|of| of != logical) {
                return Err(format!("the log block of logical block {logical} holds pages of {of:?}").into());
            }
        }
        Ok(())
    }
}

impl Bast {
    fn touch(&mut self, logical: u32) {
        if self.order.back() != Some(&logical) {
            self.remove(logical);
            self.order.push_back(logical);
        }
    }

    fn remove(&mut self, logical: u32) {
        if let Some(at) = self.order.iter().position(|&other| other == logical) {
            self.order.remove(at);
        }
    }

    fn open<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>, logical: u32) -> Result<(), Fault> {
        while core.log_count() >= core.log_limit() {
            self.shrink(core, flash)?;
        }
        self.log_of[logical as usize] = core.open_log(flash)?;
        self.order.push_back(logical);
        Ok(())
    }

    fn merge<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>, logical: u32) -> Result<(), Fault> {
        core.merge_pair(flash, logical, self.log_of[logical as usize])?;
        self.log_of[logical as usize] = NONE;
        self.remove(logical);
        Ok(())
    }
}
