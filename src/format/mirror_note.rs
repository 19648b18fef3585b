//! The notes of mirrors (data-format.md, section 6, *follower note*).

use crate::format::{ByteDecoder, DecodeError, Decoded, Encode, FollowerNote};

const BUCKET: u8 = 1;
const UPLOAD: u8 = 2;
const COMPLETE_AFTER: u8 = 3;
const PARTIAL: u8 = 4;

/// The beginning of the keys that a bucket has at the target of a mirror.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MirroredPlace {
    /// The id of the bucket here.
    pub id: u64,
    /// The bucket at the target.
    pub bucket: String,
    /// The beginning of the keys there.
    pub prefix: String,
}

/// How a bucket of the target became one of the mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetOrigin {
    /// The mirror is about to make it: it has joined once it is there, and is empty.
    Making,
    /// It was there, and was empty or taken over.
    Found,
    /// The mirror has made it.
    Made,
}

/// An upload in parts that a mirror may have begun.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MirrorUpload {
    /// The id of the bucket here.
    pub id: u64,
    /// Its name.
    pub source: String,
    /// The key here.
    pub key: String,
    /// The bucket at the target.
    pub bucket: String,
    /// The key there.
    pub target_key: String,
}

/// Something that a mirror has to know after a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MirrorNote {
    /// A bucket that has joined, or is about to.
    Bucket(MirroredPlace, TargetOrigin),
    /// An upload in parts.
    Upload(MirrorUpload),
    /// The buckets of changes after this group are noted. Earlier buckets have all joined.
    CompleteAfter(u64),
    /// A bucket of which the target did not get all versions, since it kept none.
    Partial(u64),
}

impl MirrorNote {
    fn key(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Bucket(place, _) => {
                out.put_u8(BUCKET);
                out.put_varint(place.id);
                out.put_bytes(place.bucket.as_bytes());
                out.put_bytes(place.prefix.as_bytes());
            }
            Self::Upload(upload) => {
                out.put_u8(UPLOAD);
                out.put_varint(upload.id);
                for text in [&upload.source, &upload.key, &upload.bucket, &upload.target_key] {
                    out.put_bytes(text.as_bytes());
                }
            }
            Self::CompleteAfter(_) => out.put_u8(COMPLETE_AFTER),
            Self::Partial(id) => {
                out.put_u8(PARTIAL);
                out.put_varint(*id);
            }
        }
        out
    }

    fn value(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Bucket(_, TargetOrigin::Making) => out.put_u8(0),
            Self::Bucket(_, TargetOrigin::Found) => out.put_u8(1),
            Self::Bucket(_, TargetOrigin::Made) => out.put_u8(2),
            Self::CompleteAfter(sequence) => out.put_varint(*sequence),
            Self::Upload(_) | Self::Partial(_) => {}
        }
        out
    }

    /// The note to be kept.
    pub fn set(&self) -> FollowerNote {
        FollowerNote { key: self.key(), value: Some(self.value()) }
    }

    /// The note to be forgotten.
    pub fn removed(&self) -> FollowerNote {
        FollowerNote { key: self.key(), value: None }
    }

    /// The note that was kept with this key and value.
    ///
    /// # Errors
    /// On invalid bytes; `Unknown` for a kind of a newer version.
    pub fn parse(key: &[u8], value: &[u8]) -> Decoded<Self> {
        let mut name = ByteDecoder::new(key);
        let mut told = ByteDecoder::new(value);
        let note = match name.u8()? {
            BUCKET => {
                let id = name.varint()?;
                let bucket = name.string()?.to_owned();
                let prefix = name.string()?.to_owned();
                let origin = match told.u8()? {
                    0 => TargetOrigin::Making,
                    1 => TargetOrigin::Found,
                    2 => TargetOrigin::Made,
                    _ => return Err(DecodeError::Unknown("an origin of a bucket")),
                };
                Self::Bucket(MirroredPlace { id, bucket, prefix }, origin)
            }
            UPLOAD => Self::Upload(MirrorUpload {
                id: name.varint()?,
                source: name.string()?.to_owned(),
                key: name.string()?.to_owned(),
                bucket: name.string()?.to_owned(),
                target_key: name.string()?.to_owned(),
            }),
            COMPLETE_AFTER => Self::CompleteAfter(told.counter("a sequence")?),
            PARTIAL => Self::Partial(name.varint()?),
            _ => return Err(DecodeError::Unknown("a note of a mirror")),
        };
        name.finish()?;
        told.finish()?;
        Ok(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_and_cut_ones_are_refused() {
        let place = MirroredPlace { id: 300, bucket: "b".into(), prefix: "copy/".into() };
        let upload = MirrorUpload {
            id: 7,
            source: "photos".into(),
            key: "ü".into(),
            bucket: "b".into(),
            target_key: "copy/ü".into(),
        };
        let origins = [TargetOrigin::Making, TargetOrigin::Found, TargetOrigin::Made];
        let mut notes: Vec<_> =
            origins.into_iter().map(|origin| MirrorNote::Bucket(place.clone(), origin)).collect();
        notes.extend([MirrorNote::Upload(upload), MirrorNote::CompleteAfter(900), MirrorNote::Partial(300)]);
        for note in notes {
            let kept = note.set();
            let value = kept.value.unwrap();
            assert_eq!(MirrorNote::parse(&kept.key, &value), Ok(note.clone()));
            assert_eq!((note.removed().key, note.removed().value), (kept.key.clone(), None));
            for end in 0..kept.key.len() {
                assert!(MirrorNote::parse(&kept.key[..end], &value).is_err(), "{note:?} cut to {end}");
            }
        }
        assert_eq!(MirrorNote::parse(&[9], &[]), Err(DecodeError::Unknown("a note of a mirror")));
    }
}
