//! URLs presigned by signature version 2 (S3 user guide, "Signing and authenticating REST
//! requests", "Query string request authentication alternative"). AWS's SDK for Python and its
//! command line still make them for `us-east-1`.

use crate::auth::signature::is_same;
use crate::auth::signature_params::{ALGORITHM, expired};
use crate::auth::string_to_sign_v2::{StringToSign, is_signed_parameter, resources};
use crate::auth::user::Signer;
use crate::base::Timestamp;
use crate::s3::dialect::V2_ACCESS_KEY;
use crate::s3::{Dialect, ErrorCode, Method, QueryParams, Request, S3Error, route};

/// The parameters of a URL, each present once. The signature is not verified.
#[derive(Debug)]
pub(super) struct PresignedV2<'q> {
    pub(super) access_key: &'q str,
    /// The end of the validity.
    expires: Timestamp,
    /// The same as it is signed: seconds since 1970.
    expires_text: &'q str,
    signature: &'q str,
}

impl<'q> PresignedV2<'q> {
    /// Collects the parameters of a query that names an access key.
    ///
    /// # Errors
    /// `AccessDenied` for a missing, repeated or malformed parameter.
    pub(super) fn find(query: &'q QueryParams) -> Result<Self, S3Error> {
        let expires_text = only(query, "Expires")?;
        Ok(Self {
            access_key: only(query, V2_ACCESS_KEY)?,
            expires: parse_expires(expires_text)?,
            expires_text,
            signature: only(query, "Signature")?,
        })
    }

    /// The content hash in the URL, if there is one.
    pub(super) fn content_sha256(query: &'q QueryParams) -> Option<&'q str> {
        let name = format!("{}content-sha256", Dialect::Aws.header_prefix());
        query.iter().find(|(other, _)| other.eq_ignore_ascii_case(&name)).map(|(_, value)| value)
    }

    /// Checks that the URL is of use for `method` and that the signature covers every sub-resource
    /// in `query`: an unsigned one would make another operation of the URL.
    ///
    /// # Errors
    /// `InvalidRequest` for another method; `AccessDenied` with the names of the sub-resources.
    pub(super) fn check_request(method: &Method, query: &QueryParams) -> Result<(), S3Error> {
        if !matches!(method, Method::Get | Method::Head | Method::Put | Method::Delete) {
            return Err(S3Error::new(ErrorCode::InvalidRequest).message(format!(
                "URLs presigned by signature version 2 are for GET, HEAD, PUT and DELETE. Please use {ALGORITHM}."
            )));
        }
        let subresources = query.names().filter(|name| route::is_subresource(name));
        let unsigned: Vec<_> = subresources.filter(|name| !is_signed_parameter(name)).collect();
        if unsigned.is_empty() {
            return Ok(());
        }
        Err(S3Error::new(ErrorCode::AccessDenied)
            .message(format!(
                "Signature version 2 does not cover a parameter of the request. Please use {ALGORITHM}."
            ))
            .element("ParametersNotSigned", unsigned.join(", ")))
    }

    /// Checks that the URL is valid at `now`.
    ///
    /// # Errors
    /// `AccessDenied`.
    pub(super) fn check_time(&self, now: Timestamp) -> Result<(), S3Error> {
        if now > self.expires { Err(expired(self.expires, now)) } else { Ok(()) }
    }

    /// Verifies the signature of `request`. `host_bucket` is the bucket that its host names, if it
    /// names one.
    ///
    /// # Errors
    /// `SignatureDoesNotMatch`, with the string to sign.
    pub(super) fn verify(
        &self,
        signer: &Signer,
        request: &Request<'_>,
        query: &QueryParams,
        host_bucket: Option<&str>,
    ) -> Result<(), S3Error> {
        let mut mismatch = S3Error::new(ErrorCode::SignatureDoesNotMatch);
        // In reverse order, so that the error shows the path as sent.
        for resource in resources(&request.path, host_bucket).iter().rev() {
            let text = StringToSign::of(request, query, resource, self.expires_text)?;
            if is_same(signer.sign_v2(text.as_bytes()).as_bytes(), self.signature.as_bytes()) {
                return Ok(());
            }
            mismatch = self.mismatch(&text);
        }
        Err(mismatch)
    }

    fn mismatch(&self, text: &StringToSign) -> S3Error {
        S3Error::new(ErrorCode::SignatureDoesNotMatch)
            .element("AWSAccessKeyId", self.access_key)
            .element("StringToSign", text.to_string())
            .element("SignatureProvided", self.signature)
    }
}

/// The value of a parameter that must be present once.
fn only<'q>(query: &'q QueryParams, name: &str) -> Result<&'q str, S3Error> {
    let mut values = query.iter().filter(|(other, _)| *other == name).map(|(_, value)| value);
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(value),
        _ => Err(S3Error::new(ErrorCode::AccessDenied).message(
            "Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters, each once",
        )),
    }
}

