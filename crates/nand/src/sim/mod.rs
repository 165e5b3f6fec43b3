//! The simulated array: page states, OOB, metadata contents, wear, bad blocks, faults; one timing model
//! plugged in.
//!
//! User bytes do not exist here. Nine bytes a physical page hold the OOB; only translation and metadata pages
//! have contents.

mod array;
mod contents;
mod faults;
mod layout;
mod record;
mod staging;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::timing::{OpKind, Operation, Timing};
use crate::{
    Class, DataBuffer, DeviceSpec, Done, Fault, Geometry, Hint, Nand, Oob, OpCounts, Pbn, Ppn, Sink, Source,
    SpareBytes, SpareRefused,
};

use array::Array;
use layout::Place;

/// What a simulated array does besides its device's description. The default is a faultless one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimOptions {
    /// Seed of every fault and of the blocks bad from the factory: equal seeds meet the same ones.
    pub seed: u64,
    /// Blocks bad from the factory, parts per million; `None` takes the device's. Spread evenly at random
    /// over all blocks: nothing keeps a superblock of a tiny device from being bad altogether.
    pub factory_bad_ppm: Option<u32>,
    /// Programs that fail, parts per million: a property of the page and its block's erase count.
    pub program_fail_ppm: u32,
    /// Erases that fail, parts per million: a property of the block and its erase count. A block fails for
    /// ever.
    pub erase_fail_ppm: u32,
    /// Erases that a block stands in the mean; `None` takes the device's. Each block has a limit of its own,
    /// evenly drawn from 90 to 110 % of it: blocks differ, and the weakest goes first. The erase at the
    /// limit fails, for ever.
    pub endurance: Option<u32>,
    /// Data pages that cannot be read, parts per million: a property of the page as written, not of the
    /// attempt. Their OOB, which has a code of its own, can be scanned.
    pub uncorrectable_ppm: u32,
    /// Translation pages that cannot be read, parts per million, in the same way. Sets `keep_stale`, as the
    /// device recovers when it meets one.
    pub lost_translation_ppm: u32,
    /// Reads of translation and metadata pages that fail once, parts per million: the next attempt succeeds.
    pub metadata_retry_ppm: u32,
    /// Copies and patches of metadata pages leave the old page its content. By default it moves, which is
    /// faster, and the old page can no longer be read.
    pub keep_stale: bool,
}

/// Erase counts over the blocks that are not bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WearSpread {
    /// Erases of the block that was erased least.
    pub min: u32,
    /// Erases of the block that was erased most.
    pub max: u32,
    /// Erases of a block in the mean.
    pub mean: f64,
    /// Standard deviation of the erases of all blocks (of the population, not of a sample).
    pub stddev: f64,
}

/// A NAND array in memory, under the clock `T`.
#[derive(Debug)]
pub struct SimNand<T: Timing> {
    array: Array,
    counts: OpCounts,
    timing: T,
}

impl<T: Timing + Clone> Clone for SimNand<T> {
    fn clone(&self) -> Self {
        SimNand { array: self.array.clone(), counts: self.counts, timing: self.timing.clone() }
    }

    /// Reuses every allocation.
    fn clone_from(&mut self, from: &Self) {
        self.array.clone_from(&from.array);
        self.counts = from.counts;
        self.timing.clone_from(&from.timing);
    }
}

impl<T: Timing> SimNand<T> {
    /// An erased array. The geometry must have passed [`Geometry::check`], which every [`DeviceSpec`] has.
    pub fn new(device: &DeviceSpec, timing: T, options: SimOptions) -> SimNand<T> {
        let geometry = &device.geometry;
        let bad_ppm = options.factory_bad_ppm.unwrap_or(device.factory_bad_ppm);
        let translation_pages = u64::from(device.exported_pages) * 4 / u64::from(geometry.page_bytes);
        let expected_metadata = translation_pages + u64::from(geometry.pages_per_block);
        let mut nand = SimNand {
            array: Array::new(
                geometry,
                expected_metadata as usize,
                bad_ppm,
                &SimOptions { endurance: options.endurance.or(device.endurance), ..options },
            ),
            counts: OpCounts::default(),
            timing,
        };
        nand.start();
        nand
    }

    /// The timing model, for the host side that drives its clock.
    pub fn timing(&mut self) -> &mut T {
        &mut self.timing
    }

