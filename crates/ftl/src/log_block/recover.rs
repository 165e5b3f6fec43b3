//! Recovery of a log-block FTL, after an orderly power-off, a power cut, or on a fresh array.
//!
//! | step | what | flash reads |
//! | --- | --- | --- |
//! | classify | first readable page of every NAND block: free, data, metadata, and the block it belonged to | one a NAND block |
//! | checkpoint | metadata pages: newest complete checkpoint, trims after it | metadata pages |
//! | search | OOB of every page programmed after the checkpoint | one a page |
//! | choose | the newest copy of each page | - |
//! | roles | data block of each logical block; the rest is log | - |
//! | erase | blocks in which nothing is valid | - |
//!
//! **Which of two equal copies.** Both hold the same. The older one is chosen, so that a merge that was under
//! way leaves nothing but a block to erase, and recovery needs no room; unless the older block was being
//! erased already (then the merge was complete) or is bad.
//!
//! **Which block is the data block.** A block whose valid pages all stand at their offsets in one logical
//! block can be its data block; the one with most valid pages is. Any choice would be right: the others are
//! log blocks.

use super::journal::{self, Known, Page};
use super::{Core, Role};
use crate::checkpoint::{Parts, Place, Trim};
use crate::counters::Cause;
use crate::flash::Flash;
use crate::log_block::pool::NONE;
use nand::{Done, Fault, Lpn, Nand, Oob, PageKind, Pbn, Ppn};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A NAND block in use and where it stood.
#[derive(Clone, Copy)]
struct Found {
    member: Pbn,
    kind: PageKind,
    opening: u32,
    position: u32,
}

/// A copy of a page that the search found.
#[derive(Clone, Copy)]
struct Copy {
    lpn: u32,
    version: u64,
    ppn: Ppn,
    block: u32,
}

#[derive(Default)]
struct Checkpoint {
    version: u64,
    openings: u32,
    blocks: Vec<Known>,
}

struct Recovery<'a, N> {
    flash: &'a mut Flash<N>,
    core: &'a mut Core,
    found: Vec<Found>,
    checkpoint: Checkpoint,
    trims: Vec<Trim>,
    copies: Vec<Copy>,
    /// By opening of a block that the checkpoint knows: the first page that is searched.
    searched_from: BTreeMap<u32, u32>,
    version: u64,
    metadata_version: u64,
    at: Done,
}

enum Scanned {
    Erased,
    Torn,
    Page(Oob),
}

/// Rebuilds block map, log map and pool from what the array holds. Returns the log blocks, oldest first.
pub(super) fn recover<N: Nand>(flash: &mut Flash<N>, core: &mut Core) -> Result<Vec<u32>, Fault> {
    flash.space.lent(core.pool.free_superblocks());
    let mut recovery = Recovery {
        flash,
        core,
        found: Vec::new(),
        checkpoint: Checkpoint::default(),
        trims: Vec::new(),
        copies: Vec::new(),
        searched_from: BTreeMap::new(),
        version: 0,
        metadata_version: 0,
        at: Done::READY,
    };
    let unknown = recovery.classify()?;
    recovery.read_checkpoint()?;
    let blocks = recovery.adopt();
    recovery.search(&blocks)?;
    recovery.choose(&blocks)?;
    recovery.flash.resume_versions(recovery.version, recovery.metadata_version);
    let logs = recovery.roles(&blocks)?;
    recovery.erase_unknown(unknown)?;
    recovery.core.pool.vary_turns();
    Ok(logs)
}

