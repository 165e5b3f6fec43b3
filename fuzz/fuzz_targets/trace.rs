//! cargo-fuzz's way into the target `trace` of crates/fuzz.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ftlfuzz::run("trace", bytes));
