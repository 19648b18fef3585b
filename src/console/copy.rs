//! Copies of objects and versions, onto their own key or another one. No bytes are copied in the
//! log.

use super::objects::{ObjectHead, base64_md5, text_in};
use super::s3_client::{Refusal, Reply, S3Client, S3Request, target};
use crate::s3::{Method, uri};
use crate::xml::Writer;

/// The largest object that CopyObject takes, and the largest part of UploadPartCopy.
const COPY_MAX_BYTES: u64 = 5 << 30;

/// The key of an object in its bucket.
#[derive(Clone, Copy)]
pub(super) struct ObjectPlace<'a> {
    pub(super) bucket: &'a str,
    pub(super) key: &'a str,
}

/// A copy with the tags of its source.
pub(super) struct ObjectCopy<'a> {
    pub(super) source: ObjectPlace<'a>,
    /// The version that is copied; `None` for the current one.
    pub(super) version: Option<&'a str>,
    /// The size and the properties of the source, which must be the same still.
    pub(super) head: &'a ObjectHead,
    pub(super) target: ObjectPlace<'a>,
    /// The content type and the metadata of the copy; `None` for the source's.
    pub(super) metadata: Option<&'a [(String, String)]>,
    /// The condition on the current version at the target: the name of a header and its value.
    pub(super) condition: Option<(&'static str, &'a str)>,
}

impl ObjectCopy<'_> {
    /// Makes the copy. Durable on return.
    ///
    /// # Errors
    /// Errors of CopyObject; for objects over 5 GiB, errors of an upload in parts, which is
    /// aborted.
    pub(super) fn make(&self, s3: &S3Client<'_>) -> Result<(), Refusal> {
        if self.head.size > COPY_MAX_BYTES {
            return self.make_in_parts(s3);
        }
        let source = self.source();
        // The properties that go with the bytes were read before: those of other bytes would not
        // fit.
        let mut lines =
            vec![("x-amz-copy-source", &*source), ("x-amz-copy-source-if-match", &*self.head.etag)];
        if let Some(metadata) = self.metadata {
            lines.push(("x-amz-metadata-directive", "REPLACE"));
            lines.extend(metadata.iter().map(|(name, value)| (&**name, &**value)));
        }
        lines.extend(self.encryption());
        lines.extend(self.condition);
        let request = S3Request { headers: &lines, ..S3Request::default() };
        self.send(s3, Method::Put, request).map(drop)
    }

    /// A copy of S3 takes the encryption of its bucket. Who changes or moves an object here asks
    /// for nothing of the kind, and it stays as encrypted as it was.
    fn encryption(&self) -> impl Iterator<Item = (&str, &str)> {
        self.head.encryption.iter().map(|(name, value)| (&**name, &**value))
    }

    fn source(&self) -> String {
        let bucket = uri::encode_listed(self.source.bucket);
        let key = uri::encode_listed(self.source.key);
        match self.version {
            Some(version) => format!("{bucket}/{key}?versionId={}", uri::encode_query(version)),
            None => format!("{bucket}/{key}"),
        }
    }

    /// Makes the copy by an upload whose parts are ranges of the source.
    fn make_in_parts(&self, s3: &S3Client<'_>) -> Result<(), Refusal> {
        let id = self.begin_upload(s3)?;
        let made = self.copy_parts(s3, &id).and_then(|parts| self.complete(s3, &id, &parts));
        if made.is_err() {
            let query = [("uploadId", &*id)];
            let abort = S3Request { query: &query, ..S3Request::default() };
            // The refusal of the copy is what the page shows. An upload that stays is listed in the
            // settings.
            let _ = self.send(s3, Method::Delete, abort);
        }
        made
    }

    /// Begins an upload with the properties that CopyObject would take over. Returns its id.
    fn begin_upload(&self, s3: &S3Client<'_>) -> Result<String, Refusal> {
        let own = self.head.metadata.iter().map(|(name, value)| (&**name, &**value));
        let mut lines: Vec<_> = match self.metadata {
            Some(metadata) => metadata.iter().map(|(name, value)| (&**name, &**value)).collect(),
            None => own.chain([("content-type", &*self.head.content_type)]).collect(),
        };
        lines.extend(self.encryption());
        let tags = s3.tags(self.source.bucket, self.source.key, self.version)?;
        let tags = uri::encode_pairs(tags.iter().map(|(name, value)| (&**name, &**value)));
        if !tags.is_empty() {
            lines.push(("x-amz-tagging", &tags));
        }
        let request = S3Request { query: &[("uploads", "")], headers: &lines, ..S3Request::default() };
        text_in(&self.send(s3, Method::Post, request)?, "UploadId")
    }

    /// Copies all parts, and returns their entity tags.
    fn copy_parts(&self, s3: &S3Client<'_>, id: &str) -> Result<Vec<String>, Refusal> {
        let source = self.source();
        let mut tags = Vec::new();
        for first in (0..self.head.size).step_by(COPY_MAX_BYTES as usize) {
            let number = (tags.len() + 1).to_string();
            let range = format!("bytes={first}-{}", (first + COPY_MAX_BYTES).min(self.head.size) - 1);
            let query = [("partNumber", &*number), ("uploadId", id)];
            let lines = [
                ("x-amz-copy-source", &*source),
                ("x-amz-copy-source-if-match", &*self.head.etag),
                ("x-amz-copy-source-range", &*range),
            ];
            let request = S3Request { query: &query, headers: &lines, ..S3Request::default() };
            tags.push(text_in(&self.send(s3, Method::Put, request)?, "ETag")?);
        }
        Ok(tags)
    }

    fn complete(&self, s3: &S3Client<'_>, id: &str, tags: &[String]) -> Result<(), Refusal> {
        let mut document = Writer::new("CompleteMultipartUpload", None);
        for (number, tag) in (1..).zip(tags) {
            document.element("Part", |part| {
                part.leaf("PartNumber", &u32::to_string(&number));
                part.leaf("ETag", tag);
            });
        }
        let body = document.finish();
        let digest = base64_md5(&body);
        let mut lines = vec![("content-md5", &*digest)];
        lines.extend(self.condition);
        let request = S3Request { query: &[("uploadId", id)], headers: &lines, body };
        let reply = self.send(s3, Method::Post, request)?;
        // A completion that takes long answers 200 before its outcome is known.
        text_in(&reply, "ETag").map(drop)
    }

    fn send(&self, s3: &S3Client<'_>, method: Method, request: S3Request<'_>) -> Result<Reply, Refusal> {
        s3.send(method, target(Some(self.target.bucket), Some(self.target.key))?, request)
    }
}
