//! The one door to the NAND. Every flash operation of every scheme passes here, with its cause, and is
//! counted here.

mod buffered;

pub use buffered::Guessed;

use crate::counters::{Cause, Counters};
use crate::space::{Space, Stream};
use nand::{Class, Done, Fault, Lpn, Nand, Oob, PageKind, Pbn, Ppn, Result, Sink, Source};
use std::ops::Range;

/// Pages that recovery reads before it waits for all of them.
const RECOVERY_BATCH: u32 = 1 << 16;
/// Attempts at a metadata page (translation, checkpoint) before its fault is passed on.
const METADATA_ATTEMPTS: u32 = 4;
/// Controller work after which other work may come in between, ns.
const SLICE_NS: u64 = 5_000;
/// A device whose reserve runs short is worn out when so many superblocks in a row have lost half of their
/// blocks as they were erased, or when it has fewer superblocks than so many beyond what it needs.
const LOSSES_IN_A_ROW: u32 = 2;
const NEARLY_WORN: u64 = 6;

/// A NAND array with its space management and counters.
#[derive(Clone, Debug)]
pub struct Flash<N> {
    nand: N,
    /// What happened so far. The world may reset it between phases.
    pub counters: Counters,
    /// Superblocks and valid pages.
    pub space: Space,
    version: u64,
    metadata_version: u64,
    /// Flash reads that the host page read under way waits for.
    path_reads: usize,
    /// Free superblocks that must be erased, in time, before the host's stream begins another.
    reserve: usize,
    /// By stream: the epoch of the superblock that it writes for the host, and the completion that its first
    /// row waits for.
    gates: Vec<(u32, Done)>,
    /// By superblock: what its first row waits for, because its last erase left out blocks that held nothing.
    ready: Vec<Done>,
    /// Collection could not make room when it tried last.
    pub(crate) full: bool,
    /// The end of life: nothing is written for the host any more.
    worn: bool,
    /// Superblocks erased one after the other that each lost half of their blocks or more.
    losses_in_a_row: u32,
    /// With fewer usable pages that is reached.
    least_usable: u64,
    /// Pages that recovery has scanned.
    looked_at: u32,
    /// What is known from before [`Flash::restart`], until the mapping that follows is on flash.
    pub(crate) known: Option<Box<Known>>,
}

/// What a device that recovers while it runs knows.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// Superblocks and valid pages as they were before the recovery.
    pub space: Space,
    /// LPNs whose translation pages could not be read, in ranges.
    pub lost: Vec<Range<u32>>,
}

impl<N: Nand> Flash<N> {
    /// Opens the door to an array whose content is not known yet: [`crate::Scheme::open`] finds out.
    pub fn new(nand: N) -> Flash<N> {
        let (space, counters) = (Space::new(&nand), Counters::default());
        let gates = vec![(0, Done::READY); Stream::COUNT];
        let ready = vec![Done::READY; nand.geometry().superblocks() as usize];
        Flash {
            nand,
            counters,
            space,
            version: 0,
            metadata_version: 0,
            path_reads: 0,
            reserve: 0,
            gates,
            ready,
            full: false,
            worn: false,
            losses_in_a_row: 0,
            least_usable: 0,
            looked_at: 0,
            known: None,
        }
    }

    /// Forgets what the array holds, as after a power cut, so that a recovery can follow; but remembers what
    /// was valid.
    pub(crate) fn restart(&mut self) {
        let space = std::mem::replace(&mut self.space, Space::new(&self.nand));
        // Of several restarts in a row the first knew best.
        self.known.get_or_insert_with(|| Box::new(Known { space, lost: Vec::new() }));
        self.gates = vec![(0, Done::READY); Stream::COUNT];
        self.ready.fill(Done::READY);
        self.reserve = 0;
        self.full = false;
        self.least_usable = 0;
        self.looked_at = 0;
    }

    /// Whether a page belongs to a superblock of translation pages.
    pub(crate) fn is_translation(&self, ppn: Ppn) -> bool {
        self.space.kind(self.space.superblock_of(ppn)) == PageKind::Translation
    }

    /// The array.
    pub fn nand(&self) -> &N {
        &self.nand
    }

    /// The array, for the world that drives its clock. No scheme calls this.
    pub fn nand_mut(&mut self) -> &mut N {
        &mut self.nand
    }

    /// Gives the array back.
    pub fn into_nand(self) -> N {
        self.nand
    }

