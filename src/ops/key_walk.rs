//! Walks over the keys of a bucket in steps that a page can wait for: the deleted keys, and those
//! whose names a person looks for. S3 has no request for either.

use super::client_error::to_client_error;
use super::{Context, memory};
use crate::base::Timestamp;
use crate::base::limits::PAGE_LEN_MAX;
use crate::s3::{RequestId, S3Error};
use crate::store::{ListItem, ListQuery, ListedVersion, VersionRef, VersionSummary};

/// A key that a walk has met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalkedKey {
    pub key: String,
    /// The bytes of the newest version that has some.
    pub size: u64,
    /// The time of the object, or of its deletion.
    pub modified: Timestamp,
    /// The entity tag as in listings; empty for a deleted key.
    pub etag: String,
}

/// The part of a walk that one step takes: some thousand versions at most, but a key as a whole.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WalkedKeys {
    /// The keys that the walk is for.
    pub keys: Vec<WalkedKey>,
    /// The key after which the next step begins, if there is one.
    pub next: Option<String>,
}

/// A page of a folder: the keys in it, and the folders below it as common prefixes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FolderItems {
    pub keys: Vec<WalkedKey>,
    pub folders: Vec<String>,
    /// The name after which the next page begins, if there is one.
    pub next: Option<String>,
}

/// A deleted key whose versions are read.
struct DeletedKey {
    key: String,
    deleted: Timestamp,
}

impl Context {
    /// The keys with a current object that begin with `prefix`, come after `after` and are
    /// `sought`, as far as one step goes.
    ///
    /// # Errors
    /// `NoSuchBucket`; `SlowDown` if the memory is not available.
    pub fn sought_keys(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<&str>,
        sought: &dyn Fn(&str) -> bool,
        id: &RequestId,
    ) -> Result<WalkedKeys, S3Error> {
        let _page = memory::for_page(self, PAGE_LEN_MAX)?;
        let query = query(prefix, after);
        let page = self.store.list_objects(bucket, &query).map_err(|error| to_client_error(&error, id))?;
        let mut walked = WalkedKeys::default();
        for (key, version) in page.keys() {
            if sought(&key) {
                walked.keys.push(WalkedKey::of_object(key.into_owned(), version));
            }
        }
        walked.next = page.last_if_truncated().map(|last| last.name().into_owned());
        Ok(walked)
    }

    /// A page of the keys and folders in the folder `prefix` that come after `after`.
    ///
    /// # Errors
    /// `NoSuchBucket`; `SlowDown` if the memory is not available.
    pub fn folder_page(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<&str>,
        id: &RequestId,
    ) -> Result<FolderItems, S3Error> {
        let _page = memory::for_page(self, PAGE_LEN_MAX)?;
        let query = ListQuery { delimiter: b"/".to_vec(), ..query(prefix, after) };
        let page = self.store.list_objects(bucket, &query).map_err(|error| to_client_error(&error, id))?;
        let mut folder = FolderItems::default();
        for item in page.items() {
            match item {
                ListItem::Key(key, version) => {
                    folder.keys.push(WalkedKey::of_object(key.into_owned(), version));
                }
                ListItem::Prefix(prefix) => folder.folders.push(prefix.into_owned()),
            }
        }
        folder.next = page.last_if_truncated().map(|last| last.name().into_owned());
        Ok(folder)
    }

    /// The keys that begin with `prefix`, come after `after`, and whose current version is a delete
    /// marker above a version that can come back, as far as one step goes.
    ///
    /// # Errors
    /// `NoSuchBucket`; `SlowDown` if the memory is not available.
    pub fn deleted_keys(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<&str>,
        id: &RequestId,
    ) -> Result<WalkedKeys, S3Error> {
        let _page = memory::for_page(self, PAGE_LEN_MAX)?;
        let mut walked = WalkedKeys::default();
        let mut query = query(prefix, after);
        let mut after_version = None;
        let mut open = None;
        // The last key whose versions are all behind.
        let mut done = None::<String>;
        let mut present = None::<String>;
        loop {
            let page = self.store.list_versions(bucket, &query, after_version);
            let page = page.map_err(|error| to_client_error(&error, id))?;
            let mut last = None;
            for (key, listed) in page.keys() {
                if listed.latest {
                    done = present.replace(key.clone().into_owned());
                }
                walked.add(&key, listed, &mut open);
                last = Some((key, listed));
            }
            let Some((key, listed)) = last.filter(|_| page.truncated) else { return Ok(walked) };
            // The rest of a decided key is older than what decided it. Of another one there are
            // markers alone so far: the next step reads it from its beginning.
            walked.next = if open.is_none() { Some(key.clone().into_owned()) } else { done.clone() };
            if walked.next.is_some() {
                return Ok(walked);
            }
            // The step has no other key: the versions below the markers decide.
            let version = &listed.version;
            after_version = Some(if version.null { VersionRef::Null } else { VersionRef::Id(version.id) });
            query.after = Some(key.into_owned().into_bytes());
        }
    }
}

impl WalkedKey {
    fn of_object(key: String, version: &VersionSummary) -> Self {
        let etag = version.etag.to_string();
        Self { key, size: version.size, modified: version.last_modified(), etag }
    }
}

impl WalkedKeys {
    /// Adds the next version of the walk. `open` is the deleted key that it may belong to.
    fn add(&mut self, key: &str, listed: &ListedVersion, open: &mut Option<DeletedKey>) {
        let ListedVersion { version, latest } = listed;
        if *latest {
            let deleted = version.modified;
            *open = version.delete_marker.then(|| DeletedKey { key: key.to_owned(), deleted });
            return;
        }
        if version.delete_marker {
            return;
        }
        if let Some(DeletedKey { key, deleted }) = open.take_if(|open| open.key == key) {
            self.keys.push(WalkedKey { key, size: version.size, modified: deleted, etag: String::new() });
        }
    }
}

fn query(prefix: &str, after: Option<&str>) -> ListQuery {
    ListQuery {
        prefix: prefix.as_bytes().to_vec(),
        after: after.map(|key| key.as_bytes().to_vec()),
        limit: PAGE_LEN_MAX,
        ..ListQuery::default()
    }
}
