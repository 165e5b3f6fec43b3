//! The form of a study file.
//!
//! | key | holds |
//! | --- | --- |
//! | `title` | what the study asks |
//! | `seeds` | a number N for seeds 1 to N, or a list; 1 unless given |
//! | `show` | quantities of the summary |
//! | `[options]` | options of `ftl compare` that all points share |
//! | `[cross]` | options with lists of values, and `schemes`: every combination is a point for each seed |
//! | `[[workload]]` | options under a `name`; each is combined with all of `[cross]` |
//! | `[[point]]` | a further point for each seed: options, and its `scheme` |

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use sim::setup::SchemeSpec;
use toml::{Table, Value};

use crate::error::StudyError;
use crate::point::{Options, Point, Settings, Shared};
use crate::quantity::Quantity;

/// What the summary shows unless the file says.
const SHOW: [&str; 8] = [
    "iops",
    "mean_read_us",
    "p99_read_us",
    "mean_write_us",
    "p99_write_us",
    "hit_ratio",
    "reads_per_read",
    "write_amplification",
];
/// Keys of the command line that are no options of a point.
const ELSEWHERE: [(&str, &str); 4] = [
    ("seed", "give `seeds` at the top of the file"),
    ("schemes", "give `schemes` in [cross]"),
    ("scheme", "give `schemes` in [cross], or `scheme` in a [[point]]"),
    ("name", "only a [[workload]] has one"),
];
/// Options that name a file.
const FILES: [&str; 4] = ["trace", "job-file", "device", "warm-up"];

/// A study file, read.
#[derive(Clone, Debug)]
pub struct Study {
    /// What it asks.
    pub title: String,
    /// Quantities of the summary.
    pub show: Vec<&'static Quantity>,
    /// Its runs: workloads outermost, then the options of `[cross]` in alphabetical order, schemes, seeds.
    pub points: Vec<Point>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StudyFile {
    #[serde(default)]
    title: String,
    seeds: Option<Seeds>,
    #[serde(default)]
    show: Vec<String>,
    #[serde(default)]
    options: Table,
    #[serde(default)]
    cross: Table,
    #[serde(default)]
    workload: Vec<Table>,
    #[serde(default)]
    point: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "seeds is a whole number from 1, or a list of seeds")]
enum Seeds {
    Many(u64),
    These(Vec<u64>),
}

/// A point for each seed, before the seeds.
struct Draft {
    scheme: SchemeSpec,
    settings: Settings,
    options: Options,
}

impl Study {
    /// Reads a study file. Names of files in it are relative to its folder.
    ///
    /// # Errors
    /// [`StudyError`] with the place and what would be right.
    pub fn open(path: &Path) -> Result<Study, StudyError> {
        let text = std::fs::read_to_string(path).map_err(StudyError::reading(path))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Reader { file: &path.display().to_string(), folder }.study(&text)
    }

    /// As [`Study::open`], from text; `file` is its name in messages, and names of files are as they stand.
    ///
    /// # Errors
    /// As there.
    pub fn parse(file: &str, text: &str) -> Result<Study, StudyError> {
        Reader { file, folder: Path::new("") }.study(text)
    }

    /// Names of the settings of any point, in the order in which they come up.
    pub fn settings(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for (name, _) in self.points.iter().flat_map(|point| point.settings.iter()) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    /// The point of that number, from 1.
    ///
    /// # Errors
    /// [`StudyError::NoPoint`].
    pub fn point(&self, number: usize) -> Result<&Point, StudyError> {
        let missing = StudyError::NoPoint { asked: number, points: self.points.len() };
        number.checked_sub(1).and_then(|index| self.points.get(index)).ok_or(missing)
    }
}

/// Most points of a study. Each holds up to 10 KB before it has run: its options, and its row of the table.
const MOST_POINTS: usize = 20_000;

struct Reader<'a> {
    file: &'a str,
    folder: &'a Path,
}

