//! Whether the models of a group are worth what it costs to win them back.
//!
//! Predictions come back when the pages of a group are moved, and moving costs die time: a read and a program
//! for each page. A prediction saves one read, of the translation page: for a host read, and for a write that
//! must find the page it supersedes. Both are called double reads here. So a page has to save `price` double
//! reads before it is overwritten, or its move was not worth it: (40 + 200) / 40 us = 6 on the paper's flash.
//! A scheme sees no clock, so the price is a parameter. Writes alone never pay it: one read a page at most.
//!
//! **What a gathering saves.** Q lookups of a group missed the CMT since its last gathering, and D of them
//! were double reads. Without that gathering all would have been, so it has saved Q - D so far.
//!
//! **What it costs.** While the groups are gathered before the spare room is full of what they left behind,
//! superblocks are empty when they are collected, and collection moves nothing. What it would have moved
//! without them is free: g pages for each page of the host, as it was while nothing was gathered. After V
//! volumes of writes a page costs `1 - g V` moves ([`Benefit::cost`]). Later than that, collection has
//! scattered the group, and each page takes up room that is made by more moves: `u / (1 - u)` for victims
//! with a share u of valid pages. The room that it leaves comes back, and if it had stayed, collection would
//! have moved it half a turn of the device later on average: `(1 - u / 2) / (1 - u)` moves a page.
//!
//! **When.** A group that pays is gathered when the room demands it, or before, when `D'(w) w - D(w)` reaches
//! the cost, where w of its pages were written since the last time and D' double reads come with each write
//! now. (This is the rule of renewal: there the average cost `(C + D(w)) / w` is least.) The room demands it
//! when what is left of it is filled while all groups that would pay are gathered, one after the other
//! ([`Benefit::latest`]). A group that does not pay is not gathered, and its double reads are counted in
//! segments. It is gathered when those of a segment, at as many for each write, promise to pay: of
//! predictions a share of (1 - exp(-v)) / v is alive on average over v volumes of random writes. It is
//! gathered before that, too, when all of a segment's lookups promise that gathering in turn pays, and a
//! share of (1 - exp(-v)) of them is double reads, as at the end of a turn of v volumes: later than that the
//! spare room is full. When it turns out that it did not pay, the next segment is twice as long.
//!
//! Counts are taken at the end of a segment alone, which is a sixteenth of the price of the group's pages. A
//! segment speaks for sixteen times as many writes as it has. With fewer it goes on, until there are enough
//! of them, or until its double reads have cost as much as a gathering: reads alone may end at any time, and
//! then the group has lost twice as much at most as it had to.

use crate::breach::Breach;
use crate::engine::READS_A_STEP;
use std::collections::VecDeque;

/// What is known of a group's lookups that missed the CMT.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// Lookups since the last gathering, and double reads among them.
    lookups: u32,
    doubles: u32,
    /// Double reads of the present segment, and how many it has.
    segment: u32,
    segment_length: u32,
    /// Lookups of the present segment.
    segment_lookups: u32,
    /// Pages written since the last gathering other than in sequence, and in the present segment.
    writes: u32,
    segment_writes: u32,
    /// Pages that the host had written to the device at the last gathering, and when the segment began.
    gathered_at: u32,
    segment_at: u32,
    /// Segments are twice as long so many times.
    doubled: u8,
    /// It is gathered while it pays.
    pays: bool,
    /// Stands in the queue of groups to gather.
    is_due: bool,
}

impl Record {
    /// The segment has writes enough to speak for those of a volume, as [`Benefit::promises`] has it.
    fn tells(&self, mapped: u32) -> bool {
        f64::from(self.segment_writes) * SEGMENTS >= f64::from(mapped) * lost_by(1.0)
    }
}

/// Bytes of a record, as a firmware would pack it: nine counts of 4 bytes, and a byte of flags.
pub const RECORD_BYTES: u64 = 9 * 4 + 1;
/// Segments of the double reads that are worth moving all pages.
const SEGMENTS: f64 = 16.0;
/// Segments grow by no more than 2 to the power of this: then one is worth 64 gatherings.
const MOST_DOUBLED: u8 = 10;
/// Share of the spare room that is full when groups are gathered because the room demands it, at the
/// earliest, however many there are and however long each takes: earlier, each costs twice as much a write.
const EARLIEST: f64 = 0.5;

