//! Each operation takes its own permission.

use siltstone::auth::Action;
use siltstone::s3::operation::{ResourceLevel, Route};
use siltstone::s3::route::{Addressing, operation};
use siltstone::s3::{Operation, QueryParams};

use super::*;
use crate::guide::{actions_in, rows};

/// A request, the one action that suffices for it, and the narrowest resource to hold it on.
struct Asked {
    method: &'static str,
    target: String,
    action: &'static str,
    resource: &'static str,
}

/// The targets of operations for which the path of their kind and their query do not suffice.
const TARGETS: [(Operation, &str); 17] = [
    (Operation::CreateBucket, "/new-bucket"),
    (Operation::DeleteBucket, "/empty"),
    (Operation::PutOwnerQuota, "/?quota&owner=ann"),
    (Operation::GetOwnerQuota, "/?quota&owner=ann"),
    (Operation::DeleteOwnerQuota, "/?quota&owner=ann"),
    (Operation::GetBucketAnalyticsConfiguration, "/b?analytics&id=x"),
    (Operation::DeleteBucketAnalyticsConfiguration, "/b?analytics&id=x"),
    (Operation::GetBucketIntelligentTieringConfiguration, "/b?intelligent-tiering&id=x"),
    (Operation::DeleteBucketIntelligentTieringConfiguration, "/b?intelligent-tiering&id=x"),
    (Operation::GetBucketInventoryConfiguration, "/b?inventory&id=x"),
    (Operation::DeleteBucketInventoryConfiguration, "/b?inventory&id=x"),
    (Operation::GetBucketMetricsConfiguration, "/b?metrics&id=x"),
    (Operation::DeleteBucketMetricsConfiguration, "/b?metrics&id=x"),
    (Operation::UploadPart, "/b/k?partNumber=1&uploadId=0000000000000001aaaaaaaaaaaaaaaa"),
    (Operation::CompleteMultipartUpload, "/b/k?uploadId=0000000000000001aaaaaaaaaaaaaaaa"),
    (Operation::AbortMultipartUpload, "/b/k?uploadId=0000000000000001aaaaaaaaaaaaaaaa"),
    (Operation::ListParts, "/b/k?uploadId=0000000000000001aaaaaaaaaaaaaaaa"),
];

/// Requests beside those of the table.
const MORE: [(&str, &str, &str, &str); 6] = [
    ("GET", "/b/k?retention&versionId=null", "GetObjectRetention", "b/k"),
    ("PUT", "/b/k?retention&versionId=null", "PutObjectRetention", "b/k"),
    ("GET", "/b/k?legal-hold&versionId=null", "GetObjectLegalHold", "b/k"),
    ("PUT", "/b/k?legal-hold&versionId=null", "PutObjectLegalHold", "b/k"),
    ("GET", "/b?versions", "ListBucketVersions", "b/*"),
    ("GET", "/b?session", "ListBucket", "b"),
];

/// The target of a request for an operation.
fn target(row: &Route) -> String {
    if let Some((_, target)) = TARGETS.iter().find(|(operation, _)| *operation == row.operation) {
        return (*target).to_owned();
    }
    let path = match row.level {
        ResourceLevel::Service => "/",
        ResourceLevel::Bucket => "/b",
        ResourceLevel::Object => "/b/k",
    };
    if row.query().is_empty() { path.to_owned() } else { format!("{path}?{}", row.query()) }
}

