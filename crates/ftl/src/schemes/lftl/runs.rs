//! Which loads go on where one before ended.
//!
//! A file that F2FS overwrote at random has kept a few pages where they were: read in sequence, they are
//! outliers of one chunk, a little behind one another, between pages from everywhere. Each loads its mapping
//! from the translation page that the one before read, so the die of that page sets the speed of the file. So
//! the second load in a chunk, at a greater offset and not long after the first, brings all outliers behind
//! that the translation page has.

/// Loads that are remembered, at most.
pub const LOADS: usize = 16;
/// Bytes of the cache for which one is remembered: a small cache has other needs.
const CACHE_OF_A_LOAD: u64 = 1024;
/// In place of a chunk.
const NONE: u32 = u32::MAX;

/// The last loads: chunk and offset.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    last: [(u32, u16); LOADS],
    /// How many are remembered.
    count: usize,
    /// The place of the oldest one.
    oldest: usize,
}

impl Runs {
    /// None yet. `spare` bytes are there beyond what the scheme cannot do without: so a device whose cache
    /// was just large enough without these loads opens as before.
    pub fn new(spare: u64) -> Runs {
        let count = (spare / CACHE_OF_A_LOAD).min(LOADS as u64);
        Runs { last: [(NONE, 0); LOADS], count: count as usize, oldest: 0 }
    }

    /// Bytes in memory: chunk and offset of each load, and which one is the oldest.
    pub fn bytes(&self) -> u64 {
        self.count as u64 * 6 + u64::from(self.count > 0)
    }

    /// A chunk is loaded for the LPA at `offset`. Whether it was for a smaller one not long ago.
    pub fn goes_on(&mut self, chunk: u32, offset: u16) -> bool {
        let last = &mut self.last[..self.count];
        if let Some(load) = last.iter_mut().find(|load| load.0 == chunk) {
            return std::mem::replace(&mut load.1, offset) < offset;
        }
        if let Some(load) = last.get_mut(self.oldest) {
            *load = (chunk, offset);
            self.oldest = (self.oldest + 1) % self.count;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_load_behind_the_first_goes_on_unless_many_came_between() {
        let mut runs = Runs::new(1 << 20);
        assert!(!runs.goes_on(7, 40));
        assert!((100..100 + LOADS as u32 - 1).all(|chunk| !runs.goes_on(chunk, 1)));
        assert!(runs.goes_on(7, 60) && !runs.goes_on(7, 60), "the same LPA is no run");
        assert!(!runs.goes_on(7, 10) && runs.goes_on(7, 11), "one that goes back begins again");
        assert!((200..200 + LOADS as u32).all(|chunk| !runs.goes_on(chunk, 1)));
        assert!(!runs.goes_on(7, 90), "it is forgotten");
    }

    #[test]
    fn a_small_cache_remembers_few_loads_or_none() {
        let bytes = |spare: u64| Runs::new(spare).bytes();
        assert_eq!((bytes(1000), bytes(1024), bytes(16 << 10), bytes(1 << 30)), (0, 7, 97, 97));
        let mut none = Runs::new(1000);
        assert!(!none.goes_on(7, 40) && !none.goes_on(7, 60));
        let mut one = Runs::new(1024);
        assert!(!one.goes_on(7, 40) && one.goes_on(7, 60) && !one.goes_on(8, 1) && !one.goes_on(7, 70));
    }
}
