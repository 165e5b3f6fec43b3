//! `ftl paper` on a figure of its own, from the file to every output.

mod common;

use common::{command, ftl, place, said, scratch};

const FIGURE: &str = r#"
title = "Reads and writes of a small device"
source = "no paper"
schemes = ["page", "dftl", "unheard-of"]
show = ["iops", "hit_ratio", "write_amplification"]
notes = ["A test."]
[options]
device = "examples/small-ssd.toml"
cache = "10%"
warm-up = "steady"
[quick]
ios = 2000
[full]
ios = 4000
[host]
overhead_us = 50
cpus = 1
why = "a test"
[[case]]
name = "{threads} threads"
sweep = { threads = [1, 8] }
jobs = '''
[read]
rw=randread
bs=4k
norandommap
numjobs={threads}
number_ios={ios}
'''
[[claim]]
what = "{of} over {over}: {case}"
kind = "ratio"
quantity = "iops"
of = { scheme = "dftl", case = "*" }
over = { scheme = "page", case = "*" }
paper = [0.5, 0.9]
differs = "It is a test."
[[claim]]
what = "{of} hits, at most: {case}"
kind = "value"
bound = "at-most"
quantity = "hit_ratio"
of = { scheme = "dftl", case = "*" }
paper = 0.5
[[claim]]
what = "{of}"
kind = "value"
quantity = "iops"
case = "8 threads"
of = "unheard-of"
paper = 1
"#;

