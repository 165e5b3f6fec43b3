//! One FTL, many clients.
//!
//! A client submits a batch of byte ranges. One thread at a time is in the FTL: it decides what each request does, in
//! the order of the batch, and what it programs is written to the image before it leaves. Bytes that are read are
//! fetched after that, beside the FTL: the array keeps pages as they are while a reader is under way. A thread that only
//! runs the FTL would cost every request two changes of thread, more than the FTL itself; so the client's own thread goes in.
//!
//! | promise | how |
//! | --- | --- |
//! | a request sees all that was acknowledged before it was sent | one order for all, that of entering the FTL |
//! | a write of part of a page keeps the rest | read, merge and write are one step in that order |
//! | a flush or FUA survives the host's power cut | the answer [`Answer::Durable`] says up to where to sync first |
//! | a full file system loses nothing | what cannot be written stays in memory, readable; writes fail until it can |
//! | a device error concerns one request | faults come back by page; a broken medium fails all, and loses nothing |

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use ftl::{Counters, Device, HostError, HostOp, Memory, Scheme, Seen, Stat};
use nand::timing::{DieUse, NoClock, Queued, Timing};
use nand::{Done, Fault, FileNand, ImageFile, Lpn, Medium, Mounted, Nand, WearSpread};

use crate::clock::{Clock, Latencies};
use crate::front::Front;
use crate::pace::Pacer;
use crate::reads::{pages_of, Cell, Reads};
use crate::record::{Recorder, Recording};
use crate::settings::Settings;

/// Most pages of one step in the FTL: longer requests let others in between.
const STEP_PAGES: u32 = 256;
/// The same for trims, which cost little a page.
const TRIM_PAGES: u32 = 1 << 18;
/// Pages told of in one answer about what is allocated, at least.
const EXTENT_PAGES: u32 = 1 << 13;
/// Operations not synced after which the engine syncs unasked, so that opening after a power cut is short.
const SYNC_EVERY: u64 = 1 << 16;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read bytes.
    Read,
    /// Write bytes.
    Write,
    /// Forget bytes. Only whole pages are forgotten.
    Trim,
    /// Make bytes zero: pages are forgotten, or with `allocate` written.
    WriteZeroes {
        /// The pages must be there afterwards.
        allocate: bool,
    },
    /// Make everything acknowledged durable.
    Flush,
}

impl Op {
    /// Its place in [`Latencies`].
    pub fn kind(self) -> usize {
        match self {
            Op::Read => 0,
            Op::Write => 1,
            Op::Trim | Op::WriteZeroes { .. } => 2,
            Op::Flush => 3,
        }
    }
}

/// A request of a client.
#[derive(Clone, Debug)]
pub struct Request {
    /// What.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
    /// It must be durable when it is answered.
    pub fua: bool,
    /// What is written; else empty.
    pub data: Bytes,
}

/// How a request went in the FTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The bytes are to be had from [`Reads::fill`] with this number.
    Read(usize),
    /// Done.
    Done,
    /// Done; may be said once [`Engine::make_durable`] has returned for this operation.
    Durable(u64),
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// Outside the device.
    #[error("outside the device")]
    Outside,
    /// The page cannot be read or written.
    #[error("the device failed")]
    Device,
    /// The host's file system is full.
    #[error("no space left on the host")]
    NoSpace,
    /// The flash of the device is full: too many of its blocks have failed.
    #[error("no space left on the flash of the device")]
    Full,
    /// The device is switched off.
    #[error("the device is switched off")]
    Off,
}

/// A range that is allocated throughout, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes.
    pub length: u64,
    /// Whether pages are mapped there.
    pub allocated: bool,
}

/// What opening a device took.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Of the image.
    pub mounted: Mounted,
    /// Steps of the scheme's recovery.
    pub steps: Vec<(&'static str, Duration)>,
    /// What recovery did on flash.
    pub counters: Counters,
}

