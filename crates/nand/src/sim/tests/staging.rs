//! The data buffer and the spare bytes.

use super::*;

#[test]
fn a_held_page_is_served_and_programmed_from_its_slot() {
    let mut nand = plain();
    assert!(nand.reserve(2, 2), "14 + 2 bytes of OOB");
    nand.hold(1, data(9, 5));
    assert_eq!(nand.held(1), data(9, 5));
    let ppn = at(&nand, 0, 0);
    nand.attach(&[3, 4]);
    nand.program(ppn, data(9, 5), WRITE, Source::Buffer(1), NOW).unwrap();
    nand.program(at(&nand, 1, 0), data(8, 6), WRITE, Source::Host, NOW).unwrap();
    let (oob, _) = nand.read(ppn, Class::HostRead, Sink::Buffer(0), NOW).unwrap();
    assert_eq!((oob, nand.held(0)), (data(9, 5), data(9, 5)));
    assert_eq!(nand.spare(), [3, 4]);
    nand.scan(at(&nand, 1, 0), NOW).unwrap();
    assert_eq!(nand.spare(), [0, 0], "nothing was attached");
    assert_eq!(nand.inspect_spare(ppn), [3, 4]);
    let bytes = nand.heap_bytes();
    assert!(nand.reserve(2, 2) && nand.inspect_spare(ppn) == [3, 4], "the same spare bytes are kept");
    assert_eq!(nand.heap_bytes(), bytes);
}

#[test]
fn spare_bytes_need_room_in_the_oob() {
    let mut nand = plain();
    let without = nand.heap_bytes();
    assert!(!nand.reserve(1, 3), "14 + 3 bytes do not fit 16");
    assert_eq!(nand.heap_bytes(), without);
}

#[test]
#[should_panic(expected = "Source::Buffer, slot 0, holds another kind, id or version, or nothing")]
fn another_page_than_the_slot_holds() {
    let mut nand = plain();
    nand.reserve(1, 0);
    nand.hold(0, data(9, 5));
    nand.program(at(&nand, 0, 0), data(9, 6), WRITE, Source::Buffer(0), NOW).unwrap();
}

#[test]
#[should_panic(expected = "slot 0 of the data buffer holds nothing")]
fn a_slot_is_empty_after_a_reservation() {
    let mut nand = plain();
    nand.reserve(1, 0);
    nand.hold(0, data(9, 5));
    nand.reserve(1, 0);
    nand.held(0);
}

#[test]
fn superseded_metadata_gives_its_memory_back() {
    let mut nand = plain();
    let ppn = at(&nand, 0, 0);
    nand.program(ppn, table(3, 1), WRITE, Source::Metadata(&[1]), NOW).unwrap();
    assert_eq!(nand.metadata_buffers().0, 1);
    nand.superseded(ppn);
    assert_eq!(nand.metadata_buffers(), (0, 1));
}
