//! `-` in place of a trace: standard input is kept in a temporary file, as every scheme reads it anew.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Mutex;

use tempfile::TempDir;

use super::files::is_stdout as is_dash;
use super::stop::Stop;

/// Where standard input is kept until the command ends.
static KEPT: Mutex<Option<TempDir>> = Mutex::new(None);

/// The file that a trace is read from: itself, or for `-` a copy of standard input.
pub(crate) fn as_file(trace: PathBuf) -> Result<PathBuf, Stop> {
    if !is_dash(&trace) {
        return Ok(trace);
    }
    if io::stdin().is_terminal() {
        return Err(Stop::user(
            "- reads a trace from standard input, which is a terminal; pipe a trace into it",
        ));
    }
    let mut kept = KEPT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if kept.is_some() {
        return Err(Stop::user("- is given twice, and standard input is one trace; give it once"));
    }
    let folder = TempDir::with_prefix("ftl-");
    let copied = folder.and_then(|folder| {
        let path = folder.path().join("stdin");
        io::copy(&mut io::stdin().lock(), &mut File::create_new(&path)?)?;
        *kept = Some(folder);
        Ok(path)
    });
    copied.map_err(|error| {
        Stop::user(format!("standard input cannot be kept in the temporary folder ({error}); give a file"))
    })
}

/// Removes the copy.
pub(crate) fn forget() {
    KEPT.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
}
