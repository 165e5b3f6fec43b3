//! Results as tables: many runs side by side ([`compare_table`]), or one in full ([`run_detail`]).
//!
//! Every table fits a terminal of 120 columns as long as names are short; a column without a number is left
//! out, and a ratio without a denominator is a dash.

#[cfg(feature = "complete")]
pub mod diff;
pub mod grid;
pub mod model;
#[cfg(feature = "complete")]
pub mod paper;
pub mod size;
#[cfg(feature = "complete")]
pub mod study;

#[cfg(test)]
mod tests;

use sim::facts::{facts, groups, labels, verdict, Group};
use sim::format::{bytes, count, digits, energy, factor, maybe, mib_per_s, percent, time, whole, NOTHING};
use sim::results::{Kind, LatencySummary, Phase, Run, StatInfo};

use grid::{printable, Grid};

pub use sim::size::IDEAL;

/// Runs side by side, phase by phase, under the facts that make the numbers mean something.
pub fn compare_table(runs: &[Run]) -> String {
    if runs.is_empty() {
        return "no runs to compare\n".to_owned();
    }
    let labels = labels(runs);
    let mut out = header(runs);
    for group in groups(runs) {
        out += &format!("\n== {} ==\n", printable(&group.name));
        for grid in [speed(&group, &labels), flash(&group, &labels), own(&group, &labels)] {
            if !grid.is_empty() {
                out += &grid.text();
            }
        }
        out += &widened(&group);
    }
    out += &in_full(&worn_out(runs, &labels));
    out += &in_full(&recovery(runs, &labels));
    out + "\n" + &verdict_text(runs)
}

/// One run in full.
pub fn run_detail(run: &Run) -> String {
    let runs = std::slice::from_ref(run);
    let mut out = header(runs);
    for grid in run_grids(run) {
        out += &format!("\n{}", grid.text());
    }
    for group in groups(runs) {
        out += &format!("\n== {} ==\n", printable(&group.name));
        for (_, run, phase) in &group.members {
            for grid in phase_grids(run, phase).into_iter().filter(|grid| !grid.is_empty()) {
                out += &grid.text();
            }
        }
        out += &widened(&group);
    }
    out += &in_full(&worn_out(runs, &labels(runs)));
    out += &in_full(&recovery(runs, &labels(runs)));
    out += &format!("\nDigest    {}\n", printable(&run.digest));
    let speed = |rate: Option<f64>| maybe(rate, count);
    out += &format!(
        "Simulator {} CPU s, {} host pages/s, {} flash operations/s\n",
        digits(run.host.cpu_seconds),
        speed(run.host.host_pages_per_s),
        speed(run.host.flash_ops_per_s),
    );
    out + &verdict_text(runs)
}

/// A line on requests that were made larger, if there were any: write amplification does not show it.
fn widened(group: &Group) -> String {
    let Some((_, _, phase)) = group.members.iter().find(|(_, _, phase)| phase.widened > 0) else {
        return String::new();
    };
    let all: u64 = Kind::ALL.iter().map(|&kind| phase.requests[kind].issued).sum();
    format!(
        "Widened   {} of {} requests did not begin and end on a page; they were widened to whole pages, and WA counts those\n",
        whole(phase.widened),
        whole(all)
    )
}

/// A grid after a blank line, if it has a row.
fn in_full(grid: &Grid) -> String {
    if grid.is_empty() {
        return String::new();
    }
    format!("\n{}", grid.text())
}

fn header(runs: &[Run]) -> String {
    facts(runs).into_iter().map(|(name, fact)| format!("{name:<9} {}\n", printable(&fact))).collect()
}

fn verdict_text(runs: &[Run]) -> String {
    let verdict = verdict(runs);
    if verdict.good() {
        return format!("Checks    {}\n", printable(&verdict.sentence));
    }
    let rule = "!".repeat(100);
    let broken: String = verdict.broken.iter().map(|line| format!("!!! {}\n", printable(line))).collect();
    format!("{rule}\n!!! {}\n{broken}{rule}\n", printable(&verdict.sentence))
}

