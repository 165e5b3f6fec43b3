//! The record of a chunk: linear models, outlier identifier, point mappings. How it is packed, read and
//! merged.
//!
//! | bytes | what |
//! | --- | --- |
//! | 2 | models; the highest bit says that the identifier is a bitmap |
//! | 2 | outliers |
//! | 8 each | models, ascending by start: each covers the LPAs from its start up to the next one's |
//! | 2 each, or one bit an LPA of the chunk | the identifier: offsets of the outliers, or a bitmap, whichever is smaller |
//! | 3 or 4 each | PPNs of the outliers, ascending by LPA; all ones for none |
//!
//! LPAs before the first model, and those of a model of group [`LinearModel::NOWHERE`], are mapped nowhere.
//! Every other LPA is predicted exactly by the model that covers it, or is an outlier. A chunk in which
//! nothing is mapped has no bytes.

use super::linear::{BlockLists, Half, LinearModel};
use super::offsets::{
    bit, each_bit, has_clear, next_zero, ones, same, set_bit, set_bits, within, Bits, MOST_LPAS,
};
use super::scratch::Scratch;
use crate::table::{mapped, UNMAPPED};
use nand::Ppn;
use std::ops::{Range, RangeInclusive};

/// Bytes before the models.
pub const HEADER: usize = 4;
const BITMAP: u16 = 1 << 15;
/// Unmapped LPAs that two pieces of one line may have between them and still be one model.
const GAP: u32 = 2;
/// The owner of an offset that no candidate covers.
pub const NO_OWNER: u32 = u32::MAX;
/// Words that a piece takes.
const PIECE: usize = 3;
/// An entry that no LPA has: no page lies there, and it is not [`UNMAPPED`].
const NEVER: u32 = UNMAPPED - 1;

/// Enters that some pages follow one another from `page` on, or that there are none.
#[inline]
pub fn enter(entries: &mut [u32], page: Option<Ppn>) {
    match page {
        Some(first) => entries.iter_mut().zip(first.0..).for_each(|(entry, ppn)| *entry = ppn),
        None => entries.fill(UNMAPPED),
    }
}

/// Bytes of an identifier: of a bitmap over `lpas` LPAs, or of an array, whichever is smaller.
pub fn identifier_bytes(outliers: u32, lpas: u32) -> u64 {
    u64::from((2 * outliers).min(lpas.div_ceil(8)))
}

/// A model and the offsets of its chunk that it covers, first and last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Covering {
    /// First.
    pub first: u16,
    /// Last.
    pub last: u16,
    /// The model.
    pub model: LinearModel,
}

/// A chunk that is read or written: its LPAs, and how they are packed.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// The LPA of its first page, within its subspace.
    pub first_lpa: u16,
    /// Its LPAs.
    pub lpas: u16,
    /// Bytes of a point mapping.
    pub point_bytes: usize,
}

impl Chunk {
    /// The page that a model predicts at an offset.
    #[inline]
    pub fn predict(&self, lists: &BlockLists, model: LinearModel, offset: u16) -> Option<Ppn> {
        if model.group == LinearModel::NOWHERE {
            return None;
        }
        lists.global(model.group, model.predict(self.first_lpa + offset)?)
    }

    /// Calls `each` with stretches of some offsets, and the page that a model predicts at the first one:
    /// those of the others follow it. `None`: it predicts none for the whole stretch.
    #[inline]
    pub fn each_stretch(
        &self,
        lists: &BlockLists,
        model: LinearModel,
        offsets: Range<u16>,
        mut each: impl FnMut(Range<u16>, Option<Ppn>),
    ) {
        if model.group == LinearModel::NOWHERE {
            return each(offsets, None);
        }
        let (part, mut from) = (lists.part(model.group), offsets.start);
        while from < offsets.end {
            let (page, most) = match model.predict(self.first_lpa + from) {
                Some(local) if model.slope == Half::ONE => part.stretch(local),
                Some(local) => (part.page(local), 1),
                None => (None, 1),
            };
            let end = from + most.min(u32::from(offsets.end - from)) as u16;
            each(from..end, page);
            from = end;
        }
    }

