//! Small lines of the history, drawn on the server.

use std::fmt::Write as _;

use super::super::text;
use crate::service::{HistoryRange, HistorySample};

/// The size of a picture, in its own units.
const WIDTH: u64 = 240;
const HEIGHT: u64 = 48;

/// A line, and what it says.
pub(super) struct Chart {
    pub(super) title: &'static str,
    /// The newest value.
    pub(super) now: String,
    /// The greatest value.
    pub(super) most: String,
    /// The points of its pieces: where the server was down there is none.
    pub(super) pieces: Vec<String>,
}

/// What a chart shows of samples.
struct ChartedFigure {
    title: &'static str,
    /// The value of all samples that fall into one step, of so many seconds.
    value: fn(&[HistorySample], f64) -> f64,
    words: fn(f64) -> String,
}

const FIGURES: [ChartedFigure; 5] = [
    ChartedFigure {
        title: "Requests a second",
        value: |samples, seconds| sum(samples, |it| it.requests) / seconds,
        words: |value| if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") },
    },
    ChartedFigure {
        title: "In",
        value: |samples, seconds| sum(samples, |it| it.received) / seconds,
        words: rate,
    },
    ChartedFigure {
        title: "Out",
        value: |samples, seconds| sum(samples, |it| it.sent) / seconds,
        words: rate,
    },
    ChartedFigure {
        title: "Errors (5xx)",
        value: |samples, _| sum(samples, |it| it.errors),
        words: |value| format!("{value:.0}"),
    },
    ChartedFigure {
        title: "99 of 100 commits within",
        value: |samples, _| samples.iter().map(|it| it.commit_micros).max().unwrap_or(0) as f64,
        words: |value| format!("{:.1} ms", value / 1_000.0),
    },
];

fn sum(samples: &[HistorySample], of: fn(&HistorySample) -> u64) -> f64 {
    samples.iter().map(|sample| of(sample) as f64).sum()
}

fn rate(value: f64) -> String {
    format!("{}/s", text::size(value as u64))
}

/// The charts of a range that ends in the minute `end`.
pub(super) fn charts(samples: &[HistorySample], range: HistoryRange, end: u64) -> Vec<Chart> {
    let steps = steps(samples, range, end);
    FIGURES.iter().map(|figure| chart(figure, &steps, range)).collect()
}

/// The samples of each step of the range.
fn steps(samples: &[HistorySample], range: HistoryRange, end: u64) -> Vec<Vec<HistorySample>> {
    let step = minutes_of_step(range);
    let begin = end.saturating_sub(range.minutes());
    let mut steps = vec![Vec::new(); (range.minutes() / step) as usize];
    for sample in samples {
        let at = sample.minute.saturating_sub(begin + 1) / step;
        if let Some(step) = steps.get_mut(at as usize) {
            step.push(*sample);
        }
    }
    steps
}

/// So many that the points of a line are pixels apart.
fn minutes_of_step(range: HistoryRange) -> u64 {
    match range {
        HistoryRange::Hour => 1,
        HistoryRange::Day => 15,
        HistoryRange::Month => 6 * 60,
    }
}

fn chart(figure: &ChartedFigure, steps: &[Vec<HistorySample>], range: HistoryRange) -> Chart {
    let seconds_of_sample = range.minutes_of_sample() * 60;
    let mut values = Vec::with_capacity(steps.len());
    for samples in steps {
        let seconds = (samples.len() as u64 * seconds_of_sample) as f64;
        values.push((!samples.is_empty()).then(|| (figure.value)(samples, seconds)));
    }
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let now = values.iter().rev().flatten().next().copied().unwrap_or(0.0);
    Chart {
        title: figure.title,
        now: (figure.words)(now),
        most: (figure.words)(most),
        pieces: pieces(&values, most),
    }
}

/// The points of each piece of a line without a gap.
fn pieces(values: &[Option<f64>], most: f64) -> Vec<String> {
    let across = WIDTH as f64 / (values.len().max(2) - 1) as f64;
    let up = if most > 0.0 { (HEIGHT - 2) as f64 / most } else { 0.0 };
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for (at, value) in values.iter().enumerate() {
        let Some(value) = value else {
            end_piece(&mut piece, &mut pieces);
            continue;
        };
        let x = at as f64 * across;
        let y = (HEIGHT - 1) as f64 - value * up;
        if piece.is_empty() {
            // A piece of one point is seen, too.
            let _ = write!(piece, "{x:.0},{y:.1} ");
        }
        let _ = write!(piece, "{x:.0},{y:.1} ");
    }
    end_piece(&mut piece, &mut pieces);
    pieces
}

fn end_piece(piece: &mut String, pieces: &mut Vec<String>) {
    if !piece.is_empty() {
        pieces.push(std::mem::take(piece).trim_end().to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(minute: u64, requests: u64) -> HistorySample {
        HistorySample { minute, requests, commit_micros: 2_500, ..HistorySample::default() }
    }

    #[test]
    fn a_line_has_a_gap_where_nothing_is_known() {
        let mut samples: Vec<_> = (941..=950).map(|minute| sample(minute, 120)).collect();
        samples.extend((991..=1_000).map(|minute| sample(minute, 600)));
        let charts = charts(&samples, HistoryRange::Hour, 1_000);
        let requests = &charts[0];
        assert_eq!((requests.now.as_str(), requests.most.as_str(), requests.pieces.len()), ("10", "10", 2));
        assert!(requests.pieces[0].starts_with("0,37.8 0,37.8 4,37.8"), "{}", requests.pieces[0]);
        assert!(requests.pieces[1].ends_with("240,1.0"), "{}", requests.pieces[1]);
        assert_eq!((charts[4].now.as_str(), charts[1].most.as_str()), ("2.5 ms", "0 B/s"));
    }

    #[test]
    fn longer_ranges_have_fewer_points_than_samples() {
        let samples: Vec<_> = (0..1_440).map(|minute| sample(minute + 1, 60)).collect();
        let day = charts(&samples, HistoryRange::Day, 1_440);
        assert_eq!((day[0].now.as_str(), day[0].pieces[0].split(' ').count()), ("1.0", 97));
        let hours: Vec<_> = (1..=720).map(|hour| sample(hour * 60, 3_600)).collect();
        let month = charts(&hours, HistoryRange::Month, 720 * 60);
        assert_eq!((month[0].now.as_str(), month[0].pieces[0].split(' ').count()), ("1.0", 121));
        assert!(charts(&[], HistoryRange::Day, 5).iter().all(|chart| chart.pieces.is_empty()));
    }
}
