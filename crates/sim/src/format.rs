//! Numbers for people: three significant digits, a unit, and a dash where there is nothing to say.

/// What stands where a number has no meaning.
pub const NOTHING: &str = "-";

/// Three significant digits without an exponent, for numbers below a million.
pub fn digits(value: f64) -> String {
    finer(value, 0)
}

/// The same with so many digits more.
fn finer(value: f64, more: i32) -> String {
    // Rounded first, so that 9.996 becomes 10.0 and not 10.00.
    let places = |value: f64| match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 || v == 0.0 => 2,
        v if v >= 0.1 => 3,
        _ => 4,
    };
    let places = |value: f64| places(value) + more;
    let first = places(value);
    let rounded = (value * 10_f64.powi(first)).round() / 10_f64.powi(first);
    let places = if value == 0.0 { 0 } else { places(rounded).min(first) as usize };
    format!("{rounded:.places$}")
}

fn scaled(value: f64, base: f64, units: &[&str], more: i32) -> String {
    let mut value = value;
    let mut index = 0;
    // 999.5 would print as 1000 of the smaller unit.
    while value.abs() >= base - 0.5 && index + 1 < units.len() {
        value /= base;
        index += 1;
    }
    format!("{} {}", finer(value, more), units[index]).trim_end().to_owned()
}

/// A count: `512`, `85.3 K`, `1.02 M`.
pub fn count(value: f64) -> String {
    finer_count(value, 0)
}

fn finer_count(value: f64, more: i32) -> String {
    if value.fract() == 0.0 && value.abs() < 1000.0 {
        return format!("{value:.0}");
    }
    scaled(value, 1000.0, &["", "K", "M", "G", "T"], more)
}

