//! A mapping written in Python, in the real engine: [`ftl::Scheme`] for a Python object.
//!
//! The engine makes a mapping by its type alone, so the class waits in [`RUN`] while a run is under way. The
//! object reaches flash through [`TranslationTable`], which leads to the flash of the call under way
//! ([`DOOR`]) and to none between calls. What Python raises ends the run as a panic would; the exception is
//! kept.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ftl::engine::{Ftl, Placement};
use ftl::mapping::{Ask, Change, How, Lookup, Mapping, Moved, Pages, Unit, Update};
use ftl::recover::Recovery;
use ftl::space::Stream;
use ftl::table::{entry, entry_in, mapped, Table};
use ftl::Breach;
use ftl::{Cause, Config, ConfigError, Flash, Info, Memory};
use nand::{Done, Fault, Lpn, Nand, Ppn, Result, Vtpn};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use scoped_tls_hkt::scoped_thread_local;

use crate::watch::Watch;

/// Pages of a unit up to which a trim changes them one by one, as a write does.
const MOST_ONE_BY_ONE: usize = 8;

/// What is run: a function of a [`TranslationTable`] that gives a mapping, and what the mapping raised.
pub(crate) struct Class {
    make: Py<PyAny>,
    raised: Mutex<Option<PyErr>>,
    stop: Arc<AtomicBool>,
    thread: Arc<AtomicU64>,
    calls: AtomicU64,
    calls_ns: AtomicU64,
}

scoped_thread_local!(static RUN: Class);
scoped_thread_local!(static mut DOOR: for<'a> &'a mut (dyn Door + 'a));

impl Class {
    /// The class waits for nothing once `watch` has been asked to stop.
    pub(crate) fn new(make: Py<PyAny>, watch: &Watch) -> Class {
        let (calls, calls_ns) = Default::default();
        Class { make, raised: Mutex::new(None), stop: watch.stop(), thread: watch.thread(), calls, calls_ns }
    }

    /// Calls of `lookup`, `update` and `clean`, and their mean time, microseconds.
    pub(crate) fn calls(&self) -> (u64, f64) {
        let calls = self.calls.load(Ordering::Relaxed);
        (calls, self.calls_ns.load(Ordering::Relaxed) as f64 / 1000.0 / calls.max(1) as f64)
    }

    /// Does `work` in which this is the mapping of [`Scheme`].
    pub(crate) fn during<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        // The thread is known to Python all the time: to make it known in every call takes longer than most
        // calls.
        Python::attach(|py| {
            let name = py.import("threading").and_then(|module| module.call_method0("get_ident")?.extract());
            self.thread.store(name.unwrap_or(0), Ordering::Relaxed);
            let result = py.detach(|| RUN.set(self, work));
            self.thread.store(0, Ordering::Relaxed);
            result
        })
    }

    /// What the mapping raised, if it did.
    pub(crate) fn take_raised(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The engine with a mapping in Python.
pub(crate) type Scheme = Ftl<Object, Streams>;

/// Translation pages, as a mapping reaches them in a call.
trait Door {
    fn load(&mut self, unit: u32) -> PyResult<Option<Vec<u32>>>;
    fn store(&mut self, unit: u32, edits: &[(u32, u32)]) -> PyResult<()>;
    fn replace(&mut self, unit: u32, entries: &[u32]) -> PyResult<()>;
}

/// A call under way.
struct Call<'a, N> {
    flash: &'a mut Flash<N>,
    table: &'a mut Table,
    cause: Cause,
    at: Done,
    /// What a program waits for that has no waits of its own; found out when it is needed.
    settled: &'a mut Option<Done>,
    written: &'a mut HashMap<u32, Done>,
    loads: &'a mut [Done],
    touched: bool,
    fault: Option<Fault>,
}

impl<N: Nand> Call<'_, N> {
    fn failed<T>(&mut self, result: Result<T>) -> PyResult<T> {
        self.touched = true;
        result.map_err(|fault| {
            let sentence = format!("flash failed: {fault}");
            self.fault = Some(fault);
            PyRuntimeError::new_err(sentence)
        })
    }

    /// No mapping reaches flash before the page that it leads to.
    fn after_all(&mut self) -> Done {
        let settled = *self.settled.get_or_insert_with(|| self.flash.settle());
        self.flash.join(self.at, settled)
    }
}

impl<N: Nand> Door for Call<'_, N> {
    fn load(&mut self, unit: u32) -> PyResult<Option<Vec<u32>>> {
        let loaded = self.table.load(self.flash, Vtpn(unit), self.cause, self.at);
        let Some(done) = self.failed(loaded)? else { return Ok(None) };
        (self.at, self.loads[unit as usize]) = (done, done);
        let content = self.flash.buffer();
        let lpns = self.table.lpns_in(Vtpn(unit));
        Ok(Some((0..lpns).map(|slot| entry_in(content, slot)).collect()))
    }

    fn store(&mut self, unit: u32, edits: &[(u32, u32)]) -> PyResult<()> {
        let first = self.table.first_lpn(Vtpn(unit)).0;
        let mut at = self.at;
        for (slot, _) in edits {
            if let Some(done) = self.written.remove(&(first + slot)) {
                at = self.flash.join(at, done);
            }
        }
        if self.cause == Cause::Checkpoint {
            at = self.after_all();
        }
        let stored = self.table.store(self.flash, Vtpn(unit), edits, self.cause, at);
        self.at = self.failed(stored)?;
        Ok(())
    }

    fn replace(&mut self, unit: u32, entries: &[u32]) -> PyResult<()> {
        let mut content = vec![0xff; self.table.entries_per_page() as usize * 4];
        for (bytes, entry) in content.chunks_exact_mut(4).zip(entries) {
            bytes.copy_from_slice(&entry.to_le_bytes());
        }
        let at = self.after_all();
        let first = self.table.first_lpn(Vtpn(unit)).0;
        self.written.retain(|lpn, _| !(first..first + self.table.lpns_in(Vtpn(unit))).contains(lpn));
        let replaced = self.table.replace(self.flash, Vtpn(unit), &content, self.cause, at);
        self.at = self.failed(replaced)?;
        Ok(())
    }
}

