//! Results are never lost: no output overwrites an input, and what has ended is kept when something later
//! does not.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use common::{command, ftl, place, scratch, Said};
use rustix::process::{kill_process, Pid, Signal};

const DEVICE: &str = "examples/small-ssd.toml";
const TRACE: &str = "0,8,4096,w,0.0\n0,16,4096,r,0.5\n0,24,4096,w,0.7\n";

/// `ftl` refuses to write `option file`, and the file is as it was.
fn kept(arguments: &[&str], option: &str, file: &str) {
    let before = fs::read(file).expect("the input");
    let said = ftl(&[arguments, &[option, file]].concat());
    let sentence =
        format!("ftl: {option} {file} would overwrite a file that this command reads; name another file\n");
    assert_eq!((said.code, said.out.as_str(), said.err), (2, "", sentence));
    assert_eq!(fs::read(file).expect("the input"), before);
}

#[test]
fn no_output_is_an_input() {
    let trace = scratch("kept.spc", TRACE);
    let jobs = scratch("kept.fio", "[writer]\nrw=randwrite\nsize=1m\n");
    let device = scratch("kept.toml", &fs::read_to_string(common::root().join(DEVICE)).expect("a device"));
    for option in ["--json", "--csv", "--report"] {
        kept(&["compare", "--trace", &trace, "--device", DEVICE], option, &trace);
    }
    kept(&["run", "page", &jobs, "--device", DEVICE], "--json", &jobs);
    kept(&["run", "page", &jobs, "--device", &device], "--csv", &device);
    kept(&["run", "page", &jobs, "--device", DEVICE, "--warm-up", &trace], "--json", &trace);
    kept(&["size", &trace, "--device", DEVICE], "--picture", &trace);
    kept(&["trace", "streams", &trace], "--output", &trace);
}

#[test]
fn two_outputs_are_two_files() {
    let file = place("one-for-two.json");
    let said = ftl(&["run", "page", "--device", DEVICE, "--json", &file, "--csv", &file]);
    assert_eq!(
        (said.code, said.err),
        (2, format!("ftl: --json and --csv both name {file}; name two files\n"))
    );
}

#[test]
fn a_missing_folder_is_not_made() {
    let file = place("no-such-folder/x.json");
    for call in [&["run", "page", "--device", DEVICE][..], &["bench"]] {
        let said = ftl(&[call, &["--json", &file]].concat());
        assert_eq!(said.code, 2);
        assert!(said.err.contains("there is no folder"), "{}", said.err);
    }
    assert!(!fs::exists(place("no-such-folder")).expect("a look"));
}

#[test]
fn shells_and_man_know_every_command() {
    let folder = place("man");
    fs::create_dir_all(&folder).expect("a folder");
    let said = ftl(&["man", &folder]);
    assert_eq!(said.code, 0, "{}", said.err);
    let page = fs::read_to_string(format!("{folder}/ftl-compare.1")).expect("the page");
    assert!(page.contains("Memory for mapping"), "{page}");
    for shell in ["bash", "zsh", "fish"] {
        let said = ftl(&["completions", shell]);
        assert!(said.code == 0 && said.out.contains("compare") && said.out.contains("shrink"), "{shell}");
    }
    let version = ftl(&["--version"]).out;
    assert!(version.starts_with("ftl 0.") && version.contains('('), "{version}");
}

/// Starts `ftl`, interrupts it when `name` has ended, and returns what it said: standard error's last line.
fn interrupted(arguments: &[&str], name: &str) -> Said {
    let mut command = command(arguments);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("ftl can be started");
    let mut said = BufReader::new(child.stderr.take().expect("standard error")).lines();
    let ended = format!("{name}: ended");
    let has_ended = |line: &Result<String, _>| line.as_ref().is_ok_and(|line| line.starts_with(&ended));
    assert!(said.by_ref().any(|line| has_ended(&line)), "{name} never ended");
    kill_process(Pid::from_child(&child), Signal::INT).expect("a signal can be sent");
    let err = said.map_while(Result::ok).last().unwrap_or_default();
    let mut out = String::new();
    child.stdout.take().expect("standard output").read_to_string(&mut out).expect("a table");
    Said { out, err, code: child.wait().expect("an end").code().unwrap_or(-1) }
}

