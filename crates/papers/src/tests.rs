//! Embedded files, mistakes in files, and derivations from made-up results.

use serde_json::Value as Json;

use crate::claim::findings;
use crate::file::figure;
use crate::live::Live;
use crate::plan::phase;
use crate::{load, names, Figure, Finding, Measured, Missing, PaperError, Place, Plan, Scale, Verdict};

const SMALL: &str = r#"
title = "a figure"
source = "a paper"
schemes = ["dftl", "tpftl"]
show = ["iops"]
[options]
device = "tpftl-512m"
warm-up = "none"
[quick]
io = "1m"
[full]
io = "2m"
[[case]]
name = "reads"
jobs = '''
[random]
rw=randread
bs=4k
io_size={io}
'''
"#;

fn with(more: &str) -> Result<Figure, PaperError> {
    figure("x.toml", "x", &format!("{SMALL}{more}"), Scale::Quick)
}

#[test]
fn every_embedded_file_says_what_can_be_run() {
    assert!(names().contains(&"learnedftl") && names().contains(&"tpftl"));
    for name in names() {
        for scale in [Scale::Quick, Scale::Full] {
            let paper = load(name, scale).expect("a paper");
            assert!(!paper.figures.is_empty());
            let figures: Vec<_> = paper.figures.iter().collect();
            let plan = Plan::new(&figures, &|_| true, 1, "").expect("a plan");
            for (index, figure) in paper.figures.iter().enumerate() {
                // Without the folder of real traces nothing is left of a figure about them.
                let nothing = figure.claims.is_empty() && !figure.cases.is_empty();
                assert!(!nothing, "{} {} claims nothing", name, figure.id);
                for place in figure.claims.iter().flat_map(|claim| claim.of.iter().chain(&claim.over)) {
                    let cells = plan.cells.iter().filter(|cell| cell.figure == index);
                    let found = cells
                        .filter(|cell| cell.case == place.case && cell.row == place.scheme)
                        .filter_map(|cell| cell.point.clone().ok())
                        .all(|at| place.phase.is_empty() || has_phase(&plan, at, &place.phase));
                    assert!(found, "{} {}: no phase {} for a claim", name, figure.id, place.phase);
                }
            }
        }
    }
}

fn experiment(plan: &Plan, at: usize) -> sim::Experiment {
    plan.points[at].experiment("").expect("it was resolved")
}

fn has_phase(plan: &Plan, at: usize, phase: &str) -> bool {
    let simulated = |name: &str| experiment(plan, at).phases.iter().any(|phase| phase.name == name);
    match &plan.live[at] {
        None => simulated(phase),
        Some(Live::Fio(_)) => simulated(phase.trim_end_matches(" live")),
        Some(Live::Rocksdb(calls) | Live::F2fs(calls)) => {
            calls.run.iter().any(|call| call.starts_with(phase))
        }
    }
}

#[test]
fn figures_that_share_a_set_up_run_it_once() {
    let one = with("").expect("a figure");
    let other = figure("y.toml", "y", SMALL, Scale::Quick).expect("a figure");
    let plan = Plan::new(&[&one, &other], &|_| true, 1, "").expect("a plan");
    assert_eq!((plan.points.len(), plan.cells.len()), (2, 4));
    let larger = figure("z.toml", "z", SMALL, Scale::Full).expect("a figure");
    let plan = Plan::new(&[&one, &larger], &|scheme| scheme == "dftl", 1, "").expect("a plan");
    assert_eq!((plan.points.len(), plan.cells.len()), (2, 2));
}

#[test]
fn a_row_may_have_a_name_of_its_own() {
    let text = SMALL.replace("\"tpftl\"]", "\"plain = tpftl:techniques={io}\"]");
    let read = figure("x.toml", "x", &text, Scale::Quick).expect("a figure");
    let rows: Vec<_> = read.cases[0].rows.iter().map(|row| (row.name.as_str(), row.spec.as_str())).collect();
    assert_eq!(rows, [("dftl", "dftl"), ("plain", "tpftl:techniques=1m")]);
}

#[test]
fn a_scheme_that_is_not_built_is_no_mistake() {
    let text = SMALL.replace("\"tpftl\"", "\"from-the-future:width=3\"");
    let figure = figure("x.toml", "x", &text, Scale::Quick).expect("a figure");
    let plan = Plan::new(&[&figure], &|_| true, 1, "").expect("a plan");
    assert_eq!(
        plan.cells.iter().map(|cell| cell.point.clone()).collect::<Vec<_>>(),
        [Ok(0), Err("from-the-future".to_owned())]
    );
}

