//! Several objects as one tar archive, read one after the other while it is sent. Its length is
//! known before it begins; what cannot be read as announced ends the connection.

use std::io;
use std::sync::Arc;

use super::s3_client::{RequestSender, S3Request, target};
use super::tar::{TAR_END, TarEntry, padding};
use super::{Console, Visitor};
use crate::auth::{Authenticator, EnteredKey};
use crate::base::Reservation;
use crate::s3::{BodySource, Method, Response, ResponseBody};
use crate::service::Service;

/// An object of an archive, as it was when the archive was put together.
pub(super) struct ArchivedObject {
    pub(super) key: String,
    pub(super) version: Option<String>,
    pub(super) etag: String,
    pub(super) entry: TarEntry,
}

/// The bytes of an archive.
pub(super) struct ArchiveSource {
    service: Arc<Service>,
    authenticator: Arc<Authenticator>,
    /// The key whose user reads. After its end the archive ends, too.
    user_key: EnteredKey,
    sender: RequestSender,
    bucket: String,
    objects: std::vec::IntoIter<ArchivedObject>,
    /// Bytes that come next, from this position.
    pending: (Vec<u8>, usize),
    content: Option<ObjectContent>,
    has_end: bool,
}

/// The rest of the object that is being sent.
struct ObjectContent {
    source: Box<dyn BodySource>,
    left: u64,
    padding: usize,
    _held: Reservation,
}

impl ArchiveSource {
    /// An archive of objects of a bucket, and its length in bytes.
    pub(super) fn new(
        console: &Console,
        visitor: &Visitor,
        sender: RequestSender,
        bucket: &str,
        objects: Vec<ArchivedObject>,
    ) -> (Self, u64) {
        let length = objects.iter().map(|object| object.entry.len()).sum::<u64>() + TAR_END.len() as u64;
        let source = Self {
            service: Arc::clone(&console.service),
            authenticator: Arc::clone(&console.authenticator),
            user_key: visitor.key.clone(),
            sender,
            bucket: bucket.to_owned(),
            objects: objects.into_iter(),
            pending: (Vec::new(), 0),
            content: None,
            has_end: false,
        };
        (source, length)
    }

    /// Begins the next entry, or the end; `false` after it.
    fn begin_next(&mut self) -> io::Result<bool> {
        let Some(object) = self.objects.next() else {
            if std::mem::replace(&mut self.has_end, true) {
                return Ok(false);
            }
            self.pending = (TAR_END.to_vec(), 0);
            return Ok(true);
        };
        if object.entry.size > 0 {
            self.content = Some(self.open(&object)?);
        }
        self.pending = (object.entry.header(), 0);
        Ok(true)
    }

    /// Reads an object that must be the one that was announced.
    fn open(&self, object: &ArchivedObject) -> io::Result<ObjectContent> {
        let failed = |reason: &str| {
            log::warn!("an archive of the bucket {} was cut: {reason}", self.bucket);
            io::Error::other(reason.to_owned())
        };
        let identity = self.authenticator.identity_of(&self.user_key);
        let identity = identity.ok_or_else(|| failed("the key of its user has ended"))?;
        let target = target(Some(&self.bucket), Some(&object.key)).map_err(|error| failed(&error.message))?;
        let query: Vec<_> = object.version.iter().map(|version| ("versionId", &**version)).collect();
        let headers = [("if-match", &*object.etag)];
        let request = S3Request { query: &query, headers: &headers, body: Vec::new() };
        let request = self.sender.request(Method::Get, &target, request);
        let response = self.service.handle_as(&identity, target, request);
        let response = response.complete_deferred().map_err(|error| failed(&error.message))?;
        let Response { status: 200, body, held, .. } = response else {
            return Err(failed("an object was changed or cannot be read any more"));
        };
        let size = object.entry.size;
        if body.len() != Some(size) {
            return Err(failed("an object has another size than before"));
        }
        let source: Box<dyn BodySource> = match body {
            ResponseBody::Stream { source, .. } => source,
            ResponseBody::Bytes(bytes) => Box::new(ReadyBytes(io::Cursor::new(bytes))),
            ResponseBody::Empty | ResponseBody::Deferred(_) => {
                return Err(failed("an object has no content"));
            }
        };
        Ok(ObjectContent { source, left: size, padding: padding(size), _held: held })
    }
}

impl BodySource for ArchiveSource {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let (bytes, from) = &mut self.pending;
            if *from < bytes.len() {
                let read = buf.len().min(bytes.len() - *from);
                buf[..read].copy_from_slice(&bytes[*from..*from + read]);
                *from += read;
                return Ok(read);
            }
            let Some(content) = &mut self.content else {
                match self.begin_next()? {
                    true => continue,
                    false => return Ok(0),
                }
            };
            if content.left > 0 {
                let most = usize::try_from(content.left).unwrap_or(usize::MAX).min(buf.len());
                let read = content.source.read(&mut buf[..most])?;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                content.left -= read as u64;
                return Ok(read);
            }
            // The source verifies its end.
            if content.source.read(&mut buf[..1])? != 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.pending = (vec![0; content.padding], 0);
            self.content = None;
        }
    }
}

/// A body in memory.
struct ReadyBytes(io::Cursor<Vec<u8>>);

impl BodySource for ReadyBytes {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        io::Read::read(&mut self.0, buf)
    }
}
