//! The lines of a GTD entry: where they begin and what they are, so that most LPNs are predicted exactly.
//!
//! Greedy regression, as in the paper, takes the longest run that one line predicts without an error, and
//! begins anew. Where pages are in order and nothing is missing, that finds a few long runs, and is best.
//! With random gaps a run without an error is short; then there are more runs than places for them. But an
//! error costs little: the bitmap masks it (III-B). So then the points are cut into equal parts, three for
//! each place, and the cuts are chosen between them so that the lines of the pieces predict most points in
//! sum, by dynamic programming. A piece's line is the best of a few slopes around the density where it
//! begins, and the one intercept that most points agree on. What greedy regression finds is kept where that
//! is more.
//!
//! Everything is integer arithmetic, and the same on every machine; a slope is a 16-bit float, taken as a
//! multiple of 2^-16.

use super::models::{Point, LEAST_POINTS};
use half::f16;
use std::ops::Range;

/// Parts that points are cut into for each place of a piece, and most of them.
const PARTS_A_PIECE: usize = 3;
const MOST_PARTS: usize = 32;
/// Slopes that are tried, in 1024ths of the density where the piece begins: those between which the density
/// of some dozen points varies by chance. A run, of slope 1, is tried too.
const AROUND: [i64; 7] = [1024, 1004, 1044, 983, 1065, 952, 1096];
const SLOPES: usize = AROUND.len() + 1;
/// Distances from a line that are told apart. What is further off may be mistaken for something nearer; that
/// costs hits, as the stored line is evaluated before a bit is set.
const NEAR: usize = 256;

/// A line through some of the points, or all, of a piece.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The points of the piece, from the first one on the line to the last one.
    pub points: Range<usize>,
    /// Where the line is at the first of them.
    pub anchor: Point,
    /// Its slope.
    pub slope: f16,
    /// Points on it.
    pub exact: u32,
}

/// The best line from one part to another.
#[derive(Clone, Copy, Debug)]
struct Best {
    exact: u16,
    slope: f16,
    /// How far the line passes above the first point.
    above: i8,
}

const NO_LINE: Best = Best { exact: 0, slope: f16::ONE, above: 0 };

/// Lines that are counted side by side, as a count of one line mostly waits for the one before.
const ABREAST: usize = 4;

/// Where the points lie that some lines could pass through.
struct Tally {
    /// By distance above the line through the first point: points there.
    hits: [[u16; NEAR]; ABREAST],
    /// The most of them that were ever at one distance, and the point that made it so many first.
    most: [u16; ABREAST],
    last: [usize; ABREAST],
}

impl Tally {
    const NONE: Tally = Tally { hits: [[0; NEAR]; ABREAST], most: [0; ABREAST], last: [0; ABREAST] };

    /// Counts the points `of` a part, by how far they are above each line.
    fn count(&mut self, above: &[Vec<u8>; ABREAST], of: Range<usize>) {
        let (mut most, mut last) = (self.most, self.last);
        let above = above.each_ref().map(|above| &above[of.clone()]);
        for (at, point) in of.enumerate() {
            for line in 0..ABREAST {
                let hits = &mut self.hits[line][above[line][at] as usize];
                *hits += 1;
                last[line] = if *hits > most[line] { point } else { last[line] };
                most[line] = most[line].max(*hits);
            }
        }
        (self.most, self.last) = (most, last);
    }
}

/// Finds lines, in memory of its own.
#[derive(Clone, Debug)]
pub struct Fitter {
    places: usize,
    /// By first part, and the part after the last.
    best: Vec<Best>,
    /// By places used and part reached: points predicted, and where the last piece begins.
    reached: Vec<(u16, u8)>,
    /// Points from the first one on.
    x: Vec<u16>,
    y: Vec<u16>,
    /// For some slopes: how far points lie above the line, as far as that is told apart.
    above: [Vec<u8>; ABREAST],
    /// What was found last.
    pub lines: Vec<Line>,
    chosen: Vec<Line>,
}

