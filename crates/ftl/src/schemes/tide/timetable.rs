//! The timetable: which bin each group's log pages go to, and so when it is merged.
//!
//! Bins stand in a ring. The front bin is merged when room is wanted; then the next one is the front. A group
//! that has pages in the log belongs to one bin, so many bins ahead of the front.

use super::room::LOG_FOR_BURSTS;
use crate::breach::Breach;
use crate::list::{linked, Links, List, NONE};
use crate::log_block::Layout;
use nand::Divisor;

/// A group that belongs to no bin.
pub(super) const NO_BIN: u8 = u8::MAX;

/// Log blocks of a bin that are written at the same time, at most: its own ones, and with extras.
const MOST_OWN: u32 = 4;
const MOST_OPEN: usize = 64;

/// Gaps between pages for a bin that the mean is taken of, and the longest one that is counted.
const GAPS: u16 = 16;
const MOST_GAP: u16 = 1024;

/// Octaves of bins ahead, and of rates.
const AHEAD_OCTAVES: u32 = 7;
const RATE_OCTAVES: u32 = 15;
/// Bins that a group waits and is put off again: as many as are counted.
const MOST_WAIT: u32 = 7 << (AHEAD_OCTAVES - 1);
/// Writes of a group that are counted.
const MOST_WRITES: u8 = 31;

/// Bins that a parallel unit may be ahead of the front with its merges.
pub(super) const LEAD: u32 = 2;

/// What the timetable knows of a group beside its bin, 2 bytes: 5, 6 and 5 bits.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// Bins ahead of the front at its assignment, and each time that it was put off, by [`encode`].
    ahead: u8,
    /// Log pages that it gathers while the front moves by a bin, in 1/16, by [`encode`]; 0 for unknown.
    rate: u8,
    /// Pages that the host wrote to the log since its assignment, at most [`MOST_WRITES`].
    writes: u8,
}

#[derive(Clone, Copy, Debug)]
struct Bin {
    /// Groups that belong to it.
    groups: u32,
    /// Log blocks that hold their pages.
    units: List,
    /// Those that are written, as far as they are not [`NONE`]: its own ones, by turns, then extras. Nothing
    /// is in the slots from `end` on.
    open: [u32; MOST_OPEN],
    end: u8,
    turn: u8,
    /// Pages that had been written to the log when one was for this bin, and the mean number between two of
    /// these, in 1/16.
    last: u32,
    gap: u16,
}

impl Bin {
    /// Puts a log block, or none, into a slot; returns what was there.
    fn put(&mut self, at: usize, unit: u32) -> u32 {
        let before = std::mem::replace(&mut self.open[at], unit);
        self.end = self.end.max(at as u8 + 1);
        while self.end > 0 && self.open[self.end as usize - 1] == NONE {
            self.end -= 1;
        }
        before
    }
}

/// A log block's place in the list of its bin.
#[derive(Clone, Copy, Debug)]
struct Unit {
    links: Links,
    bin: u8,
}

linked!(Unit);

/// When each group is merged: the ring of bins, and the bin of each group.
#[derive(Clone, Debug)]
pub(super) struct Timetable {
    groups: Vec<Group>,
    /// The bin of each group, or [`NO_BIN`]: those of one parallel unit side by side, as they are searched.
    bin_of: Vec<u8>,
    /// Places in `bin_of` for each parallel unit.
    lane: u32,
    bins: Vec<Bin>,
    /// By block of the pool.
    units: Vec<Unit>,
    front: u32,
    /// Log blocks of a bin that are written at the same time.
    open: u8,
    /// Groups that lie on the same parallel unit are so far apart.
    width: Divisor,
    /// Bins ahead at the mean rate.
    ahead: u32,
    /// The sum of the rates, and of how many groups.
    rates: u64,
    rated: u64,
    /// Log blocks that are written beyond `open` for a bin.
    extras: u32,
    /// Groups of one bin at most, if another can take them.
    crowd: u32,
    /// Log blocks of one bin, the same.
    most_units: u32,
}

