//! Buckets, listings and objects, read from the responses of S3.

use std::borrow::Cow;

use super::form::decoded;
use super::s3_client::{Refusal, Reply, S3Client, S3Request, target};
use super::selected_object::SelectedObject;
use crate::base::digest::Md5;
use crate::base::encoded_words;
use crate::s3::{Method, checksum};
use crate::service::WalkedKey;
use crate::xml::{Document, Element, legible};

/// Keys and folders on a page.
pub(super) const PAGE_LEN: &str = "200";
/// Keys of a request that lists a whole prefix.
const WALK_LEN: &str = "1000";
/// Objects of one DeleteObjects.
const DELETIONS_MAX: usize = 1_000;

pub(super) struct BucketLine {
    pub(super) name: String,
    pub(super) created: String,
}

/// A folder: a common prefix.
pub(super) struct FolderLine {
    pub(super) prefix: String,
}

/// An object, a version of it, or a delete marker.
#[derive(Clone)]
pub(super) struct ObjectLine {
    pub(super) key: String,
    pub(super) size: u64,
    pub(super) modified: String,
    /// The time at which a version was stored, where another one is shown.
    pub(super) stored: Option<String>,
    /// The entity tag; empty for a delete marker.
    pub(super) etag: String,
    /// The version; `None` in a listing of current objects.
    pub(super) version: Option<String>,
    pub(super) is_current: bool,
    pub(super) is_marker: bool,
}

impl ObjectLine {
    /// The line as a form selects it.
    pub(super) fn selected(&self) -> SelectedObject {
        SelectedObject { key: self.key.clone(), version: self.version.clone(), etag: Some(self.etag.clone()) }
    }
}

impl From<WalkedKey> for ObjectLine {
    fn from(walked: WalkedKey) -> Self {
        Self {
            key: walked.key,
            size: walked.size,
            modified: walked.modified.to_iso8601(),
            stored: None,
            etag: walked.etag,
            version: None,
            is_current: true,
            is_marker: false,
        }
    }
}

/// A page of a listing.
#[derive(Default)]
pub(super) struct ListingPage {
    pub(super) folders: Vec<FolderLine>,
    pub(super) objects: Vec<ObjectLine>,
    /// Where the next page begins: a token, or a key and a version.
    pub(super) next: Option<(String, Option<String>)>,
}

/// The place in a bucket that a page of a listing shows.
#[derive(Clone, Copy)]
pub(super) struct Folder<'a> {
    pub(super) bucket: &'a str,
    pub(super) prefix: &'a str,
    /// Whether keys are grouped into folders.
    pub(super) is_grouped: bool,
}

/// An object as HEAD describes it.
pub(super) struct ObjectHead {
    pub(super) size: u64,
    pub(super) content_type: String,
    pub(super) modified: String,
    pub(super) etag: String,
    pub(super) version: Option<String>,
    /// Headers that the object was stored with, and its metadata.
    pub(super) metadata: Vec<(String, String)>,
    /// Headers that ask for the encryption that it has.
    pub(super) encryption: Vec<(String, String)>,
    pub(super) retained_until: Option<String>,
    /// The mode of the retention.
    pub(super) retention_mode: Option<String>,
    pub(super) legal_hold: bool,
}

/// An object or a version that is changed or deleted.
pub(super) struct ChangedObject {
    pub(super) key: String,
    pub(super) version: Option<String>,
    /// The entity tag that the object must have.
    pub(super) etag: Option<String>,
}

/// An object that was left as it is, and the reason.
pub(super) struct LeftObject {
    pub(super) key: String,
    pub(super) message: String,
}

/// Headers that are shown as metadata, beside those of the user.
pub(super) const SYSTEM_METADATA: [&str; 7] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "expires",
    "x-amz-website-redirect-location",
    "x-amz-storage-class",
];

/// An unfinished upload.
pub(super) struct UploadLine {
    pub(super) key: String,
    pub(super) id: String,
    pub(super) begun: String,
    /// The name of the user that began it.
    pub(super) initiator: String,
}

