//! Fuzz targets: everything that reads bytes which somebody else wrote.
//!
//! A target is one function of bytes. It must return, soon, and in little memory, whatever the bytes are; a
//! panic is a finding. Where what was read can be written, it must be read back as the same.
//!
//! | file | what |
//! | --- | --- |
//! | `text.rs` | traces, tables, job files, device files, studies, figures, results, values of options |
//! | `image.rs` | image files, damaged; and with CRCs that fit, for recovery to look at |
//! | `nbd.rs`, `vhost.rs` | clients of a live device |
//! | `mutate.rs`, `runner.rs` | inputs made of a corpus by chance, and what became of them |
//!
//! cargo-fuzz runs the same functions (`fuzz/`), with `make fuzz`.
#![forbid(unsafe_code)]

mod image;
mod mutate;
mod nbd;
mod runner;
mod scratch;
mod text;
mod vhost;

pub use mutate::mutation;
pub use runner::{campaign, input, Bounds, Finding};

/// Something that reads bytes which it cannot trust.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// Reads `bytes`; a panic is a finding.
    pub run: fn(&[u8]),
    /// What its inputs are made of, if they are text.
    pub words: &'static [&'static str],
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "trace", run: text::trace, words: text::TRACE_WORDS },
    Target { name: "table", run: text::table, words: text::TRACE_WORDS },
    Target { name: "jobs", run: text::jobs, words: text::JOB_WORDS },
    Target { name: "device", run: text::device, words: text::DEVICE_WORDS },
    Target { name: "study", run: text::study, words: text::STUDY_WORDS },
    Target { name: "figure", run: text::figure, words: text::STUDY_WORDS },
    Target { name: "results", run: text::results, words: text::RESULT_WORDS },
    Target { name: "values", run: text::values, words: text::VALUE_WORDS },
    Target { name: "image", run: image::damaged, words: &[] },
    Target { name: "recovery", run: image::forged, words: &[] },
    Target { name: "nbd", run: nbd::client, words: &[] },
    Target { name: "vhost", run: vhost::guest, words: &[] },
];

/// The target of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Runs the target called `name`, as cargo-fuzz does.
///
/// # Panics
/// There is no such target, or the input is a finding.
pub fn run(name: &str, bytes: &[u8]) {
    let target = target(name).unwrap_or_else(|| panic!("there is no target {name}"));
    // A panic that the product catches and reports is not the end: cargo-fuzz's own hook would abort.
    runner::quiet(false);
    (target.run)(bytes);
}
