//! Garbage collection: one superblock at a time is emptied, in steps, between which the device is consistent.
//!
//! A collection goes victim -> pages taken ([`Copies::take`]) -> mapping told ([`Copies::commit`]) -> erase.
//! Pages are copied while the mapping still leads to the originals, which stay intact. Then the copies are
//! *committed*, and only if the host has not written the page meanwhile. Then the victim is erased. So the
//! steps can be spread over host writes, and a power cut needs no rule of its own.
//!
//! Usually ([`Grouped`]) all pages of a victim are copied first, and committed grouped by translation page,
//! so that one read and one program of a translation page serve all its moved pages (DFTL's batch update).
//!
//! A *gathering* is the other kind of collection: it copies the pages of consecutive LPNs, wherever they lie,
//! in order to one stream, translation page by translation page, and commits them the same way. It frees
//! nothing by itself, but leaves the pages' old superblocks emptier.
//!
//! The list of moves (12 bytes a valid page of one victim) is working memory of the controller, the same for
//! every scheme, and not part of the mapping budget.

use super::placement::{Copies, Gathering, Parts, Placement};
use crate::checkpoint::Journal;
use crate::counters::Cause;
use crate::flash::{Content, Flash};
use crate::list::NONE;
use crate::mapping::{Mapping, Moved, Pages, Update};
use crate::scheme::VictimPolicy;
use crate::space::Stream;
use crate::table::mapped;
use nand::{Done, Lpn, Nand, Oob, PageKind, Ppn, Result, Source, Vtpn};
use std::ops::Range;

/// A closed superblock whose valid pages are taken one after the other, in the order in which they lie, until
/// it can be erased.
#[derive(Clone, Debug)]
struct Victim {
    superblock: u32,
    /// Valid pages when it was chosen, and pages gained when it is erased, at least 1.
    valid: u32,
    gain: u32,
    cursor: Ppn,
    end: Ppn,
    /// Units of a superblock.
    units: u32,
    /// The units whose pages are taken now; empty before the first are.
    lane: Range<u32>,
    cause: Cause,
}

impl Victim {
    /// The superblock that `policy` chooses, taken out of those that can be chosen; `None` when none gains a
    /// page.
    fn choose<N: Nand>(flash: &mut Flash<N>, policy: VictimPolicy) -> Option<Victim> {
        let superblock = match policy {
            VictimPolicy::Greedy => flash.space.fewest_valid(),
            VictimPolicy::CostBenefit => flash.space.best_benefit(),
        }?;
        Some(Victim::for_room(flash, superblock))
    }

    /// This one, for room.
    fn for_room<N: Nand>(flash: &mut Flash<N>, superblock: u32) -> Victim {
        if flash.space.kind(superblock) == PageKind::Data {
            flash.space.empties(superblock);
        }
        Victim::take(flash, superblock, Cause::Collection)
    }

    /// The superblock that holds what has lain longest, to be rewritten.
    fn oldest<N: Nand>(flash: &mut Flash<N>) -> Option<Victim> {
        let superblock = flash.space.oldest()?;
        Some(Victim::take(flash, superblock, Cause::Rewrite))
    }

    fn take<N: Nand>(flash: &mut Flash<N>, superblock: u32, cause: Cause) -> Victim {
        let valid = flash.space.valid_in(superblock);
        let gain = flash.gain_of(superblock).max(1);
        flash.space.collect(superblock);
        let (cursor, end) = flash.space.pages_of(superblock);
        let units = flash.nand().geometry().units();
        Victim { superblock, valid, gain, cursor, end, units, lane: 0..0, cause }
    }

    /// Steps for each page that the host writes, so that it is erased, after `steps` of them, when what it
    /// gains is used up. One that is rewritten gains nothing: it is done when half as much was written.
    fn pace(&self, steps: u32) -> u32 {
        match self.cause {
            Cause::Rewrite => 2,
            _ => steps.div_ceil(self.gain) + 1,
        }
    }

    /// What its pages are.
    #[inline]
    fn kind<N: Nand>(&self, flash: &Flash<N>) -> PageKind {
        flash.space.kind(self.superblock)
    }

    /// The first valid page that was not passed. Pages that were written as one lane are taken in the order
    /// in which they were written.
    #[inline]
    fn next<N: Nand, M: Mapping, P: Placement<M>>(
        &mut self,
        flash: &Flash<N>,
        parts: &Parts<M, P>,
    ) -> Option<Ppn> {
        let units = self.units;
        loop {
            let found = match self.lane.len() as u32 {
                0 => None,
                all if all == units => flash.space.next_valid(self.cursor, self.end),
                _ => flash.space.next_valid_in(self.cursor, self.end, &self.lane),
            };
            if found.is_some() || self.lane.end == units {
                return found;
            }
            let lane = parts.placement.lane(&parts.mapping, self.superblock, self.lane.end);
            self.lane = lane.start..lane.end.min(units);
            self.cursor = flash.space.pages_of(self.superblock).0;
        }
    }

