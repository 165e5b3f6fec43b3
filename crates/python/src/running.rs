//! Runs and comparisons.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use sim::results::{to_value, Run};
use sim::setup::{Resolved, SchemeSpec};
use sim::{Experiment, Load, Progress, RunError, Setup, SetupError};
use workload::{InputError, Request};

use crate::columns::Columns;
use crate::errors::{self, Class as Error};
use crate::mapping::{self, Class};
use crate::watch::Watch;

/// The names of all options, spelled as on the command line.
#[pyfunction]
pub(crate) fn option_names() -> Vec<&'static str> {
    Setup::names().to_vec()
}

/// A set-up from options as a JSON object, and requests at hand.
pub(crate) fn setup(py: Python<'_>, options: &str, columns: Option<&Columns>) -> PyResult<Setup> {
    let entries: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(options).map_err(|error| Error::Input.error(py, format!("options: {error}")))?;
    let setup = Setup::from_entries(entries).map_err(|error| errors::setup(py, &error))?;
    Ok(Setup { given: columns.map(|columns| columns.given.clone()), ..setup })
}

/// Reads what the options name, and checks what can be checked before anything runs.
#[pyfunction]
#[pyo3(signature = (options, columns=None))]
pub(crate) fn prepare(py: Python<'_>, options: &str, columns: Option<&Columns>) -> PyResult<Prepared> {
    let setup = setup(py, options, columns)?;
    let resolved = py.detach(|| setup.resolve()).map_err(|error| match &error {
        // A job file at hand as text has a name, too, and is no file.
        SetupError::Input(input) if setup.jobs.as_ref().is_some_and(|jobs| jobs.name == input.file()) => {
            Error::Input.error(py, input)
        }
        error => errors::setup(py, error),
    })?;
    Ok(Prepared { resolved })
}

/// A workload on a device, ready to be run with any scheme.
#[pyclass(frozen, module = "ftlkit._ftlkit")]
pub(crate) struct Prepared {
    resolved: Resolved,
}

impl Prepared {
    /// The experiment of a scheme; `repeat` says how to repeat it.
    pub(crate) fn experiment(&self, py: Python<'_>, scheme: &str, repeat: &str) -> PyResult<Experiment> {
        let scheme: SchemeSpec = scheme.parse().map_err(|error| Error::Input.error(py, error))?;
        Ok(Experiment { command: repeat.to_owned(), ..self.resolved.experiment(&scheme) })
    }
}

#[pymethods]
impl Prepared {
    /// What the user should know before it runs.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.resolved.notes.clone()
    }

    /// The measured requests from the first on, up to so many, as bytes of arrays: arrival (i64, ns), kind
    /// (u8), first byte (i64), length (i64, bytes).
    fn requests<'py>(&self, py: Python<'py>, most: usize) -> PyResult<[Bound<'py, PyBytes>; 4]> {
        let experiment =
            self.resolved.experiment(&SchemeSpec { name: String::new(), parameters: Default::default() });
        let watch = Watch::new(1, None);
        let found = watch
            .attend(py, || requests(&experiment, most, &watch))?
            .map_err(|error| errors::input(py, &error))?;
        Ok(found.map(|bytes| PyBytes::new(py, &bytes)))
    }

    /// Runs a mapping in Python, which `make` makes, under a name, with the text that says how to repeat it.
    #[pyo3(signature = (make, name, repeat, tell=None))]
    fn run_mapping<'py>(
        &self,
        py: Python<'py>,
        make: Py<PyAny>,
        name: String,
        repeat: String,
        tell: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let spec = SchemeSpec { name, parameters: Default::default() };
        let experiment = Experiment { command: repeat, ..self.resolved.experiment(&spec) };
        let watch = Watch::new(1, tell);
        let class = Class::new(make, &watch);
        let ended =
            watch.attend(py, || class.during(|| sim::run_of::<mapping::Scheme>(&experiment, &watch)))?;
        let outcome = outcome(py, ended)?;
        if let Some(raised) = class.take_raised() {
            outcome.setattr("__cause__", raised.into_value(py))?;
        }
        Ok(outcome)
    }

    /// Runs schemes, each with the text that says how to repeat its run. Gives for each of them the record as
    /// JSON, or the exception that it ended with.
    #[pyo3(signature = (schemes, threads=None, tell=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        schemes: Vec<(String, String)>,
        threads: Option<usize>,
        tell: Option<Py<PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let experiments = schemes.iter().map(|(scheme, repeat)| self.experiment(py, scheme, repeat));
        let experiments = experiments.collect::<PyResult<Vec<_>>>()?;
        let rehearsed = py.detach(|| experiments.iter().try_for_each(sim::rehearse));
        rehearsed.map_err(|error| errors::run(py, &error))?;
        let watch = Watch::new(experiments.len(), tell);
        let ended = watch.attend(py, || sim::compare(&experiments, threads_or_all(threads), &watch))?;
        ended.into_iter().map(|ended| outcome(py, ended)).collect()
    }
}

fn requests(experiment: &Experiment, most: usize, watch: &Watch) -> Result<[Vec<u8>; 4], InputError> {
    let mut found: [Vec<u8>; 4] = Default::default();
    let source = experiment.phases.iter().find_map(|phase| match &phase.load {
        Load::Open { source, .. } | Load::Closed { source, .. } => Some(source),
        Load::Jobs(_) | Load::WarmUp(_) | Load::Rest => None,
    });
    let source = source.ok_or_else(|| {
        InputError::in_file(
            "",
            "jobs wait for each other, so their requests are no list; give a trace, a generator or a frame",
        )
    })?;
    let all = source.requests(experiment.device.exported_bytes(), experiment.seed)?;
    for request in all.take(most).take_while(|_| !watch.stops()) {
        let Request { arrival_ns, kind, offset, bytes } = request?;
        for (to, value) in [(0, arrival_ns), (2, offset), (3, bytes)] {
            found[to].extend_from_slice(&value.to_ne_bytes());
        }
        found[1].push(kind.index() as u8);
    }
    Ok(found)
}

/// Threads asked for, else the processors of this machine.
pub(crate) fn threads_or_all(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// A run as JSON, or its exception; that of a broken invariant holds the record as `record`.
pub(crate) fn outcome(py: Python<'_>, ended: Result<Run, RunError>) -> PyResult<Bound<'_, PyAny>> {
    match ended {
        Ok(run) => Ok(PyString::new(py, &record(py, &run)?).into_any()),
        Err(error) => {
            let value = errors::run(py, &error).into_value(py).into_bound(py).into_any();
            if let RunError::Broken { run, .. } = &error {
                value.setattr("record", record(py, run)?)?;
            }
            Ok(value)
        }
    }
}

/// A run as the JSON that `ftl run --json` writes for it.
pub(crate) fn record(py: Python<'_>, run: &Run) -> PyResult<String> {
    to_value(run).map(|value| value.to_string()).map_err(|error| Error::Input.error(py, error))
}
