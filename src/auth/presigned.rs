//! The signature parameters in the query of a presigned URL (S3 API reference, "Authenticating
//! requests: using query parameters").

use std::borrow::Cow;

use crate::auth::signature_params::{ALGORITHM, SignatureFields, SignatureLocation, SignatureParams};
use crate::base::{Timestamp, limits};
use crate::s3::{Dialect, QueryParams, S3Error};

/// The parameter that holds the signature, and is not signed itself.
pub(super) fn signature_param(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Svc => "X-Svc-Signature",
        Dialect::Aws => "X-Amz-Signature",
    }
}

/// The parameters of a presigned URL, each present once.
#[derive(Default)]
pub(super) struct PresignedParams<'q> {
    algorithm: Option<&'q str>,
    credential: Option<&'q str>,
    date: Option<&'q str>,
    expires: Option<&'q str>,
    signed_headers: Option<&'q str>,
    signature: Option<&'q str>,
    content_sha256: Option<&'q str>,
    security_token: Option<&'q str>,
}

impl<'q> PresignedParams<'q> {
    /// Collects the parameters of `dialect`; `None` if the query has none that only a presigned URL
    /// has.
    ///
    /// # Errors
    /// `AuthorizationQueryParametersError` for a repeated parameter.
    pub(super) fn find(query: &'q QueryParams, dialect: Dialect) -> Result<Option<Self>, S3Error> {
        let mut fields = Self::default();
        for (name, value) in query.iter() {
            let suffix = name.strip_prefix(dialect.query_prefix());
            let Some(slot) = suffix.and_then(|suffix| fields.slot(suffix)) else { continue };
            // A second value is refused: another reader of the URL might take that one.
            if slot.replace(value).is_some() {
                return Err(malformed("A parameter appears twice."));
            }
        }
        let telling = [&fields.algorithm, &fields.credential, &fields.signature];
        Ok(telling.iter().any(|field| field.is_some()).then_some(fields))
    }

    fn slot(&mut self, suffix: &str) -> Option<&mut Option<&'q str>> {
        Some(match suffix {
            "Algorithm" => &mut self.algorithm,
            "Credential" => &mut self.credential,
            "Date" => &mut self.date,
            "Expires" => &mut self.expires,
            "SignedHeaders" => &mut self.signed_headers,
            "Signature" => &mut self.signature,
            "Content-Sha256" => &mut self.content_sha256,
            "Security-Token" => &mut self.security_token,
            _ => return None,
        })
    }

    /// The content hash in the URL, if there is one.
    pub(super) fn content_sha256(&self) -> Option<&'q str> {
        self.content_sha256
    }

    /// The token of a session, if there is one.
    pub(super) fn security_token(&self) -> Option<&'q str> {
        self.security_token
    }

    /// Parses the parameters of a URL for one of `services`.
    ///
    /// # Errors
    /// `AuthorizationQueryParametersError`.
    pub(super) fn signature_params(&self, services: &'q [&'q str]) -> Result<SignatureParams<'q>, S3Error> {
        let fields = SignatureFields {
            credential: required(self.credential)?,
            signed_headers: required(self.signed_headers)?,
            signature: required(self.signature)?,
            services,
        };
        if required(self.algorithm)? != ALGORITHM {
            return Err(malformed("The algorithm is not AWS4-HMAC-SHA256."));
        }
        let timestamp = required(self.date)?;
        let time = Timestamp::parse_iso_basic(timestamp)
            .ok_or_else(|| malformed("The date is not of the location yyyyMMdd'T'HHmmss'Z'."))?;
        let location = SignatureLocation::Query { expires_secs: expires_secs(required(self.expires)?)? };
        SignatureParams::new(location, fields, time, Cow::Borrowed(timestamp))
    }
}

fn required(field: Option<&str>) -> Result<&str, S3Error> {
    field.ok_or_else(|| {
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
    SignatureLocation::Query { expires_secs: 0 }.malformed(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::ErrorCode;

    const TEXT: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AK%2F20130524%2Feu%2Fs3%2Faws4_request\
        &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host%3Bx-y&X-Amz-Signature=ab";

    fn code(text: &str) -> Option<ErrorCode> {
        let query = QueryParams::parse(text).unwrap();
        let fields = PresignedParams::find(&query, Dialect::Aws);
        fields
            .and_then(|fields| fields.map(|fields| fields.signature_params(&["s3"]).map(drop)).transpose())
            .err()
            .map(|e| e.code)
    }

    #[test]
    fn the_parameters_are_parsed() {
        let query = QueryParams::parse(TEXT).unwrap();
        let fields = PresignedParams::find(&query, Dialect::Aws).unwrap().unwrap();
        let params = fields.signature_params(&["s3"]).unwrap();
        assert_eq!((params.access_key, params.region, params.signature), ("AK", "eu", "ab"));
        assert_eq!(params.signed_headers, "host;x-y");
        assert_eq!(params.location, SignatureLocation::Query { expires_secs: 86_400 });
        assert_eq!(fields.content_sha256(), None);
    }

    #[test]
    fn a_query_of_other_parameters_is_no_presigned_url() {
        for text in
            ["", "versionId=1", "X-Amz-Date=20130524T000000Z&X-Amz-Meta=1", &TEXT.replace("Amz", "Svc")]
        {
            assert!(
                PresignedParams::find(&QueryParams::parse(text).unwrap(), Dialect::Aws).unwrap().is_none(),
                "{text}"
            );
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
        ] {
            let text = TEXT.replace(good, bad);
            assert_eq!(code(&text), Some(ErrorCode::AuthorizationQueryParametersError), "{bad}");
        }
    }

    #[test]
    fn the_signature_parameter_has_the_prefix_of_its_dialect() {
        for dialect in Dialect::ALL {
            let suffix = signature_param(dialect).strip_prefix(dialect.query_prefix());
            assert_eq!(suffix, Some("Signature"));
        }
    }
}
