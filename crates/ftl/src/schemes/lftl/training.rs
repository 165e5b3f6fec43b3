//! Training: models are made of log mappings, as many at once as the memory for it holds.

use super::linear::LinearModel;
use super::map::{Logged, Map, Trained};
use super::offsets::MOST_LPAS;
use super::open::Lane;
use super::record::Covering;
use super::stats;
use crate::flash::Flash;
use crate::list::NONE;
use nand::{Done, Lpn, Nand, Ppn};
use std::collections::VecDeque;
use std::ops::Range;

/// Log mappings that are looked up at once.
const LOOKED_UP: usize = 32;
/// Sets in training that are told apart.
const MOST_IN_TRAINING: usize = 16;

/// The memory that sets in training give back. The log mappings of a set stay in memory until the
/// controller comes to it, and are looked up there; then they are in the buffer in which they are sorted,
/// until models take their place. Whoever needs their memory before waits for that.
#[derive(Clone, Debug)]
pub(super) struct InTraining {
    /// Bytes of each set, and when the sets before it are trained.
    sets: VecDeque<(u64, Done)>,
    bytes: u64,
    /// When the last set is trained.
    trained: Done,
}

impl InTraining {
    /// What it takes itself, bytes: the size of each set. As in a TP node, completions count for nothing, as
    /// a controller knows what it has done.
    pub(super) const OWN_BYTES: u64 = (MOST_IN_TRAINING * size_of::<u32>()) as u64;

    /// Nothing is in training.
    pub(super) fn new() -> InTraining {
        InTraining { sets: VecDeque::with_capacity(MOST_IN_TRAINING), bytes: 0, trained: Done::READY }
    }

    /// Bytes of log mappings that the controller has not come to.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A set, which frees `bytes`, is trained behind the others, at `trained`.
    fn add(&mut self, bytes: u64, trained: Done) {
        let begins = std::mem::replace(&mut self.trained, trained);
        let full = self.sets.len() == MOST_IN_TRAINING;
        match self.sets.back_mut() {
            Some(last) if full => *last = (last.0 + bytes, begins),
            _ => self.sets.push_back((bytes, begins)),
        }
        self.bytes += bytes;
    }

    /// Gives back the memory of the first set. Returns when it is free.
    pub(super) fn give_back(&mut self) -> Option<Done> {
        let (bytes, begins) = self.sets.pop_front()?;
        self.bytes -= bytes;
        Some(begins)
    }
}

impl Map {
    /// Linear groups are closed: models are made of what was written to them.
    pub fn close<N: Nand>(&mut self, flash: &mut Flash<N>, which: Trained) {
        for subspace in 0..self.logs.len() as u32 {
            self.close_of(flash, subspace, which);
        }
    }

    /// Linear groups that one subspace wrote are closed.
    pub fn close_of<N: Nand>(&mut self, flash: &mut Flash<N>, subspace: u32, which: Trained) {
        if self.logs[subspace as usize] > 0 {
            self.train(flash, subspace, which);
        }
    }

    /// Trains what is logged of some chunks.
    pub(super) fn train_chunks<N: Nand>(&mut self, flash: &mut Flash<N>, chunks: Range<u32>) {
        for chunk in chunks {
            if self.cache.logs_of(chunk) > 0 {
                self.train(flash, self.first_lpn(chunk).0 / self.shape().subspace_pages, Trained::All);
            }
        }
    }

