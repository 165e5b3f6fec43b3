//! LFTL: linear models made from the write stream itself, for devices with little memory.
//!
//! Du, Huang, Wang, Yao, Chen, Shao: A Practical Learning-Based FTL for Memory Constrained Mobile Flash
//! Storage.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | space partition, subspace, open linear group (IV-A) | [`open::Open`] | [`open`] |
//! | linear group, local and global PPA (equation 1) | [`linear::BlockLists`] | `linear::groups` |
//! | RANSAC, early termination, refinement, segmentation (IV-B) | [`linear::Trainer`] | `linear` |
//! | linear model, outlier identifier, point mapping (IV-C) | [`record`] | flash |
//! | chunk; GTD entries that share a translation page, split and merged | [`crate::records`] | flash |
//! | TP node with three lists, eviction order | [`cache::Cache`] | memory |
//! | lookup order, loading with prefetch | [`map::Map::lookup`], [`map::Map::load`] | - |
//! | log mappings, training when a group is closed | [`map::Map::put`], [`map::Map::close`] (`training`) | memory |
//!
//! **Choices**, where the paper is silent or something had to differ:
//! - A linear group is a lane: the blocks of a superblock in some neighbouring units, without bad ones, as
//!   many as a stream needs for its share of what the host writes ([`linear::BlockLists`]). How wide lanes
//!   are, how many are open, and what is done when there is little to spare: [`open`].
//! - Collection takes the pages of a victim lane by lane, so that those of a stream stay in order.
//! - **How models are made.** In one pass that follows each run of points (`method=runs`), or by the paper's
//!   RANSAC (`method=ransac`), in slices: a request of the host waits for one slice at most.
//! - **When models are made.** When a lane is full; and earlier, of what there is so far, when log
//!   mappings take more than the share `log` of the budget (a superblock of them would take 256 KiB), or
//!   have to be written back. A model that continues another one in the same chunk becomes one with it when
//!   the chunk is written back, so that early training costs no bytes.
//! - **A chunk** is 512 LPAs, fewer where a translation page could not hold two of the largest. A model is
//!   entered in each chunk that it covers, so that a chunk can be read and written alone: 8 bytes for 512
//!   pages. In memory a chunk is a TP node. A translation page holds as many chunks as fit.
//! - **Unmapped LPAs** take part: a model of group "nowhere" covers them, or they are outliers with no page.
//!   So a record says what is not mapped, and a model, which has a start but no end, is never wrong.
//! - **Point mappings** take 3 bytes on flash (4 on devices of more than 2^24 pages), because the identifier
//!   already says whose they are, and 8 bytes in memory, as in the paper.
//! - **Prefetching**: what a request will miss is loaded before its first page is read (`ahead`). With a
//!   chunk's head (identifier and models) come the outlier mappings of the rest of the request, and as many
//!   pages again where it has several, or more where loads go through a file (`runs`), as far as they are in
//!   the same translation page; and the heads of its `ahead` next chunks, as far as these are linear.
//! - **A host write** looks its old page up, to invalidate it, as in the other schemes.
//! - **Memory.** Everything counts: directory, block lists, subspaces, TP nodes, buffers, and the free bytes
//!   that the directory may need when translation pages are split. The sum is asserted to be within the
//!   budget whenever anything is added, and a buffer that has grown is a failed invariant. Buffers follow the
//!   budget: training copies a set of log mappings at a time; until then they are looked up in the log, and
//!   count there. A translation page that is split is made part by part, from its end. Where the head of a
//!   chunk does not fit, the one model of the page asked for is loaded. What the search of a recovery
//!   gathers counts for no scheme.
//! - **Controller work**: 0.65 us a prediction; `train_ns` = 16 ns for each point looked at in each pass of
//!   training, and for each LPA in each pass of packing and unpacking a record; `sort_ns` = 9 ns for a point
//!   in each level of sorting by linear group. In LearnedFTL's measurements 512 mappings are sorted and
//!   trained in 50 us on a Cortex-A72, of which sorting, nine levels, takes five parts in six. Of the pages
//!   of a request that one model predicts the first costs a prediction, each further one a step of 16 ns
//!   ([`Predictions`](crate::prediction::Predictions)).

mod ahead;
pub mod cache;
mod collect;
mod lanes;
pub mod linear;
pub mod map;
pub mod offsets;
pub mod open;
pub mod record;
mod recover;
mod runs;
mod scratch;
mod stats;
mod training;
mod write_back;
mod writer;

