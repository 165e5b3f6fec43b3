//! The form of a figure file. Its mistakes are told with file, key and what would be right.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Deserialize;
use sim::setup::{JobText, Setup};
use sim::SetupError;
use study::Quantity;
use toml::{Table, Value};
use workload::synth::Synth;

use crate::error::PaperError;
use crate::live::{Calls, Live};

/// Options of `ftl compare` that the caller of a figure chooses, or that stand elsewhere in the file.
const NOT_OPTIONS: [&str; 12] = [
    "json",
    "csv",
    "report",
    "output-format",
    "quiet",
    "threads",
    "metrics",
    "model",
    "seed",
    "schemes",
    "jobs",
    "job-file",
];
/// Options of figures that concern generators alone.
const OF_GENERATORS: [&str; 2] = ["requests", "warm-up-requests"];
/// The variable that names the folder of real traces.
pub const TRACES: &str = "FTL_TRACES";
/// Jobs that stand for a program's requests where an experiment needs some and nobody runs them.
const NOTHING_RUN: &str = "[program]\nrw=read\n";

/// Whether a run is for a quick look or at the paper's scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// A smaller device or fewer requests, as each figure's [`Figure::abridged`] says.
    Quick,
    /// As the paper had it.
    Full,
}

impl Scale {
    /// The section of a figure file that its variables come from.
    pub fn name(self) -> &'static str {
        match self {
            Scale::Quick => "quick",
            Scale::Full => "full",
        }
    }
}

/// What `paper.toml` says of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperFile {
    /// Its title.
    pub title: String,
    /// Authors, venue and year.
    pub source: String,
    /// What a reader of any of its figures must know.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A figure as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FigureFile {
    title: String,
    source: String,
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default)]
    schemes: Vec<String>,
    #[serde(default)]
    show: Vec<String>,
    #[serde(default)]
    options: Table,
    #[serde(default)]
    quick: Table,
    #[serde(default)]
    full: Table,
    host: Option<HostSection>,
    #[serde(default)]
    live: bool,
    #[serde(default)]
    case: Vec<CaseSection>,
    #[serde(default)]
    claim: Vec<ClaimSection>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostSection {
    overhead_us: f64,
    cpus: u32,
    why: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseSection {
    name: String,
    schemes: Option<Vec<String>>,
    #[serde(default)]
    options: Table,
    jobs: Option<String>,
    rocksdb: Option<Calls>,
    f2fs: Option<Calls>,
    #[serde(default)]
    sweep: BTreeMap<String, Vec<Value>>,
    stand_in: Option<String>,
    real: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimSection {
    what: String,
    kind: Kind,
    quantity: Option<String>,
    scheme: Option<String>,
    case: Option<String>,
    phase: Option<String>,
    of: Option<Value>,
    over: Option<Value>,
    bench: Option<Value>,
    paper: Value,
    #[serde(default)]
    bound: Bound,
    pick: Option<Pick>,
    #[serde(default)]
    differs: String,
    exercised: Option<ExercisedSection>,
}

/// A quantity of the schemes that a claim looks at, or of another scheme in the same runs.
#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum ExercisedSection {
    Quantity(String),
    Of { scheme: String, quantity: String },
}

impl ClaimSection {
    /// Whether it is about one of these cases.
    fn names_one_of(&self, cases: &[&str]) -> bool {
        let selectors = self.of.iter().chain(&self.over).flat_map(one_or_many);
        let chosen = selectors.filter_map(|selector| selector.get("case").and_then(Value::as_str));
        chosen.chain(self.case.as_deref()).any(|case| cases.contains(&case))
    }
}

/// How a number is derived from quantities.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The quantity itself.
    Value,
    /// of / over.
    Ratio,
    /// 1 - of / over.
    Reduction,
    /// of / over - 1.
    Increase,
    /// of - over.
    Difference,
}

/// What the paper's number means.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// About this.
    #[default]
    About,
    /// At most this.
    AtMost,
    /// At least this.
    AtLeast,
    /// No further from no effect than this, in either direction.
    Within,
    /// From the first to the second number.
    Range,
    /// More than this; by how much, the paper does not say.
    Above,
    /// Less than this; by how much, the paper does not say.
    Below,
}

/// One number out of several.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// The arithmetic mean.
    Mean,
    /// The greatest.
    Max,
    /// The least.
    Min,
    /// The quantities are added up first.
    Sums,
}

