//! JSON and CSV.

use serde_json::Value;

use super::{Kind, Phase, Run, CAUSES, SCHEMA};

/// Why results could not be written or read.
#[derive(Debug)]
pub enum OutputError {
    /// Not JSON, or not a list of runs; the text says line and column.
    Json(serde_json::Error),
    /// A CSV record could not be written.
    Csv(csv::Error),
    /// A record of another version.
    Schema {
        /// The version found.
        found: u32,
    },
    /// A number beyond [`MOST_COUNTED`], and where it stands.
    TooGreat {
        /// Such as `[0].phases[1].pages_read`.
        place: String,
        /// The number.
        found: u64,
    },
}

/// No run counts or measures more, in whatever unit: 2^56 ns are 2.3 years of simulated time. Sums of numbers
/// up to here do not overflow.
const MOST_COUNTED: u64 = 1 << 56;

impl std::fmt::Display for OutputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OutputError::Json(error) => write!(f, "results in JSON: {error}"),
            OutputError::Csv(error) => write!(f, "results in CSV: {error}"),
            OutputError::Schema { found } => {
                write!(f, "results have schema {found}, this version reads schema {SCHEMA}; run the experiment again")
            }
            OutputError::TooGreat { place, found } => {
                write!(f, "results in JSON: {place} is {found}, but no run counts beyond {MOST_COUNTED}")
            }
        }
    }
}

impl std::error::Error for OutputError {}

impl From<serde_json::Error> for OutputError {
    fn from(error: serde_json::Error) -> Self {
        OutputError::Json(error)
    }
}

impl From<csv::Error> for OutputError {
    fn from(error: csv::Error) -> Self {
        OutputError::Csv(error)
    }
}

/// A run as a JSON value, with the ratios of each phase under `derived`.
///
/// # Errors
/// [`OutputError::Json`]; a record of counters never causes it.
pub fn to_value(run: &Run) -> Result<Value, OutputError> {
    let mut value = serde_json::to_value(run)?;
    if let Some(phases) = value.get_mut("phases").and_then(Value::as_array_mut) {
        for (phase, object) in run.phases.iter().zip(phases) {
            object["derived"] = serde_json::to_value(phase.derived())?;
        }
    }
    let device = &run.device;
    value["device"]["derived"] = serde_json::json!({
        "dies": device.dies(),
        "utilisation": device.utilisation(),
        "over_provisioning": device.over_provisioning(),
    });
    value["memory"]["derived"] = serde_json::json!({
        "total_bytes": run.memory.total_bytes(),
        "cache_share": run.memory.cache_share(),
    });
    Ok(value)
}

/// Runs as a JSON list, readable: lists of numbers stay on one line.
///
/// # Errors
/// As [`to_value`].
pub fn to_json<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Result<String, OutputError> {
    let values: Vec<Value> = runs.into_iter().map(to_value).collect::<Result<_, _>>()?;
    Ok(pretty(&Value::Array(values)))
}

/// Reads back what [`to_json`] wrote. A single run without the list is fine too, and so is a document that
/// holds its runs as `runs`, such as that of a size curve.
///
/// # Errors
/// [`OutputError::Json`] for anything else, [`OutputError::Schema`] for a record of another version,
/// [`OutputError::TooGreat`] for numbers that no run can have counted.
pub fn from_json(text: &str) -> Result<Vec<Run>, OutputError> {
    let value: Value = serde_json::from_str(text)?;
    let values = match value {
        Value::Array(values) => values,
        Value::Object(mut whole) if !whole.contains_key("schema") => match whole.remove("runs") {
            Some(Value::Array(runs)) => runs.into_iter().filter(|run| !run.is_null()).collect(),
            _ => vec![Value::Object(whole)],
        },
        single => vec![single],
    };
    for value in &values {
        let found = value.get("schema").and_then(Value::as_u64).unwrap_or(0);
        if found != u64::from(SCHEMA) {
            return Err(OutputError::Schema { found: u32::try_from(found).unwrap_or(u32::MAX) });
        }
    }
    for (index, value) in values.iter().enumerate() {
        if let Some((place, found)) = too_great(value) {
            return Err(OutputError::TooGreat { place: format!("[{index}]{place}"), found });
        }
    }
    Ok(values.into_iter().map(serde_json::from_value).collect::<Result<_, _>>()?)
}

