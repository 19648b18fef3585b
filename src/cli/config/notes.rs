//! Remarks on arguments and environment, kept until the log is set up.

use log::Level;

/// Remarks in the order in which they were made.
#[derive(Debug, Default)]
pub(crate) struct Notes(Vec<(Level, String)>);

impl Notes {
    /// Adds a remark on something that works as asked.
    pub(crate) fn info(&mut self, text: String) {
        self.0.push((Level::Info, text));
    }

    /// Adds a remark on something that the operator may want to change.
    pub(crate) fn warn(&mut self, text: String) {
        self.0.push((Level::Warn, text));
    }

    /// Writes all remarks to the log.
    pub(crate) fn log(self) {
        for (level, text) in self.0 {
            log::log!(level, "{text}");
        }
    }
}
