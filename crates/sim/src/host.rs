//! The host: jobs that keep requests in flight, and requests that arrive when they will.
//!
//! One [`Host`] runs one phase. A request goes through
//!
//! | step | where |
//! | --- | --- |
//! | it is drawn from its job's stream, or arrives | [`Host::issue`], [`Host::arrive`] |
//! | host software handles it, if that takes time | [`Host::submit`] |
//! | the device gets it; its completion is watched | [`Host::dispatch`] |
//! | it completes; its latency is recorded, and the job issues its next | [`Host::complete`] |
//!
//! Requests live in slots that are made before the phase begins; the tag of a report names the slot. A
//! request that does not begin and end on a page is widened to whole pages, so a write of part of a page
//! counts as a write of the page; how many there were is reported.

use std::collections::VecDeque;

use ftl::{Coming, Device, HostError, HostOp, Scheme};
use nand::timing::{NoClock, Queued, Reserved, Timing};
use nand::{Done, Fault, Lpn, Nand, SimNand};
use workload::{InputError, Kind, Request};

use crate::look::{Look, Tell};
use crate::meter::{Meter, Reading};
use crate::plan::{timeless, ArrivalPlan, Goal, HostSoftware, JobPlan, Plan};
use crate::reference::{Mismatch, Reference};
use crate::source::{Ring, Stream};

/// A timing model under a host, which must know whether time passes in it.
///
/// The host and each scheme are compiled once for each model: one copy that asks for the model at each
/// operation was 5 to 10 % slower.
pub(crate) trait Timed: Timing {
    /// Without time there is no pacing, no thinking, no runtime and no latency.
    const TICKS: bool;
}

impl Timed for NoClock {
    const TICKS: bool = false;
}

impl Timed for Queued {
    const TICKS: bool = true;
}

impl Timed for Reserved {
    const TICKS: bool = true;
}

/// What a phase runs on: a device, and what every page of it must hold.
#[derive(Clone)]
pub(crate) struct Rig<S, T: Timing> {
    pub(crate) device: Device<S, SimNand<T>>,
    pub(crate) reference: Reference,
}

impl<S: Scheme> Rig<S, NoClock> {
    /// The same device under another clock. Only from no clock to one: schemes keep completions
    /// of the clock that they ran under, and another clock could not read them.
    pub(crate) fn with_clock<T: Timing>(self, clock: T) -> Rig<S, T> {
        Rig { device: self.device.map_nand(|nand| nand.with_timing(clock)), reference: self.reference }
    }
}

impl<S: Scheme, T: Timing> Rig<S, T> {
    #[inline]
    pub(crate) fn clock(&mut self) -> &mut T {
        self.device.nand_mut().timing()
    }

    /// Makes everything acknowledged durable.
    pub(crate) fn flush(&mut self) -> Result<(), Stop> {
        let at = self.clock().arrival();
        let flushed = self.device.request(HostOp::Flush, Lpn(0), 0, at, &mut |_, _| {});
        flushed.map(|_| ()).map_err(|error| Stop::Host { request: 0, error })
    }

    /// Takes the reports that are left and lets everything in flight end. The host has nothing in flight.
    pub(crate) fn drain(&mut self) {
        let clock = self.clock();
        while clock.next().is_some() {}
        clock.drain();
    }
}

/// Why a phase ended early.
#[derive(Clone, Debug)]
pub(crate) enum Stop {
    /// The source of requests failed.
    Input(InputError),
    /// The device refused a request.
    Host { request: u64, error: HostError },
    /// A read found something else than what was written.
    Mismatch { request: u64, mismatch: Mismatch },
    /// A request of no length, or past 16 TiB.
    Request { request: u64, what: String },
    /// Work that no request asked for was the end of the device.
    Unasked(Fault),
    /// Requests come so much faster than the device is that what waits in it would not fit in memory.
    Overload { request: u64 },
    /// Somebody asked the run to stop.
    Asked,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    since_ns: u64,
    bytes: u64,
    first: u32,
    pages: u32,
    job: u32,
    kind: u8,
    failed: bool,
}

const NOTHING_IN_FLIGHT: InFlight =
    InFlight { since_ns: 0, bytes: 0, first: 0, pages: 0, job: 0, kind: 0, failed: false };

