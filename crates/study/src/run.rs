//! Runs points on the cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use sim::{Experiment, Progress, RunError};

use crate::ended::Ended;
use crate::error::StudyError;
use crate::folder::Folder;
use crate::point::Point;

/// Runs `points` on up to `threads` cores, and stores how each ended as soon as it has. `command` repeats the
/// study; `by` is version and commit of this program. `progress` hears of each point by its index; when it
/// asks to stop, points under way leave no result. `admit` may refuse a point with a sentence, which is what
/// the point fails with. Returns how many ended.
///
/// # Errors
/// [`StudyError::Io`] when a result cannot be stored; no other point begins then.
pub fn run(
    points: &[Point],
    folder: &Folder,
    threads: usize,
    (command, by): (&str, &str),
    progress: &dyn Progress,
    admit: &(dyn Fn(&Experiment) -> Result<(), String> + Sync),
) -> Result<usize, StudyError> {
    let next = AtomicUsize::new(0);
    let ended = AtomicUsize::new(0);
    let failure: Mutex<Option<StudyError>> = Mutex::new(None);
    let broken = || failure.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, points.len().max(1)) {
            scope.spawn(|| loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(point) = points.get(index).filter(|_| !progress.stops() && broken().is_none())
                else {
                    break;
                };
                let experiment = point.experiment(command).map_err(|error| error.to_string());
                let result = match experiment.and_then(|found| admit(&found).map(|()| found)) {
                    Ok(experiment) => sim::run_as(index, &experiment, progress),
                    Err(sentence) => {
                        progress.end(index);
                        Err(RunError::Spec(sim::BadValue(sentence)))
                    }
                };
                let Some(result) = Ended::of(result) else { break };
                match folder.store(point, &result, by) {
                    Ok(()) => ended.fetch_add(1, Ordering::Relaxed),
                    Err(error) => return *broken() = Some(error),
                };
            });
        }
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(ended.into_inner()),
    }
}
