//! `-` in place of a trace: standard input is kept in a temporary file, as every scheme reads it anew.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Mutex;

use tempfile::TempDir;

use super::files::is_stdout as is_dash;
use super::interrupt;
use super::stop::Stop;

/// The name of the copy in its folder, which has another name each time.
const COPY: &str = "stdin";

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
    let unkept = |error: io::Error| {
        Stop::user(format!("standard input cannot be kept in the temporary folder ({error}); give a file"))
    };
    let folder = TempDir::with_prefix("ftl-").map_err(unkept)?;
    interrupt::remove_at_end(folder.path())?;
    let path = folder.path().join(COPY);
    File::create_new(&path)
        .and_then(|mut copy| io::copy(&mut io::stdin().lock(), &mut copy))
        .map_err(unkept)?;
    *kept = Some(folder);
    Ok(path)
}

/// Removes the copy, and says where it was.
pub(crate) fn forget() -> Option<PathBuf> {
    let kept = KEPT.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    kept.map(|folder| folder.path().join(COPY))
}
