//! Dynamic translation pages (HCFTL): mappings that left a cache together, packed into pages of their own;
//! and the cache of what left last, from which such pages are made.
//!
//! A dynamic translation page (DTP) holds pairs of LPN and PPN, 8 bytes, ascending by LPN. What is charged
//! for the index is what a firmware would hold: the LPNs in Elias-Fano code and two bits each.

use crate::bits;
use crate::breach::Breach;
use crate::cmt::census::Census;
use crate::cmt::index::Index;
use crate::table::Table;
use nand::{Done, Lpn, Vtpn};
use std::ops::Range;

/// Bytes of a DTP in the index beside its entries: its code's length, entries, entries that count.
const HEADER_BYTES: u64 = 8;

const LIVE: u8 = 1;
const DIRTY: u8 = 2;

/// A mapping that left the cache.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// The LPN that the entry maps.
    pub lpn: Lpn,
    /// The PPN, or [`crate::table::UNMAPPED`].
    pub ppn: u32,
    /// What a user of the mapping waits for.
    pub done: Done,
    /// Whether its translation page is older.
    pub dirty: bool,
}

/// Mappings that left the cache last, ascending by LPN.
#[derive(Clone, Debug)]
pub struct Evicted {
    entries: Vec<Kept>,
    most: usize,
    /// A bit for each LPN that has a mapping here. A simulated lookup that finds none need not search.
    present: Vec<u64>,
}

impl Evicted {
    /// Room for `most`, of LPNs below `lpns`.
    pub fn new(most: usize, lpns: usize) -> Evicted {
        Evicted { entries: Vec::with_capacity(most), most, present: vec![0; lpns.div_ceil(64)] }
    }

    /// All evicted entries, ascending by LPN.
    pub fn entries(&self) -> &[Kept] {
        &self.entries
    }

    #[inline]
    fn find(&self, lpn: Lpn) -> Option<usize> {
        let at = |lpn| self.entries.partition_point(|kept| kept.lpn < lpn);
        bits::has(&self.present, lpn.0).then(|| at(lpn))
    }

    /// The one of an LPN.
    pub fn peek(&self, lpn: Lpn) -> Option<&Kept> {
        self.find(lpn).map(|at| &self.entries[at])
    }

    /// The one of an LPN, to be changed in place.
    pub fn peek_mut(&mut self, lpn: Lpn) -> Option<&mut Kept> {
        self.find(lpn).map(|at| &mut self.entries[at])
    }

    /// Whether there is no room for another.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= self.most
    }

    /// Adds one of an LPN that has none. There must be room.
    pub fn insert(&mut self, kept: Kept) {
        assert!(!self.is_full());
        assert!(bits::set(&mut self.present, kept.lpn.0, true), "LPN {} is there already", kept.lpn.0);
        let at = self.entries.partition_point(|other| other.lpn < kept.lpn);
        self.entries.insert(at, kept);
    }

    /// Takes out the one of an LPN.
    pub fn take(&mut self, lpn: Lpn) -> Option<Kept> {
        let at = self.find(lpn)?;
        bits::set(&mut self.present, lpn.0, false);
        Some(self.entries.remove(at))
    }

    /// Takes out a window of them.
    pub fn drain(&mut self, window: Range<usize>) {
        for kept in self.entries.drain(window) {
            bits::set(&mut self.present, kept.lpn.0, false);
        }
    }

    /// Those of a range of LPNs.
    pub fn between(&mut self, first: Lpn, end: Lpn) -> &mut [Kept] {
        let from = self.entries.partition_point(|kept| kept.lpn < first);
        let to = self.entries.partition_point(|kept| kept.lpn < end);
        &mut self.entries[from..to]
    }

    /// The `count` whose LPNs lie closest together.
    pub fn window(&self, count: usize) -> Range<usize> {
        let count = count.min(self.entries.len());
        if count == 0 {
            return 0..0;
        }
        let span = |at: &usize| self.entries[at + count - 1].lpn.0 - self.entries[*at].lpn.0;
        let from = (0..=self.entries.len() - count).min_by_key(span).unwrap_or(0);
        from..from + count
    }

    /// Checks the order of the entries, their number, and their bits.
    pub fn check(&self) -> Result<(), Breach> {
        let in_order = self.entries.windows(2).all(|pair| pair[0].lpn < pair[1].lpn);
        let fits = self.entries.len() <= self.most;
        if !(in_order && fits) {
            return Err("the auxiliary cache is out of order".into());
        }
        let bits: usize = self.present.iter().map(|word| word.count_ones() as usize).sum();
        if bits != self.entries.len() || self.entries.iter().any(|kept| !bits::has(&self.present, kept.lpn.0))
        {
            return Err("the auxiliary cache and its bits differ".into());
        }
        Ok(())
    }
}

