//! Linear models of write streams, after LFTL (Du et al., "A Practical Learning-Based FTL for Memory
//! Constrained Mobile Flash Storage"): addresses of a linear group, and exact models of what was written to
//! one.
//!
//! | paper's term | here |
//! | --- | --- |
//! | linear group, local and global PPA (equation 1) | [`BlockLists`] |
//! | RANSAC (algorithm 1), iterations (equation 2), early termination, refinement | [`ransac`] |
//! | segmentation (algorithm 2), sub-models, outliers | [`Trainer`] |
//! | linear model of 8 bytes | [`LinearModel`] |
//!
//! **Equation 1** reads `PPA_global = PPA_local + LG[PPA_local % K]`, which leads out of the block for any
//! but its first pages. What it must mean: page `local div K` of block `LG[local mod K]`, a bijection onto
//! the pages of the group (`linear/groups.rs`).
//!
//! **Equation 2**: with the paper's q = 0.99, p = 0.95 and k = 3 it gives the paper's I = 3 only if p is the
//! share of *inliers*, though the text calls it the outlier rate.
//!
//! **The model** is anchored at its start: `local = base + round(slope (lpa - start))`, the base as a 16-bit
//! integer. The paper stores intercept and slope as 16-bit floats, of which the first is exact only to 2,048.
//! A page that the stored model does not predict exactly is an outlier, so a model is never wrong about its
//! members.
//!
//! **Algorithm 2**, as printed, tests `M` before it exists and drops points. What it must mean: a sub-model
//! covers LPAs without a gap; every LPA of the group is a member of exactly one sub-model, or an outlier.
//! Here a sub-model also ends where more than [`Settings::hole`] outliers follow one another.
//!
//! **Runs.** [`Method::Runs`] needs no sample: points come in the order of their LPAs, so that a line is a
//! run of them. From each point that no sub-model covers yet, one pass narrows the slopes that hit the next
//! points exactly, passes over up to [`Settings::hole`] in a row that lie beside, and makes a sub-model as
//! far as that goes. It looks at each point a few times, however many lines there are. Two lines whose LPAs
//! alternate it cannot tell apart, and makes outliers of both.
//!
//! **Further lines** of RANSAC. One line a group is not enough: a file system fills segments of 2 MiB here
//! and there in a subspace, so that a group holds as many lines as segments. What the line of RANSAC leaves
//! is tried again, at most [`Settings::rounds`] times, with points whose LPAs and local PPAs both follow on
//! one another (the rule of the exemplary set) in place of a random sample, which would hardly ever find
//! three points of the same line.

mod groups;
use super::scratch::Scratch;
pub use crate::half::Half;
pub use groups::{BlockLists, MOST_LANES, ROOT};
#[cfg(test)]
mod tests;

/// A page of a group: LPA within its subspace, and local PPA.
pub type Point = (u16, u16);

/// A sub-model, as it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinearModel {
    /// First LPA that it covers.
    pub start: u16,
    /// Linear group.
    pub group: u16,
    /// w.
    pub slope: Half,
    /// Local PPA of `start`.
    pub base: u16,
}

impl LinearModel {
    /// Bytes stored.
    pub const BYTES: usize = 8;
    /// The group of a model whose LPAs are mapped nowhere.
    pub const NOWHERE: u16 = u16::MAX;

    /// As it is stored.
    pub fn to_bytes(self) -> [u8; LinearModel::BYTES] {
        let words = [self.start, self.group, self.slope.0, self.base].map(u16::to_le_bytes);
        let [[a, b], [c, d], [e, f], [g, h]] = words;
        [a, b, c, d, e, f, g, h]
    }

    /// From how it is stored.
    pub fn from_bytes(bytes: [u8; LinearModel::BYTES]) -> LinearModel {
        let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        LinearModel { start: word(0), group: word(2), slope: Half(word(4)), base: word(6) }
    }

    /// The local PPA of an LPA, at or behind the start; `None` when it leads out of 16 bits.
    pub fn predict(self, lpa: u16) -> Option<u16> {
        let rise = self.slope.times(u32::from(lpa - self.start));
        u16::try_from(i64::from(self.base) + rise).ok()
    }
}

/// A sub-model and the last LPA that it covers. The outliers among those it covers are listed with the
/// group's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covering {
    /// The model.
    pub model: LinearModel,
    /// Last LPA.
    pub last: u16,
}

/// How lines are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// One pass over the points, which follows each run as far as it goes.
    Runs,
    /// The paper's: the line that most points agree on, then the next one.
    Ransac,
}

