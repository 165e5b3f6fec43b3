//! What log-block (hybrid) FTLs share: a block-mapped data area and a small page-mapped log.
//!
//! | papers' term | here |
//! | --- | --- |
//! | logical block, block mapping table | [`Core::data_block`]: a block of the pool that holds each page at its offset |
//! | log block | a block of the pool whose pages are found one by one ([`Core::log_page`]) |
//! | free block pool | [`Pool`] |
//! | switch, partial, full merge | [`Merge`]; `log_block/merge.rs`, `log_block/sequential.rs` |
//! | sequential and random log blocks | `log_block/sequential.rs`, `log_block/random.rs` |
//!
//! A paper is a [`Policy`]: where the next host page goes, and which log block is emptied when room is short.
//! [`LogBlock`] makes a [`Scheme`] of it: reads, trims, journal, checkpoints, recovery and checks are the
//! same for all.
//!
//! **NAND's rules.** Pages of a block are programmed in order and none is skipped, so a page is written in
//! place only when its offset is the next page of its data block, and an offset that holds nothing, before
//! one that does, takes a filler page in a merge (a program, charged; pages behind the last one are left free
//! and may be written in place later).
//!
//! **Power cuts.** Every page carries LPN and version. A merge copies while the originals are still mapped
//! and intact; they are erased after every copy is programmed. So a cut at any moment finds the newest
//! version of each page somewhere, and `log_block/recover.rs` needs no note of what was under way.
//!
//! **Memory.** Valid bits are the controller's, as for page-mapped schemes, and not part of the mapping
//! budget. The block map, the log's page map and what a policy adds are: [`Scheme::memory`].

mod journal;
mod layout;
mod leveling;
mod load;
mod merge;
pub mod pool;
pub(crate) mod random;
mod recover;
pub(crate) mod sequential;
pub mod stats;
pub(crate) mod steps;
#[cfg(test)]
mod tests;

use crate::breach::Breach;
use crate::counters::{Cause, Counters};
use crate::flash::{Content, Flash};
use crate::log_block::pool::{Pool, NONE};
use crate::scheme::{Coming, Config, ConfigError, Info, Memory, OpenError, Parameter, Scheme};
use journal::Journal;
use layout::{all_blocks, layout_of, usable_blocks};
pub use layout::{Layout, Shares};
use leveling::Leveling;
use nand::{Done, Fault, Lpn, Nand, Oob, PageKind, Ppn, Source};
use prefetch_index::prefetch_index;

/// Kinds of merges, and their index in [`stats::MERGES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// The log block holds the whole logical block in order: it becomes the data block.
    Switch = 0,
    /// It holds the first pages in order: the rest is copied behind them, and it becomes the data block.
    Partial = 1,
    /// The newest pages are gathered in order into one block, wherever they are.
    Full = 2,
}

/// Free blocks that a write may rely on: one to merge into, one for a log block that is opened before another
/// is emptied, one for a merge that begins again because a program failed.
const RESERVE: u32 = 3;

/// Free blocks without which no page is written: one to open, one to merge into. Only a device that has lost
/// its spare blocks comes down to it.
const LEAST_FREE: u32 = 2;

/// What a block of the pool is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Unused,
    /// Holds the pages of a logical block, each at its offset.
    Data(u32),
    Log,
    /// Holds copies of a merge under way, none of them mapped yet.
    Copy,
    Metadata,
}

/// The parameter that every log-block scheme with a log has.
pub(crate) const LOG: Parameter =
    Parameter { name: "log", default: "3", what: "size of the log, % of the exported capacity" };

/// A page that the host writes, and the request it belongs to.
#[derive(Clone, Copy, Debug)]
pub struct HostPage {
    /// LPN of the page.
    pub lpn: Lpn,
    /// Pages of the request from this one on.
    pub rest: u32,
    /// First page of the request.
    pub base: Lpn,
    /// Pages of the request.
    pub size: u32,
}

impl HostPage {
    /// Whether this is the first page of its request.
    pub fn is_first(&self) -> bool {
        self.lpn == self.base
    }
}