/// A whole number with thousands apart: `12 345 678`.
pub fn whole(value: u64) -> String {
    let plain = value.to_string();
    let mut out = String::with_capacity(plain.len() + plain.len() / 3);
    for (index, digit) in plain.chars().enumerate() {
        if index > 0 && (plain.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// A size: `512 B`, `1.84 MiB`, `30 GiB`; whole multiples of a unit without decimals.
pub fn bytes(value: u64) -> String {
    finer_bytes(value, 0)
}

fn finer_bytes(value: u64, more: i32) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut rest = value;
    while rest >= 1024 && rest.is_multiple_of(1024) && unit + 1 < UNITS.len() {
        rest /= 1024;
        unit += 1;
    }
    if rest < 1024 {
        return format!("{rest} {}", UNITS[unit]);
    }
    scaled(value as f64, 1024.0, &UNITS, more)
}

/// A time in nanoseconds: `40 ns`, `40.2 µs`, `1.53 ms`, `12.0 s`.
pub fn time(ns: f64) -> String {
    finer_time(ns, 0)
}

fn finer_time(ns: f64, more: i32) -> String {
    scaled(ns, 1000.0, &["ns", "µs", "ms", "s"], more)
}

/// A configured time, in whole nanoseconds: `40 µs`, `1.5 ms`; never rounded.
pub fn exact_time(ns: u64) -> String {
    let (divisor, unit) = match ns {
        0..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "µs"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    format!("{} {unit}", ns as f64 / divisor as f64)
}

/// A share of one in percent: `45.2 %`, `0.031 %`, `100 %`; more than one, too: `322 %`.
pub fn percent(share: f64) -> String {
    finer_percent(share, 0)
}

fn finer_percent(share: f64, more: i32) -> String {
    let value = share * 100.0;
    match value {
        0.0 => "0 %".to_owned(),
        // Only a share of exactly one may read as all of it.
        v if (99.95..100.0).contains(&v) => format!("{:.3} %", v.min(99.999)),
        v if v >= 100.0 => format!("{} %", finer(v, more)),
        v if v >= 0.1 => format!("{v:.*} %", 1 + more as usize),
        v => format!("{} %", finer(v, more)),
    }
}

/// A ratio: `1.00`, `10.1`.
pub fn factor(value: f64) -> String {
    digits(value)
}

/// Bytes per second in MiB/s, with three digits.
pub fn mib_per_s(bytes_per_s: f64) -> String {
    let value = bytes_per_s / (1024.0 * 1024.0);
    if value >= 1000.0 {
        format!("{value:.0}")
    } else {
        digits(value)
    }
}

/// Energy: `1.53 mJ`, `12.0 J`.
pub fn energy(joule: f64) -> String {
    finer_energy(joule, 0)
}

fn finer_energy(joule: f64, more: i32) -> String {
    scaled(joule * 1e9, 1000.0, &["nJ", "µJ", "mJ", "J", "kJ"], more)
}

/// `of` applied to a number that exists; a dash otherwise.
pub fn maybe(value: Option<f64>, of: impl Fn(f64) -> String) -> String {
    value.filter(|value| value.is_finite()).map_or_else(|| NOTHING.to_owned(), of)
}

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A share of one, as percent.
    Share,
    /// A ratio of two numbers of one unit, such as write amplification.
    Factor,
    /// A count, written with a suffix for thousands and millions.
    Count,
    /// Microseconds.
    Micros,
    /// Joule.
    Joule,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    Rate,
}

impl Unit {
    /// A number in words.
    pub fn show(self, value: f64) -> String {
        self.show_finer(value, 0)
    }

    /// The same with so many digits more, up to 12.
    pub fn show_finer(self, value: f64, more: u32) -> String {
        let more = more.min(12) as i32;
        match self {
            Unit::Share if value < 0.0 => format!("-{}", self.show_finer(-value, more as u32)),
            // Savings and shares end at one; increases do not.
            Unit::Share if value > 1.0 => format!("{} %", finer(value * 100.0, more)),
            Unit::Share => finer_percent(value, more),
            Unit::Factor => finer(value, more),
            Unit::Count => finer_count(value, more),
            Unit::Micros => finer_time(value * 1000.0, more),
            Unit::Joule => finer_energy(value, more),
            Unit::Bytes => finer_bytes(value as u64, more),
            Unit::Rate => format!("{} MiB/s", finer(value / f64::from(1 << 20), more)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_digits_tell_near_numbers_apart() {
        let finer = |unit: Unit, value, more| unit.show_finer(value, more);
        assert_eq!(finer(Unit::Bytes, 30.8125 * f64::from(1 << 30), 0), "30.8 GiB");
        assert_eq!(finer(Unit::Bytes, 30.8125 * f64::from(1 << 30), 2), "30.813 GiB");
        assert_eq!(finer(Unit::Count, 1_234_560.0, 2), "1.2346 M");
        assert_eq!(finer(Unit::Micros, 1534.0, 1), "1.534 ms");
        assert_eq!(finer(Unit::Share, 0.45678, 2), "45.678 %");
        assert_eq!(finer(Unit::Factor, 100.25, 1), "100.3");
    }

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!(count(512.0), "512");
        assert_eq!(count(943_210.0), "943 K");
        assert_eq!(count(999_960.0), "1.00 M");
        assert_eq!(count(12.34), "12.3");
        assert_eq!(whole(12_345_678), "12 345 678");
        assert_eq!(bytes(32 << 30), "32 GiB");
        assert_eq!(bytes(1_932_735), "1.84 MiB");
        assert_eq!(bytes(0), "0 B");
        assert_eq!(time(40_200.0), "40.2 µs");
        assert_eq!(time(999.9), "1.00 µs");
        assert_eq!(exact_time(130_900), "130.9 µs");
        assert_eq!(percent(0.452), "45.2 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(0.99999), "99.999 %");
        assert_eq!(percent(1.75), "175 %");
        assert_eq!(percent(12.0), "1200 %");
        assert_eq!(factor(9.996), "10.0");
        assert_eq!(factor(1.0), "1.00");
        assert_eq!(energy(0.0123), "12.3 mJ");
        assert_eq!(maybe(Some(f64::NAN), factor), "-");
        assert_eq!(maybe(None, factor), "-");
    }
}
