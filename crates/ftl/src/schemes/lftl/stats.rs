//! What LFTL counts of its linear models.

use crate::counters::Stat;

/// Trainings.
pub(super) const REGRESSIONS: Stat =
    Stat::new(0, "regressions", "sets", "sets of log mappings that a linear model was looked for in");
/// Their price.
pub(super) const ITERATIONS: Stat =
    Stat::new(1, "regression_iterations", "iterations", "iterations of RANSAC in these").of(&REGRESSIONS);
/// Their size.
pub(super) const POINTS: Stat =
    Stat::new(2, "regression_points", "mappings", "mappings in these sets").of(&REGRESSIONS);
/// What they do not cover.
pub(super) const OUTLIERS: Stat =
    Stat::new(3, "regression_outliers", "mappings", "of these, outliers, which keep a mapping of their own")
        .of(&POINTS);
/// What they would not cover in the paper's format.
pub(super) const LITERAL_OUTLIERS: Stat = Stat::new(
    4,
    "regression_literal_outliers",
    "mappings",
    "outliers if models were stored as the paper prints it, with a 16-bit float for an intercept",
)
.of(&POINTS);
/// All of them.
pub(super) const ALL: [Stat; 5] = [REGRESSIONS, ITERATIONS, POINTS, OUTLIERS, LITERAL_OUTLIERS];