/// A device at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// What happened since it was opened.
    pub counters: Counters,
    /// What the scheme counts itself, to be asked of the counters.
    pub stats: &'static [Stat],
    /// In virtual time, ns.
    pub virtual_latency: Latencies,
    /// As clients waited, ns.
    pub wall_latency: Latencies,
    /// Virtual time since it was opened, ns.
    pub virtual_ns: u64,
    /// Where the dies' time went.
    pub dies: Vec<DieUse>,
    /// Superblocks that can be opened, and all.
    pub free_superblocks: (u32, u32),
    /// Pages that hold user data.
    pub valid_pages: u64,
    /// Erase counts.
    pub wear: WearSpread,
    /// Mapping memory.
    pub memory: Memory,
    /// Pages waiting for room on the host's file system.
    pub stuck_pages: usize,
}

/// What is in the FTL, one thread at a time.
struct Core<S, M: Medium> {
    device: Device<S, FileNand<Queued, M>>,
    clock: Clock,
    /// The array or the image is out of order: nothing more can be done until it is opened again.
    broken: bool,
    blank: Bytes,
    recording: Option<Recording>,
}

/// A live device.
pub struct Engine<S, M: Medium = ImageFile> {
    /// `None` once it is switched off.
    core: Mutex<Option<Core<S, M>>>,
    medium: Arc<M>,
    wall: Mutex<Latencies>,
    /// Operations up to here are synced. Held while syncing, so that one sync serves all who wait.
    synced: Mutex<u64>,
    /// Operations up to here are written to the image.
    landed: AtomicU64,
    /// A sync failed: what the kernel has dropped nobody knows, so nothing is promised any more.
    unsyncable: AtomicBool,
    /// Requests that clients wait for.
    waiting: AtomicUsize,
    /// Batches so far, to see whether there was one.
    batches: AtomicU64,
    exported_bytes: u64,
    page_bytes: u32,
    /// Answers that wait for the device model, when they do.
    pub(crate) pacer: Option<Pacer>,
    /// What front ends with single requests share.
    pub(crate) front: Front<M>,
}

impl<S: Scheme> Engine<S> {
    /// Opens the image at `path`, which must be for this scheme. `paced`: answers wait until the device model gives them.
    pub fn open(path: &Path, paced: bool) -> Result<(Engine<S>, Opened), String> {
        let opened = FileNand::open(path, NoClock::new()).map_err(|error| error.to_string())?;
        Engine::start(opened, path, paced)
    }
}

impl<S: Scheme, M: Medium> Engine<S, M> {
    /// Opens an image on any medium; `path` is its name in errors.
    pub fn open_on(medium: M, path: &Path) -> Result<(Engine<S, M>, Opened), String> {
        let opened = FileNand::on(medium, path, NoClock::new()).map_err(|error| error.to_string())?;
        Engine::start(opened, path, false)
    }

    fn start(
        (mut nand, description, mounted): (FileNand<NoClock, M>, nand::Description, Mounted),
        path: &Path,
        paced: bool,
    ) -> Result<(Engine<S, M>, Opened), String> {
        let name = path.display();
        let settings = Settings::parse(&description.settings)
            .map_err(|error| format!("{name}: the settings in the image are not understood ({error})"))?;
        let device = description.device;
        let config = settings.config(&device);
        let image = |error: io::Error| format!("{name}: the image cannot be written ({error})");
        nand.begin().map_err(image)?;
        let mut opening = Device::open(nand, &config).map_err(|error| format!("{name}: {error}"))?;
        opening.nand_mut().land().map_err(image)?;
        let opened = Opened { mounted, steps: opening.nand().steps(), counters: opening.take_counters() };
        let geometry = &device.geometry;
        let timing =
            Queued::new(device.times(), device.policy, geometry.dies(), geometry.channels, geometry.blocks());
        let medium = opening.nand().medium();
        let landed = opening.nand().sequence();
        let core = Core {
            device: opening.map_nand(|nand| nand.with_timing(timing)),
            clock: Clock::new(paced),
            broken: false,
            blank: Bytes::from(vec![0; geometry.page_bytes as usize]),
            recording: None,
        };
        let engine = Engine {
            core: Mutex::new(Some(core)),
            medium,
            wall: Mutex::new(Latencies::new()),
            synced: Mutex::new(0),
            landed: AtomicU64::new(landed),
            unsyncable: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            batches: AtomicU64::new(0),
            exported_bytes: device.exported_bytes(),
            page_bytes: geometry.page_bytes,
            pacer: paced.then(Pacer::default),
            front: Front::new(),
        };
        Ok((engine, opened))
    }

