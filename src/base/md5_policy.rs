//! Who computes the MD5 of a body. This module alone decides; `ops`, `s3` and the store ask it or
//! obey it.
//!
//! MD5 takes several times as long as all other work on a body, so each body takes the cheapest
//! way:
//!
//! | Body | MD5 computed by | Reason |
//! |---|---|---|
//! | an object with a CRC entity tag, or a document, without `Content-MD5` | none | the MD5 has no use |
//! | an object of at most [`PACKED_PAYLOAD_MAX_BYTES`] without `Content-MD5` | the committer | [`md5_of_each`] hashes the objects of a commit group side by side, at a fraction of the cost of one at a time |
//! | another body of at most [`SMALL_BODY_MAX_BYTES`], or a document | the worker, as it reads | handing the bytes over takes longer than hashing them |
//! | a larger body, or one of unknown length | [`Md5Pool`] | the worker reads the next piece while the pool hashes the last one |
//!
//! A `Content-MD5` must be verified before the commit, so the committer never computes it. The
//! entity tag of a part is always an MD5, since the tag of the completed object is derived from it.
//! The bytes of a copied part are hashed by the worker that reads them, unless the source has a
//! known MD5.
//!
//! [`PACKED_PAYLOAD_MAX_BYTES`]: super::limits::PACKED_PAYLOAD_MAX_BYTES
//! [`SMALL_BODY_MAX_BYTES`]: super::limits::SMALL_BODY_MAX_BYTES
//! [`md5_of_each`]: super::md5_of_each
//! [`Md5Pool`]: super::Md5Pool

use super::limits::{PACKED_PAYLOAD_MAX_BYTES, SMALL_BODY_MAX_BYTES};

/// The use of an MD5, beside the verification of a `Content-MD5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Md5Purpose {
    /// The entity tag of an object.
    ObjectTag,
    /// The entity tag of a part.
    PartTag,
    /// None: the entity tag of the object is a CRC.
    CrcTaggedObject,
    /// None: the body is a document in memory.
    Document,
}

/// The party that computes an MD5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Md5Owner {
    /// No party: the MD5 has no use.
    Unneeded,
    /// The worker that reads the body.
    Worker,
    /// The [`Md5Pool`](super::Md5Pool).
    Pool,
    /// The committer.
    Committer,
}

impl Md5Owner {
    /// The owner of the MD5 of a body of `len` bytes; `None` if the length is unknown.
    pub fn of(purpose: Md5Purpose, has_content_md5: bool, len: Option<u64>) -> Self {
        let is_at_most = |max| len.is_some_and(|len| len <= max);
        match purpose {
            Md5Purpose::CrcTaggedObject | Md5Purpose::Document if !has_content_md5 => Self::Unneeded,
            Md5Purpose::ObjectTag if !has_content_md5 && is_at_most(PACKED_PAYLOAD_MAX_BYTES) => {
                Self::Committer
            }
            Md5Purpose::Document => Self::Worker,
            _ if is_at_most(SMALL_BODY_MAX_BYTES) => Self::Worker,
            _ => Self::Pool,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_follows_from_purpose_claim_and_length() {
        use Md5Owner::{Committer, Pool, Unneeded, Worker};
        use Md5Purpose::{CrcTaggedObject, Document, ObjectTag, PartTag};
        let packed = Some(PACKED_PAYLOAD_MAX_BYTES);
        let small = [Some(PACKED_PAYLOAD_MAX_BYTES + 1), Some(SMALL_BODY_MAX_BYTES)];
        let large = [Some(SMALL_BODY_MAX_BYTES + 1), None];
        for (purpose, has_content_md5, expected) in [
            (ObjectTag, false, [Committer, Worker, Pool]),
            (ObjectTag, true, [Worker, Worker, Pool]),
            (PartTag, false, [Worker, Worker, Pool]),
            (PartTag, true, [Worker, Worker, Pool]),
            (CrcTaggedObject, false, [Unneeded; 3]),
            (CrcTaggedObject, true, [Worker, Worker, Pool]),
            (Document, false, [Unneeded; 3]),
            (Document, true, [Worker; 3]),
        ] {
            let owner = |len| Md5Owner::of(purpose, has_content_md5, len);
            assert_eq!(owner(packed), expected[0], "{purpose:?}");
            assert_eq!(small.map(owner), [expected[1]; 2], "{purpose:?}");
            assert_eq!(large.map(owner), [expected[2]; 2], "{purpose:?}");
        }
    }
}
