//! What to run, as data: a device, a workload, a clock. The command line, figure files and other programs
//! fill the same [`Setup`]; [`Setup::resolve`] turns it into [`Experiment`]s.
//!
//! | file | holds |
//! | --- | --- |
//! | `values.rs` | how values are written: schemes, times, rows, faults |
//! | `resolve.rs` | from a set-up to a device, phases and a warm-up |
//! | `input.rs` | traces, generators and requests at hand as sources |
//! | `names.rs` | the names of all keys |

mod input;
mod names;
mod resolve;
mod values;

use std::ops::Range;
use std::path::PathBuf;

use ftl::VictimPolicy;
use nand::timing::Policy;
use nand::SimOptions;
use serde::de::value::MapDeserializer;
use serde::de::{self, IntoDeserializer};
use serde::Deserialize;
use workload::synth::Synth;
use workload::trace::{AddressMap, Columns, Format, Ratio};
use workload::InputError;

use crate::{BadValue, CacheSize, Experiment, TimingModel};

pub use input::Given;
use names::Names;
use values::field;
pub use values::{
    columns, factor, faults, format, micros, number, positive, positive_32, rows, time_ns, CacheAtStart,
    Choice, JobText, Mode, SchemeSpec, WarmUp,
};

/// One workload on one device, for any number of schemes. What is not given is chosen: a small device that
/// holds the workload, 3 % of the mapping in the cache, the queue model, seed 1.
///
/// As text it has the keys that are the long options of `ftl compare`, and values are written as there, or as
/// numbers:
///
/// ```
/// let setup: sim::Setup = serde_json::from_str(
///     r#"{ "schemes": ["page", "dftl"], "device": "tpftl-512m", "synth": "financial1", "requests": 1000,
///          "cache": "5%", "warm-up": "none" }"#,
/// )?;
/// let experiments = setup.resolve()?.experiments();
/// let runs = sim::compare(&experiments, 2, &());
/// let iops = |run: usize| runs[run].as_ref().ok()?.phases[0].iops_total();
/// assert!(iops(0) > Some(0.0) && iops(1) > Some(0.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Setup {
    /// Schemes to run, each with its parameters: one experiment for each.
    pub schemes: Vec<SchemeSpec>,
    /// A fio job file, or a trace that is not named `.fio`. Without one, and without `jobs`, `trace` and
    /// `synth`, a built-in one runs: a short one on a small device if no device is named.
    pub job_file: Option<PathBuf>,
    /// The text of a job file.
    pub jobs: Option<JobText>,
    /// A recorded block trace.
    pub trace: Option<PathBuf>,
    /// What results say about where the trace is from, in place of its path.
    #[serde(skip)]
    pub trace_source: Option<String>,
    /// The format of the trace, where its content does not tell.
    #[serde(deserialize_with = "field::format")]
    pub trace_format: Option<Format>,
    /// The columns of a trace that has none of the formats.
    #[serde(deserialize_with = "field::columns")]
    pub columns: Option<Columns>,
    /// The name of a generator of [`workload::synth`].
    #[serde(alias = "workload")]
    pub synth: Option<String>,
    /// Requests of the generator; a million unless given.
    #[serde(deserialize_with = "field::count")]
    pub requests: Option<u64>,
    /// What runs first, with the clock off; the warm-up sections of the job file, else [`WarmUp::Steady`].
    #[serde(deserialize_with = "field::warm_up")]
    pub warm_up: Option<WarmUp>,
    /// What the mapping cache holds after that; what the warm-up left, unless given.
    #[serde(deserialize_with = "field::cache_state")]
    pub cache_state: Option<CacheAtStart>,
    /// Requests of the trace or generator that run before the measured ones.
    #[serde(deserialize_with = "field::count")]
    pub warm_up_requests: Option<u64>,
    /// Whether the warm-up ends with [`Load::Rest`](crate::Load::Rest).
    pub rest: bool,
    /// Seed of every random choice; 1 unless given.
    #[serde(deserialize_with = "field::number")]
    pub seed: Option<u64>,
    /// How a trace or generator is replayed; as recorded unless it is made by threads that wait.
    #[serde(deserialize_with = "field::mode")]
    pub mode: Option<Mode>,
    /// Requests in flight of a closed replay; most requests given to the device at once of an open one.
    #[serde(deserialize_with = "field::count_32")]
    pub depth: Option<u32>,
    /// Recorded times are multiplied by this.
    #[serde(deserialize_with = "field::factor")]
    pub time_scale: Option<Ratio>,
    /// Pauses of a trace are cut to this length, ns; as text a time such as `1s`.
    #[serde(deserialize_with = "field::time")]
    pub max_gap: Option<u64>,
    /// What to do with addresses that are not the device's.
    #[serde(deserialize_with = "field::address")]
    pub address: Option<AddressMap>,
    /// The one device to keep of a trace of several, by its name in the trace.
    pub trace_device: Option<String>,
    /// Recorded time from which on requests are kept, ns.
    #[serde(deserialize_with = "field::time")]
    pub from: Option<u64>,
    /// Recorded time before which requests are kept, ns.
    #[serde(deserialize_with = "field::time")]
    pub until: Option<u64>,
    /// Rows of the trace to keep, from 0; as text `A..B`.
    #[serde(deserialize_with = "field::rows")]
    pub rows: Option<Range<u64>>,
    /// Whether a row that is not understood is an error. Otherwise it is counted and left out.
    pub strict: bool,
    /// A preset or a device file.
    pub device: Option<String>,
    /// Capacity that the host sees, bytes; the device's own unless given.
    #[serde(deserialize_with = "field::size")]
    pub export: Option<u64>,
    /// Divides the blocks of each plane and the exported capacity.
    #[serde(deserialize_with = "field::count_32")]
    pub shrink: Option<u32>,
    /// Divides the pages of each block and the exported capacity.
    #[serde(deserialize_with = "field::count_32")]
    pub shorten: Option<u32>,
    /// Memory for mapping; the device's if it names one, else 3 % of the full table.
    #[serde(deserialize_with = "field::cache")]
    pub cache: Option<CacheSize>,
    /// Free superblocks at which a write waits for collection.
    #[serde(deserialize_with = "field::count_32")]
    pub gc_foreground: Option<u32>,
    /// Free superblocks at which collection starts.
    #[serde(deserialize_with = "field::count_32")]
    pub gc_background: Option<u32>,
    /// Whether collection begins only when a write waits for it, and idle time is left unused.
    pub foreground_only: bool,
    /// How victims of collection are chosen.
    #[serde(deserialize_with = "field::victims")]
    pub victims: Option<VictimPolicy>,
    /// Static wear levelling: what lags so many erases behind the mean is moved; never unless given.
    #[serde(deserialize_with = "field::count_32")]
    pub wear_gap: Option<u32>,
    /// Time on the device in which everything is rewritten once, ns; never unless given.
    #[serde(deserialize_with = "field::time")]
    pub rewrite: Option<u64>,
    /// How often flash operations fail.
    #[serde(deserialize_with = "field::faults")]
    pub faults: Option<SimOptions>,
    /// The clock; its own order of queues is overruled by `policy`.
    #[serde(deserialize_with = "field::timing")]
    pub timing: Option<TimingModel>,
    /// Who may overtake whom in a die's queue; the device's unless given.
    #[serde(deserialize_with = "field::policy")]
    pub policy: Option<Policy>,
    /// Host software's time for each request, ns; as text in microseconds.
    #[serde(rename = "host-overhead-us", deserialize_with = "field::micros")]
    pub host_overhead_ns: Option<u64>,
    /// Host processors that share it.
    #[serde(deserialize_with = "field::count_32")]
    pub host_cpus: Option<u32>,
    /// Whether every read and every page is compared with what was written. Otherwise it is one page in 61.
    pub verify: bool,
    /// Erases that a block stands in the mean, in place of the device's.
    #[serde(deserialize_with = "field::count_32")]
    pub endurance: Option<u32>,
    /// Whether the workload is run again and again until the device is worn out.
    pub until_worn: bool,
    /// Whether the power is cut at the end, and everything recovered.
    pub power_cut: bool,
    /// Requests that the caller has at hand, in place of a trace; no text says this.
    #[serde(skip)]
    pub given: Option<Given>,
}

