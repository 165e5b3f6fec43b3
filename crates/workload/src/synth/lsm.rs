//! A key-value store on a log-structured merge tree, after RocksDB's leveled compaction, as the block device
//! sees it.
//!
//! Followed is the order of LearnedFTL's section IV-D: `fillseq`, then `overwrite`, until the store takes up
//! about 80 % of the device; then `readrandom` or `readseq` by one thread. The tree has RocksDB's default
//! sizes: memtables and files of 64 MiB, compaction of level 0 at four files, three more levels of which each
//! holds a tenth of the next (dynamic level sizes), no Bloom filter.
//! What is ours:
//!
//! - A file is a range of keys with a number of entries of 1 KiB spread evenly over it. Merging two ranges
//!   keeps the expected number of distinct keys, so compactions need no keys of their own.
//! - The write-ahead log of a memtable is written in 1 MiB pieces and trimmed with its files' predecessors
//!   when the memtable is flushed; compactions read their inputs, write their outputs in 1 MiB pieces, and
//!   trim the inputs (as ext4 does with `discard`). Flushes are not overlapped with compactions.
//! - A get looks at the files of level 0 from the newest, then at one file a level, and reads a block of 4
//!   KiB in each until the key is found; which level holds a key follows from the levels' shares of all
//!   entries. The first look at a file reads its index, 25 bytes for each block; the table cache keeps it.
//! - `readseq` goes through all levels at once in the order of keys, in reads of 128 KiB (Linux's
//!   read-ahead).
//! - On a smaller device the store is smaller, and so are its files where they would be fewer than 128.

use super::disk::Disk;
use super::requests::{push, trim, Extents, Requests, PAGE, READ_MOST};
use crate::random::Random;
use crate::{Kind, Request};

/// A device of 30 GiB.
pub(super) const SPAN_BYTES: u64 = 30 << 30;
/// Bytes of the smallest device. On a smaller one a file has so few pages that the unused rest of its last
/// page fills the device: at 1 MiB a compaction never ends.
pub(super) const LEAST_BYTES: u64 = 2 << 20;
const ENTRY_BYTES: u64 = 1 << 10;
/// Entries of a memtable, and of a file, unless the store has fewer than 128 such files.
const FILE_ENTRIES: u64 = (64 << 20) / ENTRY_BYTES;
const LEVEL0_FILES: usize = 4;
const GROWTH: u64 = 10;
const LEVELS: usize = 4;
/// Live keys, as a share of the space, percent: what the upper levels and a compaction hold twice comes on
/// top.
const FILL: u64 = 68;
const PIECE: u32 = 256;
const INDEX_BYTES_A_BLOCK: u64 = 25;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    Overwrite,
    ReadRandom,
    ReadSeq,
}

/// A sorted file: the keys from `low` to `high`, `high` left out.
#[derive(Debug, Clone)]
struct File {
    low: u64,
    high: u64,
    entries: u64,
    extents: Extents,
    index_read: bool,
}

impl File {
    fn pages(&self) -> u32 {
        self.extents.iter().map(|extent| extent.1).sum()
    }

    /// The page in which a key lies, if the file had it.
    fn page_of(&self, key: u64) -> (u32, u32) {
        let pages = u64::from(self.pages());
        let mut at =
            (((key - self.low) * pages / (self.high - self.low).max(1)) as u32).min(pages as u32 - 1);
        for &(start, count) in &self.extents {
            if at < count {
                return (start + at, 1);
            }
            at -= count;
        }
        (self.extents[0].0, 1)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Fill { from: u64 },
    Overwrite { left: u64 },
    Done,
    Serve(Load),
}

/// The store and what it does next.
#[derive(Debug, Clone)]
pub(super) struct Store {
    random: Random,
    disk: Disk,
    keys: u64,
    /// Level 0 holds the newest file last; the others are sorted by key.
    levels: Vec<Vec<File>>,
    queue: Requests,
    stage: Stage,
    /// Where the last compaction of each level ended.
    cursor: [u64; LEVELS],
    /// `readseq`: pieces of files, in the order of their keys, and the next.
    pieces: Vec<(u32, u32)>,
    next_piece: usize,
    /// Whether keys are overwritten before the store serves.
    overwrite_first: bool,
    /// Entries of a memtable, and of a file.
    file_entries: u64,
}

impl Store {
    /// An empty store on a device of `bytes`, at least [`LEAST_BYTES`].
    pub(super) fn new(bytes: u64, seed: u64) -> Store {
        let bytes = bytes.max(LEAST_BYTES);
        let pages = u32::try_from(bytes / PAGE).unwrap_or(u32::MAX);
        let keys = bytes / 100 * FILL / ENTRY_BYTES;
        Store {
            random: Random::new(seed),
            disk: Disk::new(0, pages),
            keys,
            levels: vec![Vec::new(); LEVELS],
            queue: Requests::new(),
            stage: Stage::Fill { from: 0 },
            cursor: [0; LEVELS],
            pieces: Vec::new(),
            next_piece: 0,
            overwrite_first: true,
            file_entries: FILE_ENTRIES.min(keys / 128).max(4),
        }
    }

