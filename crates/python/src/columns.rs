//! Columns of numbers as a source of requests: read where they lie, some rows at a time, and not copied as a
//! whole.

use std::sync::Arc;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;
use sim::setup::Given;
use sim::{Requests, Source};
use workload::{InputError, Kind, Request};

use crate::errors::Class;

/// Rows read at a time: the GIL is held for so many.
const STEP: usize = 1 << 16;

struct Buffers {
    name: String,
    /// Arrival, ns; `None`: there are no arrival times.
    times: Option<PyBuffer<i64>>,
    /// By [`Kind::index`].
    kinds: PyBuffer<u8>,
    /// First places, in units of `unit` bytes.
    places: PyBuffer<i64>,
    /// Lengths, bytes.
    sizes: PyBuffer<i64>,
    unit: i64,
    rows: usize,
    /// Time of the first row, ns.
    zero: i64,
}

impl Buffers {
    /// The request of a row, or what is wrong with it.
    fn request(&self, time: i64, kind: u8, place: i64, size: i64) -> Result<Request, String> {
        let kind =
            *Kind::ALL.get(usize::from(kind)).ok_or_else(|| format!("{kind} is no kind of request"))?;
        let arrival_ns = time.checked_sub(self.zero).and_then(|ns| u64::try_from(ns).ok());
        let arrival_ns =
            arrival_ns.ok_or_else(|| format!("its time, {time} ns, is before that of the first row"))?;
        if kind == Kind::Flush {
            return Ok(Request::flush(arrival_ns));
        }
        let offset = place.checked_mul(self.unit).and_then(|offset| u64::try_from(offset).ok());
        let offset = offset.ok_or_else(|| {
            format!(
                "its place, {place} x {} bytes, is negative or past any device; give one from 0",
                self.unit
            )
        })?;
        let bytes = u64::try_from(size).ok().filter(|&bytes| bytes > 0);
        let bytes = bytes.ok_or_else(|| format!("its size is {size} bytes; give a whole number from 1"))?;
        if offset.checked_add(bytes).is_none() {
            return Err(format!("it ends beyond 16 EiB (place {offset}, {bytes} bytes)"));
        }
        Ok(Request { arrival_ns, kind, offset, bytes })
    }

    /// Sets `to` to the rows from `first` on, as many as there are up to [`STEP`].
    fn read(&self, py: Python<'_>, first: usize, to: &mut Vec<Request>) -> Result<(), String> {
        let last = self.rows.min(first + STEP);
        let (kinds, places) = (part(py, &self.kinds, first, last)?, part(py, &self.places, first, last)?);
        let sizes = part(py, &self.sizes, first, last)?;
        let times = self.times.as_ref().map(|times| part(py, times, first, last)).transpose()?;
        to.clear();
        for row in 0..last - first {
            let time = times.map_or(self.zero, |times| times[row].get());
            let request = self.request(time, kinds[row].get(), places[row].get(), sizes[row].get());
            to.push(request.map_err(|what| format!("row {}: {what}", first + row))?);
        }
        Ok(())
    }
}

fn part<'a, T: Element>(
    py: Python<'a>,
    buffer: &'a PyBuffer<T>,
    first: usize,
    last: usize,
) -> Result<&'a [pyo3::buffer::ReadOnlyCell<T>], String> {
    let whole = buffer.as_slice(py).ok_or("a column is not contiguous")?;
    whole.get(first..last).ok_or_else(|| "a column has become shorter".to_owned())
}

struct Frame(Arc<Buffers>);

impl Source for Frame {
    fn name(&self) -> String {
        self.0.name.clone()
    }

    fn requests(&self, _device_bytes: u64, _seed: u64) -> Result<Requests, InputError> {
        let (buffers, mut read) = (Arc::clone(&self.0), Vec::with_capacity(STEP.min(self.0.rows)));
        let (mut row, mut done) = (0, false);
        Ok(Box::new(std::iter::from_fn(move || {
            let at = row % STEP;
            if row == buffers.rows || done {
                return None;
            }
            if at == 0 {
                if let Err(what) = Python::attach(|py| buffers.read(py, row, &mut read)) {
                    done = true;
                    return Some(Err(InputError::in_file(&buffers.name, what)));
                }
            }
            row += 1;
            read.get(at).copied().map(Ok)
        })))
    }

    fn count(&self) -> Option<u64> {
        Some(self.0.rows as u64)
    }
}

/// Requests that lie in memory as columns.
#[pyclass(frozen, module = "ftlkit._ftlkit")]
pub(crate) struct Columns {
    pub(crate) given: Given,
}

#[pymethods]
impl Columns {
    /// Looks through all rows, so that whatever is wrong is told of before anything runs.
    #[new]
    #[pyo3(signature = (name, times, kinds, places, sizes, unit))]
    fn new(
        py: Python<'_>,
        name: String,
        times: Option<PyBuffer<i64>>,
        kinds: PyBuffer<u8>,
        places: PyBuffer<i64>,
        sizes: PyBuffer<i64>,
        unit: i64,
    ) -> PyResult<Columns> {
        let wrong = |what: String| Class::Input.error(py, format!("{name}: {what}"));
        let rows = kinds.item_count();
        let lengths = [
            places.item_count(),
            sizes.item_count(),
            times.as_ref().map_or(rows, |times| times.item_count()),
        ];
        if lengths.iter().any(|&length| length != rows) {
            return Err(wrong(
                "the columns differ in length; give one value of each for every request".to_owned(),
            ));
        }
        if rows == 0 {
            return Err(wrong("there is no request to run: the columns are empty".to_owned()));
        }
        let zero = match &times {
            Some(times) => part(py, times, 0, 1).map_err(wrong)?[0].get(),
            None => 0,
        };
        let buffers = Buffers { name: name.clone(), times, kinds, places, sizes, unit, rows, zero };
        let (mut read, mut end, mut duration_ns) = (Vec::new(), 0, 0);
        for first in (0..rows).step_by(STEP) {
            buffers.read(py, first, &mut read).map_err(wrong)?;
            for (row, request) in (first..).zip(&read) {
                if request.arrival_ns < duration_ns {
                    return Err(wrong(format!(
                        "row {row}: its time is before that of the row before; sort them by time"
                    )));
                }
                (end, duration_ns) = (request.end().max(end), request.arrival_ns);
            }
        }
        let source = Arc::new(Frame(Arc::new(buffers)));
        Ok(Columns { given: Given { source, end, duration_ns } })
    }

    /// How many requests there are.
    fn __len__(&self) -> usize {
        self.given.source.count().and_then(|rows| usize::try_from(rows).ok()).unwrap_or(0)
    }
}
