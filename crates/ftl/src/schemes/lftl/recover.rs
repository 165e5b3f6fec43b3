//! Recovery of LFTL: the common steps up to "adopt" ([`crate::recover`]), and then
//!
//! | step | what | flash reads |
//! | --- | --- | --- |
//! | lists | the block list of each linear group, from the OOB of one of its pages | one a superblock, as a rule |
//! | directory | the newest translation page of each id says which chunks it holds | one a translation page |
//! | compare | each chunk's record with what the search found newer: valid pages, changes | one a translation page |
//! | change | what is newer becomes log mappings, which are trained as any; what does not fit is written | as the cache needs |
//! | erase | obsolete metadata | - |
//!
//! The models of a record lead to the right pages as soon as the block lists are known: none is trained again but those of
//! linear groups that were not closed, or not written back.
//!
//! A block list must be that of the opening of the superblock which its pages in use were written in. A superblock that was
//! being erased when power was cut may hold pages of two openings: those of the older one are all superseded, by pages that the
//! search has found, so that the list of the newer one is right, and what a record says of the older ones does not matter.

use super::map::Map;
use crate::checkpoint::Journal;
use crate::counters::Cause;
use crate::flash::Flash;
use crate::records::record_in;
use crate::recover::{gather, Candidate, Recovery};
use crate::space::State;
use crate::table::mapped;
use nand::{Fault, Nand, PageKind, Pbn, Ppn};

/// A chunk and what is newer than its record, ascending by offset.
type Behind = (u32, Vec<(u16, Option<Ppn>)>);

/// Rebuilds directory, space, journal and mapping from what the array holds.
pub fn recover<N: Nand>(flash: &mut Flash<N>, map: &mut Map, journal: &mut Journal) -> Result<(), Fault> {
    let (exported, chunks) = (map.shape().exported_pages, map.records.groups());
    let mut recovery = gather(flash, journal, exported, chunks)?;
    lists(&mut recovery, map)?;
    map.records.recover(&mut recovery)?;
    let behind = compare(&mut recovery, map)?;
    for (chunk, changes) in behind {
        let at = recovery.at;
        map.restore(recovery.flash, chunk, &changes, at)?;
    }
    recovery.erase_obsolete(journal)
}

/// Reads the block list of every superblock that holds data.
fn lists<N: Nand>(recovery: &mut Recovery<'_, N>, map: &mut Map) -> Result<(), Fault> {
    let geometry = recovery.flash.nand().geometry().clone();
    for superblock in 0..geometry.superblocks() {
        let space = &recovery.flash.space;
        let in_use = matches!(space.state(superblock), State::Open | State::Closed);
        if !in_use || space.kind(superblock) != PageKind::Data {
            continue;
        }
        let epoch = space.epoch_of(superblock);
        let blocks = (0..geometry.units()).map(|unit| Pbn(superblock * geometry.units() + unit));
        'found: for block in blocks {
            for page in 0..geometry.pages_per_block {
                if page >= recovery.flash.nand().written(block) {
                    break;
                }
                let Some(oob) = recovery.page(geometry.page_in(block, page))? else { continue };
                if oob.kind == PageKind::Data && oob.epoch == epoch {
                    map.lists.set_bytes(superblock, recovery.flash.spare());
                    break 'found;
                }
                // All readable pages of a block are of one opening.
                break;
            }
        }
    }
    Ok(())
}

/// Compares each chunk's record with what was written and trimmed after the checkpoint, and marks valid what is mapped.
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
    let (mut behind, mut content, mut table) = (Vec::new(), Vec::new(), Vec::new());
    let begin = recovery.at;
    for index in 0..map.records.pages() {
        content.clear();
        if let Some(ppn) = map.records.ppn(index) {
            let done = recovery.flash.read_metadata(ppn, PageKind::Translation, Cause::Recovery, begin)?;
            recovery.at = recovery.flash.join(recovery.at, done);
            content.extend_from_slice(recovery.flash.buffer());
        }
        for chunk in map.records.range(index) {
            let record: &[u8] = if content.is_empty() { &[] } else { record_in(&content, chunk) };
            let first = chunk * map.shape().chunk_lpas;
            let end = first + map.lpns_in(chunk);
            let (newer, others) = rest.split_at(rest.partition_point(|candidate| candidate.lpn < end));
            rest = others;
            if record.is_empty() && newer.is_empty() {
                continue;
            }
            map.chunk(chunk).decode(&map.lists, record, &mut table);
            let trimmed_at = trimmed_at.get(first as usize..end as usize).unwrap_or(&[]);
            let mut changes = compare_chunk(recovery, first, &table, newer, trimmed_at);
            if record.is_empty() {
                changes.retain(|change| change.1.is_some());
            }
            if !changes.is_empty() {
                behind.push((chunk, changes));
            }
        }
    }
    Ok(behind)
}

/// What is newer than the table of a chunk, whose first LPN is `first`.
fn compare_chunk<N: Nand>(
    recovery: &mut Recovery<'_, N>,
    first: u32,
    table: &[u32],
    mut newer: &[Candidate],
    trimmed_at: &[u64],
) -> Vec<(u16, Option<Ppn>)> {
    let mut changes = Vec::new();
    for (offset, &recorded) in (0u16..).zip(table) {
        let lpn = first + u32::from(offset);
        let trimmed = trimmed_at.get(usize::from(offset)).copied().unwrap_or(0);
        let mut written = None;
        if let Some((candidate, others)) = newer.split_first().filter(|(c, _)| c.lpn == lpn) {
            newer = others;
            written = Some(candidate).filter(|candidate| candidate.version > trimmed);
        }
        let now = match written {
            Some(candidate) => Some(Ppn(candidate.ppn)),
            None if trimmed > 0 => None,
            None => mapped(recorded),
        };
        if let Some(ppn) = now {
            recovery.flash.space.validate_found(ppn);
        }
        // What was trimmed may be covered by a model of a linear group that is gone, which leads nowhere now, and will lead
        // somewhere when the superblock is opened again: it must not stay.
        if now != mapped(recorded) || trimmed > 0 && now.is_none() {
            changes.push((offset, now));
        }
    }
    changes
}