/// Why a set-up cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// A key that does not exist, or a value that cannot be read.
    #[error("{key}: {what}")]
    Value {
        /// The key as given.
        key: String,
        /// What is wrong with it and what would be right.
        what: String,
    },
    /// A value that does not go with the others.
    #[error("{key} {what}")]
    Unsuitable {
        /// The key of [`Setup`].
        key: String,
        /// What is wrong with it and what would be right: the sentence goes on after the key.
        what: String,
    },
    /// A cache that is no size and no share of the full table.
    #[error("{0}")]
    Cache(#[from] BadValue),
    /// A trace or job file that cannot be read or does not fit the device.
    #[error("{0}")]
    Input(#[from] InputError),
    /// A device that there is not or that is impossible.
    #[error("{0}")]
    Device(#[from] nand::DeviceError),
}

impl SetupError {
    fn value(key: &str, what: String) -> SetupError {
        SetupError::Value { key: key.to_owned(), what }
    }

    fn unsuitable(key: &str, what: impl Into<String>) -> SetupError {
        SetupError::Unsuitable { key: key.to_owned(), what: what.into() }
    }
}

impl Setup {
    /// Every key that [`Setup::from_entries`] knows.
    pub fn names() -> &'static [&'static str] {
        let mut names = Names::default();
        // It ends with an error whatever happens: nothing is read.
        let _ = Setup::deserialize(&mut names);
        names.found
    }

    /// A set-up from keys and values, such as the entries of a table.
    ///
    /// # Errors
    /// [`SetupError::Value`] with the first key that does not exist or has an impossible value, such as the
    /// name of a generator that does not exist.
    pub fn from_entries<'de, V, E>(
        entries: impl IntoIterator<Item = (String, V)>,
    ) -> Result<Setup, SetupError>
    where
        V: IntoDeserializer<'de, E> + Clone,
        E: de::Error,
    {
        let entries: Vec<(String, V)> = entries.into_iter().collect();
        // One by one first: an error of the whole does not tell its key.
        for (key, value) in &entries {
            let alone = MapDeserializer::<_, E>::new(std::iter::once((key.clone(), value.clone())));
            Setup::deserialize(alone).map_err(|error| SetupError::value(key, one_line(&error)))?;
        }
        let setup = Setup::deserialize(MapDeserializer::<_, E>::new(entries.into_iter()))
            .map_err(|error| SetupError::value("set-up", one_line(&error)))?;
        // A study with a generator that does not exist would find that out point by point.
        if let Some(name) = &setup.synth {
            Synth::find(name).map_err(|error| SetupError::value("synth", error.to_string()))?;
        }
        Ok(setup)
    }
}

