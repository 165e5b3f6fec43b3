use super::*;
use crate::cmt::tests::mapped_table;
use crate::engine::count_updates;
use nand::timing::NoClock;
use nand::{Ppn, SimNand};

struct World {
    flash: Flash<SimNand<NoClock>>,
    table: Table,
    mapping: Clusters,
}

impl World {
    /// DTPs of four entries, so that eight wait in the auxiliary cache.
    fn new(parameters: &[(&str, &str)]) -> World {
        let w = World::with(400, parameters);
        assert_eq!((w.mapping.dynamic.per_page(), w.table.further_pages()), (4, 2));
        w
    }

    /// Six translation pages of 128 mapped entries; `cache_bytes` beside their directory.
    fn with(cache_bytes: u64, parameters: &[(&str, &str)]) -> World {
        let (mut flash, mut table) = mapped_table(6);
        let mut config = Config::new(6 * 128, table.directory_bytes() + cache_bytes);
        for (name, value) in parameters {
            config.parameters.insert((*name).to_owned(), (*value).to_owned());
        }
        Clusters::shape(&mut table, flash.nand().geometry(), &config).unwrap();
        let mapping = Clusters::new(&mut flash, &table, &config).unwrap();
        World { flash, table, mapping }
    }

    fn read(&mut self, lpn: u32) -> Option<Ppn> {
        let (flash, table) = (&mut self.flash, &mut self.table);
        let found =
            self.mapping.lookup(flash, table, Ask { lpn: Lpn(lpn), rest: 1, at: Done::READY }).unwrap();
        count_updates(&mut self.flash.counters, found.how, 1);
        found.ppn
    }

    fn write(&mut self, lpn: u32, ppn: u32) -> Option<Ppn> {
        let (flash, table, at) = (&mut self.flash, &mut self.table, Done::READY);
        self.mapping
            .update(flash, table, Change { lpn: Lpn(lpn), rest: 1, ppn: Some(Ppn(ppn)), programmed: at, at })
            .unwrap()
            .ppn
    }

    /// Translation pages read and written, and entries loaded for nobody yet.
    fn counts(&self) -> (u64, u64, u64) {
        let c = &self.flash.counters;
        (c.reads_by(Cause::Translation), c.programs_by(Cause::Translation), c.prefetched)
    }

    fn check(&self) {
        assert_eq!(self.mapping.check(&self.flash, &self.table), Ok(()));
    }

    /// What a translation page on flash says.
    fn on_flash(&self, lpn: u32) -> u32 {
        let mut content = Vec::new();
        let (vtpn, slot) = self.table.place(Lpn(lpn));
        self.table.inspect(&self.flash, vtpn, &mut content);
        entry_in(&content, slot)
    }

    /// Writes LPNs 3, 6, 9, .. as 503, 506, 509, .. until a DTP holds the first four. Returns the last.
    fn fill(&mut self) -> u32 {
        let entries = self.mapping.cache.capacity() as u32 + 8;
        (1..=entries).for_each(|n| assert_eq!(self.write(3 * n, 500 + 3 * n), Some(Ppn(10_000 + 3 * n))));
        assert_eq!((self.counts().1, self.mapping.evicted.is_full()), (0, true), "nothing is written yet");
        self.write(3 * entries + 3, 503 + 3 * entries);
        let counters = &self.flash.counters;
        assert_eq!((self.counts().1, counters.replaced), (1, counters.replaced_dirty), "one page for four");
        3 * entries + 3
    }
}

#[test]
fn entries_evicted_together_are_written_together_and_come_back_together() {
    let mut w = World::new(&[]);
    w.fill();
    let places: Vec<_> = [3, 6, 9, 12, 15].map(|lpn| w.mapping.dynamic.find(Lpn(lpn))).to_vec();
    assert_eq!(places, [Some(0), Some(1), Some(2), Some(3), None], "the closest, or the first of such");
    assert_eq!(w.on_flash(6), 10_006);
    let before = w.counts();
    assert_eq!(w.read(6), Some(Ppn(506)));
    assert_eq!(w.counts().2, before.2 + 3);
    let before = w.counts();
    assert_eq!([3, 9, 12].map(|lpn| w.read(lpn)), [503, 509, 512].map(|ppn| Some(Ppn(ppn))));
    assert_eq!(w.counts(), before, "they came along");
    w.check();
}

#[test]
fn with_all_entries_loaded_one_by_one() {
    let mut w = World::new(&[("load", "0")]);
    w.fill();
    let before = w.counts();
    assert_eq!([3, 9].map(|lpn| w.read(lpn)), [503, 509].map(|ppn| Some(Ppn(ppn))));
    assert_eq!((w.counts().0, w.counts().2), (before.0 + 2, 0));
    w.check();
}

