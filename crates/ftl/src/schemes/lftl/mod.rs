//! LFTL: linear models made from the write stream itself, for devices with little memory.
//!
//! Du, Huang, Wang, Yao, Chen, Shao: A Practical Learning-Based FTL for Memory Constrained Mobile Flash Storage.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | space partition, subspace, open linear group (IV-A) | [`open::Open`] | [`open`] |
//! | linear group, local and global PPA (equation 1) | [`linear::BlockLists`] | `linear::groups` |
//! | RANSAC, early termination, refinement, segmentation (IV-B) | [`linear::Trainer`] | `linear` |
//! | linear model, outlier identifier, point mapping (IV-C) | [`record`] | flash |
//! | chunk; GTD entries that share a translation page, split and merged | [`crate::records`] | flash |
//! | TP node with three lists, eviction order | [`cache::Cache`] | memory |
//! | lookup order, loading with prefetch | [`map::Map::lookup`] | - |
//! | log mappings, training when a group is closed | [`map::Map::put`], [`map::Map::close`] | memory |
//!
//! **Choices**, where the paper is silent or something had to differ:
//! - A linear group is a superblock, a block of each parallel unit, without bad ones ([`linear::BlockLists`]). How many are
//!   open, and what is done when there are too few to spare: [`open`].
//! - **When models are made.** When a superblock is full; and earlier, of what there is so far, when log mappings take
//!   more than the share `log` of the budget (one superblock of them would take 256 KiB), or have to be written back. A model
//!   that continues another one in the same chunk becomes one with it when the chunk is written back, so that early
//!   training costs no bytes.
//! - **A chunk** is 512 LPAs, fewer where a translation page could not hold two of the largest. A model is entered in each
//!   chunk that it covers, so that a chunk can be read and written alone: 8 bytes for 512 pages. In memory a chunk is a TP
//!   node. A translation page holds as many chunks as fit.
//! - **Unmapped LPAs** take part: a model of group "nowhere" covers them, or they are outliers with no page. So a record says
//!   what is not mapped, and a model, which has a start but no end, is never wrong.
//! - **Point mappings** take 3 bytes on flash (4 on devices of more than 2^24 pages), because the identifier already
//!   says whose they are, and 8 bytes in memory, as in the paper.
//! - **Prefetching**: with a chunk's head (identifier and models) come the outlier mappings of the rest of the request, and the
//!   heads of the `ahead` next chunks of the same translation page, as far as these are linear.
//! - **A host write** looks its old page up, to invalidate it, as in the other schemes.
//! - **Memory.** Everything counts: directory, block lists, subspaces, TP nodes, and the free bytes that the directory may need
//!   when translation pages are split. The sum is asserted to be within the budget whenever anything is added. RANSAC
//!   works on the log mappings where they are.
//! - **Controller work**: 0.65 us a prediction, and `train_ns` = 16 ns for each point looked at in each pass over the points: in
//!   LearnedFTL's measurements 512 mappings are sorted and trained in 50 us on a Cortex-A72, of which sorting takes five
//!   parts in six, and LFTL need not sort.

pub mod cache;
mod collect;
pub mod linear;
pub mod map;
pub mod open;
pub mod record;
mod recover;
mod writer;

use crate::checkpoint::{self, Journal};
use crate::counters::Cause;
use crate::engine::audit::Audit;
use crate::engine::check_room;
use crate::engine::room::{KeepsRoom, Thresholds};
use crate::flash::{Content, Flash};
use crate::records::Records;
use crate::scheme::{Breach, Config, ConfigError, Info, Memory, OpenError, Parameter, Scheme};
use crate::space::Stream;
use collect::Collector;
use linear::{BlockLists, Settings};
use map::{Map, Shape};
use nand::{Done, Fault, Geometry, Lpn, Nand, Oob, Ppn, Source};
use open::Open;
use record::{Chunk, MOST_LPAS};
use writer::Writer;

/// Subspaces that a device has at least.
const LEAST_SUBSPACES: u32 = 8;

