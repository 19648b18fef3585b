//! The remote: a bucket and prefix on another S3 server, where segments and pieces of the log are
//! kept.
//!
//! Objects there have names below the prefix. None is ever overwritten with other bytes: a repeated
//! put sends the same ones. This module sees neither segments nor the log; `store` decides which
//! objects there are, and when they go.

mod encrypted;
mod mark;
pub mod probe;
mod requests;
mod s3;
mod settings;
pub mod sim;

pub use encrypted::{EncryptedRemote, EncryptionKey, EncryptionKeys};
pub use mark::read_mark;
pub use requests::{RemoteCall, RequestFigures, RequestsByCall};
pub use s3::S3Remote;
pub use settings::RemoteSettings;

use std::fmt;
use std::io;
use std::ops::Range;
use std::time::Duration;

use crate::base::digest::Md5;

/// Bytes that a comparison reads at a time.
const COMPARED_AT_ONCE: u64 = 1024 * 1024;

/// The objects of a remote, to be read. PUT, GET, HEAD and DELETE of one name are linearizable
/// where the remote's probe found it.
///
/// Each call takes `within`: the longest time that it holds its thread, tries and waits together.
/// After it the call fails with [`RemoteError::Unavailable`], and an effect of it can still land
/// later.
pub trait RemoteView: Send + Sync {
    /// The calls that are worth making at a time, by threads of the caller, where many answers are
    /// wanted.
    fn calls_at_once(&self) -> usize {
        1
    }

    /// The attributes of the object `name`; `None` where there is none.
    ///
    /// # Errors
    /// As [`RemoteError`] says.
    fn head(&self, name: &str, within: Duration) -> Result<Option<RemoteObject>, RemoteError>;

    /// The bytes of `range` of the object `name`, as far as the object has them; for an empty range
    /// its length alone. The caller bounds the range by its memory.
    ///
    /// # Errors
    /// [`RemoteError::Missing`] where there is no such object; [`RemoteError::Wrong`] where it ends
    /// before the range begins, and where the answer has another range or length.
    fn get_part(&self, name: &str, range: Range<u64>, within: Duration) -> Result<ObjectPart, RemoteError>;

    /// The bytes of `range` of the object `name`: exactly as many as the range has.
    ///
    /// # Errors
    /// As of [`RemoteView::get_part`].
    fn get(&self, name: &str, range: Range<u64>, within: Duration) -> Result<Vec<u8>, RemoteError> {
        let part = self.get_part(name, range.clone(), within)?;
        if part.bytes.len() as u64 == range.end.saturating_sub(range.start) {
            return Ok(part.bytes);
        }
        let length = part.object_length;
        Err(RemoteError::Wrong(format!("{name} has {length} bytes, and {range:?} was asked for")))
    }

    /// As [`RemoteView::get`], but returns when the bytes begin to come: they are read from the
    /// stream.
    ///
    /// # Errors
    /// As of [`RemoteView::get_part`].
    fn open_stream(&self, name: &str, range: Range<u64>, within: Duration)
    -> Result<PartStream, RemoteError>;

    /// Compares the object on the remote with its bytes here, by HEAD: its length, its nonce, its
    /// MD5.
    ///
    /// # Errors
    /// [`RemoteError::Missing`], and [`RemoteError::Wrong`] where they differ.
    fn compare(&self, object: &NewObject<'_>, within: Duration) -> Result<Comparison, RemoteError> {
        let found = self.head(object.name, within)?;
        object.compare(found, || md5_of_body(object.body).map_err(RemoteError::Body))
    }

    /// Up to 1,000 objects with names that begin with `prefix` and come after `after`, in the order
    /// of their names. They have no nonce.
    ///
    /// # Errors
    /// As [`RemoteError`] says.
    fn list(&self, prefix: &str, after: &str, within: Duration) -> Result<Vec<RemoteObject>, RemoteError>;

    /// The requests since this remote was made.
    fn requests(&self) -> RequestsByCall;
}

/// The objects of a remote, to be read and changed. The store hands out a [`RemoteView`], and
/// changes objects by the epoch that it holds.
pub trait Remote: RemoteView {
    /// Stores an object. Every try sends the same bytes. On return the remote has answered with
    /// success for all of them.
    ///
    /// # Errors
    /// [`RemoteError::Exists`] where [`NewObject::create_only`] is set and the name is taken by an
    /// object with another nonce; the others of [`RemoteError`].
    fn put(&self, object: &NewObject<'_>, within: Duration) -> Result<RemoteObject, RemoteError>;

    /// As [`Remote::put`] and then [`RemoteView::compare`]. The bytes may be read once for the
    /// digests of both.
    ///
    /// # Errors
    /// Errors of both.
    fn put_and_compare(&self, object: &NewObject<'_>, within: Duration) -> Result<Comparison, RemoteError> {
        self.put(object, within)?;
        self.compare(object, within)
    }

    /// Deletes the object `name`. An object that is not there counts as deleted.
    ///
    /// # Errors
    /// As [`RemoteError`] says.
    fn delete(&self, name: &str, within: Duration) -> Result<(), RemoteError>;
}

/// An object to be stored on a remote.
pub struct NewObject<'b> {
    /// The name below the remote's prefix: ASCII letters, digits, `-` and `/`.
    pub name: &'b str,
    /// The bytes.
    pub body: &'b dyn Body,
    /// Names this put, and is kept with the object: it distinguishes an own put whose answer was
    /// lost from another writer's.
    pub nonce: &'b str,
    /// Whether the put fails where the name is taken (`If-None-Match: *`).
    pub create_only: bool,
}

