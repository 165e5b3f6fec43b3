//! cargo-fuzz's way into the target `results` of crates/fuzz.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ftlfuzz::run("results", bytes));
