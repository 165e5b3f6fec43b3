//! Compaction.

use super::{Group, Piece, Set};

impl Group {
    /// Takes every overwritten member out of every segment, drops what is empty, joins what continues each
    /// other, and puts each segment on the highest level below all newer ones that it overlaps.
    pub fn compact(&mut self) {
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        pieces.extend(self.pieces());
        let mut seen = Set::default();
        for piece in &mut pieces {
            let live = piece.members.without(seen);
            seen = seen.with(piece.members);
            piece.keep(live);
        }
        // A trim is needed only above a segment that still claims what was trimmed.
        let mut claimed = Set::default();
        for piece in pieces.iter_mut().rev() {
            if piece.is_nowhere() {
                piece.keep(piece.members.and(claimed));
            } else {
                claimed = claimed.with(piece.members);
            }
        }
        pieces.retain(|piece| !piece.members.is_empty());
        let mut depth = [0u16; 256];
        for piece in &mut pieces {
            let covered = usize::from(piece.segment.start)..=usize::from(piece.segment.last());
            piece.level = depth[covered.clone()].iter().copied().max().unwrap_or(0);
            depth[covered].fill(piece.level + 1);
        }
        pieces.sort_unstable_by_key(|piece| (piece.level, piece.segment.start));
        join(&mut pieces);
        self.set(&pieces);
        self.pieces = pieces;
    }
}

/// Joins neighbours of a level that are one line.
fn join(pieces: &mut Vec<Piece>) {
    pieces.dedup_by(|next, piece| {
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
