//! [`FileNand`]: the array in an image file, with bytes.
//!
//! The rules, the OOB and the time are those of [`SimNand`], which runs inside; here are the bytes. Layout of
//! the file: docs/format.md, "Image file".
//!
//! **What is durable when.** Operations get consecutive numbers. [`FileNand::land`] writes what was staged;
//! from then on it survives the death of the process. [`Medium::sync`] after it makes it survive a power cut
//! of the host. After either, opening takes the longest run of operations without a gap: see `mount.rs`. So
//! whoever acknowledges a host's request lands first, and whoever promises durability syncs.
//!
//! **Everything but user data is there twice.** Records, spare bytes, and the data of translation and
//! metadata pages have a copy far away, so that damage in one place costs nothing. User data have their CRC:
//! damage in them is an error of their page.
//!
//! **Opening writes nothing.** Until [`FileNand::begin`] what the FTL's recovery programs and erases stays
//! in memory, so an image that cannot be recovered is as it was.
//!
//! **Pages are never overwritten in place.** A page of an erased block is written only when the erase, and
//! all before it, is durable, and when no [`Reader`] from before is left. So bytes can be read without
//! holding the array up.

mod copies;
mod forge;
mod format;
mod held;
mod image;
mod kept;
mod medium;
mod mount;
mod readers;
mod salvage;
mod scrub;
mod stage;
#[cfg(test)]
mod tests;
mod view;
mod vouch;

use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::timing::{AnyTiming, NoClock};
use crate::{
    Class, DataBuffer, Done, Fault, Geometry, Hint, Lpn, Nand, Oob, OpCounts, PageKind, Pbn, Ppn, SimNand,
    SimOptions, Sink, Source, SpareBytes, SpareRefused, WearSpread,
};

use copies::Repair;
use format::{BlockRecord, Boot, PageRecord, Places, State, COPIES, STATE_AT};
use held::Layers;
use stage::Stage;
use vouch::Vouch;

#[doc(hidden)]
pub use forge::forge;
pub use image::{describe, give_name, Description, ImageError};
pub use medium::Medium;
pub use mount::Mounted;
pub use readers::{Fetch, Reader};
pub use salvage::{Salvage, Salvaged};
pub use scrub::{Scrub, Scrubbed};
pub use view::ImageFile;

use readers::{Readers, Rescued};

/// Pages staged before they are written whether or not anybody asks.
const MOST_STAGED: usize = 2048;
/// No page has this number: [`Geometry::check`].
const NO_PAGE: Ppn = Ppn(u32::MAX);

/// Whether the data of a page lie in two places: those that say where others are.
fn is_mirrored(oob: Oob) -> bool {
    oob.kind != PageKind::Data
}

/// The parts of an image with this shape, each under its name: for whoever damages images on purpose.
pub fn image_parts(geometry: &Geometry) -> Vec<(&'static str, Range<u64>)> {
    Places::new(geometry).parts(geometry)
}

/// Where [`Source::Host`] comes from.
#[derive(Clone, Debug)]
enum Host {
    /// Nobody offered anything.
    Nothing,
    /// Pages of zeros, for those who look at OOB alone.
    Blank,
    /// The pages from this LPN on.
    Pages(u32, Bytes),
}

/// A NAND array in an image file. Nothing takes time in it until [`FileNand::with_timing`] says otherwise.
#[derive(Debug)]
pub struct FileNand<M: Medium = ImageFile> {
    sim: SimNand<AnyTiming>,
    medium: Arc<M>,
    places: Places,
    page_bytes: usize,
    state: State,
    /// Number of the last operation.
    sequence: u64,
    /// Erases up to this number are durable, and nobody reads what was before: their blocks may be written.
    reusable: u64,
    /// By PBN.
    blocks: Vec<BlockRecord>,
    /// CRC of the data, by PPN.
    crcs: Vec<u32>,
    vouch: Vouch,
    stage: Stage,
    /// What opening mends. Until [`FileNand::begin`], nothing is written.
    held: Option<Vec<Repair>>,
    /// What was staged earlier, and could not be written yet, or was not to be.
    layers: Layers,
    /// A sync has failed. What was written before it may be lost, and later syncs do not say so.
    sync_failed: bool,
    blank: Bytes,
    /// The controller's page buffer, and which page it holds.
    buffer: Vec<u8>,
    buffered: Ppn,
    host: Host,
    fetches: Vec<Fetch>,
    /// The data buffer: what each slot holds, and its CRC.
    slots: Vec<Option<(Bytes, u32)>>,
    /// Pages that host reads were sent to, with their CRCs, since a reader was started last.
    recent: Vec<(Ppn, u32)>,
    /// Those whose pages were about to be written again.
    rescued: Rescued,
    readers: Arc<Readers>,
    /// Steps of recovery and when each began.
    steps: Vec<(&'static str, Instant)>,
}

impl FileNand {
    /// Makes an image of an erased array: the whole file, or none.
    pub fn create(path: &Path, description: &Description) -> Result<(), ImageError> {
        image::make_file(path, |file| {
            file.set_len(Places::new(&description.device.geometry).end)
                .map_err(image::failed(path, "the image cannot be given its size"))?;
            FileNand::format(file, path, description)
        })
    }

