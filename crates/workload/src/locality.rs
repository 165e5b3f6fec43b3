//! Where the requests of a stream go: how soon pages come again, and over how many blocks they lie.
//!
//! A log-block scheme pays for a merge by the blocks that its log's pages belong to, so what counts is what
//! is written within one turn of its log.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::profile::{share, Ends};
use crate::{Kind, Request};

/// The sizes that locality is measured in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Grain {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages of a block.
    pub block_pages: u64,
    /// Page writes in one turn of the log.
    pub turn_pages: u64,
}

/// ADAPT's: pages of 2 KiB, blocks of 64, and a log of 3 % of 512 MiB.
pub const ADAPT: Grain = Grain { page_bytes: 2048, block_pages: 64, turn_pages: 8_000 };

/// TPFTL's on 512 MiB: pages of 4 KiB, the 1,024 entries of a translation page in place of a block, and as
/// many page accesses in place of a turn as DFTL's cache of 8 KiB holds entries.
pub const TPFTL: Grain = Grain { page_bytes: 4096, block_pages: 1024, turn_pages: 1024 };

/// The writes of a stream in numbers. Shares are 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Locality {
    /// Share of the page writes to a page that was not written before.
    pub new: f64,
    /// Share of the page writes to a page that was written within the last 100 page writes.
    pub soon: f64,
    /// The same within the last 1,000.
    pub recent: f64,
    /// The same within the last turn.
    pub in_a_turn: f64,
    /// The same within the last two turns.
    pub in_two_turns: f64,
    /// Blocks written to.
    pub blocks: f64,
    /// Distinct pages written in a turn, on average; 0 without a whole turn.
    pub turn_pages: f64,
    /// Distinct blocks written in a turn, on average; 0 without a whole turn.
    pub turn_blocks: f64,
    /// Share of a turn's blocks that the turn before wrote, too; 0 without two whole turns.
    pub common: f64,
    /// Share of the writes that begin on the first page of a block.
    pub begins: f64,
    /// Share of the writes that begin where one of the last 16 ended.
    pub streams: f64,
}

impl Locality {
    /// The locality of the first `writes` writes of a stream.
    pub fn of(requests: impl IntoIterator<Item = Request>, writes: u64, grain: Grain) -> Locality {
        Locality::of_kind(requests, Kind::Write, writes, grain)
    }

    /// The locality of the first `most` requests of a kind, where the names say write.
    pub fn of_kind(
        requests: impl IntoIterator<Item = Request>,
        kind: Kind,
        most: u64,
        grain: Grain,
    ) -> Locality {
        let mut collector = Collector { grain, ..Collector::default() };
        requests
            .into_iter()
            .filter(|request| request.kind == kind && request.bytes > 0)
            .take(usize::try_from(most).unwrap_or(usize::MAX))
            .for_each(|request| collector.add(&request));
        collector.finish()
    }

    /// Each number with its name.
    pub fn table(&self) -> [(&'static str, f64); 11] {
        [
            ("page writes to a new page", self.new),
            ("to one written within 100 page writes", self.soon),
            ("within 1,000", self.recent),
            ("within a turn of the log", self.in_a_turn),
            ("within two turns", self.in_two_turns),
            ("blocks written to, in all", self.blocks),
            ("pages written in a turn, mean", self.turn_pages),
            ("blocks written in a turn, mean", self.turn_blocks),
            ("of these, written in the turn before", self.common),
            ("writes that begin a block", self.begins),
            ("writes that go on with a stream", self.streams),
        ]
    }
}

#[derive(Debug, Default)]
struct Collector {
    grain: Grain,
    writes: u64,
    page_writes: u64,
    /// When a page was written last.
    last: HashMap<u64, u64>,
    blocks: HashSet<u64>,
    /// Pages of this turn, blocks of this one and of the one before.
    pages_now: HashSet<u64>,
    blocks_now: HashSet<u64>,
    blocks_before: HashSet<u64>,
    turns: u64,
    /// Summed over the turns.
    turn_pages: u64,
    turn_blocks: u64,
    common: f64,
    /// Page writes to pages written within 100, 1,000, a turn, two turns.
    again: [u64; 4],
    begins: u64,
    streams: u64,
    ends: Ends,
}

impl Collector {
    fn add(&mut self, write: &Request) {
        let Grain { page_bytes, block_pages, .. } = self.grain;
        let (first, last) = (write.offset / page_bytes, (write.end() - 1) / page_bytes);
        self.writes += 1;
        self.begins += u64::from(first.is_multiple_of(block_pages));
        self.streams += u64::from(self.ends.add(write).1);
        (first..=last).for_each(|page| self.add_page(page));
    }

