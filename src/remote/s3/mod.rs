//! The remote on an S3 server: path-style addresses, header signatures with the hash of the body
//! (S3 API reference, "Authenticating requests: using the Authorization header").

mod answer_bytes;
mod answers;
mod transfer;
mod tries;

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::{Answer, listed};
use crate::remote::settings::RemoteSettings;
use crate::remote::{
    Comparison, NewObject, ObjectPart, PartStream, Remote, RemoteCall, RemoteError, RemoteObject, RemoteView,
    RequestsByCall,
};
use answer_bytes::AnswerBytes;
use answers::{NONCE_HEADER, check_range, error_of, md5_of, md5_of_tag, object_of};
use transfer::DigestedBody;
use tries::{Answered, RemoteLink, RemoteRequest};

/// Requests that are under way at a time where many are wanted: enough for a remote that answers
/// after 30 ms, and their answers, 1 MiB each at most, are in memory together.
const CALLS_AT_ONCE: usize = 32;
/// The longest page of a listing: 1,000 names of 1,024 bytes with their attributes.
const PAGE_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// A remote on an S3 server. Calls may come from many threads; each uses a connection of its own.
pub struct S3Remote {
    link: Arc<RemoteLink>,
    /// The path of the bucket.
    bucket: String,
    /// The prefix of all keys: empty, or with a `/` at its end.
    prefix: String,
}

impl S3Remote {
    /// The remote of these settings. Nothing is connected before the first call.
    ///
    /// # Errors
    /// The URL has another form, or the certificate authorities cannot be read: a message for the
    /// operator.
    pub fn new(settings: &RemoteSettings) -> Result<Self, String> {
        let endpoint = settings.server.unresolved()?;
        let signer = settings.server.signer().signing_bodies(None);
        let link = RemoteLink::new(endpoint, signer, settings.upload_rate, settings.download_rate);
        let link = Arc::new(link);
        let prefix = settings.key_prefix();
        Ok(Self { link, bucket: format!("/{}", settings.bucket), prefix })
    }

    fn path(&self, name: &str) -> Result<String, RemoteError> {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-/".contains(&byte))
        {
            return Err(RemoteError::Refused(format!("{name:?} is not a name of objects")));
        }
        Ok(format!("{}/{}{name}", self.bucket, self.prefix))
    }

    /// An answer without a body that matters.
    fn bare(&self, call: RemoteCall, name: &str, deadline: Instant) -> Result<Answer, RemoteError> {
        let path = self.path(name)?;
        let request = RemoteRequest {
            call,
            path: &path,
            query: &[],
            lines: "",
            signed: &[],
            body: None,
            answer_max: PAGE_MAX_BYTES,
            leaves_body: false,
        };
        self.link.call(&request, deadline).map(|answered| answered.answer)
    }

    /// The answer with a range of an object, as far as the object has it, and the length of the
    /// object.
    fn range(
        &self,
        name: &str,
        range: &Range<u64>,
        leaves_body: bool,
        deadline: Instant,
    ) -> Result<(Answered, u64), RemoteError> {
        let path = self.path(name)?;
        let lines = format!("Range: bytes={}-{}\r\n", range.start, range.end - 1);
        let request = RemoteRequest {
            call: RemoteCall::Get,
            path: &path,
            query: &[],
            lines: &lines,
            signed: &[],
            body: None,
            answer_max: range.end - range.start,
            leaves_body,
        };
        let answered = self.link.call(&request, deadline)?;
        match answered.answer.status {
            200..=299 => {
                let object_length = check_range(&answered.answer, range, answered.answer.len)?;
                Ok((answered, object_length))
            }
            416 => {
                Err(RemoteError::Wrong(format!("{name} has not the bytes {}-{}", range.start, range.end - 1)))
            }
            _ => Err(error_of(&answered.answer)),
        }
    }

    /// Stores an object. Returns the MD5 of the bytes that were sent, too.
    fn put_by(
        &self,
        object: &NewObject<'_>,
        deadline: Instant,
    ) -> Result<(RemoteObject, [u8; 16]), RemoteError> {
        let path = self.path(object.name)?;
        // Before the body is read for its digests, which takes long for a segment.
        self.link.check()?;
        let digested = DigestedBody::new(object.body).map_err(RemoteError::Body)?;
        let condition = if object.create_only { "If-None-Match: *\r\n" } else { "" };
        let lines = format!("Content-MD5: {}\r\n{condition}", digested.content_md5());
        let signed = [(NONCE_HEADER, object.nonce)];
        let request = RemoteRequest {
            call: RemoteCall::Put,
            path: &path,
            query: &[],
            lines: &lines,
            signed: &signed,
            body: Some(&digested),
            answer_max: PAGE_MAX_BYTES,
            leaves_body: false,
        };
        let answer = self.link.call(&request, deadline)?.answer;
        let put = match answer.status {
            200..=299 => {
                let md5 = md5_of(&answer);
                if md5.is_some_and(|md5| md5 != digested.md5) {
                    return Err(RemoteError::Wrong(format!("the remote has other bytes of {}", object.name)));
                }
                let name = object.name.to_owned();
                let nonce = Some(object.nonce.to_owned());
                Ok(RemoteObject { name, length: object.body.length(), nonce, md5 })
            }
            // The own put of an earlier try, whose answer was lost, is answered so, too. The nonce
            // tells it from another host's.
            412 if object.create_only => self.taken(object, deadline),
            _ => Err(error_of(&answer)),
        };
        put.map(|put| (put, digested.md5))
    }