fn stored_json(file: &str) -> Vec<serde_json::Value> {
    let value: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(file).expect("the JSON")).expect("whole JSON");
    value.as_array().cloned().unwrap_or_else(|| vec![value])
}

#[test]
fn what_has_ended_is_kept_after_an_interrupt() {
    let file = place("interrupted.json");
    let load = ["--synth", "financial1", "--requests", "400000", "--device", "tpftl-512m"];
    let call = ["compare", "--schemes", "page,tpftl", "--threads", "1", "--json", &file];
    let said = interrupted(&[&call[..], &load].concat(), "page");
    assert_eq!((said.code, said.err.as_str()), (130, "ftl: scheme tpftl was stopped before it ended"));
    assert!(said.out.contains("page") && said.out.contains("Took"), "{}", said.out);
    let runs = stored_json(&file);
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["scheme"]["name"], "page");
}

#[test]
fn a_check_keeps_what_it_has_checked_after_an_interrupt() {
    let file = place("checked.json");
    let said = interrupted(&["check", "--cuts", "600", "--threads", "1", "--json", &file], "page");
    assert_eq!(said.code, 130, "{}", said.err);
    assert!(
        said.err.starts_with("ftl: stopped: ") && said.err.contains("schemes were checked"),
        "{}",
        said.err
    );
    assert!(said.out.contains("page") && said.out.contains("nothing lost"), "{}", said.out);
    let found = stored_json(&file);
    assert!(!found.is_empty() && found.len() < 19, "{}", found.len());
}

#[test]
fn stored_results_are_shown_again_and_set_side_by_side() {
    let jobs =
        scratch("stored.fio", "[writer]\nrw=randwrite\nsize=4m\n[reader]\nstonewall\nrw=randread\nsize=4m\n");
    let result = |name: &str, more: &[&str]| {
        let (file, csv) = (place(&format!("{name}.json")), place(&format!("{name}.csv")));
        let call = ["compare", &jobs, "--device", DEVICE, "--json", &file, "--csv", &csv, "--quiet"];
        let said = ftl(&[&call[..], more].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        (file, csv, said.out)
    };
    let (small, csv, table) = result("stored-small", &["--schemes", "page,dftl"]);
    let (large, ..) = result("stored-large", &["--schemes", "dftl,tpftl", "--cache", "100%"]);
    let (page, again) = (place("stored.html"), place("stored-again.csv"));
    let said = ftl(&["report", &small, "--report", &page, "--csv", &again]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let until_took = |text: &str| text.split_once("Took").map(|(table, _)| table.to_owned());
    assert_eq!(until_took(&said.out), until_took(&table));
    let read = |path: &str| fs::read_to_string(path).expect("a file");
    assert_eq!(read(&again), read(&csv));
    assert!(read(&page).contains(&format!("<code>ftl report {small} ")));
    let both = ftl(&["report", &small, &large]);
    assert!(both.out.contains("dftl #2") && both.out.contains("tpftl"), "{}", both.out);

    let said = ftl(&["diff", &small, &small]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert!(said.out.contains("Same      page, dftl: every number"), "{}", said.out);
    let said = ftl(&["diff", &small, &large]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    for wanted in ["Only in A page", "Only in B tpftl", "Cache     A: ", "dftl, reader", "better"] {
        assert!(said.out.contains(wanted), "{wanted} in\n{}", said.out);
    }
}

#[test]
fn what_is_no_result_is_told() {
    let text = scratch("no-result.json", "{\"schema\": 1}");
    for call in
        [&["report", &text][..], &["diff", &text, &text], &["report", "none.json"], &["diff", DEVICE, DEVICE]]
    {
        let said = ftl(call);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{call:?}");
        assert!(said.err.contains("name a file that --json of ftl compare or ftl run wrote"), "{}", said.err);
    }
    let kept_file = scratch("kept-result.json", "[]");
    kept(&["report", &kept_file], "--json", &kept_file);
}
