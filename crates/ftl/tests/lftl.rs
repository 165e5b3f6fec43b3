//! What LFTL promises beyond what every scheme does: groups over all dies, models of write streams, memory,
//! recovery of models. The conformance suite and the power-cut sweep of crate `check` go further.

use ftl::schemes::lftl::Lftl;
use ftl::schemes::page::PageMap;
use ftl::{Cause, Config, Counters, Device, HostOp, Scheme, Seen};
use nand::timing::NoClock;
use nand::{Done, Geometry, Lpn, Nand, PageKind, Pbn, Ppn, SimNand, SimOptions};
use std::collections::{BTreeMap, BTreeSet};

type Array = SimNand<NoClock>;

const EXPORTED: u32 = 20_480;
const BUDGET: u64 = 22_000;

/// 4 dies, superblocks of 256 pages of 4 KiB, chunks of 512 LPNs, subspaces of 4,096.
fn array(bad_ppm: u32, fail_ppm: u32) -> Array {
    let geometry = Geometry {
        channels: 2,
        luns_per_channel: 2,
        planes_per_lun: 1,
        blocks_per_plane: 120,
        pages_per_block: 64,
        page_bytes: 4096,
        oob_bytes: 64,
    };
    let options =
        SimOptions { factory_bad_ppm: Some(bad_ppm), program_fail_ppm: fail_ppm, ..SimOptions::default() };
    SimNand::new(&nand::DeviceSpec::tiny(geometry, EXPORTED), NoClock::new(), options)
}

struct Bed(Device<Lftl, Array>);

impl Bed {
    fn new(array: Array) -> Bed {
        Bed(Device::open(array, &Config::new(EXPORTED, BUDGET)).expect("it fits"))
    }

    fn ask(&mut self, op: HostOp, first: u32, pages: u32) {
        let mut wrong = None;
        let mut seen = |lpn: Lpn, seen: Seen| {
            if !matches!(seen, Seen::Written(_) | Seen::Read(Some(_))) {
                wrong = Some((lpn, seen));
            }
        };
        let outcome = self.0.request(op, Lpn(first), pages, Done::READY, &mut seen);
        assert!(outcome.is_ok_and(|outcome| outcome.failed == 0) && wrong.is_none(), "{wrong:?}");
        assert!(self.0.memory().bytes() <= BUDGET);
    }

    /// What the counters gain while every LPN is read at random.
    fn read_all(&mut self) -> Counters {
        self.0.take_counters();
        for at in 0..EXPORTED {
            self.ask(HostOp::Read, at * 7919 % EXPORTED, 1);
        }
        self.0.check().expect("sound");
        self.0.counters().clone()
    }

    fn pages(&self) -> Vec<(Lpn, Ppn)> {
        let mut pages = Vec::new();
        self.0.mapping(&mut |lpn, ppn| pages.push((lpn, ppn)));
        pages
    }
}

/// A statistic that the scheme declares, by name.
fn own(counters: &Counters, name: &str) -> u64 {
    counters.value(Lftl::INFO.stats.iter().find(|stat| stat.name == name).expect("it is declared"))
}

#[test]
fn a_stream_of_one_subspace_uses_every_die_in_turn() {
    let mut bed = Bed::new(array(0, 0));
    (0..8).for_each(|turn| bed.ask(HostOp::Write, turn * 128, 128));
    let pages = bed.pages();
    let geometry = bed.0.nand().geometry().clone();
    let unit = |ppn: Ppn| geometry.unit_of(geometry.block_of(ppn).0);
    let in_turn = pages.windows(2).filter(|pair| unit(pair[1].1) == (unit(pair[0].1) + 1) % 4).count();
    assert!(in_turn >= pages.len() - 8, "{in_turn} of {} pages follow on the next die", pages.len());
}

