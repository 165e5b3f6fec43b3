//! Which programs are complete, and who waits for all of them so far.

use std::collections::VecDeque;

/// Numbers programs in the order of submission, and knows up to which all are complete.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    /// All programs below this number are complete.
    pub(super) head: u64,
    /// Whether program `head + i` is complete.
    pub(super) complete: VecDeque<bool>,
    /// `(n, slot)`: the slot completes when `head` reaches `n`; ascending.
    pub(super) settles: VecDeque<(u64, u32)>,
}

impl Programs {
    pub(super) fn new() -> Programs {
        let (complete, settles) = (VecDeque::with_capacity(4096), VecDeque::with_capacity(1024));
        Programs { head: 0, complete, settles }
    }

    /// The number after the last one given out.
    #[inline]
    pub(super) fn submitted(&self) -> u64 {
        self.head + self.complete.len() as u64
    }

    #[inline]
    pub(super) fn submit(&mut self) -> u64 {
        let number = self.submitted();
        self.complete.push_back(false);
        number
    }
}
