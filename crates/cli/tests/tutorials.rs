//! The tutorials run from top to bottom, and what they show comes out.
//!
//! A block of `sh` runs. The block of `text` after it holds lines, or parts of lines, of its output, in that
//! order; runs of blanks count as one. Blocks of `sh live` need root, FUSE, a loop device and real programs;
//! where one is missing, they are left out with a note. Blocks of `sh skip` need a machine of the reader's.
// Helpers of tests are tests, too.
#![allow(clippy::unwrap_used)]

// Each test file uses a part of it.
#[allow(dead_code)]
mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use common::{place, root};

/// What a page left running or mounted goes when it ends in its middle.
const AT_THE_END: &str =
    "trap 'umount -q -l mnt 2>/dev/null || true; kill $(jobs -p) 2>/dev/null || true' EXIT";
/// Written before each block's output.
const MARK: &str = "@@ block ";

struct Block {
    code: String,
    live: bool,
    shown: Vec<String>,
}

/// The blocks of a page that run.
fn blocks(page: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut parts = page.split("\n```");
    parts.next();
    while let Some(part) = parts.next() {
        parts.next(); // what is between two blocks
        let (info, text) = part.split_once('\n').unwrap();
        match info {
            "sh" | "sh live" => {
                found.push(Block { code: text.to_owned(), live: info == "sh live", shown: Vec::new() });
            }
            "text" => found.last_mut().unwrap().shown = text.lines().map(str::to_owned).collect(),
            "sh skip" => {}
            other => panic!("a block of `{other}`: a tutorial has sh, sh live, sh skip and text"),
        }
    }
    found
}

/// Runs of blanks as one: tables are as wide as what stands in them.
fn plain(text: &str) -> String {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

fn missing() -> Option<&'static str> {
    let there = |program: &str| Command::new("which").arg(program).output().is_ok_and(|o| o.status.success());
    if !rustix::process::geteuid().is_root() {
        return Some("root");
    }
    ["/dev/fuse", "/dev/loop-control"]
        .into_iter()
        .find(|path| !Path::new(path).exists())
        .or_else(|| ["db_bench", "mkfs.ext4"].into_iter().find(|program| !there(program)))
}

/// Runs a page's blocks in one shell, in a folder of their own that looks like the root of the repository.
fn run(name: &str) {
    let page = fs::read_to_string(root().join(format!("docs/tutorials/{name}.md"))).unwrap();
    let missing = missing();
    let all = blocks(&page);
    assert!(all.len() >= 4 && all.iter().filter(|block| !block.shown.is_empty()).count() >= 4, "{name}");
    let runs: Vec<&Block> = all.iter().filter(|block| !block.live || missing.is_none()).collect();
    if let Some(missing) = missing.filter(|_| runs.len() < all.len()) {
        println!("skipped: {} blocks of {name} need {missing}", all.len() - runs.len());
    }
    let folder = place(&format!("tutorial-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(format!("{folder}/bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_ftl"), format!("{folder}/bin/ftl")).unwrap();
    for shared in ["examples", "crates"] {
        symlink(fs::canonicalize(root().join(shared)).unwrap(), format!("{folder}/{shared}")).unwrap();
    }
    let mut script = format!("set -euo pipefail\nexec 2>&1\n{AT_THE_END}\n");
    for (index, block) in runs.iter().enumerate() {
        script += &format!("echo '{MARK}{index}'\n{}\n", block.code);
    }
    let path = format!("{folder}/bin:{}", std::env::var("PATH").unwrap());
    let shell = Command::new("timeout")
        .args(["300", "bash", "-c", &script])
        .env("PATH", path)
        .current_dir(&folder)
        .output();
    let output = shell.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name} ended with {}:\n{said}", output.status);
    let sections: Vec<&str> = said.split(MARK).skip(1).collect();
    assert_eq!(sections.len(), runs.len());
    for (block, section) in runs.iter().zip(sections) {
        let section = plain(section);
        let mut rest = section.as_str();
        for line in &block.shown {
            let line = plain(line);
            let Some(at) = rest.find(&line) else {
                panic!("{name}: `{line}` is not in the output of\n{}\nwhich is\n{section}", block.code)
            };
            rest = &rest[at + line.len()..];
        }
    }
}

#[test]
fn the_researcher_s_tutorial_runs() {
    run("researcher");
}

#[test]
fn the_architect_s_tutorial_runs() {
    run("architect");
}

#[test]
fn the_firmware_engineer_s_tutorial_runs() {
    run("firmware");
}

#[test]
fn the_application_engineer_s_tutorial_runs() {
    run("application");
}
