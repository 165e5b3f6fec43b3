//! STYLE.md and ARCHITECTURE.md as far as a machine can hold them: lengths, edges between crates, circles
//! between rooms, words that a crate must not use, docs that only repeat a name.
//!
//! Each rule has a canary: a small text that breaks it must be reported.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

const MOST_LINES_OF_A_FILE: usize = 800;
const MOST_LINES_OF_A_FUNCTION: usize = 80;
const MOST_COLUMNS_OF_A_COMMENT: usize = 110;

/// Crates that each crate may depend on (ARCHITECTURE.md, "Edges").
const EDGES: &[(&str, &[&str])] = &[
    ("nand", &[]),
    ("ftl", &["nand"]),
    ("workload", &[]),
    ("sim", &["nand", "ftl", "workload"]),
    ("check", &["nand", "ftl"]),
    ("live", &["nand", "ftl"]),
    ("study", &["nand", "ftl", "sim"]),
    ("papers", &["nand", "ftl", "workload", "sim", "live", "study"]),
    ("cli", &["nand", "ftl", "workload", "sim", "check", "live", "study", "papers"]),
    ("fuzz", &["nand", "ftl", "workload", "sim", "check", "live", "study", "papers"]),
    ("python", &["nand", "ftl", "workload", "sim", "check", "live", "study", "papers"]),
];

/// A scheme sees no clock, file, thread, chance, or order of a hash map.
const FORBIDDEN_IN_FTL: &[&str] = &[
    "std::time",
    "std::fs",
    "std::thread",
    "std::net",
    "HashMap",
    "HashSet",
    "rand_core",
    "rand_xoshiro",
    "f32",
];

struct Source {
    /// Path from the root of the workspace.
    path: String,
    text: String,
    syntax: syn::File,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files_below(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// Every Rust file of a crate's folder, such as `src`; none where there is no such folder.
fn sources(name: &str, folder: &str) -> Vec<Source> {
    let folder = root().join("crates").join(name).join(folder);
    let mut paths = Vec::new();
    if folder.is_dir() {
        files_below(&folder, &mut paths);
    }
    let source = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        file(&path.strip_prefix(root()).unwrap().display().to_string(), &text)
    };
    paths.into_iter().map(source).collect()
}

fn crates() -> impl Iterator<Item = &'static str> {
    EDGES.iter().map(|&(name, _)| name)
}

fn every_source() -> Vec<Source> {
    crates()
        .flat_map(|name| ["src", "tests", "benches"].into_iter().flat_map(move |at| sources(name, at)))
        .collect()
}

fn file(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned(), syntax: syn::parse_file(text).unwrap() }
}

fn parsed(text: &str) -> Source {
    file("canary.rs", text)
}

fn none(breaches: Vec<String>) {
    assert!(breaches.is_empty(), "{} places:\n{}", breaches.len(), breaches.join("\n"));
}

// ---- lengths ----

struct Functions<'a> {
    path: &'a str,
    breaches: Vec<String>,
}

impl Functions<'_> {
    fn measure(&mut self, name: &syn::Ident, block: &syn::Block) {
        let lines = block.span().end().line - block.span().start().line + 1;
        if lines > MOST_LINES_OF_A_FUNCTION {
            let line = name.span().start().line;
            self.breaches.push(format!("{}:{line}: fn {name} has {lines} lines", self.path));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig.ident, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.measure(&item.sig.ident, &item.block);
        visit::visit_impl_item_fn(self, item);
    }
}

fn long_functions(source: &Source) -> Vec<String> {
    let mut functions = Functions { path: &source.path, breaches: Vec::new() };
    functions.visit_file(&source.syntax);
    functions.breaches
}

fn long_lines(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    let file = (lines > MOST_LINES_OF_A_FILE).then(|| format!("{}: {lines} lines", source.path));
    let is_long =
        |line: &str| line.trim_start().starts_with("//") && line.chars().count() > MOST_COLUMNS_OF_A_COMMENT;
    // A row of a table cannot be wrapped.
    let is_row = |line: &str| line.trim_start().trim_start_matches(['/', '!']).trim_start().starts_with('|');
    let comments = source.text.lines().enumerate().filter(|(_, line)| is_long(line) && !is_row(line));
    let comments = comments.map(|(at, _)| format!("{}:{}: a comment past column 110", source.path, at + 1));
    file.into_iter().chain(comments).collect()
}

