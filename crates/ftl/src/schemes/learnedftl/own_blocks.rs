//! Group-based allocation to the letter (LearnedFTL, III-D and III-E2; `allocation=group`): each group of GTD
//! entries has blocks of its own, and room is made by collecting whole groups.
//!
//! | paper's term | here |
//! | --- | --- |
//! | GTD entry group | as many LPNs as a superblock has pages |
//! | the contiguous blocks that it is allocated at a time | a superblock |
//! | full blocks are replaced by empty ones | [`OwnBlocks::place`], first case |
//! | opportunistic cross-group allocation | second case |
//! | collection of the group with the most invalid pages | [`OwnBlocks::choose`] |
//! | the encroaching and the encroached group are collected | those that wrote to its blocks go with it |
//! | the number of a group's blocks reaches a threshold | parameter `blocks` |
//! | the amount of encroachment reaches a threshold | parameter `encroachment` |
//! | steps 1 and 2: valid pages in the order of LPNs to new blocks | `collect`, `next_pages` |
//! | at most 64 translation pages are updated | those of the group, each once, by [`Grouped`] |
//!
//! **Room.** All pages of a group move, so that a collection gains what of the group's blocks is invalid, and
//! costs the group. On a device with g groups and room for s superblocks beside them, s superblocks can be
//! written until all g groups have to be collected: a page costs `1 + g / s` programs under random writes.
//! Without cross-group allocation each group needs an open superblock beside its full one, s >= g: else the
//! open ones have to be taken from groups that have hardly written to them, for a whole group's moves each.
//! So a device of which more than half is in use is refused there. With it, groups share what is open, and
//! few superblocks are enough.
//!
//! What the paper leaves open:
//! - **Blocks without a valid page** are erased before any group is collected, and blocks of translation
//!   pages are collected where that costs less than a group.
//! - **Encroaching** goes to the open superblock with the most free pages, and comes before any collection. A
//!   group stays there until it is full: so few groups share one. Where each group can have an open
//!   superblock of its own, nobody encroaches: a group that has filled two frees one when it is collected.
//! - **Who wrote to which superblock** is known by a bit for each group and superblock. The groups that wrote
//!   to a group's blocks are collected with it, and then all of these blocks are empty.
//! - **When** room for a group's copies has run out, or a collection has left no more superblocks free, the
//!   superblock with the fewest valid pages is emptied, as in other schemes: also one that a group writes to.
//!   Else a device could be full of half-written superblocks with nothing invalid to collect.
//! - After a recovery a superblock belongs to the group that most of its valid pages are of.

use super::groups::{next_of, GroupsToRewrite};
use super::LearnedTable;
use crate::bits;
use crate::breach::Breach;
use crate::counters::Cause;
use crate::engine::collector::Grouped;
use crate::engine::{Gathering, Placement, Room};
use crate::flash::{Content, Flash};
use crate::list::NONE;
use crate::scheme::{Config, ConfigError, Memory};
use crate::space::{State, Stream};
use crate::table::Table;
use nand::{Done, Lpn, Nand, PageKind, Ppn, Result, Source};
use std::ops::Range;

/// Free superblocks that the host leaves for a collection: two for the copies, as one may hold bad blocks,
/// and one for its mapping updates.
const FOR_A_COLLECTION: u32 = 3;
/// Bytes of a group: counts of its mapped pages, of those in others' blocks and of invalid ones (3 each),
/// where it writes, and how many superblocks it has.
const GROUP_BYTES: u64 = 3 + 3 + 3 + 2 + 2;

/// Which group each superblock was allocated to, and which groups wrote to it.
#[derive(Clone, Debug)]
pub struct Blocks {
    owners: Vec<u32>,
    /// The opening that the owner is of, and how far the majority that owns what a recovery found leads.
    epochs: Vec<u32>,
    lead: Vec<u32>,
    /// By group: its superblocks at most. Counted up when it opens one, and not down when one is erased.
    at_most: Vec<u32>,
    /// `words` for each superblock, a bit for each group.
    writers: Vec<u64>,
    words: usize,
}

