//! The parts of the engine that most papers leave as they are: where the host's pages go, what collection
//! does with the pages that it takes, and which page is read before its mapping is known.

use super::collector::Grouped;
use crate::breach::Breach;
use crate::counters::Cause;
use crate::flash::{Content, Flash};
use crate::mapping::{Ask, Mapping, Update};
use crate::scheme::{Config, ConfigError, Memory};
use crate::space::Stream;
use nand::{Done, Lpn, Nand, PageKind, Ppn, Result, Source};
use std::ops::Range;

/// What the engine and its collector work on.
#[derive(Clone, Debug)]
pub struct Parts<M: Mapping, P> {
    /// The part of the mapping that is in memory.
    pub mapping: M,
    /// The mapping on flash.
    pub pages: M::Pages,
    /// Where the host's pages go.
    pub placement: P,
}

/// Where the host's pages go, and which pages are brought together when.
pub trait Placement<M: Mapping>: Sized + Clone + Send + 'static {
    /// What collection does with the pages that it takes.
    type Copies: Copies<M, Self>;

    /// The array is taken over: time for streams of the placement's own ([`Flash::space`] says how many
    /// superblocks are to spare).
    fn open<N: Nand>(flash: &mut Flash<N>, mapping: &mut M, config: &Config) -> Result<Self, ConfigError>;

    /// Superblocks that collection keeps free beyond its threshold, for streams of the placement's own.
    fn spare_wanted(&self) -> u32 {
        0
    }

    /// The stream that the host's next version of `lpn`, the first of `rest` pages of a request, is written
    /// to.
    #[inline]
    fn stream<N: Nand>(&mut self, _mapping: &mut M, _flash: &mut Flash<N>, _lpn: Lpn, _rest: u32) -> Stream {
        Stream::HOST
    }

    /// Programs a data page at the next page of a stream.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    fn program<N: Nand>(
        &mut self,
        _mapping: &mut M,
        flash: &mut Flash<N>,
        stream: Stream,
        lpn: Lpn,
        content: Content,
        from: Source<'_>,
        cause: Cause,
        after: Done,
    ) -> Result<(Ppn, Done)> {
        flash.program(stream, PageKind::Data, lpn.0, content, from, cause, after)
    }

    /// The units of a superblock, from `unit` on, that one stream wrote while others wrote the others: their
    /// pages belong together.
    #[inline]
    fn lane(&self, _mapping: &M, _superblock: u32, unit: u32) -> Range<u32> {
        unit..u32::MAX
    }

    /// How room is made, now that few superblocks are free. `may_gather`: they are enough for a gathering.
    fn make_room<N: Nand>(&mut self, _mapping: &mut M, _flash: &mut Flash<N>, _may_gather: bool) -> Room {
        Room::Emptiest
    }

    /// Free superblocks that a host write must leave, beyond the threshold, when it opens one: without them
    /// there is no room to gather what makes room.
    fn left_to_gather(&self) -> u32 {
        0
    }

    /// Whether [`Placement::gather`] should be asked.
    #[inline]
    fn is_gathering_due(&self, _mapping: &M) -> bool {
        false
    }

    /// Pages that ought to be brought together now, if any. There is room for them. [`Placement::next_pages`]
    /// tells which.
    fn gather<N: Nand>(&mut self, _mapping: &mut M, _flash: &mut Flash<N>) -> Option<Gathering> {
        None
    }

    /// Pages to rewrite together because they have lain long, where the mapping gains by their order. Else
    /// superblocks are rewritten as they are.
    fn rewrite<N: Nand>(&mut self, _mapping: &mut M, _flash: &mut Flash<N>) -> Option<Gathering> {
        None
    }

    /// Appends the next pages of the gathering under way, the next one last. Completes when they are known;
    /// `None` when the gathering is complete.
    fn next_pages<N: Nand>(
        &mut self,
        _mapping: &mut M,
        _pages: &M::Pages,
        _flash: &mut Flash<N>,
        _next: &mut Vec<Ppn>,
    ) -> Result<Option<Done>> {
        Ok(None)
    }

    /// Adds the bytes in use.
    fn add_memory(&self, _memory: &mut Memory) {}

    /// Checks the structures against each other.
    fn check(&self) -> Result<(), Breach> {
        Ok(())
    }
}

