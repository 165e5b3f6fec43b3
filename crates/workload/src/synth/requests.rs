//! Runs of pages, and the requests for them.

use std::collections::VecDeque;

use crate::{Kind, Request};

/// Bytes of a page of a file system.
pub(super) const PAGE: u64 = 4096;
/// Pages of a read at most: Linux's read-ahead of 128 KiB.
pub(super) const READ_MOST: u32 = 32;
/// Pages of a write at most: 512 KiB.
pub(super) const WRITE_MOST: u32 = 128;

/// Pages of a file: first page and number, in the order of the file.
pub(super) type Extents = Vec<(u32, u32)>;
/// Requests that a thread has still to make.
pub(super) type Requests = VecDeque<Request>;

/// Adds a run to a file, as one with the last where it goes on there.
pub(super) fn extend(extents: &mut Extents, (start, count): (u32, u32)) {
    match extents.last_mut() {
        Some((first, pages)) if *first + *pages == start => *pages += count,
        _ => extents.push((start, count)),
    }
}

/// Requests for extents, of at most so many pages each.
pub(super) fn push(queue: &mut Requests, kind: Kind, extents: &[(u32, u32)], most: u32) {
    for &(start, count) in extents {
        let mut at = 0;
        while at < count {
            let pages = most.min(count - at);
            let (offset, bytes) = (u64::from(start + at) * PAGE, u64::from(pages) * PAGE);
            queue.push_back(Request { arrival_ns: 0, kind, offset, bytes });
            at += pages;
        }
    }
}

/// A trim of each extent.
pub(super) fn trim(queue: &mut Requests, extents: &[(u32, u32)]) {
    push(queue, Kind::Trim, extents, u32::MAX);
}