/// A request for each operation, and one for a version where the page says that it takes another
/// action. The actions are those of the page, which is thus held to what the server does.
fn requests() -> Vec<Asked> {
    let mut requests = Vec::new();
    for row in rows("src/guide/operations.md", "# Operations") {
        let route = Operation::TABLE.iter().find(|route| route.operation.as_str() == row[0]).unwrap();
        if WITH_MORE_THAN_ONE_TARGET.contains(&route.operation) {
            continue;
        }
        let target = target(route);
        let method = route.method.as_str();
        let resource = match route.operation {
            _ if row[2].ends_with("on `*` alone") => "*",
            Operation::CreateBucket => "new-bucket",
            Operation::DeleteBucket => "empty",
            _ if route.level == ResourceLevel::Object => "b/k",
            _ => "b",
        };
        let (current, of_version) = row[2].split_once("; of a version ").unwrap_or((&row[2], ""));
        if let Some(action) = actions_in(of_version).first() {
            let separator = if target.contains('?') { '&' } else { '?' };
            let target = format!("{target}{separator}versionId=null");
            requests.push(Asked { method, target, action: action.as_str(), resource });
        }
        let action = actions_in(current)[0].as_str();
        requests.push(Asked { method, target, action, resource });
    }
    for (method, target, action, resource) in MORE {
        requests.push(Asked { method, target: target.to_owned(), action, resource });
    }
    requests
}

/// Operations that touch more than one thing and have tests of their own.
const WITH_MORE_THAN_ONE_TARGET: [Operation; 4] =
    [Operation::CopyObject, Operation::DeleteObjects, Operation::PostObject, Operation::UploadPartCopy];

fn body_of(target: &str) -> &'static [u8] {
    match target {
        "/b?versioning" => b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
        "/b?website" => {
            b"<WebsiteConfiguration><IndexDocument><Suffix>i</Suffix></IndexDocument></WebsiteConfiguration>"
        }
        "/b?ownershipControls" => {
            b"<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule></OwnershipControls>"
        }
        "/b?policy" => {
            br#"{"Statement": {"Effect": "Allow", "Principal": {"AWS": "x"}, "Action": "*", "Resource": "arn:aws:s3:::b"}}"#
        }
        "/b?quota" | "/?quota&owner=ann" => br#"{"bytes": 1000}"#,
        "/b?publicAccessBlock" => b"<PublicAccessBlockConfiguration/>",
        "/b?accelerate" => b"<AccelerateConfiguration><Status>Suspended</Status></AccelerateConfiguration>",
        "/b?logging" => b"<BucketLoggingStatus/>",
        "/b?requestPayment" => {
            b"<RequestPaymentConfiguration><Payer>BucketOwner</Payer></RequestPaymentConfiguration>"
        }
        "/b?notification" => b"<NotificationConfiguration/>",
        "/b?cors" => {
            b"<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>\
              </CORSRule></CORSConfiguration>"
        }
        _ if target.contains("?acl") => {
            b"<AccessControlPolicy><AccessControlList><Grant><Grantee><ID>owner</ID></Grantee>\
              <Permission>FULL_CONTROL</Permission></Grant></AccessControlList></AccessControlPolicy>"
        }
        _ if target.contains("?tagging") => b"<Tagging><TagSet/></Tagging>",
        _ => b"",
    }
}

fn status(server: &Server, method: &str, target: &str, user: &str) -> u16 {
    let asked = server.request(method, target).header("p-object-attributes", "ETag").body(body_of(target));
    asked.by(user).send().status
}

/// Resources of the kind that the action takes, none of which is the one that is asked for.
fn elsewhere(action: &str, resource: &str) -> &'static [&'static str] {
    match (action.starts_with("ListBucket"), resource.contains('/')) {
        (true, _) => &["other-bucket", "other*", "other-bucket/*", "b/other*"],
        (false, true) => &["other-bucket/*", "other*/*", "b/other", "b/other*"],
        (false, false) => &["other-bucket", "other*"],
    }
}

