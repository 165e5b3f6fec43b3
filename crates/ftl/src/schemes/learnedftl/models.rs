//! In-place-update linear models (LearnedFTL, III-B): pieces `<k, b, off>` and a bitmap filter for each GTD
//! entry.
//!
//! A GTD entry covers consecutive LPNs, at most 512. Its pieces map LPNs to *virtual* PPNs, which in this
//! project are the PPNs: [`nand::Geometry`] numbers pages in the order in which they are allocated (III-C). A
//! bit is set only where the prediction, computed with exactly what is stored, is right; so a set bit needs
//! no check, and a cleared one costs the lookup that the scheme would have needed anyway.
//!
//! **Format.** The paper stores k and b as 16-bit floats and off as a 16-bit integer: 6 bytes. A 16-bit float
//! holds integers exactly only up to 2,048, and an intercept is a page number. Off needs only 9 of its bits,
//! since it is less than 512. So in the `exact` format a piece is k as a 16-bit float, off in 9 bits and b in
//! 23: the same 6 bytes. The line is anchored where the piece begins: `y = base + b + round(k * (x - off))`.
//! b counts from a 16-bit base of the entry, in units of 65,536 pages, so that b reaches over 8,388,608 pages
//! (32 GiB of 4 KiB) and the base over 2^32. Eight pieces, base and bitmap take 48 + 2 + 64 = 114 bytes. The
//! `float16` format is the paper's, read literally but for one mercy: b counts from a 4-byte base, the
//! entry's first page: `y = base + round(k * x + b)`, 116 bytes.
//!
//! **Memory.** Only an entry that has a model takes its bytes. The models lie in one pool, and each entry
//! has a number of [`NUMBER_BYTES`] that says where. A model gives its bytes back when it predicts fewer LPNs
//! than the cache of mappings would hold in them ([`Models::give_back`]).

use super::fit::{Fitter, Line};
use crate::breach::Breach;
use crate::half::Half;
use half::f16;
use nand::{Lpn, Ppn};
use prefetch_index::prefetch_index;
use std::ops::Range;

/// LPNs of a GTD entry, at most: those of a translation page of 4 KiB with 8 bytes a mapping, as in the
/// paper.
pub const ENTRY_LPNS: u32 = 512;
/// Bytes of a piece `<k, b, off>`.
pub const PIECE_BYTES: u64 = 6;
/// Bytes of the place of an entry's model in the pool: enough for 2^24 entries, which are 32 TiB of 4 KiB.
pub const NUMBER_BYTES: u64 = 3;
/// Points that make a piece worth its place: two lie on a line by accident.
pub const LEAST_POINTS: usize = 3;

const WORDS: usize = ENTRY_LPNS as usize / 64;
/// Bits of an intercept in the exact format, and the pages of a base's unit.
const INTERCEPT_BITS: u32 = 23;
const BASE_SHIFT: u32 = 16;
/// A 16-bit float that is no number: the slope of a place without a piece.
const NO_PIECE: u16 = 0x7fff;

/// How slopes and intercepts are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Slope 16-bit float, intercept 23-bit integer over the entry's base.
    Exact,
    /// Slope and intercept 16-bit floats, as the paper prints it.
    Float16,
}

/// A piece as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    /// Bits of a 16-bit float.
    slope: u16,
    /// Exact: intercept, then offset in the low 9 bits. Float16: intercept's bits, then offset in the low
    /// 16.
    rest: [u16; 2],
}

const _: () = assert!(size_of::<Piece>() == PIECE_BYTES as usize);
const VACANT: Piece = Piece { slope: NO_PIECE, rest: [0; 2] };

/// A point of a model: the LPN's place in its entry, and where its page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// 0..512.
    pub x: u32,
    /// The page.
    pub y: u32,
}

/// The models of all GTD entries.
#[derive(Clone, Debug)]
pub struct Models {
    format: Format,
    /// Pieces of an entry.
    per_entry: usize,
    /// LPNs of an entry, a power of two, and which.
    entry_lpns: u32,
    entry_shift: u32,
    /// By entry and place, ascending by offset, vacant places last.
    pieces: Vec<Piece>,
    bases: Vec<u32>,
    /// No base above this one is needed to reach the last page.
    highest_base: u32,
    bitmaps: Vec<[u64; WORDS]>,
    /// Set bits by entry.
    trained: Vec<u16>,
    /// Entries that have a model.
    present: u64,
    /// Pieces while an entry is updated: what is stored, and the accurate points.
    scratch: Vec<(Piece, u32)>,
    /// Working memory of the controller, as the list of moves is.
    fitter: Fitter,
}