    /// Opens an image for this process alone, and says what was found.
    pub fn open(path: &Path) -> Result<(FileNand, Description, Mounted), ImageError> {
        FileNand::on(ImageFile::new(image::open_file(path, false)?), path)
    }

    /// Opens an image to which nothing is written: what recovery mends and programs stays in memory. Others
    /// may read it at the same time.
    pub fn open_read_only(path: &Path) -> Result<(FileNand, Description, Mounted), ImageError> {
        FileNand::on(ImageFile::read_only(image::open_file(path, true)?), path)
    }
}

impl<M: Medium> FileNand<M> {
    /// Writes an erased array onto a medium of zeros.
    pub fn format(medium: &M, path: &Path, description: &Description) -> Result<(), ImageError> {
        let device = &description.device;
        let places = Places::new(&device.geometry);
        image::write_header(medium, path, description)?;
        let failed = image::failed(path, "the image cannot be written");
        let fresh = SimNand::new(device, NoClock::new(), SimOptions::default());
        for block in (0..device.geometry.blocks()).filter(|&block| fresh.is_bad(Pbn(block))) {
            let record = BlockRecord { bad: true, ..BlockRecord::default() }.bytes(block);
            for copy in 0..COPIES {
                medium.write_at(&[IoSlice::new(&record)], places.block(copy, block)).map_err(&failed)?;
            }
        }
        let state = State { generation: 1, durable: 0, clean: true, vouch: Some(0), boot: Boot::default() };
        for at in STATE_AT[1] {
            medium.write_at(&[IoSlice::new(&state.bytes())], at).map_err(&failed)?;
        }
        // The last byte, so that a medium which grows has its size.
        medium.write_at(&[IoSlice::new(&[0])], places.end - 1).map_err(&failed)?;
        medium.sync().map_err(&failed)
    }

    /// Opens the image on any medium; `path` is its name in errors.
    pub fn on(medium: M, path: &Path) -> Result<(Self, Description, Mounted), ImageError> {
        let description = image::read_header(&medium, path)?;
        let (nand, mounted) = mount::mount(medium, path, description.clone())?;
        Ok((nand, description, mounted))
    }

    fn assemble(
        medium: M,
        places: Places,
        state: State,
        blocks: Vec<BlockRecord>,
        (crcs, vouch): (Vec<u32>, Vouch),
        sim: SimNand<AnyTiming>,
        repairs: Vec<Repair>,
    ) -> Self {
        let page_bytes = sim.geometry().page_bytes as usize;
        let sequence = state.durable;
        FileNand {
            sim,
            medium: Arc::new(medium),
            places,
            page_bytes,
            state,
            sequence,
            reusable: sequence,
            blocks,
            crcs,
            vouch,
            stage: Stage::default(),
            held: Some(repairs),
            layers: Layers::default(),
            sync_failed: false,
            blank: Bytes::from(vec![0; page_bytes]),
            buffer: vec![0; page_bytes],
            buffered: NO_PAGE,
            host: Host::Nothing,
            fetches: Vec::new(),
            slots: Vec::new(),
            recent: Vec::new(),
            rescued: Rescued::default(),
            readers: Arc::new(Readers::default()),
            steps: Vec::new(),
        }
    }

    /// What the pages of a host's write that follows are: `bytes` from `first` on, in whole pages.
    pub fn offer(&mut self, first: Lpn, bytes: Bytes) {
        assert!(bytes.len().is_multiple_of(self.page_bytes), "host data in whole pages");
        self.host = Host::Pages(first.0, bytes);
    }

