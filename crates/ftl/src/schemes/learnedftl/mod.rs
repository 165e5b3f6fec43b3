//! LearnedFTL: Wang, Lin, Wu, Jiang, Zhang, Mao, "LearnedFTL: A Learning-based Page-level FTL for Reducing
//! Double Reads in Flash-based SSDs", HPCA 2024.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | demand cache: TPFTL (III-A) | [`ClusteredTable`] | `schemes::tpftl` |
//! | in-place-update linear model, bitmap filter (III-B) | [`Models`] | `models` |
//! | virtual PPN (III-C) | the PPN: [`nand::Geometry`] numbers pages in the order of allocation | `nand::addr` |
//! | group-based and opportunistic cross-group allocation (III-D) | [`groups::Groups`] | `groups` |
//! | sequential initialization (III-E1) | [`LearnedTable::initialize`] | here |
//! | model training via GC (III-E2) | `Gathering`, [`LearnedTable::train`] | `engine::placement`, here |
//! | model training via rewrite (III-E3) | `Placement::rewrite` | here |
//! | when a group is collected (III-D) | [`Benefit`] | `benefit` |
//! | bitmap cleared on a write | [`LearnedTable::forget`] | here |
//!
//! What the paper leaves open, and what we chose:
//! - **Two kinds of collection.** The paper collects whole groups for room: all valid pages of a group move.
//!   That costs a group's pages for what was overwritten of them, 1/f page writes for each page of the host
//!   when a group is collected after a share f of it was overwritten, where the collection of the emptiest
//!   superblock costs less. So room is made superblock by superblock as in the other schemes, and a group is
//!   *gathered* for its models alone.
//! - **Benefit decides when.** A group is gathered when that saves more double reads than it costs in die
//!   time: see `benefit`. Where nothing is read, nothing is gathered. A group goes part by part, a few pages
//!   for each page of the host, and no write waits for a whole group.
//! - **The paper's way** is there, too: with `allocation=group` groups have blocks of their own and are
//!   collected whole, see `own_blocks`.
//! - **Cross-group allocation**: see `groups`. The paper's threshold of encroachment is not needed: a group
//!   that wrote to others' superblocks is gathered when it gains by that, like any.
//! - **Rewriting**, as flash needs that keeps data for long, takes the groups in turn, whatever they gain:
//!   their pages are written in the order of their LPNs, and learned. The world says how often (`ftl
//!   compare --rewrite`).
//! - **Order.** A group's pages are read and written in the order of its LPNs, which its translation pages
//!   tell (read for that, cause `training`). The pages of a superblock are copied in the order in which they
//!   lie: runs stay runs, and the controller has no list of a superblock's LPNs to sort by. Both train the
//!   models with what moved.
//! - **Sequential initialization** takes any run of consecutive LPNs on consecutive pages from
//!   [`LEAST_POINTS`] pages on, when its request ends. A short request continues what was written before it,
//!   where the CMT knows that; so many streams of 4 KiB are learned beside each other.
//! - **Memory.** Models and the CMT share one budget. A model that predicts fewer LPNs than the CMT would
//!   hold in its bytes (19) is given up, and the CMT grows by it until the entry is learned again.
//! - **A host write** whose old page the model knows loads no translation page to invalidate it.
//! - Predictions and trainings of no use to anybody are not charged: `predict_ns` for each prediction
//!   followed, `train_ns` for a full GTD entry, less in proportion for fewer points. Further pages of a
//!   request that the same piece predicts take a step each ([`Predictions`]). The paper's 50 us are for
//!   greedy regression. The better fit takes 1.7 times as long on one machine, so 85 us are charged.
//! - An orderly power-off writes the models beside the checkpoint of the directory. After power loss they are
//!   trained again from the translation pages, which recovery reads anyway, with what it found newer; the
//!   time is charged.

pub mod allocation;
pub mod benefit;
mod fit;
pub mod groups;
pub mod models;
pub mod own_blocks;

