use super::uploads::{part, upload};
use super::*;
use crate::format::ByteDecoder;
use crate::format::RawEntry;
use crate::index::walk::StepLimits;

/// A bucket with keys of one version and of many, and uploads of few parts and of many.
fn large() -> Index {
    let mut entries = vec![put("before", record(2, false))];
    // Some versions follow one with a higher id, so that their order is not their id.
    entries.extend((0..1_000).map(|nth| put("many", record(1_000 + nth * 7 % 1_000, false))));
    entries.extend((0..300).map(|nth| put(&format!("one/{nth:03}"), record(3_000 + nth, true))));
    entries.extend((0..200).map(|nth| put("some", record(4_000 + nth, false))));
    entries.extend([upload("few", 5_000), part("few", 5_000, 1, 5_001), upload("none", 5_002)]);
    entries.push(upload("parts", 5_003));
    entries.extend((1..=700).map(|number| part("parts", 5_003, number * 3, 6_000 + u64::from(number))));
    entries.push(upload("parts", 8_000));
    index_of(&entries)
}

/// All steps of a walk.
fn steps(index: &Index, limits: &StepLimits) -> Vec<Vec<Entry>> {
    let mut cursor = Cursor::Start;
    let step = || Some(index.walk_within(&mut cursor, limits)).filter(|entries| !entries.is_empty());
    std::iter::from_fn(step).collect()
}

#[test]
fn no_step_exceeds_its_limits_however_large_a_key_or_an_upload() {
    let index = large();
    let endless = StepLimits { names: usize::MAX, entries: usize::MAX, bytes: usize::MAX };
    let whole = steps(&index, &endless).concat();
    assert_eq!(whole.len(), 1 + 1_501 + 4 + 701);
    for (names, entries, bytes) in
        [(usize::MAX, 50, usize::MAX), (3, 1, usize::MAX), (256, usize::MAX, 2_000), (1, 64, 9_000)]
    {
        let steps = steps(&index, &StepLimits { names, entries, bytes });
        assert!(steps.concat() == whole, "{names} {entries} {bytes}");
        // A key or an upload is never split where it fits into one step.
        let most = entries.saturating_mul(2).min(bytes.saturating_mul(2) / 20) + 64;
        let longest = steps.iter().map(Vec::len).max().unwrap();
        assert!(longest <= most, "{longest} entries of {entries} and {bytes} bytes");
    }
}

#[test]
fn a_walk_in_small_steps_loads_to_the_same_index() {
    let index = large();
    let mut loader = Loader::default();
    let mut cursor = Cursor::Start;
    let mut bytes = Vec::new();
    while index.walk_encoded(&mut cursor, 3, &mut bytes) {
        let mut from = ByteDecoder::new(&bytes);
        while !from.is_done() {
            loader.add(&RawEntry::read(&mut from).unwrap()).unwrap();
        }
    }
    let copy = loader.finish();
    assert_eq!(ids(&copy, "many"), ids(&index, "many"));
    assert!(copy.upload(1, b"parts", UploadId(5_003)) == index.upload(1, b"parts", UploadId(5_003)));
    assert_eq!((copy.version_count(), copy.upload_count()), (index.version_count(), index.upload_count()));
}

#[test]
fn a_walk_within_a_key_or_an_upload_survives_their_end() {
    let mut index = large();
    let limits = StepLimits { names: 256, entries: 10, bytes: usize::MAX };
    let mut cursor = Cursor::Start;
    while !matches!(cursor, Cursor::Versions(_, _, Some(_))) {
        assert!(!index.walk_within(&mut cursor, &limits).is_empty());
    }
    (1_000..2_000).for_each(|id| index.apply(&delete("many", id)).unwrap());
    let next = index.walk_within(&mut cursor, &limits);
    assert!(matches!(&next[0], Entry::VersionPut { key, .. } if key == b"one/000"), "{next:?}");
    while !matches!(cursor, Cursor::Parts(_, (_, UploadId(5_003)), 1..)) {
        assert!(!index.walk_within(&mut cursor, &limits).is_empty());
    }
    let gone = Entry::UploadDelete { bucket: 1, key: b"parts".to_vec(), upload: UploadId(5_003) };
    index.apply(&gone).unwrap();
    let next = index.walk_within(&mut cursor, &limits);
    assert!(
        matches!(&next[..], [Entry::UploadPut { record, .. }] if record.id == UploadId(8_000)),
        "{next:?}"
    );
    assert!(index.walk_within(&mut cursor, &limits).is_empty());
    assert!(index.walk_within(&mut cursor, &limits).is_empty(), "the end is the end");
}