#[test]
fn what_was_written_in_streams_is_read_once_from_little_memory() {
    let mut bed = Bed::new(array(0, 0));
    // Three streams at once, each in a subspace of its own, and a random write now and then.
    for turn in 0..EXPORTED / 32 / 4 {
        for stream in 0..4 {
            bed.ask(HostOp::Write, stream * (EXPORTED / 4) + turn * 32, 32);
        }
        bed.ask(HostOp::Write, turn * 7919 % (turn * 32 + 1), 1);
    }
    let made = bed.0.counters().clone();
    let own = |name: &str| own(&made, name);
    assert!(own("regression_points") > 10_000 && own("regressions") > 0);
    assert_eq!(own("regression_iterations"), 0, "RANSAC alone has iterations");
    let share = own("regression_outliers") as f64 / own("regression_points") as f64;
    assert!(share < 0.1, "{share} of the mappings are outliers");
    let counters = bed.read_all();
    let reads = counters.host_reads_by_flash_reads;
    assert_eq!(reads[0], 0);
    let once = reads[1] as f64 / f64::from(EXPORTED);
    assert!(
        once > 0.9,
        "{once} of the reads take one flash read; a table of 80,000 bytes for a budget of {BUDGET}"
    );
    assert!(counters.model_hits > u64::from(EXPORTED) * 8 / 10, "{}", counters.model_hits);
    // A write needs no flash read either, where a model knows the page that it replaces.
    bed.0.take_counters();
    (0..100).for_each(|lpn| bed.ask(HostOp::Write, lpn, 1));
    let counters = bed.0.counters();
    let from_flash = counters.lookups - counters.hits();
    assert!(
        counters.model_updates > 50 && from_flash <= counters.reads_by(Cause::Translation),
        "{counters:?}"
    );
}

#[test]
fn streams_that_write_at_once_have_blocks_of_their_own() {
    let mut config = Config::new(EXPORTED, BUDGET);
    config.parameters.insert("subspace".to_owned(), "1024".to_owned());
    let mut bed = Bed(Device::open(array(0, 0), &config).expect("it fits"));
    for page in 0..1024 {
        (0..16).for_each(|stream| bed.ask(HostOp::Write, stream * 1024 + page, 1));
    }
    let mut streams: BTreeMap<Pbn, BTreeSet<u32>> = BTreeMap::new();
    let geometry = bed.0.nand().geometry().clone();
    for (lpn, ppn) in bed.pages() {
        streams.entry(geometry.block_of(ppn).0).or_default().insert(lpn.0 / 1024);
    }
    let single = streams.values().filter(|streams| streams.len() == 1).count();
    assert!(single * 10 > streams.len() * 7, "{single} of {} blocks hold one stream", streams.len());
    let superblocks: BTreeSet<u32> = streams.keys().map(|block| block.0 / geometry.units()).collect();
    assert!(superblocks.len() < 80, "16 streams of 4 superblocks each lie in {}", superblocks.len());
    let made = bed.0.counters();
    let share = own(made, "regression_outliers") as f64 / own(made, "regression_points") as f64;
    assert!(share < 0.1, "{share} of the mappings are outliers");
    bed.0.check().expect("sound");
}

/// Pages programmed for each page that the host writes, while 16 streams and random writes go on for several
/// volumes on a device that is nearly full. `streams` pages of ten belong to streams.
fn wear<S: Scheme + Clone + Send + 'static>(exported: u32, streams: u32, config: &Config) -> f64 {
    let mut device: Device<S, _> = Device::open(array(10_000, 0), config).expect("it fits");
    let mut write = |first: u32, pages: u32| {
        let outcome = device.request(HostOp::Write, Lpn(first), pages, Done::READY, &mut |_, _| {});
        assert!(outcome.is_ok_and(|outcome| outcome.failed == 0));
    };
    let subspace = exported / 16;
    let (mut next, mut random) = ([0; 16], 1u64);
    (0..exported).for_each(|lpn| write(lpn, 1));
    let mut written = 0;
    while written < 6 * exported {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let [of, kind, pages] = [40, 48, 56].map(|bit| (random >> bit) as u32 % 256);
        let pages = pages % 24 + 1;
        if kind % 10 < streams {
            let at = &mut next[of as usize % 16];
            let pages = pages.min(subspace - *at);
            write(of % 16 * subspace + *at, pages);
            *at = (*at + pages) % subspace;
        } else {
            write((random >> 16) as u32 % (exported - pages), pages);
        }
        written += pages;
    }
    device.check().expect("sound");
    device.counters().write_amplification().expect("it was written")
}

