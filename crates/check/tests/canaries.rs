//! Faulty schemes and arrays that the checker must catch. A check that cannot fail proves nothing.

mod sabotage;
mod toy;

use check::{conformance_of, sweep_of, Cuttable, Failure, SweepOptions};
use ftl::schemes::dftl::Dftl;
use ftl::schemes::page::PageMap;
use ftl::schemes::tpftl::Tpftl;
use ftl::Scheme;
use nand::CrashNand;
use sabotage::Sabotage;
use toy::Toy;

fn failure<S: Scheme, N: Cuttable>() -> Failure {
    let options = SweepOptions::new(S::INFO.name, 1, 20_000);
    match sweep_of::<S, N>(&options, &mut |_, _| {}) {
        Err(failure) => failure,
        Ok(report) => panic!("the canary was not caught: {report:?}"),
    }
}

/// Runs a faulty pair and checks what is said of it, and that the command repeats it.
fn caught<S: Scheme, N: Cuttable>(expected: &[&str]) {
    let first = failure::<S, N>();
    assert!(expected.iter().any(|&text| first.what.starts_with(text)), "caught for another reason: {first}");
    let again =
        SweepOptions { seed: first.seed, only_cut: first.cut, ..SweepOptions::new(S::INFO.name, 1, 20_000) };
    let second = sweep_of::<S, N>(&again, &mut |_, _| {});
    assert_eq!(second.err(), Some(first.clone()));
    println!("{first}");
}

const OLD: &str = "an older version came back";
const GONE: &str = "a durable write is gone";
const UNDONE: &str = "a durable trim was undone";
const READS: &str = "LPN";
/// The mapping leads to a page that is not there: the array's own assertion.
const ABSENT: &str = "panic: read of page";
/// The mapping leads to a page of something else: the scheme's own assertion.
const OTHER: &str = "panic: the mapping led";
/// The same, found at recovery.
const TWICE: &str = "panic: two logical pages";

#[test]
fn the_sound_toy_passes() {
    for faults in [false, true] {
        let options = SweepOptions { faults, ..SweepOptions::new("toy", 1, 10_000) };
        match sweep_of::<Toy<{ toy::SOUND }>, CrashNand>(&options, &mut |_, _| {}) {
            Ok(report) => println!("{} cuts/s, {report:?}", report.cuts_a_second()),
            Err(failure) => panic!("{failure}"),
        }
    }
}

#[test]
fn an_erase_that_overtakes_its_copies() {
    caught::<Toy<{ toy::ERASE_AT_ONCE }>, CrashNand>(&[OLD, GONE]);
    caught::<PageMap, Sabotage<{ sabotage::ERASE_AT_ONCE }>>(&[OLD, GONE, ABSENT, OTHER, TWICE]);
    caught::<Dftl, Sabotage<{ sabotage::ERASE_AT_ONCE }>>(&[OLD, GONE, ABSENT, OTHER, TWICE]);
    caught::<Tpftl, Sabotage<{ sabotage::ERASE_AT_ONCE }>>(&[OLD, GONE, ABSENT, OTHER, TWICE]);
}

#[test]
fn a_dropped_trim_record() {
    caught::<Toy<{ toy::TRIM_DROPPED }>, CrashNand>(&[UNDONE, READS]);
    caught::<Toy<{ toy::TRIM_FORGOTTEN }>, CrashNand>(&[UNDONE, READS]);
    caught::<PageMap, Sabotage<{ sabotage::TRIM_DROPPED }>>(&[UNDONE, ABSENT, OTHER, TWICE]);
    caught::<Dftl, Sabotage<{ sabotage::TRIM_DROPPED }>>(&[UNDONE, ABSENT, OTHER, TWICE]);
}

#[test]
fn a_version_that_does_not_grow() {
    caught::<PageMap, Sabotage<{ sabotage::VERSION_STUCK }>>(&[READS]);
    caught::<Dftl, Sabotage<{ sabotage::VERSION_STUCK }>>(&[READS]);
}

#[test]
fn a_translation_page_before_its_data() {
    caught::<Dftl, Sabotage<{ sabotage::MAPPING_FIRST }>>(&[OLD, GONE, ABSENT, OTHER, TWICE, READS]);
}

#[test]
fn a_flush_that_returns_at_once() {
    caught::<Toy<{ toy::FLUSH_AT_ONCE }>, CrashNand>(&[UNDONE]);
    caught::<PageMap, Sabotage<{ sabotage::SETTLED_AT_ONCE }>>(&[UNDONE, OLD, GONE, ABSENT, OTHER, TWICE]);
    caught::<Dftl, Sabotage<{ sabotage::SETTLED_AT_ONCE }>>(&[UNDONE, OLD, GONE, ABSENT, OTHER, TWICE]);
}

#[test]
fn a_write_acknowledged_too_early() {
    caught::<Toy<{ toy::WRITE_AT_ONCE }>, CrashNand>(&[OLD, GONE]);
    caught::<PageMap, Sabotage<{ sabotage::WRITE_AT_ONCE }>>(&[OLD, GONE]);
    caught::<Dftl, Sabotage<{ sabotage::WRITE_AT_ONCE }>>(&[OLD, GONE]);
    caught::<Tpftl, Sabotage<{ sabotage::WRITE_AT_ONCE }>>(&[OLD, GONE]);
}

#[test]
fn a_collection_that_revives_stale_pages() {
    caught::<Toy<{ toy::STALE_REVIVED }>, CrashNand>(&[READS]);
    let failure = conformance_of::<Toy<{ toy::STALE_REVIVED }>>("toy", 1).unwrap_err();
    assert!(failure.what.starts_with("LPN") && failure.what.contains("reads as"), "{failure}");
}

#[test]
fn a_recovery_that_takes_the_first_it_finds() {
    caught::<Toy<{ toy::FIRST_FOUND }>, CrashNand>(&[OLD, READS]);
}

#[test]
fn the_sound_toy_conforms() {
    for seed in 1..=3 {
        if let Err(failure) = conformance_of::<Toy<{ toy::SOUND }>>("toy", seed) {
            panic!("{failure}");
        }
    }
}

#[test]
fn an_operation_that_is_not_counted() {
    let failure = conformance_of::<Toy<{ toy::UNCOUNTED }>>("toy", 1).unwrap_err();
    assert!(failure.what.starts_with("the door counted"), "{failure}");
}
