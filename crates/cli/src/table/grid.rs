//! A table before it is drawn: the terminal and the HTML page draw the same cells.

use std::ops::Range;
use std::sync::OnceLock;

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table};

use sim::format::NOTHING;

/// Columns of a table at most, and where standard output is no terminal.
pub const WIDTH: u16 = 120;
/// Columns of a table at least, however narrow the terminal is.
const NARROWEST: u16 = 60;
/// Columns that a first column of long names keeps when it is wrapped.
const NAMES: usize = 24;

/// A titled table of finished cells. The first column names the row; the others are numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// What the table shows; may be empty.
    pub title: String,
    /// Column headings.
    pub header: Vec<String>,
    /// Cells, a row for each line; every row is as long as the header.
    pub rows: Vec<Vec<String>>,
    /// Columns a narrow terminal does without, by heading, the least needed first.
    pub spare: Vec<String>,
}

impl Grid {
    /// An empty table.
    pub fn new(title: impl Into<String>, header: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let header = header.into_iter().map(Into::into).collect();
        Grid { title: title.into(), header, rows: Vec::new(), spare: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When it has another number of cells than the header.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.header.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// Names the columns a narrow terminal does without, the least needed first.
    pub fn spare(mut self, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.spare = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Without the columns that say nothing in any row.
    pub fn compact(self) -> Self {
        let says =
            |column: usize| self.rows.iter().any(|row| row[column] != NOTHING && !row[column].is_empty());
        let keep: Vec<bool> = (0..self.header.len()).map(|column| column == 0 || says(column)).collect();
        self.keep(&keep)
    }

    fn keep(mut self, keep: &[bool]) -> Self {
        for cells in std::iter::once(&mut self.header).chain(&mut self.rows) {
            let mut kept = keep.iter();
            cells.retain(|_| *kept.next().unwrap_or(&false));
        }
        self
    }

    /// Whether there is nothing beside the names of the rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() || self.header.len() < 2
    }

    /// Drawn for the terminal.
    pub fn text(&self) -> String {
        self.text_in(width())
    }

    /// Drawn in so many columns: spare columns go first. Then long names are wrapped, or the table is cut
    /// into several that have the names in common. No number is broken.
    fn text_in(&self, width: u16) -> String {
        let mut grid = self.clone();
        for spare in &self.spare {
            if grid.fits(width) {
                break;
            }
            let keep: Vec<bool> = grid.header.iter().map(|column| column != spare).collect();
            grid = grid.keep(&keep);
        }
        let drawn: Vec<String> = grid.parts(width).iter().map(|part| part.drawn(width)).collect();
        let title =
            if self.title.is_empty() { String::new() } else { format!("{}\n", printable(&self.title)) };
        format!("{title}{}\n", drawn.join("\n"))
    }

    /// Width of each column, with what is around it.
    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| &row[column]).chain([&self.header[column]]);
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0) + 3
        };
        (0..self.header.len()).map(width).collect()
    }

    fn fits(&self, width: u16) -> bool {
        self.widths().iter().sum::<usize>() < usize::from(width)
    }

    /// Tables that fit and hold all columns between them.
    fn parts(&self, width: u16) -> Vec<Grid> {
        let widths = self.widths();
        // A second column without a heading says which of several rows of a name it is.
        let names = 1 + usize::from(self.header.get(1).is_some_and(String::is_empty));
        let room = usize::from(width).saturating_sub(NAMES + 4);
        let first = widths.first().map_or(0, |first| *first.min(&(NAMES + 3)));
        let fixed = first + widths.iter().take(names).skip(1).sum::<usize>();
        if widths.iter().skip(1).sum::<usize>() <= room || self.header.len() <= names + 1 {
            return vec![self.clone()];
        }
        let mut parts = Vec::new();
        let mut from = names;
        while from < widths.len() {
            let mut to = from + 1;
            while to < widths.len() && fixed + widths[from..=to].iter().sum::<usize>() < usize::from(width) {
                to += 1;
            }
            parts.push(self.part(names, from..to));
            from = to;
        }
        parts
    }

    /// The first `names` columns and these.
    fn part(&self, names: usize, columns: Range<usize>) -> Grid {
        let keep: Vec<bool> = (0..self.header.len()).map(|at| at < names || columns.contains(&at)).collect();
        self.clone().keep(&keep)
    }

    fn drawn(&self, width: u16) -> String {
        let mut table = Table::new();
        let fits = self.fits(width);
        table
            .load_preset(UTF8_BORDERS_ONLY)
            .set_content_arrangement(if fits {
                ContentArrangement::Disabled
            } else {
                ContentArrangement::Dynamic
            })
            .set_width(width)
            .set_header(self.header.iter().map(|cell| printable(cell)));
        for row in &self.rows {
            table.add_row(row.iter().map(|cell| printable(cell)));
        }
        let only = self.header.len() == 2;
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
            // Where there are several, only names are wrapped.
            if !only {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        table.trim_fmt()
    }
}

/// Columns of the terminal that standard output is, within reason.
fn width() -> u16 {
    static COLUMNS: OnceLock<u16> = OnceLock::new();
    *COLUMNS.get_or_init(|| {
        let columns = terminal_size::terminal_size().map_or(WIDTH, |(width, _)| width.0);
        columns.clamp(NARROWEST, WIDTH)
    })
}

/// Text without control characters, which could move a terminal's cursor or change its state.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(name: &str) -> Grid {
        let columns = ["scheme", "", "IOPS", "mean", "p50", "p99", "p99.9", "max", "in flight"];
        let mut grid = Grid::new("Speed", columns).spare(["in flight"]);
        for kind in ["read", "write"] {
            let cells = ["12.3 K", "123.4 ms", "12.3 ms", "123.4 ms", "543.2 ms", "1.23 s", "64.0"];
            grid.row([name, kind].into_iter().chain(cells).map(str::to_owned));
        }
        grid
    }

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn a_narrow_terminal_breaks_no_number() {
        let grid = grid("tpftl:techniques=rs");
        assert!(grid.text_in(120).contains("in flight"));
        for width in [60, 80, 100] {
            let text = grid.text_in(width);
            assert!(widest(&text) <= usize::from(width), "{width}:\n{text}");
            assert!(!text.contains("in flight"));
            for cell in ["12.3 K", "123.4 ms", "543.2 ms", "1.23 s"] {
                assert_eq!(text.matches(cell).count() % 2, 0, "{cell}:\n{text}");
                assert!(text.contains(cell), "{cell}:\n{text}");
            }
            let tables = text.matches("scheme").count();
            assert_eq!(text.matches("tpftl:techniques=rs").count(), 2 * tables, "{text}");
        }
        assert!(grid.text_in(60).matches("scheme").count() > 1);
    }

    #[test]
    fn long_names_are_wrapped_and_nothing_else() {
        let mut grid = Grid::new("", ["claim", "paper", "ours", "verdict"]);
        let claim = "the ratio of the one scheme over the other scheme with eight threads of random reads";
        grid.row([claim, "1.40", "1.38", "same direction, smaller"].map(str::to_owned));
        let text = grid.text_in(80);
        assert!(widest(&text) <= 80, "{text}");
        assert!(text.contains("same direction, smaller") && text.contains("1.40"), "{text}");
        assert!(text.lines().count() > 5, "{text}");
    }
}
