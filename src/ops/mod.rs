//! Floor 4: the operations of S3 on the store. An operation takes a call and the proof of its
//! permission, and returns a response with vendor headers named `p-...`.

mod access;
mod acl;
mod amend;
mod attributes;
mod audit;
mod body;
mod bucket_policy;
mod bucket_tagging;
mod buckets;
mod checksums;
mod client_error;
mod configurations;
mod copy;
mod cors;
mod delete;
mod get;
mod lifecycle;
mod lifecycle_figures;
mod lifecycle_preview;
mod lifecycle_sweep;
mod list;
mod listing;
mod lookup;
mod memory;
mod multipart;
mod new_object;
mod not_configured;
mod notification;
mod object_lock;
mod owner;
mod ownership;
mod padded_response;
mod placement;
mod post;
mod put;
mod quota;
mod stored_configuration;
mod tagging;
mod token;
mod unset;
mod version_id;
mod versioning;
mod versions_list;
mod website;

use std::sync::Arc;

pub use cors::BucketCors;
pub use padded_response::PaddingTimes;
pub use quota::QuotaLimit;
pub use website::{BucketWebsite, WebsiteObject};

pub use lifecycle_figures::{LifecycleFigures, LifecycleTotals};
pub use lifecycle_preview::{DueExpiry, LifecycleEffect, LifecyclePreview, PreviewCount, RulePreview};
pub use lifecycle_sweep::{ExpiredItem, LifecycleSweeper, SweepTotals, abort_idle_uploads};

use crate::auth::{Action, Authorized};
use crate::base::{Budget, Md5Pool, Reservation};
use crate::s3::{Call, ObjectOwnership, Operation, RequestId, Response, S3Error};
pub use crate::store::{
    BucketUsage, ClockFigures, CommitFigures, CopyFindings, DamagedObject, FollowerFigures, Health,
    RemoteProbed, RequestFigures, ShipFigures, StandbyFigures, TierFigures, Usage,
};
use crate::store::{Cause, CauseScope, Store};
use crate::xml::Writer;

/// The header with the stores that a change by a mirror comes from.
const STATED_ORIGIN: &str = "siltstone-origin";
/// The most of them, and the length of each.
const ORIGINS_MAX: usize = 16;
const ORIGIN_DIGITS: usize = 32;

/// The entity tags of objects put in one piece. Parts, and so multipart objects, always have MD5s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EntityTags {
    /// The MD5 of the bytes, which many clients compare with their own.
    #[default]
    Md5,
    /// The CRC-32, which is computed anyway, as `<hex>-1`, which no client mistakes for an MD5. It
    /// saves the MD5 on a slow processor, but 32 bits do not prove that two objects are equal, for
    /// example in conditions (`If-Match`).
    Crc,
}

/// The dependencies of all operations.
pub struct Context {
    /// The store.
    pub store: Arc<Store>,
    /// The region of all buckets.
    pub region: String,
    /// Whether a new bucket may ask for any region, although it gets the one of all buckets.
    pub any_region: bool,
    /// The namespace of XML documents; empty for none.
    pub namespace: String,
    /// The times of padded responses.
    pub padding: PaddingTimes,
    /// The entity tags of new objects.
    pub entity_tags: EntityTags,
    /// The pool that computes the MD5s of large bodies.
    pub md5: Md5Pool,
    /// The ownership of objects in buckets without ownership controls.
    pub object_ownership: ObjectOwnership,
    /// The memory budget of requests.
    pub memory: Arc<Budget>,
    /// The names of the webhooks that buckets may notify.
    pub webhooks: Vec<String>,
}

