//! What every scheme must do, without a clock: the same requests for each, compared with a reference map.

use crate::dice::Dice;
use crate::digest::commands_on;
use crate::failure::{panic_text, Failure, Test};
use crate::host::{Habits, Host, Session};
use crate::oracle::{name, State};
use crate::shape::{Ills, Shape};
use crate::world::inside;
use ftl::schemes::{self, Visitor};
use ftl::{Config, Device, HostError, HostOp, OpenError, Scheme};
use nand::timing::NoClock;
use nand::{Done, Lpn, Nand, SimNand};
use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// What a conformance run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConformanceReport {
    /// Pages read and compared.
    pub reads: u64,
    /// Pages written.
    pub writes: u64,
    /// Pages trimmed.
    pub trims: u64,
    /// Reads of pages that flash had lost.
    pub unreadable: u64,
    /// Data superblocks collected.
    pub collections_data: u64,
    /// Translation superblocks collected.
    pub collections_translation: u64,
    /// Groups of LPNs brought together.
    pub collections_group: u64,
    /// Translation pages made anew because they could not be read.
    pub rebuilt: u64,
    /// Programs that failed.
    pub programs_failed: u64,
    /// Erases that failed.
    pub erases_failed: u64,
}

type Part<S> = fn(&mut Run<S>) -> Result<(), String>;

/// Runs the whole suite on a registered scheme, on devices and with requests that `seed` decides.
///
/// ```
/// assert!(check::conformance("page", 1).is_ok());
/// ```
pub fn conformance(scheme: &str, seed: u64) -> Result<ConformanceReport, Failure> {
    conformance_with(scheme, &BTreeMap::new(), seed)
}

/// The same with parameters that differ from the defaults.
///
/// ```
/// let group = [("allocation".to_owned(), "group".to_owned())].into();
/// let report = check::conformance_with("learnedftl", &group, 1);
/// assert!(report.is_ok_and(|report| report.collections_group > 0));
/// ```
pub fn conformance_with(
    scheme: &str,
    parameters: &BTreeMap<String, String>,
    seed: u64,
) -> Result<ConformanceReport, Failure> {
    struct Suite<'a>(&'a str, &'a BTreeMap<String, String>, u64);
    impl Visitor for Suite<'_> {
        type Out = Result<ConformanceReport, Failure>;
        fn visit<S: Scheme + Clone + Send + 'static>(self) -> Self::Out {
            suite::<S>(self.0, self.1, self.2)
        }
    }
    schemes::with(scheme, Suite(scheme, parameters, seed)).unwrap_or_else(|| {
        let known: Vec<&str> = schemes::ALL.iter().map(|info| info.name).collect();
        let what = format!("there is no such scheme; there are {}", known.join(", "));
        Err(Failure::new(scheme, seed, "conformance", what))
    })
}

/// The same for any scheme; `scheme` is only its name here.
pub fn conformance_of<S: Scheme>(scheme: &str, seed: u64) -> Result<ConformanceReport, Failure> {
    suite::<S>(scheme, &BTreeMap::new(), seed)
}

fn suite<S: Scheme>(
    scheme: &str,
    parameters: &BTreeMap<String, String>,
    seed: u64,
) -> Result<ConformanceReport, Failure> {
    let parts: [(&str, Part<S>); 10] = [
        ("a device filled and overwritten", Run::fill),
        ("random requests", Run::random),
        ("random requests on failing blocks", Run::wear),
        ("random requests on unreadable pages", Run::decay),
        ("random requests on failing blocks and unreadable pages", Run::ruin),
        ("random requests on translation pages that cannot be read", Run::rebuild),
        ("switching off and on", Run::power_cycles),
        ("trimming everything", Run::trim_everything),
        ("refusing what cannot be done", Run::refuse),
        ("doing the same twice", Run::repeat),
    ];
    let all = schemes::parameters(scheme, parameters);
    let mut run =
        Run { seed, parameters: all, report: ConformanceReport::default(), of: std::marker::PhantomData };
    let finding = |what, error| {
        let found = Failure::new(scheme, seed, what, error);
        Failure { test: Some(Test::Conformance), ..found.with_parameters(parameters) }
    };
    for (what, part) in parts {
        match catch_unwind(AssertUnwindSafe(|| part(&mut run))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(finding(what, error)),
            Err(panic) => return Err(finding(what, panic_text(panic.as_ref()))),
        }
    }
    Ok(run.report)
}

