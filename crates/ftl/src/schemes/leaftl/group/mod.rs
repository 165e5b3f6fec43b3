//! The log-structured levels of a group of LPNs, with the conflict resolution buffer (CRB).
//!
//! | paper's term | here |
//! | --- | --- |
//! | levels | [`Piece::level`], 0 on top; inside a level the segments' ranges are disjoint |
//! | CRB | [`Piece::members`] of approximate segments; packed: a count and a byte a member |
//! | insertion | [`Group::insert`] |
//! | compaction | [`Group::compact`] |
//!
//! A group lies packed in the cache and on flash ([`Group::pack`]). To be changed, this record is taken apart
//! into levels, segments and CRB, which are packed still. Packed:
//!
//! | bytes | what |
//! | --- | --- |
//! | 1 | levels - 1 |
//! | 1 each level | segments - 1 |
//! | 8 each segment | S, L, K, I; level by level, ascending |
//! | 1 + members, each approximate segment, in the same order | members - 1, and their offsets, ascending |
//!
//! An empty group has no byte. After compaction each mapped LPN is the newest of one segment, and a list of
//! two or more costs less than as many segments: at most 2 + 9 a LPN ([`most_bytes`]).

mod compaction;
mod insertion;
mod set;

use super::segment::{Bytes, Segment, Slope};
pub use set::Set;

/// A segment in its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The segment.
    pub segment: Segment,
    /// Which offsets it claims: by its stride, or as the CRB lists them.
    pub members: Set,
    /// 0 is the newest.
    pub level: u16,
}

impl Piece {
    /// A new segment with its members.
    pub fn new(segment: Segment, members: Set) -> Piece {
        Piece { segment, members, level: 0 }
    }

    /// A trim of offsets `first` to `last`.
    pub fn nowhere(first: u8, last: u8) -> Piece {
        let segment = Segment { start: first, length: last - first, slope: Slope::NOWHERE, intercept: 0 };
        Piece::new(segment, Set::range(first, last))
    }

    /// Appends its list to a CRB, if it has one.
    fn list(&self, crb: &mut Vec<u8>) {
        if self.segment.slope.is_approximate() {
            crb.push((self.members.count() - 1) as u8);
            crb.extend(self.members.iter());
        }
    }

    fn is_nowhere(&self) -> bool {
        self.segment.slope == Slope::NOWHERE
    }

    /// Keeps `members` of those it has. A stride still claims what lies between the first and the last of
    /// them.
    fn keep(&mut self, members: Set) {
        if members.is_empty() {
            self.members = members;
            return;
        }
        let (first, last) = (members.first(), members.last());
        self.segment = self.segment.cut(first, last);
        if self.segment.slope.is_approximate() {
            self.members = members;
        } else {
            self.members = self.members.and(Set::range(first, last));
        }
    }
}

/// How far down insertion takes overwritten members out of strided segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// The top level alone, as in the paper; the rest is left to compaction.
    #[default]
    Top,
    /// All levels.
    All,
}

/// What a group says of an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The PPN.
    pub ppn: u32,
    /// Whether that is the page, or one at most gamma away.
    pub exact: bool,
    /// The segment that says so, by its number in the group.
    pub segment: usize,
}

/// A group, unpacked to be changed: the parts of its record.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Segments in each level, from the top down.
    counts: Vec<u16>,
    /// The segments as they are packed, level by level, ascending.
    segments: Vec<Bytes>,
    /// The CRB as it is packed.
    lists: Vec<u8>,
    /// What insertion makes of the two top levels, the segments that leave the top one, and the CRB in
    /// another order.
    upper: Vec<Bytes>,
    moving: Vec<Bytes>,
    reordered: Vec<u8>,
    /// What compaction works on.
    pieces: Vec<Piece>,
}

/// The greatest size of a compacted group of `lpns` LPNs, packed.
pub fn most_bytes(lpns: u32) -> usize {
    2 + 9 * lpns as usize
}

impl Group {
    /// Room for any group, so that nothing is allocated later.
    pub fn with_room() -> Group {
        Group {
            counts: Vec::with_capacity(512),
            segments: Vec::with_capacity(1024),
            lists: Vec::with_capacity(4096),
            upper: Vec::with_capacity(1024),
            moving: Vec::with_capacity(256),
            reordered: Vec::with_capacity(4096),
            pieces: Vec::with_capacity(1024),
        }
    }

    /// How many segments it has.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// How many levels a lookup may have to probe.
    pub fn levels(&self) -> u32 {
        self.counts.len() as u32
    }

