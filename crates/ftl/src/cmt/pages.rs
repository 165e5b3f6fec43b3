//! Whole translation pages in memory, in LRU order: what CDFTL, S-FTL and ZFTL keep beside or instead of
//! single entries.
//!
//! A frame holds the content of one translation page, byte for byte as on flash, and one bit an entry that is
//! newer than on flash. What a page is charged is decided by the scheme: S-FTL charges it as compressed,
//! though it is kept whole here.

use crate::bits;
use crate::breach::Breach;
use crate::counters::Cause;
use crate::flash::Flash;
use crate::list::{linked, Links, List, NONE};
use crate::table::{entry_in, mapped, Table, UNMAPPED};
use nand::{Done, Nand, Result, Vtpn};

/// What is known of a cached page beside its content.
#[derive(Clone, Copy, Debug)]
struct Frame {
    vtpn: Vtpn,
    /// When its content is in memory.
    loaded: Done,
    /// When the data pages are programmed that entries changed since the load lead to: also of those written
    /// back since, because the next write-back of the whole page must not become durable before them
    /// either.
    programmed: Done,
    dirty: u32,
    /// Neighbours in the order of use; in a free frame, the next free one.
    links: Links,
}

linked!(Frame);

/// Frames with an index by VTPN.
#[derive(Clone, Debug)]
pub struct PageCache {
    content: Vec<u8>,
    page_bytes: usize,
    frames: Vec<Frame>,
    /// Frame by VTPN, or [`NONE`].
    index: Vec<u32>,
    /// One bit an entry, `words` words a frame.
    dirty: Vec<u64>,
    words: usize,
    capacity: usize,
    /// Those in use, the most recently used first.
    used: List,
    free: u32,
    /// Where the next dirty frame is looked for.
    cursor: usize,
}

impl PageCache {
    /// Room for `capacity` pages of `table`, and never more than it has.
    pub fn new(table: &Table, capacity: usize) -> PageCache {
        let capacity = capacity.min(table.pages() as usize);
        let page_bytes = table.entries_per_page() as usize * 4;
        let words = (table.entries_per_page() as usize).div_ceil(64);
        PageCache {
            content: vec![0xff; capacity * page_bytes],
            page_bytes,
            frames: Vec::with_capacity(capacity),
            index: vec![NONE; table.pages() as usize],
            dirty: vec![0; capacity * words],
            words,
            capacity,
            used: List::EMPTY,
            free: NONE,
            cursor: 0,
        }
    }

    /// Translation pages in the cache now.
    pub fn len(&self) -> usize {
        self.used.len() as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.used.is_empty()
    }

    /// Whether an insertion needs a removal first.
    pub fn is_full(&self) -> bool {
        self.len() == self.capacity
    }

    /// The frame of a translation page.
    #[inline]
    pub fn find(&self, vtpn: Vtpn) -> Option<u32> {
        let frame = self.index[vtpn.0 as usize];
        (frame != NONE).then_some(frame)
    }

    /// The translation page in a frame.
    #[inline]
    pub fn vtpn(&self, frame: u32) -> Vtpn {
        self.frames[frame as usize].vtpn
    }

    /// When the content of a frame is in memory.
    #[inline]
    pub fn loaded(&self, frame: u32) -> Done {
        self.frames[frame as usize].loaded
    }

    /// Entries of a frame that are newer than on flash.
    #[inline]
    pub fn dirty(&self, frame: u32) -> u32 {
        self.frames[frame as usize].dirty
    }

    /// The least recently used frame, or [`NONE`].
    #[inline]
    pub fn tail(&self) -> u32 {
        self.used.tail()
    }

    /// The frame used next after this one, or [`NONE`].
    #[inline]
    pub fn newer(&self, frame: u32) -> u32 {
        self.frames[frame as usize].links.prev
    }

    /// The content of a frame.
    #[inline]
    pub fn content(&self, frame: u32) -> &[u8] {
        let start = frame as usize * self.page_bytes;
        &self.content[start..start + self.page_bytes]
    }