    /// Fills, and for reads overwrites as many entries as there are keys.
    pub(super) fn prepare(mut self, load: Load) -> Store {
        // `overwrite` may itself be what is measured.
        self.overwrite_first = load != Load::Overwrite;
        self
    }

    /// The same with the preparation behind it.
    pub(super) fn serve(self, load: Load) -> Store {
        let mut store = self.prepare(load);
        while store.stage != Stage::Done {
            store.queue.clear();
            store.step();
        }
        store.queue.clear();
        store.stage = Stage::Serve(load);
        store
    }

    /// The next request; without end when it serves.
    pub(super) fn next(&mut self) -> Option<Request> {
        loop {
            if let Some(request) = self.queue.pop_front() {
                return Some(request);
            }
            if self.stage == Stage::Done {
                return None;
            }
            self.step();
        }
    }

    fn step(&mut self) {
        match self.stage {
            Stage::Done => {}
            Stage::Fill { from } if from >= self.keys => {
                self.stage =
                    if self.overwrite_first { Stage::Overwrite { left: self.keys } } else { Stage::Done };
            }
            Stage::Fill { from } => {
                let high = (from + self.file_entries).min(self.keys);
                self.log(high - from);
                // Files that overlap no other are moved down without being rewritten.
                if let Some(file) = self.write_file(from, high, high - from) {
                    self.levels[LEVELS - 1].push(file);
                }
                self.stage = Stage::Fill { from: high };
            }
            Stage::Overwrite { left: 0 } => self.stage = Stage::Done,
            Stage::Overwrite { left } => {
                let puts = left.min(self.file_entries);
                self.put(puts);
                self.stage = Stage::Overwrite { left: left - puts };
            }
            Stage::Serve(Load::Overwrite) => self.put(self.file_entries),
            Stage::Serve(Load::ReadRandom) => self.get(),
            Stage::Serve(Load::ReadSeq) => self.read_on(),
        }
    }

    /// The write-ahead log of a memtable, written and trimmed.
    fn log(&mut self, entries: u64) {
        let pages = (entries * ENTRY_BYTES).div_ceil(PAGE) as u32;
        let Some(extents) = self.disk.take(pages) else { return };
        push(&mut self.queue, Kind::Write, &extents, PIECE);
        trim(&mut self.queue, &extents);
        self.disk.give(&extents);
    }

    fn write_file(&mut self, low: u64, high: u64, entries: u64) -> Option<File> {
        let pages = (entries * ENTRY_BYTES).div_ceil(PAGE).max(1) as u32;
        let extents = self.disk.take(pages)?;
        push(&mut self.queue, Kind::Write, &extents, PIECE);
        Some(File { low, high, entries, extents, index_read: false })
    }

    /// A memtable of random puts, its flush, and the compactions that follow.
    fn put(&mut self, puts: u64) {
        self.log(puts);
        let entries = distinct(puts, puts / 2, self.keys);
        if let Some(file) = self.write_file(0, self.keys, entries.max(1)) {
            self.levels[0].push(file);
        }
        if self.levels[0].len() >= LEVEL0_FILES {
            let upper = std::mem::take(&mut self.levels[0]);
            self.merge_into(1, upper);
        }
        for level in 1..LEVELS - 1 {
            let room = (self.keys / GROWTH.pow((LEVELS - 1 - level) as u32)).max(self.file_entries);
            while self.levels[level].iter().map(|file| file.entries).sum::<u64>() > room {
                let at = self.levels[level].partition_point(|file| file.low < self.cursor[level]);
                let at = at % self.levels[level].len();
                let file = self.levels[level].remove(at);
                self.cursor[level] = file.high;
                self.merge_into(level + 1, vec![file]);
            }
        }
    }

    /// Merges files with those of `level` that they overlap.
    fn merge_into(&mut self, level: usize, upper: Vec<File>) {
        let low = upper.iter().map(|file| file.low).min().unwrap_or(0);
        let high = upper.iter().map(|file| file.high).max().unwrap_or(0);
        let from = self.levels[level].partition_point(|file| file.high <= low);
        let to = self.levels[level].partition_point(|file| file.low < high);
        let lower: Vec<File> = self.levels[level].drain(from..to).collect();
        let (low, high) = (
            lower.first().map_or(low, |file| file.low.min(low)),
            lower.last().map_or(high, |file| file.high.max(high)),
        );
        let range = high - low;
        let mut entries: u64 = lower.iter().map(|file| file.entries).sum();
        for file in &upper {
            entries = distinct(file.entries, entries, range);
        }
        for file in upper.iter().chain(&lower) {
            push(&mut self.queue, Kind::Read, &file.extents, PIECE);
        }
        let outputs = entries.div_ceil(self.file_entries).max(1);
        let mut made = Vec::new();
        for number in 0..outputs {
            let bound =
                |number: u64| low + (u128::from(range) * u128::from(number) / u128::from(outputs)) as u64;
            let share = entries / outputs + u64::from(number < entries % outputs);
            made.extend(self.write_file(bound(number), bound(number + 1), share.max(1)));
        }
        for file in upper.iter().chain(&lower) {
            trim(&mut self.queue, &file.extents);
            self.disk.give(&file.extents);
        }
        self.levels[level].splice(from..from, made);
    }

