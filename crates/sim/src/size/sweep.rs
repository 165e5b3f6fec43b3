//! The runs behind a size curve: every scheme with every cache size, and the ideal page map once.

use std::sync::Arc;

use serde::Serialize;
use workload::InputError;

use super::{smallest, Locality, LruPoint, Point};
use crate::error::RunError;
use crate::facts::labels;
use crate::progress::Progress;
use crate::results::{to_value, OutputError, Run};
use crate::setup::{CacheAtStart, Resolved, SchemeSpec, Setup, WarmUp};
use crate::source::{Listed, Source};
use crate::spec::{BadValue, CacheSize, Experiment, Load};

/// The scheme that all others are measured by: its map is whole, and in memory.
pub const IDEAL: &str = "page";

/// Everything that a sweep over cache sizes found.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The ideal page map.
    pub ideal: Point,
    /// Schemes by cache size.
    pub points: Vec<Point>,
    /// Plain LRU by cache size; empty when there is no one sequence of requests.
    pub lru: Vec<LruPoint>,
    /// How near to the ideal map counts as reached.
    pub within: f64,
}

#[derive(Serialize)]
struct Document<'a> {
    ideal: &'a Point,
    points: &'a [Point],
    smallest_near_ideal: Vec<(String, Option<u64>)>,
    within: f64,
    lru: &'a [LruPoint],
    runs: Vec<serde_json::Value>,
}

impl Curve {
    /// The curve with the runs behind it, as `ftl size --json` writes them.
    ///
    /// # Errors
    /// As [`to_value`].
    pub fn to_value(&self, runs: &[Run]) -> Result<serde_json::Value, OutputError> {
        Ok(serde_json::to_value(Document {
            ideal: &self.ideal,
            points: &self.points,
            smallest_near_ideal: smallest(&self.points, &self.ideal, self.within),
            within: self.within,
            lru: &self.lru,
            runs: runs.iter().map(to_value).collect::<Result<Vec<_>, _>>()?,
        })?)
    }
}

/// What is asked about sizes is mostly a trace, and for a trace a device that is filled in order will do.
pub fn as_trace(setup: &mut Setup) {
    setup.take_trace();
    let replayed = setup.trace.is_some() || setup.synth.is_some() || setup.given.is_some();
    if setup.warm_up.is_none() && replayed {
        setup.warm_up = Some(WarmUp::Writes(workload::warm_up::FILL));
    }
    // A larger cache would otherwise look worse, as it keeps more of the warm-up for the measurement to pay.
    setup.cache_state.get_or_insert(CacheAtStart::Clean);
}

/// The experiments of a curve, the ideal map first.
pub struct Sweep {
    /// One experiment for each scheme and cache size.
    pub experiments: Vec<Experiment>,
    /// Scheme and size of each, in words.
    pub names: Vec<String>,
    sizes: Vec<u64>,
    locality: Option<Locality>,
}

impl Sweep {
    /// `schemes` with each of `caches`; `command` gives the command that repeats a run of a scheme.
    ///
    /// # Errors
    /// An impossible cache size.
    pub fn new(
        setup: &Resolved,
        schemes: &[SchemeSpec],
        caches: &[CacheSize],
        command: &dyn Fn(&SchemeSpec) -> String,
    ) -> Result<Sweep, BadValue> {
        let experiment =
            |scheme: &SchemeSpec| Experiment { command: command(scheme), ..setup.experiment(scheme) };
        let ideal = experiment(&SchemeSpec { name: IDEAL.to_owned(), parameters: Default::default() });
        let exported = ideal.device.exported_pages;
        let mut sizes = caches.iter().map(|size| size.bytes(exported)).collect::<Result<Vec<_>, _>>()?;
        sizes.sort_unstable();
        sizes.dedup();
        let (mut experiments, mut names) = (vec![ideal], vec![IDEAL.to_owned()]);
        for scheme in schemes.iter().filter(|scheme| scheme.name != IDEAL) {
            for &cache in &sizes {
                experiments.push(Experiment { cache: CacheSize::Bytes(cache), ..experiment(scheme) });
                names.push(format!("{scheme} {}", crate::format::bytes(cache)));
            }
        }
        Ok(Sweep { experiments, names, sizes, locality: None })
    }

    /// Reads the requests of a replayed workload once, for all experiments, and finds their stack distances.
    /// Of a job file there is no one sequence of requests. Nothing more is read when `progress` asks to stop.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn read_once(&mut self, progress: &dyn Progress) -> Result<(), InputError> {
        let experiment = &self.experiments[0];
        let [phase] = &experiment.phases[..] else { return Ok(()) };
        let (Load::Open { source, .. } | Load::Closed { source, .. }) = &phase.load else { return Ok(()) };
        let device = &experiment.device;
        let requests = source.requests(device.exported_bytes(), experiment.seed)?;
        let requests = requests.take_while(|_| !progress.stops()).collect::<Result<Vec<_>, _>>()?;
        let wanted = requests.iter().take_while(|_| !progress.stops());
        self.locality = Some(Locality::of(wanted, device.exported_pages, device.geometry.page_bytes));
        let listed: Arc<dyn Source> = Arc::new(Listed::new(source.name(), requests));
        for phase in self.experiments.iter_mut().flat_map(|experiment| &mut experiment.phases) {
            if let Load::Open { source, .. } | Load::Closed { source, .. } = &mut phase.load {
                *source = Arc::clone(&listed);
            }
        }
        Ok(())
    }

    /// The runs, and a sentence for each cache that was too small for its scheme. What was stopped has no
    /// run.
    ///
    /// # Errors
    /// The first run that failed for another reason.
    pub fn ran(&self, results: Vec<Result<Run, RunError>>) -> Result<(Vec<Run>, Vec<String>), RunError> {
        let (mut runs, mut left_out) = (Vec::new(), Vec::new());
        for (result, name) in results.into_iter().zip(&self.names) {
            match result {
                Ok(run) => runs.push(run),
                Err(RunError::Stopped { .. }) => {}
                Err(RunError::Open(error)) if name != IDEAL => left_out.push(format!("left out: {error}")),
                Err(error) => return Err(error),
            }
        }
        Ok((runs, left_out))
    }

    /// The curve of [`Sweep::ran`], and the names of its schemes; `None` without the ideal map's run.
    pub fn curve(&self, runs: &[Run], within: f64) -> Option<(Curve, Vec<String>)> {
        let [ideal, others @ ..] = runs else { return None };
        if ideal.scheme.name != IDEAL {
            return None;
        }
        // One label for all sizes of a variant: label each variant once.
        let mut variants: Vec<Run> = Vec::new();
        for run in others {
            if !variants.iter().any(|known| known.scheme == run.scheme) {
                variants.push(Run { scheme: run.scheme.clone(), ..Run::default() });
            }
        }
        let names = labels(&variants);
        let name = |run: &Run| {
            let at = variants.iter().position(|known| known.scheme == run.scheme).unwrap_or(0);
            names.get(at).cloned().unwrap_or_default()
        };
        let points = others.iter().map(|run| Point::of(run, name(run))).collect();
        let lru = self.locality.as_ref();
        let lru = lru.map(|locality| self.sizes.iter().map(|&size| locality.at(size)).collect());
        let curve = Curve { ideal: Point::of(ideal, IDEAL), points, lru: lru.unwrap_or_default(), within };
        Some((curve, names))
    }
}
