//! What LeaFTL promises beyond what every scheme does: the buffer, predictions and their price, memory.
//! The conformance suite and the power-cut sweep of crate `check` go further.

use ftl::schemes::leaftl::Leaftl;
use ftl::{Cause, Config, Device, HostOp, Seen};
use nand::timing::NoClock;
use nand::{Done, Geometry, Lpn, PageKind, SimNand, SimOptions};

type Array = SimNand<NoClock>;

/// 4 dies, superblocks of 256 pages of 4 KiB; groups of 256 LPNs, a buffer of 128 pages.
fn array(oob_bytes: u32) -> Array {
    let geometry = Geometry {
        channels: 2,
        luns_per_channel: 2,
        planes_per_lun: 1,
        blocks_per_plane: 60,
        pages_per_block: 64,
        page_bytes: 4096,
        oob_bytes,
    };
    SimNand::new(&nand::DeviceSpec::tiny(geometry, EXPORTED), NoClock::new(), SimOptions::default())
}

const EXPORTED: u32 = 10_000;
/// The directory of 40 groups, and four groups of the greatest size.
const LEAST: u64 = 41 * 10 + 4 * (2306 + 16);

fn config(bytes: u64, parameters: &[(&str, &str)]) -> Config {
    let mut config = Config::new(EXPORTED, bytes);
    config.parameters = parameters.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    config
}

type Live = Device<Leaftl, Array>;

fn open(config: &Config) -> Live {
    Device::open(array(64), config).expect("it fits")
}

fn ask(device: &mut Live, op: HostOp, first: u32, pages: u32) {
    let mut wrong = None;
    let mut seen = |lpn: Lpn, seen: Seen| {
        if !matches!(seen, Seen::Written(_) | Seen::Read(Some(_))) {
            wrong = Some((lpn, seen));
        }
    };
    let outcome = device.request(op, Lpn(first), pages, Done::READY, &mut seen);
    assert!(outcome.is_ok_and(|outcome| outcome.failed == 0) && wrong.is_none(), "{wrong:?}");
}

struct Random(u32);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((u64::from(self.0) * u64::from(bound)) >> 32) as u32
    }
}

fn fill(device: &mut Live) {
    ask(device, HostOp::Write, 0, EXPORTED);
}

/// Writes scattered pages of a few groups at a time, so that groups get several pages of a buffer.
fn scatter(device: &mut Live, count: u32) {
    let mut random = Random(1);
    for turn in 0..count {
        let hot = (turn / 512 * 1024) % (EXPORTED - 1024);
        ask(device, HostOp::Write, hot + random.below(1024), 1);
    }
}

#[test]
fn single_double_and_triple_reads_are_the_operations_at_the_door() {
    let mut device = open(&config(LEAST, &[]));
    fill(&mut device);
    scatter(&mut device, 20_000);
    ask(&mut device, HostOp::Flush, 0, 0);
    let before = device.counters().clone();
    let mut random = Random(2);
    for _ in 0..20_000 {
        ask(&mut device, HostOp::Read, random.below(EXPORTED), 1);
    }
    let counters = device.counters();
    let shares: [u64; 5] =
        std::array::from_fn(|n| counters.host_reads_by_flash_reads[n] - before.host_reads_by_flash_reads[n]);
    assert_eq!(shares.iter().sum::<u64>(), 20_000);
    assert!(shares[0] == 0 && shares[1] > 0 && shares[2] > 0 && shares[3] > 0, "{shares:?}");
    let by = |cause: Cause, kind: PageKind| {
        counters.reads[cause as usize][kind as usize] - before.reads[cause as usize][kind as usize]
    };
    let data = by(Cause::Host, PageKind::Data);
    let mispredicted = by(Cause::Misprediction, PageKind::Data);
    assert_eq!(data, 20_000, "each read delivers one page");
    assert!(mispredicted > 0);
    // Loads are on the way of a read; what write-backs of evicted groups read is, too.
    let translation = by(Cause::Translation, PageKind::Translation);
    let on_the_way: u64 = (0..).zip(shares).map(|(n, count): (u64, u64)| n * count).sum();
    if shares[4] == 0 {
        assert_eq!(on_the_way, data + mispredicted + translation);
    }
    assert!(counters.model_hits - before.model_hits <= shares[1]);
    assert_eq!(device.check(), Ok(()));
}

#[test]
fn without_an_error_bound_nothing_is_mispredicted() {
    let mut device = open(&config(64 << 10, &[("gamma", "0")]));
    fill(&mut device);
    scatter(&mut device, 5_000);
    for lpn in 0..EXPORTED {
        ask(&mut device, HostOp::Read, lpn, 1);
    }
    assert_eq!(device.counters().reads_by(Cause::Misprediction), 0);
    assert_eq!(device.counters().host_reads_by_flash_reads[3], 0);
}

/// Controller time of reading every page once in requests of `pages`, after a fill, and after scattered
/// writes that lie above it.
fn reading(level_ns: &str, pages: u32) -> [u64; 2] {
    let mut device = open(&config(1 << 20, &[("level_ns", level_ns)]));
    let read = |device: &mut Live| {
        ask(device, HostOp::Flush, 0, 1);
        let before = device.counters().compute_ns;
        let firsts = (0..EXPORTED).step_by(pages as usize);
        firsts.for_each(|lpn| ask(device, HostOp::Read, lpn, pages.min(EXPORTED - lpn)));
        device.counters().compute_ns - before
    };
    fill(&mut device);
    let filled = read(&mut device);
    scatter(&mut device, 20_000);
    [filled, read(&mut device)]
}

