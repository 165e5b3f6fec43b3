//! A phase over time: panels one above the other that share one time axis.

use plotly::common::{Mode, Title};
use plotly::layout::{Axis, HoverMode, RangeMode};
use plotly::{Layout, Plot, Scatter};
use sim::facts::Group;
use sim::results::Sample;

use super::escape;
use super::plots::{self, line};

/// Height of a panel, CSS pixels.
const PANEL: usize = 150;
/// Room for the legend and the time axis, CSS pixels.
const FRAME: usize = 90;
/// Share of a panel's height that separates it from the next.
const GAP: f64 = 0.16;

/// What a panel shows.
struct Panel {
    title: &'static str,
    tick_format: &'static str,
    hover: &'static str,
    value: fn(&Sample) -> Option<f64>,
    /// Whether a panel of zeros says anything.
    zeros: bool,
}

const PANELS: [Panel; 6] = [
    Panel {
        title: "requests/s",
        tick_format: "~s",
        hover: "%{y:.3s} requests/s",
        value: Sample::iops,
        zeros: true,
    },
    Panel {
        title: "mean latency",
        tick_format: "~s",
        hover: "%{y:.3s}s",
        value: |sample| sample.mean_latency_ns().map(|ns| ns / 1e9),
        zeros: true,
    },
    Panel {
        title: "hit ratio",
        tick_format: ".0%",
        hover: "%{y:.1%} hits",
        value: Sample::hit_ratio,
        zeros: true,
    },
    Panel {
        title: "write amp.",
        tick_format: "~g",
        hover: "%{y:.3g} flash pages a host page",
        value: Sample::write_amplification,
        zeros: true,
    },
    Panel {
        title: "collections",
        tick_format: "~s",
        hover: "%{y} collections",
        value: |sample| Some(sample.collections as f64),
        zeros: false,
    },
    Panel {
        title: "free superbl.",
        tick_format: "~s",
        hover: "%{y} superblocks free",
        value: |sample| Some(f64::from(sample.free_superblocks)),
        zeros: false,
    },
];

/// The panels that have something to show, and their height together in CSS pixels.
pub(super) fn plot(group: &Group, labels: &[String]) -> Option<(Plot, usize)> {
    let samples = || group.members.iter().flat_map(|(_, _, phase)| &phase.series);
    let says =
        |panel: &Panel| samples().filter_map(|s| (panel.value)(s)).any(|value| panel.zeros || value != 0.0);
    let panels: Vec<&Panel> = PANELS.iter().filter(|panel| says(panel)).collect();
    if panels.is_empty() {
        return None;
    }
    let mut layout = plots::layout().hover_mode(HoverMode::XUnified).x_axis(
        Axis::new()
            .title(Title::with_text("simulated time"))
            .tick_format("~s")
            .tick_suffix("s")
            .hover_format(".3s")
            .anchor(axis(panels.len() - 1)),
    );
    for (index, panel) in panels.iter().enumerate() {
        layout = with_axis(layout, index, panel, panels.len());
    }
    let mut plot = plots::plot(layout);
    for (index, panel) in panels.iter().enumerate() {
        for &(run, _, phase) in &group.members {
            let x: Vec<f64> = phase.series.iter().map(|sample| sample.t_ns as f64 / 1e9).collect();
            let y: Vec<Option<f64>> = phase.series.iter().map(panel.value).collect();
            let name = escape(&labels[run]);
            let trace = Scatter::new(x, y)
                .name(name.clone())
                .legend_group(name)
                .show_legend(index == 0)
                .mode(Mode::Lines)
                .line(line(run))
                .y_axis(axis(index))
                .hover_template(format!("%{{fullData.name}}: {}<extra></extra>", panel.hover));
            plot.add_trace(trace);
        }
    }
    Some((plot, FRAME + PANEL * panels.len()))
}

/// Name of the value axis of panel `index`, from the top.
fn axis(index: usize) -> String {
    if index == 0 {
        "y".to_owned()
    } else {
        format!("y{}", index + 1)
    }
}

fn with_axis(layout: Layout, index: usize, panel: &Panel, panels: usize) -> Layout {
    let height = 1.0 / panels as f64;
    let top = 1.0 - index as f64 * height;
    let bottom = (top - height * if index + 1 == panels { 1.0 } else { 1.0 - GAP }).max(0.0);
    let axis = Axis::new()
        .title(Title::with_text(panel.title))
        .tick_format(panel.tick_format)
        .range_mode(RangeMode::ToZero)
        .n_ticks(4)
        .domain(&[bottom, top]);
    match index {
        0 => layout.y_axis(axis),
        1 => layout.y_axis2(axis),
        2 => layout.y_axis3(axis),
        3 => layout.y_axis4(axis),
        4 => layout.y_axis5(axis),
        _ => layout.y_axis6(axis),
    }
}
