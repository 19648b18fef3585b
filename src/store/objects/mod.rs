//! What callers do with buckets and objects: the methods of [`Store`](crate::store::Store) below
//! the S3 operations.
//!
//! Begin with `versions`: finding, reading, putting, copying and deleting.
//!
//! | File | Job |
//! |---|---|
//! | `buckets`, `versions`, `uploads`, `listings` | the methods, by what they are about |
//! | `writer`, `reader`, `copy` | bytes of bodies to segments and back; the ranges that a copy shares |
//! | `encryption`, `copied_keys`, `rewrap` | keys of encrypted objects, those of copies, and the packages of their bytes |
//! | `quotas`, `usage` | limits, and the content as the index counts it |

pub(super) mod buckets;
pub(super) mod copied_keys;
mod copy;
mod encryption;
pub(super) mod listings;
pub(super) mod quotas;
pub(super) mod reader;
pub(super) mod rewrap;
pub(super) mod uploads;
pub(super) mod usage;
pub(super) mod versions;
pub(super) mod writer;
