//! The tests of crashes and of failed syncs, with a disk that is encrypted.

use super::crashes::{sweep, sweep_of, tiny_segments};
use super::disks::{disk, on_encrypted_disk};
use super::faults::sweep_of_failed_syncs;
use super::model::Model;
use super::script::{CHURN, WORK, work};
use super::*;
use crate::offline::verify::verify;

#[test]
fn what_was_acknowledged_survives_a_crash_on_an_encrypted_disk() {
    on_encrypted_disk(|| sweep(options(), 5));
}

#[test]
fn it_survives_too_where_segments_are_emptied_and_checkpoints_are_many() {
    on_encrypted_disk(|| {
        sweep_of(CHURN, tiny_segments(), 7);
        let options = StoreOptions { segment_max_bytes: 100_000, checkpoint_after_bytes: 8_192, ..options() };
        sweep(options, 7);
    });
}

#[test]
fn it_survives_too_where_a_sync_fails() {
    on_encrypted_disk(|| sweep_of_failed_syncs(options()));
}

/// A text that no file has by chance.
const MARKER: &[u8] = b"a text that is on the disk, or is not";

#[test]
fn the_disk_has_neither_bytes_nor_names_nor_metadata() {
    on_encrypted_disk(|| {
        let fs = SimFs::new();
        let store = open(&fs);
        let named = std::str::from_utf8(MARKER).unwrap();
        store.create_bucket("bucket-of-the-test", "owner-of-the-test").unwrap();
        let large = MARKER.repeat(5000);
        for bytes in [MARKER, &large] {
            put(&store, "bucket-of-the-test", named, bytes).unwrap();
        }
        store.checkpoint().unwrap();
        store.close();
        drop(store);
        let shows = |what: &[u8]| {
            let shows =
                |path: &String| fs.contents(path).unwrap().windows(what.len()).any(|part| part == what);
            fs.files().iter().map(|(path, _)| path.clone()).filter(|path| shows(path)).collect::<Vec<_>>()
        };
        for what in
            [&b"bucket-of"[..], b"owner-of", &MARKER[..16], b"text/plain", b"SXT1", b"SGRP", b"SiltMlog"]
        {
            assert_eq!(shows(what), [""; 0], "{what:?}");
        }
        assert!(!shows(b"SiltSalt").is_empty());
        let found = open(&fs).find("bucket-of-the-test", named, Selector::Current).unwrap();
        assert_eq!(found.version.size, large.len() as u64);
    });
}

#[test]
fn the_work_of_a_store_is_the_same_on_an_encrypted_disk() {
    on_encrypted_disk(|| {
        let fs = SimFs::new();
        work(&fs, options(), WORK, Model::default()).map_err(|halt| halt.error).unwrap();
        let verified = verify(disk(&fs).as_ref(), &mut |_| {}).unwrap();
        assert!(verified.findings.is_empty(), "{:?}", verified.findings);
    });
}
