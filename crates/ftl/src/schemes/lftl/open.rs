//! Subspaces, and the linear groups that are open for them.
//!
//! The paper gives each subspace an open linear group. A group is a superblock here, and a device has as many
//! subspaces as half its superblocks, but only a handful of superblocks to spare: all that are open for a
//! subspace in which nothing is written lie idle. So
//! - a group of its own goes to a subspace with a write stream: one whose last [`STREAM_PAGES`] pages, more
//!   or less, followed on one another ([`Subspace::wrote`]). Random writes between them do not end a stream,
//!   and go to the same group, as in the paper;
//! - at most three quarters of the spare superblocks are open at once ([`Open::limit`]), and none is opened
//!   where that would start collection;
//! - a stream that finds no superblock takes over the open one that was not written for longest, if no page
//!   went to it while the host wrote a quarter of a superblock. Its linear group ends there, early, and the
//!   next one begins in the same superblock: no page is lost. The local PPAs run on, and the models of the
//!   one cannot tell of the other;
//! - everything else shares one group. What is trained together is always of one subspace, so sharing makes
//!   models shorter, as long as the requests that interleave, but no less exact.

use super::linear::Point;
use super::record::MOST_LPAS;
use crate::list::NONE;
use crate::space::Stream;
use nand::Lpn;

/// Pages in a row that make a stream.
const STREAM_PAGES: u8 = 64;
/// The exemplary set: as many points as a sample of RANSAC has.
const EXEMPLARY: usize = 3;
/// Bytes of a subspace as a firmware would pack it: LPAs that continue its stream and its other writes, how
/// much was in sequence, its group.
const SUBSPACE_BYTES: u64 = 2 * 2 + 1 + 1;
/// Bytes of an open group: its owner, its last use, the exemplary set.
const GROUP_BYTES: u64 = 2 + 4 + 4 * EXEMPLARY as u64 + 1;

/// What is known of a subspace.
#[derive(Clone, Copy, Debug)]
struct Subspace {
    /// The LPNs that would continue its stream, and its other writes.
    next: [u32; 2],
    /// Pages in sequence, less those that were not; at most [`STREAM_PAGES`].
    sequential: u8,
    /// The group that its stream writes; 0 for the shared one.
    group: u8,
}

impl Subspace {
    /// A page was written. Returns whether it belongs to a stream, or to a subspace with one.
    fn wrote(&mut self, lpn: Lpn) -> bool {
        if self.next[1] == lpn.0 {
            self.next.swap(0, 1);
        }
        if self.next[0] == lpn.0 {
            self.next[0] = lpn.0 + 1;
            self.sequential = (self.sequential + 1).min(STREAM_PAGES);
        } else {
            self.next[1] = lpn.0 + 1;
            self.sequential = self.sequential.saturating_sub(1);
        }
        self.sequential >= STREAM_PAGES / 2
    }
}

/// An open linear group.
#[derive(Clone, Copy, Debug)]
struct Group {
    stream: Stream,
    /// The subspace that it is open for; `NONE` for the shared one, and for those that were never opened.
    owner: u32,
    /// The page of the host that was written to it last, counted from the first.
    used: u64,
    /// Pages whose LPA followed on the one before, all of one subspace.
    exemplary: [Point; EXEMPLARY],
    found: usize,
    exemplary_of: u32,
    last: (u32, u16),
}

/// Subspaces and open groups.
#[derive(Clone, Debug)]
pub struct Open {
    subspace_pages: u32,
    subspaces: Vec<Subspace>,
    /// The shared group first.
    groups: Vec<Group>,
    /// The group chosen last.
    chosen: usize,
    writes: u64,
    /// Pages of the host after which a group that was not written can be taken over.
    cold: u64,
}

impl Open {
    /// Subspaces of `subspace_pages` pages that share [`Stream::HOST`], and `streams` further groups.
    pub fn new(exported_pages: u32, subspace_pages: u32, superblock_pages: u32, streams: u32) -> Open {
        assert!((subspace_pages as usize).is_multiple_of(MOST_LPAS) || subspace_pages.is_power_of_two());
        let group = |stream: Stream| Group {
            stream,
            owner: NONE,
            used: 0,
            exemplary: [(0, 0); EXEMPLARY],
            found: 0,
            exemplary_of: NONE,
            last: (NONE, 0),
        };
        let shared = std::iter::once(group(Stream::HOST));
        Open {
            subspace_pages,
            subspaces: vec![
                Subspace { next: [NONE; 2], sequential: 0, group: 0 };
                exported_pages.div_ceil(subspace_pages) as usize
            ],
            groups: shared.chain((0..streams as usize).map(|at| group(Stream::further(at)))).collect(),
            chosen: 0,
            writes: 0,
            cold: u64::from(superblock_pages / 4),
        }
    }

    /// How many groups of their own subspaces may have, on a device with that many superblocks to spare.
    pub fn limit(spare_superblocks: u32, subspaces: u32) -> u32 {
        (spare_superblocks * 3 / 4).min(subspaces).min(200)
    }

    /// Bytes in use.
    pub fn bytes(&self) -> u64 {
        self.subspaces.len() as u64 * SUBSPACE_BYTES + self.groups.len() as u64 * GROUP_BYTES
    }

    /// How many parts the address space is split into.
    pub fn subspaces(&self) -> u32 {
        self.subspaces.len() as u32
    }

