//! Recorded block traces: recognised by content, read as a stream.
//!
//! Times are rebased to the first row. A step back of up to one second is jitter: the request arrives with
//! the one before it. A longer one starts another recording, which goes on where the last ended. So arrivals
//! never decrease and the order of the file is kept.
//!
//! A trace of several devices (SPC's ASU, MSR's disk, the device of MQSim ...) is laid out on ours with the
//! devices one behind the other, in the order of their names (numbers by value), each rounded up to 1 MiB;
//! this and [`AddressMap::Scale`] read the file twice, first for the extents. [`TraceOptions::device`] keeps
//! one device alone.
//!
//! blkparse's text holds each request several times. Dispatched requests (`D`) count when there is one in the
//! first MiB of text, else queued ones (`Q`). A write with a flush before it (`FW`) gives a flush and a
//! write.

mod binary;
mod columns;
mod fields;
mod format;
mod info;
mod lines;
mod options;
mod parquet;
mod write;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub use columns::Columns;
pub use format::Format;
pub use info::{info, Sketch, TraceInfo};
pub use lines::Compression;
pub use options::{AddressMap, Misfit, Ratio, TraceOptions};
pub use parquet::write_parquet;
pub use write::{write_fio_iolog, write_spc};

use crate::{InputError, Kind, Request};
use columns::Layout;
use fields::Bad;
use format::{Row, RowReader};
use lines::Lines;

const NEW_RECORDING_NS: u64 = 1_000_000_000;
const DEVICE_ALIGN: u64 = 1 << 20;
const SHOWN_BAD_ROWS: usize = 5;

/// The format and compression of a file.
///
/// Errors: the file cannot be read, or its format is not known.
pub fn detect(path: &Path) -> Result<(Format, Compression), InputError> {
    let options = TraceOptions::default();
    let lines = open_lines(path, &options)?;
    Ok((reader(path, &lines, &options)?.0, lines.compression()))
}

/// A trace being read: an iterator of requests.
///
/// An `Err` ends it: a file that cannot be read on, a request outside the device, or with
/// [`TraceOptions::strict`] the first bad row.
pub struct Trace {
    path: PathBuf,
    lines: Lines,
    rows: RowReader,
    format: Format,
    options: TraceOptions,
    devices: Devices,
    placement: Placement,
    clock: Clock,
    /// Requests yet to come out of the row read last.
    held: Option<Request>,
    row: u64,
    bad_rows: u64,
    bad_shown: Vec<InputError>,
    other_lines: u64,
    adjusted_rows: u64,
    done: bool,
}

/// Extents of the devices in a trace, found in a first pass.
#[derive(Debug, Clone, Default)]
struct Devices {
    extents: Vec<Extent>,
    last: usize,
}

#[derive(Debug, Clone)]
struct Extent {
    name: Vec<u8>,
    /// End of its last request.
    end: u64,
    base: u64,
}

#[derive(Debug, Clone, Copy)]
enum Placement {
    AsIs,
    Check { device: u64 },
    Wrap { device: u64 },
    Scale { device: u64, span: u64 },
}

/// Recorded time to arrival times.
#[derive(Debug, Clone)]
struct Clock {
    /// Recorded time of the row before, and its time since the first row.
    last: Option<(u64, u64)>,
    /// Time since the first row from which on rows are kept, ns.
    start: u64,
    /// Time since `start` of the row before, with its pauses cut.
    cut: u64,
    /// Arrivals count from here, in cut time.
    zero: Option<u64>,
}

impl Devices {
    fn find(&mut self, name: &[u8]) -> Option<usize> {
        if self.extents.get(self.last).is_some_and(|e| e.name == name) {
            return Some(self.last);
        }
        let found = self.extents.iter().position(|e| e.name == name)?;
        self.last = found;
        Some(found)
    }

    fn note(&mut self, row: &Row<'_>) {
        let at = self.find(row.device).unwrap_or_else(|| {
            self.extents.push(Extent { name: row.device.to_vec(), end: 0, base: 0 });
            self.extents.len() - 1
        });
        self.extents[at].end = self.extents[at].end.max(row.offset + row.bytes);
    }