/// Throughput and latency of a phase: a row for each run, or for each run and kind when the phase mixes
/// kinds.
pub fn speed(group: &Group, labels: &[String]) -> Grid {
    // Where requests arrive by themselves, all schemes have the throughput of the arrivals.
    let open = group.members.iter().all(|(_, _, phase)| phase.open_loop);
    let columns = [
        "scheme",
        "",
        "IOPS",
        if open { "mean x page" } else { "x page" },
        "MiB/s",
        "mean",
        "p50",
        "p99",
        "p99.9",
        "p99.99",
        "max",
        "in flight",
    ];
    let mut grid = Grid::new("Speed", columns);
    let ideal = group.members.iter().find(|(_, run, _)| run.scheme.name == IDEAL).map(|(_, _, phase)| *phase);
    for &(index, _, phase) in &group.members {
        let kinds: Vec<Kind> = phase.kinds().collect();
        let mixed = kinds.len() > 1;
        for (row, &kind) in kinds.iter().enumerate() {
            let latency = phase.latency[kind].as_ref();
            let relative = || {
                let (ours, ideal) = if open {
                    (latency?.mean_ns, ideal?.latency[kind].as_ref()?.mean_ns)
                } else {
                    (phase.iops(kind)?, ideal?.iops(kind)?)
                };
                (ideal > 0.0).then(|| ours / ideal)
            };
            let of = |part: fn(&LatencySummary) -> f64| maybe(latency.map(part), time);
            grid.row([
                if row == 0 { labels[index].clone() } else { String::new() },
                if mixed { kind.name().to_owned() } else { String::new() },
                maybe(phase.iops(kind), count),
                maybe(relative(), factor),
                if kind == Kind::Flush {
                    NOTHING.to_owned()
                } else {
                    maybe(phase.bandwidth(kind), mib_per_s)
                },
                of(|found| found.mean_ns),
                of(|found| found.p50_ns as f64),
                of(|found| found.p99_ns as f64),
                of(|found| found.p999_ns as f64),
                of(|found| found.p9999_ns as f64),
                of(|found| found.max_ns as f64),
                if row == 0 { maybe(phase.mean_queue_depth, digits) } else { NOTHING.to_owned() },
            ]);
        }
        if kinds.is_empty() {
            grid.row(
                std::iter::once(labels[index].clone()).chain((1..columns.len()).map(|_| NOTHING.to_owned())),
            );
        }
    }
    grid.compact().spare(["in flight", "max", "p99.99", "MiB/s"])
}

/// What address translation and collection cost in flash operations: a row for each run.
pub fn flash(group: &Group, labels: &[String]) -> Grid {
    let columns = [
        "scheme",
        "reads/read",
        "single",
        "double",
        "triple",
        "4+",
        "none",
        "hits",
        "WA",
        "data GC",
        "transl.",
        "other",
        "erases",
        "memory",
    ];
    let mut grid = Grid::new("Flash operations", columns);
    for &(index, run, phase) in &group.members {
        let shares = phase.read_shares();
        let written = phase.write_amplification();
        let part = |cause: &'static str| written.as_ref().map(|found| found.of(cause));
        let other = written
            .as_ref()
            .map(|found| found.total - found.of("host") - found.of("collection") - found.of("translation"))
            .filter(|rest| *rest > 1e-9);
        let rare = |share: Option<f64>| maybe(share.filter(|share| *share > 0.0), percent);
        grid.row([
            labels[index].clone(),
            maybe(phase.flash_reads_per_host_read(), |value| format!("{value:.3}")),
            maybe(shares.map(|of| of.single), percent),
            maybe(shares.map(|of| of.double), percent),
            maybe(shares.map(|of| of.triple), percent),
            rare(shares.map(|of| of.more)),
            rare(shares.map(|of| of.unmapped)),
            maybe(phase.mapping.hit_ratio(), percent),
            maybe(written.as_ref().map(|found| found.total), factor),
            maybe(part("collection"), factor),
            maybe(part("translation"), factor),
            maybe(other, factor),
            whole(phase.flash_total().erases),
            if run.memory.parts.is_empty() { NOTHING.to_owned() } else { bytes(run.memory.total_bytes()) },
        ]);
    }
    grid.compact().spare(["memory", "none", "4+", "other"])
}

/// What schemes count themselves, as they declare it: a row for each that is not zero.
pub fn own(group: &Group, labels: &[String]) -> Grid {
    let mut grid = Grid::new("Counted by the schemes themselves", ["scheme", "what", "value", "in relation"]);
    for &(index, run, phase) in &group.members {
        for stat in &run.scheme.stats {
            let Some(&value) = phase.stats.get(&stat.name).filter(|&&value| value > 0) else { continue };
            let relation = relation(stat, run, phase).unwrap_or_else(|| NOTHING.to_owned());
            grid.row([labels[index].clone(), stat.what.clone(), whole(value), relation]);
        }
    }
    grid
}

/// A statistic of a scheme's own in relation to the one that it is declared to be set against.
fn relation(stat: &StatInfo, run: &Run, phase: &Phase) -> Option<String> {
    let of = run.scheme.stats.iter().find(|other| Some(&other.name) == stat.of.as_ref())?;
    let found = phase.stat_ratio(&stat.name, &of.name)?;
    let shown = if stat.unit == of.unit { percent(found) } else { digits(found) };
    Some(format!("{shown} of {}", of.name))
}

