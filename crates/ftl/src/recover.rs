//! Recovery of a page-level FTL, after an orderly power-off, a power cut, or on a fresh array.
//!
//! | step | what | flash reads |
//! | --- | --- | --- |
//! | classify | first readable page of every block: free, data, translation, metadata | one a block |
//! | checkpoint | metadata pages: newest complete checkpoint, trims after it | metadata pages |
//! | search | OOB of every page programmed after the checkpoint | one a page |
//! | adopt | superblocks in use; those not full become frontiers again | - |
//! | restore | every translation page: valid pages, and what the search found newer | one a translation page |
//! | update | translation pages that are behind are written | one, and one program, each |
//! | erase | metadata that the newest checkpoint made obsolete | - |
//!
//! Why it is right: at a checkpoint every translation page is current. A page written or moved later is found by the
//! search, and the greatest version of an LPN is its newest content (copies carry the version of what they copy). A trim
//! later than the checkpoint is journaled before anything is erased, so an older version than the newest can only be
//! found when the newest is found too, or the trim is.

use crate::checkpoint::{self, Journal, Page, Trim};
use crate::counters::Cause;
use crate::engine::Mapping;
use crate::flash::Flash;
use crate::space::{Found, Stream};
use crate::table::{self, Table, UNMAPPED};
use nand::{Done, Fault, Nand, Oob, PageKind, Pbn, Ppn, Vtpn};

/// A data page that the search found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) lpn: u32,
    pub(crate) version: u64,
    epoch: u32,
    pub(crate) ppn: u32,
}

/// A translation page on flash, and the entries `(slot, entry)` in which it is behind.
type Behind = (Vtpn, Vec<(u32, u32)>);

#[derive(Default)]
pub(crate) struct Checkpoint {
    version: u64,
    pub(crate) epoch: u32,
    frontiers: Vec<(u32, Ppn)>,
    pub(crate) directory: Vec<u32>,
    /// Metadata superblocks opened since its moment: they hold it and the journal after it.
    superblocks: Vec<u32>,
}

pub(crate) struct Recovery<'a, N> {
    pub(crate) flash: &'a mut Flash<N>,
    /// Superblocks in use.
    found: Vec<Found>,
    pub(crate) checkpoint: Checkpoint,
    /// Trims after the checkpoint.
    pub(crate) trims: Vec<Trim>,
    /// The newest page of each LPN that was programmed after the checkpoint, ascending by LPN.
    pub(crate) candidates: Vec<Candidate>,
    /// Newest translation page found by the search: version, epoch, PPN, by id (VTPN).
    pub(crate) translation: Vec<Option<(u64, u32, Ppn)>>,
    metadata_pages: Vec<Ppn>,
    /// The last models read: of which checkpoint, how many pages they have, and the bytes so far.
    models: (u64, u32, Vec<u8>),
    version: u64,
    metadata_version: u64,
    pub(crate) at: Done,
}

/// Finds what the array holds, up to the step "adopt": for `exported_pages` LPNs, and translation pages whose ids are
/// below `translation_ids`.
pub(crate) fn gather<'a, N: Nand>(
    flash: &'a mut Flash<N>,
    journal: &mut Journal,
    exported_pages: u32,
    translation_ids: u32,
) -> Result<Recovery<'a, N>, Fault> {
    let mut recovery = Recovery {
        flash,
        found: Vec::new(),
        checkpoint: Checkpoint::default(),
        trims: Vec::new(),
        candidates: Vec::new(),
        translation: vec![None; translation_ids as usize],
        metadata_pages: Vec::new(),
        models: (0, 0, Vec::new()),
        version: 0,
        metadata_version: 0,
        at: Done::READY,
    };
    recovery.begin("classify");
    recovery.classify()?;
    recovery.begin("checkpoint");
    recovery.read_checkpoint()?;
    recovery.begin("search");
    recovery.search(exported_pages, translation_ids)?;
    recovery.begin("adopt");
    recovery.adopt(journal);
    Ok(recovery)
}

