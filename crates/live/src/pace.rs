//! Answers that wait for the device model.
//!
//! Each answer is there as soon as the device is done, and held until virtual time, which keeps to the wall's, reaches the
//! completion of its request. One thread watches that. It sleeps until shortly before the model's next event, and then
//! yields: a sleep ends some tens of microseconds late, which is as long as a read of flash takes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ftl::Scheme;
use nand::Medium;

use crate::engine::Engine;
use crate::nbd::{nanos, Link};

/// How long the thread sleeps at most: then it looks whether it has to stop.
const PATIENCE: Duration = Duration::from_millis(2);
/// So long before an event it is awake.
const EARLY: Duration = Duration::from_micros(100);
/// How long others sleep who wait for it.
const NAP: Duration = Duration::from_micros(50);
/// Most answers held: a client with more in flight is not read from.
const MOST_HELD: usize = 4096;

/// Where an answer goes.
pub(crate) enum To {
    /// These bytes to a client.
    Link(Arc<Link>, Vec<u8>),
    /// This does it.
    Call(Box<dyn FnOnce() + Send>),
}

/// An answer that waits.
pub(crate) struct Held {
    pub to: To,
    pub kind: usize,
    pub since: Instant,
}

#[derive(Default)]
struct Waiting {
    held: BTreeMap<u64, Held>,
    /// Tickets that are over before their answer is there.
    early: Vec<u64>,
    /// Something is held that was not when the thread looked last.
    news: bool,
}

/// All answers of a device that wait.
#[derive(Default)]
pub(crate) struct Pacer {
    waiting: Mutex<Waiting>,
    /// Something is held that was not.
    more: Condvar,
}

impl Pacer {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds an answer until its ticket is over.
    pub fn hold(&self, ticket: u64, answer: Held) {
        if let To::Link(link, _) = &answer.to {
            link.held().fetch_add(1, Ordering::Relaxed);
        }
        while self.waiting().held.len() >= MOST_HELD {
            std::thread::sleep(NAP);
        }
        let mut waiting = self.waiting();
        waiting.held.insert(ticket, answer);
        waiting.news = true;
        drop(waiting);
        self.more.notify_one();
    }

    /// Waits until nothing is held for a client that leaves.
    pub fn wait(&self, link: &Link) {
        while link.held().load(Ordering::Relaxed) > 0 {
            std::thread::sleep(NAP);
        }
    }

    /// Gives answers when they are due, until `stop`.
    pub fn run<S: Scheme, M: Medium>(&self, engine: &Engine<S, M>, stop: &AtomicBool) {
        let (mut over, mut due) = (Vec::new(), Vec::new());
        while !stop.load(Ordering::Relaxed) {
            self.waiting().news = false;
            let quiet = engine.over(&mut over);
            self.take(&mut over, &mut due);
            if !due.is_empty() {
                self.give(engine, &mut due);
                continue;
            }
            let waiting = self.waiting();
            // What comes meanwhile, an answer that is over already included, wakes it.
            let until = if waiting.held.is_empty() { PATIENCE } else { quiet.unwrap_or(PATIENCE) };
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
        // A device that is switched off owes nobody any time.
        let left = std::mem::take(&mut self.waiting().held);
        due.extend(left.into_values());
        self.give(engine, &mut due);
    }

    /// Moves to `due` what is held for the tickets that are over. Those whose answer is still being made are kept.
    fn take(&self, over: &mut Vec<u64>, due: &mut Vec<Held>) {
        let mut waiting = self.waiting();
        let waiting = &mut *waiting;
        waiting.early.append(over);
        waiting.early.retain(|ticket| match waiting.held.remove(ticket) {
            Some(held) => {
                due.push(held);
                false
            }
            None => true,
        });
    }

    fn give<S: Scheme, M: Medium>(&self, engine: &Engine<S, M>, due: &mut Vec<Held>) {
        engine.left(due.len());
        let mut links: Vec<(Arc<Link>, Vec<u8>)> = Vec::new();
        let mut waits = Vec::with_capacity(due.len());
        for Held { to, kind, since } in due.drain(..) {
            waits.push((kind, since));
            match to {
                To::Call(call) => call(),
                To::Link(link, bytes) => links.push((link, bytes)),
            }
        }
        // Answers to one client go out together.
        links.sort_by_key(|(link, _)| Arc::as_ptr(link) as usize);
        let mut bytes = Vec::new();
        for answers in links.chunk_by(|a, b| Arc::ptr_eq(&a.0, &b.0)) {
            bytes.clear();
            answers.iter().for_each(|(_, answer)| bytes.extend_from_slice(answer));
            let link = &answers[0].0;
            // A client that has left does not hear of it.
            let _ = link.send(&bytes);
            link.held().fetch_sub(answers.len(), Ordering::Relaxed);
        }
        let now = Instant::now();
        engine.waited(waits.into_iter().map(|(kind, since)| (kind, nanos(now, since))));
    }
}
