//! How a point ended, and what is stored of it.

use sim::results::Run;
use sim::RunError;

/// How a point ended.
#[derive(Clone, Debug)]
pub enum Ended {
    /// It ran to its end: the result.
    Run(Box<Run>),
    /// It did not: the reason, in a sentence.
    Failed {
        /// Why, as a sentence.
        reason: String,
        /// Whether that is a bug, in the scheme or in the simulator, and nothing that the study can mend.
        finding: bool,
    },
}

impl Ended {
    /// How a run ended; `None`: somebody stopped it, and it has not ended.
    pub fn of(result: Result<Run, RunError>) -> Option<Ended> {
        Some(match result {
            Ok(run) => Ended::Run(Box::new(run)),
            Err(RunError::Stopped { .. }) => return None,
            Err(error) => Ended::Failed {
                reason: error.to_string(),
                finding: matches!(error, RunError::Broken { .. } | RunError::Panicked { .. }),
            },
        })
    }

    /// The run, if there is one.
    pub fn run(&self) -> Option<&Run> {
        match self {
            Ended::Run(run) => Some(run),
            Ended::Failed { .. } => None,
        }
    }
}

/// What is stored of a point that has ended.
#[derive(Clone, Debug)]
pub struct Stored {
    /// How the point ended.
    pub ended: Ended,
    /// Version and commit of the program that ran it.
    pub by: String,
}
