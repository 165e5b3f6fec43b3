use super::*;
use crate::cmt::tests::mapped_table;
use crate::engine::count_updates;
use crate::mapping::Pages;
use nand::timing::NoClock;
use nand::{Ppn, SimNand};

struct World {
    flash: Flash<SimNand<NoClock>>,
    table: Table,
    caches: TwoCaches,
}

impl World {
    /// Room for 8 entries and 2 pages over 6 translation pages of 128 mapped entries.
    fn new() -> World {
        let (mut flash, table) = mapped_table(6);
        let bytes = table.directory_bytes() + 2 * TwoCaches::page_bytes(&table) + 8 * ENTRY_BYTES;
        let mut config = Config::new(6 * 128, bytes);
        config.parameters.insert("pages".to_owned(), "95".to_owned());
        let caches = TwoCaches::new(&mut flash, &table, &config).unwrap();
        World { flash, table, caches }
    }

    fn read(&mut self, lpn: u32) -> Option<Ppn> {
        let (flash, table) = (&mut self.flash, &mut self.table);
        let found =
            self.caches.lookup(flash, table, Ask { lpn: Lpn(lpn), rest: 1, at: Done::READY }).unwrap();
        count_updates(&mut self.flash.counters, found.how, 1);
        found.ppn
    }

    fn write(&mut self, lpn: u32, ppn: u32) -> Option<Ppn> {
        let (flash, table) = (&mut self.flash, &mut self.table);
        let ppn = Some(Ppn(ppn));
        self.caches
            .update(
                flash,
                table,
                Change { lpn: Lpn(lpn), rest: 1, ppn, programmed: Done::READY, at: Done::READY },
            )
            .unwrap()
            .ppn
    }

    fn table_operations(&self) -> (u64, u64) {
        let counters = &self.flash.counters;
        (counters.reads_by(Cause::Translation), counters.programs_by(Cause::Translation))
    }
}

#[test]
fn lookups_go_from_entries_to_pages_to_flash() {
    let mut w = World::new();
    assert_eq!(w.read(5), Some(Ppn(10_005)));
    assert_eq!(w.read(6), Some(Ppn(10_006)));
    assert_eq!(w.read(5), Some(Ppn(10_005)));
    let counters = &w.flash.counters;
    assert_eq!((counters.lookups, counters.cmt_hits, counters.page_hits), (3, 1, 1));
    assert_eq!(w.table_operations(), (1, 0));
}

#[test]
fn a_dirty_entry_stays_until_its_page_is_cached() {
    let mut w = World::new();
    w.write(1, 500);
    w.read(128);
    w.read(256);
    // Page 0 has left the second level, so LPN 1 is pinned: eight more entries do not push it out.
    (0..8).for_each(|i| _ = w.read(257 + i));
    assert_eq!(w.caches.entries.peek(Lpn(1)).map(|e| e.ppn), Some(500));
    assert_eq!(w.table_operations(), (3, 0));
    // Its page comes back: LPN 1 is the oldest, and leaves into it.
    w.read(2);
    w.read(3);
    assert!(w.caches.entries.peek(Lpn(1)).is_none());
    assert_eq!(w.read(1), Some(Ppn(500)), "from the second level");
    assert_eq!(w.table_operations(), (4, 0), "and nothing was written yet");
    // When the page leaves, it is written whole, without a read.
    w.read(384);
    w.read(512);
    assert_eq!(w.table_operations(), (6, 1));
    let mut content = Vec::new();
    w.table.inspect(&w.flash, Vtpn(0), &mut content);
    assert_eq!(crate::table::entry_in(&content, 1), 500);
    assert_eq!(w.caches.check(&w.flash, &w.table), Ok(()));
}

#[test]
fn when_all_entries_are_pinned_the_oldest_ones_page_is_loaded() {
    let mut w = World::new();
    (0..8).for_each(|i| _ = w.write(i, 500 + i));
    w.read(0);
    let before = w.table_operations().0;
    // Two other pages take the second level; the entries are all dirty and stay.
    let (flash, table) = (&mut w.flash, &mut w.table);
    w.caches.fetch(flash, table, Vtpn(1), Done::READY).unwrap();
    w.caches.fetch(flash, table, Vtpn(2), Done::READY).unwrap();
    assert!(w.caches.entries.victim().is_none());
    w.read(640);
    assert_eq!(w.table_operations().0, before + 4, "pages 1, 2, then 0 for room, then 5");
    assert!(w.caches.entries.peek(Lpn(1)).is_none(), "LPN 1 was the least recently used");
    assert_eq!(w.read(1), Some(Ppn(501)));
    assert_eq!(w.caches.check(&w.flash, &w.table), Ok(()));
}

#[test]
fn a_checkpoint_writes_each_page_once_with_all_its_news() {
    let mut w = World::new();
    for (lpn, ppn) in [(1, 500), (2, 501), (130, 502), (300, 503)] {
        w.write(lpn, ppn);
    }
    let mut written = 0;
    while w.caches.clean_one(&mut w.flash, &mut w.table).unwrap().is_some() {
        written += 1;
    }
    assert_eq!((written, w.flash.counters.programs_by(Cause::Checkpoint)), (3, 3));
    for (lpn, ppn) in [(1, 500), (2, 501), (130, 502), (300, 503)] {
        let mut content = Vec::new();
        let (vtpn, slot) = w.table.place(Lpn(lpn));
        w.table.inspect(&w.flash, vtpn, &mut content);
        assert_eq!(crate::table::entry_in(&content, slot), ppn);
    }
    assert_eq!(w.caches.check(&w.flash, &w.table), Ok(()));
}
