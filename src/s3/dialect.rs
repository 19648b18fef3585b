//! The two spellings of the vendor prefix. A request uses one of them; operations and the store
//! never see it.

use crate::s3::{ErrorCode, Headers, S3Error, encryption};

/// The query parameter, or the field of a form, that announces signature version 2, which only
/// clients of AWS make.
pub const V2_ACCESS_KEY: &str = "AWSAccessKeyId";

/// The prefix of vendor headers and query parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `x-svc-` and `X-Svc-`: the service's own.
    Svc,
    /// `x-amz-` and `X-Amz-`: the prefix of unmodified AWS clients.
    Aws,
}

impl Dialect {
    /// Both dialects.
    pub const ALL: [Self; 2] = [Self::Svc, Self::Aws];

    /// The prefix of header names, in lower case.
    pub fn header_prefix(self) -> &'static str {
        match self {
            Self::Svc => "x-svc-",
            Self::Aws => "x-amz-",
        }
    }

    /// The prefix of query parameters, as clients spell it.
    pub fn query_prefix(self) -> &'static str {
        match self {
            Self::Svc => "X-Svc-",
            Self::Aws => "X-Amz-",
        }
    }

    /// Detects the dialect of a request from its header names and query parameter names, regardless
    /// of case. Signature version 2 belongs to AWS. Without either prefix the dialect is `default`.
    ///
    /// # Errors
    /// `InvalidRequest` if both prefixes occur.
    pub fn detect<'a>(
        headers: &'a Headers,
        query_names: impl Iterator<Item = &'a str>,
        default: Self,
    ) -> Result<Self, S3Error> {
        let mut seen = [false; 2];
        for name in headers.iter().map(|(name, _)| name).chain(query_names) {
            for (seen, dialect) in seen.iter_mut().zip(Self::ALL) {
                let prefix = dialect.header_prefix();
                *seen |= name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
            }
            seen[1] |= name.eq_ignore_ascii_case(V2_ACCESS_KEY);
        }
        match seen {
            [true, true] => Err(S3Error::new(ErrorCode::InvalidRequest)
                .message("A request may use the x-svc- or the x-amz- names, not both.")),
            [true, false] => Ok(Self::Svc),
            [false, true] => Ok(Self::Aws),
            [false, false] => Ok(default),
        }
    }
}

/// Whether the header `p-{suffix}` may be repeated: user metadata and lists, whose lines are joined
/// by commas, and the expected owners, all of which must match.
pub fn may_repeat(suffix: &str) -> bool {
    const LISTS: [&str; 5] = [
        "expected-bucket-owner",
        "object-attributes",
        "optional-object-attributes",
        "source-expected-bucket-owner",
        "trailer",
    ];
    suffix.starts_with("meta-") || LISTS.contains(&suffix)
}

/// The vendor header lines of a request, by name without the prefix.
#[derive(Debug, Clone, Copy)]
pub struct VendorHeaders<'h> {
    headers: &'h Headers,
    dialect: Dialect,
}

impl<'h> VendorHeaders<'h> {
    /// The lines of `headers` with the prefix of `dialect`.
    pub fn new(headers: &'h Headers, dialect: Dialect) -> Self {
        Self { headers, dialect }
    }

    pub fn dialect(self) -> Dialect {
        self.dialect
    }

    /// Checks that vendor headers are UTF-8, so that no unreadable header counts as absent, and
    /// that single-valued ones are not repeated. Repeated lines are signed as one line joined by
    /// commas: a reader of the first line alone would act on a value that was not signed.
    ///
    /// # Errors
    /// `InvalidArgument` for a value that is not UTF-8, `InvalidRequest` for a repeated header.
    pub fn check(self) -> Result<(), S3Error> {
        self.check_text()?;
        let mut lines = self.iter().enumerate();
        let repeated = lines.find(|(at, (suffix, _))| {
            !may_repeat(suffix) && self.iter().take(*at).any(|(before, _)| before == *suffix)
        });
        match repeated {
            Some((_, (suffix, _))) => Err(self.repeated(suffix)),
            None => Ok(()),
        }
    }

    /// The error for a repeated `p-{suffix}`.
    pub fn repeated(self, suffix: &str) -> S3Error {
        let name = format!("{}{suffix}", self.dialect.header_prefix());
        S3Error::new(ErrorCode::InvalidRequest)
            .message(format!("{name} may stand in a request once."))
            .element("Header", name)
    }

