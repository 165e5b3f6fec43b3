//! Mappings in memory: TP nodes under LRU, each with up to three secondary lists, counted in bytes.
//!
//! A TP node stands for a chunk. Its lists hold
//! - point mappings: *outliers*, clean or newer than flash, and *log mappings* of linear groups that are not
//!   trained yet;
//! - linear models, trained since the chunk was written back or as they are on flash;
//! - at the head of these, the outlier identifier of the record on flash.
//!
//! What is clean is put out chunk by chunk, of the one that was looked up least recently: its outlier
//! mappings, the least recently used ones first; when none is left, its models on flash and the identifier
//! together.
//!
//! A point mapping goes before every model; a model trained later before one trained earlier, and any of them
//! before those on flash. What is newer than flash is never put out. Of the rest any part may be missing: the
//! answer is then [`Answer::Missing`].
//!
//! What is charged: [`NODE_BYTES`] a node (its number, links of two orders of use, heads and lengths of its
//! lists), [`POINT_BYTES`] a point mapping and 8 bytes a model, as the paper has them, and 2 more a model for
//! the last LPA that it covers, which the record needs not say; the identifier as it is on flash. And
//! [`Cache::slack`].

mod check;
mod heads;
mod replacement;

use super::linear::LinearModel;
use super::offsets::{bit, has_clear, set_bits, Bits, MOST_LPAS};
use super::record::{identifier_bytes, Covering, Parts, HEADER};
use crate::bits;
use crate::cmt::entries::{Entries, Entry};
use crate::list::{linked, Links, List, NONE};
use heads::{Head, Heads};
use nand::{Done, Lpn};
use prefetch_index::prefetch_index;
use std::ops::{Range, RangeInclusive};

/// Bytes of a TP node.
pub const NODE_BYTES: u64 = 16;
/// Bytes of a point mapping.
pub const POINT_BYTES: u64 = 8;
/// Bytes of a model.
pub const MODEL_BYTES: u64 = LinearModel::BYTES as u64 + 2;
/// Trained models of a node beyond which those that newer ones hide are looked for.
const MANY_TRAINED: u32 = 32;

/// What the cache says of an LPN.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// A point mapping: its entry, and when it is known.
    Point(u32, Done),
    /// The model that covers it, and when that is known.
    Model(LinearModel, Done),
    /// It is mapped nowhere.
    Nowhere(Done),
    /// Only flash knows.
    Missing,
}

/// A model trained since its chunk was written back.
#[derive(Clone, Copy, Debug)]
struct Held {
    own: Covering,
    next: u32,
}

/// A TP node but for its identifier and its place in the order of use: so one fills a line of the processor's
/// cache, and the links of all fit its second level.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Node {
    is_present: bool,
    /// It is in the list of nodes with something clean.
    has_clean: bool,
    /// Clean outlier mappings, most recently used first.
    clean: List,
    /// Outlier mappings newer than flash, and log mappings.
    dirty: u16,
    logs: u16,
    /// Models trained since the chunk was written back, newest first; their number.
    trained: u32,
    trained_count: u16,
    /// The outliers of the identifier, if it is here.
    outliers: u16,
    has_identifier: bool,
    /// Models as they are on flash.
    head: Head,
    /// When what it holds of the record is loaded.
    known: Done,
    /// When what is newer than flash can be written back: its pages are programmed, and its models made.
    newer_known: Done,
    /// The record that is being written has the models of the one before.
    models_stay: bool,
}

const ABSENT: Node = Node {
    is_present: false,
    has_clean: false,
    clean: List::EMPTY,
    dirty: 0,
    logs: 0,
    trained: NONE,
    trained_count: 0,
    outliers: 0,
    has_identifier: false,
    head: Head::NONE,
    known: Done::READY,
    newer_known: Done::READY,
    models_stay: false,
};

const _: () = assert!(size_of::<Node>() == 64);

