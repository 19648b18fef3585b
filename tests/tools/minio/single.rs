//! One drive: every form of xl.meta, versions, attributes, damage, and what is refused.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::super::import::counts;
use super::super::{bytes, foreign, status, stderr};
use super::writer::{ENABLED, Form, MinioDrives, NEWEST, TIME, Written, uuid};
use super::{import, imported, kinds, long_body, names, served};

const FORMS: [Form; 6] = [
    Form { minor: 0, header: 0, textual: true },
    Form { minor: 0, header: 0, textual: false },
    Form { minor: 1, header: 0, textual: false },
    Form { minor: 2, header: 0, textual: false },
    Form { minor: 3, header: 2, textual: false },
    NEWEST,
];
const SECOND: i64 = 1_000_000_000;

#[test]
fn every_form_of_the_metadata_is_read() {
    for form in FORMS {
        let drives = MinioDrives { form, ..MinioDrives::new(1, 0) };
        let large = bytes(1, 2_500_000);
        let parts = vec![(2, bytes(2, 5 << 20)), (7, bytes(3, 1_234))];
        drives.put(
            "photos",
            "a/small",
            &[Written::object(0, TIME, b"a few bytes").with("X-Amz-Tagging", "k=v+w&a=%2B")],
        );
        drives.put("photos", "a/small/below", &[Written::object(0, TIME, b"")]);
        drives.put("photos", "large", &[Written::object(0, TIME, &large)]);
        drives.put("photos", "folder/", &[Written::object(0, TIME, b"")]);
        drives.put("photos", "film", &[Written::multipart(0, TIME, parts.clone())]);
        let data = tempfile::tempdir().unwrap();
        let (status, report) = imported(&drives, data.path(), &[]);
        assert_eq!((status, counts(&report)), (0, [5, 0, 0, 0]), "{form:?}: {report}");
        let (_server, mut client) = served(&data, "photos");
        assert_eq!(client.body("a/small"), b"a few bytes");
        assert_eq!(client.body("a/small/below"), b"");
        assert_eq!(client.body("folder/"), b"");
        assert!(client.body("large") == large);
        let film: Vec<u8> = parts.iter().flat_map(|(_, part)| part.clone()).collect();
        assert!(long_body(&mut client, "film", film.len()) == film);
        let head = client.ask("HEAD", "a/small", &[], "", b"");
        assert_eq!(head.header("x-amz-meta-who").as_deref(), Some("me"));
        assert_eq!(head.header("content-type").as_deref(), Some("text/plain"));
        assert_eq!(head.header("last-modified").as_deref(), Some("Tue, 14 Nov 2023 22:13:20 GMT"));
        let tags = client.ask("GET", "a/small", &[("tagging", "")], "", b"").text();
        assert!(
            tags.contains("<Key>a</Key><Value>+</Value>") && tags.contains("<Value>v w</Value>"),
            "{tags}"
        );
        let etag = client.ask("HEAD", "film", &[], "", b"").header("etag").unwrap();
        assert_eq!(etag, format!("\"{}\"", Written::multipart(0, TIME, parts).user["etag"]));
    }
}

