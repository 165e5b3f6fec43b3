//! Every rule of the contract, with round numbers: "blocked at t - 1, ready at t".

#![allow(clippy::unwrap_used)]

mod closed_loop;
mod queues;
mod reference;

use super::{DieUse, NoClock, OpKind, Operation, Policy, Queued, Reserved, Times, Timing};
use crate::{Class, Done, Pbn};

const READ: u64 = 40;
const PROGRAM: u64 = 200;
const ERASE: u64 = 2_000;
const SUSPEND: u64 = 7;
const DIES: u32 = 4;
const BLOCKS: u32 = 16;
/// Blocks `0..DIES` start erased, the others hold this many pages. Block `b` is on die `b % DIES`.
const WRITTEN: u16 = 100;

fn times() -> Times {
    Times {
        read_ns: READ,
        program_ns: PROGRAM,
        erase_ns: ERASE,
        transfer_ns: 0,
        suspend_ns: SUSPEND,
        controller_cores: 2,
    }
}

fn started<T: Timing>(mut timing: T) -> T {
    let written: Vec<u16> = (0..BLOCKS).map(|block| if block < DIES { 0 } else { WRITTEN }).collect();
    timing.start(&written);
    timing
}

fn queued_with(times: Times, policy: Policy) -> Queued {
    started(Queued::new(times, policy, DIES, 2, BLOCKS))
}

fn queued() -> Queued {
    queued_with(times(), Policy::Fcfs)
}

fn reserved_with(times: Times) -> Reserved {
    started(Reserved::new(times, DIES, 2))
}

fn reserved() -> Reserved {
    reserved_with(times())
}

fn operation(kind: OpKind, class: Class, block: u32, page: u32) -> Operation {
    Operation { kind, class, die: block % DIES, block: Pbn(block), page }
}

fn read(block: u32, page: u32) -> Operation {
    operation(OpKind::Read, Class::HostRead, block, page)
}

fn collect(block: u32, page: u32) -> Operation {
    operation(OpKind::Read, Class::CollectionRead, block, page)
}

fn program(block: u32, page: u32) -> Operation {
    operation(OpKind::Program, Class::HostWrite, block, page)
}

fn erase(block: u32) -> Operation {
    operation(OpKind::Erase, Class::Erase, block, 0)
}

/// Each completion is blocked one ns before its time and ready at its time; nothing else is reported, nothing
/// lost.
#[track_caller]
fn expect<T: Timing>(timing: &mut T, ends: &[(Done, u64)]) {
    const EARLY: u32 = 1 << 16;
    for (tag, &(done, at_ns)) in (0..).zip(ends) {
        timing.alarm(at_ns - 1, EARLY + tag);
        timing.watch(done, tag);
    }
    let mut early = vec![false; ends.len()];
    let mut reported = 0;
    while let Some((tag, now_ns)) = timing.next() {
        assert_eq!(now_ns, timing.now());
        if tag >= EARLY {
            early[(tag - EARLY) as usize] = true;
            continue;
        }
        assert!(early[tag as usize], "completion {tag} came before {}", ends[tag as usize].1 - 1);
        assert_eq!(now_ns, ends[tag as usize].1, "completion {tag}");
        reported += 1;
    }
    assert_eq!(reported, ends.len());
    for die in timing.die_use() {
        assert_eq!(total(&die), timing.now(), "{die:?}");
    }
}

fn total(die: &DieUse) -> u64 {
    die.read_ns + die.program_ns + die.erase_ns + die.channel_ns + die.idle_ns
}

/// Runs a test of what both clocks promise on each.
macro_rules! on_both {
    ($name:ident, |$timing:ident| $body:block) => {
        #[test]
        fn $name() {
            fn test<T: Timing>($timing: &mut T) $body
            test(&mut queued());
            test(&mut queued_with(times(), Policy::HostReadsFirst));
            test(&mut queued_with(times(), Policy::Suspend));
            test(&mut reserved());
        }
    };
}

on_both!(operations_take_their_time, |timing| {
    let a = timing.operate(read(4, 0), Done::READY);
    let b = timing.operate(program(1, 0), Done::READY);
    let c = timing.operate(erase(6), Done::READY);
    expect(timing, &[(a, READ), (b, PROGRAM), (c, ERASE)]);
});

