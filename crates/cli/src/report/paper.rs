//! The page of a paper: for each figure its plots, the measured tables, and the paper's numbers beside ours.

use maud::{html, Markup};
use papers::{summary, Paper, Quantity, Scale, Shown, Unit, WITH_HOST};
use plotly::common::{Marker, Mode};
use plotly::layout::{Axis, AxisType, BarMode, RangeMode};
use plotly::{Bar, Plot, Scatter};

use super::plots::{bars, colour, half, layout, line, plot, Figure};
use super::{escape, facts_list, page, place, section, selector, table, tables, ReportError};
use crate::table::grid::Grid;
use crate::table::paper::{claims, grids};

/// One page about the figures of a paper.
///
/// # Errors
/// [`ReportError`]; none is known to happen.
pub(crate) fn html(paper: &Paper, shown: &[Shown], scale: Scale) -> Result<String, ReportError> {
    let title = format!("{}, beside ours", paper.about.title);
    let size = match scale {
        Scale::Quick => {
            "A quick look: each figure says how its device or its requests are fewer than the paper's."
        }
        Scale::Full => "At the paper's scale.",
    };
    let mut figures = Vec::new();
    let body = html! {
        header {
            p.tool { "FTLKit paper" }
            h1 { (title) }
            p.lead { (paper.about.source) ". " (size) }
            p.lead { (summary(shown)) "." }
            @for note in &paper.about.notes { p.note { (note) } }
        }
        (section("claims", "All numbers", &table(&all_claims(shown))))
        @if shown.len() > 1 {
            (selector("Figure", "figure", shown.iter().map(|shown| (shown.figure.id.clone(), &*shown.figure.id))))
        }
        @for figure in shown { (of_figure(figure, &mut figures)) }
    };
    page(&title, &body, &figures, None::<&()>)
}

fn all_claims(shown: &[Shown]) -> Grid {
    let mut grid = Grid::new("", ["claim", "figure", "paper", "ours", "with host", "verdict"]);
    for figure in shown {
        for found in &figure.findings {
            grid.row([
                found.what.clone(),
                figure.figure.id.clone(),
                found.paper_text(),
                found.text(&found.ours),
                found.with_host.as_ref().map_or_else(String::new, |ours| found.text(ours)),
                found.verdict.words().to_owned(),
            ]);
        }
    }
    grid.compact()
}

fn of_figure(shown: &Shown, figures: &mut Vec<Figure>) -> Markup {
    let figure = shown.figure;
    let plots = figure.show.iter().filter_map(|quantity| {
        let id =
            format!("f{}-{}", figure.id, quantity.name).replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let plot = of_quantity(shown, quantity)?;
        Some(half(id, quantity.what, "", plot))
    });
    let remarks = shown.remarks();
    html! {
        section.phase id={"figure-" (figure.id)} {
            h2 { (figure.id) ": " (figure.title) }
            (facts_list(shown.facts()))
            (place(plots.collect(), figures))
            (table(&claims(shown)))
            @if !remarks.is_empty() { ul { @for remark in &remarks { li { (remark) } } } }
            details { summary { "Numbers" } (tables(&grids(shown))) }
        }
    }
}

/// Points of one trace.
struct Trace {
    name: String,
    /// Index of its colour.
    colour: usize,
    x: Vec<String>,
    y: Vec<f64>,
    words: Vec<String>,
}

/// A quantity of every scheme: lines over a sweep, bars otherwise.
fn of_quantity(shown: &Shown, quantity: &Quantity) -> Option<Plot> {
    let timed = |place: &(String, String)| quantity.timed() || !place.1.ends_with(WITH_HOST);
    let places: Vec<_> = shown.places().into_iter().filter(timed).collect();
    let swept = places.len() > 2 && shown.figure.cases.iter().all(|case| case.swept);
    let (title, format, factor) = axis(quantity);
    let mut all = if swept {
        let x = Axis::new().type_(AxisType::Category);
        let y = Axis::new().title(title).range_mode(RangeMode::ToZero).tick_format(format);
        plot(layout().x_axis(x).y_axis(y).show_legend(true))
    } else {
        plot(bars(&title, BarMode::Group, format).show_legend(true))
    };
    for trace in traces(shown, quantity, &places, swept) {
        let hover = "%{x}<br>%{fullData.name}: %{hovertext}<extra></extra>";
        let y = trace.y.iter().map(|value| value * factor).collect::<Vec<_>>();
        if swept {
            let points = Scatter::new(trace.x, y).mode(Mode::LinesMarkers).line(line(trace.colour));
            all.add_trace(points.name(trace.name).hover_text_array(trace.words).hover_template(hover));
        } else {
            let bars = Bar::new(trace.x, y).marker(Marker::new().color(colour(trace.colour)));
            all.add_trace(bars.name(trace.name).hover_text_array(trace.words).hover_template(hover));
        }
    }
    (!all.data().is_empty()).then_some(all)
}

/// A trace for each scheme; over a sweep, each phase is a trace of its own.
fn traces(shown: &Shown, quantity: &Quantity, places: &[(String, String)], swept: bool) -> Vec<Trace> {
    let rows = shown.rows();
    let mut traces: Vec<Trace> = Vec::new();
    for (row, name) in rows.iter().enumerate() {
        let first = traces.len();
        for place in places {
            let Some(Some(value)) = shown.value(quantity, name, place) else { continue };
            let several = swept && places.iter().any(|other| other.1 != place.1);
            let name = escape(&if several { format!("{name}, {}", place.1) } else { name.clone() });
            let at = traces[first..].iter().position(|trace| trace.name == name).map_or_else(
                || {
                    let colour = row + (traces.len() - first) * rows.len();
                    traces.push(Trace { name, colour, x: Vec::new(), y: Vec::new(), words: Vec::new() });
                    traces.len() - 1
                },
                |at| first + at,
            );
            let x = if swept { place.0.clone() } else { shown.heading(place) };
            traces[at].x.push(escape(&x));
            traces[at].y.push(value);
            traces[at].words.push(quantity.unit.show(value));
        }
    }
    traces
}

/// Title, format of numbers, and what values are multiplied by.
fn axis(quantity: &Quantity) -> (String, &'static str, f64) {
    match quantity.unit {
        Unit::Share => (quantity.what.to_owned(), ".0%", 1.0),
        Unit::Micros => (format!("{}, us", quantity.what), "~s", 1.0),
        Unit::Joule => (format!("{}, J", quantity.what), "~g", 1.0),
        Unit::Bytes => (format!("{}, MiB", quantity.what), "~g", 1.0 / f64::from(1 << 20)),
        Unit::Rate => (format!("{}, MiB/s", quantity.what), "~g", 1.0 / f64::from(1 << 20)),
        Unit::Factor => (quantity.what.to_owned(), "~g", 1.0),
        Unit::Count => (quantity.what.to_owned(), "~s", 1.0),
    }
}