use crate::breach::Breach;
use crate::cmt::two_level::ENTRY_BYTES;
use crate::engine::{Ftl, Predict};
use crate::flash::Flash;
use crate::mapping::{Ask, Change, How, Lookup, Mapping, Moved, Pages, Unit, Update};
use crate::prediction::Predictions;
use crate::recover::Recovery;
use crate::scheme::{Alias, CachedPage, Coming, Config, ConfigError, Info, Memory, Parameter};
use crate::schemes::tpftl::ClusteredTable;
use crate::table::{mapped, Table, PROGRAM_BUFFER};
use allocation::Allocation;
use benefit::{Benefit, Emptied};
use models::{Format, Models, Point, ENTRY_LPNS, LEAST_POINTS};
use nand::{Done, Lpn, Nand, Ppn, Result, Vtpn};
use own_blocks::Blocks;
use std::ops::Range;

/// GTD entries of a group (III-D), and the groups that a device has at least.
const GROUP_ENTRIES: u32 = 64;
const LEAST_GROUPS: u32 = 16;

/// LearnedFTL: the engine with linear models beside a demand cache.
pub type LearnedFtl = Ftl<LearnedTable, Allocation, Guesses>;

/// LearnedFTL whose predictions take no time: what the paper calls ideal.
pub const IDEAL: Alias = Alias {
    info: Info {
        name: "learnedftl-ideal",
        what: "LearnedFTL whose predictions take no time",
        ..<LearnedTable as Mapping>::INFO
    },
    parameters: &[("predict_ns", "0")],
};

/// Which of the paper's techniques are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Techniques {
    /// Models learn from sequential writes (III-E1), letter `i`.
    pub initialization: bool,
    /// Training in collection, and the collection of groups for it.
    pub collection: bool,
    /// A group may write to another group's blocks (III-D), letter `x`.
    pub cross_group: bool,
    /// A bitmap says which predictions are right (III-B), letter `b`.
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

/// The thresholds of groups that have blocks of their own.
#[derive(Clone, Copy, Debug)]
struct OwnBlocksAt {
    /// Superblocks of a group at which it is collected, as a multiple of what its pages fill.
    blocks: u32,
    /// Pages in others' blocks at which it is collected, as a share of its pages.
    encroachment: f64,
}

/// Consecutive LPNs of a request that went to consecutive pages, up to the last page written, and that no
/// model has seen.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: Lpn,
    ppn: Ppn,
    pages: u32,
}

/// A demand cache with models beside the directory.
#[derive(Clone, Debug)]
pub struct LearnedTable {
    cached: ClusteredTable,
    models: Models,
    /// Bytes that the cache and the models share.
    shared_bytes: u64,
    /// Bytes beside them, for the models that one change makes.
    made_at_once: u64,
    /// LPNs that a model must predict to keep its bytes: as many as the cache would hold in them.
    least_predicted: u32,
    techniques: Techniques,
    /// Mapped LPNs by group.
    mapped: Vec<u32>,
    group_lpns: u32,
    /// What is known of the double reads of groups.
    benefit: Benefit,
    /// Groups have blocks of their own.
    own: Option<OwnBlocksAt>,
    /// What recovery finds in them, for the placement.
    blocks: Option<Blocks>,
    run: Run,
    predictions: Predictions<Option<usize>>,
    /// For a full GTD entry.
    train_ns: u64,
    /// Points trained by recovery, whose time is not charged yet.
    uncharged: u64,
    points: Vec<Point>,
    /// Moves in ascending order.
    sorted: Vec<(Lpn, Ppn)>,
}

impl LearnedTable {
    /// The translation page of `lpn` was read for a read or a write of the host.
    #[inline]
    fn read_twice<N: Nand>(&mut self, flash: &Flash<N>, lpn: Lpn) {
        if self.own.is_some() {
            return;
        }
        let group = lpn.0 / self.group_lpns;
        if self.benefit.read_twice(group) {
            let (valid, capacity) = flash.space.emptied();
            self.benefit.consider(group, self.mapped[group as usize], Emptied { valid, capacity });
        }
    }

    /// A lookup for a read or a write of the host was predicted.
    #[inline]
    fn predicted(&mut self, lpn: Lpn) {
        if self.own.is_none() {
            self.benefit.predicted(lpn.0 / self.group_lpns);
        }
    }

    /// `pages` LPNs of the group of `lpn` are not mapped any more.
    fn unmapped(&mut self, lpn: Lpn, pages: u32) {
        let mapped = &mut self.mapped[(lpn.0 / self.group_lpns) as usize];
        *mapped = mapped.saturating_sub(pages);
    }

