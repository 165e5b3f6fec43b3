//! How the values of a set-up are written.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

use ftl::{Info, VictimPolicy};
use nand::timing::Policy;
use nand::SimOptions;
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use workload::trace::{AddressMap, Columns, Format, Ratio};

use crate::{BadValue, CacheSize, TimingModel};

/// A value that is one of a few words.
pub trait Choice: Copy + Send + Sync + 'static {
    /// The words, each with what it means, in the order in which help lists them.
    const WORDS: &'static [(&'static str, Self)];

    /// What a word means.
    ///
    /// # Errors
    /// It is none of [`Choice::WORDS`].
    fn of_word(text: &str) -> Result<Self, BadValue> {
        Self::WORDS.iter().find(|(word, _)| *word == text).map(|&(_, meaning)| meaning).ok_or_else(|| {
            let words: Vec<&str> = Self::WORDS.iter().map(|(word, _)| *word).collect();
            BadValue(format!("`{text}` is not possible; it is one of {}", words.join(", ")))
        })
    }
}

/// When the requests of a trace or generator are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// At their recorded times.
    Open,
    /// As soon as fewer than a fixed number of them are in flight.
    Closed,
}

impl Choice for Mode {
    const WORDS: &'static [(&'static str, Mode)] = &[("open", Mode::Open), ("closed", Mode::Closed)];
}

impl Choice for AddressMap {
    const WORDS: &'static [(&'static str, AddressMap)] =
        &[("as-is", AddressMap::AsIs), ("wrap", AddressMap::Wrap), ("scale", AddressMap::Scale)];
}

impl Choice for VictimPolicy {
    const WORDS: &'static [(&'static str, VictimPolicy)] =
        &[("greedy", VictimPolicy::Greedy), ("cost-benefit", VictimPolicy::CostBenefit)];
}

impl Choice for TimingModel {
    const WORDS: &'static [(&'static str, TimingModel)] = &[
        ("queued", TimingModel::Queued { policy: None }),
        ("reserved", TimingModel::Reserved),
        ("none", TimingModel::NoClock),
    ];
}

impl Choice for Policy {
    const WORDS: &'static [(&'static str, Policy)] =
        &[("fcfs", Policy::Fcfs), ("host-reads-first", Policy::HostReadsFirst), ("suspend", Policy::Suspend)];
}

/// A registered scheme with parameters: `tpftl`, `tpftl:techniques=rs`, `tpftl:techniques=rs:threshold=5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemeSpec {
    /// Name in the registry, or another name that the registry knows for a scheme.
    pub name: String,
    /// Parameters, in the order of their names.
    pub parameters: BTreeMap<String, String>,
}

impl SchemeSpec {
    /// The registered scheme of that name.
    ///
    /// # Errors
    /// There is none; the error names those that there are.
    pub fn info(name: &str) -> Result<&'static Info, BadValue> {
        ftl::schemes::ALL.iter().find(|info| info.name == name).copied().ok_or_else(|| {
            let known: Vec<&str> = ftl::schemes::ALL.iter().map(|info| info.name).collect();
            BadValue(format!("there is no scheme `{name}`; there are {}", known.join(", ")))
        })
    }
}

impl FromStr for SchemeSpec {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<SchemeSpec, BadValue> {
        let mut parts = text.split(':');
        let info = SchemeSpec::info(parts.next().unwrap_or_default().trim())?;
        let mut parameters = BTreeMap::new();
        for part in parts {
            let Some((key, value)) = part.split_once('=') else {
                let what = format!("`{part}` in `{text}` is no parameter; write {}:key=value", info.name);
                return Err(BadValue(what));
            };
            if !info.parameters.iter().any(|parameter| parameter.name == key) {
                let known: Vec<&str> = info.parameters.iter().map(|parameter| parameter.name).collect();
                let known = if known.is_empty() {
                    "it has none".to_owned()
                } else {
                    format!("it has {}", known.join(", "))
                };
                return Err(BadValue(format!("scheme {} has no parameter `{key}`; {known}", info.name)));
            }
            if parameters.insert(key.to_owned(), value.to_owned()).is_some() {
                return Err(BadValue(format!("`{text}` gives {key} twice; give it once")));
            }
        }
        Ok(SchemeSpec { name: info.name.to_owned(), parameters })
    }
}

