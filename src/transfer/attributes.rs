//! The attributes of a version: headers, metadata and tags.

use std::io;

use crate::base::Timestamp;
use crate::base::digest::Md5;
use crate::base::encoded_words;
use crate::client::Answer;
use crate::xml::{Document, Element, Writer};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::peer::{Header, PeerCall, PeerError, PeerLink, attempts, passing};
use super::upload::bare;

/// The header by which a Siltstone names its store.
const STORE_MARK: &str = "x-amz-siltstone-store";
/// Asks HEAD for the checksums of an object.
const CHECKSUM_MODE: &str = "x-amz-checksum-mode";
/// The beginning of the headers with checksums.
const CHECKSUM: &str = "x-amz-checksum-";
/// What the checksums are of: all bytes, or those of the parts.
const CHECKSUM_TYPE: &str = "x-amz-checksum-type";
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
const LOST: [(&str, Loss); 5] = [
    ("x-amz-server-side-encryption", Loss::Encryption),
    (CUSTOMER_ALGORITHM, Loss::Encryption),
    ("x-amz-storage-class", Loss::StorageClass),
    ("x-amz-object-lock-mode", Loss::ObjectLock),
    ("x-amz-object-lock-legal-hold", Loss::ObjectLock),
];

/// The header of an object that is encrypted with a key of its client.
const CUSTOMER_ALGORITHM: &str = "x-amz-server-side-encryption-customer-algorithm";

/// How servers say, in small letters, that a read needs the key of a client.
const ENCRYPTION_WORDS: [&str; 3] = ["server side encryption", "server-side encryption", "sse-c"];
/// Why an object that is encrypted with the key of its client is not copied.
const CUSTOMER_ENCRYPTED: &str =
    "it is encrypted with a key of its client (SSE-C), which is not given, so that it is not kept";

/// The metadata with the modification time, in the form of rclone.
pub const MTIME: &str = "x-amz-meta-mtime";

/// The attributes of a version.
pub struct StoredAttributes {
    /// Bytes.
    pub length: u64,
    /// The entity tag, without quotes.
    pub etag: String,
    /// The headers that a copy has, too; sorted.
    pub kept: Vec<Header>,
    /// The attributes that a copy does not have.
    pub losses: Vec<Loss>,
    /// The modification time in seconds.
    pub modified: Option<u64>,
    /// Whether the entity tag is no digest, because the server encrypts with a key.
    pub encrypted_by_key: bool,
}

/// The checksums of a version, with what they are of.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StoredChecksums {
    of: Option<String>,
    values: Vec<Header>,
}

impl StoredChecksums {
    /// Whether those of the same algorithm are the same; `None` without any.
    pub fn agree(&self, other: &Self) -> Option<bool> {
        if self.of != other.of {
            return None;
        }
        let mut agreed = None;
        for (name, value) in &self.values {
            if let Some((_, there)) = other.values.iter().find(|(there, _)| there == name) {
                agreed = Some(agreed != Some(false) && value == there);
            }
        }
        agreed
    }
}

/// An attribute that a copy does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// Grants to others than the owner.
    Grants,
    /// Server-side encryption.
    Encryption,
    /// The storage class.
    StorageClass,
    /// Retention or legal hold.
    ObjectLock,
    /// The entity tag.
    EntityTag,
    /// Noncurrent versions.
    Noncurrent,
    /// The modification time.
    Times,
    /// Tags.
    Tags,
}

/// The names and values of tags, sorted.
pub type Tags = Vec<(String, String)>;

impl StoredAttributes {
    /// The number of parts in the entity tag; `None` if it is a whole object's.
    ///
    /// Entity tags that are no digests have none, either.
    pub fn part_count(&self) -> Option<u32> {
        let (digest, count) = self.etag.split_once('-')?;
        count.parse().ok().filter(|count| is_md5(digest) && (1..=10_000).contains(count))
    }

    /// Whether the entity tag is a digest of the bytes, alone or by parts.
    pub fn has_digest(&self) -> bool {
        !self.encrypted_by_key && (is_md5(&self.etag) || self.part_count().is_some())
    }
}

