//! What an image lies on: a file, or in tests something that can lose what was not synced.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use rustix::fs::FallocateFlags;

/// A place for bytes with the promises of a file: what was written is read back, and survives a power cut
/// once a later [`Medium::sync`] has returned. Without that, any part of it may survive, in any order.
pub trait Medium: Send + Sync + 'static {
    /// Fills `bytes` from `offset` on.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// The same where all of the bytes have been written: for reading pages, where every microsecond counts.
    fn read_written(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_at(bytes, offset)
    }

    /// Writes all of `parts`, one after the other, from `offset` on.
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()>;

    /// Returns when everything written before the call is durable.
    fn sync(&self) -> io::Result<()>;

    /// Gives back the space of a range that nobody reads again before it is written.
    fn punch(&self, offset: u64, length: u64) -> io::Result<()>;

    /// What has kept everything written so far, synced or not, as long as it stays the same: for a file the
    /// boot of the host. `None`: nobody knows.
    fn boot(&self) -> Option<[u8; 16]> {
        None
    }
}

/// The number that Linux gave this boot of its.
fn boot_of_linux() -> Option<[u8; 16]> {
    static BOOT: OnceLock<Option<[u8; 16]>> = OnceLock::new();
    *BOOT.get_or_init(read_boot_id)
}

fn read_boot_id() -> Option<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    let mut boot = [0; 16];
    if digits.len() != 2 * boot.len() {
        return None;
    }
    for (byte, pair) in boot.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (pair[0] << 4 | pair[1]) as u8;
    }
    Some(boot)
}

/// Most parts that one system call takes (`IOV_MAX`).
const MOST_PARTS: usize = 1024;

impl Medium for File {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, bytes, offset)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut offset = offset;
        for parts in parts.chunks(MOST_PARTS) {
            let whole: usize = parts.iter().map(|part| part.len()).sum();
            let written = match parts {
                [one] => FileExt::write_at(self, one, offset)?,
                _ => rustix::io::pwritev(self, parts, offset)?,
            };
            if written < whole {
                // A full file system, or a signal: writing the rest tells which.
                let (mut at, mut skip) = (offset, written);
                for part in parts {
                    let from = skip.min(part.len());
                    skip -= from;
                    FileExt::write_all_at(self, &part[from..], at + from as u64)?;
                    at += part.len() as u64;
                }
            }
            offset += whole as u64;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(self, how, offset, length) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn boot(&self) -> Option<[u8; 16]> {
        boot_of_linux()
    }
}
