//! Image files that somebody has changed, opened by their schemes.
//!
//! An input is the scheme (1 byte), how the image was left (1: odd closed, even a process killed), and any
//! number of changes: the part (1), the sector of it and the place in that (2 each), what to do (1) and, for
//! some, how many bytes (1) and which.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use check::Dice;
use ftl::schemes;
use live::{Export, IoError, LiveError, Op, Opening, Request, Settings};
use nand::{forge, image_parts, DeviceSpec, Geometry};

use crate::scratch::{folder, Scratch};

const SECTOR: usize = 512;
const PAGE_BYTES: u32 = 512;
const EXPORTED_PAGES: u32 = 500;
/// Most changes of one input.
const MOST_CHANGES: usize = 64;
/// Pieces in which an image is kept and copied.
const PIECE: usize = 4096;

/// An image before it is changed.
struct Template {
    geometry: Geometry,
    bytes: u64,
    /// What is not zeros.
    pieces: Vec<(u64, Vec<u8>)>,
    /// The sectors of each part that are not zeros.
    used: Vec<Vec<u64>>,
    /// What each page holds, by its number of a write; 0 for nothing.
    held: Vec<u64>,
}

/// A device that is as small as the schemes agree to.
pub(crate) fn small_device() -> DeviceSpec {
    let geometry = Geometry {
        channels: 2,
        luns_per_channel: 2,
        planes_per_lun: 1,
        blocks_per_plane: 30,
        pages_per_block: 8,
        page_bytes: PAGE_BYTES,
        oob_bytes: 64,
    };
    DeviceSpec::tiny(geometry, EXPORTED_PAGES)
}

/// Opens a fresh device of a scheme at `path`, with as little memory as it agrees to.
///
/// # Panics
/// There is no room for an image.
pub(crate) fn fresh(path: &Path, scheme: &str) -> Arc<dyn Export> {
    let mut cache = 1 << 10;
    while let Err(error) = live::create(path, &small_device(), &Settings::new(scheme, cache)) {
        assert!(cache < 1 << 24, "{scheme}: {error}");
        cache *= 2;
    }
    live::open(path, Opening::default()).unwrap_or_else(|error| panic!("{scheme}: {error}")).0
}

/// The content of a page: its number and that of the write, again and again.
fn stamped(page: u32, write: u64) -> Vec<u8> {
    let pair = if write == 0 { [0; 16] } else { stamp(page, write) };
    pair.repeat(PAGE_BYTES as usize / pair.len())
}

fn stamp(page: u32, write: u64) -> [u8; 16] {
    let mut pair = [0; 16];
    pair[..8].copy_from_slice(&u64::from(page).to_le_bytes());
    pair[8..].copy_from_slice(&write.to_le_bytes());
    pair
}

fn request(op: Op, page: u32, pages: u32, data: Vec<u8>) -> Request {
    let (offset, length) = (u64::from(page * PAGE_BYTES), pages * PAGE_BYTES);
    Request { op, offset, length, fua: false, data: data.into() }
}

impl Template {
    /// The image of a scheme; closed, or its process killed after a flush.
    ///
    /// # Panics
    /// A device on an image that nobody has touched does not work.
    fn make(scheme: &str, is_closed: bool) -> Template {
        let sure = |done: Result<(), IoError>| done.unwrap_or_else(|error| panic!("{scheme}: {error}"));
        let folder = folder();
        let path = folder.path().join("image");
        let export = fresh(&path, scheme);
        let mut held = vec![0; EXPORTED_PAGES as usize];
        let mut dice = Dice::new(7);
        for write in 1..=2 * u64::from(EXPORTED_PAGES) {
            let page = if write <= held.len() as u64 { write as u32 - 1 } else { dice.below(EXPORTED_PAGES) };
            sure(export.request(&request(Op::Write, page, 1, stamped(page, write)), &mut []));
            held[page as usize] = write;
        }
        for _ in 0..20 {
            let page = dice.below(EXPORTED_PAGES - 4);
            sure(export.request(&request(Op::Trim, page, 4, Vec::new()), &mut []));
            held[page as usize..page as usize + 4].fill(0);
        }
        sure(export.request(&request(Op::Flush, 0, 0, Vec::new()), &mut []));
        if is_closed {
            export.power_off().unwrap_or_else(|error| panic!("{scheme}: {error}"));
        }
        let image = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if !is_closed {
            export.power_off().unwrap_or_else(|error| panic!("{scheme}: {error}"));
        }
        let geometry = small_device().geometry;
        let is_used = |bytes: &[u8]| bytes.iter().any(|&byte| byte != 0);
        let pieces = image.chunks(PIECE).enumerate().filter(|(_, piece)| is_used(piece));
        let pieces = pieces.map(|(index, piece)| ((index * PIECE) as u64, piece.to_vec())).collect();
        let used = image_parts(&geometry).into_iter().map(|(_, range)| {
            let sectors = (range.start as usize..range.end as usize).step_by(SECTOR);
            sectors.filter(|&at| is_used(&image[at..at + SECTOR])).map(|at| at as u64).collect()
        });
        Template { used: used.collect(), geometry, bytes: image.len() as u64, pieces, held }
    }

