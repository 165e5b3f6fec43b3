//! What a device tells of itself.

use std::time::Duration;

use ftl::{Counters, Memory, Stat};
use nand::timing::DieUse;
use nand::{Mounted, Scrubbed, WearSpread};

use crate::clock::Latencies;

/// What opening a device took.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Of the image.
    pub mounted: Mounted,
    /// Steps of the scheme's recovery.
    pub steps: Vec<(&'static str, Duration)>,
    /// What recovery did on flash.
    pub counters: Counters,
    /// Bad blocks, and all, of a device that is worn out: it can be read, not written.
    pub worn_out: Option<(u32, u32)>,
}

/// A device at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// What happened since it was opened.
    pub counters: Counters,
    /// What the scheme counts itself, to be asked of the counters.
    pub stats: &'static [Stat],
    /// In virtual time, ns.
    pub virtual_latency: Latencies,
    /// As clients waited, ns.
    pub wall_latency: Latencies,
    /// Virtual time since it was opened, ns.
    pub virtual_ns: u64,
    /// Where the dies' time went.
    pub dies: Vec<DieUse>,
    /// Superblocks that can be opened, and all.
    pub free_superblocks: (u32, u32),
    /// Bad blocks, and whether there are so many that the device is read-only.
    pub bad_blocks: (u32, bool),
    /// Pages that hold user data.
    pub valid_pages: u64,
    /// Erase counts.
    pub wear: WearSpread,
    /// Mapping memory.
    pub memory: Memory,
    /// Pages waiting for room on the host's file system.
    pub stuck_pages: usize,
    /// What the scrub that goes on beside clients has found, if there is one.
    pub scrubbed: Option<ScrubCounts>,
}

/// What a scrub that goes on has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubCounts {
    /// Turns through the whole array.
    pub turns: u64,
    /// Pages read.
    pub pages: u64,
    /// Damaged copies that were mended from the other one.
    pub mended: u64,
    /// Pages and records that cannot be read, counted in each turn.
    pub lost: u64,
}

impl ScrubCounts {
    /// Counts what was found, which is then forgotten.
    pub(crate) fn take(&mut self, found: &mut Scrubbed) {
        let found = std::mem::take(found);
        self.pages += found.pages;
        self.mended += found.mendable;
        self.lost += found.lost.len() as u64 + found.unrecorded;
    }
}
