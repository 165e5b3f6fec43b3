//! A report for the browser: one self-contained page that opens offline.
//!
//! | part | where |
//! | --- | --- |
//! | words, tables, sections | here |
//! | which plots | `plots.rs`, `series.rs` |
//! | plots as SVG | `axis.rs`, `chart.rs` (lines, dots), `bars.rs` |
//! | the page of `ftl size`, its picture | `size.rs`, `picture.rs` |
//! | the page of `ftl trace streams` | `streams.rs` |
//! | the page of `ftl paper` | `paper.rs` |
//! | look | `page.css`, `chart.css`; light or dark as the reader's system is |
//! | values under the pointer, copies of a plot's data, one phase of several | `page.js` |
//! | numbers for machines | the runs as JSON in `<script type="application/json" id="results">` |
//!
//! A page opens without a network, and its content security policy forbids every connection. It can be read
//! without JavaScript, too. Lines have as many points as a screen shows; `--json` writes all of them.

mod axis;
mod bars;
mod chart;
#[cfg(feature = "complete")]
pub(crate) mod paper;
mod picture;
mod plots;
mod series;
mod size;
mod streams;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

use maud::{html, Markup, PreEscaped, DOCTYPE};
use sim::facts::{facts, groups, labels, verdict, Group};
use sim::format::{bytes, maybe, percent};
use sim::results::{to_value, Kind, OutputError, Run};

use crate::table::grid::Grid;
use crate::table::{flash, phase_grids, run_grids, speed};
use chart::Figure;
pub use picture::picture;
pub use size::size;
pub use streams::{streams, Streams};

const STYLE: [&str; 2] = [include_str!("chart.css"), include_str!("page.css")];
const SCRIPT: &str = include_str!("page.js");

/// Forbids every connection; scripts and styles only from the page itself.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'";

/// What made a page.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The command line.
    pub command: String,
    /// Version and commit of the program.
    pub version: String,
}

impl Origin {
    /// Named facts: command, version, seeds if there are any, and digests if there are any.
    fn facts(&self, seeds: &[u64], digests: String) -> Vec<(String, String)> {
        let mut different: Vec<String> = Vec::new();
        for seed in seeds.iter().map(u64::to_string) {
            if !different.contains(&seed) {
                different.push(seed);
            }
        }
        let facts = [
            ("Command", self.command.clone()),
            ("Version", format!("ftl {}", self.version)),
            ("Seed", different.join(", ")),
            ("Digest", digests),
        ];
        let told = facts.into_iter().filter(|(_, fact)| !fact.is_empty());
        told.map(|(name, fact)| (name.to_owned(), fact)).collect()
    }
}

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The runs could not be embedded.
    #[error("report: {0}")]
    Results(#[from] OutputError),
    /// Numbers could not be embedded.
    #[error("report: numbers cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// One page about all `runs`, side by side.
///
/// # Errors
/// [`ReportError`]; none is known to happen.
pub fn html(runs: &[Run], origin: &Origin) -> Result<String, ReportError> {
    let labels = labels(runs);
    let groups = groups(runs);
    let lines = groups.iter().map(|group| group.members.len()).sum();
    let body = html! {
        (opening(runs, &labels, origin))
        @if groups.len() > 1 {
            (section("overview", "All phases", &place(&plots::overview(&groups, &labels))))
            (selector("Phase", "phase", groups.iter().enumerate().map(|(at, group)| (at.to_string(), &*group.name))))
        }
        @for (index, group) in groups.iter().enumerate() {
            section.phase id={"phase-" (index)} {
                h2 { (group.name) }
                (table(&speed(group, &labels)))
                (table(&flash(group, &labels)))
                (place(&plots::of_phase(index, group, &labels, lines)))
                (phase_details(group, &labels))
            }
        }
        (runs_section(runs, &labels))
        (checks(runs))
    };
    let values = runs.iter().map(|run| to_value(&brief(run))).collect::<Result<Vec<_>, _>>()?;
    page(&title(&labels), &body, Some(&values))
}

/// A run without what the plots hold: its series and distributions.
fn brief(run: &Run) -> Run {
    let mut run = run.clone();
    for phase in &mut run.phases {
        phase.series.clear();
        phase.cache_samples.clear();
        for kind in Kind::ALL {
            if let Some(latency) = &mut phase.latency[kind] {
                latency.bins.clear();
            }
        }
    }
    run
}

/// A whole page: `body`, and the numbers in `results` for machines.
fn page(title: &str, body: &Markup, results: Option<&impl serde::Serialize>) -> Result<String, ReportError> {
    let results = results.map(|results| data("results", results)).transpose()?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { @for style in STYLE { (PreEscaped(style)) } }
            }
            body {
                main {
                    (body)
                    noscript {
                        p.note { "Without JavaScript, plots have no values under the pointer and no data to copy." }
                    }
                }
                @if let Some(results) = results { (results) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    Ok(page.into_string())
}

/// JSON for scripts to read. No `<` survives in it, so no string can end the element.
fn data(id: &str, value: &impl serde::Serialize) -> Result<Markup, serde_json::Error> {
    let json = serde_json::to_string(value)?.replace('<', "\\u003c");
    Ok(html! { script type="application/json" id=(id) { (PreEscaped(json)) } })
}

fn title(labels: &[String]) -> String {
    if labels.is_empty() {
        return "FTLKit report".to_owned();
    }
    format!("What address translation costs: {}", labels.join(", "))
}

/// Headline, verdict, a paragraph in plain words, and the facts.
fn opening(runs: &[Run], labels: &[String], origin: &Origin) -> Markup {
    let verdict = verdict(runs);
    let seeds: Vec<u64> = runs.iter().map(|run| run.workload.seed).collect();
    let digest = |(run, label): (&Run, &String)| format!("{label} {}", run.digest);
    let digests: Vec<String> = runs.iter().zip(labels).map(digest).collect();
    html! {
        header {
            p.tool { "FTLKit report" }
            h1 { (title(labels)) }
            @if let Some(first) = runs.first() {
                p class={"verdict " (if verdict.good() { "good" } else { "bad" })} { (verdict.sentence) }
                @for line in &verdict.broken { p class="verdict bad" { (line) } }
                p.lead { (plain_words(first, runs.len())) }
                (facts_list(origin.facts(&seeds, digests.join(", ")).into_iter().chain(facts(runs))))
            } @else {
                p { "No runs were recorded." }
            }
        }
    }
}

/// Names with what is known of them.
fn facts_list(facts: impl IntoIterator<Item = (String, String)>) -> Markup {
    let code = |name: &str| name == "Command";
    html! {
        dl.facts {
            @for (name, fact) in facts {
                div { dt { (name) } @if code(&name) { dd { code { (fact) } } } @else { dd { (fact) } } }
            }
        }
    }
}

fn plain_words(run: &Run, number: usize) -> String {
    let device = &run.device;
    let schemes =
        if number == 1 { "One scheme".to_owned() } else { format!("{number} schemes, side by side,") };
    let warm_up = if run.workload.warm_up.is_empty() {
        "Nothing was written before the measurement: the device began empty.".to_owned()
    } else {
        format!("Before the measurement the device was brought to a steady state: {}.", run.workload.warm_up)
    };
    format!(
        "{schemes} served \u{201c}{}\u{201d} on an emulated SSD, {}. It has {} of flash, of which the host sees {} \
         ({}); the remaining {} is room for garbage collection. The mapping cache has {}, which is {} of what the \
         whole mapping table would take. {warm_up}",
        run.workload.name,
        device.name,
        bytes(device.raw_bytes),
        bytes(device.exported_bytes),
        maybe(device.utilisation(), percent),
        bytes(device.over_provisioning_bytes),
        bytes(run.memory.cache_bytes),
        maybe(run.memory.cache_share(), percent),
    )
}

/// Buttons that show one section of several, whose ids are `prefix-KEY`.
fn selector<'a>(what: &str, prefix: &str, entries: impl Iterator<Item = (String, &'a str)>) -> Markup {
    html! {
        nav.phases aria-label=(what) {
            span { (what) }
            @for (key, name) in entries { button type="button" data-phase={(prefix) "-" (key)} { (name) } }
        }
    }
}