/// The first unfinished uploads of a bucket.
pub(super) struct UploadListing {
    pub(super) uploads: Vec<UploadLine>,
    pub(super) has_more: bool,
}

impl S3Client<'_> {
    /// A page of the buckets that the user may list, and the token of the next one.
    pub(super) fn buckets(&self, after: Option<&str>) -> Result<(Vec<BucketLine>, Option<String>), Refusal> {
        let mut query = vec![("max-buckets", PAGE_LEN)];
        query.extend(after.map(|token| ("continuation-token", token)));
        let request = S3Request { query: &query, ..S3Request::default() };
        let reply = self.send(Method::Get, target(None, None)?, request)?;
        let document = document(&reply)?;
        let root = document.root();
        let mut buckets = Vec::new();
        if let Some(listed) = root.child("Buckets").map_err(malformed)? {
            for bucket in listed.all("Bucket") {
                let name = text(bucket, "Name")?;
                let created = text(bucket, "CreationDate")?;
                buckets.push(BucketLine { name, created });
            }
        }
        Ok((buckets, optional(root, "ContinuationToken")?))
    }

    /// A page of the current objects of a folder.
    pub(super) fn objects(&self, folder: Folder<'_>, after: Option<&str>) -> Result<ListingPage, Refusal> {
        let mut query = vec![
            ("list-type", "2"),
            ("encoding-type", "url"),
            ("max-keys", if folder.is_grouped { PAGE_LEN } else { WALK_LEN }),
            ("prefix", folder.prefix),
        ];
        query.extend(folder.is_grouped.then_some(("delimiter", "/")));
        query.extend(after.map(|token| ("continuation-token", token)));
        let reply = self.list(folder.bucket, &query)?;
        let document = document(&reply)?;
        let root = document.root();
        let objects = root.all("Contents").map(object_line).collect::<Result<_, _>>()?;
        let next = optional(root, "NextContinuationToken")?.map(|token| (token, None));
        Ok(ListingPage { folders: folders(root)?, objects, next })
    }

    /// A page of the versions of a folder, delete markers included.
    pub(super) fn versions(
        &self,
        folder: Folder<'_>,
        after: Option<(&str, Option<&str>)>,
    ) -> Result<ListingPage, Refusal> {
        let mut query = vec![
            ("versions", ""),
            ("encoding-type", "url"),
            ("max-keys", PAGE_LEN),
            ("prefix", folder.prefix),
        ];
        query.extend(folder.is_grouped.then_some(("delimiter", "/")));
        if let Some((key, version)) = after {
            query.push(("key-marker", key));
            query.extend(version.map(|version| ("version-id-marker", version)));
        }
        let reply = self.list(folder.bucket, &query)?;
        let document = document(&reply)?;
        let root = document.root();
        let versions = root.children().filter(|it| matches!(it.name(), "Version" | "DeleteMarker"));
        let objects = versions.map(object_line).collect::<Result<_, _>>()?;
        let next = match optional(root, "NextKeyMarker")? {
            Some(key) => Some((decoded(&key)?, optional(root, "NextVersionIdMarker")?)),
            None => None,
        };
        Ok(ListingPage { folders: folders(root)?, objects, next })
    }

    /// The first unfinished uploads of a bucket.
    pub(super) fn uploads(&self, bucket: &str) -> Result<UploadListing, Refusal> {
        let reply =
            self.list(bucket, &[("uploads", ""), ("encoding-type", "url"), ("max-uploads", PAGE_LEN)])?;
        let document = document(&reply)?;
        let root = document.root();
        let uploads = root.all("Upload").map(upload_line).collect::<Result<_, _>>()?;
        let has_more = optional(root, "IsTruncated")?.as_deref() == Some("true");
        Ok(UploadListing { uploads, has_more })
    }

    pub(super) fn head(&self, bucket: &str, key: &str, version: Option<&str>) -> Result<ObjectHead, Refusal> {
        let query: Vec<_> = version.map(|version| ("versionId", version)).into_iter().collect();
        let request = S3Request { query: &query, ..S3Request::default() };
        let reply = self.send(Method::Head, target(Some(bucket), Some(key))?, request)?;
        let header = |name| reply.header(name).unwrap_or_default().to_owned();
        let metadata = reply.headers().filter(|(name, _)| is_metadata(name));
        let encryption = reply.headers().filter(|(name, _)| is_encryption(name));
        Ok(ObjectHead {
            size: reply.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0),
            content_type: header("content-type"),
            modified: header("last-modified"),
            etag: header("etag"),
            version: reply.header("x-amz-version-id").map(str::to_owned),
            metadata: metadata
                .map(|(name, value)| (name.to_owned(), encoded_words::decode(value).into_owned()))
                .collect(),
            encryption: encryption.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            retained_until: reply.header("x-amz-object-lock-retain-until-date").map(str::to_owned),
            retention_mode: reply.header("x-amz-object-lock-mode").map(str::to_owned),
            legal_hold: reply.header("x-amz-object-lock-legal-hold") == Some("ON"),
        })
    }

    /// The tags of an object.
    pub(super) fn tags(
        &self,
        bucket: &str,
        key: &str,
        version: Option<&str>,
    ) -> Result<Vec<(String, String)>, Refusal> {
        let mut query = vec![("tagging", "")];
        query.extend(version.map(|version| ("versionId", version)));
        let request = S3Request { query: &query, ..S3Request::default() };
        let reply = self.send(Method::Get, target(Some(bucket), Some(key))?, request)?;
        let document = document(&reply)?;
        let Some(set) = document.root().child("TagSet").map_err(malformed)? else { return Ok(Vec::new()) };
        set.all("Tag").map(|tag| Ok((text(tag, "Key")?, text(tag, "Value")?))).collect()
    }

    /// Gives an object these tags, and no others.
    pub(super) fn set_tags(
        &self,
        bucket: &str,
        key: &str,
        version: Option<&str>,
        tags: &[(String, String)],
    ) -> Result<(), Refusal> {
        let mut document = crate::xml::Writer::new("Tagging", None);
        crate::s3::tags::render(tags, &mut document);
        let body = document.finish();
        let digest = base64_md5(&body);
        let mut query = vec![("tagging", "")];
        query.extend(version.map(|version| ("versionId", version)));
        let request = S3Request { query: &query, headers: &[("content-md5", &digest)], body };
        self.send(Method::Put, target(Some(bucket), Some(key))?, request).map(drop)
    }

    /// Deletes objects or versions, and returns those that could not be deleted.
    pub(super) fn delete(
        &self,
        bucket: &str,
        deletions: &[ChangedObject],
    ) -> Result<Vec<LeftObject>, Refusal> {
        // DeleteObjects names keys in a document. A key that no document can hold goes in the path.
        let (legible, others): (Vec<_>, Vec<_>) =
            deletions.iter().partition(|deletion| is_legible(&deletion.key));
        let mut errors = Vec::new();
        for some in legible.chunks(DELETIONS_MAX) {
            errors.extend(self.delete_some(bucket, some)?);
        }
        for deletion in others {
            errors.extend(self.delete_one(bucket, deletion)?);
        }
        Ok(errors)
    }

    fn delete_one(&self, bucket: &str, deletion: &ChangedObject) -> Result<Option<LeftObject>, Refusal> {
        let ChangedObject { key, version, etag } = deletion;
        let query: Vec<_> = version.iter().map(|version| ("versionId", version.as_str())).collect();
        let headers: Vec<_> = etag.iter().map(|etag| ("if-match", etag.as_str())).collect();
        let request = S3Request { query: &query, headers: &headers, ..S3Request::default() };
        let sent = self.send(Method::Delete, target(Some(bucket), Some(key))?, request);
        Ok(sent.err().map(|refusal| LeftObject { key: key.clone(), message: refusal.message }))
    }

    fn delete_some(&self, bucket: &str, deletions: &[&ChangedObject]) -> Result<Vec<LeftObject>, Refusal> {
        let mut request = crate::xml::Writer::new("Delete", None);
        request.leaf("Quiet", "true");
        for deletion in deletions {
            request.element("Object", |object| {
                object.leaf("Key", &deletion.key);
                if let Some(version) = &deletion.version {
                    object.leaf("VersionId", version);
                }
                if let Some(etag) = &deletion.etag {
                    object.leaf("ETag", etag);
                }
            });
        }
        let body = request.finish();
        let digest = base64_md5(&body);
        let request = S3Request { query: &[("delete", "")], headers: &[("content-md5", &digest)], body };
        let reply = self.send(Method::Post, target(Some(bucket), None)?, request)?;
        let document = document(&reply)?;
        let errors = document.root().all("Error");
        errors
            .map(|error| Ok(LeftObject { key: text(error, "Key")?, message: text(error, "Message")? }))
            .collect()
    }

    fn list(&self, bucket: &str, query: &[(&str, &str)]) -> Result<Reply, Refusal> {
        self.send(Method::Get, target(Some(bucket), None)?, S3Request { query, ..S3Request::default() })
    }
}

