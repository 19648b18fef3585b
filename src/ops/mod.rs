//! Floor 4: the operations of S3 on the store. An operation takes a call and the proof of its
//! permission, and returns a response with vendor headers named `p-...`.

mod access;
mod acl;
mod amend;
mod attributes;
mod audit;
mod body;
mod bucket_marks;
mod bucket_policy;
mod bucket_tagging;
mod buckets;
mod checksums;
mod client_error;
mod configurations;
mod copy;
mod copy_directives;
mod cors;
mod delete;
mod encryption;
mod get;
mod key_errors;
mod key_ring;
mod key_walk;
mod lifecycle;
mod lifecycle_figures;
mod lifecycle_preview;
mod lifecycle_sweep;
mod list;
mod listing;
mod logging;
mod lookup;
mod memory;
mod multipart;
mod new_object;
mod notification;
mod object_lock;
mod owner;
mod ownership;
mod padded_response;
mod placement;
mod policy_facts;
mod post;
mod put;
mod quota;
mod replication;
mod shown_ring;
mod stored_document;
mod table;
mod tagging;
mod token;
mod unset;
mod version_id;
mod versioning;
mod versions_list;
mod website;

use std::path::PathBuf;
use std::sync::Arc;

pub use cors::BucketCors;
pub use key_ring::{KeyFigures, KeyRefusal, KeyState, RewrapFigures, RewrapRun};
pub use key_walk::{FolderItems, WalkedKey, WalkedKeys};
pub use logging::{LogDelivery, LoggedBucket};
pub use padded_response::PaddingTimes;
pub use quota::QuotaLimit;
pub use replication::{ReplicatedVersion, ReplicationProgress, ReplicationTargets};
pub use shown_ring::{ShownKey, ShownRing};
pub use table::{AuditScope, actions, audit_scope};
pub use website::{BucketWebsite, WebsiteObject};

pub use lifecycle_figures::{LifecycleFigures, LifecycleTotals, NextSweep};
pub use lifecycle_preview::{DueExpiry, LifecycleEffect, LifecyclePreview, PreviewCount, RulePreview};
pub use lifecycle_sweep::{ExpiredItem, LifecycleSweeper, PlannedSweep, SweepTotals, abort_idle_uploads};

use crate::auth::{Action, Authorized, Identity};
use crate::base::{Budget, Md5Pool, Reservation};
use crate::keys::SharedKeyRing;
use crate::s3::{Call, ObjectOwnership, RequestId, Response, S3Error};
pub use crate::store::{
    BadFile, BucketSize, BucketUsage, ClockFigures, CommitFigures, CopyFindings, DamagedObject, DaySizes,
    FastDiskFigures, FollowerFigures, Health, History, HistorySample, RemoteProbed, RepairFigures,
    RequestFigures, ShipFigures, StandbyFigures, TierFigures, Usage,
};
use crate::store::{Cause, CauseScope, Store};
use crate::xml::Writer;
pub use bucket_marks::BucketMarks;
use table::Function;

/// The namespace of the documents of S3.
const S3_NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";
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
    /// The mirrors; `None` where rules of buckets may name none of them.
    pub replication: Option<Arc<dyn ReplicationTargets>>,
    /// The keys of encrypted objects; the store has the same.
    pub keys: Arc<SharedKeyRing>,
    /// The absolute path of the file of the keys, where they have one.
    pub ring_file: Option<PathBuf>,
    /// Whether the file of the keys is on the disk of the data.
    pub ring_is_with_data: bool,
    /// Whether objects are encrypted also where neither they nor their bucket ask for it.
    pub encrypt_objects: bool,
    /// Whether customers may send their keys over plain HTTP from other hosts.
    pub takes_keys_over_http: bool,
}

impl Context {
    /// Operations on a store, with the settings of a server without options.
    pub fn new(store: Arc<Store>, region: String, md5: Md5Pool, memory: Arc<Budget>) -> Self {
        Self {
            store,
            region,
            any_region: false,
            namespace: S3_NAMESPACE.to_owned(),
            padding: PaddingTimes::default(),
            entity_tags: EntityTags::default(),
            md5,
            object_ownership: ObjectOwnership::default(),
            memory,
            webhooks: Vec::new(),
            replication: None,
            keys: Arc::default(),
            ring_file: None,
            ring_is_with_data: false,
            encrypt_objects: false,
            takes_keys_over_http: false,
        }
    }

    /// Runs the function that the table has for the operation of `call`.
    ///
    /// # Errors
    /// Errors of the operation; `AccessDenied` for a bucket whose owner is not the one that `call`
    /// expects.
    pub fn dispatch(&self, proof: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
        encryption::check_connection(self, call)?;
        owner::check_target(self, call)?;
        new_object::check_time_is_of_use(call)?;
        let _scope = CauseScope::enter(self.cause(proof, call));
        match table::row(call.operation).function {
            Function::OnBody(run) => run(self, proof, call),
            Function::OnHead(run) => run(self, proof, call),
        }
    }

    /// The proof that the sender of `call` may do its operation.
    ///
    /// # Errors
    /// `AccessDenied`.
    pub fn authorize(&self, identity: &Identity, call: &Call<'_>) -> Result<Authorized, S3Error> {
        let actions = actions(call.operation, call.query.has("versionId"));
        let resource = access::resource(call, table::row(call.operation).is_listing);
        self.authorize_for(identity, call, actions, resource)
    }

    /// The value that the operation of `call` changes, as it is now; `None` if there is none.
    /// Concurrent changes may come between this value and the operation.
    pub fn audited_state(&self, call: &Call<'_>) -> Option<String> {
        audit::state(self, call, table::row(call.operation).audited_value)
    }

    /// The request as the cause of its commits, where a follower of the log reads it.
    fn cause(&self, proof: &Authorized, call: &Call<'_>) -> Option<Arc<Cause>> {
        if !self.store.has_followers() {
            return None;
        }
        Some(Arc::new(Cause {
            origins: self.origins(proof, call),
            operation: call.operation.as_str().to_owned(),
            user: proof.user().to_owned(),
            address: call.request.peer.map_or_else(String::new, |peer| peer.ip().to_string()),
            request: call.id.as_str().to_owned(),
            ..Cause::default()
        }))
    }

    /// The stores that a mirror states its change to come from. Without the permission it is a
    /// change like any other.
    fn origins(&self, proof: &Authorized, call: &Call<'_>) -> Vec<String> {
        let vendor = call.vendor();
        let Some(stated) = vendor.get(STATED_ORIGIN).and_then(|value| std::str::from_utf8(value).ok()) else {
            return Vec::new();
        };
        let stated = stated.split(',').map(str::trim);
        let ids =
            stated.filter(|id| id.len() == ORIGIN_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let ids: Vec<_> = ids.map(str::to_owned).collect();
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
