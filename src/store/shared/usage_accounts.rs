//! Quotas at commit: the content of limited buckets and owners, after the earlier mutations of a
//! group.
//!
//! A change is refused if a limited quantity grows beyond its limit. A change without growth is
//! never refused, even if the limit has been exceeded before, as after a quota was lowered.

use std::collections::HashMap;
use std::ops::{Add, Sub};

use crate::base::Quota;
use crate::format::{
    BucketConfigurationKind, BucketRecord, Features, UploadId, VersionRecord, VersionSummary,
};
use crate::index::{BucketConfiguration, Index, Usage, part_index_bytes, version_index_bytes};
use crate::store::error::QuotaHolder;
use crate::store::{StoreError, StoreOptions};

/// The quotas of owners that the configuration of the server sets, by name.
pub type OwnerQuotas = HashMap<String, Quota>;

/// A quantity of the content that quotas limit, or a change of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::store) struct Holdings {
    bytes: i128,
    objects: i128,
    uploads: i128,
    index_bytes: i128,
}

impl Holdings {
    pub(in crate::store) const NONE: Self = Self { bytes: 0, objects: 0, uploads: 0, index_bytes: 0 };

    /// An object of so many bytes, which counts for so many bytes of the index.
    pub(in crate::store) fn of_object(size: u64, index_bytes: u64) -> Self {
        Self { bytes: size.into(), objects: 1, ..Self::of_index(index_bytes) }
    }

    /// An upload without parts, which counts for so many bytes of the index.
    pub(in crate::store) fn of_upload(index_bytes: u64) -> Self {
        Self { uploads: 1, ..Self::of_index(index_bytes) }
    }

    /// A part of so many bytes.
    pub(in crate::store) fn of_part(size: u64) -> Self {
        Self { bytes: size.into(), ..Self::of_index(part_index_bytes(size)) }
    }

    /// Bytes of the index.
    pub(in crate::store) fn of_index(bytes: u64) -> Self {
        Self { index_bytes: bytes.into(), ..Self::NONE }
    }

    /// A version, which counts for so many bytes of the index. Delete markers count for nothing
    /// else.
    pub(in crate::store) fn of_version(version: &VersionSummary, index_bytes: u64) -> Self {
        match version.delete_marker {
            true => Self::of_index(index_bytes),
            false => Self::of_object(version.size, index_bytes),
        }
    }

    /// A version of a key.
    pub(in crate::store) fn of_record(key: &[u8], record: &VersionRecord) -> Self {
        Self::of_version(&record.summary(), version_index_bytes(key, record))
    }

    fn of(usage: &Usage) -> Self {
        Self {
            bytes: usage.bytes().into(),
            objects: usage.objects().into(),
            uploads: usage.uploads.count.into(),
            index_bytes: usage.index_bytes.into(),
        }
    }
}

impl Add for Holdings {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            objects: self.objects + other.objects,
            uploads: self.uploads + other.uploads,
            index_bytes: self.index_bytes + other.index_bytes,
        }
    }
}

impl Sub for Holdings {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            bytes: self.bytes - other.bytes,
            objects: self.objects - other.objects,
            uploads: self.uploads - other.uploads,
            index_bytes: self.index_bytes - other.index_bytes,
        }
    }
}

/// A quota and its usage.
struct Account {
    holder: QuotaHolder,
    quota: Quota,
    used: Holdings,
}

impl Account {
    fn check(&self, growth: Holdings) -> Result<(), StoreError> {
        let Self { holder, quota, used } = self;
        for (limit, allowed, used, growth) in [
            ("bytes", quota.bytes, used.bytes, growth.bytes),
            ("objects", quota.objects, used.objects, growth.objects),
            ("uploads", quota.uploads, used.uploads, growth.uploads),
            ("index_bytes", quota.index_bytes, used.index_bytes, growth.index_bytes),
        ] {
            if let Some(allowed) = allowed.filter(|allowed| growth > 0 && used + growth > (*allowed).into()) {
                let used = used.try_into().unwrap_or(0);
                return Err(StoreError::QuotaExceeded { holder: *holder, limit, allowed, used });
            }
        }
        Ok(())
    }
}

