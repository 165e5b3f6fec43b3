//! Files that a command writes. No output overwrites an input or another output, and a file is there under
//! its name as a whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::stop::Stop;

/// An output, and the option that names it.
pub(crate) type Output<'a> = (&'a str, Option<&'a Path>);

/// Whether this stands for standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Refuses outputs that cannot be written, that are one of the `inputs`, or that are one file: asked before
/// minutes are spent on results. Nothing is changed.
pub(crate) fn check(outputs: &[Output<'_>], inputs: &[PathBuf]) -> Result<(), Stop> {
    let files = outputs.iter().filter_map(|&(option, path)| Some((option, path?)));
    let files: Vec<(&str, &Path)> = files.filter(|(_, path)| !is_stdout(path)).collect();
    for (index, &(option, path)) in files.iter().enumerate() {
        possible(path).map_err(|error| unwritable(path, &error))?;
        let Some(identity) = Identity::of(path) else { continue };
        if inputs.iter().any(|input| Identity::of(input).is_some_and(|input| input == identity)) {
            return Err(Stop::user(format!(
                "{option} {} would overwrite a file that this command reads; name another file",
                path.display()
            )));
        }
        let same = files[..index].iter().find(|(_, other)| Identity::of(other).as_ref() == Some(&identity));
        if let Some((other, _)) = same {
            return Err(Stop::user(format!(
                "{other} and {option} both name {}; name two files",
                path.display()
            )));
        }
    }
    Ok(())
}

/// Writes a file that holds `text`.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Stop> {
    write_with(path, |out| out.write_all(text.as_bytes()))
}

/// Writes a file with `fill`. When that fails, the file that was there before is there still.
pub(crate) fn write_with<T>(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<T>,
) -> Result<T, Stop> {
    let written = || {
        if is_device(path) {
            return filled(&mut OpenOptions::new().write(true).open(path)?, fill);
        }
        let (folder, target) = place(path)?;
        let mut beside = beside(&folder, &target)?;
        let value = filled(beside.as_file_mut(), fill)?;
        beside.persist(&target).map_err(|error| error.error)?;
        Ok(value)
    };
    written().map_err(|error| unwritable(path, &error))
}

fn filled<T>(
    file: &mut File,
    fill: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<T>,
) -> io::Result<T> {
    let mut out = BufWriter::new(file);
    let value = fill(&mut out)?;
    out.flush()?;
    Ok(value)
}

/// A file in `folder` that nobody else has, with the permissions of `target` or those of a new file.
fn beside(folder: &Path, target: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mode = fs::metadata(target).map_or(0o666, |known| known.permissions().mode() & 0o777);
    let permissions = fs::Permissions::from_mode(mode);
    tempfile::Builder::new().prefix(".ftl-").permissions(permissions).tempfile_in(folder)
}

/// The folder in which a file is written, and its full name there. A symbolic link stays one.
fn place(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let path = match fs::canonicalize(path) {
        Ok(there) => there,
        Err(_) => path.to_owned(),
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::canonicalize(folder).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            io::Error::new(ErrorKind::NotFound, format!("there is no folder {}", folder.display()))
        }
        _ => error,
    })?;
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    let target = folder.join(name);
    Ok((folder, target))
}

/// Something that takes what is written and holds none of it: a terminal, a pipe, `/dev/null`.
fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|known| !known.is_file() && !known.is_dir())
}

/// Tries whether a file can be written.
fn possible(path: &Path) -> io::Result<()> {
    if path.exists() {
        OpenOptions::new().append(true).open(path)?;
    }
    if !is_device(path) {
        let (folder, target) = place(path)?;
        beside(&folder, &target)?;
    }
    Ok(())
}

/// That a file cannot be written, as a sentence.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Stop {
    if error.kind() == ErrorKind::BrokenPipe {
        return Stop::Unread;
    }
    Stop::user(format!("{} cannot be written ({error}); name a file in a folder that can be", path.display()))
}

/// What tells files apart, whatever they are called.
#[derive(PartialEq, Eq)]
enum Identity {
    There { device: u64, inode: u64 },
    NotYet(PathBuf),
}

impl Identity {
    /// Of a file; `None` for what holds nothing, and for what cannot be.
    fn of(path: &Path) -> Option<Identity> {
        if is_device(path) {
            return None;
        }
        match fs::metadata(path) {
            Ok(known) => Some(Identity::There { device: known.dev(), inode: known.ino() }),
            Err(_) => place(path).ok().map(|(_, target)| Identity::NotYet(target)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(outputs: &[Output<'_>], inputs: &[PathBuf]) -> Option<String> {
        match check(outputs, inputs) {
            Err(Stop::User(sentence)) => Some(sentence),
            _ => None,
        }
    }

    #[test]
    fn an_output_is_no_input_by_whatever_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("trace"), "0").expect("a file");
        fs::hard_link(at("trace"), at("link")).expect("a link");
        std::os::unix::fs::symlink(at("trace"), at("symbolic")).expect("a link");
        fs::create_dir(at("inner")).expect("a folder");
        let inputs = [at("trace")];
        for name in ["trace", "link", "symbolic", "inner/../trace"] {
            let path = at(name);
            let said = sentence(&[("--json", Some(&path))], &inputs).expect("a refusal");
            assert!(said.contains("would overwrite a file that this command reads"), "{said}");
        }
        let (new, again) = (at("new"), at("inner/../new"));
        assert_eq!(sentence(&[("--json", Some(&new)), ("--csv", Some(Path::new("-")))], &inputs), None);
        let said = sentence(&[("--json", Some(&new)), ("--csv", Some(&again))], &inputs).expect("a refusal");
        assert!(said.starts_with("--json and --csv both name "), "{said}");
        let null = Path::new("/dev/null");
        assert_eq!(sentence(&[("--json", Some(null)), ("--csv", Some(null))], &inputs), None);
        assert_eq!(fs::read_to_string(at("trace")).expect("the file"), "0");
    }

    #[test]
    fn a_missing_folder_is_not_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("none/out.json");
        let said = sentence(&[("--json", Some(&path))], &[]).expect("a refusal");
        assert!(said.contains("there is no folder"), "{said}");
        assert!(!folder.path().join("none").exists());
    }

    #[test]
    fn what_fails_half_way_leaves_the_old_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.csv");
        write(&path, "old").expect("written");
        let full = write_with(&path, |out| {
            out.write_all(b"ne")?;
            Err::<(), _>(ErrorKind::StorageFull.into())
        });
        assert!(matches!(full, Err(Stop::User(_))));
        assert_eq!(fs::read_to_string(&path).expect("the file"), "old");
        write(&path, "new").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("the file"), "new");
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1);
    }
}
