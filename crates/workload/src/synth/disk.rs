//! Space of a file system in pages of 4 KiB: extents are taken from where the last one ended, as ext4 goes on
//! from its goal.

use std::collections::BTreeMap;

use super::requests::{extend, Extents};

#[derive(Debug, Clone)]
pub(super) struct Disk {
    /// First page of each free run, and its length.
    free: BTreeMap<u32, u32>,
    hand: u32,
    left: u32,
}

impl Disk {
    /// Free pages from `first` to `end`, `end` left out.
    pub(super) fn new(first: u32, end: u32) -> Disk {
        assert!(first < end, "a file system without pages");
        Disk { free: BTreeMap::from([(first, end - first)]), hand: first, left: end - first }
    }

    /// Takes `pages` pages, in as few runs as lie ahead; `None` when there are not so many.
    pub(super) fn take(&mut self, pages: u32) -> Option<Extents> {
        if pages > self.left {
            return None;
        }
        let (mut wanted, mut taken) = (pages, Extents::new());
        while wanted > 0 {
            let ahead = self.free.range(self.hand..).next().or_else(|| self.free.iter().next());
            let (&start, &length) = ahead?;
            let part = wanted.min(length);
            self.free.remove(&start);
            if part < length {
                self.free.insert(start + part, length - part);
            }
            self.hand = start + part;
            self.left -= part;
            wanted -= part;
            extend(&mut taken, (start, part));
        }
        Some(taken)
    }

    /// Gives pages back.
    pub(super) fn give(&mut self, extents: &[(u32, u32)]) {
        for &(mut start, mut length) in extents.iter().filter(|extent| extent.1 > 0) {
            self.left += length;
            if let Some((&before, &count)) = self.free.range(..start).next_back() {
                assert!(before + count <= start, "page {start} was given back twice");
                if before + count == start {
                    self.free.remove(&before);
                    (start, length) = (before, count + length);
                }
            }
            if let Some(after) = self.free.remove(&(start + length)) {
                length += after;
            }
            self.free.insert(start, length);
        }
    }

    #[cfg(test)]
    pub(super) fn left(&self) -> u32 {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_whole() {
        let mut disk = Disk::new(10, 110);
        let files: Vec<Extents> = (0..10).map(|_| disk.take(10).expect("room")).collect();
        assert_eq!(disk.take(1), None);
        for file in files.iter().step_by(2) {
            disk.give(file);
        }
        let scattered = disk.take(25).expect("room");
        assert_eq!(scattered, [(10, 10), (30, 10), (50, 5)]);
        disk.give(&scattered);
        for file in files.iter().skip(1).step_by(2) {
            disk.give(file);
        }
        assert_eq!((disk.left(), disk.free.len()), (100, 1));
    }
}
