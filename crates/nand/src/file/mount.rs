//! From the bytes of an image to the array they describe.
//!
//! | step | what | when |
//! | --- | --- | --- |
//! | state | the newer of its two copies | always |
//! | blocks | bad blocks, erases | always |
//! | late | programs and erases after the last durable point, their data checked | not closed in good order |
//! | cut | the longest run of operations without a gap; what lies behind the first gap never was | the same |
//! | pages | OOB of every page | always |
//!
//! A host that loses power has written any part of what was not synced, in any order. The numbers of
//! operations turn that into a cut at one moment, as an array sees it: an operation counts when every one
//! before it does. What makes it possible is that no page of an erased block is written before the erase, and
//! all before it, is durable.

use std::io::IoSlice;
use std::path::Path;
use std::time::{Duration, Instant};

use super::format::{BlockRecord, Found, PageRecord, Places, State, RECORD_BYTES, STATE_AT, STATE_BYTES};
use super::image::{failed, Description, ImageError};
use super::medium::Medium;
use super::FileNand;
use crate::timing::Timing;
use crate::{Geometry, Oob, Pbn, Ppn, SimNand, SimOptions};

/// Bytes of page records read at once, at least.
const CHUNK_BYTES: usize = 1 << 20;

/// What opening an image found.
#[derive(Clone, Debug, Default)]
pub struct Mounted {
    /// It was closed in good order.
    pub clean: bool,
    /// Pages programmed, torn ones included.
    pub pages: u64,
    /// Pages written after the last durable point, whose data were checked.
    pub late_pages: u64,
    /// Pages that a power cut left torn: they are not data.
    pub torn_pages: u64,
    /// Erases that a power cut took back.
    pub undone_erases: u32,
    /// The steps, and how long each took.
    pub steps: Vec<(&'static str, Duration)>,
}

/// A page programmed after the durable point: its record, and its number.
type Late = (PageRecord, u32);

struct Mount<'a, M> {
    medium: &'a M,
    path: &'a Path,
    geometry: &'a Geometry,
    places: Places,
    state: State,
    blocks: Vec<BlockRecord>,
    /// The greatest number of an operation that was met.
    last: u64,
    report: Mounted,
    begun: Instant,
}

/// Reads the image on `medium`.
pub(super) fn mount<T: Timing, M: Medium>(
    medium: M,
    path: &Path,
    description: Description,
    timing: T,
) -> Result<(FileNand<T, M>, Mounted), ImageError> {
    let device = &description.device;
    let geometry = &device.geometry;
    let mut mount = Mount {
        medium: &medium,
        path,
        geometry,
        places: Places::new(geometry),
        state: State::default(),
        blocks: Vec::new(),
        last: 0,
        report: Mounted::default(),
        begun: Instant::now(),
    };
    mount.read_state()?;
    mount.read_blocks()?;
    if !mount.state.clean {
        let (late, damaged) = mount.find_late()?;
        mount.cut(&late, damaged)?;
    }
    let options = SimOptions { factory_bad_ppm: Some(0), ..SimOptions::default() };
    let mut sim = SimNand::new(device, timing, options);
    sim.keep_no_contents();
    let crcs = mount.read_pages(&mut sim)?;
    sim.restored();
    let Mount { places, state, blocks, last, report, .. } = mount;
    let nand = FileNand::assemble(medium, places, state, last, blocks, crcs, sim);
    Ok((nand, report))
}

/// What lies beside the pages of a superblock, from page `first` on.
struct Beside<'a> {
    first: u32,
    records: &'a [u8],
    spare: &'a [u8],
}

