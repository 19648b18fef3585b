//! The copy by the rules of a bucket: which versions it sends, and how far each of them is.

use super::*;
use crate::mirror::CopyProgress;
use crate::store::{BucketConfigurationKind, VersionId};

/// All objects below `sent/` with their delete markers; of those below `plain/` the objects alone.
const RULES: &[u8] = b"<ReplicationConfiguration><Role>r</Role><Rule><ID>a</ID><Priority>2</Priority>\
    <Filter><Prefix>sent/</Prefix></Filter><Status>Enabled</Status>\
    <DeleteMarkerReplication><Status>Enabled</Status></DeleteMarkerReplication>\
    <Destination><Bucket>arn:aws:s3:::away</Bucket></Destination></Rule>\
    <Rule><ID>b</ID><Priority>1</Priority><Filter><Prefix>plain/</Prefix></Filter><Status>Enabled</Status>\
    <DeleteMarkerReplication><Status>Disabled</Status></DeleteMarkerReplication>\
    <Destination><Bucket>arn:aws:s3:::away</Bucket></Destination></Rule></ReplicationConfiguration>";

/// A bucket with rules, its mirror, and a target.
struct Replicated {
    mirrored: Mirrored,
    store: Store,
    mirror: Mirror,
    feed: MirrorFeed,
}

impl Replicated {
    fn new() -> Self {
        let mirrored = Mirrored { replication: true, ..Mirrored::new(true, 1) };
        let store = mirrored.open().unwrap();
        bucket(&store, true);
        let kind = BucketConfigurationKind::Replication;
        store.set_bucket_configuration("b", kind, Some(RULES.to_vec())).unwrap();
        let mirror = mirrored.mirror();
        let feed = mirror.feed(&store);
        let mut replicated = Self { mirrored, store, mirror, feed };
        replicated.converge();
        replicated
    }

    fn converge(&mut self) {
        self.mirrored.converge(&self.store, &self.mirror, &mut self.feed);
    }

    /// Begins the mirror anew, as after a restart.
    fn restart(&mut self) {
        self.feed.end(&self.mirror, &self.store);
        self.mirror = self.mirrored.mirror();
        self.feed = self.mirror.feed(&self.store);
        self.converge();
    }

    /// Puts a version.
    fn put(&self, key: &str, bytes: &[u8]) {
        assert!(put(&self.store, key, bytes, "1"));
    }

    /// The bodies at the target, oldest first; `-` for a delete marker.
    fn there(&self, key: &str) -> Vec<String> {
        let state = self.mirrored.target.0.lock().unwrap();
        let place = MirrorPlace { bucket: "b".to_owned(), key: format!("copy/{key}") };
        let body = |version: &SimVersion| match &version.object {
            Some((bytes, ..)) => String::from_utf8(bytes.clone()).unwrap(),
            None => "-".to_owned(),
        };
        state.keys.get(&place).into_iter().flatten().map(body).collect()
    }

    fn puts(&self) -> u64 {
        self.mirrored.target.0.lock().unwrap().puts
    }

    /// How far each version of a key is, oldest first.
    fn progress(&self, key: &str) -> Vec<CopyProgress> {
        let id = self.store.bucket("b").unwrap().id;
        let versions = self.store.followed_key(id, key.as_bytes()).unwrap().versions;
        let of_version = |version: VersionId| {
            self.mirror.progress((id, "b"), key, version, self.store.last_group_of(version))
        };
        versions.into_iter().map(|version| of_version(version.id)).collect()
    }
}

#[test]
fn versions_are_appended_in_order_and_none_is_removed() {
    let mut replicated = Replicated::new();
    for body in [b"a".as_slice(), b"b", b"a"] {
        replicated.put("sent/k", body);
    }
    replicated.put("other/k", b"x");
    replicated.converge();
    assert_eq!(replicated.there("sent/k"), ["a", "b", "a"]);
    assert_eq!(replicated.there("other/k"), [""; 0], "no rule selects it");
    // A version that goes here for good stays there, and what comes after it is appended once.
    let first = replicated.store.find("b", "sent/k", Selector::Current).unwrap().version.id;
    delete(&replicated.store, "sent/k", Selector::Id(first));
    replicated.put("sent/k", b"c");
    replicated.converge();
    assert_eq!(replicated.there("sent/k"), ["a", "b", "a", "c"]);
    assert_eq!(replicated.puts(), 4);
}

