//! The crash checker's array: it keeps a log of every program and erase with its start and its end, and makes
//! from it the array as a power cut at any moment would have left it. `docs/crash-model.md` says what a cut
//! is.
//!
//! A token's value is a time here, in ticks. Latencies are random, so that each seed interleaves the same
//! commands in another way; a die serves what is ready, so that an operation overtakes those that still wait
//! for something.

mod clock;
mod log;

use crate::timing::NoClock;
use crate::{
    Class, DataBuffer, Done, Fault, Geometry, Nand, Oob, PageKind, Pbn, Ppn, SimNand, Sink, Source,
    SpareBytes, SpareRefused,
};

use clock::RandomClock;

pub use log::{Cut, Cutter, Log};

/// What was done to the array.
#[derive(Clone, Copy, Debug)]
enum What {
    /// A page was programmed; its content (of a data page: its spare bytes) begins at this byte of
    /// [`CrashNand::contents`].
    Program { ppn: Ppn, oob: Oob, content: u32, bytes: u32 },
    /// A block was erased.
    Erase { block: Pbn },
    /// A block was marked bad.
    Retire { block: Pbn },
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    done: u64,
    die: u32,
    what: What,
}

/// A small array whose power can be cut at any moment of the past.
///
/// Operations take effect on the logical state in the order of the calls, as the contract says; the log keeps
/// when they would have happened. [`CrashNand::log`] gives the images.
///
/// The caller moves the clock ([`CrashNand::advance`]); no operation starts in the past.
#[derive(Clone, Debug)]
pub struct CrashNand {
    array: SimNand<NoClock>,
    initial: SimNand<NoClock>,
    clock: RandomClock,
    entries: Vec<Entry>,
    contents: Vec<u8>,
    scratch: Vec<u8>,
    programmed: [u64; 3],
    erased: [u64; 3],
}

impl CrashNand {
    /// Wraps an array, which should keep stale metadata (`SimOptions::keep_stale`): after a cut it is needed
    /// again. `seed` chooses the latencies.
    pub fn new(array: SimNand<NoClock>, seed: u64) -> CrashNand {
        let clock = RandomClock::new(array.geometry(), seed);
        CrashNand {
            initial: array.clone(),
            array,
            clock,
            entries: Vec::new(),
            contents: Vec::new(),
            scratch: Vec::new(),
            programmed: [0; 3],
            erased: [0; 3],
        }
    }

    /// The same on another array of the same geometry, with an empty log; reuses every allocation.
    pub fn restart(&mut self, array: &SimNand<NoClock>, seed: u64) {
        assert!(array.geometry() == self.array.geometry(), "restart with another geometry");
        self.array.clone_from(array);
        self.initial.clone_from(array);
        self.clock.restart(seed);
        self.entries.clear();
        self.contents.clear();
        (self.programmed, self.erased) = ([0; 3], [0; 3]);
    }

    /// The array as it is when everything has happened.
    pub fn array(&self) -> &SimNand<NoClock> {
        &self.array
    }

    /// The present, in ticks since the array was new or restarted.
    pub fn now(&self) -> u64 {
        self.clock.now
    }

    /// A token for the present: what a request that arrives now waits for.
    pub fn arrival(&self) -> Done {
        Done(self.clock.now)
    }

    /// When `done` is reached, ticks. For the checker; an FTL has no use for it.
    pub fn time(&self, done: Done) -> u64 {
        done.0
    }

    /// Lets time pass until `done` is reached.
    pub fn advance(&mut self, done: Done) {
        self.clock.now = self.clock.now.max(done.0);
    }

    /// Lets time pass until nothing is in flight: a cut now loses nothing.
    pub fn drain(&mut self) {
        self.clock.now = self.clock.now.max(self.clock.quiet);
    }

    /// Pages of `kind` programmed so far.
    pub fn programmed(&self, kind: PageKind) -> u64 {
        self.programmed[kind as usize]
    }

    /// Blocks erased so far whose pages were of `kind`.
    pub fn erased(&self, kind: PageKind) -> u64 {
        self.erased[kind as usize]
    }

    /// What happened so far, arranged for cutting; the array goes on afterwards.
    pub fn log(&self) -> Log<'_> {
        Log::new(self)
    }

    fn die(&self, block: Pbn) -> u32 {
        let geometry = self.array.geometry();
        geometry.die_of_unit(geometry.unit_of(block))
    }

    /// The clock's answer to a read of `ppn`.
    fn timed_read(&mut self, ppn: Ppn, after: Done) -> Done {
        let (block, _) = self.array.geometry().block_of(ppn);
        self.clock.read(self.die(block), block, ppn, after)
    }

    fn kind_of(&self, block: Pbn) -> Option<PageKind> {
        let geometry = self.array.geometry();
        let pages = self.array.written(block);
        (0..pages).find_map(|page| self.array.peek(geometry.page_in(block, page))).map(|oob| oob.kind)
    }
}

