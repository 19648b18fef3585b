//! The progress of a command on standard error: a bar on a terminal, lines elsewhere, nothing with
//! JSON output.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use indicatif::{ProgressBar, ProgressStyle};

/// A line is written after so long at the latest, so that a log shows that work goes on.
const LINE_AFTER: Duration = Duration::from_secs(30);

/// The display of progress.
pub(crate) enum Meter {
    /// On a terminal.
    Bar(ProgressBar, Option<String>, Unit),
    /// In a file or pipe, with the step of the last line.
    Lines(Unit, Option<ShownStep>),
    /// Nowhere.
    Silent,
}

/// The unit of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Steps,
}

/// A step of the work, and its last line.
pub(crate) struct ShownStep {
    what: String,
    begun: Instant,
    /// What was done at that time.
    done_before: u64,
    shown: Instant,
    tenths: u64,
}

impl Meter {
    /// The display that suits standard error.
    pub(crate) fn start(json: bool) -> Self {
        Self::of(Unit::Bytes, json)
    }

    /// As [`Meter::start`], for a number of steps instead of bytes.
    pub(crate) fn of_steps(json: bool) -> Self {
        Self::of(Unit::Steps, json)
    }

    fn of(unit: Unit, json: bool) -> Self {
        if io::stderr().is_terminal() {
            return Self::Bar(ProgressBar::new(0), None, unit);
        }
        if json { Self::Silent } else { Self::Lines(unit, None) }
    }

    /// Shows that `done` of `total` bytes or steps of step `what` are done. A `total` of 0 means
    /// that it is unknown.
    pub(crate) fn update(&mut self, what: &str, done: u64, total: u64) {
        match self {
            Self::Bar(bar, shown, unit) => {
                if shown.as_deref() != Some(what) || bar.length() != Some(total) {
                    *shown = Some(what.to_owned());
                    bar.set_style(style(total > 0, *unit));
                    bar.set_message(what.to_owned());
                    bar.set_length(total);
                }
                bar.set_position(done);
            }
            Self::Lines(unit, step) => {
                if let Some(line) = next_line(step, *unit, what, done, total, Instant::now()) {
                    // Standard error may be closed.
                    let _ = writeln!(io::stderr(), "{line}");
                }
            }
            Self::Silent => {}
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(self) {
        if let Self::Bar(bar, ..) = self {
            bar.finish_and_clear();
        }
    }
}

/// The line to write, if one is due: at a new step, at each tenth of a known total, and after
/// [`LINE_AFTER`].
fn next_line(
    step: &mut Option<ShownStep>,
    unit: Unit,
    what: &str,
    done: u64,
    total: u64,
    now: Instant,
) -> Option<String> {
    let tenths = (done * 10).checked_div(total).unwrap_or(0);
    let is_new = step.as_ref().is_none_or(|step| step.what != what);
    if is_new {
        let what = what.to_owned();
        *step = Some(ShownStep { what, begun: now, done_before: done, shown: now, tenths });
    }
    let step = step.as_mut()?;
    if !is_new && step.tenths == tenths && now - step.shown < LINE_AFTER {
        return None;
    }
    step.tenths = tenths;
    step.shown = now;
    let seconds = (now - step.begun).as_secs();
    let per_second = done.saturating_sub(step.done_before).checked_div(seconds).unwrap_or(0);
    let mut line = what.to_owned();
    if let Some(percent) = (done * 100).checked_div(total) {
        line += &format!(" {percent}%");
    }
    if done > 0 {
        line += &format!(", {}", amount(unit, done));
        if total > 0 {
            line += &format!(" of {}", amount(unit, total));
        }
    }
    if per_second > 0 {
        line += &format!(", {}/s", amount(unit, per_second));
        if total > done {
            let left = Duration::from_secs((total - done) / per_second);
            line += &format!(", {} left", humantime::format_duration(left));
        }
    }
    Some(line)
}

fn amount(unit: Unit, count: u64) -> String {
    match unit {
        Unit::Bytes => ByteSize(count).to_string(),
        Unit::Steps => count.to_string(),
    }
}

/// A bar if the total is known, else only the step.
fn style(measured: bool, unit: Unit) -> ProgressStyle {
    let template = match unit {
        _ if !measured => "{msg}",
        Unit::Bytes => "{msg} [{bar:40}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
        Unit::Steps => "{msg} [{bar:40}] {pos} of {len}, {per_sec}, {eta} left",
    };
    ProgressStyle::with_template(template).expect("the templates are well formed").progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_gets_a_line_at_each_step_at_each_tenth_and_now_and_then() {
        let begun = Instant::now();
        let mut step = None;
        let mut lines = Vec::new();
        let updates: [(&str, u64, u64, u64); 8] = [
            ("listing", 0, 0, 0),
            ("listing", 900, 0, 29),
            ("listing", 3_000, 0, 30),
            ("importing", 4_000, 10_000, 40),
            ("importing", 4_900, 10_000, 50),
            ("importing", 5_000, 10_000, 50),
            ("importing", 5_001, 10_000, 79),
            ("importing", 6_000, 10_000, 80),
        ];
        for (what, done, total, seconds) in updates {
            let now = begun + Duration::from_secs(seconds);
            lines.extend(next_line(&mut step, Unit::Steps, what, done, total, now));
        }
        assert_eq!(
            lines,
            [
                "listing",
                "listing, 3000, 100/s",
                "importing 40%, 4000 of 10000",
                "importing 50%, 5000 of 10000, 100/s, 50s left",
                "importing 60%, 6000 of 10000, 50/s, 1m 20s left",
            ]
        );
    }
}
