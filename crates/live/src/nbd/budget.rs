//! Memory that clients hold while they do not take their replies, or have not sent all of a request: bounded
//! for all of them together.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::link::Link;

/// Most bytes of replies and of long payloads under way. One that is larger goes alone.
const MOST_BYTES: usize = 256 << 20;
/// A client that moves no byte for so long while others wait for memory is left.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often those who wait look for such a client.
const LOOK: Duration = Duration::from_millis(250);

#[derive(Default)]
struct Held {
    bytes: usize,
    /// By number of the share.
    holders: BTreeMap<u64, Arc<Link>>,
    next: u64,
}

/// What the clients of a server hold.
pub(super) struct Budget {
    held: Mutex<Held>,
    less: Condvar,
    most_bytes: usize,
    patience: Duration,
}

impl Default for Budget {
    fn default() -> Budget {
        let (held, less) = Default::default();
        Budget { held, less, most_bytes: MOST_BYTES, patience: PATIENCE }
    }
}

/// Bytes that a client holds, until it is dropped.
pub(super) struct Share {
    budget: Arc<Budget>,
    number: u64,
    bytes: usize,
}

impl Budget {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for `bytes` of the client at `link`. Meanwhile those who hold some, and have
    /// stopped, are hung up on.
    pub fn take(self: &Arc<Budget>, link: &Arc<Link>, bytes: usize) -> Share {
        let mut held = self.held();
        while held.bytes > 0 && held.bytes + bytes > self.most_bytes {
            for holder in held.holders.values().filter(|holder| holder.still() >= self.patience) {
                holder.hang_up();
            }
            held = self.less.wait_timeout(held, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        held.bytes += bytes;
        held.next += 1;
        let number = held.next;
        link.moved();
        held.holders.insert(number, link.clone());
        Share { budget: self.clone(), number, bytes }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.budget.held();
        held.bytes -= self.bytes;
        held.holders.remove(&self.number);
        drop(held);
        self.budget.less.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::listen::Stream;

    #[test]
    fn memory_is_bounded_and_a_client_that_stopped_gives_way() {
        let budget = Budget { most_bytes: 100, patience: Duration::from_millis(50), ..Budget::default() };
        let budget = Arc::new(budget);
        let (mut pairs, mut links) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let (here, there) = UnixStream::pair().unwrap();
            links.push(Arc::new(Link::new(Stream::Unix(here))));
            pairs.push(there);
        }
        let (first, second) = (budget.take(&links[0], 60), budget.take(&links[1], 40));
        drop(second);
        assert_eq!(budget.held().bytes, 60);
        // The first client stops: it is hung up on, and its thread gives its share back.
        let waits = std::thread::spawn({
            let (budget, link) = (budget.clone(), links[2].clone());
            move || budget.take(&link, 1000)
        });
        assert_eq!(pairs[0].read(&mut [0]).unwrap(), 0);
        assert!(!waits.is_finished());
        drop(first);
        let alone = waits.join().unwrap();
        assert_eq!(budget.held().bytes, 1000);
        drop(alone);
        assert!(budget.held().bytes == 0 && budget.held().holders.is_empty());
    }
}
