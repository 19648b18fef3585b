//! The reason why bytes are not what they should be.

use std::fmt;

/// Bytes that break the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Where in the bytes.
    pub(crate) offset: usize,
    /// What is wrong.
    pub(crate) what: String,
}

impl Malformed {
    pub(crate) fn new(offset: usize, what: impl Into<String>) -> Self {
        Self { offset, what: what.into() }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (offset {})", self.what, self.offset)
    }
}
