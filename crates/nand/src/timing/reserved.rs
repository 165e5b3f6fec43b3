//! The reservation model: a die is booked at the moment an operation is submitted.
//!
//! Source: FEMU's `ssd_advance_status` (`next_lun_avail_time`). Its flaw is known and kept: an operation that
//! waits for another one elsewhere holds its die idle until then, and whatever is submitted later queues
//! behind the gap.

use std::collections::VecDeque;

use super::heap::Heap;
use super::{DieUse, OpKind, Operation, Times, Timing};
use crate::Done;

/// The reservation model, FEMU's rule. `Done` holds the time of completion in ns.
///
/// An operation starts at `max(now, after, its die is free)`. With a channel (`transfer_ns > 0`) a read then
/// waits until the channel is free and transfers while it still holds the die; a program transfers first.
///
/// The order inside a block needs no further care: all operations of a block are on one die, a die is booked
/// in the order of submission and never before the end of its last booking, so a read starts after the
/// program of its page has ended and an erase after everything before it.
#[derive(Clone, Debug)]
pub struct Reserved {
    times: Times,
    now_ns: u64,
    dies: Vec<Die>,
    channel_free_ns: Vec<u64>,
    core_free_ns: Vec<u64>,
    /// End of the last program booked on any die.
    programs_end_ns: u64,
    /// What is to be reported: `time << 64 | sequence << 32 | tag`.
    reports: Heap<u128>,
    sequence: u32,
}

/// What a die does in a segment of its timeline; also the index into [`Die::booked_ns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Doing {
    Read = 0,
    Program = 1,
    Erase = 2,
    Channel = 3,
    Idle = 4,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    end_ns: u64,
    start_ns: u64,
    doing: Doing,
}

#[derive(Clone, Debug)]
struct Die {
    free_ns: u64,
    channel: u32,
    /// Everything booked so far, past and future.
    booked_ns: [u64; 5],
    /// The end of the timeline: the segments that had not ended when the last one was booked. `die_use` cuts
    /// off what lies beyond the present.
    recent: VecDeque<Segment>,
}

impl Die {
    #[inline]
    fn book(&mut self, doing: Doing, start_ns: u64, end_ns: u64, now_ns: u64) {
        self.booked_ns[doing as usize] += end_ns - start_ns;
        while self.recent.front().is_some_and(|segment| segment.end_ns <= now_ns) {
            self.recent.pop_front();
        }
        if end_ns <= now_ns {
            return;
        }
        match self.recent.back_mut() {
            Some(last) if last.doing == doing && last.end_ns == start_ns => last.end_ns = end_ns,
            _ => self.recent.push_back(Segment { end_ns, start_ns, doing }),
        }
    }

    /// Books the die from `start_ns`, not before it is free, and the gap before that as idle.
    #[inline]
    fn begin(&mut self, start_ns: u64, now_ns: u64) -> u64 {
        if start_ns > self.free_ns {
            self.book(Doing::Idle, self.free_ns, start_ns, now_ns);
            return start_ns;
        }
        self.free_ns
    }

    fn use_until(&self, now_ns: u64) -> DieUse {
        let mut ns = self.booked_ns;
        for segment in &self.recent {
            let start_ns = segment.start_ns.max(now_ns);
            ns[segment.doing as usize] -= segment.end_ns.saturating_sub(start_ns);
        }
        ns[Doing::Idle as usize] += now_ns.saturating_sub(self.free_ns);
        let [read_ns, program_ns, erase_ns, channel_ns, idle_ns] = ns;
        DieUse { read_ns, program_ns, erase_ns, channel_ns, idle_ns }
    }
}

impl Reserved {
    /// A device of `dies` dies, die `d` on channel `d % channels`.
    ///
    /// # Panics
    /// Without a die, a channel or a controller core.
    pub fn new(times: Times, dies: u32, channels: u32) -> Reserved {
        assert!(dies > 0 && channels > 0, "a device has at least one die and one channel");
        assert!(times.controller_cores > 0, "a controller has at least one core");
        let dies = (0..dies)
            .map(|die| Die {
                free_ns: 0,
                channel: die % channels,
                booked_ns: [0; 5],
                recent: VecDeque::with_capacity(256),
            })
            .collect();
        Reserved {
            now_ns: 0,
            dies,
            channel_free_ns: vec![0; channels as usize],
            core_free_ns: vec![0; times.controller_cores as usize],
            programs_end_ns: 0,
            reports: Heap::with_capacity(1024),
            sequence: 0,
            times,
        }
    }

