//! From the bytes of an image to the array they describe. Nothing is written here: what has to be mended is
//! handed to [`super::FileNand::begin`], which writes it when the FTL's recovery, too, has succeeded.
//!
//! | step | what | when |
//! | --- | --- | --- |
//! | state | the newest of its copies | always |
//! | blocks | bad blocks, erases | always |
//! | late | programs and erases after the last durable point, their data checked | not closed in good order |
//! | cut | the longest run of operations without a gap; what lies behind the first gap never was | the same |
//! | pages | OOB of every page | always |
//!
//! A host that loses power has written any part of what was not synced, in any order. The numbers of
//! operations turn that into a cut at one moment, as an array sees it: an operation counts when every one
//! before it does. What makes it possible is that no page of an erased block is written before the erase, and
//! all before it, is durable.
//!
//! **A tear is proved, everything else is damage.** A record lies in one sector, so a crash leaves the old
//! one or the new one: bytes that are no record are damage, and the other copy counts. Only operations after
//! the durable point can be missing. While the host has not been started anew, even those cannot: the kernel
//! has whatever a dead process wrote, in the order that [`super::stage::Stage::land`] keeps.

use std::path::Path;
use std::time::{Duration, Instant};

use super::copies::{Repair, View};
use super::format::{
    is_one_bit, parse_header, BlockRecord, Boot, Found, PageRecord, Places, State, COPIES, HEADER_AT,
    HEADER_BYTES, RECORD_BYTES, STATE_AT, STATE_BYTES,
};
use super::image::{failed, Description, ImageError};
use super::medium::Medium;
use super::vouch::{Then, Vouch};
use super::FileNand;
use crate::timing::{AnyTiming, NoClock};
use crate::{Geometry, PageKind, Pbn, Ppn, SimNand, SimOptions};

/// Bytes of page records read at once, at least.
const CHUNK_BYTES: usize = 1 << 20;

/// What opening an image found.
#[derive(Clone, Debug, Default)]
pub struct Mounted {
    /// It was closed in good order.
    pub clean: bool,
    /// Since it was written last the host may have lost power: what was not flushed may be missing.
    pub host_restarted: bool,
    /// Pages programmed, torn ones included.
    pub pages: u64,
    /// Pages written after the last durable point. After a new start of the host their data were checked.
    pub late_pages: u64,
    /// Pages that a power cut left torn: they are not data.
    pub torn_pages: u64,
    /// Erases that a power cut took back.
    pub undone_erases: u32,
    /// Copies of records that were damaged, and are restored from the other copy.
    pub healed: u64,
    /// The steps, and how long each took.
    pub steps: Vec<(&'static str, Duration)>,
}

/// A page programmed after the durable point: its record, its number, and whether its spare bytes are there.
type Late = (PageRecord, u32, bool);

/// Greater numbers were never reached by counting.
const MOST_OPERATIONS: u64 = 1 << 62;

struct Mount<'a, M> {
    medium: &'a M,
    path: &'a Path,
    geometry: &'a Geometry,
    places: Places,
    state: State,
    blocks: Vec<BlockRecord>,
    /// What holds now, and what held after the last durable operation.
    vouch: Vouch,
    then: Then,
    /// The greatest number of an operation that was met.
    last: u64,
    /// Operations with greater numbers never were.
    cut: u64,
    repairs: Vec<Repair>,
    report: Mounted,
    begun: Instant,
}

