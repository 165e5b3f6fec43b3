//! Seeded generators that stand in for traces which are not ours to ship. Everything they make is synthetic.
//!
//! Each is calibrated to published statistics of a trace: the share of writes, the mean size, the share of
//! sequential reads and writes (a request that starts where the one of the same kind before it ended) and the
//! address space; [`calibration`] measures how close it comes. What was not published is modelled, the same
//! way for all, with parameters chosen by hand. Those of `msr-ts` and `msr-src` were chosen until an LRU of
//! 32,768 pages hit about as often as the TPFTL paper lets one expect of DFTL (0.80 and 0.84), so a hit ratio
//! measured on them is no evidence of its own for the paper's; the published statistics were not touched by
//! that. The streams of `financial1` and `financial2` were widened at the same time, because that paper gains
//! from prefetching there.
//!
//! Popularity is Zipf over extents scattered in the address space, a share of requests returns to one of the
//! last 1,024 addresses (temporal locality), a share goes on with one of eight sequential streams (spatial
//! locality that requests of other streams interrupt), each of which goes round in a zone some eight times
//! and then moves to another.
//!
//! Arrivals are exponential with a mean gap ([`Synth::mean_gap_ns`], our choice) at which an open-loop replay
//! does not saturate the small devices of the papers: 8.2 ms and 11.1 ms for Financial1 and Financial2, 20 ms
//! for the MSR servers, 2.57 ms for WebSearch (that of its first 50,000 rows) and 1 ms for Systor '17.
//!
//! The ten workloads of the ADAPT paper (`spc1`, `tpcc-20`, `msr-hm_0` to `msr-web_0`) are cut in its pages
//! of 2 KiB: see `servers.rs`. `spc1` and `msr-prxy_0` are fitted to real rows ([`Synth::acceptance`]): what
//! is popular moves on, streams go round, and `spc1` has bursts; so are `financial1-rows` and
//! `financial1-flashsim`, reads and writes (`financial.rs`). In the others large requests are
//! sequential more often than small ones, and no rows were at hand ([`Synth::is_unproven`]).
//!
//! The `filebench`, `f2fs` and `rocksdb` generators are of another kind: threads of a program on a file
//! system, which wait for their requests and have no arrival times; see `files.rs`, `fio.rs`, `f2fs/` and
//! `lsm.rs`.

mod disk;
mod ext4;
mod extents;
mod f2fs;
mod file_system;
mod files;
mod financial;
mod fio;
mod lsm;
mod models;
mod requests;
mod servers;

use ext4::Ext4;
use f2fs::F2fs;
use file_system::FileSystem;
use files::{Files, Personality, System};
pub use models::Synth;
use models::{Rows, Shape, Statistic, Written, CATALOGUE};

use crate::locality::{Grain, Locality};
use crate::profile::Profile;
use crate::random::derive_seed;
use crate::trace::Format;
use crate::{InputError, Kind, Request};

/// How the shipped sample `examples/oltp-sample.spc` was made: generator, requests, seed. Of our own making,
/// synthetic.
pub const SAMPLE: (&str, u64, u64) = ("financial1", 8_000, 2026);

/// All generators.
pub fn catalogue() -> &'static [Synth] {
    &CATALOGUE
}

