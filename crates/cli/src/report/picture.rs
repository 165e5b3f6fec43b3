//! The picture of `ftl size`: an SVG for documents, drawn as the plots of the page are.

use maud::{html, PreEscaped};

use super::chart::{drawing, length, width, WIDTH};
use super::size::{by_size, LATENCY, READS};
use super::STYLE;
use crate::table::size::Curve;

/// Room around and between the panels, units.
const MARGIN: f64 = 16.0;
/// Height of a row of the legend, units.
const ROW: f64 = 22.0;
/// Height of a panel, units.
const PANEL: f64 = 280.0;
/// The card behind the panels, light or dark as the reader's system is.
const CARD: &str =
    ".card { fill: #ffffff; } @media (prefers-color-scheme: dark) { .card { fill: #181d23; } }";

/// An SVG with the curves of schemes with these names.
pub fn picture(curve: &Curve, names: &[String]) -> String {
    let panels: Vec<_> = [READS, LATENCY].iter().filter_map(|cost| by_size(curve, names, cost)).collect();
    let wide = 2.0 * WIDTH + 3.0 * MARGIN;
    let (mut x, mut y) = (MARGIN, MARGIN);
    let lines = panels.iter().map(|(_, _, lines)| lines).max_by_key(|lines| lines.len());
    let legend = html! {
        @for line in lines.into_iter().flatten() {
            @let needed = width(&line.name) + 46.0;
            @if x > MARGIN && x + needed > wide - MARGIN {
                @let () = (x, y) = (MARGIN, y + ROW);
            }
            path class={"line " (line.class)} d={"M" (length(x)) " " (length(y + 6.0)) "h22"} {}
            text x=(length(x + 28.0)) y=(length(y + 10.5)) { (line.name) }
            @let () = x += needed;
        }
    };
    let top = y + ROW + 4.0;
    let (wide, high) = (length(wide), length(top + PANEL + MARGIN));
    let picture = html! {
        svg.chart xmlns="http://www.w3.org/2000/svg" viewBox={"0 0 " (wide) " " (high)} width=(wide) height=(high) {
            style { (PreEscaped(STYLE[0])) (CARD) }
            rect.card width=(wide) height=(high) rx="10" {}
            (legend)
            @for (index, (x, y, lines)) in panels.iter().enumerate() {
                svg x=(length(MARGIN + index as f64 * (WIDTH + MARGIN))) y=(length(top)) width=(WIDTH) height=(PANEL) {
                    (drawing(&y.title, x, y, lines, 2))
                }
            }
        }
    };
    picture.into_string() + "\n"
}

#[cfg(test)]
mod tests {
    use sim::size::Point;

    use super::*;

    #[test]
    fn the_picture_names_every_scheme_and_the_ideal() {
        let point = |scheme: &str, cache_bytes, reads| Point {
            scheme: scheme.to_owned(),
            cache_bytes,
            flash_reads_per_host_read: Some(reads),
            mean_latency_ns: Some(1e5 * reads),
            ..Point::default()
        };
        let points = vec![point("dftl", 65_536, 1.9), point("dftl", 1 << 20, 1.2), point("a<b", 65_536, 1.1)];
        let curve = Curve { ideal: point("page", 0, 1.0), points, lru: Vec::new(), within: 0.05 };
        let svg = picture(&curve, &["dftl".to_owned(), "a<b".to_owned()]);
        assert!(svg.starts_with("<svg"));
        for text in ["dftl", "a&lt;b", "ideal map", "flash reads per host read", "mean latency", "64 KiB"] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn one_size_is_a_picture_too() {
        let one = Point { scheme: "dftl".to_owned(), cache_bytes: 4096, ..Point::default() };
        let curve = Curve { ideal: Point::default(), points: vec![one], lru: Vec::new(), within: 0.05 };
        assert!(!picture(&curve, &["dftl".to_owned()]).contains("NaN"));
    }
}
