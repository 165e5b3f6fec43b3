//! What can be read off a run.

use sim::format::Unit;
use sim::results::{ratio, Kind, LatencySummary, Phase, Run};

/// A number that can be read off a phase of a run.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// Its name in data files.
    pub name: &'static str,
    /// What it is, for headings.
    pub what: &'static str,
    /// How it is written.
    pub unit: Unit,
    of: Of,
}

#[derive(Clone, Copy, Debug)]
enum Of {
    Known(fn(&Run, &Phase) -> Option<f64>),
    /// A pointer into the record of the phase, as `--json` writes it.
    Pointer(&'static str),
    /// A statistic that some scheme declares.
    Own(&'static str),
    /// One such statistic over another.
    Ratio(&'static str, &'static str),
}

/// A quantity that there is not, among those that there are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no quantity `{name}`; there are {}, the statistics that `ftl schemes` shows, ratios of two of these such as \
     hat_hits/hat_lookups, and pointers into the record of a phase such as /gc/foreground",
    ALL.iter().map(|quantity| quantity.name).collect::<Vec<_>>().join(", ")
)]
pub struct UnknownQuantity {
    /// As asked for.
    pub name: String,
}

impl Quantity {
    /// Its value in a phase of a run; `None` when the phase has none.
    pub fn of(&self, run: &Run, phase: &Phase) -> Option<f64> {
        let value = match self.of {
            Of::Known(of) => of(run, phase),
            Of::Pointer(path) => serde_json::to_value(phase).ok()?.pointer(path)?.as_f64(),
            Of::Own(name) => phase.stat(name),
            Of::Ratio(name, of) => phase.stat_ratio(name, of),
        };
        value.filter(|value| value.is_finite())
    }

    /// Whether the host's time changes it.
    pub fn timed(&self) -> bool {
        matches!(self.unit, Unit::Micros | Unit::Rate) || self.name.ends_with("iops")
    }

    /// The quantity of that name; a statistic that some scheme declares; one such statistic over another,
    /// such as `hat_hits/hat_lookups`; or a pointer into the record of a phase, such as `/gc/foreground`.
    ///
    /// # Errors
    /// There is none; the error names those that there are.
    pub fn find(name: &str) -> Result<&'static Quantity, UnknownQuantity> {
        if let Some(known) = ALL.iter().find(|quantity| quantity.name == name) {
            return Ok(known);
        }
        let own = |name: &str| all_stats().find(|stat| stat.name == name);
        let ratio = name.split_once('/').and_then(|(stat, of)| Some((own(stat)?, own(of)?)));
        // Files are read once and name a few; their names live as long as the program.
        let leaked = || -> &'static str { Box::leak(name.to_owned().into_boxed_str()) };
        let found = match (own(name), ratio) {
            (Some(stat), _) => {
                Quantity { name: stat.name, what: stat.what, unit: Unit::Count, of: Of::Own(stat.name) }
            }
            (None, Some((stat, of))) => {
                let unit = if stat.unit == of.unit { Unit::Share } else { Unit::Factor };
                let name = leaked();
                Quantity { name, what: name, unit, of: Of::Ratio(stat.name, of.name) }
            }
            _ if name.starts_with('/') => {
                let name = leaked();
                Quantity { name, what: name, unit: Unit::Count, of: Of::Pointer(name) }
            }
            _ => return Err(UnknownQuantity { name: name.to_owned() }),
        };
        Ok(Box::leak(Box::new(found)))
    }
}

/// What registered schemes count themselves.
fn all_stats() -> impl Iterator<Item = &'static ftl::Stat> {
    ftl::schemes::ALL.iter().flat_map(|info| info.stats)
}

/// A percentile as recorded, us: bins would give it to 1 % only.
fn percentile(phase: &Phase, kind: Kind, of: fn(&LatencySummary) -> u64) -> Option<f64> {
    Some(of(phase.latency[kind].as_ref()?) as f64 / 1000.0)
}

fn mean(phase: &Phase, kind: Kind) -> Option<f64> {
    Some(phase.latency[kind].as_ref()?.mean_ns / 1000.0)
}

/// Share of lookups that one level answered; 0 when it answered none.
fn level(phase: &Phase, name: &str) -> Option<f64> {
    let hits = phase.mapping.hits_by_level.get(name).copied().unwrap_or(0);
    ratio(hits as f64, phase.mapping.lookups as f64)
}

/// Share of the lookups that missed the CMT that a model answered: what models are worth, whatever the size
/// of the CMT.
fn model_hits_of_misses(phase: &Phase) -> Option<f64> {
    ratio(level(phase, "model")?, 1.0 - level(phase, "cmt")?)
}

fn reads(phase: &Phase, number: usize) -> Option<f64> {
    phase.read_shares().map(|shares| shares.as_array()[number])
}

fn part(run: &Run, name: &str) -> f64 {
    run.memory.parts.iter().filter(|part| part.name == name).map(|part| part.bytes).sum::<u64>() as f64
}

