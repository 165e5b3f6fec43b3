//! Rules, contents, faults and copies of the simulated array.
#![allow(clippy::unwrap_used)]

mod faults;
mod model;
mod rules;
mod staging;

use crate::timing::{DieUse, NoClock, Operation, Timing};
use crate::{
    Class, DataBuffer, DeviceSpec, Done, Geometry, Lpn, Nand, Oob, PageKind, Pbn, Ppn, SimNand, SimOptions,
    Sink, Source, SpareBytes, SpareRefused,
};

const WRITE: Class = Class::HostWrite;
const NOW: Done = Done::READY;
const TO_HOST: Sink = Sink::Host(Lpn(0));

/// 2 channels x 2 luns x 2 planes x 3 blocks x 4 pages of 512 bytes.
fn small() -> DeviceSpec {
    let geometry = Geometry {
        channels: 2,
        luns_per_channel: 2,
        planes_per_lun: 2,
        blocks_per_plane: 3,
        pages_per_block: 4,
        page_bytes: 512,
        oob_bytes: 16,
    };
    DeviceSpec::tiny(geometry, 64)
}

fn plain() -> SimNand<NoClock> {
    SimNand::new(&small(), NoClock::new(), SimOptions::default())
}

fn data(id: u32, version: u64) -> Oob {
    Oob { kind: PageKind::Data, id, version, epoch: 1, lost: false }
}

fn table(id: u32, version: u64) -> Oob {
    Oob { kind: PageKind::Translation, ..data(id, version) }
}

/// Page `page` of block `block`.
fn at(nand: &impl Nand, block: u32, page: u32) -> Ppn {
    nand.geometry().page_in(Pbn(block), page)
}

/// Everything one can see of an array.
fn dump<T: Timing>(nand: &SimNand<T>) -> Vec<String> {
    let mut content = Vec::new();
    let mut seen = vec![format!("{:?} {:?}", nand.counts(), nand.wear())];
    for block in (0..nand.geometry().blocks()).map(Pbn) {
        let state = (nand.is_bad(block), nand.written(block), nand.erases_of(block));
        seen.push(format!("{block:?} {state:?}"));
    }
    for ppn in (0..nand.geometry().pages()).map(Ppn) {
        let found = nand.inspect(ppn, &mut content);
        seen.push(format!("{ppn:?} {:?} {found:?} {content:?}", nand.peek(ppn)));
    }
    seen
}

/// A clock that keeps what it is asked to do, and hands out the number of the operation as its completion.
#[derive(Clone, Debug, Default)]
struct Recorder {
    written: Vec<u16>,
    operations: Vec<(Operation, u64)>,
}

impl Timing for Recorder {
    fn start(&mut self, written: &[u16]) {
        self.written = written.to_vec();
        self.operations.clear();
    }
    fn operate(&mut self, op: Operation, after: Done) -> Done {
        self.operations.push((op, after.0));
        Done(self.operations.len() as u64)
    }
    fn compute(&mut self, ns: u64, after: Done) -> Done {
        Done(ns + after.0)
    }
    fn join(&mut self, a: Done, b: Done) -> Done {
        Done(a.0.max(b.0))
    }
    fn settle(&mut self) -> Done {
        Done(self.operations.len() as u64)
    }
    fn now(&self) -> u64 {
        0
    }
    fn arrival(&self) -> Done {
        NOW
    }
    fn watch(&mut self, _done: Done, _tag: u32) {}
    fn alarm(&mut self, _at_ns: u64, _tag: u32) {}
    fn next(&mut self) -> Option<(u32, u64)> {
        None
    }
    fn drain(&mut self) {}
    fn die_use(&self) -> Vec<DieUse> {
        Vec::new()
    }
}

#[test]
fn each_operation_reaches_the_clock_with_its_place_and_what_it_waits_for() {
    let mut nand = SimNand::new(&small(), Recorder::default(), SimOptions::default());
    let ppn = at(&nand, 21, 0); // superblock 2, unit 5: plane 1 of die 1
    let programmed = nand.program(ppn, data(1, 1), WRITE, Source::Host, Done(70)).unwrap();
    let (_, read) = nand.read(ppn, Class::CollectionRead, TO_HOST, programmed).unwrap();
    let (_, scanned) = nand.scan(ppn, read).unwrap();
    assert_eq!(nand.erase(Pbn(21), scanned).unwrap().0, 4);
    assert_eq!((nand.join(Done(3), Done(9)).0, nand.settle().0, nand.compute(5, Done(6)).0), (9, 4, 11));
    let seen: Vec<String> = nand
        .timing()
        .operations
        .iter()
        .map(|(o, after)| {
            format!("{:?} {:?} die {} {:?} page {} after {after}", o.kind, o.class, o.die, o.block, o.page)
        })
        .collect();
    assert_eq!(
        seen,
        [
            "Program HostWrite die 1 Pbn(21) page 0 after 70",
            "Read CollectionRead die 1 Pbn(21) page 0 after 1",
            "Read CollectionRead die 1 Pbn(21) page 0 after 2",
            "Erase Erase die 1 Pbn(21) page 0 after 3",
        ]
    );
}

