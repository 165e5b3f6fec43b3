//! A phase over time: a drawing for each quantity, over one time axis.

use sim::facts::Group;
use sim::format::Unit;
use sim::results::Sample;

use super::axis::Axis;
use super::chart::{drawing, number, row, Figure, Line, Look};
use super::plots;

/// What a panel shows.
struct Panel {
    title: &'static str,
    unit: Unit,
    value: fn(&Sample) -> Option<f64>,
    /// Whether a panel of zeros says anything.
    zeros: bool,
}

const PANELS: [Panel; 6] = [
    Panel { title: "requests/s", unit: Unit::Count, value: Sample::iops, zeros: true },
    Panel {
        title: "mean latency",
        unit: Unit::Micros,
        value: |sample| sample.mean_latency_ns().map(|ns| ns / 1e3),
        zeros: true,
    },
    Panel { title: "hit ratio", unit: Unit::Share, value: Sample::hit_ratio, zeros: true },
    Panel {
        title: "flash pages written per host page",
        unit: Unit::Factor,
        value: Sample::write_amplification,
        zeros: true,
    },
    Panel {
        title: "collections",
        unit: Unit::Count,
        value: |sample| Some(sample.collections as f64),
        zeros: false,
    },
    Panel {
        title: "free superblocks",
        unit: Unit::Count,
        value: |sample| Some(f64::from(sample.free_superblocks)),
        zeros: false,
    },
];

/// The panels that have something to show. Each line has `most` points at most.
pub(super) fn plot(group: &Group, labels: &[String], most: usize) -> Option<Figure> {
    let members: Vec<(usize, Vec<Sample>)> =
        group.members.iter().map(|&(run, _, phase)| (run, joined(&phase.series, most))).collect();
    let samples = || members.iter().flat_map(|(_, samples)| samples);
    let says = |panel: &&Panel| samples().filter_map(panel.value).any(|value| panel.zeros || value != 0.0);
    let panels: Vec<&Panel> = PANELS.iter().filter(says).collect();
    let micros = |sample: &Sample| sample.t_ns as f64 / 1e3;
    let x = Axis::between("simulated time", Unit::Micros, samples().map(micros).chain([0.0]));
    let axes: Vec<Axis> = panels
        .iter()
        .map(|panel| match panel.unit {
            Unit::Share => Axis::shares(panel.title),
            unit => Axis::from_zero(panel.title, unit, samples().filter_map(panel.value)),
        })
        .collect();
    let drawn = |(index, (panel, y)): (usize, (&&Panel, &Axis))| {
        let line = |(run, samples): &(usize, Vec<Sample>)| Line {
            name: labels[*run].clone(),
            class: plots::line(*run),
            points: samples.iter().map(|sample| (micros(sample), (panel.value)(sample))).collect(),
            look: Look::Straight,
        };
        let lines: Vec<Line> = members.iter().map(line).collect();
        drawing(panel.title, &x, y, &lines, index + 2)
    };
    let drawings: Vec<_> = panels.iter().zip(&axes).enumerate().map(drawn).collect();
    let mut data =
        row(&[vec!["name".to_owned(), x.column()], axes.iter().map(Axis::column).collect()].concat());
    for (run, samples) in &members {
        for sample in samples {
            let value = |panel: &&Panel| (panel.value)(sample).map(number).unwrap_or_default();
            let values = panels.iter().map(value).collect();
            data += &row(&[vec![labels[*run].clone(), number(micros(sample))], values].concat());
        }
    }
    let legend = members
        .iter()
        .map(|(run, _)| (labels[*run].clone(), format!("line {}", plots::line(*run))))
        .collect();
    let caption = "The phase over simulated time: level curves mean a steady state.";
    let figure = Figure::new("Over time", caption, legend, drawings, data);
    (!panels.is_empty()).then_some(Figure { wide: true, ..figure })
}

/// The series with neighbours joined, until it has `most` points at most.
fn joined(series: &[Sample], most: usize) -> Vec<Sample> {
    let chunk = series.len().div_ceil(most.max(1)).max(1);
    let one = |chunk: &[Sample]| chunk.iter().copied().reduce(Sample::then);
    series.chunks(chunk).filter_map(one).collect()
}