/// What HCFTL is for. A cache of single entries under LRU answers nothing here.
#[test]
fn laps_over_scattered_pages_hit_what_came_along() {
    let mut w = World::with(1200, &[("index", "50")]);
    let lap: Vec<u32> = (0..150).map(|n| 5 * n).collect();
    assert!(w.mapping.cache.capacity() < 60);
    lap.iter().for_each(|&lpn| _ = w.write(lpn, 2_000 + lpn));
    lap.iter().for_each(|&lpn| _ = w.read(lpn));
    let (before, hits) = (w.counts(), w.flash.counters.cmt_hits);
    lap.iter().for_each(|&lpn| assert_eq!(w.read(lpn), Some(Ppn(2_000 + lpn))));
    assert!(w.flash.counters.cmt_hits - hits > 90, "{}", w.flash.counters.cmt_hits - hits);
    assert!(w.counts().0 - before.0 < 60, "a read for several entries");
    w.check();
}

#[test]
fn a_changed_entry_leaves_its_dtp() {
    let mut w = World::new(&[]);
    w.fill();
    assert_eq!(w.write(9, 700), Some(Ppn(509)));
    assert_eq!((w.mapping.dynamic.find(Lpn(9)), w.mapping.dynamic.find(Lpn(6))), (None, Some(1)));
    let to = |ppn| Moved { lpn: Lpn(12), slot: 12, from: Ppn(512), to: Ppn(ppn), done: Done::READY };
    // LPN 12 came along and is in memory.
    w.mapping.moved(&mut w.flash, &mut w.table, &[to(800)]).unwrap();
    assert_eq!((w.read(12), w.mapping.dynamic.find(Lpn(12))), (Some(Ppn(800)), None));
    w.check();
}

#[test]
fn a_page_moved_by_collection_goes_from_its_dtp_to_its_translation_page() {
    let mut w = World::new(&[]);
    w.fill();
    let moved = Moved { lpn: Lpn(6), slot: 6, from: Ppn(506), to: Ppn(800), done: Done::READY };
    w.mapping.moved(&mut w.flash, &mut w.table, &[moved]).unwrap();
    assert_eq!((w.on_flash(6), w.mapping.dynamic.find(Lpn(6))), (800, None));
    assert_eq!((w.read(6), w.flash.counters.gc_misses), (Some(Ppn(800)), 1));
    w.check();
}

#[test]
fn a_dtp_is_emptied_before_its_turn_and_takes_along_what_memory_has() {
    let mut w = World::new(&[]);
    let mut last = w.fill();
    while w.on_flash(3) != 503 {
        last += 3;
        w.write(last, 500 + last);
        w.check();
    }
    assert!(w.mapping.dynamic.is_leaving());
    assert_eq!([6, 9, 12].map(|lpn| w.on_flash(lpn)), [506, 509, 512], "one update for four");
    let cached = w.mapping.cache.peek(Lpn(126)).map(|cached| (cached.ppn, cached.is_dirty()));
    assert_eq!((cached, w.on_flash(126)), (Some((626, false)), 626), "and for what memory had");
    let before = w.counts();
    assert_eq!((w.read(6), w.counts().0), (Some(Ppn(506)), before.0), "a DTP that is emptied is in memory");
    w.check();
}

#[test]
fn a_clean_entry_that_nobody_asked_for_again_is_dropped() {
    for (cluster, kept) in [("hot", 1), ("all", 2)] {
        let mut w = World::new(&[("cluster", cluster)]);
        w.read(1);
        w.read(2);
        w.read(2);
        let entries = w.mapping.cache.capacity() as u32;
        (0..2 * entries).for_each(|n| _ = w.read(128 + n));
        let found = [1, 2].iter().filter(|&&lpn| {
            w.mapping.cache.peek(Lpn(lpn)).is_some()
                || w.mapping.evicted.peek(Lpn(lpn)).is_some()
                || w.mapping.dynamic.find(Lpn(lpn)).is_some()
        });
        assert_eq!(found.count(), kept, "{cluster}");
        w.check();
    }
}

#[test]
fn a_checkpoint_makes_every_translation_page_current() {
    let mut w = World::new(&[]);
    let last = w.fill();
    let (flash, table) = (&mut w.flash, &mut w.table);
    let pages = (0..).take_while(|_| w.mapping.clean_one(flash, table).unwrap().is_some()).count();
    assert_eq!(pages, 2, "LPNs 0 to 255");
    for lpn in (3..=last).step_by(3) {
        assert_eq!((w.on_flash(lpn), w.read(lpn)), (500 + lpn, Some(Ppn(500 + lpn))));
    }
    w.check();
}
