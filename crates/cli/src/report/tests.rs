#![allow(clippy::unwrap_used)]

use serde_json::Value;
use sim::results::{Invariant, Phase, Run};

use super::fixture::{mixed_and_broken, three_schemes};
use super::*;

/// The text of the element `<script ... id="ID">`.
fn script(page: &str, id: &str) -> String {
    let (_, rest) = page.split_once(&format!("id=\"{id}\">")).unwrap();
    rest.split_once("</script>").unwrap().0.to_owned()
}

/// The page without the plot library, which holds words of its own.
fn own(page: &str) -> String {
    page.replace(library().unwrap(), "")
}

#[test]
fn page_is_complete_and_needs_no_network() {
    let page = html(&three_schemes()).unwrap();
    assert!(page.len() < 8_000_000, "{} bytes", page.len());
    let own = own(&page);
    for outside in ["src=", "href=", "http://", "https://", "@import", "url("] {
        assert!(!own.contains(outside), "{outside}");
    }
    assert!(own.contains("default-src 'none'"));
    for words in
        ["32 GiB of flash", "30 GiB", "steady state", "all 51 invariants of 3 runs held", "data-phase"]
    {
        assert!(own.contains(words), "{words}");
    }
    let figures: Value = serde_json::from_str(&script(&page, "figures")).unwrap();
    let ids: Vec<&str> = figures.as_array().unwrap().iter().map(|of| of["id"].as_str().unwrap()).collect();
    for id in [
        "overview-iops",
        "p0-cdf-read",
        "p0-reads",
        "p0-series",
        "p2-wa",
        "p2-tail-write",
        "p3-dies",
        "p3-energy",
    ] {
        assert!(ids.contains(&id), "{id} is not among {ids:?}");
    }
    for id in ids {
        assert_eq!(own.matches(&format!("class=\"plot\" id=\"{id}\"")).count(), 1, "{id}");
    }
    assert!(!script(&page, "figures").contains("NaN"));
}

#[test]
fn machines_read_the_runs_back() {
    let runs = three_schemes();
    let page = html(&runs).unwrap();
    assert!(sim::results::from_json(&script(&page, "results")).unwrap() == runs);
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
    let page = html(&runs).unwrap();
    let own = own(&page);
    assert!(!own.contains("<img") && !own.contains("<script>alert"), "markup of a user got through");
    // Two data elements, the library and the page's own script, and no more.
    assert_eq!(own.matches("<script").count(), 4);
    assert_eq!(own.matches("</script>").count(), 4);
    // plotly draws a subset of HTML in its labels, so those are escaped once more.
    let figures: Value = serde_json::from_str(&script(&page, "figures")).unwrap();
    assert!(!figures.to_string().contains("<img"));
    assert!(sim::results::from_json(&script(&page, "results")).unwrap() == runs);
}

#[test]
fn broken_invariants_come_first() {
    let mut runs = three_schemes();
    runs[2].invariants.push(Invariant::new("Little's law", false, "off by 7 %"));
    let page = own(&html(&runs).unwrap());
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
        let page = own(&html(&runs).unwrap());
        assert!(!page.contains("NaN") && page.contains("</html>"));
    }
}

#[test]
#[ignore = "writes target/report.html and target/report-mixed.html for a look in a browser"]
fn write_pages_for_a_look() {
    let target = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    std::fs::write(target.join("report.html"), html(&three_schemes()).unwrap()).unwrap();
    std::fs::write(target.join("report-mixed.html"), html(&mixed_and_broken()).unwrap()).unwrap();
}