    /// Makes models of the log mappings of a subspace in some groups.
    pub(super) fn train<N: Nand>(&mut self, flash: &mut Flash<N>, subspace: u32, which: Trained) {
        let first = subspace * self.shape().subspace_pages;
        let end = Lpn((first + self.shape().subspace_pages).min(self.shape().exported_pages));
        let (mut from, mut left) = (Lpn(first), self.logs[subspace as usize]);
        loop {
            from = self.gather(from..end, first, which, &mut left);
            if self.logged.is_empty() {
                break;
            }
            let held = self.cache.held_bytes();
            let sorted = self.sort(flash);
            let (mut at, mut trained) = (0, sorted);
            while at < self.logged.len() {
                let group = self.logged[at].group;
                let count = self.logged[at..].iter().take_while(|logged| logged.group == group).count();
                trained = self.train_points(flash, subspace, at..at + count, trained);
                at += count;
            }
            self.in_training.add(held - self.cache.held_bytes(), trained);
            self.logs[subspace as usize] -= self.logged.len() as u32;
        }
    }

    /// Gathers log mappings, up to a set of them, and chunk by chunk where that is possible: a run that is
    /// cut inside a chunk becomes two models. `left` log mappings have not been looked at yet. Returns where
    /// the next set begins.
    fn gather(&mut self, lpns: Range<Lpn>, first: u32, which: Trained, left: &mut u32) -> Lpn {
        self.logged.clear();
        let (mut from, most) = (lpns.start, self.shape().set as usize);
        // The chunk that is looked at.
        let mut chunk = NONE;
        let mut found = [(Lpn(0), NONE); LOOKED_UP];
        while *left > 0 {
            let most_found = (*left as usize).min(LOOKED_UP);
            let count = self.cache.next_logs(from..lpns.end, &mut found[..most_found]);
            if count == 0 {
                break;
            }
            for &(lpn, slot) in &found[..count] {
                let number = self.place(lpn).0;
                let is_begun = std::mem::replace(&mut chunk, number) == number;
                let room = most - self.logged.len();
                let fits = || self.logged.is_empty() || self.cache.logs_of(number) as usize <= room;
                if room == 0 || !(is_begun || fits()) {
                    return lpn;
                }
                from = Lpn(lpn.0 + 1);
                *left -= 1;
                self.gather_one((lpn.0 - first) as u16, Ppn(self.cache.ppn_in(slot)), which);
            }
        }
        lpns.end
    }

    /// Gathers the log mapping of an LPA, if it is of a group that is meant.
    #[inline]
    fn gather_one(&mut self, lpa: u16, ppn: Ppn, which: Trained) {
        let Some((group, local)) = self.lists.local(ppn) else {
            unreachable!("PPN {} was programmed in a block that is in no linear group", ppn.0)
        };
        let is_meant = match which {
            Trained::All => true,
            Trained::Superblock(superblock) => self.lists.superblock_of(group) == superblock,
            Trained::Lane(superblock, node) => self.lists.is_of(group, superblock, node),
        };
        if is_meant {
            self.logged.push(Logged { group, point: (lpa, local) });
        }
    }

    /// Sorts what was gathered by linear group. Completes when the controller has gathered and sorted it.
    fn sort<N: Nand>(&mut self, flash: &mut Flash<N>) -> Done {
        let count = self.logged.len() as u64;
        let mut ns = count * self.shape().train_ns;
        if self.logged.iter().any(|logged| logged.group != self.logged[0].group) {
            self.logged.sort_unstable_by_key(|logged| (logged.group, logged.point.0));
            let levels = u64::from(count.next_power_of_two().ilog2());
            ns += count * levels * self.shape().sort_ns;
        }
        flash.compute_in_slices(ns, self.in_training.trained)
    }