use crate::breach::Breach;
use crate::counters::Cause;
use crate::engine::Ftl;
use crate::flash::Flash;
use crate::mapping::{Ask, Change, How, Lookup, Mapping, Moved, Pages, Unit, Update};
use crate::records::Records;
use crate::recover::Recovery;
use crate::scheme::{Coming, Config, ConfigError, Info, Memory, Parameter};
use crate::table::mapped;
use cache::Answer;
use linear::{BlockLists, Method, Settings};
use map::{Map, Shape};
use nand::{Done, Geometry, Lpn, Nand, Oob, Result, Vtpn};
use offsets::MOST_LPAS;
use open::Open;
use record::Chunk;
use runs::Runs;
use std::ops::Range;
use training::InTraining;
use writer::Writer;

/// Subspaces that a device has at least.
const LEAST_SUBSPACES: u32 = 8;

/// Log mappings that are trained at once, at least and at most, and the bytes of memory for each of them.
const LEAST_SET: u64 = 16;
const MOST_SET: u64 = 65_536;
const BYTES_OF_A_POINT: u64 = 2_048;

/// LFTL.
pub type Lftl = Ftl<Map, Writer>;

impl Map {
    fn chunk_lpas(geometry: &Geometry) -> u32 {
        (geometry.page_bytes / 8).min(MOST_LPAS as u32)
    }

    fn shape_of(config: &Config, geometry: &Geometry) -> Result<Shape, ConfigError> {
        let chunk_lpas = Self::chunk_lpas(geometry);
        let asked = Self::power_of_two(config, "subspace", 65_536)?;
        let most = (config.exported_pages / LEAST_SUBSPACES).max(1).next_power_of_two();
        let subspace_pages = asked.min(most).max(chunk_lpas);
        let shape = Shape {
            exported_pages: config.exported_pages,
            subspace_pages,
            chunk_lpas,
            point_bytes: if geometry.pages() < (1 << 24) - 1 { 3 } else { 4 },
            budget: config.cache_bytes,
            log_bytes: (config.cache_bytes as f64 * config.number(&Self::INFO, "log", 0.0..=1.0)?) as u64,
            ahead: config.number(&Self::INFO, "ahead", 0..=10_000)?,
            predict_ns: config.number(&Self::INFO, "predict_ns", 0..=1_000_000_000)?,
            train_ns: config.number(&Self::INFO, "train_ns", 0..=1_000_000_000)?,
            sort_ns: config.number(&Self::INFO, "sort_ns", 0..=1_000_000_000)?,
            set: match config.parameter(&Self::INFO, "set").as_str() {
                "auto" => (config.cache_bytes / BYTES_OF_A_POINT).clamp(LEAST_SET, MOST_SET) as u32,
                _ => config.number(&Self::INFO, "set", LEAST_SET..=MOST_SET)? as u32,
            },
        };
        let largest = Chunk { first_lpa: 0, lpas: chunk_lpas as u16, point_bytes: shape.point_bytes };
        assert!(largest.most_bytes() <= Records::longest_record(geometry.page_bytes));
        Ok(shape)
    }

    /// A parameter that is a power of two, at most `most`.
    fn power_of_two(config: &Config, name: &'static str, most: u32) -> Result<u32, ConfigError> {
        let given = config.number(&Self::INFO, name, 1..=most)?;
        if !given.is_power_of_two() {
            return Err(ConfigError(format!(
                "scheme lftl: {name} = '{given}'; a power of two is needed, such as {}",
                given.next_power_of_two().min(most)
            )));
        }
        Ok(given)
    }

    fn settings(config: &Config) -> Result<Settings, ConfigError> {
        Ok(Settings {
            method: match config.parameter(&Self::INFO, "method").as_str() {
                "runs" => Method::Runs,
                "ransac" => Method::Ransac,
                other => {
                    let what = format!("scheme lftl: method = '{other}'; runs or ransac is needed");
                    return Err(ConfigError(what));
                }
            },
            inliers: config.number(&Self::INFO, "inliers", 0.01..=1.0)?,
            rounds: config.number(&Self::INFO, "lines", 1..=10_000)?,
            ..Settings::default()
        })
    }

    /// The budget must hold what is always there, the largest directory, and what one operation brings in.
    /// Returns what is left.
    fn check_budget(&self) -> Result<u64, ConfigError> {
        let shape = self.shape();
        let chunks = shape.exported_pages.div_ceil(shape.chunk_lpas);
        let directory = u64::from(chunks + 1) * Records::ENTRY_BYTES;
        let chunk = Map::least_of_chunk(shape.chunk_lpas);
        let buffers: u64 = self.buffers().iter().sum();
        let (fixed, least) = (self.fixed_bytes() - buffers, self.fixed_bytes() + directory + chunk);
        if shape.budget < least {
            return Err(ConfigError(format!(
                "scheme lftl: a cache of {} bytes is too small; give at least {least}: block lists and open groups take \
                 {fixed}, buffers {buffers}, the directory may take {directory} and a chunk {chunk}",
                shape.budget
            )));
        }
        Ok(shape.budget - least)
    }
}

