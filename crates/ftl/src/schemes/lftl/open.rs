//! Subspaces, and the linear groups that are open for them.
//!
//! The paper gives each subspace an open linear group of K blocks. A device has as many subspaces as half its
//! superblocks, and only a handful of superblocks to spare. So
//! - a group of its own goes to a subspace with a write stream: one whose last [`STREAM_PAGES`] pages, more
//!   or less, were written by requests that followed on one another ([`Subspace::wrote`]). Pages in a row
//!   within one request make no stream: random requests of several pages are none. Random writes between
//!   them do not end a stream, and go to the same group, as in the paper. Everything else shares one group;
//! - a group is a *lane* of a superblock ([`super::linear::BlockLists`]): streams that write at once fill one
//!   superblock together, each on dies of its own. What a stream writes of all that the host writes
//!   ([`Rate`]) is its share of the dies, so that a single stream has all of them, and lanes of one
//!   superblock are full at about the same time. Where there is room to spare, lanes are wider than that,
//!   over more superblocks;
//! - a request that would take more than [`TURN`] rows of its lane goes to the shared lane, which has all
//!   dies ([`Open::is_striped`]). It is a run by itself, and would wait for the few dies of its lane;
//! - free space says how many superblocks and lanes are open ([`Open::allowance`]). A stream that finds
//!   neither units that are free nor another superblock takes over a lane in which no page went while the
//!   host wrote a quarter of a superblock. A linear group that ends early for that loses nothing but the
//!   length of its models;
//! - where collection is near ([`ROOMY`]), nobody gets a lane of its own: what other lanes have left becomes
//!   shared, too, and all shared lanes take turns. So no superblock stays open for a few pages, which could
//!   not be collected, and a burst has as many dies as under a scheme with one stream. What streams wrote in
//!   turn is still runs, one a request.

use super::linear::{Point, ROOT};
use super::offsets::MOST_LPAS;
use crate::list::NONE;
use crate::space::Stream;
use nand::Lpn;
use std::ops::Range;

/// Pages in a row that make a stream.
const STREAM_PAGES: u8 = 64;
/// The exemplary set: as many points as a sample of RANSAC has.
const EXEMPLARY: usize = 3;
/// Bytes of a rate as a firmware would pack it: where the count began, the count, what it was before.
const RATE_BYTES: u64 = 4 + 2 + 1;
/// Bytes of a subspace: LPAs that continue its stream and its other writes, how much was in sequence, its
/// lane, its log mappings, its rate.
const SUBSPACE_BYTES: u64 = 2 * 2 + 1 + 1 + 4 + RATE_BYTES;
/// Bytes of a lane: its owner, its last use, its place, the exemplary set.
const LANE_BYTES: u64 = 2 + 4 + 3 + 4 * EXEMPLARY as u64 + 1;
/// Bytes of the shared lane's number and turn, and of the request under way.
const SHARED_BYTES: u64 = 1 + 2 + 2 * 4 + 1;
/// Bytes of an open superblock: its number, its opening, which nodes are free.
const SHEET_BYTES: u64 = 2 + 4 + 8;
/// Rows of a lane that a request may take; a longer one goes to the shared lanes. So many rows of a shared
/// lane are written before the next one has its turn.
const TURN: u32 = 2;
/// Pages over which a rate is taken.
const RATE_PAGES: u32 = 512;
/// A rate of everything that the host writes.
const WHOLE: u32 = 1024;
/// Free superblocks above those that begin a collection from which on there is room to spare.
pub const ROOMY: u32 = 3;
/// As many from which on each stream may have a superblock.
const PLENTY: u32 = 32;
/// The owner of the shared lane.
pub const SHARED: u32 = NONE - 1;
/// Streams that can have lanes at once.
pub const MOST_STREAMS: u32 = 48;
/// What share of the host's pages somebody writes.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    /// The host's pages when the count began.
    since: u64,
    pages: u32,
    /// The share when it ended last, 0 for none.
    before: u32,
}

impl Rate {
    /// A page was written, the host's `writes`-th.
    fn count(&mut self, writes: u64) {
        let elapsed = writes - self.since;
        if self.pages >= RATE_PAGES {
            *self = Rate { since: writes, pages: 0, before: self.share(writes) };
        } else if elapsed > 128 * u64::from(self.pages + 32) {
            // It was not written for long: what it was says nothing.
            *self = Rate { since: writes, pages: 0, before: 0 };
        }
        self.pages += 1;
    }