#[test]
fn functions_files_and_comments_are_short() {
    none(
        every_source()
            .iter()
            .flat_map(|source| [long_functions(source), long_lines(source)].concat())
            .collect(),
    );
    let long = parsed(&format!("fn long() {{\n{}}}\n", "    work();\n".repeat(MOST_LINES_OF_A_FUNCTION)));
    assert_eq!(long_functions(&long), ["canary.rs:1: fn long has 82 lines"]);
    let wide =
        parsed(&format!("// {}\n{}", "word ".repeat(30), "const A: u8 = 0;\n".repeat(MOST_LINES_OF_A_FILE)));
    assert_eq!(long_lines(&wide), ["canary.rs: 801 lines", "canary.rs:1: a comment past column 110"]);
}

// ---- docs ----

fn doc_of(attributes: &[syn::Attribute]) -> Option<String> {
    let text = |attribute: &syn::Attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    };
    let lines: Vec<String> = attributes.iter().filter_map(text).collect();
    (!lines.is_empty()).then(|| lines.join(" "))
}

/// The words of a name or a sentence, in the singular, without those that carry no meaning.
fn words(text: &str) -> BTreeSet<String> {
    let mut spaced = String::new();
    for letter in text.chars() {
        if letter.is_uppercase() && !spaced.ends_with(|before: char| before.is_uppercase()) {
            spaced.push(' ');
        }
        spaced.push(if letter.is_alphanumeric() { letter } else { ' ' });
    }
    let empty =
        ["a", "an", "the", "of", "its", "this", "is", "are", "that", "all", "and", "it", "to", "in", "for"];
    let word = |word: &str| word.to_lowercase().trim_end_matches('s').to_owned();
    spaced.split_whitespace().filter(|w| !empty.contains(&w.to_lowercase().as_str())).map(word).collect()
}

struct Docs<'a> {
    path: &'a str,
    breaches: Vec<String>,
}

impl Docs<'_> {
    fn compare(&mut self, name: &syn::Ident, attributes: &[syn::Attribute]) {
        let Some(doc) = doc_of(attributes) else { return };
        let (said, named) = (words(&doc), words(&name.to_string()));
        if said.is_subset(&named) {
            let line = name.span().start().line;
            self.breaches
                .push(format!("{}:{line}: the doc of `{name}` says no more than its name", self.path));
        }
    }
}

impl<'ast> Visit<'ast> for Docs<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.compare(&item.sig.ident, &item.attrs);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.compare(&item.sig.ident, &item.attrs);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.compare(&item.sig.ident, &item.attrs);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.compare(&item.ident, &item.attrs);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.compare(&item.ident, &item.attrs);
        visit::visit_item_enum(self, item);
    }
}

fn empty_docs(source: &Source) -> Vec<String> {
    let mut docs = Docs { path: &source.path, breaches: Vec::new() };
    docs.visit_file(&source.syntax);
    docs.breaches
}

#[test]
fn docs_say_more_than_the_name() {
    none(crates().flat_map(|name| sources(name, "src")).flat_map(|source| empty_docs(&source)).collect());
    let empty =
        parsed("/// The free superblocks.\nfn free_superblocks() {}\n/// Those to open.\nfn free() {}\n");
    assert_eq!(empty_docs(&empty), ["canary.rs:2: the doc of `free_superblocks` says no more than its name"]);
}

// ---- errors ----

struct Errors<'a> {
    path: &'a str,
    breaches: Vec<String>,
}

impl Errors<'_> {
    /// Notes a function that answers with `Result<_, String>`: its caller could only print that error.
    fn judge(&mut self, signature: &syn::Signature) {
        let syn::ReturnType::Type(_, answer) = &signature.output else { return };
        let syn::Type::Path(path) = answer.as_ref() else { return };
        let Some(last) = path.path.segments.last().filter(|last| last.ident == "Result") else { return };
        let syn::PathArguments::AngleBracketed(parts) = &last.arguments else { return };
        let Some(syn::GenericArgument::Type(syn::Type::Path(error))) = parts.args.iter().nth(1) else {
            return;
        };
        if error.path.is_ident("String") {
            let line = signature.ident.span().start().line;
            self.breaches.push(format!("{}:{line}: `{}` fails with a String", self.path, signature.ident));
        }
    }
}

