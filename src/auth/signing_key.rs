//! Signing keys, derived from a secret for one day and one region.

use std::sync::RwLock;

use crate::auth::Secret;
use crate::base::digest::HmacSha256;
use crate::base::{NOT_POISONED, limits};

/// The service that credentials of requests for S3 are scoped to.
pub(super) const SERVICE: &str = "s3";
/// The services that credentials of calls of STS may be scoped to.
pub(super) const QUERY_SERVICES: &[&str] = &["sts", "iam", SERVICE];
/// Those of calls of IAM: a signature that was made for keys or objects changes no users.
pub(super) const IAM_SERVICES: &[&str] = &["iam"];
/// The last part of every credential scope.
pub(super) const TERMINATOR: &str = "aws4_request";

/// A derived key (S3 API reference, "Signature calculations for the authorization header", signing
/// key), with the HMAC initialised.
#[derive(Debug, Clone)]
pub(super) struct SigningKey(HmacSha256);

impl SigningKey {
    fn derive(secret: &Secret, date: &str, region: &str, service: &str) -> Self {
        let start = format!("AWS4{}", secret.reveal()).into_bytes();
        let of_day = HmacSha256::of(&start, date.as_bytes());
        let of_region = HmacSha256::of(&of_day, region.as_bytes());
        let of_service = HmacSha256::of(&of_region, service.as_bytes());
        Self(HmacSha256::new(&HmacSha256::of(&of_service, TERMINATOR.as_bytes())))
    }

    /// The HMAC of `parts`, concatenated.
    pub(super) fn sign(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = self.0.clone();
        for part in parts {
            mac.update(part);
        }
        mac.finish()
    }
}

/// A cache of the keys derived from one secret. It belongs to the user with that secret and is
/// dropped when the users are replaced.
#[derive(Debug, Default)]
pub(super) struct SigningKeys(RwLock<Vec<DerivedKey>>);

#[derive(Debug)]
struct DerivedKey {
    date: String,
    region: String,
    service: String,
    key: SigningKey,
}

impl SigningKeys {
    /// The key of `secret`, which must be the same on every call. A new key evicts the oldest.
    pub(super) fn get(&self, secret: &Secret, date: &str, region: &str, service: &str) -> SigningKey {
        let known = self.0.read().expect(NOT_POISONED);
        for known in known.iter() {
            if known.date == date && known.region == region && known.service == service {
                return known.key.clone();
            }
        }
        drop(known);
        let key = SigningKey::derive(secret, date, region, service);
        let mut known = self.0.write().expect(NOT_POISONED);
        if known.len() >= limits::SIGNING_KEYS_PER_USER_MAX {
            known.remove(0);
        }
        known.push(DerivedKey {
            date: date.to_owned(),
            region: region.to_owned(),
            service: service.to_owned(),
            key: key.clone(),
        });
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::digest::to_hex;

    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

    #[test]
    fn a_key_signs_as_published() {
        // S3 API reference, "Signature calculations for the authorization header", example "GET
        // object": the string to sign and its signature.
        let key = SigningKey::derive(&Secret::new(SECRET), "20130524", "us-east-1", "s3");
        let signature = key.sign(&[
            b"AWS4-HMAC-SHA256\n20130524T000000Z\n",
            b"20130524/us-east-1/s3/aws4_request\n",
            b"7344ae5b7ee6c3e7e6b0fe0640412a37625d1fbfff95c48bbb2dc43964946972",
        ]);
        assert_eq!(to_hex(&signature), "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    }

    #[test]
    fn a_cached_key_is_the_derived_one() {
        let keys = SigningKeys::default();
        let secret = Secret::new(SECRET);
        for _ in 0..2 {
            for (date, region, service) in [
                ("20130524", "eu", "s3"),
                ("20130525", "eu", "s3"),
                ("20130524", "us-east-1", "s3"),
                ("20130524", "eu", "sts"),
            ] {
                let expected = SigningKey::derive(&secret, date, region, service).sign(&[b"x"]);
                assert_eq!(keys.get(&secret, date, region, service).sign(&[b"x"]), expected);
            }
        }
        assert_eq!(keys.0.read().unwrap().len(), 4);
    }

    #[test]
    fn a_new_key_evicts_the_oldest() {
        let keys = SigningKeys::default();
        let secret = Secret::new(SECRET);
        for day in 0..limits::SIGNING_KEYS_PER_USER_MAX + 3 {
            keys.get(&secret, &day.to_string(), "eu", "s3");
        }
        let known = keys.0.read().unwrap();
        assert_eq!(known.len(), limits::SIGNING_KEYS_PER_USER_MAX);
        assert_eq!(known[0].date, "3");
    }
}
