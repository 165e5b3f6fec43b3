use super::census::Census;
use super::pages::PageCache;
use super::segmented::SegmentedLru;
use super::two_level::{TwoLevel, ENTRY_BYTES, NODE_BYTES};
use crate::counters::Cause;
use crate::flash::Flash;
use crate::mapping::Pages;
use crate::scheme::CachedPage;
use crate::table::{entry_in, Table, UNMAPPED};
use nand::timing::NoClock;
use nand::{DeviceSpec, Done, Geometry, Lpn, SimNand, SimOptions, Vtpn};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// Segmented LRU, the slow way: two queues, the most recent first.
#[derive(Default)]
struct SlowSegments {
    probationary: VecDeque<u32>,
    protected: VecDeque<u32>,
}

impl SlowSegments {
    fn touch(&mut self, lpn: u32, protected: usize) -> bool {
        let known = self.probationary.contains(&lpn) || self.protected.contains(&lpn);
        if known {
            self.remove(lpn);
            self.protected.push_front(lpn);
            if self.protected.len() > protected {
                let oldest = self.protected.pop_back();
                oldest.into_iter().for_each(|lpn| self.probationary.push_front(lpn));
            }
        }
        known
    }

    fn remove(&mut self, lpn: u32) {
        self.probationary.retain(|&l| l != lpn);
        self.protected.retain(|&l| l != lpn);
    }
}

proptest! {
    #[test]
    fn segmented_lru_is_two_queues(uses in prop::collection::vec(0u32..40, 1..400)) {
        let (capacity, protected) = (12, 6);
        let mut cache = SegmentedLru::new(capacity, 40, 50);
        let mut slow = SlowSegments::default();
        for lpn in uses {
            let hit = cache.touch(Lpn(lpn)).is_some();
            prop_assert_eq!(hit, slow.touch(lpn, protected));
            if !hit {
                if cache.is_full() {
                    let victim = cache.victim().map(|entry| entry.lpn);
                    let expected = slow.probationary.back().or(slow.protected.back()).copied();
                    prop_assert_eq!(victim.map(|lpn| lpn.0), expected);
                    if let Some(victim) = victim {
                        cache.remove(victim);
                        slow.remove(victim.0);
                    }
                }
                cache.insert(Lpn(lpn), 7 * lpn, Done::READY);
                slow.probationary.push_front(lpn);
            }
            prop_assert_eq!(cache.peek(Lpn(lpn)).map(|entry| entry.ppn), Some(7 * lpn));
            prop_assert_eq!(cache.check(), Ok(()));
        }
    }
}

/// The two-level cache, the slow way: time of last use and dirtiness by LPN.
#[derive(Default)]
struct SlowNodes {
    entries: BTreeMap<u32, (u64, bool)>,
    clock: u64,
}

impl SlowNodes {
    fn node(&self, vtpn: u32) -> Vec<(u64, bool, u32)> {
        let of_node = self.entries.iter().filter(|(&lpn, _)| lpn / 16 == vtpn);
        of_node.map(|(&lpn, &(used, dirty))| (used, dirty, lpn)).collect()
    }

    /// The node with the lowest average time of last use.
    fn coldest(&self) -> Option<u32> {
        let average = |vtpn: u32| {
            let node = self.node(vtpn);
            (!node.is_empty()).then(|| node.iter().map(|e| e.0).sum::<u64>() / node.len() as u64)
        };
        (0..4).filter_map(|vtpn| average(vtpn).map(|a| (a, vtpn))).min().map(|(_, vtpn)| vtpn)
    }

    fn victim(&self, vtpn: u32, clean_first: bool) -> Option<u32> {
        let node = self.node(vtpn);
        let oldest =
            |dirty: Option<bool>| node.iter().filter(|e| dirty.is_none_or(|d| d == e.1)).min().map(|e| e.2);
        if clean_first {
            oldest(Some(false)).or(oldest(Some(true)))
        } else {
            oldest(None)
        }
    }
}

#[derive(Clone, Debug)]
enum Use {
    Read(u32),
    Write(u32),
    Relocate(u32),
    CleanNode(u32),
    Drop(u32),
}

fn uses() -> impl Strategy<Value = Vec<Use>> {
    let one = prop_oneof![
        4 => (0u32..64).prop_map(Use::Read),
        4 => (0u32..64).prop_map(Use::Write),
        1 => (0u32..64).prop_map(Use::Relocate),
        1 => (0u32..4).prop_map(Use::CleanNode),
        1 => (0u32..64).prop_map(Use::Drop),
    ];
    prop::collection::vec(one, 1..300)
}

