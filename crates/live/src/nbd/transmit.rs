//! Requests and replies. Everything that has arrived is one batch; its replies go out in one write.

use std::io::{self, Read};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use rustix::io::Errno;

use super::budget::{Budget, Share};
use super::durable::Durables;
use super::handshake::Agreed;
use super::link::Link;
use super::reply::{put_chunk, put_error, put_outcome, Pending};
use super::wire::{self, chunk, command, errno, get16, get32, get64, REQUEST_BYTES};
use crate::clock::nanos;
use crate::export::Export;
use crate::front::Front;
use crate::reads::Reads;
use crate::request::{Answer, IoError, Op, Request};

/// Bytes read from a client at once.
const INPUT_BYTES: usize = 256 << 10;
/// Most requests of a batch.
const MOST_REQUESTS: usize = 128;
/// Bytes of replies at which a batch ends.
const OUTPUT_BYTES: usize = 4 << 20;
/// Longest payload of a refused write that is skipped before the client is left.
const MOST_SKIPPED: u32 = 256 << 20;
/// Most extents of one answer.
const MOST_EXTENTS: usize = 4096;
/// Bytes of a range that one answer tells of.
const STATUS_BYTES: u64 = 4 << 30;

/// What to do with a request that has arrived.
#[derive(Clone, Copy, Debug)]
enum Item {
    /// Request number so many of the batch.
    Io { index: usize, df: bool },
    /// What is allocated?
    Status { offset: u64, length: u32, one: bool },
    /// Refused, with this error.
    Refused(u32),
}

/// Serves a client until it leaves, is shown the door, or speaks nonsense. Everything acknowledged has been
/// done.
pub(super) fn transmit(front: &Front, link: &Arc<Link>, agreed: &Agreed, budget: &Arc<Budget>) {
    std::thread::scope(|scope| {
        let mut client = Client {
            front,
            export: front.export(),
            link,
            agreed: *agreed,
            budget,
            input: Vec::with_capacity(INPUT_BYTES),
            at: 0,
            items: Vec::new(),
            batch: Vec::new(),
            answers: Vec::new(),
            reads: Reads::new(front.export().page_bytes()),
            out: Vec::new(),
            durables: None,
        };
        // A client that breaks the connection, or the protocol, is left: there is nobody to tell.
        let _ = client.run(|| Durables::start(scope, front, link.clone()));
        drop(client);
    });
    link.wait();
    link.stream().shutdown(Shutdown::Both);
}

struct Client<'a> {
    front: &'a Front,
    export: &'a dyn Export,
    link: &'a Arc<Link>,
    agreed: Agreed,
    budget: &'a Arc<Budget>,
    input: Vec<u8>,
    /// Bytes of `input` that are used up.
    at: usize,
    items: Vec<(Item, u64)>,
    batch: Vec<Request>,
    answers: Vec<Result<Answer, IoError>>,
    reads: Reads,
    out: Vec<u8>,
    durables: Option<Durables>,
}

/// Whether the client stays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stays {
    Yes,
    No,
}

