//! Drawings as SVG inside the page: lines and dots over two axes. `bars.rs` draws bars.
//!
//! A drawing is 440 units wide, so that its text can be read on a telephone and on a desk. Colours come from
//! `chart.css`, by class: `s0` to `s6` are schemes, `p0` to `p8` parts of a whole, `d0` to `d3` dashes.

use maud::{html, Markup};
use serde_json::json;

use super::axis::Axis;
use crate::table::grid::printable;

/// Width of a drawing, units.
pub(super) const WIDTH: f64 = 440.0;
/// Height of a drawing with two axes, units.
const HEIGHT: f64 = 280.0;
/// Width of a letter, units; a little more than most have.
pub(super) const LETTER: f64 = 7.8;
/// Letters of a name along an axis; a longer one is cut.
const LONGEST_NAME: usize = 24;

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
    /// Names and classes of what is drawn; empty where the drawing names everything.
    pub legend: Vec<(String, String)>,
    /// What is drawn, side by side where there is room.
    pub drawings: Vec<Markup>,
    /// The table that a reader copies, and that hover values are read from: columns apart by tabs, with a
    /// heading.
    pub data: String,
}

/// How the points of a line are joined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Each with the next.
    Straight,
    /// The same, with a dot at each.
    Marked,
    /// Level up to the next, and then up or down.
    Steps,
}

/// A line of a plot.
pub(super) struct Line {
    /// What it stands for.
    pub name: String,
    /// Its classes in `chart.css`.
    pub class: String,
    /// Along both axes, from left to right; where there is no value, the line has a gap.
    pub points: Vec<(f64, Option<f64>)>,
    /// How the points are joined.
    pub look: Look,
}

impl Line {
    /// Its entry in the legend.
    pub fn key(&self) -> (String, String) {
        (self.name.clone(), format!("line {}", self.class))
    }
}

impl Figure {
    /// Lines over two axes.
    pub fn lines(title: &str, caption: &str, x: &Axis, y: &Axis, lines: &[Line]) -> Figure {
        let mut data = row(&["name", &x.column(), &y.column()]);
        for line in lines {
            for &(at, value) in &line.points {
                data += &row(&[&line.name, &along(x, at), &value.map(number).unwrap_or_default()]);
            }
        }
        let legend = lines.iter().map(Line::key).collect();
        let drawing = drawing(title, x, y, lines, 2);
        Figure::new(title, caption, legend, vec![drawing], data)
    }

    /// A figure of half the width, of drawings and their data.
    pub fn new(
        title: &str,
        caption: &str,
        legend: Vec<(String, String)>,
        drawings: Vec<Markup>,
        data: String,
    ) -> Figure {
        Figure {
            id: String::new(),
            title: title.to_owned(),
            caption: caption.to_owned(),
            wide: false,
            legend,
            drawings,
            data,
        }
    }

    /// The same under this id.
    pub fn named(self, id: impl Into<String>) -> Figure {
        Figure { id: id.into(), ..self }
    }

    /// Heading, legend, drawings, caption, and the data.
    pub fn card(&self) -> Markup {
        html! {
            figure class=(if self.wide { "wide" } else { "half" }) id=(self.id) {
                div.head {
                    h3 { (self.title) }
                    button.copy type="button" hidden { "Copy data" }
                }
                @if !self.legend.is_empty() {
                    ul.legend {
                        @for (name, class) in &self.legend {
                            li { (swatch(class)) " " (name) }
                        }
                    }
                }
                div.drawings { @for drawing in &self.drawings { (drawing) } }
                @if !self.caption.is_empty() { figcaption { (self.caption) } }
                pre.data hidden { (self.data) }
            }
        }
    }
}

fn swatch(class: &str) -> Markup {
    html! {
        svg.swatch viewBox="0 0 24 12" aria-hidden="true" {
            @if class.starts_with("part") { rect class=(class) x="4" width="16" height="12" rx="2" {} }
            @else { path class=(class) d="M1 6H23" {} }
        }
    }
}

/// A row of a table. Nothing in a cell ends it.
pub(super) fn row(cells: &[impl AsRef<str>]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| printable(cell.as_ref())).collect();
    format!("{}\n", cells.join("\t"))
}

/// A number with six digits that count.
pub(super) fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let places = 10_f64.powi(5 - value.abs().log10().floor() as i32);
    let rounded = (value * places).round() / places;
    format!("{}", if rounded.is_finite() { rounded } else { value })
}

