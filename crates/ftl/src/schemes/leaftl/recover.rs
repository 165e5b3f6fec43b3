//! Recovery of LeaFTL: the common steps up to "adopt" ([`crate::recover`]), and then
//!
//! | step | what | flash reads |
//! | --- | --- | --- |
//! | directory | the newest translation page of each id says which groups it holds | one a translation page |
//! | compare | each group's record with what the search found newer: valid pages, changes | one a translation page, and one a page that an approximate segment maps |
//! | change | changed groups, by segments without an error, in the cache; what does not fit is written | as the cache needs |
//! | erase | obsolete metadata | - |
//!
//! The search reads no spare bytes, so that approximate segments could not be learned from it; collection learns them again.

use super::map::{told, Map};
use crate::checkpoint::Journal;
use crate::counters::Cause;
use crate::flash::Flash;
use crate::records::record_in;
use crate::recover::{gather, Candidate, Recovery};
use nand::{Done, Fault, Lpn, Nand, PageKind, Ppn};

/// A group and what is newer than its record, ascending by offset.
type Behind = (u32, Vec<(u8, Option<Ppn>)>);

/// Rebuilds directory, space, journal and cache from what the array holds.
pub fn recover<N: Nand>(flash: &mut Flash<N>, map: &mut Map, journal: &mut Journal) -> Result<(), Fault> {
    let (exported, groups) = (map.shape().exported_pages, map.records.groups());
    let mut recovery = gather(flash, journal, exported, groups)?;
    map.records.recover(&mut recovery)?;
    let behind = compare(&mut recovery, map)?;
    for (group, changes) in behind {
        map.records.make_room(recovery.flash)?;
        map.touch(recovery.flash, group, Cause::Recovery, recovery.at)?;
        map.restore(recovery.flash, group, &changes);
        map.shrink(recovery.flash, group, Cause::Recovery)?;
    }
    recovery.erase_obsolete(journal)
}

/// Compares each group's record with what was written and trimmed after the checkpoint, and marks valid what is mapped.
fn compare<N: Nand>(recovery: &mut Recovery<'_, N>, map: &Map) -> Result<Vec<Behind>, Fault> {
    let candidates = std::mem::take(&mut recovery.candidates);
    let mut trimmed_at: Vec<u64> = Vec::new();
    for trim in std::mem::take(&mut recovery.trims) {
        trimmed_at.resize(map.shape().exported_pages as usize, 0);
        let end = (trim.first.0 + trim.pages).min(map.shape().exported_pages);
        for at in &mut trimmed_at[trim.first.0 as usize..end as usize] {
            *at = trim.version.max(*at);
        }
    }
    let mut rest = &candidates[..];
    let mut behind = Vec::new();
    let mut content = Vec::new();
    let begin = recovery.at;
    for index in 0..map.records.pages() {
        content.clear();
        if let Some(ppn) = map.records.ppn(index) {
            let done = recovery.flash.read_metadata(ppn, PageKind::Translation, Cause::Recovery, begin)?;
            recovery.at = recovery.flash.join(recovery.at, done);
            content.extend_from_slice(recovery.flash.buffer());
        }
        for group in map.records.range(index) {
            let record: &[u8] = if content.is_empty() { &[] } else { record_in(&content, group) };
            let end = map.lpn(group + 1, 0);
            let (newer, others) = rest.split_at(rest.partition_point(|candidate| candidate.lpn < end.0));
            rest = others;
            if record.is_empty() && newer.is_empty() {
                continue;
            }
            let changes = compare_group(recovery, map, group, record, newer, &trimmed_at)?;
            if !changes.is_empty() {
                behind.push((group, changes));
            }
        }
    }
    Ok(behind)
}

fn compare_group<N: Nand>(
    recovery: &mut Recovery<'_, N>,
    map: &Map,
    group: u32,
    record: &[u8],
    mut newer: &[Candidate],
    trimmed_at: &[u64],
) -> Result<Vec<(u8, Option<Ppn>)>, Fault> {
    let mut changes = Vec::new();
    let first = map.lpn(group, 0).0;
    let end = (first + (1 << map.shape().group_shift)).min(map.shape().exported_pages);
    for lpn in (first..end).map(Lpn) {
        let (_, offset) = map.place(lpn);
        let trimmed = trimmed_at.get(lpn.0 as usize).copied().unwrap_or(0);
        let mut written = None;
        if let Some((candidate, others)) = newer.split_first().filter(|(c, _)| c.lpn == lpn.0) {
            newer = others;
            written = Some(candidate).filter(|candidate| candidate.version > trimmed);
        }
        let overridden = written.is_some() || trimmed > 0;
        let answer = super::group::find(record, offset).0;
        let recorded = match answer {
            Some(answer) if answer.exact => Some(Ppn(answer.ppn)),
            Some(answer) => {
                let found = locate(recovery, map, lpn, Ppn(answer.ppn))?;
                assert!(
                    found.is_some() || overridden,
                    "LPN {} was predicted at PPN {}, whose OOB does not tell where it is",
                    lpn.0,
                    answer.ppn
                );
                found
            }
            None => None,
        };
        let now = match written {
            Some(candidate) => Some(Ppn(candidate.ppn)),
            None if trimmed > 0 => None,
            None => recorded,
        };
        if let Some(ppn) = now {
            recovery.flash.space.validate_found(ppn);
        }
        // What was overridden may have an answer that leads nowhere any more: it must not stay.
        if now != recorded || (now.is_none() && answer.is_some()) {
            changes.push((offset, now));
        }
    }
    Ok(changes)
}

/// Where the OOB of the predicted page says that the page of `lpn` is; `None` when it is not about that group any more.
fn locate<N: Nand>(
    recovery: &mut Recovery<'_, N>,
    map: &Map,
    lpn: Lpn,
    predicted: Ppn,
) -> Result<Option<Ppn>, Fault> {
    let (group, offset) = map.place(lpn);
    let (oob, done) = match recovery.flash.look(predicted, Cause::Recovery, Done::READY) {
        Ok(looked) => looked,
        Err(Fault::Uncorrectable { .. }) => return Ok(None),
        Err(fault) => return Err(fault),
    };
    recovery.at = recovery.flash.join(recovery.at, done);
    let same = oob.is_some_and(|oob| oob.kind == PageKind::Data && map.place(Lpn(oob.id)).0 == group);
    let distance = same.then(|| told(recovery.flash.spare(), offset)).flatten();
    Ok(distance.map(|distance| Ppn((i64::from(predicted.0) + distance) as u32)))
}