impl Timetable {
    /// Bins by the bins ahead at the mean rate: groups of a sixteenth of it wait four times as long.
    fn bins_for(ahead: u32) -> u32 {
        (4 * ahead + 2).clamp(4, u32::from(NO_BIN))
    }

    /// Log blocks of a bin that are written at the same time, on different dies. Half a block is lost with
    /// each, so there are several where that is at most a sixty-fourth of the log.
    fn open_for(log_blocks: u32, ahead: u32) -> u8 {
        (log_blocks / (32 * ahead)).clamp(1, MOST_OWN) as u8
    }

    pub(super) fn new(groups: u32, width: u32, blocks: u32, log_blocks: u32, ahead: u32) -> Timetable {
        let bins = Timetable::bins_for(ahead);
        Timetable {
            groups: vec![Group { ahead: 1, rate: 0, writes: 0 }; groups as usize],
            bin_of: vec![NO_BIN; (groups.div_ceil(width) * width) as usize],
            lane: groups.div_ceil(width),
            bins: vec![
                Bin {
                    groups: 0,
                    units: List::EMPTY,
                    open: [NONE; MOST_OPEN],
                    end: 0,
                    turn: 0,
                    last: 0,
                    gap: GAPS * MOST_GAP
                };
                bins as usize
            ],
            units: vec![Unit { links: Links::NONE, bin: NO_BIN }; blocks as usize],
            front: 0,
            open: Timetable::open_for(log_blocks, ahead),
            width: Divisor::new(width),
            ahead,
            rates: 0,
            rated: 0,
            extras: 0,
            crowd: 2 * groups / ahead + 1,
            most_units: (log_blocks / 8).max(1),
        }
    }

    /// Bytes of what is known of groups, of bins with the list of their log blocks, of extras, and of the
    /// work of dies with what is counted of all.
    pub(super) fn bytes(layout: &Layout, ahead: u32) -> u64 {
        let bin = 14 + 4 * u64::from(Timetable::open_for(layout.log_blocks, ahead));
        let bins = bin * u64::from(Timetable::bins_for(ahead));
        let blocks = layout.log_blocks + layout.log_blocks / LOG_FOR_BURSTS + layout.parallel_units;
        3 * u64::from(layout.logical_blocks) + bins + 4 * u64::from(blocks) + 12
    }

    pub(super) fn bins(&self) -> u32 {
        self.bins.len() as u32
    }

    /// Bins that a group of the mean rate waits.
    pub(super) fn ahead(&self) -> u32 {
        self.ahead
    }

    pub(super) fn front(&self) -> u8 {
        self.front as u8
    }

    /// The bin so many places behind the front.
    fn bin_at(&self, ahead: u32) -> u8 {
        let bin = self.front + ahead;
        (if bin < self.bins() { bin } else { bin - self.bins() }) as u8
    }

    /// How many bins a bin is ahead of the front. The one before the front is the furthest.
    fn ahead_of(&self, bin: u8) -> u32 {
        (u32::from(bin) + self.bins() - self.front) % self.bins()
    }

