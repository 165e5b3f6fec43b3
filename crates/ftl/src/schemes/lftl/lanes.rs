//! Which lane the host's next page goes to, and where lanes lie: what [`super::open`] decides, done.

use super::map::{Map, Trained};
use super::open::{Open, Sheet, ROOMY, SHARED};
use crate::flash::Flash;
use crate::list::NONE;
use crate::space::{State, Stream};
use nand::{Lpn, Nand, Pbn, Result};

/// Whether a stream can write another page where it is: what is left may lie in bad blocks.
#[inline]
fn has_room<N: Nand>(flash: &Flash<N>, stream: Stream) -> bool {
    flash.space.left(stream) > 0 && flash.space.upcoming(flash.nand(), stream).next().is_some()
}

impl Map {
    /// The stream that the host's next version of `lpn` is written to; `background` free superblocks begin a
    /// collection. A lane that has no room gets some, unless that takes another superblock: that one is
    /// opened when there is room for it ([`Map::lane_page`]).
    pub fn choose<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: Lpn, rest: u32, background: u32) -> Stream {
        let (owner, own) = self.open.wrote(lpn, rest, |stream| has_room(flash, stream));
        let lane = match own {
            Some(own) if has_room(flash, self.open.lanes()[own].stream) => own,
            _ if owner == SHARED => self.shared(flash, background),
            own => self.obtain(flash, owner, own, background),
        };
        self.open.choose(lane)
    }

    /// Finds room for a subspace whose lane, if it has one, is full. Returns the lane to write to; when that
    /// has no room, a superblock has to be opened for it.
    #[inline(never)]
    fn obtain<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        owner: u32,
        own: Option<usize>,
        background: u32,
    ) -> usize {
        self.forget_closed(flash);
        let spare = flash.free_superblocks().saturating_sub(background);
        if spare >= ROOMY {
            let slot = own.or_else(|| self.open.unused(|stream| has_room(flash, stream)));
            if let Some(lane) = self.obtain_own(flash, owner, slot, spare) {
                return lane;
            }
        }
        self.shared(flash, background)
    }

    /// The lane for the next shared page. Shared lanes take turns, so that no superblock stays open for the
    /// little that is left of it; and there are as many of them as have all dies together.
    fn shared<N: Nand>(&mut self, flash: &mut Flash<N>, background: u32) -> usize {
        if let Some(lane) = self.open.shared_lane() {
            if !has_room(flash, self.open.lanes()[lane].stream) {
                self.forget_closed(flash);
            } else if !self.open.is_turn_over() {
                return lane;
            }
        }
        if !self.open.is_wide(|stream| has_room(flash, stream)) {
            if let Some(lane) = self.widen(flash, background) {
                return lane;
            }
        }
        self.open.next_shared(|stream| has_room(flash, stream)).unwrap_or_else(|| {
            let fullest = self.fullest(flash).unwrap_or(0);
            self.hand_over(flash, fullest, SHARED);
            fullest
        })
    }

    /// Another lane for what everybody writes: where collection is near all that is left of superblocks
    /// that are open, else another superblock. `None`: every lane has room.
    #[inline(never)]
    fn widen<N: Nand>(&mut self, flash: &mut Flash<N>, background: u32) -> Option<usize> {
        self.forget_closed(flash);
        let is_near = flash.free_superblocks().saturating_sub(background) < ROOMY;
        let slot = self.open.unused(|stream| has_room(flash, stream))?;
        if self.take_free(flash, slot, SHARED, 0, is_near) {
            return Some(slot);
        }
        if let Some(fullest) = self.fullest(flash).filter(|_| is_near) {
            self.hand_over(flash, fullest, SHARED);
            return Some(fullest);
        }
        Some(self.move_on(flash, slot, SHARED))
    }

    /// The lane of a subspace that has the most pages left.
    fn fullest<N: Nand>(&self, flash: &Flash<N>) -> Option<usize> {
        self.open.fullest(|stream| if has_room(flash, stream) { flash.space.left(stream) } else { 0 })
    }

    /// A lane for an owner, as long as there is room to spare.
    fn obtain_own<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        owner: u32,
        slot: Option<usize>,
        spare: u32,
    ) -> Option<usize> {
        let depth = self.open.depth(owner, Open::generosity(spare));
        if let Some(slot) = slot {
            if self.take_free(flash, slot, owner, depth, false) {
                return Some(slot);
            }
            if self.may_open(flash, spare) {
                return Some(self.move_on(flash, slot, owner));
            }
            if self.take_free(flash, slot, owner, depth, true) {
                return Some(slot);
            }
        }
        let cold = self.open.cold(|stream| has_room(flash, stream))?;
        self.hand_over(flash, cold, owner);
        Some(cold)
    }

    /// Whether so little is unwritten in open superblocks that another one may be opened.
    fn may_open<N: Nand>(&self, flash: &Flash<N>, spare: u32) -> bool {
        let unwritten = |sheet: &Sheet| flash.space.unwritten(flash.nand(), sheet.superblock);
        let unwritten: u32 = self.open.sheets().iter().map(unwritten).sum();
        unwritten <= Open::allowance(flash.nand().geometry().superblock_pages(), spare)
    }

    /// Superblocks that a checkpoint closed, or that are full, are nobody's any more. A full lane is given
    /// up: else its superblock would stay open, and could not be collected, until its stream writes again.
    fn forget_closed<N: Nand>(&mut self, flash: &mut Flash<N>) {
        for at in 0..self.open.lanes().len() {
            let stream = self.open.lanes()[at].stream;
            let Some((superblock, _)) = flash.space.frontier(stream) else { continue };
            if !has_room(flash, stream) && !self.open.has_free(superblock) {
                flash.space.close(stream);
            }
        }
        let space = &flash.space;
        self.open.keep_sheets(|sheet| {
            space.state(sheet.superblock) == State::Open && space.epoch_of(sheet.superblock) == sheet.epoch
        });
    }

    /// Gives `owner` a lane of free units, if there are some.
    fn take_free<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        slot: usize,
        owner: u32,
        depth: u32,
        narrow: bool,
    ) -> bool {
        loop {
            let lists = &mut self.lists;
            let free = self.open.take_free(depth, narrow, |superblock, node| lists.divide(superblock, node));
            let Some((superblock, node)) = free else { return false };
            self.hand_over(flash, slot, owner);
            let stream = self.open.lanes()[slot].stream;
            flash.lend(stream, superblock, self.lists.units_of(node));
            self.open.put(slot, superblock, node);
            if has_room(flash, stream) {
                return true;
            }
            // The lane gave up another place for these bad blocks, perhaps the last one of a superblock.
            self.forget_closed(flash);
        }
    }

    /// A lane goes to another owner, or to another place: models are made of what was written to it.
    fn hand_over<N: Nand>(&mut self, flash: &mut Flash<N>, slot: usize, owner: u32) {
        self.close_lane(flash, slot);
        self.open.give(slot, owner);
    }

    /// A lane goes to `owner`, for whom another superblock is opened when there is room for it.
    fn move_on<N: Nand>(&mut self, flash: &mut Flash<N>, slot: usize, owner: u32) -> usize {
        self.hand_over(flash, slot, owner);
        flash.space.close(self.open.lanes()[slot].stream);
        slot
    }

    /// Models are made of what the owner of a lane wrote to it.
    fn close_lane<N: Nand>(&mut self, flash: &mut Flash<N>, slot: usize) {
        let lane = self.open.lanes()[slot];
        if lane.superblock == NONE {
            return;
        }
        let which = Trained::Lane(lane.superblock, lane.node);
        match lane.owner {
            NONE => {}
            SHARED => self.close(flash, which),
            subspace => self.close_of(flash, subspace, which),
        }
    }

    /// The superblock in which the lane of a stream has its next page. One is opened if there is none.
    pub fn lane_page<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        stream: Stream,
        background: u32,
    ) -> Result<u32> {
        let mut is_opened = false;
        loop {
            if let Some((superblock, _)) = flash.space.frontier(stream).filter(|_| has_room(flash, stream)) {
                return Ok(superblock);
            }
            let Some(lane) = self.open.lane_of(stream) else {
                unreachable!("stream {} has no lane", stream.0)
            };
            let owner = self.open.lanes()[lane].owner;
            let spare = flash.free_superblocks().saturating_sub(background);
            let is_all = owner == NONE || spare < ROOMY;
            let depth = if is_all { 0 } else { self.open.depth(owner, Open::generosity(spare)) };
            // All blocks of the lane may be bad; others of the superblock are not.
            if is_opened && self.take_free(flash, lane, owner, depth, true) {
                continue;
            }
            self.close_lane(flash, lane);
            let Some(superblock) = flash.open_lane(stream) else { return Err(flash.no_room(0, 1)) };
            let (units, nand) = (flash.nand().geometry().units(), flash.nand());
            self.lists.set(superblock, |unit| !nand.is_bad(Pbn(superblock * units + unit)));
            self.forget_closed(flash);
            let (epoch, lists) = (flash.space.epoch_of(superblock), &mut self.lists);
            let node = self.open.add_sheet(superblock, epoch, depth, |node| lists.divide(superblock, node));
            flash.lend(stream, superblock, self.lists.units_of(node));
            self.open.put(lane, superblock, node);
            is_opened = true;
        }
    }
}
