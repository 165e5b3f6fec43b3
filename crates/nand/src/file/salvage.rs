//! What the OOB of single pages proves in an image that cannot be opened.
//!
//! Every readable page of user data tells its LPN and version. The newest version of an LPN is its content,
//! unless a page whose record is lost held a newer one, or it was trimmed since: trims are known to schemes
//! alone. So what is found here is for people to look at, and no device goes on with it.

use std::cmp::Reverse;
use std::path::Path;

use super::format::{
    BlockRecord, Found, PageRecord, Places, State, COPIES, RECORD_BYTES, STATE_AT, STATE_BYTES,
};
use super::image::{self, Description, ImageError};
use super::medium::Medium;
use super::view::ImageFile;
use super::vouch::Then;
use crate::{Lpn, PageKind, Ppn};

/// What can be had of an LPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Salvaged {
    /// No page has its content.
    Nothing,
    /// The newest version that was found.
    Newest,
    /// An older version: the data of the newest one are damaged.
    Older,
    /// All versions that were found are damaged.
    Lost,
}

/// A page that holds a version of an LPN.
#[derive(Debug)]
struct Version {
    lpn: u32,
    version: u64,
    page: u32,
    crc: u32,
}

/// The pages of user data of which an image has records.
#[derive(Debug)]
pub struct Salvage<M: Medium> {
    medium: M,
    description: Description,
    places: Places,
    /// By LPN, the newest version first.
    versions: Vec<Version>,
    unrecorded: u64,
    untraced: bool,
}

impl Salvage<ImageFile> {
    /// Looks through the records of an image. Nothing is written to it.
    pub fn open(path: &Path) -> Result<Salvage<ImageFile>, ImageError> {
        Salvage::on(ImageFile::read_only(image::open_file(path, true)?), path)
    }
}

impl<M: Medium> Salvage<M> {
    /// The same on any medium; `path` is its name in errors.
    pub fn on(medium: M, path: &Path) -> Result<Salvage<M>, ImageError> {
        let description = image::read_header(&medium, path)?;
        let places = Places::new(&description.device.geometry);
        let versions = Vec::new();
        let mut salvage = Salvage { medium, description, places, versions, unrecorded: 0, untraced: false };
        salvage.find();
        salvage.versions.sort_unstable_by_key(|found| (found.lpn, Reverse(found.version), found.page));
        Ok(salvage)
    }

    /// What the image says of itself.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Pages with a record that cannot be read in either copy: what they held, and whether anything, is not
    /// known.
    pub fn unrecorded(&self) -> u64 {
        self.unrecorded
    }

    /// Whether records that were durable are gone, or as they were on an earlier day, and nothing says which:
    /// what is not found may have been there, and what is found may not be the newest.
    pub fn untraced(&self) -> bool {
        self.untraced
    }

    /// Fills `to`, a page long, with what an LPN held.
    pub fn read(&self, lpn: Lpn, to: &mut [u8]) -> Salvaged {
        let begin = self.versions.partition_point(|found| found.lpn < lpn.0);
        let versions = &self.versions[begin..];
        let versions = &versions[..versions.partition_point(|found| found.lpn == lpn.0)];
        let Some(newest) = versions.first() else { return Salvaged::Nothing };
        for found in versions {
            let read = self.medium.read_at(to, self.places.data(found.page));
            if read.is_ok() && crc32fast::hash(to) == found.crc {
                let is_newest = found.version == newest.version;
                return if is_newest { Salvaged::Newest } else { Salvaged::Older };
            }
        }
        Salvaged::Lost
    }

    /// Both copies of a run of records. What the host cannot read counts as never written, like the part of
    /// a file that was cut off.
    fn copies(&self, length: usize, at: impl Fn(usize) -> u64) -> [Vec<u8>; COPIES] {
        [0, 1].map(|copy| {
            let mut bytes = vec![0; length];
            match self.medium.read_at(&mut bytes, at(copy)) {
                Ok(()) => bytes,
                Err(_) => vec![0; length],
            }
        })
    }

    /// The newest state that can be read.
    fn state(&self) -> State {
        let states = STATE_AT.as_flattened().iter().filter_map(|&at| {
            let mut bytes = [0; STATE_BYTES];
            self.medium.read_at(&mut bytes, at).ok()?;
            State::parse(&bytes)
        });
        states.max_by_key(|state| state.generation).unwrap_or_default()
    }

    fn find(&mut self) {
        let geometry = self.description.device.geometry.clone();
        let places = self.places;
        let State { durable, vouch, .. } = self.state();
        let raw = self.copies(RECORD_BYTES * geometry.blocks() as usize, |copy| places.block(copy, 0));
        let newest = |block: u32| {
            let found = record(&raw, block).into_iter().filter_map(|raw| BlockRecord::parse(raw, block));
            found.max_by_key(|record| record.erased).unwrap_or_default()
        };
        let records: Vec<BlockRecord> = (0..geometry.blocks()).map(newest).collect();
        let mut then = Then::new(durable, &records);
        let pages = geometry.superblock_pages();
        for first in (0..geometry.pages()).step_by(pages as usize) {
            let raw = self.copies(RECORD_BYTES * pages as usize, |copy| places.page(copy, first));
            for unit in 0..geometry.units() {
                let (block, _) = geometry.block_of(Ppn(first + unit));
                let record = &records[block.0 as usize];
                // A power cut may have taken the last erase back, and what it waited for.
                let erased = record.erased_by(durable).unwrap_or(record.before);
                self.find_in_block(&raw, first, unit, erased, |page, sequence| {
                    then.page(block, Ppn(page), sequence);
                });
            }
        }
        self.untraced = then.contradicts(vouch);
    }

    /// The pages of one block of the superblock that begins at page `first`, which was erased by operation
    /// `erased`. Tells `each` the number of the operation that spent a page.
    fn find_in_block(
        &mut self,
        raw: &[Vec<u8>; COPIES],
        first: u32,
        unit: u32,
        erased: u64,
        mut each: impl FnMut(u32, u64),
    ) {
        let (units, exported) =
            (self.description.device.geometry.units(), self.description.device.exported_pages);
        let mut unknown = 0;
        for index in 0..self.description.device.geometry.pages_per_block {
            let page = first + index * units + unit;
            let [one, other] = record(raw, page - first).map(|raw| PageRecord::parse(raw, page));
            let found = if other.counts_more_than(&one) { other } else { one };
            if found == Found::Damaged || found.sequence() <= erased {
                // Damaged records are unknown wherever they are.
                match found {
                    Found::Damaged => self.unrecorded += 1,
                    _ => unknown += 1,
                }
                continue;
            }
            // Pages are programmed in order: those before this one held something, too.
            self.unrecorded += unknown;
            unknown = 0;
            each(page, found.sequence());
            if let Found::Page(PageRecord { oob, data_crc: crc, .. }) = found {
                if oob.kind == PageKind::Data && oob.id < exported {
                    self.versions.push(Version { lpn: oob.id, version: oob.version, page, crc });
                }
            }
        }
    }
}

/// Both copies of one of a run of records.
fn record(raw: &[Vec<u8>; COPIES], index: u32) -> [&[u8]; COPIES] {
    let at = RECORD_BYTES * index as usize;
    [&raw[0][at..at + RECORD_BYTES], &raw[1][at..at + RECORD_BYTES]]
}
