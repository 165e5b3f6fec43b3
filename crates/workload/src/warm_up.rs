//! Writes that bring the flash of a device to a known state; to be run with the clock off.
//!
//! ```
//! let warm_up: workload::warm_up::WarmUp = "fill".parse().expect("it is known");
//! let written: u64 = warm_up.requests(1 << 30, 1).map(|request| request.bytes).sum();
//! assert_eq!(written, warm_up.bytes(1 << 30));
//! ```

use std::fmt;
use std::str::FromStr;

use crate::random::{Random, Shuffle};
use crate::{InputError, Kind, Request};

/// Bytes of a request of a pass.
pub const REQUEST_BYTES: u64 = 512 << 10;
/// Overwrites begin and end on multiples of so many bytes.
const GRAIN: u64 = 4 << 10;
/// Most that overwrites come to, percent of the device.
const MOST_PERCENT: u32 = 10_000;

/// Every block of [`REQUEST_BYTES`] of a device is written once in each pass; the last block may be shorter.
/// Overwrites follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmUp {
    /// Name in options and files.
    pub name: &'static str,
    /// What the passes write, in a few words.
    what: &'static str,
    /// Passes that visit the blocks in random order, before all others.
    random_passes: u32,
    /// Passes in ascending order.
    sequential_passes: u32,
    overwrites: Option<Overwrites>,
}

/// Random writes over the whole device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Overwrites {
    /// Largest write; the smallest is [`GRAIN`], and all multiples of it between are equally likely.
    most_bytes: u64,
    /// How much they come to, percent of the device.
    percent: u32,
}

/// The device once, in sequence.
pub const FILL: WarmUp = WarmUp {
    name: "fill",
    what: "the device once, in sequential writes of 512 KiB",
    random_passes: 0,
    sequential_passes: 1,
    overwrites: None,
};

/// A device in use: filled, then overwritten by requests of all sizes that file systems make.
pub const AGED: WarmUp =
    WarmUp { name: "aged", overwrites: Some(Overwrites { most_bytes: 64 << 10, percent: 100 }), ..FILL };

/// A device on which nothing is in order: filled, then overwritten in random order, every 4 KiB once before
/// any twice.
pub const FRAGMENTED: WarmUp =
    WarmUp { name: "fragmented", overwrites: Some(Overwrites { most_bytes: GRAIN, percent: 100 }), ..FILL };

/// The warm-up of LearnedFTL (HPCA 2024, section IV-B): a random write and a sequential write of 512 KiB
/// requests, "until the SSD is written over about 6 times". How the six volumes are split is our reading:
/// three passes in random order, then three in sequence.
pub const LEARNEDFTL: WarmUp = WarmUp {
    name: "learnedftl",
    what: "six volumes of 512 KiB writes, random then sequential",
    random_passes: 3,
    sequential_passes: 3,
    overwrites: None,
};

/// All of them.
pub const ALL: [WarmUp; 4] = [FILL, AGED, FRAGMENTED, LEARNEDFTL];

/// The one that runs where nobody asks for another: it leaves any scheme in a steady state.
pub const USUAL: WarmUp = LEARNEDFTL;

impl FromStr for WarmUp {
    type Err = InputError;

    /// A name; those with overwrites may have an amount: `aged=50%`.
    fn from_str(text: &str) -> Result<WarmUp, InputError> {
        let wrong = |what: String| InputError::in_file("", what);
        let (name, amount) = text.split_once('=').map_or((text, None), |(name, amount)| (name, Some(amount)));
        let Some(found) = ALL.into_iter().find(|warm_up| warm_up.name == name) else {
            let known = ALL.map(|warm_up| warm_up.name).join(", ");
            let what = match amount {
                Some(_) => {
                    let with = ALL.iter().filter(|warm_up| warm_up.overwrites.is_some());
                    let with: Vec<String> = with.map(|warm_up| format!("{}=50%", warm_up.name)).collect();
                    format!("there is no warm-up {name} with an amount; {} have one", with.join(" and "))
                }
                None => format!("there is no warm-up called {name:?}; there are {known}"),
            };
            return Err(wrong(what));
        };
        let Some(amount) = amount else { return Ok(found) };
        let Some(overwrites) = found.overwrites else {
            return Err(wrong(format!("the warm-up {name} has no amount; write {name} alone")));
        };
        let percent = amount.strip_suffix('%').and_then(|number| number.parse().ok());
        let percent = percent.filter(|percent| (1..=MOST_PERCENT).contains(percent)).ok_or_else(|| {
            wrong(format!(
                "`{amount}` is no amount for the warm-up {name}; write 1% to {MOST_PERCENT}% of the device, such as {name}=50%"
            ))
        })?;
        Ok(WarmUp { overwrites: Some(Overwrites { percent, ..overwrites }), ..found })
    }
}

