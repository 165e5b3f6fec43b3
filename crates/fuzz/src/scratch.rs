//! Files in memory: nothing is left behind, however a run ends, and no disk is waited for.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::MemfdFlags;
use tempfile::TempDir;

/// A file that goes when it is dropped, and that other code can open by a path.
pub struct Scratch(pub File);

impl Scratch {
    /// An empty one.
    pub fn new() -> io::Result<Scratch> {
        Ok(Scratch(File::from(rustix::fs::memfd_create("ftl-fuzz", MemfdFlags::CLOEXEC)?)))
    }

    /// One with this content.
    pub fn of(bytes: &[u8]) -> io::Result<Scratch> {
        let mut scratch = Scratch::new()?;
        scratch.0.write_all(bytes)?;
        scratch.0.seek(SeekFrom::Start(0))?;
        Ok(scratch)
    }

    /// A path that leads to it in this process, each time with a place of its own in the file.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

/// A folder for what needs a name for a moment, in memory if there is such a place.
///
/// # Panics
/// There is no place for it.
pub fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir());
    made.unwrap_or_else(|error| panic!("no temporary folder: {error}"))
}
