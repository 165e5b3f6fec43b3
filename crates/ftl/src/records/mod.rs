//! Translation pages of variable content: each holds the packed records of as many consecutive groups as fit.
//!
//! For mappings whose size depends on what is mapped. A group is whatever the scheme packs together (some
//! LPNs); its record is bytes that only the scheme reads. The directory has an entry for each translation
//! page: its first group, where it lies, how full it is; the page holds the groups up to the next entry's. A
//! page that overflows is split, about evenly by bytes; a page that is written and would fill no more than
//! half a page together with neighbours is merged with these, at most [`MOST_MERGED`] at a time, as each has
//! to be read.
//!
//! **What a cut leaves.** The OOB id of a translation page is its first group, and the page says where it
//! ends. Of several pages that hold a group the one of the greatest version is current. When a page is split,
//! the parts behind the first are programmed before it: the old page is superseded under its id only when all
//! parts are there, so the newest page of each id is all that recovery has to find.
//!
//! Byte layout: docs/format.md.

mod cut;

use crate::breach::Breach;
use crate::counters::Cause;
use crate::flash::{Content, Flash};
use crate::mapping::{Pages, Units};
use crate::recover::{Newer, Recovery};
use crate::space::Stream;
use crate::table::{mapped, UNMAPPED};
use nand::{Done, Fault, Hint, Nand, PageKind, Ppn, Result, Source, Vtpn};
use std::ops::Range;

const MAGIC: u32 = 0x5052_5446; // "FTRP"
const FORMAT: u16 = 1;
/// Bytes before the first record of a page.
const HEADER: usize = 20;
/// Neighbours behind a page that it is merged with at once.
const MOST_MERGED: usize = 3;
/// Bytes before a record: group and length.
const RECORD_HEADER: usize = 6;

/// Where a translation page begins, where it lies, and how full it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    first: u32,
    ppn: u32,
    /// Bytes of records, with their headers.
    used: u16,
}

/// The directory, and what is needed to write translation pages.
#[derive(Clone, Debug)]
pub struct Records {
    /// Ascending by first group; the first entry begins with group 0.
    entries: Vec<Entry>,
    /// The LPNs of the groups.
    units: Units,
    page_bytes: usize,
    /// By group: the byte of its page at which its record begins, 0 where that is not known. It spares this
    /// machine the walk that [`record_in`] makes, and is not charged.
    places: Vec<u16>,
    /// The page that is made, and its records so far.
    page: Vec<u8>,
    count: usize,
}

/// What goes before the records on flash when a translation page is written.
pub trait Merge {
    /// The record of a group, whose record was `old`: its bytes, and the completion that it has to wait for.
    /// It is appended to `page` if it takes no more than `room` bytes. `None`: the old one stays. It may be
    /// asked for more than once, and is the same then.
    fn record(&mut self, group: u32, old: &[u8], room: usize, page: &mut Vec<u8>) -> Option<(usize, Done)>;

    /// Controller work of what was asked for since this was called, ns.
    fn take_work(&mut self) -> u64 {
        0
    }

    /// A page was programmed that holds a group with this record; empty: it has none.
    fn written(&mut self, _group: u32, _record: &[u8]) {}
}

/// Records that are there already.
struct Made<F>(F);

impl<'a, F: Fn(u32) -> Option<(&'a [u8], Done)>> Merge for Made<F> {
    fn record(&mut self, group: u32, _: &[u8], room: usize, page: &mut Vec<u8>) -> Option<(usize, Done)> {
        let (record, waits) = (self.0)(group)?;
        if record.len() <= room {
            page.extend_from_slice(record);
        }
        Some((record.len(), waits))
    }
}

impl Records {
    /// Bytes that a directory entry takes in memory.
    pub const ENTRY_BYTES: u64 = 10;

    /// Makes groups of 2 to the power of `shift` LPNs.
    pub fn group(&mut self, shift: u32) {
        self.units = Units::new(self.units.lpns(), shift);
        self.entries.reserve_exact(self.groups() as usize);
        self.places = vec![0; self.groups() as usize];
    }

    /// Bytes of the buffer in which a page is made. That of the page which was read is the controller's.
    pub fn buffer_bytes(&self) -> u64 {
        self.page.capacity() as u64
    }

