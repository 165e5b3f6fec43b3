//! The superblock that a collection empties, and what all collectors have in common.

use crate::checkpoint::Journal;
use crate::counters::Cause;
use crate::flash::Flash;
use crate::scheme::VictimPolicy;
use nand::{Done, Fault, Nand, PageKind, Ppn};

/// A closed superblock whose valid pages are taken one after the other, in the order in which they lie, until it can be
/// erased.
#[derive(Clone, Debug)]
pub(crate) struct Victim {
    superblock: u32,
    /// Valid pages when it was chosen, and pages gained when it is erased, at least 1.
    valid: u32,
    gain: u32,
    cursor: Ppn,
    end: Ppn,
    cause: Cause,
}

impl Victim {
    /// The superblock that `policy` chooses, taken out of those that can be chosen; `None` when none gains a page.
    pub fn choose<N: Nand>(flash: &mut Flash<N>, policy: VictimPolicy) -> Option<Victim> {
        let superblock = match policy {
            VictimPolicy::Greedy => flash.space.fewest_valid(),
            VictimPolicy::CostBenefit => flash.space.best_benefit(),
        }?;
        Some(Victim::take(flash, superblock, Cause::Collection))
    }

    /// The superblock that holds what has lain longest, to be rewritten.
    pub fn oldest<N: Nand>(flash: &mut Flash<N>) -> Option<Victim> {
        let superblock = flash.space.oldest()?;
        Some(Victim::take(flash, superblock, Cause::Rewrite))
    }

    fn take<N: Nand>(flash: &mut Flash<N>, superblock: u32, cause: Cause) -> Victim {
        let valid = flash.space.valid_in(superblock);
        let gain = flash.space.capacity_of(superblock).saturating_sub(valid).max(1);
        flash.space.collect(superblock);
        let (cursor, end) = flash.space.pages_of(superblock);
        Victim { superblock, valid, gain, cursor, end, cause }
    }

    /// Valid pages when it was chosen.
    pub fn valid(&self) -> u32 {
        self.valid
    }

    /// Why it is emptied.
    #[inline]
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// Steps for each page that the host writes, so that it is erased, after `steps` of them, when what it gains is used up. One
    /// that is rewritten gains nothing: it is done when half as much was written.
    pub fn pace(&self, steps: u32) -> u32 {
        match self.cause {
            Cause::Rewrite => 2,
            _ => steps.div_ceil(self.gain) + 1,
        }
    }

    /// What its pages are.
    #[inline]
    pub fn kind<N: Nand>(&self, flash: &Flash<N>) -> PageKind {
        flash.space.kind(self.superblock)
    }

    /// The first valid page that was not passed.
    #[inline]
    pub fn next<N: Nand>(&self, flash: &Flash<N>) -> Option<Ppn> {
        flash.space.next_valid(self.cursor, self.end)
    }

    /// Passes a page: it is dealt with.
    #[inline]
    pub fn pass(&mut self, ppn: Ppn) {
        self.cursor = Ppn(ppn.0 + 1);
    }

    /// Erases it after `done`. Trims are made durable first: else a cut could bring back a version older than one that only
    /// this superblock still held.
    pub fn erase<N: Nand>(
        &self,
        flash: &mut Flash<N>,
        journal: &mut Journal,
        done: Done,
    ) -> Result<Done, Fault> {
        journal.write_pending(flash)?;
        match self.kind(flash) {
            _ if self.cause == Cause::Rewrite => flash.counters.rewrites += 1,
            PageKind::Data => flash.counters.collections_data += 1,
            _ => flash.counters.collections_translation += 1,
        }
        flash.erase(self.superblock, self.cause, done)
    }
}

/// A collector: empties one superblock at a time, in steps.
pub(crate) trait Collects {
    /// How victims are chosen.
    fn policy(&self) -> VictimPolicy;

    /// The superblock that is being emptied.
    fn victim(&self) -> Option<&Victim>;

    /// Steps that emptying `victim` takes.
    fn steps(&self, victim: &Victim) -> u32;

    /// Begins to empty a superblock. Nothing is under way.
    fn begin(&mut self, victim: Victim);

    /// Whether anything is under way.
    #[inline]
    fn is_active(&self) -> bool {
        self.victim().is_some()
    }

    /// Whether what is under way is rewritten because it has lain long, and not collected for room.
    #[inline]
    fn is_rewriting(&self) -> bool {
        self.victim().is_some_and(|victim| victim.cause() == Cause::Rewrite)
    }

    /// Steps for each page that the host writes while something is under way.
    fn pace(&self) -> u32 {
        self.victim().map_or(1, |victim| victim.pace(self.steps(victim)))
    }

    /// Begins with the superblock that the policy chooses. `false`: there is none whose collection gains a page.
    fn start<N: Nand>(&mut self, flash: &mut Flash<N>) -> bool {
        let victim = Victim::choose(flash, self.policy());
        self.start_with(victim)
    }

    /// Begins to empty a superblock, if there is one.
    fn start_with(&mut self, victim: Option<Victim>) -> bool {
        let found = victim.is_some();
        if let Some(victim) = victim {
            self.begin(victim);
        }
        found
    }
}
