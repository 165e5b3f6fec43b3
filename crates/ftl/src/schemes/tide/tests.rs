//! Tide against its own arithmetic: docs/schemes/tide.md derives the formula.

use super::map::MOVED;
use super::room::{KEPT, LONG_PAUSE};
use super::stats::{HOME_PAGES, LOG_PAGES, PUT_OFF};
use super::{bins_ahead, merges_of, Tide, TideFtl};
use crate::counters::{Cause, Counters};
use crate::log_block::stats::{FULL_MERGES, SWITCH_MERGES};
use crate::log_block::Policy;
use crate::{Config, Device, HostOp, Seen};
use nand::timing::{NoClock, Reserved, Times, Timing};
use nand::{Done, Geometry, Lpn, SimNand, SimOptions};

type Tested = Device<TideFtl, SimNand<NoClock>>;

const GEOMETRY: Geometry = Geometry {
    channels: 2,
    luns_per_channel: 4,
    planes_per_lun: 1,
    blocks_per_plane: 256,
    pages_per_block: 32,
    page_bytes: 4096,
    oob_bytes: 64,
};

fn array(exported: u32) -> SimNand<NoClock> {
    array_of(GEOMETRY, exported)
}

fn array_of(geometry: Geometry, exported: u32) -> SimNand<NoClock> {
    SimNand::new(&nand::DeviceSpec::tiny(geometry, exported), NoClock::new(), SimOptions::default())
}

/// A device that is written once in order, with this much memory a page.
fn filled(exported: u32, bits: u64) -> Tested {
    filled_array(array(exported), exported, bits)
}

fn filled_array(array: SimNand<NoClock>, exported: u32, bits: u64) -> Tested {
    let config = Config::new(exported, u64::from(exported) * bits / 8);
    let mut device: Tested = Device::open(array, &config).expect("it fits");
    write(&mut device, (0..exported).step_by(32), 32);
    device
}

/// A device that is full, and then written once more, a page at a time, at random.
fn overwritten(exported: u32, seed: u64) -> Tested {
    let mut device = filled(exported, 16);
    write(&mut device, uniform(seed, exported).take(exported as usize), 1);
    device
}

fn write<T: Timing>(device: &mut Device<TideFtl, SimNand<T>>, firsts: impl Iterator<Item = u32>, pages: u32) {
    for first in firsts {
        let pages = pages.min(device.exported_pages() - first);
        let done = device.request(HostOp::Write, Lpn(first), pages, Done::READY, &mut |_, _| {});
        done.expect("there is room");
    }
}

/// Reads pages that were written, one at a time.
fn read(device: &mut Tested, lpns: impl Iterator<Item = u32>) {
    for lpn in lpns {
        let read = device.request(HostOp::Read, Lpn(lpn), 1, Done::READY, &mut |lpn, seen| {
            assert!(matches!(seen, Seen::Read(Some(oob)) if oob.id == lpn.0));
        });
        assert!(read.expect("it is there").failed == 0);
    }
}

/// Pages that went straight to homes since the counters were taken, and those that went to the log.
fn homes_and_logged(device: &Tested) -> (u64, u64) {
    device.check().expect("it is sound");
    let counters = device.counters();
    (counters.value(&HOME_PAGES), counters.value(&LOG_PAGES))
}

/// Opens a device anew that was written everywhere, and reads all of it.
fn all_is_there_after_a_restart(device: Tested, config: &Config) {
    let mut device: Tested = Device::open(device.into_nand(), config).expect("it recovers");
    device.check().expect("it is sound after recovery");
    let all = 0..device.exported_pages();
    read(&mut device, all);
}

/// Uniform numbers below `end`.
fn uniform(seed: u64, end: u32) -> impl Iterator<Item = u32> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((state >> 33) * u64::from(end)) >> 31) as u32
    })
}