    /// The same array under another clock, which starts at 0. Counters go on. Nothing may be in flight, and
    /// no [`Done`] of the old clock but [`Done::READY`] may be used any more.
    pub fn with_timing<U: Timing>(self, timing: U) -> SimNand<U> {
        let mut nand = SimNand { array: self.array, counts: self.counts, timing };
        nand.start();
        nand
    }

    /// Operations since the array was new, under every clock it had.
    pub fn counts(&self) -> &OpCounts {
        &self.counts
    }

    /// Spread of erase counts over the blocks that are not bad.
    pub fn wear(&self) -> WearSpread {
        self.array.wear()
    }

    /// How many blocks that are not bad had how many erases: the first count of each bin, and its blocks. At
    /// most 16 bins of equal width, the last of which ends at the largest count.
    pub fn erase_histogram(&self) -> Vec<(u32, u32)> {
        let wear = self.wear();
        let width = (wear.max - wear.min) / 16 + 1;
        let mut bins: Vec<(u32, u32)> =
            (0..=(wear.max - wear.min) / width).map(|bin| (wear.min + bin * width, 0)).collect();
        for erases in self.array.erases_of_good_blocks() {
            bins[((erases - wear.min) / width) as usize].1 += 1;
        }
        bins
    }

    /// Erases of one block that worked, since the array was new.
    pub fn erases_of(&self, block: Pbn) -> u32 {
        self.array.blocks[block.0 as usize].erases
    }

    /// The OOB of a page as [`Nand::scan`] would find it, `None` when it is erased or torn. Costs no time and
    /// counts as nothing: only for checkers and invariants, never for a scheme.
    pub fn peek(&self, ppn: Ppn) -> Option<Oob> {
        self.array.oob(ppn).ok().flatten()
    }

    /// Power was cut while `ppn` was being programmed: it reads as uncorrectable from now on. It must be
    /// programmed already, or be the next page of its block, which this then spends. The block may have been
    /// retired since.
    pub fn torn(&mut self, ppn: Ppn) {
        self.array.tear(ppn);
    }

    /// Power was cut while `block` was being erased: all its pages read as uncorrectable, and it must be
    /// erased before it is programmed. It may have been retired since.
    pub fn torn_block(&mut self, block: Pbn) {
        self.array.tear_block(block);
    }

    /// Heap memory of the array's state, bytes, without the timing model and without reserves.
    pub fn heap_bytes(&self) -> usize {
        self.array.heap_bytes()
    }

    /// Page-sized buffers for contents of metadata pages: how many are in use, and how many are allocated.
    pub fn metadata_buffers(&self) -> (usize, usize) {
        self.array.metadata_buffers()
    }

    /// Leaves contents to somebody else: [`Nand::buffer`] may not be used, and [`Nand::inspect`] gives none.
    pub(crate) fn keep_no_contents(&mut self) {
        self.array.keep_no_contents();
    }

    /// Gives a block of a fresh array the state that an image has of it, and its pages from the first on:
    /// `None` for a torn one. A page that cannot stand in one block with those before it counts as torn.
    pub(crate) fn restore(
        &mut self,
        block: Pbn,
        erases: u32,
        bad: bool,
        pages: impl Iterator<Item = Option<Oob>>,
    ) {
        self.array.restore_block(block, erases, bad);
        for oob in pages {
            self.array.restore_page(block, oob);
        }
    }

    /// Gives a page the spare bytes that an image has of it; they are reserved with it.
    pub(crate) fn restore_spare(&mut self, ppn: Ppn, spare: &[u8]) {
        let pages = self.array.geometry.pages() as usize;
        self.array.staging.restore(ppn, spare, pages);
    }

    /// Tells the clock what was restored.
    pub(crate) fn restored(&mut self) {
        self.start();
    }

    fn start(&mut self) {
        let written: Vec<u16> = self.array.blocks.iter().map(|block| block.written).collect();
        self.timing.start(&written);
    }

    #[inline(always)]
    fn operate(&mut self, kind: OpKind, class: Class, place: Place, after: Done) -> Done {
        let Place { block, page, die } = place;
        self.timing.operate(Operation { kind, class, die, block, page }, after)
    }
}

impl<T: Timing> Nand for SimNand<T> {
    fn geometry(&self) -> &Geometry {
        &self.array.geometry
    }

    #[inline]
    fn is_bad(&self, block: Pbn) -> bool {
        self.array.is_bad(block)
    }

