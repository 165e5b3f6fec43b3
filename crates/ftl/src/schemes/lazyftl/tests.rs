//! LazyFTL on a small device.

use super::*;
use crate::cmt::tests::mapped_table;
use crate::flash::Content;
use crate::space::Stream;
use nand::timing::NoClock;
use nand::{PageKind, SimNand, Source};

struct World {
    flash: Flash<SimNand<NoClock>>,
    table: Table,
    mapping: LazyTable,
}

impl World {
    /// Two translation pages on flash, and room for some 20 updates.
    fn new() -> World {
        let (mut flash, table) = mapped_table(2);
        let config = Config::new(2 * 128, table.directory_bytes() + 300);
        let mapping = LazyTable::new(&mut flash, &table, &config).unwrap();
        World { flash, table, mapping }
    }

    /// A page of data, as the host writes it.
    fn program(&mut self, lpn: u32) -> Ppn {
        let content = Content::version(self.flash.next_version());
        let (kind, from) = (PageKind::Data, Source::Host);
        self.flash.program(Stream::HOST, kind, lpn, content, from, Cause::Host, Done::READY).unwrap().0
    }

    fn write(&mut self, lpn: u32) -> (Ppn, Option<Ppn>) {
        let ppn = self.program(lpn);
        let (flash, table, at) = (&mut self.flash, &mut self.table, Done::READY);
        let old = self
            .mapping
            .update(flash, table, Change { lpn: Lpn(lpn), rest: 1, ppn: Some(ppn), programmed: at, at })
            .unwrap()
            .ppn;
        old.into_iter().for_each(|old| self.flash.invalidate(old));
        (ppn, old)
    }

    /// As [`World::write`], with the mapping brought to flash and out of memory.
    fn settle(&mut self, lpn: u32) -> Ppn {
        // What the table of the test leads to does not exist; nothing may be owed for it.
        let ppn = self.program(lpn);
        self.mapping.add(&mut self.flash, Area::Update, Lpn(lpn), ppn.0, Done::READY, false);
        self.clean();
        self.mapping.leave_area(&mut self.flash, Lpn(lpn));
        self.mapping.reads.remove(Lpn(lpn));
        ppn
    }

    /// A write of a page that was never written.
    fn settle_later(&mut self, lpn: u32) {
        self.mapping.owe(Lpn(lpn), false);
        let ppn = self.program(lpn);
        let (flash, table, at) = (&mut self.flash, &mut self.table, Done::READY);
        self.mapping.convert(flash, table, at).unwrap();
        self.mapping.add(flash, Area::Update, Lpn(lpn), ppn.0, at, false);
    }

    fn clean(&mut self) -> u32 {
        self.mapping.clean_below = 0;
        let (flash, table) = (&mut self.flash, &mut self.table);
        (0..).take_while(|_| self.mapping.clean_one(flash, table).unwrap().is_some()).count() as u32
    }

    fn read(&mut self, lpn: u32) -> Option<Ppn> {
        let (flash, table) = (&mut self.flash, &mut self.table);
        self.mapping.lookup(flash, table, Ask { lpn: Lpn(lpn), rest: 1, at: Done::READY }).unwrap().ppn
    }
}

#[test]
fn a_write_reads_nothing_and_the_old_page_is_invalidated_at_the_commit() {
    let mut w = World::new();
    let first = w.settle(5);
    w.flash.counters = Default::default();
    let (second, old) = w.write(5);
    assert_eq!((old, w.flash.counters.reads_by(Cause::Translation)), (None, 0));
    assert!(w.flash.space.is_valid(first) && w.flash.space.is_valid(second));
    let mut owed = Vec::new();
    w.mapping.each_owed(|lpn| owed.push(lpn.0));
    assert_eq!(owed, [5]);
    let (third, old) = w.write(5);
    assert_eq!(old, Some(second), "the second is known");
    assert_eq!(w.clean(), 1);
    assert!(!w.flash.space.is_valid(first) && w.flash.space.is_valid(third));
    assert_eq!((w.read(5), w.mapping.check(&w.flash, &w.table)), (Some(third), Ok(())));
}

#[test]
fn a_mapping_that_was_read_is_known_to_the_write() {
    let mut w = World::new();
    let first = w.settle(130);
    assert_eq!(w.read(130), Some(first));
    assert_eq!(w.write(130).1, Some(first));
    w.mapping.each_owed(|lpn| panic!("LPN {} is owed", lpn.0));
}

#[test]
fn what_is_cached_is_in_the_update_table_or_was_read() {
    let mut w = World::new();
    w.settle(5);
    w.settle(130);
    w.write(7);
    w.read(5);
    w.read(130);
    let mut cached = Vec::new();
    w.mapping.cached(&w.table, &mut |page| cached.push((page.vtpn.0, page.entries, page.dirty)));
    assert_eq!(cached, [(0, 2, 1), (1, 1, 0)]);
}

#[test]
fn a_copy_of_a_superseded_page_is_dropped() {
    let mut w = World::new();
    let first = w.settle(7);
    let (second, _) = w.write(7);
    let copy = w.program(7);
    let moved = Moved { lpn: Lpn(7), slot: 7, from: first, to: copy, done: Done::READY };
    w.mapping.moved(&mut w.flash, &mut w.table, &[moved]).unwrap();
    w.flash.invalidate(first);
    assert!(!w.flash.space.is_valid(copy) && w.flash.space.is_valid(second));
    w.mapping.each_owed(|lpn| panic!("LPN {} is owed still", lpn.0));
    assert_eq!(w.clean(), 1);
    assert_eq!(w.read(7), Some(second));
}