impl Fitter {
    /// For entries of `lpns` LPNs with so many places for pieces.
    pub fn new(places: usize, lpns: usize) -> Fitter {
        let parts = parts(places);
        Fitter {
            places,
            best: vec![NO_LINE; parts * (parts + 1)],
            reached: vec![(0, 0); (places + 1) * (parts + 1)],
            x: Vec::with_capacity(lpns),
            y: Vec::with_capacity(lpns),
            above: std::array::from_fn(|_| vec![0; lpns]),
            lines: Vec::with_capacity(lpns / LEAST_POINTS + 1),
            chosen: Vec::with_capacity(places),
        }
    }

    /// Finds the lines of points ascending by x, at most one for each place.
    pub fn fit(&mut self, points: &[Point]) {
        self.greedy(points);
        if self.lines.len() <= self.places {
            return;
        }
        // The longest runs, were there no better lines.
        let longest_first = |line: &Line| (std::cmp::Reverse(line.exact), line.points.start);
        self.lines.select_nth_unstable_by_key(self.places, longest_first);
        self.lines.truncate(self.places);
        self.lines.sort_unstable_by_key(longest_first);
        let in_runs: u32 = self.lines.iter().map(|line| line.exact).sum();
        if in_runs as usize == points.len() || points.len() < 2 * parts(self.places) {
            return;
        }
        self.measure(points, in_runs);
        self.choose(points);
        if self.chosen.iter().map(|line| line.exact).sum::<u32>() > in_runs {
            std::mem::swap(&mut self.lines, &mut self.chosen);
        }
    }

    /// The longest runs that lines predict without an error, one after the other.
    pub fn greedy(&mut self, points: &[Point]) {
        self.lines.clear();
        let mut from = 0;
        while points.len() - from >= LEAST_POINTS {
            let (slope, count) = longest_run(&points[from..]);
            if count >= LEAST_POINTS {
                let (of, anchor) = (from..from + count, points[from]);
                self.lines.push(Line { points: of, anchor, slope, exact: count as u32 });
            }
            from += count;
        }
    }

    /// Finds the best line from each part to each later one, as far as it can matter. The best pieces miss no
    /// more points than pieces of equal length do. So a line is given up when it misses more alone, or
    /// together with the fewest points that pieces in front of it can miss.
    fn measure(&mut self, points: &[Point], in_runs: u32) {
        let parts = parts(self.places);
        self.x.clear();
        self.y.clear();
        self.x.extend(points.iter().map(|point| point.x as u16));
        self.y.extend(points.iter().map(|point| point.y as u16));
        self.best.fill(NO_LINE);
        let most_missed = points.len() as u32 - in_runs - 1;
        let mut equal = 0;
        for first in (0..parts).step_by(PARTS_A_PIECE) {
            self.measure_from(points, first, most_missed);
            let end = parts.min(first + PARTS_A_PIECE);
            equal += u32::from(self.best[first * (parts + 1) + end].exact);
        }
        let most_missed = most_missed.min(points.len() as u32 - equal);
        for first in 0..parts {
            self.reach(first);
            let in_front = self.cut(points, first) as u32 - self.most_up_to(first);
            if !first.is_multiple_of(PARTS_A_PIECE) && in_front <= most_missed {
                self.measure_from(points, first, most_missed - in_front);
            }
        }
        self.reach(parts);
    }