impl Models {
    /// Models without a piece for `lpns` LPNs, in entries of `entry_lpns`, over an array of `array_pages`.
    pub fn new(
        lpns: u32,
        entry_lpns: u32,
        pieces_per_entry: u32,
        format: Format,
        array_pages: u32,
    ) -> Models {
        assert!(entry_lpns.is_power_of_two() && entry_lpns <= ENTRY_LPNS);
        assert!(pieces_per_entry > 0);
        let entries = lpns.div_ceil(entry_lpns);
        let per_entry = pieces_per_entry as usize;
        Models {
            format,
            per_entry,
            entry_lpns,
            entry_shift: entry_lpns.trailing_zeros(),
            pieces: vec![VACANT; entries as usize * per_entry],
            bases: vec![0; entries as usize],
            highest_base: array_pages.saturating_sub(1 << INTERCEPT_BITS).div_ceil(1 << BASE_SHIFT),
            bitmaps: vec![[0; WORDS]; entries as usize],
            trained: vec![0; entries as usize],
            present: 0,
            scratch: Vec::with_capacity(per_entry + 2),
            fitter: Fitter::new(per_entry, entry_lpns as usize),
        }
    }

    /// Bytes of the models that there are, and of the entries' numbers.
    pub fn bytes(&self) -> u64 {
        self.bytes_of(self.present)
    }

    /// As [`Models::bytes`], if every entry has a model.
    pub fn most_bytes(&self) -> u64 {
        self.bytes_of(self.bitmaps.len() as u64)
    }

    fn bytes_of(&self, present: u64) -> u64 {
        self.bitmaps.len() as u64 * NUMBER_BYTES + present * self.entry_bytes()
    }

    /// Bytes of a model.
    pub fn entry_bytes(&self) -> u64 {
        entry_bytes(self.per_entry as u32, self.entry_lpns, self.format)
    }

    /// How many LPNs one GTD entry covers.
    pub fn entry_lpns(&self) -> u32 {
        self.entry_lpns
    }

    /// The entry of an LPN, and its place in it.
    #[inline]
    pub fn place(&self, lpn: Lpn) -> (usize, u32) {
        ((lpn.0 >> self.entry_shift) as usize, lpn.0 & (self.entry_lpns - 1))
    }

    /// LPNs whose bit is set.
    pub fn trained(&self) -> u64 {
        self.trained.iter().map(|&bits| u64::from(bits)).sum()
    }

    /// Where `lpn` is, if its bit is set.
    #[inline]
    pub fn predict(&self, lpn: Lpn) -> Option<Ppn> {
        let (entry, x) = self.place(lpn);
        self.is_set(entry, x).then(|| Ppn(self.evaluate(entry, x).unwrap_or(u32::MAX)))
    }

    /// What the entry's pieces say of `lpn`, whether its bit is set or not.
    pub fn guess(&self, lpn: Lpn) -> Option<Ppn> {
        let (entry, x) = self.place(lpn);
        self.evaluate(entry, x).map(Ppn)
    }

    /// The piece that says where `lpn` is, by its number.
    #[inline]
    pub fn piece_of(&self, lpn: Lpn) -> Option<usize> {
        let (entry, x) = self.place(lpn);
        self.piece_at(entry, x)
    }

    /// Starts bringing into the processor's cache what a prediction of `lpn` will touch.
    #[inline]
    pub fn expect(&self, lpn: Lpn) {
        let (entry, x) = self.place(lpn);
        if let Some(bitmap) = self.bitmaps.get(entry) {
            prefetch_index(bitmap, x as usize / 64);
        }
        prefetch_index(&self.pieces, entry * self.per_entry);
    }

