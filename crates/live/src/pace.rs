//! Answers that wait for the device model.
//!
//! Each answer is there as soon as the device is done, and delayed until virtual time, which keeps to the
//! wall's, reaches the completion of its request. One thread watches that. It sleeps until shortly before the
//! model's next event, and then yields: a sleep ends some tens of microseconds late, which is as long as a
//! read of flash takes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::clock::nanos;
use crate::export::Export;

/// How long the thread sleeps at most: then it looks whether it has to stop.
const PATIENCE: Duration = Duration::from_millis(2);
/// So long before an event it is awake.
const EARLY: Duration = Duration::from_micros(100);
/// How long others sleep who wait for it.
pub(crate) const NAP: Duration = Duration::from_micros(50);
/// Most answers delayed: a client with more in flight is not read from.
const MOST_DELAYED: usize = 4096;

/// A client whose answers are bytes of one stream, so that those due at one moment go out together.
pub(crate) trait Outlet: Send + Sync {
    /// Sends the bytes of so many answers, and then lets go of what is held. It waits for no client.
    fn send_due(self: Arc<Self>, answers: usize, bytes: &[u8], held: Vec<Held>);
}

/// What an answer holds on to until it is sent.
pub(crate) type Held = Arc<dyn Send + Sync>;

/// Where an answer goes.
pub(crate) enum To {
    /// These bytes to a client; what is beside them is held until they are sent.
    Outlet(Arc<dyn Outlet>, Vec<u8>, Option<Held>),
    /// This does it.
    Call(Box<dyn FnOnce() + Send>),
}

/// An answer that waits.
pub(crate) struct Delayed {
    pub to: To,
    pub kind: usize,
    pub since: Instant,
}

#[derive(Default)]
struct Waiting {
    /// By ticket.
    delayed: BTreeMap<u64, Delayed>,
    /// Tickets that are over before their answer is there.
    early: Vec<u64>,
    /// Something waits that did not when the thread looked last.
    news: bool,
}

/// All answers of a device that wait.
#[derive(Default)]
pub(crate) struct Pacer {
    waiting: Mutex<Waiting>,
    /// Something waits that did not.
    more: Condvar,
}

impl Pacer {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delays an answer until its ticket is over.
    pub fn delay(&self, ticket: u64, answer: Delayed) {
        while self.waiting().delayed.len() >= MOST_DELAYED {
            std::thread::sleep(NAP);
        }
        let mut waiting = self.waiting();
        waiting.delayed.insert(ticket, answer);
        waiting.news = true;
        drop(waiting);
        self.more.notify_one();
    }

    /// Gives answers when they are due, until `stop`.
    pub fn run(&self, export: &dyn Export, stop: &AtomicBool) {
        let (mut over, mut due) = (Vec::new(), Vec::new());
        while !stop.load(Ordering::Relaxed) {
            self.waiting().news = false;
            let Ok(quiet) = export.over(&mut over) else {
                // A device that is off owes nobody any time.
                self.give_all(export);
                std::thread::sleep(PATIENCE);
                continue;
            };
            self.take(&mut over, &mut due);
            if !due.is_empty() {
                give(export, &mut due);
                continue;
            }
            let waiting = self.waiting();
            // What comes meanwhile, an answer that is over already included, wakes it.
            let until = if waiting.delayed.is_empty() { PATIENCE } else { quiet.unwrap_or(PATIENCE) };
            match until.checked_sub(EARLY) {
                _ if waiting.news => {}
                Some(sleep) if !sleep.is_zero() => {
                    drop(self.more.wait_timeout(waiting, sleep.min(PATIENCE)));
                }
                _ => {
                    drop(waiting);
                    std::thread::yield_now();
                }
            }
        }
        self.give_all(export);
    }

    fn give_all(&self, export: &dyn Export) {
        let left = std::mem::take(&mut self.waiting().delayed);
        give(export, &mut left.into_values().collect());
    }

    /// Moves to `due` what waits for the tickets that are over. Those whose answer is still being made are
    /// kept.
    fn take(&self, over: &mut Vec<u64>, due: &mut Vec<Delayed>) {
        let mut waiting = self.waiting();
        let waiting = &mut *waiting;
        waiting.early.append(over);
        waiting.early.retain(|ticket| match waiting.delayed.remove(ticket) {
            Some(answer) => {
                due.push(answer);
                false
            }
            None => true,
        });
    }
}

fn give(export: &dyn Export, due: &mut Vec<Delayed>) {
    export.left(due.len());
    type Part = (Arc<dyn Outlet>, Vec<u8>, Option<Held>);
    let mut parts: Vec<Part> = Vec::new();
    let mut waits = Vec::with_capacity(due.len());
    for Delayed { to, kind, since } in due.drain(..) {
        waits.push((kind, since));
        match to {
            To::Call(call) => call(),
            To::Outlet(outlet, bytes, held) => parts.push((outlet, bytes, held)),
        }
    }
    // Answers to one client go out together.
    parts.sort_by_key(|(outlet, ..)| Arc::as_ptr(outlet).cast::<()>() as usize);
    let mut bytes = Vec::new();
    for answers in parts.chunk_by(|a, b| Arc::ptr_eq(&a.0, &b.0)) {
        bytes.clear();
        answers.iter().for_each(|(_, answer, _)| bytes.extend_from_slice(answer));
        let held = answers.iter().filter_map(|(.., held)| held.clone()).collect();
        answers[0].0.clone().send_due(answers.len(), &bytes, held);
    }
    let now = Instant::now();
    export.waited(&mut waits.into_iter().map(|(kind, since)| (kind, nanos(now, since))));
}