    /// Bytes that clients see.
    pub fn exported_bytes(&self) -> u64 {
        self.exported_bytes
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// The FTL. A panic in it leaves it locked for ever: [`IoError::Off`] from then on.
    fn enter(&self) -> Result<MutexGuard<'_, Option<Core<S, M>>>, IoError> {
        self.core.lock().map_err(|_| IoError::Off)
    }

    /// Carries out a batch, in order. `answers` gets one answer for each request; the bytes of reads come from `reads`,
    /// which has to be cleared soon.
    pub fn submit(
        &self,
        batch: &[Request],
        reads: &mut Reads<M>,
        answers: &mut Vec<Result<Answer, IoError>>,
    ) {
        answers.clear();
        reads.tickets.clear();
        self.batches.fetch_add(1, Ordering::Relaxed);
        let mut guard = self.enter();
        let core = match guard.as_mut().map(|guard| guard.as_mut()) {
            Ok(Some(core)) => core,
            _ => {
                reads.tickets.resize(batch.len(), None);
                return answers.extend(batch.iter().map(|_| Err(IoError::Off)));
            }
        };
        core.clock.catch_up(core.device.nand_mut().timing());
        let waiting = self.waiting.load(Ordering::Relaxed).max(batch.len());
        let mut landing = core.land();
        for request in batch {
            let answer = match landing {
                Err(error) if request.op != Op::Read => {
                    reads.tickets.push(None);
                    Err(error)
                }
                _ => core.carry_out(request, reads, waiting, self.exported_bytes),
            };
            answers.push(answer);
        }
        if let Some(recording) = &mut core.recording {
            recording.tell();
        }
        landing = core.land();
        if let Err(error) = landing {
            for (answer, request) in answers.iter_mut().zip(batch) {
                if request.op != Op::Read && answer.is_ok() {
                    *answer = Err(error);
                }
            }
        } else {
            self.landed.store(core.device.nand().sequence(), Ordering::Release);
        }
        // Also without reads of clients: those of merged pages are over.
        let reader = core.device.nand_mut().reader();
        reads.reader = (!reads.cells.is_empty()).then_some(reader);
    }

    /// Returns when everything up to `operation` is durable.
    pub fn make_durable(&self, operation: u64) -> Result<(), IoError> {
        let mut synced = self.synced.lock().map_err(|_| IoError::Off)?;
        if *synced >= operation && operation > 0 {
            return Ok(());
        }
        let landed = self.landed.load(Ordering::Acquire);
        if self.unsyncable.load(Ordering::Relaxed) {
            return Err(IoError::Device);
        }
        if self.medium.sync().is_err() {
            self.unsyncable.store(true, Ordering::Relaxed);
            return Err(IoError::Device);
        }
        *synced = landed;
        drop(synced);
        if let Some(core) = self.enter()?.as_mut() {
            // Failing to note it costs time at the next start, nothing else.
            let _ = core.device.nand_mut().synced(landed);
        }
        Ok(())
    }