impl Synth {
    /// The generator of that name.
    ///
    /// Errors: there is none.
    pub fn find(name: &str) -> Result<&'static Synth, InputError> {
        CATALOGUE.iter().find(|s| s.name == name).ok_or_else(|| {
            let names: Vec<&str> = CATALOGUE.iter().map(|s| s.name).collect();
            InputError::in_file(
                "",
                format!("there is no generator called {name:?}; there are {}", names.join(", ")),
            )
        })
    }

    /// `requests` requests of the generator called `name`. The same seed gives the same requests.
    ///
    /// Errors: there is no such generator.
    pub fn open(name: &str, requests: u64, seed: u64) -> Result<Stream, InputError> {
        Ok(Synth::find(name)?.stream(requests, seed))
    }

    /// `requests` requests, on a device that has room for all of it.
    pub fn stream(&'static self, requests: u64, seed: u64) -> Stream {
        self.stream_on(requests, seed, self.span_bytes())
    }

    /// `requests` requests on a device of `device_bytes`. A generator that is [`elastic`](Synth::elastic)
    /// fits itself into it; addresses of the others do not depend on it.
    pub fn stream_on(&'static self, requests: u64, seed: u64, device_bytes: u64) -> Stream {
        let seed = self.seed(seed);
        let bytes = device_bytes.min(self.span_bytes());
        let inner = match &self.shape {
            Shape::Extents(model) => Inner::Extents(Box::new(extents::Stream::new(model, requests, seed))),
            Shape::Files(personality) => Inner::files(personality, bytes, seed, true),
            Shape::Fio(job) => Inner::Fio(Box::new(fio::File::new(*job, bytes, seed).serve())),
            Shape::Lsm(load) => Inner::Lsm(Box::new(lsm::Store::new(bytes, seed).serve(*load))),
        };
        Stream { inner, left: requests }
    }

    /// The requests that lay out what [`Synth::stream_on`] of the same seed finds on the device; `None`: it
    /// finds nothing.
    pub fn preparation(&'static self, seed: u64, device_bytes: u64) -> Option<Stream> {
        let seed = self.seed(seed);
        let bytes = device_bytes.min(self.span_bytes());
        let inner = match &self.shape {
            Shape::Extents(_) => return None,
            Shape::Files(personality) => Inner::files(personality, bytes, seed, false),
            Shape::Fio(job) => Inner::Fio(Box::new(fio::File::new(*job, bytes, seed))),
            Shape::Lsm(load) => Inner::Lsm(Box::new(lsm::Store::new(bytes, seed).prepare(*load))),
        };
        Some(Stream { inner, left: u64::MAX })
    }

    /// One seed for each generator.
    fn seed(&self, seed: u64) -> u64 {
        derive_seed(seed, self.name.bytes().fold(0_u64, |h, b| h.wrapping_mul(31).wrapping_add(b.into())))
    }

    /// Requests in flight at once of a generator whose threads wait for their requests; `None`: requests
    /// arrive at times.
    pub fn threads(&self) -> Option<u32> {
        match &self.shape {
            Shape::Extents(_) => None,
            Shape::Files(personality) => Some(personality.threads),
            Shape::Fio(job) => Some(job.threads),
            Shape::Lsm(_) => Some(1),
        }
    }

    /// The least that a device must have, bytes: file systems have areas of their own, however few the files.
    /// Addresses of other generators are taken modulo any size.
    pub fn least_bytes(&self) -> u64 {
        match &self.shape {
            Shape::Extents(_) => 0,
            Shape::Files(personality) => personality.least_bytes(),
            Shape::Fio(_) => f2fs::LEAST_BYTES,
            Shape::Lsm(_) => lsm::LEAST_BYTES,
        }
    }

    /// Whether the generator takes its size from the device, within [`Synth::span_bytes`].
    pub fn elastic(&self) -> bool {
        !matches!(self.shape, Shape::Extents(_))
    }

    /// The address space, bytes: the least that a device must have, or the most that an elastic generator
    /// uses.
    pub fn span_bytes(&self) -> u64 {
        match &self.shape {
            Shape::Extents(model) => model.span_bytes,
            Shape::Files(personality) => personality.span_bytes(),
            Shape::Fio(_) => f2fs::SPAN_BYTES,
            Shape::Lsm(_) => lsm::SPAN_BYTES,
        }
    }

    /// Mean time between arrivals, nanoseconds; 0 without arrival times.
    pub fn mean_gap_ns(&self) -> u64 {
        match &self.shape {
            Shape::Extents(model) => model.gap_ns,
            Shape::Files(_) | Shape::Fio(_) | Shape::Lsm(_) => 0,
        }
    }
}

/// One statistic of a generator beside the published one.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Calibration {
    /// What, with its unit.
    pub statistic: &'static str,
    /// As published.
    pub published: f64,
    /// As measured on 200,000 requests.
    pub ours: f64,
}

/// How close a generator comes to what was published.
///
/// Errors: there is no such generator.
pub fn calibration(name: &str) -> Result<Vec<Calibration>, InputError> {
    let synth = Synth::find(name)?;
    if synth.published.is_empty() {
        return Ok(Vec::new());
    }
    let mut stream = synth.stream(200_000, 1);
    let (files, bytes, _) = stream.inner.fileset();
    let profile = Profile::of(stream.by_ref());
    let read = stream.inner.fileset().2;
    let measure = |statistic: Statistic| match statistic {
        Statistic::Files => ("files", files as f64),
        Statistic::FileKib => ("mean file, KiB", bytes as f64 / 1024.0 / files.max(1) as f64),
        Statistic::ReadShare => ("pages of files read", read),
        Statistic::WriteShare => ("write share", profile.write_share),
        Statistic::MeanKib => ("mean request, KiB", profile.mean_bytes / 1024.0),
        Statistic::SequentialReads => ("sequential reads", profile.reads.sequential),
        Statistic::SequentialWrites => ("sequential writes", profile.writes.sequential),
        Statistic::SpanMib => ("address space, MiB", profile.span_bytes as f64 / f64::from(1 << 20)),
        Statistic::SmallWrites => ("writes of at most 4 KiB", writes_between(synth, 0, 4096)),
        Statistic::MediumWrites => ("writes of less than 16 KiB", writes_between(synth, 4097, 16_383)),
        Statistic::LargeWrites => ("writes of 16 KiB and more", writes_between(synth, 16_384, u64::MAX)),
    };
    let row = |&(statistic, published): &(Statistic, f64)| {
        let (statistic, ours) = measure(statistic);
        Calibration { statistic, published, ours }
    };
    Ok(synth.published.iter().map(row).collect())
}