/// What differs between the log-block papers.
pub trait Policy: Sized + Clone + Send + 'static {
    /// Name, paper, parameters.
    const INFO: Info;
    /// Log blocks without which it cannot work.
    const LEAST_LOG: u32;
    /// A block is one NAND block. Consecutive pages then lie in blocks on different parallel units, and the
    /// log is what [`Policy::share_out`] says.
    const NARROW: bool = false;
    /// Whether it wants to know of log blocks whose last valid page went ([`Core::take_emptied`]).
    const WATCHES: bool = false;

    /// From the parameters; `layout` says how large everything is.
    fn new(config: &Config, layout: &Layout) -> Result<Self, ConfigError>;

    /// Blocks that consecutive pages lie in by turns, of so many parallel units: for narrow blocks.
    fn width(_config: &Config, parallel_units: u32) -> Result<u32, ConfigError> {
        Ok(parallel_units)
    }

    /// What the spare blocks are for: for narrow blocks.
    fn share_out(_config: &Config, _layout: &Layout, spare: u32) -> Shares {
        Shares { log: spare, merging: 0, translation: 0 }
    }

    /// Takes over the log blocks that recovery found, oldest first.
    fn restore<N: Nand>(&mut self, core: &mut Core, flash: &Flash<N>, logs: Vec<u32>);

    /// Ends the opening of a device that recovery has left with everything in memory.
    fn opened<N: Nand>(&mut self, _core: &mut Core, _flash: &mut Flash<N>) -> Result<(), Fault> {
        Ok(())
    }

    /// Finds out where `lpn` is, the first of `rest` pages of a request that are read. `false`: flash had to
    /// be read for that.
    #[inline]
    fn look_up<N: Nand>(
        &mut self,
        _core: &mut Core,
        _flash: &mut Flash<N>,
        _lpn: Lpn,
        _rest: u32,
        at: Done,
    ) -> Result<(bool, Done), Fault> {
        Ok((true, at))
    }

    /// Writes a page; makes room first.
    fn write<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        page: HostPage,
        at: Done,
    ) -> Result<Done, Fault>;

    /// Empties one log block and erases it. Asked for when there are more than there may be: a power cut can
    /// leave that.
    fn shrink<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault>;

    /// The host is about to trim pages.
    fn trims(&mut self, _core: &Core, _counters: &mut Counters, _first: Lpn, _pages: u32) {}

    /// The host has trimmed pages.
    fn trimmed(&mut self, _core: &Core, _first: Lpn, _pages: u32) {}

    /// Whether a merge of a logical block is under way, so that its data block need not be moved.
    fn is_merging(&self, _logical: u32) -> bool {
        false
    }

    /// As [`Scheme::idle`].
    fn idle<N: Nand>(&mut self, _core: &mut Core, _flash: &mut Flash<N>) -> Result<Option<Done>, Fault> {
        Ok(None)
    }

    /// Calls `each` for every log block.
    fn log_blocks(&self, each: &mut dyn FnMut(u32));

    /// Bytes of the log's mapping and of the paper's own structures, at the greatest they can be.
    fn memory(&self, layout: &Layout) -> Vec<(&'static str, u64)>;

    /// The same as they are now, where they differ from the greatest that they can be.
    fn memory_now(&self, core: &Core) -> Vec<(&'static str, u64)> {
        parts(self, &core.layout)
    }

    /// Checks the structures against each other.
    fn check<N: Nand>(&self, _core: &Core, _flash: &Flash<N>) -> Result<(), Breach> {
        Ok(())
    }
}

