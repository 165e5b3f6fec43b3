//! A report for the browser: one self-contained page that opens offline.
//!
//! | part | where |
//! | --- | --- |
//! | words, tables, sections | here |
//! | plots | `plots.rs`, `series.rs`: plotly figures, drawn by `page.js` when their phase is shown |
//! | the page of `ftl size`, its picture | `size.rs`, `picture.rs` |
//! | the page of `ftl trace streams` | `streams.rs` |
//! | look | `page.css`; light or dark as the reader's system is |
//! | numbers for machines | the runs as JSON in `<script type="application/json" id="results">` |
//!
//! The page holds the plotly library itself (4.7 MB) and its content security policy forbids every
//! connection.

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
use sim::results::{to_value, OutputError, Run};

use crate::table::grid::Grid;
use crate::table::{flash, phase_grids, run_grids, speed};
pub use picture::picture;
use plots::Figure;
pub use size::size;
pub use streams::{streams, Streams};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Forbids every connection; scripts and styles only from the page itself.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data: blob:; font-src data:";

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The runs could not be embedded.
    #[error("report: {0}")]
    Results(#[from] OutputError),
    /// A plot could not be embedded.
    #[error("report: a plot cannot be written as JSON: {0}")]
    Plot(#[from] serde_json::Error),
    /// A picture could not be drawn.
    #[error("picture: {0}")]
    Picture(String),
    /// The plot library in the plotly crate is not where it was.
    #[error("report: the plotly crate holds no plot library")]
    NoPlotLibrary,
}

/// One page about all `runs`, side by side.
///
/// # Errors
/// [`ReportError`]; none is known to happen.
pub fn html(runs: &[Run]) -> Result<String, ReportError> {
    let labels = labels(runs);
    let groups = groups(runs);
    let mut figures = Vec::new();
    let overview = if groups.len() > 1 { plots::overview(&groups, &labels) } else { Vec::new() };
    let body = html! {
        (opening(runs, &labels))
        @if groups.len() > 1 {
            (section("overview", "All phases", &place(overview, &mut figures)))
            (selector("Phase", "phase", groups.iter().enumerate().map(|(at, group)| (at.to_string(), &*group.name))))
        }
        @for (index, group) in groups.iter().enumerate() {
            section.phase id={"phase-" (index)} {
                h2 { (group.name) }
                (table(&speed(group, &labels)))
                (table(&flash(group, &labels)))
                (place(plots::of_phase(index, group, &labels), &mut figures))
                (phase_details(group, &labels))
            }
        }
        (runs_section(runs, &labels))
        (checks(runs))
    };
    let values = runs.iter().map(to_value).collect::<Result<Vec<_>, _>>()?;
    page(&title(&labels), &body, &figures, Some(&values))
}

/// A whole page: the plots' data, the plot library, the numbers in `results` for machines, and `body` before
/// them.
fn page(
    title: &str,
    body: &Markup,
    figures: &[Figure],
    results: Option<&impl serde::Serialize>,
) -> Result<String, ReportError> {
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
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    (body)
                    noscript { p.note { "The plots need JavaScript; the tables do not." } }
                }
                @if let Some(results) = results { (results) }
                (data("figures", &figures)?)
                script { (PreEscaped(library()?)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    Ok(page.into_string())
}

/// plotly.js as the plotly crate ships it, without the crate's MathJax (2 MB that no plot here needs).
fn library() -> Result<&'static str, ReportError> {
    static SOURCES: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let sources = SOURCES.get_or_init(plotly::Plot::offline_js_sources);
    let (_, rest) = sources.split_once('>').ok_or(ReportError::NoPlotLibrary)?;
    let (script, _) = rest.split_once("</script>").ok_or(ReportError::NoPlotLibrary)?;
    Ok(script)
}

/// JSON for scripts to read. No `<` survives in it, so no string can end the element.
fn data(id: &str, value: &impl serde::Serialize) -> Result<Markup, serde_json::Error> {
    let json = serde_json::to_string(value)?.replace('<', "\\u003c");
    Ok(html! { script type="application/json" id=(id) { (PreEscaped(json)) } })
}

/// Text as plotly wants its labels: it draws a subset of HTML in them.
pub(crate) fn escape(text: &str) -> String {
    html! { (text) }.into_string()
}

fn title(labels: &[String]) -> String {
    if labels.is_empty() {
        return "FTLKit report".to_owned();
    }
    format!("What address translation costs: {}", labels.join(", "))
}

/// Headline, verdict, a paragraph in plain words, and the facts.
fn opening(runs: &[Run], labels: &[String]) -> Markup {
    let verdict = verdict(runs);
    html! {
        header {
            p.tool { "FTLKit report" }
            h1 { (title(labels)) }
            @if let Some(first) = runs.first() {
                p class={"verdict " (if verdict.good() { "good" } else { "bad" })} { (verdict.sentence) }
                @for line in &verdict.broken { p class="verdict bad" { (line) } }
                p.lead { (plain_words(first, runs.len())) }
                (facts_list(facts(runs)))
            } @else {
                p { "No runs were recorded." }
            }
        }
    }
}

/// Names with what is known of them.
fn facts_list(facts: impl IntoIterator<Item = (String, String)>) -> Markup {
    html! { dl.facts { @for (name, fact) in facts { div { dt { (name) } dd { (fact) } } } } }
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

/// Cards for the figures, whose data goes to `all`.
fn place(figures: Vec<Figure>, all: &mut Vec<Figure>) -> Markup {
    let cards = html! {
        div.plots {
            @for figure in &figures {
                figure class=(if figure.wide { "wide" } else { "half" }) {
                    h3 { (figure.title) }
                    div.plot id=(figure.id) style={"height:" (figure.height) "px"} {}
                    figcaption { (figure.caption) }
                }
            }
        }
    };
    all.extend(figures);
    cards
}

fn table(grid: &Grid) -> Markup {
    html! {
        @if !grid.is_empty() {
            div.scroll {
                table {
                    caption { (grid.title) }
                    thead { tr { @for cell in &grid.header { th scope="col" { (cell) } } } }
                    tbody {
                        @for row in &grid.rows {
                            tr {
                                @for (index, cell) in row.iter().enumerate() {
                                    @if index == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
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
