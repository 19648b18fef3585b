//! Verification of a signature: computed again from the request, and compared.

use subtle::ConstantTimeEq as _;

use crate::auth::canonical::{CanonicalRequest, TargetEncoding};
use crate::auth::signature_params::{ALGORITHM, SignatureParams};
use crate::auth::signing_key::SigningKey;
use crate::base::digest::hex32;
use crate::s3::{ErrorCode, S3Error};

/// A signature in text form: 64 hexadecimal digits in lower case.
pub(super) type Signature = [u8; 64];

/// Compares the computed signature with the one that a client sent, in constant time.
pub(super) fn is_same(computed: &[u8], sent: &[u8]) -> bool {
    computed.ct_eq(sent).into()
}

/// Verifies the signature of a request and returns it.
///
/// # Errors
/// `SignatureDoesNotMatch`, with the string to sign and the canonical request, so that the author
/// of a client can find the difference.
pub(super) fn verify(
    params: &SignatureParams<'_>,
    key: &SigningKey,
    request: &CanonicalRequest<'_>,
) -> Result<Signature, S3Error> {
    // Both spellings name the same target, so that trying the second one widens nothing.
    for &encoding in request.encodings() {
        let computed = sign(&params.timestamp, params.scope, key, &hex32(&request.digest(encoding)));
        if is_same(&computed, params.signature.as_bytes()) {
            return Ok(computed);
        }
    }
    Err(mismatch(params, request))
}

/// The signature over the string to sign (S3 API reference, "Signature calculations for the
/// authorization header", steps 2 and 3).
pub(super) fn sign(timestamp: &str, scope: &str, key: &SigningKey, digest: &Signature) -> Signature {
    let timestamp = timestamp.as_bytes();
    let scope = scope.as_bytes();
    hex32(&key.sign(&[ALGORITHM.as_bytes(), b"\n", timestamp, b"\n", scope, b"\n", digest]))
}

fn mismatch(params: &SignatureParams<'_>, request: &CanonicalRequest<'_>) -> S3Error {
    let digest = hex32(&request.digest(TargetEncoding::Canonical));
    let digest = String::from_utf8_lossy(&digest);
    let string_to_sign = format!("{ALGORITHM}\n{}\n{}\n{digest}", params.timestamp, params.scope);
    S3Error::new(ErrorCode::SignatureDoesNotMatch)
        .element("AWSAccessKeyId", params.access_key)
        .element("StringToSign", string_to_sign)
        .element("SignatureProvided", params.signature)
        .element("CanonicalRequest", request.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_all_64_digits_are_the_same_signature() {
        let made = [b'a'; 64];
        assert!(is_same(&made, &[b'a'; 64]));
        for written in [&[][..], &[b'a'; 63], &[b'a'; 65], &[b'A'; 64]] {
            assert!(!is_same(&made, written));
        }
        for at in 0..64 {
            let mut written = made;
            written[at] = b'b';
            assert!(!is_same(&made, &written), "{at}");
        }
    }
}
