//! Every command on its usual way.

mod common;

use common::{command, ftl, place, root, scratch};
use serde_json::Value;

const DEVICE: &str = "examples/small-ssd.toml";
const JOBS: &str = "examples/mixed.fio";
const TRACE: &str = "examples/oltp-sample.spc";

/// A call that must succeed; gives standard output.
fn good(arguments: &[&str]) -> String {
    let said = ftl(arguments);
    assert_eq!(said.code, 0, "ftl {}: {}", arguments.join(" "), said.err);
    said.out
}

/// Results as JSON, without the speed of this machine.
fn findings(arguments: &[&str]) -> Value {
    let mut value: Value = serde_json::from_str(&good(arguments)).expect("JSON");
    for run in value.as_array_mut().expect("a list of runs") {
        run["host"].take();
    }
    value
}

#[test]
fn compare_runs_jobs_and_shows_a_table() {
    let out = good(&["compare", JOBS, "--device", DEVICE]);
    for wanted in
        ["small-ssd", "== mixed ==", "== log ==", "page", "dftl", "tpftl", "warmup-fill", "held\n", "Took"]
    {
        assert!(out.contains(wanted), "{wanted} is missing in\n{out}");
    }
}

#[test]
fn a_shortened_device_has_the_same_dies_and_blocks() {
    let jobs = scratch("shortened.fio", "[reads]\nrw=randread\nbs=4k\nnumber_ios=1000\n");
    let short = ["--device", DEVICE, "--shorten", "2", "--warm-up", "swept", "--schemes", "tpftl"];
    let runs = findings(&[&["compare", &jobs, "--json", "-"][..], &short[..]].concat());
    let device = &runs[0]["device"];
    assert_eq!(device["name"], "small-ssd (1/2 of the pages of a block)");
    assert_eq!((&device["blocks_per_plane"], &device["pages_per_block"]), (&64.into(), &32.into()));
    assert_eq!(device["exported_bytes"], 52 << 20);
}

#[test]
fn a_device_of_which_nothing_can_be_left_out_runs_as_it_is() {
    let text = std::fs::read_to_string(root().join(DEVICE)).expect("the example");
    let one = text.replace("pages_per_block = 64", "pages_per_block = 1");
    let one = one.replace("exported = \"104MiB\"", "exported = \"1MiB\"");
    assert_ne!(text, one);
    let device = scratch("one-page.toml", &one);
    let jobs = scratch("one-page.fio", "[reads]\nrw=randread\nbs=4k\nnumber_ios=100\n");
    good(&["compare", &jobs, "--device", &device, "--cache", "64KiB", "--schemes", "page"]);
}

#[test]
fn variants_of_a_scheme_are_rows_of_their_own() {
    let schemes = "tpftl,tpftl:techniques=rs,tpftl:techniques=-";
    let out = good(&["compare", JOBS, "--device", DEVICE, "--schemes", schemes]);
    for label in ["tpftl:techniques=rsbc", "tpftl:techniques=rs ", "tpftl:techniques=-"] {
        assert!(out.contains(&format!("│ {label}")), "{label} is missing in\n{out}");
    }
}

#[test]
fn the_device_is_rewritten_and_recovers_from_a_power_cut() {
    let schemes = "page,learnedftl,leaftl,lftl";
    let call = ["compare", JOBS, "--device", DEVICE, "--schemes", schemes, "--cache", "100%"];
    let more = ["--rewrite", "500ms", "--power-cut", "--json", "-"];
    let runs = findings(&[&call[..], &more[..]].concat());
    for run in runs.as_array().expect("runs") {
        assert!(run["recovery"]["ns"].as_u64().expect("a time") > 0, "{run}");
        assert!(run["phases"][0]["gc"]["rewritten"].as_u64().expect("a count") > 0, "{run}");
    }
    let out = good(&[&call[..], &["--power-cut"][..]].concat());
    assert!(out.contains("Recovery after a power cut"), "{out}");
}

