//! The copy of a key of another server, with its versions.

use std::io::{self, Write};
use std::ops::Range;
use std::thread;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use siltstone::base::Timestamp;
use siltstone::xml::{Document, Element};

use super::listing::{ListedVersion, versions_of};
use super::peer::{Call, CallError, Header, Link};
use super::report::{Copied, Loss};
use super::upload::{Origin, Send, Shape, Upload, bare};

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
    losses: Vec<Loss>,
    /// The modification time in seconds.
    modified: Option<u64>,
    encrypted_by_key: bool,
}

/// A copy from one bucket to another.
pub(super) struct ObjectCopy<'c, 'p> {
    pub(super) source: &'c mut Link<'p>,
    pub(super) target: &'c mut Link<'p>,
    /// The key in the source, and in the target.
    pub(super) keys: (&'c str, &'c str),
    /// Whether modification times become metadata.
    pub(super) keep_times: bool,
    /// Is told what a copy loses.
    pub(super) lost: &'c mut dyn FnMut(Loss),
}

struct ObjectOrigin<'o, 'p> {
    link: &'o mut Link<'p>,
    key: &'o str,
    id: Option<&'o str>,
    etag: &'o str,
}

impl Origin for ObjectOrigin<'_, '_> {
    /// A second thread receives the bytes while they are sent.
    fn with_range(&mut self, range: Range<u64>, send: &mut Send<'_>) -> Result<String, CallError> {
        let (mut reader, mut writer) = io::pipe().map_err(|error| CallError::Lasting(error.to_string()))?;
        thread::scope(|scope| {
            let received = scope.spawn(move || self.receive(&range, &mut writer));
            let sent = send(&mut reader);
            // The receiver ends when the pipe has no reader.
            drop(reader);
            let received = received.join().unwrap_or_else(|_| Err(CallError::Lasting("a panic".to_owned())));
            match (received, sent) {
                (Ok(()), sent) => sent,
                (Err(_), Err(CallError::Lasting(why))) => Err(CallError::Lasting(why)),
                (Err(error), _) => Err(error),
            }
        })
    }
}

impl ObjectOrigin<'_, '_> {
    fn receive(&mut self, range: &Range<u64>, sink: &mut dyn Write) -> Result<(), CallError> {
        let mut headers = vec![("if-match".to_owned(), format!("\"{}\"", self.etag))];
        if range.end > range.start {
            headers.push(("range".to_owned(), format!("bytes={}-{}", range.start, range.end - 1)));
        }
        let query: Vec<_> = self.id.map(|id| ("versionId", id)).into_iter().collect();
        let call = Call { method: "GET", key: self.key, query: &query, headers: &headers, length: 0 };
        let answer = self.link.send(call, &mut io::empty(), sink)?;
        let length = range.end - range.start;
        if answer.len == length {
            return Ok(());
        }
        Err(CallError::Lasting(format!("the source sends {} bytes in place of {length}", answer.len)))
    }
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

impl ObjectCopy<'_, '_> {
    /// Copies the current version, unless it is there.
    ///
    /// # Errors
    /// A message, if it cannot be read or is not stored.
    pub(super) fn copy_current(&mut self) -> Result<Copied, String> {
        let (from, headers) = self.wanted(None)?;
        let to = self.keys.1;
        let there = attributes_of(self.target, to, None).map_err(CallError::text)?;
        if let Some(there) = there
            && (there.length, &there.etag) == (from.length, &from.etag)
            && complete(self.target, to, None, there.kept)? == headers
        {
            return Ok(Copied::Present);
        }
        self.store(&from, &headers, None).map(|()| Copied::Stored)
    }

    /// Appends the versions that the target does not have, in order.
    ///
    /// # Errors
    /// A message. The versions before the one that failed are stored.
    pub(super) fn copy_versions(&mut self, versions: &[ListedVersion]) -> Result<Copied, String> {
        let there = versions_of(self.target, self.keys.1)?;
        if there.len() > versions.len() {
            return Err("the target has more versions than the source".to_owned());
        }
        for (at, (old, new)) in there.iter().zip(versions).enumerate() {
            if !self.is_same(old, new)? {
                return Err(format!("version {} in the target is another one than in the source", at + 1));
            }
        }
        for version in &versions[there.len()..] {
            self.append(version)?;
        }
        Ok(if there.len() == versions.len() { Copied::Present } else { Copied::Stored })
    }

    fn is_same(&mut self, old: &ListedVersion, new: &ListedVersion) -> Result<bool, String> {
        let described =
            |version: &ListedVersion| (version.delete_marker, version.length, version.etag.clone());
        if described(old) != described(new) || new.delete_marker {
            return Ok(described(old) == described(new) || (old.delete_marker && new.delete_marker));
        }
        let (_, headers) = self.wanted(new.id.as_deref())?;
        let (key, id) = (self.keys.1, old.id.as_deref());
        let there = attributes_of(self.target, key, id).map_err(CallError::text)?;
        let there = there.ok_or("a version of the target is gone")?;
        Ok(complete(self.target, key, id, there.kept)? == headers)
    }

    fn append(&mut self, version: &ListedVersion) -> Result<(), String> {
        if version.delete_marker {
            let call = Call { method: "DELETE", key: self.keys.1, ..Call::default() };
            return self.target.ask(call).map(drop).map_err(CallError::text);
        }
        let id = version.id.as_deref();
        let (from, headers) = self.wanted(id)?;
        self.store(&from, &headers, id)
    }

