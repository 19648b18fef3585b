//! Random sequences of changes, compared with a simple model. `SILTSTONE_TEST_SEED` repeats one.

use std::collections::BTreeMap;

use super::*;
use crate::base::{Entropy, OsEntropy, SeededEntropy};
use crate::format::{
    AssembledPart, Assembly, ByteDecoder, Checksum, ChecksumAlgorithm, ChecksumType, RawEntry, StorageClass,
};

/// Steps of each phase: enough for nodes above nodes.
const STEPS: u64 = 2_000;
/// Steps between two comparisons.
const CHECK_EVERY: u64 = 1_000;

/// An item of a page.
enum Name {
    Key(Vec<u8>),
    Prefix(Vec<u8>),
}

/// Keys and their versions, newest first.
#[derive(Clone, Default)]
struct Model(BTreeMap<Vec<u8>, Vec<VersionRecord>>);

impl Model {
    fn put(&mut self, key: &[u8], record: VersionRecord) {
        let versions = self.0.entry(key.to_vec()).or_default();
        versions.retain(|old| old.id != record.id && !(old.null && record.null));
        versions.insert(0, record);
    }

    fn delete(&mut self, key: &[u8], id: VersionId) {
        let Some(versions) = self.0.get_mut(key) else { return };
        versions.retain(|old| old.id != id);
        if versions.is_empty() {
            self.0.remove(key);
        }
    }

    fn amend(&mut self, key: &[u8], record: &VersionRecord) {
        let versions = self.0.get_mut(key).into_iter().flatten();
        versions.filter(|old| old.id == record.id).for_each(|old| *old = record.clone());
    }

    fn entries(&self) -> Vec<Entry> {
        let puts = |(key, versions): (&Vec<u8>, &Vec<VersionRecord>)| {
            let put = |record: &VersionRecord| Entry::VersionPut {
                bucket: 1,
                key: key.clone(),
                record: record.clone(),
            };
            versions.iter().rev().map(put).collect::<Vec<_>>()
        };
        [bucket(1, "one")].into_iter().chain(self.0.iter().flat_map(puts)).collect()
    }

    /// The live bytes of each segment; shared extents count once.
    fn live_bytes(&self) -> BTreeMap<u64, u64> {
        let mut live = BTreeMap::new();
        let mut shared = BTreeMap::new();
        for extent in self.0.values().flatten().flat_map(|version| &version.extents) {
            let size = 64 + u64::from(extent.payload_len);
            if !extent.shared || shared.insert((extent.segment, extent.offset), ()).is_none() {
                *live.entry(extent.segment).or_default() += size;
            }
        }
        live
    }

