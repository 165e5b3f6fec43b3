use super::*;
use crate::{Device, HostOp, Scheme, Seen};
use nand::timing::NoClock;
use nand::{Device as Preset, Oob, SimNand, SimOptions};

const EXPORTED: u32 = 1_024;

/// Four dies, superblocks of 64 pages, translation pages of 128 entries: GTD entries of 128 LPNs, one a group.
struct World {
    flash: Flash<SimNand<NoClock>>,
    device: Device<LearnedFtl>,
}

impl World {
    fn new(parameters: &[(&str, &str)]) -> World {
        let geometry = Geometry {
            channels: 2,
            luns_per_channel: 2,
            planes_per_lun: 1,
            blocks_per_plane: 48,
            pages_per_block: 16,
            page_bytes: 512,
            oob_bytes: 16,
        };
        let preset = Preset::tiny(geometry, EXPORTED);
        let mut flash = Flash::new(SimNand::new(&preset, NoClock::default(), SimOptions::default()));
        let mut config = Config::new(EXPORTED, 1_536);
        for (name, value) in parameters {
            config.parameters.insert((*name).to_owned(), (*value).to_owned());
        }
        let scheme = LearnedFtl::open(&mut flash, &config).unwrap();
        World { flash, device: Device::new(scheme, EXPORTED) }
    }

    fn request(&mut self, op: HostOp, lpn: u32, pages: u32) -> Vec<Option<Oob>> {
        let mut found = Vec::new();
        let seen = &mut |_, what| {
            if let Seen::Read(oob) = what {
                found.push(oob);
            }
        };
        self.device.request(&mut self.flash, op, Lpn(lpn), pages, Done::READY, seen).unwrap();
        found
    }

    fn write(&mut self, lpn: u32, pages: u32) {
        self.request(HostOp::Write, lpn, pages);
    }

    /// Reads every page, and returns how many were found by a model.
    fn model_hits(&mut self) -> u64 {
        let before = self.flash.counters.model_hits;
        for lpn in 0..EXPORTED {
            let oob = self.request(HostOp::Read, lpn, 1)[0].unwrap();
            assert_eq!(oob.id, lpn);
        }
        self.device.scheme().check(&self.flash).unwrap();
        self.flash.counters.model_hits - before
    }
}

fn fill(world: &mut World) {
    (0..EXPORTED).step_by(32).for_each(|lpn| world.write(lpn, 32));
}

#[test]
fn what_is_written_in_sequence_is_read_once() {
    let mut world = World::new(&[]);
    fill(&mut world);
    let hits = world.model_hits();
    assert!(hits > u64::from(EXPORTED) * 9 / 10, "{hits} of {EXPORTED}");
    let mut without = World::new(&[("techniques", "xb")]);
    fill(&mut without);
    assert_eq!(without.model_hits(), 0);
}

#[test]
fn an_overwritten_page_is_not_predicted_until_its_group_is_collected() {
    let mut world = World::new(&[]);
    fill(&mut world);
    // Backwards, so that nothing is a sequence.
    (0..EXPORTED).rev().step_by(5).for_each(|lpn| world.write(lpn, 1));
    let hits = world.model_hits();
    assert!((600..=820).contains(&hits), "{hits} of {EXPORTED}");
    for stride in [3, 7, 2] {
        (0..EXPORTED).rev().step_by(stride).for_each(|lpn| world.write(lpn, 1));
    }
    assert!(world.flash.counters.collections_group > 4);
    assert!(world.flash.counters.reads_by(Cause::Training) > 0);
    let hits = world.model_hits();
    assert!(hits > u64::from(EXPORTED) / 2, "{hits} of {EXPORTED}");
}

#[test]
fn rewriting_teaches_the_models_what_nobody_writes() {
    let mut world = World::new(&[]);
    // A stride prime to the size: every page, none next to the one before.
    (0..EXPORTED).for_each(|step| world.write(step * 389 % EXPORTED, 1));
    let hits = world.model_hits();
    assert!(hits < u64::from(EXPORTED) / 4, "{hits} of {EXPORTED}");
    for _ in 0..2 * EXPORTED {
        world.device.scheme_mut().rewrite(&mut world.flash).unwrap();
    }
    assert!(world.flash.counters.programs_by(Cause::Rewrite) >= u64::from(EXPORTED));
    let hits = world.model_hits();
    assert!(hits > u64::from(EXPORTED) * 9 / 10, "{hits} of {EXPORTED}");
}