    /// Takes back what is known of `lpn`. Returns whether its bit was set.
    #[inline]
    pub fn clear(&mut self, lpn: Lpn) -> bool {
        let (entry, x) = self.place(lpn);
        let was_set = self.is_set(entry, x);
        if was_set {
            self.bitmaps[entry][x as usize / 64] &= !(1 << (x % 64));
            self.trained[entry] -= 1;
        }
        was_set
    }

    /// Takes the model of an entry away if it predicts fewer than `least` LPNs.
    #[inline]
    pub fn give_back(&mut self, entry: usize, least: u32) {
        if u32::from(self.trained[entry]) < least && self.has_model(entry) {
            self.pieces[entry * self.per_entry..(entry + 1) * self.per_entry].fill(VACANT);
            self.bitmaps[entry] = [0; WORDS];
            self.trained[entry] = 0;
            self.present -= 1;
        }
    }

    #[inline]
    fn has_model(&self, entry: usize) -> bool {
        self.pieces[entry * self.per_entry] != VACANT
    }

    /// Sets the bit of `lpn` if its entry's pieces, as they are, lead to `ppn`.
    #[inline]
    pub fn confirm(&mut self, lpn: Lpn, ppn: Ppn) -> bool {
        let (entry, x) = self.place(lpn);
        let right = self.evaluate(entry, x) == Some(ppn.0);
        if right {
            self.set(entry, x);
        }
        right
    }

    /// Learns the points of one entry, ascending by x: lines that predict most of them ([`Fitter`]), an
    /// in-place update with each, then the bits of those points that are predicted right. The bits of all
    /// these points must be clear. Points not given keep what is known of them, as far as the pieces that
    /// knew it stay.
    pub fn learn(&mut self, entry: usize, points: &[Point]) {
        if points.len() >= LEAST_POINTS {
            self.fitter.fit(points);
            for at in 0..self.fitter.lines.len() {
                let line = self.fitter.lines[at].clone();
                self.update_in_place(entry, points, &line);
            }
        }
        if !self.has_model(entry) {
            return;
        }
        // A point may be right by a piece that was made for others.
        let mut begun = 0;
        for point in points {
            if !self.is_set(entry, point.x) && self.evaluate_next(entry, point.x, &mut begun) == Some(point.y)
            {
                self.set(entry, point.x);
            }
        }
    }

    /// The in-place update of figure 10: the piece with `line` takes its range; a piece that it covers in
    /// part keeps the rest of its range, before and after. Nothing changes if more predictions of other LPNs
    /// would be lost in the range than are won (step 4 of III-E1: only a shorter model is replaced). When
    /// there are more pieces than places, the one with the fewest accurate points goes, whether old or new.
    fn update_in_place(&mut self, entry: usize, points: &[Point], line: &Line) {
        let points = &points[line.points.clone()];
        let (first, end) = (line.anchor, points[points.len() - 1].x + 1);
        if self.count(entry, first.x, end) >= line.exact {
            return;
        }
        let places = entry * self.per_entry..(entry + 1) * self.per_entry;
        let is_first = !self.has_model(entry);
        if is_first {
            self.bases[entry] = self.base_for(first);
        }
        let Some(new) = self.stored(self.bases[entry], first, line.slope) else { return };
        let mut pieces = std::mem::take(&mut self.scratch);
        pieces.clear();
        let mut lossy = self.place_among(entry, first.x..end, (new, line.exact), &mut pieces);
        while pieces.len() > self.per_entry {
            let fewest = (0..pieces.len()).min_by_key(|&at| pieces[at].1).unwrap_or(0);
            pieces.swap_remove(fewest);
            lossy = true;
        }
        pieces.sort_unstable_by_key(|&(piece, _)| self.offset(piece));
        let at_risk = if lossy { 0..self.entry_lpns } else { first.x..end };
        let mut right = [0; ENTRY_LPNS as usize];
        let mut begun = 0;
        for x in self.set_bits(entry, at_risk.clone()) {
            right[x as usize] = self.evaluate_next(entry, x, &mut begun).unwrap_or(u32::MAX);
        }
        self.present += u64::from(is_first);
        let kept = pieces.iter().map(|&(piece, _)| piece);
        for (place, piece) in places.zip(kept.chain(std::iter::repeat(VACANT))) {
            self.pieces[place] = piece;
        }
        begun = 0;
        for x in self.set_bits(entry, at_risk) {
            if self.evaluate_next(entry, x, &mut begun) != Some(right[x as usize]) {
                self.unset(entry, x);
            }
        }
        begun = 0;
        for point in points {
            if self.evaluate_next(entry, point.x, &mut begun) == Some(point.y) {
                self.set(entry, point.x);
            }
        }
        self.scratch = pieces;
    }

