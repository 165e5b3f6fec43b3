//! A client's connection.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::listen::Stream;
use crate::pace::{Outlet, NAP};

/// A connection to which any thread may send a reply.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Stream,
    sending: Mutex<()>,
    /// Replies that wait for the device model.
    delayed: AtomicUsize,
}

impl Link {
    /// A connection over `stream`.
    pub fn new(stream: Stream) -> Link {
        Link { stream, sending: Mutex::new(()), delayed: AtomicUsize::new(0) }
    }

    /// The socket to the client.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Sends whole replies.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        (&self.stream).write_all(bytes)
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
