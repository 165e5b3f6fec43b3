//! Every mistake of a user's gets exactly one sentence on standard error, exit code 2 and nothing on standard
//! output.

mod common;

use common::{ftl, scratch};

const DEVICE: &str = "examples/small-ssd.toml";
const JOBS: &str = "examples/mixed.fio";

/// `ftl` says `sentence` and nothing else.
fn refused(arguments: &[&str], sentence: &str) {
    let said = ftl(arguments);
    assert_eq!(said.err, format!("ftl: {sentence}\n"), "ftl {}", arguments.join(" "));
    assert_eq!((said.code, said.out.as_str()), (2, ""), "ftl {}", arguments.join(" "));
    assert!(!said.err.contains("panicked"));
}

#[test]
fn a_request_outside_the_device() {
    let jobs = scratch("outside.fio", "[reader]\nrw=randread\noffset=200m\nsize=1m\n");
    refused(
        &["compare", &jobs, "--device", DEVICE],
        &format!(
            "{jobs}:3: clone 0 of [reader] starts beyond the device of 109051904 bytes; use a smaller offset or \
             offset_increment"
        ),
    );
    let trace = scratch("outside.spc", "0,8,4096,r,0.0\n0,409600,4096,w,0.5\n");
    refused(
        &["compare", "--trace", &trace, "--device", DEVICE],
        &format!(
            "--address as-is is impossible: {trace} reaches 200 MiB but device small-ssd has 104 MiB; give wrap to take \
             addresses modulo the capacity, scale to multiply them by capacity over span, or a larger device"
        ),
    );
}

#[test]
fn a_device_that_is_too_small_for_a_file_system() {
    for (workload, least) in [("filebench-varmail", "384 MiB"), ("f2fs-varmail", "64 MiB")] {
        refused(
            &["run", "page", "--synth", workload, "--device", DEVICE, "--export", "40MiB", "--address", "wrap"],
            &format!(
                "--device small-ssd is too small: workload {workload} needs {least} and it has 40 MiB; give a larger one"
            ),
        );
    }
}

#[test]
fn columns_and_formats_that_there_are_not() {
    let trace = scratch("columns.csv", "1,2\n");
    let said = ftl(&["trace", "info", &trace, "--columns", "lba=1"]);
    assert!(said.err.contains("`lba=1` names no column for size; write time=1:us,"), "{}", said.err);
    assert_eq!(said.code, 2);
    let said = ftl(&["compare", "--trace", &trace, "--columns", "lba=1,size=bytes"]);
    assert_eq!(
        (said.err, said.code),
        (format!("ftl: {trace}: there is no column bytes; the first row has 1, 2\n"), 2)
    );
    let said = ftl(&["trace", "info", &trace, "--trace-format", "csv"]);
    assert!(said.err.contains("there is no trace format `csv`; there are spc, msr, "), "{}", said.err);
    let said = ftl(&["compare", "--synth", "financial1", "--columns", "lba=1,size=2"]);
    assert_eq!((said.err.as_str(), said.code), ("ftl: --columns is for a trace; leave it out\n", 2));
}

#[test]
fn wear_that_cannot_come() {
    refused(
        &["run", "page", JOBS, "--device", DEVICE, "--until-worn"],
        "--until-worn needs blocks that wear out; give endurance, such as 100, or a device file with endurance",
    );
    refused(
        &["run", "fast", JOBS, "--device", DEVICE, "--wear-gap", "0"],
        "--wear-gap: `0` is no whole number from 1 to 4294967295",
    );
}

#[test]
fn a_warm_up_beside_that_of_the_job_file() {
    refused(
        &["compare", JOBS, "--device", DEVICE, "--warm-up", "fill"],
        "--warm-up would take the place of the job file's own warm-up, warmup-fill, warmup-overwrite; leave it out, or \
         give a job file without such sections",
    );
}

#[test]
fn a_paper_or_a_figure_that_is_not_there() {
    let said = ftl(&["paper", "nothing"]);
    assert!(said.err.starts_with("ftl: there is no paper `nothing`; there are "), "{}", said.err);
    let said = ftl(&["paper", "tpftl", "--figure", "99"]);
    assert!(
        said.err.starts_with("ftl: tpftl has no figure `99` here; there are real, states, t2, 1, 2, "),
        "{}",
        said.err
    );
    refused(
        &["paper", "tpftl", "--figure", "10", "--schemes", "page"],
        "no figure has scheme `page`; they have dftl, tpftl",
    );
    let file = scratch("wrong.toml", "title = 3\n");
    refused(
        &["paper", &file],
        &format!(
            "{file}, line 1: invalid type: integer `3`, expected a string; docs/papers.md describes the form of the file"
        ),
    );
    refused(&["paper"], "<NAME|FILE.toml> is missing (see `ftl paper --help`)");
}

