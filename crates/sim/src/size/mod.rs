//! How large a mapping cache must be: what schemes cost by cache size, and what an LRU cache could reach.
//!
//! Schemes are run, one run for each size: their policies are no stack algorithms, and collection interferes.
//! Plain LRU is a stack algorithm (Mattson et al. 1970): one pass over the requests gives its hit ratio for
//! every size, over single entries and over whole translation pages. That is what the requests' locality
//! offers, before collection.

mod rise;
mod sweep;

use serde::{Deserialize, Serialize};
use workload::{Kind, Request};

use crate::results::{ratio, Kind as RequestKind, Run};

pub use rise::{rises, Reason, Rise};
pub use sweep::{as_trace, Curve, Sweep, IDEAL};

/// What one scheme cost with one cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The scheme, with the parameters that differ from its defaults.
    pub scheme: String,
    /// Memory for the mapping, directory included, bytes.
    pub cache_bytes: u64,
    /// Mapping memory in use at the end, bytes.
    pub memory_bytes: u64,
    /// Flash reads for each host page read.
    pub flash_reads_per_host_read: Option<f64>,
    /// Flash programs for each host page written.
    pub write_amplification: Option<f64>,
    /// Hit ratio of the mapping.
    pub hit_ratio: Option<f64>,
    /// Mean latency over reads, writes and trims, ns.
    pub mean_latency_ns: Option<f64>,
    /// 99th percentile of reads, of the worst phase, ns.
    pub read_p99_ns: Option<u64>,
    /// 99th percentile of writes, of the worst phase, ns.
    pub write_p99_ns: Option<u64>,
    /// Entries loaded in advance for each lookup that found nothing.
    pub prefetched_per_miss: Option<f64>,
    /// Translation pages written back for each such lookup.
    pub write_backs_per_miss: Option<f64>,
    /// Pages that collection programmed for each host page written.
    pub moved_per_write: Option<f64>,
    /// Share of all translation pages that had an entry in the cache, at the last look.
    pub pages_cached: Option<f64>,
}

impl Point {
    /// Of a run, over all its phases.
    pub fn of(run: &Run, scheme: impl Into<String>) -> Point {
        let sum = |of: &dyn Fn(&crate::results::Phase) -> f64| run.phases.iter().map(of).sum::<f64>();
        let p99 = |kind: RequestKind| {
            run.phases.iter().filter_map(|phase| phase.latency[kind].as_ref()).map(|found| found.p99_ns).max()
        };
        let timed = |phase: &crate::results::Phase| {
            RequestKind::DATA
                .iter()
                .filter_map(|&kind| phase.latency[kind].as_ref())
                .fold((0.0, 0.0), |(n, ns), found| {
                    (n + found.count as f64, ns + found.count as f64 * found.mean_ns)
                })
        };
        let misses = |phase: &crate::results::Phase| phase.mapping.misses as f64;
        let collected =
            |phase: &crate::results::Phase| phase.flash.get("collection").map_or(0.0, |n| n.programs as f64);
        let last_look = run.phases.iter().rev().find_map(|phase| phase.cache_samples.last());
        let page_bytes = u64::from(run.device.page_bytes.max(4));
        let translation_pages = (run.device.exported_bytes / page_bytes).div_ceil(page_bytes / 4);
        Point {
            scheme: scheme.into(),
            cache_bytes: run.memory.cache_bytes,
            memory_bytes: run.memory.total_bytes(),
            flash_reads_per_host_read: ratio(
                sum(&|p| p.host_reads.flash_reads as f64),
                sum(&|p| p.host_reads.total() as f64),
            ),
            write_amplification: ratio(
                sum(&|p| p.flash_total().programs as f64),
                sum(&|p| p.pages_written as f64),
            ),
            hit_ratio: ratio(sum(&|p| p.mapping.hits as f64), sum(&|p| p.mapping.lookups as f64)),
            mean_latency_ns: ratio(sum(&|p| timed(p).1), sum(&|p| timed(p).0)),
            read_p99_ns: p99(RequestKind::Read),
            write_p99_ns: p99(RequestKind::Write),
            prefetched_per_miss: ratio(sum(&|p| p.mapping.prefetched as f64), sum(&misses)),
            write_backs_per_miss: ratio(sum(&|p| p.mapping.write_backs as f64), sum(&misses)),
            moved_per_write: ratio(sum(&collected), sum(&|p| p.pages_written as f64)),
            pages_cached: last_look.and_then(|look| ratio(look.pages as f64, translation_pages as f64)),
        }
    }

    /// Whether flash reads, write amplification and mean latency are all within the share `within` of the
    /// ideal map's, as far as both have them.
    pub fn is_near(&self, ideal: &Point, within: f64) -> bool {
        let near = |of: fn(&Point) -> Option<f64>| match (of(self), of(ideal)) {
            (Some(ours), Some(ideal)) => ours <= ideal * (1.0 + within),
            _ => true,
        };
        near(|p| p.flash_reads_per_host_read)
            && near(|p| p.write_amplification)
            && near(|p| p.mean_latency_ns)
    }
}

