//! Reading bytes beside the array: the array decides which pages, and goes on while they are read.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::format::Places;
use super::medium::Medium;
use crate::{Lpn, Ppn};

/// A page that the host's buffer gets.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// Whose data it holds.
    pub lpn: Lpn,
    /// The page; no page's number when the data come from the data buffer.
    pub ppn: Ppn,
    /// CRC of its data.
    pub(super) crc: u32,
    /// The data, if they were not in the file when the page was read.
    pub(super) staged: Option<Bytes>,
}

impl Fetch {
    /// Whether `data` are what was written.
    fn compare(&self, data: &[u8]) -> io::Result<()> {
        if crc32fast::hash(data) == self.crc {
            return Ok(());
        }
        Err(io::Error::other(format!("the data of page {} are not what was written", self.ppn.0)))
    }
}

/// How many readings are under way.
#[derive(Debug, Default)]
pub(super) struct Readers {
    count: Mutex<usize>,
    none: Condvar,
}

impl Readers {
    /// The count is right even if somebody panicked while it was held.
    fn count(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no reading is under way. Whoever calls it holds the array, so that none begins meanwhile.
    pub fn wait(&self) {
        let mut count = self.count();
        while *count > 0 {
            count = self.none.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A reading of bytes: pages fetched before it was begun stay as they are until it is dropped.
#[derive(Debug)]
pub struct Reader<M: Medium> {
    medium: Arc<M>,
    places: Places,
    readers: Arc<Readers>,
    rescued: Rescued,
}

/// Data of pages that may have been written again since, by page and CRC.
pub(super) type Rescued = FxHashMap<(u32, u32), Bytes>;

impl<M: Medium> Reader<M> {
    pub(super) fn new(medium: Arc<M>, places: Places, readers: Arc<Readers>, rescued: Rescued) -> Reader<M> {
        *readers.count() += 1;
        Reader { medium, places, readers, rescued }
    }

    /// The data of a page, when they are in memory.
    fn kept<'a>(&'a self, fetch: &'a Fetch) -> Option<&'a Bytes> {
        let rescued = || self.rescued.get(&(fetch.ppn.0, fetch.crc));
        fetch.staged.as_ref().or_else(rescued)
    }

    /// Fills `to`, whole pages that lie side by side, with the data of `fetches`, whose PPNs follow one
    /// another. Data that are not what was written are an error.
    pub fn read(&self, fetches: &[Fetch], to: &mut [u8]) -> io::Result<()> {
        let Some(first) = fetches.first() else { return Ok(()) };
        let page_bytes = to.len() / fetches.len();
        if fetches.iter().all(|fetch| self.kept(fetch).is_none()) {
            self.medium.read_written(to, self.places.data(first.ppn.0))?;
        } else {
            for (fetch, page) in fetches.iter().zip(to.chunks_exact_mut(page_bytes)) {
                match self.kept(fetch) {
                    Some(kept) => page.copy_from_slice(kept),
                    None => self.medium.read_written(page, self.places.data(fetch.ppn.0))?,
                }
            }
        }
        fetches.iter().zip(to.chunks_exact(page_bytes)).try_for_each(|(fetch, page)| fetch.compare(page))
    }

    /// The same for one page that holds no user data, from the second place where its data lie.
    pub(super) fn read_mirror(&self, fetch: &Fetch, to: &mut [u8]) -> io::Result<()> {
        match self.kept(fetch) {
            Some(kept) => to.copy_from_slice(kept),
            None => self.medium.read_written(to, self.places.mirror(fetch.ppn.0))?,
        }
        fetch.compare(to)
    }
}

impl<M: Medium> Drop for Reader<M> {
    fn drop(&mut self) {
        let mut count = self.readers.count();
        *count -= 1;
        if *count == 0 {
            self.readers.none.notify_all();
        }
    }
}
