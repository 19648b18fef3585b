//! Floor 2: the data directory encrypted, below all formats (data-format.md, "The encrypted data
//! directory"). [`EncryptedFs`] is a disk around the disk: what stands above it reads and writes as
//! ever, and every file on the disk is a page in the clear and AES-256-XTS.
//!
//! The key of the directory is in the files [`KEYS`](crate::format::KEYS), wrapped for each of its
//! secrets. [`open_disk`] is the door for all who use a data directory, encrypted or not.

mod convert;
mod encrypted_file;
mod encrypted_fs;
mod error;
mod file_cipher;
mod file_start;
mod keys;
mod open;
mod secret;
mod xts;

#[cfg(test)]
mod tests;

pub use convert::{ConversionReport, convert};
pub use encrypted_fs::EncryptedFs;
pub use error::VaultError;
pub use file_cipher::StoreKey;
pub use keys::{DirectoryKeys, KeyRequest, KeysFault};
pub use open::{
    copy_keys, create_disk, create_key, is_encrypted, keys_of, level_keys, newest_keys, open_disk,
    open_disk_with, replace_keys, take_newer_keys,
};
pub use secret::{StoreSecret, is_inside};
