//! cargo-fuzz's way into the target `study` of crates/fuzz.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ftlfuzz::run("study", bytes));
