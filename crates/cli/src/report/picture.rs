//! The picture of `ftl size`: an SVG for documents, where the page's plots cannot go.

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use sim::format::{bytes, digits, time};
use sim::size::Point;

use super::plots;
use super::ReportError;
use crate::table::size::Curve;

const SIZE: (u32, u32) = (900, 340);
const GREY: RGBColor = RGBColor(0xa0, 0xa0, 0xa0);
const INK: RGBColor = RGBColor(0x40, 0x40, 0x40);

/// One panel: what it shows, how a value is written, and whether its axis is logarithmic.
struct Panel {
    title: &'static str,
    of: fn(&Point) -> Option<f64>,
    label: fn(f64) -> String,
    log: bool,
}

const PANELS: [Panel; 2] = [
    Panel {
        title: "flash reads per host read",
        of: |point| point.flash_reads_per_host_read,
        label: digits,
        log: false,
    },
    Panel { title: "mean latency", of: |point| point.mean_latency_ns, label: time, log: true },
];

/// An SVG with the curves of schemes with these names.
pub fn picture(curve: &Curve, names: &[String]) -> Result<String, ReportError> {
    let mut svg = String::new();
    draw(&mut svg, curve, names).map_err(ReportError::Picture)?;
    Ok(svg)
}

fn draw(svg: &mut String, curve: &Curve, names: &[String]) -> Result<(), String> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(|error| error.to_string())?;
    for (area, panel) in root.split_evenly((1, PANELS.len())).iter().zip(PANELS) {
        let of = |point: &Point| (panel.of)(point).filter(|value| *value > 0.0);
        let sizes = curve.points.iter().map(|point| point.cache_bytes as f64);
        let (least, most) = ends(sizes);
        let (low, high) = ends(curve.points.iter().chain([&curve.ideal]).filter_map(of));
        let drawn = if panel.log {
            let range = (low / 1.3..high * 1.3).log_scale();
            chart(area, &panel, curve, names, (least..most).log_scale().base(2.0), range)
        } else {
            let room = (high - low).max(0.1) * 0.08;
            chart(area, &panel, curve, names, (least..most).log_scale().base(2.0), low - room..high + room)
        };
        drawn?;
    }
    root.present().map_err(|error| error.to_string())
}

/// The least and the greatest of some numbers.
fn ends(numbers: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, most) = numbers.fold((f64::MAX, f64::MIN), |(least, most), x| (least.min(x), most.max(x)));
    match (least < most, least < f64::MAX) {
        (true, _) => (least, most),
        (false, true) => (least, 2.0 * least),
        (false, false) => (1.0, 2.0),
    }
}

/// Draws one panel on these two axes.
fn chart<X, Y>(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    panel: &Panel,
    curve: &Curve,
    names: &[String],
    x: X,
    y: Y,
) -> Result<(), String>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let told = |error: DrawingAreaErrorKind<_>| format!("{error:?}");
    let style = ("sans-serif", 13).into_font().color(&INK);
    let mut chart = ChartBuilder::on(area)
        .caption(panel.title, ("sans-serif", 15).into_font().color(&INK))
        .margin(10)
        .margin_right(24)
        .x_label_area_size(34)
        .y_label_area_size(62)
        .build_cartesian_2d(x, y)
        .map_err(told)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GREY.mix(0.35))
        .axis_style(GREY)
        .label_style(style.clone())
        .x_labels(5)
        .y_labels(6)
        .x_desc("mapping cache")
        .x_label_formatter(&|size| bytes(*size as u64))
        .y_label_formatter(&|value| (panel.label)(*value))
        .draw()
        .map_err(told)?;
    for (index, name) in names.iter().enumerate() {
        let mine = curve.points.iter().filter(|point| point.scheme == *name);
        let line: Vec<(f64, f64)> =
            mine.filter_map(|point| Some((point.cache_bytes as f64, (panel.of)(point)?))).collect();
        let colour = rgb(plots::colour(index));
        let series = LineSeries::new(line.iter().copied(), colour.stroke_width(2));
        chart
            .draw_series(series)
            .map_err(told)?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(line.iter().map(|&at| Circle::new(at, 3, colour.filled()))).map_err(told)?;
    }
    if let Some(ideal) = (panel.of)(&curve.ideal) {
        let sizes = curve.points.iter().map(|point| point.cache_bytes as f64);
        let (least, most) = ends(sizes);
        let line = DashedLineSeries::new([(least, ideal), (most, ideal)], 6, 4, GREY.stroke_width(2));
        chart
            .draw_series(line)
            .map_err(told)?
            .label("ideal map")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], GREY.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .label_font(style)
        .draw()
        .map_err(told)
}

/// A colour written as `#4477AA`.
fn rgb(hex: &str) -> RGBColor {
    let part = |at: usize| hex.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok()).unwrap_or(0);
    RGBColor(part(1), part(3), part(5))
}

#[cfg(test)]
mod tests {
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
        let svg = picture(&curve, &["dftl".to_owned(), "a<b".to_owned()]).expect("a picture");
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
        assert!(picture(&curve, &["dftl".to_owned()]).is_ok_and(|svg| !svg.contains("NaN")));
    }
}
