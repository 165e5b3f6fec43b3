//! Financial1 (OLTP at a financial institution) as its first 50,000 rows have it, which TPFTL's figures are
//! held against.
//!
//! Fitted to the rows' reads and writes: how soon a page comes again, how many translation pages of 1,024
//! entries are in use, how long runs are ([`Locality`] in pages of 4 KiB). The share of writes and the sizes
//! of writes are the rows'; of the reads 4 % have 4 KiB and the others 8 KiB, of the rows' 14 %. The
//! parameters were searched for that table, and not for what a scheme makes of them; docs/workloads.md says
//! what schemes make of them. The rows say nothing of what comes after their 14 minutes: a long run of the
//! generator is more of the same.
//!
//! - Writes are as those of `spc1`: popular pages that give way to others, small zones, and bursts of 48 KiB
//!   through the same 5 MiB.
//! - Reads are two jobs for the greater part. One goes through some MiB in order, once. The other goes
//!   through a window of 15 requests, begins it again three later, and so on, as a join in nested loops.
//!
//! `financial1-flashsim` is the same stream as FlashSim reads the rows: it takes the text's units of 4 KiB
//! for sectors. It was not fitted to the rows in that reading, and is held against them.

use super::models::Statistic::WriteShare;
use super::models::{Burst, Model, Rows, Scan, Shape, Side, Synth, Written, NONE_LARGE, STEADY};
use crate::locality::{Locality, TPFTL};
use crate::trace::Format;

const MIB: u64 = 1 << 20;
const SOURCE: &str =
    "the first 50,000 rows of UMass Financial1, as FlashSim's text has them: sizes in units of 4 KiB";
const FILE: &str = "financial1-first50000.flashsim.xz";
const WRITES: u64 = 20_801;
const READS: u64 = 29_199;

const MODEL: Model = Model {
    span_bytes: 512 * MIB,
    writes: 4_160,
    read: Side {
        sizes: &[(4096, 6000), (8192, 4000)],
        sequential: 0,
        streams: 0,
        recent: 1_031,
        large: NONE_LARGE,
    },
    write: Side {
        sizes: &[
            (4096, 9080),
            (8192, 515),
            (12_288, 228),
            (16_384, 15),
            (20_480, 17),
            (24_576, 62),
            (28_672, 22),
            (32_768, 48),
        ],
        sequential: 0,
        streams: 3_000,
        recent: 3_699,
        large: NONE_LARGE,
    },
    theta: 1.2,
    extent_bytes: 16 << 10,
    zone_bytes: 64 << 10,
    gap_ns: 17_068_600,
    popular: 37,
    drift: 2_731,
    in_use: 94 * 4 * MIB,
    rounds: 102,
    remembered: 51,
    burst: Some(Burst { every: 3_050, requests: 112, bytes: 48 << 10, share: 4_000 }),
    scans: &[
        Scan { share: 4_100, bytes: 8192, window: 1, step: 1, length: 665 },
        Scan { share: 5_320, bytes: 8192, window: 15, step: 3, length: 2_216 },
    ],
    ..STEADY
};

pub(super) const ROWS: Synth = Synth {
    name: "financial1-rows",
    what: "Financial1's first 50,000 rows: OLTP, and jobs that read through some MiB (synthetic)",
    source: SOURCE,
    published: &[(WriteShare, 0.416)],
    shape: Shape::Extents(MODEL),
    rows: Rows::Writes(Written {
        file: FILE,
        format: None,
        align: 4096,
        writes: WRITES,
        grain: TPFTL,
        failed: Some(FAILED),
        measured: WRITTEN,
        reads: Some((READS, READ)),
    }),
};

/// docs/workloads.md has the table. `financial1-rows` was not held against schemes by itself.
const FAILED: &str = "S-FTL's hits";

pub(super) const FLASHSIM: Synth = Synth {
    name: "financial1-flashsim",
    what: "financial1-rows with sizes as FlashSim reads them, an eighth (synthetic)",
    source: SOURCE,
    published: &[(WriteShare, 0.416)],
    shape: Shape::Extents(Model { as_flashsim: true, ..MODEL }),
    rows: Rows::Writes(Written {
        file: FILE,
        format: Some(Format::FlashSimSectors),
        align: 1,
        writes: WRITES,
        grain: TPFTL,
        failed: Some(FAILED),
        measured: WRITTEN_AS_FLASHSIM,
        reads: Some((READS, READ_AS_FLASHSIM)),
    }),
};

/// The rows' writes, their addresses moved down to a multiple of 4 KiB.
const WRITTEN: Locality = Locality {
    new: 0.2583,
    soon: 0.3735,
    recent: 0.4724,
    in_a_turn: 0.4729,
    in_two_turns: 0.4876,
    blocks: 53.0,
    turn_pages: 575.31,
    turn_blocks: 32.5,
    common: 0.8511,
    begins: 0.0016,
    streams: 0.2678,
};

/// Their reads, the same.
const READ: Locality = Locality {
    new: 0.505,
    soon: 0.4219,
    recent: 0.4349,
    in_a_turn: 0.4349,
    in_two_turns: 0.4394,
    blocks: 75.0,
    turn_pages: 606.58,
    turn_blocks: 13.83,
    common: 0.5901,
    begins: 0.001,
    streams: 0.8548,
};

/// The writes as FlashSim reads them.
const WRITTEN_AS_FLASHSIM: Locality = Locality {
    new: 0.2704,
    soon: 0.5207,
    recent: 0.6305,
    in_a_turn: 0.631,
    in_two_turns: 0.6618,
    blocks: 53.0,
    turn_pages: 416.68,
    turn_blocks: 36.09,
    common: 0.8868,
    begins: 0.0016,
    streams: 0.0012,
};

/// The reads as FlashSim reads them.
const READ_AS_FLASHSIM: Locality = Locality {
    new: 0.5066,
    soon: 0.4167,
    recent: 0.4391,
    in_a_turn: 0.4392,
    in_two_turns: 0.4467,
    blocks: 75.0,
    turn_pages: 597.0,
    turn_blocks: 18.387,
    common: 0.6209,
    begins: 0.001,
    streams: 0.0214,
};