/// How models are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How lines are looked for.
    pub method: Method,
    /// Points in a sample (k).
    pub sample: usize,
    /// Share of inliers that is expected (p).
    pub inliers: f64,
    /// Probability that a sample without outliers is found (q).
    pub success: f64,
    /// Error up to which a point counts as an inlier while the line is looked for, pages.
    pub loose: f64,
    /// Lines looked for among points that are trained together. 1 is the paper's.
    pub rounds: u32,
    /// Outliers in a row that a sub-model may cover.
    pub hole: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        let method = Method::Runs;
        Settings { method, sample: 3, inliers: 0.95, success: 0.99, loose: 2.0, rounds: 64, hole: 8 }
    }
}

/// Pages an LPA that a run rises at most: more is a jump.
const STEEPEST: f64 = 64.0;

impl Settings {
    /// The largest sample.
    pub const MOST_SAMPLED: usize = 8;

    /// Equation 2: the least I for which `(1 - p^k)^I <= 1 - q`, at least 1.
    pub fn iterations(&self) -> u32 {
        let sound = (0..self.sample).fold(1.0, |product, _| product * self.inliers);
        let (mut iterations, mut failed) = (1, 1.0 - sound);
        while failed > 1.0 - self.success && iterations < 1000 {
            failed *= 1.0 - sound;
            iterations += 1;
        }
        iterations
    }
}

/// A line `local = slope lpa + intercept`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Pages an LPA.
    pub slope: f64,
    /// Local PPA at LPA 0.
    pub intercept: f64,
}

impl Line {
    /// Least squares; `None` for fewer than two LPAs.
    pub fn through(points: impl Iterator<Item = Point> + Clone) -> Option<Line> {
        let count = points.clone().count() as f64;
        let mean = |of: fn(Point) -> u16| {
            points.clone().map(|point| u64::from(of(point))).sum::<u64>() as f64 / count
        };
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let (mut both, mut square) = (0.0, 0.0);
        for (lpa, local) in points {
            let dx = f64::from(lpa) - x;
            both += dx * (f64::from(local) - y);
            square += dx * dx;
        }
        (square > 0.0).then(|| Line { slope: both / square, intercept: y - both / square * x })
    }

    /// With slope 1, through a point.
    pub fn rising_from((lpa, local): Point) -> Line {
        Line { slope: 1.0, intercept: f64::from(local) - f64::from(lpa) }
    }

    /// How far a point is from the line.
    pub fn error(&self, (lpa, local): Point) -> f64 {
        (self.slope * f64::from(lpa) + self.intercept - f64::from(local)).abs()
    }
}

/// The line that most points agree on, and the iterations it took. The first sample is the exemplary set,
/// gathered while the group was written from pages whose LPA followed on the one before; if the expected
/// share of points agrees with it, or with any later sample, that is the end. `random` gives a number below
/// its argument.
pub fn ransac(
    points: &[Point],
    exemplary: &[Point],
    settings: &Settings,
    random: &mut impl FnMut(u32) -> u32,
) -> Option<(Line, u32)> {
    let agreeing = |line: &Line| points.iter().filter(|&&point| line.error(point) <= settings.loose).count();
    let enough = settings.inliers * points.len() as f64;
    let mut best: Option<(Line, usize)> = None;
    let mut sample = [(0, 0); Settings::MOST_SAMPLED];
    let sample = &mut sample[..settings.sample.min(Settings::MOST_SAMPLED)];
    let mut iterations = 0;
    for _ in 0..settings.iterations() {
        if iterations == 0 && exemplary.len() >= sample.len() {
            sample.copy_from_slice(&exemplary[..sample.len()]);
        } else {
            sample.fill_with(|| points[random(points.len() as u32) as usize]);
        }
        iterations += 1;
        let Some(line) = Line::through(sample.iter().copied()) else { continue };
        let count = agreeing(&line);
        if best.is_none_or(|(_, most)| most < count) {
            best = Some((line, count));
        }
        if count as f64 >= enough {
            break;
        }
    }
    let (line, most) = best?;
    let consensus = points.iter().copied().filter(|&point| line.error(point) <= settings.loose);
    let refined = Line::through(consensus).filter(|refined| agreeing(refined) >= most);
    Some((refined.unwrap_or(line), iterations))
}