    /// Replaces the array by another view of the same one (another clock).
    pub fn map_nand<M: Nand>(self, map: impl FnOnce(N) -> M) -> Flash<M> {
        Flash {
            nand: map(self.nand),
            counters: self.counters,
            space: self.space,
            version: self.version,
            metadata_version: self.metadata_version,
            path_reads: self.path_reads,
            reserve: self.reserve,
            gates: self.gates,
            ready: self.ready,
            full: self.full,
            worn: self.worn,
            losses_in_a_row: self.losses_in_a_row,
            least_usable: self.least_usable,
            looked_at: self.looked_at,
            known: self.known,
        }
    }

    /// The version of host content given out last: that of the page written, or trimmed, last.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A version greater than all before.
    #[inline]
    pub fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// A version for a translation or metadata page, greater than all before. Counted apart from host
    /// content.
    #[inline]
    pub fn next_metadata_version(&mut self) -> u64 {
        self.metadata_version += 1;
        self.metadata_version
    }

    /// Continues the versions after those that recovery found.
    pub(crate) fn resume_versions(&mut self, version: u64, metadata_version: u64) {
        self.version = self.version.max(version);
        self.metadata_version = self.metadata_version.max(metadata_version);
    }

    /// Superblocks that can be opened.
    #[inline]
    pub fn free_superblocks(&self) -> u32 {
        self.space.free_superblocks()
    }

    /// Pages that emptying a superblock gains. A block that was retired may hold valid pages still, and no
    /// longer counts as room.
    pub(crate) fn gain_of(&self, superblock: u32) -> u32 {
        self.space.capacity_of(superblock).saturating_sub(self.space.valid_in(superblock))
    }

    /// Valid pages that hold user data, copies of a collection under way included.
    pub fn valid_pages(&self) -> u64 {
        self.space.valid_pages(PageKind::Data)
    }

    /// Whether the device has reached the end of its life: it is read, and not written.
    #[inline]
    pub fn is_worn(&self) -> bool {
        self.worn
    }

    /// The fault of a device at the end of its life.
    #[cold]
    pub fn worn_out(&self) -> Fault {
        Fault::WornOut { bad_blocks: self.nand.bad_blocks(), blocks: self.nand.geometry().blocks() }
    }

    /// The fault of a stream that finds no superblock to write to: too many programs have failed at once.
    #[cold]
    pub(crate) fn no_superblock(&mut self, stream: Stream) -> Fault {
        self.space.must_be_worn(&self.nand, stream);
        self.worn = true;
        self.worn_out()
    }

    /// The fault of a write for which there is no room: the end of the device's life, if blocks are bad.
    #[cold]
    pub(crate) fn no_room(&mut self, free: u32, needed: u32) -> Fault {
        self.worn |= self.nand.bad_blocks() > 0;
        if self.worn {
            self.worn_out()
        } else {
            Fault::NoSpace { free, needed }
        }
    }

    /// Says how many usable pages the device needs beside those that it is known to need. One that has fewer,
    /// because blocks have become bad, is worn out: it turns read-only while collection still has its
    /// reserve. `false`: it never had so many, whatever has become bad.
    #[must_use]
    pub(crate) fn needs_more(&mut self, pages: u64) -> bool {
        self.least_usable += pages;
        if self.space.usable_pages() >= self.least_usable {
            return true;
        }
        let geometry = self.nand.geometry();
        let is_used = (0..geometry.blocks()).any(|block| self.nand.written(Pbn(block)) > 0);
        let had_enough = is_used && self.least_usable <= u64::from(geometry.pages());
        self.worn |= had_enough;
        had_enough
    }

    /// Whether collection loses blocks faster than it makes room, and is about to use up its reserve: each
    /// further loss would take from what recovery needs. Blocks of one age fail together.
    fn runs_short(&self) -> bool {
        let superblock = u64::from(self.nand.geometry().superblock_pages());
        let free = self.space.free().map(|(free, _)| u64::from(self.space.capacity_of(free)));
        let lent = self.space.free_superblocks() - self.space.free().count() as u32;
        let free = free.sum::<u64>() + u64::from(lent) * superblock;
        let is_below = |superblocks: u64| 4 * free < 3 * superblocks * superblock;
        let spare = self.space.usable_pages().saturating_sub(self.least_usable);
        let reserve = self.reserve as u64;
        self.losses_in_a_row >= LOSSES_IN_A_ROW && is_below(reserve)
            || spare < NEARLY_WORN * superblock && is_below(reserve.saturating_sub(1))
    }

    /// The completion of both.
    #[inline]
    pub fn join(&mut self, a: Done, b: Done) -> Done {
        self.nand.join(a, b)
    }

    /// The completion of every program so far.
    pub fn settle(&mut self) -> Done {
        self.nand.settle()
    }

