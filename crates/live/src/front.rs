//! A device as its front ends use it: batches, answers that wait for a sync or for the device model.
//!
//! Front ends that have one request at a time, or a ring of them, bring with each request what to do with its
//! answer. A thread that finds another one in the FTL leaves its request there and fetches the next: so
//! nobody waits for the FTL, and what came in meanwhile is one batch, whose pages are written together. Bytes
//! are fetched and answers given outside. NBD submits batches of its own, because its answers go out
//! together.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::clock::nanos;
use crate::export::Export;
use crate::pace::{Delayed, Pacer, To};
use crate::reads::Reads;
use crate::request::{Answer, IoError, Op, Request};

/// How often a thread that waits for requests to be made durable looks whether it has to stop.
const PATIENCE: Duration = Duration::from_millis(50);
/// Most requests of a batch, and most bytes read and written by one unless a single request has more.
const MOST_REQUESTS: usize = 128;
const BATCH_BYTES: u64 = 4 << 20;
/// Largest buffer that is kept for the next batch, bytes.
const MOST_KEPT: usize = 1 << 20;

/// Gives a client its answer: the bytes of a read, and nothing otherwise. Called once, by any thread.
pub(crate) type Reply = Box<dyn FnOnce(Result<&[u8], IoError>) + Send>;

/// A request with what to do with its answer.
pub(crate) struct Asked {
    /// What is asked for.
    pub request: Request,
    /// Who wants to know.
    pub reply: Reply,
}

/// An answer that has to be durable first.
struct Unsettled {
    operation: u64,
    ticket: Option<u64>,
    kind: usize,
    since: Instant,
    reply: Reply,
}

/// What a batch needs, kept for the next one.
struct Scratch {
    reads: Reads,
    batch: Vec<Request>,
    answers: Vec<Result<Answer, IoError>>,
    bytes: Vec<u8>,
}

/// Requests that have come in.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Asked, Instant)>,
    /// A thread is in the FTL, and looks here again when it has given its answers.
    busy: bool,
}

/// A thread's turn in the FTL. Should it panic, what waits is dropped, which answers it.
struct Turn<'a>(&'a Mutex<Queue>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queue = lock(self.0);
        queue.busy = false;
        if std::thread::panicking() {
            let left = std::mem::take(&mut queue.waiting);
            drop(queue);
            drop(left);
        }
    }
}