/// Write amplification under uniform writes of single pages, by the formulas of the page.
fn by_formula(log: f64, groups: f64, tail: f64) -> f64 {
    let ahead = f64::from(bins_ahead(log as u32));
    let used = (log - ahead / 2.0 - f64::from(KEPT) - tail) / (1.0 + 2.0 / ahead);
    let pages = f64::from(GEOMETRY.pages_per_block);
    let held = used * pages / groups;
    let gathered = held + held.hypot(1.0);
    1.0 + 1.0 / (1.0 - (-gathered / pages).exp())
}

#[test]
fn uniform_writes_cost_what_the_formula_says() {
    for share in [90, 94] {
        let exported = GEOMETRY.pages() / 100 * share;
        let mut device = filled(exported, 16);
        write(&mut device, uniform(share.into(), exported).take(2 * exported as usize), 1);
        device.take_counters();
        write(&mut device, uniform(1, exported).take(exported as usize), 1);
        let measured = device.counters().write_amplification().expect("it was written");
        let layout = *device.scheme().core().layout();
        let tail = f64::from(merges_of(&layout) / 6);
        let said = by_formula(layout.log_blocks.into(), layout.logical_blocks.into(), tail);
        println!("{share} %: {measured:.2}, by the formula {said:.2}");
        assert!((measured / said - 1.0).abs() < 0.05, "{share} %: {measured:.2}, by the formula {said:.2}");
        assert!(device.counters().value(&LOG_PAGES) == u64::from(exported));
        device.check().expect("it is sound");
    }
}

/// What each page that is written adds to a count.
fn added(device: &mut Tested, pages: impl Iterator<Item = u32>, of: impl Fn(&Counters) -> u64) -> Vec<u64> {
    let mut before = of(device.counters());
    let each = pages.map(|page| {
        write(device, page..page + 1, 1);
        let now = of(device.counters());
        now - std::mem::replace(&mut before, now)
    });
    each.collect()
}

#[test]
fn hardly_a_page_pays_for_many_copies() {
    // 64 dies: as many merges are under way.
    let geometry =
        Geometry { channels: 8, luns_per_channel: 8, blocks_per_plane: 80, pages_per_block: 256, ..GEOMETRY };
    let exported = geometry.pages() / 100 * 93;
    let mut device = filled_array(array_of(geometry, exported), exported, 8);
    write(&mut device, uniform(1, exported).take(exported as usize / 2), 1);
    let pages = uniform(2, exported).take(exported as usize / 4);
    // 2.4 % of the pages if each pays for what the front has left by the room there is, 0.3 % now.
    let copies = added(&mut device, pages, |counters| counters.programs_by(Cause::Merge));
    let mean = copies.iter().sum::<u64>() / copies.len() as u64;
    let many = copies.iter().filter(|&&copies| copies > 5 * mean).count();
    println!("{mean} copies a page; {many} of {} pages pay for more than five times as many", copies.len());
    assert!(mean > 7 && many * 150 < copies.len(), "{mean} copies a page, many for {many}");
}

#[test]
fn on_one_die_no_page_pays_for_a_bin() {
    let geometry = Geometry {
        channels: 1,
        luns_per_channel: 1,
        blocks_per_plane: 8192,
        pages_per_block: 64,
        ..GEOMETRY
    };
    let exported = geometry.pages() / 100 * 93;
    let mut device = filled_array(array_of(geometry, exported), exported, 8);
    write(&mut device, uniform(1, exported).take(2 * exported as usize), 1);
    let pages = || uniform(2, exported).take(exported as usize / 4);
    // 5,760 copies and 91 erases if copies wait for the die, and what a bin leaves is erased at once. 896 and
    // 15 now: once, when the open blocks of many bins are full at the same time.
    let copies = added(&mut device.clone(), pages(), |counters| counters.programs_by(Cause::Merge));
    let erases = added(&mut device, pages(), Counters::all_erases);
    let (copies, erases) = (copies.iter().max(), erases.iter().max());
    println!("at most {copies:?} copies and {erases:?} erases for a page");
    assert!(copies < Some(&1500) && erases < Some(&25), "{copies:?} copies, {erases:?} erases");
}

