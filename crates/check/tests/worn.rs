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
        // Two copies of a page: the original, in a retired block of a superblock that holds mappings now.
        ("cdftl", 290_209_425, 8169),
    ] {
        let only_cut = (cut > 0).then_some(cut);
        let options = SweepOptions { faults: true, only_cut, ..SweepOptions::new(scheme, seed, 100) };
        // A single cut is too little to have torn anything, and says so.
        match sweep(&options, &mut |_, _| {}) {
            Ok(_) => {}
            Err(failure) => assert!(failure.what.contains("too small"), "{failure}"),
        }
    }
}
