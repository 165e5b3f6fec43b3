//! Devices whose blocks fail until too few are left, with power cuts: found by seeds drawn at random.

use check::{sweep, SweepOptions};

#[test]
fn the_end_of_life_is_no_breach() {
    for (scheme, seed, cut) in [
        ("page", 424_242_111, 4866),
        ("page", 31_000_120, 0),
        ("dftl", 32_000_196, 0),
        ("tpftl", 424_242_048, 0),
        // Two metadata superblocks after a recovery, of which the first is written on.
        ("zftl", 290_209_404, 7302),
        // A page in a retired block, and in a move under way a copy of an older version.
        ("fast", 2, 9735),
        // Two copies of a page: the original, in a retired block of a superblock that holds mappings now.
        ("cdftl", 290_209_425, 8169),
    ] {
        let only_cut = (cut > 0).then_some(cut);
        let options = SweepOptions { faults: true, only_cut, ..SweepOptions::new(scheme, seed, 100) };
        if let Err(failure) = sweep(&options, &mut |_, _| {}) {
            panic!("{failure}");
        }
    }
}

/// Devices of the swarm on which something was lost once: the one good block of a superblock was retired
/// before copies of its pages were made; metadata was collected by cost and benefit; a device that had worn
/// in use, or that had bad blocks when it was new, was refused or found no room.
#[test]
fn devices_of_the_swarm_that_once_failed_are_survived() {
    for (scheme, seed, cut, requests) in [
        // Without failing flash: cost and benefit chose what gains less than its mapping costs.
        ("dftl", 500_165, None, 400),
        ("lazyftl", 500_161, None, 400),
        ("page", 77_095, Some(5628), 361),
        ("tpftl", 77_105, Some(517), 38),
        ("cdftl", 77_028, Some(1952), 145),
        ("fifo", 77_091, None, 199),
        ("zftl", 77_032, Some(13_314), 276),
        ("learnedftl", 77_014, None, 400),
        ("tide", 77_047, None, 400),
        ("tide", 77_128, Some(19), 2),
        // A translation page that was split made the directory, and so the mapping, a few bytes too large.
        ("lftl", 493_277_951, None, 114),
        // All log blocks beyond the limit were empty: erased, and still "nothing to merge" was a failure.
        ("tide", 424_226, Some(2136), 227),
        // All blocks to be erased lay on one parallel unit, and the first of them was bad.
        ("tide", 962_552_700, None, 1),
        // All free blocks were still to be erased, so that recovery took their pages for valid again.
        ("tide", 761_113_709, None, 59),
        // Two cuts left five superblocks half written and none free: recovery has to move data before it can
        // write a translation page.
        ("sftl", 493_278_569, Some(2003), 184),
        // A superblock whose next page lay inside a row was not written on after a recovery.
        ("leaftl", 77_158, None, 254),
    ] {
        let options = SweepOptions {
            faults: !(500_000..600_000).contains(&seed),
            swarm: true,
            only_cut: cut,
            requests,
            ..SweepOptions::new(scheme, seed, 50)
        };
        if let Err(failure) = sweep(&options, &mut |_, _| {}) {
            panic!("{failure}");
        }
    }
}

fn swarm(seed: u64, faults: bool) {
    for info in ftl::schemes::ALL {
        let options = SweepOptions { faults, swarm: true, ..SweepOptions::new(info.name, seed, 300) };
        if let Err(failure) = sweep(&options, &mut |_, _| {}) {
            panic!("{failure}");
        }
    }
}

#[test]
fn a_swarm_survives_power_cuts_on_failing_flash() {
    swarm(1, true);
}

#[test]
fn a_fresh_swarm_survives_power_cuts() {
    let seed = check::fresh_seed();
    println!("fresh seed {seed}");
    swarm(seed, false);
}
