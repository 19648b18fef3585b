//! What a form showed, so that it overwrites nothing that another hand changed since.

use super::s3_client::Refusal;
use crate::base::digest::Sha256;
use crate::s3::uri;

/// The value of the field `shown`: a digest of the text that a form showed.
pub(super) fn digest(text: &str) -> String {
    Sha256::of(text.as_bytes())[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Names and values as the text of a digest.
pub(super) fn pairs(pairs: &[(String, String)]) -> String {
    uri::encode_pairs(pairs.iter().map(|(name, value)| (&**name, &**value)))
}

/// Checks that the digest of what is stored still matches what the form showed, likewise.
///
/// # Errors
/// It is another one: 409.
pub(super) fn check_digest(shown: Option<&str>, stored: &str) -> Result<(), Refusal> {
    match shown {
        Some(shown) if shown != stored => Err(Refusal::new(
            409,
            "It was changed by somebody else since this page was shown, and nothing was saved. \
             Look at it as it is now, and decide again.",
        )),
        _ => Ok(()),
    }
}

/// Checks that the stored text is still the one that the form showed. A form without the field
/// showed none.
///
/// # Errors
/// It is another one: 409.
pub(super) fn check(shown: Option<&str>, stored: &str) -> Result<(), Refusal> {
    check_digest(shown, &digest(stored))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_text_is_a_conflict() {
        assert!(check(None, "a").is_ok() && check(Some(&digest("a")), "a").is_ok());
        assert_eq!(check(Some(&digest("a")), "b").unwrap_err().status, 409);
        assert_eq!(check(Some(""), "").unwrap_err().status, 409);
        assert_eq!(digest("").len(), 32);
    }
}
