//! What a paper's figures found: tables for a terminal, JSON, CSV.

use serde_json::{json, Value as Json};
use sim::results::{to_value, OutputError};

use super::claim::{findings, Finding, Missing, Verdict};
use super::file::{Case, Figure};
use super::plan::{Plan, Results, WITH_HOST};
use super::quantity::Quantity;
use super::{Paper, Scale};
use crate::table::facts::run_facts;
use crate::table::format::{digits, maybe, NOTHING};
use crate::table::grid::{printable, Grid};

/// More columns than this, and the table is turned round.
const WIDE: usize = 5;

/// A figure with what was found.
pub(crate) struct Shown<'a> {
    pub(crate) figure: &'a Figure,
    pub(crate) results: Results<'a>,
    pub(crate) findings: Vec<Finding>,
}

impl<'a> Shown<'a> {
    pub(crate) fn new(figure: &'a Figure, results: Results<'a>) -> Shown<'a> {
        let findings = findings(figure, &results);
        Shown { figure, results, findings }
    }

    /// Where numbers stand: a case, and a phase if a run has several.
    pub(crate) fn places(&self) -> Vec<(String, String)> {
        let mut places: Vec<(String, String)> = Vec::new();
        for (cell, run) in self.results.found() {
            for phase in &run.phases {
                let place = (cell.case.clone(), phase.name.clone());
                if !places.contains(&place) {
                    places.push(place);
                }
            }
        }
        places
    }

    /// Schemes, in the order in which the cases name them.
    pub(crate) fn rows(&self) -> Vec<String> {
        let mut rows: Vec<String> = Vec::new();
        for cell in self.results.cells() {
            if !rows.contains(&cell.row) {
                rows.push(cell.row.clone());
            }
        }
        rows
    }

    /// A quantity of a scheme at a place. The outer `None`: the scheme does not run there.
    pub(crate) fn value(
        &self,
        quantity: &Quantity,
        row: &str,
        place: &(String, String),
    ) -> Option<Option<f64>> {
        let cell = self.results.cells().find(|cell| cell.case == place.0 && cell.row == row)?;
        let run = match self.results.run(cell) {
            Ok(run) => run,
            Err(_) => return Some(None),
        };
        Some(quantity.of(run, run.phase(&place.1)?))
    }

    fn cell(&self, quantity: &Quantity, row: &str, place: &(String, String)) -> String {
        let cell = self.results.cells().find(|cell| cell.case == place.0 && cell.row == row);
        if cell.is_some_and(|cell| cell.experiment.is_err()) {
            return "not built".to_owned();
        }
        maybe(self.value(quantity, row, place).flatten(), |value| quantity.unit.show(value))
    }

    /// A place in words: no more than tells it apart from the others.
    pub(crate) fn heading(&self, place: &(String, String)) -> String {
        let places = self.places();
        let cases = places.iter().any(|other| other.0 != place.0);
        let phases = places.iter().any(|other| other.0 == place.0 && other.1 != place.1);
        match (cases, phases) {
            (true, true) => format!("{}: {}", place.0, place.1),
            (true, false) => place.0.clone(),
            (false, _) => place.1.clone(),
        }
    }

    /// Tables of what was measured.
    pub(crate) fn grids(&self) -> Vec<Grid> {
        let (places, rows) = (self.places(), self.rows());
        if let [place] = &places[..] {
            let mut grid = Grid::new("", std::iter::once("").chain(self.figure.show.iter().map(|q| q.what)));
            for row in &rows {
                let cells = self.figure.show.iter().map(|quantity| self.cell(quantity, row, place));
                grid.row(std::iter::once(row.clone()).chain(cells));
            }
            return vec![grid.compact()];
        }
        let grid = |quantity: &&Quantity| {
            let timed = |place: &&(String, String)| quantity.timed() || !place.1.ends_with(WITH_HOST);
            let places: Vec<_> = places.iter().filter(timed).collect();
            let turned = places.len() > WIDE;
            let headings = places.iter().map(|place| self.heading(place));
            let header: Vec<String> = if turned { rows.clone() } else { headings.clone().collect() };
            let mut grid = Grid::new(quantity.what, std::iter::once(String::new()).chain(header));
            if turned {
                for (place, heading) in places.iter().zip(headings) {
                    let cells = rows.iter().map(|row| self.cell(quantity, row, place));
                    grid.row(std::iter::once(heading).chain(cells));
                }
            } else {
                for row in &rows {
                    let cells = places.iter().map(|place| self.cell(quantity, row, place));
                    grid.row(std::iter::once(row.clone()).chain(cells));
                }
            }
            grid
        };
        self.figure.show.iter().map(grid).collect()
    }

    /// The paper's numbers beside ours.
    pub(crate) fn claims(&self) -> Grid {
        let host = self.figure.host.is_some();
        let mut header = vec!["claim", "paper", if host { "ours, flash alone" } else { "ours" }];
        header.extend(host.then_some("with host"));
        header.extend(["ours / paper", "verdict"]);
        let mut grid = Grid::new("", header);
        for finding in &self.findings {
            let mut cells = vec![finding.what.clone(), finding.paper_text(), finding.text(&finding.ours)];
            if host {
                cells.push(finding.with_host.as_ref().map_or(NOTHING.to_owned(), |ours| finding.text(ours)));
            }
            cells.extend([maybe(finding.ratio(), digits), finding.verdict.words().to_owned()]);
            grid.row(cells);
        }
        grid
    }

    /// What must stand beside the numbers: name and sentence.
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        let mut facts = vec![("Source".to_owned(), self.figure.source.clone())];
        let mut found: Vec<(&str, String, Vec<&str>)> = Vec::new();
        for (cell, run) in self.results.found() {
            for (name, fact) in run_facts(run) {
                match found.iter_mut().find(|(other, text, _)| *other == name && *text == fact) {
                    Some((.., cases)) if cases.contains(&cell.case.as_str()) => {}
                    Some((.., cases)) => cases.push(&cell.case),
                    None => found.push((name, fact, vec![&cell.case])),
                }
            }
        }
        found.sort_by_key(|(name, ..)| crate::table::facts::RUN_FACTS.iter().position(|known| known == name));
        for at in 0..found.len() {
            let (name, fact, cases) = &found[at];
            let alone = found.iter().filter(|(other, ..)| other == name).count() == 1;
            let told = fact.starts_with(&format!("{}:", cases.join(", ")));
            let whose = if alone || told { String::new() } else { format!("{}: ", cases.join(", ")) };
            facts.push(((*name).to_owned(), format!("{whose}{fact}")));
        }
        let stand_in = |case: &Case| case.stand_in.as_ref().map(|of| format!("{} for {of}", case.name));
        let stand_ins: Vec<String> = self.figure.cases.iter().filter_map(stand_in).collect();
        if !stand_ins.is_empty() {
            facts.push(("Synthetic".to_owned(), format!("stand-ins: {}", stand_ins.join(", "))));
        }
        if let Some(host) = &self.figure.host {
            let us = host.time.overhead_ns as f64 / 1000.0;
            let fact = format!(
                "in phases \"...{WITH_HOST}\" {} us of host software a request on {} CPUs: {}",
                digits(us),
                host.time.cpus,
                host.why
            );
            facts.push(("Host".to_owned(), fact));
        }
        for cell in self.results.cells() {
            if let Err(Missing::Because(why)) = self.results.run(cell) {
                facts.push(("No result".to_owned(), format!("{} {}: {why}", cell.case, cell.row)));
            }
        }
        let notes = self.figure.notes.iter().chain(&self.results.plan.notes[self.results.figure]);
        facts.extend(notes.map(|note| ("Note".to_owned(), note.clone())));
        facts
    }

    /// Sentences below the claims: why ours differ, and why some are missing.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> = Vec::new();
        for finding in &self.findings {
            let apart = !matches!(finding.verdict, Verdict::Close | Verdict::Holds | Verdict::Missing);
            if apart && !finding.differs.is_empty() && !remarks.contains(&finding.differs) {
                remarks.push(finding.differs.clone());
            }
            if let Err(why) = &finding.ours {
                let why = format!("No number: {why}.");
                if !remarks.contains(&why) {
                    remarks.push(why);
                }
            }
        }
        remarks
    }

    /// The figure for a terminal.
    pub(crate) fn text(&self, paper: &Paper) -> String {
        let mut out = format!("== {} {}: {} ==\n", paper.name, self.figure.id, printable(&self.figure.title));
        for (name, fact) in self.facts() {
            out += &format!("{name:<9} {}\n", printable(&fact));
        }
        for grid in self.grids().iter().filter(|grid| !grid.is_empty()) {
            out += &grid.text();
        }
        let claims = self.claims();
        if !claims.rows.is_empty() {
            out += &claims.text();
        }
        for remark in self.remarks() {
            out += &format!("- {}\n", printable(&remark));
        }
        out
    }
}

