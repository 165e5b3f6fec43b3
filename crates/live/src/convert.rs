//! One device's content into another device: another scheme, another shape.
//!
//! The old scheme recovers its image and tells what is mapped; the new one writes that. So any scheme can
//! follow any other, and what the old one would have read is what the new one holds.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use nand::DeviceSpec;

use crate::engine::Opening;
use crate::error::LiveError;
use crate::export::Export;
use crate::image::{create, describe, open};
use crate::request::{Op, Request};
use crate::settings::Settings;
use crate::walk::walk;

/// What a conversion did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// Bytes copied.
    pub copied: u64,
    /// Bytes that hold nothing.
    pub holes: u64,
}

/// Makes the image `to` with what `from` holds. Nothing is written to `from`; `to` is there as a whole or not
/// at all. `progress` hears how many bytes of how many are dealt with, and says whether to go on.
pub fn convert(
    from: &Path,
    to: &Path,
    device: &DeviceSpec,
    settings: &Settings,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Converted, LiveError> {
    let (old, _) = describe(from)?;
    if device.exported_bytes() < old.exported_bytes() {
        return Err(LiveError::Refused(format!(
            "{} exports {} bytes but {} would export {}; give a device or --export that is not smaller",
            from.display(),
            old.exported_bytes(),
            to.display(),
            device.exported_bytes()
        )));
    }
    if to.symlink_metadata().is_ok() {
        return Err(LiveError::Refused(format!(
            "{}: there is such a file already; remove it, or choose another name",
            to.display()
        )));
    }
    let (source, _) = open(from, Opening { paced: false, read_only: true })?;
    let unfinished = Unfinished(beside(to));
    create(&unfinished.0, device, settings)?;
    let (target, _) = open(&unfinished.0, Opening::default())?;
    let converted = copy(&*source, &*target, progress)?;
    target.power_off().map_err(|error| {
        LiveError::Refused(format!("{}: not switched off in good order ({error})", to.display()))
    })?;
    let unnamed = format!("{}: the image cannot be given its name", to.display());
    nand::give_name(&unfinished.0, to).map_err(LiveError::host(unnamed))?;
    Ok(converted)
}

/// A name for the image until it is whole.
fn beside(to: &Path) -> PathBuf {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    to.with_file_name(format!(".{name}.{}.unfinished", std::process::id()))
}

/// A file that goes when this does.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // It may not be there yet.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn copy(
    source: &dyn Export,
    target: &dyn Export,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Converted, LiveError> {
    let size = source.exported_bytes();
    let mut copied = 0;
    walk(source, &mut |range, content| {
        let offset = range.start;
        let content = content.ok_or_else(|| {
            LiveError::Refused(format!("byte {offset} cannot be read; `ftl scrub` says what else cannot"))
        })?;
        let data = Bytes::copy_from_slice(content);
        let request = Request { op: Op::Write, offset, length: content.len() as u32, fua: false, data };
        target
            .request(&request, &mut [])
            .map_err(|error| LiveError::Refused(format!("writing at byte {offset} failed: {error}")))?;
        copied += range.end - range.start;
        if progress(range.end, size) {
            Ok(())
        } else {
            Err(LiveError::Stopped)
        }
    })?;
    Ok(Converted { copied, holes: size - copied })
}
