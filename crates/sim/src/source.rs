//! Where a phase's requests come from, and the rings in which they wait a few ahead of their turn.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use workload::fio::JobStream;
use workload::synth::Synth;
use workload::trace::{Trace, TraceOptions};
use workload::{InputError, Request};

/// Requests that wait in the rings of all jobs of a phase together: far enough ahead that the memory which
/// the mapping of one lies in has arrived before its turn, and few enough to stay in the processor's cache.
const AHEAD: usize = 1024;
/// Requests that are spoken of again shortly before their turn, in all jobs together.
const SOON: usize = 48;

/// Requests in the order in which they arrive, or the reason why there are no more.
pub type Requests = Box<dyn Iterator<Item = Result<Request, InputError>> + Send>;

/// A recorded or generated sequence of requests that can be begun again for every run that is compared.
pub trait Source: Send + Sync {
    /// What it is, in a few words.
    fn name(&self) -> String;

    /// The requests from the beginning, on a device of `device_bytes`. The same seed gives the same requests.
    ///
    /// # Errors
    /// A file that cannot be read, or addresses that do not fit.
    fn requests(&self, device_bytes: u64, seed: u64) -> Result<Requests, InputError>;

    /// How many there will be, for a progress bar; `None` when nobody knows.
    fn count(&self) -> Option<u64> {
        None
    }
}

/// A list of requests as a [`Source`].
#[derive(Clone, Debug)]
pub struct Listed {
    name: String,
    requests: Arc<[Request]>,
}

impl Listed {
    /// `requests`, with their arrival times ascending.
    pub fn new(name: impl Into<String>, requests: impl Into<Arc<[Request]>>) -> Listed {
        Listed { name: name.into(), requests: requests.into() }
    }
}

impl Source for Listed {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn requests(&self, _device_bytes: u64, _seed: u64) -> Result<Requests, InputError> {
        let requests = Arc::clone(&self.requests);
        Ok(Box::new((0..requests.len()).map(move |index| Ok(requests[index]))))
    }

    fn count(&self) -> Option<u64> {
        Some(self.requests.len() as u64)
    }
}

/// A trace file as a [`Source`]. Addresses are checked against the device, unless the options map them onto
/// it.
#[derive(Clone, Debug)]
pub struct TraceFile {
    path: PathBuf,
    options: TraceOptions,
    left_out: Arc<Mutex<LeftOut>>,
}

/// Rows of a trace that gave no request.
#[derive(Clone, Debug, Default)]
pub struct LeftOut {
    /// Rows read and understood.
    pub rows: u64,
    /// Rows that were not understood.
    pub bad_rows: u64,
    /// The first few of them, with line and column.
    pub samples: Vec<InputError>,
}

impl TraceFile {
    /// The trace at `path`.
    pub fn new(path: impl Into<PathBuf>, options: TraceOptions) -> TraceFile {
        TraceFile { path: path.into(), options, left_out: Arc::default() }
    }

    /// What the last complete reading left out.
    pub fn left_out(&self) -> LeftOut {
        self.left_out.lock().map(|left_out| left_out.clone()).unwrap_or_default()
    }
}

impl Source for TraceFile {
    fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }

    fn requests(&self, device_bytes: u64, _seed: u64) -> Result<Requests, InputError> {
        let mut options = self.options.clone();
        options.device_bytes = Some(device_bytes);
        let mut trace = Trace::open(&self.path, &options)?;
        let left_out = Arc::clone(&self.left_out);
        Ok(Box::new(std::iter::from_fn(move || {
            let request = trace.next();
            if request.is_none() {
                if let Ok(mut left_out) = left_out.lock() {
                    (left_out.rows, left_out.bad_rows) = (trace.rows(), trace.bad_rows());
                    left_out.samples = trace.bad_samples().to_vec();
                }
            }
            request
        })))
    }
}

