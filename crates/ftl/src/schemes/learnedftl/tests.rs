use super::*;
use crate::Cause;
use crate::{Device, HostOp, Seen};
use nand::timing::NoClock;
use nand::{DeviceSpec, Geometry, Oob, SimNand, SimOptions};

const EXPORTED: u32 = 1_024;
const CACHE_BYTES: u64 = 2_048;

/// Four dies, superblocks of 64 pages, translation pages of 128 entries: GTD entries of 128 LPNs, one a
/// group.
struct Bed(Device<LearnedFtl, SimNand<NoClock>>);

impl Bed {
    fn new(parameters: &[(&str, &str)]) -> Bed {
        let geometry = Geometry {
            channels: 2,
            luns_per_channel: 2,
            planes_per_lun: 1,
            blocks_per_plane: 48,
            pages_per_block: 16,
            page_bytes: 512,
            oob_bytes: 16,
        };
        let preset = DeviceSpec::tiny(geometry, EXPORTED);
        let array = SimNand::new(&preset, NoClock::default(), SimOptions::default());
        let mut config = Config::new(EXPORTED, CACHE_BYTES);
        for (name, value) in parameters {
            config.parameters.insert((*name).to_owned(), (*value).to_owned());
        }
        Bed(Device::open(array, &config).unwrap())
    }

    /// Six dies, superblocks of 192 pages, and few of them, so that groups with blocks of their own write to
    /// half of all superblocks at once.
    fn of_few_superblocks(exported: u32) -> Bed {
        let geometry = Geometry {
            channels: 3,
            luns_per_channel: 2,
            planes_per_lun: 1,
            blocks_per_plane: 30,
            pages_per_block: 32,
            page_bytes: 512,
            oob_bytes: 64,
        };
        let preset = DeviceSpec::tiny(geometry, exported);
        let array = SimNand::new(&preset, NoClock::default(), SimOptions::default());
        let mut config = Config::new(exported, 8_192);
        (config.foreground_superblocks, config.background_superblocks) = (6, 7);
        for (name, value) in [GROUP, ("techniques", "x")] {
            config.parameters.insert(name.to_owned(), value.to_owned());
        }
        Bed(Device::open(array, &config).unwrap())
    }

    fn request(&mut self, op: HostOp, lpn: u32, pages: u32) -> Vec<Option<Oob>> {
        let mut found = Vec::new();
        let seen = &mut |_, what| {
            if let Seen::Read(oob) = what {
                found.push(oob);
            }
        };
        self.0.request(op, Lpn(lpn), pages, Done::READY, seen).unwrap();
        found
    }

    fn write(&mut self, lpn: u32, pages: u32) {
        self.request(HostOp::Write, lpn, pages);
    }

    /// Reads every page, and returns how many were found by a model.
    fn model_hits(&mut self) -> u64 {
        let before = self.0.counters().model_hits;
        for lpn in 0..EXPORTED {
            let oob = self.request(HostOp::Read, lpn, 1)[0].unwrap();
            assert_eq!(oob.id, lpn);
        }
        self.0.check().unwrap();
        self.0.counters().model_hits - before
    }
}

fn fill(bed: &mut Bed) {
    (0..EXPORTED).step_by(32).for_each(|lpn| bed.write(lpn, 32));
}

#[test]
fn what_is_written_in_sequence_is_read_once() {
    let mut bed = Bed::new(&[]);
    fill(&mut bed);
    let hits = bed.model_hits();
    assert!(hits > u64::from(EXPORTED) * 9 / 10, "{hits} of {EXPORTED}");
    let mut without = Bed::new(&[("techniques", "xb")]);
    fill(&mut without);
    assert_eq!(without.model_hits(), 0);
}