/// `InFlight::job` of a request that belongs to no job: it arrived.
const ARRIVED: u32 = u32::MAX;

/// The upper two bits of a tag say what is reported, the lower thirty of what.
const TAG_SHIFT: u32 = 30;
const TAG_MASK: u32 = (1 << TAG_SHIFT) - 1;
const COMPLETED: u32 = 0;
const SUBMITTED: u32 = 1;
const AWAKE: u32 = 2;
const OTHER: u32 = 3;
const ARRIVAL: u32 = OTHER << TAG_SHIFT;
const IDLE: u32 = OTHER << TAG_SHIFT | 1;
const REWRITE: u32 = OTHER << TAG_SHIFT | 2;
const REWRITTEN: u32 = OTHER << TAG_SHIFT | 3;

/// An open load ends when this many operations were pending in the clock, which has room for twice as many:
/// 2 GiB.
pub(crate) const MOST_PENDING: usize = if cfg!(test) { 1 << 16 } else { 1 << 25 };

/// Idle work that takes no time is offered this often before the host believes that it will not end.
const IDLE_AT_ONE_TIME: u32 = 1000;

/// Requests beyond twice the pages of the device that a job which runs for a time may issue at one moment.
const AT_ONE_TIME: u64 = 1 << 20;

/// A rest ends after so many steps of idle work for each physical page.
const IDLE_A_PAGE: u64 = 8;

/// What a job is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Issuing as fast as its depth lets it.
    Issuing,
    /// Waiting for the time of its next request.
    Paced,
    /// Waiting for its requests to end, to think then.
    Quiescing,
    /// Thinking.
    Thinking,
    /// It issues no more.
    Over,
}

struct Job {
    stream: Stream,
    ring: Ring,
    /// Slots of this job that are not in flight.
    idle: Vec<u32>,
    /// The request that waits for its time.
    paced: Option<Request>,
    state: State,
    in_flight: u32,
    end_ns: u64,
    think_ns: u64,
    /// 0: never thinks.
    think_blocks: u64,
    think_left: u64,
}

struct Arrivals {
    stream: Stream,
    ring: Ring,
    next: Option<Request>,
    outstanding: u32,
    /// Requests with the device or in the host's software.
    taken: u32,
    /// Arrived, but the device has enough; with their arrival times.
    waiting: VecDeque<(u64, Request)>,
    idle: Vec<u32>,
}

/// Runs one phase.
pub(crate) struct Host<'a, S: Scheme, T: Timed> {
    rig: &'a mut Rig<S, T>,
    pub(crate) meter: Meter,
    slots: Vec<InFlight>,
    jobs: Vec<Job>,
    arrivals: Option<Arrivals>,
    software: HostSoftware,
    /// Jobs that still issue, and arrivals still to come.
    active: u32,
    rewrite_every_ns: Option<u64>,
    /// Pages that are due to be rewritten, and of which the scheme was not told yet.
    rewrite_due: u32,
    rewriting: bool,
    rests: bool,
    idle_asked: bool,
    idle_repeats: u32,
    idle_at_ns: u64,
    /// The last moment at which a job issued a request, and how many were issued then.
    issued_at_ns: u64,
    issued_then: u64,
    page_shift: u32,
    /// How often progress is told, less one.
    told: u32,
}

impl<'a, S: Scheme, T: Timed> Host<'a, S, T> {
    /// Prepares a phase. Nothing is in flight.
    pub(crate) fn new(rig: &'a mut Rig<S, T>, plan: Plan, meter: Meter) -> Self {
        let page_shift = rig.device.nand().geometry().page_bytes.trailing_zeros();
        let begun_ns = meter.begun_ns;
        let mut slots = Vec::new();
        let rings = plan.jobs.len();
        let jobs = plan.jobs.into_iter().enumerate();
        let jobs: Vec<Job> =
            jobs.map(|(job, plan)| Job::new(job, rings, plan, begun_ns, &mut slots)).collect();
        let arrivals = plan.arrivals.map(|plan| Arrivals::new(plan, &mut slots));
        Host {
            rig,
            meter,
            active: jobs.len() as u32 + u32::from(arrivals.is_some()),
            slots,
            jobs,
            arrivals,
            software: plan.software,
            rewrite_every_ns: plan.rewrite_every_ns,
            rewrite_due: 0,
            rewriting: false,
            rests: plan.rests,
            idle_asked: false,
            idle_repeats: 0,
            idle_at_ns: u64::MAX,
            issued_at_ns: u64::MAX,
            issued_then: 0,
            page_shift,
            told: 0,
        }
    }