/// Block map, log map and pool: the state of any log-block FTL.
#[derive(Clone, Debug)]
pub struct Core {
    /// Blocks in use and free NAND blocks.
    pub pool: Pool,
    layout: Layout,
    exported_pages: u32,
    /// By logical block: the block that holds its pages in place.
    data: Vec<u32>,
    /// By block.
    roles: Vec<Role>,
    /// By logical block and offset: the page in the log that holds that page. So what a merge wants to know
    /// of a logical block lies side by side.
    log: Vec<u32>,
    /// By PPN: the LPN, for pages of log blocks.
    lpns: Vec<u32>,
    log_count: u32,
    journal: Journal,
    /// The copies of the merge under way.
    staged: Vec<(Lpn, Ppn)>,
    /// Log blocks whose last valid page went, for policies that want to know.
    emptied: Vec<u32>,
    watches: bool,
}

impl Core {
    fn new(pool: Pool, layout: Layout, exported_pages: u32, page_bytes: u32) -> Core {
        let pages = pool.geometry().pages() as usize;
        Core {
            data: vec![NONE; layout.logical_blocks as usize],
            roles: vec![Role::Unused; pool.numbers() as usize],
            log: vec![NONE; layout.logical_blocks as usize * layout.block_pages as usize],
            lpns: vec![NONE; pages],
            log_count: 0,
            journal: Journal::new(page_bytes, &layout),
            staged: Vec::with_capacity(layout.block_pages as usize),
            emptied: Vec::with_capacity(pool.numbers() as usize),
            watches: false,
            pool,
            layout,
            exported_pages,
        }
    }

    /// Sizes of blocks, of the log and of what is kept beside it, in pages and blocks.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Logical block and offset of a page.
    #[inline]
    pub fn place(&self, lpn: Lpn) -> (u32, u32) {
        self.layout.place(lpn)
    }

    /// The page at `offset` of a logical block; `None` past the end of the device.
    #[inline]
    pub(crate) fn lpn(&self, logical: u32, offset: u32) -> Option<Lpn> {
        let lpn = self.layout.lpn(logical, offset);
        (lpn < self.exported_pages).then_some(Lpn(lpn))
    }

    /// The block that holds a logical block's pages in place, if there is one.
    pub fn data_block(&self, logical: u32) -> Option<u32> {
        let block = self.data[logical as usize];
        (block != NONE).then_some(block)
    }

    /// Where the log holds `lpn`, if it does.
    #[inline]
    pub fn log_page(&self, lpn: Lpn) -> Option<Ppn> {
        let page = self.log[self.slot(lpn)];
        (page != NONE).then_some(Ppn(page))
    }

    /// Where [`Core::log`] has a page.
    #[inline]
    fn slot(&self, lpn: Lpn) -> usize {
        let (logical, offset) = self.place(lpn);
        self.slot_at(logical, offset)
    }

    #[inline]
    fn slot_at(&self, logical: u32, offset: u32) -> usize {
        logical as usize * self.layout.block_pages as usize + offset as usize
    }

    /// Where the newest version of `lpn` is: in the log, else in its data block.
    #[inline]
    pub fn lookup<N: Nand>(&self, flash: &Flash<N>, lpn: Lpn) -> Option<Ppn> {
        let (logical, offset) = self.place(lpn);
        self.lookup_at(flash, logical, offset)
    }

    /// The same of the page at `offset` of a logical block.
    #[inline]
    fn lookup_at<N: Nand>(&self, flash: &Flash<N>, logical: u32, offset: u32) -> Option<Ppn> {
        let page = self.log[self.slot_at(logical, offset)];
        if page != NONE {
            return Some(Ppn(page));
        }
        self.valid_page(flash, self.data_block(logical)?, offset)
    }

    /// The page at `position` of a block, if it is valid.
    #[inline]
    fn valid_page<N: Nand>(&self, flash: &Flash<N>, block: u32, position: u32) -> Option<Ppn> {
        self.pool.page_if_there(block, position).filter(|&page| flash.space.is_valid(page))
    }

    /// Log blocks that there may be now: fewer than configured once bad blocks have used up the spare ones.
    /// The block for levelling goes before the policy can work no more.
    pub fn log_limit(&self) -> u32 {
        let Layout { logical_blocks, metadata_blocks, merging, translation, leveling, least_log, .. } =
            self.layout;
        let others = logical_blocks + metadata_blocks + merging + translation + RESERVE;
        let most = self.pool.total_blocks().saturating_sub(others);
        self.layout.log_blocks.min(most.saturating_sub(leveling).max(most.min(least_log)))
    }

