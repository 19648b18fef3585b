use serde_json::Value;
use siltstone::format::segment_path;

use super::*;

fn lose_log(fixture: &Fixture) {
    fs::remove_dir_all(fixture.path("meta")).unwrap();
}

fn rebuild(fixture: &Fixture, more: &[&str]) -> (i32, Value) {
    let output = fixture.tool(&[&["rebuild", "--json"], more].concat());
    (status(&output), serde_json::from_slice(&output.stdout).unwrap())
}

fn read(store: &Store, key: &str) -> Vec<u8> {
    let found = store.find("photos", key, Selector::Current).unwrap();
    let mut bytes = vec![0; found.version.size as usize];
    let len = store.read(&found, 0..found.version.size).unwrap().read(&mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

#[test]
fn all_objects_are_restored_without_findings() {
    let fixture = Fixture::new();
    let segments: BTreeMap<_, _> =
        fixture.contents().into_iter().filter(|(f, _)| f.starts_with("data/")).collect();
    lose_log(&fixture);
    let (status_of, report) = rebuild(&fixture, &[]);
    assert_eq!(
        (status_of, &report["lost"], &report["damage"]),
        (0, &Value::from(vec![0; 0]), &Value::from(vec![0; 0])),
        "{report:#}"
    );
    let restored = &report["restored"];
    let expected = [("buckets", 1), ("versions", 7), ("uploads", 1)];
    expected.iter().for_each(|(name, count)| assert_eq!(restored[name], *count, "{name} in {report:#}"));
    assert_eq!(status(&fixture.tool(&["verify"])), 0);
    assert!(segments.iter().all(|(file, bytes)| fs::read(fixture.path(file)).unwrap() == *bytes));
    let store = open(fixture.dir.path());
    assert!(read(&store, "large") == bytes(3, 300_000));
    assert_eq!(read(&store, "late"), b"behind the checkpoint");
    let bucket = store.bucket("photos").unwrap();
    assert_eq!((bucket.owner.as_str(), bucket.versioning), ("admin", Versioning::Enabled));
}

#[test]
fn the_text_names_uncertain_facts() {
    let fixture = Fixture::new();
    lose_log(&fixture);
    let output = fixture.tool(&["rebuild"]);
    assert_eq!(status(&output), 0);
    let text = stdout(&output);
    let upload = "uncertain: bucket photos, key \"film\": the multipart upload ";
    for part in [upload, "uncertain: segments do not record deletions", "\nrestored: buckets 1, versions 7, "]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(stderr(&output).contains("reading segments 100%"), "{}", stderr(&output));
}

#[test]
fn a_log_is_replaced_only_with_the_option() {
    let fixture = Fixture::new();
    let before = fixture.contents();
    let refused = fixture.tool(&["rebuild"]);
    assert_eq!(status(&refused), 2);
    let expected = "meta/0000000000000001.log exists: a rebuild restores less than the log holds";
    assert!(stderr(&refused).contains(expected), "{}", stderr(&refused));
    assert!(fixture.contents() == before);
    let (status_of, report) = rebuild(&fixture, &["--replace"]);
    assert_eq!((status_of, report["moved"].as_array().unwrap().len()), (0, 3), "{report:#}");
    let moved = report["moved"][0].as_str().unwrap();
    assert!(fs::read(fixture.path(moved)).unwrap() == before["meta/0000000000000001.log"]);
    assert_eq!(status(&fixture.tool(&["verify"])), 0);
}

#[test]
fn damage_is_named_and_all_else_restored() {
    let fixture = Fixture::new();
    lose_log(&fixture);
    fixture.flip(&segment_path(fixture.small.segment), fixture.small.offset + 64, 1);
    let (status_of, report) = rebuild(&fixture, &[]);
    assert_eq!((status_of, report["restored"]["versions"].as_u64()), (1, Some(6)), "{report:#}");
    let lost = report["lost"].as_array().unwrap();
    assert_eq!((lost.len(), lost[0]["key"].as_str()), (1, Some("small")), "{lost:#?}");
    assert_eq!(lost[0]["damage"]["offset"], fixture.small.offset + 64);
}

#[test]
fn a_directory_in_use_or_without_segments_is_left_alone() {
    let fixture = Fixture::new();
    let store = open(fixture.dir.path());
    let refused = fixture.tool(&["rebuild", "--replace"]);
    assert_eq!(status(&refused), 2);
    assert!(stderr(&refused).contains("another process uses this data directory"), "{}", stderr(&refused));
    drop(store);
    let empty = tempfile::tempdir().unwrap();
    let refused = run(&["--data-dir", empty.path().to_str().unwrap(), "rebuild"]);
    assert_eq!((status(&refused), fs::read_dir(empty.path()).unwrap().count()), (2, 0));
}
