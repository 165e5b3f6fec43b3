//! Runs points on the cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use sim::{Experiment, Progress, RunError};

use crate::ended::Ended;
use crate::error::StudyError;
use crate::folder::Folder;
use crate::point::Point;

/// Who hears how far points are; indices are those of the points given to [`run`].
pub trait Watch: Sync {
    /// So much of a point is done, 0..=1.
    fn fraction(&self, point: usize, done: f64);

    /// A point has ended and is stored.
    fn ended(&self, point: usize, ended: &Ended);

    /// Whether to stop: points under way leave no result, and no other begins.
    fn stops(&self) -> bool;

    /// Whether a point may run; otherwise the sentence it fails with.
    ///
    /// # Errors
    /// The sentence.
    fn admit(&self, experiment: &Experiment) -> Result<(), String>;
}

/// Runs `points` on up to `threads` cores, and stores how each ended as soon as it has. `command` repeats the
/// study; `by` is version and commit of this program. Returns how many ended.
///
/// # Errors
/// [`StudyError::Io`] when a result cannot be stored; no other point begins then.
pub fn run(
    points: &[Point],
    folder: &Folder,
    threads: usize,
    (command, by): (&str, &str),
    watch: &dyn Watch,
) -> Result<usize, StudyError> {
    let next = AtomicUsize::new(0);
    let ended = AtomicUsize::new(0);
    let failure: Mutex<Option<StudyError>> = Mutex::new(None);
    let broken = || failure.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, points.len().max(1)) {
            scope.spawn(|| loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(point) = points.get(index).filter(|_| !watch.stops() && broken().is_none()) else {
                    break;
                };
                let Some(result) = one(index, point, command, watch) else { break };
                match folder.store(point, &result, by) {
                    Ok(()) => {
                        ended.fetch_add(1, Ordering::Relaxed);
                        watch.ended(index, &result);
                    }
                    Err(error) => *broken() = Some(error),
                }
            });
        }
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(ended.into_inner()),
    }
}

/// How a point ends; `None`: it was stopped.
fn one(index: usize, point: &Point, command: &str, watch: &dyn Watch) -> Option<Ended> {
    let failed = |reason: String, finding| Some(Ended::Failed { reason, finding });
    let experiment = match point.experiment(command) {
        Ok(experiment) => experiment,
        Err(error) => return failed(error.to_string(), false),
    };
    if let Err(sentence) = watch.admit(&experiment) {
        return failed(sentence, false);
    }
    let told = Told { watch, index, phases: Mutex::new((0, 1)) };
    // Of one experiment too, `compare` makes an error of a panic.
    match sim::compare(std::slice::from_ref(&experiment), 1, &told).pop()? {
        Ok(run) => Some(Ended::Run(Box::new(run))),
        Err(RunError::Stopped { .. }) => None,
        Err(error) => {
            failed(error.to_string(), matches!(error, RunError::Broken { .. } | RunError::Panicked { .. }))
        }
    }
}

/// A run's way to who watches the study.
struct Told<'a> {
    watch: &'a dyn Watch,
    index: usize,
    /// The phase under way, and how many there are.
    phases: Mutex<(usize, usize)>,
}

impl Progress for Told<'_> {
    fn phase(&self, _: usize, phase: usize, phases: usize, _: &str) {
        *self.phases.lock().unwrap_or_else(PoisonError::into_inner) = (phase, phases.max(1));
    }

    fn fraction(&self, _: usize, done: f64) {
        let (phase, phases) = *self.phases.lock().unwrap_or_else(PoisonError::into_inner);
        self.watch.fraction(self.index, (phase as f64 + done) / phases as f64);
    }

    fn stops(&self) -> bool {
        self.watch.stops()
    }
}
