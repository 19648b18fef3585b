//! A key on MinIO's drives as the source of a copy.

use std::io::{self, Read};
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use siltstone::base::Timestamp;
use siltstone::base::digest::{Md5, to_hex};
use siltstone::base::limits::{MIB, PUT_SIZE_MAX_BYTES};
use siltstone::transfer::{
    Header, Origin, PeerError, PeerVersion, SendBody, StoredAttributes, UploadChecksum, UploadShape,
    with_tags,
};

use super::super::file::copy_measured;
use super::super::object::CopySource;
use crate::minio::content::ObjectContent;
use crate::minio::damage::DamageLog;
use crate::minio::facts::{ObjectFacts, Obstacle};
use crate::minio::layout::Deployment;
use crate::minio::versions::{KeptObject, KeptVersion, KeyVersions};

/// The least length of a part that is not the last.
const PART_MIN_BYTES: u64 = 5 * MIB;
/// The longest object that is verified in memory before it is sent.
const VERIFIED_FIRST_BYTES: u64 = 8 * MIB;
/// The entity tag that the copy names where the source has none.
const NO_ETAG: &str = "none";

/// The beginning of the reason why whole bytes are doubtful.
pub(super) const UNLIKE: &str = "its bytes have the ETag";

/// A key with the facts of its versions.
pub(super) struct MinioKey<'k> {
    pub(super) deployment: &'k Deployment,
    pub(super) bucket: &'k str,
    pub(super) path: &'k str,
    pub(super) versions: &'k KeyVersions,
    pub(super) damage: &'k DamageLog,
    /// The objects whose metadata say that their bytes are there, by their version.
    pub(super) facts: Vec<(&'k str, ObjectFacts)>,
    /// The versions whose bytes turned out not to be readable, and why.
    pub(super) broken: Vec<(String, String)>,
    /// The versions that were stored without a proof of their bytes, and why.
    pub(super) unproven: Vec<(String, &'static str)>,
}

impl<'k> MinioKey<'k> {
    /// The version that is meant; the current one without an id.
    fn version(&self, id: Option<&str>) -> Option<&'k KeptVersion> {
        match id {
            Some(id) => self.versions.versions.iter().find(|version| version.id == id),
            None => self.versions.versions.last(),
        }
    }

    fn object(&self, id: Option<&str>) -> Result<(&'k KeptVersion, &'k KeptObject, &ObjectFacts), String> {
        let version = self.version(id).ok_or("there is no such version")?;
        let object = version.object.as_ref().ok_or("it is a delete marker")?;
        let facts = self.facts.iter().find(|(of, _)| *of == version.id).map(|(_, facts)| facts);
        Ok((version, object, facts.ok_or("its bytes cannot be had")?))
    }

    /// The versions that can be copied, as a listing has them.
    pub(super) fn listed(&self) -> Vec<PeerVersion> {
        let mut listed = Vec::new();
        for version in &self.versions.versions {
            let modified = Some(time_of(version));
            let id = Some(version.id.clone());
            match (&version.object, self.facts.iter().find(|(of, _)| *of == version.id)) {
                (None, _) => {
                    let etag = String::new();
                    listed.push(PeerVersion { id, delete_marker: true, length: 0, etag, modified });
                }
                (Some(_), Some((_, facts))) => {
                    let etag = etag_of(facts);
                    listed.push(PeerVersion {
                        id,
                        delete_marker: false,
                        length: facts.length,
                        etag,
                        modified,
                    });
                }
                (Some(_), None) => {}
            }
        }
        listed
    }

    /// Reads all bytes of a version, and compares them with its entity tag.
    fn verify(&self, id: Option<&str>) -> Result<(), String> {
        let (_, object, facts) = self.object(id)?;
        let Self { deployment, bucket, path, damage, .. } = *self;
        let content = ObjectContent { deployment, bucket, path, object, facts, damage };
        let shape = proof_of(facts).unwrap_or(UploadShape::Whole(facts.length));
        let read = copy_measured(&mut content.read(0..facts.length), &shape, &mut io::sink());
        let found = read.map_err(|error| error.to_string())?;
        match proof_of(facts) {
            Some(_) if found != facts.etag => Err(format!("{UNLIKE} {found}, and not {}", facts.etag)),
            _ => Ok(()),
        }
    }
}

fn etag_of(facts: &ObjectFacts) -> String {
    if facts.etag.is_empty() { NO_ETAG.to_owned() } else { facts.etag.clone() }
}

fn time_of(version: &KeptVersion) -> Timestamp {
    Timestamp::from_millis(u64::try_from(version.modified / 1_000_000).unwrap_or(0))
}

/// The shape of which the entity tag is a digest.
fn proof_of(facts: &ObjectFacts) -> Option<UploadShape> {
    match facts.etag_parts()? {
        0 => Some(UploadShape::Whole(facts.length)),
        count if count == facts.parts.len() => Some(UploadShape::Parts(facts.parts.clone())),
        _ => None,
    }
}

/// The shape of the copy: that of the entity tag, if parts of this length may be uploaded.
fn shape_of(facts: &ObjectFacts) -> UploadShape {
    let whole = UploadShape::Whole(facts.length);
    match proof_of(facts) {
        Some(UploadShape::Parts(lengths)) => {
            let before_last = lengths.iter().rev().skip(1);
            let are_long = before_last.copied().all(|length| length >= PART_MIN_BYTES);
            if are_long { UploadShape::Parts(lengths) } else { whole }
        }
        _ => whole,
    }
}

