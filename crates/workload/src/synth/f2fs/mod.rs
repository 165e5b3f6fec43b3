//! A file system that writes logs, after F2FS (Lee et al., FAST 2015) and its implementation in Linux 5.4.
//!
//! | F2FS | here |
//! | --- | --- |
//! | areas: checkpoint, SIT, NAT, SSA, main | [`layout::Layout`] |
//! | six logs: hot, warm, cold x node, data | [`Log`]; directories are hot, files warm; indirect nodes and data moved are cold |
//! | normal logging | [`F2fs::free_segment`]: the next free segment; nodes and hot data take the first |
//! | threaded logging (SSR) | [`F2fs::dirty_segment`], when free segments are down to twice the reserved ones |
//! | foreground and background cleaning | [`F2fs::balance`], greedy; [`F2fs::clean_behind`], cost-benefit (`cleaning.rs`) |
//! | in-place updates of short syncs | [`Settings::in_place`]: Linux's `F2FS_IPU_FSYNC`, `min_fsync_blocks` 8 |
//! | checkpoint | [`F2fs::checkpoint`]: when 5 % of the segments wait for it, 4,096 nodes or a tenth of the NAT are changed |
//! | discard | of segments that a checkpoint frees |
//!
//! A block that was valid at the last checkpoint is not overwritten before the next, as a crash would need
//! it. What is ours: nodes and directories are in memory and never read; there is no timer, so neither the
//! checkpoint of each minute nor cleaning in idle time, of which the generators have none; the writes of a
//! log go out when 512 KiB are together, at a sync, at a checkpoint, or when they are read; node numbers of a
//! file follow on one another; extended attributes, inline data and hints of the user about temperature do
//! not exist.

mod cleaning;
mod layout;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ops::Range;

use super::file_system::FileSystem;
use super::requests::{extend, push, trim, Extents, Requests, PAGE, READ_MOST, WRITE_MOST};
use crate::{Kind, Request};
pub(super) use layout::LEAST_BYTES;
use layout::{Layout, SEGMENT};

/// The device of the LFTL paper. A volume takes the whole of a smaller one.
pub(super) const SPAN_BYTES: u64 = 32 << 30;

/// Pages that an inode and a direct node point to, and nodes that an indirect node points to.
const INODE_POINTERS: u32 = 923;
const NODE_POINTERS: u32 = 1018;
/// Directory entries of an inode and of a directory's block.
const INLINE_DENTRIES: u32 = 182;
const DENTRIES: u32 = 214;
/// Changed nodes that make a checkpoint due: eight segments.
const DIRTY_NODES: usize = 8 * SEGMENT as usize;
/// Segments looked at for a victim.
const SEARCH: u32 = 4096;
/// Number of a node block in its file, added to this, in [`Owner::place`].
const NODE: u32 = 1 << 31;
const NOWHERE: u32 = u32::MAX;

/// How it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settings {
    /// Fill holes of dirty segments when few are free.
    threaded: bool,
    /// A sync of at most so many pages overwrites those that exist where they are.
    in_place: u32,
    /// Segments filled by the host after which one is cleaned in the background; 0: never.
    background: u32,
    /// Trim segments that become free.
    discard: bool,
}

const SETTINGS: Settings = Settings { threaded: true, in_place: 8, background: 0, discard: true };

/// A log, in the order of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Log {
    HotData,
    WarmData,
    ColdData,
    HotNode,
    WarmNode,
    ColdNode,
}

impl Log {
    const ALL: [Log; 6] =
        [Log::HotData, Log::WarmData, Log::ColdData, Log::HotNode, Log::WarmNode, Log::ColdNode];

    fn is_node(self) -> bool {
        self as usize >= Log::HotNode as usize
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    /// A log writes it, or it is being cleaned.
    Open,
    Used,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    state: State,
    log: Log,
    valid: u16,
    /// Blocks that are valid, or were at the last checkpoint.
    kept: u16,
    /// Blocks written to the volume when this was written last.
    modified: u64,
}

/// An open log: its segment, its next block in it, and what is not yet sent.
#[derive(Debug, Clone, Copy)]
struct Head {
    segment: u32,
    next: u32,
    held: (u32, u32),
}

/// Whose a block is: file, and page or [`NODE`] and node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    file: u32,
    place: u32,
}