#[test]
fn a_copy_waits_for_a_die_with_time_if_it_may() {
    let mut device = overwritten(GEOMETRY.pages() / 100 * 60, 1);
    let (scheme, flash) = device.parts_mut();
    let (core, tide) = scheme.parts_mut();
    while tide.active < tide.merges.len() {
        assert!(tide.step(core, flash).expect("there is something to merge"));
    }
    let units = GEOMETRY.units();
    let left = |tide: &Tide| {
        tide.merges.iter().map(|merge| (merge.logical % units, merge.left())).collect::<Vec<_>>()
    };
    let before = left(tide);
    assert_eq!(before.len(), units as usize, "a merge on each die");
    (0..units).for_each(|unit| core.pool.load.set(unit, 5));
    assert!(!tide.step_or_wait(core, flash, true).expect("nothing fails"));
    assert_eq!(left(tide), before);
    assert!(tide.step_or_wait(core, flash, false).expect("nothing fails"));
    assert!(left(tide) != before, "some copies cannot wait");
    // One die has time, and others have a turn before it.
    (0..units).for_each(|unit| core.pool.load.set(unit, if unit == 5 { 4 } else { 5 }));
    let before = left(tide);
    assert!(tide.step_or_wait(core, flash, true).expect("nothing fails"));
    let changed = |&at: &usize| left(tide)[at] != before[at];
    let changed: Vec<u32> = (0..before.len()).filter(changed).map(|at| before[at].0).collect();
    assert_eq!(changed, [5]);
}

#[test]
fn translation_pages_leave_a_full_block_a_few_at_a_time() {
    let geometry = Geometry { blocks_per_plane: 1024, pages_per_block: 64, ..GEOMETRY };
    let exported = geometry.pages() / 100 * 60;
    let mut device = filled_array(array_of(geometry, exported), exported, 2);
    device.take_counters();
    let pages = uniform(3, exported).take(exported as usize);
    // 204 if blocks are emptied when they are full, as many are at the same time, and 13 now.
    let moved = added(&mut device, pages, |counters| counters.programs_by(Cause::Collection));
    let many = moved.iter().filter(|&&moved| moved > 4 * u64::from(MOVED)).count();
    println!("{} moved, many for {many} of {} pages", moved.iter().sum::<u64>(), moved.len());
    assert!(moved.iter().sum::<u64>() > 10_000 && many < 50, "many for {many} pages");
}

#[test]
fn groups_with_a_page_of_the_load_before_do_not_cost_a_merge_each() {
    let exported = GEOMETRY.pages() / 100 * 94;
    let mut device = overwritten(exported, 3);
    device.take_counters();
    // Runs of half a region, too short for a sequence, to a tenth of the device.
    let half = 4 * GEOMETRY.pages_per_block;
    let runs = uniform(4, exported / 10 / half).map(|at| at * half);
    write(&mut device, runs.take((exported / 5 / half) as usize), half - 2);
    let counters = device.counters();
    let (cost, moved) = (counters.write_amplification().expect("it was written"), counters.value(&PUT_OFF));
    // 5.3 when every group is merged at its turn.
    assert!(cost < 4.8 && moved > 500, "{cost}, {moved} pages moved");
    device.check().expect("it is sound");
}

#[test]
fn idle_time_makes_room_for_bursts_and_not_after_a_load() {
    let exported = GEOMETRY.pages() / 100 * 90;
    let mut device = overwritten(exported, 1);
    let merges = |device: &mut Tested| {
        device.take_counters();
        for _ in 0..100 {
            device.idle().expect("idle time is harmless");
        }
        device.counters().value(&FULL_MERGES)
    };
    assert_eq!(merges(&mut device), 0, "more was written than the log holds, and no pause came before");
    write(&mut device, 0..1, 1);
    assert!(merges(&mut device) > 0, "a page is a burst");
    write(&mut device, uniform(2, exported).take(exported as usize), 1);
    assert_eq!(merges(&mut device), 0, "a load again");
}

