use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::clock::below;
use super::*;
use crate::{DeviceSpec, SimOptions};

fn geometry() -> Geometry {
    Geometry {
        channels: 2,
        luns_per_channel: 2,
        planes_per_lun: 1,
        blocks_per_plane: 6,
        pages_per_block: 8,
        page_bytes: 512,
        oob_bytes: 16,
    }
}

fn array(options: SimOptions) -> SimNand<NoClock> {
    let device = DeviceSpec::tiny(geometry(), 100);
    SimNand::new(&device, NoClock::new(), SimOptions { keep_stale: true, ..options })
}

fn data(id: u32, version: u64, epoch: u32) -> Oob {
    Oob { kind: PageKind::Data, id, version, epoch, lost: false }
}

/// Fills superblock after superblock, erasing each first, with reads between; returns what each operation
/// waited for.
fn drive(nand: &mut CrashNand, rounds: u32) -> Vec<Done> {
    let g = geometry();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut waits = Vec::new();
    let mut recent = Done::READY;
    for round in 0..rounds {
        let superblock = round % g.superblocks();
        for unit in 0..g.units() {
            let block = Pbn(superblock * g.units() + unit);
            if !nand.is_bad(block) && nand.written(block) > 0 && nand.erase(block, recent).is_err() {
                nand.retire(block);
            }
            waits.push(recent);
        }
        for n in 0..g.superblock_pages() {
            let ppn = Ppn(superblock * g.superblock_pages() + n);
            if nand.is_bad(g.block_of(ppn).0) {
                continue;
            }
            let (kind, from) = match superblock % 2 {
                0 => (PageKind::Data, Source::Host),
                _ => (PageKind::Translation, Source::Metadata(&[7, 8, 9])),
            };
            let oob = Oob { kind, ..data(n, u64::from(round), round) };
            let after = if below(&mut random, 2) == 0 { Done::READY } else { recent };
            let done = nand.program(ppn, oob, Class::HostWrite, from, after);
            waits.push(after);
            if let Ok(done) = done {
                recent = done;
                if let Ok((_, read)) = nand.read(ppn, Class::HostRead, Sink::Controller, Done::READY) {
                    assert!(nand.time(read) > nand.time(done), "a read does not overtake its program");
                }
            }
            if below(&mut random, 4) == 0 {
                nand.advance(recent);
            }
        }
    }
    waits
}

fn same(a: &SimNand<NoClock>, b: &SimNand<NoClock>) {
    let g = geometry();
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for ppn in (0..g.pages()).map(Ppn) {
        assert_eq!(a.peek(ppn), b.peek(ppn), "{ppn:?}");
        assert_eq!(a.inspect(ppn, &mut one), b.inspect(ppn, &mut other), "{ppn:?}");
        assert_eq!(one, other, "{ppn:?}");
    }
    for block in (0..g.blocks()).map(Pbn) {
        assert_eq!((a.written(block), a.is_bad(block)), (b.written(block), b.is_bad(block)), "{block:?}");
    }
}

#[test]
fn a_die_serves_one_operation_at_a_time_and_nothing_starts_before_what_it_waits_for() {
    for seed in 0..20 {
        let mut nand = CrashNand::new(array(SimOptions::default()), seed);
        drive(&mut nand, 14);
        let log = nand.log();
        for die in &log.by_die {
            for pair in die.windows(2) {
                let (first, second) = (log.entry(pair[0]), log.entry(pair[1]));
                assert!(first.start < first.done && first.done <= second.start);
            }
        }
    }
}

#[test]
fn operations_on_a_block_keep_their_order() {
    let g = geometry();
    for seed in 0..20 {
        let mut nand = CrashNand::new(array(SimOptions::default()), seed);
        drive(&mut nand, 14);
        let mut last = vec![0; g.blocks() as usize];
        for entry in &nand.entries {
            let block = match entry.what {
                What::Program { ppn, .. } => g.block_of(ppn).0,
                What::Erase { block } | What::Retire { block } => block,
            };
            assert!(entry.start >= last[block.0 as usize]);
            last[block.0 as usize] = entry.done;
        }
    }
}

#[test]
fn the_last_image_is_the_array_and_the_first_is_the_beginning() {
    let faults = SimOptions {
        seed: 3,
        factory_bad_ppm: Some(40_000),
        program_fail_ppm: 20_000,
        erase_fail_ppm: 20_000,
        ..SimOptions::default()
    };
    for options in [SimOptions::default(), faults] {
        let fresh = array(options);
        let mut nand = CrashNand::new(fresh.clone(), 5);
        drive(&mut nand, 13);
        nand.drain();
        let log = nand.log();
        let mut cutter = log.cutter();
        let mut image = fresh.clone();
        assert_eq!(cutter.cut(nand.now(), 1, &mut image), Cut::default());
        same(&image, nand.array());
        cutter.cut(0, 1, &mut image);
        same(&image, &fresh);
    }
}

