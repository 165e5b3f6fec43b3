//! The queue model: an operation enters its die's queue when what it waits for is complete.
//!
//! An operation passes three gates in this order, each of them for good: the erases of its block that were
//! submitted before it (*fence*), its `after`, and its *turn* in the block. Then it stands in its die's
//! queue.
//!
//! | operation | its turn comes with |
//! | --- | --- |
//! | read | the end of the program of its page, if that was submitted before it |
//! | program | the entry of the page before it into the die's queue |
//! | erase | the end of all that was submitted since the erase before it |
//!
//! Nothing waits for something submitted later, so the model cannot lock up.
//!
//! A die serves one operation at a time. With channels, a read holds the die while it waits for the channel
//! and transfers, and a program while it waits, transfers and programs: a die has one page register.
//!
//! Simultaneous events happen in the order in which they were scheduled; a die chooses its next operation
//! when all that the end of the last one sets free stands in its queue.

use std::collections::VecDeque;

use super::agenda::{time_ns, Agenda, Event, Key, Span, MAX_DIES};
use super::programs::Programs;
use super::slots::{List, Node, Slots, Stage, NONE};
use super::{DieUse, OpKind, Operation, Policy, Times, Timing};
use crate::{Class, Done};

/// The event-driven model: a queue per die and per channel.
///
/// A token names a slot and its generation; when the operation ends the slot is reused and the token, stale
/// now, means "done". Nobody has to give a token back.
#[derive(Clone, Debug)]
pub struct Queued {
    suspend_ns: u64,
    transfers: bool,
    policy: Policy,
    agenda: Agenda,
    slots: Slots,
    blocks: Vec<Block>,
    dies: Vec<Die>,
    channels: Vec<Channel>,
    cores: u32,
    cores_free: u32,
    core_queue: List,
    /// What may have become able to go on at this instant.
    wake: List,
    programs: Programs,
    /// Tags to report before time moves.
    ready: VecDeque<u32>,
    /// Watches and alarms not reported yet, those in `ready` included.
    expected: u64,
    /// Flash operations and controller work not complete.
    in_flight: u64,
}

/// Where a block's order stands. Pages count since the last completed erase.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// Programs complete.
    done: u16,
    /// Programs that have entered the die's queue.
    entered: u16,
    /// Programs past the fence.
    submitted: u16,
    /// Reads and programs past the fence and not complete.
    active: u32,
    /// The erase that later operations wait behind.
    fence: u32,
    /// The program of page `done`, head of the chain by `Slot::successor`, and the last of the chain.
    first: u32,
    last: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing to do: its queues are empty and nothing is suspended.
    Idle,
    /// The array works.
    Array,
    /// It wants its channel.
    Waiting,
    /// It has its channel.
    Transfer,
    /// Its operation has ended, and the die has not chosen the next.
    Between,
}

#[derive(Clone, Debug)]
struct Die {
    phase: Phase,
    /// Kind of `current`.
    kind: Span,
    current: u32,
    /// A program or erase to be resumed, with `remaining_ns` to go.
    suspended: u32,
    /// The event that ends the phase; all others with this die are cancelled.
    event: Key,
    /// When the phase began.
    since_ns: u64,
    /// How long the array phase was to last when it began.
    planned_ns: u64,
    remaining_ns: u64,
    urgent: List,
    queue: List,
    channel: u32,
    /// The next die that waits for the channel.
    next_waiting: u32,
    spent: DieUse,
}

/// Dies that wait for the channel, first come first served.
#[derive(Clone, Copy, Debug)]
struct Channel {
    busy: bool,
    head: u32,
    tail: u32,
}

const NO_DIE: u32 = u32::MAX;

