//! A file system that writes in place, as ext4 does.
//!
//! A file gets the next free pages and keeps them; directories are not modelled. A journal of 128 MiB takes a
//! page for each eight changes, when a file is synced or every 64 changes. Deleting a file trims nothing, as
//! ext4 without `discard`.

use std::ops::Range;

use super::disk::Disk;
use super::file_system::FileSystem;
use super::requests::{extend, push, Extents, Requests, PAGE, READ_MOST, WRITE_MOST};
use crate::{Kind, Request};

const JOURNAL_PAGES: u32 = 32 << 10;
/// Changes of metadata that are written to the journal together.
const COMMIT: u32 = 64;
const CHANGES_A_PAGE: u32 = 8;
/// Pages of the log that servers append to.
pub(super) const LOG_PAGES: u32 = 16 << 10;
const SYSTEM_PAGES: u32 = JOURNAL_PAGES + LOG_PAGES;
/// Bytes of the smallest device: half of it is for files.
pub(super) const LEAST_BYTES: u64 = 2 * SYSTEM_PAGES as u64 * PAGE;
/// Files take up at most so much of the space, percent.
const FILL: u64 = 94;

/// Files, free space and the journal.
#[derive(Debug, Clone)]
pub(super) struct Ext4 {
    disk: Disk,
    files: Vec<Extents>,
    /// Next page of the journal.
    journal: u32,
    changes: u32,
}

impl Ext4 {
    /// Bytes of a device on which files may take `bytes`.
    pub(super) fn device_bytes(bytes: u64) -> u64 {
        u64::from(SYSTEM_PAGES) * PAGE + (bytes * 100 / FILL + PAGE).next_multiple_of(PAGE)
    }

    fn pages(device_bytes: u64) -> u32 {
        u32::try_from(device_bytes.max(LEAST_BYTES) / PAGE).unwrap_or(u32::MAX)
    }

    /// Where pages of a file lie; those it does not have are left out.
    fn extents(&self, file: u32, pages: &Range<u32>) -> Extents {
        let (mut before, mut found) = (0, Extents::new());
        for &(start, count) in &self.files[file as usize] {
            let from = pages.start.max(before);
            let to = pages.end.min(before + count);
            if from < to {
                found.push((start + from - before, to - from));
            }
            before += count;
        }
        found
    }

    #[cfg(test)]
    pub(super) fn left(&self) -> u32 {
        self.disk.left()
    }

    #[cfg(test)]
    pub(super) fn whole(&self, file: u32) -> &Extents {
        &self.files[file as usize]
    }
}

impl FileSystem for Ext4 {
    const INODE_PAGES: u64 = 0;
    const ALLOCATES_ROUNDS: bool = true;

    fn room_bytes(device_bytes: u64) -> u64 {
        u64::from(Ext4::pages(device_bytes) - SYSTEM_PAGES) * PAGE / 100 * FILL
    }

    fn new(device_bytes: u64, files: u32, _dir_width: u32, _most_pages: u32) -> Ext4 {
        let mut all = vec![Extents::new(); files as usize];
        all.push(vec![(JOURNAL_PAGES, LOG_PAGES)]);
        Ext4 { disk: Disk::new(SYSTEM_PAGES, Ext4::pages(device_bytes)), files: all, journal: 0, changes: 0 }
    }

    fn write(&mut self, queue: &mut Requests, file: u32, pages: Range<u32>, _sync: bool) -> bool {
        let held: u32 = self.files[file as usize].iter().map(|extent| extent.1).sum();
        let Some(more) = self.disk.take(pages.end.saturating_sub(held)) else { return false };
        let mut written = self.extents(file, &pages);
        written.extend(&more);
        for extent in more {
            extend(&mut self.files[file as usize], extent);
        }
        push(queue, Kind::Write, &written, WRITE_MOST);
        true
    }

    fn read(&mut self, queue: &mut Requests, file: u32, pages: Range<u32>) {
        push(queue, Kind::Read, &self.extents(file, &pages), READ_MOST);
    }

    fn delete(&mut self, _queue: &mut Requests, file: u32) {
        let gone = std::mem::take(&mut self.files[file as usize]);
        self.disk.give(&gone);
    }

    fn changed(&mut self, queue: &mut Requests, _file: u32, sync: bool) {
        self.changes += 1;
        if !sync && self.changes < COMMIT {
            return;
        }
        let pages = 1 + self.changes.div_ceil(CHANGES_A_PAGE);
        self.changes = 0;
        if self.journal + pages > JOURNAL_PAGES {
            self.journal = 0;
        }
        push(queue, Kind::Write, &[(self.journal, pages)], WRITE_MOST);
        self.journal += pages;
        if sync {
            queue.push_back(Request::flush(0));
        }
    }

    fn settle(&mut self, _queue: &mut Requests) {}

    fn exclusive(&mut self) -> usize {
        0
    }
}
