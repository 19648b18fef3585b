//! Questions of pages: what a user may do, and the content of buckets. No request is recorded for
//! them.

use super::{MirrorSides, NotedRequests, Service};
use crate::auth::{Authorized, Identity};
use crate::base::{Reservation, Timestamp};
use crate::ops::{
    BucketMarks, CommitFigures, DamagedObject, FastDiskFigures, FolderItems, LifecycleEffect, NextSweep,
    QuotaLimit, Usage, WalkedKeys,
};
use crate::s3::{
    Arrival, Body, Call, Dialect, Headers, ObjectKey, Operation, QueryParams, Request, RequestId, S3Error,
    TargetResource, uri,
};

/// The place in a bucket at which a step of a walk begins.
#[derive(Debug, Clone, Copy)]
pub struct KeyPlace<'a> {
    pub bucket: &'a str,
    /// The keys of the walk begin with it.
    pub prefix: &'a str,
    /// The key after which the step begins.
    pub after: Option<&'a str>,
}

impl Service {
    /// The content of each bucket, in the order of `buckets`: `None` for a bucket that `identity`
    /// may not list by a request like `request`, and for a missing one. The versions below the
    /// current ones count where it may list them, too. Nothing is listed for it.
    pub fn usages_for(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        buckets: &[&str],
    ) -> Vec<Option<Usage>> {
        let mut call = self.call_like(request);
        buckets.iter().map(|bucket| self.usage_for(identity, &mut call, bucket)).collect()
    }

    /// The limits of the quota of each bucket, in the order of `buckets`: none for a bucket without
    /// one, and those alone that HeadBucket shows where `identity` may not see the quota itself.
    pub fn bucket_limits_for(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        buckets: &[&str],
    ) -> Vec<Vec<QuotaLimit>> {
        let mut call = self.call_like(request);
        buckets.iter().map(|bucket| self.limits_for(identity, &mut call, bucket)).collect()
    }

    /// The marks of each bucket, in the order of `buckets`, as far as `identity` may see the settings
    /// that they are about by a request like `request`.
    pub fn marks_for(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        buckets: &[&str],
    ) -> Vec<BucketMarks> {
        let mut call = self.call_like(request);
        buckets.iter().map(|bucket| self.mark_for(identity, &mut call, bucket)).collect()
    }

    fn mark_for(&self, identity: &Identity, call: &mut Call<'_>, bucket: &str) -> BucketMarks {
        call.target = TargetResource::Bucket(bucket.to_owned());
        let mut marks = self.context.bucket_marks(bucket);
        marks.has_replication |= self.mirrors.iter().any(|mirror| mirror.sends(bucket));
        for (mark, operation) in [
            (&mut marks.is_public, Operation::GetBucketPolicyStatus),
            (&mut marks.keeps_versions, Operation::GetBucketVersioning),
            (&mut marks.has_locks, Operation::GetObjectLockConfiguration),
            (&mut marks.has_lifecycle, Operation::GetBucketLifecycleConfiguration),
            (&mut marks.has_replication, Operation::GetBucketReplication),
        ] {
            *mark = *mark && self.may(identity, call, operation).is_ok();
        }
        marks
    }

    /// The limits of the quota of the user who asks, over all its buckets; none for a role.
    pub fn own_limits(&self, identity: &Identity) -> Vec<QuotaLimit> {
        let owner = identity.user_in_policies();
        owner.map(|owner| self.context.limits_of_owner(owner)).unwrap_or_default()
    }

    /// Whether `identity` may read each of the objects, in their order, by a request like
    /// `request`.
    ///
    /// # Errors
    /// A key is none.
    pub fn may_read(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        bucket: &str,
        keys: &[&str],
    ) -> Result<Vec<bool>, S3Error> {
        let mut call = self.call_like(request);
        let mut may_read = Vec::with_capacity(keys.len());
        for key in keys {
            let key = ObjectKey::new((*key).to_owned())?;
            call.target = TargetResource::Object { bucket: bucket.to_owned(), key };
            let may = self.may(identity, &mut call, Operation::GetObject).is_ok();
            may_read.push(may && self.context.opens(call.bucket(), call.key()));
        }
        Ok(may_read)
    }

