//! What a program's threads ask of a file system.

use std::fmt::Debug;
use std::ops::Range;

use super::requests::Requests;

/// What a file system makes of the pages that programs write, read and delete. Files are numbered; the last
/// is a log.
pub(super) trait FileSystem: Clone + Debug {
    /// Pages of a file beside its data.
    const INODE_PAGES: u64;
    /// Whether the pages of all that a thread does in a round are chosen when the round begins, and otherwise
    /// those of each operation when its turn comes.
    const ALLOCATES_ROUNDS: bool;

    /// Bytes that files may take on a device.
    fn room_bytes(device_bytes: u64) -> u64;

    /// An empty one, for so many files and a log, in directories of `dir_width`, each of mostly no more than
    /// `most_pages`.
    fn new(device_bytes: u64, files: u32, dir_width: u32, most_pages: u32) -> Self;

    /// Writes pages of a file, in place or behind its end; `sync`: and a sync follows. `false`: there is no
    /// room, and nothing was done.
    fn write(&mut self, queue: &mut Requests, file: u32, pages: Range<u32>, sync: bool) -> bool;

    /// Reads pages of a file.
    fn read(&mut self, queue: &mut Requests, file: u32, pages: Range<u32>);

    /// Deletes a file.
    fn delete(&mut self, queue: &mut Requests, file: u32);

    /// Metadata of a file has changed; `sync`: and the thread waits until that and the file are durable.
    fn changed(&mut self, queue: &mut Requests, file: u32, sync: bool);

    /// Writes what is held back, at the end of a layout.
    fn settle(&mut self, queue: &mut Requests);

    /// How many requests of the last operation, from its first, are made before another thread's turn comes.
    fn exclusive(&mut self) -> usize;
}
