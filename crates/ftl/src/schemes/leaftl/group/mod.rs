//! The log-structured levels of a group of LPNs, with the conflict resolution buffer (CRB).
//!
//! | paper's term | here |
//! | --- | --- |
//! | levels | [`Piece::level`], 0 on top; inside a level the segments' ranges are disjoint |
//! | CRB | [`Piece::members`] of approximate segments; packed: a count and a byte a member |
//! | insertion | [`Group::insert`] |
//! | compaction | [`Group::compact`] |
//!
//! A group lies packed in the cache and on flash ([`Group::pack`]); it is unpacked to be changed. Packed:
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

use super::segment::{Segment, Slope};

/// Offsets of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Set([u64; 4]);

impl Set {
    /// Whether `offset` is in it.
    pub fn has(&self, offset: u8) -> bool {
        self.0[usize::from(offset / 64)] >> (offset % 64) & 1 == 1
    }

    /// Puts `offset` in.
    pub fn add(&mut self, offset: u8) {
        self.0[usize::from(offset / 64)] |= 1 << (offset % 64);
    }

    /// The offsets from `first` to `last`.
    pub fn range(first: u8, last: u8) -> Set {
        let below = |end: usize, word: usize| match end.saturating_sub(64 * word) {
            bits if bits >= 64 => u64::MAX,
            bits => (1 << bits) - 1,
        };
        Set(std::array::from_fn(|word| below(usize::from(last) + 1, word) & !below(usize::from(first), word)))
    }

    /// Every `stride`-th offset from `first` to `last`.
    pub fn strided(first: u8, last: u8, stride: u32) -> Set {
        if stride == 1 {
            return Set::range(first, last);
        }
        let mut set = Set::default();
        let mut at = u32::from(first);
        while at <= u32::from(last) {
            set.0[at as usize / 64] |= 1 << (at % 64);
            at += stride;
        }
        set
    }

    fn with(self, other: Set) -> Set {
        Set(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    fn without(self, other: Set) -> Set {
        Set(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    fn and(self, other: Set) -> Set {
        Set(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    fn first(&self) -> u8 {
        let word = self.0.iter().position(|&word| word != 0).unwrap_or(0);
        (word * 64) as u8 + (self.0[word].trailing_zeros() % 64) as u8
    }

    fn last(&self) -> u8 {
        let word = self.0.iter().rposition(|&word| word != 0).unwrap_or(0);
        (word * 64) as u8 + (63 - self.0[word].leading_zeros() % 64) as u8
    }

    /// The offsets, ascending.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..4).flat_map(move |word| {
            let mut bits = self.0[word];
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros())?;
                bits &= bits - 1;
                Some((word * 64) as u8 + bit as u8)
            })
        })
    }
}

impl FromIterator<u8> for Set {
    fn from_iter<I: IntoIterator<Item = u8>>(offsets: I) -> Set {
        let mut set = Set::default();
        offsets.into_iter().for_each(|offset| set.add(offset));
        set
    }
}

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

    fn is_nowhere(&self) -> bool {
        self.segment.slope == Slope::NOWHERE
    }

    fn overlaps(&self, other: &Piece) -> bool {
        self.segment.start <= other.segment.last() && other.segment.start <= self.segment.last()
    }

    /// Keeps `members` of those it has. A stride still claims what lies between the first and the last of
    /// them.
    fn keep(&mut self, members: Set) {
        if members.is_empty() {
            self.members = members;
            return;
        }
        let (first, last) = (members.first(), members.last());
        (self.segment.start, self.segment.length) = (first, last - first);
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

/// A group, unpacked to be changed.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// By level, then ascending.
    pieces: Vec<Piece>,
}

/// The greatest size of a compacted group of `lpns` LPNs, packed.
pub fn most_bytes(lpns: u32) -> usize {
    2 + 9 * lpns as usize
}

impl Group {
    /// Room for any group, so that nothing is allocated later.
    pub fn with_room() -> Group {
        Group { pieces: Vec::with_capacity(1024) }
    }