#[test]
fn delete_markers_go_where_the_rule_says_so() {
    let mut replicated = Replicated::new();
    for key in ["sent/k", "plain/k"] {
        replicated.put(key, b"a");
        delete(&replicated.store, key, Selector::Current);
    }
    replicated.converge();
    assert_eq!(
        (replicated.there("sent/k"), replicated.there("plain/k")),
        (vec!["a".into(), "-".into()], vec!["a".into()])
    );
    replicated.put("plain/k", b"b");
    replicated.converge();
    assert_eq!(replicated.there("plain/k"), ["a", "b"]);
}

#[test]
fn a_comparison_of_everything_sends_from_the_first_version_that_is_missing() {
    let mut replicated = Replicated::new();
    for body in [b"a".as_slice(), b"b", b"c"] {
        replicated.put("sent/k", body);
    }
    replicated.converge();
    replicated.mirror.resync();
    replicated.converge();
    assert_eq!(replicated.puts(), 3, "nothing is missing");
    let place = MirrorPlace { bucket: "b".to_owned(), key: "copy/sent/k".to_owned() };
    replicated.mirrored.target.0.lock().unwrap().keys.get_mut(&place).unwrap().remove(1);
    replicated.mirror.resync();
    replicated.converge();
    assert_eq!(replicated.there("sent/k"), ["a", "c", "b", "c"], "the newest there is the newest here");
}

#[test]
fn tags_that_differ_are_set_and_nothing_is_sent_again() {
    let mut replicated = Replicated::new();
    replicated.put("sent/k", b"a");
    replicated.converge();
    let found = replicated.store.find("b", "sent/k", Selector::Current).unwrap();
    let tags = vec![("t".to_owned(), "1".to_owned())];
    replicated.store.set_tags("b", "sent/k", found.version, tags.clone()).unwrap();
    replicated.converge();
    let place = MirrorPlace { bucket: "b".to_owned(), key: "copy/sent/k".to_owned() };
    let state = replicated.mirrored.target.0.lock().unwrap();
    assert_eq!(state.keys[&place].last().unwrap().object.as_ref().unwrap().2, tags);
    assert_eq!(state.puts, 1);
}

#[test]
fn a_target_without_versions_gets_nothing_by_rules() {
    let mut replicated = Replicated::new();
    {
        let mut state = replicated.mirrored.target.0.lock().unwrap();
        state.versioned = false;
    }
    replicated.put("sent/k", b"a");
    for _ in 0..20 {
        replicated.feed.step(&replicated.mirror, &replicated.store, &mut replicated.mirrored.target).unwrap();
        replicated.mirror.work(&replicated.store, &mut replicated.mirrored.target, Duration::ZERO);
        replicated.mirror.retry_now();
    }
    assert_eq!((replicated.there("sent/k"), replicated.mirror.figures().failing_keys), (vec![], 1));
    assert_eq!(replicated.progress("sent/k"), [CopyProgress::Due]);
}

#[test]
fn a_refusal_is_of_the_versions_that_the_target_lacks() {
    use CopyProgress::{Done, Refused};
    let mut replicated = Replicated::new();
    replicated.put("sent/k", b"a");
    replicated.converge();
    assert_eq!(replicated.progress("sent/k"), [Done]);
    // The second version is refused, after the first one was sent.
    refuse(&replicated.mirrored, &["sent/k"]);
    replicated.put("sent/k", b"b");
    replicated.put("sent/other", b"x");
    replicated.converge();
    assert_eq!(replicated.progress("sent/k"), [Done, Refused]);
    assert_eq!(replicated.progress("sent/other"), [Done]);
    // The same after a restart, when everything is compared again.
    replicated.restart();
    assert_eq!(replicated.progress("sent/k"), [Done, Refused]);
    // A version that the target takes later does not bring the refused one there.
    refuse(&replicated.mirrored, &[]);
    replicated.put("sent/k", b"d");
    replicated.converge();
    assert_eq!(replicated.there("sent/k"), ["a", "d"]);
    assert_eq!(replicated.progress("sent/k"), [Done, Refused, Done]);
    assert_eq!(replicated.mirror.figures().refused_keys, 1);
    // A comparison does.
    replicated.mirror.resync();
    replicated.converge();
    assert_eq!(replicated.there("sent/k"), ["a", "d", "b", "d"]);
    assert_eq!(replicated.progress("sent/k"), [Done; 3]);
    assert_eq!(replicated.mirror.figures().refused_keys, 0);
}
