//! Everything that can be seen of a store, compared with the world.

use std::collections::{BTreeMap, HashMap};

use super::steps::bare;
use super::world::{Bucket, Object, Pending, World};
use super::*;
use crate::format::{ExtentHeader, ExtentRef};
use crate::index::{
    BUCKET_BYTES, configuration_bytes, part_index_bytes, upload_index_bytes, version_index_bytes,
};

/// Rows of a listing, unpaged: the name and, where it is no common prefix, what it stands for.
type Rows<'w, T> = Vec<(String, Option<&'w T>)>;

/// Compares everything, every byte included.
pub(super) fn check(store: &Store, world: &World, draw: &SeededEntropy) {
    let infos: Vec<_> = world.buckets.values().map(|bucket| bucket.info.clone()).collect();
    assert_eq!(store.buckets(), infos);
    let mut extents = Vec::new();
    for (name, bucket) in &world.buckets {
        assert_eq!(store.bucket(name), Ok(bucket.info.clone()));
        check_configurations(store, name, bucket);
        check_versions(store, name, bucket, &mut extents);
        check_uploads(store, name, bucket, &mut extents);
        assert_eq!(store.usage(name), Ok(usage_of(bucket)), "{name}");
        for _ in 0..6 {
            check_listings(store, name, bucket, draw);
        }
    }
    check_owners(store, world);
    let health = store.health();
    let versions: usize = world.buckets.values().map(|bucket| bucket.all().count()).sum();
    assert_eq!((health.read_only, health.damage), (None, vec![]));
    assert_eq!((health.buckets, health.versions), (world.buckets.len() as u64, versions as u64));
    assert_eq!(health.live_bytes, distinct_bytes(&extents), "live bytes");
}

/// The content of a bucket, counted one by one.
fn usage_of(bucket: &Bucket) -> Usage {
    let versions = |wanted: fn(usize, &Object) -> bool| {
        let all = bucket.keys.values().flat_map(|versions| versions.iter().enumerate());
        let sizes = all.filter(|(nth, object)| wanted(*nth, object)).map(|(_, object)| object.record.size);
        sizes.fold(ContentTotal::default(), |sum, size| ContentTotal {
            count: sum.count + 1,
            bytes: sum.bytes + size,
        })
    };
    let parts = bucket.uploads.values().flat_map(|pending| pending.parts.values());
    Usage {
        current: versions(|nth, object| nth == 0 && !object.record.delete_marker),
        noncurrent: versions(|nth, object| nth > 0 && !object.record.delete_marker),
        cold: versions(|_, object| object.record.storage_class == StorageClass::Cold),
        delete_markers: versions(|_, object| object.record.delete_marker).count,
        uploads: ContentTotal {
            count: bucket.uploads.len() as u64,
            bytes: parts.map(|(part, _)| part.size).sum(),
        },
        index_bytes: index_bytes_of(bucket),
    }
}

/// The bytes of the index that a bucket counts for.
fn index_bytes_of(bucket: &Bucket) -> u64 {
    let of_key = |(key, versions): (&String, &Vec<Object>)| {
        versions.iter().map(|object| version_index_bytes(key.as_bytes(), &object.record)).sum::<u64>()
    };
    let of_upload = |((key, _), pending): (&(String, UploadId), &Pending)| {
        let parts = pending.parts.values().map(|(part, _)| part_index_bytes(part.size));
        upload_index_bytes(key.as_bytes(), &pending.record) + parts.sum::<u64>()
    };
    let documents = bucket.configurations.values().map(|document| configuration_bytes(document.len()));
    BUCKET_BYTES
        + documents.sum::<u64>()
        + bucket.keys.iter().map(of_key).sum::<u64>()
        + bucket.uploads.iter().map(of_upload).sum::<u64>()
}

fn check_owners(store: &Store, world: &World) {
    let quotas = store.limited_owners().into_iter().map(|found| (found.owner, found.stored.unwrap()));
    assert!(quotas.eq(world.owner_quotas.clone()));
    let mut owners = BTreeMap::<String, OwnerUsage>::new();
    for bucket in world.buckets.values() {
        let usage = owners.entry(bucket.info.owner.clone()).or_default();
        usage.buckets += 1;
        usage.content.add(&usage_of(bucket));
    }
    assert_eq!(store.owner_usages(), owners.into_iter().collect::<Vec<_>>());
}