/// LFTL.
#[derive(Clone, Debug)]
pub struct Lftl {
    map: Map,
    writer: Writer,
    collector: Collector,
    journal: Journal,
    thresholds: Thresholds,
    /// Pages whose LPNs were trimmed.
    trimmed: Vec<Ppn>,
}

impl Lftl {
    fn shape(config: &Config, geometry: &Geometry) -> Result<Shape, ConfigError> {
        let chunk_lpas = (geometry.page_bytes / 8).min(MOST_LPAS as u32);
        let asked = config.number(&Self::INFO, "subspace", 1.0..=65_536.0)? as u32;
        let most = (config.exported_pages / LEAST_SUBSPACES).max(1).next_power_of_two();
        let subspace_pages = asked.next_power_of_two().min(most).max(chunk_lpas);
        let shape = Shape {
            exported_pages: config.exported_pages,
            subspace_pages,
            chunk_lpas,
            point_bytes: if geometry.pages() < (1 << 24) - 1 { 3 } else { 4 },
            budget: config.cache_bytes,
            log_bytes: (config.cache_bytes as f64 * config.number(&Self::INFO, "log", 0.0..=1.0)?) as u64,
            ahead: config.number(&Self::INFO, "ahead", 0.0..=10_000.0)? as u32,
            predict_ns: config.number(&Self::INFO, "predict_ns", 0.0..=1e9)? as u64,
            train_ns: config.number(&Self::INFO, "train_ns", 0.0..=1e9)? as u64,
        };
        let largest = Chunk { first_lpa: 0, lpas: chunk_lpas as u16, point_bytes: shape.point_bytes };
        assert!(largest.most_bytes() <= Records::longest_record(geometry.page_bytes));
        Ok(shape)
    }

    fn settings(config: &Config) -> Result<Settings, ConfigError> {
        Ok(Settings {
            inliers: config.number(&Self::INFO, "inliers", 0.01..=1.0)?,
            rounds: config.number(&Self::INFO, "lines", 1.0..=10_000.0)? as u32,
            ..Settings::default()
        })
    }

    /// The budget must hold what is always there, the largest directory, and what one operation brings in.
    fn check_budget(shape: &Shape, fixed: u64) -> Result<(), ConfigError> {
        let chunks = shape.exported_pages.div_ceil(shape.chunk_lpas);
        let directory = u64::from(chunks + 1) * Records::ENTRY_BYTES;
        let chunk = Map::most_of_chunk(shape.chunk_lpas);
        if shape.budget < fixed + directory + chunk {
            return Err(ConfigError(format!(
                "scheme lftl: a cache of {} bytes is too small: block lists and open groups take {fixed}, the directory may \
                 take {directory} and a chunk {chunk}",
                shape.budget
            )));
        }
        Ok(())
    }

    /// Makes every translation page current, then writes a checkpoint.
    fn checkpoint<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done, Fault> {
        let done = self.clean_all(flash)?;
        let records = &self.map.records;
        checkpoint::write_directory(flash, records.words(), |i| records.word(i), &mut self.journal, done)
    }
}

impl KeepsRoom for Lftl {
    type Collector = Collector;

    #[inline]
    fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    #[inline]
    fn collector(&self) -> &Collector {
        &self.collector
    }

    fn collector_mut(&mut self) -> &mut Collector {
        &mut self.collector
    }

    fn step<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<(), Fault> {
        self.collector.step(flash, &mut self.map, &mut self.writer, &mut self.journal)
    }

    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>, Fault> {
        self.map.clean_one(flash)
    }
}