#[test]
fn size_takes_a_trace_and_names_the_smallest_cache() {
    let (page, json) = (place("size.html"), place("size.json"));
    let out = good(&[
        "size",
        TRACE,
        "--device",
        DEVICE,
        "--address",
        "wrap",
        "--schemes",
        "tpftl,sftl",
        "--caches",
        "10%,100%",
        "--within",
        "50%",
        "--report",
        &page,
        "--json",
        &json,
    ]);
    for wanted in ["Cost by cache size", "│ page", "│ tpftl", "│ sftl", "plain LRU", "ideal map", "Took"]
    {
        assert!(out.contains(wanted), "{wanted} is missing in\n{out}");
    }
    let html = std::fs::read_to_string(page).expect("a report");
    assert!(html.contains("size-reads") && html.contains("size-hits"));
    let found: Value = serde_json::from_str(&std::fs::read_to_string(json).expect("JSON")).expect("JSON");
    assert_eq!(found["points"].as_array().map(Vec::len), Some(4));
    assert_eq!(found["lru"].as_array().map(Vec::len), Some(2));
    let entries = |at: usize| found["lru"][at]["entries"].as_f64().expect("a hit ratio");
    assert!(entries(0) <= entries(1), "a larger LRU cache hits at least as often");
}

#[test]
fn a_model_stands_beside_the_simulation_when_asked_for() {
    let out = good(&["run", "dftl", JOBS, "--device", DEVICE, "--model"]);
    for wanted in ["Model and simulation", "T_at", "T_gcd", "T_gct", "write amplification"] {
        assert!(out.contains(wanted), "{wanted} is missing in\n{out}");
    }
    let said = ftl(&["run", "dftl", JOBS, "--device", DEVICE, "--model", "--json", "-"]);
    assert_eq!((said.code, said.err.contains("--model shows a table")), (2, true), "{}", said.err);
}

#[test]
fn the_same_seed_gives_the_same_results() {
    let call = ["compare", JOBS, "--device", DEVICE, "--json", "-", "--quiet", "--seed"];
    let with = |seed: &'static str, threads: &'static str| {
        let mut call = call.to_vec();
        call.extend([seed, "--threads", threads]);
        findings(&call)
    };
    assert_eq!(with("7", "1"), with("7", "3"));
    assert_ne!(with("7", "1"), with("8", "1"));
}

