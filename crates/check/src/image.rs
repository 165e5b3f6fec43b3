//! Image files under the checker: the same flash commands as the simulated array, and cuts of the host's
//! power.
//!
//! A device runs on a [`LossyMedium`]. Acknowledged requests have landed; now and then everything is synced.
//! Then the process dies, or the host loses power, and the image is opened again. Of each page either the
//! state that was durable is found or one that was issued later; after the death of the process alone, the
//! last write.

use std::path::Path;

use nand::{Description, FileNand, Lpn, Medium};

use crate::dice::Dice;
use crate::digest::commands_of_array;
use crate::failure::{Failure, Test};
use crate::host::{Habits, Host, Session};
use crate::lossy::{Loss, LossyMedium};
use crate::oracle::{name, State};
use crate::shape::{Ills, Shape};
use crate::world::inside_mut;
use ftl::schemes::{self, Visitor};
use ftl::Scheme;

/// Most requests between two cuts.
const REQUESTS: u32 = 60;
/// One request in so many is followed by a sync.
const SYNC: u32 = 12;

/// What a sweep of images did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageReport {
    /// Cuts.
    pub cuts: u32,
    /// Images closed in good order and opened again.
    pub closed: u32,
    /// Pages that were torn.
    pub torn_pages: u64,
    /// Erases that were taken back.
    pub undone_erases: u64,
    /// Data and translation superblocks collected.
    pub collections: u64,
}

type Image = FileNand<LossyMedium>;

fn mount(medium: &LossyMedium) -> Result<(Image, nand::Mounted), String> {
    let opened = FileNand::on(medium.clone(), Path::new("image"));
    let (mut nand, _, mounted) = opened.map_err(|error| error.to_string())?;
    nand.take_blanks();
    Ok((nand, mounted))
}

fn format(shape: &Shape, medium: &LossyMedium) -> Result<(), String> {
    let description = Description { device: shape.device.clone(), settings: String::new() };
    FileNand::format(medium, Path::new("image"), &description).map_err(|error| error.to_string())
}

fn failure(scheme: &str, seed: u64, phase: &str, what: String) -> Failure {
    Failure { test: Some(Test::Image), ..Failure::new(scheme, seed, phase, what) }
}

/// The flash commands of the workload of [`crate::commands`] on an image file.
pub fn image_commands(scheme: &str, seed: u64) -> Result<(u64, u64), Failure> {
    struct Run<'a>(&'a str, u64);
    impl Visitor for Run<'_> {
        type Out = Result<(u64, u64), String>;
        fn visit<S: Scheme + Clone + Send + 'static>(self) -> Self::Out {
            let shape = Shape::fixed::<S>(self.0)?;
            let medium = LossyMedium::new();
            format(&shape, &medium)?;
            let mut nand = mount(&medium)?.0;
            nand.begin().map_err(|error| error.to_string())?;
            commands_of_array::<S, _>(nand, &shape.config, self.1)
        }
    }
    let failure = |what| failure(scheme, seed, "digest of commands on an image", what);
    let none = || Err(failure("there is no such scheme".to_owned()));
    schemes::with(scheme, Run(scheme, seed)).map_or_else(none, |result| result.map_err(failure))
}

/// Cuts a device on an image `cuts` times.
pub fn image_sweep(scheme: &str, seed: u64, cuts: u32) -> Result<ImageReport, Failure> {
    image_sweep_on(scheme, seed, cuts, &LossyMedium::new())
}

/// The same on a fresh medium of the caller's, for canaries. What it promised is lost with the first cut.
pub fn image_sweep_on(
    scheme: &str,
    seed: u64,
    cuts: u32,
    medium: &LossyMedium,
) -> Result<ImageReport, Failure> {
    struct Run<'a>(&'a str, u64, u32, &'a LossyMedium);
    impl Visitor for Run<'_> {
        type Out = Result<ImageReport, String>;
        fn visit<S: Scheme + Clone + Send + 'static>(self) -> Self::Out {
            Sweep::<S>::new(self.0, self.1)?.run(self.2, self.3.clone())
        }
    }
    let failure = |what| failure(scheme, seed, "cutting the power of an image's host", what);
    let none = || Err(failure("there is no such scheme".to_owned()));
    schemes::with(scheme, Run(scheme, seed, cuts, medium)).map_or_else(none, |result| result.map_err(failure))
}

struct Sweep<S> {
    shape: Shape,
    dice: Dice,
    /// By LPN: what may be found beside what the host issued last: the durable state, and those issued
    /// since.
    older: Vec<Vec<State>>,
    report: ImageReport,
    of: std::marker::PhantomData<S>,
}

