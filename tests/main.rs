//! All integration tests in one binary, so that they are linked once and share their starters.

mod floors;