    /// The entry at `slot` of a frame.
    #[inline]
    pub fn entry(&self, frame: u32, slot: u32) -> u32 {
        entry_in(self.content(frame), slot)
    }

    /// Whether the entry at `slot` of a frame is newer than on flash.
    #[cfg(test)]
    pub fn is_dirty(&self, frame: u32, slot: u32) -> bool {
        bits::has(&self.dirty[frame as usize * self.words..], slot)
    }

    /// Calls `each` with slot and entry for every dirty entry of a frame.
    pub fn each_dirty(&self, frame: u32, mut each: impl FnMut(u32, u32)) {
        for word in 0..self.words {
            let mut bits = self.dirty[frame as usize * self.words + word];
            while bits != 0 {
                let slot = word as u32 * 64 + bits.trailing_zeros();
                each(slot, self.entry(frame, slot));
                bits &= bits - 1;
            }
        }
    }

    /// Sets the entry at `slot` of a frame, which makes it dirty. `programmed` is when the page it leads to
    /// is. Returns what it was.
    #[inline]
    pub fn set(&mut self, frame: u32, slot: u32, entry: u32, programmed: Option<Done>) -> u32 {
        let at = frame as usize * self.page_bytes + slot as usize * 4;
        let old = entry_in(&self.content[at..], 0);
        self.content[at..at + 4].copy_from_slice(&entry.to_le_bytes());
        let fresh = bits::set(&mut self.dirty[frame as usize * self.words..], slot, true);
        let frame = &mut self.frames[frame as usize];
        frame.dirty += u32::from(fresh);
        if let Some(programmed) = programmed {
            frame.programmed = programmed;
        }
        old
    }

    /// What a write of the frame waits for, `also` included.
    pub fn settled<N: Nand>(&self, flash: &mut Flash<N>, frame: u32, also: Done) -> Done {
        let Frame { loaded, programmed, .. } = self.frames[frame as usize];
        let ready = flash.join(loaded, programmed);
        flash.join(ready, also)
    }