    /// Runs the phase until its last request has completed. `tell` hears now and then how far it is on its
    /// way to `goal`.
    pub(crate) fn run(&mut self, goal: &Goal, tell: &mut dyn Tell) -> Result<(), Stop> {
        if self.rests {
            self.rest(tell)?;
        }
        for job in 0..self.jobs.len() as u32 {
            self.issue_all(job)?;
        }
        if self.arrivals.is_some() {
            self.draw_arrival()?;
        }
        self.await_rewrite();
        self.offer_idle()?;
        while !self.over() {
            let Some((tag, now_ns)) = self.rig.clock().next() else { break };
            self.advance(now_ns, goal, tell)?;
            match tag >> TAG_SHIFT {
                COMPLETED => self.complete(tag)?,
                SUBMITTED => self.dispatch(tag & TAG_MASK)?,
                AWAKE => self.wake(tag & TAG_MASK)?,
                _ => match tag {
                    ARRIVAL => self.arrive()?,
                    REWRITE => self.rewrite()?,
                    REWRITTEN => self.rewriting = false,
                    _ => self.idle_asked = false,
                },
            }
            if T::TICKS && self.meter.in_flight == 0 {
                self.offer_idle()?;
            }
        }
        if self.rests {
            self.rest(tell)?;
        }
        Ok(())
    }

    fn over(&self) -> bool {
        self.active == 0 && self.meter.in_flight == 0
    }

    #[inline]
    fn advance(&mut self, now_ns: u64, goal: &Goal, tell: &mut dyn Tell) -> Result<(), Stop> {
        if T::TICKS {
            self.meter.advance(now_ns);
            if now_ns > self.meter.series.due_ns {
                let reading = self.reading();
                self.meter.series.close(now_ns, reading);
            }
        }
        self.told = self.told.wrapping_add(1);
        if self.told & 0xfff == 0 {
            self.report(now_ns, goal, tell)?;
        }
        Ok(())
    }

    #[cold]
    fn report(&mut self, now_ns: u64, goal: &Goal, tell: &mut dyn Tell) -> Result<(), Stop> {
        if tell.stops() {
            return Err(Stop::Asked);
        }
        let bytes = self.meter.tally.iter().map(|tally| tally.bytes).sum();
        tell.far(goal.fraction(self.meter.completed, bytes, now_ns - self.meter.begun_ns));
        if tell.wants() {
            let dies = self.rig.clock().die_use();
            let device = &self.rig.device;
            tell.look(Look {
                counters: device.counters().clone(),
                stats: S::INFO.stats,
                latency: self.meter.latency.clone(),
                now_ns,
                dies,
                free_superblocks: device.free_superblocks(),
                bad_blocks: (device.nand().bad_blocks(), device.is_worn()),
                valid_pages: device.flash().valid_pages(),
                wear: device.nand().wear(),
                memory: device.memory(),
            });
        }
        Ok(())
    }

    /// What the series reads.
    #[cold]
    pub(crate) fn reading(&self) -> Reading {
        let counters = self.rig.device.counters();
        Reading {
            requests: self.meter.completed,
            latency_sum_ns: self.meter.latency_sum_ns,
            pages_read: counters.host_reads,
            pages_written: counters.host_writes,
            lookups: counters.lookups,
            hits: counters.hits(),
            flash_reads: counters.all_reads(),
            flash_programs: counters.all_programs(),
            collections: counters.collections_data + counters.collections_translation,
            free_superblocks: self.rig.device.flash().free_superblocks(),
        }
    }

    // ---- a request's way ----

