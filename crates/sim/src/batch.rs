//! Several runs on the cores. Runs that begin alike share a warm-up.
//!
//! Most of the time of a run goes into its warm-up, and that of many runs is the same: the same scheme on the
//! same device, with other measured phases. Then one of them warms the device up, and each goes on with a
//! copy. [`Experiment::start`] says what must be equal for that, so that each run finds what it finds alone.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{impossible, RunError};
use crate::memory;
use crate::progress::Progress;
use crate::results::Run;
use crate::run::{run_as, run_from, start_as, Started};
use crate::spec::Experiment;

/// Runs that [`run_batch`] makes, each with a number from 0.
pub trait Batch: Sync {
    /// How many there are.
    fn count(&self) -> usize;

    /// Equal for runs that may begin alike: they run one after the other. A guess will do; it is asked of
    /// all runs before the first begins.
    fn kin(&self, index: usize) -> String;

    /// What the run does; asked just before it begins.
    ///
    /// # Errors
    /// What the run ends with, as it cannot begin.
    fn experiment(&self, index: usize) -> Result<Experiment, RunError>;

    /// Hears how the run ended. Says whether others may begin.
    fn ended(&self, index: usize, result: Result<Run, RunError>) -> bool;
}

/// Makes the runs on up to `threads` cores. Each run needs about 9 bytes for each physical page, and its
/// scheme's tables; where there is memory enough, up to so many devices more are kept for runs that begin
/// alike.
pub fn run_batch(batch: &dyn Batch, threads: usize, progress: &dyn Progress) {
    let threads = threads.clamp(1, batch.count().max(1));
    let kins = Kins::of(batch);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut at = None;
                while let Some((index, kin)) = kins.next(&mut at) {
                    let result = kin.run(index, batch, threads, progress);
                    if !batch.ended(index, result) {
                        kins.close();
                    }
                }
            });
        }
    });
}

/// Runs experiments on up to `threads` cores, as [`run_batch`] does; results in the order of the experiments.
pub fn compare(
    experiments: &[Experiment],
    threads: usize,
    progress: &dyn Progress,
) -> Vec<Result<Run, RunError>> {
    struct Compared<'a> {
        experiments: &'a [Experiment],
        results: Mutex<Vec<Option<Result<Run, RunError>>>>,
    }
    impl Batch for Compared<'_> {
        fn count(&self) -> usize {
            self.experiments.len()
        }

        fn kin(&self, index: usize) -> String {
            self.experiments[index].start().unwrap_or_default()
        }

        fn experiment(&self, index: usize) -> Result<Experiment, RunError> {
            Ok(self.experiments[index].clone())
        }

        fn ended(&self, index: usize, result: Result<Run, RunError>) -> bool {
            lock(&self.results)[index] = Some(result);
            true
        }
    }
    let results = Mutex::new(experiments.iter().map(|_| None).collect());
    let compared = Compared { experiments, results };
    run_batch(&compared, threads, progress);
    let missing = || Err(impossible("the run's thread ended without a result"));
    let results = compared.results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().map(|result| result.unwrap_or_else(missing)).collect()
}

/// All runs, kin beside kin.
struct Kins {
    /// For each kin the runs that have not begun, and whether any has.
    waiting: Mutex<Vec<(VecDeque<usize>, bool)>>,
    kins: Vec<Kin>,
}

/// Runs that may begin alike.
struct Kin(Mutex<Shared>);

/// What they share.
struct Shared {
    /// How many have not been here.
    left: usize,
    /// How the last one began that was here, and the device for those that begin like it.
    start: Option<(String, Arc<Kept>)>,
}

/// A device to go on with, once it is ready.
type Kept = Mutex<Option<Box<dyn Started>>>;

impl Kins {
    fn of(batch: &dyn Batch) -> Kins {
        let mut numbers = HashMap::new();
        let mut waiting: Vec<(VecDeque<usize>, bool)> = Vec::new();
        for index in 0..batch.count() {
            let number = *numbers.entry(batch.kin(index)).or_insert(waiting.len());
            if number == waiting.len() {
                waiting.push((VecDeque::new(), false));
            }
            waiting[number].0.push_back(index);
        }
        let kin = |left| Kin(Mutex::new(Shared { left, start: None }));
        let kins = waiting.iter().map(|(indexes, _)| kin(indexes.len())).collect();
        Kins { waiting: Mutex::new(waiting), kins }
    }

    /// The next run for a thread that was `at` runs of one kin: another of these, else the first of a kin
    /// that no thread is at, else one of the kin with the most left.
    fn next(&self, at: &mut Option<usize>) -> Option<(usize, &Kin)> {
        let mut waiting = lock(&self.waiting);
        let open = |&kin: &usize| !waiting[kin].0.is_empty();
        let others = || (0..waiting.len()).filter(open);
        let kin = at
            .filter(open)
            .or_else(|| others().find(|&kin| !waiting[kin].1))
            .or_else(|| others().max_by_key(|&kin| waiting[kin].0.len()))?;
        *at = Some(kin);
        let (indexes, begun) = &mut waiting[kin];
        *begun = true;
        Some((indexes.pop_front()?, &self.kins[kin]))
    }

    /// No further run begins.
    fn close(&self) {
        lock(&self.waiting).iter_mut().for_each(|(indexes, _)| indexes.clear());
    }
}

impl Kin {
    fn run(
        &self,
        index: usize,
        batch: &dyn Batch,
        threads: usize,
        progress: &dyn Progress,
    ) -> Result<Run, RunError> {
        let experiment = batch.experiment(index);
        let kept = lock(&self.0).kept(experiment.as_ref().ok().and_then(Experiment::start));
        let experiment = experiment.inspect_err(|_| progress.end(index))?;
        let start = match kept {
            Some(kept) => device(&kept, index, &experiment, threads, progress)?,
            None => None,
        };
        match start {
            Some(start) => run_from(start, index, &experiment, progress),
            None => run_as(index, &experiment, progress),
        }
    }
}

impl Shared {
    /// Where a run that begins so finds its device; one that begins in another way than the run before does
    /// not wait for it. `None`: it makes its own, as no other can use it.
    fn kept(&mut self, start: Option<String>) -> Option<Arc<Kept>> {
        self.left -= 1;
        let is_last = self.left == 0;
        let found = if is_last { self.start.take() } else { self.start.clone() };
        let start = start?;
        match found {
            Some((of, kept)) if of == start => Some(kept),
            _ if is_last => None,
            _ => {
                let kept = Arc::default();
                self.start = Some((start, Arc::clone(&kept)));
                Some(kept)
            }
        }
    }
}

/// A device for a run to go on with. The first run makes it; others wait for it, as one of their own would be
/// ready later. `None`: there is no memory to keep one.
fn device(
    kept: &Arc<Kept>,
    index: usize,
    experiment: &Experiment,
    threads: usize,
    progress: &dyn Progress,
) -> Result<Option<Box<dyn Started>>, RunError> {
    let mut device = lock(kept);
    if device.is_none() && room(experiment, threads) {
        *device = Some(start_as(index, experiment, progress)?);
    }
    let is_last = Arc::strong_count(kept) == 1;
    Ok(if is_last { device.take() } else { device.as_ref().map(|device| device.copy()) })
}

/// Whether there is memory for one device more than the threads need if each begins a run now.
fn room(experiment: &Experiment, threads: usize) -> bool {
    let need = memory::need(experiment).saturating_mul(threads as u64 + 1);
    memory::available().is_none_or(|free| need <= free)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
