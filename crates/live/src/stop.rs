//! How a front end is asked to stop, from any thread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::error::LiveError;

/// Asks a front end to stop; any clone does, from any thread.
#[derive(Clone, Debug)]
pub struct Stop(Arc<(OwnedFd, OwnedFd)>);

impl Stop {
    /// A stop that nobody has asked for yet.
    pub fn new() -> Result<Stop, LiveError> {
        let (read, write) = rustix::pipe::pipe().map_err(LiveError::host("a pipe cannot be made"))?;
        Ok(Stop(Arc::new((read, write))))
    }

    /// Asks for it; asking again changes nothing.
    pub fn ask(&self) {
        // A full pipe has been asked before.
        let _ = rustix::io::write(&self.0 .1, &[1]);
    }

    /// Whether somebody has asked, within `patience`; without one it waits for ever.
    pub fn wait(&self, patience: Option<Duration>) -> bool {
        let patience = patience.map(|patience| Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(patience.subsec_nanos()),
        });
        let mut asked = [PollFd::new(self, PollFlags::IN)];
        loop {
            match poll(&mut asked, patience.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                found => return found.is_ok_and(|count| count > 0),
            }
        }
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0 .0.as_fd()
    }
}
