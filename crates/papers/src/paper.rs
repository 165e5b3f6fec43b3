//! Papers: those whose files are built in, and figures of somebody's own.

use std::path::Path;

use crate::error::PaperError;
use crate::file::{self, Figure, PaperFile, Scale};

/// `(paper, figure, text)`, in the order of names.
const FILES: &[(&str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/papers.rs"));

/// Name of the file that describes the paper itself.
const PAPER: &str = "paper";

/// A paper with its figures.
#[derive(Clone, Debug)]
pub struct Paper {
    /// Its name on the command line; `own` for a figure file of somebody's own.
    pub name: String,
    /// Title, source and remarks.
    pub about: PaperFile,
    /// Its figures and tables in natural order: 3 before 14a.
    pub figures: Vec<Figure>,
}

/// Names of the papers that are built in, in alphabetical order.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = FILES.iter().map(|&(paper, ..)| paper).collect();
    names.dedup();
    names
}

/// Reads one of the papers that are built in.
///
/// # Errors
/// There is no such paper, or a file is malformed.
pub fn load(name: &str, scale: Scale) -> Result<Paper, PaperError> {
    let mut about = None;
    let mut figures = Vec::new();
    for &(_, figure, text) in FILES.iter().filter(|(paper, ..)| *paper == name) {
        let file = format!("{name}/{figure}.toml");
        if figure == PAPER {
            about = Some(file::paper(&file, text)?);
        } else {
            figures.push(file::figure(&file, figure, text, scale)?);
        }
    }
    figures.sort_by_key(|figure| natural(&figure.id));
    let about = about.ok_or_else(|| PaperError::Unknown { name: name.to_owned(), known: names() })?;
    Ok(Paper { name: name.to_owned(), about, figures })
}

/// The text of a figure file of somebody's own, as a paper of one figure.
///
/// # Errors
/// The text is malformed.
pub fn own(file: &str, text: &str, scale: Scale) -> Result<Paper, PaperError> {
    let id = Path::new(file).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let figure = file::figure(file, &id, text, scale)?;
    let about = PaperFile { title: figure.title.clone(), source: figure.source.clone(), notes: Vec::new() };
    Ok(Paper { name: "own".to_owned(), about, figures: vec![figure] })
}

/// The same from a file.
///
/// # Errors
/// The file cannot be read or is malformed.
pub fn open(file: &str, scale: Scale) -> Result<Paper, PaperError> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| PaperError::Unreadable { file: file.to_owned(), error })?;
    own(file, &text, scale)
}

/// Digits of a figure's name count as a number.
fn natural(id: &str) -> (u32, String) {
    let digits: String = id.chars().take_while(char::is_ascii_digit).collect();
    (digits.parse().unwrap_or(0), id[digits.len()..].to_owned())
}
