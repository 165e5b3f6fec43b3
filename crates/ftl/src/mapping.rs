//! What papers on page-level FTLs differ in: the mapping in memory, and the pages on flash that it is kept
//! in.
//!
//! The engine ([`crate::engine::Ftl`]) drives a [`Mapping`] and its [`Pages`], and counts what they report.
//! Everything else that an FTL does is the engine's.

use crate::breach::Breach;
use crate::counters::Cause;
use crate::flash::Flash;
use crate::recover::Recovery;
use crate::scheme::{CachedPage, Coming, Config, ConfigError, Info, Memory};
use crate::space::Stream;
use nand::{Done, Geometry, Lpn, Nand, Ppn, Result, Vtpn};
use std::ops::Range;

/// LPNs in runs of a power of two, which are trimmed, recovered and checked together: those of a translation
/// page, or a group.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    shift: u32,
    lpns: u32,
}

impl Units {
    /// `lpns` LPNs in units of 2 to the power of `shift`.
    pub fn new(lpns: u32, shift: u32) -> Units {
        Units { shift, lpns }
    }

    /// LPNs of all units.
    pub fn lpns(&self) -> u32 {
        self.lpns
    }

    /// How many units there are.
    pub fn count(&self) -> u32 {
        self.lpns.div_ceil(1 << self.shift)
    }

    /// LPNs of a unit, but for the last one.
    pub fn size(&self) -> u32 {
        1 << self.shift
    }

    /// The unit of an LPN and its place there.
    #[inline]
    pub fn place(&self, lpn: Lpn) -> (Vtpn, u32) {
        (Vtpn(lpn.0 >> self.shift), lpn.0 & ((1 << self.shift) - 1))
    }

    /// The first LPN of a unit.
    #[inline]
    pub fn first_lpn(&self, unit: Vtpn) -> Lpn {
        Lpn(unit.0 << self.shift)
    }

    /// LPNs of a unit; the last one may be cut short by the device's end.
    pub fn lpns_in(&self, unit: Vtpn) -> u32 {
        self.size().min(self.lpns - self.first_lpn(unit).0)
    }
}

/// The mapping as it lies on flash, and the directory in memory that finds it.
pub trait Pages: Clone + std::fmt::Debug + Send + 'static {
    /// What the directory is called where memory is listed.
    const DIRECTORY: &'static str;

    /// A trim is journaled as one record, before it is carried out. Else it is journaled unit by unit, as it
    /// is carried out.
    const ONE_RECORD_A_TRIM: bool;

    /// Nothing is mapped.
    fn new(exported_pages: u32, page_bytes: u32) -> Self;

    /// Takes what the budget can spare beside the mapping's own cache, before the mapping is made.
    fn provide_buffer(&mut self, _info: &Info, _config: &Config) -> Result<(), ConfigError> {
        Ok(())
    }

    /// The LPNs that belong together.
    fn units(&self) -> Units;

    /// Pages on flash, at most.
    fn most_pages(&self) -> u32;

    /// Memory that the directory takes out of the budget.
    fn directory_bytes(&self) -> u64;

    /// Memory beside the mapping's, by structure.
    fn memory(&self) -> Vec<(&'static str, u64)> {
        vec![(Self::DIRECTORY, self.directory_bytes())]
    }

    /// The directory as words of a checkpoint.
    fn words(&self) -> impl ExactSizeIterator<Item = u32> + '_;

    /// The pages on flash that the directory leads to.
    fn directory(&self) -> impl Iterator<Item = Ppn> + '_;

    /// Moves a page out of a superblock that is collected. Completes when the copy is programmed.
    fn relocate<N: Nand>(&mut self, flash: &mut Flash<N>, from: Ppn, at: Done) -> Result<Done>;

    /// Makes room for pages at recovery, without moving user data, whose mapping is not settled yet.
    fn make_room<N: Nand>(&mut self, flash: &mut Flash<N>, at: Done) -> Result<Done> {
        let mut done = at;
        while flash.free_superblocks() < 2 {
            let Some(victim) = flash.space.fewest_valid_without_data() else { break };
            let has_room = flash.free_superblocks() > 0
                || flash.space.left(Stream::TRANSLATION) >= flash.space.valid_in(victim);
            if !has_room {
                break;
            }
            flash.space.collect(victim);
            let (mut from, end) = flash.space.pages_of(victim);
            while let Some(ppn) = flash.space.next_valid(from, end) {
                done = self.relocate(flash, ppn, done)?;
                from = Ppn(ppn.0 + 1);
            }
            done = flash.erase(victim, Cause::Recovery, done)?;
        }
        Ok(done)
    }

    /// Rebuilds the directory from what a recovery found, and marks its pages valid.
    fn restore<N: Nand>(&mut self, recovery: &mut Recovery<'_, N>) -> Result<()>;

    /// Reads the page of a unit, if it has one.
    fn read_unit<N: Nand>(&self, flash: &mut Flash<N>, unit: Vtpn, at: Done) -> Result<Done>;

    /// Reads the page of a unit free of charge: for invariants and the checker alone.
    fn inspect<N: Nand>(&self, flash: &Flash<N>, unit: Vtpn, content: &mut Vec<u8>);

    /// Checks the directory against the pages; one sentence for the first breach.
    fn check<N: Nand>(&self, flash: &Flash<N>) -> Result<(), Breach>;
}

