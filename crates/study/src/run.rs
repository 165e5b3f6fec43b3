//! Runs points on the cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use sim::results::Run;
use sim::{run_batch, BadValue, Batch, Experiment, Progress, RunError};

use crate::ended::Ended;
use crate::error::StudyError;
use crate::folder::Folder;
use crate::point::Point;

/// Refuses an experiment with a sentence.
type Admit<'a> = dyn Fn(&Experiment) -> Result<(), String> + Sync + 'a;

/// Runs `points` on up to `threads` cores, and stores how each ended as soon as it has. Points that begin
/// alike run one after the other and share a warm-up ([`run_batch`]). `command` repeats the study; `by` is
/// version and commit of this program. `progress` hears of each point by its index; when it asks to stop,
/// points under way leave no result. `admit` may refuse a point with a sentence, which is what the point
/// fails with. Returns how many ended.
///
/// # Errors
/// [`StudyError::Io`] when a result cannot be stored; no other point begins then.
pub fn run(
    points: &[Point],
    folder: &Folder,
    threads: usize,
    (command, by): (&str, &str),
    progress: &dyn Progress,
    admit: &Admit,
) -> Result<usize, StudyError> {
    let (ended, failure) = (AtomicUsize::new(0), Mutex::new(None));
    let batch = Points { points, folder, command, by, progress, admit, ended, failure };
    run_batch(&batch, threads, progress);
    match batch.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(batch.ended.into_inner()),
    }
}

struct Points<'a> {
    points: &'a [Point],
    folder: &'a Folder,
    command: &'a str,
    by: &'a str,
    progress: &'a dyn Progress,
    admit: &'a Admit<'a>,
    ended: AtomicUsize,
    failure: Mutex<Option<StudyError>>,
}

impl Batch for Points<'_> {
    fn count(&self) -> usize {
        self.points.len()
    }

    fn kin(&self, index: usize) -> String {
        self.points[index].kin()
    }

    fn experiment(&self, index: usize) -> Result<Experiment, RunError> {
        let point = &self.points[index];
        if self.progress.stops() {
            return Err(RunError::Stopped { scheme: point.scheme.name.clone() });
        }
        let experiment = point.experiment(self.command).map_err(|error| error.to_string());
        let admitted = experiment.and_then(|found| (self.admit)(&found).map(|()| found));
        admitted.map_err(|sentence| RunError::Spec(BadValue(sentence)))
    }

    fn ended(&self, index: usize, result: Result<Run, RunError>) -> bool {
        let Some(ended) = Ended::of(result) else { return false };
        match self.folder.store(&self.points[index], &ended, self.by) {
            Ok(()) => {
                self.ended.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(error) => {
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                false
            }
        }
    }
}