impl Setup {
    /// What is left without the workload, the clock and what they are measured with: set-ups for which it is
    /// equal mostly warm up alike.
    pub fn beside_workload(&self) -> Setup {
        Setup {
            device: self.device.clone(),
            export: self.export,
            shrink: self.shrink,
            shorten: self.shorten,
            cache: self.cache,
            warm_up: self.warm_up.clone(),
            rest: self.rest,
            cache_state: self.cache_state,
            gc_foreground: self.gc_foreground,
            gc_background: self.gc_background,
            foreground_only: self.foreground_only,
            victims: self.victims,
            wear_gap: self.wear_gap,
            faults: self.faults.clone(),
            endurance: self.endurance,
            verify: self.verify,
            power_cut: self.power_cut,
            ..Setup::default()
        }
    }
}

fn one_line(error: &impl ToString) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A set-up with its files looked through: what every scheme's experiment has in common.
pub struct Resolved {
    base: Experiment,
    schemes: Vec<SchemeSpec>,
    /// What the user should know before it runs.
    pub notes: Vec<String>,
    /// Arrival of the last request of an open-loop replay, ns.
    pub arrivals_end_ns: Option<u64>,
}

impl Resolved {
    /// The experiment of one scheme.
    pub fn experiment(&self, scheme: &SchemeSpec) -> Experiment {
        Experiment { scheme: scheme.name.clone(), parameters: scheme.parameters.clone(), ..self.base.clone() }
    }

