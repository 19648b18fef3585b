//! The rows of objects and folders in a list.

use super::super::objects::{FolderLine, ObjectLine};
use super::super::shown_time::ShownTime;
use super::super::text;
use super::View;
use crate::s3::uri;
use crate::service::WalkedKey;

/// The largest image that a row of a list shows. The object itself is loaded for it.
pub(super) const THUMBNAIL_MAX_BYTES: u64 = 200 << 10;
/// The largest one of a grid, whose pictures somebody asked to see: a photograph of a phone.
pub(super) const GRID_IMAGE_MAX_BYTES: u64 = 4 << 20;
/// Bytes of images that a page loads without scripts: at once, and not as they come into sight.
const LOADED_AT_ONCE_MAX_BYTES: u64 = 32 << 20;
/// The ends of the names of those, which every browser shows.
const THUMBNAILS: [&str; 6] = [".png", ".jpg", ".jpeg", ".gif", ".webp", ".avif"];

/// The picture of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thumbnail {
    /// The icon of its kind.
    None,
    Shown,
    /// The image where there are scripts, which load it as it comes into sight.
    ByScript,
}

pub(super) struct FolderRow {
    pub(super) name: String,
    /// The value of its field.
    pub(super) id: String,
    pub(super) link: String,
}

/// A deleted object that can come back.
pub(super) struct DeletedRow {
    /// The value of the field of its key.
    pub(super) key: String,
    pub(super) name: String,
    pub(super) link: String,
    pub(super) icon: &'static str,
    pub(super) bytes: u64,
    pub(super) size: String,
    pub(super) deleted: ShownTime,
}

pub(super) struct ObjectRow {
    /// The value of its field.
    pub(super) id: String,
    /// The value of the field of its key.
    pub(super) key: String,
    pub(super) name: String,
    pub(super) link: String,
    pub(super) content: String,
    /// The addresses of the object for clients.
    pub(super) path: String,
    pub(super) url: String,
    pub(super) icon: &'static str,
    pub(super) thumbnail: Thumbnail,
    pub(super) bytes: u64,
    pub(super) size: String,
    /// The time for browsers, and for people without scripts.
    pub(super) time: ShownTime,
    pub(super) version: Option<String>,
    pub(super) is_current: bool,
    pub(super) is_marker: bool,
}

pub(super) fn folder_row(view: &View<'_>, bucket: &str, prefix: &str, folder: &FolderLine) -> FolderRow {
    let link = view.link("bucket", &[("name", Some(bucket)), ("prefix", Some(&folder.prefix))]);
    FolderRow { name: name_in(prefix, &folder.prefix), link, id: uri::encode_query(&folder.prefix) }
}

/// The rows of the objects of a folder.
pub(super) struct ObjectRows<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) bucket: &'a str,
    pub(super) prefix: &'a str,
    pub(super) may_read: bool,
    pub(super) shows_versions: bool,
    /// Bytes of the largest image that a row shows.
    pub(super) thumbnail_max: u64,
}

impl ObjectRows<'_> {
    /// The rows of all but the object that stands for the empty folder itself.
    pub(super) fn of(&self, objects: Vec<ObjectLine>) -> Vec<ObjectRow> {
        let mut rows = Vec::with_capacity(objects.len());
        let mut loaded = 0;
        for object in objects {
            let is_folder = object.key == self.prefix && object.size == 0 && self.prefix.ends_with('/');
            if self.shows_versions || !is_folder {
                let mut row = self.row(object);
                if row.thumbnail == Thumbnail::Shown {
                    loaded += row.bytes;
                    if loaded > LOADED_AT_ONCE_MAX_BYTES {
                        row.thumbnail = Thumbnail::ByScript;
                    }
                }
                rows.push(row);
            }
        }
        rows
    }

    pub(super) fn deleted_row(&self, object: &WalkedKey) -> DeletedRow {
        let name = name_in(self.prefix, &object.key);
        let place = [("bucket", Some(self.bucket)), ("key", Some(&*object.key))];
        DeletedRow {
            key: uri::encode_query(&object.key),
            link: self.view.link("object", &place),
            icon: text::icon_of(&name),
            name,
            bytes: object.size,
            size: text::size(object.size),
            deleted: ShownTime::age(&object.modified.to_iso8601()),
        }
    }

    fn row(&self, object: ObjectLine) -> ObjectRow {
        let version = object.version.as_deref();
        let bucket = ("bucket", Some(self.bucket));
        let key = ("key", Some(&*object.key));
        let name = name_in(self.prefix, &object.key);
        let lower = name.to_ascii_lowercase();
        let has_thumbnail = self.may_read
            && !object.is_marker
            && (1..=self.thumbnail_max).contains(&object.size)
            && THUMBNAILS.iter().any(|end| lower.ends_with(end));
        ObjectRow {
            id: object.selected().field(),
            key: uri::encode_query(&object.key),
            link: self.view.link("object", &[bucket, key, ("version", version)]),
            content: self.view.link("content", &[bucket, key, ("versionId", version)]),
            path: text::s3_path(self.bucket, &object.key),
            url: self.view.s3_url(self.bucket, &object.key),
            icon: text::icon_of(&name),
            thumbnail: if has_thumbnail { Thumbnail::Shown } else { Thumbnail::None },
            name,
            bytes: object.size,
            size: if object.is_marker { String::new() } else { text::size(object.size) },
            time: ShownTime::age(&object.modified),
            version: object.version,
            is_current: object.is_current,
            is_marker: object.is_marker,
        }
    }
}

/// The part of a key that a folder shows.
fn name_in(prefix: &str, key: &str) -> String {
    let name = key.strip_prefix(prefix).unwrap_or(key);
    match name.trim().is_empty() {
        // A link of blanks could not be seen.
        true => name.replace(' ', "␠"),
        false => text::visible(name).into_owned(),
    }
}
