//! What is counted while a phase runs.

use crate::occupancy::Occupancy;
use crate::results::{Kind, Latency, Sample};
use crate::spec::Series;

/// Points of an automatic series before its interval doubles.
const AUTO_POINTS: usize = 512;
/// First interval of an automatic series, ns.
const AUTO_INTERVAL_NS: u64 = 100_000;
/// Points of a series of a given interval before that doubles.
const MOST_POINTS: usize = 1 << 16;

/// A hash over everything that happens, in the order in which it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn new() -> Digest {
        Digest(0x9e37_79b9_7f4a_7c15)
    }

    /// Takes a word in. Each step is a bijection of the state, so no word is forgotten.
    #[inline]
    pub(crate) fn add(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        self.0 = mixed ^ mixed >> 32;
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }
}

/// The counters of the device at a point of the series.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) requests: u64,
    pub(crate) latency_sum_ns: u64,
    pub(crate) pages_read: u64,
    pub(crate) pages_written: u64,
    pub(crate) lookups: u64,
    pub(crate) hits: u64,
    pub(crate) flash_reads: u64,
    pub(crate) flash_programs: u64,
    pub(crate) collections: u64,
    pub(crate) free_superblocks: u32,
}

/// The time series under way.
#[derive(Clone, Debug)]
pub(crate) struct SeriesRecorder {
    samples: Vec<Sample>,
    most: usize,
    interval_ns: u64,
    begun_ns: u64,
    /// End of the interval under way; `u64::MAX` when there is no series.
    pub(crate) due_ns: u64,
    last: Reading,
}

impl SeriesRecorder {
    pub(crate) fn new(series: Series, begun_ns: u64, ticks: bool) -> SeriesRecorder {
        let (most, interval_ns) = match series {
            Series::Auto => (AUTO_POINTS, AUTO_INTERVAL_NS),
            Series::Every(ns) => (MOST_POINTS, ns.max(1)),
            Series::Off => (0, 0),
        };
        let on = ticks && most > 0;
        SeriesRecorder {
            samples: Vec::with_capacity(if on { most + 1 } else { 0 }),
            most,
            interval_ns,
            begun_ns,
            due_ns: if on { begun_ns + interval_ns } else { u64::MAX },
            last: Reading::default(),
        }
    }

    /// The clock passed `due_ns`: closes the intervals that ended. What happened since the last reading is
    /// booked on the first of them; what happens at the very end of an interval belongs to it.
    pub(crate) fn close(&mut self, now_ns: u64, reading: Reading) {
        let mut reading = reading;
        while self.due_ns < now_ns {
            self.push(self.due_ns, self.interval_ns, reading);
            reading = self.last;
            self.due_ns = self.due_ns.saturating_add(self.interval_ns);
            if self.samples.len() >= self.most {
                self.coarsen();
            }
        }
    }

    fn push(&mut self, end_ns: u64, interval_ns: u64, now: Reading) {
        let last = std::mem::replace(&mut self.last, now);
        self.samples.push(Sample {
            t_ns: end_ns - self.begun_ns,
            interval_ns,
            requests: now.requests - last.requests,
            latency_sum_ns: now.latency_sum_ns - last.latency_sum_ns,
            pages_read: now.pages_read - last.pages_read,
            pages_written: now.pages_written - last.pages_written,
            lookups: now.lookups - last.lookups,
            hits: now.hits - last.hits,
            flash_reads: now.flash_reads - last.flash_reads,
            flash_programs: now.flash_programs - last.flash_programs,
            collections: now.collections - last.collections,
            free_superblocks: now.free_superblocks,
        });
    }

    /// Makes one point of two.
    fn coarsen(&mut self) {
        if self.samples.len() % 2 == 1 {
            return;
        }
        for pair in 0..self.samples.len() / 2 {
            let (a, b) = (self.samples[2 * pair], self.samples[2 * pair + 1]);
            self.samples[pair] = a.then(b);
        }
        self.samples.truncate(self.samples.len() / 2);
        self.due_ns = self.due_ns.saturating_add(self.interval_ns);
        self.interval_ns = self.interval_ns.saturating_mul(2);
    }

    /// Ends the series at `now_ns` and hands its points over. The last request was answered at `ended_ns`:
    /// what came later, such as a job that woke up to find nothing left to do, belongs to the point before.
    pub(crate) fn finish(&mut self, now_ns: u64, ended_ns: u64, reading: Reading) -> Vec<Sample> {
        if self.due_ns != u64::MAX {
            let begun = self.due_ns - self.interval_ns;
            if now_ns > begun {
                self.push(now_ns, now_ns - begun, reading);
            }
        }
        let elapsed_ns = ended_ns - self.begun_ns;
        while let [.., before, last] = self.samples[..] {
            if before.t_ns < elapsed_ns {
                break;
            }
            self.samples.pop();
            let at = self.samples.len() - 1;
            self.samples[at] = before.then(last);
        }
        if let Some(last) = self.samples.last_mut() {
            let late_ns = last.t_ns.saturating_sub(elapsed_ns).min(last.interval_ns);
            (last.t_ns, last.interval_ns) = (last.t_ns - late_ns, last.interval_ns - late_ns);
        }
        std::mem::take(&mut self.samples)
    }
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) issued: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) bytes: u64,
}