    /// The largest record.
    pub fn most_bytes(&self) -> usize {
        let lpas = usize::from(self.lpas);
        // All outliers under a bitmap; or three LPAs of a model and two of nowhere in turn, which is 16 bytes
        // for five.
        HEADER + lpas.div_ceil(8) + self.point_bytes * lpas + lpas / 4 + LinearModel::BYTES * 2
    }

    /// What a record holds, packed.
    pub fn parts<'a>(&self, record: &'a [u8]) -> Parts<'a> {
        if record.is_empty() {
            return Parts { chunk: *self, models: &[], bitmap: false, identifier: &[], points: &[] };
        }
        let word = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
        let (models, outliers) = (usize::from(word(0) & !BITMAP), usize::from(word(2)));
        let bitmap = word(0) & BITMAP != 0;
        let (models, rest) = record[HEADER..].split_at(models * LinearModel::BYTES);
        let bytes = if bitmap { usize::from(self.lpas).div_ceil(8) } else { 2 * outliers };
        let (identifier, points) = rest.split_at(bytes);
        Parts { chunk: *self, models, bitmap, identifier, points: &points[..outliers * self.point_bytes] }
    }

    /// Unpacks a record into a table with an entry for each LPA.
    pub fn decode(&self, lists: &BlockLists, record: &[u8], table: &mut Vec<u32>) {
        let parts = self.parts(record);
        self.decode_models(lists, &parts, table);
        parts.each_outlier(|offset, ppn| table[usize::from(offset)] = ppn);
    }

    /// The same without the outliers: where the models say that each LPA is.
    pub fn decode_models(&self, lists: &BlockLists, parts: &Parts<'_>, table: &mut Vec<u32>) {
        table.clear();
        table.resize(usize::from(self.lpas), UNMAPPED);
        parts.each_model(|_, own| {
            self.each_stretch(lists, own.model, own.first..own.last + 1, |offsets, page| {
                enter(&mut table[range(&offsets)], page);
            });
        });
    }
}