    /// Gives the request to the host's software, and to the device at once if that takes no time.
    #[inline]
    fn submit(&mut self, slot: u32, request: Request, since_ns: u64) -> Result<(), Stop> {
        let kind = request.kind.index();
        let (first, pages) = self.pages(&request)?;
        let job = self.slots[slot as usize].job;
        self.slots[slot as usize] =
            InFlight { since_ns, bytes: request.bytes, first, pages, job, kind: kind as u8, failed: false };
        self.meter.tally[kind].issued += 1;
        if T::TICKS && self.software.overhead_ns > 0 {
            let through_ns = self.software.serve(self.meter.now_ns);
            self.rig.clock().alarm(through_ns, SUBMITTED << TAG_SHIFT | slot);
            return Ok(());
        }
        self.dispatch(slot)
    }

    /// The pages that a request touches.
    #[inline]
    fn pages(&mut self, request: &Request) -> Result<(u32, u32), Stop> {
        let inside = (1_u64 << self.page_shift) - 1;
        let (first, end) = (request.offset >> self.page_shift, (request.end() + inside) >> self.page_shift);
        if request.bytes == 0 || end > u64::from(u32::MAX) {
            return self.no_pages(request);
        }
        self.meter.widened += u64::from((request.offset | request.bytes) & inside != 0);
        Ok((first as u32, (end - first) as u32))
    }

    #[cold]
    fn no_pages(&self, request: &Request) -> Result<(u32, u32), Stop> {
        if request.kind == Kind::Flush {
            return Ok((0, 0));
        }
        let kind = request.kind.name();
        let what = if request.bytes == 0 {
            format!("a {kind} at byte {} has no length", request.offset)
        } else {
            let exported = u64::from(self.rig.device.exported_pages()) << self.page_shift;
            format!(
                "a {kind} of {} bytes at byte {} is outside the device, which has {exported} bytes",
                request.bytes, request.offset
            )
        };
        Err(Stop::Request { request: self.meter.issued(), what })
    }

