use super::segmented::SegmentedLru;
use super::two_level::{TwoLevel, ENTRY_BYTES, NODE_BYTES};
use nand::{Done, Lpn, Vtpn};
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
