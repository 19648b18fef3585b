//! Tests of the simulated remote.

use super::*;

const SOON: Duration = Duration::from_secs(1);

fn put(remote: &SimRemote, name: &str, nonce: &str, create_only: bool) -> Result<RemoteObject, RemoteError> {
    remote.put(&NewObject { name, body: &b"bytes".as_slice(), nonce, create_only }, SOON)
}

fn nonce_of(remote: &SimRemote, name: &str) -> Option<String> {
    remote.head(name, SOON).unwrap().and_then(|object| object.nonce)
}

#[test]
fn objects_are_stored_read_listed_and_deleted() {
    let remote = SimRemote::new();
    let stored = put(&remote, "a/2", "n", false).unwrap();
    let found = remote.head("a/2", SOON).unwrap().unwrap();
    assert!(stored.md5.is_none() && found.md5.is_some());
    assert_eq!(RemoteObject { md5: None, ..found }, stored);
    assert_eq!(remote.get("a/2", 1..4, SOON).unwrap(), b"yte");
    assert!(matches!(remote.get("a/2", 1..6, SOON), Err(RemoteError::Wrong(_))));
    assert!(matches!(remote.get("b", 0..1, SOON), Err(RemoteError::Missing)));
    ["a/1", "a/3", "b"].iter().for_each(|name| drop(put(&remote, name, "n", false).unwrap()));
    let listed = remote.list("a/", "a/1", SOON).unwrap();
    assert_eq!(listed.iter().map(|object| object.name.as_str()).collect::<Vec<_>>(), ["a/2", "a/3"]);
    assert!(listed[0].nonce.is_none() && listed[0].length == 5);
    remote.delete("a/2", SOON).unwrap();
    remote.delete("a/2", SOON).unwrap();
    assert_eq!(remote.head("a/2", SOON).unwrap(), None);
    assert_eq!(
        (remote.calls(RemoteCall::Put), remote.calls(RemoteCall::Delete), remote.all_calls()),
        (4, 2, 12)
    );
}

#[test]
fn a_create_fails_on_the_object_of_another_and_succeeds_on_its_own() {
    let remote = SimRemote::new();
    put(&remote, "claim", "mine", true).unwrap();
    put(&remote, "claim", "mine", true).unwrap();
    assert!(matches!(put(&remote, "claim", "other", true), Err(RemoteError::Exists)));
    assert_eq!(nonce_of(&remote, "claim").as_deref(), Some("mine"));
    remote.set_ignores_conditions(true);
    put(&remote, "claim", "other", true).unwrap();
    assert_eq!(nonce_of(&remote, "claim").as_deref(), Some("other"));
}

#[test]
fn a_lost_answer_hides_an_effect_and_a_late_put_lands_after_its_answer() {
    let remote = SimRemote::new();
    remote.fail_next(RemoteCall::Put, RemoteFault::Lost);
    assert!(matches!(put(&remote, "lost", "n", true), Err(RemoteError::Unavailable(_))));
    assert_eq!(remote.names(), ["lost"]);
    remote.fail_next(RemoteCall::Put, RemoteFault::Late);
    assert!(matches!(put(&remote, "late", "n", true), Err(RemoteError::Unavailable(_))));
    assert_eq!((remote.names().len(), remote.late_writes()), (1, 1));
    assert_eq!(nonce_of(&remote, "late").as_deref(), Some("n"), "it lands before the next call");
    remote.fail_next(RemoteCall::Delete, RemoteFault::Late);
    assert!(remote.delete("late", SOON).is_err());
    assert_eq!(remote.names().len(), 2);
    remote.land_late_writes();
    assert_eq!(remote.names(), ["lost"]);
}

#[test]
fn statuses_become_errors_without_an_effect() {
    let remote = SimRemote::new();
    for (status, error) in [
        (409, "Unavailable"),
        (500, "Unavailable"),
        (503, "Unavailable"),
        (412, "Exists"),
        (403, "Refused"),
        (507, "Full"),
    ] {
        remote.fail_next(RemoteCall::Put, RemoteFault::Status(status));
        let answer = put(&remote, "a", "n", true).unwrap_err();
        assert!(format!("{answer:?}").starts_with(error), "{status}: {answer:?}");
    }
    assert!(remote.names().is_empty());
}

#[test]
fn reads_are_cut_shifted_and_changed() {
    let remote = SimRemote::new();
    put(&remote, "a", "n", false).unwrap();
    remote.fail_next(RemoteCall::Get, RemoteFault::Cut);
    assert!(matches!(remote.get("a", 0..5, SOON), Err(RemoteError::Unavailable(_))));
    remote.fail_next(RemoteCall::Get, RemoteFault::WrongRange);
    assert!(matches!(remote.get("a", 0..5, SOON), Err(RemoteError::Wrong(_))));
    remote.fail_next(RemoteCall::Get, RemoteFault::WrongBytes);
    assert_ne!(remote.get("a", 0..5, SOON).unwrap(), b"bytes");
    assert_eq!(remote.get("a", 0..5, SOON).unwrap(), b"bytes");
    assert!(remote.damage("a", 4));
    assert_eq!(remote.get("a", 0..5, SOON).unwrap(), b"byteS");
}

#[test]
fn a_remote_is_down_full_or_read_only_until_it_is_not() {
    let remote = SimRemote::new();
    put(&remote, "a", "n", false).unwrap();
    remote.set_down(true);
    assert!(matches!(remote.head("a", SOON), Err(RemoteError::Unavailable(_))));
    remote.set_down(false);
    remote.set_full(true);
    assert!(matches!(put(&remote, "b", "n", false), Err(RemoteError::Full(_))));
    remote.delete("none", SOON).unwrap();
    remote.set_full(false);
    remote.set_read_only(true);
    assert!(matches!(put(&remote, "b", "n", false), Err(RemoteError::Refused(_))));
    assert!(matches!(remote.delete("a", SOON), Err(RemoteError::Refused(_))));
    remote.set_read_only(false);
    remote.down_at(remote.all_calls() + 2);
    put(&remote, "b", "n", false).unwrap();
    assert!(matches!(put(&remote, "c", "n", false), Err(RemoteError::Unavailable(_))));
    assert_eq!(remote.names(), ["a", "b"]);
}

#[test]
fn a_seed_repeats_its_faults() {
    let run = |seed| {
        let remote = SimRemote::new();
        remote.fail_at_random(seed, 300);
        let outcomes = |n: u64| {
            format!("{:?} {:?}", put(&remote, &format!("{n}"), "n", true), remote.get("0", 0..5, SOON))
        };
        (0..200).map(outcomes).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    let failed = run(1).iter().filter(|outcome| outcome.starts_with("Err")).count();
    assert!((30..90).contains(&failed), "{failed} of 200 puts failed");
}

#[test]
fn held_calls_wait_for_their_release() {
    let remote = SimRemote::new();
    put(&remote, "a", "n", false).unwrap();
    remote.hold(RemoteCall::Get);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| remote.get("a", 0..5, SOON));
        remote.wait_for_held(RemoteCall::Get, 1);
        remote.remove("a");
        remote.release(RemoteCall::Get);
        assert!(
            matches!(reader.join().unwrap(), Err(RemoteError::Missing)),
            "its effect comes after the hold"
        );
    });
}