    /// Gives the request to the device.
    #[inline]
    fn dispatch(&mut self, slot: u32) -> Result<(), Stop> {
        let InFlight { first, pages, kind, .. } = self.slots[slot as usize];
        const OPS: [HostOp; 4] = [HostOp::Read, HostOp::Write, HostOp::Trim, HostOp::Flush];
        let op = OPS[usize::from(kind)];
        let Rig { device, reference } = &mut *self.rig;
        let at = device.nand_mut().timing().arrival();
        let write = op == HostOp::Write;
        let outcome = device.request(op, Lpn(first), pages, at, &mut |lpn, seen| {
            reference.saw(lpn, seen, write);
        });
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                if op == HostOp::Trim {
                    // A trim that was refused may have happened: its record may be on flash.
                    reference.trimmed(Lpn(first), pages, true);
                }
                return Err(Stop::Host { request: self.meter.issued(), error });
            }
        };
        if op == HostOp::Trim {
            reference.trimmed(Lpn(first), pages, outcome.failed > 0);
        }
        if let Some(mismatch) = reference.mismatch() {
            return Err(Stop::Mismatch { request: self.meter.issued(), mismatch });
        }
        let lookups = self.rig.device.counters().lookups;
        if lookups >= self.meter.occupancy.due {
            self.meter.occupancy.look(self.rig.device.scheme(), lookups);
        }
        self.slots[slot as usize].failed = outcome.failed > 0;
        self.rig.clock().watch(outcome.done, slot);
        Ok(())
    }

    /// The request in `slot` was answered.
    #[inline]
    fn complete(&mut self, slot: u32) -> Result<(), Stop> {
        let InFlight { since_ns, bytes, job, kind, failed, .. } = self.slots[slot as usize];
        self.meter.complete(usize::from(kind), self.meter.now_ns - since_ns, bytes, failed, T::TICKS);
        if job == ARRIVED {
            return self.give_waiting(slot);
        }
        let this = &mut self.jobs[job as usize];
        this.in_flight -= 1;
        if this.state == State::Issuing && (!T::TICKS || this.think_blocks == 0) {
            return self.issue(job, slot);
        }
        this.idle.push(slot);
        self.think(job)
    }

    // ---- jobs ----

    /// Issues requests of a job until its slots are in flight.
    fn issue_all(&mut self, job: u32) -> Result<(), Stop> {
        while self.jobs[job as usize].state == State::Issuing {
            let Some(slot) = self.jobs[job as usize].idle.pop() else { break };
            self.issue(job, slot)?;
        }
        Ok(())
    }

    /// Issues a job's next request in `slot`.
    #[inline]
    fn issue(&mut self, job: u32, slot: u32) -> Result<(), Stop> {
        let now_ns = self.meter.now_ns;
        let this = &mut self.jobs[job as usize];
        let request = match this.ring.take() {
            Some(request) => request,
            None => match self.draw(job)? {
                Some(request) => request,
                None => {
                    self.end_job(job, slot);
                    return Ok(());
                }
            },
        };
        let this = &mut self.jobs[job as usize];
        if let Some(request) = this.ring.soon() {
            expect_soon(self.rig, self.page_shift, request);
        }
        if T::TICKS {
            let at_ns = if request.arrival_ns > 0 { self.meter.begun_ns + request.arrival_ns } else { 0 };
            if at_ns.max(now_ns) >= this.end_ns {
                self.end_job(job, slot);
                return Ok(());
            }
            if at_ns > now_ns {
                this.paced = Some(request);
                this.state = State::Paced;
                this.idle.push(slot);
                self.rig.clock().alarm(at_ns, AWAKE << TAG_SHIFT | job);
                return Ok(());
            }
            self.expect_an_end(job, now_ns)?;
        }
        let this = &mut self.jobs[job as usize];
        this.in_flight += 1;
        self.meter.in_flight += 1;
        self.submit(slot, request, now_ns)
    }

    /// Ends the run if a job that runs for a time has read or trimmed more than the device holds, and no time
    /// has passed: it would go on for ever.
    fn expect_an_end(&mut self, job: u32, now_ns: u64) -> Result<(), Stop> {
        if now_ns != self.issued_at_ns {
            (self.issued_at_ns, self.issued_then) = (now_ns, 0);
        }
        self.issued_then += 1;
        if self.issued_then <= AT_ONE_TIME {
            return Ok(());
        }
        let whole = u64::from(self.rig.device.nand().geometry().pages());
        match &self.jobs[job as usize].stream {
            Stream::Fio(stream) if stream.time_based() && self.issued_then > AT_ONE_TIME + 2 * whole => {
                Err(Stop::Input(timeless(stream.job())))
            }
            _ => Ok(()),
        }
    }

    fn end_job(&mut self, job: u32, slot: u32) {
        let this = &mut self.jobs[job as usize];
        this.state = State::Over;
        this.idle.push(slot);
        self.active -= 1;
    }

    /// Draws the job's next requests, and tells the scheme what is to come.
    #[inline(never)]
    fn draw(&mut self, job: u32) -> Result<Option<Request>, Stop> {
        let this = &mut self.jobs[job as usize];
        this.ring.draw(&mut this.stream).map_err(Stop::Input)?;
        expect_all(self.rig, self.page_shift, &this.ring);
        Ok(this.ring.take())
    }

    /// An alarm of the job went off.
    fn wake(&mut self, job: u32) -> Result<(), Stop> {
        let this = &mut self.jobs[job as usize];
        if this.state == State::Thinking {
            this.think_left = this.think_blocks;
        }
        this.state = State::Issuing;
        if let Some(request) = this.paced.take() {
            if let Some(slot) = this.idle.pop() {
                this.in_flight += 1;
                self.meter.in_flight += 1;
                self.submit(slot, request, self.meter.now_ns)?;
            }
        }
        self.issue_all(job)
    }

    /// A request of a job that thinks, or waits, has completed.
    #[cold]
    fn think(&mut self, job: u32) -> Result<(), Stop> {
        let now_ns = self.meter.now_ns;
        let this = &mut self.jobs[job as usize];
        if this.think_blocks > 0 {
            this.think_left = this.think_left.saturating_sub(1);
            if this.think_left == 0 && this.state == State::Issuing {
                this.state = State::Quiescing;
            }
        }
        if this.state == State::Quiescing && this.in_flight == 0 {
            let until_ns = now_ns + this.think_ns;
            // Nobody thinks behind the last request: the phase ends with it.
            if until_ns >= this.end_ns || !self.has_more(job)? {
                self.jobs[job as usize].state = State::Over;
                self.active -= 1;
                return Ok(());
            }
            self.jobs[job as usize].state = State::Thinking;
            self.rig.clock().alarm(until_ns, AWAKE << TAG_SHIFT | job);
        }
        self.issue_all(job)
    }

    /// Whether a job has another request to issue.
    fn has_more(&mut self, job: u32) -> Result<bool, Stop> {
        let this = &mut self.jobs[job as usize];
        if this.ring.waiting().0.is_empty() {
            this.ring.draw(&mut this.stream).map_err(Stop::Input)?;
            expect_all(self.rig, self.page_shift, &this.ring);
        }
        Ok(!self.jobs[job as usize].ring.waiting().0.is_empty())
    }

    // ---- arrivals ----

    /// Draws the next arrival and sets the alarm for it.
    fn draw_arrival(&mut self) -> Result<(), Stop> {
        let Some(arrivals) = &mut self.arrivals else { return Ok(()) };
        arrivals.next = arrivals.ring.take();
        if arrivals.next.is_none() {
            arrivals.ring.draw(&mut arrivals.stream).map_err(Stop::Input)?;
            expect_all(self.rig, self.page_shift, &arrivals.ring);
            arrivals.next = arrivals.ring.take();
        }
        if let Some(request) = arrivals.ring.soon() {
            expect_soon(self.rig, self.page_shift, request);
        }
        match arrivals.next {
            Some(request) => {
                let at_ns = self.meter.begun_ns.saturating_add(request.arrival_ns);
                self.rig.clock().alarm(at_ns, ARRIVAL);
            }
            None => self.active -= 1,
        }
        Ok(())
    }

    /// A request arrives.
    fn arrive(&mut self) -> Result<(), Stop> {
        let now_ns = self.meter.now_ns;
        if self.rig.clock().most_pending() > MOST_PENDING {
            return Err(Stop::Overload { request: self.meter.issued() });
        }
        let Some(arrivals) = &mut self.arrivals else { return Ok(()) };
        let Some(request) = arrivals.next.take() else { return Ok(()) };
        self.meter.in_flight += 1;
        if arrivals.taken >= arrivals.outstanding {
            arrivals.waiting.push_back((now_ns, request));
        } else {
            arrivals.taken += 1;
            let slot = arrivals.idle.pop().unwrap_or_else(|| {
                self.slots.push(InFlight { job: ARRIVED, ..NOTHING_IN_FLIGHT });
                self.slots.len() as u32 - 1
            });
            self.submit(slot, request, now_ns)?;
        }
        self.draw_arrival()
    }

    /// A slot of the arrivals is free again.
    fn give_waiting(&mut self, slot: u32) -> Result<(), Stop> {
        let Some(arrivals) = &mut self.arrivals else { return Ok(()) };
        match arrivals.waiting.pop_front() {
            Some((since_ns, request)) => self.submit(slot, request, since_ns),
            None => {
                arrivals.taken -= 1;
                arrivals.idle.push(slot);
                Ok(())
            }
        }
    }

    // ---- rewriting ----

    /// Sets the alarm for the next pages to rewrite.
    fn await_rewrite(&mut self) {
        if let Some(every_ns) = self.rewrite_every_ns.filter(|_| T::TICKS) {
            self.rig.clock().alarm(self.meter.now_ns + every_ns, REWRITE);
        }
    }

    /// Lets the scheme rewrite some pages, unless it has not done with the last ones.
    #[cold]
    fn rewrite(&mut self) -> Result<(), Stop> {
        self.rewrite_due += self.rig.device.nand().geometry().units();
        if !self.rewriting && !self.over() {
            if let Some(done) = unasked(self.rig.device.rewrite(std::mem::take(&mut self.rewrite_due)))? {
                self.rewriting = true;
                self.rig.clock().watch(done, REWRITTEN);
            }
        }
        self.await_rewrite();
        Ok(())
    }

    // ---- idleness ----

    /// Offers the scheme the time until the next request.
    #[cold]
    fn offer_idle(&mut self) -> Result<(), Stop> {
        if !T::TICKS || self.idle_asked || self.meter.in_flight > 0 || self.over() {
            return Ok(());
        }
        let now_ns = self.meter.now_ns;
        if self.idle_at_ns == now_ns {
            self.idle_repeats += 1;
            if self.idle_repeats > IDLE_AT_ONE_TIME {
                return Ok(());
            }
        } else {
            (self.idle_at_ns, self.idle_repeats) = (now_ns, 0);
        }
        if let Some(done) = unasked(self.rig.device.idle())? {
            self.idle_asked = true;
            self.rig.clock().watch(done, IDLE);
        }
        Ok(())
    }

    /// Lets the scheme do all that it does when nobody asks for anything, with nothing dirty left.
    fn rest(&mut self, tell: &mut dyn Tell) -> Result<(), Stop> {
        self.idle_on(tell)?;
        unasked(self.rig.device.power_off().map(Some))?;
        self.idle_on(tell)
    }

    /// Offers idle time until the scheme has no use for it. An end is set for one that always has.
    fn idle_on(&mut self, tell: &mut dyn Tell) -> Result<(), Stop> {
        let most = IDLE_A_PAGE * u64::from(self.rig.device.nand().geometry().pages());
        for step in 1..=most {
            if unasked(self.rig.device.idle())?.is_none() {
                break;
            }
            if step % 4096 == 0 && tell.stops() {
                return Err(Stop::Asked);
            }
        }
        Ok(())
    }

    /// What was counted.
    pub(crate) fn into_meter(self) -> Meter {
        self.meter
    }
}