/// The parts of a packed record.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    chunk: Chunk,
    models: &'a [u8],
    bitmap: bool,
    identifier: &'a [u8],
    points: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Calls `each` with the number of every model and what it covers, from the last one to the first.
    #[inline]
    pub fn each_model(&self, mut each: impl FnMut(u32, Covering)) {
        let mut end = self.chunk.lpas;
        let numbers = (0..self.model_count()).rev();
        for (number, bytes) in numbers.zip(self.models.chunks_exact(LinearModel::BYTES).rev()) {
            let mut word = [0; LinearModel::BYTES];
            word.copy_from_slice(bytes);
            let model = LinearModel::from_bytes(word);
            let first = model.start - self.chunk.first_lpa;
            each(number, Covering { first, last: end - 1, model });
            end = first;
        }
    }

    /// A model, by number.
    pub fn model(&self, at: usize) -> LinearModel {
        let mut bytes = [0; LinearModel::BYTES];
        bytes.copy_from_slice(&self.models[at * LinearModel::BYTES..][..LinearModel::BYTES]);
        LinearModel::from_bytes(bytes)
    }

    /// How many linear models the record holds.
    pub fn model_count(&self) -> u32 {
        (self.models.len() / LinearModel::BYTES) as u32
    }

    /// How many LPAs have a mapping of their own.
    pub fn outlier_count(&self) -> u32 {
        (self.points.len() / self.chunk.point_bytes) as u32
    }

    /// What loading the head and the outliers in a range of offsets looks at: models, the offsets of an
    /// identifier or the words of a bitmap, whose ones are counted, and the point mappings that are taken.
    pub fn looked_at(&self, offsets: RangeInclusive<u16>) -> u64 {
        let identifier = self.identifier.len().div_ceil(if self.bitmap { 8 } else { 2 });
        let taken = u64::from(ones(&self.identifier(), *offsets.start(), *offsets.end()));
        u64::from(self.model_count()) + identifier as u64 + taken
    }

    /// Calls `each` with offset and entry of every outlier, ascending.
    #[inline]
    pub fn each_outlier(&self, each: impl FnMut(u16, u32)) {
        self.each_outlier_in(0..=self.chunk.lpas - 1, each);
    }

    /// The same of the outliers in a range of offsets.
    #[inline]
    pub fn each_outlier_in(&self, offsets: RangeInclusive<u16>, each: impl FnMut(u16, u32)) {
        match self.chunk.point_bytes {
            3 => self.each_of::<3>(offsets, each),
            4 => self.each_of::<4>(offsets, each),
            bytes => unreachable!("a point mapping takes 3 or 4 bytes, not {bytes}"),
        }
    }

    #[inline]
    fn each_of<const BYTES: usize>(&self, offsets: RangeInclusive<u16>, mut each: impl FnMut(u16, u32)) {
        let (first, last) = (*offsets.start(), *offsets.end());
        let mut bits = self.identifier();
        // The outliers before the range have points, too.
        let mut before = 0;
        for (at, word) in (0u16..).zip(&mut bits) {
            let (from, to) = (at * 64, at * 64 + 63);
            let below = if first > to { u64::MAX } else { (1 << first.saturating_sub(from)) - 1 };
            before += (*word & below).count_ones() as usize;
            let above = if last < from { 0 } else { u64::MAX >> (to - last.min(to)) };
            *word &= !below & above;
        }
        let none = u32::MAX >> (32 - 8 * BYTES);
        let mut points = self.points[before * BYTES..].chunks_exact(BYTES);
        each_bit(&bits, |offset| {
            let mut bytes = [0; 4];
            bytes[..BYTES].copy_from_slice(points.next().unwrap_or(&[0xff; BYTES]));
            let value = u32::from_le_bytes(bytes);
            each(offset, if value == none { UNMAPPED } else { value });
        });
    }

    /// The identifier as bits.
    #[inline]
    pub fn identifier(&self) -> Bits {
        let mut bits = Bits::default();
        if self.bitmap {
            for (word, bytes) in bits.iter_mut().zip(self.identifier.chunks(8)) {
                let mut eight = [0; 8];
                eight[..bytes.len()].copy_from_slice(bytes);
                *word = u64::from_le_bytes(eight);
            }
            return bits;
        }
        for pair in self.identifier.chunks_exact(2) {
            set_bit(&mut bits, u16::from_le_bytes([pair[0], pair[1]]) - self.chunk.first_lpa);
        }
        bits
    }
}

/// Models that a record may use. They know themselves by number.
pub trait Candidates {
    /// Enters in `owners`, which has an entry for each offset of the chunk, the newest one that covers it.
    fn claim(&self, owners: &mut [u32]);

    /// One of them.
    fn model(&self, number: u32) -> LinearModel;
}

/// A part of a chunk that one model covers.
#[derive(Clone, Copy, Debug)]
struct Piece {
    first: u16,
    last: u16,
    model: LinearModel,
}

impl Piece {
    fn to_words(self) -> [u32; PIECE] {
        let [a, b, c, d, e, f, g, h] = self.model.to_bytes();
        let ends = u32::from(self.first) | u32::from(self.last) << 16;
        [ends, u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
    }

    fn from_words([ends, low, high]: [u32; PIECE]) -> Piece {
        let ([a, b, c, d], [e, f, g, h]) = (low.to_le_bytes(), high.to_le_bytes());
        let model = LinearModel::from_bytes([a, b, c, d, e, f, g, h]);
        Piece { first: ends as u16, last: (ends >> 16) as u16, model }
    }
}

/// Packs records. Keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct Packer {
    /// The newest candidate that covers each offset, and in its place the pieces that were cut from it: one
    /// is cut from as many offsets as it takes words, or more.
    words: Scratch<u32>,
    pieces: usize,
    /// By offset: the page that the newest candidate which covers it predicts, then what the record's models
    /// do. It spares this machine predictions that a controller would make again, and is not charged.
    predicted: Scratch<u32>,
    /// An LPA of the chunk is mapped nowhere.
    has_holes: bool,
    /// Models of the record, those of nowhere among them.
    models: usize,
    outliers: Bits,
    /// LPAs looked at, over all passes.
    pub looked_at: u64,
}

