//! Plots of a phase. Colours and grid lines that depend on light or dark are set by `page.js`.

use plotly::common::{
    Anchor, DashType, HoverInfo, Line, LineShape, Marker, Mode, Orientation, TextPosition, Title,
};
use plotly::configuration::{DisplayModeBar, ModeBarButtonName};
use plotly::layout::{Axis, AxisType, BarMode, HoverMode, Legend, Margin, RangeMode};
use plotly::{Bar, Configuration, Layout, Plot, Scatter};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use sim::facts::Group;
use sim::format::{count, exact_time, factor, percent};
use sim::results::{Kind, LatencySummary, Phase, Run, CAUSES};

use super::{escape, series};
use crate::table::IDEAL;

/// Paul Tol's "bright" colours: apart for colour-blind readers, visible on white and on black. One for each
/// scheme.
const SCHEMES: [&str; 7] = ["#4477AA", "#EE6677", "#228833", "#AA3377", "#CCBB44", "#66CCEE", "#999999"];
/// A second sign beside the colour.
const DASHES: [DashType; 4] = [DashType::Solid, DashType::Dash, DashType::Dot, DashType::DashDot];
/// Paul Tol's "muted" colours, for the parts of a whole.
const PARTS: [&str; 9] =
    ["#88CCEE", "#DDCC77", "#CC6677", "#882255", "#44AA99", "#AA4499", "#999933", "#117733", "#6A5ACD"];
const GREY: &str = "#A0A0A0";

/// Height of a plot with one panel, CSS pixels.
const HEIGHT: usize = 330;

/// A plot with its place on the page.
pub(super) struct Figure {
    /// Id of its element.
    pub id: String,
    /// Heading.
    pub title: String,
    /// What to look at, one sentence.
    pub caption: String,
    /// Whether it takes the whole width.
    pub wide: bool,
    /// Height, CSS pixels.
    pub height: usize,
    /// Data and layout.
    pub plot: Plot,
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Figure", 2)?;
        object.serialize_field("id", &self.id)?;
        object.serialize_field("plot", &self.plot)?;
        object.end()
    }
}

/// Plots over all phases.
pub(super) fn overview(groups: &[Group], labels: &[String]) -> Vec<Figure> {
    let mut figures = Vec::new();
    // Phases differ by orders of magnitude; beside the ideal map all of them fit one axis.
    let ideal =
        |group: &Group| group.members.iter().find(|(_, run, _)| run.scheme.name == IDEAL)?.2.iops_total();
    let all_have = groups.iter().all(|group| ideal(group).is_some_and(|rate| rate > 0.0));
    let rates = |group: &Group, phase: &Phase| -> Option<(f64, String)> {
        let rate = phase.iops_total()?;
        match ideal(group).filter(|_| all_have) {
            Some(ideal) => {
                Some((rate / ideal, format!("{} requests/s, {} of page", count(rate), percent(rate / ideal))))
            }
            None => Some((rate, format!("{} requests/s", count(rate)))),
        }
    };
    let (axis, format, caption) = if all_have {
        (
            "requests/s, page = 100 %",
            ".0%",
            "Throughput of each phase as a share of what the ideal page map reaches: the gap below 100 % is the cost of \
             address translation.",
        )
    } else {
        ("requests/s", "~s", "Requests per second of simulated time in each phase: higher is better.")
    };
    figures.extend(by_phase(groups, labels, bars(axis, BarMode::Group, format), rates).map(|plot| {
        half(
            "overview-iops",
            if all_have { "Throughput beside the ideal" } else { "Throughput" },
            caption,
            plot,
        )
    }));
    let written = |_: &Group, phase: &Phase| {
        let total = phase.write_amplification()?.total;
        Some((total, format!("{} flash pages a host page", factor(total))))
    };
    let layout = bars("flash pages written per host page", BarMode::Group, "~g");
    let caption =
        "Flash pages programmed for each page the host wrote: 1 would be ideal; the rest is wear and time \
                   spent on collection and translation pages.";
    let plot = by_phase(groups, labels, layout, written);
    figures.extend(plot.map(|plot| half("overview-wa", "Write amplification", caption, plot)));
    figures
}

