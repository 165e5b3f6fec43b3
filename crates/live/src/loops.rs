//! A loop device on a file, by `losetup`.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::LiveError;

/// Bytes of a sector. With less, the kernel's page cache would cut requests that are smaller than a page of
/// flash.
const SECTOR_BYTES: u32 = 4096;

/// A loop device.
#[derive(Debug)]
pub struct Loop {
    device: PathBuf,
    file: PathBuf,
}

impl Loop {
    /// Says in one sentence why no loop device can be had, where that can be told beforehand.
    pub fn possible() -> Result<(), LiveError> {
        let control = Path::new("/dev/loop-control");
        let there = control.metadata().is_ok_and(|found| found.file_type().is_char_device());
        if !there {
            return Err(LiveError::Refused(
                "/dev/loop-control is missing, so there are no loop devices; leave --loop out, or load the module loop".into(),
            ));
        }
        if !rustix::process::geteuid().is_root() {
            return Err(LiveError::Refused(
                "only root can attach a loop device; run it as root, or leave --loop out".into(),
            ));
        }
        Ok(())
    }

    /// Attaches a free loop device to `file`: sectors of 4 KiB, no cache of its own.
    pub fn attach(file: &Path) -> Result<Loop, LiveError> {
        let sector = SECTOR_BYTES.to_string();
        let attach = ["--find", "--show", "--direct-io=on", "--sector-size", &sector];
        let output = Command::new("losetup").args(attach).arg(file).output();
        let missing = "losetup cannot be run; install the package mount, or leave --loop out";
        let output = output.map_err(LiveError::host(missing))?;
        let device = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() || device.is_empty() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(LiveError::Refused(format!("no loop device could be attached ({})", why.trim())));
        }
        Ok(Loop { device: PathBuf::from(device), file: file.to_owned() })
    }

    /// The block device's path, such as /dev/loop0.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// Detaches it. One that is in use, by a mounted file system say, is detached by the kernel when it no
    /// longer is.
    pub fn detach(&self) {
        if self.is_ours() {
            // Who has detached it before us has done what we want.
            let _ = Command::new("losetup").arg("--detach").arg(&self.device).output();
        }
    }

    /// Whether the device still belongs to our file: somebody may have detached it, and the next one taken
    /// it.
    fn is_ours(&self) -> bool {
        let name = self.device.file_name().unwrap_or_default().to_string_lossy();
        let backing = std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
        backing.is_ok_and(|backing| Path::new(backing.trim_end_matches('\n')) == self.file)
    }
}