/// Reads the image on `medium`.
pub(super) fn mount<M: Medium>(
    medium: M,
    path: &Path,
    description: Description,
) -> Result<(FileNand<M>, Mounted), ImageError> {
    let device = &description.device;
    let geometry = &device.geometry;
    let mut mount = Mount {
        medium: &medium,
        path,
        geometry,
        places: Places::new(geometry),
        state: State::default(),
        blocks: Vec::new(),
        vouch: Vouch::new(geometry.blocks()),
        then: Then::default(),
        last: 0,
        cut: u64::MAX,
        repairs: Vec::new(),
        report: Mounted::default(),
        begun: Instant::now(),
    };
    mount.compare_headers()?;
    mount.read_state()?;
    mount.read_blocks()?;
    if !mount.state.clean {
        let late = mount.find_late()?;
        mount.cut(&late)?;
    }
    let options = SimOptions { factory_bad_ppm: Some(0), ..SimOptions::default() };
    let mut sim = SimNand::new(device, NoClock::new().into(), options);
    sim.keep_no_contents();
    let crcs = mount.read_pages(&mut sim)?;
    sim.restored();
    mount.check_number(mount.last)?;
    mount.ask_the_vouch()?;
    let Mount { places, mut state, blocks, mut vouch, last, repairs, report, .. } = mount;
    state.durable = last;
    vouch.mark(last);
    let nand = FileNand::assemble(medium, places, state, blocks, (crcs, vouch), sim, repairs);
    Ok((nand, report))
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

    /// The same bytes of both copies.
    fn read_copies(&self, length: usize, at: impl Fn(usize) -> u64) -> Result<[Vec<u8>; COPIES], ImageError> {
        let mut copies = [vec![0; length], vec![0; length]];
        for (copy, bytes) in copies.iter_mut().enumerate() {
            self.read(bytes, at(copy))?;
        }
        Ok(copies)
    }

    /// Notes to write a copy anew.
    fn repair(&mut self, at: u64, bytes: &[u8]) {
        self.repairs.push(Repair { at, bytes: bytes.to_vec() });
    }

    fn compare_headers(&mut self) -> Result<(), ImageError> {
        let copies = self.read_copies(HEADER_BYTES, |copy| HEADER_AT[copy])?;
        if copies[0] != copies[1] {
            let good = usize::from(parse_header(&copies[0]).is_err());
            self.report.healed += 1;
            self.repair(HEADER_AT[1 - good], &copies[good]);
        }
        Ok(())
    }

    fn read_state(&mut self) -> Result<(), ImageError> {
        if self.medium.read_at(&mut [0], self.places.end - 1).is_err() {
            return Err(self.damaged(format!("the file ends before its {} bytes", self.places.end)));
        }
        let mut newest: [Option<State>; 2] = [None; 2];
        for (newest, places) in newest.iter_mut().zip(STATE_AT) {
            for at in places {
                let mut bytes = [0; STATE_BYTES];
                self.read(&mut bytes, at)?;
                let state = State::parse(&bytes);
                self.report.healed += u64::from(state.is_none() && bytes != [0; STATE_BYTES]);
                *newest = [*newest, state].into_iter().flatten().max_by_key(|state| state.generation);
            }
        }
        self.state = match newest {
            [Some(even), Some(odd)] if even.generation > odd.generation => even,
            [_, Some(odd)] if newest[0].is_some() || odd.generation == 1 => odd,
            // Where a newer one may have been nothing tells how far the image was durable.
            _ => return Err(self.damaged("both copies of its state are damaged".to_owned())),
        };
        self.check_number(self.state.durable.max(self.state.generation))?;
        self.last = self.state.durable;
        self.report.clean = self.state.clean;
        let begun_under = Some(self.state.boot).filter(|boot| *boot != Boot::default());
        self.report.host_restarted = begun_under.is_none() || begun_under != self.medium.boot();
        self.step("state");
        Ok(())
    }

    fn read_blocks(&mut self) -> Result<(), ImageError> {
        let length = RECORD_BYTES * self.geometry.blocks() as usize;
        let places = self.places;
        let copies = self.read_copies(length, |copy| places.block(copy, 0))?;
        for block in 0..self.geometry.blocks() {
            let raw = |copy: usize| &copies[copy][RECORD_BYTES * block as usize..][..RECORD_BYTES];
            let found = [0, 1].map(|copy| BlockRecord::parse(raw(copy), block));
            let good = match found {
                [None, None] => {
                    return Err(
                        self.damaged(format!("both copies of the record of block {block} are damaged"))
                    );
                }
                [Some(first), Some(second)] => usize::from(second.counts_more_than(&first)),
                [first, _] => usize::from(first.is_none()),
            };
            if raw(0) != raw(1) {
                let is_late = found[good].is_some_and(|record| record.erased > self.state.durable);
                self.report.healed += u64::from(!is_late || found[1 - good].is_none());
                self.repair(places.block(1 - good, block), raw(good));
            }
            let record = found[good].unwrap_or_default();
            self.last = self.last.max(record.erased);
            self.blocks.push(record);
        }
        self.then = Then::new(self.state.durable, &self.blocks);
        self.step("blocks");
        Ok(())
    }

    /// Calls `each` for each superblock, in order, with what the records of its pages say; superblocks never
    /// written are left out.
    fn superblocks(
        &mut self,
        mut each: impl FnMut(&mut Self, &View<'_>) -> Result<(), ImageError>,
    ) -> Result<(), ImageError> {
        let pages = self.geometry.superblock_pages();
        let superblock_bytes = RECORD_BYTES * pages as usize;
        let at_once = CHUNK_BYTES.div_ceil(superblock_bytes) as u32;
        let places = self.places;
        let mut superblock = 0;
        while superblock < self.geometry.superblocks() {
            let count = at_once.min(self.geometry.superblocks() - superblock);
            let length = superblock_bytes * count as usize;
            let chunks = self.read_copies(length, |copy| places.page(copy, superblock * pages))?;
            for index in 0..count {
                let part =
                    |copy: usize| &chunks[copy][superblock_bytes * index as usize..][..superblock_bytes];
                if [0, 1].iter().all(|&copy| part(copy).iter().all(|&byte| byte == 0)) {
                    continue;
                }
                let first = (superblock + index) * pages;
                let mut view = View::new(first, [part(0), part(1)]);
                if let Some(page) = view.hopeless() {
                    let what = format!("both copies of the record of page {page} are damaged");
                    return Err(self.damaged(what));
                }
                if view.has_spare() {
                    let length = places.spare_stride * pages as usize;
                    view.take_spare(self.read_copies(length, |copy| places.spare(copy, first))?, &places);
                }
                each(self, &view)?;
            }
            superblock += count;
        }
        Ok(())
    }

    /// The pages programmed after the durable point; pages torn since count as programmed.
    fn find_late(&mut self) -> Result<(Vec<Late>, Vec<u64>), ImageError> {
        let (mut late, mut torn) = (Vec::new(), Vec::new());
        self.superblocks(|mount, view| {
            for (page, found) in view.pages() {
                mount.last = mount.last.max(found.sequence());
                if found.sequence() <= mount.state.durable {
                    continue;
                }
                match found {
                    Found::Page(record) => late.push((record, page, view.has_spare_of(page))),
                    _ => torn.push(found.sequence()),
                }
            }
            Ok(())
        })?;
        self.report.late_pages = late.len() as u64;
        Ok((late, torn))
    }

    /// Whether the data of a page were written whole: they are what its record says, in one of the places
    /// where they lie, or else but for one bit, which no power cut leaves.
    fn is_whole(&self, record: &PageRecord, page: u32, buffer: &mut [u8]) -> Result<bool, ImageError> {
        if record.oob.lost {
            return Ok(true);
        }
        let mut is_whole = false;
        let mirror = (record.oob.kind != PageKind::Data).then(|| self.places.mirror(page));
        for at in std::iter::once(self.places.data(page)).chain(mirror) {
            self.read(buffer, at)?;
            let found = crc32fast::hash(buffer);
            is_whole |= found == record.data_crc || is_one_bit(found ^ record.data_crc, buffer.len());
        }
        Ok(is_whole)
    }

    /// Finds the moment of the cut, and takes back the erases after it.
    fn cut(&mut self, (late, torn): &(Vec<Late>, Vec<u64>)) -> Result<(), ImageError> {
        let mut buffer = vec![0; self.geometry.page_bytes as usize];
        let durable = self.state.durable;
        let erases = self.blocks.iter().map(|block| block.erased).filter(|&erased| erased > durable);
        let mut happened: Vec<u64> = erases.chain(torn.iter().copied()).collect();
        for (record, page, has_spare) in late {
            // A dead process had written all of a page before its record.
            let is_there = !self.report.host_restarted;
            if is_there || *has_spare && self.is_whole(record, *page, &mut buffer)? {
                happened.push(record.sequence);
            }
        }
        self.step("late");
        happened.sort_unstable();
        happened.dedup();
        let run = (durable + 1..).zip(&happened).take_while(|(expected, found)| expected == *found).count();
        self.cut = durable + run as u64;
        for block in 0..self.blocks.len() as u32 {
            let record = self.blocks[block as usize];
            if record.erased > self.cut {
                let undone = BlockRecord {
                    erased: record.before,
                    before: 0,
                    erases: record.erases.saturating_sub(1),
                    ..record
                };
                self.blocks[block as usize] = undone;
                for copy in 0..COPIES {
                    self.repair(self.places.block(copy, block), &undone.bytes(block));
                }
                self.report.undone_erases += 1;
            }
        }
        self.step("cut");
        Ok(())
    }

    /// Gives `sim` every block and page, and returns the CRCs of the pages' data.
    fn read_pages(&mut self, sim: &mut SimNand<AnyTiming>) -> Result<Vec<u32>, ImageError> {
        let mut crcs = vec![0; self.geometry.pages() as usize];
        for (block, record) in (0..).zip(&self.blocks) {
            self.vouch.erase(Pbn(block), record.erased);
            sim.restore(Pbn(block), record.erases, record.bad, std::iter::empty());
        }
        let units = self.geometry.units();
        let mut restored = Vec::with_capacity(self.geometry.pages_per_block as usize);
        self.superblocks(|mount, view| {
            for unit in 0..units {
                let (block, _) = mount.geometry.block_of(Ppn(view.first + unit));
                mount.pages_of(block, view.first + unit, view, &mut restored)?;
                mount.report.pages += restored.len() as u64;
                for (page, record) in (view.first + unit..).step_by(units as usize).zip(&restored) {
                    let Some(record) = record else {
                        mount.report.torn_pages += 1;
                        continue;
                    };
                    crcs[page as usize] = record.data_crc;
                    if record.spare > 0 {
                        sim.restore_spare(Ppn(page), view.spare_of(page, record));
                    }
                }
                let oobs = restored.iter().map(|record| record.as_ref().map(|record| record.oob));
                sim.restore(block, mount.blocks[block.0 as usize].erases, false, oobs);
            }
            Ok(())
        })?;
        self.step("pages");
        Ok(crcs)
    }

    /// Refuses numbers of operations with which there is no counting on.
    fn check_number(&self, most: u64) -> Result<(), ImageError> {
        if most > MOST_OPERATIONS {
            return Err(self.damaged("it counts more operations than any device can do".to_owned()));
        }
        Ok(())
    }

    /// Compares the records with the digest of them that the state has: what was durable must be there.
    fn ask_the_vouch(&self) -> Result<(), ImageError> {
        if self.then.contradicts(self.state.vouch) {
            let what = "records of pages or blocks that were durable are lost, or older than they were";
            return Err(self.damaged(what.to_owned()));
        }
        Ok(())
    }

    /// The pages of a block that are spent, up to the last of which there is a trace since the erase; `None`
    /// for a torn one.
    fn pages_of(
        &mut self,
        block: Pbn,
        first_of_block: u32,
        view: &View<'_>,
        pages: &mut Vec<Option<PageRecord>>,
    ) -> Result<(), ImageError> {
        let erased = self.blocks[block.0 as usize].erased;
        let units = self.geometry.units();
        let page_at = |index: usize| first_of_block + index as u32 * units;
        pages.clear();
        let (mut spent, mut sure) = (0, 0);
        for index in 0..self.geometry.pages_per_block as usize {
            let page = page_at(index);
            let found = view.found(page);
            let is_since = found.sequence() > erased;
            let whole = match found {
                Found::Page(record) if is_since && record.sequence <= self.cut => Some(record),
                _ => None,
            };
            if whole.is_some_and(|record| record.spare > 0) && !view.has_spare_of(page) {
                return Err(
                    self.damaged(format!("both copies of the spare bytes of page {page} are damaged"))
                );
            }
            pages.push(whole);
            self.then.page(block, Ppn(page), found.sequence());
            if is_since {
                spent = index + 1;
            }
            if is_since && found.sequence() <= self.state.durable {
                sure = index + 1;
            }
        }
        pages.truncate(spent);
        for (index, whole) in pages.iter().enumerate() {
            let page = page_at(index);
            let found = view.found(page);
            let was_torn = matches!(found, Found::Torn(sequence) if sequence > erased);
            if whole.is_none() && !was_torn && index < sure {
                return Err(self.damaged(format!("both copies of the record of page {page} are lost")));
            }
            let torn = (whole.is_none() && !was_torn).then(|| PageRecord::torn(page, self.last));
            let sequence = if torn.is_some() { self.last } else { found.sequence() };
            self.vouch.program(block, Ppn(page), sequence);
            self.mend(view, page, torn);
        }
        for index in spent..self.geometry.pages_per_block as usize {
            self.mend(view, page_at(index), None);
        }
        Ok(())
    }

    /// Makes the copies of the record of a page alike, and those of its spare bytes: as the better one is, or
    /// torn.
    fn mend(&mut self, view: &View<'_>, page: u32, torn: Option<[u8; RECORD_BYTES]>) {
        let places = self.places;
        let (copies, best) = (view.copies(page), view.best(page));
        for (copy, bytes) in copies.iter().enumerate() {
            let right = torn.as_ref().map_or(copies[best], |torn| &torn[..]);
            if *bytes != right {
                // What is durable is so in both copies.
                let is_late = view.found(page).sequence() > self.state.durable;
                let is_damage = !is_late || PageRecord::parse(bytes, page) == Found::Damaged;
                self.report.healed += u64::from(torn.is_none() && is_damage);
                self.repair(places.page(copy, page), right);
            }
        }
        if torn.is_none() {
            for (copy, beside) in view.spare_to_mend(page) {
                self.report.healed += u64::from(view.found(page).sequence() <= self.state.durable);
                self.repair(places.spare(copy, page), &beside);
            }
        }
    }
}
