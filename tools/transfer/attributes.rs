//! The attributes of a version: headers, metadata and tags.

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use siltstone::base::Timestamp;
use siltstone::xml::{Document, Element};

use super::peer::{Call, CallError, Header, Link};
use super::report::Loss;
use super::upload::bare;

/// The header with the tags of a new object.
const TAGGING: &str = "x-amz-tagging";
/// The headers that are kept beside the user's metadata.
const KEPT: [&str; 7] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
    "x-amz-website-redirect-location",
];
/// The headers of attributes that are not kept, with the name of the loss.
const LOST: [(&str, Loss); 4] = [
    ("x-amz-server-side-encryption", Loss::Encryption),
    ("x-amz-storage-class", Loss::StorageClass),
    ("x-amz-object-lock-mode", Loss::ObjectLock),
    ("x-amz-object-lock-legal-hold", Loss::ObjectLock),
];

/// The metadata with the modification time, in the form of rclone.
pub(super) const MTIME: &str = "x-amz-meta-mtime";

/// The attributes of a version.
pub(super) struct StoredAttributes {
    pub(super) length: u64,
    pub(super) etag: String,
    /// The headers that a copy has, too; sorted.
    pub(super) kept: Vec<Header>,
    pub(super) losses: Vec<Loss>,
    /// The modification time in seconds.
    pub(super) modified: Option<u64>,
    pub(super) encrypted_by_key: bool,
}

/// The names and values of tags, sorted.
pub(super) type Tags = Vec<(String, String)>;

impl StoredAttributes {
    /// The number of parts in the entity tag; `None` if it is that of a whole object.
    ///
    /// Entity tags that are no digests have none, either.
    pub(super) fn part_count(&self) -> Option<u32> {
        let (digest, count) = self.etag.split_once('-')?;
        count.parse().ok().filter(|count| is_md5(digest) && (1..=10_000).contains(count))
    }

    /// Whether the entity tag is a digest of the bytes, alone or by parts.
    pub(super) fn has_digest(&self) -> bool {
        !self.encrypted_by_key && (is_md5(&self.etag) || self.part_count().is_some())
    }
}

fn is_md5(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The attributes of a version; `None` if it is not there.
pub(super) fn attributes_of(
    link: &mut Link<'_>,
    key: &str,
    id: Option<&str>,
) -> Result<Option<StoredAttributes>, CallError> {
    let query: Vec<_> = id.map(|id| ("versionId", id)).into_iter().collect();
    let (answer, _) = match link.ask(Call { method: "HEAD", key, query: &query, ..Call::default() }) {
        Err(CallError::Absent) => return Ok(None),
        other => other?,
    };
    let length = answer.header("content-length").and_then(|length| length.parse().ok());
    let length = length.ok_or_else(|| CallError::Lasting("HEAD answers without a length".to_owned()))?;
    let etag = bare(&answer.header("etag").unwrap_or_default());
    let headers = answer.headers();
    let modified = answer.header("last-modified").and_then(|date| Timestamp::parse_http_date(&date));
    let modified = modified.map(Timestamp::as_secs);
    let losses =
        LOST.iter().filter(|(name, _)| headers.iter().any(|(given, value)| given == name && value != "OFF"));
    let losses = losses.map(|(_, loss)| *loss).collect();
    let by_key =
        |(name, value): &Header| name == "x-amz-server-side-encryption" && value.starts_with("aws:kms");
    let encrypted_by_key = headers.iter().any(by_key);
    let is_kept = |(name, _): &Header| KEPT.contains(&&**name) || name.starts_with("x-amz-meta-");
    let mut kept: Vec<_> = headers.into_iter().filter(is_kept).collect();
    kept.sort();
    Ok(Some(StoredAttributes { length, etag, kept, losses, modified, encrypted_by_key }))
}

/// The tags of a version; `None` if the server keeps none for any object.
///
/// # Errors
/// A message. A server that refuses by permission may have tags, and is an error.
pub(super) fn tags_of(link: &mut Link<'_>, key: &str, id: Option<&str>) -> Result<Option<Tags>, String> {
    let mut query = vec![("tagging", "")];
    query.extend(id.map(|id| ("versionId", id)));
    match link.ask(Call { method: "GET", key, query: &query, ..Call::default() }) {
        Ok((_, document)) => Ok(tags_in(&document)),
        Err(CallError::Absent) => Ok(Some(Tags::new())),
        Err(CallError::Unsupported(_)) => Ok(None),
        Err(error) => Err(format!("its tags: {}", error.text())),
    }
}

/// The tags in a document. A server that ignores the parameter sends the object instead.
fn tags_in(document: &[u8]) -> Option<Tags> {
    let document = Document::parse(document).ok()?;
    if document.root().name() != "Tagging" {
        return None;
    }
    let sets = document.root().children().filter(|child| child.name() == "TagSet");
    let text =
        |tag: Element<'_>, name: &str| tag.child_text(name).ok().flatten().unwrap_or_default().into_owned();
    let tags = sets.flat_map(|set| set.children().collect::<Vec<_>>());
    let mut tags: Tags = tags.map(|tag| (text(tag, "Key"), text(tag, "Value"))).collect();
    tags.sort();
    Some(tags)
}

/// The headers with that of the tags, if there are any; sorted.
pub(super) fn with_tags(mut headers: Vec<Header>, tags: &Tags) -> Vec<Header> {
    if !tags.is_empty() {
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let pairs = tags.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
        headers.push((TAGGING.to_owned(), pairs.collect::<Vec<_>>().join("&")));
    }
    headers.sort();
    headers
}

/// The headers without that of the tags, and the tags.
pub(super) fn without_tags(headers: &[Header]) -> (Vec<Header>, Tags) {
    let (tagging, others): (Vec<_>, Vec<_>) = headers.iter().cloned().partition(|(name, _)| name == TAGGING);
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let pairs = tagging.iter().flat_map(|(_, value)| value.split('&'));
    let tags =
        pairs.filter_map(|pair| pair.split_once('=')).map(|(name, value)| (decoded(name), decoded(value)));
    (others, tags.collect())
}

pub(super) fn has_time(headers: &[Header]) -> bool {
    headers.iter().any(|(name, _)| name == MTIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_become_a_header_and_tags_again() {
        let tags = vec![("a b".to_owned(), "c+d&=".to_owned()), ("e".to_owned(), String::new())];
        let headers = with_tags(vec![("x-amz-meta-who".to_owned(), "me".to_owned())], &tags);
        assert_eq!(headers[1], ("x-amz-tagging".to_owned(), "a%20b=c%2Bd%26%3D&e=".to_owned()));
        assert_eq!(without_tags(&headers), (headers[..1].to_vec(), tags));
    }

    #[test]
    fn a_document_without_tags_is_told_from_another_answer() {
        assert_eq!(tags_in(b"<Tagging><TagSet/></Tagging>"), Some(Tags::new()));
        assert_eq!(tags_in(b"<html/>"), None);
        assert_eq!(tags_in(b"the bytes of an object"), None);
    }
}
