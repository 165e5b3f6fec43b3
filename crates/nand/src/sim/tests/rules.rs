//! A breach of a rule panics, and names rule and place.

use std::panic::{catch_unwind, AssertUnwindSafe};

use super::*;

/// An array with data in block 0, translation pages in block 1, block 2 bad, and a copied translation page in
/// block 9.
fn prepared() -> SimNand<NoClock> {
    let mut nand = plain();
    let (d, t, m) = (at(&nand, 0, 0), at(&nand, 1, 0), at(&nand, 1, 1));
    nand.program(d, data(7, 10), WRITE, Source::Host, NOW).unwrap();
    nand.program(t, table(3, 20), WRITE, Source::Metadata(b"abc"), NOW).unwrap();
    nand.program(m, table(4, 21), WRITE, Source::Metadata(b"def"), NOW).unwrap();
    nand.program(at(&nand, 9, 0), table(4, 21), WRITE, Source::Page(m), NOW).unwrap();
    nand.retire(Pbn(2));
    nand
}

#[track_caller]
fn refused(expected: &str, breach: impl FnOnce(&mut SimNand<NoClock>)) {
    let mut nand = prepared();
    let panic = catch_unwind(AssertUnwindSafe(|| breach(&mut nand)));
    let payload = panic.expect_err("no panic");
    let literal = payload.downcast_ref::<&str>().map(|text| text.to_string());
    let message = literal.or_else(|| payload.downcast_ref::<String>().cloned()).expect("a message");
    assert!(message.contains(expected), "{message}");
}

#[track_caller]
fn program_refused(expected: &str, block: u32, page: u32, oob: Oob, from: Source<'_>) {
    refused(expected, |nand| {
        let ppn = at(nand, block, page);
        let _ = nand.program(ppn, oob, WRITE, from, NOW);
    });
}

#[test]
fn programs_out_of_order_or_place() {
    program_refused(
        "(page 3 of Pbn(4): channel 0, lun 0, plane 1, superblock 0)",
        4,
        3,
        data(1, 1),
        Source::Host,
    );
    program_refused("the block's next page is 0 of 4", 4, 3, data(1, 1), Source::Host);
    program_refused("the block's next page is 1 of 4", 0, 0, data(1, 1), Source::Host);
    program_refused(
        "Pbn(2): channel 0, lun 1, plane 0, superblock 0): the block is bad",
        2,
        0,
        data(1, 1),
        Source::Host,
    );
    refused("Ppn(96) (the device has 96 pages): outside the device", |nand| {
        let _ = nand.program(Ppn(96), data(1, 1), WRITE, Source::Host, NOW);
    });
    refused("the block's next page is 4 of 4", |nand| {
        nand.torn_block(Pbn(5));
        let _ = nand.program(at(nand, 5, 0), data(1, 1), WRITE, Source::Host, NOW);
    });
}

#[test]
fn programs_of_the_wrong_kind() {
    program_refused("a Translation page in a block of Data pages", 0, 1, table(1, 1), Source::Metadata(&[]));
    program_refused("epoch 2 in a block of epoch 1", 0, 1, Oob { epoch: 2, ..data(1, 1) }, Source::Host);
    program_refused("Source::Host is not content for a page of this kind", 1, 2, table(1, 1), Source::Host);
    program_refused(
        "Source::Metadata of 2 bytes is not content",
        0,
        1,
        data(1, 1),
        Source::Metadata(&[1, 2]),
    );
    program_refused("513 bytes is longer than a page", 1, 2, table(1, 1), Source::Metadata(&[0; 513]));
    let lost = Oob { lost: true, ..data(1, 1) };
    program_refused("Oob::lost is true, but only Source::Nothing", 0, 1, lost, Source::Host);
    program_refused("Oob::lost is false, but only Source::Nothing", 0, 1, data(1, 1), Source::Nothing);
    program_refused("out of the field", 0, 1, data(1, Oob::MAX_VERSION + 1), Source::Host);
    let torn = Oob { lost: true, ..data(u32::MAX, Oob::MAX_VERSION) };
    program_refused("out of the field", 0, 1, torn, Source::Nothing);
}