    /// Of [`WHOLE`], at least 1.
    fn share(&self, writes: u64) -> u32 {
        if self.pages < RATE_PAGES / 8 && self.before > 0 {
            return self.before;
        }
        let share = u64::from(self.pages * WHOLE) / (writes - self.since).max(1);
        (share as u32).clamp(1, WHOLE)
    }
}

/// The request that the host writes.
#[derive(Clone, Debug, Default)]
struct Request {
    /// Its pages that are still to be written.
    coming: Range<u32>,
    /// Whether the page under way is its first one.
    is_first: bool,
    /// Whether it went on where another one had ended.
    follows: bool,
    /// Whether it goes to the shared lane because its own is narrow, once that was asked.
    is_striped: Option<bool>,
}

impl Request {
    /// A page is written, the first of `rest` of its request.
    fn wrote(&mut self, lpn: Lpn, rest: u32) {
        let pages = lpn.0..lpn.0 + rest;
        let is_first = self.coming != pages;
        if is_first {
            *self = Request { is_first, ..Request::default() };
        }
        (self.is_first, self.coming) = (is_first, pages.start + 1..pages.end);
    }
}

/// What is known of a subspace.
#[derive(Clone, Copy, Debug)]
struct Subspace {
    /// The LPNs that would continue its stream, and its other writes.
    next: [u32; 2],
    /// Pages of requests in sequence, less requests that were not; at most [`STREAM_PAGES`].
    sequential: u8,
    /// The lane that it had last.
    lane: u8,
    rate: Rate,
}

impl Subspace {
    /// A page of a request was written. Returns whether it belongs to a stream, or to a subspace with one.
    fn wrote(&mut self, lpn: Lpn, request: &mut Request) -> bool {
        if self.next[1] == lpn.0 {
            self.next.swap(0, 1);
        }
        let follows = self.next[0] == lpn.0;
        if request.is_first {
            request.follows = follows;
        }
        if follows {
            self.next[0] = lpn.0 + 1;
            self.sequential = (self.sequential + u8::from(request.follows)).min(STREAM_PAGES);
        } else {
            self.next[1] = lpn.0 + 1;
            self.sequential = self.sequential.saturating_sub(1);
        }
        self.sequential >= STREAM_PAGES / 2
    }
}

/// An open linear group.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    /// Who writes its pages.
    pub stream: Stream,
    /// The subspace that it is open for, [`SHARED`], or `NONE`.
    pub owner: u32,
    /// Its superblock, `NONE` if it never had one.
    pub superblock: u32,
    /// Its node in that superblock's tree of lanes.
    pub node: u32,
    /// The page of the host that was written to it last, counted from the first.
    used: u64,
    /// Pages whose LPA followed on the one before, all of one subspace.
    exemplary: [Point; EXEMPLARY],
    found: usize,
    exemplary_of: u32,
    last: (u32, u16),
}

impl Lane {
    /// Gathering of the exemplary set begins anew.
    fn begin_set(&mut self) {
        (self.found, self.exemplary_of, self.last) = (0, NONE, (NONE, 0));
    }
}

/// An open superblock that is divided into lanes.
#[derive(Clone, Copy, Debug)]
pub struct Sheet {
    /// The number of the superblock.
    pub superblock: u32,
    /// The number of its opening.
    pub epoch: u32,
    /// Nodes that belong to no lane and were not written, a bit each.
    free: u64,
}

/// Subspaces, lanes and open superblocks.
#[derive(Clone, Debug)]
pub struct Open {
    subspace_pages: u32,
    subspaces: Vec<Subspace>,
    /// The lane that the shared pages go to, and how many go there before another one has its turn.
    shared_lane: usize,
    turn: u32,
    /// That of [`Stream::HOST`] first.
    lanes: Vec<Lane>,
    sheets: Vec<Sheet>,
    /// The lane chosen last.
    chosen: usize,
    writes: u64,
    /// Pages of the host after which a lane that was not written can be taken over.
    cold: u64,
    /// Levels below the root of a superblock's tree of lanes.
    deepest: u32,
    /// Units of a superblock.
    units: u32,
    request: Request,
}