impl Blocks {
    /// No superblock belongs to any of the groups.
    pub fn new(superblocks: u32, groups: u32) -> Blocks {
        let (count, words) = (superblocks as usize, (groups as usize).div_ceil(64));
        Blocks {
            owners: vec![NONE; count],
            epochs: vec![0; count],
            lead: vec![0; count],
            at_most: vec![0; groups as usize],
            writers: vec![0; count * words],
            words,
        }
    }

    /// Bytes: owner, and a bit for each group.
    fn bytes(superblocks: u32, groups: u32) -> u64 {
        u64::from(superblocks) * (2 + u64::from(groups).div_ceil(8))
    }

    /// A recovery found a valid page of a group. The majority becomes the owner.
    pub fn found(&mut self, superblock: u32, group: u32) {
        let at = superblock as usize;
        match (self.owners[at] == group, self.lead[at]) {
            (true, lead) => self.lead[at] = lead + 1,
            (false, 0) => (self.owners[at], self.lead[at]) = (group, 1),
            (false, lead) => self.lead[at] = lead - 1,
        }
        bits::set(self.writers_mut(superblock), group, true);
    }

    /// A page of a group was written to a superblock, which `owner` opened if nobody did before.
    #[inline]
    fn written(&mut self, superblock: u32, epoch: u32, owner: u32, group: u32) {
        if self.epochs[superblock as usize] != epoch {
            self.epochs[superblock as usize] = epoch;
            self.owners[superblock as usize] = owner;
            self.at_most[owner as usize] += 1;
            self.writers_mut(superblock).fill(0);
        }
        bits::set(self.writers_mut(superblock), group, true);
    }

    fn writers(&self, superblock: u32) -> &[u64] {
        &self.writers[superblock as usize * self.words..][..self.words]
    }

    fn writers_mut(&mut self, superblock: u32) -> &mut [u64] {
        &mut self.writers[superblock as usize * self.words..][..self.words]
    }

    /// No page of a group will be left in any superblock that it has written so far.
    fn leaves(&mut self, group: u32) {
        for writers in self.writers.chunks_mut(self.words) {
            bits::set(writers, group, false);
        }
    }
}

/// The group that is being collected.
#[derive(Clone, Debug)]
struct Collecting {
    group: u32,
    /// The LPNs still to come.
    lpns: Range<u32>,
    cause: Cause,
}

/// The groups, their blocks, and those to collect.
#[derive(Clone, Debug)]
pub struct OwnBlocks {
    lpns: u32,
    exported_pages: u32,
    cross_group: bool,
    /// Groups write to each other's superblocks: the technique is on, and there are too few for all.
    shares: bool,
    blocks: Blocks,
    /// By group: the one whose superblock it writes to, itself as a rule.
    writes_to: Vec<u32>,
    /// By group: pages that it wrote to others' blocks since it was collected.
    encroached: Vec<u32>,
    /// The thresholds: pages of encroachment, and blocks of a group.
    most_encroached: u32,
    most_blocks: u32,
    /// Groups to be collected, and whether that must not wait until room is wanted.
    chosen: Vec<u64>,
    is_due: bool,
    collecting: Option<Collecting>,
    part: Range<u32>,
    part_lpns: u32,
    /// Steps of a collection for each page of the host.
    pace: u32,
    collects_at_once: bool,
    to_rewrite: GroupsToRewrite,
    /// Free superblocks at which collection begins.
    background: u32,
    /// By group: pages of its blocks that are not valid, when they were counted last.
    invalid: Vec<u32>,
    /// Free superblocks when groups were chosen for room last, if the host has written nothing since.
    free_before: Option<u32>,
}

/// Bytes of `groups` groups on so many superblocks.
pub fn most_bytes(groups: u32, superblocks: u32) -> u64 {
    u64::from(groups) * GROUP_BYTES + Blocks::bytes(superblocks, groups)
}

impl OwnBlocks {
    fn groups(&self) -> u32 {
        self.writes_to.len() as u32
    }

    /// The stream of a group's own.
    fn own(group: u32) -> Stream {
        Stream::further(group as usize)
    }

    /// The group whose stream this is.
    fn owner_of(stream: Stream) -> Option<u32> {
        stream.0.checked_sub(Stream::further(0).0).map(|group| group as u32)
    }