#[test]
fn a_host_measures_each_phase_twice() {
    let figure = with("[host]\noverhead_us = 3\ncpus = 2\nwhy = \"a guess\"\n").expect("a figure");
    let plan = Plan::new(&[&figure], &|_| true, 1, "").expect("a plan");
    let experiment = experiment(&plan, 0);
    let names: Vec<_> = experiment.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["random", "random with host"]);
    let run = sim::results::Run {
        phases: names
            .iter()
            .map(|name| sim::results::Phase { name: (*name).to_owned(), ..Default::default() })
            .collect(),
        ..Default::default()
    };
    for name in ["", "random"] {
        assert_eq!(phase(&run, name, false).expect("a phase").name, "random");
        assert_eq!(phase(&run, name, true).expect("a phase").name, "random with host");
    }
}

#[test]
fn mistakes_get_file_key_and_what_would_be_right() {
    let cases = [
        ("[[claim]]\nwhat = \"w\"\nkind = \"speed\"\npaper = 1\n", "x.toml, line 23: unknown variant `speed`"),
        ("[[claim]]\nwhat = \"w\"\nkind = \"value\"\nquantity = \"speed\"\nof = \"dftl\"\npaper = 1\n",
            "x.toml: claim `w`, of: there is no quantity `speed`; there are iops"),
        ("[[claim]]\nwhat = \"w\"\nkind = \"value\"\nquantity = \"iops\"\nof = \"page\"\npaper = 1\n",
            "x.toml: claim `w`, of: no case has scheme `page`"),
        ("[[claim]]\nwhat = \"w\"\nkind = \"ratio\"\nquantity = \"iops\"\nof = \"dftl\"\npaper = 1\n",
            "x.toml: claim `w`: `over` is missing; name what is compared with"),
        ("[[claim]]\nwhat = \"w\"\nkind = \"value\"\nquantity = \"iops\"\nof = [\"dftl\", \"tpftl\"]\npaper = [1, 2, 3]\n",
            "x.toml: claim `w`: paper has 3 values where 2 are needed"),
        ("[[claim]]\nwhat = \"w\"\nkind = \"value\"\nquantity = \"iops\"\nof = \"dftl\"\npaper = \"much\"\n",
            "x.toml: claim `w`: paper has \"much\", which is no number"),
        ("[[claim]]\nwhat = \"w\"\nkind = \"value\"\nquantity = \"iops\"\nof = \"dftl\"\npaper = 1\n\
          exercised = { scheme = \"page\", quantity = \"erases\" }\n",
            "x.toml: claim `w`: exercised: no case has scheme `page`"),
        ("[[case]]\nname = \"reads\"\njobs = \"[a]\"\n", "x.toml: case `reads`: there are two cases of this name"),
        ("[[case]]\nname = \"more\"\n", "x.toml: case `more`: give either jobs, or options.synth, or options.trace"),
        ("[[case]]\nname = \"more\"\njobs = \"{io} {nothing}\"\n",
            "x.toml: case `more`, jobs: there is no variable `nothing`; there are: io"),
        ("[[case]]\nname = \"more\"\njobs = \"[a]\"\nsweep = { n = [1, 2] }\n",
            "x.toml: case `more`: sweep.n is used nowhere; write {n} where it belongs"),
        ("[[case]]\nname = \"more\"\njobs = \"[a]\"\noptions = { json = \"f\" }\n",
            "x.toml: case `more`: options.json is the caller's to choose; leave it out"),
        ("[[case]]\nname = \"more\"\njobs = \"[a]\"\noptions = { cache = \"{io}x\" }\n",
            "x.toml: case `more`, options.cache: `1mx` is no cache size"),
        ("[[case]]\nname = \"more\"\njobs = \"[a]\"\noptions = { colour = 3 }\n",
            "x.toml: case `more`, options.colour: unknown field `colour`, expected one of "),
        ("[[case]]\nname = \"more\"\nrocksdb = { load = [], run = [\"readseq\"], options = \"\" }\n",
            "x.toml: case `more`: rocksdb runs on live devices; write live = true at the top"),
        ("[[case]]\nname = \"more\"\nf2fs = { load = [], run = [], options = \"\" }\n",
            "x.toml: case `more`: f2fs runs on live devices; write live = true at the top"),
        ("[case]\n", "x.toml, line 21"),
        ("[host]\noverhead_us = -1\ncpus = 2\nwhy = \"\"\n", "x.toml: host: overhead_us must be"),
        ("weight = 3\n", "x.toml, line 21: unknown field `weight`"),
    ];
    for (more, sentence) in cases {
        let error = with(more).expect_err(more).to_string();
        assert!(error.starts_with(sentence), "{error}\n{sentence}");
        assert!(!error.contains('\n'), "{error}");
    }
    let lacking = SMALL.replace("[full]\nio = \"2m\"\n", "[full]\n");
    let error = figure("x.toml", "x", &lacking, Scale::Quick).expect_err("a variable is missing");
    assert_eq!(error.to_string(), "x.toml: full: `io` is missing; give it in [quick] and in [full]");
    assert!(load("nothing", Scale::Quick)
        .is_err_and(|error| error.to_string().starts_with("there is no paper `nothing`; there are")));
}

