//! The logical state of the array and NAND's rules. Knows no time.

use crate::{Geometry, Hint, Oob, PageKind, Pbn, Ppn, Sink, Source, SpareRefused};

use super::contents::Contents;
use super::faults::{factory_bad_blocks, Faults};
use super::layout::{Layout, Place};
use super::record::Record;
use super::staging::Staging;
use super::{SimOptions, WearSpread};
use prefetch_index::prefetch_index;

/// The controller's page buffer holds nothing. No page has this number: [`Geometry::check`].
const NO_PAGE: Ppn = Ppn(u32::MAX);

/// Pages of a block are programmed in order. With each one the processor fetches the record of the page so
/// many ahead, so that the next cache line is there when it begins.
const AHEAD: usize = 2;

/// The block is bad.
const BAD: u8 = 1;
/// The block's kind and epoch are known: a page of it was programmed.
const KIND_SET: u8 = 2;
/// An erase of the block failed; all further ones will.
const WORN: u8 = 4;

/// State of one block, 12 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Pages programmed: the next page to program.
    pub written: u16,
    pub flags: u8,
    /// Kind of all its pages; valid when `KIND_SET`.
    pub kind: PageKind,
    pub erases: u32,
    /// Epoch of all its pages; valid when `KIND_SET`.
    pub epoch: u32,
}

/// Everything the array holds.
#[derive(Debug)]
pub(super) struct Array {
    pub geometry: Geometry,
    pub layout: Layout,
    /// OOB of each page, block by block ([`Layout::number`]): schemes read and write many blocks in page
    /// order at the same time, and each then has a cache line of its own.
    pub records: Vec<Record>,
    /// State of each block, by PBN.
    pub blocks: Vec<Block>,
    contents: Contents,
    pub faults: Faults,
    keep_stale: bool,
    /// Contents are kept elsewhere ([`crate::FileNand`]).
    bodiless: bool,
    /// The page in the controller's buffer, or `NO_PAGE`.
    buffered: Ppn,
    /// Data buffer and spare bytes.
    pub staging: Staging,
}

impl Clone for Array {
    fn clone(&self) -> Array {
        Array {
            geometry: self.geometry.clone(),
            layout: self.layout,
            records: self.records.clone(),
            blocks: self.blocks.clone(),
            contents: self.contents.clone(),
            faults: self.faults.clone(),
            keep_stale: self.keep_stale,
            bodiless: self.bodiless,
            buffered: self.buffered,
            staging: self.staging.clone(),
        }
    }

    fn clone_from(&mut self, from: &Array) {
        self.geometry.clone_from(&from.geometry);
        self.layout = from.layout;
        self.records.clone_from(&from.records);
        self.blocks.clone_from(&from.blocks);
        self.contents.clone_from(&from.contents);
        self.faults.clone_from(&from.faults);
        self.keep_stale = from.keep_stale;
        self.bodiless = from.bodiless;
        self.buffered = from.buffered;
        self.staging.clone_from(&from.staging);
    }
}

impl Array {
    pub fn new(
        geometry: &Geometry,
        metadata_pages: usize,
        factory_bad_ppm: u32,
        options: &SimOptions,
    ) -> Array {
        let pages = geometry.pages() as usize;
        let mut array = Array {
            geometry: geometry.clone(),
            layout: Layout::new(geometry),
            records: vec![Record::ERASED; pages],
            blocks: vec![
                Block { written: 0, flags: 0, kind: PageKind::Data, erases: 0, epoch: 0 };
                geometry.blocks() as usize
            ],
            contents: Contents::new(
                geometry.blocks(),
                geometry.pages_per_block,
                geometry.page_bytes as usize,
                metadata_pages,
            ),
            faults: Faults::new(options),
            keep_stale: options.keep_stale || options.lost_translation_ppm > 0,
            bodiless: false,
            buffered: NO_PAGE,
            staging: Staging::default(),
        };
        for block in factory_bad_blocks(options.seed, geometry.blocks(), factory_bad_ppm) {
            array.retire(block);
        }
        array
    }

