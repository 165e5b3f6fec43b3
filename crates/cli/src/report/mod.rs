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
//! The page holds the plotly library itself (4.7 MB) and its content security policy forbids every connection.

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

use sim::results::{to_value, OutputError, Run};

use crate::table::facts::{facts, groups, labels, verdict, Group};
use crate::table::format::{bytes, maybe, percent};
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
#[derive(Debug)]
pub enum ReportError {
    /// The runs could not be embedded.
    Results(OutputError),
    /// A plot could not be embedded.
    Plot(serde_json::Error),
    /// A picture could not be drawn.
    Picture(String),
    /// The plot library in the plotly crate is not where it was.
    NoPlotLibrary,
}

impl std::fmt::Display for ReportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReportError::Results(error) => write!(f, "report: {error}"),
            ReportError::Plot(error) => write!(f, "report: a plot cannot be written as JSON: {error}"),
            ReportError::Picture(error) => write!(f, "picture: {error}"),
            ReportError::NoPlotLibrary => write!(f, "report: the plotly crate holds no plot library"),
        }
    }
}

impl std::error::Error for ReportError {}

impl From<OutputError> for ReportError {
    fn from(error: OutputError) -> Self {
        ReportError::Results(error)
    }
}

impl From<serde_json::Error> for ReportError {
    fn from(error: serde_json::Error) -> Self {
        ReportError::Plot(error)
    }
}

/// One page about all `runs`, side by side.
///
/// # Errors
/// [`ReportError`]; none is known to happen.
pub fn html(runs: &[Run]) -> Result<String, ReportError> {
    let labels = labels(runs);
    let groups = groups(runs);
    let mut figures = Vec::new();
    let mut body = opening(runs, &labels);
    if groups.len() > 1 {
        let overview = plots::overview(&groups, &labels);
        body += &section("overview", "All phases", &place(overview, &mut figures));
        body += &selector(&groups);
    }
    for (index, group) in groups.iter().enumerate() {
        let found = plots::of_phase(index, group, &labels);
        let mut content = String::new();
        content += &table(&speed(group, &labels));
        content += &table(&flash(group, &labels));
        content += &place(found, &mut figures);
        content += &phase_details(group, &labels);
        body += &format!(
            "<section class=\"phase\" id=\"phase-{index}\"><h2>{}</h2>\n{content}</section>\n",
            escape(&group.name)
        );
    }
    body += &runs_section(runs, &labels);
    body += &checks(runs);
    let values = runs.iter().map(to_value).collect::<Result<Vec<_>, _>>()?;
    Ok(page(&title(&labels), &body, &data("figures", &figures)?, &data("results", &values)?, library()?))
}

fn page(title: &str, body: &str, figures: &str, results: &str, library: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\
         <noscript><p class=\"note\">The plots need JavaScript; the tables do not.</p></noscript>\n</main>\n\
         {results}{figures}<script>{library}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
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
fn data(id: &str, value: &impl serde::Serialize) -> Result<String, serde_json::Error> {
    let json = serde_json::to_string(value)?.replace('<', "\\u003c");
    Ok(format!("<script type=\"application/json\" id=\"{id}\">{json}</script>\n"))
}

/// Text as HTML, for content and quoted attributes alike.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\0' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

fn title(labels: &[String]) -> String {
    if labels.is_empty() {
        return "FTLKit report".to_owned();
    }
    format!("What address translation costs: {}", labels.join(", "))
}

/// Headline, verdict, a paragraph in plain words, and the facts.
fn opening(runs: &[Run], labels: &[String]) -> String {
    let mut out = format!("<header><p class=\"tool\">FTLKit report</p><h1>{}</h1>\n", escape(&title(labels)));
    let verdict = verdict(runs);
    if runs.is_empty() {
        return out + "<p>No runs were recorded.</p></header>\n";
    }
    let class = if verdict.good() { "verdict good" } else { "verdict bad" };
    out += &format!("<p class=\"{class}\">{}</p>\n", escape(&verdict.sentence));
    for line in &verdict.broken {
        out += &format!("<p class=\"verdict bad\">{}</p>\n", escape(line));
    }
    out += &format!("<p class=\"lead\">{}</p>\n<dl class=\"facts\">\n", plain_words(&runs[0], runs.len()));
    for (name, fact) in facts(runs) {
        out += &format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(&name), escape(&fact));
    }
    out + "</dl></header>\n"
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
    escape(&format!(
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
    ))
}