#[test]
fn versions_come_in_the_order_of_their_times_and_only_once() {
    let drives = MinioDrives::new(1, 0);
    drives.configure("docs", &[("VersioningConfigXML", ENABLED)]);
    // The journal is in no order.
    let versions = [
        Written::object(3, TIME + 3 * SECOND, b"third"),
        Written::object(0, TIME, b"the null version"),
        Written::marker(2, TIME + 2 * SECOND),
        Written::object(1, TIME + SECOND, &bytes(1, 3_000)),
    ];
    drives.put("docs", "text", &versions);
    drives.put("docs", "gone", &[Written::marker(5, TIME + SECOND), Written::object(4, TIME, b"was here")]);
    let free = Written::marker(9, TIME + 9 * SECOND).with_internal("x-minio-internal-free-version", b"");
    drives.put("docs", "tiered", &[free, Written::object(8, TIME, b"stays")]);
    let data = tempfile::tempdir().unwrap();
    let map = data.path().with_extension("map");
    let (status, report) = imported(&drives, data.path(), &["--map", map.to_str().unwrap()]);
    assert_eq!((status, counts(&report)), (0, [3, 0, 0, 0]), "{report}");
    let lines = fs::read_to_string(&map).unwrap();
    fs::remove_file(&map).unwrap();
    assert_eq!(lines.lines().count(), 7);
    let old = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let old: Vec<_> = old
        .filter(|line| line["key"] == "text")
        .map(|line| line["from"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(old, ["null".to_owned(), uuid(&[1; 16]), uuid(&[2; 16]), uuid(&[3; 16])]);

    let (again, second) = imported(&drives, data.path(), &[]);
    assert_eq!((again, counts(&second)), (0, [0, 3, 0, 0]), "{second}");
    let (_server, mut client) = served(&data, "docs");
    let history = client.history();
    assert_eq!(
        kinds(&mut client),
        [
            "DeleteMarker gone true",
            "Version gone false",
            "Version text true",
            "DeleteMarker text false",
            "Version text false",
            "Version text false",
            "Version tiered true",
        ],
        "{history:?}"
    );
    assert_eq!(client.body("text"), b"third");
    assert_eq!(
        client.times()[1..4],
        ["2023-11-14T22:13:23.123Z", "2023-11-14T22:13:21.123Z", "2023-11-14T22:13:20.123Z"]
    );
}

#[test]
fn without_versions_a_deleted_key_stays_deleted() {
    let drives = MinioDrives::new(1, 0);
    drives.configure("docs", &[]);
    drives.put("docs", "gone", &[Written::marker(5, TIME + SECOND), Written::object(0, TIME, b"was here")]);
    drives.put(
        "docs",
        "held",
        &[Written::object(0, TIME, b"x").with_internal("x-minio-internal-purgestatus", b"arn=PENDING;")],
    );
    drives.put("docs", "there", &[Written::object(0, TIME, b"is here")]);
    let data = tempfile::tempdir().unwrap();
    let (status, report) = imported(&drives, data.path(), &[]);
    assert_eq!((status, counts(&report)), (0, [1, 0, 0, 0]), "{report}");
    assert_eq!(names(&report, "deleted"), ["docs/gone: its newest version is a delete marker"]);
}

#[test]
fn rot_is_named_by_file_and_block_and_the_rest_is_imported() {
    let drives = MinioDrives::new(1, 0);
    drives.configure("docs", &[("VersioningConfigXML", ENABLED)]);
    let rotten = Written::object(1, TIME, &bytes(1, 2_500_000));
    let directory = {
        let mut id = [1; 16];
        id[0] ^= 0xd1;
        id[15] = (TIME % 251) as u8;
        uuid(&id)
    };
    let versions =
        [Written::object(2, TIME + SECOND, b"good"), rotten, Written::object(0, TIME - SECOND, b"older")];
    drives.put("docs", "text", &versions);
    let part = drives.paths[0].join(format!("docs/text/{directory}/part.1"));
    drives.change(&part, |bytes| bytes[1_500_000] ^= 1);
    drives.put("docs", "torn", &[Written::object(0, TIME, b"x")]);
    drives.change(&drives.paths[0].join("docs/torn/xl.meta"), |bytes| bytes.truncate(100));
    drives.put("docs", "lied", &[Written::object(0, TIME, b"x").with("etag", &"0".repeat(32))]);
    let before = files(&drives);
    let data = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let (status, report) = imported(&drives, data.path(), &[]);
        assert_eq!(status, 1, "{report}");
        let failures = names(&report, "failures");
        assert_eq!(failures.len(), 3, "{report}");
        assert!(
            failures.iter().any(|line| line.contains("docs/torn: no drive has readable metadata")),
            "{failures:?}"
        );
        assert!(
            failures.iter().any(|line| line.contains("docs/lied: version null: its bytes have the ETag")),
            "{failures:?}"
        );
        let of_version =
            format!("docs/text: version {}: block 1 of part 1 has 0 whole shards", uuid(&[1; 16]));
        assert!(failures.iter().any(|line| line.contains(&of_version)), "{failures:?}");
        let damage = names(&report, "damage");
        assert!(
            damage.contains(&format!("{}: block 1 of part 1: its hash does not match", part.display())),
            "{damage:?}"
        );
        assert!(damage.iter().any(|line| line.contains("docs/torn/xl.meta")), "{damage:?}");
    }
    assert_eq!(files(&drives), before, "the drives were written");
    let (_server, mut client) = served(&data, "docs");
    assert_eq!(client.body("text"), b"good");
    assert_eq!(client.history().len(), 2, "{:?}", client.history());
}

fn files(drives: &MinioDrives) -> BTreeMap<std::path::PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    drives.paths.iter().for_each(|path| foreign::everything(path, &mut found));
    found
}