    fn left<N: Nand>(flash: &Flash<N>, group: u32) -> u32 {
        flash.space.left(Self::own(group))
    }

    /// Whether a group's open superblock takes the group's own pages, which are being collected.
    fn receives(&self, group: u32) -> bool {
        self.cross_group && self.collecting.as_ref().is_some_and(|collecting| collecting.group == group)
    }

    /// Where a group writes from now on, when what it wrote to is full: to a superblock of its own if empty
    /// ones can be had without a collection; else to the free pages of another group, where groups share;
    /// else to a superblock of its own, and collection makes room for it.
    fn place<N: Nand>(&mut self, flash: &mut Flash<N>, group: u32) -> u32 {
        if self.shares && !self.may_allocate(flash) {
            let others = (0..self.groups()).filter(|&other| !self.receives(other));
            let roomiest = others.max_by_key(|&it| (Self::left(flash, it), std::cmp::Reverse(it)));
            if let Some(other) = roomiest.filter(|&it| Self::left(flash, it) > 0) {
                return other;
            }
        }
        if self.has_most_blocks(flash, group) {
            self.choose(flash, group);
            self.is_due = true;
        }
        group
    }

    /// Whether a superblock can be opened so that no collection has to begin, or nothing has to be moved.
    fn may_allocate<N: Nand>(&self, flash: &mut Flash<N>) -> bool {
        let empty = u32::from(Self::empty(flash).is_some());
        flash.free_superblocks() + empty > self.background + 1
    }

    /// A closed superblock without a valid page.
    fn empty<N: Nand>(flash: &mut Flash<N>) -> Option<u32> {
        flash.space.fewest_valid().filter(|&superblock| flash.space.valid_in(superblock) == 0)
    }

    // Collection

    fn superblocks<N: Nand>(flash: &Flash<N>) -> Range<u32> {
        0..flash.nand().geometry().superblocks()
    }

    /// The group that a superblock with user data belongs to. That to which collection copies single
    /// superblocks belongs to nobody while it is open: the collection of a group does not end it.
    fn owner<N: Nand>(&self, flash: &Flash<N>, superblock: u32) -> Option<u32> {
        let is_known = self.blocks.epochs[superblock as usize] == flash.space.epoch_of(superblock);
        let owner = self.blocks.owners[superblock as usize];
        let is_held = match flash.space.state(superblock) {
            State::Closed => true,
            State::Open => flash.space.frontier(Stream::COLLECTION).is_none_or(|(it, _)| it != superblock),
            _ => false,
        };
        (is_known && is_held && flash.space.kind(superblock) == PageKind::Data).then_some(owner)
    }

    /// Whether a group has as many superblocks as it may. They are counted when it could have.
    fn has_most_blocks<N: Nand>(&mut self, flash: &Flash<N>, group: u32) -> bool {
        if self.blocks.at_most[group as usize] >= self.most_blocks {
            let blocks = Self::superblocks(flash).filter(|&it| self.owner(flash, it) == Some(group)).count();
            self.blocks.at_most[group as usize] = blocks as u32;
        }
        self.blocks.at_most[group as usize] >= self.most_blocks
    }

    /// Counts the invalid pages of all groups' blocks. The group with the most, if there are any.
    fn find_most_invalid<N: Nand>(&mut self, flash: &Flash<N>) -> Option<u32> {
        self.invalid.fill(0);
        for superblock in Self::superblocks(flash) {
            if let Some(owner) = self.owner(flash, superblock) {
                self.invalid[owner as usize] += flash.gain_of(superblock);
            }
        }
        for group in 0..self.groups() {
            let invalid = &mut self.invalid[group as usize];
            *invalid = invalid.saturating_sub(Self::left(flash, group));
        }
        let most = (0..self.groups()).max_by_key(|&it| (self.invalid[it as usize], std::cmp::Reverse(it)));
        most.filter(|&it| self.invalid[it as usize] > 0)
    }

    /// Chooses a group, and those that wrote to its blocks, to be collected.
    fn choose<N: Nand>(&mut self, flash: &Flash<N>, group: u32) {
        bits::set(&mut self.chosen, group, true);
        for superblock in Self::superblocks(flash) {
            if self.owner(flash, superblock) == Some(group) && flash.space.valid_in(superblock) > 0 {
                let writers = self.blocks.writers(superblock);
                self.chosen.iter_mut().zip(writers).for_each(|(chosen, writers)| *chosen |= writers);
            }
        }
    }