    /// The content, counted one by one.
    fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for versions in self.0.values() {
            for (nth, version) in versions.iter().enumerate().filter(|(_, version)| !version.delete_marker) {
                let count = |total: &mut ContentTotal| {
                    *total = ContentTotal { count: total.count + 1, bytes: total.bytes + version.size };
                };
                count(if nth == 0 { &mut usage.current } else { &mut usage.noncurrent });
                if version.storage_class == StorageClass::Cold {
                    count(&mut usage.cold);
                }
            }
        }
        usage.delete_markers =
            self.0.values().flatten().filter(|version| version.delete_marker).count() as u64;
        let versions = self.0.iter().flat_map(|(key, all)| all.iter().map(move |version| (key, version)));
        let counted = versions.map(|(key, version)| version_index_bytes(key, version));
        usage.index_bytes = BUCKET_BYTES + counted.sum::<u64>();
        usage
    }

    /// The names after `after`, grouped, with the versions of each.
    fn groups<'m>(&'m self, query: &ListQuery) -> Vec<(Name, &'m [VersionRecord])> {
        let mut groups = Vec::new();
        for (key, versions) in &self.0 {
            let in_last =
                |prefix: &[u8]| matches!(groups.last(), Some((Name::Prefix(last), _)) if last == prefix);
            let prefix = query.common_prefix(key);
            let name = prefix.unwrap_or(key);
            // Names that start with a marker which is a common prefix come after the marker, but
            // are not listed again.
            let is_after = query.after.as_deref().is_none_or(|after| {
                if query.common_prefix(after) == Some(after) { name > after } else { key.as_slice() > after }
            });
            if !key.starts_with(&query.prefix) || !is_after {
                continue;
            }
            match prefix {
                Some(prefix) if in_last(prefix) => {}
                Some(prefix) => groups.push((Name::Prefix(prefix.to_vec()), versions.as_slice())),
                None => groups.push((Name::Key(key.clone()), versions.as_slice())),
            }
        }
        groups
    }

    fn list(&self, query: &ListQuery) -> ListPage<VersionSummary> {
        let current = |versions: &Vec<VersionRecord>| !versions[0].delete_marker;
        let visible =
            Self(self.0.iter().filter(|(_, v)| current(v)).map(|(k, v)| (k.clone(), v.clone())).collect());
        let groups = visible.groups(query);
        let mut page = ListPage::default();
        for (name, versions) in groups.iter().take(query.limit) {
            match name {
                Name::Key(key) => page.push(usize::MAX, key, Some(versions[0].summary())),
                Name::Prefix(prefix) => page.push(usize::MAX, prefix, None),
            };
        }
        page.truncated = query.limit > 0 && groups.len() > query.limit;
        page
    }

    fn list_versions(&self, query: &ListQuery) -> ListPage<ListedVersion> {
        let mut items = Vec::new();
        for (item, versions) in self.groups(query) {
            match item {
                Name::Prefix(prefix) => items.push((prefix, None)),
                Name::Key(key) => items.extend(versions.iter().enumerate().map(|(at, version)| {
                    (key.clone(), Some(ListedVersion { version: version.summary(), latest: at == 0 }))
                })),
            }
        }
        let mut page = ListPage::default();
        for (name, listed) in items.iter().take(query.limit) {
            page.push(usize::MAX, name, *listed);
        }
        page.truncated = query.limit > 0 && items.len() > query.limit;
        page
    }
}

/// Keys with long and short common prefixes, some of them prefixes of others; one is chosen
/// often.
fn drawn_key(draw: &SeededEntropy) -> Vec<u8> {
    match draw.below(20) {
        0 => b"favourite/one".to_vec(),
        1 => vec![0xff; draw.below(4) as usize + 1],
        2 => format!("dir/{}", draw.below(3)).into_bytes(),
        3..8 => format!("{:x}", draw.below(5_000)).into_bytes(),
        _ => format!("dir/{}/file-{:05}", draw.below(40), draw.below(200)).into_bytes(),
    }
}

fn drawn_record(draw: &SeededEntropy, id: u64) -> VersionRecord {
    let mut record = if draw.one_in(6) { marker(id) } else { record(id, draw.one_in(2)) };
    record.modified = Timestamp::from_millis(draw.below(1 << 40));
    if draw.one_in(3) {
        record.attributes.push("content-type", format!("text/{}", draw.below(300)));
        record.attributes.push("meta-name", "x".repeat(draw.below(40) as usize));
    }
    if !record.delete_marker {
        vary(draw, &mut record);
    }
    record
}

fn vary(draw: &SeededEntropy, record: &mut VersionRecord) {
    record.extents[0].shared = draw.one_in(5);
    record.storage_class = if draw.one_in(5) { StorageClass::Cold } else { StorageClass::Standard };
    record.stated_time = draw.one_in(4).then(|| Timestamp::from_millis(draw.below(1 << 42)));
    record.etag = match draw.below(4) {
        0 => ETag::Multipart { md5: [3; 16], parts: draw.below(10_000) as u32 },
        1 => ETag::Crc(draw.below(1 << 32) as u32),
        _ => record.etag,
    };
    let checksum = |algorithm, kind, parts, len| Checksum { algorithm, kind, parts, value: vec![7; len] };
    match draw.below(8) {
        0 => record.checksums = vec![checksum(ChecksumAlgorithm::Crc32, ChecksumType::FullObject, 0, 4)],
        1 => record.checksums = vec![checksum(ChecksumAlgorithm::Sha256, ChecksumType::Composite, 3, 32)],
        2 => record.checksums = vec![checksum(ChecksumAlgorithm::Crc32c, ChecksumType::FullObject, 0, 9)],
        3 => record.tags = vec![("a".into(), "b".into())],
        4 => {
            let slice = ExtentRef { skip: 1, take: 3, shared: true, ..record.extents[0] };
            record.extents = vec![slice; draw.below(if draw.one_in(20) { 2_000 } else { 4 }) as usize];
            record.size = 3 * record.extents.len() as u64;
            let parts = vec![AssembledPart { number: 1, size: record.size, checksum: None }];
            record.upload = draw.one_in(2).then_some(Assembly { upload: UploadId(5), parts });
        }
        _ => {}
    }
}

