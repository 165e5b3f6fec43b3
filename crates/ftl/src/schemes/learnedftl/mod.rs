//! LearnedFTL: Wang, Lin, Wu, Jiang, Zhang, Mao, "LearnedFTL: A Learning-based Page-level FTL for Reducing Double Reads in
//! Flash-based SSDs", HPCA 2024.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | demand cache: TPFTL (III-A) | [`ClusteredTable`] | `schemes::tpftl` |
//! | in-place-update linear model, bitmap filter (III-B) | [`Models`] | `models` |
//! | virtual PPN (III-C) | the PPN: [`nand::Geometry`] numbers pages in the order of allocation | `nand::addr` |
//! | group-based and opportunistic cross-group allocation (III-D) | [`Groups`] | `groups` |
//! | sequential initialization (III-E1) | [`LearnedTable::initialize`] | here |
//! | model training via GC (III-E2) | [`Gathering`], [`LearnedTable::train`] | `engine::collector`, here |
//! | model training via rewrite (III-E3) | [`Mapping::rewrite`] | here |
//! | bitmap cleared on a write | [`LearnedTable::forget`] | here |
//!
//! What the paper leaves open, and what we chose:
//! - **Two kinds of collection.** The paper collects whole groups: all valid pages of a group move. That costs a group's
//!   pages for what was overwritten of them, 1/f page writes for each page of the host when a group is collected after a
//!   share f of it was overwritten, where the collection of the emptiest superblock costs less. So room is made superblock by
//!   superblock as in the other schemes, and a group is collected for its models: when `retrain` of its pages have no
//!   prediction. Its old superblocks are then empty, or nearly, and come next by themselves. `retrain` is the price of model
//!   hits in write amplification; docs/schemes/learnedftl.md has the curve. The less room there is, the lower it is set (see
//!   `groups`). A group goes part by part, a few pages for each page of the host, and no write waits for a whole group.
//! - **A crowded device.** When more than `crowded` of all pages are valid, groups would be collected so often that each page of
//!   the host costs many; then no group is collected for its models.
//! - **Cross-group allocation**: see `groups`. `encroachment` is the paper's threshold; the encroaching and the encroached
//!   group are collected if they gain by it.
//! - **Rewriting**, as flash needs that keeps data for long, takes the groups in turn, however crowded the device: their pages
//!   are written in the order of their LPNs, and learned. The world says how often (`ftl compare --rewrite`).
//! - **Order.** A group's pages are read and written in the order of its LPNs, which its translation pages tell (read for
//!   that, cause `training`). The pages of a superblock are copied in the order in which they lie: runs stay runs, and the
//!   controller has no list of a superblock's LPNs to sort by. Both train the models with what moved.
//! - **Sequential initialization** takes any run of consecutive LPNs on consecutive pages from [`LEAST_POINTS`] pages on, when
//!   its request ends. A short request continues what was written before it, where the CMT knows that; so many streams of
//!   4 KiB are learned beside each other.
//! - **A host write** whose old page the model knows loads no translation page to invalidate it.
//! - Predictions and trainings of no use to anybody are not charged: `predict_ns` for each prediction followed, `train_ns`
//!   for a full GTD entry, less in proportion for fewer points.
//! - An orderly power-off writes the models beside the checkpoint of the directory. After power loss they are trained again
//!   from the translation pages, which recovery reads anyway, with what it found newer; the time is charged.

pub mod groups;
pub mod models;

use crate::cmt::census::CachedPage;
use crate::engine::collector::Gathering;
use crate::engine::{Mapping, Moved, PageLevel};
use crate::flash::Flash;
use crate::scheme::{Config, ConfigError, Info, Memory, Parameter};
use crate::schemes::tpftl::ClusteredTable;
use crate::space::Stream;
use crate::table::{mapped, Table};
use crate::Cause;
use groups::{Groups, Thresholds, MOST_OPEN};
use models::{entry_bytes, Format, Models, Point, ENTRY_LPNS, LEAST_POINTS};
use nand::{Done, Fault, Geometry, Lpn, Nand, Ppn, Vtpn};
use std::ops::Range;

