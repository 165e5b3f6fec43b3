//! The analytical models of the TPFTL paper beside what was simulated.

use sim::facts::{groups, labels};
use sim::format::{factor, maybe, time};
use sim::model::{error, Costs, Gc, Inputs, Times};
use sim::results::{DeviceInfo, Phase, Run};

use super::grid::{printable, Grid};

const NOTE: &str = "Equations 1 to 13 of the TPFTL paper, from the measured hit ratio, write-backs a miss, share of writes, \
    valid pages a victim and\nhit ratio of collection; times are of dies, for one page access. \"printed\": each mapping \
    that collection moves and does not find\ncached costs an update; \"grouped\": as many updates as there were (moved \
    pages share their translation page's).\n";

/// A table for each phase.
pub fn model_tables(runs: &[Run]) -> String {
    let labels = labels(runs);
    let mut out = String::new();
    for group in groups(runs) {
        let title = format!("Model and simulation: {}", printable(&group.name));
        let columns = ["scheme", "", "simulated", "printed", "error", "grouped", "error "];
        let mut grid = Grid::new(title, columns);
        for &(index, run, phase) in &group.members {
            rows(&mut grid, &labels[index], phase, &run.device);
        }
        if !grid.is_empty() {
            out += &format!("\n{}", grid.text());
        }
    }
    if out.is_empty() {
        "\nModel     nothing was looked up, so there is nothing to model\n".to_owned()
    } else {
        out + NOTE
    }
}

fn rows(grid: &mut Grid, label: &str, phase: &Phase, device: &DeviceInfo) {
    let times = Times::of(device);
    let predicted = |gc: Gc| Some(Inputs::of(phase, device, gc)?.predict(&times).named());
    let found = Costs::simulated(phase, &times).map(|costs| costs.named());
    let (Some(printed), Some(grouped), Some(found)) = (predicted(Gc::Entries), predicted(Gc::Grouped), found)
    else {
        return;
    };
    for (row, ((name, simulated), ((_, printed), (_, grouped)))) in
        found.into_iter().zip(printed.into_iter().zip(grouped)).enumerate()
    {
        let shown = |value: Option<f64>| {
            maybe(value, |value| if name == "write amplification" { factor(value) } else { time(value) })
        };
        let missed = |value| maybe(error(value, simulated), signed);
        grid.row([
            if row == 0 { label.to_owned() } else { String::new() },
            name.to_owned(),
            shown(simulated),
            shown(printed),
            missed(printed),
            shown(grouped),
            missed(grouped),
        ]);
    }
}

/// A share with its sign, zero with a plus; more than the whole is not cut off.
fn signed(share: f64) -> String {
    let percent = 100.0 * share;
    format!("{:+.1} %", if percent.abs() < 0.05 { 0.0 } else { percent })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::results::{MappingCounts, OpCounts};

    /// A thousand page reads, a tenth of which missed into a clean cache.
    fn run() -> Run {
        let mut run = Run::new("test");
        run.scheme.name = "dftl".to_owned();
        run.device.timing.read_ns = 25_000;
        (run.device.channels, run.device.luns_per_channel, run.device.planes_per_lun) = (1, 1, 1);
        run.device.pages_per_block = 64;
        let count = |reads| OpCounts { reads, programs: 0, erases: 0 };
        run.phases.push(Phase {
            name: "read".to_owned(),
            pages_read: 1000,
            mapping: MappingCounts { lookups: 1000, hits: 900, misses: 100, ..MappingCounts::default() },
            flash: [("host".to_owned(), count(1000)), ("translation".to_owned(), count(100))].into(),
            ..Phase::default()
        });
        run
    }

    #[test]
    fn the_model_stands_beside_the_simulation() {
        let text = model_tables(&[run()]);
        let line = text.lines().find(|line| line.contains("T_at")).expect("a line");
        assert!(line.contains("dftl") && line.matches("2.50 µs").count() == 3, "{line}");
        assert!(line.matches("+0.0 %").count() == 2, "{line}");
        let line = text.lines().find(|line| line.contains("page access")).expect("a line");
        assert!(line.matches("27.5 µs").count() == 3, "{line}");
    }

    #[test]
    fn without_lookups_there_is_nothing_to_model() {
        let mut run = run();
        run.phases[0].mapping = MappingCounts::default();
        assert!(model_tables(&[run]).contains("nothing was looked up"));
    }
}
