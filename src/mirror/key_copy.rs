//! The copy of one key: the target gets the versions that the store has now.

use std::collections::HashSet;

use super::due_keys::{DueKey, DueWork};
use super::members::Members;
use super::settings::MirrorPlace;
use super::source::{VersionBytes, headers_of, known_entity_tag, shape_of, tags_of};
use super::target::{MirrorBody, MirrorTarget};
use super::version_plan::VersionPlan;
use crate::client::RateLimit;
use crate::store::{FoundVersion, MirrorUpload, Selector, Store, StoreError, VersionSummary, Versioning};
use crate::transfer::{NewestVersions, PeerError, PeerVersion, StoredAttributes, UploadShape, bare};

/// The newest versions of a key that are compared where nothing older can have changed: a page of a
/// listing. Few in tests, so that keys of a few versions show it.
pub(super) const NEWEST_COMPARED: usize = if cfg!(test) { 4 } else { 1000 };
/// The most stores that a change names.
const ORIGINS_MAX: usize = 16;

/// What a copy did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct KeyCopied {
    pub(super) objects: u64,
    pub(super) bytes: u64,
    pub(super) removed: u64,
    /// Whether the target has the current object now.
    pub(super) is_there: bool,
}

/// The copy of a key.
pub(super) struct KeyCopy<'c> {
    pub(super) store: &'c Store,
    pub(super) target: &'c mut dyn MirrorTarget,
    pub(super) members: &'c Members,
    pub(super) rate: Option<&'c RateLimit>,
    pub(super) place: &'c MirrorPlace,
    pub(super) due: &'c DueKey,
    pub(super) done: KeyCopied,
}

/// How a version of the target differs from one of the store.
#[derive(Debug, PartialEq, Eq)]
enum VersionDifference {
    None,
    Tags,
    Other,
}

/// The lengths and entity tags that several versions of a key have, here or there.
struct VersionTwins(HashSet<(u64, String)>);

impl VersionTwins {
    fn among(versions: &[VersionSummary], there: &[PeerVersion]) -> Self {
        let mut seen = HashSet::new();
        let mut twins = HashSet::new();
        for version in versions.iter().filter(|version| !version.delete_marker) {
            let described = (version.size, bare(&version.etag.to_string()));
            if !seen.insert(described.clone()) {
                twins.insert(described);
            }
        }
        seen.clear();
        for version in there.iter().filter(|version| !version.delete_marker) {
            let described = (version.length, version.etag.clone());
            if !seen.insert(described.clone()) {
                twins.insert(described);
            }
        }
        Self(twins)
    }

    fn are_among(&self, wanted: &VersionSummary, there: &PeerVersion) -> bool {
        !self.0.is_empty()
            && (self.0.contains(&(wanted.size, bare(&wanted.etag.to_string())))
                || self.0.contains(&(there.length, there.etag.clone())))
    }
}

