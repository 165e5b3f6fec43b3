//! Group-based allocation (LearnedFTL, III-D): which superblock a group of GTD entries writes to, when a
//! group is due for collection, and opportunistic cross-group allocation.
//!
//! A group is 64 consecutive GTD entries, as in the paper; fewer on a device too small for sixteen such
//! groups, more where a superblock has room for more. On the paper's device a superblock, 64 blocks of 512
//! pages, holds just 64 entries of 512 LPNs: it is the "64 contiguous flash blocks" that a group is allotted
//! at a time.
//!
//! The paper gives each group blocks of its own. With one superblock open for each of 240 groups, half of
//! them empty on average, 120 superblocks would lie idle, and a device that is 94 % full has 16 to spare. So
//! a superblock of its own goes to a group that is written in sequence, request after request: it will fill
//! it soon, and in order, however many such streams there are beside it. At most as many as are to spare,
//! less a reserve, and 64, are open for such groups. The other groups share one.
//!
//! Cross-group allocation: the sequence that leaves a group goes on in the next group, and in the same
//! superblock. What a group has left when it has turned cold, because nothing was written there for as many
//! writes as a group has pages, goes to the next group in need of a superblock. And when no more may be
//! opened, groups write into the one with the most free pages, whoever owns it. On a nearly full device that
//! is all there is.
//!
//! When a group is due is a matter of what its double reads cost: see `benefit`.

use super::benefit::RECORD_BYTES;
use super::LearnedTable;
use crate::counters::Cause;
use crate::engine::collector::Grouped;
use crate::engine::{Gathering, Placement};
use crate::flash::Flash;
use crate::list::NONE;
use crate::scheme::{Config, ConfigError, Memory};
use crate::space::Stream;
use crate::table::{entry_in, mapped, Table};
use nand::{Done, Lpn, Nand, Ppn, Result};
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

/// Requests that each continue the one before, from which on a stream counts as sequential: one may do so by
/// accident, and among random writes of 4 KiB some do.
const SEQUENTIAL: u8 = 4;
/// Of so many superblocks one must be to spare before a group can have one of its own: what is open and half
/// empty is missing for garbage, and costs write amplification where that is tight.
const PER_SPARE: u32 = 32;
/// Superblocks that are open for groups at most: the jobs that the paper's experiments run side by side.
const MOST_OPEN: u32 = 64;
/// Steps of gathering for each page of the host, at most: on 64 dies they delay it by a program's time or so.
const MOST_STEPS: u32 = 16;
/// Streams of a group that are told apart.
const HEADS: usize = 8;
/// Bytes of a group as a firmware would pack it: of each head the LPN within the group (3), slot and count;
/// last head and turn, the count of its mapped pages (3), and what is known of its double reads.
const GROUP_BYTES: u64 = HEADS as u64 * 5 + 2 + 3 + RECORD_BYTES;
/// Bytes of a slot: its owner and last use. The superblock and its next page are the device's, as for any
/// stream.
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

/// A group that is being collected, in parts.
#[derive(Clone, Debug)]
struct Collecting {
    group: u32,
    /// The slot that receives it. Without one to spare it goes where collection copies to.
    slot: Option<usize>,
    /// The LPNs still to come.
    lpns: Range<u32>,
    cause: Cause,
    /// Steps for each page of the host.
    pace: u32,
}

/// The groups in turn, to be rewritten.
#[derive(Clone, Copy, Debug)]
pub struct GroupsToRewrite {
    /// The one rewritten last.
    last: u32,
}

impl GroupsToRewrite {
    /// The first of `groups` groups is next.
    pub fn new(groups: u32) -> GroupsToRewrite {
        GroupsToRewrite { last: groups - 1 }
    }

    /// The group whose turn it is; `None` when nothing is mapped.
    pub fn next(&mut self, mapping: &LearnedTable) -> Option<u32> {
        let groups = mapping.mapped.len() as u32;
        let mut turns = (1..=groups).map(|step| (self.last + step) % groups);
        let group = turns.find(|&group| mapping.mapped[group as usize] > 0)?;
        self.last = group;
        Some(group)
    }
}

/// Groups and their superblocks.
#[derive(Clone, Debug)]
pub struct Groups {
    lpns: u32,
    cross_group: bool,
    slots: Vec<Slot>,
    limit: usize,
    /// Pages that the host wrote.
    writes: u64,
    groups: Vec<Group>,
    /// The LPN that continues the host request written last, and its pages from there on.
    request: (u32, u32),
    /// The group being collected, or rewritten.
    collecting: Option<Collecting>,
    /// The LPNs of its part that are still to come. A part is collected without making room in between.
    part: Range<u32>,
    /// LPNs of a part: those of a translation page, or what a superblock holds.
    part_lpns: u32,
    to_rewrite: GroupsToRewrite,
    /// Free superblocks below which none is opened for a group that could write elsewhere.
    spare: u32,
    /// Groups are gathered: the technique is on, and there is room for it.
    may_gather: bool,
    exported_pages: u32,
}

