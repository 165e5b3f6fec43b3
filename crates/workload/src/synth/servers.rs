//! The ten workloads of the ADAPT paper (MSST 2012), in pages of 2 KiB.
//!
//! Its table I gives the shares of small (at most 4 KiB), medium (less than 16 KiB) and large requests; the
//! text adds that 9.46 % of MSR-prn_0's requests write more than 64 KiB and 77.8 % of MSR-prxy_0's a single
//! page. The paper fits the capacity of the device to each trace.
//!
//! `spc1` and `msr-prxy_0` are fitted to real rows on an address space of 512 MiB: where their writes go
//! ([`Locality`]) is within 6 points, or a fifth, of what the rows measure. Their parameters were searched
//! for that, and for nothing that a scheme makes of them.
//!
//! - Financial1 (`spc1`) writes again what it wrote lately, some 160 blocks at a time, and every few
//!   thousand writes a burst of 48 KiB requests goes through the same 5 MiB in ascending order.
//! - prxy_0 appends to a few logs that go round, and rewrites single pages beside them.
//!
//! Of the others no rows of any length were at hand. Chosen by hand for them, on 8 GiB and the same for all:
//! how sizes spread inside a class, how often a large request goes on with a sequential stream (7 of 10),
//! how skewed the others are. TPC-C's share of writes was measured on 6,999 rows of another TPC-C trace.

use super::models::Statistic::{
    self, LargeWrites, MediumWrites, SequentialWrites, SmallWrites, SpanMib, WriteShare,
};
use super::models::{Burst, Model, Rows, Shape, Side, Synth, Written, NONE_LARGE, STEADY};
use crate::locality::{Locality, ADAPT};

const MIB: u64 = 1 << 20;
const SPAN: u64 = 8 << 30;
const PAGE: u64 = 2048;
const SOURCE: &str =
    "sizes: ADAPT (MSST 2012), table I; share of writes: as commonly cited for the MSR Cambridge volumes \
                      (Narayanan et al., FAST 2008)";
const SPC1_SOURCE: &str = "sizes: ADAPT (MSST 2012), table I; share of writes: TPFTL (EuroSys 2015), table 4";
const TPCC_SOURCE: &str =
    "sizes: ADAPT (MSST 2012), table I; share of writes: measured on 6,999 rows of a TPC-C trace";
const PRXY_SOURCE: &str =
    "sizes: ADAPT (MSST 2012), table I and IV-G; share of writes: as commonly cited for the MSR \
                           Cambridge volumes; sequential writes: measured on the first 20,000 rows";

/// Reads cost every log-block scheme the same: one mix for all.
const READS: Side = Side {
    sizes: &[(4096, 6000), (8192, 2000), (16_384, 1000), (65_536, 1000)],
    sequential: 500,
    streams: 1_500,
    recent: 1_500,
    large: (16_384, 5_000),
};

const fn model(writes: u64, write: Side, theta: f64, extent_bytes: u64) -> Model {
    Model {
        span_bytes: SPAN,
        writes,
        read: READS,
        write,
        theta,
        extent_bytes,
        zone_bytes: 16 * MIB,
        gap_ns: 20_000_000,
        page_bytes: PAGE,
        ..STEADY
    }
}

/// A volume of a file, web, print, ... server.
const fn server(writes: u64, sizes: &'static [(u64, u64)]) -> Model {
    let write = Side { sizes, sequential: 300, streams: 700, recent: 2_000, large: (16_384, 7_000) };
    model(writes, write, 1.1, 16 << 10)
}

const fn synth(
    name: &'static str,
    what: &'static str,
    source: &'static str,
    published: &'static [(Statistic, f64)],
    model: Model,
) -> Synth {
    Synth { name, what, source, published, shape: Shape::Extents(model), rows: Rows::None }
}