    /// The segments with their levels and members, by level, then ascending.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        let levels = (0..).zip(&self.counts).flat_map(|(level, &count)| (0..count).map(move |_| level));
        let mut lists = lists_of(&self.lists);
        levels.zip(&self.segments).map(move |(level, &packed)| {
            let segment = Segment::from(packed);
            let members = if segment.slope.is_approximate() {
                lists.next().unwrap_or_default().iter().copied().collect()
            } else {
                segment.claimed()
            };
            Piece { segment, members, level }
        })
    }

    /// Becomes the group of these segments, by level, then ascending.
    fn set(&mut self, pieces: &[Piece]) {
        self.counts.clear();
        self.counts.extend(pieces.chunk_by(|a, b| a.level == b.level).map(|level| level.len() as u16));
        self.segments.clear();
        self.segments.extend(pieces.iter().map(|piece| Bytes::from(piece.segment)));
        self.lists.clear();
        pieces.iter().for_each(|piece| piece.list(&mut self.lists));
    }

    // Packed form

    /// How long the record of this group is on flash.
    pub fn packed_bytes(&self) -> usize {
        if self.segments.is_empty() {
            return 0;
        }
        1 + self.counts.len() + self.segments.len() * Segment::BYTES + self.lists.len()
    }

    /// Of these, bytes of the CRB.
    pub fn crb_bytes(&self) -> usize {
        self.lists.len()
    }

    /// Whether the packed form can express it: 256 levels, and 256 segments in each.
    pub fn can_be_packed(&self) -> bool {
        // Disjoint ranges of 256 offsets: a level has no more.
        self.levels() <= 256
    }

    /// Appends the packed form.
    pub fn pack(&self, bytes: &mut Vec<u8>) {
        if self.segments.is_empty() {
            return;
        }
        bytes.push((self.levels() - 1) as u8);
        bytes.extend(self.counts.iter().map(|&count| (count - 1) as u8));
        bytes.extend_from_slice(self.segments.as_flattened());
        bytes.extend_from_slice(&self.lists);
    }

    /// Becomes the group packed in `bytes`.
    pub fn unpack(&mut self, bytes: &[u8]) {
        self.counts.clear();
        self.segments.clear();
        self.lists.clear();
        let Some((&levels, rest)) = bytes.split_first() else { return };
        let (counts, rest) = rest.split_at(usize::from(levels) + 1);
        self.counts.extend(counts.iter().map(|&count| u16::from(count) + 1));
        let segments: usize = self.counts.iter().map(|&count| usize::from(count)).sum();
        let (segments, lists) = rest.split_at(segments * Segment::BYTES);
        self.segments.extend_from_slice(segments.as_chunks().0);
        self.lists.extend_from_slice(lists);
    }
}

/// The lists of a CRB: the members of each approximate segment.
fn lists_of(mut crb: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (&count, rest) = crb.split_first()?;
        let (list, rest) = rest.split_at(usize::from(count) + 1);
        crb = rest;
        Some(list)
    })
}

/// Looks an offset up in a packed group, level by level: what is said of it, if anything, and how many levels
/// were looked at.
pub fn find(bytes: &[u8], offset: u8) -> (Option<Answer>, u32) {
    let Some(&levels) = bytes.first() else { return (None, 0) };
    let levels = usize::from(levels) + 1;
    let segments = bytes[1 + levels..].as_chunks().0;
    let segment = |index: usize| Segment::from(segments[index]);
    let mut list = CrbCursor { bytes, levels, index: 0, at: 0 };
    let mut first = 0;
    for (level, &count) in (1..).zip(&bytes[1..=levels]) {
        let end = first + usize::from(count) + 1;
        let (mut low, mut high) = (first, end);
        while low < high {
            let middle = (low + high) / 2;
            if segment(middle).start <= offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if low > first {
            let found = segment(low - 1);
            if offset <= found.last() {
                let answer = Answer {
                    ppn: found.predict(offset),
                    exact: !found.slope.is_approximate(),
                    segment: low - 1,
                };
                if found.slope == Slope::NOWHERE {
                    return (None, level);
                }
                if answer.exact && found.strides_to(offset) {
                    return (Some(answer), level);
                }
                if !answer.exact && list.of(low - 1).contains(&offset) {
                    return (Some(answer), level);
                }
            }
        }
        first = end;
    }
    (None, levels as u32)
}

/// Finds the lists of the CRB, which have no index of their own, in ascending order.
struct CrbCursor<'a> {
    bytes: &'a [u8],
    levels: usize,
    /// The segment before whose list, or that of the next approximate one, `at` stands.
    index: usize,
    /// 0 before the first use.
    at: usize,
}

impl<'a> CrbCursor<'a> {
    /// The members of the approximate segment `index`.
    fn of(&mut self, index: usize) -> &'a [u8] {
        let first = 1 + self.levels;
        if self.at == 0 {
            let segments: usize = self.bytes[1..first].iter().map(|&count| usize::from(count) + 1).sum();
            self.at = first + segments * Segment::BYTES;
        }
        while self.index < index {
            if self.bytes[first + self.index * Segment::BYTES + 2] & 1 == 1 {
                self.at += usize::from(self.bytes[self.at]) + 2;
            }
            self.index += 1;
        }
        let count = usize::from(self.bytes[self.at]) + 1;
        &self.bytes[self.at + 1..self.at + 1 + count]
    }
}

#[cfg(test)]
mod tests;
