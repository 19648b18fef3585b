//! Planning a group: each mutation is decided against the index and the changes of earlier
//! mutations in the group. The planner writes nothing.

mod expiry;
mod key_changes;
mod locks;
mod objects;
mod quotas;
mod relocations;
mod uploads;

use std::collections::{HashMap, HashSet};

use crate::base::Timestamp;
use crate::format::{
    BucketConfigurationKind, BucketRecord, Cause, Descriptor, Entry, ExtentPurpose, ExtentRef, FollowerState,
    PayloadSource, UploadId, VersionId, VersionRecord, VersionSummary, WrappedKey,
};
use crate::index::{BUCKET_BYTES, Index, configuration_bytes, version_index_bytes};
use crate::log::{PackBuilder, SpaceClaim};
use crate::store::commit::mutation::{
    BucketChange, Content, EXTENT_BYTES_MAX, Mutation, RESTATED_MAX_BYTES, Reply, StoredContent,
};
use crate::store::commit::plan::key_changes::KeyChanges;
use crate::store::shared::extents::slices;
use crate::store::shared::id_generator::IdGenerator;
use crate::store::shared::index_budget::{IndexBudget, IndexGrowth};
use crate::store::shared::lock_clock::LockClock;
use crate::store::shared::object_keys::StoreKeys;
use crate::store::shared::usage_accounts::{Holdings, UsageAccounts};
use crate::store::{CopyRange, NewBucket, Selector, StoreError, WriteCondition};

/// Sends a reply once it is known whether the group is durable.
pub(in crate::store) type PendingReply = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// The entries, pack and replies of a group.
#[derive(Default)]
pub(in crate::store) struct GroupPlan {
    /// The entries. Entries of packed objects and parts lack their last extent until the pack is
    /// placed.
    pub(in crate::store) entries: Vec<Entry>,
    /// The packed extents.
    pub(in crate::store) pack: PackBuilder,
    /// The indexes of their entries, in the order of the pack.
    packed: Vec<usize>,
    /// Later entries of the same versions: the index of the extent in the pack, and the index of
    /// the entry.
    repeated: Vec<(usize, usize)>,
    /// The replies, refusals included: a refusal may depend on a change of this group.
    pub(in crate::store) replies: Vec<PendingReply>,
}

impl GroupPlan {
    /// A bound on the bytes that [`GroupPlan::place_pack`] adds to the entries.
    pub(in crate::store) fn pack_extents_bytes_max(&self) -> usize {
        (self.packed.len() + self.repeated.len()) * EXTENT_BYTES_MAX
    }

    /// Adds the extents of the pack to the entries.
    pub(in crate::store) fn place_pack(&mut self, extents: &[ExtentRef]) {
        for (at, extent) in self.packed.iter().zip(extents) {
            match &mut self.entries[*at] {
                Entry::VersionPut { record, .. } | Entry::VersionAmend { record, .. } => {
                    let is_encrypted = record.encryption.is_some();
                    record.extents.push(if is_encrypted { extent.encrypted() } else { *extent });
                }
                Entry::PartPut { record, .. } => {
                    let is_encrypted = record.encryption.is_some();
                    record.extents.push(if is_encrypted { extent.encrypted() } else { *extent });
                }
                _ => unreachable!("only objects and parts have extents"),
            }
        }
        for (packed, at) in &self.repeated {
            let Entry::VersionAmend { record, .. } = &mut self.entries[*at] else {
                unreachable!("only versions have controls")
            };
            // An update that announces further references says *shared* of all extents.
            let shared = record.extents.iter().all(|extent| extent.shared);
            record.extents.push(ExtentRef { shared, ..extents[*packed] });
        }
    }
}

/// The claims that have disk space. Removals always have.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct AvailableRoom {
    pub(in crate::store) growth: bool,
    pub(in crate::store) upkeep: bool,
}

/// The location of the bytes of a version or part, and its id.
struct PlacedContent {
    id: u64,
    size: u64,
    modified: Timestamp,
    /// The extents, except the last one if it is in the pack.
    extents: Vec<ExtentRef>,
    packed: Option<PackedContent>,
}

