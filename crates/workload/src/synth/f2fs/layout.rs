//! Areas of an F2FS volume, as `mkfs.f2fs` lays them out, and the blocks that a checkpoint writes in those
//! before the main one.
//!
//! One zone and section a segment. All addresses are blocks of 4 KiB from the start of the device.

use std::collections::BTreeSet;

use super::super::requests::{extend, push, Extents, Requests, PAGE, WRITE_MOST};
use crate::{Kind, Request};

/// Blocks of a segment: 2 MiB.
pub(super) const SEGMENT: u32 = 512;
const LEAST_SEGMENTS: u32 = 32;
/// Bytes of the smallest device.
pub(in super::super) const LEAST_BYTES: u64 = LEAST_SEGMENTS as u64 * SEGMENT as u64 * PAGE;
const CHECKPOINT_SEGMENTS: u32 = 2;
/// Entries of a block of the segment information table (SIT) and of the node address table (NAT).
const SIT_ENTRIES: u32 = 55;
const NAT_ENTRIES: u32 = 455;
/// Changed entries that stay in the checkpoint's summaries instead.
const SIT_JOURNAL: usize = 6;
const NAT_JOURNAL: usize = 38;
/// Block summaries beside two journals in the first block of a checkpoint's summaries, and in the next.
const SUMMARIES: [u32; 2] = [439, 584];

/// Where everything is.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    checkpoint: u32,
    sit: u32,
    sit_segments: u32,
    nat: u32,
    pub(super) nat_segments: u32,
    summary: u32,
    /// First block of the main area, and its segments.
    pub(super) main: u32,
    pub(super) segments: u32,
    /// Segments that collection keeps.
    pub(super) reserved: u32,
    /// Blocks that files, their nodes and directories may take.
    pub(super) user_blocks: u32,
    /// Which of two copies each block of NAT and SIT is in, and which checkpoint pack is current.
    nat_copy: Vec<bool>,
    sit_copy: Vec<bool>,
    pack: bool,
}

impl Layout {
    /// A volume on a device; a tiny one is taken for 64 MiB.
    pub(super) fn new(device_bytes: u64) -> Layout {
        let blocks = u32::try_from(device_bytes / PAGE).unwrap_or(u32::MAX);
        // The first segment is left to the superblocks.
        let all = (blocks / SEGMENT).max(LEAST_SEGMENTS) - 1;
        let of = |entries: u32, each: u32| entries.div_ceil(each).div_ceil(SEGMENT);
        let sit_segments = of(all, SIT_ENTRIES);
        let behind_sit = all - CHECKPOINT_SEGMENTS - 2 * sit_segments;
        let nat_segments = of(behind_sit * SEGMENT, NAT_ENTRIES);
        let summary_segments = (behind_sit - 2 * nat_segments).div_ceil(SEGMENT);
        let checkpoint = SEGMENT;
        let sit = checkpoint + CHECKPOINT_SEGMENTS * SEGMENT;
        let nat = sit + 2 * sit_segments * SEGMENT;
        let summary = nat + 2 * nat_segments * SEGMENT;
        let segments = behind_sit - 2 * nat_segments - summary_segments;
        let (reserved, provision) = over_provision(segments);
        Layout {
            checkpoint,
            sit,
            sit_segments,
            nat,
            nat_segments,
            summary,
            main: summary + summary_segments * SEGMENT,
            segments,
            reserved,
            user_blocks: (segments - reserved - provision) * SEGMENT,
            nat_copy: vec![false; (nat_segments * SEGMENT) as usize],
            sit_copy: vec![false; (sit_segments * SEGMENT) as usize],
            pack: false,
        }
    }

    /// Node numbers that the NAT has room for.
    pub(super) fn nids(&self) -> u32 {
        self.nat_segments * SEGMENT * NAT_ENTRIES
    }

    /// Writes what a checkpoint writes outside the main area: changed blocks of SIT and NAT, each to its
    /// other copy; summaries of segments that were filled; and a checkpoint pack, with `summaries` block
    /// summaries of the open data segments.
    pub(super) fn checkpoint(
        &mut self,
        queue: &mut Requests,
        segments: &BTreeSet<u32>,
        nids: &BTreeSet<u32>,
        filled: &BTreeSet<u32>,
        summaries: u32,
    ) {
        let mut blocks = BTreeSet::new();
        if segments.len() > SIT_JOURNAL {
            for block in segments.iter().map(|segment| segment / SIT_ENTRIES).collect::<BTreeSet<u32>>() {
                let copy = &mut self.sit_copy[block as usize];
                *copy = !*copy;
                blocks.insert(self.sit + block + u32::from(*copy) * self.sit_segments * SEGMENT);
            }
        }
        if nids.len() > NAT_JOURNAL {
            for block in nids.iter().map(|nid| nid / NAT_ENTRIES).collect::<BTreeSet<u32>>() {
                let copy = &mut self.nat_copy[block as usize];
                *copy = !*copy;
                // The two copies of a segment of the NAT lie side by side.
                let (segment, within) = (block / SEGMENT, block % SEGMENT);
                blocks.insert(self.nat + (2 * segment + u32::from(*copy)) * SEGMENT + within);
            }
        }
        blocks.extend(filled.iter().map(|segment| self.summary + segment));
        let mut runs = Extents::new();
        for block in blocks {
            extend(&mut runs, (block, 1));
        }
        push(queue, Kind::Write, &runs, WRITE_MOST);
        let more = summaries.saturating_sub(SUMMARIES[0]);
        let summary_blocks = 1 + more.div_ceil(SUMMARIES[1]).min(2);
        self.pack = !self.pack;
        let at = self.checkpoint + u32::from(self.pack) * SEGMENT;
        push(queue, Kind::Write, &[(at, 2 + summary_blocks)], WRITE_MOST);
        queue.push_back(Request::flush(0));
    }
}

/// Segments reserved for collection, and spare ones beside them: the share in steps of 0.01 % (of 5 % on less
/// than 512 MiB) that leaves most to files.
fn over_provision(segments: u32) -> (u32, u32) {
    let (step, most) = if segments < 256 { (500, 9500) } else { (1, 1000) };
    let of = |share: u32| {
        let reserved = 2 * (10_000 / share + 1) + 6;
        (reserved, segments.saturating_sub(reserved) * share / 10_000)
    };
    let shares = (1..=most / step).map(|at| of(at * step));
    let fitting = shares.filter(|&(reserved, _)| reserved < segments);
    fitting.min_by_key(|&(reserved, spare)| reserved + spare).unwrap_or((segments / 2, 0))
}
