//! Programs data pages, each with the block list of its linear group in its OOB.

use super::collect::AtOnce;
use super::map::{Map, Trained};
use super::open::SHARED;
use crate::counters::Cause;
use crate::engine::Placement;
use crate::flash::{Content, Flash};
use crate::list::NONE;
use crate::scheme::{Config, ConfigError};
use crate::space::{State, Stream};
use nand::{Done, Lpn, Nand, Pbn, Ppn, Result, Source};
use std::ops::Range;

/// What is programmed where.
#[derive(Clone, Debug)]
pub struct Writer {
    /// The superblock that collection writes; [`NONE`] until a page was.
    collected: u32,
    /// The block list of a page.
    list: Vec<u8>,
    /// Free superblocks at which collection begins.
    background: u32,
}

impl Placement<Map> for Writer {
    type Copies = AtOnce;

    fn open<N: Nand>(flash: &mut Flash<N>, map: &mut Map, config: &Config) -> Result<Self, ConfigError> {
        flash.add_streams(map.open.lanes().len() - 1);
        if let Some((superblock, _)) = flash.space.frontier(Stream::HOST) {
            // How it was divided before is not known.
            let node = map.open.add_sheet(superblock, flash.space.epoch_of(superblock), 0, |_| {});
            map.open.put(0, superblock, node);
            map.open.give(0, SHARED);
        }
        Ok(Writer {
            collected: NONE,
            list: Vec::with_capacity(map.lists.list_bytes() + 8),
            background: config.background_superblocks,
        })
    }

    fn stream<N: Nand>(&mut self, map: &mut Map, flash: &mut Flash<N>, lpn: Lpn, rest: u32) -> Stream {
        map.choose(flash, lpn, rest, self.background)
    }

    fn program<N: Nand>(
        &mut self,
        map: &mut Map,
        flash: &mut Flash<N>,
        stream: Stream,
        lpn: Lpn,
        content: Content,
        from: Source<'_>,
        cause: Cause,
        after: Done,
    ) -> Result<(Ppn, Done)> {
        let mut after = after;
        loop {
            let superblock = match stream {
                Stream::COLLECTION => self.next_superblock(flash, map)?,
                _ => map.lane_page(flash, stream, self.background)?,
            };
            map.lists.to_bytes(superblock, &mut self.list);
            match flash.program_with_spare(stream, lpn, content, from, &self.list, cause, after)? {
                Ok((ppn, done)) => {
                    assert!(flash.nand().geometry().superblock_of(ppn) == superblock);
                    return Ok((ppn, done));
                }
                Err(failed) => after = failed,
            }
        }
    }

    fn lane(&self, map: &Map, superblock: u32, unit: u32) -> Range<u32> {
        let units = map.lists.units_of(map.lists.node_of(superblock, unit));
        unit..units.end
    }
}

impl Writer {
    /// The superblock of the page that collection writes next. One that is opened for it gets its block list,
    /// and models are made of what lies in the one before.
    fn next_superblock<N: Nand>(&mut self, flash: &mut Flash<N>, map: &mut Map) -> Result<u32> {
        let stream = Stream::COLLECTION;
        let mut next = flash.space.upcoming(flash.nand(), stream).next();
        if next.is_none() {
            // What is left of the superblock lies in bad blocks.
            flash.space.close(stream);
            next = flash.space.upcoming(flash.nand(), stream).next();
        }
        let Some(next) = next else { return Err(flash.no_superblock(stream)) };
        let superblock = flash.nand().geometry().superblock_of(next);
        let before = std::mem::replace(&mut self.collected, superblock);
        if before == superblock && flash.space.state(superblock) == State::Open {
            return Ok(superblock);
        }
        if before != NONE {
            map.close(flash, Trained::Superblock(before));
        }
        // One that recovery found open keeps its list.
        if flash.space.state(superblock) != State::Open || !map.lists.is_set(superblock) {
            let units = flash.nand().geometry().units();
            let nand = flash.nand();
            map.lists.set(superblock, |unit| !nand.is_bad(Pbn(superblock * units + unit)));
        }
        Ok(superblock)
    }
}
