//! The drives that MinIO left behind, read and never written.
//!
//! The order of reading, each step on what the former one found:
//!
//! 1. `drive.rs` opens a directory; `layout.rs` finds the place of each drive in its set, by
//!    `.minio.sys/format.json` or by what the drives hold.
//! 2. `walk.rs` finds the keys of a bucket: a directory with `xl.meta` or `xl.json`, or in FS mode a
//!    plain file.
//! 3. `versions.rs` reads the metadata of a key on all drives, and decides by majority which
//!    versions there are. A plain file of FS mode has one: `plain.rs`.
//! 4. `secrets.rs` reads the keys that the operator has; `facts.rs` tells what a version is to its clients: length, entity tag, headers, tags, locks.
//! 5. `content.rs` reads the bytes: shards, verified and rebuilt, then decrypted and decompressed.
//!    What is damaged goes to `damage.rs`. `lost.rs` reads parts without metadata.
//! 6. `system.rs` reads MinIO's own objects: the configurations of buckets, and for `iam.rs` users.
//!
//! `format` has the formats themselves, as functions from bytes to values. Each of its modules tells
//! the facts that it relies on. None of them reads a file.

pub(crate) mod content;
pub(crate) mod damage;
pub(crate) mod drive;
pub(crate) mod facts;
pub(crate) mod format;
pub(crate) mod iam;
pub(crate) mod layout;
pub(crate) mod lost;
pub(crate) mod plain;
#[cfg(test)]
mod samples;
pub(crate) mod secrets;
pub(crate) mod system;
pub(crate) mod versions;
pub(crate) mod walk;