    /// What of a range is allocated, from its begin on: at most `most` extents, perhaps less than the range.
    pub fn extents(&self, offset: u64, length: u64, most: usize) -> Result<Vec<Extent>, IoError> {
        let end = offset.checked_add(length).filter(|&end| end <= self.exported_bytes);
        let end = end.ok_or(IoError::Outside)?;
        let guard = self.enter()?;
        let core = guard.as_ref().ok_or(IoError::Off)?;
        let page = u64::from(self.page_bytes);
        let mut extents: Vec<Extent> = Vec::new();
        let mut at = offset;
        let mut add = |from: u64, to: u64, allocated: bool| {
            let from = from.max(offset);
            match extents.last_mut() {
                _ if from >= to => {}
                Some(last) if last.allocated == allocated => last.length += to - from,
                _ => extents.push(Extent { length: to - from, allocated }),
            }
            extents.len()
        };
        let (mut most_pages, mut mapped) = (EXTENT_PAGES, Vec::new());
        while at < end {
            let first = (at / page) as u32;
            let pages = most_pages.min((end.div_ceil(page) - u64::from(first)) as u32);
            // Some schemes look at everything to tell of a part.
            most_pages = most_pages.saturating_mul(4);
            mapped.clear();
            core.device.mapped_in(Lpn(first), pages, &mut |lpn, _| mapped.push(lpn.0));
            if S::BUFFERS_WRITES {
                let range = first..first + pages;
                core.device.buffered(&mut |lpn, _| mapped.extend(range.contains(&lpn.0).then_some(lpn.0)));
                mapped.sort_unstable();
                mapped.dedup();
            }
            let mut next = u64::from(first) * page;
            for &lpn in &mapped {
                let from = u64::from(lpn) * page;
                add(next, from, false);
                add(from, end.min(from + page), true);
                next = from + page;
            }
            at = end.min(u64::from(first + pages) * page);
            if add(next, at, false) > most {
                break;
            }
        }
        extents.truncate(most);
        Ok(extents)
    }

    /// Does what there is to do while nobody asks for anything; to be called every now and then.
    pub fn tend(&self, seen: &mut u64) {
        let batches = self.batches.load(Ordering::Relaxed);
        let waiting = self.waiting.load(Ordering::Relaxed) > 0;
        let idle = std::mem::replace(seen, batches) == batches && !waiting;
        let mut sequence = 0;
        if let Ok(mut guard) = self.enter() {
            let Some(core) = guard.as_mut().filter(|core| !core.broken) else { return };
            core.clock.catch_up(core.device.nand_mut().timing());
            if idle && core.land().is_ok() {
                core.broken |= core.device.idle().is_err_and(|fault| fault.is_fatal());
                if core.land().is_ok() {
                    self.landed.store(core.device.nand().sequence(), Ordering::Release);
                }
            }
            sequence = core.device.nand().sequence();
        }
        let behind = self.synced.try_lock().is_ok_and(|synced| sequence >= *synced + SYNC_EVERY);
        if behind {
            // Who asks for durability hears of a failure himself.
            let _ = self.make_durable(sequence);
        }
    }

    /// Moves virtual time to the wall's, and adds to `tickets` those of requests that are over. Gives how long no other
    /// one will be, unless it comes meanwhile.
    pub(crate) fn over(&self, tickets: &mut Vec<u64>) -> Option<Duration> {
        let mut guard = self.enter().ok()?;
        let core = guard.as_mut()?;
        let timing = core.device.nand_mut().timing();
        core.clock.catch_up(timing);
        core.clock.over(tickets);
        timing.next_ns().map(|at| Duration::from_nanos(at.saturating_sub(timing.now())))
    }

    /// Begins to count anew. From now on answers wait for the model, or not; only a device that was opened for pacing can
    /// be paced. To be called while no client waits.
    pub fn restart(&self, paced: bool) {
        if let Ok(Some(core)) = self.enter().as_mut().map(|guard| guard.as_mut()) {
            core.clock.restart(core.device.nand_mut().timing(), paced && self.pacer.is_some());
            core.device.take_counters();
        }
        if let Ok(mut wall) = self.wall.lock() {
            *wall = Latencies::new();
        }
    }

