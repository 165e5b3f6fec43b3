//! The crash checker's array: it keeps a log of every program and erase with its start and its end, and makes from it
//! the array as a power cut at any moment would have left it. `docs/crash-model.md` says what a cut is.
//!
//! A token's value is a time here, in ticks. Latencies are random, so that each seed interleaves the same commands in
//! another way; a die serves what is ready, so that an operation overtakes those that still wait for something.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::timing::NoClock;
use crate::{Class, Done, Fault, Geometry, Nand, Oob, PageKind, Pbn, Ppn, SimNand, Sink, Source};

/// Ticks of the shortest read. All times are even, so that there is a moment between any two of them.
const UNIT: u64 = 16;
/// Longest operations, in units.
const READ_UNITS: u64 = 3;
const PROGRAM_UNITS: u64 = 15;
const ERASE_UNITS: (u64, u64) = (5, 30);
/// One operation in so many is held back, by up to as long as a few programs.
const HOLD_BACK: u64 = 8;

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

/// When operations happen: each die serves one at a time, with random latencies.
#[derive(Clone, Debug)]
struct Clock {
    now: u64,
    /// By die: what it is busy with after `now`, as (start, end), in order.
    busy: Vec<Vec<(u64, u64)>>,
    /// By PBN: when all programs (and the erase before them) are over.
    written: Vec<u64>,
    /// By PBN: when everything is over.
    touched: Vec<u64>,
    /// By PPN: when the program of the page is over.
    programmed: Vec<u64>,
    /// When all programs are over.
    settled: u64,
    /// When everything is over.
    quiet: u64,
    random: Xoshiro256PlusPlus,
}