/// What extents take up, those counted once that are shared.
fn distinct_bytes(extents: &[ExtentRef]) -> u64 {
    let places: HashMap<_, _> = extents
        .iter()
        .map(|extent| ((extent.segment, extent.offset), u64::from(extent.payload_len)))
        .collect();
    places.values().map(|len| ExtentHeader::BYTES as u64 + len + ExtentHeader::table_len(*len)).sum()
}

fn check_configurations(store: &Store, name: &str, bucket: &Bucket) {
    let found = store.configured_bucket(name).expect("it is there");
    for (kind, ..) in BucketConfigurationKind::TABLE {
        let document = found.configuration(kind).map(BucketConfiguration::document);
        assert_eq!(document, bucket.configurations.get(&kind).map(Vec::as_slice), "{name} {kind:?}");
    }
    assert_eq!(found.configurations.is_empty(), bucket.configurations.is_empty());
}

fn check_versions(store: &Store, name: &str, bucket: &Bucket, extents: &mut Vec<ExtentRef>) {
    for key in KEYS {
        for which in [Selector::Current, Selector::Null, Selector::Id(VersionId(7))] {
            check_one(store, name, bucket, key, which);
        }
        for object in bucket.versions(key) {
            let found = check_one(store, name, bucket, key, object.selector()).expect("it is there");
            let bytes = read_all(store, &found, 0..found.size).expect("it can be read");
            assert!(bytes == *object.bytes, "the bytes of {name}/{key} {:?}", object.record);
            if let Some(made) = &object.record.upload {
                let expected = (made.upload != UploadId::NONE).then(|| found.clone());
                assert_eq!(store.find_completed(name, key, made.upload), Ok(expected));
            }
            extents.extend(found.extents);
        }
    }
}

fn check_one(
    store: &Store,
    name: &str,
    bucket: &Bucket,
    key: &str,
    which: Selector,
) -> Option<VersionRecord> {
    match (store.find(name, key, which), bucket.find(key, which)) {
        (Ok(found), Ok(object)) => {
            assert_eq!(found.bucket, bucket.info);
            assert!(object.is(&found.version), "{name}/{key} {which:?}: {:?}, {object:?}", found.version);
            Some(found.version)
        }
        (found, expected) => {
            assert_eq!(found.map(|_| ()), expected.map(|_| ()), "{name}/{key} {which:?}");
            None
        }
    }
}

fn check_uploads(store: &Store, name: &str, bucket: &Bucket, extents: &mut Vec<ExtentRef>) {
    for ((key, id), pending) in &bucket.uploads {
        let found = store.upload(name, key, *id).expect("it is in progress");
        assert_eq!(found.record, pending.record);
        let bare = found.parts.iter().map(bare).collect::<Vec<_>>();
        let parts = pending.parts.values().map(|(part, _)| part.clone()).collect::<Vec<_>>();
        assert_eq!(bare, parts, "of {name}/{key} {id:?}");
        extents.extend(found.parts.into_iter().flat_map(|part| part.extents));
    }
}

fn check_listings(store: &Store, name: &str, bucket: &Bucket, draw: &SeededEntropy) {
    let query = ListQuery {
        prefix: (*draw.one_of(&["", "", "", "a", "a/", "a/b", "b", "ä", "no"])).into(),
        delimiter: (*draw.one_of(&["", "/", "/", "-", "b", "//"])).into(),
        after: draw.one_in(3).then(|| (*draw.one_of(KEYS)).into()),
        limit: *draw.one_of(&[1, 2, 3, 5, 1000]),
    };
    let shown = |(_, versions): &(&String, &Vec<Object>)| !versions[0].record.delete_marker;
    let objects = bucket.keys.iter().filter(shown).map(|(key, versions)| (key, &versions[0]));
    check_pages(&query, &listed(&query, objects), |query, _| objects_page(store, name, query));
    check_pages(&query, &listed(&query, bucket.all()), |query, last| {
        versions_page(store, name, query, last, bucket)
    });
    let uploads = bucket.uploads.iter().map(|((key, _), pending)| (key, pending));
    check_pages(&query, &listed(&query, uploads), |query, last| uploads_page(store, name, query, last));
}

