//! Programs data pages, each with the block list of its linear group in its OOB.

use super::collect::AtOnce;
use super::map::Map;
use crate::counters::Cause;
use crate::engine::Placement;
use crate::flash::{Content, Flash};
use crate::list::NONE;
use crate::scheme::{Config, ConfigError};
use crate::space::{State, Stream};
use nand::{Done, Lpn, Nand, Pbn, Ppn, Result, Source};

/// Which superblock each stream writes.
#[derive(Clone, Debug)]
pub struct Writer {
    /// By stream; [`NONE`] until a page was written to one.
    superblocks: Vec<u32>,
    /// The block list of a page.
    list: Vec<u8>,
    /// Free superblocks above which one can be opened without starting collection.
    spare: u32,
}

impl Placement<Map> for Writer {
    type Copies = AtOnce;

    fn open<N: Nand>(flash: &mut Flash<N>, map: &mut Map, config: &Config) -> Result<Self, ConfigError> {
        let streams = map.open.groups() - 1;
        flash.add_streams(streams);
        Ok(Writer {
            superblocks: vec![NONE; Stream::COUNT + streams],
            list: Vec::with_capacity(map.lists.list_bytes() + 8),
            spare: config.background_superblocks,
        })
    }

    fn stream<N: Nand>(&mut self, map: &mut Map, flash: &mut Flash<N>, lpn: Lpn, _rest: u32) -> Stream {
        let spare = flash.free_superblocks() > self.spare;
        map.open.choose(lpn, |stream| flash.space.left(stream), spare)
    }

    /// When the stream leaves a superblock, its linear group is closed.
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
            let superblock = self.next_superblock(flash, map, stream);
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
}

impl Writer {
    /// The superblock of the page that a stream writes next. One that is opened for it gets its block list.
    fn next_superblock<N: Nand>(&mut self, flash: &mut Flash<N>, map: &mut Map, stream: Stream) -> u32 {
        let mut next = flash.space.upcoming(flash.nand(), stream).next();
        if next.is_none() {
            // What is left of the superblock lies in bad blocks.
            flash.space.close(stream);
            next = flash.space.upcoming(flash.nand(), stream).next();
        }
        let Some(next) = next else { panic!("stream {} finds no superblock to write to", stream.0) };
        let superblock = flash.nand().geometry().superblock_of(next);
        let before = std::mem::replace(&mut self.superblocks[stream.0], superblock);
        if before == superblock && flash.space.state(superblock) == State::Open {
            return superblock;
        }
        if before != NONE {
            map.close(flash, before);
            map.open.closed(stream);
        }
        // One that recovery found open keeps its list.
        if flash.space.state(superblock) != State::Open || !map.lists.is_set(superblock) {
            let units = flash.nand().geometry().units();
            let nand = flash.nand();
            map.lists.set(superblock, |unit| !nand.is_bad(Pbn(superblock * units + unit)));
        }
        superblock
    }
}
