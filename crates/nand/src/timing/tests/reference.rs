//! The queue model against a slow simulator written differently, on random graphs of operations.
//!
//! The reference has no queues, no tokens and no event list: at each step it looks at every operation and
//! every die for the earliest thing that can happen. Durations are prime and every operation waits for a
//! delay of its own, so that no two become ready together but by a rule of the block. What remains
//! simultaneous (a transfer as long as another one, on two dies of one channel) happens in the order in which
//! it was scheduled. Only a delay that ends in the very ns of a die's phase is not ranked here: one graph in
//! some 10,000 differs by that, none of those below.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

const CHANNELS: u32 = 2;
const PAGES: u32 = 24;
const OPERATIONS: usize = 160;

fn prime_times(transfer_ns: u64) -> Times {
    Times {
        read_ns: 40_009,
        program_ns: 200_017,
        erase_ns: 1_500_007,
        transfer_ns,
        suspend_ns: 3_001,
        // Delays never wait for a core.
        controller_cores: OPERATIONS as u32 * 2,
    }
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Flash(Operation),
    Delay(u64),
    /// With the work of this index too.
    Join(usize),
    Settle,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    work: Work,
    after: Option<usize>,
    submitted_ns: u64,
}

/// Submits a random legal graph in several bursts; returns it and what the model reported.
fn run(timing: &mut Queued, seed: u64) -> (Vec<Item>, Vec<Option<u64>>) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut below = move |bound: u64| random.next_u64() % bound;
    let mut items: Vec<Item> = Vec::new();
    let mut tokens: Vec<Done> = Vec::new();
    let mut ends: Vec<Option<u64>> = Vec::new();
    let mut pages = [0; BLOCKS as usize];
    timing.start(&[0; BLOCKS as usize]);
    let crowd = 1 + below(u64::from(BLOCKS)) as u32;
    for _ in 0..OPERATIONS {
        let mut submit = |timing: &mut Queued, work: Work, after: Option<usize>| {
            let token = after.map_or(Done::READY, |after| tokens[after]);
            let done = match work {
                Work::Flash(op) => timing.operate(op, token),
                Work::Delay(ns) => timing.compute(ns, token),
                Work::Join(other) => timing.join(token, tokens[other]),
                Work::Settle => timing.settle(),
            };
            items.push(Item { work, after, submitted_ns: timing.now() });
            tokens.push(done);
            ends.push(None);
            timing.watch(done, ends.len() as u32 - 1);
            Some(ends.len() - 1)
        };
        let earlier = |below: &mut dyn FnMut(u64) -> u64, count: usize| {
            (count > 0).then(|| below(count as u64) as usize)
        };
        let mut count = submit(timing, Work::Settle, None);
        if below(10) > 0 {
            count = earlier(&mut below, count.unwrap_or(0));
        }
        let mut after = if below(3) == 0 { None } else { count };
        if let (Some(_), Some(other), 0) = (after, count, below(3)) {
            after = submit(timing, Work::Join(below(other as u64 + 1) as usize), after);
        }
        after = submit(timing, Work::Delay(1 + below(400_000)), after);
        let block = below(u64::from(crowd)) as u32;
        let written = &mut pages[block as usize];
        let op = match below(20) {
            0 => erase(block),
            1..=8 if *written < PAGES => program(block, *written),
            1..=12 if *written > 0 => read(block, below(u64::from(*written)) as u32),
            13..=18 if *written > 0 => collect(block, below(u64::from(*written)) as u32),
            // A scan, erased or not.
            _ => collect(block, below(u64::from(PAGES)) as u32),
        };
        match op.kind {
            OpKind::Read => {}
            OpKind::Program => *written += 1,
            OpKind::Erase => *written = 0,
        }
        submit(timing, Work::Flash(op), after);
        for _ in 0..below(4) * below(4) {
            if let Some((tag, now_ns)) = timing.next() {
                assert!(ends[tag as usize].replace(now_ns).is_none());
            }
        }
    }
    while let Some((tag, now_ns)) = timing.next() {
        assert!(ends[tag as usize].replace(now_ns).is_none());
    }
    (items, ends)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Array { until_ns: u64 },
    Wants { since_ns: u64 },
    Transfer { until_ns: u64 },
}