    /// Where `lpn` is, if memory says so.
    fn held(&self, lpn: Lpn) -> Option<Option<Ppn>> {
        self.cached.held(lpn)
    }

    /// What the model knows of `lpn`.
    #[inline]
    fn predict<N: Nand>(&mut self, flash: &mut Flash<N>, ask: Ask) -> Option<(Ppn, Done)> {
        if !self.techniques.bitmap {
            return None;
        }
        let ppn = self.models.predict(ask.lpn)?;
        Some((ppn, self.predicted_at(flash, ask)))
    }

    /// When the controller has evaluated the model of the LPN asked for.
    #[inline]
    fn predicted_at<N: Nand>(&mut self, flash: &mut Flash<N>, ask: Ask) -> Done {
        let ns = self.predictions.ns(self.models.piece_of(ask.lpn), ask);
        flash.compute(ns, ask.at)
    }

    /// The page of `lpn` is another now: its bit is cleared before anything else can happen.
    #[inline]
    fn forget(&mut self, lpn: Lpn) {
        if self.models.clear(lpn) {
            self.models.give_back(self.models.place(lpn).0, self.least_predicted);
        }
    }

    /// The cache takes what the models leave. A change makes models after that, for which bytes are left.
    #[inline]
    fn share<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, at: Done) -> Result<Done> {
        self.cached.resize(flash, table, self.shared_bytes - self.models.bytes(), at)
    }

    /// Sequential initialization (III-E1): a run of pages, written in order, is a model y = x + b. `rest`
    /// pages of the request, with this one, are to come: the run is learned when the request ends, or the
    /// run or its GTD entry does.
    #[inline]
    fn initialize(&mut self, lpn: Lpn, ppn: Ppn, rest: u32) {
        if lpn.0 == self.run.first.0 + self.run.pages && ppn.0 == self.run.ppn.0 + self.run.pages {
            self.run.pages += 1;
        } else {
            self.learn_run();
            self.run = Run { first: lpn, ppn, pages: 1 };
        }
        if rest == 1 || self.models.place(lpn).1 + 1 == self.models.entry_lpns() {
            self.learn_run();
        }
    }

    /// Learns the run. A short one may continue what was written before: the CMT tells.
    fn learn_run(&mut self) {
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
        let continues = |back: &u32| self.held(Lpn(first.0 - back)) == Some(Some(Ppn(ppn.0 - back)));
        let back = (1..=most).take_while(continues).count() as u32;
        self.points.clear();
        self.points.extend((0..back + pages).map(|at| Point { x: x - back + at, y: ppn.0 - back + at }));
        (0..back + pages).for_each(|at| {
            self.models.clear(Lpn(first.0 - back + at));
        });
        self.models.learn(entry, &self.points);
    }

    /// Trains on LPNs that are now where they are, and whose old pages are forgotten: those of one GTD entry
    /// after the other, in ascending order. Returns how many.
    fn train(&mut self, mappings: impl Iterator<Item = (Lpn, Ppn)>) -> u64 {
        let mut count = 0;
        let mut current = 0;
        self.points.clear();
        for (lpn, ppn) in mappings {
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

    /// Charges what recovery trained to the controller.
    fn charge_training<N: Nand>(&mut self, flash: &mut Flash<N>) {
        let points = std::mem::take(&mut self.uncharged);
        flash.compute(self.train_ns(points), Done::READY);
    }

    fn train_ns(&self, points: u64) -> u64 {
        self.train_ns * points / u64::from(self.models.entry_lpns())
    }
}

/// An error about what a parameter was given, and what it takes.
fn wrong(name: &str, given: &str, needed: &str) -> ConfigError {
    ConfigError(format!("scheme {}: {name} = '{given}'; {needed}", LearnedTable::INFO.name))
}

fn techniques_of(config: &Config) -> Result<Techniques, ConfigError> {
    let letters = config.parameter(&LearnedTable::INFO, "techniques");
    Techniques::parse(&letters)
        .ok_or_else(|| wrong("techniques", &letters, "letters of 'igxb', or '-', are needed"))
}

fn format_of(config: &Config) -> Result<Format, ConfigError> {
    match config.parameter(&LearnedTable::INFO, "format").as_str() {
        "exact" => Ok(Format::Exact),
        "float16" => Ok(Format::Float16),
        other => Err(wrong("format", other, "exact or float16 is needed")),
    }
}

fn own_blocks_at(config: &Config) -> Result<Option<OwnBlocksAt>, ConfigError> {
    let info = &LearnedTable::INFO;
    let blocks = config.number(info, "blocks", 2..=1_000)?;
    let encroachment = config.number(info, "encroachment", 0.001..=1_000.0)?;
    match config.parameter(info, "allocation").as_str() {
        "shared" => Ok(None),
        "group" => Ok(Some(OwnBlocksAt { blocks, encroachment })),
        other => Err(wrong("allocation", other, "shared or group is needed")),
    }
}

impl Mapping for LearnedTable {
    type Pages = Table;

    const INFO: Info = Info {
        name: "learnedftl",
        what: "demand cache with in-place-updated linear models, group-based allocation, training in collection",
        paper: "Wang et al.: LearnedFTL: A Learning-based Page-level FTL for Reducing Double Reads, HPCA 2024",
        stats: &[],
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
                name: "price",
                default: "6",
                what: "double reads that a page must save to be moved for its model: die time of a move over a read's",
            },
            Parameter {
                name: "train_ns",
                default: "85000",
                what: "controller time to sort and train a full GTD entry",
            },
            Parameter { name: "predict_ns", default: "650", what: "controller time of a prediction" },
            Parameter {
                name: "allocation",
                default: "shared",
                what: "shared (superblocks, emptied one by one) or group (groups have blocks of their own and are \
                       collected whole, as in the paper)",
            },
            Parameter {
                name: "blocks",
                default: "5",
                what: "with allocation=group: blocks of a group at which it is collected, as a multiple of its size",
            },
            Parameter {
                name: "encroachment",
                default: "5",
                what: "with allocation=group: pages in others' blocks at which a group is collected, as a share of its own",
            },
            PROGRAM_BUFFER,
        ],
    };

    fn new<N: Nand>(flash: &mut Flash<N>, table: &Table, config: &Config) -> Result<Self, ConfigError> {
        let geometry = flash.nand().geometry().clone();
        let info = &Self::INFO;
        let (techniques, format) = (techniques_of(config)?, format_of(config)?);
        let own = own_blocks_at(config)?;
        let pieces = config.number(info, "pieces", 1..=64)?;
        let price = config.number(info, "price", 0.01..=1e6)?;
        let entry_lpns = ENTRY_LPNS.min(table.entries_per_page());
        let entries = table.exported_pages().div_ceil(entry_lpns);
        let in_superblock = geometry.superblock_pages() / entry_lpns;
        let in_group = if own.is_some() { 1 } else { GROUP_ENTRIES.min(entries / LEAST_GROUPS) };
        let entries_per_group = in_group.max(in_superblock).max(1);
        let models = Models::new(table.exported_pages(), entry_lpns, pieces, format, geometry.pages());
        let groups = entries.div_ceil(entries_per_group);
        let superblocks = geometry.superblocks();
        let beside = match own {
            None => groups::most_bytes(groups, techniques.cross_group),
            Some(_) => own_blocks::most_bytes(groups, superblocks),
        };
        // At most those of a translation page, and one of the run before.
        let made_at_once = u64::from(table.entries_per_page() / entry_lpns + 1) * models.entry_bytes();
        let needed = beside + models.most_bytes() + made_at_once + ClusteredTable::LEAST_BYTES;
        let cache_bytes = table.cache_bytes(info.name, config, needed).map_err(|ConfigError(what)| {
            let of_models = models.most_bytes();
            ConfigError(format!(
                "{what}, of which models take {of_models} ({} for each GTD entry)",
                of_models / u64::from(entries)
            ))
        })? - beside
            - made_at_once;
        let of_cache = Config {
            cache_bytes: cache_bytes - models.bytes() + table.memory_bytes(),
            parameters: Default::default(),
            ..config.clone()
        };
        let cached = ClusteredTable::new(flash, table, &of_cache)?;
        Ok(LearnedTable {
            cached,
            shared_bytes: cache_bytes,
            made_at_once,
            least_predicted: (models.entry_bytes() / ENTRY_BYTES) as u32,
            models,
            techniques,
            mapped: vec![0; groups as usize],
            group_lpns: entries_per_group * entry_lpns,
            benefit: Benefit::new(if own.is_some() { 0 } else { groups }, price),
            own,
            blocks: own.map(|_| Blocks::new(superblocks, groups)),
            run: Run { first: Lpn(0), ppn: Ppn(0), pages: 0 },
            predictions: Predictions::new(config.number(info, "predict_ns", 0..=1_000_000_000)?),
            train_ns: config.number(info, "train_ns", 0..=1_000_000_000)?,
            uncharged: 0,
            points: Vec::with_capacity(ENTRY_LPNS as usize),
            sorted: Vec::with_capacity(geometry.superblock_pages().max(table.entries_per_page()) as usize),
        })
    }

    fn learned(&self) -> Option<Vec<u8>> {
        Some(self.models.to_bytes())
    }

    fn restore<N: Nand>(&mut self, recovery: &mut Recovery<'_, N>, table: &mut Table) -> Result<()> {
        let geometry = recovery.flash.nand().geometry().clone();
        let superblock_of = |ppn| geometry.superblock_of(ppn);
        let is_relearned = recovery.learned().is_some_and(|learned| self.models.restore(&learned));
        table.restore_beside(recovery, |table, vtpn, entries, _| {
            let first = table.first_lpn(vtpn);
            let mapped = || (first.0..).map(Lpn).zip(entries).filter_map(|(lpn, &e)| Some((lpn, mapped(e)?)));
            for (lpn, ppn) in mapped() {
                let group = lpn.0 / self.group_lpns;
                self.mapped[group as usize] += 1;
                if let Some(blocks) = &mut self.blocks {
                    blocks.found(superblock_of(ppn), group);
                }
            }
            if !is_relearned {
                self.uncharged += self.train(mapped());
            }
            false
        })?;
        self.share(recovery.flash, table, Done::READY).map(|_| ())
    }

    // Lookups

    #[inline]
    fn lookup<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, ask: Ask) -> Result<Lookup> {
        let Ask { lpn, rest, at } = ask;
        if let Some((ppn, known)) = self.cached.find(lpn) {
            return Ok(Lookup::new(ppn, flash.join(at, known), How::CachedEntry));
        }
        if let Some((ppn, known)) = self.predict(flash, ask) {
            self.predicted(lpn);
            return Ok(Lookup::new(Some(ppn), known, How::Predicted));
        }
        let (ppn, known) = self.cached.load(flash, table, lpn, rest, at)?;
        let ppn = mapped(ppn);
        if ppn.is_some() {
            self.read_twice(flash, lpn);
        }
        Ok(Lookup::new(ppn, known, How::Loaded))
    }

    #[inline]
    fn expect<N: Nand>(&self, flash: &Flash<N>, table: &Table, lpn: Lpn, coming: Coming) {
        self.cached.expect(flash, table, lpn, coming);
        self.models.expect(lpn);
    }

    fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        vtpn: Vtpn,
        slots: Range<u32>,
        at: Done,
    ) -> Result<Done> {
        self.run.pages = 0;
        let first = table.first_lpn(vtpn).0;
        let (mut lpn, end) = (first + slots.start, first + slots.end);
        let mut done = at;
        while lpn < end {
            let next = end.min((lpn / self.group_lpns + 1) * self.group_lpns);
            (lpn..next).for_each(|lpn| self.forget(Lpn(lpn)));
            let before = flash.valid_pages();
            let trimmed = self.cached.trim(flash, table, vtpn, lpn - first..next - first, at);
            self.unmapped(Lpn(lpn), (before - flash.valid_pages()) as u32);
            done = flash.join(done, trimmed?);
            lpn = next;
        }
        Ok(done)
    }

    // Checkpoint and checks

    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table) -> Result<Option<Done>> {
        self.cached.clean_one(flash, table)
    }

    fn entries<N: Nand>(&self, of: Unit<'_, N, Table>, entries: &mut Vec<u32>) {
        self.cached.entries(of, entries);
    }

    fn cached(&self, table: &Table, each: &mut dyn FnMut(CachedPage)) {
        self.cached.cached(table, each);
    }

    fn memory(&self, table: &Table) -> Memory {
        let mut memory = self.cached.memory(table);
        memory.parts.push(("models", self.models.bytes()));
        memory
    }

    /// A set bit's model says where the LPN is.
    fn check<N: Nand>(&self, flash: &Flash<N>, table: &Table) -> Result<(), Breach> {
        self.cached.check(flash, table)?;
        self.models.check()?;
        self.benefit.check()?;
        let used: u64 = self.memory(table).parts.iter().map(|(_, bytes)| bytes).sum();
        if used > self.shared_bytes + self.made_at_once {
            let (shared, beside) = (self.shared_bytes, self.made_at_once);
            return Err(
                format!("cache and models take {used} bytes, but may take {shared} + {beside}").into()
            );
        }
        let (mut content, mut entries) = (Vec::new(), Vec::new());
        for vtpn in (0..table.pages()).map(Vtpn) {
            table.inspect(flash, vtpn, &mut content);
            self.entries(Unit { flash, pages: table, unit: vtpn, content: &content }, &mut entries);
            for (lpn, &entry) in (table.first_lpn(vtpn).0..).zip(&entries) {
                if let Some(predicted) = self.models.predict(Lpn(lpn)).filter(|ppn| ppn.0 != entry) {
                    return Err(format!(
                        "the bit of LPN {lpn} is set and its model says PPN {}, but it is at {:?}",
                        predicted.0,
                        mapped(entry)
                    )
                    .into());
                }
            }
        }
        Ok(())
    }
}

