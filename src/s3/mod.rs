//! The protocol: messages, dialects, names, conditions, checksums, errors. Independent of sockets
//! and of the store.

pub mod access_block;
pub mod acl;
pub mod bucket_encryption;
pub mod call;
pub mod checksum;
pub mod conditions;
pub mod copy_source;
pub mod cors;
pub mod dialect;
mod elements;
pub mod encryption;
pub mod error;
pub mod form;
pub mod hoisted;
pub mod integrity;
pub mod lifecycle;
pub mod logging;
pub mod message;
pub mod metadata;
pub mod names;
pub mod notification;
pub mod object_lock;
pub mod operation;
pub mod ownership;
pub mod query;
pub mod query_call;
pub mod range;
pub mod render;
pub mod replication;
pub mod route;
mod rule_filter;
pub mod status;
pub mod tags;
pub mod uri;
pub mod website;
mod xml_configuration;

pub use access_block::PublicAccessBlock;
pub use call::{Arrival, Call, NamedObject, RequestId, VersionDeletion};
pub use copy_source::CopySourceHeader;
pub use dialect::{Dialect, VendorHeaders};
pub use error::{ErrorCode, S3Error};
pub use message::{
    Body, BodyRead, BodySource, Client, DeferredWork, Handler, Headers, Method, Request, Response,
    ResponseBody,
};
pub use names::{BucketName, ObjectKey};
pub use operation::Operation;
pub use ownership::ObjectOwnership;
pub use query::QueryParams;
pub use query_call::CallError;
pub use route::TargetResource;
pub use xml_configuration::XmlConfiguration;