/// The packed payload of a record.
#[derive(Default)]
struct PackedContent {
    /// The write of the extents, if they were written before.
    write: Option<u64>,
    /// The bytes of that write in other extents.
    position: u64,
    payload: Vec<u8>,
    crc: u32,
    /// As in [`crate::format::RebuildRecord`].
    sources: Vec<PayloadSource>,
}

/// A version of the index that an earlier mutation of the group updated.
struct UpdatedVersion {
    record: VersionRecord,
    /// The index in the pack of the extent with its controls, which `record` still lacks.
    controls: Option<usize>,
}

/// Builds the plan of a group.
pub(in crate::store) struct Planner<'a> {
    index: &'a Index,
    ids: &'a IdGenerator,
    lock_clock: &'a LockClock,
    /// The time that new records state.
    now: Timestamp,
    /// Whether the pack has an allocation.
    place: bool,
    room: AvailableRoom,
    /// The budget for the growth of the index.
    growth: IndexBudget,
    /// The usage of limited buckets and owners.
    accounts: UsageAccounts<'a>,
    /// The keys of encrypted objects.
    keys: Option<&'a StoreKeys>,
    /// The changes by key.
    changed: HashMap<(u64, Vec<u8>), KeyChanges>,
    /// Updated versions.
    updated: HashMap<VersionId, UpdatedVersion>,
    /// Completed and aborted uploads.
    ended: HashSet<UploadId>,
    plan: GroupPlan,
}

impl<'a> Planner<'a> {
    /// A planner. `place` is the size of the allocation for the pack.
    pub(in crate::store) fn new(
        (index, accounts): (&'a Index, UsageAccounts<'a>),
        ids: &'a IdGenerator,
        lock_clock: &'a LockClock,
        (room, growth): (AvailableRoom, IndexBudget),
        place: Option<u64>,
        keys: Option<&'a StoreKeys>,
    ) -> Self {
        let changed = HashMap::new();
        let updated = HashMap::new();
        let ended = HashSet::new();
        let pack = PackBuilder::with_capacity(place.unwrap_or(0) as usize);
        let plan = GroupPlan { pack, ..GroupPlan::default() };
        let place = place.is_some();
        let now = lock_clock.stamp_time();
        Self {
            index,
            ids,
            lock_clock,
            now,
            place,
            room,
            growth,
            accounts,
            keys,
            changed,
            updated,
            ended,
            plan,
        }
    }

    /// Refuses keys for a new record that nothing would open: their master key has been destroyed
    /// since they were wrapped.
    fn check_wrapped(&self, wrapped: &[WrappedKey]) -> Result<(), StoreError> {
        let Some(keys) = self.keys else { return Ok(()) };
        match wrapped.iter().find(|key| !keys.opens(key)) {
            Some(gone) => Err(StoreError::KeyUnavailable(gone.key_id.clone())),
            None => Ok(()),
        }
    }

