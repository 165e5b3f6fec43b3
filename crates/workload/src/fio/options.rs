//! From the text of a job file to [`JobSpec`]s.

use super::keys::{self, Treatment};
use super::spec::{BlockSize, Distribution, JobSpec, Pattern};
use super::units::{self, Amount};
use crate::InputError;

/// `key=value` with its line; a key alone has an empty value.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) line: u64,
}

impl Entry {
    fn canonical(&self) -> &str {
        keys::canonical(&self.key)
    }

    fn wrong(&self, file: &str, right: &str) -> InputError {
        let text = if self.value.is_empty() {
            format!("{} has no value; write {right}", self.key)
        } else {
            format!("{}={} is not valid; write {right}", self.key, self.value)
        };
        InputError::at(file, self.line, 0, text)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) line: u64,
    pub(super) entries: Vec<Entry>,
}

/// Splits the text into sections. fio cuts a line at the first `;` or `#`.
pub(super) fn sections(file: &str, text: &str) -> Result<Vec<Section>, InputError> {
    let mut sections: Vec<Section> = Vec::new();
    // Some programs begin a text with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (i, raw) in text.lines().enumerate() {
        let line = i as u64 + 1;
        let body = raw.split([';', '#']).next().unwrap_or("").trim();
        if body.is_empty() {
            continue;
        }
        if let Some(rest) = body.strip_prefix('[') {
            let name = rest.strip_suffix(']').map(str::trim).filter(|n| !n.is_empty());
            let name = name.ok_or_else(|| {
                InputError::at(
                    file,
                    line,
                    0,
                    format!("{body} is not a section; write a name in brackets, such as [randread]"),
                )
            })?;
            sections.push(Section { name: name.to_owned(), line, entries: Vec::new() });
            continue;
        }
        let entry = entry(file, line, body)?;
        match sections.last_mut() {
            Some(section) => section.entries.push(entry),
            None => {
                return Err(InputError::at(
                    file,
                    line,
                    0,
                    format!("{body} stands before any section; put [global] or a job's [name] above it"),
                ))
            }
        }
    }
    Ok(sections)
}

fn entry(file: &str, line: u64, body: &str) -> Result<Entry, InputError> {
    if body == "include" || body.starts_with("include ") {
        let text = "include is not supported; copy the lines of that file here";
        return Err(InputError::at(file, line, 0, text));
    }
    let (key, value) = body.split_once('=').unwrap_or((body, ""));
    let (key, value) = (key.trim().to_ascii_lowercase(), value.trim().trim_matches('"').to_owned());
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err(InputError::at(file, line, 0, format!("{body} is not a key; write key=value")));
    }
    Ok(Entry { key, value, line })
}

/// Decides for each entry of a section whether it may stand, and notes those without effect.
pub(super) fn judge(file: &str, section: &Section, warnings: &mut Vec<String>) -> Result<(), InputError> {
    for entry in &section.entries {
        let key = entry.key.as_str();
        let treatment = keys::treatment(entry.canonical());
        match treatment {
            Some(Treatment::Honoured) if entry.value.contains('$') => {
                let text = format!(
                    "{key}={} needs a variable of the environment; write the value itself",
                    entry.value
                );
                return Err(InputError::at(file, entry.line, 0, text));
            }
            Some(Treatment::Honoured | Treatment::Harmless) => {}
            Some(Treatment::Remark(remark)) => {
                warnings.push(format!("{file}:{}: {key} {remark}", entry.line))
            }
            Some(Treatment::Refused { off, instead }) => {
                if !off.contains(&entry.value.as_str()) {
                    let value =
                        if entry.value.is_empty() { String::new() } else { format!("={}", entry.value) };
                    let text =
                        format!("{key}{value} would change the experiment and is not supported; {instead}");
                    return Err(InputError::at(file, entry.line, 0, text));
                }
            }
            None => {
                if let Some(known) = keys::nearest(key) {
                    let text = format!("{key} is not a key of fio; write {known} if that is meant");
                    return Err(InputError::at(file, entry.line, 0, text));
                }
                warnings.push(format!(
                    "{file}:{}: {key} is not a key that we know, it has no effect",
                    entry.line
                ));
            }
        }
    }
    Ok(())
}