impl Mapping for Map {
    type Pages = Records;

    const INFO: Info = Info {
        name: "lftl",
        what: "linear models of write streams, by subspace; outliers, models and log mappings in one demand cache",
        paper: "Du et al.: A Practical Learning-Based FTL for Memory Constrained Mobile Flash Storage",
        stats: &stats::ALL,
        parameters: &[
            Parameter {
                name: "subspace",
                default: "65536",
                what: "pages of a subspace, a power of two; it is a chunk (512 pages) at least, an eighth of the device at most",
            },
            Parameter {
                name: "groups",
                default: "auto",
                what: "subspaces that may have an open linear group of their own; auto: as many as there are write streams, up to 48",
            },
            Parameter {
                name: "lanes",
                default: "8",
                what: "lanes into which a superblock may be divided among streams, a power of two up to 32",
            },
            Parameter {
                name: "log",
                default: "0.125",
                what: "share of the memory that log mappings may take before models are made of some",
            },
            Parameter {
                name: "method",
                default: "runs",
                what: "how lines are found: runs, in one pass, or ransac, the paper's",
            },
            Parameter {
                name: "lines",
                default: "64",
                what: "ransac: lines looked for in what is trained together; 1 is the paper's",
            },
            Parameter { name: "inliers", default: "0.95", what: "ransac: share of points on the first line that ends it" },
            Parameter { name: "ahead", default: "16", what: "linear chunks loaded with the one asked for" },
            Parameter { name: "predict_ns", default: "650", what: "controller work of a prediction, ns" },
            Parameter {
                name: "train_ns",
                default: "16",
                what: "controller work of a point in a pass of training, and of an LPA in one of packing or unpacking, ns",
            },
            Parameter { name: "sort_ns", default: "9", what: "controller work of a point in a level of sorting, ns" },
            Parameter {
                name: "set",
                default: "auto",
                what: "log mappings that are trained at once, 19 bytes each; auto: one for each 2,048 bytes of memory",
            },
        ],
    };

    fn shape(records: &mut Records, geometry: &Geometry, _config: &Config) -> Result<(), ConfigError> {
        records.group(Self::chunk_lpas(geometry).ilog2());
        Ok(())
    }

    fn new<N: Nand>(flash: &mut Flash<N>, records: &Records, config: &Config) -> Result<Self, ConfigError> {
        let geometry = flash.nand().geometry().clone();
        let shape = Self::shape_of(config, &geometry)?;
        let lanes = Self::power_of_two(config, "lanes", linear::MOST_LANES)?;
        let lists = BlockLists::new(&geometry, lanes)?;
        let list_bytes = lists.list_bytes();
        if flash.reserve(0, list_bytes as u32).is_err() {
            return Err(ConfigError(format!(
                "scheme lftl: the block list of a linear group takes {list_bytes} bytes of OOB beside {}, and this array has {}",
                Oob::BYTES,
                geometry.oob_bytes
            )));
        }
        let subspaces = config.exported_pages.div_ceil(shape.subspace_pages);
        let streams = match config.parameter(&Self::INFO, "groups").as_str() {
            "auto" => subspaces.min(open::MOST_STREAMS),
            _ => config.number(&Self::INFO, "groups", 0..=open::MOST_STREAMS)?,
        };
        let superblock = (geometry.units(), geometry.superblock_pages());
        let open = Open::new(config.exported_pages, shape.subspace_pages, superblock, streams, lists.lanes());
        let mut map = Map::with(shape, lists, open, Self::settings(config)?, records.buffer_bytes());
        map.runs = Runs::new(map.check_budget()?);
        Ok(map)
    }

    fn restore<N: Nand>(&mut self, recovery: &mut Recovery<'_, N>, records: &mut Records) -> Result<()> {
        recover::restore(recovery, self, records)
    }

    fn lookup<N: Nand>(&mut self, flash: &mut Flash<N>, records: &mut Records, ask: Ask) -> Result<Lookup> {
        let lpn = ask.lpn;
        let (number, offset) = self.place(lpn);
        let (at, is_loaded) = self.look_ahead(flash, records, ask)?;
        let known_by = |how| if is_loaded { How::Loaded } else { how };
        match self.cache.answer(lpn, offset) {
            Answer::Point(entry, known) => {
                Ok(Lookup::new(mapped(entry), flash.join(at, known), known_by(How::CachedEntry)))
            }
            Answer::Nowhere(known) => {
                Ok(Lookup::new(None, flash.join(at, known), known_by(How::CachedEntry)))
            }
            Answer::Model(model, known) => {
                let at = flash.join(at, known);
                let ppn = self.chunk(number).predict(&self.lists, model, offset);
                let at = flash.compute(self.predictions.ns(model, ask), at);
                Ok(Lookup::new(ppn, at, known_by(How::Predicted)))
            }
            Answer::Missing if self.is_blank(records, number) => Ok(Lookup::new(None, at, How::CachedEntry)),
            Answer::Missing => self.load(flash, records, Ask { at, ..ask }),
        }
    }

    fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &mut Records,
        chunk: Vtpn,
        offsets: Range<u32>,
        at: Done,
    ) -> Result<Done> {
        self.unmap(flash, records, chunk.0, offsets, true, at)
    }

    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>, records: &mut Records) -> Result<Option<Done>> {
        if self.cache.dirty_nodes() == 0 {
            return Ok(None);
        }
        match self.cache.next_dirty(self.clean_below) {
            Some(chunk) => {
                self.clean_below = chunk;
                let cause = Cause::Checkpoint;
                let written = self.write_back(flash, records, chunk, true, cause, Done::READY)?;
                self.make_way(flash, records, 0, cause, written).map(Some)
            }
            None => unreachable!("a chunk below {} is newer than on flash", self.clean_below),
        }
    }

    /// Writes back before host writes have to.
    fn tidy<N: Nand>(&mut self, flash: &mut Flash<N>, records: &mut Records) -> Result<Option<Done>> {
        self.write_ahead(flash, records, map::MOST_DIRTY - 1, Done::READY)
    }

    fn expect<N: Nand>(&self, flash: &Flash<N>, records: &Records, lpn: Lpn, coming: Coming) {
        let number = self.place(lpn).0;
        if coming == Coming::Later {
            self.cache.expect(lpn);
        } else if !self.cache.has_head(number) {
            self.cache.expect_head(number);
            records.expect(flash, number, map::LINES_OF_A_HEAD);
        }
    }

    fn entries<N: Nand>(&self, of: Unit<'_, N, Records>, entries: &mut Vec<u32>) {
        self.table(of.unit.0, of.content, entries);
    }

    fn memory(&self, _records: &Records) -> Memory {
        let [nodes, points, models, identifiers] = self.cache.parts();
        let [training, writing] = self.buffers();
        Memory {
            parts: vec![
                ("block lists", self.lists.bytes()),
                ("subspaces and open groups", self.open.bytes()),
                ("the last loads", self.runs.bytes()),
                ("TP nodes", nodes),
                ("point mappings", points),
                ("log mappings in training", self.in_training.bytes() + InTraining::OWN_BYTES),
                ("linear models", models),
                ("outlier identifiers", identifiers),
                ("buffers for training", training),
                ("buffers for translation pages", writing),
                ("kept free for the directory", self.cache.slack()),
            ],
        }
    }

    fn check<N: Nand>(&self, flash: &Flash<N>, records: &Records) -> Result<(), Breach> {
        self.check(flash, records)
    }
}

impl Update for Map {
    /// A trim of any length goes by chunks.
    const TRIM_BY_ENTRY: u32 = 0;

    fn update<N: Nand>(&mut self, flash: &mut Flash<N>, records: &mut Records, to: Change) -> Result<Lookup> {
        let Change { lpn, rest, ppn, programmed, at } = to;
        let old = self.lookup(flash, records, Ask { lpn, rest, at })?;
        let Some(ppn) = ppn else {
            let (chunk, offset) = records.units().place(lpn);
            let done = self.unmap(flash, records, chunk.0, offset..offset + 1, false, old.done)?;
            return Ok(Lookup { done, ..old });
        };
        let done = self.put(flash, records, lpn, ppn, programmed, Cause::Translation, old.done)?;
        let done = self.write_ahead(flash, records, map::MOST_DIRTY, done)?.unwrap_or(done);
        if let Some((_, local)) = self.lists.local(ppn) {
            self.open.programmed(lpn, local);
        }
        Ok(Lookup { done, ..old })
    }

    /// New log mappings, which count at once: no mapping on flash has to change before the originals are
    /// erased.
    fn moved<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &mut Records,
        moves: &[Moved],
    ) -> Result<Done> {
        let mut copied = Done::READY;
        for moved in moves {
            let (cause, at) = (Cause::Collection, Done::READY);
            self.put(flash, records, moved.lpn, moved.to, moved.done, cause, at)?;
            copied = flash.join(copied, moved.done);
        }
        flash.counters.gc_hits += moves.len() as u64;
        Ok(copied)
    }
}