/// GTD entries of a group (III-D), and the groups that a device has at least.
const GROUP_ENTRIES: u32 = 64;
const LEAST_GROUPS: u32 = 16;

/// LearnedFTL.
pub type LearnedFtl = PageLevel<LearnedTable<false>>;
/// LearnedFTL whose predictions take no time.
pub type LearnedFtlIdeal = PageLevel<LearnedTable<true>>;

/// Which of the paper's techniques are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Techniques {
    /// Sequential initialization.
    pub initialization: bool,
    /// Training in collection, and the collection of groups for it.
    pub collection: bool,
    /// Cross-group allocation.
    pub cross_group: bool,
    /// The bitmap filter.
    pub bitmap: bool,
}

impl Techniques {
    /// Reads a string of letters, in any order; `-` stands for none.
    fn parse(letters: &str) -> Option<Techniques> {
        let known = letters == "-" || letters.chars().all(|letter| "igxb".contains(letter));
        known.then(|| Techniques {
            initialization: letters.contains('i'),
            collection: letters.contains('g'),
            cross_group: letters.contains('x'),
            bitmap: letters.contains('b'),
        })
    }
}

/// Consecutive LPNs of a request that went to consecutive pages, up to the last page written, and that no model has seen.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: Lpn,
    ppn: Ppn,
    pages: u32,
}

/// A demand cache with models beside the directory.
#[derive(Clone, Debug)]
pub struct LearnedTable<const IDEAL: bool> {
    cached: ClusteredTable,
    models: Models,
    groups: Groups,
    techniques: Techniques,
    run: Run,
    /// Valid share of the array above which no group is collected.
    crowded: f64,
    /// LPNs of a part of a group that is collected without making room in between: those of a translation page, or what a
    /// superblock holds.
    part: u32,
    /// Free superblocks below which none is opened for a group that could write elsewhere.
    spare: u32,
    exported_pages: u32,
    predict_ns: u64,
    /// For a full GTD entry.
    train_ns: u64,
    /// Groups are collected: the technique is on, and there is room for it.
    may_gather: bool,
    /// The models were found on flash.
    is_relearned: bool,
    /// Points trained by recovery, whose time is not charged yet.
    uncharged: u64,
    points: Vec<Point>,
    /// Moves in ascending order.
    sorted: Vec<(Lpn, Ppn)>,
}

