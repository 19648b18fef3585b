use serde_json::{Value, json};

use super::*;

fn stats(fixture: &Fixture, more: &[&str]) -> (i32, Value) {
    let output = fixture.tool(&[&["--json", "stats"], more].concat());
    (status(&output), serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn everything_is_counted_once() {
    let fixture = Fixture::new();
    let before = fixture.contents();
    let (status_of, told) = stats(&fixture, &[]);
    assert_eq!((status_of, &told["damage"]), (0, &json!([])), "{told:#}");
    assert_eq!(told["objects"], json!({ "count": 2, "bytes": 300_000 + 21 }));
    assert_eq!(told["noncurrent"], json!({ "count": 5, "bytes": 11 + 200_000 + 3 * 300_000 }));
    assert_eq!((&told["delete_markers"], &told["uploads"]), (&json!(1), &json!(1)));
    assert_eq!(told["parts"], json!({ "count": 1, "bytes": 14 }));
    assert_eq!(told["largest_keys"][0], json!({ "bucket": "photos", "key": "large", "bytes": 300_000 }));
    let total = json!([{ "name": "photos", "bytes": 1_400_032, "versions": 8 }]);
    assert_eq!(told["largest_buckets"], total);
    let of_size = |up_to: Value| {
        let classes = told["sizes"].as_array().unwrap();
        classes.iter().find(|class| class["up_to"] == up_to).unwrap()["of"]["count"].clone()
    };
    assert_eq!(
        (of_size(json!(1024)), of_size(json!(1 << 20)), of_size(json!(null))),
        (json!(1), json!(1), json!(0))
    );
    assert_eq!(told["ages"][0]["of"]["count"], 2);
    assert_eq!((&told["checkpoints"]["files"], &told["groups_behind"]), (&json!(2), &json!(1)));
    assert!(fixture.contents() == before);
}

#[test]
fn space_is_that_of_verify() {
    let fixture = Fixture::new();
    let (_, told) = stats(&fixture, &[]);
    let verified: Value = serde_json::from_slice(&fixture.tool(&["--json", "verify"]).stdout).unwrap();
    let live = |report: &Value| -> Vec<_> {
        let segments = report["segments"].as_array().unwrap();
        segments.iter().map(|s| (s["file"].clone(), s["live"].clone(), s["sealed"].clone())).collect()
    };
    assert_eq!(live(&told), live(&verified));
    let space = &told["space"];
    let beside = space["live"].as_u64().unwrap() - space["content"].as_u64().unwrap();
    assert!(space["content"] == 1_400_046 && beside < 10_000, "{space}");
    let live = space["live"].as_f64().unwrap();
    let on_disk = space["on_disk"].as_f64().unwrap();
    assert!(live > 1_400_000.0 && on_disk >= live, "{space}");
    assert!((space["amplification"].as_f64().unwrap() - on_disk / live).abs() < 1e-9);
}

#[test]
fn statistics_are_printed_while_a_server_runs_and_as_text() {
    let fixture = Fixture::new();
    let store = open(fixture.dir.path());
    put(&store, "one more", b"abc");
    let (status_of, told) = stats(&fixture, &["--top", "1"]);
    assert_eq!((status_of, &told["objects"]["count"]), (0, &json!(3)), "{told:#}");
    assert_eq!(told["largest_keys"].as_array().unwrap().len(), 1);
    let text = stdout(&fixture.tool(&["stats"]));
    for line in [
        "objects: 3 with 293.0 KiB\n",
        "key \"large\" of bucket photos: 293.0 KiB\n",
        "\nlive: ",
        "\nspace: ",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    drop(store);
}

#[test]
fn damage_is_reported_with_the_remaining_totals() {
    let fixture = Fixture::new();
    fs::remove_file(fixture.path(&fixture.files(FileKind::Segment)[0])).unwrap();
    let (status_of, told) = stats(&fixture, &[]);
    assert_eq!((status_of, &told["objects"]["count"]), (1, &json!(2)));
    assert!(told["damage"][0]["what"].as_str().unwrap().contains("the segment is missing"), "{told:#}");
    let empty = tempfile::tempdir().unwrap();
    let refused = run(&["--data-dir", empty.path().to_str().unwrap(), "stats"]);
    assert_eq!((status(&refused), fs::read_dir(empty.path()).unwrap().count()), (2, 0));
}
