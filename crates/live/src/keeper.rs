//! What a device needs while it is switched on, whichever front end serves it, and how a front end is asked to stop.

use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::export::{Export, LiveError};

/// How often a device gets a moment of its own.
const TENDING: Duration = Duration::from_millis(50);

/// Asks a front end to stop; any clone does, from any thread.
#[derive(Clone, Debug)]
pub struct Stop(Arc<(OwnedFd, OwnedFd)>);

impl Stop {
    /// A stop that nobody has asked for yet.
    pub fn new() -> Result<Stop, LiveError> {
        let pipe = rustix::pipe::pipe();
        let (read, write) = pipe.map_err(|error| LiveError(format!("a pipe cannot be made ({error})")))?;
        Ok(Stop(Arc::new((read, write))))
    }

    /// Asks.
    pub fn ask(&self) {
        // A full pipe has been asked before.
        let _ = rustix::io::write(&self.0 .1, &[1]);
    }

    /// Whether somebody has asked, within `patience`; without one it waits for ever.
    pub fn wait(&self, patience: Option<Duration>) -> bool {
        let patience = patience.map(|patience| Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(patience.subsec_nanos()),
        });
        let mut asked = [PollFd::new(self, PollFlags::IN)];
        loop {
            match poll(&mut asked, patience.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                found => return found.is_ok_and(|count| count > 0),
            }
        }
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0 .0.as_fd()
    }
}

/// The threads that look after devices: idle work, answers that wait for the model, answers that wait for a sync.
pub(crate) struct Keeper {
    /// The last one started is stopped first.
    threads: Vec<Worker>,
}

/// A thread, and how it is told to end. A panic gives its words.
struct Worker {
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), String>>,
}

impl Keeper {
    /// Starts them. A panic of one asks for `stop`.
    pub fn start(exports: Vec<Arc<dyn Export>>, stop: &Stop) -> Result<Keeper, LiveError> {
        let mut keeper = Keeper { threads: Vec::new() };
        // What has been settled may still have to wait for the model: so that is stopped last.
        for export in &exports {
            let (paced, settled) = (export.clone(), export.clone());
            keeper.spawn("pace", stop, move |stopping| paced.pace(stopping))?;
            keeper.spawn("settle", stop, move |stopping| settled.settle(stopping))?;
        }
        keeper.spawn("tend", stop, move |stopping| tend(&exports, stopping))?;
        Ok(keeper)
    }

    fn spawn(
        &mut self,
        name: &str,
        stop: &Stop,
        work: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> Result<(), LiveError> {
        let (stopping, stop) = (Arc::new(AtomicBool::new(false)), stop.clone());
        let theirs = stopping.clone();
        let work = move || {
            catch_unwind(AssertUnwindSafe(|| work(&theirs))).map_err(|panic| {
                stop.ask();
                panic_text(panic.as_ref())
            })
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        let thread = thread.map_err(|error| LiveError(format!("a thread cannot be started ({error})")))?;
        self.threads.push(Worker { stopping, thread });
        Ok(())
    }

    /// Ends them, after what waits has been answered; gives the words of a panic.
    pub fn stop(self) -> Option<String> {
        let end = |Worker { stopping, thread }: Worker| {
            stopping.store(true, Ordering::Relaxed);
            thread.join().unwrap_or(Ok(())).err()
        };
        // The first panic is behind the others; each thread is ended whatever the one before says.
        self.threads.into_iter().rev().filter_map(end).last()
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

fn tend(exports: &[Arc<dyn Export>], stopping: &AtomicBool) {
    let mut seen = vec![0; exports.len()];
    while !stopping.load(Ordering::Relaxed) {
        std::thread::sleep(TENDING);
        for (export, seen) in exports.iter().zip(&mut seen) {
            export.tend(seen);
        }
    }
}
