//! AWS Signature Version 4 in the Authorization header (S3 API reference, "Authenticating requests:
//! using the Authorization header").

use std::time::SystemTime;

use crate::base::{Timestamp, signed_words};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The keys of a user, and the region.
#[derive(Clone)]
pub struct RequestSigner {
    access_key: String,
    secret_key: String,
    region: String,
    /// The token of temporary keys.
    token: Option<String>,
    /// Whether the hash of the body is signed. Otherwise the body is declared as unsigned.
    hash_bodies: bool,
}

/// The parts of a request that are signed.
#[derive(Clone, Copy)]
pub struct RequestToSign<'r> {
    /// The method.
    pub method: &'r str,
    /// The path, encoded.
    pub path: &'r str,
    /// The query, with its parameters sorted and encoded.
    pub query: &'r str,
    /// The value of the header `Host`.
    pub host: &'r str,
    /// The SHA-256 of the body in hexadecimal.
    pub hash: &'r str,
    /// Further headers to sign, with names in lower case that come after `host`.
    pub more: &'r [(&'r str, &'r str)],
}

impl RequestSigner {
    /// The region.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// A signer for that region, which leaves bodies unsigned.
    pub fn new(access_key: &str, secret_key: &str, region: &str) -> Self {
        let access_key = access_key.to_owned();
        let secret_key = secret_key.to_owned();
        Self { access_key, secret_key, region: region.to_owned(), token: None, hash_bodies: false }
    }

    /// The signer with the session token of temporary keys, if there is one, and with signed
    /// bodies.
    pub fn signing_bodies(self, token: Option<String>) -> Self {
        Self { token, hash_bodies: true, ..self }
    }

    /// The header lines that sign a request for `path` with `query`. The parameters of the query
    /// are sorted and encoded.
    pub fn lines(&self, method: &str, path: &str, query: &str, host: &str, body: &[u8]) -> String {
        let hash = if self.hash_bodies { hex(&Sha256::digest(body)) } else { "UNSIGNED-PAYLOAD".to_owned() };
        self.lines_for_hash(&RequestToSign { method, path, query, host, hash: &hash, more: &[] })
    }

    /// The header lines that sign a request, including `more`.
    pub fn lines_for_hash(&self, request: &RequestToSign<'_>) -> String {
        let RequestToSign { method, path, query, host, hash, more } = *request;
        let date = Timestamp::from_system(SystemTime::now()).to_iso_basic();
        let mut signed = vec![("host", host), ("x-amz-content-sha256", hash), ("x-amz-date", &date)];
        signed.extend(self.token.as_deref().map(|token| ("x-amz-security-token", token)));
        signed.extend(more);
        // The canonical request has its headers in the order of their names.
        signed.sort_unstable();
        let names = signed.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let lines: String =
            signed.iter().map(|(name, value)| format!("{name}:{}\n", folded(value))).collect();
        let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{hash}");
        let scope = format!("{}/{}/s3/aws4_request", &date[..8], self.region);
        let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
        let signature = hex(&hmac(&self.key(&date[..8]), &text));
        // The head of the request has `Host` already; a second line of it would be refused.
        let sent = signed.iter().filter(|(name, _)| *name != "host");
        let mut sent: String = sent.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        sent += &format!(
            "Authorization: AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, \
             Signature={signature}\r\n",
            self.access_key
        );
        sent
    }

    fn key(&self, day: &str) -> Vec<u8> {
        let first = format!("AWS4{}", self.secret_key).into_bytes();
        [day, &self.region, "s3", "aws4_request"].iter().fold(first, |key, part| hmac(&key, part))
    }
}

/// A header value as it is signed. It is sent as it is.
fn folded(value: &str) -> String {
    let words = signed_words(value.as_bytes());
    words.map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ")
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_is_signed_with_single_spaces_between_its_words(value in "[ \t]{0,3}([a-zü\"=?]{1,3}[ \t]{0,3}){0,5}") {
            let folded = folded(&value);
            prop_assert!(!folded.contains("  ") && !folded.contains('\t'), "{folded:?}");
            prop_assert_eq!(folded.trim(), &*folded);
            let words: Vec<_> = value.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
            prop_assert_eq!(folded.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>(), words);
        }
    }
}
