//! What the world drives: a scheme, its description, and the configuration it starts from.

use crate::breach::Breach;
use crate::counters::Stat;
use crate::flash::Flash;
use nand::{Done, Fault, Lpn, Nand, Oob, Ppn, Vtpn};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A parameter of a scheme, as `ftl schemes` prints it.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its key in [`Config::parameters`].
    pub name: &'static str,
    /// Its value when it is not given.
    pub default: &'static str,
    /// What it means, with its unit.
    pub what: &'static str,
}

/// What a scheme says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// The name users type.
    pub name: &'static str,
    /// One line on what it does.
    pub what: &'static str,
    /// Where it is described.
    pub paper: &'static str,
    /// What can be set.
    pub parameters: &'static [Parameter],
    /// What it counts beside what is counted of every scheme ([`Counters::count`](crate::Counters::count)).
    pub stats: &'static [Stat],
}

/// Another name for a scheme with some of its parameters set.
#[derive(Clone, Copy, Debug)]
pub struct Alias {
    /// The name, and what it means. The parameters are the scheme's.
    pub info: Info,
    /// Parameters that the name sets, as (parameter, value).
    pub parameters: &'static [(&'static str, &'static str)],
}

/// How victims of collection are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VictimPolicy {
    /// The superblock with the fewest valid pages; the oldest among equals.
    #[default]
    Greedy,
    /// The greatest (1 - u) / 2u x age (Rosenblum and Ousterhout), age counted in superblocks opened since.
    /// While a write waits for room the choice is greedy.
    CostBenefit,
}

/// What a scheme starts from. The same for every scheme that is compared.
#[derive(Clone, Debug)]
pub struct Config {
    /// Pages the host sees.
    pub exported_pages: u32,
    /// Memory for mapping structures, bytes: directory, caches, models and all.
    pub cache_bytes: u64,
    /// With this many free superblocks or fewer, a write waits for a collection to end.
    pub foreground_superblocks: u32,
    /// With this many free superblocks or fewer, writes carry collection along, page by page.
    pub background_superblocks: u32,
    /// Collection begins only when a write waits for it: neither beside writes nor in idle time.
    pub foreground_only: bool,
    /// How victims are chosen.
    pub victims: VictimPolicy,
    /// Static wear levelling: cold data is moved off a block that was not erased while the others were this
    /// many times each, in the mean, so that it is used again. 0: never.
    pub wear_gap: u32,
    /// Parameters of the scheme by name; an unknown one is an error.
    pub parameters: BTreeMap<String, String>,
}

impl Config {
    /// Free superblocks below which a write waits, unless told otherwise: one for the copies of a victim, one
    /// for its mapping updates, one for the mapping updates that host requests cause meanwhile.
    pub const FOREGROUND: u32 = 3;
    /// Free superblocks at which collection starts, unless told otherwise.
    pub const BACKGROUND: u32 = 4;

    /// A configuration with default thresholds and parameters.
    pub fn new(exported_pages: u32, cache_bytes: u64) -> Config {
        Config {
            exported_pages,
            cache_bytes,
            foreground_superblocks: Config::FOREGROUND,
            background_superblocks: Config::BACKGROUND,
            foreground_only: false,
            victims: VictimPolicy::Greedy,
            wear_gap: 0,
            parameters: BTreeMap::new(),
        }
    }

    /// The value of parameter `name` of the scheme `info`: as given, else its default.
    pub fn parameter(&self, info: &Info, name: &'static str) -> String {
        let default = info.parameters.iter().find(|p| p.name == name).map_or("", |p| p.default);
        self.parameters.get(name).cloned().unwrap_or_else(|| default.to_owned())
    }

    /// The value of a numeric parameter, which lies within `range`. A fraction is refused where `T` has none.
    pub fn number<T: FromStr + PartialOrd + Display>(
        &self,
        info: &Info,
        name: &'static str,
        range: RangeInclusive<T>,
    ) -> Result<T, ConfigError> {
        let given = self.parameter(info, name);
        given.parse().ok().filter(|value| range.contains(value)).ok_or_else(|| {
            let number = if "0.5".parse::<T>().is_ok() { "number" } else { "whole number" };
            ConfigError(format!(
                "scheme {}: {name} = '{given}'; a {number} from {} to {} is needed",
                info.name,
                range.start(),
                range.end()
            ))
        })
    }

    /// Refuses parameters that `info` does not know.
    pub fn check_parameters(&self, info: &Info) -> Result<(), ConfigError> {
        for name in self.parameters.keys() {
            if !info.parameters.iter().any(|p| p.name == name) {
                let known: Vec<_> = info.parameters.iter().map(|p| p.name).collect();
                let known = if known.is_empty() { "it has none".to_owned() } else { known.join(", ") };
                return Err(ConfigError(format!(
                    "scheme {}: no parameter '{name}'; its parameters: {known}",
                    info.name
                )));
            }
        }
        Ok(())
    }
}

/// A configuration that cannot work, as one sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// Why a scheme could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration does not fit the array.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The array failed in a way that recovery cannot survive.
    #[error("recovery failed: {0}")]
    Fault(Fault),
}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> OpenError {
        OpenError::Fault(fault)
    }
}

/// Bytes of mapping memory that a scheme holds, by structure, as a firmware would pack them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// `(structure, bytes in use now)`.
    pub parts: Vec<(&'static str, u64)>,
}

impl Memory {
    /// The sum over all structures.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|&(_, bytes)| bytes).sum()
    }
}