impl Reader<'_> {
    fn wrong(&self, what: impl ToString) -> StudyError {
        StudyError::form(self.file, what)
    }

    fn study(&self, text: &str) -> Result<Study, StudyError> {
        let read: StudyFile = toml::from_str(text).map_err(|error| {
            let line =
                error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            self.wrong(format!("line {line}: {}", error.message()))
        })?;
        let names = if read.show.is_empty() { SHOW.map(str::to_owned).to_vec() } else { read.show };
        let show = names.iter().map(|name| Quantity::find(name).map_err(|error| self.wrong(error)));
        let show = show.collect::<Result<_, _>>()?;
        let seeds = match read.seeds {
            None => vec![1],
            Some(Seeds::Many(count)) if count > MOST_POINTS as u64 => return Err(self.too_many()),
            Some(Seeds::Many(count @ 1..)) => (1..=count).collect(),
            Some(Seeds::These(seeds)) if !seeds.is_empty() => seeds,
            Some(_) => return Err(self.wrong("seeds is 0 or empty; give at least one")),
        };
        let shared = self.options("options", read.options)?;
        let mut drafts = self.crossed(&shared, read.cross, read.workload)?;
        for (index, table) in read.point.into_iter().enumerate() {
            drafts.push(self.listed(&format!("point {}", index + 1), &shared, table)?);
        }
        if drafts.is_empty() {
            return Err(self.wrong("the study has no point; give `schemes` in [cross], or a [[point]]"));
        }
        Ok(Study { title: read.title, show, points: self.points(drafts, &seeds)? })
    }

    fn too_many(&self) -> StudyError {
        self.wrong(format!(
            "the study has more than {MOST_POINTS} points; give fewer values or seeds, or several studies"
        ))
    }

    fn points(&self, drafts: Vec<Draft>, seeds: &[u64]) -> Result<Vec<Point>, StudyError> {
        if drafts.len().saturating_mul(seeds.len()) > MOST_POINTS {
            return Err(self.too_many());
        }
        let mut points: Vec<Point> = Vec::with_capacity(drafts.len() * seeds.len());
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for Draft { scheme, settings, options } in drafts {
            let number = points.len() + 1;
            let shared = Shared::new(settings, options)
                .map_err(|error| self.wrong(format!("point {number}: {error}")))?;
            for &seed in seeds {
                let number = points.len() + 1;
                let point = Point::new(number, scheme.clone(), seed, &shared);
                if let Some(first) = known.insert(point.id.clone(), number) {
                    return Err(self.wrong(format!(
                        "points {first} and {number} are the same ({}); leave one out",
                        point.label()
                    )));
                }
                points.push(point);
            }
        }
        Ok(points)
    }

    /// Every combination of workloads, options and schemes.
    fn crossed(
        &self,
        shared: &Options,
        mut cross: Table,
        workloads: Vec<Table>,
    ) -> Result<Vec<Draft>, StudyError> {
        let Some(schemes) = cross.remove("schemes") else {
            let idle =
                if !cross.is_empty() { Some("[cross]") } else { workloads.first().map(|_| "[[workload]]") };
            let missing =
                |what| self.wrong(format!("{what} has no schemes to run; give `schemes` in [cross]"));
            return idle.map_or(Ok(Vec::new()), |what| Err(missing(what)));
        };
        let schemes = self.values("schemes", schemes)?;
        let schemes = schemes.iter().map(|value| self.scheme("cross, schemes", value));
        let schemes = schemes.collect::<Result<Vec<_>, _>>()?;
        let mut axes = Vec::new();
        for (key, values) in self.options("cross", cross)? {
            axes.push((key.clone(), self.values(&key, values)?));
        }
        let mut found = Vec::new();
        for (settings, options) in self.workloads(shared, workloads)? {
            let mut combined = vec![(settings, options)];
            for (key, values) in &axes {
                if combined.len().saturating_mul(values.len()) > MOST_POINTS {
                    return Err(self.too_many());
                }
                let with = |(settings, options): &(Settings, Options), value: &Value| {
                    let (mut settings, mut options) = (settings.clone(), options.clone());
                    settings.push((key.clone(), plain(value)));
                    options.insert(key.clone(), value.clone());
                    (settings, options)
                };
                combined = combined
                    .iter()
                    .flat_map(|one| values.iter().map(move |value| with(one, value)))
                    .collect();
            }
            for (settings, options) in combined {
                for scheme in &schemes {
                    let (settings, options) = (settings.clone(), options.clone());
                    found.push(Draft { scheme: scheme.clone(), settings, options });
                }
            }
        }
        Ok(found)
    }

    /// The shared options alone, or with those of each workload.
    fn workloads(
        &self,
        shared: &Options,
        workloads: Vec<Table>,
    ) -> Result<Vec<(Settings, Options)>, StudyError> {
        if workloads.is_empty() {
            return Ok(vec![(Vec::new(), shared.clone())]);
        }
        let mut names = BTreeSet::new();
        let mut found = Vec::new();
        for mut table in workloads {
            let Some(Value::String(name)) = table.remove("name") else {
                return Err(self.wrong("a [[workload]] has no name; give `name = \"...\"`"));
            };
            if !names.insert(name.clone()) {
                return Err(
                    self.wrong(format!("two workloads are called {name}; give each a name of its own"))
                );
            }
            let mut options = shared.clone();
            options.extend(self.options(&format!("workload {name}"), table)?);
            found.push((vec![("workload".to_owned(), name)], options));
        }
        Ok(found)
    }

    fn listed(&self, place: &str, shared: &Options, mut table: Table) -> Result<Draft, StudyError> {
        let scheme = table
            .remove("scheme")
            .ok_or_else(|| self.wrong(format!("{place} has no scheme; give `scheme = \"...\"`")))?;
        let scheme = self.scheme(place, &scheme)?;
        let own = self.options(place, table)?;
        let settings = own.iter().map(|(key, value)| (key.clone(), plain(value))).collect();
        let mut options = shared.clone();
        options.extend(own);
        Ok(Draft { scheme, settings, options })
    }

    fn scheme(&self, place: &str, value: &Value) -> Result<SchemeSpec, StudyError> {
        let text = value.as_str().ok_or_else(|| self.wrong(format!("{place}: {value} is no scheme")))?;
        text.parse().map_err(|error| self.wrong(format!("{place}: {error}")))
    }

    /// A list that is not empty.
    fn values(&self, key: &str, value: Value) -> Result<Vec<Value>, StudyError> {
        match value {
            Value::Array(values) if !values.is_empty() => Ok(values),
            _ => Err(self.wrong(format!("cross, {key}: give a list of values, or one value in [options]"))),
        }
    }

    /// Options of a section, with files found beside the study.
    fn options(&self, place: &str, table: Table) -> Result<Options, StudyError> {
        let mut options = Options::new();
        for (key, value) in table {
            if let Some((_, right)) = ELSEWHERE.iter().find(|(name, _)| *name == key) {
                return Err(self.wrong(format!("{place}: {key} is no option of a point; {right}")));
            }
            let value = if FILES.contains(&&*key) { self.beside(value) } else { value };
            options.insert(key, value);
        }
        Ok(options)
    }

    /// A value that names a file in the study's folder becomes that file's path; any other stays as it is.
    fn beside(&self, value: Value) -> Value {
        match value {
            Value::String(name) => {
                let path = self.folder.join(&name);
                let found = path.is_file().then(|| path.display().to_string());
                Value::String(found.unwrap_or(name))
            }
            Value::Array(values) => {
                Value::Array(values.into_iter().map(|value| self.beside(value)).collect())
            }
            value => value,
        }
    }
}

/// A value as a cell of a table.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