fn drawn_query(draw: &SeededEntropy) -> ListQuery {
    let cut = |key: Vec<u8>| key[..draw.below(key.len() as u64 + 1) as usize].to_vec();
    ListQuery {
        prefix: if draw.one_in(2) { cut(drawn_key(draw)) } else { Vec::new() },
        delimiter: if draw.one_in(2) { b"/".to_vec() } else { Vec::new() },
        after: draw.one_in(2).then(|| cut(drawn_key(draw))),
        limit: *draw.one_of(&[0, 1, 7, 100, 100_000]),
    }
}

struct World {
    draw: SeededEntropy,
    index: Index,
    model: Model,
    last_id: u64,
}

impl World {
    fn step(&mut self, deletes: u64) {
        let key = drawn_key(&self.draw);
        let known = self.model.0.get(&key).map(|versions| self.draw.one_of(versions).clone());
        let entry = match known {
            Some(old) if self.draw.below(10) < deletes => {
                self.model.delete(&key, old.id);
                Entry::VersionDelete { bucket: 1, key, version: old.id }
            }
            Some(old) if self.draw.one_in(10) => {
                let mut record = VersionRecord { null: old.null, ..drawn_record(&self.draw, old.id.0) };
                record.delete_marker = old.delete_marker;
                self.model.amend(&key, &record);
                Entry::VersionAmend { bucket: 1, key, record }
            }
            _ => {
                let id = self.new_id();
                let record = drawn_record(&self.draw, id);
                self.model.put(&key, record.clone());
                Entry::VersionPut { bucket: 1, key, record }
            }
        };
        self.index.apply(&entry).unwrap();
    }

    /// Ids rise, except for versions whose upload took long.
    fn new_id(&mut self) -> u64 {
        self.last_id += 2 + self.draw.below(5);
        if self.draw.one_in(8) {
            (self.last_id - self.draw.below(100).min(self.last_id)) | 1
        } else {
            self.last_id & !1
        }
    }
}

fn check(index: &Index, model: &Model, draw: &SeededEntropy) {
    let usage = model.usage();
    assert_eq!(index.usage(1), usage);
    assert_eq!(index.owner_usage("admin"), OwnerUsage { buckets: 1, content: usage });
    assert_eq!(index.version_count(), model.0.values().map(|versions| versions.len() as u64).sum::<u64>());
    for _ in 0..20 {
        let query = drawn_query(draw);
        assert!(index.list(1, &query) == model.list(&query), "{query:?}");
        assert!(index.list_versions(1, &query, None) == model.list_versions(&query), "{query:?}");
    }
    for _ in 0..50 {
        let key = drawn_key(draw);
        let versions = model.0.get(&key).map_or(&[][..], Vec::as_slice);
        assert!(index.records(1, &key).eq(versions.iter().cloned()), "{key:?}");
        assert!(index.summaries(1, &key).eq(versions.iter().map(VersionRecord::summary)), "{key:?}");
        for version in versions {
            assert_eq!(index.version(1, &key, version.id).as_ref(), Some(version));
            let outline = VersionRecord { extents: Vec::new(), upload: None, ..version.clone() };
            assert_eq!(index.version_outline(1, &key, version.id), Some(outline));
            assert_eq!(index.version_summary(1, &key, version.id), Some(version.summary()));
            let absent = VersionId(version.id.0 + 1);
            let found = versions.iter().find(|version| version.id == absent);
            assert_eq!(index.version(1, &key, absent).as_ref(), found);
        }
        let null = versions.iter().find(|version| version.null);
        assert_eq!(index.null_version(1, &key).as_ref(), null);
        assert_eq!(index.null_summary(1, &key), null.map(VersionRecord::summary));
        assert_eq!(index.newest(1, &key).as_ref(), versions.first());
        let summaries = versions.iter().map(VersionRecord::summary);
        let walked = std::iter::successors(index.newest_up_to(1, &key, u64::MAX), |(order, _)| {
            index.newest_up_to(1, &key, order.checked_sub(1)?)
        });
        assert!(walked.map(|(_, summary)| summary).eq(summaries), "{key:?}");
        assert_eq!(index.version(1, &key, VersionId(u64::MAX)), None);
    }
}

