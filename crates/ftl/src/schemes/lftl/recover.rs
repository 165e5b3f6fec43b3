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
//! The models of a record lead to the right pages as soon as the block lists are known: none is trained again
//! but those of linear groups that were not closed, or not written back.
//!
//! A block list must be that of the opening of the superblock which its pages in use were written in. A
//! superblock that was being erased when power was cut may hold pages of two openings: those of the older one
//! are all superseded, by pages that the search has found, so that the list of the newer one is right, and
//! what a record says of the older ones does not matter.

use super::map::Map;
use crate::mapping::Pages;
use crate::records::{compare, Records};
use crate::recover::{Newer, Recovery, Since};
use crate::space::State;
use crate::table::mapped;
use nand::{Nand, PageKind, Pbn, Ppn, Result};

/// Takes over what a recovery found.
pub fn restore<N: Nand>(recovery: &mut Recovery<'_, N>, map: &mut Map, records: &mut Records) -> Result<()> {
    lists(recovery, map)?;
    records.restore(recovery)?;
    map.directory_bytes = records.directory_bytes();
    let mut table = Vec::new();
    let behind = compare(recovery, records, |recovery, chunk, record, newer| {
        map.chunk(chunk).decode(&map.lists, record, &mut table);
        if !record.is_empty() {
            // One pass to unpack it, and one to compare.
            let shape = map.shape();
            let work_ns = 2 * u64::from(shape.chunk_lpas) * shape.train_ns;
            recovery.at = recovery.flash.compute_in_slices(work_ns, recovery.at);
        }
        let mut changes = compare_chunk(recovery, &table, newer);
        if record.is_empty() {
            changes.retain(|change| change.1.is_some());
        }
        Ok(changes)
    })?;
    for (chunk, changes) in behind {
        let at = recovery.at;
        map.change(recovery.flash, records, chunk, &changes, at)?;
    }
    Ok(())
}

/// Reads the block list of every superblock that holds data.
fn lists<N: Nand>(recovery: &mut Recovery<'_, N>, map: &mut Map) -> Result<()> {
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

/// What is newer than a chunk's record, whose table is `table`; marks valid what is mapped.
fn compare_chunk<N: Nand>(
    recovery: &mut Recovery<'_, N>,
    table: &[u32],
    newer: Newer<'_>,
) -> Vec<(u16, Option<Ppn>)> {
    let mut changes = Vec::new();
    for ((offset, &recorded), (_, since)) in (0u16..).zip(table).zip(newer) {
        let now = since.or(mapped(recorded));
        if let Some(ppn) = now {
            recovery.flash.space.validate_found(ppn);
        }
        // What was trimmed may be covered by a model of a linear group that is gone, which leads nowhere now,
        // and will lead somewhere when the superblock is opened again: it must not stay.
        if now != mapped(recorded) || since == Since::Trimmed {
            changes.push((offset, now));
        }
    }
    changes
}