/// What is counted while a phase runs.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    /// By [`Kind::ALL`].
    pub(crate) tally: [Tally; 4],
    pub(crate) latency: Vec<Latency>,
    pub(crate) latency_sum_ns: u64,
    /// Requests in flight, from submission (or arrival) to completion.
    pub(crate) in_flight: u64,
    /// Requests in flight, integrated over time, request-ns.
    pub(crate) in_flight_ns: u128,
    /// Requests that did not begin and end on a page.
    pub(crate) widened: u64,
    pub(crate) begun_ns: u64,
    /// Time up to which `in_flight_ns` goes.
    pub(crate) now_ns: u64,
    /// Time of the last completion.
    pub(crate) ended_ns: u64,
    pub(crate) completed: u64,
    pub(crate) digest: Digest,
    pub(crate) series: SeriesRecorder,
    pub(crate) occupancy: Occupancy,
}

impl Meter {
    pub(crate) fn new(series: Series, begun_ns: u64, ticks: bool) -> Meter {
        Meter {
            tally: [Tally::default(); 4],
            latency: Kind::ALL.iter().map(|_| Latency::new()).collect(),
            latency_sum_ns: 0,
            in_flight: 0,
            in_flight_ns: 0,
            widened: 0,
            begun_ns,
            now_ns: begun_ns,
            ended_ns: begun_ns,
            completed: 0,
            digest: Digest::new(),
            series: SeriesRecorder::new(series, begun_ns, ticks),
            occupancy: Occupancy::new(series != Series::Off),
        }
    }

    /// The clock moved.
    #[inline]
    pub(crate) fn advance(&mut self, now_ns: u64) {
        let elapsed_ns = now_ns - self.now_ns;
        if elapsed_ns > 0 {
            self.in_flight_ns += u128::from(self.in_flight) * u128::from(elapsed_ns);
            self.now_ns = now_ns;
        }
    }

    /// A request was answered.
    #[inline]
    pub(crate) fn complete(&mut self, kind: usize, latency_ns: u64, bytes: u64, failed: bool, ticks: bool) {
        let tally = &mut self.tally[kind];
        tally.completed += 1;
        tally.bytes += bytes;
        tally.failed += u64::from(failed);
        self.completed += 1;
        self.in_flight -= 1;
        if ticks {
            self.latency[kind].record(latency_ns);
            self.latency_sum_ns += latency_ns;
            self.ended_ns = self.now_ns;
        }
        self.digest.add(latency_ns << 2 | kind as u64);
    }

    /// Requests answered, of all kinds.
    pub(crate) fn issued(&self) -> u64 {
        self.tally.iter().map(|tally| tally.issued).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(requests: u64) -> Reading {
        Reading { requests, free_superblocks: requests as u32, ..Reading::default() }
    }

    #[test]
    fn a_series_loses_nothing_however_long_it_gets() {
        for series in [Series::Auto, Series::Every(1_000_000), Series::Every(1)] {
            let mut recorder = SeriesRecorder::new(series, 500, true);
            let (mut now_ns, mut requests) = (500, 0);
            for step in 0..100_000_u64 {
                now_ns += if step == 50_000 { 10_000_000_000 } else { 1 + step % 7_777 };
                requests += 1;
                if now_ns > recorder.due_ns {
                    recorder.close(now_ns, reading(requests));
                }
            }
            let samples = recorder.finish(now_ns, now_ns, reading(requests));
            assert!(samples.len() <= MOST_POINTS + 1, "{series:?}: {}", samples.len());
            assert_eq!(samples.iter().map(|s| s.requests).sum::<u64>(), requests, "{series:?}");
            assert_eq!(samples.iter().map(|s| s.interval_ns).sum::<u64>(), now_ns - 500);
            let mut end_ns = 0;
            for sample in &samples {
                end_ns += sample.interval_ns;
                assert_eq!(sample.t_ns, end_ns);
            }
        }
    }

    #[test]
    fn an_automatic_series_keeps_its_resolution() {
        let mut recorder = SeriesRecorder::new(Series::Auto, 0, true);
        for step in 1..=1_000_000 {
            if step * 10_000 > recorder.due_ns {
                recorder.close(step * 10_000, reading(step));
            }
        }
        let samples = recorder.finish(10_000_000_000, 10_000_000_000, reading(1_000_000));
        assert!((200..=513).contains(&samples.len()), "{}", samples.len());
    }

    #[test]
    fn a_series_ends_with_the_last_answer() {
        let mut recorder = SeriesRecorder::new(Series::Every(100), 50, true);
        recorder.close(260, reading(2));
        let samples = recorder.finish(1_040, 190, reading(3));
        let found: Vec<[u64; 3]> = samples.iter().map(|s| [s.t_ns, s.interval_ns, s.requests]).collect();
        assert_eq!(found, [[100, 100, 2], [140, 40, 1]]);
    }

    #[test]
    fn a_series_may_last_as_long_as_a_clock_can_count() {
        let mut recorder = SeriesRecorder::new(Series::Auto, 0, true);
        let end_ns = u64::MAX - u64::MAX / 16;
        recorder.close(end_ns, reading(1));
        let samples = recorder.finish(end_ns, end_ns, reading(2));
        assert_eq!(samples.iter().map(|s| s.interval_ns).sum::<u64>(), end_ns);
    }

    #[test]
    fn a_digest_depends_on_every_word_and_on_the_order() {
        let of = |words: &[u64]| {
            let mut digest = Digest::new();
            words.iter().for_each(|&word| digest.add(word));
            digest.value()
        };
        assert_eq!(of(&[1, 2, 3]), of(&[1, 2, 3]));
        assert_ne!(of(&[1, 2, 3]), of(&[2, 1, 3]));
        assert_ne!(of(&[1, 2, 3]), of(&[1, 2]));
        assert_ne!(of(&[0]), of(&[0, 0]));
    }
}