    /// Takes host data for zeros, where only OOB matters.
    pub fn take_blanks(&mut self) {
        self.host = Host::Blank;
    }

    /// The pages that host reads have been sent to since this was called last: the last one of each LPN
    /// counts.
    pub fn fetches(&mut self) -> std::vec::Drain<'_, Fetch> {
        self.fetches.drain(..)
    }

    /// Starts a reading of bytes beside the array. Pages fetched since the last one was started can be read
    /// until it ends.
    pub fn reader(&mut self) -> Reader<M> {
        self.recent.clear();
        let rescued = std::mem::take(&mut self.rescued);
        Reader::new(self.medium.clone(), self.places, self.readers.clone(), rescued)
    }

    /// Fills `to`, a page long, with the data of a page just fetched.
    pub fn read_now(&self, fetch: &Fetch, to: &mut [u8]) -> io::Result<()> {
        let none = Rescued::default();
        let reader = Reader::new(self.medium.clone(), self.places, self.readers.clone(), none);
        reader.read(std::slice::from_ref(fetch), to)
    }

    /// Writes everything staged: it survives the death of this process. What cannot be written stays staged,
    /// and readable, and is tried again.
    pub fn land(&mut self) -> io::Result<()> {
        if self.held.is_some() {
            return Ok(());
        }
        self.vouch.mark(self.sequence);
        self.land_layers()?;
        self.stage.land(&*self.medium, &self.places)
    }

    /// Pages that wait in memory to be written to the image.
    pub fn staged_pages(&self) -> usize {
        self.stage.pages() + self.layers.pages()
    }

    /// The medium, to be synced without holding the array up.
    pub fn medium(&self) -> Arc<M> {
        self.medium.clone()
    }

    /// The number of the last operation: what [`FileNand::synced`] is told later.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Hears that everything up to operation `sequence` was landed and then synced, and notes it. When the
    /// medium is synced once more, damage to any of that is told from what a power cut left.
    pub fn synced(&mut self, sequence: u64) -> io::Result<()> {
        if sequence <= self.state.durable {
            return Ok(());
        }
        self.record(sequence, false)
    }

    /// Makes everything durable and closes the image in good order; superblocks that are erased give their
    /// space back to the file system.
    pub fn close(mut self) -> io::Result<()> {
        self.begin()?;
        self.land()?;
        self.sync()?;
        self.readers.wait();
        let (units, pages) = (self.geometry().units(), self.geometry().superblock_pages());
        for superblock in 0..self.geometry().superblocks() {
            let erased = |block| self.written(Pbn(block)) == 0;
            if (superblock * units..(superblock + 1) * units).all(erased) {
                let (first, end) = (superblock * pages, (superblock + 1) * pages);
                for place in [Places::data, Places::mirror] {
                    let at = place(&self.places, first);
                    self.medium.punch(at, place(&self.places, end) - at)?;
                }
            }
        }
        self.record(self.sequence, true)?;
        self.sync()
    }

    /// Writes a state. It becomes durable with the next sync.
    fn record(&mut self, durable: u64, clean: bool) -> io::Result<()> {
        let boot = self.medium.boot().unwrap_or_default();
        let vouch = self.vouch.at(durable);
        let state = State { generation: self.state.generation + 1, durable, clean, vouch, boot };
        for at in STATE_AT[(state.generation % 2) as usize] {
            self.medium.write_at(&[IoSlice::new(&state.bytes())], at)?;
        }
        self.state = state;
        Ok(())
    }

    /// Makes erased blocks writable: see the head of this file.
    #[cold]
    fn reclaim(&mut self) -> io::Result<()> {
        let sequence = self.sequence;
        self.vouch.mark(sequence);
        if self.held.is_none() && self.land().is_ok() {
            self.make_durable(sequence)?;
        } else {
            // Also where the file system is full: an operation that has begun goes on in memory.
            self.layers.put_aside(&mut self.stage, sequence);
        }
        self.readers.wait();
        // Reads of this batch have no reader yet: what they were sent to is kept in memory.
        for (ppn, crc) in std::mem::take(&mut self.recent) {
            let mut data = Vec::with_capacity(self.page_bytes);
            if self.load(ppn, &mut data) {
                self.rescued.insert((ppn.0, crc), Bytes::from(data));
            }
        }
        self.reusable = sequence;
        Ok(())
    }

    /// Syncs, and says so in a state: everything landed, up to operation `sequence`, is durable.
    fn make_durable(&mut self, sequence: u64) -> io::Result<()> {
        self.sync()?;
        self.record(sequence, false)?;
        self.sync()
    }

