//! Group-based allocation (LearnedFTL, III-D): which superblock a group of GTD entries writes to, when a group is due for
//! collection, and opportunistic cross-group allocation.
//!
//! A group is 64 consecutive GTD entries, as in the paper; fewer on a device too small for sixteen such groups, more where a
//! superblock has room for more. On the paper's device a superblock, 64 blocks of 512 pages, holds just 64 entries of 512 LPNs:
//! it is the "64 contiguous flash blocks" that a group is allotted at a time.
//!
//! The paper gives each group blocks of its own. With one superblock open for each of 240 groups, half of them empty on
//! average, 120 superblocks would lie idle, and a device that is 94 % full has 16 to spare. So a superblock of its own goes to a
//! group that is written in sequence, request after request: it will fill it soon, and in order, however many such streams
//! there are beside it. At most as many as are to spare, less a reserve, and 64, are open for such groups. The
//! other groups share one.
//!
//! Cross-group allocation: the sequence that leaves a group goes on in the next group, and in the same superblock. What a group
//! has left when it has turned cold, because nothing was written there for as many writes as a group has pages, goes to the
//! next group in need of a superblock. And when no more may be opened, groups write into the one with the most free
//! pages, whoever owns it. On a nearly full device that is all there is.
//!
//! When a group is due: as soon as `retrain` of its pages have no prediction; earlier where random writes would fill three
//! quarters of the spare room before all groups are through ([`Groups::open`]). The pace follows from that ([`Groups::pace`]).

use crate::counters::Cause;
use crate::flash::Flash;
use crate::list::NONE;
use crate::scheme::ConfigError;
use crate::space::Stream;
use nand::{Lpn, Nand};
use std::collections::VecDeque;
use std::ops::Range;

/// An open superblock for host pages.
#[derive(Clone, Copy, Debug)]
struct Slot {
    stream: Stream,
    /// The group that it is allotted to.
    owner: u32,
    /// The write that used it last.
    used: u64,
}

/// Requests that each continue the one before, from which on a stream counts as sequential: one may do so by accident, and
/// among random writes of 4 KiB some do.
const SEQUENTIAL: u8 = 4;
/// Of so many superblocks one must be to spare before a group can have one of its own: what is open and half empty is missing
/// for garbage, and costs write amplification where that is tight.
const PER_SPARE: u32 = 32;
/// Superblocks that are open for groups at most: the jobs that the paper's experiments run side by side.
pub const MOST_OPEN: u32 = 64;
/// Share of the spare room that is full of pages to be collected when all groups are due at the latest. When the rest is
/// full too, superblocks are emptied for room, and what a group had in order is scattered again.
const LEAST_ROOM: f64 = 0.75;
/// Streams of a group that are told apart.
const HEADS: usize = 8;
/// Bytes of a group as a firmware would pack it: LPN, slot and count of each head, three counts of 4 bytes, flags and turn.
const GROUP_BYTES: u64 = HEADS as u64 * 6 + 3 * 4 + 2;
/// Bytes of a slot: its owner and last use. The superblock and its next page are the device's, as for any stream.
const SLOT_BYTES: u64 = 6;

/// Where a stream of host writes within a group has come to.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// The LPN that continues it.
    next: u32,
    /// The slot it writes to.
    slot: u32,
    /// Requests that continued it one after the other.
    continued: u8,
}

impl Head {
    const NONE: Head = Head { next: NONE, slot: 0, continued: 0 };

    fn is_sequential(&self) -> bool {
        self.continued >= SEQUENTIAL
    }
}

/// What is known of a group.
#[derive(Clone, Copy, Debug)]
struct Group {
    heads: [Head; HEADS],
    /// The head of the last write, and the one to be replaced next.
    last: u8,
    turn: u8,
    /// Mapped LPNs.
    mapped: u32,
    /// Pages written since it was collected, other than in sequence.
    written: u32,
    /// Of these, pages written into superblocks of other groups.
    encroached: u32,
    /// Stands in the queue of groups to collect.
    is_due: bool,
}