#[test]
fn one_action_on_one_resource_suffices_and_all_others_together_do_not() {
    for Asked { method, target, action, resource } in requests() {
        let target = target.as_str();
        // What PutObject permits, CreateObject permits for other keys.
        let other = |name: &&str| *name != action && !(action == "PutObject" && *name == "CreateObject");
        let others: Vec<_> = Action::ALL.iter().map(|a| a.as_str()).filter(other).collect();
        // A sub-resource that is not served tells nothing but that, and may be asked for by more
        // than one action.
        let others = if target == "/b?session" { vec!["PutObject"] } else { others };
        let (held, narrower) = match resource {
            // There is no narrower resource.
            "*" => (["GetBucketQuota"], &["b"][..]),
            _ => ([action], elsewhere(action, resource)),
        };
        // The attributes of an object are part of what it is to read it.
        let granted = match action {
            "GetObjectAttributes" => vec![action, "GetObject"],
            "GetObjectVersionAttributes" => vec![action, "GetObjectVersion"],
            _ => vec![action],
        };
        let server = Server::with_grants(&[
            ("holder", &granted, &[resource]),
            ("lacking", &others, &["*"]),
            ("elsewhere", &held, narrower),
        ]);
        server.put("/empty", b"");
        server.put("/b/k", b"x");
        assert_eq!(status(&server, method, target, "lacking"), 403, "{method} {target} without {action}");
        if action != "ListAllMyBuckets" {
            assert_eq!(status(&server, method, target, "elsewhere"), 403, "{method} {target} elsewhere");
        }
        let allowed = status(&server, method, target, "holder");
        let unset = ["b?", "upload", "retention", "legal-hold"].iter().any(|part| target.contains(part));
        assert!(allowed < 300 || unset && allowed != 403, "{method} {target} with {action}: {allowed}");
    }
}

#[test]
fn a_request_above_is_one_for_its_operation() {
    for row in Operation::TABLE.iter().filter(|row| !WITH_MORE_THAN_ONE_TARGET.contains(&row.operation)) {
        let target = target(row);
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let level = Addressing::default().target(path, "localhost").unwrap().level();
        let query = QueryParams::parse(query).unwrap();
        assert_eq!(operation(&row.method, level, &query, false).unwrap(), row.operation);
    }
}

#[test]
fn to_read_an_object_is_not_to_read_its_versions_nor_the_reverse() {
    let server = Server::with_grants(&[
        ("current", &["GetObject"], &["b/*"]),
        ("versions", &["GetObjectVersion"], &["b/*"]),
    ]);
    server.put("/b/k", b"x");
    let get = |user: &str, target: &str| server.request("GET", target).by(user).send();
    assert_eq!(get("current", "/b/k").text(), "x");
    get("current", "/b/k?versionId=null").is_error(403, "AccessDenied");
    assert_eq!(get("versions", "/b/k?versionId=null").text(), "x");
    get("versions", "/b/k").is_error(403, "AccessDenied");
}

#[test]
fn a_denied_request_is_an_error_with_a_body_and_a_denied_head_without() {
    let server = Server::with_grants(&[("none", &[], &["*"])]);
    server.request("GET", "/b/k").by("none").send().is_error(403, "AccessDenied");
    server.request("HEAD", "/b/k").by("none").send().is_bare(403);
}

#[test]
fn the_anonymous_user_has_its_grants_and_no_more() {
    let server = Server::with_grants(&[("anonymous", &["GetObject"], &["b/public/*"])]);
    server.put("/b/public/k", b"x");
    server.put("/b/private", b"x");
    let get = |target| server.request("GET", target).anonymous().send();
    assert_eq!(get("/b/public/k").text(), "x");
    get("/b/private").is_error(403, "AccessDenied");
    get("/b").is_error(403, "AccessDenied");
    server.request("PUT", "/b/public/k").anonymous().announcing(1).send().is_error(403, "AccessDenied");
}