/// Valid pages and capacity of the superblocks that collection emptied lately.
#[derive(Clone, Copy, Debug, Default)]
pub struct Emptied {
    /// Pages that had to be moved.
    pub valid: u64,
    /// Pages that could be written then.
    pub capacity: u64,
}

impl Emptied {
    /// Pages moved for each page that was gained.
    fn moves(self) -> f64 {
        self.valid as f64 / self.capacity.saturating_sub(self.valid).max(1) as f64
    }

    /// Moves that a page costs which is moved out of turn.
    fn out_of_turn(self) -> f64 {
        let u = self.valid as f64 / self.capacity.max(1) as f64;
        (1.0 - u / 2.0) / (1.0 - u).max(1e-3)
    }
}

/// The groups' double reads, and which groups are due.
#[derive(Clone, Debug)]
pub struct Benefit {
    records: Vec<Record>,
    due: VecDeque<u32>,
    /// Double reads that a moved page has to save.
    price: f64,
    /// Pages of the device, and how many volumes of it can be written until the spare room is full.
    pages: f64,
    room: f64,
    /// Pages that the host wrote, and had written when a group was gathered last. They may wrap around.
    clock: u32,
    last_gathered: u32,
    /// Volumes that the host writes during a gathering: the mean of what the last one took and the mean
    /// before it.
    takes: Option<f64>,
    /// What collection found while nothing was gathered.
    undisturbed: Emptied,
}

/// Share of pages that are overwritten when as many volumes were written, at random: 1 - exp(-volumes), in
/// operations that give the same on any machine.
fn lost_by(volumes: f64) -> f64 {
    volumes / (1.0 + volumes / 2.0)
}

impl Benefit {
    /// No group was read. `price` in double reads a page.
    pub fn new(groups: u32, price: f64) -> Benefit {
        Benefit {
            records: vec![Record::default(); groups as usize],
            due: VecDeque::with_capacity(groups as usize),
            price,
            pages: 1.0,
            room: 0.0,
            clock: 0,
            last_gathered: 0,
            takes: None,
            undisturbed: Emptied::default(),
        }
    }

    /// So many pages of the device are to spare beside those it exports.
    pub fn set_room(&mut self, spare_pages: u64, exported_pages: u32) {
        self.pages = f64::from(exported_pages.max(1));
        self.room = spare_pages as f64 / self.pages;
    }

    /// A page of a group was written.
    #[inline]
    pub fn written(&mut self, group: u32, in_sequence: bool) {
        self.clock = self.clock.wrapping_add(1);
        let it = &mut self.records[group as usize];
        it.writes = it.writes.saturating_add(u32::from(!in_sequence));
        it.segment_writes = it.segment_writes.saturating_add(u32::from(!in_sequence));
    }

    /// A lookup of a group was predicted, for a read or a write of the host.
    #[inline]
    pub fn predicted(&mut self, group: u32) {
        let it = &mut self.records[group as usize];
        it.lookups = it.lookups.saturating_add(1);
        it.segment_lookups = it.segment_lookups.saturating_add(1);
    }

    /// A translation page of a group was read for a read or a write of the host. True when it is time to ask
    /// [`Benefit::consider`].
    #[inline]
    #[must_use]
    pub fn read_twice(&mut self, group: u32) -> bool {
        let it = &mut self.records[group as usize];
        it.lookups = it.lookups.saturating_add(1);
        it.segment_lookups = it.segment_lookups.saturating_add(1);
        it.doubles = it.doubles.saturating_add(1);
        it.segment += 1;
        it.segment >= it.segment_length
    }