#[test]
fn a_part_of_a_device_that_does_not_come_out_even() {
    for (option, parts) in [("--shrink", "blocks of a plane"), ("--shorten", "pages of a block")] {
        let call = |factor| ["compare", "--device", DEVICE, option, factor];
        refused(
            &call("7"),
            &format!("{option} 7 does not divide the 64 {parts} of small-ssd; give a divisor of 64"),
        );
        refused(
            &call("64"),
            &format!(
                "{option} 64 leaves 1 of the 64 {parts} of small-ssd; at least 2 are needed: give at most 32"
            ),
        );
    }
}

#[test]
fn a_malformed_job_file() {
    let jobs = scratch("wrong.fio", "[reader]\nrw=backwards\n");
    refused(
        &["run", "page", &jobs, "--device", DEVICE],
        &format!(
            "{jobs}:2: rw=backwards is not valid; write rw=read, write, randread, randwrite, rw, randrw, trim, randtrim, \
             trimwrite or randtrimwrite"
        ),
    );
    refused(
        &["run", "page", "nowhere.fio"],
        "nowhere.fio: the job file cannot be read (No such file or directory (os error 2)); name a fio job file, or a \
         trace with the option trace",
    );
    let trace = scratch("trace.fio", "0,20941264,8192,W,0.551706\n0,20939840,8192,W,0.554041\n");
    refused(
        &["run", "page", &trace],
        &format!("{trace} is a trace (format spc), not a fio job file; give it with the option trace"),
    );
}

#[test]
fn a_load_that_would_never_end() {
    let jobs = scratch("endless.fio", "[reads]\nrw=randread\nsize=10m\ntime_based\nruntime=1s\n");
    refused(
        &["run", "page", &jobs, "--device", DEVICE, "--warm-up", "none", "-q"],
        "[reads] runs for a time, but its requests take none, as nothing is written where they go, so it would never \
         end; write there first, or give io_size or loops instead of time_based",
    );
    let trace = scratch("far.spc", "0,0,4096,w,0\n0,8,4096,w,18446744073\n");
    refused(
        &["run", "page", "--trace", &trace, "--device", DEVICE, "--warm-up", "none"],
        "--max-gap is needed: the last request of far arrives after more than 548 years, and the clock counts no further; \
         give a pause such as 1s",
    );
}

#[test]
fn a_malformed_trace() {
    let trace = scratch("wrong.spc", "0,8,4096,r,0.0\n0,16,4096,x,0.5\n0,24,4096,w,0.7\n");
    refused(
        &["compare", "--trace", &trace, "--strict"],
        &format!(
            "{trace}:2:11: the opcode is \"x\" and not r or w; a row of spc is asu,lba(512 B),bytes,r|w,seconds"
        ),
    );
    let empty = scratch("empty.spc", "");
    for call in [&["compare", "--trace"][..], &["trace", "info"]] {
        refused(
            &[call, &[&empty]].concat(),
            &format!("{empty}: the trace is empty; give a file that holds requests"),
        );
    }
    refused(
        &["trace", "info", "examples/oltp-sample.spc", "--from", "99h"],
        "examples/oltp-sample.spc: none of its 8 000 rows is a request that --from, --until, --rows and --trace-device \
         leave; give a wider window",
    );
    let noise = scratch("noise.txt", "what is this\nno trace\n");
    let sentence = format!(
        "{noise}: the trace's format is not recognised: neither a header nor one of the first ten rows is one of spc, \
         msr, systor, cloudphysics, flashsim, mqsim, blkparse, iolog-v2, iolog-v3, pixel, nexus, alibaba, tencent, \
         vscsi, oracle-general, ftl; the first row is \"what is this\"; name its columns with option columns, such as \
         time=1:us,op=3,lba=4:sectors,size=5:bytes"
    );
    refused(&["compare", "--trace", &noise], &sentence);
    refused(&["trace", "info", &noise], &sentence);
    refused(
        &["compare", "--trace", "examples/oltp-sample.spc", "--rows", "9000..9100"],
        "examples/oltp-sample.spc: there is no request to run: none of its 8000 rows lies in the window of options \
         from, until and rows; give a wider one",
    );
}

#[test]
fn a_malformed_device_file() {
    let device = scratch("wrong.toml", "name = \"x\"\nwhat = \"x\"\nexported = \"1GiB\"\nchannels = 3\n");
    let keys =
        "`name`, `what`, `exported`, `sram`, `endurance`, `factory_bad_ppm`, `policy`, `geometry`, `times`, `host`, \
                `controller`, `energy`";
    refused(
        &["compare", JOBS, "--device", &device],
        &format!("{device}, line 4: unknown key `channels`; the keys here are {keys}"),
    );
    refused(
        &["compare", JOBS, "--device", "nothing"],
        "device `nothing`: no preset has this name, and as a file it cannot be read (No such file or directory (os \
         error 2)); the presets are femu-32g, tpftl-512m, tpftl-16g, flashsim-slc, ufs-32g, d4, slow-512m",
    );
}

