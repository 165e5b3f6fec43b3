//! Two results side by side.

use sim::facts::{groups, labels, run_facts, Group};
use sim::format::{digits, Unit, NOTHING};
use sim::results::{Phase, Run};
use study::Quantity;

use super::grid::{printable, Grid};

/// What is set side by side, and whether more of it is better; `None` where it is neither.
const QUANTITIES: [(&str, Option<bool>); 14] = [
    ("iops", Some(true)),
    ("bandwidth", Some(true)),
    ("mean_read_us", Some(false)),
    ("p99_read_us", Some(false)),
    ("p999_read_us", Some(false)),
    ("mean_write_us", Some(false)),
    ("p99_write_us", Some(false)),
    ("p999_write_us", Some(false)),
    ("hit_ratio", Some(true)),
    ("reads_per_read", Some(false)),
    ("write_amplification", Some(false)),
    ("erases", Some(false)),
    ("energy", Some(false)),
    ("memory", None),
];

/// A scheme of one result and the same one of the other.
struct Pair<'a> {
    name: String,
    first: &'a Run,
    second: &'a Run,
}

/// What differs between two results with these names, phase by phase. Differences above `within` are marked.
pub fn differences(first: &[Run], second: &[Run], names: &[String; 2], within: f64) -> String {
    let (ours, theirs) = (labels(first), labels(second));
    let mut out = format!("A         {}\nB         {}\n", printable(&names[0]), printable(&names[1]));
    let pairs = pairs((first, &ours), (second, &theirs));
    if let Some(pair) = pairs.first() {
        out += &facts(pair);
    }
    for (name, labels, others) in [("Only in A", &ours, &theirs), ("Only in B", &theirs, &ours)] {
        let alone: Vec<&str> =
            labels.iter().filter(|label| !others.contains(label)).map(String::as_str).collect();
        let are_paired = first.len() == 1 && second.len() == 1;
        if !are_paired && !alone.is_empty() {
            out += &format!("{name:<9} {}\n", printable(&alone.join(", ")));
        }
    }
    let (same, different): (Vec<&Pair>, Vec<&Pair>) =
        pairs.iter().partition(|pair| pair.first.same_findings(pair.second));
    if !same.is_empty() {
        let names: Vec<&str> = same.iter().map(|pair| pair.name.as_str()).collect();
        out += &format!("Same      {}: every number\n", printable(&names.join(", ")));
    }
    for pair in different {
        let (mine, other) =
            (groups(std::slice::from_ref(pair.first)), groups(std::slice::from_ref(pair.second)));
        for group in &mine {
            let Some(found) = other.iter().find(|other| other.name == group.name) else { continue };
            let grid = grid(pair, group, found, within);
            if !grid.rows.is_empty() {
                out += &format!("\n{}", grid.text());
            }
        }
        for (whose, groups, others) in [("A", &mine, &other), ("B", &other, &mine)] {
            for group in groups.iter().filter(|group| !others.iter().any(|other| other.name == group.name)) {
                out += &format!(
                    "\n{}: only {whose} has a phase {}\n",
                    printable(&pair.name),
                    printable(&group.name)
                );
            }
        }
    }
    if pairs.is_empty() {
        out += "No scheme is in both.\n";
    }
    out
}

/// Runs of the same label; two single runs whatever they are.
fn pairs<'a>(
    (first, ours): (&'a [Run], &[String]),
    (second, theirs): (&'a [Run], &[String]),
) -> Vec<Pair<'a>> {
    if let ([one], [other]) = (first, second) {
        let name = if ours == theirs { ours[0].clone() } else { format!("{} and {}", ours[0], theirs[0]) };
        return vec![Pair { name, first: one, second: other }];
    }
    let pair = |(run, label): (&'a Run, &String)| {
        let at = theirs.iter().position(|other| other == label)?;
        Some(Pair { name: label.clone(), first: run, second: &second[at] })
    };
    first.iter().zip(ours).filter_map(pair).collect()
}

/// What the first two runs do not have in common.
fn facts(pair: &Pair) -> String {
    let mut out = String::new();
    for ((name, ours), (_, theirs)) in run_facts(pair.first).into_iter().zip(run_facts(pair.second)) {
        if ours != theirs {
            out += &format!("{name:<9} A: {}\n{:<9} B: {}\n", printable(&ours), "", printable(&theirs));
        }
    }
    out
}