#[derive(Clone, Debug, Default)]
struct ReferenceDie {
    running: Option<(usize, Phase)>,
    suspended: Option<(usize, u64)>,
    /// The rank in which the end of the phase under way was scheduled, and that of the last phase that
    /// ended, with its time.
    rank: u64,
    ended: (u64, u64),
    use_ns: [u64; 3],
}

struct Reference<'a> {
    items: &'a [Item],
    times: &'a Times,
    policy: Policy,
    now_ns: u64,
    ends: Vec<Option<u64>>,
    begun: Vec<bool>,
    ranks: u64,
    dies: Vec<ReferenceDie>,
}

impl Reference<'_> {
    fn flash(&self, item: usize) -> Option<Operation> {
        match self.items[item].work {
            Work::Flash(op) => Some(op),
            _ => None,
        }
    }

    /// When an item may go on as far as `after`, and its submission, are concerned.
    fn released(&self, item: usize) -> Option<u64> {
        let after_ns = self.items[item].after.map_or(Some(0), |after| self.ends[after])?;
        Some(after_ns.max(self.items[item].submitted_ns))
    }

    fn resolve_what_takes_no_die(&mut self) {
        for item in 0..self.items.len() {
            if self.ends[item].is_some() {
                continue;
            }
            let released = self.released(item);
            self.ends[item] = match self.items[item].work {
                Work::Flash(_) => None,
                Work::Delay(ns) => released.map(|at_ns| at_ns + ns),
                Work::Join(other) => released.zip(self.ends[other]).map(|(a, b)| a.max(b)),
                Work::Settle => (0..item)
                    .filter(|&i| self.flash(i).is_some_and(|op| op.kind == OpKind::Program))
                    .try_fold(self.items[item].submitted_ns, |at_ns, i| Some(at_ns.max(self.ends[i]?))),
            };
        }
    }

    /// When a flash operation enters its die's queue, and when it passed `after` and the erases before it.
    fn ready(&self, item: usize) -> Option<(u64, u64)> {
        let op = self.flash(item)?;
        let in_block = |i: usize| self.flash(i).filter(|other| other.block == op.block);
        let fence = (0..item).rev().find(|&i| in_block(i).is_some_and(|other| other.kind == OpKind::Erase));
        let fence_ns = fence.map_or(Some(0), |fence| self.ends[fence])?;
        let passed_ns = self.released(item)?.max(fence_ns);
        let since = fence.map_or(0, |fence| fence + 1);
        let programmed = |page: u32| {
            (since..item).find(|&i| in_block(i).is_some_and(|o| o.kind == OpKind::Program && o.page == page))
        };
        match op.kind {
            OpKind::Read => {
                let page_ns = programmed(op.page).map_or(Some(0), |i| self.ends[i])?;
                Some((passed_ns.max(page_ns), passed_ns))
            }
            OpKind::Program => {
                let before = op.page.checked_sub(1).and_then(programmed);
                let ready_ns = match before {
                    Some(before) => passed_ns.max(self.ready(before)?.0),
                    None => passed_ns,
                };
                Some((ready_ns, ready_ns))
            }
            OpKind::Erase => {
                let all_ns = (since..item)
                    .filter(|&i| in_block(i).is_some())
                    .try_fold(passed_ns, |at_ns, i| Some(at_ns.max(self.ends[i]?)))?;
                Some((all_ns, passed_ns))
            }
        }
    }

    fn urgent(&self, op: Operation) -> bool {
        self.policy != Policy::Fcfs && op.kind == OpKind::Read && op.class == Class::HostRead
    }

    /// The operation a die would begin next, and when, if only urgent ones count or all.
    fn candidate(&self, die: u32, only_urgent: bool) -> Option<(u64, usize)> {
        let waiting: Vec<_> = (0..self.items.len())
            .filter(|&i| !self.begun[i] && self.ends[i].is_none())
            .filter_map(|i| self.flash(i).filter(|op| op.die == die).map(|op| (i, self.urgent(op))))
            .filter(|&(_, urgent)| urgent || !only_urgent)
            .filter_map(|(i, urgent)| self.ready(i).map(|(ready, passed)| (ready, passed, i, urgent)))
            .collect();
        let start_ns = waiting.iter().map(|w| w.0).min()?.max(self.now_ns);
        let first = waiting.iter().filter(|w| w.0 <= start_ns).min_by_key(|w| (!w.3, w.0, w.1, w.2))?;
        Some((start_ns, first.2))
    }

    /// The next thing that happens on a die: its time, the rank of what it follows from, whether it is an end
    /// (0) or the beginning (1) of an operation, and of which; `None` resumes the suspended one.
    fn next_on(&self, die: u32) -> Option<(u64, u64, u32, Option<usize>)> {
        let (at_ns, what, item) = self.next_unordered(die)?;
        let this = &self.dies[die as usize];
        let rank = match what {
            0 => this.rank,
            _ if this.ended.1 == at_ns => this.ended.0,
            _ => u64::MAX,
        };
        Some((at_ns, rank, what, item))
    }

    fn next_unordered(&self, die: u32) -> Option<(u64, u32, Option<usize>)> {
        let this = &self.dies[die as usize];
        match this.running {
            Some((item, Phase::Array { until_ns })) => {
                let read = self.flash(item).is_some_and(|op| op.kind == OpKind::Read);
                let interrupts = self.candidate(die, true).filter(|c| c.0 < until_ns);
                match interrupts {
                    Some((at_ns, by)) if self.policy == Policy::Suspend && !read => {
                        Some((at_ns, 1, Some(by)))
                    }
                    _ => Some((until_ns, 0, None)),
                }
            }
            Some((_, Phase::Transfer { until_ns })) => Some((until_ns, 0, None)),
            Some((_, Phase::Wants { .. })) => None,
            None if this.suspended.is_some() => {
                let urgent = self.candidate(die, true).filter(|c| c.0 == self.now_ns);
                Some((self.now_ns, 1, urgent.map(|c| c.1)))
            }
            None => self.candidate(die, false).map(|(at_ns, item)| (at_ns, 1, Some(item))),
        }
    }

    fn grant_channels(&mut self) {
        for channel in 0..CHANNELS {
            let on_channel = || (0..DIES as usize).filter(|die| *die as u32 % CHANNELS == channel);
            let phase = |die: usize| self.dies[die].running.map(|(_, phase)| phase);
            if on_channel().any(|die| matches!(phase(die), Some(Phase::Transfer { .. }))) {
                continue;
            }
            let first = on_channel()
                .filter_map(|die| match phase(die) {
                    Some(Phase::Wants { since_ns }) => Some((since_ns, self.dies[die].ended.0, die)),
                    _ => None,
                })
                .min();
            if let Some((.., die)) = first {
                let until_ns = self.now_ns + self.times.transfer_ns;
                self.dies[die].rank = self.next_rank();
                self.dies[die].running =
                    self.dies[die].running.map(|(item, _)| (item, Phase::Transfer { until_ns }));
            }
        }
    }

    fn next_rank(&mut self) -> u64 {
        self.ranks += 1;
        self.ranks
    }

    fn array_ns(&self, item: usize) -> u64 {
        match self.flash(item).map(|op| op.kind) {
            Some(OpKind::Read) => self.times.read_ns,
            Some(OpKind::Program) => self.times.program_ns,
            _ => self.times.erase_ns,
        }
    }

    fn simulate(&mut self) {
        loop {
            self.resolve_what_takes_no_die();
            self.grant_channels();
            let next = (0..DIES).filter_map(|die| self.next_on(die).map(|next| (next, die)));
            let Some(((at_ns, _, what, item), die)) =
                next.min_by_key(|((at_ns, rank, what, _), _)| (*at_ns, *rank, *what))
            else {
                return;
            };
            assert!(at_ns >= self.now_ns);
            self.now_ns = at_ns;
            if what == 0 {
                self.end_phase(die as usize);
            } else {
                self.begin(die as usize, item);
            }
        }
    }

    fn end_phase(&mut self, die: usize) {
        let (item, phase) = self.dies[die].running.unwrap();
        let kind = self.flash(item).unwrap().kind;
        let array_ns = self.array_ns(item);
        self.dies[die].ended = (self.dies[die].rank, self.now_ns);
        self.dies[die].rank = self.next_rank();
        self.dies[die].running = match phase {
            Phase::Array { .. } if kind == OpKind::Read && self.times.transfer_ns > 0 => {
                Some((item, Phase::Wants { since_ns: self.now_ns }))
            }
            Phase::Transfer { .. } if kind == OpKind::Program => {
                Some((item, Phase::Array { until_ns: self.now_ns + self.times.program_ns }))
            }
            _ => {
                self.ends[item] = Some(self.now_ns);
                self.dies[die].use_ns[kind as usize] += array_ns;
                None
            }
        };
    }

    fn begin(&mut self, die: usize, item: Option<usize>) {
        let now_ns = self.now_ns;
        if let Some((interrupted, Phase::Array { until_ns })) = self.dies[die].running.take() {
            let kind = self.flash(interrupted).unwrap().kind;
            assert!(self.dies[die].suspended.is_none());
            self.dies[die].suspended = Some((interrupted, until_ns - now_ns + self.times.suspend_ns));
            self.dies[die].use_ns[kind as usize] += self.times.suspend_ns;
        }
        self.dies[die].rank = self.next_rank();
        let Some(item) = item else {
            let (resumed, left_ns) = self.dies[die].suspended.take().unwrap();
            self.dies[die].running = Some((resumed, Phase::Array { until_ns: now_ns + left_ns }));
            return;
        };
        self.begun[item] = true;
        let transfers_first =
            self.times.transfer_ns > 0 && self.flash(item).is_some_and(|op| op.kind == OpKind::Program);
        self.dies[die].running = Some(if transfers_first {
            (item, Phase::Wants { since_ns: now_ns })
        } else {
            (item, Phase::Array { until_ns: now_ns + self.array_ns(item) })
        });
    }
}