impl Clock {
    fn new(geometry: &Geometry, seed: u64) -> Clock {
        Clock {
            now: 0,
            busy: vec![Vec::new(); geometry.dies() as usize],
            written: vec![0; geometry.blocks() as usize],
            touched: vec![0; geometry.blocks() as usize],
            programmed: vec![0; geometry.pages() as usize],
            settled: 0,
            quiet: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    fn restart(&mut self, seed: u64) {
        self.now = 0;
        self.busy.iter_mut().for_each(Vec::clear);
        for times in [&mut self.written, &mut self.touched, &mut self.programmed] {
            times.fill(0);
        }
        (self.settled, self.quiet) = (0, 0);
        self.random = Xoshiro256PlusPlus::seed_from_u64(seed);
    }

    /// A random even number of ticks from `least` to `most` units.
    fn ticks(&mut self, least: u64, most: u64) -> u64 {
        let steps = (most - least) * UNIT / 2 + 1;
        least * UNIT + 2 * below(&mut self.random, steps)
    }

    /// Puts an operation of `ticks` into the first gap of its die that takes it from `earliest` on.
    fn serve(&mut self, die: u32, earliest: u64, ticks: u64) -> (u64, u64) {
        let mut start = earliest.max(self.now);
        if below(&mut self.random, HOLD_BACK) == 0 {
            start += self.ticks(0, 4 * PROGRAM_UNITS);
        }
        let now = self.now;
        let line = &mut self.busy[die as usize];
        line.retain(|&(_, end)| end > now);
        let mut place = line.len();
        for (index, &(from, to)) in line.iter().enumerate() {
            if start + ticks <= from {
                place = index;
                break;
            }
            start = start.max(to);
        }
        line.insert(place, (start, start + ticks));
        self.quiet = self.quiet.max(start + ticks);
        (start, start + ticks)
    }

    fn read(&mut self, die: u32, block: Pbn, ppn: Ppn, after: Done) -> Done {
        let earliest = after.0.max(self.programmed[ppn.0 as usize]);
        let ticks = self.ticks(1, READ_UNITS);
        let (_, done) = self.serve(die, earliest, ticks);
        let touched = &mut self.touched[block.0 as usize];
        *touched = done.max(*touched);
        Done(done)
    }

    fn program(&mut self, die: u32, block: Pbn, ppn: Ppn, after: Done) -> (u64, u64) {
        let earliest = after.0.max(self.written[block.0 as usize]);
        let ticks = self.ticks(1, PROGRAM_UNITS);
        let (start, done) = self.serve(die, earliest, ticks);
        self.programmed[ppn.0 as usize] = done;
        self.written[block.0 as usize] = done;
        let touched = &mut self.touched[block.0 as usize];
        *touched = done.max(*touched);
        self.settled = self.settled.max(done);
        (start, done)
    }

    fn erase(&mut self, die: u32, block: Pbn, after: Done) -> (u64, u64) {
        let earliest = after.0.max(self.touched[block.0 as usize]);
        let ticks = self.ticks(ERASE_UNITS.0, ERASE_UNITS.1);
        let (start, done) = self.serve(die, earliest, ticks);
        self.written[block.0 as usize] = done;
        self.touched[block.0 as usize] = done;
        (start, done)
    }
}

/// A small array whose power can be cut at any moment of the past.
///
/// Operations take effect on the logical state in the order of the calls, as the contract says; the log keeps when
/// they would have happened. [`CrashNand::log`] gives the images.
///
/// The caller moves the clock ([`CrashNand::advance`]); no operation starts in the past.
#[derive(Clone, Debug)]
pub struct CrashNand {
    array: SimNand<NoClock>,
    initial: SimNand<NoClock>,
    clock: Clock,
    entries: Vec<Entry>,
    contents: Vec<u8>,
    scratch: Vec<u8>,
    programmed: [u64; 3],
    erased: [u64; 3],
}

impl CrashNand {
    /// Wraps an array, which should keep stale metadata (`SimOptions::keep_stale`): after a cut it is needed again.
    /// `seed` chooses the latencies.
    pub fn new(array: SimNand<NoClock>, seed: u64) -> CrashNand {
        let clock = Clock::new(array.geometry(), seed);
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

    /// The present, ticks.
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

    /// Lets time pass until nothing is in flight.
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

    /// What happened so far, to be cut.
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
        Fault::Medium => Fault::Medium,
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

    /// The mark is made in no time, at some moment after everything in the block is over and before everything submitted
    /// so far is.
    fn retire(&mut self, block: Pbn) {
        self.array.retire(block);
        let earliest = self.clock.now.max(self.clock.touched[block.0 as usize]);
        let span = self.clock.quiet.saturating_sub(earliest);
        let done = earliest + 2 * below(&mut self.clock.random, span / 2 + 1);
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
        let ticks = self.clock.ticks(0, READ_UNITS);
        Done(after.0.max(self.clock.now) + ticks)
    }

    fn inspect(&self, ppn: Ppn, content: &mut Vec<u8>) -> Option<Oob> {
        self.array.inspect(ppn, content)
    }

    /// The image of a cut has the spare bytes, and an empty buffer.
    fn reserve(&mut self, slots: u32, spare: u32) -> bool {
        self.array.reserve(slots, spare) && self.initial.reserve(slots, spare)
    }

    fn hold(&mut self, slot: u32, oob: Oob) {
        self.array.hold(slot, oob);
    }

    fn held(&mut self, slot: u32) -> Oob {
        self.array.held(slot)
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

/// What one cut did to the operations that were in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Programs that left a torn page.
    pub torn_pages: u32,
    /// Erases that left a torn block.
    pub torn_blocks: u32,
    /// Operations that happened completely, though nobody heard of it.
    pub completed: u32,
    /// Operations that left no trace.
    pub dropped: u32,
}

/// The log of a [`CrashNand`], arranged for cutting.
#[derive(Clone, Debug)]
pub struct Log<'a> {
    nand: &'a CrashNand,
    /// Entries in order of completion; of those of one time, in order of submission.
    by_done: Vec<u32>,
    /// By die: its programs and erases in order of time.
    by_die: Vec<Vec<u32>>,
    /// Every time at which something starts or ends, in order.
    times: Vec<u64>,
}

impl<'a> Log<'a> {
    fn new(nand: &'a CrashNand) -> Log<'a> {
        let entries = &nand.entries;
        let mut by_done: Vec<u32> = (0..entries.len() as u32).collect();
        by_done.sort_by_key(|&index| entries[index as usize].done);
        let mut by_die = vec![Vec::new(); nand.array.geometry().dies() as usize];
        for &index in &by_done {
            let entry = &entries[index as usize];
            if !matches!(entry.what, What::Retire { .. }) {
                by_die[entry.die as usize].push(index);
            }
        }
        let mut times: Vec<u64> = entries.iter().flat_map(|entry| [entry.start, entry.done]).collect();
        times.sort_unstable();
        times.dedup();
        Log { nand, by_done, by_die, times }
    }

    /// Moments that differ in what has happened or is in flight: each start and end, and one moment between each two
    /// that follow one another.
    pub fn points(&self) -> u64 {
        (2 * self.times.len() as u64).saturating_sub(1)
    }

    /// The time of point `point`, which is less than [`Log::points`].
    pub fn time_of(&self, point: u64) -> u64 {
        let index = (point / 2) as usize;
        self.times[index] + point % 2
    }

    /// Programs and erases in the log.
    pub fn operations(&self) -> u64 {
        self.by_done.len() as u64
    }

    /// Starts cutting. Ascending cuts cost one copy of the array each.
    pub fn cutter(&self) -> Cutter<'_> {
        Cutter {
            log: self,
            base: self.nand.initial.clone(),
            applied: 0,
            of_die: vec![0; self.by_die.len()],
            at: 0,
        }
    }

    fn entry(&self, index: u32) -> &Entry {
        &self.nand.entries[index as usize]
    }

    /// Carries one entry out on `image`.
    fn apply(&self, image: &mut SimNand<NoClock>, what: What) {
        // A failure is a property of the place: it meets the image as it met the original.
        match what {
            What::Program { ppn, oob, content, bytes } => {
                let bytes = &self.nand.contents[content as usize..][..bytes as usize];
                if oob.kind == PageKind::Data && !bytes.is_empty() {
                    image.attach(bytes);
                }
                let from = match oob.kind {
                    _ if oob.lost => Source::Nothing,
                    PageKind::Data => Source::Host,
                    PageKind::Translation | PageKind::Metadata => Source::Metadata(bytes),
                };
                let _ = image.program(ppn, oob, Class::HostWrite, from, Done::READY);
            }
            What::Erase { block } => {
                let _ = image.erase(block, Done::READY);
            }
            What::Retire { block } => image.retire(block),
        }
    }
}

/// Makes images from a [`Log`].
#[derive(Clone, Debug)]
pub struct Cutter<'a> {
    log: &'a Log<'a>,
    /// The array with the first `applied` entries by completion, those done at `at` or before.
    base: SimNand<NoClock>,
    applied: usize,
    /// By die: its first entry that is not done at `at`.
    of_die: Vec<usize>,
    at: u64,
}

impl Cutter<'_> {
    /// Makes `image` the array as a cut at `at` leaves it: what was done at `at` or before has happened; of what was in
    /// flight (at most one operation a die) each has happened, has not, or is torn, as `dice` decides; nothing else has.
    ///
    /// Every such choice is closed under dependencies: an operation starts only when all it waits for is done.
    pub fn cut(&mut self, at: u64, dice: u64, image: &mut SimNand<NoClock>) -> Cut {
        self.advance(at);
        image.clone_from(&self.base);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(dice);
        let mut cut = Cut::default();
        for (die, &first) in self.of_die.iter().enumerate() {
            let Some(&index) = self.log.by_die[die].get(first) else { continue };
            let entry = self.log.entry(index);
            if entry.start >= at {
                continue;
            }
            match (below(&mut random, 3), entry.what) {
                (0, _) => cut.dropped += 1,
                (1, what) => {
                    self.log.apply(image, what);
                    cut.completed += 1;
                }
                (_, What::Program { ppn, .. }) => {
                    image.torn(ppn);
                    cut.torn_pages += 1;
                }
                (_, What::Erase { block }) => {
                    image.torn_block(block);
                    cut.torn_blocks += 1;
                }
                (_, What::Retire { .. }) => {}
            }
        }
        cut
    }

    fn advance(&mut self, at: u64) {
        if at < self.at {
            self.base.clone_from(&self.log.nand.initial);
            self.applied = 0;
            self.of_die.fill(0);
        }
        self.at = at;
        while let Some(&index) = self.log.by_done.get(self.applied) {
            let entry = self.log.entry(index);
            if entry.done > at {
                break;
            }
            self.log.apply(&mut self.base, entry.what);
            self.applied += 1;
            if !matches!(entry.what, What::Retire { .. }) {
                self.of_die[entry.die as usize] += 1;
            }
        }
    }
}

/// An integer below `bound`, which is at least 1.
fn below(random: &mut Xoshiro256PlusPlus, bound: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests;