/// Whether a document may hold a name.
fn is_legible(name: &str) -> bool {
    matches!(legible(name), Cow::Borrowed(_))
}

/// The value of `Content-MD5` for a body.
pub(super) fn base64_md5(bytes: &[u8]) -> String {
    checksum::encode(&Md5::of(bytes))
}

fn document(reply: &Reply) -> Result<Document<'_>, Refusal> {
    Document::parse(&reply.body).map_err(malformed)
}

/// The text of a child of the root of a reply. The reply may be an error, although its status
/// is 200.
///
/// # Errors
/// The error in the reply; there is no such child.
pub(super) fn text_in(reply: &Reply, name: &str) -> Result<String, Refusal> {
    let document = document(reply)?;
    let root = document.root();
    if root.name() == "Error" {
        return Err(Refusal::new(409, text(root, "Message")?));
    }
    optional(root, name)?.ok_or_else(|| malformed(format!("there is no {name}")))
}

fn malformed(error: impl std::fmt::Display) -> Refusal {
    Refusal::new(500, format!("The response cannot be read: {error}"))
}

fn object_line(element: Element<'_>) -> Result<ObjectLine, Refusal> {
    let version = optional(element, "VersionId")?;
    Ok(ObjectLine {
        key: decoded(&text(element, "Key")?)?,
        size: optional(element, "Size")?.and_then(|size| size.parse().ok()).unwrap_or(0),
        modified: text(element, "LastModified")?,
        stored: optional(element, "Stored")?,
        etag: text(element, "ETag")?,
        is_current: version.is_none() || optional(element, "IsLatest")?.as_deref() == Some("true"),
        version,
        is_marker: element.name() == "DeleteMarker",
    })
}