const NOBODY: Owner = Owner { file: NOWHERE, place: NOWHERE };

/// Blocks of a file, from the start of the main area; [`NOWHERE`]: none.
#[derive(Debug, Clone, Default)]
struct Inode {
    pages: Vec<u32>,
    nodes: Vec<u32>,
}

/// A volume.
#[derive(Debug, Clone)]
pub(super) struct F2fs {
    settings: Settings,
    layout: Layout,
    files: u32,
    dir_width: u32,
    /// Node numbers that a file has.
    nids_of_file: u32,
    /// Files, then directories.
    inodes: Vec<Inode>,
    owners: Vec<Owner>,
    /// Validity at the last checkpoint.
    checkpointed: Vec<bool>,
    segments: Vec<Segment>,
    heads: [Head; 6],
    free: u32,
    valid: u32,
    written: u64,
    /// Where the search for holes goes on.
    hand: u32,
    /// Segments without a valid block, which the next checkpoint frees.
    obsolete: BTreeSet<u32>,
    /// Changed since the last checkpoint: nodes, blocks of directories, NAT entries, segments, and which of
    /// these were filled.
    dirty_nodes: BTreeSet<(u32, u32)>,
    dirty_dentries: BTreeSet<(u32, u32)>,
    dirty_nids: BTreeSet<u32>,
    dirty_segments: BTreeSet<u32>,
    filled: BTreeSet<u32>,
    /// Segments filled since background cleaning.
    since_cleaning: u32,
    /// Requests that nothing else is written between: logs are written in the order of their blocks, and
    /// nobody writes during a checkpoint.
    exclusive: usize,
}

/// The node of a file that points to a page: 0 is the inode, then two direct nodes, then indirect nodes, each
/// before its own.
fn node_of(page: u32) -> u32 {
    let Some(behind) = page.checked_sub(INODE_POINTERS) else { return 0 };
    let direct = behind / NODE_POINTERS;
    if direct < 2 {
        return 1 + direct;
    }
    let (indirect, within) = ((direct - 2) / NODE_POINTERS, (direct - 2) % NODE_POINTERS);
    3 + indirect * (NODE_POINTERS + 1) + 1 + within
}

/// The indirect node that points to a node.
fn indirect_of(node: u32) -> Option<u32> {
    let behind = node.checked_sub(3)?;
    Some(3 + behind / (NODE_POINTERS + 1) * (NODE_POINTERS + 1)).filter(|&indirect| indirect != node)
}

fn is_indirect(node: u32) -> bool {
    node >= 3 && (node - 3).is_multiple_of(NODE_POINTERS + 1)
}

impl F2fs {
    fn with(settings: Settings, device_bytes: u64, files: u32, dir_width: u32, most_pages: u32) -> F2fs {
        let layout = Layout::new(device_bytes);
        let blocks = (layout.segments * SEGMENT) as usize;
        let new = Segment { state: State::Free, log: Log::WarmData, valid: 0, kept: 0, modified: 0 };
        let mut segments = vec![new; layout.segments as usize];
        let heads = Log::ALL.map(|log| {
            segments[log as usize] = Segment { state: State::Open, log, ..new };
            Head { segment: log as u32, next: 0, held: (0, 0) }
        });
        // The last file is a log, in the last directory.
        let directories = (files + 1).div_ceil(dir_width);
        F2fs {
            settings,
            files: files + 1,
            dir_width,
            nids_of_file: node_of(most_pages.max(1) - 1) + 1,
            inodes: vec![Inode::default(); (files + 1 + directories) as usize],
            owners: vec![NOBODY; blocks],
            checkpointed: vec![false; blocks],
            heads,
            free: layout.segments - heads.len() as u32,
            segments,
            layout,
            valid: 0,
            written: 0,
            hand: 0,
            obsolete: BTreeSet::new(),
            dirty_nodes: BTreeSet::new(),
            dirty_dentries: BTreeSet::new(),
            dirty_nids: BTreeSet::new(),
            dirty_segments: BTreeSet::new(),
            filled: BTreeSet::new(),
            since_cleaning: 0,
            exclusive: 0,
        }
    }

    fn nid(&self, file: u32, node: u32) -> u32 {
        (file * self.nids_of_file + node % self.nids_of_file) % self.layout.nids()
    }