/// Bytes of `groups` groups at most, beside the models.
pub fn most_bytes(groups: u32, cross_group: bool) -> u64 {
    bytes(groups as usize, 1 + if cross_group { MOST_OPEN } else { groups } as usize)
}

fn bytes(groups: usize, slots: usize) -> u64 {
    groups as u64 * GROUP_BYTES + slots as u64 * SLOT_BYTES
}

/// Appends the pages of the first translation page of `part`, which is not empty, and takes its LPNs out of
/// `part`. Completes when they are known: memory holds some, flash the others.
pub fn next_of<N: Nand>(
    part: &mut Range<u32>,
    mapping: &LearnedTable,
    table: &Table,
    flash: &mut Flash<N>,
    next: &mut Vec<Ppn>,
) -> Result<Done> {
    let (vtpn, slot) = table.place(Lpn(part.start));
    let end = part.end.min(table.first_lpn(vtpn).0 + table.lpns_in(vtpn));
    let loaded = table.load(flash, vtpn, Cause::Training, Done::READY)?;
    for lpn in (part.start..end).rev() {
        let slot = slot + lpn - part.start;
        let on_flash = || loaded.and_then(|_| mapped(entry_in(flash.buffer(), slot)));
        next.extend(mapping.held(Lpn(lpn)).unwrap_or_else(on_flash));
    }
    part.start = end;
    Ok(loaded.unwrap_or(Done::READY))
}

impl Groups {
    /// Begins the next part of the group that is collected or rewritten, or the first one of the group that
    /// `next` gives.
    fn begin_part<N: Nand>(
        &mut self,
        mapping: &mut LearnedTable,
        flash: &mut Flash<N>,
        cause: Cause,
        next: impl FnOnce(&mut Self, &mut LearnedTable) -> Option<u32>,
    ) -> Option<Gathering> {
        if self.collecting.is_none() {
            let group = next(self, mapping)?;
            let writes = mapping.benefit.begin(group);
            self.collect(flash, group, cause, self.pace(writes));
        }
        let collecting = self.collecting.as_mut()?;
        let first = collecting.lpns.start;
        collecting.lpns.start = collecting.lpns.end.min(first + self.part_lpns);
        self.part = first..collecting.lpns.start;
        let Collecting { slot, cause, pace, .. } = *collecting;
        let stream = slot.map_or(Stream::COLLECTION, |slot| self.slots[slot].stream);
        Some(Gathering { stream, cause, pace, lpns: self.part.len() as u32 })
    }

    /// Steps of collecting a group for each page of the host, copies for the most part. With one step a page
    /// for each of the `writes` pages that were written of it since the last time, groups would be collected
    /// as fast as they become due; it goes twice as fast.
    fn pace(&self, writes: u32) -> u32 {
        (2 * self.lpns).div_ceil(writes.max(1)).min(MOST_STEPS - 1) + 1
    }

    /// The group of an LPN.
    #[inline]
    fn of(&self, lpn: Lpn) -> u32 {
        lpn.0 / self.lpns
    }

    /// The stream for `lpn`, the first of `rest` pages of a request: the superblock that its group writes
    /// already; when that is full, one that is allotted to the group now if it is written in sequence;
    /// else, or when no more may be open, the one that such groups share; else the open one with the most
    /// free pages, whoever owns it.
    #[inline]
    fn choose<N: Nand>(
        &mut self,
        mapping: &mut LearnedTable,
        flash: &mut Flash<N>,
        lpn: Lpn,
        rest: u32,
    ) -> Stream {
        let spare = flash.free_superblocks() > self.spare;
        let group = self.of(lpn);
        if self.request != (lpn.0, rest) {
            let continues = self.left_behind(lpn).is_some();
            self.groups[group as usize].begin(lpn, continues);
        }
        self.request = (lpn.0 + 1, rest - 1);
        let it = &mut self.groups[group as usize];
        let head = &mut it.heads[it.last as usize];
        head.next = lpn.0 + 1;
        mapping.benefit.written(group, head.is_sequential());
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
        self.collecting.as_ref().is_some_and(|collecting| collecting.slot == Some(slot))
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

    // Collection

    /// Begins the collection of a group into superblocks of its own. A slot without pages left is taken for
    /// it; when there is none, the one with the fewest gives them up.
    fn collect<N: Nand>(&mut self, flash: &mut Flash<N>, group: u32, cause: Cause, pace: u32) {
        // Not the slot that the page under way was promised to.
        let is_promised = |at: &usize| self.slots[*at].used == self.writes;
        let others = (0..self.slots.len()).filter(|at| !is_promised(at));
        let slot = others.min_by_key(|&at| flash.space.left(self.slots[at].stream));
        if let Some(slot) = slot {
            flash.space.close(self.slots[slot].stream);
            self.slots[slot].owner = group;
        }
        let lpns = group * self.lpns..((group + 1) * self.lpns).min(self.exported_pages);
        self.collecting = Some(Collecting { group, slot, lpns, cause, pace });
    }

    /// A part is complete. After the last one the group goes on writing where it ended.
    fn part_collected<N: Nand>(&mut self, mapping: &mut LearnedTable, flash: &mut Flash<N>) {
        if let Some(Collecting { group, slot, cause, .. }) = self.collecting.take_if(|it| it.lpns.is_empty())
        {
            if cause == Cause::Collection {
                mapping.benefit.end();
                flash.counters.collections_group += 1;
            }
            if let Some(slot) = slot {
                let it = &mut self.groups[group as usize];
                it.heads.iter_mut().for_each(|head| head.slot = slot as u32);
            }
        }
    }
}

impl Placement<LearnedTable> for Groups {
    type Copies = Grouped;

