//! AWS Signature Version 4 in the Authorization header (S3 API reference, "Authenticating requests: using the Authorization
//! header"), with bodies that are not signed.

use std::time::SystemTime;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use siltstone::base::Timestamp;

/// The keys of a user, and the region.
#[derive(Clone)]
pub(crate) struct Signer {
    access_key: String,
    secret_key: String,
    region: String,
}

impl Signer {
    /// A signer for that region.
    pub(crate) fn new(access_key: &str, secret_key: &str, region: &str) -> Self {
        let (access_key, secret_key) = (access_key.to_owned(), secret_key.to_owned());
        Self { access_key, secret_key, region: region.to_owned() }
    }

    /// The header lines that sign a request for `path` with `query`. The parameters of the query are sorted and
    /// encoded.
    pub(crate) fn lines(&self, method: &str, path: &str, query: &str, host: &str) -> String {
        const HASH: &str = "UNSIGNED-PAYLOAD";
        const NAMES: &str = "host;x-amz-content-sha256;x-amz-date";
        let date = Timestamp::from_system(SystemTime::now()).to_iso_basic();
        let canonical = format!(
            "{method}\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:{HASH}\nx-amz-date:{date}\n\n{NAMES}\n{HASH}"
        );
        let scope = format!("{}/{}/s3/aws4_request", &date[..8], self.region);
        let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
        let signature = hex(&hmac(&self.key(&date[..8]), &text));
        format!(
            "x-amz-content-sha256: {HASH}\r\nx-amz-date: {date}\r\nAuthorization: AWS4-HMAC-SHA256 \
             Credential={}/{scope}, SignedHeaders={NAMES}, Signature={signature}\r\n",
            self.access_key
        )
    }

    fn key(&self, day: &str) -> Vec<u8> {
        let first = format!("AWS4{}", self.secret_key).into_bytes();
        [day, &self.region, "s3", "aws4_request"].iter().fold(first, |key, part| hmac(&key, part))
    }
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