struct Run<S> {
    seed: u64,
    /// Those given, and what the scheme's name stands for.
    parameters: BTreeMap<String, String>,
    report: ConformanceReport,
    of: std::marker::PhantomData<S>,
}

impl<S: Scheme> Run<S> {
    fn shape(&self, part: u64, ills: Ills) -> Result<(Shape, Dice), String> {
        let mut dice = Dice::branch(self.seed, part);
        let shape = Shape::random::<S>(&mut dice, ills, &self.parameters)?;
        Ok((shape, dice))
    }

    fn host(shape: &Shape, habits: Habits, dice: &mut Dice) -> Host {
        Host::new(vec![None; shape.config.exported_pages as usize], habits, Dice::new(dice.any()))
    }

    fn fill(&mut self) -> Result<(), String> {
        let (shape, mut dice) = self.shape(1, Ills::default())?;
        let mut host = Self::host(&shape, Habits::writes(), &mut dice);
        let mut session: Session<S> = Session::open(shape.array(), &shape.config)?;
        host.read_all(&mut session)?;
        let exported = shape.config.exported_pages;
        for turn in 0..3 {
            // In order, then by strides, which leave every superblock half valid.
            let step = [1, 7, 13][turn];
            for start in 0..step {
                for lpn in (start..exported).step_by(step as usize) {
                    host.write(&mut session, Lpn(lpn), 1)?;
                }
            }
            host.read_all(&mut session)?;
            self.audit(&host, &session)?;
        }
        for _ in 0..2 * exported {
            host.step(&mut session)?;
        }
        host.read_all(&mut session)?;
        self.audit(&host, &session)?;
        if session.device.counters().collections_data == 0 {
            return Err("nothing was collected".to_owned());
        }
        self.finish(&host, &session)
    }

    fn random(&mut self) -> Result<(), String> {
        self.requests(2, Ills::default())
    }

    fn wear(&mut self) -> Result<(), String> {
        self.requests(3, Ills { wear: true, decay: false })
    }

    fn decay(&mut self) -> Result<(), String> {
        self.requests(4, Ills { wear: false, decay: true })
    }

    fn ruin(&mut self) -> Result<(), String> {
        self.requests(5, Ills { wear: true, decay: true })
    }

    /// Random habits on a random device, with checks in between and the power switched off in good order.
    fn requests(&mut self, part: u64, ills: Ills) -> Result<(), String> {
        for variant in 0..3 {
            let (shape, mut dice) = self.shape(part + 16 * variant, ills)?;
            let habits = Habits::random(&mut dice);
            let mut host = Self::host(&shape, habits, &mut dice);
            host.tolerant = ills.decay;
            host.mortal = shape.mortal(ills.wear);
            let mut session: Session<S> = Session::open(shape.array(), &shape.config)?;
            for turn in 0..6 {
                for _ in 0..150 {
                    host.step(&mut session)?;
                }
                self.audit(&host, &session)?;
                if turn % 2 == 1 {
                    self.count(&session);
                    session = host.power_cycle(session, &shape.config)?;
                    self.audit(&host, &session)?;
                }
                host.read_all(&mut session)?;
            }
            if host.tally.unreadable * 20 > host.tally.reads {
                return Err(format!(
                    "{} of {} pages read could not be read, though flash lost about 1 in 1000",
                    host.tally.unreadable, host.tally.reads
                ));
            }
            self.finish(&host, &session)?;
        }
        Ok(())
    }

