//! The requests to a bucket, and the parsing of their answers.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use siltstone::xml::{Document, Element, Writer, XmlError};

use super::endpoint::Endpoint;
use super::signer::Signer;

/// All but the unreserved characters: the encoding of parameters in a signature.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A bucket of a server.
pub(crate) struct Bucket {
    pub(crate) name: String,
    host: String,
    signer: Signer,
}

/// A request: its head, and its body if there is one.
pub(crate) struct Request<'b> {
    pub(crate) head: String,
    pub(crate) body: Cow<'b, [u8]>,
    /// Whether the answer has no body.
    pub(crate) head_only: bool,
}

/// A version of an object, or a delete marker.
pub(crate) struct ObjectVersion {
    pub(crate) key: String,
    /// `None` where the bucket has no versions.
    pub(crate) id: Option<String>,
    pub(crate) delete_marker: bool,
}

/// A parameter of a query: its name and its value, not encoded.
pub(crate) type Parameter<'p> = (&'p str, &'p str);

impl Bucket {
    /// The bucket `name` of `endpoint`, with path-style addresses.
    pub(crate) fn new(name: String, endpoint: &Endpoint, signer: Signer) -> Self {
        Self { name, host: endpoint.host.clone(), signer }
    }

    /// CreateBucket.
    pub(crate) fn create(&self) -> Request<'static> {
        self.request("PUT", "", &[], "", Cow::default())
    }

    /// DeleteBucket.
    pub(crate) fn delete(&self) -> Request<'static> {
        self.request("DELETE", "", &[], "", Cow::default())
    }

    /// ListObjectsV2, a page of 1,000 keys.
    pub(crate) fn list(&self) -> Request<'static> {
        self.list_prefix("")
    }

    /// ListObjectsV2, a page of 1,000 keys that begin with `prefix`.
    pub(crate) fn list_prefix(&self, prefix: &str) -> Request<'static> {
        let page = [("list-type", "2"), ("max-keys", "1000"), ("prefix", prefix)];
        self.request("GET", "", &page[..if prefix.is_empty() { 2 } else { 3 }], "", Cow::default())
    }

    /// DeleteObjects.
    pub(crate) fn delete_all(&self, objects: &[ObjectVersion]) -> Request<'static> {
        let mut document = Writer::new("Delete", None);
        for ObjectVersion { key, id, .. } in objects {
            document.element("Object", |object| {
                object.leaf("Key", key);
                id.iter().for_each(|id| object.leaf("VersionId", id));
            });
        }
        let body = document.finish();
        let md5 = format!("Content-MD5: {}\r\n", STANDARD.encode(Md5::digest(&body)));
        self.request("POST", "", &[("delete", "")], &md5, body.into())
    }

    /// PutObject.
    pub(crate) fn put<'b>(&self, key: &str, body: &'b [u8]) -> Request<'b> {
        self.request("PUT", key, &[], "", body.into())
    }

    /// A request without a body for an object.
    pub(crate) fn object(&self, method: &str, key: &str) -> Request<'static> {
        self.request(method, key, &[], "", Cow::default())
    }

    /// A request with the header lines `more`, each with its line end. The query is sorted by the caller.
    pub(crate) fn request<'b>(
        &self,
        method: &str,
        key: &str,
        query: &[Parameter<'_>],
        more: &str,
        body: Cow<'b, [u8]>,
    ) -> Request<'b> {
        let path = if key.is_empty() { format!("/{}", self.name) } else { format!("/{}/{key}", self.name) };
        let encode =
            |(name, value): &Parameter<'_>| format!("{name}={}", utf8_percent_encode(value, ENCODED));
        let query = query.iter().map(encode).collect::<Vec<_>>().join("&");
        let target = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
        let length = match method {
            "PUT" | "POST" => format!("Content-Length: {}\r\n", body.len()),
            _ => String::new(),
        };
        let signature = self.signer.lines(method, &path, &query, &self.host, &body);
        let head =
            format!("{method} {target} HTTP/1.1\r\nHost: {}\r\n{length}{more}{signature}\r\n", self.host);
        Request { head, body, head_only: method == "HEAD" }
    }
}

/// The objects on a page of a listing.
///
/// # Errors
/// A message, if it is not a listing.
pub(crate) fn keys(page: &str) -> Result<Vec<ObjectVersion>, String> {
    entries(page, &["ListBucketResult"], &["Contents"])
}

/// The versions and delete markers on a page of a listing of versions.
///
/// # Errors
/// A message, if it is not one.
pub(crate) fn versions(page: &str) -> Result<Vec<ObjectVersion>, String> {
    // The S3 API reference names the root in the plural, and S3 itself in the singular.
    entries(page, &["ListVersionsResult", "ListVersionResult"], &["Version", "DeleteMarker"])
}

fn entries(page: &str, roots: &[&str], names: &[&str]) -> Result<Vec<ObjectVersion>, String> {
    let document = Document::parse(page.as_bytes()).map_err(|error| error.to_string())?;
    if !roots.contains(&document.root().name()) {
        return Err(format!("the answer is not a listing: {page}"));
    }
    let entries = document.root().children().filter(|child| names.contains(&child.name()));
    entries.map(entry).collect::<Result<_, XmlError>>().map_err(|error| error.to_string())
}

fn entry(entry: Element<'_>) -> Result<ObjectVersion, XmlError> {
    Ok(ObjectVersion {
        key: entry.child_text("Key")?.unwrap_or_default().into_owned(),
        id: entry.child_text("VersionId")?.map(Cow::into_owned),
        delete_marker: entry.name() == "DeleteMarker",
    })
}

/// The code and the message of an error document; `None` for any other.
pub(crate) fn error_message(body: &str) -> Option<String> {
    let document = Document::parse(body.as_bytes()).ok()?;
    let text = |name| document.root().child_text(name).ok().flatten();
    Some(format!("{}: {}", text("Code")?, text("Message")?))
}
