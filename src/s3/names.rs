//! Names of buckets and objects.

use std::fmt;
use std::net::Ipv4Addr;

use crate::base::limits::{BUCKET_NAME_LEN_MAX_BYTES, BUCKET_NAME_LEN_MIN_BYTES, KEY_LEN_MAX_BYTES};
use crate::s3::{ErrorCode, S3Error};

/// A valid name for a new bucket (S3 user guide, "General purpose bucket naming rules"). Lookups
/// take any text: no bucket has an invalid name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketName(String);

impl BucketName {
    /// Checks a name for a bucket to be created.
    ///
    /// # Errors
    /// `InvalidBucketName`.
    pub fn new(name: &str) -> Result<Self, S3Error> {
        if is_bucket_name(name) {
            Ok(Self(name.to_owned()))
        } else {
            Err(S3Error::new(ErrorCode::InvalidBucketName).element("BucketName", name))
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_bucket_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    (BUCKET_NAME_LEN_MIN_BYTES..=BUCKET_NAME_LEN_MAX_BYTES).contains(&bytes.len())
        && bytes.iter().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-'))
        && ends.into_iter().flatten().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        && !["..", ".-", "-."].iter().any(|pair| name.contains(pair))
        && name.parse::<Ipv4Addr>().is_err()
}

/// The key of an object: 1 to 1024 bytes of UTF-8, otherwise anything (S3 user guide, "Naming
/// Amazon S3 objects").
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(String);

impl ObjectKey {
    /// Checks a key.
    ///
    /// # Errors
    /// `KeyTooLongError`; `InvalidURI` for the empty key.
    pub fn new(key: String) -> Result<Self, S3Error> {
        match key.len() {
            0 => Err(S3Error::invalid_uri("").message("The object key is empty.")),
            1..=KEY_LEN_MAX_BYTES => Ok(Self(key)),
            size => Err(S3Error::new(ErrorCode::KeyTooLongError)
                .element("Size", size.to_string())
                .element("MaxSizeAllowed", KEY_LEN_MAX_BYTES.to_string())),
        }
    }

    /// The key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_names_keep_to_the_rules() {
        for name in ["abc", "a-b.c", "0ab", &"a".repeat(63), "1.2.3", "a--b"] {
            assert!(BucketName::new(name).is_ok(), "{name}");
        }
        let long = "a".repeat(64);
        for name in [
            "", "ab", &long, "Abc", "a_b", "-ab", "ab-", ".ab", "ab.", "a..b", "a.-b", "a-.b", "1.2.3.4",
            "äbc",
        ] {
            assert_eq!(BucketName::new(name).unwrap_err().code, ErrorCode::InvalidBucketName, "{name}");
        }
    }

    #[test]
    fn keys_are_any_text_of_one_to_1024_bytes() {
        for key in ["a", "/", "..", "a//b", "a/", "\0\n", &"k".repeat(1024)] {
            assert_eq!(ObjectKey::new(key.to_owned()).unwrap().as_str(), key);
        }
        assert_eq!(ObjectKey::new("ü".repeat(513)).unwrap_err().code, ErrorCode::KeyTooLongError);
        assert_eq!(ObjectKey::new(String::new()).unwrap_err().code, ErrorCode::InvalidURI);
    }
}
