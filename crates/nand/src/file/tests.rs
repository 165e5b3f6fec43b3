//! Image files: bytes come back, damage is seen, and every mistake has its sentence.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use super::format::{HEADER_AT, RECORD_BYTES};
use super::*;
use crate::PageKind::{Data, Translation};

/// An image file of this test's own, removed when the test ends.
struct Scratch(PathBuf);

/// Linux' tmpfs, where images are read in another way.
const IN_MEMORY: &str = "/dev/shm";

impl Scratch {
    fn new(folder: &Path, name: &str) -> Scratch {
        let path = folder.join(format!("ftl-nand-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Scratch(path)
    }

    /// A new image on disk, and one in memory.
    fn images(name: &str) -> impl Iterator<Item = Scratch> + use<'_> {
        let folders = [std::env::temp_dir(), PathBuf::from(IN_MEMORY)];
        folders.into_iter().filter(|folder| folder.is_dir()).map(move |folder| {
            let scratch = Scratch::new(&folder, name);
            FileNand::create(&scratch.0, &description()).unwrap();
            scratch
        })
    }

    fn open(&self) -> FileNand {
        let (mut nand, ..) = FileNand::open(&self.0).unwrap();
        nand.begin().unwrap();
        nand
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn description() -> Description {
    let geometry = Geometry {
        channels: 2,
        luns_per_channel: 1,
        planes_per_lun: 1,
        blocks_per_plane: 16,
        pages_per_block: 8,
        page_bytes: 4096,
        oob_bytes: 64,
    };
    Description { device: DeviceSpec::tiny(geometry, 100), settings: "scheme = page".to_owned() }
}

use crate::DeviceSpec;

fn oob(kind: PageKind, id: u32, version: u64) -> Oob {
    Oob { kind, id, version, epoch: 1, lost: false }
}

fn write<M: Medium>(nand: &mut FileNand<M>, ppn: u32, lpn: u32, version: u64, byte: u8) {
    nand.offer(Lpn(lpn), Bytes::from(vec![byte; 4096]));
    nand.program(Ppn(ppn), oob(Data, lpn, version), Class::HostWrite, Source::Host, Done::READY).unwrap();
}

/// Reads a page as a host does.
fn host_read(nand: &mut FileNand, ppn: u32) -> io::Result<Vec<u8>> {
    nand.read(Ppn(ppn), Class::HostRead, Sink::Host(Lpn(7)), Done::READY).unwrap();
    let fetches: Vec<Fetch> = nand.fetches().collect();
    let mut page = vec![0; 4096];
    nand.reader().read(&fetches, &mut page).map(|()| page)
}

#[test]
fn bytes_come_back_before_and_after_landing_and_opening() {
    for scratch in Scratch::images("bytes") {
        let mut nand = scratch.open();
        write(&mut nand, 0, 5, 1, 0xA5);
        assert_eq!(host_read(&mut nand, 0).unwrap(), vec![0xA5; 4096], "staged");
        nand.land().unwrap();
        assert_eq!(host_read(&mut nand, 0).unwrap(), vec![0xA5; 4096], "landed");
        // A copy, a metadata page, and a patch of it.
        nand.read(Ppn(0), Class::CollectionRead, Sink::Controller, Done::READY).unwrap();
        nand.program(Ppn(2), oob(Data, 5, 1), Class::CollectionProgram, Source::Page(Ppn(0)), Done::READY)
            .unwrap();
        let first = oob(Translation, 0, 1);
        nand.program(Ppn(1), first, Class::HostWrite, Source::Metadata(&[1, 0, 0, 0, 2]), Done::READY)
            .unwrap();
        let changes = [(1, 0x0403_0201)];
        let patch = Source::Patch(Ppn(1), &changes);
        nand.program(Ppn(3), oob(Translation, 0, 2), Class::HostWrite, patch, Done::READY).unwrap();
        drop(nand.close());
        let (mut nand, description, mounted) = FileNand::open(&scratch.0).unwrap();
        assert!(mounted.clean && mounted.pages == 4 && mounted.torn_pages == 0, "{mounted:?}");
        assert_eq!(description.settings, "scheme = page");
        assert_eq!(host_read(&mut nand, 2).unwrap(), vec![0xA5; 4096]);
        nand.read(Ppn(3), Class::HostRead, Sink::Controller, Done::READY).unwrap();
        assert_eq!(nand.buffer()[..9], [1, 0, 0, 0, 1, 2, 3, 4, 0]);
        assert_eq!(nand.peek(Ppn(2)), Some(oob(Data, 5, 1)));
        assert_eq!((nand.written(Pbn(0)), nand.written(Pbn(1))), (2, 2));
    }
}

#[test]
fn an_erase_survives_and_its_pages_are_blank() {
    for scratch in Scratch::images("erase") {
        let mut nand = scratch.open();
        write(&mut nand, 0, 5, 1, 1);
        write(&mut nand, 2, 6, 2, 2);
        nand.erase(Pbn(0), Done::READY).unwrap();
        nand.close().unwrap();
        let mut nand = scratch.open();
        assert_eq!(nand.written(Pbn(0)), 0);
        write(&mut nand, 0, 9, 3, 3);
        nand.land().unwrap();
        drop(nand);
        let mut nand = scratch.open();
        assert_eq!((nand.written(Pbn(0)), host_read(&mut nand, 0).unwrap()), (1, vec![3; 4096]));
    }
}

#[test]
fn damaged_data_are_an_error_and_a_copy_does_not_heal_them() {
    for scratch in Scratch::images("damage") {
        let mut nand = scratch.open();
        write(&mut nand, 0, 5, 1, 7);
        nand.land().unwrap();
        let places = Places::new(&description().device.geometry);
        let mut file = std::fs::OpenOptions::new().write(true).open(&scratch.0).unwrap();
        file.seek(SeekFrom::Start(places.data(0) + 100)).unwrap();
        file.write_all(&[8]).unwrap();
        assert!(host_read(&mut nand, 0).is_err());
        let read = nand.read(Ppn(0), Class::CollectionRead, Sink::Controller, Done::READY);
        assert!(matches!(read, Err(Fault::Uncorrectable { ppn: Ppn(0), .. })));
        nand.program(Ppn(2), oob(Data, 5, 1), Class::CollectionProgram, Source::Page(Ppn(0)), Done::READY)
            .unwrap();
        nand.land().unwrap();
        assert!(host_read(&mut nand, 2).is_err());
    }
}

#[test]
fn a_new_image_takes_no_space_and_a_used_one_gives_back_what_is_erased() {
    for scratch in Scratch::images("sparse") {
        let blocks = || scratch.0.metadata().unwrap().blocks() * 512;
        let fresh = blocks();
        assert!(fresh < 128 << 10, "{fresh} bytes");
        let mut nand = scratch.open();
        for page in 0..16 {
            write(&mut nand, page, page, u64::from(page) + 1, 1);
        }
        nand.land().unwrap();
        assert!(blocks() >= fresh + 16 * 4096);
        nand.erase(Pbn(0), Done::READY).unwrap();
        nand.erase(Pbn(1), Done::READY).unwrap();
        nand.close().unwrap();
        assert!(blocks() < fresh + 8 * 4096, "{} bytes", blocks());
    }
}

#[test]
fn a_reader_keeps_an_erased_page_until_it_ends() {
    for scratch in Scratch::images("reader") {
        let mut nand = scratch.open();
        write(&mut nand, 0, 5, 1, 7);
        nand.land().unwrap();
        nand.read(Ppn(0), Class::HostRead, Sink::Host(Lpn(5)), Done::READY).unwrap();
        let fetches: Vec<Fetch> = nand.fetches().collect();
        let reader = nand.reader();
        nand.erase(Pbn(0), Done::READY).unwrap();
        let writer = std::thread::spawn(move || {
            write(&mut nand, 0, 6, 2, 8);
            nand.land().unwrap();
            nand
        });
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut page = vec![0; 4096];
        reader.read(&fetches, &mut page).unwrap();
        assert!(page == [7; 4096] && !writer.is_finished());
        drop(reader);
        let mut nand = writer.join().unwrap();
        assert_eq!(host_read(&mut nand, 0).unwrap(), vec![8; 4096]);
    }
}

#[test]
fn a_page_fetched_before_its_block_is_written_again_is_kept() {
    for scratch in Scratch::images("rescue") {
        let mut nand = scratch.open();
        write(&mut nand, 0, 5, 1, 7);
        nand.land().unwrap();
        let fetch = |nand: &mut FileNand, lpn: u32| {
            nand.read(Ppn(0), Class::HostRead, Sink::Host(Lpn(lpn)), Done::READY).unwrap();
            nand.fetches().collect::<Vec<_>>()
        };
        let before = fetch(&mut nand, 5);
        nand.erase(Pbn(0), Done::READY).unwrap();
        write(&mut nand, 0, 6, 2, 8);
        let after = fetch(&mut nand, 6);
        nand.land().unwrap();
        let reader = nand.reader();
        let mut page = vec![0; 4096];
        reader.read(&before, &mut page).unwrap();
        assert!(page == [7; 4096]);
        reader.read(&after, &mut page).unwrap();
        assert!(page == [8; 4096]);
    }
}

#[test]
fn every_mistake_has_its_sentence() {
    let sentence = |scratch: &Scratch| match FileNand::open(&scratch.0) {
        Ok(_) => panic!("{} opens", scratch.0.display()),
        Err(error) => error.to_string(),
    };
    assert!(sentence(&Scratch::new(&std::env::temp_dir(), "missing")).contains("there is no such image"));
    let image = Scratch::images("mistakes").next().unwrap();
    let again = FileNand::create(&image.0, &description()).unwrap_err();
    assert!(again.to_string().contains("already"), "{again}");
    let held = image.open();
    assert!(sentence(&image).contains("in use by another process"));
    assert_eq!(describe(&image.0).unwrap().device, description().device);
    drop(held);
    let spoil = |at: u64, bytes: &[u8]| {
        let mut file = std::fs::OpenOptions::new().write(true).open(&image.0).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(bytes).unwrap();
    };
    for at in STATE_AT.as_flattened() {
        spoil(*at, &[9; 32]);
    }
    assert!(sentence(&image).contains("both copies of its state"));
    let file = std::fs::OpenOptions::new().write(true).open(&image.0).unwrap();
    file.set_len(1 << 20).unwrap();
    assert!(sentence(&image).contains("the file ends before"));
    spoil(64, b"?");
    assert!(sentence(&image).contains("the file ends before"), "the second copy counts");
    spoil(HEADER_AT[1] + 64, b"?");
    assert!(sentence(&image).contains("CRC of the header"));
    spoil(8, &[1]);
    assert!(sentence(&image).contains("format 1, and this ftl reads format 2"));
    spoil(0, b"QFI");
    assert!(sentence(&image).contains("not an image of ftl"));
    file.set_len(3).unwrap();
    assert!(sentence(&image).contains("not an image of ftl"));
}

/// Bytes of a file, to be damaged.
impl Scratch {
    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.0).unwrap()
    }

    fn overwrite(&self, at: u64, bytes: &[u8]) {
        let mut file = std::fs::OpenOptions::new().write(true).open(&self.0).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(bytes).unwrap();
    }

    fn flip(&self, at: u64) {
        let byte = self.bytes()[at as usize];
        self.overwrite(at, &[byte ^ 1]);
    }

    /// An image with pages 0 to 5 of user data, page 8 of a translation page, and block 1 erased.
    fn filled(&self, close: bool) {
        let mut nand = self.open();
        write(&mut nand, 1, 9, 1, 9);
        nand.erase(Pbn(1), Done::READY).unwrap();
        for page in 0..6 {
            write(&mut nand, page, page + 10, u64::from(page) + 2, page as u8 + 1);
        }
        let translation = oob(Translation, 0, 1);
        let first = nand.geometry().superblock_pages();
        nand.program(Ppn(first), translation, Class::HostWrite, Source::Metadata(&[7]), Done::READY).unwrap();
        nand.land().unwrap();
        if close {
            nand.close().unwrap();
        }
    }

    /// What is there; an error for a page that cannot be read.
    fn check(&self, unreadable: &[u32]) -> Mounted {
        let (mut nand, _, mounted) = FileNand::open(&self.0).unwrap();
        nand.begin().unwrap();
        for page in 0..6 {
            let is_there = host_read(&mut nand, page).is_ok_and(|data| data == [page as u8 + 1; 4096]);
            assert_eq!(is_there, !unreadable.contains(&page), "page {page}");
        }
        let first = nand.geometry().superblock_pages();
        nand.read(Ppn(first), Class::HostRead, Sink::Controller, Done::READY).unwrap();
        assert_eq!(nand.buffer()[0], 7);
        assert_eq!((nand.written(Pbn(0)), nand.written(Pbn(1)), nand.written(Pbn(2))), (3, 3, 1));
        mounted
    }
}

#[test]
fn damage_in_one_copy_costs_nothing() {
    let geometry = description().device.geometry;
    let first = geometry.superblock_pages();
    for closed in [true, false] {
        for copy in 0..COPIES {
            let places = Places::new(&geometry);
            let newest = |scratch: &Scratch| {
                let generation = |at: u64| scratch.bytes()[at as usize + 8];
                STATE_AT.into_iter().max_by_key(|at| generation(at[0])).unwrap()[copy]
            };
            let scratches = Scratch::images("heal");
            for scratch in scratches {
                scratch.filled(closed);
                for at in [
                    HEADER_AT[copy] + 40,
                    newest(&scratch) + 16,
                    places.block(copy, 1) + 3,
                    places.page(copy, 0),
                    places.page(copy, 3) + 31,
                    places.page(copy, first) + 9,
                    [places.data(first), places.mirror(first)][copy] + 100,
                ] {
                    let before = scratch.bytes();
                    scratch.flip(at);
                    scratch.check(&[]);
                    std::fs::write(&scratch.0, before).unwrap();
                }
                // As a lost sector and a bad controller do.
                for byte in [0, 0xFF] {
                    scratch.overwrite(places.page(copy, 0), &[byte; 4096]);
                    let healed = scratch.check(&[]).healed;
                    assert!(healed > 0 || !closed && byte == 0, "{healed} after {byte}");
                    assert_eq!(scratch.check(&[]).healed, 0, "it is mended");
                }
            }
        }
    }
}

#[test]
fn damage_in_both_copies_is_refused_and_nothing_is_written() {
    let places = Places::new(&description().device.geometry);
    for closed in [true, false] {
        for (bytes, at) in [
            (&[0xFF; 32][..], [0, 1].map(|copy| places.page(copy, 2))),
            (&[0xFF; 32][..], [0, 1].map(|copy| places.block(copy, 1))),
        ] {
            for scratch in Scratch::images("both") {
                scratch.filled(closed);
                at.into_iter().for_each(|at| scratch.overwrite(at, bytes));
                let before = scratch.bytes();
                let refused = FileNand::open(&scratch.0).map(|_| ()).unwrap_err();
                assert!(refused.to_string().contains("both copies of the record of"), "{refused}");
                assert!(scratch.bytes() == before);
            }
        }
    }
    // What is gone without a trace is missed, as pages are programmed in order.
    for scratch in Scratch::images("gone") {
        scratch.filled(true);
        (0..COPIES).for_each(|copy| scratch.overwrite(places.page(copy, 2), &[0; 32]));
        let refused = FileNand::open(&scratch.0).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("of page 2 are lost"), "{refused}");
    }
}

