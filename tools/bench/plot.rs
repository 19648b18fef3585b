//! The results as a picture: a row for each result, with throughput on the left and latencies on
//! the right. Rows are numbered from the bottom.

use std::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::SegmentedCoord;
use plotters::coord::types::RangedCoordusize;
use plotters::prelude::*;

use super::report::{PERCENTILES, Result as Measured};

const WIDTH: u32 = 1000;
/// The width of the left half, which has the names of the rows.
const LEFT_WIDTH: u32 = 560;
const NAMES_WIDTH: u32 = 150;
const ROW_HEIGHT: u32 = 28;
/// Captions, axes and margins.
const FRAME_HEIGHT: u32 = 110;
const FONT: (&str, u32) = ("sans-serif", 13);
const CAPTION_FONT: (&str, u32) = ("sans-serif", 16);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws all results into an SVG file.
pub(crate) fn draw(results: &[Measured], path: &Path) -> Result<(), Box<dyn Error>> {
    if results.is_empty() {
        return Err("there is nothing to draw".into());
    }
    let height = FRAME_HEIGHT + ROW_HEIGHT * u32::try_from(results.len())?;
    let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(LEFT_WIDTH);
    throughput(results, &left)?;
    latencies(results, &right)?;
    root.present()?;
    Ok(())
}

/// A bar for each result.
fn throughput(results: &[Measured], area: &Area<'_>) -> Result<(), Box<dyn Error>> {
    let highest = results.iter().map(Measured::per_second).fold(1.0, f64::max);
    let rows = rows(results);
    let mut chart = ChartBuilder::on(area)
        .caption("requests a second", CAPTION_FONT)
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(NAMES_WIDTH)
        .build_cartesian_2d(0.0..highest * 1.15, rows)?;
    let name = |at: &SegmentValue<usize>| match at {
        SegmentValue::CenterOf(at) => results.iter().rev().nth(*at).map(Measured::name).unwrap_or_default(),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .label_style(FONT)
        .x_labels(5)
        .x_label_formatter(&|value| format!("{value:.0}"))
        .y_labels(results.len() + 1)
        .y_label_formatter(&name)
        .draw()?;
    for (at, result) in results.iter().rev().enumerate() {
        let end = result.per_second();
        let corners = [(0.0, SegmentValue::Exact(at)), (end, SegmentValue::Exact(at + 1))];
        let mut bar = Rectangle::new(corners, BLUE.mix(0.6).filled());
        bar.set_margin(7, 7, 0, 0);
        chart.draw_series([bar])?;
        let value = Text::new(format!(" {end:.0}"), (end, SegmentValue::CenterOf(at)), FONT);
        chart.draw_series([value])?;
    }
    Ok(())
}

/// A line from the median to the maximum of each result, with a mark at each percentile.
fn latencies(results: &[Measured], area: &Area<'_>) -> Result<(), Box<dyn Error>> {
    let all = results.iter().flat_map(|r| PERCENTILES.iter().map(|(at, _)| r.percentile_ms(*at)));
    let (lowest, highest) =
        all.fold((f64::MAX, 0.01), |(low, high): (f64, f64), ms| (low.min(ms), high.max(ms)));
    let rows = rows(results);
    let names = PERCENTILES.map(|(_, name)| name).join(", ");
    let mut chart = ChartBuilder::on(area)
        .caption(format!("milliseconds: {names}"), CAPTION_FONT)
        .margin(10)
        .x_label_area_size(30)
        .build_cartesian_2d((lowest.max(0.001) / 1.5..highest * 1.5).log_scale(), rows)?;
    chart.configure_mesh().disable_y_mesh().label_style(FONT).x_labels(5).draw()?;
    for (at, result) in results.iter().rev().enumerate() {
        let points = PERCENTILES.map(|(percentile, _)| {
            (result.percentile_ms(percentile).max(lowest.max(0.001)), SegmentValue::CenterOf(at))
        });
        chart.draw_series([PathElement::new(points.clone(), BLUE.mix(0.6).stroke_width(2))])?;
        chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, BLUE.filled())))?;
    }
    Ok(())
}

/// The axis of the rows, of which it needs two at least.
fn rows(results: &[Measured]) -> SegmentedCoord<RangedCoordusize> {
    (0..results.len().max(2) - 1).into_segmented()
}