fn grid(pair: &Pair, ours: &Group, theirs: &Group, within: f64) -> Grid {
    let title = format!("{}, {}", pair.name, ours.name);
    let mut grid = Grid::new(title, ["", "A", "B", "change", ""]);
    let phase =
        |group: &Group<'_>| group.members.first().map(|&(_, _, phase)| phase.clone()).unwrap_or_default();
    let (ours, theirs): (Phase, Phase) = (phase(ours), phase(theirs));
    for (name, more_is_better) in QUANTITIES {
        let Ok(quantity) = Quantity::find(name) else { continue };
        let (a, b) = (quantity.of(pair.first, &ours), quantity.of(pair.second, &theirs));
        if a.is_none() && b.is_none() {
            continue;
        }
        let show =
            |value: Option<f64>| value.map_or_else(|| NOTHING.to_owned(), |value| quantity.unit.show(value));
        let (change, mark) = match (a, b) {
            (Some(a), Some(b)) => change(quantity.unit, (a, b), within, more_is_better),
            _ => (NOTHING.to_owned(), ""),
        };
        grid.row([quantity.what.to_owned(), show(a), show(b), change, mark.to_owned()]);
    }
    grid
}

/// The difference as a share of `a`, of shares in points, and a word on it when it is more than `within`.
fn change(
    unit: Unit,
    (a, b): (f64, f64),
    within: f64,
    more_is_better: Option<bool>,
) -> (String, &'static str) {
    if a == b {
        return ("same".to_owned(), "");
    }
    let mark = match more_is_better {
        Some(better) if better == (b > a) => "better",
        Some(_) => "worse",
        None => "other",
    };
    let (share, of) = if unit == Unit::Share { (b - a, "points") } else { ((b - a) / a, "%") };
    if !share.is_finite() {
        return (NOTHING.to_owned(), mark);
    }
    let text = format!("{}{} {of}", if share > 0.0 { "+" } else { "-" }, digits(share.abs() * 100.0));
    (text, if share.abs() > within { mark } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::three_schemes;

    fn names() -> [String; 2] {
        ["a.json".to_owned(), "b.json".to_owned()]
    }

    #[test]
    fn a_result_is_the_same_as_itself() {
        let text = differences(&three_schemes(), &three_schemes(), &names(), 0.01);
        assert!(text.contains("Same      page, dftl, tpftl: every number"), "{text}");
        assert!(!text.contains("better") && !text.contains("worse"), "{text}");
    }

    #[test]
    fn what_differs_is_marked_with_its_direction() {
        let (first, mut second) = (three_schemes(), three_schemes());
        second.remove(0);
        second[0].memory.cache_bytes *= 2;
        second[0].phases[0].elapsed_ns /= 2;
        second[0].phases[2].flash.get_mut("collection").expect("collection").programs *= 2;
        let text = differences(&first, &second, &names(), 0.01);
        assert!(text.contains("Only in A page"), "{text}");
        assert!(text.contains("Same      tpftl: every number"), "{text}");
        let line = |start: &str| text.lines().find(|line| line.contains(start)).expect(start).to_owned();
        assert!(line("change").contains('A'), "the column is a change, and no difference: {text}");
        assert!(line("requests/s").contains("+100 %") && line("requests/s").contains("better"), "{text}");
        let worse =
            text.lines().filter(|line| line.contains("write amplification") && line.contains("worse"));
        assert_eq!(worse.count(), 1, "{text}");
    }

    #[test]
    fn two_single_runs_are_set_side_by_side_whatever_they_are() {
        let runs = three_schemes();
        let text = differences(&runs[..1], &runs[1..2], &names(), 0.01);
        assert!(text.contains("page and dftl, randread"), "{text}");
        assert!(!text.contains("Only in"), "{text}");
    }

    #[test]
    fn small_differences_are_not_marked() {
        let change = |a, b, within, better| change(Unit::Count, (a, b), within, better);
        assert_eq!(change(100.0, 100.5, 0.01, Some(true)), ("+0.500 %".to_owned(), ""));
        assert_eq!(change(100.0, 98.0, 0.01, Some(true)), ("-2.00 %".to_owned(), "worse"));
        assert_eq!(change(0.0, 1.0, 0.01, None), ("-".to_owned(), "other"));
        assert_eq!(change(2.0, 2.0, 0.0, Some(false)), ("same".to_owned(), ""));
    }

    #[test]
    fn shares_differ_by_points() {
        let change = |a, b| change(Unit::Share, (a, b), 0.01, Some(true));
        assert_eq!(change(0.4, 0.5), ("+10.0 points".to_owned(), "better"));
        assert_eq!(change(0.0, 0.05), ("+5.00 points".to_owned(), "better"));
        assert_eq!(change(0.01, 0.005), ("-0.500 points".to_owned(), ""));
        assert_eq!(change(0.4, 0.4), ("same".to_owned(), ""));
    }
}