#[test]
fn without_workload_and_device_a_small_one_gives_a_first_look() {
    let said = ftl(&["run", "page", "--timing", "none", "--json", "-"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.err.contains("note: no workload and no device is named: this is a first look"),
        "{}",
        said.err
    );
    let runs: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(runs[0]["device"]["name"], "femu-32g (1/8 of the pages of a block)");
    assert_eq!(runs[0]["phases"].as_array().map(Vec::len), Some(4));
}

#[test]
fn a_trace_needs_no_option() {
    let said = ftl(&["compare", "--trace", TRACE]);
    assert_eq!(said.code, 0, "{}", said.err);
    let header = "oltp-sample: 8 000 requests, open loop over 65.8 s, addresses as they are, up to 512 MiB";
    assert!(said.out.contains(header) && said.out.contains("tpftl-512m"), "{}", said.out);
    assert!(said.err.contains("note: the device is tpftl-512m"), "{}", said.err);
}

#[test]
fn recordings_that_are_shipped_are_understood_and_replayed() {
    for (file, requests) in [("rocksdb-ext4-sample.parquet", "9 438"), ("f2fs-sample.parquet", "2 026")] {
        let file = format!("examples/{file}");
        let said = good(&["trace", "info", &file]);
        assert!(said.contains(&format!("{requests}, all understood")), "{said}");
        let compared = ["compare", "--trace", &file, "--device", DEVICE, "--cache", "6%"];
        let said = good(&[&compared[..], &["--schemes", "page,tpftl,learnedftl,lftl"]].concat());
        assert!(said.contains("Checks    all ") && said.contains("learnedftl"), "{said}");
    }
}

#[test]
fn what_is_done_to_addresses_is_said() {
    let run = |how: &str| good(&["run", "page", "--trace", TRACE, "--device", DEVICE, "--address", how]);
    assert!(run("wrap").contains("addresses up to 512 MiB wrapped at 104 MiB"));
    assert!(run("scale").contains("addresses scaled from 512 MiB to 104 MiB"));
    let large = scratch("large.spc", "0,0,4096,w,0.0\n0,4294967296,4096,w,0.1\n");
    let said = ftl(&["run", "page", "--trace", &large, "--warm-up", "none", "--timing", "none"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("no preset is that large"), "{}", said.err);
    assert!(said.out.contains("wrapped at 30 GiB"), "{}", said.out);
}

#[test]
fn bad_rows_are_counted_and_shown() {
    let trace = scratch("bad-row.spc", "0,8,4096,r,0.0\n0,16,4096,x,0.5\n0,24,4096,w,0.7\n");
    let said = ftl(&["run", "page", "--trace", &trace, "--device", DEVICE]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.err.contains("1 of 3 rows are not understood and left out, the first is 2:11"),
        "{}",
        said.err
    );
}

#[test]
fn replay_options_are_taken() {
    let base = ["run", "dftl", "--trace", TRACE, "--device", DEVICE, "--address", "wrap", "--quiet"];
    let with = |more: &[&str]| {
        let mut call = base.to_vec();
        call.extend(["--json", "-"]);
        call.extend(more);
        findings(&call)[0]["phases"][0].clone()
    };
    let issued = |phase: &Value| {
        let count = |kind: &str| phase["requests"][kind]["issued"].as_u64().expect("a count");
        count("read") + count("write")
    };
    assert_eq!(issued(&with(&["--rows", "100..600"])), 500);
    let elapsed = |phase: &Value| phase["elapsed_ns"].as_u64().expect("a time");
    let (whole, half) = (with(&[]), with(&["--time-scale", "0.5"]));
    assert!(elapsed(&half) < elapsed(&whole) * 6 / 10);
    assert!(issued(&with(&["--from", "10s", "--until", "20s"])) < 2000);
    let closed = with(&["--mode", "closed", "--depth", "8"]);
    let depth = closed["mean_queue_depth"].as_f64().expect("a depth");
    assert!((7.0..=8.0).contains(&depth), "{depth}");
}

#[test]
fn synthetic_workloads_run() {
    let call = ["run", "tpftl", "--synth", "financial1", "--requests", "3000", "--device", "tpftl-512m"];
    let out = good(&call);
    assert!(out.contains("financial1: 3 000 requests") && out.contains("synthetic"), "{out}");
}

#[test]
fn run_shows_everything_of_one_scheme() {
    let out = good(&[
        "run",
        "tpftl:techniques=rs",
        JOBS,
        "--device",
        DEVICE,
        "--verify",
        "--policy",
        "host-reads-first",
        "--host-overhead-us",
        "1.5",
        "--host-cpus",
        "2",
        "--victims",
        "cost-benefit",
        "--cache",
        "8KiB",
        "--faults",
        "program=50,erase=20",
    ]);
    for wanted in
        ["techniques", "Flash operations by cause", "Digest", "host-reads-first", "1.5 µs", "8 KiB", "held\n"]
    {
        assert!(out.contains(wanted), "{wanted} is missing in\n{out}");
    }
}

#[test]
fn every_clock_and_warm_up_runs() {
    for timing in ["queued", "reserved", "none"] {
        good(&["run", "dftl", JOBS, "--device", DEVICE, "--timing", timing]);
    }
    let jobs = scratch("no-warm-up.fio", "[reads]\nrw=randread\nbs=4k\nnumber_ios=1000\n");
    for (warm_up, shown) in [
        ("none", "none"),
        ("fill", "fill: "),
        ("learnedftl", "learnedftl: "),
        ("steady", "random reads, which put out what is dirty in the mapping cache"),
        (TRACE, "oltp-sample"),
    ] {
        let call = ["run", "page", &jobs, "--device", DEVICE, "--warm-up", warm_up];
        let out = good(&call);
        let line = out.lines().find(|line| line.starts_with("Warm-up")).unwrap_or_default();
        assert!(line.contains(shown), "{warm_up}: {line}");
    }
}

#[test]
fn results_go_to_files_and_streams() {
    let (json, csv, report) = (place("results.json"), place("results.csv"), place("report.html"));
    let said =
        ftl(&["compare", JOBS, "--device", DEVICE, "--json", &json, "--csv", &csv, "--report", &report]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains(&report));
    let read = |path: &str| std::fs::read_to_string(path).expect("a result file");
    let runs = sim::results::from_json(&read(&json)).expect("results");
    assert_eq!(runs.iter().map(|run| run.phases.len()).collect::<Vec<_>>(), [2, 2, 2]);
    assert_eq!(read(&csv).lines().count(), 1 + 6);
    let page = read(&report);
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("default-src 'none'"));
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    for load in ["src=", "href=", "<link", "<iframe", "@import", "http:", "https:"] {
        assert!(!page.contains(load), "the report loads something: {load}");
    }
    let version = good(&["--version"]);
    let digests = runs.iter().map(|run| run.digest.as_str());
    for told in ["<code>ftl compare examples/mixed.fio ", version.trim(), "<dt>Seed</dt><dd>1<"]
        .into_iter()
        .chain(digests)
    {
        let (top, _) = page.split_once("id=\"overview\"").expect("an overview");
        assert!(top.contains(told), "{told} is not on top");
    }
    let csv_out = good(&["compare", JOBS, "--device", DEVICE, "--output-format=csv", "--quiet"]);
    assert_eq!(csv_out, read(&csv));
}

/// Names of the fields of an object, nested ones with their path.
fn fields(value: &Value, path: &str, into: &mut Vec<String>) {
    let Some(object) = value.as_object() else { return };
    for (name, inner) in object {
        let here = format!("{path}/{name}");
        fields(inner, &here, into);
        into.push(here);
    }
}

#[test]
fn fio_json_has_the_fields_of_fio() {
    let call = ["run", "page", JOBS, "--device", DEVICE, "--output-format=fio-json", "--quiet"];
    let ours: Value = serde_json::from_str(&good(&call)).expect("JSON");
    let job = &ours["jobs"][0];
    assert_eq!(job["jobname"], "mixed");
    assert!(job["read"]["iops"].as_f64().is_some_and(|iops| iops > 0.0));
    assert!(job["read"]["clat_ns"]["percentile"]["99.000000"].as_u64().is_some_and(|ns| ns >= 40_000));
    let jobs = scratch("real.fio", "[real]\nioengine=null\nsize=4m\nrw=randrw\n");
    let real = std::process::Command::new("fio").args(["--output-format=json", &jobs]).output();
    let Ok(real) = real else {
        println!("fio is not installed: the comparison with fio's own output is skipped");
        return;
    };
    let real: Value = serde_json::from_slice(&real.stdout).expect("fio's JSON");
    let (mut wanted, mut found) = (Vec::new(), Vec::new());
    fields(&real["jobs"][0], "", &mut wanted);
    fields(job, "", &mut found);
    let host_only = |field: &String| field.starts_with("/job options");
    let missing: Vec<_> = wanted.iter().filter(|field| !host_only(field) && !found.contains(field)).collect();
    assert!(missing.is_empty(), "fields that fio has and we have not: {missing:?}");
}

#[test]
fn traces_are_described() {
    let out = good(&["trace", "info", TRACE]);
    for wanted in ["spc, plain", "8 000 in 65.8 s", "Footprint", "reads:", "writes:"] {
        assert!(out.contains(wanted), "{wanted} is missing in\n{out}");
    }
    let json: Value = serde_json::from_str(&good(&["trace", "info", TRACE, "--json"])).expect("JSON");
    assert_eq!(json[0]["rows"], 8000);
}

#[test]
fn any_table_is_a_trace_and_standard_input_is_a_file() {
    let table = "ts_us;disk;what;sector;bytes\n100;a;Write;8;4096\n250;a;Read;8;4096\n900;b;Read;0;512\n";
    let file = scratch("mine.csv", table);
    let columns = ["--columns", "time=ts_us:us,op=what,lba=sector:sectors,size=5,device=disk"];
    let from_file =
        [&["run", "page", "--trace", &file, "--warm-up", "none", "--json", "-"][..], &columns].concat();
    let runs = findings(&from_file);
    let phase = &runs[0]["phases"][0];
    assert_eq!((&phase["pages_read"], &phase["pages_written"]), (&2.into(), &1.into()));
    // Twice through the same requests: one scheme after the other reads the pipe's copy.
    let temporary = place("temporary");
    std::fs::create_dir_all(&temporary).expect("a folder");
    let piped = |arguments: &[&str]| {
        let mut command = command(arguments);
        command.env("TMPDIR", &temporary);
        let mut child = command
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("ftl can be started");
        std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), table.as_bytes())
            .expect("a reader");
        common::said(&child.wait_with_output().expect("an end"))
    };
    let both = ["compare", "--schemes", "page,dftl", "--trace", "-", "--warm-up", "none"];
    let said = piped(&[&both[..], &columns].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("stdin: 3 requests") && said.out.contains("(standard input)"), "{}", said.out);
    // A trace may stand where a job file does.
    let named =
        findings(&[&["run", "page", &file, "--warm-up", "none", "--json", "-"][..], &columns].concat());
    assert_eq!(named[0]["digest"], runs[0]["digest"]);
    let said = piped(&[&["trace", "info", "-", "--trace-device", "b"][..], &columns].concat());
    assert!(
        said.out.contains("Trace       -: columns") && said.out.contains("Requests    1 in"),
        "{}{}",
        said.out,
        said.err
    );
    let said = piped(&["trace", "info", "-", "-", columns[0], columns[1]]);
    assert!(said.err.contains("- is given twice") && said.code == 2, "{}", said.err);
    let left = std::fs::read_dir(&temporary).expect("a folder").count();
    assert_eq!(left, 0, "copies of standard input stay behind");
}

