//! The copy of one key by the rules of its bucket: versions that the target lacks are appended, in
//! order, and nothing is removed.

use super::due_keys::DueWork;
use super::key_copy::{KeyCopied, KeyCopy, NEWEST_COMPARED, listed_alike};
use super::rules::MirrorRules;
use super::source::tags_of;
use crate::store::{FollowedKey, FoundVersion, VersionId, VersionSummary};
use crate::transfer::{NewestVersions, PeerError, PeerVersion};

/// Why a key was not copied.
#[derive(Debug)]
pub(super) struct NotCopied {
    pub(super) error: PeerError,
    /// The first version that the target may lack; of id 0 where that can be any.
    pub(super) first: VersionId,
}

impl From<PeerError> for NotCopied {
    fn from(error: PeerError) -> Self {
        Self { error, first: VersionId(0) }
    }
}

/// The newest versions of the target, among which those of the store are found in order.
struct PeerVersions {
    versions: Vec<PeerVersion>,
    /// The place after the last one that was found.
    next: usize,
    /// Whether one was not found. From it on all are sent: the newest one here becomes the newest
    /// one there.
    lacks: bool,
}

impl KeyCopy<'_> {
    /// Sends the versions that the rules select.
    ///
    /// # Errors
    /// As [`KeyCopy::run`], with the version at which it ended; [`PeerError::Lasting`] for a target
    /// that keeps no versions.
    pub(super) fn run_by_rules(
        mut self,
        work: &DueWork,
        rules: &MirrorRules,
    ) -> Result<KeyCopied, NotCopied> {
        let oldest = work.oldest.unwrap_or(VersionId(0));
        let Some(followed) = self.followed_since(oldest) else { return Ok(self.done) };
        // Earlier versions were sent, or were not selected then: they only help to tell versions of
        // the same bytes apart.
        let (before, since): (Vec<_>, Vec<_>) =
            followed.versions.into_iter().partition(|version| version.id < oldest);
        let mut there = None;
        for version in &since {
            let ended = |error| NotCopied { error, first: version.id };
            // Looked up once: the rules read its tags, the comparison its attributes, the target
            // its bytes.
            let found = self.find(version).map_err(ended)?;
            if !rules.send(&self.due.key, &found.version) {
                continue;
            }
            let there = match &mut there {
                Some(there) => there,
                // The target is asked where there is something to send.
                None => there.insert(self.versions_there(work, &before).map_err(ended)?),
            };
            self.send(version, &found, there).map_err(ended)?;
            self.done.is_there = !version.delete_marker;
        }
        Ok(self.done)
    }

    /// The newest versions of the key, and all from `oldest` on.
    fn followed_since(&self, oldest: VersionId) -> Option<FollowedKey> {
        let bucket = self.due.bucket.0;
        let key = self.due.key.as_bytes();
        let newest = self.store.followed_versions(bucket, key, NEWEST_COMPARED)?;
        match newest.has_older && newest.versions.first().is_some_and(|first| first.id > oldest) {
            true => self.store.followed_key(bucket, key),
            false => Some(newest),
        }
    }

    /// The versions of the target. Those of `before` that it has are passed over.
    ///
    /// # Errors
    /// [`PeerError::Lasting`] for a target that keeps no versions; as [`KeyCopy::run`].
    fn versions_there(
        &mut self,
        work: &DueWork,
        before: &[VersionSummary],
    ) -> Result<PeerVersions, PeerError> {
        self.state_origin(work);
        if !self.target.keeps_versions(&self.place.bucket, false)?
            && !self.target.keeps_versions(&self.place.bucket, true)?
        {
            let why = "the bucket there keeps no versions, which rules of replication need";
            return Err(PeerError::Lasting(why.to_owned()));
        }
        let newest = self.target.newest_versions(self.place, NEWEST_COMPARED);
        let NewestVersions { versions, .. } = match newest {
            Err(PeerError::Absent) => NewestVersions { versions: Vec::new(), has_older: false },
            newest => newest?,
        };
        let mut next = 0;
        for version in before {
            let found = versions[next..].iter().position(|other| listed_alike(version, other) == Some(true));
            next = found.map_or(next, |at| next + at + 1);
        }
        Ok(PeerVersions { versions, next, lacks: false })
    }

    /// Has the target have a version: finds it there, with the same tags, or sends it.
    fn send(
        &mut self,
        version: &VersionSummary,
        found: &FoundVersion,
        there: &mut PeerVersions,
    ) -> Result<(), PeerError> {
        if !there.lacks
            && let Some(at) = self.place_of(version, found, there)?
        {
            there.next = at + 1;
            return match version.delete_marker {
                true => Ok(()),
                false => self.set_differing_tags(found, &there.versions[at]),
            };
        }
        there.lacks = true;
        match version.delete_marker {
            true => self.target.delete(self.place, None),
            false => self.append(found),
        }
    }

    /// The place of the first version of the target that is the same, after that of the one before.
    fn place_of(
        &mut self,
        version: &VersionSummary,
        found: &FoundVersion,
        there: &PeerVersions,
    ) -> Result<Option<usize>, PeerError> {
        for (at, other) in there.versions.iter().enumerate().skip(there.next) {
            if self.is_same(version, found, other)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Whether both are the same version, beside the tags.
    fn is_same(
        &mut self,
        version: &VersionSummary,
        found: &FoundVersion,
        there: &PeerVersion,
    ) -> Result<bool, PeerError> {
        let is_alike = match listed_alike(version, there) {
            Some(alike) => alike,
            None => self.has_bytes(found, there)?,
        };
        Ok(is_alike && (version.delete_marker || self.has_attributes_of(found, there)?))
    }

    fn set_differing_tags(&mut self, found: &FoundVersion, there: &PeerVersion) -> Result<(), PeerError> {
        let id = there.id.as_deref();
        match self.target.tags(self.place, id)? {
            Some(tags) if tags != tags_of(&found.version) => {
                self.target.set_tags(self.place, id, &tags_of(&found.version))
            }
            _ => Ok(()),
        }
    }
}
