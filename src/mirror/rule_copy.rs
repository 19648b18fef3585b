//! The copy of one key by the rules of its bucket: versions that the target lacks are appended, in
//! order, and nothing is removed.

use super::due_keys::DueWork;
use super::key_copy::{KeyCopied, KeyCopy, NEWEST_COMPARED};
use super::rules::MirrorRules;
use super::source::tags_of;
use crate::store::{FollowedKey, FoundVersion, VersionId, VersionSummary};
use crate::transfer::{NewestVersions, PeerError, PeerVersion, bare};

impl KeyCopy<'_> {
    /// Sends the versions that the rules select.
    ///
    /// # Errors
    /// As [`KeyCopy::run`]; [`PeerError::Lasting`] for a target that keeps no versions.
    pub(super) fn run_by_rules(
        mut self,
        work: &DueWork,
        rules: &MirrorRules,
    ) -> Result<KeyCopied, PeerError> {
        let oldest = work.oldest.unwrap_or(VersionId(0));
        let Some(followed) = self.followed_since(oldest) else { return Ok(self.done) };
        // 1. The versions that the target has to have. Earlier ones were sent, or were not selected
        //    then: they only help to tell versions of the same bytes apart.
        let mut wanted = Vec::new();
        for version in followed.versions {
            if version.id < oldest || rules.send(&self.due.key, &self.find(&version)?.version) {
                wanted.push(version);
            }
        }
        if wanted.last().is_none_or(|newest| newest.id < oldest) {
            return Ok(self.done);
        }
        self.state_origin(work);
        if !self.target.keeps_versions(&self.place.bucket, false)?
            && !self.target.keeps_versions(&self.place.bucket, true)?
        {
            let why = "the bucket there keeps no versions, which rules of replication need";
            return Err(PeerError::Lasting(why.to_owned()));
        }
        // 2. From the first one on that the target lacks all are sent: the newest one here becomes
        //    the newest one there.
        let newest = self.target.newest_versions(self.place, NEWEST_COMPARED);
        let NewestVersions { versions: there, .. } = match newest {
            Err(PeerError::Absent) => NewestVersions { versions: Vec::new(), has_older: false },
            newest => newest?,
        };
        let missing = self.first_missing(&wanted, &there, oldest)?;
        for version in &wanted[missing..] {
            match version.delete_marker {
                true => self.target.delete(self.place, None)?,
                false => {
                    let found = self.find(version)?;
                    self.append(&found)?;
                }
            }
        }
        let is_there = wanted.last().is_some_and(|newest| !newest.delete_marker);
        Ok(KeyCopied { is_there, ..self.done })
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

    /// The place of the first version from `oldest` on that the target lacks. Each version is the
    /// first one there that is the same, after that of the one before. Tags that differ are set.
    fn first_missing(
        &mut self,
        wanted: &[VersionSummary],
        there: &[PeerVersion],
        oldest: VersionId,
    ) -> Result<usize, PeerError> {
        let mut left = 0;
        for (at, version) in wanted.iter().enumerate() {
            let mut same = None;
            for (place, other) in there.iter().enumerate().skip(left) {
                let is_same = match version.id < oldest {
                    true => is_listed_alike(version, other),
                    false => self.is_alike(version, other)? && self.has_attributes(version, other)?,
                };
                if is_same {
                    same = Some(place);
                    break;
                }
            }
            match same {
                Some(place) if version.id >= oldest && !version.delete_marker => {
                    let found = self.find(version)?;
                    self.set_differing_tags(&found, &there[place])?;
                    left = place + 1;
                }
                Some(place) => left = place + 1,
                None if version.id < oldest => {}
                None => return Ok(at),
            }
        }
        Ok(wanted.len())
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

/// Whether both are the same, as far as listings show.
fn is_listed_alike(version: &VersionSummary, there: &PeerVersion) -> bool {
    match version.delete_marker || there.delete_marker {
        true => version.delete_marker && there.delete_marker,
        false => version.size == there.length && bare(&version.etag.to_string()) == there.etag,
    }
}
