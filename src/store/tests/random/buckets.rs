//! Steps that make, change, empty and delete buckets.

use super::steps::Run;
use super::world::{Bucket, Object};
use super::*;

impl Run {
    pub(super) fn create_bucket(&mut self, name: &str) {
        println!("create {name}");
        let expected = match self.world.bucket(name) {
            Ok(there) => Err(StoreError::BucketExists { owner: there.info.owner.clone() }),
            Err(_) => Ok(()),
        };
        let owner = *self.draw.one_of(&["admin", "other"]);
        let Some(info) = self.written(self.store().create_bucket(name, owner), expected) else {
            return;
        };
        self.fresh(info.id);
        let name = name.to_owned();
        let owner = owner.to_owned();
        let created = self.clock.now();
        assert_eq!(
            info,
            BucketInfo { id: info.id, name: name.clone(), owner, created, versioning: Versioning::Unset }
        );
        self.world.buckets.insert(name, Bucket::new(info));
    }

    pub(super) fn delete_bucket(&mut self, name: &str) {
        println!("delete bucket {name}");
        let expected = self.world.bucket(name).and_then(|bucket| match bucket.keys.is_empty() {
            true => Ok(()),
            false => Err(StoreError::BucketNotEmpty),
        });
        if self.agreed(self.store().delete_bucket(name), expected).is_some() {
            let bucket = self.world.buckets.remove(name).expect("it was found");
            let ended = bucket.uploads.into_keys().map(|(key, id)| (name.to_owned(), key, id));
            self.ended.extend(ended);
        }
    }

    pub(super) fn set_versioning(&mut self, name: &str, versioning: Versioning) {
        println!("{name} becomes {versioning:?}");
        let expected = self.world.bucket(name).map(|_| ());
        if self.agreed(self.store().set_versioning(name, versioning), expected).is_some() {
            self.world.bucket_mut(name).info.versioning = versioning;
        }
    }

    /// Sets or removes the quota of an owner, which is never reached: quotas have tests of their
    /// own.
    fn limit_owner(&mut self) {
        let owner = *self.draw.one_of(&["admin", "other", "nobody"]);
        let quota = (!self.draw.one_in(3))
            .then(|| Quota { bytes: Some(u64::MAX - self.draw.below(9)), ..Quota::default() });
        println!("limit {owner}: {quota:?}");
        if self.written(self.store().set_owner_quota(owner, quota.as_ref()), Ok(())).is_some() {
            match quota {
                Some(quota) => drop(self.world.owner_quotas.insert(owner.into(), quota)),
                None => drop(self.world.owner_quotas.remove(owner)),
            }
        }
    }

    /// Sets or removes one configuration, now and then a long one. Object lock and quotas, which
    /// exclude other changes, have tests of their own.
    pub(super) fn configure(&mut self, name: &str) {
        if self.draw.one_in(4) {
            return self.limit_owner();
        }
        let kind = match self.draw.one_of(&BucketConfigurationKind::TABLE).0 {
            BucketConfigurationKind::ObjectLock | BucketConfigurationKind::Quota => {
                BucketConfigurationKind::Policy
            }
            _ if self.remote.is_some() && self.draw.one_in(2) => BucketConfigurationKind::Placement,
            kind => kind,
        };
        let document = match self.draw.below(4) {
            0 => None,
            _ if self.remote.is_some() && kind == BucketConfigurationKind::Placement => {
                Some(self.draw.one_of(&[BucketPlacement::Local, BucketPlacement::Remote]).document())
            }
            1 => Some(bytes(self.draw.below(100), self.draw.below(30_000) as usize)),
            _ => Some(bytes(self.draw.below(100), self.draw.below(300) as usize)),
        };
        println!("configure {kind:?} of {name}: {:?} bytes", document.as_ref().map(Vec::len));
        let expected = self.world.bucket(name).map(|_| ());
        let answered = self.store().set_bucket_configuration(name, kind, document.clone());
        if self.written(answered, expected).is_some() {
            let configurations = &mut self.world.bucket_mut(name).configurations;
            match document {
                Some(document) => drop(configurations.insert(kind, document)),
                None => drop(configurations.remove(&kind)),
            }
        }
    }

    /// Mostly back to what the bucket is meant to be.
    pub(super) fn change_versioning(&mut self, name: &str) {
        let meant = BUCKETS.iter().find(|(bucket, _)| *bucket == name).expect("it is one of them").1;
        let versioning = match self.draw.below(4) {
            0 => Versioning::Enabled,
            1 => Versioning::Suspended,
            _ if meant == Versioning::Unset => Versioning::Suspended,
            _ => meant,
        };
        self.set_versioning(name, versioning);
    }

    /// Deletes every version in one commit, and then the bucket with what uploads it has; mostly
    /// makes another.
    pub(super) fn empty(&mut self, name: &str) {
        let all = self.world.bucket(name).map(|bucket| {
            let deletion = |(key, version): (&String, &Object)| Deletion {
                key: key.clone(),
                which: version.selector(),
                condition: DeleteCondition::default(),
            };
            bucket.all().map(deletion).collect::<Vec<_>>()
        });
        println!("empty {name}");
        self.delete_all(name, &all.unwrap_or_default());
        self.delete_bucket(name);
        if !self.draw.one_in(3) {
            let (_, meant) = BUCKETS.iter().find(|(bucket, _)| *bucket == name).expect("it is one of them");
            self.create_bucket(name);
            self.set_versioning(name, *meant);
        }
    }

    pub(super) fn empty_all(&mut self) {
        for (name, _) in BUCKETS {
            self.empty(name);
            self.delete_bucket(name);
        }
    }
}