impl<'ast> Visit<'ast> for Errors<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if matches!(item.vis, syn::Visibility::Public(_)) {
            self.judge(&item.sig);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if matches!(item.vis, syn::Visibility::Public(_)) {
            self.judge(&item.sig);
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let methods = item.items.iter().filter_map(|item| match item {
            syn::TraitItem::Fn(method) => Some(&method.sig),
            _ => None,
        });
        methods.for_each(|signature| self.judge(signature));
    }
}

fn string_errors(source: &Source) -> Vec<String> {
    let mut errors = Errors { path: &source.path, breaches: Vec::new() };
    errors.visit_file(&source.syntax);
    errors.breaches
}

#[test]
fn public_functions_fail_with_a_type_of_their_own() {
    let libraries = ["nand", "ftl", "workload", "sim", "live", "study"];
    let sources = libraries.iter().flat_map(|name| sources(name, "src"));
    none(sources.flat_map(|source| string_errors(&source)).collect());
    let strings = parsed("pub fn open() -> Result<u8, String> {}\nfn own() -> Result<u8, String> {}\n");
    assert_eq!(string_errors(&strings), ["canary.rs:1: `open` fails with a String"]);
    let typed =
        parsed("pub fn open() -> Result<String, Breach> {}\ntrait T { fn f() -> Result<(), String>; }\n");
    assert_eq!(string_errors(&typed), ["canary.rs:2: `f` fails with a String"]);
}

// ---- crates ----

/// The workspace's crates that a manifest names as dependencies of the library (not of its tests).
fn dependencies(manifest: &str) -> Vec<String> {
    let manifest: toml::Table = manifest.parse().unwrap();
    let names = manifest.get("dependencies").and_then(|table| table.as_table()).map(|table| table.keys());
    names.into_iter().flatten().filter(|name| crates().any(|ours| ours == *name)).cloned().collect()
}

fn foreign_edges(name: &str, manifest: &str) -> Vec<String> {
    let allowed = EDGES.iter().find(|(from, _)| *from == name).map_or(&[][..], |(_, to)| to);
    let foreign = dependencies(manifest).into_iter().filter(|to| !allowed.contains(&to.as_str()));
    foreign.map(|to| format!("crate {name} depends on {to}")).collect()
}

#[test]
fn crates_depend_in_one_direction() {
    let folders = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap());
    let folders: BTreeSet<String> = folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert_eq!(folders, crates().map(str::to_owned).collect(), "EDGES names every crate");
    let manifest =
        |name: &str| fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
    none(crates().flat_map(|name| foreign_edges(name, &manifest(name))).collect());
    assert_eq!(foreign_edges("ftl", "[dependencies]\nsim = {}\nnand = {}\n"), ["crate ftl depends on sim"]);
}

/// A version as numbers, `1.88` as `1.88.0`.
fn version(text: &str) -> [u32; 3] {
    let mut parts = text.split('.').map(|part| part.parse().unwrap());
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}

/// What cargo prints, without asking the network.
fn cargo(arguments: &[&[&str]]) -> String {
    let output = Command::new(env!("CARGO")).current_dir(root()).args(arguments.concat()).output().unwrap();
    assert!(
        output.status.success(),
        "cargo failed; if it misses packages, run `cargo fetch --locked` first: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn one_minimum_rust_version_holds_everywhere() {
    let manifest: toml::Table = fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let ours = manifest["workspace"]["package"]["rust-version"].as_str().unwrap();
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains(&format!("Rust {ours} or newer")), "README.md names Rust {ours}");
    let platform = ["--filter-platform", "x86_64-unknown-linux-gnu"];
    let arguments = ["metadata", "--format-version", "1", "--locked", "--offline"];
    let metadata: serde_json::Value = serde_json::from_str(&cargo(&[&arguments, &platform[..]])).unwrap();
    let newer = |package: &serde_json::Value| {
        let wanted = package["rust_version"].as_str().filter(|wanted| version(wanted) > version(ours))?;
        Some(format!("{} {} needs Rust {wanted}", package["name"], package["version"]))
    };
    none(metadata["packages"].as_array().unwrap().iter().filter_map(newer).collect());
    assert!(version("1.89") > version("1.88.2") && version("1.88") == version("1.88.0"));
}

// ---- rooms ----