/// What memory knows of the dynamic translation pages, which are used in turn. A *place* is a DTP's number
/// times [`Dynamic::per_page`], and the position in it.
#[derive(Clone, Debug)]
pub struct Dynamic {
    per_page: u32,
    pages: u32,
    /// By place, ascending within a DTP.
    lpns: Vec<u32>,
    /// By place.
    states: Vec<u8>,
    /// Places in use of each DTP.
    lens: Vec<u32>,
    /// Place of each LPN whose entry counts.
    index: Index,
    census: Census,
    /// The DTP that is written next; until then it is emptied.
    next: u32,
    /// PPNs of the DTP that is emptied, by position, once it was read.
    leaving: Vec<u32>,
    leaving_done: Done,
    /// No entry of it before this position is dirty.
    clean_before: u32,
}

impl Dynamic {
    /// `pages` DTPs of `per_page` entries, none written yet, beside a table of `table_pages` translation
    /// pages for `lpns` LPNs.
    pub fn new(pages: u32, per_page: u32, table_pages: u32, lpns: usize) -> Dynamic {
        let places = pages as usize * per_page as usize;
        Dynamic {
            per_page,
            pages,
            lpns: vec![0; places],
            states: vec![0; places],
            lens: vec![0; pages as usize],
            index: Index::new(places, lpns),
            census: Census::new(table_pages),
            next: 0,
            leaving: Vec::with_capacity(per_page as usize),
            leaving_done: Done::READY,
            clean_before: 0,
        }
    }

    /// Bytes of a DTP in the index, for LPNs below `lpns`.
    pub fn index_bytes(per_page: u64, lpns: u64) -> u64 {
        HEADER_BYTES + (elias_fano_bits(per_page, lpns) + 2 * per_page).div_ceil(8)
    }

    /// Dynamic translation pages in use.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Entries of a DTP, at most.
    pub fn per_page(&self) -> u32 {
        self.per_page
    }

    /// Entries that count, by translation page.
    pub fn census(&mut self) -> &mut Census {
        &mut self.census
    }

    /// Whether a translation page is older than some of its entries that count.
    pub fn has_dirty(&self, vtpn: Vtpn) -> bool {
        self.census.dirty(vtpn) > 0
    }

    /// The place of an LPN's entry.
    #[inline]
    pub fn find(&self, lpn: Lpn) -> Option<u32> {
        self.index.find(lpn)
    }

    /// The LPN at a place.
    pub fn lpn(&self, place: u32) -> Lpn {
        Lpn(self.lpns[place as usize])
    }

    /// Whether the entry at a place is newer than its translation page.
    pub fn is_dirty(&self, place: u32) -> bool {
        self.states[place as usize] & DIRTY != 0
    }