fn parse_expires(text: &str) -> Result<Timestamp, S3Error> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let secs: Option<u64> = text.parse().ok().filter(|_| digits);
    let millis = secs.and_then(|secs| secs.checked_mul(1000));
    millis.map(Timestamp::from_millis).ok_or_else(|| {
        S3Error::new(ErrorCode::AccessDenied)
            .message(format!("Invalid date (should be seconds since epoch): {text}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "AWSAccessKeyId=AK&Expires=1175139620&Signature=NpgCjnDzrM%2BWFzoENXmpNDUsSn8%3D";

    fn refusal(query: &str) -> S3Error {
        PresignedV2::find(&QueryParams::parse(query).unwrap()).err().unwrap()
    }

    #[test]
    fn the_parameters_are_parsed() {
        let query = QueryParams::parse(URL).unwrap();
        let found = PresignedV2::find(&query).unwrap();
        assert_eq!((found.access_key, found.expires_text), ("AK", "1175139620"));
        assert_eq!(found.signature, "NpgCjnDzrM+WFzoENXmpNDUsSn8=");
        assert_eq!(found.expires, Timestamp::from_millis(1_175_139_620_000));
    }

    #[test]
    fn every_parameter_is_needed_once() {
        for part in URL.split('&').skip(1) {
            for query in [URL.replace(part, "a=1"), format!("{URL}&{part}")] {
                let error = refusal(&query);
                assert_eq!(error.code, ErrorCode::AccessDenied, "{query}");
                assert!(error.message.starts_with("Query-string authentication requires"), "{query}");
            }
        }
        assert_eq!(refusal(&format!("{URL}&AWSAccessKeyId=AK")).code, ErrorCode::AccessDenied);
    }

    #[test]
    fn a_validity_is_a_number_of_seconds() {
        for text in ["", "soon", "-1", "%2B1", "1.5", "1e9", "18446744073709551615", "18446744073709551616"] {
            let error = refusal(&URL.replace("1175139620", text));
            assert!(error.message.starts_with("Invalid date (should be seconds since epoch)"), "{text}");
        }
    }

    #[test]
    fn a_url_is_valid_to_the_second_that_it_names() {
        let query = QueryParams::parse(URL).unwrap();
        let found = PresignedV2::find(&query).unwrap();
        assert_eq!(found.check_time(Timestamp::from_millis(0)), Ok(()));
        assert_eq!(found.check_time(Timestamp::from_millis(1_175_139_620_000)), Ok(()));
        let error = found.check_time(Timestamp::from_millis(1_175_139_620_001)).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (ErrorCode::AccessDenied, "Request has expired"));
    }

    #[test]
    fn only_covered_operations_are_served() {
        let check = |method, query| PresignedV2::check_request(&method, &QueryParams::parse(query).unwrap());
        for method in [Method::Get, Method::Head, Method::Put, Method::Delete] {
            assert_eq!(check(method.clone(), "versionId=1&tagging&prefix=x&list-type=2"), Ok(()));
            let error = check(method, "attributes&versionId=1&retention").unwrap_err();
            assert_eq!(error.elements, [("ParametersNotSigned", "attributes, retention".to_owned())]);
        }
        for method in [Method::Post, Method::Options, Method::Other("PATCH".into())] {
            assert_eq!(check(method, "").unwrap_err().code, ErrorCode::InvalidRequest);
        }
    }
}