#[test]
fn idle_time_makes_room_for_bursts_beside_what_extra_log_blocks_have_left() {
    let exported = GEOMETRY.pages() / 100 * 90;
    let mut device = overwritten(exported, 1);
    for seed in 2..12 {
        write(&mut device, uniform(seed, exported / 70).take(exported as usize / 10), 1);
        let extras = device.scheme_mut().parts_mut().1.table.extras();
        device.idle().expect("idle time is harmless");
        // A burst, so that idle time is used.
        write(&mut device, 0..1, 1);
        while device.idle().expect("idle time is harmless").is_some() {}
        let (core, tide) = device.scheme_mut().parts_mut();
        assert!(
            extras > 2 && !tide.are_blocks_wanted(core, tide.burst(core)),
            "seed {seed}, {extras} extras"
        );
    }
}

#[test]
fn idle_time_makes_room_for_twice_the_largest_burst() {
    let exported = GEOMETRY.pages() / 100 * 60;
    let mut device = overwritten(exported, 1);
    device.idle().expect("idle time is harmless");
    let rooms = [1_u32, 400, 200, 2000].map(|pages| {
        write(&mut device, uniform(pages.into(), exported).take(pages as usize), 1);
        while device.idle().expect("idle time is harmless").is_some() {}
        let (core, tide) = device.scheme_mut().parts_mut();
        let room = tide.room_for_bursts(core);
        assert!(!tide.are_blocks_wanted(core, room), "there is less");
        (room, tide.burst(core))
    });
    let sixteenth = rooms[0].1;
    assert_eq!(rooms.map(|(room, _)| room), [8 * 64 / 32, 2 * 400 / 32, 2 * 400 / 32, sixteenth]);
    assert!(sixteenth > 2 * 400 / 32, "{sixteenth}");
    let (core, tide) = device.scheme_mut().parts_mut();
    (tide.largest_burst, tide.calm) = (0, LONG_PAUSE - 1);
    assert_eq!(tide.room_for_bursts(core), 8 * 64 / 32);
    tide.calm += 1;
    assert_eq!(tide.room_for_bursts(core), sixteenth, "a long pause");
}

#[test]
fn every_read_is_one_flash_read_whatever_was_written() {
    let exported = GEOMETRY.pages() / 100 * 94;
    let mut device = filled(exported, 16);
    for pages in [1, 3, 16, 200] {
        let firsts = uniform(pages.into(), exported - pages);
        write(&mut device, firsts.take((exported / pages) as usize), pages);
    }
    device.take_counters();
    read(&mut device, uniform(5, exported).take(20_000));
    assert_eq!(device.counters().host_reads_by_flash_reads[1], 20_000);
}

#[test]
fn a_sequence_becomes_homes_without_a_copy_and_survives_a_restart() {
    let exported = GEOMETRY.pages() / 100 * 94;
    let mut device = overwritten(exported, 9);
    write(&mut device, 0..exported, 1);
    device.take_counters();
    write(&mut device, 0..exported, 1);
    let counters = device.counters();
    assert!(counters.write_amplification().expect("it was written") < 1.02, "{counters:?}");
    assert!(counters.value(&SWITCH_MERGES) > 100 && counters.value(&FULL_MERGES) < 20, "{counters:?}");
    // In the middle of a region.
    write(&mut device, 0..777, 1);
    device.check().expect("it is sound");
    let config = Config::new(exported, u64::from(exported) * 2);
    let device: Tested = Device::open(device.into_nand(), &config).expect("it recovers");
    device.check().expect("it is sound after recovery");
    let mut mapped = 0;
    device.mapping(&mut |_, _| mapped += 1);
    assert_eq!(mapped, exported);
}

