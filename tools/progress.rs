//! The progress of a command on standard error: a bar on a terminal, lines elsewhere, nothing with
//! JSON output.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

/// The display of progress.
pub(crate) enum Meter {
    /// On a terminal.
    Bar(ProgressBar, Option<String>, Unit),
    /// In a file or pipe, with the last line.
    Lines(Option<(String, u64)>),
    /// Nowhere.
    Silent,
}

/// The unit of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Steps,
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
        if json { Self::Silent } else { Self::Lines(None) }
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
            Self::Lines(last) => {
                let tenths = done * 10 / total.max(1);
                if last.as_ref().is_none_or(|(said, shown)| said != what || *shown != tenths) {
                    let percent = if total > 0 { format!(" {}%", tenths * 10) } else { String::new() };
                    // Standard error may be closed.
                    let _ = writeln!(io::stderr(), "{what}{percent}");
                    *last = Some((what.to_owned(), tenths));
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

/// A bar if the total is known, else only the step.
fn style(measured: bool, unit: Unit) -> ProgressStyle {
    let template = match unit {
        _ if !measured => "{msg}",
        Unit::Bytes => "{msg} [{bar:40}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
        Unit::Steps => "{msg} [{bar:40}] {pos} of {len}, {per_sec}, {eta} left",
    };
    ProgressStyle::with_template(template).expect("the templates are well formed").progress_chars("=> ")
}