    /// One get of a key that exists.
    fn get(&mut self) {
        let key = self.random.below(self.keys);
        for level in 0..LEVELS {
            for at in (0..self.levels[level].len()).rev() {
                let held = |file: &File| (file.low..file.high).contains(&key);
                let at = if level == 0 {
                    at
                } else {
                    let first = self.levels[level].partition_point(|file| file.high <= key);
                    if !self.levels[level].get(first).is_some_and(held) {
                        break;
                    }
                    first
                };
                let file = &mut self.levels[level][at];
                if !file.index_read {
                    file.index_read = true;
                    let blocks = file.entries * ENTRY_BYTES / PAGE;
                    let pages = (blocks * INDEX_BYTES_A_BLOCK).div_ceil(PAGE) as u32;
                    let last = file
                        .extents
                        .last()
                        .map(|&(start, count)| (start + count - pages.min(count), pages.min(count)));
                    push(&mut self.queue, Kind::Read, last.as_slice(), READ_MOST);
                }
                push(&mut self.queue, Kind::Read, &[file.page_of(key)], READ_MOST);
                let found = self.random.below((file.high - file.low).max(1)) < file.entries;
                if found || level == LEVELS - 1 {
                    return;
                }
                if level > 0 {
                    break;
                }
            }
        }
    }

    /// The next piece in the order of keys, round and round.
    fn read_on(&mut self) {
        if self.pieces.is_empty() {
            let mut pieces: Vec<(u64, (u32, u32))> = Vec::new();
            for file in self.levels.iter().flatten() {
                let (pages, mut before) = (u64::from(file.pages()).max(1), 0_u64);
                for &(start, count) in &file.extents {
                    let mut at = 0;
                    while at < count {
                        let part = READ_MOST.min(count - at);
                        let key = file.low + (file.high - file.low) * before / pages;
                        pieces.push((key, (start + at, part)));
                        at += part;
                        before += u64::from(part);
                    }
                }
            }
            pieces.sort_by_key(|piece| piece.0);
            self.pieces = pieces.into_iter().map(|(_, piece)| piece).collect();
        }
        let Some(&piece) = self.pieces.get(self.next_piece) else {
            self.stage = Stage::Done;
            return;
        };
        self.next_piece = (self.next_piece + 1) % self.pieces.len();
        push(&mut self.queue, Kind::Read, &[piece], READ_MOST);
    }
}

/// Keys that two sets hold together when both lie evenly in `range` keys.
fn distinct(one: u64, other: u64, range: u64) -> u64 {
    let both = u128::from(one) * u128::from(other) / u128::from(range.max(1));
    (one + other - (both as u64).min(one.min(other))).min(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(store: &Store) -> u32 {
        store.levels.iter().flatten().map(File::pages).sum()
    }

    #[test]
    fn the_tree_holds_every_key_and_fits() {
        let bytes = 8 << 30;
        let store = Store::new(bytes, 3).serve(Load::ReadRandom);
        let last: u64 = store.levels[LEVELS - 1].iter().map(|file| file.entries).sum();
        assert!(last >= store.keys * 95 / 100, "{last} of {}", store.keys);
        let share = u64::from(used(&store)) * PAGE * 100 / bytes;
        assert!((68..=85).contains(&share), "{share} % of the device");
        for level in &store.levels[1..] {
            assert!(level.windows(2).all(|pair| pair[0].high <= pair[1].low));
        }
        assert_eq!(used(&store) + store.disk.left(), (bytes / PAGE) as u32);
    }

    #[test]
    fn reads_touch_live_files_alone() {
        for load in [Load::ReadRandom, Load::ReadSeq] {
            let mut store = Store::new(4 << 30, 3).serve(load);
            let mut live: Vec<(u64, u64)> = store
                .levels
                .iter()
                .flatten()
                .flat_map(|file| &file.extents)
                .map(|&(start, count)| (u64::from(start) * PAGE, u64::from(start + count) * PAGE))
                .collect();
            live.sort_unstable();
            for _ in 0..20_000 {
                let request = store.next().expect("reads never end");
                let at = live.partition_point(|extent| extent.0 <= request.offset) - 1;
                assert!(request.kind == Kind::Read && request.end() <= live[at].1, "{request:?}");
            }
        }
    }

    #[test]
    fn overwriting_amplifies_writes() {
        let mut store = Store::new(4 << 30, 3).serve(Load::Overwrite);
        let (mut written, mut puts) = (0, 0);
        while puts < 20 * store.file_entries {
            store.step();
            puts += store.file_entries;
            written += store.queue.iter().filter(|r| r.kind == Kind::Write).map(|r| r.bytes).sum::<u64>();
            store.queue.clear();
        }
        let factor = written / (puts * ENTRY_BYTES);
        assert!((5..30).contains(&factor), "{factor}");
    }
}