/// The translation pages of the device that a mapping is on, and what is to know of the device.
#[pyclass(frozen, module = "ftlkit._ftlkit")]
pub(crate) struct TranslationTable {
    /// Logical pages.
    #[pyo3(get)]
    lpns: u32,
    /// Mappings in a translation page.
    #[pyo3(get)]
    entries_per_page: u32,
    /// Translation pages.
    #[pyo3(get)]
    pages: u32,
    /// Memory for the mapping beside the directory, bytes.
    #[pyo3(get)]
    cache_bytes: u64,
    /// Pages of the array: a PPN is below it.
    ppns: u32,
}

impl TranslationTable {
    fn unit(&self, unit: u32) -> PyResult<u32> {
        if unit < self.pages {
            return Ok(unit);
        }
        Err(PyValueError::new_err(format!(
            "there is no translation page {unit}; there are 0 to {}",
            self.pages - 1
        )))
    }

    /// An entry of a translation page.
    fn entry(&self, ppn: Option<u32>) -> PyResult<u32> {
        match ppn {
            Some(ppn) if ppn >= self.ppns => Err(no_ppn(&ppn.to_string(), self.ppns)),
            ppn => Ok(entry(ppn.map(Ppn))),
        }
    }

    fn door<T>(&self, call: impl FnOnce(&mut dyn Door) -> PyResult<T>) -> PyResult<T> {
        if !DOOR.is_set() {
            let what = "flash can be reached only from lookup, update and clean, while the engine calls them";
            return Err(PyRuntimeError::new_err(what));
        }
        DOOR.with(|door| call(door))
    }
}

#[pymethods]
impl TranslationTable {
    /// The translation page of an LPN, and the place there.
    fn place(&self, lpn: u32) -> (u32, u32) {
        (lpn / self.entries_per_page, lpn % self.entries_per_page)
    }

    /// The LPNs of a translation page: the first, and the first that is past it.
    fn lpns_of(&self, page: u32) -> PyResult<(u32, u32)> {
        let first = self.unit(page)? * self.entries_per_page;
        Ok((first, self.lpns.min(first + self.entries_per_page)))
    }

    /// Reads a translation page: the PPN of each LPN, None where it is mapped nowhere. None for the whole: it
    /// was never written, and nothing was read.
    fn load(&self, page: u32) -> PyResult<Option<Vec<Option<u32>>>> {
        let page = self.unit(page)?;
        let loaded = self.door(|door| door.load(page))?;
        Ok(loaded.map(|entries| entries.into_iter().map(|entry| mapped(entry).map(|ppn| ppn.0)).collect()))
    }

