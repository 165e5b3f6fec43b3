//! A device on an image with real bytes, and its owner, who knows what each page may hold.

use std::path::Path;

use ftl::{Config, Device, HostOp, Scheme, Seen};
use nand::{Done, FileNand, Lpn, Medium, Nand, Salvage, Salvaged};

use super::Outcome;
use crate::dice::Dice;
use crate::lossy::{Loss, LossyMedium};
use crate::world::{inside_mut, unboxed, Array};

/// What a page holds: the stamp of a write, or nothing.
type Held = Option<u64>;

/// Requests after a device is full, for each page that it exports.
const REQUESTS_A_PAGE: u32 = 1;
/// One request in so many is followed by a flush.
const FLUSH: u32 = 40;
/// Most pages of a request.
const MOST_PAGES: u32 = 8;

/// A device that is served from an image.
pub(super) struct Served<S> {
    device: Device<S, Array>,
}

impl<S: Scheme> Served<S> {
    pub fn open(medium: LossyMedium, config: &Config) -> Result<Self, String> {
        let opened = FileNand::on(medium, Path::new("image"));
        let (nand, ..) = opened.map_err(|error| error.to_string())?;
        let nand: Array = Box::new(nand);
        let device = Device::open(nand, config).map_err(|error| format!("open: {error}"))?;
        let mut served = Served { device };
        served.image().begin().map_err(|error| error.to_string())?;
        Ok(served)
    }

    fn image(&mut self) -> &mut FileNand<LossyMedium> {
        inside_mut(self.device.nand_mut())
    }

    /// A request without bytes, or with those offered before.
    fn request(&mut self, op: HostOp, first: u32, pages: u32) -> Result<(), String> {
        let outcome = self.device.request(op, Lpn(first), pages, Done::READY, &mut |_, _| {});
        let outcome = outcome.map_err(|error| format!("{op:?} of {pages} pages from {first}: {error}"))?;
        if outcome.failed > 0 {
            return Err(format!("{op:?} of {pages} pages from {first}: {} failed", outcome.failed));
        }
        self.image().land().map_err(|error| error.to_string())
    }

    fn sync(&mut self) -> Result<(), String> {
        self.request(HostOp::Flush, 0, 0)?;
        let nand = self.image();
        let sequence = nand.sequence();
        let synced = nand.medium().sync().and_then(|()| nand.synced(sequence));
        // The server's keeper syncs the note soon after.
        let synced = synced.and_then(|()| nand.medium().sync());
        synced.map_err(|error| error.to_string())
    }

    /// The stamp in a page; the inner error is that of a page that cannot be read.
    fn page(&mut self, lpn: u32) -> Result<Result<Held, String>, String> {
        let mut delivered = None;
        let outcome = self.device.request(HostOp::Read, Lpn(lpn), 1, Done::READY, &mut |_, seen| {
            delivered = match seen {
                Seen::Read(oob) => Some(oob.is_some()),
                _ => None,
            };
        });
        let fetches: Vec<_> = self.image().fetches().collect();
        if let Err(error) = outcome {
            return Ok(Err(format!("LPN {lpn}: {error}")));
        }
        match delivered {
            None => return Ok(Err(format!("LPN {lpn} cannot be read"))),
            Some(false) => return Ok(Ok(None)),
            Some(true) => {}
        }
        let [fetch] = &fetches[..] else {
            return Err(format!("LPN {lpn} was delivered from {} pages", fetches.len()));
        };
        let mut content = vec![0; self.device.nand().geometry().page_bytes as usize];
        let read = self.image().reader().read(std::slice::from_ref(fetch), &mut content);
        if let Err(error) = read {
            return Ok(Err(format!("LPN {lpn}: {error}")));
        }
        let stamp = word(&content, 8);
        if content != stamped(lpn, stamp, content.len()) {
            return Err(format!("LPN {lpn} holds bytes that nobody wrote there"));
        }
        Ok(Ok(Some(stamp)))
    }

    pub fn close(mut self) -> Result<(), String> {
        self.device.power_off().map_err(|fault| format!("power off: {fault}"))?;
        unboxed::<FileNand<LossyMedium>>(self.device.into_nand()).close().map_err(|error| error.to_string())
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte))
}

/// The content of a page.
fn stamped(lpn: u32, stamp: u64, bytes: usize) -> Vec<u8> {
    let pair = [u64::from(lpn).to_le_bytes(), stamp.to_le_bytes()].concat();
    pair.into_iter().cycle().take(bytes).collect()
}

/// Who writes a device, and what may be found there.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    held: Vec<Held>,
    /// By LPN: what may be found in its place, as no flush came since.
    older: Vec<Vec<Held>>,
    stamp: u64,
    pub loss: Option<Loss>,
    /// Writes wait in a volatile buffer.
    is_buffered: bool,
}

impl Owner {
    /// Of a device of so many pages, which is closed in good order or meets with a loss.
    pub fn new(pages: u32, loss: Option<Loss>, is_buffered: bool) -> Owner {
        let pages = pages as usize;
        Owner { held: vec![None; pages], older: vec![Vec::new(); pages], stamp: 0, loss, is_buffered }
    }

