//! The native part of the Python package `ftlkit`: what Python asks for, handed to the crates that do it.
//!
//! It has no logic of its own. Options come as JSON with the keys of [`sim::Setup`], results go back as the
//! JSON that `ftl compare --json` writes, tables as Parquet; `python/ftlkit` makes Python of them.
//!
//! | file | holds |
//! | --- | --- |
//! | `errors.rs` | errors of all crates as Python's exceptions, with the same sentence |
//! | `watch.rs` | a run on a thread of its own; Python's thread hears Ctrl-C and tells of progress |
//! | `columns.rs` | columns of numbers as a source of requests, read where they lie |
//! | `running.rs` | runs and comparisons |
//! | `mapping.rs` | a mapping written in Python, in the real engine |
//! | `checking.rs` | conformance and power cuts |
//! | `paper.rs` | the figures of papers |
//! | `serving.rs` | live devices: images, and an NBD server in a thread |
//! | `sizing.rs` | how large a mapping cache must be |
//! | `study.rs` | studies, their points and their results folder |
//! | `tables.rs` | results as tables; what schemes, devices and generators there are |

mod checking;
mod columns;
mod errors;
mod mapping;
mod paper;
mod running;
mod serving;
mod sizing;
mod study;
mod tables;
mod watch;

/// The module that Python imports as `ftlkit._ftlkit`.
#[pyo3::pymodule]
mod _ftlkit {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::checking::{conform, power_cuts};
    #[pymodule_export]
    use crate::columns::Columns;
    #[pymodule_export]
    use crate::mapping::TranslationTable;
    #[pymodule_export]
    use crate::paper::{paper_names, Paper};
    #[pymodule_export]
    use crate::running::{option_names, prepare, Prepared};
    #[pymodule_export]
    use crate::serving::{create_image, describe_image, Server};
    #[pymodule_export]
    use crate::sizing::size;
    #[pymodule_export]
    use crate::study::{run_point, Study};
    #[pymodule_export]
    use crate::tables::{device_text, labels, listed, read_json, table, to_toml, version, write_json};

    /// A panic becomes an exception with one sentence; the trace is for those who ask for it.
    #[pymodule_init]
    fn quiet_panics(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        if std::env::var_os("RUST_BACKTRACE").is_none_or(|value| value.is_empty() || value == "0") {
            std::panic::set_hook(Box::new(|_| {}));
        }
        Ok(())
    }
}
