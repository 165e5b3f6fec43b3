//! The page of `ftl size`: cost by cache size.

use maud::html;
use plotly::common::{DashType, Line, Marker, Mode, Title};
use plotly::layout::{Axis, AxisType};
use plotly::{Plot, Scatter};
use sim::facts::facts;
use sim::results::Run;
use sim::size::Point;

use super::plots::{self, Figure};
use super::{escape, facts_list, page, place, section, table, ReportError};
use crate::table::size::{costs, lru, sentences, Curve};

/// Colour of the ideal map's line.
const GREY: &str = "#A0A0A0";

/// A page about the curves of schemes with these names.
pub fn size(curve: &Curve, ideal: &Run, names: &[String]) -> Result<String, ReportError> {
    let title = "How large a mapping cache?";
    let mut figures = Vec::new();
    let content = html! {
        (place(plots_of(curve, names), &mut figures))
        (table(&costs(curve, ideal.memory.full_table_bytes)))
        (table(&lru(curve)))
    };
    let is_varied = |name: &str| ["Cache", "Memory"].contains(&name);
    let body = html! {
        header {
            p.tool { "FTLKit report" }
            h1 { (title) }
            @for sentence in sentences(curve) { p.lead { (sentence) } }
            (facts_list(facts(std::slice::from_ref(ideal)).into_iter().filter(|(name, _)| !is_varied(name))))
        }
        (section("size", "Cost by cache size", &content))
    };
    page(title, &body, &figures, Some(&(&curve.ideal, &curve.points, &curve.lru)))
}

fn plots_of(curve: &Curve, names: &[String]) -> Vec<Figure> {
    type Value = fn(&Point) -> Option<f64>;
    let seconds: Value = |point| point.mean_latency_ns.map(|ns| ns / 1e9);
    let figures: [(&str, &str, &str, &str, Value); 3] = [
        (
            "size-reads",
            "Flash reads for each host read",
            "1 is the page alone; what is above it was spent on finding the page. The dashed line is the ideal map.",
            "flash reads per host read",
            |point| point.flash_reads_per_host_read,
        ),
        (
            "size-wa",
            "Write amplification",
            "Flash pages programmed for each page the host wrote: collection, and mappings written back.",
            "flash pages written per host page",
            |point| point.write_amplification,
        ),
        (
            "size-latency",
            "Mean latency",
            "Over reads, writes and trims, waiting included (logarithmic).",
            "mean latency",
            seconds,
        ),
    ];
    let mut found: Vec<Figure> = figures
        .into_iter()
        .filter_map(|(id, title, caption, axis, of)| {
            let plot = by_size(curve, names, axis, id == "size-latency", of)?;
            Some(plots::half(id, title, caption, plot))
        })
        .collect();
    if let Some(plot) = hits(curve, names) {
        let caption = "Lookups answered without a flash read. Dotted: what plain LRU over single entries and over whole \
                       translation pages would have, from an empty cache, without collection.";
        found.push(plots::half("size-hits", "Hit ratio", caption, plot));
    }
    found
}

fn sizes() -> Axis {
    Axis::new()
        .title(Title::with_text("mapping cache"))
        .type_(AxisType::Log)
        .tick_format("~s")
        .tick_suffix("B")
}

/// A line for each scheme, and a dashed one for the ideal map.
fn by_size(
    curve: &Curve,
    names: &[String],
    axis: &str,
    log: bool,
    of: fn(&Point) -> Option<f64>,
) -> Option<Plot> {
    let mut vertical = Axis::new().title(Title::with_text(axis)).tick_format("~g");
    if log {
        vertical = vertical.type_(AxisType::Log).tick_format("~s").tick_suffix("s");
    }
    let mut plot = plots::plot(plots::layout().x_axis(sizes()).y_axis(vertical).show_legend(true));
    let mut some = false;
    for (index, name) in names.iter().enumerate() {
        let points = curve.points.iter().filter(|point| point.scheme == *name);
        let (x, y): (Vec<f64>, Vec<f64>) =
            points.filter_map(|point| Some((point.cache_bytes as f64, of(point)?))).unzip();
        some |= !x.is_empty();
        plot.add_trace(line(name, index, x, y));
    }
    let ends = curve.points.iter().map(|point| point.cache_bytes);
    if let (Some(least), Some(most), Some(ideal)) = (ends.clone().min(), ends.max(), of(&curve.ideal)) {
        let trace = Scatter::new(vec![least as f64, most as f64], vec![ideal, ideal])
            .name("ideal map")
            .mode(Mode::Lines)
            .line(Line::new().color(GREY).dash(DashType::Dash));
        plot.add_trace(trace);
    }
    some.then_some(plot)
}

fn line(name: &str, index: usize, x: Vec<f64>, y: Vec<f64>) -> Box<Scatter<f64, f64>> {
    Scatter::new(x, y)
        .name(escape(name))
        .mode(Mode::LinesMarkers)
        .line(plots::line(index))
        .marker(Marker::new().size(7).color(plots::colour(index)))
        .hover_template("%{fullData.name}: %{y:.4s} with %{x:.4s}B<extra></extra>")
}

fn hits(curve: &Curve, names: &[String]) -> Option<Plot> {
    let vertical =
        Axis::new().title(Title::with_text("share of lookups")).tick_format(".0%").range(vec![0.0, 1.02]);
    let mut plot = plots::plot(plots::layout().x_axis(sizes()).y_axis(vertical).show_legend(true));
    for (index, name) in names.iter().enumerate() {
        let points = curve.points.iter().filter(|point| point.scheme == *name);
        let (x, y): (Vec<f64>, Vec<f64>) =
            points.filter_map(|point| Some((point.cache_bytes as f64, point.hit_ratio?))).unzip();
        plot.add_trace(line(name, index, x, y));
    }
    for (name, dash, of) in [
        ("LRU, entries", DashType::Dot, (|point| point.entries) as fn(&sim::size::LruPoint) -> Option<f64>),
        ("LRU, translation pages", DashType::DashDot, |point| point.pages),
    ] {
        let (x, y): (Vec<f64>, Vec<f64>) =
            curve.lru.iter().filter_map(|point| Some((point.cache_bytes as f64, of(point)?))).unzip();
        if !x.is_empty() {
            let line = Line::new().color(GREY).dash(dash);
            plot.add_trace(Scatter::new(x, y).name(name).mode(Mode::Lines).line(line));
        }
    }
    (!curve.points.is_empty()).then_some(plot)
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
        let html = size(&curve, &Run::default(), &["a<b".to_owned()]).expect("a page");
        for id in ["size-reads", "size-wa", "size-latency", "size-hits"] {
            assert!(html.contains(&format!("id=\"{id}\"")), "{id}");
        }
        assert!(html.contains("a&lt;b: 3.91 KiB come within"), "the answer, escaped");
        assert!(html.contains("ideal map"));
    }
}