    /// The place of a page, which must be programmed.
    #[inline(always)]
    pub fn programmed(&self, ppn: Ppn) -> Place {
        let place = self.layout.place(ppn);
        match self.blocks.get(place.block.0 as usize) {
            Some(block) if place.page < u32::from(block.written) => place,
            _ => self.refuse_read(ppn),
        }
    }

    /// The OOB of a programmed page, `None` when it cannot be read this time.
    #[inline(always)]
    pub fn read(&mut self, ppn: Ppn, place: Place) -> Option<Oob> {
        let record = self.records[self.layout.number(place)];
        if (self.faults.any || record.is_lost()) && self.is_unreadable(ppn) {
            return None;
        }
        let block = &self.blocks[place.block.0 as usize];
        Some(record.unpack(block.kind, block.epoch))
    }

    /// Whether a read fails, when it may. Takes no reference to what the fast path would rather keep in
    /// registers.
    #[cold]
    #[inline(never)]
    fn is_unreadable(&mut self, ppn: Ppn) -> bool {
        let place = self.layout.place(ppn);
        let block = self.blocks[place.block.0 as usize];
        if self.records[self.layout.number(place)].is_lost() {
            return true; // lost or torn
        }
        match block.kind {
            PageKind::Data => self.faults.is_uncorrectable(ppn, block.erases),
            PageKind::Translation if self.faults.is_lost_translation(ppn, block.erases) => true,
            PageKind::Translation | PageKind::Metadata => self.faults.retry_needed(ppn),
        }
    }

    /// After a good read: what the controller's buffers hold.
    #[inline(always)]
    pub fn buffer(&mut self, ppn: Ppn, oob: Oob, to: Sink) {
        self.buffered = if to == Sink::Controller { ppn } else { NO_PAGE };
        self.staging.last = ppn.0;
        if let Sink::Buffer(slot) = to {
            assert!(
                oob.kind == PageKind::Data,
                "read of {} into the data buffer: it holds no data",
                self.name(ppn)
            );
            self.staging.store(slot, oob);
        }
    }

    /// Drops the content of a metadata page, unless stale content is kept.
    pub fn superseded(&mut self, ppn: Ppn) {
        if !self.keep_stale {
            let place = self.layout.place(ppn);
            self.contents.drop_page(place.block, place.page);
            if self.buffered == ppn {
                self.buffered = NO_PAGE;
            }
        }
    }

    /// See [`crate::SpareBytes::reserve_spare`].
    pub fn reserve_spare(&mut self, asked: u32) -> Result<(), SpareRefused> {
        let room = self.geometry.oob_bytes.saturating_sub(Oob::BYTES);
        if asked > room {
            return Err(SpareRefused { asked, room });
        }
        self.staging.reserve_spare(asked as usize, self.geometry.pages() as usize);
        Ok(())
    }

    /// The content of the metadata page in the controller's buffer.
    #[inline]
    pub fn buffered_content(&self) -> &[u8] {
        assert!(self.buffered != NO_PAGE, "buffer: no page was read into it since it was last used");
        let place = self.programmed(self.buffered);
        if self.blocks[place.block.0 as usize].kind == PageKind::Data {
            self.refuse_buffer();
        }
        match self.contents.get(place.block, place.page) {
            Some(bytes) => bytes,
            None => self.refuse_content(self.buffered),
        }
    }

    /// The OOB as programmed: `Ok(None)` of an erased page, `Err` of a torn one.
    pub fn oob(&self, ppn: Ppn) -> Result<Option<Oob>, ()> {
        let place = self.layout.place(ppn);
        assert!(ppn.0 < self.geometry.pages(), "scan of {}, outside the device", self.name(ppn));
        let block = self.blocks[place.block.0 as usize];
        if place.page >= u32::from(block.written) {
            return Ok(None);
        }
        if self.is_torn(ppn) {
            return Err(());
        }
        Ok(Some(self.records[self.layout.number(place)].unpack(block.kind, block.epoch)))
    }

