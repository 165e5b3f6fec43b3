//! A random host, which knows what every page must hold.

use crate::dice::Dice;
use crate::oracle::{name, History, State};
use crate::world::{unboxed, Array, World};
use ftl::{Config, Device, HostError, HostOp, Scheme, Seen};
use nand::{Done, Fault, Lpn, OpCounts};

/// What a host does, chosen anew by each seed: a mix without some feature finds what the full mix hides.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    /// Weights of read, write, trim, flush and idle.
    weights: [u32; 5],
    /// Longest read and write.
    longest: u32,
    /// Longest trim.
    longest_trim: u32,
    /// Once in so many trims, a trim of up to half the device.
    huge_trim: u32,
    /// Four fifths of the requests go to one part in so many of the pages; 1 = uniform.
    skew: u32,
    /// Once in so many requests, the next one follows on the last.
    sequential: u32,
    /// Requests in flight.
    depth: u32,
}

impl Habits {
    /// Habits of their own for each stream of dice.
    pub fn random(dice: &mut Dice) -> Habits {
        let mut some = |weight: u32| if dice.once_in(4) { 0 } else { weight };
        let weights = [some(20), 60, some(6), some(5), some(3)];
        Habits {
            weights,
            longest: [1, 4, 16][dice.below(3) as usize],
            longest_trim: [2, 6, 40][dice.below(3) as usize],
            huge_trim: [10, 30, u32::MAX][dice.below(3) as usize],
            skew: [1, 5, 10][dice.below(3) as usize],
            sequential: [2, 5, u32::MAX][dice.below(3) as usize],
            depth: dice.between(1, 8),
        }
    }

    /// Everything at once.
    pub fn all() -> Habits {
        Habits {
            weights: [20, 60, 6, 5, 3],
            longest: 8,
            longest_trim: 12,
            huge_trim: 40,
            skew: 5,
            sequential: 5,
            depth: 4,
        }
    }

    /// Writes alone.
    pub fn writes() -> Habits {
        Habits { weights: [0, 1, 0, 0, 0], ..Habits::all() }
    }
}

/// What the host did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub reads: u64,
    pub writes: u64,
    pub trims: u64,
    pub unreadable: u64,
}

/// A host and what it knows.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    /// By LPN: what a read must deliver now.
    pub states: Vec<State>,
    /// By LPN: what may be found after a cut; kept in a world with a clock.
    pub history: Option<History>,
    pub habits: Habits,
    pub dice: Dice,
    /// Whether a page may be unreadable: never with other content, only with none.
    pub tolerant: bool,
    /// Bad blocks of the array when it was new, if the device may come to its end. A request that finds no
    /// space when more are bad is no finding then, but sets `worn`.
    pub mortal: Option<u32>,
    pub worn: bool,
    pub tally: Tally,
    in_flight: Vec<Done>,
    last_end: u32,
    written: Vec<(Lpn, u64)>,
}

impl Host {
    /// A host that knows the pages to hold `states`.
    pub fn new(states: Vec<State>, habits: Habits, dice: Dice) -> Host {
        Host {
            states,
            history: None,
            habits,
            dice,
            tolerant: false,
            mortal: None,
            worn: false,
            tally: Tally::default(),
            in_flight: Vec::new(),
            last_end: 0,
            written: Vec::new(),
        }
    }

    /// Makes one random request.
    pub fn step<S: Scheme>(&mut self, session: &mut Session<S>) -> Result<(), String> {
        self.wait(session);
        let all: u32 = self.habits.weights.iter().sum();
        let mut throw = self.dice.below(all);
        let mut kind = 0;
        while throw >= self.habits.weights[kind] {
            throw -= self.habits.weights[kind];
            kind += 1;
        }
        let (first, pages) = self.range(kind == 2);
        match kind {
            0 => self.read(session, first, pages),
            1 => self.write(session, first, pages),
            2 => self.trim(session, first, pages),
            3 => self.flush(session),
            _ => self.idle(session),
        }
    }

    /// Where the next request goes.
    fn range(&mut self, trim: bool) -> (Lpn, u32) {
        let exported = self.states.len() as u32;
        let longest = if !trim {
            self.habits.longest
        } else if self.dice.once_in(self.habits.huge_trim) {
            (exported / 2).max(1)
        } else {
            self.habits.longest_trim
        };
        let hot = self.habits.skew > 1 && !self.dice.once_in(5);
        let first = if self.dice.once_in(self.habits.sequential) && self.last_end < exported {
            self.last_end
        } else if hot {
            // The hot part lies in the middle, spread over several translation pages.
            let part = exported.div_ceil(self.habits.skew);
            (exported / 3 + self.dice.below(part)) % exported
        } else {
            self.dice.below(exported)
        };
        let pages = self.dice.between(1, longest).min(exported - first);
        self.last_end = first + pages;
        (Lpn(first), pages)
    }