#[test]
fn a_cut_holds_what_was_done_and_nothing_that_was_not_begun() {
    let fresh = array(SimOptions::default());
    let mut nand = CrashNand::new(fresh.clone(), 9);
    drive(&mut nand, 5); // every page at most once
    let log = nand.log();
    let mut cutter = log.cutter();
    let mut image = fresh.clone();
    let mut all = Cut::default();
    for point in 0..log.points() {
        let at = log.time_of(point);
        let cut = cutter.cut(at, point, &mut image);
        all.torn_pages += cut.torn_pages;
        all.completed += cut.completed;
        all.dropped += cut.dropped;
        for entry in &nand.entries {
            let What::Program { ppn, oob, .. } = entry.what else { continue };
            let found = image.peek(ppn);
            if entry.done <= at {
                assert_eq!(found, Some(oob));
            } else if entry.start >= at {
                assert_eq!(found, None);
                let (block, page) = geometry().block_of(ppn);
                assert!(image.written(block) <= page);
            }
        }
    }
    assert!(all.torn_pages > 50 && all.completed > 50 && all.dropped > 50, "{all:?}");
}

#[test]
fn a_token_made_before_it_is_cut_off_is_reached_in_no_image() {
    // An erase that waits for a copy is in no image in which the copy is not.
    let g = geometry();
    for seed in 0..50 {
        let mut nand = CrashNand::new(array(SimOptions::default()), seed);
        let (old, new) = (g.page_in(Pbn(0), 0), g.page_in(Pbn(5), 0));
        nand.program(old, data(1, 1, 1), Class::HostWrite, Source::Host, Done::READY).unwrap();
        let (oob, read) = nand.read(old, Class::CollectionRead, Sink::Controller, Done::READY).unwrap();
        let copy = Oob { epoch: 2, ..oob };
        let done = nand.program(new, copy, Class::CollectionProgram, Source::Page(old), read).unwrap();
        let settled = nand.settle();
        assert!(nand.time(settled) >= nand.time(done));
        nand.erase(Pbn(0), done).unwrap();
        let log = nand.log();
        let mut cutter = log.cutter();
        let mut image = nand.array().clone();
        for point in 2..log.points() {
            cutter.cut(log.time_of(point), point, &mut image);
            let held = image.peek(old).is_some() || image.peek(new).is_some();
            assert!(held || log.time_of(point) < nand.entries[0].done, "seed {seed}, point {point}");
        }
    }
}

#[test]
fn the_same_seed_makes_the_same_log_and_another_seed_another() {
    let times = |seed| {
        let mut nand = CrashNand::new(array(SimOptions::default()), seed);
        drive(&mut nand, 3);
        nand.entries.iter().map(|entry| (entry.start, entry.done)).collect::<Vec<_>>()
    };
    assert_eq!(times(1), times(1));
    assert_ne!(times(1), times(2));
    let mut again = CrashNand::new(array(SimOptions::default()), 2);
    drive(&mut again, 3);
    again.restart(&array(SimOptions::default()), 1);
    drive(&mut again, 3);
    let restarted: Vec<_> = again.entries.iter().map(|entry| (entry.start, entry.done)).collect();
    assert_eq!(restarted, times(1));
}

#[test]
fn images_are_made_fast() {
    let fresh = array(SimOptions::default());
    let mut nand = CrashNand::new(fresh.clone(), 9);
    drive(&mut nand, 60);
    let log = nand.log();
    let mut cutter = log.cutter();
    let mut image = fresh.clone();
    let start = std::time::Instant::now();
    for point in 0..log.points() {
        cutter.cut(log.time_of(point), point, &mut image);
    }
    let rate = log.points() as f64 / start.elapsed().as_secs_f64();
    assert!(rate > 5_000.0, "{rate:.0} images a second");
}

#[test]
fn an_image_has_the_spare_bytes_and_an_empty_buffer() {
    let mut nand = CrashNand::new(array(SimOptions::default()), 3);
    nand.reserve_slots(1);
    nand.reserve_spare(2).unwrap();
    nand.store(0, data(5, 1, 0));
    let ppn = Ppn(0);
    nand.attach(&[7, 9]);
    let done = nand.program(ppn, data(5, 1, 1), Class::HostWrite, Source::Buffer(0), Done::READY).unwrap();
    let log = nand.log();
    let mut image = array(SimOptions::default());
    log.cutter().cut(nand.time(done), 1, &mut image);
    assert_eq!(image.inspect_spare(ppn), [7, 9]);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| image.deliver(0))).is_err());
}