    /// Programs a page: its place, and whether the program worked.
    #[inline(always)]
    pub fn program(&mut self, ppn: Ppn, oob: Oob, from: Source<'_>) -> (Place, bool) {
        let place = self.layout.place(ppn);
        let Some(block) = self.blocks.get_mut(place.block.0 as usize) else { self.refuse_program(ppn, oob) };
        let legal = u32::from(block.written) == place.page
            && block.flags & BAD == 0
            && (block.flags & KIND_SET == 0 || (block.kind == oob.kind && block.epoch == oob.epoch))
            && Record::holds(oob)
            && oob.lost == matches!(from, Source::Nothing);
        if !legal {
            self.refuse_program(ppn, oob);
        }
        block.written += 1;
        block.kind = oob.kind;
        block.epoch = oob.epoch;
        block.flags |= KIND_SET;
        let erases = block.erases;
        match from {
            Source::Host if oob.kind == PageKind::Data => {}
            Source::Nothing => {}
            _ => self.check_source(ppn, oob, from),
        }
        if self.faults.any && self.faults.program_fails(ppn, erases) {
            self.mark_torn(ppn);
            self.staging.drop_attached();
            return (place, false);
        }
        let number = self.layout.number(place);
        self.records[number] = Record::pack(oob);
        prefetch_index(&self.records, number + AHEAD);
        if oob.kind != PageKind::Data && !self.bodiless {
            self.fill(place, from);
        } else {
            self.staging.program(ppn);
        }
        (place, true)
    }

    /// Panics unless `from` may become a page with this OOB.
    #[inline]
    fn check_source(&self, ppn: Ppn, oob: Oob, from: Source<'_>) {
        match from {
            Source::Nothing => {}
            Source::Host | Source::Metadata(_) => {
                let data = matches!(from, Source::Host);
                if data != (oob.kind == PageKind::Data) {
                    self.refuse_source(ppn, oob, from, "is not content for a page of this kind");
                }
                if matches!(from, Source::Metadata(bytes) if bytes.len() > self.geometry.page_bytes as usize)
                {
                    self.refuse_source(ppn, oob, from, "is longer than a page");
                }
            }
            Source::Buffer(slot) => {
                let same =
                    |there: Oob| (there.kind, there.id, there.version) == (oob.kind, oob.id, oob.version);
                if !self.staging.stored(slot).is_some_and(same) {
                    self.refuse_source(ppn, oob, from, "holds another kind, id or version, or nothing");
                }
            }
            Source::Page(source) => {
                let found = self.source_oob(ppn, oob, from, source);
                if (found.kind, found.id, found.version) != (oob.kind, oob.id, oob.version) {
                    self.refuse_source(
                        ppn,
                        oob,
                        from,
                        "holds another kind, id or version than the copy claims",
                    );
                }
            }
            Source::Patch(source, _) => {
                let found = self.source_oob(ppn, oob, from, source);
                if found.kind == PageKind::Data || (found.kind, found.id) != (oob.kind, oob.id) {
                    self.refuse_source(
                        ppn,
                        oob,
                        from,
                        "holds another kind or id than the patched page claims",
                    );
                }
                if found.version >= oob.version {
                    self.refuse_source(ppn, oob, from, "is not older than the patched page claims to be");
                }
            }
        }
    }

    #[inline]
    fn source_oob(&self, ppn: Ppn, oob: Oob, from: Source<'_>, source: Ppn) -> Oob {
        let place = self.layout.place(source);
        let block = match self.blocks.get(place.block.0 as usize) {
            Some(block) if place.page < u32::from(block.written) && source != ppn => block,
            _ => self.refuse_source(ppn, oob, from, "is not programmed"),
        };
        let found = self.records[self.layout.number(place)].unpack(block.kind, block.epoch);
        let unreadable = found.lost
            || (self.faults.any
                && found.kind == PageKind::Data
                && self.faults.is_uncorrectable(source, block.erases));
        if unreadable {
            self.refuse_source(ppn, oob, from, "cannot be read");
        }
        found
    }