    /// Changes mappings of one translation page, by LPN: one read and one program.
    fn store(&self, changes: HashMap<u32, Option<u32>>) -> PyResult<()> {
        let edits = changes.into_iter().map(|(lpn, ppn)| Ok((lpn, self.entry(ppn)?)));
        let mut edits: Vec<(u32, u32)> = edits.collect::<PyResult<_>>()?;
        edits.sort_unstable();
        let Some(&(first, _)) = edits.first() else { return Ok(()) };
        let page = self.unit(first / self.entries_per_page)?;
        if edits.iter().any(|(lpn, _)| lpn / self.entries_per_page != page) {
            return Err(PyValueError::new_err(
                "store changes one translation page; these LPNs are of several",
            ));
        }
        edits.iter_mut().for_each(|(lpn, _)| *lpn %= self.entries_per_page);
        self.door(|door| door.store(page, &edits))
    }

    /// Writes a whole translation page without reading the old one: one program.
    fn replace(&self, page: u32, ppns: Vec<Option<u32>>) -> PyResult<()> {
        let (first, end) = self.lpns_of(page)?;
        if ppns.len() != (end - first) as usize {
            let what = format!(
                "translation page {page} holds {} mappings, and {} are given",
                end - first,
                ppns.len()
            );
            return Err(PyValueError::new_err(what));
        }
        let entries: Vec<u32> = ppns.into_iter().map(|ppn| self.entry(ppn)).collect::<PyResult<_>>()?;
        self.door(|door| door.replace(page, &entries))
    }

    /// It stands for the device, whatever is copied around it.
    fn __deepcopy__<'py>(slf: &Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf.clone()
    }
}

/// A mapping in Python.
pub(crate) struct Object {
    object: Py<PyAny>,
    /// The whole table is in memory.
    in_memory: bool,
    /// Streams for host pages beside the usual one.
    streams: u32,
    /// Pages of the array: a PPN is below it.
    ppns: u32,
    budget: u64,
    settled: Option<Done>,
    /// Programs that a mapping in memory alone has to wait for when it is stored, by LPN.
    written: HashMap<u32, Done>,
    /// When each translation page was last read.
    loads: Vec<Done>,
    edits: Vec<(u32, u32)>,
}

/// Ends the run with what Python raised.
fn raise(py: Python<'_>, what: &str, error: PyErr) -> ! {
    let sentence = format!("{what}: {error}");
    if RUN.is_set() {
        RUN.with(|run| {
            let mut raised = run.raised.lock().unwrap_or_else(PoisonError::into_inner);
            raised.get_or_insert(error.clone_ref(py));
        });
    }
    // No message on standard error: the exception says it.
    resume_unwind(Box::new(sentence))
}

/// A PPN below `ppns`, or none, as Python gives it.
fn ppn_of(value: &Bound<'_, PyAny>, ppns: u32) -> PyResult<Option<u32>> {
    match value.extract::<Option<u32>>() {
        Ok(ppn) if ppn.is_none_or(|ppn| ppn < ppns) => Ok(ppn),
        _ => Err(no_ppn(&value.repr()?.to_string(), ppns)),
    }
}

fn no_ppn(given: &str, ppns: u32) -> PyErr {
    PyValueError::new_err(format!("{given} is no PPN; give a whole number from 0 to {}, or None", ppns - 1))
}

fn or_raise<T>(py: Python<'_>, what: &str, result: PyResult<T>) -> T {
    result.unwrap_or_else(|error| raise(py, what, error))
}

impl Clone for Object {
    fn clone(&self) -> Object {
        let object = Python::attach(|py| {
            let copy = py.import("copy").and_then(|copy| copy.call_method1("deepcopy", (&self.object,)));
            or_raise(py, "a copy of the mapping", copy).unbind()
        });
        let Object { in_memory, streams, ppns, budget, settled, .. } = *self;
        let (written, loads) = (self.written.clone(), self.loads.clone());
        Object { object, in_memory, streams, ppns, budget, settled, written, loads, edits: Vec::new() }
    }
}

