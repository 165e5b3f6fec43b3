//! docs/new-scheme.md shows the code that runs, names all that a new scheme touches, and its commands work.

#[allow(dead_code)]
mod common;

use std::path::{Path, PathBuf};

use common::{ftl, root};

const SCHEME: &str = "crates/ftl/src/schemes/fifo/mod.rs";
const REGISTRY: &str = "crates/ftl/src/schemes/mod.rs";

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(root().join(path)).expect("the file is there")
}

/// The code blocks of a language, one after the other.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let open = format!("```{language}\n");
    page.split(&open).skip(1).filter_map(|rest| rest.split_once("```")).map(|(block, _)| block).collect()
}

/// Code without blank lines: between two blocks there is text instead.
fn lines(code: &str) -> Vec<&str> {
    code.lines().filter(|line| !line.trim().is_empty()).collect()
}

#[test]
fn the_page_shows_the_whole_scheme() {
    let (page, code) = (read("docs/new-scheme.md"), read(SCHEME));
    let shown = blocks(&page, "rust").concat();
    assert_eq!(lines(&shown), lines(&code), "docs/new-scheme.md and {SCHEME}");
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn a_scheme_is_one_folder_and_one_registry_line() {
    let mut files = Vec::new();
    for room in ["nand", "ftl", "workload", "sim", "check", "live", "papers", "cli"] {
        rust_files(&root().join("crates").join(room).join("src"), &mut files);
    }
    let names = |path: &&PathBuf| {
        let text = read(path);
        text.contains("Fifo") || text.contains("\"fifo\"") || text.contains("fifo::")
    };
    let naming: Vec<String> = files.iter().filter(names).map(|path| path.display().to_string()).collect();
    let foreign: Vec<&String> =
        naming.iter().filter(|path| !path.ends_with(SCHEME) && !path.ends_with(REGISTRY)).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    let registry = read(REGISTRY);
    let registered: Vec<&str> =
        registry.lines().filter(|line| line.contains("fifo")).map(str::trim).collect();
    assert_eq!(registered, ["pub mod fifo;", "fifo::Fifo,"]);
}

#[test]
fn the_commands_of_the_page_work() {
    let page = read("docs/new-scheme.md");
    let commands: Vec<&str> = blocks(&page, "sh").iter().flat_map(|block| block.lines()).collect();
    assert!(commands.len() >= 5);
    for command in commands {
        let words: Vec<&str> = command.split_whitespace().skip(1).collect();
        let said = ftl(&words);
        assert_eq!(said.code, 0, "{command}: {}", said.err);
        assert!(said.out.contains("fifo"), "{command}: {}", said.out);
        if words[0] == "run" {
            assert!(said.out.contains("host pages written by long requests"), "{}", said.out);
        }
    }
}
