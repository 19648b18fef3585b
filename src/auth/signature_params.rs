//! The parameters of a signature, from the `Authorization` header or a presigned URL: access key,
//! time, scope, signed headers.

use std::borrow::Cow;
use std::time::Duration;

use crate::auth::canonical::SortedHeaders;
use crate::auth::signing_key::{SERVICE, TERMINATOR};
use crate::base::{Timestamp, limits};
use crate::s3::{Dialect, ErrorCode, S3Error};

/// Among the regions of an authenticator, this accepts signatures for every region.
pub const ANY_REGION: &str = "*";

/// The signature scheme.
pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The place of the signature parameters in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignatureLocation {
    /// The `Authorization` header; valid around its date.
    Header,
    /// The query of a presigned URL; valid for a span from its date on.
    Query {
        /// The span in seconds.
        expires_secs: u64,
    },
}

impl SignatureLocation {
    /// The error for malformed signature parameters.
    pub(super) fn malformed(self, message: &str) -> S3Error {
        let code = match self {
            Self::Header => ErrorCode::AuthorizationHeaderMalformed,
            Self::Query { .. } => ErrorCode::AuthorizationQueryParametersError,
        };
        S3Error::new(code).message(message)
    }
}

/// A credential, as in `KEY/20130524/eu/s3/aws4_request`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Credential<'a> {
    pub(super) access_key: &'a str,
    /// `date/region/service/terminator`.
    pub(super) scope: &'a str,
    /// The first part of the scope.
    pub(super) date: &'a str,
    /// The second part of the scope.
    pub(super) region: &'a str,
    /// The third part of the scope.
    pub(super) service: &'a str,
}

impl<'a> Credential<'a> {
    /// Parses a credential of S3; `None` for another service or form.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        Self::parse_for(text, &[SERVICE])
    }

    /// Parses a credential of one of `services`; `None` for another service or form.
    fn parse_for(text: &'a str, services: &[&str]) -> Option<Self> {
        let (access_key, scope) = text.split_once('/')?;
        let mut parts = scope.split('/');
        let date = parts.next()?;
        let region = parts.next()?;
        let service = parts.next()?;
        let terminator = parts.next()?;
        let whole = parts.next().is_none() && services.contains(&service) && terminator == TERMINATOR;
        whole.then_some(Self { access_key, scope, date, region, service })
    }
}

/// The parameters of a signature that is not yet verified.
#[derive(Debug)]
pub(super) struct SignatureParams<'a> {
    pub(super) location: SignatureLocation,
    pub(super) access_key: &'a str,
    /// `date/region/service/terminator`.
    pub(super) scope: &'a str,
    /// The first part of the scope: eight digits.
    pub(super) date: &'a str,
    /// The second part of the scope.
    pub(super) region: &'a str,
    /// The third part of the scope.
    pub(super) service: &'a str,
    /// Names of the signed headers, joined by `;`: in lower case, ascending, each once.
    pub(super) signed_headers: &'a str,
    /// The signature; it may be any text.
    pub(super) signature: &'a str,
    /// The time of signing.
    pub(super) time: Timestamp,
    /// The same as it is signed: `20130524T000000Z`.
    pub(super) timestamp: Cow<'a, str>,
}

/// The three fields of an `Authorization` header, as text, and what they may be for.
#[derive(Debug, Clone, Copy)]
pub(super) struct SignatureFields<'a> {
    pub(super) credential: &'a str,
    pub(super) signed_headers: &'a str,
    pub(super) signature: &'a str,
    /// The services that the credential may be scoped to.
    pub(super) services: &'a [&'a str],
}

impl<'a> SignatureParams<'a> {
    /// Parses the fields of a signature that was made at `time`.
    ///
    /// # Errors
    /// The malformed error of `location`.
    pub(super) fn new(
        location: SignatureLocation,
        fields: SignatureFields<'a>,
        time: Timestamp,
        timestamp: Cow<'a, str>,
    ) -> Result<Self, S3Error> {
        let SignatureFields { credential, signed_headers, signature, services } = fields;
        let Credential { access_key, scope, date, region, service } =
            Credential::parse_for(credential, services).ok_or_else(|| {
                location
                    .malformed("The credential is not of the location KEY/YYYYMMDD/REGION/s3/aws4_request.")
            })?;
        if timestamp.get(..8) != Some(date) {
            return Err(location.malformed("The date of the credential is not the date of the request."));
        }
        if !is_header_list(signed_headers) {
            return Err(location.malformed("The signed headers are not lower-case names in ascending order."));
        }
        Ok(Self {
            location,
            access_key,
            scope,
            date,
            region,
            service,
            signed_headers,
            signature,
            time,
            timestamp,
        })
    }