    /// The fault of an operation for which so many free blocks are missing.
    pub(crate) fn no_space<N: Nand>(&self, flash: &mut Flash<N>, missing: u32) -> Fault {
        let free = self.pool.free_blocks();
        flash.no_room(free, free + missing)
    }

    /// Log blocks in use.
    pub fn log_count(&self) -> u32 {
        self.log_count
    }

    /// The page programmed at `ppn` holds `lpn` from now on, in the log or in place.
    pub(crate) fn record<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: Lpn, ppn: Ppn, in_log: bool) {
        let (logical, offset) = self.place(lpn);
        let block = self.pool.place_of(ppn).0;
        self.forget_at(flash, logical, offset, block);
        self.pool.validate_in(flash, block, ppn);
        if in_log {
            let slot = self.slot_at(logical, offset);
            self.log[slot] = ppn.0;
            self.lpns[ppn.0 as usize] = lpn.0;
            prefetch_index(&self.lpns, ppn.0 as usize + self.pool.stride());
        }
    }

    /// Unmaps `lpn`. Returns whether it was mapped.
    pub(crate) fn forget<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: Lpn) -> bool {
        let (logical, offset) = self.place(lpn);
        self.forget_at(flash, logical, offset, NONE)
    }

    /// Unmaps the page at an offset, which a page of the block `by` has superseded; [`NONE`]: none has.
    fn forget_at<N: Nand>(&mut self, flash: &mut Flash<N>, logical: u32, offset: u32, by: u32) -> bool {
        let slot = self.slot_at(logical, offset);
        let (block, old) = match std::mem::replace(&mut self.log[slot], NONE) {
            NONE => {
                let Some(home) = self.data_block(logical) else { return false };
                let Some(old) = self.valid_page(flash, home, offset) else { return false };
                (home, old)
            }
            old => (self.pool.place_of(Ppn(old)).0, Ppn(old)),
        };
        self.pool.invalidate_in(flash, block, old, by);
        if self.watches && self.pool.valid(block) == 0 && self.is_log(block) {
            self.emptied.push(block);
        }
        true
    }

    /// Log blocks whose last valid page went since this was asked last.
    pub(crate) fn take_emptied(&mut self) -> Option<u32> {
        self.emptied.pop()
    }

    /// The LPN of the valid page at `position` of a log block.
    pub(crate) fn log_lpn<N: Nand>(&self, flash: &Flash<N>, block: u32, position: u32) -> Option<Lpn> {
        self.valid_page(flash, block, position).map(|ppn| Lpn(self.lpns[ppn.0 as usize]))
    }

    /// Opens a block for translation pages on a parallel unit.
    pub(crate) fn open_translation<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        unit: u32,
    ) -> Result<u32, Fault> {
        let block = self.pool.open_on(flash, false, unit)?;
        self.roles[block as usize] = Role::Metadata;
        Ok(block)
    }

    /// Opens a log block.
    pub(crate) fn open_log<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<u32, Fault> {
        let block = self.pool.open(flash, true)?;
        self.roles[block as usize] = Role::Log;
        self.log_count += 1;
        Ok(block)
    }

    /// Programs what the host writes at the next page of `block`. `None` when that failed, and the block is
    /// closed.
    pub(crate) fn write_next<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        block: u32,
        lpn: Lpn,
        at: Done,
    ) -> Result<Option<Done>, Fault> {
        let content = Content::version(flash.next_version());
        let (kind, cause) = (PageKind::Data, Cause::Host);
        let placed = self.pool.place(flash, block, kind, lpn.0, content, Source::Host, cause, at)?;
        let in_log = self.roles[block as usize] == Role::Log;
        Ok(placed.map(|(ppn, done)| {
            self.record(flash, lpn, ppn, in_log);
            done
        }))
    }

    /// Programs what the host writes anywhere in the log block `block`. `None` when it is full.
    pub(crate) fn append<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        block: u32,
        lpn: Lpn,
        at: Done,
    ) -> Result<Option<Done>, Fault> {
        let content = Content::version(flash.next_version());
        let (kind, cause) = (PageKind::Data, Cause::Host);
        let placed = self.pool.append(flash, block, kind, lpn.0, content, Source::Host, cause, at)?;
        Ok(placed.map(|(ppn, done)| {
            self.record(flash, lpn, ppn, true);
            done
        }))
    }

    /// Writes a page in place if its offset is the next free page of its data block, or the first of a
    /// logical block that has none yet. `None`: it has to go to the log.
    pub(crate) fn write_in_place<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        at: Done,
    ) -> Result<Option<Done>, Fault> {
        let (logical, offset) = self.place(lpn);
        let block = match self.data_block(logical) {
            Some(block) if self.pool.next(block) == offset => block,
            None if offset == 0 => {
                let block = self.pool.open_on(flash, true, self.layout.unit_of(logical))?;
                self.roles[block as usize] = Role::Data(logical);
                self.data[logical as usize] = block;
                block
            }
            _ => return Ok(None),
        };
        self.write_next(flash, block, lpn, at)
    }

    /// Erases a block in which nothing is valid. Trims are made durable first: else a cut could bring back a
    /// version older than one that only this block still held.
    pub(crate) fn release<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        block: u32,
        cause: Cause,
    ) -> Result<Done, Fault> {
        self.write_pending(flash)?;
        let role = std::mem::replace(&mut self.roles[block as usize], Role::Unused);
        let after = match self.pool.superseded(block).filter(|_| role != Role::Metadata) {
            Some(superseded) => flash.join(superseded, self.journal.written),
            None => flash.settle(),
        };
        match role {
            Role::Log => self.log_count -= 1,
            Role::Data(logical) if self.data[logical as usize] == block => {
                self.data[logical as usize] = NONE;
            }
            _ => {}
        }
        self.pool.erase(flash, block, cause, after)
    }

    /// Whether `block` is a log block in which nothing is valid.
    pub(crate) fn is_dead_log(&self, block: u32) -> bool {
        self.is_log(block) && self.pool.valid(block) == 0
    }

    fn is_log(&self, block: u32) -> bool {
        self.roles[block as usize] == Role::Log
    }
}