    /// Groups, the shared one included.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// The stream of the group that the host's next version of `lpn` goes to. `left` tells the pages that a
    /// stream's superblock still has, and `spare` that one can be opened without starting collection.
    pub fn choose(&mut self, lpn: Lpn, left: impl Fn(Stream) -> u32, spare: bool) -> Stream {
        let subspace = lpn.0 / self.subspace_pages;
        let it = &mut self.subspaces[subspace as usize];
        let streams = it.wrote(lpn);
        let own = usize::from(it.group);
        let has_own = own > 0 && self.groups[own].owner == subspace;
        let chosen = if has_own && (left(self.groups[own].stream) > 0 || (streams && spare)) {
            own
        } else if streams {
            self.for_stream(left, spare)
        } else {
            0
        };
        self.writes += 1;
        let group = &mut self.groups[chosen];
        group.used = self.writes;
        if chosen > 0 && group.owner != subspace {
            group.owner = subspace;
            (group.found, group.exemplary_of) = (0, NONE);
        }
        self.subspaces[subspace as usize].group = chosen as u8;
        self.chosen = chosen;
        self.groups[chosen].stream
    }

    fn for_stream(&self, left: impl Fn(Stream) -> u32, spare: bool) -> usize {
        let own = || (1..self.groups.len()).map(|at| (at, &self.groups[at]));
        let unused = own().filter(|_| spare).find(|(_, group)| left(group.stream) == 0);
        let is_cold = |group: &Group| group.used + self.cold < self.writes;
        let cold = || {
            let cold = own().filter(|(_, group)| left(group.stream) > 0 && is_cold(group));
            cold.min_by_key(|(_, group)| group.used)
        };
        unused.or_else(cold).map_or(0, |(at, _)| at)
    }

    /// A page of the host was programmed in the group that was chosen for it: gathers the exemplary set.
    pub fn wrote(&mut self, lpn: Lpn, local: u16) {
        let it = &mut self.groups[self.chosen];
        let follows = it.last == (lpn.0.wrapping_sub(1), local.wrapping_sub(1));
        it.last = (lpn.0, local);
        let subspace = lpn.0 / self.subspace_pages;
        if follows && it.found < EXEMPLARY && (it.found == 0 || it.exemplary_of == subspace) {
            it.exemplary[it.found] = ((lpn.0 % self.subspace_pages) as u16, local);
            it.exemplary_of = subspace;
            it.found += 1;
        }
    }

    /// The exemplary set that was gathered for a subspace in the superblock that a stream writes, if
    /// `is_there`; gathering begins anew.
    pub fn take_exemplary(&mut self, subspace: u32, is_there: impl Fn(Stream) -> bool, set: &mut Vec<Point>) {
        set.clear();
        let of = |group: &&mut Group| group.exemplary_of == subspace && is_there(group.stream);
        if let Some(group) = self.groups.iter_mut().find(of) {
            set.extend_from_slice(&group.exemplary[..group.found]);
            (group.found, group.exemplary_of) = (0, NONE);
        }
    }

    /// The superblock of a stream is full: no exemplary set goes on from there.
    pub fn closed(&mut self, stream: Stream) {
        for group in self.groups.iter_mut().filter(|group| group.stream == stream) {
            (group.found, group.exemplary_of, group.last) = (0, NONE, (NONE, 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBSPACE: u32 = 1024;

    fn open(streams: u32) -> Open {
        Open::new(16 * SUBSPACE, SUBSPACE, 800, streams)
    }

    fn choose(open: &mut Open, lpn: u32, left: impl Fn(Stream) -> u32, spare: bool) -> usize {
        open.choose(Lpn(lpn), left, spare);
        open.chosen
    }

    fn write(open: &mut Open, first: u32, pages: u32, left: u32, spare: bool) -> Vec<usize> {
        (first..first + pages).map(|lpn| choose(open, lpn, |_| left, spare)).collect()
    }

    #[test]
    fn a_stream_gets_a_group_and_keeps_it_through_random_writes() {
        let mut open = open(2);
        let groups = write(&mut open, 0, 100, 0, true);
        assert_eq!((groups[0], groups[99]), (0, 1));
        assert_eq!(write(&mut open, 700, 1, 10, true), [1]);
        assert_eq!(write(&mut open, 100, 1, 10, false), [1]);
        assert_eq!(
            write(&mut open, 5 * SUBSPACE + 7, 1, 10, true),
            [0],
            "a random write elsewhere is shared"
        );
    }

    #[test]
    fn a_stream_without_a_superblock_shares_until_one_is_cold() {
        let mut open = open(2);
        let unopened = |stream: Stream| if stream == Stream::further(1) { 0 } else { 10 };
        assert_eq!(write(&mut open, 0, 100, 0, true)[99], 1);
        let second = (SUBSPACE..SUBSPACE + 100).map(|lpn| choose(&mut open, lpn, unopened, true));
        assert_eq!(second.last(), Some(2));
        let third = |open: &mut Open, from, pages| write(open, 2 * SUBSPACE + from, pages, 7, false);
        assert_eq!(third(&mut open, 0, 90)[89], 0);
        let later = third(&mut open, 90, 200);
        assert_eq!(later[199], 1, "the group of subspace 0 was not written for 200 pages");
        assert_eq!(write(&mut open, 100, 1, 7, false), [2], "whose stream takes that of subspace 1");
    }

    #[test]
    fn the_exemplary_set_is_of_one_subspace() {
        let mut open = open(1);
        let mut set = Vec::new();
        for (lpn, local) in [(10, 0), (11, 1), (2000, 2), (2001, 3), (12, 4), (13, 5), (14, 6), (15, 7)] {
            open.wrote(Lpn(lpn), local);
        }
        open.take_exemplary(1, |_| true, &mut set);
        assert!(set.is_empty());
        open.take_exemplary(0, |_| true, &mut set);
        assert_eq!(set, [(11, 1), (13, 5), (14, 6)]);
        open.take_exemplary(0, |_| true, &mut set);
        assert!(set.is_empty(), "it was taken");
    }
}