on_both!(a_die_does_one_thing_at_a_time, |timing| {
    let ends: Vec<_> = (1..=9).map(|i| (timing.operate(read(4, i as u32), Done::READY), i * READ)).collect();
    expect(timing, &ends);
    assert_eq!(timing.die_use()[0], DieUse { read_ns: 9 * READ, ..DieUse::default() });
    assert_eq!(timing.die_use()[1], DieUse { idle_ns: 9 * READ, ..DieUse::default() });
});

on_both!(an_operation_waits_for_its_after, |timing| {
    let a = timing.operate(program(0, 0), Done::READY);
    let b = timing.operate(read(5, 0), a);
    let c = timing.operate(read(6, 0), b);
    expect(timing, &[(a, PROGRAM), (b, PROGRAM + READ), (c, PROGRAM + 2 * READ)]);
});

on_both!(nothing_begins_in_the_past, |timing| {
    timing.alarm(1_000, 9);
    assert_eq!(timing.next(), Some((9, 1_000)));
    let a = timing.operate(read(4, 0), Done::READY);
    let arrival = timing.arrival();
    let b = timing.operate(read(5, 0), arrival);
    let c = timing.compute(3, Done::READY);
    expect(timing, &[(a, 1_000 + READ), (b, 1_000 + READ), (c, 1_003)]);
});

on_both!(a_read_waits_for_the_program_of_its_page, |timing| {
    let p0 = timing.operate(program(0, 0), Done::READY);
    let p1 = timing.operate(program(0, 1), Done::READY);
    let r1 = timing.operate(read(0, 1), Done::READY);
    expect(timing, &[(p0, PROGRAM), (p1, 2 * PROGRAM), (r1, 2 * PROGRAM + READ)]);
});

on_both!(a_program_waits_for_the_ones_before_it_in_its_block, |timing| {
    let late = timing.compute(1_000, Done::READY);
    let p0 = timing.operate(program(0, 0), late);
    let p1 = timing.operate(program(0, 1), Done::READY);
    let p2 = timing.operate(program(0, 2), Done::READY);
    expect(timing, &[(p0, 1_000 + PROGRAM), (p1, 1_000 + 2 * PROGRAM), (p2, 1_000 + 3 * PROGRAM)]);
});

on_both!(an_erase_waits_for_all_before_it_and_all_after_it_wait, |timing| {
    let late = timing.compute(1_000, Done::READY);
    let r = timing.operate(read(4, 3), late);
    let p = timing.operate(program(4, u32::from(WRITTEN)), Done::READY);
    let e = timing.operate(erase(4), Done::READY);
    let p0 = timing.operate(program(4, 0), Done::READY);
    let r0 = timing.operate(read(4, 0), Done::READY);
    let e2 = timing.operate(erase(4), Done::READY);
    let e3 = timing.operate(erase(4), Done::READY);
    let q0 = timing.operate(program(4, 0), Done::READY);
    timing.watch(p, 77);
    let (tag, at_ns) = timing.next().unwrap();
    // The queue model programs while the read waits; the reservation model booked the read first.
    assert!(tag == 77 && (at_ns == PROGRAM || at_ns == 1_000 + READ + PROGRAM));
    let erased = at_ns.max(1_000 + READ) + ERASE;
    let programmed = erased + PROGRAM;
    let again = programmed + READ + 2 * ERASE;
    expect(
        timing,
        &[
            (r, 1_000 + READ).max_with(at_ns),
            (e, erased),
            (p0, programmed),
            (r0, programmed + READ),
            (e2, again - ERASE),
            (e3, again),
            (q0, again + PROGRAM),
        ],
    );
});

trait MaxWith {
    fn max_with(self, at_ns: u64) -> Self;
}

impl MaxWith for (Done, u64) {
    /// What is complete already is reported at once.
    fn max_with(self, at_ns: u64) -> Self {
        (self.0, self.1.max(at_ns))
    }
}

on_both!(a_join_is_the_later_of_both, |timing| {
    let short = timing.operate(read(4, 0), Done::READY);
    let long = timing.operate(program(1, 0), Done::READY);
    let ab = timing.join(short, long);
    let ba = timing.join(long, short);
    let same = timing.join(short, short);
    let past = timing.join(Done::READY, short);
    let past_too = timing.join(short, Done::READY);
    let nested = timing.join(ab, past);
    let r = timing.operate(read(6, 0), ba);
    expect(
        timing,
        &[
            (ab, PROGRAM),
            (ba, PROGRAM),
            (same, READ),
            (past, READ),
            (past_too, READ),
            (nested, PROGRAM),
            (r, PROGRAM + READ),
        ],
    );
    let none = timing.join(short, long);
    timing.alarm(timing.now(), 1);
    timing.watch(none, 2);
    assert_eq!(timing.next(), Some((1, PROGRAM + READ)));
    assert_eq!(timing.next(), Some((2, PROGRAM + READ)));
});