    /// Finds the best lines over the part `first`, over this and the next one, and so on, as long as they
    /// miss no more points than `most_missed`.
    fn measure_from(&mut self, points: &[Point], first: usize, most_missed: u32) {
        let parts = parts(self.places);
        let (from, ahead) = (self.cut(points, first), self.cut(points, (first + 2).min(parts)) - 1);
        let (rise, run) =
            (points[ahead].y.wrapping_sub(points[from].y) as i32, points[ahead].x - points[from].x);
        let density = (i64::from(rise) << 16) / i64::from(run).max(1);
        let around = |at| AROUND.get(at).map_or(1 << 16, |factor| (density * factor) >> 10);
        let tried: [_; SLOPES] = std::array::from_fn(|at| as_stored(around(at)));
        let (x, y) = (&self.x[from..], &self.y[from..]);
        let (rows, _) = tried.as_chunks::<ABREAST>();
        for row in rows {
            let mut lines = *row;
            for (line, above) in lines.iter().zip(&mut self.above) {
                if let Some((_, fixed)) = line {
                    measure_above(x, y, *fixed, &mut above[from..]);
                }
            }
            let mut tally = Tally::NONE;
            for end in first + 1..=parts {
                if lines == [None; ABREAST] {
                    break;
                }
                let of = self.cut(points, end - 1)..self.cut(points, end);
                tally.count(&self.above, of.clone());
                let known = &mut self.best[first * (parts + 1) + end];
                for (at, above) in self.above.iter().enumerate() {
                    let Some((slope, _)) = lines[at] else { continue };
                    let exact = tally.most[at];
                    if exact > known.exact {
                        *known = Best { exact, slope, above: above[tally.last[at]] as i8 };
                    }
                    if (of.end - from) as u32 - u32::from(exact) > most_missed {
                        lines[at] = None;
                    }
                }
            }
        }
    }

    /// Where a part begins; for the number of parts, the end of the last one.
    fn cut(&self, points: &[Point], part: usize) -> usize {
        part * points.len() / parts(self.places)
    }

    /// Finds the most points that can be predicted up to the part `end`, for each number of places, when that
    /// is known of the parts in front, and all lines from there are measured.
    fn reach(&mut self, end: usize) {
        let row = parts(self.places) + 1;
        for place in 1..=self.places {
            // Of equals the first.
            let mut most = (0, 0);
            for first in 0..end {
                let before = self.reached[(place - 1) * row + first].0;
                let exact = before + self.best[first * row + end].exact;
                most = if exact > most.0 || first == 0 { (exact, first as u8) } else { most };
            }
            self.reached[place * row + end] = most;
        }
    }

    /// The most points that can be predicted up to the part `end` when a place is left for what comes then.
    fn most_up_to(&self, end: usize) -> u32 {
        let row = parts(self.places) + 1;
        (0..self.places).map(|place| u32::from(self.reached[place * row + end].0)).max().unwrap_or(0)
    }

    /// Chooses the cuts.
    fn choose(&mut self, points: &[Point]) {
        let parts = parts(self.places);
        let row = parts + 1;
        self.chosen.clear();
        let (mut place, mut end) = (self.places, parts);
        while place > 0 && end > 0 {
            let first = self.reached[place * row + end].1 as usize;
            let of = self.cut(points, first)..self.cut(points, end);
            self.chosen.extend(as_line(points, of, self.best[first * row + end]));
            (place, end) = (place - 1, first);
        }
        self.chosen.reverse();
    }
}

/// How far points lie above the line through the first of them whose slope in 2^-16 is `fixed`, below 2^21.
/// Only the low 8 bits of it count, so that 16 bits are enough for everything, and many fit a register.
fn measure_above(x: &[u16], y: &[u16], fixed: i32, above: &mut [u8]) {
    let (x0, y0) = (x[0], y[0]);
    let (whole, part) = ((fixed >> 16) as u16, fixed as u16);
    for ((above, &x), &y) in above.iter_mut().zip(x).zip(y) {
        let dx = x.wrapping_sub(x0);
        let high = ((u32::from(part) * u32::from(dx)) >> 16) as u16;
        let rounded = high.wrapping_add(part.wrapping_mul(dx) >> 15);
        let line = whole.wrapping_mul(dx).wrapping_add(rounded);
        *above = y.wrapping_sub(y0).wrapping_sub(line) as u8;
    }
}

/// Parts that points are cut into.
fn parts(places: usize) -> usize {
    (places * PARTS_A_PIECE).clamp(PARTS_A_PIECE, MOST_PARTS)
}