/// The newest page of a block has none behind it, and a block's record of zeros is that of one never erased.
/// The digest in the state misses both, and records of an earlier day, which look whole.
#[test]
fn what_is_gone_without_a_trace_is_missed() {
    let places = Places::new(&description().device.geometry);
    let newest = [0, 1].map(|copy| places.page(copy, 6));
    let block = [0, 1].map(|copy| places.block(copy, 1));
    for closed in [true, false] {
        for (at, is_old) in [(newest, false), (block, false), (block, true)] {
            for scratch in Scratch::images("missed") {
                scratch.filled(true);
                let before = scratch.bytes();
                let mut nand = scratch.open();
                nand.erase(Pbn(1), Done::READY).unwrap();
                write(&mut nand, 6, 30, 30, 30);
                if closed {
                    nand.close().unwrap();
                } else {
                    nand.land().unwrap();
                    nand.medium().sync().unwrap();
                    nand.synced(nand.sequence()).unwrap();
                    drop(nand);
                }
                assert!(FileNand::open(&scratch.0).is_ok());
                let whole = scratch.bytes();
                let old = &before[at[0] as usize..][..RECORD_BYTES];
                let bytes = if is_old { old } else { &[0; RECORD_BYTES] };
                at.into_iter().for_each(|at| scratch.overwrite(at, bytes));
                let refused = FileNand::open(&scratch.0).map(|_| ()).unwrap_err();
                assert!(refused.to_string().contains("that were durable are lost"), "{refused}");
                assert!(Salvage::open(&scratch.0).unwrap().untraced());
                std::fs::write(&scratch.0, whole).unwrap();
                assert!(!Salvage::open(&scratch.0).unwrap().untraced());
            }
        }
    }
}

