//! One run of one device, and its cuts.

use super::{SweepOptions, SweepReport};
use crate::dice::Dice;
use crate::host::{Habits, Host, Session};
use crate::oracle::{History, State};
use crate::shape::{Ills, Shape};
use crate::world::Cuttable;
use ftl::{schemes, Counters, Scheme, Stat};
use nand::timing::NoClock;
use nand::{CrashNand, Cut, Lpn, PageKind, SimNand};
use std::marker::PhantomData;

/// One cut in so many is followed by others during recovery and the work after it.
const NESTED: u32 = 8;
/// Cuts of one recovered device.
const NESTED_CUTS: u64 = 3;
/// Requests after a recovery.
const REQUESTS_AFTER: u32 = 12;

/// Streams of dice of one seed: one for each question, so that a single cut repeats what it was among all.
const SHAPE: u64 = 0;
const WORKLOAD: u64 = 1;
const LATENCIES: u64 = 2;
const CHOICE: u64 = 3;
const CUTS: u64 = 16;

/// Where something went wrong.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub cut: Option<u64>,
    pub no_such_cut: bool,
    pub phase: String,
    /// The device, if it was drawn from a swarm.
    pub device: Option<String>,
}

/// A phase of the work, for the report of a failure.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Preparing,
    Running,
    Recovering,
    Comparing,
    Working,
    Nested(u64, &'static str),
}

/// One run of `S` in the world `N`.
pub(super) struct Round<'a, S, N> {
    options: &'a SweepOptions,
    seed: u64,
    cut: Option<u64>,
    /// Whether the cut that was asked for is none of this run's.
    no_such_cut: bool,
    phase: Stage,
    device: Option<String>,
    /// Images, kept for their memory.
    spare: Vec<SimNand<NoClock>>,
    nested: Option<CrashNand>,
    found: Vec<State>,
    later: History,
    of: PhantomData<(S, N)>,
}

/// A cut of the running device: what was promised, and when it was cut.
#[derive(Clone, Copy)]
struct Moment<'a> {
    history: &'a History,
    time: u64,
}

impl Moment<'_> {
    fn judge(&self, found: &[State]) -> Result<(), String> {
        (0..)
            .map(Lpn)
            .zip(found)
            .try_for_each(|(lpn, &state)| self.history.judge(lpn, state, self.time))
            .map_err(|forbidden| forbidden.to_string())
    }
}

