//! Simulations under way for `ftl top` and Prometheus: the metrics of a live device, in virtual time.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use live::{Latencies, Latency, Snapshot};
use sim::{Look, Progress};

use super::progress::Bars;
use super::stop::{note, Stop};

/// Least time between two looks at a run.
const INTERVAL: Duration = Duration::from_millis(100);

/// The latest of each run.
type Shots = Arc<Mutex<Vec<Option<(String, Snapshot)>>>>;

/// Progress bars of runs that can be watched.
pub(crate) struct Watched<'a> {
    bars: &'a Bars,
    names: Vec<String>,
    shots: Shots,
    /// When each run was looked at last.
    last: Vec<Mutex<Option<Instant>>>,
}

impl<'a> Watched<'a> {
    /// Runs with these names; they can be watched at `address`, if there is one.
    pub(crate) fn new(
        bars: &'a Bars,
        names: &[String],
        address: Option<SocketAddr>,
    ) -> Result<Watched<'a>, Stop> {
        let shots: Shots = Arc::new(Mutex::new(vec![None; names.len()]));
        let mut last = Vec::new();
        if let Some(address) = address {
            let theirs = shots.clone();
            let latest = move || {
                let shots = theirs.lock().unwrap_or_else(PoisonError::into_inner);
                shots.iter().flatten().cloned().collect()
            };
            let at = live::publish_from(address, latest)?;
            note(&format!("metrics at http://{at}/metrics; watch them with: ftl top {at}"));
            last.resize_with(names.len(), || Mutex::new(None));
        }
        Ok(Watched { bars, names: names.to_vec(), shots, last })
    }
}

impl Progress for Watched<'_> {
    fn phase(&self, run: usize, phase: usize, phases: usize, name: &str) {
        self.bars.phase(run, phase, phases, name);
    }

    fn fraction(&self, run: usize, done: f64) {
        self.bars.fraction(run, done);
    }

    fn end(&self, run: usize) {
        self.bars.end(run);
    }

    fn stops(&self) -> bool {
        self.bars.stops()
    }

    fn wants(&self, run: usize) -> bool {
        let Some(Ok(mut last)) = self.last.get(run).map(Mutex::lock) else { return false };
        let due = last.is_none_or(|last| last.elapsed() >= INTERVAL);
        if due {
            *last = Some(Instant::now());
        }
        due
    }

    fn look(&self, run: usize, look: Look) {
        let mut latencies = Latencies::new();
        for (to, from) in latencies.0.iter_mut().zip(&look.latency) {
            *to = Latency::of(from.counts(), u64::try_from(from.sum_ns()).unwrap_or(u64::MAX));
        }
        let shot = Snapshot {
            counters: look.counters,
            stats: look.stats,
            virtual_latency: latencies,
            // Nobody waits for a simulation.
            wall_latency: Latencies::new(),
            virtual_ns: look.now_ns,
            dies: look.dies,
            free_superblocks: look.free_superblocks,
            bad_blocks: look.bad_blocks,
            valid_pages: look.valid_pages,
            wear: look.wear,
            memory: look.memory,
            stuck_pages: 0,
            scrubbed: None,
        };
        let mut shots = self.shots.lock().unwrap_or_else(PoisonError::into_inner);
        shots[run] = Some((self.names[run].clone(), shot));
    }
}
