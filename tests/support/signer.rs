//! Signature Version 4 by a reading of its own: nothing here is shared with `src/auth`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

/// The validity of presigned URLs, in seconds.
const EXPIRES: &str = "600";

/// Signs requests of one user at one moment.
#[derive(Clone)]
pub(crate) struct Signer {
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    pub(crate) region: &'static str,
    /// The service that the signature is for.
    pub(crate) service: &'static str,
    /// The time of signing, such as `20260131T120000Z`.
    pub(crate) moment: String,
}

/// The signed header lines: values by lower-case name.
pub(crate) struct HeaderLines(BTreeMap<String, Vec<Vec<u8>>>);

impl HeaderLines {
    pub(crate) fn of<'v>(headers: impl Iterator<Item = (String, &'v [u8])>) -> Self {
        let mut lines: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        for (name, value) in headers {
            lines.entry(name.to_ascii_lowercase()).or_default().push(value.trim_ascii().to_vec());
        }
        Self(lines)
    }

    /// The first value of a header, which must be there.
    pub(crate) fn first(&self, name: &str) -> &[u8] {
        &self.0[name][0]
    }

    fn names(&self) -> String {
        self.0.keys().cloned().collect::<Vec<_>>().join(";")
    }
}

impl Signer {
    /// The value of the header `Authorization`.
    pub(crate) fn authorization(
        &self,
        method: &str,
        path: &str,
        query: &str,
        lines: &HeaderLines,
        payload: &[u8],
    ) -> String {
        let signature = self.signature(method, path, query, lines, payload);
        let credential = self.credential();
        let names = lines.names();
        format!("AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}")
    }

    /// The query of a presigned URL: the given one, the parameters of the signature, and further
    /// `parameters`.
    pub(crate) fn presigned_query(
        &self,
        method: &str,
        path: &str,
        query: &str,
        prefix: &str,
        parameters: &[(String, String)],
        lines: &HeaderLines,
    ) -> String {
        let mut pairs = vec![
            (format!("{prefix}Algorithm"), "AWS4-HMAC-SHA256".to_owned()),
            (format!("{prefix}Credential"), self.credential()),
            (format!("{prefix}Date"), self.moment.clone()),
            (format!("{prefix}Expires"), EXPIRES.to_owned()),
            (format!("{prefix}SignedHeaders"), lines.names()),
        ];
        pairs.extend_from_slice(parameters);
        let pairs = pairs.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
        let own = (!query.is_empty()).then(|| query.to_owned());
        let query = own.into_iter().chain(pairs).collect::<Vec<_>>().join("&");
        let signature = self.signature(method, path, &query, lines, b"UNSIGNED-PAYLOAD");
        format!("{query}&{prefix}Signature={signature}")
    }

    /// The query of a URL presigned by version 2 that is valid until `expires`: the given one, of
    /// parameters that are signed and in ascending order, and `lines`, moved there.
    pub(crate) fn presigned_query_v2(
        &self,
        method: &str,
        path: &str,
        query: &str,
        expires: u64,
        lines: &[(String, String)],
    ) -> String {
        let standard = |name| lines.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value);
        let mut vendor: Vec<_> = lines.iter().filter(|(name, _)| name.starts_with("x-amz-")).collect();
        vendor.sort();
        let vendor: String = vendor.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let resource = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        let text = format!(
            "{method}\n{}\n{}\n{expires}\n{vendor}{resource}",
            standard("content-md5"),
            standard("content-type")
        );
        let signature = self.sign_v2(&text);
        let own = (!query.is_empty()).then(|| query.to_owned());
        let pairs = lines.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
        let query = own.into_iter().chain(pairs).collect::<Vec<_>>().join("&");
        format!(
            "{query}&AWSAccessKeyId={}&Expires={expires}&Signature={}",
            self.access_key,
            encoded(&signature)
        )
    }

    fn signature(
        &self,
        method: &str,
        path: &str,
        query: &str,
        lines: &HeaderLines,
        payload: &[u8],
    ) -> String {
        let mut canonical = format!("{method}\n{path}\n{}\n", canonical_query(query)).into_bytes();
        for (name, values) in &lines.0 {
            canonical.extend(name.bytes());
            canonical.push(b':');
            canonical.extend(values.join(&b","[..]));
            canonical.push(b'\n');
        }
        canonical.extend(format!("\n{}\n", lines.names()).bytes());
        canonical.extend(payload);
        let digest = hex(&Sha256::digest(&canonical));
        self.sign(&format!("AWS4-HMAC-SHA256\n{}\n{}\n{digest}", self.moment, self.scope()))
    }

    /// The signature of a text by version 4.
    pub(crate) fn sign(&self, text: &str) -> String {
        let mut key = format!("AWS4{}", self.secret_key).into_bytes();
        for part in [&self.moment[..8], self.region, self.service, "aws4_request"] {
            key = hmac(&key, part.as_bytes());
        }
        hex(&hmac(&key, text.as_bytes()))
    }

    /// The signature of a text by version 2.
    pub(crate) fn sign_v2(&self, text: &str) -> String {
        let mut mac = Hmac::<sha1::Sha1>::new_from_slice(self.secret_key.as_bytes()).unwrap();
        mac.update(text.as_bytes());
        BASE64.encode(mac.finalize().into_bytes())
    }

    pub(crate) fn credential(&self) -> String {
        format!("{}/{}", self.access_key, self.scope())
    }

    fn scope(&self) -> String {
        format!("{}/{}/{}/aws4_request", &self.moment[..8], self.region, self.service)
    }
}

/// The tests write their queries encoded as they are to be signed, but for their order and the lone
/// names.
fn canonical_query(query: &str) -> String {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<_> = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
    pairs.sort_unstable();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Encodes a value for a query, or a key for a path, as clients do.
pub(crate) fn encoded(text: &str) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(text, KEPT).to_string()
}