    /// Nobody notices that translation pages cannot be read. The device is not switched off: without what it
    /// knows while it runs it would have to refuse to open.
    fn rebuild(&mut self) -> Result<(), String> {
        for (variant, rate) in (0..).zip([1_000, 10_000, 100_000, 10_000]) {
            let ills = Ills { wear: variant == 3, decay: false };
            let (mut shape, mut dice) = self.shape(10 + 16 * variant, ills)?;
            shape.options.lost_translation_ppm = rate;
            let habits = Habits::random(&mut dice);
            let mut host = Self::host(&shape, habits, &mut dice);
            host.mortal = shape.mortal(ills.wear);
            let mut session: Session<S> = Session::open(shape.array(), &shape.config)?;
            for _ in 0..6 {
                for _ in 0..150 {
                    host.step(&mut session)?;
                }
                self.audit(&host, &session)?;
                host.read_all(&mut session)?;
            }
            self.finish(&host, &session)?;
        }
        Ok(())
    }

    fn power_cycles(&mut self) -> Result<(), String> {
        let (shape, mut dice) = self.shape(6, Ills::default())?;
        let mut host = Self::host(&shape, Habits::all(), &mut dice);
        let mut session: Session<S> = Session::open(shape.array(), &shape.config)?;
        for turn in 0..40 {
            // The first turns switch a fresh device off and on; some switch it off without a request between.
            for _ in 0..if turn % 5 < 2 { 0 } else { 40 } {
                host.step(&mut session)?;
            }
            self.count(&session);
            session = host.power_cycle(session, &shape.config)?;
            host.read_all(&mut session)?;
            self.audit(&host, &session)?;
        }
        self.finish(&host, &session)
    }

    fn trim_everything(&mut self) -> Result<(), String> {
        let (shape, mut dice) = self.shape(7, Ills::default())?;
        let exported = shape.config.exported_pages;
        let mut host = Self::host(&shape, Habits::writes(), &mut dice);
        let mut session: Session<S> = Session::open(shape.array(), &shape.config)?;
        for turn in 0..4 {
            for _ in 0..exported {
                host.step(&mut session)?;
            }
            let step = [exported, 1, 5, 100][turn];
            for first in (0..exported).step_by(step as usize) {
                host.trim(&mut session, Lpn(first), step.min(exported - first))?;
            }
            self.audit(&host, &session)?;
            if turn == 2 {
                self.count(&session);
                session = host.power_cycle(session, &shape.config)?;
            }
            host.read_all(&mut session)?;
            self.audit(&host, &session)?;
        }
        self.finish(&host, &session)
    }

    fn refuse(&mut self) -> Result<(), String> {
        let (shape, mut dice) = self.shape(8, Ills::default())?;
        let exported = shape.config.exported_pages;
        let mut host = Self::host(&shape, Habits::all(), &mut dice);
        let mut session: Session<S> = Session::open(shape.array(), &shape.config)?;
        for _ in 0..200 {
            host.step(&mut session)?;
        }
        let before = session.device.counters().clone();
        for op in [HostOp::Read, HostOp::Write, HostOp::Trim] {
            for (first, pages) in
                [(exported, 1), (exported - 1, 2), (u32::MAX, 1), (u32::MAX, u32::MAX), (0, exported + 1)]
            {
                let answer = session.device.request(op, Lpn(first), pages, Done::READY, &mut |_, _| {});
                if !matches!(answer, Err(HostError::Outside { .. })) {
                    return Err(format!(
                        "{op:?} of {pages} pages from {first} of {exported} was answered {answer:?}"
                    ));
                }
            }
        }
        if session.device.counters() != &before {
            return Err("a refused request changed the counters".to_owned());
        }
        host.read_all(&mut session)?;
        self.audit(&host, &session)?;
        let mut unknown = shape.config.clone();
        unknown.parameters.insert("no-such-parameter".to_owned(), "1".to_owned());
        let too_much = Config { exported_pages: shape.device.geometry.pages(), ..shape.config.clone() };
        let nothing = Config { exported_pages: 0, ..shape.config.clone() };
        for (what, config) in
            [("an unknown parameter", unknown), ("no spare page", too_much), ("no page", nothing)]
        {
            match Device::<S, _>::open(shape.array(), &config) {
                Err(OpenError::Config(_)) => {}
                Err(error) => return Err(format!("a configuration with {what} gave: {error}")),
                Ok(device) => {
                    let pages = device.exported_pages();
                    return Err(format!("a configuration with {what} was accepted, with {pages} pages"));
                }
            }
        }
        self.finish(&host, &session)
    }

