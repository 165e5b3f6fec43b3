//! The points of a study, and what they found.

use sim::format::{percent, NOTHING};
use study::summary::{rows, Mean, Row};
use study::{Ended, Quantity, Stored, Study};

use super::grid::{printable, Grid};

/// A line for each point: number, id, state, what it is.
pub fn list(study: &Study, stored: &[Option<Stored>]) -> String {
    let line = |(point, stored): (&study::Point, &Option<Stored>)| {
        let state = match stored.as_ref().map(|stored| &stored.ended) {
            None => "to do",
            Some(Ended::Run(_)) => "done",
            Some(Ended::Failed { .. }) => "failed",
        };
        format!("{:>4}  {}  {state:<6}  {}\n", point.number, point.id, printable(&point.label()))
    };
    study.points.iter().zip(stored).map(line).collect()
}

/// A row for each set of points that differ in the seed alone: means, with the half of their 95 % confidence
/// interval in percent of the mean where there are several seeds.
pub fn summary(study: &Study, stored: &[Option<Stored>]) -> String {
    let rows = rows(study, stored);
    let mut phases: Vec<&str> =
        rows.iter().map(|row| row.phase.as_str()).filter(|name| !name.is_empty()).collect();
    phases.sort_unstable();
    phases.dedup();
    let incomplete = rows.iter().any(|row| row.points > 1 || row.done < row.points);
    let mut header = vec!["point", "phase", "seeds"];
    header.extend(study.show.iter().map(|quantity| quantity.what));
    let mut grid = Grid::new(study.title.clone(), header);
    for row in &rows {
        let phase = if phases.len() > 1 { row.phase.clone() } else { String::new() };
        let seeds = if incomplete { ended(row) } else { String::new() };
        let means = study.show.iter().zip(&row.means).map(|(quantity, mean)| cell(quantity, *mean));
        grid.row([row.point.name(), phase, seeds].into_iter().chain(means));
    }
    let text = grid.compact().text();
    let several_seeds = rows.iter().any(|row| row.done > 1);
    let footer =
        "±: half of the 95 % confidence interval over the seeds (Student's t), in percent of the mean\n";
    format!("{text}{}", if several_seeds { footer } else { "" })
}

/// How many points have a result.
fn ended(row: &Row) -> String {
    match (row.done == row.points, row.failed) {
        (true, _) => row.points.to_string(),
        (false, 0) => format!("{} of {}", row.done, row.points),
        (false, failed) => format!("{} of {}, {failed} failed", row.done, row.points),
    }
}

fn cell(quantity: &Quantity, mean: Option<Mean>) -> String {
    let Some(Mean { mean, half_width }) = mean else { return NOTHING.to_owned() };
    let shown = quantity.unit.show(mean);
    match half_width.filter(|_| mean != 0.0) {
        Some(half) => format!("{shown} ± {}", percent((half / mean).abs())),
        None => shown,
    }
}