    /// Tells `to` of every request from now on.
    pub fn record(&self, to: Recorder) {
        if let Ok(Some(core)) = self.enter().as_mut().map(|guard| guard.as_mut()) {
            core.recording = Some(Recording::new(to));
        }
    }

    /// So many requests have arrived.
    pub(crate) fn arrived(&self, requests: usize) {
        self.waiting.fetch_add(requests, Ordering::Relaxed);
    }

    /// So many have been answered.
    pub(crate) fn left(&self, requests: usize) {
        self.waiting.fetch_sub(requests, Ordering::Relaxed);
    }

    /// How long clients waited, ns, by kind.
    pub fn waited(&self, waits: impl Iterator<Item = (usize, u64)>) {
        if let Ok(mut wall) = self.wall.lock() {
            waits.for_each(|(kind, ns)| wall.record(kind, ns));
        }
    }

    /// The device now; `None` when it is switched off.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let mut guard = self.enter().ok()?;
        let core = guard.as_mut()?;
        core.clock.catch_up(core.device.nand_mut().timing());
        let timing = core.device.nand_mut().timing();
        let (virtual_ns, dies) = (timing.now(), timing.die_use());
        let device = &core.device;
        Some(Snapshot {
            counters: device.counters().clone(),
            stats: S::INFO.stats,
            virtual_latency: core.clock.latencies.clone(),
            wall_latency: self.wall.lock().ok()?.clone(),
            virtual_ns,
            dies,
            free_superblocks: device.free_superblocks(),
            valid_pages: device.flash().valid_pages(),
            wear: device.nand().wear(),
            memory: device.memory(),
            stuck_pages: device.nand().staged_pages(),
        })
    }

    /// Switches the device off in good order. `Err` says why it was not: then it is as after a power cut.
    pub fn power_off(&self) -> Result<(), String> {
        let core = self.enter().map_err(|_| "the FTL panicked".to_owned())?.take();
        let Some(Core { mut device, broken, .. }) = core else { return Ok(()) };
        if broken || self.unsyncable.load(Ordering::Relaxed) {
            return Err("the image could not be written to before".to_owned());
        }
        device.nand_mut().land().map_err(|error| error.to_string())?;
        device.power_off().map_err(|fault| fault.to_string())?;
        device.into_nand().close().map_err(|error| error.to_string())
    }
}

