//! Reading all of an image beside its clients, to see whether it is whole.

use std::time::{Duration, Instant};

use ftl::Scheme;
use nand::{Medium, Scrubbed};

use super::Engine;
use crate::request::IoError;
use crate::snapshot::ScrubCounts;

/// Pages of one step: others get in between. A block of theirs that is wanted again waits for the step.
const STEP_PAGES: u32 = 256;
/// Longest time that is spent on steps before clients are looked at again.
const STEPS: Duration = Duration::from_millis(20);

/// A scrub that goes on while the device is served, again and again.
#[derive(Debug)]
pub(super) struct Scrubbing {
    /// The time for all of the image.
    period: Duration,
    /// When this turn began, and the page that is next in it.
    begun: Instant,
    next: u32,
    found: Scrubbed,
}

impl<S: Scheme, M: Medium> Engine<S, M> {
    /// As [`crate::Export::scrub`].
    pub(super) fn scrub_pages(&self, from: u32, found: &mut Scrubbed) -> Result<Option<u32>, IoError> {
        let (scrub, end) = {
            let mut guard = self.enter()?;
            let nand = guard.as_mut().ok_or(IoError::Off)?.device.nand_mut();
            let end = self.pages.min(from.saturating_add(STEP_PAGES));
            (nand.scrub(from..end).map_err(|_| IoError::Device)?, Some(end).filter(|&end| end < self.pages))
        };
        let (seen, to_mend) = scrub.read();
        found.add(seen);
        if !to_mend.is_empty() {
            if let Some(core) = self.enter()?.as_mut() {
                core.device.nand_mut().mend(&to_mend).map_err(|_| IoError::Device)?;
            }
        }
        Ok(end)
    }

    /// As [`crate::Export::scrub_every`].
    pub(super) fn begin_scrubbing(&self, period: Duration) {
        if let (Ok(mut scrubbing), Ok(mut scrubbed)) = (self.scrubbing.lock(), self.scrubbed.lock()) {
            *scrubbing =
                Some(Scrubbing { period, begun: Instant::now(), next: 0, found: Scrubbed::default() });
            *scrubbed = Some(ScrubCounts::default());
        }
    }

    /// Does what is due by now of a scrub that is under way.
    pub(super) fn go_on_scrubbing(&self) {
        let Ok(mut scrubbing) = self.scrubbing.lock() else { return };
        let Some(scrubbing) = scrubbing.as_mut() else { return };
        let pages = self.pages;
        let (now, part) = (Instant::now(), scrubbing.begun.elapsed().div_duration_f64(scrubbing.period));
        let due = (part.min(1.0) * f64::from(pages)) as u32;
        while scrubbing.next < due && now.elapsed() < STEPS {
            // An image that cannot be read or written stops its clients, too; the scrub tries again later.
            let Ok(next) = self.scrub_pages(scrubbing.next, &mut scrubbing.found) else { return };
            scrubbing.next = next.unwrap_or(pages);
            self.count(|counts| counts.take(&mut scrubbing.found));
        }
        if part >= 1.0 && scrubbing.next == pages {
            self.count(|counts| counts.turns += 1);
            (scrubbing.begun, scrubbing.next) = (now, 0);
        }
    }

    fn count(&self, change: impl FnOnce(&mut ScrubCounts)) {
        if let Ok(mut scrubbed) = self.scrubbed.lock() {
            scrubbed.as_mut().map(change);
        }
    }
}