impl Queued {
    /// A device of `dies` dies and `blocks` blocks, all of them erased; die `d` is on channel `d % channels`.
    ///
    /// # Panics
    /// Without a die, a channel or a controller core, or with more than 65,536 dies.
    pub fn new(times: Times, policy: Policy, dies: u32, channels: u32, blocks: u32) -> Queued {
        assert!(dies > 0 && channels > 0, "a device has at least one die and one channel");
        assert!(dies <= MAX_DIES, "the queue model takes at most {MAX_DIES} dies, not {dies}");
        assert!(times.controller_cores > 0, "a controller has at least one core");
        let mut spans = [0; 4];
        spans[Span::Read as usize] = times.read_ns;
        spans[Span::Program as usize] = times.program_ns;
        spans[Span::Erase as usize] = times.erase_ns;
        spans[Span::Transfer as usize] = times.transfer_ns;
        Queued {
            suspend_ns: times.suspend_ns,
            transfers: times.transfer_ns > 0,
            policy,
            agenda: Agenda::new(spans, dies),
            slots: Slots::with_capacity(8192),
            blocks: vec![Block::default(); blocks as usize],
            dies: (0..dies).map(|die| Die::new(die % channels)).collect(),
            channels: vec![Channel::IDLE; channels as usize],
            cores: times.controller_cores,
            cores_free: times.controller_cores,
            core_queue: List::default(),
            wake: List::default(),
            programs: Programs::new(),
            ready: VecDeque::with_capacity(1024),
            expected: 0,
            in_flight: 0,
        }
    }

    /// When the next of its own events falls due, ns: nothing completes before, unless it is submitted
    /// meanwhile. `None`: nothing is in flight.
    pub fn next_ns(&mut self) -> Option<u64> {
        self.agenda.next_ns()
    }

