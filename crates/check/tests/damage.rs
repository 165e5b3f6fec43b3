//! Damaged images of every registered scheme: right data, an error or a refusal, never anything else.

use check::{damage, DamageOptions, Outcome};
use ftl::schemes;
use std::collections::BTreeMap;

/// Places that are damaged for each scheme and seed.
const TRIES: u64 = 120;

/// Damages images of each scheme. Returns what read as an error, by scheme.
fn campaign(seed: u64) -> Vec<(&'static str, u64)> {
    let mut errors = Vec::new();
    for info in schemes::ALL {
        let scheme = info.name.to_owned();
        let options = DamageOptions { scheme, parameters: BTreeMap::new(), seed, tries: TRIES, only: None };
        let report = damage(&options, &mut |_, _| {}).unwrap_or_else(|failure| panic!("{failure}"));
        if let Some(finding) = report.finding {
            panic!("{finding}");
        }
        let counts = Outcome::ALL.map(|outcome| report.count(outcome));
        println!("{}: {counts:?} of {} right, error, refused, wrong, panic", info.name, report.tries());
        assert!(counts[0] > TRIES / 2, "{}: most places should be harmless", info.name);
        errors.push((info.name, counts[1]));
    }
    errors
}

#[test]
fn damage_is_never_taken_for_data() {
    for (scheme, errors) in campaign(1) {
        assert!(errors > 0, "{scheme}: the damage was too tame");
    }
}

#[test]
fn damage_by_a_fresh_seed_is_never_taken_for_data() {
    // A seed of its own for each run, so that what one seed hides another finds.
    let seed = check::fresh_seed();
    println!("fresh seed {seed}");
    let errors = campaign(seed);
    // Three or four are usual for a scheme, and none is possible.
    let all: u64 = errors.iter().map(|(_, errors)| errors).sum();
    assert!(all > errors.len() as u64, "the damage was too tame: {errors:?}");
}