impl<S: Scheme, M: Medium> Core<S, M> {
    /// Writes what was staged.
    fn land(&mut self) -> Result<(), IoError> {
        self.device.nand_mut().land().map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                IoError::NoSpace
            }
            _ => IoError::Device,
        })
    }

    fn carry_out(
        &mut self,
        request: &Request,
        reads: &mut Reads<M>,
        waiting: usize,
        exported_bytes: u64,
    ) -> Result<Answer, IoError> {
        reads.tickets.push(None);
        if self.broken {
            return Err(IoError::Device);
        }
        let end = request.offset.checked_add(u64::from(request.length));
        if end.is_none_or(|end| end > exported_bytes) {
            return Err(IoError::Outside);
        }
        if let Some(recording) = &mut self.recording {
            recording.see(request);
        }
        let (at, arrived) = self.clock.arrive(self.device.nand_mut().timing(), waiting);
        let number = reads.cells.len();
        let result = match request.op {
            Op::Read => self.read(request, at, &mut reads.cells),
            Op::Write => self.write(request.offset, &request.data, at),
            Op::Trim => self.trim(request, at),
            Op::WriteZeroes { allocate } => self.zero(request, allocate, at),
            Op::Flush => self.step(HostOp::Flush, 0, 0, at),
        };
        // What a trim or write-zeroes forgot is durable after a flush of the FTL, and what a scheme has in its buffer.
        let written = matches!(request.op, Op::Write) && !S::BUFFERS_WRITES;
        let unsettled = request.fua && request.op != Op::Read && !written;
        let result = match result {
            Ok(done) if unsettled => self.step(HostOp::Flush, 0, 0, done),
            result => result,
        };
        let kind = request.op.kind();
        let timing = self.device.nand_mut().timing();
        let ticket = self.clock.watch(timing, kind, arrived, result.unwrap_or(at));
        if let Some(last) = reads.tickets.last_mut() {
            *last = self.clock.paced().then_some(ticket);
        }
        result?;
        Ok(match request.op {
            Op::Read => Answer::Read(number),
            Op::Flush => Answer::Durable(self.device.nand().sequence()),
            _ if request.fua => Answer::Durable(self.device.nand().sequence()),
            _ => Answer::Done,
        })
    }

    /// A request of whole pages of which the bytes are somebody else's business.
    fn step(&mut self, op: HostOp, first: u32, pages: u32, at: Done) -> Result<Done, IoError> {
        let outcome = self.device.request(op, Lpn(first), pages, at, &mut |_, _| {});
        self.judge(outcome.map(|outcome| (outcome.done, outcome.failed)))
    }

    fn judge(&mut self, outcome: Result<(Done, u32), HostError>) -> Result<Done, IoError> {
        match outcome {
            Ok((done, 0)) => Ok(done),
            Ok(_) => Err(IoError::Device),
            Err(HostError::Outside { .. }) => Err(IoError::Outside),
            Err(HostError::Fault(fault)) => {
                self.broken |= fault.is_fatal();
                Err(if matches!(fault, Fault::NoSpace { .. }) { IoError::Full } else { IoError::Device })
            }
        }
    }

    fn page_bytes(&self) -> u64 {
        self.blank.len() as u64
    }

    fn read(&mut self, request: &Request, at: Done, cells: &mut Vec<Cell>) -> Result<Done, IoError> {
        let page = self.page_bytes();
        let (mut first, mut left) =
            ((request.offset / page) as u32, pages_of(request, self.blank.len()) as u32);
        let mut done = at;
        while left > 0 {
            let pages = left.min(STEP_PAGES);
            let begin = cells.len();
            let outcome = self.device.request(HostOp::Read, Lpn(first), pages, at, &mut |_, seen| {
                cells.push(match seen {
                    Seen::Read(None) => Cell::Zeros,
                    Seen::Read(Some(_)) => Cell::Delivered,
                    _ => Cell::Failed,
                });
            });
            for fetch in self.device.nand_mut().fetches() {
                let cell = &mut cells[begin + (fetch.lpn.0 - first) as usize];
                if matches!(cell, Cell::Delivered) {
                    *cell = Cell::From(fetch);
                }
            }
            assert!(
                !cells[begin..].iter().any(|cell| matches!(cell, Cell::Delivered)),
                "a page from LPN {first} on was delivered, but it was not read"
            );
            let ended = self.judge(outcome.map(|outcome| (outcome.done, outcome.failed)));
            done = self.device.nand_mut().join(done, ended?);
            (first, left) = (first + pages, left - pages);
        }
        Ok(done)
    }

    /// The content of one page, or `None` when it has none.
    fn page(&mut self, lpn: u32, at: Done) -> Result<(Option<Vec<u8>>, Done), IoError> {
        let mut cells = Vec::with_capacity(1);
        let page = self.page_bytes();
        let whole = Request {
            op: Op::Read,
            offset: u64::from(lpn) * page,
            length: page as u32,
            fua: false,
            data: Bytes::new(),
        };
        let done = self.read(&whole, at, &mut cells)?;
        if let [Cell::Zeros] = cells[..] {
            return Ok((None, done));
        }
        let mut content = vec![0; page as usize];
        match &cells[..] {
            [Cell::From(fetch)] => {
                self.device.nand().read_now(fetch, &mut content).map_err(|_| IoError::Device)?;
                Ok((Some(content), done))
            }
            _ => Err(IoError::Device),
        }
    }

    fn write(&mut self, offset: u64, data: &Bytes, at: Done) -> Result<Done, IoError> {
        let page = self.page_bytes();
        let (head, tail) = (offset % page, (offset + data.len() as u64) % page);
        let first = (offset / page) as u32;
        if head == 0 && tail == 0 {
            return self.write_pages(first, data.clone(), at);
        }
        // Read, merge, write: nobody gets in between.
        let end = (offset + data.len() as u64).div_ceil(page) as u32;
        let mut merged = vec![0; (u64::from(end - first) * page) as usize];
        let mut ready = at;
        let last = end - 1;
        for (lpn, partial) in [(first, head != 0), (last, tail != 0 && (last != first || head == 0))] {
            if !partial {
                continue;
            }
            let (content, done) = self.page(lpn, at)?;
            ready = self.device.nand_mut().join(ready, done);
            if let Some(content) = content {
                merged[(u64::from(lpn - first) * page) as usize..][..page as usize].copy_from_slice(&content);
            }
        }
        merged[head as usize..][..data.len()].copy_from_slice(data);
        self.write_pages(first, Bytes::from(merged), ready)
    }

    /// Writes whole pages.
    fn write_pages(&mut self, first: u32, data: Bytes, at: Done) -> Result<Done, IoError> {
        let page = self.blank.len();
        let (mut first, mut data, mut done) = (first, data, at);
        while !data.is_empty() {
            let pages = (data.len() / page).min(STEP_PAGES as usize);
            let now = data.split_to(pages * page);
            self.device.nand_mut().offer(Lpn(first), now);
            let ended = self.step(HostOp::Write, first, pages as u32, at)?;
            done = self.device.nand_mut().join(done, ended);
            first += pages as u32;
        }
        Ok(done)
    }

    /// Forgets the pages that lie in a range altogether.
    fn trim(&mut self, request: &Request, at: Done) -> Result<Done, IoError> {
        let page = self.page_bytes();
        let end = ((request.offset + u64::from(request.length)) / page) as u32;
        let (mut first, mut done) = (request.offset.div_ceil(page) as u32, at);
        while first < end {
            let pages = (end - first).min(TRIM_PAGES);
            let ended = self.step(HostOp::Trim, first, pages, at)?;
            done = self.device.nand_mut().join(done, ended);
            first += pages;
        }
        Ok(done)
    }

    fn zero(&mut self, request: &Request, allocate: bool, at: Done) -> Result<Done, IoError> {
        let page = self.page_bytes();
        let (begin, end) = (request.offset, request.offset + u64::from(request.length));
        let whole = (begin.next_multiple_of(page), end / page * page);
        if allocate || whole.0 >= whole.1 {
            return self.write_zeros(begin, end, allocate, at);
        }
        let head = self.write_zeros(begin, whole.0, false, at)?;
        let middle = self.trim(request, at)?;
        let tail = self.write_zeros(whole.1, end, false, at)?;
        let done = self.device.nand_mut().join(head, middle);
        Ok(self.device.nand_mut().join(done, tail))
    }

    /// Writes zeros. Without `allocate`, into one page, which is left alone when it holds nothing.
    fn write_zeros(&mut self, begin: u64, end: u64, allocate: bool, at: Done) -> Result<Done, IoError> {
        let page = self.page_bytes();
        let mut done = at;
        let mut begin = begin;
        while begin < end {
            let to = end.min((begin / page + 1) * page);
            let lpn = (begin / page) as u32;
            if allocate || self.page(lpn, at)?.0.is_some() {
                let zeros = self.blank.slice(..(to - begin) as usize);
                let ended = self.write(begin, &zeros, at)?;
                done = self.device.nand_mut().join(done, ended);
            }
            begin = to;
        }
        Ok(done)
    }
}
