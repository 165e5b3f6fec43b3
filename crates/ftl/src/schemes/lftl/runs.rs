//! Which loads go on where one before ended.
//!
//! A file that F2FS overwrote at random has kept a few pages where they were: read in sequence, they are
//! outliers of one chunk, a little behind one another, between pages from everywhere. Each loads its mapping
//! from the translation page that the one before read, so the die of that page sets the speed of the file. So
//! the second load in a chunk, at a greater offset and not long after the first, brings all outliers behind.

/// Loads that are remembered.
const LOADS: usize = 16;
/// In place of a chunk.
const NONE: u32 = u32::MAX;

/// The last loads: chunk and offset.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    last: [(u32, u16); LOADS],
    /// The place of the oldest one.
    oldest: usize,
}

impl Runs {
    /// Bytes in memory: chunk and offset of each load, and which one is the oldest.
    pub const BYTES: u64 = LOADS as u64 * 6 + 1;

    /// None yet.
    pub fn new() -> Runs {
        Runs { last: [(NONE, 0); LOADS], oldest: 0 }
    }

    /// A chunk is loaded for the LPA at `offset`. Whether it was for a smaller one not long ago.
    pub fn goes_on(&mut self, chunk: u32, offset: u16) -> bool {
        if let Some(load) = self.last.iter_mut().find(|load| load.0 == chunk) {
            return std::mem::replace(&mut load.1, offset) < offset;
        }
        self.last[self.oldest] = (chunk, offset);
        self.oldest = (self.oldest + 1) % LOADS;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_load_behind_the_first_goes_on_unless_many_came_between() {
        let mut runs = Runs::new();
        assert!(!runs.goes_on(7, 40));
        assert!((100..100 + LOADS as u32 - 1).all(|chunk| !runs.goes_on(chunk, 1)));
        assert!(runs.goes_on(7, 60) && !runs.goes_on(7, 60), "the same LPA is no run");
        assert!(!runs.goes_on(7, 10) && runs.goes_on(7, 11), "one that goes back begins again");
        assert!((200..200 + LOADS as u32).all(|chunk| !runs.goes_on(chunk, 1)));
        assert!(!runs.goes_on(7, 90), "it is forgotten");
    }
}
