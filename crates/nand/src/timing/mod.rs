//! When operations happen: three models behind one interface.
//!
//! - [`Queued`]: event-driven, a queue per die and per channel. The default.
//! - [`Reserved`]: the die is booked at submission, as FEMU does. For comparison.
//! - [`NoClock`]: nothing takes time. For warm-up and counting.
//!
//! [`AnyTiming`] is one of them, chosen at run time.
//!
//! The FTL sees only [`Done`] tokens. The host side of a simulation (closed or open loop) drives the clock by
//! [`Timing::watch`], [`Timing::alarm`] and [`Timing::next`].
//!
//! The same calls give the same times and the same order of reports: simultaneous events happen in the order
//! in which they were scheduled.

mod agenda;
mod any;
mod heap;
mod none;
mod programs;
mod queued;
mod reserved;
mod slots;
#[cfg(test)]
mod tests;

pub use any::AnyTiming;
pub use none::NoClock;
pub use queued::Queued;
pub use reserved::Reserved;

use crate::{Class, Done, Pbn};

/// What a die is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OpKind {
    /// Page read (array to register, then over the channel).
    Read = 0,
    /// Page program (over the channel, then register to array).
    Program = 1,
    /// Block erase.
    Erase = 2,
}

/// One flash operation, as a timing model sees it.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Read, program or erase.
    pub kind: OpKind,
    /// Queue of the die that it enters, and by which the policy ranks it.
    pub class: Class,
    /// Die that carries it out, `0..dies`.
    pub die: u32,
    /// Block that it reads, programs or erases.
    pub block: Pbn,
    /// Its page in the block; 0 for an erase.
    pub page: u32,
}

/// Who may overtake whom in a die's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// First come, first served.
    #[default]
    Fcfs,
    /// Host reads before everything else; the rest in one queue in order of arrival, so that programs keep
    /// their order.
    HostReadsFirst,
    /// As `HostReadsFirst`, and a host read also suspends a program or erase that works in the array. It
    /// resumes when no host read waits, with what remained and `suspend_ns` to go, before anything else
    /// begins; it may be suspended again.
    Suspend,
}

/// Durations and widths of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// Array read, ns, without the transfer.
    pub read_ns: u64,
    /// Array program, ns, without the transfer.
    pub program_ns: u64,
    /// Erase of one block, ns; erases transfer nothing.
    pub erase_ns: u64,
    /// Transfer of one page (with OOB) over its channel, ns; 0 when the channel is not modelled. A read
    /// transfers after the array, a program before it; both hold their die meanwhile. Channels serve in
    /// order of request.
    pub transfer_ns: u64,
    /// Time that suspending and resuming an operation adds to it, ns (policy `Suspend`).
    pub suspend_ns: u64,
    /// Controller cores that serve `compute`; at least one.
    pub controller_cores: u32,
}

/// Where the dies' time went since [`Timing::start`], ns, summed up to [`Timing::now`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DieUse {
    /// Time in array reads, ns.
    pub read_ns: u64,
    /// Time in array programs, ns.
    pub program_ns: u64,
    /// Time in erases, ns.
    pub erase_ns: u64,
    /// Held or stalled by its channel (transfer, or waiting for it with data in the register).
    pub channel_ns: u64,
    /// With nothing to do; kept on its own, not derived, so that busy + idle = elapsed is a check.
    pub idle_ns: u64,
}

/// A model of time.
///
/// The array calls `operate`, `compute`, `join` and `settle`; the host side calls the rest.
pub trait Timing {
    /// Sets the clock to 0 and the statistics to zero, and forgets all that was not reported. There must be
    /// nothing in flight ([`Timing::drain`] sees to that). `written` holds the number of programmed pages of
    /// each block, indexed by PBN.
    fn start(&mut self, written: &[u16]);

    /// Submits an operation that may begin once `after` is reached. Keeps the order inside a block that
    /// [`crate::Nand`] promises: a program waits until the programs before it in its block are queued (and,
    /// if the block was just erased, until the erase ended); a read waits for the program of its page; an
    /// erase waits for everything submitted to its block before. A read of a page that no program submitted
    /// before it fills (a scan) waits only for the erases before it.
    fn operate(&mut self, op: Operation, after: Done) -> Done;

    /// Work of `ns` on one of the controller's cores, first come first served. No work needs no core: it is
    /// done with `after`.
    fn compute(&mut self, ns: u64, after: Done) -> Done;

    /// The completion of both.
    fn join(&mut self, a: Done, b: Done) -> Done;

    /// The completion of every program submitted so far.
    fn settle(&mut self) -> Done;

    /// The present, ns since `start`.
    fn now(&self) -> u64;

    /// A token for the present: what a request that arrives now waits for.
    fn arrival(&self) -> Done;

    /// Asks [`Timing::next`] to report `tag` when `done` is reached (at once, before time moves, if it is in
    /// the past). Each call is answered by one report, whatever the tag.
    fn watch(&mut self, done: Done, tag: u32);

    /// Asks [`Timing::next`] to report `tag` at `at_ns` (at once if that is in the past).
    fn alarm(&mut self, at_ns: u64, tag: u32);

    /// Moves the clock to the next reported event and returns `(tag, now)`. `None` when nothing is left to
    /// report, with the clock where it was, even if operations that nobody watches are in flight.
    fn next(&mut self) -> Option<(u32, u64)>;

    /// Lets everything in flight finish and moves the clock to the end of it. What falls due meanwhile is
    /// reported by [`Timing::next`] afterwards, in its order but at the present; alarms that lie further
    /// ahead stay.
    fn drain(&mut self);

    /// The most operations, joins and watches that were ever pending at once, each of which takes 64 bytes;
    /// 0 where none is kept. A load that comes faster than the device can do lets them grow without end.
    fn most_pending(&self) -> usize {
        0
    }

    /// Where each die's time went, indexed by die; nowhere under [`NoClock`], which has no dies.
    fn die_use(&self) -> Vec<DieUse>;
}