/// The accounts of a bucket.
struct BucketAccount {
    own: Option<Account>,
    /// The owner, if it has a quota.
    owner: Option<String>,
}

/// The parts of an upload that the group has put.
#[derive(Default)]
struct PutParts {
    /// Their sizes, by number.
    sizes: HashMap<u32, u64>,
    /// The change of what all parts of the upload count for.
    change: Holdings,
}

/// The accounts of a group. A bucket's and its owner's are opened by its first mutation.
pub(in crate::store) struct UsageAccounts<'a> {
    index: &'a Index,
    configured: &'a OwnerQuotas,
    options: &'a StoreOptions,
    /// Whether nothing is limited but the buckets of owners.
    off: bool,
    buckets: HashMap<u64, BucketAccount>,
    owners: HashMap<String, Account>,
    parts: HashMap<UploadId, PutParts>,
}

impl<'a> UsageAccounts<'a> {
    pub(in crate::store) fn new(
        index: &'a Index,
        configured: &'a OwnerQuotas,
        options: &'a StoreOptions,
    ) -> Self {
        let features = index.features();
        let stored = [Features::BUCKET_CONFIGURATIONS, Features::OWNER_QUOTAS];
        let off = configured.is_empty() && !stored.into_iter().any(|feature| features.contains(feature));
        let buckets = HashMap::new();
        let owners = HashMap::new();
        let parts = HashMap::new();
        Self { index, configured, options, off, buckets, owners, parts }
    }

    /// Whether no content is limited.
    pub(in crate::store) fn is_off(&self) -> bool {
        self.off
    }

    /// Whether the bucket or its owner has a quota.
    pub(in crate::store) fn is_limited(&mut self, bucket: &BucketRecord) -> bool {
        self.of(bucket).is_some_and(|mut accounts| accounts.next().is_some())
    }

    /// Fails if the quota of the bucket or of its owner does not allow the growth.
    ///
    /// # Errors
    /// [`StoreError::QuotaExceeded`].
    pub(in crate::store) fn check(
        &mut self,
        bucket: &BucketRecord,
        growth: Holdings,
    ) -> Result<(), StoreError> {
        self.of(bucket).into_iter().flatten().try_for_each(|account| account.check(growth))
    }

    /// Counts a change that the group makes.
    pub(in crate::store) fn count(&mut self, bucket: &BucketRecord, change: Holdings) {
        for account in self.of(bucket).into_iter().flatten() {
            account.used = account.used + change;
        }
    }

    /// Fails if the owner may have no further bucket, or none that grows its content so. Changes of
    /// buckets are alone in their group.
    ///
    /// # Errors
    /// [`StoreError::TooManyBuckets`]; [`StoreError::QuotaExceeded`].
    pub(in crate::store) fn check_new_bucket(&self, owner: &str, growth: Holdings) -> Result<(), StoreError> {
        let account = self.owner_account(owner);
        let limit = account.as_ref().and_then(|account| account.quota.buckets);
        let allowed = limit.unwrap_or(self.options.buckets_max);
        if self.index.owner_usage(owner).buckets >= allowed {
            return Err(StoreError::TooManyBuckets { allowed });
        }
        account.map_or(Ok(()), |account| account.check(growth))
    }

    /// The change by a part that takes the place of another with its number.
    pub(in crate::store) fn of_part(
        &self,
        bucket: u64,
        key: &[u8],
        upload: UploadId,
        number: u32,
        size: u64,
    ) -> Holdings {
        let put = self.parts.get(&upload).and_then(|put| put.sizes.get(&number).copied());
        match put.or_else(|| self.index.part(bucket, key, upload, number).map(|part| part.size)) {
            Some(replaced) => Holdings::of_part(size) - Holdings::of_part(replaced),
            None => Holdings::of_part(size),
        }
    }

