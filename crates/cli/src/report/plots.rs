//! Plots of a phase, and of all phases side by side.

use sim::facts::Group;
use sim::format::{count, energy, factor, percent, Unit, NOTHING};
use sim::results::{Kind, LatencySummary, Phase, Run, CAUSES};

use super::axis::Axis;
use super::bars::{self, Bar, Part};
use super::chart::{Figure, Line, Look};
use super::series;
use crate::table::IDEAL;

/// Colours of schemes, parts and dashes that `chart.css` has.
const SCHEMES: usize = 7;
const PARTS: usize = 9;
const DASHES: usize = 4;
/// Class of what is no part: idle time, misses.
const NONE: &str = "none";

/// Points that the lines of one kind have together on a page, and what one line has at most and at least.
/// More would not be seen.
const POINTS: usize = 5_000;
const POINTS_OF_A_LINE: (usize, usize) = (24, 240);

/// Points of each of so many lines.
pub(super) fn points_of(lines: usize) -> usize {
    (POINTS / lines.max(1)).clamp(POINTS_OF_A_LINE.0, POINTS_OF_A_LINE.1)
}

/// The colour of a scheme: the same in every plot of a page.
pub(super) fn colour(run: usize) -> String {
    format!("s{}", run % SCHEMES)
}

/// Colour, and a dash as a second sign where colours repeat.
pub(super) fn line(run: usize) -> String {
    format!("s{} d{}", run % SCHEMES, run / SCHEMES % DASHES)
}

/// Colour and dash for curves that may lie on one another.
pub(super) fn dashed(run: usize) -> String {
    format!("s{} d{}", run % SCHEMES, run % DASHES)
}

