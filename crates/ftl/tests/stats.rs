//! What schemes declare to count themselves.

use ftl::{schemes, Stat};

#[test]
fn each_scheme_declares_its_statistics_without_contradiction() {
    for info in schemes::ALL {
        for (index, stat) in info.stats.iter().enumerate() {
            let place = format!("{}: {}", info.name, stat.name);
            assert!(stat.slot < Stat::SLOTS, "{place}");
            let before = &info.stats[..index];
            assert!(before.iter().all(|other| other.slot != stat.slot && other.name != stat.name), "{place}");
            // What it is set in relation to is counted by the same scheme.
            assert!(stat.of.is_none_or(|of| info.stats.iter().any(|other| other.name == of)), "{place}");
        }
    }
}

#[test]
fn a_name_means_the_same_in_every_scheme() {
    let all = || schemes::ALL.iter().flat_map(|info| info.stats);
    for stat in all() {
        assert!(all().all(|other| other.name != stat.name || other == stat), "{stat:?}");
    }
}