/// All plots of one phase; those without data are left out.
pub(super) fn of_phase(index: usize, group: &Group, labels: &[String]) -> Vec<Figure> {
    let id = |name: &str| format!("p{index}-{name}");
    let mut figures = Vec::new();
    if let Some(plot) = throughput(group, labels) {
        let caption = "Requests per second of simulated time: higher is better.";
        figures.push(half(id("iops"), "Throughput", caption, plot));
    }
    for kind in Kind::ALL {
        let name = kind.name();
        if let Some(plot) = cumulative(group, labels, kind) {
            let caption = match kind {
                Kind::Read => {
                    "Share of requests that finished within a time (logarithmic): curves further left are faster, \
                     and each step is one more flash read to wait for."
                }
                _ => {
                    "Share of requests that finished within a time (logarithmic): curves further left are faster, \
                     and a flat stretch before 100 % is requests that waited for collection or translation."
                }
            };
            figures.push(half(id(&format!("cdf-{name}")), &format!("Latency of a {name}"), caption, plot));
        }
        if let Some(plot) = tail(group, labels, kind) {
            let caption = "The slowest requests: at 99.9 %, one request in a thousand took longer than this.";
            figures.push(half(id(&format!("tail-{name}")), &format!("Slowest {name}s"), caption, plot));
        }
    }
    let stacks: [(&str, &str, &str, Option<Plot>); 5] = [
        (
            "reads",
            "Flash reads per host read",
            "Reads served by one flash read are ideal; a second or third read fetched a mapping first and waited \
             for it.",
            reads(group, labels),
        ),
        (
            "wa",
            "Write amplification by cause",
            "Flash pages programmed for each host page, by what made it necessary: only the host's own share is \
             unavoidable.",
            write_amplification(group, labels),
        ),
        (
            "hits",
            "Mapping hits",
            "Share of lookups answered from controller memory, by what answered; the rest had to read flash.",
            hits(group, labels),
        ),
        (
            "dies",
            "What the dies did",
            "Mean share of time of a flash die: idle dies under a full queue mean that requests waited for each \
             other.",
            dies(group, labels),
        ),
        ("energy", "Energy", "Energy of the flash in this phase, by what used it: lower is better.", energy(group, labels)),
    ];
    for (name, title, caption, plot) in stacks {
        figures.extend(plot.map(|plot| half(id(name), title, caption, plot)));
    }
    if let Some((plot, height)) = series::plot(group, labels) {
        let caption =
            "The phase over simulated time: level curves mean a steady state; drag across to zoom all \
                       panels at once, double-click to return.";
        figures.push(Figure { wide: true, height, ..half(id("series"), "Over time", caption, plot) });
    }
    figures
}

pub(super) fn half(id: impl Into<String>, title: &str, caption: &str, plot: Plot) -> Figure {
    Figure {
        id: id.into(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        wide: false,
        height: HEIGHT,
        plot,
    }
}

/// The scheme's colour: the same in every plot of a page.
pub(super) fn colour(run: usize) -> &'static str {
    SCHEMES[run % SCHEMES.len()]
}

/// The scheme's line.
pub(super) fn line(run: usize) -> Line {
    Line::new().color(colour(run)).width(2.0)
}

/// The same with a dash as a second sign, for curves that may lie on one another.
fn dashed(run: usize) -> Line {
    line(run).dash(DASHES[run % DASHES.len()].clone())
}

/// A layout with the legend above the plot.
pub(super) fn layout() -> Layout {
    let legend = Legend::new().orientation(Orientation::Horizontal).x(0.0).y(1.02).y_anchor(Anchor::Bottom);
    Layout::new()
        .legend(legend)
        .margin(Margin::new().left(64).right(16).top(16).bottom(48))
        .hover_mode(HoverMode::Closest)
}

/// A plot with the page's settings.
pub(super) fn plot(layout: Layout) -> Plot {
    let mut plot = Plot::new();
    plot.set_layout(layout);
    let configuration = Configuration::new()
        .responsive(true)
        .display_logo(false)
        .show_tips(false)
        .display_mode_bar(DisplayModeBar::Hover)
        .mode_bar_buttons_to_remove(vec![ModeBarButtonName::Select2d, ModeBarButtonName::Lasso2d]);
    plot.set_configuration(configuration);
    plot
}