/// The seeds that a generator's locality is the mean of.
const SEEDS: [u64; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

/// How a generator's writes are spread, beside the real rows that it stands for.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Acceptance {
    /// The file of the rows.
    pub file: &'static str,
    /// Addresses of the rows are moved down to a multiple of this, bytes.
    pub align: u64,
    /// Writes in them; as many of the generator's first ones are compared, the mean of eight seeds.
    pub writes: u64,
    /// The sizes that locality is measured in.
    pub grain: Grain,
    /// How the rows are read, where the file's content does not tell.
    #[serde(skip)]
    pub format: Option<Format>,
    /// Each number of the rows (`published`) beside ours.
    pub table: Vec<Calibration>,
    /// The same for reads, where it is fitted to them, too; else empty.
    pub of_reads: Vec<Calibration>,
    /// What schemes made of the generator that they do not make of the rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<&'static str>,
}

impl Calibration {
    /// Whether ours is near enough for a stand-in: shares within 6 points, others within a fifth.
    pub fn is_near(&self) -> bool {
        let room = if self.published <= 1.0 { 0.06 } else { 0.2 * self.published };
        (self.ours - self.published).abs() <= room
    }
}

impl Synth {
    /// Whether the generator stands for a trace of which no rows were at hand, or failed its acceptance
    /// beside them. A number measured on it says nothing about the workload that it is named after.
    pub fn is_unproven(&self) -> bool {
        match &self.rows {
            Rows::None => matches!(&self.shape, Shape::Extents(_)),
            Rows::Writes(written) => written.failed.is_some(),
            _ => false,
        }
    }

    /// How near the generator comes to the rows that it is fitted to; `None`: it is fitted to none.
    pub fn acceptance(&'static self) -> Option<Acceptance> {
        let Rows::Writes(Written { file, format, align, writes, grain, failed, measured, reads }) =
            &self.rows
        else {
            return None;
        };
        let (file, format, align, writes, grain, failed) = (*file, *format, *align, *writes, *grain, *failed);
        let beside = |kind: Kind, most: u64, measured: &Locality| -> Vec<Calibration> {
            let of = |seed| Locality::of_kind(self.stream(u64::MAX, seed), kind, most, grain).table();
            let ours = SEEDS.map(of);
            let mean = |at: usize| ours.iter().map(|table| table[at].1).sum::<f64>() / ours.len() as f64;
            let row = |(at, (statistic, published))| Calibration { statistic, published, ours: mean(at) };
            measured.table().into_iter().enumerate().map(row).collect()
        };
        let table = beside(Kind::Write, writes, measured);
        let of_reads = reads.map_or_else(Vec::new, |(most, measured)| beside(Kind::Read, most, &measured));
        Some(Acceptance { file, align, writes, grain, format, table, of_reads, failed })
    }
}

/// The share of the writes whose size lies between two bounds.
fn writes_between(synth: &'static Synth, least: u64, most: u64) -> f64 {
    let writes = || synth.stream(200_000, 1).filter(|r| r.kind == Kind::Write);
    let between = writes().filter(|r| (least..=most).contains(&r.bytes)).count();
    between as f64 / writes().count().max(1) as f64
}

/// The requests of a generator.
#[derive(Debug, Clone)]
pub struct Stream {
    inner: Inner,
    left: u64,
}

#[derive(Debug, Clone)]
enum Inner {
    Extents(Box<extents::Stream>),
    Ext4(Box<Files<Ext4>>),
    F2fs(Box<Files<F2fs>>),
    Fio(Box<fio::File>),
    Lsm(Box<lsm::Store>),
}

impl Inner {
    /// Threads on files; `serve`: with the files in place, and otherwise what lays them out.
    fn files(personality: &'static Personality, bytes: u64, seed: u64, serve: bool) -> Inner {
        fn of<S: FileSystem>(it: &'static Personality, bytes: u64, seed: u64, serve: bool) -> Box<Files<S>> {
            let files = Files::new(it, bytes, seed);
            Box::new(if serve { files.serve() } else { files })
        }
        match personality.system {
            System::Ext4 => Inner::Ext4(of(personality, bytes, seed, serve)),
            System::F2fs => Inner::F2fs(of(personality, bytes, seed, serve)),
        }
    }

    /// Files, their bytes, and the share of pages that threads read so far; 0 without files.
    fn fileset(&self) -> (u64, u64, f64) {
        let ((files, bytes), read) = match self {
            Inner::Ext4(files) => (files.fileset(), files.read_share()),
            Inner::F2fs(files) => (files.fileset(), files.read_share()),
            Inner::Extents(_) | Inner::Fio(_) | Inner::Lsm(_) => ((0, 0), 0.0),
        };
        (files, bytes, read)
    }
}

impl Iterator for Stream {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        match &mut self.inner {
            Inner::Extents(stream) => stream.next(),
            Inner::Ext4(files) => files.next(),
            Inner::F2fs(files) => files.next(),
            Inner::Fio(file) => file.next(),
            Inner::Lsm(store) => store.next(),
        }
    }
}
