//! Continuation tokens: the name after which a listing continues, in an opaque form.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::s3::S3Error;

/// The token of `name`.
pub(super) fn encode(name: &str) -> String {
    URL_SAFE_NO_PAD.encode(name)
}

/// The name in a token.
///
/// # Errors
/// `InvalidArgument` for text that [`encode`] does not return.
pub(super) fn decode(token: &str) -> Result<String, S3Error> {
    let name = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    name.filter(|name| !name.is_empty()).ok_or_else(|| {
        S3Error::invalid_argument("continuation-token", token, "The continuation token provided is incorrect")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stands_for_its_name_and_nothing_else_is_one() {
        for name in ["a", "photos/", "ü\0", &"k".repeat(1024)] {
            assert_eq!(decode(&encode(name)).unwrap(), name);
        }
        for token in ["", "a", "!", "/w", "_w"] {
            assert!(decode(token).is_err(), "{token}");
        }
    }
}
