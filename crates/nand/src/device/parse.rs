//! Device files: TOML with fixed keys, and errors that name file, line and key.

use serde::de::{self, Deserialize, Deserializer, Visitor};
use toml::de::{DeTable, DeValue};

use super::{DeviceError, DeviceSpec};
use crate::energy::EnergyModel;
use crate::timing::Policy;
use crate::Geometry;

/// The whole file.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceFile {
    name: String,
    #[serde(default)]
    what: String,
    exported: Size,
    sram: Option<Size>,
    endurance: Option<u32>,
    #[serde(default)]
    factory_bad_ppm: u32,
    #[serde(default)]
    policy: PolicyName,
    geometry: GeometrySection,
    times: TimesSection,
    #[serde(default)]
    host: HostSection,
    #[serde(default)]
    controller: ControllerSection,
    #[serde(default)]
    energy: EnergyModel,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct GeometrySection {
    channels: u32,
    luns_per_channel: u32,
    planes_per_lun: u32,
    blocks_per_plane: u32,
    pages_per_block: u32,
    page_bytes: u32,
    oob_bytes: u32,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct TimesSection {
    read_us: f64,
    program_us: f64,
    erase_us: f64,
    #[serde(default)]
    suspend_us: f64,
    #[serde(default)]
    channel_mb_s: f64,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HostSection {
    overhead_us: f64,
    cpus: u32,
}

impl Default for HostSection {
    fn default() -> HostSection {
        HostSection { overhead_us: 0.0, cpus: 1 }
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ControllerSection {
    cores: u32,
}

impl Default for ControllerSection {
    fn default() -> ControllerSection {
        ControllerSection { cores: 1 }
    }
}

#[derive(Clone, Copy, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PolicyName {
    #[default]
    Fcfs,
    HostReadsFirst,
    Suspend,
}

/// Bytes, as an integer or as text with a unit.
struct Size(u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        struct SizeVisitor;
        impl Visitor<'_> for SizeVisitor {
            type Value = Size;

            fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
                formatter.write_str("a size: bytes as an integer, or text such as \"30GiB\"")
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Size, E> {
                u64::try_from(bytes)
                    .map(Size)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(bytes), &self))
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Size, E> {
                Ok(Size(bytes))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                parse_size(text).map(Size).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(SizeVisitor)
    }
}

/// A text that [`parse_size`] does not take for a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no size; write bytes, or a whole number with KiB, MiB, GiB or TiB")]
pub struct SizeError(pub String);

/// Bytes of a size such as `4096`, `512MiB` or `30 GiB`; `KB`, `MB`, `GB`, `TB` are powers of 1000.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(trimmed.len());
    let (number, unit) = (trimmed[..digits].replace('_', ""), trimmed[digits..].trim());
    let scale: Option<u64> = match unit {
        "" | "B" => Some(1),
        "KiB" | "K" | "k" => Some(1 << 10),
        "MiB" | "M" => Some(1 << 20),
        "GiB" | "G" => Some(1 << 30),
        "TiB" | "T" => Some(1 << 40),
        "KB" | "kB" => Some(1_000),
        "MB" => Some(1_000_000),
        "GB" => Some(1_000_000_000),
        "TB" => Some(1_000_000_000_000),
        _ => None,
    };
    let bytes = scale.zip(number.parse::<u64>().ok()).and_then(|(scale, number)| number.checked_mul(scale));
    bytes.ok_or_else(|| SizeError(text.to_owned()))
}

pub(super) fn parse(file: &str, text: &str) -> Result<DeviceSpec, DeviceError> {
    let error = |line: usize, what: String| DeviceError::File { file: file.into(), line, what };
    let parsed: DeviceFile = toml::from_str(text).map_err(|e| {
        let (line, what) = in_words(text, &e);
        error(line, what)
    })?;
    let ns = |key: &str, us: f64| {
        if (0.0..=1e9).contains(&us) {
            return Ok((us * 1e3).round() as u64);
        }
        Err(error(line_of(text, key), format!("{key} is {us}; it must be a number from 0 to 1000000000")))
    };
    let GeometrySection {
        channels,
        luns_per_channel,
        planes_per_lun,
        blocks_per_plane,
        pages_per_block,
        page_bytes,
        oob_bytes,
    } = parsed.geometry;
    let mut device = DeviceSpec {
        name: parsed.name,
        what: parsed.what,
        geometry: Geometry {
            channels,
            luns_per_channel,
            planes_per_lun,
            blocks_per_plane,
            pages_per_block,
            page_bytes,
            oob_bytes,
        },
        read_ns: ns("times.read_us", parsed.times.read_us)?,
        program_ns: ns("times.program_us", parsed.times.program_us)?,
        erase_ns: ns("times.erase_us", parsed.times.erase_us)?,
        suspend_ns: ns("times.suspend_us", parsed.times.suspend_us)?,
        channel_mb_s: parsed.times.channel_mb_s,
        // Until the geometry is known to be sound.
        exported_pages: 1,
        factory_bad_ppm: parsed.factory_bad_ppm,
        policy: match parsed.policy {
            PolicyName::Fcfs => Policy::Fcfs,
            PolicyName::HostReadsFirst => Policy::HostReadsFirst,
            PolicyName::Suspend => Policy::Suspend,
        },
        host_overhead_ns: ns("host.overhead_us", parsed.host.overhead_us)?,
        host_cpus: parsed.host.cpus,
        controller_cores: parsed.controller.cores,
        sram_bytes: parsed.sram.map(|size| size.0),
        endurance: parsed.endurance,
        energy: parsed.energy,
    };
    let in_file = |problem: super::Problem| error(line_of(text, &problem.key), problem.what);
    device.problem().map_or(Ok(()), |problem| Err(in_file(problem)))?;
    device.exported_pages = device.exported_pages_of(parsed.exported.0).map_err(in_file)?;
    device.exported_problem().map_or(Ok(device), |problem| Err(in_file(problem)))
}

/// Line of a dotted key; of its section if the key is not there; 1 otherwise.
fn line_of(text: &str, dotted: &str) -> usize {
    let Ok(root) = DeTable::parse(text) else { return 1 };
    let mut table = root.get_ref();
    let mut at = 0;
    for part in dotted.split('.') {
        let Some((key, value)) = table.get_key_value(part) else { break };
        at = key.span().start;
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    line_at(text, at)
}

fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// Line of a TOML or serde error, and our sentence for it.
fn in_words(text: &str, error: &toml::de::Error) -> (usize, String) {
    let line = line_at(text, error.span().map_or(0, |span| span.start));
    let message = error.message().lines().collect::<Vec<_>>().join(", ");
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let (key, expected) = rest.split_once(", expected ").unwrap_or((rest, ""));
        let known = expected.strip_prefix("one of ").unwrap_or(expected);
        return (line, format!("unknown key {key}; the keys here are {known}"));
    }
    if let Some(key) = message.strip_prefix("missing field ") {
        let section = section_at(text, line).map_or("the device".into(), |name| format!("[{name}]"));
        return (line, format!("{section} lacks the key {key}; add {}", example(key.trim_matches('`'))));
    }
    let wrong_value = ["invalid type", "invalid value", "unknown variant"];
    if wrong_value.iter().any(|start| message.starts_with(start)) || message.contains(" is no size") {
        let message = message
            .replace("expected u32", "expected a whole number from 0 to 4294967295")
            .replace("expected f64", "expected a number");
        return (line, format!("{}: {message}", key_at(text, line)));
    }
    (line, format!("{message}; a device file is TOML, a key, `=` and a value on each line"))
}

/// The section that line `line` (from 1) lies in.
fn section_at(text: &str, line: usize) -> Option<&str> {
    let header =
        |line: &'_ str| line.trim().strip_prefix('[').and_then(|rest| rest.split(']').next()).map(str::len);
    text.lines()
        .take(line)
        .filter(|line| header(line).is_some())
        .last()
        .map(|line| line.trim().trim_start_matches('[').split(']').next().unwrap_or_default())
}

/// The dotted key set on line `line` (from 1).
fn key_at(text: &str, line: usize) -> String {
    let key = text.lines().nth(line - 1).and_then(|line| line.split('=').next()).unwrap_or_default().trim();
    match section_at(text, line) {
        Some(section) if !key.is_empty() => format!("{section}.{key}"),
        _ => key.to_string(),
    }
}

/// What a missing key could look like.
fn example(key: &str) -> &'static str {
    match key {
        "name" => "`name = \"my-ssd\"`",
        "exported" => "`exported = \"30GiB\"`, the capacity that the host sees",
        "geometry" => {
            "a section `[geometry]` with channels, luns_per_channel, planes_per_lun, blocks_per_plane, \
                       pages_per_block, page_bytes and oob_bytes"
        }
        "times" => "a section `[times]` with read_us, program_us and erase_us",
        "channels" => "`channels = 8`",
        "luns_per_channel" => "`luns_per_channel = 8`",
        "planes_per_lun" => "`planes_per_lun = 1`",
        "blocks_per_plane" => "`blocks_per_plane = 256`",
        "pages_per_block" => "`pages_per_block = 512`",
        "page_bytes" => "`page_bytes = 4096`",
        "oob_bytes" => "`oob_bytes = 64`",
        "read_us" => "`read_us = 40`",
        "program_us" => "`program_us = 200`",
        "erase_us" => "`erase_us = 2000`",
        "supply_v" => "`supply_v = 3.3`",
        "read_ma" | "program_ma" | "erase_ma" | "transfer_ma" => "its current in mA, such as 25",
        "idle_ma" => "`idle_ma = 0.01`",
        _ => "it",
    }
}
