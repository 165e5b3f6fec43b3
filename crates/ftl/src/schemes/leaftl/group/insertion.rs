//! Insertion and trims, on the parts of a record.
//!
//! An insertion changes the two top levels, of some hundred segments a few dozen. The levels below are left
//! as they are, but for members that the CRB lists, and for all with [`Reach::All`].

use super::{lists_of, Group, Piece, Reach, Set};
use crate::schemes::leaftl::segment::{Bytes, Segment};

/// In the place of a segment that has lost all members. Nothing can start at 255 and be longer than 1.
const DEAD: Bytes = [u8::MAX; Segment::BYTES];

impl Group {
    /// Puts new segments, ascending and disjoint, on top. Members that they overwrite are taken out of the
    /// lists of the CRB, where an LPN is in one segment only, and out of the levels that `reach` says;
    /// what is left in the top level of a segment that still overlaps moves one level down: into the next
    /// level where it fits, else into a level of its own between the two (so that nothing moves further).
    pub fn insert(&mut self, new: &[Piece], reach: Reach) {
        let taken = new.iter().fold(Set::default(), |taken, piece| taken.with(piece.members));
        self.take_out(taken, reach);
        if !self.insert_into_gap(new) {
            self.insert_above(new);
        }
    }

    /// Puts new segments on top, where members that they overwrite are taken out already.
    fn insert_above(&mut self, new: &[Piece]) {
        let Group { counts, segments, upper, moving, .. } = self;
        let count = |level: usize| counts.get(level).map_or(0, |&count| usize::from(count));
        let (top, below) = (count(0), count(0) + count(1));
        let under = &segments[top..below];
        let fits = |word: &Bytes| !under.iter().any(|&other| overlaps(*word, other));
        upper.clear();
        moving.clear();
        let words = new.iter().map(|piece| Bytes::from(piece.segment));
        let stay = segments[..top].iter().copied().filter(|&word| {
            let moves = words.clone().any(|new| overlaps(new, word));
            moving.extend(moves.then_some(word));
            !moves
        });
        merge(upper, words.clone(), stay);
        let on_top = upper.len();
        let lists_move = new.iter().any(|piece| piece.segment.slope.is_approximate())
            || moving.iter().any(|&word| Segment::from(word).slope.is_approximate());
        upper.extend(moving.iter().filter(|word| !fits(word)));
        moving.retain(fits);
        let between = upper.len() - on_top;
        merge(upper, moving.iter().copied(), under.iter().copied());
        let second = upper.len() - between - on_top;
        segments.splice(..below, upper.iter().copied());

        let rest = counts.len().min(2);
        counts.splice(..rest, [on_top as u16, between as u16, second as u16]);
        counts.retain(|&count| count > 0);
        if lists_move {
            self.reorder_lists(new);
        }
    }

    /// Puts a single new segment without a list into the top level, where it overlaps nothing. Whether it
    /// could: no other segment moves then.
    fn insert_into_gap(&mut self, new: &[Piece]) -> bool {
        let (&[Piece { segment, .. }], Some(&top)) = (new, self.counts.first()) else { return false };
        let on_top = &self.segments[..usize::from(top)];
        let at = on_top.partition_point(|&word| start(word) < segment.start);
        let beside = &on_top[at.saturating_sub(1)..on_top.len().min(at + 1)];
        let overlaps_one = beside.iter().any(|&word| overlaps(word, segment.into()));
        if top == 0 || overlaps_one || segment.slope.is_approximate() {
            return false;
        }
        self.segments.insert(at, segment.into());
        self.counts[0] += 1;
        self.counts.retain(|&count| count > 0);
        true
    }

    /// As [`Group::insert`], by the way that serves all segments.
    #[cfg(test)]
    pub(super) fn insert_without_gaps(&mut self, new: &[Piece], reach: Reach) {
        self.take_out(new.iter().fold(Set::default(), |taken, piece| taken.with(piece.members)), reach);
        self.insert_above(new);
    }

    /// Takes offsets `first` to `last` out of all levels. Where the stride of a segment still claims one of
    /// them, a segment that leads nowhere hides it.
    pub fn trim(&mut self, first: u8, last: u8) {
        let claimed = self.take_out(Set::range(first, last), Reach::All);
        self.counts.retain(|&count| count > 0);
        if !claimed.is_empty() {
            self.insert(&[Piece::nowhere(claimed.first(), claimed.last())], Reach::All);
        }
    }