/// Host software's time in a second measurement of each phase.
#[derive(Clone, Debug)]
pub struct Host {
    /// What it adds to each request.
    pub time: sim::HostTime,
    /// Where the number comes from.
    pub why: String,
}

/// A figure, for one scale: variables replaced, sweeps laid out, names checked.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its number in the paper: the name of its file.
    pub id: String,
    /// The file, for messages.
    pub file: String,
    /// What it shows.
    pub title: String,
    /// Where it stands in the paper.
    pub source: String,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// Variables of a quick look that `--full` changes: name, value, and value at the paper's scale.
    pub abridged: Vec<[String; 3]>,
    /// Quantities of its tables and plots.
    pub show: Vec<&'static Quantity>,
    /// Host software's time, if each phase is also measured with it.
    pub host: Option<Host>,
    /// Whether it is measured on live devices.
    pub live: bool,
    /// What is to be run.
    pub cases: Vec<Case>,
    /// What the paper states.
    pub claims: Vec<Claim>,
}

/// What runs: a set-up with several schemes.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name, unique in the figure.
    pub name: String,
    /// The schemes. They are not in the set-up, because a build may lack some.
    pub rows: Vec<Row>,
    /// Device, workload and everything else but schemes and seed.
    pub setup: Setup,
    /// What runs on a live device, if the figure is a live one.
    pub live: Option<Live>,
    /// The workload of the paper's that a generator stands for.
    pub stand_in: Option<String>,
    /// Whether no real rows of that workload were at hand to hold the generator against.
    pub unproven: bool,
    /// Whether it is one of a sweep.
    pub swept: bool,
    /// Whether it replays a real trace. `*` in a claim does not stand for it.
    pub real: bool,
}

/// A scheme with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// As the file names it: what claims refer to.
    pub name: String,
    /// With variables replaced.
    pub spec: String,
}

/// A statement of the paper.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The statement, with placeholders for schemes and case.
    pub what: String,
    /// How its number is derived.
    pub kind: Kind,
    /// What its number means.
    pub bound: Bound,
    /// How one number is made of several places; none: each place has a number of its own.
    pub pick: Option<Pick>,
    /// What is looked at.
    pub of: Vec<Place>,
    /// What it is compared with.
    pub over: Vec<Place>,
    /// Pointers into the JSON of `ftl bench`, in place of `of`.
    pub bench: Vec<String>,
    /// The paper's numbers: one for all places, one for each, or the two ends of a range.
    pub paper: Vec<f64>,
    /// Why ours differs.
    pub differs: String,
    /// What counts the mechanism that the claim is about: where that is 0, there is nothing to compare.
    pub exercised: Option<Exercised>,
}

/// What counts a mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exercised {
    /// The quantity's name.
    pub quantity: &'static str,
    /// The scheme that has the mechanism; none: the one that `of` names.
    pub scheme: Option<String>,
}

/// Where a number comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The scheme as the file names it.
    pub scheme: String,
    /// The case's name.
    pub case: String,
    /// The phase's name; empty: the first.
    pub phase: String,
    /// The quantity's name.
    pub quantity: &'static str,
}

/// Reads `paper.toml`.
pub(crate) fn paper(file: &str, text: &str) -> Result<PaperFile, PaperError> {
    toml::from_str(text).map_err(|error| in_words(file, text, &error))
}

/// Reads a figure file.
pub(crate) fn figure(file: &str, id: &str, text: &str, scale: Scale) -> Result<Figure, PaperError> {
    let read: FigureFile = toml::from_str(text).map_err(|error| in_words(file, text, &error))?;
    Reader { file, id, used: RefCell::default() }.figure(read, scale)
}

/// toml's finding as one sentence.
fn in_words(file: &str, text: &str, error: &toml::de::Error) -> PaperError {
    let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let what = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
    PaperError::Form { file: file.to_owned(), line, what }
}

type Variables = BTreeMap<String, String>;

struct Reader<'a> {
    file: &'a str,
    /// The figure's.
    id: &'a str,
    /// Variables that were replaced somewhere.
    used: RefCell<BTreeSet<String>>,
}