/// The first integer beyond [`MOST_COUNTED`], and where it stands. A seed may be any number.
fn too_great(value: &Value) -> Option<(String, u64)> {
    match value {
        Value::Number(number) => {
            number.as_u64().filter(|&found| found > MOST_COUNTED).map(|found| (String::new(), found))
        }
        Value::Array(items) => (0..).zip(items).find_map(|(index, item): (usize, _)| {
            too_great(item).map(|(place, found)| (format!("[{index}]{place}"), found))
        }),
        Value::Object(fields) => {
            fields.iter().filter(|(name, _)| *name != "seed").find_map(|(name, field)| {
                too_great(field).map(|(place, found)| (format!(".{name}{place}"), found))
            })
        }
        _ => None,
    }
}

/// Indented JSON in which a list of numbers (or of lists of numbers) takes one line.
pub fn pretty(value: &Value) -> String {
    let mut out = String::new();
    write_pretty(value, 0, &mut out);
    out.push('\n');
    out
}

fn write_pretty(value: &Value, depth: usize, out: &mut String) {
    let indent = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    match value {
        Value::Array(items) if !items.is_empty() && !is_flat(value) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                indent(out, depth + 1);
                write_pretty(item, depth + 1, out);
            }
            indent(out, depth);
            out.push(']');
        }
        Value::Object(fields) if !fields.is_empty() => {
            out.push('{');
            for (index, (name, field)) in fields.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                indent(out, depth + 1);
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push_str(": ");
                write_pretty(field, depth + 1, out);
            }
            indent(out, depth);
            out.push('}');
        }
        flat => out.push_str(&flat.to_string()),
    }
}

fn is_flat(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(is_flat),
        Value::Number(_) => true,
        _ => false,
    }
}

/// Names of the CSV columns, in order. Units are in the names; an empty cell is a ratio without a
/// denominator.
pub fn csv_header() -> Vec<String> {
    csv_columns().into_iter().map(|(name, _)| name).collect()
}

/// Name of each CSV column, and the type of its cells. Neither depends on any record.
pub fn csv_columns() -> Vec<(String, CellType)> {
    row(&Run::default(), &Phase::default()).0.into_iter().map(|(name, of, _)| (name, of)).collect()
}

