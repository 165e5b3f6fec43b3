//! The directory against a reference map, and against what a recovery would make of the pages.
#![allow(clippy::unwrap_used)]

use super::*;
use nand::timing::NoClock;
use nand::{DeviceSpec, Geometry, SimNand, SimOptions};
use proptest::prelude::*;
use std::collections::BTreeMap;

const GROUPS: u32 = 60;

fn flash() -> Flash<SimNand<NoClock>> {
    let geometry = Geometry {
        channels: 2,
        luns_per_channel: 2,
        planes_per_lun: 1,
        blocks_per_plane: 100,
        pages_per_block: 16,
        page_bytes: 512,
        oob_bytes: 64,
    };
    let options = SimOptions { keep_stale: true, ..SimOptions::default() };
    Flash::new(SimNand::new(&DeviceSpec::tiny(geometry, 1), NoClock::new(), options))
}

fn content(flash: &Flash<SimNand<NoClock>>, records: &Records) -> BTreeMap<u32, Vec<u8>> {
    let (mut found, mut page) = (BTreeMap::new(), Vec::new());
    for index in 0..records.pages() {
        records.inspect_page(flash, index, &mut page);
        for group in records.range(index).filter(|_| !page.is_empty()) {
            let record = record_in(&page, group);
            if !record.is_empty() {
                found.insert(group, record.to_vec());
            }
        }
    }
    found
}

/// The directory as recovery rebuilds it from all pages ever written, as far as `programs` goes.
fn recovered(flash: &Flash<SimNand<NoClock>>, version: u64) -> Records {
    let mut newest: BTreeMap<u32, (u64, u32, Ppn, Span)> = BTreeMap::new();
    let mut page = Vec::new();
    for ppn in (0..flash.nand().geometry().pages()).map(Ppn) {
        let Some(oob) = flash.nand().inspect(ppn, &mut page).filter(|oob| oob.version <= version) else {
            continue;
        };
        let it = (oob.version, oob.id, ppn, Span::of(&page).unwrap());
        let known = newest.entry(oob.id).or_insert(it);
        if known.0 < it.0 {
            *known = it;
        }
    }
    let mut records = Records::new(GROUPS, 512);
    records.rebuild(newest.into_values().collect(), &[]);
    records
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn pages_are_split_and_merged_and_lose_nothing(
        steps in prop::collection::vec((0..GROUPS, prop::collection::vec((0..GROUPS, 0usize..4), 1..40)), 1..40)
    ) {
        let mut flash = flash();
        let mut records = Records::new(GROUPS, 512);
        let mut truth: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        let mut version = 0;
        for (number, (group, changes)) in (1u8..).zip(steps) {
            let newer: BTreeMap<u32, Vec<u8>> =
                changes.into_iter().map(|(group, size)| (group, vec![number; [0, 9, 60, 300][size]])).collect();
            let before = truth.clone();
            let of = |group: u32| newer.get(&group).map(|record| (&record[..], Done::READY));
            let (range, _) = records.store(&mut flash, group, of, Cause::Translation, Done::READY).unwrap();
            prop_assert!(range.contains(&group));
            for (&group, record) in newer.iter().filter(|(group, _)| range.contains(group)) {
                truth.remove(&group);
                if !record.is_empty() {
                    truth.insert(group, record.clone());
                }
            }
            prop_assert_eq!(records.check(&flash), Ok(()));
            prop_assert_eq!(&content(&flash, &records), &truth);
            // A cut after any of the programs of this step: each group is as before, or as after.
            let now = flash.next_metadata_version();
            for cut in version..=now {
                let found = content(&flash, &recovered(&flash, cut));
                for group in 0..GROUPS {
                    let state = found.get(&group);
                    prop_assert!(state == before.get(&group) || state == truth.get(&group));
                }
            }
            let rebuilt = recovered(&flash, now);
            prop_assert_eq!(content(&flash, &rebuilt), truth.clone());
            version = now;
        }
    }
}

#[test]
fn small_neighbours_are_merged() {
    let mut flash = flash();
    let mut records = Records::new(GROUPS, 512);
    let long = [7u8; 200];
    let all = |_: u32| Some((&long[..], Done::READY));
    records.store(&mut flash, 0, all, Cause::Translation, Done::READY).unwrap();
    assert_eq!(records.pages(), GROUPS as usize / 2, "two to a page");
    let short = [1u8; 4];
    for _ in 0..GROUPS {
        for group in 0..GROUPS {
            let few = |_: u32| Some((&short[..], Done::READY));
            records.store(&mut flash, group, few, Cause::Translation, Done::READY).unwrap();
            if records.pages() <= 4 {
                return;
            }
        }
    }
    panic!("{} pages hold 600 bytes", records.pages());
}

#[test]
fn what_was_never_written_is_written_page_by_page() {
    let mut flash = flash();
    let mut records = Records::new(GROUPS, 512);
    // Three to a page.
    let long = [7u8; 150];
    let is_newer = |group: u32| group != 20;
    let bytes = |group: u32| if is_newer(group) { long.len() } else { 0 };
    let mut order: Vec<u32> = (0..GROUPS).filter(|group| group % 7 == 3).collect();
    order.extend(0..GROUPS);
    for group in order {
        records.cut_unwritten(group, bytes);
        let index = records.page_of(group);
        assert!(
            records.ppn(index).is_some() || records.range(index).len() <= 4,
            "{:?}",
            records.range(index)
        );
        if records.ppn(index).is_none() {
            let newer = |group| is_newer(group).then_some((&long[..], Done::READY));
            records.store(&mut flash, group, newer, Cause::Translation, Done::READY).unwrap();
        }
        assert_eq!(records.check(&flash), Ok(()));
    }
    assert_eq!(content(&flash, &records).len(), GROUPS as usize - 1);
    assert!(records.pages() <= 30, "{} pages for {GROUPS} groups", records.pages());
    assert_eq!(records.cut_unwritten(0, bytes), 0, "what was written is not cut");
}

#[test]
fn a_page_that_moves_is_found_again() {
    let mut flash = flash();
    let mut records = Records::new(GROUPS, 512);
    let one = |group: u32| (group == 9).then_some((&[1u8, 2, 3][..], Done::READY));
    records.store(&mut flash, 9, one, Cause::Translation, Done::READY).unwrap();
    let from = records.ppn(0).unwrap();
    records.relocate(&mut flash, from, Done::READY).unwrap();
    assert_ne!(records.ppn(0), Some(from));
    records.load(&mut flash, 9, Cause::Translation, Done::READY).unwrap();
    assert_eq!(record_in(flash.buffer(), 9), [1, 2, 3]);
    assert_eq!(records.check(&flash), Ok(()));
}