    /// Gives each device its place and returns the bytes in use.
    fn lay_out(&mut self) -> u64 {
        self.extents.sort_by_cached_key(|e| (fields::integer(&e.name).unwrap_or(u64::MAX), e.name.clone()));
        self.last = 0;
        let mut at = 0u64;
        let mut span = 0;
        for extent in &mut self.extents {
            extent.base = at;
            span = at.saturating_add(extent.end);
            at = span.checked_next_multiple_of(DEVICE_ALIGN).unwrap_or(u64::MAX);
        }
        span
    }
}

impl Clock {
    /// Counts arrivals from the beginning of a time window, or from the first row that is kept.
    fn new(window: Option<&Range<u64>>) -> Clock {
        let start = window.map_or(0, |window| window.start);
        Clock { last: None, start, cut: 0, zero: window.map(|_| 0) }
    }

    /// Recorded time since the first row, never decreasing.
    fn tick(&mut self, time_ns: u64, max_gap_ns: Option<u64>) -> u64 {
        let (reference, before, now) = match self.last {
            None => (time_ns, 0, 0),
            Some((last, before)) if time_ns >= last => {
                (time_ns, before, before.saturating_add(time_ns - last))
            }
            // Jitter: the later time stays the reference, so that it is not counted twice.
            Some((last, before)) if last - time_ns <= NEW_RECORDING_NS => (last, before, before),
            Some((_, before)) => (time_ns, before, before),
        };
        self.last = Some((reference, now));
        let pause = now.saturating_sub(before.max(self.start));
        self.cut = self.cut.saturating_add(pause.min(max_gap_ns.unwrap_or(u64::MAX)));
        now
    }

    /// When the row before arrives: from the beginning of the window, with pauses cut.
    fn arrival_ns(&mut self) -> u64 {
        self.cut - *self.zero.get_or_insert(self.cut)
    }
}

fn open_lines(path: &Path, options: &TraceOptions) -> Result<Lines, InputError> {
    Lines::open(path, options.format, options.columns.is_some()).map_err(|error| {
        let what = if error.kind() == io::ErrorKind::UnexpectedEof {
            format!("the trace is cut off ({error}); give the whole file")
        } else {
            format!(
                "the trace cannot be read ({error}); name a readable file, plain, compressed with gzip, xz, zstd or \
                 bzip2, or Parquet"
            )
        };
        InputError::in_file(&path.display().to_string(), what)
    })
}

/// The format of the lines and what reads their rows.
fn reader(path: &Path, lines: &Lines, options: &TraceOptions) -> Result<(Format, RowReader), InputError> {
    let start = lines.peek();
    let wrong = |text: String| InputError::in_file(&path.display().to_string(), text);
    if start.is_empty() {
        return Err(wrong("the trace is empty; give a file that holds requests".to_owned()));
    }
    let found = match (&options.columns, options.format) {
        (Some(_), Some(format)) if !matches!(format, Format::Columns | Format::OracleGeneral) => {
            let name = format.name();
            return Err(wrong(format!(
                "option columns takes the place of the format {name}; give one of them"
            )));
        }
        (Some(columns), _) => {
            let layout = Layout::of(columns, start).map_err(wrong)?;
            return Ok((Format::Columns, RowReader::of_table(layout)));
        }
        (None, Some(Format::Columns)) => {
            let text = "the format columns needs option columns, such as time=1:us,op=3,lba=4:sectors,size=5";
            return Err(wrong(text.to_owned()));
        }
        (None, asked) => asked.or(lines.binary()).or_else(|| Format::of(start)),
    };
    let format = found.ok_or_else(|| {
        let told = [Format::Columns, Format::FlashSimSectors];
        let names: Vec<&str> = Format::ALL.iter().filter(|f| !told.contains(f)).map(|f| f.name()).collect();
        let first = start.split(|b| *b == b'\n').next().unwrap_or(start);
        wrong(format!(
            "the trace's format is not recognised: neither a header nor one of the first ten rows is one of {}; the first \
             row is {:?}; name its columns with option columns, such as time=1:us,op=3,lba=4:sectors,size=5:bytes",
            names.join(", "),
            String::from_utf8_lossy(&first[..first.len().min(60)])
        ))
    })?;
    Ok((format, RowReader::new(format, start)))
}