impl Object {
    /// Calls a method in which the mapping may use flash. Gives what it returned, when its flash operations
    /// are complete, and whether there were any.
    fn call<N: Nand, T>(
        &mut self,
        (flash, table): (&mut Flash<N>, &mut Table),
        (cause, at): (Cause, Done),
        what: &str,
        method: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<(T, Done, bool)> {
        if RUN.is_set() && RUN.with(|run| run.stop.load(Ordering::Relaxed)) {
            resume_unwind(Box::new("stopped"));
        }
        let Object { object, settled, written, loads, .. } = self;
        let mut call = Call { flash, table, cause, at, settled, written, loads, touched: false, fault: None };
        let began = Instant::now();
        let result = Python::attach(|py| {
            let result = DOOR.set(&mut call, || method(object.bind(py)));
            if RUN.is_set() {
                RUN.with(|run| {
                    run.calls.fetch_add(1, Ordering::Relaxed);
                    run.calls_ns.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
                });
            }
            match result {
                Err(_) if call.fault.is_some() => None,
                result => Some(or_raise(py, what, result)),
            }
        });
        match (result, call.fault) {
            (Some(result), None) => Ok((result, call.at, call.touched)),
            (_, Some(fault)) => Err(fault),
            (None, None) => unreachable!("a call without a result has a fault"),
        }
    }

    /// Calls a method that may not use flash.
    fn ask<T>(&self, what: &str, method: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> T {
        Python::attach(|py| or_raise(py, what, method(self.object.bind(py))))
    }

    fn found(
        &self,
        ppn: Option<u32>,
        table: &Table,
        lpn: Lpn,
        call: (Done, bool),
        flash: &mut Flash<impl Nand>,
    ) -> Lookup {
        let (mut done, touched) = call;
        if !self.in_memory && !touched {
            // The entry may have come with a page that is still being read.
            done = flash.join(done, self.loads[table.place(lpn).0 .0 as usize]);
        }
        Lookup::new(ppn.map(Ppn), done, if touched { How::Loaded } else { How::CachedEntry })
    }

    /// Forgets what memory holds of an LPN: `None` when it holds nothing.
    fn forget(&self, lpn: Lpn) -> Option<Option<Ppn>> {
        self.ask("forget", |object| match object.call_method1("forget", (lpn.0,)) {
            Ok(ppn) => Ok(Some(ppn_of(&ppn, self.ppns)?.map(Ppn))),
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyKeyError>(object.py()) => Ok(None),
            Err(error) => Err(error),
        })
    }
}

impl Mapping for Object {
    type Pages = Table;

    const INFO: Info = Info {
        name: "python",
        what: "a mapping written in Python",
        paper: "none",
        parameters: &[],
        stats: &[],
    };

    fn new<N: Nand>(flash: &mut Flash<N>, table: &Table, config: &Config) -> Result<Self, ConfigError> {
        if !RUN.is_set() {
            return Err(ConfigError("there is no mapping in Python to run".to_owned()));
        }
        let (budget, ppns) = (config.cache_bytes, flash.nand().geometry().pages());
        let python_table = TranslationTable {
            lpns: table.exported_pages(),
            entries_per_page: table.entries_per_page(),
            pages: table.pages(),
            cache_bytes: budget.saturating_sub(table.directory_bytes()),
            ppns,
        };
        Python::attach(|py| {
            let made = RUN.with(|run| {
                let object = run.make.bind(py).call1((python_table,))?;
                let in_memory = object.getattr("in_memory")?.extract()?;
                let streams = object.getattr("streams")?.extract()?;
                Ok((object.unbind(), in_memory, streams))
            });
            let (object, in_memory, streams) = or_raise(py, "the mapping cannot be made", made);
            let loads = vec![Done::READY; table.pages() as usize];
            let (written, edits) = (HashMap::new(), Vec::new());
            Ok(Object { object, in_memory, streams, ppns, budget, settled: None, written, loads, edits })
        })
    }

    fn restore<N: Nand>(&mut self, recovery: &mut Recovery<'_, N>, table: &mut Table) -> Result<()> {
        if !self.in_memory {
            return table.restore(recovery);
        }
        table.restore_beside(recovery, |table, unit, entries, changed| {
            let ppns: Vec<Option<u32>> =
                entries.iter().map(|&entry| mapped(entry).map(|ppn| ppn.0)).collect();
            let first = table.first_lpn(unit).0;
            self.ask("restore", |object| object.call_method1("restore", (first, ppns, changed)).map(|_| ()));
            true
        })
    }

    fn lookup<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, ask: Ask) -> Result<Lookup> {
        let Ask { lpn, at, .. } = ask;
        let ppns = self.ppns;
        let (ppn, done, touched) =
            self.call((flash, table), (Cause::Translation, at), "lookup", |object| {
                ppn_of(&object.call_method1("lookup", (lpn.0,))?, ppns)
            })?;
        Ok(self.found(ppn, table, lpn, (done, touched), flash))
    }

    fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        unit: Vtpn,
        slots: Range<u32>,
        at: Done,
    ) -> Result<Done> {
        self.settled = None;
        let first = table.first_lpn(unit).0;
        if !self.in_memory && slots.len() > MOST_ONE_BY_ONE {
            return table.trim(flash, unit, slots, at, |lpn| self.forget(lpn));
        }
        let mut done = at;
        for lpn in slots.map(|slot| Lpn(first + slot)) {
            let change = Change { lpn, rest: 1, ppn: None, programmed: at, at };
            let found = self.update(flash, table, change)?;
            done = flash.join(done, found.done);
            if let Some(old) = found.ppn {
                flash.invalidate(old);
            }
        }
        Ok(done)
    }

    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table) -> Result<Option<Done>> {
        let (more, done, _) =
            self.call((flash, table), (Cause::Checkpoint, Done::READY), "clean", |object| {
                object.call_method0("clean")?.extract::<bool>()
            })?;
        Ok(more.then_some(done))
    }

    fn entries<N: Nand>(&self, of: Unit<'_, N, Table>, entries: &mut Vec<u32>) {
        Python::attach(|py| {
            let known =
                self.object.bind(py).getattr("known").and_then(|known| Ok(known.cast_into::<PyDict>()?));
            let known = or_raise(py, "known", known);
            of.entries_or(entries, |lpn| {
                let ppn =
                    known.get_item(lpn.0).and_then(|ppn| ppn.map(|ppn| ppn_of(&ppn, self.ppns)).transpose());
                or_raise(py, "known", ppn).map(|ppn| entry(ppn.map(Ppn)))
            });
        });
    }

    fn memory(&self, _table: &Table) -> Memory {
        let bytes = self.ask("memory", |object| object.call_method0("memory")?.extract::<u64>());
        Memory { parts: vec![("mapping in Python", bytes)] }
    }

    fn check<N: Nand>(&self, _flash: &Flash<N>, table: &Table) -> Result<(), Breach> {
        let bytes = self.memory(table).bytes() + table.directory_bytes();
        if bytes <= self.budget || self.in_memory {
            return Ok(());
        }
        Err(format!("the mapping and the directory take {bytes} bytes, and the budget is {}", self.budget)
            .into())
    }
}