/// Plots over all phases.
pub(super) fn overview(groups: &[Group], labels: &[String]) -> Vec<Figure> {
    // Phases differ by orders of magnitude; beside the ideal map all of them fit one axis.
    let ideal =
        |group: &Group| group.members.iter().find(|(_, run, _)| run.scheme.name == IDEAL)?.2.iops_total();
    let all_have = groups.iter().all(|group| ideal(group).is_some_and(|rate| rate > 0.0));
    let rates = |group: &Group, phase: &Phase| -> Option<(f64, String)> {
        let rate = phase.iops_total()?;
        match ideal(group).filter(|_| all_have) {
            Some(ideal) => Some((rate / ideal, percent(rate / ideal))),
            None => Some((rate, count(rate))),
        }
    };
    let (title, axis, unit, caption) = if all_have {
        (
            "Throughput beside the ideal",
            "requests/s, page = 100 %",
            Unit::Share,
            "Throughput of each phase as a share of what the ideal page map reaches: the gap below 100 % is the cost of \
             address translation.",
        )
    } else {
        (
            "Throughput",
            "requests/s",
            Unit::Count,
            "Requests per second of simulated time in each phase: higher is better.",
        )
    };
    let written = |_: &Group, phase: &Phase| {
        let total = phase.write_amplification()?.total;
        Some((total, factor(total)))
    };
    let amplified =
        "Flash pages programmed for each page the host wrote: 1 would be ideal; the rest is wear and time \
                     spent on collection and translation pages.";
    let pages = "flash pages written per host page";
    [
        by_phase(groups, labels, title, caption, (axis, unit), rates).map(|plot| plot.named("overview-iops")),
        by_phase(groups, labels, "Write amplification", amplified, (pages, Unit::Factor), written)
            .map(|plot| plot.named("overview-wa")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// All plots of one phase; those without data are left out. `lines` of a kind share the page.
pub(super) fn of_phase(index: usize, group: &Group, labels: &[String], lines: usize) -> Vec<Figure> {
    let mut figures: Vec<(String, Option<Figure>)> = vec![("iops".to_owned(), throughput(group, labels))];
    for kind in Kind::ALL {
        let name = kind.name();
        figures.push((format!("cdf-{name}"), cumulative(group, labels, kind, points_of(lines))));
        figures.push((format!("tail-{name}"), tail(group, labels, kind)));
    }
    figures.push(("reads".to_owned(), reads(group, labels)));
    figures.push(("wa".to_owned(), write_amplification(group, labels)));
    figures.push(("hits".to_owned(), hits(group, labels)));
    figures.push(("dies".to_owned(), dies(group, labels)));
    figures.push(("energy".to_owned(), energy_use(group, labels)));
    figures.push(("series".to_owned(), series::plot(group, labels, points_of(2 * lines))));
    let named = |(name, figure): (String, Option<Figure>)| Some(figure?.named(format!("p{index}-{name}")));
    figures.into_iter().filter_map(named).collect()
}

/// A bar for each run in each phase; `of` gives its height and its words.
fn by_phase(
    groups: &[Group],
    labels: &[String],
    title: &str,
    caption: &str,
    (axis, unit): (&str, Unit),
    of: impl Fn(&Group, &Phase) -> Option<(f64, String)>,
) -> Option<Figure> {
    let bar = |group: &Group, &(run, _, phase): &(usize, &Run, &Phase)| {
        single(labels[run].clone(), colour(run), of(group, phase))
    };
    let bars = |group: &Group| bars::Group {
        name: group.name.clone(),
        bars: group.members.iter().map(|member| bar(group, member)).collect(),
    };
    plot(title, caption, (axis, unit), groups.iter().map(bars).collect())
}

/// A bar of one part, of a number and its words. A row without a number, such as the throughput of a phase
/// that takes no simulated time, has a dash.
pub(super) fn single(name: String, class: String, value: Option<(f64, String)>) -> Bar {
    let end = value.as_ref().map_or(NOTHING, |(_, words)| words).to_owned();
    let part = value.map(|(value, words)| Part { name: String::new(), class, value, words });
    Bar { name, parts: part.into_iter().collect(), end }
}

/// Groups without any number are left out; without any, there is no plot.
pub(super) fn plot(
    title: &str,
    caption: &str,
    (axis, unit): (&str, Unit),
    mut groups: Vec<bars::Group>,
) -> Option<Figure> {
    groups.retain(has_number);
    let bars = groups.iter().flat_map(|group| &group.bars);
    let sums: Vec<f64> = bars.map(|bar| bar.parts.iter().map(|part| part.value).sum()).collect();
    let axis = Axis::from_zero(axis, unit, sums.iter().copied());
    (!sums.is_empty()).then(|| bars::figure(title, caption, &axis, &groups))
}

fn has_number(group: &bars::Group) -> bool {
    group.bars.iter().any(|bar| !bar.parts.is_empty())
}

fn throughput(group: &Group, labels: &[String]) -> Option<Figure> {
    let of_kind = |kind: Kind| {
        let rate = |phase: &Phase| phase.iops(kind).filter(|rate| *rate > 0.0);
        let bars = group.members.iter().map(|&(run, _, phase)| {
            let value = rate(phase).map(|rate| (rate, count(rate)));
            single(labels[run].clone(), colour(run), value)
        });
        bars::Group { name: format!("{}s", kind.name()), bars: bars.collect() }
    };
    let mut groups: Vec<bars::Group> = Kind::ALL.into_iter().map(of_kind).collect();
    groups.retain(has_number);
    if let [only] = &mut groups[..] {
        only.name.clear();
    }
    let caption = "Requests per second of simulated time: higher is better.";
    plot("Throughput", caption, ("requests/s", Unit::Count), groups)
}

fn latencies<'a>(group: &'a Group, kind: Kind) -> Vec<(usize, &'a LatencySummary)> {
    group.members.iter().filter_map(|&(run, _, phase)| Some((run, phase.latency[kind].as_ref()?))).collect()
}

/// Microseconds; a logarithmic axis has no zero.
fn micros(ns: u64) -> f64 {
    ns.max(1) as f64 / 1e3
}

fn cumulative(group: &Group, labels: &[String], kind: Kind, most: usize) -> Option<Figure> {
    let found = latencies(group, kind);
    let ends = found.iter().flat_map(|(_, of)| [micros(of.min_ns), micros(of.max_ns)]);
    let x = Axis::log("latency", Unit::Micros, ends);
    let y = Axis::shares("share of requests");
    let line = |&(run, summary): &(usize, &LatencySummary)| {
        let points = std::iter::once((summary.min_ns, 0.0)).chain(summary.cumulative());
        let points = thinned(points.map(|(ns, share)| (micros(ns), share)).collect(), &x, most);
        let points = points.into_iter().map(|(at, share)| (at, Some(share))).collect();
        Line { name: labels[run].clone(), class: dashed(run), points, look: Look::Steps }
    };
    let lines: Vec<Line> = found.iter().map(line).collect();
    let caption = match kind {
        Kind::Read => {
            "Share of requests that finished within a time (logarithmic): curves further left are faster, and each step is \
             one more flash read to wait for."
        }
        _ => {
            "Share of requests that finished within a time (logarithmic): curves further left are faster, and a flat stretch \
             before 100 % is requests that waited for collection or translation."
        }
    };
    let title = format!("Latency of a {}", kind.name());
    (!found.is_empty()).then(|| Figure::lines(&title, caption, &x, &y, &lines))
}

/// The points of a curve that an eye can tell apart, `most` at most; the first and the last stay.
fn thinned(points: Vec<(f64, f64)>, x: &Axis, most: usize) -> Vec<(f64, f64)> {
    let mut apart = 1.0 / 400.0;
    loop {
        let mut kept: Vec<(f64, f64)> = Vec::new();
        for (index, &(at, value)) in points.iter().enumerate() {
            let far = |before: &(f64, f64)| {
                let along = x.at(at).unwrap_or(0.0) - x.at(before.0).unwrap_or(0.0);
                along >= apart || value - before.1 >= apart
            };
            if index + 1 == points.len() || kept.last().is_none_or(far) {
                kept.push((at, value));
            }
        }
        if kept.len() <= most.max(2) {
            return kept;
        }
        apart *= 1.3;
    }
}

fn tail(group: &Group, labels: &[String], kind: Kind) -> Option<Figure> {
    const SHARES: [&str; 6] = ["50 %", "90 %", "95 %", "99 %", "99.9 %", "99.99 %"];
    let found = latencies(group, kind);
    let values = |of: &LatencySummary| {
        [of.p50_ns, of.p90_ns, of.p95_ns, of.p99_ns, of.p999_ns, of.p9999_ns].map(micros)
    };
    let x = Axis::set("percentile", SHARES.map(str::to_owned).to_vec());
    let y = Axis::log("latency", Unit::Micros, found.iter().flat_map(|(_, of)| values(of)));
    let line = |&(run, of): &(usize, &LatencySummary)| {
        let points = (0..).zip(values(of)).map(|(at, us)| (f64::from(at), Some(us))).collect();
        Line { name: labels[run].clone(), class: dashed(run), points, look: Look::Marked }
    };
    let lines: Vec<Line> = found.iter().map(line).collect();
    let caption = "The slowest requests: at 99.9 %, one request in a thousand took longer than this.";
    let title = format!("Slowest {}s", kind.name());
    (!found.is_empty()).then(|| Figure::lines(&title, caption, &x, &y, &lines))
}

/// A part of every member's bar: name, class, and a value for each member of the group.
type Parts = (String, String, Vec<Option<f64>>);

/// Stacked bars, a bar for each member; parts that are zero everywhere are left out. `None` without any
/// number.
fn stack(
    (title, caption): (&str, &str),
    group: &Group,
    labels: &[String],
    mut parts: Vec<Parts>,
    axis: impl Fn(&[f64]) -> Axis,
    shown: fn(f64) -> String,
) -> Option<Figure> {
    parts.retain(|(_, _, values)| values.iter().any(|value| value.is_some_and(|value| value > 0.0)));
    let bar = |(member, &(run, _, _)): (usize, &(usize, &Run, &Phase))| {
        let part = |(name, class, values): &Parts| {
            let value = values[member]?;
            Some(Part { name: name.clone(), class: class.clone(), value, words: shown(value) })
        };
        let parts: Vec<Part> = parts.iter().filter_map(part).collect();
        Bar { name: labels[run].clone(), end: String::new(), parts }
    };
    let mut bars: Vec<Bar> = group.members.iter().enumerate().map(bar).collect();
    let sums: Vec<f64> = bars.iter().map(|bar| bar.parts.iter().map(|part| part.value).sum()).collect();
    let axis = axis(&sums);
    for (bar, sum) in bars.iter_mut().zip(&sums) {
        bar.end = match axis.unit {
            _ if bar.parts.is_empty() => NOTHING.to_owned(),
            // All of it is no news.
            Unit::Share => String::new(),
            _ => shown(*sum),
        };
    }
    let groups = [bars::Group { name: String::new(), bars }];
    (!parts.is_empty()).then(|| bars::figure(title, caption, &axis, &groups))
}

fn values(group: &Group, of: impl Fn(&Run, &Phase) -> Option<f64>) -> Vec<Option<f64>> {
    group.members.iter().map(|(_, run, phase)| of(run, phase)).collect()
}

fn class(part: usize) -> String {
    format!("p{}", part % PARTS)
}

fn reads(group: &Group, labels: &[String]) -> Option<Figure> {
    let names = ["none", "single", "double", "triple", "4 or more"];
    let part = |(index, name): (usize, &str)| {
        let class = if index == 0 { NONE.to_owned() } else { class(index - 1) };
        (name.to_owned(), class, values(group, |_, phase| Some(phase.read_shares()?.as_array()[index])))
    };
    let parts = names.into_iter().enumerate().map(part).collect();
    let words = (
        "Flash reads per host read",
        "Reads served by one flash read are ideal; a second or third read fetched a mapping first and waited for it.",
    );
    stack(words, group, labels, parts, |_| Axis::shares("share of host page reads"), percent)
}

fn write_amplification(group: &Group, labels: &[String]) -> Option<Figure> {
    let mut causes: Vec<&str> = CAUSES.to_vec();
    for (_, _, phase) in &group.members {
        causes.extend(phase.flash.keys().map(String::as_str).filter(|name| !CAUSES.contains(name)));
    }
    causes.dedup();
    let part = |(index, &cause): (usize, &&str)| {
        let value = |_: &Run, phase: &Phase| Some(phase.write_amplification()?.of(cause));
        (cause.to_owned(), class(index), values(group, value))
    };
    let parts = causes.iter().enumerate().map(part).collect();
    let words = (
        "Write amplification by cause",
        "Flash pages programmed for each host page, by what made it necessary: only the host's own share is unavoidable.",
    );
    let axis = |sums: &[f64]| {
        Axis::from_zero("flash pages written per host page", Unit::Factor, sums.iter().copied())
    };
    stack(words, group, labels, parts, axis, factor)
}

fn hits(group: &Group, labels: &[String]) -> Option<Figure> {
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
        ((*level).to_owned(), class(index * 4), values(group, value))
    };
    let mut parts: Vec<Parts> = levels.iter().enumerate().map(part).collect();
    let miss = |_: &Run, phase: &Phase| Some(1.0 - phase.mapping.hit_ratio()?);
    parts.push(("miss".to_owned(), NONE.to_owned(), values(group, miss)));
    let words = (
        "Mapping hits",
        "Share of lookups answered from controller memory, by what answered; the rest had to read flash.",
    );
    stack(words, group, labels, parts, |_| Axis::shares("share of lookups"), percent)
}

/// What dies do, in the order of the parts, and the classes.
const WORK: [(&str, usize); 4] = [("read", 0), ("program", 1), ("erase", 2), ("transfer", 4)];

fn work(values: [Vec<Option<f64>>; 4], idle: Vec<Option<f64>>) -> Vec<Parts> {
    let busy =
        WORK.into_iter().zip(values).map(|((name, part), values)| (name.to_owned(), class(part), values));
    busy.chain([("idle".to_owned(), NONE.to_owned(), idle)]).collect()
}

fn dies(group: &Group, labels: &[String]) -> Option<Figure> {
    let of =
        |part: fn(&sim::results::DieUse) -> f64| values(group, |_, phase| phase.die_use.as_ref().map(part));
    let busy =
        [of(|dies| dies.read), of(|dies| dies.program), of(|dies| dies.erase), of(|dies| dies.transfer)];
    let words = (
        "What the dies did",
        "Mean share of time of a flash die: idle dies under a full queue mean that requests waited for each other.",
    );
    let parts = work(busy, of(|dies| dies.idle));
    stack(words, group, labels, parts, |_| Axis::shares("share of time"), percent)
}

fn energy_use(group: &Group, labels: &[String]) -> Option<Figure> {
    let of = |part: fn(&sim::results::EnergyUse) -> f64| values(group, |_, phase| Some(part(&phase.energy)));
    let busy = [
        of(|use_| use_.read_j),
        of(|use_| use_.program_j),
        of(|use_| use_.erase_j),
        of(|use_| use_.transfer_j),
    ];
    let words = ("Energy", "Energy of the flash in this phase, by what used it: lower is better.");
    let axis = |sums: &[f64]| Axis::from_zero("energy", Unit::Joule, sums.iter().copied());
    stack(words, group, labels, work(busy, of(|use_| use_.idle_j)), axis, energy)
}