#[test]
fn traces_are_made() {
    let shipped = std::fs::read_to_string(root().join(TRACE)).expect("the sample");
    let call = ["trace", "make", "financial1", "--requests", "8000", "--seed", "2026", "-o"];
    for ending in ["spc", "iolog"] {
        let path = place(&format!("made.{ending}"));
        let mut call = call.to_vec();
        call.push(&path);
        good(&call);
        let out = good(&["trace", "info", &path]);
        assert!(out.contains("8 000, all understood"), "{out}");
        if ending == "spc" {
            assert_eq!(std::fs::read_to_string(&path).expect("a trace"), shipped);
        }
    }
    let mut call = call.to_vec();
    call.push("-");
    assert_eq!(good(&call), shipped);
}

#[test]
fn lists_are_printed() {
    let schemes = good(&["schemes"]);
    assert!(schemes.contains("dftl") && schemes.contains("ASPLOS 2009") && schemes.contains("protected=50"));
    let devices = good(&["devices"]);
    assert!(devices.contains("femu-32g") && devices.contains("6.7 %"), "{devices}");
    let printed = scratch("printed.toml", &good(&["devices", DEVICE]));
    assert_eq!(good(&["devices", &printed]), good(&["devices", DEVICE]));
    let workloads = good(&["workloads"]);
    assert!(workloads.contains("financial1 ") && workloads.contains("f2fs-varmail "), "{workloads}");
    // What is measured takes seconds, and is shown of one workload only.
    assert!(!workloads.contains("77.9 %"), "{workloads}");
    let workload = good(&["workloads", "financial1"]);
    assert!(workload.contains("write share") && workload.contains("77.9 %"), "{workload}");
    for list in ["schemes", "devices", "workloads"] {
        let json: Value = serde_json::from_str(&good(&[list, "--json"])).expect("JSON");
        assert!(json.as_array().is_some_and(|all| all.len() >= 3));
    }
}