    /// Chooses the group with the most invalid pages, to make room. The collection takes as many steps beside
    /// a page of the host as there are pages to move for one that is gained. Chooses none where none gains
    /// anything, or the last choice has freed no superblock for the page of the host that waits.
    fn choose_for_room<N: Nand>(&mut self, mapping: &LearnedTable, flash: &Flash<N>) {
        let free = flash.free_superblocks();
        if self.free_before.replace(free).is_some_and(|before| free <= before) {
            return;
        }
        let Some(most) = self.find_most_invalid(flash) else { return };
        self.choose(flash, most);
        let chosen = (0..self.groups()).filter(|&group| bits::has(&self.chosen, group));
        let (mut moves, mut gain) = (0, 0);
        for group in chosen {
            moves += u64::from(mapping.mapped[group as usize]);
            gain += u64::from(self.invalid[group as usize]);
        }
        self.pace = (moves / gain.max(1)).min(u64::from(self.lpns)) as u32 + 2;
    }

    /// The superblock with user data, closed or of a group, that gains the most pages when it is emptied.
    /// That of a group is closed.
    fn emptiest<N: Nand>(&mut self, flash: &mut Flash<N>) -> Room {
        let closed = flash.space.fewest_valid().map_or(0, |it| flash.gain_of(it));
        let open = (0..self.groups()).filter(|&it| !self.receives(it)).filter_map(|group| {
            let (superblock, _) = flash.space.frontier(Self::own(group))?;
            Some((flash.gain_of(superblock), std::cmp::Reverse(group), superblock))
        });
        match open.max().filter(|&(gain, ..)| gain > closed) {
            Some((_, std::cmp::Reverse(group), superblock)) => {
                flash.space.close(Self::own(group));
                Room::This(superblock)
            }
            None => Room::Emptiest,
        }
    }

    /// The superblock of translation pages that is emptied with the fewest moves for each page gained, if
    /// they are fewer than those of a group's collection.
    fn translation_victim<N: Nand>(&self, flash: &Flash<N>) -> Option<u32> {
        let is_one = |it: &u32| {
            flash.space.state(*it) == State::Closed && flash.space.kind(*it) == PageKind::Translation
        };
        let emptiest = Self::superblocks(flash).filter(is_one).min_by_key(|&it| flash.space.valid_in(it))?;
        let (valid, capacity) = (flash.space.valid_in(emptiest), flash.space.capacity_of(emptiest));
        (valid < capacity && valid / (capacity - valid) < self.pace).then_some(emptiest)
    }

