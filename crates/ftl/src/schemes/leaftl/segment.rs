//! Learned segments: eight bytes each, and how they are learned from sorted pages.
//!
//! A segment maps LPNs of one group to `PPN = I + floor(K x)`, where `x` is the LPN's offset in its *group*.
//! With the group as origin, a segment that loses its first members keeps `K` and `I`. Sums wrap around, as
//! `I` may lie before page 0. `K` is a half-precision float, computed with as the integer it is: `significand
//! * 2^exponent`.
//!
//! **Accurate.** Members are every `ceil(1/K)`-th offset from `S` on, in consecutive pages. `K` is 1/stride
//! rounded *up* to an even significand, which has an error below 2^-9: `floor(K x) = floor(x / stride)` for
//! all x below 512, so the prediction is exact and the stride comes back from `K`. (Rounded down, both would
//! be off by one at whole multiples.)
//!
//! **Approximate.** `K` is odd; members are listed in the group's conflict resolution buffer; the prediction
//! is up to gamma pages off. It is found by a cone from the first point (O(1) state a point) and then
//! evaluated with the stored precision: a point whose predicted page would not tell where it is ends the
//! segment.

use super::group::Set;
use crate::half::Half;

/// Runs of constant stride at least this long are never put into an approximate segment: taken out they cost
/// 8 bytes and split a list (9 bytes at most), left in they cost a byte a page and mispredict.
const LONG_RUN: usize = 16;

/// The most candidates for a slope that are compared.
const CANDIDATES: usize = 2;

/// A half-precision slope, never negative. Its lowest bit is the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slope(pub u16);

impl Slope {
    /// Of a segment whose members are not mapped (a trim); every offset is a member.
    pub const NOWHERE: Slope = Slope(0);

    /// The least accurate slope that is 1/`stride` or more.
    pub fn of_stride(stride: u32) -> Slope {
        debug_assert!((1..=256).contains(&stride));
        let mut exponent = 15;
        let significand = loop {
            let significand = (1u32 << (25 - exponent)).div_ceil(stride).next_multiple_of(2);
            if significand >= 1024 {
                break significand;
            }
            exponent -= 1;
        };
        Slope(((exponent as u16) << 10) | (significand - 1024) as u16)
    }

    /// An approximate slope close to `rise / run`.
    pub fn near(rise: u64, run: u64) -> Slope {
        let mut exponent = 1;
        while exponent < 30 && (rise << 25) >> exponent >= 2048 * run {
            exponent += 1;
        }
        let significand = (((rise << 25) >> exponent) / run).clamp(1024, 2047) as u16;
        Slope((exponent << 10) | (significand - 1024) | 1)
    }

    /// Whether members are listed, and predictions may be off.
    #[inline]
    pub fn is_approximate(self) -> bool {
        self.0 & 1 == 1
    }

    /// ceil(1/K) of an accurate slope.
    #[inline]
    pub fn stride(self) -> u32 {
        if self == Slope::NOWHERE {
            return 1;
        }
        let (significand, exponent) = Half(self.0).parts();
        (1 << (25 - exponent.min(25))) / significand
            + u32::from((1 << (25 - exponent.min(25))) % significand != 0)
    }

    /// floor(K x).
    #[inline]
    pub fn rise(self, x: u8) -> u32 {
        let (significand, exponent) = Half(self.0).parts();
        let product = significand * u32::from(x);
        if exponent <= 25 {
            product >> (25 - exponent)
        } else {
            product << (exponent - 25)
        }
    }
}

/// S, L, K and I of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First offset that it covers.
    pub start: u8,
    /// Last offset that it covers, less the first.
    pub length: u8,
    /// K.
    pub slope: Slope,
    /// I.
    pub intercept: u32,
}

/// A segment as it is stored.
pub type Bytes = [u8; Segment::BYTES];

impl From<Segment> for Bytes {
    #[inline]
    fn from(segment: Segment) -> Bytes {
        let Segment { start, length, slope, intercept } = segment;
        let ([a, b], [c, d, e, f]) = (slope.0.to_le_bytes(), intercept.to_le_bytes());
        [start, length, a, b, c, d, e, f]
    }
}

impl From<Bytes> for Segment {
    #[inline]
    fn from([start, length, a, b, c, d, e, f]: Bytes) -> Segment {
        let (slope, intercept) = (Slope(u16::from_le_bytes([a, b])), u32::from_le_bytes([c, d, e, f]));
        Segment { start, length, slope, intercept }
    }
}

impl Segment {
    /// Bytes on flash and in memory.
    pub const BYTES: usize = 8;

    /// Last offset that it covers.
    #[inline]
    pub fn last(self) -> u8 {
        self.start + self.length
    }

    /// The same line over less: from `first` to `last`.
    #[inline]
    pub fn cut(self, first: u8, last: u8) -> Segment {
        Segment { start: first, length: last - first, ..self }
    }

    /// The members of an accurate segment.
    #[inline]
    pub fn claimed(self) -> Set {
        match self.length {
            0 => Set::range(self.start, self.start),
            _ => Set::strided(self.start, self.last(), self.slope.stride()),
        }
    }