/// A unit as it is on flash, read free of charge.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a, N, P> {
    /// The door to the array, for looking only.
    pub flash: &'a Flash<N>,
    /// The mapping on flash.
    pub pages: &'a P,
    /// VTPN of the unit.
    pub unit: Vtpn,
    /// The content of its page.
    pub content: &'a [u8],
}

/// How a mapping found out where an LPN is. The engine counts by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A mapping of its own was in memory, or none was needed.
    CachedEntry,
    /// The whole translation page was in memory.
    CachedPage,
    /// A model in memory predicted it.
    Predicted,
    /// It had to be loaded from flash, or will be, or was known without that to be mapped nowhere.
    Loaded,
}

/// What a lookup asks for.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Where this LPN is.
    pub lpn: Lpn,
    /// The pages of the same request from this one on, at least 1.
    pub rest: u32,
    /// What the lookup waits for.
    pub at: Done,
}

/// What an update changes.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Where this LPN is.
    pub lpn: Lpn,
    /// The pages of the same request from this one on, at least 1.
    pub rest: u32,
    /// Where it is from now on; `None` for nowhere.
    pub ppn: Option<Ppn>,
    /// The completion of the page's program: no mapping may reach flash before it.
    pub programmed: Done,
    /// What the update waits for.
    pub at: Done,
}

/// Where an LPN is, or was.
#[derive(Clone, Copy, Debug)]
pub struct Lookup {
    /// The page; `None` when the LPN is mapped nowhere.
    pub ppn: Option<Ppn>,
    /// When that is known.
    pub done: Done,
    /// How it was found out.
    pub how: How,
    /// The page is the LPN's. Else it is near that one, and read to find out
    /// ([`crate::engine::Predict::corrected`]).
    pub exact: bool,
}

impl Lookup {
    /// The LPN is at `ppn` exactly, or nowhere.
    #[inline]
    pub fn new(ppn: Option<Ppn>, done: Done, how: How) -> Lookup {
        Lookup { ppn, done, how, exact: true }
    }
}

/// A page that collection has copied.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// Whose data it holds.
    pub lpn: Lpn,
    /// The LPN's place in its unit.
    pub slot: u32,
    /// PPN of the original.
    pub from: Ppn,
    /// Where the copy is.
    pub to: Ppn,
    /// When the copy is programmed.
    pub done: Done,
}

