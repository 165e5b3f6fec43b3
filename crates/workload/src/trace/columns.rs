//! Any table as a trace: the user names its columns and their units.

use std::str::FromStr;

use super::fields::{Fields, Separator};
use super::format::{Parsed, Row};
use crate::{InputError, Kind};

const FORM: &str = "write time=1:us,op=3,lba=4:sectors,size=5:bytes";

/// Which column of a table holds what, and its unit.
///
/// | part | holds | units |
/// | --- | --- | --- |
/// | `time` | when the request was issued; without it all arrive at once, for a closed replay | `s` (unless given), `ms`, `us`, `ns`, `filetime` (100 ns) |
/// | `op` | a word that begins with r, w, t or d (trim, discard) or f (flush); `op=3:write=1` takes `1` for a write and all else for a read; without it all are reads | |
/// | `lba` | the first address | `bytes` (unless given), `sectors` (512 B), or a size such as `4KiB` |
/// | `size` | the length | as `lba` |
/// | `device` | the device or volume, for traces of several | |
///
/// A column is its number from 1, or its name in the first row.
///
/// ```
/// use workload::trace::Columns;
/// assert!("time=1:us,op=3,lba=4:sectors,size=5:bytes".parse::<Columns>().is_ok());
/// assert!("time=ts:ms,lba=offset,size=length,device=volume".parse::<Columns>().is_ok());
/// assert!("time=1".parse::<Columns>().is_err()); // no lba and no size
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    time: Option<(Place, u32)>,
    op: Option<(Place, Option<String>)>,
    lba: (Place, u64),
    size: (Place, u64),
    device: Option<Place>,
}

/// A column, by its number from 0 or by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Number(usize),
    Name(String),
}

impl FromStr for Columns {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Columns, InputError> {
        let wrong = |what: String| InputError::in_file("", what);
        let (mut time, mut op, mut lba, mut size, mut device) = (None, None, None, None, None);
        for part in text.split(',') {
            let (key, rest) =
                part.split_once('=').ok_or_else(|| wrong(format!("`{part}` names no column; {FORM}")))?;
            let (column, unit) = match rest.split_once(':') {
                Some((column, unit)) => (column, Some(unit)),
                None => (rest, None),
            };
            let place = Place::parse(column)
                .ok_or_else(|| wrong(format!("`{part}` names no column: columns count from 1; {FORM}")))?;
            let unknown = |known: &str| {
                wrong(format!("`{part}` has the unit {}; known are {known}", unit.unwrap_or_default()))
            };
            let before = match key {
                "time" => {
                    let power = power(unit).ok_or_else(|| unknown("s, ms, us, ns, filetime"))?;
                    time.replace((place, power)).is_some()
                }
                "lba" | "size" => {
                    let bytes = bytes(unit).ok_or_else(|| unknown("bytes, sectors, or a size as 4KiB"))?;
                    if key == "lba" { &mut lba } else { &mut size }.replace((place, bytes)).is_some()
                }
                "op" => {
                    let word = match unit.map(|unit| unit.strip_prefix("write=")) {
                        None => None,
                        Some(Some(word)) if !word.is_empty() => Some(word.to_owned()),
                        Some(_) => return Err(unknown("write=WORD, where WORD stands for a write")),
                    };
                    op.replace((place, word)).is_some()
                }
                "device" if unit.is_some() => return Err(unknown("none: device has no unit")),
                "device" => device.replace(place).is_some(),
                _ => {
                    let what = "a trace has time, op, lba, size, device";
                    return Err(wrong(format!("`{key}` is not known; {what}; {FORM}")));
                }
            };
            if before {
                return Err(wrong(format!("`{text}` gives {key} twice; give it once")));
            }
        }
        let needed = |key: &str| wrong(format!("`{text}` names no column for {key}; {FORM}"));
        let lba = lba.ok_or_else(|| needed("lba"))?;
        Ok(Columns { time, op, lba, size: size.ok_or_else(|| needed("size"))?, device })
    }
}

/// The power of ten that turns a time into nanoseconds.
fn power(unit: Option<&str>) -> Option<u32> {
    Some(match unit {
        None | Some("s") => 9,
        Some("ms") => 6,
        Some("us") => 3,
        Some("filetime") => 2,
        Some("ns") => 0,
        _ => return None,
    })
}

fn bytes(unit: Option<&str>) -> Option<u64> {
    match unit {
        None | Some("bytes") => Some(1),
        Some("sectors") => Some(512),
        Some(size) => {
            let digits = size.find(|c: char| !c.is_ascii_digit())?;
            let scale = match &size[digits..] {
                "B" => 1,
                "KiB" => 1 << 10,
                "MiB" => 1 << 20,
                _ => return None,
            };
            size[..digits].parse::<u64>().ok().filter(|n| (1..=1 << 20).contains(n)).map(|n| n * scale)
        }
    }
}

impl Place {
    fn parse(text: &str) -> Option<Place> {
        match text.parse::<usize>() {
            Ok(number) => number.checked_sub(1).map(Place::Number),
            Err(_) if text.is_empty() => None,
            Err(_) => Some(Place::Name(text.to_owned())),
        }
    }
}