/// What all clients of one device share.
pub(crate) struct Front {
    export: Arc<dyn Export>,
    /// Answers that wait for the device model, when they do.
    pacer: Option<Pacer>,
    queue: Mutex<Queue>,
    spare: Mutex<Vec<Scratch>>,
    unsettled: Mutex<Vec<Unsettled>>,
    /// There is something unsettled.
    more: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Front {
    /// The front of a device that nobody else serves.
    pub fn new(export: Arc<dyn Export>) -> Arc<Front> {
        Arc::new(Front {
            pacer: export.is_paced().then(Pacer::default),
            export,
            queue: Mutex::default(),
            spare: Mutex::new(Vec::new()),
            unsettled: Mutex::new(Vec::new()),
            more: Condvar::new(),
        })
    }

    /// The device.
    pub fn export(&self) -> &dyn Export {
        &*self.export
    }

    /// Where answers wait for the device model, on a paced device.
    pub fn pacer(&self) -> Option<&Pacer> {
        self.pacer.as_ref()
    }

    /// Gives the answers of a paced device when they are due, until `stop`; returns at once for any other.
    pub fn pace(&self, stop: &AtomicBool) {
        if let Some(pacer) = &self.pacer {
            pacer.run(self.export(), stop);
        }
    }

    /// The next batch; `None` when there is nothing, or another thread is in the FTL.
    fn next(&self) -> Option<Vec<(Asked, Instant)>> {
        let mut queue = lock(&self.queue);
        if queue.busy {
            return None;
        }
        let (mut count, mut bytes) = (0, 0);
        for (asked, _) in queue.waiting.iter().take(MOST_REQUESTS) {
            bytes += u64::from(asked.request.length);
            if count > 0 && bytes > BATCH_BYTES {
                break;
            }
            count += 1;
        }
        queue.busy = count > 0;
        (count > 0).then(|| queue.waiting.drain(..count).collect())
    }

    fn scratch(&self) -> Scratch {
        lock(&self.spare).pop().unwrap_or_else(|| Scratch {
            reads: Reads::new(self.export.page_bytes()),
            batch: Vec::new(),
            answers: Vec::new(),
            bytes: Vec::new(),
        })
    }

    fn keep(&self, mut scratch: Scratch) {
        if scratch.bytes.capacity() > MOST_KEPT {
            scratch.bytes = Vec::new();
        }
        scratch.batch.clear();
        lock(&self.spare).push(scratch);
    }

    /// Carries a batch out, in order, and answers each request as soon as its promise is kept; unless another
    /// thread is in the FTL, which then does that.
    pub fn carry_out(&self, asked: Vec<Asked>) {
        self.export.arrived(asked.len());
        let since = Instant::now();
        lock(&self.queue).waiting.extend(asked.into_iter().map(|asked| (asked, since)));
        while let Some(batch) = self.next() {
            self.answer(batch);
        }
    }

    fn answer(&self, asked: Vec<(Asked, Instant)>) {
        let turn = Turn(&self.queue);
        let mut scratch = self.scratch();
        let Scratch { reads, batch, answers, bytes } = &mut scratch;
        let replies: Vec<(Reply, Instant)> = asked
            .into_iter()
            .map(|(Asked { request, reply }, since)| {
                batch.push(request);
                (reply, since)
            })
            .collect();
        self.export.submit(batch, reads, answers);
        drop(turn);
        let total: usize = batch.iter().map(read_bytes).sum();
        bytes.resize(total, 0);
        let mut rest = &mut bytes[..];
        for (request, answer) in batch.iter().zip(answers.iter_mut()) {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(read_bytes(request));
            rest = later;
            let Ok(Answer::Read(number)) = *answer else { continue };
            if let Err(error) = reads.fill(number, request, now) {
                *answer = Err(error);
            }
        }
        let tickets: Vec<Option<u64>> = match self.pacer {
            Some(_) => (0..batch.len()).map(|index| reads.ticket(index)).collect(),
            None => Vec::new(),
        };
        // Before anybody is answered: a client that takes its time must not hold up the device.
        reads.clear();
        let mut rest = &bytes[..];
        for (index, (reply, since)) in replies.into_iter().enumerate() {
            let (request, ticket) = (&batch[index], tickets.get(index).copied().flatten());
            let kind = request.op.kind();
            let (content, later) = rest.split_at(read_bytes(request));
            rest = later;
            let outcome = match answers[index] {
                Ok(Answer::Durable(operation)) => {
                    lock(&self.unsettled).push(Unsettled { operation, ticket, kind, since, reply });
                    self.more.notify_one();
                    continue;
                }
                Ok(Answer::Read(_) | Answer::Done) => Ok(content),
                Err(error) => Err(error),
            };
            self.give(reply, outcome, ticket, kind, since);
        }
        self.keep(scratch);
    }

    /// Answers now, or when the device model is done.
    fn give(
        &self,
        reply: Reply,
        outcome: Result<&[u8], IoError>,
        ticket: Option<u64>,
        kind: usize,
        since: Instant,
    ) {
        match self.pacer.as_ref().zip(ticket) {
            Some((pacer, ticket)) => {
                let outcome = outcome.map(<[u8]>::to_vec);
                let call = Box::new(move || reply(outcome.as_deref().map_err(|&error| error)));
                pacer.delay(ticket, Delayed { to: To::Call(call), kind, since });
            }
            None => {
                reply(outcome);
                self.export.left(1);
                if outcome.is_ok() {
                    self.export.waited(&mut std::iter::once((kind, nanos(Instant::now(), since))));
                }
            }
        }
    }

    /// Answers what has to be durable first, until `stop`; what waits then is still answered.
    pub fn settle(&self, stop: &AtomicBool) {
        loop {
            let jobs = {
                let mut waiting = lock(&self.unsettled);
                while waiting.is_empty() {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let waited = self.more.wait_timeout(waiting, PATIENCE);
                    waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                std::mem::take(&mut *waiting)
            };
            let last = jobs.iter().map(|job| job.operation).max().unwrap_or(0);
            let outcome = self.export.make_durable(last);
            for Unsettled { ticket, kind, since, reply, .. } in jobs {
                self.give(reply, outcome.map(|()| &[][..]), ticket, kind, since);
            }
        }
    }
}

fn read_bytes(request: &Request) -> usize {
    if request.op == Op::Read {
        request.length as usize
    } else {
        0
    }
}
