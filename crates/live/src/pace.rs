//! Answers that wait for the device model.
//!
//! Each answer is there as soon as the device is done, and held until virtual time, which keeps to the wall's, reaches the
//! completion of its request. One thread watches that. It yields rather than sleeps while something falls due soon: a
//! sleep ends some tens of microseconds late, which is as long as a read of flash takes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ftl::Scheme;
use nand::Medium;

use crate::engine::Engine;
use crate::nbd::{nanos, Link};

/// Without anything due for so long, the thread sleeps between looks.
const PATIENCE: Duration = Duration::from_millis(2);
/// How long it sleeps then.
const NAP: Duration = Duration::from_micros(50);
/// Most answers held: a client with more in flight is not read from.
const MOST_HELD: usize = 4096;

/// An answer that waits.
#[derive(Debug)]
pub(crate) struct Held {
    pub link: Arc<Link>,
    pub bytes: Vec<u8>,
    pub kind: usize,
    pub since: Instant,
}

#[derive(Debug, Default)]
struct Waiting {
    held: BTreeMap<u64, Held>,
    /// Tickets that are over before their answer is there.
    early: Vec<u64>,
}

/// All answers of a device that wait.
#[derive(Debug, Default)]
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
        answer.link.held().fetch_add(1, Ordering::Relaxed);
        while self.waiting().held.len() >= MOST_HELD {
            std::thread::sleep(NAP);
        }
        self.waiting().held.insert(ticket, answer);
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
        let mut last = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let waiting = self.waiting();
            if waiting.held.is_empty() && waiting.early.is_empty() {
                // Woken by the next answer; the time is for `stop`.
                drop(self.more.wait_timeout(waiting, PATIENCE));
                last = Instant::now();
            } else {
                drop(waiting);
            }
            engine.over(&mut over);
            self.take(&mut over, &mut due);
            if !due.is_empty() {
                last = Instant::now();
                self.give(engine, &mut due);
            } else if last.elapsed() < PATIENCE {
                std::thread::yield_now();
            } else {
                std::thread::sleep(NAP);
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
        // Answers to one client go out together.
        due.sort_by_key(|held| Arc::as_ptr(&held.link) as usize);
        let mut bytes = Vec::new();
        for clients in due.chunk_by(|a, b| Arc::ptr_eq(&a.link, &b.link)) {
            bytes.clear();
            clients.iter().for_each(|held| bytes.extend_from_slice(&held.bytes));
            let link = &clients[0].link;
            // A client that has left does not hear of it.
            let _ = link.send(&bytes);
            link.held().fetch_sub(clients.len(), Ordering::Relaxed);
            let now = Instant::now();
            engine.waited(clients.iter().map(|held| (held.kind, nanos(now, held.since))));
        }
        engine.left(due.len());
        due.clear();
    }
}