#[test]
fn a_sequence_from_the_middle_of_a_region_copies_what_it_leaves_out() {
    let exported = GEOMETRY.pages() / 100 * 94;
    // Regions have 256 pages. Files of six and a half lie one behind the other, and 40 pages between them.
    let files = exported / 1_704;
    let written = |seed: u64| {
        let mut device = overwritten(exported, seed);
        device.take_counters();
        for file in 0..files {
            let first = 100 + file * 1_704;
            write(&mut device, (first..(first + 1_664).min(exported)).step_by(32), 32);
        }
        let counters = device.counters();
        assert!(counters.value(&SWITCH_MERGES) > u64::from(files) * 6 * 8, "{counters:?}");
        device.check().expect("it is sound");
        (counters.write_amplification().expect("it was written"), device)
    };
    // 1.71 when only whole regions are written so, from 1.66 to 1.74 with eight seeds.
    let amplification = (1..=4).map(|seed| written(seed).0).sum::<f64>() / 4.0;
    assert!(amplification < 1.6, "{amplification}");
    let (_, mut device) = written(9);
    // The first page of the region is another one now, and so are pages in the middle.
    write(&mut device, [0, 7, 900, 901].into_iter(), 1);
    let config = Config::new(exported, u64::from(exported) * 2);
    all_is_there_after_a_restart(device, &config);
}

#[test]
fn a_sequence_out_of_order_among_random_writes_becomes_homes() {
    let exported = GEOMETRY.pages() / 100 * 94;
    let mut device = overwritten(exported, 7);
    write(&mut device, (0..exported).step_by(32), 32);
    device.take_counters();
    // One request in four comes before the one in front of it, and between them are more random writes than
    // sequences are followed.
    let mut random = uniform(8, exported);
    for first in (0..exported - 128).step_by(128) {
        let order = if first < 1024 { [0, 32, 64, 96] } else { [0, 64, 32, 96] };
        write(&mut device, order.into_iter().map(|page| first + page), 32);
        write(&mut device, random.by_ref().take(12), 1);
    }
    let (homes, logged) = homes_and_logged(&device);
    assert!(homes > logged, "{homes} pages straight to homes, {logged} to the log");
    let config = Config::new(exported, u64::from(exported) * 2);
    all_is_there_after_a_restart(device, &config);
}

#[test]
fn sequences_side_by_side_among_random_writes_become_homes() {
    let exported = GEOMETRY.pages() / 100 * 94;
    let mut device = overwritten(exported, 7);
    device.take_counters();
    let mut random = uniform(8, exported);
    let each = exported / 4 / 16 * 16;
    for first in (0..each).step_by(16) {
        for sequence in 0..4 {
            write(&mut device, std::iter::once(sequence * each + first), 16);
        }
        write(&mut device, random.by_ref().take(3), 1);
    }
    let (homes, logged) = homes_and_logged(&device);
    assert!(homes > 3 * logged, "{homes} pages straight to homes, {logged} to the log");
}

#[test]
fn a_sequence_that_comes_to_leave_out_half_goes_to_the_log() {
    let exported = GEOMETRY.pages() / 100 * 94;
    let mut device = overwritten(exported, 7);
    // A file system is copied to the device, and then takes what is free behind it, among other writes.
    let half = exported / 2;
    write(&mut device, (0..half).step_by(32), 32);
    device.take_counters();
    let mut random = uniform(8, exported);
    for first in (half..exported - 8).step_by(8) {
        write(&mut device, [first, first + 2].into_iter(), 2);
        write(&mut device, random.by_ref().take(4), 1);
    }
    let (homes, logged) = homes_and_logged(&device);
    assert!(30 * homes < logged, "{homes} pages straight to homes, {logged} to the log");
}

