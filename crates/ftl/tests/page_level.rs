//! Rules of a page-level FTL that hold whatever the mapping: room, counting, order of collection, recovery.
//! The conformance suite and the power-cut sweep of crate `check` go further; these say what is meant.

use ftl::schemes::{dftl::Dftl, page::PageMap};
use ftl::{Cause, Config, Device, Flash, HostError, HostOp, OpenError, Scheme, Seen, VictimPolicy};
use nand::timing::{NoClock, Policy, Queued, Timing};
use nand::{Done, Geometry, Lpn, Nand, PageKind, Ppn, SimNand, SimOptions};

type Array = SimNand<NoClock>;

/// 4 dies x 40 blocks x 8 pages of 512 bytes: superblocks of 32 pages, translation pages of 128 entries.
fn array() -> Array {
    let geometry = Geometry {
        channels: 2,
        luns_per_channel: 2,
        planes_per_lun: 1,
        blocks_per_plane: 40,
        pages_per_block: 8,
        page_bytes: 512,
        oob_bytes: 16,
    };
    SimNand::new(&nand::DeviceSpec::tiny(geometry, 900), NoClock::new(), SimOptions::default())
}

fn open<S: Scheme>(config: &Config) -> Result<Device<S, Array>, OpenError> {
    Device::open(array(), config)
}

fn ask<S: Scheme>(device: &mut Device<S, Array>, op: HostOp, first: u32, pages: u32) -> Vec<Seen> {
    let mut all = Vec::new();
    let request = device.request(op, Lpn(first), pages, Done::READY, &mut |_, seen| all.push(seen));
    assert!(request.is_ok_and(|outcome| outcome.failed == 0));
    all
}

#[test]
fn a_request_outside_the_device_is_refused_in_one_sentence() {
    let mut device = open::<PageMap>(&Config::new(800, 4096)).expect("room");
    let outside = device.request(HostOp::Read, Lpn(795), 6, Done::READY, &mut |_, _| {});
    let error = outside.expect_err("it is outside");
    assert!(matches!(error, HostError::Outside { first: 795, end: 801, exported: 800 }));
    assert_eq!(error.to_string(), "request for pages 795..801 is outside the device, which has 800 pages");
}

#[test]
fn configurations_without_room_are_refused_in_one_sentence() {
    let refused = |config: Config| open::<Dftl>(&config).map(|_| ()).expect_err("refused").to_string();
    let full = refused(Config::new(40 * 32, 4096));
    assert!(full.starts_with("over-provisioning: 1280 pages are exported"), "{full}");
    assert!(full.contains("export from 1 to"), "{full}");
    let small = refused(Config::new(800, 60));
    assert!(small.starts_with("scheme dftl: a cache of 60 bytes is too small; give at least"), "{small}");
    let mut config = Config::new(800, 4096);
    config.foreground_superblocks = 1;
    assert!(refused(config).starts_with("collection thresholds: foreground 1"));
    let mut config = Config::new(800, 4096);
    config.parameters.insert("protectd".to_owned(), "5".to_owned());
    assert_eq!(
        refused(config),
        "scheme dftl: no parameter 'protectd'; its parameters: protected, program_buffer"
    );
}

#[test]
fn everything_is_rewritten_once_in_a_period_however_much_idle_time_there_is() {
    let mut device = open::<PageMap>(&Config::new(800, 4096)).expect("room");
    (0..800).for_each(|lpn| drop(ask(&mut device, HostOp::Write, lpn, 1)));
    let (pages, units) = (4 * 40 * 8, 4);
    for _ in 0..3 * pages / units {
        device.rewrite(units).expect("room");
        while device.idle().expect("room").is_some() {}
    }
    let c = device.counters();
    assert_eq!(c.rewrites, 3 * 40, "superblocks in three periods");
    let copied = c.programs_by(Cause::Rewrite);
    assert!((3 * 800..5 * 800).contains(&copied), "{copied}");
}

