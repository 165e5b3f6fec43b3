//! Why a run ended without a result.

use ftl::OpenError;
use workload::InputError;

use crate::results::Run;
use crate::spec::BadValue;

/// Why a run gave no result, or a worthless one.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The experiment is impossible.
    #[error("{0}")]
    Spec(#[from] BadValue),
    /// The workload cannot be read, or does not fit the device.
    #[error("{0}")]
    Input(#[from] InputError),
    /// The scheme refused the device or its parameters.
    #[error("{0}")]
    Open(OpenError),
    /// A request could not be carried out.
    #[error("{what} (scheme {scheme}, phase {phase}, request {request})")]
    Request {
        /// What was wrong.
        what: String,
        /// The scheme.
        scheme: String,
        /// The phase.
        phase: String,
        /// Requests issued in the phase before it, this one included.
        request: u64,
    },
    /// Requests of an open load arrive so much faster than the device serves them that what waits would not
    /// fit in memory.
    #[error(
        "requests arrive faster than the device can serve them, and over {operations} flash operations wait in it \
         (scheme {scheme}, phase {phase}, request {request})"
    )]
    Overload {
        /// The scheme.
        scheme: String,
        /// The phase.
        phase: String,
        /// Requests issued in the phase.
        request: u64,
        /// Operations that may wait.
        operations: usize,
    },
    /// It was asked to stop before its end ([`crate::Progress::stops`]).
    #[error("scheme {scheme} was stopped before it ended")]
    Stopped {
        /// The scheme.
        scheme: String,
    },
    /// An invariant did not hold: there is a bug in the scheme or in the simulator, and the results are
    /// worthless.
    #[error("broken invariant: {first}; repeat with: {repeat}")]
    Broken {
        /// What was found until then, with the broken invariants among the others.
        run: Box<Run>,
        /// The first broken invariant.
        first: String,
        /// The command that repeats the run.
        repeat: String,
    },
    /// The program panicked: a bug in the scheme, found by an assertion or by the array.
    #[error("scheme {scheme} panicked in phase {phase} with seed {seed}: {message}; repeat with: {repeat}")]
    Panicked {
        /// The scheme.
        scheme: String,
        /// The phase.
        phase: String,
        /// The seed.
        seed: u64,
        /// What it said.
        message: String,
        /// The command that repeats the run.
        repeat: String,
    },
}

/// What a user can be told of an impossible experiment.
pub(crate) fn impossible(what: impl Into<String>) -> RunError {
    RunError::Spec(BadValue(what.into()))
}
