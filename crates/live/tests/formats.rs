//! Images of each format that was released, one for each scheme and way to end, open with today's code, and
//! every page reads as what was written to it.
//!
//! `formats/2/tpftl-closed.zst` is an image of format 2 that was closed in good order. Of one that was
//! `killed`, the process died after a flush. An image that is in the repository is never
//! made again: it stands for those that users have. `FTL_BLESS=1` makes those that are missing: of a new
//! scheme, or, once `FORMAT` here names it, of a new format.

use std::path::{Path, PathBuf};

use crate::common::Folder;
use check::Dice;
use ftl::schemes;
use live::{IoError, Op, Opening, Request, Settings};
use nand::{DeviceSpec, Geometry};

/// The format that images are written in today.
const FORMAT: u32 = 2;
const PAGE_BYTES: u32 = 512;
const PAGES: u32 = 160;
/// Ways to end.
const ENDS: [&str; 2] = ["closed", "killed"];

fn request(op: Op, page: u32, pages: u32, data: Vec<u8>) -> Request {
    let (offset, length) = (u64::from(page * PAGE_BYTES), pages * PAGE_BYTES);
    Request { op, offset, length, fua: false, data: data.into() }
}

/// The content of a page after a write: both numbers, again and again. Zeros for no write.
fn content(page: u32, write: u32) -> Vec<u8> {
    let pair = if write == 0 { [0; 2] } else { [page, write] };
    let bytes = [pair[0].to_le_bytes(), pair[1].to_le_bytes()].concat();
    bytes.repeat(PAGE_BYTES as usize / bytes.len())
}

/// What was done to an image: each page is written, then pages at random, and some are trimmed.
fn requests() -> Vec<Request> {
    let mut dice = Dice::new(2);
    let fill = (1..=PAGES).map(|write| (write - 1, write));
    let overwrites = (PAGES + 1..5 * PAGES).map(|write| (dice.below(PAGES), write));
    let writes =
        fill.chain(overwrites).map(|(page, write)| request(Op::Write, page, 1, content(page, write)));
    let mut all: Vec<Request> = writes.collect();
    let trims = (0..10).map(|trim| request(Op::Trim, trim * 15, 3, Vec::new()));
    all.splice(500..500, trims);
    all.push(request(Op::Flush, 0, 0, Vec::new()));
    all
}

/// What the pages hold after that.
fn held() -> Vec<Vec<u8>> {
    let mut held = vec![content(0, 0); PAGES as usize];
    for request in requests() {
        let first = (request.offset / u64::from(PAGE_BYTES)) as usize;
        match request.op {
            Op::Write => held[first] = request.data.to_vec(),
            Op::Trim => held[first..first + 3].fill(content(0, 0)),
            _ => {}
        }
    }
    held
}

fn stored(format: u32, scheme: &str, end: &str) -> PathBuf {
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    formats.join(format.to_string()).join(format!("{scheme}-{end}.zst"))
}

fn make(folder: &Folder, scheme: &str, end: &str) -> Vec<u8> {
    let geometry = Geometry {
        channels: 2,
        luns_per_channel: 2,
        planes_per_lun: 1,
        blocks_per_plane: 40,
        pages_per_block: 4,
        page_bytes: PAGE_BYTES,
        oob_bytes: 64,
    };
    let path = folder.0.join(format!("made-{scheme}-{end}"));
    let mut cache = 1 << 10;
    while let Err(error) =
        live::create(&path, &DeviceSpec::tiny(geometry.clone(), PAGES), &Settings::new(scheme, cache))
    {
        assert!(cache < 1 << 24, "{scheme}: {error}");
        cache *= 2;
    }
    let (export, _) = live::open(&path, Opening::default()).unwrap();
    for request in requests() {
        export.request(&request, &mut []).unwrap();
    }
    if end == "closed" {
        export.power_off().unwrap();
    }
    let image = std::fs::read(&path).unwrap();
    if end == "killed" {
        export.power_off().unwrap();
    }
    image
}

/// Opens an image, compares every page, writes to it, and closes it; twice.
fn live_on(path: &Path) {
    let mut held = held();
    for round in 1..=2 {
        let (export, _) = live::open(path, Opening::default())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let sure =
            |done: Result<(), IoError>| done.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut read = vec![0; PAGE_BYTES as usize];
        for (page, held) in (0..).zip(&held) {
            sure(export.request(&request(Op::Read, page, 1, Vec::new()), &mut read));
            assert!(read == *held, "{}: page {page} holds {:?}", path.display(), &read[..8]);
        }
        for page in (0..PAGES).step_by(3) {
            held[page as usize] = content(page, 10_000 * round + page);
            sure(export.request(&request(Op::Write, page, 1, held[page as usize].clone()), &mut []));
        }
        export.power_off().unwrap();
    }
}

#[test]
fn images_of_released_formats_open() {
    let folder = Folder::new("formats");
    for scheme in schemes::ALL {
        for end in ENDS {
            let file = stored(FORMAT, scheme.name, end);
            if !file.exists() && std::env::var_os("FTL_BLESS").is_some() {
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                let image = make(&folder, scheme.name, end);
                std::fs::write(&file, zstd::encode_all(&*image, 19).unwrap()).unwrap();
            }
            assert!(
                file.exists(),
                "{} is missing; to make it: FTL_BLESS=1 cargo test -p ftlkit-live --test suite formats",
                file.display()
            );
        }
    }
    let mut opened = 0;
    for format in 2..=FORMAT {
        for file in std::fs::read_dir(stored(format, "", "").parent().unwrap()).unwrap() {
            let packed = std::fs::read(file.unwrap().path()).unwrap();
            let image = zstd::decode_all(&*packed).unwrap();
            assert_eq!(image[8..12], format.to_le_bytes());
            opened += 1;
            let path = folder.0.join(format!("image-{opened}"));
            std::fs::write(&path, image).unwrap();
            live_on(&path);
            std::fs::remove_file(&path).unwrap();
        }
    }
    assert!(opened >= ENDS.len() * schemes::ALL.len());
}
