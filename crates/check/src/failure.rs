//! What went wrong, and how to see it again.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;

/// Tests of this crate that check what no command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// A scheme conforms ([`crate::conformance()`]).
    Conformance,
    /// Images lose nothing ([`crate::image_sweep()`]).
    Image,
}

impl Test {
    fn name(self) -> &'static str {
        match self {
            Test::Conformance => "conformance",
            Test::Image => "image",
        }
    }
}

/// A promise that was broken, with everything needed to repeat it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Failure {
    /// The scheme, with its parameters if any: `learnedftl:allocation=group`.
    pub scheme: String,
    /// The seed of the run.
    pub seed: u64,
    /// The cut, when there was one.
    pub cut: Option<u64>,
    /// Whether flash failed, too ([`crate::SweepOptions::faults`]).
    pub faults: bool,
    /// Whether images were damaged, not power cut ([`crate::damage()`]).
    pub damage: bool,
    /// Whether the device was used until it was worn out ([`crate::wear_out()`]).
    pub until_worn: bool,
    /// The tests of this crate that repeat it, where `ftl check` does not.
    pub test: Option<Test>,
    /// Whether the device was one of a swarm ([`crate::SweepOptions::swarm`]).
    pub swarm: bool,
    /// Requests made while the power could be cut, if not as many as always.
    pub requests: Option<u32>,
    /// Whether nothing is wrong but the call: it asked for a cut that the run does not have.
    pub no_such_cut: bool,
    /// What was being done.
    pub phase: String,
    /// What was wrong.
    pub what: String,
}

impl Failure {
    /// Of a run without a cut, on flash that does not fail.
    pub(crate) fn new(scheme: &str, seed: u64, phase: &str, what: String) -> Failure {
        let (scheme, phase) = (scheme.to_owned(), phase.to_owned());
        Failure {
            scheme,
            seed,
            cut: None,
            faults: false,
            damage: false,
            until_worn: false,
            test: None,
            swarm: false,
            requests: None,
            no_such_cut: false,
            phase,
            what,
        }
    }

    /// The same, of a scheme with these parameters.
    pub(crate) fn with_parameters(mut self, parameters: &BTreeMap<String, String>) -> Failure {
        for (name, value) in parameters {
            self.scheme += &format!(":{name}={value}");
        }
        self
    }

    /// The command that repeats it.
    pub fn command(&self) -> String {
        if let Some(test) = self.test {
            return format!(
                "FTL_CHECK_SEED={} cargo test -p ftlkit-check --test suite {}",
                self.seed,
                test.name()
            );
        }
        let mut command = format!("ftl check --scheme {} --seed {}", self.scheme, self.seed);
        if let Some(cut) = self.cut {
            command += &format!(" --cut {cut}");
        }
        if self.faults {
            command += " --faults";
        }
        if self.swarm {
            command += " --swarm";
        }
        if let Some(requests) = self.requests {
            command += &format!(" --requests {requests}");
        }
        if self.damage {
            command += " --damage";
        }
        if self.until_worn {
            command += " --until-worn --cuts 1";
        }
        command
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scheme {}, seed {}", self.scheme, self.seed)?;
        if let Some(cut) = self.cut {
            write!(f, ", cut {cut}")?;
        }
        write!(f, ", {}: {}\nto repeat: {}", self.phase, self.what, self.command())
    }
}

/// The sentence of a panic: an assertion of the scheme or of the array is a finding like any other.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<String>() {
        format!("panic: {text}")
    } else if let Some(text) = panic.downcast_ref::<&str>() {
        format!("panic: {text}")
    } else {
        "panic".to_owned()
    }
}
