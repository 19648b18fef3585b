//! Causes of commits, as followers of the log read them.

use super::*;

fn cause(operation: &str) -> Arc<Cause> {
    let text = |text: &str| text.to_owned();
    Arc::new(Cause {
        entries: 0,
        operation: text(operation),
        user: text("ann"),
        address: text("::1"),
        request: text("4A"),
        origins: vec![text("0a"), text("0b")],
    })
}

/// Runs `work` on behalf of a request.
fn caused<T>(operation: &str, work: impl FnOnce() -> T) -> T {
    let _scope = CauseScope::enter(Some(cause(operation)));
    work()
}

/// The changes of keys with the operations that made them.
fn told(store: &Store, follower: &mut Follower) -> Vec<(String, String)> {
    let mut told = Vec::new();
    while let Some(batch) = follower.next(store, 100).unwrap() {
        for change in batch.changes.into_iter().filter(|change| !change.key.is_empty()) {
            let kind = match change.kind {
                ChangeKind::Put(_) => "put",
                ChangeKind::Deleted(_) => "deleted",
                _ => "amended",
            };
            let operation = change.cause.map_or(String::new(), |cause| cause.operation.clone());
            told.push((format!("{kind} {}", String::from_utf8(change.key).unwrap()), operation));
        }
    }
    told
}

fn owned<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
    pairs.map(|(change, operation)| (change.to_owned(), operation.to_owned())).to_vec()
}

fn followed(fs: &SimFs) -> (Store, Follower) {
    let store = open(fs);
    store.create_bucket("b", "o").unwrap();
    let mut follower = store.follower("away", Beginning::Now);
    assert_eq!(follower.next(&store, 0).unwrap(), None);
    (store, follower)
}

#[test]
fn a_change_names_the_request_of_its_thread() {
    let fs = SimFs::new();
    let (store, mut follower) = followed(&fs);
    assert!(store.has_followers());
    caused("PutObject", || put(&store, "b", "k", b"x")).unwrap();
    put(&store, "b", "k", b"y").unwrap();
    caused("DeleteObject", || delete(&store, "b", "k", Selector::Current)).unwrap();
    let expected = owned([("put k", "PutObject"), ("put k", ""), ("deleted k", "DeleteObject")]);
    assert_eq!(told(&store, &mut follower), expected);
    caused("PutObject", || put(&store, "b", "k", b"z")).unwrap();
    let batch = follower.next(&store, 100).unwrap().unwrap();
    let told = batch.changes[0].cause.as_deref().cloned();
    assert_eq!(told, Some(Cause { entries: 1, ..(*cause("PutObject")).clone() }));
    drop(store);
    assert_eq!(get(&open(&fs), "b", "k").unwrap(), b"z", "a start skips causes");
}

#[test]
fn a_request_that_changes_nothing_leaves_no_cause() {
    let (store, mut follower) = followed(&SimFs::new());
    let condition = WriteCondition::IfMatch("*".to_owned());
    assert!(caused("PutObject", || put_if(&store, "b", "k", b"x", condition)).is_err());
    caused("DeleteObject", || delete(&store, "b", "k", Selector::Current)).unwrap();
    put(&store, "b", "k", b"x").unwrap();
    assert_eq!(told(&store, &mut follower), owned([("put k", "")]));
}

#[test]
fn amendments_have_one_cause_and_the_source_of_a_copy_none() {
    let (store, mut follower) = followed(&SimFs::new());
    put(&store, "b", "k", b"x").unwrap();
    let found = store.find("b", "k", Selector::Current).unwrap();
    let tags = vec![("a".into(), "b".into())];
    caused("PutObjectTagging", || store.set_tags("b", "k", found.version.clone(), tags)).unwrap();
    let copy = || {
        let found = store.find("b", "k", Selector::Current).unwrap();
        let bucket = found.bucket.id;
        let version = found.version.clone();
        CopyRange { bucket, key: "k".into(), version, range: 0..1 }
    };
    caused("CopyObject", || store.copy(copy(), "b", "c1", commit_of(b"x"))).unwrap();
    caused("CopyObject", || store.copy(copy(), "b", "c2", commit_of(b"x"))).unwrap();
    let expected = owned([
        ("put k", ""),
        ("amended k", "PutObjectTagging"),
        ("amended k", ""),
        ("put c1", "CopyObject"),
        ("put c2", "CopyObject"),
    ]);
    assert_eq!(told(&store, &mut follower), expected);
}

#[test]
fn scopes_nest_and_end_with_their_thread() {
    assert_eq!(CauseScope::current(), None);
    let outer = CauseScope::enter(Some(cause("a")));
    {
        let _inner = CauseScope::enter(None);
        assert_eq!(CauseScope::current(), None);
    }
    assert_eq!(CauseScope::current(), Some(cause("a")));
    assert_eq!(std::thread::spawn(CauseScope::current).join().unwrap(), None);
    drop(outer);
    assert_eq!(CauseScope::current(), None);
}