#[test]
fn a_region_that_a_sequence_leaves_is_ended_by_copies_of_what_is_missing() {
    let exported = GEOMETRY.pages() / 100 * 94;
    let mut config = Config::new(exported, u64::from(exported) * 2);
    config.parameters.insert("sequence".to_owned(), "32".to_owned());
    let mut device: Tested = Device::open(array(exported), &config).expect("it fits");
    write(&mut device, (0..exported).step_by(32), 32);
    // Of each region, which has 256 pages, three quarters, and a random page after each.
    let mut random = uniform(5, exported);
    let mut run = |device: &mut Tested, from: u32, to: u32| {
        for region in from..to {
            write(device, (region * 256..region * 256 + 192).step_by(32), 32);
            write(device, random.by_ref().take(1), 1);
        }
    };
    run(&mut device, 0, exported / 512);
    device.take_counters();
    run(&mut device, exported / 512, exported / 256);
    let counters = device.counters();
    device.check().expect("it is sound");
    // 64 pages of each region are copied; by merges it would be all 256.
    let amplification = counters.write_amplification().expect("it was written");
    assert!((1.25..1.45).contains(&amplification), "{amplification}");
    let ended = exported / 256 - exported / 512;
    assert!(counters.value(&SWITCH_MERGES) > u64::from(ended) * 7, "{counters:?}");
}

#[test]
fn narrow_regions_are_complete_after_short_sequences() {
    let exported = GEOMETRY.pages() / 100 * 94 + 5;
    // Sequences of 64 pages: a region of two groups, or a quarter of a region of eight.
    let cost = |width: &str| {
        let mut config = Config::new(exported, u64::from(exported) * 2);
        config.parameters.insert("width".to_owned(), width.to_owned());
        config.parameters.insert("sequence".to_owned(), "32".to_owned());
        let mut device: Tested = Device::open(array(exported), &config).expect("it fits");
        write(&mut device, (0..exported).step_by(32), 32);
        write(&mut device, uniform(1, exported).take(exported as usize), 1);
        device.take_counters();
        for at in uniform(2, exported / 64).take(exported as usize / 64) {
            write(&mut device, (at * 64..at * 64 + 64).step_by(32), 32);
        }
        let cost = device.counters().write_amplification().expect("it was written");
        device.check().expect("it is sound");
        all_is_there_after_a_restart(device, &config);
        cost
    };
    let (narrow, all) = (cost("2"), cost("0"));
    println!("two groups: {narrow:.2} pages a page, eight: {all:.2}");
    assert!(narrow < 1.5 && all > 3.0, "{narrow}, {all}");
}

#[test]
fn consecutive_pages_take_the_units_of_a_region_by_turns() {
    let exported = GEOMETRY.pages() / 100 * 94 + 5;
    for width in [0, 1, 3, 8, 9] {
        let mut config = Config::new(exported, u64::from(exported) * 2);
        config.parameters.insert("width".to_owned(), width.to_string());
        let device: Tested = Device::open(array(exported), &config).expect("it fits");
        let layout = *device.scheme().core().layout();
        let width = if width == 0 { GEOMETRY.units() } else { width.min(GEOMETRY.units()) };
        assert_eq!(layout.width, width);
        for lpn in 0..exported {
            let (group, offset) = layout.place(Lpn(lpn));
            assert!(layout.lpn(group, offset) == lpn && group < layout.logical_blocks, "LPN {lpn}");
            let next = layout.place(Lpn(lpn + 1)).0;
            let is_in_region = (lpn + 1) % width != 0 && lpn + 1 < exported;
            if is_in_region && layout.logical_blocks - group > width {
                assert_eq!(next, group + 1, "LPN {lpn}");
            }
            assert_eq!(layout.unit_of(group), group % GEOMETRY.units());
        }
    }
}

