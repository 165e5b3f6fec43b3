//! What every page must hold: fed by what writes and trims report, asked at every read.

use ftl::Seen;
use nand::{Lpn, Oob, PageKind};

/// How much of the device is watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// One page in [`SAMPLE_STRIDE`], at full speed.
    #[default]
    Sampled,
    /// Every page; 4 bytes of memory each.
    Full,
    /// No page: for benchmarks alone.
    Off,
}

/// The sampled pages are the multiples of this: a prime, so that no request size or alignment avoids them.
pub const SAMPLE_STRIDE: u32 = 61;

/// Not written, or trimmed.
const NOTHING: u32 = 0;
/// A write or trim of the page failed: it may hold the old content, the new, or none.
const UNKNOWN: u32 = u32::MAX;

/// The expected version of each watched page.
#[derive(Clone, Debug)]
pub struct Reference {
    verify: Verify,
    /// By watched page: `NOTHING`, `UNKNOWN`, or the version by [`stamp`].
    expected: Vec<u32>,
    /// The first read that found something else.
    mismatch: Option<Mismatch>,
    /// Reads compared.
    checked: u64,
}

/// A page that did not hold what it must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// LPN of the page.
    pub lpn: Lpn,
    /// Version it must have, less multiples of 2^32 - 2; `None` for a page that must hold nothing.
    pub expected: Option<u32>,
    /// OOB of the page that was read; `None` when nothing was mapped.
    pub found: Option<Oob>,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LPN {} must hold ", self.lpn.0)?;
        match self.expected {
            Some(version) => write!(f, "version {version}")?,
            None => f.write_str("nothing")?,
        }
        match self.found {
            Some(oob) => write!(
                f,
                ", but {:?} {} of version {}{} was found",
                oob.kind,
                oob.id,
                oob.version,
                if oob.lost { " (lost)" } else { "" }
            ),
            None => f.write_str(", but nothing was found"),
        }
    }
}

/// A version in 32 bits that are neither `NOTHING` nor `UNKNOWN`. Two versions of a page are told apart
/// unless they lie a multiple of 2^32 - 2 writes apart.
#[inline]
fn stamp(version: u64) -> u32 {
    const VALUES: u64 = (1 << 32) - 2;
    let reduced = if version < VALUES { version } else { version % VALUES };
    reduced as u32 + 1
}

impl Reference {
    /// A device of `exported_pages` pages on which nothing was written.
    pub fn new(verify: Verify, exported_pages: u32) -> Reference {
        let watched = match verify {
            Verify::Off => 0,
            Verify::Sampled => exported_pages.div_ceil(SAMPLE_STRIDE),
            Verify::Full => exported_pages,
        };
        Reference { verify, expected: vec![NOTHING; watched as usize], mismatch: None, checked: 0 }
    }

    /// The place of a page, if it is watched.
    #[inline]
    fn index(&self, lpn: Lpn) -> Option<usize> {
        match self.verify {
            Verify::Sampled => {
                lpn.0.is_multiple_of(SAMPLE_STRIDE).then_some((lpn.0 / SAMPLE_STRIDE) as usize)
            }
            Verify::Full => Some(lpn.0 as usize),
            Verify::Off => None,
        }
    }

    /// Hears what happened to a page.
    #[inline]
    pub fn saw(&mut self, lpn: Lpn, seen: Seen, write: bool) {
        let Some(index) = self.index(lpn) else { return };
        match seen {
            Seen::Written(version) => self.expected[index] = stamp(version),
            Seen::Read(found) => self.compare(lpn, index, found),
            // A read that fails says nothing about later ones.
            Seen::Failed if write => self.expected[index] = UNKNOWN,
            Seen::Failed => {}
        }
    }

    #[inline]
    fn compare(&mut self, lpn: Lpn, index: usize, found: Option<Oob>) {
        self.checked += 1;
        let expected = self.expected[index];
        if !matches(expected, lpn, found) && self.mismatch.is_none() {
            self.mismatch = Some(mismatch(expected, lpn, found));
        }
    }

    /// Pages `first..first + pages` were trimmed; if that failed, they may hold anything.
    pub fn trimmed(&mut self, first: Lpn, pages: u32, failed: bool) {
        let value = if failed { UNKNOWN } else { NOTHING };
        let end = u64::from(first.0) + u64::from(pages);
        let (from, to) = match self.verify {
            Verify::Off => return,
            Verify::Full => (first.0 as usize, end as usize),
            Verify::Sampled => {
                (first.0.div_ceil(SAMPLE_STRIDE) as usize, end.div_ceil(u64::from(SAMPLE_STRIDE)) as usize)
            }
        };
        self.expected[from..to].fill(value);
    }

    /// The first read that found something wrong.
    #[inline]
    pub fn mismatch(&self) -> Option<Mismatch> {
        self.mismatch
    }

    /// Reads compared so far.
    pub fn checked(&self) -> u64 {
        self.checked
    }

