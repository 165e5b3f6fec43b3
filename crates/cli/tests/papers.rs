//! `ftl paper` on a figure of its own, from the file to every output.

mod common;

use common::{ftl, place, scratch};

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
fn a_figure_from_file_to_every_output() {
    let file = scratch("figure.toml", FIGURE);
    let (json, csv, page) = (place("paper.json"), place("paper.csv"), place("paper.html"));
    let said = ftl(&["paper", &file, "--json", &json, "--csv", &csv, "--report", &page, "--quiet"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    for wanted in
        ["not built", "with host", "dftl over page: 8 threads", "holds", "- It is a test.", "Cache     "]
    {
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
    assert!(page.contains("Reads and writes of a small device") && page.contains("id=\"figures\""));
    let again = ftl(&["paper", &file, "--quiet", "--csv", "-"]);
    assert_eq!(again.out, csv, "the same seed, the same numbers");
}

#[test]
fn papers_are_listed_without_running() {
    let said = ftl(&["paper", "--list"]);
    assert_eq!(said.code, 0, "{}", said.err);
    for wanted in ["learnedftl: ", "14a: ", "tpftl: ", "t2: "] {
        assert!(said.out.contains(wanted), "{wanted} in\n{}", said.out);
    }
}
