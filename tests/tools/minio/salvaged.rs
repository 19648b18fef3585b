//! What the rules leave out, in a bucket of its own.

use std::fs;

use super::super::bytes;
use super::super::import::counts;
use super::writer::{MinioDrives, TIME, Written};
use super::{imported, names, served};

#[test]
fn what_is_doubtful_is_stored_aside_with_the_reason() {
    let drives = MinioDrives::new(1, 0);
    let large = bytes(1, 2_500_000);
    drives.put("photos", "gone/cat", &[Written::object(1, TIME, &large)]);
    fs::remove_file(drives.paths[0].join("photos/gone/cat/xl.meta")).unwrap();
    drives.put("photos", "torn", &[Written::object(2, TIME, &large)]);
    drives.change(&drives.paths[0].join("photos/torn/xl.meta"), Vec::clear);
    drives.put("photos", "unlike", &[Written::object(0, TIME, b"other bytes").with("etag", &"1".repeat(32))]);
    drives.put("photos", "sound", &[Written::object(0, TIME, b"sound")]);
    drives.put("photos", "rotten", &[Written::object(4, TIME, &large)]);
    let directory = fs::read_dir(drives.paths[0].join("photos/rotten")).unwrap();
    let directory = directory.map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
    drives.change(&directory.join("part.1"), |bytes| bytes[2_000_000] ^= 1);
    fs::remove_file(drives.paths[0].join("photos/rotten/xl.meta")).unwrap();
    let data = tempfile::tempdir().unwrap();
    let (status, report) = imported(&drives, data.path(), &[]);
    assert_eq!((status, counts(&report)), (1, [1, 0, 4, 0]), "{report}");
    assert_eq!(names(&report, "salvaged").len(), 0);
    for _ in 0..2 {
        let (status, report) = imported(&drives, data.path(), &["--salvage"]);
        assert_eq!((status, counts(&report)), (1, [0, 1, 4, 0]), "{report}");
        let mut salvaged = names(&report, "salvaged");
        salvaged.sort();
        assert_eq!(salvaged.len(), 3, "{report}");
        assert_eq!(salvaged[0], "photos/gone/cat: its xl.meta is gone");
        assert_eq!(salvaged[1], "photos/torn: its xl.meta is damaged");
        assert!(salvaged[2].starts_with("photos/unlike: its bytes have the ETag"), "{salvaged:?}");
        let not = names(&report, "not_salvaged");
        assert!(not.len() == 1 && not[0].contains("photos/rotten: "), "{not:?}");
    }
    let (_server, mut client) = served(&data, "photos-salvaged");
    assert!(client.body("gone/cat") == large && client.body("torn") == large);
    assert_eq!(client.body("unlike"), b"other bytes");
    let head = client.ask("HEAD", "torn", &[], "", b"");
    assert_eq!(head.header("x-amz-meta-siltstone-salvaged").as_deref(), Some("its xl.meta is damaged"));
    assert_eq!(client.history().len(), 3);
}