    /// The longest record that a page of `page_bytes` can hold.
    pub fn longest_record(page_bytes: u32) -> usize {
        page_bytes as usize - HEADER - RECORD_HEADER
    }

    /// Bytes of records that a page holds.
    fn capacity(&self) -> usize {
        self.page_bytes - HEADER
    }

    /// How many records there can be: one for each group of LPNs.
    pub fn groups(&self) -> u32 {
        self.units.count()
    }

    /// Entries of the directory, by index.
    pub fn pages(&self) -> usize {
        self.entries.len()
    }

    /// The index of the entry that holds a group.
    #[inline]
    pub fn page_of(&self, group: u32) -> usize {
        self.entries.partition_point(|entry| entry.first <= group) - 1
    }

    /// The groups of an entry.
    pub fn range(&self, index: usize) -> Range<u32> {
        let end = self.entries.get(index + 1).map_or(self.groups(), |next| next.first);
        self.entries[index].first..end
    }

    /// Where the page of an entry lies, if it was ever written.
    #[inline]
    pub fn ppn(&self, index: usize) -> Option<Ppn> {
        mapped(self.entries[index].ppn)
    }

    /// Reads the page of a group into the controller's buffer ([`Flash::buffer`]; [`record_in`] finds the
    /// record there). `None`: it was never written, and nothing was read.
    pub fn load<N: Nand>(
        &self,
        flash: &mut Flash<N>,
        group: u32,
        cause: Cause,
        at: Done,
    ) -> Result<Option<Done>> {
        match self.ppn(self.page_of(group)) {
            Some(ppn) => flash.read_metadata(ppn, PageKind::Translation, cause, at).map(Some),
            None => Ok(None),
        }
    }

