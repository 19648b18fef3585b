//! Steps of multipart uploads.

use super::steps::{Run, bare};
use super::world::Pending;
use super::*;

impl Run {
    pub(super) fn create_upload(&mut self, bucket: &str, key: &str) {
        println!("create an upload of {bucket}/{key}");
        let checksum = (ChecksumAlgorithm::Crc32c, ChecksumType::Composite);
        let new = NewUpload {
            storage_class: self.storage_class(),
            initiator: "admin".into(),
            checksum: self.draw.one_in(2).then_some(checksum),
            attributes: commit_of(b"").attributes,
            tags: self.tags(),
            controls: self.controls(),
        };
        let expected = self.world.bucket(bucket).map(|_| ());
        let Some(record) = self.written(self.store().create_upload(bucket, key, new.clone()), expected)
        else {
            return;
        };
        self.fresh(record.id.0);
        let NewUpload { initiator, checksum, attributes, tags, controls, storage_class } = new;
        let initiated = self.clock.now();
        assert_eq!(
            record,
            UploadRecord {
                id: record.id,
                initiated,
                initiator,
                checksum,
                attributes,
                tags,
                controls,
                storage_class,
                encryption: None,
            }
        );
        let pending = Pending { record: record.clone(), parts: Default::default() };
        self.world.bucket_mut(bucket).uploads.insert((key.into(), record.id), pending);
    }

    /// An upload of the bucket, or one that has ended.
    pub(super) fn any_upload(&self, bucket: &str) -> Option<(String, String, UploadId)> {
        let there = self.world.bucket(bucket).ok();
        let here: Vec<_> = there.into_iter().flat_map(|bucket| bucket.uploads.keys()).collect();
        if here.is_empty() || self.draw.one_in(10) {
            return (!self.ended.is_empty()).then(|| self.draw.one_of(&self.ended).clone());
        }
        let (key, id) = *self.draw.one_of(&here);
        Some((bucket.to_owned(), key.clone(), *id))
    }

    pub(super) fn change_upload(&mut self, bucket: &str, key: &str) {
        let Some((bucket, key, id)) = self.any_upload(bucket) else {
            return self.create_upload(bucket, key);
        };
        match self.draw.below(20) {
            0..10 => self.put_part(&bucket, &key, id),
            10..14 => self.copy_part(&bucket, &key, id),
            14..19 => self.complete(&bucket, &key, id),
            _ => self.abort(&bucket, &key, id),
        }
    }

    pub(super) fn put_part(&mut self, bucket: &str, key: &str, id: UploadId) {
        let number = 1 + self.draw.below(4) as u32;
        let bytes = self.bytes();
        println!("put part {number} of {bucket}/{key} {id:?}, {} bytes", bytes.len());
        let checksum = self.checksum_of_part(&bytes);
        let answered = self.write_part(bucket, key, id, number, (&bytes, checksum.clone()));
        self.part_was_put(bucket, key, id, number, (bytes, checksum), answered);
    }

    fn checksum_of_part(&self, bytes: &[u8]) -> Option<Checksum> {
        let kind = ChecksumType::FullObject;
        let (algorithm, value) = match self.draw.below(3) {
            0 => return None,
            1 => (ChecksumAlgorithm::Crc32c, crc32fast::hash(bytes).to_be_bytes().to_vec()),
            _ => (ChecksumAlgorithm::Sha1, [Md5::of(bytes).as_slice(), b"more"].concat()),
        };
        Some(Checksum { algorithm, kind, parts: 0, value })
    }

    pub(super) fn write_part(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        number: u32,
        (all, checksum): (&[u8], Option<Checksum>),
    ) -> Result<PartRecord, StoreError> {
        let announced = self.draw.one_in(2).then_some(all.len() as u64);
        let mut writer = self.store().part_writer(bucket, key, id, number, announced)?;
        all.chunks(90_001).try_for_each(|piece| writer.write(piece))?;
        writer.commit(Md5::of(all), checksum)
    }

    pub(super) fn copy_part(&mut self, bucket: &str, key: &str, id: UploadId) {
        let Some((source, bytes)) = self.source() else {
            return println!("nothing to copy");
        };
        let number = 1 + self.draw.below(4) as u32;
        println!("copy {} {:?} to part {number} of {bucket}/{key} {id:?}", source.key, source.range);
        let md5 = Md5::of(&bytes);
        let checksum = self.checksum_of_part(&bytes);
        let answered = self.store().copy_part(source, (bucket, key), (id, number), md5, checksum.clone());
        self.part_was_put(bucket, key, id, number, (bytes, checksum), answered);
    }

