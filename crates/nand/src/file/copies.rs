//! The two copies of the records of a superblock: which one counts, and what has to be mended.

use super::format::{Found, PageRecord, Places, COPIES, RECORD_BYTES};

/// Bytes to be written to an image before it is used.
#[derive(Debug)]
pub(super) struct Repair {
    pub at: u64,
    pub bytes: Vec<u8>,
}

/// What the records of the pages of a superblock say.
pub(super) struct View<'a> {
    /// PPN of the first page of the superblock.
    pub first: u32,
    raw: [&'a [u8]; COPIES],
    /// By page: what is found, and in which copy.
    found: Vec<(Found, usize)>,
    /// What lies beside the pages, in each copy; empty when no page has spare bytes.
    beside: [Vec<u8>; COPIES],
    stride: usize,
}

impl<'a> View<'a> {
    /// The records of the pages from `first` on, in each copy.
    pub fn new(first: u32, raw: [&'a [u8]; COPIES]) -> View<'a> {
        let found = (first..).zip(raw[0].chunks_exact(RECORD_BYTES).zip(raw[1].chunks_exact(RECORD_BYTES)));
        let found = found.map(|(page, (one, other))| {
            let known = PageRecord::parse(one, page);
            if one == other {
                return (known, 0);
            }
            let second = PageRecord::parse(other, page);
            if second.counts_more_than(&known) {
                (second, 1)
            } else {
                (known, 0)
            }
        });
        View { first, raw, found: found.collect(), beside: Default::default(), stride: 0 }
    }

    /// A page of which no copy can be read.
    pub fn hopeless(&self) -> Option<u32> {
        self.pages().find(|(_, found)| *found == Found::Damaged).map(|(page, _)| page)
    }

    /// Whether any page has spare bytes.
    pub fn has_spare(&self) -> bool {
        self.found.iter().any(|(found, _)| matches!(found, Found::Page(record) if record.spare > 0))
    }

    /// Takes what lies beside the pages.
    pub fn take_spare(&mut self, beside: [Vec<u8>; COPIES], places: &Places) {
        (self.beside, self.stride) = (beside, places.spare_stride);
    }

    /// The pages and what is found of each.
    pub fn pages(&self) -> impl Iterator<Item = (u32, Found)> + use<'_> {
        (self.first..).zip(self.found.iter().map(|&(found, _)| found))
    }

    fn index(&self, page: u32) -> usize {
        (page - self.first) as usize
    }

    pub fn found(&self, page: u32) -> Found {
        self.found[self.index(page)].0
    }

    /// The copy that counts.
    pub fn best(&self, page: u32) -> usize {
        self.found[self.index(page)].1
    }

    /// The record's bytes in each copy.
    pub fn copies(&self, page: u32) -> [&'a [u8]; COPIES] {
        self.raw.map(|raw| &raw[RECORD_BYTES * self.index(page)..][..RECORD_BYTES])
    }

    fn beside(&self, copy: usize, page: u32) -> &[u8] {
        self.beside[copy].get(self.stride * self.index(page)..).map_or(&[], |from| &from[..self.stride])
    }

    /// The spare bytes of a page with this record; none when no copy has them.
    pub fn spare_of(&self, page: u32, record: &PageRecord) -> &[u8] {
        let of = |copy| record.spare_in(page, self.beside(copy, page));
        of(0).or_else(|| of(1)).unwrap_or_default()
    }

    /// Whether the spare bytes of a page are there, if it has any.
    pub fn has_spare_of(&self, page: u32) -> bool {
        match self.found(page) {
            Found::Page(record) => self.spare_of(page, &record).len() == usize::from(record.spare),
            _ => true,
        }
    }

    /// Copies of a page's spare bytes that are not as they should be, and what lies beside the page then.
    pub fn spare_to_mend(&self, page: u32) -> Vec<(usize, Vec<u8>)> {
        let Found::Page(record) = self.found(page) else { return Vec::new() };
        let spare = self.spare_of(page, &record);
        if record.spare == 0 || spare.len() != usize::from(record.spare) {
            return Vec::new();
        }
        let wrong = (0..COPIES).filter(|&copy| record.spare_in(page, self.beside(copy, page)).is_none());
        wrong.map(|copy| (copy, record.beside(page, spare, self.stride))).collect()
    }
}