/// A log-block FTL with policy `P`.
#[derive(Clone, Debug)]
pub struct LogBlock<P> {
    core: Core,
    policy: P,
    leveling: Leveling,
    /// The request under way: its first page, its pages, and how many of them are still to come.
    base: Lpn,
    size: u32,
    left: u32,
}

impl<P: Policy> LogBlock<P> {
    /// Block map, log map and pool, to look at.
    #[cfg(test)]
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// Block map, log map and pool, and the policy, for tests that take a step by hand.
    #[cfg(test)]
    pub(crate) fn parts_mut(&mut self) -> (&mut Core, &mut P) {
        (&mut self.core, &mut self.policy)
    }

    /// The pages of a request come one after the other with `rest` counting down: a page that does not go on
    /// where the last one ended begins another request.
    fn page(&mut self, lpn: Lpn, rest: u32) -> HostPage {
        let goes_on = self.left == rest && lpn.0 == self.base.0 + (self.size - rest);
        if !goes_on || self.left == 0 {
            (self.base, self.size) = (lpn, rest);
        }
        self.left = rest - 1;
        HostPage { lpn, rest, base: self.base, size: self.size }
    }
}

impl<P: Policy> Scheme for LogBlock<P> {
    const INFO: Info = P::INFO;

    fn open<N: Nand>(flash: &mut Flash<N>, config: &Config) -> Result<Self, OpenError> {
        config.check_parameters(&P::INFO)?;
        let mut pool = Pool::new(flash.nand(), P::NARROW);
        let page_bytes = flash.nand().geometry().page_bytes;
        let layout = layout_of::<P>(usable_blocks(&pool, flash), &pool, page_bytes, config)?;
        let mut policy = P::new(config, &layout)?;
        check_memory(&policy, &layout, config)?;
        pool.keep_reserve(RESERVE);
        if config.wear_gap > 0 {
            pool.level_wear();
        }
        let mut core = Core::new(pool, layout, config.exported_pages, page_bytes);
        let logs = recover::recover(flash, &mut core)?;
        core.watches = P::WATCHES;
        policy.restore(&mut core, flash, logs);
        policy.opened(&mut core, flash)?;
        let leveling = Leveling::new(config.wear_gap, all_blocks(&core.pool));
        Ok(LogBlock { core, policy, leveling, base: Lpn(0), size: 0, left: 0 })
    }

