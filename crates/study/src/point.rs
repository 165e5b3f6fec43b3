//! One run of a study, or of a paper's figure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::json;
use sim::setup::{SchemeSpec, Setup};
use sim::{Experiment, SetupError};
use toml::Value;
use twox_hash::XxHash64;

/// Options by name, as the study file gives them.
pub(crate) type Options = BTreeMap<String, Value>;

/// Names and values that tell points apart.
pub(crate) type Settings = Vec<(String, String)>;

/// What the points of all seeds share: a study may have thousands of seeds.
pub(crate) struct Shared {
    settings: Arc<Settings>,
    options: Arc<serde_json::Value>,
    setup: Arc<Setup>,
}

impl Shared {
    pub(crate) fn new(settings: Settings, options: Options) -> Result<Shared, SetupError> {
        let json = json!(options);
        let setup = Setup::from_entries::<_, toml::de::Error>(options)?;
        Ok(Shared { settings: Arc::new(settings), options: Arc::new(json), setup: Arc::new(setup) })
    }
}

/// One run: what it does, and how the study calls it.
#[derive(Clone, Debug)]
pub struct Point {
    /// From 1, in the order of the file.
    pub number: usize,
    /// 16 hexadecimal digits that depend on scheme, options and seed alone. A point keeps it when others are
    /// added to the file.
    pub id: String,
    /// The scheme with its parameters.
    pub scheme: SchemeSpec,
    /// Seed of every random choice.
    pub seed: u64,
    /// What tells it from other points beside scheme and seed: name and value.
    pub settings: Arc<Settings>,
    /// All its options as JSON, for the result.
    pub(crate) options: Arc<serde_json::Value>,
    work: Work,
}

/// What a point runs.
#[derive(Clone)]
enum Work {
    /// Any seed.
    Setup(Arc<Setup>),
    Ready(Box<Experiment>),
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Work::Setup(setup) => setup.fmt(f),
            Work::Ready(experiment) => f.write_str(&experiment.workload),
        }
    }
}

impl Point {
    pub(crate) fn new(number: usize, scheme: SchemeSpec, seed: u64, shared: &Shared) -> Point {
        let Shared { settings, options, setup } = shared;
        let work = Work::Setup(Arc::clone(setup));
        Point::with(number, scheme, seed, Arc::clone(settings), Arc::clone(options), work)
    }

    /// A point whose experiment is at hand. `options` holds all that its result depends on, beside scheme and
    /// seed.
    pub fn ready(
        number: usize,
        scheme: SchemeSpec,
        seed: u64,
        options: serde_json::Value,
        experiment: Experiment,
    ) -> Point {
        Point::with(
            number,
            scheme,
            seed,
            Arc::default(),
            Arc::new(options),
            Work::Ready(Box::new(experiment)),
        )
    }

    fn with(
        number: usize,
        scheme: SchemeSpec,
        seed: u64,
        settings: Arc<Settings>,
        options: Arc<serde_json::Value>,
        work: Work,
    ) -> Point {
        let whole = json!({ "scheme": scheme.to_string(), "seed": seed, "options": &*options }).to_string();
        let id = format!("{:016x}", XxHash64::oneshot(0, whole.as_bytes()));
        Point { number, id, scheme, seed, settings, options, work }
    }

    /// The experiment, with `command` as what repeats it unless it names a command of its own. Reads the
    /// trace, if there is one.
    ///
    /// # Errors
    /// A file that cannot be read, a device that is impossible, options that do not go together.
    pub fn experiment(&self, command: &str) -> Result<Experiment, SetupError> {
        match &self.work {
            Work::Ready(experiment) => Ok((**experiment).clone()),
            Work::Setup(setup) => {
                let command = format!("{command} --point {}", self.number);
                let setup = Setup { seed: Some(self.seed), ..(**setup).clone() };
                Ok(Experiment { command, ..setup.resolve()?.experiment(&self.scheme) })
            }
        }
    }

    /// Equal for points that may begin alike: all but the workload and how it is run are equal.
    pub(crate) fn kin(&self) -> String {
        let alike = match &self.work {
            Work::Ready(experiment) => experiment.start().unwrap_or_else(|| self.id.clone()),
            Work::Setup(setup) => format!("{:?}", setup.beside_workload()),
        };
        format!("{} {} {alike}", self.scheme, self.seed)
    }

    /// All its options but scheme and seed, as JSON: what [`Point::id`] is made of beside these two.
    pub fn options(&self) -> &serde_json::Value {
        &self.options
    }

    /// What it has in common with the points of other seeds, in words: scheme and settings.
    pub fn name(&self) -> String {
        let settings = self.settings.iter().map(|(name, value)| format!(" {name}={value}"));
        format!("{}{}", self.scheme, settings.collect::<String>())
    }

    /// The point in words: [`Point::name`] and the seed.
    pub fn label(&self) -> String {
        format!("{} seed={}", self.name(), self.seed)
    }
}