    /// A segment of a group's double reads ends, of which `mapped` pages are mapped. The group is due if its
    /// gathering is worth what it costs.
    pub fn consider(&mut self, group: u32, mapped: u32, emptied: Emptied) {
        let since_any = f64::from(self.clock.wrapping_sub(self.last_gathered)) / self.pages;
        if since_any >= self.room {
            self.undisturbed = emptied;
        }
        let it = self.records[group as usize];
        let all = self.price * f64::from(mapped);
        let length = ((all / SEGMENTS) as u32).max(1);
        // The first segment begins with the first double read.
        let is_first = it.segment_length == 0;
        if !is_first && !it.pays && !it.tells(mapped) && f64::from(it.segment) < all {
            self.records[group as usize].segment_length = it.segment + length.div_ceil(SEGMENTS as u32);
            return;
        }
        let volumes = f64::from(self.clock.wrapping_sub(it.gathered_at)) / self.pages;
        let cost = all * self.cost(volumes, emptied);
        let latest = self.latest(&it, all);
        let saved = f64::from(it.lookups - it.doubles);
        let now = f64::from(it.segment) / f64::from(it.segment_writes.max(1));
        let (mut pays, mut doubled, mut is_due) = (it.pays, it.doubled, false);
        if !is_first && it.pays {
            let doubles = f64::from(it.doubles);
            let renewed = doubles >= all && now * f64::from(it.writes) - doubles >= cost.max(all);
            is_due = renewed || (volumes >= latest && saved >= cost);
            doubled = if is_due { 0 } else { doubled };
            if !is_due && volumes >= self.room && doubles >= all / 2.0 {
                (pays, doubled) = (false, (doubled + 1).min(MOST_DOUBLED));
            }
        } else if !is_first {
            is_due = self.promises(&it, f64::from(mapped), latest, emptied);
        }
        let it = &mut self.records[group as usize];
        (it.pays, it.doubled) = (pays, doubled);
        (it.segment, it.segment_lookups) = (0, 0);
        (it.segment_writes, it.segment_at) = (0, self.clock);
        it.segment_length = length.saturating_mul(if pays { 1 } else { 1 << doubled });
        if is_due && !it.is_due {
            it.is_due = true;
            self.due.push_back(group);
        }
    }

    /// Moves that gathering a page costs, when so many volumes of the device were written since the last
    /// time.
    fn cost(&self, volumes: f64, emptied: Emptied) -> f64 {
        if volumes <= self.room {
            (1.0 - self.undisturbed.moves() * volumes).max(0.0)
        } else {
            emptied.out_of_turn()
        }
    }

    /// Volumes after its last gathering at which a group is gathered at the latest: early enough for all
    /// that would pay to be gathered one after the other before the spare room is full. `all` double reads
    /// pay for a gathering; a group with fewer lookups does not wait for one.
    fn latest(&self, it: &Record, all: f64) -> f64 {
        let waiting = self.records.iter().filter(|other| f64::from(other.lookups) >= all).count().max(1);
        let takes = self.takes.unwrap_or_else(|| self.may_take(it));
        (self.room - waiting as f64 * takes).max(EARLIEST * self.room)
    }

    /// Volumes that the host will write during a gathering, as long as none was complete: steps beside each
    /// page written, as for a group whose pages were written once each, and beside its reads.
    fn may_take(&self, it: &Record) -> f64 {
        let reads = f64::from(it.segment_lookups) / f64::from(it.segment_writes.max(1));
        1.0 / (self.records.len() as f64 * (3.0 + reads / f64::from(READS_A_STEP)))
    }

    /// Whether a gathering promises to pay, if as many lookups a write go on, and as many double reads: by
    /// the next one, one after the other as the room demands or one for each volume of the group's own
    /// writes; or in turn, when as few are predicted as will be at the end of a turn.
    fn promises(&self, it: &Record, mapped: f64, latest: f64, emptied: Emptied) -> bool {
        let device = f64::from(self.clock.wrapping_sub(it.segment_at)) / self.pages;
        let own = f64::from(it.segment_writes.max(1)) / mapped.max(1.0);
        let share = own / device.max(f64::MIN_POSITIVE);
        let a_write = |count: u32| f64::from(count) / f64::from(it.segment_writes.max(1));
        let (lookups, doubles) = (a_write(it.segment_lookups), a_write(it.segment));
        let pays = |volumes: f64, cost: f64| doubles * lost_by(volumes) >= self.price * cost;
        let in_turn = |room: f64| (room * share).min(1.0);
        let lost = lost_by(in_turn(latest));
        pays(in_turn(self.room), self.cost(self.room, emptied))
            || pays(1.0, emptied.out_of_turn())
            || (doubles >= lookups * lost && lookups * lost >= self.price * self.cost(latest, emptied))
    }

