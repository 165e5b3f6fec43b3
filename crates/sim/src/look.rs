//! A run seen from outside while it is under way.

use ftl::{Counters, Memory, Stat};
use nand::timing::DieUse;
use nand::WearSpread;

use crate::results::Latency;

/// A device at one moment of a phase.
#[derive(Clone, Debug)]
pub struct Look {
    /// What happened since the phase began.
    pub counters: Counters,
    /// What the scheme counts itself, to be asked of the counters.
    pub stats: &'static [Stat],
    /// Latencies since then, by [`workload::Kind::ALL`]. Nothing without a clock.
    pub latency: Vec<Latency>,
    /// Virtual time since the run began, ns.
    pub now_ns: u64,
    /// Where the dies' time went, since the clock began.
    pub dies: Vec<DieUse>,
    /// Superblocks that can be opened, and all.
    pub free_superblocks: (u32, u32),
    /// Bad blocks, and whether there are so many that the device is read-only.
    pub bad_blocks: (u32, bool),
    /// Pages that hold user data.
    pub valid_pages: u64,
    /// Least, mean and most erases of a block.
    pub wear: WearSpread,
    /// Controller memory that the mapping takes now, by part, bytes.
    pub memory: Memory,
}

/// Hears how far a phase is, every 4,096 events.
pub(crate) trait Tell {
    /// So much of it is done, 0..=1.
    fn far(&mut self, done: f64);

    /// Whether it shall stop here.
    fn stops(&mut self) -> bool {
        false
    }

    /// Whether somebody wants to see it now.
    fn wants(&mut self) -> bool {
        false
    }

    /// What there is to see.
    fn look(&mut self, look: Look) {
        drop(look);
    }
}

impl<F: FnMut(f64)> Tell for F {
    fn far(&mut self, done: f64) {
        self(done);
    }
}