/// What came of work that the host did not ask for. A page's fault is counted at the door; nothing failed for
/// the host.
fn unasked(work: Result<Option<Done>, Fault>) -> Result<Option<Done>, Stop> {
    match work {
        Err(fault) if fault.is_fatal() => Err(Stop::Unasked(fault)),
        work => Ok(work.unwrap_or(None)),
    }
}

/// Tells the scheme which pages come next: those drawn just now, and the first of them again.
#[inline]
fn expect_all<S: Scheme, T: Timing>(rig: &Rig<S, T>, page_shift: u32, ring: &Ring) {
    let (waiting, soon) = ring.waiting();
    for request in waiting {
        expect(rig, page_shift, request, Coming::Later);
    }
    for request in &waiting[..soon] {
        expect_soon(rig, page_shift, request);
    }
}

#[inline]
fn expect_soon<S: Scheme, T: Timing>(rig: &Rig<S, T>, page_shift: u32, request: &Request) {
    let coming = if request.kind == Kind::Read { Coming::Read } else { Coming::Write };
    expect(rig, page_shift, request, coming);
}

#[inline]
fn expect<S: Scheme, T: Timing>(rig: &Rig<S, T>, page_shift: u32, request: &Request, coming: Coming) {
    rig.device.expect(request.offset >> page_shift, coming);
}