impl Packer {
    /// A packer for chunks of up to `lpas` LPAs.
    pub fn new(lpas: usize) -> Packer {
        let room = || Scratch::with_room(lpas);
        Packer { words: room(), predicted: room(), ..Packer::default() }
    }

    /// Bytes that it keeps.
    pub fn bytes(&self) -> u64 {
        self.words.bytes() + size_of::<Bits>() as u64
    }

    /// Where candidates predict the pages of a chunk, by offset: to be filled in before a record is packed.
    /// [`UNMAPPED`]: none does.
    pub fn predicted(&mut self) -> &mut Vec<u32> {
        &mut self.predicted
    }

    /// Makes the record of a chunk whose pages are where `table` says, and appends it if it takes no more
    /// than `room` bytes. `candidates` are the models that it may use, and [`Packer::predicted`] has where
    /// they lead; whatever they are, the record is true to the table. Returns the bytes of the record.
    pub fn pack(
        &mut self,
        chunk: &Chunk,
        lists: &BlockLists,
        table: &[u32],
        candidates: &impl Candidates,
        room: usize,
        record: &mut Vec<u8>,
    ) -> usize {
        if table.iter().all(|&entry| entry == UNMAPPED) {
            return 0;
        }
        self.looked_at += 2 * u64::from(chunk.lpas);
        self.has_holes = table.iter().fold(false, |any, &entry| any | (entry == UNMAPPED));
        self.cut(chunk, lists, table, candidates);
        self.join(chunk, lists, table);
        self.cover(chunk, lists, table);
        let outliers: u32 = self.outliers.iter().map(|word| word.count_ones()).sum();
        let (outliers, bitmap_bytes) = (outliers as usize, usize::from(chunk.lpas).div_ceil(8));
        let bitmap = bitmap_bytes < 2 * outliers;
        let identifier = if bitmap { bitmap_bytes } else { 2 * outliers };
        let bytes = HEADER + self.models * LinearModel::BYTES + identifier + outliers * chunk.point_bytes;
        if bytes <= room {
            self.write(chunk, table, bitmap, outliers as u16, record);
        }
        bytes
    }

    /// Makes the record of a chunk of which nothing changed but that some LPAs, `newer`, are outliers now,
    /// with their entries in `table`: its models stay. Appends it if it takes no more than `room` bytes,
    /// and returns its bytes. `None`: a model has so few members left that [`Packer::pack`] makes a shorter
    /// record.
    pub fn add_outliers(
        &mut self,
        old: &Parts<'_>,
        newer: &Bits,
        table: &[u32],
        room: usize,
        record: &mut Vec<u8>,
    ) -> Option<usize> {
        let chunk = &old.chunk;
        let before = old.identifier();
        let mut bits = before;
        bits.iter_mut().zip(newer).for_each(|(word, newer)| *word |= newer);
        let outliers = ones(&bits, 0, chunk.lpas - 1);
        // What is newer, what is read of the old record, and the outliers that are written.
        self.looked_at += u64::from(ones(newer, 0, chunk.lpas - 1));
        self.looked_at += old.looked_at(0..=chunk.lpas - 1) + u64::from(outliers);
        let (outliers, bitmap_bytes) = (outliers as usize, usize::from(chunk.lpas).div_ceil(8));
        let bitmap = bitmap_bytes < 2 * outliers;
        let identifier = if bitmap { bitmap_bytes } else { 2 * outliers };
        let bytes = HEADER + old.models.len() + identifier + outliers * chunk.point_bytes;
        let mut is_worth_it = true;
        old.each_model(|_, own| {
            let saved = chunk.point_bytes + if own.model.group == LinearModel::NOWHERE { 2 } else { 0 };
            is_worth_it &= has_clear(&bits, own.first, own.last, LinearModel::BYTES / saved);
        });
        if is_worth_it && bytes <= room {
            let models = old.model_count() as u16 | if bitmap { BITMAP } else { 0 };
            record.extend_from_slice(&models.to_le_bytes());
            record.extend_from_slice(&(outliers as u16).to_le_bytes());
            record.extend_from_slice(old.models);
            write_identifier(chunk, &bits, bitmap, record);
            match chunk.point_bytes {
                3 => splice_points::<3>(old.points, &before, newer, table, record),
                4 => splice_points::<4>(old.points, &before, newer, table, record),
                bytes => unreachable!("a point mapping takes 3 or 4 bytes, not {bytes}"),
            }
        }
        is_worth_it.then_some(bytes)
    }