impl<'c> KeyCopy<'c> {
    /// Copies the key.
    ///
    /// # Errors
    /// The target does not take it, or a version went away meanwhile: a later try begins from the
    /// versions of its time.
    pub(super) fn run(mut self, work: &DueWork) -> Result<KeyCopied, PeerError> {
        let bucket = self.due.bucket.0;
        let key = &self.due.key;
        // 1. The versions as of now, whatever change made the key due: many changes cost one copy.
        let followed = self.store.followed_versions(bucket, key.as_bytes(), NEWEST_COMPARED);
        // The versions of a bucket that is gone stay at the target.
        let is_gone = followed.is_none();
        let versioning = followed.as_ref().map_or(Versioning::Unset, |it| it.bucket.versioning);
        let has_older = followed.as_ref().is_some_and(|it| it.has_older);
        let versions = followed.map_or(Vec::new(), |it| it.versions);
        // Of several versions that are kept, one before the last may be new to the target.
        let has_new_version = versioning != Versioning::Unset && work.made_here;
        // 2. A change that the target's own mirror brought here ends here. Sent back, it would go
        //    round in the circle for ever.
        if !has_new_version && self.is_of_target(versions.last(), work) {
            return Ok(self.done);
        }
        // 3. The origins are stated before the first write, so that the target's mirror knows the
        //    change as one from here.
        self.state_origin(work);
        let keeps = match self.keeps_versions(versioning) {
            // Gone on both sides.
            Err(PeerError::Absent) if is_gone => return Ok(self.done),
            keeps => keeps?,
        };
        match keeps && versioning != Versioning::Unset {
            true => {
                if !has_older {
                    self.copy_versions(&versions, work)?;
                } else if !self.copy_newest(&versions, work)? {
                    let all = self.store.followed_key(bucket, key.as_bytes());
                    self.copy_versions(&all.map_or(Vec::new(), |it| it.versions), work)?;
                }
                self.members.tell_versions(bucket);
            }
            false => self.copy_current(versions.last(), keeps)?,
        }
        if !keeps && versions.len() > 1 {
            // Before the key is done: they are sent as soon as the target keeps versions.
            self.members.set_partial(self.store, bucket)?;
        }
        let is_there = versions.last().is_some_and(|current| !current.delete_marker);
        Ok(KeyCopied { is_there, ..self.done })
    }

    /// Whether the newest change of the key came from the target, or may have: one that was not
    /// read yet makes the key due again.
    fn is_of_target(&self, current: Option<&VersionSummary>, work: &DueWork) -> bool {
        let Some(latest) = work.latest.as_ref().filter(|_| !work.refill) else { return false };
        let is_newest = match latest.version {
            Some(version) => current.is_some_and(|current| current.id == version),
            None => true,
        };
        match is_newest {
            true => self.members.is_from_target(&latest.origins),
            false => self.members.is_in_cycle(),
        }
    }

    /// Names the stores that the change comes from: this one, and those that it had it from.
    pub(super) fn state_origin(&mut self, work: &DueWork) {
        let mut stores = Vec::new();
        if self.members.target_store().is_some() {
            stores.push(self.store.public_id());
            let before = work.latest.iter().flat_map(|latest| &latest.origins);
            stores.extend(before.take(ORIGINS_MAX - 1).cloned());
            stores.dedup();
        }
        self.target.state_origin(&stores);
    }

    /// Whether the target keeps versions. An answer of before that it does not is not relied on
    /// where there are some: it would be the reason to leave them out.
    fn keeps_versions(&mut self, versioning: Versioning) -> Result<bool, PeerError> {
        let keeps = self.target.keeps_versions(&self.place.bucket, false)?;
        match keeps || versioning == Versioning::Unset {
            true => Ok(keeps),
            false => self.target.keeps_versions(&self.place.bucket, true),
        }
    }

    /// Makes the current version of the target equal to the store's.
    fn copy_current(&mut self, current: Option<&VersionSummary>, keeps: bool) -> Result<(), PeerError> {
        let Some(current) = current.filter(|version| !version.delete_marker) else {
            // A target with versions would get a delete marker each time.
            if !keeps || self.target.attributes(self.place, None)?.is_some() {
                self.remove(None)?;
            }
            return Ok(());
        };
        let found = self.find(current)?;
        let there = self.target.attributes(self.place, None)?;
        match there {
            Some(there) => match self.difference(&found, None, &there)? {
                VersionDifference::None => Ok(()),
                VersionDifference::Tags => self.target.set_tags(self.place, None, &tags_of(&found.version)),
                VersionDifference::Other => self.append(&found),
            },
            None => self.append(&found),
        }
    }

    /// Makes the versions of the target equal to the store's, in order.
    fn copy_versions(&mut self, versions: &[VersionSummary], work: &DueWork) -> Result<(), PeerError> {
        let there = self.target.versions(self.place)?;
        let twins = VersionTwins::among(versions, &there);
        let plan = self.plan(versions, &there, &twins)?;
        let plan = self.checked(plan, versions, &there, &twins, work)?;
        self.follow(plan, versions, &there, work)
    }

