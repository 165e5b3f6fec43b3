//! The log of a run, and the images that a power cut at any moment of it leaves.

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::clock::below;
use super::{CrashNand, Entry, What};
use crate::timing::NoClock;
use crate::{Class, Done, Nand, PageKind, SimNand, Source, SpareBytes};

/// What one cut did to the operations that were in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Programs that left a torn page.
    pub torn_pages: u32,
    /// Erases that left a torn block.
    pub torn_blocks: u32,
    /// Operations that happened completely, though nobody heard of it.
    pub completed: u32,
    /// Operations that left no trace.
    pub dropped: u32,
}

/// The log of a [`CrashNand`], arranged for cutting.
#[derive(Clone, Debug)]
pub struct Log<'a> {
    nand: &'a CrashNand,
    /// Entries in order of completion; of those of one time, in order of submission.
    by_done: Vec<u32>,
    /// By die: its programs and erases in order of time.
    pub(super) by_die: Vec<Vec<u32>>,
    /// Every time at which something starts or ends, in order.
    times: Vec<u64>,
}

impl<'a> Log<'a> {
    pub(super) fn new(nand: &'a CrashNand) -> Log<'a> {
        let entries = &nand.entries;
        let mut by_done: Vec<u32> = (0..entries.len() as u32).collect();
        by_done.sort_by_key(|&index| entries[index as usize].done);
        let mut by_die = vec![Vec::new(); nand.array.geometry().dies() as usize];
        for &index in &by_done {
            let entry = &entries[index as usize];
            if !matches!(entry.what, What::Retire { .. }) {
                by_die[entry.die as usize].push(index);
            }
        }
        let mut times: Vec<u64> = entries.iter().flat_map(|entry| [entry.start, entry.done]).collect();
        times.sort_unstable();
        times.dedup();
        Log { nand, by_done, by_die, times }
    }

    /// Moments that differ in what has happened or is in flight: each start and end, and one moment between
    /// each two that follow one another.
    pub fn points(&self) -> u64 {
        (2 * self.times.len() as u64).saturating_sub(1)
    }

    /// The time of point `point`, which is less than [`Log::points`].
    pub fn time_of(&self, point: u64) -> u64 {
        let index = (point / 2) as usize;
        self.times[index] + point % 2
    }

    /// Programs and erases in the log.
    pub fn operations(&self) -> u64 {
        self.by_done.len() as u64
    }

    /// Starts cutting. Ascending cuts cost one copy of the array each.
    pub fn cutter(&self) -> Cutter<'_> {
        Cutter {
            log: self,
            base: self.nand.initial.clone(),
            applied: 0,
            of_die: vec![0; self.by_die.len()],
            at: 0,
        }
    }

    pub(super) fn entry(&self, index: u32) -> &Entry {
        &self.nand.entries[index as usize]
    }

    /// Carries one entry out on `image`.
    fn apply(&self, image: &mut SimNand<NoClock>, what: What) {
        // A failure is a property of the place: it meets the image as it met the original.
        match what {
            What::Program { ppn, oob, content, bytes } => {
                let bytes = &self.nand.contents[content as usize..][..bytes as usize];
                if oob.kind == PageKind::Data && !bytes.is_empty() {
                    image.attach(bytes);
                }
                let from = match oob.kind {
                    _ if oob.lost => Source::Nothing,
                    PageKind::Data => Source::Host,
                    PageKind::Translation | PageKind::Metadata => Source::Metadata(bytes),
                };
                let _ = image.program(ppn, oob, Class::HostWrite, from, Done::READY);
            }
            What::Erase { block } => {
                let _ = image.erase(block, Done::READY);
            }
            What::Retire { block } => image.retire(block),
        }
    }
}

/// Makes images from a [`Log`].
#[derive(Clone, Debug)]
pub struct Cutter<'a> {
    log: &'a Log<'a>,
    /// The array with the first `applied` entries by completion, those done at `at` or before.
    base: SimNand<NoClock>,
    applied: usize,
    /// By die: its first entry that is not done at `at`.
    of_die: Vec<usize>,
    at: u64,
}

impl Cutter<'_> {
    /// Makes `image` the array as a cut at `at` leaves it: what was done at `at` or before has happened; of
    /// what was in flight (at most one operation a die) each has happened, has not, or is torn, as `dice`
    /// decides; nothing else has.
    ///
    /// Every such choice is closed under dependencies: an operation starts only when all it waits for is
    /// done.
    pub fn cut(&mut self, at: u64, dice: u64, image: &mut SimNand<NoClock>) -> Cut {
        self.advance(at);
        image.clone_from(&self.base);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(dice);
        let mut cut = Cut::default();
        for (die, &first) in self.of_die.iter().enumerate() {
            let Some(&index) = self.log.by_die[die].get(first) else { continue };
            let entry = self.log.entry(index);
            if entry.start >= at {
                continue;
            }
            match (below(&mut random, 3), entry.what) {
                (0, _) => cut.dropped += 1,
                (1, what) => {
                    self.log.apply(image, what);
                    cut.completed += 1;
                }
                (_, What::Program { ppn, .. }) => {
                    image.torn(ppn);
                    cut.torn_pages += 1;
                }
                (_, What::Erase { block }) => {
                    image.torn_block(block);
                    cut.torn_blocks += 1;
                }
                (_, What::Retire { .. }) => {}
            }
        }
        cut
    }

    fn advance(&mut self, at: u64) {
        if at < self.at {
            self.base.clone_from(&self.log.nand.initial);
            self.applied = 0;
            self.of_die.fill(0);
        }
        self.at = at;
        while let Some(&index) = self.log.by_done.get(self.applied) {
            let entry = self.log.entry(index);
            if entry.done > at {
                break;
            }
            self.log.apply(&mut self.base, entry.what);
            self.applied += 1;
            if !matches!(entry.what, What::Retire { .. }) {
                self.of_die[entry.die as usize] += 1;
            }
        }
    }
}
