//! One FTL, many clients.
//!
//! A client submits a batch of byte ranges. One thread at a time is in the FTL: it decides what each request
//! does, in the order of the batch, and what it programs is written to the image before it leaves. Bytes that
//! are read are fetched after that, beside the FTL: the array keeps pages as they are while a reader is under
//! way. A thread that only runs the FTL would cost every request two changes of thread, more than the FTL
//! itself; so the client's own thread goes in.
//!
//! | promise | how |
//! | --- | --- |
//! | a request sees all that was acknowledged before it was sent | one order for all, that of entering the FTL |
//! | a write of part of a page keeps the rest | read, merge and write are one step in that order |
//! | a flush or FUA survives the host's power cut | the answer [`Answer::Durable`] says up to where to sync first |
//! | a full file system loses nothing | what cannot be written stays in memory, readable; writes fail until it can |
//! | a device error concerns one request | faults come back by page; a broken medium fails all, and loses nothing |

mod extents;
mod pages;
mod scrub;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use ftl::{Device, Scheme};
use nand::timing::{Queued, Timing};
use nand::{FileNand, ImageFile, Medium, Mounted, Nand, Scrubbed};

use crate::clock::{Clock, Latencies};
use crate::error::{CheckError, LiveError, PowerOffError};
use crate::export::Export;
use crate::guard::words;
use crate::reads::Reads;
use crate::record::{Recorder, Recording};
use crate::request::{Answer, Extent, IoError, Op, Request};
use crate::settings::Settings;
use crate::snapshot::{Opened, ScrubCounts, Snapshot};

use pages::Core;
use scrub::Scrubbing;

/// Operations not synced after which the engine syncs unasked, so that opening after a power cut is short.
const SYNC_EVERY: u64 = 1 << 16;

/// How an image is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// Answers wait until the device model gives them.
    pub paced: bool,
    /// Nothing is written to the image, and clients cannot write. What recovery has to write stays in memory.
    pub read_only: bool,
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
    /// How far the image is durable was noted in it since it was synced last.
    noted: AtomicBool,
    /// Requests that clients wait for.
    waiting: AtomicUsize,
    /// Batches so far, to see whether there was one.
    batches: AtomicU64,
    exported_bytes: u64,
    pages: u32,
    page_bytes: u32,
    how: Opening,
    /// Whoever holds this may wait for the device; so nobody who holds the device waits for this.
    scrubbing: Mutex<Option<Scrubbing>>,
    /// What the scrub that goes on has found until now.
    scrubbed: Mutex<Option<ScrubCounts>>,
}

impl<S: Scheme> Engine<S> {
    /// Opens the image at `path`, which must be for this scheme.
    pub fn open(path: &Path, how: Opening) -> Result<(Engine<S>, Opened), LiveError> {
        let opened = if how.read_only { FileNand::open_read_only(path) } else { FileNand::open(path) };
        Engine::start(opened?, path, how)
    }
}

impl<S: Scheme, M: Medium> Engine<S, M> {
    /// Opens an image on any medium; `path` is its name in errors.
    pub fn open_on(medium: M, path: &Path) -> Result<(Engine<S, M>, Opened), LiveError> {
        Engine::start(FileNand::on(medium, path)?, path, Opening::default())
    }

    fn start(
        (nand, description, mounted): (FileNand<M>, nand::Description, Mounted),
        path: &Path,
        how: Opening,
    ) -> Result<(Engine<S, M>, Opened), LiveError> {
        let settings = Settings::parse(path, &description.settings)?;
        let device = description.device;
        let config = settings.config(&device);
        // An image that its scheme cannot recover stays as it is, and stops no other one.
        let opened = catch_unwind(AssertUnwindSafe(|| Device::open(nand, &config)));
        let opened = opened
            .map_err(|panic| LiveError::Panicked { image: path.to_owned(), words: words(panic.as_ref()) })?;
        let mut opening = opened.map_err(|error| LiveError::Open { image: path.to_owned(), error })?;
        opening.nand_mut().begin().map_err(LiveError::unwritten(path))?;
        let geometry = &device.geometry;
        let worn_out = opening.is_worn().then(|| (opening.nand().bad_blocks(), geometry.blocks()));
        let (steps, counters) = (opening.nand().steps(), opening.take_counters());
        let opened = Opened { mounted, steps, counters, worn_out };
        let timing =
            Queued::new(device.times(), device.policy, geometry.dies(), geometry.channels, geometry.blocks());
        let medium = opening.nand().medium();
        let landed = opening.nand().sequence();
        let core = Core {
            device: opening.map_nand(|nand| nand.with_timing(timing)),
            clock: Clock::new(how.paced),
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
            noted: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            batches: AtomicU64::new(0),
            exported_bytes: device.exported_bytes(),
            pages: geometry.pages(),
            page_bytes: geometry.page_bytes,
            how,
            scrubbing: Mutex::new(None),
            scrubbed: Mutex::new(None),
        };
        Ok((engine, opened))
    }

    /// The FTL. A panic in it leaves it locked for ever: [`IoError::Off`] from then on.
    fn enter(&self) -> Result<MutexGuard<'_, Option<Core<S, M>>>, IoError> {
        self.core.lock().map_err(|_| IoError::Off)
    }
}

impl<S: Scheme + Send, M: Medium> Export<M> for Engine<S, M> {
    fn exported_bytes(&self) -> u64 {
        self.exported_bytes
    }

    fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    fn is_paced(&self) -> bool {
        self.how.paced
    }

    fn is_read_only(&self) -> bool {
        self.how.read_only
    }

