//! What waits in memory to be written: all that opening an image has found and done, as the file stays as it
//! is until the FTL's recovery has succeeded; and what a full file system does not take.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::Bytes;

use super::copies::Repair;
use super::stage::Stage;
use super::{FileNand, Medium};
use crate::Ppn;

/// A recovery that programs more bytes than this does not wait with writing: memory is not without end.
const MOST_HELD_BYTES: usize = 1 << 30;

/// What was staged before an erased block was programmed again, and the last operation in each: all of it has
/// to be durable before what follows is written.
#[derive(Debug, Default)]
pub(super) struct Layers {
    layers: VecDeque<(Stage, u64)>,
    pages: usize,
}

impl Layers {
    /// Puts aside what is staged up to operation `sequence`.
    pub fn put_aside(&mut self, stage: &mut Stage, sequence: u64) {
        self.pages += stage.pages();
        self.layers.push_back((std::mem::take(stage), sequence));
    }

    /// The data of a page that was put aside.
    pub fn get(&self, ppn: Ppn) -> Option<&Bytes> {
        self.layers.iter().rev().find_map(|(stage, _)| stage.get(ppn))
    }

    /// Pages put aside.
    pub fn pages(&self) -> usize {
        self.pages
    }
}

impl<M: Medium> FileNand<M> {
    /// Begins to use the image: writes what opening mended, and what the FTL has done since. From now on,
    /// until [`FileNand::close`], opening it checks what was written last. Without effect the second time.
    pub fn begin(&mut self) -> io::Result<()> {
        let Some(repairs) = self.held.take() else { return Ok(()) };
        for Repair { at, bytes } in &repairs {
            self.medium.write_at(&[IoSlice::new(bytes)], *at)?;
        }
        // The state counts on what was mended.
        self.make_durable(self.state.durable)?;
        self.land()
    }

    /// Writes what was put aside, layer by layer. What cannot be written stays.
    pub(super) fn land_layers(&mut self) -> io::Result<()> {
        while let Some((stage, sequence)) = self.layers.layers.front_mut() {
            let (before, sequence) = (stage.pages(), *sequence);
            let landed = stage.land(&*self.medium, &self.places);
            self.layers.pages -= before - stage.pages();
            landed?;
            self.make_durable(sequence)?;
            self.layers.layers.pop_front();
        }
        Ok(())
    }

    /// Writes what is staged, or keeps it while the image is not begun and there is memory.
    pub(super) fn land_or_hold(&mut self) -> io::Result<()> {
        if self.held.is_some() && self.staged_pages() * self.page_bytes > MOST_HELD_BYTES {
            self.begin()?;
        }
        self.land()
    }
}
