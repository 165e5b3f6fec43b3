//! Which superblock a group of GTD entries writes to, and how room is made: the parameter `allocation`.

use super::groups::Groups;
use super::own_blocks::OwnBlocks;
use super::LearnedTable;
use crate::breach::Breach;
use crate::counters::Cause;
use crate::engine::collector::Grouped;
use crate::engine::{Gathering, Placement, Room};
use crate::flash::{Content, Flash};
use crate::scheme::{Config, ConfigError, Memory};
use crate::space::Stream;
use crate::table::Table;
use nand::{Done, Lpn, Nand, PageKind, Ppn, Result, Source};

/// One of the two.
#[derive(Clone, Debug)]
pub enum Allocation {
    /// Groups share superblocks, which are emptied one by one.
    Shared(Groups),
    /// Groups have superblocks of their own, and are collected whole.
    Own(OwnBlocks),
}

impl Placement<LearnedTable> for Allocation {
    type Copies = Grouped;

    fn open<N: Nand>(
        flash: &mut Flash<N>,
        mapping: &mut LearnedTable,
        config: &Config,
    ) -> Result<Self, ConfigError> {
        if mapping.own.is_some() {
            OwnBlocks::open(flash, mapping, config).map(Allocation::Own)
        } else {
            Groups::open(flash, mapping, config).map(Allocation::Shared)
        }
    }

    fn spare_wanted(&self) -> u32 {
        match self {
            Allocation::Shared(groups) => groups.spare_wanted(),
            Allocation::Own(groups) => groups.spare_wanted(),
        }
    }

    #[inline]
    fn stream<N: Nand>(
        &mut self,
        mapping: &mut LearnedTable,
        flash: &mut Flash<N>,
        lpn: Lpn,
        rest: u32,
    ) -> Stream {
        match self {
            Allocation::Shared(groups) => groups.stream(mapping, flash, lpn, rest),
            Allocation::Own(groups) => groups.stream(mapping, flash, lpn, rest),
        }
    }

    #[inline]
    fn program<N: Nand>(
        &mut self,
        mapping: &mut LearnedTable,
        flash: &mut Flash<N>,
        stream: Stream,
        lpn: Lpn,
        content: Content,
        from: Source<'_>,
        cause: Cause,
        after: Done,
    ) -> Result<(Ppn, Done)> {
        match self {
            Allocation::Shared(_) => {
                flash.program(stream, PageKind::Data, lpn.0, content, from, cause, after)
            }
            Allocation::Own(groups) => {
                groups.program(mapping, flash, stream, lpn, content, from, cause, after)
            }
        }
    }

    fn make_room<N: Nand>(
        &mut self,
        mapping: &mut LearnedTable,
        flash: &mut Flash<N>,
        may_gather: bool,
    ) -> Room {
        match self {
            Allocation::Shared(_) => Room::Emptiest,
            Allocation::Own(groups) => groups.make_room(mapping, flash, may_gather),
        }
    }

    fn left_to_gather(&self) -> u32 {
        match self {
            Allocation::Shared(_) => 0,
            Allocation::Own(groups) => groups.left_to_gather(),
        }
    }

    #[inline]
    fn is_gathering_due(&self, mapping: &LearnedTable) -> bool {
        match self {
            Allocation::Shared(groups) => groups.is_gathering_due(mapping),
            Allocation::Own(groups) => groups.is_gathering_due(mapping),
        }
    }

    fn gather<N: Nand>(&mut self, mapping: &mut LearnedTable, flash: &mut Flash<N>) -> Option<Gathering> {
        match self {
            Allocation::Shared(groups) => groups.gather(mapping, flash),
            Allocation::Own(groups) => groups.gather(mapping, flash),
        }
    }

    fn rewrite<N: Nand>(&mut self, mapping: &mut LearnedTable, flash: &mut Flash<N>) -> Option<Gathering> {
        match self {
            Allocation::Shared(groups) => groups.rewrite(mapping, flash),
            Allocation::Own(groups) => groups.rewrite(mapping, flash),
        }
    }

    fn next_pages<N: Nand>(
        &mut self,
        mapping: &mut LearnedTable,
        table: &Table,
        flash: &mut Flash<N>,
        next: &mut Vec<Ppn>,
    ) -> Result<Option<Done>> {
        match self {
            Allocation::Shared(groups) => groups.next_pages(mapping, table, flash, next),
            Allocation::Own(groups) => groups.next_pages(mapping, table, flash, next),
        }
    }

    fn add_memory(&self, memory: &mut Memory) {
        match self {
            Allocation::Shared(groups) => groups.add_memory(memory),
            Allocation::Own(groups) => groups.add_memory(memory),
        }
    }

    fn check(&self) -> Result<(), Breach> {
        match self {
            Allocation::Shared(_) => Ok(()),
            Allocation::Own(groups) => groups.check(),
        }
    }
}
