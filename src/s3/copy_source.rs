//! The header `p-copy-source`, which names the source of a copy (S3 API reference, CopyObject,
//! "x-amz-copy-source").

use crate::s3::{ErrorCode, ObjectKey, S3Error, VendorHeaders, uri};

/// The separator between the key and the version.
const VERSION_MARK: &str = "?versionId=";

/// The source of a copy as the client names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopySourceHeader {
    /// The bucket, which may not exist.
    pub bucket: String,
    pub key: ObjectKey,
    /// The text of `versionId`, which may not be a valid id.
    pub version: Option<String>,
}

impl CopySourceHeader {
    /// Parses the header, whose presence routing has checked.
    ///
    /// # Errors
    /// `InvalidArgument` for text that names no object; `KeyTooLongError`.
    pub fn from_headers(vendor: VendorHeaders<'_>) -> Result<Self, S3Error> {
        let text = vendor.get_str("copy-source").unwrap_or_default();
        Self::parse(text).map_err(|error| match error.code {
            ErrorCode::KeyTooLongError => error,
            _ => {
                let name = format!("{}copy-source", vendor.dialect().header_prefix());
                let message = "Copy Source must mention the source bucket and key: sourcebucket/sourcekey";
                S3Error::invalid_argument(&name, text, message)
            }
        })
    }

    /// The slash between bucket and key may be encoded, as some clients encode the whole value. A
    /// `?` that belongs to the key is always encoded, so the separator is searched before decoding.
    /// The value is encoded as forms are: a `+` is a space, and a plus is `%2B`.
    fn parse(text: &str) -> Result<Self, S3Error> {
        let (path, version) = match text.split_once(VERSION_MARK) {
            Some((path, version)) => (path, Some(uri::decode_query(version)?)),
            None => (text, None),
        };
        let path = uri::decode_query(path)?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        if bucket.is_empty() {
            return Err(S3Error::new(ErrorCode::InvalidURI));
        }
        Ok(Self { bucket: bucket.to_owned(), key: ObjectKey::new(key.to_owned())?, version })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::s3::{Dialect, Headers};

    fn read(text: &str) -> Result<(String, String, Option<String>), S3Error> {
        let mut headers = Headers::default();
        headers.push("x-amz-copy-source", text.as_bytes());
        let source = CopySourceHeader::from_headers(VendorHeaders::new(&headers, Dialect::Aws))?;
        Ok((source.bucket, source.key.as_str().to_owned(), source.version))
    }

    fn names(bucket: &str, key: &str, version: Option<&str>) -> (String, String, Option<String>) {
        (bucket.to_owned(), key.to_owned(), version.map(str::to_owned))
    }

    #[test]
    fn a_source_is_a_bucket_and_a_key_with_or_without_a_slash_before_them() {
        for text in ["b/k", "/b/k", "b%2Fk", "%2Fb%2Fk"] {
            assert_eq!(read(text).unwrap(), names("b", "k", None), "{text}");
        }
        assert_eq!(read("b/a//b/").unwrap(), names("b", "a//b/", None));
        assert_eq!(read("b//k").unwrap(), names("b", "/k", None));
    }

    #[test]
    fn keys_are_decoded_as_forms_are() {
        assert_eq!(read("b/a+b%20%C3%BC%3F%25").unwrap(), names("b", "a b ü?%", None));
        assert_eq!(read("b/a%2Bb%2b?versionId=a+%2B").unwrap(), names("b", "a+b+", Some("a +")));
        assert_eq!(
            read(&format!("b/{}", uri::encode_listed("a+b c/ü"))).unwrap(),
            names("b", "a+b c/ü", None)
        );
        assert_eq!(read("b/grün").unwrap(), names("b", "grün", None));
    }

    #[test]
    fn a_version_may_follow_the_key() {
        assert_eq!(read("/b/k?versionId=null").unwrap(), names("b", "k", Some("null")));
        assert_eq!(read("b/k?versionId=").unwrap(), names("b", "k", Some("")));
        assert_eq!(read("b/k%3FversionId=1").unwrap(), names("b", "k?versionId=1", None));
    }

    #[test]
    fn a_malformed_source_is_an_invalid_argument() {
        for text in ["", "/", "b", "/b", "b/", "/b/", "//k", "b/%zz", "b/%ff", "b/k?versionId=%"] {
            let error = read(text).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArgument, "{text}");
            assert_eq!(error.elements[0].1, "x-amz-copy-source");
        }
        assert_eq!(read(&format!("b/{}", "k".repeat(1025))).unwrap_err().code, ErrorCode::KeyTooLongError);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[/%a-f0-9+é?=]{0,40}") {
            let _ = read(&text);
        }
    }
}
