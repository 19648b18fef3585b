//! What a newer siltstone wrote is refused by name and never taken for damage, and what may be
//! ignored is.

use super::damage::everything;
use super::*;
use crate::base::digest::Crc32;
use crate::base::limits::PAGE_BYTES;
use crate::format::{ByteDecoder, FileHeader, FileKind, GroupHeader, GroupKind, UncheckedGroup};
use crate::log::list_numbers;

/// A store with files of every kind.
fn filled() -> SimFs {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "k", b"abc").unwrap();
    store.close();
    drop(store);
    fs
}

/// Sets a field of the header of a file, and its CRC right.
pub(super) fn set(fs: &SimFs, path: &str, at: usize, field: &[u8]) {
    let mut page = fs.contents(path).unwrap();
    page.truncate(PAGE_BYTES as usize);
    page[at..at + field.len()].copy_from_slice(field);
    let crc = Crc32::of(&page[..4092]);
    page[4092..].copy_from_slice(&crc.to_le_bytes());
    fs.overwrite(path, 0, &page).unwrap();
}

fn refusal(fs: &SimFs) -> String {
    let before = everything(fs);
    let refused = try_open(fs).err().expect("it is refused").to_string();
    assert!(everything(fs) == before, "nothing is written");
    refused
}

#[test]
fn a_file_with_an_unknown_critical_feature_or_version_is_refused_by_name() {
    for kind in FileKind::ALL {
        let path = kind.path(list_numbers(&filled(), kind).unwrap()[0]);
        let fs = filled();
        set(&fs, &path, 40, &(1u64 << 40).to_le_bytes());
        let expected =
            "it needs the features with bit 40, which this siltstone does not know: use a newer siltstone";
        assert_eq!(refusal(&fs), format!("{path}: {expected}"));
        let fs = filled();
        set(&fs, &path, 8, &2u32.to_le_bytes());
        assert!(refusal(&fs).starts_with(&format!("{path}: it has format version 2, and this siltstone ")));
    }
}

#[test]
fn features_that_may_be_ignored_are() {
    let fs = filled();
    for kind in FileKind::ALL {
        let path = kind.path(list_numbers(&fs, kind).unwrap()[0]);
        set(&fs, &path, 48, &[0xff; 8]);
    }
    let store = open(&fs);
    assert_eq!((store.health().damage, get(&store, "b", "k").unwrap()), (vec![], b"abc".to_vec()));
}

/// Writes a group with an entry of this kind behind the last one.
fn append(fs: &SimFs, kind: u8) -> String {
    let path = FileKind::Log.path(list_numbers(fs, FileKind::Log).unwrap()[0]);
    let log = fs.contents(&path).unwrap();
    let store = FileHeader::decode(&log).unwrap().store;
    let mut at = PAGE_BYTES as usize;
    let mut last = None;
    while let Ok(group) = UncheckedGroup::decode(GroupKind::Log, &store, &log[at..]) {
        let body = &log[at + GroupHeader::BYTES..][..group.body_len()];
        (last, at) = (Some(group.check(body).unwrap()), at + group.group_len() as usize);
    }
    let last = last.expect("there are groups");
    let header = GroupHeader {
        sequence: last.header.sequence + 1,
        stable: last.header.sequence,
        pack: None,
        previous_crc: last.crc,
        ..last.header
    };
    let body = [kind, 2, 0, 0];
    assert!(!ByteDecoder::new(&body).is_done());
    fs.overwrite(&path, at as u64, &header.encode_group(&store, 1, &body).0).unwrap();
    path
}

/// Its CRCs are right: to take it for torn would be to lose what it says.
#[test]
fn a_last_group_with_an_unknown_critical_entry_is_not_taken_for_torn() {
    let fs = filled();
    let path = append(&fs, 127);
    let refused = refusal(&fs);
    assert!(refused.starts_with(&format!("{path}: body of group ")), "{refused}");
    assert!(
        refused.ends_with("a kind of entry is unknown to this version: use a newer siltstone"),
        "{refused}"
    );
}

#[test]
fn a_last_group_with_an_unknown_ignorable_entry_counts() {
    let fs = filled();
    append(&fs, 200);
    let store = open(&fs);
    assert_eq!((store.health().damage, store.health().torn_groups), (vec![], 0));
    put(&store, "b", "more", b"abc").unwrap();
    drop(store);
    assert_eq!(keys(&open(&fs), "b"), ["k", "more"]);
}