#[test]
fn what_is_no_drive_or_in_the_way_is_refused_and_nothing_is_made() {
    let drives = MinioDrives::new(1, 0);
    drives.put("docs", "text", &[Written::object(0, TIME, b"x")]);
    let other = MinioDrives::new(1, 0);
    other.change(&other.paths[0].join(".minio.sys/format.json"), |text| {
        *text = String::from_utf8(text.clone()).unwrap().replace("5f6ec3b4", "00000000").into_bytes();
    });
    let copy = MinioDrives::new(1, 0);
    let nothing = tempfile::tempdir().unwrap();
    fs::write(nothing.path().join("file"), "x").unwrap();
    let source = |paths: &[&std::path::Path]| {
        MinioDrives::source_of(&paths.iter().map(|path| path.to_path_buf()).collect::<Vec<_>>())
    };
    let first = drives.paths[0].as_path();
    for (source, more, told) in [
        (source(&[nothing.path()]), &[][..], "it is no drive of MinIO"),
        (source(&[&nothing.path().join("absent")]), &[], "No such file"),
        (source(&[first, first]), &[], "are the same drive"),
        (source(&[first, &copy.paths[0]]), &[], "are the same drive"),
        (source(&[first, &other.paths[0]]), &[], "are of two deployments"),
        (source(&[first]), &["absent"], "no drive has the bucket absent; there are: docs"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let output = import(&source, home.path(), more);
        assert_eq!(status(&output), 2, "{source}");
        assert!(stderr(&output).contains(told), "{source}: {}", stderr(&output));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "{source}");
    }
    // A bucket that was there before.
    let data = tempfile::tempdir().unwrap();
    assert_eq!(imported(&other, data.path(), &[]).0, 0);
    other.put("docs", "mine", &[Written::object(0, TIME, b"y")]);
    assert_eq!(imported(&other, data.path(), &[]).0, 0);
    let output = import(&drives.source(), data.path(), &[]);
    assert_eq!(status(&output), 2);
    assert!(
        stderr(&output).contains("docs: the bucket is there, and was made by another import"),
        "{}",
        stderr(&output)
    );
    let (status, report) = imported(&drives, data.path(), &["--into-existing"]);
    assert_eq!((status, counts(&report)), (0, [1, 0, 0, 0]), "{report}");
}

#[test]
fn locks_and_checksums_come_along() {
    let drives = MinioDrives::new(1, 0);
    let lock =
        "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>";
    drives.configure("legal", &[("ObjectLockConfigXML", lock), ("VersioningConfigXML", ENABLED)]);
    let held = Written::object(1, TIME, b"held").with("x-amz-object-lock-legal-hold", "ON");
    let kept = Written::object(2, TIME + SECOND, b"kept")
        .with("X-Amz-Object-Lock-Mode", "GOVERNANCE")
        .with("X-Amz-Object-Lock-Retain-Until-Date", "2099-01-02T03:04:05.000Z");
    let ended = Written::object(3, TIME + 2 * SECOND, b"ended")
        .with("x-amz-object-lock-mode", "COMPLIANCE")
        .with("x-amz-object-lock-retain-until-date", "2020-01-02T03:04:05Z");
    drives.put("legal", "paper", &[held, kept, ended]);
    let sum = crc32c(b"summed");
    let blob = [&[16][..], &sum].concat();
    drives.put(
        "legal",
        "summed",
        &[Written::object(4, TIME, b"summed").with_internal("x-minio-internal-crc", &blob)],
    );
    let parts = vec![(1, bytes(1, 5 << 20)), (2, bytes(2, 77))];
    let sums: Vec<u8> = parts.iter().flat_map(|(_, part)| crc32c(part)).collect();
    let blob = [&[0xd0, 1][..], &crc32c(&sums), &[2], &sums].concat();
    drives.put(
        "legal",
        "film",
        &[Written::multipart(5, TIME, parts).with_internal("x-minio-internal-crc", &blob)],
    );
    let wrong = [&[16][..], &[1, 2, 3, 4]].concat();
    drives.put(
        "legal",
        "wrong",
        &[Written::object(6, TIME, b"wrong").with_internal("x-minio-internal-crc", &wrong)],
    );
    let data = tempfile::tempdir().unwrap();
    let (status, report) = imported(&drives, data.path(), &[]);
    assert_eq!((status, counts(&report)), (1, [3, 0, 1, 0]), "{report}");
    let (_server, mut client) = served(&data, "legal");
    let page = client.ask("GET", "", &[("prefix", "paper"), ("versions", "")], "", b"").text();
    let document = roxmltree::Document::parse(&page).unwrap();
    let ids = document.descendants().filter(|node| node.tag_name().name() == "VersionId");
    let ids: Vec<_> = ids.filter_map(|node| node.text()).collect();
    let mut told = |id: &str| {
        let head = client.ask("HEAD", "paper", &[("versionId", id)], "", b"");
        ["mode", "retain-until-date", "legal-hold"]
            .map(|name| head.header(&format!("x-amz-object-lock-{name}")))
    };
    assert_eq!(told(ids[0]), [None, None, None]);
    assert_eq!(told(ids[1])[0].as_deref(), Some("GOVERNANCE"));
    assert!(told(ids[1])[1].as_deref().unwrap().starts_with("2099-01-02T03:04:05"));
    assert_eq!(told(ids[2])[2].as_deref(), Some("ON"));
    let sum_of = |client: &mut super::Client, key: &str| {
        let head = client.ask("HEAD", key, &[], "x-amz-checksum-mode: ENABLED", b"");
        head.header("x-amz-checksum-crc32c")
    };
    use base64::Engine as _;
    let encoded = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    assert_eq!(sum_of(&mut client, "summed"), Some(encoded(&sum)));
    assert_eq!(sum_of(&mut client, "film"), Some(format!("{}-2", encoded(&crc32c(&sums)))));
}

fn crc32c(bytes: &[u8]) -> Vec<u8> {
    let mut crc = siltstone::base::digest::Crc32c::new();
    crc.update(bytes);
    crc.value().to_be_bytes().to_vec()
}