    /// Syncs the medium. Once that has failed it fails for ever: Linux reports a lost page once, and then
    /// takes it for written.
    fn sync(&mut self) -> io::Result<()> {
        if self.sync_failed {
            return Err(io::Error::other("an earlier sync has failed"));
        }
        self.medium.sync().inspect_err(|_| self.sync_failed = true)
    }

    /// The data of a page that are not in the file yet.
    #[inline]
    fn staged(&self, ppn: Ppn) -> Option<&Bytes> {
        self.stage.get(ppn).or_else(|| self.layers.get(ppn))
    }

    /// The data of a page, wherever they are, and whether they are whole.
    fn load(&self, ppn: Ppn, to: &mut Vec<u8>) -> bool {
        to.clear();
        if let Some(staged) = self.staged(ppn) {
            to.extend_from_slice(staged);
            return true;
        }
        to.resize(self.page_bytes, 0);
        let read = self.medium.read_written(to, self.places.data(ppn.0));
        read.is_ok() && crc32fast::hash(to) == self.crcs[ppn.0 as usize] || self.load_mirror(ppn, to)
    }

    /// The same from the copy of a page that holds no user data; the damaged one is mended.
    #[cold]
    fn load_mirror(&self, ppn: Ppn, to: &mut [u8]) -> bool {
        let is_mirrored = self.sim.peek(ppn).is_some_and(is_mirrored);
        let read = is_mirrored && self.medium.read_written(to, self.places.mirror(ppn.0)).is_ok();
        let whole = read && crc32fast::hash(to) == self.crcs[ppn.0 as usize];
        if whole && self.held.is_none() {
            // If it fails, the page is mended when it is read next.
            let _ = self.medium.write_at(&[IoSlice::new(to)], self.places.data(ppn.0));
        }
        whole
    }

    /// The data of a page that becomes another.
    fn taken(&mut self, ppn: Ppn) -> Vec<u8> {
        if self.buffered == ppn {
            self.buffered = NO_PAGE;
            return std::mem::replace(&mut self.buffer, Vec::with_capacity(self.page_bytes));
        }
        let mut data = Vec::with_capacity(self.page_bytes);
        self.load(ppn, &mut data);
        data
    }

    /// What is programmed, and its CRC.
    fn content(&mut self, oob: Oob, from: Source<'_>) -> (Bytes, u32) {
        match from {
            Source::Host => {
                let bytes = self.offered(oob.id);
                let crc = crc32fast::hash(&bytes);
                (bytes, crc)
            }
            // The CRC goes with the data: damage in it is not made good by a copy.
            Source::Page(source) => (Bytes::from(self.taken(source)), self.crcs[source.0 as usize]),
            Source::Patch(source, changes) => {
                let mut data = self.taken(source);
                for &(word, value) in changes {
                    data[4 * word as usize..][..4].copy_from_slice(&value.to_le_bytes());
                }
                let crc = crc32fast::hash(&data);
                (Bytes::from(data), crc)
            }
            Source::Metadata(bytes) => {
                let mut data = Vec::with_capacity(self.page_bytes);
                data.extend_from_slice(bytes);
                data.resize(self.page_bytes, 0);
                let crc = crc32fast::hash(&data);
                (Bytes::from(data), crc)
            }
            Source::Buffer(slot) => match self.slots.get(slot as usize) {
                Some(Some(stored)) => stored.clone(),
                _ => panic!("program from slot {slot}, which holds nothing"),
            },
            Source::Nothing => (self.blank.clone(), 0),
        }
    }

    /// Sends a page to the host's buffer for `lpn`.
    fn send(&mut self, lpn: Lpn, ppn: Ppn, crc: u32, staged: Option<Bytes>) {
        if matches!(self.host, Host::Blank) {
            return;
        }
        // A scheme may read a page in vain before the right one.
        if self.fetches.last().is_some_and(|fetch| fetch.lpn == lpn) {
            self.fetches.pop();
        }
        if ppn != NO_PAGE {
            self.recent.push((ppn, crc));
        }
        self.fetches.push(Fetch { lpn, ppn, crc, staged });
    }

