//! A study is killed and goes on; points that ran elsewhere are merged.

mod common;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use common::{command, ftl, place, scratch};

/// 48 points, some milliseconds each.
const STUDY: &str = r#"
title = "Kill me"
seeds = 3
[options]
device = "tpftl-512m"
synth = "financial1"
requests = 400
address = "wrap"
warm-up = "none"
[cross]
schemes = ["page", "dftl", "sftl", "tpftl"]
cache = ["1%", "2%", "4%", "8%"]
"#;
const POINTS: usize = 48;

/// A results folder that is not there yet.
fn fresh(name: &str) -> String {
    let folder = place(name);
    if Path::new(&folder).exists() {
        fs::remove_dir_all(&folder).expect("an old folder can be removed");
    }
    folder
}

fn ended(folder: &str) -> usize {
    fs::read_dir(Path::new(folder).join("points")).map_or(0, |files| {
        let whole = |name: &str| name.ends_with(".json") && !name.starts_with('.');
        files.flatten().filter(|file| whole(&file.file_name().to_string_lossy())).count()
    })
}

/// Runs the study until more than `points` have ended, and kills it as a power cut would.
fn killed(study: &str, folder: &str, points: usize) {
    let mut child = command(&["study", study, "--results", folder, "--threads", "1", "-q"])
        .stdout(Stdio::null())
        .spawn()
        .expect("ftl runs");
    while ended(folder) <= points && child.try_wait().expect("a child").is_none() {
        sleep(Duration::from_millis(1));
    }
    // It may have ended; the test below asks how far it came.
    let _ = child.kill();
    child.wait().expect("a child");
}

fn tables(folder: &str) -> [Vec<u8>; 2] {
    ["table.csv", "table.parquet"].map(|name| fs::read(Path::new(folder).join(name)).expect("a table"))
}

#[test]
fn a_study_that_was_killed_twice_gives_the_table_of_one_that_was_not() {
    let study = scratch("killed.toml", STUDY);
    let (whole, torn) = (fresh("killed-whole"), fresh("killed-torn"));
    let said = ftl(&["study", &study, "--results", &whole]);
    assert_eq!((said.code, ended(&whole)), (0, POINTS), "{}", said.err);
    assert!(said.out.contains("Kill me") && said.out.contains('±'), "{}", said.out);

    killed(&study, &torn, 3);
    let first = ended(&torn);
    killed(&study, &torn, first + 3);
    let second = ended(&torn);
    assert!(3 < first && first < second && second < POINTS, "{first}, {second}");
    let said = ftl(&["study", &study, "--results", &torn]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains(&format!("{second} of {POINTS} points have a result already")), "{}", said.err);
    assert_eq!(tables(&torn), tables(&whole));
    let report = ftl(&["report", &format!("{torn}/results.json")]);
    assert_eq!(report.code, 0, "{}", report.err);
}

#[test]
fn points_that_ran_one_by_one_are_merged() {
    let study =
        scratch("merged.toml", &STUDY.replace("seeds = 3", "seeds = 1").replace(", \"4%\", \"8%\"", ""));
    let (whole, merged) = (fresh("merged-whole"), fresh("merged"));
    assert_eq!(ftl(&["study", &study, "--results", &whole, "-q"]).code, 0);
    let parts: Vec<String> = (1..=8).map(|point| fresh(&format!("merged-{point}"))).collect();
    for (point, part) in parts.iter().enumerate() {
        let number = (point + 1).to_string();
        let said = ftl(&["study", &study, "--point", &number, "--results", part, "-q"]);
        assert_eq!((said.code, said.out.as_str(), ended(part)), (0, "", 1), "{}", said.err);
    }
    let list = ftl(&["study", &study, "--list", "--results", &parts[0]]);
    assert_eq!(list.out.lines().filter(|line| line.contains("  done    ")).count(), 1, "{}", list.out);
    assert_eq!(list.out.lines().count(), 8);
    let mut arguments = vec!["study", &study, "--results", &merged, "--merge"];
    arguments.extend(parts.iter().map(String::as_str));
    let said = ftl(&arguments);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(tables(&merged), tables(&whole));
}

/// The guide begins with it. Caches, schemes and device are the example's; its requests are fewer.
#[test]
fn every_point_of_the_example_runs() {
    let example = fs::read_to_string(common::root().join("examples/cache-study.toml")).expect("the example");
    let mut short = example;
    for (long, few) in [("seeds = 3", "seeds = 1"), ("20000", "200"), ("\"steady\"", "\"none\"")] {
        assert!(short.contains(long), "{long}");
        short = short.replace(long, few);
    }
    let folder = fresh("example");
    let said = ftl(&["study", &scratch("example.toml", &short), "--results", &folder, "-q"]);
    assert_eq!((said.code, ended(&folder)), (0, 16), "{}", said.err);
}

#[test]
fn what_is_wrong_with_a_study_is_one_sentence() {
    let study = scratch("wrong.toml", &STUDY.replace("synth = \"financial1\"", "trace = \"none.csv\""));
    let folder = fresh("wrong");
    let said = ftl(&["study", &study, "--results", &folder, "-q"]);
    assert_eq!((said.code, ended(&folder)), (2, POINTS));
    assert!(
        said.err.starts_with("ftl: 48 of 48 points failed; point 1 (page cache=1% seed=1): "),
        "{}",
        said.err
    );
    let missing = ftl(&["study", "nowhere.toml"]);
    assert_eq!((missing.code, missing.err.lines().count()), (2, 1), "{}", missing.err);
    assert!(missing.err.starts_with("ftl: nowhere.toml cannot be read"), "{}", missing.err);
    let number = ftl(&["study", &study, "--point", "49"]);
    assert_eq!(number.err, "ftl: there is no point 49; the study has points 1 to 48\n");
    let other = ftl(&["study", &study, "--merge", "nowhere", "--results", &folder, "-q"]);
    assert!(other.code == 2 && other.err.contains("name a results folder"), "{}", other.err);
    let nested = ftl(&["study", &study, "--results", "nowhere/at/all"]);
    assert!(nested.code == 2 && nested.err.contains("nowhere/at/all cannot be written"), "{}", nested.err);
}