#[test]
fn a_lookup_takes_longer_the_more_levels_it_searches() {
    let one = u64::from(EXPORTED) * 650;
    let [filled, scattered] = reading("0", 1);
    assert_eq!((filled, scattered), (one, one));
    let [filled, scattered] = reading("500", 1);
    assert_eq!(filled, one, "what is written in sequence lies on one level");
    assert!(scattered > one + u64::from(EXPORTED) * 500, "{scattered}: two levels and more on average");
}

#[test]
fn the_further_pages_that_a_segment_predicts_take_a_step_each() {
    let [filled, scattered] = reading("0", 64);
    let (pages, requests) = (u64::from(EXPORTED), u64::from(EXPORTED.div_ceil(64)));
    assert_eq!(filled, requests * 650 + (pages - requests) * 16, "a segment holds all pages of a request");
    assert!(scattered > 2 * filled, "{scattered}: many segments a request");
}

#[test]
fn a_buffered_page_is_read_without_flash_and_written_once() {
    let mut device = open(&config(64 << 10, &[]));
    device.take_counters();
    for _ in 0..100 {
        ask(&mut device, HostOp::Write, 7, 1);
    }
    ask(&mut device, HostOp::Read, 7, 1);
    assert_eq!((device.counters().all_programs(), device.counters().all_reads()), (0, 0));
    ask(&mut device, HostOp::Flush, 0, 0);
    assert_eq!(device.counters().all_programs(), 1);
    ask(&mut device, HostOp::Read, 7, 1);
    assert_eq!(device.counters().reads_by(Cause::Host), 1);
}

#[test]
fn a_buffer_that_is_full_is_sorted() {
    let mut device = open(&config(64 << 10, &[]));
    for lpn in (0..128).rev() {
        ask(&mut device, HostOp::Write, lpn, 1);
    }
    ask(&mut device, HostOp::Write, 500, 1);
    let mut pages = Vec::new();
    device.mapping(&mut |lpn, ppn| pages.push((lpn.0, ppn.0)));
    assert_eq!(pages, (0..128).zip(pages[0].1..).collect::<Vec<_>>(), "ascending, over all dies");
    let segments = device.memory().parts.iter().find(|part| part.0 == "segments").map(|part| part.1);
    assert_eq!(segments, Some(10), "one level of one segment");
}

#[test]
fn memory_stays_within_the_budget() {
    for bytes in [LEAST, 2 * LEAST] {
        let mut device = open(&config(bytes, &[]));
        fill(&mut device);
        let mut random = Random(3);
        for _ in 0..20_000 {
            ask(&mut device, HostOp::Write, random.below(EXPORTED), 1);
            let used = device.memory().bytes();
            assert!(used <= bytes, "{used} of {bytes} bytes: {:?}", device.memory());
        }
        assert!(device.counters().replaced > 0 && device.counters().collections_data > 0);
    }
}

#[test]
fn collection_moves_sorted_pages_and_learns_them() {
    let mut device = open(&config(64 << 10, &[]));
    fill(&mut device);
    let mut random = Random(4);
    for _ in 0..30_000 {
        ask(&mut device, HostOp::Write, random.below(EXPORTED), 1);
    }
    let counters = device.counters();
    assert!(counters.moved_data > 0);
    assert_eq!(counters.programs[Cause::Collection as usize][0], counters.moved_data);
    assert!(counters.reads[Cause::Collection as usize][0] >= counters.moved_data);
    assert_eq!(device.check(), Ok(()));
}

#[test]
fn what_cannot_be_is_refused_in_one_sentence() {
    let refused = |oob: u32, config: &Config| {
        let error = Live::open(array(oob), config).map(|_| ()).expect_err("refused");
        error.to_string()
    };
    assert_eq!(
        refused(16, &config(1 << 20, &[])),
        "scheme leaftl: gamma = 4 needs 23 bytes of OOB a page, and this array has 16 bytes"
    );
    assert!(
        refused(64, &config(1 << 20, &[("gamma", "65")])).contains("a whole number from 0 to 64 is needed")
    );
    assert!(refused(64, &config(1 << 20, &[("overwritten", "x")])).contains("top or all is needed"));
    for name in ["buffer", "compaction"] {
        assert!(refused(64, &config(1 << 20, &[(name, "0")])).contains("a whole number from 1 to"), "{name}");
    }
    assert!(refused(64, &config(LEAST - 1, &[])).contains("is too small"));
}

#[test]
fn a_page_to_or_from_the_buffer_takes_the_hosts_link() {
    // 4,096 bytes at 2,320 MB/s.
    for (parameters, page_ns) in
        [(&[][..], 1_765), (&[("link_mb_s", "1000")][..], 4_096), (&[("link_mb_s", "0")][..], 0)]
    {
        let mut device = open(&config(1 << 20, parameters));
        ask(&mut device, HostOp::Write, 7, 10);
        assert_eq!(device.counters().compute_ns, 10 * page_ns, "written, {parameters:?}");
        ask(&mut device, HostOp::Write, 7, 10);
        ask(&mut device, HostOp::Read, 7, 3);
        assert_eq!(device.counters().compute_ns, 23 * page_ns, "written again, and read, {parameters:?}");
        assert_eq!(device.counters().programs_of(PageKind::Data), 0);
    }
}
