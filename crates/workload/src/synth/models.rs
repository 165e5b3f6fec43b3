//! The generators' parameters, and what each is calibrated to.

use super::files::{Flow, Personality, System};
use super::fio::{Access, Job};
use super::lsm::Load;
use super::{financial, servers};
use crate::locality::{Grain, Locality};
use crate::trace::Format;

/// A published statistic that a generator is calibrated to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Statistic {
    WriteShare,
    MeanKib,
    SequentialReads,
    SequentialWrites,
    SpanMib,
    /// Write requests of at most 4 KiB, of more but less than 16 KiB, of 16 KiB and more.
    SmallWrites,
    MediumWrites,
    LargeWrites,
    Files,
    FileKib,
    /// Of the pages of files that threads read and write, those read.
    ReadShare,
}

/// Addresses and sizes of reads or of writes.
#[derive(Debug)]
pub(super) struct Side {
    /// (bytes, weight).
    pub(super) sizes: &'static [(u64, u64)],
    /// Requests that go on where the one before of this kind ended, of 10,000.
    pub(super) sequential: u64,
    /// Requests that go on with another of the sequential streams, of 10,000.
    pub(super) streams: u64,
    /// Requests to an address of the recent past, of 10,000.
    pub(super) recent: u64,
    /// Of the requests of at least so many bytes, so many of 10,000 go on with a sequential stream.
    pub(super) large: (u64, u64),
}

/// Sizes and addresses do not depend on each other.
pub(super) const NONE_LARGE: (u64, u64) = (u64::MAX, 0);

#[derive(Debug)]
pub(super) struct Model {
    pub(super) span_bytes: u64,
    /// Writes of 10,000.
    pub(super) writes: u64,
    pub(super) read: Side,
    pub(super) write: Side,
    /// Exponent of the Zipf law over extents.
    pub(super) theta: f64,
    /// Unit of popularity, bytes.
    pub(super) extent_bytes: u64,
    /// A sequential stream goes round in a zone of this size.
    pub(super) zone_bytes: u64,
    /// Mean inter-arrival time, exponentially distributed.
    pub(super) gap_ns: u64,
    /// Requests begin on a multiple of this, bytes, unless they are smaller or go on where another ended.
    pub(super) page_bytes: u64,
    /// Extents that are popular at a time, at most all.
    pub(super) popular: u64,
    /// Requests after which one popular extent gives way to one that was not popular yet.
    pub(super) drift: u64,
    /// Bytes of the address space that are ever popular, in pieces of 4 MiB that lie anywhere; 0: all.
    pub(super) in_use: u64,
    /// Sequential streams.
    pub(super) streams: usize,
    /// How often a stream goes round in its zone, on average, before it moves to another.
    pub(super) rounds: u64,
    /// Whether all sequential requests belong to a stream and go round in its zone; else one may go on
    /// where any request ended, and leave a zone.
    pub(super) circular: bool,
    /// Addresses of the recent past that requests return to.
    pub(super) remembered: usize,
    pub(super) burst: Option<Burst>,
    /// Reads of jobs that go through the address space in order.
    pub(super) scans: &'static [Scan],
    /// How sizes are read: as they are, or as FlashSim reads them, as many sectors as they have units of
    /// 4 KiB.
    pub(super) as_flashsim: bool,
}

/// Reads in ascending order, without a gap, each window several times. With `step` as large as `window` each
/// page is read once.
#[derive(Debug)]
pub(super) struct Scan {
    /// Its share of the reads, of 10,000.
    pub(super) share: u64,
    /// Bytes of a read.
    pub(super) bytes: u64,
    /// Reads from the first of a window to its last, and by so many the next window begins later.
    pub(super) window: u64,
    pub(super) step: u64,
    /// Reads, on average, until it goes on elsewhere.
    pub(super) length: u64,
}

/// Writes of one size that come at times, as of a checkpoint: each time the same pages, in ascending order.
#[derive(Debug)]
pub(super) struct Burst {
    /// Mean writes from the beginning of one to that of the next: half of it at least.
    pub(super) every: u64,
    /// Writes of a burst, and the bytes of each.
    pub(super) requests: u64,
    pub(super) bytes: u64,
    /// Its share of the writes while it lasts, of 10,000.
    pub(super) share: u64,
}

