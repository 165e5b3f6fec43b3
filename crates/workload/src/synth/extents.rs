//! Requests to popular extents, to the recent past, and of interleaved sequential streams.

use super::models::{Model, Side};
use crate::random::{zipf, Bucket, Permutation, Random, Weighted};
use crate::{Kind, Request};

const RECENT: usize = 1024;
const STREAMS: usize = 8;
/// How often a stream goes round in its zone, on average, before it moves to another.
const ROUNDS: u64 = 8;

/// The requests of a model.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    model: &'static Model,
    random: Random,
    left: u64,
    now_ns: u64,
    popularity: Weighted,
    scatter: Permutation,
    sides: [SideState; 2],
    recent: Vec<u64>,
    recent_at: usize,
}

#[derive(Debug, Clone)]
struct SideState {
    side: &'static Side,
    sizes: Weighted,
    last_end: u64,
    /// The stream that the last request belonged to.
    current: usize,
    streams: [u64; STREAMS],
}

impl Stream {
    pub(super) fn new(model: &'static Model, requests: u64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let extents = model.span_bytes / model.extent_bytes;
        let scatter = Permutation::new(extents, &mut random);
        let popularity = zipf(extents, model.theta);
        let mut sides = [&model.read, &model.write].map(|side| {
            let buckets: Vec<Bucket> =
                side.sizes.iter().map(|&(start, weight)| Bucket { start, len: 1, weight }).collect();
            SideState {
                side,
                sizes: Weighted::new(&buckets),
                last_end: u64::MAX,
                current: STREAMS,
                streams: [0; STREAMS],
            }
        });
        for state in &mut sides {
            for position in &mut state.streams {
                *position = random.below(model.span_bytes / model.zone_bytes) * model.zone_bytes;
            }
        }
        Stream {
            model,
            random,
            left: requests,
            now_ns: 0,
            popularity,
            scatter,
            sides,
            recent: Vec::with_capacity(RECENT),
            recent_at: 0,
        }
    }

    /// A popular address, on a page boundary.
    fn popular(&mut self) -> u64 {
        let extent = self.scatter.apply(self.popularity.draw(&mut self.random));
        let page = self.model.page_bytes;
        extent * self.model.extent_bytes + self.random.below(self.model.extent_bytes / page) * page
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
        let mut other = self.random.below(STREAMS as u64) as usize;
        if other == current || self.sides[kind].streams[other] == last_end {
            other = (other + 1) % STREAMS;
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
            return last_end;
        }
        if draw >= side.sequential && draw < side.sequential + side.streams {
            return self.stream(kind, last_end, bytes);
        }
        self.sides[kind].current = STREAMS;
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
        if self.random.below(zone * ROUNDS) < bytes {
            self.sides[kind].streams[stream] = self.popular() / zone * zone;
        } else if self.sides[kind].streams[stream] % zone + bytes > zone {
            self.sides[kind].streams[stream] -= self.sides[kind].streams[stream] % zone;
        }
        self.sides[kind].streams[stream]
    }

    fn remember(&mut self, page: u64) {
        if self.recent.len() < RECENT {
            self.recent.push(page);
        } else {
            self.recent[self.recent_at] = page;
            self.recent_at = (self.recent_at + 1) % RECENT;
        }
    }
}

impl Iterator for Stream {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        let kind = if self.random.below(10_000) < self.model.writes { Kind::Write } else { Kind::Read };
        let bytes = self.sides[kind.index()].sizes.draw(&mut self.random);
        let mut offset = self.address(kind.index(), bytes);
        if offset + bytes > self.model.span_bytes {
            offset = self.model.span_bytes - bytes;
        }
        let state = &mut self.sides[kind.index()];
        state.last_end = offset + bytes;
        if let Some(position) = state.streams.get_mut(state.current) {
            *position = offset + bytes;
        }
        let page = self.model.page_bytes;
        self.remember(offset / page * page);
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