/// Makes models of points. Keeps its memory, so that training allocates nothing in the long run.
#[derive(Clone, Debug, Default)]
pub struct Trainer {
    /// How.
    pub settings: Settings,
    /// Sub-models made last, ascending, whose ranges are disjoint.
    pub models: Scratch<Covering>,
    /// Points that no sub-model predicts, ascending: each needs a mapping of its own.
    pub outliers: Scratch<Point>,
    /// Whether a line was looked for, by either method.
    pub has_searched: bool,
    /// Iterations of RANSAC.
    pub iterations: u32,
    /// Points looked at, over all passes.
    pub looked_at: u64,
    /// Points that the same lines would not have predicted if they were stored as the paper prints it, slope
    /// and intercept both as 16-bit floats.
    pub literal_outliers: u64,
    points: Scratch<Point>,
}

impl Trainer {
    /// A trainer with room for `points` points.
    pub fn new(settings: Settings, points: usize) -> Trainer {
        let room = || Scratch::with_room(points);
        Trainer {
            settings,
            models: Scratch::with_room(points / 2),
            outliers: room(),
            points: room(),
            ..Trainer::default()
        }
    }

    /// Bytes that it keeps.
    pub fn bytes(&self) -> u64 {
        self.points.bytes() + self.outliers.bytes() + self.models.bytes()
    }

    /// Makes models of the pages of `group`, ascending by LPA, each LPA once.
    pub fn train(
        &mut self,
        group: u16,
        points: impl Iterator<Item = Point>,
        exemplary: &[Point],
        random: &mut impl FnMut(u32) -> u32,
    ) {
        self.models.clear();
        self.outliers.clear();
        self.points.clear();
        self.points.extend(points);
        (self.iterations, self.looked_at, self.literal_outliers) = (0, 0, self.points.len() as u64);
        self.has_searched = false;
        if self.settings.method == Method::Runs {
            return self.follow_runs(group);
        }
        self.outliers.extend_from_slice(&self.points);
        for round in 0..self.settings.rounds {
            if self.outliers.len() < 2 {
                break;
            }
            let left = self.outliers.len();
            let run = if round == 0 && exemplary.len() >= self.settings.sample { None } else { self.run() };
            let line = if round == 0 {
                let first = run.map_or(exemplary, |at| &self.outliers[at..at + self.settings.sample]);
                ransac(&self.outliers, first, &self.settings, random).map(|(line, iterations)| {
                    (self.has_searched, self.iterations) = (true, iterations);
                    self.looked_at += (u64::from(iterations) + 2) * left as u64;
                    line
                })
            } else {
                run.map(|at| Line::rising_from(self.outliers[at]))
            };
            let Some(line) = line else { break };
            self.looked_at += left as u64;
            self.segment(group, line);
            if round > 0 && self.outliers.len() == left {
                break;
            }
        }
    }

    /// Makes sub-models in one pass: from each point that none covers, the longest run with slope 1 or with
    /// the slope that most of the next points allow.
    fn follow_runs(&mut self, group: u16) {
        (self.has_searched, self.looked_at) = (!self.points.is_empty(), self.points.len() as u64);
        let mut from = 0;
        while from < self.points.len() {
            let (start, base) = self.points[from];
            let (slope, looked_at) = self.slope_from(from);
            let reach = |slope: Half| self.reach(0, from, LinearModel { start, group, slope, base });
            let rising = reach(Half::ONE);
            let longest = match slope {
                Some(slope) if slope != Half::ONE => Some(reach(slope)).filter(|it| it.0 > rising.0),
                _ => None,
            };
            self.looked_at += looked_at + ((rising.1 - from) + longest.map_or(0, |it| it.1 - from)) as u64;
            let (members, end, model) = longest.unwrap_or(rising);
            // Two points are on some line always: only those in sequence are a run.
            if members < 2 + usize::from(model.slope != Half::ONE) {
                self.outliers.push(self.points[from]);
                from += 1;
                continue;
            }
            self.take_run(from..end, model);
            from = end;
        }
    }

    /// The slope of the line through a point on which the next ones lie, up to as many in a row beside it as
    /// a sub-model may cover, and the points looked at.
    fn slope_from(&self, from: usize) -> (Option<Half>, u64) {
        let (x, y) = self.points[from];
        let (mut low, mut high) = (-STEEPEST, STEEPEST);
        let (mut members, mut missed, mut before) = (1, 0, x);
        let mut looked_at = 0;
        for &(lpa, local) in &self.points[from + 1..] {
            if u32::from(lpa) != u32::from(before) + 1 || missed > self.settings.hole {
                break;
            }
            before = lpa;
            looked_at += 1;
            let (dx, dy) = (f64::from(lpa - x), f64::from(local) - f64::from(y));
            let (least, most) = (((dy - 0.5) / dx).max(low), ((dy + 0.5) / dx).min(high));
            if least < most {
                (low, high, members, missed) = (least, most, members + 1, 0);
            } else {
                missed += 1;
            }
        }
        ((members > 1).then(|| Half::nearest((low + high) / 2.0)), looked_at)
    }