    /// Passes a page: it is dealt with.
    #[inline]
    fn pass(&mut self, ppn: Ppn) {
        self.cursor = Ppn(ppn.0 + 1);
    }

    /// Erases it after `done`. Trims are made durable first: else a cut could bring back a version older than
    /// one that only this superblock still held.
    fn erase<N: Nand>(&self, flash: &mut Flash<N>, journal: &mut Journal, done: Done) -> Result<Done> {
        journal.write_pending(flash)?;
        match self.kind(flash) {
            _ if self.cause == Cause::Rewrite => flash.counters.rewrites += 1,
            PageKind::Data => flash.counters.collections_data += 1,
            _ => flash.counters.collections_translation += 1,
        }
        flash.erase(self.superblock, self.cause, done)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// Taking pages.
    Taking,
    /// Bringing the copies into the mapping.
    Committing,
}

/// The collection under way, if any. `C` is what becomes of the pages taken.
#[derive(Clone, Debug)]
pub struct Collector<C> {
    policy: VictimPolicy,
    phase: Phase,
    /// The superblock being emptied.
    victim: Option<Victim>,
    gathering: Option<Gathering>,
    /// Pages to gather, the next one last.
    next: Vec<Ppn>,
    /// Where copies go, and why.
    stream: Stream,
    cause: Cause,
    copies: C,
    /// Completion of the copies and mapping updates.
    done: Done,
}

impl<C> Collector<C> {
    /// No collection under way.
    pub(crate) fn new(policy: VictimPolicy, copies: C, unit: u32) -> Collector<C> {
        Collector {
            policy,
            phase: Phase::Idle,
            victim: None,
            gathering: None,
            next: Vec::with_capacity(unit as usize),
            stream: Stream::COLLECTION,
            cause: Cause::Collection,
            copies,
            done: Done::READY,
        }
    }

    /// Whether anything is under way.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// Whether what is under way is rewritten because it has lain long, and not collected for room.
    #[inline]
    pub fn is_rewriting(&self) -> bool {
        self.is_active() && self.cause == Cause::Rewrite
    }

    /// Whether pages are being gathered.
    #[inline]
    pub fn is_gathering(&self) -> bool {
        self.gathering.is_some()
    }

    /// The pages taken from the victim under way.
    pub fn copies(&self) -> &C {
        &self.copies
    }

    /// Begins with the superblock that the policy chooses. `false`: there is none whose collection gains a
    /// page.
    pub fn start<N: Nand>(&mut self, flash: &mut Flash<N>) -> bool {
        let victim = Victim::choose(flash, self.policy);
        self.empty(victim)
    }

    /// The same while a write waits for room: with the superblock that gains most. An old one that gains
    /// little may cost more pages of mapping than it gains.
    pub fn start_for_room<N: Nand>(&mut self, flash: &mut Flash<N>) -> bool {
        let victim = Victim::choose(flash, VictimPolicy::Greedy);
        self.empty(victim)
    }

    /// Begins with this closed superblock.
    pub(crate) fn start_with<N: Nand>(&mut self, flash: &mut Flash<N>, superblock: u32) {
        let victim = Victim::for_room(flash, superblock);
        self.empty(Some(victim));
    }

    /// Begins to rewrite the superblock that holds what has lain longest. `false`: there is none.
    pub fn start_rewriting<N: Nand>(&mut self, flash: &mut Flash<N>) -> bool {
        let victim = Victim::oldest(flash);
        self.empty(victim)
    }

    fn empty(&mut self, victim: Option<Victim>) -> bool {
        let Some(victim) = victim else { return false };
        self.begin(Stream::COLLECTION, victim.cause);
        self.victim = Some(victim);
        true
    }

    /// Starts bringing pages together.
    pub(crate) fn gather(&mut self, gathering: Gathering) {
        self.begin(gathering.stream, gathering.cause);
        self.gathering = Some(gathering);
    }

    fn begin(&mut self, stream: Stream, cause: Cause) {
        assert!(!self.is_active() && self.next.is_empty());
        (self.stream, self.cause, self.done, self.phase) = (stream, cause, Done::READY, Phase::Taking);
    }

    /// Steps for each page that the host writes while something is under way.
    pub(crate) fn pace<M: Mapping, P>(&self) -> u32
    where
        C: Copies<M, P>,
    {
        match (&self.gathering, &self.victim) {
            (Some(gathering), _) => gathering.pace,
            (None, Some(victim)) => victim.pace(self.copies.steps(victim.valid)),
            (None, None) => 1,
        }
    }

