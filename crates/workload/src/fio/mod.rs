//! fio job files, read as fio reads them and run in virtual time.
//!
//! A file is a list of sections; `[global]` sections set defaults for the jobs below them. Jobs run together
//! until a section with `stonewall` starts the next [`Phase`]. One convention is ours, and still valid for
//! fio itself: a section whose name starts with `warmup` is run with the clock off and not measured.
//!
//! What differs from fio, because there is one device and no file system:
//! - all jobs and all their clones share the device, as if `filename=` named it; `size` without a value is
//!   the device less the offset;
//! - the order of random blocks is ours, the coverage is fio's: without `norandommap` each block is visited
//!   once per pass, by a permutation for one block size and a bitmap for several; each pass has an order of
//!   its own, where fio repeats the first;
//! - `fsync=N` flushes after every N writes; fio 3.33 repeats that flush while reads follow in a mixed job;
//! - `zipf` follows the law exactly; `normal` is a bell over the addresses, as the manual describes it, where
//!   fio 3.33 scatters it by a hash;
//! - a last partial block of a region is left out;
//! - `bsrange` is uniform over the multiples of its lower end.
//!
//! Keys that change nothing here are accepted, keys without effect draw a warning, keys that would change the
//! experiment are errors. See `HOWTO.rst` of fio for the keys themselves.

mod keys;
mod options;
mod spec;
mod stream;
mod units;

pub use spec::{BlockSize, Distribution, JobSpec, Pattern};
pub use stream::JobStream;
pub use units::Amount;

use crate::InputError;
use options::{Entry, Section};

/// A parsed job file.
#[derive(Debug, Clone)]
pub struct JobFile {
    /// The phases in order, at least one, each with at least one job.
    pub phases: Vec<Phase>,
    /// One sentence for each key that was accepted but has no effect here, with its place.
    pub warnings: Vec<String>,
}

/// Jobs that run at the same time.
#[derive(Debug, Clone)]
pub struct Phase {
    /// The jobs, before `numjobs` multiplies them.
    pub jobs: Vec<JobSpec>,
    /// Run with the clock off and do not measure: the names start with `warmup`.
    pub warm_up: bool,
}

impl JobFile {
    /// Reads a job file's text; `name` is its name in messages.
    ///
    /// Errors: anything that fio would refuse, and keys whose meaning we would not keep.
    pub fn parse(name: &str, text: &str) -> Result<JobFile, InputError> {
        let mut warnings = Vec::new();
        let sections = options::sections(name, text)?;
        let mut globals: Vec<Entry> = Vec::new();
        let mut phases: Vec<Phase> = Vec::new();
        let mut jobs = 0;
        for section in sections {
            options::judge(name, &section, &mut warnings)?;
            if section.name == "global" {
                globals.extend(section.entries);
                continue;
            }
            let job = options::job(name, &section, &globals, jobs, &mut warnings)?;
            jobs += 1;
            place(name, &section, job, &mut phases)?;
        }
        if phases.is_empty() {
            return Err(InputError::in_file(
                name,
                "there is no job in this file; add a section such as [randread] with rw=randread",
            ));
        }
        Ok(JobFile { phases, warnings })
    }
}

fn place(name: &str, section: &Section, job: JobSpec, phases: &mut Vec<Phase>) -> Result<(), InputError> {
    let warm_up = job.name.starts_with("warmup");
    match phases.last_mut() {
        Some(phase) if !job.stonewall => {
            if phase.warm_up != warm_up {
                return Err(InputError::at(
                    name,
                    section.line,
                    0,
                    format!(
                        "[{}] would run together with a warm-up section; put stonewall in it",
                        section.name
                    ),
                ));
            }
            phase.jobs.push(job);
        }
        _ => phases.push(Phase { jobs: vec![job], warm_up }),
    }
    Ok(())
}