#[test]
fn the_ideal_map_makes_no_mapping_traffic_and_one_read_a_page() {
    let mut device = open::<PageMap>(&Config::new(800, 4096)).expect("room");
    device.take_counters();
    for step in 0..4000u32 {
        ask(&mut device, HostOp::Write, (step.wrapping_mul(2_654_435_761) >> 8) % 800, 1);
    }
    for lpn in 0..800 {
        ask(&mut device, HostOp::Write, lpn, 1);
    }
    ask(&mut device, HostOp::Read, 0, 800);
    let c = device.counters();
    assert_eq!((c.programs_of(PageKind::Translation), c.reads_of(PageKind::Translation)), (0, 0));
    assert_eq!(c.host_reads_by_flash_reads, [0, 800, 0, 0, 0]);
    assert_eq!((c.host_writes, c.programs_by(Cause::Host)), (4800, 4800));
    assert_eq!(c.programs_by(Cause::Collection), c.moved_data, "what collection programs is what it moves");
    assert!(c.collections_data > 50 && c.moved_data > 0);
}

#[test]
fn a_miss_reads_once_and_a_dirty_victim_costs_a_read_and_a_program_more() {
    // Room for eight entries beside the directory of seven translation pages.
    let mut device = open::<Dftl>(&Config::new(800, 7 * 4 + 8 * 8)).expect("room");
    ask(&mut device, HostOp::Write, 0, 800);
    ask(&mut device, HostOp::Read, 0, 8);
    device.take_counters();
    ask(&mut device, HostOp::Read, 100, 1);
    assert_eq!(
        device.counters().host_reads_by_flash_reads,
        [0, 0, 1, 0, 0],
        "a clean victim: load, then data"
    );
    assert_eq!((device.counters().replaced, device.counters().replaced_dirty), (1, 0));
    ask(&mut device, HostOp::Read, 100, 1);
    assert_eq!(device.counters().host_reads_by_flash_reads, [0, 1, 1, 0, 0], "now it is cached");
    // Dirty entries of two translation pages in turn.
    for lpn in [200, 500, 201, 501, 202, 502, 203, 503, 204, 504] {
        ask(&mut device, HostOp::Write, lpn, 1);
    }
    device.take_counters();
    ask(&mut device, HostOp::Read, 300, 1);
    let c = device.counters();
    assert_eq!((c.replaced, c.replaced_dirty), (1, 1));
    assert_eq!(c.host_reads_by_flash_reads, [0, 0, 0, 1, 0], "write-back reads, load reads, data");
    assert_eq!(c.flash_reads_waited_for, 3);
    assert_eq!(c.programs_by(Cause::Translation), 1);
}

#[test]
fn a_program_buffer_saves_reads_and_is_paid_for() {
    let config = |bytes, given: &[(&str, &str)]| {
        let mut config = Config::new(800, bytes);
        let given = given.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        config.parameters.extend(given);
        config
    };
    let (directory, page, entries) = (7 * 4, 512, 8 * 8);
    for (buffer, bytes, reads) in [
        ("0", directory + entries, 8),
        ("auto", directory + entries, 8),
        ("1", directory + page + entries, 0),
    ] {
        let mut device = open::<Dftl>(&config(bytes, &[("program_buffer", buffer)])).expect("room");
        ask(&mut device, HostOp::Write, 0, 128);
        assert_eq!(device.memory().bytes(), bytes, "{buffer}: eight entries, and every byte is counted");
        device.take_counters();
        ask(&mut device, HostOp::Write, 128, 8);
        let c = device.counters();
        assert_eq!((c.replaced_dirty, c.programs_by(Cause::Translation)), (8, 8));
        // Eight entries of the same translation page, one after the other.
        assert_eq!(c.reads_by(Cause::Translation), reads, "{buffer}");
    }
    // It is there by itself from 16 flash pages on.
    for (bytes, has) in [(16 * page - 1, false), (16 * page, true)] {
        let device = open::<Dftl>(&config(bytes, &[])).expect("room");
        let parts = device.memory().parts;
        assert_eq!(parts.contains(&("program buffer", page)), has, "{bytes} bytes");
    }
    let refused = |config: &Config| open::<Dftl>(config).map(drop).expect_err("refused").to_string();
    let small = refused(&config(directory + entries, &[("program_buffer", "1")]));
    assert!(small.contains("the directory and the program buffer take 540"), "{small}");
    let wrong = refused(&config(1 << 20, &[("program_buffer", "yes")]));
    assert!(wrong.ends_with("auto, 0 or 1 is needed"), "{wrong}");
}

