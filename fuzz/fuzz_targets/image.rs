//! cargo-fuzz's way into the target `image` of crates/fuzz.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ftlfuzz::run("image", bytes));
