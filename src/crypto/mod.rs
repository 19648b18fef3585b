//! Floor 1: the keys of encrypted objects, and the only place that encrypts and decrypts their
//! bytes (data-format.md, section 20). AES-256-GCM and HKDF-SHA-256 are those of the crate `ring`.
//!
//! Each key of AES-256-GCM here is derived with a salt of its own. A [`PackageCipher`] encrypts the
//! packages of one write, numbered from 0, and nothing else; every other derived key encrypts once.

mod cipher;
mod keys;

pub use cipher::{PackageCipher, SALT_BYTES, SEALED_KEY_BYTES, TAG_BYTES, WRITE_KEY, WrapScope};
pub use cipher::{open_digests, seal_digests, unwrap_key, wrap_key, write_key};
pub use keys::{DataKey, KeyReach, KeySource, MasterKey, NamedKey};
