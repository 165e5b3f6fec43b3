//! A run on a thread of its own. Python's thread waits without the GIL, and looks up now and then: for
//! Ctrl-C, and to tell how far the run is.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use sim::Progress;

/// How often Python's thread looks up.
const TICK: Duration = Duration::from_millis(100);

/// How far a run is, as Python hears it.
#[derive(Clone, Debug, Default)]
struct Far {
    phase: usize,
    phases: usize,
    name: String,
    done: f64,
    ended: bool,
}

/// Hears how far runs are, and knows whether they shall stop.
#[derive(Debug)]
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    runs: Mutex<Vec<Far>>,
    /// Python's name of the thread that runs Python of the user, while it does.
    thread: Arc<AtomicU64>,
    /// A function of (run, phase, phases, name of the phase, share that is done, whether the run has ended).
    tell: Option<Py<PyAny>>,
}

impl Watch {
    /// Nobody has heard of any of `runs` runs.
    pub(crate) fn new(runs: usize, tell: Option<Py<PyAny>>) -> Watch {
        let (stop, thread) = Default::default();
        Watch { stop, runs: Mutex::new(vec![Far::default(); runs]), thread, tell }
    }

    /// Where a thread that runs Python of the user leaves its name; 0: there is none.
    pub(crate) fn thread(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.thread)
    }

    /// Raises `KeyboardInterrupt` in the Python of the user, which may never come to its end.
    fn interrupt(&self, py: Python<'_>) {
        let thread = self.thread.load(Ordering::Relaxed);
        if thread != 0 {
            let asked =
                py.import("ftlkit._mapping").and_then(|module| module.call_method1("interrupt", (thread,)));
            drop(asked);
        }
    }

    /// Becomes true when everything shall stop.
    pub(crate) fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Run 0 has come so far.
    pub(crate) fn far(&self, done: u64, all: u64) {
        let done = done as f64 / all.max(1) as f64;
        self.change(0, |far| (far.phases, far.done) = (1, done));
    }

    fn change(&self, run: usize, change: impl FnOnce(&mut Far)) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.get_mut(run).map(change);
    }

    fn tell(&self, py: Python<'_>) -> PyResult<()> {
        let Some(tell) = &self.tell else { return Ok(()) };
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (run, far) in runs.into_iter().enumerate().filter(|(_, far)| far.phases > 0 || far.ended) {
            tell.call1(py, (run, far.phase, far.phases, far.name, far.done, far.ended))?;
        }
        Ok(())
    }

    /// Does `work` on a thread of its own. Whatever a signal handler or the listener raises stops the runs,
    /// and is raised again when they have stopped.
    pub(crate) fn attend<T: Send>(&self, py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
        let (ended, changed) = (Mutex::new(false), Condvar::new());
        let wait = || {
            let ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = changed.wait_timeout_while(ended, TICK, |ended| !*ended);
            *waited.unwrap_or_else(PoisonError::into_inner).0
        };
        let mut raised = None;
        let result = std::thread::scope(|scope| {
            let (ended, changed) = (&ended, &changed);
            let thread = scope.spawn(move || {
                let end = End(ended, changed);
                let result = work();
                drop(end);
                result
            });
            while !py.detach(wait) {
                if raised.is_none() {
                    raised = py.check_signals().and_then(|()| self.tell(py)).err();
                    self.stop.store(raised.is_some(), Ordering::Relaxed);
                } else {
                    self.interrupt(py);
                }
            }
            py.detach(|| thread.join())
        });
        // What has ended meanwhile is told, too.
        raised.map_or_else(|| self.tell(py), Err)?;
        result.map_err(|_| PyRuntimeError::new_err("the thread of the run panicked"))
    }
}

/// Says that the work has ended when it goes, also in a panic.
struct End<'a>(&'a Mutex<bool>, &'a Condvar);

impl Drop for End<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.1.notify_all();
    }
}

impl Progress for Watch {
    fn phase(&self, run: usize, phase: usize, phases: usize, name: &str) {
        let far = Far { phase, phases, name: name.to_owned(), ..Far::default() };
        self.change(run, |place| *place = far);
    }

    fn fraction(&self, run: usize, done: f64) {
        self.change(run, |far| far.done = done);
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn end(&self, run: usize) {
        self.change(run, |far| (far.ended, far.done) = (true, 1.0));
    }
}