    /// Begins the next part of the collection under way, or the first one of `next`.
    fn begin_part<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        cause: Cause,
        next: impl FnOnce(&mut Self) -> Option<u32>,
    ) -> Option<Gathering> {
        if self.collecting.is_none() {
            let group = next(self)?;
            self.collect(flash, group, cause);
        }
        let collecting = self.collecting.as_mut()?;
        let first = collecting.lpns.start;
        collecting.lpns.start = collecting.lpns.end.min(first + self.part_lpns);
        self.part = first..collecting.lpns.start;
        let pace = if self.collects_at_once { 4 * self.part_lpns } else { self.pace };
        let Collecting { group, cause, .. } = *collecting;
        Some(Gathering { stream: Self::own(group), cause, pace, lpns: self.part.len() as u32 })
    }

    /// Begins the collection of a group into a new superblock.
    fn collect<N: Nand>(&mut self, flash: &mut Flash<N>, group: u32, cause: Cause) {
        flash.space.close(Self::own(group));
        self.blocks.leaves(group);
        self.encroached[group as usize] = 0;
        let lpns = group * self.lpns..((group + 1) * self.lpns).min(self.exported_pages);
        self.collecting = Some(Collecting { group, lpns, cause });
    }

    /// The next group of those chosen that has pages to collect.
    fn next_chosen(&mut self, mapping: &LearnedTable) -> Option<u32> {
        while let Some(group) = bits::next(&self.chosen, 0, self.groups()) {
            bits::set(&mut self.chosen, group, false);
            if mapping.mapped[group as usize] > 0 {
                return Some(group);
            }
        }
        self.is_due = false;
        None
    }

    /// A part is complete. After the last one the group goes on writing where it ended.
    fn part_collected<N: Nand>(&mut self, flash: &mut Flash<N>) {
        if let Some(Collecting { group, cause, .. }) = self.collecting.take_if(|it| it.lpns.is_empty()) {
            flash.counters.collections_group += u64::from(cause == Cause::Collection);
            self.writes_to[group as usize] = group;
            self.is_due &= bits::next(&self.chosen, 0, self.groups()).is_some();
        }
    }

    /// What a recovery found belongs to the groups that it found there.
    fn take_blocks<N: Nand>(flash: &Flash<N>, mapping: &mut LearnedTable) -> Blocks {
        let superblocks = flash.nand().geometry().superblocks();
        let fresh = || Blocks::new(superblocks, mapping.mapped.len() as u32);
        let mut blocks = mapping.blocks.take().unwrap_or_else(fresh);
        for superblock in Self::superblocks(flash) {
            let is_owned = blocks.owners[superblock as usize] != NONE;
            blocks.epochs[superblock as usize] =
                if is_owned { flash.space.epoch_of(superblock) } else { u32::MAX };
            if is_owned {
                blocks.at_most[blocks.owners[superblock as usize] as usize] += 1;
            }
        }
        blocks
    }
}

impl Placement<LearnedTable> for OwnBlocks {
    type Copies = Grouped;

    /// Takes over a stream for each group.
    fn open<N: Nand>(
        flash: &mut Flash<N>,
        mapping: &mut LearnedTable,
        config: &Config,
    ) -> Result<Self, ConfigError> {
        mapping.charge_training(flash);
        let Some(own) = mapping.own else {
            return Err(ConfigError("allocation: groups have no blocks of their own".to_owned()));
        };
        let spare = flash.space.spare;
        let (cross_group, lpns) = (mapping.techniques.cross_group, mapping.group_lpns);
        let groups = mapping.mapped.len() as u32;
        let superblock_pages = flash.nand().geometry().superblock_pages();
        let of_a_group = lpns.div_ceil(superblock_pages);
        let least = FOR_A_COLLECTION + if cross_group { of_a_group } else { groups };
        if !flash.needs_more(u64::from(least * superblock_pages)) {
            return Err(ConfigError(format!(
                "over-provisioning: allocation=group needs {least} superblocks to spare, for the copies of a group and \
                 for {} to write to, and has {spare}; export less, or leave out allocation=group",
                if cross_group { "one that groups share".to_owned() } else { format!("each of {groups} groups") }
            )));
        }
        // What the host wrote to before a power cut belongs to groups, like any closed superblock.
        flash.space.close(Stream::HOST);
        flash.add_streams(groups as usize);
        Ok(OwnBlocks {
            lpns,
            exported_pages: config.exported_pages,
            cross_group,
            shares: cross_group && spare < FOR_A_COLLECTION + groups,
            blocks: Self::take_blocks(flash, mapping),
            writes_to: (0..groups).collect(),
            encroached: vec![0; groups as usize],
            most_encroached: ((own.encroachment * f64::from(lpns)) as u32).max(1),
            most_blocks: own.blocks * of_a_group,
            chosen: vec![0; (groups as usize).div_ceil(64)],
            is_due: false,
            collecting: None,
            part: 0..0,
            part_lpns: lpns.min(superblock_pages),
            pace: 2,
            collects_at_once: config.foreground_only,
            to_rewrite: GroupsToRewrite::new(groups),
            background: config.background_superblocks + FOR_A_COLLECTION,
            invalid: vec![0; groups as usize],
            free_before: None,
        })
    }

    fn spare_wanted(&self) -> u32 {
        FOR_A_COLLECTION
    }

    fn left_to_gather(&self) -> u32 {
        FOR_A_COLLECTION
    }

