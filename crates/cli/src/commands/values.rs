//! How the values of options are written.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

use ftl::Info;
use nand::SimOptions;
use workload::trace::Ratio;

/// A scheme with parameters: `tpftl`, `tpftl:techniques=rs`, `tpftl:techniques=rs:threshold=5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SchemeSpec {
    /// Registered name.
    pub(crate) name: String,
    /// Parameters, in the order of their names.
    pub(crate) parameters: BTreeMap<String, String>,
}

/// The registered scheme of that name.
pub(crate) fn info_of(name: &str) -> Result<&'static Info, String> {
    ftl::schemes::ALL.iter().find(|info| info.name == name).copied().ok_or_else(|| {
        let known: Vec<&str> = ftl::schemes::ALL.iter().map(|info| info.name).collect();
        format!("there is no scheme `{name}`; there are {}", known.join(", "))
    })
}

impl FromStr for SchemeSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<SchemeSpec, String> {
        let mut parts = text.split(':');
        let info = info_of(parts.next().unwrap_or_default().trim())?;
        let mut parameters = BTreeMap::new();
        for part in parts {
            let Some((key, value)) = part.split_once('=') else {
                return Err(format!("`{part}` in `{text}` is no parameter; write {}:key=value", info.name));
            };
            if !info.parameters.iter().any(|parameter| parameter.name == key) {
                let known: Vec<&str> = info.parameters.iter().map(|parameter| parameter.name).collect();
                let known = if known.is_empty() {
                    "it has none".to_owned()
                } else {
                    format!("it has {}", known.join(", "))
                };
                return Err(format!("scheme {} has no parameter `{key}`; {known}", info.name));
            }
            if parameters.insert(key.to_owned(), value.to_owned()).is_some() {
                return Err(format!("`{text}` gives {key} twice; give it once"));
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

/// What is written before measuring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WarmUp {
    /// Nothing.
    None,
    /// The device once, in sequence.
    Fill,
    /// The writes of the LearnedFTL paper.
    LearnedFtl,
    /// Those, then reads until the mapping cache holds no entry that they left dirty.
    Steady,
    /// Those, then one sequential read of the device.
    Swept,
    /// A job file or a trace.
    File(PathBuf),
}

impl FromStr for WarmUp {
    type Err = String;

    fn from_str(text: &str) -> Result<WarmUp, String> {
        Ok(match text {
            "none" => WarmUp::None,
            "fill" => WarmUp::Fill,
            "learnedftl" => WarmUp::LearnedFtl,
            "steady" => WarmUp::Steady,
            "swept" => WarmUp::Swept,
            file if file.contains(['.', '/']) => WarmUp::File(PathBuf::from(file)),
            _ => {
                return Err(format!(
                    "`{text}` is no warm-up; write steady, swept, learnedftl, fill, none, or the name of a fio job file or a trace"
                ))
            }
        })
    }
}

/// A time: `10s`, `1.5h`, `20ms`, `300us`, `5min`; a number alone counts seconds. In nanoseconds.
pub(crate) fn time_ns(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no time; write a number with us, ms, s, min or h, such as 90s");
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
    let number = Ratio::parse(digits);
    match number {
        Ok(number) => Ok(number.apply(unit)),
        Err(_) if digits.trim().chars().all(|c| c == '0' || c == '.') && digits.contains('0') => Ok(0),
        Err(_) => Err(wrong()),
    }
}

/// A factor for times, as `workload` reads it.
pub(crate) fn factor(text: &str) -> Result<Ratio, String> {
    Ratio::parse(text).map_err(|error| error.to_string())
}

/// Rows `A..B`, `A..` or `..B`, from 0, B left out.
pub(crate) fn rows(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("`{text}` is no range of rows; write A..B with A below B, such as 0..10000");
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
pub(crate) fn faults(text: &str) -> Result<SimOptions, String> {
    let mut options = SimOptions::default();
    for part in text.split(',') {
        let wrong = || {
            format!(
                "`{part}` is no fault rate; write key=ppm, with the keys factory-bad, program, erase, uncorrectable \
                 and metadata-retry, and ppm from 0 to 1000000"
            )
        };
        let (key, value) = part.split_once('=').ok_or_else(wrong)?;
        let ppm: u32 = value.trim().parse().ok().filter(|&ppm| ppm <= 1_000_000).ok_or_else(wrong)?;
        match key.trim() {
            "factory-bad" => options.factory_bad_ppm = Some(ppm),
            "program" => options.program_fail_ppm = ppm,
            "erase" => options.erase_fail_ppm = ppm,
            "uncorrectable" => options.uncorrectable_ppm = ppm,
            "metadata-retry" => options.metadata_retry_ppm = ppm,
            _ => return Err(wrong()),
        }
    }
    Ok(options)
}

/// A whole number from 1 up.
pub(crate) fn positive(text: &str) -> Result<u64, String> {
    let number = text.replace('_', "").parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| format!("`{text}` is no whole number from 1 up"))
}

/// A whole number from 1 up that is not too large to count dies, blocks and requests in flight.
pub(crate) fn positive_32(text: &str) -> Result<u32, String> {
    let number = positive(text).ok().and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| format!("`{text}` is no whole number from 1 to {}", u32::MAX))
}

/// A whole number from 0 up.
pub(crate) fn number(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| format!("`{text}` is no whole number from 0 up"))
}

/// Threads to use: as many as asked for, else the processors of this machine.
pub(crate) fn threads(asked: Option<u32>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.map_or_else(cores, |threads| threads as usize)
}

/// Microseconds, in nanoseconds.
pub(crate) fn micros(text: &str) -> Result<u64, String> {
    match text.trim().parse::<f64>() {
        Ok(us) if (0.0..=1e9).contains(&us) => Ok((us * 1e3).round() as u64),
        _ => Err(format!(
            "`{text}` is no time in microseconds; write a number from 0 to 1000000000, such as 2.5"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_with_parameters() {
        let spec: SchemeSpec = "tpftl:techniques=rs:threshold=5".parse().expect("a scheme");
        assert_eq!(spec.to_string(), "tpftl:techniques=rs:threshold=5");
        let error = |text: &str| text.parse::<SchemeSpec>().err().unwrap_or_default();
        let known: Vec<&str> = ftl::schemes::ALL.iter().map(|info| info.name).collect();
        assert_eq!(error("ideal"), format!("there is no scheme `ideal`; there are {}", known.join(", ")));
        assert_eq!(error("dftl:entries=3"), "scheme dftl has no parameter `entries`; it has protected");
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
}