#[test]
fn copies_and_patches_of_the_wrong_page() {
    let nand = prepared();
    let (d, t, moved) = (at(&nand, 0, 0), at(&nand, 1, 0), at(&nand, 1, 1));
    let empty = at(&nand, 6, 0);
    program_refused("is not programmed", 0, 1, data(7, 10), Source::Page(empty));
    program_refused("is not programmed", 0, 1, data(7, 10), Source::Page(Ppn(500)));
    program_refused("is not programmed", 0, 1, data(7, 10), Source::Page(at(&nand, 0, 1)));
    program_refused("holds another kind, id or version", 0, 1, data(3, 20), Source::Page(t));
    program_refused("holds another kind, id or version", 1, 2, table(7, 10), Source::Page(d));
    program_refused("holds another kind, id or version", 0, 1, data(8, 10), Source::Page(d));
    program_refused("holds another kind, id or version", 0, 1, data(7, 11), Source::Page(d));
    program_refused("holds another kind or id", 1, 2, table(7, 11), Source::Patch(d, &[]));
    program_refused("holds another kind or id", 0, 1, data(7, 11), Source::Patch(d, &[]));
    program_refused("holds another kind or id", 1, 2, table(4, 30), Source::Patch(t, &[]));
    program_refused("is not older", 1, 2, table(3, 20), Source::Patch(t, &[]));
    program_refused(
        "patch of word 128, but a page has 128 words",
        1,
        2,
        table(3, 21),
        Source::Patch(t, &[(128, 0)]),
    );
    program_refused("content moved", 1, 2, table(4, 22), Source::Patch(moved, &[]));
    refused("cannot be read", |nand| {
        nand.torn(d);
        let _ = nand.program(at(nand, 0, 1), data(7, 10), WRITE, Source::Page(d), NOW);
    });
}

#[test]
fn reads_and_erases() {
    refused("is not programmed, the block holds 1 pages", |nand| {
        let _ = nand.read(at(nand, 0, 1), Class::HostRead, TO_HOST, NOW);
    });
    refused("read of page Ppn(4294967295) (the device has 96 pages): outside the device", |nand| {
        let _ = nand.read(Ppn(u32::MAX), Class::HostRead, TO_HOST, NOW);
    });
    refused("scan of page Ppn(96)", |nand| {
        let _ = nand.scan(Ppn(96), NOW);
    });
    refused("erase of Pbn(2) (superblock 0): it is bad", |nand| {
        let _ = nand.erase(Pbn(2), NOW);
    });
    refused("erase of Pbn(24), outside the device", |nand| {
        let _ = nand.erase(Pbn(24), NOW);
    });
    refused("the block's next page is 0", |nand| nand.torn(at(nand, 6, 1)));
}

#[test]
fn the_page_buffer_is_used_once_and_for_metadata() {
    let read = |nand: &mut SimNand<NoClock>, block, page, to| {
        nand.read(at(nand, block, page), Class::HostRead, to, NOW).unwrap();
    };
    let unused = "no page was read into it since";
    refused(unused, |nand| drop(nand.buffer().to_vec()));
    refused("which is a data page", |nand| {
        read(nand, 0, 0, Sink::Controller);
        nand.buffer();
    });
    refused("content moved", |nand| {
        read(nand, 1, 1, Sink::Controller);
        nand.buffer();
    });
    refused(unused, |nand| {
        read(nand, 1, 0, Sink::Controller);
        assert_eq!(nand.buffer()[..4], *b"abc\0");
        read(nand, 0, 0, TO_HOST);
        nand.buffer();
    });
    refused(unused, |nand| {
        read(nand, 1, 0, Sink::Controller);
        nand.program(at(nand, 1, 2), table(3, 22), WRITE, Source::Patch(at(nand, 1, 0), &[]), NOW).unwrap();
        nand.buffer();
    });
    refused(unused, |nand| {
        read(nand, 1, 0, Sink::Controller);
        nand.erase(Pbn(1), NOW).unwrap();
        nand.buffer();
    });
}