#[test]
fn full_lanes_are_collected_however_many_streams_there_are() {
    for (exported, streams) in [(24_576, 5), (24_576, 10), (26_000, 0), (26_000, 9)] {
        let mut config = Config::new(exported, 20_000);
        config.parameters.insert("subspace".to_owned(), "1024".to_owned());
        let lftl = wear::<Lftl>(exported, streams, &config);
        let page = wear::<PageMap>(exported, streams, &Config::new(exported, 1 << 20));
        assert!(
            lftl < page * 1.2,
            "{exported} pages, {streams} of ten in streams: {lftl} programs a page, the page map {page}"
        );
    }
}

#[test]
fn a_load_for_a_request_of_several_pages_is_a_miss() {
    let mut bed = Bed::new(array(0, 0));
    (0..EXPORTED).for_each(|lpn| bed.ask(HostOp::Write, lpn * 7919 % EXPORTED, 1));
    bed.read_all();
    for op in [HostOp::Read, HostOp::Write] {
        bed.0.take_counters();
        (0..500).for_each(|at| bed.ask(op, at * 7919 % (EXPORTED / 8) * 8, 8));
        let counters = bed.0.counters();
        let (misses, loads) = (counters.lookups - counters.hits(), counters.reads_by(Cause::Translation));
        assert!(misses > 400 && misses <= loads, "{op:?}: {misses} misses, {loads} translation pages read");
    }
}

#[test]
fn random_writes_are_outliers_and_cost_reads_of_translation_pages() {
    let mut bed = Bed::new(array(0, 0));
    (0..EXPORTED).for_each(|at| bed.ask(HostOp::Write, at * 7919 % EXPORTED, 1));
    assert!(own(bed.0.counters(), "regression_outliers") > u64::from(EXPORTED) * 8 / 10);
    let counters = bed.read_all();
    assert!(counters.reads_of(PageKind::Translation) > u64::from(EXPORTED) / 2);
    let [.., three, more] = counters.host_reads_by_flash_reads;
    assert!(
        three + more < u64::from(EXPORTED) / 100,
        "more than two only where something had to be written back"
    );
}

#[test]
fn loads_that_go_through_a_chunk_bring_its_outliers_along() {
    let mut bed = Bed::new(array(0, 0));
    bed.ask(HostOp::Write, 0, EXPORTED);
    (0..EXPORTED).for_each(|at| bed.ask(HostOp::Write, at * 7919 % EXPORTED, 1));
    // Every eighth page, as a file has them that was overwritten at random, in order and in none.
    let mut loads = |step: u32| {
        let before = bed.0.counters().reads_by(Cause::Translation);
        (0..EXPORTED / 8).for_each(|at| bed.ask(HostOp::Read, at * step % EXPORTED, 1));
        bed.0.counters().reads_by(Cause::Translation) - before
    };
    let (in_order, in_none) = (loads(8), loads(8 * 991));
    assert!(in_none > u64::from(EXPORTED) / 8 / 2, "{in_none} loads: memory holds few of them");
    assert!(in_order < in_none / 8, "{in_order} loads in order, {in_none} in none");
}

#[test]
fn what_a_request_will_miss_is_loaded_before_its_first_page() {
    let mut bed = Bed::new(array(0, 0));
    bed.ask(HostOp::Write, 0, EXPORTED);
    (0..EXPORTED).for_each(|at| bed.ask(HostOp::Write, at * 7919 % EXPORTED, 1));
    // Each has pages of two chunks, which half of the time lie in two translation pages.
    let requests = EXPORTED / 512 - 1;
    let before = bed.0.counters().clone();
    (0..requests).for_each(|at| bed.ask(HostOp::Read, at * 7 % requests * 512 + 448, 128));
    let counters = bed.0.counters();
    let loads = counters.reads_by(Cause::Translation) - before.reads_by(Cause::Translation);
    let [_, _, waited @ ..] = counters.host_reads_by_flash_reads;
    let [_, _, before @ ..] = before.host_reads_by_flash_reads;
    let waited = waited.iter().sum::<u64>() - before.iter().sum::<u64>();
    assert!(loads > u64::from(requests) * 5 / 4, "{loads} loads for {requests} requests");
    assert!(waited <= u64::from(requests), "{waited} pages were read behind a load, {loads} loads");
}