impl Client<'_> {
    fn run(&mut self, durables: impl Fn() -> Durables) -> io::Result<()> {
        loop {
            if self.left() < REQUEST_BYTES && !self.more()? {
                return Ok(());
            }
            if self.left() < REQUEST_BYTES {
                continue;
            }
            let since = Instant::now();
            let parsed = self.parse();
            self.export.arrived(self.items.len());
            let answered = self.answer(since, &durables);
            if parsed? == Stays::No {
                return answered;
            }
            answered?;
        }
    }

    fn left(&self) -> usize {
        self.input.len() - self.at
    }

    /// Waits for bytes; false when there will be none.
    fn more(&mut self) -> io::Result<bool> {
        self.input.drain(..self.at);
        self.at = 0;
        loop {
            match rustix::io::read(self.link.stream(), rustix::buffer::spare_capacity(&mut self.input)) {
                Ok(bytes) => {
                    self.link.moved();
                    return Ok(bytes > 0);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes every whole request from the input. An error is a client to be left, after what it sent before.
    fn parse(&mut self) -> io::Result<Stays> {
        self.items.clear();
        self.batch.clear();
        let mut output = 0;
        while self.left() >= REQUEST_BYTES && self.items.len() < MOST_REQUESTS && output < OUTPUT_BYTES {
            let head = &self.input[self.at..][..REQUEST_BYTES];
            let (magic, flags, command) = (get32(head, 0), get16(head, 4), get16(head, 6));
            let (cookie, offset, length) = (get64(head, 8), get64(head, 16), get32(head, 24));
            if magic != wire::REQUEST {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            if command == command::DISCONNECT {
                return Ok(Stays::No);
            }
            let error = self.error_in(command, flags, offset, length);
            if command == command::WRITE {
                // A payload that is not here yet is waited for only when nothing else waits for us.
                let here = self.left() - REQUEST_BYTES >= length as usize;
                if !here && !self.items.is_empty() {
                    break;
                }
                self.at += REQUEST_BYTES;
                if error != 0 {
                    self.skip(length)?;
                    self.items.push((Item::Refused(error), cookie));
                    continue;
                }
                let data = self.payload(length as usize)?;
                self.push(cookie, flags, Request { op: Op::Write, offset, length, fua: false, data });
                continue;
            }
            self.at += REQUEST_BYTES;
            if error != 0 {
                self.items.push((Item::Refused(error), cookie));
                continue;
            }
            let op = match command {
                command::READ => Op::Read,
                command::TRIM => Op::Trim,
                command::WRITE_ZEROES => Op::WriteZeroes { allocate: flags & command::FLAG_NO_HOLE != 0 },
                command::FLUSH => Op::Flush,
                _ => {
                    let one = flags & command::FLAG_REQ_ONE != 0;
                    self.items.push((Item::Status { offset, length, one }, cookie));
                    continue;
                }
            };
            if op == Op::Read {
                output += length as usize;
            }
            let (offset, length) = if op == Op::Flush { (0, 0) } else { (offset, length) };
            self.push(cookie, flags, Request { op, offset, length, fua: false, data: Bytes::new() });
        }
        Ok(Stays::Yes)
    }

    fn push(&mut self, cookie: u64, flags: u16, request: Request) {
        let (index, df) = (self.batch.len(), flags & command::FLAG_DF != 0);
        self.items.push((Item::Io { index, df }, cookie));
        self.batch.push(Request { fua: flags & command::FLAG_FUA != 0, ..request });
    }

    /// Why a request is refused before the device sees it; 0: it is not.
    fn error_in(&self, command: u16, flags: u16, offset: u64, length: u32) -> u32 {
        let fua = command::FLAG_FUA;
        let allowed = match command {
            command::READ if self.agreed.structured => fua | command::FLAG_DF,
            command::WRITE_ZEROES => fua | command::FLAG_NO_HOLE | command::FLAG_FAST_ZERO,
            command::BLOCK_STATUS if self.agreed.allocation => fua | command::FLAG_REQ_ONE,
            command::READ | command::WRITE | command::TRIM | command::FLUSH => fua,
            _ => return errno::EINVAL,
        };
        if flags & !allowed != 0 {
            return errno::EINVAL;
        }
        if command == command::FLUSH {
            return 0;
        }
        let end = offset.checked_add(u64::from(length));
        if end.is_none_or(|end| end > self.export.exported_bytes()) {
            let grows = [command::WRITE, command::WRITE_ZEROES].contains(&command);
            return if grows { errno::ENOSPC } else { errno::EINVAL };
        }
        if !(offset | u64::from(length)).is_multiple_of(u64::from(wire::MIN_BLOCK)) {
            return errno::EINVAL;
        }
        if [command::READ, command::WRITE].contains(&command) && length > wire::MAX_BLOCK {
            return errno::EOVERFLOW;
        }
        if command == command::BLOCK_STATUS && length == 0 {
            return errno::EINVAL;
        }
        // Zeros that have to be there are written, which is no faster than writing them.
        let slow = command::FLAG_FAST_ZERO | command::FLAG_NO_HOLE;
        if command == command::WRITE_ZEROES && flags & slow == slow {
            return errno::ENOTSUP;
        }
        0
    }

    /// The payload of a write: from the input, and from the stream what is not there yet.
    fn payload(&mut self, length: usize) -> io::Result<Bytes> {
        let here = length.min(self.left());
        let part = &self.input[self.at..self.at + here];
        let data = if here == length {
            Bytes::copy_from_slice(part)
        } else {
            // Held until all of it is there: what the device does with it takes no client's time.
            let _share = self.share(length);
            let mut data = vec![0; length];
            data[..here].copy_from_slice(part);
            for piece in data[here..].chunks_mut(INPUT_BYTES) {
                (self.link.stream()).read_exact(piece)?;
                self.link.moved();
            }
            Bytes::from(data)
        };
        self.at += here;
        Ok(data)
    }

    fn skip(&mut self, length: u32) -> io::Result<()> {
        if length > MOST_SKIPPED {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        let here = (length as usize).min(self.left());
        self.at += here;
        let rest = u64::from(length) - here as u64;
        io::copy(&mut (self.link.stream()).take(rest), &mut io::sink())?;
        Ok(())
    }

    /// What the client may hold of the server's memory; little is not counted.
    fn share(&self, bytes: usize) -> Option<Arc<Share>> {
        (bytes > INPUT_BYTES).then(|| Arc::new(self.budget.take(self.link, bytes)))
    }

    /// Carries a batch out and sends the replies.
    fn answer(&mut self, since: Instant, durables: &impl Fn() -> Durables) -> io::Result<()> {
        let reads = self.batch.iter().filter(|request| request.op == Op::Read);
        let share = self.share(reads.map(|request| request.length as usize).sum());
        self.export.submit(&self.batch, &mut self.reads, &mut self.answers);
        self.out.clear();
        let (mut waiting, mut delayed) = (Vec::new(), 0);
        for at in 0..self.items.len() {
            let (item, cookie) = self.items[at];
            let structured = self.agreed.structured;
            let pending = |kind| Pending { ticket: None, cookie, kind, structured, since };
            let begin = self.out.len();
            match item {
                Item::Refused(error) => put_error(&mut self.out, &pending(0), error),
                Item::Status { offset, length, one } => self.status(&pending(0), offset, length, one),
                Item::Io { index, df } => {
                    let ticket = self.reads.ticket(index);
                    let pending = Pending { ticket, ..pending(self.batch[index].op.kind()) };
                    match self.answers[index] {
                        Ok(Answer::Read(number)) => self.put_read(&pending, index, number, df),
                        Ok(Answer::Durable(operation)) => waiting.push((operation, pending)),
                        Ok(Answer::Done) => put_outcome(&mut self.out, &pending, Ok(())),
                        Err(error) => put_outcome(&mut self.out, &pending, Err(error)),
                    }
                    if self.out.len() > begin && pending.ticket.is_some() {
                        let bytes = self.out.split_off(begin);
                        match pending.delay(self.front.pacer(), self.link, bytes, &share) {
                            Some(bytes) => self.out.extend_from_slice(&bytes),
                            None => delayed += 1,
                        }
                    }
                }
            }
        }
        // Before sending: a client that does not take its replies must not hold up the device.
        self.reads.clear();
        let answered = self.items.len() - waiting.len() - delayed;
        for (operation, pending) in waiting {
            self.durables.get_or_insert_with(durables).after(operation, pending);
        }
        let sent = if self.out.is_empty() { Ok(()) } else { self.link.send(&self.out) };
        if self.out.capacity() > 2 * OUTPUT_BYTES {
            self.out = Vec::new();
        }
        drop(share);
        self.export.left(answered);
        let ns = nanos(Instant::now(), since);
        let now = self.answers.iter().zip(&self.reads.tickets).zip(&self.batch);
        let now = now.filter(|((answer, ticket), _)| {
            ticket.is_none() && matches!(answer, Ok(Answer::Read(_) | Answer::Done))
        });
        self.export.waited(&mut now.map(|(_, request)| (request.op.kind(), ns)));
        sent
    }

    fn put_read(&mut self, pending: &Pending, index: usize, number: usize, df: bool) {
        let request = &self.batch[index];
        let (begin, length) = (self.out.len(), request.length as usize);
        if !self.agreed.structured {
            put_outcome(&mut self.out, pending, Ok(()));
        } else if length == 0 {
            put_chunk(&mut self.out, pending.cookie, chunk::NONE, 0);
            return;
        } else if !df && self.reads.is_hole(number, request) {
            put_chunk(&mut self.out, pending.cookie, chunk::OFFSET_HOLE, 12);
            self.out.extend_from_slice(&request.offset.to_be_bytes());
            self.out.extend_from_slice(&request.length.to_be_bytes());
            return;
        } else {
            put_chunk(&mut self.out, pending.cookie, chunk::OFFSET_DATA, 8 + length);
            self.out.extend_from_slice(&request.offset.to_be_bytes());
        }
        let at = self.out.len();
        self.out.resize(at + length, 0);
        if let Err(error) = self.reads.fill(number, request, &mut self.out[at..]) {
            self.out.truncate(begin);
            put_outcome(&mut self.out, pending, Err(error));
        }
    }

    fn status(&mut self, pending: &Pending, offset: u64, length: u32, one: bool) {
        let most = if one { 1 } else { MOST_EXTENTS };
        let range = u64::from(length).min(STATUS_BYTES);
        match self.export.extents(offset, range, most) {
            Err(error) => put_outcome(&mut self.out, pending, Err(error)),
            Ok(extents) => {
                put_chunk(&mut self.out, pending.cookie, chunk::BLOCK_STATUS, 4 + 8 * extents.len());
                self.out.extend_from_slice(&wire::ALLOCATION_ID.to_be_bytes());
                for extent in extents {
                    let flags = if extent.allocated { 0 } else { wire::HOLE_AND_ZERO };
                    self.out.extend_from_slice(&(extent.length as u32).to_be_bytes());
                    self.out.extend_from_slice(&flags.to_be_bytes());
                }
            }
        }
    }
}