fn names(group: &Group, labels: &[String]) -> Vec<String> {
    group.members.iter().map(|&(run, _, _)| escape(&labels[run])).collect()
}

pub(super) fn bars(title: &str, mode: BarMode, tick_format: &str) -> Layout {
    layout().bar_mode(mode).x_axis(Axis::new().type_(AxisType::Category)).y_axis(
        Axis::new().title(Title::with_text(title)).range_mode(RangeMode::ToZero).tick_format(tick_format),
    )
}

/// A bar for each run in each phase; `of` gives its height and its words.
fn by_phase(
    groups: &[Group],
    labels: &[String],
    layout: Layout,
    of: impl Fn(&Group, &Phase) -> Option<(f64, String)>,
) -> Option<Plot> {
    let mut plot = plot(layout.show_legend(true));
    for (run, label) in labels.iter().enumerate() {
        let (mut x, mut y, mut text) = (Vec::new(), Vec::new(), Vec::new());
        for group in groups {
            let mine = group.members.iter().filter(|(index, _, _)| *index == run);
            for (value, words) in mine.filter_map(|(_, _, phase)| of(group, phase)) {
                x.push(escape(&group.name));
                y.push(value);
                text.push(words);
            }
        }
        if !y.is_empty() {
            let bar = Bar::new(x, y)
                .name(escape(label))
                .marker(Marker::new().color(colour(run)))
                .hover_text_array(text)
                .hover_template("%{x}<br>%{fullData.name}: %{hovertext}<extra></extra>");
            plot.add_trace(bar);
        }
    }
    (!plot.data().is_empty()).then_some(plot)
}

fn throughput(group: &Group, labels: &[String]) -> Option<Plot> {
    let kinds: Vec<Kind> = Kind::ALL
        .into_iter()
        .filter(|&kind| group.members.iter().any(|(_, _, phase)| rate(phase, kind).is_some()))
        .collect();
    let mut plot = plot(bars("requests/s", BarMode::Group, "~s").show_legend(kinds.len() > 1));
    for (index, &kind) in kinds.iter().enumerate() {
        let rates: Vec<Option<f64>> = group.members.iter().map(|(_, _, phase)| rate(phase, kind)).collect();
        let text: Vec<String> = rates.iter().map(|rate| rate.map(count).unwrap_or_default()).collect();
        let marker = if kinds.len() == 1 {
            Marker::new().color_array(group.members.iter().map(|&(run, _, _)| colour(run)).collect())
        } else {
            Marker::new().color(PARTS[index])
        };
        let bar = Bar::new(names(group, labels), rates)
            .name(kind.name())
            .marker(marker)
            .text_array(text)
            .text_position(TextPosition::Auto)
            .hover_template("%{x}: %{text} %{fullData.name}s/s<extra></extra>");
        plot.add_trace(bar);
    }
    (!kinds.is_empty()).then_some(plot)
}

fn rate(phase: &Phase, kind: Kind) -> Option<f64> {
    phase.iops(kind).filter(|rate| *rate > 0.0)
}