impl Scheme for Lftl {
    const INFO: Info = Info {
        name: "lftl",
        what: "linear models of write streams, by subspace; outliers, models and log mappings in one demand cache",
        paper: "Du et al.: A Practical Learning-Based FTL for Memory Constrained Mobile Flash Storage",
        parameters: &[
            Parameter {
                name: "subspace",
                default: "65536",
                what: "pages of a subspace, a power of two; an eighth of the device at most",
            },
            Parameter {
                name: "groups",
                default: "auto",
                what: "linear groups open for subspaces of their own; auto: three quarters of the spare superblocks",
            },
            Parameter {
                name: "log",
                default: "0.125",
                what: "share of the memory that log mappings may take before models are made of some",
            },
            Parameter { name: "lines", default: "64", what: "lines looked for in what is trained together; 1 is the paper's" },
            Parameter { name: "inliers", default: "0.95", what: "share of points on the first line that ends RANSAC" },
            Parameter { name: "ahead", default: "16", what: "linear chunks loaded with the one asked for" },
            Parameter { name: "predict_ns", default: "650", what: "controller work of a prediction, ns" },
            Parameter { name: "train_ns", default: "16", what: "controller work of a point in a pass of training, ns" },
        ],
    };

    const REWRITES: bool = true;

    fn open<N: Nand>(flash: &mut Flash<N>, config: &Config) -> Result<Self, OpenError> {
        config.check_parameters(&Self::INFO)?;
        let geometry = flash.nand().geometry().clone();
        let shape = Self::shape(config, &geometry)?;
        let lists = BlockLists::new(&geometry).map_err(|what| ConfigError(format!("scheme lftl: {what}")))?;
        let list_bytes = lists.list_bytes();
        if flash.reserve(0, list_bytes as u32).is_err() {
            return Err(ConfigError(format!(
                "scheme lftl: the block list of a linear group takes {list_bytes} bytes of OOB beside {}, and this array has {}",
                Oob::BYTES,
                geometry.oob_bytes
            ))
            .into());
        }
        let chunks = config.exported_pages.div_ceil(shape.chunk_lpas);
        let spare = check_room(flash, chunks + 1, config)?;
        let subspaces = config.exported_pages.div_ceil(shape.subspace_pages);
        let streams = match config.parameter(&Self::INFO, "groups").as_str() {
            "auto" => Open::limit(spare, subspaces),
            _ => (config.number(&Self::INFO, "groups", 0.0..=200.0)? as u32).min(spare),
        };
        let open =
            Open::new(config.exported_pages, shape.subspace_pages, geometry.superblock_pages(), streams);
        Self::check_budget(&shape, lists.bytes() + open.bytes())?;
        let mut map = Map::new(shape, lists, open, Self::settings(config)?, geometry.page_bytes);
        let mut journal = Journal::new(geometry.page_bytes);
        recover::recover(flash, &mut map, &mut journal)?;
        flash.add_streams(streams as usize);
        flash.keep_reserve(config.foreground_superblocks);
        Ok(Lftl {
            map,
            writer: Writer::new(Stream::COUNT + streams as usize, list_bytes),
            collector: Collector::new(config.victims),
            journal,
            thresholds: Thresholds::new(config),
            trimmed: Vec::with_capacity(MOST_LPAS),
        })
    }

    // Lookups