    /// Watched pages, and those of them that must hold something.
    pub fn watched(&self) -> (u64, u64) {
        let live = self.expected.iter().filter(|&&e| e != NOTHING && e != UNKNOWN).count();
        (self.expected.len() as u64, live as u64)
    }

    /// Compares a page of the final mapping without counting it: whether it is watched and must hold
    /// something, or what is wrong.
    pub(crate) fn inspect(&self, lpn: Lpn, found: Option<Oob>) -> Result<bool, Mismatch> {
        let Some(index) = self.index(lpn) else { return Ok(false) };
        match self.expected.get(index) {
            Some(&expected) if matches(expected, lpn, found) => Ok(expected != UNKNOWN),
            Some(&expected) => Err(mismatch(expected, lpn, found)),
            None => Err(mismatch(NOTHING, lpn, found)),
        }
    }

    /// Damages the entry of a page, so that a test can show that the check fails.
    #[doc(hidden)]
    pub fn corrupt(&mut self, lpn: Lpn) {
        if let Some(index) = self.index(lpn) {
            self.expected[index] = (self.expected[index] + 1).min(UNKNOWN - 1);
        }
    }
}

#[inline]
fn matches(expected: u32, lpn: Lpn, found: Option<Oob>) -> bool {
    match found {
        Some(oob) => {
            let right = oob.kind == PageKind::Data && oob.id == lpn.0 && !oob.lost;
            right && (expected == stamp(oob.version) || expected == UNKNOWN)
        }
        None => expected == NOTHING || expected == UNKNOWN,
    }
}

#[cold]
fn mismatch(expected: u32, lpn: Lpn, found: Option<Oob>) -> Mismatch {
    Mismatch { lpn, expected: (expected != NOTHING).then(|| expected.wrapping_sub(1)), found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(id: u32, version: u64) -> Option<Oob> {
        Some(Oob { kind: PageKind::Data, id, version, epoch: 0, lost: false })
    }

    #[test]
    fn a_read_must_find_the_newest_version() {
        let mut reference = Reference::new(Verify::Full, 10);
        reference.saw(Lpn(3), Seen::Read(None), false);
        reference.saw(Lpn(3), Seen::Written(7), true);
        reference.saw(Lpn(3), Seen::Read(page(3, 7)), false);
        assert_eq!((reference.mismatch(), reference.checked(), reference.watched()), (None, 2, (10, 1)));
        reference.saw(Lpn(3), Seen::Written(9), true);
        reference.saw(Lpn(3), Seen::Read(page(3, 7)), false);
        let found = reference.mismatch().map(|m| m.to_string());
        assert_eq!(found.as_deref(), Some("LPN 3 must hold version 9, but Data 3 of version 7 was found"));
    }

    #[test]
    fn a_trimmed_page_never_returns_and_a_foreign_page_is_no_answer() {
        for verify in [Verify::Full, Verify::Sampled] {
            let mut reference = Reference::new(verify, 3 * SAMPLE_STRIDE);
            let lpn = Lpn(SAMPLE_STRIDE);
            reference.saw(lpn, Seen::Written(1), true);
            let mut foreign = reference.clone();
            foreign.saw(lpn, Seen::Read(page(0, 1)), false);
            assert!(foreign.mismatch().is_some());
            reference.trimmed(Lpn(1), SAMPLE_STRIDE, false);
            reference.saw(lpn, Seen::Read(page(lpn.0, 1)), false);
            assert!(reference.mismatch().is_some_and(|m| m.expected.is_none()));
        }
    }

    #[test]
    fn sampled_trims_touch_the_watched_pages_inside_alone() {
        for first in 0..130 {
            for pages in 1..130 {
                let mut reference = Reference::new(Verify::Sampled, 300);
                for lpn in 0..300 {
                    reference.saw(Lpn(lpn), Seen::Written(1), true);
                }
                reference.trimmed(Lpn(first), pages, false);
                let inside = (first..first + pages).filter(|lpn| lpn % SAMPLE_STRIDE == 0).count() as u64;
                assert_eq!(reference.watched(), (5, 5 - inside));
            }
        }
    }

    #[test]
    fn after_a_failed_write_either_content_is_right_but_no_foreign_page() {
        let mut reference = Reference::new(Verify::Full, 10);
        reference.saw(Lpn(1), Seen::Written(1), true);
        reference.saw(Lpn(1), Seen::Failed, false);
        assert_eq!(reference.watched(), (10, 1));
        reference.saw(Lpn(1), Seen::Failed, true);
        reference.saw(Lpn(1), Seen::Read(None), false);
        reference.saw(Lpn(1), Seen::Read(page(1, 1)), false);
        assert_eq!(reference.mismatch(), None);
        reference.saw(Lpn(1), Seen::Read(page(2, 1)), false);
        assert!(reference.mismatch().is_some());
    }

    #[test]
    fn large_versions_keep_clear_of_the_special_values() {
        for version in [0, 1, (1 << 32) - 3, (1 << 32) - 2, (1 << 32) - 1, 1 << 32, Oob::MAX_VERSION] {
            assert!(![NOTHING, UNKNOWN].contains(&stamp(version)), "{version}");
        }
    }
}