    /// Whether `identity` may do this to a bucket or an object, by a request like `request`.
    pub fn may_do(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        target: TargetResource,
        operation: Operation,
    ) -> bool {
        let mut call = self.call_like(request);
        call.target = target;
        self.may(identity, &mut call, operation).is_ok()
    }

    /// Whether `identity` may do this to versions of an object that are named, delete markers among them,
    /// by a request like `request`.
    pub fn may_do_to_versions(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        target: TargetResource,
        operation: Operation,
    ) -> bool {
        let mut call = self.call_like(request);
        call.target = target;
        call.query = QueryParams::one("versionId", "null");
        self.may(identity, &mut call, operation).is_ok()
    }

    /// The effect that lifecycle rules would have now, for a user who may set them and list
    /// everything that they take.
    ///
    /// # Errors
    /// `AccessDenied`, and those of
    /// [`Context::lifecycle_effect`](crate::ops::Context::lifecycle_effect).
    pub fn lifecycle_effect(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        bucket: &str,
        document: &[u8],
    ) -> Result<LifecycleEffect, S3Error> {
        let mut call = self.call_like(request);
        call.target = TargetResource::Bucket(bucket.to_owned());
        for operation in [
            Operation::PutBucketLifecycleConfiguration,
            Operation::ListObjectVersions,
            Operation::ListMultipartUploads,
        ] {
            self.may(identity, &mut call, operation)?;
        }
        self.context.lifecycle_effect(bucket, document, call.received, &call.id)
    }

    /// The next sweep of a bucket by its lifecycle rules; `None` without rules, or for a user who may
    /// not see them.
    pub fn next_lifecycle_sweep(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        bucket: &str,
    ) -> Option<NextSweep> {
        let mut call = self.call_like(request);
        call.target = TargetResource::Bucket(bucket.to_owned());
        self.may(identity, &mut call, Operation::GetBucketLifecycleConfiguration).ok()?;
        self.lifecycle.next_sweep(&self.context, bucket)
    }

    /// One step of a walk over the current objects of a bucket: those that are `sought`, for a user
    /// who may list them.
    ///
    /// # Errors
    /// `AccessDenied`, `NoSuchBucket`, and `SlowDown` without memory.
    pub fn sought_keys(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        place: KeyPlace<'_>,
        sought: &dyn Fn(&str) -> bool,
    ) -> Result<WalkedKeys, S3Error> {
        let call = self.listing_call(identity, request, place, Operation::ListObjectsV2)?;
        self.context.sought_keys(place.bucket, place.prefix, place.after, sought, &call.id)
    }

    /// A page of the keys and folders in a folder, for a user who may list them.
    ///
    /// # Errors
    /// `AccessDenied`, `NoSuchBucket`, and `SlowDown` without memory.
    pub fn folder_page(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        place: KeyPlace<'_>,
    ) -> Result<FolderItems, S3Error> {
        let call = self.listing_call(identity, request, place, Operation::ListObjectsV2)?;
        self.context.folder_page(place.bucket, place.prefix, place.after, &call.id)
    }

    /// One step of a walk over the deleted keys of a bucket, for a user who may list versions.
    ///
    /// # Errors
    /// `AccessDenied`, `NoSuchBucket`, and `SlowDown` without memory.
    pub fn deleted_keys(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        place: KeyPlace<'_>,
    ) -> Result<WalkedKeys, S3Error> {
        let call = self.listing_call(identity, request, place, Operation::ListObjectVersions)?;
        self.context.deleted_keys(place.bucket, place.prefix, place.after, &call.id)
    }

