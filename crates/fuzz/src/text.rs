//! Files and options that people write, and those that this program wrote for them.

use std::io;

use nand::DeviceSpec;
use papers::Scale;
use sim::results;
use sim::setup as options;
use workload::fio::JobFile;
use workload::trace::{
    info, write_fio_iolog, write_parquet, write_spc, AddressMap, Columns, Format, Ratio, Trace, TraceOptions,
};
use workload::warm_up::WarmUp;
use workload::{Kind, Request};

use crate::scratch::Scratch;

pub const TRACE_WORDS: &[&str] = &[
    "\n",
    ",",
    " ",
    "R",
    "W",
    "Read",
    "Write",
    "wait",
    "sync",
    "trim",
    "datasync",
    "fio version 2 iolog\n",
    "fio version 3 iolog\n",
    "add",
    "open",
    "close",
    "Q",
    "D",
    "RWBS",
    "FWS",
    "0x2a",
    "-1",
    "1e300",
    "18446744073709551615",
    "9223372036854775808",
    "time_ns,kind,offset,bytes\n",
    "flush",
    ".",
    "99999999999999999999",
    "#",
];
pub const JOB_WORDS: &[&str] = &[
    "\n",
    "[",
    "]",
    "=",
    "global",
    "stonewall",
    "rw=randrw",
    "bs=4k",
    "bssplit=4k/50:8k/50",
    "bsrange=512-1m",
    "size=100%",
    "offset=1g",
    "numjobs=4294967295",
    "iodepth=0",
    "loops=0",
    "random_distribution=zipf:1.2",
    "zoned:50/5:30/15:20/",
    "rate_iops=1,2,3",
    "%",
    "k",
    "E",
    "time_based",
    "runtime=1",
    "number_ios=0",
    "offset_increment=1p",
    "io_size=1e9",
    "norandommap",
    "randseed=",
    "thinktime=",
    "fsync=",
    "18446744073709551615",
];
pub const DEVICE_WORDS: &[&str] = &[
    "\n",
    "=",
    "[",
    "]",
    "\"",
    "GiB",
    "us",
    "ms",
    "channels",
    "page_bytes",
    "4294967295",
    "-1",
    "0",
    "1e400",
    "nan",
    "inf",
    "0.0000001",
    "18446744073709551615",
    "{",
    "}",
];
pub const STUDY_WORDS: &[&str] = &[
    "\n",
    "=",
    "[",
    "]",
    "\"",
    "'",
    "{",
    "}",
    "[cross]",
    "[[zip]]",
    "seeds",
    "schemes = [\"page\"]",
    "cache",
    "4294967295",
    "-1",
    "0%",
    "1e400",
    "99999999999999999999",
    "$",
    "true",
    "range",
    "..",
];
pub const RESULT_WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "null",
    "true",
    "\"\"",
    "-1",
    "1e400",
    "18446744073709551615",
    "0",
    "1.5",
    "\\u0000",
];
pub const VALUE_WORDS: &[&str] = &[
    "\n",
    "GiB",
    "%",
    "us",
    "s",
    "1/3",
    "time=1:us,op=3,lba=4:sectors,size=5:bytes",
    "fill",
    "random",
    "x",
    "..",
    ":",
    ",",
    "=",
    "-1",
    "1e400",
    "18446744073709551615",
    "program=",
    "erase=",
    "0.999999999",
    "99999999999999999999",
];

/// Requests of a trace that are looked at.
const MOST_REQUESTS: usize = 20_000;
/// Requests that are written and read again.
const AGAIN: usize = 500;
/// The device that addresses are mapped to.
const DEVICE_BYTES: u64 = 3 << 20;

fn scratch(bytes: &[u8]) -> Scratch {
    // Without a place for files nothing can be tested.
    Scratch::of(bytes).unwrap_or_else(|error| panic!("no temporary file: {error}"))
}

/// The requests that are read before an error or the end.
fn requests(file: &Scratch, options: &TraceOptions) -> Vec<Request> {
    let Ok(trace) = Trace::open(file.path(), options) else { return Vec::new() };
    let mut last = 0;
    let mut found = Vec::new();
    for request in trace.take(MOST_REQUESTS) {
        let Ok(request) = request else { break };
        assert!(request.arrival_ns >= last, "arrivals go back from {last} to {}", request.arrival_ns);
        last = request.arrival_ns;
        if let (Some(device), true) = (options.device_bytes, request.kind != Kind::Flush) {
            let end = request.offset.checked_add(request.bytes);
            assert!(end.is_some_and(|end| end <= device), "{request:?} leaves a device of {device} bytes");
        }
        found.push(request);
    }
    found
}

/// Every way to read a file as a trace.
fn read(file: &Scratch, options: &TraceOptions) {
    let found = requests(file, options);
    for address in [AddressMap::AsIs, AddressMap::Wrap, AddressMap::Scale] {
        requests(file, &TraceOptions { address, device_bytes: Some(DEVICE_BYTES), ..options.clone() });
    }
    let _ = requests(file, &TraceOptions { strict: true, ..options.clone() });
    let _ = info(file.path(), options);
    again(&found[..found.len().min(AGAIN)]);
}

