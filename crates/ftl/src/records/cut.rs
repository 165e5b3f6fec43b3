//! Translation pages that were never written, cut to what one holds.

use super::{Entry, Records, RECORD_HEADER};
use crate::table::UNMAPPED;

impl Records {
    /// Cuts the entry of `group`, if its page was never written and its records would fill several: what a
    /// page holds about stays with the group, and the rest is for other pages, to be written later. So a
    /// device that was filled is not written back at once. Nothing on flash changes. `bytes` says about how
    /// many bytes the record of a group will take, 0: nothing of it is newer than on flash. Returns how many
    /// groups had to be looked at.
    pub fn cut_unwritten(&mut self, group: u32, bytes: impl Fn(u32) -> usize) -> u32 {
        let index = self.page_of(group);
        let range = self.range(index);
        if self.ppn(index).is_some() || range.len() == 1 {
            return 0;
        }
        let sizes = || {
            range.clone().map(|group| match bytes(group) {
                0 => (group, 0),
                bytes => (group, RECORD_HEADER + bytes),
            })
        };
        let (total, longest, count) = sizes()
            .filter(|size| size.1 > 0)
            .fold((0, 0, 0), |sum, (_, bytes)| (sum.0 + bytes, bytes.max(sum.1), sum.2 + 1));
        if total <= self.capacity() {
            return count;
        }
        // A part is as long as the others, or up to a record longer.
        let parts = total.div_ceil(self.capacity() - longest.min(self.capacity() / 2));
        let (mut before, mut part, mut first, mut end) = (0, 0, range.start, range.end);
        for (at, bytes) in sizes() {
            let part_before = std::mem::replace(&mut part, before * parts / total);
            before += bytes;
            if part != part_before {
                if at > group {
                    end = at;
                    break;
                }
                first = at;
            }
        }
        let unwritten = |first: u32| Entry { first, ppn: UNMAPPED, used: 0 };
        if end < range.end {
            self.entries.insert(index + 1, unwritten(end));
        }
        if first > range.start {
            self.entries.insert(index + 1, unwritten(first));
        }
        count
    }
}
