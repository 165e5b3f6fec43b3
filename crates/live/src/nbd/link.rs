//! A client's connection.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::listen::Stream;
use crate::pace::{Held, Outlet, NAP};

/// A connection to which any thread may send a reply.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Stream,
    /// Who has it may write. What is late goes first.
    sending: Mutex<()>,
    late: Mutex<Late>,
    /// Replies that wait for the device model.
    delayed: AtomicUsize,
    /// When it was made, and how long after that a byte came or went last, in milliseconds.
    made: Instant,
    moved_ms: AtomicU64,
}

/// Replies that were due when the client took no more bytes.
#[derive(Default)]
struct Late {
    answers: VecDeque<LateAnswers>,
    /// A thread sends them.
    is_sent: bool,
}

struct LateAnswers {
    count: usize,
    bytes: Vec<u8>,
    _held: Vec<Held>,
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} late", self.answers.len())
    }
}

/// A client that takes so many bytes has not stopped.
const PIECE_BYTES: usize = 256 << 10;

impl Link {
    /// A connection over `stream`.
    pub fn new(stream: Stream) -> Link {
        Link {
            stream,
            sending: Mutex::default(),
            late: Mutex::default(),
            delayed: AtomicUsize::new(0),
            made: Instant::now(),
            moved_ms: AtomicU64::new(0),
        }
    }

    /// The socket to the client.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Sends whole replies.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(late) = self.next_late() {
            let sent = self.write(&late.bytes);
            self.delayed.fetch_sub(late.count, Ordering::Relaxed);
            sent?;
        }
        self.write(bytes)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(PIECE_BYTES) {
            (&self.stream).write_all(piece)?;
            self.moved();
        }
        Ok(())
    }

    /// Writes what the client takes at once. A client that has left takes everything.
    fn write_at_once(&self, mut bytes: &[u8]) -> usize {
        let all = bytes.len();
        while !bytes.is_empty() {
            match rustix::net::send(&self.stream, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => break,
                Err(_) => return all,
            }
            self.moved();
        }
        all - bytes.len()
    }

    fn late(&self) -> MutexGuard<'_, Late> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the late answers that go next.
    fn next_late(&self) -> Option<LateAnswers> {
        self.late().answers.pop_front()
    }

    /// Sends what is late, until there is nothing. Not for a client that has left.
    fn send_late(&self) {
        loop {
            let sent = self.send(&[]);
            let mut late = self.late();
            if sent.is_err() {
                let left = late.answers.drain(..).map(|answers| answers.count).sum();
                self.delayed.fetch_sub(left, Ordering::Relaxed);
            }
            if late.answers.is_empty() {
                late.is_sent = false;
                return;
            }
        }
    }

    /// Notes that a byte came or went.
    pub fn moved(&self) {
        self.moved_ms.store(self.made.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// How long no byte came or went.
    pub fn still(&self) -> Duration {
        self.made.elapsed().saturating_sub(Duration::from_millis(self.moved_ms.load(Ordering::Relaxed)))
    }

    /// Ends the connection: whoever reads or sends finds that out.
    pub fn hang_up(&self) {
        self.stream.shutdown(Shutdown::Both);
    }

    /// A reply waits for the device model from now on.
    pub fn delay(&self) {
        self.delayed.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until no reply waits for the device model any more.
    pub fn wait(&self) {
        while self.delayed.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(NAP);
        }
    }
}

impl Outlet for Link {
    fn send_due(self: Arc<Self>, count: usize, bytes: &[u8], held: Vec<Held>) {
        let sending = self.sending.try_lock();
        let mut late = self.late();
        let is_free = sending.is_ok() && late.answers.is_empty();
        let sent = if is_free { self.write_at_once(bytes) } else { 0 };
        if sent == bytes.len() {
            self.delayed.fetch_sub(count, Ordering::Relaxed);
            return;
        }
        late.answers.push_back(LateAnswers { count, bytes: bytes[sent..].to_vec(), _held: held });
        if late.is_sent {
            return;
        }
        // This client has to be waited for, and others must not.
        let link = self.clone();
        let started = std::thread::Builder::new().name("late".into()).spawn(move || link.send_late());
        late.is_sent = started.is_ok();
        if started.is_err() {
            self.hang_up();
        }
    }
}
