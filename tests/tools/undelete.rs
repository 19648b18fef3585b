use serde_json::Value;

use super::*;

fn lines(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_deletion_is_listed_and_undone() {
    let fixture = Fixture::new();
    let listed = fixture.tool(&["--json", "undelete", "photos", "--dry-run"]);
    assert_eq!(status(&listed), 0, "{}", stderr(&listed));
    let found = lines(&listed);
    assert_eq!(
        (found.len(), &found[0]["key"], &found[0]["version"]["size"]),
        (1, &"small".into(), &11.into())
    );
    let again = fixture.tool(&["undelete", "photos", "small"]);
    assert_eq!(status(&again), 0, "{}", stderr(&again));
    assert!(stdout(&again).starts_with("\"small\": deleted 20"), "{}", stdout(&again));
    assert!(stdout(&again).ends_with("undeleted: 1\n"), "{}", stdout(&again));
    let store = open(fixture.dir.path());
    assert_eq!(store.find("photos", "small", Selector::Current).unwrap().version.size, 11);
    drop(store);
    assert_eq!(stdout(&fixture.tool(&["undelete", "photos"])), "undeleted: 0\n");
    assert_eq!(status(&fixture.tool(&["verify"])), 0);
}

#[test]
fn a_time_limits_it() {
    let fixture = Fixture::new();
    let count = |since: &str| {
        let output = fixture.tool(&["--json", "undelete", "photos", "--dry-run", "--since", since]);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        lines(&output).len()
    };
    assert_eq!([count("1h"), count("2026-01-01T00:00:00Z"), count("2100-01-01T00:00:00Z")], [1, 1, 0]);
}

#[test]
fn impossible_requests_exit_with_2() {
    let fixture = Fixture::new();
    let refused = |args: &[&str], why: &str| {
        let output = fixture.tool(args);
        assert_eq!(status(&output), 2, "{args:?}");
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    };
    refused(&["undelete", "letters"], "letters: the bucket does not exist");
    refused(&["undelete", "photos", "--since", "noon"], "write a time such as");
    refused(&["undelete", "photos", "key", "--prefix", "k"], "cannot be used with");
    let server = open(fixture.dir.path());
    refused(&["undelete", "photos"], "another process uses this data directory");
    drop(server);
    let nothing = tempfile::tempdir().unwrap();
    let dir = nothing.path().to_str().unwrap();
    assert_eq!(status(&run(&["--data-dir", dir, "undelete", "photos"])), 2);
    assert_eq!(fs::read_dir(nothing.path()).unwrap().count(), 0);
}