#[test]
fn idle_moments_write_back_what_would_soon_be_in_the_way() {
    let mut bed = Bed::new(array(0, 0));
    (0..EXPORTED / 32).for_each(|turn| bed.ask(HostOp::Write, turn * 32, 32));
    let random = |at: u32| at * 7919 % EXPORTED;
    (0..EXPORTED).for_each(|at| bed.ask(HostOp::Write, random(at), 1));
    let ask = |bed: &mut Bed, op: HostOp, lpn: u32| {
        let outcome = bed.0.request(op, Lpn(lpn), 1, Done::READY, &mut |_, _| {});
        assert!(outcome.is_ok_and(|outcome| outcome.failed == 0));
    };
    let (mut written_back, mut by_reads) = (0, 0);
    for burst in 0..32 {
        // A trim writes nothing back by itself.
        (0..40).for_each(|at| ask(&mut bed, HostOp::Trim, random(burst * 100 + at)));
        bed.0.take_counters();
        let before = bed.pages();
        let moments = (0..1000).take_while(|_| bed.0.idle().expect("no faults").is_some()).count();
        assert!(moments < 1000, "there is always something to do");
        written_back += bed.0.take_counters().programs_by(Cause::Translation);
        assert!(bed.pages() == before, "idle moments change nothing for the host");
        (0..200).for_each(|at| ask(&mut bed, HostOp::Read, random(burst * 300 + at * 3)));
        let counters = bed.0.take_counters();
        assert!(counters.reads_of(PageKind::Translation) > 50, "these reads hit");
        by_reads += counters.programs_by(Cause::Translation);
    }
    bed.0.check().expect("sound");
    assert!(written_back >= 16, "only {written_back} pages were written back in idle moments");
    assert!(by_reads == 0, "reads wrote {by_reads} pages back");
}

#[test]
fn groups_skip_bad_blocks_and_blocks_that_go_bad() {
    let mut bed = Bed::new(array(30_000, 200));
    let bad = |bed: &Bed| {
        let blocks = bed.0.nand().geometry().blocks();
        (0..blocks).filter(|&block| bed.0.nand().is_bad(Pbn(block))).count()
    };
    let from_factory = bad(&bed);
    for round in 0..4u32 {
        for turn in 0..EXPORTED / 32 {
            let at = if round % 2 == 0 { turn } else { turn * 389 % (EXPORTED / 32) };
            bed.ask(HostOp::Write, at * 32, 32);
        }
    }
    assert!(from_factory > 0 && bad(&bed) > from_factory, "{from_factory}, {}", bad(&bed));
    let counters = bed.read_all();
    assert!(counters.model_hits > u64::from(EXPORTED) / 2, "{} model hits", counters.model_hits);
}

#[test]
fn models_are_there_after_a_power_cut() {
    let mut bed = Bed::new(array(10_000, 0));
    for round in 0..3u32 {
        (0..EXPORTED / 32).for_each(|turn| bed.ask(HostOp::Write, turn * 32, 32));
        bed.ask(HostOp::Trim, round * 32, 16);
    }
    (0..3).for_each(|round| bed.ask(HostOp::Write, round * 32, 16));
    bed.ask(HostOp::Flush, 0, 0);
    let before = bed.pages();
    let mut bed = Bed::new(bed.0.into_nand());
    assert_eq!(bed.pages(), before);
    let counters = bed.read_all();
    assert!(counters.model_hits > u64::from(EXPORTED) * 8 / 10, "{} model hits", counters.model_hits);
}