    /// The pieces of an entry, each with its accurate points, when `new` has taken `range`. Returns whether a
    /// bit outside of the range may be lost: where a piece is anchored anew and may round another way.
    fn place_among(
        &self,
        entry: usize,
        range: Range<u32>,
        (mut new, mut accurate): (Piece, u32),
        pieces: &mut Vec<(Piece, u32)>,
    ) -> bool {
        let base = self.bases[entry];
        let (mut after_new, mut lossy) = (0, false);
        for place in entry * self.per_entry..(entry + 1) * self.per_entry {
            let piece = self.pieces[place];
            if piece == VACANT {
                break;
            }
            let (begin, next) = (self.offset(piece), self.next_offset(entry, place));
            let before = self.count(entry, begin, next.min(range.start));
            let from = begin.max(range.end);
            let after = self.count(entry, from, next);
            // Parts of one run without another piece between them are one piece.
            let is_beside = if begin < range.end { next >= range.start } else { after_new == 0 };
            if is_beside && self.is_one_run(base, piece, new, begin.max(range.start)) {
                new = if before > 0 { piece } else { new };
                accurate += before + after;
                continue;
            }
            if before > 0 {
                pieces.push((piece, before));
            }
            after_new += after;
            if after > 0 && from == begin {
                pieces.push((piece, after));
            } else if after > 0 {
                let anchor = Point { x: from, y: self.line(base, piece, from) };
                let tail = self.stored(base, anchor, f16::from_bits(piece.slope));
                lossy |= !tail.is_some_and(|tail| self.is_one_run(base, piece, tail, from));
                pieces.extend(tail.map(|tail| (tail, after)));
            }
        }
        pieces.push((new, accurate));
        lossy
    }

    // The stored form

    /// The base of an entry whose first piece begins at `first`.
    fn base_for(&self, first: Point) -> u32 {
        match self.format {
            // As far below the page as above it, where the array goes on so far.
            Format::Exact => {
                let half = 1 << (INTERCEPT_BITS - BASE_SHIFT - 1);
                (first.y >> BASE_SHIFT).saturating_sub(half).min(self.highest_base)
            }
            Format::Float16 => first.y,
        }
    }

    /// The piece through `at` with this slope; `None` when the format cannot hold it.
    fn stored(&self, base: u32, at: Point, slope: f16) -> Option<Piece> {
        match self.format {
            Format::Exact => {
                let intercept = at.y.checked_sub(base << BASE_SHIFT)?;
                let word = intercept << (32 - INTERCEPT_BITS) | at.x;
                (intercept >> INTERCEPT_BITS == 0)
                    .then_some(Piece { slope: slope.to_bits(), rest: [(word >> 16) as u16, word as u16] })
            }
            Format::Float16 => {
                let intercept = f64::from(at.y) - f64::from(base) - slope.to_f64() * f64::from(at.x);
                let intercept = f16::from_f64(intercept);
                intercept
                    .is_finite()
                    .then_some(Piece { slope: slope.to_bits(), rest: [intercept.to_bits(), at.x as u16] })
            }
        }
    }

    /// Where a piece begins.
    #[inline]
    fn offset(&self, piece: Piece) -> u32 {
        match self.format {
            Format::Exact => u32::from(piece.rest[1]) & (ENTRY_LPNS - 1),
            Format::Float16 => u32::from(piece.rest[1]),
        }
    }

    /// Where the next piece begins, or the entry ends.
    fn next_offset(&self, entry: usize, place: usize) -> u32 {
        let is_last = (place + 1).is_multiple_of(self.per_entry) || self.pieces[place + 1] == VACANT;
        debug_assert!(place / self.per_entry == entry);
        if is_last {
            self.entry_lpns
        } else {
            self.offset(self.pieces[place + 1])
        }
    }