    /// Appends the record that was laid out.
    fn write(&self, chunk: &Chunk, table: &[u32], bitmap: bool, outliers: u16, record: &mut Vec<u8>) {
        let models = self.models as u16 | if bitmap { BITMAP } else { 0 };
        record.extend_from_slice(&models.to_le_bytes());
        record.extend_from_slice(&outliers.to_le_bytes());
        for at in 0..self.pieces {
            let (piece, (nowhere, end)) = (self.piece(at), self.reach(at, chunk, table));
            record.extend_from_slice(&piece.model.to_bytes());
            if nowhere < end {
                let (start, group) = (chunk.first_lpa + nowhere, LinearModel::NOWHERE);
                let model = LinearModel { start, group, ..LinearModel::default() };
                record.extend_from_slice(&model.to_bytes());
            }
        }
        write_identifier(chunk, &self.outliers, bitmap, record);
        let at = record.len();
        record.resize(at + usize::from(outliers) * chunk.point_bytes, 0);
        match chunk.point_bytes {
            3 => write_points::<3>(&self.outliers, table, &mut record[at..]),
            4 => write_points::<4>(&self.outliers, table, &mut record[at..]),
            bytes => unreachable!("a point mapping takes 3 or 4 bytes, not {bytes}"),
        }
    }

    fn piece(&self, at: usize) -> Piece {
        let words = &self.words[PIECE * at..][..PIECE];
        Piece::from_words([words[0], words[1], words[2]])
    }

    fn set_piece(&mut self, at: usize, piece: Piece) {
        self.words[PIECE * at..][..PIECE].copy_from_slice(&piece.to_words());
    }

    /// Cuts the candidates to what they cover and predict: newer ones before older ones, from the first to
    /// the last page that each predicts, anchored there. One that predicts too few pages is left out.
    fn cut(&mut self, chunk: &Chunk, lists: &BlockLists, table: &[u32], candidates: &impl Candidates) {
        self.words.clear();
        self.words.resize(usize::from(chunk.lpas), NO_OWNER);
        candidates.claim(&mut self.words);
        let mut right = same(&self.predicted, table);
        if self.has_holes {
            let holes = same(&self.predicted, &[UNMAPPED; MOST_LPAS][..table.len()]);
            right.iter_mut().zip(holes).for_each(|(right, holes)| *right &= !holes);
        }
        // Where an owner follows itself.
        let follows = same(&self.words[1..], &self.words[..table.len() - 1]);
        self.pieces = 0;
        let mut from = 0;
        while from < chunk.lpas {
            let owner = self.words[usize::from(from)];
            let offsets = from..next_zero(&follows, from).min(chunk.lpas - 1) + 1;
            from = offsets.end;
            if owner == NO_OWNER {
                continue;
            }
            let (mut count, first, mut last) = within(&right, &offsets);
            if count == 0 {
                continue;
            }
            let model = candidates.model(owner);
            let Some(base) = model.predict(chunk.first_lpa + first) else { continue };
            let model = LinearModel { start: chunk.first_lpa + first, base, ..model };
            if model.slope != Half::ONE {
                // Anchored elsewhere it is rounded elsewhere.
                let is_right = |&offset: &u16| {
                    let page = chunk.predict(lists, model, offset);
                    page.is_some() && page == mapped(table[usize::from(offset)])
                };
                count = (first..offsets.end).filter(is_right).count() as u32;
                last = (first..offsets.end).rev().find(is_right).unwrap_or(0);
            }
            if count as usize * chunk.point_bytes > LinearModel::BYTES {
                debug_assert!(PIECE * (self.pieces + 1) <= usize::from(from));
                self.set_piece(self.pieces, Piece { first, last, model });
                self.pieces += 1;
            }
        }
    }

