//! Recovery of a page-level FTL, after an orderly power-off, a power cut, or on a fresh array.
//!
//! | step | what | flash reads |
//! | --- | --- | --- |
//! | classify | first readable page of every block: free, data, translation, metadata | one a block |
//! | checkpoint | metadata pages: newest complete checkpoint, trims after it | metadata pages |
//! | search | OOB of every page programmed after the checkpoint | one a page |
//! | adopt | superblocks in use; those not full become frontiers again | - |
//! | erase | metadata that the newest checkpoint made obsolete | - |
//! | restore | every translation page: valid pages, and what the search found newer | one a translation page |
//! | update | translation pages that are behind are written | one, and one program, each |
//!
//! Why it is right: at a checkpoint every translation page is current. A page written or moved later is found
//! by the search, and the greatest version of an LPN is its newest content (copies carry the version of what
//! they copy). A trim later than the checkpoint is journaled before anything is erased, so an older version
//! than the newest can only be found when the newest is found too, or the trim is.

use crate::checkpoint::{self, Journal, Page, Parts, Place, Trim};
use crate::counters::Cause;
use crate::flash::{Content, Flash, Known};
use crate::space::{Found, State, Stream};
use nand::{Done, Fault, Nand, Oob, PageKind, Pbn, Ppn, Result, Source};
use std::ops::Range;

/// A data page that the search found.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    lpn: u32,
    version: u64,
    /// Of several copies, one in a superblock that was opened anew since is the original of another: it lies
    /// in a block that could not be erased.
    is_current: bool,
    epoch: u32,
    ppn: u32,
}

impl Candidate {
    fn new(oob: Oob, is_current: bool, ppn: Ppn) -> Candidate {
        Candidate { lpn: oob.id, version: oob.version, is_current, epoch: oob.epoch, ppn: ppn.0 }
    }
}

#[derive(Default)]
pub(crate) struct Checkpoint {
    version: u64,
    pub(crate) epoch: u32,
    frontiers: Vec<(u32, Ppn)>,
    pub(crate) directory: Vec<u32>,
    /// Metadata superblocks opened since its moment: they hold it and the journal after it.
    superblocks: Vec<u32>,
}

/// What a recovery has found so far, and the flash it works on.
pub struct Recovery<'a, N> {
    pub(crate) flash: &'a mut Flash<N>,
    /// Superblocks in use.
    found: Vec<Found>,
    pub(crate) checkpoint: Checkpoint,
    /// Trims after the checkpoint.
    trims: Vec<Trim>,
    /// The newest page of each LPN that was programmed after the checkpoint, ascending by LPN.
    candidates: Vec<Candidate>,
    /// Newest translation page found by the search: version, epoch, PPN, by id (VTPN).
    pub(crate) translation: Vec<Option<(u64, u32, Ppn)>>,
    metadata_pages: Vec<Ppn>,
    /// The last complete models read, and of which checkpoint they are.
    models: (u64, Vec<u8>),
    version: u64,
    metadata_version: u64,
    pub(crate) at: Done,
}