    /// The log that a block of a file goes to; `moved`: by cleaning.
    fn log_of(&self, file: u32, place: u32, moved: bool) -> Log {
        let directory = file >= self.files;
        match (place >= NODE, directory) {
            (true, _) if is_indirect(place - NODE) => Log::ColdNode,
            (true, true) => Log::HotNode,
            (true, false) => Log::WarmNode,
            (false, _) if moved => Log::ColdData,
            (false, true) => Log::HotData,
            (false, false) => Log::WarmData,
        }
    }

    fn block(&self, owner: Owner) -> u32 {
        let inode = &self.inodes[owner.file as usize];
        let (blocks, at) = match owner.place.checked_sub(NODE) {
            Some(node) => (&inode.nodes, node),
            None => (&inode.pages, owner.place),
        };
        blocks.get(at as usize).copied().unwrap_or(NOWHERE)
    }

    fn set_block(&mut self, owner: Owner, block: u32) {
        let inode = &mut self.inodes[owner.file as usize];
        let (blocks, at) = match owner.place.checked_sub(NODE) {
            Some(node) => (&mut inode.nodes, node as usize),
            None => (&mut inode.pages, owner.place as usize),
        };
        if blocks.len() <= at {
            blocks.resize(at + 1, NOWHERE);
        }
        blocks[at] = block;
    }

    /// Writes a block of a file to a log, and what points to it is changed.
    fn put(&mut self, queue: &mut Requests, owner: Owner, moved: bool) {
        let log = self.log_of(owner.file, owner.place, moved);
        self.invalidate(self.block(owner));
        let block = self.allocate(queue, log);
        self.owners[block as usize] = owner;
        self.set_block(owner, block);
        match owner.place.checked_sub(NODE) {
            Some(node) => {
                self.dirty_nids.insert(self.nid(owner.file, node));
            }
            None => self.touch_node(owner.file, node_of(owner.place)),
        }
        self.hold(queue, log, block);
    }

    /// A node is changed; a new one changes the node that points to it.
    fn touch_node(&mut self, file: u32, node: u32) {
        if !self.dirty_nodes.insert((file, node)) || self.block(Owner { file, place: NODE + node }) != NOWHERE
        {
            return;
        }
        if node > 0 {
            self.touch_node(file, indirect_of(node).unwrap_or(0));
        }
    }

    fn invalidate(&mut self, block: u32) {
        if block == NOWHERE {
            return;
        }
        assert!(self.owners[block as usize] != NOBODY, "block {block} is not valid");
        self.owners[block as usize] = NOBODY;
        self.valid -= 1;
        let number = block / SEGMENT;
        self.dirty_segments.insert(number);
        let segment = &mut self.segments[number as usize];
        segment.valid -= 1;
        segment.kept -= u16::from(!self.checkpointed[block as usize]);
        if segment.valid == 0 && segment.state == State::Used {
            self.obsolete.insert(number);
        }
    }

    /// The next block of a log. There is always one: files take less than the segments behind the reserve.
    fn allocate(&mut self, queue: &mut Requests, log: Log) -> u32 {
        loop {
            let Head { segment, next, .. } = self.heads[log as usize];
            let usable =
                |&block: &u32| self.owners[block as usize] == NOBODY && !self.checkpointed[block as usize];
            let rest = segment * SEGMENT + next..(segment + 1) * SEGMENT;
            if let Some(block) = rest.clone().find(usable) {
                self.heads[log as usize].next = block % SEGMENT + 1;
                self.written += 1;
                self.valid += 1;
                self.dirty_segments.insert(segment);
                let it = &mut self.segments[segment as usize];
                (it.valid, it.kept, it.modified) = (it.valid + 1, it.kept + 1, self.written);
                return block;
            }
            self.send(queue, log);
            self.close(segment);
            self.since_cleaning += 1;
            let holes = self.settings.threaded && self.free <= 2 * self.layout.reserved + self.needed();
            let next = if holes { self.dirty_segment(log) } else { None };
            let next = next.or_else(|| self.free_segment(log)).or_else(|| self.dirty_segment(log));
            let next = next.unwrap_or_else(|| {
                // Only what waits for a checkpoint is left.
                self.commit(queue);
                self.free_segment(log).expect("the reserve holds a free segment")
            });
            let it = &mut self.segments[next as usize];
            self.free -= u32::from(it.state == State::Free);
            (it.state, it.log) = (State::Open, log);
            self.obsolete.remove(&next);
            self.heads[log as usize] = Head { segment: next, next: 0, ..self.heads[log as usize] };
        }
    }