    /// Controller work of `ns` nanoseconds.
    pub fn compute(&mut self, ns: u64, after: Done) -> Done {
        self.counters.compute_ns += ns;
        self.nand.compute(ns, after)
    }

    /// As [`Flash::compute`], in slices: other work waits for one of them at most.
    pub fn compute_in_slices(&mut self, ns: u64, after: Done) -> Done {
        let (mut left, mut done) = (ns, after);
        while left > 0 {
            let slice = left.min(SLICE_NS);
            done = self.compute(slice, done);
            left -= slice;
        }
        done
    }

    /// Begins a host page read: the flash reads that it waits for are counted until [`Flash::end_host_read`].
    #[inline]
    pub fn begin_host_read(&mut self) {
        self.path_reads = 0;
    }

    /// Ends a host page read.
    #[inline]
    pub fn end_host_read(&mut self) {
        self.counters.host_reads += 1;
        self.counters.host_reads_by_flash_reads[self.path_reads.min(4)] += 1;
        self.counters.flash_reads_waited_for += self.path_reads as u64;
    }

    #[inline]
    fn count_read(&mut self, kind: PageKind, cause: Cause) -> Class {
        self.counters.reads[cause as usize][kind as usize] += 1;
        if cause.host_waits() {
            self.path_reads += 1;
            Class::HostRead
        } else {
            Class::CollectionRead
        }
    }

    /// Reads the data page of `lpn`. Panics when the page carries another LPN: then the mapping is wrong.
    #[inline]
    pub fn read_data(&mut self, ppn: Ppn, lpn: Lpn, cause: Cause, after: Done) -> Result<(Oob, Done)> {
        let class = self.count_read(PageKind::Data, cause);
        match self.nand.read(ppn, class, Sink::Host(lpn), after) {
            Ok((oob, done)) => {
                assert!(
                    oob.kind == PageKind::Data && oob.id == lpn.0,
                    "the mapping led from LPN {} to PPN {}, which holds {:?} {}",
                    lpn.0,
                    ppn.0,
                    oob.kind,
                    oob.id
                );
                Ok((oob, done))
            }
            Err(fault) => {
                self.counters.uncorrectable += 1;
                Err(fault)
            }
        }
    }

    /// Reads a valid page to move it. A page that cannot be read is known by its OOB (more strongly coded
    /// than data, so readable by a second attempt): it moves as lost.
    pub(crate) fn read_to_move(&mut self, ppn: Ppn, cause: Cause, after: Done) -> Result<(Oob, Done)> {
        self.read_to_move_into(ppn, Sink::Controller, cause, after)
    }

    fn read_to_move_into(&mut self, ppn: Ppn, to: Sink, cause: Cause, after: Done) -> Result<(Oob, Done)> {
        let kind = self.space.kind(self.space.superblock_of(ppn));
        let class = self.count_read(kind, cause);
        let failed = match self.nand.read(ppn, class, to, after) {
            Ok(read) => return Ok(read),
            Err(Fault::Uncorrectable { done, .. }) => done,
            Err(fault) => return Err(fault),
        };
        self.counters.uncorrectable += 1;
        if kind != PageKind::Data {
            let done = self.read_metadata(ppn, kind, cause, failed)?;
            let (oob, done) = self.scan(ppn, cause, done)?;
            return oob.map(|oob| (oob, done)).ok_or(Fault::Uncorrectable { ppn, done });
        }
        let (oob, done) = self.scan(ppn, cause, failed)?;
        let oob = oob.ok_or(Fault::Uncorrectable { ppn, done })?;
        Ok((Oob { lost: true, ..oob }, done))
    }

    /// Moves a translation page out of a superblock that is collected. Returns its id, where it is now, and
    /// the completions of the read and of the program.
    pub(crate) fn move_translation(&mut self, from: Ppn, after: Done) -> Result<(u32, Ppn, Done, Done)> {
        let (oob, read) = self.read_to_move(from, Cause::Collection, after)?;
        assert!(oob.kind == PageKind::Translation);
        let (stream, content, source) = (Stream::TRANSLATION, Content::of(oob), Source::Page(from));
        let (to, done) = self.program(stream, oob.kind, oob.id, content, source, Cause::Collection, read)?;
        self.invalidate(from);
        Ok((oob.id, to, read, done))
    }