impl Job {
    fn new(job: usize, rings: usize, plan: JobPlan, begun_ns: u64, slots: &mut Vec<InFlight>) -> Job {
        let from = slots.len() as u32;
        slots.resize(
            slots.len() + plan.depth.max(1) as usize,
            InFlight { job: job as u32, ..NOTHING_IN_FLIGHT },
        );
        let think_blocks = if plan.think_ns > 0 { plan.think_blocks.max(1) } else { 0 };
        Job {
            stream: plan.stream,
            ring: Ring::new(rings),
            idle: (from..slots.len() as u32).rev().collect(),
            paced: None,
            state: State::Issuing,
            in_flight: 0,
            end_ns: plan.runtime_ns.map_or(u64::MAX, |ns| begun_ns.saturating_add(ns)),
            think_ns: plan.think_ns,
            think_blocks,
            think_left: think_blocks,
        }
    }
}

impl Arrivals {
    fn new(plan: ArrivalPlan, slots: &mut Vec<InFlight>) -> Arrivals {
        let outstanding = plan.outstanding.unwrap_or(TAG_MASK).clamp(1, TAG_MASK);
        let from = slots.len() as u32;
        slots.resize(
            slots.len() + outstanding.min(4096) as usize,
            InFlight { job: ARRIVED, ..NOTHING_IN_FLIGHT },
        );
        Arrivals {
            stream: plan.stream,
            ring: Ring::new(1),
            next: None,
            outstanding,
            taken: 0,
            waiting: VecDeque::with_capacity(4096),
            idle: (from..slots.len() as u32).rev().collect(),
        }
    }
}
