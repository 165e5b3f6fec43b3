//! The bytes of reads, fetched beside the FTL.

use bytes::Bytes;
use nand::{Fetch, ImageFile, Medium, Reader};

use crate::request::{IoError, Request};

/// What one page of a read holds.
#[derive(Debug)]
pub(crate) enum Cell {
    Zeros,
    /// These bytes.
    Here(Bytes),
    /// Delivered; where from is not known yet.
    Delivered,
    From(Fetch),
    Failed,
}

/// The pages that the reads of a batch were sent to. They stay as they are until this is cleared or dropped.
#[derive(Debug)]
pub struct Reads<M: Medium = ImageFile> {
    pub(crate) cells: Vec<Cell>,
    pub(crate) reader: Option<Reader<M>>,
    page_bytes: usize,
    bounce: Vec<u8>,
    /// One for each request of the batch that the device took, while it is paced.
    pub(crate) tickets: Vec<Option<u64>>,
}

impl<M: Medium> Reads<M> {
    /// Room for the reads of a device with pages of `page_bytes`.
    pub fn new(page_bytes: u32) -> Reads<M> {
        let page_bytes = page_bytes as usize;
        Reads {
            cells: Vec::new(),
            reader: None,
            page_bytes,
            bounce: vec![0; page_bytes],
            tickets: Vec::new(),
        }
    }

    /// The number of the read whose pages are pushed next, for [`crate::Answer::Read`].
    pub fn next_number(&self) -> usize {
        self.cells.len()
    }

    /// The next page of a read: its bytes, or nothing where nothing is allocated. For devices that have their
    /// bytes at hand; those with an image are read beside the FTL.
    pub fn push(&mut self, page: Option<Bytes>) {
        self.cells.push(page.map_or(Cell::Zeros, Cell::Here));
    }

    /// Lets the device go on with the pages.
    pub fn clear(&mut self) {
        self.cells.clear();
        self.reader = None;
    }

    /// The ticket of a request of the batch: while the device is paced, its answer waits for
    /// [`crate::Export::over`].
    pub(crate) fn ticket(&self, index: usize) -> Option<u64> {
        self.tickets.get(index).copied().flatten()
    }

    /// Whether the read with this number found nothing allocated.
    pub fn is_hole(&self, number: usize, request: &Request) -> bool {
        let cells = &self.cells[number..][..pages_of(request, self.page_bytes)];
        cells.iter().all(|cell| matches!(cell, Cell::Zeros))
    }

    /// Fills `to` with the bytes of the read with this number.
    pub fn fill(&mut self, number: usize, request: &Request, to: &mut [u8]) -> Result<(), IoError> {
        let page_bytes = self.page_bytes;
        let count = pages_of(request, page_bytes);
        let head = (request.offset % page_bytes as u64) as usize;
        let (mut at, mut within, mut to) = (0, head, to);
        while at < count {
            // Pages that lie side by side in the image are read at once.
            let whole = within == 0 && to.len() >= page_bytes;
            let run = if whole { self.run(number + at, (to.len() / page_bytes).min(count - at)) } else { 1 };
            let take = if whole { run * page_bytes } else { (page_bytes - within).min(to.len()) };
            let (now, later) = to.split_at_mut(take);
            let cells = &self.cells[number + at..][..run];
            if whole {
                fetch(self.reader.as_ref(), cells, now)?;
            } else {
                fetch(self.reader.as_ref(), cells, &mut self.bounce)?;
                now.copy_from_slice(&self.bounce[within..within + take]);
            }
            (at, within, to) = (at + run, 0, later);
        }
        Ok(())
    }

    /// How many cells from `first` on can be had at once.
    fn run(&self, first: usize, most: usize) -> usize {
        let cells = &self.cells[first..first + most];
        let follows = |pair: &[Cell]| match pair {
            [Cell::From(a), Cell::From(b)] => a.ppn.0.checked_add(1) == Some(b.ppn.0),
            [Cell::Zeros, Cell::Zeros] => true,
            _ => false,
        };
        1 + cells.windows(2).take_while(|pair| follows(pair)).count()
    }
}

pub(crate) fn pages_of(request: &Request, page_bytes: usize) -> usize {
    let page = page_bytes as u64;
    let end = request.offset + u64::from(request.length);
    (end.div_ceil(page) - request.offset / page) as usize
}

/// Fills `to` with the content of cells of one sort that lie side by side.
fn fetch<M: Medium>(reader: Option<&Reader<M>>, cells: &[Cell], to: &mut [u8]) -> Result<(), IoError> {
    match (reader, cells) {
        (_, [Cell::Zeros, ..]) => to.fill(0),
        (_, [Cell::Here(bytes)]) => to.copy_from_slice(bytes),
        (Some(reader), [Cell::From(one)]) => {
            reader.read(std::slice::from_ref(one), to).map_err(|_| IoError::Device)?;
        }
        (Some(reader), [Cell::From(_), ..]) => {
            let fetches: Vec<Fetch> = cells
                .iter()
                .filter_map(|cell| if let Cell::From(fetch) = cell { Some(fetch.clone()) } else { None })
                .collect();
            reader.read(&fetches, to).map_err(|_| IoError::Device)?;
        }
        _ => return Err(IoError::Device),
    }
    Ok(())
}