impl Update for LearnedTable {
    #[inline]
    fn update<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, to: Change) -> Result<Lookup> {
        let Change { lpn, rest, ppn, programmed, at } = to;
        let at = self.share(flash, table, at)?;
        let old = if let Some((old, known)) = self.cached.change(lpn, ppn, programmed) {
            Lookup::new(old, flash.join(at, known), How::CachedEntry)
        } else if let Some((old, known)) = self.predict(flash, Ask { lpn, rest, at }) {
            self.predicted(lpn);
            let placed = self.cached.put(flash, table, lpn, ppn, programmed, at)?;
            Lookup::new(Some(old), flash.join(known, placed), How::Predicted)
        } else {
            let (old, known) = self.cached.load(flash, table, lpn, rest, at)?;
            self.cached.change(lpn, ppn, programmed);
            let old = mapped(old);
            if old.is_some() {
                self.read_twice(flash, lpn);
            }
            Lookup::new(old, known, How::Loaded)
        };
        self.forget(lpn);
        match (old.ppn, ppn) {
            (None, Some(_)) => self.mapped[(lpn.0 / self.group_lpns) as usize] += 1,
            (Some(_), None) => self.unmapped(lpn, 1),
            _ => {}
        }
        match ppn {
            Some(ppn) if self.techniques.initialization => self.initialize(lpn, ppn, rest),
            Some(_) => {}
            None => self.run.pages = 0,
        }
        Ok(old)
    }

    /// The mappings change as in TPFTL; then the models learn where the pages are now.
    fn moved<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, moves: &[Moved]) -> Result<Done> {
        let shared = self.share(flash, table, Done::READY)?;
        self.learn_run();
        moves.iter().for_each(|moved| self.forget(moved.lpn));
        let moved = self.cached.moved(flash, table, moves)?;
        let done = flash.join(shared, moved);
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
}

/// Without the bitmap filter every prediction is tried, if the page is valid at all, and the OOB tells
/// whether it was right: the miss penalty that the filter does away with.
#[derive(Clone, Copy, Debug)]
pub struct Guesses;

impl Predict<LearnedTable> for Guesses {
    #[inline]
    fn guess<N: Nand>(mapping: &mut LearnedTable, flash: &mut Flash<N>, ask: Ask) -> Option<(Ppn, Done)> {
        if mapping.techniques.bitmap || mapping.cached.holds(ask.lpn) {
            return None;
        }
        let is_page = |ppn: &Ppn| ppn.0 < flash.nand().geometry().pages() && flash.space.is_valid_data(*ppn);
        let ppn = mapping.models.guess(ask.lpn).filter(is_page)?;
        Some((ppn, mapping.predicted_at(flash, ask)))
    }
}

#[cfg(test)]
mod tests;
