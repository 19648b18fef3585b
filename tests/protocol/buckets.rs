//! Making, removing, finding and listing buckets.

use super::*;

#[test]
fn a_bucket_is_created_and_its_location_returned() {
    let server = Server::new();
    let made = server.request("PUT", "/new-bucket").send();
    assert_eq!((made.status, made.body.len()), (200, 0));
    assert_eq!(made.header("Location"), Some("/new-bucket"));
    assert_eq!(server.head("/new-bucket").status, 200);
    assert_eq!(server.store.bucket("new-bucket").unwrap().owner, "owner");
}

#[test]
fn a_bucket_is_made_without_any_framing_of_a_body() {
    let server = Server::new();
    assert_eq!(server.request("PUT", "/new-bucket").unframed().send().status, 200);
}

#[test]
fn the_bucket_may_be_wanted_where_the_server_is() {
    let server = Server::new();
    for (name, location) in [("aaa", "eu"), ("bbb", "EU"), ("ccc", "")] {
        let body = format!(
            "<CreateBucketConfiguration xmlns=\"{NAMESPACE}\"><LocationConstraint>{location}</LocationConstraint></CreateBucketConfiguration>"
        );
        let made = server.request("PUT", &format!("/{name}")).body(body.as_bytes()).send();
        assert_eq!(made.status, 200, "{location}");
    }
    let empty = server.request("PUT", "/ddd").body(b"<CreateBucketConfiguration/>").send();
    assert_eq!(empty.status, 200);
}

#[test]
fn a_bucket_may_be_made_with_tags() {
    let server = Server::with_grants(&[
        ("maker", &["CreateBucket"], &["*"]),
        ("tagger", &["CreateBucket", "PutBucketTagging"], &["*"]),
    ]);
    let document =
        |tags: &str| format!("<CreateBucketConfiguration><Tags>{tags}</Tags></CreateBucketConfiguration>");
    let tag = "<Tag><Key>a</Key><Value>1</Value></Tag>";
    let one = document(tag);
    let make = |user: &str| server.request("PUT", "/tagged").by(user).body(one.as_bytes()).send();
    make("maker").is_error(403, "AccessDenied");
    assert_eq!(make("tagger").status, 200);
    assert_eq!(server.get("/tagged?tagging").all("Value"), ["1"]);
    assert_eq!(server.request("PUT", "/untagged").body(document("").as_bytes()).send().status, 200);
    server.get("/untagged?tagging").is_error(404, "NoSuchTagSet");
    let twice = document(&tag.repeat(2));
    server.request("PUT", "/refused").body(twice.as_bytes()).send().is_error(400, "InvalidTag");
    let cut = document("<Tag><Key>a</Key></Tag>");
    server.request("PUT", "/refused").body(cut.as_bytes()).send().is_error(400, "MalformedXML");
    assert_eq!(server.head("/refused").status, 404);
}

#[test]
fn a_bucket_wanted_elsewhere_is_refused() {
    let server = Server::new();
    let body = b"<CreateBucketConfiguration><LocationConstraint>mars</LocationConstraint></CreateBucketConfiguration>";
    server.request("PUT", "/new-bucket").body(body).send().is_error(400, "InvalidLocationConstraint");
    assert_eq!(server.head("/new-bucket").status, 404);
}

#[test]
fn a_configuration_that_is_no_xml_is_malformed() {
    let server = Server::new();
    for body in ["junk", "<Other/>", "<!DOCTYPE a><CreateBucketConfiguration/>"] {
        server.request("PUT", "/new-bucket").body(body.as_bytes()).send().is_error(400, "MalformedXML");
    }
}

#[test]
fn an_invalid_bucket_name_is_refused_on_creation_only() {
    let server = Server::new();
    for name in ["ab", "Upper", "a..b", "192.168.0.1", "under_score", "-a-", "x%20y"] {
        server.request("PUT", &format!("/{name}")).send().is_error(400, "InvalidBucketName");
        assert_eq!(server.head(&format!("/{name}")).status, 404);
        server.get(&format!("/{name}?location")).is_error(404, "NoSuchBucket");
    }
}

#[test]
fn in_the_services_own_dialect_a_taken_name_is_refused_to_all() {
    let server = Server::new();
    let put = || server.request("PUT", "/taken").dialect(Dialect::Svc);
    assert_eq!(put().send().status, 200);
    put().send().is_error(409, "BucketAlreadyExists");
    put().by("other").send().is_error(409, "BucketAlreadyExists");
}

#[test]
fn in_the_aws_dialect_the_owner_gets_bucket_already_owned_by_you() {
    let server = Server::new();
    let put = || server.request("PUT", "/taken").aws();
    assert_eq!(put().send().status, 200);
    put().send().is_error(409, "BucketAlreadyOwnedByYou");
    put().by("other").send().is_error(409, "BucketAlreadyExists");
}

#[test]
fn anonymous_requests_create_no_bucket() {
    let server = Server::with_grants(&[("anonymous", &["*"], &["*"])]);
    server.request("PUT", "/new-bucket").anonymous().send().is_error(403, "AccessDenied");
}

#[test]
fn unsupported_bucket_properties_are_not_ignored() {
    let server = Server::new();
    let asked = |name, value| server.request("PUT", "/new-bucket").header(name, value).send();
    asked("p-object-ownership", "Nobody").is_error(400, "InvalidArgument");
    assert_eq!(asked("p-acl", "private").status, 200);
}