    fn repeat(&mut self) -> Result<(), String> {
        let (shape, _) = self.shape(9, Ills::default())?;
        let first = commands_on::<S>(&shape, self.seed)?;
        let second = commands_on::<S>(&shape, self.seed)?;
        if first != second {
            return Err(format!("the same seed gave the flash commands {first:x?} and then {second:x?}"));
        }
        let other = commands_on::<S>(&shape, self.seed ^ 1)?;
        if first == other {
            return Err("another seed gave the same flash commands".to_owned());
        }
        Ok(())
    }

    /// Compares the mapping with the reference and the array, and the door's counters with the array's.
    fn audit(&self, host: &Host, session: &Session<S>) -> Result<(), String> {
        session.check()?;
        mapping(host, session)?;
        session.audit()
    }

    fn count(&mut self, session: &Session<S>) {
        let counters = session.device.counters();
        self.report.collections_data += counters.collections_data;
        self.report.collections_translation += counters.collections_translation;
        self.report.collections_group += counters.collections_group;
        self.report.rebuilt += counters.rebuilt;
        self.report.programs_failed += counters.programs_failed;
        self.report.erases_failed += counters.erases_failed;
    }

    fn finish(&mut self, host: &Host, session: &Session<S>) -> Result<(), String> {
        self.count(session);
        self.report.reads += host.tally.reads;
        self.report.writes += host.tally.writes;
        self.report.trims += host.tally.trims;
        self.report.unreadable += host.tally.unreadable;
        Ok(())
    }
}

/// Every page that has content is mapped, once, to a page of its own that holds it, and no other is; or the
/// newest content is in the write buffer.
fn mapping<S: Scheme>(host: &Host, session: &Session<S>) -> Result<(), String> {
    let nand: &SimNand<NoClock> = inside(session.device.nand());
    let mut mapped: Vec<State> = vec![None; host.states.len()];
    let mut taken = vec![false; nand.geometry().pages() as usize];
    let mut content = Vec::new();
    let (mut wrong, mut next) = (None, 0);
    session.device.mapping(&mut |lpn, ppn| {
        let found = nand.peek(ppn);
        let version = match found {
            Some(oob) if oob.id == lpn.0 => Some(oob.version),
            _ => None,
        };
        if lpn.0 < next || lpn.0 as usize >= mapped.len() {
            wrong.get_or_insert(format!("LPN {} is out of order, or outside the device", lpn.0));
            return;
        }
        next = lpn.0 + 1;
        let readable = nand.inspect(ppn, &mut content).is_some();
        if version.is_none() || !(readable || host.tolerant) {
            wrong.get_or_insert(format!("LPN {} is mapped to PPN {}, which holds {found:?}", lpn.0, ppn.0));
        }
        if std::mem::replace(&mut taken[ppn.0 as usize], true) {
            wrong.get_or_insert(format!("PPN {} is mapped twice", ppn.0));
        }
        mapped[lpn.0 as usize] = version;
    });
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    session.device.buffered(&mut |lpn, version| {
        mapped[lpn.0 as usize] = mapped[lpn.0 as usize].max(Some(version));
    });
    let differs = (0..mapped.len()).find(|&lpn| mapped[lpn] != host.states[lpn]);
    differs.map_or(Ok(()), |lpn| {
        Err(format!("LPN {lpn} is mapped to {}, not {}", name(mapped[lpn]), name(host.states[lpn])))
    })
}