#[test]
fn an_overwritten_page_is_not_predicted_until_its_group_is_gathered() {
    let mut bed = Bed::new(&[("price", "0.5")]);
    fill(&mut bed);
    // Backwards, so that nothing is a sequence.
    (0..EXPORTED).rev().step_by(5).for_each(|lpn| bed.write(lpn, 1));
    let hits = bed.model_hits();
    assert!((600..=820).contains(&hits), "{hits} of {EXPORTED}");
    for stride in [3, 7, 2] {
        (0..EXPORTED).rev().step_by(stride).for_each(|lpn| bed.write(lpn, 1));
    }
    for _ in 0..6 {
        bed.model_hits();
    }
    assert!(bed.0.counters().collections_group > 4);
    assert!(bed.0.counters().reads_by(Cause::Training) > 0);
    let hits = bed.model_hits();
    assert!(hits > u64::from(EXPORTED) * 3 / 4, "{hits} of {EXPORTED}");
}

/// Bytes of the models, and of everything that memory holds.
fn memory(bed: &Bed) -> (u64, u64) {
    let parts = bed.0.memory().parts;
    let models = parts.iter().find(|(name, _)| *name == "models");
    (models.map_or(0, |&(_, bytes)| bytes), parts.iter().map(|(_, bytes)| bytes).sum())
}

#[test]
fn a_model_that_predicts_little_leaves_its_bytes_to_the_cache() {
    let mut bed = Bed::new(&[]);
    fill(&mut bed);
    bed.model_hits();
    let (all, _) = memory(&bed);
    assert_eq!(all, 8 * (3 + 48 + 2 + 16), "each of eight GTD entries has one");
    for round in 0..3 {
        // Each page of all GTD entries but one, then one in two at a time.
        (128..EXPORTED).rev().filter(|lpn| round == 0 || lpn % 2 == round - 1).for_each(|lpn| {
            bed.write(lpn, 1);
            assert!(memory(&bed).1 <= CACHE_BYTES);
        });
        bed.0.check().unwrap();
    }
    assert_eq!(memory(&bed).0, 8 * 3 + 48 + 2 + 16, "the one that nobody wrote to keeps its model");
    fill(&mut bed);
    assert_eq!(memory(&bed).0, all);
    let (mut bed, _) = reopen(bed);
    assert_eq!(memory(&bed).0, all, "recovery trains them again");
    bed.model_hits();
    assert!(memory(&bed).1 <= CACHE_BYTES);
}

#[test]
fn where_nothing_is_read_nothing_is_gathered() {
    let mut bed = Bed::new(&[]);
    fill(&mut bed);
    for stride in [3, 7, 2, 5, 9, 4, 3, 7, 2, 5, 9, 4] {
        (0..EXPORTED).rev().step_by(stride).for_each(|lpn| bed.write(lpn, 1));
    }
    assert_eq!(bed.0.counters().collections_group, 0);
    bed.0.check().unwrap();
}

#[test]
fn rewriting_teaches_the_models_what_nobody_writes() {
    let mut bed = Bed::new(&[]);
    // A stride prime to the size: every page, none next to the one before.
    (0..EXPORTED).for_each(|step| bed.write(step * 389 % EXPORTED, 1));
    let hits = bed.model_hits();
    assert!(hits < u64::from(EXPORTED) / 4, "{hits} of {EXPORTED}");
    for _ in 0..2 * EXPORTED {
        bed.0.rewrite(8).unwrap();
    }
    assert!(bed.0.counters().programs_by(Cause::Rewrite) >= u64::from(EXPORTED));
    let hits = bed.model_hits();
    assert!(hits > u64::from(EXPORTED) * 9 / 10, "{hits} of {EXPORTED}");
}

#[test]
fn trimmed_pages_are_not_predicted() {
    let mut bed = Bed::new(&[]);
    fill(&mut bed);
    for (lpn, pages) in [(3, 2), (130, 100)] {
        bed.request(HostOp::Trim, lpn, pages);
        assert_eq!(bed.request(HostOp::Read, lpn, pages), vec![None; pages as usize]);
    }
    bed.0.check().unwrap();
}