#[test]
fn owners_reach_their_buckets_and_no_others() {
    let server = Server::with_grants(&[
        ("ann", &["*"], &["@owned"]),
        ("bob", &["*"], &["@owned", "bobs-*"]),
        ("guest", &["GetObject"], &["@owned/*"]),
    ]);
    let ask = |method: &str, target: &str, user: &str| {
        let body: &[u8] = if target.ends_with("/k") { b"x" } else { b"" };
        server.request(method, target).by(user).body(body).send()
    };
    assert_eq!(ask("PUT", "/bobs-photos", "bob").status, 200);
    ask("PUT", "/anns-photos", "ann").is_error(403, "AccessDenied");
    assert_eq!(ask("PUT", "/bobs-photos/k", "bob").status, 200);
    assert_eq!(ask("GET", "/bobs-photos/k", "bob").text(), "x");
    assert_eq!(ask("GET", "/bobs-photos?versioning", "bob").status, 200);
    assert_eq!(ask("GET", "/", "bob").all("Name"), ["bobs-photos"]);
    for user in ["ann", "guest"] {
        ask("GET", "/bobs-photos/k", user).is_error(403, "AccessDenied");
        ask("GET", "/bobs-photos?versioning", user).is_error(403, "AccessDenied");
    }
    assert_eq!(ask("GET", "/", "ann").all("Name"), Vec::<String>::new());
    // A copy reads only what its sender owns.
    let copy = |from: &str| {
        server.request("PUT", "/bobs-photos/copy").header("p-copy-source", from).by("bob").send()
    };
    assert_eq!(copy("/bobs-photos/k").status, 200);
    server.put("/b/k", b"x");
    copy("/b/k").is_error(403, "AccessDenied");
    assert_eq!(ask("DELETE", "/bobs-photos/k", "bob").status, 204);
}

#[test]
fn a_wrong_signature_is_refused_before_anything_is_revealed() {
    let server = Server::new();
    let answer = server.request("GET", "/b").by("nobody").send();
    answer.is_error(403, "InvalidAccessKeyId");
}

#[test]
fn a_bucket_of_another_owner_than_expected_is_refused() {
    let server = Server::new();
    server.put("/b/k", b"x");
    let ask = |method: &str, target: &str, owner: &str| {
        server.request(method, target).header("p-expected-bucket-owner", owner).send()
    };
    for (method, target, status) in
        [("GET", "/b/k", 200), ("GET", "/b", 200), ("PUT", "/b/k", 200), ("DELETE", "/b/absent", 204)]
    {
        assert_eq!(ask(method, target, "owner").status, status, "{method} {target}");
        for wrong in ["other", "Owner", "", "111122223333"] {
            ask(method, target, wrong).is_error(403, "AccessDenied");
        }
    }
    ask("HEAD", "/b", "other").is_bare(403);
    ask("GET", "/absent", "other").is_error(404, "NoSuchBucket");
    assert_eq!(ask("GET", "/", "other").status, 200, "no bucket is asked for");
    assert_eq!(ask("PUT", "/new", "other").status, 200, "a new bucket is its creator's");
    let listed = server.get("/b?list-type=2&fetch-owner=true");
    assert_eq!(listed.one("ID").as_deref(), Some("owner"), "it is the owner that listings tell");
}

#[test]
fn a_source_of_another_owner_than_expected_is_refused() {
    let server = Server::new();
    server.put("/b/k", b"x");
    let id = server.request("POST", "/b/up?uploads").send().one("UploadId").unwrap();
    for target in ["/b/copy".to_owned(), format!("/b/up?partNumber=1&uploadId={id}")] {
        let copy = |owner: &str| {
            let asked = server.request("PUT", &target).header("p-copy-source", "/b/k");
            asked.header("p-source-expected-bucket-owner", owner).send()
        };
        copy("other").is_error(403, "AccessDenied");
        assert_eq!(copy("owner").status, 200);
    }
}

/// A server with objects and uploads inside and outside of `home/h/`, and users `h`, who holds
/// everything there and nothing else, and `lister`, who may list them.
fn server_with_homes() -> Server {
    let listings = ["ListBucket", "ListBucketVersions", "ListBucketMultipartUploads"];
    let server =
        Server::with_grants(&[("h", &["*"], &["b/home/h/*"]), ("lister", &listings, &["b/home/h/*"])]);
    for key in
        ["a", "home/g/x", "home/h", "home/h/1", "home/h/in/2", "home/h/in/3", "home/h2", "home/i/x", "z"]
    {
        server.put(&format!("/b/{key}"), b"x");
        server.request("POST", &format!("/b/{key}?uploads")).send().one("UploadId").unwrap();
    }
    server
}

