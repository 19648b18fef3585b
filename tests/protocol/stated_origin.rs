//! The stores that a mirror states a change to come from.

use siltstone::store::Beginning;

use super::*;

const STATED: &str = "p-siltstone-origin";
const ONE: &str = "0123456789abcdef0123456789abcdef";
const OTHER: &str = "f123456789abcdef0123456789abcdef";

/// A server whose user `mirror` may state origins, and whose user `writer` may not.
fn server() -> Server {
    Server::with_grants(&[
        ("mirror", &["PutObject", "DeleteObject"], &["b/*"]),
        ("mirror", &["PutObjectStatedOrigin"], &["*"]),
        ("writer", &["*"], &["b", "b/*", "@owned"]),
    ])
}

#[test]
fn a_change_has_the_origin_that_its_sender_may_state() {
    let server = server();
    let mut follower = server.store.follower("away", Beginning::Now);
    while follower.next(&server.store, 100).unwrap().is_some() {}
    let both = format!("{ONE}, {OTHER}");
    let stated = |method: &str, user: &str, value: &str| {
        let request = server.request(method, "/b/k").by(user).header(STATED, value);
        assert!(request.body(b"abc").send().status < 300, "{method} {user}");
    };
    stated("PUT", "mirror", &both);
    stated("PUT", "writer", &both);
    stated("PUT", "mirror", "no id");
    stated("DELETE", "mirror", ONE);
    let batch = follower.next(&server.store, 100).unwrap().unwrap();
    let changes = batch.changes.iter().filter(|change| !change.key.is_empty());
    let origins: Vec<_> = changes.map(|change| change.cause.as_ref().unwrap().origins.clone()).collect();
    let wanted = vec![vec![ONE.to_owned(), OTHER.to_owned()], vec![], vec![], vec![ONE.to_owned()]];
    assert_eq!(origins, wanted);
}

#[test]
fn the_store_is_named_to_those_who_ask_for_versioning() {
    let server = server();
    let named = |target: &str, user: &str| {
        let answer = server.request("GET", target).by(user).send();
        answer.header("p-siltstone-store").map(str::to_owned)
    };
    assert_eq!(named("/b?versioning", "writer"), Some(server.store.public_id()));
    // Also where the bucket is missing or not to be seen: a mirror asks before it makes one.
    assert_eq!(named("/missing?versioning", "writer"), Some(server.store.public_id()));
    assert_eq!(named("/b?versioning", "mirror"), Some(server.store.public_id()));
    assert_eq!(named("/b", "writer"), None);
}
