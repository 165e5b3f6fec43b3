//! The experiments of papers: data files, and one engine that runs them.
//!
//! | part | holds |
//! | --- | --- |
//! | `papers/PAPER/paper.toml` | title, source and remarks of a paper |
//! | `papers/PAPER/FIGURE.toml` | one figure: device, budget, workload, schemes, what the paper reports |
//! | `file.rs` | the form of a figure file, and every mistake in one as a sentence |
//! | `plan.rs` | from a figure to experiments, each run once however many figures share it |
//! | `quantity.rs` | what can be read off a run |
//! | `claim.rs` | from quantities to the number a paper states, and how the two compare |
//! | `live/` | cases that real programs run on a live device |
//! | `show.rs` | tables, JSON, CSV; `report/paper.rs` makes the page with plots |
//!
//! The files are part of the program; `docs/papers.md` describes their form.

pub(crate) mod claim;
pub(crate) mod file;
pub(crate) mod live;
pub(crate) mod plan;
pub(crate) mod quantity;
pub(crate) mod show;

#[cfg(test)]
mod tests;

use file::{Figure, PaperFile};

/// `(paper, figure, text)`, in the order of names.
const FILES: &[(&str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/papers.rs"));

/// Name of the file that describes the paper itself.
const PAPER: &str = "paper";

/// Whether a run is for a quick look or at the paper's scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Quick,
    Full,
}

impl Scale {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scale::Quick => "quick",
            Scale::Full => "full",
        }
    }
}

/// A paper with its figures.
pub(crate) struct Paper {
    pub(crate) name: String,
    pub(crate) about: PaperFile,
    pub(crate) figures: Vec<Figure>,
}

/// Names of the papers.
pub(crate) fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = FILES.iter().map(|&(paper, ..)| paper).collect();
    names.dedup();
    names
}

/// Reads one paper's files, figures in their natural order (3 before 14a).
///
/// # Errors
/// There is no such paper, or a file is malformed: one sentence.
pub(crate) fn load(name: &str, scale: Scale) -> Result<Paper, String> {
    let mut about = None;
    let mut figures = Vec::new();
    for &(_, figure, text) in FILES.iter().filter(|(paper, ..)| *paper == name) {
        let file = format!("papers/{name}/{figure}.toml");
        if figure == PAPER {
            about = Some(file::paper(&file, text)?);
        } else {
            figures.push(file::figure(&file, figure, text, scale)?);
        }
    }
    figures.sort_by_key(|figure| natural(&figure.id));
    let Some(about) = about else {
        return Err(format!("there is no paper `{name}`; there are {}", names().join(", ")));
    };
    Ok(Paper { name: name.to_owned(), about, figures })
}

/// Digits of a figure's name count as a number.
fn natural(id: &str) -> (u32, String) {
    let digits: String = id.chars().take_while(char::is_ascii_digit).collect();
    (digits.parse().unwrap_or(0), id[digits.len()..].to_owned())
}