    /// The segments.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// How many levels a lookup may have to probe.
    pub fn levels(&self) -> u32 {
        self.pieces.last().map_or(0, |piece| u32::from(piece.level) + 1)
    }

    // Insertion

    /// Puts new segments, whose ranges are disjoint, on top. Members that they overwrite are taken out of the
    /// lists of the CRB, where an LPN is in one segment only, and out of the levels that `reach` says;
    /// what is left in the top level of a segment that still overlaps moves one level down: into the next
    /// level where it fits, else into a level of its own between the two (so that nothing moves further).
    pub fn insert(&mut self, new: &[Piece], reach: Reach) {
        let taken = new.iter().fold(Set::default(), |taken, piece| taken.with(piece.members));
        let within =
            |piece: &Piece| reach == Reach::All || piece.level == 0 || piece.segment.slope.is_approximate();
        for piece in self.pieces.iter_mut().filter(|piece| within(piece)) {
            if !piece.members.and(taken).is_empty() {
                piece.keep(piece.members.without(taken));
            }
        }
        self.pieces.retain(|piece| !piece.members.is_empty());
        let pieces = &mut self.pieces;
        let top = pieces.partition_point(|piece| piece.level == 0);
        let below = top + pieces[top..].partition_point(|piece| piece.level == 1);
        let moves = |piece: &Piece| new.iter().any(|new| new.overlaps(piece));
        let conflicts = (0..top).filter(|&i| moves(&pieces[i])).any(|i| {
            let piece = pieces[i];
            pieces[top..below].iter().any(|other| other.overlaps(&piece))
        });
        pieces[top..].iter_mut().for_each(|piece| piece.level += u16::from(conflicts));
        for i in 0..top {
            let piece = pieces[i];
            if moves(&piece) {
                let fits = !pieces[top..below].iter().any(|other| other.overlaps(&piece));
                pieces[i].level = if conflicts && fits { 2 } else { 1 };
            }
        }
        pieces.extend(new.iter().map(|&piece| Piece { level: 0, ..piece }));
        pieces.rotate_right(new.len());
        self.settle(new.len() + below);
    }

    /// Takes offsets `first` to `last` out of all levels. Where the stride of a segment still claims one of
    /// them, a segment that leads nowhere hides it.
    pub fn trim(&mut self, first: u8, last: u8) {
        let trimmed = Set::range(first, last);
        let mut claimed = Set::default();
        for piece in &mut self.pieces {
            if !piece.members.and(trimmed).is_empty() {
                piece.keep(piece.members.without(trimmed));
                claimed = claimed.with(piece.members.and(trimmed));
            }
        }
        self.pieces.retain(|piece| !piece.members.is_empty());
        self.settle(0);
        if !claimed.is_empty() {
            self.insert(&[Piece::nowhere(claimed.first(), claimed.last())], Reach::All);
        }
    }

    /// Brings the segments into order, of which only the first `mixed` are out of it, and closes gaps between
    /// levels.
    fn settle(&mut self, mixed: usize) {
        let key = |piece: &Piece| (piece.level, piece.segment.start);
        self.pieces[..mixed].sort_unstable_by_key(key);
        debug_assert!(self.pieces.is_sorted_by_key(key));
        let (mut level, mut before) = (0, None);
        for piece in &mut self.pieces {
            if before.is_some_and(|before| before != piece.level) {
                level += 1;
            }
            before = Some(piece.level);
            piece.level = level;
        }
    }

    // Compaction

    /// Takes every overwritten member out of every segment, drops what is empty, joins what continues each
    /// other, and puts each segment on the highest level below all newer ones that it overlaps.
    pub fn compact(&mut self) {
        let mut seen = Set::default();
        for piece in &mut self.pieces {
            let live = piece.members.without(seen);
            seen = seen.with(piece.members);
            piece.keep(live);
        }
        // A trim is needed only above a segment that still claims what was trimmed.
        let mut claimed = Set::default();
        for piece in self.pieces.iter_mut().rev() {
            if piece.is_nowhere() {
                piece.keep(piece.members.and(claimed));
            } else {
                claimed = claimed.with(piece.members);
            }
        }
        self.pieces.retain(|piece| !piece.members.is_empty());
        let mut depth = [0u16; 256];
        for piece in &mut self.pieces {
            let covered = usize::from(piece.segment.start)..=usize::from(piece.segment.last());
            piece.level = depth[covered.clone()].iter().copied().max().unwrap_or(0);
            depth[covered].fill(piece.level + 1);
        }
        self.settle(self.pieces.len());
        self.join();
    }