    /// Makes the newest versions of the target equal to the store's, where both have older ones and
    /// none of those can have changed; `false`, before any version is sent, where all have to be
    /// compared.
    fn copy_newest(&mut self, versions: &[VersionSummary], work: &DueWork) -> Result<bool, PeerError> {
        // In a circle, the target may have another order further back.
        let may_differ_before = work.compare || work.is_deep || self.members.is_in_cycle();
        if may_differ_before || !work.retagged.is_empty() {
            return Ok(false);
        }
        let NewestVersions { versions: there, has_older } =
            self.target.newest_versions(self.place, NEWEST_COMPARED)?;
        if !has_older {
            return Ok(false);
        }
        let versions = &versions[versions.len() - versions.len().min(there.len())..];
        let twins = VersionTwins::among(versions, &there);
        let mut plan = self.plan(versions, &there, &twins)?;
        // The oldest one of these has its place there: what is before it is older than these.
        let Some((0, first)) = plan.matched.first().copied() else { return Ok(false) };
        let matched = plan.matched.len();
        plan.remove.retain(|at| *at > first);
        let plan = self.checked(plan, versions, &there, &twins, work)?;
        if plan.matched.len() < matched {
            return Ok(false);
        }
        self.follow(plan, versions, &there, work)?;
        Ok(true)
    }

    fn plan(
        &mut self,
        versions: &[VersionSummary],
        there: &[PeerVersion],
        twins: &VersionTwins,
    ) -> Result<VersionPlan, PeerError> {
        let of_source: Vec<_> = versions.iter().map(|version| version.delete_marker).collect();
        let of_target: Vec<_> = there.iter().map(|version| version.delete_marker).collect();
        VersionPlan::of(&of_source, &of_target, |wanted, at| {
            let is_alike = self.is_alike(&versions[wanted], &there[at])?;
            match is_alike && twins.are_among(&versions[wanted], &there[at]) {
                true => self.has_attributes(&versions[wanted], &there[at]),
                false => Ok(is_alike),
            }
        })
    }

    /// Sends and removes what a plan says.
    fn follow(
        &mut self,
        plan: VersionPlan,
        versions: &[VersionSummary],
        there: &[PeerVersion],
        work: &DueWork,
    ) -> Result<(), PeerError> {
        // First what is new: no version is missing at any time.
        for version in &versions[plan.append] {
            match version.delete_marker {
                true => self.target.delete(self.place, None)?,
                false => self.append(&self.find(version)?)?,
            }
        }
        let remove = self.removable(plan.remove, versions, there, work)?;
        // The version without an id would be the new one at a target that keeps none any more.
        if !remove.is_empty() && !self.target.keeps_versions(&self.place.bucket, true)? {
            return Err(PeerError::Passing("the bucket there keeps no versions any more".to_owned()));
        }
        if !self.follows_deletion(work) && self.members.is_in_cycle() {
            self.state_no_news();
        }
        for at in remove {
            self.remove(there[at].id.as_deref())?;
        }
        Ok(())
    }

    /// Whether a version was deleted here, and the deletion did not come from the target.
    fn follows_deletion(&self, work: &DueWork) -> bool {
        let Some(latest) = &work.latest else { return false };
        latest.version.is_none() && !self.members.is_from_target(&latest.origins)
    }

    /// Names every store of the circle as one that the next changes come from: the removal of a
    /// second copy is no deletion that another store should follow.
    fn state_no_news(&mut self) {
        let mut stores = vec![self.store.public_id()];
        stores.extend(self.members.reached());
        stores.dedup();
        stores.truncate(ORIGINS_MAX);
        self.target.state_origin(&stores);
    }

