//! Public access blocks and ownership controls.

use siltstone::s3::ObjectOwnership;

use super::*;

const OPEN: &str = r#"{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*"}}"#;

fn block(server: &Server, settings: &[&str]) {
    let settings: String = settings.iter().map(|name| format!("<{name}>true</{name}>")).collect();
    let body = format!("<PublicAccessBlockConfiguration>{settings}</PublicAccessBlockConfiguration>");
    let answer = server.request("PUT", "/b?publicAccessBlock").body(body.as_bytes()).send();
    assert_eq!((answer.status, answer.text()), (200, ""));
}

#[test]
fn a_block_is_set_returned_and_removed() {
    let server = Server::new();
    let get = || server.get("/b?publicAccessBlock");
    get().is_error(404, "NoSuchPublicAccessBlockConfiguration");
    block(&server, &["IgnorePublicAcls", "BlockPublicPolicy"]);
    let settings = ["BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"];
    let values = settings.map(|name| get().one(name).unwrap());
    assert_eq!(values, ["false", "true", "true", "false"]);
    assert_eq!(server.delete("/b?publicAccessBlock").status, 204);
    assert_eq!(server.delete("/b?publicAccessBlock").status, 204, "also where there is none");
    get().is_error(404, "NoSuchPublicAccessBlockConfiguration");
}

#[test]
fn configurations_that_are_not_understood_change_nothing() {
    let server = Server::new();
    block(&server, &["BlockPublicAcls"]);
    for (query, body) in [
        ("publicAccessBlock", ""),
        ("publicAccessBlock", "<PublicAccessBlock/>"),
        (
            "publicAccessBlock",
            "<PublicAccessBlockConfiguration><All>true</All></PublicAccessBlockConfiguration>",
        ),
        ("ownershipControls", "<OwnershipControls/>"),
        (
            "ownershipControls",
            "<OwnershipControls><Rule><ObjectOwnership>Me</ObjectOwnership></Rule></OwnershipControls>",
        ),
    ] {
        let put =
            |bucket: &str| server.request("PUT", &format!("/{bucket}?{query}")).body(body.as_bytes()).send();
        put("b").is_error(400, "MalformedXML");
        put("absent").is_error(404, "NoSuchBucket");
    }
    for query in ["publicAccessBlock", "ownershipControls"] {
        server.request("PUT", &format!("/b?{query}")).unframed().send().is_error(411, "MissingContentLength");
        server.get(&format!("/absent?{query}")).is_error(404, "NoSuchBucket");
        server.delete(&format!("/absent?{query}")).is_error(404, "NoSuchBucket");
    }
    assert_eq!(server.get("/b?publicAccessBlock").one("BlockPublicAcls").as_deref(), Some("true"));
}

#[test]
fn a_block_refuses_public_policies_and_no_others() {
    let server = Server::with_grants(&[("bob", &["GetObject"], &["elsewhere/*"])]);
    let put = |policy: &str| server.request("PUT", "/b?policy").body(policy.as_bytes()).send();
    block(&server, &["BlockPublicPolicy"]);
    put(OPEN).is_error(403, "AccessDenied");
    server.get("/b?policy").is_error(404, "NoSuchBucketPolicy");
    assert_eq!(put(&OPEN.replace(r#""*""#, r#"{"AWS": "bob"}"#)).status, 204);
    assert_eq!(put(&OPEN.replace("Allow", "Deny")).status, 204);
    block(&server, &["BlockPublicAcls", "IgnorePublicAcls", "RestrictPublicBuckets"]);
    assert_eq!(put(OPEN).status, 204);
}

#[test]
fn a_restricted_bucket_keeps_what_users_have() {
    let server =
        Server::with_grants(&[("guest", &[], &["*"]), ("anonymous", &["GetObject"], &["b/granted"])]);
    for key in ["/b/k", "/b/granted"] {
        server.put(key, b"x");
    }
    assert_eq!(server.request("PUT", "/b?policy").body(OPEN.as_bytes()).send().status, 204);
    let ask = |key: &str, user: Option<&str>| {
        let asked = server.request("GET", key);
        match user {
            Some(user) => asked.by(user).send(),
            None => asked.anonymous().send(),
        }
        .status
    };
    assert_eq!((ask("/b/k", None), ask("/b/k", Some("guest"))), (200, 200));
    block(&server, &["RestrictPublicBuckets"]);
    assert_eq!((ask("/b/k", None), ask("/b/k", Some("guest"))), (403, 200));
    assert_eq!(ask("/b/granted", None), 200, "the users file is not touched");
    // A policy that names its users is not public, and so not restricted.
    let named = OPEN.replace(r#""*""#, r#"{"AWS": "guest"}"#);
    assert_eq!(server.request("PUT", "/b?policy").body(named.as_bytes()).send().status, 204);
    assert_eq!((ask("/b/k", None), ask("/b/k", Some("guest"))), (403, 200));
}

#[test]
fn ownership_controls_read_as_the_default_until_they_are_set() {
    let server = Server::new();
    let get = || server.get("/b?ownershipControls").one("ObjectOwnership").unwrap();
    assert_eq!(get(), "BucketOwnerEnforced");
    for ownership in ["ObjectWriter", "BucketOwnerPreferred", "BucketOwnerEnforced"] {
        let body = format!(
            "<OwnershipControls><Rule><ObjectOwnership>{ownership}</ObjectOwnership></Rule></OwnershipControls>"
        );
        let answer = server.request("PUT", "/b?ownershipControls").body(body.as_bytes()).send();
        assert_eq!((answer.status, answer.text()), (200, ""));
        assert_eq!(get(), ownership);
    }
    assert_eq!(server.delete("/b?ownershipControls").status, 204);
    assert_eq!(get(), "BucketOwnerEnforced");
}

#[test]
fn a_bucket_of_object_writers_has_no_ownership_controls_until_they_are_set() {
    let server = Server::with_ownership(ObjectOwnership::ObjectWriter);
    let get = || server.get("/b?ownershipControls");
    get().is_error(404, "OwnershipControlsNotFoundError");
    assert_eq!(server.delete("/b?ownershipControls").status, 204, "also where there is nothing to delete");
    for ownership in ["ObjectWriter", "BucketOwnerEnforced"] {
        let body = format!(
            "<OwnershipControls><Rule><ObjectOwnership>{ownership}</ObjectOwnership></Rule></OwnershipControls>"
        );
        assert_eq!(server.request("PUT", "/b?ownershipControls").body(body.as_bytes()).send().status, 200);
        assert_eq!(get().one("ObjectOwnership").as_deref(), Some(ownership));
        assert_eq!(server.delete("/b?ownershipControls").status, 204);
        get().is_error(404, "OwnershipControlsNotFoundError");
    }
    assert_eq!(server.request("PUT", "/b/k").header("p-acl", "public-read").send().status, 200, "ACLs hold");
}