    /// The record of a group in the content of its page, which [`Records::load`] read; empty: it has none.
    pub fn record<'a>(&self, page: &'a [u8], group: u32) -> &'a [u8] {
        let place = self.place(group);
        if place == 0 {
            return record_in(page, group);
        }
        let (found, record) = record_from(page, place);
        assert!(
            found == group,
            "the record of group {group} is not at byte {place}, where that of {found} is"
        );
        record
    }

    /// The records of up to `most` bytes in a page's content, which [`Records::load`] read, of the groups
    /// behind `group` and before `end`. Where places are known, the page is not touched for longer ones.
    pub fn short_records<'a>(
        &'a self,
        page: &'a [u8],
        group: u32,
        end: u32,
        most: usize,
    ) -> impl Iterator<Item = (u32, &'a [u8])> {
        let is_known = self.place(group) != 0;
        let end = end.min(self.range(self.page_of(group)).end);
        let is_short = move |&group: &u32| {
            self.first_place(group + 1..end)
                .is_none_or(|next| next - self.place(group) - RECORD_HEADER <= most)
        };
        let by_place = is_known.then(|| {
            let groups = (group + 1..end).filter(|&group| self.place(group) != 0).filter(is_short);
            groups.map(|group| record_from(page, self.place(group)))
        });
        let behind = move |it: &(u32, &[u8])| it.0 <= group;
        let by_walk =
            (!is_known).then(|| records_of(page).skip_while(behind).take_while(move |it| it.0 < end));
        let all = by_place.into_iter().flatten().chain(by_walk.into_iter().flatten());
        all.filter(move |it| it.1.len() <= most)
    }

    /// The byte of its page at which the record of a group begins; 0: that is not known, or it has none.
    #[inline]
    fn place(&self, group: u32) -> usize {
        self.places.get(group as usize).map_or(0, |&place| usize::from(place))
    }

    /// The byte at which the first record of some groups of a page begins, if one is known.
    fn first_place(&self, groups: Range<u32>) -> Option<usize> {
        groups.map(|group| self.place(group)).find(|&place| place != 0)
    }

    /// Starts bringing the record of a group on flash into the processor's cache, from its beginning on:
    /// `lines` lines.
    #[inline]
    pub fn expect<N: Nand>(&self, flash: &Flash<N>, group: u32, lines: u32) {
        let place = self.place(group) as u32;
        if let (Some(page), 1..) = (self.ppn(self.page_of(group)), place) {
            let words = (0..lines).map(|line| place / 4 + 16 * line);
            let fits = |&word: &u32| 4 * (word as usize) < self.page_bytes;
            words.take_while(fits).for_each(|word| flash.nand().expect(Hint::Word(page, word)));
        }
    }

    /// The same for all of a record whose place is known.
    pub fn expect_record<N: Nand>(&self, flash: &Flash<N>, group: u32) {
        let (index, place) = (self.page_of(group), self.place(group) as u32);
        if let (Some(page), 1..) = (self.ppn(index), place) {
            let next = self.first_place(group + 1..self.range(index).end);
            let end = next.unwrap_or(HEADER + usize::from(self.entries[index].used));
            flash.nand().expect(Hint::Bytes(page, place, end as u32));
        }
    }

    /// The same for all of a page.
    pub fn expect_page<N: Nand>(&self, flash: &Flash<N>, index: usize) {
        if let Some(page) = self.ppn(index) {
            let end = HEADER as u32 + u32::from(self.entries[index].used);
            flash.nand().expect(Hint::Bytes(page, 0, end));
        }
    }

    /// Writes the page of `group` with what is newer: one read (none when it was never written) and one
    /// program, more of either when it is merged or split. `newer` gives, for any group, the record that
    /// goes before the one on flash and the completion that it has to wait for. Returns the groups whose
    /// records are current now.
    pub fn store<'a, N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        group: u32,
        newer: impl Fn(u32) -> Option<(&'a [u8], Done)>,
        cause: Cause,
        at: Done,
    ) -> Result<(Range<u32>, Done)> {
        self.merge(flash, group, &mut Made(newer), cause, at)
    }

    /// As [`Records::store`], where what goes before the record on flash may need that record to be made.
    pub fn merge<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        group: u32,
        merge: &mut impl Merge,
        cause: Cause,
        at: Done,
    ) -> Result<(Range<u32>, Done)> {
        let index = self.page_of(group);
        self.begin();
        let (bytes, mut after) = self.gather(flash, index, merge, cause, at)?;
        if bytes > self.capacity() {
            return self.split(flash, index, bytes, merge, cause, after);
        }
        let mut taken = index..index + 1;
        let half = self.page_bytes / 2;
        // Nobody knows how long the records of a page are that was never written.
        let fits =
            |used: usize, other: Entry| mapped(other.ppn).is_some() && used + usize::from(other.used) <= half;
        let mut is_full = false;
        while taken.len() <= MOST_MERGED
            && !is_full
            && self.entries.get(taken.end).is_some_and(|&next| fits(self.used(), next))
        {
            let (before, count) = (self.page.len(), self.count);
            let (bytes, more) = self.gather(flash, taken.end, merge, cause, at)?;
            after = flash.join(after, more);
            // What is newer may have made it too long.
            is_full = before - HEADER + bytes > self.capacity();
            if is_full {
                self.page.truncate(before);
                self.count = count;
            } else {
                taken.end += 1;
            }
        }
        if taken.len() == 1 && !is_full && index > 0 && fits(self.used(), self.entries[index - 1]) {
            let (before, count) = (self.page.len(), self.count);
            let (bytes, more) = self.gather(flash, index - 1, merge, cause, at)?;
            after = flash.join(after, more);
            if before - HEADER + bytes > self.capacity() {
                self.page.truncate(before);
                self.count = count;
            } else {
                self.page[HEADER..].rotate_left(before - HEADER);
                taken.start -= 1;
            }
        }
        let range = self.entries[taken.start].first..self.range(taken.end - 1).end;
        let (entry, done) = self.program(flash, range.clone(), cause, after)?;
        for at in taken.clone() {
            if let Some(old) = self.ppn(at) {
                flash.supersede(old);
            }
        }
        self.entries[taken.start] = entry;
        self.entries.drain(taken.start + 1..taken.end);
        self.tell(range.clone(), merge);
        Ok((range, done))
    }

    /// A new page without records.
    fn begin(&mut self) {
        self.page.clear();
        self.page.resize(HEADER, 0);
        self.count = 0;
    }

    /// Bytes of records of the page that is made.
    fn used(&self) -> usize {
        self.page.len() - HEADER
    }

    /// Appends the records of an entry's groups: what is newer, else what its page holds. Returns the bytes
    /// that they take; what is beyond the capacity is left out.
    fn gather<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        index: usize,
        merge: &mut impl Merge,
        cause: Cause,
        at: Done,
    ) -> Result<(usize, Done)> {
        let range = self.range(index);
        let (mut after, mut total) = (at, 0);
        let written = self.ppn(index);
        if let Some(ppn) = written {
            after = flash.read_metadata(ppn, PageKind::Translation, cause, at)?;
        }
        let mut old_at = HEADER;
        for group in range {
            let mut old: &[u8] = &[];
            if written.is_some() {
                let page = flash.buffer();
                while let Some((found, record)) = record_at(page, old_at).filter(|r| r.0 <= group) {
                    old_at += RECORD_HEADER + record.len();
                    if found == group {
                        old = record;
                    }
                }
            }
            let (bytes, waits) = self.append(merge, group, old);
            total += bytes;
            after = flash.join(after, waits);
        }
        Ok((total, flash.compute_in_slices(merge.take_work(), after)))
    }

    /// Appends the record of a group, if it fits. Returns the bytes that it takes with its header, 0 when the
    /// group has none, and what it has to wait for.
    fn append(&mut self, merge: &mut impl Merge, group: u32, old: &[u8]) -> (usize, Done) {
        let at = self.page.len();
        let left = self.page_bytes - at;
        let room = left.saturating_sub(RECORD_HEADER);
        if left >= RECORD_HEADER {
            self.page.extend_from_slice(&group.to_le_bytes());
            self.page.extend_from_slice(&[0; 2]);
        }
        let (bytes, waits) = merge.record(group, old, room, &mut self.page).unwrap_or_else(|| {
            if old.len() <= room {
                self.page.extend_from_slice(old);
            }
            (old.len(), Done::READY)
        });
        if bytes == 0 || bytes > room {
            self.page.truncate(at);
        } else {
            self.page[at + 4..at + RECORD_HEADER].copy_from_slice(&(bytes as u16).to_le_bytes());
            self.count += 1;
        }
        (if bytes == 0 { 0 } else { RECORD_HEADER + bytes }, waits)
    }

    /// Writes the page of an entry, whose records take `left` bytes, as several ones, about evenly. The last
    /// groups come first: so one buffer is enough, and the old page is superseded under its id when all is
    /// there.
    fn split<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        index: usize,
        left: usize,
        merge: &mut impl Merge,
        cause: Cause,
        after: Done,
    ) -> Result<(Range<u32>, Done)> {
        let (range, written) = (self.range(index), self.ppn(index));
        let (mut first, mut end, mut left, mut after) = (range.end, range.end, left, after);
        self.begin();
        for group in range.clone().rev() {
            let part = left / left.div_ceil(self.capacity()).max(1);
            if self.used() >= part && self.used() < left {
                left -= self.used();
                after = self.program_behind(flash, index, first..end, merge, cause, after)?;
                end = first;
            }
            loop {
                let before = self.page.len();
                let old = if written.is_some() { record_in(flash.buffer(), group) } else { &[] };
                let (bytes, _) = self.append(merge, group, old);
                if bytes == 0 {
                    break;
                }
                if self.page.len() > before {
                    self.page[HEADER..].rotate_right(bytes);
                    first = group;
                    break;
                }
                left -= self.used();
                after = self.program_behind(flash, index, first..end, merge, cause, after)?;
                end = first;
            }
        }
        let after = flash.compute_in_slices(merge.take_work(), after);
        let (entry, done) = self.program(flash, range.start..end, cause, after)?;
        self.entries[index] = entry;
        written.into_iter().for_each(|old| flash.supersede(old));
        self.tell(range.start..end, merge);
        Ok((range, done))
    }

    /// Programs a part of a page that is split, which goes behind the entry `index`, and begins another one.
    fn program_behind<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        index: usize,
        groups: Range<u32>,
        merge: &mut impl Merge,
        cause: Cause,
        after: Done,
    ) -> Result<Done> {
        let after = flash.compute_in_slices(merge.take_work(), after);
        let (entry, done) = self.program(flash, groups.clone(), cause, after)?;
        self.entries.insert(index + 1, entry);
        self.tell(groups, merge);
        self.begin();
        Ok(flash.join(after, done))
    }

    /// Programs the page that was made, for some groups.
    fn program<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        groups: Range<u32>,
        cause: Cause,
        after: Done,
    ) -> Result<(Entry, Done)> {
        let used = self.used() as u16;
        finish(&mut self.page, self.count, groups.end);
        let content = Content::version(flash.next_metadata_version());
        let (kind, from) = (PageKind::Translation, Source::Metadata(&self.page));
        let (ppn, done) =
            flash.program(Stream::TRANSLATION, kind, groups.start, content, from, cause, after)?;
        Ok((Entry { first: groups.start, ppn: ppn.0, used }, done))
    }

    /// Tells what the page that was programmed holds of each group.
    fn tell(&mut self, groups: Range<u32>, merge: &mut impl Merge) {
        let mut at = HEADER;
        for group in groups {
            let record = record_at(&self.page, at).filter(|record| record.0 == group);
            if let Some(place) = self.places.get_mut(group as usize) {
                *place = record.map_or(0, |_| at as u16);
            }
            at += record.map_or(0, |record| RECORD_HEADER + record.1.len());
            merge.written(group, record.map_or(&[], |record| record.1));
        }
    }

    /// Rebuilds the directory from the newest page of each id, as (version, first group, PPN, content), in
    /// any order. `lost`: version and first group of pages that cannot be read; of what they held nobody
    /// knows where it ended. Returns the groups that have no page for that reason, ascending.
    pub(crate) fn rebuild(
        &mut self,
        mut found: Vec<(u64, u32, Ppn, Span)>,
        lost: &[(u64, u32)],
    ) -> Vec<Range<u32>> {
        found.sort_unstable_by_key(|page| page.0);
        let mut owner = vec![usize::MAX; self.groups() as usize];
        for (index, (_, first, _, span)) in found.iter().enumerate() {
            owner[*first as usize..span.end.clamp(*first, self.groups()) as usize].fill(index);
        }
        let mut unknown = vec![false; if lost.is_empty() { 0 } else { owner.len() }];
        for &(version, first) in lost {
            // A newer page ends it. What is older may have been superseded by it.
            let is_newer = |index: usize| found.get(index).is_some_and(|page| page.0 > version);
            for group in first as usize..owner.len() {
                if is_newer(owner[group]) {
                    break;
                }
                owner[group] = usize::MAX;
                unknown[group] = true;
            }
        }
        self.entries.clear();
        self.places.fill(0);
        let mut before = None;
        for (group, index) in (0..).zip(owner) {
            if before == Some(index) {
                continue;
            }
            before = Some(index);
            let (ppn, used) = found.get(index).map_or((UNMAPPED, 0), |page| (page.2 .0, page.3.used));
            self.entries.push(Entry { first: group, ppn, used });
        }
        let runs = (0..).zip(unknown).collect::<Vec<_>>();
        let runs = runs.chunk_by(|a, b| a.1 == b.1).filter(|run| run[0].1);
        runs.map(|run| run[0].0..run[0].0 + run.len() as u32).collect()
    }

    /// Reads a page free of charge: for invariants and the checker alone.
    pub fn inspect_page<N: Nand>(&self, flash: &Flash<N>, index: usize, content: &mut Vec<u8>) {
        let found = self.ppn(index).and_then(|ppn| flash.nand().inspect(ppn, content));
        if found.is_none() {
            content.clear();
        }
    }
}