    #[inline]
    fn stream<N: Nand>(
        &mut self,
        _mapping: &mut LearnedTable,
        flash: &mut Flash<N>,
        lpn: Lpn,
        _rest: u32,
    ) -> Stream {
        let group = lpn.0 / self.lpns;
        let to = self.writes_to[group as usize];
        if Self::left(flash, to) == 0 || self.receives(to) {
            self.writes_to[group as usize] = self.place(flash, group);
        }
        Self::own(self.writes_to[group as usize])
    }

    /// Notes who wrote where. A full superblock is closed at once: its group may not write for long.
    #[inline]
    fn program<N: Nand>(
        &mut self,
        _mapping: &mut LearnedTable,
        flash: &mut Flash<N>,
        stream: Stream,
        lpn: Lpn,
        content: Content,
        from: Source<'_>,
        cause: Cause,
        after: Done,
    ) -> Result<(Ppn, Done)> {
        let (ppn, done) = flash.program(stream, PageKind::Data, lpn.0, content, from, cause, after)?;
        let superblock = flash.space.superblock_of(ppn);
        let group = lpn.0 / self.lpns;
        let owner = Self::owner_of(stream);
        if cause == Cause::Host {
            self.free_before = None;
        }
        self.blocks.written(superblock, flash.space.epoch_of(superblock), owner.unwrap_or(group), group);
        if let Some(owner) = owner {
            if owner != group {
                let encroached = &mut self.encroached[group as usize];
                *encroached += 1;
                if *encroached == self.most_encroached {
                    self.choose(flash, owner);
                    self.choose(flash, group);
                    self.is_due = true;
                }
            }
            if Self::left(flash, owner) == 0 {
                flash.space.close(stream);
            }
        }
        Ok((ppn, done))
    }

    /// A superblock without a valid page is erased; else the groups that are chosen are collected, or, when
    /// none is, the one with the most invalid pages.
    fn make_room<N: Nand>(
        &mut self,
        mapping: &mut LearnedTable,
        flash: &mut Flash<N>,
        may_gather: bool,
    ) -> Room {
        if let Some(superblock) = Self::empty(flash).or_else(|| self.translation_victim(flash)) {
            return Room::This(superblock);
        }
        if !may_gather {
            return self.emptiest(flash);
        }
        let gathering = self.gather(mapping, flash).or_else(|| {
            self.choose_for_room(mapping, flash);
            self.gather(mapping, flash)
        });
        gathering.map_or_else(|| self.emptiest(flash), Room::Gather)
    }

    /// A threshold was reached, or a group's collection has parts to come.
    #[inline]
    fn is_gathering_due(&self, _mapping: &LearnedTable) -> bool {
        self.is_due
    }

    fn gather<N: Nand>(&mut self, mapping: &mut LearnedTable, flash: &mut Flash<N>) -> Option<Gathering> {
        self.begin_part(flash, Cause::Collection, |this| this.next_chosen(mapping))
    }

    fn rewrite<N: Nand>(&mut self, mapping: &mut LearnedTable, flash: &mut Flash<N>) -> Option<Gathering> {
        self.begin_part(flash, Cause::Rewrite, |this| this.to_rewrite.next(mapping))
    }

    fn next_pages<N: Nand>(
        &mut self,
        mapping: &mut LearnedTable,
        table: &Table,
        flash: &mut Flash<N>,
        next: &mut Vec<Ppn>,
    ) -> Result<Option<Done>> {
        if self.part.is_empty() {
            self.part_collected(flash);
            return Ok(None);
        }
        next_of(&mut self.part, mapping, table, flash, next).map(Some)
    }

    /// A group that has reached a threshold is collected, or chosen for it.
    fn check(&self) -> Result<(), Breach> {
        let is_any = self.collecting.is_some() || bits::next(&self.chosen, 0, self.groups()).is_some();
        if self.is_due && !is_any {
            return Err("a collection of groups is due but none is chosen".into());
        }
        let lost = (0..).zip(&self.writes_to).find(|&(_, &to)| to >= self.groups());
        lost.map_or(Ok(()), |(group, to)| {
            Err(format!("group {group} writes to the blocks of {to}, which is none").into())
        })
    }

    fn add_memory(&self, memory: &mut Memory) {
        let superblocks = self.blocks.owners.len() as u32;
        memory.parts.push(("groups", most_bytes(self.groups(), superblocks)));
    }
}
