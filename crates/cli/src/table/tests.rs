#![allow(clippy::unwrap_used)]

use sim::results::{Invariant, Phase, Run};

use super::*;
use crate::report::fixture::{mixed_and_broken, three_schemes};

#[test]
fn comparison_shows_what_matters_and_fits() {
    let text = compare_table(&three_schemes());
    println!("{text}");
    for needle in [
        "32 GiB raw, 30 GiB exported = utilisation 93.8 % of raw",
        "over-provisioning 2 GiB = 6.7 % of exported",
        "collection keeps 2 superblocks (256 MiB)",
        "six device volumes",
        "1.80 MiB = 3.0 % of the full table of 60 MiB",
        "== randread ==",
        "== randwrite ==",
        "all 51 invariants of 3 runs held",
        "x page",
    ] {
        assert!(text.contains(needle), "{needle} is missing in\n{text}");
    }
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 120, "{widest} columns");
    assert!(!text.to_lowercase().contains("nan"));
}

#[test]
fn broken_invariants_are_loud_and_named() {
    let mut runs = three_schemes();
    runs[1].invariants.push(Invariant::new("issued = completed", false, "100 issued, 97 completed"));
    let text = compare_table(&runs);
    assert!(text.contains("!!! 1 INVARIANT OF 52 BROKEN: do not use these results"), "{text}");
    assert!(text.contains("!!! dftl: issued = completed: 100 issued, 97 completed"), "{text}");
    runs.truncate(1);
    runs[0].invariants.clear();
    assert!(compare_table(&runs).contains("NOT CHECKED: no invariants recorded for page"));
}

#[test]
fn a_phase_of_two_kinds_has_a_row_for_each() {
    let text = compare_table(&mixed_and_broken());
    println!("{text}");
    let rows = |kind: &str| text.lines().filter(|line| line.starts_with('│') && line.contains(kind)).count();
    assert_eq!((rows(" read "), rows(" write ")), (3, 3));
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

#[test]
fn long_names_cost_the_least_needed_columns_first() {
    let mut runs = mixed_and_broken();
    runs[0].scheme.name = "a scheme with a long name".to_owned();
    let text = compare_table(&runs);
    assert!(text.contains("p99.9 ") && !text.contains("in flight"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    runs[0].scheme.name = "x".repeat(300);
    assert!(compare_table(&runs)
        .lines()
        .filter(|line| line.starts_with('│'))
        .all(|line| line.chars().count() <= 120));
}

#[test]
fn empty_runs_have_dashes_and_no_nan() {
    let mut run = Run::new("test");
    run.scheme.name = "page".to_owned();
    run.phases.push(Phase { name: "nothing".to_owned(), ..Phase::default() });
    for text in [
        compare_table(&[run.clone()]),
        run_detail(&run),
        compare_table(&[]),
        compare_table(&[Run::default()]),
    ] {
        let lower = text.to_lowercase();
        assert!(!lower.contains("nan") && !lower.contains("inf "), "{text}");
    }
}

#[test]
fn runs_of_one_scheme_are_told_apart() {
    let mut runs = vec![Run::default(); 4];
    for (run, techniques) in runs.iter_mut().zip(["", "rs", "rsbc", "rsbc"]) {
        run.scheme.name = "tpftl".to_owned();
        run.scheme.parameters.insert("entry_bytes".to_owned(), "6".to_owned());
        run.scheme.parameters.insert("techniques".to_owned(), techniques.to_owned());
    }
    let expected =
        ["tpftl:techniques=", "tpftl:techniques=rs", "tpftl:techniques=rsbc", "tpftl:techniques=rsbc #2"];
    assert_eq!(labels(&runs), expected);
}

#[test]
fn facts_that_differ_name_their_runs() {
    let mut runs = three_schemes();
    runs[2].device.gc_reserve.superblocks = 7;
    let text = compare_table(&runs);
    assert!(text.contains("Reserve   page, dftl: collection keeps 2 superblocks"), "{text}");
    assert!(text.contains("Reserve   tpftl: collection keeps 7 superblocks"), "{text}");
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let mut runs = three_schemes();
    runs[0].workload.name = "evil\u{1b}[2Jname".to_owned();
    runs[0].phases[0].name = "rand\u{1b}]0;x\u{7}read".to_owned();
    assert!(!compare_table(&runs).contains('\u{1b}'));
    assert!(!run_detail(&runs[0]).contains('\u{1b}'));
}

#[test]
fn detail_of_a_run_names_everything() {
    let text = run_detail(&three_schemes()[2]);
    println!("{text}");
    for needle in [
        "Zhou et al.",
        "techniques",
        "GTD",
        "p95",
        "answered by cmt",
        "translation",
        "Digest",
        "host pages/s",
    ] {
        assert!(text.contains(needle), "{needle} is missing in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

#[test]
fn a_small_table_looks_like_this() {
    let mut runs = three_schemes();
    runs.truncate(2);
    let groups = groups(&runs);
    let drawn = flash(&groups[2], &labels(&runs)).text();
    let expected = "\
Flash operations
┌───────────────────────────────────────────────────────────────┐
│ scheme    hits     WA   data GC   transl.   erases     memory │
╞═══════════════════════════════════════════════════════════════╡
│ page     100 %   4.70      3.70         0      917     60 MiB │
│ dftl     3.1 %   7.60      5.20      1.40    1 484   1.83 MiB │
└───────────────────────────────────────────────────────────────┘
";
    assert_eq!(drawn, expected, "\n{drawn}");
}