impl Burst {
    /// Bytes from its first page to its last; gaps take no more than the writes.
    pub(super) const fn region_bytes(&self) -> u64 {
        2 * self.requests * self.bytes
    }
}

/// What models have in common that say nothing else: every extent is popular, and stays so.
pub(super) const STEADY: Model = Model {
    span_bytes: 0,
    writes: 0,
    read: Side { sizes: &[], sequential: 0, streams: 0, recent: 0, large: NONE_LARGE },
    write: Side { sizes: &[], sequential: 0, streams: 0, recent: 0, large: NONE_LARGE },
    theta: 0.0,
    extent_bytes: 0,
    zone_bytes: 0,
    gap_ns: 0,
    page_bytes: 4096,
    popular: u64::MAX,
    drift: 0,
    in_use: 0,
    streams: 8,
    rounds: 8,
    circular: false,
    remembered: 1024,
    burst: None,
    scans: &[],
    as_flashsim: false,
};

/// What makes the requests.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "all are constants, one for each generator")]
pub(super) enum Shape {
    /// Popular extents and interleaved streams.
    Extents(Model),
    /// Threads of Filebench on a file system.
    Files(Personality),
    /// fio on one file of F2FS.
    Fio(Job),
    /// A key-value store on a file system.
    Lsm(Load),
}

/// A generator.
#[derive(Debug)]
pub struct Synth {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it stands for.
    pub what: &'static str,
    /// Where the statistics were published.
    pub source: &'static str,
    pub(super) published: &'static [(Statistic, f64)],
    pub(super) shape: Shape,
    pub(super) rows: Rows,
}

/// The real rows that a generator is held against.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "all are constants, one for each generator")]
pub(super) enum Rows {
    /// None: its locality was chosen by hand.
    None,
    /// None, and there are none: it stands for no trace.
    NoTrace,
    /// A read-only trace; the tests compare sizes, sequential share and pages touched.
    Reads,
    /// Rows whose writes it is fitted to.
    Writes(Written),
}