/// All that must be listed, worked out one key at a time.
fn listed<'w, T>(query: &ListQuery, all: impl Iterator<Item = (&'w String, &'w T)>) -> Rows<'w, T> {
    let text = |bytes: &'_ [u8]| str::from_utf8(bytes).unwrap().to_owned();
    let query_prefix = text(&query.prefix);
    let delimiter = text(&query.delimiter);
    let after = text(query.after.as_deref().unwrap_or_default());
    let group = |key: &str| {
        let rest = key.strip_prefix(&query_prefix).filter(|_| !delimiter.is_empty())?;
        let (first, _) = rest.split_once(&delimiter)?;
        Some(format!("{query_prefix}{first}{delimiter}"))
    };
    let behind = |key: &str| {
        let after = after.as_str();
        let passed_over = group(after).is_some_and(|prefix| prefix == after) && key.starts_with(after);
        key > after && !passed_over
    };
    let mut rows: Rows<'w, T> = Vec::new();
    for (key, what) in all.filter(|(key, _)| key.starts_with(&query_prefix) && behind(key)) {
        match group(key) {
            None => rows.push((key.clone(), Some(what))),
            Some(prefix) if rows.last().is_some_and(|(last, _)| *last == prefix) => {}
            Some(prefix) => rows.push((prefix, None)),
        }
    }
    rows
}

/// One item of any listing.
enum Seen {
    Prefix(String),
    Version(String, VersionSummary),
    Upload(String, UploadSummary),
}

/// One page of any listing.
struct SeenPage {
    items: Vec<Seen>,
    truncated: bool,
}

/// What stands behind a name in the world.
trait Row {
    fn is_shown_as(&self, seen: &Seen) -> bool;
}

impl Row for Object {
    fn is_shown_as(&self, seen: &Seen) -> bool {
        matches!(seen, Seen::Version(_, summary) if self.is_summed_up_by(summary))
    }
}

impl Row for Pending {
    fn is_shown_as(&self, seen: &Seen) -> bool {
        matches!(seen, Seen::Upload(_, summary) if *summary == UploadSummary::from(&self.record))
    }
}

/// Reads page after page and finds the rows, all of them and no others.
fn check_pages<T: Row>(
    query: &ListQuery,
    rows: &Rows<'_, T>,
    mut read: impl FnMut(&ListQuery, Option<&Seen>) -> SeenPage,
) {
    let mut rest = rows.as_slice();
    let mut query = query.clone();
    let mut last = None;
    loop {
        let page = read(&query, last.as_ref());
        assert_eq!(page.items.len(), rest.len().min(query.limit), "of {query:?}");
        assert_eq!(page.truncated, rest.len() > query.limit, "of {query:?}");
        let (now, later) = rest.split_at(page.items.len());
        for ((name, what), seen) in now.iter().zip(&page.items) {
            assert_eq!(name, seen.name(), "of {query:?}");
            let same = what.map_or(matches!(seen, Seen::Prefix(_)), |what| what.is_shown_as(seen));
            assert!(same, "{name} of {query:?}");
        }
        rest = later;
        if !page.truncated {
            return;
        }
        last = page.items.into_iter().next_back();
        query.after = last.as_ref().map(|seen| seen.name().clone().into_bytes());
    }
}

impl Seen {
    fn name(&self) -> &String {
        match self {
            Self::Prefix(name) | Self::Version(name, _) | Self::Upload(name, _) => name,
        }
    }
}

fn page_of<T>(page: &ListPage<T>, seen: impl Fn(String, &T) -> Seen) -> SeenPage {
    let items = page.items().map(|item| match item {
        ListItem::Key(key, value) => seen(key.into_owned(), value),
        ListItem::Prefix(prefix) => Seen::Prefix(prefix.into_owned()),
    });
    SeenPage { items: items.collect(), truncated: page.truncated }
}

fn objects_page(store: &Store, name: &str, query: &ListQuery) -> SeenPage {
    page_of(&store.list_objects(name, query).unwrap(), |key, version| Seen::Version(key, *version))
}

fn versions_page(
    store: &Store,
    name: &str,
    query: &ListQuery,
    last: Option<&Seen>,
    bucket: &Bucket,
) -> SeenPage {
    let after = match last {
        Some(Seen::Version(_, version)) if version.null => Some(VersionRef::Null),
        Some(Seen::Version(_, version)) => Some(VersionRef::Id(version.id)),
        _ => None,
    };
    page_of(&store.list_versions(name, query, after).unwrap(), |key, listed| {
        let ListedVersion { version, latest } = *listed;
        assert_eq!(latest, bucket.versions(&key)[0].is_summed_up_by(&version), "{key} {version:?}");
        Seen::Version(key, version)
    })
}

fn uploads_page(store: &Store, name: &str, query: &ListQuery, last: Option<&Seen>) -> SeenPage {
    let after = match last {
        Some(Seen::Upload(_, upload)) => Some(upload.id),
        _ => None,
    };
    page_of(&store.list_uploads(name, query, after).unwrap(), |key, upload| Seen::Upload(key, upload.clone()))
}
