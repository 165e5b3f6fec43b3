//! Latency: recorded in an HDR histogram, summed up exactly.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The latencies that a new histogram has room for, ns: up to 100 s. It grows for longer ones.
const FIRST_NS: (u64, u64) = (1, 100_000_000_000);

/// Significant decimal digits of a recorded latency.
const DIGITS: u8 = 3;
/// A bin of a summary ends at least this factor above the one before it (numerator, denominator).
const BIN_GROWTH: (u64, u64) = (101, 100);

/// Records latencies; about 230 KiB. Nothing is allocated after `new`, unless one takes more than 100 s.
///
/// Percentiles have three significant digits; count, mean, minimum and maximum are exact.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Latency::new()
    }
}

impl Latency {
    /// A recorder without latencies.
    pub fn new() -> Self {
        let mut histogram = Histogram::new_with_bounds(FIRST_NS.0, FIRST_NS.1, DIGITS)
            .expect("1 ns to 100 s with 3 digits are bounds a histogram accepts");
        histogram.auto(true);
        Latency { histogram, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    /// Adds the latency of one request, ns.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.record_many(ns, 1);
    }

    /// Records a latency that was found so often.
    #[inline]
    pub fn record_many(&mut self, ns: u64, count: u64) {
        self.histogram.record_n(ns, count).expect("a histogram that grows takes every latency");
        self.sum_ns += u128::from(ns) * u128::from(count);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// How many latencies were added.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Sum of all recorded latencies, ns; exact.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// The values recorded, to three digits, and how often each was, count.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let steps = self.histogram.iter_recorded();
        steps.map(|step| (step.value_iterated_to(), step.count_since_last_iteration()))
    }

    /// Adds everything `other` recorded.
    pub fn merge(&mut self, other: &Latency) {
        self.histogram.add(&other.histogram).expect("a histogram that grows takes what another holds");
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Takes all latencies out again.
    pub fn clear(&mut self) {
        self.histogram.reset();
        (self.sum_ns, self.min_ns, self.max_ns) = (0, u64::MAX, 0);
    }

    /// What was recorded, or `None` when nothing was.
    pub fn summary(&self) -> Option<LatencySummary> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let at = |quantile: f64| self.histogram.value_at_quantile(quantile).clamp(self.min_ns, self.max_ns);
        Some(LatencySummary {
            count,
            mean_ns: self.sum_ns as f64 / count as f64,
            stddev_ns: self.histogram.stdev(),
            min_ns: self.min_ns,
            max_ns: self.max_ns,
            p50_ns: at(0.50),
            p90_ns: at(0.90),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            p9999_ns: at(0.9999),
            bins: self.bins(),
        })
    }

    /// The recorded values in bins about 1 % wide, so that a cumulative plot needs some hundred points.
    fn bins(&self) -> Vec<Bin> {
        let mut bins: Vec<Bin> = Vec::new();
        let mut limit_ns = 0;
        for step in self.histogram.iter_recorded() {
            let upper_ns = step.value_iterated_to().clamp(self.min_ns, self.max_ns);
            let count = step.count_since_last_iteration();
            match bins.last_mut() {
                Some(last) if upper_ns < limit_ns => {
                    last.0 = upper_ns;
                    last.1 += count;
                }
                _ => {
                    limit_ns = upper_ns.saturating_mul(BIN_GROWTH.0) / BIN_GROWTH.1;
                    bins.push(Bin(upper_ns, count));
                }
            }
        }
        if let Some(last) = bins.last_mut() {
            last.0 = self.max_ns;
        }
        bins
    }
}

/// Latencies up to this bound, and above the bound of the bin before: `(upper_ns, count)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin(
    /// Highest latency of the bin, ns.
    pub u64,
    /// Latencies in it, count.
    pub u64,
);

/// Latency of one kind of request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Requests, count; never 0.
    pub count: u64,
    /// Mean, ns; exact.
    pub mean_ns: f64,
    /// Population standard deviation, ns.
    pub stddev_ns: f64,
    /// Shortest, ns; exact.
    pub min_ns: u64,
    /// Longest, ns; exact.
    pub max_ns: u64,
    /// Median, ns.
    pub p50_ns: u64,
    /// 90th percentile, ns.
    pub p90_ns: u64,
    /// 95th percentile, ns.
    pub p95_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// 99.9th percentile, ns.
    pub p999_ns: u64,
    /// 99.99th percentile, ns.
    pub p9999_ns: u64,
    /// The distribution, ascending, without empty bins; counts sum to `count`.
    pub bins: Vec<Bin>,
}

impl LatencySummary {
    /// The latency below or at which the share `quantile` of the requests stayed, ns, as exact as the bins (1
    /// %).
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        let mut below = 0;
        for &Bin(upper_ns, count) in &self.bins {
            below += count;
            if below as f64 >= quantile * self.count as f64 {
                return upper_ns;
            }
        }
        self.max_ns
    }

    /// Points `(latency ns, share of requests at or below it)` of the cumulative distribution; the last share
    /// is 1.
    pub fn cumulative(&self) -> Vec<(u64, f64)> {
        let mut below = 0;
        self.bins
            .iter()
            .map(|&Bin(upper_ns, count)| {
                below += count;
                (upper_ns, below as f64 / self.count.max(1) as f64)
            })
            .collect()
    }
}