    /// The log blocks that are written of the bins next after one: so few bins that pages of that one wait
    /// hardly longer there.
    pub(super) fn open_units_near(&self, bin: u8) -> impl Iterator<Item = u32> + use<'_> {
        self.open_units_behind(bin, 0, self.ahead / 15)
    }

    /// Those of all bins behind these.
    pub(super) fn open_units_far(&self, bin: u8) -> impl Iterator<Item = u32> + use<'_> {
        self.open_units_behind(bin, self.ahead / 15, self.bins())
    }

    /// The log blocks that are written of the bins after the first `from` behind one, up to number `to`.
    fn open_units_behind(&self, bin: u8, from: u32, to: u32) -> impl Iterator<Item = u32> + use<'_> {
        let ahead = self.ahead_of(bin);
        let last = (ahead + to).min(self.bins() - 2);
        (ahead + from + 1..=last).flat_map(|ahead| self.open_units(self.bin_at(ahead)))
    }

    /// The next bin is the front.
    pub(super) fn turn(&mut self) {
        self.front = (self.front + 1) % self.bins();
    }

    /// Where `bin_of` has a group.
    #[inline]
    fn place(&self, group: u32) -> usize {
        let (nth, unit) = self.width.divide(group);
        (unit * self.lane + nth) as usize
    }

    pub(super) fn bin_of(&self, group: u32) -> u8 {
        self.bin_of[self.place(group)]
    }

    pub(super) fn groups_in(&self, bin: u8) -> u32 {
        self.bins[bin as usize].groups
    }

    pub(super) fn units_in(&self, bin: u8) -> u32 {
        self.bins[bin as usize].units.len()
    }

    /// The most log blocks of any of the next few bins: what the front may keep until its last group is
    /// merged.
    pub(super) fn most_units_soon(&self) -> u32 {
        (0..4).map(|ahead| self.units_in(self.bin_at(ahead))).max().unwrap_or(0)
    }

    /// The bin of a group that the host writes a page of; assigned, if it has none, by its rate: the number
    /// of writes for merges is least when groups wait in proportion to 1 / sqrt(rate).
    pub(super) fn written(&mut self, group: u32) -> u8 {
        let (it, bin) = (self.groups[group as usize], self.bin_of(group));
        if bin != NO_BIN {
            self.groups[group as usize].writes = (it.writes + 1).min(MOST_WRITES);
            return bin;
        }
        let last = self.bins() - 3;
        let ahead = match (decode(it.rate), self.rated) {
            // Spread evenly: groups that begin together must not all be due together.
            (0, _) | (_, 0) => 1 + (group.wrapping_mul(0x9E37_79B1) >> 16) % self.ahead,
            (rate, rated) => {
                let square = u64::from(self.ahead).pow(2) * self.rates / (rated * u64::from(rate));
                (square.isqrt() as u32).clamp(1, last)
            }
        };
        self.assign(group, self.free_bin(group, ahead));
        self.groups[group as usize].writes = 1;
        self.bin_of(group)
    }

    /// How far ahead of the front a group goes that should go `ahead`.
    fn free_bin(&self, group: u32, ahead: u32) -> u32 {
        let last = self.bins() - 3;
        // Units may be ahead of the front by some bins.
        let least = (LEAD + 1).min(last);
        let mut ahead = self.evenly(group, ahead.clamp(least, last), least);
        while ahead > least && self.is_crowded(self.bin_at(ahead)) {
            ahead -= 1;
        }
        ahead
    }

    /// Of the bins up to a quarter before and behind `ahead`, the one with the fewest groups on the parallel
    /// unit of `group`. So the merges of a bin end at about the same time on all dies. Of equal ones groups
    /// take one each by turns: a long request, or a burst, has a page for each of many groups, and they must
    /// not all go to the one log block that a bin writes.
    fn evenly(&self, group: u32, ahead: u32, least: u32) -> u32 {
        let reach = ahead / 4;
        let first = (ahead - reach).max(least);
        let last = (ahead + reach).min(self.bins() - 3);
        let count = last - first + 1;
        let mut groups = [0u32; NO_BIN as usize + 1];
        let lane = (self.width.divide(group).1 * self.lane) as usize;
        self.bin_of[lane..lane + self.lane as usize].iter().for_each(|&bin| groups[bin as usize] += 1);
        let turn = |at: u32| (at + count - group % count) % count;
        let fewest = (0..count).min_by_key(|&at| (groups[self.bin_at(first + at) as usize], turn(at)));
        fewest.map_or(ahead, |at| first + at)
    }

    /// A bin keeps its log blocks until its last group is merged, so none may have a large part of the log.
    fn is_crowded(&self, bin: u8) -> bool {
        self.groups_in(bin) >= self.crowd || self.units_in(bin) >= self.most_units
    }

    /// Puts a group that has no bin into the one `ahead` of the front.
    pub(super) fn assign(&mut self, group: u32, ahead: u32) {
        let (bin, place) = (self.bin_at(ahead), self.place(group));
        self.bin_of[place] = bin;
        self.groups[group as usize].ahead = encode(ahead.max(1), AHEAD_OCTAVES);
        self.groups[group as usize].writes = 0;
        self.bins[bin as usize].groups += 1;
    }

    /// Puts a group whose turn it is into a later bin, if it should wait `wait` bins in all and that is at
    /// least twice what it has waited. `false`: it is due.
    pub(super) fn put_off(&mut self, group: u32, wait: u32) -> bool {
        let (it, bin) = (self.groups[group as usize], self.bin_of(group));
        let waited = decode(it.ahead);
        if bin == NO_BIN || waited >= MOST_WAIT || wait < 2 * waited {
            return false;
        }
        self.bins[bin as usize].groups -= 1;
        let ahead = self.free_bin(group, (wait - waited).min(self.ahead));
        self.assign(group, ahead);
        // It grows, however coarse the code is: no group is put off for ever.
        self.groups[group as usize].ahead = encode(waited + ahead, AHEAD_OCTAVES).max(it.ahead + 1);
        self.groups[group as usize].writes = it.writes;
        true
    }

    /// Takes a group out of its bin: it is merged now. `pages` of it are in the log.
    pub(super) fn leave(&mut self, group: u32, pages: u32) {
        let place = self.place(group);
        let bin = std::mem::replace(&mut self.bin_of[place], NO_BIN);
        if bin == NO_BIN {
            return;
        }
        self.bins[bin as usize].groups -= 1;
        let it = &mut self.groups[group as usize];
        let gathered = pages.max(u32::from(it.writes));
        let now = (gathered * 16 / decode(it.ahead)).max(1);
        let before = decode(it.rate);
        let rate = encode(if before == 0 { now } else { (before + now) / 2 }, RATE_OCTAVES);
        self.rates = self.rates + u64::from(decode(rate)) - u64::from(before);
        self.rated += u64::from(before == 0);
        it.rate = rate;
    }

    /// The log block that a bin's next page is written to.
    pub(super) fn open_unit(&self, bin: u8) -> Option<u32> {
        let it = &self.bins[bin as usize];
        let open = it.open[it.turn as usize];
        (open != NONE).then_some(open)
    }

    /// The log blocks of a bin that are written.
    pub(super) fn open_units(&self, bin: u8) -> impl Iterator<Item = u32> + use<'_> {
        let it = &self.bins[bin as usize];
        it.open[..it.end as usize].iter().copied().filter(|&open| open != NONE)
    }

    /// Whether a log block is written.
    pub(super) fn is_open(&self, unit: u32) -> bool {
        self.bins[self.bin_of_unit(unit) as usize].open.contains(&unit)
    }

    /// The next page of a bin goes to another log block, if it has several.
    pub(super) fn next_open(&mut self, bin: u8) {
        let it = &mut self.bins[bin as usize];
        it.turn = (it.turn + 1) % self.open;
    }

    /// Sets the log block that a bin's next page is written to; returns the one before.
    pub(super) fn replace_open(&mut self, bin: u8, unit: u32) -> Option<u32> {
        let it = &mut self.bins[bin as usize];
        let before = it.put(it.turn as usize, unit);
        (before != NONE).then_some(before)
    }

    /// Takes away a log block that a bin's pages are written to.
    pub(super) fn take_open(&mut self, bin: u8) -> Option<u32> {
        let it = &mut self.bins[bin as usize];
        let at = it.open.iter().position(|&open| open != NONE)?;
        self.extras -= u32::from(at >= self.open as usize);
        Some(it.put(at, NONE))
    }

    // Extras: log blocks that a bin writes beside its own ones, in a burst or where it takes many pages.

    /// Extras of all bins.
    pub(super) fn extras(&self) -> u32 {
        self.extras
    }

    /// A page is for a bin, after so many others that were written to the log.
    pub(super) fn wants_page(&mut self, bin: u8, log_pages: u64) {
        let it = &mut self.bins[bin as usize];
        let gap = (log_pages as u32).wrapping_sub(it.last).min(MOST_GAP.into()) as u16;
        it.last = log_pages as u32;
        it.gap = it.gap - (it.gap + GAPS / 2) / GAPS + gap;
    }

    /// Whether a bin takes more than twice the pages of a mean one, and each log block that it writes more
    /// than one of so many pages.
    pub(super) fn is_busy(&self, bin: u8, pages: u32) -> bool {
        let gap = u32::from(self.bins[bin as usize].gap);
        let open = self.open_units(bin).count() as u32;
        gap * open.max(2 * pages / self.ahead) < pages * u32::from(GAPS)
    }

    /// Whether a bin may have one more.
    pub(super) fn takes_extra(&self, bin: u8) -> bool {
        self.bins[bin as usize].open[self.open as usize..].contains(&NONE)
    }

    /// A log block of a bin becomes an extra.
    pub(super) fn add_extra(&mut self, unit: u32) {
        let added = self.replace_extra(self.bin_of_unit(unit), |open| open == NONE, unit);
        self.extras += u32::from(added.is_some());
    }

    /// A log block is full. `false`: it is no extra.
    pub(super) fn close_extra(&mut self, unit: u32) -> bool {
        let closed = self.replace_extra(self.bin_of_unit(unit), |open| open == unit, NONE);
        self.extras -= u32::from(closed.is_some());
        closed.is_some()
    }

    /// Takes away an extra of a bin, to be one of its own log blocks.
    pub(super) fn take_extra(&mut self, bin: u8) -> Option<u32> {
        let taken = self.replace_extra(bin, |open| open != NONE, NONE);
        self.extras -= u32::from(taken.is_some());
        taken
    }

    /// Puts another block, or none, in the place of an extra that suits; returns what was there.
    fn replace_extra(&mut self, bin: u8, suits: impl Fn(u32) -> bool, unit: u32) -> Option<u32> {
        let it = &mut self.bins[bin as usize];
        let at = (usize::from(self.open)..MOST_OPEN).find(|&at| suits(it.open[at]))?;
        Some(it.put(at, unit))
    }

    /// A log block holds pages of a bin from now on.
    pub(super) fn add_unit(&mut self, bin: u8, unit: u32) {
        self.units[unit as usize].bin = bin;
        self.bins[bin as usize].units.push_back(&mut self.units, unit);
    }

    /// A log block is erased.
    pub(super) fn remove_unit(&mut self, unit: u32) {
        let bin = std::mem::replace(&mut self.units[unit as usize].bin, NO_BIN);
        self.bins[bin as usize].units.unlink(&mut self.units, unit);
    }

    /// The bin of a log block; [`NO_BIN`] when it is none.
    pub(super) fn bin_of_unit(&self, unit: u32) -> u8 {
        self.units[unit as usize].bin
    }

    /// The log blocks of a bin.
    pub(super) fn units_of(&self, bin: u8) -> impl Iterator<Item = u32> + use<'_> {
        self.bins[bin as usize].units.iter(&self.units)
    }

    /// The bins that are more than `least` ahead of the front, each behind how many bins.
    pub(super) fn bins_ahead(&self, least: u32) -> impl Iterator<Item = (u32, u8)> + use<'_> {
        (least + 1..self.bins() - 1).map(|ahead| (ahead, self.bin_at(ahead)))
    }

    /// All log blocks.
    pub(super) fn all_units(&self) -> impl Iterator<Item = u32> + use<'_> {
        self.bins.iter().flat_map(|bin| bin.units.iter(&self.units))
    }

    /// The first group of the bin `ahead` of the front, from `from` on, on the same parallel unit.
    pub(super) fn next_of(&self, ahead: u32, from: u32) -> Option<u32> {
        let bin = self.bin_at(ahead);
        let (nth, unit) = self.width.divide(from);
        let lane = &self.bin_of[(unit * self.lane) as usize..][..self.lane as usize];
        let at = lane.get(nth as usize..)?.iter().position(|&other| other == bin)?;
        Some(from + at as u32 * self.width.get())
    }

    /// Checks that the bins count their groups.
    pub(super) fn check(&self) -> Result<(), Breach> {
        for (bin, it) in (0..).zip(&self.bins) {
            let groups = self.bin_of.iter().filter(|&&other| other == bin).count();
            if groups != it.groups as usize {
                return Err(format!("bin {bin} counts {} groups and has {groups}", it.groups).into());
            }
            let mut open = it.open.iter().copied().filter(|&open| open != NONE);
            if let Some(open) = open.find(|&open| self.bin_of_unit(open) != bin) {
                return Err(format!("bin {bin} writes block {open}, which is not its own").into());
            }
            if it.open[it.end as usize..].iter().any(|&open| open != NONE) {
                return Err(format!("bin {bin} writes a block beyond its first {}", it.end).into());
            }
        }
        let extras = self.bins.iter().flat_map(|bin| &bin.open[self.open as usize..]);
        let extras = extras.filter(|&&open| open != NONE).count();
        if extras != self.extras as usize {
            return Err(format!("bins write {extras} extras, and {} are counted", self.extras).into());
        }
        Ok(())
    }
}

