//! Numbers of conditions. Ids in tokens may have more digits than a float holds, and two that are
//! not the same must not compare as equal.

use std::cmp::Ordering;

/// The largest power of two that is beyond all whole numbers here.
const WHOLE_END: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;

/// A number of a policy or a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Whole(i128),
    /// What is not whole, or too large.
    Float(f64),
}

impl Number {
    /// Parses a decimal number, with an exponent or without.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some(whole) = whole(text) {
            return Some(Self::Whole(whole));
        }
        let float = text.parse::<f64>().ok().filter(|number| number.is_finite())?;
        match float.fract() == 0.0 && float.abs() < WHOLE_END {
            true => Some(Self::Whole(float as i128)),
            false => Some(Self::Float(float)),
        }
    }
}

/// The number of a text of digits, which may have zeros after its point.
fn whole(text: &str) -> Option<i128> {
    let digits = text.split_once('.').filter(|(_, rest)| !rest.is_empty() && rest.bytes().all(|c| c == b'0'));
    digits.map_or(text, |(digits, _)| digits).parse().ok()
}

/// The order of a whole number and a float that is none.
fn order(whole: i128, float: f64) -> Ordering {
    if float.abs() >= WHOLE_END {
        return if float > 0.0 { Ordering::Less } else { Ordering::Greater };
    }
    // The float has a fraction, so that it is below 2^53, and rounding does not carry the whole
    // number across it.
    (whole as f64).total_cmp(&float)
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Whole(left), Self::Whole(right)) => Some(left.cmp(right)),
            (Self::Float(left), Self::Float(right)) => left.partial_cmp(right),
            (Self::Whole(left), Self::Float(right)) => Some(order(*left, *right)),
            (Self::Float(left), Self::Whole(right)) => Some(order(*right, *left).reverse()),
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text).unwrap()
    }

    #[test]
    fn numbers_are_ordered_by_all_their_digits() {
        let ascending = [
            "-1e300",
            "-170141183460469231731687303715884105728",
            "-9007199254740993",
            "-9007199254740992",
            "-0.5",
            "0",
            "0.1",
            "7",
            "7.5",
            "9007199254740992",
            "9007199254740993",
            "18446744073709551616",
            "18446744073709551617",
            "170141183460469231731687303715884105727",
            "170141183460469231731687303715884105728",
            "1e300",
        ];
        for (at, left) in ascending.iter().enumerate() {
            for (beside, right) in ascending.iter().enumerate() {
                let order = number(left).partial_cmp(&number(right));
                assert_eq!(order, Some(at.cmp(&beside)), "{left} {right}");
                assert_eq!(number(left) == number(right), at == beside, "{left} {right}");
            }
        }
    }

    #[test]
    fn one_number_has_several_texts() {
        for (left, right) in [
            ("7", "7.0"),
            ("7", "+7"),
            ("7e0", "7.000"),
            ("-0", "0.0"),
            ("9007199254740993", "9007199254740993.00"),
            ("1e3", "1000"),
            ("0.50", ".5"),
        ] {
            assert_eq!(number(left), number(right));
        }
        for text in ["", "many", "NaN", "inf", "1e999", "7,0", "0x7", " 7"] {
            assert!(Number::parse(text).is_none(), "{text}");
        }
    }
}
