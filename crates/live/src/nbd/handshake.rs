//! The first part of a connection: client and server agree on an export and on what they can do.
//!
//! Everything a client says here is bounded: a hostile one gets an error, or is left, and costs no more than
//! that.

use std::io::{self, Read, Write};

use super::wire::{self, can, get16, get32, get64, info, option, reply};

/// Longest option data that is read; the protocol's longest name has 4 KiB.
const MOST_OPTION_BYTES: u32 = 16 << 10;
/// Longest option data that is skipped before the client is left.
const MOST_SKIPPED_BYTES: u32 = 1 << 20;
/// Most options of one handshake.
const MOST_OPTIONS: u32 = 256;

/// What a client sees of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its name. The first export also answers to the empty name.
    pub name: String,
    /// What it is, in one line.
    pub description: String,
    /// Bytes.
    pub size: u64,
    /// Bytes of a page: the size that suits it best.
    pub page_bytes: u32,
    /// It can be read alone.
    pub read_only: bool,
}

/// What client and server agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// The export, by its place in the list.
    pub export: usize,
    /// Replies may come in chunks.
    pub structured: bool,
    /// `base:allocation` may be asked for.
    pub allocation: bool,
}

struct Handshake<'a, T> {
    io: T,
    offers: &'a [Offer],
    no_zeroes: bool,
    structured: bool,
    /// The export for which `base:allocation` was chosen.
    allocation: Option<usize>,
}

/// Carries the handshake out. `None`: the client left, in good order.
pub fn negotiate<T: Read + Write>(io: T, offers: &[Offer]) -> io::Result<Option<Agreed>> {
    let mut handshake = Handshake { io, offers, no_zeroes: false, structured: false, allocation: None };
    handshake.greet()?;
    for _ in 0..MOST_OPTIONS {
        match handshake.option()? {
            Next::Option => {}
            Next::Left => return Ok(None),
            Next::Agreed(export) => {
                let allocation = handshake.allocation == Some(export);
                return Ok(Some(Agreed { export, structured: handshake.structured, allocation }));
            }
        }
    }
    Err(violation("too many options"))
}

enum Next {
    Option,
    Left,
    Agreed(usize),
}