impl Node {
    fn is_dirty(&self) -> bool {
        self.newer() > 0
    }

    /// Things newer than on flash.
    fn newer(&self) -> u16 {
        self.dirty + self.logs + self.trained_count
    }
}

/// A node's neighbours in an order of use.
#[derive(Clone, Copy, Debug)]
struct Place {
    links: Links,
}

linked!(Place);

/// Which offsets of a chunk are outliers, in a line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Identifier(Bits);

/// TP nodes and their lists.
#[derive(Clone, Debug)]
pub struct Cache {
    lpas: u32,
    /// By chunk.
    nodes: Vec<Node>,
    outliers: Vec<Identifier>,
    points: Entries,
    /// One bit an LPN: it has a log mapping.
    log_bits: Vec<u64>,
    heads: Heads,
    held: Vec<Held>,
    free_held: u32,
    /// Nodes, the most recently used first; by chunk.
    used: List,
    used_places: Vec<Place>,
    /// Those with something clean, in the order of what was looked up; by chunk.
    clean: List,
    clean_places: Vec<Place>,
    clock: u64,
    models: u64,
    identifiers: u64,
    /// Dirty outliers and log mappings; trained models; nodes with any of these.
    dirty_points: u64,
    logs: u64,
    trained: u64,
    dirty_nodes: u32,
}

impl Cache {
    /// An empty cache of chunks of `lpas` LPAs each, which will not hold more than `bytes` bytes.
    pub fn new(chunks: u32, lpas: u32, bytes: u64) -> Cache {
        assert!(lpas.is_power_of_two() && lpas as usize <= MOST_LPAS);
        let lpns = chunks as usize * lpas as usize;
        let points = lpns.min((bytes / POINT_BYTES) as usize + 1);
        let places = vec![Place { links: Links::NONE }; chunks as usize];
        Cache {
            lpas,
            nodes: vec![ABSENT; chunks as usize],
            outliers: vec![Identifier(Bits::default()); chunks as usize],
            points: Entries::new(points, lpns),
            log_bits: vec![0; lpns.div_ceil(64)],
            heads: Heads::new(lpas, lpns, bytes),
            held: Vec::with_capacity(lpns.min((bytes / MODEL_BYTES) as usize + 1)),
            free_held: NONE,
            used: List::EMPTY,
            used_places: places.clone(),
            clean: List::EMPTY,
            clean_places: places,
            clock: 0,
            models: 0,
            identifiers: 0,
            dirty_points: 0,
            logs: 0,
            trained: 0,
            dirty_nodes: 0,
        }
    }

    /// Bytes of nodes, point mappings, models and identifiers.
    pub fn parts(&self) -> [u64; 4] {
        let points = self.points.len() as u64 * POINT_BYTES;
        [u64::from(self.used.len()) * NODE_BYTES, points, self.models * MODEL_BYTES, self.identifiers]
    }

    /// Bytes kept free for the entries that the directory gets when translation pages are split. A point
    /// mapping that is newer than flash adds at most 16 bytes to a record, a trained model at most 24,
    /// and a part of a split page is filled with a thousand bytes at least: 10 bytes of directory for
    /// each part.
    pub fn slack(&self) -> u64 {
        40 + (self.dirty_points + self.logs).div_ceil(6) + self.trained.div_ceil(4)
    }

    /// All bytes charged.
    pub fn bytes(&self) -> u64 {
        self.held_bytes() + self.slack()
    }

    /// Bytes of what is newer than on flash, without nodes.
    pub fn dirty_bytes(&self) -> u64 {
        (self.dirty_points + self.logs) * POINT_BYTES + self.trained * MODEL_BYTES
    }

    /// Bytes of nodes, point mappings, models and identifiers together.
    pub fn held_bytes(&self) -> u64 {
        self.parts().iter().sum()
    }

    /// Bytes of log mappings.
    pub fn log_bytes(&self) -> u64 {
        self.logs * POINT_BYTES
    }

