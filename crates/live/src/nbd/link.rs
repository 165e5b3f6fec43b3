//! A client's connection.

use std::io::{self, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::listen::Stream;
use crate::pace::{Outlet, NAP};

/// A connection to which any thread may send a reply.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Stream,
    sending: Mutex<()>,
    /// Replies that wait for the device model.
    delayed: AtomicUsize,
    /// When it was made, and how long after that a byte came or went last, in milliseconds.
    made: Instant,
    moved_ms: AtomicU64,
}

/// A client that takes so many bytes has not stopped.
const PIECE_BYTES: usize = 256 << 10;

impl Link {
    /// A connection over `stream`.
    pub fn new(stream: Stream) -> Link {
        let (delayed, moved_ms) = (AtomicUsize::new(0), AtomicU64::new(0));
        Link { stream, sending: Mutex::new(()), delayed, made: Instant::now(), moved_ms }
    }

    /// The socket to the client.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Sends whole replies.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in bytes.chunks(PIECE_BYTES) {
            (&self.stream).write_all(piece)?;
            self.moved();
        }
        Ok(())
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
    fn send_due(&self, answers: usize, bytes: &[u8]) {
        // A client that has left does not hear of it.
        let _ = self.send(bytes);
        self.delayed.fetch_sub(answers, Ordering::Relaxed);
    }
}
