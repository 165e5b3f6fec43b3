//! All of an image read and verified, and what can be read of it copied out.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nand::{ImageError, Lpn, Salvage, Salvaged, Scrubbed};

use crate::engine::Opening;
use crate::error::{CheckError, LiveError};
use crate::image::{describe, open};
use crate::request::IoError;
use crate::snapshot::Opened;
use crate::walk::walk;

/// What reading all of an image has found.
#[derive(Debug)]
pub struct ScrubReport {
    /// What opening it found.
    pub opened: Opened,
    /// What reading every page of the array found.
    pub array: Scrubbed,
    /// Bytes of the device that hold data and can be read.
    pub readable: u64,
    /// Bytes of the device that hold data and cannot be read: ranges, ascending.
    pub lost: Vec<Range<u64>>,
    /// What of the scheme's structures contradicts itself or the array.
    pub breach: Option<String>,
}

impl ScrubReport {
    /// Damaged copies, the other copy of which is whole.
    pub fn mendable(&self) -> u64 {
        self.opened.mounted.healed + self.array.mendable
    }

    /// Bytes of the device that cannot be read.
    pub fn lost_bytes(&self) -> u64 {
        self.lost.iter().map(|range| range.end - range.start).sum()
    }

    /// Whether everything can be read, and nothing contradicts itself.
    pub fn is_whole(&self) -> bool {
        self.lost.is_empty() && self.breach.is_none() && self.array.unrecorded == 0
    }
}

