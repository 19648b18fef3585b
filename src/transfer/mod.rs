//! Copies of objects to other S3 servers: the requests to a bucket with their repetition, listings,
//! attributes, and uploads that are compared with the digests that the server answers. The tools
//! import and export with it, and mirrors follow with it.

mod attributes;
mod bucket;
mod lenient;
mod listing;
mod peer;
mod upload;

pub use attributes::{
    Loss, MTIME, PeerStore, PeerVersioning, StoredAttributes, StoredChecksums, Tags, attributes_of,
    attributes_with, checked_attributes_of, has_time, is_of_client_key, put_tags, store_of, tags_of,
    takes_client_key, versions_state, with_tags, without_tags,
};
pub use bucket::{enable_versions, make_bucket, make_tagged_bucket};
pub use listing::{
    NewestVersions, PeerKey, PeerVersion, bucket_names, has_bucket, newest_versions_of, versions_of,
    visit_keys,
};
pub use peer::{Header, Peer, PeerCall, PeerError, PeerLink, attempts, passing};
pub use upload::{ObjectUpload, Origin, SendBody, UploadChecksum, UploadShape, abort_uploads, bare};
