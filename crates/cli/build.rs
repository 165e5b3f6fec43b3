//! Finds out from which commit `ftl` is built, for `ftl --version`.

use std::process::Command;

fn main() {
    let described = Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=10"]).output();
    let described = described.ok().filter(|output| output.status.success());
    let commit = described.map_or_else(
        || "commit unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    );
    println!("cargo:rustc-env=FTL_COMMIT={commit}");
    println!("cargo:rerun-if-changed=../../.git/HEAD");
    println!("cargo:rerun-if-changed=../../.git/logs/HEAD");
}