fn violation(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl<T: Read + Write> Handshake<'_, T> {
    fn greet(&mut self) -> io::Result<()> {
        let mut hello = Vec::with_capacity(18);
        hello.extend_from_slice(&wire::NBDMAGIC.to_be_bytes());
        hello.extend_from_slice(&wire::IHAVEOPT.to_be_bytes());
        hello.extend_from_slice(&(wire::FIXED_NEWSTYLE | wire::NO_ZEROES).to_be_bytes());
        self.io.write_all(&hello)?;
        let mut flags = [0; 4];
        self.io.read_exact(&mut flags)?;
        let flags = u32::from_be_bytes(flags);
        if flags & !u32::from(wire::FIXED_NEWSTYLE | wire::NO_ZEROES) != 0 {
            return Err(violation("unknown client flags"));
        }
        self.no_zeroes = flags & u32::from(wire::NO_ZEROES) != 0;
        Ok(())
    }

    fn option(&mut self) -> io::Result<Next> {
        let mut head = [0; 16];
        self.io.read_exact(&mut head)?;
        let (magic, option, length) = (get64(&head, 0), get32(&head, 8), get32(&head, 12));
        if magic != wire::IHAVEOPT {
            return Err(violation("an option without its magic"));
        }
        if length > MOST_OPTION_BYTES {
            if length > MOST_SKIPPED_BYTES || option == option::EXPORT_NAME {
                return Err(violation("an option too long to be one"));
            }
            io::copy(&mut Read::by_ref(&mut self.io).take(u64::from(length)), &mut io::sink())?;
            self.reply(option, reply::ERR_TOO_BIG, b"the option is too long")?;
            return Ok(Next::Option);
        }
        let mut data = vec![0; length as usize];
        self.io.read_exact(&mut data)?;
        match option {
            option::EXPORT_NAME => return self.export_name(&data).map(Next::Agreed),
            option::ABORT => {
                // The client need not wait for it.
                let _ = self.reply(option, reply::ACK, &[]);
                return Ok(Next::Left);
            }
            option::LIST if data.is_empty() => self.list()?,
            option::INFO | option::GO => {
                if let Some(export) = self.info(option, &data)? {
                    return Ok(Next::Agreed(export));
                }
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                self.reply(option, reply::ACK, &[])?;
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.meta_context(option, &data)?,
            option::LIST | option::STRUCTURED_REPLY => {
                self.reply(option, reply::ERR_INVALID, b"this option takes no data")?;
            }
            option::STARTTLS => {
                let text = b"no TLS here: put nbdkit, stunnel or ssh in front";
                self.reply(
                    option,
                    if data.is_empty() { reply::ERR_POLICY } else { reply::ERR_INVALID },
                    text,
                )?;
            }
            _ => self.reply(option, reply::ERR_UNSUP, b"this option is not known here")?,
        }
        Ok(Next::Option)
    }

    fn reply(&mut self, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(20 + data.len());
        bytes.extend_from_slice(&wire::OPTION_REPLY.to_be_bytes());
        bytes.extend_from_slice(&option.to_be_bytes());
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(data);
        self.io.write_all(&bytes)
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        if name.is_empty() && !self.offers.is_empty() {
            return Some(0);
        }
        self.offers.iter().position(|offer| offer.name.as_bytes() == name)
    }

    fn flags(&self, offer: &Offer) -> u16 {
        let df = if self.structured { can::DF } else { 0 };
        if offer.read_only {
            return can::HAS_FLAGS | can::READ_ONLY | can::FLUSH | can::MULTI_CONN | df;
        }
        can::HAS_FLAGS
            | can::FLUSH
            | can::FUA
            | can::TRIM
            | can::WRITE_ZEROES
            | can::MULTI_CONN
            | can::FAST_ZERO
            | df
    }

    /// The old way: there is no way to say no but to leave.
    fn export_name(&mut self, name: &[u8]) -> io::Result<usize> {
        let export = self.find(name).ok_or_else(|| violation("an export of that name is not served"))?;
        let mut bytes = Vec::with_capacity(134);
        bytes.extend_from_slice(&self.offers[export].size.to_be_bytes());
        bytes.extend_from_slice(&self.flags(&self.offers[export]).to_be_bytes());
        if !self.no_zeroes {
            bytes.resize(10 + 124, 0);
        }
        self.io.write_all(&bytes)?;
        Ok(export)
    }

    fn list(&mut self) -> io::Result<()> {
        for offer in self.offers {
            let mut data = (offer.name.len() as u32).to_be_bytes().to_vec();
            data.extend_from_slice(offer.name.as_bytes());
            data.extend_from_slice(offer.description.as_bytes());
            self.reply(option::LIST, reply::SERVER, &data)?;
        }
        self.reply(option::LIST, reply::ACK, &[])
    }

    /// `INFO` and `GO`. The export, when the transmission begins.
    fn info(&mut self, option: u32, data: &[u8]) -> io::Result<Option<usize>> {
        let Some((name, asked)) = info_request(data) else {
            self.reply(option, reply::ERR_INVALID, b"the option's data do not add up")?;
            return Ok(None);
        };
        let Some(export) = self.find(name) else {
            self.reply(option, reply::ERR_UNKNOWN, b"an export of that name is not served")?;
            return Ok(None);
        };
        let offer = &self.offers[export];
        let mut answers = Vec::new();
        let mut answer = |kind: u16, parts: &[&[u8]]| {
            answers.push([&kind.to_be_bytes()[..], &parts.concat()].concat());
        };
        answer(info::EXPORT, &[&offer.size.to_be_bytes(), &self.flags(offer).to_be_bytes()]);
        let sizes = [wire::MIN_BLOCK, offer.page_bytes, wire::MAX_BLOCK].map(u32::to_be_bytes);
        answer(info::BLOCK_SIZE, &[&sizes.concat()]);
        if asked.contains(&info::NAME) {
            answer(info::NAME, &[offer.name.as_bytes()]);
        }
        if asked.contains(&info::DESCRIPTION) {
            answer(info::DESCRIPTION, &[offer.description.as_bytes()]);
        }
        for answer in answers {
            self.reply(option, reply::INFO, &answer)?;
        }
        self.reply(option, reply::ACK, &[])?;
        Ok((option == option::GO).then_some(export))
    }

    fn meta_context(&mut self, option: u32, data: &[u8]) -> io::Result<()> {
        let set = option == option::SET_META_CONTEXT;
        if set {
            self.allocation = None;
        }
        if !self.structured {
            return self.reply(option, reply::ERR_INVALID, b"structured replies come first");
        }
        let Some((name, queries)) = context_request(data) else {
            return self.reply(option, reply::ERR_INVALID, b"the option's data do not add up");
        };
        let Some(export) = self.find(name) else {
            return self.reply(option, reply::ERR_UNKNOWN, b"an export of that name is not served");
        };
        let wanted = if set {
            queries.iter().any(|&query| query == wire::ALLOCATION.as_bytes())
        } else {
            let fits = |query: &&[u8]| [b"base:", wire::ALLOCATION.as_bytes()].contains(query);
            queries.is_empty() || queries.iter().any(fits)
        };
        if wanted {
            let mut context = wire::ALLOCATION_ID.to_be_bytes().to_vec();
            context.extend_from_slice(wire::ALLOCATION.as_bytes());
            self.reply(option, reply::META_CONTEXT, &context)?;
            if set {
                self.allocation = Some(export);
            }
        }
        self.reply(option, reply::ACK, &[])
    }
}

/// A string with its length before it, and what follows.
fn counted(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = get32(data.get(..4)?, 0) as usize;
    let rest = &data[4..];
    (length <= rest.len()).then(|| rest.split_at(length))
}

/// Name and information requests of `INFO` and `GO`.
fn info_request(data: &[u8]) -> Option<(&[u8], Vec<u16>)> {
    let (name, rest) = counted(data)?;
    let count = get16(rest.get(..2)?, 0) as usize;
    let asked = &rest[2..];
    (asked.len() == 2 * count).then(|| (name, asked.chunks_exact(2).map(|kind| get16(kind, 0)).collect()))
}

/// Name and queries of the metadata context options.
fn context_request(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let (name, rest) = counted(data)?;
    let count = get32(rest.get(..4)?, 0);
    let mut rest = &rest[4..];
    let mut queries = Vec::new();
    for _ in 0..count {
        let (query, after) = counted(rest)?;
        queries.push(query);
        rest = after;
    }
    rest.is_empty().then_some((name, queries))
}
