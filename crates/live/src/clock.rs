//! Virtual time beside the wall's.
//!
//! The device model runs along with every request, so that its latency is known whether or not anybody waits
//! for it. Virtual time follows the wall; and where the real device is faster than the modelled one it runs
//! ahead, so that the model never has more requests in flight than the clients have: their loops stay closed
//! in both worlds.

use std::time::Instant;

use hdrhistogram::Histogram;
use nand::timing::{AnyTiming, Timing};
use nand::Done;

/// Reported when virtual time has caught up; no request has this tag.
const CAUGHT_UP: u32 = u32::MAX;
/// Longest latency that is told apart, ns: ten minutes.
const HIGHEST_NS: u64 = 600_000_000_000;

/// Latencies of one kind of request, ns.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Option<Histogram<u64>>,
    total_ns: u64,
    count: u64,
}

impl Latency {
    fn new() -> Latency {
        Latency { histogram: Histogram::new_with_bounds(1, HIGHEST_NS, 2).ok(), total_ns: 0, count: 0 }
    }

    fn record(&mut self, ns: u64) {
        self.count += 1;
        self.total_ns += ns;
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(ns);
        }
    }

    /// Latencies recorded elsewhere: ns and how often, and their exact sum.
    pub fn of(counts: impl Iterator<Item = (u64, u64)>, total_ns: u64) -> Latency {
        let mut latency = Latency { total_ns, ..Latency::new() };
        for (ns, count) in counts {
            latency.count += count;
            if let Some(histogram) = &mut latency.histogram {
                histogram.saturating_record_n(ns, count);
            }
        }
        latency
    }

    /// Requests.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean; 0 without requests.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.total_ns as f64 / self.count as f64
        }
    }

    /// The values recorded, to two digits, and how often each was; ascending.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let steps = self.histogram.iter().flat_map(Histogram::iter_recorded);
        steps.map(|step| (step.value_iterated_to(), step.count_since_last_iteration()))
    }

    /// All of them together.
    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// The latency that this share of requests does not exceed.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let filled = self.histogram.as_ref().filter(|_| self.count > 0);
        filled.map_or(0, |histogram| histogram.value_at_quantile(share))
    }
}

/// Latencies by kind of request: read, write, trim (and write-zeroes), flush.
#[derive(Clone, Debug)]
pub struct Latencies(pub [Latency; 4]);

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies::new()
    }
}

impl Latencies {
    /// The names of the kinds.
    pub const KINDS: [&'static str; 4] = ["read", "write", "trim", "flush"];

    /// No requests yet.
    pub fn new() -> Latencies {
        Latencies(std::array::from_fn(|_| Latency::new()))
    }

    pub(crate) fn record(&mut self, kind: usize, ns: u64) {
        self.0[kind].record(ns);
    }
}

/// From one moment to another, ns; 0 when they are the other way round.
pub(crate) fn nanos(now: Instant, since: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(since).as_nanos()).unwrap_or(u64::MAX)
}

/// The virtual clock of a device and the requests in flight under it.
#[derive(Debug)]
pub(crate) struct Clock {
    /// A moment on the wall, and virtual time then.
    begun: (Instant, u64),
    slots: Vec<Slot>,
    free: Vec<u32>,
    pub(crate) latencies: Latencies,
    /// Whether answers wait for the model: then virtual time never runs ahead of the wall's.
    paced: bool,
    tickets: u64,
    /// Tickets of requests that are over, when somebody waits for them.
    over: Vec<u64>,
}

/// A request in flight, by tag.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    kind: usize,
    arrived: u64,
    ticket: u64,
}

impl Clock {
    /// A clock that begins now.
    pub fn new(paced: bool) -> Clock {
        Clock {
            begun: (Instant::now(), 0),
            slots: Vec::new(),
            free: Vec::new(),
            latencies: Latencies::new(),
            paced,
            tickets: 0,
            over: Vec::new(),
        }
    }

    /// The tickets of requests that are over since this was called last.
    pub fn over(&mut self, to: &mut Vec<u64>) {
        to.append(&mut self.over);
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Lets virtual time pass up to the present of the wall.
    pub fn catch_up(&mut self, timing: &mut AnyTiming) {
        let (begun, ns) = self.begun;
        let wall = ns.saturating_add(nanos(Instant::now(), begun));
        if timing.now() >= wall {
            return;
        }
        timing.alarm(wall, CAUGHT_UP);
        while let Some((tag, now)) = timing.next() {
            if tag == CAUGHT_UP {
                break;
            }
            self.ended(tag, now);
        }
    }

    /// Whether answers wait for the model.
    pub fn paced(&self) -> bool {
        self.paced
    }

    /// Ends everything in flight, forgets latencies, and goes on with the wall from here.
    pub fn restart(&mut self, timing: &mut AnyTiming, paced: bool) {
        while let Some((tag, now)) = timing.next() {
            if tag != CAUGHT_UP {
                self.ended(tag, now);
            }
        }
        timing.drain();
        self.begun = (Instant::now(), timing.now());
        self.latencies = Latencies::new();
        self.paced = paced;
    }

    /// A request arrives, while clients have `most` requests in flight, this one included.
    pub fn arrive(&mut self, timing: &mut AnyTiming, most: usize) -> (Done, u64) {
        while !self.paced && self.in_flight() >= most.max(1) {
            let Some((tag, now)) = timing.next() else { break };
            if tag != CAUGHT_UP {
                self.ended(tag, now);
            }
        }
        (timing.arrival(), timing.now())
    }

    /// The request that arrived at `arrived` is over when `done` is. Its ticket will be among [`Clock::over`]
    /// then, if anybody waits.
    pub fn watch(&mut self, timing: &mut AnyTiming, kind: usize, arrived: u64, done: Done) -> u64 {
        let tag = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        self.tickets += 1;
        self.slots[tag as usize] = Slot { kind, arrived, ticket: self.tickets };
        timing.watch(done, tag);
        self.tickets
    }

    fn ended(&mut self, tag: u32, now: u64) {
        let Slot { kind, arrived, ticket } = self.slots[tag as usize];
        self.latencies.record(kind, now - arrived);
        if self.paced {
            self.over.push(ticket);
        }
        self.free.push(tag);
    }
}