    /// Joins neighbouring pieces of one line.
    fn join(&mut self, chunk: &Chunk, lists: &BlockLists, table: &[u32]) {
        let mut kept = 0;
        for at in 1..self.pieces {
            let (before, piece) = (self.piece(kept), self.piece(at));
            let same = before.model.group == piece.model.group && before.model.slope == piece.model.slope;
            let joins = same
                && Self::continues(chunk, lists, table, before.model, piece)
                && self.holes(table, before.last + 1..piece.first) <= GAP;
            if joins {
                self.set_piece(kept, Piece { last: piece.last, ..before });
            } else {
                kept += 1;
                self.set_piece(kept, piece);
            }
        }
        self.pieces = self.pieces.min(kept + 1);
    }

    /// How many LPAs of some offsets are mapped nowhere.
    fn holes(&self, table: &[u32], offsets: Range<u16>) -> u32 {
        if !self.has_holes {
            return 0;
        }
        table[range(&offsets)].iter().map(|&entry| u32::from(entry == UNMAPPED)).sum()
    }

    /// Whether a model predicts what a piece of the same group and slope predicts rightly.
    fn continues(chunk: &Chunk, lists: &BlockLists, table: &[u32], model: LinearModel, piece: Piece) -> bool {
        if model.slope == Half::ONE {
            // Another line of this slope leads to another page everywhere, and the first of a piece is right.
            return model.predict(piece.model.start) == Some(piece.model.base);
        }
        let part = lists.part(model.group);
        let predicts = |model: LinearModel, offset: u16| {
            model.predict(chunk.first_lpa + offset).and_then(|local| part.page(local))
        };
        (piece.first..=piece.last).all(|offset| {
            let theirs = predicts(piece.model, offset);
            theirs != mapped(table[usize::from(offset)]) || predicts(model, offset) == theirs
        })
    }

    /// Where a model of nowhere begins behind a piece, and where the next piece does; the same when there is
    /// none.
    fn reach(&self, at: usize, chunk: &Chunk, table: &[u32]) -> (u16, u16) {
        let behind = self.piece(at).last + 1;
        let end = if at + 1 < self.pieces { self.piece(at + 1).first } else { chunk.lpas };
        let holes = self.holes(table, behind..end) as usize;
        if holes * (chunk.point_bytes + 2) <= LinearModel::BYTES {
            return (end, end);
        }
        let first = table[usize::from(behind)..].iter().position(|&entry| entry == UNMAPPED);
        (behind + first.unwrap_or(0) as u16, end)
    }

    /// Lays out the models so that each covers up to the next one, and finds the outliers.
    fn cover(&mut self, chunk: &Chunk, lists: &BlockLists, table: &[u32]) {
        self.predicted.fill(UNMAPPED);
        self.models = self.pieces;
        for at in 0..self.pieces {
            let Piece { first, model, .. } = self.piece(at);
            let (nowhere, end) = self.reach(at, chunk, table);
            chunk.each_stretch(lists, model, first..nowhere, |offsets, page| {
                let entries = &mut self.predicted[range(&offsets)];
                match page {
                    Some(_) => enter(entries, page),
                    // An outlier, wherever it is.
                    None => entries.fill(NEVER),
                }
            });
            self.models += usize::from(nowhere < end);
        }
        let right = same(&self.predicted, table);
        self.outliers = Bits::default();
        set_bits(&mut self.outliers, 0, chunk.lpas - 1);
        self.outliers.iter_mut().zip(right).for_each(|(word, right)| *word &= !right);
    }
}

/// Offsets as places in a table.
#[inline]
fn range(offsets: &Range<u16>) -> Range<usize> {
    usize::from(offsets.start)..usize::from(offsets.end)
}

