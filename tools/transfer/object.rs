//! The copy of a key to a bucket, with its versions.

use std::mem;

use super::report::Copied;
use super::stated_times::StatedTimes;
use siltstone::base::Timestamp;
use siltstone::transfer::{
    Header, Loss, ObjectUpload, Origin, PeerError, PeerLink, PeerVersion, StoredAttributes, Tags,
    UploadChecksum, UploadShape, attempts, attributes_of, has_time, tags_of, versions_of, with_tags,
    without_tags,
};

/// The metadata with the entity tag of the source, where the copy cannot have the same.
const SOURCE_ETAG: &str = "x-amz-meta-siltstone-source-etag";

/// The versions of one key at the source of a copy. A version without an id is the current one.
pub(super) trait CopySource {
    /// The attributes of a version, and the headers of its copy with the tags'.
    fn wanted(&mut self, id: Option<&str>) -> Result<(StoredAttributes, Vec<Header>), String>;

    /// The lengths that its entity tag depends on.
    fn shape_of(&mut self, from: &StoredAttributes, id: Option<&str>) -> Result<UploadShape, PeerError>;

    /// Whether it is granted to others than its owner, as far as the source says.
    fn has_grants(&mut self, id: Option<&str>) -> bool;

    /// The checksum that the copy keeps, if an upload of this shape can have it.
    fn checksum(&mut self, _id: Option<&str>, _shape: &UploadShape) -> Option<UploadChecksum> {
        None
    }

    /// Whether the bytes of a version turn out not to be readable, as the source reports by itself.
    /// Such a version is left out, and the others are copied.
    fn is_broken(&mut self, _id: Option<&str>) -> bool {
        false
    }

    /// Its bytes.
    fn origin<'o>(&'o mut self, id: Option<&'o str>, etag: &'o str) -> Box<dyn Origin + 'o>;
}

/// A copy of one key to a bucket.
pub(super) struct ObjectCopy<'c, 'p> {
    pub(super) source: &'c mut dyn CopySource,
    pub(super) target: &'c mut PeerLink<'p>,
    /// The key in the target.
    pub(super) key: &'c str,
    /// Whether uploads of the key that were begun before this moment are removed before another
    /// begins.
    pub(super) begun: Timestamp,
    /// The times of copies in a target that keeps them; `None` where they are not stated.
    pub(super) times: Option<&'c StatedTimes>,
    /// Receives what a copy loses.
    pub(super) lost: &'c mut dyn FnMut(Loss),
}

impl ObjectCopy<'_, '_> {
    /// Copies the current version, unless it is there. `listed` is its time in a listing, which is
    /// more exact than the headers'.
    ///
    /// # Errors
    /// A message, if it cannot be read or is not stored.
    pub(super) fn copy_current(&mut self, listed: Option<Timestamp>) -> Result<Copied, String> {
        let (from, headers) = self.source.wanted(None)?;
        let there = attributes_of(self.target, self.key, None).map_err(PeerError::text)?;
        if let Some(there) = there
            && there.length == from.length
            && is_copy_of(&there.etag, &there.kept, &from.etag)
            && self.has_headers(
                None,
                without_source_etag(there.kept),
                &without_source_etag(headers.clone()),
            )?
        {
            return Ok(Copied::Present);
        }
        self.store(&from, &headers, None, listed).map(|()| Copied::Stored).map_err(PeerError::text)
    }

    /// Appends the versions that the target does not have, in order.
    ///
    /// # Errors
    /// A message. The versions before the one that failed are stored.
    pub(super) fn copy_versions(&mut self, versions: &[PeerVersion]) -> Result<Copied, String> {
        self.copy_readable(versions).map(|(copied, _)| copied)
    }

    /// As [`ObjectCopy::copy_versions`]; tells the places of the versions that are in the target,
    /// in its order.
    pub(super) fn copy_readable(&mut self, versions: &[PeerVersion]) -> Result<(Copied, Vec<usize>), String> {
        let there = versions_of(self.target, self.key)?;
        if there.len() > versions.len() {
            return Err("the target has more versions than the source".to_owned());
        }
        let mut kept = Vec::new();
        for (at, version) in versions.iter().enumerate() {
            let id = version.id.as_deref();
            match there.get(kept.len()) {
                Some(old) if self.is_same(old, version)? => kept.push(at),
                Some(_) if self.source.is_broken(id) => {}
                Some(_) => {
                    let number = kept.len() + 1;
                    return Err(format!("version {number} in the target is another one than in the source"));
                }
                None => {
                    // Versions are only appended: the place of this one is the number of those
                    // that are there.
                    let mut tried = false;
                    match attempts(|| self.append_at(kept.len(), version, &mut tried)) {
                        Ok(()) => kept.push(at),
                        Err(_) if self.source.is_broken(id) => {}
                        Err(error) => return Err(error.text()),
                    }
                }
            }
        }
        if there.len() > kept.len() {
            return Err("the target has more versions than the source".to_owned());
        }
        let copied = if there.len() == kept.len() { Copied::Present } else { Copied::Stored };
        Ok((copied, kept))
    }

    fn is_same(&mut self, old: &PeerVersion, new: &PeerVersion) -> Result<bool, String> {
        if old.delete_marker || new.delete_marker {
            return Ok(old.delete_marker && new.delete_marker);
        }
        if old.length != new.length {
            return Ok(false);
        }
        let id = old.id.as_deref();
        let there = attributes_of(self.target, self.key, id).map_err(PeerError::text)?;
        let there = there.ok_or("a version of the target is gone")?;
        if !is_copy_of(&old.etag, &there.kept, &new.etag) {
            return Ok(false);
        }
        let (_, headers) = self.source.wanted(new.id.as_deref())?;
        self.has_headers(id, without_source_etag(there.kept), &without_source_etag(headers))
    }