impl Scratch {
    /// Rewrites every copy of the state that is whole, with a CRC that fits.
    fn change_state(&self, change: impl Fn(State) -> State) {
        let bytes = self.bytes();
        for at in STATE_AT.into_iter().flatten() {
            let raw: &[u8; format::STATE_BYTES] = bytes[at as usize..].first_chunk().unwrap();
            if let Some(state) = State::parse(raw) {
                self.overwrite(at, &change(state).bytes());
            }
        }
    }
}

/// Images of older versions have no digest.
#[test]
fn a_state_without_a_digest_is_believed() {
    for scratch in Scratch::images("undigested") {
        scratch.filled(true);
        scratch.change_state(|state| {
            assert!(state.vouch.is_some());
            State { vouch: None, ..state }
        });
        scratch.check(&[]);
    }
}

/// Counting goes on from them.
#[test]
fn numbers_at_the_end_of_64_bits_are_refused() {
    for scratch in Scratch::images("endless") {
        scratch.filled(false);
        scratch.change_state(|state| State { durable: u64::MAX, ..state });
        let refused = FileNand::open(&scratch.0).unwrap_err().to_string();
        assert!(refused.contains("it counts more operations than any device can do"), "{refused}");
    }
}

#[test]
fn damaged_data_of_a_dead_process_are_an_error_of_their_page_alone() {
    let places = Places::new(&description().device.geometry);
    for scratch in Scratch::images("late") {
        scratch.filled(false);
        scratch.flip(places.data(2) + 77);
        let mounted = scratch.check(&[2]);
        assert!(!mounted.host_restarted && mounted.torn_pages == 0, "{mounted:?}");
        scratch.check(&[2]);
    }
}