/// How LPNs are turned into PPNs with a memory of `Config::cache_bytes`.
///
/// The mapping keeps the truth: what it holds in memory goes before what its [`Pages`] hold on flash.
pub trait Mapping: Sized + Clone + Send + 'static {
    /// Where it lies on flash.
    type Pages: Pages;

    /// Name, paper, parameters.
    const INFO: Info;

    /// Gives the empty pages the shape that the mapping needs, where the usual one is not it.
    fn shape(_pages: &mut Self::Pages, _geometry: &Geometry, _config: &Config) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Nothing is in memory. The memory in use will stay within `config.cache_bytes`, that of the pages
    /// ([`Pages::memory`]) included.
    fn new<N: Nand>(flash: &mut Flash<N>, pages: &Self::Pages, config: &Config) -> Result<Self, ConfigError>;

    /// Takes over what a recovery found, which is newer than flash in part, and marks valid what is mapped.
    fn restore<N: Nand>(&mut self, recovery: &mut Recovery<'_, N>, pages: &mut Self::Pages) -> Result<()> {
        pages.restore(recovery)
    }

    /// What was learned and is worth keeping over an orderly power-off ([`Recovery::learned`]); `None` for
    /// nothing.
    fn learned(&self) -> Option<Vec<u8>> {
        None
    }

    /// Where an LPN is.
    fn lookup<N: Nand>(&mut self, flash: &mut Flash<N>, pages: &mut Self::Pages, ask: Ask) -> Result<Lookup>;

    /// Unmaps the LPNs at `slots` of a unit, and invalidates their pages.
    fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        pages: &mut Self::Pages,
        unit: Vtpn,
        slots: Range<u32>,
        at: Done,
    ) -> Result<Done>;

    /// Writes one page for which memory holds newer mappings; `None` when there is no such page left.
    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>, pages: &mut Self::Pages) -> Result<Option<Done>>;

    /// Uses a moment in which the host asks for nothing and nothing is collected, so that later requests wait
    /// less. There is room for a page operation. Completes when what was done is; `None`: there was nothing.
    fn tidy<N: Nand>(&mut self, _flash: &mut Flash<N>, _pages: &mut Self::Pages) -> Result<Option<Done>> {
        Ok(None)
    }

    /// As [`crate::Scheme::expect`].
    #[inline]
    fn expect<N: Nand>(&self, _flash: &Flash<N>, _pages: &Self::Pages, _lpn: Lpn, _coming: Coming) {}

    /// Sets `entries` to where the LPNs of a unit are, one entry each ([`crate::table::entry`]), by what
    /// memory and flash say. Free of charge: for invariants and the checker alone.
    fn entries<N: Nand>(&self, of: Unit<'_, N, Self::Pages>, entries: &mut Vec<u32>);

    /// Calls `each` for every page that is superseded but not invalidated yet, because the mapping did not
    /// look where it was.
    fn owed<N: Nand>(&self, _flash: &Flash<N>, _pages: &Self::Pages, _each: &mut dyn FnMut(Lpn, Ppn)) {}

    /// Calls `each` for every translation page of which mappings are in memory. A mapping that does not cache
    /// on demand has nothing to tell.
    fn cached(&self, _pages: &Self::Pages, _each: &mut dyn FnMut(CachedPage)) {}

    /// Bytes in use by structure, without those of the pages ([`Pages::memory`]).
    fn memory(&self, pages: &Self::Pages) -> Memory;

    /// Checks the structures against each other and against flash.
    fn check<N: Nand>(&self, flash: &Flash<N>, pages: &Self::Pages) -> Result<(), Breach>;
}

/// A mapping that is told of each page when it is programmed. (One that programs pages in an order of its
/// own, to learn from it, has no use for that.)
pub trait Update: Mapping {
    /// Pages of one unit up to which a trim goes through [`Update::update`], page by page, as a write does. A
    /// longer one changes the translation page itself ([`Mapping::trim`]): loading each entry would read
    /// the same page many times.
    const TRIM_BY_ENTRY: u32 = 8;

    /// Sets where an LPN is and returns where it was; completes when the change is made.
    fn update<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        pages: &mut Self::Pages,
        to: Change,
    ) -> Result<Lookup>;

    /// Whether the page at `ppn`, which counts as valid and which collection has read, holds an older version
    /// of `lpn`. Then it is invalidated, and owed no more ([`Mapping::owed`]).
    #[inline]
    fn supersedes<N: Nand>(&mut self, _flash: &mut Flash<N>, _lpn: Lpn, _ppn: Ppn) -> bool {
        false
    }

    /// Sets where the pages `moves`, one or more and all of one unit, are now. Completes when the change is
    /// as durable as the mapping makes it; the originals are erased after that.
    fn moved<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        pages: &mut Self::Pages,
        moves: &[Moved],
    ) -> Result<Done>;
}