#[test]
fn an_impossible_cache() {
    let call = |cache| ["compare", JOBS, "--device", DEVICE, "--cache", cache];
    refused(
        &call("0%"),
        "a cache of 0 % of the full table is impossible; give a share above 0 % and up to 100 %, or bytes",
    );
    refused(
        &call("150%"),
        "a cache of 150 % of the full table is impossible; give a share above 0 % and up to 100 %, or bytes",
    );
    refused(&call("0"), "a cache of 0 bytes holds no mapping; give some KiB, or a share such as 3%");
    refused(
        &call("much"),
        "--cache: `much` is no cache size; give a share such as 3%, or bytes such as 512KiB",
    );
    refused(
        &call("100"),
        "scheme dftl: a cache of 100 bytes is too small; give at least 168: the directory takes 104 and 64 more are needed",
    );
}

#[test]
fn no_over_provisioning() {
    refused(
        &["compare", JOBS, "--device", DEVICE, "--export", "128MiB"],
        "device `small-ssd`: exported is 134217728 bytes, but only 134217728 bytes of flash are good, which leaves no \
         over-provisioning; an FTL needs a few percent, so export at most about 127504384 bytes",
    );
    // How much collection needs is the schemes' business; that the sentence gives a number that would do is
    // ours.
    let said = ftl(&["compare", JOBS, "--device", DEVICE, "--export", "127MiB"]);
    let sentence =
        said.err.strip_prefix("ftl: over-provisioning: 32512 pages are exported, ").unwrap_or_default();
    let pages =
        sentence.split("export from 1 to about ").nth(1).and_then(|rest| rest.strip_suffix(" pages\n"));
    assert_eq!((said.code, said.out.as_str(), said.err.lines().count()), (2, "", 1), "{}", said.err);
    let most: u64 = pages.and_then(|pages| pages.parse().ok()).expect("a number of pages");
    let export = (most * 4096).to_string();
    assert_eq!(ftl(&["run", "dftl", JOBS, "--device", DEVICE, "--export", &export]).code, 0);
    refused(
        &["compare", JOBS, "--device", DEVICE, "--export", "all"],
        "--export: `all` is no size; write bytes, or a whole number with KiB, MiB, GiB or TiB",
    );
}

fn known_schemes() -> String {
    ftl::schemes::ALL.iter().map(|info| info.name).collect::<Vec<_>>().join(", ")
}

#[test]
fn unknown_schemes_and_parameters() {
    refused(
        &["compare", "--schemes", "page,ideal"],
        &format!("--schemes: there is no scheme `ideal`; there are {}", known_schemes()),
    );
    refused(
        &["compare", "--schemes", "page,dftl:entries=3"],
        "--schemes dftl:entries=3: scheme dftl has no parameter `entries`; it has protected, program_buffer",
    );
    refused(
        &["run", "tpftl:techniques=xyz", JOBS, "--device", DEVICE],
        "scheme tpftl: techniques = 'xyz'; letters of 'rsbc', or '-', are needed",
    );
    refused(
        &["compare", "--schemes", "dftl,dftl", JOBS, "--device", DEVICE],
        "--schemes has dftl twice; give each variant once",
    );
}

#[test]
fn values_that_make_no_sense() {
    refused(
        &["run", "page", "--requests", "-5"],
        "--requests -5: nothing here can be negative (see `ftl run --help`)",
    );
    refused(
        &["compare", "--cache", "-3%"],
        "--cache -3%: nothing here can be negative (see `ftl compare --help`)",
    );
    refused(
        &["compare", "--warm-up", "steady=1%"],
        "--warm-up steady=1%: there is no warm-up steady with an amount; aged=50% and fragmented=50% have one",
    );
    refused(&["size", "--cache", "3%"], "ftl size has no --cache; give the sizes to try with --caches");
    refused(
        &["size", "--picture", "-"],
        "ftl size has no --picture -; name a file such as --picture curve.svg",
    );
    refused(
        &["study", "examples/cache-study.toml", "--point", "1-3"],
        "--point: `1-3` is no point; write numbers as --list shows them, such as 3,7",
    );
}