impl<const IDEAL: bool> LearnedTable<IDEAL> {
    /// The next part of the group that is collected or rewritten, or the first one of the group that `next` gives.
    fn next_part<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        cause: Cause,
        next: impl FnOnce(&mut Self) -> Option<u32>,
    ) -> Option<Gathering> {
        let (lpns, stream, cause) = match self.groups.next_part(self.part) {
            Some(part) => part,
            None => {
                let group = next(self)?;
                self.groups.collect(flash, group, self.exported_pages, cause);
                self.groups.next_part(self.part)?
            }
        };
        Some(Gathering { lpns, stream, cause, pace: self.groups.pace() })
    }

    /// What the model knows of `lpn`.
    #[inline]
    fn predict<N: Nand>(&self, flash: &mut Flash<N>, lpn: Lpn, at: Done) -> Option<(Ppn, Done)> {
        if !self.techniques.bitmap {
            return None;
        }
        let ppn = self.models.predict(lpn)?;
        let ns = if IDEAL { 0 } else { self.predict_ns };
        Some((ppn, flash.compute(ns, at)))
    }

    /// The page of `lpn` is another now: its bit is cleared before anything else can happen.
    #[inline]
    fn forget(&mut self, lpn: Lpn) {
        self.models.clear(lpn);
    }

    /// Sequential initialization (III-E1): a run of pages, written in order, is a model y = x + b. `rest` pages of the
    /// request, with this one, are to come: the run is learned when the request ends, or the run or its GTD entry does.
    #[inline]
    fn initialize(&mut self, table: &Table, lpn: Lpn, ppn: Ppn, rest: u32) {
        if lpn.0 == self.run.first.0 + self.run.pages && ppn.0 == self.run.ppn.0 + self.run.pages {
            self.run.pages += 1;
        } else {
            self.learn_run(table);
            self.run = Run { first: lpn, ppn, pages: 1 };
        }
        if rest == 1 || self.models.place(lpn).1 + 1 == self.models.entry_lpns() {
            self.learn_run(table);
        }
    }

    /// Learns the run. A short one may continue what was written before: the CMT tells.
    fn learn_run(&mut self, table: &Table) {
        let Run { first, ppn, pages } = self.run;
        if pages == 0 {
            return;
        }
        self.run = Run { first: Lpn(first.0 + pages), ppn: Ppn(ppn.0 + pages), pages: 0 };
        if pages == 1 && self.models.confirm(first, ppn) {
            return;
        }
        let (entry, x) = self.models.place(first);
        let most = (LEAST_POINTS as u32).saturating_sub(pages).min(x).min(ppn.0);
        let continues =
            |back: &u32| self.cached.held(table, Lpn(first.0 - back)) == Some(Some(Ppn(ppn.0 - back)));
        let back = (1..=most).take_while(continues).count() as u32;
        self.points.clear();
        self.points.extend((0..back + pages).map(|at| Point { x: x - back + at, y: ppn.0 - back + at }));
        (0..back + pages).for_each(|at| {
            self.models.clear(Lpn(first.0 - back + at));
        });
        self.models.learn(entry, &self.points);
    }

    /// Trains on LPNs that are now where they are: those of one GTD entry after the other, in ascending order. Returns
    /// how many.
    fn train(&mut self, mappings: impl Iterator<Item = (Lpn, Ppn)>) -> u64 {
        let mut count = 0;
        let mut current = 0;
        self.points.clear();
        for (lpn, ppn) in mappings {
            self.models.clear(lpn);
            let (entry, x) = self.models.place(lpn);
            if entry != current {
                self.models.learn(current, &self.points);
                self.points.clear();
                current = entry;
            }
            self.points.push(Point { x, y: ppn.0 });
            count += 1;
        }
        self.models.learn(current, &self.points);
        count
    }

    fn train_ns(&self, points: u64) -> u64 {
        self.train_ns * points / u64::from(self.models.entry_lpns())
    }
}