fn walked(index: &Index, count_max: usize) -> Vec<Entry> {
    let mut all = Vec::new();
    let mut cursor = Cursor::Start;
    loop {
        let entries = index.walk(&mut cursor, count_max);
        if entries.is_empty() {
            return all;
        }
        all.extend(entries);
    }
}

fn encoded(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    entries.iter().for_each(|entry| entry.encode(&mut bytes));
    bytes
}

fn walked_encoded(index: &Index, count_max: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut cursor = Cursor::Start;
    let mut some = Vec::new();
    while index.walk_encoded(&mut cursor, count_max, &mut some) {
        all.extend_from_slice(&some);
    }
    all
}

fn loaded(entries: &[Entry]) -> Index {
    let bytes = encoded(entries);
    let mut loader = Loader::default();
    let mut from = ByteDecoder::new(&bytes);
    while !from.is_done() {
        loader.add(&RawEntry::read(&mut from).unwrap()).unwrap();
    }
    loader.finish()
}

fn check_all(index: &Index, model: &Model, draw: &SeededEntropy) {
    check(index, model, draw);
    let entries = model.entries();
    assert!(walked(index, 7) == entries, "a walk gives another sum");
    assert!(walked_encoded(index, 7) == encoded(&entries), "it is encoded in another way");
    let copy = loaded(&entries);
    check(&copy, model, draw);
    assert!(walked(&copy, 1_000) == entries, "what was loaded is another");
    assert_eq!(copy.liveness(), copy_by_walk(index, 100).liveness());
    assert!(copy.liveness().iter().eq(model.live_bytes()));
    assert_eq!(copy.version_count(), index.version_count());
}

#[test]
fn the_index_and_its_snapshots_equal_a_simple_model() {
    let given = std::env::var("SILTSTONE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| OsEntropy.next_u64());
    println!("SILTSTONE_TEST_SEED={seed}");
    let draw = SeededEntropy::new(seed);
    let mut world = World { draw, index: index_of(&[]), model: Model::default(), last_id: 1_000 };
    let mut snapshots = Vec::new();
    // The index grows, stays as large, and shrinks to nothing.
    for deletes in [1, 5, 9] {
        for step in 0..STEPS {
            world.step(deletes);
            if step % CHECK_EVERY == 0 {
                check(&world.index, &world.model, &world.draw);
                snapshots.push((world.index.clone(), world.model.clone()));
            }
        }
        check_all(&world.index, &world.model, &world.draw);
    }
    for (index, model) in &snapshots {
        check(index, model, &world.draw);
    }
    check_all(&snapshots[3].0, &snapshots[3].1, &world.draw);
    let rest: Vec<_> =
        world.model.0.iter().flat_map(|(key, all)| all.iter().map(|v| (key.clone(), v.id))).collect();
    for (key, version) in rest {
        world.index.apply(&Entry::VersionDelete { bucket: 1, key, version }).unwrap();
    }
    assert!(world.index.is_empty(1));
    assert_eq!(world.index.usage(1), Usage { index_bytes: BUCKET_BYTES, ..Usage::default() });
    assert_eq!(world.index.liveness(), &Liveness::default());
}
