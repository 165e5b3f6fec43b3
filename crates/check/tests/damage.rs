//! Damaged images of every registered scheme: right data, an error or a refusal, never anything else.

use check::{damage, DamageOptions, Outcome};
use ftl::schemes;
use std::collections::BTreeMap;

/// Places that are damaged for each scheme and seed.
const TRIES: u64 = 120;

fn campaign(seed: u64) {
    for info in schemes::ALL {
        let scheme = info.name.to_owned();
        let options = DamageOptions { scheme, parameters: BTreeMap::new(), seed, tries: TRIES, only: None };
        let report = damage(&options, &mut |_, _| {}).unwrap_or_else(|failure| panic!("{failure}"));
        if let Some(finding) = report.finding {
            panic!("{finding}");
        }
        let counts = Outcome::ALL.map(|outcome| report.count(outcome));
        println!("{}: {counts:?} of {} right, error, refused, wrong, panic", info.name, report.tries());
        assert!(counts[0] > TRIES / 2 && counts[1] > 0, "{}: the damage was too tame", info.name);
    }
}

#[test]
fn damage_is_never_taken_for_data() {
    campaign(1);
}

#[test]
fn damage_by_a_fresh_seed_is_never_taken_for_data() {
    // A seed of its own for each run, so that what one seed hides another finds.
    let seed = check::fresh_seed();
    println!("fresh seed {seed}");
    campaign(seed);
}