    /// A log has left a segment.
    fn close(&mut self, number: u32) {
        self.filled.insert(number);
        let segment = &mut self.segments[number as usize];
        segment.state = State::Used;
        if segment.valid == 0 {
            self.obsolete.insert(number);
        }
    }

    /// Segments that what is changed in memory may take.
    fn needed(&self) -> u32 {
        let of = |blocks: usize| blocks.div_ceil(SEGMENT as usize) as u32;
        of(self.dirty_nodes.len()) + 2 * of(self.dirty_dentries.len())
    }

    fn free_segment(&self, log: Log) -> Option<u32> {
        let from = if log.is_node() || log == Log::HotData { 0 } else { self.heads[log as usize].segment };
        let is_free = |&at: &u32| self.segments[at as usize].state == State::Free;
        (from..self.layout.segments).chain(0..from).find(is_free)
    }

    /// The segment with most holes, of this log or else of another of nodes or of data, as far as one looks.
    fn dirty_segment(&mut self, log: Log) -> Option<u32> {
        let mut best = [(u16::MAX, NOWHERE); 2];
        for _ in 0..SEARCH.min(self.layout.segments) {
            self.hand = (self.hand + 1) % self.layout.segments;
            let it = &self.segments[self.hand as usize];
            let holes = it.state == State::Used && it.valid > 0 && u32::from(it.kept) < SEGMENT;
            if holes && it.log.is_node() == log.is_node() {
                let rank = usize::from(it.log != log);
                best[rank] = best[rank].min((it.kept, self.hand));
            }
        }
        best.into_iter().map(|(_, segment)| segment).find(|&segment| segment != NOWHERE)
    }

    /// Adds a block to what a log has still to send.
    fn hold(&mut self, queue: &mut Requests, log: Log, block: u32) {
        let (first, count) = self.heads[log as usize].held;
        if count > 0 && first + count == block && count < WRITE_MOST {
            self.heads[log as usize].held.1 += 1;
        } else {
            self.send(queue, log);
            self.heads[log as usize].held = (block, 1);
        }
    }

    fn send(&mut self, queue: &mut Requests, log: Log) {
        let (first, count) = std::mem::take(&mut self.heads[log as usize].held);
        push(queue, Kind::Write, &[(self.layout.main + first, count)], WRITE_MOST);
    }

    /// Sends what logs hold of some blocks.
    fn send_held(&mut self, queue: &mut Requests, blocks: Range<u32>) {
        for log in Log::ALL {
            let (first, count) = self.heads[log as usize].held;
            if first < blocks.end && blocks.start < first + count {
                self.send(queue, log);
            }
        }
    }

    /// Writes changed directories and nodes.
    fn write_nodes(&mut self, queue: &mut Requests) {
        for (file, place) in std::mem::take(&mut self.dirty_dentries) {
            self.put(queue, Owner { file, place }, false);
        }
        for (file, node) in std::mem::take(&mut self.dirty_nodes) {
            self.put(queue, Owner { file, place: NODE + node }, false);
        }
    }

    /// Makes everything durable and frees what is obsolete.
    fn checkpoint(&mut self, queue: &mut Requests) {
        self.write_nodes(queue);
        self.commit(queue);
    }

    /// The checkpoint itself: of what is written.
    fn commit(&mut self, queue: &mut Requests) {
        for log in Log::ALL {
            self.send(queue, log);
        }
        let data = [Log::HotData, Log::WarmData, Log::ColdData];
        let summaries = data.iter().map(|&log| self.heads[log as usize].next).sum();
        self.layout.checkpoint(queue, &self.dirty_segments, &self.dirty_nids, &self.filled, summaries);
        self.dirty_nids.clear();
        self.filled.clear();
        for number in std::mem::take(&mut self.dirty_segments) {
            for block in (number * SEGMENT..(number + 1) * SEGMENT).map(|block| block as usize) {
                self.checkpointed[block] = self.owners[block] != NOBODY;
            }
            let segment = &mut self.segments[number as usize];
            segment.kept = segment.valid;
        }
        let mut freed = Extents::new();
        for number in std::mem::take(&mut self.obsolete) {
            self.segments[number as usize].state = State::Free;
            self.free += 1;
            extend(&mut freed, (self.layout.main + number * SEGMENT, SEGMENT));
        }
        if self.settings.discard {
            trim(queue, &freed);
        }
        self.exclusive = queue.len();
    }