    /// Puts content into a metadata page just programmed.
    fn fill(&mut self, place: Place, from: Source<'_>) {
        let to = (place.block, place.page);
        match from {
            Source::Metadata(bytes) => self.contents.put(to.0, to.1, bytes),
            Source::Page(source) => self.carry(source, to, &[]),
            Source::Patch(source, changes) => self.carry(source, to, changes),
            Source::Host | Source::Buffer(_) | Source::Nothing => {}
        }
    }

    /// Gives page `to` the content of `source`, with words replaced.
    fn carry(&mut self, source: Ppn, to: (Pbn, u32), changes: &[(u32, u32)]) {
        if self.buffered == source {
            self.buffered = NO_PAGE;
        }
        let place = self.layout.place(source);
        let page_words = self.geometry.page_bytes / 4;
        let from = (place.block, place.page);
        let carried = self.contents.carry(from, to, self.keep_stale, !changes.is_empty());
        let Some(content) = carried else { self.refuse_content(source) };
        for &(word, value) in changes {
            assert!(
                word < page_words,
                "program of page {to:?}: patch of word {word}, but a page has {page_words} words"
            );
            content[4 * word as usize..][..4].copy_from_slice(&value.to_le_bytes());
        }
    }

    /// Erases a block; false when that failed.
    #[inline]
    pub fn erase(&mut self, block: Pbn) -> bool {
        let Some(state) = self.blocks.get_mut(block.0 as usize) else {
            panic!("erase of {block:?}, outside the device")
        };
        if state.flags & BAD != 0 {
            self.refuse_erase(block);
        }
        let may_fail = self.faults.any || self.faults.endurance.is_some();
        if may_fail && (state.flags & WORN != 0 || self.faults.erase_fails(block, state.erases)) {
            state.flags |= WORN;
            self.tear_block(block);
            return false;
        }
        state.written = 0;
        state.flags &= !KIND_SET;
        state.erases += 1;
        if state.kind != PageKind::Data {
            self.contents.drop_block(block);
        }
        if self.layout.place(self.buffered).block == block {
            self.buffered = NO_PAGE;
        }
        true
    }

    /// From now on keeps OOB and rules alone.
    pub fn keep_no_contents(&mut self) {
        self.bodiless = true;
    }

    /// Gives a fresh block the state that an image has of it; its pages follow by [`Array::restore_page`].
    pub fn restore_block(&mut self, block: Pbn, erases: u32, bad: bool) {
        let state = &mut self.blocks[block.0 as usize];
        state.erases = erases;
        state.flags |= if bad { BAD } else { 0 };
    }

    /// Gives a block its next page as an image has it, `None` for a torn one. A page that cannot stand in one
    /// block with those before it is torn, too.
    pub fn restore_page(&mut self, block: Pbn, oob: Option<Oob>) {
        let state = &mut self.blocks[block.0 as usize];
        let ppn = self.geometry.page_in(block, u32::from(state.written));
        state.written += 1;
        let stands = |oob: &Oob| {
            let alike = state.kind == oob.kind && state.epoch == oob.epoch;
            Record::holds(*oob) && (state.flags & KIND_SET == 0 || alike)
        };
        let Some(oob) = oob.filter(stands) else {
            return self.mark_torn(ppn);
        };
        state.kind = oob.kind;
        state.epoch = oob.epoch;
        state.flags |= KIND_SET;
        let number = self.layout.number(self.layout.place(ppn));
        self.records[number] = Record::pack(oob);
    }

    pub fn is_bad(&self, block: Pbn) -> bool {
        self.blocks[block.0 as usize].flags & BAD != 0
    }

    pub fn retire(&mut self, block: Pbn) {
        self.blocks[block.0 as usize].flags |= BAD;
    }

