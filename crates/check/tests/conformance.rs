//! Every registered scheme, by being registered, is held to the conformance suite: with fixed seeds and a
//! fresh one.

use crate::seed_given_or_fresh;
use check::{conformance_with, ConformanceReport};
use ftl::schemes;

fn report(scheme: &str, seed: u64) -> ConformanceReport {
    report_with(scheme, &[], seed)
}

fn report_with(scheme: &str, parameters: &[(&str, &str)], seed: u64) -> ConformanceReport {
    let given = parameters.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    match conformance_with(scheme, &given, seed) {
        Ok(report) => {
            println!("{scheme} {parameters:?}: {report:?}");
            report
        }
        Err(failure) => panic!("with {parameters:?}: {failure}"),
    }
}

#[test]
fn every_scheme_conforms() {
    for info in schemes::ALL {
        let more = match info.name {
            // It has all places of log pages in memory on most of the devices: one more where it has not.
            "tide" => Some(78),
            // A trim meets a translation page that cannot be read right after an orderly start.
            "learnedftl" => Some(455_329_754),
            _ => None,
        };
        let reports: Vec<_> = (1..=6).chain(more).map(|seed| report(info.name, seed)).collect();
        // `page` holds its table in memory, and the others have none: they hardly ever read a translation
        // page.
        let reads_translation_pages = info.name != "page" && !schemes::LOG_BLOCK.contains(&info.name);
        let rebuilt: u64 = reports.iter().map(|report| report.rebuilt).sum();
        assert_eq!(rebuilt > 0, reads_translation_pages, "{}", info.name);
        let gathered: u64 = reports.iter().map(|report| report.collections_group).sum();
        assert_eq!(gathered > 0, info.name.starts_with("learnedftl"), "{}", info.name);
    }
}

/// Groups with blocks of their own place and collect pages by other code than the default.
#[test]
fn learnedftl_by_groups_conforms() {
    let group = [("allocation", "group")];
    for seed in (1..=6).chain([seed_given_or_fresh()]) {
        let report = report_with("learnedftl", &group, seed);
        assert!(report.collections_group > 0, "seed {seed}: no group was collected");
    }
}

#[test]
fn every_scheme_conforms_with_a_fresh_seed() {
    let seed = seed_given_or_fresh();
    for info in schemes::ALL {
        report(info.name, seed);
    }
}
