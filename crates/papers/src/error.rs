//! Why a paper or a figure cannot be read or planned.

use sim::SetupError;

/// One sentence: what is wrong, where, and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum PaperError {
    /// No paper of this name is built in.
    #[error("there is no paper `{name}`; there are {}", known.join(", "))]
    Unknown {
        /// As asked for.
        name: String,
        /// Those that there are.
        known: Vec<&'static str>,
    },
    /// A figure file that cannot be opened.
    #[error("{file}: the figure file cannot be read ({error}); name a file as docs/papers.md describes")]
    Unreadable {
        /// Its name.
        file: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// A file that is no TOML, or lacks a key, or has one too many.
    #[error("{file}, line {line}: {what}; docs/papers.md describes the form of the file")]
    Form {
        /// Its name.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A value that means nothing, or does not go with others.
    #[error("{file}: {key}: {what}")]
    Value {
        /// The file's name.
        file: String,
        /// Where in the file.
        key: String,
        /// What is wrong and what would be right.
        what: String,
    },
    /// A case whose device or workload is impossible.
    #[error("{file}: case `{case}`: {error}")]
    Case {
        /// The file's name.
        file: String,
        /// The case's name.
        case: String,
        /// Why.
        error: SetupError,
    },
}
