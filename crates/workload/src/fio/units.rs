//! fio's numbers: sizes, times, percentages, lists.

/// A number of bytes, or a share of the device in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Percent of the device; above 100 only where fio allows it (`io_size`).
    Percent(u64),
}

impl Amount {
    /// The amount in bytes on a device of `device_bytes`.
    pub fn of(self, device_bytes: u64) -> u64 {
        match self {
            Amount::Bytes(bytes) => bytes,
            Amount::Percent(percent) => {
                let bytes = u128::from(device_bytes) * u128::from(percent) / 100;
                u64::try_from(bytes).unwrap_or(u64::MAX)
            }
        }
    }
}

fn split_number(text: &str) -> Option<(u64, String)> {
    let text = text.trim();
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return Some((u64::from_str_radix(hex, 16).ok()?, String::new()));
    }
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number = text[..digits].parse().ok()?;
    Some((number, text[digits..].trim().to_ascii_lowercase()))
}

/// A size in fio's notation. `kb_base` is 1024 (fio's default: k = 1024, kib = 1000) or 1000 (k = 1000, kib =
/// 1024).
pub(super) fn size(text: &str, kb_base: u64) -> Option<Amount> {
    let (number, suffix) = split_number(text)?;
    if suffix == "%" {
        return Some(Amount::Percent(number));
    }
    // As the program does it (fio 3.33): only the full `kib` counts the other way, `ki` is the same as `k`.
    let (letter, base) = match suffix.as_bytes() {
        [] | [b'b'] => return Some(Amount::Bytes(number)),
        [letter] | [letter, b'b'] | [letter, b'i'] => (letter, kb_base),
        [letter, b'i', b'b'] => (letter, if kb_base == 1024 { 1000 } else { 1024 }),
        _ => return None,
    };
    let power = match letter {
        b'k' => 1,
        b'm' => 2,
        b'g' => 3,
        b't' => 4,
        b'p' => 5,
        _ => return None,
    };
    Some(Amount::Bytes(number.checked_mul(base.pow(power))?))
}

/// True when the text uses kib, mib, gib ..., which are powers of 1000 under fio's default.
pub(super) fn has_iec_suffix(text: &str) -> bool {
    text.split([',', ':', '-', '/']).any(|part| match split_number(part) {
        Some((_, suffix)) => suffix.ends_with("ib"),
        None => false,
    })
}

/// A plain size in bytes, no percentage.
pub(super) fn bytes(text: &str, kb_base: u64) -> Option<u64> {
    match size(text, kb_base)? {
        Amount::Bytes(bytes) => Some(bytes),
        Amount::Percent(_) => None,
    }
}

/// A time in nanoseconds; a number without a unit counts `default_ns` each.
pub(super) fn time_ns(text: &str, default_ns: u64) -> Option<u64> {
    let (number, suffix) = split_number(text)?;
    let unit: u64 = match suffix.as_str() {
        "" => default_ns,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// A decimal number such as `1.2`, not negative and finite.
pub(super) fn decimal(text: &str) -> Option<f64> {
    let value: f64 = text.trim().parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value)
}

/// A whole number; fio allows suffixes on these as well (`number_ios=10k`).
pub(super) fn count(text: &str, kb_base: u64) -> Option<u64> {
    bytes(text, kb_base)
}

/// A switch: nothing, 1 or true; 0 or false.
pub(super) fn switch(text: &str) -> Option<bool> {
    match text.trim() {
        "" | "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

/// Up to three comma-separated parts for read, write and trim. A missing part repeats the one before it; an
/// empty one keeps the default (`None`), and a trailing comma ends the repetition, as in fio.
pub(super) fn directions(text: &str) -> Option<[Option<&str>; 3]> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > 3 {
        return None;
    }
    let mut out = [None; 3];
    for (i, slot) in out.iter_mut().enumerate() {
        let part = parts[i.min(parts.len() - 1)];
        *slot = (!part.is_empty()).then_some(part);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_fio() {
        let cases = [
            ("4096", 4096),
            ("4k", 4096),
            ("4K", 4096),
            ("4kb", 4096),
            ("4kB", 4096),
            ("4 k", 4096),
            ("4ki", 4096),
            ("4kiB", 4000),
            ("1m", 1 << 20),
            ("3G", 3 << 30),
            ("2t", 2 << 40),
            ("0x1000", 4096),
            ("512b", 512),
        ];
        for (text, value) in cases {
            assert_eq!(size(text, 1024), Some(Amount::Bytes(value)), "{text}");
        }
        assert_eq!(size("4k", 1000), Some(Amount::Bytes(4000)));
        assert_eq!(size("4KiB", 1000), Some(Amount::Bytes(4096)));
        assert_eq!(size("20%", 1024), Some(Amount::Percent(20)));
        for text in ["", "k", "4q", "-4k", "4.5k", "4kk", "99999999999t", "4i", "4ib", "4kbi", "4kibb"] {
            assert_eq!(size(text, 1024), None, "{text}");
        }
        assert!(has_iec_suffix("4kib,8k") && !has_iec_suffix("4k:8k/3g"));
    }

    #[test]
    fn times_follow_fio() {
        for (text, ns) in [
            ("10", 10_000_000_000),
            ("5ms", 5_000_000),
            ("7us", 7_000),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
        ] {
            assert_eq!(time_ns(text, 1_000_000_000), Some(ns), "{text}");
        }
        assert_eq!(time_ns("30", 1_000), Some(30_000));
        assert_eq!(time_ns("1w", 1), None);
    }

    #[test]
    fn directions_repeat_the_last() {
        assert_eq!(directions("4k"), Some([Some("4k"); 3]));
        assert_eq!(directions("8k,32k"), Some([Some("8k"), Some("32k"), Some("32k")]));
        assert_eq!(directions("8k,32k,"), Some([Some("8k"), Some("32k"), None]));
        assert_eq!(directions(",8k"), Some([None, Some("8k"), Some("8k")]));
        assert_eq!(directions(",8k,"), Some([None, Some("8k"), None]));
        assert_eq!(directions("1,2,3,4"), None);
    }
}