impl<'a, N: Nand> Recovery<'a, N> {
    /// Finds what the array holds, up to the step "adopt": for `exported_pages` LPNs, and translation pages
    /// whose ids are below `translation_ids`.
    pub(crate) fn scan(
        flash: &'a mut Flash<N>,
        journal: &mut Journal,
        exported_pages: u32,
        translation_ids: u32,
    ) -> Result<Recovery<'a, N>> {
        let mut recovery = Recovery {
            flash,
            found: Vec::new(),
            checkpoint: Checkpoint::default(),
            trims: Vec::new(),
            candidates: Vec::new(),
            translation: vec![None; translation_ids as usize],
            metadata_pages: Vec::new(),
            models: (0, Vec::new()),
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

    /// The next step of the table above begins.
    pub(crate) fn begin(&mut self, step: &'static str) {
        self.flash.nand_mut().begin_step(step);
    }

    /// Reads an OOB; a page that cannot be read (torn) counts as nothing there, but as spent.
    fn scan_page(&mut self, ppn: Ppn) -> Result<Scanned> {
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

    /// All blocks of a superblock. A retired one may hold pages that were being copied when power was cut; a
    /// bad one from the factory holds none.
    fn blocks(&self, superblock: u32) -> impl Iterator<Item = Pbn> + use<'_, N> {
        let units = self.flash.nand().geometry().units();
        (0..units).map(move |unit| Pbn(superblock * units + unit))
    }

    /// What is known of a block: its first page, or the first after pages that were torn.
    fn first_readable(&mut self, block: Pbn) -> Result<Scanned> {
        let geometry = self.flash.nand().geometry();
        let (first, pages, units) = (geometry.page_in(block, 0), geometry.pages_per_block, geometry.units());
        for page in 0..pages {
            match self.scan_page(Ppn(first.0 + page * units))? {
                Scanned::Torn => {}
                Scanned::Erased if page > 0 => break,
                known => return Ok(known),
            }
        }
        Ok(Scanned::Torn)
    }

    fn classify(&mut self) -> Result<()> {
        // Those without a good block, too: the last one may have been retired before copies of its pages were
        // made.
        for superblock in 0..self.flash.nand().geometry().superblocks() {
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

    /// The first page of the superblock that can still be programmed. It may lie inside a row, where the
    /// frontier of a checkpoint lies, too.
    fn tail(&self, superblock: u32) -> Option<Ppn> {
        let nand = self.flash.nand();
        let geometry = nand.geometry();
        let good = self.blocks(superblock).filter(|&block| !nand.is_bad(block));
        let unspent = good.map(|block| (block, nand.written(block)));
        let has_room = unspent.filter(|&(_, written)| written < geometry.pages_per_block);
        has_room.map(|(block, written)| geometry.page_in(block, written)).min()
    }

    fn read_checkpoint(&mut self) -> Result<()> {
        let mut metadata: Vec<Found> =
            self.found.iter().filter(|f| f.kind == PageKind::Metadata).copied().collect();
        metadata.sort_unstable_by_key(|f| f.epoch);
        let (mut parts, mut models, mut trims) = (Parts::new(), Parts::new(), Vec::new());
        for found in metadata {
            let (first, end) = self.flash.space.pages_of(found.superblock);
            for ppn in (first.0..end.0).map(Ppn) {
                let Some(oob) = self.page(ppn)? else { continue };
                if oob.kind != PageKind::Metadata {
                    continue;
                }
                self.metadata_version = self.metadata_version.max(oob.version);
                let read = self.flash.read_metadata(ppn, PageKind::Metadata, Cause::Recovery, self.at);
                // A page that a cut tore has no OOB. Without one that has, trims would be taken back, or
                // everything since another checkpoint.
                self.at = read?;
                match checkpoint::parse(self.flash.buffer()) {
                    Some(Page::Journal(records)) => trims.extend(records),
                    Some(Page::Models { page, pages, version, bytes }) => {
                        let place = Place { page, pages, version, number: oob.version };
                        self.models = (version, models.take(place, bytes).unwrap_or_default().concat());
                    }
                    Some(part) => self.take_part(&mut parts, oob.version, part),
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

    /// Adds one page of a checkpoint, written as metadata number `number`; when all its pages are there it is
    /// the newest complete one, because metadata is read in the order it was written.
    fn take_part(&mut self, parts: &mut Parts<Vec<u32>>, number: u64, part: Page) {
        let Page::Checkpoint { page, pages, version, epoch, frontiers, entries } = part else { return };
        let Some(all) = parts.take(Place { page, pages, version, number }, entries) else { return };
        let directory = all.concat();
        self.checkpoint = Checkpoint { version, epoch, frontiers, directory, superblocks: Vec::new() };
        // Models read so far are those of the checkpoint before. It may have the same version.
        self.models = (0, Vec::new());
    }

    /// Counts the newest data pages of `lost`, ranges of LPNs, as written after the checkpoint, because the
    /// translation pages that led to them cannot be read. What was valid before the restart
    /// ([`Flash::restart`]) tells which pages are current: OOB alone does not say that a page was trimmed.
    /// One read for each of them. What was lost in a recovery before this one that did not come to its end
    /// is rescued again.
    pub(crate) fn rescue(&mut self, lost: Vec<Range<u32>>) -> Result<()> {
        let Some(mut known) = self.flash.known.take() else { return Ok(()) };
        self.flash.counters.rebuilt += lost.len() as u64;
        known.lost.extend(lost);
        let rescued = self.rescue_known(&known);
        self.flash.known = Some(known);
        rescued
    }

    fn rescue_known(&mut self, known: &Known) -> Result<()> {
        let Known { space, lost } = known;
        if lost.is_empty() {
            return Ok(());
        }
        let is_lost = |lpn| lost.iter().any(|range| range.contains(&lpn));
        for superblock in 0..self.flash.nand().geometry().superblocks() {
            if space.kind(superblock) != PageKind::Data {
                continue;
            }
            let (mut from, end) = space.pages_of(superblock);
            while let Some(ppn) = space.next_valid(from, end) {
                from = Ppn(ppn.0 + 1);
                let Some(oob) = self.page(ppn)?.filter(|oob| oob.kind == PageKind::Data && is_lost(oob.id))
                else {
                    continue;
                };
                self.candidates.push(Candidate::new(oob, true, ppn));
            }
        }
        self.keep_newest();
        Ok(())
    }

    /// Whether translation pages that cannot be read can be made anew.
    pub(crate) fn can_rescue(&self) -> bool {
        self.flash.known.is_some()
    }

    /// What [`crate::mapping::Mapping::learned`] gave, written with the newest checkpoint, if no data or
    /// translation page was programmed, and nothing trimmed, after it: then the mapping is what it was. Not
    /// after a restart ([`Flash::restart`]), either: a translation page that was lost is made of what was
    /// valid then, without what a trim had unmapped when it met the loss ([`Recovery::rescue`]).
    pub fn learned(&mut self) -> Option<Vec<u8>> {
        let (version, bytes) = std::mem::take(&mut self.models);
        let is_current = self.flash.known.is_none()
            && version == self.checkpoint.version
            && !bytes.is_empty()
            && self.candidates.is_empty()
            && self.trims.is_empty()
            && self.translation.iter().all(Option::is_none);
        is_current.then_some(bytes)
    }

    /// The OOB of a page; `None` when it is erased or torn.
    pub(crate) fn page(&mut self, ppn: Ppn) -> Result<Option<Oob>> {
        let (block, page) = self.flash.nand().geometry().block_of(ppn);
        if page >= self.flash.nand().written(block) {
            return Ok(None);
        }
        Ok(match self.scan_page(ppn)? {
            Scanned::Page(oob) => Some(oob),
            Scanned::Torn | Scanned::Erased => None,
        })
    }

    /// Looks at every page programmed after the checkpoint: those of superblocks opened since, and the rest
    /// of those that were open then.
    fn search(&mut self, exported_pages: u32, translation_ids: u32) -> Result<()> {
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
            // A block whose erase the cut came before holds pages of an older opening. All of them are
            // superseded, but perhaps by pages from before the checkpoint, which are not looked
            // at: they must not count as newer.
            let least = found.epoch.min(self.checkpoint.epoch + 1);
            for ppn in (from.0..end.0).map(Ppn) {
                let Some(oob) = self.page(ppn)?.filter(|oob| oob.epoch >= least) else { continue };
                match oob.kind {
                    PageKind::Data if oob.id < exported_pages => {
                        self.version = self.version.max(oob.version);
                        self.candidates.push(Candidate::new(oob, oob.epoch == found.epoch, ppn));
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
        self.keep_newest();
        Ok(())
    }

    /// Of several pages of an LPN the newest stays.
    fn keep_newest(&mut self) {
        let newest_first =
            |c: &Candidate| (c.lpn, std::cmp::Reverse((c.version, c.is_current, c.epoch, c.ppn)));
        self.candidates.sort_unstable_by_key(newest_first);
        self.candidates.dedup_by_key(|c| c.lpn);
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

    /// Whether the next recovery, too, would look at what is programmed from the tail on: only then may a
    /// superblock be written further. One that was being erased, or opened, when power was cut can fail
    /// this; it is collected instead.
    fn is_searched_from_tail(&self, found: Found) -> bool {
        let Some(tail) = found.tail else { return false };
        let open = self.checkpoint.frontiers.iter().find(|(epoch, _)| *epoch == found.epoch);
        found.epoch > self.checkpoint.epoch || open.is_some_and(|&(_, next)| tail >= next)
    }

    /// What was written and trimmed after the checkpoint, of `lpns` LPNs.
    pub(crate) fn take_news(&mut self, lpns: u32) -> News {
        let mut trimmed_at: Vec<u64> = Vec::new();
        for trim in std::mem::take(&mut self.trims) {
            trimmed_at.resize(lpns as usize, 0);
            let end = (trim.first.0 + trim.pages).min(lpns);
            for at in &mut trimmed_at[trim.first.0 as usize..end as usize] {
                *at = trim.version.max(*at);
            }
        }
        News { written: std::mem::take(&mut self.candidates), trimmed_at }
    }

    /// Moves user data until there is room for the translation pages that are behind: `behind` counts them.
    /// Cuts one after the other leave superblocks half written, and only one for each stream becomes a
    /// frontier again: with few superblocks and programs that fail, none may be free. `current`: where each
    /// LPN is now.
    ///
    /// What is moved counts as written after the checkpoint. That is true for the next recovery, too: the
    /// copy lies where it searches.
    pub(crate) fn gain_room(
        &mut self,
        mut current: Vec<Option<Ppn>>,
        news: &mut News,
        behind: impl Fn(&News) -> u32,
    ) -> Result<()> {
        while behind(news) > self.room(&[Stream::TRANSLATION]) {
            let geometry = self.flash.nand().geometry();
            let mut valid = vec![0; geometry.superblocks() as usize];
            current.iter().flatten().for_each(|&ppn| valid[geometry.superblock_of(ppn) as usize] += 1);
            let space = &self.flash.space;
            let can_be_emptied = |superblock: &u32| {
                space.state(*superblock) == State::Closed && space.kind(*superblock) == PageKind::Data
            };
            let victims = (0..geometry.superblocks()).filter(can_be_emptied);
            let Some(victim) = victims.min_by_key(|&superblock| valid[superblock as usize]) else { break };
            if valid[victim as usize] > self.room(&[Stream::COLLECTION, Stream::HOST]) {
                break;
            }
            self.empty(victim, &mut current, news)?;
        }
        Ok(())
    }

    /// Pages that can be programmed in the open superblocks of streams, and in free ones.
    fn room(&self, streams: &[Stream]) -> u32 {
        let (space, nand) = (&self.flash.space, self.flash.nand());
        let free = space.free().map(|(superblock, _)| space.capacity_of(superblock)).sum::<u32>();
        let open = streams.iter().filter_map(|&stream| space.frontier(stream));
        free + open.map(|(superblock, _)| space.unwritten(nand, superblock)).sum::<u32>()
    }

    /// Moves the data pages of a superblock, and erases it.
    fn empty(&mut self, victim: u32, current: &mut [Option<Ppn>], news: &mut News) -> Result<()> {
        self.flash.space.collect(victim);
        let (first, end) = self.flash.space.pages_of(victim);
        let mut moved = Vec::new();
        for (lpn, now) in (0..).zip(current) {
            let Some(from) = now.filter(|ppn| (first..end).contains(ppn)) else { continue };
            let (oob, read) = self.flash.read_to_move(from, Cause::Recovery, self.at)?;
            assert!(oob.kind == PageKind::Data && oob.id == lpn);
            let has_room = self.flash.space.upcoming(self.flash.nand(), Stream::COLLECTION).next().is_some();
            let stream = if has_room { Stream::COLLECTION } else { Stream::HOST };
            let content = Content::of(oob);
            let source = content.source(Source::Page(from));
            let (to, done) =
                self.flash.program(stream, oob.kind, lpn, content, source, Cause::Recovery, read)?;
            self.at = self.flash.join(self.at, done);
            // Whoever restores the mapping marks it valid.
            self.flash.invalidate(to);
            *now = Some(to);
            moved.push(Candidate::new(oob, true, to));
        }
        news.moved(moved);
        self.at = self.flash.erase(victim, Cause::Recovery, self.at)?;
        Ok(())
    }

    /// The OOB of the translation page `id` that the checkpoint knows at `ppn`, if it has not been erased
    /// since.
    pub(crate) fn checkpointed_page(&mut self, ppn: Ppn, id: u32) -> Result<Option<Oob>> {
        let epoch = self.checkpoint.epoch;
        let is_it = |oob: &Oob| oob.kind == PageKind::Translation && oob.id == id && oob.epoch <= epoch;
        Ok(self.page(ppn)?.filter(is_it))
    }

    /// Erases metadata that a newer checkpoint made obsolete, or that belongs to one never finished.
    pub(crate) fn erase_obsolete(&mut self, journal: &Journal) -> Result<()> {
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

/// What became of an LPN after the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// It was written last to this page.
    Written(Ppn),
    /// It was trimmed.
    Trimmed,
    /// Its record is right.
    Nothing,
}

impl Since {
    /// Where the LPN is now, if its record says `recorded`.
    pub(crate) fn or(self, recorded: Option<Ppn>) -> Option<Ppn> {
        match self {
            Since::Written(ppn) => Some(ppn),
            Since::Trimmed => None,
            Since::Nothing => recorded,
        }
    }
}

/// What was written and trimmed after the checkpoint.
pub(crate) struct News {
    written: Vec<Candidate>,
    /// By LPN; empty when nothing was trimmed.
    trimmed_at: Vec<u64>,
}

impl News {
    /// Takes note of copies of the newest pages, ascending by LPN.
    fn moved(&mut self, copies: Vec<Candidate>) {
        let is_moved = |lpn| copies.binary_search_by_key(&lpn, |copy| copy.lpn).is_ok();
        self.written.retain(|candidate| !is_moved(candidate.lpn));
        self.written.extend(copies);
        self.written.sort_unstable_by_key(|candidate| candidate.lpn);
    }

    /// What became of each LPN of some.
    pub(crate) fn of(&self, lpns: Range<u32>) -> Newer<'_> {
        let from = self.written.partition_point(|candidate| candidate.lpn < lpns.start);
        let written = &self.written[from..];
        let end = written.partition_point(|candidate| candidate.lpn < lpns.end);
        Newer { next: lpns.start, written: &written[..end], trimmed_at: &self.trimmed_at }
    }
}

/// What became of LPNs, ascending, without end.
pub(crate) struct Newer<'a> {
    next: u32,
    written: &'a [Candidate],
    trimmed_at: &'a [u64],
}

impl Newer<'_> {
    /// Whether anything was written.
    pub(crate) fn is_written(&self) -> bool {
        !self.written.is_empty()
    }

    /// Whether anything at all may have happened.
    pub(crate) fn is_something(&self) -> bool {
        self.is_written() || !self.trimmed_at.is_empty()
    }
}

impl Iterator for Newer<'_> {
    type Item = (u32, Since);

    fn next(&mut self) -> Option<(u32, Since)> {
        let lpn = self.next;
        self.next += 1;
        let trimmed_at = self.trimmed_at.get(lpn as usize).copied().unwrap_or(0);
        let mut since = if trimmed_at > 0 { Since::Trimmed } else { Since::Nothing };
        if let Some((candidate, others)) = self.written.split_first().filter(|(it, _)| it.lpn == lpn) {
            self.written = others;
            if candidate.version > trimmed_at {
                since = Since::Written(Ppn(candidate.ppn));
            }
        }
        Some((lpn, since))
    }
}

enum Scanned {
    Erased,
    Torn,
    Page(Oob),
}
