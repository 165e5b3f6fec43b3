//! The page of `ftl size`: cost by cache size.

use maud::html;
use sim::facts::facts;
use sim::format::Unit;
use sim::results::Run;
use sim::size::Point;

use super::axis::Axis;
use super::chart::{Figure, Line, Look};
use super::{facts_list, page, place, plots, section, table, Origin, ReportError};
use crate::table::size::{costs, lru, sentences, Curve};

/// Class of the ideal map and of plain LRU.
const OTHER: &str = "none";

/// A page about the curves of schemes with these names.
pub fn size(curve: &Curve, ideal: &Run, names: &[String], origin: &Origin) -> Result<String, ReportError> {
    let title = "How large a mapping cache?";
    let content = html! {
        (place(&plots_of(curve, names)))
        (table(&costs(curve, ideal.memory.full_table_bytes)))
        (table(&lru(curve)))
    };
    let is_varied = |name: &str| ["Cache", "Memory"].contains(&name);
    let about = facts(std::slice::from_ref(ideal)).into_iter().filter(|(name, _)| !is_varied(name));
    let digest = format!("of the ideal map: {}", ideal.digest);
    let body = html! {
        header {
            p.tool { "FTLKit report" }
            h1 { (title) }
            @for sentence in sentences(curve) { p.lead { (sentence) } }
            (facts_list(origin.facts(&[ideal.workload.seed], digest).into_iter().chain(about)))
        }
        (section("size", "Cost by cache size", &content))
    };
    page(title, &body, Some(&(&curve.ideal, &curve.points, &curve.lru)))
}

/// A quantity over the cache size: its axis, whether that is logarithmic, and where it is read off.
pub(super) struct Cost {
    /// Words on the axis.
    pub axis: &'static str,
    /// How it is written.
    pub unit: Unit,
    /// Whether its axis is logarithmic.
    pub log: bool,
    /// Read off a point; times in microseconds.
    pub of: fn(&Point) -> Option<f64>,
}

/// What each host read costs.
pub(super) const READS: Cost = Cost {
    axis: "flash reads per host read",
    unit: Unit::Factor,
    log: false,
    of: |point| point.flash_reads_per_host_read,
};
/// What each host page written costs.
const WRITES: Cost = Cost {
    axis: "flash pages written per host page",
    unit: Unit::Factor,
    log: false,
    of: |point| point.write_amplification,
};
/// What a request takes.
pub(super) const LATENCY: Cost = Cost {
    axis: "mean latency",
    unit: Unit::Micros,
    log: true,
    of: |point| point.mean_latency_ns.map(|ns| ns / 1e3),
};

fn plots_of(curve: &Curve, names: &[String]) -> Vec<Figure> {
    let figures = [
        (
            "size-reads",
            "Flash reads for each host read",
            "1 is the page alone; what is above it was spent on finding the page. The grey line is the ideal map.",
            READS,
        ),
        (
            "size-wa",
            "Write amplification",
            "Flash pages programmed for each page the host wrote: collection, and mappings written back.",
            WRITES,
        ),
        ("size-latency", "Mean latency", "Over reads, writes and trims, waiting included (logarithmic).", LATENCY),
    ];
    let figure = |(id, title, caption, cost): (&str, &str, &str, Cost)| {
        let (x, y, lines) = by_size(curve, names, &cost)?;
        Some(Figure::lines(title, caption, &x, &y, &lines).named(id))
    };
    figures.into_iter().filter_map(figure).chain(hits(curve, names)).collect()
}

fn sizes(curve: &Curve) -> Axis {
    let bytes = curve.points.iter().map(|point| point.cache_bytes as f64);
    Axis::log("mapping cache", Unit::Bytes, bytes)
}

