//! Garbage collection of a page-level FTL: one victim at a time, in steps.
//!
//! A data victim is emptied in two passes. First its valid pages are copied, while the mapping still leads to the
//! originals, which stay intact. Then the copies are *committed*: grouped by translation page, so that one read and one
//! program of a translation page serve all its moved pages (DFTL's batch update), and only if the host has not written
//! the page meanwhile. Then the victim is erased. Between steps the device is consistent at any moment, so the steps
//! can be spread over host writes, and a power cut needs no rule of its own.
//!
//! A *gathering* is the other kind of collection: it copies the pages of consecutive LPNs, wherever they lie, in order to
//! one stream, translation page by translation page, and commits them the same way. It frees nothing by itself, but leaves
//! the pages' old superblocks emptier.
//!
//! The list of moves (12 bytes a valid page of one victim) is working memory of the controller, the same for every
//! scheme, and not part of the mapping budget.

use super::victim::{Collects, Victim};
use super::{Mapping, Moved};
use crate::checkpoint::Journal;
use crate::counters::Cause;
use crate::flash::{Content, Flash};
use crate::list::NONE;
use crate::scheme::VictimPolicy;
use crate::space::Stream;
use crate::table::{entry_in, mapped, Table};
use nand::{Done, Fault, Lpn, Nand, PageKind, Ppn, Source, Vtpn};
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// Copying the victim's valid pages.
    Copying,
    /// Bringing the copies into the mapping, translation page by translation page.
    Committing,
}

/// Pages to bring together: those of consecutive LPNs, in order, into one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gathering {
    /// Whose pages.
    pub lpns: Range<u32>,
    /// Where to.
    pub stream: Stream,
    /// Why.
    pub cause: Cause,
    /// Steps for each page that the host writes.
    pub pace: u32,
}

/// The collection under way, if any.
#[derive(Clone, Debug)]
pub struct Collector {
    policy: VictimPolicy,
    phase: Phase,
    /// The superblock being emptied.
    victim: Option<Victim>,
    /// The gathering under way, with the LPNs still to come.
    gathering: Option<Gathering>,
    /// The pages of one translation page to gather, the next one last.
    plan: Vec<Ppn>,
    /// Where copies go.
    stream: Stream,
    cause: Cause,
    moves: Vec<Moved>,
    /// The next move in the same translation page, indexed like `moves`.
    next: Vec<u32>,
    /// The last move of each translation page, indexed by VTPN.
    heads: Vec<u32>,
    /// Translation pages with moves, in the order first met.
    touched: Vec<Vtpn>,
    group: Vec<Moved>,
    /// Completion of the copies and mapping updates of this victim.
    done: Done,
}

impl Collects for Collector {
    fn policy(&self) -> VictimPolicy {
        self.policy
    }

    fn victim(&self) -> Option<&Victim> {
        self.victim.as_ref()
    }

    /// A step copies a page, or commits the moves of a translation page.
    fn steps(&self, victim: &Victim) -> u32 {
        victim.valid() + victim.valid().min(self.heads.len() as u32)
    }

    fn begin(&mut self, victim: Victim) {
        (self.stream, self.cause) = (Stream::COLLECTION, victim.cause());
        self.victim = Some(victim);
        self.done = Done::READY;
        self.phase = Phase::Copying;
    }

    #[inline]
    fn is_active(&self) -> bool {
        self.phase != Phase::Idle
    }

    #[inline]
    fn is_rewriting(&self) -> bool {
        self.is_active() && self.cause == Cause::Rewrite
    }

    fn pace(&self) -> u32 {
        match (&self.gathering, &self.victim) {
            (Some(gathering), _) => gathering.pace,
            (None, Some(victim)) => victim.pace(self.steps(victim)),
            (None, None) => 1,
        }
    }
}

impl Collector {
    /// No collection under way, on a device with superblocks of `superblock_pages`.
    pub fn new(policy: VictimPolicy, superblock_pages: u32, table: &Table) -> Collector {
        let table_pages = table.pages();
        Collector {
            policy,
            phase: Phase::Idle,
            victim: None,
            gathering: None,
            plan: Vec::with_capacity(table.entries_per_page() as usize),
            stream: Stream::COLLECTION,
            cause: Cause::Collection,
            moves: Vec::with_capacity(superblock_pages as usize),
            next: Vec::with_capacity(superblock_pages as usize),
            heads: vec![NONE; table_pages as usize],
            touched: Vec::with_capacity(table_pages as usize),
            group: Vec::with_capacity(superblock_pages.max(table.entries_per_page()) as usize),
            done: Done::READY,
        }
    }

    /// Whether pages are being gathered.
    #[inline]
    pub fn is_gathering(&self) -> bool {
        self.gathering.is_some()
    }

    /// The moves of the victim under way: their copies are valid, and mapped once they are committed.
    pub fn moves(&self) -> &[Moved] {
        &self.moves
    }

    /// Starts bringing pages together.
    pub(crate) fn gather(&mut self, gathering: Gathering) {
        assert!(!self.is_active() && self.plan.is_empty());
        (self.stream, self.cause) = (gathering.stream, gathering.cause);
        self.gathering = Some(gathering);
        self.done = Done::READY;
        self.phase = Phase::Copying;
    }

