//! Several sets of drives, and several pools of sets.

use std::path::PathBuf;

use super::super::import::{counts, report};
use super::super::{bytes, status, stderr};
use super::writer::{ENABLED, MinioDrives, TIME, Written};
use super::{import, kinds, names, served};

const SECOND: i64 = 1_000_000_000;

/// The source of some drives of each set, those of the sets in turn.
fn source_of(sets: &[&MinioDrives], which: &[usize]) -> String {
    let mut paths: Vec<PathBuf> = Vec::new();
    for at in which {
        paths.extend(sets.iter().map(|set| set.paths[*at].clone()));
    }
    MinioDrives::source_of(&paths)
}

#[test]
fn every_set_needs_enough_drives_and_gives_its_objects() {
    let sets = MinioDrives::pool(0, 2, 2, 2);
    let all: Vec<&MinioDrives> = sets.iter().collect();
    for number in 0..20_u64 {
        let object = Written::object(0, TIME, &bytes(number, 3_000));
        sets[number as usize % 2].put("photos", &format!("{number:02}"), &[object]);
    }
    let data = tempfile::tempdir().unwrap();
    let output = import(&source_of(&all, &[3, 1]), data.path(), &[]);
    assert_eq!((status(&output), counts(&report(&output))), (0, [20, 0, 0, 0]), "{}", stderr(&output));
    let (_server, mut client) = served(&data, "photos");
    for number in [0, 1, 18, 19] {
        assert!(client.body(&format!("{number:02}")) == bytes(number, 3_000), "{number}");
    }

    let data = tempfile::tempdir().unwrap();
    let mut paths = sets[0].paths.clone();
    paths.push(sets[1].paths[2].clone());
    let source = MinioDrives::source_of(&paths);
    let refused = import(&source, data.path(), &[]);
    assert_eq!(status(&refused), 2);
    let told = stderr(&refused);
    assert!(told.contains("set 2 has 1 of 4 drives, 2 are needed; --partial"), "{told}");
    let partial = import(&source, data.path(), &["--partial"]);
    assert_eq!((status(&partial), counts(&report(&partial))), (1, [10, 0, 0, 0]));
    assert_eq!(names(&report(&partial), "dangling").len(), 10);

    let refused = import(&MinioDrives::source_of(&sets[0].paths), data.path(), &[]);
    assert!(stderr(&refused).contains("set 2 has 0 of 4 drives, 2 are needed"), "{}", stderr(&refused));
}

#[test]
fn a_key_in_two_pools_has_the_versions_of_both() {
    let former = MinioDrives::pool(0, 1, 2, 2);
    let later = MinioDrives::pool(1, 2, 3, 1);
    let pools: Vec<&MinioDrives> = former.iter().chain(&later).collect();
    former[0].configure("docs", &[("VersioningConfigXML", ENABLED)]);
    // A pool that is emptied moves versions one by one.
    former[0].put("docs", "moving", &[Written::object(1, TIME, b"first")]);
    later[1].put("docs", "moving", &[Written::object(2, TIME + SECOND, b"second")]);
    // What was moved may not have been deleted yet.
    for pool in [&former[0], &later[0]] {
        pool.put("docs", "moved", &[Written::object(3, TIME, b"the same")]);
    }
    former[0].put("docs", "null", &[Written::object(0, TIME, b"older")]);
    later[0].put("docs", "null", &[Written::object(0, TIME + SECOND, b"newer")]);
    later[1].put("docs", "gone", &[Written::marker(5, TIME + SECOND)]);
    former[0].put("docs", "gone", &[Written::object(4, TIME, b"was here")]);
    let data = tempfile::tempdir().unwrap();
    let output = import(&source_of(&pools, &[0, 1, 2]), data.path(), &[]);
    assert_eq!((status(&output), counts(&report(&output))), (0, [4, 0, 0, 0]), "{}", report(&output));
    let (_server, mut client) = served(&data, "docs");
    let history = kinds(&mut client);
    assert_eq!(
        history,
        [
            "DeleteMarker gone true",
            "Version gone false",
            "Version moved true",
            "Version moving true",
            "Version moving false",
            "Version null true",
        ]
    );
    assert_eq!(client.body("moving"), b"second");
    assert_eq!(client.body("null"), b"newer");

    let data = tempfile::tempdir().unwrap();
    let refused = import(&source_of(&[&former[0], &later[1]], &[0, 1, 2]), data.path(), &[]);
    assert!(stderr(&refused).contains("set 1 of pool"), "{}", stderr(&refused));
}