impl<const IDEAL: bool> Mapping for LearnedTable<IDEAL> {
    const INFO: Info = Info {
        name: if IDEAL { "learnedftl-ideal" } else { "learnedftl" },
        what: if IDEAL {
            "LearnedFTL whose predictions take no time"
        } else {
            "demand cache with in-place-updated linear models, group-based allocation, training in collection"
        },
        paper: "Wang et al.: LearnedFTL: A Learning-based Page-level FTL for Reducing Double Reads, HPCA 2024",
        parameters: &[
            Parameter { name: "pieces", default: "8", what: "linear pieces of a GTD entry's model" },
            Parameter {
                name: "format",
                default: "exact",
                what: "how a piece holds its intercept: exact (23-bit integer) or float16 (as printed in the paper)",
            },
            Parameter {
                name: "techniques",
                default: "igxb",
                what: "i sequential initialization, g training and gathering in collection, x cross-group allocation, \
                       b bitmap filter; - for none",
            },
            Parameter {
                name: "retrain",
                default: "0.5",
                what: "share of a group's pages without a prediction at which the group is collected",
            },
            Parameter {
                name: "encroachment",
                default: "0.75",
                what: "pages that a group writes into others' superblocks before both are collected, share of a group",
            },
            Parameter {
                name: "crowded",
                default: "0.65",
                what: "valid share of the array above which no group is collected",
            },
            Parameter {
                name: "train_ns",
                default: "50000",
                what: "controller time to sort and train a full GTD entry",
            },
            Parameter { name: "predict_ns", default: "650", what: "controller time of a prediction" },
        ],
    };
    fn new(table: &Table, geometry: &Geometry, config: &Config) -> Result<Self, ConfigError> {
        let info = &Self::INFO;
        let letters = config.parameter(info, "techniques");
        let techniques = Techniques::parse(&letters).ok_or_else(|| {
            ConfigError(format!(
                "scheme {}: techniques = '{letters}'; letters of 'igxb', or '-', are needed",
                info.name
            ))
        })?;
        let format = match config.parameter(info, "format").as_str() {
            "exact" => Format::Exact,
            "float16" => Format::Float16,
            other => {
                return Err(ConfigError(format!(
                    "scheme {}: format = '{other}'; exact or float16 is needed",
                    info.name
                )))
            }
        };
        let pieces = config.number(info, "pieces", 1.0..=64.0)? as u32;
        let thresholds = Thresholds {
            retrain: config.number(info, "retrain", 0.01..=1.0)?,
            encroachment: config.number(info, "encroachment", 0.01..=1000.0)?,
        };
        let entry_lpns = ENTRY_LPNS.min(table.entries_per_page());
        let entries = table.exported_pages().div_ceil(entry_lpns);
        let entries_per_group =
            GROUP_ENTRIES.min(entries / LEAST_GROUPS).max(geometry.superblock_pages() / entry_lpns).max(1);
        let models = Models::new(
            table.exported_pages(),
            entry_lpns,
            entries_per_group,
            pieces,
            format,
            geometry.pages(),
        );
        let group_lpns = entries_per_group * entry_lpns;
        let groups = Groups::new(table.exported_pages(), group_lpns, thresholds, techniques.cross_group);
        let most_slots =
            1 + if techniques.cross_group { MOST_OPEN } else { entries.div_ceil(entries_per_group) };
        let beside = models.bytes() + groups.bytes_with(most_slots);
        let rest = config.cache_bytes.checked_sub(beside);
        let of_cache = Config { parameters: Default::default(), ..config.clone() };
        let cached = rest
            .and_then(|rest| ClusteredTable::new(table, geometry, &Config { cache_bytes: rest, ..of_cache }).ok())
            .ok_or_else(|| {
                ConfigError(format!(
                    "scheme {}: a cache of {} bytes is too small: models of {} bytes a GTD entry take {}, the \
                     directory {}, and some entries of the CMT are needed beside them",
                    info.name,
                    config.cache_bytes,
                    entry_bytes(pieces, entry_lpns, format),
                    models.bytes(),
                    table.directory_bytes()
                ))
            })?;
        Ok(LearnedTable {
            cached,
            models,
            groups,
            techniques,
            run: Run { first: Lpn(0), ppn: Ppn(0), pages: 0 },
            crowded: config.number(info, "crowded", 0.0..=1.0)?,
            part: table.entries_per_page().min(geometry.superblock_pages()),
            spare: config.background_superblocks,
            exported_pages: table.exported_pages(),
            predict_ns: config.number(info, "predict_ns", 0.0..=1e9)? as u64,
            train_ns: config.number(info, "train_ns", 0.0..=1e9)? as u64,
            may_gather: false,
            is_relearned: false,
            uncharged: 0,
            points: Vec::with_capacity(ENTRY_LPNS as usize),
            sorted: Vec::with_capacity(geometry.superblock_pages().max(table.entries_per_page()) as usize),
        })
    }

    fn learned(&self) -> Option<Vec<u8>> {
        Some(self.models.to_bytes())
    }

    fn relearn(&mut self, learned: &[u8]) {
        self.is_relearned = self.models.restore(learned);
    }

