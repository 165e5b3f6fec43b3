//! What only the queue model promises: who waits in which queue, and who overtakes.

use super::*;

fn channels() -> Times {
    Times { transfer_ns: 10, ..times() }
}

#[test]
fn a_die_is_free_for_others_while_an_operation_waits_elsewhere() {
    let mut timing = queued();
    let elsewhere = timing.operate(erase(7), Done::READY);
    let waits = timing.operate(read(4, 0), elsewhere);
    let behind = timing.operate(read(8, 0), Done::READY);
    expect(&mut timing, &[(behind, READ), (waits, ERASE + READ)]);
}

#[test]
fn programs_parked_for_their_turn_enter_with_the_one_before_them() {
    let mut timing = queued();
    let late = timing.compute(1_000, Done::READY);
    let later = timing.compute(1_020, Done::READY);
    let p0 = timing.operate(program(0, 0), late);
    let p1 = timing.operate(program(0, 1), Done::READY);
    let r = timing.operate(read(4, 0), late);
    let p2 = timing.operate(program(0, 2), later);
    let p3 = timing.operate(program(0, 3), Done::READY);
    // Page 1 stands before the read, which became ready when page 0 did.
    expect(
        &mut timing,
        &[
            (p0, 1_000 + PROGRAM),
            (p1, 1_000 + 2 * PROGRAM),
            (r, 1_000 + 2 * PROGRAM + READ),
            (p2, 1_000 + 3 * PROGRAM + READ),
            (p3, 1_000 + 4 * PROGRAM + READ),
        ],
    );
}

#[test]
fn other_blocks_pass_a_parked_program() {
    let mut timing = queued();
    let late = timing.compute(1_000, Done::READY);
    let p0 = timing.operate(program(0, 0), late);
    let p1 = timing.operate(program(0, 1), Done::READY);
    let other = timing.operate(program(4, u32::from(WRITTEN)), Done::READY);
    expect(&mut timing, &[(other, PROGRAM), (p0, 1_000 + PROGRAM), (p1, 1_000 + 2 * PROGRAM)]);
}

#[test]
fn a_scan_of_an_erased_page_does_not_wait_for_a_program_to_come() {
    let mut timing = queued();
    let late = timing.compute(100, Done::READY);
    let scan = timing.operate(read(0, 0), late);
    let p0 = timing.operate(program(0, 0), scan);
    let erased = timing.operate(erase(4), Done::READY);
    let behind = timing.operate(read(4, 50), Done::READY);
    // The erase of another block of the die was there first.
    expect(
        &mut timing,
        &[
            (erased, ERASE),
            (scan, ERASE + READ),
            (behind, ERASE + 2 * READ),
            (p0, ERASE + 2 * READ + PROGRAM),
        ],
    );
}

#[test]
fn an_erase_of_one_block_does_not_wait_for_another() {
    let mut timing = queued();
    let late = timing.compute(9_000, Done::READY);
    let r = timing.operate(read(4, 0), late);
    let e = timing.operate(erase(8), Done::READY);
    let waits = timing.operate(erase(4), Done::READY);
    expect(&mut timing, &[(e, ERASE), (r, 9_000 + READ), (waits, 9_000 + READ + ERASE)]);
}

#[test]
fn an_erase_waits_for_its_after_too() {
    let mut timing = queued();
    let late = timing.compute(500, Done::READY);
    let r = timing.operate(read(4, 0), Done::READY);
    let e = timing.operate(erase(4), late);
    let p = timing.operate(program(4, 0), Done::READY);
    expect(&mut timing, &[(r, READ), (e, 500 + ERASE), (p, 500 + ERASE + PROGRAM)]);
}

#[test]
#[should_panic(expected = "page 1 programmed where page 0 is next")]
fn a_skipped_page_is_a_bug() {
    queued().operate(program(0, 1), Done::READY);
}

#[test]
#[should_panic(expected = "operations in flight")]
fn the_clock_is_not_reset_under_way() {
    let mut timing = queued();
    timing.operate(read(4, 0), Done::READY);
    timing.start(&[0; BLOCKS as usize]);
}

#[test]
fn a_stale_token_stays_done() {
    let mut timing = queued();
    let old = timing.operate(read(4, 0), Done::READY);
    let old_join = timing.compute(3, old);
    timing.drain();
    for i in 0..10_000 {
        let new = timing.operate(read(4, 0), Done::READY);
        assert_ne!(new.0, old.0);
        timing.watch(old, 1);
        timing.watch(old_join, 2);
        assert_eq!(timing.next(), Some((1, 43 + i * READ)));
        assert_eq!(timing.next(), Some((2, 43 + i * READ)));
        timing.drain();
    }
}