#[test]
fn power_is_cut() {
    let out = good(&["check", "--scheme", "dftl", "--cuts", "1000", "--quiet"]);
    assert!(out.contains("nothing lost"), "{out}");
}

#[test]
fn a_night_of_power_cuts_spends_its_time_and_says_what_it_drew() {
    let said = ftl(&["check", "--scheme", "page", "--budget", "200ms", "--seed", "random", "--json", "-"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("note: --seed random drew "), "{}", said.err);
    let found: Value = serde_json::from_str(&said.out).expect("JSON");
    let count = |key: &str| found[0][key].as_u64().unwrap_or(0);
    assert!(count("cuts") >= 500 && count("cuts") == 500 * count("runs"), "{found}");
    assert!(found[0]["finding"].is_null() && found[0]["elapsed_s"].as_f64() >= Some(0.2), "{found}");
}

/// A sweep too small to have erased everything has found nothing wrong; it says what it did not show.
#[test]
fn a_small_sweep_says_what_it_did_not_exercise() {
    let args = ["check", "--scheme", "page", "--cuts", "500", "--seed", "177602959", "--json", "-"];
    let said = ftl(&args);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("note: page: nothing was lost, but 4 translation pages"), "{}", said.err);
    let found: Value = serde_json::from_str(&said.out).expect("JSON");
    assert!(found[0]["not_exercised"].as_str().is_some_and(|what| what.contains("translation")), "{found}");
}

