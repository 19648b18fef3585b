use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use siltstone::keys::KeyRing;

use super::*;

/// A data directory without a store, and its ring.
struct Ring(TempDir);

impl Ring {
    fn new() -> Self {
        let ring = Self(TempDir::new().unwrap());
        let file = ring.file("keys.toml");
        assert_eq!(status(&run(&["key", "create", &file])), 0);
        ring
    }

    fn file(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file("keys.toml")).unwrap()
    }

    fn parsed(&self) -> KeyRing {
        KeyRing::parse(&self.text()).unwrap()
    }

    fn tool(&self, args: &[&str]) -> Output {
        let dir = self.0.path().to_str().unwrap();
        run(&[&["--data-dir", dir, "key"], args].concat())
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.tool(&[&["--json"], args].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)))
    }
}

#[test]
fn a_ring_is_made_once_for_its_owner_alone() {
    let ring = Ring::new();
    assert_eq!(fs::metadata(ring.file("keys.toml")).unwrap().permissions().mode() & 0o7777, 0o600);
    let before = ring.text();
    let again = run(&["key", "create", &ring.file("keys.toml")]);
    assert!(status(&again) == 2 && stderr(&again).contains("the file exists"), "{}", stderr(&again));
    assert_eq!(ring.text(), before);
}

#[test]
fn keys_are_added_listed_and_retired_and_never_shown() {
    let ring = Ring::new();
    let first = ring.parsed().current().unwrap().id.clone();
    let added = ring.json(&["add"])["key"].as_str().unwrap().to_owned();
    let named = ring.json(&["add", "--name", "invoices"])["key"].as_str().unwrap().to_owned();
    assert_eq!(ring.parsed().current().unwrap().id, added);
    assert_eq!(ring.parsed().named("alias/invoices").unwrap().id, named);
    let states = |listed: &Value| -> Vec<(String, String)> {
        let text = |key: &Value, field: &str| key[field].as_str().unwrap().to_owned();
        listed.as_array().unwrap().iter().map(|key| (text(key, "id"), text(key, "state"))).collect()
    };
    let state = |id: &str, state: &str| (id.to_owned(), state.to_owned());
    let all = [state(&first, "former"), state(&added, "current"), state(&named, "named")];
    assert_eq!(states(&ring.json(&["list"])), all);
    assert_eq!(ring.json(&["retire", &added])["key"], added.as_str());
    let all = [state(&first, "current"), state(&added, "retired"), state(&named, "named")];
    assert_eq!(states(&ring.json(&["list"])), all);

    let shown =
        [ring.tool(&["list"]), ring.tool(&["check"]), ring.tool(&["add"]), ring.tool(&["retire", &named])];
    let shown: String = shown.iter().map(|output| stdout(output) + &stderr(output)).collect();
    assert!(shown.contains(&first) && shown.contains("retired"), "{shown}");
    let secrets = ring.text();
    let secrets = secrets.lines().filter_map(|line| line.strip_prefix("secret = \"")?.strip_suffix('"'));
    for secret in secrets {
        assert!(secret.len() == 44 && !shown.contains(&secret[..43]), "{shown}");
    }
}

#[test]
fn a_ring_that_lacks_something_or_is_open_is_a_finding() {
    let ring = Ring::new();
    assert_eq!(status(&ring.tool(&["check"])), 0);
    fs::set_permissions(ring.file("keys.toml"), fs::Permissions::from_mode(0o644)).unwrap();
    let open = ring.tool(&["check"]);
    assert!(status(&open) == 1 && stdout(&open).contains("chmod 600"), "{}", stdout(&open));
    let id = ring.parsed().current().unwrap().id.clone();
    assert_eq!(status(&ring.tool(&["retire", &id])), 0);
    let none = ring.json(&["check"]);
    assert!(none["problems"].to_string().contains("no current key"), "{none}");
}

#[test]
fn a_copy_is_compared_and_its_sight_is_noted() {
    let ring = Ring::new();
    let elsewhere = TempDir::new().unwrap();
    let copy = elsewhere.path().join("copy.toml").to_str().unwrap().to_owned();
    fs::copy(ring.file("keys.toml"), &copy).unwrap();
    let linked = elsewhere.path().join("linked.toml").to_str().unwrap().to_owned();
    fs::hard_link(ring.file("keys.toml"), &linked).unwrap();
    let refused = ring.tool(&["confirm", &linked]);
    assert!(status(&refused) == 2 && stderr(&refused).contains("the ring itself"), "{}", stderr(&refused));
    fs::remove_file(&linked).unwrap();
    let inside = ring.file("copy.toml");
    fs::copy(&copy, &inside).unwrap();
    let refused = ring.tool(&["confirm", &inside]);
    assert!(
        status(&refused) == 2 && stderr(&refused).contains("in the data directory"),
        "{}",
        stderr(&refused)
    );
    fs::write(ring.file("LOCK"), "").unwrap();
    let refused = run(&["key", "confirm", &inside, "--keys-file", &ring.file("keys.toml")]);
    assert!(
        status(&refused) == 2 && stderr(&refused).contains("in the data directory"),
        "{}",
        stderr(&refused)
    );
    assert_eq!(KeyRing::confirmed_copy(&ring.text()), None);
    assert_eq!(status(&ring.tool(&["confirm", &copy])), 0);
    let confirmed = KeyRing::confirmed_copy(&ring.text());
    assert!(confirmed.is_some());
    let added = ring.json(&["add"])["key"].clone();
    let lacking = ring.json(&["confirm", &copy]);
    assert_eq!((&lacking["missing"], &lacking["other"]), (&json!([added]), &json!([])));
    assert_eq!(status(&ring.tool(&["confirm", &copy])), 1);
    assert_eq!(KeyRing::confirmed_copy(&ring.text()), confirmed);
    let itself = ring.tool(&["confirm", &ring.file("keys.toml")]);
    assert!(status(&itself) == 2 && stderr(&itself).contains("the ring itself"), "{}", stderr(&itself));
}

#[test]
fn impossible_changes_exit_with_2_and_change_nothing() {
    let ring = Ring::new();
    let before = ring.text();
    for args in
        [&["retire", "none"][..], &["add", "--name", "a b"], &["check", "/no/ring"], &["confirm", "/no/ring"]]
    {
        assert_eq!(status(&ring.tool(args)), 2, "{args:?}");
    }
    assert_eq!(ring.text(), before);
    fs::write(ring.file("keys.toml"), "[[key]]\nid = 1\n").unwrap();
    for args in [&["list"][..], &["check"], &["add"], &["retire", "x"]] {
        let refused = ring.tool(args);
        assert!(status(&refused) == 2 && stderr(&refused).contains("line"), "{args:?}: {}", stderr(&refused));
    }
    fs::remove_file(ring.file("keys.toml")).unwrap();
    let missing = ring.tool(&["add"]);
    assert!(status(&missing) == 2 && stderr(&missing).contains("key create"), "{}", stderr(&missing));
    assert!(!Path::new(&ring.file("keys.toml")).exists());
}