#[test]
fn both_victim_policies_live_with_a_hot_tenth() {
    for victims in [VictimPolicy::Greedy, VictimPolicy::CostBenefit] {
        let config = Config { victims, ..Config::new(800, 4096) };
        let mut device = open::<PageMap>(&config).expect("room");
        ask(&mut device, HostOp::Write, 0, 800);
        device.take_counters();
        // Nine of ten writes go to a tenth of the pages.
        for step in 0..20_000u32 {
            let dice = step.wrapping_mul(2_654_435_761) >> 8;
            let lpn = if dice % 10 > 0 { dice / 10 % 80 } else { 80 + dice / 10 % 720 };
            ask(&mut device, HostOp::Write, lpn, 1);
        }
        assert_eq!(device.check(), Ok(()));
        let amplification = device.counters().write_amplification();
        assert!(amplification.is_some_and(|a| a > 1.0 && a < 4.0), "{victims:?}: {amplification:?}");
    }
}

#[test]
fn what_was_trimmed_reads_as_nothing_and_frees_its_pages() {
    let mut device = open::<Dftl>(&Config::new(800, 512)).expect("room");
    ask(&mut device, HostOp::Write, 0, 800);
    assert_eq!(device.flash().valid_pages(), 800);
    ask(&mut device, HostOp::Trim, 100, 500);
    ask(&mut device, HostOp::Trim, 3, 2);
    assert_eq!(device.flash().valid_pages(), 298);
    let seen = ask(&mut device, HostOp::Read, 100, 500);
    assert!(seen.iter().all(|seen| *seen == Seen::Read(None)));
    assert_eq!(device.counters().host_trims, 502);
    assert_eq!(device.check(), Ok(()));
}

#[test]
fn an_orderly_power_off_spares_the_search() {
    let config = Config::new(800, 512);
    let recovery_reads = |orderly: bool| {
        let mut device = open::<Dftl>(&config).expect("room");
        ask(&mut device, HostOp::Write, 0, 800);
        if orderly {
            assert!(device.power_off().is_ok());
        }
        let mut device: Device<Dftl, _> = Device::open(device.into_nand(), &config).expect("recovery");
        let reads = device.counters().reads_by(Cause::Recovery);
        let found = ask(&mut device, HostOp::Read, 0, 800);
        for (version, seen) in (1..).zip(found) {
            assert!(matches!(seen, Seen::Read(Some(oob)) if oob.version == version));
        }
        reads
    };
    let blocks = u64::from(array().geometry().blocks());
    let (orderly, cut) = (recovery_reads(true), recovery_reads(false));
    assert!(cut >= blocks + 800, "after a cut every page is looked at: {cut}");
    assert!(orderly < blocks + 100, "after a checkpoint little more than a page a block: {orderly}");
}

#[test]
fn the_ideal_map_trims_without_looking_anything_up() {
    let mut device = open::<PageMap>(&Config::new(800, 4096)).expect("room");
    ask(&mut device, HostOp::Write, 0, 40);
    let before = device.counters().lookups;
    for pages in [1, 8, 20] {
        ask(&mut device, HostOp::Trim, 3, pages);
    }
    assert_eq!(device.counters().lookups, before);
    assert_eq!(device.flash().space.valid_pages(PageKind::Data), 20);
}

#[test]
fn recovery_never_has_a_whole_large_array_in_flight() {
    let geometry = Geometry { blocks_per_plane: 8192, ..array().geometry().clone() };
    let device = nand::DeviceSpec::tiny(geometry, 900);
    let (pages, dies) = (device.geometry.pages(), device.geometry.dies());
    let clock = Queued::new(device.times(), Policy::Fcfs, dies, 2, device.geometry.blocks());
    let mut flash = Flash::new(SimNand::new(&device, clock, SimOptions::default()));
    for ppn in (0..pages).map(Ppn) {
        assert!(flash.scan(ppn, Cause::Recovery, Done::READY).is_ok());
    }
    let over = flash.nand_mut().timing().now() / device.times().read_ns * u64::from(dies);
    assert!(
        over >= u64::from(pages) / 2,
        "of {pages} reads {over} are over before the last one is asked for"
    );
}