/// Time that the flash spends on collection, ns: its operations one after the other.
fn collection_ns(run: &Run, phase: &Phase) -> f64 {
    let times = &run.device.timing;
    let of = |name: &str| phase.flash.get(name).copied().unwrap_or_default();
    let (gc, training) = (of("collection"), of("training"));
    (gc.reads + training.reads) as f64 * (times.read_ns + times.transfer_ns) as f64
        + (gc.programs + training.programs) as f64 * (times.program_ns + times.transfer_ns) as f64
        + gc.erases as f64 * times.erase_ns as f64
}

/// Share of the cached translation pages seen that held two dirty entries or more.
fn several_dirty(phase: &Phase) -> Option<f64> {
    let pages = &phase.dirty_per_cached_page;
    ratio(pages.iter().skip(2).sum::<u64>() as f64, pages.iter().sum::<u64>() as f64)
}

/// Translation pages of which entries are cached, over all looks at the cache.
fn cached_pages(phase: &Phase) -> Option<f64> {
    let samples = &phase.cache_samples;
    ratio(samples.iter().map(|sample| sample.pages as f64).sum(), samples.len() as f64)
}

/// Of the pages that the HAT knew, those that the host rewrote before they came round again.
fn hat_precision(phase: &Phase) -> Option<f64> {
    let moved = phase.stat("second_chances")?;
    ratio(phase.stat("second_chances_used")?.min(moved), moved)
}

/// Of the pages that the host rewrote within one turn of the log, those that the HAT had known.
fn hat_recall(phase: &Phase) -> Option<f64> {
    let used = phase.stat("second_chances_used")?;
    ratio(used, used + phase.stat("merged_rewritten")?)
}

macro_rules! quantities {
    ($($name:literal, $what:literal, $unit:ident, $of:expr;)*) => {
        /// All of them.
        pub(crate) const ALL: &[Quantity] = &[
            $(Quantity { name: $name, what: $what, unit: Unit::$unit, of: Of::Known($of) },)*
        ];
    };
}