impl<M: Medium> Mount<'_, M> {
    fn step(&mut self, name: &'static str) {
        self.report.steps.push((name, self.begun.elapsed()));
        self.begun = Instant::now();
    }

    fn damaged(&self, what: String) -> ImageError {
        ImageError::Damaged { path: self.path.to_owned(), what }
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> Result<(), ImageError> {
        self.medium.read_at(bytes, offset).map_err(failed(self.path, "the image cannot be read"))
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<(), ImageError> {
        let written = self.medium.write_at(&[IoSlice::new(bytes)], offset);
        written.map_err(failed(self.path, "recovery cannot write to the image"))
    }

    fn sync(&self) -> Result<(), ImageError> {
        self.medium.sync().map_err(failed(self.path, "recovery cannot make the image durable"))
    }

    fn read_state(&mut self) -> Result<(), ImageError> {
        if self.medium.read_at(&mut [0], self.places.end - 1).is_err() {
            return Err(self.damaged(format!("the file ends before its {} bytes", self.places.end)));
        }
        let mut states = Vec::new();
        for at in STATE_AT {
            let mut bytes = [0; STATE_BYTES];
            self.read(&mut bytes, at)?;
            states.extend(State::parse(&bytes));
        }
        let newest = states.into_iter().max_by_key(|state| state.generation);
        self.state = newest.ok_or_else(|| self.damaged("neither copy of its state is whole".to_owned()))?;
        self.last = self.state.durable;
        self.report.clean = self.state.clean;
        self.step("state");
        Ok(())
    }

    fn read_blocks(&mut self) -> Result<(), ImageError> {
        let count = self.geometry.blocks();
        let mut bytes = vec![0; RECORD_BYTES * count as usize];
        self.read(&mut bytes, self.places.block(0))?;
        for (block, record) in (0..).zip(bytes.chunks_exact(RECORD_BYTES)) {
            let record = BlockRecord::parse(record, block);
            let record =
                record.ok_or_else(|| self.damaged(format!("the record of block {block} is damaged")))?;
            self.last = self.last.max(record.erased);
            self.blocks.push(record);
        }
        self.step("blocks");
        Ok(())
    }

    /// Calls `each` with the number of the first page of each superblock, in order, the records of its pages,
    /// and their spare bytes, if a page has any; superblocks never written are left out.
    fn superblocks(
        &mut self,
        mut each: impl FnMut(&mut Self, u32, &[u8], &[u8]) -> Result<(), ImageError>,
    ) -> Result<(), ImageError> {
        let mut spare = Vec::new();
        let pages = self.geometry.superblock_pages();
        let superblock_bytes = RECORD_BYTES * pages as usize;
        let at_once = CHUNK_BYTES.div_ceil(superblock_bytes) as u32;
        let mut bytes = vec![0; superblock_bytes * at_once as usize];
        let mut superblock = 0;
        while superblock < self.geometry.superblocks() {
            let count = at_once.min(self.geometry.superblocks() - superblock);
            let chunk = &mut bytes[..superblock_bytes * count as usize];
            self.read(chunk, self.places.page(superblock * pages))?;
            for (at, records) in (superblock..).zip(chunk.chunks_exact(superblock_bytes)) {
                if records.iter().any(|&byte| byte != 0) {
                    let has_spare =
                        records.chunks_exact(RECORD_BYTES).any(|one| PageRecord::spare_in(one) > 0);
                    spare.resize(if has_spare { self.places.spare_bytes * pages as usize } else { 0 }, 0);
                    self.read(&mut spare, self.places.spare(at * pages))?;
                    each(self, at * pages, records, &spare)?;
                }
            }
            superblock += count;
        }
        Ok(())
    }

    /// The pages programmed after the durable point, and those with a record that cannot be read.
    fn find_late(&mut self) -> Result<(Vec<Late>, Vec<u32>), ImageError> {
        let (mut late, mut damaged) = (Vec::new(), Vec::new());
        self.superblocks(|mount, first, records, spare| {
            for (page, bytes) in (first..).zip(records.chunks_exact(RECORD_BYTES)) {
                match PageRecord::parse(bytes, page, mount.spare_of(spare, page - first)) {
                    Found::Page(record) => {
                        mount.last = mount.last.max(record.sequence);
                        if record.sequence > mount.state.durable {
                            late.push((record, page));
                        }
                    }
                    Found::Torn(u64::MAX) => damaged.push(page),
                    Found::Torn(sequence) => mount.last = mount.last.max(sequence),
                    Found::Blank => {}
                }
            }
            Ok(())
        })?;
        self.report.late_pages = late.len() as u64;
        Ok((late, damaged))
    }

    /// The spare bytes of a page of a superblock; none when none of its pages has any.
    fn spare_of<'s>(&self, spare: &'s [u8], index: u32) -> &'s [u8] {
        let bytes = self.places.spare_bytes;
        spare.get(bytes * index as usize..).map_or(&[], |from| &from[..bytes.min(from.len())])
    }

    /// Whether the data of a page are what its record says.
    fn is_whole(&self, record: &PageRecord, page: u32, buffer: &mut [u8]) -> Result<bool, ImageError> {
        self.read(buffer, self.places.data(page))?;
        Ok(record.oob.lost || crc32fast::hash(buffer) == record.data_crc)
    }

    /// Finds the moment of the cut and makes the image one that was cut there.
    fn cut(&mut self, late: &[Late], damaged: Vec<u32>) -> Result<(), ImageError> {
        let mut buffer = vec![0; self.geometry.page_bytes as usize];
        let durable = self.state.durable;
        let erases = self.blocks.iter().map(|block| block.erased).filter(|&erased| erased > durable);
        let mut happened: Vec<u64> = erases.collect();
        for (record, page) in late {
            if self.is_whole(record, *page, &mut buffer)? {
                happened.push(record.sequence);
            }
        }
        self.step("late");
        happened.sort_unstable();
        let run = (durable + 1..).zip(&happened).take_while(|(expected, found)| expected == *found).count();
        let cut = durable + run as u64;
        let torn = late.iter().filter(|(record, _)| record.sequence > cut).map(|&(_, page)| page);
        for page in torn.chain(damaged) {
            self.write(&PageRecord::torn(page, self.last), self.places.page(page))?;
        }
        for block in 0..self.blocks.len() as u32 {
            let record = &mut self.blocks[block as usize];
            if record.erased > cut {
                *record = BlockRecord {
                    erased: record.before,
                    before: 0,
                    erases: record.erases.saturating_sub(1),
                    ..*record
                };
                let bytes = record.bytes(block);
                self.write(&bytes, self.places.block(block))?;
                self.report.undone_erases += 1;
            }
        }
        self.sync()?;
        self.state = State { generation: self.state.generation + 1, durable: self.last, clean: false };
        self.write(&self.state.bytes(), STATE_AT[(self.state.generation % 2) as usize])?;
        self.sync()?;
        self.step("cut");
        Ok(())
    }

    /// Gives `sim` every block and page, and returns the CRCs of the pages' data.
    fn read_pages<T: Timing>(&mut self, sim: &mut SimNand<T>) -> Result<Vec<u32>, ImageError> {
        let mut crcs = vec![0; self.geometry.pages() as usize];
        for (block, record) in (0..).zip(&self.blocks) {
            sim.restore(Pbn(block), record.erases, record.bad, std::iter::empty());
        }
        let units = self.geometry.units();
        self.superblocks(|mount, first, records, spare| {
            for unit in 0..units {
                let (block, _) = mount.geometry.block_of(Ppn(first + unit));
                let beside = Beside { first, records, spare };
                let (found, last) = mount.pages_of(block, first + unit, &beside, &mut crcs, sim);
                mount.report.pages += last as u64;
                let oobs = found.into_iter().take(last);
                mount.report.torn_pages += oobs.clone().filter(Option::is_none).count() as u64;
                sim.restore(block, mount.blocks[block.0 as usize].erases, false, oobs);
            }
            Ok(())
        })?;
        self.step("pages");
        Ok(crcs)
    }

    /// The pages of a block, and how many are spent: up to the last of which there is a trace since the
    /// erase.
    fn pages_of<T: Timing>(
        &self,
        block: Pbn,
        first_of_block: u32,
        beside: &Beside<'_>,
        crcs: &mut [u32],
        sim: &mut SimNand<T>,
    ) -> (Vec<Option<Oob>>, usize) {
        let Beside { first, records, spare } = *beside;
        let erased = self.blocks[block.0 as usize].erased;
        let mut pages = Vec::with_capacity(self.geometry.pages_per_block as usize);
        let mut spent = 0;
        for page in (first_of_block..).step_by(self.geometry.units() as usize) {
            if pages.len() == self.geometry.pages_per_block as usize {
                break;
            }
            let bytes = &records[RECORD_BYTES * (page - first) as usize..][..RECORD_BYTES];
            let spare = self.spare_of(spare, page - first);
            let found = match PageRecord::parse(bytes, page, spare) {
                Found::Page(record) if record.sequence > erased => {
                    crcs[page as usize] = record.data_crc;
                    if record.spare > 0 {
                        sim.restore_spare(Ppn(page), &spare[..usize::from(record.spare)]);
                    }
                    Some(Some(record.oob))
                }
                Found::Torn(sequence) if sequence > erased => Some(None),
                _ => None,
            };
            pages.push(found.flatten());
            if found.is_some() {
                spent = pages.len();
            }
        }
        (pages, spent)
    }
}