    fn read<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        rest: u32,
        at: Done,
    ) -> Result<(Option<Oob>, Done), Fault> {
        self.make_room(flash, None)?;
        let (found, known) = self.map.lookup(flash, lpn, rest, at)?;
        flash.counters.lookups += 1;
        flash.counters.cmt_hits += u64::from(found.hit && !found.by_model);
        let Some(ppn) = found.ppn else { return Ok((None, known)) };
        if found.hit && found.by_model {
            flash.follow_prediction();
        }
        let (oob, done) = flash.read_data(ppn, lpn, Cause::Host, known)?;
        Ok((Some(oob), done))
    }

    fn expect<N: Nand>(&self, _flash: &Flash<N>, lpn: Lpn, _soon: bool) {
        self.map.cache.expect(lpn);
    }

    // Updates

    fn write<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: Lpn, rest: u32, at: Done) -> Result<Done, Fault> {
        let spare = flash.free_superblocks() > self.thresholds.background;
        let group = self.map.open.choose(lpn, |stream| flash.space.left(stream), spare);
        let stream = self.map.open.stream(group);
        self.make_room(flash, Some(stream))?;
        let content = Content::version(flash.next_version());
        let (map, from, cause) = (&mut self.map, Source::Host, Cause::Host);
        let (ppn, programmed) = self.writer.program(flash, map, stream, lpn, content, from, cause, at)?;
        let updated = map.lookup(flash, lpn, rest, at).and_then(|(old, known)| {
            let known = map.put(flash, lpn, ppn, programmed, Cause::Translation, known)?;
            Ok((old, known))
        });
        let (old, known) = match updated {
            Ok(updated) => updated,
            Err(fault) => {
                flash.invalidate(ppn);
                return Err(fault);
            }
        };
        if let Some((_, local)) = map.lists.local(ppn) {
            map.open.wrote(group, lpn, local);
        }
        flash.counters.lookups += 1;
        flash.counters.cmt_hits += u64::from(old.hit && !old.by_model);
        flash.counters.model_updates += u64::from(old.hit && old.by_model);
        if let Some(old) = old.ppn {
            flash.invalidate(old);
        }
        Ok(flash.join(programmed, known))
    }

    fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        first: Lpn,
        pages: u32,
        at: Done,
    ) -> Result<Done, Fault> {
        if pages == 0 {
            return Ok(at);
        }
        self.make_room(flash, Some(Stream::HOST))?;
        if self.journal.is_nearly_full(flash) {
            self.checkpoint(flash)?;
        }
        // Recorded first: collection, which may run in between, makes it durable before it erases anything.
        self.journal.trimmed(flash, first, pages)?;
        let mut done = at;
        let (mut lpn, end) = (first.0, first.0 + pages);
        while lpn < end {
            self.make_room(flash, Some(Stream::HOST))?;
            let (chunk, offset) = self.map.place(Lpn(lpn));
            let count = (end - lpn).min(self.map.lpns_in(chunk) - u32::from(offset));
            let range = u32::from(offset)..u32::from(offset) + count;
            let known = self.map.trim(flash, chunk, range, at, &mut self.trimmed)?;
            for &page in &self.trimmed {
                flash.invalidate(page);
            }
            done = flash.join(done, known);
            lpn += count;
        }
        Ok(done)
    }

    fn flush<N: Nand>(&mut self, flash: &mut Flash<N>, at: Done) -> Result<Done, Fault> {
        self.make_room(flash, Some(Stream::HOST))?;
        self.journal.write_pending(flash)?;
        let settled = flash.settle();
        Ok(flash.join(settled, at))
    }

    fn idle<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>, Fault> {
        self.use_pause(flash)
    }

    fn rewrite<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>, Fault> {
        self.rewrite_some(flash)
    }

    fn power_off<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done, Fault> {
        self.make_room(flash, Some(Stream::HOST))?;
        self.checkpoint(flash)
    }

    // Checks

    fn mapping<N: Nand>(&self, flash: &Flash<N>, each: &mut dyn FnMut(Lpn, Ppn)) {
        self.map.each(flash, 0..self.map.shape().exported_pages, each);
    }

    fn mapped_in<N: Nand>(&self, flash: &Flash<N>, first: Lpn, pages: u32, each: &mut dyn FnMut(Lpn, Ppn)) {
        self.map.each(flash, first.0..first.0 + pages, each);
    }

    fn check<N: Nand>(&self, flash: &Flash<N>) -> Result<(), Breach> {
        flash.space.check()?;
        self.map.check(flash)?;
        let mut audit = Audit::new(flash);
        self.mapping(flash, &mut |lpn, ppn| audit.mapped(lpn, ppn));
        Ok(audit.finish(self.map.records.directory())?)
    }

    fn memory(&self) -> Memory {
        let map = &self.map;
        let [nodes, points, models, identifiers] = map.cache.parts();
        Memory {
            parts: vec![
                ("directory", map.records.directory_bytes()),
                ("block lists", map.lists.bytes()),
                ("subspaces and open groups", map.open.bytes()),
                ("TP nodes", nodes),
                ("point mappings", points),
                ("linear models", models),
                ("outlier identifiers", identifiers),
                ("kept free for the directory", map.cache.slack()),
            ],
        }
    }
}