/// The 16-bit float nearest to a slope in 2^-16, and what it is in 2^-16; `None` when it is none that pages
/// in order can have.
fn as_stored(fixed: i64) -> Option<(f16, i32)> {
    let slope = f16::from_f64(fixed as f64 / 65_536.0);
    let within = fixed > 0 && fixed < 1 << 21;
    within.then(|| (slope, (slope.to_f64() * 65_536.0) as i32))
}

/// The line over the points `of`, narrowed to those on it. `None` when it has too few.
fn as_line(points: &[Point], of: Range<usize>, best: Best) -> Option<Line> {
    let (_, fixed) = as_stored((best.slope.to_f64() * 65_536.0) as i64)?;
    let first = points[of.start];
    let y = first.y.checked_add_signed(i32::from(best.above))?;
    let is_on = |point: &Point| {
        let line = (fixed.wrapping_mul((point.x - first.x) as i32).wrapping_add(1 << 15)) >> 16;
        point.y == y.wrapping_add_signed(line)
    };
    let exact = points[of.clone()].iter().filter(|point| is_on(point)).count();
    let last = points[of.clone()].iter().rposition(is_on)?;
    let anchor = Point { x: first.x, y };
    let line = Line { points: of.start..of.start + last + 1, anchor, slope: best.slope, exact: exact as u32 };
    (exact >= LEAST_POINTS).then_some(line)
}