fn upload_line(element: Element<'_>) -> Result<UploadLine, Refusal> {
    let initiator = element.child("Initiator").map_err(malformed)?;
    Ok(UploadLine {
        key: decoded(&text(element, "Key")?)?,
        id: text(element, "UploadId")?,
        begun: text(element, "Initiated")?,
        initiator: initiator.map(|initiator| text(initiator, "DisplayName")).transpose()?.unwrap_or_default(),
    })
}

fn folders(root: Element<'_>) -> Result<Vec<FolderLine>, Refusal> {
    let prefixes = root.all("CommonPrefixes");
    prefixes.map(|prefix| Ok(FolderLine { prefix: decoded(&text(prefix, "Prefix")?)? })).collect()
}

/// Whether a header is shown as metadata.
fn is_encryption(name: &str) -> bool {
    name.to_ascii_lowercase().starts_with("x-amz-server-side-encryption")
}

fn is_metadata(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("x-amz-meta-") || SYSTEM_METADATA.contains(&name.as_str())
}

fn text(element: Element<'_>, name: &str) -> Result<String, Refusal> {
    Ok(optional(element, name)?.unwrap_or_default())
}

fn optional(element: Element<'_>, name: &str) -> Result<Option<String>, Refusal> {
    element.child_text(name).map(|text| text.map(Cow::into_owned)).map_err(malformed)
}