/// A line for each scheme, and one for the ideal map. `None` where no scheme has a number.
pub(super) fn by_size(curve: &Curve, names: &[String], cost: &Cost) -> Option<(Axis, Axis, Vec<Line>)> {
    let mut lines: Vec<Line> =
        names.iter().enumerate().map(|(index, name)| line(curve, name, index, cost.of)).collect();
    if lines.iter().all(|line| line.points.is_empty()) {
        return None;
    }
    let bytes = || curve.points.iter().map(|point| point.cache_bytes as f64);
    if let Some(ideal) = (cost.of)(&curve.ideal) {
        let points = [bytes().fold(f64::MAX, f64::min), bytes().fold(f64::MIN, f64::max)];
        lines.push(other("ideal map", 1, points.map(|at| (at, Some(ideal))).to_vec()));
    }
    let values: Vec<f64> =
        lines.iter().flat_map(|line| &line.points).filter_map(|(_, value)| *value).collect();
    let values = values.into_iter();
    let y = if cost.log {
        Axis::log(cost.axis, cost.unit, values)
    } else {
        Axis::around(cost.axis, cost.unit, values)
    };
    Some((sizes(curve), y, lines))
}

fn line(curve: &Curve, name: &str, index: usize, of: fn(&Point) -> Option<f64>) -> Line {
    let points = curve.points.iter().filter(|point| point.scheme == name);
    let points = points.filter_map(|point| Some((point.cache_bytes as f64, Some(of(point)?)))).collect();
    Line { name: name.to_owned(), class: plots::line(index), points, look: Look::Marked }
}

/// A line that is no scheme's.
fn other(name: &str, dash: usize, points: Vec<(f64, Option<f64>)>) -> Line {
    Line { name: name.to_owned(), class: format!("{OTHER} d{dash}"), points, look: Look::Straight }
}

fn hits(curve: &Curve, names: &[String]) -> Option<Figure> {
    let mut lines: Vec<Line> = names
        .iter()
        .enumerate()
        .map(|(index, name)| line(curve, name, index, |point| point.hit_ratio))
        .collect();
    for (name, dash, of) in [
        ("LRU, entries", 2, (|point| point.entries) as fn(&sim::size::LruPoint) -> Option<f64>),
        ("LRU, translation pages", 3, |point| point.pages),
    ] {
        let points: Vec<_> =
            curve.lru.iter().filter_map(|point| Some((point.cache_bytes as f64, Some(of(point)?)))).collect();
        if !points.is_empty() {
            lines.push(other(name, dash, points));
        }
    }
    let caption =
        "Lookups answered without a flash read. Dotted: what plain LRU over single entries and over whole \
                   translation pages would have, from an empty cache, without collection.";
    let y = Axis::shares("share of lookups");
    let figure = || Figure::lines("Hit ratio", caption, &sizes(curve), &y, &lines).named("size-hits");
    (!curve.points.is_empty()).then(figure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::size::LruPoint;

    #[test]
    fn the_page_has_four_plots_and_the_answer() {
        let point = |scheme: &str, cache_bytes, reads| Point {
            scheme: scheme.to_owned(),
            cache_bytes,
            flash_reads_per_host_read: Some(reads),
            write_amplification: Some(2.0),
            mean_latency_ns: Some(1e5),
            hit_ratio: Some(0.5),
            ..Point::default()
        };
        let curve = Curve {
            ideal: point("page", 0, 1.0),
            points: vec![point("a<b", 1000, 1.5), point("a<b", 4000, 1.0)],
            lru: vec![LruPoint { cache_bytes: 1000, entries: Some(0.1), pages: None }],
            within: 0.05,
        };
        let html = size(&curve, &Run::default(), &["a<b".to_owned()], &Origin::default()).expect("a page");
        for id in ["size-reads", "size-wa", "size-latency", "size-hits"] {
            assert!(html.contains(&format!("id=\"{id}\"")), "{id}");
        }
        assert!(html.contains("a&lt;b: 3.91 KiB come within"), "the answer, escaped");
        assert!(html.contains("ideal map"));
    }
}