    /// Waits until there is room for one more request in flight; now and then, until there is none in flight.
    fn wait<S: Scheme>(&mut self, session: &mut Session<S>) {
        let nand = session.device.nand_mut();
        let room = if self.dice.once_in(16) { 1 } else { self.habits.depth as usize };
        while self.in_flight.len() >= room {
            let first = (0..self.in_flight.len()).min_by_key(|&index| nand.time(self.in_flight[index]));
            let Some(first) = first else { break };
            nand.advance(self.in_flight.swap_remove(first));
        }
    }

    /// Waits until nothing is in flight.
    pub fn wait_for_all<S: Scheme>(&mut self, session: &mut Session<S>) {
        for done in self.in_flight.drain(..) {
            session.device.nand_mut().advance(done);
        }
    }

    pub fn read<S: Scheme>(
        &mut self,
        session: &mut Session<S>,
        first: Lpn,
        pages: u32,
    ) -> Result<(), String> {
        let at = session.device.nand().arrival();
        let (states, tolerant, mut unreadable, mut wrong) = (&self.states, self.tolerant, 0, None);
        let outcome = session.device.request(HostOp::Read, first, pages, at, &mut |lpn, seen| {
            let state = states[lpn.0 as usize];
            match seen {
                Seen::Read(oob) if oob.map(|oob| oob.version) == state => {}
                Seen::Failed if tolerant && state.is_some() => unreadable += 1,
                seen => {
                    wrong.get_or_insert_with(|| {
                        format!("LPN {} reads as {seen:?}, not {}", lpn.0, name(state))
                    });
                }
            }
        });
        let outcome = outcome.map_err(|error| format!("read of {pages} pages from {}: {error}", first.0))?;
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        if u64::from(outcome.failed) != unreadable {
            return Err(format!("{} pages failed but {unreadable} were reported", outcome.failed));
        }
        self.tally.reads += u64::from(pages);
        self.tally.unreadable += unreadable;
        self.in_flight.push(outcome.done);
        Ok(())
    }

