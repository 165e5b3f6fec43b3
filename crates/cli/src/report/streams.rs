//! The page of `ftl trace streams`: where a trace writes, over time, and the busiest subspaces alone.

use maud::html;
use sim::format::{bytes, percent, whole, Unit};

use super::axis::Axis;
use super::chart::{row, scatter, Figure};
use super::{facts_list, page, place, plots, section, Origin, ReportError};

/// Subspaces that get a picture of their own.
const SHOWN: usize = 4;
/// Heights of the picture of the whole trace and of a subspace, units.
const TALL: f64 = 420.0;
const LOW: f64 = 280.0;

/// The writes of a trace, thinned out for drawing.
#[derive(Clone, Debug)]
pub struct Streams {
    /// Name of the trace.
    pub name: String,
    /// Bytes of a subspace.
    pub subspace_bytes: u64,
    /// Writes in the trace.
    pub writes: u64,
    /// Of these, writes that begin where an earlier one of the same subspace ended.
    pub sequential: u64,
    /// Number of the write, and its first byte: those that are drawn.
    pub points: Vec<(u64, u64)>,
    /// Writes by subspace, the busiest first, and its drawn writes.
    pub subspaces: Vec<(u64, u64)>,
}

impl Streams {
    /// From the first byte and the length of each write, in order, of which `drawn` at most are drawn.
    pub fn of(name: String, writes: &[(u64, u64)], subspace_bytes: u64, drawn: u64) -> Streams {
        let step = (writes.len() as u64).div_ceil(drawn.max(1)).max(1);
        let mut by_subspace = std::collections::BTreeMap::<u64, (u64, u64)>::new();
        let mut sequential = 0;
        for &(offset, length) in writes {
            let (count, end) = by_subspace.entry(offset / subspace_bytes).or_default();
            sequential += u64::from(*count > 0 && *end == offset);
            (*count, *end) = (*count + 1, offset + length);
        }
        let mut subspaces: Vec<(u64, u64)> =
            by_subspace.into_iter().map(|(subspace, (count, _))| (subspace, count)).collect();
        subspaces.sort_by_key(|&(subspace, count)| (std::cmp::Reverse(count), subspace));
        // One of each `step`, not always the same one: streams that take turns would not all be seen.
        let is_drawn =
            |number: u64| number % step == ((number / step).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % step;
        let numbered = (0..).zip(writes).map(|(number, write)| (number, write.0));
        Streams {
            name,
            subspace_bytes,
            writes: writes.len() as u64,
            sequential,
            points: numbered.filter(|(number, _)| is_drawn(*number)).collect(),
            subspaces,
        }
    }

    /// The streams in one sentence.
    pub fn sentence(&self) -> String {
        let share = self.sequential as f64 / self.writes.max(1) as f64;
        format!(
            "{} writes in {} subspaces of {}; {} of them begin where the one before in the same subspace ended.",
            whole(self.writes),
            whole(self.subspaces.len() as u64),
            bytes(self.subspace_bytes),
            percent(share)
        )
    }
}

/// A page about the write streams of a trace.
pub fn streams(found: &Streams, origin: &Origin) -> Result<String, ReportError> {
    let title = format!("Write streams of {}", found.name);
    let caption = format!("{} A rising line is a stream.", dots(found.points.len(), found.writes));
    let mut figures = vec![picture("All writes", &caption, 0, TALL, &found.points).named("streams-all")];
    for (index, &(subspace, count)) in found.subspaces.iter().take(SHOWN).enumerate() {
        let from = subspace * found.subspace_bytes;
        let to = from + found.subspace_bytes;
        let within: Vec<_> =
            found.points.iter().copied().filter(|(_, byte)| (from..to).contains(byte)).collect();
        let name = format!("Subspace {subspace}, from {}", bytes(from));
        let caption = dots(within.len(), count);
        figures.push(picture(&name, &caption, index + 1, LOW, &within).named(format!("streams-{index}")));
    }
    let body = html! {
        header {
            p.tool { "FTLKit report" }
            h1 { (title) }
            p.lead { (found.sentence()) }
            (facts_list(origin.facts(&[], String::new())))
        }
        (section("streams", "First byte of each write, in the order of the trace", &place(&figures)))
    };
    let results = serde_json::json!({
        "trace": found.name,
        "writes": found.writes,
        "sequential": found.sequential,
        "subspace_bytes": found.subspace_bytes,
        "subspaces": found.subspaces,
    });
    page(&title, &body, Some(&results))
}

/// What the dots of a picture stand for. Writes so near each other that they would share a dot are one.
fn dots(looked_at: usize, writes: u64) -> String {
    let looked_at = looked_at as u64;
    let of = if looked_at == writes { String::new() } else { format!(" of {}", whole(writes)) };
    format!("{}{of} writes looked at; a dot is one or more of them.", whole(looked_at))
}

/// Writes as dots; the data are those that are drawn.
fn picture(title: &str, caption: &str, colour: usize, height: f64, points: &[(u64, u64)]) -> Figure {
    let (drawing, drawn) = scatter(title, &plots::colour(colour), &axes(points), height, points);
    let mut data = row(&["write", "first byte"]);
    for (number, byte) in drawn {
        data += &row(&[number.to_string(), byte.to_string()]);
    }
    Figure::new(title, caption, Vec::new(), vec![drawing], data)
}

fn axes(points: &[(u64, u64)]) -> (Axis, Axis) {
    let numbers = points.iter().map(|(number, _)| *number as f64);
    let bytes = points.iter().map(|(_, byte)| *byte as f64);
    (Axis::between("write", Unit::Count, numbers), Axis::around("address", Unit::Bytes, bytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn streams_are_counted_by_subspace_and_drawn_thinned_out() {
        let mut writes = Vec::new();
        for turn in 0..100u64 {
            writes.extend([(turn * 10, 10), (5_000 + turn * 10, 10), (turn * 7 % 1000 * 10 + 20_000, 10)]);
        }
        let found = Streams::of("a <trace>".to_owned(), &writes, 4_000, 50);
        assert_eq!((found.writes, found.points.len()), (300, 50));
        assert!(found.points.iter().any(|point| (5_000..6_000).contains(&point.1)), "both streams are seen");
        assert_eq!(found.subspaces[..2], [(0, 100), (1, 100)]);
        assert_eq!(found.sequential, 198, "two streams of 100, and a third one with gaps");
        let page = streams(&found, &Origin::default()).unwrap();
        assert!(page.contains("Write streams of a &lt;trace&gt;") && page.contains("streams-3"));
        assert!(page.contains("50 of 300 writes looked at; a dot is one or more of them."));
    }

    #[test]
    fn a_subspace_has_the_data_of_its_own_dots() {
        // Two writes that share a dot in the picture of 1 TiB and lie far apart in that of their subspace.
        let writes = [(0, 10), (5_000, 10), (9_000, 10), (1 << 40, 10)];
        let page = streams(&Streams::of("t".to_owned(), &writes, 10_000, 50), &Origin::default()).unwrap();
        let rows = |id: &str| {
            let (_, figure) = page.split_once(&format!("id=\"{id}\"")).unwrap();
            let (_, data) = figure.split_once("<pre class=\"data\" hidden>").unwrap();
            data.split_once("</pre>").unwrap().0.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(rows("streams-0"), ["0\t0", "1\t5000", "2\t9000"]);
        assert_eq!(rows("streams-1"), [format!("3\t{}", 1_u64 << 40)]);
        assert!(page.contains("4 writes looked at"));
    }
}
