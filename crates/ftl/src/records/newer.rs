//! What the search of a recovery found newer than the records on flash.

use super::{record_in, Records};
use crate::counters::Cause;
use crate::mapping::Pages;
use crate::recover::{Candidate, Recovery};
use nand::{Fault, Nand, PageKind, Ppn, Vtpn};

/// What became of an LPN after the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// It was written last to this page.
    Written(Ppn),
    /// It was trimmed.
    Trimmed,
    /// Its record is right.
    Nothing,
}

impl Since {
    /// Where the LPN is now, if its record says `recorded`.
    pub(crate) fn or(self, recorded: Option<Ppn>) -> Option<Ppn> {
        match self {
            Since::Written(ppn) => Some(ppn),
            Since::Trimmed => None,
            Since::Nothing => recorded,
        }
    }
}

/// What became of each LPN of a group.
pub(crate) struct Newer<'a> {
    next: u32,
    written: &'a [Candidate],
    trimmed_at: &'a [u64],
}

/// The LPNs of the group, ascending, from its first one on without end.
impl Iterator for Newer<'_> {
    type Item = (u32, Since);

    fn next(&mut self) -> Option<(u32, Since)> {
        let lpn = self.next;
        self.next += 1;
        let trimmed_at = self.trimmed_at.get(lpn as usize).copied().unwrap_or(0);
        let mut since = if trimmed_at > 0 { Since::Trimmed } else { Since::Nothing };
        if let Some((candidate, others)) = self.written.split_first().filter(|(it, _)| it.lpn == lpn) {
            self.written = others;
            if candidate.version > trimmed_at {
                since = Since::Written(Ppn(candidate.ppn));
            }
        }
        Some((lpn, since))
    }
}

/// Calls `compare` for every group that has a record, or of which something was written after the checkpoint, with its record
/// (empty: none) and what is newer. Returns the groups for which it returned changes, with these.
pub(crate) fn compare<N: Nand, Change>(
    recovery: &mut Recovery<'_, N>,
    records: &Records,
    mut compare: impl FnMut(&mut Recovery<'_, N>, u32, &[u8], Newer<'_>) -> Result<Vec<Change>, Fault>,
) -> Result<Vec<(u32, Vec<Change>)>, Fault> {
    let units = records.units();
    let candidates = std::mem::take(&mut recovery.candidates);
    let mut trimmed_at: Vec<u64> = Vec::new();
    for trim in std::mem::take(&mut recovery.trims) {
        trimmed_at.resize(units.lpns() as usize, 0);
        let end = (trim.first.0 + trim.pages).min(units.lpns());
        for at in &mut trimmed_at[trim.first.0 as usize..end as usize] {
            *at = trim.version.max(*at);
        }
    }
    let mut rest = &candidates[..];
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
            let (first, end) = (units.first_lpn(Vtpn(group)).0, units.first_lpn(Vtpn(group + 1)).0);
            let (written, others) = rest.split_at(rest.partition_point(|candidate| candidate.lpn < end));
            rest = others;
            if record.is_empty() && written.is_empty() {
                continue;
            }
            let newer = Newer { next: first, written, trimmed_at: &trimmed_at };
            let changes = compare(recovery, group, record, newer)?;
            if !changes.is_empty() {
                behind.push((group, changes));
            }
        }
    }
    Ok(behind)
}