    fn submit(&self, batch: &[Request], reads: &mut Reads<M>, answers: &mut Vec<Result<Answer, IoError>>) {
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
                _ if self.how.read_only && !matches!(request.op, Op::Read | Op::Flush) => {
                    reads.tickets.push(None);
                    Err(IoError::ReadOnly)
                }
                Err(error) if request.op != Op::Read => {
                    reads.tickets.push(None);
                    Err(error)
                }
                _ => core.carry_out(request, reads, waiting, self.exported_bytes),
            };
            answers.push(answer);
        }
        landing = core.land();
        if let Some(recording) = &mut core.recording {
            recording.tell(landing.is_ok());
        }
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

    fn make_durable(&self, operation: u64) -> Result<(), IoError> {
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
            // Failing to note it makes the next start check more, nothing else.
            let _ = core.device.nand_mut().synced(landed);
            self.noted.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn extents(&self, offset: u64, length: u64, most: usize) -> Result<Vec<Extent>, IoError> {
        let end = offset.checked_add(length).filter(|&end| end <= self.exported_bytes);
        let end = end.ok_or(IoError::Outside)?;
        let guard = self.enter()?;
        let core = guard.as_ref().ok_or(IoError::Off)?;
        Ok(core.extents(offset, end, most))
    }

    fn tend(&self, seen: &mut u64) {
        let batches = self.batches.load(Ordering::Relaxed);
        let waiting = self.waiting.load(Ordering::Relaxed) > 0;
        let idle = std::mem::replace(seen, batches) == batches && !waiting;
        let mut sequence = 0;
        if let Ok(mut guard) = self.enter() {
            let Some(core) = guard.as_mut().filter(|core| !core.broken) else { return };
            core.clock.catch_up(core.device.nand_mut().timing());
            if idle && !self.how.read_only && core.land().is_ok() {
                core.broken |= core.device.idle().is_err_and(|fault| fault.is_fatal());
                if core.land().is_ok() {
                    self.landed.store(core.device.nand().sequence(), Ordering::Release);
                }
            }
            sequence = core.device.nand().sequence();
        }
        if self.noted.swap(false, Ordering::Relaxed) && self.medium.sync().is_err() {
            self.unsyncable.store(true, Ordering::Relaxed);
        }
        let behind = self.synced.try_lock().is_ok_and(|synced| sequence >= *synced + SYNC_EVERY);
        if behind {
            // Who asks for durability hears of a failure himself.
            let _ = self.make_durable(sequence);
        }
        self.go_on_scrubbing();
    }

    fn over(&self, tickets: &mut Vec<u64>) -> Result<Option<Duration>, IoError> {
        let mut guard = self.enter()?;
        let core = guard.as_mut().ok_or(IoError::Off)?;
        let timing = core.device.nand_mut().timing();
        core.clock.catch_up(timing);
        core.clock.over(tickets);
        let next = timing.next_ns();
        Ok(next.map(|at| Duration::from_nanos(at.saturating_sub(timing.now()))))
    }

    fn restart(&self, paced: bool) {
        if let Ok(Some(core)) = self.enter().as_mut().map(|guard| guard.as_mut()) {
            core.clock.restart(core.device.nand_mut().timing(), paced && self.how.paced);
            core.device.take_counters();
        }
        if let Ok(mut wall) = self.wall.lock() {
            *wall = Latencies::new();
        }
    }

    fn record(&self, to: Recorder) {
        if let Ok(Some(core)) = self.enter().as_mut().map(|guard| guard.as_mut()) {
            core.recording = Some(Recording::new(to));
        }
    }

    fn scrub(&self, from: u32, found: &mut Scrubbed) -> Result<Option<u32>, IoError> {
        self.scrub_pages(from, found)
    }

    fn scrub_every(&self, period: Duration) {
        self.begin_scrubbing(period);
    }

    fn check(&self) -> Result<(), CheckError> {
        let guard = self.enter()?;
        let core = guard.as_ref().ok_or(IoError::Off)?;
        Ok(core.device.check()?)
    }

    fn arrived(&self, requests: usize) {
        self.waiting.fetch_add(requests, Ordering::Relaxed);
    }

    fn left(&self, requests: usize) {
        self.waiting.fetch_sub(requests, Ordering::Relaxed);
    }

    fn waited(&self, waits: &mut dyn Iterator<Item = (usize, u64)>) {
        if let Ok(mut wall) = self.wall.lock() {
            waits.for_each(|(kind, ns)| wall.record(kind, ns));
        }
    }

    fn snapshot(&self) -> Option<Snapshot> {
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
            bad_blocks: (device.nand().bad_blocks(), device.is_worn()),
            valid_pages: device.flash().valid_pages(),
            wear: device.nand().wear(),
            memory: device.memory(),
            stuck_pages: device.nand().staged_pages(),
            scrubbed: *self.scrubbed.lock().ok()?,
        })
    }

    fn is_off(&self) -> bool {
        self.enter().map_or(true, |core| core.is_none())
    }

    fn power_off(&self) -> Result<(), PowerOffError> {
        let core = self.enter().map_err(|_| PowerOffError::Panicked)?.take();
        let Some(Core { mut device, broken, .. }) = core else { return Ok(()) };
        if self.how.read_only {
            return Ok(());
        }
        if broken || self.unsyncable.load(Ordering::Relaxed) {
            return Err(PowerOffError::Broken);
        }
        device.nand_mut().land()?;
        device.power_off().map_err(PowerOffError::Fault)?;
        Ok(device.into_nand().close()?)
    }
}