/// Rebuilds directory, space, journal and mapping from what the array holds.
pub fn recover<N: Nand, M: Mapping>(
    flash: &mut Flash<N>,
    table: &mut Table,
    journal: &mut Journal,
    mapping: &mut M,
) -> Result<Done, Fault> {
    let mut recovery = gather(flash, journal, table.exported_pages(), table.pages())?;
    recovery.begin("restore");
    if let Some(models) = recovery.current_models() {
        mapping.relearn(&models);
    }
    let behind = recovery.restore(table, mapping)?;
    recovery.begin("update");
    recovery.update(table, behind)?;
    recovery.begin("erase");
    recovery.erase_obsolete(journal)?;
    Ok(recovery.at)
}

impl<N: Nand> Recovery<'_, N> {
    fn begin(&mut self, step: &'static str) {
        self.flash.nand_mut().begin_step(step);
    }

    /// Reads an OOB; a page that cannot be read (torn) counts as nothing there, but as spent.
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

    /// All blocks of a superblock. A retired one may hold pages that were being copied when power was cut; a bad one from
    /// the factory holds none.
    fn blocks(&self, superblock: u32) -> impl Iterator<Item = Pbn> + use<'_, N> {
        let units = self.flash.nand().geometry().units();
        (0..units).map(move |unit| Pbn(superblock * units + unit))
    }

    /// What is known of a block: its first page, or the first after pages that were torn.
    fn first_readable(&mut self, block: Pbn) -> Result<Scanned, Fault> {
        let geometry = self.flash.nand().geometry();
        let (first, pages, units) = (geometry.page_in(block, 0), geometry.pages_per_block, geometry.units());
        for page in 0..pages {
            match self.scan(Ppn(first.0 + page * units))? {
                Scanned::Torn => {}
                Scanned::Erased if page > 0 => break,
                known => return Ok(known),
            }
        }
        Ok(Scanned::Torn)
    }

    fn classify(&mut self) -> Result<(), Fault> {
        let free: Vec<u32> = self.flash.space.free().map(|(superblock, _)| superblock).collect();
        for superblock in free {
            let mut newest: Option<Oob> = None;
            // Pages in good blocks, and whether these were all written since one and the same opening.
            let (mut used, mut good, mut mixed) = (false, false, false);
            for block in self.blocks(superblock).collect::<Vec<_>>() {
                let is_good = !self.flash.nand().is_bad(block);
                match self.first_readable(block)? {
                    Scanned::Erased => {}
                    // Torn pages alone: what is left of the block takes any opening.
                    Scanned::Torn => used = true,
                    Scanned::Page(oob) => {
                        used = true;
                        good |= is_good;
                        mixed |= is_good && newest.is_some_and(|n| n.epoch != oob.epoch);
                        if newest.is_none_or(|n| n.epoch < oob.epoch) {
                            newest = Some(oob);
                        }
                    }
                }
            }
            if used {
                let (kind, epoch) = newest.map_or((PageKind::Data, 0), |oob| (oob.kind, oob.epoch));
                let tail = if good && !mixed { self.tail(superblock) } else { None };
                self.found.push(Found { superblock, kind, epoch, tail });
            }
        }
        Ok(())
    }

    /// The first row of pages that some block of the superblock has not spent.
    fn tail(&self, superblock: u32) -> Option<Ppn> {
        let geometry = self.flash.nand().geometry();
        let nand = self.flash.nand();
        let good = self.blocks(superblock).filter(|&block| !nand.is_bad(block));
        let row = good.map(|block| nand.written(block)).min()?;
        let first = superblock * geometry.superblock_pages();
        (row < geometry.pages_per_block).then(|| Ppn(first + row * geometry.units()))
    }

    fn read_checkpoint(&mut self) -> Result<(), Fault> {
        let mut metadata: Vec<Found> =
            self.found.iter().filter(|f| f.kind == PageKind::Metadata).copied().collect();
        metadata.sort_unstable_by_key(|f| f.epoch);
        let mut parts: Vec<Page> = Vec::new();
        let mut trims = Vec::new();
        for found in metadata {
            let (first, end) = self.flash.space.pages_of(found.superblock);
            for ppn in (first.0..end.0).map(Ppn) {
                let Some(oob) = self.page(ppn)? else { continue };
                if oob.kind != PageKind::Metadata {
                    continue;
                }
                self.metadata_version = self.metadata_version.max(oob.version);
                let read = self.flash.read_metadata(ppn, PageKind::Metadata, Cause::Recovery, self.at);
                let done = match read {
                    Ok(done) => done,
                    Err(Fault::Uncorrectable { .. }) => continue,
                    Err(fault) => return Err(fault),
                };
                self.at = done;
                match checkpoint::parse(self.flash.buffer()) {
                    Some(Page::Journal(records)) => trims.extend(records),
                    Some(Page::Models { page, pages, version, bytes }) => {
                        if page == 0 {
                            self.models = (version, 0, Vec::new());
                        }
                        if self.models.0 == version && self.models.1 == page {
                            self.models.1 += 1;
                            self.models.2.extend(bytes);
                        }
                        if self.models.1 < pages && page + 1 == pages {
                            self.models = (0, 0, Vec::new());
                        }
                    }
                    Some(part) => self.take_part(&mut parts, part),
                    None => {}
                }
                self.metadata_pages.push(ppn);
            }
        }
        let Checkpoint { version, epoch, .. } = self.checkpoint;
        trims.retain(|trim: &Trim| trim.version > version);
        self.version = trims.iter().map(|trim| trim.version).fold(version, u64::max);
        self.trims = trims;
        let current = self.found.iter().filter(|f| f.kind == PageKind::Metadata && f.epoch > epoch);
        self.checkpoint.superblocks = current.map(|f| f.superblock).collect();
        Ok(())
    }

    /// Adds one page of a checkpoint; when all its pages are there it is the newest complete one, because metadata is
    /// read in the order it was written.
    fn take_part(&mut self, parts: &mut Vec<Page>, part: Page) {
        let Page::Checkpoint { page, pages, version, epoch, ref frontiers, .. } = part else { return };
        if page == 0 {
            parts.clear();
        }
        if page as usize != parts.len() || parts.iter().any(|p| !p.is_of(version)) {
            parts.clear();
            return;
        }
        let frontiers = frontiers.clone();
        parts.push(part);
        if parts.len() < pages as usize {
            return;
        }
        let mut directory = Vec::new();
        for part in parts.drain(..) {
            if let Page::Checkpoint { entries, .. } = part {
                directory.extend(entries);
            }
        }
        self.checkpoint = Checkpoint { version, epoch, frontiers, directory, superblocks: Vec::new() };
    }

    /// The OOB of a page; `None` when it is erased or torn.
    /// The models written with the newest checkpoint, if no data or translation page was programmed, and nothing trimmed,
    /// after it: then the mapping is what it was.
    fn current_models(&mut self) -> Option<Vec<u8>> {
        let (version, _, bytes) = std::mem::take(&mut self.models);
        let is_current = version == self.checkpoint.version
            && !bytes.is_empty()
            && self.candidates.is_empty()
            && self.trims.is_empty()
            && self.translation.iter().all(Option::is_none);
        is_current.then_some(bytes)
    }

    pub(crate) fn page(&mut self, ppn: Ppn) -> Result<Option<Oob>, Fault> {
        let (block, page) = self.flash.nand().geometry().block_of(ppn);
        if page >= self.flash.nand().written(block) {
            return Ok(None);
        }
        Ok(match self.scan(ppn)? {
            Scanned::Page(oob) => Some(oob),
            Scanned::Torn | Scanned::Erased => None,
        })
    }

    /// Looks at every page programmed after the checkpoint: those of superblocks opened since, and the rest of those
    /// that were open then.
    fn search(&mut self, exported_pages: u32, translation_ids: u32) -> Result<(), Fault> {
        for found in self.found.clone() {
            if found.kind == PageKind::Metadata {
                continue;
            }
            let (first, end) = self.flash.space.pages_of(found.superblock);
            let from = if found.epoch > self.checkpoint.epoch {
                first
            } else {
                let open = self.checkpoint.frontiers.iter().find(|(epoch, _)| *epoch == found.epoch);
                open.map_or(end, |&(_, next)| next)
            };
            // A block whose erase the cut came before holds pages of an older opening. All of them are superseded, but
            // perhaps by pages from before the checkpoint, which are not looked at: they must not count as newer.
            let least = found.epoch.min(self.checkpoint.epoch + 1);
            for ppn in (from.0..end.0).map(Ppn) {
                let Some(oob) = self.page(ppn)?.filter(|oob| oob.epoch >= least) else { continue };
                match oob.kind {
                    PageKind::Data if oob.id < exported_pages => {
                        self.version = self.version.max(oob.version);
                        self.candidates.push(Candidate {
                            lpn: oob.id,
                            version: oob.version,
                            epoch: oob.epoch,
                            ppn: ppn.0,
                        });
                    }
                    PageKind::Translation if oob.id < translation_ids => {
                        self.metadata_version = self.metadata_version.max(oob.version);
                        let newest = &mut self.translation[oob.id as usize];
                        if newest
                            .is_none_or(|(version, epoch, _)| (version, epoch) < (oob.version, oob.epoch))
                        {
                            *newest = Some((oob.version, oob.epoch, ppn));
                        }
                    }
                    _ => {}
                }
            }
        }
        self.candidates.sort_unstable_by_key(|c| (c.lpn, std::cmp::Reverse((c.version, c.epoch, c.ppn))));
        self.candidates.dedup_by_key(|c| c.lpn);
        Ok(())
    }

    /// Takes the superblocks over. Those with room left become frontiers again, so that a cut costs no space.
    fn adopt(&mut self, journal: &mut Journal) {
        self.flash.resume_versions(self.version, self.metadata_version);
        let mut streams =
            [vec![Stream::COLLECTION, Stream::HOST], vec![Stream::TRANSLATION], vec![Stream::METADATA]];
        self.found.sort_unstable_by_key(|f| std::cmp::Reverse(f.epoch));
        for found in self.found.clone() {
            let stream =
                if self.is_searched_from_tail(found) { streams[found.kind as usize].pop() } else { None };
            self.flash.space.adopt(found, stream);
        }
        journal.superblocks.clone_from(&self.checkpoint.superblocks);
        journal.pages.clear();
        for &ppn in &self.metadata_pages {
            let superblock = self.flash.nand().geometry().superblock_of(ppn);
            if self.checkpoint.superblocks.contains(&superblock) {
                self.flash.space.validate_found(ppn);
                journal.pages.push(ppn);
            }
        }
    }

    /// Whether the next recovery, too, would look at what is programmed from the tail on: only then may a superblock be
    /// written further. One that was being erased, or opened, when power was cut can fail this; it is collected instead.
    fn is_searched_from_tail(&self, found: Found) -> bool {
        let Some(tail) = found.tail else { return false };
        let open = self.checkpoint.frontiers.iter().find(|(epoch, _)| *epoch == found.epoch);
        found.epoch > self.checkpoint.epoch || open.is_some_and(|&(_, next)| tail >= next)
    }

    /// A translation page that the checkpoint knows, if it has not been erased since: that happens without a newer one
    /// being written when everything in it was trimmed.
    fn still_there(&mut self, vtpn: Vtpn, checkpointed: Option<Ppn>) -> Result<Option<Ppn>, Fault> {
        let Some(ppn) = checkpointed else { return Ok(None) };
        let epoch = self.checkpoint.epoch;
        let is_it = |oob: Oob| oob.kind == PageKind::Translation && oob.id == vtpn.0 && oob.epoch <= epoch;
        Ok(self.page(ppn)?.is_some_and(is_it).then_some(ppn))
    }

    /// Reads every translation page, applies what is newer, and marks valid what is mapped. Returns the changes that
    /// the mapping leaves to the table, by translation page.
    fn restore<M: Mapping>(&mut self, table: &mut Table, mapping: &mut M) -> Result<Vec<Behind>, Fault> {
        for vtpn in (0..table.pages()).map(Vtpn) {
            let checkpointed =
                self.checkpoint.directory.get(vtpn.0 as usize).copied().and_then(table::mapped);
            let page = match self.translation[vtpn.0 as usize] {
                Some((_, _, ppn)) => Some(ppn),
                None => self.still_there(vtpn, checkpointed)?,
            };
            table.set_page(vtpn, page);
            if let Some(ppn) = page {
                self.flash.space.validate_found(ppn);
            }
        }
        let candidates = std::mem::take(&mut self.candidates);
        self.trims.sort_unstable_by_key(|trim| (trim.first, trim.version));
        let trims = std::mem::take(&mut self.trims);
        let (mut candidates, mut trims) = (&candidates[..], &trims[..]);
        let mut behind = Vec::new();
        let mut entries = Vec::with_capacity(table.entries_per_page() as usize);
        let begin = self.at;
        for vtpn in (0..table.pages()).map(Vtpn) {
            let (first, lpns) = (table.first_lpn(vtpn).0, table.lpns_in(vtpn));
            entries.clear();
            match table.load(self.flash, vtpn, Cause::Recovery, begin)? {
                Some(done) => {
                    entries.extend((0..lpns).map(|slot| table::entry_in(self.flash.buffer(), slot)));
                    self.at = self.flash.join(self.at, done);
                }
                None => entries.resize(lpns as usize, UNMAPPED),
            }
            let end = first + lpns;
            let written = split_below(&mut candidates, |c| c.lpn < end);
            let trimmed = split_below(&mut trims, |t| t.first.0 < end);
            let changes = newer(&mut entries, first, written, trimmed);
            for &entry in entries.iter().filter(|&&entry| entry != UNMAPPED) {
                self.flash.space.validate_found(Ppn(entry));
            }
            if !mapping.restore(table, vtpn, &entries, !changes.is_empty()) && !changes.is_empty() {
                behind.push((vtpn, changes));
            }
        }
        Ok(behind)
    }

    /// Writes the translation pages that are behind. Room is made without moving user data, whose mapping is not
    /// settled yet: from superblocks with nothing valid, and from translation superblocks.
    fn update(&mut self, table: &mut Table, behind: Vec<Behind>) -> Result<(), Fault> {
        for (vtpn, changes) in behind {
            while self.flash.free_superblocks() < 2 {
                let Some(victim) = self.flash.space.fewest_valid_without_data() else { break };
                self.collect_without_data(table, victim)?;
            }
            self.at = table.store(self.flash, vtpn, &changes, Cause::Recovery, self.at)?;
        }
        Ok(())
    }

    fn collect_without_data(&mut self, table: &mut Table, victim: u32) -> Result<(), Fault> {
        self.flash.space.collect(victim);
        let (mut from, end) = self.flash.space.pages_of(victim);
        while let Some(ppn) = self.flash.space.next_valid(from, end) {
            self.at = table.relocate(self.flash, ppn, self.at)?;
            from = Ppn(ppn.0 + 1);
        }
        self.at = self.flash.erase(victim, Cause::Recovery, self.at)?;
        Ok(())
    }

    /// Erases metadata that a newer checkpoint made obsolete, or that belongs to one never finished.
    pub(crate) fn erase_obsolete(&mut self, journal: &Journal) -> Result<(), Fault> {
        for found in self.found.clone() {
            let obsolete =
                found.kind == PageKind::Metadata && !journal.superblocks.contains(&found.superblock);
            if obsolete {
                self.flash.space.collect(found.superblock);
                self.at = self.flash.erase(found.superblock, Cause::Recovery, self.at)?;
            }
        }
        Ok(())
    }
}

