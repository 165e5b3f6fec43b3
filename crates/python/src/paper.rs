//! The figures of papers.

use papers::{load, names, open, Figure, Plan, Results, Scale, Shown};
use pyo3::prelude::*;
use serde_json::json;
use study::Ended;

use crate::errors::Class;
use crate::running::threads_or_all;
use crate::watch::Watch;

fn found(name: &str, scale: Scale) -> Result<papers::Paper, papers::PaperError> {
    if name.ends_with(".toml") {
        open(name, scale)
    } else {
        load(name, scale)
    }
}

/// Papers with their figures that are simulated, as a JSON list.
#[pyfunction]
pub(crate) fn paper_names(py: Python<'_>) -> PyResult<String> {
    let mut all = Vec::new();
    for name in names() {
        let paper = found(name, Scale::Quick).map_err(|error| Class::Input.error(py, error))?;
        let simulated = paper.figures.iter().filter(|figure| !figure.live);
        let figures: Vec<_> =
            simulated.map(|figure| json!({ "figure": figure.id, "title": figure.title })).collect();
        all.push(json!({ "name": name, "title": paper.about.title, "figures": figures }));
    }
    Ok(json!(all).to_string())
}

/// Figures of a paper that are simulated, ready to be run.
#[pyclass(frozen, module = "ftlkit._ftlkit")]
pub(crate) struct Paper {
    paper: papers::Paper,
    scale: Scale,
    /// Indexes of the figures that were asked for.
    chosen: Vec<usize>,
    plan: Plan,
}

#[pymethods]
impl Paper {
    /// No figures named: all; no schemes named: all.
    #[new]
    fn new(
        py: Python<'_>,
        name: &str,
        figures: Vec<String>,
        schemes: Vec<String>,
        full: bool,
        seed: u64,
    ) -> PyResult<Paper> {
        let wrong = |error: &dyn std::fmt::Display| Class::Input.error(py, error);
        let scale = if full { Scale::Full } else { Scale::Quick };
        let paper = found(name, scale).map_err(|error| wrong(&error))?;
        let simulated = || paper.figures.iter().enumerate().filter(|(_, figure)| !figure.live);
        if let Some(unknown) = figures.iter().find(|id| !simulated().any(|(_, figure)| figure.id == **id)) {
            let known: Vec<&str> = simulated().map(|(_, figure)| figure.id.as_str()).collect();
            let known = known.join(", ");
            return Err(wrong(&format!(
                "{name} has no figure `{unknown}` that is simulated; there are {known}"
            )));
        }
        let wanted = |figure: &Figure| figures.is_empty() || figures.contains(&figure.id);
        let chosen: Vec<usize> =
            simulated().filter(|(_, figure)| wanted(figure)).map(|(index, _)| index).collect();
        let keep = |scheme: &str| schemes.is_empty() || schemes.iter().any(|asked| asked == scheme);
        let repeat = format!("ftl paper {name}{} --seed {seed}", if full { " --full" } else { "" });
        let asked: Vec<&Figure> = chosen.iter().map(|&index| &paper.figures[index]).collect();
        let plan = py.detach(|| Plan::new(&asked, &keep, seed, &repeat)).map_err(|error| wrong(&error))?;
        if plan.points.is_empty() {
            return Err(wrong(&format!("no figure of {name} runs any of these schemes")));
        }
        Ok(Paper { paper, scale, chosen, plan })
    }

    /// How many runs it takes.
    fn __len__(&self) -> usize {
        self.plan.points.len()
    }

    /// Runs them. Gives what `ftl paper --json` writes.
    #[pyo3(signature = (threads=None, tell=None))]
    fn run(&self, py: Python<'_>, threads: Option<usize>, tell: Option<Py<PyAny>>) -> PyResult<String> {
        let wrong = |error: &dyn std::fmt::Display| Class::Input.error(py, error);
        let experiments = self.plan.points.iter().map(|point| point.experiment(""));
        let experiments = experiments.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&error))?;
        let watch = Watch::new(experiments.len(), tell);
        let ended = watch.attend(py, || sim::compare(&experiments, threads_or_all(threads), &watch))?;
        let ended: Option<Vec<Ended>> = ended.into_iter().map(Ended::of).collect();
        let ended = ended.ok_or_else(|| Class::Stopped.error(py, "stopped before the runs ended"))?;
        for (ended, label) in ended.iter().zip(&self.plan.labels) {
            if let Ended::Failed { reason, finding: true } = ended {
                return Err(Class::Finding.error(py, format!("{label}: {reason}")));
            }
        }
        let shown = self.chosen.iter().enumerate().map(|(figure, &index)| {
            let results = Results { plan: &self.plan, ended: &ended, figure, bench: None };
            Shown::new(&self.paper.figures[index], results)
        });
        let shown: Vec<Shown<'_>> = shown.collect();
        Ok(papers::json(&self.paper, &shown, self.scale).map_err(|error| wrong(&error))?.to_string())
    }
}