impl Context {
    /// Runs the operation of `call`. Only this function selects operations.
    ///
    /// # Errors
    /// Errors of the operation; `AccessDenied` for a bucket whose owner is not the one that `call`
    /// expects.
    pub fn dispatch(&self, proof: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
        owner::check_target(self, call)?;
        new_object::check_time_is_of_use(call)?;
        let _scope = CauseScope::enter(self.cause(proof, call));
        match call.operation {
            Operation::ListBuckets => buckets::list(self, proof, call),
            Operation::CreateBucket => buckets::create(self, proof, call),
            Operation::DeleteBucket => buckets::delete(self, proof, call),
            Operation::HeadBucket => buckets::head(self, proof, call),
            Operation::GetBucketLocation => buckets::location(self, proof, call),
            Operation::PutBucketVersioning => versioning::put(self, proof, call),
            Operation::GetBucketVersioning => versioning::get(self, proof, call),
            Operation::ListObjects => list::list_v1(self, proof, call),
            Operation::ListObjectsV2 => list::list_v2(self, proof, call),
            Operation::ListObjectVersions => versions_list::list(self, proof, call),
            Operation::DeleteObjects => delete::many(self, proof, call),
            Operation::GetObject => get::get(self, proof, call),
            Operation::HeadObject => get::head(self, proof, call),
            Operation::GetObjectAttributes => attributes::get(self, proof, call),
            Operation::PutObject => put::put(self, proof, call),
            Operation::PostObject => post::post(self, proof, call),
            Operation::CopyObject => copy::copy(self, proof, call),
            Operation::DeleteObject => delete::one(self, proof, call),
            Operation::ListMultipartUploads => multipart::list_uploads(self, proof, call),
            Operation::CreateMultipartUpload => multipart::create(self, proof, call),
            Operation::UploadPart => multipart::upload_part(self, proof, call),
            Operation::UploadPartCopy => multipart::copy_part(self, proof, call),
            Operation::CompleteMultipartUpload => multipart::complete(self, proof, call),
            Operation::AbortMultipartUpload => multipart::abort(self, proof, call),
            Operation::ListParts => multipart::list_parts(self, proof, call),
            Operation::GetObjectTagging => tagging::get(self, proof, call),
            Operation::PutObjectTagging => tagging::put(self, proof, call),
            Operation::DeleteObjectTagging => tagging::delete(self, proof, call),
            Operation::PutBucketWebsite => website::put(self, proof, call),
            Operation::GetBucketWebsite => website::get(self, proof, call),
            Operation::DeleteBucketWebsite => website::delete(self, proof, call),
            Operation::PutBucketAcl => acl::put_of_bucket(self, proof, call),
            Operation::GetBucketAcl => acl::get_of_bucket(self, proof, call),
            Operation::PutObjectAcl => acl::put_of_object(self, proof, call),
            Operation::GetObjectAcl => acl::get_of_object(self, proof, call),
            Operation::PutBucketPolicy => bucket_policy::put(self, proof, call),
            Operation::GetBucketPolicy => bucket_policy::get(self, proof, call),
            Operation::GetBucketPolicyStatus => bucket_policy::status(self, proof, call),
            Operation::DeleteBucketPolicy => bucket_policy::delete(self, proof, call),
            Operation::PutPublicAccessBlock => ownership::put_block(self, proof, call),
            Operation::GetPublicAccessBlock => ownership::get_block(self, proof, call),
            Operation::DeletePublicAccessBlock => ownership::delete_block(self, proof, call),
            Operation::PutBucketOwnershipControls => ownership::put(self, proof, call),
            Operation::GetBucketOwnershipControls => ownership::get(self, proof, call),
            Operation::DeleteBucketOwnershipControls => ownership::delete(self, proof, call),
            Operation::PutBucketTagging => bucket_tagging::put(self, proof, call),
            Operation::GetBucketTagging => bucket_tagging::get(self, proof, call),
            Operation::DeleteBucketTagging => bucket_tagging::delete(self, proof, call),
            Operation::PutBucketNotificationConfiguration => notification::put(self, proof, call),
            Operation::GetBucketNotificationConfiguration => notification::get(self, proof, call),
            Operation::PutBucketCors => cors::put(self, proof, call),
            Operation::GetBucketCors => cors::get(self, proof, call),
            Operation::DeleteBucketCors => cors::delete(self, proof, call),
            Operation::PutBucketLifecycleConfiguration => lifecycle::put(self, proof, call),
            Operation::GetBucketLifecycleConfiguration => lifecycle::get(self, proof, call),
            Operation::DeleteBucketLifecycle => lifecycle::delete(self, proof, call),
            Operation::PutObjectLockConfiguration => object_lock::put_configuration(self, proof, call),
            Operation::GetObjectLockConfiguration => object_lock::get_configuration(self, proof, call),
            Operation::PutObjectRetention => object_lock::put_retention(self, proof, call),
            Operation::GetObjectRetention => object_lock::get_retention(self, proof, call),
            Operation::PutObjectLegalHold => object_lock::put_legal_hold(self, proof, call),
            Operation::GetObjectLegalHold => object_lock::get_legal_hold(self, proof, call),
            Operation::PutBucketQuota => quota::put_of_bucket(self, proof, call),
            Operation::GetBucketQuota => quota::get_of_bucket(self, proof, call),
            Operation::DeleteBucketQuota => quota::delete_of_bucket(self, proof, call),
            Operation::PutBucketPlacement => placement::put(self, proof, call),
            Operation::GetBucketPlacement => placement::get(self, proof, call),
            Operation::DeleteBucketPlacement => placement::delete(self, proof, call),
            Operation::PutOwnerQuota => quota::put_of_owner(self, proof, call),
            Operation::GetOwnerQuota => quota::get_of_owner(self, proof, call),
            Operation::DeleteOwnerQuota => quota::delete_of_owner(self, proof, call),
            Operation::PutBucketAccelerateConfiguration => unset::put_acceleration(self, proof, call),
            Operation::GetBucketAccelerateConfiguration => unset::get_acceleration(self, proof, call),
            Operation::PutBucketLogging => unset::put_logging(self, proof, call),
            Operation::GetBucketLogging => unset::get_logging(self, proof, call),
            Operation::PutBucketRequestPayment => unset::put_request_payment(self, proof, call),
            Operation::GetBucketRequestPayment => unset::get_request_payment(self, proof, call),
            Operation::ListBucketAnalyticsConfigurations => {
                unset::list(self, proof, call, "ListBucketAnalyticsConfigurationResult")
            }
            Operation::ListBucketIntelligentTieringConfigurations => {
                unset::list(self, proof, call, "ListBucketIntelligentTieringConfigurationsOutput")
            }
            Operation::ListBucketInventoryConfigurations => {
                unset::list(self, proof, call, "ListInventoryConfigurationsResult")
            }
            Operation::ListBucketMetricsConfigurations => {
                unset::list(self, proof, call, "ListMetricsConfigurationsResult")
            }
            Operation::GetBucketAnalyticsConfiguration
            | Operation::DeleteBucketAnalyticsConfiguration
            | Operation::GetBucketIntelligentTieringConfiguration
            | Operation::DeleteBucketIntelligentTieringConfiguration
            | Operation::GetBucketInventoryConfiguration
            | Operation::DeleteBucketInventoryConfiguration
            | Operation::GetBucketMetricsConfiguration
            | Operation::DeleteBucketMetricsConfiguration => unset::absent(self, proof, call),
            Operation::DeleteBucketEncryption | Operation::DeleteBucketReplication => {
                unset::delete(self, proof, call)
            }
            Operation::GetBucketEncryption | Operation::GetBucketReplication | Operation::NotServed => {
                not_configured::respond(self, proof, call)
            }
        }
    }