impl fmt::Display for SchemeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.parameters.iter().try_for_each(|(key, value)| write!(f, ":{key}={value}"))
    }
}

impl<'de> Deserialize<'de> for SchemeSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SchemeSpec, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// What the mapping cache holds when measuring begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheAtStart {
    /// What the warm-up left, with what is dirty of it.
    Dirty,
    /// What the warm-up left, all of it clean.
    Clean,
    /// What random reads over the whole device left, all of it clean.
    Warm,
    /// Nothing: the device was switched off and on.
    Empty,
}

impl Choice for CacheAtStart {
    const WORDS: &'static [(&'static str, CacheAtStart)] = &[
        ("dirty", CacheAtStart::Dirty),
        ("clean", CacheAtStart::Clean),
        ("warm", CacheAtStart::Warm),
        ("empty", CacheAtStart::Empty),
    ];
}

/// What is written before measuring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// Nothing is written: the device begins as it is made.
    None,
    /// A warm-up of [`workload::warm_up`].
    Writes(workload::warm_up::WarmUp),
    /// [`workload::warm_up::USUAL`], then reads until the mapping cache holds no entry that it left dirty.
    Steady,
    /// [`workload::warm_up::USUAL`], then one sequential read of the device.
    Swept,
    /// [`workload::warm_up::FILL`], then the requests of the trace or generator, each as a write.
    Workload,
    /// A job file or a trace.
    File(PathBuf),
}

impl FromStr for WarmUp {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<WarmUp, BadValue> {
        Ok(match text {
            "none" => WarmUp::None,
            "steady" => WarmUp::Steady,
            "swept" => WarmUp::Swept,
            "workload" => WarmUp::Workload,
            file if file.contains(['.', '/']) => WarmUp::File(PathBuf::from(file)),
            name if name.contains('=') => {
                WarmUp::Writes(name.parse().map_err(|error: workload::InputError| BadValue(error.to_string()))?)
            }
            name => WarmUp::Writes(name.parse().map_err(|_| {
                let names: Vec<&str> = workload::warm_up::ALL.iter().rev().map(|known| known.name).collect();
                BadValue(format!(
                    "`{text}` is no warm-up; write steady, swept, {}, workload, none, or the name of a fio job file or a trace",
                    names.join(", ")
                ))
            })?),
        })
    }
}

/// The text of a fio job file that is at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobText {
    /// Its name in messages and results.
    pub name: String,
    /// Content of the job file.
    pub text: String,
}

impl<'de> Deserialize<'de> for JobText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JobText, D::Error> {
        Ok(JobText { name: "jobs.fio".to_owned(), text: String::deserialize(deserializer)? })
    }
}

/// A time: `10s`, `1.5h`, `20ms`, `300us`, `5min`; a number alone counts seconds. In nanoseconds.
///
/// # Errors
/// It is none.
pub fn time_ns(text: &str) -> Result<u64, BadValue> {
    let wrong =
        || BadValue(format!("`{text}` is no time; write a number with us, ms, s, min or h, such as 90s"));
    let trimmed = text.trim();
    let digits = trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &trimmed[digits.len()..] {
        "us" => 1_000,
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return Err(wrong()),
    };
    match Ratio::parse(digits) {
        // Twice the time, rounded down, tells how to round to a nanosecond.
        Ok(number) => Ok(match number.apply(2 * unit) {
            u64::MAX => number.apply(unit),
            twice => twice.div_ceil(2),
        }),
        Err(_) if digits.trim().chars().all(|c| c == '0' || c == '.') && digits.contains('0') => Ok(0),
        Err(_) => Err(wrong()),
    }
}

/// A positive factor for times: `2`, `0.25` or `1/3`.
///
/// # Errors
/// It is none.
pub fn factor(text: &str) -> Result<Ratio, BadValue> {
    Ratio::parse(text).map_err(|error| BadValue(error.to_string()))
}

/// The columns of a table: `time=1:us,op=3,lba=4:sectors,size=5:bytes`.
///
/// # Errors
/// A part that is not known, or no column for the address or the size.
pub fn columns(text: &str) -> Result<Columns, BadValue> {
    text.parse().map_err(|error: workload::InputError| BadValue(error.to_string()))
}

/// The name of a trace format.
///
/// # Errors
/// It is none.
pub fn format(text: &str) -> Result<Format, BadValue> {
    Format::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        BadValue(format!("there is no trace format `{text}`; there are {}", names.join(", ")))
    })
}