impl fmt::Display for WarmUp {
    /// What it writes, in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        match self.overwrites {
            None => Ok(()),
            Some(Overwrites { most_bytes: GRAIN, percent }) => {
                write!(f, ", then {percent} % of its size in 4 KiB writes in random order")
            }
            Some(Overwrites { most_bytes, percent }) => {
                write!(f, ", then {percent} % of its size in random writes of 4 to {} KiB", most_bytes >> 10)
            }
        }
    }
}

impl WarmUp {
    /// The requests on a device of `device_bytes`. The same seed gives the same order.
    pub fn requests(&self, device_bytes: u64, seed: u64) -> Writes {
        let blocks = device_bytes.div_ceil(REQUEST_BYTES);
        let mut random = Random::new(seed);
        let order = Shuffle::new(blocks.max(1), &mut random);
        let grains = Shuffle::new((device_bytes / GRAIN).max(1), &mut random);
        let passes = [self.random_passes, self.sequential_passes];
        let overwrite =
            (self.overwrites.map_or(GRAIN, |over| over.most_bytes), self.overwritten(device_bytes));
        Writes { device_bytes, blocks, passes, at: 0, overwrite, random, order, grains }
    }

    /// Bytes that [`WarmUp::requests`] write in all.
    pub fn bytes(&self, device_bytes: u64) -> u64 {
        device_bytes * u64::from(self.random_passes + self.sequential_passes) + self.overwritten(device_bytes)
    }

    fn overwritten(&self, device_bytes: u64) -> u64 {
        let percent = self.overwrites.map_or(0, |over| over.percent);
        device_bytes / GRAIN * u64::from(percent) / 100 * GRAIN
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
    /// Largest overwrite, and bytes still to be overwritten.
    overwrite: (u64, u64),
    random: Random,
    order: Shuffle,
    /// Of overwrites of [`GRAIN`].
    grains: Shuffle,
}

impl Iterator for Writes {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        if self.at == self.blocks {
            self.at = 0;
            if let Some(current) = self.passes.iter_mut().find(|left| **left > 0) {
                *current -= 1;
            }
        }
        if self.blocks == 0 || self.passes == [0, 0] {
            return self.overwrite();
        }
        let block = if self.passes[0] > 0 { self.order.next(&mut self.random) } else { self.at };
        self.at += 1;
        let offset = block * REQUEST_BYTES;
        let bytes = REQUEST_BYTES.min(self.device_bytes - offset);
        Some(Request { arrival_ns: 0, kind: Kind::Write, offset, bytes })
    }
}

impl Writes {
    /// The next random write, if there is one.
    fn overwrite(&mut self) -> Option<Request> {
        let (most, left) = &mut self.overwrite;
        if *left == 0 {
            return None;
        }
        let (offset, bytes) = if *most == GRAIN {
            (self.grains.next(&mut self.random) * GRAIN, GRAIN)
        } else {
            let at = self.random.below(self.device_bytes / GRAIN);
            (at * GRAIN, (1 + self.random.below(*most / GRAIN)) * GRAIN)
        };
        let bytes = bytes.min(self.device_bytes - offset).min(*left);
        *left -= bytes;
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
            assert_eq!(known.name.parse(), Ok(known));
        }
        for (text, sentence) in [
            ("steam", "there are fill, aged, fragmented, learnedftl"),
            ("fill=50%", "the warm-up fill has no amount; write fill alone"),
            ("aged=0%", "`0%` is no amount for the warm-up aged; write 1% to 10000% of the device"),
            ("aged=2", "`2` is no amount"),
        ] {
            let error = text.parse::<WarmUp>().map_or_else(|error| error.to_string(), |_| String::new());
            assert!(error.contains(sentence), "{error}");
        }
    }

    #[test]
    fn an_aged_device_is_filled_and_overwritten_by_the_amount() {
        for (text, most) in [("aged=50%", 64 << 10), ("fragmented=50%", 4 << 10)] {
            let warm_up: WarmUp = text.parse().expect("it is known");
            for device in [64 << 20, (64 << 20) + 12_288] {
                let all: Vec<Request> = warm_up.requests(device, 1).collect();
                let blocks = device.div_ceil(REQUEST_BYTES) as usize;
                assert_eq!(all.iter().map(|r| r.bytes).sum::<u64>(), warm_up.bytes(device));
                assert_eq!(warm_up.bytes(device), device + device / GRAIN / 2 * GRAIN);
                let over = &all[blocks..];
                assert!(over.iter().all(|r| r.end() <= device && r.bytes <= most && r.offset % GRAIN == 0));
                // Uniform over the device: each quarter gets a quarter of the writes.
                let first = over.iter().filter(|r| r.offset < device / 4).count() as f64 / over.len() as f64;
                assert!((0.2..0.3).contains(&first), "{first}");
                assert!(over.iter().any(|r| r.bytes == most));
                let places: std::collections::HashSet<u64> = over.iter().map(|r| r.offset).collect();
                assert_eq!(places.len() == over.len(), most == GRAIN, "each place once, if page by page");
            }
        }
        assert_eq!(AGED.requests(0, 1).count(), 0);
    }
}
