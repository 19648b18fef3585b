//! The requests to a bucket, and the parsing of their answers.

use std::borrow::Cow;

use crate::xml::{Document, Element, Writer, XmlError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

use crate::client::endpoint::Endpoint;
use crate::client::signer::RequestSigner;

/// All but the unreserved characters: the encoding of parameters in a signature.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A bucket of a server.
pub struct Bucket {
    /// Its name.
    pub name: String,
    host: String,
    signer: RequestSigner,
}

/// A request: its head, and its body if there is one.
pub struct SignedRequest<'b> {
    /// The request line and the header lines, with the empty line after them.
    pub head: String,
    /// The body; empty for none.
    pub body: Cow<'b, [u8]>,
    /// Whether the answer has no body.
    pub head_only: bool,
}

/// A version of an object, or a delete marker.
pub struct ObjectVersion {
    /// The key.
    pub key: String,
    /// The version; `None` where the bucket has no versions.
    pub id: Option<String>,
    /// Whether it is a delete marker.
    pub delete_marker: bool,
}

/// An object of a listing.
pub struct ListedObject {
    /// The key.
    pub key: String,
    /// The length in bytes.
    pub length: u64,
    /// The entity tag, with its quotes.
    pub etag: String,
}

/// A parameter of a query: its name and its value, not encoded.
pub type QueryParameter<'p> = (&'p str, &'p str);

impl Bucket {
    /// The bucket `name` of `endpoint`, with path-style addresses.
    pub fn new(name: String, endpoint: &Endpoint, signer: RequestSigner) -> Self {
        Self { name, host: endpoint.host.clone(), signer }
    }

    /// The server itself, for requests that address no bucket.
    pub fn none(endpoint: &Endpoint, signer: RequestSigner) -> Self {
        Self::new(String::new(), endpoint, signer)
    }

    /// CreateBucket.
    pub fn create(&self) -> SignedRequest<'static> {
        self.request("PUT", "", &[], "", Cow::default())
    }

    /// DeleteBucket.
    pub fn delete(&self) -> SignedRequest<'static> {
        self.request("DELETE", "", &[], "", Cow::default())
    }

    /// ListObjectsV2, a page of 1,000 keys.
    pub fn list(&self) -> SignedRequest<'static> {
        self.list_prefix("")
    }

    /// ListObjectsV2, a page of 1,000 keys that begin with `prefix`.
    pub fn list_prefix(&self, prefix: &str) -> SignedRequest<'static> {
        let page = [("list-type", "2"), ("max-keys", "1000"), ("prefix", prefix)];
        self.request("GET", "", &page[..if prefix.is_empty() { 2 } else { 3 }], "", Cow::default())
    }

    /// DeleteObjects.
    pub fn delete_all(&self, objects: &[ObjectVersion]) -> SignedRequest<'static> {
        let mut document = Writer::new("Delete", None);
        for ObjectVersion { key, id, .. } in objects {
            document.element("Object", |object| {
                object.leaf("Key", key);
                if let Some(id) = id {
                    object.leaf("VersionId", id);
                }
            });
        }
        let body = document.finish();
        let md5 = format!("Content-MD5: {}\r\n", STANDARD.encode(Md5::digest(&body)));
        self.request("POST", "", &[("delete", "")], &md5, body.into())
    }

    /// PutObject.
    pub fn put<'b>(&self, key: &str, body: &'b [u8]) -> SignedRequest<'b> {
        self.request("PUT", key, &[], "", body.into())
    }

    /// A request without a body for an object.
    pub fn object(&self, method: &str, key: &str) -> SignedRequest<'static> {
        self.request(method, key, &[], "", Cow::default())
    }

    /// A request with the header lines `more`, each with its line end. The query is sorted by the
    /// caller.
    pub fn request<'b>(
        &self,
        method: &str,
        key: &str,
        query: &[QueryParameter<'_>],
        more: &str,
        body: Cow<'b, [u8]>,
    ) -> SignedRequest<'b> {
        let path = if key.is_empty() { format!("/{}", self.name) } else { format!("/{}/{key}", self.name) };
        let query = encoded_query(query);
        let target = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
        // Servers ask for a length where a body is expected, also for an empty one.
        let length = match method {
            "PUT" | "POST" => format!("Content-Length: {}\r\n", body.len()),
            _ => String::new(),
        };
        let signature = self.signer.lines(method, &path, &query, &self.host, &body);
        let head =
            format!("{method} {target} HTTP/1.1\r\nHost: {}\r\n{length}{more}{signature}\r\n", self.host);
        SignedRequest { head, body, head_only: method == "HEAD" }
    }
}

/// A text as a segment of a path or a value of a query.
pub fn encoded(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, ENCODED)
}

/// A query of these parameters, encoded.
pub fn encoded_query(query: &[QueryParameter<'_>]) -> String {
    let parameters: Vec<_> = query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    parameters.join("&")
}

/// The objects on a page of a listing.
///
/// # Errors
/// A message, if it is not a listing.
pub fn keys(page: &str) -> Result<Vec<ObjectVersion>, String> {
    entries(page, &["ListBucketResult"], &["Contents"])
}

/// The versions and delete markers on a page of a listing of versions.
///
/// # Errors
/// A message, if it is not one.
pub fn versions(page: &str) -> Result<Vec<ObjectVersion>, String> {
    // The S3 API reference names the root in the plural, and S3 itself in the singular.
    entries(page, &["ListVersionsResult", "ListVersionResult"], &["Version", "DeleteMarker"])
}

/// The objects on a page of a listing, with their lengths and entity tags.
///
/// # Errors
/// A message, if it is not a listing, or an object has no length.
pub fn listed(page: &str) -> Result<Vec<ListedObject>, String> {
    let document = Document::parse(page.as_bytes()).map_err(|error| error.to_string())?;
    if document.root().name() != "ListBucketResult" {
        return Err("the answer is not a listing".to_owned());
    }
    let contents = document.root().children().filter(|child| child.name() == "Contents");
    contents.map(listed_object).collect()
}

fn listed_object(entry: Element<'_>) -> Result<ListedObject, String> {
    let size = child_text(entry, "Size")?;
    Ok(ListedObject {
        key: child_text(entry, "Key")?,
        length: size.trim().parse().map_err(|_| format!("an object has no size but {size:?}"))?,
        etag: child_text(entry, "ETag")?,
    })
}

/// The text of a child; empty without the child.
fn child_text(entry: Element<'_>, name: &str) -> Result<String, String> {
    let text = entry.child_text(name).map_err(|error| error.to_string())?;
    Ok(text.unwrap_or_default().into_owned())
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
pub(super) fn error_message(body: &str) -> Option<String> {
    let document = Document::parse(body.as_bytes()).ok()?;
    let code = document.root().child_text("Code").ok()??;
    let message = document.root().child_text("Message").ok()??;
    Some(format!("{code}: {message}"))
}
