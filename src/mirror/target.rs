//! The requests to the target.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::settings::MirrorPlace;
use crate::base::Timestamp;
use crate::transfer::{
    Header, NewestVersions, ObjectUpload, Origin, Peer, PeerError, PeerLink, PeerStore, PeerVersion,
    PeerVersioning, StoredAttributes, Tags, UploadShape, abort_uploads, attributes_of, enable_versions,
    has_bucket, make_bucket, newest_versions_of, put_tags, store_of, tags_of, versions_of, versions_state,
    visit_keys, with_tags,
};

/// The time for which the versioning of a bucket is remembered.
const REMEMBERED: Duration = Duration::from_secs(300);

/// The target of a mirror, as one worker uses it.
pub trait MirrorTarget {
    /// Whether a bucket keeps versions. The target is asked, unless it has said so within some
    /// minutes, or `is_asked` is not set.
    ///
    /// # Errors
    /// As of [`PeerLink::send`].
    fn keeps_versions(&mut self, bucket: &str, is_asked: bool) -> Result<bool, PeerError>;

    /// The store behind the target, if that is a Siltstone. `bucket` may be missing there.
    ///
    /// # Errors
    /// As of [`PeerLink::send`].
    fn store(&mut self, bucket: &str) -> Result<Option<PeerStore>, PeerError>;

    /// Names the stores that further changes come from.
    fn state_origin(&mut self, stores: &[String]);

    /// Whether a bucket is there.
    ///
    /// # Errors
    /// As of [`PeerLink::send`].
    fn has_bucket(&mut self, bucket: &str) -> Result<bool, PeerError>;

    /// Makes a bucket.
    ///
    /// # Errors
    /// As of [`PeerLink::send`]; it may be there then.
    fn make_bucket(&mut self, bucket: &str) -> Result<(), PeerError>;

    /// Lets a bucket keep versions.
    ///
    /// # Errors
    /// As of [`PeerLink::send`].
    fn enable_versions(&mut self, bucket: &str) -> Result<(), PeerError>;

    /// The versions of a key, oldest first.
    ///
    /// # Errors
    /// As of [`PeerLink::send`].
    fn versions(&mut self, place: &MirrorPlace) -> Result<Vec<PeerVersion>, PeerError>;

    /// The newest versions of an object, at most about `count`.
    ///
    /// # Errors
    /// As of [`PeerLink::send`].
    fn newest_versions(&mut self, place: &MirrorPlace, count: usize) -> Result<NewestVersions, PeerError> {
        let mut versions = self.versions(place)?;
        let older = versions.len().saturating_sub(count);
        Ok(NewestVersions { versions: versions.split_off(older), has_older: older > 0 })
    }

    /// The attributes of a version, or of the current one; `None` if it is not there.
    ///
    /// # Errors
    /// As of [`PeerLink::send`].
    fn attributes(
        &mut self,
        place: &MirrorPlace,
        id: Option<&str>,
    ) -> Result<Option<StoredAttributes>, PeerError>;

    /// The tags of a version; `None` where the server keeps none.
    ///
    /// # Errors
    /// As of [`PeerLink::send`].
    fn tags(&mut self, place: &MirrorPlace, id: Option<&str>) -> Result<Option<Tags>, PeerError>;

    /// Stores an object.
    ///
    /// # Errors
    /// As of [`PeerLink::send`].
    fn put(
        &mut self,
        place: &MirrorPlace,
        headers: &[Header],
        tags: &Tags,
        body: MirrorBody<'_>,
    ) -> Result<(), PeerError>;

    /// Removes all uploads in parts of a key.
    ///
    /// # Errors
    /// As of [`PeerLink::send`].
    fn abort_uploads(&mut self, place: &MirrorPlace) -> Result<(), PeerError>;

    /// Replaces the tags of a version.
    ///
    /// # Errors
    /// As of [`PeerLink::send`].
    fn set_tags(&mut self, place: &MirrorPlace, id: Option<&str>, tags: &Tags) -> Result<(), PeerError>;

    /// Deletes the object, or a version for good.
    ///
    /// # Errors
    /// As of [`PeerLink::send`].
    fn delete(&mut self, place: &MirrorPlace, id: Option<&str>) -> Result<(), PeerError>;

    /// Visits the keys of a bucket that begin with `prefix`, with `all_versions` also those whose
    /// object is deleted, until the visitor returns `false`.
    ///
    /// # Errors
    /// As of [`PeerLink::send`].
    fn visit(
        &mut self,
        bucket: &str,
        prefix: &str,
        all_versions: bool,
        visit: &mut dyn FnMut(&str) -> bool,
    ) -> Result<(), PeerError>;
}

/// The bytes of an object that is sent.
pub struct MirrorBody<'b> {
    /// The lengths of its parts.
    pub shape: &'b UploadShape,
    /// The entity tag that the target has to show then, where it is known.
    pub expected: Option<&'b str>,
    /// Its bytes.
    pub origin: &'b mut dyn Origin,
}

/// A target over HTTP.
pub(super) struct HttpTarget<'p> {
    link: PeerLink<'p>,
    /// The start of the mirror: uploads that were begun before are left from an earlier run.
    begun: Timestamp,
    versioned: HashMap<String, (bool, Instant)>,
}