    /// Tears a programmed page, or the next one of its block.
    pub fn tear(&mut self, ppn: Ppn) {
        let place = self.layout.place(ppn);
        let name = self.name(ppn);
        let Some(block) = self.blocks.get_mut(place.block.0 as usize) else {
            panic!("tearing {name}, outside the device")
        };
        let written = u32::from(block.written);
        assert!(place.page <= written, "tearing {name}: the block's next page is {written}");
        if place.page == written {
            block.written += 1;
        }
        self.mark_torn(ppn);
        self.contents.drop_page(place.block, place.page);
    }

    /// Tears every page of a block.
    pub fn tear_block(&mut self, block: Pbn) {
        let pages = self.geometry.pages_per_block;
        self.blocks[block.0 as usize].written = pages as u16;
        for page in 0..pages {
            self.mark_torn(self.geometry.page_in(block, page));
        }
        self.contents.drop_block(block);
    }

    pub fn is_torn(&self, ppn: Ppn) -> bool {
        self.records[self.layout.number(self.layout.place(ppn))] == Record::TORN
    }

    fn mark_torn(&mut self, ppn: Ppn) {
        let number = self.layout.number(self.layout.place(ppn));
        self.records[number] = Record::TORN;
    }

    pub fn metadata_buffers(&self) -> (usize, usize) {
        self.contents.buffers()
    }

    /// See [`Nand::expect`](crate::Nand::expect). A hint may be wrong: nothing is asserted.
    #[inline]
    pub fn expect(&self, hint: Hint) {
        match hint {
            Hint::Page(ppn) => self.expect_record(ppn),
            Hint::Word(ppn, index) => {
                let Place { block, page, .. } = self.layout.place(ppn);
                self.contents.expect(block, page, index * 4..index * 4 + 1);
            }
            Hint::Bytes(ppn, from, end) => {
                let Place { block, page, .. } = self.layout.place(ppn);
                self.contents.expect(block, page, from..end);
            }
        }
    }

    #[inline(always)]
    fn expect_record(&self, ppn: Ppn) {
        let number = self.layout.number(self.layout.place(ppn));
        prefetch_index(&self.records, number);
        // Its last byte may lie in the next cache line, as the next record then does.
        prefetch_index(&self.records, number + 1);
    }

    /// See [`Nand::hinted_id`](crate::Nand::hinted_id).
    #[inline]
    pub fn hinted_id(&self, ppn: Ppn) -> Option<u32> {
        Some(self.records.get(self.layout.number(self.layout.place(ppn)))?.unpack(PageKind::Data, 0).id)
    }

    /// See [`Nand::hinted_word`](crate::Nand::hinted_word).
    #[inline]
    pub fn hinted_word(&self, ppn: Ppn, index: u32) -> Option<u32> {
        let Place { block, page, .. } = self.layout.place(ppn);
        let word = self.contents.get(block, page)?.get(index as usize * 4..)?.first_chunk()?;
        Some(u32::from_le_bytes(*word))
    }

    /// The page as a read that needs no retry finds it; a metadata page whose content moved is not readable.
    pub fn inspect(&self, ppn: Ppn, content: &mut Vec<u8>) -> Option<Oob> {
        content.clear();
        let oob = self.oob(ppn).ok().flatten().filter(|oob| !oob.lost)?;
        let place = self.layout.place(ppn);
        if oob.kind == PageKind::Data {
            let erases = self.blocks[place.block.0 as usize].erases;
            return (!self.faults.is_uncorrectable(ppn, erases)).then_some(oob);
        }
        if !self.bodiless {
            content.extend_from_slice(self.contents.get(place.block, place.page)?);
        }
        Some(oob)
    }

    pub fn heap_bytes(&self) -> usize {
        self.records.len() * size_of::<Record>()
            + self.blocks.len() * size_of::<Block>()
            + self.contents.heap_bytes()
            + self.staging.heap_bytes()
    }