/// Calls `compare` for every group that has a record, or of which something was written after the checkpoint,
/// with its record (empty: none) and what is newer. Returns the groups for which it returned changes, with
/// these.
pub(crate) fn compare<N: Nand, Change>(
    recovery: &mut Recovery<'_, N>,
    records: &Records,
    mut compare: impl FnMut(&mut Recovery<'_, N>, u32, &[u8], Newer<'_>) -> Result<Vec<Change>>,
) -> Result<Vec<(u32, Vec<Change>)>> {
    let units = records.units();
    let news = recovery.take_news(units.lpns());
    let (mut behind, mut content) = (Vec::new(), Vec::new());
    let begin = recovery.at;
    for index in 0..records.pages() {
        content.clear();
        if let Some(ppn) = records.ppn(index) {
            let done = recovery.flash.read_metadata(ppn, PageKind::Translation, Cause::Recovery, begin)?;
            recovery.at = recovery.flash.join(recovery.at, done);
            content.extend_from_slice(recovery.flash.buffer());
        }
        for group in records.range(index) {
            let record = record_in(&content, group);
            let newer = news.of(units.first_lpn(Vtpn(group)).0..units.first_lpn(Vtpn(group + 1)).0);
            if record.is_empty() && !newer.is_written() {
                continue;
            }
            let changes = compare(recovery, group, record, newer)?;
            if !changes.is_empty() {
                behind.push((group, changes));
            }
        }
    }
    Ok(behind)
}