    /// The versions of the target that may be removed. In a circle, one that this store does not
    /// have may be new there: it is removed only after a deletion that did not come from there. One
    /// that this store has was sent twice.
    fn removable(
        &self,
        remove: Vec<usize>,
        versions: &[VersionSummary],
        there: &[PeerVersion],
        work: &DueWork,
    ) -> Result<Vec<usize>, PeerError> {
        if self.follows_deletion(work) || !self.members.is_in_cycle() {
            return Ok(remove);
        }
        let mut removable = Vec::new();
        for at in remove {
            for version in versions {
                if self.is_alike(version, &there[at])? {
                    removable.push(at);
                    break;
                }
            }
        }
        Ok(removable)
    }

    /// Compares the attributes of the last version that both have, of those that others are like,
    /// and of all where that was asked for: lengths and entity tags do not cover metadata. The ones
    /// before were the last at some time.
    fn checked(
        &mut self,
        plan: VersionPlan,
        versions: &[VersionSummary],
        there: &[PeerVersion],
        twins: &VersionTwins,
        work: &DueWork,
    ) -> Result<VersionPlan, PeerError> {
        let objects =
            || plan.matched.iter().enumerate().filter(|(_, (wanted, _))| !versions[*wanted].delete_marker);
        let last = objects().next_back().map(|(at, _)| at);
        let mut cut = None;
        for (at, (wanted, matched)) in objects() {
            let is_retagged = work.retagged.contains(&versions[*wanted].id);
            let is_told_apart = !twins.are_among(&versions[*wanted], &there[*matched]);
            if !work.compare && Some(at) != last && !is_retagged && is_told_apart {
                continue;
            }
            let found = self.find(&versions[*wanted])?;
            let id = there[*matched].id.as_deref();
            let attributes = self.target.attributes(self.place, id)?;
            let attributes = attributes.ok_or_else(gone)?;
            match self.difference(&found, id, &attributes)? {
                VersionDifference::None => {}
                VersionDifference::Tags => self.target.set_tags(self.place, id, &tags_of(&found.version))?,
                VersionDifference::Other => {
                    cut = Some(at);
                    break;
                }
            }
        }
        Ok(match cut {
            Some(at) => plan.cut(at, versions.len(), there.len()),
            None => plan,
        })
    }

    /// Whether both may be the same version, as far as listings show.
    fn is_alike(&self, wanted: &VersionSummary, there: &PeerVersion) -> Result<bool, PeerError> {
        match listed_alike(wanted, there) {
            Some(alike) => Ok(alike),
            None => self.has_bytes(&self.find(wanted)?, there),
        }
    }

    /// Whether the entity tag of the bytes is that of the target, where the listings differ in it.
    pub(super) fn has_bytes(&self, found: &FoundVersion, there: &PeerVersion) -> Result<bool, PeerError> {
        Ok(self.entity_tag(found, false)? == Some(there.etag.clone()))
    }

    /// Whether the attributes are the same, beside the tags.
    fn has_attributes(&mut self, wanted: &VersionSummary, there: &PeerVersion) -> Result<bool, PeerError> {
        match wanted.delete_marker {
            true => Ok(true),
            false => self.has_attributes_of(&self.find(wanted)?, there),
        }
    }

    /// As [`KeyCopy::has_attributes`], of an object that was looked up.
    pub(super) fn has_attributes_of(
        &mut self,
        found: &FoundVersion,
        there: &PeerVersion,
    ) -> Result<bool, PeerError> {
        let attributes = self.target.attributes(self.place, there.id.as_deref())?;
        let attributes = attributes.ok_or_else(gone)?;
        Ok(attributes.kept == headers_of(&found.version))
    }

    fn difference(
        &mut self,
        found: &FoundVersion,
        id: Option<&str>,
        there: &StoredAttributes,
    ) -> Result<VersionDifference, PeerError> {
        if there.length != found.version.size || there.kept != headers_of(&found.version) {
            return Ok(VersionDifference::Other);
        }
        let is_told = there.has_digest();
        if is_told && self.entity_tag(found, true)? != Some(there.etag.clone()) {
            return Ok(VersionDifference::Other);
        }
        Ok(match self.target.tags(self.place, id)? {
            Some(tags) if tags != tags_of(&found.version) => VersionDifference::Tags,
            _ => VersionDifference::None,
        })
    }

