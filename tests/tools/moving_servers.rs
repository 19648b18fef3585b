//! `import s3://` from a server that runs: the configurations of a bucket, and the users of MinIO's
//! export.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;
use siltstone::base::digest::Md5;

use super::import::{Client, command_of, counts, report, start};
use super::{status, stderr};
use crate::support::process::{Running, on_a_free_port};
use crate::support::proxy::{self, Verdict};

const DOCUMENTS: [(&str, &str); 8] = [
    (
        "policy",
        r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::photos/public/*"}]}"#,
    ),
    (
        "cors",
        "<CORSConfiguration><CORSRule><AllowedOrigin>https://a.example</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>",
    ),
    (
        "lifecycle",
        "<LifecycleConfiguration><Rule><ID>old</ID><Status>Enabled</Status><Filter><Prefix>tmp/</Prefix></Filter><Expiration><Days>7</Days></Expiration></Rule></LifecycleConfiguration>",
    ),
    ("tagging", "<Tagging><TagSet><Tag><Key>team</Key><Value>blue</Value></Tag></TagSet></Tagging>"),
    (
        "encryption",
        "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>",
    ),
    (
        "website",
        "<WebsiteConfiguration><IndexDocument><Suffix>index.html</Suffix></IndexDocument></WebsiteConfiguration>",
    ),
    (
        "object-lock",
        "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>",
    ),
    (
        "ownershipControls",
        "<OwnershipControls><Rule><ObjectOwnership>BucketOwnerPreferred</ObjectOwnership></Rule></OwnershipControls>",
    ),
];

fn documents(client: &mut Client) -> Vec<String> {
    let mut found = Vec::new();
    for (name, _) in DOCUMENTS {
        found.push(client.ask("GET", "", &[(name, "")], "", b"").text());
    }
    found
}

#[test]
fn the_configurations_of_a_bucket_come_along() {
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let source = start(from.path());
    let target = start(to.path());
    let mut old = Client::of_bucket(&source, "photos");
    old.ask("PUT", "", &[], "x-amz-bucket-object-lock-enabled: true\r\n", b"");
    old.ask("PUT", "public/a", &[], "", b"first");
    old.ask("PUT", "public/a", &[], "", b"second");
    for (name, document) in DOCUMENTS {
        let md5 = format!("content-md5: {}\r\n", BASE64.encode(Md5::of(document.as_bytes())));
        old.ask("PUT", "", &[(name, "")], &md5, document.as_bytes());
    }
    let from_url = old.url.clone();
    let to_url = format!("http://{}", target.address());
    let args =
        ["s3://photos", "photos", "--endpoint", &from_url, "--server", &to_url, "--with-configurations"];
    let output = command_of("import", &args).output().unwrap();
    let told = report(&output);
    assert_eq!((status(&output), counts(&told)), (0, [1, 0, 0, 0]), "{told}");
    let mut new = Client::of_bucket(&target, "photos");
    let mut expected = documents(&mut old);
    let found = documents(&mut new);
    // Its tags name the import, too, so that a further run knows its bucket.
    let tags = DOCUMENTS.iter().position(|(name, _)| *name == "tagging").unwrap();
    assert!(found[tags].contains("<Key>team</Key><Value>blue</Value>"), "{}", found[tags]);
    assert!(found[tags].contains("<Key>siltstone-import</Key>"), "{}", found[tags]);
    expected[tags].clone_from(&found[tags]);
    assert_eq!(found, expected);
    assert_eq!(new.history(), old.history());
    assert_eq!(counts(&report(&command_of("import", &args).output().unwrap())), [0, 1, 0, 0]);

    // A bucket that the operator made is not changed.
    let mut own = Client::new(&target, "own");
    let args = ["s3://photos", "own", "--endpoint", &from_url, "--server", &to_url, "--with-configurations"];
    let refused = command_of("import", &args).output().unwrap();
    assert!(status(&refused) == 2 && stderr(&refused).contains("--into-existing"), "{}", stderr(&refused));
    let filled = command_of("import", &[&args[..], &["--into-existing"]].concat()).output().unwrap();
    assert!(report(&filled).to_string().contains("keeps its own"), "{}", report(&filled));
    assert_eq!(own.body("public/a"), b"second");
    assert!(own.ask("GET", "", &[("versioning", "")], "", b"").text().contains("VersioningConfiguration"));
    let args = ["s3://photos/public", "new", "--endpoint", &from_url, "--server", &to_url];
    let prefixed = command_of("import", &[&args[..], &["--with-configurations"]].concat()).output().unwrap();
    assert!(status(&prefixed) == 2 && stderr(&prefixed).contains("whole buckets"), "{}", stderr(&prefixed));
}

/// Calls itself MinIO, and has one quota.
fn as_minio(head: String) -> Verdict {
    if !head.starts_with("GET /minio/admin/") {
        return Verdict::Forward(head);
    }
    if head.starts_with("GET /minio/admin/v3/get-bucket-quota?bucket=photos ") {
        return Verdict::Answer(
            "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{\"quota\":10737418240,\"quotatype\":\"hard\"}",
        );
    }
    Verdict::Answer("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
}

#[test]
fn the_quota_of_a_running_minio_comes_along() {
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let source = start(from.path());
    let target = start(to.path());
    for bucket in ["photos", "videos"] {
        Client::of_bucket(&source, bucket).ask("PUT", "", &[], "", b"");
    }
    let answer = |_: &str, answer: Vec<u8>| {
        let text = String::from_utf8(answer).unwrap();
        text.replacen("\r\n", "\r\nServer: MinIO\r\n", 1).into_bytes()
    };
    let minio = proxy::start(
        source.address().parse().unwrap(),
        proxy::Fault { request: as_minio, answer, ..Default::default() },
    );
    let minio = format!("http://{minio}");
    let to_url = format!("http://{}", target.address());
    let import = |bucket: &str| {
        let source = format!("s3://{bucket}");
        let args = [&*source, bucket, "--endpoint", &minio, "--server", &to_url, "--with-configurations"];
        command_of("import", &args).output().unwrap()
    };
    let photos = import("photos");
    assert_eq!(status(&photos), 0, "{}", report(&photos));
    let quota = Client::of_bucket(&target, "photos").ask("GET", "", &[("quota", "")], "", b"").text();
    assert!(quota.contains("10737418240"), "{quota}");
    let videos = import("videos");
    let told = report(&videos)["configurations_not_read"].to_string();
    assert!(status(&videos) == 1 && told.contains("videos, quota"), "{told}");
    assert!(told.contains("an administrator of MinIO may read it"), "{told}");
}

/// Writes what `mc admin cluster iam export` has in its zip.
fn export(dir: &Path) {
    let assets = dir.join("iam-assets");
    fs::create_dir_all(&assets).unwrap();
    let files = [
        (
            "policies.json",
            json!({ "uploads": { "Version": "2012-10-17", "Statement": [
                { "Effect": "Allow", "Action": ["s3:PutObject"], "Resource": ["arn:aws:s3:::photos/in/${aws:username}/*"] },
                { "Effect": "Deny", "Action": ["s3:PutObject"], "Resource": ["arn:aws:s3:::photos/in/${aws:username}/shut/*"] } ] } }),
        ),
        (
            "users.json",
            json!({
                "camera01": { "secretKey": "the secret of camera01", "status": "enabled" },
                "reader01": { "secretKey": "the secret of reader01", "status": "enabled" },
                "retired1": { "secretKey": "the secret of retired1", "status": "disabled" },
            }),
        ),
        (
            "groups.json",
            json!({ "readers": { "version": 1, "status": "enabled", "members": ["reader01", "retired1"] } }),
        ),
        (
            "svcaccts.json",
            json!({
                "uploader": { "parent": "camera01", "accessKey": "uploader", "secretKey": "the secret of uploader",
                    "groups": null, "claims": null, "sessionPolicy": null, "status": "on", "name": "", "description": "",
                    "expiration": "1970-01-01T00:00:00Z" },
                "once0001": { "parent": "camera01", "accessKey": "once0001", "secretKey": "the secret of once0001",
                    "sessionPolicy": { "Version": "2012-10-17", "Statement": [
                        { "Effect": "Allow", "Action": ["s3:PutObject"], "Resource": ["arn:aws:s3:::photos/in/camera01/once"] } ] },
                    "status": "on", "expiration": "2100-01-01T00:00:00Z" },
            }),
        ),
        (
            "user_mappings.json",
            json!({ "camera01": { "version": 1, "policy": "uploads", "updatedAt": "" },
            "retired1": { "version": 1, "policy": "readwrite" } }),
        ),
        ("group_mappings.json", json!({ "readers": { "version": 1, "policy": "readonly" } })),
        (
            "stsuser_mappings.json",
            json!({ "cn=someone,dc=example": { "version": 1, "policy": "readwrite" } }),
        ),
    ];
    for (name, content) in files {
        fs::write(assets.join(name), content.to_string()).unwrap();
    }
}

/// Who may do what with its old keys, as a server with the written file sees it.
#[test]
fn the_users_of_an_export_go_on_with_their_keys_and_policies() {
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    export(from.path());
    let source = start(from.path());
    let mut old = Client::new(&source, "photos");
    old.ask("PUT", "public", &[], "", b"x");
    let from_url = old.url.clone();
    let users = to.path().join("written.toml").to_str().unwrap().to_owned();
    let unpacked = from.path().to_str().unwrap();
    let data = to.path().join("data").to_str().unwrap().to_owned();
    let offline = ["s3://photos", "photos", "--endpoint", &from_url, "--offline"];
    let with_users = ["--minio-iam", unpacked, "--users-out", &users];
    let run = || {
        let mut command = command_of("import", &[&offline[..], &with_users].concat());
        command.env("SILTSTONE_DATA_DIR", &data).output().unwrap()
    };
    let output = run();
    let told = report(&output);
    assert_eq!((status(&output), counts(&told)), (1, [1, 0, 0, 0]), "{told}");
    let losses = told["users"].to_string();
    assert!(losses.contains("1 people of LDAP"), "{losses}");
    let again = run();
    assert!(status(&again) == 2 && stderr(&again).contains("written.toml"), "{}", stderr(&again));

    let mut command = on_a_free_port(&to.path().join("data"));
    command.args(["--data-dir", &data, "--users", &users]);
    let server = Running::start(command);
    let client = |name: &str| Client::of_bucket(&server, "photos").by(name, &format!("the secret of {name}"));
    for (name, method, key, expected) in [
        ("camera01", "PUT", "in/camera01/a", 200),
        ("camera01", "PUT", "in/camera01/shut/a", 403),
        ("camera01", "PUT", "in/reader01/a", 403),
        ("camera01", "GET", "public", 403),
        ("uploader", "PUT", "in/camera01/b", 200),
        ("uploader", "PUT", "in/camera01/shut/b", 403),
        ("once0001", "PUT", "in/camera01/once", 200),
        ("once0001", "PUT", "in/camera01/twice", 403),
        ("reader01", "GET", "public", 200),
        ("reader01", "PUT", "in/reader01/a", 403),
        ("retired1", "GET", "public", 403),
    ] {
        assert_eq!(client(name).status(method, key, b"x"), expected, "{name} {method} {key}");
    }
}