    /// Takes over the streams: one for each superblock that may be open for a group, beside [`Stream::HOST`],
    /// which the other groups share.
    fn open<N: Nand>(
        flash: &mut Flash<N>,
        mapping: &mut LearnedTable,
        config: &Config,
    ) -> Result<Self, ConfigError> {
        mapping.charge_training(flash);
        let spare_superblocks = flash.space.spare;
        let (cross_group, lpns) = (mapping.techniques.cross_group, mapping.group_lpns);
        let groups = mapping.mapped.len() as u32;
        // Blocks that fail later end the device's life once a group has none of its own.
        let own =
            if cross_group { 0 } else { u64::from(groups * flash.nand().geometry().superblock_pages()) };
        if !flash.needs_more(own) {
            return Err(ConfigError(format!(
                "over-provisioning: without cross-group allocation each of the {groups} groups needs a superblock of its \
                 own to write to, and {spare_superblocks} are to spare; export less, or leave letter x in techniques"
            )));
        }
        let geometry = flash.nand().geometry().clone();
        let may_open = spare_superblocks.saturating_sub(geometry.superblocks() / PER_SPARE);
        let limit = if cross_group { may_open.min(MOST_OPEN) } else { groups } as usize;
        let spare_pages = u64::from(spare_superblocks) * u64::from(geometry.superblock_pages());
        mapping.benefit.set_room(spare_pages, config.exported_pages);
        flash.add_streams(limit);
        let streams = std::iter::once(Stream::HOST).chain((0..limit).map(Stream::further));
        let group = Group { heads: [Head::NONE; HEADS], last: 0, turn: 0 };
        Ok(Groups {
            lpns,
            cross_group,
            slots: streams.map(|stream| Slot { stream, owner: NONE, used: 0 }).collect(),
            limit,
            writes: 0,
            groups: vec![group; groups as usize],
            request: (NONE, 0),
            collecting: None,
            part: 0..0,
            part_lpns: (geometry.page_bytes / 4).min(geometry.superblock_pages()),
            to_rewrite: GroupsToRewrite::new(groups),
            spare: config.background_superblocks,
            may_gather: mapping.techniques.collection && limit > 0,
            exported_pages: config.exported_pages,
        })
    }

    fn spare_wanted(&self) -> u32 {
        u32::from(self.limit > 0)
    }

    #[inline]
    fn stream<N: Nand>(
        &mut self,
        mapping: &mut LearnedTable,
        flash: &mut Flash<N>,
        lpn: Lpn,
        rest: u32,
    ) -> Stream {
        self.choose(mapping, flash, lpn, rest)
    }

    /// A group is due, or has parts to come.
    #[inline]
    fn is_gathering_due(&self, mapping: &LearnedTable) -> bool {
        let collects = |it: &Collecting| it.cause == Cause::Collection;
        self.may_gather && (mapping.benefit.is_any_due() || self.collecting.as_ref().is_some_and(collects))
    }

    fn gather<N: Nand>(&mut self, mapping: &mut LearnedTable, flash: &mut Flash<N>) -> Option<Gathering> {
        self.begin_part(mapping, flash, Cause::Collection, |_, mapping| mapping.benefit.take_due())
    }

    /// The next group in turn, whatever it gains: its pages have to be written anyway, and in the order of
    /// their LPNs they are learned.
    fn rewrite<N: Nand>(&mut self, mapping: &mut LearnedTable, flash: &mut Flash<N>) -> Option<Gathering> {
        if !self.may_gather {
            return None;
        }
        self.begin_part(mapping, flash, Cause::Rewrite, |this, mapping| this.to_rewrite.next(mapping))
    }

    /// Those of the next translation page.
    fn next_pages<N: Nand>(
        &mut self,
        mapping: &mut LearnedTable,
        table: &Table,
        flash: &mut Flash<N>,
        next: &mut Vec<Ppn>,
    ) -> Result<Option<Done>> {
        if self.part.is_empty() {
            self.part_collected(mapping, flash);
            return Ok(None);
        }
        next_of(&mut self.part, mapping, table, flash, next).map(Some)
    }

    fn add_memory(&self, memory: &mut Memory) {
        memory.parts.push(("groups", bytes(self.groups.len(), self.slots.len())));
    }
}
