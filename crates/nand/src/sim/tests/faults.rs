//! Faults on request, torn pages, bad blocks.

use super::*;
use crate::Fault;

/// 64 blocks of 64 pages.
fn device() -> DeviceSpec {
    let geometry = Geometry { blocks_per_plane: 8, pages_per_block: 64, ..small().geometry };
    DeviceSpec::tiny(geometry, 1024)
}

fn faulty(options: SimOptions) -> SimNand<NoClock> {
    SimNand::new(&device(), NoClock::new(), options)
}

fn near(count: usize, expected: usize) {
    let error = count.abs_diff(expected) as f64 / (expected as f64).sqrt();
    assert!(error < 5.0, "{count} instead of about {expected}");
}

#[test]
fn blocks_stand_their_erases_and_no_more() {
    let mut nand = faulty(SimOptions { seed: 7, endurance: Some(50), ..SimOptions::default() });
    let mut limits = Vec::new();
    for block in (0..nand.geometry().blocks()).map(Pbn) {
        let stood = (0..).take_while(|_| nand.erase(block, NOW).is_ok()).count();
        assert!(nand.erase(block, NOW).is_err(), "it fails for ever");
        limits.push(stood);
    }
    assert!(limits.iter().all(|limit| (45..=55).contains(limit)), "{limits:?}");
    assert!(limits.iter().min() < limits.iter().max(), "blocks differ: {limits:?}");
}

#[test]
fn factory_bad_blocks_are_a_share_by_seed() {
    let bad = |seed, ppm| {
        let nand = faulty(SimOptions { seed, factory_bad_ppm: Some(ppm), ..SimOptions::default() });
        (0..64).filter(|&block| nand.is_bad(Pbn(block))).collect::<Vec<u32>>()
    };
    assert_eq!(bad(1, 0).len(), 0);
    assert_eq!(bad(1, 100_000).len(), 6);
    assert_eq!(bad(1, 1_000_000).len(), 64);
    assert_eq!(bad(1, 100_000), bad(1, 100_000));
    assert_ne!(bad(1, 100_000), bad(2, 100_000));
    let mut hits = [0usize; 64];
    (0..3200).flat_map(|seed| bad(seed, 250_000)).for_each(|block| hits[block as usize] += 1);
    hits.iter().for_each(|&count| near(count, 800));
}

#[test]
fn the_device_says_how_many_blocks_are_bad_unless_the_options_do() {
    let device = DeviceSpec { factory_bad_ppm: 500_000, ..device() };
    let count = |options| {
        let nand = SimNand::new(&device, NoClock::new(), options);
        (0..64).filter(|&block| nand.is_bad(Pbn(block))).count()
    };
    assert_eq!(count(SimOptions::default()), device.factory_bad_blocks() as usize);
    assert_eq!(count(SimOptions { factory_bad_ppm: Some(0), ..SimOptions::default() }), 0);
}

#[test]
fn a_failed_program_spends_the_page_and_leaves_the_source() {
    let mut nand = faulty(SimOptions { seed: 4, program_fail_ppm: 200_000, ..SimOptions::default() });
    let (mut failures, mut version, mut current) = (0, 0, None);
    for block in (0..64).map(Pbn) {
        for page in 0..64 {
            let ppn = nand.geometry().page_in(block, page);
            let from = match current {
                None => Source::Metadata(&[0; 512]),
                Some(old) => Source::Patch(old, &[(1, 7)]),
            };
            match nand.program(ppn, table(1, version + 1), WRITE, from, NOW) {
                Ok(_) => (current, version) = (Some(ppn), version + 1),
                Err(Fault::ProgramFailed { ppn: failed, .. }) => {
                    assert_eq!(failed, ppn);
                    failures += 1;
                    assert!(matches!(nand.scan(ppn, NOW), Err(Fault::Uncorrectable { .. })));
                    assert_eq!(nand.peek(ppn), None);
                }
                Err(fault) => panic!("{fault:?}"),
            }
            assert_eq!(nand.written(block), page + 1);
        }
    }
    near(failures, 4096 / 5);
    assert_eq!(nand.counts().total_programs(), 4096);
    nand.read(current.unwrap(), Class::HostRead, Sink::Controller, NOW).unwrap();
    assert_eq!(nand.buffer()[4..8], [7, 0, 0, 0]);
}

#[test]
fn a_block_whose_erase_failed_fails_for_ever() {
    let mut nand = faulty(SimOptions { seed: 9, erase_fail_ppm: 100_000, ..SimOptions::default() });
    let mut worn = Vec::new();
    for block in (0..64).map(Pbn) {
        let ppn = at(&nand, block.0, 0);
        nand.program(ppn, data(1, 1), WRITE, Source::Host, NOW).unwrap();
        for _ in 0..5 {
            if let Err(Fault::EraseFailed { block: failed, .. }) = nand.erase(block, NOW) {
                assert_eq!(failed, block);
                assert!(matches!(
                    nand.read(ppn, Class::HostRead, TO_HOST, NOW),
                    Err(Fault::Uncorrectable { .. })
                ));
                assert!(nand.erase(block, NOW).is_err());
                nand.retire(block);
                worn.push(block);
                break;
            }
        }
    }
    near(worn.len(), 26); // 64 * (1 - 0.9^5)
    assert!(worn.iter().all(|&block| nand.is_bad(block)));
}

