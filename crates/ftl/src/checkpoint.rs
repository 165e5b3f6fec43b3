//! The trim journal and checkpoints: what makes recovery short, and trims durable.
//!
//! Both live in metadata superblocks. A checkpoint records the directory at a moment when no mapping in
//! memory is newer than its translation page, and how far each stream had come: what was programmed before
//! need not be searched. Between checkpoints every trim is journaled before a flush completes and before
//! anything is erased. Recovery applies to the checkpoint what it finds in OOB and journal after it.
//!
//! Byte layout: docs/format.md.

use crate::counters::Cause;
use crate::flash::{Content, Flash};
use crate::space::Stream;
use nand::{Done, Lpn, Nand, PageKind, Ppn, Result, Source};

const MAGIC_CHECKPOINT: u32 = 0x4b43_5446; // "FTCK"
pub(crate) const MAGIC_JOURNAL: u32 = 0x4a54_5446; // "FTTJ"
pub(crate) const MAGIC_MODELS: u32 = 0x4f4d_5446; // "FTMO"
pub(crate) const FORMAT: u32 = 1;
/// Bytes before the payload of every metadata page.
pub(crate) const HEADER: usize = 32;
/// Bytes of a trim record: first LPN, pages, version.
pub(crate) const RECORD: usize = 16;
/// Bytes of a frontier record: epoch and next PPN. The epoch, unlike the superblock, says which opening is
/// meant: a retired block keeps pages of an older one.
const FRONTIER: usize = 8;
/// Streams whose frontiers a checkpoint records.
const FRONTIERS: [Stream; 3] = [Stream::HOST, Stream::COLLECTION, Stream::TRANSLATION];
/// With this many pages left, the metadata superblock is changed before more trims are taken.
const MARGIN: u32 = 4;

/// Pages trimmed at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// First LPN of the trimmed range.
    pub first: Lpn,
    /// Length of the range, pages.
    pub pages: u32,
    /// The version of having no content.
    pub version: u64,
}

/// Trims that are not durable yet, and the metadata superblocks in use.
#[derive(Clone, Debug)]
pub struct Journal {
    pending: Vec<Trim>,
    per_page: usize,
    pub(crate) superblocks: Vec<u32>,
    pub(crate) pages: Vec<Ppn>,
    buffer: Vec<u8>,
}

impl Journal {
    /// An empty journal on a device with flash pages of so many bytes.
    pub fn new(page_bytes: u32) -> Journal {
        let per_page = (page_bytes as usize - HEADER) / RECORD;
        Journal {
            pending: Vec::with_capacity(per_page),
            per_page,
            superblocks: Vec::new(),
            pages: Vec::new(),
            buffer: vec![0; page_bytes as usize],
        }
    }

    /// Whether a checkpoint should make room before more trims are taken.
    pub fn is_nearly_full<N: Nand>(&self, flash: &Flash<N>) -> bool {
        flash.space.left(Stream::METADATA) < MARGIN
    }

    /// Records a trim that has just been made.
    pub fn trimmed<N: Nand>(&mut self, flash: &mut Flash<N>, first: Lpn, pages: u32) -> Result<()> {
        let version = flash.next_version();
        self.pending.push(Trim { first, pages, version });
        if self.pending.len() == self.per_page {
            self.write_pending(flash)?;
        }
        Ok(())
    }

    /// Programs the trims that no page holds yet. They are durable when [`Flash::settle`] is reached.
    pub fn write_pending<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let version = flash.version();
        header(&mut self.buffer, MAGIC_JOURNAL, self.pending.len() as u32, 0, 1, version);
        for (trim, at) in self.pending.iter().zip((HEADER..).step_by(RECORD)) {
            put32(&mut self.buffer, at, trim.first.0);
            put32(&mut self.buffer, at + 4, trim.pages);
            put64(&mut self.buffer, at + 8, trim.version);
        }
        let length = HEADER + self.pending.len() * RECORD;
        // Without room for the page the trims are not durable, and the next flush says so, too.
        self.program(flash, length, Done::READY)?;
        self.pending.clear();
        Ok(())
    }

    fn program<N: Nand>(&mut self, flash: &mut Flash<N>, length: usize, at: Done) -> Result<Done> {
        let check = crc32(&self.buffer[8..length]);
        put32(&mut self.buffer, 4, check);
        let content = Content::version(flash.next_metadata_version());
        let id = self.pages.len() as u32;
        let from = Source::Metadata(&self.buffer[..length]);
        let (ppn, done) =
            flash.program(Stream::METADATA, PageKind::Metadata, id, content, from, Cause::Checkpoint, at)?;
        let superblock = flash.nand().geometry().superblock_of(ppn);
        // After a recovery the superblock that is written need not be the last one here.
        if !self.superblocks.contains(&superblock) {
            self.superblocks.push(superblock);
        }
        self.pages.push(ppn);
        Ok(done)
    }
}