/// Rows `A..B`, `A..` or `..B`, from 0, B left out.
///
/// # Errors
/// It is no range, or an empty one.
pub fn rows(text: &str) -> Result<Range<u64>, BadValue> {
    let wrong =
        || BadValue(format!("`{text}` is no range of rows; write A..B with A below B, such as 0..10000"));
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let bound = |part: &str, open: u64| {
        if part.trim().is_empty() {
            Ok(open)
        } else {
            part.trim().parse().map_err(|_| wrong())
        }
    };
    let range = bound(from, 0)?..bound(to, u64::MAX)?;
    if range.is_empty() {
        Err(wrong())
    } else {
        Ok(range)
    }
}

/// Faults of the array: `program=20,erase=5`, parts per million.
///
/// # Errors
/// A key that there is not, or a rate above a million.
pub fn faults(text: &str) -> Result<SimOptions, BadValue> {
    let mut options = SimOptions::default();
    for part in text.split(',') {
        let wrong = || {
            BadValue(format!(
                "`{part}` is no fault rate; write key=ppm, with the keys factory-bad, program, erase, uncorrectable, \
                 lost-translation and metadata-retry, and ppm from 0 to 1000000"
            ))
        };
        let (key, value) = part.split_once('=').ok_or_else(wrong)?;
        let ppm: u32 = value.trim().parse().ok().filter(|&ppm| ppm <= 1_000_000).ok_or_else(wrong)?;
        match key.trim() {
            "factory-bad" => options.factory_bad_ppm = Some(ppm),
            "program" => options.program_fail_ppm = ppm,
            "erase" => options.erase_fail_ppm = ppm,
            "uncorrectable" => options.uncorrectable_ppm = ppm,
            "lost-translation" => options.lost_translation_ppm = ppm,
            "metadata-retry" => options.metadata_retry_ppm = ppm,
            _ => return Err(wrong()),
        }
    }
    Ok(options)
}

/// A whole number from 1 up.
///
/// # Errors
/// It is none.
pub fn positive(text: &str) -> Result<u64, BadValue> {
    let number = text.replace('_', "").parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| BadValue(format!("`{text}` is no whole number from 1 up")))
}

/// A whole number from 1 up that is not too large to count dies, blocks and requests in flight.
///
/// # Errors
/// It is none.
pub fn positive_32(text: &str) -> Result<u32, BadValue> {
    let number = positive(text).ok().and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| BadValue(format!("`{text}` is no whole number from 1 to {}", u32::MAX)))
}

/// A whole number from 0 up.
///
/// # Errors
/// It is none.
pub fn number(text: &str) -> Result<u64, BadValue> {
    text.replace('_', "").parse().map_err(|_| BadValue(format!("`{text}` is no whole number from 0 up")))
}

/// Microseconds, in nanoseconds.
///
/// # Errors
/// It is no number from 0 to a billion.
pub fn micros(text: &str) -> Result<u64, BadValue> {
    match text.trim().parse::<f64>() {
        Ok(us) if (0.0..=1e9).contains(&us) => Ok((us * 1e3).round() as u64),
        _ => Err(BadValue(format!(
            "`{text}` is no time in microseconds; write a number from 0 to 1000000000, such as 2.5"
        ))),
    }
}

fn size(text: &str) -> Result<u64, BadValue> {
    nand::parse_size(text).map_err(|error| BadValue(error.to_string()))
}

/// Reads a value written as text or as a number, as `parse` reads its text.
fn read<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: fn(&str) -> Result<T, BadValue>,
) -> Result<Option<T>, D::Error> {
    struct Written;

    impl Visitor<'_> for Written {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("text or a number")
        }

        fn visit_str<E>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }

        fn visit_u64<E>(self, number: u64) -> Result<String, E> {
            Ok(number.to_string())
        }

        fn visit_i64<E>(self, number: i64) -> Result<String, E> {
            Ok(number.to_string())
        }

        fn visit_f64<E>(self, number: f64) -> Result<String, E> {
            Ok(number.to_string())
        }
    }

    let text = deserializer.deserialize_any(Written)?;
    parse(&text).map(Some).map_err(D::Error::custom)
}

