//! Which operations fail. Every decision but the transient one is a hash of the seed, the place and the erase
//! count: a property of the medium, so that a replay of the same operations meets the same faults.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::{Pbn, Ppn};

use super::SimOptions;

const MILLION: u64 = 1_000_000;

/// Salts: which question the hash answers.
#[derive(Clone, Copy)]
enum Question {
    Program = 1,
    Erase = 2,
    Uncorrectable = 3,
    Retry = 4,
    Endurance = 5,
    LostTranslation = 6,
}

/// The fault rates, and what the transient ones remember.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Faults {
    /// False: no rate is set and nothing below is ever asked.
    pub any: bool,
    seed: u64,
    program_fail_ppm: u32,
    erase_fail_ppm: u32,
    uncorrectable_ppm: u32,
    lost_translation_ppm: u32,
    metadata_retry_ppm: u32,
    /// Mean erases that a block stands.
    pub endurance: Option<u32>,
    /// Metadata reads attempted: the transient fault's only source of variety.
    attempts: u64,
    /// Pages whose last read failed transiently: their next one succeeds.
    retrying: Vec<Ppn>,
}

impl Faults {
    pub fn new(options: &SimOptions) -> Faults {
        let rates = [
            options.program_fail_ppm,
            options.erase_fail_ppm,
            options.uncorrectable_ppm,
            options.lost_translation_ppm,
            options.metadata_retry_ppm,
        ];
        Faults {
            any: rates != [0; 5],
            seed: options.seed,
            program_fail_ppm: options.program_fail_ppm,
            erase_fail_ppm: options.erase_fail_ppm,
            uncorrectable_ppm: options.uncorrectable_ppm,
            lost_translation_ppm: options.lost_translation_ppm,
            metadata_retry_ppm: options.metadata_retry_ppm,
            endurance: options.endurance,
            attempts: 0,
            retrying: Vec::new(),
        }
    }

    pub fn program_fails(&self, ppn: Ppn, erases: u32) -> bool {
        self.decide(Question::Program, ppn.0, u64::from(erases), self.program_fail_ppm)
    }

    pub fn erase_fails(&self, block: Pbn, erases: u32) -> bool {
        self.decide(Question::Erase, block.0, u64::from(erases), self.erase_fail_ppm)
            || self.endurance.is_some_and(|mean| u64::from(erases) >= self.limit(block, mean))
    }

    /// Erases that a block stands: 90 to 110 % of the mean.
    fn limit(&self, block: Pbn, mean: u32) -> u64 {
        let share = 900 + (((self.hash(Question::Endurance, block.0, 0) >> 32) * 201) >> 32);
        u64::from(mean) * share / 1000
    }

    pub fn is_uncorrectable(&self, ppn: Ppn, erases: u32) -> bool {
        self.decide(Question::Uncorrectable, ppn.0, u64::from(erases), self.uncorrectable_ppm)
    }

    pub fn is_lost_translation(&self, ppn: Ppn, erases: u32) -> bool {
        self.decide(Question::LostTranslation, ppn.0, u64::from(erases), self.lost_translation_ppm)
    }

    /// Whether this attempt to read a metadata page fails; the one after a failed attempt never does.
    pub fn retry_needed(&mut self, ppn: Ppn) -> bool {
        if self.metadata_retry_ppm == 0 {
            return false;
        }
        if let Some(index) = self.retrying.iter().position(|&page| page == ppn) {
            self.retrying.swap_remove(index);
            return false;
        }
        self.attempts += 1;
        let fails = self.decide(Question::Retry, ppn.0, self.attempts, self.metadata_retry_ppm);
        if fails {
            self.retrying.push(ppn);
        }
        fails
    }

    fn decide(&self, question: Question, place: u32, turn: u64, ppm: u32) -> bool {
        if ppm == 0 {
            return false;
        }
        // The high 32 bits scaled to 0..1,000,000.
        ((self.hash(question, place, turn) >> 32) * MILLION) >> 32 < u64::from(ppm)
    }

    fn hash(&self, question: Question, place: u32, turn: u64) -> u64 {
        let key = mix(self.seed ^ (question as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93));
        mix(mix(key ^ u64::from(place)) ^ turn)
    }
}

/// SplitMix64's finaliser.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// The factory bad blocks: `ppm` of all blocks, rounded to the nearest count, every choice of that many being
/// equally likely (selection sampling). In ascending order.
pub(super) fn factory_bad_blocks(seed: u64, blocks: u32, ppm: u32) -> Vec<Pbn> {
    let mut wanted = ((u64::from(blocks) * u64::from(ppm) + MILLION / 2) / MILLION).min(u64::from(blocks));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(mix(seed));
    let mut bad = Vec::with_capacity(wanted as usize);
    for block in 0..blocks {
        let left = u64::from(blocks - block);
        if ((random.next_u64() >> 32) * left) >> 32 < wanted {
            bad.push(Pbn(block));
            wanted -= 1;
        }
    }
    bad
}