/// A number of the first four, or of so many octaves behind them: its octave, and the quarter of it.
fn encode(number: u32, octaves: u32) -> u8 {
    let number = number.min((4 << octaves) - 1);
    if number < 4 {
        return number as u8;
    }
    let octave = number.ilog2();
    (((octave - 1) << 2) | ((number >> (octave - 2)) & 3)) as u8
}

/// The least number that has this code.
fn decode(code: u8) -> u32 {
    let code = u32::from(code);
    if code < 4 {
        return code;
    }
    (4 | (code & 3)) << ((code >> 2) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_keeps_a_number_to_a_fifth() {
        for number in 0..1 << 16 {
            let kept = decode(encode(number, RATE_OCTAVES));
            assert!(kept <= number && number - kept <= number / 5, "{number} became {kept}");
        }
        assert!(encode(u32::MAX, RATE_OCTAVES) < 64 && encode(u32::MAX, AHEAD_OCTAVES) < 32);
        assert!(decode(encode(255, AHEAD_OCTAVES)) >= 224);
    }

    #[test]
    fn a_hot_group_comes_round_often() {
        let mut table = Timetable::new(64, 1, 8, 8, 8);
        for group in 0..64 {
            table.written(group);
        }
        for group in 0..64 {
            for _ in 0..if group == 0 { 64 } else { 4 } {
                table.written(group);
            }
            table.groups[group as usize].ahead = encode(8, AHEAD_OCTAVES);
            table.leave(group, 4);
        }
        let hot = table.written(0);
        let others: Vec<u8> = (1..33).map(|group| table.written(group)).collect();
        assert!(others.iter().all(|&bin| 2 * hot <= bin && (6..=12).contains(&bin)), "{hot}: {others:?}");
        let mean = others.iter().map(|&bin| u32::from(bin)).sum::<u32>() / 32;
        assert!((7..=9).contains(&mean), "{others:?}");
    }

    #[test]
    fn a_group_is_put_off_until_it_has_waited_long_enough() {
        let mut table = Timetable::new(64, 1, 8, 8, 8);
        let first = u32::from(table.written(0));
        assert!(!table.put_off(0, 2 * decode(table.groups[0].ahead) - 1) && table.bin_of(0) == first as u8);
        // The front is at its bin.
        (0..first).for_each(|_| table.turn());
        assert!(table.put_off(0, 1000));
        let on = table.ahead_of(table.bin_of(0));
        assert!((6..=10).contains(&on), "{on}");
        assert!(decode(table.groups[0].ahead) >= (first + on) * 4 / 5);
        table.check().unwrap();
        let times = (0..100).take_while(|_| table.put_off(0, u32::MAX)).count();
        assert!((20..=28).contains(&times), "{times}");
        assert!(!table.put_off(1, 1000), "it is in no bin");
    }

    #[test]
    fn a_bin_has_extras_until_it_is_closed() {
        let mut table = Timetable::new(64, 1, MOST_OPEN as u32, 8, 8);
        for unit in 0..MOST_OPEN as u32 {
            assert!(table.takes_extra(2));
            table.add_unit(2, unit);
            match unit {
                0 => assert_eq!(table.replace_open(2, 0), None),
                _ => table.add_extra(unit),
            }
        }
        assert!(!table.takes_extra(2) && table.takes_extra(3));
        assert_eq!((table.extras(), table.open_units(2).count()), (63, 64));
        (4..64).for_each(|unit| assert!(table.close_extra(unit)));
        assert!(table.close_extra(2) && !table.close_extra(2) && !table.close_extra(0));
        assert_eq!(table.take_extra(2), Some(1));
        table.check().unwrap();
        assert_eq!((table.take_open(2), table.extras()), (Some(0), 1));
        assert_eq!((table.take_open(2), table.extras()), (Some(3), 0));
        assert_eq!((table.take_open(2), table.take_extra(2)), (None, None));
        table.check().unwrap();
    }

    #[test]
    fn a_bin_is_busy_while_it_and_each_of_its_blocks_take_more_than_their_share() {
        let mut table = Timetable::new(64, 1, 32, 8, 8);
        // Of two pages one is for bin 2, and of eight one for bin 3: as many as for a mean bin.
        for page in 0..4096 {
            if page % 2 == 0 {
                table.wants_page(2, page);
            }
            if page % 8 == 0 {
                table.wants_page(3, page);
            }
        }
        // Sixteen blocks of bin 2 take a page of 32 each.
        for (opened, is_busy) in [(1, true), (12, true), (20, false)] {
            while (table.open_units(2).count() as u32) < opened {
                let unit = table.extras();
                table.add_unit(2, unit);
                table.add_extra(unit);
            }
            assert_eq!(table.is_busy(2, 32), is_busy, "{opened} open");
        }
        table.add_unit(3, 20);
        table.add_extra(20);
        assert!(!table.is_busy(3, 32));
    }

    #[test]
    fn later_bins_are_near_or_far_and_never_earlier() {
        let mut table = Timetable::new(64, 1, 256, 64, 30);
        (0..10).for_each(|_| table.turn());
        // A log block for each bin; its number is that of the bin.
        for unit in 0..table.bins() {
            table.add_unit(unit as u8, unit);
            table.replace_open(unit as u8, unit);
        }
        assert_eq!(table.open_units_near(20).collect::<Vec<_>>(), [21, 22]);
        let last = table.bins() - 1;
        let expected: Vec<u32> = (23..=last).chain(0..=8).collect();
        assert_eq!(table.open_units_far(20).collect::<Vec<_>>(), expected);
        assert_eq!((table.open_units_near(7).count(), table.open_units_far(7).count()), (1, 0));
    }

    #[test]
    fn groups_of_one_burst_go_to_many_bins() {
        let mut table = Timetable::new(640, 64, 64, 64, 32);
        let mut write_all = |after: fn(&mut Timetable, u32)| {
            for group in 0..640 {
                table.written(group);
                after(&mut table, group);
            }
        };
        // All groups have the same rate.
        write_all(|table, group| {
            table.groups[group as usize].ahead = encode(32, AHEAD_OCTAVES);
            table.leave(group, 4);
        });
        write_all(|_, _| {});
        let bins: std::collections::BTreeSet<u8> = (0..64).map(|group| table.bin_of(group)).collect();
        assert!(bins.len() >= 16, "{bins:?}");
        table.check().unwrap();
    }
}