#[test]
fn without_the_filter_a_wrong_prediction_costs_a_read() {
    let mut bed = Bed::new(&[("techniques", "igx"), ("price", "0.2")]);
    fill(&mut bed);
    for stride in [5, 3, 7, 2, 3, 4, 7, 5] {
        (0..EXPORTED).rev().step_by(stride).for_each(|lpn| bed.write(lpn, 1));
        bed.model_hits();
    }
    bed.0.take_counters();
    let hits = bed.model_hits();
    let counters = bed.0.counters();
    let missed = counters.reads_by(Cause::Misprediction);
    assert!(hits > 200 && missed > 0, "{hits} hits, {missed} misses");
    let reads = counters.host_reads_by_flash_reads;
    assert_eq!(reads.iter().sum::<u64>(), u64::from(EXPORTED));
    assert!(reads[3] > 0, "misprediction, translation page, page: {reads:?}");
}

/// Takes the array away from the scheme and gives it to a new one. Returns the controller's time for that.
fn reopen(bed: Bed) -> (Bed, u64) {
    let device = Device::open(bed.0.into_nand(), &Config::new(EXPORTED, CACHE_BYTES)).unwrap();
    let ns = device.counters().compute_ns;
    (Bed(device), ns)
}

#[test]
fn models_are_kept_over_an_orderly_power_off_and_trained_again_after_a_cut() {
    let mut bed = Bed::new(&[]);
    fill(&mut bed);
    (0..EXPORTED).rev().step_by(5).for_each(|lpn| bed.write(lpn, 1));
    let trained = |bed: &Bed| bed.0.scheme().parts().mapping.models.trained();
    let before = trained(&bed);
    bed.0.power_off().unwrap();
    let (mut bed, ns) = reopen(bed);
    assert_eq!((trained(&bed), ns), (before, 0));
    bed.0.check().unwrap();
    bed.write(0, 64);
    let (mut bed, ns) = reopen(bed);
    assert!(ns > 0 && trained(&bed) >= before / 2, "{} of {before} in {ns} ns", trained(&bed));
    assert!(bed.model_hits() > 0);
}

/// A canary: the bit of an overwritten page is left set.
#[test]
#[should_panic(expected = "the mapping led from LPN")]
fn a_stale_bit_is_caught_by_the_read_that_follows_it() {
    let mut bed = Bed::new(&[]);
    fill(&mut bed);
    let stale = bed.0.scheme().parts().mapping.models.clone();
    // Twice, so that the old page's block is collected and holds something else.
    for _ in 0..40 {
        (0..EXPORTED).rev().for_each(|lpn| bed.write(lpn, 1));
    }
    bed.0.scheme_mut().parts_mut().mapping.models = stale;
    for lpn in 0..EXPORTED {
        bed.request(HostOp::Read, (lpn + 40) % EXPORTED, 1);
    }
}

/// The same, caught by the check that every run ends with.
#[test]
fn a_stale_bit_is_caught_by_the_check() {
    let mut bed = Bed::new(&[]);
    fill(&mut bed);
    let stale = bed.0.scheme().parts().mapping.models.clone();
    bed.write(40, 1);
    bed.0.scheme_mut().parts_mut().mapping.models = stale;
    let breach = bed.0.check().unwrap_err();
    assert!(breach.0.starts_with("the bit of LPN 40 is set"), "{breach}");
}

#[test]
fn without_cross_group_allocation_every_group_needs_its_own_room() {
    let preset = DeviceSpec::named("femu-32g").unwrap();
    let array = SimNand::new(&preset, NoClock::default(), SimOptions::default());
    let mut config = Config::new(7 << 20, 8 << 20);
    config.parameters.insert("techniques".to_owned(), "igb".to_owned());
    let error = Device::<LearnedFtl, _>::open(array, &config).unwrap_err().to_string();
    assert!(error.contains("without cross-group allocation each of the 224 groups"), "{error}");
}

const GROUP: (&str, &str) = ("allocation", "group");