    #[inline]
    fn node_of(&self, lpn: Lpn) -> usize {
        (lpn.0 >> self.lpas.trailing_zeros()) as usize
    }

    /// The LPNs of a chunk.
    fn lpns_of(&self, chunk: u32) -> (Lpn, Lpn) {
        (Lpn(chunk * self.lpas), Lpn((chunk + 1) * self.lpas))
    }

    /// Whether anything of a chunk is in memory.
    #[inline]
    pub fn has(&self, chunk: u32) -> bool {
        self.nodes[chunk as usize].is_present
    }

    /// Whether the head of a chunk is in memory.
    #[inline]
    pub fn has_head(&self, chunk: u32) -> bool {
        self.nodes[chunk as usize].has_identifier
    }

    /// Whether anything of a chunk is newer than on flash.
    #[inline]
    pub fn is_dirty(&self, chunk: u32) -> bool {
        self.nodes[chunk as usize].is_dirty()
    }

    /// Chunks of which something is newer than on flash.
    pub fn dirty_nodes(&self) -> u32 {
        self.dirty_nodes
    }

    /// Log mappings of a chunk.
    pub fn logs_of(&self, chunk: u32) -> u32 {
        u32::from(self.nodes[chunk as usize].logs)
    }

    /// Whether the cache had the identifier of a chunk, or has trained models of it.
    pub fn wants_head(&self, chunk: u32) -> bool {
        let node = &self.nodes[chunk as usize];
        node.has_identifier || node.trained_count > 0
    }

    // Nodes

    /// Makes a chunk's node the most recently used one, if there is one.
    #[inline]
    pub fn touch(&mut self, chunk: u32) {
        if self.has(chunk) {
            self.used.touch(&mut self.used_places, chunk);
            if self.nodes[chunk as usize].has_clean {
                self.clean.touch(&mut self.clean_places, chunk);
            }
        }
    }

    /// Lists a node among those with something clean, or takes it out. One that was not listed goes to the
    /// end: what nobody asked for goes first.
    fn list_clean(&mut self, chunk: u32) {
        let node = &mut self.nodes[chunk as usize];
        let has_clean = node.has_identifier || !node.clean.is_empty();
        if has_clean == node.has_clean {
            return;
        }
        node.has_clean = has_clean;
        if has_clean {
            self.clean.push_back(&mut self.clean_places, chunk);
        } else {
            self.clean.unlink(&mut self.clean_places, chunk);
        }
    }

    fn enter(&mut self, chunk: u32) {
        if !self.has(chunk) {
            self.nodes[chunk as usize] = Node { is_present: true, ..ABSENT };
            self.used.push_front(&mut self.used_places, chunk);
        }
    }

    /// Changes a node and keeps the number of dirty ones.
    fn change<T>(&mut self, chunk: usize, change: impl FnOnce(&mut Node) -> T) -> T {
        let node = &mut self.nodes[chunk];
        let was = node.is_dirty();
        let out = change(node);
        let is = node.is_dirty();
        self.dirty_nodes = self.dirty_nodes + u32::from(is) - u32::from(was);
        out
    }

    // Lookups

    /// What the cache says of an LPN, whose offset in its chunk is `offset`.
    #[inline]
    pub fn answer(&mut self, lpn: Lpn, offset: u16) -> Answer {
        let chunk = self.node_of(lpn);
        if !self.nodes[chunk].is_present {
            return Answer::Missing;
        }
        self.touch(chunk as u32);
        if let Some(slot) = self.points.find(lpn) {
            self.use_point(chunk, slot);
            let entry = self.points.get(slot);
            return Answer::Point(entry.ppn, entry.done);
        }
        self.by_model(chunk, offset)
    }

