//! The closed forms: 64 jobs in a closed loop on 64 dies of 40 us, uniform random pages, no other overhead.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

const JOBS: u32 = 64;
const SIMULATED_DIES: u32 = 64;
const PAGES: u16 = 512;
const REQUESTS: u64 = 1_000_000;

fn device() -> Times {
    Times { read_ns: 40_000, program_ns: 200_000, erase_ns: 2_000_000, ..times() }
}

fn queue_model() -> Queued {
    Queued::new(device(), Policy::Fcfs, SIMULATED_DIES, 8, SIMULATED_DIES)
}

fn reservation_model() -> Reserved {
    Reserved::new(device(), SIMULATED_DIES, 8)
}

/// Requests of `1 + double(random)` dependent reads; returns KIOPS.
fn kiops<T: Timing>(mut timing: T, double: impl Fn(u64) -> bool) -> f64 {
    timing.start(&[PAGES; SIMULATED_DIES as usize]);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(42);
    let mut read_at = |timing: &mut T, after: Done| {
        let number = random.next_u64();
        let die = (number >> 58) as u32;
        let page = (number & 0xffff) as u32 % u32::from(PAGES);
        timing.operate(
            Operation { kind: OpKind::Read, class: Class::HostRead, die, block: Pbn(die), page },
            after,
        )
    };
    let mut choice = Xoshiro256PlusPlus::seed_from_u64(43);
    let mut request = |timing: &mut T, job: u32| {
        let arrival = timing.arrival();
        let mut done = read_at(timing, arrival);
        if double(choice.next_u64() % 100) {
            done = read_at(timing, done);
        }
        timing.watch(done, job);
    };
    (0..JOBS).for_each(|job| request(&mut timing, job));
    let mut submitted = u64::from(JOBS);
    let mut completed = 0;
    while let Some((job, _)) = timing.next() {
        completed += 1;
        if submitted < REQUESTS {
            submitted += 1;
            request(&mut timing, job);
        }
    }
    assert_eq!(completed, submitted);
    for die in timing.die_use() {
        assert_eq!(total(&die), timing.now());
    }
    REQUESTS as f64 * 1e6 / timing.now() as f64
}

fn assert_near(measured: f64, closed_form: f64) {
    assert!((measured / closed_form - 1.0).abs() < 0.01, "{measured:.1} KIOPS instead of {closed_form}");
}

#[test]
fn one_read_a_request() {
    assert_near(kiops(queue_model(), |_| false), 943.0);
    assert_near(kiops(reservation_model(), |_| false), 943.0);
}

#[test]
fn two_dependent_reads_a_request() {
    assert_near(kiops(queue_model(), |_| true), 472.0);
    assert_near(kiops(reservation_model(), |_| true), 254.0);
}

#[test]
fn a_mixture_of_single_and_double_reads() {
    assert_near(kiops(queue_model(), |percent| percent < 45), 651.0);
    assert_near(kiops(queue_model(), |percent| percent < 10), 857.0);
}
