//! What the rules leave out, in a bucket of its own: `--salvage`.

use std::io::Read;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use siltstone::transfer::{
    Header, ObjectUpload, Origin, PeerError, PeerLink, SendBody, UploadShape, attributes_of,
};

use super::super::buckets::Place;
use super::super::threads::Transfer;
use super::target::BucketPlan;
use crate::minio::content::ObjectContent;
use crate::minio::lost::LostObject;

/// The end of the name of the bucket.
const SUFFIX: &str = "-salvaged";
/// The longest name of a bucket.
const NAME_MAX_BYTES: usize = 63;
/// The longest object that is read before it is sent.
const READ_FIRST_BYTES: u64 = 8 << 20;
/// The metadata that says why an object is doubtful.
const REASON: &str = "x-amz-meta-siltstone-salvaged";

/// The name of the bucket for what is doubtful in another.
pub(super) fn bucket_name(bucket: &str) -> String {
    let kept = bucket.len().min(NAME_MAX_BYTES - SUFFIX.len());
    format!("{}{SUFFIX}", bucket[..kept].trim_end_matches(['.', '-']))
}

/// The bucket, which is made with its first object.
pub(super) struct Salvage<'s> {
    pub(super) plan: BucketPlan<'s>,
    pub(super) place: Place,
    pub(super) is_made: Mutex<bool>,
}

/// Doubtful bytes.
pub(super) enum Doubtful<'d> {
    /// Parts without metadata.
    Lost(&'d LostObject),
    /// An object whose bytes are not those of its entity tag.
    Unlike(&'d ObjectContent<'d>),
}

impl Doubtful<'_> {
    fn length(&self) -> u64 {
        match self {
            Self::Lost(object) => object.length(),
            Self::Unlike(content) => content.facts.length,
        }
    }

    fn headers(&self, reason: &str) -> Vec<Header> {
        let mut headers = match self {
            Self::Lost(_) => vec![("content-type".to_owned(), "application/octet-stream".to_owned())],
            Self::Unlike(content) => content.facts.headers.clone(),
        };
        headers.push((REASON.to_owned(), reason.to_owned()));
        headers.sort();
        headers
    }
}

struct DoubtfulOrigin<'d>(&'d Doubtful<'d>);

impl Origin for DoubtfulOrigin<'_> {
    fn with_range(&mut self, range: Range<u64>, send: &mut SendBody<'_>) -> Result<String, PeerError> {
        let length = range.end - range.start;
        let mut reader: Box<dyn Read + '_> = match self.0 {
            Doubtful::Lost(object) => Box::new(object.read(range.start).take(length)),
            Doubtful::Unlike(content) => Box::new(content.read(range)),
        };
        if length > READ_FIRST_BYTES {
            return send(&mut reader);
        }
        // What is damaged stays so: another attempt reads the same.
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map_err(|error| PeerError::Lasting(error.to_string()))?;
        send(&mut &bytes[..])
    }
}

impl Salvage<'_> {
    /// Stores doubtful bytes under a key, unless they are there.
    ///
    /// # Errors
    /// A message.
    pub(super) fn store(
        &self,
        key: &str,
        doubtful: &Doubtful<'_>,
        reason: &str,
        transfer: &Transfer,
    ) -> Result<(), String> {
        self.make()?;
        let mut link = PeerLink::new(&self.place.peer);
        let headers = doubtful.headers(reason);
        let length = doubtful.length();
        let there = attributes_of(&mut link, key, None).map_err(PeerError::text)?;
        if there.is_some_and(|there| there.length == length && there.kept == headers) {
            return Ok(());
        }
        let upload = ObjectUpload {
            key,
            headers: &headers,
            shape: &UploadShape::Whole(length),
            begun: transfer.begun,
            stated_time: None,
            repeated: true,
            expected: None,
            checksum: None,
        };
        upload.send(&mut link, &mut DoubtfulOrigin(doubtful)).map(drop).map_err(PeerError::text)
    }

    fn make(&self) -> Result<(), String> {
        // Held while it is made, so that one thread does. After a panic the next one tries again: a
        // bucket that is there already is taken.
        let mut is_made = self.is_made.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_made {
            self.plan.make(&self.place)?;
            *is_made = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::bucket_name;

    #[test]
    fn the_bucket_has_a_name_that_buckets_may_have() {
        assert_eq!(bucket_name("photos"), "photos-salvaged");
        let long = bucket_name(&format!("{}.{}", "a".repeat(53), "b".repeat(9)));
        assert!(long.len() <= 63 && long.ends_with("a-salvaged"), "{long}");
    }
}