    /// The first of some LPNs of a chunk of which the cache does not know where it is.
    pub fn first_missing(&self, lpns: Range<Lpn>) -> Option<Lpn> {
        let chunk = self.node_of(lpns.start);
        let (node, first) = (&self.nodes[chunk], chunk as u32 * self.lpas);
        let (mut from, end) = (lpns.start.0 - first, lpns.end.0 - first);
        // With a whole head outliers alone may be missing.
        let has_head = node.has_identifier && node.head.missing == 0;
        while from < end {
            let next = if has_head { bits::next(&self.outliers[chunk].0, from, end)? } else { from };
            if matches!(self.peek(Lpn(first + next), next as u16), Answer::Missing) {
                return Some(Lpn(first + next));
            }
            from = next + 1;
        }
        None
    }

    /// What the cache says of an LPN, without using anything.
    pub fn peek(&self, lpn: Lpn, offset: u16) -> Answer {
        let chunk = self.node_of(lpn);
        match self.points.find(lpn).map(|slot| self.points.get(slot)) {
            Some(entry) => Answer::Point(entry.ppn, entry.done),
            None => self.by_model(chunk, offset),
        }
    }

    fn by_model(&self, chunk: usize, offset: u16) -> Answer {
        let node = &self.nodes[chunk];
        let covers = |held: &&Held| held.own.first <= offset && offset <= held.own.last;
        let of = |model: LinearModel| match model.group {
            LinearModel::NOWHERE => Answer::Nowhere(node.known),
            _ => Answer::Model(model, node.known),
        };
        if let Some(held) = self.list(node.trained).find(covers) {
            return of(held.own.model);
        }
        if !node.has_identifier || bit(&self.outliers[chunk].0, offset) {
            return Answer::Missing;
        }
        match self.heads.find(&node.head, offset) {
            Some(model) => of(model),
            None if node.head.missing == 0 => Answer::Nowhere(node.known),
            None => Answer::Missing,
        }
    }

    fn list(&self, mut at: u32) -> impl Iterator<Item = &Held> {
        std::iter::from_fn(move || {
            let held = self.held.get(at as usize)?;
            at = held.next;
            Some(held)
        })
    }

    fn use_point(&mut self, chunk: usize, slot: u32) {
        self.clock += 1;
        self.points.get_mut(slot).set_used(self.clock);
        if !self.points.get(slot).is_dirty() {
            let list = &mut self.nodes[chunk].clean;
            self.points.unlink(list, slot);
            self.points.push_front(list, slot);
        }
    }

    // Point mappings

    /// The point mapping of an LPN.
    pub fn point(&self, lpn: Lpn) -> Option<&Entry> {
        self.points.find(lpn).map(|slot| self.points.get(slot))
    }

    /// The first LPN from `from` on, and below `end`, that has a point mapping.
    pub fn next_point(&self, from: Lpn, end: Lpn) -> Option<Lpn> {
        self.points.next_present(from, end)
    }

    /// The first LPNs of a range that have log mappings, and their slots, as many as `found` takes. Returns
    /// how many there are. The processor brings their places, then their entries, while it looks for more.
    pub fn next_logs(&self, lpns: Range<Lpn>, found: &mut [(Lpn, u32)]) -> usize {
        let (mut count, mut from) = (0, lpns.start.0);
        while count < found.len() {
            let Some(lpn) = bits::next(&self.log_bits, from, lpns.end.0) else { break };
            self.points.expect(Lpn(lpn));
            found[count].0 = Lpn(lpn);
            (count, from) = (count + 1, lpn + 1);
        }
        for (lpn, slot) in &mut found[..count] {
            let Some(at) = self.points.find(*lpn) else { unreachable!("LPN {} has no log mapping", lpn.0) };
            self.points.expect_slot(at);
            *slot = at;
        }
        count
    }

    /// The page that the point mapping in a slot leads to.
    pub fn ppn_in(&self, slot: u32) -> u32 {
        self.points.get(slot).ppn
    }

