//! The data buffer and the spare bytes.

use super::*;

#[test]
fn a_stored_page_is_served_and_programmed_from_its_slot() {
    let mut nand = plain();
    nand.reserve_slots(2);
    assert_eq!(nand.reserve_spare(2), Ok(()), "14 + 2 bytes of OOB");
    nand.store(1, data(9, 5));
    assert_eq!(nand.deliver(1), data(9, 5));
    let ppn = at(&nand, 0, 0);
    nand.attach(&[3, 4]);
    nand.program(ppn, data(9, 5), WRITE, Source::Buffer(1), NOW).unwrap();
    nand.program(at(&nand, 1, 0), data(8, 6), WRITE, Source::Host, NOW).unwrap();
    let (oob, _) = nand.read(ppn, Class::HostRead, Sink::Buffer(0), NOW).unwrap();
    assert_eq!((oob, nand.deliver(0)), (data(9, 5), data(9, 5)));
    assert_eq!(nand.spare(), [3, 4]);
    nand.scan(at(&nand, 1, 0), NOW).unwrap();
    assert_eq!(nand.spare(), [0, 0], "nothing was attached");
    assert_eq!(nand.inspect_spare(ppn), [3, 4]);
    let bytes = nand.heap_bytes();
    nand.reserve_spare(2).unwrap();
    assert_eq!(nand.inspect_spare(ppn), [3, 4], "the same spare bytes are kept");
    assert_eq!(nand.heap_bytes(), bytes);
}

#[test]
fn spare_bytes_need_room_in_the_oob() {
    let mut nand = plain();
    let without = nand.heap_bytes();
    assert_eq!(nand.reserve_spare(3), Err(SpareRefused { asked: 3, room: 2 }), "14 + 3 bytes do not fit 16");
    assert_eq!(nand.heap_bytes(), without);
}

#[test]
#[should_panic(expected = "Source::Buffer, slot 0, holds another kind, id or version, or nothing")]
fn another_page_than_the_slot_holds() {
    let mut nand = plain();
    nand.reserve_slots(1);
    nand.store(0, data(9, 5));
    nand.program(at(&nand, 0, 0), data(9, 6), WRITE, Source::Buffer(0), NOW).unwrap();
}

#[test]
#[should_panic(expected = "slot 0 of the data buffer holds nothing")]
fn a_slot_is_empty_after_a_reservation() {
    let mut nand = plain();
    nand.reserve_slots(1);
    nand.store(0, data(9, 5));
    nand.reserve_slots(1);
    nand.deliver(0);
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