quantities![
    "iops", "requests/s", Count, |_, p| p.iops_total();
    "read_iops", "reads/s", Count, |_, p| p.iops(Kind::Read);
    "write_iops", "writes/s", Count, |_, p| p.iops(Kind::Write);
    "bandwidth", "bandwidth", Rate, |_, p| p.bandwidth_total();
    "operations", "operations/s", Count, |_, p| p.program_ops_per_s;
    "elapsed_us", "elapsed time", Micros, |_, p| Some(p.elapsed_ns as f64 / 1000.0);
    "response_time_us", "mean response", Micros, |_, p| p.mean_latency_ns().map(|ns| ns / 1000.0);
    "mean_read_us", "mean read", Micros, |_, p| mean(p, Kind::Read);
    "p50_read_us", "P50 read", Micros, |_, p| percentile(p, Kind::Read, |l| l.p50_ns);
    "p99_read_us", "P99 read", Micros, |_, p| percentile(p, Kind::Read, |l| l.p99_ns);
    "p999_read_us", "P99.9 read", Micros, |_, p| percentile(p, Kind::Read, |l| l.p999_ns);
    "mean_write_us", "mean write", Micros, |_, p| mean(p, Kind::Write);
    "p99_write_us", "P99 write", Micros, |_, p| percentile(p, Kind::Write, |l| l.p99_ns);
    "p999_write_us", "P99.9 write", Micros, |_, p| percentile(p, Kind::Write, |l| l.p999_ns);
    "mean_flush_us", "mean flush", Micros, |_, p| mean(p, Kind::Flush);
    "hit_ratio", "mapping hits", Share, |_, p| p.mapping.hit_ratio();
    "cmt_hit_ratio", "CMT hits", Share, |_, p| level(p, "cmt");
    "model_hit_ratio", "model hits", Share, |_, p| level(p, "model");
    "single_reads", "1 flash read", Share, |_, p| reads(p, 1);
    "double_reads", "2 flash reads", Share, |_, p| reads(p, 2);
    "triple_reads", "3 flash reads", Share, |_, p| reads(p, 3);
    "more_reads", "4 or more", Share, |_, p| reads(p, 4);
    "reads_per_read", "flash reads per host read", Factor, |_, p| p.flash_reads_per_host_read();
    "write_amplification", "write amplification", Factor, |_, p| p.write_amplification().map(|found| found.total);
    "flash_writes", "flash pages written", Count, |_, p| Some(p.flash_total().programs as f64);
    "erases", "block erases", Count, |_, p| Some(p.flash_total().erases as f64);
    "model_hits_of_misses", "model hits of CMT misses", Share, |_, p| model_hits_of_misses(p);
    "gc_runs", "superblocks collected", Count, |_, p| Some(p.gc.collections() as f64);
    "groups", "groups collected", Count, |_, p| Some(p.gc.groups as f64);
    "valid_per_group", "valid pages moved per group", Count, |_, p| p.gc.valid_per_group();
    "valid_per_collection", "valid pages copied per collection", Count, |_, p| p.gc.valid_per_collection();
    "translation_reads", "translation pages read", Count, |_, p| Some(p.table.reads as f64);
    "translation_writes", "translation pages written", Count, |_, p| Some(p.table.programs as f64);
    "merge_writes", "pages written by merges", Count,
        |_, p| Some(p.flash.get("merge").map_or(0.0, |found| found.programs as f64));
    "hat_precision", "pages kept by the HAT that were rewritten in time", Share, |_, p| hat_precision(p);
    "hat_recall", "pages rewritten in time that the HAT had kept", Share, |_, p| hat_recall(p);
    "dirty_replacement_ratio", "dirty entries replaced", Share,
        |_, p| if p.mapping.lookups > 0 && p.mapping.evictions == 0 { Some(0.0) } else { p.mapping.dirty_share() };
    "entries_per_cached_page", "entries of a cached translation page", Factor, |_, p| p.entries_per_cached_page();
    "dirty_per_cached_page", "dirty entries of it", Factor, |_, p| p.dirty_per_cached_page();
    "several_dirty", "pages with several dirty entries", Share, |_, p| several_dirty(p);
    "cached_pages", "translation pages with entries in the cache", Count, |_, p| cached_pages(p);
    "prefetched", "entries prefetched", Count, |_, p| Some(p.mapping.prefetched as f64);
    "compute_us", "controller work", Micros, |_, p| Some(p.compute_ns as f64 / 1000.0);
    "compute_share_of_gc", "compute in collection", Share,
        |r, p| ratio(p.compute_ns as f64, p.compute_ns as f64 + collection_ns(r, p));
    "energy", "energy", Joule, |_, p| Some(p.energy.total_j());
    "cached_entries", "entries cached", Count,
        |r, _| Some(part(r, "CMT") / 8.0 + part(r, "CMT entries") / 6.0);
    "memory", "mapping memory in use", Bytes, |r, _| Some(r.memory.total_bytes() as f64);
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for (index, quantity) in ALL.iter().enumerate() {
            assert!(ALL[..index].iter().all(|other| other.name != quantity.name), "{}", quantity.name);
            assert_eq!(Quantity::find(quantity.name).expect("known").name, quantity.name);
        }
        assert!(
            Quantity::find("speed").is_err_and(|error| error.to_string().contains("`speed`; there are iops"))
        );
    }

    #[test]
    fn a_pointer_reads_the_record() {
        let mut phase = Phase::default();
        phase.gc.foreground = 7;
        let of = |path| Quantity::find(path).expect("a pointer").of(&Run::default(), &phase);
        assert_eq!((of("/gc/foreground"), of("/gc/nothing")), (Some(7.0), None));
    }

    #[test]
    fn a_scheme_s_own_statistics_are_named_as_it_declares_them() {
        let mut phase = Phase::default();
        phase.stats.insert("hat_lookups".to_owned(), 8);
        phase.stats.insert("hat_hits".to_owned(), 2);
        let of = |name| Quantity::find(name).expect("declared").of(&Run::default(), &phase);
        assert_eq!((of("hat_hits"), of("hat_hits/hat_lookups")), (Some(2.0), Some(0.25)));
        assert_eq!((of("regressions"), of("hat_hits/regressions")), (None, None));
        assert_eq!(Quantity::find("hat_hits/hat_lookups").expect("declared").unit, Unit::Share);
        assert_eq!(Quantity::find("log_victim_pages/log_victims").expect("declared").unit, Unit::Factor);
        assert!(Quantity::find("hat_hits/nothing").is_err());
    }

    #[test]
    fn percentiles_are_those_that_a_run_recorded() {
        let mut latency = sim::results::Latency::new();
        (1..=10_000).for_each(|number| latency.record(100_000 + number * 37));
        let mut phase = Phase::default();
        phase.latency[Kind::Read] = latency.summary();
        phase.latency[Kind::Write] = latency.summary();
        let summary = latency.summary().expect("latencies");
        assert_ne!(summary.p99_ns, summary.quantile_ns(0.99), "a bin ends elsewhere");
        for (name, ns) in [
            ("p50_read_us", summary.p50_ns),
            ("p99_read_us", summary.p99_ns),
            ("p999_read_us", summary.p999_ns),
            ("p99_write_us", summary.p99_ns),
            ("p999_write_us", summary.p999_ns),
        ] {
            let found = Quantity::find(name).expect("known").of(&Run::default(), &phase);
            assert_eq!(found, Some(ns as f64 / 1000.0), "{name}");
        }
    }

    #[test]
    fn a_phase_without_reads_has_no_read_latency() {
        let (run, phase) = (Run::default(), Phase::default());
        for name in ["p99_read_us", "hit_ratio", "single_reads", "write_amplification"] {
            assert_eq!(Quantity::find(name).expect("known").of(&run, &phase), None, "{name}");
        }
    }
}
