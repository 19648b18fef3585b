//! Quotas: setting them, and what they refuse.

use siltstone::auth::Users;

use super::*;
use crate::support::users::{access_key, secret_key};

fn set(server: &Server, target: &str, quota: &str) -> Answer {
    server.request("PUT", target).body(quota.as_bytes()).send()
}

fn json(answer: &Answer) -> serde_json::Value {
    assert_eq!((answer.status, answer.header("Content-Type")), (200, Some("application/json")));
    serde_json::from_str(answer.text()).unwrap()
}

/// A report without the bytes of the index that are used, which must be there.
fn without_index(mut report: serde_json::Value) -> serde_json::Value {
    let used = report["used"].as_object_mut().unwrap();
    assert!(used.shift_remove("index_bytes").is_some_and(|bytes| bytes.is_u64()));
    report
}

/// A server whose bucket `b` has a quota.
fn limited(quota: &str) -> Server {
    let server = Server::new();
    assert_eq!(set(&server, "/b?quota", quota).status, 200);
    server
}

#[test]
fn the_quota_of_a_bucket_is_set_read_and_removed() {
    let server = Server::new();
    let get = || without_index(json(&server.request("GET", "/b?quota").send()));
    let empty = r#"{"quota":{},"in_force":{},"used":{"bytes":0,"objects":0,"uploads":0}}"#;
    assert_eq!(get().to_string(), empty);
    assert_eq!(set(&server, "/b?quota", r#"{"bytes": 100, "uploads": 1}"#).status, 200);
    server.put("/b/k", &[1; 60]);
    server.request("POST", "/b/film?uploads").send();
    let quota = r#"{"bytes":100,"uploads":1}"#;
    let used = r#"{"bytes":60,"objects":1,"uploads":1}"#;
    assert_eq!(get().to_string(), format!(r#"{{"quota":{quota},"in_force":{quota},"used":{used}}}"#));
    server.request("PUT", "/b/k2").body(&[1; 41]).send().is_error(403, "QuotaExceeded");
    assert_eq!(server.request("DELETE", "/b?quota").send().status, 204);
    assert_eq!(server.request("DELETE", "/b?quota").send().status, 204);
    assert_eq!(server.request("PUT", "/b/k2").body(&[1; 41]).send().status, 200);
    set(&server, "/b?quota", r#"{"objects": 0}"#);
    assert_eq!(set(&server, "/b?quota", "{}").status, 200);
    assert_eq!(get()["quota"].to_string(), "{}");
    set(&server, "/absent?quota", "{}").is_error(404, "NoSuchBucket");
    server.request("GET", "/absent?quota").send().is_error(404, "NoSuchBucket");
    server.request("DELETE", "/absent?quota").send().is_error(404, "NoSuchBucket");
}

#[test]
fn quotas_that_mean_nothing_are_refused() {
    let server = Server::new();
    for wrong in ["", "x", "[]", "{\"bytes\": -1}", "{\"bytes\": \"1\"}", "{\"keys\": 1}", "{\"buckets\": 1}"]
    {
        set(&server, "/b?quota", wrong).is_error(400, "InvalidArgument");
    }
    for target in ["/?quota", "/?quota&owner=", "/?quota&owner=%0a"] {
        set(&server, target, "{}").is_error(400, "InvalidArgument");
        server.request("DELETE", target).send().is_error(400, "InvalidArgument");
    }
    let long = vec![b' '; 2 << 20];
    server.request("PUT", "/b?quota").body(&long).send().is_error(400, "MaxMessageLengthExceeded");
}

#[test]
fn a_body_that_cannot_fit_is_not_asked_for() {
    let server = limited(r#"{"bytes": 100}"#);
    // No byte of the body is sent: a server that waited for it would answer IncompleteBody.
    server.request("PUT", "/b/k").announcing(101).send().is_error(403, "QuotaExceeded");
    let created = server.request("POST", "/b/film?uploads").send();
    let target = format!("/b/film?partNumber=1&uploadId={}", created.all("UploadId")[0]);
    server.request("PUT", &target).announcing(101).send().is_error(403, "QuotaExceeded");
    server.put("/b/k", &[1; 100]);
    server.request("PUT", "/b/k").announcing(101).send().is_error(403, "QuotaExceeded");
    assert_eq!(server.request("PUT", "/b/k").body(&[2; 100]).send().status, 200);
}

#[test]
fn every_way_to_grow_is_refused_at_the_brim_and_no_other_request() {
    let server = Server::new();
    server.put("/b/k", &[1; 60]);
    let created = server.request("POST", "/b/film?uploads").send();
    let upload = created.all("UploadId").remove(0);
    let part = server.put(&format!("/b/film?partNumber=1&uploadId={upload}"), &[1; 40]);
    let tag = part.header("ETag").unwrap().to_owned();
    set(&server, "/b?quota", r#"{"bytes": 100, "objects": 1, "uploads": 1}"#);
    let complete = || {
        let part = format!("<Part><PartNumber>1</PartNumber><ETag>{tag}</ETag></Part>");
        let document = format!("<CompleteMultipartUpload>{part}</CompleteMultipartUpload>");
        server.request("POST", &format!("/b/film?uploadId={upload}")).body(document.as_bytes()).send()
    };
    let copy = |target: &str| server.request("PUT", target).header("p-copy-source", "/b/k").send();
    server.request("PUT", "/b/new").body(b"x").send().is_error(403, "QuotaExceeded");
    server.request("PUT", "/b/new").body(b"").send().is_error(403, "QuotaExceeded");
    copy("/b/new").is_error(403, "QuotaExceeded");
    copy(&format!("/b/film?partNumber=2&uploadId={upload}")).is_error(403, "QuotaExceeded");
    server.request("POST", "/b/other?uploads").send().is_error(403, "QuotaExceeded");
    let refusal = complete();
    refusal.is_error(403, "QuotaExceeded");
    assert!(refusal.text().contains("The quota of the bucket allows 1 objects."), "{}", refusal.text());
    let tags = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
    assert_eq!(server.request("PUT", "/b/k?tagging").body(tags).send().status, 200);
    assert_eq!(server.request("PUT", "/b/k").body(&[2; 60]).send().status, 200);
    assert_eq!(server.request("GET", "/b/k").send().status, 200);
    assert_eq!(server.request("DELETE", "/b/k").send().status, 204);
    assert_eq!(complete().status, 200);
    assert_eq!(server.request("GET", "/b/film").send().body.len(), 40);
}

#[test]
fn head_bucket_shows_the_quota_and_its_usage() {
    let server = Server::new();
    let head = || server.request("HEAD", "/b").send();
    assert_eq!(head().header("p-quota-bytes-used"), None);
    set(&server, "/b?quota", r#"{"bytes": 100}"#);
    server.put("/b/k", &[1; 60]);
    let told = head();
    assert_eq!(told.status, 200);
    let shown = ["bytes", "bytes-used", "objects", "objects-used"]
        .map(|name| told.header(&format!("p-quota-{name}")).map(str::to_owned));
    assert_eq!(shown, [Some("100".to_owned()), Some("60".to_owned()), None, Some("1".to_owned())]);
}

#[test]
fn an_owner_is_limited_in_all_its_buckets() {
    let server = Server::new();
    assert_eq!(set(&server, "/?quota&owner=other", r#"{"bytes": 100, "buckets": 2}"#).status, 200);
    let create = |bucket: &str| server.request("PUT", bucket).by("other").send();
    assert_eq!((create("/one").status, create("/two").status), (200, 200));
    create("/three").is_error(400, "TooManyBuckets");
    server.put("/one/k", &[1; 60]);
    let refusal = server.request("PUT", "/two/k").body(&[1; 41]).send();
    refusal.is_error(403, "QuotaExceeded");
    assert!(refusal.text().contains("The quota of the owner of the bucket allows 100 bytes."));
    server.put("/two/k", &[1; 40]);
    server.put("/b/k", &[1; 500]);
    let quota = r#"{"bytes":100,"buckets":2}"#;
    let used = r#"{"bytes":100,"objects":2,"uploads":0,"buckets":2}"#;
    let shown =
        format!(r#"{{"owner":"other","quota":{quota},"users_file":{{}},"in_force":{quota},"used":{used}}}"#);
    let one = without_index(json(&server.request("GET", "/?quota&owner=other").send()));
    assert_eq!(one.to_string(), shown);
    set(&server, "/two?quota", r#"{"objects": 5}"#);
    let all = json(&server.request("GET", "/?quota").send());
    assert_eq!(without_index(all["owners"][0].clone()).to_string(), shown);
    assert_eq!((&all["buckets"][0]["bucket"], &all["buckets"][0]["owner"]), (&"two".into(), &"other".into()));
    assert_eq!(server.request("DELETE", "/?quota&owner=other").send().status, 204);
    assert_eq!(create("/three").status, 200);
}

#[test]
fn neither_an_owner_nor_a_policy_can_lift_a_quota() {
    let server = Server::with_grants(&[
        ("ann", &["*"], &["@owned", "anns-*", "anns-*/*"]),
        ("guest", &["GetObject"], &["anns-photos/*"]),
    ]);
    assert_eq!(server.request("PUT", "/anns-photos").by("ann").send().status, 200);
    let policy = r#"{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::anns-photos"}}"#;
    assert_eq!(
        server.request("PUT", "/anns-photos?policy").by("ann").body(policy.as_bytes()).send().status,
        204
    );
    set(&server, "/anns-photos?quota", r#"{"objects": 0}"#);
    for user in ["ann", "guest"] {
        let ask = |method: &str, target: &str| server.request(method, target).by(user).body(b"{}").send();
        for method in ["PUT", "DELETE"] {
            ask(method, "/anns-photos?quota").is_error(403, "AccessDenied");
            ask(method, "/?quota&owner=ann").is_error(403, "AccessDenied");
        }
        server.request("GET", "/?quota").by(user).send().is_error(403, "AccessDenied");
    }
    let shown = server.request("GET", "/anns-photos?quota").by("ann").send();
    assert_eq!(json(&shown)["quota"].to_string(), r#"{"objects":0}"#);
    server.request("PUT", "/anns-photos/k").by("ann").body(b"x").send().is_error(403, "QuotaExceeded");
}

#[test]
fn an_owner_cannot_shed_what_administrators_set_by_making_the_bucket_anew() {
    let server = Server::with_grants(&[("ann", &["*"], &["@owned", "anns-*", "anns-*/*"])]);
    let ask = |user: &str, method: &str, target: &str| server.request(method, target).by(user).send();
    for (setting, document) in [("quota", r#"{"objects": 0}"#), ("placement", r#"{"placement": "remote"}"#)] {
        assert_eq!(ask("ann", "PUT", "/anns-photos").status, 200);
        assert_eq!(set(&server, &format!("/anns-photos?{setting}"), document).status, 200);
        let refused = ask("ann", "DELETE", "/anns-photos");
        refused.is_error(403, "AccessDenied");
        assert!(refused.text().contains(setting), "{}", refused.text());
        assert_eq!(ask("ann", "HEAD", "/anns-photos").status, 200);
        assert_eq!(ask("owner", "DELETE", &format!("/anns-photos?{setting}")).status, 204);
        assert_eq!(ask("ann", "DELETE", "/anns-photos").status, 204);
    }
    assert_eq!(ask("ann", "PUT", "/anns-photos").status, 200);
    set(&server, "/anns-photos?quota", r#"{"objects": 0}"#);
    assert_eq!(ask("owner", "DELETE", "/anns-photos").status, 204);
    ask("ann", "DELETE", "/anns-photos").is_error(404, "NoSuchBucket");
}

#[test]
fn the_users_file_limits_an_owner_too() {
    let server = Server::new();
    let access = access_key("owner");
    let secret = secret_key("owner");
    let file = format!(
        "[[user]]\nname = \"owner\"\naccess_key = \"{access}\"\nsecret_key = \"{secret}\"\nquota = {{ bytes = \"1KiB\" }}"
    );
    server.store.configure_owner_quotas(Users::parse(&file).unwrap().quotas().clone());
    server.put("/b/k", &[1; 1024]);
    server.request("PUT", "/b/new").body(b"x").send().is_error(403, "QuotaExceeded");
    let shown = json(&server.request("GET", "/?quota").send());
    assert_eq!(shown["owners"][0]["users_file"].to_string(), r#"{"bytes":1024}"#);
}

#[test]
fn the_metrics_show_limits_and_their_usage() {
    let server = limited(r#"{"bytes": 100}"#);
    server.put("/b/k", &[1; 60]);
    set(&server, "/?quota&owner=owner", r#"{"buckets": 3}"#);
    let metrics = server.request("GET", "/-/metrics").anonymous().send();
    for line in [
        r#"siltstone_quota_bytes{holder="bucket",name="b"} 100"#,
        r#"siltstone_quota_used_bytes{holder="bucket",name="b"} 60"#,
        r#"siltstone_quota_buckets{holder="owner",name="owner"} 3"#,
        r#"siltstone_quota_used_buckets{holder="owner",name="owner"} 1"#,
    ] {
        assert!(metrics.text().lines().any(|l| l == line), "{line} is missing from\n{}", metrics.text());
    }
}

#[test]
fn delete_markers_and_configurations_are_refused_beyond_the_bytes_of_the_index() {
    let server = limited(r#"{"index_bytes": 2500}"#);
    server.put("/b/there", b"x");
    server.set_versioning("Enabled");
    let shown = json(&server.request("GET", "/b?quota").send());
    assert_eq!(shown["in_force"].to_string(), r#"{"index_bytes":2500}"#);
    let used = shown["used"]["index_bytes"].as_u64().unwrap();
    let mark = |key: &str| server.request("DELETE", key).send();
    let markers = (0..50).take_while(|nth| mark(&format!("/b/absent-{nth:02}")).status == 204).count();
    assert_eq!(markers as u64, (2500 - used) / (64 + 9));
    let refusal = mark("/b/absent-00");
    refusal.is_error(403, "QuotaExceeded");
    let told = "The quota of the bucket allows 2500 bytes of the index.";
    assert!(refusal.text().contains(told), "{}", refusal.text());
    let keys = "<Delete><Object><Key>there</Key></Object><Object><Key>absent-77</Key></Object></Delete>";
    let deleted = server
        .request("POST", "/b?delete")
        .header("Content-MD5", delete::content_md5(keys))
        .body(keys.as_bytes())
        .send();
    assert_eq!(deleted.status, 200);
    let text = deleted.text();
    assert!(text.contains("<Code>QuotaExceeded</Code>") && text.contains("<DeleteMarker>true"), "{text}");
    let policy = format!(
        "{:1$}",
        r#"{"Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::b"}}"#,
        900
    );
    let set_policy = || server.request("PUT", "/b?policy").body(policy.as_bytes()).send();
    set_policy().is_error(403, "QuotaExceeded");
    let versions = server.request("GET", "/b?versions").send();
    for (key, id) in ["absent-00", "absent-01"].into_iter().zip(versions.all("VersionId")) {
        let named = server.request("DELETE", &format!("/b/{key}?versionId={id}")).send();
        assert_eq!(named.status, 204, "{}", named.text());
    }
    assert_eq!(mark("/b/absent-00").status, 204);
    // Administrators set quotas whatever is used.
    assert_eq!(set(&server, "/b?quota", r#"{"index_bytes": 20000}"#).status, 200);
    assert_eq!(set_policy().status, 204);
}