    /// A file appeared or went: its directory changes.
    fn touch_directory(&mut self, file: u32) {
        let directory = self.files + file / self.dir_width;
        if self.dir_width > INLINE_DENTRIES {
            self.dirty_dentries.insert((directory, file % self.dir_width / DENTRIES));
        }
        self.touch_node(directory, 0);
    }
}

impl FileSystem for F2fs {
    const INODE_PAGES: u64 = 1;
    const ALLOCATES_ROUNDS: bool = false;

    fn room_bytes(device_bytes: u64) -> u64 {
        u64::from(Layout::new(device_bytes).user_blocks) * PAGE
    }

    fn new(device_bytes: u64, files: u32, dir_width: u32, most_pages: u32) -> F2fs {
        F2fs::with(SETTINGS, device_bytes, files, dir_width, most_pages)
    }

    fn write(&mut self, queue: &mut Requests, file: u32, pages: Range<u32>, sync: bool) -> bool {
        self.balance(queue);
        let held = self.inodes[file as usize].pages.len() as u32;
        let more = pages.end.saturating_sub(held);
        // Its nodes, a directory's, and those that are still in memory.
        let nodes = node_of(pages.end.max(1) - 1) + 4 + self.dirty_nodes.len() as u32;
        let changed = nodes + self.dirty_dentries.len() as u32;
        if self.valid + more + changed > self.layout.user_blocks {
            return false;
        }
        if held == 0 {
            self.touch_directory(file);
        }
        self.touch_node(file, 0);
        let in_place = sync && pages.end - pages.start <= self.settings.in_place;
        let mut overwritten = Extents::new();
        for place in pages {
            let block = self.block(Owner { file, place });
            if in_place && block != NOWHERE {
                self.send_held(queue, block..block + 1);
                extend(&mut overwritten, (self.layout.main + block, 1));
            } else {
                self.put(queue, Owner { file, place }, false);
            }
        }
        push(queue, Kind::Write, &overwritten, WRITE_MOST);
        self.exclusive = queue.len();
        true
    }

    fn read(&mut self, queue: &mut Requests, file: u32, pages: Range<u32>) {
        let mut runs = Extents::new();
        for place in pages {
            let block = self.block(Owner { file, place });
            if block != NOWHERE {
                extend(&mut runs, (block, 1));
            }
        }
        for run in &mut runs {
            self.send_held(queue, run.0..run.0 + run.1);
            run.0 += self.layout.main;
        }
        self.exclusive = queue.len();
        push(queue, Kind::Read, &runs, READ_MOST);
    }

    fn delete(&mut self, _queue: &mut Requests, file: u32) {
        let Inode { pages, nodes } = std::mem::take(&mut self.inodes[file as usize]);
        for block in pages.into_iter().chain(nodes) {
            self.invalidate(block);
        }
        let changed: Vec<(u32, u32)> =
            self.dirty_nodes.range((file, 0)..=(file, u32::MAX)).copied().collect();
        for node in changed {
            self.dirty_nodes.remove(&node);
        }
        self.dirty_nids.insert(self.nid(file, 0));
        self.touch_directory(file);
    }

    fn changed(&mut self, queue: &mut Requests, file: u32, sync: bool) {
        if !sync {
            return;
        }
        let nodes: Vec<(u32, u32)> = self.dirty_nodes.range((file, 0)..=(file, u32::MAX)).copied().collect();
        self.send(queue, Log::WarmData);
        for (file, node) in nodes {
            self.dirty_nodes.remove(&(file, node));
            self.put(queue, Owner { file, place: NODE + node }, false);
        }
        self.send(queue, Log::WarmNode);
        self.send(queue, Log::ColdNode);
        self.exclusive = queue.len();
        queue.push_back(Request::flush(0));
    }

    fn settle(&mut self, queue: &mut Requests) {
        self.checkpoint(queue);
    }

    fn exclusive(&mut self) -> usize {
        std::mem::take(&mut self.exclusive)
    }
}
