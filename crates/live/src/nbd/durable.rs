//! Replies that wait for a sync: beside the connection's own thread, so that a flush holds up nothing behind it.

use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;
use std::thread::Scope;
use std::time::Instant;

use ftl::Scheme;
use nand::Medium;

use super::transmit::{put_outcome, Link, Pending};
use crate::engine::Engine;
use crate::pace::{Held, To};

/// Replies that wait at most; a client that has more in flight waits to be read.
const MOST_WAITING: usize = 1024;

/// The way to the thread that syncs for one connection.
pub(super) struct Durables {
    jobs: SyncSender<(u64, Pending)>,
}

impl Durables {
    /// Starts the thread, which ends when this is dropped.
    pub fn start<'scope, S: Scheme + Send, M: Medium>(
        scope: &'scope Scope<'scope, '_>,
        engine: &'scope Engine<S, M>,
        link: Arc<Link>,
    ) -> Durables {
        let (jobs, waiting) = sync_channel(MOST_WAITING);
        scope.spawn(move || run(engine, &link, &waiting));
        Durables { jobs }
    }

    /// The reply goes out when everything up to `operation` is durable.
    pub fn after(&self, operation: u64, pending: Pending) {
        // The thread ends only when this is dropped, unless it panicked: then the client hears nothing, and that is true.
        let _ = self.jobs.send((operation, pending));
    }
}

fn run<S: Scheme, M: Medium>(engine: &Engine<S, M>, link: &Arc<Link>, waiting: &Receiver<(u64, Pending)>) {
    let mut out = Vec::new();
    let mut jobs = Vec::new();
    while let Ok(first) = waiting.recv() {
        jobs.clear();
        jobs.push(first);
        jobs.extend(waiting.try_iter().take(MOST_WAITING));
        let last = jobs.iter().map(|&(operation, _)| operation).max().unwrap_or(0);
        let outcome = engine.make_durable(last);
        out.clear();
        for (_, pending) in &jobs {
            let Pending { ticket, kind, since, .. } = *pending;
            if let Some((ticket, pacer)) = ticket.zip(engine.pacer.as_ref()) {
                let mut bytes = Vec::new();
                put_outcome(&mut bytes, pending, outcome);
                pacer.hold(ticket, Held { to: To::Link(link.clone(), bytes), kind, since });
            } else {
                put_outcome(&mut out, pending, outcome);
            }
        }
        if engine.pacer.is_some() {
            continue;
        }
        // A client that has left does not hear of it.
        let _ = link.send(&out);
        engine.left(jobs.len());
        let now = Instant::now();
        engine.waited(jobs.iter().map(|(_, pending)| (pending.kind, nanos(now, pending.since))));
    }
}

pub(crate) fn nanos(now: Instant, since: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(since).as_nanos()).unwrap_or(u64::MAX)
}
