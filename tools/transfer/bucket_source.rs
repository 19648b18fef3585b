//! A key of a bucket as the source of a copy.

use siltstone::transfer::{
    Header, Loss, MTIME, Origin, PeerCall, PeerError, PeerLink, SendBody, StoredAttributes, UploadShape,
    attributes_of, attributes_with, has_time, is_of_client_key, tags_of, with_tags,
};
use std::io::{self, Write};
use std::ops::Range;
use std::thread;

use siltstone::xml::Document;

use super::object::CopySource;

/// Why a version is not copied for which a key of a client was given.
const OTHER_KEY: &str = "it is encrypted with a key of its client (SSE-C), and not with the one that is given, so that it is not kept";

/// A key of a bucket.
pub(super) struct BucketSource<'s, 'p> {
    pub(super) link: &'s mut PeerLink<'p>,
    pub(super) key: &'s str,
    /// Whether modification times become metadata.
    pub(super) keep_times: bool,
    /// The headers with the key of a client that was given for it; empty without one.
    pub(super) client_key: Vec<Header>,
    /// The headers of all reads of the version: those with that key, if it takes one.
    pub(super) sent: Vec<Header>,
}

struct ObjectOrigin<'o, 'p> {
    link: &'o mut PeerLink<'p>,
    key: &'o str,
    id: Option<&'o str>,
    etag: &'o str,
    sent: &'o [Header],
}

impl Origin for ObjectOrigin<'_, '_> {
    /// A second thread receives the bytes while they are sent.
    fn with_range(&mut self, range: Range<u64>, send: &mut SendBody<'_>) -> Result<String, PeerError> {
        let (mut reader, mut writer) = io::pipe().map_err(|error| PeerError::Lasting(error.to_string()))?;
        thread::scope(|scope| {
            let received = scope.spawn(move || self.receive(&range, &mut writer));
            let sent = send(&mut reader);
            // The receiver ends when the pipe has no reader.
            drop(reader);
            let received = received.join().unwrap_or_else(|_| Err(PeerError::Lasting("a panic".to_owned())));
            match (received, sent) {
                (Ok(()), sent) => sent,
                (Err(_), Err(PeerError::Lasting(why))) => Err(PeerError::Lasting(why)),
                (Err(error), _) => Err(error),
            }
        })
    }
}

impl ObjectOrigin<'_, '_> {
    fn receive(&mut self, range: &Range<u64>, sink: &mut dyn Write) -> Result<(), PeerError> {
        let mut headers = vec![("if-match".to_owned(), format!("\"{}\"", self.etag))];
        headers.extend_from_slice(self.sent);
        if range.end > range.start {
            headers.push(("range".to_owned(), format!("bytes={}-{}", range.start, range.end - 1)));
        }
        let query: Vec<_> = self.id.map(|id| ("versionId", id)).into_iter().collect();
        let call = PeerCall { method: "GET", key: self.key, query: &query, headers: &headers, length: 0 };
        let answer = self.link.send(call, &mut io::empty(), sink)?;
        let length = range.end - range.start;
        if answer.len == length {
            return Ok(());
        }
        Err(PeerError::Lasting(format!("the source sends {} bytes in place of {length}", answer.len)))
    }
}

impl BucketSource<'_, '_> {
    /// The attributes of a version; with the key of a client, if it takes one.
    fn attributes(&mut self, id: Option<&str>) -> Result<Option<StoredAttributes>, PeerError> {
        self.sent.clear();
        let found = attributes_of(self.link, self.key, id);
        if self.client_key.is_empty() || !found.as_ref().is_err_and(is_of_client_key) {
            return found;
        }
        self.sent.clone_from(&self.client_key);
        match attributes_with(self.link, self.key, id, &self.sent) {
            Err(PeerError::Lasting(_)) => Err(PeerError::Lasting(OTHER_KEY.to_owned())),
            found => found,
        }
    }
}

impl CopySource for BucketSource<'_, '_> {
    fn wanted(&mut self, id: Option<&str>) -> Result<(StoredAttributes, Vec<Header>), String> {
        let mut from = self.attributes(id).map_err(PeerError::text)?.ok_or("it is gone from the source")?;
        let mut kept = std::mem::take(&mut from.kept);
        let seconds = from.modified.filter(|_| self.keep_times && !has_time(&kept));
        kept.extend(seconds.map(|seconds| (MTIME.to_owned(), seconds.to_string())));
        let tags = tags_of(self.link, self.key, id)?;
        if tags.is_none() {
            from.losses.push(Loss::Tags);
        }
        Ok((from, with_tags(kept, &tags.unwrap_or_default())))
    }

    /// The parts of the source, as far as it states their lengths.
    fn shape_of(&mut self, from: &StoredAttributes, id: Option<&str>) -> Result<UploadShape, PeerError> {
        let Some(count) = from.part_count() else {
            return Ok(UploadShape::Whole(from.length));
        };
        let mut lengths = Vec::new();
        for number in 1..=count {
            let number = number.to_string();
            let mut query = vec![("partNumber", &*number)];
            query.extend(id.map(|id| ("versionId", id)));
            let call = PeerCall {
                method: "HEAD",
                key: self.key,
                query: &query,
                headers: &self.sent,
                ..PeerCall::default()
            };
            let (answer, _) = self.link.ask(call)?;
            lengths.extend(answer.header("content-length").and_then(|length| length.parse::<u64>().ok()));
        }
        let sum = lengths.iter().try_fold(0_u64, |sum, length| sum.checked_add(*length));
        let is_known = sum == Some(from.length) && lengths.len() == count as usize;
        Ok(if is_known { UploadShape::Parts(lengths) } else { UploadShape::Whole(from.length) })
    }

    fn has_grants(&mut self, id: Option<&str>) -> bool {
        has_grants(self.link, self.key, id)
    }

    fn origin<'o>(&'o mut self, id: Option<&'o str>, etag: &'o str) -> Box<dyn Origin + 'o> {
        Box::new(ObjectOrigin { link: self.link, key: self.key, id, etag, sent: &self.sent })
    }
}

/// Whether the version is granted to others than its owner, as far as the source says.
fn has_grants(link: &mut PeerLink<'_>, key: &str, id: Option<&str>) -> bool {
    let mut query = vec![("acl", "")];
    query.extend(id.map(|id| ("versionId", id)));
    let call = PeerCall { method: "GET", key, query: &query, ..PeerCall::default() };
    let mut document = Vec::new();
    // One attempt: a source that does not show grants must not hold up the copy.
    if link.send(call, &mut io::empty(), &mut document).is_err() {
        return false;
    }
    let Ok(document) = Document::parse(&document) else { return false };
    let lists = document.root().children().filter(|child| child.name() == "AccessControlList");
    lists.map(|list| list.children().count()).sum::<usize>() > 1
}