    /// Reads a translation or metadata page into the controller's buffer, trying again when it cannot be
    /// read. [`Flash::buffer`] then lends it.
    #[inline]
    pub fn read_metadata(&mut self, ppn: Ppn, kind: PageKind, cause: Cause, after: Done) -> Result<Done> {
        let mut after = after;
        let mut attempt = 1;
        loop {
            let class = self.count_read(kind, cause);
            match self.nand.read(ppn, class, Sink::Controller, after) {
                Ok((_, done)) => return Ok(done),
                Err(Fault::Uncorrectable { done, .. }) if attempt < METADATA_ATTEMPTS => {
                    self.counters.uncorrectable += 1;
                    attempt += 1;
                    after = done;
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    /// The metadata page read last.
    #[inline]
    pub fn buffer(&self) -> &[u8] {
        self.nand.buffer()
    }

    /// Reads the OOB of a page that may be erased (`None`). For recovery.
    pub fn scan(&mut self, ppn: Ppn, cause: Cause, after: Done) -> Result<(Option<Oob>, Done)> {
        let class = self.count_read(PageKind::Data, cause);
        debug_assert!(class == Class::CollectionRead);
        self.pause_recovery(cause);
        self.nand.scan(ppn, after)
    }

    /// Recovery, which may look at every page of the array, does so in batches.
    pub(super) fn pause_recovery(&mut self, cause: Cause) {
        if cause != Cause::Recovery {
            return;
        }
        self.looked_at += 1;
        if self.looked_at.is_multiple_of(RECOVERY_BATCH) {
            self.nand.catch_up();
        }
    }

    /// Programs the next page of `stream` and marks it valid. A failed program is repeated on the next page.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub fn program(
        &mut self,
        stream: Stream,
        kind: PageKind,
        id: u32,
        content: Content,
        from: Source<'_>,
        cause: Cause,
        after: Done,
    ) -> Result<(Ppn, Done)> {
        let mut after = after;
        loop {
            match self.attempt(stream, kind, id, content, from, cause, after)? {
                Ok(programmed) => return Ok(programmed),
                Err(failed) => after = failed,
            }
        }
    }

    /// Programs the next page of `stream` once; the inner error is the completion of a program that failed.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn attempt(
        &mut self,
        stream: Stream,
        kind: PageKind,
        id: u32,
        content: Content,
        from: Source<'_>,
        cause: Cause,
        after: Done,
    ) -> Result<Result<(Ppn, Done), Done>> {
        let class = if cause.host_waits() { Class::HostWrite } else { Class::CollectionProgram };
        let mut after = after;
        let Some((ppn, epoch)) = self.space.allocate(&self.nand, stream, kind) else {
            return Err(self.no_superblock(stream));
        };
        if self.space.is_in_first_row(stream, ppn) {
            after = self.behind_the_gate(stream, ppn, epoch, cause, after);
        }
        let oob = Oob { kind, id, version: content.version, epoch, lost: content.lost };
        self.counters.programs[cause as usize][kind as usize] += 1;
        match self.nand.program(ppn, oob, class, from, after) {
            Ok(done) => {
                self.space.validate(ppn);
                Ok(Ok((ppn, done)))
            }
            Err(Fault::ProgramFailed { done, .. }) => {
                self.counters.programs_failed += 1;
                self.space.suspect(ppn);
                Ok(Err(done))
            }
            Err(fault) => Err(fault),
        }
    }

    /// Programs one page of a block that the caller manages itself ([`crate::log_block::pool::Pool`]): no
    /// stream, no second attempt.
    pub(crate) fn program_page(
        &mut self,
        ppn: Ppn,
        oob: Oob,
        from: Source<'_>,
        cause: Cause,
        after: Done,
    ) -> Result<Done> {
        let class = if cause.host_waits() { Class::HostWrite } else { Class::CollectionProgram };
        self.counters.programs[cause as usize][oob.kind as usize] += 1;
        let programmed = self.nand.program(ppn, oob, class, from, after);
        self.counters.programs_failed += u64::from(matches!(programmed, Err(Fault::ProgramFailed { .. })));
        programmed
    }

    /// Erases one NAND block that the caller manages itself.
    pub(crate) fn erase_block(&mut self, block: Pbn, cause: Cause, after: Done) -> Result<Done> {
        self.counters.erases[cause as usize] += 1;
        let erased = self.nand.erase(block, after);
        self.counters.erases_failed += u64::from(matches!(erased, Err(Fault::EraseFailed { .. })));
        erased
    }

    /// Marks a NAND block that the caller manages itself as bad.
    pub(crate) fn retire_block(&mut self, block: Pbn) {
        self.nand.retire(block);
    }

    /// What a page in the first row of a superblock waits for.
    ///
    /// A block that held nothing when the superblock was erased could take a page before the others are
    /// erased, and before what supersedes their pages is on flash. A power cut would then leave these pages
    /// in a superblock that looks as if it had been opened anew.
    ///
    /// For the host it also keeps the collection reserve in time, not only in the order of calls: a
    /// superblock that the host begins waits until the next `reserve` free ones are erased. Else host writes
    /// could fill what collection has freed in name before its copies are made, and a power cut would leave
    /// recovery without room.
    #[inline(never)]
    fn behind_the_gate(&mut self, stream: Stream, ppn: Ppn, epoch: u32, cause: Cause, after: Done) -> Done {
        let ready = self.ready[self.space.superblock_of(ppn) as usize];
        let after = self.nand.join(after, ready);
        if cause != Cause::Host {
            return after;
        }
        if self.gates[stream.0].0 != epoch {
            let mut open = Done::READY;
            for at in 0..self.reserve {
                if let Some((_, erased)) = self.space.free().nth(at) {
                    open = self.nand.join(open, erased);
                }
            }
            self.gates[stream.0] = (epoch, open);
        }
        self.nand.join(after, self.gates[stream.0].1)
    }

    /// Sets how many free superblocks must be erased before the host's stream begins another.
    pub(crate) fn keep_reserve(&mut self, superblocks: u32) {
        self.reserve = superblocks as usize;
    }

    /// Adds streams for host pages ([`Stream::further`]). For a placement that opens.
    pub fn add_streams(&mut self, streams: usize) {
        self.space.add_streams(streams);
        self.gates.resize(self.gates.len() + streams, (0, Done::READY));
    }

    /// As [`Space::lend`].
    pub(crate) fn lend(&mut self, stream: Stream, superblock: u32, units: std::ops::Range<u32>) {
        self.space.lend(&self.nand, stream, superblock, units);
    }

    /// Opens a superblock for data that streams may share, and gives it to one of them as a whole at first.
    pub(crate) fn open_lane(&mut self, stream: Stream) -> Option<u32> {
        let units = self.nand.geometry().units();
        self.space.open_lane(&self.nand, stream, 0..units)
    }

    /// A page is not needed any more. It stays readable until its superblock is erased.
    #[inline]
    pub fn invalidate(&mut self, ppn: Ppn) {
        self.space.invalidate(ppn);
    }

    /// Erases an emptied superblock and frees it. Waits for `after` and for every program so far: for the
    /// copies made out of it, and for whatever superseded its pages, so that no cut can lose both.
    ///
    /// Blocks that fail, or in which a program failed, are retired.
    pub fn erase(&mut self, superblock: u32, cause: Cause, after: Done) -> Result<Done> {
        let settled = self.settle();
        let after = self.join(settled, after);
        let units = self.nand.geometry().units();
        let (mut done, mut is_less) = (after, false);
        self.ready[superblock as usize] = Done::READY;
        for unit in 0..units {
            let block = Pbn(superblock * units + unit);
            if self.nand.is_bad(block) {
                continue;
            }
            if self.space.is_suspect(block) {
                self.nand.retire(block);
                is_less = true;
                continue;
            }
            if self.nand.written(block) == 0 {
                self.ready[superblock as usize] = after;
                continue;
            }
            self.counters.erases[cause as usize] += 1;
            match self.nand.erase(block, after) {
                Ok(erased) => done = self.join(done, erased),
                Err(Fault::EraseFailed { done: failed, .. }) => {
                    self.counters.erases_failed += 1;
                    self.nand.retire(block);
                    is_less = true;
                    done = self.join(done, failed);
                }
                Err(fault) => return Err(fault),
            }
        }
        let before = self.space.capacity_of(superblock);
        self.space.release(&self.nand, superblock, done);
        let is_half_lost = 2 * self.space.capacity_of(superblock) <= before;
        self.losses_in_a_row = if is_half_lost { self.losses_in_a_row + 1 } else { 0 };
        if is_less {
            self.worn |= self.space.usable_pages() < self.least_usable || self.runs_short();
        }
        Ok(done)
    }
}

/// What a program records beside kind and id.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    /// Version of the content: new, or that of the page it is copied from.
    pub version: u64,
    /// The content is lost.
    pub lost: bool,
}

impl Content {
    /// Intact content of this version.
    pub fn version(version: u64) -> Content {
        Content { version, lost: false }
    }

    /// The content of a page that is copied.
    pub fn of(oob: Oob) -> Content {
        Content { version: oob.version, lost: oob.lost }
    }

    /// Where its bytes come from: `intact`, unless they are lost.
    pub fn source(self, intact: Source<'_>) -> Source<'_> {
        if self.lost {
            Source::Nothing
        } else {
            intact
        }
    }
}