impl Update for Object {
    /// [`Object::trim`] sees to it: it depends on the object.
    const TRIM_BY_ENTRY: u32 = 0;

    fn update<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, to: Change) -> Result<Lookup> {
        let Change { lpn, ppn, programmed, at, .. } = to;
        let ppns = self.ppns;
        self.settled = None;
        if !self.in_memory {
            self.written.insert(lpn.0, programmed);
        }
        let (old, done, touched) =
            self.call((flash, table), (Cause::Translation, at), "update", |object| {
                ppn_of(&object.call_method1("update", (lpn.0, ppn.map(|ppn| ppn.0)))?, ppns)
            })?;
        Ok(self.found(old, table, lpn, (done, touched), flash))
    }

    fn moved<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, moves: &[Moved]) -> Result<Done> {
        self.settled = None;
        let mut edits = std::mem::take(&mut self.edits);
        let done = table.moved(flash, moves, &mut edits, |_, moved| {
            let held = self.ask("moved", |object| {
                object.call_method1("moved", (moved.lpn.0, moved.to.0))?.extract::<bool>()
            });
            if held && !self.in_memory {
                self.written.insert(moved.lpn.0, moved.done);
            }
            held
        });
        self.edits = edits;
        done
    }
}

/// The streams of a mapping in Python.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams {
    further: u32,
}

impl Placement<Object> for Streams {
    type Copies = ftl::engine::collector::Grouped;

    fn open<N: Nand>(
        flash: &mut Flash<N>,
        mapping: &mut Object,
        _config: &Config,
    ) -> Result<Self, ConfigError> {
        // One superblock is being written, and one may be left half written by a power cut.
        let further = if flash.space.spare > mapping.streams { mapping.streams } else { 0 };
        if further > 0 {
            flash.add_streams(further as usize);
        }
        Ok(Streams { further })
    }

    fn spare_wanted(&self) -> u32 {
        self.further
    }

    fn stream<N: Nand>(
        &mut self,
        mapping: &mut Object,
        _flash: &mut Flash<N>,
        lpn: Lpn,
        rest: u32,
    ) -> Stream {
        if self.further == 0 {
            return Stream::HOST;
        }
        let chosen =
            mapping.ask("stream", |object| object.call_method1("stream", (lpn.0, rest))?.extract::<u32>());
        match chosen.min(self.further) {
            0 => Stream::HOST,
            further => Stream::further(further as usize - 1),
        }
    }
}
