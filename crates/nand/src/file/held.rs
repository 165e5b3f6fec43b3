//! What opening an image has found and done, in memory: the file stays as it is until the FTL's recovery has
//! succeeded.

use std::io::{self, IoSlice};

use bytes::Bytes;

use super::copies::Repair;
use super::stage::Stage;
use super::{FileNand, Medium, MOST_STAGED};
use crate::Ppn;

/// A recovery that programs more bytes than this does not wait with writing: memory is not without end.
const MOST_HELD_BYTES: usize = 1 << 30;

/// What waits to be written.
#[derive(Debug)]
pub(super) struct Held {
    repairs: Vec<Repair>,
    /// What was staged before an erased block was programmed again, and the last operation in each: all of it
    /// has to be durable before what follows is written.
    layers: Vec<(Stage, u64)>,
}

impl Held {
    pub fn new(repairs: Vec<Repair>) -> Held {
        Held { repairs, layers: Vec::new() }
    }

    /// Puts aside what is staged up to operation `sequence`.
    pub fn put_aside(&mut self, stage: &mut Stage, sequence: u64) {
        self.layers.push((std::mem::take(stage), sequence));
    }

    /// The data of a page that was put aside.
    pub fn get(&self, ppn: Ppn) -> Option<&Bytes> {
        self.layers.iter().rev().find_map(|(stage, _)| stage.get(ppn))
    }

    fn pages(&self) -> usize {
        self.layers.iter().map(|(stage, _)| stage.pages()).sum()
    }
}

impl<M: Medium> FileNand<M> {
    /// Begins to use the image: writes what opening mended, and what the FTL has done since. From now on,
    /// until [`FileNand::close`], opening it checks what was written last. Without effect the second time.
    pub fn begin(&mut self) -> io::Result<()> {
        let Some(Held { repairs, layers }) = self.held.take() else { return Ok(()) };
        for Repair { at, bytes } in &repairs {
            self.medium.write_at(&[IoSlice::new(bytes)], *at)?;
        }
        // The state counts on what was mended.
        self.make_durable(self.state.durable)?;
        for (mut stage, sequence) in layers {
            stage.land(&*self.medium, &self.places, &self.blocks)?;
            self.make_durable(sequence)?;
        }
        self.land()
    }

    /// Writes what is staged, or keeps it while the image is not begun and there is memory.
    pub(super) fn land_or_hold(&mut self) -> io::Result<()> {
        let held = self.held.as_ref().map_or(0, |held| held.pages() + self.stage.pages());
        debug_assert!(held == 0 || self.stage.pages() >= MOST_STAGED);
        if held * self.page_bytes > MOST_HELD_BYTES {
            self.begin()?;
        }
        self.land()
    }
}
