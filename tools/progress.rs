//! How far a command has got: a bar on a terminal, a line now and then elsewhere, nothing for machines. All of it goes to
//! standard error.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

/// Where progress is shown.
pub(crate) enum Meter {
    /// On a terminal.
    Bar(ProgressBar, Option<String>),
    /// In a file or pipe; the last line that was written.
    Lines(Option<(String, u64)>),
    /// Nowhere.
    Silent,
}

impl Meter {
    /// The way to show it here.
    pub(crate) fn start(json: bool) -> Self {
        if io::stderr().is_terminal() {
            return Self::Bar(ProgressBar::new(0), None);
        }
        if json { Self::Silent } else { Self::Lines(None) }
    }

    /// Shows that of what is being done, `done` of `total` bytes are; 0 of 0 where nobody knows.
    pub(crate) fn update(&mut self, what: &str, done: u64, total: u64) {
        match self {
            Self::Bar(bar, shown) => {
                if shown.as_deref() != Some(what) || bar.length() != Some(total) {
                    *shown = Some(what.to_owned());
                    bar.set_style(style(total > 0));
                    bar.set_message(what.to_owned());
                    bar.set_length(total);
                }
                bar.set_position(done);
            }
            Self::Lines(last) => {
                let tenths = done * 10 / total.max(1);
                if last.as_ref().is_none_or(|(said, shown)| said != what || *shown != tenths) {
                    let percent = if total > 0 { format!(" {}%", tenths * 10) } else { String::new() };
                    // Where standard error is closed nobody wants to know.
                    let _ = writeln!(io::stderr(), "{what}{percent}");
                    *last = Some((what.to_owned(), tenths));
                }
            }
            Self::Silent => {}
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(self) {
        if let Self::Bar(bar, _) = self {
            bar.finish_and_clear();
        }
    }
}

/// A bar only where it is known how much there is to do.
fn style(measured: bool) -> ProgressStyle {
    let template = if measured { "{msg} [{bar:40}] {bytes} of {total_bytes}, {eta} left" } else { "{msg}" };
    ProgressStyle::with_template(template).expect("the templates are well formed").progress_chars("=> ")
}