    /// Decides one mutation.
    pub(in crate::store) fn add(&mut self, mutation: Mutation) {
        if let Mutation::Caused(mutation, cause) = mutation {
            return self.add_caused(*mutation, &cause);
        }
        // By the bound, before the decision: a full index refuses without looking anything up.
        if let Err(error) = self.growth.reserve(mutation.index_bytes_max(), IndexGrowth::Data) {
            return mutation.reject(error);
        }
        match mutation {
            Mutation::Bucket(change, reply) => {
                let decided = self.change_bucket(change);
                self.reply_when_durable(decided, reply);
            }
            Mutation::OwnerQuota { owner, document, reply } => {
                let decided = self.set_owner_quota(owner, document);
                self.reply_when_durable(decided, reply);
            }
            Mutation::RemoteSegment { segment, copy, reply } => {
                let decided = self.add_upkeep([Entry::RemoteSegment { segment, copy }]);
                self.reply_when_durable(decided, reply);
            }
            Mutation::Follower { name, state, reply } => {
                let decided = self.set_follower(name, state);
                self.reply_when_durable(decided, reply);
            }
            Mutation::FollowerNotes { name, notes, reply } => {
                let notes = notes.into_iter();
                let entries = notes.map(|note| Entry::FollowerNote { name: name.clone(), note });
                let decided = self.add_upkeep(entries);
                self.reply_when_durable(decided, reply);
            }
            Mutation::Caused(..) => unreachable!("its mutation is decided in its place"),
            Mutation::Put(put, reply) => {
                let decided = self.put(*put);
                self.reply_when_durable(decided, reply);
            }
            Mutation::Delete { bucket, deletions, bypass_governance, reply } => {
                let decided = self.delete(&bucket, deletions, bypass_governance);
                self.reply_when_durable(decided, reply);
            }
            Mutation::Expire(request, reply) => {
                let decided = self.expire(*request);
                self.reply_when_durable(decided, reply);
            }
            Mutation::Relocate(relocation, reply) => {
                let decided = self.check_room(SpaceClaim::Upkeep).map(|()| self.relocate(&relocation));
                self.reply_when_durable(decided, reply);
            }
            Mutation::Rewrap(changes, reply) => {
                let decided = self.check_room(SpaceClaim::Upkeep).map(|()| self.rewrap(changes));
                self.reply_when_durable(decided, reply);
            }
            Mutation::Amend { bucket, key, version, change, reply } => {
                let decided = self.amend(&bucket, key, &version, change);
                self.reply_when_durable(decided, reply);
            }
            Mutation::Upload { bucket, key, change, reply } => {
                let decided = self.change_upload(&bucket, key, change);
                self.reply_when_durable(decided, reply);
            }
            Mutation::PutPart(put, reply) => {
                let decided = self.put_part(*put);
                self.reply_when_durable(decided, reply);
            }
            Mutation::Complete { bucket, key, completion, sealed, reply } => {
                let decided = self.complete(&bucket, key, *completion, sealed);
                self.reply_when_durable(decided, reply);
            }
        }
    }

    /// Adds entries that need no decision but the one that there is room.
    fn add_upkeep(&mut self, entries: impl IntoIterator<Item = Entry>) -> Result<(), StoreError> {
        self.check_room(SpaceClaim::Upkeep)?;
        self.plan.entries.extend(entries);
        Ok(())
    }

    /// Decides a mutation, and names its cause before its entries, if there are any.
    fn add_caused(&mut self, mutation: Mutation, cause: &Cause) {
        let begun = self.plan.entries.len();
        if !cause.origins.is_empty() {
            self.plan.entries.push(Entry::Origin(cause.origins.clone()));
        }
        let mut at = self.plan.entries.len();
        self.plan.entries.push(Entry::Cause(cause.clone()));
        self.add(mutation);
        let entries = &mut self.plan.entries;
        // A copy first updates its source, which the request does not change.
        while at + 2 < entries.len() && matches!(entries[at + 1], Entry::VersionAmend { .. }) {
            entries.swap(at, at + 1);
            at += 1;
        }
        let count = entries[at + 1..].iter().filter(|entry| !entry.is_note()).count() as u64;
        match &mut entries[at] {
            Entry::Cause(cause) if count > 0 => cause.entries = count,
            _ => entries.truncate(begun),
        }
    }

    /// Whether the group changes anything so far.
    fn has_changes(&self) -> bool {
        self.plan.entries.iter().any(|entry| !entry.is_note())
    }

    pub(in crate::store) fn finish(self) -> GroupPlan {
        self.plan
    }

