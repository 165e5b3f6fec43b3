//! The controller's data buffer, and the spare bytes beside the OOB records. Both are there only when asked
//! for.

use crate::{Oob, Ppn};

/// Pages held in the controller's memory, and spare bytes of every page.
#[derive(Clone, Debug, Default)]
pub(super) struct Staging {
    /// What each slot holds.
    slots: Vec<Option<Oob>>,
    /// Spare bytes of a page.
    bytes: usize,
    /// By PPN, `bytes` each.
    spare: Vec<u8>,
    /// What the next data page is given.
    attached: Vec<u8>,
    /// The page read or scanned last.
    pub last: u32,
}

impl Staging {
    /// Empties the data buffer and gives it `slots` slots.
    pub fn reserve_slots(&mut self, slots: usize) {
        self.slots.clear();
        self.slots.resize(slots, None);
    }

    /// Spare bytes that are there already are kept when they are as many.
    pub fn reserve_spare(&mut self, bytes: usize, pages: usize) {
        if self.bytes != bytes {
            self.bytes = bytes;
            self.spare = vec![0; pages * bytes];
        }
        self.attached.clear();
        self.attached.reserve(bytes);
    }

    pub fn store(&mut self, slot: u32, oob: Oob) {
        let slots = self.slots.len();
        let Some(stored) = self.slots.get_mut(slot as usize) else {
            panic!("store: slot {slot}, but the data buffer has {slots}")
        };
        *stored = Some(oob);
    }

    /// What a slot holds.
    pub fn stored(&self, slot: u32) -> Option<Oob> {
        self.slots.get(slot as usize).copied().flatten()
    }

    pub fn attach(&mut self, spare: &[u8]) {
        assert!(
            spare.len() == self.bytes,
            "attach: {} spare bytes, but {} a page were reserved",
            spare.len(),
            self.bytes
        );
        self.attached.clear();
        self.attached.extend_from_slice(spare);
    }

    /// Gives a page of an array of `pages` the spare bytes that an image has of it. All pages have as many.
    pub fn restore(&mut self, ppn: Ppn, spare: &[u8], pages: usize) {
        if self.bytes != spare.len() {
            self.reserve_spare(spare.len(), pages);
        }
        self.spare[ppn.0 as usize * self.bytes..][..self.bytes].copy_from_slice(spare);
    }

    /// Gives a page just programmed the spare bytes attached for it, zeros without.
    #[inline(always)]
    pub fn program(&mut self, ppn: Ppn) {
        if self.bytes > 0 {
            self.write(ppn);
        }
    }

    #[inline(never)]
    fn write(&mut self, ppn: Ppn) {
        let page = &mut self.spare[ppn.0 as usize * self.bytes..][..self.bytes];
        if self.attached.is_empty() {
            page.fill(0);
        } else {
            page.copy_from_slice(&self.attached);
        }
        self.attached.clear();
    }

    /// The program for which bytes were attached failed.
    pub fn drop_attached(&mut self) {
        self.attached.clear();
    }

    /// The spare bytes of a page.
    pub fn of(&self, ppn: Ppn) -> &[u8] {
        self.spare.get(ppn.0 as usize * self.bytes..).map_or(&[], |from| &from[..self.bytes])
    }

    pub fn heap_bytes(&self) -> usize {
        self.spare.len() + self.slots.len() * size_of::<Option<Oob>>()
    }
}
