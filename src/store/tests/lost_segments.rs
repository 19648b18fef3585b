//! Segments that are missing, swapped, of another store, or damaged: readers get an error, and all
//! other objects stay readable.

use super::damage::{Sample, foreign};
use super::*;
use crate::format::segment_path;

/// Every object is alone in its segment.
fn small_segments() -> StoreOptions {
    StoreOptions { segment_max_bytes: 8_192, ..options() }
}

/// A store with an object in each of six segments.
fn store_in_segments() -> SimFs {
    let fs = SimFs::new();
    let store = open_with(&fs, small_segments()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    for id in 1..=6 {
        put(&store, "b", &format!("k{id}"), &bytes(id, 3_000)).unwrap();
        let version = store.find("b", &format!("k{id}"), Selector::Current).unwrap().version;
        assert_eq!(version.extents[0].segment, id);
    }
    store.close();
    fs
}

/// Reads in `bad` segments fail and name them; all other objects are read, and the store stays in
/// use.
fn check_others_go_on(fs: &SimFs, bad: &[u64]) {
    let store = open_with(fs, small_segments()).unwrap();
    for id in 1..=6 {
        match get(&store, "b", &format!("k{id}")) {
            Ok(found) => assert!(found == bytes(id, 3_000) && !bad.contains(&id), "segment {id}"),
            Err(StoreError::Corrupt(damage)) => {
                assert!(bad.contains(&id) && damage.file == segment_path(id), "{damage}");
            }
            Err(other) => panic!("{other}"),
        }
    }
    let health = store.health();
    let mut told: Vec<_> = health.damage.into_iter().map(|damage| damage.file).collect();
    told.sort_unstable();
    told.dedup();
    assert_eq!(told, bad.iter().map(|id| segment_path(*id)).collect::<Vec<_>>());
    assert_eq!(health.read_only, None);
    put(&store, "b", "more", b"more").unwrap();
    put(&store, "b", "much more", &bytes(9, 100_000)).unwrap();
    store.close();
    drop(store);
    let store = open_with(fs, small_segments()).unwrap();
    assert_eq!(get(&store, "b", "more").unwrap(), b"more");
    assert_eq!(get(&store, "b", "much more").unwrap(), bytes(9, 100_000));
}

#[test]
fn swapped_segments_are_not_read() {
    for (one, other) in [(1, 2), (2, 6), (5, 6)] {
        let fs = store_in_segments();
        fs.rename(&segment_path(one), "data/aside").unwrap();
        fs.rename(&segment_path(other), &segment_path(one)).unwrap();
        fs.rename("data/aside", &segment_path(other)).unwrap();
        check_others_go_on(&fs, &[one, other]);
    }
}

#[test]
fn a_bad_header_harms_the_objects_of_that_segment_only() {
    for id in [1, 5, 6] {
        for place in [0, 9, 20, 35, 2_000, 4_095] {
            let fs = store_in_segments();
            fs.damage(&segment_path(id), place, 2).unwrap();
            check_others_go_on(&fs, &[id]);
        }
    }
}

#[test]
fn a_segment_of_another_store_is_not_read() {
    let sample = Sample::new(options());
    let fs = sample.copy();
    let bytes = foreign(&sample, &segment_path(1));
    fs.truncate(&segment_path(1), 0).unwrap();
    fs.overwrite(&segment_path(1), 0, &bytes).unwrap();
    let store = open(&fs);
    assert!(matches!(get(&store, "b", "k3"), Err(StoreError::Corrupt(_))));
    assert!(store.health().damage[0].what.contains("another store"));
}

#[test]
fn a_missing_segment_ends_writing_and_takes_only_its_objects_with_it() {
    let fs = store_in_segments();
    fs.remove(&segment_path(3)).unwrap();
    let store = open_with(&fs, small_segments()).unwrap();
    let health = store.health();
    assert_eq!(health.damage[0].file, segment_path(3));
    assert!(health.read_only.is_some());
    for id in 1..=6 {
        let found = get(&store, "b", &format!("k{id}"));
        assert_eq!(found.is_ok(), id != 3, "{found:?}");
    }
}

/// Reads `range` up to an error, whole or in pieces of `piece` bytes.
fn read_in_pieces(store: &Store, version: &VersionRecord, range: Range<u64>, piece: usize) -> Vec<u8> {
    let mut found = Vec::new();
    let mut buffer = vec![0; piece];
    let mut reader = read_record(store, version, range).unwrap();
    while let Ok(len @ 1..) = reader.read(&mut buffer) {
        found.extend_from_slice(&buffer[..len]);
    }
    found
}

#[test]
fn a_flipped_bit_never_comes_back_from_a_read() {
    let whole = bytes(5, 200_000);
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "small", &whole[..3_000]).unwrap();
    put(&store, "b", "large", &whole).unwrap();
    for key in ["small", "large"] {
        let version = store.find("b", key, Selector::Current).unwrap().version;
        let extent = version.extents[0];
        let path = segment_path(extent.segment);
        // The payload, and the block table if there is one.
        let end = 64 + version.size + if key == "large" { 16 } else { 0 };
        let places = (64..end).step_by(version.size as usize / 25).chain([64 + version.size - 1, end - 1]);
        for place in places {
            fs.damage(&path, extent.offset + place, 0x40).unwrap();
            let mut refused = 0;
            for range in [0..version.size, 0..1_000, 60_000..140_000, 131_072..131_073, 199_999..200_000] {
                let range = range.start.min(version.size)..range.end.min(version.size);
                let expected = &whole[range.start as usize..range.end as usize];
                for piece in [1_000, 65_536, 300_000] {
                    let found = read_in_pieces(&store, &version, range.clone(), piece);
                    assert!(expected.starts_with(&found), "{key} {place} {range:?} in pieces of {piece}");
                    refused += usize::from(found.len() < expected.len());
                }
            }
            assert!(refused >= 3, "reading the whole must fail");
            fs.damage(&path, extent.offset + place, 0x40).unwrap();
            assert_eq!(get(&store, "b", key).unwrap(), whole[..version.size as usize]);
        }
    }
}

#[test]
fn a_range_without_damage_is_read() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    let whole = bytes(5, 200_000);
    put(&store, "b", "k", &whole).unwrap();
    let version = store.find("b", "k", Selector::Current).unwrap().version;
    let extent = version.extents[0];
    fs.damage(&segment_path(extent.segment), extent.offset + 64 + 70_000, 1).unwrap();
    for range in [0..65_536, 131_072..200_000, 0..10, 199_999..200_000] {
        let expected = &whole[range.start as usize..range.end as usize];
        assert_eq!(read_all(&store, &version, range).unwrap(), expected);
    }
    assert!(read_all(&store, &version, 65_536..65_537).is_err());
}