/// Writes a checkpoint of a directory after `at`, and erases the metadata superblocks that it makes obsolete.
/// No mapping in memory may be newer than its translation page, and no collection under way.
pub(crate) fn write<N: Nand>(
    flash: &mut Flash<N>,
    mut words: impl ExactSizeIterator<Item = u32>,
    journal: &mut Journal,
    at: Done,
) -> Result<Done> {
    let obsolete = std::mem::take(&mut journal.superblocks);
    let obsolete_pages = std::mem::take(&mut journal.pages);
    journal.pending.clear();
    flash.space.close(Stream::METADATA);
    // Further streams are not recorded: what they have left is given up, and collected one day.
    for stream in flash.space.further_streams() {
        flash.space.close(stream);
    }
    for stream in FRONTIERS {
        // The search begins at a frontier: what lies beyond it must be newer than the checkpoint, and what is
        // newer must lie beyond it.
        if flash.space.is_uneven(flash.nand(), stream) {
            flash.space.close(stream);
        }
    }
    let settled = flash.settle();
    let at = flash.join(at, settled);
    let frontiers = FRONTIERS.map(|stream| flash.space.frontier(stream));
    let version = flash.version();
    let epoch = flash.space.epoch();
    let per_page = entries_per_page(journal.buffer.len());
    let pages = words.len().div_ceil(per_page).max(1);
    for page in 0..pages {
        let count = per_page.min(words.len());
        header(&mut journal.buffer, MAGIC_CHECKPOINT, count as u32, page as u32, pages as u32, version);
        put32(&mut journal.buffer, HEADER, epoch);
        for (i, frontier) in frontiers.iter().enumerate() {
            let record = frontier.map(|(superblock, next)| (flash.space.epoch_of(superblock), next.0));
            let (opening, next) = record.unwrap_or((u32::MAX, u32::MAX));
            put32(&mut journal.buffer, HEADER + 4 + i * FRONTIER, opening);
            put32(&mut journal.buffer, HEADER + 8 + i * FRONTIER, next);
        }
        for (at, word) in (FIXED..).step_by(4).zip(words.by_ref().take(count)) {
            put32(&mut journal.buffer, at, word);
        }
        journal.program(flash, FIXED + count * 4, at)?;
    }
    let durable = flash.settle();
    for ppn in obsolete_pages {
        flash.invalidate(ppn);
    }
    for superblock in obsolete {
        flash.space.collect(superblock);
        flash.erase(superblock, Cause::Checkpoint, durable)?;
    }
    Ok(durable)
}

/// Writes what a mapping has learned beside the checkpoint just written, so that an orderly start need not
/// learn it again. It is as durable as the checkpoint when the completion is reached. Left out when the
/// metadata superblock has no room for it: nothing depends on it.
pub fn write_models<N: Nand>(
    flash: &mut Flash<N>,
    journal: &mut Journal,
    models: &[u8],
    at: Done,
) -> Result<Done> {
    let per_page = journal.buffer.len() - HEADER;
    let pages = models.len().div_ceil(per_page);
    if pages + MARGIN as usize > flash.space.left(Stream::METADATA) as usize {
        return Ok(at);
    }
    let version = flash.version();
    for (page, part) in models.chunks(per_page).enumerate() {
        header(&mut journal.buffer, MAGIC_MODELS, part.len() as u32, page as u32, pages as u32, version);
        journal.buffer[HEADER..HEADER + part.len()].copy_from_slice(part);
        journal.program(flash, HEADER + part.len(), at)?;
    }
    Ok(flash.settle())
}