/// Builds the job of one section, with the defaults of the globals above it.
pub(super) fn job(
    file: &str,
    section: &Section,
    globals: &[Entry],
    ordinal: u64,
    warnings: &mut Vec<String>,
) -> Result<JobSpec, InputError> {
    let mut reader = Reader { file, kb_base: 1024, spec: JobSpec::new(&section.name) };
    reader.spec.place(file, section.line, ordinal);
    let entries: Vec<&Entry> = globals.iter().chain(&section.entries).collect();
    if let Some(entry) = entries.iter().rev().find(|e| e.canonical() == "kb_base") {
        reader.kb_base = match entry.value.as_str() {
            "1024" => 1024,
            "1000" => 1000,
            _ => return Err(entry.wrong(file, "kb_base=1024 or kb_base=1000")),
        };
    }
    for entry in &entries {
        if keys::treatment(entry.canonical()) == Some(Treatment::Honoured) {
            reader.apply(entry)?;
            reader.spec.note(entry.canonical(), entry.line);
            if reader.kb_base == 1024 && is_size(entry.canonical()) && units::has_iec_suffix(&entry.value) {
                let text = format!(
                    "{file}:{}: {}={} counts in powers of 1000, as in fio with kb_base=1024",
                    entry.line, entry.key, entry.value
                );
                remark(warnings, text);
            }
        }
    }
    let engine = entries.iter().rev().find(|e| e.key == "ioengine");
    if let Some(entry) = engine.filter(|e| keys::SYNCHRONOUS_ENGINES.contains(&e.value.as_str())) {
        if reader.spec.iodepth > 1 {
            let text = format!(
                "{file}:{}: [{}] keeps iodepth={} requests in flight, where fio with ioengine={} would keep one",
                entry.line, section.name, reader.spec.iodepth, entry.value
            );
            remark(warnings, text);
        }
    }
    reader.spec.check()?;
    Ok(reader.spec)
}

/// Once, though a global may be read for many jobs.
fn remark(warnings: &mut Vec<String>, text: String) {
    if !warnings.contains(&text) {
        warnings.push(text);
    }
}

fn is_size(key: &str) -> bool {
    matches!(
        key,
        "bs" | "bsrange" | "bssplit" | "size" | "offset" | "offset_increment" | "offset_align" | "io_size"
    )
}

struct Reader<'a> {
    file: &'a str,
    kb_base: u64,
    spec: JobSpec,
}

