//! The page of a paper: for each figure its plots, the measured tables, and the paper's numbers beside ours.

use maud::{html, Markup};
use papers::{summary, Figure as PaperFigure, Paper, Scale, Shown, Verdict, WITH_HOST};
use study::Quantity;

use super::axis::Axis;
use super::bars;
use super::chart::{Figure, Line, Look};
use super::plots::{colour, line, plot, single};
use super::{facts_list, marked_table, page, place, section, selector, table, tables, Origin, ReportError};
use crate::table::grid::Grid;
use crate::table::paper::{claims, grids};

/// One page about the figures of a paper.
///
/// # Errors
/// [`ReportError`]; none is known to happen.
pub(crate) fn html(
    paper: &Paper,
    shown: &[Shown],
    scale: Scale,
    origin: &Origin,
    seed: u64,
) -> Result<String, ReportError> {
    let title = format!("{}, beside ours", paper.about.title);
    let figures: Vec<&PaperFigure> = shown.iter().map(|shown| shown.figure).collect();
    let size = papers::scale(&figures, scale);
    let runs = digests(shown);
    let counted = format!("of {} runs: at the end of this page", runs.rows.len());
    let body = html! {
        header {
            p.tool { "FTLKit paper" }
            h1 { (title) }
            p.lead { (paper.about.source) ". " (size) }
            p.lead { (summary(shown)) "." }
            @for note in &paper.about.notes { p.note { (note) } }
            (facts_list(origin.facts(&[seed], counted)))
        }
        (section("claims", "All numbers", &judged(&all_claims(shown), &verdicts(shown))))
        @if shown.len() > 1 {
            (selector("Figure", "figure", shown.iter().map(|shown| (shown.figure.id.clone(), &*shown.figure.id))))
        }
        @for figure in shown { (of_figure(figure)) }
        (section("runs", "Runs", &html! { details { summary { "Digests" } (table(&runs)) } }))
    };
    page(&title, &body, None::<&()>)
}

/// Digest of each run.
fn digests(shown: &[Shown]) -> Grid {
    let mut grid = Grid::new("", ["run", "seed", "digest"]);
    if let Some(first) = shown.first() {
        for (label, ended) in first.results.plan.labels.iter().zip(first.results.ended) {
            if let Some(run) = ended.run() {
                grid.row([label.clone(), run.workload.seed.to_string(), run.digest.clone()]);
            }
        }
    }
    grid
}

fn verdicts(shown: &[Shown]) -> Vec<Verdict> {
    shown.iter().flat_map(|figure| &figure.findings).map(|found| found.verdict).collect()
}

/// A table of claims, a row for each of these verdicts, whose cells are coloured by them.
fn judged(grid: &Grid, verdicts: &[Verdict]) -> Markup {
    let class = |row: usize, column: usize| {
        let verdict = verdicts.get(row).filter(|_| grid.header[column] == "verdict")?;
        Some(match verdict {
            Verdict::Holds | Verdict::Close => "good",
            Verdict::SameSide | Verdict::Smaller | Verdict::Larger | Verdict::Higher | Verdict::Lower => {
                "fair"
            }
            Verdict::Broken | Verdict::Opposite | Verdict::NoEffect | Verdict::Effect => "bad",
            Verdict::NotExercised | Verdict::Unproven | Verdict::Missing => "idle",
        })
    };
    html! { div.claims { (marked_table(grid, class)) } }
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

fn of_figure(shown: &Shown) -> Markup {
    let figure = shown.figure;
    let plots = figure.show.iter().filter_map(|quantity| {
        let id =
            format!("f{}-{}", figure.id, quantity.name).replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        Some(of_quantity(shown, quantity)?.named(id))
    });
    let remarks = shown.remarks();
    html! {
        section.phase id={"figure-" (figure.id)} {
            h2 { (figure.id) ": " (figure.title) }
            (facts_list(shown.facts()))
            (place(&plots.collect::<Vec<_>>()))
            (judged(&claims(shown), &verdicts(std::slice::from_ref(shown))))
            @if !remarks.is_empty() { ul { @for remark in &remarks { li { (remark) } } } }
            details { summary { "Numbers" } (tables(&grids(shown))) }
        }
    }
}

/// A quantity of every scheme: lines over a sweep, bars otherwise.
fn of_quantity(shown: &Shown, quantity: &Quantity) -> Option<Figure> {
    let timed = |place: &(String, String)| quantity.timed() || !place.1.ends_with(WITH_HOST);
    let places: Vec<_> = shown.places().into_iter().filter(timed).collect();
    if places.len() > 2 && shown.figure.cases.iter().all(|case| case.swept) {
        return swept(shown, quantity, &places);
    }
    let rows = shown.rows();
    let bar = |place: &(String, String), (row, name): (usize, &String)| {
        let value = shown.value(quantity, name, place)?;
        let value = value.map(|value| (value, quantity.unit.show(value)));
        Some(single(name.clone(), colour(row), value))
    };
    let group = |place: &(String, String)| bars::Group {
        name: if places.len() > 1 { shown.heading(place) } else { String::new() },
        bars: rows.iter().enumerate().filter_map(|row| bar(place, row)).collect(),
    };
    plot(quantity.what, "", (quantity.what, quantity.unit), places.iter().map(group).collect())
}

/// Lines over the cases of a sweep, one for each scheme and phase.
fn swept(shown: &Shown, quantity: &Quantity, places: &[(String, String)]) -> Option<Figure> {
    // A case such as `financial1 3 %`, with a phase `financial1`, lies beside other workloads at 3 %.
    let told = |(case, phase): &(String, String)| match case.strip_prefix(phase.as_str()) {
        Some(rest) if !rest.trim().is_empty() => rest.trim().to_owned(),
        _ => case.clone(),
    };
    let mut cases: Vec<String> = Vec::new();
    let mut phases: Vec<&String> = Vec::new();
    for (place, phase) in places.iter().map(|place| (place, &place.1)) {
        let case = told(place);
        if !cases.contains(&case) {
            cases.push(case);
        }
        if !phases.contains(&phase) {
            phases.push(phase);
        }
    }
    let rows = shown.rows();
    let mut lines = Vec::new();
    for (row, name) in rows.iter().enumerate() {
        for (index, &phase) in phases.iter().enumerate() {
            let mine = places.iter().filter(|place| place.1 == *phase);
            let at = |place| cases.iter().position(|known| *known == told(place)).unwrap_or(0) as f64;
            let points: Vec<(f64, Option<f64>)> =
                mine.filter_map(|place| Some((at(place), shown.value(quantity, name, place)?))).collect();
            if points.iter().any(|(_, value)| value.is_some()) {
                let name = if phases.len() > 1 { format!("{name}, {phase}") } else { name.clone() };
                lines.push(Line { name, class: line(row + index * rows.len()), points, look: Look::Marked });
            }
        }
    }
    let values: Vec<f64> =
        lines.iter().flat_map(|line| &line.points).filter_map(|(_, value)| *value).collect();
    let x = Axis::set("", cases);
    let y = Axis::from_zero(quantity.what, quantity.unit, values.into_iter());
    (!lines.is_empty()).then(|| Figure::lines(quantity.what, "", &x, &y, &lines))
}