/// How devices ended their lives: a row for each run in which one did.
pub fn worn_out(runs: &[Run], labels: &[String]) -> Grid {
    let header = [
        "scheme",
        "in",
        "round",
        "bad blocks",
        "of",
        "host wrote",
        "volumes",
        "WA",
        "erases a block",
        "most / mean",
    ];
    let mut grid = Grid::new("Worn out: read-only from then on", header);
    for (run, label) in runs.iter().zip(labels) {
        let Some(end) = &run.worn_out else { continue };
        grid.row([
            label.clone(),
            printable(&end.phase),
            whole(end.rounds),
            whole(u64::from(end.bad_blocks)),
            whole(u64::from(end.blocks)),
            bytes(end.bytes_written),
            digits(end.bytes_written as f64 / run.device.exported_bytes.max(1) as f64),
            digits(end.programs as f64 / end.pages_written.max(1) as f64),
            format!(
                "{} to {}, mean {}",
                whole(u64::from(end.least_erases)),
                whole(u64::from(end.most_erases)),
                digits(end.mean_erases)
            ),
            digits(f64::from(end.most_erases) / end.mean_erases.max(1.0)),
        ]);
    }
    grid
}

/// What recovery took after the power was cut at the end: a row for each run in which it was.
pub fn recovery(runs: &[Run], labels: &[String]) -> Grid {
    let mut grid = Grid::new(
        "Recovery after a power cut",
        ["scheme", "time", "reads", "programs", "erases", "controller"],
    );
    for (run, label) in runs.iter().zip(labels) {
        let Some(found) = &run.recovery else { continue };
        grid.row([
            label.clone(),
            if found.ns > 0 { time(found.ns as f64) } else { NOTHING.to_owned() },
            whole(found.reads),
            whole(found.programs),
            whole(found.erases),
            time(found.compute_ns as f64),
        ]);
    }
    grid
}

/// Scheme, parameters and memory of one run.
pub fn run_grids(run: &Run) -> Vec<Grid> {
    let mut scheme = Grid::new("Scheme", ["scheme", "value"]);
    scheme.row(["name".to_owned(), run.scheme.name.clone()]);
    if !run.scheme.paper.is_empty() {
        scheme.row(["paper".to_owned(), run.scheme.paper.clone()]);
    }
    for (name, value) in &run.scheme.parameters {
        scheme.row([name.clone(), value.clone()]);
    }
    let mut memory = Grid::new("Controller memory", ["part", "size"]);
    for part in &run.memory.parts {
        memory.row([part.name.clone(), bytes(part.bytes)]);
    }
    memory.row(["total".to_owned(), bytes(run.memory.total_bytes())]);
    vec![scheme, memory]
}

/// Everything about one phase of one run.
pub fn phase_grids(run: &Run, phase: &Phase) -> Vec<Grid> {
    vec![latency_grid(phase), causes_grid(phase), reads_grid(phase), counters_grid(run, phase)]
}

