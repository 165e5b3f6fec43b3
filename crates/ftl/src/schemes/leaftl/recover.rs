//! Recovery of LeaFTL: the common steps up to "adopt" ([`crate::recover`]), and then
//!
//! | step | what | flash reads |
//! | --- | --- | --- |
//! | directory | the newest translation page of each id says which groups it holds | one a translation page |
//! | compare | each group's record with what the search found newer: valid pages, changes | one a translation page, and one a page that an approximate segment maps |
//! | change | changed groups, by segments without an error, in the cache; what does not fit is written | as the cache needs |
//! | erase | obsolete metadata | - |
//!
//! The search reads no spare bytes, so that approximate segments could not be learned from it; collection
//! learns them again.

use super::map::{told, Map};
use crate::counters::Cause;
use crate::mapping::Pages;
use crate::records::{compare, Records};
use crate::recover::{Newer, Recovery, Since};
use nand::{Done, Fault, Lpn, Nand, PageKind, Ppn, Result};

/// Takes over what a recovery found.
pub fn restore<N: Nand>(recovery: &mut Recovery<'_, N>, map: &mut Map, records: &mut Records) -> Result<()> {
    records.restore(recovery)?;
    map.directory_bytes = records.directory_bytes();
    let behind = compare(recovery, records, |recovery, group, record, newer| {
        compare_group(recovery, map, group, record, newer)
    })?;
    for (group, changes) in behind {
        records.make_room(recovery.flash, Done::READY)?;
        map.touch(recovery.flash, records, group, Cause::Recovery, recovery.at)?;
        map.set(recovery.flash, group, &changes);
        map.shrink(recovery.flash, records, group, Cause::Recovery)?;
    }
    Ok(())
}

/// What is newer than a group's record; marks valid what is mapped.
fn compare_group<N: Nand>(
    recovery: &mut Recovery<'_, N>,
    map: &Map,
    group: u32,
    record: &[u8],
    newer: Newer<'_>,
) -> Result<Vec<(u8, Option<Ppn>)>> {
    let mut changes = Vec::new();
    let lpns = (1 << map.shape().group_shift).min(map.shape().exported_pages - map.lpn(group, 0).0);
    for (lpn, since) in newer.take(lpns as usize) {
        let (_, offset) = map.place(Lpn(lpn));
        let answer = super::group::find(record, offset).0;
        let recorded = match answer {
            Some(answer) if answer.exact => Some(Ppn(answer.ppn)),
            Some(answer) => {
                let found = locate(recovery, map, Lpn(lpn), Ppn(answer.ppn))?;
                assert!(
                    found.is_some() || since != Since::Nothing,
                    "LPN {lpn} was predicted at PPN {}, whose OOB does not tell where it is",
                    answer.ppn
                );
                found
            }
            None => None,
        };
        let now = since.or(recorded);
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

/// Where the OOB of the predicted page says that the page of `lpn` is; `None` when it is not about that group
/// any more.
fn locate<N: Nand>(
    recovery: &mut Recovery<'_, N>,
    map: &Map,
    lpn: Lpn,
    predicted: Ppn,
) -> Result<Option<Ppn>> {
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