/// Bytes before the directory entries of a checkpoint page: header, epoch, frontiers.
const FIXED: usize = HEADER + 4 + FRONTIERS.len() * FRONTIER;

fn entries_per_page(page_bytes: usize) -> usize {
    (page_bytes - FIXED) / 4
}

/// A metadata page as recovery reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Journal(Vec<Trim>),
    Checkpoint {
        /// Which page of the checkpoint, of how many.
        page: u32,
        pages: u32,
        /// Which checkpoint: the version at its moment.
        version: u64,
        epoch: u32,
        /// Epoch of the superblock and next PPN of each recorded stream that had one open.
        frontiers: Vec<(u32, Ppn)>,
        /// The directory entries on this page.
        entries: Vec<u32>,
    },
    Models {
        /// Which page of the models, of how many.
        page: u32,
        pages: u32,
        /// The version at the moment of the checkpoint that they belong to.
        version: u64,
        bytes: Vec<u8>,
    },
}

/// Reads a metadata page; `None` when it is not one of ours, or damaged.
pub(crate) fn parse(content: &[u8]) -> Option<Page> {
    let (magic, count) = (get32(content, 0), get32(content, 12) as usize);
    let (page, pages, version) = (get32(content, 16), get32(content, 20), get64(content, 24));
    let length = match magic {
        MAGIC_JOURNAL => HEADER.checked_add(count.checked_mul(RECORD)?)?,
        MAGIC_MODELS => HEADER.checked_add(count)?,
        MAGIC_CHECKPOINT => FIXED.checked_add(count.checked_mul(4)?)?,
        _ => return None,
    };
    if get32(content, 8) != FORMAT
        || length > content.len()
        || get32(content, 4) != crc32(&content[8..length])
    {
        return None;
    }
    if magic == MAGIC_MODELS {
        return Some(Page::Models { page, pages, version, bytes: content[HEADER..length].to_vec() });
    }
    if magic == MAGIC_JOURNAL {
        let trims = (0..count).map(|i| HEADER + i * RECORD).map(|at| Trim {
            first: Lpn(get32(content, at)),
            pages: get32(content, at + 4),
            version: get64(content, at + 8),
        });
        return Some(Page::Journal(trims.collect()));
    }
    let frontiers = (0..FRONTIERS.len())
        .map(|i| (get32(content, HEADER + 4 + i * FRONTIER), get32(content, HEADER + 8 + i * FRONTIER)))
        .filter(|&(opening, _)| opening != u32::MAX)
        .map(|(opening, next)| (opening, Ppn(next)))
        .collect();
    Some(Page::Checkpoint {
        page,
        pages,
        version,
        epoch: get32(content, HEADER),
        frontiers,
        entries: (0..count).map(|i| get32(content, FIXED + i * 4)).collect(),
    })
}

pub(crate) fn header(buffer: &mut [u8], magic: u32, count: u32, page: u32, pages: u32, version: u64) {
    buffer.fill(0);
    put32(buffer, 0, magic);
    put32(buffer, 8, FORMAT);
    put32(buffer, 12, count);
    put32(buffer, 16, page);
    put32(buffer, 20, pages);
    put64(buffer, 24, version);
}