    /// The places of the same DTP whose entries count, the nearest first.
    pub fn neighbours(&self, place: u32) -> impl Iterator<Item = u32> + '_ {
        let first = place / self.per_page * self.per_page;
        let end = first + self.lens[(place / self.per_page) as usize];
        let both = move |distance| [place.checked_sub(distance), place.checked_add(distance)];
        let reach = (end - place).max(place - first + 1);
        let all = (1..reach).flat_map(both).flatten().filter(move |other| (first..end).contains(other));
        all.filter(|&other| self.states[other as usize] & LIVE != 0)
    }

    /// The PPN of a place, if it is in memory because its DTP is being emptied, and when it was there.
    pub fn in_memory(&self, place: u32) -> Option<(u32, Done)> {
        let (number, position) = (place / self.per_page, place % self.per_page);
        let ppn = self.leaving.get(position as usize).filter(|_| number == self.next);
        ppn.map(|&ppn| (ppn, self.leaving_done))
    }

    /// The translation page that the DTP of a place is for directory and flash.
    pub fn vtpn(&self, table: &Table, place: u32) -> Vtpn {
        Vtpn(table.pages() + place / self.per_page)
    }

    /// The same of the DTP that is written next.
    pub fn next_vtpn(&self, table: &Table) -> Vtpn {
        Vtpn(table.pages() + self.next)
    }

    /// The entry of an LPN of translation page `vtpn` does not count any more.
    #[inline]
    pub fn drop_entry(&mut self, vtpn: Vtpn, lpn: Lpn) {
        if let Some(place) = self.index.find(lpn) {
            self.index.remove(lpn);
            self.census.removed(vtpn, self.is_dirty(place));
            self.states[place as usize] = 0;
        }
    }

    /// The entry of an LPN of translation page `vtpn` has reached that page.
    pub fn clean(&mut self, vtpn: Vtpn, lpn: Lpn) {
        if let Some(place) = self.find(lpn).filter(|&place| self.is_dirty(place)) {
            self.states[place as usize] = LIVE;
            self.census.removed(vtpn, true);
            self.census.added(vtpn);
        }
    }

    /// The first dirty entry of the DTP that is emptied.
    pub fn next_dirty(&mut self) -> Option<u32> {
        let (first, len) = (self.next * self.per_page, self.lens[self.next as usize]);
        while self.clean_before < len && !self.is_dirty(first + self.clean_before) {
            self.clean_before += 1;
        }
        (self.clean_before < len).then_some(first + self.clean_before)
    }

    /// Whether the DTP that is emptied was read.
    pub fn is_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// The DTP that is emptied was read; `ppn` gives the PPN of each position.
    pub fn leave(&mut self, ppn: impl Fn(u32) -> u32, done: Done) {
        self.leaving.extend((0..self.lens[self.next as usize]).map(ppn));
        self.leaving_done = done;
    }

    /// Calls `each` with LPN and PPN of the dirty entries of a translation page in the DTP that is emptied.
    pub fn each_leaving(&self, lpns: Range<u32>, mut each: impl FnMut(u32, u32, Done)) {
        let first = (self.next * self.per_page) as usize;
        let there = &self.lpns[first..first + self.leaving.len()];
        let from = there.partition_point(|&lpn| lpn < lpns.start);
        let to = there.partition_point(|&lpn| lpn < lpns.end);
        let states = &self.states[first + from..first + to];
        for ((&lpn, &ppn), state) in there[from..to].iter().zip(&self.leaving[from..to]).zip(states) {
            if state & DIRTY != 0 {
                each(lpn, ppn, self.leaving_done);
            }
        }
    }

    /// The DTP that was emptied holds `entries` now; what it held does not count any more. Turns to the next
    /// one.
    pub fn written(&mut self, table: &Table, entries: &[Kept]) {
        let first = self.next * self.per_page;
        for place in first..first + self.lens[self.next as usize] {
            if self.states[place as usize] & LIVE != 0 {
                let lpn = self.lpn(place);
                self.drop_entry(table.place(lpn).0, lpn);
            }
        }
        for (place, kept) in (first..).zip(entries) {
            self.lpns[place as usize] = kept.lpn.0;
            self.states[place as usize] = LIVE | if kept.dirty { DIRTY } else { 0 };
            self.index.insert(kept.lpn, place);
            let vtpn = table.place(kept.lpn).0;
            self.census.added(vtpn);
            if kept.dirty {
                self.census.dirtied(vtpn);
            }
        }
        self.lens[self.next as usize] = entries.len() as u32;
        self.next = (self.next + 1) % self.pages;
        self.leaving.clear();
        self.clean_before = 0;
    }

    /// Checks places, index and counts against each other; `newer` says that memory has an LPN newer.
    pub fn check(&self, table: &Table, newer: impl Fn(Lpn) -> bool) -> Result<(), Breach> {
        let mut counts = vec![(0, 0); table.pages() as usize];
        let mut live = 0;
        for number in 0..self.pages {
            let first = number * self.per_page;
            for place in first..first + self.lens[number as usize] {
                if self.states[place as usize] & LIVE == 0 {
                    continue;
                }
                let lpn = self.lpn(place);
                live += 1;
                if self.find(lpn) != Some(place) || newer(lpn) {
                    return Err(format!("LPN {} counts in a DTP, but there is a newer mapping", lpn.0).into());
                }
                let count: &mut (u32, u32) = &mut counts[table.place(lpn).0 .0 as usize];
                *count = (count.0 + 1, count.1 + u32::from(self.is_dirty(place)));
            }
        }
        if live != self.index.len() {
            return Err(format!("{live} entries count in DTPs, but {} are indexed", self.index.len()).into());
        }
        for (vtpn, count) in (0..).map(Vtpn).zip(counts) {
            if count != (self.census.entries(vtpn), self.census.dirty(vtpn)) {
                return Err(format!("entries of translation page {} in DTPs are miscounted", vtpn.0).into());
            }
        }
        Ok(())
    }
}

