//! The one error type of this crate.

use std::fmt;

/// Bad input: what was wrong, where, and what would be right, in one sentence.
///
/// `Display` gives `file:line:column: sentence`, with line and column left out where they do not apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputError {
    file: String,
    line: u64,
    column: u64,
    sentence: String,
}

impl InputError {
    /// An error about a whole file (or about no file, when `file` is empty).
    pub fn in_file(file: &str, sentence: impl Into<String>) -> Self {
        Self::at(file, 0, 0, sentence)
    }

    /// An error at a line and column, both counted from 1; 0 means "does not apply".
    pub fn at(file: &str, line: u64, column: u64, sentence: impl Into<String>) -> Self {
        let sentence = sentence.into();
        InputError { file: file.to_owned(), line, column, sentence }
    }

    /// The file's name as the caller gave it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line, counted from 1, or 0 when the error is about the whole file.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The column, counted from 1, or 0 when the error is about the whole line.
    pub fn column(&self) -> u64 {
        self.column
    }

    /// The sentence without the place.
    pub fn sentence(&self) -> &str {
        &self.sentence
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}:", self.file)?;
            if self.line > 0 {
                write!(f, "{}:", self.line)?;
                if self.column > 0 {
                    write!(f, "{}:", self.column)?;
                }
            }
            f.write_str(" ")?;
        }
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for InputError {}