/// The smallest cache of each scheme that is near the ideal map, with all larger ones tried; `None` when the
/// largest is not near. One that is near while a larger one is not was lucky.
pub fn smallest(points: &[Point], ideal: &Point, within: f64) -> Vec<(String, Option<u64>)> {
    let mut sorted: Vec<&Point> = points.iter().collect();
    sorted.sort_by_key(|point| std::cmp::Reverse(point.cache_bytes));
    let mut names: Vec<&str> = Vec::new();
    for point in points {
        if !names.contains(&point.scheme.as_str()) {
            names.push(&point.scheme);
        }
    }
    let smallest_of = |name: &&str| {
        let of_scheme = sorted.iter().filter(|point| point.scheme == **name);
        of_scheme.take_while(|point| point.is_near(ideal, within)).last().map(|point| point.cache_bytes)
    };
    names.iter().map(|name| ((*name).to_owned(), smallest_of(name))).collect()
}

/// Never used, or no key.
const NONE: u32 = u32::MAX;
/// Places in time to begin with.
const FIRST_PLACES: usize = 1 << 12;

/// LRU stack distances of a sequence of keys: how many different keys were used since the same key was used
/// last.
#[derive(Clone, Debug)]
pub struct StackDistances {
    /// Place of each key's last use, by key.
    last: Vec<u32>,
    /// Key whose last use is at a place, or [`NONE`].
    keys: Vec<u32>,
    /// Fenwick tree over places: how many of them are last uses.
    tree: Vec<u32>,
    /// The next place.
    next: usize,
    live: usize,
    /// Uses by distance.
    uses: Vec<u64>,
    first_uses: u64,
}

impl StackDistances {
    /// Of keys below `keys`.
    pub fn new(keys: usize) -> StackDistances {
        StackDistances {
            last: vec![NONE; keys],
            keys: vec![NONE; FIRST_PLACES],
            tree: vec![0; FIRST_PLACES + 1],
            next: 0,
            live: 0,
            uses: Vec::new(),
            first_uses: 0,
        }
    }

    /// Counts a use of a key: at which cache size it would have been a hit.
    pub fn touch(&mut self, key: u32) {
        if self.next == self.keys.len() {
            self.compact();
        }
        let before = self.last[key as usize];
        if before == NONE {
            self.first_uses += 1;
            self.live += 1;
        } else {
            // Last uses after the key's own: those are different keys, and newer.
            let distance = self.live - self.count_to(before as usize);
            if self.uses.len() <= distance {
                self.uses.resize(distance + 1, 0);
            }
            self.uses[distance] += 1;
            self.keys[before as usize] = NONE;
            self.add(before as usize, -1);
        }
        self.keys[self.next] = key;
        self.last[key as usize] = self.next as u32;
        self.add(self.next, 1);
        self.next += 1;
    }

    /// Last uses at places up to `place`, it included.
    fn count_to(&self, place: usize) -> usize {
        let (mut at, mut sum) = (place + 1, 0);
        while at > 0 {
            sum += self.tree[at] as usize;
            at &= at - 1;
        }
        sum
    }

    fn add(&mut self, place: usize, by: i32) {
        let mut at = place + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add_signed(by);
            at += at & at.wrapping_neg();
        }
    }

    /// Gives the last uses new places without gaps, and as many again, thrice, for those to come.
    fn compact(&mut self) {
        let order: Vec<u32> = self.keys.iter().copied().filter(|&key| key != NONE).collect();
        let places = (4 * order.len()).max(FIRST_PLACES);
        self.keys = vec![NONE; places];
        self.tree = vec![0; places + 1];
        self.next = 0;
        for key in order {
            self.keys[self.next] = key;
            self.last[key as usize] = self.next as u32;
            self.add(self.next, 1);
            self.next += 1;
        }
    }

    /// Share of uses that an LRU cache of `capacity` keys, empty at first, has.
    pub fn hit_ratio(&self, capacity: u64) -> Option<f64> {
        let within = usize::try_from(capacity).unwrap_or(usize::MAX).min(self.uses.len());
        let hits: u64 = self.uses[..within].iter().sum();
        let all = self.uses.iter().sum::<u64>() + self.first_uses;
        ratio(hits as f64, all as f64)
    }
}

/// What plain LRU would have for some cache size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LruPoint {
    /// Budget, bytes; the directory is taken off.
    pub cache_bytes: u64,
    /// Hit ratio over single entries of 8 bytes.
    pub entries: Option<f64>,
    /// Hit ratio over whole translation pages, 4 bytes an entry and 8 a page.
    pub pages: Option<f64>,
}

/// Stack distances of page accesses, by entry and by translation page.
#[derive(Clone, Debug)]
pub struct Locality {
    entries: StackDistances,
    pages: StackDistances,
    page_bytes: u64,
    exported_pages: u64,
}