/// Reads and verifies every page of an image: in the array, and by way of its scheme. With `repair` what has
/// another copy is mended, and the image is closed in good order; without, nothing is written to it.
/// `progress` hears how many bytes of how many are dealt with.
pub fn scrub(
    path: &Path,
    repair: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ScrubReport, LiveError> {
    let (export, opened) = open(path, Opening { paced: false, read_only: !repair })?;
    let unread = |error: IoError| {
        LiveError::Refused(format!(
            "{}: reading it failed: {error}; the rest was not looked at",
            path.display()
        ))
    };
    let (device, _) = describe(path)?;
    let (page_bytes, exported) = (u64::from(export.page_bytes()), export.exported_bytes());
    let mut array = Scrubbed::default();
    // Pages are numbered before it is known how many hold something.
    let all = page_bytes * u64::from(device.geometry.pages()) + exported;
    let mut next = Some(0);
    while let Some(page) = next {
        next = export.scrub(page, &mut array).map_err(unread)?;
        progress(page_bytes * u64::from(page), all);
    }
    let (mut readable, mut lost) = (0, Vec::new());
    walk(&*export, &mut |range, content| {
        match content {
            Some(_) => readable += range.end - range.start,
            None => join(&mut lost, range.clone()),
        }
        progress(all - exported + range.end, all);
        Ok(())
    })?;
    let breach = match export.check() {
        Ok(()) => None,
        Err(CheckError::Breach(breach)) => Some(breach.to_string()),
        Err(CheckError::Io(error)) => return Err(unread(error)),
    };
    export.power_off().map_err(|error| {
        LiveError::Refused(format!("{}: not switched off in good order ({error})", path.display()))
    })?;
    Ok(ScrubReport { opened, array, readable, lost, breach })
}

/// Adds a range behind the others.
fn join(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

/// What was copied out of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvageReport {
    /// The content of the device, as a sparse file.
    pub content: PathBuf,
    /// What is not its newest content, or is missing, as CSV: first byte, bytes, what.
    pub list: PathBuf,
    /// Why the image could not be opened. Then the OOB of single pages says what they held, and pages that
    /// were trimmed may be back.
    pub refused: Option<String>,
    /// Bytes copied.
    pub copied: u64,
    /// Of these, bytes of an older version, as the newest cannot be read.
    pub older: u64,
    /// Bytes that cannot be read.
    pub lost: u64,
    /// Pages of the array with records that cannot be read: what they held is not known.
    pub unrecorded: u64,
    /// Records that were durable are gone, and nothing says of which pages: what is not found may be lost,
    /// and what is found may not be the newest.
    pub untraced: bool,
}

/// Copies what can be read of an image into `folder`, as NAME.raw, with a list of what cannot, NAME.csv.
/// Nothing is written to the image. `progress` hears how many bytes of how many are dealt with.
pub fn salvage(
    path: &Path,
    folder: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<SalvageReport, LiveError> {
    let (device, refused) = match open(path, Opening { paced: false, read_only: true }) {
        Ok((export, _)) => (Some(export), None),
        Err(error @ (LiveError::Open { .. } | LiveError::Panicked { .. })) => (None, Some(error.to_string())),
        Err(LiveError::Image(error @ ImageError::Damaged { .. })) => (None, Some(error.to_string())),
        Err(error) => return Err(error),
    };
    let mut to = Target::make(path, folder, refused)?;
    match device {
        Some(export) => {
            let size = export.exported_bytes();
            to.begin(size)?;
            walk(&*export, &mut |range, content| {
                progress(range.end, size);
                to.take(range, content, Salvaged::Newest)
            })?;
        }
        None => {
            let salvage = Salvage::open(path)?;
            let device = &salvage.description().device;
            let (pages, page_bytes) = (device.exported_pages, device.geometry.page_bytes as usize);
            to.begin(device.exported_bytes())?;
            (to.report.unrecorded, to.report.untraced) = (salvage.unrecorded(), salvage.untraced());
            let mut buffer = vec![0; page_bytes];
            for lpn in 0..pages {
                let found = salvage.read(Lpn(lpn), &mut buffer);
                let at = u64::from(lpn) * page_bytes as u64;
                let content = matches!(found, Salvaged::Newest | Salvaged::Older).then_some(&buffer[..]);
                if found != Salvaged::Nothing {
                    to.take(at..at + page_bytes as u64, content, found)?;
                }
                progress(at, device.exported_bytes());
            }
        }
    }
    to.finish()
}

/// The files that a salvage makes.
struct Target {
    content: File,
    list: BufWriter<File>,
    /// What the line that is next in the list says: a range that goes on, and what of it.
    open: Option<(Range<u64>, Salvaged)>,
    report: SalvageReport,
}

impl Target {
    fn make(image: &Path, folder: &Path, refused: Option<String>) -> Result<Target, LiveError> {
        let made = std::fs::create_dir_all(folder);
        made.map_err(LiveError::host(format!("{}: the folder cannot be made", folder.display())))?;
        let named = |ending: &str| {
            let stem = image.file_stem().unwrap_or_default().to_string_lossy();
            folder.join(format!("{stem}.{ending}"))
        };
        let make = |path: &Path| {
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            file.map_err(LiveError::host(format!("{}: the file cannot be made", path.display())))
        };
        let (content, list) = (named("raw"), named("csv"));
        let (copied, older, lost, unrecorded, untraced) = (0, 0, 0, 0, false);
        let report = SalvageReport { content, list, refused, copied, older, lost, unrecorded, untraced };
        if report.list.symlink_metadata().is_ok() {
            return Err(LiveError::Refused(format!(
                "{}: there is such a file already; remove it, or choose another folder",
                report.list.display()
            )));
        }
        let target = Target {
            content: make(&report.content)?,
            list: BufWriter::new(make(&report.list)?),
            open: None,
            report,
        };
        Ok(target)
    }

    fn failed(&self) -> impl Fn(std::io::Error) -> LiveError {
        LiveError::host(format!("{}: it cannot be written", self.report.content.display()))
    }

    fn begin(&mut self, size: u64) -> Result<(), LiveError> {
        self.content.set_len(size).map_err(self.failed())?;
        writeln!(self.list, "offset,bytes,what").map_err(self.failed())
    }

    fn take(&mut self, range: Range<u64>, content: Option<&[u8]>, found: Salvaged) -> Result<(), LiveError> {
        let length = range.end - range.start;
        let what = if content.is_some() { found } else { Salvaged::Lost };
        if let Some(content) = content {
            self.content.write_all_at(content, range.start).map_err(self.failed())?;
            self.report.copied += length;
        }
        match what {
            Salvaged::Older => self.report.older += length,
            Salvaged::Lost => self.report.lost += length,
            Salvaged::Nothing | Salvaged::Newest => return Ok(()),
        }
        match &mut self.open {
            Some((open, same)) if open.end == range.start && *same == what => open.end = range.end,
            _ => {
                self.write_open()?;
                self.open = Some((range, what));
            }
        }
        Ok(())
    }

    fn write_open(&mut self) -> Result<(), LiveError> {
        let Some((range, what)) = self.open.take() else { return Ok(()) };
        let word = if what == Salvaged::Older { "older" } else { "lost" };
        writeln!(self.list, "{},{},{word}", range.start, range.end - range.start).map_err(self.failed())
    }

    fn finish(mut self) -> Result<SalvageReport, LiveError> {
        self.write_open()?;
        self.list.flush().map_err(self.failed())?;
        self.content.sync_all().map_err(self.failed())?;
        Ok(self.report)
    }
}