    fn reply_when_durable<T: Send + 'static>(&mut self, decided: Result<T, StoreError>, reply: Reply<T>) {
        self.plan.replies.push(Box::new(move |durable| {
            // A caller that has gone away needs no reply.
            let _ = reply.send(durable.and(decided));
        }));
    }

    fn change_bucket(&mut self, change: BucketChange) -> Result<BucketRecord, StoreError> {
        match change {
            BucketChange::Create(new) => self.create_bucket(new),
            BucketChange::Delete { name } => {
                let record = self.bucket(&name)?.clone();
                if !self.index.is_empty(record.id) {
                    return Err(StoreError::BucketNotEmpty);
                }
                self.state_again(&record);
                self.plan.entries.push(Entry::BucketDelete { id: record.id });
                Ok(record)
            }
            BucketChange::SetVersioning { name, versioning } => {
                self.check_lock_versioning(&name, versioning)?;
                let record = BucketRecord { versioning, ..self.bucket(&name)?.clone() };
                self.plan.entries.push(Entry::BucketPut(record.clone()));
                Ok(record)
            }
            BucketChange::Configure { name, kind, document } => self.configure_bucket(&name, kind, document),
        }
    }

    /// Fails if a claim lacks disk space. It is checked last, so that other errors take precedence.
    fn check_room(&self, claim: SpaceClaim) -> Result<(), StoreError> {
        let room = match claim {
            SpaceClaim::Growth => self.room.growth,
            SpaceClaim::Upkeep => self.room.upkeep,
            SpaceClaim::Removal => true,
        };
        if room { Ok(()) } else { Err(StoreError::DiskFull) }
    }

    fn create_bucket(&mut self, new: NewBucket) -> Result<BucketRecord, StoreError> {
        let NewBucket { name, owner, versioning, configurations } = new;
        for (kind, document) in &configurations {
            self.check_lock_configuration(versioning, *kind, Some(document))?;
        }
        if let Some(taken) = self.index.bucket(&name) {
            return Err(StoreError::BucketExists { owner: taken.owner.clone() });
        }
        let documents = configurations.iter().map(|(_, document)| configuration_bytes(document.len()));
        let growth = Holdings::of_index(BUCKET_BYTES + documents.sum::<u64>());
        self.accounts.check_new_bucket(&owner, growth)?;
        self.check_room(SpaceClaim::Growth)?;
        let id = self.ids.next();
        let record = BucketRecord { id, name, owner, created: self.now, versioning };
        // The bucket comes before its configurations: an entry for an unknown bucket is damage.
        self.plan.entries.push(Entry::BucketPut(record.clone()));
        self.plan.entries.extend(configurations.into_iter().map(|(kind, document)| {
            Entry::BucketConfiguration { bucket: id, kind, document: Some(document) }
        }));
        Ok(record)
    }

    fn configure_bucket(
        &mut self,
        name: &str,
        kind: BucketConfigurationKind,
        document: Option<Vec<u8>>,
    ) -> Result<BucketRecord, StoreError> {
        let (record, configurations) = self.index.configured_bucket(name).ok_or(StoreError::NoSuchBucket)?;
        self.check_lock_configuration(record.versioning, kind, document.as_deref())?;
        if let Some(document) = &document {
            let old = configurations.get(kind).map_or(0, |old| configuration_bytes(old.document().len()));
            let new = configuration_bytes(document.len());
            if !is_of_administrators(kind) {
                self.accounts.check(&record, Holdings::of_index(new) - Holdings::of_index(old))?;
            }
            self.check_room(SpaceClaim::Growth)?;
        }
        // Removing nothing must need no disk space.
        if document.is_some() || configurations.get(kind).is_some() {
            self.plan.entries.push(Entry::BucketConfiguration { bucket: record.id, kind, document });
        }
        Ok(BucketRecord::clone(&record))
    }

    fn set_owner_quota(&mut self, owner: String, document: Option<Vec<u8>>) -> Result<(), StoreError> {
        if document.is_some() {
            self.check_room(SpaceClaim::Growth)?;
        }
        if document.is_some() || self.index.owner_quota(&owner).is_some() {
            self.plan.entries.push(Entry::OwnerQuota { owner, document });
        }
        Ok(())
    }

    fn set_follower(&mut self, name: String, state: Option<FollowerState>) -> Result<(), StoreError> {
        if state.is_some() {
            self.check_room(SpaceClaim::Upkeep)?;
        }
        let is_known =
            self.index.follower(&name).is_some() || self.index.follower_notes(&name).next().is_some();
        if state.is_some() || is_known {
            self.plan.entries.push(Entry::Follower { name, state });
        }
        Ok(())
    }

    /// Names the operation that makes the next entry, if a follower may read it.
    fn push_cause(&mut self, operation: &str) {
        let is_named = matches!(self.plan.entries.last(), Some(Entry::Cause(_)));
        if !is_named && self.is_followed() {
            let operation = operation.to_owned();
            self.plan.entries.push(Entry::Cause(Cause { entries: 1, operation, ..Cause::default() }));
        }
    }

    /// States a bucket that the next entry deletes, so that followers which are behind know its
    /// name and its notifications.
    fn state_again(&mut self, record: &BucketRecord) {
        const KIND: BucketConfigurationKind = BucketConfigurationKind::Notification;
        if !self.is_followed() {
            return;
        }
        self.plan.entries.push(Entry::BucketPut(record.clone()));
        let configured = self.index.configured_bucket(&record.name);
        let stored = configured.and_then(|(_, all)| all.get(KIND).cloned());
        if let Some(stored) = stored.filter(|stored| stored.document().len() <= RESTATED_MAX_BYTES) {
            let document = Some(stored.document().to_vec());
            self.plan.entries.push(Entry::BucketConfiguration { bucket: record.id, kind: KIND, document });
        }
    }

    /// Whether a follower reads the log.
    fn is_followed(&self) -> bool {
        self.index.followers().next().is_some()
    }

    fn bucket(&self, name: &str) -> Result<&'a BucketRecord, StoreError> {
        self.index.bucket(name).ok_or(StoreError::NoSuchBucket)
    }

    /// The bucket that the first byte was meant for. It may have been deleted, and another created
    /// under its name.
    fn same_bucket(&self, before: &BucketRecord) -> Result<&'a BucketRecord, StoreError> {
        self.bucket(&before.name)
            .and_then(|now| if now.id == before.id { Ok(now) } else { Err(StoreError::NoSuchBucket) })
    }

    /// Locates the bytes of a version or part and assigns its id. Usually `holds` accepts the
    /// provisional record after the bytes. Otherwise another record goes into the pack; it takes
    /// precedence by its higher id.
    fn place_content(
        &mut self,
        content: Content,
        holds: impl FnOnce(&StoredContent) -> bool,
    ) -> Result<PlacedContent, StoreError> {
        let (extents, size, packed) = match content {
            Content::Stored(stored) if holds(&stored) => {
                let StoredContent { extents, id, size, modified, .. } = stored;
                return Ok(PlacedContent { id, size, modified, extents, packed: None });
            }
            _ if !self.place => return Err(StoreError::DiskFull),
            Content::Stored(mut stored) => {
                stored.extents.pop();
                let packed = PackedContent {
                    write: Some(stored.write),
                    position: stored.size,
                    ..PackedContent::default()
                };
                (stored.extents, stored.size, packed)
            }
            Content::Packed { payload, size, crc } => {
                (Vec::new(), size, PackedContent { payload, crc, ..PackedContent::default() })
            }
            Content::Copied { source, sources } => {
                let extents = self.share_extents(&source)?;
                let size = extents.iter().map(|extent| u64::from(extent.take)).sum();
                (extents, size, PackedContent { sources, ..PackedContent::default() })
            }
        };
        let id = self.ids.next();
        Ok(PlacedContent { id, size, modified: self.now, extents, packed: Some(packed) })
    }

    /// The extents of a range of a version, which are marked as shared in its record.
    fn share_extents(&mut self, source: &CopyRange) -> Result<Vec<ExtentRef>, StoreError> {
        let key = source.key.as_bytes();
        let mut version =
            self.version(source.bucket, key, source.version.id).ok_or(StoreError::NoSuchVersion)?;
        // The only reference of an extent is not counted, even if it says *shared*. The update
        // announces a second reference, unless all extents are counted already. Earlier entries of
        // the group may have removed references, so they force it, too.
        let liveness = self.index.liveness();
        let are_counted = version.extents.iter().all(|extent| {
            extent.shared && (extent.payload_len == 0 || liveness.is_shared(extent.segment, extent.offset))
        });
        if self.has_changes() || !are_counted {
            for extent in &mut version.extents {
                extent.shared = true;
            }
            self.update_version(source.bucket, key.to_vec(), version.clone());
        }
        Ok(slices(&version.extents, &source.range))
    }

    /// A version of the index, after the earlier mutations of the group.
    fn version(&self, bucket: u64, key: &[u8], id: VersionId) -> Option<VersionRecord> {
        let updated = self.updated.get(&id).map(|updated| updated.record.clone());
        let version = updated.or_else(|| self.index.version(bucket, key, id))?;
        let kept = self.changes(bucket, key).is_none_or(|changes| changes.keeps(&version.summary()));
        kept.then_some(version)
    }

    /// Updates a version whose controls stay where they are.
    fn update_version(&mut self, bucket: u64, key: Vec<u8>, record: VersionRecord) {
        let controls = self.updated.get(&record.id).and_then(|updated| updated.controls);
        self.plan.repeated.extend(controls.map(|packed| (packed, self.plan.entries.len())));
        self.updated.insert(record.id, UpdatedVersion { record: record.clone(), controls });
        self.plan.entries.push(Entry::VersionAmend { bucket, key, record });
    }

    /// Adds an extent to the pack for the next entry.
    fn pack(
        &mut self,
        bucket: &BucketRecord,
        key: &[u8],
        id: u64,
        packed: &PackedContent,
        purpose: ExtentPurpose,
    ) {
        let descriptor = Descriptor {
            bucket: bucket.id,
            bucket_name: bucket.name.clone(),
            key: key.to_vec(),
            write: packed.write.unwrap_or(id),
            position: packed.position,
            purpose,
        };
        self.plan.pack.push(&packed.payload, packed.crc, &descriptor);
        self.plan.packed.push(self.plan.entries.len());
    }

    fn put_version(&mut self, bucket: u64, key: Vec<u8>, record: VersionRecord) {
        let index_bytes = version_index_bytes(&key, &record);
        self.changes_mut(bucket, &key).add(record.summary(), index_bytes);
        self.plan.entries.push(Entry::VersionPut { bucket, key, record });
    }

    /// The selected version after the earlier mutations of the group. The cost does not depend on
    /// the number of versions of the key.
    fn find(&self, bucket: u64, key: &[u8], which: Selector) -> Option<VersionSummary> {
        let Some(changes) = self.changes(bucket, key) else { return self.find_before(bucket, key, which) };
        if let Some(added) = changes.added().find(|version| which.accepts(version)) {
            return Some(added);
        }
        match which {
            Selector::Current => changes.newest_kept(|order| self.index.newest_up_to(bucket, key, order)),
            _ => self.find_before(bucket, key, which).filter(|version| changes.keeps(version)),
        }
    }

    /// The selected version before the group.
    fn find_before(&self, bucket: u64, key: &[u8], which: Selector) -> Option<VersionSummary> {
        let found = match which {
            Selector::Current => self.index.newest_up_to(bucket, key, u64::MAX).map(|(_, newest)| newest),
            Selector::Null => self.index.null_summary(bucket, key),
            Selector::Id(id) => self.index.version_summary(bucket, key, id),
        };
        found.filter(|version| which.accepts(version))
    }

    fn newest(&self, bucket: u64, key: &[u8]) -> Option<VersionSummary> {
        self.find(bucket, key, Selector::Current)
    }

    fn changes(&self, bucket: u64, key: &[u8]) -> Option<&KeyChanges> {
        // Usually a group looks up a key before it has changed any.
        if self.changed.is_empty() { None } else { self.changed.get(&(bucket, key.to_vec())) }
    }

    fn changes_mut(&mut self, bucket: u64, key: &[u8]) -> &mut KeyChanges {
        self.changed.entry((bucket, key.to_vec())).or_default()
    }
}

/// Whether administrators alone set the configuration: no quota keeps them from it.
fn is_of_administrators(kind: BucketConfigurationKind) -> bool {
    matches!(kind, BucketConfigurationKind::Quota | BucketConfigurationKind::Placement)
}

fn check(condition: &WriteCondition, current: Option<&VersionSummary>) -> Result<(), StoreError> {
    if *condition == WriteCondition::None {
        return Ok(());
    }
    let current = current.filter(|version| !version.delete_marker).map(|version| version.etag.to_string());
    condition.check(current.as_deref()).map_err(StoreError::from)
}
