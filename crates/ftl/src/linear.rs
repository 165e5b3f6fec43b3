//! Linear models of write streams, after LFTL (Du et al., "A Practical Learning-Based FTL for Memory Constrained Mobile Flash
//! Storage"): addresses of a linear group, and exact models of what was written to one.
//!
//! | paper's term | here |
//! | --- | --- |
//! | linear group, local and global PPA (equation 1) | [`LinearGroup`] |
//! | RANSAC (algorithm 1), iterations (equation 2), early termination, refinement | [`ransac`] |
//! | segmentation (algorithm 2), sub-models, outliers | [`train`] |
//! | linear model of 8 bytes | [`LinearModel`] |
//!
//! **Equation 1** reads `PPA_global = PPA_local + LG[PPA_local % K]`, which leads out of the block for any but its first
//! pages. What it must mean: page `local div K` of block `LG[local mod K]`, a bijection onto the pages of the group.
//!
//! **Equation 2**: with the paper's q = 0.99, p = 0.95 and k = 3 it gives the paper's I = 3 only if p is the share of
//! *inliers*, though the text calls it the outlier rate.
//!
//! **The model** is anchored at its start: `local = base + round(slope (lpa - start))`, the base as a 16-bit integer. The paper
//! stores intercept and slope as 16-bit floats, of which the first is exact only to 2,048. A page that the stored model
//! does not predict exactly is an outlier, so a model is never wrong about its members.
//!
//! **Algorithm 2**, as printed, tests `M` before it exists and drops points. What it must mean: a sub-model covers LPAs
//! without a gap; every LPA of the group is a member of exactly one sub-model, or an outlier. Here a sub-model also ends
//! where more than [`Settings::hole`] outliers follow one another, and what one line leaves is tried again
//! ([`Settings::rounds`]): a group filled by two runs of one stream has two lines.

use nand::{Geometry, Pbn, Ppn};

mod half;
pub use half::Half;
#[cfg(test)]
mod tests;

/// Blocks that are written side by side, a page of each in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinearGroup {
    /// Any good blocks, each once.
    pub blocks: Vec<Pbn>,
}

impl LinearGroup {
    /// Pages of the group.
    pub fn pages(&self, geometry: &Geometry) -> u32 {
        self.blocks.len() as u32 * geometry.pages_per_block
    }

    /// The page at a local address.
    pub fn global(&self, geometry: &Geometry, local: u32) -> Ppn {
        let blocks = self.blocks.len() as u32;
        geometry.page_in(self.blocks[(local % blocks) as usize], local / blocks)
    }

    /// The local address of a page, if it is in the group.
    pub fn local(&self, geometry: &Geometry, ppn: Ppn) -> Option<u32> {
        let (block, page) = geometry.block_of(ppn);
        let index = self.blocks.iter().position(|&own| own == block)? as u32;
        Some(page * self.blocks.len() as u32 + index)
    }
}

/// A page of a group: LPA within its subspace, and local PPA.
pub type Point = (u16, u16);

/// A sub-model, as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A sub-model and the last LPA that it covers. The outliers among those it covers are listed with the group's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covering {
    /// The model.
    pub model: LinearModel,
    /// Last LPA.
    pub last: u16,
}

/// How models are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Points in a sample (k).
    pub sample: usize,
    /// Share of inliers that is expected (p).
    pub inliers: f64,
    /// Probability that a sample without outliers is found (q).
    pub success: f64,
    /// Error up to which a point counts as an inlier while the line is looked for, pages.
    pub loose: f64,
    /// Lines looked for in a group. 1 is the paper's.
    pub rounds: u32,
    /// Outliers in a row that a sub-model may cover.
    pub hole: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { sample: 3, inliers: 0.95, success: 0.99, loose: 2.0, rounds: 4, hole: 8 }
    }
}

impl Settings {
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

    /// How far a point is from the line.
    pub fn error(&self, (lpa, local): Point) -> f64 {
        (self.slope * f64::from(lpa) + self.intercept - f64::from(local)).abs()
    }
}