impl<N: Nand> Recovery<'_, N> {
    fn scan(&mut self, ppn: Ppn) -> Result<Scanned, Fault> {
        match self.flash.scan(ppn, Cause::Recovery, Done::READY) {
            Ok((oob, done)) => {
                self.at = self.flash.join(self.at, done);
                Ok(oob.map_or(Scanned::Erased, Scanned::Page))
            }
            Err(Fault::Uncorrectable { done, .. }) => {
                self.at = self.flash.join(self.at, done);
                Ok(Scanned::Torn)
            }
            Err(fault) => Err(fault),
        }
    }

    /// The OOB of a page that can be read.
    fn page(&mut self, ppn: Ppn) -> Result<Option<Oob>, Fault> {
        let (member, row) = self.core.pool.geometry().block_of(ppn);
        if row >= self.flash.nand().written(member) {
            return Ok(None);
        }
        Ok(match self.scan(ppn)? {
            Scanned::Page(oob) => Some(oob),
            Scanned::Torn | Scanned::Erased => None,
        })
    }

    /// What is known of a NAND block: its first page, or the first after pages that were torn.
    fn first_readable(&mut self, member: Pbn) -> Result<Scanned, Fault> {
        let pages = self.core.pool.geometry().pages_per_block;
        for row in 0..pages {
            let ppn = self.core.pool.geometry().page_in(member, row);
            match self.scan(ppn)? {
                Scanned::Torn => {}
                Scanned::Erased if row > 0 => break,
                known => return Ok(known),
            }
        }
        Ok(Scanned::Torn)
    }

    /// Looks at every NAND block, bad ones too: one that was retired may hold pages that were being copied.
    /// Returns those that must be erased and hold nothing readable.
    fn classify(&mut self) -> Result<Vec<Pbn>, Fault> {
        let units = self.core.pool.units();
        let mut unknown = Vec::new();
        for member in (0..self.core.pool.geometry().blocks()).map(Pbn) {
            match self.first_readable(member)? {
                Scanned::Erased => {}
                Scanned::Torn => unknown.push(member),
                Scanned::Page(Oob { kind, epoch, .. }) => {
                    let (opening, position) = (epoch / units, epoch % units);
                    self.found.push(Found { member, kind, opening, position });
                }
            }
        }
        self.found.sort_unstable_by_key(|f| (f.opening, f.position));
        unknown.retain(|&member| !self.flash.nand().is_bad(member));
        Ok(unknown)
    }

    fn read_checkpoint(&mut self) -> Result<(), Fault> {
        let units = self.core.pool.units();
        let metadata: Vec<Found> =
            self.found.iter().filter(|f| f.kind == PageKind::Metadata).copied().collect();
        let mut parts = Parts::new();
        let mut trims: Vec<Trim> = Vec::new();
        for opened in metadata.chunk_by(|a, b| a.opening == b.opening) {
            let geometry = self.core.pool.geometry().clone();
            for position in 0..self.core.layout.block_pages {
                let Some(found) = opened.iter().find(|f| f.position == position % units) else { continue };
                let ppn = geometry.page_in(found.member, position / units);
                let Some(oob) = self.page(ppn)? else { continue };
                self.metadata_version = self.metadata_version.max(oob.version);
                let read = self.flash.read_metadata(ppn, PageKind::Metadata, Cause::Recovery, self.at);
                // A page that a cut tore has no OOB. Without one that has, trims would be taken back.
                self.at = read?;
                match journal::parse(self.flash.buffer()) {
                    Some(Page::Journal(records)) => trims.extend(records),
                    Some(part) => self.take_part(&mut parts, oob.version, part),
                    None => {}
                }
            }
        }
        trims.retain(|trim| trim.version > self.checkpoint.version);
        self.version = trims.iter().map(|trim| trim.version).fold(self.checkpoint.version, u64::max);
        self.trims = trims;
        Ok(())
    }

    /// Adds a page of a checkpoint, written as metadata number `number`; when all its pages are there it is
    /// the newest complete one, because metadata is read in the order it was written.
    fn take_part(&mut self, parts: &mut Parts<Vec<u32>>, number: u64, part: Page) {
        let Page::Part { page, pages, version, openings, words } = part else { return };
        let Some(all) = parts.take(Place { page, pages, version, number }, words) else { return };
        if let Some(blocks) = journal::blocks_of(&all.concat(), &self.core.layout) {
            self.checkpoint = Checkpoint { version, openings, blocks };
        }
    }

    /// Takes over the blocks in use; the others, left from before the checkpoint, are garbage and erased in
    /// the end. Returns the blocks by their openings.
    fn adopt(&mut self) -> BTreeMap<u32, u32> {
        let Checkpoint { openings, ref blocks, .. } = self.checkpoint;
        let mut known: Vec<u32> = blocks.iter().map(|known| known.opening).collect();
        known.sort_unstable();
        let mut adopted = BTreeMap::new();
        for &Found { member, kind, opening, position } in &self.found {
            let pool = &mut self.core.pool;
            if opening <= openings && (kind == PageKind::Metadata || known.binary_search(&opening).is_err()) {
                continue;
            }
            let number = pool.adopt(self.flash, adopted.get(&opening).copied(), opening, position, member);
            adopted.insert(opening, number);
            if kind == PageKind::Metadata {
                self.core.roles[number as usize] = Role::Metadata;
                if self.core.journal.blocks.last() != Some(&number) {
                    self.core.journal.blocks.push(number);
                }
            }
        }
        self.core.pool.resume_openings(openings);
        adopted.retain(|_, &mut block| self.core.roles[block as usize] != Role::Metadata);
        adopted
    }

    /// Looks at every page programmed after the checkpoint.
    fn search(&mut self, blocks: &BTreeMap<u32, u32>) -> Result<(), Fault> {
        self.searched_from.extend(self.checkpoint.blocks.iter().map(|known| (known.opening, known.next)));
        for (opening, &block) in blocks {
            let first = self.searched_from.get(opening).copied().unwrap_or(0);
            for position in first..self.core.layout.block_pages {
                let Some(ppn) = self.core.pool.page_if_there(block, position) else { continue };
                let Some(oob) = self.page(ppn)? else { continue };
                if oob.kind == PageKind::Data && oob.id < self.core.exported_pages {
                    self.version = self.version.max(oob.version);
                    self.copies.push(Copy { lpn: oob.id, version: oob.version, ppn, block });
                }
            }
        }
        let (flash, pool) = (&*self.flash, &self.core.pool);
        self.copies.sort_by_cached_key(|c| {
            let (member, _) = pool.geometry().block_of(c.ppn);
            let whole = !flash.nand().is_bad(member) && !pool.is_damaged(flash, c.block);
            (c.lpn, Reverse((c.version, whole)), pool.opening(c.block), c.ppn.0)
        });
        self.copies.dedup_by_key(|c| c.lpn);
        Ok(())
    }

    /// Where the newest version of each page is: in the log map for now, whatever block it lies in.
    fn choose(&mut self, blocks: &BTreeMap<u32, u32>) -> Result<(), Fault> {
        let Checkpoint { version, blocks: known, .. } = std::mem::take(&mut self.checkpoint);
        let mut was_mapped = vec![version == 0; self.core.exported_pages as usize];
        for &(_, lpn) in known.iter().flat_map(|known| &known.pages) {
            if let Some(was_mapped) = was_mapped.get_mut(lpn as usize) {
                *was_mapped = true;
            }
        }
        // What the checkpoint says, if the block is still there; a block that was being erased is not.
        for known in &known {
            let Some(&block) = blocks.get(&known.opening) else { continue };
            let damaged = self.core.pool.is_damaged(self.flash, block);
            for &(position, lpn) in &known.pages {
                let newer = self.copies.binary_search_by_key(&lpn, |c| c.lpn).ok().map(|i| self.copies[i]);
                let Some(ppn) = self.core.pool.page_if_there(block, position) else { continue };
                let (member, _) = self.core.pool.geometry().block_of(ppn);
                let leaves = damaged || self.flash.nand().is_bad(member);
                let superseded = match newer {
                    Some(copy) if copy.version > version => true,
                    // A copy takes the place of what leaves, but not one that was made of an older version,
                    // for a merge or a move that had not ended.
                    Some(copy) if leaves => self.page(ppn)?.is_none_or(|oob| oob.version <= copy.version),
                    _ => false,
                };
                if !superseded && lpn < self.core.exported_pages {
                    let slot = self.core.slot(Lpn(lpn));
                    self.core.log[slot] = ppn.0;
                }
            }
        }
        for copy in &self.copies {
            let slot = self.core.slot(Lpn(copy.lpn));
            let slot = &mut self.core.log[slot];
            // A version that the checkpoint knew is a copy made later: it counts only when the original is
            // gone. Or it was made before, in a merge under way, of a page that was trimmed before.
            if *slot == NONE && (copy.version > version || was_mapped[copy.lpn as usize]) {
                *slot = copy.ppn.0;
            }
        }
        let newest = |copies: &[Copy], lpn: u32| {
            let at = copies.binary_search_by_key(&lpn, |c| c.lpn).ok();
            at.map_or(0, |at| copies[at].version)
        };
        for trim in std::mem::take(&mut self.trims) {
            let end = (trim.first.0 + trim.pages).min(self.core.exported_pages);
            for lpn in trim.first.0..end {
                if newest(&self.copies, lpn) < trim.version {
                    let slot = self.core.slot(Lpn(lpn));
                    self.core.log[slot] = NONE;
                }
            }
        }
        Ok(())
    }

    /// Marks valid what is mapped, finds out what each block is, and erases those that hold nothing.
    fn roles(&mut self, blocks: &BTreeMap<u32, u32>) -> Result<Vec<u32>, Fault> {
        for lpn in 0..self.core.exported_pages {
            if let Some(ppn) = self.core.log_page(Lpn(lpn)) {
                self.core.pool.validate(self.flash, ppn);
                self.core.lpns[ppn.0 as usize] = lpn;
            }
        }
        let mut best: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for &block in blocks.values() {
            if let Some(logical) = self.core.in_place_of(self.flash, block) {
                let valid = self.core.pool.valid(block);
                let other = best.get(&logical).map_or(0, |&(valid, _)| valid);
                if valid > other {
                    best.insert(logical, (valid, block));
                }
            }
        }
        for (logical, (_, block)) in best {
            self.core.roles[block as usize] = Role::Data(logical);
            self.core.data[logical as usize] = block;
            for position in 0..self.core.layout.block_pages {
                if let Some(lpn) = self.core.log_lpn(self.flash, block, position) {
                    let slot = self.core.slot(lpn);
                    self.core.log[slot] = NONE;
                }
            }
        }
        let mut logs = Vec::new();
        for (opening, &block) in blocks {
            if self.core.pool.valid(block) == 0 {
                let settled = self.flash.settle();
                let after = self.flash.join(settled, self.at);
                self.at = self.core.pool.erase(self.flash, block, Cause::Recovery, after)?;
                continue;
            }
            self.core.pool.reopen(self.flash, block);
            // A page written in front of the place from which a block is searched would be lost at the next
            // cut: one that the checkpoint knows as closed, after a program failed in it, stays closed.
            if self.searched_from.get(opening).is_some_and(|&from| self.core.pool.next(block) < from) {
                self.core.pool.close(block);
            }
            if self.core.roles[block as usize] == Role::Unused {
                self.core.roles[block as usize] = Role::Log;
                self.core.log_count += 1;
                logs.push(block);
            }
        }
        Ok(logs)
    }

    /// Erases the NAND blocks that belong to no block and are not free: torn ones, garbage, obsolete
    /// metadata.
    fn erase_unknown(&mut self, mut unknown: Vec<Pbn>) -> Result<(), Fault> {
        let left = self.found.iter().map(|found| found.member);
        unknown.extend(left.filter(|&member| {
            !self.flash.nand().is_bad(member)
                && !self.core.pool.is_in_block(member)
                && self.flash.nand().written(member) > 0
        }));
        for member in unknown {
            self.at = self.core.pool.clear(self.flash, member, Cause::Recovery, self.at)?;
        }
        self.flash.space.lent(self.core.pool.free_superblocks());
        Ok(())
    }
}

impl Core {
    /// The logical block for which every valid page of `block` stands at its offset; `None` when they do not,
    /// or there is none.
    pub(super) fn in_place_of<N: Nand>(&self, flash: &Flash<N>, block: u32) -> Option<u32> {
        let mut of = None;
        for position in 0..self.layout.block_pages {
            let Some(lpn) = self.log_lpn(flash, block, position) else { continue };
            let (logical, offset) = self.place(lpn);
            if offset != position || of.is_some_and(|of| of != logical) {
                return None;
            }
            of = Some(logical);
        }
        of
    }
}