    /// Whether a version of the target has these headers and, if the target keeps tags, these tags.
    fn has_headers(
        &mut self,
        id: Option<&str>,
        kept: Vec<Header>,
        wanted: &[Header],
    ) -> Result<bool, String> {
        match tags_of(self.target, self.key, id)? {
            Some(tags) => Ok(with_tags(kept, &tags) == wanted),
            None => Ok(kept == without_tags(wanted).0),
        }
    }

    /// Appends the version, which gets this number, unless a former try whose answer was lost has stored
    /// it.
    fn append_at(&mut self, at: usize, version: &PeerVersion, tried: &mut bool) -> Result<(), PeerError> {
        if mem::replace(tried, true)
            && versions_of(self.target, self.key).map_err(PeerError::Passing)?.len() > at
        {
            return Ok(());
        }
        if version.delete_marker {
            return self.target.delete(self.key, None);
        }
        let id = version.id.as_deref();
        let (from, headers) = self.source.wanted(id).map_err(PeerError::Lasting)?;
        self.store(&from, &headers, id, version.modified)
    }

    fn store(
        &mut self,
        from: &StoredAttributes,
        headers: &[Header],
        id: Option<&str>,
        listed: Option<Timestamp>,
    ) -> Result<(), PeerError> {
        if headers.iter().any(|(_, value)| value.contains('\u{fffd}')) {
            return Err(PeerError::Lasting("its metadata is not UTF-8".to_owned()));
        }
        for loss in &from.losses {
            (self.lost)(*loss);
        }
        if self.source.has_grants(id) {
            (self.lost)(Loss::Grants);
        }
        // In the parts of the source, so that the copy gets the same entity tag, which proves it.
        let shape = self.source.shape_of(from, id)?.within_limits();
        let time = self.times.and_then(|_| time_of(from, listed));
        let is_in_parts = matches!(shape, UploadShape::Parts(_));
        let is_told = from.has_digest() && from.etag.contains('-') == is_in_parts;
        let expected = Some(&*from.etag).filter(|_| is_told);
        // The copy has an entity tag of its own, so that the next run cannot recognise it by that.
        let mut headers = headers.to_vec();
        if !is_told {
            headers = without_source_etag(headers);
            headers.push((SOURCE_ETAG.to_owned(), from.etag.clone()));
            headers.sort();
        }
        let headers = &headers;
        let (stored, is_time_kept) = self.send(from, headers, id, time, &shape, expected)?;
        if !is_time_kept && !has_time(headers) {
            (self.lost)(Loss::Times);
        }
        // The parts were compared before; a server that encrypts with keys of its own has an entity
        // tag that is no digest.
        if stored != from.etag {
            (self.lost)(Loss::EntityTag);
        }
        Ok(())
    }

    fn kept_tags(&mut self) -> Result<Option<Tags>, PeerError> {
        tags_of(self.target, self.key, None).map_err(PeerError::Lasting)
    }

    /// Uploads the version; without tags to a server that keeps none.
    fn send(
        &mut self,
        from: &StoredAttributes,
        headers: &[Header],
        id: Option<&str>,
        stated_time: Option<Timestamp>,
        shape: &UploadShape,
        expected: Option<&str>,
    ) -> Result<(String, bool), PeerError> {
        let (bare, tags) = without_tags(headers);
        // A copy of the current version alone may leave several in a target that keeps them.
        let repeated = id.is_none();
        let key = self.key;
        let begun = self.begun;
        let checksum = self.source.checksum(id, shape);
        let checksum = checksum.as_ref();
        let upload = ObjectUpload { key, headers, shape, begun, stated_time, repeated, expected, checksum };
        let unstated = StatedTimes::default();
        let times = self.times.unwrap_or(&unstated);
        let sent = times.send(&upload, self.target, &mut *self.source.origin(id, &from.etag));
        let stored = match sent {
            Err(PeerError::Unsupported(_)) if !tags.is_empty() => {
                (self.lost)(Loss::Tags);
                let upload = ObjectUpload { headers: &bare, ..upload };
                return times.send(&upload, self.target, &mut *self.source.origin(id, &from.etag));
            }
            other => other?,
        };
        // Some servers ignore the header.
        if !tags.is_empty() && self.kept_tags()?.is_none_or(|there| there != tags) {
            (self.lost)(Loss::Tags);
        }
        Ok(stored)
    }
}

/// Whether an object with this entity tag and these headers is a copy of the version with the
/// entity tag `source`.
fn is_copy_of(etag: &str, headers: &[Header], source: &str) -> bool {
    etag == source || headers.iter().any(|(name, value)| name == SOURCE_ETAG && value == source)
}

/// The headers without the entity tag of a source.
fn without_source_etag(mut headers: Vec<Header>) -> Vec<Header> {
    headers.retain(|(name, _)| name != SOURCE_ETAG);
    headers
}

/// The time of the version at the source: its listing's, unless it has changed since.
fn time_of(from: &StoredAttributes, listed: Option<Timestamp>) -> Option<Timestamp> {
    let seconds = from.modified?;
    listed.filter(|time| time.as_secs() == seconds).or(Some(Timestamp::from_millis(seconds * 1_000)))
}
