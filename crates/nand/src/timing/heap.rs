//! A 4-ary implicit heap whose smallest entry can be replaced at the price of one sift.

/// Priority queue, smallest first.
///
/// Taking the smallest entry only leaves a hole at the root; the next push fills it. A closed loop (report
/// one completion, submit one operation) so pays for one sift an event, not two.
#[derive(Clone, Debug)]
pub(super) struct Heap<E> {
    /// `entries[0]` is void while `hole` is set.
    entries: Vec<E>,
    hole: bool,
}

impl<E: Copy + Ord> Heap<E> {
    pub(super) fn with_capacity(capacity: usize) -> Heap<E> {
        Heap { entries: Vec::with_capacity(capacity), hole: false }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.hole = false;
    }

    /// The smallest entry. Takes `&mut self` because a hole is closed first.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<E> {
        if self.hole {
            self.close_hole();
        }
        self.entries.first().copied()
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<E> {
        let smallest = self.peek()?;
        self.hole = true;
        Some(smallest)
    }

    #[inline(always)]
    pub(super) fn push(&mut self, entry: E) {
        if self.hole {
            self.hole = false;
            self.sift_down(entry);
            return;
        }
        let mut at = self.entries.len();
        self.entries.push(entry);
        while at > 0 {
            let parent = (at - 1) / 4;
            if self.entries[parent] <= entry {
                break;
            }
            self.entries[at] = self.entries[parent];
            at = parent;
        }
        self.entries[at] = entry;
    }

    fn close_hole(&mut self) {
        self.hole = false;
        if let Some(last) = self.entries.pop() {
            if !self.entries.is_empty() {
                self.sift_down(last);
            }
        }
    }

    /// Puts `entry` into the void root and restores the order.
    #[inline]
    fn sift_down(&mut self, entry: E) {
        let entries = self.entries.as_mut_slice();
        let mut at = 0;
        loop {
            let first = 4 * at + 1;
            let smallest = if let Some(children) = entries.get(first..first + 4) {
                let left = usize::from(children[1] < children[0]);
                let right = 2 + usize::from(children[3] < children[2]);
                first + if children[right] < children[left] { right } else { left }
            } else {
                let Some(smallest) = (first..entries.len()).min_by_key(|&child| entries[child]) else {
                    break;
                };
                smallest
            };
            if entry <= entries[smallest] {
                break;
            }
            entries[at] = entries[smallest];
            at = smallest;
        }
        entries[at] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::Heap;

    #[test]
    fn pops_in_order_however_pushes_and_pops_interleave() {
        let mut heap = Heap::with_capacity(4);
        let mut model = std::collections::BTreeSet::new();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for step in 0..20_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if (random >> 40) % 5 < 2 + u64::from(step < 10_000) {
                let entry = (random >> 50, step);
                heap.push(entry);
                model.insert(entry);
            } else {
                assert_eq!(heap.pop(), model.pop_first());
            }
            if random >> 62 == 0 {
                assert_eq!(heap.peek(), model.first().copied());
            }
        }
        while let Some(entry) = model.pop_first() {
            assert_eq!(heap.pop(), Some(entry));
        }
        assert_eq!(heap.pop(), None);
    }
}
