//! How long the host's sequences get.
//!
//! A sequence that is to be written straight to homes has to reach the end of a region. Whether it will, only
//! the sequences before it can say: a file of 64 MiB that an LSM tree writes goes on to its end, and a log
//! that is cleaned in segments of 2 MiB ends with the segment. So of the sequences that came to so many
//! pages it is counted how many came to twice as many. Before anything is known, half of them do.

/// Powers of two of pages that are told apart.
const OCTAVES: usize = 24;

/// Sequences that are counted in an octave: from there on the older ones count half.
const RECENT: u8 = 32;

/// A whole, in the parts that shares are given in.
pub(super) const WHOLE: u64 = 1 << 16;

/// Sequences that came to 2^k pages.
#[derive(Clone, Copy, Debug, Default)]
struct Octave {
    /// Of these, those that came to twice as many.
    went_on: u8,
    ended: u8,
}

/// What is known of the lengths of sequences.
#[derive(Clone, Debug, Default)]
pub(super) struct Lengths {
    octaves: [Octave; OCTAVES],
}

impl Lengths {
    /// Bytes of the counts.
    pub(super) const BYTES: u64 = 2 * OCTAVES as u64;

    /// A sequence of so many pages, at least one, has ended.
    pub(super) fn ends(&mut self, pages: u32) {
        let last = pages.ilog2().min(OCTAVES as u32 - 1) as usize;
        for (k, octave) in self.octaves[..=last].iter_mut().enumerate() {
            if octave.went_on + octave.ended == RECENT {
                (octave.went_on, octave.ended) = (octave.went_on / 2, octave.ended / 2);
            }
            if k < last {
                octave.went_on += 1;
            } else {
                octave.ended += 1;
            }
        }
    }

    /// Of the sequences that came to `pages`, those that go on for `more`, as a share in parts of [`WHOLE`],
    /// and the pages that the mean one of them goes on for, up to `more`.
    pub(super) fn go_on(&self, pages: u32, more: u32) -> (u64, u32) {
        let (mut at, end) = (u64::from(pages.max(1)), u64::from(pages.max(1)) + u64::from(more));
        let (mut alive, mut mean) = (WHOLE, 0);
        while at < end && alive > 0 {
            let k = (at.ilog2() as usize).min(OCTAVES - 1);
            let to = if k + 1 == OCTAVES { end } else { end.min(2 << k) };
            // As many end with each page of an octave.
            let Octave { went_on, ended } = self.octaves[k];
            let (went_on, ended) = (u64::from(went_on) + 1, u64::from(ended) + 1);
            let left = |at: u64| ((went_on + ended) << k) - ended * (at - (1 << k)).min(1 << k);
            let next = alive * left(to) / left(at);
            mean += (alive + next) * (to - at) / 2;
            (at, alive) = (to, next);
        }
        (alive, (mean / WHOLE) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_not_known_goes_on_for_as_long_as_it_was() {
        let lengths = Lengths::default();
        assert_eq!(lengths.go_on(256, 256), (WHOLE / 2, 192));
        assert_eq!(lengths.go_on(256, 768).0, WHOLE / 4);
        assert_eq!(lengths.go_on(384, 128).0, WHOLE * 2 / 3);
        assert_eq!(lengths.go_on(1000, 0), (WHOLE, 0));
    }

    #[test]
    fn sequences_go_on_as_those_before_them_did() {
        let mut lengths = Lengths::default();
        (0..100).for_each(|_| lengths.ends(16384));
        let (share, mean) = lengths.go_on(256, 4096);
        assert!(share > WHOLE * 4 / 5 && mean > 3500, "{share} {mean}");
        assert!(lengths.go_on(16384, 16384).0 < WHOLE / 20);
        // Then the host writes segments of 512 pages. Where in its octave one ends is not known.
        (0..100).for_each(|_| lengths.ends(512));
        let (share, mean) = lengths.go_on(256, 4096);
        assert!(share < WHOLE / 20 && (400..700).contains(&mean), "{share} {mean}");
        // What came to more before is still known to go on.
        assert!(lengths.go_on(1024, 2048).0 > WHOLE * 4 / 5);
        (0..100).for_each(|_| lengths.ends(u32::MAX));
        assert!(lengths.go_on(u32::MAX, u32::MAX).0 > 0);
    }
}
