//! The flash commands of every registered scheme on a fixed workload, as a digest: a change of behaviour
//! shows.
//!
//! When a change is meant, bless it: `FTL_BLESS=1 cargo test -p ftlkit-check --test suite golden`, and say in
//! the changelog what changed for users.

use ftl::schemes;
use std::fmt::Write;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden.txt");

#[test]
fn flash_commands_are_as_recorded() {
    let mut now = String::from("# scheme, flash commands, digest of them; see golden.rs\n");
    for info in schemes::ALL {
        match check::commands(info.name, 1) {
            Ok((digest, commands)) => writeln!(now, "{} {commands} {digest:016x}", info.name).unwrap(),
            Err(failure) => panic!("{failure}"),
        }
    }
    if std::env::var_os("FTL_BLESS").is_some() {
        std::fs::write(GOLDEN, &now).unwrap();
    }
    let recorded = std::fs::read_to_string(GOLDEN).unwrap_or_default();
    assert!(
        recorded == now,
        "the flash commands changed; if that is meant: FTL_BLESS=1 cargo test -p ftlkit-check --test suite golden\n\
         recorded:\n{recorded}now:\n{now}"
    );
}
