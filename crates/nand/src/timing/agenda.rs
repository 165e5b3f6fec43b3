//! The events that lie ahead of the queue model, in order of (time, sequence number).
//!
//! Almost every event is a constant span after the moment it was scheduled, and what is scheduled in order
//! with one span falls due in order: a plain FIFO per span holds it. Only alarms, controller work and resumed
//! operations need a heap.

use std::collections::VecDeque;

use super::heap::Heap;

/// The constant durations of a device; also the index of their FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Span {
    Read = 0,
    Program = 1,
    Erase = 2,
    Transfer = 3,
}

/// What falls due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The present phase of a die ends, if the key is the one the die waits for.
    Die(u32),
    /// A controller core has done the work in this slot.
    Core(u32),
    /// An alarm with this tag.
    Alarm(u32),
}

/// `time << 64 | sequence << 16 | origin`: orders events, and names one for ever.
pub(super) type Key = u128;

const HEAP: usize = 4;
const NOTHING: Key = Key::MAX;
/// Origins of heap entries; in a FIFO the origin is the die.
const RESUMED: u64 = 0;
const CORE: u64 = 1;
const ALARM: u64 = 2;
/// Keys hold a die in 16 bits.
pub(super) const MAX_DIES: u32 = 1 << 16;

#[derive(Clone, Debug)]
pub(super) struct Agenda {
    now_ns: u64,
    sequence: u64,
    span_ns: [u64; 4],
    fifos: [VecDeque<Key>; 4],
    heap: Heap<(Key, u32)>,
    /// The smallest key of each FIFO and of the heap.
    heads: [Key; 5],
    /// The heap lost its smallest entry since `heads` was written.
    heap_head_stale: bool,
}

/// The time in a key, ns.
#[inline]
pub(super) fn time_ns(key: Key) -> u64 {
    (key >> 64) as u64
}

impl Agenda {
    pub(super) fn new(span_ns: [u64; 4], dies: u32) -> Agenda {
        let fifo = || VecDeque::with_capacity(2 * dies as usize);
        Agenda {
            now_ns: 0,
            sequence: 0,
            span_ns,
            fifos: [fifo(), fifo(), fifo(), fifo()],
            heap: Heap::with_capacity(1024),
            heads: [NOTHING; 5],
            heap_head_stale: false,
        }
    }

    pub(super) fn clear(&mut self) {
        self.now_ns = 0;
        self.sequence = 0;
        self.fifos.iter_mut().for_each(VecDeque::clear);
        self.heap.clear();
        self.heads = [NOTHING; 5];
        self.heap_head_stale = false;
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> Vec<usize> {
        self.fifos.iter().map(VecDeque::capacity).chain([self.heap.capacity()]).collect()
    }

    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    #[inline]
    pub(super) fn span_ns(&self, span: Span) -> u64 {
        self.span_ns[span as usize]
    }

    #[inline]
    fn key(&mut self, at_ns: u64, origin: u64) -> Key {
        self.sequence += 1;
        Key::from(at_ns) << 64 | Key::from(self.sequence << 16 | origin)
    }

    /// The phase of `die` that begins now takes `span`.
    #[inline]
    pub(super) fn after_span(&mut self, span: Span, die: u32) -> Key {
        let key = self.key(self.now_ns + self.span_ns[span as usize], u64::from(die));
        let fifo = &mut self.fifos[span as usize];
        if fifo.is_empty() {
            self.heads[span as usize] = key;
        }
        fifo.push_back(key);
        key
    }

    fn push_heap(&mut self, at_ns: u64, origin: u64, payload: u32) -> Key {
        let key = self.key(at_ns, origin);
        self.heap.push((key, payload));
        self.heap_head_stale = true;
        key
    }

    /// The operation that `die` resumes now has `remaining_ns` to go.
    pub(super) fn resumed(&mut self, remaining_ns: u64, die: u32) -> Key {
        self.push_heap(self.now_ns + remaining_ns, RESUMED, die)
    }

    /// The controller work in `slot` that begins now takes `ns`.
    pub(super) fn core(&mut self, ns: u64, slot: u32) {
        self.push_heap(self.now_ns + ns, CORE, slot);
    }

    /// An alarm in the future.
    pub(super) fn alarm(&mut self, at_ns: u64, tag: u32) {
        debug_assert!(at_ns > self.now_ns);
        self.push_heap(at_ns, ALARM, tag);
    }

    /// When the next event falls due, ns; a cancelled one counts.
    pub(super) fn next_ns(&mut self) -> Option<u64> {
        let heap = self.heap.peek().map(|(key, _)| key);
        let first = self.heads[..HEAP].iter().copied().chain(heap).min()?;
        (first != NOTHING).then(|| time_ns(first))
    }

    /// Takes the next event. The clock stays: a cancelled event must not move it.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(Key, Event)> {
        if self.heap_head_stale {
            self.heap_head_stale = false;
            self.heads[HEAP] = self.heap.peek().map_or(NOTHING, |(key, _)| key);
        }
        let mut first = 0;
        for source in 1..self.heads.len() {
            if self.heads[source] < self.heads[first] {
                first = source;
            }
        }
        let key = self.heads[first];
        if key == NOTHING {
            return None;
        }
        if first < HEAP {
            let fifo = &mut self.fifos[first];
            fifo.pop_front();
            self.heads[first] = fifo.front().copied().unwrap_or(NOTHING);
            return Some((key, Event::Die(key as u32 & (MAX_DIES - 1))));
        }
        let (key, payload) = self.heap.pop()?;
        self.heap_head_stale = true;
        let event = match key as u64 & u64::from(MAX_DIES - 1) {
            RESUMED => Event::Die(payload),
            CORE => Event::Core(payload),
            _ => Event::Alarm(payload),
        };
        Some((key, event))
    }

    /// Moves the clock to an event that was taken and holds.
    #[inline]
    pub(super) fn advance_to(&mut self, key: Key) {
        debug_assert!(time_ns(key) >= self.now_ns);
        self.now_ns = time_ns(key);
    }
}
