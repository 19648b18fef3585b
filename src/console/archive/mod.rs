//! Several objects as one archive, read one after the other while it is sent. Its length is known
//! before it begins; what cannot be read as announced ends the connection.

mod entry_names;
mod tar;
mod zip;

use std::io;
use std::sync::Arc;

use super::s3_client::{RequestSender, S3Request, target};
use super::{Console, Visitor};
pub(super) use entry_names::{EntryNames, NameRules};
use tar::TarLayout;
use zip::ZipLayout;

use crate::auth::{Authenticator, EnteredKey};
use crate::base::Reservation;
use crate::s3::{BodySource, Method, Response, ResponseBody};
use crate::service::Service;

/// The formats of archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArchiveFormat {
    Tar,
    Zip,
}

impl ArchiveFormat {
    /// The format with the extension `name`.
    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Tar, Self::Zip].into_iter().find(|format| format.extension() == name)
    }

    /// The end of the names of its files.
    pub(super) fn extension(self) -> &'static str {
        match self {
            Self::Tar => "tar",
            Self::Zip => "zip",
        }
    }

    /// Its Content-Type.
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Tar => "application/x-tar",
            Self::Zip => "application/zip",
        }
    }

    /// The systems that its names are for: Windows opens zip archives, and few tar archives.
    pub(super) fn name_rules(self) -> NameRules {
        match self {
            Self::Tar => NameRules::Posix,
            Self::Zip => NameRules::Windows,
        }
    }

    fn layout(self) -> Box<dyn ArchiveLayout> {
        match self {
            Self::Tar => Box::new(TarLayout::default()),
            Self::Zip => Box::new(ZipLayout::default()),
        }
    }
}

/// An entry: a file, or a directory, whose name ends in a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArchiveEntry {
    pub(super) name: String,
    pub(super) size: u64,
    /// Seconds since 1970.
    pub(super) modified_secs: u64,
}

impl ArchiveEntry {
    fn is_directory(&self) -> bool {
        self.name.ends_with('/')
    }
}

/// The bytes of an archive around its contents, in order. Their lengths depend on the entries
/// alone, so that the length of an archive is known without its contents.
trait ArchiveLayout: Send {
    /// Begins an entry: the bytes before its content.
    fn before(&mut self, entry: ArchiveEntry) -> Vec<u8>;

    /// Takes note of the next bytes of the content.
    fn pass(&mut self, content: &[u8]);

    /// The bytes after the content.
    fn after(&mut self) -> Vec<u8>;

    /// The next bytes after all entries; `None` at the end of the archive.
    fn end(&mut self) -> Option<Vec<u8>>;
}

/// The length of an archive.
fn length(format: ArchiveFormat, objects: &[ArchivedObject]) -> u64 {
    let mut layout = format.layout();
    let mut length = 0;
    for object in objects {
        length += layout.before(object.entry.clone()).len() as u64;
        length += object.entry.size;
        length += layout.after().len() as u64;
    }
    while let Some(bytes) = layout.end() {
        length += bytes.len() as u64;
    }
    length
}

/// An object of an archive, as it was when the archive was put together.
pub(super) struct ArchivedObject {
    pub(super) key: String,
    pub(super) version: Option<String>,
    pub(super) etag: String,
    pub(super) entry: ArchiveEntry,
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
    layout: Box<dyn ArchiveLayout>,
    /// Bytes that come next, from this position.
    pending: (Vec<u8>, usize),
    content: Option<ObjectContent>,
}

/// The rest of the object that is being sent.
struct ObjectContent {
    source: Box<dyn BodySource>,
    left: u64,
    _held: Reservation,
}

impl ArchiveSource {
    /// An archive of objects of a bucket, and its length in bytes.
    pub(super) fn new(
        console: &Console,
        visitor: &Visitor,
        sender: RequestSender,
        bucket: &str,
        format: ArchiveFormat,
        objects: Vec<ArchivedObject>,
    ) -> (Self, u64) {
        let length = length(format, &objects);
        let source = Self {
            service: Arc::clone(&console.service),
            authenticator: Arc::clone(&console.authenticator),
            user_key: visitor.key.clone(),
            sender,
            bucket: bucket.to_owned(),
            objects: objects.into_iter(),
            layout: format.layout(),
            pending: (Vec::new(), 0),
            content: None,
        };
        (source, length)
    }

    /// Begins the next entry, or the next bytes of the end; `false` after them.
    fn begin_next(&mut self) -> io::Result<bool> {
        let Some(object) = self.objects.next() else {
            let Some(bytes) = self.layout.end() else {
                return Ok(false);
            };
            self.pending = (bytes, 0);
            return Ok(true);
        };
        self.content = Some(self.open(&object)?);
        self.pending = (self.layout.before(object.entry), 0);
        Ok(true)
    }

    /// Reads an object that must be the one that was announced.
    fn open(&self, object: &ArchivedObject) -> io::Result<ObjectContent> {
        if object.entry.size == 0 {
            return Ok(ObjectContent {
                source: Box::new(ReadyBytes::default()),
                left: 0,
                _held: Reservation::default(),
            });
        }
        let target =
            target(Some(&self.bucket), Some(&object.key)).map_err(|error| self.cut(&error.message))?;
        let query: Vec<_> = object.version.iter().map(|version| ("versionId", &**version)).collect();
        // The length of the archive was announced with the size of that version.
        let headers = [("if-match", &*object.etag)];
        let request = S3Request { query: &query, headers: &headers, body: Vec::new() };
        let request = self.sender.request(Method::Get, &target, request);
        // For each object: a key that ends while an archive is sent reads no further.
        let identity = self.authenticator.identity_of(&self.user_key, &request);
        let identity = identity.ok_or_else(|| self.cut("the key of its user has ended"))?;
        let response = self.service.handle_as(&identity, target, request);
        let response = response.complete_deferred().map_err(|error| self.cut(&error.message))?;
        let Response { status: 200, body, held, .. } = response else {
            return Err(self.cut("an object was changed or cannot be read any more"));
        };
        let size = object.entry.size;
        if body.len() != Some(size) {
            return Err(self.cut("an object has another size than before"));
        }
        let source: Box<dyn BodySource> = match body {
            ResponseBody::Stream { source, .. } => source,
            ResponseBody::Bytes(bytes) => Box::new(ReadyBytes(io::Cursor::new(bytes))),
            ResponseBody::Empty | ResponseBody::Deferred(_) => {
                return Err(self.cut("an object has no content"));
            }
        };
        Ok(ObjectContent { source, left: size, _held: held })
    }

    fn cut(&self, reason: &str) -> io::Error {
        log::warn!("an archive of the bucket {} was cut: {reason}", self.bucket);
        io::Error::other(reason.to_owned())
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
                self.layout.pass(&buf[..read]);
                return Ok(read);
            }
            // The source verifies its end.
            if content.source.read(&mut buf[..1])? != 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.pending = (self.layout.after(), 0);
            self.content = None;
        }
    }
}

/// A body in memory.
#[derive(Default)]
struct ReadyBytes(io::Cursor<Vec<u8>>);

impl BodySource for ReadyBytes {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        io::Read::read(&mut self.0, buf)
    }
}
