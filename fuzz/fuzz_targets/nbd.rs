//! cargo-fuzz's way into the target `nbd` of crates/fuzz.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ftlfuzz::run("nbd", bytes));
