//! The analytical models of the TPFTL paper beside what was simulated.

use sim::facts::{groups, labels};
use sim::format::{factor, maybe, time};
use sim::model::{error, refusal, Costs, Gc, Inputs, Times, DESCRIBED, PREDICTED};
use sim::results::{Phase, Run};

use super::grid::{printable, Grid};

const NOTE: &str = "Equations 1 to 13 of the TPFTL paper; times are of dies, for one page access. \"printed\": from this run's hit \
    ratio, write-backs\na miss, share of writes, valid pages a victim and hit ratio of collection. \"predicted\": what \
    collection does is taken from other\nruns: V_d from page, V_t and the share of moved pages without an update of their \
    own from the scheme named below \"from\".\nT_gct by itself is not predicted: V_t is less the more a scheme writes back.\n";

/// A table for each phase, and a sentence for each scheme that the models do not describe.
pub fn model_tables(runs: &[Run]) -> String {
    let labels = labels(runs);
    let (mut out, mut refused) = (String::new(), Vec::new());
    for group in groups(runs) {
        let title = format!("Model and simulation: {}", printable(&group.name));
        let columns = ["scheme", "", "simulated", "printed", "error", "predicted", "error ", "from"];
        let mut grid = Grid::new(title, columns);
        for &(index, run, phase) in &group.members {
            match refusal(&run.scheme.name) {
                None => rows(&mut grid, &labels[index], (run, phase), &group.members),
                Some(why) if phase.mapping.lookups > 0 => {
                    let sentence = format!("{} is not modelled: {why}\n", labels[index]);
                    if !refused.contains(&sentence) {
                        refused.push(sentence);
                    }
                }
                Some(_) => {}
            }
        }
        if !grid.is_empty() {
            out += &format!("\n{}", grid.text());
        }
    }
    let refused = refused.concat();
    if out.is_empty() {
        format!("\nModel     nothing was looked up that the models describe\n{refused}")
    } else {
        out + NOTE + &refused
    }
}

/// The run that collection's inputs are taken from: of another scheme that the models describe.
fn source<'a>(of: &str, members: &[(usize, &'a Run, &'a Phase)]) -> Option<(&'a str, &'a Phase)> {
    let named = |name: &str| members.iter().find(|(_, run, _)| run.scheme.name == name);
    let found = DESCRIBED.iter().filter(|name| **name != of).find_map(|name| named(name));
    found.map(|&(_, run, phase)| (run.scheme.name.as_str(), phase))
}

fn rows(grid: &mut Grid, label: &str, (run, phase): (&Run, &Phase), members: &[(usize, &Run, &Phase)]) {
    let (name, device) = (run.scheme.name.as_str(), &run.device);
    let times = Times::of(device);
    let Some(printed) = Inputs::of(phase, device, Gc::Entries) else { return };
    let Some(found) = Costs::simulated(phase, &times) else { return };
    let ideal = members.iter().find(|(_, run, _)| run.scheme.name == "page").map(|&(_, _, phase)| phase);
    let source = source(name, members);
    let predicted = source.and_then(|(_, other)| Inputs::predicted(name, phase, ideal, other, device));
    let predicted = predicted.map(|inputs| inputs.predict(&times).named());
    for (row, ((what, simulated), (_, printed))) in
        found.named().into_iter().zip(printed.predict(&times).named()).enumerate()
    {
        let shown = |value: Option<f64>| {
            maybe(value, |value| if what == "write amplification" { factor(value) } else { time(value) })
        };
        let missed = |value| maybe(error(value, simulated), signed);
        let predicted = predicted.filter(|_| PREDICTED.contains(&what)).and_then(|all| all[row].1);
        grid.row([
            if row == 0 { label.to_owned() } else { String::new() },
            what.to_owned(),
            shown(simulated),
            shown(printed),
            missed(printed),
            shown(predicted),
            missed(predicted),
            if row == 0 {
                source.map_or_else(|| "-".to_owned(), |(name, _)| name.to_owned())
            } else {
                String::new()
            },
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
        assert!(line.contains("dftl") && line.matches("2.50 µs").count() == 2, "{line}");
        assert!(line.matches("+0.0 %").count() == 1, "{line}");
        let line = text.lines().find(|line| line.contains("page access")).expect("a line");
        assert!(line.matches("27.5 µs").count() == 2, "{line}");
    }

    #[test]
    fn collection_is_taken_from_another_run_and_what_is_not_described_gets_a_sentence() {
        let named = |name: &str| {
            let mut run = run();
            run.scheme.name = name.to_owned();
            run
        };
        let text = model_tables(&[named("tpftl"), named("lazyftl"), named("dftl"), named("page")]);
        let line = |of: &str| text.lines().find(|line| line.contains(of)).expect("a line").to_owned();
        assert!(line("│ tpftl").contains("dftl") && line("│ dftl").contains("tpftl"), "{text}");
        assert!(line("│ tpftl").matches("2.50 µs").count() == 3, "{text}");
        let alone = line("T_gct");
        let words: Vec<&str> = alone.split_whitespace().filter(|word| *word != "│").collect();
        assert_eq!(words[words.len() - 2..], ["-", "-"], "neither a prediction nor its error: {text}");
        assert!(
            line("lazyftl").starts_with("lazyftl is not modelled: its writes ask for no mapping"),
            "{text}"
        );
        assert!(line("page is").starts_with("page is not modelled"), "{text}");
    }

    #[test]
    fn without_lookups_there_is_nothing_to_model() {
        let mut run = run();
        run.phases[0].mapping = MappingCounts::default();
        assert!(model_tables(&[run]).contains("nothing was looked up"));
    }
}