/// `fault` with the completion that this clock gave the operation.
fn at(fault: Fault, done: Done) -> Fault {
    match fault {
        Fault::Uncorrectable { ppn, .. } => Fault::Uncorrectable { ppn, done },
        Fault::ProgramFailed { ppn, .. } => Fault::ProgramFailed { ppn, done },
        Fault::EraseFailed { block, .. } => Fault::EraseFailed { block, done },
        Fault::NoSpace { .. } | Fault::WornOut { .. } | Fault::Medium => fault,
    }
}

impl Nand for CrashNand {
    fn geometry(&self) -> &Geometry {
        self.array.geometry()
    }

    fn is_bad(&self, block: Pbn) -> bool {
        self.array.is_bad(block)
    }

    fn read(&mut self, ppn: Ppn, class: Class, to: Sink, after: Done) -> Result<(Oob, Done), Fault> {
        let result = self.array.read(ppn, class, to, after);
        let done = self.timed_read(ppn, after);
        result.map(|(oob, _)| (oob, done)).map_err(|fault| at(fault, done))
    }

    fn buffer(&self) -> &[u8] {
        self.array.buffer()
    }

    fn written(&self, block: Pbn) -> u32 {
        self.array.written(block)
    }

    fn scan(&mut self, ppn: Ppn, after: Done) -> Result<(Option<Oob>, Done), Fault> {
        let result = self.array.scan(ppn, after);
        let done = self.timed_read(ppn, after);
        result.map(|(oob, _)| (oob, done)).map_err(|fault| at(fault, done))
    }

    fn program(
        &mut self,
        ppn: Ppn,
        oob: Oob,
        class: Class,
        from: Source<'_>,
        after: Done,
    ) -> Result<Done, Fault> {
        let result = self.array.program(ppn, oob, class, from, after);
        let (block, _) = self.array.geometry().block_of(ppn);
        let die = self.die(block);
        let (start, done) = self.clock.program(die, block, ppn, after);
        let content = self.contents.len() as u32;
        if oob.kind != PageKind::Data && !oob.lost {
            // A failed page has no content; its entry has none either.
            self.array.inspect(ppn, &mut self.scratch);
            self.contents.extend_from_slice(&self.scratch);
        } else if result.is_ok() {
            self.contents.extend_from_slice(self.array.inspect_spare(ppn));
        }
        let bytes = self.contents.len() as u32 - content;
        self.programmed[oob.kind as usize] += 1;
        self.entries.push(Entry { start, done, die, what: What::Program { ppn, oob, content, bytes } });
        result.map(|_| Done(done)).map_err(|fault| at(fault, Done(done)))
    }

    fn erase(&mut self, block: Pbn, after: Done) -> Result<Done, Fault> {
        if let Some(kind) = self.kind_of(block) {
            self.erased[kind as usize] += 1;
        }
        let result = self.array.erase(block, after);
        let die = self.die(block);
        let (start, done) = self.clock.erase(die, block, after);
        self.entries.push(Entry { start, done, die, what: What::Erase { block } });
        result.map(|_| Done(done)).map_err(|fault| at(fault, Done(done)))
    }

    /// The mark is made in no time, at a moment that the clock chooses.
    fn retire(&mut self, block: Pbn) {
        self.array.retire(block);
        let done = self.clock.retire(block);
        let die = self.die(block);
        self.entries.push(Entry { start: done, done, die, what: What::Retire { block } });
    }

    fn join(&mut self, a: Done, b: Done) -> Done {
        Done(a.0.max(b.0))
    }

    fn settle(&mut self) -> Done {
        Done(self.clock.settled)
    }

    fn compute(&mut self, _ns: u64, after: Done) -> Done {
        self.clock.compute(after)
    }

    fn inspect(&self, ppn: Ppn, content: &mut Vec<u8>) -> Option<Oob> {
        self.array.inspect(ppn, content)
    }
}

/// The image of a cut has an empty buffer.
impl DataBuffer for CrashNand {
    fn reserve_slots(&mut self, slots: u32) {
        self.array.reserve_slots(slots);
        self.initial.reserve_slots(slots);
    }

    fn store(&mut self, slot: u32, oob: Oob) {
        self.array.store(slot, oob);
    }

    fn deliver(&mut self, slot: u32) -> Oob {
        self.array.deliver(slot)
    }
}

/// The image of a cut has the spare bytes.
impl SpareBytes for CrashNand {
    fn reserve_spare(&mut self, bytes: u32) -> Result<(), SpareRefused> {
        self.array.reserve_spare(bytes)?;
        self.initial.reserve_spare(bytes)
    }

    fn attach(&mut self, spare: &[u8]) {
        self.array.attach(spare);
    }

    fn spare(&self) -> &[u8] {
        self.array.spare()
    }

    fn inspect_spare(&self, ppn: Ppn) -> &[u8] {
        self.array.inspect_spare(ppn)
    }
}

#[cfg(test)]
mod tests;