impl Reader<'_> {
    fn wrong(&self, key: &str, what: impl std::fmt::Display) -> PaperError {
        PaperError::Value { file: self.file.to_owned(), key: key.to_owned(), what: what.to_string() }
    }

    fn figure(&self, read: FigureFile, scale: Scale) -> Result<Figure, PaperError> {
        for (name, others, section) in [("full", &read.quick, &read.full), ("quick", &read.full, &read.quick)]
        {
            if let Some(missing) = others.keys().find(|key| !section.contains_key(*key)) {
                return Err(
                    self.wrong(name, format!("`{missing}` is missing; give it in [quick] and in [full]"))
                );
            }
        }
        let (quick, full) =
            (self.variables(Scale::Quick, &read.quick)?, self.variables(Scale::Full, &read.full)?);
        let mut abridged = Vec::new();
        if scale == Scale::Quick {
            let both = quick.iter().map(|(name, value)| [name, value, &full[name]].map(String::clone));
            abridged.extend(both.filter(|[_, here, there]| here != there));
        }
        let variables = if scale == Scale::Quick { quick } else { full };
        if read.live && read.host.is_some() {
            return Err(self.wrong("host", "a live figure has a host of its own; leave one of the two out"));
        }
        let (absent, there): (Vec<_>, Vec<_>) = read
            .case
            .iter()
            .partition(|case| case.real.as_ref().is_some_and(|file| real_trace(file).is_none()));
        let mut cases = Vec::new();
        for case in there {
            self.cases(case, &read, &variables, &mut cases)?;
        }
        // A case that is left out is checked like the others, and what it uses is used.
        for case in absent.iter().filter(|case| case.sweep.is_empty()) {
            let key = format!("case `{}`", case.name);
            self.setup(&key, options_of(case, &read), &variables)?;
        }
        if let Some(idle) = variables.keys().find(|name| !self.used.borrow().contains(*name)) {
            return Err(self.wrong(
                scale.name(),
                format!("`{idle}` is used nowhere; write {{{idle}}} where it belongs"),
            ));
        }
        let show = read.show.iter().map(|name| Quantity::find(name).map_err(|what| self.wrong("show", what)));
        let host = read.host.as_ref().map(|host| self.host(host)).transpose()?;
        let mut figure = Figure {
            id: self.id.to_owned(),
            file: self.file.to_owned(),
            title: read.title,
            source: read.source,
            notes: read.notes,
            abridged,
            show: show.collect::<Result<_, _>>()?,
            host,
            live: read.live,
            cases,
            claims: Vec::new(),
        };
        let absent: Vec<&str> = absent.iter().map(|case| case.name.as_str()).collect();
        if !absent.is_empty() {
            figure.notes.push(format!(
                "Left out, because {TRACES} names no folder that has them: {}.",
                absent.join(", ")
            ));
        }
        for claim in &read.claim {
            if !claim.names_one_of(&absent) {
                let claim = self.claim(claim, &figure)?;
                figure.claims.push(claim);
            }
        }
        Ok(figure)
    }

    /// The variables of a section.
    fn variables(&self, scale: Scale, section: &Table) -> Result<Variables, PaperError> {
        let text = |(name, value)| Ok((String::clone(name), self.plain(scale.name(), value)?));
        section.iter().map(text).collect()
    }

    fn host(&self, host: &HostSection) -> Result<Host, PaperError> {
        if !(0.0..1e6).contains(&host.overhead_us) || host.cpus == 0 {
            return Err(self.wrong("host", "overhead_us must be 0 to a million, and cpus at least 1"));
        }
        let overhead_ns = (host.overhead_us * 1000.0).round() as u64;
        Ok(Host { time: sim::HostTime { overhead_ns, cpus: host.cpus }, why: host.why.clone() })
    }

    /// A string, number or truth value as text.
    fn plain(&self, key: &str, value: &Value) -> Result<String, PaperError> {
        match value {
            Value::String(text) => Ok(text.clone()),
            Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => Ok(value.to_string()),
            _ => Err(self.wrong(key, format!("{value} is no string, number or truth value"))),
        }
    }

    /// Replaces `{name}` by the variable's value.
    fn fill(&self, key: &str, text: &str, variables: &Variables) -> Result<String, PaperError> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, behind) =
                after.split_once('}').ok_or_else(|| self.wrong(key, "`{` without `}`; write {variable}"))?;
            let value = variables.get(name).ok_or_else(|| {
                let known: Vec<&str> = variables.keys().map(String::as_str).collect();
                self.wrong(key, format!("there is no variable `{name}`; there are: {}", known.join(", ")))
            })?;
            self.used.borrow_mut().insert(name.to_owned());
            out.push_str(before);
            out.push_str(value);
            rest = behind;
        }
        out.push_str(rest);
        Ok(out)
    }

    /// The cases of one section: one, or one for each value of its sweep.
    fn cases(
        &self,
        section: &CaseSection,
        read: &FigureFile,
        variables: &Variables,
        out: &mut Vec<Case>,
    ) -> Result<(), PaperError> {
        let key = format!("case `{}`", section.name);
        if section.sweep.len() > 1 {
            return Err(self.wrong(
                &key,
                "sweep has several variables; sweep over one, and write a case for each of the other",
            ));
        }
        let Some((swept, values)) = section.sweep.iter().next() else {
            return self.case(section, read, variables, false).and_then(|case| self.add(case, out));
        };
        for value in values {
            self.used.borrow_mut().remove(swept);
            let mut variables = variables.clone();
            variables.insert(swept.clone(), self.plain(&key, value)?);
            let case = self.case(section, read, &variables, true)?;
            if !self.used.borrow().contains(swept) {
                return Err(self.wrong(
                    &key,
                    format!("sweep.{swept} is used nowhere; write {{{swept}}} where it belongs"),
                ));
            }
            self.add(case, out)?;
        }
        Ok(())
    }

    fn add(&self, case: Case, out: &mut Vec<Case>) -> Result<(), PaperError> {
        if out.iter().any(|other| other.name == case.name) {
            let what = "there are two cases of this name; in a sweep, put the variable into the name";
            return Err(self.wrong(&format!("case `{}`", case.name), what));
        }
        out.push(case);
        Ok(())
    }

    fn case(
        &self,
        section: &CaseSection,
        read: &FigureFile,
        variables: &Variables,
        swept: bool,
    ) -> Result<Case, PaperError> {
        let key = &*format!("case `{}`", section.name);
        let mut setup = self.setup(key, options_of(section, read), variables)?;
        let jobs = section.jobs.as_ref().map(|text| self.fill(&format!("{key}, jobs"), text, variables));
        let jobs = jobs.transpose()?;
        let replays = setup.synth.is_some() || setup.trace.is_some();
        let mut live = Vec::new();
        for (name, calls, program) in [
            ("rocksdb", &section.rocksdb, Live::Rocksdb as fn(Calls) -> Live),
            ("f2fs", &section.f2fs, Live::F2fs),
        ] {
            let Some(calls) = calls else { continue };
            if !read.live {
                let what = format!("{name} runs on live devices; write live = true at the top");
                return Err(self.wrong(key, what));
            }
            live.push(program(self.calls(key, name, calls, variables)?));
        }
        if read.live {
            live.extend(jobs.clone().map(Live::Fio));
            if replays || live.len() != 1 {
                let what = "a live case is either jobs, or rocksdb, or f2fs; give one of them";
                return Err(self.wrong(key, what));
            }
        }
        if !read.live && jobs.is_some() == replays {
            return Err(self.wrong(key, "give either jobs, or options.synth, or options.trace"));
        }
        let names = section.schemes.as_ref().unwrap_or(&read.schemes);
        if names.is_empty() {
            return Err(
                self.wrong(key, "there are no schemes; give schemes = [\"dftl\", ...] here or at the top")
            );
        }
        let text = jobs.or_else(|| read.live.then(|| NOTHING_RUN.to_owned()));
        setup.jobs = text.map(|text| JobText { name: format!("{}.fio", self.id), text });
        let row = |name: &String| {
            let (name, spec) = name.split_once(" = ").unwrap_or((name, name));
            let spec = self.fill(&format!("{key}, schemes"), spec, variables)?;
            Ok(Row { name: name.to_owned(), spec })
        };
        let synth = setup.synth.as_deref().and_then(|name| Synth::find(name).ok());
        Ok(Case {
            unproven: section.stand_in.is_some() && synth.is_some_and(Synth::is_unproven),
            name: self.fill(key, &section.name, variables)?,
            rows: names.iter().map(row).collect::<Result<_, PaperError>>()?,
            setup,
            live: live.pop(),
            stand_in: section.stand_in.clone(),
            swept,
            real: section.real.is_some(),
        })
    }

    /// The set-up that options describe, with variables replaced.
    fn setup(&self, key: &str, options: Table, variables: &Variables) -> Result<Setup, PaperError> {
        let mut filled = Table::new();
        for (option, value) in options {
            let place = format!("{key}, options.{option}");
            if NOT_OPTIONS.contains(&&*option) {
                return Err(
                    self.wrong(key, format!("options.{option} is the caller's to choose; leave it out"))
                );
            }
            let value = match value {
                Value::String(text) => Value::String(self.fill(&place, &text, variables)?),
                value => value,
            };
            filled.insert(option, value);
        }
        Setup::from_entries::<_, toml::de::Error>(filled).map_err(|error| match error {
            SetupError::Value { key: option, what } => self.wrong(&format!("{key}, options.{option}"), what),
            other => self.wrong(key, other),
        })
    }

    fn calls(
        &self,
        key: &str,
        name: &str,
        calls: &Calls,
        variables: &Variables,
    ) -> Result<Calls, PaperError> {
        if calls.run.is_empty() {
            return Err(self.wrong(key, format!("{name}.run is empty; name what is to be measured")));
        }
        let fill = |text: &String| self.fill(&format!("{key}, {name}"), text, variables);
        let all = |texts: &[String]| texts.iter().map(fill).collect::<Result<Vec<_>, _>>();
        Ok(Calls { load: all(&calls.load)?, run: all(&calls.run)?, options: fill(&calls.options)? })
    }

    fn claim(&self, read: &ClaimSection, figure: &Figure) -> Result<Claim, PaperError> {
        let key = format!("claim `{}`", read.what);
        let paper = self.numbers(&key, &read.paper)?;
        let mut claim = Claim {
            what: read.what.clone(),
            kind: read.kind,
            bound: read.bound,
            pick: read.pick,
            of: Vec::new(),
            over: Vec::new(),
            bench: Vec::new(),
            paper,
            differs: read.differs.clone(),
            exercised: None,
        };
        if let Some(exercised) = &read.exercised {
            claim.exercised = Some(self.exercised(&key, exercised, figure)?);
        }
        if let Some(bench) = &read.bench {
            if read.of.is_some() || read.kind != Kind::Value {
                return Err(self.wrong(&key, "bench takes kind = \"value\" and no `of`"));
            }
            claim.bench =
                one_or_many(bench).into_iter().map(|v| self.plain(&key, v)).collect::<Result<_, _>>()?;
        } else {
            let of = read.of.as_ref().ok_or_else(|| self.wrong(&key, "`of` is missing; name a scheme"))?;
            claim.of = self.places(&key, "of", of, read, figure)?;
        }
        match (&read.over, read.kind) {
            (None, Kind::Value) => {}
            (None, _) => return Err(self.wrong(&key, "`over` is missing; name what is compared with")),
            (Some(_), Kind::Value) => return Err(self.wrong(&key, "a value has no `over`; leave it out")),
            (Some(over), _) => claim.over = self.places(&key, "over", over, read, figure)?,
        }
        self.sizes(&key, &claim)?;
        Ok(claim)
    }

    fn exercised(
        &self,
        key: &str,
        read: &ExercisedSection,
        figure: &Figure,
    ) -> Result<Exercised, PaperError> {
        let (name, scheme) = match read {
            ExercisedSection::Quantity(quantity) => (quantity, None),
            ExercisedSection::Of { scheme, quantity } => (quantity, Some(scheme)),
        };
        let quantity = Quantity::find(name).map_err(|error| self.wrong(key, error))?.name;
        let runs =
            |name: &String| figure.cases.iter().flat_map(|case| &case.rows).any(|row| row.name == *name);
        match scheme.filter(|name| !runs(name)) {
            Some(name) => Err(self.wrong(key, format!("exercised: no case has scheme `{name}`"))),
            None => Ok(Exercised { quantity, scheme: scheme.cloned() }),
        }
    }

    /// The numbers of places and of the paper's values must go together.
    fn sizes(&self, key: &str, claim: &Claim) -> Result<(), PaperError> {
        let (of, over) = (claim.of.len().max(claim.bench.len()), claim.over.len());
        if of > 1 && over > 1 && of != over {
            let what = format!(
                "`of` names {of} places and `over` {over}; give the same number, or one of them alone"
            );
            return Err(self.wrong(key, what));
        }
        let values = if claim.pick.is_some() { 1 } else { of.max(over) };
        let wanted = if claim.bound == Bound::Range { 2 } else { values };
        let given = claim.paper.len();
        if given != wanted && !(given == 1 && claim.bound != Bound::Range) {
            return Err(self.wrong(key, format!("paper has {given} values where {wanted} are needed")));
        }
        Ok(())
    }

    fn numbers(&self, key: &str, value: &Value) -> Result<Vec<f64>, PaperError> {
        let number = |value: &Value| match value {
            Value::Float(number) => Ok(*number),
            Value::Integer(number) => Ok(*number as f64),
            other => Err(self.wrong(key, format!("paper has {other}, which is no number"))),
        };
        one_or_many(value).into_iter().map(number).collect()
    }

    /// The places that a selection names: a scheme, a table with `scheme`, `case`, `phase` or `quantity`, or
    /// a list of these. A case that ends in `*` stands for every case that begins so and is no real trace,
    /// the scheme `*` for every scheme of the case.
    fn places(
        &self,
        key: &str,
        which: &str,
        value: &Value,
        read: &ClaimSection,
        figure: &Figure,
    ) -> Result<Vec<Place>, PaperError> {
        let key = format!("{key}, {which}");
        let mut found = Vec::new();
        for selector in one_or_many(value) {
            let (mut scheme, mut case) = (read.scheme.clone(), read.case.clone());
            let (mut phase, mut quantity) = (read.phase.clone(), read.quantity.clone());
            match selector {
                Value::String(name) => scheme = Some(name.clone()),
                Value::Table(table) => {
                    for (part, value) in table {
                        let text = Some(self.plain(&key, value)?);
                        match part.as_str() {
                            "scheme" => scheme = text,
                            "case" => case = text,
                            "phase" => phase = text,
                            "quantity" => quantity = text,
                            _ => {
                                let what =
                                    format!("`{part}` is unknown; there are scheme, case, phase, quantity");
                                return Err(self.wrong(&key, what));
                            }
                        }
                    }
                }
                other => return Err(self.wrong(&key, format!("{other} is neither a scheme nor a table"))),
            }
            let scheme = scheme.ok_or_else(|| self.wrong(&key, "`scheme` is missing"))?;
            let quantity = quantity.ok_or_else(|| self.wrong(&key, "`quantity` is missing"))?;
            let quantity = Quantity::find(&quantity).map_err(|what| self.wrong(&key, what))?.name;
            let phase = phase.unwrap_or_default();
            let before = found.len();
            for known in figure.cases.iter().filter(|known| matches(case.as_deref(), known, figure)) {
                for row in known.rows.iter().filter(|row| scheme == "*" || row.name == scheme) {
                    let (scheme, case) = (row.name.clone(), known.name.clone());
                    found.push(Place { scheme, case, phase: phase.clone(), quantity });
                }
            }
            if found.len() == before {
                let cases: Vec<&str> = figure.cases.iter().map(|case| case.name.as_str()).collect();
                let case = case.unwrap_or_else(|| "not given".to_owned());
                return Err(self.wrong(
                    &key,
                    format!(
                        "no case has scheme `{scheme}` (case {case}); the cases are {}",
                        cases.join(", ")
                    ),
                ));
            }
        }
        Ok(found)
    }
}

/// Whether a selection of cases means this one; none means the only one there is.
fn matches(asked: Option<&str>, case: &Case, figure: &Figure) -> bool {
    match asked {
        None => figure.cases.len() == 1,
        Some(asked) => match asked.strip_suffix('*') {
            Some(start) => case.name.starts_with(start) && !case.real,
            None => asked == case.name,
        },
    }
}

/// The options of a case, with those of the figure.
fn options_of(section: &CaseSection, read: &FigureFile) -> Table {
    let mut options = read.options.clone();
    if section.real.is_some() {
        OF_GENERATORS.iter().for_each(|option| drop(options.remove(*option)));
    }
    if let Some(path) = section.real.as_deref().and_then(real_trace) {
        options.insert("trace".to_owned(), Value::String(path.display().to_string()));
    }
    options.extend(section.options.clone());
    options
}

/// A file in the folder of real traces, if it is there.
fn real_trace(file: &str) -> Option<PathBuf> {
    std::env::var_os(TRACES).map(|folder| PathBuf::from(folder).join(file)).filter(|path| path.is_file())
}

fn one_or_many(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(values) => values.iter().collect(),
        one => vec![one],
    }
}