    /// The line of a piece at `x`, rounded. Every step is exact, in integers (11 bits of slope, shifted by 29
    /// at most, times 9 bits of x) and in 64-bit floats.
    #[inline]
    fn line(&self, base: u32, piece: Piece, x: u32) -> u32 {
        match self.format {
            Format::Exact => {
                let word = u32::from(piece.rest[0]) << 16 | u32::from(piece.rest[1]);
                let (intercept, begin) = (word >> (32 - INTERCEPT_BITS), word & (ENTRY_LPNS - 1));
                let first = (base << BASE_SHIFT).wrapping_add(intercept);
                first.wrapping_add(Half(piece.slope).times_up(x - begin) as u32)
            }
            Format::Float16 => {
                let [slope, intercept] =
                    [piece.slope, piece.rest[0]].map(|bits| f16::from_bits(bits).to_f64());
                (i64::from(base) + rounded(slope * f64::from(x) + intercept)) as u32
            }
        }
    }

    /// Both pieces are runs of consecutive pages, and the same one, as they say at `x`.
    #[inline]
    fn is_one_run(&self, base: u32, a: Piece, b: Piece, x: u32) -> bool {
        let run = f16::ONE.to_bits();
        a.slope == run && b.slope == run && self.line(base, a, x) == self.line(base, b, x)
    }

    /// What the entry's pieces say of `x`.
    #[inline]
    fn evaluate(&self, entry: usize, x: u32) -> Option<u32> {
        self.piece_at(entry, x).map(|number| self.line(self.bases[entry], self.pieces[number], x))
    }

    /// As [`Models::evaluate`], for one `x` after the other in ascending order. `begun` are the pieces that
    /// begin at the last one or before, 0 at first.
    #[inline]
    fn evaluate_next(&self, entry: usize, x: u32, begun: &mut usize) -> Option<u32> {
        let pieces = &self.pieces[entry * self.per_entry..(entry + 1) * self.per_entry];
        while pieces.get(*begun).is_some_and(|&next| next.slope != NO_PIECE && self.offset(next) <= x) {
            *begun += 1;
        }
        (*begun > 0).then(|| self.line(self.bases[entry], pieces[*begun - 1], x))
    }

    /// The piece of an entry in which `x` lies: the last one that begins there or before.
    #[inline]
    fn piece_at(&self, entry: usize, x: u32) -> Option<usize> {
        let first = entry * self.per_entry;
        let begins = |piece: &Piece| piece.slope != NO_PIECE && self.offset(*piece) <= x;
        let pieces = &self.pieces[first..first + self.per_entry];
        let begun = pieces.iter().take_while(|&piece| begins(piece)).count();
        (begun > 0).then(|| first + begun - 1)
    }

    // The bitmap

    #[inline]
    fn is_set(&self, entry: usize, x: u32) -> bool {
        self.bitmaps[entry][x as usize / 64] >> (x % 64) & 1 == 1
    }

    #[inline]
    fn set(&mut self, entry: usize, x: u32) {
        let word = &mut self.bitmaps[entry][x as usize / 64];
        let fresh = *word >> (x % 64) & 1 == 0;
        *word |= 1 << (x % 64);
        self.trained[entry] += u16::from(fresh);
    }

    fn unset(&mut self, entry: usize, x: u32) {
        let word = &mut self.bitmaps[entry][x as usize / 64];
        let was_set = *word >> (x % 64) & 1 == 1;
        *word &= !(1 << (x % 64));
        self.trained[entry] -= u16::from(was_set);
    }

