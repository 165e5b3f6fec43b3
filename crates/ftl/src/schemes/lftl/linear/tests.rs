//! Bijections, exactness, and that no page is forgotten.
#![allow(clippy::unwrap_used)]

use super::*;
use nand::{Geometry, Ppn};

/// The paper's method.
fn ransac_settings() -> Settings {
    Settings { method: Method::Ransac, ..Settings::default() }
}
use proptest::prelude::*;

fn dice(seed: u32) -> impl FnMut(u32) -> u32 {
    let mut state = seed | 1;
    move |bound| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((u64::from(state) * u64::from(bound)) >> 32) as u32
    }
}

/// Pages in the order in which they are written to a group: runs, with scattered pages between. The last of
/// an LPA counts.
fn written() -> impl Strategy<Value = Vec<u16>> {
    let piece = prop_oneof![
        3 => (any::<u16>(), 1u16..300).prop_map(|(first, count)| {
            (0..count).map_while(|i| first.checked_add(i)).collect::<Vec<u16>>()
        }),
        2 => prop::collection::vec(any::<u16>(), 1..20),
    ];
    prop::collection::vec(piece, 1..12).prop_map(|pieces| pieces.concat())
}

fn points(order: &[u16]) -> Vec<Point> {
    let newest: std::collections::BTreeMap<u16, u16> = order.iter().copied().zip(0..).collect();
    newest.into_iter().collect()
}

/// The first pages in a row whose LPAs follow one another.
fn exemplary(order: &[u16], count: usize) -> Vec<Point> {
    let follows = |pair: &&[u16]| u32::from(pair[1]) == u32::from(pair[0]) + 1;
    let runs = order.windows(2).zip(1u16..).filter(|(pair, _)| follows(pair));
    runs.map(|(pair, local)| (pair[1], local)).take(count).collect()
}

fn train(group: u16, points: &[Point], exemplary: &[Point], settings: &Settings, seed: u32) -> Trainer {
    let mut trainer = Trainer { settings: *settings, ..Trainer::default() };
    trainer.train(group, points.iter().copied(), exemplary, &mut dice(seed));
    trainer
}

#[test]
fn the_model_is_eight_bytes() {
    let model = LinearModel { start: 7, group: 300, slope: Half::nearest(-0.5), base: 65_000 };
    assert_eq!(size_of::<LinearModel>(), LinearModel::BYTES);
    assert_eq!(LinearModel::from_bytes(model.to_bytes()), model);
    assert_eq!((model.predict(7), model.predict(10)), (Some(65_000), Some(64_998)));
    let steep = LinearModel { slope: Half::nearest(2.0), ..model };
    assert_eq!(steep.predict(u16::MAX), None);
}

#[test]
fn halves_are_nearest() {
    assert_eq!(Half::nearest(1.0), Half::ONE);
    assert_eq!(
        (Half::nearest(1.0 / 3.0).0, Half::nearest(-2.0).0, Half::nearest(1e9).0),
        (0x3555, 0xc000, 0x7bff)
    );
    for bits in 0..0x7c00u16 {
        assert_eq!(Half::nearest(Half(bits).value()), Half(bits));
    }
    assert_eq!(
        (Half::ONE.times(65_535), Half::nearest(0.5).times(3), Half::nearest(-0.5).times(3)),
        (65_535, 2, -2)
    );
}

#[test]
fn the_papers_iterations() {
    assert_eq!(Settings::default().iterations(), 3, "q = 0.99, p = 0.95, k = 3");
    assert_eq!(Settings { inliers: 0.5, ..Settings::default() }.iterations(), 35);
    assert_eq!(Settings { inliers: 1.0, ..Settings::default() }.iterations(), 1);
}

#[test]
fn a_stream_is_one_model_and_random_writes_are_outliers() {
    let mut order: Vec<u16> = (1000..3000).collect();
    for (at, lpn) in [(3, 40_000), (500, 9), (501, 50_001), (1500, 7)] {
        order.insert(at, lpn);
    }
    let (points, settings) = (points(&order), ransac_settings());
    let trained = train(4, &points, &exemplary(&order, 3), &settings, 1);
    assert!(trained.models.len() <= 5, "{:?}", trained.models);
    assert_eq!(trained.outliers.len(), 4, "{:?}", trained.outliers);
    let quiet: Vec<u16> = (1000..3000).collect();
    let quiet = super::tests::points(&quiet);
    let trained = train(4, &quiet, &quiet[..3], &settings, 1);
    assert_eq!((trained.models.len(), trained.outliers.len(), trained.iterations), (1, 0, 1));
    let followed = train(4, &quiet, &quiet[..3], &Settings::default(), 1);
    assert!(followed.has_searched && followed.iterations == 0, "runs take no iterations");
    assert_eq!(trained.literal_outliers, 0, "-1000 is a 16-bit float");
    let shifted: Vec<Point> = (6000..8000).map(|lpa| (lpa, lpa - 5001)).collect();
    let trained = train(4, &shifted, &shifted[..3], &settings, 1);
    assert_eq!((trained.outliers.len(), trained.literal_outliers), (0, 2000), "-5001 is no 16-bit float");
}

