//! The claim in the query of a presigned URL (S3 API reference, "Authenticating requests: using query parameters").

use std::borrow::Cow;

use crate::auth::claim::{ALGORITHM, Claim, Form, Parts};
use crate::auth::header;
use crate::auth::query::Query;
use crate::base::{Timestamp, limits};
use crate::s3::{Dialect, S3Error};

/// The parameter that the signature itself stands in: the one that is not signed.
pub(super) fn signature_parameter(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Svc => "X-Svc-Signature",
        Dialect::Aws => "X-Amz-Signature",
    }
}

/// The decoded parameters of a presigned URL, each there once.
#[derive(Default)]
pub(super) struct Fields<'q> {
    algorithm: Option<Cow<'q, str>>,
    credential: Option<Cow<'q, str>>,
    date: Option<Cow<'q, str>>,
    expires: Option<Cow<'q, str>>,
    signed_headers: Option<Cow<'q, str>>,
    signature: Option<Cow<'q, str>>,
    content_sha256: Option<Cow<'q, str>>,
}

impl<'q> Fields<'q> {
    /// Collects the parameters of `dialect`; `None` when the query has none that only a presigned URL has.
    ///
    /// # Errors
    /// `AuthorizationQueryParametersError` for one that is there twice or is not UTF-8; `InvalidRequest` for a URL
    /// presigned by version 2.
    pub(super) fn find(query: &'q Query<'_>, dialect: Dialect) -> Result<Option<Self>, S3Error> {
        let mut fields = Self::default();
        for param in query.params() {
            if param.name() == "AWSAccessKeyId" {
                return Err(header::other_scheme());
            }
            let suffix = param.name().strip_prefix(dialect.query_prefix());
            let Some(slot) = suffix.and_then(|suffix| fields.slot(suffix)) else { continue };
            let value = param.value().ok_or_else(|| malformed("A parameter is not UTF-8."))?;
            if slot.replace(value).is_some() {
                return Err(malformed("A parameter appears twice."));
            }
        }
        let telling = [&fields.algorithm, &fields.credential, &fields.signature];
        Ok(telling.iter().any(|field| field.is_some()).then_some(fields))
    }

    fn slot(&mut self, suffix: &str) -> Option<&mut Option<Cow<'q, str>>> {
        Some(match suffix {
            "Algorithm" => &mut self.algorithm,
            "Credential" => &mut self.credential,
            "Date" => &mut self.date,
            "Expires" => &mut self.expires,
            "SignedHeaders" => &mut self.signed_headers,
            "Signature" => &mut self.signature,
            "Content-Sha256" => &mut self.content_sha256,
            _ => return None,
        })
    }

    /// What the URL says of the body's hash, if anything.
    pub(super) fn content_sha256(&self) -> Option<&str> {
        self.content_sha256.as_deref()
    }

    /// Understands the parameters.
    pub(super) fn claim(&self) -> Result<Claim<'_>, S3Error> {
        let parts = Parts {
            credential: required(&self.credential)?,
            signed_headers: required(&self.signed_headers)?,
            signature: required(&self.signature)?,
        };
        if required(&self.algorithm)? != ALGORITHM {
            return Err(malformed("The algorithm is not AWS4-HMAC-SHA256."));
        }
        let stamp = required(&self.date)?;
        let time = Timestamp::parse_iso_basic(stamp)
            .ok_or_else(|| malformed("The date is not of the form yyyyMMdd'T'HHmmss'Z'."))?;
        let form = Form::Query { expires_secs: expires_secs(required(&self.expires)?)? };
        Claim::new(form, parts, time, Cow::Borrowed(stamp))
    }
}

fn required<'f>(field: &'f Option<Cow<'_, str>>) -> Result<&'f str, S3Error> {
    field.as_deref().ok_or_else(|| {
        malformed("A presigned URL has the parameters Algorithm, Credential, Date, Expires, SignedHeaders and Signature.")
    })
}

fn expires_secs(text: &str) -> Result<u64, S3Error> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let secs = text.parse().ok().filter(|_| digits);
    secs.filter(|&secs| secs <= limits::PRESIGNED_EXPIRES_MAX_SECS)
        .ok_or_else(|| malformed("The validity is not a number of seconds from 0 to 604800."))
}

fn malformed(message: &str) -> S3Error {
    Form::Query { expires_secs: 0 }.malformed(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::ErrorCode;

    const TEXT: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AK%2F20130524%2Feu%2Fs3%2Faws4_request\
        &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host%3Bx-y&X-Amz-Signature=ab";

    fn code(text: &str) -> Option<ErrorCode> {
        let query = Query::parse(text);
        let fields = Fields::find(&query, Dialect::Aws);
        fields
            .and_then(|fields| fields.map(|fields| fields.claim().map(drop)).transpose())
            .err()
            .map(|e| e.code)
    }

    #[test]
    fn the_parameters_make_a_claim() {
        let query = Query::parse(TEXT);
        let fields = Fields::find(&query, Dialect::Aws).unwrap().unwrap();
        let claim = fields.claim().unwrap();
        assert_eq!((claim.access_key, claim.region, claim.signature), ("AK", "eu", "ab"));
        assert_eq!(claim.signed_headers, "host;x-y");
        assert_eq!(claim.form, Form::Query { expires_secs: 86_400 });
        assert_eq!(fields.content_sha256(), None);
    }

    #[test]
    fn a_query_of_other_parameters_is_no_presigned_url() {
        for text in
            ["", "versionId=1", "X-Amz-Date=20130524T000000Z&X-Amz-Meta=1", &TEXT.replace("Amz", "Svc")]
        {
            assert!(Fields::find(&Query::parse(text), Dialect::Aws).unwrap().is_none(), "{text}");
        }
    }

    #[test]
    fn every_parameter_is_needed_once() {
        for param in TEXT.split('&') {
            let without = TEXT.replace(param, "a=1");
            assert_eq!(code(&without), Some(ErrorCode::AuthorizationQueryParametersError), "{param}");
            let twice = format!("{TEXT}&{param}");
            assert_eq!(code(&twice), Some(ErrorCode::AuthorizationQueryParametersError), "{param}");
        }
        assert_eq!(code(TEXT), None);
    }

    #[test]
    fn malformed_parameters_are_refused() {
        for (good, bad) in [
            ("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1"),
            ("20130524T000000Z", "2013-05-24"),
            ("20130524T", "20130525T"),
            ("86400", "604801"),
            ("86400", "-1"),
            ("86400", "+1"),
            ("86400", ""),
            ("86400", "1e3"),
            ("86400", "99999999999999999999999"),
            ("host%3Bx-y", "x-y%3Bhost"),
            ("s3%2F", "ec2%2F"),
            ("=ab", "=%ff"),
        ] {
            let text = TEXT.replace(good, bad);
            assert_eq!(code(&text), Some(ErrorCode::AuthorizationQueryParametersError), "{bad}");
        }
    }

    #[test]
    fn version_2_is_told_which_scheme_to_use() {
        let query = Query::parse("AWSAccessKeyId=AK&Expires=1&Signature=x");
        let error = Fields::find(&query, Dialect::Svc).err().unwrap();
        assert_eq!(error.code, ErrorCode::InvalidRequest);
        assert!(error.message.contains("AWS4-HMAC-SHA256"));
    }

    #[test]
    fn the_signature_parameter_bears_the_prefix_of_its_dialect() {
        for dialect in Dialect::ALL {
            let suffix = signature_parameter(dialect).strip_prefix(dialect.query_prefix());
            assert_eq!(suffix, Some("Signature"));
        }
    }
}
