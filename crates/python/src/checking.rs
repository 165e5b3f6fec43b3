//! Conformance and power cuts, of schemes of the registry and of mappings in Python.

use check::{conformance, conformance_of, sweep, sweep_of, Failure, SweepOptions};
use nand::CrashNand;
use pyo3::prelude::*;
use serde_json::json;
use sim::setup::SchemeSpec;

use crate::errors::Class as Error;
use crate::mapping::{self, Class};
use crate::watch::Watch;

/// What is checked: the text of a scheme, or a name and a function that makes a mapping.
#[derive(FromPyObject)]
pub(crate) enum Checked {
    Scheme(String),
    Mapping(String, Py<PyAny>),
}

/// A failure as an exception: `repeat` says how to see it again, in Python's words.
fn raised(py: Python<'_>, failure: &Failure, scheme: &str, class: Option<&Class>) -> PyErr {
    let cut = failure.cut.map_or_else(String::new, |cut| format!(", cut {cut}"));
    let (seed, what) = (failure.seed, failure.what.split_whitespace().collect::<Vec<_>>().join(" "));
    let error =
        Error::Finding.error(py, format!("scheme {scheme}, seed {seed}{cut}, {}: {what}", failure.phase));
    error.set_cause(py, class.and_then(Class::take_raised));
    error
}

/// Everything that a host and flash can do to a scheme, without a clock. Gives what was done, as JSON.
#[pyfunction]
#[pyo3(name = "conformance", signature = (scheme, seed, tell=None))]
pub(crate) fn conform(
    py: Python<'_>,
    scheme: Checked,
    seed: u64,
    tell: Option<Py<PyAny>>,
) -> PyResult<String> {
    let watch = Watch::new(1, tell);
    watch.far(0, 1);
    let (name, class, ended) = match scheme {
        Checked::Scheme(name) => {
            SchemeSpec::info(&name).map_err(|error| Error::Input.error(py, error))?;
            let ended = watch.attend(py, || conformance(&name, seed))?;
            (name, None, ended)
        }
        Checked::Mapping(name, make) => {
            let class = Class::new(make, &watch);
            let ended =
                watch.attend(py, || class.during(|| conformance_of::<mapping::Scheme>(&name, seed)))?;
            (name, Some(class), ended)
        }
    };
    let report = ended.map_err(|failure| raised(py, &failure, &name, class.as_ref()))?;
    let mut found = json!({
        "scheme": name, "seed": seed, "reads": report.reads, "writes": report.writes, "trims": report.trims,
        "unreadable": report.unreadable, "collections_data": report.collections_data,
        "collections_translation": report.collections_translation, "programs_failed": report.programs_failed,
        "erases_failed": report.erases_failed,
    });
    if let Some(class) = class {
        let (calls, call_us) = class.calls();
        (found["calls"], found["call_us"]) = (json!(calls), json!(call_us));
    }
    Ok(found.to_string())
}

/// Cuts the power at any moment of a run and recovers, again and again. Gives what was done, as JSON.
#[pyfunction]
#[pyo3(signature = (scheme, cuts, seed, faults, cut=None, tell=None))]
pub(crate) fn power_cuts(
    py: Python<'_>,
    scheme: Checked,
    cuts: u64,
    seed: u64,
    faults: bool,
    cut: Option<u64>,
    tell: Option<Py<PyAny>>,
) -> PyResult<String> {
    let watch = Watch::new(1, tell);
    let stop = watch.stop();
    let mut progress = |done, all| {
        watch.far(done, all);
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            std::panic::resume_unwind(Box::new("stopped"));
        }
    };
    let options = |name: &str| SweepOptions { faults, only_cut: cut, ..SweepOptions::new(name, seed, cuts) };
    let (name, class, ended) = match scheme {
        Checked::Scheme(text) => {
            let spec: SchemeSpec = text.parse().map_err(|error| Error::Input.error(py, error))?;
            let options = SweepOptions { parameters: spec.parameters.clone(), ..options(&spec.name) };
            (text, None, watch.attend(py, || sweep(&options, &mut progress))?)
        }
        Checked::Mapping(name, make) => {
            let (class, options) = (Class::new(make, &watch), options(&name));
            let ended = watch.attend(py, || {
                class.during(|| sweep_of::<mapping::Scheme, CrashNand>(&options, &mut progress))
            })?;
            (name, Some(class), ended)
        }
    };
    let report = match ended {
        Err(failure) if failure.no_such_cut => return Err(Error::Input.error(py, failure.what)),
        ended => ended.map_err(|failure| raised(py, &failure, &name, class.as_ref()))?,
    };
    let found = json!({
        "scheme": name, "seed": seed, "runs": report.runs, "cuts": report.cuts, "nested_cuts": report.nested_cuts,
        "torn_pages": report.torn_pages, "torn_blocks": report.torn_blocks, "completed": report.completed,
        "dropped": report.dropped, "not_exercised": report.not_exercised(), "elapsed_s": report.elapsed.as_secs_f64(),
    });
    Ok(found.to_string())
}