    /// How much everything that may grow can hold.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> Vec<usize> {
        let programs = &self.programs;
        let mut all = vec![self.slots.capacity(), self.ready.capacity()];
        all.extend([programs.complete.capacity(), programs.settles.capacity()]);
        all.extend(self.agenda.capacity());
        all
    }

    /// Makes `slot` wait for `token`, unless that is done.
    #[inline]
    fn attach(&mut self, token: u64, slot: u32) -> bool {
        let target = self.slots.pending(token);
        if target == NONE {
            return false;
        }
        self.slots.attach(target, slot);
        true
    }

    /// Submits an operation. Its fields are arguments of their own, so that they travel in registers. From an
    /// [`Operation`] in memory the compiler loads die and block at once, and the processor then waits until
    /// the caller's two stores of them have left its store buffer: up to 7 % of the time of a simulated read.
    #[inline(never)]
    fn submit(&mut self, node: Node, overtakes: bool, die: u32, block: u32, page: u32, after: Done) -> Done {
        assert!(page <= u32::from(u16::MAX), "the queue model takes at most 65,536 pages in a block");
        let slot = self.slots.allocate(node, after.0);
        let this = &mut self.slots[slot];
        this.die = die;
        this.block = block;
        this.page = page as u16;
        this.urgent = overtakes && self.policy != Policy::Fcfs;
        let token = this.token;
        if node == Node::Program {
            this.extra = self.programs.submit();
        }
        self.in_flight += 1;
        self.advance(slot);
        Done(token)
    }

    // ---- gates ----

    /// Takes an operation as far as it can go now.
    #[inline]
    fn advance(&mut self, slot: u32) {
        let this = &self.slots[slot];
        let (block, after, mut stage) = (this.block as usize, this.after, this.stage);
        if stage == Stage::Fence {
            let fence = self.blocks[block].fence;
            if fence != NONE {
                self.slots.attach(fence, slot);
                return;
            }
            self.pass_fence(slot);
            stage = Stage::After;
        }
        if stage == Stage::After {
            if self.attach(after, slot) {
                self.slots[slot].stage = Stage::After;
                return;
            }
            self.slots[slot].stage = Stage::Turn;
        }
        match self.slots[slot].node {
            Node::Read => {
                if !self.attach(self.slots[slot].extra, slot) {
                    self.enter(slot);
                }
            }
            Node::Program if self.slots[slot].page == self.blocks[block].entered => self.enter_programs(slot),
            Node::Erase if self.blocks[block].active == 0 => self.enter(slot),
            _ => self.slots[slot].stage = Stage::Parked,
        }
    }

    #[inline]
    fn pass_fence(&mut self, slot: u32) {
        let this = &mut self.slots[slot];
        let block = &mut self.blocks[this.block as usize];
        match this.node {
            Node::Read => {
                block.active += 1;
                // A page not submitted is erased (recovery scans it), and must not wait for a program to
                // come.
                if this.page >= block.done && this.page < block.submitted {
                    let mut program = block.first;
                    for _ in block.done..this.page {
                        program = self.slots[program].successor;
                    }
                    self.slots[slot].extra = self.slots[program].token;
                }
            }
            Node::Program => {
                assert!(
                    this.page == block.submitted,
                    "block {}: page {} programmed where page {} is next",
                    this.block,
                    this.page,
                    block.submitted
                );
                block.active += 1;
                block.submitted += 1;
                let last = block.last;
                block.last = slot;
                if last == NONE {
                    block.first = slot;
                } else {
                    self.slots[last].successor = slot;
                }
            }
            _ => block.fence = slot,
        }
    }

    /// Queues a program whose turn has come, and those of its block that only waited for that.
    fn enter_programs(&mut self, slot: u32) {
        let mut slot = slot;
        loop {
            self.blocks[self.slots[slot].block as usize].entered += 1;
            let successor = self.slots[slot].successor;
            self.enter(slot);
            if successor == NONE || self.slots[successor].stage != Stage::Parked {
                return;
            }
            slot = successor;
        }
    }

    /// Hands an operation to its die.
    #[inline]
    fn enter(&mut self, slot: u32) {
        let this = &mut self.slots[slot];
        this.stage = Stage::Entered;
        let (at, urgent) = (this.die, this.urgent);
        let die = &mut self.dies[at as usize];
        if die.phase == Phase::Idle {
            die.spent.idle_ns += self.agenda.now_ns() - die.since_ns;
            self.begin(at, slot);
        } else if !urgent {
            self.slots.push(&mut die.queue, slot);
        } else {
            self.slots.push(&mut die.urgent, slot);
            if self.policy == Policy::Suspend && self.suspend(at) {
                self.choose(at);
            }
        }
    }

    // ---- dies ----

    /// Begins an operation on a die that has none under way.
    #[inline]
    fn begin(&mut self, at: u32, slot: u32) {
        let die = &mut self.dies[at as usize];
        die.current = slot;
        die.kind = match self.slots[slot].node {
            Node::Read => Span::Read,
            Node::Program => Span::Program,
            _ => Span::Erase,
        };
        if die.kind == Span::Program && self.transfers {
            self.request_channel(at);
        } else {
            self.begin_array(at);
        }
    }

    #[inline]
    fn begin_array(&mut self, at: u32) {
        let die = &mut self.dies[at as usize];
        die.phase = Phase::Array;
        die.since_ns = self.agenda.now_ns();
        die.planned_ns = self.agenda.span_ns(die.kind);
        die.event = self.agenda.after_span(die.kind, at);
    }

    /// Interrupts the program or erase in the array of a die. What would end at this instant anyway may end.
    fn suspend(&mut self, at: u32) -> bool {
        let die = &mut self.dies[at as usize];
        let (now_ns, end_ns) = (self.agenda.now_ns(), time_ns(die.event));
        if die.phase != Phase::Array || die.kind == Span::Read || end_ns == now_ns {
            return false;
        }
        assert!(die.suspended == NONE, "an operation is suspended under a suspended one");
        let left_ns = end_ns - now_ns;
        die.spend_array(die.planned_ns - left_ns);
        die.suspended = die.current;
        die.remaining_ns = left_ns + self.suspend_ns;
        die.phase = Phase::Between;
        true
    }

    fn resume(&mut self, at: u32) {
        let die = &mut self.dies[at as usize];
        die.current = std::mem::replace(&mut die.suspended, NONE);
        die.kind = if self.slots[die.current].node == Node::Program { Span::Program } else { Span::Erase };
        die.phase = Phase::Array;
        die.since_ns = self.agenda.now_ns();
        die.planned_ns = die.remaining_ns;
        die.event = self.agenda.resumed(die.remaining_ns, at);
    }

    /// Gives a die its next operation.
    #[inline]
    fn choose(&mut self, at: u32) {
        let die = &mut self.dies[at as usize];
        let slot = self.slots.pop(&mut die.urgent);
        if slot != NONE {
            return self.begin(at, slot);
        }
        if die.suspended != NONE {
            return self.resume(at);
        }
        let slot = self.slots.pop(&mut die.queue);
        if slot != NONE {
            return self.begin(at, slot);
        }
        die.phase = Phase::Idle;
        die.since_ns = self.agenda.now_ns();
    }

    /// The phase of a die has ended.
    #[inline]
    fn phase_ended(&mut self, at: u32) {
        let die = &mut self.dies[at as usize];
        let is_read = die.kind == Span::Read;
        if die.phase == Phase::Array {
            die.spend_array(die.planned_ns);
            if is_read && self.transfers {
                self.request_channel(at);
            } else {
                self.end_operation(at);
            }
            return;
        }
        assert!(die.phase == Phase::Transfer, "die {at} has an event while it waits for nothing");
        die.spent.channel_ns += self.agenda.span_ns(Span::Transfer);
        self.release_channel(at);
        if is_read {
            self.end_operation(at);
            return;
        }
        self.begin_array(at);
        if self.policy == Policy::Suspend && self.dies[at as usize].urgent.head != NONE && self.suspend(at) {
            self.choose(at);
        }
    }

    #[inline]
    fn end_operation(&mut self, at: u32) {
        let die = &mut self.dies[at as usize];
        let slot = std::mem::replace(&mut die.current, NONE);
        die.phase = Phase::Between;
        self.in_flight -= 1;
        let this = &self.slots[slot];
        let (node, number, successor) = (this.node, this.extra, this.successor);
        let block = &mut self.blocks[this.block as usize];
        if node == Node::Erase {
            *block = Block::default();
        } else {
            block.active -= 1;
            if node == Node::Program {
                assert!(this.page == block.done, "programs of a block ended out of order");
                block.done += 1;
                block.first = successor;
                if block.last == slot {
                    block.last = NONE;
                }
            }
            let fence = block.fence;
            if block.active == 0 && fence != NONE && self.slots[fence].stage == Stage::Parked {
                self.slots[fence].stage = Stage::Turn;
                self.slots.push(&mut self.wake, fence);
            }
        }
        self.complete(slot);
        if node == Node::Program {
            self.settle_up_to(number);
        }
        self.run_wakes();
        self.choose(at);
    }

    // ---- channels ----

    fn request_channel(&mut self, at: u32) {
        let die = &mut self.dies[at as usize];
        die.phase = Phase::Waiting;
        die.since_ns = self.agenda.now_ns();
        die.next_waiting = NO_DIE;
        let channel = &mut self.channels[die.channel as usize];
        if !channel.busy {
            channel.busy = true;
            self.begin_transfer(at);
        } else if channel.head == NO_DIE {
            (channel.head, channel.tail) = (at, at);
        } else {
            self.dies[channel.tail as usize].next_waiting = at;
            channel.tail = at;
        }
    }

    fn begin_transfer(&mut self, at: u32) {
        let die = &mut self.dies[at as usize];
        die.spent.channel_ns += self.agenda.now_ns() - die.since_ns;
        die.phase = Phase::Transfer;
        die.since_ns = self.agenda.now_ns();
        die.event = self.agenda.after_span(Span::Transfer, at);
    }

    fn release_channel(&mut self, at: u32) {
        let channel = &mut self.channels[self.dies[at as usize].channel as usize];
        let next = channel.head;
        if next == NO_DIE {
            channel.busy = false;
        } else {
            channel.head = self.dies[next as usize].next_waiting;
            self.begin_transfer(next);
        }
    }

    // ---- completions ----

    /// Makes the tokens of a slot done, reports its tag, and wakes those who wait for it.
    #[inline]
    fn complete(&mut self, slot: u32) {
        let this = &self.slots[slot];
        if this.tagged {
            self.ready.push_back(this.tag);
        }
        let waiters = this.waiters;
        self.slots.release(slot);
        if waiters.head != NONE {
            self.slots.append(&mut self.wake, waiters);
        }
    }

    /// Lets everything go on that can, in order; a list, not a recursion, so that long chains need no stack.
    #[inline]
    fn run_wakes(&mut self) {
        while self.wake.head != NONE {
            let slot = self.slots.pop(&mut self.wake);
            match self.slots[slot].node {
                Node::Read | Node::Program | Node::Erase => self.advance(slot),
                Node::Join => {
                    if !self.attach(self.slots[slot].extra, slot) {
                        self.complete(slot);
                    }
                }
                Node::Compute => self.request_core(slot),
                Node::Watch | Node::Settle => self.complete(slot),
                Node::Free => unreachable!("a free slot was waiting"),
            }
        }
    }

    fn settle_up_to(&mut self, number: u64) {
        let programs = &mut self.programs;
        programs.complete[(number - programs.head) as usize] = true;
        while programs.complete.front() == Some(&true) {
            programs.complete.pop_front();
            programs.head += 1;
        }
        while let Some(&(limit, slot)) = self.programs.settles.front() {
            if limit > self.programs.head {
                break;
            }
            self.programs.settles.pop_front();
            self.complete(slot);
        }
    }

    fn request_core(&mut self, slot: u32) {
        if self.cores_free > 0 {
            self.cores_free -= 1;
            self.agenda.core(self.slots[slot].extra, slot);
        } else {
            self.slots.push(&mut self.core_queue, slot);
        }
    }

    fn end_core(&mut self, slot: u32) {
        self.in_flight -= 1;
        let next = self.slots.pop(&mut self.core_queue);
        if next == NONE {
            self.cores_free += 1;
        } else {
            self.agenda.core(self.slots[next].extra, next);
        }
        self.complete(slot);
        self.run_wakes();
    }

    /// Lets the next event happen.
    ///
    /// # Panics
    /// If there is none: the caller knows of something that has not happened yet.
    #[inline]
    fn step(&mut self) {
        let Some((key, event)) = self.agenda.pop() else {
            panic!("{} operations in flight wait for ever", self.in_flight);
        };
        match event {
            Event::Die(die) => {
                if self.dies[die as usize].event == key {
                    self.agenda.advance_to(key);
                    self.phase_ended(die);
                }
            }
            Event::Core(slot) => {
                self.agenda.advance_to(key);
                self.end_core(slot);
            }
            Event::Alarm(tag) => {
                self.agenda.advance_to(key);
                self.ready.push_back(tag);
            }
        }
    }
}

