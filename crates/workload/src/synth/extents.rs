//! Requests to popular extents, to the recent past, of interleaved sequential streams, and in bursts.

use super::models::{Model, Scan, Side};
use crate::random::{zipf, Bucket, Permutation, Random, Weighted};
use crate::{Kind, Request};

/// What is in use lies in pieces of this size.
const PIECE: u64 = 4 << 20;

/// A burst leaves out one of so many places of its size, as files do not lie without gaps.
const GAP_EVERY: u64 = 8;

/// The requests of a model.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    model: &'static Model,
    random: Random,
    left: u64,
    now_ns: u64,
    popularity: Weighted,
    scatter: Permutation,
    /// Where the pieces in use lie; none: all is in use.
    pieces: Option<Permutation>,
    /// Where `scatter` finds the popular extents, by rank; empty: all extents are popular, in its order.
    popular: Vec<u64>,
    /// The next place in `scatter` that has not been popular yet.
    unpopular: u64,
    /// Requests since a popular extent gave way to another.
    since_drift: u64,
    sides: [SideState; 2],
    recent: Vec<u64>,
    recent_at: usize,
    burst: BurstState,
    scans: Vec<ScanState>,
}

/// Where a scan's window begins, and the reads of it that are done.
#[derive(Debug, Clone)]
struct ScanState {
    window: u64,
    done: u64,
}

impl ScanState {
    /// The scan begins a window anywhere in the address space.
    fn anywhere(scan: &Scan, span_bytes: u64, random: &mut Random) -> ScanState {
        let places = (span_bytes - scan.bytes * scan.window) / scan.bytes;
        ScanState { window: random.below(places) * scan.bytes, done: 0 }
    }
}

/// How far the burst is, and where it begins.
#[derive(Debug, Clone, Default)]
struct BurstState {
    first: u64,
    at: u64,
    left: u64,
    /// Writes until the next one begins.
    until: u64,
}

#[derive(Debug, Clone)]
struct SideState {
    side: &'static Side,
    sizes: Weighted,
    last_end: u64,
    /// The stream that the last request belonged to.
    current: usize,
    streams: Vec<u64>,
}

impl Stream {
    pub(super) fn new(model: &'static Model, requests: u64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let in_use = if model.in_use > 0 { model.in_use } else { model.span_bytes };
        let extents = in_use / model.extent_bytes;
        let scatter = Permutation::new(extents, &mut random);
        let ranks = model.popular.min(extents);
        let popularity = zipf(ranks, model.theta);
        let mut sides = [&model.read, &model.write].map(|side| {
            let buckets: Vec<Bucket> =
                side.sizes.iter().map(|&(start, weight)| Bucket { start, len: 1, weight }).collect();
            SideState {
                side,
                sizes: Weighted::new(&buckets),
                last_end: u64::MAX,
                current: model.streams,
                streams: vec![0; model.streams],
            }
        });
        for state in &mut sides {
            for position in &mut state.streams {
                *position = random.below(model.span_bytes / model.zone_bytes) * model.zone_bytes;
            }
        }
        let first = match &model.burst {
            Some(burst) => {
                let pages = (model.span_bytes - burst.region_bytes()) / model.page_bytes;
                random.below(pages + 1) * model.page_bytes
            }
            None => 0,
        };
        let begin = |scan| ScanState::anywhere(scan, model.span_bytes, &mut random);
        let scans = model.scans.iter().map(begin).collect();
        let pieces = (model.in_use > 0).then(|| Permutation::new(model.span_bytes / PIECE, &mut random));
        Stream {
            model,
            random,
            left: requests,
            now_ns: 0,
            popularity,
            scatter,
            pieces,
            popular: if ranks < extents { (0..ranks).collect() } else { Vec::new() },
            unpopular: ranks,
            since_drift: 0,
            sides,
            recent: Vec::with_capacity(model.remembered),
            recent_at: 0,
            burst: BurstState {
                first,
                until: model.burst.as_ref().map_or(0, |burst| burst.every / 2),
                ..BurstState::default()
            },
            scans,
        }
    }

    /// The next read of a scan: offset and bytes. `None`: it is none's turn.
    fn scan(&mut self) -> Option<(u64, u64)> {
        if self.scans.is_empty() {
            return None;
        }
        let mut draw = self.random.below(10_000);
        let at = self.model.scans.iter().position(|scan| {
            let chosen = draw < scan.share;
            draw = draw.wrapping_sub(if chosen { 0 } else { scan.share });
            chosen
        })?;
        let scan = &self.model.scans[at];
        if self.random.below(scan.length) == 0 {
            self.scans[at] = ScanState::anywhere(scan, self.model.span_bytes, &mut self.random);
        }
        let state = &mut self.scans[at];
        let offset = state.window + state.done * scan.bytes;
        state.done += 1;
        if state.done == scan.window {
            state.done = 0;
            state.window += scan.step * scan.bytes;
            if state.window + scan.window * scan.bytes > self.model.span_bytes {
                state.window = 0;
            }
        }
        Some((offset, scan.bytes))
    }

    /// One popular extent gives way to another, now and then.
    fn drift(&mut self) {
        self.since_drift += 1;
        if self.popular.is_empty() || self.since_drift != self.model.drift {
            return;
        }
        self.since_drift = 0;
        let rank = self.random.below(self.popular.len() as u64) as usize;
        self.popular[rank] = self.unpopular;
        self.unpopular = (self.unpopular + 1) % self.scatter.len();
    }