impl Open {
    /// Subspaces of `subspace_pages` pages, up to `streams` of them with lanes of their own, on superblocks
    /// of up to `most_lanes` lanes.
    pub fn new(
        exported_pages: u32,
        subspace_pages: u32,
        superblock: (u32, u32),
        streams: u32,
        most_lanes: u32,
    ) -> Open {
        let (units, superblock_pages) = superblock;
        assert!((subspace_pages as usize).is_multiple_of(MOST_LPAS) || subspace_pages.is_power_of_two());
        let lane = |stream: Stream| Lane {
            stream,
            owner: NONE,
            superblock: NONE,
            node: ROOT,
            used: 0,
            exemplary: [(0, 0); EXEMPLARY],
            found: 0,
            exemplary_of: NONE,
            last: (NONE, 0),
        };
        let (host, streams) = (std::iter::once(lane(Stream::HOST)), streams.min(MOST_STREAMS) as usize);
        Open {
            subspace_pages,
            subspaces: vec![
                Subspace { next: [NONE; 2], sequential: 0, lane: 0, rate: Rate::default() };
                exported_pages.div_ceil(subspace_pages) as usize
            ],
            shared_lane: 0,
            turn: 0,
            lanes: host.chain((0..streams).map(|at| lane(Stream::further(at)))).collect(),
            sheets: Vec::with_capacity(streams + 1),
            chosen: 0,
            writes: 0,
            cold: u64::from(superblock_pages / 4),
            deepest: most_lanes.ilog2(),
            units,
            request: Request::default(),
        }
    }

    /// Bytes in use, and for the superblocks that may be open.
    pub fn bytes(&self) -> u64 {
        self.subspaces.len() as u64 * SUBSPACE_BYTES
            + self.lanes.len() as u64 * (LANE_BYTES + SHEET_BYTES)
            + SHARED_BYTES
    }

    /// Lanes, that of [`Stream::HOST`] included.
    pub fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// The open superblocks.
    pub fn sheets(&self) -> &[Sheet] {
        &self.sheets
    }

    /// The host writes a page, the first of `rest` of a request. Returns whose lane it should go to: that of
    /// its subspace, if there is a stream or the subspace has a lane which `has_room`, or a shared one; and
    /// the lane of the subspace, if that is meant and it has one.
    pub fn wrote(&mut self, lpn: Lpn, rest: u32, has_room: impl Fn(Stream) -> bool) -> (u32, Option<usize>) {
        self.writes += 1;
        self.request.wrote(lpn, rest);
        let subspace = lpn.0 / self.subspace_pages;
        let it = &mut self.subspaces[subspace as usize];
        let streams = it.wrote(lpn, &mut self.request) && self.lanes.len() > 1;
        let own = usize::from(it.lane);
        let has_own = self.lanes[own].owner == subspace && has_room(self.lanes[own].stream);
        if (has_own || streams) && !self.is_striped(rest, subspace, has_own.then_some(own)) {
            self.subspaces[subspace as usize].rate.count(self.writes);
            let own = Some(own).filter(|&own| self.lanes[own].owner == subspace);
            return (subspace, own);
        }
        (SHARED, None)
    }

    /// Whether a request under way that could go to a lane of its subspace, and has `rest` pages to write, is
    /// too long for that lane.
    fn is_striped(&mut self, rest: u32, subspace: u32, own: Option<usize>) -> bool {
        if let Some(is_striped) = self.request.is_striped {
            return is_striped;
        }
        let depth = match own {
            Some(own) => self.lanes[own].node.ilog2(),
            None => self.depth(subspace, 1),
        };
        let is_striped = depth > 0 && rest > TURN * (self.units >> depth);
        self.request.is_striped = Some(is_striped);
        is_striped
    }

    /// The page goes to that lane.
    pub fn choose(&mut self, lane: usize) -> Stream {
        self.chosen = lane;
        if self.lanes[lane].owner == SHARED {
            if self.shared_lane != lane || self.turn == 0 {
                self.turn = TURN * self.width(lane);
            }
            (self.shared_lane, self.turn) = (lane, self.turn - 1);
        }
        self.lanes[lane].used = self.writes;
        self.lanes[lane].stream
    }

    /// Units of a lane.
    pub fn width(&self, lane: usize) -> u32 {
        (self.units >> self.lanes[lane].node.ilog2()).max(1)
    }

    /// Whether enough pages in a row went to the shared lane.
    pub fn is_turn_over(&self) -> bool {
        self.turn == 0
    }

    /// Whether the shared lanes with room have together as many dies as there are.
    pub fn is_wide(&self, has_room: impl Fn(Stream) -> bool) -> bool {
        let shared = (0..self.lanes.len()).filter(|&at| self.lanes[at].owner == SHARED);
        let width: u32 = shared.filter(|&at| has_room(self.lanes[at].stream)).map(|at| self.width(at)).sum();
        width >= self.units
    }