    /// One step of the collection under way: a page taken, some committed, or the victim erased.
    #[inline]
    pub(crate) fn step<N: Nand, M: Mapping, P: Placement<M, Copies = C>>(
        &mut self,
        flash: &mut Flash<N>,
        parts: &mut Parts<M, P>,
        journal: &mut Journal,
    ) -> Result<()>
    where
        C: Copies<M, P>,
    {
        match self.phase {
            Phase::Idle => Ok(()),
            Phase::Taking if self.gathering.is_some() => match self.next.pop() {
                Some(from) if !flash.space.is_valid(from) => Ok(()),
                Some(from) => self.take(flash, parts, from),
                None if self.copies.is_empty() => self.next_pages(flash, parts),
                None => self.commit_from_now_on(),
            },
            Phase::Taking => match self.victim.as_mut().and_then(|victim| victim.next(flash, parts)) {
                Some(from) if self.is_translation(flash) => self.relocate(flash, parts, from),
                Some(from) if self.copies.has_room() => self.take(flash, parts, from),
                None if C::IN_PIECES && self.copies.is_empty() => self.finish(flash, journal),
                _ => self.commit_from_now_on(),
            },
            Phase::Committing => match self.copies.commit(flash, parts, self.cause)? {
                Some(done) => {
                    self.done = flash.join(self.done, done);
                    Ok(())
                }
                None if C::IN_PIECES || self.gathering.is_some() => {
                    self.phase = Phase::Taking;
                    Ok(())
                }
                None => self.finish(flash, journal),
            },
        }
    }

    fn commit_from_now_on(&mut self) -> Result<()> {
        self.phase = Phase::Committing;
        Ok(())
    }

    fn is_translation<N: Nand>(&self, flash: &Flash<N>) -> bool {
        self.victim.as_ref().is_some_and(|victim| victim.kind(flash) == PageKind::Translation)
    }

    /// Takes one valid data page.
    fn take<N: Nand, M: Mapping, P>(
        &mut self,
        flash: &mut Flash<N>,
        parts: &mut Parts<M, P>,
        from: Ppn,
    ) -> Result<()>
    where
        C: Copies<M, P>,
    {
        let done = self.copies.take(flash, parts, from, self.stream, self.cause)?;
        self.done = flash.join(self.done, done);
        let of_group = self.gathering.is_some() && self.cause != Cause::Rewrite;
        flash.counters.moved_group += u64::from(of_group);
        self.pass(from);
        Ok(())
    }

    /// Moves a translation page, which is committed at once: that is one entry of the directory.
    fn relocate<N: Nand, M: Mapping, P>(
        &mut self,
        flash: &mut Flash<N>,
        parts: &mut Parts<M, P>,
        from: Ppn,
    ) -> Result<()> {
        let done = parts.pages.relocate(flash, from, Done::READY)?;
        self.done = flash.join(self.done, done);
        flash.counters.moved(PageKind::Translation, 1, self.cause);
        self.pass(from);
        Ok(())
    }

    fn pass(&mut self, ppn: Ppn) {
        if let Some(victim) = &mut self.victim {
            victim.pass(ppn);
        }
    }

    /// Finds the next pages to gather. Ends the gathering after the last ones.
    fn next_pages<N: Nand, M: Mapping, P: Placement<M>>(
        &mut self,
        flash: &mut Flash<N>,
        parts: &mut Parts<M, P>,
    ) -> Result<()> {
        match parts.placement.next_pages(&mut parts.mapping, &parts.pages, flash, &mut self.next)? {
            Some(known) => self.done = flash.join(self.done, known),
            None => {
                self.gathering = None;
                self.phase = Phase::Idle;
                if self.cause == Cause::Rewrite {
                    flash.counters.rewrites += 1;
                }
            }
        }
        Ok(())
    }

