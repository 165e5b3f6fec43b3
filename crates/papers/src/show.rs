//! What a paper's figures found, for tables, pages, JSON and CSV.

use serde_json::{json, Value as Json};
use sim::facts::{run_facts, RUN_FACTS};
use sim::format::digits;
use sim::results::{to_value, OutputError};
use study::Quantity;

use crate::claim::{findings, Finding, Missing, Verdict};
use crate::file::{Case, Figure, Scale};
use crate::paper::Paper;
use crate::plan::{Results, WITH_HOST};

/// A figure with what was found.
pub struct Shown<'a> {
    /// The figure.
    pub figure: &'a Figure,
    /// What its runs found.
    pub results: Results<'a>,
    /// The paper's numbers beside ours, in the order of the claims.
    pub findings: Vec<Finding>,
}

impl<'a> Shown<'a> {
    /// Derives the figure's claims from what its runs found.
    pub fn new(figure: &'a Figure, results: Results<'a>) -> Shown<'a> {
        let findings = findings(figure, &results);
        Shown { figure, results, findings }
    }

    /// Where numbers stand: a case, and a phase if a run has several.
    pub fn places(&self) -> Vec<(String, String)> {
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
    pub fn rows(&self) -> Vec<String> {
        let mut rows: Vec<String> = Vec::new();
        for cell in self.results.cells() {
            if !rows.contains(&cell.row) {
                rows.push(cell.row.clone());
            }
        }
        rows
    }

    /// A quantity of a scheme at a place. The outer `None`: the scheme does not run there.
    pub fn value(&self, quantity: &Quantity, row: &str, place: &(String, String)) -> Option<Option<f64>> {
        let cell = self.results.cells().find(|cell| cell.case == place.0 && cell.row == row)?;
        let run = match self.results.run(cell) {
            Ok(run) => run,
            Err(_) => return Some(None),
        };
        Some(quantity.of(run, run.phase(&place.1)?))
    }

    /// A place in words: no more than tells it apart from the others.
    pub fn heading(&self, place: &(String, String)) -> String {
        let places = self.places();
        let cases = places.iter().any(|other| other.0 != place.0);
        let phases = places.iter().any(|other| other.0 == place.0 && other.1 != place.1);
        match (cases, phases) {
            (true, true) => format!("{}: {}", place.0, place.1),
            (true, false) => place.0.clone(),
            (false, _) => place.1.clone(),
        }
    }

    /// What must stand beside the numbers: name and sentence.
    pub fn facts(&self) -> Vec<(String, String)> {
        let mut facts = vec![("Source".to_owned(), self.figure.source.clone())];
        let abridged = |[name, here, full]: &[String; 3]| format!("{name} {here} (--full: {full})");
        if !self.figure.abridged.is_empty() {
            let all: Vec<String> = self.figure.abridged.iter().map(abridged).collect();
            facts.push(("Quick".to_owned(), all.join(", ")));
        }
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
        found.sort_by_key(|(name, ..)| RUN_FACTS.iter().position(|known| known == name));
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
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> = Vec::new();
        for finding in &self.findings {
            let apart = !matches!(
                finding.verdict,
                Verdict::Close | Verdict::Holds | Verdict::Unproven | Verdict::Missing
            );
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
}

/// In words, at which scale these figures are.
pub fn scale(figures: &[&Figure], scale: Scale) -> &'static str {
    match scale {
        Scale::Quick if figures.iter().all(|figure| figure.abridged.is_empty()) => {
            "Quick look, and all of it: --full changes nothing."
        }
        Scale::Quick => "Quick look: the line \"Quick\" of a figure says what --full changes.",
        Scale::Full => "At the paper's scale.",
    }
}

/// How many claims point where the paper's do, in words.
pub fn summary(shown: &[Shown]) -> String {
    let all: Vec<Verdict> =
        shown.iter().flat_map(|figure| &figure.findings).map(|found| found.verdict).collect();
    let count = |of: &dyn Fn(Verdict) -> bool| all.iter().filter(|&&verdict| of(verdict)).count();
    let near = count(&|v| matches!(v, Verdict::Close | Verdict::Holds));
    let (agree, oppose) = (count(&|v| v.agrees() == Some(true)), count(&|v| v.agrees() == Some(false)));
    let (values, missing) =
        (count(&|v| matches!(v, Verdict::Higher | Verdict::Lower)), count(&|v| v == Verdict::Missing));
    let idle = count(&|v| v == Verdict::NotExercised);
    let unproven = count(&|v| v == Verdict::Unproven);
    format!(
        "{} numbers of the paper: {near} within a quarter or inside the bound, {} have the right sign alone, {oppose} have the \
         opposite, none, or one where the paper has none, {values} are values that are higher or lower, {idle} were not exercised, {unproven} rest on stand-ins \
         that no real rows were at hand for, {missing} have no number of ours",
        all.len(),
        agree - near,
    )
}

/// Everything as JSON.
///
/// # Errors
/// A run that cannot be written.
pub fn json(paper: &Paper, shown: &[Shown], scale: Scale) -> Result<Json, OutputError> {
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
            .map(|cell| json!({ "case": cell.case, "scheme": cell.row, "run": cell.point.as_ref().ok() }))
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
    for ended in results.map_or(&[][..], |results| results.ended) {
        runs.push(ended.run().map_or(Ok(Json::Null), to_value)?);
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
///
/// # Errors
/// [`OutputError::Csv`]; none is known to happen.
pub fn csv(paper: &Paper, shown: &[Shown], scale: Scale) -> Result<String, OutputError> {
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record([
        "paper",
        "scale",
        "figure",
        "kind",
        "what",
        "scheme",
        "case",
        "phase",
        "paper_value",
        "paper_upper",
        "ours",
        "ours_with_host",
        "verdict",
    ])?;
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for Shown { figure, results, findings } in shown {
        let begin = [&paper.name, scale.name(), &figure.id];
        for found in findings {
            let with_host = found.with_host.as_ref().and_then(|ours| ours.as_ref().ok().copied());
            let numbers = [
                found.paper.first().copied(),
                found.paper.get(1).copied(),
                found.ours.as_ref().ok().copied(),
                with_host,
            ];
            let [first, upper, ours, with_host] = numbers.map(number);
            let verdict = found.verdict.words().to_lowercase();
            let rest = ["claim", &found.what, "", "", "", &first, &upper, &ours, &with_host, &verdict];
            out.write_record(begin.iter().chain(&rest))?;
        }
        for (cell, run) in results.found() {
            for phase in &run.phases {
                for quantity in &figure.show {
                    let ours = number(quantity.of(run, phase));
                    let place = [&*cell.row, &cell.case, &phase.name];
                    let what = ["measured", quantity.name];
                    let rest = ["", "", &ours, "", ""];
                    out.write_record(begin.iter().chain(&what).chain(&place).chain(&rest))?;
                }
            }
        }
    }
    let bytes = out.into_inner().map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
