//! Users, whose keys go on to work.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use siltstone::auth::Users;

use super::super::status;
use super::writer::{MinioDrives, TIME, Written};
use super::{import, names};
use crate::tools::import::report;

#[test]
fn users_groups_and_service_accounts_keep_their_keys() {
    let drives = MinioDrives::new(2, 2);
    drives.put("photos", "a", &[Written::object(0, TIME, b"a")]);
    let put = |path: &str, value: serde_json::Value| {
        let object = Written { inline: true, ..Written::object(0, TIME, value.to_string().as_bytes()) };
        drives.put(".minio.sys", &format!("config/iam/{path}"), &[object]);
    };
    let identity = |key: &str| json!({ "version": 1, "credentials": { "accessKey": key, "secretKey": format!("the secret of {key}"), "status": "on" } });
    put("users/camera01/identity.json", identity("camera01"));
    put("users/reader01/identity.json", identity("reader01"));
    let claims = json!({ "parent": "camera01", "sa-policy": "inherited-policy" }).to_string();
    let mut service = identity("service1");
    service["credentials"]["parentUser"] = json!("camera01");
    service["credentials"]["sessionToken"] = json!(format!("x.{}.y", URL_SAFE_NO_PAD.encode(claims)));
    put("service-accounts/service1/identity.json", service);
    put(
        "policies/put/policy.json",
        json!({ "Version": 1, "Policy": { "Statement": [
        { "Effect": "Allow", "Action": ["s3:PutObject"], "Resource": ["arn:aws:s3:::photos/in/*"] } ] } }),
    );
    put("policydb/users/camera01.json", json!({ "version": 0, "policy": "put" }));
    put("groups/readers/members.json", json!({ "version": 1, "status": "enabled", "members": ["reader01"] }));
    put("policydb/groups/readers.json", json!({ "version": 0, "policy": "readonly" }));
    drives.write(0, ".minio.sys/config/iam/users/secret/identity.json", b"\xff\xfe encrypted");
    let data = tempfile::tempdir().unwrap();
    let users = data.path().join("users.toml");
    let output = import(&drives.source(), data.path(), &["--users-out", users.to_str().unwrap()]);
    let told = report(&output);
    assert_eq!(status(&output), 1, "{told}");
    assert_eq!(names(&told, "users").len(), 1, "{told}");
    assert!(names(&told, "users")[0].contains("users/secret/identity.json: it is encrypted"), "{told}");
    assert_eq!(fs::metadata(&users).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&users).unwrap();
    Users::parse(&text).unwrap();
    for part in [
        "access_key = \"camera01\"\nsecret_key = \"the secret of camera01\"",
        "access_key = \"service1\"",
        "[[service_account]]\nname = \"service1\"\nuser = \"camera01\"",
        "secret_key = \"the secret of camera01\"\npolicy = [\"put\"]",
        "[[group]]\nname = \"readers\"\nmembers = [\"reader01\"]\npolicy = [\"readonly\"]",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.matches("photos/in/*").count(), 1, "{text}");
    // A file that is there is not overwritten.
    let output = import(&drives.source(), data.path(), &["--users-out", users.to_str().unwrap()]);
    assert_eq!(status(&output), 2);
}
