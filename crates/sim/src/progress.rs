//! Who hears how far runs are.

use crate::look::{Look, Tell};

/// Hears how far runs are. Called from the thread that runs the experiment, every 4,096 requests.
pub trait Progress: Sync {
    /// Phase `phase` of `phases` of run `run` begins. Those of the warm-up are counted, and are called that.
    fn phase(&self, run: usize, phase: usize, phases: usize, name: &str) {
        let _ = (run, phase, phases, name);
    }

    /// So much of the phase is done, 0..=1; not told of phases whose length nobody knows.
    fn fraction(&self, run: usize, done: f64) {
        let _ = (run, done);
    }

    /// Whether all runs shall stop; asked as often as [`Progress::fraction`] is told. Runs under way and
    /// those that have not begun end with [`crate::RunError::Stopped`].
    fn stops(&self) -> bool {
        false
    }

    /// Whether somebody wants to see run `run` now; asked as often as [`Progress::fraction`] is told.
    fn wants(&self, run: usize) -> bool {
        let _ = run;
        false
    }

    /// What there is to see of it, when somebody wants to.
    fn look(&self, run: usize, look: Look) {
        let _ = (run, look);
    }

    /// The run has ended.
    fn end(&self, run: usize) {
        let _ = run;
    }
}

/// Tells nobody.
impl Progress for () {}

/// One run's way to those who hear of all.
pub(crate) struct Told<'a> {
    pub(crate) progress: &'a dyn Progress,
    pub(crate) run: usize,
    /// How much is done of what is told as one phase, while its parts go by: the parts are not told.
    pub(crate) whole: Option<f64>,
}

impl Tell for Told<'_> {
    fn far(&mut self, done: f64) {
        self.progress.fraction(self.run, self.whole.unwrap_or(done));
    }

    fn stops(&mut self) -> bool {
        self.progress.stops()
    }

    fn wants(&mut self) -> bool {
        self.progress.wants(self.run)
    }

    fn look(&mut self, look: Look) {
        self.progress.look(self.run, look);
    }
}