    /// The next shared lane with room, behind the one that the shared pages went to.
    pub fn next_shared(&self, has_room: impl Fn(Stream) -> bool) -> Option<usize> {
        let (count, now) = (self.lanes.len(), self.shared_lane);
        let turns = (now + 1..=now + count).map(|at| at % count);
        turns.into_iter().find(|&at| self.lanes[at].owner == SHARED && has_room(self.lanes[at].stream))
    }

    /// The lane of a stream.
    pub fn lane_of(&self, stream: Stream) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.stream == stream)
    }

    /// How far down the tree the lane of an owner lies that is as wide as its share of what the host writes,
    /// `times` over. A shared lane has all dies.
    pub fn depth(&self, owner: u32, times: u32) -> u32 {
        let Some(Subspace { rate, .. }) = self.subspaces.get(owner as usize) else { return 0 };
        // A stream that is measured a little fast must not get twice the dies.
        let wanted = rate.share(self.writes) * times * 7 / 8;
        (0..self.deepest).take_while(|depth| WHOLE >> (depth + 1) >= wanted).count() as u32
    }

    /// Pages that may be unwritten in open superblocks when another one is opened, with `spare` superblocks
    /// free above those at which collection begins.
    pub fn allowance(superblock_pages: u32, spare: u32) -> u32 {
        superblock_pages / 8 + superblock_pages / 2 * spare.saturating_sub(ROOMY)
    }

    /// How many times its share of the dies a stream gets where so many superblocks are to spare: all of
    /// them where there are plenty, because a stream that writes little may do so in bursts.
    pub fn generosity(spare: u32) -> u32 {
        if spare >= PLENTY {
            return WHOLE;
        }
        (spare / 4).clamp(1, 4)
    }

    /// Forgets superblocks that are not open any more.
    pub fn keep_sheets(&mut self, is_open: impl Fn(&Sheet) -> bool) {
        self.sheets.retain(is_open);
    }

    /// Whether units of an open superblock belong to no lane yet.
    pub fn has_free(&self, superblock: u32) -> bool {
        self.sheets.iter().any(|sheet| sheet.superblock == superblock && sheet.free != 0)
    }

    /// A superblock was opened, or found open. Gives its first lane, at `depth`; `divide` hears of the nodes
    /// above it.
    pub fn add_sheet(&mut self, superblock: u32, epoch: u32, depth: u32, mut divide: impl FnMut(u32)) -> u32 {
        self.sheets.push(Sheet { superblock, epoch, free: 1 << ROOT });
        self.take_node(self.sheets.len() - 1, ROOT, depth, |_, node| divide(node))
    }

    /// Takes the first part at `depth` of a free node; the other parts are free.
    fn take_node(&mut self, at: usize, node: u32, depth: u32, mut divide: impl FnMut(u32, u32)) -> u32 {
        let (sheet, mut node) = (&mut self.sheets[at], node);
        sheet.free &= !(1 << node);
        while node.ilog2() < depth {
            divide(sheet.superblock, node);
            node *= 2;
            sheet.free |= 1 << (node + 1);
        }
        node
    }

    /// Takes a free node, at `depth` if there is one, else from a wider one, which is divided (`divide` hears
    /// of it); or, if `narrow` ones will do, the widest. Superblocks that were opened first come first.
    pub fn take_free(
        &mut self,
        depth: u32,
        narrow: bool,
        divide: impl FnMut(u32, u32),
    ) -> Option<(u32, u32)> {
        let nodes = |sheet: &Sheet| {
            let free = sheet.free;
            (ROOT..64).filter(move |node| free >> node & 1 == 1)
        };
        let mut best: Option<(usize, u32)> = None;
        for (at, sheet) in self.sheets.iter().enumerate() {
            for node in nodes(sheet).filter(|node| narrow || node.ilog2() <= depth) {
                // Of the wide enough ones the narrowest, else the widest.
                let rank = |node: u32| match node.ilog2() {
                    enough if enough <= depth => depth - enough,
                    narrow => 64 + narrow,
                };
                if best.is_none_or(|(_, other)| rank(node) < rank(other)) {
                    best = Some((at, node));
                }
            }
        }
        let (at, node) = best?;
        let node = self.take_node(at, node, depth, divide);
        Some((self.sheets[at].superblock, node))
    }

    /// A lane that has no room is there for another owner.
    pub fn unused(&self, has_room: impl Fn(Stream) -> bool) -> Option<usize> {
        (1..self.lanes.len()).chain([0]).find(|&at| !has_room(self.lanes[at].stream))
    }

    /// The lane with room that was not written for longest, if for long enough.
    pub fn cold(&self, has_room: impl Fn(Stream) -> bool) -> Option<usize> {
        let is_cold = |lane: &Lane| lane.used + self.cold < self.writes && has_room(lane.stream);
        let cold = (0..self.lanes.len()).filter(|&at| is_cold(&self.lanes[at]));
        cold.min_by_key(|&at| self.lanes[at].used)
    }

    /// The lane of another owner than the shared pages that has the most pages left, if any has one.
    pub fn fullest(&self, left: impl Fn(Stream) -> u32) -> Option<usize> {
        let own = (0..self.lanes.len()).filter(|&at| self.lanes[at].owner != SHARED);
        let fullest = own.max_by_key(|&at| (left(self.lanes[at].stream), at));
        fullest.filter(|&at| left(self.lanes[at].stream) > 0)
    }

    /// The lane that the shared pages go to, if there is one.
    pub fn shared_lane(&self) -> Option<usize> {
        Some(self.shared_lane).filter(|&lane| self.lanes[lane].owner == SHARED)
    }

    /// A lane belongs to `owner` from now on.
    pub fn give(&mut self, lane: usize, owner: u32) {
        let it = &mut self.lanes[lane];
        it.owner = owner;
        it.begin_set();
        if let Some(subspace) = self.subspaces.get_mut(owner as usize) {
            subspace.lane = lane as u8;
        }
    }

    /// A lane lies there from now on.
    pub fn put(&mut self, lane: usize, superblock: u32, node: u32) {
        let it = &mut self.lanes[lane];
        (it.superblock, it.node) = (superblock, node);
        it.begin_set();
    }

    /// A page of the host was programmed in the lane that was chosen for it: gathers the exemplary set.
    pub fn programmed(&mut self, lpn: Lpn, local: u16) {
        let it = &mut self.lanes[self.chosen];
        let follows = it.last == (lpn.0.wrapping_sub(1), local.wrapping_sub(1));
        it.last = (lpn.0, local);
        let subspace = lpn.0 / self.subspace_pages;
        if follows && it.found < EXEMPLARY && (it.found == 0 || it.exemplary_of == subspace) {
            it.exemplary[it.found] = ((lpn.0 % self.subspace_pages) as u16, local);
            it.exemplary_of = subspace;
            it.found += 1;
        }
    }

    /// The exemplary set that was gathered for a subspace in a lane which `is_there`; gathering begins anew.
    pub fn take_exemplary(&mut self, subspace: u32, is_there: impl Fn(&Lane) -> bool, set: &mut Vec<Point>) {
        set.clear();
        let of = |lane: &&mut Lane| lane.exemplary_of == subspace && is_there(lane);
        if let Some(lane) = self.lanes.iter_mut().find(of) {
            set.extend_from_slice(&lane.exemplary[..lane.found]);
            (lane.found, lane.exemplary_of) = (0, NONE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBSPACE: u32 = 1024;

    fn open(streams: u32) -> Open {
        Open::new(16 * SUBSPACE, SUBSPACE, (8, 800), streams, 8)
    }

    /// Requests of a page each.
    fn write(open: &mut Open, first: u32, pages: u32) -> Vec<u32> {
        (first..first + pages).flat_map(|lpn| request(open, lpn, 1)).collect()
    }

    fn request(open: &mut Open, first: u32, pages: u32) -> Vec<u32> {
        (0..pages).map(|at| open.wrote(Lpn(first + at), pages - at, |_| true).0).collect()
    }

    #[test]
    fn a_stream_is_told_from_random_writes() {
        let mut open = open(2);
        let owners = write(&mut open, 0, 100);
        assert_eq!((owners[0], owners[99]), (SHARED, 0));
        assert_eq!(write(&mut open, 700, 1), [0], "a random write in a subspace with a stream");
        assert_eq!(write(&mut open, 100, 1), [0]);
        assert_eq!(write(&mut open, 5 * SUBSPACE + 7, 1), [SHARED], "a random write elsewhere");
    }

    #[test]
    fn pages_in_a_row_within_one_request_make_no_stream() {
        let mut open = open(2);
        for at in 0..100 {
            assert_eq!(request(&mut open, at * 37 % 500 * 2, 2), [SHARED; 2], "random requests of two pages");
        }
        for at in 0..100 {
            let owners = request(&mut open, 3 * SUBSPACE + at * 2, 2);
            assert_eq!(owners[1] == 3, at >= 16, "request {at}: a stream of requests of two pages");
        }
    }

    #[test]
    fn a_lane_is_as_wide_as_the_share_of_its_stream() {
        let mut open = open(4);
        write(&mut open, 0, 600);
        assert_eq!(open.depth(0, 1), 0, "all is its own");
        for at in 0..900 {
            (0..4).for_each(|stream| drop(write(&mut open, (4 + stream) * SUBSPACE + at, 1)));
        }
        let depths: Vec<u32> = (4..8).map(|subspace| open.depth(subspace, 1)).collect();
        assert_eq!(depths, [2; 4], "a quarter each");
        assert_eq!(open.depth(5, 2), 1, "twice its share");
        assert_eq!(open.depth(5, 4), 0);
    }

    #[test]
    fn a_request_that_is_long_for_its_lane_is_shared() {
        let mut open = open(4);
        for at in 0..900 {
            (0..4).for_each(|stream| drop(write(&mut open, (4 + stream) * SUBSPACE + at, 1)));
        }
        let first = 4 * SUBSPACE + 900;
        assert_eq!(request(&mut open, first, 4), [4; 4], "two rows of two dies");
        assert_eq!(request(&mut open, first + 4, 5), [SHARED; 5]);
        assert_eq!(request(&mut open, first + 9, 1), [4]);
    }

    #[test]
    fn shared_lanes_take_turns_of_two_rows() {
        let mut open = open(2);
        for (lane, node) in [(0, 2), (2, 6)] {
            open.give(lane, SHARED);
            open.put(lane, 3, node);
        }
        let mut turn = |lane| {
            let pages = (1..100).find(|_| {
                open.choose(lane);
                open.is_turn_over()
            });
            (pages, open.next_shared(|_| true), open.is_wide(|_| true))
        };
        assert_eq!(turn(0), (Some(8), Some(2), false));
        assert_eq!(turn(2), (Some(4), Some(0), false), "six of eight dies");
        open.give(1, SHARED);
        open.put(1, 3, 7);
        assert!(open.is_wide(|_| true));
    }

    #[test]
    fn free_nodes_are_divided_and_all_of_them_are_used() {
        let mut open = open(4);
        let mut divided = Vec::new();
        assert_eq!(open.add_sheet(7, 1, 2, |node| divided.push((7, node))), 4);
        let mut take = |open: &mut Open, depth, narrow| {
            open.take_free(depth, narrow, |superblock, node| divided.push((superblock, node)))
        };
        assert_eq!(take(&mut open, 2, false), Some((7, 5)), "the narrowest that is wide enough");
        assert_eq!(take(&mut open, 0, false), None);
        assert_eq!(take(&mut open, 0, true), Some((7, 3)), "the widest, where nothing is wide enough");
        assert_eq!(take(&mut open, 3, true), None);
        assert_eq!(divided, [(7, 1), (7, 2)]);
    }

    #[test]
    fn a_lane_is_taken_over_when_it_is_cold() {
        let mut open = open(2);
        open.give(1, 0);
        open.give(2, 1);
        write(&mut open, 0, 100);
        open.choose(1);
        write(&mut open, SUBSPACE, 150);
        open.choose(2);
        assert_eq!(open.cold(|stream| stream != Stream::HOST), None);
        write(&mut open, SUBSPACE + 150, 100);
        assert_eq!(open.cold(|stream| stream != Stream::HOST), Some(1), "250 pages went elsewhere");
        assert_eq!(open.unused(|stream| stream == Stream::HOST), Some(1));
        assert_eq!(open.fullest(|stream| stream.0 as u32), Some(2));
    }

    #[test]
    fn the_exemplary_set_is_of_one_subspace() {
        let mut open = open(1);
        let mut set = Vec::new();
        for (lpn, local) in [(10, 0), (11, 1), (2000, 2), (2001, 3), (12, 4), (13, 5), (14, 6), (15, 7)] {
            open.programmed(Lpn(lpn), local);
        }
        open.take_exemplary(1, |_| true, &mut set);
        assert!(set.is_empty());
        open.take_exemplary(0, |_| true, &mut set);
        assert_eq!(set, [(11, 1), (13, 5), (14, 6)]);
        open.take_exemplary(0, |_| true, &mut set);
        assert!(set.is_empty(), "it was taken");
    }
}