/// What the host writes goes to one stream, and nothing is brought together.
#[derive(Clone, Copy, Debug)]
pub struct HostStream;

impl<M: Update> Placement<M> for HostStream {
    type Copies = Grouped;

    fn open<N: Nand>(_: &mut Flash<N>, _: &mut M, _: &Config) -> Result<Self, ConfigError> {
        Ok(HostStream)
    }
}

/// Pages to bring together into one stream: those of consecutive LPNs, wherever they lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gathering {
    /// Stream that the copies are written to.
    pub stream: Stream,
    /// Cause that reads and programs of the copies are counted under.
    pub cause: Cause,
    /// Steps for each page that the host writes.
    pub pace: u32,
    /// How many LPNs they are, mapped or not.
    pub lpns: u32,
}

/// What is done to make room for the host's next pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Room {
    /// The superblock that the policy chooses is emptied.
    Emptiest,
    /// This closed superblock is emptied.
    This(u32),
    /// Pages are brought together, and their superblocks are left empty, or emptier.
    Gather(Gathering),
}

/// The pages that collection has taken from a victim and that the mapping does not know yet.
///
/// A page is taken while the mapping still leads to the original. Those taken are *committed* later, unless
/// the host wrote or trimmed them meanwhile.
pub trait Copies<M: Mapping, P>: Clone + std::fmt::Debug + Send + 'static {
    /// A victim is taken piece by piece: when there is no room for another page, those taken are committed
    /// before more are taken. Else all of its pages are.
    const IN_PIECES: bool;

    /// Nothing is taken.
    fn new<N: Nand>(flash: &Flash<N>, parts: &Parts<M, P>) -> Self;

    /// Steps that emptying a victim of `valid` pages takes.
    fn steps(&self, valid: u32) -> u32;

    /// Whether another page can be taken.
    #[inline]
    fn has_room(&self) -> bool {
        true
    }

    /// Whether everything taken is committed.
    fn is_empty(&self) -> bool;

    /// Takes a valid data page, whose copy goes to `stream`.
    fn take<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        parts: &mut Parts<M, P>,
        from: Ppn,
        stream: Stream,
        cause: Cause,
    ) -> Result<Done>;

    /// Commits some of the pages taken, all of one unit. `None`: all are committed, and forgotten now.
    fn commit<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        parts: &mut Parts<M, P>,
        cause: Cause,
    ) -> Result<Option<Done>>;

    /// Calls `each` for every copy that was made, committed or not, and not forgotten.
    fn each(&self, _each: &mut dyn FnMut(Ppn)) {}
}

/// Which page is read although its mapping is not known, or not exactly.
pub trait Predict<M>: Clone + std::fmt::Debug + Send + 'static {
    /// A page at which the LPN asked for may be, to be read before its mapping is known, and when that is
    /// thought.
    #[inline]
    fn guess<N: Nand>(_mapping: &mut M, _flash: &mut Flash<N>, _ask: Ask) -> Option<(Ppn, Done)> {
        None
    }

    /// Where `lpn` is, by what the page at `read` says, which was read for it and is another's. `None`: it
    /// does not tell; the mapping has to be asked.
    fn corrected<N: Nand>(_mapping: &M, _flash: &Flash<N>, _read: Ppn, _lpn: Lpn) -> Option<Ppn> {
        None
    }
}

/// No page is read before its mapping is known.
#[derive(Clone, Copy, Debug)]
pub struct Known;

impl<M> Predict<M> for Known {}