    /// The one of this scheme, made once.
    fn of(scheme: &'static str, is_closed: bool) -> Arc<Template> {
        static MADE: Mutex<BTreeMap<(&str, bool), Arc<Template>>> = Mutex::new(BTreeMap::new());
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        made.entry((scheme, is_closed)).or_insert_with(|| Arc::new(Template::make(scheme, is_closed))).clone()
    }

    /// A file with the image, changed as `changes` say; `is_forged`: with good CRCs.
    fn changed(&self, changes: &mut &[u8], is_forged: bool) -> io::Result<Scratch> {
        let scratch = Scratch::new()?;
        scratch.0.set_len(self.bytes)?;
        for (at, piece) in &self.pieces {
            scratch.0.write_all_at(piece, *at)?;
        }
        for _ in 0..MOST_CHANGES {
            let Some(at) = self.change(&scratch.0, changes)? else { break };
            if is_forged {
                forge(&scratch.0, &self.geometry, at)?;
            }
        }
        Ok(scratch)
    }

    /// Makes the next change, and says where.
    fn change(&self, file: &File, changes: &mut &[u8]) -> io::Result<Option<u64>> {
        let Some((&[part, low, high, place, how, count], rest)) = changes.split_first_chunk::<6>() else {
            return Ok(None);
        };
        *changes = rest;
        let sectors = &self.used[usize::from(part) % self.used.len()];
        let number = usize::from(u16::from_le_bytes([low, high]));
        let Some(&sector) = number.checked_rem(sectors.len()).and_then(|index| sectors.get(index)) else {
            return Ok(Some(self.bytes));
        };
        let at = sector + 2 * u64::from(place);
        let mut content = [0; SECTOR];
        file.read_exact_at(&mut content, sector)?;
        let within = 2 * usize::from(place);
        let count = (1 + usize::from(count)).min(SECTOR - within);
        match how % 5 {
            0 => content[within] ^= 1 << (count % 8),
            1 => content[within..within + count].fill(0),
            2 => content[within..within + count].fill(0xFF),
            3 => content[within..within + count].iter_mut().for_each(|byte| *byte = byte.wrapping_add(1)),
            _ => {
                let (new, rest) = rest.split_at(count.min(rest.len()).min(16));
                *changes = rest;
                content[within..within + new.len()].copy_from_slice(new);
            }
        }
        file.write_all_at(&content, sector)?;
        Ok(Some(at))
    }
}

/// Scheme and image that the first bytes name, and the changes.
fn drawn(bytes: &[u8]) -> Option<(Arc<Template>, &[u8])> {
    let (&[scheme, how], changes) = bytes.split_first_chunk::<2>()?;
    let scheme = schemes::ALL[usize::from(scheme) % schemes::ALL.len()].name;
    Some((Template::of(scheme, how % 2 == 1), changes))
}

fn file(template: &Template, mut changes: &[u8], is_forged: bool) -> Scratch {
    let changed = template.changed(&mut changes, is_forged);
    changed.unwrap_or_else(|error| panic!("no temporary file: {error}"))
}

/// An image with damage: it is refused, without a panic; or each page reads as it was, or as an error.
pub fn damaged(bytes: &[u8]) {
    let Some((template, changes)) = drawn(bytes) else { return };
    let scratch = file(&template, changes, false);
    let export = match live::open(&scratch.path(), Opening::default()) {
        Ok((export, _)) => export,
        Err(LiveError::Panicked { words, .. }) => panic!("opening: {words}"),
        Err(_) => return,
    };
    let mut content = vec![0; PAGE_BYTES as usize];
    for (page, &write) in (0..).zip(&template.held) {
        let read = export.request(&request(Op::Read, page, 1, Vec::new()), &mut content);
        assert!(read.is_err() || content == stamped(page, write), "page {page} holds {:?}", &content[..16]);
    }
    go_on(&*export);
}

/// An image with records that nobody wrote and CRCs that fit. It may be refused; a device that is opened may
/// find that the array contradicts its mapping, which is a panic that takes this device off, as a server
/// does. Opening and using it must end, in little memory.
pub fn forged(bytes: &[u8]) {
    let Some((template, changes)) = drawn(bytes) else { return };
    let scratch = file(&template, changes, true);
    let Ok((export, _)) = live::open(&scratch.path(), Opening::default()) else { return };
    let mut content = vec![0; PAGE_BYTES as usize];
    let used = catch_unwind(AssertUnwindSafe(|| {
        for page in 0..template.held.len() as u32 {
            let _ = export.request(&request(Op::Read, page, 1, Vec::new()), &mut content);
        }
        go_on(&*export);
    }));
    assert!(used.is_ok() || export.is_off(), "a device that panicked is still on");
}

/// A few requests, and the end. They may fail; they must not panic.
fn go_on(export: &dyn Export) {
    for page in 0..30 {
        let page = page * 7 % EXPORTED_PAGES;
        let _ = export.request(&request(Op::Write, page, 1, stamped(page, 1 << 32)), &mut []);
    }
    let _ = export.request(&request(Op::Trim, 100, 8, Vec::new()), &mut []);
    let _ = export.request(&request(Op::Flush, 0, 0, Vec::new()), &mut []);
    let _ = export.power_off();
}
