//! The requests, and the parsing of their answers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use siltstone::xml::{Document, Element, Writer, XmlError};

use super::signer::Signer;

/// The bucket of the benchmark.
pub(crate) struct Bucket {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) signer: Signer,
}

/// A request: its head, and its body if there is one.
pub(crate) struct Request<'b> {
    pub(crate) head: String,
    pub(crate) body: std::borrow::Cow<'b, [u8]>,
    /// Whether the answer has no body.
    pub(crate) head_only: bool,
}

impl Bucket {
    /// CreateBucket.
    pub(crate) fn create(&self) -> Request<'static> {
        self.request("PUT", "", "", "", &[])
    }

    /// DeleteBucket.
    pub(crate) fn delete(&self) -> Request<'static> {
        self.request("DELETE", "", "", "", &[])
    }

    /// ListObjectsV2, a page of 1,000 keys.
    pub(crate) fn list(&self) -> Request<'static> {
        self.request("GET", "", "list-type=2&max-keys=1000", "", &[])
    }

    /// DeleteObjects.
    pub(crate) fn delete_all(&self, keys: &[String]) -> Request<'static> {
        let mut document = Writer::new("Delete", None);
        for key in keys {
            document.element("Object", |object| object.leaf("Key", key));
        }
        let body = document.finish();
        let md5 = format!("Content-MD5: {}\r\n", STANDARD.encode(Md5::digest(&body)));
        let Request { head, head_only, .. } = self.request("POST", "", "delete=", &md5, &body);
        Request { head, body: body.into(), head_only }
    }

    /// PutObject.
    pub(crate) fn put<'b>(&self, key: &str, body: &'b [u8]) -> Request<'b> {
        self.request("PUT", key, "", "", body)
    }

    /// A request without a body for an object.
    pub(crate) fn object(&self, method: &str, key: &str) -> Request<'static> {
        self.request(method, key, "", "", &[])
    }

    fn request<'b>(&self, method: &str, key: &str, query: &str, more: &str, body: &'b [u8]) -> Request<'b> {
        let path = if key.is_empty() { format!("/{}", self.name) } else { format!("/{}/{key}", self.name) };
        let target = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
        let length = match method {
            "PUT" | "POST" => format!("Content-Length: {}\r\n", body.len()),
            _ => String::new(),
        };
        let signature = self.signer.lines(method, &path, query, &self.host);
        let head =
            format!("{method} {target} HTTP/1.1\r\nHost: {}\r\n{length}{more}{signature}\r\n", self.host);
        Request { head, body: body.into(), head_only: method == "HEAD" }
    }
}

/// The keys on a page of a listing.
///
/// # Errors
/// A message, if it is not a listing.
pub(crate) fn keys(page: &str) -> Result<Vec<String>, String> {
    let document = Document::parse(page.as_bytes()).map_err(|error| error.to_string())?;
    let root = document.root();
    if root.name() != "ListBucketResult" {
        return Err(format!("the answer is not a listing: {page}"));
    }
    let key = |entry: Element<'_>| Ok(entry.child_text("Key")?.unwrap_or_default().into_owned());
    root.all("Contents").map(key).collect::<Result<_, XmlError>>().map_err(|error| error.to_string())
}

/// The code and the message of an error document; `None` for any other.
pub(crate) fn error_message(body: &str) -> Option<String> {
    let document = Document::parse(body.as_bytes()).ok()?;
    let text = |name| document.root().child_text(name).ok().flatten();
    Some(format!("{}: {}", text("Code")?, text("Message")?))
}