/// Appends an identifier.
fn write_identifier(chunk: &Chunk, bits: &Bits, bitmap: bool, record: &mut Vec<u8>) {
    if bitmap {
        let end = record.len() + usize::from(chunk.lpas).div_ceil(8);
        bits.iter().for_each(|word| record.extend_from_slice(&word.to_le_bytes()));
        record.truncate(end);
    } else {
        each_bit(bits, |offset| record.extend_from_slice(&(chunk.first_lpa + offset).to_le_bytes()));
    }
}

/// Appends the point mappings of a record whose outliers were `before`, with the entries of those that
/// `changed`, which `table` says, in their places.
fn splice_points<const BYTES: usize>(
    old: &[u8],
    before: &Bits,
    changed: &Bits,
    table: &[u32],
    record: &mut Vec<u8>,
) {
    // Outliers before a word, and bytes of the old ones that are done.
    let (mut ranks, mut rank, mut at) = ([0; MOST_LPAS / 64], 0, 0);
    for (place, word) in ranks.iter_mut().zip(before) {
        (*place, rank) = (rank, rank + word.count_ones() as usize);
    }
    each_bit(changed, |offset| {
        let word = usize::from(offset) / 64;
        let below = before[word] & ((1 << (offset % 64)) - 1);
        let end = BYTES * (ranks[word] + below.count_ones() as usize);
        record.extend_from_slice(&old[at..end]);
        record.extend_from_slice(&table[usize::from(offset)].to_le_bytes()[..BYTES]);
        at = end + if bit(before, offset) { BYTES } else { 0 };
    });
    record.extend_from_slice(&old[at..]);
}

