//! Points that differ in the seed alone, as one row with means.

use sim::results::Run;

use crate::ended::Stored;
use crate::file::Study;
use crate::point::Point;

/// Two-sided 95 % quantiles of Student's t distribution for 1, 2, ... degrees of freedom.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
/// The same beyond them: the largest that still holds there, that of 31 degrees.
const T_95_MANY: f64 = 2.040;

/// A mean, and how far the true one may be from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The arithmetic mean.
    pub mean: f64,
    /// Half of the 95 % confidence interval (Student's t); `None` with one value.
    pub half_width: Option<f64>,
}

/// The mean of values; `None` when there are none.
pub fn mean(values: &[f64]) -> Option<Mean> {
    let count = values.len() as f64;
    if values.is_empty() {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    let half_width = (values.len() > 1).then(|| {
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let t = T_95.get(values.len() - 2).copied().unwrap_or(T_95_MANY);
        t * (variance / count).sqrt()
    });
    Some(Mean { mean, half_width })
}

/// Points that differ in the seed alone, in one phase.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// The first of them.
    pub point: &'a Point,
    /// The phase; empty where no point has a result.
    pub phase: String,
    /// How many of them have a result.
    pub done: usize,
    /// How many failed.
    pub failed: usize,
    /// How many there are.
    pub points: usize,
    /// Their means, in the order of [`Study::show`].
    pub means: Vec<Option<Mean>>,
}

/// The names of a run's phases, and the number of each among those of its name.
fn named(run: &Run) -> impl Iterator<Item = (&str, usize)> {
    run.phases.iter().enumerate().map(|(at, phase)| {
        let before = run.phases[..at].iter().filter(|other| other.name == phase.name);
        (phase.name.as_str(), before.count())
    })
}

/// A row for each set of points that differ in the seed alone and each of their phases.
pub fn rows<'a>(study: &'a Study, stored: &[Option<Stored>]) -> Vec<Row<'a>> {
    let mut sets: Vec<Vec<usize>> = Vec::new();
    for (index, point) in study.points.iter().enumerate() {
        let alike = |set: &&mut Vec<usize>| {
            let first = &study.points[set[0]];
            (first.scheme == point.scheme) && first.options == point.options
        };
        // Seeds are innermost: points alike stand together.
        match sets.last_mut().filter(alike) {
            Some(set) => set.push(index),
            None => sets.push(vec![index]),
        }
    }
    let mut rows = Vec::new();
    for set in sets {
        let runs: Vec<&Run> = set.iter().filter_map(|&index| stored[index].as_ref()?.ended.run()).collect();
        let failed =
            set.iter().filter(|&&index| stored[index].as_ref().is_some_and(|of| of.ended.run().is_none()));
        let failed = failed.count();
        let mut phases: Vec<(&str, usize)> = runs.iter().flat_map(|run| named(run)).collect();
        let mut known = std::collections::BTreeSet::new();
        phases.retain(|&phase| known.insert(phase));
        if phases.is_empty() {
            phases.push(("", 0));
        }
        for (phase, number) in phases {
            let means = study.show.iter().map(|quantity| {
                let of = |run: &&Run| {
                    let mut alike = run.phases.iter().filter(|it| it.name == phase);
                    quantity.of(run, alike.nth(number)?)
                };
                mean(&runs.iter().filter_map(of).collect::<Vec<f64>>())
            });
            rows.push(Row {
                point: &study.points[set[0]],
                phase: phase.to_owned(),
                done: runs.len(),
                failed,
                points: set.len(),
                means: means.collect(),
            });
        }
    }
    rows
}
