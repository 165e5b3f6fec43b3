//! No clock: every operation is over as soon as it is submitted.

use std::collections::VecDeque;

use super::{DieUse, Operation, Timing};
use crate::Done;

/// The model in which nothing takes time: for warm-up, counting and logic tests.
///
/// Every [`Done`] is [`Done::READY`], the clock stands at 0, and watches and alarms are reported in the order
/// in which they were asked for.
#[derive(Clone, Debug, Default)]
pub struct NoClock {
    reports: VecDeque<u32>,
}

impl NoClock {
    /// A world without time.
    pub fn new() -> NoClock {
        NoClock::default()
    }
}

impl Timing for NoClock {
    #[inline]
    fn start(&mut self, _written: &[u16]) {
        self.reports.clear();
    }

    #[inline]
    fn operate(&mut self, _op: Operation, _after: Done) -> Done {
        Done::READY
    }

    #[inline]
    fn compute(&mut self, _ns: u64, _after: Done) -> Done {
        Done::READY
    }

    #[inline]
    fn join(&mut self, _a: Done, _b: Done) -> Done {
        Done::READY
    }

    #[inline]
    fn settle(&mut self) -> Done {
        Done::READY
    }

    #[inline]
    fn now(&self) -> u64 {
        0
    }

    #[inline]
    fn arrival(&self) -> Done {
        Done::READY
    }

    #[inline]
    fn watch(&mut self, _done: Done, tag: u32) {
        self.reports.push_back(tag);
    }

    #[inline]
    fn alarm(&mut self, _at_ns: u64, tag: u32) {
        self.reports.push_back(tag);
    }

    #[inline]
    fn next(&mut self) -> Option<(u32, u64)> {
        self.reports.pop_front().map(|tag| (tag, 0))
    }

    #[inline]
    fn drain(&mut self) {}

    /// Empty: without time there is nothing to account for.
    fn die_use(&self) -> Vec<DieUse> {
        Vec::new()
    }
}