on_both!(settle_waits_for_the_programs_so_far, |timing| {
    let none = timing.settle();
    timing.watch(none, 5);
    assert_eq!(timing.next(), Some((5, 0)));
    timing.operate(program(0, 0), Done::READY);
    let late = timing.compute(900, Done::READY);
    timing.operate(program(1, 0), late);
    let first = timing.settle();
    let same = timing.settle();
    timing.operate(erase(7), Done::READY);
    let r = timing.operate(read(6, 0), first);
    let erase_not_counted = timing.settle();
    let later = timing.operate(program(0, 1), first);
    let second = timing.settle();
    let end = 900 + PROGRAM;
    expect(
        timing,
        &[
            (first, end),
            (same, end),
            (r, end + READ),
            (erase_not_counted, end),
            (later, end + PROGRAM),
            (second, end + PROGRAM),
        ],
    );
    let none = timing.settle();
    timing.watch(none, 6);
    assert_eq!(timing.next(), Some((6, end + PROGRAM)));
});

on_both!(cores_serve_in_order, |timing| {
    let a = timing.compute(100, Done::READY);
    let b = timing.compute(10, Done::READY);
    let c = timing.compute(10, Done::READY);
    let d = timing.compute(200, Done::READY);
    let e = timing.compute(5, Done::READY);
    let nothing = timing.compute(0, a);
    expect(timing, &[(a, 100), (b, 10), (c, 20), (d, 220), (e, 105), (nothing, 100)]);
});

on_both!(reports_come_in_order_of_time_then_of_asking, |timing| {
    let a = timing.operate(read(4, 0), Done::READY);
    timing.alarm(READ + 1, 1);
    timing.alarm(3, 2);
    timing.alarm(3, 3);
    timing.alarm(0, 4);
    timing.watch(a, 5);
    timing.watch(a, u32::MAX);
    timing.watch(a, 5);
    timing.watch(Done::READY, 6);
    let order: Vec<_> = std::iter::from_fn(|| timing.next()).collect();
    let want = [(4, 0), (6, 0), (2, 3), (3, 3), (5, READ), (u32::MAX, READ), (5, READ), (1, READ + 1)];
    assert_eq!(order, want);
});

on_both!(what_is_complete_is_reported_before_time_moves, |timing| {
    let a = timing.operate(read(4, 0), Done::READY);
    let b = timing.operate(read(4, 1), Done::READY);
    timing.watch(b, 1);
    timing.alarm(READ + 2, 2);
    assert_eq!(timing.next(), Some((2, READ + 2)));
    timing.watch(a, 3);
    timing.alarm(1, 4);
    assert_eq!(timing.next(), Some((3, READ + 2)));
    assert_eq!(timing.next(), Some((4, READ + 2)));
    assert_eq!(timing.next(), Some((1, 2 * READ)));
    assert_eq!(timing.next(), None);
});

on_both!(next_does_not_run_ahead_of_the_reports, |timing| {
    let a = timing.operate(read(4, 0), Done::READY);
    timing.operate(erase(8), Done::READY);
    timing.watch(a, 1);
    assert_eq!(timing.next(), Some((1, READ)));
    assert_eq!(timing.next(), None);
    assert_eq!(timing.now(), READ);
    timing.drain();
    assert_eq!(timing.now(), READ + ERASE);
    timing.drain();
    assert_eq!(timing.now(), READ + ERASE);
});

on_both!(drain_loses_no_report, |timing| {
    let a = timing.operate(read(4, 0), Done::READY);
    let b = timing.operate(erase(9), a);
    timing.compute(READ + 3, Done::READY);
    timing.watch(a, 1);
    timing.watch(b, 2);
    timing.alarm(1, 3);
    timing.alarm(READ + ERASE + 10, 4);
    timing.drain();
    let end = READ + ERASE;
    assert_eq!(timing.now(), end);
    let order: Vec<_> = std::iter::from_fn(|| timing.next()).collect();
    assert_eq!(order, [(3, end), (1, end), (2, end), (4, end + 10)]);
});