#[test]
fn two_runs_of_a_stream_are_two_lines() {
    let order: Vec<u16> = (0..1000).chain(30_000..31_000).collect();
    let points = points(&order);
    let paper = Settings { rounds: 1, ..ransac_settings() };
    let one = train(0, &points, &exemplary(&order, 3), &paper, 1);
    assert_eq!((one.models.len(), one.outliers.len()), (1, 1000));
    for all in [ransac_settings(), Settings::default()] {
        let all = train(0, &points, &exemplary(&order, 3), &all, 1);
        assert_eq!((all.models.len(), all.outliers.len()), (2, 0));
    }
}

#[test]
fn lanes_are_groups_of_their_own_and_divided_ones_keep_theirs() {
    let geometry = Geometry {
        channels: 4,
        luns_per_channel: 3,
        planes_per_lun: 1,
        blocks_per_plane: 2,
        pages_per_block: 5,
        page_bytes: 512,
        oob_bytes: 64,
    };
    let mut lists = BlockLists::new(&geometry, 8).unwrap();
    lists.set(1, |unit| unit != 4);
    let before: Vec<_> = (60..120).map(|ppn| lists.local(Ppn(ppn))).collect();
    lists.divide(1, ROOT);
    lists.divide(1, 3);
    assert_eq!((lists.units_of(2), lists.units_of(6), lists.units_of(7)), (0..6, 6..9, 9..12));
    let nodes: Vec<u32> = (0..12).map(|unit| lists.node_of(1, unit)).collect();
    assert_eq!(nodes, [2, 2, 2, 2, 2, 2, 6, 6, 6, 7, 7, 7]);
    let mut seen = std::collections::BTreeSet::new();
    for (ppn, before) in (60..120).map(Ppn).zip(before) {
        let now = lists.local(ppn);
        assert_eq!(now.is_some(), ppn.0 % 12 != 4);
        let (Some((group, local)), Some((root, at))) = (now, before) else { continue };
        assert!(lists.is_of(group, 1, nodes[ppn.0 as usize % 12]) && lists.is_of(root, 1, ROOT));
        assert_eq!((lists.global(group, local), lists.global(root, at)), (Some(ppn), Some(ppn)));
        assert!(seen.insert((group, local)));
    }
    // A stream that writes the second lane in turn has local PPAs one after the other.
    let lane: Vec<u16> = (0..5)
        .flat_map(|row| (6..9).map(move |unit| 60 + row * 12 + unit))
        .map(|ppn| lists.local(Ppn(ppn)).unwrap().1)
        .collect();
    assert_eq!(lane, (0..15).collect::<Vec<u16>>());
}

#[test]
fn one_pass_finds_every_run_whatever_their_number() {
    // 200 runs, every second one of two streams that take turns, and a random write in each.
    let mut order = Vec::new();
    for run in 0..200u16 {
        match run % 2 {
            0 => order.extend((0..40).map(|at| run * 100 + at)),
            _ => order.extend((0..40).flat_map(|at| [run * 100 + at, run * 100 + 50 + at])),
        }
        order.insert(order.len() - 3, 60_000 + run * 3);
    }
    let points = points(&order);
    let trained = train(1, &points, &[], &Settings::default(), 1);
    let ransac = train(1, &points, &exemplary(&order, 3), &ransac_settings(), 1);
    assert!(
        trained.outliers.len() * 4 < ransac.outliers.len(),
        "{} of {}",
        trained.outliers.len(),
        points.len()
    );
    assert!(trained.looked_at < 25 * points.len() as u64, "{} for {}", trained.looked_at, points.len());
    assert!(ransac.looked_at > 40 * points.len() as u64);
}

#[test]
fn a_run_of_any_slope_and_with_holes_is_one_model() {
    for step in [1u16, 2, 7, 16] {
        let mut points: Vec<Point> = (0..1000).map(|at| (500 + at, 9 + step * at)).collect();
        for at in [100, 101, 500] {
            points[at].1 = 65_000 + at as u16 % 7;
        }
        let trained = train(1, &points, &[], &Settings::default(), 1);
        assert_eq!((trained.models.len(), trained.outliers.len()), (1, 3), "step {step}");
    }
    let random: Vec<Point> = (0..2000).map(|at| (at, (u32::from(at) * 7919 % 65_521) as u16)).collect();
    let trained = train(1, &random, &[], &Settings::default(), 1);
    assert!(trained.outliers.len() > 1900, "{}", trained.outliers.len());
}

