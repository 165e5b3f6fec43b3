//! Image files as a medium. One on tmpfs is read where it lies, without asking the kernel, which would take
//! longer than an FTL for a page. On a disk that would turn its errors, and waiting for it, into the death of
//! the process.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, IoSlice};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::FsWord;

use super::kept::Kept;
use super::medium::Medium;

/// What statfs(2) calls tmpfs.
const TMPFS: FsWord = 0x0102_1994;

/// A file that this process has locked.
#[derive(Debug)]
pub struct ImageFile {
    file: File,
    /// All of it, when it is in memory.
    view: Option<MmapRaw>,
    /// What is written in place of the file, when that is to be read alone.
    kept: Option<Kept>,
}

impl ImageFile {
    /// A file that is only read: what is written stays in memory.
    pub(super) fn read_only(file: File) -> ImageFile {
        ImageFile { file, view: None, kept: Some(Kept::default()) }
    }

    pub(super) fn new(file: File) -> ImageFile {
        let in_memory = rustix::fs::fstatfs(&file).is_ok_and(|found| found.f_type == TMPFS);
        // Without a view it is slower, nothing else.
        let view = in_memory.then(|| MmapOptions::new().map_raw_read_only(&file).ok()).flatten();
        ImageFile { file, view, kept: None }
    }
}

impl Medium for ImageFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(bytes, offset)?;
        if let Some(kept) = &self.kept {
            kept.patch(bytes, offset);
        }
        Ok(())
    }

    // A hole that is looked at takes memory, and kills the process when there is none: only what was written
    // is read so.
    fn read_written(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let Some(view) = &self.view else { return self.read_at(bytes, offset) };
        let end = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(bytes.len()));
        let Some(end) = end.filter(|&end| end <= view.len()) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        // SAFETY: source is inside the view (checked above), which lives as long as `self`, and `bytes` is
        // memory of its own. Pages being read are not written meanwhile (`Readers`); if another process
        // writes to the file in spite of the lock, the bytes are garbage, which their CRC tells. The file has
        // the length of the view: nothing here truncates it.
        unsafe {
            let from = view.as_ptr().add(end - bytes.len());
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len());
        }
        Ok(())
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        match &self.kept {
            Some(kept) => kept.write(parts, offset, |to, at| self.file.read_at(to, at)),
            None => self.file.write_at(parts, offset),
        }
    }

    fn sync(&self) -> io::Result<()> {
        if self.kept.is_some() {
            return Ok(());
        }
        self.file.sync()
    }

    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        if self.kept.is_some() {
            return Ok(());
        }
        self.file.punch(offset, length)
    }

    fn boot(&self) -> Option<[u8; 16]> {
        self.file.boot()
    }
}