#[test]
fn opening_writes_nothing_before_it_is_begun() {
    for scratch in Scratch::images("held") {
        scratch.filled(false);
        let before = scratch.bytes();
        let change = || {
            let (mut nand, ..) = FileNand::open(&scratch.0).unwrap();
            // More than is staged at once, and an erased block that is used again.
            for round in 0..3 {
                nand.erase(Pbn(0), Done::READY).unwrap();
                for page in 0..8 {
                    write(&mut nand, 2 * page, page, 20 + round, round as u8);
                }
                nand.land().unwrap();
            }
            assert_eq!(host_read(&mut nand, 4).unwrap(), vec![2; 4096]);
            nand
        };
        drop(change());
        assert!(scratch.bytes() == before);
        let mut nand = change();
        nand.begin().unwrap();
        drop(nand);
        let mut nand = scratch.open();
        assert_eq!(host_read(&mut nand, 4).unwrap(), vec![2; 4096]);
        assert_eq!(host_read(&mut nand, 1).unwrap(), vec![2; 4096]);
    }
}

/// A file on a host whose disk can be full, or fail.
struct Failing {
    file: File,
    full: AtomicBool,
    fails: AtomicBool,
}

impl Medium for Failing {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        Medium::read_at(&self.file, bytes, offset)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        if self.full.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Medium::write_at(&self.file, parts, offset)
    }

    fn sync(&self) -> io::Result<()> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(io::Error::other("lost pages"));
        }
        self.file.sync()
    }

    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        self.file.punch(offset, length)
    }
}