/// The four listings, each with a parameter to come.
const LISTINGS: [&str; 4] = ["/b?x-id=ListObjects", "/b?list-type=2", "/b?versions", "/b?uploads"];

#[test]
fn a_grant_of_a_prefix_lists_its_keys_and_no_others() {
    let server = server_with_homes();
    for (user, listing) in ["h", "lister"].iter().flat_map(|user| LISTINGS.map(|listing| (user, listing))) {
        let list = |rest: &str| server.request("GET", &format!("{listing}&{rest}")).by(user).send();
        let inside = list("prefix=home%2Fh%2F");
        assert_eq!(inside.all("Key"), ["home/h/1", "home/h/in/2", "home/h/in/3"], "{listing}");
        assert_eq!(inside.one("IsTruncated").as_deref(), Some("false"), "{listing}");
        assert_eq!(list("prefix=home/h/in/").all("Key"), ["home/h/in/2", "home/h/in/3"], "{listing}");
        assert_eq!(list("prefix=home%2Fh%2Fin").all("Key").len(), 2, "{listing}");
        for rest in ["x=y", "prefix=", "prefix=h", "prefix=home%2Fh", "prefix=home%2F", "prefix=home%2Fg%2F"]
        {
            list(rest).is_error(403, "AccessDenied");
            list(&format!("{rest}&delimiter=%2F&max-keys=1")).is_error(403, "AccessDenied");
        }
        // Of two, the first counts, for the permission and for the listing.
        list("prefix=home%2F&prefix=home%2Fh%2F").is_error(403, "AccessDenied");
        assert_eq!(list("prefix=home%2Fh%2F&prefix=home%2F").all("Key").len(), 3, "{listing}");
    }
}

#[test]
fn neither_delimiters_nor_markers_lead_out_of_a_prefix_that_is_held() {
    let server = server_with_homes();
    for listing in LISTINGS {
        let list = |rest: &str| {
            let asked = server.request("GET", &format!("{listing}&prefix=home%2Fh%2F&{rest}"));
            let answer = asked.by("lister").send();
            assert_eq!(answer.status, 200, "{listing} {rest}");
            (answer.all("Key"), answer.all("CommonPrefixes"), answer.one("IsTruncated"))
        };
        let (keys, prefixes, _) = list("delimiter=%2F");
        assert_eq!((keys, prefixes.len()), (vec!["home/h/1".to_owned()], 1), "{listing}");
        for delimiter in ["h", "home%2F", "home%2Fh%2F", "e", "x", "%2F2"] {
            let (keys, _, truncated) = list(&format!("delimiter={delimiter}"));
            assert!(keys.iter().all(|key| key.starts_with("home/h/")), "{listing} {delimiter}: {keys:?}");
            assert_eq!(truncated.as_deref(), Some("false"));
        }
        for marker in ["marker", "start-after", "key-marker"] {
            for (at, count) in [("a", 3), ("home/g/x", 3), ("home/h/in/2", 1), ("home/h2", 0), ("zz", 0)] {
                let (keys, _, truncated) = list(&format!("{marker}={}", encoded(at)));
                let applies = match marker {
                    "marker" => listing == "/b?x-id=ListObjects",
                    "start-after" => listing == "/b?list-type=2",
                    _ => listing == "/b?versions" || listing == "/b?uploads",
                };
                assert_eq!(keys.len(), if applies { count } else { 3 }, "{listing} {marker}={at}: {keys:?}");
                assert!(keys.iter().all(|key| key.starts_with("home/h/")), "{listing} {marker}={at}");
                assert_eq!(truncated.as_deref(), Some("false"));
            }
        }
    }
}

