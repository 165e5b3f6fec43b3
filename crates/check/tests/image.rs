//! Every registered scheme on image files: the same commands as simulated, and nothing lost when the host is.

use crate::seed_given_or_fresh;
use check::{image_sweep, image_sweep_on, LossyMedium};
use ftl::schemes;

#[test]
fn an_image_gets_the_flash_commands_of_the_simulated_array() {
    for info in schemes::ALL {
        for seed in [1, 2] {
            let simulated = check::commands(info.name, seed).unwrap_or_else(|failure| panic!("{failure}"));
            let live = check::image_commands(info.name, seed).unwrap_or_else(|failure| panic!("{failure}"));
            assert_eq!(simulated, live, "{} with seed {seed}", info.name);
        }
    }
}

#[test]
fn what_was_synced_survives_the_host() {
    let fresh = seed_given_or_fresh();
    for info in schemes::ALL {
        let (mut torn, mut undone, mut collections) = (0, 0, 0);
        for seed in [0, 1, fresh] {
            let report = image_sweep(info.name, seed, 60).unwrap_or_else(|failure| panic!("{failure}"));
            assert_eq!(report.cuts, 60);
            torn += report.torn_pages;
            undone += report.undone_erases;
            collections += report.collections;
        }
        println!("{}: {torn} pages torn, {undone} erases undone, {collections} collections", info.name);
        assert!(torn > 100 && undone > 10 && collections > 100, "{}: the sweep was too tame", info.name);
    }
}

#[test]
fn a_medium_that_lies_about_syncs_is_found_out() {
    let medium = LossyMedium::new();
    medium.lie();
    assert!(image_sweep_on("page", 1, 60, &medium).is_err());
}