pub(super) const SPC1: Synth = Synth {
    name: "spc1",
    what: "ADAPT's SPC1: Financial1, OLTP at a financial institution, in 2 KiB pages (synthetic)",
    source: SPC1_SOURCE,
    published: &[
        (WriteShare, 0.779),
        (SmallWrites, 0.8658),
        (MediumWrites, 0.1063),
        (LargeWrites, 0.0279),
        (SpanMib, 512.0),
    ],
    shape: Shape::Extents(Model {
        span_bytes: 512 * MIB,
        popular: 100,
        drift: 1_100,
        rounds: 64,
        remembered: 48,
        zone_bytes: 32 << 10,
        burst: Some(Burst { every: 4_200, requests: 112, bytes: 48 << 10, share: 4_000 }),
        ..model(
            7_790,
            Side {
                sizes: &[(2048, 5100), (4096, 3796), (6144, 513), (8192, 579), (16_384, 12)],
                sequential: 500,
                streams: 3_000,
                recent: 5_900,
                large: NONE_LARGE,
            },
            1.0,
            128 << 10,
        )
    }),
    rows: Rows::Writes(Written {
        file: "financial1-first50000.flashsim.xz",
        format: None,
        align: 4096,
        writes: 20_801,
        grain: ADAPT,
        failed: None,
        measured: Locality {
            new: 0.258,
            soon: 0.33,
            recent: 0.458,
            in_a_turn: 0.607,
            in_two_turns: 0.731,
            blocks: 398.0,
            turn_pages: 4186.75,
            turn_blocks: 157.75,
            common: 0.669,
            begins: 0.05,
            streams: 0.268,
        },
        reads: None,
    }),
};

pub(super) const TPCC_20: Synth = synth(
    "tpcc-20",
    "ADAPT's TPC-C 20: OLTP, small random requests, a few pages very hot (synthetic)",
    TPCC_SOURCE,
    &[
        (WriteShare, 0.374),
        (SmallWrites, 0.9917),
        (MediumWrites, 0.0083),
        (LargeWrites, 0.0),
        (SpanMib, 8192.0),
    ],
    model(
        3_740,
        Side {
            sizes: &[(2048, 1000), (4096, 8917), (8192, 83)],
            sequential: 0,
            streams: 0,
            recent: 3_000,
            large: NONE_LARGE,
        },
        1.2,
        4096,
    ),
);

pub(super) const HM_0: Synth = synth(
    "msr-hm_0",
    "ADAPT's MSR-hm_0: hardware monitoring (synthetic)",
    SOURCE,
    &[(WriteShare, 0.645), (SmallWrites, 0.767), (MediumWrites, 0.1372), (LargeWrites, 0.0958)],
    server(
        6_450,
        &[
            (2048, 2000),
            (4096, 5670),
            (8192, 1000),
            (12_288, 372),
            (16_384, 400),
            (32_768, 358),
            (65_536, 200),
        ],
    ),
);

pub(super) const MDS_0: Synth = synth(
    "msr-mds_0",
    "ADAPT's MSR-mds_0: media server (synthetic)",
    SOURCE,
    &[(WriteShare, 0.881), (SmallWrites, 0.7235), (MediumWrites, 0.1979), (LargeWrites, 0.0786)],
    server(
        8_810,
        &[
            (2048, 1500),
            (4096, 5735),
            (8192, 1500),
            (12_288, 479),
            (16_384, 300),
            (32_768, 286),
            (65_536, 200),
        ],
    ),
);

pub(super) const PRN_0: Synth = synth(
    "msr-prn_0",
    "ADAPT's MSR-prn_0: print server, one request in ten of more than 64 KiB (synthetic)",
    SOURCE,
    &[(WriteShare, 0.892), (SmallWrites, 0.7946), (MediumWrites, 0.0888), (LargeWrites, 0.1166)],
    server(
        8_920,
        &[
            (2048, 1500),
            (4096, 6446),
            (8192, 600),
            (12_288, 288),
            (16_384, 120),
            (32_768, 100),
            (67_584, 946),
        ],
    ),
);