impl Pages for Records {
    const DIRECTORY: &'static str = "directory";
    const ONE_RECORD_A_TRIM: bool = true;

    fn new(exported_pages: u32, page_bytes: u32) -> Records {
        assert!(page_bytes <= 1 << 16, "lengths in a translation page have 16 bits");
        Records {
            entries: vec![Entry { first: 0, ppn: UNMAPPED, used: 0 }],
            units: Units::new(exported_pages, 0),
            places: Vec::new(),
            page_bytes: page_bytes as usize,
            page: Vec::with_capacity(page_bytes as usize),
            count: 0,
        }
    }

    fn units(&self) -> Units {
        self.units
    }

    /// A page for each group, and one that is split.
    fn most_pages(&self) -> u32 {
        self.groups() + 1
    }

    fn directory_bytes(&self) -> u64 {
        self.entries.len() as u64 * Records::ENTRY_BYTES
    }

    /// First group and PPN of each page.
    fn words(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        (0..2 * self.entries.len()).map(|index| {
            let it = self.entries[index / 2];
            if index.is_multiple_of(2) {
                it.first
            } else {
                it.ppn
            }
        })
    }

    fn directory(&self) -> impl Iterator<Item = Ppn> + '_ {
        self.entries.iter().filter_map(|entry| mapped(entry.ppn))
    }

    fn relocate<N: Nand>(&mut self, flash: &mut Flash<N>, from: Ppn, at: Done) -> Result<Done> {
        let (id, to, _, done) = flash.move_translation(from, at)?;
        let index = self.page_of(id);
        assert!(
            self.entries[index].ppn == from.0,
            "PPN {} is valid as a translation page but the directory does not lead there",
            from.0
        );
        self.entries[index].ppn = to.0;
        Ok(done)
    }

    /// Finds the translation pages that are current, among those that the search and the checkpoint know: one
    /// read each. One that the checkpoint knows may have been erased since, when newer pages of other ids
    /// hold its groups.
    fn restore<N: Nand>(&mut self, recovery: &mut Recovery<'_, N>) -> Result<()> {
        let mut pages: Vec<(u64, u32, Ppn)> = Vec::new();
        for (first, found) in (0..).zip(&recovery.translation) {
            pages.extend(found.map(|(version, _, ppn)| (version, first, ppn)));
        }
        let directory = std::mem::take(&mut recovery.checkpoint.directory);
        for pair in directory.chunks_exact(2) {
            let (first, Some(ppn)) = (pair[0], mapped(pair[1])) else { continue };
            if recovery.translation.get(first as usize).is_some_and(Option::is_some) {
                continue;
            }
            pages.extend(recovery.checkpointed_page(ppn, first)?.map(|oob| (oob.version, first, ppn)));
        }
        let begin = recovery.at;
        let (mut found, mut lost) = (Vec::with_capacity(pages.len()), Vec::new());
        for (version, first, ppn) in pages {
            let done = match recovery.flash.read_metadata(ppn, PageKind::Translation, Cause::Recovery, begin)
            {
                Err(Fault::Uncorrectable { .. }) if recovery.can_rescue() => {
                    lost.push((version, first));
                    continue;
                }
                read => read?,
            };
            recovery.at = recovery.flash.join(recovery.at, done);
            let Some(span) = Span::of(recovery.flash.buffer()) else {
                return Err(Fault::Uncorrectable { ppn, done });
            };
            found.push((version, first, ppn, span));
        }
        let unknown = self.rebuild(found, &lost);
        for ppn in self.directory() {
            recovery.flash.space.validate_found(ppn);
        }
        let units = self.units;
        let lpns = |groups: Range<u32>| {
            units.first_lpn(Vtpn(groups.start)).0..units.lpns().min(units.first_lpn(Vtpn(groups.end)).0)
        };
        recovery.rescue(unknown.into_iter().map(lpns).collect())
    }

    fn read_unit<N: Nand>(&self, flash: &mut Flash<N>, unit: Vtpn, at: Done) -> Result<Done> {
        Ok(self.load(flash, unit.0, Cause::Translation, at)?.unwrap_or(at))
    }

    fn inspect<N: Nand>(&self, flash: &Flash<N>, group: Vtpn, content: &mut Vec<u8>) {
        self.inspect_page(flash, self.page_of(group.0), content);
    }

    fn check<N: Nand>(&self, flash: &Flash<N>) -> Result<(), Breach> {
        let mut content = Vec::new();
        for index in 0..self.entries.len() {
            let (range, used) = (self.range(index), self.entries[index].used);
            if range.is_empty() {
                return Err(format!("directory entry {index} holds no group").into());
            }
            let Some(ppn) = self.ppn(index) else { continue };
            let oob = flash.nand().inspect(ppn, &mut content);
            let span = Span::of(&content);
            if !oob.is_some_and(|oob| oob.kind == PageKind::Translation && oob.id == range.start) {
                return Err(
                    format!("directory entry {index} leads to PPN {}, which holds {oob:?}", ppn.0).into()
                );
            }
            match span {
                Some(span) if span.end >= range.end && span.used == used => {}
                span => {
                    return Err(format!(
                        "directory entry {index} holds groups {range:?} in {used} bytes, but its page says {span:?}"
                    ).into())
                }
            }
        }
        Ok(())
    }
}

