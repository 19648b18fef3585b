//! A store whose log has arbitrary group bodies with correct CRCs. The store opens or refuses to
//! open, and an opened store is usable. Each piece of the input, after its length in one byte, is
//! the body of a group.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone::base::Timestamp;
use siltstone::format::{ByteDecoder, Entry, Features, FileHeader, FileKind, GroupHeader, GroupKind, StoreId};
use siltstone::fs::Fs;
use siltstone::fs::sim::SimFs;
use siltstone::offline::verify;
use siltstone::store::{ListQuery, Selector, Store};
use siltstone_fuzz::open;

const STORE: StoreId = StoreId([7; 16]);

fn entries_in(body: &[u8]) -> u32 {
    let mut from = ByteDecoder::new(body);
    let mut count = 0;
    while !from.is_done() && Entry::decode(&mut from).is_ok() {
        count += 1;
    }
    count
}

/// The file header, the groups, and a page of zeros.
fn log(mut bytes: &[u8]) -> Vec<u8> {
    let now = Timestamp::from_millis(1);
    let features = Features::NONE;
    let header = FileHeader { kind: FileKind::Log, store: STORE, number: 1, features, created: now, previous_crc: 0 };
    let mut file = header.encode();
    let mut sequence = 1;
    let mut previous_crc = 0;
    while let Some((len, rest)) = bytes.split_first() {
        let (body, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        let header = GroupHeader {
            kind: GroupKind::Log,
            sequence,
            stable: sequence - 1,
            file_len: 0,
            time: now,
            pack: None,
            previous_crc,
        };
        let (group, crc) = header.encode_group(&STORE, entries_in(body), body);
        file.extend(group);
        (bytes, sequence, previous_crc) = (rest, sequence + 1, crc);
    }
    file.resize(file.len().next_multiple_of(4096) + 4096, 0);
    file
}

fn use_up(store: &Store) {
    let query = ListQuery { limit: 100, delimiter: "/".into(), ..ListQuery::default() };
    for bucket in store.buckets() {
        let _ = store.list_versions(&bucket.name, &query, None);
        let _ = store.list_uploads(&bucket.name, &query, None);
        let Ok(found) = store.find(&bucket.name, "k", Selector::Current) else { continue };
        let Ok(mut reader) = store.read(&found, 0..found.version.size) else { continue };
        let mut buffer = vec![0; 4096];
        while reader.read(&mut buffer).is_ok_and(|len| len > 0) {}
    }
    let _ = store.create_bucket("another", "admin");
    store.close();
}

fuzz_target!(|bytes: &[u8]| {
    let fs = SimFs::new();
    for dir in ["meta", "data"] {
        fs.create_dir(dir).expect("the disk is empty");
    }
    let file = fs.create(&FileKind::Log.path(1)).expect("the disk is empty");
    file.write_all_at(&log(bytes), 0).expect("the disk has room");
    let _ = verify(&fs, &mut |_| {});
    if let Some(store) = open(&fs) {
        use_up(&store);
    }
});
