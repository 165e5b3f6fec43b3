//! How much work parallel units wait for. A scheme sees no clock, but it knows what it asked for.
//!
//! While all units have work, each does as much as it gets in the mean. So a clock that goes on by that mean
//! with each operation says how much of a unit's work is left. While some units have none, the clock is slow,
//! and what is left looks like more than it is. So it is counted up to [`MOST`] alone.

/// Programs that an erase takes as long as, about: 10 on the presets that FEMU's times are for.
pub(super) const ERASE: u64 = 10;

/// Programs that a unit waits for and that are counted.
const MOST: u64 = 8;

/// Work of each unit that is left, in parts of a program: as many as there are units.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// By unit, when its work is done.
    ends: Vec<u64>,
    clock: u64,
}

impl Load {
    /// Units without work.
    pub(super) fn new(units: u32) -> Load {
        Load { ends: vec![0; units as usize], clock: 0 }
    }

    /// A unit is to do as much as so many programs.
    #[inline]
    pub(super) fn add(&mut self, unit: u32, programs: u64) {
        self.clock += programs;
        let units = self.ends.len() as u64;
        let end = &mut self.ends[unit as usize];
        *end = ((*end).max(self.clock) + programs * units).min(self.clock + MOST * units);
    }

    /// What is left on a unit.
    #[inline]
    pub(super) fn of(&self, unit: u32) -> u64 {
        self.ends[unit as usize].saturating_sub(self.clock)
    }

    /// All units have done their work.
    pub(super) fn clear(&mut self) {
        self.ends.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_at_the_mean_rate() {
        let mut load = Load::new(4);
        load.add(0, 1);
        assert_eq!((load.of(0), load.of(1)), (4, 0));
        (1..4).for_each(|unit| load.add(unit, 1));
        assert_eq!([0, 1, 2, 3].map(|unit| load.of(unit)), [1, 2, 3, 4]);
        load.add(0, 1);
        assert_eq!(load.of(0), 4);
        (0..100).for_each(|_| load.add(2, 1));
        assert_eq!([0, 1, 2, 3].map(|unit| load.of(unit)), [0, 0, 4 * MOST, 0]);
        load.add(1, ERASE);
        assert_eq!([1, 2].map(|unit| load.of(unit)), [4 * MOST, 4 * MOST - ERASE]);
        load.clear();
        assert_eq!(load.of(1), 0);
    }
}