#[test]
fn what_waits_for_room_lands_unless_a_sync_has_failed_meanwhile() {
    for scratch in Scratch::images("full") {
        for fails in [false, true] {
            let file = File::options().read(true).write(true).open(&scratch.0).unwrap();
            let medium = Failing { file, full: false.into(), fails: false.into() };
            let (mut nand, ..) = FileNand::on(medium, &scratch.0).unwrap();
            nand.begin().unwrap();
            let medium = nand.medium();
            medium.full.store(true, Ordering::Relaxed);
            // An erased block that is written again waits in a layer of its own.
            for version in 1..3 {
                nand.erase(Pbn(0), Done::READY).unwrap();
                write(&mut nand, 0, 5, version, version as u8);
            }
            assert!(nand.land().is_err() && nand.staged_pages() == 2);
            medium.full.store(false, Ordering::Relaxed);
            medium.fails.store(fails, Ordering::Relaxed);
            assert_eq!(nand.land().is_err(), fails);
            medium.fails.store(false, Ordering::Relaxed);
            assert_eq!(nand.land().is_err(), fails, "a sync that failed is not made good by a later one");
            assert_eq!(nand.close().is_err(), fails);
        }
    }
}

#[test]
fn an_image_is_its_owners_alone() {
    for scratch in Scratch::images("mode") {
        assert_eq!(scratch.0.metadata().unwrap().mode() & 0o777, 0o600);
    }
}

