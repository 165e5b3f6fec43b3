//! The historical access table (III-C).

use nand::Lpn;
use std::collections::VecDeque;

/// The historical access table: recent write requests, the least recent first.
#[derive(Clone, Debug)]
pub(super) struct Hat {
    /// First page and pages.
    entries: VecDeque<(u32, u16)>,
    most: usize,
    /// Pages of the unit in which it matches; `None` when a page must lie in the request.
    unit: Option<u32>,
}

impl Hat {
    pub(super) fn new(most: usize, unit: Option<u32>) -> Hat {
        Hat { entries: VecDeque::with_capacity(most + 1), most, unit }
    }

    /// Requests that it records now, and at most.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Records a write request at the rear.
    pub(super) fn record(&mut self, base: Lpn, pages: u32) {
        let entry = (base.0, pages.min(u32::from(u16::MAX)) as u16);
        if let Some(at) = self.entries.iter().position(|&other| other == entry) {
            self.entries.remove(at);
        }
        self.entries.push_back(entry);
        if self.entries.len() > self.most {
            self.entries.pop_front();
        }
    }

    /// Whether a page, or its logical block, was written by a request that is recorded.
    pub(super) fn knows(&self, lpn: Lpn) -> bool {
        self.entries.iter().any(|&(base, pages)| match self.unit {
            Some(unit) => base / unit == lpn.0 / unit,
            None => lpn.0.wrapping_sub(base) < u32::from(pages),
        })
    }
}

/// Pages that were merged because the HAT, which was asked, did not know them, and when: tells which of them
/// the host rewrote so soon that they should have stayed.
#[derive(Clone, Debug)]
pub(super) struct Merged {
    /// By LPN: random log blocks opened until then, and 1; 0: not merged since it was written.
    at: Vec<u32>,
    opened: u32,
}

impl Merged {
    pub(super) fn new(pages: usize) -> Merged {
        Merged { at: vec![0; pages], opened: 1 }
    }

    /// A random log block was opened.
    pub(super) fn next_block(&mut self) {
        self.opened = self.opened.saturating_add(1);
    }

    /// A page that the HAT did not know is merged.
    pub(super) fn record(&mut self, lpn: Lpn) {
        self.at[lpn.0 as usize] = self.opened;
    }

    /// The host rewrites a page: whether that was merged since `blocks` random log blocks were opened last.
    #[inline]
    pub(super) fn rewritten(&mut self, lpn: Lpn, blocks: u32) -> bool {
        let at = std::mem::take(&mut self.at[lpn.0 as usize]);
        at > 0 && self.opened - at <= blocks
    }
}

#[cfg(test)]
mod tests {
    use super::{Hat, Merged};
    use nand::Lpn;

    #[test]
    fn the_hat_forgets_the_least_recent_request_and_knows_pages_inside() {
        let mut hat = Hat::new(2, None);
        hat.record(Lpn(10), 4);
        hat.record(Lpn(100), 1);
        assert!(hat.knows(Lpn(13)) && !hat.knows(Lpn(14)) && !hat.knows(Lpn(9)));
        hat.record(Lpn(10), 4);
        hat.record(Lpn(10), 2);
        assert!(!hat.knows(Lpn(100)) && hat.knows(Lpn(13)), "{hat:?}");
        assert_eq!(hat.entries.len(), 2);
        let mut hat = Hat::new(2, Some(64));
        hat.record(Lpn(64), 1);
        assert!(hat.knows(Lpn(127)) && !hat.knows(Lpn(63)));
    }

    #[test]
    fn a_merged_page_counts_when_it_is_rewritten_within_a_turn_once() {
        let mut merged = Merged::new(8);
        merged.record(Lpn(3));
        merged.next_block();
        merged.next_block();
        assert!(merged.rewritten(Lpn(3), 2) && !merged.rewritten(Lpn(3), 2) && !merged.rewritten(Lpn(4), 2));
        merged.record(Lpn(3));
        (0..3).for_each(|_| merged.next_block());
        assert!(!merged.rewritten(Lpn(3), 2));
    }
}