/// A module's path inside its crate, such as `results::phase`; empty for the crate's root.
fn module_of(path: &str) -> Vec<String> {
    let inside = path.split_once("/src/").map_or(path, |(_, inside)| inside).trim_end_matches(".rs");
    let mut parts: Vec<String> = inside.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        parts.pop();
    }
    parts
}

struct Paths {
    at: Vec<String>,
    found: BTreeSet<Vec<String>>,
}

impl Paths {
    /// Takes a path that begins with `crate`, `super` or `self`, as one from the crate's root.
    fn take(&mut self, path: Vec<String>) {
        let mut path = path.into_iter().peekable();
        let mut from = match path.peek().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("super" | "self") => self.at.clone(),
            _ => return,
        };
        for part in path {
            match part.as_str() {
                "crate" | "self" => {}
                "super" => {
                    from.pop();
                }
                _ => from.push(part),
            }
        }
        self.found.insert(from);
    }

    fn tree(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.take(with(&name.ident)),
            syn::UseTree::Rename(name) => self.take(with(&name.ident)),
            syn::UseTree::Glob(_) => self.take(before.to_vec()),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(before, tree)),
        }
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(
        |a| matches!(&a.meta, syn::Meta::List(l) if l.path.is_ident("cfg") && l.tokens.to_string() == "test"),
    )
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.take(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            self.at.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.at.pop();
        }
    }
}

/// Which of a crate's modules each file of it uses, tests left out. A name that the crate's root re-exports
/// leads to the module that it comes from.
fn uses(sources: &[Source]) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let modules: BTreeSet<Vec<String>> = sources.iter().map(|source| module_of(&source.path)).collect();
    let paths = |source: &Source| {
        let mut paths = Paths { at: module_of(&source.path), found: BTreeSet::new() };
        paths.visit_file(&source.syntax);
        paths.found
    };
    let mut exports: BTreeMap<Vec<String>, Vec<String>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.path.ends_with("main.rs")) {
        let at = module_of(&source.path);
        for item in &source.syntax.items {
            let syn::Item::Use(item) = item else { continue };
            if matches!(item.vis, syn::Visibility::Inherited) {
                continue;
            }
            let mut of = Paths { at: at.clone(), found: BTreeSet::new() };
            of.tree(&[], &item.tree);
            if of.found.is_empty() {
                of.tree(&["self".to_owned()], &item.tree);
            }
            for target in of.found {
                let name = target.last().cloned().into_iter().collect::<Vec<_>>();
                exports.insert([&at[..], &name[..]].concat(), target);
            }
        }
    }
    let resolve = |path: &Vec<String>| -> Option<Vec<String>> {
        let mut path = path.clone();
        for _ in 0..4 {
            let whole = (1..=path.len()).rev().find_map(|length| exports.get(&path[..length]));
            match whole.filter(|target| **target != path) {
                Some(target) => path = target.clone(),
                None => break,
            }
        }
        (1..=path.len()).rev().map(|length| path[..length].to_vec()).find(|prefix| modules.contains(prefix))
    };
    let used = |source: &Source| {
        let found = paths(source);
        found.iter().filter_map(resolve).collect::<BTreeSet<_>>()
    };
    let is_code =
        |source: &&Source| !module_of(&source.path).iter().any(|part| part == "tests" || part == "fixture");
    sources.iter().filter(is_code).map(|source| (module_of(&source.path), used(source))).collect()
}