#[test]
fn an_empty_bucket_is_deleted() {
    let server = Server::new();
    let deleted = server.delete("/b");
    assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    server.delete("/b").is_error(404, "NoSuchBucket");
    assert_eq!(server.head("/b").status, 404);
}

#[test]
fn a_bucket_with_objects_versions_or_markers_is_not_deleted() {
    let server = Server::new();
    server.put("/b/k", b"x");
    server.delete("/b").is_error(409, "BucketNotEmpty");
    server.set_versioning("Enabled");
    assert_eq!(server.delete("/b/k").status, 204);
    assert_eq!(server.get("/b?list-type=2").one("KeyCount").as_deref(), Some("0"));
    server.delete("/b").is_error(409, "BucketNotEmpty");
    server.delete("/b/k?versionId=null");
    server.delete("/b").is_error(409, "BucketNotEmpty");
}

#[test]
fn a_head_of_a_bucket_tells_its_region() {
    let server = Server::new();
    let head = server.head("/b");
    assert_eq!((head.status, head.header("p-bucket-region")), (200, Some("eu")));
    assert_eq!(head.header("Content-Length"), Some("0"));
    server.head("/absent").is_bare(404);
}

#[test]
fn the_location_of_a_bucket_is_the_region() {
    let server = Server::new();
    let answer = server.get("/b?location");
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.text(),
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<LocationConstraint xmlns=\"{NAMESPACE}\">eu</LocationConstraint>"
        )
    );
    server.get("/absent?location").is_error(404, "NoSuchBucket");
}

#[test]
fn buckets_are_listed_by_name_with_their_owner() {
    let server = Server::new();
    for name in ["zzz", "aaa"] {
        server.request("PUT", &format!("/{name}")).send();
    }
    let list = server.get("/");
    assert_eq!(list.outline(), ["ListAllMyBucketsResult", "Owner", "Buckets"]);
    assert_eq!(list.all("Name"), ["aaa", "b", "zzz"]);
    assert_eq!(list.all("CreationDate"), [NOW; 3]);
    assert_eq!(list.all("ID"), ["owner"]);
}

#[test]
fn only_buckets_that_the_caller_may_list_are_listed() {
    let server = Server::with_grants(&[("some", &["ListAllMyBuckets"], &["b", "ccc"])]);
    for name in ["aaa", "ccc"] {
        server.request("PUT", &format!("/{name}")).send();
    }
    assert_eq!(server.request("GET", "/").by("some").send().all("Name"), ["b", "ccc"]);
}

#[test]
fn the_listing_of_buckets_has_a_prefix_and_pages() {
    let server = Server::new();
    for name in ["p-1", "p-2", "p-3", "q-1"] {
        server.request("PUT", &format!("/{name}")).send();
    }
    let first = server.get("/?prefix=p-&max-buckets=2");
    assert_eq!(
        (first.all("Name"), first.one("Prefix")),
        (vec!["p-1".into(), "p-2".into()], Some("p-".into()))
    );
    let token = first.one("ContinuationToken").unwrap();
    let second = server.get(&format!("/?prefix=p-&max-buckets=2&continuation-token={token}"));
    assert_eq!((second.all("Name"), second.one("ContinuationToken")), (vec!["p-3".to_owned()], None));
    server.get("/?max-buckets=0").is_error(400, "InvalidArgument");
    server.get("/?continuation-token=%21").is_error(400, "InvalidArgument");
}

#[test]
fn a_host_below_the_domain_names_the_bucket() {
    let server = Server::new();
    server.put("/b/dir/k", b"x");
    let get = |host: &str, path: &str| server.request("GET", path).host(host).send();
    assert_eq!(get("b.s3.example", "/dir/k").text(), "x");
    assert_eq!(get("b.s3.example:9000", "/?list-type=2").all("Key"), ["dir/k"]);
    assert_eq!(get("s3.example", "/b/dir/k").text(), "x");
}

#[test]
fn at_the_host_of_a_bucket_keys_may_begin_like_pages() {
    let server = Server::new();
    let at = |method: &str, host: &str| server.request(method, "/-/health").host(host);
    assert_eq!(at("PUT", "b.s3.example").body(b"an object").send().status, 200);
    assert_eq!(at("GET", "B.s3.example:9000").send().text(), "an object");
    assert_eq!(server.get("/b/-/health").text(), "an object");
    at("GET", "b.s3.example").anonymous().send().is_error(403, "AccessDenied");
    for host in ["s3.example", "localhost:9000", "b.other.example"] {
        assert_eq!(at("GET", host).send().text(), "alive\n", "{host}");
    }
}

#[test]
fn a_bucket_is_not_made_with_grants_that_it_would_not_have() {
    let server = Server::new();
    for name in
        ["p-grant-read", "p-grant-write", "p-grant-read-acp", "p-grant-write-acp", "p-grant-full-control"]
    {
        let asked = server.request("PUT", "/new").header(name, "id=other");
        asked.send().is_error(400, "InvalidBucketAclWithObjectOwnership");
        let asked = server.request("PUT", "/new").header(name, "id=unknown");
        asked.header("p-object-ownership", "ObjectWriter").send().is_error(400, "InvalidArgument");
    }
    assert_eq!(server.head("/new").status, 404);
}
