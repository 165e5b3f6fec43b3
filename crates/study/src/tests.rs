//! Studies read, run, stopped, merged.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use sim::Progress;

use crate::summary::{mean, rows};
use crate::{run, Folder, Point, Study, Table};

/// Twelve points of a few milliseconds each, and one that fails.
const SMALL: &str = r#"
title = "Small"
seeds = [7, 8]
show = ["iops", "write_amplification"]
[options]
device = "tpftl-512m"
synth = "financial1"
requests = 300
warm-up = "none"
[cross]
schemes = ["dftl", "tpftl"]
cache = ["1%", 8704, "100%"]
[[point]]
scheme = "page"
device = "nowhere.toml"
"#;

fn study(text: &str) -> Study {
    Study::parse("s.toml", text).unwrap()
}

fn wrong(text: &str) -> String {
    Study::parse("s.toml", text).unwrap_err().to_string()
}

/// Stops after so many points.
struct StopAfter(AtomicUsize);

impl Progress for StopAfter {
    fn fraction(&self, _: usize, done: f64) {
        assert!((0.0..=1.0).contains(&done), "{done}");
    }

    fn end(&self, _: usize) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    fn stops(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// Runs points until `most` have ended.
fn run_all(points: &[Point], folder: &Folder, most: usize) -> usize {
    let progress = StopAfter(AtomicUsize::new(most));
    run(points, folder, 1, ("ftl study", "test"), &progress, &|_| Ok(())).unwrap()
}

/// Runs up to `most` points that have no result.
fn go_on(study: &Study, folder: &Folder, most: usize) -> usize {
    let waits = |point: &&Point| folder.load(point).unwrap().is_none();
    let points: Vec<_> = study.points.iter().filter(waits).cloned().collect();
    run_all(&points, folder, most)
}

fn files(folder: &Path) -> [Vec<u8>; 2] {
    ["table.csv", "table.parquet"].map(|name| fs::read(folder.join(name)).unwrap())
}

fn whole(study: &Study, folder: &Folder) -> [Vec<u8>; 2] {
    folder.write_whole(study, &folder.load_all(study).unwrap()).unwrap();
    files(folder.path())
}

#[test]
fn points_are_the_combinations_in_the_order_of_the_file() {
    let study = study(SMALL);
    let labels: Vec<String> = study.points.iter().map(Point::label).collect();
    assert_eq!(labels.len(), 2 * 3 * 2 + 2);
    assert_eq!(labels[..3], ["dftl cache=1% seed=7", "dftl cache=1% seed=8", "tpftl cache=1% seed=7"]);
    assert_eq!(labels[12], "page device=nowhere.toml seed=7");
    assert_eq!(study.settings(), ["cache", "device"]);
    let ids: BTreeSet<&str> = study.points.iter().map(|point| point.id.as_str()).collect();
    assert_eq!(ids.len(), study.points.len());
}

#[test]
fn a_point_keeps_its_id_when_others_come() {
    let before = study(SMALL);
    let more =
        SMALL.replace("\"dftl\", \"tpftl\"", "\"sftl\", \"dftl\", \"tpftl\"").replace("[7, 8]", "[6, 7, 8]");
    let after = study(&more);
    let ids: BTreeSet<&str> = after.points.iter().map(|point| point.id.as_str()).collect();
    assert!(before.points.iter().all(|point| ids.contains(point.id.as_str())));
    let other = study(&SMALL.replace("requests = 300", "requests = 301"));
    assert!(other.points.iter().all(|point| !ids.contains(point.id.as_str())));
}

#[test]
fn workloads_are_combined_with_everything() {
    let text = "[cross]\nschemes = [\"page\"]\ncache = [\"1%\", \"2%\"]\n[[workload]]\nname = \"a\"\nsynth = \"financial1\"\n\
                [[workload]]\nname = \"b\"\njobs = \"[j]\\nrw=read\\n\"\n";
    let labels: Vec<String> = study(text).points.iter().map(Point::label).collect();
    assert_eq!(
        labels,
        [
            "page workload=a cache=1% seed=1",
            "page workload=a cache=2% seed=1",
            "page workload=b cache=1% seed=1",
            "page workload=b cache=2% seed=1"
        ]
    );
}

#[test]
fn mistakes_are_sentences() {
    for (text, sentence) in [
        ("", "s.toml: the study has no point; give `schemes` in [cross], or a [[point]]"),
        ("seeds = 0\n[cross]\nschemes = [\"page\"]", "s.toml: seeds is 0 or empty"),
        ("seeds = 20001", "s.toml: the study has more than 20000 points; give fewer values or seeds"),
        ("seeds = \"many\"", "s.toml: line 1: seeds is a whole number from 1, or a list of seeds"),
        ("colour = 1", "s.toml: line 1: unknown field `colour`"),
        ("[cross]\ncache = [\"1%\"]", "s.toml: [cross] has no schemes to run"),
        ("[cross]\nschemes = \"page\"", "s.toml: cross, schemes: give a list of values"),
        ("[cross]\nschemes = [\"ideal\"]", "s.toml: cross, schemes: there is no scheme `ideal`"),
        (
            "[options]\nseed = 1\n[cross]\nschemes = [\"page\"]",
            "s.toml: options: seed is no option of a point; give",
        ),
        (
            "[options]\nspeed = 1\n[cross]\nschemes = [\"page\"]",
            "s.toml: point 1: speed: unknown field `speed`",
        ),
        (
            "[cross]\nschemes = [\"page\"]\nsynth = [\"financial1\", \"nope\"]",
            "s.toml: point 2: synth: there is no generator called \"nope\"",
        ),
        ("[cross]\nschemes = [\"page\", \"page\"]", "s.toml: points 1 and 2 are the same (page seed=1)"),
        ("show = [\"speed\"]\n[cross]\nschemes = [\"page\"]", "s.toml: there is no quantity `speed`"),
        ("[cross]\nschemes = [\"page\"]\n[[workload]]\nsynth = \"x\"", "s.toml: a [[workload]] has no name"),
        ("[[point]]\nsynth = \"financial1\"", "s.toml: point 1 has no scheme"),
    ] {
        let error = wrong(text);
        assert!(error.starts_with(sentence) && !error.contains('\n'), "{error}");
    }
    let many = "seeds = 10001\n[cross]\nschemes = [\"page\"]\ncache = [\"1%\", \"2%\"]";
    assert!(wrong(many).starts_with("s.toml: the study has more than 20000 points"));
    assert_eq!(
        study("[cross]\nschemes = [\"page\"]").point(2).unwrap_err().to_string(),
        "there is no point 2; the study has points 1 to 1"
    );
}

#[test]
fn a_study_that_was_stopped_and_one_of_merged_parts_give_the_same_tables() {
    let study = study(SMALL);
    let scratch = tempfile::tempdir().unwrap();
    let create = |name: &str| Folder::create(&scratch.path().join(name)).unwrap();
    let at_once = create("at-once");
    assert_eq!(go_on(&study, &at_once, usize::MAX), study.points.len());
    let expected = whole(&study, &at_once);
    let done =
        at_once.load_all(&study).unwrap().iter().flatten().filter(|of| of.ended.run().is_some()).count();
    assert_eq!(done, study.points.len() - 2);

    let stopped = create("stopped");
    assert_eq!((go_on(&study, &stopped, 5), go_on(&study, &stopped, 4)), (5, 4));
    let half = Table::new(&study, &stopped.load_all(&study).unwrap());
    assert_eq!(half.rows.iter().filter(|row| row[2] == "to do").count(), study.points.len() - 9);
    go_on(&study, &stopped, usize::MAX);
    assert_eq!(whole(&study, &stopped), expected);

    let merged = create("merged");
    for (index, point) in study.points.iter().enumerate().rev() {
        let part = create(&format!("part-{index}"));
        run_all(std::slice::from_ref(point), &part, 1);
        assert_eq!(merged.merge(&study, &part).unwrap(), 1);
        assert_eq!(merged.merge(&study, &part).unwrap(), 0, "it is there already");
    }
    assert_eq!(whole(&study, &merged), expected);
}

/// Counts phases of warm-ups.
struct WarmUps(AtomicUsize);

impl Progress for WarmUps {
    fn phase(&self, _: usize, _: usize, _: usize, name: &str) {
        self.0.fetch_add(usize::from(name == "warm-up"), Ordering::Relaxed);
    }
}

#[test]
fn points_that_differ_in_the_workload_alone_share_a_warm_up() {
    let text = r#"
        [options]
        device = "tpftl-512m"
        requests = 300
        warm-up = "fill"
        [cross]
        synth = ["financial1", "websearch1"]
        schemes = ["dftl", "page"]
        timing = ["queued", "reserved"]
    "#;
    let (study, temporary) = (study(text), tempfile::tempdir().unwrap());
    let folder = Folder::create(temporary.path()).unwrap();
    let warm_ups = WarmUps(AtomicUsize::new(0));
    let ended = run(&study.points, &folder, 2, ("again", "test"), &warm_ups, &|_| Ok(())).unwrap();
    assert_eq!((ended, warm_ups.0.into_inner()), (8, 2));
}

#[test]
fn a_failed_point_is_a_row_with_its_reason() {
    let study = study(SMALL);
    let scratch = tempfile::tempdir().unwrap();
    let folder = Folder::create(scratch.path()).unwrap();
    go_on(&study, &folder, usize::MAX);
    let stored = folder.load_all(&study).unwrap();
    let table = Table::new(&study, &stored);
    let cell = |row: &[String], name: &str| {
        row[table.columns.iter().position(|column| column == name).unwrap()].clone()
    };
    let last = table.rows.last().unwrap();
    assert_eq!((cell(last, "status"), cell(last, "iops")), ("failed".into(), String::new()));
    assert!(cell(last, "reason").contains("nowhere.toml"), "{}", cell(last, "reason"));
    assert_eq!((cell(&table.rows[0], "status"), cell(&table.rows[0], "cache")), ("done".into(), "1%".into()));
    let rows = rows(&study, &stored);
    assert_eq!((rows.len(), rows[0].done, rows[0].points), (7, 2, 2));
    assert_eq!((rows[6].failed, rows[6].means[0]), (2, None));
    assert!(rows[0].means[0].is_some_and(|iops| iops.mean > 0.0 && iops.half_width.is_some()));
}

#[test]
fn parquet_holds_what_the_csv_holds() {
    let study = study(SMALL);
    let scratch = tempfile::tempdir().unwrap();
    let folder = Folder::create(scratch.path()).unwrap();
    go_on(&study, &folder, 3);
    let table = Table::new(&study, &folder.load_all(&study).unwrap());
    let path = scratch.path().join("t.parquet");
    fs::write(&path, table.parquet().unwrap()).unwrap();
    let reader = SerializedFileReader::new(fs::File::open(&path).unwrap()).unwrap();
    let mut kinds = HashSet::new();
    for (row, expected) in reader.get_row_iter(None).unwrap().zip(&table.rows) {
        for ((name, field), cell) in row.unwrap().get_column_iter().zip(expected) {
            let same = match field {
                Field::Null => cell.is_empty(),
                Field::Long(value) => cell.parse() == Ok(*value),
                Field::Double(value) => cell.parse() == Ok(*value),
                Field::Bool(value) => cell.parse() == Ok(*value),
                Field::Str(value) => cell == value,
                other => panic!("{name}: {other}"),
            };
            kinds.insert(std::mem::discriminant(field));
            assert!(same, "{name}: {field} is not `{cell}`");
        }
    }
    assert_eq!(kinds.len(), 5, "null, and four types: {kinds:?}");
    assert_eq!(reader.metadata().file_metadata().num_rows(), table.rows.len() as i64);
}

#[test]
fn types_of_measured_columns_depend_on_no_cell() {
    let columns = ["digest", "iops", "trim_p99_ns", "seed", "a-setting"].map(str::to_owned).to_vec();
    let row = ["1074e9999", "", "", "18446744073709551615", "nan"].map(str::to_owned).to_vec();
    let scratch = tempfile::NamedTempFile::new().unwrap();
    fs::write(scratch.path(), Table { columns, rows: vec![row] }.parquet().unwrap()).unwrap();
    let reader = SerializedFileReader::new(fs::File::open(scratch.path()).unwrap()).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr();
    let types: Vec<String> =
        schema.columns().iter().map(|column| column.physical_type().to_string()).collect();
    assert_eq!(types, ["BYTE_ARRAY", "DOUBLE", "INT64", "BYTE_ARRAY", "BYTE_ARRAY"]);
}

#[test]
fn a_result_that_is_none_is_named() {
    let study = study(SMALL);
    let scratch = tempfile::tempdir().unwrap();
    let folder = Folder::create(scratch.path()).unwrap();
    let path = scratch.path().join("points").join(format!("{}.json", study.points[0].id));
    for (text, sentence) in [("{", "EOF"), ("{\"schema\": 9}", "missing field"), ("{}", "missing field")] {
        fs::write(&path, text).unwrap();
        let error = folder.load(&study.points[0]).unwrap_err().to_string();
        assert!(
            error.contains(sentence) && error.ends_with("remove it, and the point runs again"),
            "{error}"
        );
    }
    fs::remove_file(&path).unwrap();
    go_on(&study, &folder, 1);
    let other = study.points[1].clone();
    fs::copy(&path, path.with_file_name(format!("{}.json", other.id))).unwrap();
    assert!(folder.load(&other).unwrap_err().to_string().contains("a point with other options"));
}

#[test]
fn an_interval_is_student_s() {
    assert_eq!(mean(&[]), None);
    assert_eq!(mean(&[3.0]).map(|of| (of.mean, of.half_width)), Some((3.0, None)));
    // Two values d apart: half of the interval is 12.706 * d / 2.
    let two = mean(&[1.0, 2.0]).unwrap();
    assert!((two.mean - 1.5).abs() < 1e-12 && (two.half_width.unwrap() - 6.353).abs() < 1e-9);
    let five = mean(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    assert!((five.half_width.unwrap() - 1.9632).abs() < 1e-3);
    assert!(mean(&vec![1.0; 40]).unwrap().half_width.unwrap() < 1e-12);
}