impl NewObject<'_> {
    /// Compares the object with the attributes that the remote states. `md5` is asked for the
    /// MD5 of the bytes here, where the remote states one.
    fn compare(
        &self,
        found: Option<RemoteObject>,
        md5: impl FnOnce() -> Result<[u8; 16], RemoteError>,
    ) -> Result<Comparison, RemoteError> {
        let Self { name, body, nonce, .. } = self;
        let found = found.ok_or(RemoteError::Missing)?;
        if found.length != body.length() || found.nonce.as_deref() != Some(nonce) {
            let length = found.length;
            let found = found.nonce;
            let why = format!("{name} has {length} bytes and nonce {found:?} after it was put");
            return Err(RemoteError::Wrong(why));
        }
        match found.md5 {
            None => Ok(Comparison::NoDigest),
            Some(found) if found == md5()? => Ok(Comparison::Equal),
            Some(_) => Err(RemoteError::Wrong(format!("{name} has another MD5 than the bytes here"))),
        }
    }
}

/// Bytes that can be read more than once: for their digests, and for each try.
pub trait Body: Sync {
    /// The number of bytes.
    fn length(&self) -> u64;

    /// Fills `buffer` with the bytes at `offset`.
    ///
    /// # Errors
    /// Errors of the disk; `UnexpectedEof` beyond the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl Body for &[u8] {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let bytes = start
            .checked_add(buffer.len())
            .and_then(|end| self.get(start..end))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

fn md5_of_body(body: &dyn Body) -> io::Result<[u8; 16]> {
    let mut md5 = Md5::new();
    let mut buffer = vec![0; COMPARED_AT_ONCE.min(body.length()) as usize];
    let mut at = 0;
    while at < body.length() {
        let count = (buffer.len() as u64).min(body.length() - at);
        let piece = &mut buffer[..count as usize];
        body.read_at(at, piece)?;
        md5.update(piece);
        at += count;
    }
    Ok(md5.finish())
}

/// Bytes of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectPart {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The length of the whole object.
    pub object_length: u64,
}

/// Bytes of an object that come while they are read.
pub struct PartStream {
    /// The length of the whole object.
    pub object_length: u64,
    /// The bytes: as many as were asked for, as far as the object has them.
    pub bytes: Box<dyn PartBytes>,
}

/// The source of a [`PartStream`]. After an error it has ended.
pub trait PartBytes: Send {
    /// Fills `buffer` with the next bytes.
    ///
    /// # Errors
    /// [`RemoteError::Unavailable`] where they do not come within that time; [`RemoteError::Wrong`]
    /// beyond the last one, and for bytes that are not the object's.
    fn read(&mut self, buffer: &mut [u8], within: Duration) -> Result<(), RemoteError>;
}

/// The result of a comparison of an object with its bytes here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Its length, its nonce and its MD5 match the bytes.
    Equal,
    /// Its length and its nonce do; the remote states no MD5.
    NoDigest,
}

/// The attributes of an object on a remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteObject {
    /// Its name below the prefix.
    pub name: String,
    /// Its length in bytes.
    pub length: u64,
    /// The nonce of the put that stored it.
    pub nonce: Option<String>,
    /// The MD5 of its bytes, where the entity tag is one.
    pub md5: Option<[u8; 16]>,
}

/// Why a call to the remote failed.
#[derive(Debug)]
pub enum RemoteError {
    /// The name is taken (412).
    Exists,
    /// There is no such object (404).
    Missing,
    /// The remote is not reached, or answers 500, 503 or 429, or stays silent, for as long as the
    /// call may take; or its calls failed lately and this one was not tried.
    Unavailable(String),
    /// The remote has no space, or its quota is reached.
    Full(String),
    /// The remote refuses: credentials, permissions, a missing bucket, a bucket that cannot be
    /// written.
    Refused(String),
    /// The answer contradicts the request: another length, range or digest.
    Wrong(String),
    /// The body could not be read from the own disk.
    Body(io::Error),
}

impl RemoteError {
    /// The meaning of an answer with an error status.
    fn of_status(status: u16, message: &str) -> Self {
        let text = format!("the remote answers {status}: {message}");
        match status {
            412 => Self::Exists,
            404 => Self::Missing,
            507 => Self::Full(text),
            // 409 is the answer to a conditional put that met another write under way: the next try
            // learns who won.
            409 | 429 | 500..=599 => Self::Unavailable(text),
            _ => Self::Refused(text),
        }
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists => f.write_str("the name is taken"),
            Self::Missing => f.write_str("there is no such object"),
            Self::Unavailable(why) | Self::Full(why) | Self::Refused(why) | Self::Wrong(why) => {
                f.write_str(why)
            }
            Self::Body(error) => write!(f, "the own copy cannot be read: {error}"),
        }
    }
}

impl std::error::Error for RemoteError {}