    pub fn wear(&self) -> WearSpread {
        let good = || self.erases_of_good_blocks();
        let count = good().count();
        if count == 0 {
            return WearSpread::default();
        }
        let mean = good().map(f64::from).sum::<f64>() / count as f64;
        let variance = good().map(|erases| (f64::from(erases) - mean).powi(2)).sum::<f64>() / count as f64;
        WearSpread {
            min: good().min().unwrap_or(0),
            max: good().max().unwrap_or(0),
            mean,
            stddev: variance.sqrt(),
        }
    }

    /// Erases of each block that is not bad.
    pub fn erases_of_good_blocks(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.iter().filter(|block| block.flags & BAD == 0).map(|block| block.erases)
    }

    /// A page's name for a message.
    pub fn name(&self, ppn: Ppn) -> String {
        if ppn.0 >= self.geometry.pages() {
            return format!("page {ppn:?} (the device has {} pages)", self.geometry.pages());
        }
        let (block, _) = self.geometry.block_of(ppn);
        let at = self.geometry.address(ppn);
        format!(
            "page {ppn:?} (page {} of {block:?}: channel {}, lun {}, plane {}, superblock {})",
            at.page, at.channel, at.lun, at.plane, at.block
        )
    }

    #[cold]
    #[inline(never)]
    fn refuse_read(&self, ppn: Ppn) -> ! {
        let name = self.name(ppn);
        assert!(ppn.0 < self.geometry.pages(), "read of {name}: outside the device");
        let written = self.blocks[self.layout.place(ppn).block.0 as usize].written;
        panic!("read of {name}: it is not programmed, the block holds {written} pages");
    }

    #[cold]
    #[inline(never)]
    fn refuse_buffer(&self) -> ! {
        panic!("buffer: it holds {}, which is a data page", self.name(self.buffered));
    }

    #[cold]
    #[inline(never)]
    fn refuse_content(&self, ppn: Ppn) -> ! {
        panic!(
            "read of {}: content moved to the page that was copied or patched from it (SimOptions::keep_stale keeps it)",
            self.name(ppn)
        );
    }

    #[cold]
    #[inline(never)]
    fn refuse_erase(&self, block: Pbn) -> ! {
        panic!("erase of {block:?} (superblock {}): it is bad", block.0 / self.geometry.units());
    }

    #[cold]
    #[inline(never)]
    fn refuse_program(&self, ppn: Ppn, oob: Oob) -> ! {
        let name = self.name(ppn);
        assert!(ppn.0 < self.geometry.pages(), "program of {name}: outside the device");
        let place = self.layout.place(ppn);
        let block = self.blocks[place.block.0 as usize];
        assert!(block.flags & BAD == 0, "program of {name}: the block is bad");
        assert!(
            u32::from(block.written) == place.page,
            "program of {name}: the block's next page is {} of {}",
            block.written,
            self.geometry.pages_per_block
        );
        assert!(
            block.kind == oob.kind || block.flags & KIND_SET == 0,
            "program of {name}: a {:?} page in a block of {:?} pages",
            oob.kind,
            block.kind
        );
        assert!(
            block.epoch == oob.epoch || block.flags & KIND_SET == 0,
            "program of {name}: epoch {} in a block of epoch {}",
            oob.epoch,
            block.epoch
        );
        assert!(Record::holds(oob), "program of {name}: {oob:?} is out of the field (a version has 39 bits)");
        panic!("program of {name}: Oob::lost is {}, but only Source::Nothing is lost, and always", oob.lost);
    }

    #[cold]
    #[inline(never)]
    fn refuse_source(&self, ppn: Ppn, oob: Oob, from: Source<'_>, why: &str) -> ! {
        let source = match from {
            Source::Host => "Source::Host".to_string(),
            Source::Buffer(slot) => format!("Source::Buffer, slot {slot},"),
            Source::Nothing => "Source::Nothing".to_string(),
            Source::Metadata(bytes) => format!("Source::Metadata of {} bytes", bytes.len()),
            Source::Page(source) => format!("Source::Page, {},", self.name(source)),
            Source::Patch(source, _) => format!("Source::Patch, {},", self.name(source)),
        };
        panic!("program of {} with {oob:?}: {source} {why}", self.name(ppn));
    }
}