fn selector(groups: &[Group]) -> String {
    let button = |(index, group): (usize, &Group)| {
        format!("<button type=\"button\" data-phase=\"phase-{index}\">{}</button>", escape(&group.name))
    };
    let buttons: String = groups.iter().enumerate().map(button).collect();
    format!("<nav class=\"phases\" aria-label=\"Phase\"><span>Phase</span>{buttons}</nav>\n")
}

fn section(id: &str, heading: &str, content: &str) -> String {
    format!("<section id=\"{id}\"><h2>{}</h2>\n{content}</section>\n", escape(heading))
}

/// Cards for the figures, whose data goes to `all`.
fn place(figures: Vec<Figure>, all: &mut Vec<Figure>) -> String {
    let mut out = String::from("<div class=\"plots\">\n");
    for figure in figures {
        out += &format!(
            "<figure class=\"{}\"><h3>{}</h3><div class=\"plot\" id=\"{}\" style=\"height:{}px\"></div>\
             <figcaption>{}</figcaption></figure>\n",
            if figure.wide { "wide" } else { "half" },
            escape(&figure.title),
            escape(&figure.id),
            figure.height,
            escape(&figure.caption),
        );
        all.push(figure);
    }
    out + "</div>\n"
}

fn table(grid: &Grid) -> String {
    if grid.is_empty() {
        return String::new();
    }
    let cells = |tag: &str, cells: &[String]| -> String {
        let cell = |(index, cell): (usize, &String)| match index {
            0 => format!("<th scope=\"{}\">{}</th>", if tag == "th" { "col" } else { "row" }, escape(cell)),
            _ => format!("<{tag}>{}</{tag}>", escape(cell)),
        };
        cells.iter().enumerate().map(cell).collect()
    };
    let rows: String = grid.rows.iter().map(|row| format!("<tr>{}</tr>\n", cells("td", row))).collect();
    format!(
        "<div class=\"scroll\"><table><caption>{}</caption><thead><tr>{}</tr></thead><tbody>\n{rows}</tbody></table></div>\n",
        escape(&grid.title),
        cells("th", &grid.header),
    )
}

fn phase_details(group: &Group, labels: &[String]) -> String {
    let mut out = String::new();
    for &(index, _, phase) in &group.members {
        let tables: String = phase_grids(phase).iter().map(table).collect();
        out += &format!(
            "<details><summary>{} in full</summary><div class=\"tables\">{tables}</div></details>\n",
            escape(&labels[index])
        );
    }
    out
}

fn runs_section(runs: &[Run], labels: &[String]) -> String {
    let mut content = String::new();
    for (run, label) in runs.iter().zip(labels) {
        let tables: String = run_grids(run).iter().map(table).collect();
        content += &format!(
            "<details><summary>{}</summary><div class=\"tables\">{tables}</div><p class=\"note\">Written by {}; \
             digest {}; simulated in {:.2} s of processor time.</p></details>\n",
            escape(label),
            escape(&run.tool),
            escape(&run.digest),
            run.host.cpu_seconds,
        );
    }
    section("schemes", "Schemes and memory", &content)
}

fn checks(runs: &[Run]) -> String {
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
    let words =
        "<p>Each run ends with checks of its own bookkeeping. One that does not hold makes every number of \
                 the run worthless.</p>";
    let verdict = verdict(runs);
    let open = if verdict.good() { "" } else { " open" };
    let content = format!(
        "{words}<details{open}><summary>{}</summary>{}</details>",
        escape(&verdict.sentence),
        table(&grid)
    );
    section("checks", "Invariants", &content)
}