    /// Makes models of a part of what was gathered, all of one linear group. Completes when they are made.
    fn train_points<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        subspace: u32,
        part: Range<usize>,
        sorted: Done,
    ) -> Done {
        let (group, count) = (self.logged[part.start].group, part.len() as u64);
        let lists = &self.lists;
        let is_there =
            |lane: &Lane| lane.superblock != NONE && lists.is_of(group, lane.superblock, lane.node);
        self.open.take_exemplary(subspace, is_there, &mut self.exemplary);
        let state = &mut self.random;
        let mut random = |below: u32| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((u64::from(*state) * u64::from(below)) >> 32) as u32
        };
        let points = self.logged[part].iter().map(|logged| logged.point);
        self.trainer.train(group, points, &self.exemplary, &mut random);
        let work_ns = self.trainer.looked_at * self.shape().train_ns;
        let trained = flash.compute_in_slices(work_ns, sorted);
        let first = Lpn(subspace * self.shape().subspace_pages);
        let mut outliers = self.trainer.outliers.len() as u64;
        for at in 0..self.trainer.outliers.len() {
            self.cache.is_outlier(Lpn(first.0 + u32::from(self.trainer.outliers[at].0)));
        }
        for at in 0..self.trainer.models.len() {
            let own = self.trainer.models[at];
            outliers += self.apply(flash, first, own.model, own.last, trained);
        }
        let counters = &mut flash.counters;
        counters.count(&stats::REGRESSIONS, u64::from(self.trainer.has_searched));
        counters.count(&stats::ITERATIONS, u64::from(self.trainer.iterations));
        counters.count(&stats::POINTS, count);
        counters.count(&stats::OUTLIERS, outliers);
        counters.count(&stats::LITERAL_OUTLIERS, self.trainer.literal_outliers);
        trained
    }

    /// Enters a sub-model in each chunk that it covers. Where it has a single page, that is an outlier.
    /// Returns how many such there were. A lookup does not wait for `trained`, as it finds the log mapping
    /// until then ([`InTraining`]); a write-back does.
    fn apply<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        subspace: Lpn,
        model: LinearModel,
        last: u16,
        trained: Done,
    ) -> u64 {
        let (mut lpn, last) = (subspace.0 + u32::from(model.start), subspace.0 + u32::from(last));
        let mut alone = 0;
        while lpn <= last {
            let (number, offset) = self.place(Lpn(lpn));
            let end = (self.first_lpn(number).0 + self.shape().chunk_lpas - 1).min(last);
            let mut members = [0; MOST_LPAS];
            let members = self.cache.logs_among(lpn..end + 1, &mut members);
            if let [member] = members {
                self.cache.is_outlier_in(*member);
                alone += 1;
            } else if !members.is_empty() {
                self.cache.remove_logs(number, members);
                let (known, newer) = self.cache.waits(number);
                let own = Covering { first: offset, last: offset + (end - lpn) as u16, model };
                self.cache.train(number, own, known);
                self.cache.set_newer(number, flash.join(newer, trained));
                self.keep_budget();
            }
            lpn = end + 1;
        }
        alone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nand::timing::{Reserved, Times, Timing};

    #[test]
    fn a_set_gives_its_memory_back_when_the_sets_before_it_are_trained() {
        let times = Times {
            read_ns: 0,
            program_ns: 0,
            erase_ns: 0,
            transfer_ns: 0,
            suspend_ns: 0,
            controller_cores: 1,
        };
        let mut clock = Reserved::new(times, 1, 1);
        let (mut training, most, sets) = (InTraining::new(), MOST_IN_TRAINING, MOST_IN_TRAINING + 3);
        let mut begins = vec![Done::READY];
        for set in 1..=sets {
            begins.push(clock.compute(10, Done::READY));
            training.add(100 * set as u64, begins[set]);
        }
        let bytes = |sets: std::ops::RangeInclusive<usize>| 100 * sets.sum::<usize>() as u64;
        assert_eq!(training.bytes(), bytes(1..=sets));
        // Completions can be told apart, but not compared.
        let told = |done: Option<Done>| format!("{done:?}");
        for set in 1..most {
            assert_eq!(told(training.give_back()), told(Some(begins[set - 1])), "set {set}");
            assert_eq!(training.bytes(), bytes(set + 1..=sets));
        }
        // What is beyond counts as one set, which begins when the last one does.
        assert_eq!(told(training.give_back()), told(Some(begins[sets - 1])));
        assert_eq!((told(training.give_back()), training.bytes()), (told(None), 0));
    }
}