    /// The page that the host offers for `lpn`.
    fn offered(&self, lpn: u32) -> Bytes {
        match &self.host {
            Host::Blank => self.blank.clone(),
            Host::Pages(first, bytes) => {
                let at = lpn.checked_sub(*first).map(|index| index as usize * self.page_bytes);
                let Some(at) = at.filter(|at| at + self.page_bytes <= bytes.len()) else {
                    panic!(
                        "LPN {lpn} is written, but the host offers {} bytes from LPN {first} on",
                        bytes.len()
                    )
                };
                bytes.slice(at..at + self.page_bytes)
            }
            Host::Nothing => panic!("LPN {lpn} is written, but the host offers nothing"),
        }
    }

    /// The steps that recovery took until now, and how long each took.
    pub fn steps(&self) -> Vec<(&'static str, Duration)> {
        let ends = self.steps.iter().skip(1).map(|&(_, begun)| begun).chain([Instant::now()]);
        self.steps.iter().zip(ends).map(|(&(name, begun), end)| (name, end - begun)).collect()
    }

    /// The timing model, for whoever drives its clock.
    pub fn timing(&mut self) -> &mut AnyTiming {
        self.sim.timing()
    }

    /// The same array under another clock, as [`SimNand::with_timing`].
    pub fn with_timing(self, timing: impl Into<AnyTiming>) -> FileNand<M> {
        FileNand { sim: self.sim.with_timing(timing.into()), ..self }
    }

    /// Operations since the image was opened.
    pub fn counts(&self) -> &OpCounts {
        self.sim.counts()
    }

    /// Spread of erase counts over the blocks that are not bad.
    pub fn wear(&self) -> WearSpread {
        self.sim.wear()
    }

    /// The OOB of a page, free of charge, as [`SimNand::peek`]; for checkers alone.
    pub fn peek(&self, ppn: Ppn) -> Option<Oob> {
        self.sim.peek(ppn)
    }

    /// Heap memory of the array's state, bytes.
    pub fn heap_bytes(&self) -> usize {
        let records = self.vouch.heap_bytes() + 4 * self.crcs.len();
        self.sim.heap_bytes() + records + size_of::<BlockRecord>() * self.blocks.len()
    }
}

impl<M: Medium> Nand for FileNand<M> {
    fn geometry(&self) -> &Geometry {
        self.sim.geometry()
    }

    #[inline]
    fn is_bad(&self, block: Pbn) -> bool {
        self.sim.is_bad(block)
    }

    fn read(&mut self, ppn: Ppn, class: Class, to: Sink, after: Done) -> Result<(Oob, Done), Fault> {
        let (oob, done) = self.sim.read(ppn, class, to, after)?;
        match to {
            Sink::Host(lpn) => {
                let staged = self.staged(ppn).cloned();
                self.send(lpn, ppn, self.crcs[ppn.0 as usize], staged);
            }
            Sink::Controller => {
                let mut buffer = std::mem::take(&mut self.buffer);
                let whole = self.load(ppn, &mut buffer);
                self.buffer = buffer;
                if !whole {
                    self.buffered = NO_PAGE;
                    return Err(Fault::Uncorrectable { ppn, done });
                }
                self.buffered = ppn;
            }
            Sink::Buffer(slot) => {
                let mut data = Vec::with_capacity(self.page_bytes);
                if !self.load(ppn, &mut data) {
                    return Err(Fault::Uncorrectable { ppn, done });
                }
                self.slots[slot as usize] = Some((Bytes::from(data), self.crcs[ppn.0 as usize]));
            }
        }
        Ok((oob, done))
    }

    #[inline]
    fn buffer(&self) -> &[u8] {
        assert!(self.buffered != NO_PAGE, "buffer: no page was read into it since it was last used");
        let kind = self.sim.peek(self.buffered).map(|oob| oob.kind);
        assert!(kind != Some(PageKind::Data), "buffer: it holds a page of user data");
        &self.buffer
    }

    #[inline]
    fn written(&self, block: Pbn) -> u32 {
        self.sim.written(block)
    }

    fn scan(&mut self, ppn: Ppn, after: Done) -> Result<(Option<Oob>, Done), Fault> {
        self.sim.scan(ppn, after)
    }

