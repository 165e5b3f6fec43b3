//! Bars: a row for each, named at its left, so that many names fit a narrow screen.

use maud::{html, Markup};

use super::axis::Axis;
use super::chart::{cut, length, number, row, svg, width, Figure, WIDTH};

/// Letters of a heading, which is bold, and of a name above a bar that fit the width.
const HEADING: usize = 52;
const ABOVE: usize = 56;
/// Letters of a name that stand beside a bar; longer ones stand above it.
const BESIDE: usize = 22;
/// Height of a bar and of the gap below it, units: of a few, and of many.
const FEW: (f64, f64) = (16.0, 8.0);
const MANY: (f64, f64) = (12.0, 4.0);
/// Bars that are many.
const FROM: usize = 13;
/// Height of a line of text, units.
const TEXT: f64 = 17.0;

/// A bar, of one part or of several one after the other.
pub(super) struct Bar {
    /// What the bar stands for.
    pub name: String,
    /// Its parts; empty when there is no number.
    pub parts: Vec<Part>,
    /// Words at its end.
    pub end: String,
}

/// A part of a bar.
pub(super) struct Part {
    /// What it is a part by; empty in a bar of one.
    pub name: String,
    /// Its class in `chart.css`.
    pub class: String,
    /// Its length along the axis.
    pub value: f64,
    /// The length in words.
    pub words: String,
}

/// Bars under a heading, which may be empty.
pub(super) struct Group {
    /// What the bars have in common.
    pub name: String,
    /// The bars, from the top.
    pub bars: Vec<Bar>,
}

/// Bars along one axis.
pub(super) fn figure(title: &str, caption: &str, axis: &Axis, groups: &[Group]) -> Figure {
    let parts = || groups.iter().flat_map(|group| &group.bars).flat_map(|bar| &bar.parts);
    let mut legend: Vec<(String, String)> = Vec::new();
    for part in parts().filter(|part| !part.name.is_empty()) {
        if !legend.iter().any(|(name, _)| *name == part.name) {
            legend.push((part.name.clone(), format!("part {}", part.class)));
        }
    }
    let mut data = row(&["name", "group", "part", &axis.column()]);
    for (group, bar) in groups.iter().flat_map(|group| group.bars.iter().map(move |bar| (group, bar))) {
        for part in &bar.parts {
            data += &row(&[&bar.name, &group.name, &part.name, &number(part.value)]);
        }
    }
    Figure::new(title, caption, legend, vec![drawing(title, axis, groups)], data)
}

fn drawing(label: &str, axis: &Axis, groups: &[Group]) -> Markup {
    let bars = || groups.iter().flat_map(|group| &group.bars);
    let longest = bars().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
    let above = longest > BESIDE;
    let names = bars().map(|bar| width(&bar.name)).fold(0.0, f64::max);
    let left = if above { 0.0 } else { names + 8.0 };
    let ends = bars().map(|bar| width(&bar.end)).fold(0.0, f64::max);
    let right = WIDTH - (ends + 6.0).max(16.0);
    let x = |value: f64| left + axis.at(value).unwrap_or(0.0) * (right - left);
    let (height, gap) = if bars().count() < FROM { FEW } else { MANY };
    let mut y = 2.0;
    let rows = html! {
        @for group in groups {
            @if !group.name.is_empty() {
                @let () = y += TEXT;
                text.name x="0" y=(length(y - 4.0)) { (cut(&group.name, HEADING)) title { (group.name) } }
            }
            @let top = y;
            @for bar in &group.bars {
                @if above {
                    @let () = y += TEXT;
                    text x="0" y=(length(y - 4.0)) { (cut(&bar.name, ABOVE)) title { (bar.name) } }
                } @else {
                    text x=(length(left - 8.0)) y=(length(y + height / 2.0 + 4.5)) text-anchor="end" { (bar.name) }
                }
                (of_parts(bar, (y, height), &x))
                @let () = y += height + gap;
            }
            path.axis d={"M" (length(left)) " " (length(top - 2.0)) "V" (length(y - gap + 2.0))} {}
            @let () = y += FEW.1 / 2.0;
        }
    };
    let bottom = y;
    let mut end = f64::MIN;
    let content = html! {
        @for (value, words) in &axis.marks {
            @let (at, half) = (x(*value), width(words) / 2.0);
            @let middle = at.clamp(half, WIDTH - half);
            path.grid d={"M" (length(at)) " 0V" (length(bottom))} {}
            @if middle - half > end + 4.0 {
                @let () = end = middle + half;
                text x=(length(middle)) y=(length(bottom + 15.0)) text-anchor="middle" { (words) }
            }
        }
        (rows)
        text.title x=(length((left + right) / 2.0)) y=(length(bottom + 33.0)) text-anchor="middle" { (axis.title) }
    };
    svg(label, bottom + 37.0, None, &content)
}

/// The parts one after the other, and the words at the end.
fn of_parts(bar: &Bar, (y, height): (f64, f64), x: &impl Fn(f64) -> f64) -> Markup {
    let mut sum = 0.0;
    html! {
        @for part in &bar.parts {
            @let from = x(sum);
            @let () = sum += part.value;
            @let name = if part.name.is_empty() { String::new() } else { format!(", {}", part.name) };
            rect class={"part " (part.class)} x=(length(from)) y=(length(y)) width=(length((x(sum) - from).max(0.0)))
                height=(height) { title { (bar.name) (name) ": " (part.words) } }
        }
        text x=(length(x(sum) + 5.0)) y=(length(y + height / 2.0 + 4.5)) { (bar.end) }
    }
}