fn compare(policy: Policy, transfer_ns: u64, seeds: std::ops::Range<u64>) {
    let times = prime_times(transfer_ns);
    let mut timing = Queued::new(times.clone(), policy, DIES, CHANNELS, BLOCKS);
    for seed in seeds {
        let (items, ends) = run(&mut timing, seed);
        let mut reference = Reference {
            items: &items,
            times: &times,
            policy,
            now_ns: 0,
            ends: vec![None; items.len()],
            begun: vec![false; items.len()],
            ranks: 0,
            dies: vec![ReferenceDie::default(); DIES as usize],
        };
        reference.simulate();
        for (i, item) in items.iter().enumerate() {
            // What was complete when it was submitted is reported then.
            let want = reference.ends[i].map(|end_ns| end_ns.max(item.submitted_ns));
            assert!(want.is_some(), "{policy:?} seed {seed}: the reference lost item {i}");
            assert_eq!(ends[i], want, "{policy:?} transfer {transfer_ns} seed {seed}: item {i} {item:?}");
        }
        for (die, (spent, want)) in timing.die_use().iter().zip(&reference.dies).enumerate() {
            assert_eq!(total(spent), timing.now(), "{policy:?} seed {seed} die {die}");
            assert_eq!(
                [spent.read_ns, spent.program_ns, spent.erase_ns],
                want.use_ns,
                "seed {seed} die {die}"
            );
        }
    }
}

#[test]
fn first_come_first_served_is_exact() {
    compare(Policy::Fcfs, 0, 0..40);
    compare(Policy::Fcfs, 5_003, 100..120);
    compare(Policy::Fcfs, 50_021, 200..220);
}

#[test]
fn host_reads_first_is_exact() {
    compare(Policy::HostReadsFirst, 0, 300..330);
    compare(Policy::HostReadsFirst, 5_003, 400..420);
}

#[test]
fn suspension_is_exact() {
    compare(Policy::Suspend, 0, 500..530);
    compare(Policy::Suspend, 5_003, 600..620);
}