    /// Makes a sub-model of some points; those that it does not predict are outliers.
    fn take_run(&mut self, run: std::ops::Range<usize>, model: LinearModel) {
        let intercept = f64::from(model.base) - model.slope.value() * f64::from(model.start);
        let literal = Line { slope: model.slope.value(), intercept: Half::nearest(intercept).value() };
        self.take(run, model, literal);
    }

    /// The same; `literal` is the line with the 16-bit float intercept, of which the misses are counted.
    fn take(&mut self, run: std::ops::Range<usize>, model: LinearModel, literal: Line) {
        let covered = &self.points[run];
        for &(lpa, local) in covered {
            if model.predict(lpa) != Some(local) {
                self.outliers.push((lpa, local));
            } else if literal.error((lpa, local)) <= 0.5 {
                self.literal_outliers -= 1;
            }
        }
        self.models.push(Covering { model, last: covered[covered.len() - 1].0 });
    }

    fn covering(&self, lpa: u16) -> bool {
        let behind = self.models.partition_point(|own| own.model.start <= lpa);
        behind > 0 && lpa <= self.models[behind - 1].last
    }

    /// Where as many points as a sample has follow on one another, both in LPA and in place, and no sub-model
    /// covers them.
    fn run(&self) -> Option<usize> {
        let follow = |pair: &[Point]| {
            u32::from(pair[1].0) == u32::from(pair[0].0) + 1
                && u32::from(pair[1].1) == u32::from(pair[0].1) + 1
        };
        let mut length = 1;
        for (at, pair) in self.outliers.windows(2).enumerate() {
            length = if follow(pair) { length + 1 } else { 1 };
            if length >= self.settings.sample
                && !self.outliers[at + 2 - length..at + 2].iter().any(|p| self.covering(p.0))
            {
                return Some(at + 2 - self.settings.sample);
            }
        }
        None
    }

    /// Makes sub-models of the outliers that lie near a line, as far as no sub-model covers their LPAs yet. A
    /// sub-model inherits the line's slope, or has slope 1 where that predicts more: a stream from which
    /// a few pages are missing makes a line that is a little steeper than any part of it.
    fn segment(&mut self, group: u16, line: Line) {
        std::mem::swap(&mut self.points, &mut self.outliers);
        self.outliers.clear();
        let taken = self.models.len();
        let slopes = [Half::nearest(line.slope), Half::ONE];
        let literal = Line { slope: slopes[0].value(), intercept: Half::nearest(line.intercept).value() };
        let mut from = 0;
        while from < self.points.len() {
            let (start, base) = self.points[from];
            let anchored =
                line.error(self.points[from]) <= self.settings.loose && !self.covered_before(taken, start);
            let reach = |slope: Half| self.reach(taken, from, LinearModel { start, group, slope, base });
            let longest =
                if anchored { slopes.map(reach).into_iter().rev().max_by_key(|reach| reach.0) } else { None };
            // A model takes the bytes of a point mapping: one member gains nothing.
            let Some((_, end, model)) = longest.filter(|reach| reach.0 >= 2) else {
                self.outliers.push(self.points[from]);
                from += 1;
                continue;
            };
            self.take(from..end, model, literal);
            from = end;
        }
        self.models.sort_unstable_by_key(|covering| covering.model.start);
    }

    /// Whether one of the first `taken` sub-models covers an LPA.
    fn covered_before(&self, taken: usize, lpa: u16) -> bool {
        let taken = &self.models[..taken];
        let behind = taken.partition_point(|own| own.model.start <= lpa);
        behind > 0 && lpa <= taken[behind - 1].last
    }

    /// How many points from `from` on a model predicts without leaving too large a hole, and where the last
    /// of them ends.
    fn reach(&self, taken: usize, from: usize, model: LinearModel) -> (usize, usize, LinearModel) {
        let points = &self.points;
        let (mut end, mut at, mut members) = (from + 1, from + 1, 1);
        while at < points.len() && at - end <= self.settings.hole {
            let (lpa, local) = points[at];
            if u32::from(lpa) != u32::from(points[at - 1].0) + 1 || self.covered_before(taken, lpa) {
                break;
            }
            at += 1;
            if model.predict(lpa) == Some(local) {
                (end, members) = (at, members + 1);
            }
        }
        (members, end, model)
    }
}
