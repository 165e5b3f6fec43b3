//! What LearnedFTL's controller computes, measured on the processor at hand (its section IV-A, figure 15).

use std::hint::black_box;

use ftl::schemes::learnedftl::models::{Format, Models, Point, ENTRY_LPNS};
use nand::Lpn;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use sim::Stopwatch;

/// GTD entries that are trained, each once: more than fit into a processor's caches.
const ENTRIES: u32 = 16_384;
/// Of so many LPNs one is not mapped, so that an entry is no single run.
const UNMAPPED: u32 = 16;

/// Processor time of training and predicting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingBench {
    /// Sorting the mappings of a GTD entry by LPN, learning them, setting the bits, us.
    pub sort_and_train_us: f64,
    /// One prediction, bit and all, of random LPNs, us.
    pub predict_us: f64,
    /// Mappings that the models predict, of those learned, share.
    pub predicted: f64,
}

/// Trains and predicts; takes a few seconds. The same seed gives the same mappings.
pub fn measure(seed: u64) -> TrainingBench {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let lpns = ENTRIES * ENTRY_LPNS;
    let mut models = Models::new(lpns, ENTRY_LPNS, 8, Format::Exact, lpns);
    // As collection has them: in the order in which they lay on flash.
    let mut entries: Vec<Vec<u32>> = Vec::new();
    for entry in 0..ENTRIES {
        let all = entry * ENTRY_LPNS..(entry + 1) * ENTRY_LPNS;
        let mut mapped: Vec<u32> = all.filter(|_| random.next_u32() % UNMAPPED > 0).collect();
        mapped.sort_by_cached_key(|_| random.next_u64());
        entries.push(mapped);
    }
    let mut points = Vec::with_capacity(ENTRY_LPNS as usize);
    let mut next = 0;
    let watch = Stopwatch::start();
    for (entry, mapped) in entries.iter_mut().enumerate() {
        mapped.sort_unstable();
        points.clear();
        points.extend((next..).zip(&*mapped).map(|(y, lpn)| Point { x: lpn % ENTRY_LPNS, y }));
        next += points.len() as u32;
        models.learn(entry, &points);
    }
    let training_s = watch.seconds();
    let asked: Vec<Lpn> = (0..4 * lpns / UNMAPPED).map(|_| Lpn(random.next_u32() % lpns)).collect();
    let watch = Stopwatch::start();
    for &lpn in &asked {
        black_box(models.predict(lpn));
    }
    TrainingBench {
        sort_and_train_us: training_s * 1e6 / f64::from(ENTRIES),
        predict_us: watch.seconds() * 1e6 / asked.len() as f64,
        predicted: models.trained() as f64 / f64::from(next),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn training_takes_time_and_learns_most_mappings() {
        let found = measure(1);
        assert!(
            found.sort_and_train_us > 0.0 && found.predict_us > 0.0 && found.predicted > 0.5,
            "{found:?}"
        );
    }
}
