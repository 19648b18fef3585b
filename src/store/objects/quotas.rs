//! The quotas of buckets and owners. The committer decides about growth, so no number of writers
//! exceeds a quota together; the checks here only spare a client the body of a request that the
//! committer would refuse.

use crate::base::Quota;
use crate::format::{Attributes, BucketConfigurationKind, BucketRecord, UploadId, Versioning};
use crate::index::{CountedVersion, Index};
use crate::store::commit::mutation::Mutation;
use crate::store::shared::SharedStore;
use crate::store::shared::usage_accounts::{
    Holdings, OwnerQuotas, UsageAccounts, bucket_quota, in_force, owner_quota, stored_owner_quota,
};
use crate::store::{OwnerUsage, Store, StoreError, StoreOptions, Usage};

/// A bucket with its quota and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitedBucket {
    /// The name of the bucket.
    pub bucket: String,
    /// The name of the user who owns it.
    pub owner: String,
    /// Its quota, as it was set.
    pub quota: Quota,
    /// The quota with the limits that it has by default.
    pub in_force: Quota,
    /// Its content.
    pub content: Usage,
}

/// An owner with its quotas and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitedOwner {
    /// The name of the user.
    pub owner: String,
    /// The stored quota.
    pub stored: Option<Quota>,
    /// The quota of the configuration.
    pub configured: Option<Quota>,
    /// Of both the stricter limits, with those that a quota has by default; none where
    /// there is no quota.
    pub in_force: Quota,
    /// Its buckets and their content.
    pub usage: OwnerUsage,
}

impl Store {
    /// Sets or removes the quota of a bucket. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn set_bucket_quota(&self, bucket: &str, quota: Option<&Quota>) -> Result<(), StoreError> {
        self.set_bucket_configuration(bucket, BucketConfigurationKind::Quota, quota.map(Quota::document))
    }

    /// A bucket with its quota, if it has one.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn limited_bucket(&self, bucket: &str) -> Result<Option<LimitedBucket>, StoreError> {
        let index = self.shared.index();
        let bucket = index.bucket(bucket).ok_or(StoreError::NoSuchBucket)?;
        Ok(limited_bucket(&index, bucket, &self.shared.options))
    }

    /// All buckets with quotas, by name. The cost grows with the number of buckets.
    pub fn limited_buckets(&self) -> Vec<LimitedBucket> {
        let index = self.shared.index();
        let options = &self.shared.options;
        index.buckets().filter_map(|bucket| limited_bucket(&index, bucket, options)).collect()
    }

    /// Sets or removes the quota of a user, whether or not it owns buckets. Durable on return.
    ///
    /// # Errors
    /// Errors of the commit.
    pub fn set_owner_quota(&self, owner: &str, quota: Option<&Quota>) -> Result<(), StoreError> {
        let owner = owner.to_owned();
        let document = quota.map(Quota::document);
        self.committer.submit(|reply| Mutation::OwnerQuota { owner, document, reply })
    }

    /// Replaces the quotas of owners that the configuration sets. They hold from the next commit
    /// on.
    pub fn configure_owner_quotas(&self, quotas: OwnerQuotas) {
        self.shared.configure_owner_quotas(quotas);
    }

    /// A user with its quotas, which may be missing, and with its content.
    pub fn limited_owner(&self, owner: &str) -> LimitedOwner {
        let configured = self.shared.owner_quotas();
        limited_owner(&self.shared.index(), &configured, owner, &self.shared.options)
    }

    /// All users with quotas, by name.
    pub fn limited_owners(&self) -> Vec<LimitedOwner> {
        let index = self.shared.index();
        let configured = self.shared.owner_quotas();
        let mut owners: Vec<&str> = index.owner_quotas().map(|(owner, _)| owner).collect();
        owners.extend(configured.keys().map(String::as_str));
        owners.sort_unstable();
        owners.dedup();
        let options = &self.shared.options;
        owners.into_iter().map(|owner| limited_owner(&index, &configured, owner, options)).collect()
    }
}

fn limited_bucket(index: &Index, bucket: &BucketRecord, options: &StoreOptions) -> Option<LimitedBucket> {
    let quota = bucket_quota(index, bucket)?;
    Some(LimitedBucket {
        bucket: bucket.name.clone(),
        owner: bucket.owner.clone(),
        quota,
        in_force: in_force(quota, options),
        content: index.usage(bucket.id),
    })
}

fn limited_owner(
    index: &Index,
    configured: &OwnerQuotas,
    owner: &str,
    options: &StoreOptions,
) -> LimitedOwner {
    let set = owner_quota(index, configured, owner);
    LimitedOwner {
        in_force: set.map(|quota| in_force(quota, options)).unwrap_or_default(),
        owner: owner.to_owned(),
        stored: stored_owner_quota(index, owner),
        configured: configured.get(owner).copied(),
        usage: index.owner_usage(owner),
    }
}

/// Checks whether a put of `len` bytes, or more, would be refused now.
///
/// # Errors
/// [`StoreError::QuotaExceeded`].
pub(in crate::store) fn check_put(
    shared: &SharedStore,
    bucket: &BucketRecord,
    key: &str,
    len: u64,
) -> Result<(), StoreError> {
    check_early(shared, bucket, |index, _| {
        let key = key.as_bytes();
        let attributes = Attributes::new();
        let least =
            CountedVersion { key, attributes: &attributes, tags: &[], parts: 0, encryption: None, size: len };
        let added = Holdings::of_object(len, least.index_bytes());
        if bucket.versioning == Versioning::Enabled {
            return added;
        }
        match index.null_version(bucket.id, key) {
            Some(replaced) => added - Holdings::of_record(key, &replaced),
            None => added,
        }
    })
}

/// Checks whether a part of `len` bytes, or more, would be refused now.
///
/// # Errors
/// [`StoreError::QuotaExceeded`].
pub(in crate::store) fn check_part(
    shared: &SharedStore,
    bucket: &BucketRecord,
    key: &str,
    upload: UploadId,
    number: u32,
    len: u64,
) -> Result<(), StoreError> {
    check_early(shared, bucket, |_, accounts| {
        accounts.of_part(bucket.id, key.as_bytes(), upload, number, len)
    })
}

fn check_early(
    shared: &SharedStore,
    bucket: &BucketRecord,
    growth: impl FnOnce(&Index, &UsageAccounts<'_>) -> Holdings,
) -> Result<(), StoreError> {
    let index = shared.index();
    let configured = shared.owner_quotas();
    let mut accounts = UsageAccounts::new(&index, &configured, &shared.options);
    if accounts.is_off() {
        return Ok(());
    }
    let growth = growth(&index, &accounts);
    accounts.check(bucket, growth)
}