    pub fn write<S: Scheme>(
        &mut self,
        session: &mut Session<S>,
        first: Lpn,
        pages: u32,
    ) -> Result<(), String> {
        let (at, issued) = (session.device.nand().arrival(), session.device.nand().now());
        let (states, written, mut wrong) = (&self.states, &mut self.written, None);
        written.clear();
        let mut last = 0;
        let outcome = session.device.request(HostOp::Write, first, pages, at, &mut |lpn, seen| match seen {
            Seen::Written(version) if version > last && Some(version) > states[lpn.0 as usize] => {
                last = version;
                written.push((lpn, version));
            }
            seen => {
                let state = name(states[lpn.0 as usize]);
                wrong.get_or_insert_with(|| format!("write of LPN {} over {state} gave {seen:?}", lpn.0));
            }
        });
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(HostError::Fault(fault)) if self.is_end(session, fault) => {
                return self.refused(session, first, pages, issued);
            }
            Err(error) => return Err(format!("write of {pages} pages from {}: {error}", first.0)),
        };
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let done = session.device.nand().time(outcome.done);
        for &(lpn, version) in &self.written {
            self.states[lpn.0 as usize] = Some(version);
            match &mut self.history {
                Some(history) if S::BUFFERS_WRITES => history.buffered(lpn, version, issued, done),
                Some(history) => history.wrote(lpn, version, issued, done),
                None => {}
            }
        }
        self.tally.writes += u64::from(pages);
        self.in_flight.push(outcome.done);
        Ok(())
    }

    pub fn trim<S: Scheme>(
        &mut self,
        session: &mut Session<S>,
        first: Lpn,
        pages: u32,
    ) -> Result<(), String> {
        let (at, issued) = (session.device.nand().arrival(), session.device.nand().now());
        let done = match session.plain(HostOp::Trim, first, pages, at) {
            Ok(done) => done,
            Err((Some(HostError::Fault(fault)), _)) if self.is_end(session, fault) => {
                return self.refused(session, first, pages, issued);
            }
            Err((_, what)) => return Err(what),
        };
        for lpn in first.0..first.0 + pages {
            self.states[lpn as usize] = None;
            if let Some(history) = &mut self.history {
                history.trimmed(Lpn(lpn), issued, session.device.nand().time(done));
            }
        }
        self.tally.trims += u64::from(pages);
        self.in_flight.push(done);
        Ok(())
    }

    pub fn flush<S: Scheme>(&mut self, session: &mut Session<S>) -> Result<(), String> {
        let (at, issued) = (session.device.nand().arrival(), session.device.nand().now());
        let done = match session.plain(HostOp::Flush, Lpn(0), 0, at) {
            Ok(done) => done,
            Err((Some(HostError::Fault(fault)), _)) if self.is_end(session, fault) => {
                self.worn = true;
                return Ok(());
            }
            Err((_, what)) => return Err(what),
        };
        if let Some(history) = &mut self.history {
            history.flushed(issued, session.device.nand().time(done));
        }
        self.in_flight.push(done);
        Ok(())
    }

    fn idle<S: Scheme>(&mut self, session: &mut Session<S>) -> Result<(), String> {
        self.wait_for_all(session);
        let rewrite = S::REWRITES && self.dice.once_in(3);
        // At times less than a superblock, at times several.
        let due = if rewrite { 1 << self.dice.between(0, 12) } else { 0 };
        for _ in 0..self.dice.between(1, 6) {
            let device = &mut session.device;
            let work = if rewrite { device.rewrite(due) } else { device.idle() };
            let busy = work.map_err(|fault| format!("idle: {fault}"))?;
            let Some(done) = busy else { break };
            if !self.dice.once_in(3) {
                device.nand_mut().advance(done);
            }
        }
        Ok(())
    }

    /// Whether `fault` says that the device is at its end, and may be: blocks have failed since it was new.
    fn is_end<S: Scheme>(&self, session: &Session<S>, fault: Fault) -> bool {
        let is_worn = |born_bad| session.device.nand().bad_blocks() > born_bad;
        matches!(fault, Fault::WornOut { .. }) && self.mortal.is_some_and(is_worn)
    }

    /// A write or trim found no space. Each of its pages is as before, or as it should have become.
    fn refused<S: Scheme>(
        &mut self,
        session: &mut Session<S>,
        first: Lpn,
        pages: u32,
        issued: u64,
    ) -> Result<(), String> {
        self.worn = true;
        let (at, now) = (session.device.nand().arrival(), session.device.nand().now());
        let mut found = Vec::new();
        let read = session.device.request(HostOp::Read, first, pages, at, &mut |lpn, seen| match seen {
            Seen::Read(oob) => found.push((lpn, Some(oob.map(|oob| oob.version)))),
            _ => found.push((lpn, None)),
        });
        read.map_err(|error| format!("read of {pages} pages from {} that were refused: {error}", first.0))?;
        for (lpn, state) in found {
            let before = self.states[lpn.0 as usize];
            match state {
                Some(state) if state == before => {}
                Some(None) => {
                    self.states[lpn.0 as usize] = None;
                    if let Some(history) = &mut self.history {
                        history.trimmed(lpn, issued, now);
                    }
                }
                Some(Some(version)) if Some(version) > before => {
                    self.states[lpn.0 as usize] = Some(version);
                    if let Some(history) = &mut self.history {
                        history.buffered(lpn, version, issued, now);
                    }
                }
                None if self.tolerant => {}
                state => {
                    let before = name(before);
                    return Err(format!("LPN {} held {before} and is {state:?} after a refusal", lpn.0));
                }
            }
        }
        Ok(())
    }

    /// Reads every page.
    pub fn read_all<S: Scheme>(&mut self, session: &mut Session<S>) -> Result<(), String> {
        let exported = self.states.len() as u32;
        let mut first = 0;
        while first < exported {
            let pages = (exported - first).min(32);
            self.read(session, Lpn(first), pages)?;
            self.wait_for_all(session);
            first += pages;
        }
        Ok(())
    }

    /// Switches the device off in good order and on again.
    pub fn power_cycle<S: Scheme>(
        &mut self,
        mut session: Session<S>,
        config: &Config,
    ) -> Result<Session<S>, String> {
        self.wait_for_all(&mut session);
        let issued = session.device.nand().now();
        let done = match session.device.power_off() {
            Ok(done) => done,
            Err(fault) if self.is_end(&session, fault) => {
                self.worn = true;
                return Ok(session);
            }
            Err(fault) => return Err(format!("power off: {fault}")),
        };
        session.device.nand_mut().advance(done);
        if let Some(history) = &mut self.history {
            history.flushed(issued, session.device.nand().time(done));
        }
        let mut nand = session.device.into_nand();
        nand.drain();
        let mut session = Session::open_boxed(nand, config)?;
        session.device.nand_mut().drain();
        Ok(session)
    }
}