    /// A listing of a prefix that `identity` may make.
    fn listing_call(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        place: KeyPlace<'_>,
        operation: Operation,
    ) -> Result<Call<'static>, S3Error> {
        let mut call = self.call_like(request);
        call.target = TargetResource::Bucket(place.bucket.to_owned());
        // Permissions may be for some prefixes alone.
        call.query = QueryParams::parse(&uri::encode_pairs([("prefix", place.prefix)]))?;
        self.may(identity, &mut call, operation)?;
        Ok(call)
    }

    /// The time at which the certificate of the server expires; `None` without TLS.
    pub fn certificate_expires(&self) -> Option<Timestamp> {
        self.certificate_expiry.as_ref().and_then(|expires| expires())
    }

    /// The two sides of a mirrored store; `None` where it has one directory.
    pub fn mirror_sides(&self) -> Option<MirrorSides> {
        self.sides.as_ref().map(|sides| sides())
    }

    /// The fast one of two disks; `None` where there is one.
    pub fn fast_disk(&self) -> Option<FastDiskFigures> {
        self.context.store.fast_disk()
    }

    /// The last requests that failed, and the last slow ones.
    pub fn noted_requests(&self) -> NotedRequests {
        self.recorder.recent.snapshot()
    }

    /// The times of commits.
    pub fn commit_figures(&self) -> CommitFigures {
        self.context.store.commit_figures()
    }

    /// The objects with extents that the scrub found damaged, and that refer to them still.
    pub fn damaged_objects(&self) -> Vec<DamagedObject> {
        self.context.store.damaged_objects()
    }

    /// Reserves memory for a response, before it is allocated.
    ///
    /// # Errors
    /// `SlowDown` if the memory is not available.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation, S3Error> {
        self.context.memory.reserve(bytes).ok_or_else(S3Error::slow_down)
    }

    fn usage_for(&self, identity: &Identity, call: &mut Call<'_>, bucket: &str) -> Option<Usage> {
        call.target = TargetResource::Bucket(bucket.to_owned());
        self.may(identity, call, Operation::ListObjectsV2).ok()?;
        let mut usage = self.context.store.usage(bucket).ok()?;
        if self.may(identity, call, Operation::ListObjectVersions).is_err() {
            usage = Usage { current: usage.current, ..Usage::default() };
        }
        Some(usage)
    }

    fn limits_for(&self, identity: &Identity, call: &mut Call<'_>, bucket: &str) -> Vec<QuotaLimit> {
        let mut limits = self.context.limits_of_bucket(bucket);
        if limits.is_empty() {
            return limits;
        }
        call.target = TargetResource::Bucket(bucket.to_owned());
        if self.may(identity, call, Operation::GetBucketQuota).is_err() {
            let sees_head = self.may(identity, call, Operation::HeadBucket).is_ok();
            limits.retain(|limit| sees_head && matches!(limit.limit, "bytes" | "objects"));
        }
        limits
    }

    fn may(
        &self,
        identity: &Identity,
        call: &mut Call<'_>,
        operation: Operation,
    ) -> Result<Authorized, S3Error> {
        call.operation = operation;
        self.context.authorize(identity, call)
    }

    /// A call from the client of `request`, with neither its body nor its parameters.
    pub(super) fn call_like(&self, request: &Request<'_>) -> Call<'static> {
        let mut headers = Headers::default();
        if let Some(agent) = request.headers.get("user-agent") {
            headers.push("user-agent", agent);
        }
        let request = Request {
            method: crate::s3::Method::Get,
            path: "/".to_owned(),
            query: String::new(),
            headers,
            body: Body::none(),
            secure: request.secure,
            peer: request.peer,
            client: None,
        };
        let arrival = Arrival {
            id: RequestId::new(&*self.entropy),
            dialect: Dialect::Aws,
            received: self.recorder.clock.now(),
        };
        Call::new(arrival, Operation::ListObjectsV2, TargetResource::Service, request)
    }
}