    /// Whether an accurate segment has this offset, which it covers, as a member.
    #[inline]
    pub fn strides_to(self, offset: u8) -> bool {
        u32::from(offset - self.start) % self.slope.stride() == 0
    }

    /// The prediction for an offset.
    #[inline]
    pub fn predict(self, offset: u8) -> u32 {
        self.intercept.wrapping_add(self.slope.rise(offset))
    }

    fn accurate(points: &[(u8, u32)]) -> Segment {
        let (start, ppn) = points[0];
        let stride = points.get(1).map_or(1, |next| u32::from(next.0 - start));
        let slope = Slope::of_stride(stride);
        let length = points[points.len() - 1].0 - start;
        Segment { start, length, slope, intercept: ppn.wrapping_sub(slope.rise(start)) }
    }
}

/// Points from the first on that one accurate segment holds, at most `most`.
fn run(points: &[(u8, u32)], most: usize) -> usize {
    let Some(&[a, b]) = points.first_chunk::<2>() else { return points.len() };
    if b.1 != a.1.wrapping_add(1) {
        return 1;
    }
    let follows =
        |pair: &&[(u8, u32)]| pair[1].0 - pair[0].0 == b.0 - a.0 && pair[1].1 == pair[0].1.wrapping_add(1);
    1 + points[..points.len().min(most)].windows(2).take_while(follows).count()
}

/// The slopes through the first point that keep all points within the error: `low / 1` up to `high`, as
/// fractions.
struct Cone {
    low: (u64, u64),
    high: (u64, u64),
}

impl Cone {
    /// Narrows the cone to a point `run` to the right and `rise` above; `None` when it closes.
    fn narrowed(&self, rise: u64, run: u64, gamma: u64) -> Option<Cone> {
        let (low, high) = ((rise.saturating_sub(gamma), run), (rise + gamma, run));
        let low = if low.0 * self.low.1 > self.low.0 * low.1 { low } else { self.low };
        let high = if high.0 * self.high.1 < self.high.0 * high.1 { high } else { self.high };
        (low.0 * high.1 <= high.0 * low.1).then_some(Cone { low, high })
    }
}

/// Points from the first on that a cone holds, and the slopes worth trying.
fn cone(points: &[(u8, u32)], gamma: u32) -> (usize, [Slope; CANDIDATES]) {
    let (x0, y0) = points[0];
    let mut cone = Cone { low: (0, 1), high: (u64::from(u16::MAX), 1) };
    let mut reach = 1;
    while reach < points.len() {
        let (x, y) = points[reach];
        if y <= y0 || run(&points[reach..], LONG_RUN) == LONG_RUN {
            break;
        }
        let Some(narrowed) = cone.narrowed(u64::from(y - y0), u64::from(x - x0), u64::from(gamma)) else {
            break;
        };
        (cone, reach) = (narrowed, reach + 1);
    }
    let (low, high) = (cone.low, cone.high);
    let middle = Slope::near(low.0 * high.1 + high.0 * low.1, 2 * low.1 * high.1);
    let (x, y) = points[reach - 1];
    let chord = if reach > 1 { Slope::near(u64::from(y - y0), u64::from(x - x0)) } else { middle };
    (reach, [middle, chord])
}

/// An approximate segment over as many of the points, from the first on, as its predictions serve, and how
/// many those are.
fn approximate(
    points: &[(u8, u32)],
    gamma: u32,
    tells: &impl Fn(usize, u32) -> bool,
) -> Option<(Segment, usize)> {
    let (reach, slopes) = cone(points, gamma);
    let points = &points[..reach];
    let mut best: Option<(Segment, usize, usize)> = None;
    for slope in slopes {
        // The intercept that most points ask for, among those that keep the first point within the error.
        let asked = |&(x, y): &(u8, u32)| y.wrapping_sub(slope.rise(x));
        let first = asked(&points[0]);
        let intercepts = (0..=2 * gamma).map(|by| first.wrapping_add(by).wrapping_sub(gamma));
        let hits = |intercept: &u32| points.iter().filter(|point| asked(point) == *intercept).count();
        let Some(intercept) = intercepts.max_by_key(hits) else { continue };
        let start = points[0].0;
        let segment = Segment { start, length: 0, slope, intercept };
        let served = |&(i, &(x, y)): &(usize, &(u8, u32))| {
            let predicted = segment.predict(x);
            predicted.abs_diff(y) <= gamma && tells(i, predicted)
        };
        let count = points.iter().enumerate().take_while(served).count();
        let exact = points[..count].iter().filter(|point| asked(point) == intercept).count();
        if count > 0 && best.is_none_or(|(_, c, e)| (c, e) < (count, exact)) {
            best = Some((Segment { length: points[count - 1].0 - start, ..segment }, count, exact));
        }
    }
    best.map(|(segment, count, _)| (segment, count))
}

