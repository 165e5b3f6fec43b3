//! Room: collection in steps beside the host's requests, so that every page operation finds free superblocks.

use super::victim::{Collects, Victim};
use crate::flash::Flash;
use crate::scheme::Config;
use crate::space::Stream;
use nand::{Done, Fault, Nand};

/// Free superblocks at which something has to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    /// With fewer, a page operation waits for a collection to end.
    pub foreground: u32,
    /// With so many or fewer, writes carry collection along.
    pub background: u32,
}

impl Thresholds {
    /// As configured.
    pub fn new(config: &Config) -> Thresholds {
        Thresholds { foreground: config.foreground_superblocks, background: config.background_superblocks }
    }
}

/// An FTL that collects one superblock at a time, in steps between which the device is consistent.
pub(crate) trait KeepsRoom {
    /// What empties superblocks.
    type Collector: Collects;

    /// When to collect.
    fn thresholds(&self) -> Thresholds;

    /// The collector.
    fn collector(&self) -> &Self::Collector;

    /// The collector, to begin something.
    fn collector_mut(&mut self) -> &mut Self::Collector;

    /// One step of the collection under way.
    fn step<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<(), Fault>;

    /// Writes one translation page for which memory holds newer mappings; `None` when there is no such page left.
    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>, Fault>;

    /// Whether something beside the want of free superblocks asks for collection.
    #[inline]
    fn is_due(&self) -> bool {
        false
    }

    /// Starts rewriting what has lain longest. `false`: there is nothing.
    fn start_rewriting<N: Nand>(&mut self, flash: &mut Flash<N>) -> bool {
        let oldest = Victim::oldest(flash);
        self.collector_mut().start_with(oldest)
    }

    /// Starts what should be done beside the host's writes. `false`: nothing.
    fn start<N: Nand>(&mut self, flash: &mut Flash<N>) -> bool {
        flash.free_superblocks() <= self.thresholds().background && self.collector_mut().start(flash)
    }

    /// Free superblocks that the collection under way needs beside the foreground threshold.
    fn held(&self) -> u32 {
        0
    }

    /// Makes sure that the page operation that follows finds room; `writes` names the stream of one that writes.
    #[inline]
    fn make_room<N: Nand>(&mut self, flash: &mut Flash<N>, writes: Option<Stream>) -> Result<(), Fault> {
        self.make_room_for(flash, writes, 1)
    }

    /// As [`KeepsRoom::make_room`], for so many pages of one stream, which take what is left of a superblock at most.
    #[inline]
    fn make_room_for<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        writes: Option<Stream>,
        pages: u32,
    ) -> Result<(), Fault> {
        let enough = flash.free_superblocks() > self.thresholds().background;
        if enough && !self.collector().is_active() && !self.is_due() {
            return Ok(());
        }
        self.make_room_slowly(flash, writes, pages)
    }

    /// The part of [`KeepsRoom::make_room_for`] in which something is done.
    ///
    /// On a full device only writes are refused: reads, whose lookups may write little, go on with the reserve.
    #[inline(never)]
    fn make_room_slowly<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        writes: Option<Stream>,
        pages: u32,
    ) -> Result<(), Fault> {
        let has_reserve = |flash: &Flash<N>| writes.is_none() && flash.free_superblocks() > 0;
        if flash.full && has_reserve(flash) {
            return Ok(());
        }
        if writes.is_some() && (self.collector().is_active() || self.start(flash)) {
            // Rewriting has a pace of its own, until room is wanted.
            let waits =
                self.collector().is_rewriting() && flash.free_superblocks() > self.thresholds().background;
            for _ in 0..if waits { 0 } else { self.collector().pace() * pages } {
                self.step(flash)?;
            }
        }
        let mut collections = 0;
        while self.is_short(flash, writes) {
            let nothing = !self.collector().is_active() && !self.collector_mut().start(flash);
            collections += 1;
            if nothing || collections > 8 * flash.nand().geometry().superblocks() {
                let (free, needed) = (flash.free_superblocks(), self.needed(flash, writes));
                flash.full = true;
                return if has_reserve(flash) { Ok(()) } else { Err(Fault::NoSpace { free, needed }) };
            }
            flash.counters.foreground_collections += 1;
            self.finish_collection(flash)?;
        }
        flash.full = false;
        Ok(())
    }

    /// Whether the reserve would be touched by the next page operation.
    fn is_short<N: Nand>(&self, flash: &Flash<N>, writes: Option<Stream>) -> bool {
        flash.free_superblocks() < self.needed(flash, writes)
    }

    /// Free superblocks that the next page operation needs so that the reserve is not touched.
    fn needed<N: Nand>(&self, flash: &Flash<N>, writes: Option<Stream>) -> u32 {
        let opens = u32::from(writes.is_some_and(|stream| flash.space.left(stream) == 0));
        self.thresholds().foreground + self.held() + opens
    }

    /// Ends the collection under way, if any.
    fn finish_collection<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<(), Fault> {
        while self.collector().is_active() {
            self.step(flash)?;
        }
        Ok(())
    }

    /// Uses a moment in which the host asks for nothing: a step for each parallel unit. `None`: nothing to do.
    fn use_pause<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>, Fault> {
        if !self.collector().is_active() && !self.start(flash) {
            return Ok(None);
        }
        self.step_in_each_unit(flash).map(Some)
    }

    /// Rewrites some of what has lain longest, at the same rate; but first ends what is under way, and makes room. `None`:
    /// there is nothing to rewrite, or no room.
    fn rewrite_some<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>, Fault> {
        let room = flash.free_superblocks() > self.thresholds().background;
        let busy = self.collector().is_active() || self.start(flash) || room && self.start_rewriting(flash);
        if !busy {
            return Ok(None);
        }
        self.step_in_each_unit(flash).map(Some)
    }

    /// A step for each parallel unit.
    fn step_in_each_unit<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done, Fault> {
        for _ in 0..flash.nand().geometry().units() {
            self.step(flash)?;
        }
        Ok(flash.settle())
    }

    /// Ends the collection under way and makes every mapping on flash current.
    fn clean_all<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done, Fault> {
        self.finish_collection(flash)?;
        let mut done = Done::READY;
        loop {
            self.make_room(flash, None)?;
            match self.clean_one(flash)? {
                Some(cleaned) => done = flash.join(done, cleaned),
                None => return Ok(done),
            }
        }
    }
}