/// A checkpoint of a device that was filled in sequence copies models, where a superblock holds whole chunks.
/// Packing them LPA by LPA takes the controller eight passes of 16 ns for each LPA.
#[test]
fn a_checkpoint_after_a_fill_is_little_work() {
    let geometry = Geometry { blocks_per_plane: 30, pages_per_block: 512, ..array(0, 0).geometry().clone() };
    let spec = nand::DeviceSpec::tiny(geometry, EXPORTED);
    let array = SimNand::new(&spec, NoClock::new(), SimOptions::default());
    let config = Config::new(EXPORTED, 16 * BUDGET);
    let mut device = Device::<Lftl, Array>::open(array, &config).expect("it fits");
    for turn in 0..EXPORTED / 128 {
        let written = device.request(HostOp::Write, Lpn(turn * 128), 128, Done::READY, &mut |_, _| {});
        assert!(written.is_ok_and(|outcome| outcome.failed == 0));
    }
    device.take_counters();
    device.power_off().expect("it is sound");
    device.check().expect("sound");
    let counters = device.take_counters();
    assert!(counters.programs_of(PageKind::Translation) > 0);
    let work = counters.compute_ns / u64::from(EXPORTED);
    assert!(work < 16, "{work} ns for each LPN");
}

#[test]
fn a_budget_or_an_oob_area_that_is_too_small_is_refused() {
    let open =
        |config: &Config| Device::<Lftl, _>::open(array(0, 0), config).expect_err("refused").to_string();
    assert!(open(&Config::new(EXPORTED, 2_000)).contains("a cache of 2000 bytes is too small"));
    let mut config = Config::new(EXPORTED, BUDGET);
    config.parameters.insert("log".to_owned(), "2".to_owned());
    assert!(open(&config).contains("log = '2'; a number from 0 to 1 is needed"));
    for (name, given, needed) in [
        ("subspace", "700", "a power of two is needed, such as 1024"),
        ("lanes", "3", "a power of two is needed, such as 4"),
        ("groups", "0.5", "a whole number from 0 to 48 is needed"),
    ] {
        let mut config = Config::new(EXPORTED, BUDGET);
        config.parameters.insert(name.to_owned(), given.to_owned());
        assert_eq!(open(&config), format!("scheme lftl: {name} = '{given}'; {needed}"));
    }
}

#[test]
fn the_least_memory_is_small_and_enough() {
    let refused = Device::<Lftl, _>::open(array(0, 0), &Config::new(EXPORTED, 2_000)).expect_err("refused");
    let refused = refused.to_string();
    let least = refused.split("give at least ").nth(1).and_then(|rest| rest.split(':').next());
    let least: u64 = least.and_then(|least| least.parse().ok()).expect("it says how much is needed");
    assert!(least < 10_000, "{least} bytes for {EXPORTED} pages");
    let mut device: Device<Lftl, _> =
        Device::open(array(10_000, 100), &Config::new(EXPORTED, least)).expect("it fits");
    let mut ask = |op: HostOp, first: u32, pages: u32| {
        let outcome = device.request(op, Lpn(first), pages, Done::READY, &mut |_, _| {});
        assert!(outcome.is_ok_and(|outcome| outcome.failed == 0));
    };
    for at in 0..EXPORTED {
        ask(HostOp::Write, at * 7919 % EXPORTED, 1);
    }
    for at in 0..EXPORTED / 4 {
        ask(HostOp::Write, at * 389 % (EXPORTED - 32), at % 32 + 1);
        ask(HostOp::Read, at * 7919 % (EXPORTED - 600), 600);
        ask(HostOp::Trim, at * 641 % (EXPORTED - 40), at % 40 + 1);
    }
    device.check().expect("sound");
    let buffers: u64 =
        device.memory().parts.iter().filter(|part| part.0.starts_with("buffers")).map(|part| part.1).sum();
    assert!(buffers > 8_000 && device.memory().bytes() <= least, "{:?}", device.memory().parts);
}