#[test]
fn collection_does_not_copy_what_the_update_table_supersedes() {
    let mut w = World::new();
    let (first, other) = (w.settle(7), w.settle(8));
    w.write(7);
    assert!(w.mapping.supersedes(&mut w.flash, Lpn(7), first));
    assert!(!w.mapping.supersedes(&mut w.flash, Lpn(8), other));
    w.mapping.each_owed(|lpn| panic!("LPN {} is owed still", lpn.0));
}

#[test]
fn a_mapping_stays_in_the_update_table_until_its_block_is_converted() {
    let mut w = World::new();
    let first = w.settle(5);
    let (second, _) = w.write(5);
    assert_eq!(w.clean(), 1);
    assert!(!w.flash.space.is_valid(first));
    // Flash has it, and memory too: the next write knows what it supersedes, and nothing is owed for it.
    let (_, old) = w.write(5);
    assert_eq!(old, Some(second));
    w.mapping.each_owed(|lpn| panic!("LPN {} is owed", lpn.0));
}

#[test]
fn a_full_update_table_commits_one_translation_page() {
    let mut w = World::new();
    let pages: Vec<u32> = (0..60).map(|i| if i % 2 == 0 { i } else { 128 + i }).collect();
    for &lpn in &pages {
        w.settle(lpn);
    }
    w.flash.counters = Default::default();
    let mut newest = Vec::new();
    for &lpn in &pages {
        if w.flash.counters.programs_by(Cause::Translation) == 0 {
            newest.push((lpn, w.write(lpn).0));
        }
    }
    let counters = &w.flash.counters;
    assert_eq!((counters.programs_by(Cause::Translation), counters.replaced_dirty), (1, counters.replaced));
    assert!(counters.replaced > 5, "all mappings of the page go in one program");
    for (lpn, ppn) in newest {
        assert_eq!(w.read(lpn), Some(ppn), "LPN {lpn}");
    }
    assert_eq!(w.mapping.check(&w.flash, &w.table), Ok(()));
}

/// Writes until the update table is full, and returns the LPNs that are there then, the oldest first.
fn fill(w: &mut World, lpns: impl Iterator<Item = u32>) -> Vec<u32> {
    let lpns: Vec<u32> = lpns.collect();
    for &lpn in &lpns {
        w.settle(lpn);
    }
    lpns.into_iter()
        .take_while(|&lpn| {
            let room = w.mapping.has_room(1);
            if room {
                w.write(lpn);
            }
            room
        })
        .collect()
}

#[test]
fn the_block_that_lies_in_the_fewest_translation_pages_is_converted() {
    for (order, cheap) in [(Order::Oldest, false), (Order::Cheapest, true)] {
        let mut w = World::new();
        w.mapping.order = order;
        // The first block has pages of both translation pages, all others of the first one alone.
        let block = 64 / w.mapping.areas.len().max(1) as u32;
        let mixed = (0..block).map(|i| if i % 2 == 0 { i } else { 128 + i });
        let held = fill(&mut w, mixed.take(2).chain(2..120));
        let shift = w.table.entries_per_page().trailing_zeros();
        let chosen = w.mapping.areas.choose(order, &w.mapping.updates, shift).unwrap();
        let first = w.mapping.areas.first_of(chosen).unwrap().0;
        assert_eq!(first != held[0], cheap, "{order:?}");
        assert_eq!(w.mapping.check(&w.flash, &w.table), Ok(()));
    }
}

#[test]
fn a_whole_conversion_leaves_nothing_of_the_block_in_the_update_table() {
    let mut w = World::new();
    w.mapping.whole = true;
    let held = fill(&mut w, (0..60).map(|i| if i % 2 == 0 { i } else { 128 + i }));
    let shift = w.table.entries_per_page().trailing_zeros();
    let block = w.mapping.areas.choose(w.mapping.order, &w.mapping.updates, shift).unwrap();
    w.settle_later(200);
    assert!(!w.mapping.areas.contains(block));
    assert!(w.flash.counters.programs_by(Cause::Translation) >= 2, "both translation pages");
    for lpn in held {
        assert!(w.read(lpn).is_some());
    }
    assert_eq!(w.mapping.check(&w.flash, &w.table), Ok(()));
}

#[test]
fn trims_belong_to_a_block_of_their_own_and_are_committed() {
    let mut w = World::new();
    let first = w.settle(9);
    let (flash, table, at) = (&mut w.flash, &mut w.table, Done::READY);
    let change = Change { lpn: Lpn(9), rest: 1, ppn: None, programmed: at, at };
    assert_eq!(w.mapping.update(flash, table, change).unwrap().ppn, None);
    assert_eq!((w.read(9), w.flash.space.is_valid(first)), (None, true));
    assert_eq!(w.mapping.check(&w.flash, &w.table), Ok(()));
    assert_eq!(w.clean(), 1);
    assert!(!w.flash.space.is_valid(first));
    w.mapping.leave_area(&mut w.flash, Lpn(9));
    assert_eq!((w.mapping.areas.len(), w.read(9)), (0, None));
}