    /// Counts a part of that size, which changes the content of the bucket so.
    pub(in crate::store) fn count_part(
        &mut self,
        bucket: &BucketRecord,
        upload: UploadId,
        number: u32,
        size: u64,
        change: Holdings,
    ) {
        if self.off {
            return;
        }
        let put = self.parts.entry(upload).or_default();
        put.sizes.insert(number, size);
        put.change = put.change + change;
        self.count(bucket, change);
    }

    /// An upload with its parts.
    pub(in crate::store) fn of_upload(&self, bucket: u64, key: &[u8], upload: UploadId) -> Holdings {
        let stored = Holdings {
            bytes: self.index.upload_bytes(bucket, key, upload).into(),
            ..Holdings::of_upload(self.index.upload_index_bytes(bucket, key, upload))
        };
        stored + self.parts.get(&upload).map(|put| put.change).unwrap_or_default()
    }

    /// The accounts that a change of the bucket concerns.
    fn of(&mut self, bucket: &BucketRecord) -> Option<impl Iterator<Item = &mut Account>> {
        if self.off {
            return None;
        }
        if !self.buckets.contains_key(&bucket.id) {
            let account = self.open(bucket);
            self.buckets.insert(bucket.id, account);
        }
        let BucketAccount { own, owner } = self.buckets.get_mut(&bucket.id)?;
        let of_owner = owner.as_deref().and_then(|owner| self.owners.get_mut(owner));
        Some(own.iter_mut().chain(of_owner))
    }

    fn open(&mut self, bucket: &BucketRecord) -> BucketAccount {
        let quota = bucket_quota(self.index, bucket).map(|quota| in_force(quota, self.options));
        let own = quota.map(|quota| {
            let used = Holdings::of(&self.index.usage(bucket.id));
            Account { holder: QuotaHolder::Bucket, quota, used }
        });
        let name = bucket.owner.as_str();
        if self.owners.contains_key(name) {
            return BucketAccount { own, owner: Some(name.to_owned()) };
        }
        let owner = self.owner_account(name).map(|account| {
            self.owners.insert(name.to_owned(), account);
            name.to_owned()
        });
        BucketAccount { own, owner }
    }

    /// The account of an owner with a quota, before the group.
    fn owner_account(&self, name: &str) -> Option<Account> {
        let quota = in_force(owner_quota(self.index, self.configured, name)?, self.options);
        let used = Holdings::of(&self.index.owner_usage(name).content);
        Some(Account { holder: QuotaHolder::Owner, quota, used })
    }
}

/// A quota with the limits that it has by default.
pub(in crate::store) fn in_force(quota: Quota, options: &StoreOptions) -> Quota {
    Quota { index_bytes: quota.index_bytes.or(options.index_quota_default()), ..quota }
}

/// The quota of a bucket.
pub(in crate::store) fn bucket_quota(index: &Index, bucket: &BucketRecord) -> Option<Quota> {
    let stored = index.configuration(bucket.id, BucketConfigurationKind::Quota)?;
    Some(parsed(stored, &format!("the bucket {}", bucket.name)))
}

/// The stored quota of an owner.
pub(in crate::store) fn stored_owner_quota(index: &Index, owner: &str) -> Option<Quota> {
    Some(parsed(index.owner_quota(owner)?, &format!("the owner {owner}")))
}

/// The quota of an owner, as it is set: of the stored one and the one of the configuration the
/// stricter limits.
pub(in crate::store) fn owner_quota(index: &Index, configured: &OwnerQuotas, owner: &str) -> Option<Quota> {
    match (stored_owner_quota(index, owner), configured.get(owner)) {
        (Some(stored), Some(configured)) => Some(stored.stricter(configured)),
        (stored, configured) => stored.or(configured.copied()),
    }
}

/// A stored quota was checked when it was set. One that cannot be read, as after a return to an
/// older version of the program, lets nothing grow.
fn parsed(stored: &BucketConfiguration, holder: &str) -> Quota {
    *stored.parsed(|document| {
        Quota::parse(document).unwrap_or_else(|reason| {
            log::error!("the quota of {holder} cannot be read and allows nothing: {reason}");
            Quota::CLOSED
        })
    })
}
