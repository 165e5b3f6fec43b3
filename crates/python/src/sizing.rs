//! How large a mapping cache must be.

use pyo3::prelude::*;
use sim::setup::SchemeSpec;
use sim::size::{as_trace, Sweep};
use sim::{CacheSize, RunError};

use crate::columns::Columns;
use crate::errors::{self, Class};
use crate::running::{setup, threads_or_all};
use crate::watch::Watch;

/// What was found, as `ftl size --json` writes it, and what the user should know.
type Found = (String, Vec<String>);

/// Runs schemes, each with the text that says how to repeat it, with each of the caches.
#[pyfunction]
#[pyo3(signature = (options, schemes, caches, within, columns=None, threads=None, tell=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn size(
    py: Python<'_>,
    options: &str,
    schemes: Vec<(String, String)>,
    caches: Vec<String>,
    within: f64,
    columns: Option<&Columns>,
    threads: Option<usize>,
    tell: Option<Py<PyAny>>,
) -> PyResult<Found> {
    let wrong = |what: &dyn std::fmt::Display| Class::Input.error(py, what);
    let mut setup = setup(py, options, columns)?;
    as_trace(&mut setup);
    let resolved = py.detach(|| setup.resolve()).map_err(|error| errors::setup(py, &error))?;
    let specs = schemes.iter().map(|(scheme, _)| scheme.parse::<SchemeSpec>());
    let specs = specs.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&error))?;
    let caches = caches.iter().map(|cache| cache.parse::<CacheSize>());
    let caches = caches.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&error))?;
    let command = |scheme: &SchemeSpec| {
        let at = specs.iter().position(|known| known == scheme);
        at.map_or_else(String::new, |at| schemes[at].1.clone())
    };
    let mut sweep = Sweep::new(&resolved, &specs, &caches, &command).map_err(|error| wrong(&error))?;
    let watch = Watch::new(sweep.experiments.len(), tell);
    watch.attend(py, || sweep.read_once(&watch))?.map_err(|error| errors::input(py, &error))?;
    let results = watch.attend(py, || sim::compare(&sweep.experiments, threads_or_all(threads), &watch))?;
    let (runs, left_out) = sweep.ran(results).map_err(|error| errors::run(py, &error))?;
    let Some((curve, _)) = sweep.curve(&runs, within) else {
        return Err(errors::run(py, &RunError::Stopped { scheme: sim::size::IDEAL.to_owned() }));
    };
    if runs.len() == 1 && sweep.names.len() > 1 {
        return Err(wrong(&"no scheme can run with any of these caches; give larger ones"));
    }
    let document = curve.to_value(&runs).map_err(|error| wrong(&error))?;
    Ok((document.to_string(), resolved.notes.into_iter().chain(left_out).collect()))
}
