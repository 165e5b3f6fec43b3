//! `ftl trace info`: a trace in numbers and as a picture.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use super::{Compression, Format, Trace, TraceOptions};
use crate::profile::{Collector, Profile};
use crate::{InputError, Kind, Request};

/// A trace in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceInfo {
    /// The file, as named.
    pub file: String,
    /// Its format.
    pub format: Format,
    /// Its compression.
    pub compression: Compression,
    /// Rows understood.
    pub rows: u64,
    /// Rows left out because they were not understood.
    pub bad_rows: u64,
    /// The first few of them, each as one sentence with its place.
    pub bad_samples: Vec<String>,
    /// Lines that hold no request: headers, comments, other events, summaries.
    pub other_lines: u64,
    /// Rows from which one sector too many was taken off (Nexus 5).
    pub adjusted_rows: u64,
    /// Devices of the trace: (name, first byte on ours, bytes).
    pub devices: Vec<(String, u64, u64)>,
    /// The requests in numbers.
    #[serde(flatten)]
    pub profile: Profile,
    /// Where they went, over time.
    pub sketch: Sketch,
}

/// Counts of reads and writes over time (columns, from the first arrival to the last) and address (rows, from
/// the highest down to the lowest), by where a request starts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sketch {
    /// Columns.
    pub columns: usize,
    /// Rows.
    pub rows: usize,
    /// `rows x columns`, row by row from the highest address.
    pub reads: Vec<u32>,
    /// The same for writes.
    pub writes: Vec<u32>,
    /// Lowest and highest byte.
    pub addresses: (u64, u64),
    /// The time that the columns cover, nanoseconds.
    pub duration_ns: u64,
}

/// Reads a trace twice, once for the numbers and once for the picture.
///
/// Errors: those of [`Trace::open`] and of reading it.
pub fn info(path: impl AsRef<Path>, options: &TraceOptions) -> Result<TraceInfo, InputError> {
    let path = path.as_ref();
    let mut trace = Trace::open(path, options)?;
    let mut collector = Collector::default();
    for request in &mut trace {
        collector.add(&request?);
    }
    let profile = collector.finish();
    let mut sketch = Sketch::new(72, 20, &profile);
    for request in Trace::open(path, options)? {
        sketch.add(&request?);
    }
    Ok(TraceInfo {
        file: path.display().to_string(),
        format: trace.format(),
        compression: trace.compression(),
        rows: trace.rows(),
        bad_rows: trace.bad_rows(),
        bad_samples: trace.bad_samples().iter().map(ToString::to_string).collect(),
        other_lines: trace.other_lines(),
        adjusted_rows: trace.adjusted_rows(),
        devices: trace.devices(),
        profile,
        sketch,
    })
}

impl Sketch {
    /// An empty grid for requests with this profile.
    pub fn new(columns: usize, rows: usize, profile: &Profile) -> Sketch {
        let cells = vec![0; columns * rows];
        let addresses = (profile.first_byte, profile.span_bytes.max(profile.first_byte.saturating_add(1)));
        Sketch {
            columns,
            rows,
            reads: cells.clone(),
            writes: cells,
            addresses,
            duration_ns: profile.duration_ns,
        }
    }

    /// Counts one request; trims and flushes are not drawn.
    pub fn add(&mut self, r: &Request) {
        let cells = match r.kind {
            Kind::Read => &mut self.reads,
            Kind::Write => &mut self.writes,
            Kind::Trim | Kind::Flush => return,
        };
        let part = |at: u64, of: u64, n: usize| {
            ((u128::from(at) * n as u128 / u128::from(of.max(1))) as usize).min(n - 1)
        };
        let column = part(r.arrival_ns, self.duration_ns.saturating_add(1), self.columns);
        let (low, high) = self.addresses;
        let row = self.rows - 1 - part(r.offset.saturating_sub(low), high - low, self.rows);
        let cell = &mut cells[row * self.columns + column];
        *cell = cell.saturating_add(1);
    }

    /// The grid as text: one panel for each kind that occurs, darker for more requests (each shade twice the
    /// share of the fullest cell, on a logarithmic scale).
    pub fn render(&self) -> String {
        let mut out = String::new();
        for (name, cells) in [("reads", &self.reads), ("writes", &self.writes)] {
            let most = cells.iter().copied().max().unwrap_or(0);
            if most > 0 {
                self.panel(&mut out, name, cells, most);
            }
        }
        out
    }

    fn panel(&self, out: &mut String, name: &str, cells: &[u32], most: u32) {
        const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];
        let total: u64 = cells.iter().map(|c| u64::from(*c)).sum();
        let (low, high) = self.addresses;
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{name}: {total}, at most {most} in a cell");
        for (i, row) in cells.chunks(self.columns).enumerate() {
            let label = match i {
                0 => size(high),
                _ if i + 1 == self.rows => size(low),
                _ => String::new(),
            };
            let line: String = row
                .iter()
                .map(|&c| match c {
                    0 => ' ',
                    c => {
                        let levels = (most.ilog2() + 1) as usize;
                        SHADES[(c.ilog2() as usize * SHADES.len() / levels).min(SHADES.len() - 1)]
                    }
                })
                .collect();
            let _ = writeln!(out, "{label:>10} │{line}│");
        }
        let end = format!("{:.1} s", self.duration_ns as f64 / 1e9);
        let _ = writeln!(out, "{:>10}  0{end:>width$}", "", width = self.columns.saturating_sub(1));
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        b if b >= 10 << 30 => format!("{} GiB", b >> 30),
        b if b >= 10 << 20 => format!("{} MiB", b >> 20),
        b => format!("{} KiB", b >> 10),
    }
}