    /// One step of the collection under way: a page copied, a translation page's moves committed, or the victim erased.
    #[inline]
    pub fn step<N: Nand, M: Mapping>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        mapping: &mut M,
        journal: &mut Journal,
    ) -> Result<(), Fault> {
        match self.phase {
            Phase::Idle => Ok(()),
            Phase::Copying if self.gathering.is_some() => match self.plan.pop() {
                Some(from) => self.copy(flash, table, from),
                None if !self.touched.is_empty() => {
                    self.phase = Phase::Committing;
                    Ok(())
                }
                None => self.plan_next(flash, table, mapping),
            },
            Phase::Copying => match self.victim.as_ref().and_then(|victim| victim.next(flash)) {
                Some(ppn) => self.copy(flash, table, ppn),
                None => {
                    self.phase = Phase::Committing;
                    Ok(())
                }
            },
            Phase::Committing => match self.touched.pop() {
                Some(vtpn) => self.commit(flash, table, mapping, vtpn),
                None if self.gathering.is_some() => {
                    self.moves.clear();
                    self.next.clear();
                    self.phase = Phase::Copying;
                    Ok(())
                }
                None => self.finish(flash, journal),
            },
        }
    }

    /// Finds the pages of the next translation page to gather: what memory holds of them, else what flash does. Ends the
    /// gathering after the last one.
    fn plan_next<N: Nand, M: Mapping>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        mapping: &mut M,
    ) -> Result<(), Fault> {
        let lpns = self.gathering.as_ref().map_or(0..0, |gathering| gathering.lpns.clone());
        if lpns.is_empty() {
            self.gathering = None;
            self.phase = Phase::Idle;
            match self.cause {
                Cause::Rewrite => flash.counters.rewrites += 1,
                _ => flash.counters.collections_group += 1,
            }
            mapping.gathered();
            return Ok(());
        }
        let (vtpn, slot) = table.place(Lpn(lpns.start));
        let end = lpns.end.min(table.first_lpn(vtpn).0 + table.lpns_in(vtpn));
        let loaded = table.load(flash, vtpn, Cause::Training, Done::READY)?;
        for lpn in (lpns.start..end).rev() {
            let slot = slot + lpn - lpns.start;
            let on_flash = || loaded.and_then(|_| mapped(entry_in(flash.buffer(), slot)));
            if let Some(ppn) = mapping.held(table, Lpn(lpn)).unwrap_or_else(on_flash) {
                self.plan.push(ppn);
            }
        }
        self.done = flash.join(self.done, loaded.unwrap_or(Done::READY));
        if let Some(gathering) = &mut self.gathering {
            gathering.lpns.start = end;
        }
        Ok(())
    }

    /// Copies one valid page. A translation page is committed at once: that is one entry of the directory.
    fn copy<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, from: Ppn) -> Result<(), Fault> {
        if self.gathering.is_some() {
            if !flash.space.is_valid(from) {
                return Ok(());
            }
        } else if self.victim.as_ref().is_some_and(|victim| victim.kind(flash) == PageKind::Translation) {
            let done = table.relocate(flash, from, Done::READY)?;
            self.done = flash.join(self.done, done);
            flash.counters.moved(PageKind::Translation, 1, self.cause);
            self.pass(from);
            return Ok(());
        }
        let (oob, read) = flash.read_to_move(from, self.cause, Done::READY)?;
        assert!(oob.kind == PageKind::Data);
        let source = if oob.lost { Source::Nothing } else { Source::Page(from) };
        let (to, done) =
            flash.program(self.stream, PageKind::Data, oob.id, Content::of(oob), source, self.cause, read)?;
        flash.counters.moved(PageKind::Data, 1, self.cause);
        self.pass(from);
        let lpn = Lpn(oob.id);
        let (vtpn, slot) = table.place(lpn);
        let head = &mut self.heads[vtpn.0 as usize];
        if *head == NONE {
            self.touched.push(vtpn);
        }
        self.next.push(*head);
        *head = self.moves.len() as u32;
        self.moves.push(Moved { lpn, slot, from, to, done });
        Ok(())
    }

    /// Brings the moves of one translation page into the mapping, except where the host wrote or trimmed meanwhile.
    fn commit<N: Nand, M: Mapping>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        mapping: &mut M,
        vtpn: Vtpn,
    ) -> Result<(), Fault> {
        self.group.clear();
        let mut at = std::mem::replace(&mut self.heads[vtpn.0 as usize], NONE);
        while at != NONE {
            let moved = self.moves[at as usize];
            if flash.space.is_valid(moved.from) {
                self.group.push(moved);
            } else {
                flash.invalidate(moved.to);
            }
            at = self.next[at as usize];
        }
        if !self.group.is_empty() {
            let done = mapping.moved(flash, table, vtpn, &self.group)?;
            self.done = flash.join(self.done, done);
            for moved in &self.group {
                flash.invalidate(moved.from);
            }
        }
        Ok(())
    }

    fn pass(&mut self, ppn: Ppn) {
        if let Some(victim) = &mut self.victim {
            victim.pass(ppn);
        }
    }

    fn finish<N: Nand>(&mut self, flash: &mut Flash<N>, journal: &mut Journal) -> Result<(), Fault> {
        if let Some(victim) = &self.victim {
            victim.erase(flash, journal, self.done)?;
        }
        self.victim = None;
        self.moves.clear();
        self.next.clear();
        self.phase = Phase::Idle;
        Ok(())
    }
}