/// Overwrites a share of the device, backwards, so that nothing is a sequence.
fn overwrite(bed: &mut Bed) {
    for stride in [3, 7, 2, 5, 9, 4, 3, 7, 2, 5, 9, 4].repeat(3) {
        (0..EXPORTED).rev().step_by(stride).for_each(|lpn| bed.write(lpn, 1));
    }
}

#[test]
fn groups_with_blocks_of_their_own_are_collected_whole_where_nothing_is_read() {
    let mut bed = Bed::new(&[GROUP]);
    fill(&mut bed);
    overwrite(&mut bed);
    let counters = bed.0.counters().clone();
    assert!(counters.collections_group > 8, "{} groups", counters.collections_group);
    // A group has one translation page and fills two superblocks, one after the other.
    assert!(counters.reads_by(Cause::Training) <= 2 * (counters.collections_group + 1));
    let hits = bed.model_hits();
    let mut shared = Bed::new(&[]);
    fill(&mut shared);
    overwrite(&mut shared);
    let others = shared.model_hits();
    assert!(hits > u64::from(EXPORTED) / 4 && others < hits, "{hits} and {others} of {EXPORTED}");
}

#[test]
fn a_group_is_collected_when_it_has_as_many_blocks_as_it_may() {
    let groups = |blocks: &str| {
        let mut bed = Bed::new(&[GROUP, ("blocks", blocks)]);
        fill(&mut bed);
        (0..10).for_each(|_| (0..100).rev().for_each(|lpn| bed.write(lpn, 1)));
        bed.0.check().unwrap();
        bed.0.counters().collections_group
    };
    let (few, many) = (groups("2"), groups("1000"));
    assert!(few > many, "{few} and {many}");
}

/// Where all superblocks are open, half written and without an invalid page, one of them is emptied.
#[test]
fn groups_with_blocks_of_their_own_find_room_among_open_superblocks() {
    const EXPORTED: u32 = 2_511;
    let mut bed = Bed::of_few_superblocks(EXPORTED);
    let mut state = 1_u64;
    for _ in 0..20 * EXPORTED {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bed.write(((state >> 33) % u64::from(EXPORTED)) as u32, 1);
    }
    bed.0.check().unwrap();
}

#[test]
fn blocks_of_groups_are_found_again_after_a_cut() {
    let mut bed = Bed::new(&[GROUP]);
    fill(&mut bed);
    overwrite(&mut bed);
    let mut config = Config::new(EXPORTED, CACHE_BYTES);
    config.parameters.insert(GROUP.0.to_owned(), GROUP.1.to_owned());
    let mut bed = Bed(Device::open(bed.0.into_nand(), &config).unwrap());
    bed.0.check().unwrap();
    let before = bed.0.counters().collections_group;
    overwrite(&mut bed);
    assert!(bed.0.counters().collections_group > before + 4);
    let hits = bed.model_hits();
    assert!(hits > u64::from(EXPORTED) / 4, "{hits} of {EXPORTED}");
}

#[test]
fn blocks_of_their_own_are_refused_where_they_have_no_room() {
    let error = |letters: &str, exported: u32| {
        let preset = DeviceSpec::named("femu-32g").unwrap();
        let array = SimNand::new(&preset, NoClock::default(), SimOptions::default());
        let mut config = Config::new(exported, 16 << 20);
        config.parameters.insert(GROUP.0.to_owned(), GROUP.1.to_owned());
        config.parameters.insert("techniques".to_owned(), letters.to_owned());
        Device::<LearnedFtl, _>::open(array, &config).err().map(|error| error.to_string())
    };
    assert_eq!(error("igxb", 30 << 18), None);
    let full = error("igxb", 8_000_000).unwrap();
    assert!(full.contains("needs 4 superblocks to spare") && full.contains("export less"), "{full}");
    assert_eq!(error("igb", 15 << 18), None);
    let alone = error("igb", 16 << 18).unwrap();
    assert!(alone.contains("for each of 128 groups to write to"), "{alone}");
}