    fn restore(&mut self, table: &Table, vtpn: Vtpn, entries: &[u32], _changed: bool) -> bool {
        let first = table.first_lpn(vtpn);
        let mapped = || (first.0..).map(Lpn).zip(entries).filter_map(|(lpn, &e)| Some((lpn, mapped(e)?)));
        for (lpn, _) in mapped() {
            self.groups.mapped(self.groups.of(lpn), true);
        }
        if !self.is_relearned {
            self.uncharged += self.train(mapped());
        }
        false
    }

    fn opened<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        _table: &Table,
        spare_superblocks: u32,
    ) -> Result<(), ConfigError> {
        let points = std::mem::take(&mut self.uncharged);
        flash.compute(self.train_ns(points), Done::READY);
        self.groups.open(flash, spare_superblocks)?;
        self.may_gather = self.techniques.collection && self.groups.have_own();
        Ok(())
    }

    fn spare_wanted(&self) -> u32 {
        u32::from(self.groups.have_own())
    }

    // Lookups

    /// Without the bitmap filter every prediction is tried, if the page is valid at all, and the OOB tells whether it was
    /// right: the miss penalty that the filter does away with.
    #[inline]
    fn guess<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: Lpn, at: Done) -> Option<(Ppn, Done)> {
        if self.techniques.bitmap || self.cached.holds(lpn) {
            return None;
        }
        let is_page = |ppn: &Ppn| ppn.0 < flash.nand().geometry().pages() && flash.space.is_valid_data(*ppn);
        let ppn = self.models.guess(lpn).filter(is_page)?;
        Some((ppn, flash.compute(if IDEAL { 0 } else { self.predict_ns }, at)))
    }

    #[inline]
    fn lookup<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        lpn: Lpn,
        rest: u32,
        at: Done,
    ) -> Result<(Option<Ppn>, Done), Fault> {
        flash.counters.lookups += 1;
        if let Some((ppn, known)) = self.cached.find(lpn) {
            flash.counters.cmt_hits += 1;
            return Ok((ppn, flash.join(at, known)));
        }
        if let Some((ppn, known)) = self.predict(flash, lpn, at) {
            flash.follow_prediction();
            return Ok((Some(ppn), known));
        }
        let (ppn, known) = self.cached.load(flash, table, lpn, rest, at)?;
        Ok((mapped(ppn), known))
    }

    #[inline]
    fn expect<N: Nand>(&self, flash: &Flash<N>, table: &Table, lpn: Lpn, soon: bool) {
        self.cached.expect(flash, table, lpn, soon);
    }

    // Updates

    #[inline]
    fn stream<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: Lpn, rest: u32) -> Stream {
        let spare = flash.free_superblocks() > self.spare;
        self.groups.stream(flash, lpn, rest, spare)
    }

    #[inline]
    fn update<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        lpn: Lpn,
        rest: u32,
        ppn: Option<Ppn>,
        programmed: Done,
        at: Done,
    ) -> Result<(Option<Ppn>, Done), Fault> {
        flash.counters.lookups += 1;
        let (old, known) = if let Some((old, known)) = self.cached.change(lpn, ppn, programmed) {
            flash.counters.cmt_hits += 1;
            (old, flash.join(at, known))
        } else if let Some((old, known)) = self.predict(flash, lpn, at) {
            let placed = self.cached.put(flash, table, lpn, ppn, programmed, at)?;
            flash.counters.model_updates += 1;
            (Some(old), flash.join(known, placed))
        } else {
            let (old, known) = self.cached.load(flash, table, lpn, rest, at)?;
            self.cached.change(lpn, ppn, programmed);
            (mapped(old), known)
        };
        self.forget(lpn);
        let group = self.groups.of(lpn);
        if old.is_some() != ppn.is_some() {
            self.groups.mapped(group, ppn.is_some());
        }
        match ppn {
            Some(ppn) if self.techniques.initialization => self.initialize(table, lpn, ppn, rest),
            Some(_) => {}
            None => self.run.pages = 0,
        }
        if self.may_gather {
            self.groups.trained(group, self.models.trained_in(group));
        }
        Ok((old, known))
    }

    fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        vtpn: Vtpn,
        slots: Range<u32>,
        at: Done,
    ) -> Result<Done, Fault> {
        self.run.pages = 0;
        let first = table.first_lpn(vtpn).0;
        let (mut lpn, end) = (first + slots.start, first + slots.end);
        let mut done = at;
        while lpn < end {
            let group = self.groups.of(Lpn(lpn));
            let next = self.groups.lpns_of(group, end).end;
            (lpn..next).for_each(|lpn| self.forget(Lpn(lpn)));
            let before = flash.valid_pages();
            let trimmed = self.cached.trim(flash, table, vtpn, lpn - first..next - first, at);
            self.groups.unmapped(group, (before - flash.valid_pages()) as u32);
            done = flash.join(done, trimmed?);
            lpn = next;
        }
        Ok(done)
    }

    // Collection

    #[inline]
    fn is_gathering_due(&self) -> bool {
        self.may_gather && self.groups.is_any_due()
    }

    fn gather<N: Nand>(&mut self, flash: &mut Flash<N>) -> Option<Gathering> {
        let valid = flash.valid_pages() as f64 / flash.space.usable_pages() as f64;
        if valid > self.crowded {
            self.groups.none_due();
            return None;
        }
        self.next_part(flash, Cause::Collection, |this| {
            this.groups.take_due(|group| this.models.trained_in(group))
        })
    }

    /// The next group in turn, however crowded the device is: its pages have to be written anyway, and in the order of their LPNs
    /// they are learned.
    fn rewrite<N: Nand>(&mut self, flash: &mut Flash<N>) -> Option<Gathering> {
        if !self.may_gather {
            return None;
        }
        self.next_part(flash, Cause::Rewrite, |this| this.groups.next_to_rewrite())
    }

    fn gathered(&mut self) {
        self.groups.part_collected();
    }

    /// The mappings change as in TPFTL; then the models learn where the pages are now.
    fn moved<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        vtpn: Vtpn,
        moves: &[Moved],
    ) -> Result<Done, Fault> {
        self.learn_run(table);
        moves.iter().for_each(|moved| self.forget(moved.lpn));
        let done = self.cached.moved(flash, table, vtpn, moves)?;
        if !self.techniques.collection {
            return Ok(done);
        }
        let mut sorted = std::mem::take(&mut self.sorted);
        sorted.clear();
        sorted.extend(moves.iter().map(|moved| (moved.lpn, moved.to)));
        sorted.sort_unstable();
        let trained = self.train(sorted.iter().copied());
        self.sorted = sorted;
        let ns = self.train_ns(trained);
        let copied = moves.iter().fold(Done::READY, |done, moved| flash.join(done, moved.done));
        let trained = flash.compute(ns, copied);
        Ok(flash.join(done, trained))
    }

    // Checkpoint and checks

    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table) -> Result<Option<Done>, Fault> {
        self.cached.clean_one(flash, table)
    }

    #[inline]
    fn held(&self, table: &Table, lpn: Lpn) -> Option<Option<Ppn>> {
        self.cached.held(table, lpn)
    }

    fn cached(&self, table: &Table, each: &mut dyn FnMut(CachedPage)) {
        self.cached.cached(table, each);
    }

    fn memory(&self, table: &Table) -> Memory {
        let mut memory = self.cached.memory(table);
        memory.parts.push(("models", self.models.bytes()));
        memory.parts.push(("groups", self.groups.bytes()));
        memory
    }

    fn check(&self, table: &Table) -> Result<(), String> {
        self.cached.check(table)?;
        self.models.check()?;
        self.groups.check()
    }

    fn check_lpn(&self, lpn: Lpn, ppn: Option<Ppn>) -> Result<(), String> {
        match self.models.predict(lpn) {
            Some(predicted) if Some(predicted) != ppn => Err(format!(
                "the bit of LPN {} is set and its model says PPN {}, but it is at {ppn:?}",
                lpn.0, predicted.0
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