impl Die {
    fn new(channel: u32) -> Die {
        Die {
            phase: Phase::Idle,
            kind: Span::Read,
            current: NONE,
            suspended: NONE,
            event: 0,
            since_ns: 0,
            planned_ns: 0,
            remaining_ns: 0,
            urgent: List::default(),
            queue: List::default(),
            channel,
            next_waiting: NO_DIE,
            spent: DieUse::default(),
        }
    }

    #[inline]
    fn spend_array(&mut self, ns: u64) {
        match self.kind {
            Span::Read => self.spent.read_ns += ns,
            Span::Program => self.spent.program_ns += ns,
            _ => self.spent.erase_ns += ns,
        }
    }

    fn use_until(&self, now_ns: u64) -> DieUse {
        let mut spent = self.clone();
        let ns = now_ns - self.since_ns;
        match self.phase {
            Phase::Idle => spent.spent.idle_ns += ns,
            Phase::Array => spent.spend_array(ns),
            Phase::Waiting | Phase::Transfer => spent.spent.channel_ns += ns,
            Phase::Between => {}
        }
        spent.spent
    }
}

impl Channel {
    const IDLE: Channel = Channel { busy: false, head: NO_DIE, tail: NO_DIE };
}

impl Timing for Queued {
    fn start(&mut self, written: &[u16]) {
        assert!(self.in_flight == 0, "the clock is reset with {} operations in flight", self.in_flight);
        assert!(
            written.len() == self.blocks.len(),
            "a device of {} blocks, not {}",
            self.blocks.len(),
            written.len()
        );
        for (block, &pages) in self.blocks.iter_mut().zip(written) {
            *block = Block { done: pages, entered: pages, submitted: pages, ..Block::default() };
        }
        self.agenda.clear();
        for die in &mut self.dies {
            *die = Die::new(die.channel);
        }
        self.channels.fill(Channel::IDLE);
        self.cores_free = self.cores;
        self.ready.clear();
        self.expected = 0;
    }