on_both!(die_use_is_exact_at_any_moment, |timing| {
    timing.alarm(100, 1);
    timing.next();
    timing.operate(read(4, 0), Done::READY);
    timing.operate(program(0, 0), Done::READY);
    let late = timing.compute(500, Done::READY);
    timing.operate(read(5, 0), late);
    let want = |now_ns: u64| {
        let part = |from: u64, to: u64| now_ns.min(to).saturating_sub(from);
        let (read, programmed, other) = (100 + READ, 100 + READ + PROGRAM, 600 + READ);
        [
            DieUse {
                read_ns: part(100, read),
                program_ns: part(read, programmed),
                idle_ns: part(0, 100) + part(programmed, u64::MAX),
                ..DieUse::default()
            },
            DieUse {
                read_ns: part(600, other),
                idle_ns: part(0, 600) + part(other, u64::MAX),
                ..DieUse::default()
            },
        ]
    };
    for now_ns in 101..800 {
        timing.alarm(now_ns, 0);
        timing.next();
        assert_eq!(timing.die_use()[..2], want(now_ns), "at {now_ns}");
    }
});

on_both!(start_forgets, |timing| {
    let a = timing.operate(program(0, 0), Done::READY);
    timing.compute(10_000, a);
    timing.settle();
    timing.alarm(50_000, 1);
    timing.watch(a, 2);
    timing.drain();
    let mut written = [WRITTEN; BLOCKS as usize];
    written[0] = 3;
    timing.start(&written);
    assert_eq!((timing.now(), timing.next()), (0, None));
    assert!(timing.die_use().iter().all(|die| *die == DieUse::default()));
    let p = timing.operate(program(0, 3), Done::READY);
    let r = timing.operate(read(0, 2), Done::READY);
    let c = timing.compute(5, Done::READY);
    timing.watch(r, 0);
    let (_, at_ns) = timing.next().unwrap();
    // First served, or first among host reads with the program suspended at 0; never behind what is
    // forgotten.
    assert!(at_ns == READ || at_ns == PROGRAM + READ);
    assert!(timing.now() > 5);
    timing.watch(c, 1);
    assert_eq!(timing.next(), Some((1, at_ns)));
    timing.watch(p, 2);
    assert!(timing.next().is_some());
});

on_both!(long_chains_need_no_stack, |timing| {
    let start = timing.operate(read(4, 0), Done::READY);
    let other = timing.operate(read(5, 0), Done::READY);
    let mut chain = start;
    for _ in 0..300_000 {
        chain = timing.join(chain, other);
    }
    let r = timing.operate(read(6, 0), chain);
    expect(timing, &[(r, 2 * READ)]);
});

#[test]
fn no_clock_reports_at_once_and_in_order() {
    let mut timing = started(NoClock::new());
    let a = timing.operate(erase(3), Done::READY);
    let b = timing.compute(1_000, a);
    let c = timing.settle();
    let d = timing.join(b, c);
    timing.watch(d, 1);
    timing.alarm(1_000, 2);
    timing.watch(Done::READY, 3);
    let order: Vec<_> = std::iter::from_fn(|| timing.next()).collect();
    assert_eq!(order, [(1, 0), (2, 0), (3, 0)]);
    timing.drain();
    assert_eq!(timing.now(), 0);
}

#[test]
fn reservation_holds_a_die_for_what_waits_elsewhere() {
    let mut timing = reserved();
    let elsewhere = timing.operate(erase(7), Done::READY);
    let waits = timing.operate(read(4, 0), elsewhere);
    let behind = timing.operate(read(8, 0), Done::READY);
    expect(&mut timing, &[(waits, ERASE + READ), (behind, ERASE + 2 * READ)]);
    assert_eq!(timing.die_use()[0], DieUse { idle_ns: ERASE, read_ns: 2 * READ, ..DieUse::default() });
}

#[test]
fn reservation_books_the_channel_too() {
    // Dies 0 and 2 share channel 0; die 1 is on channel 1.
    let mut timing = reserved_with(Times { transfer_ns: 10, ..times() });
    let a = timing.operate(read(4, 0), Done::READY);
    let b = timing.operate(read(6, 0), Done::READY);
    let c = timing.operate(read(5, 0), Done::READY);
    let p = timing.operate(program(1, 0), Done::READY);
    expect(&mut timing, &[(a, 50), (b, 60), (c, 50), (p, 60 + PROGRAM)]);
    let die = &timing.die_use()[2];
    assert_eq!((die.read_ns, die.channel_ns), (READ, 20));
}