/// Applies to the entries of one translation page what was written and trimmed after the checkpoint, and returns what
/// that changes. A trim record lies in one translation page.
fn newer(entries: &mut [u32], first: u32, written: &[Candidate], trimmed: &[Trim]) -> Vec<(u32, u32)> {
    let before = entries.to_vec();
    let mut trimmed_at = vec![0; if trimmed.is_empty() { 0 } else { entries.len() }];
    for trim in trimmed {
        for slot in trim.first.0 - first..trim.first.0 - first + trim.pages {
            let at: &mut u64 = &mut trimmed_at[slot as usize];
            *at = (*at).max(trim.version);
            entries[slot as usize] = UNMAPPED;
        }
    }
    for candidate in written {
        let slot = (candidate.lpn - first) as usize;
        if candidate.version > trimmed_at.get(slot).copied().unwrap_or(0) {
            entries[slot] = candidate.ppn;
        }
    }
    (0..)
        .zip(entries.iter().zip(before))
        .filter(|(_, (now, before))| *now != before)
        .map(|(slot, (now, _))| (slot, *now))
        .collect()
}

/// Cuts off and returns the leading items that satisfy `below`.
fn split_below<'a, T>(items: &mut &'a [T], below: impl Fn(&T) -> bool) -> &'a [T] {
    let (taken, rest) = items.split_at(items.partition_point(below));
    *items = rest;
    taken
}

enum Scanned {
    Erased,
    Torn,
    Page(Oob),
}

impl Page {
    fn is_of(&self, checkpoint: u64) -> bool {
        matches!(self, Page::Checkpoint { version, .. } if *version == checkpoint)
    }
}
