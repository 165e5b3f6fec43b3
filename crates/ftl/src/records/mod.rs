//! Translation pages of variable content: each holds the packed records of as many consecutive groups as fit.
//!
//! For mappings whose size depends on what is mapped. A group is whatever the scheme packs together (some
//! LPNs); its record is bytes that only the scheme reads. The directory has an entry for each translation
//! page: its first group, where it lies, how full it is; the page holds the groups up to the next entry's. A
//! page that overflows is split, evenly by bytes; a page that is written and would fill no more than half a
//! page together with neighbours is merged with these, at most [`MOST_MERGED`] at a time, as each has to be
//! read.
//!
//! **What a cut leaves.** The OOB id of a translation page is its first group, and the page says where it
//! ends. Of several pages that hold a group the one of the greatest version is current. When a page is split,
//! the parts behind the first are programmed before it: the old page is superseded under its id only when all
//! parts are there, so the newest page of each id is all that recovery has to find.
//!
//! Byte layout: docs/format.md.

use crate::breach::Breach;
use crate::counters::Cause;
use crate::flash::{Content, Flash};
use crate::mapping::{Pages, Units};
use crate::recover::{Newer, Recovery};
use crate::space::Stream;
use crate::table::{mapped, UNMAPPED};
use nand::{Done, Fault, Nand, PageKind, Ppn, Result, Source, Vtpn};
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
    /// The records of the pages that are written together, with their headers.
    packed: Vec<u8>,
    /// Of each of these: group, and where it begins in `packed`.
    bounds: Vec<(u32, u32)>,
    page: Vec<u8>,
    parts: Vec<Range<usize>>,
    /// The record that is merged.
    record: Vec<u8>,
}

impl Records {
    /// Bytes that a directory entry takes in memory.
    pub const ENTRY_BYTES: u64 = 10;

    /// Makes groups of 2 to the power of `shift` LPNs. `most_packed` is the most that can be written
    /// together.
    pub fn group(&mut self, shift: u32, most_packed: usize) {
        self.units = Units::new(self.units.lpns(), shift);
        self.entries.reserve_exact(self.groups() as usize);
        self.bounds.reserve_exact(self.groups() as usize);
        self.parts.reserve_exact(self.groups() as usize + 1);
        self.packed.reserve_exact(most_packed);
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
        let mut merge = |group: u32, _: &[u8], record: &mut Vec<u8>| {
            newer(group).map(|(newer, waits)| {
                record.extend_from_slice(newer);
                waits
            })
        };
        self.merge(flash, group, &mut merge, cause, at)
    }

