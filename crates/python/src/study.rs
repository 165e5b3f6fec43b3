//! Studies: their points, and their results folder.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;
use sim::results::from_json;
use sim::RunError;
use study::{Ended, Folder, Point, Stored, StudyError, Table};

use crate::errors::{self, Class};
use crate::running::{record, setup, threads_or_all};
use crate::watch::Watch;

/// What results say made them.
const BY: &str = concat!(env!("CARGO_PKG_VERSION"), " (Python)");

fn raised(py: Python<'_>, error: &StudyError) -> PyErr {
    match error {
        StudyError::Io { .. } => Class::File.error(py, error),
        _ => Class::Input.error(py, error),
    }
}

/// Number, ID, scheme, seed, options as JSON, and the label.
type Row = (usize, String, String, u64, String, String);
/// Record, or reason and whether it is a bug.
type Outcome = (Option<String>, Option<String>, bool);

/// A study file, read.
#[pyclass(frozen, module = "ftlkit._ftlkit")]
pub(crate) struct Study {
    study: study::Study,
    file: PathBuf,
}

impl Study {
    fn point(&self, py: Python<'_>, number: usize) -> PyResult<&Point> {
        self.study.point(number).map_err(|error| raised(py, &error))
    }

    fn stored(&self, py: Python<'_>, folder: PathBuf) -> PyResult<Vec<Option<Stored>>> {
        py.detach(|| Folder::at(&folder).load_all(&self.study)).map_err(|error| raised(py, &error))
    }
}

#[pymethods]
impl Study {
    #[new]
    fn new(py: Python<'_>, file: PathBuf) -> PyResult<Study> {
        let study = study::Study::open(&file).map_err(|error| raised(py, &error))?;
        Ok(Study { study, file })
    }

    /// What it asks.
    #[getter]
    fn title(&self) -> &str {
        &self.study.title
    }

    /// Its runs, in order.
    fn points(&self) -> Vec<Row> {
        let row = |point: &Point| {
            let (id, scheme, options) =
                (point.id.clone(), point.scheme.to_string(), point.options().to_string());
            (point.number, id, scheme, point.seed, options, point.label())
        };
        self.study.points.iter().map(row).collect()
    }

    /// The command that repeats its points.
    #[getter]
    fn command(&self) -> String {
        format!("ftl study {} --again", self.file.display())
    }

    /// Numbers of the points that have no run in the results folder, which is made if there is none.
    fn open_points(&self, py: Python<'_>, folder: PathBuf, again: bool) -> PyResult<Vec<usize>> {
        let open = || {
            let folder = Folder::create(&folder)?;
            let mut open = Vec::new();
            for point in &self.study.points {
                if again || !folder.has(point)? {
                    open.push(point.number);
                }
            }
            Ok(open)
        };
        py.detach(open).map_err(|error| raised(py, &error))
    }

    /// Runs points on the cores, and stores how each ended. Gives how many did.
    #[pyo3(signature = (numbers, folder, threads=None, tell=None))]
    fn run(
        &self,
        py: Python<'_>,
        numbers: Vec<usize>,
        folder: PathBuf,
        threads: Option<usize>,
        tell: Option<Py<PyAny>>,
    ) -> PyResult<usize> {
        let points = numbers.iter().map(|&number| self.point(py, number).cloned());
        let points = points.collect::<PyResult<Vec<_>>>()?;
        let folder = Folder::create(&folder).map_err(|error| raised(py, &error))?;
        let (watch, command) = (Watch::new(points.len(), tell), self.command());
        let ended = watch.attend(py, || {
            study::run(&points, &folder, threads_or_all(threads), (&command, BY), &watch, &|_| Ok(()))
        })?;
        ended.map_err(|error| raised(py, &error))
    }