/// A function for `#[serde(deserialize_with)]` that reads a field as another function reads its text.
macro_rules! fields {
    ($($name:ident: $type:ty, $parse:expr;)*) => {
        /// How the fields of a set-up are read.
        pub(super) mod field {
            use super::*;

            $(pub(in crate::setup) fn $name<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Option<$type>, D::Error> {
                read(deserializer, $parse)
            })*
        }
    };
}

fields! {
    address: AddressMap, Choice::of_word;
    cache: CacheSize, str::parse;
    cache_state: CacheAtStart, Choice::of_word;
    columns: Columns, super::columns;
    count: u64, positive;
    count_32: u32, positive_32;
    factor: Ratio, super::factor;
    faults: SimOptions, super::faults;
    format: Format, super::format;
    micros: u64, super::micros;
    mode: Mode, Choice::of_word;
    number: u64, super::number;
    policy: Policy, Choice::of_word;
    rows: Range<u64>, super::rows;
    size: u64, super::size;
    time: u64, time_ns;
    timing: TimingModel, Choice::of_word;
    victims: VictimPolicy, Choice::of_word;
    warm_up: WarmUp, str::parse;
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::warm_up::AGED;

    #[test]
    fn schemes_with_parameters() {
        let spec: SchemeSpec = "tpftl:techniques=rs:threshold=5".parse().expect("a scheme");
        assert_eq!(spec.to_string(), "tpftl:techniques=rs:threshold=5");
        let error = |text: &str| text.parse::<SchemeSpec>().map_or_else(|error| error.0, |_| String::new());
        let known: Vec<&str> = ftl::schemes::ALL.iter().map(|info| info.name).collect();
        assert_eq!(error("ideal"), format!("there is no scheme `ideal`; there are {}", known.join(", ")));
        assert_eq!(
            error("dftl:entries=3"),
            "scheme dftl has no parameter `entries`; it has protected, program_buffer"
        );
        assert_eq!(error("page:x=3"), "scheme page has no parameter `x`; it has none");
        assert_eq!(
            error("dftl:protected"),
            "`protected` in `dftl:protected` is no parameter; write dftl:key=value"
        );
        assert!(error("dftl:protected=1:protected=2").contains("twice"));
    }

    #[test]
    fn times_and_rows() {
        for (text, ns) in
            [("90s", 90_000_000_000), ("1.5h", 5_400_000_000_000), ("2", 2_000_000_000), ("0s", 0)]
        {
            assert_eq!(time_ns(text), Ok(ns), "{text}");
        }
        assert_eq!(time_ns("300us"), Ok(300_000));
        assert_eq!(time_ns("3600000000us"), time_ns("1h"));
        assert_eq!(time_ns("0.30000000000000004"), Ok(300_000_000));
        assert_eq!(time_ns("0.9999999999"), Ok(1_000_000_000));
        assert_eq!(time_ns("9999999999h"), Ok(u64::MAX));
        for text in ["", "s", "1d", "-1s", "x"] {
            assert!(time_ns(text).is_err(), "{text}");
        }
        assert_eq!(rows("10..20"), Ok(10..20));
        assert_eq!(rows("..20"), Ok(0..20));
        for text in ["", "7", "5..5", "9..3", "a..b"] {
            assert!(rows(text).is_err(), "{text}");
        }
    }

    #[test]
    fn fault_rates() {
        let found = faults("program=20,erase=5,factory-bad=10000").expect("rates");
        assert_eq!(
            (found.program_fail_ppm, found.erase_fail_ppm, found.factory_bad_ppm),
            (20, 5, Some(10_000))
        );
        assert!(
            faults("program").is_err() && faults("nothing=1").is_err() && faults("erase=2000000").is_err()
        );
    }

    #[test]
    fn every_warm_up_has_a_name() {
        for known in workload::warm_up::ALL {
            assert_eq!(known.name.parse(), Ok(WarmUp::Writes(known)));
        }
        assert!("aged=30%".parse::<WarmUp>().is_ok_and(|found| found != WarmUp::Writes(AGED)));
        assert!("aged=30".parse::<WarmUp>().is_err_and(|error| error.0.contains("such as aged=50%")));
        assert_eq!("a/b".parse(), Ok(WarmUp::File("a/b".into())));
        assert!("some".parse::<WarmUp>().is_err_and(|error| error.0.contains("`some` is no warm-up")));
    }
}