impl Reader<'_> {
    fn apply(&mut self, entry: &Entry) -> Result<(), InputError> {
        match entry.canonical() {
            "rw" => self.rw(entry),
            "bs" => self.bs(entry),
            "bsrange" => self.bsrange(entry),
            "bssplit" => self.bssplit(entry),
            "random_distribution" => self.distribution(entry),
            "rate_iops" => self.rate_iops(entry),
            "size" | "offset" | "offset_increment" | "io_size" => self.amount(entry),
            "runtime" | "thinktime" => self.time(entry),
            "time_based" | "norandommap" | "group_reporting" | "stonewall" | "end_fsync"
            | "fsync_on_close" => self.switch(entry),
            "name" => {
                if entry.value.is_empty() {
                    return Err(entry.wrong(self.file, "name=WORD"));
                }
                self.spec.name.clone_from(&entry.value);
                Ok(())
            }
            "kb_base" => Ok(()),
            _ => self.number(entry),
        }
    }

    fn rw(&mut self, entry: &Entry) -> Result<(), InputError> {
        let right =
            "rw=read, write, randread, randwrite, rw, randrw, trim, randtrim, trimwrite or randtrimwrite";
        if entry.value.contains(':') {
            return Err(entry.wrong(self.file, "rw without a sequence length or a hole after the colon"));
        }
        self.spec.rw = Pattern::from_name(&entry.value).ok_or_else(|| entry.wrong(self.file, right))?;
        Ok(())
    }

    fn bs(&mut self, entry: &Entry) -> Result<(), InputError> {
        let wrong = || {
            entry.wrong(
                self.file,
                "bs=SIZE or bs=READ,WRITE,TRIM in bytes with an optional k, m or g, such as bs=4k",
            )
        };
        let parts = units::directions(&entry.value).ok_or_else(wrong)?;
        for (slot, part) in self.spec.bs.iter_mut().zip(parts) {
            *slot = match part {
                Some(text) => BlockSize::Fixed(units::bytes(text, self.kb_base).ok_or_else(wrong)?),
                None if entry.value.is_empty() => return Err(wrong()),
                None => BlockSize::Fixed(4096),
            };
        }
        Ok(())
    }

    fn bsrange(&mut self, entry: &Entry) -> Result<(), InputError> {
        let wrong = || {
            entry.wrong(self.file, "bsrange=LOW-HIGH, such as bsrange=4k-64k, once or for read,write,trim")
        };
        let parts = units::directions(&entry.value).ok_or_else(wrong)?;
        for (slot, part) in self.spec.bs.iter_mut().zip(parts) {
            let Some(text) = part else { continue };
            let (low, high) = text.split_once(['-', ':']).ok_or_else(wrong)?;
            let low = units::bytes(low, self.kb_base).ok_or_else(wrong)?;
            let high = units::bytes(high, self.kb_base).ok_or_else(wrong)?;
            *slot = BlockSize::Range { low: low.min(high), high: low.max(high) };
        }
        if parts.iter().all(Option::is_none) {
            return Err(wrong());
        }
        Ok(())
    }

    fn bssplit(&mut self, entry: &Entry) -> Result<(), InputError> {
        let wrong = || {
            entry.wrong(
                self.file,
                "bssplit=SIZE/PERCENT:SIZE/PERCENT with a sum of 100, such as bssplit=4k/60:64k/40",
            )
        };
        let parts = units::directions(&entry.value).ok_or_else(wrong)?;
        for (slot, part) in self.spec.bs.iter_mut().zip(parts) {
            let Some(text) = part else { continue };
            let pairs: Option<Vec<(u64, Option<u64>)>> = text
                .split(':')
                .map(|pair| {
                    let (size, percent) = pair.split_once('/').unwrap_or((pair, ""));
                    let percent = if percent.is_empty() {
                        None
                    } else {
                        Some(percent.trim_end_matches('%').parse().ok()?)
                    };
                    Some((units::bytes(size, self.kb_base)?, percent))
                })
                .collect();
            let pairs = pairs.ok_or_else(wrong)?;
            *slot = BlockSize::Split(fill_shares(&pairs).filter(|s| s.len() <= 64).ok_or_else(wrong)?);
        }
        if parts.iter().all(Option::is_none) {
            return Err(wrong());
        }
        Ok(())
    }

    fn distribution(&mut self, entry: &Entry) -> Result<(), InputError> {
        let right = "random_distribution=random, zipf:THETA, pareto:H (0 < H < 1), normal:PERCENT or zoned:ACCESS/SIZE:ACCESS/SIZE";
        let wrong = || entry.wrong(self.file, right);
        let (word, rest) = entry.value.split_once([':', '=']).unwrap_or((&entry.value, ""));
        if word == "zoned" || word == "zoned_abs" {
            let parts = units::directions(rest).ok_or_else(wrong)?;
            for (slot, part) in self.spec.random_distribution.iter_mut().zip(parts) {
                let Some(text) = part else { continue };
                *slot = zones(text, word == "zoned_abs", self.kb_base).ok_or_else(wrong)?;
            }
            return if rest.is_empty() { Err(wrong()) } else { Ok(()) };
        }
        let mut numbers = rest.split(':');
        let first = units::decimal(numbers.next().unwrap_or(""));
        let centre = match numbers.next() {
            Some(text) => Some(units::decimal(text).filter(|c| *c <= 1.0).ok_or_else(wrong)?),
            None => None,
        };
        let value = match (word, first) {
            ("random", None) => Distribution::Random,
            ("zipf", Some(theta)) if theta > 0.0 && theta <= 100.0 => Distribution::Zipf { theta, centre },
            ("pareto", Some(h)) if (0.001..=0.999).contains(&h) => Distribution::Pareto { h, centre },
            ("normal" | "gauss", Some(d)) if (0.001..=100.0).contains(&d) => {
                Distribution::Normal { deviation: d, centre: centre.unwrap_or(0.5) }
            }
            _ => return Err(wrong()),
        };
        self.spec.random_distribution = [value.clone(), value.clone(), value];
        Ok(())
    }

    fn rate_iops(&mut self, entry: &Entry) -> Result<(), InputError> {
        let wrong =
            || entry.wrong(self.file, "rate_iops=N or rate_iops=READ,WRITE,TRIM in requests per second");
        let parts = units::directions(&entry.value).ok_or_else(wrong)?;
        for (slot, part) in self.spec.rate_iops.iter_mut().zip(parts) {
            *slot = match part {
                Some(text) => Some(units::count(text, self.kb_base).ok_or_else(wrong)?).filter(|n| *n > 0),
                None if entry.value.is_empty() => return Err(wrong()),
                None => None,
            };
        }
        if self.spec.rate_iops.iter().flatten().any(|n| *n > 1_000_000_000) {
            return Err(wrong());
        }
        Ok(())
    }

    fn amount(&mut self, entry: &Entry) -> Result<(), InputError> {
        let key = entry.canonical();
        let right = format!("{key}=SIZE in bytes with an optional k, m or g, or {key}=N% of the device");
        let amount = units::size(&entry.value, self.kb_base).ok_or_else(|| entry.wrong(self.file, &right))?;
        let over = matches!(amount, Amount::Percent(p) if p > 100 || p == 0);
        if over && key != "io_size" && !(amount == Amount::Percent(0) && key != "size") {
            return Err(entry.wrong(self.file, &format!("{key} between 1% and 100%")));
        }
        match key {
            "size" => self.spec.size = Some(amount).filter(|a| *a != Amount::Bytes(0)),
            "offset" => self.spec.offset = amount,
            "offset_increment" => self.spec.offset_increment = amount,
            _ => self.spec.io_size = Some(amount).filter(|a| *a != Amount::Bytes(0)),
        }
        Ok(())
    }

    fn time(&mut self, entry: &Entry) -> Result<(), InputError> {
        let (default_ns, right) = match entry.canonical() {
            "runtime" => {
                (1_000_000_000, "runtime=TIME in seconds, or with us, ms, s, m or h, such as runtime=30s")
            }
            _ => (1_000, "thinktime=TIME in microseconds, or with us, ms or s"),
        };
        let ns = units::time_ns(&entry.value, default_ns).ok_or_else(|| entry.wrong(self.file, right))?;
        match entry.canonical() {
            "runtime" => self.spec.runtime_ns = (ns > 0).then_some(ns),
            _ => self.spec.thinktime_ns = ns,
        }
        Ok(())
    }

    fn switch(&mut self, entry: &Entry) -> Result<(), InputError> {
        let key = entry.canonical();
        let on = units::switch(&entry.value)
            .ok_or_else(|| entry.wrong(self.file, &format!("{key}, {key}=1 or {key}=0")))?;
        match key {
            "time_based" => self.spec.time_based = on,
            "norandommap" => self.spec.norandommap = on,
            "group_reporting" => self.spec.group_reporting = on,
            "stonewall" => self.spec.stonewall = on,
            _ => self.spec.end_fsync |= on,
        }
        Ok(())
    }

    fn number(&mut self, entry: &Entry) -> Result<(), InputError> {
        let key = entry.canonical();
        let (low, high) = match key {
            "numjobs" => (1, 65_536),
            "iodepth" => (1, 1_048_576),
            "loops" | "thinktime_blocks" => (1, u64::MAX),
            "rwmixread" | "rwmixwrite" => (0, 100),
            _ => (0, u64::MAX),
        };
        let value = units::count(&entry.value, self.kb_base)
            .filter(|v| (low..=high).contains(v))
            .ok_or_else(|| {
                let right = match (low, high) {
                    (0, u64::MAX) => format!("{key}=N, a whole number"),
                    (1, u64::MAX) => format!("{key}=N, a whole number from 1"),
                    _ => format!("{key}=N, a whole number from {low} to {high}"),
                };
                entry.wrong(self.file, &right)
            })?;
        match key {
            "numjobs" => self.spec.numjobs = value as u32,
            "iodepth" => self.spec.iodepth = value as u32,
            "loops" => self.spec.loops = value,
            "thinktime_blocks" => self.spec.thinktime_blocks = value,
            "rwmixread" => self.spec.rwmixread = value as u32,
            "rwmixwrite" => self.spec.rwmixread = 100 - value as u32,
            "number_ios" => self.spec.number_ios = (value > 0).then_some(value),
            "randseed" => self.spec.randseed = Some(value),
            "offset_align" => self.spec.offset_align = value,
            "fsync" | "fdatasync" => self.spec.fsync_every = value,
            _ => unreachable!("{key} is in the table of honoured keys but not applied"),
        }
        Ok(())
    }
}

