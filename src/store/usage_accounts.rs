//! Quotas at commit: the content of limited buckets and owners, after the earlier mutations of a group.
//!
//! A change is refused if a limited quantity grows beyond its limit. A change without growth is never refused, even if the limit
//! has been exceeded before, as after a quota was lowered.

use std::collections::HashMap;
use std::ops::{Add, Sub};

use crate::base::Quota;
use crate::format::{BucketConfigurationKind, BucketRecord, Features, UploadId, VersionSummary};
use crate::index::{BucketConfiguration, Index, Usage};
use crate::store::StoreError;
use crate::store::error::QuotaHolder;

/// The quotas of owners that the configuration of the server sets, by name.
pub type OwnerQuotas = HashMap<String, Quota>;

/// A quantity of the content that quotas limit, or a change of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Holdings {
    bytes: i128,
    objects: i128,
    uploads: i128,
}

impl Holdings {
    pub(super) const NONE: Self = Self { bytes: 0, objects: 0, uploads: 0 };
    pub(super) const UPLOAD: Self = Self { bytes: 0, objects: 0, uploads: 1 };

    /// An object of so many bytes.
    pub(super) fn of_object(size: u64) -> Self {
        Self { objects: 1, ..Self::of_bytes(size) }
    }

    /// Bytes of parts.
    pub(super) fn of_bytes(bytes: u64) -> Self {
        Self { bytes: bytes.into(), ..Self::NONE }
    }

    /// A version. Delete markers count for nothing.
    pub(super) fn of_version(version: &VersionSummary) -> Self {
        if version.delete_marker { Self::NONE } else { Self::of_object(version.size) }
    }

    fn of(usage: &Usage) -> Self {
        Self {
            bytes: usage.bytes().into(),
            objects: usage.objects().into(),
            uploads: usage.uploads.count.into(),
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
    /// The change of the bytes of all parts of the upload.
    change: Holdings,
}

/// The accounts of a group. Those of a bucket and its owner are opened by its first mutation.
pub(super) struct UsageAccounts<'a> {
    index: &'a Index,
    configured: &'a OwnerQuotas,
    /// The buckets that an owner without another limit may have.
    buckets_max: u64,
    /// Whether nothing is limited but the buckets of owners.
    off: bool,
    buckets: HashMap<u64, BucketAccount>,
    owners: HashMap<String, Account>,
    parts: HashMap<UploadId, PutParts>,
}

impl<'a> UsageAccounts<'a> {
    pub(super) fn new(index: &'a Index, configured: &'a OwnerQuotas, buckets_max: u64) -> Self {
        let features = index.features();
        let stored = [Features::BUCKET_CONFIGURATIONS, Features::OWNER_QUOTAS];
        let off = configured.is_empty() && !stored.into_iter().any(|feature| features.contains(feature));
        let (buckets, owners, parts) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { index, configured, buckets_max, off, buckets, owners, parts }
    }

    /// Whether no content is limited.
    pub(super) fn is_off(&self) -> bool {
        self.off
    }

    /// Fails if the quota of the bucket or of its owner does not allow the growth.
    ///
    /// # Errors
    /// [`StoreError::QuotaExceeded`].
    pub(super) fn check(&mut self, bucket: &BucketRecord, growth: Holdings) -> Result<(), StoreError> {
        self.of(bucket).into_iter().flatten().try_for_each(|account| account.check(growth))
    }

    /// Counts a change that the group makes.
    pub(super) fn count(&mut self, bucket: &BucketRecord, change: Holdings) {
        self.of(bucket).into_iter().flatten().for_each(|account| account.used = account.used + change);
    }

    /// Fails if the owner may have no further bucket. Changes of buckets are alone in their group.
    ///
    /// # Errors
    /// [`StoreError::TooManyBuckets`].
    pub(super) fn check_new_bucket(&self, owner: &str) -> Result<(), StoreError> {
        let quota = owner_quota(self.index, self.configured, owner).unwrap_or_default();
        let allowed = quota.buckets.unwrap_or(self.buckets_max);
        match self.index.owner_usage(owner).buckets < allowed {
            true => Ok(()),
            false => Err(StoreError::TooManyBuckets { allowed }),
        }
    }

    /// The change by a part that takes the place of another with its number.
    pub(super) fn of_part(
        &self,
        (bucket, key): (u64, &[u8]),
        (upload, number): (UploadId, u32),
        size: u64,
    ) -> Holdings {
        let put = self.parts.get(&upload).and_then(|put| put.sizes.get(&number).copied());
        let stored = || self.index.part(bucket, key, upload, number).map(|part| part.size);
        Holdings::of_bytes(size) - Holdings::of_bytes(put.or_else(stored).unwrap_or(0))
    }

    /// Counts a part of that size, which changes the bytes of the bucket so.
    pub(super) fn count_part(
        &mut self,
        bucket: &BucketRecord,
        (upload, number): (UploadId, u32),
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
    pub(super) fn of_upload(&self, bucket: u64, key: &[u8], upload: UploadId) -> Holdings {
        let stored = Holdings::of_bytes(self.index.upload_bytes(bucket, key, upload));
        let put = self.parts.get(&upload).map(|put| put.change).unwrap_or_default();
        Holdings::UPLOAD + stored + put
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
        let quota = bucket_quota(self.index, bucket);
        let used = || Holdings::of(&self.index.usage(bucket.id));
        let own = quota.map(|quota| Account { holder: QuotaHolder::Bucket, quota, used: used() });
        let name = bucket.owner.as_str();
        if self.owners.contains_key(name) {
            return BucketAccount { own, owner: Some(name.to_owned()) };
        }
        let owner = owner_quota(self.index, self.configured, name).map(|quota| {
            let used = Holdings::of(&self.index.owner_usage(name).content);
            self.owners.insert(name.to_owned(), Account { holder: QuotaHolder::Owner, quota, used });
            name.to_owned()
        });
        BucketAccount { own, owner }
    }
}

/// The quota of a bucket.
pub(super) fn bucket_quota(index: &Index, bucket: &BucketRecord) -> Option<Quota> {
    let stored = index.configuration(bucket.id, BucketConfigurationKind::Quota)?;
    Some(parsed(stored, &format!("the bucket {}", bucket.name)))
}

/// The stored quota of an owner.
pub(super) fn stored_owner_quota(index: &Index, owner: &str) -> Option<Quota> {
    Some(parsed(index.owner_quota(owner)?, &format!("the owner {owner}")))
}

/// The quota of an owner: of the stored one and the one of the configuration the stricter limits.
fn owner_quota(index: &Index, configured: &OwnerQuotas, owner: &str) -> Option<Quota> {
    match (stored_owner_quota(index, owner), configured.get(owner)) {
        (Some(stored), Some(configured)) => Some(stored.stricter(configured)),
        (stored, configured) => stored.or(configured.copied()),
    }
}

/// A stored quota was checked when it was set. One that cannot be read, as after a return to an older version of the program, lets
/// nothing grow.
fn parsed(stored: &BucketConfiguration, holder: &str) -> Quota {
    *stored.parsed(|document| {
        Quota::parse(document).unwrap_or_else(|reason| {
            log::error!("the quota of {holder} cannot be read and allows nothing: {reason}");
            Quota::CLOSED
        })
    })
}