    /// The attributes of a version of the source, and the headers of its copy.
    fn wanted(&mut self, id: Option<&str>) -> Result<(StoredAttributes, Vec<Header>), String> {
        let key = self.keys.0;
        let from = attributes_of(self.source, key, id).map_err(CallError::text)?;
        let mut from = from.ok_or("it is gone from the source")?;
        let mut kept = std::mem::take(&mut from.kept);
        let seconds = from.modified.filter(|_| self.keep_times && !has_time(&kept));
        kept.extend(seconds.map(|seconds| (MTIME.to_owned(), seconds.to_string())));
        Ok((from, complete(self.source, key, id, kept)?))
    }

    fn store(&mut self, from: &StoredAttributes, headers: &[Header], id: Option<&str>) -> Result<(), String> {
        let (key, to) = self.keys;
        if headers.iter().any(|(_, value)| value.contains('\u{fffd}')) {
            return Err("its metadata is not UTF-8".to_owned());
        }
        if !has_time(headers) {
            (self.lost)(Loss::Times);
        }
        from.losses.iter().for_each(|loss| (self.lost)(*loss));
        if has_grants(self.source, key, id) {
            (self.lost)(Loss::Grants);
        }
        let shape = self.shape_of(from, id).map_err(CallError::text)?;
        let mut origin = ObjectOrigin { link: self.source, key, id, etag: &from.etag };
        let upload = Upload { key: to, headers, shape: &shape };
        let stored = upload.send(self.target, &mut origin).map_err(CallError::text)?;
        if stored == from.etag {
            return Ok(());
        }
        if from.encrypted_by_key || (from.etag.contains('-') && matches!(shape, Shape::Whole(_))) {
            (self.lost)(Loss::EntityTag);
            return Ok(());
        }
        Err(format!("the ETag of the copy is {stored}, that of the source {}", from.etag))
    }

    /// The parts of the source, as far as it tells their lengths.
    fn shape_of(&mut self, from: &StoredAttributes, id: Option<&str>) -> Result<Shape, CallError> {
        let count = from.etag.split_once('-').and_then(|(_, count)| count.parse::<u32>().ok());
        let Some(count) = count.filter(|count| (1..=10_000).contains(count)) else {
            return Ok(Shape::Whole(from.length));
        };
        let mut lengths = Vec::new();
        for number in 1..=count {
            let number = number.to_string();
            let mut query = vec![("partNumber", &*number)];
            query.extend(id.map(|id| ("versionId", id)));
            let call = Call { method: "HEAD", key: self.keys.0, query: &query, ..Call::default() };
            let (answer, _) = self.source.ask(call)?;
            lengths.extend(answer.header("content-length").and_then(|length| length.parse::<u64>().ok()));
        }
        let sum = lengths.iter().try_fold(0_u64, |sum, length| sum.checked_add(*length));
        let is_known = sum == Some(from.length) && lengths.len() == count as usize;
        Ok(if is_known { Shape::Parts(lengths) } else { Shape::Whole(from.length) })
    }
}

fn has_time(headers: &[Header]) -> bool {
    headers.iter().any(|(name, _)| name == MTIME)
}

/// The headers with those of the tags.
fn complete(
    link: &mut Link<'_>,
    key: &str,
    id: Option<&str>,
    mut headers: Vec<Header>,
) -> Result<Vec<Header>, String> {
    let mut query = vec![("tagging", "")];
    query.extend(id.map(|id| ("versionId", id)));
    let tags = match link.ask(Call { method: "GET", key, query: &query, ..Call::default() }) {
        Ok((_, document)) => tags_in(&document)?,
        // Servers without tags refuse the request.
        Err(CallError::Absent) => String::new(),
        Err(error) => return Err(format!("its tags: {}", error.text())),
    };
    if !tags.is_empty() {
        headers.push(("x-amz-tagging".to_owned(), tags));
    }
    headers.sort();
    Ok(headers)
}

/// The tags in the form of the header, sorted.
fn tags_in(document: &[u8]) -> Result<String, String> {
    let document = Document::parse(document).map_err(|error| error.to_string())?;
    let sets = document.root().children().filter(|child| child.name() == "TagSet");
    let encoded = |tag: Element<'_>, name: &str| {
        let text = tag.child_text(name).ok().flatten().unwrap_or_default();
        utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string()
    };
    let tags = sets.flat_map(|set| set.children().collect::<Vec<_>>());
    let mut tags: Vec<_> =
        tags.map(|tag| format!("{}={}", encoded(tag, "Key"), encoded(tag, "Value"))).collect();
    tags.sort();
    Ok(tags.join("&"))
}

/// Whether the version is granted to others than its owner, as far as the source says.
fn has_grants(link: &mut Link<'_>, key: &str, id: Option<&str>) -> bool {
    let mut query = vec![("acl", "")];
    query.extend(id.map(|id| ("versionId", id)));
    let (call, mut document) = (Call { method: "GET", key, query: &query, ..Call::default() }, Vec::new());
    // One attempt: a source that does not tell grants must not hold up the copy.
    if link.send(call, &mut io::empty(), &mut document).is_err() {
        return false;
    }
    let Ok(document) = Document::parse(&document) else { return false };
    let lists = document.root().children().filter(|child| child.name() == "AccessControlList");
    lists.map(|list| list.children().count()).sum::<usize>() > 1
}