    /// Takes offsets out of the CRB, and out of the strided segments within reach, as far as their strides
    /// allow; returns those that they still claim. Segments without members go; their levels stay, empty.
    fn take_out(&mut self, taken: Set, reach: Reach) -> Set {
        let mut died = self.take_from_lists(taken);
        let within = match reach {
            Reach::Top => self.counts.first().map_or(0, |&count| usize::from(count)),
            Reach::All => self.segments.len(),
        };
        let (first, last) = (taken.first(), taken.last());
        let mut claimed = Set::default();
        for word in &mut self.segments[..within] {
            let segment = Segment::from(*word);
            if start(*word) > last || segment.slope.is_approximate() || segment.last() < first {
                continue;
            }
            let members = segment.claimed();
            if members.and(taken).is_empty() {
                continue;
            }
            let left = members.without(taken);
            died |= left.is_empty();
            *word = if left.is_empty() { DEAD } else { segment.cut(left.first(), left.last()).into() };
            if !left.is_empty() {
                let between = Set::range(left.first(), left.last());
                claimed = claimed.with(members.and(taken).and(between));
            }
        }
        if died {
            self.drop_dead();
        }
        claimed
    }

    /// Takes offsets out of the CRB. Whether a segment is left without members.
    fn take_from_lists(&mut self, taken: Set) -> bool {
        let Group { segments, lists, .. } = self;
        let (first, last) = (taken.first(), taken.last());
        let hit = |list: &[u8]| {
            let may_hit = list[0] <= last && list[list.len() - 1] >= first;
            may_hit && list.iter().any(|&offset| taken.has(offset))
        };
        if !lists_of(lists).any(hit) {
            return false;
        }
        let (mut at, mut to, mut died) = (0, 0, false);
        while at < lists.len() {
            let members = at + 1..at + 2 + usize::from(lists[at]);
            at = members.end;
            // A segment begins with the first member of its list, which is in no other list.
            let begin = lists[members.start];
            let mut kept = to + 1;
            let before = members.len();
            for from in members {
                lists[kept] = lists[from];
                kept += usize::from(!taken.has(lists[from]));
            }
            let count = kept - to - 1;
            if count < before {
                let owns = |word: &Bytes| start(*word) == begin && is_listed(*word);
                let Some(word) = segments.iter_mut().find(|word| owns(word)) else {
                    unreachable!("no segment begins with the list at {begin}")
                };
                died |= count == 0;
                *word = match count {
                    0 => DEAD,
                    _ => Segment::from(*word).cut(lists[to + 1], lists[kept - 1]).into(),
                };
            }
            if count > 0 {
                lists[to] = (count - 1) as u8;
                to = kept;
            }
        }
        lists.truncate(to);
        died
    }

    fn drop_dead(&mut self) {
        let (mut at, mut to) = (0, 0);
        for count in &mut self.counts {
            let before = to;
            for from in at..at + usize::from(*count) {
                self.segments[to] = self.segments[from];
                to += usize::from(self.segments[from] != DEAD);
            }
            at += usize::from(*count);
            *count = (to - before) as u16;
        }
        self.segments.truncate(to);
    }

    /// Brings the lists into the order of their segments, with those of the new segments.
    fn reorder_lists(&mut self, new: &[Piece]) {
        new.iter().for_each(|piece| piece.list(&mut self.lists));
        self.reordered.clear();
        for &word in self.segments.iter().filter(|&&word| is_listed(word)) {
            let list = lists_of(&self.lists).find(|list| list[0] == start(word)).unwrap_or_default();
            self.reordered.push((list.len() - 1) as u8);
            self.reordered.extend_from_slice(list);
        }
        std::mem::swap(&mut self.lists, &mut self.reordered);
    }
}

/// The first offset that a segment covers.
#[inline]
fn start(segment: Bytes) -> u8 {
    segment[0]
}

/// Whether the CRB lists its members.
#[inline]
fn is_listed(word: Bytes) -> bool {
    word != DEAD && Segment::from(word).slope.is_approximate()
}

#[inline]
fn overlaps(a: Bytes, b: Bytes) -> bool {
    let (a, b) = (Segment::from(a), Segment::from(b));
    a.start <= b.last() && b.start <= a.last()
}

/// Appends the segments of two levels, ascending, in their order.
fn merge(to: &mut Vec<Bytes>, a: impl Iterator<Item = Bytes>, b: impl Iterator<Item = Bytes>) {
    let mut a = a.peekable();
    for word in b {
        to.extend(std::iter::from_fn(|| a.next_if(|&other| start(other) < start(word))));
        to.push(word);
    }
    to.extend(a);
}
