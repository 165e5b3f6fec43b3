//! Every scheme on devices whose blocks fail early: they end with an answer, without a panic, and what was
//! written stays readable.

use check::wear_out;
use ftl::schemes;

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
                    match wear_out(scheme, seed) {
                        Ok(report) => ended += u32::from(report.ended),
                        Err(failure) => panic!("{failure}"),
                    }
                }
                assert!(ended > 0, "{scheme}: no device came to its end");
            });
        }
    });
}