pub(crate) fn put32(buffer: &mut [u8], at: usize, value: u32) {
    buffer[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put64(buffer: &mut [u8], at: usize, value: u64) {
    buffer[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn get32(buffer: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([buffer[at], buffer[at + 1], buffer[at + 2], buffer[at + 3]])
}

pub(crate) fn get64(buffer: &[u8], at: usize) -> u64 {
    u64::from(get32(buffer, at)) | u64::from(get32(buffer, at + 4)) << 32
}

/// Where a page stands in what takes several: a checkpoint, or models.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Which page of how many.
    pub page: u32,
    pub pages: u32,
    /// Version of the whole. Two may have the same: a collection gives pages no new one.
    pub version: u64,
    /// Version of the page, as metadata.
    pub number: u64,
}

/// The pages of one checkpoint, or of its models, that recovery has met so far.
#[derive(Debug)]
pub(crate) struct Parts<P> {
    before: Option<Place>,
    parts: Vec<P>,
}

impl<P> Parts<P> {
    pub fn new() -> Parts<P> {
        Parts { before: None, parts: Vec::new() }
    }

    /// Takes the page that was written next, and returns all when it is the last one. Power cuts may have
    /// broken off two wholes of the same version: pages of one have numbers in a row.
    pub fn take(&mut self, place: Place, part: P) -> Option<Vec<P>> {
        let goes_on = |before: Place| {
            (before.version, before.number + 1, before.page + 1) == (place.version, place.number, place.page)
        };
        if !self.before.take().is_some_and(goes_on) {
            self.parts.clear();
            if place.page > 0 {
                return None;
            }
        }
        self.parts.push(part);
        if place.page + 1 >= place.pages {
            return Some(std::mem::take(&mut self.parts));
        }
        self.before = Some(place);
        None
    }
}

pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmt::tests::small_flash;
    use crate::recover::Recovery;
    use nand::timing::NoClock;
    use nand::SimNand;

    /// A flash with checkpoints of one version, each with models beside it or without. Power was cut before
    /// any of them was erased.
    fn with_checkpoints(checkpoints: &[Option<&[u8]>]) -> Flash<SimNand<NoClock>> {
        let mut flash = small_flash();
        flash.next_version();
        for models in checkpoints {
            let mut journal = Journal::new(512);
            let written = write(&mut flash, [7].into_iter(), &mut journal, Done::READY).unwrap();
            if let Some(models) = models {
                write_models(&mut flash, &mut journal, models, written).unwrap();
            }
        }
        flash
    }

    #[test]
    fn pages_of_two_checkpoints_of_one_version_make_no_third_one() {
        let take = |pages: &[(u32, u64, u64)]| {
            let mut parts = Parts::new();
            let place = |&(page, version, number)| Place { page, pages: 3, version, number };
            pages.iter().filter_map(|page| parts.take(place(page), page.2)).collect::<Vec<_>>()
        };
        assert_eq!(take(&[(0, 5, 61), (1, 5, 62), (2, 5, 63)]), [[61, 62, 63]]);
        assert!(take(&[(0, 5, 61), (1, 6, 62), (2, 6, 63)]).is_empty(), "two versions");
        assert!(take(&[(1, 5, 61), (2, 5, 62)]).is_empty(), "no first page");
        // The first cut lost pages 62 and 63, the second one the new 62.
        assert!(take(&[(0, 5, 61), (1, 5, 63), (2, 5, 64)]).is_empty(), "the first page is of another");
        assert!(take(&[(0, 5, 61), (1, 5, 62), (2, 5, 65)]).is_empty(), "so are two");
        let both =
            take(&[(0, 5, 61), (0, 5, 62), (1, 5, 63), (2, 5, 64), (0, 5, 65), (1, 5, 66), (2, 5, 67)]);
        assert_eq!(both, [[62, 63, 64], [65, 66, 67]]);
    }

    fn learned(flash: &mut Flash<SimNand<NoClock>>) -> Option<Vec<u8>> {
        Recovery::scan(flash, &mut Journal::new(512), 100, 1).unwrap().learned()
    }

    fn learned_after(checkpoints: &[Option<&[u8]>]) -> Option<Vec<u8>> {
        learned(&mut Flash::new(with_checkpoints(checkpoints).into_nand()))
    }

    #[test]
    fn models_belong_to_the_checkpoint_before_them_and_to_no_later_one_of_its_version() {
        let (first, second): (&[u8], &[u8]) = (&[1; 700], &[2; 600]);
        assert_eq!(learned_after(&[Some(first)]).as_deref(), Some(first));
        assert_eq!(learned_after(&[Some(first), Some(second)]).as_deref(), Some(second));
        assert_eq!(learned_after(&[Some(first), None]), None);
    }

    #[test]
    fn models_are_not_taken_over_where_lost_translation_pages_are_made_anew() {
        let mut flash = with_checkpoints(&[Some(&[1; 700])]);
        flash.restart();
        assert_eq!(learned(&mut flash), None);
    }
}
