//! A medium that can lose what was not synced, as a host's page cache and disk can.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::dice::Dice;
use nand::Medium;

const SECTOR: u64 = 512;
/// Under which a host runs that never lost power; the last byte counts its starts.
const FIRST_BOOT: [u8; 16] = *b"a host in test \0";
type Sector = [u8; SECTOR as usize];

/// What becomes of writes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The process died: the kernel has them all.
    Process,
    /// The host lost power: of each write some sectors are there, all, or none, whatever came before or
    /// after.
    Power,
}

#[derive(Debug, Default)]
struct Inner {
    /// What it began as; zeros behind its end.
    image: Arc<Vec<u8>>,
    /// What is read where it differs from that: by number, never iterated.
    current: HashMap<u64, Sector>,
    durable: HashMap<u64, Sector>,
    /// Writes since the last sync, in order: the sectors of each.
    pending: Vec<Vec<(u64, Sector)>>,
    syncs_lie: bool,
    /// Writes that still succeed; then the medium is full.
    room: Option<u64>,
    /// Starts of the host.
    boots: u8,
    is_written: bool,
}

impl Inner {
    fn sector(&self, sector: u64) -> Sector {
        let mut content = [0; SECTOR as usize];
        if let Some(changed) = self.current.get(&sector) {
            return *changed;
        }
        let at = (sector * SECTOR) as usize;
        if let Some(bytes) = self.image.get(at..at + SECTOR as usize) {
            content.copy_from_slice(bytes);
        }
        content
    }

    /// Changes bytes, and gives the sectors in which they lie.
    fn put(&mut self, bytes: &[u8], offset: u64) -> Vec<(u64, Sector)> {
        let mut sectors = Vec::new();
        let (mut at, mut bytes) = (offset, bytes);
        while !bytes.is_empty() {
            let (sector, within) = (at / SECTOR, (at % SECTOR) as usize);
            let take = bytes.len().min(SECTOR as usize - within);
            let mut content = self.sector(sector);
            content[within..within + take].copy_from_slice(&bytes[..take]);
            self.current.insert(sector, content);
            sectors.push((sector, content));
            (at, bytes) = (at + take as u64, &bytes[take..]);
        }
        sectors
    }
}

/// Bytes in memory with the promises of [`Medium`], and not one more. Clones are the same medium.
#[derive(Clone, Debug, Default)]
pub struct LossyMedium(Arc<Mutex<Inner>>);

impl LossyMedium {
    /// A medium of zeros.
    pub fn new() -> LossyMedium {
        LossyMedium::default()
    }

    /// A medium that holds `image`, as whole sectors; `restarted`: the host was started anew since.
    pub(crate) fn of_image(image: Arc<Vec<u8>>, restarted: bool) -> LossyMedium {
        let inner = Inner { image, boots: u8::from(restarted), ..Inner::default() };
        LossyMedium(Arc::new(Mutex::new(inner)))
    }

    /// Changes bytes behind the back of whoever uses the medium.
    pub(crate) fn damage(&self, at: u64, bytes: &[u8]) {
        self.inner().put(bytes, at);
    }

    /// Whether anything was written since this was asked last.
    pub(crate) fn was_written(&self) -> bool {
        std::mem::take(&mut self.inner().is_written)
    }

    /// From now on syncs make nothing durable: for canaries.
    pub fn lie(&self) {
        self.inner().syncs_lie = true;
    }

    /// From now on so many more writes succeed, and all others find the medium full.
    pub fn fill_up(&self, writes: Option<u64>) {
        self.inner().room = writes;
    }

    /// What is found after a loss that `dice` decides.
    pub fn after(&self, loss: Loss, dice: &mut Dice) -> LossyMedium {
        let inner = self.inner();
        let (image, syncs_lie) = (inner.image.clone(), inner.syncs_lie);
        if loss == Loss::Process {
            let (current, durable) = (inner.current.clone(), inner.durable.clone());
            let (pending, boots) = (inner.pending.clone(), inner.boots);
            let left = Inner { image, current, durable, pending, syncs_lie, boots, ..Inner::default() };
            return LossyMedium(Arc::new(Mutex::new(left)));
        }
        let mut left = inner.durable.clone();
        for write in &inner.pending {
            let keep = match dice.below(3) {
                0 => 0..0,
                1 => 0..write.len(),
                // One end of it.
                _ => {
                    let middle = dice.below(write.len() as u32 + 1) as usize;
                    if dice.once_in(2) {
                        0..middle
                    } else {
                        middle..write.len()
                    }
                }
            };
            left.extend(write[keep].iter().copied());
        }
        let (current, boots) = (left.clone(), inner.boots.wrapping_add(1));
        let left = Inner { image, current, durable: left, syncs_lie, boots, ..Inner::default() };
        LossyMedium(Arc::new(Mutex::new(left)))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut inner = self.inner();
        match &mut inner.room {
            Some(0) => return Err(io::Error::from(io::ErrorKind::StorageFull)),
            Some(room) => *room -= 1,
            None => {}
        }
        inner.is_written = true;
        let sectors = inner.put(bytes, offset);
        inner.pending.push(sectors);
        Ok(())
    }
}

impl Medium for LossyMedium {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let inner = self.inner();
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (sector, within) = (at / SECTOR, (at % SECTOR) as usize);
            let take = rest.len().min(SECTOR as usize - within);
            let (head, tail) = rest.split_at_mut(take);
            head.copy_from_slice(&inner.sector(sector)[within..within + take]);
            (at, rest) = (at + take as u64, tail);
        }
        Ok(())
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut at = offset;
        for part in parts {
            self.write(part, at)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut guard = self.inner();
        let inner = &mut *guard;
        if !inner.syncs_lie {
            inner.durable.extend(inner.pending.drain(..).flatten());
        }
        Ok(())
    }

    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        let mut inner = self.inner();
        let sectors: Vec<(u64, Sector)> = (offset / SECTOR..(offset + length) / SECTOR)
            .map(|sector| (sector, [0; SECTOR as usize]))
            .collect();
        for (sector, zeros) in &sectors {
            // What was never written takes no memory.
            if inner.sector(*sector) != *zeros {
                inner.current.insert(*sector, *zeros);
            }
        }
        inner.pending.push(sectors);
        Ok(())
    }
    fn boot(&self) -> Option<[u8; 16]> {
        let mut boot = FIRST_BOOT;
        boot[15] = self.inner().boots;
        Some(boot)
    }
}