#[test]
fn a_small_budget_costs_some_second_reads_first_and_then_a_smaller_log() {
    let exported = GEOMETRY.pages() / 100 * 90;
    let mut singles = Vec::new();
    let mut costs = Vec::new();
    for tenths in [120, 40, 30, 27, 20] {
        let config = Config::new(exported, u64::from(exported) * tenths / 80);
        let mut device: Tested = Device::open(array(exported), &config).expect("it fits");
        write(&mut device, (0..exported).step_by(32), 32);
        write(&mut device, uniform(2, exported).take(exported as usize), 1);
        device.take_counters();
        write(&mut device, uniform(1, exported).take(exported as usize), 1);
        costs.push(device.counters().write_amplification().expect("it was written"));
        device.take_counters();
        read(&mut device, uniform(5, exported).take(20_000));
        singles.push(device.counters().host_reads_by_flash_reads[1]);
        let memory = device.memory();
        println!(
            "{tenths}/10 bits: {} single of 20000, WA {:?}, {memory:?}",
            singles[singles.len() - 1],
            costs
        );
        assert!(memory.bytes() <= config.cache_bytes, "{memory:?}");
        device.check().expect("it is sound");
    }
    assert!(singles[0] == 20_000 && singles.iter().all(|&single| single > 18_000), "{singles:?}");
    // A quarter of the memory less costs a twentieth of the writes; a third less, a log that is too small.
    assert!(costs[0] == costs[1] && costs[3] < 1.08 * costs[0] && costs[4] > 1.5 * costs[0], "{costs:?}");
}

/// A device with much spare room and little memory, written at random: many places are on flash.
fn paged<T: Timing>(clock: T) -> Device<TideFtl, SimNand<T>> {
    let exported = GEOMETRY.pages() / 100 * 60;
    let array = SimNand::new(&nand::DeviceSpec::tiny(GEOMETRY, exported), clock, SimOptions::default());
    let config = Config::new(exported, u64::from(exported) * 3 / 4);
    let mut device: Device<TideFtl, SimNand<T>> = Device::open(array, &config).expect("it fits");
    write(&mut device, (0..exported).step_by(32), 32);
    write(&mut device, uniform(2, exported).take(exported as usize), 1);
    device
}

#[test]
fn reads_in_sequence_load_places_ahead() {
    let doubles = |pages: &mut dyn Iterator<Item = u32>| {
        let mut device = paged(NoClock::new());
        device.take_counters();
        read(&mut device, pages);
        device.check().expect("it is sound");
        device.counters().host_reads_by_flash_reads[2]
    };
    let exported = GEOMETRY.pages() / 100 * 60;
    let in_sequence = doubles(&mut (0..exported));
    let eight = exported / 8;
    let side_by_side = doubles(&mut (0..8 * eight).map(|nth| nth % 8 * eight + nth / 8));
    let at_random = doubles(&mut uniform(3, exported).take(exported as usize));
    println!("{in_sequence}, {side_by_side} side by side, {at_random} at random, of {exported}");
    assert!(at_random > u64::from(exported) / 8, "places are on flash");
    assert!(6 * in_sequence.max(side_by_side) < at_random, "{in_sequence}, {side_by_side}, {at_random}");
}

#[test]
fn a_page_waits_for_the_load_of_its_place() {
    let times = Times {
        read_ns: 1000,
        program_ns: 0,
        erase_ns: 0,
        transfer_ns: 0,
        suspend_ns: 0,
        controller_cores: 1,
    };
    let mut device = paged(Reserved::new(times, GEOMETRY.dies(), GEOMETRY.channels));
    let (scheme, flash) = device.parts_mut();
    let (core, tide) = scheme.parts_mut();
    let mut brought = 0;
    for lpn in (0..core.layout().exported_pages - 1).map(Lpn) {
        let next = Lpn(lpn.0 + 1);
        let is_away = |tide: &Tide, lpn| tide.map.as_ref().is_some_and(|map| map.is_away(lpn));
        if !is_away(tide, lpn) || !is_away(tide, next) {
            continue;
        }
        flash.nand_mut().timing().drain();
        let (start, at) = (flash.nand_mut().timing().now(), flash.nand_mut().timing().arrival());
        let (is_hit, first) = tide.look_up(core, flash, lpn, 2, at).expect("it can be read");
        assert!(!is_hit);
        if is_away(tide, next) {
            continue;
        }
        // Another request, while the load is under way.
        let (is_hit, second) = tide.look_up(core, flash, next, 1, at).expect("it is known");
        assert!(is_hit);
        brought += 1;
        flash.nand_mut().timing().watch(first, 1);
        flash.nand_mut().timing().watch(second, 2);
        let times = [(); 2].map(|()| flash.nand_mut().timing().next().expect("it is watched").1);
        assert!(times[0] == times[1] && times[0] >= start + 1000, "LPN {}, {start}: {times:?}", lpn.0);
    }
    assert!(brought > 100, "{brought}");
}

