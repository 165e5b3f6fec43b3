//! Requests in the FTL: byte ranges become pages.

use std::io;

use bytes::Bytes;
use ftl::{Device, HostError, HostOp, Scheme, Seen};
use nand::{Done, Fault, FileNand, Lpn, Medium, Nand};

use crate::clock::Clock;
use crate::reads::{pages_of, Cell, Reads};
use crate::record::Recording;
use crate::request::{Answer, IoError, Op, Request};

/// Most pages of one step in the FTL: longer requests let others in between.
const STEP_PAGES: u32 = 256;
/// The same for trims, which cost little a page.
const TRIM_PAGES: u32 = 1 << 18;

/// What is in the FTL, one thread at a time.
pub(super) struct Core<S, M: Medium> {
    pub device: Device<S, FileNand<M>>,
    pub clock: Clock,
    /// The array or the image is out of order: nothing more can be done until it is opened again.
    pub broken: bool,
    pub blank: Bytes,
    pub recording: Option<Recording>,
}

impl<S: Scheme, M: Medium> Core<S, M> {
    /// Writes what was staged.
    pub fn land(&mut self) -> Result<(), IoError> {
        self.device.nand_mut().land().map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                IoError::NoSpace
            }
            _ => IoError::Device,
        })
    }

    pub fn carry_out(
        &mut self,
        request: &Request,
        reads: &mut Reads<M>,
        waiting: usize,
        exported_bytes: u64,
    ) -> Result<Answer, IoError> {
        reads.tickets.push(None);
        if self.broken {
            return Err(IoError::Device);
        }
        let end = request.offset.checked_add(u64::from(request.length));
        if end.is_none_or(|end| end > exported_bytes) {
            return Err(IoError::Outside);
        }
        let (at, arrived) = self.clock.arrive(self.device.nand_mut().timing(), waiting);
        let number = reads.cells.len();
        let result = match request.op {
            Op::Read => self.read(request, at, &mut reads.cells),
            Op::Write => self.write(request.offset, &request.data, at),
            Op::Trim => self.trim(request, at),
            Op::WriteZeroes { allocate } => self.zero(request, allocate, at),
            Op::Flush => self.step(HostOp::Flush, 0, 0, at),
        };
        // What a trim or write-zeroes forgot is durable after a flush of the FTL, and what a scheme has in
        // its buffer.
        let written = matches!(request.op, Op::Write) && !S::BUFFERS_WRITES;
        let unsettled = request.fua && request.op != Op::Read && !written;
        let result = match result {
            Ok(done) if unsettled => self.step(HostOp::Flush, 0, 0, done),
            result => result,
        };
        let kind = request.op.kind();
        let timing = self.device.nand_mut().timing();
        let ticket = self.clock.watch(timing, kind, arrived, result.unwrap_or(at));
        if let Some(last) = reads.tickets.last_mut() {
            *last = self.clock.paced().then_some(ticket);
        }
        let is_taken = !matches!(result, Err(IoError::Full | IoError::ReadOnly));
        if let Some(recording) = self.recording.as_mut().filter(|_| is_taken) {
            recording.see(request);
        }
        result?;
        Ok(match request.op {
            Op::Read => Answer::Read(number),
            Op::Flush => Answer::Durable(self.device.nand().sequence()),
            _ if request.fua => Answer::Durable(self.device.nand().sequence()),
            _ => Answer::Done,
        })
    }

    /// A request of whole pages of which the bytes are somebody else's business.
    fn step(&mut self, op: HostOp, first: u32, pages: u32, at: Done) -> Result<Done, IoError> {
        let outcome = self.device.request(op, Lpn(first), pages, at, &mut |_, _| {});
        self.judge(outcome.map(|outcome| (outcome.done, outcome.failed)))
    }

    fn judge(&mut self, outcome: Result<(Done, u32), HostError>) -> Result<Done, IoError> {
        match outcome {
            Ok((done, 0)) => Ok(done),
            Ok(_) => Err(IoError::Device),
            Err(HostError::Outside { .. }) => Err(IoError::Outside),
            Err(HostError::Fault(fault)) => {
                self.broken |= fault.is_fatal();
                Err(match fault {
                    Fault::NoSpace { .. } => IoError::Full,
                    Fault::WornOut { .. } => IoError::ReadOnly,
                    _ => IoError::Device,
                })
            }
        }
    }

    pub fn page_bytes(&self) -> u64 {
        self.blank.len() as u64
    }

    fn read(&mut self, request: &Request, at: Done, cells: &mut Vec<Cell>) -> Result<Done, IoError> {
        let page = self.page_bytes();
        let (mut first, mut left) =
            ((request.offset / page) as u32, pages_of(request, self.blank.len()) as u32);
        let mut done = at;
        while left > 0 {
            let pages = left.min(STEP_PAGES);
            let begin = cells.len();
            let outcome = self.device.request(HostOp::Read, Lpn(first), pages, at, &mut |_, seen| {
                cells.push(match seen {
                    Seen::Read(None) => Cell::Zeros,
                    Seen::Read(Some(_)) => Cell::Delivered,
                    _ => Cell::Failed,
                });
            });
            for fetch in self.device.nand_mut().fetches() {
                let cell = &mut cells[begin + (fetch.lpn.0 - first) as usize];
                if matches!(cell, Cell::Delivered) {
                    *cell = Cell::From(fetch);
                }
            }
            assert!(
                !cells[begin..].iter().any(|cell| matches!(cell, Cell::Delivered)),
                "a page from LPN {first} on was delivered, but it was not read"
            );
            let ended = self.judge(outcome.map(|outcome| (outcome.done, outcome.failed)));
            done = self.device.nand_mut().join(done, ended?);
            (first, left) = (first + pages, left - pages);
        }
        Ok(done)
    }

    /// The content of one page, or `None` when it has none.
    fn page(&mut self, lpn: u32, at: Done) -> Result<(Option<Vec<u8>>, Done), IoError> {
        let mut cells = Vec::with_capacity(1);
        let page = self.page_bytes();
        let whole = Request {
            op: Op::Read,
            offset: u64::from(lpn) * page,
            length: page as u32,
            fua: false,
            data: Bytes::new(),
        };
        let done = self.read(&whole, at, &mut cells)?;
        if let [Cell::Zeros] = cells[..] {
            return Ok((None, done));
        }
        let mut content = vec![0; page as usize];
        match &cells[..] {
            [Cell::From(fetch)] => {
                self.device.nand().read_now(fetch, &mut content).map_err(|_| IoError::Device)?;
                Ok((Some(content), done))
            }
            _ => Err(IoError::Device),
        }
    }

    fn write(&mut self, offset: u64, data: &Bytes, at: Done) -> Result<Done, IoError> {
        let page = self.page_bytes();
        let (head, tail) = (offset % page, (offset + data.len() as u64) % page);
        let first = (offset / page) as u32;
        if head == 0 && tail == 0 {
            return self.write_pages(first, data.clone(), at);
        }
        // Read, merge, write: nobody gets in between.
        let end = (offset + data.len() as u64).div_ceil(page) as u32;
        let mut merged = vec![0; (u64::from(end - first) * page) as usize];
        let mut ready = at;
        let last = end - 1;
        for (lpn, partial) in [(first, head != 0), (last, tail != 0 && (last != first || head == 0))] {
            if !partial {
                continue;
            }
            let (content, done) = self.page(lpn, at)?;
            ready = self.device.nand_mut().join(ready, done);
            if let Some(content) = content {
                merged[(u64::from(lpn - first) * page) as usize..][..page as usize].copy_from_slice(&content);
            }
        }
        merged[head as usize..][..data.len()].copy_from_slice(data);
        self.write_pages(first, Bytes::from(merged), ready)
    }

    /// Writes whole pages.
    fn write_pages(&mut self, first: u32, data: Bytes, at: Done) -> Result<Done, IoError> {
        let page = self.blank.len();
        let (mut first, mut data, mut done) = (first, data, at);
        while !data.is_empty() {
            let pages = (data.len() / page).min(STEP_PAGES as usize);
            let now = data.split_to(pages * page);
            self.device.nand_mut().offer(Lpn(first), now);
            let ended = self.step(HostOp::Write, first, pages as u32, at)?;
            done = self.device.nand_mut().join(done, ended);
            first += pages as u32;
        }
        Ok(done)
    }

    /// Forgets the pages that lie in a range altogether.
    fn trim(&mut self, request: &Request, at: Done) -> Result<Done, IoError> {
        let page = self.page_bytes();
        let end = ((request.offset + u64::from(request.length)) / page) as u32;
        let (mut first, mut done) = (request.offset.div_ceil(page) as u32, at);
        while first < end {
            let pages = (end - first).min(TRIM_PAGES);
            let ended = self.step(HostOp::Trim, first, pages, at)?;
            done = self.device.nand_mut().join(done, ended);
            first += pages;
        }
        Ok(done)
    }

    fn zero(&mut self, request: &Request, allocate: bool, at: Done) -> Result<Done, IoError> {
        let page = self.page_bytes();
        let (begin, end) = (request.offset, request.offset + u64::from(request.length));
        let whole = (begin.next_multiple_of(page), end / page * page);
        if allocate || whole.0 >= whole.1 {
            return self.write_zeros(begin, end, allocate, at);
        }
        let head = self.write_zeros(begin, whole.0, false, at)?;
        let middle = self.trim(request, at)?;
        let tail = self.write_zeros(whole.1, end, false, at)?;
        let done = self.device.nand_mut().join(head, middle);
        Ok(self.device.nand_mut().join(done, tail))
    }

    /// Writes zeros. Without `allocate`, into one page, which is left alone when it holds nothing.
    fn write_zeros(&mut self, begin: u64, end: u64, allocate: bool, at: Done) -> Result<Done, IoError> {
        let page = self.page_bytes();
        let mut done = at;
        let mut begin = begin;
        while begin < end {
            let to = end.min((begin / page + 1) * page);
            let lpn = (begin / page) as u32;
            if allocate || self.page(lpn, at)?.0.is_some() {
                let zeros = self.blank.slice(..(to - begin) as usize);
                let ended = self.write(begin, &zeros, at)?;
                done = self.device.nand_mut().join(done, ended);
            }
            begin = to;
        }
        Ok(done)
    }
}
