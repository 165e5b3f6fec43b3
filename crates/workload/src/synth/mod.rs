//! Seeded generators that stand in for traces which are not ours to ship. Everything they make is synthetic.
//!
//! Each is calibrated to published statistics of a trace: the share of writes, the mean size, the share of sequential
//! reads and writes (a request that starts where the one of the same kind before it ended) and the address space;
//! [`calibration`] measures how close it comes. What was not published is modelled, the same way for all, with parameters
//! chosen by hand. Those of `msr-ts` and `msr-src` were chosen until an LRU of 32,768 pages hit about as often as the
//! TPFTL paper lets one expect of DFTL (0.80 and 0.84), so a hit ratio measured on them is no evidence of its own for the
//! paper's; the published statistics were not touched by that. The streams of `financial1` and `financial2` were widened
//! at the same time, because that paper gains from prefetching there.
//!
//! Popularity is Zipf over extents scattered in the address space, a share of requests returns to one of the last 1,024
//! addresses (temporal locality), a share goes on with one of eight sequential streams (spatial locality that requests of
//! other streams interrupt), each of which goes round in a zone some eight times and then moves to another.
//!
//! Arrivals are exponential with a mean gap ([`Synth::mean_gap_ns`], our choice) at which an open-loop replay
//! does not saturate the small devices of the papers: 8.2 ms and 11.1 ms for Financial1 and Financial2, 20 ms for the
//! MSR servers, 2.57 ms for WebSearch (that of its first 50,000 rows) and 1 ms for Systor '17.
//!
//! The ten workloads of the ADAPT paper (`spc1`, `tpcc-20`, `msr-hm_0` to `msr-web_0`) are cut in its pages of 2 KiB, and
//! in them large requests are sequential more often than small ones: see `servers.rs`.

mod models;
mod servers;

pub use models::Synth;
use models::{Model, Side, Statistic, CATALOGUE};

use crate::profile::Profile;
use crate::random::{derive_seed, zipf, Bucket, Permutation, Random, Weighted};
use crate::{InputError, Kind, Request};

const RECENT: usize = 1024;
const STREAMS: usize = 8;
/// How often a stream goes round in its zone, on average, before it moves to another.
const ROUNDS: u64 = 8;

/// How the shipped sample `examples/oltp-sample.spc` was made: generator, requests, seed. Of our own making, synthetic.
pub const SAMPLE: (&str, u64, u64) = ("financial1", 8_000, 2026);

/// All generators.
pub fn catalogue() -> &'static [Synth] {
    &CATALOGUE
}

impl Synth {
    /// The generator of that name.
    ///
    /// Errors: there is none.
    pub fn find(name: &str) -> Result<&'static Synth, InputError> {
        CATALOGUE.iter().find(|s| s.name == name).ok_or_else(|| {
            let names: Vec<&str> = CATALOGUE.iter().map(|s| s.name).collect();
            InputError::in_file(
                "",
                format!("there is no generator called {name:?}; there are {}", names.join(", ")),
            )
        })
    }

    /// `requests` requests of the generator called `name`. The same seed gives the same requests.
    ///
    /// Errors: there is no such generator.
    pub fn open(name: &str, requests: u64, seed: u64) -> Result<Stream, InputError> {
        Ok(Synth::find(name)?.stream(requests, seed))
    }

    /// `requests` requests.
    pub fn stream(&'static self, requests: u64, seed: u64) -> Stream {
        Stream::new(
            &self.model,
            requests,
            derive_seed(seed, self.name.bytes().fold(0, |h, b| h * 31 + u64::from(b))),
        )
    }

    /// The address space, bytes: the least that a device must have.
    pub fn span_bytes(&self) -> u64 {
        self.model.span_bytes
    }

    /// Mean time between arrivals, nanoseconds.
    pub fn mean_gap_ns(&self) -> u64 {
        self.model.gap_ns
    }
}

/// One statistic of a generator beside the published one.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Calibration {
    /// What, with its unit.
    pub statistic: &'static str,
    /// As published.
    pub published: f64,
    /// As measured on 200,000 requests.
    pub ours: f64,
}

/// How close a generator comes to what was published.
///
/// Errors: there is no such generator.
pub fn calibration(name: &str) -> Result<Vec<Calibration>, InputError> {
    let synth = Synth::find(name)?;
    let profile = Profile::of(synth.stream(200_000, 1));
    let measure = |statistic: Statistic| match statistic {
        Statistic::WriteShare => ("write share", profile.write_share),
        Statistic::MeanKib => ("mean request, KiB", profile.mean_bytes / 1024.0),
        Statistic::SequentialReads => ("sequential reads", profile.reads.sequential),
        Statistic::SequentialWrites => ("sequential writes", profile.writes.sequential),
        Statistic::SpanMib => ("address space, MiB", profile.span_bytes as f64 / f64::from(1 << 20)),
        Statistic::SmallWrites => ("writes of at most 4 KiB", writes_between(synth, 0, 4096)),
        Statistic::MediumWrites => ("writes of less than 16 KiB", writes_between(synth, 4097, 16_383)),
        Statistic::LargeWrites => ("writes of 16 KiB and more", writes_between(synth, 16_384, u64::MAX)),
    };
    let row = |&(statistic, published): &(Statistic, f64)| {
        let (statistic, ours) = measure(statistic);
        Calibration { statistic, published, ours }
    };
    Ok(synth.published.iter().map(row).collect())
}

/// The share of the writes whose size lies between two bounds.
fn writes_between(synth: &'static Synth, least: u64, most: u64) -> f64 {
    let writes = || synth.stream(200_000, 1).filter(|r| r.kind == Kind::Write);
    let between = writes().filter(|r| (least..=most).contains(&r.bytes)).count();
    between as f64 / writes().count().max(1) as f64
}

/// The requests of a generator.
#[derive(Debug, Clone)]
pub struct Stream {
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
    fn new(model: &'static Model, requests: u64, seed: u64) -> Self {
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