#[test]
fn an_image_that_is_only_read_is_not_written_to() {
    for scratch in Scratch::images("readonly") {
        scratch.filled(false);
        let places = Places::new(&description().device.geometry);
        scratch.flip(places.page(0, 3) + 5);
        let before = scratch.bytes();
        let (mut one, _, mounted) = FileNand::open_read_only(&scratch.0).unwrap();
        let (mut other, ..) = FileNand::open_read_only(&scratch.0).unwrap();
        assert_eq!(mounted.healed, 1);
        let refused = FileNand::open(&scratch.0).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("in use"), "{refused}");
        one.begin().unwrap();
        other.begin().unwrap();
        // What is written is there for the one that wrote it.
        for round in 0..2 {
            one.erase(Pbn(0), Done::READY).unwrap();
            write(&mut one, 0, 10, 50 + round, 50 + round as u8);
            one.land().unwrap();
        }
        assert_eq!(host_read(&mut one, 0).unwrap(), vec![51; 4096]);
        assert_eq!(host_read(&mut other, 0).unwrap(), vec![1; 4096]);
        drop((one, other));
        assert!(scratch.bytes() == before);
    }
}

/// Scrubs all pages, in steps of 5.
fn scrubbed(nand: &mut FileNand) -> Scrubbed {
    let (mut found, pages) = (Scrubbed::default(), nand.geometry().pages());
    for first in (0..pages).step_by(5) {
        let (seen, to_mend) = nand.scrub(first..pages.min(first + 5)).unwrap().read();
        nand.mend(&to_mend).unwrap();
        found.add(seen);
    }
    found
}

