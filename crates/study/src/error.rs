//! What can be wrong with a study.

use std::io;
use std::path::{Path, PathBuf};

/// Why a study cannot be read, or its results cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The file is no study file; the sentence names file, place and what would be right.
    #[error("{file}: {what}")]
    Form {
        /// The study file.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// A file or folder cannot be read or written.
    #[error("{} cannot be {doing} ({error})", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// `read` or `written`.
        doing: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// A file of the results folder is not what this version writes.
    #[error("{} is no result of a point ({what}); remove it, and the point runs again", path.display())]
    Result {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// There is no such point.
    #[error("there is no point {asked}; the study has points 1 to {points}")]
    NoPoint {
        /// The number asked for.
        asked: usize,
        /// How many there are.
        points: usize,
    },
}

impl StudyError {
    pub(crate) fn form(file: &str, what: impl ToString) -> StudyError {
        let what = what.to_string();
        StudyError::Form {
            file: file.to_owned(),
            what: what.split_whitespace().collect::<Vec<_>>().join(" "),
        }
    }

    pub(crate) fn reading(path: &Path) -> impl FnOnce(io::Error) -> StudyError + '_ {
        move |error| StudyError::Io { path: path.to_owned(), doing: "read", error }
    }

    pub(crate) fn writing(path: &Path) -> impl FnOnce(io::Error) -> StudyError + '_ {
        move |error| StudyError::Io { path: path.to_owned(), doing: "written", error }
    }
}
