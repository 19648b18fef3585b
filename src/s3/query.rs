//! The query string of a request, parsed once and passed on.

use std::str::FromStr;

use crate::s3::{S3Error, uri};

/// The parameters of a request in the order in which they were sent, decoded. Of a repeated
/// parameter the first counts, everywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryParams {
    sent: String,
    decoded: Vec<(String, String)>,
}

impl QueryParams {
    /// Parses a query string, without the `?`. A parameter without `=` has an empty value.
    ///
    /// # Errors
    /// `InvalidURI` if a name or value does not decode to UTF-8.
    pub fn parse(sent: &str) -> Result<Self, S3Error> {
        let pairs = sent.split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(decode_pair).collect::<Result<_, _>>()?;
        Ok(Self { sent: sent.to_owned(), decoded })
    }

    /// One parameter.
    pub fn one(name: &str, value: &str) -> Self {
        let sent = uri::encode_pairs([(name, value)]);
        Self { sent, decoded: vec![(name.to_owned(), value.to_owned())] }
    }

    /// The query string as sent, which signatures may cover.
    pub fn as_sent(&self) -> &str {
        &self.sent
    }

    /// The value of a parameter; names are case-sensitive.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.decoded.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Whether the parameter is present, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.decoded.is_empty()
    }

    /// All parameters, in the order in which they were sent.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.decoded.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The names, in the order in which they were sent.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    /// The value of a parameter as a number; `None` without a value.
    ///
    /// # Errors
    /// `InvalidArgument` for other text and for a number outside of `range`.
    pub fn number<N>(&self, name: &str, range: std::ops::RangeInclusive<N>) -> Result<Option<N>, S3Error>
    where
        N: FromStr + PartialOrd + std::fmt::Display,
    {
        let Some(text) = self.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        match text.parse() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => {
                let wanted = format!("{name} must be a number from {} to {}.", range.start(), range.end());
                Err(S3Error::invalid_argument(name, text, wanted))
            }
        }
    }
}

fn decode_pair(pair: &str) -> Result<(String, String), S3Error> {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    Ok((uri::decode_query(name)?, uri::decode_query(value)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::s3::ErrorCode;

    fn query(text: &str) -> QueryParams {
        QueryParams::parse(text).unwrap()
    }

    #[test]
    fn one_parameter_is_what_its_text_parses_to() {
        let one = QueryParams::one("a&b", "c=d e");
        assert_eq!(query(one.as_sent()), one);
    }

    #[test]
    fn parameters_are_decoded_and_the_first_of_a_name_counts() {
        let query = query("prefix=a%2Fb+c&&acl&prefix=second&x=1=2");
        assert_eq!(query.get("prefix"), Some("a/b c"));
        assert_eq!(query.get("acl"), Some(""));
        assert_eq!(query.get("x"), Some("1=2"));
        assert!(query.has("acl") && !query.has("ACL") && !query.has("b"));
        assert_eq!(query.names().collect::<Vec<_>>(), ["prefix", "acl", "prefix", "x"]);
        assert_eq!(query.as_sent(), "prefix=a%2Fb+c&&acl&prefix=second&x=1=2");
    }

    #[test]
    fn parameters_that_are_not_utf_8_or_half_escaped_are_refused() {
        for text in ["a=%ff", "%ff=a", "a=%", "a=%4", "X-Amz-Signature=%ff"] {
            assert_eq!(QueryParams::parse(text).unwrap_err().code, ErrorCode::InvalidURI, "{text}");
        }
    }

    #[test]
    fn numbers_outside_of_their_range_are_refused() {
        let query = query("max-keys=17&empty=&minus=-1&word=x&huge=99999999999999999999");
        assert_eq!(query.number("max-keys", 0..=100), Ok(Some(17)));
        assert_eq!(query.number("absent", 0..=100), Ok(None));
        assert_eq!(query.number("empty", 0..=100), Ok(None));
        for name in ["minus", "word", "huge"] {
            assert_eq!(query.number(name, 0..=100).unwrap_err().code, ErrorCode::InvalidArgument, "{name}");
        }
        assert_eq!(query.number("max-keys", 0..=16).unwrap_err().elements[1].1, "17");
    }

    proptest! {
        #[test]
        fn no_query_makes_it_panic(text in "[&=%+a-f0-9é]{0,40}") {
            if let Ok(query) = QueryParams::parse(&text) {
                let names = query.names().count();
                prop_assert!(names <= text.matches('&').count() + 1);
            }
        }
    }
}