    /// Whether a point mapping is a log mapping.
    pub fn is_log(entry: &Entry) -> bool {
        entry.is_dirty() && entry.list() == LOG
    }

    /// Adds a point mapping as it is on flash for an LPN that has none.
    pub fn add_clean(&mut self, lpn: Lpn, entry: u32, known: Done) {
        let chunk = self.node_of(lpn);
        self.enter(chunk as u32);
        self.clock += 1;
        let slot = self.points.insert(lpn, entry, known);
        self.points.get_mut(slot).set_used(self.clock);
        self.points.push_front(&mut self.nodes[chunk].clean, slot);
        self.list_clean(chunk as u32);
    }

    /// Sets the point mapping of an LPN, newer than flash from now on: a log mapping, or an outlier.
    /// Returns whether it was a log mapping before.
    pub fn set(&mut self, lpn: Lpn, entry: u32, done: Done, logs: bool) -> bool {
        let chunk = self.node_of(lpn);
        self.enter(chunk as u32);
        self.used.touch(&mut self.used_places, chunk as u32);
        let (slot, was_log) = match self.points.find(lpn) {
            Some(slot) => {
                let was_log = Self::is_log(self.points.get(slot));
                self.leave_list(chunk, slot);
                (slot, was_log)
            }
            None => (self.points.insert(lpn, entry, done), false),
        };
        self.clock += 1;
        let point = self.points.get_mut(slot);
        point.set_used(self.clock);
        (point.ppn, point.done) = (entry, done);
        self.join_dirty(chunk, slot, logs);
        was_log
    }

    /// A log mapping was trained and is an outlier.
    pub fn is_outlier(&mut self, lpn: Lpn) {
        if let Some(slot) = self.points.find(lpn) {
            self.is_outlier_in(slot);
        }
    }

    /// The same, by the log mapping's slot ([`Cache::logs_among`]).
    pub fn is_outlier_in(&mut self, slot: u32) {
        let chunk = self.node_of(self.points.get(slot).lpn);
        self.leave_list(chunk, slot);
        self.join_dirty(chunk, slot, false);
    }

