//! The comparison of a store with the model.

use siltstone::store::{ContentTotal, ListQuery, Store, Usage, VersionSummary};

use super::model::{Model, ModelBucket, ModelUpload, ModelVersion};

fn all() -> ListQuery {
    ListQuery { limit: 100_000, ..ListQuery::default() }
}

/// The versions of a bucket: keys ascending, those of a key newest first.
fn listed(store: &Store, bucket: &str) -> Vec<(String, VersionSummary)> {
    let page = store.list_versions(bucket, &all(), None).unwrap();
    page.keys().map(|(key, listed)| (key.into_owned(), listed.version)).collect()
}

/// Fills in the ids of delete markers, which deletes do not tell.
pub(super) fn learn_ids(store: &Store, model: &mut Model) {
    for (name, bucket) in &mut model.buckets {
        let versions = bucket.keys.values_mut().flatten();
        for (version, (_, found)) in versions.zip(listed(store, name)) {
            version.id.get_or_insert(found.id);
        }
    }
}

fn is_the_same(version: &ModelVersion, found: &VersionSummary) -> bool {
    let ours = (version.null, version.marker, version.modified, version.bytes.len() as u64);
    version.id.is_none_or(|id| id == found.id)
        && ours == (found.null, found.delete_marker, found.modified.as_millis(), found.size)
}

/// The first difference between the store and the model.
pub(super) fn difference(store: &Store, model: &Model) -> Option<String> {
    let of_buckets = model.buckets.iter().find_map(|(name, bucket)| {
        versions_differ(store, name, bucket)
            .or_else(|| uploads_differ(store, name, bucket))
            .or_else(|| counts_differ(store, name, bucket))
            .map(|difference| format!("{name}: {difference}"))
    });
    of_buckets.or_else(|| owners_differ(store, model))
}

fn versions_differ(store: &Store, name: &str, bucket: &ModelBucket) -> Option<String> {
    let found = listed(store, name);
    let ours: Vec<_> = bucket.versions().collect();
    if ours.len() != found.len() {
        let keys = |found: &[(String, VersionSummary)]| format!("{found:?}");
        return Some(format!("{} versions expected, {} found: {}", ours.len(), found.len(), keys(&found)));
    }
    for ((key, version), (found_key, found)) in ours.into_iter().zip(&found) {
        if key != found_key || !is_the_same(version, found) {
            return Some(format!("{key} {version:?} expected, {found_key} {found:?} found"));
        }
        let controls = store.find(name, key, version.selector()).unwrap().version.controls;
        if (controls.retention, controls.is_held()) != (version.retention, version.held) {
            return Some(format!("{key} {version:?} has {controls:?}"));
        }
    }
    None
}

fn uploads_differ(store: &Store, name: &str, bucket: &ModelBucket) -> Option<String> {
    let page = store.list_uploads(name, &all(), None).unwrap();
    let mut found: Vec<_> = page.keys().map(|(key, upload)| (key.into_owned(), upload.id)).collect();
    let mut ours: Vec<_> = bucket.uploads.iter().map(|upload| (upload.key.clone(), upload.id)).collect();
    found.sort();
    ours.sort();
    if found != ours {
        return Some(format!("the uploads {ours:?} expected, {found:?} found"));
    }
    bucket.uploads.iter().find_map(|upload| {
        let found = store.upload(name, &upload.key, upload.id).unwrap().parts;
        let found: Vec<_> = found.iter().map(|part| (part.number, part.size)).collect();
        let ours: Vec<_> =
            upload.parts.iter().map(|(number, (bytes, _))| (*number, bytes.len() as u64)).collect();
        (found != ours).then(|| format!("the parts {ours:?} expected, {found:?} found"))
    })
}

fn counts_differ(store: &Store, name: &str, bucket: &ModelBucket) -> Option<String> {
    let mut ours = Usage::default();
    for versions in bucket.keys.values() {
        for (nth, version) in versions.iter().enumerate() {
            let total = if nth == 0 { &mut ours.current } else { &mut ours.noncurrent };
            match version.marker {
                true => ours.delete_markers += 1,
                false => {
                    (total.count, total.bytes) = (total.count + 1, total.bytes + version.bytes.len() as u64);
                }
            }
        }
    }
    let bytes = bucket.uploads.iter().map(ModelUpload::bytes).sum();
    ours.uploads = ContentTotal { count: bucket.uploads.len() as u64, bytes };
    let found = store.usage(name).unwrap();
    // Other tests count the bytes of the index.
    ours.index_bytes = found.index_bytes;
    let quota = store.limited_bucket(name).unwrap().map(|limited| limited.quota).unwrap_or_default();
    (found != ours || quota != bucket.quota)
        .then(|| format!("{ours:?} of {:?} expected, {found:?} of {quota:?} counted", bucket.quota))
}

fn owners_differ(store: &Store, model: &Model) -> Option<String> {
    model.buckets.values().map(|bucket| bucket.owner).find_map(|owner| {
        let found = store.owner_usage(owner).content;
        let found = [found.bytes(), found.objects(), found.uploads.count];
        let ours = model.owned(owner);
        let stored = store.limited_owner(owner).stored;
        let quota = model.owner_quotas.get(owner).copied();
        (found != ours || stored != quota)
            .then(|| format!("{owner}: {ours:?} of {quota:?} expected, {found:?} of {stored:?} counted"))
    })
}

/// Reads every version.
pub(super) fn check_bytes(store: &Store, model: &Model) {
    for (name, bucket) in &model.buckets {
        for (key, version) in bucket.versions().filter(|(_, version)| !version.marker) {
            let found = store.find(name, key, version.selector()).unwrap();
            let mut reader = store.read(&found, 0..found.version.size).unwrap();
            let mut bytes = Vec::new();
            let mut buffer = vec![0; 4096];
            while let len @ 1.. = reader.read(&mut buffer).unwrap() {
                bytes.extend_from_slice(&buffer[..len]);
            }
            assert_eq!(bytes, **version.bytes, "{name}/{key}");
        }
    }
}