/// What a page says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// One past the last group that it holds.
    pub(crate) end: u32,
    /// Bytes of its records.
    pub(crate) used: u16,
}

impl Span {
    /// Of a page's content; `None` when it is not one of ours, or damaged.
    pub(crate) fn of(content: &[u8]) -> Option<Span> {
        let word = |at: usize| content.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let bytes = word(16)? as usize;
        let checked = content.get(8..HEADER.checked_add(bytes)?)?;
        let right = word(0)? == MAGIC && word(4)? == crc32fast::hash(checked);
        let format = u16::from_le_bytes([content[8], content[9]]);
        (right && format == FORMAT).then_some(Span { end: word(12)?, used: bytes as u16 })
    }
}

/// Fills in the header of a page with `count` records of groups below `end`.
fn finish(page: &mut [u8], count: usize, end: u32) {
    let bytes = (page.len() - HEADER) as u32;
    page[..4].copy_from_slice(&MAGIC.to_le_bytes());
    page[8..10].copy_from_slice(&FORMAT.to_le_bytes());
    page[10..12].copy_from_slice(&(count as u16).to_le_bytes());
    page[12..16].copy_from_slice(&end.to_le_bytes());
    page[16..HEADER].copy_from_slice(&bytes.to_le_bytes());
    let check = crc32fast::hash(&page[8..]);
    page[4..8].copy_from_slice(&check.to_le_bytes());
}