impl Locality {
    /// Of the reads and writes among `requests`, on a device of `exported_pages` pages of `page_bytes`.
    pub fn of<'a>(
        requests: impl IntoIterator<Item = &'a Request>,
        exported_pages: u32,
        page_bytes: u32,
    ) -> Locality {
        let per_page = page_bytes / 4;
        let mut locality = Locality {
            entries: StackDistances::new(exported_pages as usize),
            pages: StackDistances::new(exported_pages.div_ceil(per_page) as usize),
            page_bytes: u64::from(page_bytes),
            exported_pages: u64::from(exported_pages),
        };
        for request in requests {
            if !matches!(request.kind, Kind::Read | Kind::Write) {
                continue;
            }
            let end = request.end().div_ceil(locality.page_bytes).min(locality.exported_pages);
            for lpn in request.offset / locality.page_bytes..end {
                locality.entries.touch(lpn as u32);
                locality.pages.touch(lpn as u32 / per_page);
            }
        }
        locality
    }

    /// What plain LRU would have with a cache of `cache_bytes`, directory included.
    pub fn at(&self, cache_bytes: u64) -> LruPoint {
        let directory = 4 * (4 * self.exported_pages).div_ceil(self.page_bytes);
        let left = cache_bytes.saturating_sub(directory);
        LruPoint {
            cache_bytes,
            entries: self.entries.hit_ratio(left / 8),
            pages: self.pages.hit_ratio(left / (self.page_bytes + 8)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Keys with locality, from a small integer generator.
    fn keys(count: usize, below: u32) -> Vec<u32> {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u32
        };
        (0..count).map(|_| if next() % 4 > 0 { next() % (below / 8) } else { next() % below }).collect()
    }

    #[test]
    fn one_pass_gives_what_lru_caches_of_every_size_have() {
        let keys = keys(30_000, 400);
        let mut distances = StackDistances::new(400);
        keys.iter().for_each(|&key| distances.touch(key));
        for capacity in [0, 1, 2, 7, 50, 51, 128, 399, 400, 1000] {
            let mut cache: VecDeque<u32> = VecDeque::new();
            let mut hits = 0;
            for &key in &keys {
                match cache.iter().position(|&held| held == key) {
                    Some(at) => {
                        hits += 1;
                        cache.remove(at);
                    }
                    None if cache.len() == capacity => drop(cache.pop_back()),
                    None => {}
                }
                if capacity > 0 {
                    cache.push_front(key);
                }
            }
            let expected = f64::from(hits) / keys.len() as f64;
            assert_eq!(distances.hit_ratio(capacity as u64), Some(expected), "capacity {capacity}");
        }
        assert_eq!(StackDistances::new(3).hit_ratio(1), None);
    }

    #[test]
    fn locality_is_by_page_and_by_translation_page() {
        let read = |page: u64, pages: u64| Request {
            arrival_ns: 0,
            kind: Kind::Read,
            offset: page * 4096,
            bytes: pages * 4096,
        };
        let requests = [read(0, 2), read(0, 1), read(2000, 1), read(1, 1)];
        let found = Locality::of(&requests, 4096, 4096);
        let directory = 4 * 4;
        assert_eq!(found.at(directory), LruPoint { cache_bytes: 16, entries: Some(0.0), pages: Some(0.0) });
        assert_eq!(found.at(directory + 2 * 8).entries, Some(0.2), "page 0 comes again after page 1");
        assert_eq!(found.at(directory + 3 * 8).entries, Some(0.4));
        assert_eq!(found.at(directory + 4104).pages, Some(0.4), "0, 1 and 0 are of one translation page");
        assert_eq!(found.at(directory + 2 * 4104).pages, Some(0.6));
    }

    #[test]
    fn the_smallest_near_cache_is_near_in_everything() {
        let point = |scheme: &str, cache_bytes, reads, written, ns| Point {
            scheme: scheme.to_owned(),
            cache_bytes,
            flash_reads_per_host_read: Some(reads),
            write_amplification: Some(written),
            mean_latency_ns: ns,
            ..Point::default()
        };
        let ideal = point("page", 0, 1.0, 2.0, Some(100.0));
        let points = [
            point("a", 10, 1.04, 2.0, Some(120.0)),
            point("a", 20, 1.04, 2.09, Some(104.0)),
            point("a", 40, 1.0, 2.0, Some(100.0)),
            point("b", 10, 1.5, 2.0, None),
            point("c", 30, 1.0, 2.0, None),
            point("c", 15, 1.0, 2.0, None),
            // Near with 10, but by luck.
            point("d", 10, 1.0, 2.0, None),
            point("d", 20, 1.2, 2.1, None),
            point("d", 40, 1.0, 2.0, None),
        ];
        let expected =
            [("a", Some(20)), ("b", None), ("c", Some(15)), ("d", Some(40))].map(|(s, b)| (s.to_owned(), b));
        assert_eq!(smallest(&points, &ideal, 0.05), expected);
    }
}