#[test]
fn runs_that_have_ended_are_not_run_again() {
    let file = scratch("kept.toml", FIGURE);
    let results = place("kept.results");
    let _ = std::fs::remove_dir_all(&results);
    let paper = |more: &[&str]| {
        let said = ftl(&[&["paper", &file, "--csv", "-"][..], more].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        said
    };
    let whole = paper(&["--quiet"]);
    // As when the command was stopped after the page map's runs.
    paper(&["--results", &results, "--schemes", "page"]);
    let runs = || std::fs::read_dir(format!("{results}/points")).expect("the folder").count();
    assert_eq!(runs(), 2);
    let rest = paper(&["--results", &results]);
    assert!(rest.err.contains("note: 2 of 4 runs have a result already"), "{}", rest.err);
    assert_eq!((runs(), rest.out), (4, whole.out.clone()));
    // Nothing is left to run, and the numbers are those of the runs that were made.
    let again = paper(&["--results", &results]);
    assert!(again.err.contains("note: 4 of 4 runs"), "{}", again.err);
    assert_eq!(again.out, whole.out);
}

#[test]
fn a_figure_from_file_to_every_output() {
    let file = scratch("figure.toml", FIGURE);
    let (json, csv, page) = (place("paper.json"), place("paper.csv"), place("paper.html"));
    let said = ftl(&["paper", &file, "--json", &json, "--csv", &csv, "--report", &page, "--quiet"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    for wanted in [
        "not built",
        "with host",
        "dftl over page: 8 threads",
        "holds",
        "- It is a test.",
        "Cache     ",
        "the line \"Quick\" of a figure says what --full changes.\n",
        "\nQuick     ios 2000 (--full: 4000)\n",
    ] {
        assert!(said.out.contains(wanted), "{wanted} in\n{}", said.out);
    }
    let text = std::fs::read_to_string(&json).expect("a JSON file");
    let found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let claims = found["figures"][0]["claims"].as_array().expect("claims");
    assert_eq!(claims.len(), 5);
    let ours = claims[0]["ours"].as_f64().expect("a number");
    let with_host = claims[0]["with_host"].as_f64().expect("a number");
    // Two dependent reads against one; 50 us of host time on top of both brings them nearer to each other.
    assert!((0.4..0.8).contains(&ours) && with_host > ours, "{ours} {with_host}");
    assert_eq!(claims[4]["missing"], "unheard-of is not built");
    assert_eq!(found["runs"].as_array().expect("runs").len(), 4);
    assert_eq!(found["runs"][0]["phases"][1]["name"], "read with host");
    let csv = std::fs::read_to_string(&csv).expect("a CSV file");
    // A header, five claims, and three quantities of two phases of four runs.
    assert_eq!(csv.lines().count(), 1 + 5 + 3 * 2 * 4);
    let page = std::fs::read_to_string(&page).expect("a page");
    for wanted in [
        "Reads and writes of a small device",
        "Copy data",
        "<code>ftl paper ",
        "<dt>Seed</dt><dd>1<",
        "<span class=\"pill good\">holds</span>",
        "<span class=\"pill idle\">-</span>",
        found["runs"][0]["digest"].as_str().expect("a digest"),
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    let again = ftl(&["paper", &file, "--quiet", "--csv", "-"]);
    assert_eq!(again.out, csv, "the same seed, the same numbers");
}

/// The same figure without anything that `--full` changes, and with a claim about the processor's time.
const SAME: &str = r#"
title = "A figure of the processor"
source = "no paper"
[[claim]]
what = "training"
kind = "value"
bench = "/training/sort_and_train_us"
paper = 50
"#;

#[test]
fn a_figure_that_full_does_not_change_says_so() {
    let file = scratch("same.toml", SAME);
    let said = ftl(&["paper", &file, "--quiet"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    assert!(
        said.out.contains("--full changes nothing.\n") && !said.out.contains("\nQuick  "),
        "{}",
        said.out
    );
    let full = ftl(&["paper", &file, "--quiet", "--full"]);
    assert!(full.out.contains("At the paper's scale.\n"), "{}", full.out);
}

#[test]
fn a_figure_file_of_ones_own_is_listed() {
    let file = scratch("listed.toml", FIGURE);
    let said = ftl(&["paper", &file, "--list"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert!(said.out.contains("listed: Reads and writes of a small device"), "{}", said.out);
    let said = ftl(&["paper", &place("nowhere.toml"), "--list"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("nowhere.toml: the figure file cannot be read"), "{}", said.err);
}

#[test]
fn a_claim_about_the_processor_wants_what_bench_wrote() {
    let figure = scratch("bench-figure.toml", SAME);
    let bench = |text: &str| ftl(&["paper", &figure, "--quiet", "--bench", &scratch("bench.json", text)]);
    let file = place("bench.json");
    for (text, sentence) in [
        ("[]", "is not what `ftl bench --json` wrote; name such a file"),
        (r#"{ "training": { "sort_and_train_us": 3 } }"#, "is not what `ftl bench --json` wrote; name such a file"),
        (
            r#"{ "device": "femu-32g", "schemes": [] }"#,
            "has no number /training/sort_and_train_us; name what `ftl bench --schemes learnedftl --json FILE` wrote",
        ),
    ] {
        let said = bench(text);
        assert_eq!((said.code, said.err), (2, format!("ftl: {file} {sentence}\n")), "{text}");
    }
    let said = bench(r#"{ "device": "femu-32g", "schemes": [], "training": { "sort_and_train_us": 45.0 } }"#);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("close"), "{}", said.out);
    // A figure without such a claim takes no number from the file.
    let said = ftl(&["paper", "tide", "--list", "--bench", &file]);
    assert_eq!(said.code, 0, "{}", said.err);
}

const LIVE: &str = r#"
title = "A live device beside the simulation"
source = "no paper"
schemes = ["page", "tpftl"]
show = ["iops", "response_time_us"]
live = true
[options]
device = "slow-512m"
shrink = 4
cache = "100KiB"
[[case]]
name = "reads"
jobs = """
[warmup-fill]
rw=write
bs=512k
[read]
stonewall
rw=randread
ioengine=libaio
bs=4k
iodepth=4
number_ios=400
"""
[[claim]]
what = "{of}: requests of fio over the simulation's, at most twice as many"
kind = "ratio"
bound = "at-most"
quantity = "iops"
of = { scheme = "*", phase = "read live" }
over = { scheme = "*", phase = "read" }
paper = 2
"#;

#[test]
fn a_live_figure_stands_beside_the_simulation() {
    let file = scratch("live.toml", LIVE);
    let refused = |call: &[&str], sentence: &str| {
        let said = ftl(call);
        assert_eq!((said.code, said.err.as_str()), (2, format!("ftl: {sentence}\n").as_str()), "{call:?}");
    };
    refused(&["paper", &file], "no figure of own is simulated; give --live");
    refused(
        &["paper", "tpftl", "--live"],
        "no figure of tpftl runs on live devices; `ftl paper learnedftl --live` has some",
    );
    refused(
        &["paper", "learnedftl", "--figure", "live-fio"],
        "figure `live-fio` runs on live devices; give --live",
    );
    refused(
        &["paper", "learnedftl", "--live", "--figure", "14a"],
        "figure `14a` does not run on live devices; leave --live out",
    );
    let said = ftl(&["paper", &file, "--live", "--quiet", "--csv", "-"]);
    if said.code == 2 && said.err.contains("fio") {
        println!("skipped: {}", said.err);
        return;
    }
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    let number = |scheme: &str, phase: &str| -> f64 {
        let place = format!("measured,iops,{scheme},reads,{phase},");
        let line =
            said.out.lines().find(|line| line.contains(&place)).unwrap_or_else(|| panic!("{}", said.out));
        line.split(',').nth(10).and_then(|cell| cell.parse().ok()).expect("a number")
    };
    for scheme in ["page", "tpftl"] {
        let (simulated, live) = (number(scheme, "read"), number(scheme, "read live"));
        // Never faster than the model but for the order of blocks; how much slower depends on what else runs
        // here.
        assert!(live > 0.0 && live < 1.5 * simulated, "{scheme}: {live} of {simulated}");
    }
}

const F2FS: &str = r#"
title = "F2FS on a live device"
source = "no paper"
schemes = ["lftl"]
show = ["iops", "mean_flush_us", "hit_ratio"]
live = true
[options]
device = "slow-512m"
shrink = 4
cache = "100KiB"
[[case]]
name = "F2FS"
[case.f2fs]
load = ["fill --size=8m --rw=write --bs=512k --end_fsync=1"]
run = [
    "reads --rw=randread --bs=4k --direct=1 --number_ios=100",
    "writes --rw=randwrite --bs=4k --fsync=16 --number_ios=64 --end_fsync=1",
]
options = "--filename=data --size=8m"
[[claim]]
what = "{of}: mean flush"
kind = "value"
quantity = "mean_flush_us"
of = { scheme = "lftl", phase = "writes" }
paper = 1
"#;

#[test]
fn f2fs_runs_on_a_live_device() {
    let none = place("no-kernel");
    let refused = command(&["paper", "lftl", "--live"]).env("FTL_GUEST", &none).output();
    let refused = said(&refused.expect("ftl can be started"));
    assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{}", refused.err);
    assert!(
        refused.err.starts_with("ftl: F2FS on a live device runs in a virtual machine"),
        "{}",
        refused.err
    );
    assert_eq!(refused.err.lines().count(), 1, "{}", refused.err);

    let (file, json) = (scratch("f2fs.toml", F2FS), place("f2fs.json"));
    let said = ftl(&["paper", &file, "--live", "--quiet", "--json", &json]);
    if said.code == 2 && said.err.contains("virtual machine") {
        println!("skipped: {}", said.err);
        return;
    }
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    let text = std::fs::read_to_string(&json).expect("a JSON file");
    let found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let [reads, writes] = &found["runs"][0]["phases"].as_array().expect("phases")[..] else {
        panic!("{}", said.out)
    };
    assert_eq!((&reads["name"], &writes["name"]), (&"reads".into(), &"writes".into()));
    assert_eq!(
        (&reads["requests"]["read"]["completed"], &writes["requests"]["write"]["completed"]),
        (&100.into(), &64.into())
    );
    // A read waits for flash, 2 ms; a sync for programs, 4 ms, whatever the virtual machine adds.
    assert!(reads["latency"]["read"]["mean_ns"].as_f64().expect("a latency") > 2e6, "{reads}");
    assert!(writes["latency"]["flush"]["mean_ns"].as_f64().expect("a latency") > 4e6, "{writes}");
    assert!(writes["flash"]["host"]["programs"].as_u64().expect("programs") >= 64, "{writes}");
}

#[test]
fn papers_are_listed_without_running() {
    let said = ftl(&["paper", "--list"]);
    assert_eq!(said.code, 0, "{}", said.err);
    for wanted in ["learnedftl: ", "live-fio: ", "14a: ", "tpftl: ", "t2: "] {
        assert!(said.out.contains(wanted), "{wanted} in\n{}", said.out);
    }
    let says_what_is_missing = said.out.contains("real traces: FTL_TRACES names their folder");
    assert_eq!(says_what_is_missing, std::env::var_os("FTL_TRACES").is_none(), "{}", said.out);
}
