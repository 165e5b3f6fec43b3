//! Runs the `ftl` command and keeps what it says.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What a call said and how it ended.
pub struct Said {
    pub out: String,
    pub err: String,
    pub code: i32,
}

/// Calls `ftl` from the root of the repository.
pub fn ftl(arguments: &[&str]) -> Said {
    let output = command(arguments).output().expect("ftl can be started");
    said(&output)
}

pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ftl"));
    command.args(arguments).current_dir(root()).env_remove("RUST_BACKTRACE");
    command
}

pub fn said(output: &Output) -> Said {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said { out: text(&output.stdout), err: text(&output.stderr), code: output.status.code().unwrap_or(-1) }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of this test's own.
pub fn scratch(name: &str, text: &str) -> String {
    let path = place(name);
    std::fs::write(&path, text).expect("a scratch file can be written");
    path
}

/// Where a file of this test's own may be written.
pub fn place(name: &str) -> String {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).display().to_string()
}
