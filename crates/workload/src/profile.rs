//! What a stream of requests looks like: counts, sizes, footprint, sequentiality.

use std::collections::{HashMap, VecDeque};

use serde::Serialize;

use crate::{Kind, Request};

/// The unit of footprints, in bytes.
pub const PAGE_BYTES: u64 = 4096;
/// How many requests back [`KindProfile::near_sequential`] looks.
pub const NEAR_REQUESTS: usize = 16;
const TOP_SIZES: usize = 12;

/// A stream of requests in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Profile {
    /// All requests, flushes included.
    pub requests: u64,
    /// Reads.
    pub reads: KindProfile,
    /// Writes.
    pub writes: KindProfile,
    /// Trims.
    pub trims: KindProfile,
    /// Flushes.
    pub flushes: u64,
    /// Writes among reads and writes, 0 to 1.
    pub write_share: f64,
    /// Mean size of reads and writes, bytes.
    pub mean_bytes: f64,
    /// The most frequent sizes of reads and writes, most frequent first.
    pub sizes: Vec<SizeCount>,
    /// Distinct 4 KiB pages read, written or trimmed.
    pub pages_touched: u64,
    /// End of the last byte touched.
    pub span_bytes: u64,
    /// First byte touched.
    pub first_byte: u64,
    /// Share of page writes that went to a page already written in this stream, 0 to 1.
    pub rewrite_share: f64,
    /// Arrival of the last request less that of the first, nanoseconds.
    pub duration_ns: u64,
    /// Requests per second over the duration; 0 when all arrive at once.
    pub mean_iops: f64,
    /// The longest pause between two arrivals, nanoseconds.
    pub longest_gap_ns: u64,
}

/// Reads, writes or trims in numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct KindProfile {
    /// Requests.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// Mean size, bytes.
    pub mean_bytes: f64,
    /// Smallest size, bytes.
    pub smallest: u64,
    /// Largest size, bytes.
    pub largest: u64,
    /// Share of requests that start at the byte where the request of the same kind before it ended, 0 to 1.
    pub sequential: f64,
    /// Share of requests that start where one of the last 16 requests of the same kind ended, 0 to 1.
    pub near_sequential: f64,
    /// Distinct 4 KiB pages.
    pub pages: u64,
    /// 4 KiB pages, each counted as often as it was touched.
    pub page_accesses: u64,
}

/// How often a size occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SizeCount {
    /// Bytes.
    pub bytes: u64,
    /// Requests of this size.
    pub count: u64,
}

impl Profile {
    /// Takes the profile of a stream.
    pub fn of(requests: impl IntoIterator<Item = Request>) -> Profile {
        let mut collector = Collector::default();
        for request in requests {
            collector.add(&request);
        }
        collector.finish()
    }
}

/// Collects a [`Profile`] request by request.
#[derive(Debug, Default)]
pub struct Collector {
    kinds: [KindCollector; 3],
    any: PageSet,
    flushes: u64,
    sizes: HashMap<u64, u64>,
    first_arrival: Option<u64>,
    last_arrival: u64,
    longest_gap: u64,
    end: u64,
    start: Option<u64>,
}

#[derive(Debug, Default)]
struct KindCollector {
    profile: KindProfile,
    sequential: u64,
    near: u64,
    ends: Ends,
    pages: PageSet,
}

/// Where the last [`NEAR_REQUESTS`] requests ended.
#[derive(Debug, Default)]
pub(crate) struct Ends(VecDeque<u64>);

impl Ends {
    /// Whether a request begins where the last one ended, and where one of the last did. Then it is the last.
    pub(crate) fn add(&mut self, r: &Request) -> (bool, bool) {
        let goes_on = (self.0.back() == Some(&r.offset), self.0.contains(&r.offset));
        if self.0.len() == NEAR_REQUESTS {
            self.0.pop_front();
        }
        self.0.push_back(r.end());
        goes_on
    }
}

/// Distinct pages, as bitmaps of 32,768 pages each where there are any; `None`: all of them are there.
#[derive(Debug, Default)]
struct PageSet {
    chunks: HashMap<u64, Option<Box<[u64; 512]>>>,
    count: u64,
}

const PAGES_OF_A_CHUNK: u64 = 0x8000;

impl PageSet {
    fn insert(&mut self, first: u64, last: u64) {
        let mut page = first;
        while page <= last {
            let end = last.min(page | 0x7fff);
            if end - page == 0x7fff {
                let known = match self.chunks.insert(page >> 15, None) {
                    None => 0,
                    Some(None) => PAGES_OF_A_CHUNK,
                    Some(Some(chunk)) => chunk.iter().map(|word| u64::from(word.count_ones())).sum(),
                };
                self.count += PAGES_OF_A_CHUNK - known;
            } else if let Some(chunk) =
                self.chunks.entry(page >> 15).or_insert_with(|| Some(Box::new([0; 512])))
            {
                for p in page..=end {
                    let word = &mut chunk[(p as usize >> 6) & 511];
                    let bit = 1 << (p & 63);
                    self.count += u64::from(*word & bit == 0);
                    *word |= bit;
                }
            }
            page = end + 1;
        }
    }
}