    /// The slots of the log mappings among some LPNs of a chunk, ascending by LPN.
    pub fn logs_among<'a>(&self, lpns: Range<u32>, slots: &'a mut [u32; MOST_LPAS]) -> &'a [u32] {
        let (mut count, mut from) = (0, lpns.start);
        while let Some(lpn) = bits::next(&self.log_bits, from, lpns.end) {
            from = lpn + 1;
            if let Some(slot) = self.points.find(Lpn(lpn)) {
                slots[count] = slot;
                count += 1;
            }
        }
        &slots[..count]
    }

    /// Drops log mappings of a chunk, by slot.
    pub fn remove_logs(&mut self, chunk: u32, slots: &[u32]) {
        for &slot in slots {
            let removed = self.points.remove(slot);
            bits::set(&mut self.log_bits, removed.lpn.0, false);
        }
        self.logs -= slots.len() as u64;
        self.change(chunk as usize, |node| node.logs -= slots.len() as u16);
    }

    /// Drops the point mapping of an LPN, if there is one.
    pub fn remove(&mut self, lpn: Lpn) -> Option<Entry> {
        let chunk = self.node_of(lpn);
        let slot = self.points.find(lpn)?;
        self.leave_list(chunk, slot);
        Some(self.points.remove(slot))
    }

    fn join_dirty(&mut self, chunk: usize, slot: u32, log: bool) {
        let point = self.points.get_mut(slot);
        point.set_dirty(true);
        point.set_list(if log { LOG } else { 0 });
        bits::set(&mut self.log_bits, point.lpn.0, log);
        let count = if log { &mut self.logs } else { &mut self.dirty_points };
        *count += 1;
        self.change(chunk, |node| if log { node.logs += 1 } else { node.dirty += 1 });
    }

    /// Takes a point mapping out of the list or count that it is in.
    fn leave_list(&mut self, chunk: usize, slot: u32) {
        let point = self.points.get(slot);
        let (lpn, dirty, log) = (point.lpn, point.is_dirty(), Self::is_log(point));
        if !dirty {
            self.points.unlink(&mut self.nodes[chunk].clean, slot);
            self.list_clean(chunk as u32);
            return;
        }
        if log {
            bits::set(&mut self.log_bits, lpn.0, false);
        }
        let count = if log { &mut self.logs } else { &mut self.dirty_points };
        *count -= 1;
        self.change(chunk, |node| if log { node.logs -= 1 } else { node.dirty -= 1 });
    }

    // Models

    fn new_held(&mut self, own: Covering, next: u32) -> u32 {
        self.models += 1;
        let held = Held { own, next };
        if self.free_held == NONE {
            self.held.push(held);
            return self.held.len() as u32 - 1;
        }
        let at = self.free_held;
        self.free_held = std::mem::replace(&mut self.held[at as usize], held).next;
        prefetch_index(&self.held, self.free_held as usize);
        at
    }

    fn free(&mut self, at: u32) {
        self.models -= 1;
        self.held[at as usize].next = self.free_held;
        self.free_held = at;
    }

    /// Sets when what is newer than flash of a chunk can be written back.
    pub fn set_newer(&mut self, chunk: u32, newer: Done) {
        self.nodes[chunk as usize].newer_known = newer;
    }

    /// Adds a trained model; those trained before that it hides are dropped. Where there are many, those that
    /// several newer ones hide together are, too: looked for when one comes that lies over another.
    pub fn train(&mut self, chunk: u32, own: Covering, known: Done) {
        self.enter(chunk);
        let mut lies_over = u32::from(self.nodes[chunk as usize].trained_count) <= MANY_TRAINED;
        self.drop_hidden(chunk as usize, |other, _| {
            let is_hidden = own.first <= other.first && other.last <= own.last;
            lies_over |= !is_hidden && own.first <= other.last && other.first <= own.last;
            is_hidden
        });
        let at = self.new_held(own, self.nodes[chunk as usize].trained);
        self.trained += 1;
        let count = self.change(chunk as usize, |node| {
            node.trained = at;
            node.known = known;
            node.trained_count += 1;
            u32::from(node.trained_count)
        });
        if count > MANY_TRAINED && lies_over {
            // Offsets that newer models cover.
            self.drop_hidden(chunk as usize, |own, covered| {
                let is_hidden = !has_clear(covered, own.first, own.last, 0);
                set_bits(covered, own.first, own.last);
                is_hidden
            });
        }
    }

    fn drop_hidden(&mut self, chunk: usize, mut is_hidden: impl FnMut(&Covering, &mut Bits) -> bool) {
        let mut covered = Bits::default();
        let (mut before, mut at) = (NONE, self.nodes[chunk].trained);
        while at != NONE {
            let held = self.held[at as usize];
            if is_hidden(&held.own, &mut covered) {
                if before == NONE {
                    self.nodes[chunk].trained = held.next;
                } else {
                    self.held[before as usize].next = held.next;
                }
                self.free(at);
                self.trained -= 1;
                self.change(chunk, |node| node.trained_count -= 1);
            } else {
                before = at;
            }
            at = held.next;
        }
    }

    /// When the models of a chunk are known, and when what is newer than flash can be written back.
    pub fn waits(&self, chunk: u32) -> (Done, Done) {
        let node = &self.nodes[chunk as usize];
        (node.known, node.newer_known)
    }

    /// The trained models of a chunk, the newest first, and the number of each ([`Cache::model`]).
    pub fn trained(&self, chunk: u32) -> impl Iterator<Item = (u32, &Covering)> {
        let mut at = self.nodes[chunk as usize].trained;
        std::iter::from_fn(move || {
            let (number, held) = (at, self.held.get(at as usize)?);
            at = held.next;
            Some((number, &held.own))
        })
    }

    /// Whether there are such models.
    pub fn has_trained(&self, chunk: u32) -> bool {
        self.nodes[chunk as usize].trained_count > 0
    }

    /// About the bytes that the first record of a chunk takes, as if models were found for all log
    /// mappings; 0: nothing of it is newer than on flash.
    pub fn bytes_of_newer(&self, chunk: u32, point_bytes: usize) -> usize {
        let node = &self.nodes[chunk as usize];
        if !node.is_dirty() {
            return 0;
        }
        let (models, outliers) = (usize::from(node.trained_count.max(1)), node.dirty);
        let identifier = identifier_bytes(u32::from(outliers), self.lpas) as usize;
        HEADER + models * LinearModel::BYTES + identifier + usize::from(outliers) * point_bytes
    }

    /// The offset and entry of each point mapping of a chunk that is newer than flash, ascending.
    pub fn dirty_points(&self, chunk: u32) -> impl Iterator<Item = (u16, u32)> + '_ {
        let (first, end) = self.lpns_of(chunk);
        let points = std::iter::successors(self.points.next_present(first, end), move |lpn| {
            self.points.next_present(Lpn(lpn.0 + 1), end)
        });
        let entries = points.filter_map(move |lpn| Some(((lpn.0 - first.0) as u16, self.point(lpn)?)));
        entries.filter(|(_, point)| point.is_dirty()).map(|(offset, point)| (offset, point.ppn))
    }

    /// A model by the number that [`Cache::trained`] gave.
    pub fn model(&self, number: u32) -> LinearModel {
        self.held[number as usize].own.model
    }

    /// Bytes that the head of a record takes: identifier and models.
    pub fn head_bytes(&self, parts: &Parts<'_>) -> u64 {
        u64::from(parts.model_count()) * MODEL_BYTES + identifier_bytes(parts.outlier_count(), self.lpas)
    }

    /// Sets the head of a chunk, as it is on flash, in place of what was known of it: the identifier, and the
    /// models that cover any of `offsets`.
    pub fn set_head(&mut self, chunk: u32, parts: &Parts<'_>, offsets: RangeInclusive<u16>, known: Done) {
        self.enter(chunk);
        self.drop_head(chunk);
        let head = self.heads.enter(parts, offsets);
        self.models += u64::from(head.count);
        let node = &mut self.nodes[chunk as usize];
        (node.head, node.outliers) = (head, parts.outlier_count() as u16);
        (node.has_identifier, node.known) = (true, known);
        self.outliers[chunk as usize].0 = parts.identifier();
        self.identifiers += identifier_bytes(parts.outlier_count(), self.lpas);
        self.list_clean(chunk);
    }

    /// The record of a chunk that is being written has the models of the one before, or not.
    pub fn say_models_stay(&mut self, chunk: u32, stay: bool) {
        self.nodes[chunk as usize].models_stay = stay;
    }

    /// Sets the identifier of a head whose models are those of the new record, too. Returns whether they
    /// were, and the bytes that the head takes beyond those before are no more than `room`.
    pub fn renew_identifier(&mut self, chunk: u32, parts: &Parts<'_>, room: u64) -> bool {
        let node = &mut self.nodes[chunk as usize];
        let [before, now] =
            [u32::from(node.outliers), parts.outlier_count()].map(|all| identifier_bytes(all, self.lpas));
        if !node.has_identifier || !node.models_stay || now > before + room {
            return false;
        }
        node.outliers = parts.outlier_count() as u16;
        self.outliers[chunk as usize].0 = parts.identifier();
        self.identifiers = self.identifiers + now - before;
        true
    }

    /// Forgets the head of a chunk. Returns the bytes that it took.
    pub fn drop_head(&mut self, chunk: u32) -> u64 {
        let before = self.models * MODEL_BYTES + self.identifiers;
        let node = &mut self.nodes[chunk as usize];
        let head = std::mem::replace(&mut node.head, Head::NONE);
        self.heads.drop(head);
        self.models -= u64::from(head.count);
        self.drop_identifier(chunk as usize);
        before - self.models * MODEL_BYTES - self.identifiers
    }

    fn drop_identifier(&mut self, chunk: usize) {
        let node = &mut self.nodes[chunk];
        if node.has_identifier {
            self.identifiers -= identifier_bytes(u32::from(node.outliers), self.lpas);
        }
        (node.has_identifier, node.outliers) = (false, 0);
    }

    /// A chunk is on flash as it is here, with this record: what was newer becomes clean. The head is as
    /// before the chunk was changed: it is to be set anew, or dropped.
    pub fn cleaned(&mut self, chunk: u32, parts: &Parts<'_>) {
        let bits = parts.identifier();
        let (first, end) = self.lpns_of(chunk);
        let mut from = first;
        while let Some(lpn) = self.points.next_present(from, end) {
            from = Lpn(lpn.0 + 1);
            let Some(slot) = self.points.find(lpn) else { continue };
            let clean = !self.points.get(slot).is_dirty();
            let stays = bit(&bits, (lpn.0 - first.0) as u16);
            if clean && stays {
                continue;
            }
            self.leave_list(chunk as usize, slot);
            if stays {
                self.points.get_mut(slot).set_dirty(false);
                self.points.get_mut(slot).set_list(0);
                let list = &mut self.nodes[chunk as usize].clean;
                self.points.insert_by_use(list, slot, NONE);
            } else {
                self.points.remove(slot);
            }
        }
        self.drop_hidden(chunk as usize, |_, _| true);
        self.nodes[chunk as usize].newer_known = Done::READY;
        self.list_clean(chunk);
    }

    /// Drops the head of a chunk, and its node if nothing is left.
    pub fn without_head(&mut self, chunk: u32) {
        self.drop_head(chunk);
        self.list_clean(chunk);
        self.leave_if_empty(chunk);
    }

    /// The first chunk at or behind `from` with something newer than flash.
    pub fn next_dirty(&self, from: u32) -> Option<u32> {
        (from..self.nodes.len() as u32).find(|&chunk| self.is_dirty(chunk))
    }

    /// Starts bringing what a lookup or an update will touch into the processor's cache.
    #[inline]
    pub fn expect(&self, lpn: Lpn) {
        self.points.expect(lpn);
        prefetch_index(&self.log_bits, lpn.0 as usize / 64);
        prefetch_index(&self.nodes, self.node_of(lpn));
    }

    /// The same of what loading a chunk's head will touch.
    #[inline]
    pub fn expect_head(&self, chunk: u32) {
        prefetch_index(&self.nodes, chunk as usize);
        prefetch_index(&self.outliers, chunk as usize);
    }

    /// The same for the point mappings and trained models of some chunks, all of which are looked at next.
    pub fn expect_newer(&self, chunks: Range<u32>) {
        let newest = |chunk: u32| self.nodes[chunk as usize].trained;
        chunks.clone().for_each(|chunk| prefetch_index(&self.held, newest(chunk) as usize));
        let (first, end) = (self.lpns_of(chunks.start).0, self.lpns_of(chunks.end).0);
        let next = |from: Lpn| self.points.next_present(from, end);
        let points = || std::iter::successors(next(first), |lpn| next(Lpn(lpn.0 + 1)));
        points().for_each(|lpn| self.points.expect(lpn));
        points().filter_map(|lpn| self.points.find(lpn)).for_each(|slot| self.points.expect_slot(slot));
        let models = chunks.filter_map(|chunk| self.held.get(newest(chunk) as usize));
        models.for_each(|held| prefetch_index(&self.held, held.next as usize));
    }
}

/// The list number of log mappings among those newer than flash.
const LOG: usize = 1;