    /// The set bits in a range.
    fn set_bits(&self, entry: usize, range: Range<u32>) -> impl Iterator<Item = u32> + use<> {
        let bitmap = self.bitmaps[entry];
        words(&range).flat_map(move |word| {
            let mut bits = bitmap[word as usize] & mask(word, &range);
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros())?;
                bits &= bits - 1;
                Some(word * 64 + bit)
            })
        })
    }

    /// How many bits are set in `from..to`.
    fn count(&self, entry: usize, from: u32, to: u32) -> u32 {
        let bitmap = &self.bitmaps[entry];
        let range = from..to;
        words(&range).map(|word| (bitmap[word as usize] & mask(word, &range)).count_ones()).sum()
    }

    // On flash

    /// Everything as it is stored, little-endian, after a head of 12 bytes that says how: places, LPNs of an
    /// entry, format.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(12 + self.bases.len() * self.stored_bytes());
        self.head().iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        for (entry, base) in self.bases.iter().enumerate() {
            bytes.extend(base.to_le_bytes());
            for piece in &self.pieces[entry * self.per_entry..(entry + 1) * self.per_entry] {
                [piece.slope, piece.rest[0], piece.rest[1]]
                    .iter()
                    .for_each(|half| bytes.extend(half.to_le_bytes()));
            }
            self.bitmaps[entry].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        }
        bytes
    }

    /// Takes over what [`Models::to_bytes`] gave. `false`, and nothing is taken over, when it was made
    /// otherwise.
    pub fn restore(&mut self, bytes: &[u8]) -> bool {
        let entry_bytes = self.stored_bytes();
        let head: Vec<u8> = self.head().iter().flat_map(|word| word.to_le_bytes()).collect();
        let Some(entries) = bytes.strip_prefix(&head[..]) else { return false };
        if entries.len() != self.bases.len() * entry_bytes {
            return false;
        }
        let half = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        self.present = 0;
        for (entry, stored) in entries.chunks_exact(entry_bytes).enumerate() {
            self.bases[entry] = u32::from(half(stored, 0)) | u32::from(half(stored, 2)) << 16;
            let (pieces, bitmap) = stored[4..].split_at(self.per_entry * PIECE_BYTES as usize);
            for (place, piece) in pieces.chunks_exact(PIECE_BYTES as usize).enumerate() {
                self.pieces[entry * self.per_entry + place] =
                    Piece { slope: half(piece, 0), rest: [half(piece, 2), half(piece, 4)] };
            }
            for (word, stored) in self.bitmaps[entry].iter_mut().zip(bitmap.chunks_exact(8)) {
                *word = stored.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            }
            self.trained[entry] = self.count(entry, 0, ENTRY_LPNS) as u16;
            self.present += u64::from(self.has_model(entry));
        }
        true
    }

    /// Bytes of an entry in [`Models::to_bytes`].
    fn stored_bytes(&self) -> usize {
        4 + self.per_entry * PIECE_BYTES as usize + WORDS * 8
    }

    fn head(&self) -> [u32; 3] {
        [self.per_entry as u32, self.entry_lpns, u32::from(self.format == Format::Float16)]
    }

    /// Checks the counts against the bits and pieces, and that every set bit has a piece.
    pub fn check(&self) -> Result<(), Breach> {
        for (entry, &counted) in self.trained.iter().enumerate() {
            let mut trained = 0;
            for x in self.set_bits(entry, 0..ENTRY_LPNS) {
                trained += 1;
                if x >= self.entry_lpns || self.evaluate(entry, x).is_none() {
                    return Err(format!("bit {x} of GTD entry {entry} is set but no piece covers it").into());
                }
            }
            if trained != counted {
                return Err(
                    format!("{trained} bits of GTD entry {entry} are set but {counted} are counted").into()
                );
            }
        }
        let present = (0..self.bitmaps.len()).filter(|&entry| self.has_model(entry)).count() as u64;
        if present != self.present {
            return Err(format!("{present} GTD entries have a model but {} are counted", self.present).into());
        }
        Ok(())
    }
}

/// Bytes of an entry's pieces, base and bitmap.
pub fn entry_bytes(pieces: u32, entry_lpns: u32, format: Format) -> u64 {
    let base = match format {
        Format::Exact => 2,
        Format::Float16 => 4,
    };
    u64::from(pieces) * PIECE_BYTES + base + u64::from(entry_lpns).div_ceil(8)
}

/// The words of a bitmap in which bits of `range` lie.
fn words(range: &Range<u32>) -> Range<u32> {
    range.start / 64..range.end.div_ceil(64)
}

/// The bits of word `word` that lie in `range`.
fn mask(word: u32, range: &Range<u32>) -> u64 {
    let begin = range.start.clamp(word * 64, word * 64 + 64) - word * 64;
    let end = range.end.clamp(word * 64, word * 64 + 64) - word * 64;
    let below = |bit: u32| if bit == 64 { u64::MAX } else { (1 << bit) - 1 };
    below(end) & !below(begin)
}