    /// An experiment for each scheme of the set-up.
    pub fn experiments(&self) -> Vec<Experiment> {
        self.schemes.iter().map(|scheme| self.experiment(scheme)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Load;

    fn of(text: &str) -> Result<Setup, SetupError> {
        let table: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(text).expect("a JSON object");
        Setup::from_entries(table)
    }

    #[test]
    fn values_are_written_as_on_the_command_line_or_as_numbers() {
        let setup = of(
            r#"{ "requests": "2_000", "cache": 8704, "rewrite": "1.5h", "host-overhead-us": 2.5, "timing": "reserved",
                 "schemes": ["tpftl:techniques=-"], "strict": true, "workload": "financial1" }"#,
        )
        .expect("a set-up");
        assert_eq!((setup.requests, setup.rewrite), (Some(2000), Some(5_400_000_000_000)));
        assert_eq!((setup.cache, setup.host_overhead_ns), (Some(CacheSize::Bytes(8704)), Some(2500)));
        assert_eq!((setup.timing, setup.strict), (Some(TimingModel::Reserved), true));
        assert_eq!(setup.synth.as_deref(), Some("financial1"));
        assert_eq!(setup.schemes[0].to_string(), "tpftl:techniques=-");
    }

    #[test]
    fn every_key_has_a_name() {
        let names = Setup::names();
        assert!(["schemes", "from", "host-overhead-us", "power-cut"].iter().all(|name| names.contains(name)));
        assert!(!names.contains(&"given"));
    }

    #[test]
    fn requests_at_hand_are_replayed_like_a_trace() {
        let request = |at, place| workload::Request {
            arrival_ns: at,
            kind: workload::Kind::Write,
            offset: place,
            bytes: 4096,
        };
        let requests = vec![request(0, 0), request(1000, 900 << 20), request(2000, 4096)];
        let source = std::sync::Arc::new(crate::Listed::new("list", requests));
        let given = Given { source, end: (900 << 20) + 4096, duration_ns: 2000 };
        let setup = of(
            r#"{ "schemes": ["page"], "device": "tpftl-512m", "warm-up": "none", "time-scale": 2, "warm-up-requests": 1 }"#,
        );
        let setup = Setup { given: Some(given), ..setup.expect("a set-up") };
        let error = setup.resolve().err().expect("it reaches beyond the device").to_string();
        assert!(error.contains("list reaches 900 MiB"), "{error}");
        for address in [AddressMap::Wrap, AddressMap::Scale] {
            let resolved = Setup { address: Some(address), ..setup.clone() }.resolve().expect("it fits");
            assert_eq!(resolved.arrivals_end_ns, Some(4000));
            let run = crate::run_of::<ftl::schemes::page::PageMap>(&resolved.experiments()[0], &());
            let run = run.expect("a run");
            assert_eq!((run.phases[0].pages_written, run.phases[0].elapsed_ns > 2000), (2, true));
        }
    }

    #[test]
    fn a_workload_warms_up_with_its_own_requests_as_writes() {
        let request = |kind, offset| workload::Request { arrival_ns: 0, kind, offset, bytes: 4096 };
        let (read, trim) = (workload::Kind::Read, workload::Kind::Trim);
        let requests = vec![request(read, 4096), request(trim, 0), request(read, 1 << 20)];
        let source = std::sync::Arc::new(crate::Listed::new("list", requests));
        let given = Given { source, end: (1 << 20) + 4096, duration_ns: 0 };
        let setup = of(r#"{ "schemes": ["page"], "device": "tpftl-512m", "warm-up": "workload" }"#);
        let setup = Setup { given: Some(given), ..setup.expect("a set-up") };
        let experiment = &setup.resolve().expect("it fits").experiments()[0];
        let [_fill, own] = &experiment.warm_up[..] else { panic!("a fill and the requests") };
        assert_eq!(own.name, "then the requests of list, each as a write");
        let Load::Closed { source, .. } = &own.load else { panic!("one after the other") };
        let kinds = source.requests(1 << 29, 1).expect("a list").map(|r| r.expect("a request").kind);
        assert_eq!(kinds.collect::<Vec<_>>(), [workload::Kind::Write, trim, workload::Kind::Write]);
        let jobs = of(r#"{ "schemes": ["page"], "warm-up": "workload" }"#).expect("a set-up");
        let error = jobs.resolve().err().expect("jobs have none").to_string();
        assert!(error.contains("warm-up workload") && error.contains("warmup-"), "{error}");
    }

    #[test]
    fn a_mistake_names_its_key() {
        for (text, sentence) in [
            (r#"{ "seed": 1, "cache": "much" }"#, "cache: `much` is no cache size"),
            (
                r#"{ "colour": "red" }"#,
                "colour: unknown field `colour`, expected one of `schemes`, `job-file`",
            ),
            (
                r#"{ "timing": "fast" }"#,
                "timing: `fast` is not possible; it is one of queued, reserved, none",
            ),
            (r#"{ "depth": 0 }"#, "depth: `0` is no whole number from 1"),
            (r#"{ "verify": "yes" }"#, "verify: invalid type"),
            (r#"{ "schemes": ["ideal"] }"#, "schemes: there is no scheme `ideal`"),
        ] {
            let error = of(text).expect_err(text).to_string();
            assert!(error.starts_with(sentence) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for (text, sentence) in [
            (
                r#"{ "depth": 3 }"#,
                "depth is for a trace or a generator; set iodepth and numjobs in the job file",
            ),
            (r#"{ "timing": "none", "policy": "fcfs" }"#, "policy orders the queues of timing queued"),
            (r#"{ "synth": "financial1", "rows": "0..9" }"#, "rows is for a trace; leave it out"),
            (
                r#"{ "synth": "financial1", "trace": "x" }"#,
                "synth is one workload and a trace another; give one of them",
            ),
            (r#"{ "shrink": 7 }"#, "shrink 7 does not divide the"),
        ] {
            let error = of(text).expect("keys and values").resolve().err().expect(text).to_string();
            assert!(error.starts_with(sentence), "{error}");
        }
    }
}
