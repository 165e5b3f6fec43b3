//! Generators: how close they are to what was published, and that they repeat.

use std::path::PathBuf;

use workload::locality::Locality;
use workload::profile::Profile;
use workload::synth::{calibration, catalogue, Synth};
use workload::trace::{Trace, TraceOptions};
use workload::{Kind, Request};

#[test]
fn each_statistic_is_close_to_what_was_published() {
    for synth in catalogue() {
        for row in calibration(synth.name).expect("known") {
            // Shares within 0.6 points, sizes and spans within 1.5 %.
            let tolerance = if row.published < 1.0 { 0.006 } else { row.published * 0.015 };
            assert!((row.ours - row.published).abs() <= tolerance, "{}: {row:?}", synth.name);
        }
    }
}

#[test]
fn requests_stay_in_their_space_and_arrive_in_order() {
    for synth in catalogue() {
        let mut last = 0;
        let mut count = 0;
        // An elastic one fits itself into less: to age the largest takes a minute.
        let device = if synth.elastic() { 4 << 30 } else { synth.span_bytes() };
        for r in synth.stream_on(50_000, 3, device) {
            assert!(
                r.end() <= device
                    && (r.bytes > 0 || r.kind == Kind::Flush)
                    && r.offset % 512 == 0
                    && r.arrival_ns >= last
            );
            last = r.arrival_ns;
            count += 1;
        }
        assert_eq!(count, 50_000);
        let mean = last / count;
        if synth.threads().is_some() {
            assert_eq!((synth.mean_gap_ns(), last), (0, 0), "{} has no arrival times", synth.name);
            continue;
        }
        assert!(
            (synth.mean_gap_ns() * 97 / 100..synth.mean_gap_ns() * 103 / 100).contains(&mean),
            "{}: {mean}",
            synth.name
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_requests() {
    let take = |seed| Synth::open("msr-ts", 2_000, seed).expect("known").collect::<Vec<_>>();
    assert_eq!(take(1), take(1));
    assert_ne!(take(1), take(2));
    assert_eq!(digest(take(1).into_iter()), 17_895_560_780_888_130_037, "golden digest");
}

fn digest(requests: impl Iterator<Item = Request>) -> u64 {
    requests.fold(0xcbf2_9ce4_8422_2325u64, |h, r| {
        [r.arrival_ns, r.kind.index() as u64, r.offset, r.bytes]
            .iter()
            .fold(h, |h, v| (h ^ v).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17))
    })
}

/// Layout and requests on a device of 1 GiB: a change of the model has to be meant.
#[test]
fn golden_digests_of_elastic_generators() {
    let found = catalogue().iter().filter(|synth| synth.elastic()).map(|synth| {
        let laid = synth.preparation(5, 1 << 30).expect("it lays something out");
        (synth.name, digest(laid), digest(synth.stream_on(100_000, 5, 1 << 30)))
    });
    let golden = [
        ("filebench-fileserver", 5_415_679_886_046_616_894, 3_994_676_976_553_173_164),
        ("filebench-webserver", 5_006_168_510_952_922_251, 1_395_840_680_703_206_248),
        ("filebench-varmail", 1_144_460_526_986_977_429, 2_941_740_097_819_774_035),
        ("f2fs-fileserver", 4_895_034_667_088_094_307, 6_898_247_970_832_993_562),
        ("f2fs-videoserver", 15_275_642_973_523_855_380, 5_053_255_283_695_712_993),
        ("f2fs-varmail", 4_211_908_106_114_987_452, 2_317_289_438_347_526_244),
        ("f2fs-file-randread", 4_473_584_311_951_786_292, 10_394_772_526_812_991_752),
        ("f2fs-file-read", 5_998_641_932_721_973_607, 15_038_871_679_361_707_801),
        ("f2fs-file-write", 6_344_563_722_808_340_295, 2_916_899_275_752_474_591),
        ("f2fs-file-randwrite", 2_507_231_571_360_422_209, 16_187_392_615_970_229_290),
        ("rocksdb-overwrite", 8_417_255_486_118_472_827, 8_401_260_750_735_869_115),
        ("rocksdb-readrandom", 11_774_046_103_426_966_640, 16_598_999_992_906_092_739),
        ("rocksdb-readseq", 11_774_046_103_426_966_640, 14_456_585_565_311_430_671),
    ];
    assert_eq!(found.collect::<Vec<_>>(), golden);
}

#[test]
fn an_unknown_name_gets_a_sentence() {
    let text = Synth::open("nope", 1, 1).map(|_| ()).map_err(|e| e.to_string());
    assert_eq!(text, Err("there is no generator called \"nope\"; there are financial1, financial2, msr-ts, msr-src, websearch1, websearch2, websearch3, systor17, filebench-fileserver, filebench-webserver, filebench-varmail, f2fs-fileserver, f2fs-videoserver, f2fs-varmail, f2fs-file-randread, f2fs-file-read, f2fs-file-write, f2fs-file-randwrite, rocksdb-overwrite, rocksdb-readrandom, rocksdb-readseq, financial1-rows, financial1-flashsim, spc1, tpcc-20, msr-hm_0, msr-mds_0, msr-prn_0, msr-prxy_0, msr-rsrch_0, msr-stg_0, msr-ts_0, msr-web_0, streams".into()));
}

#[test]
fn websearch1_looks_like_the_real_cut() {
    let Some(folder) = std::env::var_os("FTL_TRACES").map(PathBuf::from) else {
        println!("skipped: FTL_TRACES does not name the folder of traces");
        return;
    };
    let path = folder.join("websearch1-first50000.flashsim.xz");
    if !path.exists() {
        println!("skipped: {} is not there", path.display());
        return;
    }
    let trace = Trace::open(&path, &TraceOptions::default()).expect("it opens");
    let real = Profile::of(trace.map(|r| r.expect("a good row")));
    let ours = Profile::of(Synth::open("websearch1", 50_000, 1).expect("known"));
    // The published mean of the whole trace is 15.5 KiB, that of this cut 15.1.
    assert!((real.mean_bytes - ours.mean_bytes).abs() < 0.04 * real.mean_bytes);
    assert!((real.reads.sequential - ours.reads.sequential).abs() < 0.01);
    assert!((real.mean_iops - ours.mean_iops).abs() < 0.03 * real.mean_iops);
    assert_eq!(real.sizes[0].bytes, ours.sizes[0].bytes);
    assert!(
        real.pages_touched.abs_diff(ours.pages_touched) * 10 < real.pages_touched,
        "{} {}",
        real.pages_touched,
        ours.pages_touched
    );
}

#[test]
fn a_stand_in_writes_where_its_rows_do() {
    let mut far = Vec::new();
    let mut fitted = 0;
    for synth in catalogue() {
        let Some(acceptance) = synth.acceptance() else { continue };
        fitted += 1;
        let rows = acceptance.table.into_iter().chain(acceptance.of_reads);
        far.extend(rows.filter(|row| !row.is_near()).map(|row| (synth.name, row)));
    }
    assert!(far.is_empty(), "{far:#?}");
    assert!(fitted > 0);
}

#[test]
fn the_rows_measure_what_the_catalogue_says() {
    let Some(folder) = std::env::var_os("FTL_TRACES").map(PathBuf::from) else {
        println!("skipped: FTL_TRACES does not name the folder of traces");
        return;
    };
    for acceptance in catalogue().iter().filter_map(Synth::acceptance) {
        let path = folder.join(acceptance.file);
        if !path.exists() {
            println!("skipped: {} is not there", path.display());
            continue;
        }
        for (kind, table) in [(Kind::Write, &acceptance.table), (Kind::Read, &acceptance.of_reads)] {
            let options = TraceOptions { format: acceptance.format, ..TraceOptions::default() };
            let trace = Trace::open(&path, &options).expect("it opens");
            let rows = trace.map(|row| {
                let row = row.expect("a good row");
                workload::Request { offset: row.offset - row.offset % acceptance.align, ..row }
            });
            let measured = Locality::of_kind(rows, kind, u64::MAX, acceptance.grain);
            for (row, (_, measured)) in table.iter().zip(measured.table()) {
                let as_stored = (row.published - measured).abs() <= 0.0005 * measured.max(1.0);
                assert!(as_stored, "{}: {} is {measured}", acceptance.file, row.statistic);
            }
        }
        assert_eq!(acceptance.writes, count_writes(&path));
    }
}

fn count_writes(path: &std::path::Path) -> u64 {
    let trace = Trace::open(path, &TraceOptions::default()).expect("it opens");
    trace.filter(|row| row.as_ref().is_ok_and(|row| row.kind == workload::Kind::Write)).count() as u64
}

#[test]
fn an_elastic_generator_fits_its_device_and_finds_what_it_laid_out() {
    for synth in catalogue().iter().filter(|synth| synth.elastic()) {
        let least = synth.least_bytes();
        for bytes in [least, least + 4096, least * 5 / 4, 1 << 30, 4 << 30] {
            let laid: Vec<_> =
                synth.preparation(5, bytes).expect("it lays something out").take(200_000).collect();
            assert!(!laid.is_empty() && laid.iter().all(|r| r.end() <= bytes), "{} on {bytes}", synth.name);
            let requests: Vec<_> = synth.stream_on(20_000, 5, bytes).collect();
            assert_eq!(requests.len(), 20_000, "{} on {bytes}", synth.name);
            assert!(requests.iter().all(|r| r.end() <= bytes), "{} on {bytes}", synth.name);
        }
    }
    assert!(catalogue().iter().any(|synth| synth.elastic()));
}

/// By the requests alone: what F2FS's threads read was written before, and is not trimmed.
#[test]
fn threads_on_f2fs_read_what_was_written() {
    let bytes = 2 << 30;
    for synth in catalogue().iter().filter(|synth| synth.name.starts_with("f2fs-")) {
        let mut written = vec![false; (bytes / 4096) as usize];
        let laid = synth.preparation(9, bytes).expect("it lays something out");
        let mut trims = 0;
        for r in laid.chain(synth.stream_on(300_000, 9, bytes)) {
            let pages = (r.offset / 4096) as usize..(r.end() / 4096) as usize;
            match r.kind {
                Kind::Read => assert!(written[pages].iter().all(|&page| page), "{}: {r:?}", synth.name),
                Kind::Write => written[pages].fill(true),
                Kind::Trim => {
                    trims += 1;
                    written[pages].fill(false);
                }
                Kind::Flush => {}
            }
        }
        // Hardly a segment of a file that is overwritten at random becomes empty.
        assert!(trims > 0 || synth.name.starts_with("f2fs-file-"), "{}: {trims}", synth.name);
    }
}