#[test]
fn first_come_first_served_knows_no_class() {
    let mut timing = queued();
    let p = timing.operate(program(0, 0), Done::READY);
    let e = timing.operate(erase(8), Done::READY);
    let r = timing.operate(read(4, 0), Done::READY);
    expect(&mut timing, &[(p, PROGRAM), (e, PROGRAM + ERASE), (r, PROGRAM + ERASE + READ)]);
}

#[test]
fn host_reads_overtake_what_has_not_begun() {
    let mut timing = queued_with(times(), Policy::HostReadsFirst);
    let p = timing.operate(program(0, 0), Done::READY);
    let e = timing.operate(erase(8), Done::READY);
    let c = timing.operate(collect(4, 1), Done::READY);
    let q = timing.operate(program(0, 1), Done::READY);
    let r = timing.operate(read(4, 0), Done::READY);
    let s = timing.operate(read(4, 2), Done::READY);
    let reads = PROGRAM + 2 * READ;
    expect(
        &mut timing,
        &[
            (p, PROGRAM),
            (r, PROGRAM + READ),
            (s, reads),
            (e, reads + ERASE),
            (c, reads + ERASE + READ),
            (q, reads + ERASE + READ + PROGRAM),
        ],
    );
}

#[test]
fn a_host_read_set_free_by_the_end_of_an_operation_comes_next() {
    let mut timing = queued_with(times(), Policy::HostReadsFirst);
    let p = timing.operate(program(0, 0), Done::READY);
    let q = timing.operate(program(0, 1), Done::READY);
    let r = timing.operate(read(0, 0), Done::READY);
    expect(&mut timing, &[(p, PROGRAM), (r, PROGRAM + READ), (q, 2 * PROGRAM + READ)]);
}

#[test]
fn a_host_read_suspends_a_program_again_and_again() {
    let mut timing = queued_with(times(), Policy::Suspend);
    let p = timing.operate(program(0, 0), Done::READY);
    let q = timing.operate(program(0, 1), Done::READY);
    let at_50 = timing.compute(50, Done::READY);
    let at_60 = timing.compute(60, Done::READY);
    let a = timing.operate(read(4, 0), at_50);
    let b = timing.operate(read(4, 1), at_60);
    // Resumes at 130 with 150 + 7 to go; 30 later it is suspended with 127 + 7 to go.
    let at_160 = timing.compute(110, at_50);
    let c = timing.operate(read(4, 2), at_160);
    let end = 200 + 134;
    expect(&mut timing, &[(a, 90), (b, 130), (c, 200), (p, end), (q, end + PROGRAM)]);
    let die = &timing.die_use()[0];
    assert_eq!(die.program_ns, 2 * PROGRAM + 2 * SUSPEND);
    assert_eq!(die.read_ns, 3 * READ);
}

#[test]
fn a_host_read_suspends_an_erase_but_no_read() {
    let mut timing = queued_with(times(), Policy::Suspend);
    let e = timing.operate(erase(8), Done::READY);
    let r = timing.operate(read(4, 0), Done::READY);
    expect(&mut timing, &[(r, READ), (e, READ + ERASE + SUSPEND)]);
    let mut timing = queued_with(times(), Policy::Suspend);
    let c = timing.operate(collect(4, 0), Done::READY);
    let r = timing.operate(read(4, 0), Done::READY);
    expect(&mut timing, &[(c, READ), (r, 2 * READ)]);
}

#[test]
fn only_host_reads_suspend() {
    let mut timing = queued_with(times(), Policy::Suspend);
    let p = timing.operate(program(0, 0), Done::READY);
    let c = timing.operate(collect(4, 0), Done::READY);
    let e = timing.operate(erase(8), Done::READY);
    expect(&mut timing, &[(p, PROGRAM), (c, PROGRAM + READ), (e, PROGRAM + READ + ERASE)]);
}

#[test]
fn a_page_under_a_suspended_program_is_not_there() {
    let mut timing = queued_with(times(), Policy::Suspend);
    let p = timing.operate(program(0, 0), Done::READY);
    let r = timing.operate(read(0, 0), Done::READY);
    let other = timing.operate(read(4, 0), Done::READY);
    let end = READ + PROGRAM + SUSPEND;
    expect(&mut timing, &[(other, READ), (p, end), (r, end + READ)]);
}

#[test]
fn what_ends_now_is_not_suspended() {
    let mut timing = queued_with(times(), Policy::Suspend);
    let at_200 = timing.compute(PROGRAM, Done::READY);
    let p = timing.operate(program(0, 0), Done::READY);
    let r = timing.operate(read(4, 0), at_200);
    expect(&mut timing, &[(p, PROGRAM), (r, PROGRAM + READ)]);
}

