//! Axes: where a value lies along one, and the values that are marked on it.

use serde_json::{json, Value};
use sim::format::Unit;

/// Marks that an axis has, about.
const MARKS: f64 = 5.0;

/// Digits more than three that marks have, at most.
const MORE_DIGITS: u32 = 9;

/// An axis with its range and its marks. Times are in microseconds.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// What is shown along it.
    pub title: String,
    /// How its values are written.
    pub unit: Unit,
    /// Places by name in place of numbers; a place's value is its index.
    pub names: Vec<String>,
    /// Values that are marked, and their words.
    pub marks: Vec<(f64, String)>,
    log: bool,
    low: f64,
    high: f64,
}

impl Axis {
    /// From zero, or from less if a value is, to a round number that no value exceeds.
    pub fn from_zero(title: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Axis {
        Axis::linear(title, unit, ends(values.chain([0.0])))
    }

    /// Between round numbers that hold all values.
    pub fn around(title: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Axis {
        Axis::linear(title, unit, ends(values))
    }

    /// From the least value to the greatest.
    pub fn between(title: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = ends(values);
        let marks = marks_between(unit, low, high, round_up(unit, (high - low) / MARKS));
        Axis { title: title.to_owned(), unit, names: Vec::new(), marks, log: false, low, high }
    }

    /// From nothing to all.
    pub fn shares(title: &str) -> Axis {
        Axis::linear(title, Unit::Share, (0.0, 1.0))
    }

    /// Logarithmic; values that are not positive have no place on it.
    pub fn log(title: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = ends(values.filter(|value| *value > 0.0));
        let (low, high) = (low / 1.1, high * 1.1);
        let marks = log_marks(unit, low, high);
        Axis { title: title.to_owned(), unit, names: Vec::new(), marks, log: true, low, high }
    }

    /// Places side by side.
    pub fn set(title: &str, names: Vec<String>) -> Axis {
        let (low, high) = (-0.5, names.len() as f64 - 0.5);
        let marks = names.iter().enumerate().map(|(index, name)| (index as f64, name.clone())).collect();
        Axis { title: title.to_owned(), unit: Unit::Count, names, marks, log: false, low, high }
    }

    fn linear(title: &str, unit: Unit, (least, most): (f64, f64)) -> Axis {
        let step = round_up(unit, (most - least) / MARKS);
        let (low, high) = ((least / step + 1e-9).floor() * step, (most / step - 1e-9).ceil() * step);
        let marks = marks_between(unit, low, high, step);
        Axis { title: title.to_owned(), unit, names: Vec::new(), marks, log: false, low, high }
    }

    /// The share of the axis that lies before a value; `None` where the value has no place.
    pub fn at(&self, value: f64) -> Option<f64> {
        let share = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        share.is_finite().then_some(share)
    }

    /// What `page.js` needs to turn places into words: the axis runs between these two of the drawing.
    pub fn described(&self, from: f64, to: f64) -> Value {
        let unit = format!("{:?}", self.unit).to_lowercase();
        let Axis { low, high, log, names, .. } = self;
        json!({ "low": low, "high": high, "log": log, "names": names, "unit": unit, "from": from, "to": to })
    }

    /// Its title as the heading of a column of plain numbers.
    pub fn column(&self) -> String {
        let unit = match self.unit {
            _ if !self.names.is_empty() => return self.title.clone(),
            Unit::Share | Unit::Factor | Unit::Count => return self.title.clone(),
            Unit::Micros => "us",
            Unit::Joule => "J",
            Unit::Bytes => "bytes",
            Unit::Rate => "bytes/s",
        };
        format!("{} ({unit})", self.title)
    }
}

/// The least and the greatest of some numbers, apart from each other.
pub(super) fn ends(numbers: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = numbers.filter(|number| number.is_finite());
    let (least, most) = finite.fold((f64::MAX, f64::MIN), |(least, most), x| (least.min(x), most.max(x)));
    match (least < most, least < f64::MAX) {
        (true, _) => (least, most),
        (false, true) => (least, least + if least == 0.0 { 1.0 } else { least.abs() }),
        (false, false) => (1.0, 2.0),
    }
}

/// The least round number that is not below `value`: 1, 2 or 5 times a power of ten, for bytes a power of
/// two.
fn round_up(unit: Unit, value: f64) -> f64 {
    if unit == Unit::Bytes {
        return value.log2().ceil().exp2().max(1.0);
    }
    let base = if unit == Unit::Rate { f64::from(1 << 20) } else { 1.0 };
    let power = base * 10_f64.powf((value / base).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= value * (1.0 - 1e-9)).unwrap_or(value)
}

fn marks_between(unit: Unit, low: f64, high: f64, step: f64) -> Vec<(f64, String)> {
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    marked(unit, (first..=last).map(|index| index as f64 * step).collect())
}

/// Round values on a logarithmic axis, few enough for a reader to tell apart.
fn log_marks(unit: Unit, low: f64, high: f64) -> Vec<(f64, String)> {
    let mut values: Vec<f64> = Vec::new();
    if unit == Unit::Bytes {
        let (first, last) = (low.log2().ceil() as i32, high.log2().floor() as i32);
        let stride = ((last - first) / MARKS as i32 + 1).max(1);
        values.extend((first..=last).step_by(stride as usize).map(|power| f64::from(power).exp2()));
    } else {
        let steps: &[f64] = match (high / low).log10() {
            decades if decades < 1.3 => &[1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0],
            decades if decades < 2.5 => &[1.0, 2.0, 5.0],
            decades if decades < 4.0 => &[1.0, 3.0],
            _ => &[1.0],
        };
        for power in low.log10().floor() as i32..=high.log10().ceil() as i32 {
            values.extend(steps.iter().map(|step| step * 10_f64.powi(power)));
        }
        values.retain(|value| (low..=high).contains(value));
    }
    if values.len() < 2 {
        return marks_between(unit, low, high, round_up(unit, (high - low) / MARKS));
    }
    marked(unit, values)
}

/// Values with their words, of as many digits as tell neighbours apart.
fn marked(unit: Unit, values: Vec<f64>) -> Vec<(f64, String)> {
    let words = |more: u32| values.iter().map(|&value| mark(unit, value, more)).collect::<Vec<_>>();
    let differ = |words: &Vec<String>| words.windows(2).all(|pair| pair[0] != pair[1]);
    let words = (0..MORE_DIGITS).map(words).find(differ).unwrap_or_else(|| words(MORE_DIGITS));
    values.into_iter().zip(words).collect()
}

/// A value in the words of the tables with so many digits more, without those that say nothing.
fn mark(unit: Unit, value: f64, more: u32) -> String {
    if value == 0.0 && unit != Unit::Share {
        return "0".to_owned();
    }
    let text = unit.show_finer(value, more);
    let (number, rest) = text.split_at(text.find(' ').unwrap_or(text.len()));
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(axis: &Axis) -> Vec<&str> {
        axis.marks.iter().map(|(_, words)| words.as_str()).collect()
    }

    #[test]
    fn marks_are_round_and_in_the_units_of_the_tables() {
        let axis = Axis::from_zero("requests/s", Unit::Count, [85_300.0, 12.0].into_iter());
        assert_eq!(words(&axis), ["0", "20 K", "40 K", "60 K", "80 K", "100 K"]);
        assert_eq!((axis.at(0.0), axis.at(50_000.0)), (Some(0.0), Some(0.5)));
        let axis = Axis::from_zero("address", Unit::Bytes, [f64::from(1 << 30)].into_iter());
        assert_eq!(words(&axis), ["0", "256 MiB", "512 MiB", "768 MiB", "1 GiB"]);
        assert_eq!(words(&Axis::shares("hits")), ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]);
        let rate = Axis::from_zero("bandwidth", Unit::Rate, [f64::from(9 << 20)].into_iter());
        assert_eq!(words(&rate)[..2], ["0", "2 MiB/s"]);
    }

    #[test]
    fn marks_near_each_other_have_digits_that_tell_them_apart() {
        let gib = f64::from(1 << 30);
        let axis = Axis::around("address", Unit::Bytes, [30.78 * gib, 30.9 * gib].into_iter());
        assert_eq!(words(&axis)[..3], ["30.75 GiB", "30.78 GiB", "30.81 GiB"]);
        for (unit, low, high) in [
            (Unit::Count, 1_234_500.0, 1_234_600.0),
            (Unit::Micros, 1e6, 1e6 + 3.0),
            (Unit::Share, 0.5, 0.5001),
            (Unit::Factor, 100.0, 100.3),
            (Unit::Rate, 1e9, 1e9 + 1e4),
        ] {
            let axis = Axis::between("", unit, [low, high].into_iter());
            let mut words = words(&axis);
            let all = words.len();
            words.dedup();
            assert!(all == words.len() && all > 1, "{axis:?}");
        }
    }

    #[test]
    fn logarithmic_axes_have_marks_whatever_their_range() {
        let marks = |unit, low, high| {
            let axis = Axis::log("", unit, [low, high].into_iter());
            words(&axis).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            marks(Unit::Micros, 40.0, 9_000.0),
            ["50 µs", "100 µs", "200 µs", "500 µs", "1 ms", "2 ms", "5 ms"]
        );
        assert_eq!(marks(Unit::Micros, 0.02, 1e7).len(), 9);
        assert!(marks(Unit::Micros, 40.0, 40.4).len() >= 2);
        assert_eq!(marks(Unit::Bytes, 4096.0, 65_536.0), ["4 KiB", "8 KiB", "16 KiB", "32 KiB", "64 KiB"]);
        assert!(marks(Unit::Bytes, 4096.0, 1e12).len() <= 7);
        assert_eq!(Axis::log("", Unit::Micros, [1.0].into_iter()).at(0.0), None);
    }

    #[test]
    fn any_numbers_make_an_axis() {
        for values in [vec![], vec![0.0], vec![-3.0, 2.0], vec![7.0], vec![f64::NAN, 1e-12]] {
            for axis in [
                Axis::from_zero("", Unit::Factor, values.iter().copied()),
                Axis::around("", Unit::Micros, values.iter().copied()),
                Axis::between("", Unit::Count, values.iter().copied()),
                Axis::log("", Unit::Micros, values.iter().copied()),
            ] {
                assert!(axis.marks.len() >= 2 && axis.marks.len() < 20, "{axis:?}");
                assert!(axis.marks.iter().all(|(value, _)| axis.at(*value).is_some()), "{axis:?}");
            }
        }
    }
}