    #[inline]
    fn read<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        rest: u32,
        at: Done,
    ) -> Result<(Option<Oob>, Done), Fault> {
        let (is_hit, at) = self.policy.look_up(&mut self.core, flash, lpn, rest, at)?;
        flash.counters.lookups += 1;
        flash.counters.cmt_hits += u64::from(is_hit);
        match self.core.lookup(flash, lpn) {
            Some(ppn) => {
                self.core.pool.reads(ppn);
                let (oob, done) = flash.read_data(ppn, lpn, Cause::Host, at)?;
                Ok((Some(oob), done))
            }
            None => Ok((None, at)),
        }
    }

    #[inline]
    fn write<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: Lpn, rest: u32, at: Done) -> Result<Done, Fault> {
        flash.counters.lookups += 1;
        flash.counters.cmt_hits += 1;
        let page = self.page(lpn, rest);
        if self.leveling.is_on() {
            let policy = &self.policy;
            let is_merging = |logical| policy.is_merging(logical);
            self.core.level_wear(flash, &mut self.leveling, is_merging)?;
        }
        while page.is_first() && self.core.log_count() > self.core.log_limit() {
            self.policy.shrink(&mut self.core, flash)?;
        }
        while self.core.pool.free_blocks() < LEAST_FREE && self.core.log_count() > 0 {
            self.policy.shrink(&mut self.core, flash)?;
        }
        let missing = P::LEAST_LOG.saturating_sub(self.core.log_limit());
        let missing = missing.max(LEAST_FREE.saturating_sub(self.core.pool.free_blocks()));
        if missing > 0 {
            return Err(self.core.no_space(flash, missing));
        }
        self.policy.write(&mut self.core, flash, page, at)
    }

    fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        first: Lpn,
        pages: u32,
        at: Done,
    ) -> Result<Done, Fault> {
        self.policy.trims(&self.core, &mut flash.counters, first, pages);
        let trimmed = self.core.trim(flash, first, pages, at);
        self.policy.trimmed(&self.core, first, pages);
        trimmed
    }

    fn flush<N: Nand>(&mut self, flash: &mut Flash<N>, at: Done) -> Result<Done, Fault> {
        self.core.write_pending(flash)?;
        let settled = flash.settle();
        Ok(flash.join(settled, at))
    }

    fn idle<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>, Fault> {
        self.policy.idle(&mut self.core, flash)
    }

    fn power_off<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done, Fault> {
        match self.core.checkpoint(flash) {
            // Without room for a checkpoint the next start searches what was written since the last one.
            Err(Fault::WornOut { .. }) if self.core.is_journal_written() => Ok(flash.settle()),
            done => done,
        }
    }

    fn mapping<N: Nand>(&self, flash: &Flash<N>, each: &mut dyn FnMut(Lpn, Ppn)) {
        self.mapped_in(flash, Lpn(0), self.core.exported_pages, each);
    }

    fn mapped_in<N: Nand>(&self, flash: &Flash<N>, first: Lpn, pages: u32, each: &mut dyn FnMut(Lpn, Ppn)) {
        for lpn in (first.0..first.0 + pages).map(Lpn) {
            if let Some(ppn) = self.core.lookup(flash, lpn) {
                each(lpn, ppn);
            }
        }
    }

    fn check<N: Nand>(&self, flash: &Flash<N>) -> Result<(), Breach> {
        self.core.check(flash)?;
        let mut listed = vec![0u8; self.core.pool.numbers() as usize];
        self.policy.log_blocks(&mut |block| listed[block as usize] += 1);
        let wrong = (0..).zip(&listed).find(|&(block, &times)| times != u8::from(self.core.is_log(block)));
        if let Some((block, times)) = wrong {
            let role = self.core.roles[block as usize];
            return Err(format!("the scheme lists block {block}, which is {role:?}, {times} times").into());
        }
        self.policy.check(&self.core, flash)
    }

    fn memory(&self) -> Memory {
        Memory { parts: self.policy.memory_now(&self.core) }
    }

    #[inline]
    fn expect<N: Nand>(&self, flash: &Flash<N>, lpn: Lpn, coming: Coming) {
        self.core.expect(flash, lpn, coming == Coming::Read);
    }
}