    // Inlined, so that an operation's fields travel in registers (see `submit`).
    #[inline(always)]
    fn operate(&mut self, op: Operation, after: Done) -> Done {
        let node = match op.kind {
            OpKind::Read => Node::Read,
            OpKind::Program => Node::Program,
            OpKind::Erase => Node::Erase,
        };
        let overtakes = node == Node::Read && op.class == Class::HostRead;
        self.submit(node, overtakes, op.die, op.block.0, op.page, after)
    }

    fn compute(&mut self, ns: u64, after: Done) -> Done {
        if ns == 0 {
            return after;
        }
        let slot = self.slots.allocate(Node::Compute, after.0);
        self.slots[slot].extra = ns;
        let token = self.slots[slot].token;
        self.in_flight += 1;
        if !self.attach(after.0, slot) {
            self.request_core(slot);
        }
        Done(token)
    }

    #[inline]
    fn join(&mut self, a: Done, b: Done) -> Done {
        let pending = self.slots.pending(a.0);
        if pending == NONE {
            return b;
        }
        if a.0 == b.0 || self.slots.pending(b.0) == NONE {
            return a;
        }
        let slot = self.slots.allocate(Node::Join, a.0);
        self.slots[slot].extra = b.0;
        self.slots.attach(pending, slot);
        Done(self.slots[slot].token)
    }