/// [`Columns`] of one file: every column by its number.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    separator: Separator,
    time: Option<(usize, u32)>,
    op: Option<(usize, Option<Vec<u8>>)>,
    lba: (usize, u64),
    size: (usize, u64),
    device: Option<usize>,
    /// The first row has not been read: it may hold names.
    first: bool,
}

impl Layout {
    /// Finds the columns in the first row of a text.
    ///
    /// # Errors
    /// One sentence on a name that the row does not have.
    pub(super) fn of(columns: &Columns, text: &[u8]) -> Result<Layout, String> {
        let mut rows = text.split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
        let first = rows.find(|row| !row.is_empty() && row[0] != b'#').unwrap_or(b"");
        let separator = [b',', b';', b'\t', b'|'].into_iter().find(|byte| first.contains(byte));
        let separator = separator.map_or(Separator::Space, Separator::Byte);
        let mut fields = Fields::new(first, separator);
        let names: Vec<String> =
            std::iter::from_fn(|| fields.next()).map(|f| String::from_utf8_lossy(f).into_owned()).collect();
        let number = |place: &Place| match place {
            Place::Number(number) if *number < names.len() => Ok(*number),
            Place::Number(number) => {
                Err(format!("there is no column {}; the first row has {}", number + 1, names.len()))
            }
            Place::Name(name) => {
                let found = names.iter().position(|known| known.eq_ignore_ascii_case(name));
                found.ok_or_else(|| {
                    let known: Vec<&str> = names.iter().take(20).map(String::as_str).collect();
                    format!("there is no column {name}; the first row has {}", known.join(", "))
                })
            }
        };
        Ok(Layout {
            separator,
            time: columns
                .time
                .as_ref()
                .map(|(at, power)| Ok::<_, String>((number(at)?, *power)))
                .transpose()?,
            op: match &columns.op {
                Some((at, word)) => Some((number(at)?, word.as_ref().map(|word| word.clone().into_bytes()))),
                None => None,
            },
            lba: (number(&columns.lba.0)?, columns.lba.1),
            size: (number(&columns.size.0)?, columns.size.1),
            device: columns.device.as_ref().map(number).transpose()?,
            first: true,
        })
    }

    pub(super) fn has_devices(&self) -> bool {
        self.device.is_some()
    }

    pub(super) fn read<'a>(&mut self, line: &'a [u8]) -> Parsed<'a> {
        let first = std::mem::take(&mut self.first);
        match self.request(line) {
            // Names of columns are no numbers.
            Err(_) if first && self.column(line, self.size.0).whole("size").is_err() => Ok(None),
            read => read,
        }
    }

    fn column<'a>(&self, line: &'a [u8], number: usize) -> Fields<'a> {
        let mut fields = Fields::new(line, self.separator);
        fields.skip(number);
        fields
    }

    fn request<'a>(&self, line: &'a [u8]) -> Parsed<'a> {
        let time_ns = match self.time {
            Some((at, power)) => self.column(line, at).decimal("time", power)?,
            None => 0,
        };
        let kind = match &self.op {
            None => Kind::Read,
            Some((at, None)) => self.column(line, *at).one_of("op", WORDS, kind)?,
            Some((at, Some(write))) => match self.column(line, *at).text("op")? == write.as_slice() {
                true => Kind::Write,
                false => Kind::Read,
            },
        };
        let device = match self.device {
            Some(at) => self.column(line, at).text("device")?,
            None => b"",
        };
        if kind == Kind::Flush {
            return Ok(Some(Row::plain(time_ns, device, kind, 0, 0)));
        }
        let offset = self.column(line, self.lba.0).scaled("lba", self.lba.1)?;
        let bytes = self.column(line, self.size.0).scaled("size", self.size.1)?;
        Ok(Some(Row::plain(time_ns, device, kind, offset, bytes)))
    }
}

const WORDS: &str =
    "read, write, trim or flush, or a word that begins like one of them (for others, such as 0 and 1, \
                     say which is a write: op=3:write=1)";

fn kind(word: &[u8]) -> Option<Kind> {
    Some(match word.first()?.to_ascii_lowercase() {
        b'r' => Kind::Read,
        b'w' => Kind::Write,
        b't' | b'd' => Kind::Trim,
        b'f' => Kind::Flush,
        _ => return None,
    })
}

/// What a row is, in the message on one that is not understood.
pub(super) const ROW: &str = "what option columns says";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_in_the_option_gets_a_sentence() {
        for (text, part) in [
            ("", "names no column"),
            ("time=1", "names no column for lba"),
            ("lba=1", "names no column for size"),
            ("lba=0,size=2", "count from 1"),
            ("lba=1,lba=2,size=3", "gives lba twice"),
            ("lba=1:miles,size=2", "known are bytes, sectors"),
            ("lba=1:0KiB,size=2", "known are bytes, sectors"),
            ("time=1:h,lba=1,size=2", "known are s, ms, us, ns, filetime"),
            ("op=1:w,lba=1,size=2", "write=WORD"),
            ("device=1:x,lba=1,size=2", "device has no unit"),
            ("latency=1", "`latency` is not known"),
        ] {
            let error = text.parse::<Columns>().err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
