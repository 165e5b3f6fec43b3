//! How far runs are: bars on a terminal, plain lines elsewhere.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::interrupt;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Parts of a bar.
const PARTS: u64 = 1000;
const TEMPLATE: &str = "{prefix} {bar:24} {percent:>3} %  {msg}{left}";

/// Progress of several runs.
pub(crate) struct Bars {
    labels: Vec<String>,
    how: How,
}

enum How {
    Silent,
    Lines(Mutex<Vec<Option<Instant>>>),
    Bars { all: MultiProgress, each: Vec<ProgressBar> },
}

impl Bars {
    /// Progress of runs with these labels, on standard error.
    pub(crate) fn new(labels: &[String], quiet: bool) -> Bars {
        let how = if quiet {
            How::Silent
        } else if io::stderr().is_terminal() {
            bars(labels)
        } else {
            How::Lines(Mutex::new(vec![None; labels.len()]))
        };
        Bars { labels: labels.to_vec(), how }
    }

    /// Takes the bars off the terminal.
    pub(crate) fn finish(&self) {
        if let How::Bars { all, each } = &self.how {
            each.iter().for_each(ProgressBar::finish_and_clear);
            // A terminal that cannot be cleared keeps its bars.
            let _ = all.clear();
        }
    }

    /// Run `run` does something new, of which nothing is done.
    pub(crate) fn begin(&self, run: usize, what: &str) {
        match &self.how {
            How::Silent => {}
            How::Lines(began) => {
                if let Ok(mut began) = began.lock() {
                    began[run].get_or_insert_with(Instant::now);
                }
                line(&format!("{}: {what}", self.labels[run]));
            }
            How::Bars { each, .. } => {
                let bar = &each[run];
                bar.set_message(what.to_owned());
                bar.set_position(0);
                bar.reset_eta();
                bar.enable_steady_tick(Duration::from_millis(250));
            }
        }
    }

    /// So much of it is done, 0..=1.
    pub(crate) fn done(&self, run: usize, part: f64) {
        if let How::Bars { each, .. } = &self.how {
            each[run].set_position((part * PARTS as f64) as u64);
        }
    }

    /// Run `run` has ended.
    pub(crate) fn ended(&self, run: usize) {
        match &self.how {
            How::Silent => {}
            How::Lines(began) => {
                let since = began.lock().ok().and_then(|began| began[run]);
                let seconds = since.map_or(0.0, |since| since.elapsed().as_secs_f64());
                line(&format!("{}: ended after {seconds:.1} s", self.labels[run]));
            }
            How::Bars { each, .. } => {
                each[run].set_position(PARTS);
                each[run].finish_with_message("ended");
            }
        }
    }
}

fn bars(labels: &[String]) -> How {
    let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(5));
    let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
    let style = style.with_key("left", left);
    let width = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let bar = |label: &String| {
        let bar = all.add(ProgressBar::new(PARTS));
        bar.set_style(style.clone());
        bar.set_prefix(format!("{label:<width$}"));
        bar.set_message("waiting");
        bar
    };
    let each = labels.iter().map(bar).collect();
    How::Bars { all, each }
}

/// The time left in a phase, once there is something to tell it by.
fn left(state: &ProgressState, out: &mut dyn fmt::Write) {
    if state.pos() > 0 && !state.is_finished() {
        // A bar without its time is still a bar.
        let _ = write!(out, ", {} s left", state.eta().as_secs().max(1));
    }
}

fn line(text: &str) {
    // Progress that nobody can read is no reason to stop.
    let _ = writeln!(io::stderr(), "{text}");
}

impl sim::Progress for Bars {
    fn stops(&self) -> bool {
        interrupt::asked()
    }

    fn phase(&self, run: usize, phase: usize, phases: usize, name: &str) {
        let short = name.split([':', ',']).next().unwrap_or_default();
        self.begin(run, &format!("{}/{phases} {short}", phase + 1));
    }

    fn fraction(&self, run: usize, done: f64) {
        self.done(run, done);
    }

    fn end(&self, run: usize) {
        self.ended(run);
    }
}