proptest! {
    #[test]
    fn two_levels_are_ordered_by_average_hotness(uses in uses(), clean_first in any::<bool>()) {
        let budget = 14 * ENTRY_BYTES + 4 * NODE_BYTES;
        let mut cache = TwoLevel::new(budget, 4, 16);
        let mut slow = SlowNodes::default();
        for one in uses {
            match one {
                Use::Read(lpn) | Use::Write(lpn) => {
                    let dirty = matches!(one, Use::Write(_));
                    while !cache.contains(Lpn(lpn)) && cache.free_bytes() < ENTRY_BYTES + NODE_BYTES {
                        let coldest = cache.coldest().map(|vtpn| vtpn.0);
                        prop_assert_eq!(coldest, slow.coldest());
                        let Some(node) = coldest else { break };
                        let mut victims = Vec::new();
                        cache.victims_of(Vtpn(node), 99, clean_first, &mut victims);
                        prop_assert_eq!(victims.len() as u32, cache.len_of(Vtpn(node)));
                        let victim = victims.first().map(|&slot| cache.get(slot).lpn.0);
                        prop_assert_eq!(victim, slow.victim(node, clean_first));
                        if let Some(victim) = victim {
                            let last = slow.node(node).len() == 1;
                            prop_assert_eq!(cache.remove(Lpn(victim)).map(|(_, with_node)| with_node), Some(last));
                            slow.entries.remove(&victim);
                        }
                    }
                    if !cache.contains(Lpn(lpn)) {
                        cache.insert(Lpn(lpn), lpn, Done::READY);
                        slow.clock += 1;
                        slow.entries.insert(lpn, (slow.clock, false));
                    }
                    let hit = if dirty {
                        cache.write(Lpn(lpn), lpn, Done::READY)
                    } else {
                        cache.touch(Lpn(lpn))
                    };
                    prop_assert_eq!(hit.map(|entry| entry.ppn), Some(lpn));
                    slow.clock += 1;
                    let before = slow.entries.get(&lpn).is_some_and(|e| e.1);
                    slow.entries.insert(lpn, (slow.clock, before || dirty));
                }
                Use::Relocate(lpn) => {
                    let held = cache.relocate(Lpn(lpn), lpn, Done::READY);
                    prop_assert_eq!(held, slow.entries.contains_key(&lpn));
                    if let Some(entry) = slow.entries.get_mut(&lpn) {
                        entry.1 = true;
                    }
                }
                Use::CleanNode(vtpn) => {
                    cache.cleaned(Vtpn(vtpn));
                    slow.entries.iter_mut().filter(|(&lpn, _)| lpn / 16 == vtpn).for_each(|(_, e)| e.1 = false);
                }
                Use::Drop(lpn) => {
                    prop_assert_eq!(cache.remove(Lpn(lpn)).is_some(), slow.entries.remove(&lpn).is_some());
                }
            }
            prop_assert_eq!(cache.check(), Ok(()));
            for vtpn in 0..4 {
                let dirty = slow.node(vtpn).iter().filter(|e| e.1).count() as u32;
                prop_assert_eq!(cache.dirty_of(Vtpn(vtpn)), dirty);
            }
        }
    }
}

#[test]
fn predecessors_stop_at_a_gap_and_at_the_page() {
    let mut cache = TwoLevel::new(1000, 4, 16);
    for lpn in [14, 15, 16, 17, 18, 20] {
        cache.insert(Lpn(lpn), 0, Done::READY);
    }
    assert_eq!(cache.predecessors(Lpn(19)), 3, "16, 17, 18; 15 belongs to another translation page");
    assert_eq!(cache.predecessors(Lpn(21)), 1);
    assert_eq!(cache.predecessors(Lpn(16)), 0);
}

/// An array of small pages.
pub(crate) fn small_flash() -> Flash<SimNand<NoClock>> {
    let geometry = Geometry {
        channels: 1,
        luns_per_channel: 2,
        planes_per_lun: 1,
        blocks_per_plane: 32,
        pages_per_block: 16,
        page_bytes: 512,
        oob_bytes: 16,
    };
    let device = DeviceSpec::tiny(geometry, 100);
    Flash::new(SimNand::new(&device, NoClock::default(), SimOptions::default()))
}

