//! Steps that put, copy, tag and delete objects.

use super::steps::{Known, Room, Run};
use super::world::Object;
use super::*;

impl Run {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let draw = &self.draw;
        let len = match draw.below(40) {
            0..3 => 0,
            3..5 => 65_535 + draw.below(3),
            5..7 => 60_000 + draw.below(80_000),
            7 => 131_070 + draw.below(5),
            8 => 100_000 + draw.below(300_000),
            9..15 => draw.below(20_000),
            _ => draw.below(300),
        };
        bytes(draw.below(1 << 32), len as usize)
    }

    pub(super) fn commit(&self, bytes: &[u8], condition: WriteCondition) -> Commit {
        let draw = &self.draw;
        let md5 = Md5::of(bytes);
        let etag = match draw.below(10) {
            0 => ETag::Multipart { md5, parts: 3 },
            1 => ETag::Crc(7),
            _ => ETag::Md5(md5),
        };
        let checksum = Checksum {
            algorithm: ChecksumAlgorithm::Crc32,
            kind: ChecksumType::FullObject,
            parts: 0,
            value: vec![1, 2, 3, draw.below(4) as u8],
        };
        let checksums = if draw.one_in(4) { vec![checksum] } else { vec![] };
        Commit {
            etag,
            checksums,
            tags: self.tags(),
            controls: self.controls(),
            storage_class: self.storage_class(),
            condition,
            stated_time: draw.one_in(4).then(|| Timestamp::from_millis(draw.below(1 << 40))),
            ..commit_of(bytes)
        }
    }

    /// Mostly none.
    pub(super) fn controls(&self) -> ObjectControls {
        let draw = &self.draw;
        let mode = *draw.one_of(&[RetentionMode::Governance, RetentionMode::Compliance]);
        // It has ended: locked versions have tests of their own.
        let until = Timestamp::from_millis(draw.below(1 << 40));
        match draw.below(8) {
            0 => ObjectControls { acl: AclGrants::ALL_READ, ..ObjectControls::default() },
            1 => ObjectControls {
                acl: if draw.one_in(2) { AclGrants::NONE } else { AclGrants::AUTHENTICATED_READ },
                retention: Some(Retention { mode, until }),
                ..ObjectControls::default()
            },
            2 => {
                let owner = ObjectOwner { name: "writer".to_owned(), since: until };
                ObjectControls { users: NamedUsers::of(Some(owner), Vec::new()), ..ObjectControls::default() }
            }
            _ => ObjectControls::default(),
        }
    }

    /// Mostly the usual one.
    pub(super) fn storage_class(&self) -> StorageClass {
        if self.draw.one_in(8) { StorageClass::Cold } else { StorageClass::Standard }
    }

    pub(super) fn tags(&self) -> Vec<(String, String)> {
        (0..self.draw.below(3)).map(|n| (format!("tag-{n}"), self.draw.below(100).to_string())).collect()
    }

    pub(super) fn condition(&self, bucket: &str, key: &str) -> WriteCondition {
        let there = self.world.bucket(bucket).ok().and_then(|bucket| bucket.versions(key).first());
        let tag = there.map_or("\"none\"".to_owned(), |object| object.record.etag.to_string());
        let both = |first, second| WriteCondition::Both(Box::new((first, second)));
        let not_another = || WriteCondition::IfNoneMatch("\"another\"".into());
        match self.draw.below(12) {
            0 => both(WriteCondition::IfAbsent, WriteCondition::IfNoneMatch(tag)),
            1 => WriteCondition::IfMatch("*".into()),
            2 | 6 => both(WriteCondition::IfMatch(tag), not_another()),
            3 => WriteCondition::IfMatch(tag.trim_matches('"').into()),
            4 => WriteCondition::IfMatch("\"another\"".into()),
            5 => WriteCondition::IfNoneMatch(tag),
            7 => not_another(),
            _ => WriteCondition::None,
        }
    }

    /// Whether a put may be done, as the world sees it.
    pub(super) fn expected(
        &self,
        bucket: &str,
        key: &str,
        condition: &WriteCondition,
    ) -> Result<(), StoreError> {
        self.world.bucket(bucket)?.check(key, condition)
    }

    pub(super) fn put(&mut self, bucket: &str, key: &str) {
        let condition = self.condition(bucket, key);
        let expected = self.expected(bucket, key, &condition);
        let bytes = self.bytes();
        let commit = self.commit(&bytes, condition);
        println!("put {bucket}/{key}, {} bytes, {:?}", bytes.len(), commit.condition);
        let answered = self.write_object(bucket, key, &bytes, commit.clone());
        if let Some(written) = self.written(answered, expected) {
            self.was_put(bucket, key, commit, bytes, written, None);
        }
    }

    pub(super) fn write_object(
        &self,
        bucket: &str,
        key: &str,
        all: &[u8],
        commit: Commit,
    ) -> Result<CommittedVersion, StoreError> {
        let announced = self.draw.one_in(2).then_some(all.len() as u64);
        let mut writer = self.store().writer(bucket, key, announced)?;
        match *self.draw.one_of(&[Some(7_001), Some(65_536), Some(100_003), None]) {
            Some(len) => all.chunks(len).try_for_each(|piece| writer.write(piece))?,
            None => writer.write(all.to_vec())?,
        }
        writer.commit(commit)
    }

    pub(super) fn was_put(
        &mut self,
        bucket: &str,
        key: &str,
        commit: Commit,
        bytes: Vec<u8>,
        written: CommittedVersion,
        upload: Option<Assembly>,
    ) {
        self.fresh(written.id.0);
        assert_eq!(written.modified, self.clock.now());
        self.remember(bucket, key);
        self.acknowledged.insert(written.id);
        let there = self.world.bucket_mut(bucket);
        there.put(key, Object::of(commit, bytes, written, upload));
        there.told = Some(there.info.versioning);
    }

    /// The current version, which may soon be gone, or get tags, or share its bytes.
    pub(super) fn remember(&mut self, bucket: &str, key: &str) {
        if let Ok(found) = self.store().find(bucket, key, Selector::Current) {
            self.known.push((found.bucket.id, key.into(), found.version));
        }
    }

    /// One or several versions or keys, some of which may not be there.
    pub(super) fn delete(&mut self, bucket: &str) {
        let count = if self.draw.one_in(3) { 1 + self.draw.below(6) } else { 1 };
        let deletions: Vec<_> = (0..count).map(|_| self.deletion(bucket)).collect();
        println!("delete in {bucket}: {deletions:?}");
        for deletion in &deletions {
            self.remember(bucket, &deletion.key);
        }
        self.delete_all(bucket, &deletions);
    }

    pub(super) fn deletion(&self, bucket: &str) -> Deletion {
        let key = (*self.draw.one_of(KEYS)).to_owned();
        let versions = self.world.bucket(bucket).map_or(&[][..], |bucket| bucket.versions(&key));
        let any = (!versions.is_empty()).then(|| self.draw.one_of(versions));
        let which = match (self.draw.below(5), any) {
            (0..2, _) => Selector::Current,
            (2, _) => Selector::Null,
            (_, Some(version)) => version.selector(),
            _ => Selector::Id(VersionId(self.last)),
        };
        let if_match = self.draw.one_in(5).then(|| match (self.draw.below(3), any) {
            (0, _) => "*".to_owned(),
            (1, Some(version)) => version.record.etag.to_string(),
            _ => "another".to_owned(),
        });
        let (size, modified) = match any.filter(|_| self.draw.one_in(5)) {
            None => (None, None),
            Some(version) => {
                let record = &version.record;
                let off = self.draw.below(2);
                let from = Timestamp::from_millis(record.last_modified().as_millis() + off);
                (Some(record.size), Some(from..from.plus(Duration::from_millis(1))))
            }
        };
        let condition = DeleteCondition { if_match, size, modified, ..DeleteCondition::default() };
        Deletion { key, which, condition }
    }

    pub(super) fn delete_all(&mut self, bucket: &str, deletions: &[Deletion]) {
        let answered = self.store().delete(bucket, deletions.to_vec());
        let expected = self.world.bucket(bucket).map(|_| ());
        let now = self.clock.now();
        for (deletion, answered) in deletions.iter().zip(self.agreed(answered, expected).unwrap_or_default())
        {
            let expected = self.world.bucket_mut(bucket).delete(deletion, now, &answered);
            assert_eq!(answered, expected, "{deletion:?}");
            if let (Selector::Current, Ok(Deleted { version: Some(VersionRef::Id(id)), .. })) =
                (deletion.which, answered)
            {
                self.fresh(id.0);
            }
        }
    }

    /// A version with bytes, any of the bucket.
    pub(super) fn any_version(&self, bucket: &str) -> Option<(String, Object)> {
        let all: Vec<_> = self.world.bucket(bucket).ok()?.all().collect();
        let object = (!all.is_empty()).then(|| *self.draw.one_of(&all))?;
        Some((object.0.clone(), object.1.clone())).filter(|(_, object)| !object.record.delete_marker)
    }

    /// What can be copied: a range of any version, and the bytes that it is.
    pub(super) fn source(&self) -> Option<(CopyRange, Vec<u8>)> {
        let bucket = self.draw.one_of(BUCKETS).0;
        let (key, object) = self.any_version(bucket)?;
        let found = self.store().find(bucket, &key, object.selector()).expect("it is there");
        let range = match (self.draw.below(2), object.bytes.len() as u64) {
            (_, 0) | (0, _) => 0..object.bytes.len() as u64,
            (_, len) => {
                let start = self.draw.below(len);
                start..start + self.draw.below(len - start + 1)
            }
        };
        let bytes = object.bytes[range.start as usize..range.end as usize].to_vec();
        let bucket = found.bucket.id;
        let version = self.as_once_known(found);
        Some((CopyRange { bucket, key, version, range }, bytes))
    }

    /// A version that is gone, if there is one that was remembered.
    pub(super) fn gone(&self) -> Option<Known> {
        let gone = (!self.known.is_empty()).then(|| self.draw.one_of(&self.known).clone())?;
        let (id, key, version) = &gone;
        let bucket = self.world.buckets.values().find(|bucket| bucket.info.id == *id);
        let there = bucket.is_some_and(|bucket| {
            let same =
                |object: &Object| object.record.id == version.id || (version.null && object.record.null);
            bucket.versions(key).iter().any(same)
        });
        (!there).then_some(gone)
    }

    pub(super) fn copy(&mut self, bucket: &str, key: &str) {
        if self.draw.one_in(8) {
            return self.copy_what_is_gone(bucket, key);
        }
        let Some((source, bytes)) = self.source() else {
            return println!("nothing to copy");
        };
        let condition = self.condition(bucket, key);
        let expected = self.expected(bucket, key, &condition);
        let commit = self.commit(&bytes, condition);
        println!("copy {} {:?} to {bucket}/{key}, {:?}", source.key, source.range, commit.condition);
        let whole = source.range == (0..source.version.size);
        let made = source.version.upload.clone().filter(|_| whole);
        let parts = made.map(|made| Assembly { upload: UploadId::NONE, ..made });
        let answered = self.store().copy(source, bucket, key, commit.clone());
        if let Some(written) = self.written(answered, expected) {
            self.was_put(bucket, key, commit, bytes, written, parts);
        }
    }

    pub(super) fn copy_what_is_gone(&mut self, bucket: &str, key: &str) {
        let Some((id, from, version)) = self.gone() else {
            return println!("nothing is gone");
        };
        println!("copy {from}, which is gone, to {bucket}/{key}");
        let source = CopyRange { bucket: id, key: from, range: 0..version.size, version };
        let expected = self.world.bucket(bucket).and(Err(StoreError::NoSuchVersion));
        self.written(self.store().copy(source, bucket, key, commit_of(b"")), expected);
    }

    pub(super) fn set_tags(&mut self, bucket: &str) {
        let tags = self.tags();
        let Some((key, object)) = self.any_version(bucket) else {
            return self.tag_what_is_gone(bucket, tags);
        };
        println!("tag {bucket}/{key} {:?} {tags:?}", object.named());
        let version =
            self.as_once_known(self.store().find(bucket, &key, object.selector()).expect("it is there"));
        if self.written(self.store().set_tags(bucket, &key, version, tags.clone()), Ok(())).is_some() {
            self.object_mut(bucket, &key, &object).record.tags = tags;
        }
    }

    pub(super) fn set_acl(&mut self, bucket: &str) {
        let Some((key, object)) = self.any_version(bucket) else {
            return println!("there is no version");
        };
        let acl = AclGrants::from_bits(self.draw.below(4) as u8);
        let since = Timestamp::from_millis(self.draw.below(1 << 40));
        let grant = |nth| UserGrant { name: format!("user-{nth}"), since, permissions: nth as u8 + 1 };
        let users: Vec<_> = (0..self.draw.below(3)).map(grant).collect();
        println!("acl of {bucket}/{key} {:?} {acl:?} {users:?}", object.named());
        let found = self.store().find(bucket, &key, object.selector()).expect("it is there");
        let before = found.version.controls_stamp;
        let version = self.as_once_known(found);
        if self.written(self.store().set_acl(bucket, &key, version, acl, users.clone()), Ok(())).is_some() {
            let after = self.store().find(bucket, &key, object.selector()).expect("it is there").version;
            let object = self.object_mut(bucket, &key, &object);
            let controls = &mut object.record.controls;
            let owner = controls.users.take().and_then(|users| users.owner);
            controls.acl = acl;
            controls.users = NamedUsers::of(owner, users);
            // On a full disk only the log has learned it.
            if after.controls_stamp != before {
                object.recorded_controls = object.record.controls.clone();
            }
        }
    }

    /// A rule moves a version to COLD or back.
    pub(super) fn change_class(&mut self, bucket: &str) {
        let Some((key, object)) = self.any_version(bucket) else {
            return println!("there is no version");
        };
        let class = self.storage_class();
        println!("{bucket}/{key} {:?} becomes {class:?}", object.named());
        let version = object.record.id;
        let record_bytes = 1 << 20;
        let newest = self.world.bucket(bucket).expect("it is there").versions(&key)[0].record.id;
        let role = match newest == version {
            true => ExpiringRole::Current(version),
            false => ExpiringRole::Noncurrent { version, newer_noncurrent_min: 0 },
        };
        let transition = Some(ClassTransition { class, record_bytes });
        let item = ExpiringItem { key: key.clone().into_bytes(), role, transition };
        let info = self.store().bucket(bucket).expect("it is there");
        let request = ExpiryRequest { bucket: info, configuration: None, items: vec![item] };
        if let Some(outcomes) = self.written(self.store().expire(request), Ok(())) {
            let changes = object.record.storage_class != class;
            if changes && self.room != Room::Plenty && outcomes == [ExpiryOutcome::DiskFull] {
                self.count_refused::<()>();
                return;
            }
            let expected = if changes { ExpiryOutcome::Moved } else { ExpiryOutcome::Obsolete };
            assert_eq!(outcomes, [expected]);
            self.object_mut(bucket, &key, &object).record.storage_class = class;
        }
    }

    fn object_mut(&mut self, bucket: &str, key: &str, object: &Object) -> &mut Object {
        let versions = self.world.bucket_mut(bucket).keys.get_mut(key).expect("it is there");
        let found = versions.iter_mut().find(|version| version.record.id == object.record.id);
        found.expect("it is there")
    }

    /// The version, or what a caller knows of it who looked at it some time ago.
    fn as_once_known(&self, found: FoundVersion) -> VersionRecord {
        let same = |(_, _, version): &&Known| version.id == found.version.id;
        let once = self.known.iter().find(same).filter(|_| self.draw.one_in(2));
        once.map_or(found.version, |(_, _, version)| version.clone())
    }

    pub(super) fn tag_what_is_gone(&self, bucket: &str, tags: Vec<(String, String)>) {
        let Some((_, key, version)) = self.gone() else {
            return println!("nothing is gone");
        };
        println!("tag {bucket}/{key}, which is gone");
        let there = self.world.bucket(bucket);
        let expected = there.map(|_| ()).and(Err(StoreError::NoSuchVersion));
        self.written(self.store().set_tags(bucket, &key, version, tags), expected);
    }
}
