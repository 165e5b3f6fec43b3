//! Translation pages that were never written, cut to what one holds.

use super::{Entry, Records, RECORD_HEADER};
use crate::table::UNMAPPED;

impl Records {
    /// Cuts the entry of `group`, if its page was never written and its records would fill several: what a
    /// page holds about from `group` on stays with it, or up to the end of the entry, and the rest is for
    /// other pages, to be written later. So a device that was filled is not written back at once, and no
    /// write-back looks at much more than it writes. Nothing on flash changes. `bytes` says about how many
    /// bytes the record of a group will take, 0: nothing of it is newer than on flash. Returns how many
    /// groups with a record had to be looked at.
    pub fn cut_unwritten(&mut self, group: u32, bytes: impl Fn(u32) -> usize) -> u32 {
        let index = self.page_of(group);
        let range = self.range(index);
        if self.ppn(index).is_some() || range.len() == 1 {
            return 0;
        }
        let (capacity, mut used, mut count) = (self.capacity(), 0, 0);
        let mut fits = |group: u32| {
            let bytes = bytes(group);
            if bytes == 0 {
                return true;
            }
            count += 1;
            let fits = used == 0 || used + RECORD_HEADER + bytes <= capacity;
            used += if fits { RECORD_HEADER + bytes } else { 0 };
            fits
        };
        let end = (group..range.end).find(|&next| !fits(next)).unwrap_or(range.end);
        let mut first = group;
        while end == range.end && first > range.start && fits(first - 1) {
            first -= 1;
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
