//! The threads that look after devices while they are served, whichever front end serves them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::LiveError;
use crate::front::Front;
use crate::guard::Guard;

/// How often a device gets a moment of its own.
const TENDING: Duration = Duration::from_millis(50);

/// Idle work, answers that wait for the model, answers that wait for a sync.
pub(crate) struct Keeper {
    /// The last one started is stopped first.
    threads: Vec<Worker>,
}

/// A thread, and how it is told to end.
struct Worker {
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Keeper {
    /// Starts them.
    pub fn start(fronts: &[Arc<Front>], guard: &Arc<Guard>) -> Result<Keeper, LiveError> {
        let mut keeper = Keeper { threads: Vec::new() };
        // What has been settled may still have to wait for the model: so that is stopped last.
        for front in fronts {
            let (paced, settled) = (front.clone(), front.clone());
            keeper.spawn("pace", guard, move |stopping| paced.pace(stopping))?;
            keeper.spawn("settle", guard, move |stopping| settled.settle(stopping))?;
        }
        let (fronts, tending) = (fronts.to_vec(), guard.clone());
        keeper.spawn("tend", guard, move |stopping| tend(&fronts, &tending, stopping))?;
        Ok(keeper)
    }

    fn spawn(
        &mut self,
        name: &str,
        guard: &Arc<Guard>,
        work: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> Result<(), LiveError> {
        let (stopping, guard) = (Arc::new(AtomicBool::new(false)), guard.clone());
        let theirs = stopping.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || guard.run_vital(|| work(&theirs)))
            .map_err(LiveError::host("a thread cannot be started"))?;
        self.threads.push(Worker { stopping, thread });
        Ok(())
    }

    /// Ends them, after what waits has been answered.
    pub fn stop(self) {
        for Worker { stopping, thread } in self.threads.into_iter().rev() {
            stopping.store(true, Ordering::Relaxed);
            // The guard has heard of a panic.
            let _ = thread.join();
        }
    }
}

fn tend(fronts: &[Arc<Front>], guard: &Guard, stopping: &AtomicBool) {
    let mut seen = vec![0; fronts.len()];
    while !stopping.load(Ordering::Relaxed) {
        std::thread::sleep(TENDING);
        for (front, seen) in fronts.iter().zip(&mut seen) {
            guard.run(|| front.export().tend(seen));
        }
    }
}