    fn check_text(self) -> Result<(), S3Error> {
        match self.iter().find(|(_, value)| std::str::from_utf8(value).is_err()) {
            Some((suffix, value)) => {
                let name = format!("{}{suffix}", self.dialect.header_prefix());
                let shown = match encryption::is_secret(suffix) {
                    true => encryption::HIDDEN.into(),
                    false => String::from_utf8_lossy(value),
                };
                Err(S3Error::invalid_argument(&name, &shown, "The value of the header is not UTF-8."))
            }
            None => Ok(()),
        }
    }

    /// All lines.
    pub fn iter(self) -> impl Iterator<Item = (&'h str, &'h [u8])> {
        let prefix = self.dialect.header_prefix();
        self.headers.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value)))
    }

    /// The values of all lines `p-{suffix}`.
    pub fn get_all(self, suffix: &str) -> impl Iterator<Item = &'h [u8]> {
        let prefix = self.dialect.header_prefix();
        // The length first: it tells most names apart. The prefix last: most names have it.
        let lines = self.headers.iter().filter(move |(name, _)| {
            name.len() == prefix.len() + suffix.len() && name.ends_with(suffix) && name.starts_with(prefix)
        });
        lines.map(|(_, value)| value)
    }

    /// The value of the first line `p-{suffix}`.
    pub fn get(self, suffix: &str) -> Option<&'h [u8]> {
        self.get_all(suffix).next()
    }

    /// That value, if it is UTF-8.
    pub fn get_str(self, suffix: &str) -> Option<&'h str> {
        self.get(suffix).and_then(|value| std::str::from_utf8(value).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(headers: &[&str], query: &[&str]) -> Result<Dialect, ErrorCode> {
        let mut all = Headers::default();
        for name in headers {
            all.push(name, b"v");
        }
        Dialect::detect(&all, query.iter().copied(), Dialect::Svc).map_err(|e| e.code)
    }

    #[test]
    fn the_prefix_of_headers_or_query_tells_the_dialect() {
        assert_eq!(detect(&["x-amz-date"], &[]), Ok(Dialect::Aws));
        assert_eq!(detect(&["X-Svc-Date"], &[]), Ok(Dialect::Svc));
        assert_eq!(detect(&["host"], &["X-Amz-Signature"]), Ok(Dialect::Aws));
        assert_eq!(detect(&["host", "date"], &["versionId"]), Ok(Dialect::Svc));
    }

    #[test]
    fn signature_version_2_is_of_the_aws_dialect() {
        assert_eq!(detect(&["host"], &["AWSAccessKeyId", "Signature"]), Ok(Dialect::Aws));
        assert_eq!(detect(&["host"], &["Signature", "Expires"]), Ok(Dialect::Svc));
        assert_eq!(detect(&["x-svc-acl"], &["AWSAccessKeyId"]), Err(ErrorCode::InvalidRequest));
    }

    #[test]
    fn vendor_headers_are_found_without_their_prefix_and_only_in_their_dialect() {
        let mut headers = Headers::default();
        for (name, value) in
            [("X-Svc-Meta-A", "1"), ("x-amz-meta-a", "2"), ("meta-a", "3"), ("x-svc-meta-a", "4")]
        {
            headers.push(name, value.as_bytes());
        }
        let vendor = VendorHeaders::new(&headers, Dialect::Svc);
        assert_eq!(vendor.get_str("meta-a"), Some("1"));
        assert_eq!(vendor.get_all("meta-a").collect::<Vec<_>>(), [b"1", b"4"]);
        assert_eq!(vendor.get("meta-b"), None);
    }

    #[test]
    fn a_header_with_one_value_is_there_once_and_a_list_may_be_there_again() {
        let check = |names: &[&str]| {
            let mut headers = Headers::default();
            for name in names {
                headers.push(name, b"v");
            }
            VendorHeaders::new(&headers, Dialect::Aws).check().map_err(|e| e.code)
        };
        assert_eq!(check(&["x-amz-acl", "acl", "x-svc-acl", "x-amz-acl-2"]), Ok(()));
        assert_eq!(check(&["x-amz-acl", "host", "X-Amz-Acl"]), Err(ErrorCode::InvalidRequest));
        for name in
            ["x-amz-meta-a", "x-amz-object-attributes", "x-amz-trailer", "x-amz-expected-bucket-owner"]
        {
            assert_eq!(check(&[name, name]), Ok(()), "{name}");
        }
    }

    #[test]
    fn sdk_headers_belong_to_neither() {
        assert_eq!(detect(&["amz-sdk-request", "x-svc-date"], &[]), Ok(Dialect::Svc));
    }

    #[test]
    fn a_mixture_is_refused() {
        assert_eq!(detect(&["x-amz-date", "x-svc-date"], &[]), Err(ErrorCode::InvalidRequest));
        assert_eq!(detect(&["x-amz-date"], &["X-Svc-Signature"]), Err(ErrorCode::InvalidRequest));
    }
}