/// Learns segments over `points` (offset and PPN, both ascending) and gives each with the number of points it
/// takes, in order. `tells(i, ppn)`: reading page `ppn` would tell where point `i` is.
///
/// An approximate segment is made where it takes fewer bytes a page than the accurate one: 8 + 1 + a byte a
/// member against 8.
pub fn learn(
    points: &[(u8, u32)],
    gamma: u32,
    tells: impl Fn(usize, u32) -> bool,
    mut each: impl FnMut(Segment, usize),
) {
    let mut from = 0;
    while from < points.len() {
        let rest = &points[from..];
        let straight = run(rest, usize::MAX);
        let mut chosen = (Segment::accurate(&rest[..straight]), straight);
        let is_shorter = |count: usize| count > straight && (9 + count) * straight < 8 * count;
        // What even all the rest in one segment would not make shorter need not be tried.
        if gamma > 0 && straight < LONG_RUN && is_shorter(rest.len()) {
            let tells = |i: usize, ppn: u32| tells(from + i, ppn);
            if let Some((segment, count)) = approximate(rest, gamma, &tells) {
                if is_shorter(count) {
                    chosen = (segment, count);
                }
            }
        }
        each(chosen.0, chosen.1);
        from += chosen.1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stride_comes_back_from_its_slope_and_rises_exactly() {
        for stride in 1..=255u32 {
            let slope = Slope::of_stride(stride);
            assert!(!slope.is_approximate());
            assert_eq!(slope.stride(), stride);
            for x in 0..=255u8 {
                assert_eq!(slope.rise(x), u32::from(x) / stride, "stride {stride}, x {x}");
            }
        }
        assert_eq!(Slope::of_stride(1).0, 0x3c00, "1.0 in half precision");
        assert_eq!(Slope::of_stride(4).0, 0x3400, "0.25 in half precision");
    }

    #[test]
    fn an_approximate_slope_is_close() {
        for (rise, run) in [(1, 1), (1, 255), (200, 3), (7, 9), (65_000, 2)] {
            let slope = Slope::near(rise, run);
            assert!(slope.is_approximate());
            let exact = 255 * rise / run;
            assert!(u64::from(slope.rise(255)).abs_diff(exact) <= exact / 512 + 1, "{rise}/{run}");
        }
    }

    #[test]
    fn a_segment_is_eight_bytes() {
        let segment = Segment { start: 3, length: 9, slope: Slope::of_stride(3), intercept: 77 };
        assert_eq!(size_of::<Segment>(), Segment::BYTES);
        assert_eq!(Segment::from(Bytes::from(segment)), segment);
        assert_eq!((segment.predict(6), segment.strides_to(6), segment.strides_to(7)), (79, true, false));
    }

    #[test]
    fn long_runs_are_accurate_and_scattered_points_share_a_segment() {
        let mut points: Vec<(u8, u32)> = (0..40).map(|i| (i, 1000 + u32::from(i))).collect();
        points.extend([(50, 1040), (55, 1041), (62, 1042), (66, 1043), (74, 1044), (79, 1045)]);
        let mut found = Vec::new();
        learn(&points, 4, |_, _| true, |segment, count| found.push((segment.slope.is_approximate(), count)));
        assert_eq!(found, [(false, 40), (true, 6)]);
        found.clear();
        learn(&points, 0, |_, _| true, |segment, count| found.push((segment.slope.is_approximate(), count)));
        assert!(found.iter().all(|&(approximate, _)| !approximate));
    }

    /// Ascending offsets, and ascending pages with a gap now and then.
    fn points() -> impl Strategy<Value = Vec<(u8, u32)>> {
        let gaps = prop_oneof![6 => Just(1u32), 1 => 2u32..5, 1 => 100u32..4000];
        let strides = prop_oneof![3 => Just(1u32), 1 => Just(3u32), 3 => 1u32..20];
        (any::<u32>(), prop::collection::vec((strides, gaps), 1..200)).prop_map(|(first, steps)| {
            let (mut offset, mut ppn) = (0, first % (1 << 30));
            let mut points = Vec::new();
            for (stride, gap) in steps {
                if offset > 255 {
                    break;
                }
                points.push((offset as u8, ppn));
                (offset, ppn) = (offset + stride, ppn + gap);
            }
            points
        })
    }

    proptest! {
        #[test]
        fn every_point_is_in_one_segment_which_serves_it(points in points(), gamma in 0u32..9) {
            let mut from = 0;
            let tells = |i: usize, ppn: u32| !(i + ppn as usize).is_multiple_of(7) || ppn == points[i].1;
            learn(&points, gamma, tells, |segment, count| {
                let members = &points[from..from + count];
                assert_eq!((segment.start, segment.last()), (members[0].0, members[count - 1].0));
                for (i, &(offset, ppn)) in members.iter().enumerate() {
                    let predicted = segment.predict(offset);
                    if segment.slope.is_approximate() {
                        assert!(predicted.abs_diff(ppn) <= gamma && tells(from + i, predicted));
                    } else {
                        assert!(predicted == ppn && segment.strides_to(offset));
                    }
                }
                if !segment.slope.is_approximate() {
                    let strides = (segment.start..=segment.last()).filter(|&x| segment.strides_to(x)).count();
                    assert_eq!(strides, count, "an accurate segment claims its members alone");
                }
                from += count;
            });
            prop_assert_eq!(from, points.len());
        }
    }
}
