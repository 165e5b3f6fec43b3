//! What a demand-cached mapping holds, looked at every 10,000 host pages: entries and dirty entries by
//! translation page.

use ftl::{CachedPage, Scheme};

use crate::results::CacheSample;

/// Host pages between two looks, at first.
const EVERY_PAGES: u64 = 10_000;
/// Looks before their distance doubles.
const MOST_SAMPLES: usize = 512;
/// Dirty entries of one page that are told apart.
const MOST_DIRTY: usize = 4096;

/// What a demand-cached mapping holds now; `None` when it holds nothing, or caches in another way.
pub(crate) fn held<S: Scheme>(scheme: &S) -> Option<CacheSample> {
    look(scheme, &mut |_| ())
}

/// The same; `each` hears of every page.
fn look<S: Scheme>(scheme: &S, each: &mut dyn FnMut(CachedPage)) -> Option<CacheSample> {
    let mut sample = CacheSample::default();
    scheme.cached(&mut |page: CachedPage| {
        sample.pages += 1;
        sample.entries += u64::from(page.entries);
        sample.dirty += u64::from(page.dirty);
        each(page);
    });
    (sample.pages > 0).then_some(sample)
}

/// The looks of a phase.
#[derive(Clone, Debug)]
pub(crate) struct Occupancy {
    every: u64,
    /// Lookups at which the next look is due; `u64::MAX` when there is none.
    pub(crate) due: u64,
    samples: Vec<CacheSample>,
    /// Cached pages seen, by their dirty entries.
    dirty: Vec<u64>,
}

impl Occupancy {
    pub(crate) fn new(on: bool) -> Occupancy {
        Occupancy {
            every: EVERY_PAGES,
            due: if on { EVERY_PAGES } else { u64::MAX },
            samples: Vec::with_capacity(if on { MOST_SAMPLES + 1 } else { 0 }),
            dirty: vec![0; if on { MOST_DIRTY + 1 } else { 0 }],
        }
    }

    /// Looks at the cache. A scheme that does not cache on demand holds nothing, and is not looked at again.
    #[cold]
    pub(crate) fn look<S: Scheme>(&mut self, scheme: &S, lookups: u64) {
        let dirty = &mut self.dirty;
        let held = look(scheme, &mut |page| dirty[(page.dirty as usize).min(MOST_DIRTY)] += 1);
        let Some(sample) = held else {
            self.due = u64::MAX;
            return;
        };
        self.samples.push(CacheSample { lookups, ..sample });
        if self.samples.len() > MOST_SAMPLES {
            let mut odd = false;
            self.samples.retain(|_| {
                odd = !odd;
                !odd
            });
            self.every *= 2;
        }
        self.due = lookups + self.every;
    }

    /// The looks, and cached pages seen by their dirty entries, up to the most there were.
    pub(crate) fn finish(self) -> (Vec<CacheSample>, Vec<u64>) {
        let mut dirty = self.dirty;
        let most = dirty.iter().rposition(|&pages| pages > 0).map_or(0, |last| last + 1);
        dirty.truncate(most);
        (self.samples, dirty)
    }
}
