//! The power of every registered scheme is cut twenty thousand times and more (of those that merge, in each
//! kind of merge), without and with failing flash.

use check::{fresh_seed, sweep, SweepOptions};
use ftl::log_block::stats::MERGES;
use ftl::schemes;

fn cut(faults: bool) {
    std::thread::scope(|scope| {
        for info in schemes::ALL {
            scope.spawn(move || {
                // The page map writes its table at checkpoints alone: it takes more of them until a block of
                // that is erased.
                let longer = if info.name == "page" { 2 } else { 1 };
                let requests = longer * SweepOptions::REQUESTS;
                let options = SweepOptions { faults, requests, ..SweepOptions::new(info.name, 1, 10_000) };
                match sweep(&options, &mut |_, _| {}) {
                    Ok(report) => {
                        println!("{}: {} cuts/s, {report:?}", info.name, report.cuts_a_second());
                        assert_eq!(report.not_exercised(), None, "{}", info.name);
                        assert_eq!(report.collections_group > 0, info.name.starts_with("learnedftl"));
                        // `block` has no log, and the requests here seldom fill a sequential block of
                        // `waftl`.
                        let least = if ["block", "waftl"].contains(&info.name) { 1 } else { 3 };
                        let merged =
                            MERGES.iter().filter(|kind| report.stats.get(kind.name) > Some(&0)).count();
                        let merges = schemes::LOG_BLOCK.contains(&info.name);
                        assert!(!merges || merged >= least, "{}: {:?}", info.name, report.stats);
                        // Sequences that became homes, groups that were merged, and log blocks compacted.
                        let compacted = report.stats.get("compacted_pages") > Some(&0);
                        assert!(info.name != "tide" || merged == 2 && compacted, "{:?}", report.stats);
                    }
                    Err(failure) => panic!("{failure}"),
                }
            });
        }
    });
}

#[test]
fn every_scheme_survives_power_cuts() {
    cut(false);
}

#[test]
fn every_scheme_survives_power_cuts_on_failing_flash() {
    cut(true);
}

/// Returns how many groups were collected. A drawn device may collect none.
fn cut_groups(mut options: SweepOptions) -> u64 {
    options.parameters.insert("allocation".to_owned(), "group".to_owned());
    match sweep(&options, &mut |_, _| {}) {
        Ok(report) => report.collections_group,
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn groups_with_blocks_of_their_own_survive_power_cuts() {
    for (seed, cuts, least) in [(1, 5_000, 1), (fresh_seed(), 1_000, 0)] {
        for faults in [false, true] {
            let options = SweepOptions { faults, ..SweepOptions::new("learnedftl", seed, cuts) };
            assert!(cut_groups(options) >= least, "seed {seed}: no group was collected");
        }
    }
}

/// Seeds of devices that once refused a write although there was room (two), whose recovery took pages of a
/// superblock's older opening for its own, or that had a superblock with more valid pages than its good
/// blocks have.
#[test]
fn groups_with_blocks_of_their_own_find_room_on_any_device() {
    let cases = [
        (15_891_611, false, 76, 1),
        (70, true, 400, 1),
        (130_703_613, true, 332, 1),
        (127_600_591, true, 61, 1),
        (fresh_seed(), false, 400, 0),
        (fresh_seed(), true, 400, 0),
    ];
    for (seed, faults, requests, least) in cases {
        let options = SweepOptions::new("learnedftl", seed, 1_000);
        let collected = cut_groups(SweepOptions { faults, requests, swarm: true, ..options });
        assert!(collected >= least, "seed {seed}: no group was collected");
    }
}

/// Runs that lost a page once (`waftl`), or came to the end of the device's life in the middle of the sweep.
#[test]
fn runs_that_once_failed_are_survived() {
    for (scheme, seed) in [("waftl", 987_654_321), ("adapt", 424_242_048), ("last", 424_242_048)] {
        let options = SweepOptions { faults: true, ..SweepOptions::new(scheme, seed, 499) };
        if let Err(failure) = sweep(&options, &mut |_, _| {}) {
            panic!("{failure}");
        }
    }
}