fn is_md5(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The attributes of a version; `None` if it is not there.
///
/// # Errors
/// As of [`PeerLink::send`].
pub fn attributes_of(
    link: &mut PeerLink<'_>,
    key: &str,
    id: Option<&str>,
) -> Result<Option<StoredAttributes>, PeerError> {
    attributes_with(link, key, id, &[])
}

/// The same of a request with these headers, such as those with the key of a client.
///
/// # Errors
/// As of [`PeerLink::send`].
pub fn attributes_with(
    link: &mut PeerLink<'_>,
    key: &str,
    id: Option<&str>,
    headers: &[Header],
) -> Result<Option<StoredAttributes>, PeerError> {
    match head(link, key, id, headers) {
        Err(PeerError::Absent) => Ok(None),
        answer => attributes_in(&answer?).map(Some),
    }
}

/// The attributes of a version, and its checksums.
///
/// # Errors
/// As of [`PeerLink::send`].
pub fn checked_attributes_of(
    link: &mut PeerLink<'_>,
    key: &str,
    id: Option<&str>,
) -> Result<(StoredAttributes, StoredChecksums), PeerError> {
    let asked = (CHECKSUM_MODE.to_owned(), "ENABLED".to_owned());
    let answer = head(link, key, id, &[asked])?;
    let mut checksums = StoredChecksums { of: answer.header(CHECKSUM_TYPE), values: Vec::new() };
    for (name, value) in answer.headers() {
        if name.starts_with(CHECKSUM) && name != CHECKSUM_TYPE {
            checksums.values.push((name, value));
        }
    }
    Ok((attributes_in(&answer)?, checksums))
}

/// Whether a version is encrypted with a key of its client, so that nobody else can read it.
///
/// # Errors
/// As of [`PeerLink::send`], but for what the version itself refuses.
pub fn takes_client_key(link: &mut PeerLink<'_>, key: &str, id: Option<&str>) -> Result<bool, PeerError> {
    match head(link, key, id, &[]) {
        Err(error) if is_of_client_key(&error) => Ok(true),
        Err(PeerError::Absent | PeerError::Lasting(_)) => Ok(false),
        answered => answered.map(|_| false),
    }
}

/// Whether a version was refused because it takes the key of a client.
pub fn is_of_client_key(error: &PeerError) -> bool {
    matches!(error, PeerError::Lasting(why) if why == CUSTOMER_ENCRYPTED)
}

fn head(
    link: &mut PeerLink<'_>,
    key: &str,
    id: Option<&str>,
    headers: &[Header],
) -> Result<Answer, PeerError> {
    let query: Vec<_> = id.map(|id| ("versionId", id)).into_iter().collect();
    let call = PeerCall { method: "HEAD", key, query: &query, headers, ..PeerCall::default() };
    match link.ask(call) {
        Err(PeerError::Lasting(why)) => Err(PeerError::Lasting(reason_of(link, call).unwrap_or(why))),
        answered => answered.map(|(answer, _)| answer),
    }
}

fn attributes_in(answer: &Answer) -> Result<StoredAttributes, PeerError> {
    let length = answer.header("content-length").and_then(|length| length.parse().ok());
    let length = length.ok_or_else(|| PeerError::Lasting("HEAD answers without a length".to_owned()))?;
    let etag = bare(&answer.header("etag").unwrap_or_default());
    let headers = answer.headers();
    let modified = answer.header("last-modified").and_then(|date| Timestamp::parse_http_date(&date));
    let modified = modified.map(Timestamp::as_secs);
    let losses =
        LOST.iter().filter(|(name, _)| headers.iter().any(|(given, value)| given == name && value != "OFF"));
    let losses = losses.map(|(_, loss)| *loss).collect();
    let encrypted_by_key = headers.iter().any(|(name, value)| {
        name == CUSTOMER_ALGORITHM || name == "x-amz-server-side-encryption" && value.starts_with("aws:kms")
    });
    let mut kept = Vec::new();
    for (name, value) in headers {
        if KEPT.contains(&&*name) || name.starts_with("x-amz-meta-") {
            // Text beyond ASCII may come as encoded words. A copy has the text itself.
            kept.push((name, encoded_words::decode(&value).into_owned()));
        }
    }
    kept.sort();
    Ok(StoredAttributes { length, etag, kept, losses, modified, encrypted_by_key })
}

/// What a server says of an object that it does not show to a HEAD, whose answer has no text: one
/// that is encrypted with a key that the client of that server has.
fn reason_of(link: &mut PeerLink<'_>, call: PeerCall<'_>) -> Option<String> {
    let first_byte = [("range".to_owned(), "bytes=0-0".to_owned())];
    let call = PeerCall { method: "GET", headers: &first_byte, ..call };
    let answer = link.exchange(call, &mut io::empty(), &mut io::sink()).ok()?;
    let told = answer.refusal().to_ascii_lowercase();
    let is_of_key = answer.status == 400 && ENCRYPTION_WORDS.iter().any(|words| told.contains(words));
    is_of_key.then(|| CUSTOMER_ENCRYPTED.to_owned())
}

/// The tags of a version; `None` if the server keeps none for any object.
///
/// # Errors
/// A message. A server that refuses by permission may have tags, and is an error.
pub fn tags_of(link: &mut PeerLink<'_>, key: &str, id: Option<&str>) -> Result<Option<Tags>, String> {
    let mut query = vec![("tagging", "")];
    query.extend(id.map(|id| ("versionId", id)));
    match link.ask(PeerCall { method: "GET", key, query: &query, ..PeerCall::default() }) {
        Ok((_, document)) => Ok(tags_in(&document)),
        Err(PeerError::Absent) => Ok(Some(Tags::new())),
        Err(PeerError::Unsupported(_)) => Ok(None),
        Err(error) => Err(format!("its tags: {}", error.text())),
    }
}

/// Replaces the tags of a version.
///
/// # Errors
/// As of [`PeerLink::send`].
pub fn put_tags(link: &mut PeerLink<'_>, key: &str, id: Option<&str>, tags: &Tags) -> Result<(), PeerError> {
    let mut query = vec![("tagging", "")];
    query.extend(id.map(|id| ("versionId", id)));
    if tags.is_empty() {
        let call = PeerCall { method: "DELETE", key, query: &query, ..PeerCall::default() };
        return link.ask(call).map(drop);
    }
    let mut document = Writer::new("Tagging", None);
    document.element("TagSet", |set| write_tags(set, tags));
    let body = document.finish();
    // Some servers demand it for this document.
    let md5 = ("content-md5".to_owned(), STANDARD.encode(Md5::of(&body)));
    let call = PeerCall { method: "PUT", key, query: &query, headers: &[md5], ..PeerCall::default() };
    link.ask_with(call, &body).map(drop)
}

/// Writes an element for each tag.
pub(super) fn write_tags(set: &mut Writer, tags: &Tags) {
    for (name, value) in tags {
        set.element("Tag", |tag| {
            tag.leaf("Key", name);
            tag.leaf("Value", value);
        });
    }
}

/// The versioning of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerVersioning {
    /// The server knows no versions.
    Unsupported,
    /// It was never enabled.
    Unset,
    /// It keeps those that there are.
    Suspended,
    /// It keeps versions.
    Enabled,
}

