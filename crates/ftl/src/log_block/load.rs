//! How much work parallel units wait for. A scheme sees no clock, but it knows what it asked for.
//!
//! A clock goes on with each operation by what the units do meanwhile: those that have work share it. So it
//! says how much of a unit's work is left. Which units have work, the count itself says, every few
//! operations. If it took units to be done too early, it would find fewer and fewer with work, and be the
//! faster. So at least three quarters of them count as having some. After a pause many operations may come
//! at once, while no unit does anything: at first all of them share. What is left is counted up to [`MOST`].

/// Parts of time that operations take: the ratios of the presets that FEMU's times are for.
pub(super) const READ: u64 = 1;
pub(super) const PROGRAM: u64 = 5;
pub(super) const ERASE: u64 = 50;

/// Work of a unit that is counted.
const MOST: u64 = 8 * PROGRAM;

/// Work of a unit behind which nothing is put that can wait.
const LONG: u64 = 4 * PROGRAM;

/// Work for each unit that may come at once after a pause.
const AT_ONCE: u64 = 4 * PROGRAM;

/// Operations after which the units with work are counted anew.
const COUNTED: u32 = 16;

/// Work of each unit that is left, in parts of time, of which each has as many as there are units.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// By unit, when its work is done.
    ends: Vec<u64>,
    clock: u64,
    /// Of the next step of the clock, by the units with work.
    rest: u64,
    /// Units that share the work, and operations until they are counted again.
    busy: u64,
    until_counted: u32,
    /// Work that may still come at once.
    at_once: u64,
}

impl Load {
    /// Units without work. Without units nothing is counted.
    pub(super) fn new(units: u32) -> Load {
        let mut load =
            Load { ends: vec![0; units as usize], clock: 0, rest: 0, busy: 0, until_counted: 0, at_once: 0 };
        load.clear();
        load
    }

    /// A unit is to do so much.
    #[inline]
    pub(super) fn add(&mut self, unit: u32, work: u64) {
        let units = self.ends.len() as u64;
        if units == 0 {
            return;
        }
        if self.at_once > 0 {
            self.at_once = self.at_once.saturating_sub(work);
        } else if self.until_counted == 0 {
            self.until_counted = COUNTED;
            let with_work = self.ends.iter().filter(|&&end| end > self.clock).count() as u64;
            self.busy = with_work.max((3 * units).div_ceil(4));
        }
        self.until_counted = self.until_counted.saturating_sub(1);
        self.rest += work * units;
        self.clock += self.rest / self.busy;
        self.rest %= self.busy;
        let end = &mut self.ends[unit as usize];
        *end = ((*end).max(self.clock) + work * units).min(self.clock + MOST * units);
    }

    /// What is left on a unit, to be compared with others.
    #[inline]
    pub(crate) fn of(&self, unit: u32) -> u64 {
        self.ends[unit as usize].saturating_sub(self.clock)
    }

    /// Whether a unit has more left than half a program.
    #[inline]
    pub(crate) fn is_busy(&self, unit: u32) -> bool {
        2 * self.of(unit) > PROGRAM * self.ends.len() as u64
    }

    /// Whether a unit has more left than four programs.
    #[inline]
    pub(crate) fn is_long(&self, unit: u32) -> bool {
        self.of(unit) > LONG * self.ends.len() as u64
    }

    /// A unit has so many programs left.
    #[cfg(test)]
    pub(crate) fn set(&mut self, unit: u32, programs: u64) {
        self.ends[unit as usize] = self.clock + programs * PROGRAM * self.ends.len() as u64;
    }

    /// All units have done their work.
    pub(crate) fn clear(&mut self) {
        let units = self.ends.len() as u64;
        self.ends.fill(0);
        (self.rest, self.busy, self.until_counted, self.at_once) = (0, units, 0, AT_ONCE * units);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(load: &Load) -> Vec<u64> {
        (0..load.ends.len() as u32).map(|unit| load.of(unit)).collect()
    }

    #[test]
    fn after_a_pause_all_units_share_the_work() {
        let mut load = Load::new(4);
        load.add(0, 1);
        assert_eq!(left(&load), [4, 0, 0, 0]);
        (1..4).for_each(|unit| load.add(unit, 1));
        assert_eq!(left(&load), [1, 2, 3, 4]);
        load.add(0, 1);
        assert_eq!(load.of(0), 4);
        (0..15).for_each(|_| load.add(2, PROGRAM));
        assert_eq!(left(&load), [0, 0, 4 * MOST, 0]);
        load.clear();
        assert_eq!(left(&load), [0; 4]);
    }

    #[test]
    fn units_without_work_do_none() {
        let mut load = Load::new(8);
        // All get as much, and keep what they have.
        (0..800).for_each(|at| load.add(at % 8, PROGRAM));
        assert_eq!((load.at_once, load.busy), (0, 8));
        // Six of them get all the work, and keep what they have; two have none left.
        (0..800).for_each(|at| load.add(at % 6, PROGRAM));
        assert_eq!((load.busy, load.of(6), load.of(7)), (6, 0, 0));
        let before = left(&load);
        (0..600).for_each(|at| load.add(at % 6, PROGRAM));
        assert_eq!(left(&load), before);
        assert!(before[..6].iter().all(|&left| left > 0), "{before:?}");
        // Fewer are not believed: two units get more to do than they can.
        (0..400).for_each(|at| load.add(at % 2, PROGRAM));
        assert_eq!(load.busy, 6);
        assert!(load.of(0) > 7 * PROGRAM * 8 && load.of(2) == 0, "{:?}", left(&load));
    }

    #[test]
    fn a_unit_is_busy_for_longer_than_half_a_program() {
        let mut load = Load::new(64);
        load.add(3, READ);
        load.add(3, READ);
        assert!(!load.is_busy(3));
        load.add(3, READ);
        assert!(load.is_busy(3) && !load.is_busy(4));
        assert!(!load.is_long(3));
        load.add(4, ERASE);
        assert_eq!(load.of(4), MOST * 64);
        assert!(load.is_long(4));
    }
}