#[test]
fn devices_are_worn_out_and_counted() {
    let said =
        good(&["check", "--until-worn", "--scheme", "dftl:protected=30", "--cuts", "8", "--seed", "5"]);
    let row = said.lines().find(|line| line.contains("dftl")).expect("a row");
    assert!(row.contains("nothing lost"), "{said}");
    // Columns are two spaces apart at least, thousands one.
    let cells = row.split("  ").map(|cell| cell.replace(|c: char| !c.is_ascii_digit(), ""));
    let counts: Vec<u64> = cells.filter_map(|cell| cell.parse().ok()).skip(1).collect();
    let [devices, worn, outlived, written, erases] = counts[..] else { panic!("{said}") };
    assert!(devices == 8 && worn > 0 && worn + outlived == 8 && written > 1000 && erases > 1000, "{said}");
    let refused = ftl(&["check", "--until-worn", "--faults"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let mut child = command(&["devices"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("ftl can be started");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ftl ends");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn the_benchmark_s_help_names_what_it_leaves_out() {
    let out = good(&["bench", "--help"]);
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    let left_out =
        format!("all but the log-block schemes, which take hours: {}]", ::ftl::schemes::LOG_BLOCK.join(", "));
    assert!(words.contains(&left_out), "{words}");
}

#[test]
fn help_has_examples() {
    for command in [&["--help"][..], &["compare", "--help"], &["run", "--help"], &["trace", "info", "--help"]]
    {
        assert!(good(command).contains("Examples:"));
    }
    assert!(good(&["--version"]).starts_with("ftl "));
}

#[test]
fn recorded_traces_run_without_options() {
    let Some(folder) = std::env::var_os("FTL_TRACES") else {
        println!("FTL_TRACES names no folder: the recorded traces are skipped");
        return;
    };
    let folder = root().join(folder);
    for name in [
        "websearch1-first50000.flashsim.xz",
        "financial1-first50000.flashsim.xz",
        "msr-prxy_0-first20000.csv.xz",
        "cloudphysics-2h.csv.xz",
        "pixel6a-telegram-exec.csv.gz",
    ] {
        let path = folder.join(name).display().to_string();
        let out = good(&["run", "tpftl", "--trace", &path, "--warm-up", "none", "--quiet"]);
        assert!(out.contains("held\n"), "{name}:\n{out}");
    }
}