impl PeerVersioning {
    /// Whether a key may have several versions.
    pub fn may_have_versions(self) -> bool {
        matches!(self, Self::Suspended | Self::Enabled)
    }
}

/// The versioning of the bucket.
///
/// # Errors
/// As of [`PeerLink::send`]. Another document than versioning's is one, since anything on the
/// way may have answered.
pub fn versions_state(link: &mut PeerLink<'_>) -> Result<PeerVersioning, PeerError> {
    let call = PeerCall { method: "GET", query: &[("versioning", "")], ..PeerCall::default() };
    match link.ask(call) {
        Ok((_, body)) => versioning_in(&body),
        Err(PeerError::Unsupported(_)) => Ok(PeerVersioning::Unsupported),
        Err(error) => Err(error),
    }
}

/// A store behind a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerStore {
    /// Its public id.
    pub id: String,
    /// The public ids of the stores that changes reach by its mirrors, as far as it knows them.
    pub mirrors_to: Vec<String>,
}

/// The store behind the server, if that is a Siltstone.
///
/// # Errors
/// No answer came, or one of a server that is not able to answer.
pub fn store_of(link: &mut PeerLink<'_>) -> Result<Option<PeerStore>, PeerError> {
    attempts(|| {
        let call = PeerCall { method: "GET", query: &[("versioning", "")], ..PeerCall::default() };
        let answer = link.exchange(call, &mut io::empty(), &mut io::sink())?;
        match answer.status {
            429 | 500.. => Err(PeerError::Passing(answer.refusal())),
            _ => Ok(answer.header(STORE_MARK).and_then(|told| store_in(&told))),
        }
    })
}

/// The id of a store, and the ids of the stores that it has mirrors to, after commas.
fn store_in(told: &str) -> Option<PeerStore> {
    let mut ids = told.split(',').map(|id| id.trim().to_owned()).filter(|id| !id.is_empty());
    Some(PeerStore { id: ids.next()?, mirrors_to: ids.collect() })
}

fn versioning_in(body: &[u8]) -> Result<PeerVersioning, PeerError> {
    let odd =
        |what: &dyn std::fmt::Display| passing(format!("the answer does not tell the versioning: {what}"));
    let document = Document::parse(body).map_err(|error| odd(&error))?;
    match document.root().name() {
        "VersioningConfiguration" => {}
        // A server that does not know the parameter lists the bucket.
        "ListBucketResult" => return Ok(PeerVersioning::Unsupported),
        root => return Err(odd(&root)),
    }
    let state = document.root().child_text("Status").map_err(|error| odd(&error))?.unwrap_or_default();
    match state.trim() {
        "" => Ok(PeerVersioning::Unset),
        "Suspended" => Ok(PeerVersioning::Suspended),
        "Enabled" => Ok(PeerVersioning::Enabled),
        other => Err(odd(&other)),
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

/// The headers with the tags', if there are any; sorted.
pub fn with_tags(mut headers: Vec<Header>, tags: &Tags) -> Vec<Header> {
    if !tags.is_empty() {
        let pairs = tags.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
        headers.push((TAGGING.to_owned(), pairs.collect::<Vec<_>>().join("&")));
    }
    headers.sort();
    headers
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The headers without the tags', and the tags.
pub fn without_tags(headers: &[Header]) -> (Vec<Header>, Tags) {
    let (tagging, others): (Vec<_>, Vec<_>) = headers.iter().cloned().partition(|(name, _)| name == TAGGING);

    let pairs = tagging.iter().flat_map(|(_, value)| value.split('&'));
    let tags =
        pairs.filter_map(|pair| pair.split_once('=')).map(|(name, value)| (decoded(name), decoded(value)));
    (others, tags.collect())
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Whether the metadata has a modification time.
pub fn has_time(headers: &[Header]) -> bool {
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
