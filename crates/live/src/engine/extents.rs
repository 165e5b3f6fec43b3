//! What is allocated.

use ftl::Scheme;
use nand::{Lpn, Medium};

use super::pages::Core;
use crate::request::Extent;

/// Pages told of in one answer about what is allocated, at least.
const EXTENT_PAGES: u32 = 1 << 13;

impl<S: Scheme, M: Medium> Core<S, M> {
    /// As [`crate::Export::extents`], of the bytes from `offset` to `end`, which lie within the device.
    pub fn extents(&self, offset: u64, end: u64, most: usize) -> Vec<Extent> {
        let page = self.page_bytes();
        let mut extents: Vec<Extent> = Vec::new();
        let mut at = offset;
        let mut add = |from: u64, to: u64, allocated: bool| {
            let from = from.max(offset);
            match extents.last_mut() {
                _ if from >= to => {}
                Some(last) if last.allocated == allocated => last.length += to - from,
                _ => extents.push(Extent { length: to - from, allocated }),
            }
            extents.len()
        };
        let (mut most_pages, mut mapped) = (EXTENT_PAGES, Vec::new());
        while at < end {
            let first = (at / page) as u32;
            let pages = most_pages.min((end.div_ceil(page) - u64::from(first)) as u32);
            // Some schemes look at everything to tell of a part.
            most_pages = most_pages.saturating_mul(4);
            mapped.clear();
            self.device.mapped_in(Lpn(first), pages, &mut |lpn, _| mapped.push(lpn.0));
            if S::BUFFERS_WRITES {
                let range = first..first + pages;
                self.device.buffered(&mut |lpn, _| mapped.extend(range.contains(&lpn.0).then_some(lpn.0)));
                mapped.sort_unstable();
                mapped.dedup();
            }
            let mut next = u64::from(first) * page;
            for &lpn in &mapped {
                let from = u64::from(lpn) * page;
                add(next, from, false);
                add(from, end.min(from + page), true);
                next = from + page;
            }
            at = end.min(u64::from(first + pages) * page);
            if add(next, at, false) > most {
                break;
            }
        }
        extents.truncate(most);
        extents
    }
}