    /// As [`PageCache::set`], for an entry whose page is programmed when `done` says.
    #[inline]
    pub fn write<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        frame: u32,
        slot: u32,
        entry: u32,
        done: Done,
    ) -> u32 {
        let programmed = flash.join(self.frames[frame as usize].programmed, done);
        self.set(frame, slot, entry, Some(programmed))
    }

    /// Marks every entry of a frame as on flash.
    pub fn cleaned(&mut self, frame: u32) {
        let first = frame as usize * self.words;
        self.dirty[first..first + self.words].fill(0);
        self.frames[frame as usize].dirty = 0;
    }

    /// Brings a translation page into a frame; there must be one free. Returns it, and when its content is
    /// there. A page that was never written takes no flash operation.
    pub fn load<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &Table,
        vtpn: Vtpn,
        cause: Cause,
        at: Done,
    ) -> Result<(u32, Done)> {
        let read = table.load(flash, vtpn, cause, at)?;
        let done = read.unwrap_or(at);
        let frame = self.take(vtpn, done);
        let start = frame as usize * self.page_bytes;
        let content = &mut self.content[start..start + self.page_bytes];
        match read {
            Some(_) => content.copy_from_slice(&flash.buffer()[..self.page_bytes]),
            None => content.fill(0xff),
        }
        Ok((frame, done))
    }

    /// A clean frame for a translation page that has none, as the most recently used; its content is what it
    /// was.
    fn take(&mut self, vtpn: Vtpn, loaded: Done) -> u32 {
        assert!(!self.is_full() && self.find(vtpn).is_none());
        let fresh = Frame { vtpn, loaded, programmed: Done::READY, dirty: 0, links: Links::NONE };
        let frame = if self.free == NONE {
            self.frames.push(fresh);
            self.frames.len() as u32 - 1
        } else {
            let frame = self.free;
            self.free = self.frames[frame as usize].links.next;
            self.frames[frame as usize] = fresh;
            frame
        };
        self.cleaned(frame);
        self.index[vtpn.0 as usize] = frame;
        self.used.push_front(&mut self.frames, frame);
        frame
    }

    /// Drops a page from memory, whatever is dirty in it.
    pub fn remove(&mut self, frame: u32) {
        self.used.unlink(&mut self.frames, frame);
        self.index[self.frames[frame as usize].vtpn.0 as usize] = NONE;
        self.frames[frame as usize].links.next = self.free;
        self.free = frame;
    }

    /// Makes the page in a frame the most recently used one.
    #[inline]
    pub fn touch(&mut self, frame: u32) {
        self.used.touch(&mut self.frames, frame);
    }

    /// Writes a dirty frame to flash: one program, no read. It stays cached, clean.
    pub fn write_back<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        frame: u32,
        cause: Cause,
        at: Done,
    ) -> Result<Done> {
        let after = self.settled(flash, frame, at);
        let vtpn = self.vtpn(frame);
        let done = if self.is_blank(frame) {
            table.forget(flash, vtpn);
            after
        } else {
            table.replace(flash, vtpn, self.content(frame), cause, after)?
        };
        self.cleaned(frame);
        Ok(done)
    }

    /// A frame whose page is newer than on flash; `None` when all are clean.
    pub fn find_dirty(&mut self) -> Option<u32> {
        for _ in 0..self.frames.len() {
            self.cursor = if self.cursor + 1 < self.frames.len() { self.cursor + 1 } else { 0 };
            let Frame { vtpn, dirty, .. } = self.frames[self.cursor];
            if dirty > 0 && self.index[vtpn.0 as usize] as usize == self.cursor {
                return Some(self.cursor as u32);
            }
        }
        None
    }

    /// Unmaps the entries at `slots` of a frame and invalidates their pages. `forget` drops what another
    /// cache holds of an entry, and returns it.
    pub fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        frame: u32,
        slots: std::ops::Range<u32>,
        mut forget: impl FnMut(u32) -> Option<u32>,
    ) {
        for slot in slots {
            let here = self.entry(frame, slot);
            if let Some(old) = mapped(forget(slot).unwrap_or(here)) {
                flash.invalidate(old);
            }
            if here != UNMAPPED {
                self.set(frame, slot, UNMAPPED, None);
            }
        }
    }

    /// Whether no entry of a frame is mapped: then no translation page is needed.
    fn is_blank(&self, frame: u32) -> bool {
        self.content(frame).iter().all(|&byte| byte == 0xff)
    }

    /// The frames, from the most to the least recently used.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.used.iter(&self.frames)
    }

    /// Checks list, index and dirty bits against each other.
    pub fn check(&self) -> Result<(), Breach> {
        let mut listed = 0;
        for frame in self.iter() {
            listed += 1;
            let Frame { vtpn, dirty, .. } = self.frames[frame as usize];
            let mut bits = 0;
            self.each_dirty(frame, |_, _| bits += 1);
            if self.find(vtpn) != Some(frame) || bits != dirty {
                return Err(format!(
                    "translation page {} is cached in the wrong place, or with {bits} dirty entries counted as {dirty}",
                    vtpn.0
                ).into());
            }
        }
        let indexed = self.index.iter().filter(|&&frame| frame != NONE).count();
        if listed != self.len() || indexed != self.len() || self.len() > self.capacity {
            return Err(format!(
                "{} translation pages are cached, {listed} in the list, {indexed} in the index, {} at most",
                self.len(),
                self.capacity
            )
            .into());
        }
        Ok(())
    }
}

/// Whether two entries in a row belong to one run: consecutive pages, or nothing and nothing.
#[inline]
pub fn continues(before: u32, entry: u32) -> bool {
    if before == UNMAPPED || entry == UNMAPPED {
        before == entry
    } else {
        entry == before + 1
    }
}