fn along(x: &Axis, at: f64) -> String {
    x.names.get(at as usize).cloned().unwrap_or_else(|| number(at))
}

/// A length in a drawing, to a tenth of a unit.
pub(super) fn length(value: f64) -> String {
    format!("{}", (value * 10.0).round() / 10.0 + 0.0)
}

/// Width of a text, units.
pub(super) fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// A text cut to so many letters.
pub(super) fn cut(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let start: String = text.chars().take(letters.saturating_sub(1)).collect();
    format!("{start}…")
}

/// The area between the axes of a drawing.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    height: f64,
    /// Whether names along the x axis are turned, as they would lie on each other.
    turned: bool,
}

impl Frame {
    fn of(x: &Axis, y: &Axis, height: f64) -> Frame {
        let marks = y.marks.iter().map(|(_, words)| width(words)).fold(0.0, f64::max);
        let (mut left, right, top) = (marks + 10.0, WIDTH - 12.0, 24.0);
        let names: Vec<f64> = x.names.iter().map(|name| width(&cut(name, LONGEST_NAME)) + 4.0).collect();
        let slot = (right - left) / names.len().max(1) as f64;
        let turned = names.iter().any(|name| *name > slot);
        let longest = names.iter().copied().fold(0.0, f64::max);
        let below = if turned {
            // A turned name ends below its place and begins to the left of it.
            left = left.max(longest * 0.87 - slot / 2.0);
            longest / 2.0 + 14.0
        } else {
            20.0
        };
        let title = if x.title.is_empty() { 0.0 } else { 18.0 };
        let height = if turned { height + below } else { height };
        Frame { left, right, top, bottom: height - below - title, height, turned }
    }

    fn x(&self, share: f64) -> f64 {
        self.left + share * (self.right - self.left)
    }

    fn y(&self, share: f64) -> f64 {
        self.bottom - share * (self.bottom - self.top)
    }

    /// Where a point lies, if it has a place on both axes.
    fn place(&self, x: &Axis, y: &Axis, at: f64, value: f64) -> Option<(f64, f64)> {
        Some((self.x(x.at(at)?), self.y(y.at(value)?)))
    }

    fn axes(&self, x: &Axis, y: &Axis) -> Markup {
        let along = |(value, words): &(f64, String)| Some((self.x(x.at(*value)?), words.clone()));
        let mut end = f64::MIN;
        html! {
            text.title x="0" y="13" { (y.title) }
            @for (value, words) in &y.marks {
                @if let Some(at) = y.at(*value).map(|share| self.y(share)) {
                    path.grid d={"M" (length(self.left)) " " (length(at)) "H" (length(self.right))} {}
                    text x=(length(self.left - 6.0)) y=(length(at + 4.5)) text-anchor="end" { (words) }
                }
            }
            @for (at, words) in x.marks.iter().filter_map(along) {
                path.grid d={"M" (length(at)) " " (length(self.bottom)) "v5"} {}
                @if self.turned {
                    // Lines of turned text this near would lie on each other.
                    @if at >= end + 16.0 {
                        @let () = end = at;
                        (turned(at, self.bottom + 14.0, &words))
                    }
                } @else {
                    @let half = width(&words) / 2.0;
                    @let middle = at.min(WIDTH - half);
                    @if middle - half > end + 4.0 {
                        @let () = end = middle + half;
                        text x=(length(middle)) y=(length(self.bottom + 18.0)) text-anchor="middle" { (words) }
                    }
                }
            }
            @if !x.title.is_empty() {
                text.title x=(length(self.x(0.5))) y=(length(self.height - 3.0)) text-anchor="middle" { (x.title) }
            }
            path.axis d={"M" (length(self.left)) " " (length(self.bottom)) "H" (length(self.right))} {}
        }
    }
}

fn turned(x: f64, y: f64, name: &str) -> Markup {
    let (x, y) = (length(x), length(y));
    html! {
        text x=(x) y=(y) text-anchor="end" transform={"rotate(-30 " (x) " " (y) ")"} {
            (cut(name, LONGEST_NAME)) title { (name) }
        }
    }
}

/// An SVG element of these units.
pub(super) fn svg(label: &str, height: f64, axes: Option<String>, content: &Markup) -> Markup {
    html! {
        svg.chart viewBox={"0 0 " (WIDTH) " " (length(height))} role="img" aria-label=(label) data-axes=[axes] {
            (content)
        }
    }
}