    /// The next write of a burst: offset and bytes. `None`: it is not its turn.
    fn burst(&mut self) -> Option<(u64, u64)> {
        let burst = self.model.burst.as_ref()?;
        let state = &mut self.burst;
        state.until = state.until.saturating_sub(1);
        if state.until == 0 {
            (state.at, state.left) = (state.first, burst.requests);
            state.until = burst.every / 2 + self.random.below(burst.every);
        }
        if state.left == 0 || self.random.below(10_000) >= burst.share {
            return None;
        }
        state.left -= 1;
        let offset = state.at;
        state.at += if state.left.is_multiple_of(GAP_EVERY) { 2 * burst.bytes } else { burst.bytes };
        Some((offset, burst.bytes))
    }

    /// A popular address, on a page boundary.
    fn popular(&mut self) -> u64 {
        let rank = self.popularity.draw(&mut self.random);
        let extent = self.scatter.apply(self.popular.get(rank as usize).copied().unwrap_or(rank));
        let page = self.model.page_bytes;
        let place =
            extent * self.model.extent_bytes + self.random.below(self.model.extent_bytes / page) * page;
        self.pieces.as_ref().map_or(place, |pieces| pieces.apply(place / PIECE) * PIECE + place % PIECE)
    }

    /// Small requests start anywhere in their page, on a sector.
    fn within_page(&mut self, page: u64, bytes: u64) -> u64 {
        if bytes >= self.model.page_bytes {
            return page;
        }
        page + self.random.below((self.model.page_bytes - bytes) / 512 + 1) * 512
    }

    /// The next address of a stream that is not the one of the last request, which would count as sequential.
    fn stream(&mut self, kind: usize, last_end: u64, bytes: u64) -> u64 {
        let current = self.sides[kind].current;
        let mut other = self.random.below(self.model.streams as u64) as usize;
        if other == current || self.sides[kind].streams[other] == last_end {
            other = (other + 1) % self.model.streams;
        }
        self.sides[kind].current = other;
        self.go_on(kind, other, bytes)
    }

    fn address(&mut self, kind: usize, bytes: u64) -> u64 {
        let (side, last_end) = (self.sides[kind].side, self.sides[kind].last_end);
        if bytes >= side.large.0 && self.random.below(10_000) < side.large.1 {
            return self.stream(kind, last_end, bytes);
        }
        let draw = self.random.below(10_000);
        if draw < side.sequential && last_end != u64::MAX {
            return match self.sides[kind].current {
                _ if !self.model.circular => last_end,
                current if current < self.model.streams => self.go_on(kind, current, bytes),
                _ => self.stream(kind, last_end, bytes),
            };
        }
        if draw >= side.sequential && draw < side.sequential + side.streams {
            return self.stream(kind, last_end, bytes);
        }
        self.sides[kind].current = self.model.streams;
        let page = if draw < side.sequential + side.streams + side.recent && !self.recent.is_empty() {
            self.recent[self.random.below(self.recent.len() as u64) as usize]
        } else {
            self.popular()
        };
        self.within_page(page, bytes)
    }

    /// The next address of a stream.
    fn go_on(&mut self, kind: usize, stream: usize, bytes: u64) -> u64 {
        let zone = self.model.zone_bytes;
        if self.random.below(zone * self.model.rounds) < bytes {
            self.sides[kind].streams[stream] = self.popular() / zone * zone;
        } else if self.sides[kind].streams[stream] % zone + bytes > zone {
            self.sides[kind].streams[stream] -= self.sides[kind].streams[stream] % zone;
        }
        self.sides[kind].streams[stream]
    }

    /// A request that belongs to no burst: offset and bytes.
    fn ordinary(&mut self, kind: usize) -> (u64, u64) {
        let bytes = self.sides[kind].sizes.draw(&mut self.random);
        let offset = self.address(kind, bytes).min(self.model.span_bytes - bytes);
        let state = &mut self.sides[kind];
        state.last_end = offset + bytes;
        if let Some(position) = state.streams.get_mut(state.current) {
            *position = offset + bytes;
            if self.model.circular && position.is_multiple_of(self.model.zone_bytes) {
                *position -= self.model.zone_bytes;
            }
        }
        let page = self.model.page_bytes;
        self.remember(offset / page * page);
        (offset, bytes)
    }

    fn remember(&mut self, page: u64) {
        if self.recent.len() < self.model.remembered {
            self.recent.push(page);
        } else {
            self.recent[self.recent_at] = page;
            self.recent_at = (self.recent_at + 1) % self.model.remembered;
        }
    }
}

/// A request of the rows as FlashSim reads it: as many sectors as there are units of 4 KiB. The rows' own
/// addresses, which were moved down to pages, begin on any sector of one, the same all over a file.
fn as_flashsim(offset: u64, bytes: u64) -> (u64, u64) {
    let mut file = Random::new(offset / PIECE);
    (offset + file.below(8) * 512, bytes / 4096 * 512)
}

impl Iterator for Stream {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        let kind = if self.random.below(10_000) < self.model.writes { Kind::Write } else { Kind::Read };
        self.drift();
        let regular = if kind == Kind::Write { self.burst() } else { self.scan() };
        let (offset, bytes) = regular.unwrap_or_else(|| self.ordinary(kind.index()));
        let (offset, bytes) =
            if self.model.as_flashsim { as_flashsim(offset, bytes) } else { (offset, bytes) };
        let arrival_ns = self.now_ns;
        // 1 to 2^53 over 2^53, so that the logarithm is finite.
        let uniform = ((self.random.u64() >> 11) + 1) as f64 / 9_007_199_254_740_992.0;
        self.now_ns += (-libm::log(uniform) * self.model.gap_ns as f64) as u64;
        Some(Request { arrival_ns, kind, offset, bytes })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}