    fn finish<N: Nand>(&mut self, flash: &mut Flash<N>, journal: &mut Journal) -> Result<()> {
        if let Some(victim) = &self.victim {
            victim.erase(flash, journal, self.done)?;
        }
        self.victim = None;
        self.phase = Phase::Idle;
        Ok(())
    }
}

/// Reads a page and programs its copy.
pub(crate) fn copy<N: Nand, M: Mapping, P: Placement<M>>(
    flash: &mut Flash<N>,
    parts: &mut Parts<M, P>,
    from: Ppn,
    stream: Stream,
    cause: Cause,
) -> Result<Moved> {
    let read = flash.read_to_move(from, cause, Done::READY)?;
    program_copy(flash, parts, from, read, stream, cause)
}

/// Programs the copy of a page that was read.
fn program_copy<N: Nand, M: Mapping, P: Placement<M>>(
    flash: &mut Flash<N>,
    parts: &mut Parts<M, P>,
    from: Ppn,
    (oob, read): (Oob, Done),
    stream: Stream,
    cause: Cause,
) -> Result<Moved> {
    assert!(oob.kind == PageKind::Data);
    let (lpn, content) = (Lpn(oob.id), Content::of(oob));
    let source = content.source(Source::Page(from));
    let (placement, mapping) = (&mut parts.placement, &mut parts.mapping);
    let (to, done) = placement.program(mapping, flash, stream, lpn, content, source, cause, read)?;
    flash.counters.moved(PageKind::Data, 1, cause);
    let slot = parts.pages.units().place(lpn).1;
    Ok(Moved { lpn, slot, from, to, done })
}

impl Grouped {
    /// The commit of the group failed half-way, at the end of the device's life: of each page and its copy
    /// the one that is not mapped is garbage.
    fn keep_what_is_mapped<N: Nand, M: Mapping, P>(
        &self,
        flash: &mut Flash<N>,
        parts: &Parts<M, P>,
        unit: Vtpn,
    ) {
        let units = parts.pages.units();
        let mut entries = Vec::new();
        parts.each_entry(flash, units.first_lpn(unit), units.lpns_in(unit), |_, entry| entries.push(entry));
        for moved in &self.group {
            for ppn in [moved.from, moved.to] {
                if flash.space.is_valid(ppn) && mapped(entries[moved.slot as usize]) != Some(ppn) {
                    flash.invalidate(ppn);
                }
            }
        }
    }
}

/// Copies that are committed when all pages are copied, unit by unit.
#[derive(Clone, Debug)]
pub struct Grouped {
    moves: Vec<Moved>,
    /// The next move in the same unit, indexed like `moves`.
    next: Vec<u32>,
    /// The last move of each unit.
    heads: Vec<u32>,
    /// Units with moves, in the order first met.
    touched: Vec<Vtpn>,
    group: Vec<Moved>,
}

impl<M: Update, P: Placement<M>> Copies<M, P> for Grouped {
    const IN_PIECES: bool = false;

    fn new<N: Nand>(flash: &Flash<N>, parts: &Parts<M, P>) -> Grouped {
        let (units, superblock) = (parts.pages.units(), flash.nand().geometry().superblock_pages());
        Grouped {
            moves: Vec::with_capacity(superblock as usize),
            next: Vec::with_capacity(superblock as usize),
            heads: vec![NONE; units.count() as usize],
            touched: Vec::with_capacity(units.count() as usize),
            group: Vec::with_capacity(superblock.max(units.size()) as usize),
        }
    }

    /// A step copies a page, or commits the moves of a unit.
    fn steps(&self, valid: u32) -> u32 {
        valid + valid.min(self.heads.len() as u32)
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.touched.is_empty()
    }

    fn take<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        parts: &mut Parts<M, P>,
        from: Ppn,
        stream: Stream,
        cause: Cause,
    ) -> Result<Done> {
        let (oob, read) = flash.read_to_move(from, cause, Done::READY)?;
        if parts.mapping.supersedes(flash, Lpn(oob.id), from) {
            flash.invalidate(from);
            return Ok(read);
        }
        let moved = program_copy(flash, parts, from, (oob, read), stream, cause)?;
        let unit = parts.pages.units().place(moved.lpn).0;
        let head = &mut self.heads[unit.0 as usize];
        if *head == NONE {
            self.touched.push(unit);
        }
        self.next.push(*head);
        *head = self.moves.len() as u32;
        self.moves.push(moved);
        Ok(Done::READY)
    }

    /// The moves of one unit, except where the host wrote or trimmed meanwhile.
    fn commit<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        parts: &mut Parts<M, P>,
        _cause: Cause,
    ) -> Result<Option<Done>> {
        let Some(unit) = self.touched.pop() else {
            self.moves.clear();
            self.next.clear();
            return Ok(None);
        };
        self.group.clear();
        let mut at = std::mem::replace(&mut self.heads[unit.0 as usize], NONE);
        while at != NONE {
            let moved = self.moves[at as usize];
            if flash.space.is_valid(moved.from) {
                self.group.push(moved);
            } else {
                flash.invalidate(moved.to);
            }
            at = self.next[at as usize];
        }
        if self.group.is_empty() {
            return Ok(Some(Done::READY));
        }
        let done = match parts.mapping.moved(flash, &mut parts.pages, &self.group) {
            Ok(done) => done,
            Err(fault) => {
                self.keep_what_is_mapped(flash, parts, unit);
                return Err(fault);
            }
        };
        for moved in &self.group {
            flash.invalidate(moved.from);
        }
        Ok(Some(done))
    }

    fn each(&self, each: &mut dyn FnMut(Ppn)) {
        self.moves.iter().for_each(|moved| each(moved.to));
    }
}
