//! Live devices: images, and an NBD server in a thread.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use live::{
    Address, Ended, Export, Listeners, LiveError, Opening, PowerOffError, Served, Settings, Snapshot, Stop,
};
use pyo3::prelude::*;
use serde_json::json;
use sim::setup::SchemeSpec;
use sim::CacheSize;

use crate::errors::Class;

fn raised(py: Python<'_>, error: &LiveError) -> PyErr {
    let class = match error {
        LiveError::Image(_) | LiveError::Host { .. } => Class::File,
        LiveError::Open { .. } => Class::Device,
        LiveError::Panicked { .. } => Class::Finding,
        _ => Class::Input,
    };
    class.error(py, error)
}

/// Makes the image of a fresh device: device, scheme, exported bytes, cache, erases that wear may differ by.
#[pyfunction]
pub(crate) fn create_image(
    py: Python<'_>,
    path: PathBuf,
    device: &str,
    scheme: &str,
    export: Option<&str>,
    cache: Option<&str>,
    wear_gap: u32,
) -> PyResult<()> {
    let wrong = |error: &dyn std::fmt::Display| Class::Input.error(py, error);
    let mut device = nand::DeviceSpec::load(device).map_err(|error| wrong(&error))?;
    if let Some(export) = export {
        let bytes = nand::parse_size(export).map_err(|error| wrong(&error))?;
        device = device.with_exported_bytes(bytes).map_err(|error| wrong(&error))?;
    }
    let scheme: SchemeSpec = scheme.parse().map_err(|error| wrong(&error))?;
    let cache = cache.map(str::parse::<CacheSize>).transpose().map_err(|error| wrong(&error))?;
    let cache = cache.unwrap_or(device.sram_bytes.map_or(CacheSize::Share(0.03), CacheSize::Bytes));
    let bytes = cache.bytes(device.exported_pages).map_err(|error| wrong(&error))?;
    let settings = Settings { parameters: scheme.parameters, wear_gap, ..Settings::new(&scheme.name, bytes) };
    py.detach(|| live::create(&path, &device, &settings)).map_err(|error| raised(py, &error))
}

/// What an image says of itself, as JSON.
#[pyfunction]
pub(crate) fn describe_image(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let (device, settings) = live::describe(&path).map_err(|error| raised(py, &error))?;
    let found = json!({
        "device": device.name, "scheme": settings.scheme, "parameters": settings.parameters,
        "cache_bytes": settings.cache_bytes, "wear_gap": settings.wear_gap, "exported_bytes": device.exported_bytes(),
        "raw_bytes": device.raw_bytes(), "page_bytes": device.geometry.page_bytes,
    });
    Ok(found.to_string())
}

/// How a server thread ended, and how the device was switched off.
type Off = (std::thread::Result<Result<Ended, LiveError>>, Result<(), PowerOffError>);

/// A server thread.
type Thread = JoinHandle<Result<Ended, LiveError>>;

/// A device that is switched on and served over NBD.
#[pyclass(frozen, module = "ftlkit._ftlkit")]
pub(crate) struct Server {
    export: Arc<dyn Export>,
    addresses: Vec<Address>,
    stop: Stop,
    /// `None`: it has ended.
    thread: Mutex<Option<Thread>>,
    /// Who serves. A process that was forked has a copy of this, and not the thread.
    process: u32,
}

impl Server {
    /// Ends the thread, and switches the device off; `None`: it has ended before.
    fn end(&self) -> Option<Off> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        self.stop.ask();
        Some((thread.join(), self.export.power_off()))
    }

    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        let off = || Class::Device.error(py, "the device is switched off");
        py.detach(|| self.export.snapshot()).ok_or_else(off)
    }
}

/// A device that nobody holds any more is served no longer, and its image is free.
impl Drop for Server {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.end();
        }
    }
}

/// A path as the query of a URI has it: all but letters, digits, `/` and what needs no escape is escaped.
fn encoded(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let byte = |&byte: &u8| match byte {
        byte if plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    path.as_os_str().as_encoded_bytes().iter().map(byte).collect()
}

fn open(path: &Path, address: Address, how: Opening) -> Result<Server, LiveError> {
    let listeners = Listeners::bind(&[address])?;
    let stop = Stop::new()?;
    let (export, _) = live::open(path, how)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let served = Served { name, description: "ftlkit".to_owned(), export: export.clone() };
    let addresses = listeners.addresses().to_vec();
    let asked = stop.clone();
    let server = std::thread::Builder::new().name("ftlkit nbd".to_owned());
    let thread = server.spawn(move || live::nbd::serve(&listeners, vec![served], &asked));
    let thread =
        thread.map_err(|error| LiveError::Host { what: "a thread cannot be started".to_owned(), error })?;
    Ok(Server { export, addresses, stop, thread: Mutex::new(Some(thread)), process: std::process::id() })
}

#[pymethods]
impl Server {
    /// Opens an image, which recovers what a crash left, and serves it.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, address: &str, paced: bool, read_only: bool) -> PyResult<Server> {
        let address = address.parse::<Address>().map_err(|error| Class::Input.error(py, error))?;
        py.detach(|| open(&path, address, Opening { paced, read_only })).map_err(|error| raised(py, &error))
    }

    /// Where clients connect, as URIs of NBD.
    fn uris(&self) -> Vec<String> {
        let uri = |address: &Address| match address {
            Address::Unix(path) => format!("nbd+unix:///?socket={}", encoded(path)),
            Address::Tcp(at) => format!("nbd://{at}"),
        };
        self.addresses.iter().map(uri).collect()
    }

    /// What the device has counted since it was switched on, as a phase of a run, in JSON.
    fn counted(&self, py: Python<'_>) -> PyResult<String> {
        let Snapshot { counters, stats, .. } = self.snapshot(py)?;
        let phase = sim::counted("live", &counters, stats);
        let mut value = serde_json::to_value(&phase).map_err(|error| Class::Input.error(py, error))?;
        value["derived"] =
            serde_json::to_value(phase.derived()).map_err(|error| Class::Input.error(py, error))?;
        Ok(value.to_string())
    }

    /// What the device counts, as text for Prometheus.
    fn metrics(&self, py: Python<'_>) -> PyResult<String> {
        Ok(live::render(&[("device".to_owned(), self.snapshot(py)?)]))
    }

    /// Ends the server, and switches the device off in good order. Asking again changes nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(ended) = py.detach(|| self.end()) else { return Ok(()) };
        let (Ok(served), off) = ended else {
            return Err(Class::Finding.error(py, "the thread of the server panicked"));
        };
        let served = served.map_err(|error| raised(py, &error))?;
        if let Some(panic) = served.panic {
            let what =
                format!("the scheme or the array panicked: {panic}; the next start recovers the image");
            return Err(Class::Finding.error(py, what));
        }
        off.map_err(|error| Class::Device.error(py, format!("not switched off in good order ({error})")))
    }
}