    pub(super) fn part_was_put(
        &mut self,
        bucket: &str,
        key: &str,
        id: UploadId,
        number: u32,
        (bytes, checksum): (Vec<u8>, Option<Checksum>),
        answered: Result<PartRecord, StoreError>,
    ) {
        let expected = self.world.upload(bucket, key, id).map(|_| ());
        let Some(part) = self.written(answered, expected) else {
            return;
        };
        self.fresh(part.id);
        let size = bytes.len() as u64;
        let md5 = Md5::of(&bytes);
        let modified = self.clock.now();
        let id_of_part = part.id;
        let expected = PartRecord {
            number,
            id: id_of_part,
            modified,
            size,
            md5,
            extents: vec![],
            checksum,
            encryption: None,
        };
        assert_eq!(bare(&part), expected);
        let there = self.world.bucket_mut(bucket);
        there.told = Some(there.info.versioning);
        let pending = there.uploads.get_mut(&(key.into(), id)).expect("it is there");
        let old = pending.parts.insert(number, (expected, Arc::new(bytes)));
        self.replaced.extend(old.map(|(part, _)| (id, part)));
    }

    /// The parts that are listed are some of those that are there, sometimes with one that is not.
    /// An empty list is refused before it comes here; what comes here makes an object.
    pub(super) fn complete(&mut self, bucket: &str, key: &str, upload: UploadId) {
        let condition = self.condition(bucket, key);
        let there = self.world.upload(bucket, key, upload).map(|pending| pending.parts.clone());
        let mut chosen: Vec<_> = there.clone().unwrap_or_default().into_values().collect();
        match (self.draw.below(12), chosen.len() as u64) {
            (_, 0) => {}
            (0, _) => chosen.clear(),
            (1..5, many) => drop(chosen.remove(self.draw.below(many) as usize)),
            _ => {}
        }
        let (parts, pieces): (Vec<_>, Vec<_>) = chosen.into_iter().unzip();
        let (parts, spoilt) = self.spoil(upload, parts);
        let any = if parts.is_empty() { Err(StoreError::PartsOutOfOrder) } else { spoilt };
        let expected = there.map(|_| ()).and(any).and_then(|()| self.expected(bucket, key, &condition));
        let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        let commit = self.commit(&bytes, condition);
        println!("complete {bucket}/{key} {upload:?}, {} bytes, {:?}", bytes.len(), commit.condition);
        let completion = Completion { upload, parts: parts.clone(), commit: commit.clone() };
        let answered = self.store().complete_upload(bucket, key, completion);
        if let Some(written) = self.written(answered, expected) {
            let assembled = |part: PartRecord| AssembledPart {
                number: part.number,
                size: part.size,
                checksum: part.checksum,
            };
            let assembly = Assembly { upload, parts: parts.into_iter().map(assembled).collect() };
            self.was_put(bucket, key, commit, bytes, written, Some(assembly));
            self.upload_ended(bucket, key, upload);
        }
    }

    /// Sometimes puts among the parts one as it was before it was replaced, or one that there never
    /// was.
    pub(super) fn spoil(
        &self,
        upload: UploadId,
        mut parts: Vec<PartRecord>,
    ) -> (Vec<PartRecord>, Result<(), StoreError>) {
        let old = self
            .replaced
            .iter()
            .rev()
            .find(|(of, part)| *of == upload && parts.iter().any(|there| there.number == part.number));
        let (number, stranger) = match (self.draw.below(6), old, parts.last()) {
            (0, Some((_, old)), _) => (old.number, old.clone()),
            (1, _, Some(last)) => (last.number, PartRecord { number: 9, ..last.clone() }),
            _ => return (parts, Ok(())),
        };
        let error = StoreError::PartReplaced(stranger.number);
        let at = parts.iter().position(|part| part.number == number).expect("it was found there");
        parts[at] = stranger;
        (parts, Err(error))
    }

    pub(super) fn abort(&mut self, bucket: &str, key: &str, id: UploadId) {
        println!("abort {bucket}/{key} {id:?}");
        let expected = self.world.upload(bucket, key, id).map(|_| ());
        if self.agreed(self.store().abort_upload(bucket, key, id), expected).is_some() {
            self.upload_ended(bucket, key, id);
        }
    }

    pub(super) fn upload_ended(&mut self, bucket: &str, key: &str, id: UploadId) {
        self.world.bucket_mut(bucket).uploads.remove(&(key.to_owned(), id));
        self.ended.push((bucket.to_owned(), key.to_owned(), id));
    }
}