    fn program(
        &mut self,
        ppn: Ppn,
        oob: Oob,
        class: Class,
        from: Source<'_>,
        after: Done,
    ) -> Result<Done, Fault> {
        let (block, _) = self.geometry().block_of(ppn);
        let erased = self.blocks.get(block.0 as usize).map_or(0, |record| record.erased);
        let is_short = self.staged_pages() >= MOST_STAGED;
        // A medium that takes no more is found out by whoever lands what is staged, not here.
        if erased > self.reusable && self.reclaim().is_err() {
            return Err(Fault::Medium);
        }
        if is_short && self.land_or_hold().is_err() && self.staged_pages() >= 8 * MOST_STAGED {
            return Err(Fault::Medium);
        }
        let result = self.sim.program(ppn, oob, class, from, after);
        // A failed program has a number, too: the page is spent from here on.
        self.sequence += 1;
        self.vouch.program(block, ppn, self.sequence);
        if result.is_err() {
            let record = PageRecord::torn(ppn.0, self.sequence);
            self.stage.page(ppn, self.blank.clone(), &record, &[], false);
            return result;
        }
        let (data, data_crc) = self.content(oob, from);
        self.crcs[ppn.0 as usize] = data_crc;
        let spare = self.sim.inspect_spare(ppn);
        let record = PageRecord { sequence: self.sequence, oob, data_crc, spare: spare.len() as u8 };
        let beside =
            if spare.is_empty() { Vec::new() } else { record.beside(ppn.0, spare, self.places.spare_stride) };
        self.stage.page(ppn, data, &record.bytes(ppn.0), &beside, is_mirrored(oob));
        result
    }

    fn erase(&mut self, block: Pbn, after: Done) -> Result<Done, Fault> {
        let done = self.sim.erase(block, after)?;
        self.sequence += 1;
        let record = &mut self.blocks[block.0 as usize];
        *record = BlockRecord {
            erased: self.sequence,
            before: record.erased,
            erases: record.erases.saturating_add(1),
            bad: record.bad,
        };
        self.stage.block(block, *record);
        self.vouch.erase(block, self.sequence);
        if self.buffered != NO_PAGE && self.geometry().block_of(self.buffered).0 == block {
            self.buffered = NO_PAGE;
        }
        Ok(done)
    }

    fn retire(&mut self, block: Pbn) {
        self.sim.retire(block);
        let record = &mut self.blocks[block.0 as usize];
        record.bad = true;
        self.stage.block(block, *record);
    }

    #[inline]
    fn join(&mut self, a: Done, b: Done) -> Done {
        self.sim.join(a, b)
    }

    #[inline]
    fn settle(&mut self) -> Done {
        self.sim.settle()
    }

    #[inline]
    fn compute(&mut self, ns: u64, after: Done) -> Done {
        self.sim.compute(ns, after)
    }

    fn inspect(&self, ppn: Ppn, content: &mut Vec<u8>) -> Option<Oob> {
        let oob = self.sim.inspect(ppn, content)?;
        if oob.kind != PageKind::Data && !self.load(ppn, content) {
            return None;
        }
        Some(oob)
    }

    #[inline]
    fn expect(&self, hint: Hint) {
        self.sim.expect(hint);
    }

    fn begin_step(&mut self, name: &'static str) {
        self.steps.push((name, Instant::now()));
    }

    fn catch_up(&mut self) {
        self.sim.catch_up();
    }
}

impl<M: Medium> DataBuffer for FileNand<M> {
    fn reserve_slots(&mut self, slots: u32) {
        self.sim.reserve_slots(slots);
        self.slots.clear();
        self.slots.resize(slots as usize, None);
    }

    fn store(&mut self, slot: u32, oob: Oob) {
        self.sim.store(slot, oob);
        let data = self.offered(oob.id);
        let crc = crc32fast::hash(&data);
        self.slots[slot as usize] = Some((data, crc));
    }

    fn deliver(&mut self, slot: u32) -> Oob {
        let oob = self.sim.deliver(slot);
        if let Some((data, crc)) = self.slots[slot as usize].clone() {
            self.send(Lpn(oob.id), NO_PAGE, crc, Some(data));
        }
        oob
    }
}

impl<M: Medium> SpareBytes for FileNand<M> {
    fn reserve_spare(&mut self, bytes: u32) -> Result<(), SpareRefused> {
        let room = self.places.spare_bytes as u32;
        if bytes > room {
            return Err(SpareRefused { asked: bytes, room });
        }
        self.sim.reserve_spare(bytes)
    }

    fn attach(&mut self, spare: &[u8]) {
        self.sim.attach(spare);
    }

    fn spare(&self) -> &[u8] {
        self.sim.spare()
    }

    fn inspect_spare(&self, ppn: Ppn) -> &[u8] {
        self.sim.inspect_spare(ppn)
    }
}
