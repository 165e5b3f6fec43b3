//! Errors of all crates as exceptions of `ftlkit`, with the same sentence.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use sim::{RunError, SetupError};
use workload::InputError;

/// An exception class of `ftlkit._errors`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Class {
    /// Something impossible was asked for.
    Input,
    /// A file cannot be read or written.
    File,
    /// A request could not be carried out, or the device failed.
    Device,
    /// It was asked to stop.
    Stopped,
    /// A bug: a broken invariant, or a panic.
    Finding,
}

impl Class {
    fn get(self, py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
        static CLASSES: [PyOnceLock<Py<PyType>>; 5] = [const { PyOnceLock::new() }; 5];
        let names = ["InputError", "FileError", "DeviceError", "StoppedError", "FindingError"];
        CLASSES[self as usize].import(py, "ftlkit._errors", names[self as usize])
    }

    /// An exception of this class.
    pub(crate) fn error(self, py: Python<'_>, sentence: impl ToString) -> PyErr {
        match self.get(py) {
            Ok(class) => PyErr::from_type(class.clone(), (sentence.to_string(),)),
            Err(error) => error,
        }
    }
}

/// A file that is named and cannot be opened makes the difference: the sentence is about the file then.
fn of_file(name: &str) -> Class {
    let unreadable = std::fs::File::open(name).is_err() || std::path::Path::new(name).is_dir();
    if unreadable && !name.is_empty() {
        Class::File
    } else {
        Class::Input
    }
}

/// An error of a workload.
pub(crate) fn input(py: Python<'_>, error: &InputError) -> PyErr {
    // A job file at hand as text has a name too, and is no file.
    let class = if error.line() > 0 { Class::Input } else { of_file(error.file()) };
    class.error(py, error)
}

/// An error of a set-up.
pub(crate) fn setup(py: Python<'_>, error: &SetupError) -> PyErr {
    match error {
        SetupError::Input(error) => input(py, error),
        error => Class::Input.error(py, error),
    }
}

/// An error of a run.
pub(crate) fn run(py: Python<'_>, error: &RunError) -> PyErr {
    match error {
        RunError::Input(error) => input(py, error),
        RunError::Spec(_) | RunError::Open(ftl::OpenError::Config(_)) => Class::Input.error(py, error),
        RunError::Open(_) | RunError::Request { .. } | RunError::Overload { .. } => {
            Class::Device.error(py, error)
        }
        RunError::Stopped { .. } => Class::Stopped.error(py, error),
        RunError::Broken { .. } | RunError::Panicked { .. } => Class::Finding.error(py, error),
    }
}
