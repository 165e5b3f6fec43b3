//! When operations happen: each die serves one at a time, with random latencies.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::{Done, Geometry, Pbn, Ppn};

/// Ticks of the shortest read. All times are even, so that there is a moment between any two of them.
const UNIT: u64 = 16;
/// Longest operations, in units.
const READ_UNITS: u64 = 3;
const PROGRAM_UNITS: u64 = 15;
const ERASE_UNITS: (u64, u64) = (5, 30);
/// One operation in so many is held back, by up to as long as a few programs.
const HOLD_BACK: u64 = 8;

/// The random latencies of one run.
#[derive(Clone, Debug)]
pub(super) struct RandomClock {
    /// Time at this point of the run, ticks.
    pub now: u64,
    /// By die: what it is busy with after `now`, as (start, end), in order.
    busy: Vec<Vec<(u64, u64)>>,
    /// By PBN: when all programs (and the erase before them) are over.
    written: Vec<u64>,
    /// By PBN: when everything is over.
    touched: Vec<u64>,
    /// By PPN: when the program of the page is over.
    programmed: Vec<u64>,
    /// When all programs are over.
    pub settled: u64,
    /// When everything is over.
    pub quiet: u64,
    random: Xoshiro256PlusPlus,
}

impl RandomClock {
    pub fn new(geometry: &Geometry, seed: u64) -> RandomClock {
        RandomClock {
            now: 0,
            busy: vec![Vec::new(); geometry.dies() as usize],
            written: vec![0; geometry.blocks() as usize],
            touched: vec![0; geometry.blocks() as usize],
            programmed: vec![0; geometry.pages() as usize],
            settled: 0,
            quiet: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    pub fn restart(&mut self, seed: u64) {
        self.now = 0;
        self.busy.iter_mut().for_each(Vec::clear);
        for times in [&mut self.written, &mut self.touched, &mut self.programmed] {
            times.fill(0);
        }
        (self.settled, self.quiet) = (0, 0);
        self.random = Xoshiro256PlusPlus::seed_from_u64(seed);
    }

    /// A random even number of ticks from `least` to `most` units.
    fn ticks(&mut self, least: u64, most: u64) -> u64 {
        let steps = (most - least) * UNIT / 2 + 1;
        least * UNIT + 2 * below(&mut self.random, steps)
    }

    /// Puts an operation of `ticks` into the first gap of its die that takes it from `earliest` on.
    fn serve(&mut self, die: u32, earliest: u64, ticks: u64) -> (u64, u64) {
        let mut start = earliest.max(self.now);
        if below(&mut self.random, HOLD_BACK) == 0 {
            start += self.ticks(0, 4 * PROGRAM_UNITS);
        }
        let now = self.now;
        let line = &mut self.busy[die as usize];
        line.retain(|&(_, end)| end > now);
        let mut place = line.len();
        for (index, &(from, to)) in line.iter().enumerate() {
            if start + ticks <= from {
                place = index;
                break;
            }
            start = start.max(to);
        }
        line.insert(place, (start, start + ticks));
        self.quiet = self.quiet.max(start + ticks);
        (start, start + ticks)
    }

    pub fn read(&mut self, die: u32, block: Pbn, ppn: Ppn, after: Done) -> Done {
        let earliest = after.0.max(self.programmed[ppn.0 as usize]);
        let ticks = self.ticks(1, READ_UNITS);
        let (_, done) = self.serve(die, earliest, ticks);
        let touched = &mut self.touched[block.0 as usize];
        *touched = done.max(*touched);
        Done(done)
    }

    pub fn program(&mut self, die: u32, block: Pbn, ppn: Ppn, after: Done) -> (u64, u64) {
        let earliest = after.0.max(self.written[block.0 as usize]);
        let ticks = self.ticks(1, PROGRAM_UNITS);
        let (start, done) = self.serve(die, earliest, ticks);
        self.programmed[ppn.0 as usize] = done;
        self.written[block.0 as usize] = done;
        let touched = &mut self.touched[block.0 as usize];
        *touched = done.max(*touched);
        self.settled = self.settled.max(done);
        (start, done)
    }

    pub fn erase(&mut self, die: u32, block: Pbn, after: Done) -> (u64, u64) {
        let earliest = after.0.max(self.touched[block.0 as usize]);
        let ticks = self.ticks(ERASE_UNITS.0, ERASE_UNITS.1);
        let (start, done) = self.serve(die, earliest, ticks);
        self.written[block.0 as usize] = done;
        self.touched[block.0 as usize] = done;
        (start, done)
    }

    /// Some moment after everything in the block is over and before everything submitted so far is.
    pub fn retire(&mut self, block: Pbn) -> u64 {
        let earliest = self.now.max(self.touched[block.0 as usize]);
        let span = self.quiet.saturating_sub(earliest);
        earliest + 2 * below(&mut self.random, span / 2 + 1)
    }

    /// Controller work takes up to as long as a read.
    pub fn compute(&mut self, after: Done) -> Done {
        Done(after.0.max(self.now) + self.ticks(0, READ_UNITS))
    }
}

/// An integer below `bound`, which is at least 1.
pub(super) fn below(random: &mut Xoshiro256PlusPlus, bound: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u64
}