    /// Checks that the scope names one of `regions`, or that [`ANY_REGION`] is among them.
    ///
    /// # Errors
    /// The malformed error of the location; it names the first region.
    pub(super) fn check_region(&self, regions: &[String]) -> Result<(), S3Error> {
        if is_served(self.region, regions) {
            return Ok(());
        }
        let expected = regions.first().map_or("", String::as_str);
        let message = format!("The region '{}' is wrong; expecting '{expected}'.", self.region);
        Err(self.location.malformed(&message).element("Region", expected))
    }

    /// Checks that the signature is valid at `now`.
    ///
    /// # Errors
    /// `RequestTimeTooSkewed`; `AccessDenied` for a presigned URL.
    pub(super) fn check_time(&self, now: Timestamp) -> Result<(), S3Error> {
        let skew = Duration::from_secs(limits::CLOCK_SKEW_MAX_SECS);
        match self.location {
            SignatureLocation::Header if self.time.distance(now) > skew => Err(self.too_skewed(now)),
            SignatureLocation::Query { .. } if self.time > now.plus(skew) => {
                Err(S3Error::new(ErrorCode::AccessDenied).message("Request is not yet valid"))
            }
            SignatureLocation::Query { expires_secs } => {
                let end = self.time.plus(Duration::from_secs(expires_secs));
                if now > end { Err(expired(end, now)) } else { Ok(()) }
            }
            SignatureLocation::Header => Ok(()),
        }
    }

    fn too_skewed(&self, now: Timestamp) -> S3Error {
        S3Error::new(ErrorCode::RequestTimeTooSkewed)
            .element("RequestTime", &*self.timestamp)
            .element("ServerTime", now.to_iso8601())
            .element("MaxAllowedSkewMilliseconds", (limits::CLOCK_SKEW_MAX_SECS * 1000).to_string())
    }

    /// Checks that the signature covers `Host` and all vendor headers of the request, so that no
    /// header was added or changed in transit.
    ///
    /// # Errors
    /// `AccessDenied` with the names.
    pub(super) fn check_headers(&self, headers: &SortedHeaders<'_>, dialect: Dialect) -> Result<(), S3Error> {
        let prefix = dialect.header_prefix();
        let mut signed = self.signed_headers.split(';').peekable();
        let mut unsigned: Vec<&str> = Vec::new();
        for name in headers.names().filter(|name| name.starts_with(prefix)) {
            // Both lists are in ascending order.
            while signed.next_if(|&other| other < name).is_some() {}
            if signed.peek() != Some(&name) {
                unsigned.push(name);
            }
        }
        if !self.signed_headers.split(';').any(|name| name == "host") {
            unsigned.insert(0, "host");
        }
        if unsigned.is_empty() {
            return Ok(());
        }
        unsigned.dedup();
        Err(S3Error::new(ErrorCode::AccessDenied)
            .message("There were headers present in the request which were not signed")
            .element("HeadersNotSigned", unsigned.join(", ")))
    }
}

/// The error for a presigned URL that was valid until `end`.
pub(super) fn expired(end: Timestamp, now: Timestamp) -> S3Error {
    S3Error::new(ErrorCode::AccessDenied)
        .message("Request has expired")
        .element("Expires", end.to_iso8601())
        .element("ServerTime", now.to_iso8601())
}

fn is_header_list(names: &str) -> bool {
    let mut previous = "";
    names.split(';').all(|name| {
        let ascends = name > previous && !name.bytes().any(|b| b.is_ascii_uppercase());
        previous = name;
        ascends
    })
}