impl<S: Scheme> Sweep<S> {
    fn new(scheme: &str, seed: u64) -> Result<Self, String> {
        let mut dice = Dice::branch(seed, 77);
        let shape = Shape::random::<S>(
            &mut dice,
            Ills::default(),
            &schemes::parameters(scheme, &Default::default()),
        )?;
        let older = vec![Vec::new(); shape.config.exported_pages as usize];
        Ok(Sweep { shape, dice, older, report: ImageReport::default(), of: std::marker::PhantomData })
    }

    fn run(mut self, cuts: u32, mut medium: LossyMedium) -> Result<ImageReport, String> {
        format(&self.shape, &medium)?;
        let exported = self.shape.config.exported_pages;
        let mut host = Host::new(vec![None; exported as usize], Habits::all(), Dice::new(self.dice.any()));
        let mut session = self.start(mount(&medium)?.0)?;
        for lpn in 0..exported {
            host.write(&mut session, Lpn(lpn), 1)?;
        }
        self.sync(&mut host, &mut session)?;
        for cut in 0..cuts {
            self.requests(&mut host, &mut session)?;
            let counters = session.device.counters();
            self.report.collections += counters.collections_data + counters.collections_translation;
            let loss = [Loss::Process, Loss::Power][self.dice.below(2) as usize];
            if self.dice.once_in(8) {
                session.device.power_off().map_err(|fault| format!("power off: {fault}"))?;
                self.older.iter_mut().for_each(Vec::clear);
                session.into_nand::<Image>().close().map_err(|error| error.to_string())?;
                self.report.closed += 1;
            }
            medium = medium.after(loss, &mut self.dice);
            session = self.reopen(&medium).map_err(|error| format!("cut {cut} ({loss:?}): {error}"))?;
            self.compare(&mut host, &mut session, loss)
                .map_err(|error| format!("cut {cut} ({loss:?}): {error}"))?;
            self.report.cuts += 1;
        }
        Ok(self.report)
    }

    fn requests(&mut self, host: &mut Host, session: &mut Session<S>) -> Result<(), String> {
        for _ in 0..self.dice.between(1, REQUESTS) {
            let before = host.states.clone();
            host.step(session)?;
            for ((older, before), now) in self.older.iter_mut().zip(before).zip(&host.states) {
                if before != *now {
                    older.push(before);
                }
            }
            inside_mut::<Image>(session.device.nand_mut()).land().map_err(|error| error.to_string())?;
            if self.dice.once_in(SYNC) {
                self.sync(host, session)?;
            }
        }
        Ok(())
    }

    /// A flush, as a server carries it out.
    fn sync(&mut self, host: &mut Host, session: &mut Session<S>) -> Result<(), String> {
        host.flush(session)?;
        let nand: &mut Image = inside_mut(session.device.nand_mut());
        let sequence = nand.sequence();
        let synced = nand.land().and_then(|()| nand.medium().sync()).and_then(|()| nand.synced(sequence));
        self.older.iter_mut().for_each(Vec::clear);
        synced.map_err(|error| error.to_string())
    }

    /// The image is written to when the scheme has recovered what is on it.
    fn start(&self, nand: Image) -> Result<Session<S>, String> {
        let mut session: Session<S> = Session::open(nand, &self.shape.config)?;
        inside_mut::<Image>(session.device.nand_mut()).begin().map_err(|error| error.to_string())?;
        Ok(session)
    }

    /// Opens an image after a cut; now and then it is cut again while recovery has done its part.
    fn reopen(&mut self, medium: &LossyMedium) -> Result<Session<S>, String> {
        let (nand, mounted) = mount(medium)?;
        self.report.torn_pages += mounted.torn_pages;
        self.report.undone_erases += u64::from(mounted.undone_erases);
        let session = self.start(nand)?;
        session.check()?;
        Ok(session)
    }

    fn compare(&mut self, host: &mut Host, session: &mut Session<S>, loss: Loss) -> Result<(), String> {
        let mut found = Vec::new();
        session.contents(&mut found)?;
        for (lpn, &found) in found.iter().enumerate() {
            let (last, older) = (host.states[lpn], &self.older[lpn]);
            // The death of the process takes trims back, but no write, unless it was in the device's volatile
            // buffer.
            let written = loss == Loss::Process && last.is_some() && !S::BUFFERS_WRITES;
            if found != last && (written || !older.contains(&found)) {
                return Err(format!(
                    "LPN {lpn} holds {}, but {} was issued last, and before it, since the last sync, {}",
                    name(found),
                    name(last),
                    older.iter().map(|&state| name(state)).collect::<Vec<_>>().join(", ")
                ));
            }
        }
        host.states = found;
        // What recovery found is durable only once it is synced.
        inside_mut::<Image>(session.device.nand_mut()).land().map_err(|error| error.to_string())?;
        self.sync(host, session)
    }
}