impl Trace {
    /// Opens a trace.
    ///
    /// Errors: the file cannot be read, the format is not known, options that contradict each other, a device
    /// that does not occur.
    pub fn open(path: impl AsRef<Path>, options: &TraceOptions) -> Result<Trace, InputError> {
        let path = path.as_ref();
        let lines = open_lines(path, options)?;
        let (format, rows) = reader(path, &lines, options)?;
        let file = path.display().to_string();
        let placement = match (options.address, options.device_bytes) {
            (AddressMap::AsIs, None) => Placement::AsIs,
            (AddressMap::AsIs, Some(device)) => Placement::Check { device },
            (_, None | Some(0)) => {
                return Err(InputError::in_file(
                    &file,
                    "wrapping or scaling addresses needs the size of the device; give one",
                ))
            }
            (AddressMap::Wrap, Some(device)) => Placement::Wrap { device },
            (AddressMap::Scale, Some(device)) => Placement::Scale { device, span: 0 },
        };
        let mut trace = Trace {
            path: path.to_owned(),
            lines,
            rows,
            format,
            options: options.clone(),
            devices: Devices::default(),
            placement,
            clock: Clock::new(options.time_window_ns.as_ref()),
            held: None,
            row: 0,
            bad_rows: 0,
            bad_shown: Vec::new(),
            other_lines: 0,
            adjusted_rows: 0,
            done: false,
        };
        if let (Some(device), false) = (&options.device, trace.rows.has_devices()) {
            let text = format!(
                "a trace of format {} has one device without a name; leave out device {device:?}",
                format.name()
            );
            return Err(InputError::in_file(&file, text));
        }
        if trace.rows.has_devices() || matches!(placement, Placement::Scale { .. }) {
            trace.measure()?;
        }
        Ok(trace)
    }

    /// The first pass: which devices there are and how far they reach.
    fn measure(&mut self) -> Result<(), InputError> {
        let mut lines = open_lines(&self.path, &self.options)?;
        let mut rows = self.rows.clone();
        while let Some(line) = lines.next().map_err(|e| self.unreadable(&e, 0))? {
            if let Ok(Some(row)) = rows.read(line) {
                self.devices.note(&row);
            }
        }
        if let Some(only) = &self.options.device {
            let names: Vec<String> =
                self.devices.extents.iter().map(|e| String::from_utf8_lossy(&e.name).into_owned()).collect();
            self.devices.extents.retain(|e| e.name == only.as_bytes());
            if self.devices.extents.is_empty() {
                let text = format!("there is no device {only:?} in this trace; it has {}", names.join(" "));
                return Err(InputError::in_file(&self.path.display().to_string(), text));
            }
        }
        let span = self.devices.lay_out();
        if span > 1 << 62 {
            let text = "the devices of this trace do not fit one behind the other; choose one of them";
            return Err(InputError::in_file(&self.path.display().to_string(), text));
        }
        if let Placement::Scale { device, .. } = self.placement {
            self.placement = Placement::Scale { device, span: span.max(1) };
        }
        Ok(())
    }

    fn unreadable(&self, error: &io::Error, line: u64) -> InputError {
        let text = format!("the trace cannot be read on ({error}); give a complete file");
        InputError::at(&self.path.display().to_string(), line, 0, text)
    }

    /// The format, recognised or given.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The compression, recognised.
    pub fn compression(&self) -> Compression {
        self.lines.compression()
    }

    /// The devices of the trace and where each was laid out: (name, first byte, bytes). Empty for formats
    /// without.
    pub fn devices(&self) -> Vec<(String, u64, u64)> {
        self.devices
            .extents
            .iter()
            .map(|e| (String::from_utf8_lossy(&e.name).into_owned(), e.base, e.end))
            .collect()
    }