/// Real rows, and how their writes are spread.
#[derive(Debug)]
pub(super) struct Written {
    /// Their file.
    pub(super) file: &'static str,
    /// How it is read, where its content does not tell.
    pub(super) format: Option<Format>,
    /// Addresses are moved down to a multiple of this, bytes, because the file has lost part of the sizes.
    pub(super) align: u64,
    /// Writes in it.
    pub(super) writes: u64,
    pub(super) grain: Grain,
    /// What schemes made of the generator that they do not make of the rows; none: it was accepted, or nobody
    /// has asked them.
    pub(super) failed: Option<&'static str>,
    /// As measured on them.
    pub(super) measured: Locality,
    /// Reads in it, and the same measured on those; none: it is fitted to writes alone.
    pub(super) reads: Option<(u64, Locality)>,
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TPFTL: &str = "TPFTL (EuroSys 2015), section 5.1, table 4";
const WEBSEARCH: &str = "LearnedFTL (HPCA 2024), table II; address space and sequential share measured on the first 50,000 rows of WebSearch1";

const FILEBENCH: &str = "LearnedFTL (HPCA 2024), table I; flows of the Filebench personality of that name";
const F2FS: &str = "LFTL (Du et al.), table IV; flows of the Filebench personality of that name";
const FIO: &str = "LFTL (Du et al.), section V-B: size of the file and of requests, bytes written";
const ROCKSDB: &str =
    "LearnedFTL (HPCA 2024), section IV-D: db_bench fillseq and overwrite to 80 % full, then reads";

use Statistic::{FileKib, Files, MeanKib, ReadShare, SequentialReads, SequentialWrites, SpanMib, WriteShare};

const fn websearch(sizes: &'static [(u64, u64)], writes: u64, gap_ns: u64) -> Model {
    Model {
        span_bytes: 17_073 * MIB,
        writes,
        read: Side { sizes, sequential: 600, streams: 1_800, recent: 0, large: NONE_LARGE },
        write: Side { sizes: &[(8192, 1)], sequential: 0, streams: 0, recent: 8_000, large: NONE_LARGE },
        theta: 0.6,
        extent_bytes: 64 << 10,
        zone_bytes: 64 * MIB,
        gap_ns,
        ..STEADY
    }
}

/// What the personalities on ext4 have in common.
pub(super) const EXT4: Personality = Personality {
    system: System::Ext4,
    files: 0,
    mean_kib: 0,
    threads: 1,
    laid_out: 80,
    dir_width: 20,
    reads: None,
    flow: Flow::FileServer,
};
const FILESERVER: Personality = Personality { files: 225_000, mean_kib: 128, threads: 50, ..EXT4 };
const VARMAIL: Personality = Personality {
    files: 475_000,
    mean_kib: 16,
    threads: 64,
    dir_width: 1_000_000,
    flow: Flow::VarMail,
    ..EXT4
};

pub(super) static CATALOGUE: [Synth; 34] = [
    Synth {
        name: "financial1",
        what: "OLTP at a financial institution, write-intensive, random, strong temporal locality (synthetic)",
        source: TPFTL,
        published: &[(WriteShare, 0.779), (MeanKib, 3.5), (SequentialReads, 0.015), (SequentialWrites, 0.018), (SpanMib, 512.0)],
        shape: Shape::Extents(Model {
            span_bytes: 512 * MIB,
            writes: 7_790,
            read: Side {
                sizes: &[(512, 1472), (2048, 1840), (3072, 1840), (4096, 3680), (8192, 1104), (24576, 63)],
                sequential: 150,
                streams: 2_500,
                recent: 2_000,
                large: NONE_LARGE,
            },
            write: Side {
                sizes: &[
                    (512, 1902), (1024, 1331), (1536, 190), (2048, 761), (2560, 571), (3072, 2282), (3584, 1141),
                    (4096, 951), (8192, 380), (24576, 492),
                ],
                sequential: 180,
                streams: 1_000,
                recent: 2_500,
                large: NONE_LARGE,
            },
            theta: 1.0,
            extent_bytes: 4096,
            zone_bytes: 4 * MIB,
            gap_ns: 8_200_000,
            ..STEADY
        }),
        rows: Rows::None,
    },
    Synth {
        name: "financial2",
        what: "OLTP at a financial institution, read-intensive, random, strong temporal locality (synthetic)",
        source: TPFTL,
        published: &[(WriteShare, 0.18), (MeanKib, 2.4), (SequentialReads, 0.008), (SequentialWrites, 0.005), (SpanMib, 512.0)],
        shape: Shape::Extents(Model {
            span_bytes: 512 * MIB,
            writes: 1_800,
            read: Side {
                sizes: &[(512, 2872), (1024, 957), (1536, 479), (2048, 1915), (2560, 479), (3072, 957), (4096, 1436), (8192, 906)],
                sequential: 80,
                streams: 1_500,
                recent: 2_500,
                large: NONE_LARGE,
            },
            write: Side {
                sizes: &[(512, 2747), (1024, 1374), (2048, 2747), (3072, 1374), (4096, 1374), (16384, 384)],
                sequential: 50,
                streams: 500,
                recent: 2_500,
                large: NONE_LARGE,
            },
            theta: 1.0,
            extent_bytes: 4096,
            zone_bytes: 4 * MIB,
            gap_ns: 11_100_000,
            ..STEADY
        }),
        rows: Rows::None,
    },
    Synth {
        name: "msr-ts",
        what: "terminal server of MSR Cambridge, write-dominant, strong temporal and spatial locality (synthetic)",
        source: TPFTL,
        published: &[(WriteShare, 0.824), (MeanKib, 9.0), (SequentialReads, 0.472), (SequentialWrites, 0.06), (SpanMib, 16384.0)],
        shape: Shape::Extents(Model {
            span_bytes: 16 * GIB,
            writes: 8_240,
            read: Side {
                sizes: &[(4096, 4496), (8192, 2248), (16384, 1686), (32768, 1124), (65536, 446)],
                sequential: 4_720,
                streams: 2_500,
                recent: 1_000,
                large: NONE_LARGE,
            },
            write: Side {
                sizes: &[
                    (512, 315), (1024, 315), (4096, 5459), (8192, 2100), (12288, 630), (16384, 630), (32768, 315), (65536, 237),
                ],
                sequential: 600,
                streams: 6_500,
                recent: 1_500,
                large: NONE_LARGE,
            },
            theta: 1.2,
            extent_bytes: 64 << 10,
            zone_bytes: 2 * MIB,
            gap_ns: 20_000_000,
            ..STEADY
        }),
        rows: Rows::None,
    },
    Synth {
        name: "msr-src",
        what: "source control server of MSR Cambridge, write-dominant, strong temporal and spatial locality (synthetic)",
        source: TPFTL,
        published: &[(WriteShare, 0.887), (MeanKib, 7.2), (SequentialReads, 0.226), (SequentialWrites, 0.071), (SpanMib, 16384.0)],
        shape: Shape::Extents(Model {
            span_bytes: 16 * GIB,
            writes: 8_870,
            read: Side {
                sizes: &[(4096, 5713), (8192, 2285), (16384, 1371), (65536, 630)],
                sequential: 2_260,
                streams: 3_500,
                recent: 1_500,
                large: NONE_LARGE,
            },
            write: Side {
                sizes: &[(512, 833), (1024, 416), (4096, 6245), (8192, 1665), (16384, 520), (65536, 321)],
                sequential: 710,
                streams: 6_500,
                recent: 1_500,
                large: NONE_LARGE,
            },
            theta: 1.2,
            extent_bytes: 64 << 10,
            zone_bytes: 2 * MIB,
            gap_ns: 20_000_000,
            ..STEADY
        }),
        rows: Rows::None,
    },
    Synth {
        name: "websearch1",
        what: "search engine, reads of an index (synthetic)",
        source: WEBSEARCH,
        published: &[(WriteShare, 0.0), (MeanKib, 15.5), (SequentialReads, 0.06), (SpanMib, 17_073.0)],
        shape: Shape::Extents(websearch(&[(8192, 5783), (16384, 1253), (24576, 771), (32768, 2193)], 0, 2_570_000)),
        rows: Rows::Reads,
    },
    Synth {
        name: "websearch2",
        what: "search engine, reads of an index (synthetic)",
        source: WEBSEARCH,
        published: &[(WriteShare, 0.0002), (MeanKib, 15.3)],
        shape: Shape::Extents(websearch(&[(8192, 5853), (16384, 1268), (24576, 780), (32768, 2099)], 2, 2_570_000)),
        rows: Rows::None,
    },
    Synth {
        name: "websearch3",
        what: "search engine, reads of an index (synthetic)",
        source: WEBSEARCH,
        published: &[(WriteShare, 0.0004), (MeanKib, 15.7)],
        shape: Shape::Extents(websearch(&[(8192, 5713), (16384, 1238), (24576, 762), (32768, 2288)], 4, 2_570_000)),
        rows: Rows::None,
    },
    Synth {
        name: "systor17",
        what: "virtual desktops, reads and writes of 4 KiB with long tails (synthetic)",
        source: "LearnedFTL (HPCA 2024), table II; sequential shares measured on the first 999 rows of the trace",
        published: &[(WriteShare, 0.384), (MeanKib, 10.25), (SequentialReads, 0.103), (SequentialWrites, 0.289)],
        shape: Shape::Extents(Model {
            span_bytes: 64 * GIB,
            writes: 3_840,
            read: Side {
                sizes: &[(4096, 6058), (8192, 1652), (16384, 1101), (32768, 661), (65536, 528)],
                sequential: 1_030,
                streams: 2_000,
                recent: 500,
                large: NONE_LARGE,
            },
            write: Side {
                sizes: &[(512, 527), (4096, 6324), (8192, 1476), (16384, 843), (32768, 422), (65536, 408)],
                sequential: 2_890,
                streams: 1_000,
                recent: 1_000,
                large: NONE_LARGE,
            },
            theta: 0.9,
            extent_bytes: 64 << 10,
            zone_bytes: 64 * MIB,
            gap_ns: 1_000_000,
            ..STEADY
        }),
        rows: Rows::None,
    },
    Synth {
        name: "filebench-fileserver",
        what: "Filebench fileserver: 50 threads create, append to, read and delete files of 128 KiB (synthetic)",
        source: FILEBENCH,
        published: &[(Files, 225_000.0), (FileKib, 128.0)],
        shape: Shape::Files(FILESERVER),
        rows: Rows::None,
    },
    Synth {
        name: "filebench-webserver",
        what: "Filebench webserver: 64 threads read ten files of 16 KiB and append to a log (synthetic)",
        source: FILEBENCH,
        published: &[(Files, 825_000.0), (FileKib, 16.0)],
        shape: Shape::Files(Personality {
            files: 825_000,
            mean_kib: 16,
            threads: 64,
            laid_out: 100,
            flow: Flow::WebServer,
            ..EXT4
        }),
        rows: Rows::None,
    },
    Synth {
        name: "filebench-varmail",
        what: "Filebench varmail: 64 threads delete, create, append, sync and read mails of 16 KiB (synthetic)",
        source: FILEBENCH,
        published: &[(Files, 475_000.0), (FileKib, 16.0)],
        shape: Shape::Files(VARMAIL),
        rows: Rows::None,
    },
    Synth {
        name: "f2fs-fileserver",
        what: "Filebench fileserver on F2FS: 50 threads on files of 128 KiB, 70 % reads (synthetic)",
        source: F2FS,
        published: &[(Files, 225_000.0), (FileKib, 128.0), (ReadShare, 0.7)],
        shape: Shape::Files(Personality { system: System::F2fs, reads: Some(70), ..FILESERVER }),
        rows: Rows::None,
    },
    Synth {
        name: "f2fs-videoserver",
        what: "Filebench videoserver on F2FS: one thread writes videos of 1 GiB, 48 read, 20 % reads (synthetic)",
        source: F2FS,
        published: &[(Files, 25.0), (FileKib, 1_048_576.0), (ReadShare, 0.2)],
        shape: Shape::Files(Personality {
            system: System::F2fs,
            files: 25,
            mean_kib: 1 << 20,
            threads: 49,
            laid_out: 50,
            reads: Some(20),
            flow: Flow::VideoServer,
            ..EXT4
        }),
        rows: Rows::None,
    },
    Synth {
        name: "f2fs-varmail",
        what: "Filebench varmail on F2FS: 16 threads on mails of 16 KiB, synced, 50 % reads (synthetic)",
        source: F2FS,
        published: &[(Files, 475_000.0), (FileKib, 16.0), (ReadShare, 0.5)],
        shape: Shape::Files(Personality { system: System::F2fs, threads: 16, reads: Some(50), ..VARMAIL }),
        rows: Rows::None,
    },
    Synth {
        name: "f2fs-file-randread",
        what: "fio on F2FS: random reads of 4 KiB, 64 jobs, of a file of 20 GiB, overwritten twice in random order (synthetic)",
        source: FIO,
        published: &[],
        shape: Shape::Fio(Job { access: Access::RandomRead, threads: 64 }),
        rows: Rows::None,
    },
    Synth {
        name: "f2fs-file-read",
        what: "fio on F2FS: sequential reads of 512 KiB of a file of 20 GiB, overwritten twice in random order (synthetic)",
        source: FIO,
        published: &[],
        shape: Shape::Fio(Job { access: Access::SequentialRead, threads: 64 }),
        rows: Rows::None,
    },
    Synth {
        name: "f2fs-file-write",
        what: "fio on F2FS: sequential writes of 512 KiB to a file of 20 GiB, overwritten twice in random order (synthetic)",
        source: FIO,
        published: &[],
        shape: Shape::Fio(Job { access: Access::SequentialWrite, threads: 8 }),
        rows: Rows::None,
    },
    Synth {
        name: "f2fs-file-randwrite",
        what: "fio on F2FS: random writes of 4 KiB to a file of 20 GiB, overwritten twice in random order (synthetic)",
        source: FIO,
        published: &[],
        shape: Shape::Fio(Job { access: Access::RandomWrite, threads: 8 }),
        rows: Rows::None,
    },
    Synth {
        name: "rocksdb-overwrite",
        what: "LSM tree under random puts: flushes and compactions (synthetic)",
        source: ROCKSDB,
        published: &[],
        shape: Shape::Lsm(Load::Overwrite),
        rows: Rows::None,
    },
    Synth {
        name: "rocksdb-readrandom",
        what: "LSM tree under random gets by one thread (synthetic)",
        source: ROCKSDB,
        published: &[],
        shape: Shape::Lsm(Load::ReadRandom),
        rows: Rows::None,
    },
    Synth {
        name: "rocksdb-readseq",
        what: "LSM tree read in the order of keys by one thread (synthetic)",
        source: ROCKSDB,
        published: &[],
        shape: Shape::Lsm(Load::ReadSeq),
        rows: Rows::None,
    },
    financial::ROWS,
    financial::FLASHSIM,
    servers::SPC1,
    servers::TPCC_20,
    servers::HM_0,
    servers::MDS_0,
    servers::PRN_0,
    servers::PRXY_0,
    servers::RSRCH_0,
    servers::STG_0,
    servers::TS_0,
    servers::WEB_0,
    servers::STREAMS,
];
