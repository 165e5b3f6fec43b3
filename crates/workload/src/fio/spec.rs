//! One section of a job file.

use super::units::Amount;
use crate::{InputError, Kind};

/// fio's `rw`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Sequential trims.
    Trim,
    /// Random reads.
    RandRead,
    /// Random writes.
    RandWrite,
    /// Random trims.
    RandTrim,
    /// Sequential reads and writes, each with a position of its own.
    ReadWrite,
    /// Random reads and writes.
    RandReadWrite,
    /// Trim a block, then write it; sequential.
    TrimWrite,
    /// Trim a block, then write it; random.
    RandTrimWrite,
}

impl Pattern {
    /// The pattern of fio's word for it.
    pub fn from_name(name: &str) -> Option<Pattern> {
        Some(match name {
            "read" => Pattern::Read,
            "write" => Pattern::Write,
            "trim" => Pattern::Trim,
            "randread" => Pattern::RandRead,
            "randwrite" => Pattern::RandWrite,
            "randtrim" => Pattern::RandTrim,
            "rw" | "readwrite" => Pattern::ReadWrite,
            "randrw" => Pattern::RandReadWrite,
            "trimwrite" => Pattern::TrimWrite,
            "randtrimwrite" => Pattern::RandTrimWrite,
            _ => return None,
        })
    }

    /// fio's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Read => "read",
            Pattern::Write => "write",
            Pattern::Trim => "trim",
            Pattern::RandRead => "randread",
            Pattern::RandWrite => "randwrite",
            Pattern::RandTrim => "randtrim",
            Pattern::ReadWrite => "rw",
            Pattern::RandReadWrite => "randrw",
            Pattern::TrimWrite => "trimwrite",
            Pattern::RandTrimWrite => "randtrimwrite",
        }
    }

    /// Are addresses drawn at random?
    pub fn is_random(self) -> bool {
        matches!(
            self,
            Pattern::RandRead
                | Pattern::RandWrite
                | Pattern::RandTrim
                | Pattern::RandReadWrite
                | Pattern::RandTrimWrite
        )
    }

    /// The kinds of request that it issues (a trim-write pair counts with the size of its write).
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Pattern::Read | Pattern::RandRead => &[Kind::Read],
            Pattern::Write | Pattern::RandWrite => &[Kind::Write],
            Pattern::Trim | Pattern::RandTrim => &[Kind::Trim],
            Pattern::ReadWrite | Pattern::RandReadWrite => &[Kind::Read, Kind::Write],
            Pattern::TrimWrite | Pattern::RandTrimWrite => &[Kind::Write],
        }
    }
}

/// The sizes of one direction's requests, in bytes; all multiples of 512.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockSize {
    /// `bs`: one size.
    Fixed(u64),
    /// `bsrange`: the multiples of `low` up to `high`, equally likely.
    Range {
        /// The smallest size and the unit.
        low: u64,
        /// The largest size.
        high: u64,
    },
    /// `bssplit`: (size, weight).
    Split(Vec<(u64, u64)>),
}

impl BlockSize {
    /// The smallest size, to which addresses are aligned.
    pub fn smallest(&self) -> u64 {
        match self {
            BlockSize::Fixed(size) | BlockSize::Range { low: size, .. } => *size,
            BlockSize::Split(parts) => parts.iter().map(|p| p.0).min().unwrap_or(0),
        }
    }

    /// The largest size.
    pub fn largest(&self) -> u64 {
        match self {
            BlockSize::Fixed(size) | BlockSize::Range { high: size, .. } => *size,
            BlockSize::Split(parts) => parts.iter().map(|p| p.0).max().unwrap_or(0),
        }
    }

    fn sizes_are_sectors(&self) -> bool {
        let good = |size: &u64| *size > 0 && size.is_multiple_of(512);
        match self {
            BlockSize::Fixed(size) => good(size),
            BlockSize::Range { low, high } => good(low) && good(high),
            BlockSize::Split(parts) => !parts.is_empty() && parts.iter().all(|p| good(&p.0)),
        }
    }
}

/// fio's `random_distribution`.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Uniform.
    Random,
    /// Zipf over blocks in a scattered order: the weight of rank i is i^-theta.
    Zipf {
        /// The exponent, above 0.
        theta: f64,
        /// Where the hottest block lies, as a share of the region.
        centre: Option<f64>,
    },
    /// Pareto over blocks in a scattered order: h of the blocks get 1 - h of the requests.
    Pareto {
        /// Between 0 and 1.
        h: f64,
        /// Where the hottest block lies, as a share of the region.
        centre: Option<f64>,
    },
    /// A bell over the addresses.
    Normal {
        /// Standard deviation, percent of the region.
        deviation: f64,
        /// Middle, as a share of the region.
        centre: f64,
    },
    /// Zones one behind the other: (percent of requests, size); the last may be "the rest".
    Zoned(Vec<(u64, Option<Amount>)>),
}