impl<'p> HttpTarget<'p> {
    pub(super) fn new(peer: &'p Peer, begun: Timestamp) -> Self {
        Self { link: PeerLink::new(peer), begun, versioned: HashMap::new() }
    }

    fn at(&mut self, place: &MirrorPlace) -> &mut PeerLink<'p> {
        self.link.enter(&place.bucket);
        &mut self.link
    }
}

impl MirrorTarget for HttpTarget<'_> {
    fn keeps_versions(&mut self, bucket: &str, is_asked: bool) -> Result<bool, PeerError> {
        if let Some((keeps, asked)) = self.versioned.get(bucket)
            && asked.elapsed() < REMEMBERED
            && !is_asked
        {
            return Ok(*keeps);
        }
        self.link.enter(bucket);
        let keeps = versions_state(&mut self.link)? == PeerVersioning::Enabled;
        self.versioned.insert(bucket.to_owned(), (keeps, Instant::now()));
        Ok(keeps)
    }

    fn store(&mut self, bucket: &str) -> Result<Option<PeerStore>, PeerError> {
        self.link.enter(bucket);
        store_of(&mut self.link)
    }

    fn state_origin(&mut self, stores: &[String]) {
        self.link.state_origin(stores);
    }

    fn has_bucket(&mut self, bucket: &str) -> Result<bool, PeerError> {
        self.link.enter(bucket);
        has_bucket(&mut self.link)
    }

    fn make_bucket(&mut self, bucket: &str) -> Result<(), PeerError> {
        self.link.enter(bucket);
        make_bucket(&mut self.link)
    }

    fn enable_versions(&mut self, bucket: &str) -> Result<(), PeerError> {
        self.link.enter(bucket);
        enable_versions(&mut self.link)?;
        self.versioned.remove(bucket);
        Ok(())
    }

    fn newest_versions(&mut self, place: &MirrorPlace, _: usize) -> Result<NewestVersions, PeerError> {
        newest_versions_of(self.at(place), &place.key).map_err(PeerError::Passing)
    }

    fn versions(&mut self, place: &MirrorPlace) -> Result<Vec<PeerVersion>, PeerError> {
        versions_of(self.at(place), &place.key).map_err(PeerError::Passing)
    }

    fn attributes(
        &mut self,
        place: &MirrorPlace,
        id: Option<&str>,
    ) -> Result<Option<StoredAttributes>, PeerError> {
        attributes_of(self.at(place), &place.key, id)
    }

    fn tags(&mut self, place: &MirrorPlace, id: Option<&str>) -> Result<Option<Tags>, PeerError> {
        tags_of(self.at(place), &place.key, id).map_err(PeerError::Passing)
    }

    fn put(
        &mut self,
        place: &MirrorPlace,
        headers: &[Header],
        tags: &Tags,
        MirrorBody { shape, expected, origin }: MirrorBody<'_>,
    ) -> Result<(), PeerError> {
        let begun = self.begun;
        let link = self.at(place);
        let all = with_tags(headers.to_vec(), tags);
        let upload = ObjectUpload {
            key: &place.key,
            headers: &all,
            shape,
            begun,
            stated_time: None,
            repeated: false,
            expected,
            checksum: None,
        };
        match upload.send(link, origin) {
            // A server without tags refuses the whole put because of them. The bytes are worth
            // more.
            Err(PeerError::Unsupported(_)) if !tags.is_empty() => {
                ObjectUpload { headers, ..upload }.send(link, origin).map(drop)
            }
            sent => sent.map(drop),
        }
    }

    fn set_tags(&mut self, place: &MirrorPlace, id: Option<&str>, tags: &Tags) -> Result<(), PeerError> {
        match put_tags(self.at(place), &place.key, id, tags) {
            // A target without tags, or a version that is gone.
            Err(PeerError::Unsupported(_) | PeerError::Absent) => Ok(()),
            put => put,
        }
    }

    fn delete(&mut self, place: &MirrorPlace, id: Option<&str>) -> Result<(), PeerError> {
        // A repeated delete would add a second marker. After a lost answer the key is compared.
        match self.at(place).delete(&place.key, id) {
            Err(PeerError::Absent) => Ok(()),
            deleted => deleted,
        }
    }

    fn abort_uploads(&mut self, place: &MirrorPlace) -> Result<(), PeerError> {
        match abort_uploads(self.at(place), &place.key) {
            // Neither without the bucket, nor at a server that does not show them.
            Err(PeerError::Absent | PeerError::Unsupported(_)) => Ok(()),
            aborted => aborted,
        }
    }

    fn visit(
        &mut self,
        bucket: &str,
        prefix: &str,
        all_versions: bool,
        visit: &mut dyn FnMut(&str) -> bool,
    ) -> Result<(), PeerError> {
        self.link.enter(bucket);
        // A bucket that keeps versions no longer may have some.
        let all_versions = all_versions && versions_state(&mut self.link)?.may_have_versions();
        let visited = visit_keys(&mut self.link, prefix, all_versions, &mut |found| visit(&found.key));
        visited.map_err(PeerError::Passing)
    }
}
