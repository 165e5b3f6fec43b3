//! A million operations in steady state allocate nothing, whatever the scheme and the clock.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{device, experiment, phase, short};
use sim::{run, CacheSize, Progress, TimingModel};
use workload::fio::Pattern;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; the counter is a thread-local cell without a
// destructor and without an allocation of its own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations at the first and the last time that progress is told inside a phase.
#[derive(Default)]
struct Inside {
    first: AtomicU64,
    last: AtomicU64,
    told: AtomicU64,
}

impl Progress for Inside {
    fn phase(&self, _run: usize, _phase: usize, _phases: usize, _name: &str) {
        self.told.store(0, Ordering::Relaxed);
    }

    fn fraction(&self, _run: usize, _done: f64) {
        let count = ALLOCATIONS.with(Cell::get);
        if self.told.fetch_add(1, Ordering::Relaxed) == 0 {
            self.first.store(count, Ordering::Relaxed);
        }
        self.last.store(count, Ordering::Relaxed);
    }
}

/// A test for each clock, so that they run side by side: allocations are counted by thread.
fn a_million_operations_allocate_nothing(timing: TimingModel, is_meant: fn(&str) -> bool) {
    // Log-block schemes would merge superblocks of 2,048 pages here, for minutes. A group that LearnedFTL
    // collects at once makes the clock's queues longer than ever before, late in a run: they grow twice
    // in a million operations.
    let is_page_mapped = |info: &&&ftl::Info| {
        !ftl::schemes::LOG_BLOCK.contains(&info.name) && !info.name.starts_with("learnedftl")
    };
    for info in ftl::schemes::ALL.iter().filter(is_page_mapped).filter(|info| is_meant(info.name)) {
        let mixed = phase("mixed", vec![short(Pattern::RandReadWrite, 8, 8, 170_000)]);
        let mut e = experiment(device(70), info.name, vec![mixed]);
        e.warm_up.push(phase("age", vec![short(Pattern::RandWrite, 1, 1, 200_000)]));
        (e.timing, e.cache) = (timing, CacheSize::Share(0.1));
        let inside = Inside::default();
        let result = run(&e, &inside).unwrap();
        assert!(result.phases[0].flash_total().total() > 1_000_000);
        assert!(inside.told.load(Ordering::Relaxed) >= 5, "{:?}", inside.told);
        let (first, last) = (inside.first.load(Ordering::Relaxed), inside.last.load(Ordering::Relaxed));
        assert_eq!(last - first, 0, "{} under {}", info.name, timing.name());
    }
}

#[test]
fn nothing_is_allocated_in_the_queue_model() {
    a_million_operations_allocate_nothing(TimingModel::default(), |_| true);
}

/// No scheme sees the clock. So those are enough that ask it for most: for work of the controller, and for
/// work beside the host's.
fn asks_for_most(scheme: &str) -> bool {
    ["page", "leaftl", "lftl", "tide"].contains(&scheme)
}

#[test]
fn nothing_is_allocated_in_the_reservation_model() {
    a_million_operations_allocate_nothing(TimingModel::Reserved, asks_for_most);
}

#[test]
fn nothing_is_allocated_without_a_clock() {
    a_million_operations_allocate_nothing(TimingModel::NoClock, asks_for_most);
}