    /// As [`Records::store`], where what goes before the record on flash may need that record to be made:
    /// `merge` is given a group and its record as it was, and appends the new one, or returns `None` for
    /// the old one to stay.
    pub fn merge<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        group: u32,
        mut merge: impl FnMut(u32, &[u8], &mut Vec<u8>) -> Option<Done>,
        cause: Cause,
        at: Done,
    ) -> Result<(Range<u32>, Done)> {
        self.packed.clear();
        self.bounds.clear();
        let index = self.page_of(group);
        let mut after = self.gather(flash, index, &mut merge, cause, at)?;
        let mut taken = index..index + 1;
        let half = self.page_bytes / 2;
        let fits = |used: usize, other: Entry| used + usize::from(other.used) <= half;
        while taken.len() <= MOST_MERGED
            && self.entries.get(taken.end).is_some_and(|&next| fits(self.packed.len(), next))
        {
            let more = self.gather(flash, taken.end, &mut merge, cause, at)?;
            after = flash.join(after, more);
            taken.end += 1;
        }
        if taken.len() == 1 && index > 0 && fits(self.packed.len(), self.entries[index - 1]) {
            let (bytes, records) = (self.packed.len(), self.bounds.len());
            let more = self.gather(flash, index - 1, &mut merge, cause, at)?;
            after = flash.join(after, more);
            self.bring_forward(bytes, records);
            taken.start -= 1;
        }
        let range = self.entries[taken.start].first..self.range(taken.end - 1).end;
        let done = self.program(flash, taken, range.clone(), cause, after)?;
        Ok((range, done))
    }

    /// Appends the records of an entry's groups: what is newer, else what its page holds.
    fn gather<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        index: usize,
        merge: &mut impl FnMut(u32, &[u8], &mut Vec<u8>) -> Option<Done>,
        cause: Cause,
        at: Done,
    ) -> Result<Done> {
        let range = self.range(index);
        let mut after = at;
        if let Some(ppn) = self.ppn(index) {
            after = flash.read_metadata(ppn, PageKind::Translation, cause, at)?;
        }
        let written = self.ppn(index).is_some();
        let mut old_at = HEADER;
        for group in range {
            let mut old: &[u8] = &[];
            if written {
                let page = flash.buffer();
                while let Some((found, record)) = record_at(page, old_at).filter(|r| r.0 <= group) {
                    old_at += RECORD_HEADER + record.len();
                    if found == group {
                        old = record;
                    }
                }
            }
            self.record.clear();
            match merge(group, old, &mut self.record) {
                Some(waits) => {
                    append(&mut self.packed, &mut self.bounds, group, &self.record);
                    after = flash.join(after, waits);
                }
                None => append(&mut self.packed, &mut self.bounds, group, old),
            }
        }
        Ok(after)
    }

    /// Brings what was gathered after the first `bytes` bytes and `records` records before these.
    fn bring_forward(&mut self, bytes: usize, records: usize) {
        self.packed.rotate_left(bytes);
        self.bounds.rotate_left(records);
        let (bytes, moved) = (bytes as u32, self.bounds.len() - records);
        let brought = self.packed.len() as u32 - bytes;
        let (ahead, behind) = self.bounds.split_at_mut(moved);
        ahead.iter_mut().for_each(|bound| bound.1 -= bytes);
        behind.iter_mut().for_each(|bound| bound.1 += brought);
    }

    /// Programs what was gathered in place of the pages of the entries `taken`, which hold the groups
    /// `range`.
    fn program<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        taken: Range<usize>,
        range: Range<u32>,
        cause: Cause,
        at: Done,
    ) -> Result<Done> {
        self.cut();
        let mut old = [UNMAPPED; MOST_MERGED + 1];
        for (old, entry) in old.iter_mut().zip(&self.entries[taken.clone()]) {
            *old = entry.ppn;
        }
        let mut after = at;
        let mut end = range.end;
        let (start, parts) = (taken.start, self.parts.len());
        self.entries.splice(taken, (0..parts).map(|_| Entry { first: range.start, ppn: UNMAPPED, used: 0 }));
        for part in (0..parts).rev() {
            let records = self.parts[part].clone();
            let first = if part == 0 { range.start } else { self.bounds[records.start].0 };
            let bytes = self.offset(records.start)..self.offset(records.end);
            let used = bytes.len() as u16;
            build(&mut self.page, &self.packed[bytes], records.len(), end);
            let content = Content::version(flash.next_metadata_version());
            let from = Source::Metadata(&self.page);
            let kind = PageKind::Translation;
            let (ppn, done) = flash.program(Stream::TRANSLATION, kind, first, content, from, cause, after)?;
            self.entries[start + part] = Entry { first, ppn: ppn.0, used };
            after = flash.join(after, done);
            end = first;
        }
        for old in old {
            if let Some(old) = mapped(old) {
                flash.supersede(old);
            }
        }
        Ok(after)
    }

    /// Where record `index` of those gathered begins.
    fn offset(&self, index: usize) -> usize {
        self.bounds.get(index).map_or(self.packed.len(), |bound| bound.1 as usize)
    }

    /// Cuts what was gathered into pages, none too full, about evenly.
    fn cut(&mut self) {
        let capacity = self.capacity();
        let share = self.packed.len() / self.packed.len().div_ceil(capacity).max(1);
        self.parts.clear();
        let mut from = 0;
        for next in 1..=self.bounds.len() {
            let bytes = self.offset(next) - self.offset(from);
            let more = if next < self.bounds.len() { self.offset(next + 1) - self.offset(next) } else { 0 };
            if next == self.bounds.len() || bytes >= share || bytes + more > capacity {
                self.parts.push(from..next);
                from = next;
            }
        }
        if self.parts.is_empty() {
            self.parts.push(0..0);
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
            page_bytes: page_bytes as usize,
            packed: Vec::new(),
            bounds: Vec::new(),
            page: Vec::with_capacity(page_bytes as usize),
            parts: Vec::new(),
            record: Vec::with_capacity(page_bytes as usize),
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

fn append(packed: &mut Vec<u8>, bounds: &mut Vec<(u32, u32)>, group: u32, record: &[u8]) {
    if record.is_empty() {
        return;
    }
    bounds.push((group, packed.len() as u32));
    packed.extend_from_slice(&group.to_le_bytes());
    packed.extend_from_slice(&(record.len() as u16).to_le_bytes());
    packed.extend_from_slice(record);
}

fn build(page: &mut Vec<u8>, records: &[u8], count: usize, end: u32) {
    page.clear();
    page.extend_from_slice(&MAGIC.to_le_bytes());
    page.extend_from_slice(&[0; 4]);
    page.extend_from_slice(&FORMAT.to_le_bytes());
    page.extend_from_slice(&(count as u16).to_le_bytes());
    page.extend_from_slice(&end.to_le_bytes());
    page.extend_from_slice(&(records.len() as u32).to_le_bytes());
    page.extend_from_slice(records);
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
    if at >= HEADER + bytes {
        return None;
    }
    let group = u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
    let length = usize::from(u16::from_le_bytes([page[at + 4], page[at + 5]]));
    let from = at + RECORD_HEADER;
    Some((group, &page[from..from + length]))
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