/// What was read is written, and read again.
fn again(found: &[Request]) {
    let Some(first) = found.first().map(|request| request.arrival_ns) else { return };
    let rebased = |request: &Request| Request { arrival_ns: request.arrival_ns - first, ..*request };
    let mut parquet = Vec::new();
    if write_parquet(&mut parquet, found.iter().copied()).is_ok() {
        let options = TraceOptions { strict: true, ..TraceOptions::default() };
        let back = requests(&scratch(&parquet), &options);
        let expected: Vec<Request> = found.iter().map(rebased).collect();
        assert!(back == expected, "written as Parquet and read again: {expected:?} became {back:?}");
    }
    let _ = write_spc(&mut io::sink(), found.iter().copied());
    let _ = write_fio_iolog(&mut io::sink(), "d", found.iter().copied());
}

/// A trace whose format is found out.
pub fn trace(bytes: &[u8]) {
    read(&scratch(bytes), &TraceOptions::default());
}

/// The first line says what the file is: a format's name, or the columns of a table.
pub fn table(bytes: &[u8]) {
    let (line, rest) = bytes.split_at(bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len()));
    let line = String::from_utf8_lossy(line);
    let options = match (Format::from_name(&line), line.parse::<Columns>()) {
        (None, Err(_)) => return,
        (format, columns) => TraceOptions { format, columns: columns.ok(), ..TraceOptions::default() },
    };
    read(&scratch(rest.get(1..).unwrap_or_default()), &options);
}

/// A fio job file, and the requests of its jobs.
pub fn jobs(bytes: &[u8]) {
    /// More clones say no more.
    const MOST_CLONES: u32 = 16;
    const DEVICE_BYTES: u64 = 8 << 20;
    let Ok(file) = JobFile::parse("jobs.fio", &String::from_utf8_lossy(bytes)) else { return };
    for job in file.phases.iter().flat_map(|phase| &phase.jobs).take(8) {
        if job.numjobs > MOST_CLONES {
            continue;
        }
        let Ok(streams) = job.streams(DEVICE_BYTES, 1) else { continue };
        for request in streams.into_iter().flat_map(|stream| stream.take(200)) {
            let end = request.offset.checked_add(request.bytes);
            assert!(end.is_some_and(|end| end <= DEVICE_BYTES), "{request:?} leaves the device");
        }
    }
}

/// A device file.
pub fn device(bytes: &[u8]) {
    let Ok(device) = DeviceSpec::parse("device.toml", &String::from_utf8_lossy(bytes)) else { return };
    let text = device.to_toml();
    let back = DeviceSpec::parse("device.toml", &text);
    assert!(back.as_ref() == Ok(&device), "{device:?} was written as {text} and read as {back:?}");
    let _ = (device.times(), device.utilisation(), device.factory_bad_blocks());
    let _ = device.with_exported_bytes(1 << 30);
}

/// A study file.
pub fn study(bytes: &[u8]) {
    let Ok(study) = study::Study::parse("study.toml", &String::from_utf8_lossy(bytes)) else { return };
    let stored = vec![None; study.points.len()];
    let table = study::Table::new(&study, &stored);
    let _ = (study.settings(), study::summary::rows(&study, &stored), table.csv());
    // A table without a cell can be written, too.
    table.parquet().unwrap_or_else(|error| panic!("the table cannot be written as Parquet: {error}"));
}

/// A figure file.
pub fn figure(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for scale in [Scale::Quick, Scale::Full] {
        let _ = papers::own("figure.toml", &text, scale);
    }
}

/// A result file.
pub fn results(bytes: &[u8]) {
    let Ok(runs) = results::from_json(&String::from_utf8_lossy(bytes)) else { return };
    let _ = (results::to_csv(&runs), results::fio_json_runs(&runs));
    let Ok(text) = results::to_json(&runs) else { return };
    let back = results::from_json(&text).and_then(|back| results::to_json(&back));
    assert!(back.as_ref().is_ok_and(|back| *back == text), "{text} became {back:?}");
}

/// Values of options, one a line, each read as every kind of value.
pub fn values(bytes: &[u8]) {
    for line in String::from_utf8_lossy(bytes).lines() {
        let _ = (nand::parse_size(line), line.parse::<Columns>());
        if let Ok(warm_up) = line.parse::<WarmUp>() {
            let _ = (warm_up.bytes(1 << 20), warm_up.requests(1 << 20, 1).take(100).count());
        }
        if let Ok(ratio) = Ratio::parse(line) {
            let _ = (ratio.apply(0), ratio.apply(u64::MAX));
        }
        let _ = (options::time_ns(line), options::factor(line), options::rows(line), options::faults(line));
        let _ = (options::positive(line), options::micros(line), options::format(line));
    }
}