#[test]
fn operations_are_counted_by_class() {
    let mut nand = plain();
    let (a, b) = (at(&nand, 0, 0), at(&nand, 0, 1));
    nand.program(a, data(1, 1), WRITE, Source::Host, NOW).unwrap();
    let before = *nand.counts();
    nand.read(a, Class::CollectionRead, Sink::Controller, NOW).unwrap();
    nand.program(b, data(1, 1), Class::CollectionProgram, Source::Page(a), NOW).unwrap();
    nand.read(b, Class::HostRead, TO_HOST, NOW).unwrap();
    nand.scan(b, NOW).unwrap();
    nand.erase(Pbn(0), NOW).unwrap();
    let counts = *nand.counts();
    assert_eq!(
        (counts.reads, counts.programs, counts.erases),
        ([1, 0, 2, 0, 0], [0, 1, 0, 1, 0], [0, 0, 0, 0, 1])
    );
    assert_eq!((counts.total_reads(), counts.total_programs(), counts.total_erases()), (3, 2, 1));
    assert_eq!(counts.since(&before).programs, [0, 0, 0, 1, 0]);
}

#[test]
fn a_change_of_clock_keeps_the_array_and_tells_the_clock_what_is_written() {
    let mut nand = plain();
    for page in 0..3 {
        let ppn = at(&nand, 5, page);
        nand.program(ppn, table(page, 1), WRITE, Source::Metadata(&[page as u8; 9]), NOW).unwrap();
    }
    let before = dump(&nand);
    let mut nand = nand.with_timing(Recorder::default());
    assert_eq!(dump(&nand), before);
    let mut written = vec![0; 24];
    written[5] = 3;
    assert_eq!(nand.timing().written, written);
}

#[test]
fn a_clone_equals_its_original_and_clone_from_reuses_memory() {
    let mut nand = plain();
    let ppn = at(&nand, 3, 0);
    nand.program(ppn, table(3, 1), WRITE, Source::Metadata(b"first"), NOW).unwrap();
    nand.erase(Pbn(7), NOW).unwrap();
    nand.retire(Pbn(7));
    let base = nand.clone();
    assert_eq!(dump(&nand), dump(&base));
    let records = nand.array.records.as_ptr();
    for page in 1..4 {
        let (old, new) = (at(&nand, 3, page - 1), at(&nand, 3, page));
        let oob = table(3, 1 + u64::from(page));
        nand.program(new, oob, WRITE, Source::Patch(old, &[(page, page)]), NOW).unwrap();
    }
    nand.torn_block(Pbn(1));
    assert_ne!(dump(&nand), dump(&base));
    nand.clone_from(&base);
    assert_eq!(dump(&nand), dump(&base));
    assert_eq!(nand.array.records.as_ptr(), records);
    nand.read(ppn, Class::HostRead, Sink::Controller, NOW).unwrap();
    assert_eq!(nand.buffer()[..6], *b"first\0");
}

#[test]
fn a_patch_costs_no_page_and_an_erase_frees_them() {
    let mut nand = plain();
    let first = at(&nand, 3, 0);
    nand.program(first, table(3, 1), WRITE, Source::Metadata(&[1; 512]), NOW).unwrap();
    for page in 1..4 {
        let (old, new) = (at(&nand, 3, page - 1), at(&nand, 3, page));
        nand.program(new, table(3, 9 + u64::from(page)), WRITE, Source::Patch(old, &[(0, 5)]), NOW).unwrap();
    }
    assert_eq!(nand.metadata_buffers(), (1, 1));
    nand.erase(Pbn(3), NOW).unwrap();
    assert_eq!(nand.metadata_buffers(), (0, 1));
    for round in 0..5 {
        for page in 0..4 {
            let ppn = at(&nand, round, page);
            nand.program(ppn, table(page, 1), WRITE, Source::Metadata(&[]), NOW).unwrap();
        }
        nand.erase(Pbn(round), NOW).unwrap();
    }
    assert_eq!(nand.metadata_buffers(), (0, 4));
}

#[test]
fn a_large_device_takes_nine_bytes_a_page() {
    let device = DeviceSpec::named("femu-32g").unwrap();
    let nand = SimNand::new(&device, NoClock::new(), SimOptions::default());
    let a_page = nand.heap_bytes() as f64 / f64::from(device.geometry.pages());
    assert!((9.0..9.05).contains(&a_page), "{a_page}");
}

#[test]
fn wear_is_spread_over_the_good_blocks() {
    let mut nand = plain();
    assert_eq!(nand.wear(), crate::WearSpread { min: 0, max: 0, mean: 0.0, stddev: 0.0 });
    for block in 0..12 {
        nand.erase(Pbn(block), NOW).unwrap();
        nand.erase(Pbn(block), NOW).unwrap();
    }
    let wear = nand.wear();
    assert_eq!((wear.min, wear.max, wear.mean, wear.stddev), (0, 2, 1.0, 1.0));
    (12..24).for_each(|block| nand.retire(Pbn(block)));
    assert_eq!((nand.wear().min, nand.wear().stddev), (2, 0.0));
}