    /// Fills the device, and overwrites and trims parts of it.
    pub fn live<S: Scheme>(&mut self, served: &mut Served<S>, dice: &mut Dice) -> Result<(), String> {
        let pages = self.held.len() as u32;
        for first in (0..pages).step_by(MOST_PAGES as usize) {
            self.write(served, first, MOST_PAGES.min(pages - first))?;
        }
        self.requests(served, dice, pages * REQUESTS_A_PAGE)?;
        if self.loss.is_none() {
            self.sync(served)?;
        }
        Ok(())
    }

    /// Goes on for a while; then everything is known again.
    pub fn go_on<S: Scheme>(&mut self, served: &mut Served<S>, dice: &mut Dice) -> Result<(), String> {
        self.requests(served, dice, 30)?;
        self.sync(served)
    }

    fn requests<S: Scheme>(
        &mut self,
        served: &mut Served<S>,
        dice: &mut Dice,
        requests: u32,
    ) -> Result<(), String> {
        let all = self.held.len() as u32;
        for _ in 0..requests {
            // Most of them in one part of the device.
            let first = if dice.once_in(4) { dice.below(all) } else { all / 3 + dice.below(all.div_ceil(5)) };
            let pages = dice.between(1, MOST_PAGES).min(all - first);
            if dice.once_in(12) {
                self.note(first, pages);
                served.request(HostOp::Trim, first, pages)?;
                self.held[first as usize..(first + pages) as usize].fill(None);
            } else {
                self.write(served, first, pages)?;
            }
            if dice.once_in(FLUSH) {
                self.sync(served)?;
            }
        }
        Ok(())
    }

    /// What the pages hold may be found later.
    fn note(&mut self, first: u32, pages: u32) {
        for lpn in first as usize..(first + pages) as usize {
            let held = self.held[lpn];
            self.older[lpn].push(held);
        }
    }

    fn write<S: Scheme>(&mut self, served: &mut Served<S>, first: u32, pages: u32) -> Result<(), String> {
        self.note(first, pages);
        let page_bytes = served.device.nand().geometry().page_bytes as usize;
        let mut bytes = Vec::with_capacity(page_bytes * pages as usize);
        for lpn in first..first + pages {
            self.stamp += 1;
            self.held[lpn as usize] = Some(self.stamp);
            bytes.extend(stamped(lpn, self.stamp, page_bytes));
        }
        served.image().offer(Lpn(first), bytes.into());
        served.request(HostOp::Write, first, pages)
    }

    fn sync<S: Scheme>(&mut self, served: &mut Served<S>) -> Result<(), String> {
        served.sync()?;
        self.older.iter_mut().for_each(Vec::clear);
        Ok(())
    }

    /// Whether an image that is refused for this reason gives back what can be read of it: each page that is
    /// found was written there once, and none is missing unless something is.
    pub fn salvage(
        &self,
        medium: &LossyMedium,
        device: &nand::DeviceSpec,
        refused: String,
    ) -> (Outcome, String) {
        let salvage = match Salvage::on(medium.clone(), Path::new("image")) {
            Ok(salvage) => salvage,
            Err(error) => return (Outcome::Refused, error.to_string()),
        };
        let mut content = vec![0; device.geometry.page_bytes as usize];
        for (lpn, held) in (0..).zip(&self.held) {
            let found = salvage.read(Lpn(lpn), &mut content);
            let is_there = matches!(found, Salvaged::Newest | Salvaged::Older);
            if is_there && content != stamped(lpn, word(&content, 8), content.len()) {
                return (Outcome::Wrong, format!("salvage of LPN {lpn} gives bytes that nobody wrote there"));
            }
            let is_sure = held.is_some() && self.older[lpn as usize].is_empty();
            let tells = salvage.unrecorded() > 0 || salvage.untraced();
            if is_sure && found == Salvaged::Nothing && !tells {
                return (Outcome::Wrong, format!("salvage knows nothing of LPN {lpn}: {refused}"));
            }
        }
        (Outcome::Refused, refused)
    }

    /// Reads every page. An error: one holds what it must not hold. Else the first that cannot be read, if
    /// any; what is found is what the owner knows from now on.
    pub fn compare<S: Scheme>(&mut self, served: &mut Served<S>) -> Result<Option<String>, String> {
        let mut unreadable = None;
        for lpn in 0..self.held.len() {
            let found = match served.page(lpn as u32)? {
                Ok(found) => found,
                Err(error) => {
                    unreadable.get_or_insert(error);
                    continue;
                }
            };
            let last = self.held[lpn];
            // The death of the process takes trims back, but no write that was acknowledged from flash.
            let is_sure = self.loss == Some(Loss::Process) && last.is_some() && !self.is_buffered;
            if found != last && (is_sure || !self.older[lpn].contains(&found)) {
                return Err(format!("LPN {lpn} holds {found:?}, not {last:?}"));
            }
            self.held[lpn] = found;
        }
        Ok(unreadable)
    }
}