/// An array of small pages, and a table of `pages` translation pages of 128 entries, where LPN l maps to PPN
/// 10,000 + l.
pub(crate) fn mapped_table(pages: u32) -> (Flash<SimNand<NoClock>>, Table) {
    let mut flash = small_flash();
    let mut table = Table::new(pages * 128, 512);
    for vtpn in 0..pages {
        let edits: Vec<_> = (0..128).map(|slot| (slot, 10_000 + vtpn * 128 + slot)).collect();
        table.store(&mut flash, Vtpn(vtpn), &edits, Cause::Checkpoint, Done::READY).unwrap();
    }
    flash.counters = Default::default();
    (flash, table)
}

proptest! {
    #[test]
    fn cached_pages_are_the_table_with_changes(steps in prop::collection::vec((0u32..6, 0u32..128, 0u32..6), 1..200)) {
        let (mut flash, mut table) = mapped_table(6);
        let mut pages = PageCache::new(&table, 3);
        // Truth, what flash holds, and the pages cached, the most recent first.
        let mut truth: Vec<u32> = (0..6 * 128).map(|lpn| 10_000 + lpn).collect();
        let mut on_flash = truth.clone();
        let mut order: VecDeque<u32> = VecDeque::new();
        for (vtpn, slot, what) in steps {
            let range = vtpn as usize * 128..(vtpn as usize + 1) * 128;
            let frame = match pages.find(Vtpn(vtpn)) {
                Some(frame) => frame,
                None => {
                    if pages.is_full() {
                        let tail = pages.tail();
                        let left = pages.vtpn(tail).0;
                        prop_assert_eq!(order.pop_back(), Some(left));
                        if pages.dirty(tail) > 0 {
                            pages.write_back(&mut flash, &mut table, tail, Cause::Translation, Done::READY).unwrap();
                            let range = left as usize * 128..(left as usize + 1) * 128;
                            on_flash[range.clone()].copy_from_slice(&truth[range]);
                        }
                        pages.remove(tail);
                    }
                    order.push_front(vtpn);
                    pages.load(&mut flash, &table, Vtpn(vtpn), Cause::Translation, Done::READY).unwrap().0
                }
            };
            let lpn = (vtpn * 128 + slot) as usize;
            match what {
                0 | 1 => {
                    pages.touch(frame);
                    order.retain(|&other| other != vtpn);
                    order.push_front(vtpn);
                }
                2 | 3 => {
                    let old = pages.write(&mut flash, frame, slot, 77 + slot, Done::READY);
                    prop_assert_eq!(old, std::mem::replace(&mut truth[lpn], 77 + slot));
                }
                4 => {
                    let end = (slot + 20).min(128);
                    pages.trim(&mut flash, frame, slot..end, |_| Some(UNMAPPED));
                    truth[lpn..(vtpn * 128 + end) as usize].fill(UNMAPPED);
                }
                _ => {
                    pages.write_back(&mut flash, &mut table, frame, Cause::Checkpoint, Done::READY).unwrap();
                    on_flash[range.clone()].copy_from_slice(&truth[range.clone()]);
                }
            }
            prop_assert_eq!(pages.check(), Ok(()));
            let mut content = Vec::new();
            table.inspect(&flash, Vtpn(vtpn), &mut content);
            let mut dirty = Vec::new();
            pages.each_dirty(frame, |slot, entry| dirty.push((slot, entry)));
            for slot in 0..128 {
                let lpn = (vtpn * 128 + slot) as usize;
                prop_assert_eq!(pages.entry(frame, slot), truth[lpn]);
                prop_assert_eq!(entry_in(&content, slot), on_flash[lpn]);
                prop_assert_eq!(pages.is_dirty(frame, slot), dirty.contains(&(slot, truth[lpn])));
                prop_assert!(pages.is_dirty(frame, slot) || truth[lpn] == on_flash[lpn]);
            }
        }
    }
}

#[test]
fn a_census_finds_dirty_pages() {
    let mut census = Census::new(4);
    census.added(Vtpn(2));
    census.added(Vtpn(2));
    assert_eq!(census.first_dirty(), None);
    census.dirtied(Vtpn(2));
    census.added(Vtpn(1));
    census.dirtied(Vtpn(1));
    assert_eq!(census.first_dirty(), Some(Vtpn(1)));
    census.removed(Vtpn(1), true);
    assert_eq!(census.first_dirty(), Some(Vtpn(2)));
    let mut seen = Vec::new();
    census.each(&mut |page| seen.push(page));
    assert_eq!(seen, [CachedPage { vtpn: Vtpn(2), entries: 2, dirty: 1 }]);
    census.cleaned(Vtpn(2));
    assert_eq!(census.first_dirty(), None);
}
