//! Speed of the timing models: `cargo bench -p ftlkit-nand --bench timing`. Prints million operations a CPU
//! second.
//!
//! 64 closed-loop jobs on 64 dies; each request is submitted, watched and reported.

use std::sync::OnceLock;
use std::time::Instant;

use nand::timing::{NoClock, OpKind, Operation, Policy, Queued, Reserved, Times, Timing};
use nand::{Class, Done, Pbn};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const JOBS: u32 = 64;
const DIES: u32 = 64;
const BLOCKS: u32 = DIES * 256;
const PAGES: u16 = 512;
const REQUESTS: u64 = 20_000_000;

fn times(transfer_ns: u64) -> Times {
    Times {
        read_ns: 40_000,
        program_ns: 200_000,
        erase_ns: 2_000_000,
        transfer_ns,
        suspend_ns: 5_000,
        controller_cores: 4,
    }
}

/// Time this thread has had on a core (Linux), or wall time where the kernel does not say.
fn cpu_seconds() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let wall = START.get_or_init(Instant::now).elapsed().as_secs_f64();
    let on_core = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ns = on_core.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    ns.map_or(wall, |ns| ns / 1e9)
}

/// A closed loop of requests; `submit` makes one and returns its completion.
fn closed_loop<T: Timing>(
    name: &str,
    mut timing: T,
    reads: u64,
    mut submit: impl FnMut(&mut T, u64) -> Done,
) {
    timing.start(&vec![PAGES; BLOCKS as usize]);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let started = cpu_seconds();
    for job in 0..JOBS {
        let done = submit(&mut timing, random.next_u64());
        timing.watch(done, job);
    }
    for _ in 0..REQUESTS / reads {
        let Some((job, _)) = timing.next() else { break };
        let done = submit(&mut timing, random.next_u64());
        timing.watch(done, job);
    }
    let seconds = cpu_seconds() - started;
    print!("{name:<28} {:6.1} Mops/s", REQUESTS as f64 / seconds / 1e6);
    if timing.now() > 0 {
        print!("   {:6.1} KIOPS of the device", (REQUESTS / reads) as f64 * 1e6 / timing.now() as f64);
    }
    println!();
}

fn read(random: u64) -> Operation {
    let block = (random as u32) % BLOCKS;
    Operation {
        kind: OpKind::Read,
        class: Class::HostRead,
        die: block % DIES,
        block: Pbn(block),
        page: (random >> 48) as u32 % u32::from(PAGES),
    }
}

fn single<T: Timing>(timing: &mut T, random: u64) -> Done {
    let arrival = timing.arrival();
    timing.operate(read(random), arrival)
}

fn double<T: Timing>(timing: &mut T, random: u64) -> Done {
    let arrival = timing.arrival();
    let first = timing.operate(read(random >> 32), arrival);
    timing.operate(read(random), first)
}

/// Three in ten requests program the next page of a block on a random die, erasing the block when it is full.
fn mixed<T: Timing>() -> impl FnMut(&mut T, u64) -> Done {
    let mut frontier = vec![PAGES; DIES as usize];
    move |timing, random| {
        let op = read(random);
        if (random >> 33) % 10 >= 3 {
            // Not the blocks under programming.
            let block = op.block.0.max(DIES);
            return timing.operate(Operation { block: Pbn(block), die: block % DIES, ..op }, Done::READY);
        }
        let (block, next) = (Pbn(op.die), &mut frontier[op.die as usize]);
        let mut after = timing.arrival();
        if *next == PAGES {
            let erase = Operation { kind: OpKind::Erase, class: Class::Erase, block, page: 0, ..op };
            after = timing.operate(erase, after);
            *next = 0;
        }
        *next += 1;
        let page = u32::from(*next) - 1;
        timing.operate(Operation { kind: OpKind::Program, class: Class::HostWrite, block, page, ..op }, after)
    }
}

fn main() {
    let queued = |policy, transfer_ns| Queued::new(times(transfer_ns), policy, DIES, 8, BLOCKS);
    closed_loop("no clock, one read", NoClock::new(), 1, single);
    closed_loop("reserved, one read", Reserved::new(times(0), DIES, 8), 1, single);
    closed_loop("reserved, two reads", Reserved::new(times(0), DIES, 8), 2, double);
    closed_loop("reserved, channel", Reserved::new(times(2_500), DIES, 8), 1, single);
    closed_loop("queued, one read", queued(Policy::Fcfs, 0), 1, single);
    closed_loop("queued, two reads", queued(Policy::Fcfs, 0), 2, double);
    closed_loop("queued, channel", queued(Policy::Fcfs, 2_500), 1, single);
    closed_loop("queued, mixed", queued(Policy::Fcfs, 0), 1, mixed());
    closed_loop("queued, mixed, reads first", queued(Policy::HostReadsFirst, 0), 1, mixed());
    closed_loop("queued, mixed, suspension", queued(Policy::Suspend, 0), 1, mixed());
}