#[test]
fn a_scrub_finds_all_damage_and_mends_what_has_a_copy() {
    let geometry = description().device.geometry;
    let (places, first) = (Places::new(&geometry), geometry.superblock_pages());
    for scratch in Scratch::images("scrub") {
        scratch.filled(true);
        let mut nand = scratch.open();
        assert_eq!(scrubbed(&mut nand), Scrubbed { pages: 7, ..Scrubbed::default() });
        // While the array is in use: records of either copy, the data of a mapping page in either place, and
        // a page of user data.
        for at in [
            places.page(0, 1) + 2,
            places.page(1, 4) + 30,
            places.page(1, 40),
            places.data(first) + 9,
            places.data(2) + 4095,
        ] {
            scratch.flip(at);
        }
        let found = scrubbed(&mut nand);
        assert_eq!((found.pages, found.mendable, found.unrecorded), (7, 4, 0));
        assert_eq!(found.lost, [(Ppn(2), oob(Data, 12, 4))]);
        scratch.flip(places.mirror(first));
        assert_eq!(scrubbed(&mut nand).mendable, 1);
        let found = scrubbed(&mut nand);
        assert_eq!((found.mendable, found.lost.len()), (0, 1), "it is mended");
        drop(nand);
        assert_eq!(scratch.check(&[2]).healed, 0);
        // Both copies: nothing to mend from.
        let mut nand = scratch.open();
        for copy in 0..COPIES {
            scratch.flip(places.page(copy, 5) + 1);
            scratch.flip([places.data(first), places.mirror(first)][copy] + 1);
        }
        let found = scrubbed(&mut nand);
        assert_eq!((found.mendable, found.unrecorded, found.lost.len()), (0, 1, 2));
    }
}

#[test]
fn what_the_oob_proves_is_salvaged() {
    let places = Places::new(&description().device.geometry);
    for scratch in Scratch::images("salvage") {
        scratch.filled(true);
        let mut nand = scratch.open();
        // LPN 10 again, newer; then its data are damaged, and so is the record of LPN 13.
        write(&mut nand, 6, 10, 40, 77);
        nand.close().unwrap();
        scratch.flip(places.data(6));
        (0..COPIES).for_each(|copy| scratch.flip(places.page(copy, 3)));
        scratch.flip(places.data(4) + 1);
        assert!(FileNand::open(&scratch.0).is_err());
        let salvage = Salvage::open(&scratch.0).unwrap();
        assert_eq!(salvage.unrecorded(), 1);
        let mut page = vec![0; 4096];
        let mut read = |lpn| (salvage.read(Lpn(lpn), &mut page), page[0]);
        assert_eq!(read(10), (Salvaged::Older, 1));
        assert_eq!(read(11), (Salvaged::Newest, 2));
        assert_eq!(read(13).0, Salvaged::Nothing);
        assert_eq!(read(14).0, Salvaged::Lost);
        assert_eq!(read(15), (Salvaged::Newest, 6));
        // What was erased does not come back.
        assert_eq!(read(9).0, Salvaged::Nothing);
        // A record that is gone without a trace is missed.
        (0..COPIES).for_each(|copy| scratch.overwrite(places.page(copy, 3), &[0; 32]));
        assert_eq!(Salvage::open(&scratch.0).unwrap().unrecorded(), 1);
        // So are the erases of all blocks: then what was erased may be back.
        (0..COPIES).for_each(|copy| scratch.overwrite(places.block(copy, 0), &[9; 512]));
        assert_eq!(Salvage::open(&scratch.0).unwrap().read(Lpn(15), &mut page), Salvaged::Newest);
    }
}
