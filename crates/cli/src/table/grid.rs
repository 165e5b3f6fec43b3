//! A table before it is drawn: the terminal and the HTML page draw the same cells.

use comfy_table::{presets::UTF8_BORDERS_ONLY, CellAlignment, ContentArrangement, Table};

use sim::format::NOTHING;

/// Columns a terminal is assumed to have.
pub const WIDTH: u16 = 120;

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

    /// Drawn for a terminal of [`WIDTH`] columns: spare columns go first, and only then are cells broken.
    pub fn text(&self) -> String {
        let mut grid = self.clone();
        let mut drawn = grid.drawn(ContentArrangement::Disabled);
        for spare in &self.spare {
            if fits(&drawn) {
                break;
            }
            let keep: Vec<bool> = grid.header.iter().map(|column| column != spare).collect();
            grid = grid.keep(&keep);
            drawn = grid.drawn(ContentArrangement::Disabled);
        }
        if !fits(&drawn) {
            drawn = grid.drawn(ContentArrangement::Dynamic);
        }
        let title =
            if self.title.is_empty() { String::new() } else { format!("{}\n", printable(&self.title)) };
        format!("{title}{drawn}\n")
    }

    fn drawn(&self, arrangement: ContentArrangement) -> String {
        let mut table = Table::new();
        table
            .load_preset(UTF8_BORDERS_ONLY)
            .set_content_arrangement(arrangement)
            .set_width(WIDTH)
            .set_header(self.header.iter().map(|cell| printable(cell)));
        for row in &self.rows {
            table.add_row(row.iter().map(|cell| printable(cell)));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table.trim_fmt()
    }
}

fn fits(drawn: &str) -> bool {
    drawn.lines().all(|line| line.chars().count() <= usize::from(WIDTH))
}

/// Text without control characters, which could move a terminal's cursor or change its state.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
