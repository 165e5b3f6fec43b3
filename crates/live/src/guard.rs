//! What a panic ends: the request that it happened in, and the device, if that was in the middle of
//! something. Other devices, and other clients, go on.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};

use crate::export::Export;
use crate::stop::Stop;

/// How a server ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Clients that were served.
    pub clients: u64,
    /// What the first panic within said, if there was one: a bug.
    pub panic: Option<String>,
}

/// Stands between the threads of a server and their panics.
pub(crate) struct Guard {
    exports: Vec<Arc<dyn Export>>,
    stop: Stop,
    /// The words of the first panic.
    first: Mutex<Option<String>>,
}

impl Guard {
    /// A guard for all threads that serve these devices.
    pub fn new(exports: Vec<Arc<dyn Export>>, stop: &Stop) -> Arc<Guard> {
        Arc::new(Guard { exports, stop: stop.clone(), first: Mutex::new(None) })
    }

    /// Does `work`; `None` when it panicked. When no device is left on, the server is asked to stop.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let done = catch_unwind(AssertUnwindSafe(work));
        if let Err(panic) = &done {
            self.first().get_or_insert_with(|| words(panic.as_ref()));
            if self.exports.iter().all(|export| export.is_off()) {
                self.stop.ask();
            }
        }
        done.ok()
    }

    /// As [`Guard::run`], for work without which nothing can be served: a panic stops the server.
    pub fn run_vital(&self, work: impl FnOnce()) {
        if self.run(work).is_none() {
            self.stop.ask();
        }
    }

    /// What the first panic said.
    pub fn panic(&self) -> Option<String> {
        self.first().clone()
    }

    fn first(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a panic said.
pub(crate) fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}