/// How many claims point where the paper's do, in words.
pub(crate) fn summary(shown: &[Shown]) -> String {
    let all: Vec<Verdict> =
        shown.iter().flat_map(|figure| &figure.findings).map(|found| found.verdict).collect();
    let count = |of: &dyn Fn(Verdict) -> bool| all.iter().filter(|&&verdict| of(verdict)).count();
    let (agree, oppose) = (count(&|v| v.agrees() == Some(true)), count(&|v| v.agrees() == Some(false)));
    let (values, missing) =
        (count(&|v| matches!(v, Verdict::Higher | Verdict::Lower)), count(&|v| v == Verdict::Missing));
    format!(
        "{} numbers of the paper: {agree} point the same way or are close ({} within a quarter or inside the bound), {oppose} \
         do not, {values} are values that are higher or lower, {missing} have no number of ours",
        all.len(),
        count(&|v| matches!(v, Verdict::Close | Verdict::Holds)),
    )
}

/// What stands above the figures in a terminal.
pub(crate) fn head(paper: &Paper, scale: Scale) -> String {
    let mut out = format!("{}\n{}\n", printable(&paper.about.title), printable(&paper.about.source));
    out += match scale {
        Scale::Quick => "Quick look: each figure says how its device or its requests are fewer; --full runs the paper's.\n",
        Scale::Full => "At the paper's scale.\n",
    };
    for note in &paper.about.notes {
        out += &format!("Note      {}\n", printable(note));
    }
    out
}