    /// The entity tag of a copy. Where the record does not state it, the bytes are read; `None` if
    /// the record states it and the caller has compared that one.
    fn entity_tag(&self, found: &FoundVersion, also_known: bool) -> Result<Option<String>, PeerError> {
        let shape = shape_of(&found.version);
        match known_entity_tag(&found.version, &shape) {
            Some(known) => Ok(also_known.then_some(known)),
            None => self.bytes(found).entity_tag(&shape).map(Some),
        }
    }

    pub(super) fn append(&mut self, found: &FoundVersion) -> Result<(), PeerError> {
        let version = &found.version;
        let shape = shape_of(version);
        let expected = match known_entity_tag(version, &shape) {
            None if matches!(shape, UploadShape::Whole(_)) => self.entity_tag(found, true)?,
            known => known,
        };
        let headers = headers_of(version);
        let tags = tags_of(version);
        let mut bytes = VersionBytes { store: self.store, found, rate: self.rate };
        let body = MirrorBody { shape: &shape, expected: expected.as_deref(), origin: &mut bytes };
        match shape {
            UploadShape::Whole(_) => self.target.put(self.place, &headers, &tags, body)?,
            UploadShape::Parts(_) => {
                let upload = self.upload();
                // Noted durably before the first part: after a crash the upload is found and
                // aborted. Otherwise its parts would stay at the target, and be paid for.
                self.members.begin_upload(self.store, &upload)?;
                let put = self.target.put(self.place, &headers, &tags, body);
                if put.is_err() {
                    self.members.leave_upload(&upload);
                }
                put?;
                self.members.end_upload(self.store, &upload)?;
            }
        }
        self.done.objects += 1;
        self.done.bytes += version.size;
        Ok(())
    }

    fn upload(&self) -> MirrorUpload {
        MirrorUpload {
            id: self.due.bucket.0,
            source: self.due.bucket.1.clone(),
            key: self.due.key.clone(),
            bucket: self.place.bucket.clone(),
            target_key: self.place.key.clone(),
        }
    }

    fn remove(&mut self, id: Option<&str>) -> Result<(), PeerError> {
        self.target.delete(self.place, id)?;
        self.done.removed += 1;
        Ok(())
    }

    fn bytes<'f>(&'f self, found: &'f FoundVersion) -> VersionBytes<'f> {
        VersionBytes { store: self.store, found, rate: self.rate }
    }

    pub(super) fn find(&self, version: &VersionSummary) -> Result<FoundVersion, PeerError> {
        let which = if version.null { Selector::Null } else { Selector::Id(version.id) };
        match self.store.find(&self.due.bucket.1, &self.due.key, which) {
            Ok(found) if found.version.id == version.id => Ok(found),
            Ok(_) | Err(StoreError::NoSuchBucket | StoreError::NoSuchKey | StoreError::NoSuchVersion) => {
                Err(gone())
            }
            Err(error) => Err(PeerError::Passing(error.to_string())),
        }
    }
}

/// Whether two versions are the same by what listings show; `None` where their bytes tell, since only
/// the entity tags differ.
pub(super) fn listed_alike(version: &VersionSummary, there: &PeerVersion) -> Option<bool> {
    if version.delete_marker || there.delete_marker {
        return Some(version.delete_marker && there.delete_marker);
    }
    if version.size != there.length {
        return Some(false);
    }
    (bare(&version.etag.to_string()) == there.etag).then_some(true)
}

/// A version went away meanwhile, which is no refusal: the next try begins from the versions of its
/// time.
fn gone() -> PeerError {
    PeerError::Absent
}