    /// Whether a group is due.
    #[inline]
    pub fn is_any_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Takes the group that has been due for longest.
    pub fn take_due(&mut self) -> Option<u32> {
        let group = self.due.pop_front()?;
        self.records[group as usize].is_due = false;
        Some(group)
    }

    /// The gathering of a group begins. Returns how many of its pages were written since the last one.
    pub fn begin(&mut self, group: u32) -> u32 {
        self.last_gathered = self.clock;
        let it = &mut self.records[group as usize];
        let Record { writes, doubled, is_due, .. } = *it;
        let at = self.clock;
        *it = Record { gathered_at: at, segment_at: at, doubled, is_due, pays: true, ..Record::default() };
        writes
    }

    /// The gathering that began last is complete.
    pub fn end(&mut self) {
        let took = f64::from(self.clock.wrapping_sub(self.last_gathered)) / self.pages;
        self.takes = Some(self.takes.map_or(took, |takes| (takes + took) / 2.0));
    }

    /// Checks the queue against the flags.
    pub fn check(&self) -> Result<(), Breach> {
        let due = self.records.iter().filter(|it| it.is_due).count();
        if due != self.due.len() {
            return Err(format!("{due} groups are due but {} are queued", self.due.len()).into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u32 = 1_000;
    const FULL: Emptied = Emptied { valid: 92, capacity: 100 };
    const THIRD: Emptied = Emptied { valid: 33, capacity: 100 };
    const EMPTY: Emptied = Emptied { valid: 0, capacity: 100 };

    /// Draws numbers below its argument.
    fn pages_drawn_at_random() -> impl FnMut(u32) -> u32 {
        let mut state = 1_u64;
        move |limit| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % u64::from(limit)) as u32
        }
    }

    /// One group on a device with `room` volumes to spare, written and read at random for `volumes`, `reads`
    /// reads for each write. Returns the volumes at which it is gathered, at once.
    fn gatherings(reads: u32, price: f64, room: f64, emptied: Emptied, volumes: u32) -> Vec<f64> {
        let mut benefit = Benefit::new(1, price);
        benefit.set_room((room * f64::from(PAGES)) as u64, PAGES);
        let mut trained = vec![false; PAGES as usize];
        let mut below = pages_drawn_at_random();
        let mut found = Vec::new();
        for write in 0..volumes * PAGES {
            for read in 0..=reads {
                let page = below(PAGES) as usize;
                if trained[page] {
                    benefit.predicted(0);
                } else if benefit.read_twice(0) {
                    benefit.consider(0, PAGES, emptied);
                }
                if read == 0 {
                    trained[page] = false;
                    benefit.written(0, false);
                }
            }
            if benefit.take_due().is_some() {
                benefit.begin(0);
                trained.fill(true);
                found.push(f64::from(write) / f64::from(PAGES));
            }
        }
        found
    }

    #[test]
    fn where_little_is_read_nothing_is_gathered() {
        for reads in [0, 1, 3] {
            assert_eq!(gatherings(reads, 6.0, 1.0, EMPTY, 20), []);
        }
        assert_eq!(gatherings(19, 6.0, 0.02, FULL, 20), [], "a page of room costs 11 moves");
    }

    /// With r double reads for each write, the rule of renewal is met after v volumes where r (1 - (1 + v)
    /// exp(-v)) is the price: at v = 1.08 for r = 20. With less room it is gathered before.
    #[test]
    fn a_group_is_gathered_when_the_average_cost_is_least_or_the_room_demands_it() {
        for (room, right) in [(2.0, 1.08), (0.5, 0.375)] {
            let found = gatherings(19, 6.0, room, EMPTY, 10);
            let apart = (found[found.len() - 1] - found[0]) / (found.len() - 1) as f64;
            assert!((apart - right).abs() < 0.3 * right, "room {room}: {found:?}");
            assert!(found[0] < room, "the first time, too: {found:?}");
        }
    }

    /// Eight groups of 1,000 pages, 19 reads for each write, a room of one volume, and gatherings that each
    /// take so many volumes. Returns the volumes between two gatherings of a group, without the first turn.
    fn turns(takes: f64) -> Vec<f64> {
        const GROUPS: u32 = 8;
        let mut benefit = Benefit::new(GROUPS, 6.0);
        let pages = GROUPS * PAGES;
        benefit.set_room(u64::from(pages), pages);
        let mut below = pages_drawn_at_random();
        let (mut trained, mut last) = (vec![true; pages as usize], vec![0; GROUPS as usize]);
        let (mut under_way, mut found) = (None, Vec::new());
        for write in 0..6 * pages {
            for read in 0..20 {
                let page = below(pages);
                let group = page / PAGES;
                if trained[page as usize] {
                    benefit.predicted(group);
                } else if benefit.read_twice(group) {
                    benefit.consider(group, PAGES, EMPTY);
                }
                if read == 0 {
                    trained[page as usize] = false;
                    benefit.written(group, false);
                }
            }
            if under_way.is_none() {
                under_way = benefit.take_due().map(|group| (group, write));
                if let Some((group, _)) = under_way {
                    benefit.begin(group);
                    let before = std::mem::replace(&mut last[group as usize], write);
                    found.extend((before > 0).then(|| f64::from(write - before) / f64::from(pages)));
                }
            }
            let is_over =
                |&mut (_, began): &mut (u32, u32)| f64::from(write - began) >= takes * f64::from(pages);
            if let Some((group, _)) = under_way.take_if(is_over) {
                benefit.end();
                trained[(group * PAGES) as usize..((group + 1) * PAGES) as usize].fill(true);
            }
        }
        found
    }

    #[test]
    fn groups_begin_early_enough_to_be_gathered_one_after_the_other() {
        let [fast, slow] = [0.01, 0.05].map(turns);
        let least = |turns: &[f64]| turns.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(fast.len() >= 24 && slow.len() >= 24, "{fast:?} {slow:?}");
        for turn in fast.iter().chain(&slow) {
            assert!((EARLIEST..1.1).contains(turn), "{fast:?} {slow:?}");
        }
        assert!(least(&fast) > 0.8 && least(&slow) < 0.75, "{fast:?} {slow:?}");
    }

    #[test]
    fn reads_alone_pay_for_a_gathering_and_less_and_less_often_for_one_that_teaches_nothing() {
        let mut benefit = Benefit::new(1, 6.0);
        benefit.set_room(u64::from(PAGES), PAGES);
        let mut gathered = Vec::new();
        for doubles in 1..=1_000 * PAGES {
            if benefit.read_twice(0) {
                benefit.consider(0, PAGES, EMPTY);
            }
            if benefit.take_due().is_some() {
                benefit.begin(0);
                gathered.push(doubles);
            }
            // Some writes, so that time goes on.
            if doubles % 20 == 0 {
                benefit.written(0, false);
            }
        }
        assert!(gathered[0] <= PAGES, "{gathered:?}");
        assert!(gathered.len() < 20, "{gathered:?}");
    }

    /// Writes with a double read each, and then double reads alone, on a device that is 62 % full. Returns
    /// how many of these there were when the group is gathered.
    fn reads_before_a_gathering(writes: u32) -> u32 {
        let mut benefit = Benefit::new(1, 6.0);
        benefit.set_room(600, PAGES);
        for doubles in 1..=writes + 10 * PAGES {
            if benefit.read_twice(0) {
                benefit.consider(0, PAGES, THIRD);
            }
            if benefit.take_due().is_some() {
                return doubles.saturating_sub(writes);
            }
            if doubles <= writes {
                benefit.written(0, false);
            }
        }
        u32::MAX
    }

    /// A segment in which the writes ended is no promise either.
    #[test]
    fn reads_without_writes_gather_a_group_once_they_have_cost_as_much() {
        for writes in (0..3_000).step_by(10) {
            let reads = reads_before_a_gathering(writes);
            assert!((5_600..=6_400).contains(&reads), "{reads} reads after {writes} writes");
        }
    }
}
