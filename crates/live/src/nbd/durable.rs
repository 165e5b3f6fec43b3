//! Replies that wait for a sync: beside the connection's own thread, so that a flush holds up nothing behind
//! it.

use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;
use std::thread::Scope;
use std::time::Instant;

use super::link::Link;
use super::reply::{put_outcome, Pending};
use crate::clock::nanos;
use crate::front::Front;

/// Replies that wait at most; a client that has more in flight waits to be read.
const MOST_WAITING: usize = 1024;

/// The way to the thread that syncs for one connection.
pub(super) struct Durables {
    jobs: SyncSender<(u64, Pending)>,
}

impl Durables {
    /// Starts the thread, which ends when this is dropped.
    pub fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        front: &'scope Front,
        link: Arc<Link>,
    ) -> Durables {
        let (jobs, waiting) = sync_channel(MOST_WAITING);
        scope.spawn(move || run(front, &link, &waiting));
        Durables { jobs }
    }

    /// The reply goes out when everything up to `operation` is durable.
    pub fn after(&self, operation: u64, pending: Pending) {
        // The thread ends only when this is dropped, unless it panicked: then the client hears nothing, and
        // that is true.
        let _ = self.jobs.send((operation, pending));
    }
}

fn run(front: &Front, link: &Arc<Link>, waiting: &Receiver<(u64, Pending)>) {
    let (mut out, mut jobs, mut sent) = (Vec::new(), Vec::new(), Vec::new());
    while let Ok(first) = waiting.recv() {
        jobs.clear();
        jobs.push(first);
        jobs.extend(waiting.try_iter().take(MOST_WAITING));
        let last = jobs.iter().map(|&(operation, _)| operation).max().unwrap_or(0);
        let outcome = front.export().make_durable(last);
        out.clear();
        sent.clear();
        for (_, pending) in &jobs {
            let mut bytes = Vec::new();
            put_outcome(&mut bytes, pending, outcome);
            if let Some(bytes) = pending.delay(front.pacer(), link, bytes, &None) {
                out.extend_from_slice(&bytes);
                sent.push((pending.kind, pending.since));
            }
        }
        if sent.is_empty() {
            continue;
        }
        // A client that has left does not hear of it.
        let _ = link.send(&out);
        front.export().left(sent.len());
        let now = Instant::now();
        front.export().waited(&mut sent.iter().map(|&(kind, since)| (kind, nanos(now, since))));
    }
}
