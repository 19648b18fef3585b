//! Why a data directory is not opened.

use std::io;

use thiserror::Error;

use crate::format::{KEYS, KEYS_COPY, StoreKeyId};

/// Why an encrypted data directory, or one that was to be, is not opened. Nothing was written.
#[derive(Debug, Error)]
pub enum VaultError {
    /// The disk.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is encrypted, and no secret was named.
    #[error("it is encrypted: name the file with its key or passphrase with --store-key-file")]
    NoSecret,
    /// The passphrase is none of it.
    #[error("the passphrase opens no slot of {KEYS}: it is another one, or its slot was removed")]
    WrongPassphrase,
    /// The key file is none of it.
    #[error(
        "{KEYS} has no slot for the key file {0}: it belongs to another directory, or its slot was removed"
    )]
    NoSlot(StoreKeyId),
    /// The key file names a slot, and does not open it.
    #[error("the key file {0} does not open its slot of {KEYS}: one of the two was changed")]
    WrongKey(StoreKeyId),
    /// The files are encrypted, and the key is gone.
    #[error(
        "{0} is encrypted, and there is neither {KEYS} nor {KEYS_COPY}: put one of them back, from a backup of this directory"
    )]
    KeysMissing(String),
    /// Both files are damaged.
    #[error("neither {KEYS} nor {KEYS_COPY} can be read: {0}")]
    KeysDamaged(String),
    /// The key is that of another directory.
    #[error(
        "{KEYS} and {KEYS_COPY} have the key {key}, and {path} is encrypted with the key {file_key}: put back those of this \
         directory, from a backup of it, or move the file away if it belongs to another one"
    )]
    ForeignKeys {
        /// What they have.
        key: StoreKeyId,
        /// A file of the directory.
        path: String,
        /// The key of that file.
        file_key: StoreKeyId,
    },
    /// The two files have the keys of two directories, and nothing says which one this is.
    #[error(
        "{KEYS} has the key {keys}, {KEYS_COPY} has the key {copy}, and {why}: move the one away that belongs to another directory"
    )]
    TwoKeys {
        /// What `KEYS` has.
        keys: StoreKeyId,
        /// What `KEYS.copy` has.
        copy: StoreKeyId,
        /// Why the files do not tell.
        why: &'static str,
    },
    /// A conversion was cut off.
    #[error(
        "its conversion to an encrypted directory is not finished: run siltstone-tools encrypt again, with the same key"
    )]
    Converting,
    /// A file is not encrypted, where all are to be.
    #[error(
        "{0} is not encrypted, and {KEYS} says that every file is: it was put there by hand, or by another program"
    )]
    PlainFile(String),
    /// A secret was named, and nothing is encrypted.
    #[error(
        "it is not encrypted, although --store-key-file names a key: siltstone-tools encrypt converts it, and --encrypt-store true \
         makes a new one"
    )]
    NotEncrypted,
    /// There is a store already.
    #[error(
        "--encrypt-store: there is a store that is not encrypted: stop the server, and run siltstone-tools encrypt"
    )]
    StoreExists,
    /// A store was to be encrypted without a secret.
    #[error(
        "--encrypt-store: name a file with a key (siltstone-tools store-key create FILE) or a passphrase with --store-key-file"
    )]
    NothingToEncryptWith,
    /// The file named is no secret.
    #[error("it is no key file and no passphrase: {0}")]
    BadSecret(String),
    /// A slot cannot be added or removed.
    #[error("{0}")]
    Slots(String),
}
