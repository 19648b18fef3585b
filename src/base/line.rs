//! Places in texts, as people count them.

use std::ops::Range;

/// The number of the line in which a part of a text begins, from 1.
pub fn line_of(text: &str, part: &Range<usize>) -> usize {
    1 + text.bytes().take(part.start).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_feed_belongs_to_its_line() {
        assert_eq!([0, 1, 2, 9].map(|at| line_of("a\nb\n", &(at..at))), [1, 1, 2, 3]);
        assert_eq!(line_of("", &(0..0)), 1);
    }
}