    fn add_page(&mut self, page: u64) {
        let turn = self.grain.turn_pages;
        let block = page / self.grain.block_pages;
        if let Some(before) = self.last.insert(page, self.page_writes) {
            let distance = self.page_writes - before;
            for (count, most) in self.again.iter_mut().zip([100, 1_000, turn, 2 * turn]) {
                *count += u64::from(distance <= most);
            }
        }
        self.page_writes += 1;
        self.blocks.insert(block);
        self.blocks_now.insert(block);
        self.pages_now.insert(page);
        if self.page_writes.is_multiple_of(turn) {
            self.end_turn();
        }
    }

    fn end_turn(&mut self) {
        let common = self.blocks_now.intersection(&self.blocks_before).count();
        if self.turns > 0 {
            self.common += common as f64 / self.blocks_now.len() as f64;
        }
        self.turns += 1;
        self.turn_pages += self.pages_now.len() as u64;
        self.turn_blocks += self.blocks_now.len() as u64;
        self.blocks_before = std::mem::take(&mut self.blocks_now);
        self.pages_now.clear();
    }

    fn finish(self) -> Locality {
        let [soon, recent, in_a_turn, in_two_turns] = self.again.map(|count| share(count, self.page_writes));
        Locality {
            new: share(self.last.len() as u64, self.page_writes),
            soon,
            recent,
            in_a_turn,
            in_two_turns,
            blocks: self.blocks.len() as f64,
            turn_pages: share(self.turn_pages, self.turns),
            turn_blocks: share(self.turn_blocks, self.turns),
            common: if self.turns > 1 { self.common / (self.turns - 1) as f64 } else { 0.0 },
            begins: share(self.begins, self.writes),
            streams: share(self.streams, self.writes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_stream_in_numbers() {
        let grain = Grain { page_bytes: 2048, block_pages: 4, turn_pages: 4 };
        let write = |page: u64, pages: u64| Request {
            arrival_ns: 0,
            kind: Kind::Write,
            offset: page * 2048,
            bytes: pages * 2048,
        };
        // Turns: pages 0, 1, 0, 4; then 4, 5, 8, 0; one page of a third.
        let stream = [write(0, 2), write(0, 1), write(4, 1), write(4, 2), write(8, 1), write(0, 2)];
        let locality = Locality::of(stream, 6, grain);
        assert_eq!((locality.new, locality.soon), (5.0 / 9.0, 4.0 / 9.0));
        assert_eq!((locality.in_a_turn, locality.in_two_turns), (2.0 / 9.0, 4.0 / 9.0));
        assert_eq!(locality.blocks, 3.0);
        assert_eq!((locality.turn_pages, locality.turn_blocks, locality.common), (3.5, 2.5, 2.0 / 3.0));
        // Each begins a block, and none begins where another ended.
        assert_eq!((locality.begins, locality.streams), (1.0, 0.0));
        assert_eq!(Locality::of(stream, 2, grain).blocks, 1.0);
    }

    #[test]
    fn nothing_in_numbers() {
        assert_eq!(Locality::of([], 10, ADAPT), Locality::default());
    }
}