fn latencies<'a>(group: &'a Group, kind: Kind) -> Vec<(usize, &'a LatencySummary)> {
    group.members.iter().filter_map(|&(run, _, phase)| Some((run, phase.latency[kind].as_ref()?))).collect()
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A logarithmic axis of latencies in seconds, marked at round times a reader can tell apart.
fn latency_axis(found: &[(usize, &LatencySummary)]) -> Axis {
    let low = found.iter().map(|(_, of)| of.min_ns.max(1)).min().unwrap_or(1) as f64;
    let high = found.iter().map(|(_, of)| of.max_ns.max(1)).max().unwrap_or(1) as f64;
    let steps: &[f64] = match (high / low).log10() {
        decades if decades < 1.3 => &[1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0],
        decades if decades < 2.5 => &[1.0, 2.0, 5.0],
        decades if decades < 4.0 => &[1.0, 3.0],
        _ => &[1.0],
    };
    let (mut values, mut names) = (Vec::new(), Vec::new());
    for power in 0..12 {
        for step in steps {
            let ns = step * 10_f64.powi(power);
            // A little beyond both ends, for a reader who drags the axis.
            if ns >= low / 10.0 && ns <= high * 10.0 {
                values.push(ns / 1e9);
                names.push(exact_time(ns as u64));
            }
        }
    }
    Axis::new().title(Title::with_text("latency")).type_(AxisType::Log).tick_values(values).tick_text(names)
}

fn cumulative(group: &Group, labels: &[String], kind: Kind) -> Option<Plot> {
    let found = latencies(group, kind);
    let layout = layout().x_axis(latency_axis(&found)).y_axis(
        Axis::new().title(Title::with_text("share of requests")).tick_format(".0%").range(vec![0.0, 1.02]),
    );
    let mut plot = plot(layout);
    for &(run, summary) in &found {
        let points = std::iter::once((summary.min_ns, 0.0)).chain(summary.cumulative());
        // A logarithmic axis has no zero.
        let (x, y): (Vec<f64>, Vec<f64>) = points.map(|(ns, share)| (seconds(ns.max(1)), share)).unzip();
        let trace = Scatter::new(x, y)
            .name(escape(&labels[run]))
            .mode(Mode::Lines)
            .line(dashed(run).shape(LineShape::Hv))
            .hover_template("%{fullData.name}: %{y:.2%} within %{x:.3s}s<extra></extra>");
        plot.add_trace(trace);
    }
    (!found.is_empty()).then_some(plot)
}

fn tail(group: &Group, labels: &[String], kind: Kind) -> Option<Plot> {
    const SHARES: [&str; 6] = ["50 %", "90 %", "95 %", "99 %", "99.9 %", "99.99 %"];
    let found = latencies(group, kind);
    let layout = layout()
        .x_axis(Axis::new().title(Title::with_text("percentile")).type_(AxisType::Category))
        .y_axis(latency_axis(&found));
    let mut plot = plot(layout);
    for &(run, of) in &found {
        let values = [of.p50_ns, of.p90_ns, of.p95_ns, of.p99_ns, of.p999_ns, of.p9999_ns];
        let y: Vec<f64> = values.into_iter().map(|ns| seconds(ns.max(1))).collect();
        let trace = Scatter::new(SHARES.to_vec(), y)
            .name(escape(&labels[run]))
            .mode(Mode::LinesMarkers)
            .line(dashed(run))
            .marker(Marker::new().size(7).color(colour(run)))
            .hover_template("%{fullData.name}: %{x} within %{y:.3s}s<extra></extra>");
        plot.add_trace(trace);
    }
    (!found.is_empty()).then_some(plot)
}

/// A part of a stacked bar: name, colour, and a value for each member of the group.
type Part<'a> = (String, &'a str, Vec<Option<f64>>);

/// Stacked bars, a bar for each member; parts that are zero everywhere are left out. `None` without any
/// number.
fn stack(
    group: &Group,
    labels: &[String],
    parts: Vec<Part>,
    layout: Layout,
    shown: &dyn Fn(f64) -> String,
) -> Option<Plot> {
    if parts.iter().all(|(_, _, values)| values.iter().all(Option::is_none)) {
        return None;
    }
    let mut plot = plot(layout.show_legend(true));
    for (name, colour, values) in parts {
        if values.iter().all(|value| value.is_none_or(|value| value == 0.0)) {
            continue;
        }
        let text: Vec<String> = values.iter().map(|value| value.map(shown).unwrap_or_default()).collect();
        let bar = Bar::new(names(group, labels), values)
            .name(escape(&name))
            .marker(Marker::new().color(colour.to_owned()))
            .hover_text_array(text)
            .hover_info(HoverInfo::Text)
            .hover_template("%{x}<br>%{fullData.name}: %{hovertext}<extra></extra>");
        plot.add_trace(bar);
    }
    (!plot.data().is_empty()).then_some(plot)
}

fn values(group: &Group, of: impl Fn(&Run, &Phase) -> Option<f64>) -> Vec<Option<f64>> {
    group.members.iter().map(|(_, run, phase)| of(run, phase)).collect()
}

