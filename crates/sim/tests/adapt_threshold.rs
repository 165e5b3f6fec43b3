//! ADAPT's sequential threshold over time: on real rows of Financial1 where `FTL_TRACES` names their folder,
//! and on requests that are made for it.

use ftl::schemes::adapt::AdaptFtl;
use ftl::{Config, Device, HostOp, Scheme};
use nand::timing::NoClock;
use nand::{Done, Geometry, Lpn, SimNand, SimOptions};
use std::path::PathBuf;
use workload::trace::{Trace, TraceOptions};
use workload::Kind;

const PAGE: u64 = 2048;
const BLOCK: u32 = 64;
const INTERVAL: usize = 4000;

/// The thresholds after each `every` write requests (first page, pages) to a device that was filled once in
/// order; the fill counts, and intervals have 4,000 requests.
fn trajectory(blocks: u32, every: usize, writes: impl Iterator<Item = (u32, u32)>) -> Vec<u32> {
    let exported = blocks * BLOCK;
    let geometry = Geometry {
        channels: 1,
        luns_per_channel: 1,
        planes_per_lun: 1,
        blocks_per_plane: blocks + blocks / 16,
        pages_per_block: BLOCK,
        page_bytes: PAGE as u32,
        oob_bytes: 64,
    };
    let array = nand::DeviceSpec::tiny(geometry, exported);
    let array = SimNand::new(&array, NoClock::new(), SimOptions::default());
    let mut device = Device::<AdaptFtl, _>::open(array, &Config::new(exported, 8 << 20)).expect("it opens");
    let mut write = |first: u32, pages: u32| {
        device.request(HostOp::Write, Lpn(first), pages, Done::READY, &mut |_, _| {}).expect("a good array");
        let changes = AdaptFtl::INFO.stats.iter().find(|stat| stat.name == "threshold_changes");
        device.counters().value(changes.expect("it counts them"))
    };
    for first in (0..exported).step_by(256) {
        assert_eq!(write(first, 256), 0, "the fill alone changed the threshold");
    }
    let filled = exported as usize / 256;
    let mut thresholds = Vec::new();
    for (requests, (first, pages)) in (filled + 1..).zip(writes) {
        let changes = write(first, pages);
        if requests % every == 0 {
            thresholds.push(if changes % 2 == 0 { 2 } else { 32 });
        }
    }
    thresholds
}

/// Small sequential requests that begin inside a block raise the threshold, once: the request at which an
/// interval ends is judged by the new threshold. Judged by the old one it would open a block in the new
/// interval, which counts as one allocation without a merge, and the threshold would fall again.
#[test]
fn the_threshold_stays_where_an_interval_put_it() {
    let writes = (0..6 * INTERVAL as u32).map(|request| (request * 7 % 1024 * BLOCK + 5, 3));
    assert_eq!(trajectory(1024, INTERVAL, writes)[..2], [32; 2]);
}

/// The same requests, looked at within the first interval: 64 merges are enough to give the threshold of 2
/// up, and after the second interval without use it is tried again.
#[test]
fn a_low_threshold_that_fails_is_given_up_within_the_interval_and_tried_again() {
    let writes = (0..4 * INTERVAL as u32).map(|request| (request * 7 % 1024 * BLOCK + 5, 3));
    let thresholds = trajectory(1024, INTERVAL / 10, writes);
    let low = thresholds.iter().filter(|&&threshold| threshold == 2).count();
    assert!(thresholds[0] == 32 && low <= 2, "{thresholds:?}");
}

/// Streams follow random requests: the threshold comes down to them and stays. The area may have seven
/// blocks.
#[test]
fn a_high_threshold_falls_when_streams_begin() {
    let random = (0..INTERVAL as u32).map(|request| (request * 7 % 1024 * BLOCK + 5, 3));
    let streams = (0..8 * INTERVAL as u32).map(|request| {
        let (stream, at) = (request % 4, request / 4);
        ((stream * 256 + at / 8 % 256) * BLOCK + at % 8 * 8, 8)
    });
    let thresholds = trajectory(4096, INTERVAL, random.chain(streams));
    assert_eq!((thresholds[0], thresholds[8]), (32, 2), "{thresholds:?}");
    let falls = thresholds.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert_eq!(falls, 1, "{thresholds:?}");
}

#[test]
fn the_threshold_rises_once_on_the_first_rows_of_financial1() {
    let folder = std::env::var_os("FTL_TRACES").map(PathBuf::from);
    let Some(path) = folder.map(|folder| folder.join("financial1-first50000.flashsim.xz")) else {
        println!("skipped: FTL_TRACES does not name the folder of traces");
        return;
    };
    if !path.exists() {
        println!("skipped: the cut of Financial1 is not there");
        return;
    }
    let trace = Trace::open(&path, &TraceOptions::default()).expect("it opens");
    let writes = trace.map(|row| row.expect("a good row")).filter(|row| row.kind == Kind::Write);
    let pages = writes.map(|row| {
        let (first, end) = (row.offset / PAGE, (row.offset + row.bytes).div_ceil(PAGE));
        (first as u32, (end - first) as u32)
    });
    assert_eq!(trajectory(4096, INTERVAL, pages), [32, 32, 32, 32, 32]);
}