/// The line that most points agree on, and the iterations it took. The first sample is the exemplary set, gathered while the
/// group was written from pages whose LPA followed on the one before; if the expected share of points agrees with it,
/// or with any later sample, that is the end. `random` gives a number below its argument.
pub fn ransac(
    points: &[Point],
    exemplary: &[Point],
    settings: &Settings,
    random: &mut impl FnMut(u32) -> u32,
) -> Option<(Line, u32)> {
    let agreeing = |line: &Line| points.iter().filter(|&&point| line.error(point) <= settings.loose).count();
    let enough = settings.inliers * points.len() as f64;
    let mut best: Option<(Line, usize)> = None;
    let mut sample = Vec::with_capacity(settings.sample);
    let mut iterations = 0;
    for _ in 0..settings.iterations() {
        sample.clear();
        if iterations == 0 && exemplary.len() >= settings.sample {
            sample.extend_from_slice(&exemplary[..settings.sample]);
        } else {
            sample.extend((0..settings.sample).map(|_| points[random(points.len() as u32) as usize]));
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
    let (line, _) = best?;
    let consensus = points.iter().copied().filter(|&point| line.error(point) <= settings.loose);
    let refined = Line::through(consensus).filter(|refined| agreeing(refined) >= agreeing(&line));
    Some((refined.unwrap_or(line), iterations))
}

/// What a group's pages became.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trained {
    /// Sub-models, ascending, whose ranges are disjoint.
    pub models: Vec<Covering>,
    /// Points that no sub-model predicts, ascending: each needs a mapping of its own.
    pub outliers: Vec<Point>,
    /// Iterations of RANSAC, over all rounds.
    pub iterations: u32,
}

/// Makes models of the pages of `group`, ascending by LPA, each LPA once.
pub fn train(
    group: u16,
    points: &[Point],
    exemplary: &[Point],
    settings: &Settings,
    random: &mut impl FnMut(u32) -> u32,
) -> Trained {
    let mut trained = Trained { outliers: points.to_vec(), ..Trained::default() };
    let mut exemplary = exemplary;
    for _ in 0..settings.rounds {
        if trained.outliers.len() < 2 {
            break;
        }
        let Some((line, iterations)) = ransac(&trained.outliers, exemplary, settings, random) else { break };
        trained.iterations += iterations;
        exemplary = &[];
        let before = trained.outliers.len();
        segment(group, line, settings, &mut trained);
        if trained.outliers.len() == before {
            break;
        }
    }
    trained.models.sort_unstable_by_key(|covering| covering.model.start);
    trained
}

/// Makes sub-models of the outliers that lie near a line, as far as no sub-model covers their LPAs yet. A sub-model inherits
/// the line's slope, or has slope 1 where that predicts more: a stream from which a few pages are missing makes a line that
/// is a little steeper than any part of it.
fn segment(group: u16, line: Line, settings: &Settings, trained: &mut Trained) {
    let points = std::mem::take(&mut trained.outliers);
    let taken = trained.models.clone();
    let is_taken = |lpa: u16| taken.iter().any(|own| own.model.start <= lpa && lpa <= own.last);
    let slopes = [Half::nearest(line.slope), Half::ONE];
    let mut from = 0;
    while from < points.len() {
        let (start, base) = points[from];
        let reach = |slope: Half| {
            let model = LinearModel { start, group, slope, base };
            let (mut end, mut at, mut members) = (from + 1, from + 1, 1);
            while at < points.len() && at - end <= settings.hole {
                let (lpa, local) = points[at];
                if u32::from(lpa) != u32::from(points[at - 1].0) + 1 || is_taken(lpa) {
                    break;
                }
                at += 1;
                if model.predict(lpa) == Some(local) {
                    (end, members) = (at, members + 1);
                }
            }
            (members, end, model)
        };
        let anchored = line.error(points[from]) <= settings.loose && !is_taken(start);
        let longest = slopes.map(reach).into_iter().rev().max_by_key(|reach| reach.0);
        // A model takes the bytes of a point mapping: one member gains nothing.
        let Some((_, end, model)) = longest.filter(|reach| anchored && reach.0 >= 2) else {
            trained.outliers.push(points[from]);
            from += 1;
            continue;
        };
        let covered = &points[from..end];
        let wrong = covered.iter().copied().filter(|&(lpa, local)| model.predict(lpa) != Some(local));
        trained.outliers.extend(wrong);
        trained.models.push(Covering { model, last: covered[covered.len() - 1].0 });
        from = end;
    }
}

/// Points that a line stored as the paper prints it, slope and intercept both as 16-bit floats, would not predict.
pub fn literal_outliers(points: &[Point], line: Line) -> usize {
    let (slope, intercept) = (Half::nearest(line.slope).value(), Half::nearest(line.intercept).value());
    let stored = Line { slope, intercept };
    points.iter().filter(|&&point| stored.error(point) > 0.5).count()
}