/// Low bits of each number in Elias-Fano code.
fn low_bits(entries: u64, below: u64) -> u32 {
    below.div_ceil(entries.max(1)).next_power_of_two().trailing_zeros()
}

/// Bits of the Elias-Fano code of `entries` ascending numbers below `below`: the low bits of each as they
/// are, and a one for each number at its high bits and its rank together.
fn elias_fano_bits(entries: u64, below: u64) -> u64 {
    let low = low_bits(entries, below);
    entries * u64::from(low) + entries + (below >> low) + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Ascending numbers as a firmware would hold them.
    fn pack(numbers: &[u32], below: u64) -> Vec<bool> {
        let low = low_bits(numbers.len() as u64, below);
        let mut bits = vec![false; elias_fano_bits(numbers.len() as u64, below) as usize];
        let high = numbers.len() * low as usize;
        for (rank, &number) in numbers.iter().enumerate() {
            for bit in 0..low as usize {
                bits[rank * low as usize + bit] = number >> bit & 1 == 1;
            }
            bits[high + (number >> low) as usize + rank] = true;
        }
        bits
    }

    /// The number of a rank.
    fn unpack(bits: &[bool], rank: usize, entries: usize, below: u64) -> u32 {
        let low = low_bits(entries as u64, below) as usize;
        let ones = (0..bits.len() - entries * low).filter(|&at| bits[entries * low + at]);
        let high = ones.clone().nth(rank).unwrap() - rank;
        (0..low).fold((high << low) as u32, |number, bit| number | u32::from(bits[rank * low + bit]) << bit)
    }

    proptest! {
        #[test]
        fn charged_is_what_the_packed_index_takes(lpns in prop::collection::btree_set(0u32..5000, 1..200)) {
            let lpns: Vec<u32> = lpns.into_iter().collect();
            let bits = pack(&lpns, 5000);
            for (rank, &lpn) in lpns.iter().enumerate() {
                prop_assert_eq!(unpack(&bits, rank, lpns.len(), 5000), lpn);
            }
            let states = 2 * lpns.len();
            let charged = Dynamic::index_bytes(lpns.len() as u64, 5000);
            prop_assert_eq!(charged, 8 + (bits.len() + states).div_ceil(8) as u64);
        }

        #[test]
        fn the_window_is_the_closest(lpns in prop::collection::btree_set(0u32..300, 8..40)) {
            let mut evicted = Evicted::new(40, 300);
            let shuffled: BTreeSet<(u32, u32)> = lpns.iter().map(|&lpn| (lpn * 7919 % 300, lpn)).collect();
            for (_, lpn) in shuffled {
                evicted.insert(Kept { lpn: Lpn(lpn), ppn: lpn, done: Done::READY, dirty: false });
            }
            prop_assert_eq!(evicted.check(), Ok(()));
            let all: Vec<u32> = lpns.iter().copied().collect();
            let window = evicted.window(8);
            let closest = all.windows(8).map(|w| w[7] - w[0]).min().unwrap();
            prop_assert_eq!(window.len(), 8);
            prop_assert_eq!(all[window.end - 1] - all[window.start], closest);
        }
    }

    #[test]
    fn two_bytes_an_entry() {
        assert_eq!(Dynamic::index_bytes(64, 131_072), 8 + (64 * 11 + 64 + 64 + 1 + 128u64).div_ceil(8));
        assert!(Dynamic::index_bytes(512, 1 << 22) < 512 * 2 + 100);
    }
}