impl CopySource for MinioKey<'_> {
    fn wanted(&mut self, id: Option<&str>) -> Result<(StoredAttributes, Vec<Header>), String> {
        let (version, _, facts) = self.object(id)?;
        let from = StoredAttributes {
            length: facts.length,
            etag: etag_of(facts),
            kept: Vec::new(),
            losses: Vec::new(),
            modified: Some(time_of(version).as_secs()),
            encrypted_by_key: false,
        };
        Ok((from, with_tags(facts.headers.clone(), &facts.tags)))
    }

    /// An object whose bytes do not prove its entity tag is not stored under it.
    fn shape_of(&mut self, _: &StoredAttributes, id: Option<&str>) -> Result<UploadShape, PeerError> {
        let (version, _, facts) = self.object(id).map_err(PeerError::Lasting)?;
        let shape = shape_of(facts);
        let is_random =
            facts.etag_parts() == Some(1) && self.verify(id).is_err_and(|why| why.contains("ETag"));
        let why = match proof_of(facts) {
            // MinIO without compatibility to S3 makes such tags at random.
            Some(_) if is_random => Some("its ETag is not that of its bytes, and may be a random one"),
            Some(_) => None,
            None => Some("its ETag is no digest of its bytes"),
        };
        let length = facts.length;
        // MinIO took bodies of any length at once. The copy is made of parts then, whose digests do not
        // prove the whole.
        if length > PUT_SIZE_MAX_BYTES && facts.etag_parts() == Some(0) {
            self.verify(id).map_err(PeerError::Lasting)?;
        }
        let id = version.id.clone();
        if let Some(why) = why
            && !self.unproven.iter().any(|(of, _)| *of == id)
        {
            self.unproven.push((id, why));
        }
        Ok(if is_random { UploadShape::Whole(length) } else { shape })
    }

    fn has_grants(&mut self, _: Option<&str>) -> bool {
        false
    }

    fn checksum(&mut self, id: Option<&str>, shape: &UploadShape) -> Option<UploadChecksum> {
        let (_, _, facts) = self.object(id).ok()?;
        let checksum = facts.checksum.as_ref()?;
        let fits = match shape {
            UploadShape::Whole(_) => !checksum.multipart || checksum.full_object,
            UploadShape::Parts(lengths) => {
                checksum.multipart && (checksum.full_object || checksum.parts.len() == lengths.len())
            }
        };
        fits.then(|| UploadChecksum {
            algorithm: checksum.algorithm.to_owned(),
            value: BASE64.encode(&checksum.value),
            full_object: checksum.full_object,
            parts: if checksum.full_object {
                Vec::new()
            } else {
                checksum.parts.iter().map(|value| BASE64.encode(value)).collect()
            },
        })
    }

    fn is_broken(&mut self, id: Option<&str>) -> bool {
        let name = id.unwrap_or("null");
        if self.broken.iter().any(|(of, _)| of == name) {
            return true;
        }
        match self.verify(id) {
            Ok(()) => false,
            Err(why) => {
                self.broken.push((name.to_owned(), why));
                true
            }
        }
    }

    fn origin<'o>(&'o mut self, id: Option<&'o str>, _: &'o str) -> Box<dyn Origin + 'o> {
        Box::new(MinioOrigin { key: self, id })
    }
}

/// The bytes of a version.
struct MinioOrigin<'o, 'k> {
    key: &'o MinioKey<'k>,
    id: Option<&'o str>,
}

impl Origin for MinioOrigin<'_, '_> {
    /// Short ranges are read before anything is sent, so that damage does not cut a request off.
    fn with_range(&mut self, range: Range<u64>, send: &mut SendBody<'_>) -> Result<String, PeerError> {
        let MinioKey { deployment, bucket, path, damage, .. } = *self.key;
        let (_, object, facts) = self.key.object(self.id).map_err(PeerError::Lasting)?;
        let content = ObjectContent { deployment, bucket, path, object, facts, damage };
        let length = range.end - range.start;
        let mut reader = content.read(range);
        if length <= VERIFIED_FIRST_BYTES {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).map_err(|error| PeerError::Lasting(error.to_string()))?;
            let is_all = facts.etag_parts() == Some(0) && length == facts.length;
            let found = to_hex(&Md5::of(&bytes));
            if is_all && found != facts.etag {
                return Err(PeerError::Lasting(format!("{UNLIKE} {found}, and not {}", facts.etag)));
            }
            return send(&mut &bytes[..]);
        }
        let mut watched = Watched { reader, fault: None };
        let sent = send(&mut watched);
        match watched.fault {
            // What is damaged stays so: another attempt reads the same.
            Some(why) if sent.is_err() => Err(PeerError::Lasting(why)),
            _ => sent,
        }
    }
}

/// A reader that remembers why it failed.
struct Watched<R> {
    reader: R,
    fault: Option<String>,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer).inspect_err(|error| self.fault = Some(error.to_string()))
    }
}

/// The text of an obstacle for a version of a key.
pub(super) fn told(version: &str, obstacle: &Obstacle) -> String {
    format!("version {version}: {}", obstacle.text())
}
