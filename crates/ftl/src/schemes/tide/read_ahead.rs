//! Read-ahead: how many places a load brings, where memory does not hold all of them.
//!
//! A sequence of reads would load places for each of its requests, and wait for that each time. So a load
//! that goes on behind one of the last brings those of twice as many pages, as far as the translation page
//! and `most` allow. A load that does not brings those of its request. Where a request reaches into the
//! next translation page, the load there brings only the pages of the request. Twice as many there, too,
//! were places that nobody read, and others had to leave for them: P99 of YCSB's reads was 1.4 times as long.

use nand::Lpn;

/// Loads that are remembered.
const LOADS: usize = 16;
/// Pages behind the last load within which a load goes on: those between are at home.
const NEAR: u32 = 64;

/// A load: behind which page it ended, and how many pages it was for, `most` at most.
#[derive(Clone, Copy, Debug)]
struct Load {
    end: u32,
    pages: u32,
}

/// The last loads.
#[derive(Clone, Debug)]
pub(super) struct ReadAhead {
    /// The last one first.
    loads: [Load; LOADS],
    most: u32,
}

impl ReadAhead {
    /// Bytes in memory: for each load 4 of its end, and 2 of its pages.
    pub(super) const BYTES: u64 = 6 * LOADS as u64;

    /// No load yet. All sequences that are remembered take at most half of so many places.
    pub(super) fn new(places: u64) -> ReadAhead {
        let most = (places / (2 * LOADS as u64)).clamp(1, u16::MAX.into()) as u32;
        ReadAhead { loads: [Load { end: u32::MAX, pages: 0 }; LOADS], most }
    }

    /// A read of `rest` pages begins with one whose place is on flash. For how many pages it is to be loaded.
    pub(super) fn begin(&mut self, lpn: Lpn, rest: u32) -> u32 {
        let goes_on = |load: &Load| lpn.0.checked_sub(load.end).is_some_and(|gap| gap < NEAR);
        let found = self.loads.iter().position(goes_on);
        let pages = found.map_or(0, |at| (2 * self.loads[at].pages).min(self.most)).max(rest);
        self.loads[..=found.unwrap_or(LOADS - 1)].rotate_right(1);
        self.loads[0] = Load { end: lpn.0 + rest, pages: pages.min(self.most) };
        pages
    }

    /// The load brought the places of all pages before `end`.
    pub(super) fn ended(&mut self, end: Lpn) {
        self.loads[0].end = self.loads[0].end.max(end.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load that brings what was asked for.
    fn load(ahead: &mut ReadAhead, lpn: u32, rest: u32) -> u32 {
        let pages = ahead.begin(Lpn(lpn), rest);
        ahead.ended(Lpn(lpn + pages));
        pages
    }

    #[test]
    fn a_load_behind_another_is_for_twice_as_many_pages() {
        let mut ahead = ReadAhead::new(32 * 100);
        assert_eq!(load(&mut ahead, 1000, 8), 8);
        assert_eq!(load(&mut ahead, 1010, 8), 16);
        assert_eq!(load(&mut ahead, 900, 8), 8, "one that goes back begins again");
        assert_eq!(load(&mut ahead, 1026 + NEAR, 8), 8, "so does one that leaves much out");
        for (lpn, pages) in [(1026, 32), (1058, 64), (1122, 100), (1222, 100)] {
            assert_eq!(load(&mut ahead, lpn, 8), pages);
        }
        assert_eq!(load(&mut ahead, 1322, 300), 300, "a request is loaded whole");
        assert_eq!(load(&mut ahead, 1622, 8), 100);
    }

    #[test]
    fn as_many_sequences_are_followed_as_loads_are_remembered() {
        let mut ahead = ReadAhead::new(1 << 20);
        let round = |ahead: &mut ReadAhead, sequences: u32, at: u32| -> Vec<u32> {
            (0..sequences).map(|nth| load(ahead, nth * 10_000 + at, 4)).collect()
        };
        assert_eq!(round(&mut ahead, LOADS as u32, 0), [4; LOADS]);
        assert_eq!(round(&mut ahead, LOADS as u32, 4), [8; LOADS]);
        assert_eq!(round(&mut ahead, LOADS as u32 + 1, 12), [vec![16; LOADS], vec![4]].concat());
        assert!(round(&mut ahead, LOADS as u32 + 1, 28).iter().all(|&pages| pages == 4));
    }
}