#[test]
fn trimmed_pages_are_not_predicted() {
    let mut world = World::new(&[]);
    fill(&mut world);
    for (lpn, pages) in [(3, 2), (130, 100)] {
        world.request(HostOp::Trim, lpn, pages);
        assert_eq!(world.request(HostOp::Read, lpn, pages), vec![None; pages as usize]);
    }
    world.device.scheme().check(&world.flash).unwrap();
}

#[test]
fn without_the_filter_a_wrong_prediction_costs_a_read() {
    let mut world = World::new(&[("techniques", "igx")]);
    fill(&mut world);
    for stride in [5, 3, 7, 2, 3, 4, 7, 5, 2, 6, 3, 9, 4, 5] {
        (0..EXPORTED).rev().step_by(stride).for_each(|lpn| world.write(lpn, 1));
    }
    world.flash.counters = Default::default();
    let hits = world.model_hits();
    let counters = &world.flash.counters;
    let missed = counters.reads_by(Cause::Misprediction);
    assert!(hits > 200 && missed > 0, "{hits} hits, {missed} misses");
    let reads = counters.host_reads_by_flash_reads;
    assert_eq!(reads.iter().sum::<u64>(), u64::from(EXPORTED));
    assert!(reads[3] > 0, "misprediction, translation page, page: {reads:?}");
}

/// Takes the array away from the scheme and gives it to a new one. Returns the controller's time for that.
fn reopen(world: World) -> (World, u64) {
    let mut flash = Flash::new(world.flash.into_nand());
    let scheme = LearnedFtl::open(&mut flash, &Config::new(EXPORTED, 1_536)).unwrap();
    let ns = flash.counters.compute_ns;
    (World { flash, device: Device::new(scheme, EXPORTED) }, ns)
}

#[test]
fn models_are_kept_over_an_orderly_power_off_and_trained_again_after_a_cut() {
    let mut world = World::new(&[]);
    fill(&mut world);
    (0..EXPORTED).rev().step_by(5).for_each(|lpn| world.write(lpn, 1));
    let trained = |world: &World| world.device.scheme().mapping_structure().models.trained();
    let before = trained(&world);
    world.device.scheme_mut().power_off(&mut world.flash).unwrap();
    let (mut world, ns) = reopen(world);
    assert_eq!((trained(&world), ns), (before, 0));
    world.device.scheme().check(&world.flash).unwrap();
    world.write(0, 64);
    let (mut world, ns) = reopen(world);
    assert!(ns > 0 && trained(&world) >= before / 2, "{} of {before} in {ns} ns", trained(&world));
    assert!(world.model_hits() > 0);
}

/// A canary: the bit of an overwritten page is left set.
#[test]
#[should_panic(expected = "the mapping led from LPN")]
fn a_stale_bit_is_caught_by_the_read_that_follows_it() {
    let mut world = World::new(&[]);
    fill(&mut world);
    let stale = world.device.scheme().mapping_structure().models.clone();
    // Twice, so that the old page's block is collected and holds something else.
    for _ in 0..40 {
        (0..EXPORTED).rev().for_each(|lpn| world.write(lpn, 1));
    }
    world.device.scheme_mut().mapping_structure_mut().models = stale;
    for lpn in 0..EXPORTED {
        world.request(HostOp::Read, (lpn + 40) % EXPORTED, 1);
    }
}

/// The same, caught by the check that every run ends with.
#[test]
fn a_stale_bit_is_caught_by_the_check() {
    let mut world = World::new(&[]);
    fill(&mut world);
    let stale = world.device.scheme().mapping_structure().models.clone();
    world.write(40, 1);
    world.device.scheme_mut().mapping_structure_mut().models = stale;
    let breach = world.device.scheme().check(&world.flash).unwrap_err();
    assert!(breach.starts_with("the bit of LPN 40 is set"), "{breach}");
}

#[test]
fn without_cross_group_allocation_every_group_needs_its_own_room() {
    let preset = Preset::named("femu-32g").unwrap();
    let mut flash = Flash::new(SimNand::new(&preset, NoClock::default(), SimOptions::default()));
    let mut config = Config::new(7 << 20, 8 << 20);
    config.parameters.insert("techniques".to_owned(), "igb".to_owned());
    let error = LearnedFtl::open(&mut flash, &config).unwrap_err().to_string();
    assert!(error.contains("without cross-group allocation each of the 224 groups"), "{error}");
}