impl Group {
    /// A request begins at `lpn`: it continues a stream, or begins one in the place of another.
    fn begin(&mut self, lpn: Lpn, continues_group_before: bool) {
        match self.heads.iter().position(|head| head.next == lpn.0) {
            Some(head) => {
                self.last = head as u8;
                self.heads[head].continued = self.heads[head].continued.saturating_add(1);
            }
            None => {
                self.turn = (self.turn + 1) % HEADS as u8;
                self.last = self.turn;
                let continued = if continues_group_before { SEQUENTIAL } else { 0 };
                self.heads[self.last as usize] = Head { continued, ..Head::NONE };
            }
        }
    }

    fn write_to(&mut self, slot: usize) {
        self.heads[self.last as usize].slot = slot as u32;
    }
}

/// Share of a group's pages that are overwritten when as many volumes of it were written, at random: 1 - exp(-volumes), in
/// operations that give the same on any machine.
fn lost_by(volumes: f64) -> f64 {
    volumes / (1.0 + volumes / 2.0)
}

/// A group that is being collected, in parts.
#[derive(Clone, Debug)]
struct Collecting {
    group: u32,
    /// The slot that receives it.
    slot: usize,
    /// The LPNs still to come.
    lpns: Range<u32>,
    cause: Cause,
}

/// When groups are collected, as shares of a group's mapped pages.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// Pages without a prediction, and pages written since the last collection.
    pub retrain: f64,
    /// Pages written into superblocks of other groups.
    pub encroachment: f64,
}

/// Groups and their superblocks.
#[derive(Clone, Debug)]
pub struct Groups {
    lpns: u32,
    thresholds: Thresholds,
    cross_group: bool,
    slots: Vec<Slot>,
    limit: usize,
    /// Pages that the host wrote.
    writes: u64,
    groups: Vec<Group>,
    due: VecDeque<u32>,
    /// The LPN that continues the host request written last, and its pages from there on.
    request: (u32, u32),
    /// The group being collected, or rewritten.
    collecting: Option<Collecting>,
    /// The group rewritten last.
    rewritten: u32,
}

impl Groups {
    /// Groups of `lpns` LPNs each, over `exported_pages`, that share [`Stream::HOST`].
    /// `cross_group`: whether a group may write into another's superblock.
    pub fn new(exported_pages: u32, lpns: u32, thresholds: Thresholds, cross_group: bool) -> Groups {
        let count = exported_pages.div_ceil(lpns);
        let group = Group {
            heads: [Head::NONE; HEADS],
            last: 0,
            turn: 0,
            mapped: 0,
            written: 0,
            encroached: 0,
            is_due: false,
        };
        Groups {
            lpns,
            thresholds,
            cross_group,
            slots: vec![Slot { stream: Stream::HOST, owner: NONE, used: 0 }],
            limit: 1,
            writes: 0,
            groups: vec![group; count as usize],
            due: VecDeque::with_capacity(count as usize),
            request: (NONE, 0),
            collecting: None,
            rewritten: count - 1,
        }
    }

    /// Takes over the streams: one for each superblock that may be open beside the shared one.
    pub fn open<N: Nand>(&mut self, flash: &mut Flash<N>, spare_superblocks: u32) -> Result<(), ConfigError> {
        let groups = self.groups.len() as u32;
        if !self.cross_group && spare_superblocks < groups {
            return Err(ConfigError(format!(
                "over-provisioning: without cross-group allocation each of the {groups} groups needs a superblock of its \
                 own to write to, and {spare_superblocks} are to spare; export less, or leave letter x in techniques"
            )));
        }
        let few = flash.nand().geometry().superblocks() / PER_SPARE;
        let may_open = spare_superblocks.saturating_sub(few);
        self.limit = if self.cross_group { may_open.min(MOST_OPEN) } else { groups } as usize;
        let room = f64::from(spare_superblocks) * f64::from(flash.nand().geometry().superblock_pages());
        self.thresholds.retrain = self
            .thresholds
            .retrain
            .min(lost_by(LEAST_ROOM * room / (f64::from(groups) * f64::from(self.lpns))));
        flash.add_streams(self.limit);
        self.slots.extend((0..self.limit).map(|at| Slot {
            stream: Stream::further(at),
            owner: NONE,
            used: 0,
        }));
        Ok(())
    }

