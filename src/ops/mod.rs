//! Floor 4: S3 meets the store. An operation takes a call and the proof that its sender may make it, and yields a
//! response that names vendor headers `p-...`.

mod attributes;
mod body;
mod buckets;
mod checksums;
mod client_error;
mod copy;
mod delete;
mod get;
mod list;
mod listing;
mod lookup;
mod memory;
mod multipart;
mod new_object;
mod not_configured;
mod owner;
mod padded_response;
mod put;
mod tagging;
mod token;
mod version_id;
mod versioning;
mod versions_list;

use std::sync::Arc;

pub use padded_response::PaddingTimes;

use crate::auth::Authorized;
use crate::base::{Budget, Md5Pool, Reservation};
use crate::s3::{Call, Operation, Response, S3Error};
use crate::store::{Health, Store};
use crate::xml::Writer;

/// What the entity tag of an object is that is put in one piece. Parts, and so the objects made of them, have MD5s always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EntityTags {
    /// The MD5 of its bytes, which many clients compare with their own.
    #[default]
    Md5,
    /// The CRC-32 that is computed anyway, as `<hex>-1`, which clients take for no MD5. It spares a weak processor the MD5;
    /// but 32 bits are no proof that two objects are the same, least of all to conditions (`If-Match`).
    Crc,
}

/// What all operations work with.
pub struct Context {
    /// The engine.
    pub store: Arc<Store>,
    /// The region that buckets are in.
    pub region: String,
    /// The namespace of the documents that are answered; empty for none.
    pub namespace: String,
    /// For how long a client that completes a multipart upload is left without a byte.
    pub padding: PaddingTimes,
    /// The entity tags of what is put.
    pub entity_tags: EntityTags,
    /// What works out the MD5s of large bodies.
    pub md5: Md5Pool,
    /// What requests reserve their memory from.
    pub memory: Arc<Budget>,
}

impl Context {
    /// Does what `call` asks for. This is the only place where an operation is chosen.
    ///
    /// # Errors
    /// Those of the operation, and `AccessDenied` for a bucket that belongs to another than `call` expects.
    pub fn dispatch(&self, proof: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
        owner::check_target(self, call)?;
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
            Operation::GetBucketCors
            | Operation::GetBucketEncryption
            | Operation::GetBucketLifecycleConfiguration
            | Operation::GetBucketOwnershipControls
            | Operation::GetBucketPolicy
            | Operation::GetBucketReplication
            | Operation::GetBucketTagging
            | Operation::GetBucketWebsite
            | Operation::GetObjectLockConfiguration
            | Operation::NotServed => not_configured::respond(self, proof, call),
        }
    }

    /// How the store is, for whoever watches over it.
    pub fn health(&self) -> Health {
        self.store.health()
    }

    /// Begins a document that is answered and may be long. It has room for what was reserved, so that it never has to move.
    fn long_document(&self, root: &str, reserved: &Reservation) -> Writer {
        let namespace = (!self.namespace.is_empty()).then_some(self.namespace.as_str());
        Writer::with_capacity(root, namespace, reserved.bytes() as usize)
    }

    /// Begins a document that is answered.
    fn document(&self, root: &str) -> Writer {
        self.long_document(root, &Reservation::default())
    }
}
