//! Errors of the store about the keys of encrypted objects, as clients see them.

use crate::s3::{ErrorCode, S3Error};
use crate::store::StoreError;

pub(super) const NO_RING: &str =
    "The server has no key to encrypt with: its operator names a file of keys by --keys-file.";
const KEY_NEEDED: &str = "The object was stored using a form of Server Side Encryption. The correct parameters must be provided to retrieve the object.";
const KEY_REFUSED: &str = "The encryption parameters are not applicable to this object.";

/// An error about the keys of an object for the client; `None` for other errors.
pub(super) fn client_error(error: &StoreError) -> Option<S3Error> {
    Some(match error {
        StoreError::KeyUnavailable(id) if id.is_empty() => {
            S3Error::new(ErrorCode::InvalidRequest).message(NO_RING)
        }
        StoreError::KeyUnavailable(id) => {
            not_found(id, format!("Key '{id}' is not in the key ring of the server"))
        }
        StoreError::WrongRingKey(id) => not_found(
            id,
            format!("Key '{id}' in the key ring of the server is not the one that encrypted the object"),
        ),
        StoreError::WrongCustomerKey => S3Error::new(ErrorCode::AccessDenied),
        StoreError::CustomerKeyNeeded => S3Error::new(ErrorCode::InvalidRequest).message(KEY_NEEDED),
        StoreError::CustomerKeyRefused => S3Error::new(ErrorCode::InvalidRequest).message(KEY_REFUSED),
        _ => return None,
    })
}

fn not_found(id: &str, message: String) -> S3Error {
    S3Error::new(ErrorCode::KmsNotFoundException).message(message).element("KeyId", id)
}