    /// Steps of collecting groups for each page of the host, copies for the most part, so that as many groups are collected
    /// as are due, and a few more.
    pub fn pace(&self) -> u32 {
        let retrain = self.thresholds.retrain;
        (1.0 / retrain - 0.5).ceil() as u32 + 1
    }

    /// Whether groups can have superblocks of their own.
    pub fn have_own(&self) -> bool {
        self.limit > 0
    }

    /// Bytes of what is kept beside the models.
    pub fn bytes(&self) -> u64 {
        self.bytes_with(self.slots.len() as u32)
    }

    /// The same with `slots` slots.
    pub fn bytes_with(&self, slots: u32) -> u64 {
        self.groups.len() as u64 * GROUP_BYTES + u64::from(slots) * SLOT_BYTES
    }

    /// The group of an LPN.
    #[inline]
    pub fn of(&self, lpn: Lpn) -> u32 {
        lpn.0 / self.lpns
    }

    /// LPNs of a group.
    pub fn lpns_of(&self, group: u32, exported_pages: u32) -> Range<u32> {
        group * self.lpns..((group + 1) * self.lpns).min(exported_pages)
    }

    /// The stream for `lpn`, the first of `rest` pages of a request: the superblock that its group writes already; when that
    /// is full, one that is allotted to the group now if it is written in sequence; else, or when no more may be open, the
    /// one that such groups share; else the open one with the most free pages, whoever owns it. `spare` tells that a superblock can be opened without touching the collection
    /// thresholds.
    #[inline]
    pub fn stream<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: Lpn, rest: u32, spare: bool) -> Stream {
        let group = self.of(lpn);
        if self.request != (lpn.0, rest) {
            let continues = self.left_behind(lpn).is_some();
            self.groups[group as usize].begin(lpn, continues);
        }
        self.request = (lpn.0 + 1, rest - 1);
        let it = &mut self.groups[group as usize];
        let head = &mut it.heads[it.last as usize];
        head.next = lpn.0 + 1;
        it.written += u32::from(!head.is_sequential());
        let (slot, wants_own) = (head.slot as usize, head.is_sequential() || !self.cross_group);
        let is_own = self.slots[slot].owner == group;
        let is_shared = self.slots[slot].owner == NONE;
        let stays = flash.space.left(self.slots[slot].stream) > 0
            && !self.receives(slot)
            && (is_own || (is_shared && !wants_own) || !self.may_allot(flash, spare));
        let slot = if stays {
            slot
        } else {
            self.close_full(flash);
            self.slot_for(flash, lpn, wants_own, spare)
        };
        self.groups[group as usize].write_to(slot);
        self.writes += 1;
        self.slots[slot].used = self.writes;
        let owner = self.slots[slot].owner;
        if owner != group && owner != NONE {
            self.encroach(group, owner);
        }
        self.slots[slot].stream
    }

    /// A full superblock can be collected from now on; its stream may be idle for long.
    fn close_full<N: Nand>(&self, flash: &mut Flash<N>) {
        for slot in &self.slots {
            if flash.space.left(slot.stream) == 0 {
                flash.space.close(slot.stream);
            }
        }
    }

    fn receives(&self, slot: usize) -> bool {
        self.collecting.as_ref().is_some_and(|collecting| collecting.slot == slot)
    }

    fn may_allot<N: Nand>(&self, flash: &Flash<N>, spare: bool) -> bool {
        let is_open = |slot: &&Slot| flash.space.left(slot.stream) > 0;
        !self.cross_group || (spare && self.slots.iter().filter(is_open).count() < self.limit)
    }

    fn slot_for<N: Nand>(&mut self, flash: &Flash<N>, lpn: Lpn, wants_own: bool, spare: bool) -> usize {
        let group = self.of(lpn);
        let left = |at: &usize| flash.space.left(self.slots[*at].stream);
        let roomiest = |at: &usize| (left(at), std::cmp::Reverse(*at));
        let usable = (0..self.slots.len()).filter(|&at| !self.receives(at));
        let open = usable.clone().filter(|at| self.cross_group && left(at) > 0);
        let shared = open.clone().filter(|&at| !wants_own && self.slots[at].owner == NONE);
        let cold = |at: &usize| {
            self.slots[*at].owner != NONE && self.slots[*at].used + u64::from(self.lpns) < self.writes
        };
        let mut at = self.left_behind(lpn).filter(|at| wants_own && left(at) > 0 && !self.receives(*at));
        at = at
            .or_else(|| shared.max_by_key(roomiest))
            .or_else(|| open.clone().filter(cold).max_by_key(roomiest));
        let is_allotted = at.is_some() || self.may_allot(flash, spare);
        if !is_allotted {
            at = open.max_by_key(roomiest);
        }
        // Slot 0 last among the full ones: it is the one that is there without a superblock to spare.
        let at = at.or_else(|| usable.min_by_key(roomiest)).unwrap_or(0);
        if is_allotted || left(&at) == 0 {
            self.slots[at].owner = if wants_own { group } else { NONE };
        }
        at
    }

    /// The slot of the sequence that ended where `lpn` continues it, at the end of the group before.
    fn left_behind(&self, lpn: Lpn) -> Option<usize> {
        let before = self.groups.get(self.of(lpn).checked_sub(1)? as usize)?;
        let head = before.heads.iter().find(|head| head.next == lpn.0 && head.is_sequential())?;
        Some(head.slot as usize)
    }

    /// `group` writes a page into a superblock of `owner`. At the threshold both are collected.
    #[inline]
    fn encroach(&mut self, group: u32, owner: u32) {
        let it = &mut self.groups[group as usize];
        it.encroached += 1;
        if f64::from(it.encroached) >= self.thresholds.encroachment * f64::from(self.lpns) {
            it.encroached = 0;
            self.make_due(group);
            self.make_due(owner);
        }
    }

    /// Notes that an LPN of `group` is mapped now, and was not, or the reverse.
    #[inline]
    pub fn mapped(&mut self, group: u32, is: bool) {
        let mapped = &mut self.groups[group as usize].mapped;
        *mapped = if is { *mapped + 1 } else { mapped.saturating_sub(1) };
    }

    /// Notes that `pages` LPNs of `group` are not mapped any more.
    pub fn unmapped(&mut self, group: u32, pages: u32) {
        let mapped = &mut self.groups[group as usize].mapped;
        *mapped = mapped.saturating_sub(pages);
    }

    // Collection

    /// Notes that `group` has that many predictions. It is due when too many pages have none, and as many as that of a full
    /// group were written since it was collected: what training could not predict then, it could not now.
    #[inline]
    pub fn trained(&mut self, group: u32, trained: u32) {
        let it = &self.groups[group as usize];
        let share = self.thresholds.retrain;
        if !it.is_due
            && f64::from(it.written) >= share * f64::from(self.lpns)
            && f64::from(it.mapped - trained.min(it.mapped)) >= share * f64::from(it.mapped)
        {
            self.make_due(group);
        }
    }

    fn make_due(&mut self, group: u32) {
        if !self.groups[group as usize].is_due {
            self.groups[group as usize].is_due = true;
            self.due.push_back(group);
        }
    }

    /// Whether a group is due, or has parts to come.
    #[inline]
    pub fn is_any_due(&self) -> bool {
        let collects = |it: &Collecting| it.cause == Cause::Collection;
        !self.due.is_empty() || self.collecting.as_ref().is_some_and(collects)
    }

    /// Takes a group that is due: of those, the one with the most pages without a prediction, which are the pages whose
    /// predecessors are invalid. `trained` tells a group's predictions. A group with half of `retrain` or less to gain is
    /// passed over.
    pub fn take_due(&mut self, trained: impl Fn(u32) -> u32) -> Option<u32> {
        let untrained = |groups: &[Group], group: u32| {
            let mapped = groups[group as usize].mapped;
            mapped - trained(group).min(mapped)
        };
        while !self.due.is_empty() {
            let at = (0..self.due.len())
                .max_by_key(|&at| (untrained(&self.groups, self.due[at]), std::cmp::Reverse(at)))
                .unwrap_or(0);
            let group = self.due.swap_remove_back(at)?;
            let gain = untrained(&self.groups, group);
            let it = &mut self.groups[group as usize];
            it.is_due = false;
            if f64::from(gain) > self.thresholds.retrain / 2.0 * f64::from(it.mapped) {
                return Some(group);
            }
            it.encroached = 0;
        }
        None
    }

    /// Takes all groups off the queue: there is no room to collect any.
    pub fn none_due(&mut self) {
        for group in self.due.drain(..) {
            self.groups[group as usize].is_due = false;
            self.groups[group as usize].written = 0;
        }
    }

    /// The group whose turn it is to be rewritten; `None` when nothing is mapped.
    pub fn next_to_rewrite(&mut self) -> Option<u32> {
        let groups = self.groups.len() as u32;
        let mut turns = (1..=groups).map(|step| (self.rewritten + step) % groups);
        let group = turns.find(|&group| self.groups[group as usize].mapped > 0)?;
        self.rewritten = group;
        Some(group)
    }

    /// Begins the collection of a group into superblocks of its own. A slot without pages left is taken for it; when there
    /// is none, the one with the fewest gives them up.
    pub fn collect<N: Nand>(&mut self, flash: &mut Flash<N>, group: u32, exported_pages: u32, cause: Cause) {
        // Not the slot that the page under way was promised to.
        let is_promised = |at: &usize| self.slots[*at].used == self.writes;
        let others = (0..self.slots.len()).filter(|at| !is_promised(at));
        let slot = others.min_by_key(|&at| flash.space.left(self.slots[at].stream)).unwrap_or(0);
        flash.space.close(self.slots[slot].stream);
        self.slots[slot].owner = group;
        let it = &mut self.groups[group as usize];
        (it.written, it.encroached) = (0, 0);
        self.collecting = Some(Collecting { group, slot, lpns: self.lpns_of(group, exported_pages), cause });
    }

    /// The next part of the group being collected, of at most `most` LPNs, where it goes, and why.
    pub fn next_part(&mut self, most: u32) -> Option<(Range<u32>, Stream, Cause)> {
        let collecting = self.collecting.as_mut()?;
        let first = collecting.lpns.start;
        collecting.lpns.start = collecting.lpns.end.min(first + most);
        Some((first..collecting.lpns.start, self.slots[collecting.slot].stream, collecting.cause))
    }

    /// A part is complete. After the last one the group goes on writing where it ended.
    pub fn part_collected(&mut self) {
        if let Some(Collecting { group, slot, .. }) = self.collecting.take_if(|it| it.lpns.is_empty()) {
            let it = &mut self.groups[group as usize];
            it.heads.iter_mut().for_each(|head| head.slot = slot as u32);
        }
    }

    /// Checks the queue against the groups.
    pub fn check(&self) -> Result<(), String> {
        let due = self.groups.iter().filter(|it| it.is_due).count();
        if due != self.due.len() {
            return Err(format!("{due} groups are due but {} are queued", self.due.len()));
        }
        Ok(())
    }
}