/// Percentages left blank share what is missing to 100 evenly; any other sum than 100 is refused.
fn fill_shares(pairs: &[(u64, Option<u64>)]) -> Option<Vec<(u64, u64)>> {
    let given =
        pairs.iter().filter_map(|p| p.1).try_fold(0u64, u64::checked_add).filter(|sum| *sum <= 100)?;
    let blanks = pairs.iter().filter(|p| p.1.is_none()).count() as u64;
    if blanks == 0 && given != 100 {
        return None;
    }
    // In units of 1 / (100 * blanks), so that an even split stays whole.
    let unit = blanks.max(1);
    Some(pairs.iter().map(|&(size, share)| (size, share.map_or(100 - given, |s| s * unit))).collect())
}

fn zones(text: &str, absolute: bool, kb_base: u64) -> Option<Distribution> {
    let pairs: Option<Vec<(u64, Option<Amount>)>> = text
        .split(':')
        .map(|pair| {
            let (access, size) = pair.split_once('/')?;
            let access = access.trim().trim_end_matches('%').parse().ok()?;
            let size = size.trim().trim_end_matches('%');
            let size = match (size.is_empty(), absolute) {
                (true, _) => None,
                (false, true) => Some(Amount::Bytes(units::bytes(size, kb_base)?)),
                (false, false) => Some(Amount::Percent(size.parse().ok()?)),
            };
            Some((access, size))
        })
        .collect();
    let pairs = pairs?;
    let sum = pairs.iter().try_fold(0u64, |sum, p| sum.checked_add(p.0))?;
    let percent = pairs.iter().try_fold(0u64, |sum, p| match p.1 {
        Some(Amount::Percent(percent)) => sum.checked_add(percent),
        _ => Some(sum),
    })?;
    let open = pairs.iter().filter(|p| p.1.is_none()).count();
    let fine = sum == 100
        && percent <= 100
        && pairs.len() <= 256
        && (open == 0 || open == 1 && pairs.last().is_some_and(|p| p.1.is_none()));
    fine.then_some(Distribution::Zoned(pairs))
}