#[test]
fn impossible_set_ups_name_file_and_case() {
    for (from, to, why) in [
        ("tpftl-512m", "floppy", "device `floppy`"),
        ("warm-up = \"none\"", "shrink = 7", "shrink 7 does not divide"),
        ("\"dftl\", \"tpftl\"", "\"tpftl:colour=red\"", "no parameter `colour`"),
        ("rw=randread", "rw=backwards", "rw=backwards is not valid"),
    ] {
        let figure =
            figure("x.toml", "x", &SMALL.replace(from, to), Scale::Quick).expect("its form is right");
        let Err(error) = Plan::new(&[&figure], &|_| true, 1, "") else { panic!("{to} was taken") };
        let sentence = error.to_string();
        assert!(sentence.starts_with("x.toml: case `reads`: ") && sentence.contains(why), "{sentence}");
    }
}

/// Made-up results: DFTL 100 requests/s, TPFTL 200, and twice that with a host. Only TPFTL erases.
struct MadeUp;

impl Measured for MadeUp {
    fn at(&self, place: &Place, host: bool) -> Result<f64, Missing> {
        let value = match (place.scheme.as_str(), place.phase.as_str()) {
            ("dftl", _) if place.quantity == "erases" => 0.0,
            ("dftl", _) => 100.0,
            ("tpftl", "none") => return Err(Missing::Because("no such phase".to_owned())),
            ("tpftl", _) => 200.0,
            (other, _) => return Err(Missing::NotBuilt(other.to_owned())),
        };
        Ok(if host { 2.0 * value } else { value })
    }

    fn bench(&self) -> Option<&Json> {
        None
    }
}

fn found(claim: &str) -> Vec<Finding> {
    let figure = with(&format!("[[claim]]\nwhat = \"{{of}} and {{over}}\"\nquantity = \"iops\"\n{claim}"))
        .expect("a claim");
    findings(&figure, &MadeUp)
}

#[test]
fn numbers_are_derived_as_the_paper_does() {
    for (kind, wanted) in [("ratio", 2.0), ("reduction", -1.0), ("increase", 1.0), ("difference", 100.0)] {
        let found = found(&format!("kind = \"{kind}\"\nof = \"tpftl\"\nover = \"dftl\"\npaper = 1.9\n"));
        assert_eq!((found.len(), found[0].ours.clone()), (1, Ok(wanted)), "{kind}");
        assert_eq!(found[0].what, "tpftl and dftl");
        assert_eq!(found[0].with_host, None);
    }
    let pairs = "of = [\"dftl\", \"tpftl\"]\nover = [\"tpftl\", \"tpftl\"]\n";
    for (pick, wanted) in [("mean", 0.75), ("max", 1.0), ("min", 0.5), ("sums", 0.75)] {
        let found = found(&format!("kind = \"ratio\"\npick = \"{pick}\"\n{pairs}paper = 0.8\n"));
        assert_eq!((found.len(), found[0].ours.clone()), (1, Ok(wanted)), "{pick}");
    }
    let each = found("kind = \"value\"\nof = { scheme = \"*\" }\npaper = [100, 300]\n");
    let verdicts: Vec<_> = each.iter().map(|found| (found.ours.clone(), found.verdict)).collect();
    assert_eq!(verdicts, [(Ok(100.0), Verdict::Close), (Ok(200.0), Verdict::Lower)]);
    assert_eq!(each[1].ratio(), Some(200.0 / 300.0));
}