    fn settle(&mut self) -> Done {
        let limit = self.programs.submitted();
        if self.programs.head == limit {
            return Done::READY;
        }
        if let Some(&(last, slot)) = self.programs.settles.back() {
            if last == limit {
                return Done(self.slots[slot].token);
            }
        }
        let slot = self.slots.allocate(Node::Settle, 0);
        self.programs.settles.push_back((limit, slot));
        Done(self.slots[slot].token)
    }

    #[inline]
    fn now(&self) -> u64 {
        self.agenda.now_ns()
    }

    #[inline]
    fn arrival(&self) -> Done {
        Done::READY
    }

    #[inline]
    fn watch(&mut self, done: Done, tag: u32) {
        self.expected += 1;
        let pending = self.slots.pending(done.0);
        if pending == NONE {
            self.ready.push_back(tag);
            return;
        }
        let target = &mut self.slots[pending];
        if !target.tagged {
            target.tagged = true;
            target.tag = tag;
            return;
        }
        let slot = self.slots.allocate(Node::Watch, done.0);
        self.slots[slot].tagged = true;
        self.slots[slot].tag = tag;
        self.slots.attach(pending, slot);
    }

    fn alarm(&mut self, at_ns: u64, tag: u32) {
        self.expected += 1;
        if at_ns <= self.agenda.now_ns() {
            self.ready.push_back(tag);
        } else {
            self.agenda.alarm(at_ns, tag);
        }
    }

    #[inline]
    fn next(&mut self) -> Option<(u32, u64)> {
        if self.expected == 0 {
            return None;
        }
        self.expected -= 1;
        loop {
            if let Some(tag) = self.ready.pop_front() {
                return Some((tag, self.agenda.now_ns()));
            }
            self.step();
        }
    }

    fn drain(&mut self) {
        while self.in_flight > 0 {
            self.step();
        }
    }

    #[inline]
    fn most_pending(&self) -> usize {
        self.slots.most()
    }

    fn die_use(&self) -> Vec<DieUse> {
        self.dies.iter().map(|die| die.use_until(self.agenda.now_ns())).collect()
    }
}
