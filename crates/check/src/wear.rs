//! A device used until its blocks have failed: how it ends.

use crate::dice::Dice;
use crate::failure::{panic_text, Failure};
use crate::host::{Habits, Host, Session};
use crate::shape::{Ills, Shape};
use ftl::schemes::{self, Visitor};
use ftl::Scheme;
use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Programs and erases that fail, in parts per million.
const RATES: [(u32, u32); 4] = [(200, 200), (2_000, 200), (500, 20_000), (5_000, 50_000)];
/// Requests after which a device that still works is given up.
const MOST: u32 = 60_000;
/// Requests to a device that has refused one.
const AFTER: u32 = 200;

/// How the life of a device went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WearReport {
    /// Pages that the host wrote.
    pub writes: u64,
    /// Erases.
    pub erases: u64,
    /// Whether a request found no space: else the device outlived the host.
    pub ended: bool,
}

/// Uses a device, whose blocks fail early, until it refuses a write, and on. Whatever was written before must
/// be there, before and after it is switched off and on, and what the scheme knows must agree with the array.
///
/// # Errors
/// What was wrong: a panic is a finding, too.
pub fn wear_out(
    scheme: &str,
    parameters: &BTreeMap<String, String>,
    seed: u64,
) -> Result<WearReport, Failure> {
    struct Life<'a>(&'a BTreeMap<String, String>, u64);
    impl Visitor for Life<'_> {
        type Out = Result<WearReport, String>;
        fn visit<S: Scheme + Clone + Send + 'static>(self) -> Self::Out {
            catch_unwind(AssertUnwindSafe(|| live::<S>(self.0, self.1)))
                .unwrap_or_else(|panic| Err(panic_text(panic.as_ref())))
        }
    }
    let unknown = || Err("there is no such scheme".to_owned());
    let all = schemes::parameters(scheme, parameters);
    schemes::with(scheme, Life(&all, seed)).unwrap_or_else(unknown).map_err(|what| {
        let found = Failure::new(scheme, seed, "using a device until it is worn out", what);
        Failure { until_worn: true, ..found.with_parameters(parameters) }
    })
}

fn live<S: Scheme>(parameters: &BTreeMap<String, String>, seed: u64) -> Result<WearReport, String> {
    let mut dice = Dice::branch(seed, 32);
    let mut shape = Shape::random::<S>(&mut dice, Ills { wear: true, decay: false }, parameters)?;
    (shape.options.program_fail_ppm, shape.options.erase_fail_ppm) = RATES[dice.below(4) as usize];
    let states = vec![None; shape.config.exported_pages as usize];
    let mut host = Host::new(states, Habits::random(&mut dice), Dice::new(dice.any()));
    host.mortal = shape.mortal(true);
    let mut session: Session<S> = Session::open(shape.array(), &shape.config)?;
    for step in 0..MOST {
        if host.worn {
            break;
        }
        host.step(&mut session)?;
        if step % 4096 == 0 {
            session.check()?;
        }
    }
    let ended = host.worn;
    for _ in 0..AFTER {
        host.step(&mut session)?;
    }
    session.check()?;
    host.read_all(&mut session)?;
    let erases = session.device.counters().all_erases();
    host.worn = false;
    let cycled = host.power_cycle(session, &shape.config)?;
    // A device that has no room for a checkpoint goes off as in a power cut, which may undo trims.
    let mut session = if host.worn { cycled.reopen(&shape.config)? } else { cycled };
    if !host.worn {
        host.read_all(&mut session)?;
    }
    session.check()?;
    session.contents(&mut host.states)?;
    for _ in 0..AFTER {
        host.step(&mut session)?;
    }
    session.check()?;
    host.read_all(&mut session)?;
    Ok(WearReport { writes: host.tally.writes, erases, ended })
}
