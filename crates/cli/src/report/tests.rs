#![allow(clippy::unwrap_used)]

use sim::results::{Invariant, Phase, Run};

use super::fixture::{mixed_and_broken, three_schemes};
use super::*;

/// The text of the element `<script ... id="ID">`.
fn script(page: &str, id: &str) -> String {
    let (_, rest) = page.split_once(&format!("id=\"{id}\">")).unwrap();
    rest.split_once("</script>").unwrap().0.to_owned()
}

fn origin() -> Origin {
    Origin { command: "ftl compare 'a <b>.fio' --seed 1".to_owned(), version: "0.1.0 (abc123)".to_owned() }
}

fn page_of(runs: &[Run]) -> String {
    html(runs, &origin()).unwrap()
}

/// Data of a plot, by the id of its figure.
fn data_of(page: &str, id: &str) -> Vec<Vec<String>> {
    let (_, figure) = page.split_once(&format!("id=\"{id}\"")).unwrap();
    let (_, data) = figure.split_once("<pre class=\"data\" hidden>").unwrap();
    let lines = data.split_once("</pre>").unwrap().0.lines();
    lines.map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

#[test]
fn page_is_complete_and_needs_no_network() {
    let page = page_of(&three_schemes());
    assert!(page.len() < 600_000, "{} bytes", page.len());
    for outside in ["src=", "href=", "http://", "https://", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'\""));
    for words in
        ["32 GiB of flash", "30 GiB", "steady state", "all 51 invariants of 3 runs held", "data-phase"]
    {
        assert!(page.contains(words), "{words}");
    }
    for id in [
        "overview-iops",
        "overview-wa",
        "p0-iops",
        "p0-cdf-read",
        "p0-reads",
        "p0-series",
        "p2-wa",
        "p2-tail-write",
    ] {
        assert_eq!(page.matches(&format!(" id=\"{id}\">")).count(), 1, "{id}");
    }
    assert!(!page.contains("NaN"));
}

#[test]
fn a_page_of_many_schemes_is_small_too() {
    let mut runs = Vec::new();
    for number in 0..12 {
        for mut run in three_schemes().into_iter().skip(1) {
            run.scheme.parameters.insert("variant".to_owned(), format!("number-{number}"));
            for phase in &mut run.phases {
                phase.series = phase.series.repeat(512 / phase.series.len());
            }
            runs.push(run);
        }
    }
    let page = page_of(&runs);
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
}

#[test]
fn the_top_says_what_made_the_page() {
    let page = page_of(&three_schemes());
    let (top, _) = page.split_once("id=\"overview\"").unwrap();
    for words in [
        "<code>ftl compare 'a &lt;b&gt;.fio' --seed 1</code>",
        "<dt>Version</dt><dd>ftl 0.1.0 (abc123)</dd>",
        "<dt>Seed</dt><dd>1</dd>",
        "<dt>Digest</dt><dd>page 9f86d081884c7d65, dftl 9f86d081884c7d65, ",
    ] {
        assert!(top.contains(words), "{words} in {top}");
    }
}

#[test]
fn light_and_dark_have_all_colours() {
    for style in STYLE {
        let (light, dark) = style.split_once("@media (prefers-color-scheme: dark)").unwrap();
        let names = |text: &str| -> std::collections::BTreeSet<String> {
            let variable =
                |word: &str| word.strip_suffix(':').filter(|name| name.starts_with("--")).map(str::to_owned);
            text.split_whitespace().filter_map(variable).collect()
        };
        let (_, root) = light.split_once(":root {").unwrap();
        let light = names(root.split_once('}').unwrap().0);
        let (_, root) = dark.split_once(":root {").unwrap();
        assert_eq!(light, names(root.split_once('}').unwrap().0));
        assert!(light.len() > 10, "{light:?}");
    }
    let page = page_of(&three_schemes());
    assert!(page.contains("content=\"light dark\"") && !page.contains("fill=\"#"));
}

#[test]
fn every_plot_has_data_to_copy() {
    let runs = three_schemes();
    let page = page_of(&runs);
    assert_eq!(page.matches("<figure").count(), page.matches(">Copy data</button>").count());
    assert_eq!(page.matches("<figure").count(), page.matches("<pre class=\"data\"").count());
    let series = data_of(&page, "p0-series");
    assert_eq!(series[0][..4], ["name", "simulated time (us)", "requests/s", "mean latency (us)"]);
    assert_eq!(series.len(), 1 + 3 * 60);
    let first = &runs[0].phases[0].series[0];
    assert_eq!(series[1][0], "page");
    assert!((series[1][2].parse::<f64>().unwrap() / first.iops().unwrap() - 1.0).abs() < 1e-5);
    let written = data_of(&page, "p2-wa");
    let host: Vec<_> = written.iter().filter(|row| row[2] == "host").collect();
    assert_eq!(host.iter().map(|row| row[3].as_str()).collect::<Vec<_>>(), ["1"; 3]);
}

#[test]
fn a_curve_keeps_its_shape_when_it_is_thinned_out() {
    let runs = three_schemes();
    let page = page_of(&runs);
    let curve = data_of(&page, "p0-cdf-read");
    let of = runs[0].phases[0].latency.read.as_ref().unwrap();
    let mine: Vec<(f64, f64)> = curve
        .iter()
        .filter(|row| row[0] == "page")
        .map(|row| (row[1].parse().unwrap(), row[2].parse().unwrap()))
        .collect();
    assert!(mine.len() <= 240 && mine.len() > 40, "{}", mine.len());
    for (ns, share) in of.cumulative() {
        let before = mine.iter().rev().find(|(us, _)| us * 1e3 <= ns as f64 * 1.000_01).unwrap();
        assert!((share - before.1).abs() < 0.02, "{ns} ns: {share} and {}", before.1);
    }
    assert_eq!(mine.last().unwrap().1, 1.0);
}

#[test]
fn a_phase_without_time_leaves_no_scheme_out() {
    let mut runs = three_schemes();
    runs[1].phases[0].elapsed_ns = 0;
    let page = page_of(&runs);
    for id in ["overview-iops", "p0-iops"] {
        let (_, figure) = page.split_once(&format!("id=\"{id}\"")).unwrap();
        let figure = figure.split_once("</figure>").unwrap().0;
        let (of_first, _) = figure.split_once(">tpftl</text>").unwrap();
        let (_, dftl) = of_first.split_once(">dftl</text>").expect("the scheme has a row");
        assert!(dftl.contains(">-</text>") && !dftl.contains("<rect"), "{id}: {dftl}");
    }
}

#[test]
fn a_long_heading_is_cut_and_said_in_full() {
    let mut runs = three_schemes();
    let long = "W".repeat(80);
    runs.iter_mut().for_each(|run| run.phases[0].name.clone_from(&long));
    let page = page_of(&runs);
    let (_, iops) = page.split_once("id=\"overview-iops\"").unwrap();
    let heading = iops.split_once("<text class=\"name\"").unwrap().1.split_once("</text>").unwrap().0;
    assert!(heading.contains(&format!("<title>{long}</title>")), "{heading}");
    let drawn = heading.split_once("<title>").unwrap().0.matches('W').count();
    assert!((40..=52).contains(&drawn), "{drawn} bold letters");
}

#[test]
fn machines_read_the_runs_back() {
    let runs = three_schemes();
    let page = page_of(&runs);
    let brief: Vec<Run> = runs.iter().map(brief).collect();
    assert!(sim::results::from_json(&script(&page, "results")).unwrap() == brief);
}

#[test]
fn strings_of_users_stay_text() {
    let evil = "</script><script>alert(1)</script><img src=x onerror='alert(\"2\")'>&amp;";
    let mut runs = three_schemes();
    runs[0].scheme.name = evil.to_owned();
    runs[0].scheme.parameters.insert(evil.to_owned(), evil.to_owned());
    runs[0].workload.name = evil.to_owned();
    runs[0].workload.warm_up = evil.to_owned();
    runs[0].device.name = evil.to_owned();
    runs[0].digest = evil.to_owned();
    runs[0].tool = evil.to_owned();
    runs[0].phases[0].name = evil.to_owned();
    runs[0].invariants.push(Invariant::new(evil, false, evil));
    let levels = &mut runs[0].phases[1].mapping.hits_by_level;
    *levels = [(evil.to_owned(), 100_000)].into();
    let page = page_of(&runs);
    assert!(!page.contains("<img") && !page.contains("<script>alert"), "markup of a user got through");
    // The numbers and the page's own script, and no more.
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script>").count(), 2);
    let brief: Vec<Run> = runs.iter().map(brief).collect();
    assert!(sim::results::from_json(&script(&page, "results")).unwrap() == brief);
}

#[test]
fn broken_invariants_come_first() {
    let mut runs = three_schemes();
    runs[2].invariants.push(Invariant::new("Little's law", false, "off by 7 %"));
    let page = page_of(&runs);
    let verdict = page.find("1 INVARIANT OF 52 BROKEN").unwrap();
    assert!(verdict < page.find("class=\"facts\"").unwrap());
    assert!(page.contains("<td>BROKEN</td>"));
    assert!(!page.contains("class=\"verdict good\""));
}

#[test]
fn empty_runs_make_a_page() {
    let mut run = Run::new("test");
    run.phases.push(Phase::default());
    for runs in [vec![], vec![Run::default()], vec![run.clone(), run]] {
        let page = page_of(&runs);
        assert!(!page.contains("NaN") && page.contains("</html>"));
    }
}

#[test]
#[ignore = "writes target/report.html and target/report-mixed.html for a look in a browser"]
fn write_pages_for_a_look() {
    let target = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    std::fs::write(target.join("report.html"), page_of(&three_schemes())).unwrap();
    std::fs::write(target.join("report-mixed.html"), page_of(&mixed_and_broken())).unwrap();
}
