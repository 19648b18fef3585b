//! The `Range` header (RFC 9110, section 14.1.2), of which S3 serves a single range.

use std::ops::Range;

/// A requested range of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteRange {
    /// `first-last`; the last byte belongs to it.
    Closed {
        /// The first byte.
        first: u64,
        /// The last byte, not below the first.
        last: u64,
    },
    /// `first-`: from there to the end.
    From(u64),
    /// `-n`: the last n bytes.
    Last(u64),
}

impl ByteRange {
    /// Parses a `Range` header. Malformed, reversed and multiple ranges are `None`; the whole
    /// object is served then (RFC 9110, section 14.2, allows to ignore the header).
    pub fn parse(header: &str) -> Option<Self> {
        let (unit, range) = header.trim().split_once('=')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return None;
        }
        match range.trim().split_once('-')? {
            ("", last) => number(last).map(Self::Last),
            (first, "") => number(first).map(Self::From),
            (first, last) => {
                let first = number(first)?;
                let last = number(last)?;
                (first <= last).then_some(Self::Closed { first, last })
            }
        }
    }

    /// The selected bytes of an object of `size` bytes; `None` if the range is not satisfiable
    /// (status 416).
    pub fn resolve(self, size: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::Closed { first, last } => first..size.min(last.saturating_add(1)),
            Self::From(first) => first..size,
            Self::Last(count) => size.saturating_sub(count)..size,
        };
        (range.start < range.end).then_some(range)
    }
}

/// Parses decimal digits, saturating.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(header: &str, size: u64) -> Option<Range<u64>> {
        ByteRange::parse(header).expect("the header is read").resolve(size)
    }

    #[test]
    fn every_form_of_a_range_is_understood() {
        assert_eq!(bytes("bytes=0-9", 100), Some(0..10));
        assert_eq!(bytes("bytes=90-", 100), Some(90..100));
        assert_eq!(bytes("bytes=-10", 100), Some(90..100));
        assert_eq!(bytes("Bytes = 5-5 ", 100), Some(5..6));
    }

    #[test]
    fn the_end_is_clamped_to_the_object() {
        assert_eq!(bytes("bytes=90-1000", 100), Some(90..100));
        assert_eq!(bytes("bytes=-1000", 100), Some(0..100));
        assert_eq!(bytes("bytes=0-18446744073709551615", 100), Some(0..100));
        assert_eq!(bytes("bytes=0-99999999999999999999999", 100), Some(0..100));
    }

    #[test]
    fn a_range_that_holds_no_byte_is_unsatisfiable() {
        for (header, size) in
            [("bytes=100-", 100), ("bytes=100-200", 100), ("bytes=-0", 100), ("bytes=0-", 0), ("bytes=-5", 0)]
        {
            assert_eq!(bytes(header, size), None, "{header} of {size}");
        }
    }

    #[test]
    fn several_reversed_and_malformed_ranges_are_ignored() {
        for header in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=5-1",
            "bytes=0-1,3-4",
            "bytes=0-1,",
            "items=0-1",
            "bytes=+1-2",
            "bytes=1--2",
            "bytes=0x1-2",
            "bytes=1 - 2",
        ] {
            assert_eq!(ByteRange::parse(header), None, "{header}");
        }
    }

    proptest! {
        #[test]
        fn a_resolved_range_lies_in_the_object(header in "bytes=[0-9]{0,21}-[0-9]{0,21}", size in any::<u64>()) {
            if let Some(range) = ByteRange::parse(&header).and_then(|range| range.resolve(size)) {
                prop_assert!(range.start < range.end && range.end <= size);
            }
        }

        #[test]
        fn no_header_makes_it_panic(header in any::<String>()) {
            let _ = ByteRange::parse(&header);
        }
    }
}