pub(super) const PRXY_0: Synth = Synth {
    name: "msr-prxy_0",
    what:
        "ADAPT's MSR-prxy_0: firewall and web proxy, mostly single pages appended and rewritten (synthetic)",
    source: PRXY_SOURCE,
    published: &[
        (WriteShare, 0.97),
        (SmallWrites, 0.8791),
        (MediumWrites, 0.0682),
        (LargeWrites, 0.0527),
        (SequentialWrites, 0.712),
    ],
    shape: Shape::Extents(Model {
        span_bytes: 512 * MIB,
        popular: 115,
        drift: 220,
        streams: 2,
        rounds: 16,
        circular: true,
        remembered: 24,
        zone_bytes: 680 << 10,
        ..model(
            9_700,
            Side {
                sizes: &[(1024, 7780), (4096, 1011), (8192, 682), (16_384, 527)],
                sequential: 8_340,
                streams: 170,
                recent: 900,
                large: NONE_LARGE,
            },
            0.2,
            64 << 10,
        )
    }),
    rows: Rows::Writes(Written {
        file: "msr-prxy_0-first20000.csv.xz",
        format: None,
        align: 1,
        writes: 19_664,
        grain: ADAPT,
        failed: None,
        measured: Locality {
            new: 0.0994,
            soon: 0.373,
            recent: 0.531,
            in_a_turn: 0.9,
            in_two_turns: 0.9,
            blocks: 269.0,
            turn_pages: 1525.5,
            turn_blocks: 122.25,
            common: 0.782,
            begins: 0.017,
            streams: 0.8,
        },
        reads: None,
    }),
};

pub(super) const RSRCH_0: Synth = synth(
    "msr-rsrch_0",
    "ADAPT's MSR-rsrch_0: research projects (synthetic)",
    SOURCE,
    &[(WriteShare, 0.907), (SmallWrites, 0.6822), (MediumWrites, 0.2504), (LargeWrites, 0.0674)],
    server(
        9_070,
        &[
            (2048, 1200),
            (4096, 5622),
            (8192, 1900),
            (12_288, 604),
            (16_384, 300),
            (32_768, 224),
            (65_536, 150),
        ],
    ),
);

pub(super) const STG_0: Synth = synth(
    "msr-stg_0",
    "ADAPT's MSR-stg_0: web staging (synthetic)",
    SOURCE,
    &[(WriteShare, 0.848), (SmallWrites, 0.7233), (MediumWrites, 0.1862), (LargeWrites, 0.0905)],
    server(
        8_480,
        &[
            (2048, 1300),
            (4096, 5933),
            (8192, 1400),
            (12_288, 462),
            (16_384, 350),
            (32_768, 305),
            (65_536, 250),
        ],
    ),
);

pub(super) const TS_0: Synth = synth(
    "msr-ts_0",
    "ADAPT's MSR-ts_0: terminal server (synthetic)",
    SOURCE,
    &[(WriteShare, 0.824), (SmallWrites, 0.6781), (MediumWrites, 0.2587), (LargeWrites, 0.0632)],
    server(
        8_240,
        &[
            (2048, 1000),
            (4096, 5781),
            (8192, 2000),
            (12_288, 587),
            (16_384, 300),
            (32_768, 182),
            (65_536, 150),
        ],
    ),
);

pub(super) const WEB_0: Synth = synth(
    "msr-web_0",
    "ADAPT's MSR-web_0: web and SQL server (synthetic)",
    SOURCE,
    &[(WriteShare, 0.701), (SmallWrites, 0.675), (MediumWrites, 0.2385), (LargeWrites, 0.0865)],
    server(
        7_010,
        &[
            (2048, 1000),
            (4096, 5750),
            (8192, 1800),
            (12_288, 585),
            (16_384, 350),
            (32_768, 265),
            (65_536, 250),
        ],
    ),
);

pub(super) const STREAMS: Synth = Synth {
    name: "streams",
    what:
        "eight interleaved sequential streams of 16 KiB writes, three requests in ten, and hot single pages \
           (synthetic)",
    source: "made for ADAPT's partitioning of the log; no trace stands behind it",
    published: &[
        (WriteShare, 1.0),
        (SmallWrites, 0.7),
        (MediumWrites, 0.0),
        (LargeWrites, 0.3),
        (SpanMib, 1024.0),
    ],
    shape: Shape::Extents(Model {
        span_bytes: 1 << 30,
        ..model(
            10_000,
            Side {
                sizes: &[(2048, 7000), (16_384, 3000)],
                sequential: 0,
                streams: 0,
                recent: 0,
                large: (16_384, 10_000),
            },
            1.2,
            2048,
        )
    }),
    rows: Rows::NoTrace,
};