/// One row for each phase of each run, with a header.
///
/// # Errors
/// [`OutputError::Csv`].
pub fn to_csv(runs: &[Run]) -> Result<String, OutputError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(csv_header())?;
    for run in runs {
        for phase in &run.phases {
            writer.write_record(cells(run, phase).into_iter().map(|(_, cell)| cell))?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| OutputError::Csv(error.into_error().into()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Names of what registered schemes count themselves, each once, in the order of the schemes: a column for
/// each, which is empty for the others.
fn own_stats() -> Vec<&'static str> {
    let mut names = Vec::new();
    for stat in ftl::schemes::ALL.iter().flat_map(|info| info.stats) {
        if !names.contains(&stat.name) {
            names.push(stat.name);
        }
    }
    names
}

/// The row of a phase in [`to_csv`]: name and cell of each column. The names are the same whatever the record
/// holds.
pub fn cells(run: &Run, phase: &Phase) -> Vec<(String, String)> {
    row(run, phase).0.into_iter().map(|(name, _, cell)| (name, cell)).collect()
}

fn row(run: &Run, phase: &Phase) -> Row {
    let mut row = Row(Vec::with_capacity(128));
    facts(&mut row, run, phase);
    for kind in Kind::ALL {
        requests(&mut row, phase, kind);
    }
    mapping_and_reads(&mut row, phase);
    flash(&mut row, phase);
    device_state(&mut row, run, phase);
    row
}

/// What the cells of a column hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellType {
    /// Whole numbers.
    Integer,
    /// Numbers.
    Number,
    /// `true` or `false`.
    Truth,
    /// Text.
    Text,
}

/// What a cell can hold.
trait Cell: ToString {
    const TYPE: CellType;
}

impl Cell for u32 {
    const TYPE: CellType = CellType::Integer;
}

impl Cell for u64 {
    const TYPE: CellType = CellType::Integer;
}

impl Cell for f64 {
    const TYPE: CellType = CellType::Number;
}

impl Cell for bool {
    const TYPE: CellType = CellType::Truth;
}

impl Cell for &str {
    const TYPE: CellType = CellType::Text;
}

struct Row(Vec<(String, CellType, String)>);

impl Row {
    fn put<C: Cell>(&mut self, name: impl Into<String>, cell: C) {
        self.maybe(name, Some(cell));
    }

    fn maybe<C: Cell>(&mut self, name: impl Into<String>, cell: Option<C>) {
        self.0.push((name.into(), C::TYPE, cell.map(|cell| cell.to_string()).unwrap_or_default()));
    }
}

fn facts(row: &mut Row, run: &Run, phase: &Phase) {
    row.put("scheme", run.scheme.name.as_str());
    let parameters: Vec<String> =
        run.scheme.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    row.put("parameters", parameters.join(" ").as_str());
    row.put("phase", phase.name.as_str());
    row.put("workload", run.workload.name.as_str());
    row.put("seed", run.workload.seed);
    row.put("device", run.device.name.as_str());
    row.put("raw_bytes", run.device.raw_bytes);
    row.put("exported_bytes", run.device.exported_bytes);
    row.put("over_provisioning_bytes", run.device.over_provisioning_bytes);
    row.maybe("utilisation", run.device.utilisation());
    row.put("gc_reserve_bytes", run.device.gc_reserve.bytes);
    row.put("timing", format!("{} {}", run.device.timing.model, run.device.timing.policy).trim());
    row.put("cache_bytes", run.memory.cache_bytes);
    row.put("memory_bytes", run.memory.total_bytes());
    row.put("full_table_bytes", run.memory.full_table_bytes);
    row.put("jobs", phase.jobs);
    row.put("elapsed_ns", phase.elapsed_ns);
    row.maybe("iops", phase.iops_total());
    row.maybe("bytes_per_s", phase.bandwidth_total());
}

fn requests(row: &mut Row, phase: &Phase, kind: Kind) {
    let name = kind.name();
    let counts = phase.requests[kind];
    row.put(format!("{name}_issued"), counts.issued);
    row.put(format!("{name}_completed"), counts.completed);
    row.put(format!("{name}_failed"), counts.failed);
    row.put(format!("{name}_bytes"), counts.bytes);
    row.maybe(format!("{name}_iops"), phase.iops(kind));
    let latency = phase.latency[kind].as_ref();
    row.maybe(format!("{name}_mean_ns"), latency.map(|found| found.mean_ns));
    row.maybe(format!("{name}_stddev_ns"), latency.map(|found| found.stddev_ns));
    row.maybe(format!("{name}_min_ns"), latency.map(|found| found.min_ns));
    row.maybe(format!("{name}_p50_ns"), latency.map(|found| found.p50_ns));
    row.maybe(format!("{name}_p90_ns"), latency.map(|found| found.p90_ns));
    row.maybe(format!("{name}_p95_ns"), latency.map(|found| found.p95_ns));
    row.maybe(format!("{name}_p99_ns"), latency.map(|found| found.p99_ns));
    row.maybe(format!("{name}_p999_ns"), latency.map(|found| found.p999_ns));
    row.maybe(format!("{name}_p9999_ns"), latency.map(|found| found.p9999_ns));
    row.maybe(format!("{name}_max_ns"), latency.map(|found| found.max_ns));
}

fn mapping_and_reads(row: &mut Row, phase: &Phase) {
    row.put("pages_read", phase.pages_read);
    row.put("pages_written", phase.pages_written);
    row.put("pages_trimmed", phase.pages_trimmed);
    row.maybe("flash_reads_per_host_read", phase.flash_reads_per_host_read());
    let shares = phase.read_shares();
    row.maybe("reads_unmapped_share", shares.map(|of| of.unmapped));
    row.maybe("reads_single_share", shares.map(|of| of.single));
    row.maybe("reads_double_share", shares.map(|of| of.double));
    row.maybe("reads_triple_share", shares.map(|of| of.triple));
    row.maybe("reads_more_share", shares.map(|of| of.more));
    let mapping = &phase.mapping;
    row.put("lookups", mapping.lookups);
    row.put("hits", mapping.hits);
    row.put("misses", mapping.misses);
    row.maybe("hit_ratio", mapping.hit_ratio());
    row.put("evictions", mapping.evictions);
    row.put("dirty_evictions", mapping.dirty_evictions);
    row.put("write_backs", mapping.write_backs);
    row.put("prefetched", mapping.prefetched);
    row.put("gc_hits", mapping.gc_hits);
    row.put("gc_misses", mapping.gc_misses);
}

fn flash(row: &mut Row, phase: &Phase) {
    let total = phase.flash_total();
    row.put("flash_reads", total.reads);
    row.put("flash_programs", total.programs);
    row.put("erases", total.erases);
    for cause in CAUSES {
        let counts = phase.flash.get(cause).copied().unwrap_or_default();
        row.put(format!("{cause}_reads"), counts.reads);
        row.put(format!("{cause}_programs"), counts.programs);
        row.put(format!("{cause}_erases"), counts.erases);
    }
    let written = phase.write_amplification();
    row.maybe("write_amplification", written.as_ref().map(|found| found.total));
    for cause in CAUSES {
        row.maybe(format!("write_amplification_{cause}"), written.as_ref().map(|found| found.of(cause)));
    }
    row.put("collections_data", phase.gc.collections_data);
    row.put("collections_translation", phase.gc.collections_translation);
    row.put("groups_collected", phase.gc.groups);
    row.put("rewritten", phase.gc.rewritten);
    row.put("collections_foreground", phase.gc.foreground);
    row.put("collections_background", phase.gc.background);
    row.put("valid_moved_data", phase.gc.valid_moved_data);
    row.put("valid_moved_groups", phase.gc.valid_moved_groups);
    row.put("valid_moved_translation", phase.gc.valid_moved_translation);
    for stat in own_stats() {
        row.maybe(stat, phase.stats.get(stat).copied());
    }
}

fn device_state(row: &mut Row, run: &Run, phase: &Phase) {
    row.put("wear_min", phase.wear.min);
    row.put("wear_max", phase.wear.max);
    row.put("wear_mean", phase.wear.mean);
    row.put("wear_stddev", phase.wear.stddev);
    row.put("energy_read_j", phase.energy.read_j);
    row.put("energy_program_j", phase.energy.program_j);
    row.put("energy_erase_j", phase.energy.erase_j);
    row.put("energy_transfer_j", phase.energy.transfer_j);
    row.put("energy_idle_j", phase.energy.idle_j);
    let dies = phase.die_use.as_ref();
    row.maybe("die_busy_mean", dies.map(|of| of.busy_mean));
    row.maybe("die_busy_min", dies.map(|of| of.busy_min));
    row.maybe("die_busy_max", dies.map(|of| of.busy_max));
    row.maybe("mean_queue_depth", phase.mean_queue_depth);
    row.put("uncorrectable", phase.faults.uncorrectable);
    row.put("translation_rebuilt", phase.faults.rebuilt);
    row.put("program_failed", phase.faults.program_failed);
    row.put("erase_failed", phase.faults.erase_failed);
    row.put("requests_failed", phase.faults.requests_failed);
    row.put("invariants_held", run.broken().next().is_none());
    row.put("digest", run.digest.as_str());
}
