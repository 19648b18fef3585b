//! Every structure on disk: any bytes are decoded to a value or an error, and a value is written as
//! it was read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone::base::Timestamp;
use siltstone::format::{
    ByteDecoder, Descriptor, Entry, ExtentHeader, FileHeader, Footer, GroupHeader, GroupKind, PartRecord,
    SideMark, StoreId, UncheckedGroup, UploadRecord, VersionRecord, VersionSummary,
    WitnessMark,
};

const STORE: StoreId = StoreId([7; 16]);

fn group(body: &[u8], entry_count: u32) {
    let header = GroupHeader {
        kind: GroupKind::Log,
        sequence: 1,
        stable: 0,
        file_len: 0,
        time: Timestamp::from_millis(1),
        pack: None,
        previous_crc: 0,
    };
    let (bytes, _) = header.encode_group(&STORE, entry_count, body);
    if let Ok(unchecked) = UncheckedGroup::decode(GroupKind::Log, &STORE, &bytes) {
        let _ = unchecked.check(body);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let _ = (FileHeader::decode(bytes), FileHeader::guess(bytes), Footer::decode(&STORE, bytes));
    let _ = (ExtentHeader::decode(&STORE, bytes), VersionSummary::decode(bytes));
    for kind in [GroupKind::Log, GroupKind::Checkpoint] {
        let _ = UncheckedGroup::decode(kind, &STORE, bytes);
    }
    if let Ok(mark) = SideMark::decode(bytes) {
        assert_eq!(SideMark::decode(&mark.encode()), Ok(mark));
    }
    if let Ok(mark) = WitnessMark::decode(bytes) {
        assert_eq!(WitnessMark::decode(&mark.encode()), Ok(mark));
    }
    if let Ok(descriptor) = Descriptor::decode(bytes) {
        assert_eq!(Descriptor::decode(&descriptor.encode()), Ok(descriptor));
    }
    if let Ok(record) = VersionRecord::decode(&mut ByteDecoder::new(bytes)) {
        let mut again = Vec::new();
        record.encode(&mut again);
        assert_eq!(VersionSummary::decode(&again).map(|summary| summary.id), Ok(record.id));
        assert_eq!(VersionRecord::decode(&mut ByteDecoder::new(&again)), Ok(record));
    }
    let _ = (UploadRecord::decode(&mut ByteDecoder::new(bytes)), PartRecord::decode(&mut ByteDecoder::new(bytes)));
    if let Ok(Some(entry)) = Entry::decode(&mut ByteDecoder::new(bytes)) {
        let mut again = Vec::new();
        entry.encode(&mut again);
        assert_eq!(Entry::decode(&mut ByteDecoder::new(&again)), Ok(Some(entry)));
    }
    for entry_count in [0, 1, 2] {
        group(bytes, entry_count);
    }
});