    /// Good rows read so far, also those outside the windows.
    pub fn rows(&self) -> u64 {
        self.row
    }

    /// Rows left out so far because they were not understood.
    pub fn bad_rows(&self) -> u64 {
        self.bad_rows
    }

    /// The first few bad rows, with line and column.
    pub fn bad_samples(&self) -> &[InputError] {
        &self.bad_shown
    }

    /// Lines so far that hold no request: headers, comments, other events, summaries.
    pub fn other_lines(&self) -> u64 {
        self.other_lines
    }

    /// Rows so far from which one sector too many was taken off (Nexus 5).
    pub fn adjusted_rows(&self) -> u64 {
        self.adjusted_rows
    }

    fn error(&self, column: u64, sentence: String) -> InputError {
        InputError::at(&self.path.display().to_string(), self.lines.line(), column, sentence)
    }

    fn bad(&mut self, bad: Bad) -> Result<(), InputError> {
        let strict = self.options.strict;
        if strict || self.bad_shown.len() < SHOWN_BAD_ROWS {
            let text = format!("{}; a row of {} is {}", bad.what, self.format.name(), self.format.columns());
            let error = self.error(bad.column, text);
            if strict {
                return Err(error);
            }
            self.bad_shown.push(error);
        }
        self.bad_rows += 1;
        Ok(())
    }

    fn advance(&mut self) -> Result<Option<Request>, InputError> {
        if let Some(request) = self.held.take() {
            return Ok(Some(request));
        }
        loop {
            let read = match self.lines.next() {
                Ok(Some(line)) => self.rows.read(line),
                Ok(None) => return Ok(None),
                Err(e) => return Err(self.unreadable(&e, self.lines.line() + 1)),
            };
            let row = match read {
                Ok(Some(row)) => row,
                Ok(None) => {
                    self.other_lines += 1;
                    continue;
                }
                Err(bad) => {
                    self.bad(bad)?;
                    continue;
                }
            };
            self.adjusted_rows += u64::from(row.adjusted);
            let base = if self.rows.has_devices() {
                self.devices.find(row.device).map(|at| self.devices.extents[at].base)
            } else {
                Some(0)
            };
            let index = self.row;
            self.row += 1;
            let now = self.clock.tick(row.time_ns, self.options.max_gap_ns);
            let (kind, offset, bytes, flush_first) = (row.kind, row.offset, row.bytes, row.flush_first);
            if self.options.rows.as_ref().is_some_and(|w| index >= w.end)
                || self.options.time_window_ns.as_ref().is_some_and(|w| now >= w.end)
            {
                return Ok(None);
            }
            let early = self.options.rows.as_ref().is_some_and(|w| index < w.start)
                || self.options.time_window_ns.as_ref().is_some_and(|w| now < w.start);
            let Some(base) = base.filter(|_| !early) else { continue };
            let arrival_ns = self.options.time_scale.apply(self.clock.arrival_ns());
            if kind == Kind::Flush {
                return Ok(Some(Request::flush(arrival_ns)));
            }
            let offset = base + offset;
            let request = Request { arrival_ns, kind, offset, bytes };
            let request = self.place(request)?;
            if flush_first {
                self.held = Some(request);
                return Ok(Some(Request::flush(arrival_ns)));
            }
            return Ok(Some(request));
        }
    }

    fn place(&self, request: Request) -> Result<Request, InputError> {
        let (address, device, span) = match self.placement {
            Placement::AsIs => return Ok(request),
            Placement::Check { device } => (AddressMap::AsIs, device, 0),
            Placement::Wrap { device } => (AddressMap::Wrap, device, 0),
            Placement::Scale { device, span } => (AddressMap::Scale, device, span),
        };
        let offset =
            address.place(&request, device, span).map_err(|misfit| self.error(0, misfit.to_string()))?;
        Ok(Request { offset, ..request })
    }
}

impl Iterator for Trace {
    type Item = Result<Request, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.advance().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}