/// Files of different rooms (top-level modules of a crate) that use each other in a circle.
fn circles(name: &str, sources: &[Source]) -> Vec<String> {
    let uses = uses(sources);
    let reach = |from: &Vec<String>| {
        let mut seen: BTreeSet<Vec<String>> = BTreeSet::new();
        let mut next = vec![from.clone()];
        while let Some(at) = next.pop() {
            for to in uses.get(&at).into_iter().flatten() {
                if seen.insert(to.clone()) {
                    next.push(to.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<_, _> = uses.keys().map(|from| (from.clone(), reach(from))).collect();
    let mut found = Vec::new();
    for (from, far) in &reached {
        for to in far.iter().filter(|to| *to > from && !from.is_empty() && to.first() != from.first()) {
            if reached.get(to).is_some_and(|back| back.contains(from)) {
                found.push(format!("crate {name}: {} and {} use each other", from.join("::"), to.join("::")));
            }
        }
    }
    found
}

#[test]
fn rooms_use_each_other_in_one_direction() {
    none(crates().flat_map(|name| circles(name, &sources(name, "src"))).collect());
    let plan = "pub use inner::Part;\n";
    let circle = [
        file("crates/x/src/lib.rs", "mod engine;\nmod plan;\npub use plan::Plan;\n"),
        file("crates/x/src/engine.rs", "use crate::Plan;\n"),
        file("crates/x/src/plan/mod.rs", plan),
        file("crates/x/src/plan/inner.rs", "fn f() { crate::engine::run() }\n"),
    ];
    assert_eq!(circles("x", &circle[..3]), [""; 0]);
    let direct =
        [file("crates/x/src/a.rs", "use crate::b::B;\n"), file("crates/x/src/b.rs", "use super::a::A;\n")];
    assert_eq!(circles("x", &direct), ["crate x: a and b use each other"]);
    let far = [
        file("crates/x/src/lib.rs", "pub use plan::Plan;\n"),
        file("crates/x/src/engine.rs", "use crate::Plan;\n"),
        file("crates/x/src/plan/mod.rs", "use inner::Part;\nuse self::inner::Other;\npub struct Plan;"),
        file("crates/x/src/plan/inner.rs", "fn f() { crate::engine::run() }\n"),
    ];
    assert_eq!(
        circles("x", &far),
        ["crate x: engine and plan use each other", "crate x: engine and plan::inner use each other"]
    );
}

#[test]
fn a_module_with_children_is_a_folder_with_mod_rs() {
    let beside = |source: &Source| {
        let folder = root().join(source.path.trim_end_matches(".rs"));
        folder.is_dir().then(|| format!("{} stands beside the folder of the same name", source.path))
    };
    none(crates().flat_map(|name| sources(name, "src")).filter_map(|source| beside(&source)).collect());
}

// ---- words ----

fn forbidden(source: &Source) -> Vec<String> {
    let lines = source.text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let breach = |(at, line): (usize, &str)| {
        let word = FORBIDDEN_IN_FTL.iter().find(|word| line.contains(*word))?;
        Some(format!("{}:{}: {word}", source.path, at + 1))
    };
    lines.filter_map(breach).collect()
}

#[test]
fn schemes_see_no_clock_file_thread_or_chance() {
    let is_code = |source: &Source| !source.path.contains("test");
    none(sources("ftl", "src").iter().filter(|source| is_code(source)).flat_map(forbidden).collect());
    let clock = parsed("// std::time is a word here\nuse std::time::Instant;\n");
    assert_eq!(forbidden(&clock), ["canary.rs:2: std::time"]);
}

#[test]
fn nothing_is_left_open() {
    let marks =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!("), concat!("unimplemented", "!(")];
    let open = |source: &Source| {
        let line = source.text.lines().position(|line| marks.iter().any(|mark| line.contains(mark)))?;
        Some(format!("{}:{}", source.path, line + 1))
    };
    none(every_source().iter().filter_map(open).collect());
}

// ---- two builds ----

/// Packages of the command with these features, each with the features asked of it, wherever it is used.
fn packages(features: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let tree = ["tree", "--offline", "--locked", "--package", "ftlkit", "--edges", "normal"];
    let shape = ["--prefix", "none", "--format", "{p}|{f}"];
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in cargo(&[&tree, &shape, features]).lines() {
        let (package, features) = line.trim_end_matches(" (*)").split_once('|').unwrap();
        let features = features.split(',').filter(|name| !name.is_empty()).map(str::to_owned);
        found.entry(package.to_owned()).or_default().extend(features);
    }
    found
}

/// `make demo` builds the simulator alone first and then the whole command. A package of which the second
/// asks more than the first is compiled twice, with all that stand on it.
#[test]
fn what_both_builds_share_is_compiled_once() {
    // Small, and nothing large stands on them; the last three are asked for by derive macros.
    let twice = ["ftlkit", "getrandom", "httparse", "toml_datetime", "toml_parser", "winnow"];
    let (small, whole) = (packages(&["--no-default-features"]), packages(&[]));
    assert!(small.len() > 50 && whole.len() > small.len(), "{} and {}", small.len(), whole.len());
    let differs = |(package, features): &(&String, &BTreeSet<String>)| {
        let name = package.split(' ').next().unwrap();
        whole.get(*package) != Some(*features) && !twice.contains(&name)
    };
    none(small.iter().filter(differs).map(|(package, _)| package.clone()).collect());
}