    /// Stores how a point ended that ran elsewhere: its record, or the reason for which there is none.
    fn store(&self, py: Python<'_>, number: usize, folder: PathBuf, outcome: Outcome) -> PyResult<()> {
        let (run, reason, finding) = outcome;
        let ended = match (run, reason) {
            (Some(text), _) => {
                let runs = from_json(&text).map_err(|error| Class::Input.error(py, error))?;
                let run = runs.into_iter().next();
                Ended::Run(Box::new(
                    run.ok_or_else(|| Class::Input.error(py, "there is no run in the record"))?,
                ))
            }
            (None, reason) => Ended::Failed { reason: reason.unwrap_or_default(), finding },
        };
        let point = self.point(py, number)?;
        Folder::at(&folder).store(point, &ended, BY).map_err(|error| raised(py, &error))
    }

    /// How each point ended; `None`: it has not.
    fn outcomes(&self, py: Python<'_>, folder: PathBuf) -> PyResult<Vec<Option<Outcome>>> {
        let outcome = |stored: Option<Stored>| {
            stored.map(|stored| match stored.ended {
                Ended::Run(run) => Ok((Some(record(py, &run)?), None, false)),
                Ended::Failed { reason, finding } => Ok((None, Some(reason), finding)),
            })
        };
        self.stored(py, folder)?.into_iter().map(|stored| outcome(stored).transpose()).collect()
    }

    /// Writes the files that hold all points that have ended.
    fn write_whole(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        let stored = self.stored(py, folder.clone())?;
        py.detach(|| Folder::at(&folder).write_whole(&self.study, &stored))
            .map_err(|error| raised(py, &error))
    }

    /// A row for each point and phase, as Parquet.
    fn table<'py>(&self, py: Python<'py>, folder: PathBuf) -> PyResult<Bound<'py, PyBytes>> {
        let table = Table::new(&self.study, &self.stored(py, folder)?);
        Ok(PyBytes::new(py, &table.parquet().map_err(|error| Class::Input.error(py, error))?))
    }

    /// Means over the seeds with their 95 % confidence intervals, as a JSON list.
    fn summary(&self, py: Python<'_>, folder: PathBuf) -> PyResult<String> {
        let stored = self.stored(py, folder)?;
        let row = |row: study::summary::Row<'_>| {
            let (mut means, mut half_widths) = (serde_json::Map::new(), serde_json::Map::new());
            for (quantity, mean) in self.study.show.iter().zip(&row.means) {
                means.insert(quantity.name.to_owned(), json!(mean.map(|mean| mean.mean)));
                half_widths.insert(quantity.name.to_owned(), json!(mean.and_then(|mean| mean.half_width)));
            }
            json!({ "point": row.point.name(), "phase": row.phase, "done": row.done, "failed": row.failed,
                    "points": row.points, "means": means, "half_widths": half_widths })
        };
        let rows: Vec<_> = study::summary::rows(&self.study, &stored).into_iter().map(row).collect();
        Ok(json!(rows).to_string())
    }
}

/// Runs one point anywhere: its record, or why there is none.
#[pyfunction]
pub(crate) fn run_point(
    py: Python<'_>,
    options: &str,
    scheme: &str,
    seed: u64,
    command: &str,
) -> PyResult<Outcome> {
    let setup = sim::Setup { seed: Some(seed), ..setup(py, options, None)? };
    let scheme: sim::setup::SchemeSpec = scheme.parse().map_err(|error| Class::Input.error(py, error))?;
    let resolved = match py.detach(|| setup.resolve()) {
        Ok(resolved) => resolved,
        Err(error) => return Ok((None, Some(error.to_string()), false)),
    };
    let experiment = sim::Experiment { command: command.to_owned(), ..resolved.experiment(&scheme) };
    let watch = Watch::new(1, None);
    match Ended::of(watch.attend(py, || sim::run(&experiment, &watch))?) {
        Some(Ended::Run(run)) => Ok((Some(record(py, &run)?), None, false)),
        Some(Ended::Failed { reason, finding }) => Ok((None, Some(reason), finding)),
        None => Err(errors::run(py, &RunError::Stopped { scheme: scheme.to_string() })),
    }
}