/// A column for each kind of request: as narrow as a phase of few kinds, and nothing has to be left out.
fn latency_grid(phase: &Phase) -> Grid {
    type Row = (&'static str, fn(&LatencySummary) -> f64);
    const ROWS: [Row; 10] = [
        ("mean", |found| found.mean_ns),
        ("standard deviation", |found| found.stddev_ns),
        ("min", |found| found.min_ns as f64),
        ("p50", |found| found.p50_ns as f64),
        ("p90", |found| found.p90_ns as f64),
        ("p95", |found| found.p95_ns as f64),
        ("p99", |found| found.p99_ns as f64),
        ("p99.9", |found| found.p999_ns as f64),
        ("p99.99", |found| found.p9999_ns as f64),
        ("max", |found| found.max_ns as f64),
    ];
    let kinds: Vec<Kind> = phase.kinds().collect();
    let header = std::iter::once("requests").chain(kinds.iter().map(|kind| kind.name()));
    let mut grid = Grid::new(format!("Requests in {}", time(phase.elapsed_ns as f64)), header);
    let mut put = |name: &str, of: &dyn Fn(Kind) -> String| {
        grid.row(std::iter::once(name.to_owned()).chain(kinds.iter().map(|&kind| of(kind))));
    };
    put("completed", &|kind| whole(phase.requests[kind].completed));
    put("requests/s", &|kind| maybe(phase.iops(kind), count));
    put("MiB/s", &|kind| match kind {
        Kind::Flush => NOTHING.to_owned(),
        _ => maybe(phase.bandwidth(kind), mib_per_s),
    });
    for (name, part) in ROWS {
        put(name, &|kind| maybe(phase.latency[kind].as_ref().map(part), time));
    }
    grid
}

fn causes_grid(phase: &Phase) -> Grid {
    let mut grid = Grid::new("Flash operations by cause", ["cause", "reads", "programs", "erases", "WA"]);
    let written = phase.write_amplification();
    let known = sim::results::CAUSES.iter().filter_map(|&name| phase.flash.get_key_value(name));
    let unknown = phase.flash.iter().filter(|(name, _)| !sim::results::CAUSES.contains(&name.as_str()));
    for (name, counts) in known.chain(unknown).filter(|(_, counts)| counts.total() > 0) {
        grid.row([
            name.clone(),
            whole(counts.reads),
            whole(counts.programs),
            whole(counts.erases),
            maybe(written.as_ref().map(|found| found.of(name)), factor),
        ]);
    }
    let total = phase.flash_total();
    grid.row([
        "all".to_owned(),
        whole(total.reads),
        whole(total.programs),
        whole(total.erases),
        maybe(written.map(|found| found.total), factor),
    ]);
    grid.compact()
}

fn reads_grid(phase: &Phase) -> Grid {
    let mut grid = Grid::new("Host page reads by flash reads", ["flash reads", "host pages", "share"]);
    let Some(shares) = phase.read_shares() else { return grid };
    let names = ["0 (unmapped or buffered)", "1", "2", "3", "4 or more"];
    for (index, share) in shares.as_array().into_iter().enumerate() {
        let pages = phase.host_reads.by_flash_reads[index];
        if pages > 0 {
            grid.row([names[index].to_owned(), whole(pages), percent(share)]);
        }
    }
    grid
}

fn counters_grid(run: &Run, phase: &Phase) -> Grid {
    let mut grid = Grid::new("Counters", ["what", "value"]);
    let mut put = |name: &str, value: String| grid.row([name.to_owned(), value]);
    let mapping = &phase.mapping;
    put("lookups", whole(mapping.lookups));
    put("hit ratio", maybe(mapping.hit_ratio(), percent));
    for (level, share) in mapping.hit_shares() {
        put(&format!("  answered by {level}"), percent(share));
    }
    put("entries replaced", whole(mapping.evictions));
    put("  of these dirty", maybe(mapping.dirty_share(), percent));
    put("translation pages written back", whole(mapping.write_backs));
    put("entries a cached translation page", maybe(phase.entries_per_cached_page(), digits));
    put("  of these dirty", maybe(phase.dirty_per_cached_page(), digits));
    put("entries prefetched", whole(mapping.prefetched));
    put("hit ratio of collection", maybe(mapping.gc_hit_ratio(), percent));
    put("collections of data blocks", whole(phase.gc.collections_data));
    put("collections of translation blocks", whole(phase.gc.collections_translation));
    put("  foreground", whole(phase.gc.foreground));
    put("  background", whole(phase.gc.background));
    if phase.gc.groups > 0 {
        put("groups collected and learned", whole(phase.gc.groups));
        put("  pages moved a group", maybe(phase.gc.valid_per_group(), digits));
    }
    if phase.gc.rewritten > 0 {
        put("superblocks or parts of groups rewritten", whole(phase.gc.rewritten));
    }
    put("valid pages copied a collection", maybe(phase.gc.valid_per_collection(), digits));
    for stat in &run.scheme.stats {
        let value = phase.stats.get(&stat.name).copied().unwrap_or(0);
        let relation = relation(stat, run, phase).map_or_else(String::new, |text| format!(" ({text})"));
        put(&stat.what, format!("{}{relation}", whole(value)));
    }
    let wear = &phase.wear;
    put(
        "erases a block, min / mean / max",
        format!("{} / {} / {} (stddev {})", wear.min, digits(wear.mean), wear.max, digits(wear.stddev)),
    );
    put("energy", energy(phase.energy.total_j()));
    if let Some(dies) = &phase.die_use {
        let [mean, min, max] = [dies.busy_mean, dies.busy_min, dies.busy_max].map(percent);
        put("dies busy, min / mean / max", format!("{min} / {mean} / {max}"));
    }
    put("requests in flight", maybe(phase.mean_queue_depth, digits));
    let faults = &phase.faults;
    for (name, number) in [
        ("uncorrectable reads", faults.uncorrectable),
        ("translation pages rebuilt from OOB", faults.rebuilt),
        ("failed programs", faults.program_failed),
        ("failed erases", faults.erase_failed),
        ("FAILED REQUESTS", faults.requests_failed),
    ] {
        if number > 0 {
            put(name, whole(number));
        }
    }
    grid
}