/// What the host will ask for a page, for [`Scheme::expect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coming {
    /// Anything, some hundred requests later.
    Later,
    /// To read it, some dozen requests later.
    Read,
    /// To write or trim it, some dozen requests later.
    Write,
}

/// A translation page of which something is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedPage {
    /// VTPN of the translation page.
    pub vtpn: Vtpn,
    /// Its entries in memory.
    pub entries: u32,
    /// Of these, newer than on flash.
    pub dirty: u32,
}

/// A flash translation layer, as the simulator, the live device and the checker drive it.
///
/// Page operations take `rest`, the pages of the same host request from this one on (at least 1), and `at`,
/// what the operation waits for. They return the completion that the request waits for.
///
/// After an error the scheme stays usable, and everything written before can be read, unless the fault
/// [is fatal](Fault::is_fatal).
pub trait Scheme: Sized {
    /// Name, paper, parameters.
    const INFO: Info;

    /// Whether writes are acknowledged from a buffer that a power cut empties: then a write survives a cut,
    /// as a trim does, once a later flush has completed.
    const BUFFERS_WRITES: bool = false;

    /// Whether [`Scheme::rewrite`] does anything.
    const REWRITES: bool = false;

    /// Takes over an array: a fresh one, one left by [`Scheme::power_off`], or one whose power was cut.
    /// Rebuilds the mapping from checkpoint, translation pages and OOB, with every flash operation
    /// charged to recovery.
    fn open<N: Nand>(flash: &mut Flash<N>, config: &Config) -> Result<Self, OpenError>;

    /// Reads a page. `None`: never written, or trimmed. Otherwise the OOB of the page that was delivered.
    fn read<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        rest: u32,
        at: Done,
    ) -> Result<(Option<Oob>, Done), Fault>;

    /// Writes a page. The content is newer than all before: its version is [`Flash::version`] after the call.
    /// When the completion is reached, the page survives a power cut (but see
    /// [`Scheme::BUFFERS_WRITES`]).
    fn write<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: Lpn, rest: u32, at: Done) -> Result<Done, Fault>;

    /// Forgets `pages` pages from `first` on. Survives a power cut once a later flush has completed.
    fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        first: Lpn,
        pages: u32,
        at: Done,
    ) -> Result<Done, Fault>;

    /// Completes when everything acknowledged before survives a power cut.
    fn flush<N: Nand>(&mut self, flash: &mut Flash<N>, at: Done) -> Result<Done, Fault>;

    /// Offers a moment in which the host asks for nothing. Returns whether there was something to do (then it
    /// may be called again when that has completed).
    fn idle<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>, Fault>;

    /// Rewrites a page in each parallel unit of what has lain longest, as flash needs that keeps data for
    /// long. The whole array is to be rewritten once in a period, and `due` is the part of it, in pages, for
    /// which the time has come since the last call. `None`: there is nothing to rewrite yet, or no room.
    fn rewrite<N: Nand>(&mut self, _flash: &mut Flash<N>, _due: u32) -> Result<Option<Done>, Fault> {
        Ok(None)
    }

    /// Prepares for an orderly power-off: when the completion is reached, [`Scheme::open`] need not search.
    fn power_off<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done, Fault>;

    /// Makes durable, without looking anything up, what recovery would not find on flash: trims. A device
    /// does so before it recovers while it runs.
    fn save<N: Nand>(&mut self, _flash: &mut Flash<N>) -> Result<(), Fault> {
        Ok(())
    }

    /// Takes over the write buffer of `before`, which was in use until the device recovered.
    fn inherit(&mut self, _before: Self) {}

    /// Calls `each` for every mapped page, in ascending order, with the mapping read from wherever it lies,
    /// free of charge: for invariants and the checker alone.
    fn mapping<N: Nand>(&self, flash: &Flash<N>, each: &mut dyn FnMut(Lpn, Ppn));

    /// Calls `each` with LPN and version for every page whose newest content is in the write buffer alone:
    /// for invariants and the checker. [`Scheme::mapping`] gives the older content on flash, if there is
    /// any.
    fn buffered(&self, _each: &mut dyn FnMut(Lpn, u64)) {}

    /// As [`Scheme::mapping`], for `pages` pages from `first` on: a live device tells from it what is
    /// allocated.
    fn mapped_in<N: Nand>(&self, flash: &Flash<N>, first: Lpn, pages: u32, each: &mut dyn FnMut(Lpn, Ppn)) {
        let end = u64::from(first.0) + u64::from(pages);
        self.mapping(flash, &mut |lpn, ppn| {
            if lpn >= first && u64::from(lpn.0) < end {
                each(lpn, ppn);
            }
        });
    }

    /// Checks the scheme's own structures against each other and the array.
    ///
    /// # Errors
    /// The first breach found.
    fn check<N: Nand>(&self, flash: &Flash<N>) -> Result<(), Breach>;

    /// Mapping memory in use.
    fn memory(&self) -> Memory;

    /// Calls `each` for every translation page of which a demand-cached scheme holds mappings now. For
    /// statistics alone.
    fn cached(&self, _each: &mut dyn FnMut(CachedPage)) {}

    /// Tells the memory hierarchy of this machine that `lpn` will be asked for: some hundred requests before,
    /// then again some dozen requests before, when what the first call brought can be looked at. A matter of
    /// speed alone.
    #[inline]
    fn expect<N: Nand>(&self, _flash: &Flash<N>, _lpn: Lpn, _coming: Coming) {}
}