fn section(id: &str, heading: &str, content: &Markup) -> Markup {
    html! { section id=(id) { h2 { (heading) } (content) } }
}

/// Cards of figures.
fn place(figures: &[Figure]) -> Markup {
    html! { div.plots { @for figure in figures { (figure.card()) } } }
}

fn table(grid: &Grid) -> Markup {
    marked_table(grid, |_, _| None)
}

/// A table in which some cells have a colour, by the class that `class` gives for row and column.
fn marked_table(grid: &Grid, class: impl Fn(usize, usize) -> Option<&'static str>) -> Markup {
    let cell = |row: usize, column: usize, text: &String| match class(row, column) {
        Some(class) => html! { span class={"pill " (class)} { (text) } },
        None => html! { (text) },
    };
    html! {
        @if !grid.is_empty() {
            div.scroll {
                table {
                    caption { (grid.title) }
                    thead { tr { @for cell in &grid.header { th scope="col" { (cell) } } } }
                    tbody {
                        @for (row, cells) in grid.rows.iter().enumerate() {
                            tr {
                                @for (column, text) in cells.iter().enumerate() {
                                    @if column == 0 { th scope="row" { (text) } } @else { td { (cell(row, column, text)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn tables(grids: &[Grid]) -> Markup {
    html! { div.tables { @for grid in grids { (table(grid)) } } }
}

fn phase_details(group: &Group, labels: &[String]) -> Markup {
    html! {
        @for &(index, run, phase) in &group.members {
            details { summary { (labels[index]) " in full" } (tables(&phase_grids(run, phase))) }
        }
    }
}

fn runs_section(runs: &[Run], labels: &[String]) -> Markup {
    let content = html! {
        @for (run, label) in runs.iter().zip(labels) {
            details {
                summary { (label) }
                (tables(&run_grids(run)))
                p.note {
                    "Written by " (run.tool) "; digest " (run.digest) "; simulated in "
                    (format!("{:.2}", run.host.cpu_seconds)) " s of processor time."
                }
            }
        }
    };
    section("schemes", "Schemes and memory", &content)
}

fn checks(runs: &[Run]) -> Markup {
    let labels = labels(runs);
    let mut grid = Grid::new("", ["check", "run", "result", "numbers"]);
    // Broken ones first: a reader must not have to look for them.
    for held in [false, true] {
        for (run, label) in runs.iter().zip(&labels) {
            for invariant in run.invariants.iter().filter(|invariant| invariant.held == held) {
                let result = if held { "held" } else { "BROKEN" };
                grid.row([
                    invariant.name.clone(),
                    label.clone(),
                    result.to_owned(),
                    invariant.detail.clone(),
                ]);
            }
        }
    }
    let verdict = verdict(runs);
    let content = html! {
        p {
            "Each run ends with checks of its own bookkeeping. One that does not hold makes every number of the run "
            "worthless."
        }
        details open[!verdict.good()] { summary { (verdict.sentence) } (table(&grid)) }
    };
    section("checks", "Invariants", &content)
}
