//! Writes that bring a device to a steady state; to be run with the clock off.
//!
//! ```
//! let warm_up = workload::warm_up::find("fill").expect("it is known");
//! let written: u64 = warm_up.requests(1 << 30, 1).map(|request| request.bytes).sum();
//! assert_eq!(written, warm_up.bytes(1 << 30));
//! ```

use crate::random::{Random, Shuffle};
use crate::{InputError, Kind, Request};

/// Bytes of a warm-up request.
pub const REQUEST_BYTES: u64 = 512 << 10;

/// Every block of [`REQUEST_BYTES`] of a device is written once in each pass; the last block may be shorter.
#[derive(Debug, PartialEq, Eq)]
pub struct WarmUp {
    /// Name in options and files.
    pub name: &'static str,
    /// What it writes, in a few words.
    pub what: &'static str,
    /// Passes that visit the blocks in random order, before all others.
    random_passes: u32,
    /// Passes in ascending order.
    sequential_passes: u32,
}

/// The device once, in sequence.
pub static FILL: WarmUp = WarmUp {
    name: "fill",
    what: "the device once, in sequential writes of 512 KiB",
    random_passes: 0,
    sequential_passes: 1,
};

/// The warm-up of LearnedFTL (HPCA 2024, section IV-B): a random write and a sequential write of 512 KiB
/// requests, "until the SSD is written over about 6 times". How the six volumes are split is our reading:
/// three passes in random order, then three in sequence.
pub static LEARNEDFTL: WarmUp = WarmUp {
    name: "learnedftl",
    what: "six volumes of 512 KiB writes, random then sequential",
    random_passes: 3,
    sequential_passes: 3,
};

/// All of them.
pub static ALL: [&WarmUp; 2] = [&FILL, &LEARNEDFTL];

/// The one that runs where nobody asks for another: it leaves any scheme in a steady state.
pub static USUAL: &WarmUp = &LEARNEDFTL;

/// The warm-up of that name.
///
/// # Errors
/// There is none; the error names those that there are.
pub fn find(name: &str) -> Result<&'static WarmUp, InputError> {
    ALL.into_iter().find(|warm_up| warm_up.name == name).ok_or_else(|| {
        let known = ALL.map(|warm_up| warm_up.name).join(", ");
        InputError::in_file("", format!("there is no warm-up called {name:?}; there are {known}"))
    })
}

impl WarmUp {
    /// The requests on a device of `device_bytes`. The same seed gives the same order.
    pub fn requests(&self, device_bytes: u64, seed: u64) -> Writes {
        let blocks = device_bytes.div_ceil(REQUEST_BYTES);
        let mut random = Random::new(seed);
        let order = Shuffle::new(blocks.max(1), &mut random);
        let passes = [self.random_passes, self.sequential_passes];
        Writes { device_bytes, blocks, passes, at: 0, random, order }
    }

    /// Bytes that [`WarmUp::requests`] write in all.
    pub fn bytes(&self, device_bytes: u64) -> u64 {
        device_bytes * u64::from(self.random_passes + self.sequential_passes)
    }
}

/// The requests of a [`WarmUp`].
#[derive(Debug, Clone)]
pub struct Writes {
    device_bytes: u64,
    blocks: u64,
    /// Passes left, this one included: random, then sequential.
    passes: [u32; 2],
    at: u64,
    random: Random,
    order: Shuffle,
}

impl Iterator for Writes {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        if self.at == self.blocks {
            self.at = 0;
            let current = self.passes.iter_mut().find(|left| **left > 0)?;
            *current -= 1;
        }
        if self.blocks == 0 || self.passes == [0, 0] {
            return None;
        }
        let block = if self.passes[0] > 0 { self.order.next(&mut self.random) } else { self.at };
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
            let all: Vec<Request> = LEARNEDFTL.requests(device, 1).collect();
            let blocks = device.div_ceil(REQUEST_BYTES) as usize;
            assert_eq!(all.len(), 6 * blocks);
            assert_eq!(all.iter().map(|r| r.bytes).sum::<u64>(), 6 * device);
            assert_eq!(LEARNEDFTL.bytes(device), 6 * device);
            assert!(all.iter().all(|r| r.end() <= device && r.kind == Kind::Write));
            let in_order = |pass: usize| {
                all[pass * blocks..(pass + 1) * blocks].windows(2).all(|p| p[0].end() == p[1].offset)
            };
            assert_eq!((0..6).map(in_order).collect::<Vec<_>>(), [false, false, false, true, true, true]);
        }
        assert_eq!(LEARNEDFTL.requests(0, 1).count(), 0);
    }

    #[test]
    fn a_fill_writes_every_byte_once_in_order() {
        let mut next = 0;
        for request in FILL.requests(10_000_000, 1) {
            assert_eq!((request.offset, request.kind), (next, Kind::Write));
            next = request.end();
        }
        assert_eq!(next, 10_000_000);
    }

    #[test]
    fn warm_ups_have_names() {
        for known in ALL {
            assert_eq!(find(known.name), Ok(known));
        }
        assert!(find("steam").is_err_and(|error| error.to_string().contains("there are fill, learnedftl")));
    }
}