fn parts<P: Policy>(policy: &P, layout: &Layout) -> Vec<(&'static str, u64)> {
    if P::NARROW {
        return policy.memory(layout);
    }
    // An entry: number of the block and, in the spare bits, its next page.
    let mut parts = vec![("block map", 4 * u64::from(layout.logical_blocks))];
    if layout.units > 1 {
        let blocks = layout.logical_blocks + layout.log_blocks;
        parts.push(("NAND blocks of each block", 4 * u64::from(blocks) * u64::from(layout.units)));
    }
    parts.extend(policy.memory(layout));
    parts
}

fn check_memory<P: Policy>(policy: &P, layout: &Layout, config: &Config) -> Result<(), ConfigError> {
    let needed: u64 = parts(policy, layout).iter().map(|&(_, bytes)| bytes).sum();
    if needed > config.cache_bytes {
        return Err(ConfigError(format!(
            "scheme {}: its mapping needs {needed} bytes of memory for {} logical blocks and {} log blocks of {} \
             pages, and the cache has {}; give it a cache of at least {needed} bytes, or a smaller log",
            P::INFO.name, layout.logical_blocks, layout.log_blocks, layout.block_pages, config.cache_bytes
        )));
    }
    Ok(())
}

impl Core {
    /// Checks block map, log map and pool against each other.
    fn check<N: Nand>(&self, flash: &Flash<N>) -> Result<(), Breach> {
        self.pool.check(flash)?;
        let mut mapped = 0;
        for lpn in (0..self.exported_pages).map(Lpn) {
            let Some(ppn) = self.lookup(flash, lpn) else { continue };
            mapped += 1;
            let (block, position) = self.pool.place_of(ppn);
            if !flash.space.is_valid(ppn) {
                return Err(format!("LPN {} maps to PPN {}, which is not valid", lpn.0, ppn.0).into());
            }
            let right = match self.roles[block as usize] {
                Role::Data(logical) => self.place(lpn) == (logical, position),
                Role::Log => self.lpns[ppn.0 as usize] == lpn.0 && self.log_page(lpn) == Some(ppn),
                _ => false,
            };
            if !right {
                let role = self.roles[block as usize];
                return Err(
                    format!("LPN {} maps to page {position} of a block that is {role:?}", lpn.0).into()
                );
            }
        }
        let valid = flash.space.valid_pages(PageKind::Data);
        if valid != mapped {
            return Err(format!("{valid} data pages are valid but {mapped} are mapped").into());
        }
        let mut logs = 0;
        for block in 0..self.pool.numbers() {
            let role = self.roles[block as usize];
            logs += u32::from(role == Role::Log);
            if (role == Role::Unused) == self.pool.is_used(block) {
                return Err(format!("block {block} is {role:?} but the pool says otherwise").into());
            }
            if matches!(role, Role::Data(logical) if self.data[logical as usize] != block) {
                return Err(format!("block {block} is {role:?} but the block map does not lead to it").into());
            }
        }
        if logs != self.log_count {
            return Err(format!("{logs} log blocks, but {} are counted", self.log_count).into());
        }
        Ok(())
    }
}
