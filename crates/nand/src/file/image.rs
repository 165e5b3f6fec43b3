//! Image files: made whole or not at all, and open in one place at a time.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, RenameFlags};
use rustix::io::Errno;

use super::format::{header, parse_header, BadHeader, FORMAT, HEADER_AT, HEADER_BYTES};
use super::medium::Medium;
use crate::{DeviceError, DeviceSpec};

/// Why an image could not be made or opened: one sentence with what, where and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Something has the name already.
    #[error("{0}: there is such a file already; remove it, or choose another name")]
    Exists(PathBuf),
    /// There is no such file.
    #[error("{0}: there is no such image; make one with `ftl create`")]
    Missing(PathBuf),
    /// The file is something else.
    #[error(
        "{0}: this is not an image of ftl (it does not begin with FTLIMAGE); make one with `ftl create`"
    )]
    NotAnImage(PathBuf),
    /// Made by another version.
    #[error(
        "{path}: this image has format {format}, and this ftl reads format {FORMAT}; copy its data with the ftl that \
         made it (`ftl serve` and any NBD client) into an image that this one makes"
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// The file is an image no more.
    #[error(
        "{path}: {what}; the image is damaged: restore it from a copy, or copy out what can be read with `ftl scrub {path} \
         --salvage DIR`"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// Somebody uses it.
    #[error(
        "{0}: the image is in use by another process; stop that one first (an image has one user at a time, or several that \
         only read it)"
    )]
    Locked(PathBuf),
    /// The description does not fit.
    #[error(
        "{0}: the description of device and scheme is longer than the 32 KiB that the header has for it"
    )]
    TooLong(PathBuf),
    /// The device it describes cannot be.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The host's file system.
    #[error("{path}: {what} ({error})")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was attempted.
        what: &'static str,
        /// What it said.
        error: io::Error,
    },
}

/// Makes the error of an attempt at `path`.
pub(super) fn failed<'a>(path: &'a Path, what: &'static str) -> impl Fn(io::Error) -> ImageError + 'a {
    move |error| ImageError::Io { path: path.to_owned(), what, error }
}

/// What an image says of itself.
#[derive(Clone, Debug)]
pub struct Description {
    /// Geometry, times and limits of the flash that the image stands for.
    pub device: DeviceSpec,
    /// What its maker wrote beside: scheme, parameters, cache. The array does not look at it.
    pub settings: String,
}

/// Makes the file `path` by way of a temporary one that `fill` fills: other processes see all of it, or
/// nothing.
pub(super) fn make_file(
    path: &Path,
    fill: impl FnOnce(&File) -> Result<(), ImageError>,
) -> Result<(), ImageError> {
    if path.symlink_metadata().is_ok() {
        return Err(ImageError::Exists(path.to_owned()));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}", std::process::id()));
    // What a device holds concerns its owner alone.
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&temporary);
    let file = file.map_err(failed(path, "the image cannot be made"))?;
    let named = fill(&file).and_then(|()| {
        file.sync_all().map_err(failed(path, "the image cannot be made durable"))?;
        match give_name(&temporary, path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(ImageError::Exists(path.to_owned()))
            }
            Err(error) => Err(failed(path, "the image cannot be given its name")(error)),
        }
    });
    if named.is_err() {
        // The error of making it matters more than one of removing what is left.
        let _ = std::fs::remove_file(&temporary);
        return named;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(failed(path, "the folder of the image cannot be made durable"))
}

/// Gives a file a name that no other has. Where the file system cannot rename so (NFS), by a second link.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`], and what the file system says.
pub fn give_name(from: &Path, to: &Path) -> io::Result<()> {
    let cwd = rustix::fs::CWD;
    match rustix::fs::renameat_with(cwd, from, cwd, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::link(from, to)?;
            rustix::fs::unlink(from)?;
            Ok(())
        }
        done => Ok(done?),
    }
}

/// Opens a file that holds bytes, and not a pipe, which might never open.
fn open_regular(path: &Path, write: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(write).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_fifo() || kind.is_socket() || kind.is_char_device() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    Ok(file)
}

/// Opens an image for this process alone, or with others to be read.
pub(super) fn open_file(path: &Path, read_only: bool) -> Result<File, ImageError> {
    let file = match open_regular(path, !read_only) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ImageError::Missing(path.to_owned()));
        }
        Err(error) if read_only => return Err(failed(path, "the image cannot be opened")(error)),
        Err(error) => return Err(failed(path, "the image cannot be opened for writing")(error)),
    };
    let lock = match read_only {
        true => FlockOperation::NonBlockingLockShared,
        false => FlockOperation::NonBlockingLockExclusive,
    };
    match rustix::fs::flock(&file, lock) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(ImageError::Locked(path.to_owned())),
        Err(error) => Err(failed(path, "the image cannot be locked")(error.into())),
    }
}

/// Reads what an image says of itself, in use or not.
pub fn describe(path: &Path) -> Result<Description, ImageError> {
    match open_regular(path, false) {
        Ok(file) => read_header(&file, path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ImageError::Missing(path.to_owned())),
        Err(error) => Err(failed(path, "the image cannot be opened")(error)),
    }
}

/// Writes the header of a new image.
pub(super) fn write_header<M: Medium>(
    medium: &M,
    path: &Path,
    description: &Description,
) -> Result<(), ImageError> {
    let header = header(&description.device.to_toml(), &description.settings);
    let header = header.ok_or_else(|| ImageError::TooLong(path.to_owned()))?;
    HEADER_AT.iter().try_for_each(|&at| {
        medium.write_at(&[IoSlice::new(&header)], at).map_err(failed(path, "the header cannot be written"))
    })
}

/// Reads the header of an image: the first copy, or else the second one.
pub(super) fn read_header<M: Medium>(medium: &M, path: &Path) -> Result<Description, ImageError> {
    let [first, second] = HEADER_AT.map(|at| read_copy(medium, path, at));
    match (first, second) {
        (Err(_), Ok(description)) => Ok(description),
        (first, _) => first,
    }
}

fn read_copy<M: Medium>(medium: &M, path: &Path, at: u64) -> Result<Description, ImageError> {
    let mut bytes = vec![0; HEADER_BYTES];
    // A file shorter than a header is something else, whatever it begins with.
    if medium.read_at(&mut bytes[..8], at).is_err() {
        return Err(ImageError::NotAnImage(path.to_owned()));
    }
    let whole = medium.read_at(&mut bytes, at);
    let damaged = |what: &str| ImageError::Damaged { path: path.to_owned(), what: what.to_owned() };
    match parse_header(&bytes) {
        Err(BadHeader::Magic) => Err(ImageError::NotAnImage(path.to_owned())),
        Err(BadHeader::Format(format)) => Err(ImageError::Format { path: path.to_owned(), format }),
        _ if whole.is_err() => Err(damaged("the file ends within its header")),
        Err(BadHeader::Damaged) => Err(damaged("the CRC of the header is wrong in both copies")),
        Ok((device, settings)) => {
            let device = DeviceSpec::parse(&format!("{} (device)", path.display()), &device)?;
            Ok(Description { device, settings })
        }
    }
}