/// Rounds half up. Not by `floor`, which is a call where the processor may lack the instruction.
#[inline]
fn rounded(value: f64) -> i64 {
    let near = value + 0.5;
    let whole = near as i64;
    whole - i64::from(whole as f64 > near)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LPNS: u32 = 1_200;

    fn models(pieces: u32, format: Format) -> Models {
        Models::new(LPNS, 512, pieces, format, 1 << 25)
    }

    #[test]
    fn an_entry_takes_114_bytes() {
        assert_eq!(entry_bytes(8, 512, Format::Exact), 114);
        assert_eq!(entry_bytes(8, 512, Format::Float16), 116);
        assert_eq!(models(8, Format::Exact).most_bytes(), 3 * (114 + 3));
        assert_eq!(models(8, Format::Exact).bytes(), 3 * 3, "there is no model yet");
    }

    #[test]
    fn a_model_that_predicts_too_little_gives_its_bytes_back() {
        let mut models = models(8, Format::Exact);
        models.learn(1, &(0..100).map(|x| Point { x, y: 9_000 + x }).collect::<Vec<_>>());
        (20..100).for_each(|x| assert!(models.clear(Lpn(512 + x))));
        models.give_back(1, 20);
        assert_eq!((models.trained(), models.bytes()), (20, 3 * 3 + 114));
        models.clear(Lpn(512));
        models.give_back(1, 20);
        assert_eq!((models.trained(), models.bytes(), models.check()), (0, 3 * 3, Ok(())));
        assert_eq!((models.predict(Lpn(513)), models.guess(Lpn(513))), (None, None));
        models.learn(1, &(0..100).map(|x| Point { x, y: 70_000 + x }).collect::<Vec<_>>());
        assert_eq!((models.predict(Lpn(513)), models.check()), (Some(Ppn(70_001)), Ok(())));
    }

    #[test]
    fn a_run_is_one_piece_and_is_predicted_wherever_it_lies() {
        for y in [0, 2_047, 70_000, (1 << 25) - 200] {
            let mut models = models(1, Format::Exact);
            let points: Vec<_> = (100..228).map(|x| Point { x, y: y + x - 100 }).collect();
            models.learn(1, &points);
            assert_eq!(models.trained(), 128);
            assert_eq!(models.predict(Lpn(512 + 150)), Some(Ppn(y + 50)));
            assert_eq!(models.predict(Lpn(512 + 228)), None, "right by chance, but nobody said so");
        }
    }

    #[test]
    fn a_piece_within_another_leaves_both_of_its_sides() {
        let mut models = models(8, Format::Exact);
        models.learn(0, &(0..512).map(|x| Point { x, y: 9_000 + x }).collect::<Vec<_>>());
        (200..300).for_each(|lpn| assert!(models.clear(Lpn(lpn))));
        models.learn(0, &(200..300).map(|x| Point { x, y: 40_000 + x }).collect::<Vec<_>>());
        assert_eq!(models.trained(), 512);
        for (lpn, ppn) in [(199, 9_199), (200, 40_200), (299, 40_299), (300, 9_300)] {
            assert_eq!(models.predict(Lpn(lpn)), Some(Ppn(ppn)));
        }
    }

    #[test]
    fn the_shortest_piece_goes_when_places_run_out() {
        let mut models = models(2, Format::Exact);
        let run = |from: u32, to: u32, y: u32| (from..to).map(|x| Point { x, y: y + x }).collect::<Vec<_>>();
        models.learn(0, &run(0, 100, 1_000));
        models.learn(0, &run(100, 150, 50_000));
        models.learn(0, &run(150, 170, 90_000));
        assert_eq!((models.trained(), models.predict(Lpn(160))), (150, None));
        models.learn(0, &run(170, 250, 20_000));
        assert_eq!((models.trained(), models.predict(Lpn(120))), (180, None));
        assert_eq!(models.predict(Lpn(200)), Some(Ppn(20_200)));
    }

    #[test]
    fn what_is_stored_comes_back() {
        let mut models = models(8, Format::Exact);
        models.learn(0, &(0..400).map(|x| Point { x, y: 70_000 + x }).collect::<Vec<_>>());
        models.learn(2, &(0..50).map(|x| Point { x: 2 * x, y: 9 + x }).collect::<Vec<_>>());
        let mut again = super::tests::models(8, Format::Exact);
        assert!(again.restore(&models.to_bytes()));
        assert_eq!((again.check(), again.trained()), (Ok(()), models.trained()));
        assert!((0..LPNS).all(|lpn| again.predict(Lpn(lpn)) == models.predict(Lpn(lpn))));
        assert!(!super::tests::models(7, Format::Exact).restore(&models.to_bytes()));
        assert!(!again.restore(&models.to_bytes()[1..]));
    }

    #[test]
    fn a_slope_other_than_one_is_found_and_kept_when_cut() {
        let mut models = models(8, Format::Exact);
        let points: Vec<_> = (0..100).map(|i| Point { x: 5 * i, y: 3_000 + i }).collect();
        models.learn(0, &points);
        assert_eq!(models.trained(), 100);
        (40..60).for_each(|i| assert!(models.clear(Lpn(5 * i))));
        models.learn(0, &(40..60).map(|i| Point { x: 5 * i, y: 80_000 + 5 * i }).collect::<Vec<_>>());
        for i in (0..40).chain(60..100) {
            assert!(models.predict(Lpn(5 * i)).is_none_or(|ppn| ppn == Ppn(3_000 + i)));
        }
        assert!(models.trained() > 80, "{} bits", models.trained());
    }

    /// What happens to an entry: a stretch is written in order at some page, LPNs are overwritten one by one,
    /// or a share of all is moved.
    #[derive(Clone, Debug)]
    enum Step {
        Run(u32, u32, u32),
        Clear(u32),
        Moved(u32, u32),
        GiveBack(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0..LPNS, 1u32..200, 0u32..1 << 25).prop_map(|(lpn, length, ppn)| Step::Run(lpn, length, ppn)),
            (0..LPNS).prop_map(Step::Clear),
            (1u32..7, 0u32..1 << 25).prop_map(|(stride, ppn)| Step::Moved(stride, ppn)),
            (1u32..200).prop_map(Step::GiveBack),
        ];
        prop::collection::vec(step, 1..40)
    }

    proptest! {
        /// A set bit is never wrong, whatever was learned and forgotten, in either format and with any number
        /// of pieces.
        #[test]
        fn a_set_bit_is_never_wrong(steps in steps(), pieces in 1u32..9, literal: bool) {
            let mut models = models(pieces, if literal { Format::Float16 } else { Format::Exact });
            let mut truth = vec![None; LPNS as usize];
            for step in steps {
                let changed: Vec<(u32, Option<u32>)> = match step {
                    Step::Run(lpn, length, ppn) => {
                        (lpn..(lpn + length).min(LPNS)).map(|l| (l, Some(ppn + l - lpn))).collect()
                    }
                    Step::Clear(lpn) => vec![(lpn, None)],
                    Step::GiveBack(least) => {
                        (0..3).for_each(|entry| models.give_back(entry, least));
                        Vec::new()
                    }
                    Step::Moved(stride, ppn) => {
                        let chosen = (0..LPNS).filter(|l| l % stride == 0);
                        chosen.zip(ppn..).map(|(l, ppn)| (l, Some(ppn))).collect()
                    }
                };
                for &(lpn, ppn) in &changed {
                    models.clear(Lpn(lpn));
                    truth[lpn as usize] = ppn;
                }
                for entry in 0..3 {
                    let points: Vec<_> = changed
                        .iter()
                        .filter(|&&(lpn, _)| lpn / 512 == entry)
                        .filter_map(|&(lpn, ppn)| ppn.map(|y| Point { x: lpn % 512, y }))
                        .collect();
                    models.learn(entry as usize, &points);
                }
                prop_assert_eq!(models.check(), Ok(()));
                for (lpn, ppn) in (0..).zip(&truth) {
                    let predicted = models.predict(Lpn(lpn));
                    prop_assert!(predicted.is_none() || predicted == ppn.map(Ppn), "LPN {}", lpn);
                }
            }
        }
    }
}
