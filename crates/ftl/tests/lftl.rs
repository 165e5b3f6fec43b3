//! What LFTL promises beyond what every scheme does: groups over all dies, models of write streams, memory, recovery of models.
//! The conformance suite and the power-cut sweep of crate `check` go further.

use ftl::schemes::lftl::Lftl;
use ftl::{Config, Counters, Device, Flash, HostOp, Scheme, Seen};
use nand::timing::NoClock;
use nand::{Done, Geometry, Lpn, Nand, PageKind, Pbn, Ppn, SimNand, SimOptions};

type Array = SimNand<NoClock>;

const EXPORTED: u32 = 20_480;
const BUDGET: u64 = 14_000;

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
    SimNand::new(&nand::Device::tiny(geometry, EXPORTED), NoClock::new(), options)
}

struct World {
    flash: Flash<Array>,
    device: Device<Lftl>,
}

impl World {
    fn new(array: Array) -> World {
        let mut flash = Flash::new(array);
        let scheme = Lftl::open(&mut flash, &Config::new(EXPORTED, BUDGET)).expect("it fits");
        World { flash, device: Device::new(scheme, EXPORTED) }
    }

    fn ask(&mut self, op: HostOp, first: u32, pages: u32) {
        let mut wrong = None;
        let mut seen = |lpn: Lpn, seen: Seen| {
            if !matches!(seen, Seen::Written(_) | Seen::Read(Some(_))) {
                wrong = Some((lpn, seen));
            }
        };
        let outcome = self.device.request(&mut self.flash, op, Lpn(first), pages, Done::READY, &mut seen);
        assert!(outcome.is_ok_and(|outcome| outcome.failed == 0) && wrong.is_none(), "{wrong:?}");
        assert!(self.device.scheme().memory().bytes() <= BUDGET);
    }

    /// What the counters gain while every LPN is read at random.
    fn read_all(&mut self) -> Counters {
        self.flash.counters = Counters::default();
        for at in 0..EXPORTED {
            self.ask(HostOp::Read, at * 7919 % EXPORTED, 1);
        }
        self.device.scheme().check(&self.flash).expect("sound");
        self.flash.counters.clone()
    }

    fn pages(&self) -> Vec<(Lpn, Ppn)> {
        let mut pages = Vec::new();
        self.device.scheme().mapping(&self.flash, &mut |lpn, ppn| pages.push((lpn, ppn)));
        pages
    }
}

#[test]
fn a_stream_of_one_subspace_uses_every_die_in_turn() {
    let mut world = World::new(array(0, 0));
    (0..8).for_each(|turn| world.ask(HostOp::Write, turn * 128, 128));
    let pages = world.pages();
    let geometry = world.flash.nand().geometry().clone();
    let unit = |ppn: Ppn| geometry.unit_of(geometry.block_of(ppn).0);
    let in_turn = pages.windows(2).filter(|pair| unit(pair[1].1) == (unit(pair[0].1) + 1) % 4).count();
    assert!(in_turn >= pages.len() - 8, "{in_turn} of {} pages follow on the next die", pages.len());
}

#[test]
fn what_was_written_in_streams_is_read_once_from_little_memory() {
    let mut world = World::new(array(0, 0));
    // Three streams at once, each in a subspace of its own, and a random write now and then.
    for turn in 0..EXPORTED / 32 / 4 {
        for stream in 0..4 {
            world.ask(HostOp::Write, stream * (EXPORTED / 4) + turn * 32, 32);
        }
        world.ask(HostOp::Write, turn * 7919 % (turn * 32 + 1), 1);
    }
    let made = world.flash.counters.clone();
    assert!(made.regression_points > 10_000 && made.regression_iterations >= made.regressions);
    let share = made.regression_outliers as f64 / made.regression_points as f64;
    assert!(share < 0.1, "{share} of the mappings are outliers");
    let counters = world.read_all();
    let reads = counters.host_reads_by_flash_reads;
    assert_eq!(reads[0], 0);
    let once = reads[1] as f64 / f64::from(EXPORTED);
    assert!(
        once > 0.9,
        "{once} of the reads take one flash read; a table of 80,000 bytes for a budget of {BUDGET}"
    );
    assert!(counters.model_hits > u64::from(EXPORTED) * 8 / 10, "{}", counters.model_hits);
}

#[test]
fn random_writes_are_outliers_and_cost_reads_of_translation_pages() {
    let mut world = World::new(array(0, 0));
    (0..EXPORTED).for_each(|at| world.ask(HostOp::Write, at * 7919 % EXPORTED, 1));
    assert!(world.flash.counters.regression_outliers > u64::from(EXPORTED) * 8 / 10);
    let counters = world.read_all();
    assert!(counters.reads_of(PageKind::Translation) > u64::from(EXPORTED) / 2);
    let [.., three, more] = counters.host_reads_by_flash_reads;
    assert!(
        three + more < u64::from(EXPORTED) / 100,
        "more than two only where something had to be written back"
    );
}

#[test]
fn groups_skip_bad_blocks_and_blocks_that_go_bad() {
    let mut world = World::new(array(30_000, 200));
    let bad = |world: &World| {
        let blocks = world.flash.nand().geometry().blocks();
        (0..blocks).filter(|&block| world.flash.nand().is_bad(Pbn(block))).count()
    };
    let from_factory = bad(&world);
    for round in 0..4u32 {
        for turn in 0..EXPORTED / 32 {
            let at = if round % 2 == 0 { turn } else { turn * 389 % (EXPORTED / 32) };
            world.ask(HostOp::Write, at * 32, 32);
        }
    }
    assert!(from_factory > 0 && bad(&world) > from_factory, "{from_factory}, {}", bad(&world));
    let counters = world.read_all();
    assert!(counters.model_hits > u64::from(EXPORTED) / 2, "{} model hits", counters.model_hits);
}

#[test]
fn models_are_there_after_a_power_cut() {
    let mut world = World::new(array(10_000, 0));
    for round in 0..3u32 {
        (0..EXPORTED / 32).for_each(|turn| world.ask(HostOp::Write, turn * 32, 32));
        world.ask(HostOp::Trim, round * 32, 16);
    }
    (0..3).for_each(|round| world.ask(HostOp::Write, round * 32, 16));
    world.ask(HostOp::Flush, 0, 0);
    let before = world.pages();
    let mut world = World::new(world.flash.into_nand());
    assert_eq!(world.pages(), before);
    let counters = world.read_all();
    assert!(counters.model_hits > u64::from(EXPORTED) * 8 / 10, "{} model hits", counters.model_hits);
}

#[test]
fn a_budget_or_an_oob_area_that_is_too_small_is_refused() {
    let open =
        |config: &Config| Lftl::open(&mut Flash::new(array(0, 0)), config).expect_err("refused").to_string();
    assert!(open(&Config::new(EXPORTED, 2_000)).contains("a cache of 2000 bytes is too small"));
    let mut config = Config::new(EXPORTED, BUDGET);
    config.parameters.insert("log".to_owned(), "2".to_owned());
    assert!(open(&config).contains("log = '2'; a number from 0 to 1 is needed"));
}