#[test]
fn an_uncorrectable_page_is_a_property_of_what_was_written() {
    let mut nand = faulty(SimOptions { seed: 5, uncorrectable_ppm: 100_000, ..SimOptions::default() });
    let mut bad_pages = Vec::new();
    for round in 0..2 {
        let mut bad = Vec::new();
        for block in (0..64).map(Pbn) {
            for page in 0..64 {
                let ppn = nand.geometry().page_in(block, page);
                nand.program(ppn, data(ppn.0, 1), WRITE, Source::Host, NOW).unwrap();
                let mut reads = || nand.read(ppn, Class::HostRead, TO_HOST, NOW).is_ok();
                let first = reads();
                assert!((0..3).all(|_| reads() == first));
                assert_eq!(nand.inspect(ppn, &mut Vec::new()).is_some(), first);
                assert_eq!(nand.scan(ppn, NOW).unwrap().0, Some(data(ppn.0, 1)));
                if !first {
                    bad.push(ppn);
                }
            }
            if round == 0 {
                nand.erase(block, NOW).unwrap();
            }
        }
        near(bad.len(), 410);
        bad_pages.push(bad);
    }
    assert_ne!(bad_pages[0], bad_pages[1]);
    let same = bad_pages[0].iter().filter(|page| bad_pages[1].contains(page)).count();
    near(same, 41);
}

#[test]
fn a_metadata_read_that_fails_once_succeeds_next() {
    let mut nand = faulty(SimOptions { seed: 5, metadata_retry_ppm: 300_000, ..SimOptions::default() });
    let pages: Vec<Ppn> = (0..64).map(|page| at(&nand, 0, page)).collect();
    for &ppn in &pages {
        nand.program(ppn, table(ppn.0, 1), WRITE, Source::Metadata(&[1]), NOW).unwrap();
    }
    let mut failed = 0;
    for _ in 0..50 {
        let fails: Vec<Ppn> = pages
            .iter()
            .copied()
            .filter(|&ppn| nand.read(ppn, Class::HostRead, Sink::Controller, NOW).is_err())
            .collect();
        failed += fails.len();
        for ppn in fails {
            nand.read(ppn, Class::HostRead, Sink::Controller, NOW).unwrap();
            assert_eq!(nand.buffer()[0], 1);
        }
    }
    near(failed, 960);
}

#[test]
fn a_lost_page_scans_and_does_not_read() {
    for (kind, block) in [(PageKind::Data, 0), (PageKind::Translation, 1)] {
        let mut nand = plain();
        let ppn = at(&nand, block, 0);
        let oob = Oob { kind, lost: true, ..data(5, 6) };
        nand.program(ppn, oob, WRITE, Source::Nothing, NOW).unwrap();
        assert_eq!(nand.scan(ppn, NOW).unwrap().0, Some(oob));
        assert_eq!(nand.peek(ppn), Some(oob));
        assert_eq!(nand.inspect(ppn, &mut Vec::new()), None);
        let read = nand.read(ppn, Class::HostRead, TO_HOST, NOW);
        assert!(matches!(read, Err(Fault::Uncorrectable { ppn: page, .. }) if page == ppn));
    }
}

#[test]
fn a_torn_page_is_spent_and_unreadable() {
    let mut nand = plain();
    let (a, b, c) = (at(&nand, 0, 0), at(&nand, 0, 1), at(&nand, 0, 2));
    nand.torn(a);
    assert_eq!(nand.written(Pbn(0)), 1);
    nand.program(b, table(1, 1), WRITE, Source::Metadata(&[1]), NOW).unwrap();
    nand.program(c, table(2, 1), WRITE, Source::Metadata(&[1]), NOW).unwrap();
    nand.torn(c);
    assert_eq!((nand.written(Pbn(0)), nand.metadata_buffers().0), (3, 1));
    for ppn in [a, c] {
        assert!(nand.scan(ppn, NOW).is_err());
        assert!(nand.read(ppn, Class::HostRead, Sink::Controller, NOW).is_err());
        assert_eq!((nand.peek(ppn), nand.inspect(ppn, &mut Vec::new())), (None, None));
    }
    nand.read(b, Class::HostRead, Sink::Controller, NOW).unwrap();
    assert_eq!(nand.scan(at(&nand, 0, 3), NOW).unwrap().0, None);
}

#[test]
fn a_torn_block_reads_as_nothing_until_it_is_erased() {
    let mut nand = plain();
    nand.torn_block(Pbn(3));
    for page in 0..4 {
        let ppn = at(&nand, 3, page);
        assert!(nand.scan(ppn, NOW).is_err());
        assert!(nand.read(ppn, Class::HostRead, TO_HOST, NOW).is_err());
    }
    nand.erase(Pbn(3), NOW).unwrap();
    let ppn = at(&nand, 3, 0);
    nand.program(ppn, data(1, 1), WRITE, Source::Host, NOW).unwrap();
    assert_eq!(nand.scan(ppn, NOW).unwrap().0, Some(data(1, 1)));
}

#[test]
fn a_retired_block_stays_readable() {
    let mut nand = plain();
    let ppn = at(&nand, 3, 0);
    nand.program(ppn, data(1, 1), WRITE, Source::Host, NOW).unwrap();
    nand.retire(Pbn(3));
    assert!(nand.is_bad(Pbn(3)));
    assert_eq!(nand.read(ppn, Class::HostRead, TO_HOST, NOW).unwrap().0, data(1, 1));
}