/// Whether the scope of a signature may name `region`: one of `regions`, or any with [`ANY_REGION`]
/// among them.
pub(super) fn is_served(region: &str, regions: &[String]) -> bool {
    regions.iter().any(|served| served == region || served == ANY_REGION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::Headers;

    const DAY: u64 = 1_369_353_600_000;
    const CREDENTIAL: &str = "AK/20130524/eu/s3/aws4_request";

    fn params<'a>(
        location: SignatureLocation,
        credential: &'a str,
        signed_headers: &'a str,
    ) -> Result<SignatureParams<'a>, S3Error> {
        let fields = SignatureFields { credential, signed_headers, signature: "", services: &[SERVICE] };
        SignatureParams::new(location, fields, Timestamp::from_millis(DAY), "20130524T000000Z".into())
    }

    fn now(secs: i64) -> Timestamp {
        Timestamp::from_millis(DAY.checked_add_signed(secs * 1000).unwrap())
    }

    #[test]
    fn a_credential_names_key_and_scope() {
        let params = params(SignatureLocation::Header, CREDENTIAL, "host").unwrap();
        assert_eq!((params.access_key, params.date, params.region), ("AK", "20130524", "eu"));
        assert_eq!(params.scope, "20130524/eu/s3/aws4_request");
    }

    #[test]
    fn other_credentials_are_malformed_in_either_place() {
        for credential in [
            "",
            "AK",
            "AK/20130524/eu/s3",
            "AK/20130524/eu/s3/aws4_request/",
            "AK/20130524/eu/ec2/aws4_request",
            "AK/20130524/eu/s3/aws5_request",
            "AK/20130525/eu/s3/aws4_request",
            "AK/2013/eu/s3/aws4_request",
        ] {
            let code = params(SignatureLocation::Header, credential, "host").unwrap_err().code;
            assert_eq!(code, ErrorCode::AuthorizationHeaderMalformed, "{credential}");
            let code =
                params(SignatureLocation::Query { expires_secs: 1 }, credential, "host").unwrap_err().code;
            assert_eq!(code, ErrorCode::AuthorizationQueryParametersError, "{credential}");
        }
    }

    #[test]
    fn signed_headers_ascend_in_lower_case() {
        for names in ["", ";", "host;", ";host", "host;host", "x;host", "Host", "a;;b"] {
            assert!(params(SignatureLocation::Header, CREDENTIAL, names).is_err(), "{names}");
        }
        assert!(params(SignatureLocation::Header, CREDENTIAL, "a;a-b;host").is_ok());
    }

    #[test]
    fn the_error_for_another_region_names_the_right_one() {
        let params = params(SignatureLocation::Header, CREDENTIAL, "host").unwrap();
        assert!(params.check_region(&["us-east-1".into(), "eu".into()]).is_ok());
        assert!(params.check_region(&["mars".into(), ANY_REGION.into()]).is_ok());
        let error = params.check_region(&["us-east-1".into()]).unwrap_err();
        assert_eq!(error.code, ErrorCode::AuthorizationHeaderMalformed);
        assert_eq!(error.elements, [("Region", "us-east-1".to_owned())]);
    }

    #[test]
    fn a_signed_header_is_valid_for_a_quarter_of_an_hour_around_its_date() {
        let params = params(SignatureLocation::Header, CREDENTIAL, "host").unwrap();
        for secs in [-900, 0, 900] {
            assert!(params.check_time(now(secs)).is_ok(), "{secs}");
        }
        for secs in [-901, 901] {
            let error = params.check_time(now(secs)).unwrap_err();
            assert_eq!(error.code, ErrorCode::RequestTimeTooSkewed);
            let elements = [
                ("RequestTime", "20130524T000000Z".to_owned()),
                ("ServerTime", now(secs).to_iso8601()),
                ("MaxAllowedSkewMilliseconds", "900000".to_owned()),
            ];
            assert_eq!(error.elements, elements);
        }
    }

    #[test]
    fn a_presigned_url_is_valid_from_its_date_until_it_expires() {
        let params = params(SignatureLocation::Query { expires_secs: 100 }, CREDENTIAL, "host").unwrap();
        for secs in [-900, 0, 100] {
            assert!(params.check_time(now(secs)).is_ok(), "{secs}");
        }
        for (secs, message) in [(-901, "Request is not yet valid"), (101, "Request has expired")] {
            let error = params.check_time(now(secs)).unwrap_err();
            assert_eq!((error.code, error.message.as_str()), (ErrorCode::AccessDenied, message));
        }
    }

    #[test]
    fn host_and_every_vendor_header_must_be_signed() {
        let unsigned = |signed: &str, lines: &[&str]| {
            let mut headers = Headers::default();
            for name in lines {
                headers.push(name, b"v");
            }
            let params = params(SignatureLocation::Header, CREDENTIAL, signed).unwrap();
            let checked = params.check_headers(&SortedHeaders::of(&headers), Dialect::Aws);
            checked.err().map(|error| {
                assert_eq!(error.code, ErrorCode::AccessDenied);
                error.elements[0].1.clone()
            })
        };
        let lines = ["x-amz-date", "host", "content-type", "x-amz-acl", "x-amzn-trace-id", "x-amz-date"];
        assert_eq!(unsigned("host;x-amz-acl;x-amz-date", &lines), None);
        assert_eq!(unsigned("a;host;m;x-amz-acl;x-amz-b;x-amz-date;z", &lines), None);
        assert_eq!(unsigned("host;x-amz-acl", &lines).as_deref(), Some("x-amz-date"));
        assert_eq!(unsigned("content-type", &lines).as_deref(), Some("host, x-amz-acl, x-amz-date"));
        assert_eq!(unsigned("x-amz-date", &["x-amz-date"]).as_deref(), Some("host"));
    }
}
