//! Users, whose keys go on to work.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use siltstone::auth::Users;

use super::super::status;
use super::encoded::{config_by_first_user, config_by_server, secret};
use super::writer::{MinioDrives, TIME, Written};
use super::{import, names};
use crate::tools::import::{command_of, report};

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
    let data = tempfile::tempdir().unwrap();
    let users = data.path().join("users.toml");
    let output = import(&drives.source(), data.path(), &["--users-out", users.to_str().unwrap()]);
    let told = report(&output);
    assert_eq!((status(&output), names(&told, "users").len()), (0, 0), "{told}");
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

#[test]
fn users_that_are_encrypted_come_with_the_keys_of_the_operator() {
    let drives = MinioDrives::new(2, 2);
    drives.put("photos", "a", &[Written::object(0, TIME, b"a")]);
    let mut paths = Vec::new();
    for name in ["by-kms", "by-root", "damaged"] {
        let path = format!("config/iam/users/{name}/identity.json");
        let secret_key = format!("the secret of {name}");
        let text = json!({ "credentials": { "accessKey": name, "secretKey": secret_key, "status": "on" },
            "padding": " ".repeat(40_000) })
        .to_string();
        let sealed = match name {
            "by-root" => config_by_first_user("root:its secret", text.as_bytes()),
            _ => config_by_server(&path, text.as_bytes()),
        };
        let sealed = if name == "damaged" { &sealed[..sealed.len() - 1] } else { &sealed };
        drives.put(".minio.sys", &path, &[Written::object(0, TIME, sealed)]);
        paths.push(path);
    }
    let home = tempfile::tempdir().unwrap();
    let run = |name: &str, environment: &[(&str, &str)]| {
        let users = home.path().join(name);
        let data = home.path().join("data");
        let args = [&*drives.source(), "--offline", "--data-dir", data.to_str().unwrap()];
        let mut command = command_of("import", &args);
        command.arg("--users-out").arg(&users).envs(environment.iter().copied());
        let output = command.output().unwrap();
        let told = report(&output);
        let relied_on: Vec<_> = told["relied_on"].as_array().unwrap().to_vec();
        (names(&told, "users"), relied_on, fs::read_to_string(&users).unwrap())
    };
    let known = [
        ("MINIO_KMS_SECRET_KEY", &*secret()),
        ("MINIO_ROOT_USER", "root"),
        ("MINIO_ROOT_PASSWORD", "its secret"),
    ];
    let (told, relied_on, users) = run("users.toml", &known);
    assert_eq!(
        relied_on,
        [json!({ "what": "users that are encrypted under MINIO_KMS_SECRET_KEY", "count": 1 })]
    );
    assert_eq!(told, [format!(".minio.sys/{}: it is encrypted, and damaged", paths[2])]);
    for name in ["by-kms", "by-root"] {
        let keys = format!("access_key = \"{name}\"\nsecret_key = \"the secret of {name}\"");
        assert!(users.contains(&keys), "{users}");
    }
    let (told, relied_on, users) = run("without.toml", &[]);
    assert!(relied_on.is_empty(), "{relied_on:?}");
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].contains("under the key \"my-key\", which is not among those"), "{told:?}");
    assert!(told[1].contains("MINIO_ROOT_PASSWORD do not fit"), "{told:?}");
    assert!(!users.contains("by-"), "{users}");
}
