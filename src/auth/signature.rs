//! The signature itself: made again from what the request says, and compared.

use subtle::ConstantTimeEq as _;

use crate::auth::canonical::CanonicalRequest;
use crate::auth::claim::{ALGORITHM, Claim};
use crate::auth::query::Reading;
use crate::auth::signing_key::SigningKey;
use crate::base::digest::hex32;
use crate::s3::{ErrorCode, S3Error};

/// A signature as it is written: 64 hexadecimal digits in lower case.
pub(super) type Signature = [u8; 64];

/// Whether what a client wrote is the signature that we made, in a time that does not tell how much of it is right.
pub(super) fn is_same(made: &Signature, written: &[u8]) -> bool {
    made.as_slice().ct_eq(written).into()
}

/// Believes a claim, or does not.
///
/// # Errors
/// `SignatureDoesNotMatch`, with the texts that we signed, so that the author of a client can find the difference.
pub(super) fn verify(
    claim: &Claim<'_>,
    key: &SigningKey,
    request: &CanonicalRequest<'_>,
) -> Result<Signature, S3Error> {
    for &reading in request.readings() {
        let made = sign(claim, key, &hex32(&request.digest(reading)));
        if is_same(&made, claim.signature.as_bytes()) {
            return Ok(made);
        }
    }
    Err(mismatch(claim, request))
}

/// The signature over the string to sign (S3 API reference, "Signature calculations for the authorization header",
/// steps 2 and 3).
fn sign(claim: &Claim<'_>, key: &SigningKey, digest: &Signature) -> Signature {
    let stamp = claim.stamp.as_bytes();
    let scope = claim.scope.as_bytes();
    hex32(&key.sign(&[ALGORITHM.as_bytes(), b"\n", stamp, b"\n", scope, b"\n", digest]))
}

fn mismatch(claim: &Claim<'_>, request: &CanonicalRequest<'_>) -> S3Error {
    let digest = hex32(&request.digest(Reading::Canonical));
    let digest = String::from_utf8_lossy(&digest);
    let string_to_sign = format!("{ALGORITHM}\n{}\n{}\n{digest}", claim.stamp, claim.scope);
    S3Error::new(ErrorCode::SignatureDoesNotMatch)
        .element("AWSAccessKeyId", claim.access_key)
        .element("StringToSign", string_to_sign)
        .element("SignatureProvided", claim.signature)
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
