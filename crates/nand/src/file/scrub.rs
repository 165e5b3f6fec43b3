//! Reading all of an image to see whether it is whole, a few pages at a time and beside whoever uses it.
//!
//! Records and spare bytes are compared while nobody else is in the array. The data are read afterwards,
//! beside it. What has another copy that is whole is mended from it.

use std::io::{self, IoSlice};
use std::ops::Range;

use super::copies::View;
use super::format::{Found, RECORD_BYTES};
use super::medium::Medium;
use super::readers::{Fetch, Reader, Rescued};
use super::{is_mirrored, FileNand};
use crate::{Lpn, Oob, Ppn};

/// What reading pages has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Pages that hold something.
    pub pages: u64,
    /// Damaged copies, the other copy of which is whole: of records, of spare bytes, and of the data of
    /// translation and metadata pages.
    pub mendable: u64,
    /// Records both copies of which are damaged. The array has them in memory; the next start will not.
    pub unrecorded: u64,
    /// Pages whose data are damaged for good.
    pub lost: Vec<(Ppn, Oob)>,
}

impl Scrubbed {
    /// Adds what was found elsewhere.
    pub fn add(&mut self, other: Scrubbed) {
        self.pages += other.pages;
        self.mendable += other.mendable;
        self.unrecorded += other.unrecorded;
        self.lost.extend(other.lost);
    }
}

/// Pages whose data are to be read. They stay as they are until this is gone.
#[derive(Debug)]
pub struct Scrub<M: Medium> {
    reader: Reader<M>,
    pages: Vec<(Fetch, Oob)>,
    page_bytes: usize,
    found: Scrubbed,
}

impl<M: Medium> FileNand<M> {
    /// Begins with the pages from `pages.start` to `pages.end`: compares the copies of their records and
    /// spare bytes, and mends them.
    pub fn scrub(&mut self, pages: Range<u32>) -> io::Result<Scrub<M>> {
        self.begin()?;
        self.land()?;
        let mut found = Scrubbed::default();
        self.scrub_records(pages.clone(), &mut found)?;
        let mut fetches = Vec::new();
        for ppn in pages.map(Ppn) {
            if let Some(oob) = self.sim.peek(ppn) {
                let crc = self.crcs[ppn.0 as usize];
                fetches.push((Fetch { lpn: Lpn(oob.id), ppn, crc, staged: None }, oob));
            }
        }
        // While it is there, no page is written again.
        let reader = Reader::new(self.medium.clone(), self.places, self.readers.clone(), Rescued::default());
        Ok(Scrub { reader, pages: fetches, page_bytes: self.page_bytes, found })
    }

    /// Mends what [`Scrub::read`] gave: the data of pages that lie in two places.
    pub fn mend(&mut self, pages: &[Ppn]) -> io::Result<()> {
        let mut data = Vec::with_capacity(self.page_bytes);
        for &ppn in pages {
            // It may have been erased since.
            let is_there = self.sim.peek(ppn).is_some_and(is_mirrored) && self.staged(ppn).is_none();
            if is_there && self.load(ppn, &mut data) {
                for at in [self.places.data(ppn.0), self.places.mirror(ppn.0)] {
                    self.medium.write_at(&[IoSlice::new(&data)], at)?;
                }
            }
        }
        Ok(())
    }

    fn scrub_records(&self, pages: Range<u32>, found: &mut Scrubbed) -> io::Result<()> {
        let places = self.places;
        let read = |length: usize, at: u64| {
            let mut bytes = vec![0; length];
            self.medium.read_at(&mut bytes, at).map(|()| bytes)
        };
        let count = pages.len();
        let first = read(RECORD_BYTES * count, places.page(0, pages.start))?;
        let second = read(RECORD_BYTES * count, places.page(1, pages.start))?;
        let mut view = View::new(pages.start, [&first, &second]);
        if view.has_spare() {
            let length = places.spare_stride * count;
            let beside = [places.spare(0, pages.start), places.spare(1, pages.start)];
            view.take_spare([read(length, beside[0])?, read(length, beside[1])?], &places);
        }
        for page in pages {
            if view.found(page) == Found::Damaged {
                found.unrecorded += 1;
                continue;
            }
            let (copies, best) = (view.copies(page), view.best(page));
            if copies[0] != copies[1] {
                found.mendable += 1;
                self.medium.write_at(&[IoSlice::new(copies[best])], places.page(1 - best, page))?;
            }
            // What lies beside a page that was erased is nobody's.
            if self.sim.peek(Ppn(page)).is_none() {
                continue;
            }
            found.unrecorded += u64::from(!view.has_spare_of(page));
            for (copy, beside) in view.spare_to_mend(page) {
                found.mendable += 1;
                self.medium.write_at(&[IoSlice::new(&beside)], places.spare(copy, page))?;
            }
        }
        Ok(())
    }
}

impl<M: Medium> Scrub<M> {
    /// Reads the data. Gives all that was found, and the pages that [`FileNand::mend`] can mend.
    pub fn read(self) -> (Scrubbed, Vec<Ppn>) {
        let Scrub { reader, pages, page_bytes, mut found } = self;
        let (mut buffer, mut to_mend) = (vec![0; page_bytes], Vec::new());
        for (fetch, oob) in pages {
            found.pages += 1;
            let whole = reader.read(std::slice::from_ref(&fetch), &mut buffer).is_ok();
            let mirrored = is_mirrored(oob);
            let copy_is_whole = mirrored && reader.read_mirror(&fetch, &mut buffer).is_ok();
            match (whole, copy_is_whole) {
                (false, false) if oob.lost => {}
                (false, false) => found.lost.push((fetch.ppn, oob)),
                _ if whole != copy_is_whole && mirrored => {
                    found.mendable += 1;
                    to_mend.push(fetch.ppn);
                }
                _ => {}
            }
        }
        (found, to_mend)
    }
}
