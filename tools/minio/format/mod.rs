//! The format on disk, as pure functions from bytes to values: nothing here opens a file or knows
//! this program's own types.

pub(crate) mod assumption;
pub(crate) mod bitrot;
pub(crate) mod bucket_metadata;
pub(crate) mod dare;
pub(crate) mod erasure;
pub(crate) mod format_json;
pub(crate) mod keys;
pub(crate) mod malformed;
pub(crate) mod msgpack;
pub(crate) mod record;
pub(crate) mod s2;
pub(crate) mod sealed_config;
pub(crate) mod version;
pub(crate) mod xl_json;
pub(crate) mod xl_meta;
