//! Every scheme on devices whose blocks fail early: they end with an answer, without a panic, and what was
//! written stays readable.

use check::wear_out;
use ftl::schemes;
use std::collections::BTreeMap;

/// Seeds 1 and 3 hung `faster`.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=20;

#[test]
fn every_scheme_ends_with_an_answer() {
    let fresh = check::fresh_seed();
    println!("fresh seed: {fresh}");
    std::thread::scope(|scope| {
        for scheme in schemes::ALL.iter().map(|info| info.name) {
            scope.spawn(move || {
                let mut ended = 0;
                for seed in SEEDS.chain([fresh]) {
                    match wear_out(scheme, &BTreeMap::new(), seed) {
                        Ok(report) => ended += u32::from(report.ended),
                        Err(failure) => panic!("{failure}"),
                    }
                }
                assert!(ended > 0, "{scheme}: no device came to its end");
            });
        }
    });
}

/// Collection found no superblock, as many programs had failed at once; a lane was opened in a superblock
/// that had been closed meanwhile, as all blocks of the lane before were bad.
#[test]
fn lives_that_once_ended_in_a_panic_end_with_an_answer() {
    for seed in [899_230_757, 899_231_048] {
        if let Err(failure) = wear_out("lftl", &BTreeMap::new(), seed) {
            panic!("{failure}");
        }
    }
}
