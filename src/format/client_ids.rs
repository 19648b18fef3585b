//! The ids of versions and uploads as clients see them (data-format.md, section 15).

use std::fmt;

use subtle::ConstantTimeEq as _;

use crate::base::digest::HmacSha256;
use crate::format::{StoreId, UploadId, VersionId};

/// Hexadecimal digits of the stamp, and of the tag after it.
const HALF_DIGITS: usize = 16;

/// The labels of the tags, which are computed over label and stamp.
const VERSION: &[u8] = b"version";
const UPLOAD: &[u8] = b"upload";
const STORE: &[u8] = b"store";

/// An id as clients see it: 32 hexadecimal digits, which sort as the stamp does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientId {
    stamp: u64,
    tag: [u8; 8],
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.stamp, u64::from_be_bytes(self.tag))
    }
}

/// Converts the ids of a store to their client form and back. Stamps are guessable, since they are
/// near the time of creation; tags are not.
#[derive(Debug, Clone)]
pub struct ClientIds {
    /// Keyed by the store id, which is never sent to clients.
    keyed: HmacSha256,
}

impl ClientIds {
    /// The converter of a store.
    pub fn new(store: &StoreId) -> Self {
        Self { keyed: HmacSha256::new(&store.0) }
    }

    /// The id of a version.
    pub fn of_version(&self, id: VersionId) -> ClientId {
        self.tagged(VERSION, id.0)
    }

    /// The id of a multipart upload.
    pub fn of_upload(&self, id: UploadId) -> ClientId {
        self.tagged(UPLOAD, id.0)
    }

    /// The public id of the store, which mirrors send each other: 32 hexadecimal digits.
    pub fn of_store(&self) -> String {
        [0, 1].map(|half| self.tagged(STORE, half).to_string().split_off(HALF_DIGITS)).concat()
    }

    /// The version that `text` names: [`VersionId::NONE`] for a wrong tag; `None` for text that is
    /// not an id.
    pub fn version(&self, text: &str) -> Option<VersionId> {
        let named = parse(text)?;
        Some(VersionId(self.stamp_of(VERSION, named).unwrap_or(VersionId::NONE.0)))
    }

    /// The upload that `text` names; `None` for a wrong tag or text that is not an id.
    pub fn upload(&self, text: &str) -> Option<UploadId> {
        self.stamp_of(UPLOAD, parse(text)?).map(UploadId)
    }

    /// The stamp of an id with a correct tag. The comparison takes constant time.
    fn stamp_of(&self, label: &[u8], named: ClientId) -> Option<u64> {
        let good: bool = self.tagged(label, named.stamp).tag.ct_eq(&named.tag).into();
        good.then_some(named.stamp)
    }

    fn tagged(&self, label: &[u8], stamp: u64) -> ClientId {
        let mut code = self.keyed.clone();
        code.update(label);
        code.update(&stamp.to_le_bytes());
        let tag = *code.finish().first_chunk().expect("a code has 32 bytes");
        ClientId { stamp, tag }
    }
}

/// Parses the text form of [`ClientId`] without checking the tag.
fn parse(text: &str) -> Option<ClientId> {
    let digits = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let (stamp, tag) =
        text.split_at_checked(HALF_DIGITS).filter(|(_, tag)| digits && tag.len() == HALF_DIGITS)?;
    let stamp = u64::from_str_radix(stamp, 16).ok()?;
    let tag = u64::from_str_radix(tag, 16).ok()?;
    Some(ClientId { stamp, tag: tag.to_be_bytes() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> ClientIds {
        ClientIds::new(&StoreId(*b"0123456789abcdef"))
    }

    #[test]
    fn an_id_is_its_stamp_and_the_start_of_the_code_over_label_and_stamp() {
        let code = HmacSha256::of(b"0123456789abcdef", b"version\xff\x01\0\0\0\0\0\0");
        let tag: String = code[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(ids().of_version(VersionId(0x1ff)).to_string(), format!("00000000000001ff{tag}"));
        let code = HmacSha256::of(b"0123456789abcdef", b"upload\xff\x01\0\0\0\0\0\0");
        let tag: String = code[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(ids().of_upload(UploadId(0x1ff)).to_string(), format!("00000000000001ff{tag}"));
    }

    #[test]
    fn ids_are_read_back_and_sort_as_their_stamps() {
        let mut before = String::new();
        for stamp in [1, 0xf, 0x10, 1 << 40, u64::MAX] {
            let version = ids().of_version(VersionId(stamp));
            let upload = ids().of_upload(UploadId(stamp));
            assert_eq!(ids().version(&version.to_string()), Some(VersionId(stamp)));
            assert_eq!(ids().upload(&upload.to_string()), Some(UploadId(stamp)));
            assert!(version.to_string() > before && upload.to_string() > before);
            before = version.to_string().max(upload.to_string());
        }
    }

    #[test]
    fn an_id_with_any_wrong_digit_names_nothing() {
        let good = ids().of_version(VersionId(0xabc)).to_string();
        for at in 0..good.len() {
            let mut wrong = good.clone().into_bytes();
            wrong[at] = if wrong[at] == b'0' { b'1' } else { b'0' };
            let wrong = String::from_utf8(wrong).unwrap();
            assert_eq!(ids().version(&wrong), Some(VersionId::NONE), "{wrong}");
            assert_eq!(ids().upload(&wrong), None, "{wrong}");
        }
        let other = ClientIds::new(&StoreId([7; 16]));
        assert_eq!(other.version(&good), Some(VersionId::NONE), "of another store");
        assert_eq!(ids().upload(&good), None, "a version is no upload");
    }

    #[test]
    fn other_texts_are_never_ids() {
        let good = ids().of_version(VersionId(0xabc)).to_string();
        let upper = good.to_uppercase();
        for text in
            ["", "0000000000000abc", &good[1..], &*format!("{good}0"), &upper, "null", &"é".repeat(16)]
        {
            assert_eq!((ids().version(text), ids().upload(text)), (None, None), "{text}");
        }
    }

    #[test]
    fn the_key_is_not_shown() {
        assert_eq!(format!("{:?}", ids()), "ClientIds { keyed: HmacSha256 }");
    }
}