    /// Books an operation on its die, and on its channel.
    #[inline(never)]
    fn book(&mut self, kind: OpKind, die: u32, after: Done) -> Done {
        let now_ns = self.now_ns;
        let die = &mut self.dies[die as usize];
        let start_ns = die.begin(after.0.max(now_ns), now_ns);
        let (doing, array_ns) = match kind {
            OpKind::Read => (Doing::Read, self.times.read_ns),
            OpKind::Program => (Doing::Program, self.times.program_ns),
            OpKind::Erase => (Doing::Erase, self.times.erase_ns),
        };
        let mut end_ns = start_ns;
        if kind == OpKind::Program && self.times.transfer_ns > 0 {
            let channel_free_ns = &mut self.channel_free_ns[die.channel as usize];
            end_ns = end_ns.max(*channel_free_ns) + self.times.transfer_ns;
            *channel_free_ns = end_ns;
            die.book(Doing::Channel, start_ns, end_ns, now_ns);
        }
        die.book(doing, end_ns, end_ns + array_ns, now_ns);
        end_ns += array_ns;
        if kind == OpKind::Read && self.times.transfer_ns > 0 {
            let channel_free_ns = &mut self.channel_free_ns[die.channel as usize];
            let array_end_ns = end_ns;
            end_ns = end_ns.max(*channel_free_ns) + self.times.transfer_ns;
            *channel_free_ns = end_ns;
            die.book(Doing::Channel, array_end_ns, end_ns, now_ns);
        }
        die.free_ns = end_ns;
        if kind == OpKind::Program {
            self.programs_end_ns = self.programs_end_ns.max(end_ns);
        }
        Done(end_ns)
    }

    #[inline(always)]
    fn report(&mut self, at_ns: u64, tag: u32) {
        let at_ns = at_ns.max(self.now_ns);
        // A wrapped sequence number only reorders simultaneous reports, in a way that repeats.
        self.sequence = self.sequence.wrapping_add(1);
        self.reports.push(u128::from(at_ns) << 64 | u128::from(self.sequence) << 32 | u128::from(tag));
    }
}

impl Timing for Reserved {
    fn start(&mut self, _written: &[u16]) {
        self.now_ns = 0;
        self.programs_end_ns = 0;
        self.sequence = 0;
        self.reports.clear();
        self.channel_free_ns.fill(0);
        self.core_free_ns.fill(0);
        for die in &mut self.dies {
            die.free_ns = 0;
            die.booked_ns = [0; 5];
            die.recent.clear();
        }
    }

    // Inlined, so that an operation's fields travel in registers (see `Queued::submit`).
    #[inline(always)]
    fn operate(&mut self, op: Operation, after: Done) -> Done {
        self.book(op.kind, op.die, after)
    }

    fn compute(&mut self, ns: u64, after: Done) -> Done {
        if ns == 0 {
            return after;
        }
        let mut earliest = 0;
        for core in 1..self.core_free_ns.len() {
            if self.core_free_ns[core] < self.core_free_ns[earliest] {
                earliest = core;
            }
        }
        let end_ns = self.core_free_ns[earliest].max(after.0).max(self.now_ns) + ns;
        self.core_free_ns[earliest] = end_ns;
        Done(end_ns)
    }

    #[inline]
    fn join(&mut self, a: Done, b: Done) -> Done {
        Done(a.0.max(b.0))
    }

    #[inline]
    fn settle(&mut self) -> Done {
        Done(self.programs_end_ns)
    }

    #[inline]
    fn now(&self) -> u64 {
        self.now_ns
    }

    #[inline]
    fn arrival(&self) -> Done {
        Done(self.now_ns)
    }

    #[inline(never)]
    fn watch(&mut self, done: Done, tag: u32) {
        self.report(done.0, tag);
    }

    #[inline(never)]
    fn alarm(&mut self, at_ns: u64, tag: u32) {
        self.report(at_ns, tag);
    }

    #[inline(never)]
    fn next(&mut self) -> Option<(u32, u64)> {
        let report = self.reports.pop()?;
        // After a drain a report may be overdue.
        self.now_ns = self.now_ns.max((report >> 64) as u64);
        Some((report as u32, self.now_ns))
    }

    fn drain(&mut self) {
        let dies_end_ns = self.dies.iter().map(|die| die.free_ns).max().unwrap_or(0);
        let cores_end_ns = self.core_free_ns.iter().copied().max().unwrap_or(0);
        self.now_ns = self.now_ns.max(dies_end_ns).max(cores_end_ns);
    }

    fn die_use(&self) -> Vec<DieUse> {
        self.dies.iter().map(|die| die.use_until(self.now_ns)).collect()
    }
}