/// Lines over two axes; `column` of the figure's data holds their values.
pub(super) fn drawing(label: &str, x: &Axis, y: &Axis, lines: &[Line], column: usize) -> Markup {
    let frame = Frame::of(x, y, HEIGHT);
    let axes = json!({
        "x": x.described(frame.left, frame.right),
        "y": y.described(frame.bottom, frame.top),
        "column": column,
        "steps": lines.iter().any(|line| line.look == Look::Steps),
        "top": frame.top,
        "bottom": frame.bottom,
    });
    let content = html! {
        (frame.axes(x, y))
        @for line in lines {
            path class={"line " (line.class)} data-name=(printable(&line.name))
                d=(path(&line.points, line.look, |at, value| frame.place(x, y, at, value)))
                { title { (line.name) } }
            @if line.look == Look::Marked {
                path class={"dots " (line.class.split(' ').next().unwrap_or_default())}
                    d=(dots(line.points.iter().filter_map(|&(at, value)| frame.place(x, y, at, value?)))) {}
            }
        }
    };
    svg(label, frame.height, Some(axes.to_string()), &content)
}

/// Dots over two axes, one where several would lie on each other. Gives the points that are drawn, too.
pub(super) fn scatter(
    label: &str,
    class: &str,
    (x, y): &(Axis, Axis),
    height: f64,
    points: &[(u64, u64)],
) -> (Markup, Vec<(u64, u64)>) {
    const DOT: f64 = 2.0;
    let frame = Frame::of(x, y, height);
    let mut taken = std::collections::HashSet::new();
    let mut drawn = Vec::new();
    let mut places = Vec::new();
    for &point in points {
        let Some((left, top)) = frame.place(x, y, point.0 as f64, point.1 as f64) else { continue };
        let cell = ((left / DOT).round(), (top / DOT).round());
        if taken.insert((cell.0 as i64, cell.1 as i64)) {
            drawn.push(point);
            places.push((cell.0 * DOT, cell.1 * DOT));
        }
    }
    let content = html! {
        (frame.axes(x, y))
        path class={"dots small " (class)} d=(dots(places.into_iter())) {}
    };
    (svg(label, frame.height, None, &content), drawn)
}

/// A path of lines without length, which round ends make dots of.
fn dots(places: impl Iterator<Item = (f64, f64)>) -> String {
    places.map(|(x, y)| format!("M{} {}h0", length(x), length(y))).collect()
}

fn path(points: &[(f64, Option<f64>)], look: Look, place: impl Fn(f64, f64) -> Option<(f64, f64)>) -> String {
    let mut path = String::new();
    // Points since the last gap: one alone is a line without length.
    let mut joined = 0;
    for &(at, value) in points {
        let Some((x, y)) = value.and_then(|value| place(at, value)) else {
            path += if joined == 1 { "h0" } else { "" };
            joined = 0;
            continue;
        };
        let (x, y) = (length(x), length(y));
        path += &match (joined, look) {
            (0, _) => format!("M{x} {y}"),
            (_, Look::Steps) => format!("H{x}V{y}"),
            _ => format!("L{x} {y}"),
        };
        joined += 1;
    }
    path + if joined == 1 { "h0" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_interrupts_a_line_and_a_point_alone_is_seen() {
        let points = [(0.0, Some(1.0)), (1.0, None), (2.0, Some(3.0)), (3.0, Some(4.0))];
        let place = |at: f64, value: f64| Some((at, value));
        assert_eq!(path(&points, Look::Straight, place), "M0 1h0M2 3L3 4");
        assert_eq!(path(&points, Look::Steps, place), "M0 1h0M2 3H3V4");
    }

    #[test]
    fn numbers_have_six_digits() {
        assert_eq!(
            (number(1_234_567.8), number(0.123_456_78)),
            ("1234570".to_owned(), "0.123457".to_owned())
        );
        assert_eq!(
            (number(0.0), number(1e-9), length(-0.01)),
            ("0".to_owned(), "0.000000001".to_owned(), "0".to_owned())
        );
    }

    #[test]
    fn dots_on_each_other_are_one() {
        let x = Axis::from_zero("write", sim::format::Unit::Count, [100.0].into_iter());
        let points: Vec<(u64, u64)> = (0..1000).map(|index| (index / 10, 50)).collect();
        let (drawing, drawn) = scatter("", "s0", &(x.clone(), x), 300.0, &points);
        assert_eq!(drawn.len(), 100);
        assert_eq!(drawing.into_string().matches("h0").count(), 100);
    }
}