impl<'a, S: Scheme, N: Cuttable> Round<'a, S, N> {
    pub fn new(options: &'a SweepOptions, seed: u64) -> Round<'a, S, N> {
        Round {
            options,
            seed,
            cut: None,
            no_such_cut: false,
            phase: Stage::Preparing,
            device: None,
            spare: Vec::new(),
            nested: None,
            found: Vec::new(),
            later: History::default(),
            of: PhantomData,
        }
    }

    pub fn trouble(&self) -> Trouble {
        let phase = match self.phase {
            Stage::Preparing => "preparing the device".to_owned(),
            Stage::Running => "running, before any cut".to_owned(),
            Stage::Recovering => "recovering".to_owned(),
            Stage::Comparing => "comparing after recovery".to_owned(),
            Stage::Working => "working after recovery".to_owned(),
            Stage::Nested(point, what) => format!("{what} (second cut, {point})"),
        };
        Trouble { cut: self.cut, no_such_cut: self.no_such_cut, phase, device: self.device.clone() }
    }

    /// Runs the device and makes `wanted` cuts.
    pub fn run(
        &mut self,
        wanted: u64,
        report: &mut SweepReport,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), String> {
        let ills = Ills { wear: self.options.faults, decay: false };
        let mut dice = Dice::branch(self.seed, SHAPE);
        let parameters = &schemes::parameters(&self.options.scheme, &self.options.parameters);
        let shape = match self.options.swarm {
            true => Shape::swarm::<S>(&mut dice, ills, parameters)?,
            false => Shape::random::<S>(&mut dice, ills, parameters)?,
        };
        self.device = self.options.swarm.then(|| shape.in_words());
        let (array, states) = self.prepare(&shape, &mut dice)?;
        self.phase = Stage::Running;
        let (nand, history) = self.live(&shape, array, states, report)?;
        let log = nand.log();
        let points = log.points();
        if points == 0 {
            return Ok(());
        }
        let mut cutter = log.cutter();
        let mut image = shape.array();
        let mut choice = Dice::branch(self.seed, CHOICE);
        let wanted = wanted.min(points);
        for turn in 0..wanted {
            let (from, to) = (points * turn / wanted, points * (turn + 1) / wanted);
            let point = self.options.only_cut.unwrap_or_else(|| from + choice.any() % (to - from));
            if point >= points {
                self.no_such_cut = true;
                return Err(format!("the run of seed {} has cuts 0 to {} only", self.seed, points - 1));
            }
            self.cut = Some(point);
            let time = log.time_of(point);
            let mut dice = Dice::branch(self.seed, CUTS + point);
            count(report, cutter.cut(time, dice.any(), &mut image));
            report.cuts += 1;
            image = self.survive(&shape, Moment { history: &history, time }, image, &mut dice, report)?;
            progress(turn + 1);
        }
        Ok(())
    }

    /// A device in use: fresh, or filled and overwritten, and then switched off in good order or just left.
    fn prepare(&mut self, shape: &Shape, dice: &mut Dice) -> Result<(SimNand<NoClock>, Vec<State>), String> {
        let exported = shape.config.exported_pages;
        let nothing = vec![None; exported as usize];
        if dice.once_in(8) {
            return Ok((shape.array(), nothing));
        }
        let habits = if self.options.swarm { Habits::random(dice) } else { Habits::all() };
        let mut host = Host::new(nothing.clone(), habits, Dice::branch(self.seed, WORKLOAD));
        host.mortal = shape.mortal(self.options.faults);
        let mut session: Session<S> = Session::open(shape.array(), &shape.config)?;
        for lpn in 0..exported {
            host.write(&mut session, Lpn(lpn), 1)?;
        }
        for _ in 0..dice.between(100, 600) {
            host.step(&mut session)?;
        }
        session.check()?;
        if dice.once_in(2) {
            session = host.power_cycle(session, &shape.config)?;
        } else {
            // The next opening finds a device whose power was cut, so no trim may be open.
            host.flush(&mut session)?;
        }
        if host.worn {
            return Ok((shape.array(), nothing));
        }
        Ok((session.into_nand(), host.states))
    }

    /// The run that is cut.
    fn live(
        &mut self,
        shape: &Shape,
        array: SimNand<NoClock>,
        states: Vec<State>,
        report: &mut SweepReport,
    ) -> Result<(CrashNand, History), String> {
        let mut dice = Dice::branch(self.seed, LATENCIES);
        let nand = N::wrap(CrashNand::new(array, dice.any()));
        let mut session: Session<S> = Session::open(nand, &shape.config)?;
        session.device.nand_mut().drain();
        let habits = if dice.once_in(3) { Habits::all() } else { Habits::random(&mut dice) };
        let mut host = Host::new(states, habits, Dice::new(dice.any()));
        host.history = Some(History::new(&host.states));
        host.mortal = shape.mortal(self.options.faults);
        host.read_all(&mut session)?;
        for _ in 0..self.options.requests {
            if host.worn {
                break;
            }
            if dice.once_in(150) {
                tally(report, session.device.counters(), S::INFO.stats);
                session = host.power_cycle(session, &shape.config)?;
                host.read_all(&mut session)?;
            }
            host.step(&mut session)?;
        }
        session.check()?;
        tally(report, session.device.counters(), S::INFO.stats);
        let nand = session.into_nand::<N>().into_crash();
        for kind in [PageKind::Data, PageKind::Translation, PageKind::Metadata] {
            report.programmed[kind as usize] += nand.programmed(kind);
            report.erased[kind as usize] += nand.erased(kind);
        }
        report.operations += nand.log().operations();
        host.history.map(|history| (nand, history)).ok_or_else(|| "the host lost its history".to_owned())
    }

    /// Recovers from one image, compares, and works on; now and then the power is cut again meanwhile.
    fn survive(
        &mut self,
        shape: &Shape,
        moment: Moment<'_>,
        image: SimNand<NoClock>,
        dice: &mut Dice,
        report: &mut SweepReport,
    ) -> Result<SimNand<NoClock>, String> {
        if dice.once_in(NESTED) {
            self.survive_twice(shape, moment, &image, dice, report)?;
        }
        self.phase = Stage::Recovering;
        let mut session: Session<S> = Session::open(image, &shape.config)?;
        self.phase = Stage::Comparing;
        session.contents(&mut self.found)?;
        moment.judge(&self.found)?;
        session.check()?;
        self.phase = Stage::Working;
        let mut host = Host::new(std::mem::take(&mut self.found), Habits::all(), Dice::new(dice.any()));
        host.mortal = shape.mortal(self.options.faults);
        for _ in 0..REQUESTS_AFTER {
            host.step(&mut session)?;
        }
        if dice.once_in(4) {
            host.read_all(&mut session)?;
            session.check()?;
        }
        self.found = host.states;
        Ok(session.into_nand())
    }

    /// Recovers and works under a clock, and cuts that.
    fn survive_twice(
        &mut self,
        shape: &Shape,
        moment: Moment<'_>,
        image: &SimNand<NoClock>,
        dice: &mut Dice,
        report: &mut SweepReport,
    ) -> Result<(), String> {
        let nand = match self.nested.take() {
            Some(mut nand) => {
                nand.restart(image, dice.any());
                nand
            }
            None => CrashNand::new(image.clone(), dice.any()),
        };
        self.phase = Stage::Recovering;
        let mut session: Session<S> = Session::open(N::wrap(nand), &shape.config)?;
        session.device.nand_mut().drain();
        let opened = session.device.nand().now();
        self.phase = Stage::Comparing;
        session.contents(&mut self.found)?;
        moment.judge(&self.found)?;
        self.phase = Stage::Working;
        let mut host = Host::new(std::mem::take(&mut self.found), Habits::all(), Dice::new(dice.any()));
        self.later.restart(&host.states);
        host.history = Some(std::mem::take(&mut self.later));
        host.mortal = shape.mortal(self.options.faults);
        for _ in 0..2 * REQUESTS_AFTER {
            host.step(&mut session)?;
        }
        session.check()?;
        let nand = session.into_nand::<N>().into_crash();
        self.later = host.history.take().unwrap_or_default();
        self.cut_again(shape, moment, &nand, opened, dice, report)?;
        self.nested = Some(nand);
        Ok(())
    }

    /// Cuts a run that began with the recovery from the cut at `moment`; the scheme was open at `opened`.
    fn cut_again(
        &mut self,
        shape: &Shape,
        moment: Moment<'_>,
        nand: &CrashNand,
        opened: u64,
        dice: &mut Dice,
        report: &mut SweepReport,
    ) -> Result<(), String> {
        let log = nand.log();
        let points = log.points();
        let mut cutter = log.cutter();
        for turn in 0..NESTED_CUTS {
            let (from, to) = (points * turn / NESTED_CUTS, points * (turn + 1) / NESTED_CUTS);
            if from == to {
                continue;
            }
            let point = from + dice.any() % (to - from);
            let time = log.time_of(point);
            let mut image = self.spare.pop().unwrap_or_else(|| shape.array());
            count(report, cutter.cut(time, dice.any(), &mut image));
            report.nested_cuts += 1;
            self.phase = Stage::Nested(point, "recovering");
            let mut session: Session<S> = Session::open(image, &shape.config)?;
            self.phase = Stage::Nested(point, "comparing after recovery");
            session.contents(&mut self.found)?;
            if time < opened {
                // Nobody had read anything yet: what held for the first cut still does.
                moment.judge(&self.found)?;
            } else {
                Moment { history: &self.later, time }.judge(&self.found)?;
            }
            session.check()?;
            self.phase = Stage::Nested(point, "working after recovery");
            let states = std::mem::take(&mut self.found);
            let mut host = Host::new(states, Habits::all(), Dice::new(dice.any()));
            host.mortal = shape.mortal(self.options.faults);
            for _ in 0..REQUESTS_AFTER {
                host.step(&mut session)?;
            }
            self.found = host.states;
            self.spare.push(session.into_nand());
        }
        Ok(())
    }
}

fn count(report: &mut SweepReport, cut: Cut) {
    report.quiet_cuts += u64::from(cut == Cut::default());
    report.torn_pages += u64::from(cut.torn_pages);
    report.torn_blocks += u64::from(cut.torn_blocks);
    report.completed += u64::from(cut.completed);
    report.dropped += u64::from(cut.dropped);
}

fn tally(report: &mut SweepReport, counters: &Counters, stats: &'static [Stat]) {
    report.collections_data += counters.collections_data;
    report.collections_translation += counters.collections_translation;
    report.collections_group += counters.collections_group;
    for stat in stats {
        *report.stats.entry(stat.name).or_default() += counters.value(stat);
    }
}