#[test]
fn a_transfer_is_not_suspended_but_the_program_after_it_is() {
    let mut timing = queued_with(Times { transfer_ns: 10, ..times() }, Policy::Suspend);
    let p = timing.operate(program(0, 0), Done::READY);
    let at_5 = timing.compute(5, Done::READY);
    let r = timing.operate(read(4, 0), at_5);
    expect(&mut timing, &[(r, 10 + READ + 10), (p, 10 + READ + 10 + PROGRAM + SUSPEND)]);
}

#[test]
fn reads_transfer_one_after_the_other_with_their_dies_held() {
    // Dies 0 and 2 share channel 0; die 1 is on channel 1.
    let mut timing = queued_with(channels(), Policy::Fcfs);
    let a = timing.operate(read(4, 0), Done::READY);
    let b = timing.operate(read(6, 0), Done::READY);
    let c = timing.operate(read(5, 0), Done::READY);
    let next = timing.operate(read(6, 1), Done::READY);
    expect(&mut timing, &[(a, 50), (b, 60), (c, 50), (next, 110)]);
    let die = &timing.die_use()[2];
    assert_eq!((die.read_ns, die.channel_ns, die.idle_ns), (2 * READ, 30, 0));
}

#[test]
fn programs_transfer_first_and_erases_do_not() {
    let mut timing = queued_with(channels(), Policy::Fcfs);
    let a = timing.operate(program(0, 0), Done::READY);
    let b = timing.operate(program(2, 0), Done::READY);
    let e = timing.operate(erase(8), Done::READY);
    expect(&mut timing, &[(a, 10 + PROGRAM), (b, 20 + PROGRAM), (e, 10 + PROGRAM + ERASE)]);
    assert_eq!(timing.die_use()[2].channel_ns, 20);
}

#[test]
fn the_channel_serves_in_order_of_request() {
    let mut timing = started(Queued::new(channels(), Policy::Fcfs, DIES, 1, BLOCKS));
    let a = timing.operate(program(0, 0), Done::READY);
    let b = timing.operate(program(1, 0), Done::READY);
    let c = timing.operate(program(2, 0), Done::READY);
    let d = timing.operate(program(3, 0), Done::READY);
    // Of the reads that follow at 210, 220, ... each finds the channel free again.
    let r = timing.operate(read(4, 0), Done::READY);
    let s = timing.operate(read(5, 0), Done::READY);
    expect(
        &mut timing,
        &[(a, 210), (b, 220), (c, 230), (d, 240), (r, 210 + READ + 10), (s, 220 + READ + 10)],
    );
}

#[test]
fn nothing_is_allocated_after_warm_up() {
    const DEEP: u32 = 64;
    for policy in [Policy::Fcfs, Policy::HostReadsFirst, Policy::Suspend] {
        let mut timing = queued_with(channels(), policy);
        let mut next_page = [0; DIES as usize];
        let mut capacity = None;
        for step in 0..400_000_u32 {
            let number = step.wrapping_mul(2_654_435_761) >> 16;
            let block = number % DIES;
            let next = &mut next_page[block as usize];
            let done = match number >> 8 & 7 {
                0..=3 => timing
                    .operate(read(DIES + number % (BLOCKS - DIES), number % u32::from(WRITTEN)), Done::READY),
                4 => timing.settle(),
                5 => timing.compute(1 + u64::from(number % 100), Done::READY),
                _ if *next == 50 => {
                    *next = 0;
                    timing.operate(erase(block), Done::READY)
                }
                _ => {
                    *next += 1;
                    timing.operate(program(block, *next - 1), Done::READY)
                }
            };
            let now_ns = timing.now();
            let busy = timing.compute(1, done);
            let both = timing.join(done, busy);
            timing.watch(both, step);
            timing.alarm(now_ns + u64::from(number % 50), step);
            timing.alarm(now_ns, step);
            if step >= DEEP {
                (0..3).for_each(|_| assert!(timing.next().is_some()));
            }
            if step == 100_000 {
                capacity = Some(timing.capacity());
            }
        }
        assert_eq!(capacity, Some(timing.capacity()), "{policy:?}");
    }
}

#[test]
fn operations_that_take_no_time_leave_the_clock_alone() {
    let zero =
        Times { read_ns: 0, program_ns: 0, erase_ns: 0, transfer_ns: 0, suspend_ns: 0, controller_cores: 1 };
    let mut timing = queued_with(zero, Policy::Suspend);
    let p = timing.operate(program(0, 0), Done::READY);
    let e = timing.operate(erase(0), p);
    let q = timing.operate(program(0, 0), e);
    let r = timing.operate(read(0, 0), Done::READY);
    let settled = timing.settle();
    for (tag, done) in (0..).zip([r, settled, q, e, p]) {
        timing.watch(done, tag);
    }
    let mut tags: Vec<_> = std::iter::from_fn(|| timing.next()).collect();
    tags.sort_unstable();
    assert_eq!(tags, [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)]);
}