/// Everything as JSON.
///
/// # Errors
/// A run that cannot be written.
pub(crate) fn json(paper: &Paper, shown: &[Shown], scale: Scale) -> Result<Json, OutputError> {
    let mut figures = Vec::new();
    for figure in shown {
        let number = |ours: &Result<f64, _>| ours.as_ref().ok().copied();
        let claims: Vec<Json> = figure
            .findings
            .iter()
            .map(|found| {
                json!({
                    "what": found.what,
                    "paper": found.paper,
                    "bound": format!("{:?}", found.bound).to_lowercase(),
                    "ours": number(&found.ours),
                    "missing": found.ours.as_ref().err().map(ToString::to_string),
                    "with_host": found.with_host.as_ref().and_then(number),
                    "ratio": found.ratio(),
                    "verdict": found.verdict.words().to_lowercase(),
                    "agrees": found.verdict.agrees(),
                    "differs": found.differs,
                })
            })
            .collect();
        let cells: Vec<Json> = figure
            .results
            .cells()
            .map(
                |cell| json!({ "case": cell.case, "scheme": cell.row, "run": cell.experiment.as_ref().ok() }),
            )
            .collect();
        figures.push(json!({
            "figure": figure.figure.id,
            "title": figure.figure.title,
            "source": figure.figure.source,
            "facts": figure.facts(),
            "claims": claims,
            "cells": cells,
        }));
    }
    let results = shown.first().map(|figure| &figure.results);
    let mut runs = Vec::new();
    for run in results.map_or(&[][..], |results| results.runs) {
        runs.push(run.as_ref().map_or(Ok(Json::Null), to_value)?);
    }
    Ok(json!({
        "paper": paper.name,
        "title": paper.about.title,
        "scale": scale.name(),
        "summary": summary(shown),
        "figures": figures,
        "runs": runs,
    }))
}

/// A row for each claim, and one for each number shown.
pub(crate) fn csv(paper: &Paper, shown: &[Shown], scale: Scale) -> String {
    let mut out = String::from(
        "paper,scale,figure,kind,what,scheme,case,phase,paper_value,paper_upper,ours,ours_with_host,verdict\n",
    );
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let mut line = |cells: [String; 13]| {
        out += &cells.map(|cell| quoted(&cell)).join(",");
        out.push('\n');
    };
    for figure in shown {
        let begin = |kind: &str, what: &str| {
            [paper.name.clone(), scale.name().into(), figure.figure.id.clone(), kind.into(), what.into()]
        };
        for found in &figure.findings {
            let [a, b, c, d, e] = begin("claim", &found.what);
            let ours = number(found.ours.as_ref().ok().copied());
            let with_host = found.with_host.as_ref().and_then(|ours| ours.as_ref().ok().copied());
            let upper = number(found.paper.get(1).copied());
            let none = String::new;
            let first = number(found.paper.first().copied());
            let verdict = found.verdict.words().to_lowercase();
            line([a, b, c, d, e, none(), none(), none(), first, upper, ours, number(with_host), verdict]);
        }
        for (cell, run) in figure.results.found() {
            for phase in &run.phases {
                for quantity in &figure.figure.show {
                    let [a, b, c, d, e] = begin("measured", quantity.name);
                    let ours = number(quantity.of(run, phase));
                    let (scheme, case, name) = (cell.row.clone(), cell.case.clone(), phase.name.clone());
                    let none = String::new;
                    line([a, b, c, d, e, scheme, case, name, none(), none(), ours, none(), none()]);
                }
            }
        }
    }
    out
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// What `ftl paper --list` shows.
pub(crate) fn list(papers: &[Paper], plans: &[Plan]) -> String {
    let mut out = String::new();
    for (paper, plan) in papers.iter().zip(plans) {
        out += &format!("{}: {}\n{}\n", paper.name, paper.about.title, paper.about.source);
        let mut grid = Grid::new("", ["figure", "runs", "claims", "not built"]);
        for (index, figure) in paper.figures.iter().enumerate() {
            let cells = || plan.cells.iter().filter(|cell| cell.figure == index);
            let mut missing: Vec<&str> = Vec::new();
            for name in cells().filter_map(|cell| cell.experiment.as_ref().err()) {
                if !missing.contains(&name.as_str()) {
                    missing.push(name);
                }
            }
            grid.row([
                format!("{}: {}", figure.id, figure.title),
                cells().filter(|cell| cell.experiment.is_ok()).count().to_string(),
                figure.claims.len().to_string(),
                missing.join(", "),
            ]);
        }
        out += &format!("{}\n", grid.text());
    }
    out
}