    /// Joins neighbours of a level that are one line.
    fn join(&mut self) {
        self.pieces.dedup_by(|next, piece| {
            let (a, b) = (piece.segment, next.segment);
            let one_line = piece.level == next.level
                && (a.slope, a.intercept) == (b.slope, b.intercept)
                && !a.slope.is_approximate()
                && u32::from(b.start) == u32::from(a.last()) + a.slope.stride();
            if one_line {
                piece.segment.length = b.last() - a.start;
                piece.members = piece.members.with(next.members);
            }
            one_line
        });
    }

    // Packed form

    /// How long the record of this group is on flash.
    pub fn packed_bytes(&self) -> usize {
        if self.pieces.is_empty() {
            return 0;
        }
        1 + self.levels() as usize + self.pieces.len() * Segment::BYTES + self.crb_bytes()
    }

    /// Of these, bytes of the CRB.
    pub fn crb_bytes(&self) -> usize {
        let listed = self.pieces.iter().filter(|piece| piece.segment.slope.is_approximate());
        listed.map(|piece| 1 + piece.members.count()).sum()
    }

    /// Whether the packed form can express it: 256 levels, and 256 segments in each.
    pub fn can_be_packed(&self) -> bool {
        // Disjoint ranges of 256 offsets: a level has no more.
        self.levels() <= 256
    }

    /// Appends the packed form.
    pub fn pack(&self, bytes: &mut Vec<u8>) {
        if self.pieces.is_empty() {
            return;
        }
        bytes.push((self.levels() - 1) as u8);
        for level in self.pieces.chunk_by(|a, b| a.level == b.level) {
            bytes.push((level.len() - 1) as u8);
        }
        for piece in &self.pieces {
            bytes.extend(piece.segment.to_bytes());
        }
        for piece in self.pieces.iter().filter(|piece| piece.segment.slope.is_approximate()) {
            bytes.push((piece.members.count() - 1) as u8);
            for (word, &bits) in (0..).zip(&piece.members.0) {
                let mut bits = bits;
                while bits != 0 {
                    bytes.push(64 * word + bits.trailing_zeros() as u8);
                    bits &= bits - 1;
                }
            }
        }
    }

    /// Becomes the group packed in `bytes`.
    pub fn unpack(&mut self, bytes: &[u8]) {
        self.pieces.clear();
        let Some(&levels) = bytes.first() else { return };
        let levels = usize::from(levels) + 1;
        let mut at = 1 + levels;
        for (level, &count) in (0..).zip(&bytes[1..=levels]) {
            for _ in 0..=count {
                let segment = Segment::from_bytes(&bytes[at..]);
                let members = if segment.slope.is_approximate() {
                    Set::default()
                } else {
                    Set::strided(segment.start, segment.last(), segment.slope.stride())
                };
                self.pieces.push(Piece { segment, members, level });
                at += Segment::BYTES;
            }
        }
        for piece in self.pieces.iter_mut().filter(|piece| piece.segment.slope.is_approximate()) {
            let count = usize::from(bytes[at]) + 1;
            piece.members = bytes[at + 1..at + 1 + count].iter().copied().collect();
            at += 1 + count;
        }
    }
}

/// Looks an offset up in a packed group, level by level: what is said of it, if anything, and how many levels
/// were looked at.
pub fn find(bytes: &[u8], offset: u8) -> (Option<Answer>, u32) {
    let Some(&levels) = bytes.first() else { return (None, 0) };
    let levels = usize::from(levels) + 1;
    let segment = |index: usize| Segment::from_bytes(&bytes[1 + levels + index * Segment::BYTES..]);
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