impl KindCollector {
    fn add(&mut self, r: &Request, first: u64, last: u64) {
        let p = &mut self.profile;
        p.smallest = if p.count == 0 { r.bytes } else { p.smallest.min(r.bytes) };
        p.largest = p.largest.max(r.bytes);
        p.count += 1;
        p.bytes = p.bytes.saturating_add(r.bytes);
        p.page_accesses = p.page_accesses.saturating_add(last - first + 1);
        let (with_the_last, with_one) = self.ends.add(r);
        self.sequential += u64::from(with_the_last);
        self.near += u64::from(with_one);
        self.pages.insert(first, last);
    }

    fn finish(mut self) -> KindProfile {
        self.profile.mean_bytes = share(self.profile.bytes, self.profile.count);
        self.profile.sequential = share(self.sequential, self.profile.count);
        self.profile.near_sequential = share(self.near, self.profile.count);
        self.profile.pages = self.pages.count;
        self.profile
    }
}

/// A part of a whole; 0 of nothing.
pub(crate) fn share(part: u64, of: u64) -> f64 {
    if of == 0 {
        0.0
    } else {
        part as f64 / of as f64
    }
}

impl Collector {
    /// Adds one request.
    pub fn add(&mut self, r: &Request) {
        if self.first_arrival.is_none() {
            self.first_arrival = Some(r.arrival_ns);
        } else {
            self.longest_gap = self.longest_gap.max(r.arrival_ns.saturating_sub(self.last_arrival));
        }
        self.last_arrival = self.last_arrival.max(r.arrival_ns);
        if r.kind == Kind::Flush || r.bytes == 0 {
            self.flushes += u64::from(r.kind == Kind::Flush);
            return;
        }
        let (first, last) = (r.offset / PAGE_BYTES, (r.end() - 1) / PAGE_BYTES);
        self.kinds[r.kind.index()].add(r, first, last);
        self.any.insert(first, last);
        if r.kind != Kind::Trim {
            *self.sizes.entry(r.bytes).or_default() += 1;
        }
        self.end = self.end.max(r.end());
        self.start = Some(self.start.map_or(r.offset, |s| s.min(r.offset)));
    }

    /// The profile of what was added.
    pub fn finish(self) -> Profile {
        let [reads, writes, trims] = self.kinds.map(KindCollector::finish);
        let mut sizes: Vec<SizeCount> =
            self.sizes.into_iter().map(|(bytes, count)| SizeCount { bytes, count }).collect();
        sizes.sort_unstable_by_key(|s| (std::cmp::Reverse(s.count), s.bytes));
        sizes.truncate(TOP_SIZES);
        let transfers = reads.count + writes.count;
        let requests = transfers + trims.count + self.flushes;
        let duration_ns = self.last_arrival - self.first_arrival.unwrap_or(self.last_arrival);
        Profile {
            requests,
            write_share: share(writes.count, transfers),
            mean_bytes: share(reads.bytes.saturating_add(writes.bytes), transfers),
            sizes,
            pages_touched: self.any.count,
            span_bytes: self.end,
            first_byte: self.start.unwrap_or(0),
            rewrite_share: share(writes.page_accesses - writes.pages, writes.page_accesses),
            duration_ns,
            mean_iops: if duration_ns == 0 { 0.0 } else { requests as f64 * 1e9 / duration_ns as f64 },
            longest_gap_ns: self.longest_gap,
            flushes: self.flushes,
            reads,
            writes,
            trims,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(arrival_ns: u64, kind: Kind, offset: u64, bytes: u64) -> Request {
        Request { arrival_ns, kind, offset, bytes }
    }

    #[test]
    fn a_small_stream_in_numbers() {
        let p = Profile::of([
            r(0, Kind::Write, 0, 8192),
            r(10, Kind::Read, 8192, 4096),
            r(20, Kind::Write, 8192, 512),
            r(40, Kind::Write, 1 << 40, 4096),
            r(50, Kind::Write, 8704, 4096),
            Request::flush(60),
            r(60, Kind::Trim, 0, 4096),
        ]);
        assert_eq!((p.requests, p.reads.count, p.writes.count, p.trims.count, p.flushes), (7, 1, 4, 1, 1));
        assert_eq!((p.writes.bytes, p.writes.smallest, p.writes.largest), (16896, 512, 8192));
        assert_eq!((p.writes.sequential, p.writes.near_sequential), (0.25, 0.5));
        assert_eq!((p.writes.pages, p.writes.page_accesses, p.pages_touched), (5, 6, 5));
        assert_eq!(
            (p.span_bytes, p.first_byte, p.duration_ns, p.longest_gap_ns),
            ((1 << 40) + 4096, 0, 60, 20)
        );
        assert_eq!((p.write_share, p.sizes[0]), (0.8, SizeCount { bytes: 4096, count: 3 }));
        assert!((p.rewrite_share - 1.0 / 6.0).abs() < 1e-12);
    }

    #[test]
    fn nothing_in_numbers() {
        let p = Profile::of([]);
        assert_eq!((p.requests, p.duration_ns, p.mean_iops, p.write_share), (0, 0, 0.0, 0.0));
    }

    #[test]
    fn a_long_request_spans_chunks() {
        let p = Profile::of([r(0, Kind::Write, 4096 * 32_000, 4096 * 70_000)]);
        assert_eq!(p.writes.pages, 70_000);
    }
}