/// Writes the entries of the outliers, one behind the other.
fn write_points<const BYTES: usize>(bits: &Bits, table: &[u32], points: &mut [u8]) {
    let mut places = points.chunks_exact_mut(BYTES);
    each_bit(bits, |offset| {
        if let Some(place) = places.next() {
            place.copy_from_slice(&table[usize::from(offset)].to_le_bytes()[..BYTES]);
        }
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::half::Half;
    use nand::Geometry;
    use proptest::prelude::*;

    fn lists() -> BlockLists {
        let geometry = Geometry {
            channels: 2,
            luns_per_channel: 2,
            planes_per_lun: 1,
            blocks_per_plane: 8,
            pages_per_block: 100,
            page_bytes: 4096,
            oob_bytes: 64,
        };
        let mut lists = BlockLists::new(&geometry, 4).unwrap();
        (0..8).for_each(|superblock| lists.set(superblock, |unit| superblock % 3 != 1 || unit != 2));
        lists
    }

    const CHUNK: Chunk = Chunk { first_lpa: 1024, lpas: 512, point_bytes: 3 };

    fn model(group: u16, slope: f64, offset: u16, base: u16) -> LinearModel {
        LinearModel { start: 1024 + offset, group, slope: Half::nearest(slope), base }
    }

    /// The later ones are newer.
    impl Candidates for &[Covering] {
        fn claim(&self, owners: &mut [u32]) {
            for (number, own) in (0..).zip(*self) {
                owners[usize::from(own.first)..=usize::from(own.last)].fill(number);
            }
        }

        fn model(&self, number: u32) -> LinearModel {
            self[number as usize].model
        }
    }

    fn pack(table: &[u32], candidates: &[Covering]) -> Vec<u8> {
        let (mut record, mut found) = (Vec::new(), Vec::new());
        let room = CHUNK.most_bytes();
        let packer = || {
            let mut packer = Packer::new(512);
            packer.predicted().resize(512, UNMAPPED);
            for own in candidates {
                for (offset, entry) in
                    (own.first..=own.last).zip(&mut packer.predicted()[usize::from(own.first)..])
                {
                    *entry = CHUNK.predict(&lists(), own.model, offset).map_or(UNMAPPED, |page| page.0);
                }
            }
            packer
        };
        let bytes = packer().pack(&CHUNK, &lists(), table, &candidates, room, &mut record);
        assert_eq!(record.len(), bytes);
        let short = bytes.saturating_sub(1);
        let again = packer().pack(&CHUNK, &lists(), table, &candidates, short, &mut Vec::new());
        assert_eq!(again, bytes, "it says its bytes where there is no room");
        CHUNK.decode(&lists(), &record, &mut found);
        assert_eq!(found, table);
        assert!(record.len() <= CHUNK.most_bytes(), "{} of {}", record.len(), CHUNK.most_bytes());
        record
    }

    #[test]
    fn a_line_is_one_model_and_what_is_overwritten_an_outlier() {
        let lists = lists();
        let own = Covering { first: 0, last: 511, model: model(4, 1.0, 0, 3) };
        let line: Vec<u32> =
            (0..512).map(|o| CHUNK.predict(&lists, own.model, o).map_or(UNMAPPED, |p| p.0)).collect();
        let mapped = line.iter().filter(|&&entry| entry != UNMAPPED).count();
        assert!(mapped < 300, "a bad block makes the group shorter: {mapped}");
        let record = pack(&line, &[own]);
        assert_eq!(record.len(), HEADER + 8 + 8, "the line, and a model of what is not mapped");
        let mut changed = line.clone();
        changed[100] = 7;
        changed[101] = UNMAPPED;
        assert_eq!(pack(&changed, &[own]).len(), record.len() + 2 * (2 + 3));
        let late = Covering { first: 90, last: 511, ..own };
        assert_eq!(pack(&changed, &[own, late]).len(), record.len() + 10, "both are one line again");
        assert!(pack(&vec![UNMAPPED; 512], &[own]).is_empty());
        let scattered: Vec<u32> = (0..512).map(|at| 9999 + at * 7).collect();
        assert_eq!(pack(&scattered, &[own]).len(), HEADER + 64 + 512 * 3, "a bitmap, and no model");
    }

    fn candidates() -> impl Strategy<Value = Vec<Covering>> {
        let slopes = prop_oneof![4 => Just(1.0), 1 => Just(-1.0), 1 => Just(2.0), 2 => -2.0f64..2.0];
        let one = (
            0u16..512,
            0u16..512,
            prop_oneof![6 => 0u16..8, 1 => Just(LinearModel::NOWHERE)],
            slopes,
            0u16..400,
        );
        prop::collection::vec(one, 0..8).prop_map(|all| {
            let covering = |(a, b, group, slope, base): (u16, u16, u16, f64, u16)| {
                let (first, last) = (a.min(b), a.max(b));
                Covering { first, last, model: model(group, slope, first, base) }
            };
            all.into_iter().map(covering).collect()
        })
    }

    proptest! {
        #[test]
        fn a_record_is_true_whatever_the_candidates(
            used in candidates(),
            offered in candidates(),
            changes in prop::collection::vec((0usize..512, prop_oneof![Just(UNMAPPED), 0u32..3000]), 0..200),
            later in prop::collection::vec((0usize..512, 0u32..3000), 0..60),
        ) {
            let lists = lists();
            let mut table = vec![UNMAPPED; 512];
            for own in &used {
                for offset in own.first..=own.last {
                    let ppn = CHUNK.predict(&lists, own.model, offset);
                    table[usize::from(offset)] = ppn.map_or(UNMAPPED, |ppn| ppn.0);
                }
            }
            changes.iter().for_each(|&(offset, entry)| table[offset] = entry);
            pack(&table, &offered);
            pack(&table, &[offered, used.clone()].concat());
            let record = pack(&table, &used);
            let parts = CHUNK.parts(&record);
            let mut again = Vec::new();
            parts.each_model(|_, own| again.push(own));
            prop_assert_eq!(&pack(&table, &again), &record, "packing a record's own models changes nothing");
            let mut newer = Bits::default();
            for &(offset, entry) in &later {
                table[offset] = entry;
                set_bit(&mut newer, offset as u16);
            }
            let (mut added, mut found) = (Vec::new(), Vec::new());
            let bytes = Packer::new(512).add_outliers(&parts, &newer, &table, CHUNK.most_bytes(), &mut added);
            if let Some(bytes) = bytes {
                prop_assert_eq!(bytes, added.len());
                CHUNK.decode(&lists, &added, &mut found);
                prop_assert_eq!(&found, &table);
            }
            prop_assert!(bytes.is_some() || !again.is_empty(), "without models nothing is to be made anew");
        }
    }
}