#[test]
fn what_is_missing_is_no_number() {
    let missing = found("kind = \"value\"\nphase = \"none\"\nof = \"tpftl\"\npaper = 1\n");
    assert_eq!((missing[0].verdict, missing[0].ratio()), (Verdict::Missing, None));
    assert!(missing[0].ours.is_err());
    let mean = found("kind = \"value\"\npick = \"mean\"\nof = [\"dftl\", { scheme = \"tpftl\", phase = \"none\" }]\npaper = 1\n");
    assert!(mean[0].ours.is_err(), "a mean over less than all is another number");
    let bench = found("kind = \"value\"\nbench = \"/a/b\"\npaper = 1\n");
    assert!(bench[0].ours.as_ref().is_err_and(|why| why.to_string().contains("--bench")));
}

#[test]
fn a_claim_whose_mechanism_did_not_run_is_not_exercised() {
    let of_and_over = |exercised: &str| {
        let claim = "kind = \"ratio\"\nof = \"tpftl\"\nover = \"dftl\"\npaper = 2";
        let one = found(&format!("{claim}\nexercised = {exercised}\n"))[0].verdict;
        let picked = found(&format!("{claim}\npick = \"max\"\nexercised = {exercised}\n"))[0].verdict;
        assert_eq!(one, picked, "{exercised}");
        one
    };
    assert_eq!(of_and_over("\"erases\""), Verdict::Close, "tpftl erases");
    let in_the_run_of = |scheme| of_and_over(&format!("{{ scheme = \"{scheme}\", quantity = \"erases\" }}"));
    assert_eq!(in_the_run_of("tpftl"), Verdict::Close);
    assert_eq!(in_the_run_of("dftl"), Verdict::NotExercised);
}

#[test]
fn verdicts_follow_direction_and_bound() {
    let verdict = |claim: &str| {
        let places = if claim.contains("of =") { "" } else { "of = \"tpftl\"\nover = \"dftl\"\n" };
        found(&format!("{claim}\n{places}"))[0].verdict
    };
    for (claim, wanted) in [
        ("kind = \"ratio\"\npaper = 2.2", Verdict::Close),
        ("kind = \"ratio\"\npaper = 1.2", Verdict::Larger),
        ("kind = \"ratio\"\npaper = 5", Verdict::Smaller),
        ("kind = \"ratio\"\npaper = 0.5", Verdict::Opposite),
        ("kind = \"ratio\"\npaper = 1.0", Verdict::Effect),
        ("kind = \"ratio\"\npaper = 1.015", Verdict::Larger),
        ("kind = \"ratio\"\npaper = 0.985", Verdict::Opposite),
        ("of = \"dftl\"\nover = \"tpftl\"\nkind = \"ratio\"\npaper = 0.985", Verdict::Larger),
        ("of = \"dftl\"\nover = \"tpftl\"\nkind = \"ratio\"\npaper = 1.0", Verdict::Effect),
        ("of = \"tpftl\"\nover = \"tpftl\"\nkind = \"ratio\"\npaper = 1.0", Verdict::Close),
        ("of = \"tpftl\"\nover = \"tpftl\"\nkind = \"ratio\"\npaper = 0.985", Verdict::Close),
        ("of = \"tpftl\"\nover = \"tpftl\"\nkind = \"ratio\"\npaper = 1.2", Verdict::NoEffect),
        ("kind = \"ratio\"\nbound = \"range\"\npaper = [1.5, 2.5]", Verdict::Close),
        ("kind = \"ratio\"\nbound = \"range\"\npaper = [1.1, 1.3]", Verdict::Larger),
        ("kind = \"ratio\"\nbound = \"range\"\npaper = [0.2, 0.4]", Verdict::Opposite),
        ("kind = \"ratio\"\nbound = \"at-most\"\npaper = 1.9", Verdict::Broken),
        ("kind = \"ratio\"\nbound = \"at-least\"\npaper = 1.9", Verdict::Holds),
        ("kind = \"increase\"\nbound = \"within\"\npaper = 0.02", Verdict::Broken),
        ("kind = \"reduction\"\npaper = 0.3", Verdict::Opposite),
        ("kind = \"difference\"\nbound = \"above\"\npaper = 0", Verdict::SameSide),
        ("kind = \"difference\"\nbound = \"below\"\npaper = 0", Verdict::Opposite),
        ("kind = \"difference\"\nbound = \"below\"\npaper = 101", Verdict::SameSide),
    ] {
        assert_eq!(verdict(claim), wanted, "{claim}");
    }
}
