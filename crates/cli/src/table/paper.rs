//! The figures of a paper, for a terminal and for its page.

use papers::{Figure, Paper, Plan, Scale, Shown, TRACES, WITH_HOST};
use sim::format::{digits, maybe, NOTHING};
use study::Quantity;

use super::grid::{printable, Grid};

/// More columns than this, and the table is turned round.
const WIDE: usize = 5;

/// Tables of what was measured: one for each quantity, or a single one where there is a single case and
/// phase.
pub fn grids(shown: &Shown) -> Vec<Grid> {
    let (places, rows, show) = (shown.places(), shown.rows(), &shown.figure.show);
    if let [place] = &places[..] {
        let mut grid = Grid::new("", std::iter::once("").chain(show.iter().map(|quantity| quantity.what)));
        for row in &rows {
            let cells = show.iter().map(|quantity| cell(shown, quantity, row, place));
            grid.row(std::iter::once(row.clone()).chain(cells));
        }
        return vec![grid.compact()];
    }
    let grid = |quantity: &&Quantity| {
        let timed = |place: &&(String, String)| quantity.timed() || !place.1.ends_with(WITH_HOST);
        let places: Vec<_> = places.iter().filter(timed).collect();
        let turned = places.len() > WIDE;
        let headings = places.iter().map(|place| shown.heading(place));
        let header: Vec<String> = if turned { rows.clone() } else { headings.clone().collect() };
        let mut grid = Grid::new(quantity.what, std::iter::once(String::new()).chain(header));
        if turned {
            for (place, heading) in places.iter().zip(headings) {
                let cells = rows.iter().map(|row| cell(shown, quantity, row, place));
                grid.row(std::iter::once(heading).chain(cells));
            }
        } else {
            for row in &rows {
                let cells = places.iter().map(|place| cell(shown, quantity, row, place));
                grid.row(std::iter::once(row.clone()).chain(cells));
            }
        }
        grid
    };
    show.iter().map(grid).collect()
}

fn cell(shown: &Shown, quantity: &Quantity, row: &str, place: &(String, String)) -> String {
    let cell = shown.results.cells().find(|cell| cell.case == place.0 && cell.row == row);
    if cell.is_some_and(|cell| cell.point.is_err()) {
        return "not built".to_owned();
    }
    maybe(shown.value(quantity, row, place).flatten(), |value| quantity.unit.show(value))
}

/// The paper's numbers beside ours.
pub fn claims(shown: &Shown) -> Grid {
    let host = shown.figure.host.is_some();
    let mut header = vec!["claim", "paper", if host { "ours, flash alone" } else { "ours" }];
    header.extend(host.then_some("with host"));
    header.extend(["ours / paper", "verdict"]);
    let mut grid = Grid::new("", header);
    for finding in &shown.findings {
        let mut cells = vec![finding.what.clone(), finding.paper_text(), finding.text(&finding.ours)];
        if host {
            cells.push(finding.with_host.as_ref().map_or(NOTHING.to_owned(), |ours| finding.text(ours)));
        }
        cells.extend([maybe(finding.ratio(), digits), finding.verdict.words().to_owned()]);
        grid.row(cells);
    }
    grid
}

/// A figure for a terminal: facts, tables, claims, and why ours differ.
pub fn figure(paper: &Paper, shown: &Shown) -> String {
    let (id, title) = (&shown.figure.id, printable(&shown.figure.title));
    let mut out = format!("== {} {id}: {title} ==\n", paper.name);
    for (name, fact) in shown.facts() {
        out += &format!("{name:<9} {}\n", printable(&fact));
    }
    for grid in grids(shown).iter().filter(|grid| !grid.is_empty()) {
        out += &grid.text();
    }
    let claims = claims(shown);
    if !claims.rows.is_empty() {
        out += &claims.text();
    }
    for remark in shown.remarks() {
        out += &format!("- {}\n", printable(&remark));
    }
    out
}

/// What stands above these figures in a terminal.
pub fn head(paper: &Paper, figures: &[&Figure], scale: Scale) -> String {
    let mut out = format!("{}\n{}\n", printable(&paper.about.title), printable(&paper.about.source));
    out += &format!("{}\n", papers::scale(figures, scale));
    for note in &paper.about.notes {
        out += &format!("Note      {}\n", printable(note));
    }
    out
}

/// What `ftl paper --list` shows.
pub fn list(papers: &[Paper], plans: &[Plan]) -> String {
    let mut out = String::new();
    let traces = format!("real traces: {TRACES} names their folder");
    for (paper, plan) in papers.iter().zip(plans) {
        out += &format!("{}: {}\n{}\n", paper.name, paper.about.title, paper.about.source);
        let mut grid = Grid::new("", ["figure", "runs", "claims", "missing"]);
        for (index, figure) in paper.figures.iter().enumerate() {
            let cells = || plan.cells.iter().filter(|cell| cell.figure == index);
            let mut missing: Vec<&str> = Vec::new();
            if figure.claims.iter().any(|claim| !claim.bench.is_empty()) {
                missing.push("a file of `ftl bench --json`: --bench names it");
            } else if figure.cases.is_empty() && !figure.live {
                missing.push(&traces);
            }
            for name in cells().filter_map(|cell| cell.point.as_ref().err()) {
                if !missing.contains(&name.as_str()) {
                    missing.push(name);
                }
            }
            grid.row([
                format!("{}: {}", figure.id, figure.title),
                cells().filter(|cell| cell.point.is_ok()).count().to_string(),
                figure.claims.len().to_string(),
                missing.join(", "),
            ]);
        }
        out += &format!("{}\n", grid.text());
    }
    out
}