/// A generator of `workload::synth` as a [`Source`]; addresses past the end of a small device wrap.
#[derive(Clone, Debug)]
pub struct Synthetic {
    synth: &'static Synth,
    requests: u64,
}

impl Synthetic {
    /// `requests` requests of the generator called `name`.
    ///
    /// # Errors
    /// There is no such generator.
    pub fn new(name: &str, requests: u64) -> Result<Synthetic, InputError> {
        Ok(Synthetic { synth: Synth::find(name)?, requests })
    }
}

impl Source for Synthetic {
    fn name(&self) -> String {
        self.synth.name.to_owned()
    }

    fn requests(&self, device_bytes: u64, seed: u64) -> Result<Requests, InputError> {
        let wrap = move |request: Request| {
            let bytes = request.bytes.min(device_bytes);
            let offset = (request.offset % device_bytes.max(1)).min(device_bytes - bytes);
            Ok(Request { offset, bytes, ..request })
        };
        Ok(Box::new(self.synth.stream_on(self.requests, seed, device_bytes).map(wrap)))
    }

    fn count(&self) -> Option<u64> {
        Some(self.requests)
    }
}

/// A sequence of requests under way. Chosen between once per filling of a ring.
pub(crate) enum Stream {
    Fio(Box<JobStream>),
    Listed(Requests),
}

impl Stream {
    /// What the host will ask for, one request after the other.
    pub(crate) fn requests(self) -> Requests {
        match self {
            Stream::Fio(requests) => Box::new(requests.map(Ok)),
            Stream::Listed(requests) => requests,
        }
    }

    /// The same requests without their arrival times: each may be issued as soon as there is room.
    pub(crate) fn closed(requests: Requests) -> Stream {
        Stream::Listed(Box::new(requests.map(|request| request.map(|r| Request { arrival_ns: 0, ..r }))))
    }
}

/// The next requests of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    requests: Vec<Request>,
    at: usize,
    soon: usize,
    most: usize,
}

impl Ring {
    /// One of `rings` that are emptied in turn.
    pub(crate) fn new(rings: usize) -> Ring {
        let most = (AHEAD / rings.max(1)).clamp(16, 128);
        let soon = (SOON / rings.max(1)).clamp(1, 16);
        Ring { requests: Vec::with_capacity(most), at: 0, soon, most }
    }

    /// Takes the next request; `None`: draw more.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Request> {
        let request = self.requests.get(self.at).copied()?;
        self.at += 1;
        Some(request)
    }

    /// The request whose turn comes soon, now that one was taken.
    #[inline]
    pub(crate) fn soon(&self) -> Option<&Request> {
        self.requests.get(self.at + self.soon - 1)
    }

    /// All that wait, and how many of them come soon.
    pub(crate) fn waiting(&self) -> (&[Request], usize) {
        let waiting = &self.requests[self.at..];
        (waiting, waiting.len().min(self.soon))
    }

    /// Fills an empty ring. It stays empty when the stream has ended.
    pub(crate) fn draw(&mut self, stream: &mut Stream) -> Result<(), InputError> {
        self.at = 0;
        self.requests.clear();
        match stream {
            Stream::Fio(requests) => requests.draw(self.most, &mut self.requests),
            Stream::Listed(requests) => {
                for request in requests.take(self.most) {
                    self.requests.push(request?);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_passes_every_request_on_in_order() {
        let wanted: Vec<_> = workload::warm_up::FILL.requests(1 << 30, 1).collect();
        let source = Listed::new("list", wanted.clone());
        let mut stream = Stream::Listed(source.requests(1000, 0).expect("a list opens"));
        let (mut ring, mut got) = (Ring::new(1), Vec::new());
        loop {
            match ring.take() {
                Some(request) => got.push(request),
                None => {
                    ring.draw(&mut stream).expect("a list has no errors");
                    if ring.waiting().0.is_empty() {
                        break;
                    }
                }
            }
        }
        assert_eq!(got, wanted);
    }
}