/// The group and the record that begin at byte `at` of a page; `None` behind the last one, and in a page
/// without content.
fn record_at(page: &[u8], at: usize) -> Option<(u32, &[u8])> {
    if page.is_empty() {
        return None;
    }
    let bytes = u32::from_le_bytes([page[16], page[17], page[18], page[19]]) as usize;
    (at < HEADER + bytes).then(|| record_from(page, at))
}

/// The same, of a byte at which one begins.
#[inline]
fn record_from(page: &[u8], at: usize) -> (u32, &[u8]) {
    let (header, rest) = page[at..].split_at(RECORD_HEADER);
    let group = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    (group, &rest[..usize::from(u16::from_le_bytes([header[4], header[5]]))])
}

/// The groups that have a record in a page's content, and their records.
pub fn records_of(page: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let mut at = HEADER;
    std::iter::from_fn(move || {
        let found = record_at(page, at)?;
        at += RECORD_HEADER + found.1.len();
        Some(found)
    })
}

/// The record of a group in a page's content; empty when it has none, and when the page was never written (no
/// content).
pub fn record_in(page: &[u8], group: u32) -> &[u8] {
    let mut at = HEADER;
    while let Some((found, record)) = record_at(page, at).filter(|record| record.0 <= group) {
        if found == group {
            return record;
        }
        at += RECORD_HEADER + record.len();
    }
    &[]
}

#[cfg(test)]
mod tests;