    fn head_by(&self, name: &str, deadline: Instant) -> Result<Option<RemoteObject>, RemoteError> {
        let answer = self.bare(RemoteCall::Head, name, deadline)?;
        match answer.status {
            200 => object_of(name, &answer).map(Some),
            404 => Ok(None),
            _ => Err(error_of(&answer)),
        }
    }

    /// The outcome of a create whose name is taken: an own put, whose answer was lost, has
    /// succeeded.
    fn taken(&self, object: &NewObject<'_>, deadline: Instant) -> Result<RemoteObject, RemoteError> {
        match self.head_by(object.name, deadline)? {
            Some(found)
                if found.nonce.as_deref() == Some(object.nonce) && found.length == object.body.length() =>
            {
                Ok(found)
            }
            Some(_) => Err(RemoteError::Exists),
            None => Err(RemoteError::Unavailable("the name was taken, and is free again".to_owned())),
        }
    }
}

impl RemoteView for S3Remote {
    fn calls_at_once(&self) -> usize {
        CALLS_AT_ONCE
    }

    fn head(&self, name: &str, within: Duration) -> Result<Option<RemoteObject>, RemoteError> {
        self.head_by(name, Instant::now() + within)
    }

    fn get_part(&self, name: &str, range: Range<u64>, within: Duration) -> Result<ObjectPart, RemoteError> {
        let deadline = Instant::now() + within;
        if range.is_empty() {
            let found = self.head_by(name, deadline)?.ok_or(RemoteError::Missing)?;
            return Ok(ObjectPart { bytes: Vec::new(), object_length: found.length });
        }
        let (answered, object_length) = self.range(name, &range, false, deadline)?;
        Ok(ObjectPart { bytes: answered.bytes, object_length })
    }

    fn open_stream(
        &self,
        name: &str,
        range: Range<u64>,
        within: Duration,
    ) -> Result<PartStream, RemoteError> {
        if range.is_empty() {
            return Err(RemoteError::Wrong(format!("no bytes of {name} were asked for")));
        }
        let (answered, object_length) = self.range(name, &range, true, Instant::now() + within)?;
        let bytes = AnswerBytes { link: Arc::clone(&self.link), connection: answered.connection };
        Ok(PartStream { object_length, bytes: Box::new(bytes) })
    }

    fn list(&self, prefix: &str, after: &str, within: Duration) -> Result<Vec<RemoteObject>, RemoteError> {
        let prefix = format!("{}{prefix}", self.prefix);
        let after = format!("{}{after}", self.prefix);
        let query = [
            ("list-type", "2"),
            ("max-keys", "1000"),
            ("prefix", prefix.as_str()),
            ("start-after", after.as_str()),
        ];
        let path = &self.bucket;
        let deadline = Instant::now() + within;
        let request = RemoteRequest {
            call: RemoteCall::List,
            path,
            query: &query,
            lines: "",
            signed: &[],
            body: None,
            answer_max: PAGE_MAX_BYTES,
            leaves_body: false,
        };
        let Answered { answer, bytes: page, .. } = self.link.call(&request, deadline)?;
        if answer.status != 200 {
            return Err(match error_of(&answer) {
                // A listing of nothing is answered with 200 and no names: 404 can only mean the
                // bucket.
                RemoteError::Missing => RemoteError::Refused("the bucket is missing".to_owned()),
                error => error,
            });
        }
        let page =
            String::from_utf8(page).map_err(|_| RemoteError::Wrong("the listing is not UTF-8".to_owned()))?;
        let objects = listed(&page).map_err(RemoteError::Wrong)?;
        let named = objects.into_iter().filter_map(|object| {
            let name = object.key.strip_prefix(&self.prefix)?.to_owned();
            // Whatever a server makes of `start-after`: a caller that goes on after the last name
            // must not come round again.
            (object.key > after).then(|| RemoteObject {
                name,
                length: object.length,
                nonce: None,
                md5: md5_of_tag(&object.etag),
            })
        });
        Ok(named.collect())
    }

    fn requests(&self) -> RequestsByCall {
        self.link.requests.figures()
    }
}

impl Remote for S3Remote {
    fn put(&self, object: &NewObject<'_>, within: Duration) -> Result<RemoteObject, RemoteError> {
        self.put_by(object, Instant::now() + within).map(|(put, _)| put)
    }

    fn put_and_compare(&self, object: &NewObject<'_>, within: Duration) -> Result<Comparison, RemoteError> {
        let deadline = Instant::now() + within;
        let (_, md5) = self.put_by(object, deadline)?;
        object.compare(self.head_by(object.name, deadline)?, || Ok(md5))
    }

    fn delete(&self, name: &str, within: Duration) -> Result<(), RemoteError> {
        let answer = self.bare(RemoteCall::Delete, name, Instant::now() + within)?;
        match (answer.status, error_of(&answer)) {
            (200..=299, _) | (_, RemoteError::Missing) => Ok(()),
            (_, error) => Err(error),
        }
    }
}
