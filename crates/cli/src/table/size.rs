//! What schemes cost by cache size.

use sim::facts::facts;
use sim::format::{bytes, factor, maybe, percent, time};
use sim::results::Run;
pub use sim::size::Curve;
use sim::size::{rises, smallest, Reason, Rise};

use super::grid::{printable, Grid};

/// The curves as tables, under what makes the numbers mean something.
pub fn curve_tables(curve: &Curve, ideal: &Run) -> String {
    // A single cache size and its use would be those of the ideal map, which has none.
    let told = |(name, _): &(String, String)| !["Cache", "Memory"].contains(&name.as_str());
    let about = facts(std::slice::from_ref(ideal)).into_iter().filter(told);
    let mut out: String = about.map(|(name, fact)| format!("{name:<9} {}\n", printable(&fact))).collect();
    out += &format!("\n{}", costs(curve, ideal.memory.full_table_bytes).text());
    let lru = lru(curve);
    if !lru.is_empty() {
        out += &lru.text();
    }
    out += "\n";
    for sentence in sentences(curve) {
        out += &format!("{sentence}\n");
    }
    out
}

/// A row for each scheme and size.
pub fn costs(curve: &Curve, full_table_bytes: u64) -> Grid {
    let columns =
        ["scheme", "cache", "share", "reads/read", "WA", "hits", "mean", "p99 read", "p99 write", "in use"];
    let mut grid = Grid::new("Cost by cache size", columns);
    let mut before = "";
    let ideal = std::iter::once(&curve.ideal);
    for (index, point) in ideal.chain(&curve.points).enumerate() {
        let share = point.cache_bytes as f64 / full_table_bytes.max(1) as f64;
        grid.row([
            if point.scheme == before { String::new() } else { point.scheme.clone() },
            if index == 0 { "-".to_owned() } else { bytes(point.cache_bytes) },
            if index == 0 { "-".to_owned() } else { percent(share) },
            maybe(point.flash_reads_per_host_read, |value| format!("{value:.3}")),
            maybe(point.write_amplification, factor),
            maybe(point.hit_ratio, percent),
            maybe(point.mean_latency_ns, time),
            maybe(point.read_p99_ns.map(|ns| ns as f64), time),
            maybe(point.write_p99_ns.map(|ns| ns as f64), time),
            bytes(point.memory_bytes),
        ]);
        before = &point.scheme;
    }
    grid.compact().spare(["in use", "share"])
}

/// A row for each size.
pub fn lru(curve: &Curve) -> Grid {
    let columns = ["cache", "single entries (8 bytes)", "translation pages"];
    let mut grid =
        Grid::new("Hit ratio of plain LRU, empty at first, in one pass over the requests", columns);
    for point in &curve.lru {
        grid.row([bytes(point.cache_bytes), maybe(point.entries, percent), maybe(point.pages, percent)]);
    }
    grid
}

/// The answer, a sentence for each scheme; and where more cache costs more, by more than what counts as near.
pub fn sentences(curve: &Curve) -> Vec<String> {
    let within = percent(curve.within);
    let sentence = |(scheme, found): (String, Option<u64>)| {
        let scheme = printable(&scheme);
        match found {
            Some(found) => format!("{scheme}: {} come within {within} of the ideal map", bytes(found)),
            None => format!("{scheme}: none of these sizes comes within {within} of the ideal map"),
        }
    };
    let answers = smallest(&curve.points, &curve.ideal, curve.within).into_iter().map(sentence);
    let rise = |Rise { scheme, what, from, to, by, why }| {
        let (scheme, from, to, why) = (printable(&scheme), bytes(from), bytes(to), reason(why));
        let much =
            if by > 1.0 { format!("{} times as high", factor(1.0 + by)) } else { percent(by) + " higher" };
        format!("{scheme}: more cache is worse: {what} {much} with {to} than with {from}: {why}")
    };
    answers.chain(rises(&curve.points, curve.within).into_iter().map(rise)).collect()
}

/// Why more cache was worse, from what was counted with the smaller and the larger one.
fn reason(why: Reason) -> String {
    match why {
        Reason::Prefetching { hits, per_miss, all_pages_cached } => {
            let cause = if all_pages_cached {
                "; every translation page has entries in the cache, so none comes or goes, and selective prefetching stays off"
            } else {
                ""
            };
            let ((before, after), (many, few)) = (hits, per_miss);
            format!(
                "hits fall from {} to {}, as a miss loads {few:.2} entries in advance, not {many:.2}{cause}",
                percent(before),
                percent(after)
            )
        }
        Reason::Hits((before, after)) => format!(
            "hits fall from {} to {}; what it replaces is no stack, so the larger cache need not hold what the smaller one holds",
            percent(before),
            percent(after)
        ),
        Reason::WriteBacks((before, after)) => {
            format!("a miss writes back {after:.2} translation pages first, not {before:.2}")
        }
        Reason::Collection((before, after)) => {
            format!("collection moves {after:.2} pages for each page written, not {before:.2}")
        }
        Reason::Moments => "neither hits nor write-backs nor moved pages are worse; requests met collection, or each other, \
            at other moments"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::size::{LruPoint, Point};

    pub(super) fn curve() -> Curve {
        let point = |scheme: &str, cache_bytes, reads, ns| Point {
            scheme: scheme.to_owned(),
            cache_bytes,
            flash_reads_per_host_read: Some(reads),
            write_amplification: Some(2.0),
            mean_latency_ns: Some(ns),
            ..Point::default()
        };
        Curve {
            ideal: point("page", 0, 1.0, 100_000.0),
            points: vec![
                point("dftl", 65_536, 1.5, 150_000.0),
                point("dftl", 1 << 20, 1.2, 120_000.0),
                point("sftl", 65_536, 1.01, 101_000.0),
                point("zftl", 65_536, 1.5, 150_000.0),
                point("zftl", 1 << 20, 1.8, 151_000.0),
                point("cdftl", 65_536, 1.5, 150_000.0),
                point("cdftl", 1 << 20, 1.5, 450_000.0),
            ],
            lru: vec![LruPoint { cache_bytes: 65_536, entries: Some(0.5), pages: Some(0.75) }],
            within: 0.05,
        }
    }

    #[test]
    fn the_table_names_each_scheme_once_and_answers() {
        let text = curve_tables(&curve(), &Run::default());
        assert_eq!(text.matches("│ dftl").count(), 1, "{text}");
        assert!(text.contains("64 KiB") && text.contains("1.500"), "{text}");
        assert!(text.contains("sftl: 64 KiB come within 5.0 % of the ideal map"), "{text}");
        assert!(text.contains("dftl: none of these sizes comes within"), "{text}");
        assert!(
            text.contains("cdftl: more cache is worse: mean latency 3.00 times as high with 1 MiB"),
            "{text}"
        );
        assert!(
            text.contains("zftl: more cache is worse: flash reads 20.0 % higher with 1 MiB than with 64 KiB: neither hits"),
            "{text}"
        );
    }
}