#[test]
fn a_large_superblock_is_several_groups() {
    let geometry = Geometry {
        channels: 8,
        luns_per_channel: 8,
        planes_per_lun: 4,
        blocks_per_plane: 3,
        pages_per_block: 700,
        page_bytes: 512,
        oob_bytes: 64,
    };
    let mut lists = BlockLists::new(&geometry, 4).unwrap();
    (0..3).for_each(|superblock| lists.set(superblock, |unit| unit != 5 && unit != 200));
    let pages = geometry.superblock_pages();
    let mut groups = std::collections::BTreeSet::new();
    for ppn in (pages..2 * pages).map(Ppn) {
        if let Some((group, local)) = lists.local(ppn) {
            groups.insert(group);
            assert_eq!(lists.global(group, local), Some(ppn));
        } else {
            assert!([5, 200].contains(&(ppn.0 % 256)));
        }
    }
    assert_eq!(groups.into_iter().collect::<Vec<_>>(), [3, 4, 5], "256 rows, 256, and 188");
    assert_eq!(lists.global(5, u16::MAX), None);
    let many = Geometry { blocks_per_plane: 1 << 15, pages_per_block: 700, ..geometry };
    assert!(BlockLists::new(&many, 4).unwrap_err().to_string().contains("16 bits"));
}

proptest! {
    #[test]
    fn local_addresses_are_a_bijection_onto_the_group(
        channels in 1u32..4, luns in 1u32..4, planes in 1u32..3, pages in 1u32..9, chosen in any::<u64>(),
    ) {
        let geometry = Geometry {
            channels, luns_per_channel: luns, planes_per_lun: planes, blocks_per_plane: 4, pages_per_block: pages,
            page_bytes: 512, oob_bytes: 64,
        };
        let mut lists = BlockLists::new(&geometry, 4).unwrap();
        let is_good = |superblock: u32, unit: u32| chosen >> ((superblock * geometry.units() + unit) % 64) & 1 == 1;
        let mut bytes = Vec::new();
        for superblock in 0..geometry.superblocks() {
            lists.set(superblock, |unit| is_good(superblock, unit));
            lists.to_bytes(superblock, &mut bytes);
            lists.set(superblock, |_| true);
            lists.set_bytes(superblock, &bytes);
        }
        for ppn in (0..geometry.pages()).map(Ppn) {
            let (block, _) = geometry.block_of(ppn);
            let listed = is_good(block.0 / geometry.units(), geometry.unit_of(block));
            let local = lists.local(ppn);
            prop_assert_eq!(local.is_some(), listed);
            if let Some((group, local)) = local {
                prop_assert_eq!(lists.global(group, local), Some(ppn));
                prop_assert_eq!(lists.superblock_of(group), geometry.superblock_of(ppn));
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        for group in 0..geometry.superblocks() as u16 {
            let pages: Vec<Ppn> = (0..1000).map_while(|local| lists.global(group, local)).collect();
            prop_assert!(pages.windows(2).all(|pair| pair[0] < pair[1]), "in the order in which they are written");
            for (local, ppn) in (0..).zip(pages) {
                prop_assert!(seen.insert(ppn.0));
                prop_assert_eq!(lists.local(ppn), Some((group, local)));
            }
        }
        let listed = (0..geometry.pages()).filter(|&ppn| lists.local(Ppn(ppn)).is_some()).count();
        prop_assert_eq!(seen.len(), listed);
    }

    #[test]
    fn every_page_is_in_one_model_or_an_outlier(
        order in written(), rounds in 0u32..5, seed in any::<u32>(),
    ) {
        let points = points(&order);
        let method = if rounds == 0 { Method::Runs } else { Method::Ransac };
        let settings = Settings { method, rounds, ..Settings::default() };
        let trained = train(9, &points, &exemplary(&order, 3), &settings, seed);
        for pair in trained.models.windows(2) {
            prop_assert!(pair[0].last < pair[1].model.start, "ranges are disjoint");
        }
        let outliers: std::collections::BTreeMap<u16, u16> = trained.outliers.iter().copied().collect();
        prop_assert_eq!(outliers.len(), trained.outliers.len());
        let mut members = vec![0; trained.models.len()];
        for &(lpa, local) in &points {
            let covering = trained.models.iter().position(|own| own.model.start <= lpa && lpa <= own.last);
            match outliers.get(&lpa) {
                Some(&kept) => prop_assert_eq!(kept, local),
                None => {
                    let own = covering.unwrap();
                    prop_assert_eq!(trained.models[own].model.predict(lpa), Some(local));
                    members[own] += 1;
                }
            }
        }
        for (own, count) in trained.models.iter().zip(members) {
            let covered = u32::from(own.last - own.model.start) + 1;
            let present = points.iter().filter(|point| own.model.start <= point.0 && point.0 <= own.last).count();
            prop_assert_eq!(present as u32, covered, "LPAs are covered without a gap");
            prop_assert!(count >= 2, "a model of one page gains nothing");
        }
    }
}