/// A device in operation.
pub(crate) struct Session<S> {
    pub device: Device<S, Array>,
    /// What the array had counted before the device was opened.
    before: OpCounts,
}

impl<S: Scheme> Session<S> {
    /// Opens the scheme on an array.
    pub fn open<W: World>(nand: W, config: &Config) -> Result<Session<S>, String> {
        Session::open_boxed(Box::new(nand), config)
    }

    /// The array, which must be a `W`.
    pub fn into_nand<W: World>(self) -> W {
        unboxed(self.device.into_nand())
    }

    /// Opens the device again, as after a power cut.
    pub fn reopen(self, config: &Config) -> Result<Session<S>, String> {
        Session::open_boxed(self.device.into_nand(), config)
    }

    fn open_boxed(nand: Array, config: &Config) -> Result<Session<S>, String> {
        let before = nand.counts();
        let device = Device::open(nand, config).map_err(|error| format!("open: {error}"))?;
        Ok(Session { device, before })
    }

    /// Compares the door's counters with the array's.
    pub fn audit(&self) -> Result<(), String> {
        let counters = self.device.counters();
        let array = self.device.nand().counts().since(&self.before);
        let door = [counters.all_reads(), counters.all_programs(), counters.all_erases()];
        let counted = [array.total_reads(), array.total_programs(), array.total_erases()];
        if door != counted {
            return Err(format!("the door counted reads, programs, erases {door:?}, the array {counted:?}"));
        }
        let by_reads: u64 = counters.host_reads_by_flash_reads.iter().sum();
        if by_reads != counters.host_reads {
            return Err(format!(
                "{by_reads} host reads by flash reads, but {} host reads",
                counters.host_reads
            ));
        }
        let least: u64 = (0..).zip(counters.host_reads_by_flash_reads).map(|(n, reads)| n * reads).sum();
        if counters.flash_reads_waited_for < least {
            return Err(format!(
                "host reads waited for {} flash reads, but for {least} at least by their shares",
                counters.flash_reads_waited_for
            ));
        }
        if counters.replaced_dirty > counters.replaced {
            return Err(format!(
                "{} dirty entries replaced, but {} entries",
                counters.replaced_dirty, counters.replaced
            ));
        }
        Ok(())
    }

    /// The scheme's own checks.
    pub fn check(&self) -> Result<(), String> {
        self.device.check().map_err(|breach| format!("the scheme's own check: {breach}"))
    }

    /// What every page reads as. A page that cannot be read is an error.
    pub fn contents(&mut self, states: &mut Vec<State>) -> Result<(), String> {
        states.clear();
        let exported = self.device.exported_pages();
        let mut unreadable = None;
        let mut first = 0;
        while first < exported {
            let pages = (exported - first).min(32);
            let all = self.device.request(HostOp::Read, Lpn(first), pages, Done::READY, &mut |lpn, seen| {
                if let Seen::Read(oob) = seen {
                    states.push(oob.map(|oob| oob.version));
                } else {
                    unreadable = unreadable.or(Some(lpn));
                }
            });
            all.map_err(|error| format!("read of {pages} pages from {first}: {error}"))?;
            first += pages;
        }
        match unreadable {
            Some(lpn) => Err(format!("LPN {} cannot be read", lpn.0)),
            None => Ok(()),
        }
    }

    fn plain(
        &mut self,
        op: HostOp,
        first: Lpn,
        pages: u32,
        at: Done,
    ) -> Result<Done, (Option<HostError>, String)> {
        let outcome = self.device.request(op, first, pages, at, &mut |_, _| {});
        match outcome {
            Ok(outcome) if outcome.failed == 0 => Ok(outcome.done),
            Ok(_) => Err((None, format!("{op:?} of {pages} pages from {} failed", first.0))),
            Err(error) => {
                let what = format!("{op:?} of {pages} pages from {}: {error}", first.0);
                Err((Some(error), what))
            }
        }
    }
}
