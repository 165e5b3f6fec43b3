//! Streams that bring a device to a steady state; to be run with the clock off.

use crate::random::{Random, Shuffle};
use crate::{Kind, Request};

/// Bytes of a warm-up request.
pub const REQUEST_BYTES: u64 = 512 << 10;
/// Passes over the device in random order, then as many in sequence.
pub const PASSES: u32 = 3;

/// The warm-up of LearnedFTL (HPCA 2024, section IV-B): a random write and a sequential write of 512 KiB requests, "until
/// the SSD is written over about 6 times". How the six volumes are split is our reading: three passes in random order,
/// each of which visits every 512 KiB block once, then three in sequence. A shorter block at the end of the device is
/// written like the others.
pub fn learnedftl(device_bytes: u64, seed: u64) -> LearnedFtl {
    let blocks = device_bytes.div_ceil(REQUEST_BYTES);
    let mut random = Random::new(seed);
    let order = Shuffle::new(blocks.max(1), &mut random);
    LearnedFtl { device_bytes, blocks, pass: 0, at: 0, random, order }
}

/// See [`learnedftl`].
#[derive(Debug, Clone)]
pub struct LearnedFtl {
    device_bytes: u64,
    blocks: u64,
    pass: u32,
    at: u64,
    random: Random,
    order: Shuffle,
}

impl LearnedFtl {
    /// Bytes in all, for a progress bar.
    pub fn total_bytes(&self) -> u64 {
        self.device_bytes * u64::from(2 * PASSES)
    }
}

impl Iterator for LearnedFtl {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        if self.at == self.blocks {
            self.at = 0;
            self.pass += 1;
        }
        if self.blocks == 0 || self.pass == 2 * PASSES {
            return None;
        }
        let block = if self.pass < PASSES { self.order.next(&mut self.random) } else { self.at };
        self.at += 1;
        let offset = block * REQUEST_BYTES;
        let bytes = REQUEST_BYTES.min(self.device_bytes - offset);
        Some(Request { arrival_ns: 0, kind: Kind::Write, offset, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_device_volumes_half_of_them_in_random_order() {
        for device in [64 << 20, (64 << 20) + 12_288] {
            let all: Vec<Request> = learnedftl(device, 1).collect();
            let blocks = device.div_ceil(REQUEST_BYTES) as usize;
            assert_eq!(all.len(), 6 * blocks);
            assert_eq!(all.iter().map(|r| r.bytes).sum::<u64>(), 6 * device);
            assert_eq!(learnedftl(device, 1).total_bytes(), 6 * device);
            assert!(all.iter().all(|r| r.end() <= device && r.kind == Kind::Write));
            let in_order = |pass: usize| {
                all[pass * blocks..(pass + 1) * blocks].windows(2).all(|p| p[0].end() == p[1].offset)
            };
            assert_eq!((0..6).map(in_order).collect::<Vec<_>>(), [false, false, false, true, true, true]);
        }
        assert_eq!(learnedftl(0, 1).count(), 0);
    }
}