#[test]
fn a_prefix_that_is_held_says_nothing_of_the_bucket_and_of_other_keys() {
    let server = server_with_homes();
    server.request("HEAD", "/b").by("h").send().is_bare(403);
    server.request("HEAD", "/absent").by("h").send().is_bare(403);
    server.request("GET", "/b?location").by("h").send().is_error(403, "AccessDenied");
    let get = |key: &str, user: &str| server.request("GET", &format!("/b/{key}")).by(user).send();
    assert_eq!(get("home/h/1", "h").status, 200);
    get("home/h/absent", "h").is_error(404, "NoSuchKey");
    for key in ["home/g/x", "home/g/absent", "home/h", "a", "absent"] {
        get(key, "h").is_error(403, "AccessDenied");
    }
    get("home/h/1", "lister").is_error(403, "AccessDenied");
    assert_eq!(server.request("GET", "/").by("h").send().all("Name"), Vec::<String>::new());
}

#[test]
fn that_a_key_is_missing_follows_the_listing_of_its_prefix() {
    let server = Server::with_grants(&[
        ("reader", &["GetObject", "PutObject"], &["b/*"]),
        ("both", &["GetObject", "PutObject", "ListBucket"], &["b/in/*", "b/out", "b/copy"]),
    ]);
    let ask = |key: &str, user: &str| server.request("GET", &format!("/b/{key}")).by(user).send();
    ask("in/absent", "both").is_error(404, "NoSuchKey");
    ask("out", "both").is_error(403, "AccessDenied");
    ask("in/absent", "reader").is_error(403, "AccessDenied");
    let copy = |source: &str| {
        let asked = server.request("PUT", "/b/copy").header("p-copy-source", format!("/b/{source}"));
        asked.by("both").send()
    };
    copy("in/absent").is_error(404, "NoSuchKey");
    copy("out").is_error(403, "AccessDenied");
    let replace = |key: &str| {
        let asked = server.request("PUT", &format!("/b/{key}")).header("If-Match", "*").body(b"x");
        asked.by("both").send()
    };
    replace("in/absent").is_error(404, "NoSuchKey");
    replace("out").is_error(403, "AccessDenied");
}

#[test]
fn a_pattern_of_buckets_holds_for_those_that_begin_so() {
    let server = Server::with_grants(&[
        ("alt", &["*"], &["alt-*", "alt-*/*"]),
        ("buckets", &["CreateBucket", "ListBucket", "ListAllMyBuckets"], &["alt-*"]),
        ("public", &["GetObject"], &["alt-*/pub/*"]),
    ]);
    let ask = |method: &str, target: &str, user: &str| server.request(method, target).by(user).send();
    for (bucket, user) in [("alt-1", "alt"), ("alt-2", "buckets")] {
        assert_eq!(ask("PUT", &format!("/{bucket}"), user).status, 200);
    }
    for bucket in ["alt", "alte", "other", "x-alt-1"] {
        ask("PUT", &format!("/{bucket}"), "alt").is_error(403, "AccessDenied");
    }
    for key in ["pub/k", "k"] {
        assert_eq!(ask("PUT", &format!("/alt-1/{key}"), "alt").status, 200);
        ask("PUT", &format!("/alt-1/{key}"), "buckets").is_error(403, "AccessDenied");
        ask("PUT", &format!("/b/{key}"), "alt").is_error(403, "AccessDenied");
    }
    assert_eq!(ask("GET", "/alt-1", "buckets").all("Key"), ["k", "pub/k"]);
    ask("GET", "/b", "buckets").is_error(403, "AccessDenied");
    for user in ["alt", "buckets"] {
        assert_eq!(ask("GET", "/", user).all("Name"), ["alt-1", "alt-2"], "{user}");
    }
    assert_eq!(ask("GET", "/alt-1/pub/k", "public").status, 200);
    ask("GET", "/alt-1/k", "public").is_error(403, "AccessDenied");
    ask("GET", "/alt-1", "public").is_error(403, "AccessDenied");
    ask("GET", "/alt-9/k", "alt").is_error(404, "NoSuchBucket");
}
