//! A translation page of a device in service of which both copies are damaged: nobody notices.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::Folder;
use check::Dice;
use ftl::schemes;
use live::{Op, Opening, Request};
use nand::{image_parts, Geometry};

const PAGE_BYTES: u32 = 512;
const PAGES: u32 = 1200;
const RECORD_BYTES: u64 = 32;
/// As docs/format.md has it.
const KIND_TRANSLATION: u8 = 1;

fn request(op: Op, page: u32, pages: u32, data: Vec<u8>) -> Request {
    let (offset, length) = (u64::from(page * PAGE_BYTES), pages * PAGE_BYTES);
    Request { op, offset, length, fua: false, data: data.into() }
}

fn content(write: u32) -> Vec<u8> {
    write.to_le_bytes().repeat(PAGE_BYTES as usize / 4)
}

/// Puts noise over both copies of every translation page. Returns how many there are, superseded ones too.
fn damage(image: &Path, geometry: &Geometry) -> u32 {
    let file = File::options().read(true).write(true).open(image).unwrap();
    let parts = image_parts(geometry);
    let part = |name: &str| parts.iter().find(|(part, _)| *part == name).unwrap().1.start;
    let mut damaged = 0;
    for page in 0..u64::from(geometry.pages()) {
        let mut record = [0; RECORD_BYTES as usize];
        file.read_exact_at(&mut record, part("page records") + page * RECORD_BYTES).unwrap();
        if record == [0; RECORD_BYTES as usize] || record[15] & 3 != KIND_TRANSLATION {
            continue;
        }
        damaged += 1;
        for copy in ["data", "mirrored data"] {
            file.write_all_at(&[0x5a; 64], part(copy) + page * u64::from(PAGE_BYTES)).unwrap();
        }
    }
    damaged
}

#[test]
fn a_translation_page_that_is_lost_in_service_is_made_anew() {
    let folder = Folder::new("lost-mapping");
    for scheme in schemes::ALL {
        let geometry = Cell::new(None);
        let image = folder.image_with(scheme.name, scheme.name, |device| {
            device.geometry.page_bytes = PAGE_BYTES;
            geometry.set(Some(device.geometry.clone()));
        });
        let geometry = geometry.take().unwrap();
        let (export, _) = live::open(&image, Opening::default()).unwrap();
        let mut held = vec![0; PAGES as usize];
        let mut dice = Dice::new(3);
        let mut damaged = 0;
        for write in 1..=3 * PAGES {
            let page = if write <= PAGES { write - 1 } else { dice.below(PAGES) };
            held[page as usize] = write;
            export.request(&request(Op::Write, page, 1, content(write)), &mut []).unwrap();
            if write % 7 == 0 {
                let page = dice.below(PAGES - 2);
                held[page as usize..page as usize + 2].fill(0);
                export.request(&request(Op::Trim, page, 2, Vec::new()), &mut []).unwrap();
            }
            if write % (PAGES / 2) == 0 {
                damaged += damage(&image, &geometry);
            }
        }
        damaged += damage(&image, &geometry);
        let mut read = vec![0; PAGE_BYTES as usize];
        for (page, &write) in (0..).zip(&held) {
            let result = export.request(&request(Op::Read, page, 1, Vec::new()), &mut read);
            result.unwrap_or_else(|error| panic!("{}, page {page}: {error}", scheme.name));
            assert!(read == content(write), "{}: page {page} holds {:?}", scheme.name, &read[..4]);
        }
        // The records of `leaftl` fit in the least memory that it agrees to.
        let has_none =
            scheme.name == "leaftl" || scheme.name == "tide" || schemes::LOG_BLOCK.contains(&scheme.name);
        assert_eq!(damaged > 0, !has_none, "{}: {damaged} translation pages", scheme.name);
        // Every translation page is written again before the device goes off: else it might be one that
        // nobody has read since, and an image with such a page is refused.
        for (page, write) in (0..).zip(&mut held) {
            *write += 1;
            export.request(&request(Op::Write, page, 1, content(*write)), &mut []).unwrap();
        }
        export.power_off().unwrap();
        drop(export);
        let (export, _) = live::open(&image, Opening::default()).unwrap();
        for (page, &write) in (0..).zip(&held) {
            export.request(&request(Op::Read, page, 1, Vec::new()), &mut read).unwrap();
            assert!(read == content(write), "{}: page {page} holds {:?} afterwards", scheme.name, &read[..4]);
        }
        export.power_off().unwrap();
    }
}
