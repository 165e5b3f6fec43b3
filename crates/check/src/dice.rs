//! Chance, seeded.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A seed that no run before had, short enough to be typed again. Who uses it prints it.
pub fn fresh_seed() -> u64 {
    // The standard library seeds each of its hash states anew.
    RandomState::new().hash_one(0) % 1_000_000_000
}

/// A stream of random integers that its seed decides.
#[derive(Clone, Debug)]
pub struct Dice(Xoshiro256PlusPlus);

impl Dice {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Dice {
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// The stream number `branch` of `seed`: independent streams for independent questions.
    pub fn branch(seed: u64, branch: u64) -> Dice {
        Dice::new(seed ^ branch.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// Any integer.
    pub fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// An integer from 0 to `bound - 1`; `bound` is at least 1.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.any()) * u128::from(bound)) >> 64) as u32
    }

    /// An integer from `least` to `most`, both included.
    pub fn between(&mut self, least: u32, most: u32) -> u32 {
        least + self.below(most - least + 1)
    }

    /// Yes once in `n` times.
    pub fn once_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }
}