#[test]
fn calls_that_make_no_sense() {
    refused(&["frobnicate"], "there is no command `frobnicate` (see `ftl --help`)");
    refused(
        &["compare", "--cashe", "3%"],
        "there is no option `--cashe`; did you mean `--cache`? (see `ftl compare --help`)",
    );
    refused(&["compare", "--cache"], "--cache needs a value (see `ftl compare --help`)");
    refused(&["compare", "a.fio", "b.fio"], "`b.fio` is one argument too many (see `ftl compare --help`)");
    refused(
        &["compare", "--timing", "fast"],
        "--timing fast is not possible; it is one of queued, reserved, none",
    );
    refused(
        &["compare", "--device", "d4", "--schemes", "adapt", "--cache", "100%", "--rewrite", "1s"],
        "scheme adapt does not rewrite what has lain long; leave the rewriting period out for it",
    );
    refused(
        &["compare", JOBS, "--device", DEVICE, "--rewrite", "0s"],
        "--rewrite 0 would rewrite without end; give a time such as 30s",
    );
    refused(
        &["compare", JOBS, "--device", DEVICE, "--export", "1"],
        "device `small-ssd`: exported is 1 bytes, which is no multiple of the page (4096 bytes); 4096 would be",
    );
    refused(
        &["top", "disk.sock"],
        "HOST:PORT: `disk.sock` is no address of metrics; give HOST:PORT as in --metrics, such as 127.0.0.1:9100",
    );
    refused(&["compare", "--seed", "x"], "--seed: `x` is no whole number from 0 up");
    refused(&["compare", "--seed", "1", "--seed", "2"], "--seed may be given once only");
    refused(
        &["compare", "--trace", "a", "--synth", "b"],
        "--trace and --synth exclude each other; give one of them",
    );
    refused(
        &["compare", "--depth", "3"],
        "--depth is for a trace or a generator; set iodepth and numjobs in the job file",
    );
    refused(
        &["compare", "--timing", "none", "--policy", "fcfs"],
        "--policy orders the queues of timing queued; leave one of the two out",
    );
    refused(
        &["compare", "--json", "-", "--csv", "-"],
        "standard output can show one format only; write the others to files",
    );
    refused(&["run"], "<SCHEME[:key=value…]> is missing (see `ftl run --help`)");
    refused(
        &["compare", "--synth", "nothing"],
        "there is no generator called \"nothing\"; there are financial1, financial2, msr-ts, msr-src, websearch1, \
         websearch2, websearch3, systor17, filebench-fileserver, filebench-webserver, filebench-varmail, \
         f2fs-fileserver, f2fs-videoserver, f2fs-varmail, f2fs-file-randread, f2fs-file-read, f2fs-file-write, \
         f2fs-file-randwrite, rocksdb-overwrite, rocksdb-readrandom, rocksdb-readseq, financial1-rows, \
         financial1-flashsim, spc1, tpcc-20, msr-hm_0, msr-mds_0, msr-prn_0, msr-prxy_0, msr-rsrch_0, \
         msr-stg_0, msr-ts_0, msr-web_0, streams",
    );
    refused(
        &["compare", JOBS, "--device", DEVICE, "--gc-foreground", "1"],
        "collection thresholds: foreground 1 and background 4 superblocks; foreground must be at least 3 and \
         background at least foreground",
    );
    refused(
        &["compare", JOBS, "--device", DEVICE, "--faults", "erase"],
        "--faults: `erase` is no fault rate; write key=ppm, with the keys factory-bad, program, erase, uncorrectable, \
         lost-translation and metadata-retry, and ppm from 0 to 1000000",
    );
    refused(
        &["check", "--scheme", "nothing"],
        &format!("there is no scheme `nothing`; there are {}", known_schemes()),
    );
    refused(
        &["check", "--scheme", "tpftl:techniques=xyz"],
        "scheme tpftl: techniques = 'xyz'; letters of 'rsbc', or '-', are needed",
    );
    refused(&["schemes", "nothing"], &format!("there is no scheme `nothing`; there are {}", known_schemes()));
}

#[test]
fn a_cut_that_the_run_does_not_have() {
    let cut = ftl(&["check", "--scheme", "page", "--cut", "99999999", "-q"]);
    assert_eq!((cut.code, cut.out.as_str()), (2, ""), "{}", cut.err);
    assert!(cut.err.starts_with("ftl: --cut: the run of seed 1 has cuts 0 to "), "{}", cut.err);
    assert!(cut.err.ends_with(" only; give one of them\n"), "{}", cut.err);
}

#[test]
fn jobs_that_would_never_end() {
    let jobs = scratch("endless.fio", "[reader]\nrw=randread\nruntime=1\ntime_based\n");
    refused(
        &["compare", &jobs, "--device", DEVICE, "--timing", "none"],
        "[reader] runs for a time, but the clock is off, so it would never end; give io_size or loops instead of \
         time_based",
    );
}

#[test]
fn files_that_cannot_be_written_are_told_of_before_the_run() {
    let file = scratch("a-file", "");
    let said = ftl(&["compare", "--report", &format!("{file}/report.html")]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    assert!(said.err.starts_with(&format!("ftl: {file}/report.html cannot be written (")), "{}", said.err);
    assert_eq!(said.err.lines().count(), 1);
}
