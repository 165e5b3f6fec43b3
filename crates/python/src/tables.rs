//! Results as tables; what schemes, devices and generators there are.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;
use sim::results::{cells, csv_header, from_json, to_json, Run};
use study::Table;

use crate::errors::Class;

/// The version of the package.
#[pyfunction]
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

fn runs_of(py: Python<'_>, texts: &[String]) -> PyResult<Vec<Run>> {
    let mut found = Vec::with_capacity(texts.len());
    for text in texts {
        found.extend(from_json(text).map_err(|error| Class::Input.error(py, error))?);
    }
    Ok(found)
}

/// What tells runs apart, one JSON text for each.
#[pyfunction]
pub(crate) fn labels(py: Python<'_>, runs: Vec<String>) -> PyResult<Vec<String>> {
    Ok(sim::facts::labels(&runs_of(py, &runs)?))
}

/// Runs, one JSON text for each, as Parquet with the columns of `ftl compare --csv`: a row for each phase.
#[pyfunction]
pub(crate) fn table<'py>(py: Python<'py>, runs: Vec<String>) -> PyResult<Bound<'py, PyBytes>> {
    let runs = runs_of(py, &runs)?;
    let row = |run, phase| cells(run, phase).into_iter().map(|(_, cell)| cell).collect();
    let rows = runs.iter().flat_map(|run| run.phases.iter().map(move |phase| row(run, phase))).collect();
    let bytes = Table { columns: csv_header(), rows }.parquet();
    let bytes = bytes.map_err(|error| Class::Input.error(py, error))?;
    Ok(PyBytes::new(py, &bytes))
}

/// Runs of a text that `ftl compare --json` wrote, or `ftl size --json`, one JSON text for each.
#[pyfunction]
pub(crate) fn read_json(py: Python<'_>, text: &str) -> PyResult<Vec<String>> {
    let runs = from_json(text).map_err(|error| Class::Input.error(py, error))?;
    runs.iter().map(|run| crate::running::record(py, run)).collect()
}

/// Runs, one JSON text for each, as the text that `ftl compare --json` writes.
#[pyfunction]
pub(crate) fn write_json(py: Python<'_>, runs: Vec<String>) -> PyResult<String> {
    to_json(&runs_of(py, &runs)?).map_err(|error| Class::Input.error(py, error))
}

/// What there is, as a JSON object: schemes with their parameters, devices, generators, and the columns of
/// [`table`].
#[pyfunction]
pub(crate) fn listed() -> String {
    let parameter = |parameter: &ftl::Parameter| json!({ "name": parameter.name, "default": parameter.default, "what": parameter.what });
    let scheme = |info: &&ftl::Info| {
        let parameters: Vec<_> = info.parameters.iter().map(parameter).collect();
        json!({ "name": info.name, "what": info.what, "paper": info.paper, "parameters": parameters })
    };
    let generators: Vec<_> = workload::synth::catalogue()
        .iter()
        .map(|synth| json!({ "name": synth.name, "what": synth.what }))
        .collect();
    let schemes: Vec<_> = ftl::schemes::ALL.iter().map(scheme).collect();
    let devices = nand::DeviceSpec::presets();
    json!({ "schemes": schemes, "devices": devices, "workloads": generators, "columns": csv_header() })
        .to_string()
}

/// A JSON object as TOML, the form of study files and device files.
#[pyfunction]
pub(crate) fn to_toml(py: Python<'_>, text: &str) -> PyResult<String> {
    let wrong = |error: &dyn std::fmt::Display| Class::Input.error(py, error);
    let table: toml::Table = serde_json::from_str(text).map_err(|error| wrong(&error))?;
    toml::to_string_pretty(&table).map_err(|error| wrong(&error))
}

/// A preset or a device file in the form of a device file.
#[pyfunction]
pub(crate) fn device_text(py: Python<'_>, name: &str) -> PyResult<String> {
    let device = nand::DeviceSpec::load(name).map_err(|error| Class::Input.error(py, error))?;
    Ok(device.to_toml())
}