    /// The request as the cause of its commits, where a follower of the log reads it.
    fn cause(&self, proof: &Authorized, call: &Call<'_>) -> Option<Arc<Cause>> {
        let cause = || Cause {
            origins: self.origins(proof, call),
            operation: call.operation.as_str().to_owned(),
            user: proof.user().to_owned(),
            address: call.request.peer.map_or_else(String::new, |peer| peer.ip().to_string()),
            request: call.id.as_str().to_owned(),
            ..Cause::default()
        };
        self.store.has_followers().then(|| Arc::new(cause()))
    }

    /// The stores that a mirror states its change to come from. Without the permission it is a
    /// change like any other.
    fn origins(&self, proof: &Authorized, call: &Call<'_>) -> Vec<String> {
        let is_id = |id: &&str| id.len() == ORIGIN_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let vendor = call.vendor();
        let Some(stated) = vendor.get(STATED_ORIGIN).and_then(|value| std::str::from_utf8(value).ok()) else {
            return Vec::new();
        };
        let ids: Vec<_> = stated.split(',').map(str::trim).filter(is_id).map(str::to_owned).collect();
        let place = access::Place::target(call);
        let may = !ids.is_empty() && ids.len() <= ORIGINS_MAX;
        match may && access::may(self, proof, call, Action::PutObjectStatedOrigin, place) {
            true => ids,
            false => Vec::new(),
        }
    }

    /// The website of a bucket.
    ///
    /// # Errors
    /// `NoSuchBucket`.
    pub fn website(&self, bucket: &str, id: &RequestId) -> Result<BucketWebsite, S3Error> {
        website::of_bucket(self, bucket, id)
    }

    /// The object that a `GetObject` or `HeadObject` on a website host names.
    ///
    /// # Errors
    /// Errors of the operation.
    pub fn website_object(&self, proof: &Authorized, call: &Call<'_>) -> Result<WebsiteObject, S3Error> {
        website::object(self, proof, call)
    }

    /// The health of the store, for monitoring.
    pub fn health(&self) -> Health {
        self.store.health()
    }

    /// Begins a response document with the capacity that was reserved, so that it is never
    /// reallocated.
    fn long_document(&self, root: &str, reserved: &Reservation) -> Writer {
        let namespace = (!self.namespace.is_empty()).then_some(self.namespace.as_str());
        Writer::with_capacity(root, namespace, reserved.bytes() as usize)
    }

    /// Begins a response document.
    fn document(&self, root: &str) -> Writer {
        self.long_document(root, &Reservation::default())
    }
}