/// One job, before `numjobs` multiplies it. Fields have the meaning and the defaults of fio's keys.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSpec {
    /// Section name, or `name=`.
    pub name: String,
    /// Which requests, in which order.
    pub rw: Pattern,
    /// Request sizes of reads, writes and trims; 4 KiB unless given.
    pub bs: [BlockSize; 3],
    /// Length of the region; without it, the device less the offset.
    pub size: Option<Amount>,
    /// Start of the region.
    pub offset: Amount,
    /// Added to the offset once for each clone before this one.
    pub offset_increment: Amount,
    /// Offsets in percent are rounded up to this many bytes; 0 stands for the smallest block size.
    pub offset_align: u64,
    /// Bytes to transfer in one pass; without it, the region once.
    pub io_size: Option<Amount>,
    /// Most requests of one pass.
    pub number_ios: Option<u64>,
    /// Clones of this job.
    pub numjobs: u32,
    /// Requests in flight per clone.
    pub iodepth: u32,
    /// Reads among reads and writes, percent.
    pub rwmixread: u32,
    /// Passes.
    pub loops: u64,
    /// The job ends after this time, in nanoseconds.
    pub runtime_ns: Option<u64>,
    /// Repeat the pass until `runtime_ns` is over.
    pub time_based: bool,
    /// Addresses of random reads, writes and trims.
    pub random_distribution: [Distribution; 3],
    /// Draw each address anew instead of visiting each block once.
    pub norandommap: bool,
    /// Seeds this job's requests instead of the run's seed.
    pub randseed: Option<u64>,
    /// Pause of the job after `thinktime_blocks` completed requests, in nanoseconds.
    pub thinktime_ns: u64,
    /// See `thinktime_ns`.
    pub thinktime_blocks: u64,
    /// Most reads, writes and trims a second, for each clone.
    pub rate_iops: [Option<u64>; 3],
    /// A flush after this many writes; 0 for none.
    pub fsync_every: u64,
    /// A flush after the last request of a job that writes.
    pub end_fsync: bool,
    /// Report the clones as one.
    pub group_reporting: bool,
    /// Wait for all jobs before this one in the file.
    pub stonewall: bool,
    pub(super) file: String,
    pub(super) line: u64,
    pub(super) ordinal: u64,
    lines: Vec<(String, u64)>,
}

impl JobSpec {
    /// A job with fio's defaults: sequential reads of 4 KiB over the whole device, one clone, one in flight.
    pub fn new(name: &str) -> Self {
        JobSpec {
            name: name.to_owned(),
            rw: Pattern::Read,
            bs: [BlockSize::Fixed(4096), BlockSize::Fixed(4096), BlockSize::Fixed(4096)],
            size: None,
            offset: Amount::Bytes(0),
            offset_increment: Amount::Bytes(0),
            offset_align: 0,
            io_size: None,
            number_ios: None,
            numjobs: 1,
            iodepth: 1,
            rwmixread: 50,
            loops: 1,
            runtime_ns: None,
            time_based: false,
            random_distribution: [Distribution::Random, Distribution::Random, Distribution::Random],
            norandommap: false,
            randseed: None,
            thinktime_ns: 0,
            thinktime_blocks: 1,
            rate_iops: [None; 3],
            fsync_every: 0,
            end_fsync: false,
            group_reporting: false,
            stonewall: false,
            file: String::new(),
            line: 0,
            ordinal: 0,
            lines: Vec::new(),
        }
    }

    pub(super) fn place(&mut self, file: &str, line: u64, ordinal: u64) {
        file.clone_into(&mut self.file);
        self.line = line;
        self.ordinal = ordinal;
    }

    pub(super) fn note(&mut self, key: &str, line: u64) {
        self.lines.push((key.to_owned(), line));
    }

    /// An error at the line where one of the keys was set last, else at the section.
    pub(super) fn error(&self, keys: &[&str], sentence: String) -> InputError {
        let line =
            self.lines.iter().rev().find(|(key, _)| keys.contains(&key.as_str())).map_or(self.line, |l| l.1);
        InputError::at(&self.file, line, 0, sentence)
    }

    /// The block size of a kind of request; a flush has none, it gets that of writes.
    pub fn block_size(&self, kind: Kind) -> &BlockSize {
        match kind {
            Kind::Read => &self.bs[0],
            Kind::Write | Kind::Flush => &self.bs[1],
            Kind::Trim => &self.bs[2],
        }
    }

    /// What can be said without knowing the device.
    pub(super) fn check(&self) -> Result<(), InputError> {
        for kind in self.rw.kinds() {
            let bs = self.block_size(*kind);
            if !bs.sizes_are_sectors() {
                let text = format!(
                    "the block size of {}s in [{}] is not a multiple of 512 bytes; write one such as bs=4k",
                    kind.name(),
                    self.name
                );
                return Err(self.error(&["bs", "bsrange", "bssplit"], text));
            }
        }
        if self.time_based && self.runtime_ns.is_none() {
            let text =
                format!("time_based in [{}] needs an end; add runtime=TIME, such as runtime=10s", self.name);
            return Err(self.error(&["time_based"], text));
        }
        Ok(())
    }
}