#[test]
fn a_translation_page_that_is_lost_is_made_anew() {
    let exported = GEOMETRY.pages() / 100 * 90;
    let options = SimOptions { lost_translation_ppm: 200_000, seed: 7, ..SimOptions::default() };
    let nand = SimNand::new(&nand::DeviceSpec::tiny(GEOMETRY, exported), NoClock::new(), options);
    let config = Config::new(exported, u64::from(exported) * 27 / 80);
    let mut device: Tested = Device::open(nand, &config).expect("it fits");
    write(&mut device, (0..exported).step_by(32), 32);
    for round in 0..8 {
        write(&mut device, uniform(round, exported).take(4_000), 1);
        read(&mut device, uniform(round + 100, exported).take(2_000));
    }
    assert!(device.counters().rebuilt > 10, "{:?}", device.counters());
    device.check().expect("it is sound");
}

#[test]
fn a_budget_without_room_for_the_homes_is_refused() {
    let exported = GEOMETRY.pages() / 100 * 90;
    let config = Config::new(exported, u64::from(exported) / 8);
    let error = Device::<TideFtl, _>::open(array(exported), &config).expect_err("a bit a page is too little");
    assert!(error.to_string().contains("give it a cache of at least"), "{error}");
    assert_eq!(Tide::INFO.name, "tide");
}

#[test]
fn merges_go_on_where_hardly_a_block_is_free() {
    for free in 1..=4 {
        let exported = GEOMETRY.pages() / 100 * 94;
        let mut device = filled(exported, 16);
        write(&mut device, uniform(free.into(), exported).take(1000), 1);
        let (scheme, flash) = device.parts_mut();
        let (core, tide) = scheme.parts_mut();
        assert!(tide.active == 0 && tide.merges.len() > 4, "each merge that begins needs a block");
        // Log blocks of which a power cut left nothing.
        while core.pool.free_blocks() > free {
            core.open_log(flash).expect("a block is free");
        }
        let mut steps = 0;
        while flash.counters.value(&FULL_MERGES) < 50 {
            tide.step(core, flash).unwrap_or_else(|fault| panic!("{free} free blocks: {fault:?}"));
            steps += 1;
            assert!(steps < 50 * 2 * GEOMETRY.pages_per_block, "{free} free blocks: no merge goes on");
        }
    }
}

#[test]
fn a_reserve_is_erased_while_other_blocks_wait_for_it() {
    let small = Geometry { channels: 1, luns_per_channel: 1, blocks_per_plane: 32, ..GEOMETRY };
    let exported = 16 * small.pages_per_block;
    let mut config = Config::new(exported, u64::from(exported) * 3);
    config.parameters.insert("merges".to_owned(), "16".to_owned());
    let mut device: Tested = Device::open(array_of(small, exported), &config).expect("it fits");
    write(&mut device, 0..exported, 1);
    let (mut most, mut least) = (0, u32::MAX);
    for lpn in uniform(7, exported).take(100_000) {
        write(&mut device, std::iter::once(lpn), 1);
        let pool = &device.scheme().core().pool;
        least = least.min(pool.free_superblocks());
        most = most.max(pool.free_blocks() - pool.free_superblocks());
    }
    assert!(least >= 3 && most > 1, "{least} blocks are erased at least, {most} wait at most");
}