fn shares(title: &str) -> Layout {
    bars(title, BarMode::Stack, ".0%")
        .y_axis(Axis::new().title(Title::with_text(title)).tick_format(".0%").range(vec![0.0, 1.0]))
}

fn reads(group: &Group, labels: &[String]) -> Option<Plot> {
    let classes = [
        ("unmapped", GREY),
        ("single", PARTS[0]),
        ("double", PARTS[1]),
        ("triple", PARTS[2]),
        ("4 or more", PARTS[3]),
    ];
    let part = |(index, &(name, colour)): (usize, &(&str, &'static str))| {
        (name.to_owned(), colour, values(group, |_, phase| Some(phase.read_shares()?.as_array()[index])))
    };
    let parts = classes.iter().enumerate().map(part).collect();
    stack(group, labels, parts, shares("share of host page reads"), &percent)
}

fn write_amplification(group: &Group, labels: &[String]) -> Option<Plot> {
    let mut causes: Vec<&str> = CAUSES.to_vec();
    for (_, _, phase) in &group.members {
        causes.extend(phase.flash.keys().map(String::as_str).filter(|name| !CAUSES.contains(name)));
    }
    causes.dedup();
    let part = |(index, &cause): (usize, &&str)| {
        let value = |_: &Run, phase: &Phase| Some(phase.write_amplification()?.of(cause));
        (cause.to_owned(), PARTS[index % PARTS.len()], values(group, value))
    };
    let parts = causes.iter().enumerate().map(part).collect();
    stack(group, labels, parts, bars("flash pages written per host page", BarMode::Stack, "~g"), &factor)
}

fn hits(group: &Group, labels: &[String]) -> Option<Plot> {
    let mut levels: Vec<&str> = Vec::new();
    for (_, _, phase) in &group.members {
        for level in phase.mapping.hits_by_level.keys() {
            if !levels.contains(&level.as_str()) {
                levels.push(level);
            }
        }
    }
    let part = |(index, level): (usize, &&str)| {
        let value = |_: &Run, phase: &Phase| {
            phase.mapping.hit_ratio()?;
            Some(phase.mapping.hit_shares().get(*level).copied().unwrap_or(0.0))
        };
        ((*level).to_owned(), PARTS[(index * 4) % PARTS.len()], values(group, value))
    };
    let mut parts: Vec<Part> = levels.iter().enumerate().map(part).collect();
    let miss = |_: &Run, phase: &Phase| Some(1.0 - phase.mapping.hit_ratio()?);
    parts.push(("miss".to_owned(), GREY, values(group, miss)));
    stack(group, labels, parts, shares("share of lookups"), &percent)
}

fn dies(group: &Group, labels: &[String]) -> Option<Plot> {
    let part = |name: &str, colour: &'static str, of: fn(&sim::results::DieUse) -> f64| {
        (name.to_owned(), colour, values(group, |_, phase| phase.die_use.as_ref().map(of)))
    };
    let parts = vec![
        part("read", PARTS[0], |dies| dies.read),
        part("program", PARTS[1], |dies| dies.program),
        part("erase", PARTS[2], |dies| dies.erase),
        part("transfer", PARTS[4], |dies| dies.transfer),
        part("idle", GREY, |dies| dies.idle),
    ];
    stack(group, labels, parts, shares("share of time"), &percent)
}

fn energy(group: &Group, labels: &[String]) -> Option<Plot> {
    let part = |name: &str, colour: &'static str, of: fn(&sim::results::EnergyUse) -> f64| {
        (name.to_owned(), colour, values(group, |_, phase| Some(of(&phase.energy))))
    };
    let parts = vec![
        part("read", PARTS[0], |energy| energy.read_j),
        part("program", PARTS[1], |energy| energy.program_j),
        part("erase", PARTS[2], |energy| energy.erase_j),
        part("transfer", PARTS[4], |energy| energy.transfer_j),
        part("idle", GREY, |energy| energy.idle_j),
    ];
    let axis = Axis::new()
        .title(Title::with_text("energy"))
        .range_mode(RangeMode::ToZero)
        .tick_format("~s")
        .tick_suffix("J");
    let layout = bars("energy", BarMode::Stack, "~s").y_axis(axis);
    stack(group, labels, parts, layout, &sim::format::energy)
}