/// Greedy piecewise linear regression, one piece: the longest run of points from the first on that one line
/// through the first predicts, rounded, without error. Keeps the cone of slopes that do; the slope is the
/// 16-bit float in the middle of it, or 1 where that is in it. Constant work a point.
fn longest_run(points: &[Point]) -> (f16, usize) {
    let first = points[0];
    let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
    let (mut slope, mut value) = (f16::ONE, 1.0);
    for (count, point) in points.iter().enumerate().skip(1) {
        let dx = f64::from(point.x - first.x);
        let dy = f64::from(point.y) - f64::from(first.y);
        low = low.max((dy - 0.5) / dx);
        high = high.min((dy + 0.5) / dx);
        let inside = |slope: f64| low <= slope && slope < high;
        if !inside(value) {
            let middle = f16::from_f64((low + high) / 2.0);
            if !inside(middle.to_f64()) || !middle.is_finite() {
                return (slope, count);
            }
            (slope, value) = (middle, middle.to_f64());
        }
    }
    (slope, points.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schemes::learnedftl::models::{Format, Models};

    /// One entry whose LPNs are mapped with this probability, to pages in order.
    fn with_gaps(density: f64, state: &mut u64) -> Vec<Point> {
        let mut y = 1_000;
        let mut points = Vec::new();
        for x in 0..512 {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if f64::from((*state >> 33) as u32) < density * f64::from(1_u32 << 31) {
                y += 1;
                points.push(Point { x, y });
            }
        }
        points
    }

    /// Points of a part on the best of all lines through two of them.
    fn best_line(points: &[Point]) -> usize {
        let mut best = 0;
        for (at, from) in points.iter().enumerate() {
            for to in &points[at + 1..] {
                let slope = f16::from_f64(f64::from(to.y - from.y) / f64::from(to.x - from.x)).to_f64();
                let mut hits = std::collections::BTreeMap::new();
                for point in points {
                    let line = (slope * f64::from(point.x - points[0].x) + 0.5).floor() as i64;
                    *hits.entry(i64::from(point.y) - line).or_insert(0) += 1;
                }
                best = best.max(hits.values().copied().max().unwrap_or(0));
            }
        }
        best
    }

    /// Exact LPNs of entries with random gaps: greedy regression, eight lines over equal counts of points,
    /// each the best of all lines, and what is learned.
    #[test]
    fn with_gaps_more_lpns_are_exact_than_with_the_best_lines_over_equal_counts() {
        let mut state = 1;
        for (density, least) in [(0.9, 0.68), (0.8, 0.57), (0.6, 0.50)] {
            let [mut all, mut greedy, mut equal, mut learned] = [0; 4];
            for _ in 0..20 {
                let points = with_gaps(density, &mut state);
                let mut fitter = Fitter::new(8, 512);
                fitter.greedy(&points);
                let mut runs: Vec<_> = fitter.lines.iter().map(|line| line.exact as usize).collect();
                runs.sort_unstable();
                let mut models = Models::new(512, 512, 8, Format::Exact, 1 << 20);
                models.learn(0, &points);
                let n = points.len();
                all += n;
                greedy += runs.iter().rev().take(8).sum::<usize>();
                equal +=
                    (0..8).map(|part| best_line(&points[part * n / 8..(part + 1) * n / 8])).sum::<usize>();
                learned += models.trained() as usize;
            }
            let share = |count: usize| count as f64 / all as f64;
            let (greedy, equal, learned) = (share(greedy), share(equal), share(learned));
            println!("density {density}: greedy {greedy:.3}, equal counts {equal:.3}, learned {learned:.3}");
            assert!(learned >= equal && learned >= least && learned > 1.15 * greedy);
        }
    }

    #[test]
    fn runs_that_have_places_are_taken_as_they_are() {
        let mut points: Vec<_> = (0..200).map(|x| Point { x, y: 5_000 + x }).collect();
        points.extend((210..512).map(|x| Point { x, y: 90_000 + x }));
        let mut fitter = Fitter::new(2, 512);
        fitter.fit(&points);
        let found: Vec<_> = fitter.lines.iter().map(|line| (line.points.clone(), line.exact)).collect();
        assert_eq!(found, [(0..200, 200), (200..502, 302)]);
    }

    /// Every sixteenth LPN is missing, as after random overwrites: one line of slope 15/16 is nearly right.
    #[test]
    fn regular_gaps_are_one_line() {
        let present = (0..512).filter(|x| x % 16 != 5);
        let points: Vec<_> = present.zip(70_000..).map(|(x, y)| Point { x, y }).collect();
        let mut models = Models::new(512, 512, 8, Format::Exact, 1 << 20);
        models.learn(0, &points);
        println!("{} of {} exact", models.trained(), points.len());
        assert!(models.trained() as usize > points.len() * 9 / 10);
    }

    #[test]
    fn pages_in_no_order_have_no_line_to_speak_of() {
        let mut state = 7;
        let mut points = with_gaps(0.9, &mut state);
        for point in &mut points {
            point.y = point.y.wrapping_mul(2_654_435_761) % 1_000_000;
        }
        let mut fitter = Fitter::new(8, 512);
        fitter.fit(&points);
        assert!(fitter.lines.iter().map(|line| line.exact).sum::<u32>() < 64);
    }

    /// What is left out of the measurement is in no best choice of lines: with everything measured the lines
    /// are the same.
    #[test]
    fn what_is_not_measured_does_not_matter() {
        let (mut state, mut chosen) = (3, 0);
        for (round, places) in (0..120).zip([8, 3, 1, 16].into_iter().cycle()) {
            let mut points = with_gaps([0.97, 0.9, 0.7, 0.4][round / 4 % 4], &mut state);
            for (at, point) in points.iter_mut().enumerate() {
                point.y += [0, (at / 40 * 1_000) as u32, point.x / 3, (at % 7) as u32][round / 16 % 4];
            }
            let mut fitter = Fitter::new(places, 512);
            fitter.fit(&points);
            let mut all = fitter.clone();
            all.greedy(&points);
            if all.lines.len() <= places {
                continue;
            }
            all.lines.sort_unstable_by_key(|line| (std::cmp::Reverse(line.exact), line.points.start));
            all.lines.truncate(places);
            all.best.fill(NO_LINE);
            for first in 0..parts(places) {
                all.measure_from(&points, first, u32::MAX);
            }
            (0..=parts(places)).for_each(|end| all.reach(end));
            all.choose(&points);
            let exact = |lines: &[Line]| lines.iter().map(|line| line.exact).sum::<u32>();
            let is_better = exact(&all.chosen) > exact(&all.lines);
            chosen += u32::from(is_better);
            assert_eq!(fitter.lines, if is_better { all.chosen } else { all.lines });
        }
        assert!(chosen > 40, "{chosen}");
    }
}
