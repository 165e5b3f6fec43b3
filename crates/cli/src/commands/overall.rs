//! How far many runs are, as one bar.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sim::Progress;

use super::interrupt;

/// How far all runs together are, with the time left.
pub(crate) struct Overall {
    labels: Vec<String>,
    how: How,
    state: Mutex<State>,
    began: Instant,
}

enum How {
    Silent,
    Lines,
    Bar(ProgressBar),
}

struct State {
    /// Of each run, 0..=1.
    done: Vec<f64>,
    /// Phase and phases of each run.
    phase: Vec<(usize, usize)>,
    ended: usize,
}

/// Parts of the bar.
const PARTS: u64 = 10_000;

impl Overall {
    /// Progress of runs with these labels, on standard error: a bar on a terminal, lines elsewhere.
    pub(crate) fn new(labels: &[String], quiet: bool) -> Overall {
        let how = if quiet || labels.is_empty() {
            How::Silent
        } else if io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(Some(PARTS), ProgressDrawTarget::stderr_with_hz(5));
            let style = ProgressStyle::with_template("{bar:32} {percent:>3} %  {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(250));
            How::Bar(bar)
        } else {
            How::Lines
        };
        let state = State { done: vec![0.0; labels.len()], phase: vec![(0, 1); labels.len()], ended: 0 };
        Overall { labels: labels.to_vec(), how, state: Mutex::new(state), began: Instant::now() }
    }

    /// Does `what`, which writes to the terminal, with the bar out of the way.
    pub(crate) fn aside<T>(&self, what: impl FnOnce() -> T) -> T {
        match &self.how {
            How::Bar(bar) => bar.suspend(what),
            How::Silent | How::Lines => what(),
        }
    }

    /// Takes the bar off the terminal.
    pub(crate) fn finish(&self) {
        if let How::Bar(bar) = &self.how {
            bar.finish_and_clear();
        }
    }

    /// Words on where everything stands.
    fn told(&self, state: &State, label: &str) -> (f64, String) {
        let share = state.done.iter().sum::<f64>() / state.done.len().max(1) as f64;
        let spent = self.began.elapsed().as_secs_f64();
        let left = if share > 0.02 {
            format!(", about {} left", span(spent / share * (1.0 - share)))
        } else {
            String::new()
        };
        (share, format!("{}/{} runs, {label}{left}", state.ended, state.done.len()))
    }

    fn set(&self, run: usize, done: f64) {
        let Ok(mut state) = self.state.lock() else { return };
        state.done[run] = done;
        if let How::Bar(bar) = &self.how {
            let (share, words) = self.told(&state, &self.labels[run]);
            bar.set_position((share * PARTS as f64) as u64);
            bar.set_message(words);
        }
    }
}

fn span(seconds: f64) -> String {
    if seconds < 90.0 {
        format!("{} s", seconds.ceil().max(1.0))
    } else {
        format!("{} min", (seconds / 60.0).round())
    }
}

impl Progress for Overall {
    fn stops(&self) -> bool {
        interrupt::asked()
    }

    fn phase(&self, run: usize, phase: usize, phases: usize, _name: &str) {
        if let Ok(mut state) = self.state.lock() {
            state.phase[run] = (phase, phases.max(1));
        }
        self.set(run, phase as f64 / phases.max(1) as f64);
    }

    fn fraction(&self, run: usize, done: f64) {
        let Ok((phase, phases)) = self.state.lock().map(|state| state.phase[run]) else { return };
        self.set(run, (phase as f64 + done) / phases as f64);
    }

    fn end(&self, run: usize) {
        if let Ok(mut state) = self.state.lock() {
            state.ended += 1;
        }
        self.set(run, 1.0);
        if let (How::Lines, Ok(state)) = (&self.how, self.state.lock()) {
            let (_, words) = self.told(&state, &self.labels[run]);
            // Progress that nobody can read is no reason to stop.
            let _ = writeln!(io::stderr(), "{words}");
        }
    }
}