    #[inline]
    fn read(&mut self, ppn: Ppn, class: Class, to: Sink, after: Done) -> Result<(Oob, Done), Fault> {
        let place = self.array.programmed(ppn);
        self.counts.reads[class as usize] += 1;
        let found = self.array.read(ppn, place);
        let done = self.operate(OpKind::Read, class, place, after);
        match found {
            Some(oob) => {
                self.array.buffer(ppn, oob, to);
                Ok((oob, done))
            }
            None => Err(Fault::Uncorrectable { ppn, done }),
        }
    }

    #[inline]
    fn buffer(&self) -> &[u8] {
        self.array.buffered_content()
    }

    #[inline]
    fn written(&self, block: Pbn) -> u32 {
        u32::from(self.array.blocks[block.0 as usize].written)
    }

    fn scan(&mut self, ppn: Ppn, after: Done) -> Result<(Option<Oob>, Done), Fault> {
        let oob = self.array.oob(ppn);
        self.array.staging.last = ppn.0;
        self.counts.reads[Class::CollectionRead as usize] += 1;
        let place = self.array.layout.place(ppn);
        let done = self.operate(OpKind::Read, Class::CollectionRead, place, after);
        match oob {
            Ok(oob) => Ok((oob, done)),
            Err(()) => Err(Fault::Uncorrectable { ppn, done }),
        }
    }

    #[inline]
    fn program(
        &mut self,
        ppn: Ppn,
        oob: Oob,
        class: Class,
        from: Source<'_>,
        after: Done,
    ) -> Result<Done, Fault> {
        let (place, worked) = self.array.program(ppn, oob, from);
        self.counts.programs[class as usize] += 1;
        let done = self.operate(OpKind::Program, class, place, after);
        if worked {
            Ok(done)
        } else {
            Err(Fault::ProgramFailed { ppn, done })
        }
    }

    #[inline]
    fn erase(&mut self, block: Pbn, after: Done) -> Result<Done, Fault> {
        let worked = self.array.erase(block);
        self.counts.erases[Class::Erase as usize] += 1;
        let place = Place { block, page: 0, die: self.array.layout.die_of(block) };
        let done = self.operate(OpKind::Erase, Class::Erase, place, after);
        if worked {
            Ok(done)
        } else {
            Err(Fault::EraseFailed { block, done })
        }
    }

    fn retire(&mut self, block: Pbn) {
        self.array.retire(block);
    }

    #[inline]
    fn join(&mut self, a: Done, b: Done) -> Done {
        self.timing.join(a, b)
    }

    #[inline]
    fn settle(&mut self) -> Done {
        self.timing.settle()
    }

    #[inline]
    fn compute(&mut self, ns: u64, after: Done) -> Done {
        self.timing.compute(ns, after)
    }

    fn superseded(&mut self, ppn: Ppn) {
        self.array.superseded(ppn);
    }

    #[inline]
    fn expect(&self, hint: Hint) {
        self.array.expect(hint);
    }

    #[inline]
    fn hinted_id(&self, ppn: Ppn) -> Option<u32> {
        self.array.hinted_id(ppn)
    }

    #[inline]
    fn hinted_word(&self, ppn: Ppn, index: u32) -> Option<u32> {
        self.array.hinted_word(ppn, index)
    }

    fn inspect(&self, ppn: Ppn, content: &mut Vec<u8>) -> Option<Oob> {
        self.array.inspect(ppn, content)
    }

    fn catch_up(&mut self) {
        self.timing.drain();
    }
}

impl<T: Timing> DataBuffer for SimNand<T> {
    fn reserve_slots(&mut self, slots: u32) {
        self.array.staging.reserve_slots(slots as usize);
    }

    fn store(&mut self, slot: u32, oob: Oob) {
        assert!(oob.kind == crate::PageKind::Data, "store: {oob:?} is not user data");
        self.array.staging.store(slot, oob);
    }

    fn deliver(&mut self, slot: u32) -> Oob {
        match self.array.staging.stored(slot) {
            Some(oob) => oob,
            None => panic!("deliver: slot {slot} of the data buffer holds nothing"),
        }
    }
}

impl<T: Timing> SpareBytes for SimNand<T> {
    fn reserve_spare(&mut self, bytes: u32) -> Result<(), SpareRefused> {
        self.array.reserve_spare(bytes)
    }

    fn attach(&mut self, spare: &[u8]) {
        self.array.staging.attach(spare);
    }

    fn spare(&self) -> &[u8] {
        self.array.staging.of(Ppn(self.array.staging.last))
    }

    fn inspect_spare(&self, ppn: Ppn) -> &[u8] {
        self.array.staging.of(ppn)
    }
}
