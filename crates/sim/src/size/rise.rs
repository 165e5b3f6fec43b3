//! Where a larger cache costs more, and which of the scheme's counters says why.

use super::Point;
use crate::results::ratio;

/// A hit ratio that is lower by less than this is the same.
const SAME_HITS: f64 = 0.001;
/// A share of translation pages in the cache that counts as all: some are never asked for.
const ALL_PAGES: f64 = 0.95;

/// A larger cache that costs more.
#[derive(Clone, Debug, PartialEq)]
pub struct Rise {
    /// The scheme, as in [`Point::scheme`].
    pub scheme: String,
    /// The cost that rises, such as `flash reads`.
    pub what: &'static str,
    /// From this cache, bytes.
    pub from: u64,
    /// To this one, bytes.
    pub to: u64,
    /// The rise as a share of the cost with the smaller cache.
    pub by: f64,
    /// What changed with it.
    pub why: Reason,
}

/// What changed between two caches when the larger one cost more; numbers are of the smaller and the larger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// Fewer lookups hit, as fewer entries were loaded in advance.
    Prefetching {
        /// Hit ratios.
        hits: (f64, f64),
        /// Entries loaded in advance for each miss.
        per_miss: (f64, f64),
        /// Whether all translation pages have entries in the larger cache: what selective prefetching watches
        /// for, pages that come and go, then never happens.
        all_pages_cached: bool,
    },
    /// Fewer lookups hit: what the scheme replaces is no stack, so a larger cache need not hold what a
    /// smaller one holds.
    Hits((f64, f64)),
    /// A miss had to write back more translation pages first.
    WriteBacks((f64, f64)),
    /// Collection moved more pages for each page written: other blocks were full at other moments.
    Collection((f64, f64)),
    /// Hits, write-backs and moved pages are no worse: requests met collection, or each other, at other
    /// moments.
    Moments,
}

impl Reason {
    /// Of `larger`, where it costs more `what` than `smaller`.
    fn of(what: &str, smaller: &Point, larger: &Point) -> Reason {
        let both = |of: fn(&Point) -> Option<f64>| of(smaller).zip(of(larger));
        let more = |of: fn(&Point) -> Option<f64>| both(of).filter(|(from, to)| to > from);
        let hits = both(|p| p.hit_ratio).filter(|(from, to)| from - to > SAME_HITS);
        let moved = more(|p| p.moved_per_write);
        if let Some(moved) = moved.filter(|_| what == WRITTEN) {
            return Reason::Collection(moved);
        }
        if let Some(hits) = hits {
            let fewer = both(|p| p.prefetched_per_miss).filter(|(from, to)| to < from);
            let all_pages_cached = larger.pages_cached.is_some_and(|share| share >= ALL_PAGES);
            return fewer.map_or(Reason::Hits(hits), |per_miss| Reason::Prefetching {
                hits,
                per_miss,
                all_pages_cached,
            });
        }
        if let Some(written) = more(|p| p.write_backs_per_miss) {
            return Reason::WriteBacks(written);
        }
        moved.map_or(Reason::Moments, Reason::Collection)
    }
}

const WRITTEN: &str = "write amplification";

/// What one scheme pays more for a larger cache than for the next smaller one, by more than the share `more`:
/// the greatest such rise of each scheme.
pub fn rises(points: &[Point], more: f64) -> Vec<Rise> {
    let costs = |point: &Point| {
        [
            ("flash reads", point.flash_reads_per_host_read),
            (WRITTEN, point.write_amplification),
            ("mean latency", point.mean_latency_ns),
        ]
    };
    let mut found: Vec<Rise> = Vec::new();
    for larger in points {
        let smaller = points
            .iter()
            .filter(|point| point.scheme == larger.scheme && point.cache_bytes < larger.cache_bytes);
        let Some(smaller) = smaller.max_by_key(|point| point.cache_bytes) else { continue };
        for ((what, to), (_, from)) in costs(larger).into_iter().zip(costs(smaller)) {
            let by = to.zip(from).and_then(|(to, from)| ratio(to - from, from));
            let Some(by) = by.filter(|&by| by > more) else { continue };
            let rise = Rise {
                scheme: larger.scheme.clone(),
                what,
                from: smaller.cache_bytes,
                to: larger.cache_bytes,
                by,
                why: Reason::of(what, smaller, larger),
            };
            match found.iter_mut().find(|known| known.scheme == rise.scheme) {
                Some(known) if known.by < by => *known = rise,
                Some(_) => {}
                None => found.push(rise),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(cache_bytes: u64, reads: f64, written: f64, ns: f64) -> Point {
        Point {
            scheme: "d".to_owned(),
            cache_bytes,
            flash_reads_per_host_read: Some(reads),
            write_amplification: Some(written),
            mean_latency_ns: Some(ns),
            hit_ratio: Some(0.9),
            ..Point::default()
        }
    }

    fn only(smaller: Point, larger: Point) -> Option<Rise> {
        let mut found = rises(&[smaller, larger], 0.05);
        assert!(found.len() < 2, "{found:?}");
        found.pop()
    }

    #[test]
    fn the_greatest_rise_of_a_scheme_is_told() {
        let points = [point(10, 1.0, 2.0, 1.0), point(20, 1.2, 2.2, 1.0), point(40, 1.0, 2.0, 1.0)];
        let [rise] = &rises(&points, 0.05)[..] else { panic!("{:?}", rises(&points, 0.05)) };
        assert_eq!((&*rise.scheme, rise.what, rise.from, rise.to), ("d", "flash reads", 10, 20));
        assert!((rise.by - 0.2).abs() < 1e-9);
        assert_eq!(only(point(10, 1.0, 2.0, 1.0), point(20, 1.04, 2.0, 1.0)), None);
    }

    #[test]
    fn the_reason_is_the_counter_that_got_worse() {
        let (small, large) = (point(10, 1.0, 2.0, 100.0), point(20, 1.2, 2.0, 100.0));
        let why = |smaller: &Point, larger: Point| only(smaller.clone(), larger).map(|rise| rise.why);
        let before = Point { prefetched_per_miss: Some(3.0), write_backs_per_miss: Some(0.2), ..small };
        let after = Point { hit_ratio: Some(0.8), write_backs_per_miss: Some(0.3), ..large };
        let fewer = Point { prefetched_per_miss: Some(1.0), pages_cached: Some(1.0), ..after.clone() };
        assert_eq!(
            why(&before, fewer),
            Some(Reason::Prefetching { hits: (0.9, 0.8), per_miss: (3.0, 1.0), all_pages_cached: true })
        );
        let more = Point { prefetched_per_miss: Some(4.0), ..after.clone() };
        assert_eq!(why(&before, more), Some(Reason::Hits((0.9, 0.8))));
        let as_often = Point { hit_ratio: Some(0.9), ..after };
        assert_eq!(why(&before, as_often), Some(Reason::WriteBacks((0.2, 0.3))));
        let small = Point { moved_per_write: Some(0.5), ..point(10, 1.0, 2.0, 100.0) };
        let busy = Point { moved_per_write: Some(0.7), hit_ratio: Some(0.8), ..point(20, 1.0, 2.2, 100.0) };
        assert_eq!(why(&small, busy), Some(Reason::Collection((0.5, 0.7))));
        assert_eq!(why(&small, point(20, 1.0, 2.0, 120.0)), Some(Reason::Moments));
    }
}
