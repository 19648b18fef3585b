//! The API for programs, at a running server.

use std::borrow::Cow;
use std::path::Path;

use serde_json::{Value, json};
use siltstone::client::{Endpoint, HttpConnection, RequestSigner, SignedRequest};
use tempfile::TempDir;

use crate::support::process::{Running, on_a_free_port};
use crate::support::users::write_users;

const ADMIN: &str = "# The boss.\n[[user]]\nname = \"admin\"\naccess_key = \"AK1\"\nsecret_key = \"0123456789abcdef\"\n\n[[user.allow]]\n\
    actions = [\"*\"]\nresources = [\"*\"]\n";
const ANN: &str = "\n[[user]]\nname = \"ann\"\naccess_key = \"AK2\"\nsecret_key = \"fedcba9876543210\"\n\
    allow = [{ actions = [\"*\"], resources = [\"b\", \"b/*\", \"@owned\"] }]\n";

struct Client {
    endpoint: Endpoint,
    signer: RequestSigner,
}

impl Client {
    fn new(server: &Running, access_key: &str, secret_key: &str) -> Self {
        let endpoint = Endpoint::resolve(&format!("http://{}", server.address()), None).unwrap();
        Self { endpoint, signer: RequestSigner::new(access_key, secret_key, "eu").signing_bodies(None) }
    }

    fn unsigned_bodies(server: &Running, access_key: &str, secret_key: &str) -> Self {
        let signer = RequestSigner::new(access_key, secret_key, "eu");
        Self { signer, ..Self::new(server, access_key, secret_key) }
    }

    fn send(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let signature = self.signer.lines(method, path, "", &self.endpoint.host, body.as_bytes());
        self.send_with(method, path, &signature, body)
    }

    fn send_with(&self, method: &str, path: &str, lines: &str, body: &str) -> (u16, Value) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n{lines}\r\n",
            self.endpoint.host,
            body.len()
        );
        let request = SignedRequest { head, body: Cow::Borrowed(body.as_bytes()), head_only: false };
        let answer = HttpConnection::open(&self.endpoint).unwrap().exchange(&request).unwrap();
        let status = answer.status;
        let body = answer.into_body();
        // Operations of S3 answer in XML, or with nothing.
        let is_document = body.first().is_some_and(|first| *first != b'<');
        (status, if is_document { serde_json::from_slice(&body).unwrap() } else { Value::Null })
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.send(method, &format!("/-/api/1/{path}"), &body.to_string())
    }

    fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", &format!("/-/api/1/{path}"), "")
    }

    fn may_sign(&self) -> bool {
        let (status, answer) = self.get("state");
        assert_eq!(status, 403, "{answer}");
        answer["code"] == "AccessDenied"
    }
}

fn start(dir: &Path) -> Running {
    let mut command = on_a_free_port(dir);
    command.args(["--users", "users.toml", "--audit-log", "audit.log"]);
    Running::start(command)
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap()
}

#[test]
fn users_come_change_and_go_without_a_signal() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write_users(dir, ADMIN);
    let server = start(dir);
    let admin = Client::new(&server, "AK1", "0123456789abcdef");
    let grants = json!([{"actions": ["GetObject"], "resources": ["b/*"]}]);
    let (status, keys) = admin.ask("POST", "users", &json!({"name": "cam & co", "allow": grants}));
    assert_eq!((status, text(&keys, "name")), (201, "cam & co"));
    let first = Client::new(&server, text(&keys, "access_key"), text(&keys, "secret_key"));
    assert!(first.may_sign(), "the user is in effect");
    let file = std::fs::read_to_string(dir.join("users.toml")).unwrap();
    assert!(file.starts_with("# The boss.") && file.contains(text(&keys, "secret_key")), "{file}");
    let (status, mut user) = admin.get("users/cam%20%26%20co");
    let created = user.as_object_mut().and_then(|user| user.remove("created")).unwrap();
    assert!(created.as_str().is_some_and(|time| time.ends_with('Z')), "{created}");
    let expected = json!({"name": "cam & co", "access_keys": [keys["access_key"]],
                          "keys_created": {text(&keys, "access_key"): created}, "allow": grants,
                          "policies": [], "groups": [], "administrator": false, "from_environment": false});
    assert_eq!((status, user), (200, expected));
    let (status, rotated) = admin.ask("POST", "users/cam%20%26%20co/keys", &Value::Null);
    assert_eq!(status, 201);
    let second = Client::new(&server, text(&rotated, "access_key"), text(&rotated, "secret_key"));
    assert!(first.may_sign() && second.may_sign());
    assert_eq!(admin.send("DELETE", "/-/api/1/users/cam%20%26%20co/keys/previous", "").0, 204);
    assert!(!first.may_sign() && second.may_sign());
    let everything = json!({"allow": [{"actions": ["*"], "resources": ["*"]}]});
    assert_eq!(admin.ask("PUT", "users/cam%20%26%20co/grants", &everything).0, 204);
    let (status, state) = second.get("state");
    assert_eq!((status, &state["writable"], &state["buckets"]), (200, &json!(true), &json!(0)));
    assert_eq!(state["remote_probe"], Value::Null, "there is no remote");
    assert_eq!(second.send("DELETE", "/-/api/1/users/admin", "").0, 204, "another administrator is left");
    assert_eq!(admin.get("users").1["code"], "InvalidAccessKeyId");
    let (status, refusal) = second.send("DELETE", "/-/api/1/users/cam%20%26%20co", "");
    assert_eq!((status, text(&refusal, "message")), (400, "no administrator would be left"));
    let log = std::fs::read_to_string(dir.join("audit.log")).unwrap();
    let told: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = told
        .iter()
        .map(|line| (text(line, "action"), line["user"].as_str(), line["error"].as_str()))
        .collect();
    let admin = Some("admin");
    let cam = Some("cam & co");
    assert_eq!(
        told,
        [
            ("CreateUser", admin, None),
            ("RotateKeys", admin, None),
            ("RotateKeys", admin, None),
            ("ChangeUser", admin, None),
            ("DeleteUser", cam, None),
            ("DeleteUser", cam, Some("Refused")),
        ]
    );
    for secret in [text(&keys, "secret_key"), text(&rotated, "secret_key"), "0123456789abcdef"] {
        assert!(!log.contains(secret) && !server.said().contains(secret));
    }
}

#[test]
fn others_than_administrators_change_and_see_nothing() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write_users(dir, &format!("{ADMIN}{ANN}"));
    let server = start(dir);
    let before = std::fs::read_to_string(dir.join("users.toml")).unwrap();
    let ann = Client::new(&server, "AK2", "fedcba9876543210");
    let everything = json!([{"actions": ["*"], "resources": ["*"]}]);
    for (method, path, body) in [
        ("GET", "users", Value::Null),
        ("GET", "users/ann", Value::Null),
        ("GET", "state", Value::Null),
        ("POST", "users", json!({"name": "eve", "allow": everything})),
        ("PUT", "users/ann/grants", json!({"allow": everything})),
        ("POST", "users/admin/keys", Value::Null),
        ("DELETE", "users/admin/keys/previous", Value::Null),
        ("DELETE", "users/admin", Value::Null),
    ] {
        let (status, answer) = ann.ask(method, path, &body);
        assert_eq!((status, &answer["code"]), (403, &json!("AccessDenied")), "{method} {path}");
        let (status, answer) = ann.send_with(method, &format!("/-/api/1/{path}"), "", &body.to_string());
        assert_eq!(
            (status, &answer["code"]),
            (403, &json!("AccessDenied")),
            "{method} {path} without a signature"
        );
    }
    assert_eq!(std::fs::read_to_string(dir.join("users.toml")).unwrap(), before);
    let log = std::fs::read_to_string(dir.join("audit.log")).unwrap();
    assert_eq!(
        log.lines().filter(|line| line.contains("\"Refused\"") && line.contains("\"ann\"")).count(),
        5,
        "{log}"
    );
}

#[test]
fn who_may_only_create_users_creates_none_with_rights() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    let maker = "\n[[user]]\nname = \"maker\"\naccess_key = \"AK3\"\nsecret_key = \"0011223344556677\"\n\
        allow = [{ actions = [\"AdminCreateUser\"], resources = [\"*\"] }]\n";
    write_users(dir, &format!("{ADMIN}{maker}"));
    let server = start(dir);
    let maker = Client::new(&server, "AK3", "0011223344556677");
    let before = std::fs::read_to_string(dir.join("users.toml")).unwrap();
    for (name, actions) in [
        ("eve", json!(["*"])),
        ("eve", json!(["AdminSetGrants"])),
        ("eve", json!(["GetObject"])),
        ("anonymous", json!(["GetObject"])),
    ] {
        let allow = json!([{"actions": actions, "resources": ["*"]}]);
        let (status, answer) = maker.ask("POST", "users", &json!({"name": name, "allow": allow}));
        assert_eq!((status, &answer["code"]), (403, &json!("AccessDenied")), "{name} {actions}: {answer}");
        assert!(answer["message"].as_str().unwrap().contains("AdminSetGrants"), "{answer}");
    }
    assert_eq!(std::fs::read_to_string(dir.join("users.toml")).unwrap(), before);
    let log = std::fs::read_to_string(dir.join("audit.log")).unwrap();
    assert_eq!(log.lines().filter(|line| line.contains("\"Refused\"")).count(), 4, "{log}");
    let (status, made) = maker.ask("POST", "users", &json!({"name": "new"}));
    assert_eq!(status, 201, "{made}");
    let new = Client::new(&server, text(&made, "access_key"), text(&made, "secret_key"));
    assert_eq!(
        (new.send("GET", "/", "").0, new.send("PUT", "/b", "").0, new.get("users").0),
        (403, 403, 403)
    );
}

#[test]
fn requests_that_are_not_sound_change_nothing() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write_users(dir, &format!("{ADMIN}{ANN}"));
    let server = start(dir);
    let before = std::fs::read_to_string(dir.join("users.toml")).unwrap();
    let admin = Client::new(&server, "AK1", "0123456789abcdef");
    let allow =
        |actions: &str, resources: &str| json!({"allow": [{"actions": [actions], "resources": [resources]}]});
    for (method, path, body, status, code) in [
        ("POST", "users", json!({"name": "ann"}), 400, "InvalidRequest"),
        ("POST", "users", json!({"name": ""}), 400, "InvalidRequest"),
        ("POST", "users", json!({"name": "a\u{1}"}), 400, "InvalidRequest"),
        ("POST", "users", json!({"name": "eve", "allows": []}), 400, "MalformedJSON"),
        ("POST", "users", json!([]), 400, "MalformedJSON"),
        ("PUT", "users/ann/grants", allow("FlyObject", "b/*"), 400, "InvalidRequest"),
        ("PUT", "users/ann/grants", allow("GetObject", "b"), 400, "InvalidRequest"),
        ("PUT", "users/ann/grants", allow("AdminSetGrants", "b/*"), 400, "InvalidRequest"),
        ("PUT", "users/eve/grants", allow("GetObject", "b/*"), 404, "NoSuchUser"),
        ("PUT", "users/admin/grants", json!({"allow": []}), 400, "InvalidRequest"),
        ("DELETE", "users/ann/keys/previous", Value::Null, 400, "InvalidRequest"),
        ("DELETE", "users/eve", Value::Null, 404, "NoSuchUser"),
        ("DELETE", "users/admin", Value::Null, 400, "InvalidRequest"),
        ("PUT", "users", Value::Null, 405, "MethodNotAllowed"),
        ("GET", "users/ann/keys", Value::Null, 405, "MethodNotAllowed"),
        ("GET", "nothing", Value::Null, 404, "NotFound"),
        ("POST", "users", json!({"name": "x".repeat(70_000)}), 413, "MaxMessageLengthExceeded"),
    ] {
        let (told, answer) = admin.ask(method, path, &body);
        assert_eq!((told, &answer["code"]), (status, &json!(code)), "{method} {path} {answer}");
    }
    let unsigned = Client::unsigned_bodies(&server, "AK1", "0123456789abcdef");
    assert_eq!(unsigned.ask("POST", "users", &json!({"name": "eve"})).0, 400);
    let path = "/-/api/1/users";
    let signature = admin.signer.lines("POST", path, "", &admin.endpoint.host, b"{\"name\": \"eve\"}");
    let (status, answer) = admin.send_with("POST", path, &signature, "{\"name\": \"ev3\"}");
    assert_eq!((status, &answer["code"]), (400, &json!("XAmzContentSHA256Mismatch")));
    assert_eq!(std::fs::read_to_string(dir.join("users.toml")).unwrap(), before);
    let (status, description) = admin.send_with("GET", "/-/api/1/openapi.json", "", "");
    assert_eq!((status, &description["openapi"]), (200, &json!("3.1.0")));
}

#[test]
fn quotas_of_buckets_and_users_are_set_shown_and_removed() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    let keeper = "\n[[user]]\nname = \"keeper\"\naccess_key = \"AK3\"\nsecret_key = \"0011223344556677\"\n\
        allow = [{ actions = [\"AdminGetQuota\"], resources = [\"*\"] }]\n";
    write_users(dir, &format!("{ADMIN}{ANN}{keeper}\n[user.quota]\nuploads = 2\n"));
    let mut command = on_a_free_port(dir);
    command.args(["--users", "users.toml", "--audit-log", "audit.log", "--bucket", "photos"]);
    command.args(["--index-max", "64MiB"]);
    let server = Running::start(command);
    let admin = Client::new(&server, "AK1", "0123456789abcdef");
    assert_eq!(
        admin.ask("PUT", "buckets/photos/quota", &json!({"objects": 1, "bytes": 5})),
        (204, Value::Null)
    );
    assert_eq!(admin.ask("PUT", "users/ann%20%26%20bob/quota", &json!({"buckets": 3})), (204, Value::Null));
    assert_eq!(admin.send("PUT", "/photos/k", "12345").0, 200);
    let (status, mut shown) = admin.get("buckets/photos/quota");
    let quota = json!({"objects": 1, "bytes": 5});
    let in_force = json!({"objects": 1, "bytes": 5, "index_bytes": 16 << 20});
    assert!(shown["used"]["index_bytes"].take().as_u64().is_some_and(|used| used > 800));
    let used = json!({"bytes": 5, "objects": 1, "uploads": 0, "index_bytes": null});
    assert_eq!((status, shown), (200, json!({"quota": quota, "in_force": in_force, "used": used})));
    let reader = Client::new(&server, "AK3", "0011223344556677");
    let (status, all) = reader.get("quotas");
    assert_eq!(
        (status, &all["buckets"][0]["bucket"], &all["buckets"][1]),
        (200, &json!("photos"), &Value::Null)
    );
    assert_eq!(all["owners"][0]["quota"], json!({"buckets": 3}));
    assert_eq!(reader.get("users/keeper/quota").1["users_file"], json!({"uploads": 2}));
    for (client, method, path) in [
        (&reader, "PUT", "buckets/photos/quota"),
        (&reader, "DELETE", "users/ann%20%26%20bob/quota"),
        (&Client::new(&server, "AK2", "fedcba9876543210"), "GET", "buckets/photos/quota"),
    ] {
        let (status, answer) = client.ask(method, path, &json!({}));
        assert_eq!((status, &answer["code"]), (403, &json!("AccessDenied")), "{method} {path}");
    }
    for (method, path, body, status, code) in [
        ("PUT", "buckets/photos/quota", json!({"keys": 1}), 400, "InvalidArgument"),
        ("PUT", "buckets/photos/quota", json!({"buckets": 1}), 400, "InvalidArgument"),
        ("PUT", "buckets/absent/quota", json!({"bytes": 1}), 404, "NoSuchBucket"),
        ("GET", "buckets/photos%2Fk/quota", Value::Null, 404, "NoSuchBucket"),
        ("PUT", "users/a%01/quota", json!({"bytes": 1}), 400, "InvalidArgument"),
        ("POST", "buckets/photos/quota", json!({}), 405, "MethodNotAllowed"),
        ("DELETE", "quotas", json!({}), 405, "MethodNotAllowed"),
    ] {
        let (told, answer) = admin.ask(method, path, &body);
        assert_eq!((told, &answer["code"]), (status, &json!(code)), "{method} {path} {answer}");
    }
    assert_eq!(admin.get("buckets/photos/quota").1["quota"], json!({"objects": 1, "bytes": 5}));
    for path in ["buckets/photos/quota", "users/ann%20%26%20bob/quota"] {
        assert_eq!(admin.ask("DELETE", path, &Value::Null), (204, Value::Null));
    }
    assert_eq!(admin.get("buckets/photos/quota").1["quota"], json!({}));
    let log = std::fs::read_to_string(dir.join("audit.log")).unwrap();
    let of = |action: &str| {
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["action"] == action).map(|line| line["error"].clone()).collect::<Vec<_>>()
    };
    let denied = json!("AccessDenied");
    assert_eq!(of("PutBucketQuota")[..2], [Value::Null, denied.clone()], "{log}");
    assert_eq!(of("DeleteOwnerQuota"), [denied, Value::Null], "{log}");
}

#[test]
fn an_administrator_of_the_environment_is_changed_there() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    let mut command = on_a_free_port(dir);
    command.env("SILTSTONE_ACCESS_KEY", "AKENV").env("SILTSTONE_SECRET_KEY", "0123456789abcdef");
    let server = Running::start(command);
    let admin = Client::new(&server, "AKENV", "0123456789abcdef");
    let (status, users) = admin.get("users");
    assert_eq!(
        (status, &users["users"][0]["from_environment"], &users["users"][1]),
        (200, &json!(true), &Value::Null)
    );
    for (method, path) in [("POST", "users/admin/keys"), ("DELETE", "users/admin")] {
        let (status, answer) = admin.ask(method, path, &Value::Null);
        assert!(status == 400 && text(&answer, "message").contains("environment"), "{answer}");
    }
    let (status, keys) = admin.ask("POST", "users", &json!({"name": "ann"}));
    assert_eq!(status, 201, "the users file is made");
    assert!(Client::new(&server, text(&keys, "access_key"), text(&keys, "secret_key")).may_sign());
    assert_eq!(admin.send("DELETE", "/-/api/1/users/ann", "").0, 204);
}

#[test]
fn policies_and_groups_are_put_attached_and_removed() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write_users(dir, &(ADMIN.to_owned() + ANN));
    let server = start(dir);
    let admin = Client::new(&server, "AK1", "0123456789abcdef");
    let ann = Client::new(&server, "AK2", "fedcba9876543210");
    let put = |path: &str, body: &str| admin.send("PUT", &format!("/-/api/1/{path}"), body);
    let delete = |path: &str| admin.send("DELETE", &format!("/-/api/1/{path}"), "").0;
    assert_eq!(admin.send("PUT", "/site", "").0, 200);
    let may_put = || ann.send("PUT", "/site/x", "").0 == 200;
    assert!(!may_put());
    let document =
        r#"{"Statement": {"Effect": "Allow", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::site/*"}}"#;
    assert_eq!(put("policies/site-writers", document).0, 204);
    assert_eq!(put("groups/writers", "").0, 204);
    assert_eq!(put("groups/writers/policies/site-writers", "").0, 204);
    assert!(!may_put());
    assert_eq!(put("groups/writers/members/ann", "").0, 204);
    assert!(may_put(), "it is in effect at once");
    let (status, policy) = admin.get("policies/site-writers");
    assert_eq!((status, text(&policy, "document"), &policy["ready_made"]), (200, document, &json!(false)));
    assert_eq!(admin.get("policies").1["policies"].as_array().unwrap().len(), 6);
    let group = json!({"name": "writers", "members": ["ann"], "policies": ["site-writers"]});
    assert_eq!(admin.get("groups").1, json!({ "groups": [group] }));
    assert_eq!(admin.get("users/ann").1["groups"], json!(["writers"]));
    assert_eq!(delete("policies/site-writers"), 400, "the group has it");
    assert_eq!(delete("groups/writers/members/ann"), 204);
    assert!(!may_put());
    assert_eq!(put("users/ann/policies/readwrite", "").0, 204);
    assert!(may_put());
    assert_eq!(ann.get("users").1["code"], "AccessDenied", "no name of S3 is the administration");
    for (path, body, status, code) in [
        ("policies/site-writers", "{}", 400, "InvalidRequest"),
        ("policies/readonly", document, 400, "InvalidRequest"),
        ("policies/a%2Fb", document, 400, "InvalidRequest"),
        ("users/ann/policies/unknown", "", 400, "InvalidRequest"),
        ("users/eve/policies/readonly", "", 404, "NoSuchUser"),
        ("groups/eve/policies/readonly", "", 404, "NoSuchEntity"),
        ("groups/writers/members/eve", "", 400, "InvalidRequest"),
        ("groups/ann", "", 400, "InvalidRequest"),
    ] {
        let (told, answer) = put(path, body);
        assert_eq!((told, text(&answer, "code")), (status, code), "{path}: {answer}");
    }
    assert_eq!(admin.get("policies/unknown").0, 404);
    for path in
        ["policies/site-writers", "groups/g", "groups/writers/members/ann", "users/ann/policies/consoleAdmin"]
    {
        let (status, answer) = ann.send("PUT", &format!("/-/api/1/{path}"), document);
        assert_eq!((status, text(&answer, "code")), (403, "AccessDenied"), "{path}");
    }
    assert_eq!(put("users/ann/policies/consoleAdmin", "").0, 204);
    assert_eq!(ann.get("users").0, 200);
    assert_eq!(delete("users/ann/policies/consoleAdmin"), 204);
    assert_eq!(delete("users/ann/policies/readwrite"), 204);
    assert!(!may_put());
    assert_eq!(put("groups/writers/members/ann", "").0, 204);
    assert_eq!(delete("users/ann"), 204, "its membership goes with it");
    assert_eq!(admin.get("groups/writers").1["members"], json!([]));
    assert_eq!(delete("groups/writers"), 204);
    assert_eq!(delete("policies/site-writers"), 204);
    let log = std::fs::read_to_string(dir.join("audit.log")).unwrap();
    let told: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let made = |line: &&Value| line["error"].is_null() && text(line, "action") != "CreateBucket";
    let told: Vec<_> =
        told.iter().filter(made).map(|line| (text(line, "action"), text(line, "subject"))).collect();
    let expected = [
        ("PutPolicy", "site-writers"),
        ("CreateGroup", "writers"),
        ("ChangeGroup", "writers"),
        ("ChangeGroup", "writers"),
        ("ChangeGroup", "writers"),
        ("ChangeUser", "ann"),
        ("ChangeUser", "ann"),
        ("ChangeUser", "ann"),
        ("ChangeUser", "ann"),
        ("ChangeGroup", "writers"),
        ("DeleteUser", "ann"),
        ("ChangeGroup", "writers"),
        ("DeleteGroup", "writers"),
        ("DeletePolicy", "site-writers"),
    ];
    assert_eq!(told, expected);
}

#[test]
fn the_sessions_of_an_administrator_of_the_environment_are_ended_in_the_file() {
    let dir = TempDir::new().unwrap();
    let mut command = on_a_free_port(dir.path());
    command.args(["--users", "users.toml"]);
    command.env("SILTSTONE_ACCESS_KEY", "AKENV").env("SILTSTONE_SECRET_KEY", "0123456789abcdef");
    let server = Running::start(command);
    let admin = Client::new(&server, "AKENV", "0123456789abcdef");
    assert_eq!(admin.send("DELETE", "/-/api/1/users/admin/sessions", "").0, 204);
    let file = std::fs::read_to_string(dir.path().join("users.toml")).unwrap();
    assert!(file.contains("sessions_after = "), "{file}");
    assert_eq!(admin.send("DELETE", "/-/api/1/users/admin/sessions", "").0, 204, "a second time");
    assert_eq!(admin.get("users").0, 200);
    let (status, refusal) = admin.send("DELETE", "/-/api/1/users/admin", "");
    assert!(status == 400 && text(&refusal, "message").contains("environment"), "{refusal}");
}

#[test]
fn users_make_service_accounts_of_their_own_and_administrators_those_of_others() {
    let dir = TempDir::new().unwrap();
    let ann = ANN.replace("\"b\", \"b/*\"", "\"team\", \"team/*\"");
    write_users(dir.path(), &format!("{ADMIN}{ann}"));
    let server = start(dir.path());
    let admin = Client::new(&server, "AK1", "0123456789abcdef");
    let ann = Client::new(&server, "AK2", "fedcba9876543210");
    let narrow =
        r#"{"Statement": {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::team/*"}}"#;
    let new = json!({ "name": "ann-ci", "policy": narrow, "expires": "2999-12-31T00:00:00Z" });
    let (status, made) = ann.ask("POST", "users/ann/service-accounts", &new);
    assert_eq!(status, 201, "{made}");
    let account = Client::new(&server, text(&made, "access_key"), text(&made, "secret_key"));
    // Neither does an account make others, nor does a user those of another.
    for (client, user) in [(&account, "ann"), (&ann, "admin"), (&account, "admin")] {
        let path = format!("users/{user}/service-accounts");
        for (method, path) in
            [("POST", path.clone()), ("GET", path.clone()), ("DELETE", format!("{path}/ann-ci"))]
        {
            let answer = match method {
                "GET" => client.get(&path),
                _ => client.ask(method, &path, &json!({ "name": "more" })),
            };
            assert_eq!((answer.0, &answer.1["code"]), (403, &json!("AccessDenied")), "{method} {path}");
        }
    }
    let (status, _) =
        admin.ask("POST", "users/ann/service-accounts", &json!({ "name": "ann-2", "policy": "readonly" }));
    assert_eq!(status, 201);
    for (body, code) in [
        (json!({ "name": "ann-2" }), "InvalidRequest"),
        (json!({ "name": "a b" }), "InvalidRequest"),
        (json!({ "name": "x", "policy": "{}" }), "InvalidRequest"),
        (json!({ "name": "x", "policy": "unknown" }), "InvalidRequest"),
        (json!({ "name": "x", "expires": "2020-01-01T00:00:00Z" }), "InvalidRequest"),
        (json!({ "name": "x", "expires": "soon" }), "InvalidRequest"),
        (json!({ "name": "x", "allow": [] }), "MalformedJSON"),
    ] {
        let (status, answer) = ann.ask("POST", "users/ann/service-accounts", &body);
        assert_eq!((status, &answer["code"]), (400, &json!(code)), "{body}: {answer}");
    }
    let (_, listed) = ann.get("users/ann/service-accounts");
    let listed = listed["service_accounts"].as_array().unwrap().clone();
    let names: Vec<_> = listed.iter().map(|account| text(account, "name")).collect();
    assert_eq!(names, ["ann-ci", "ann-2"]);
    assert_eq!((&listed[0]["policies"], &listed[1]["policies"]), (&json!([narrow]), &json!(["readonly"])));
    assert_eq!(admin.get("users/ann").1["service_accounts"], json!(listed));
    assert_eq!(admin.ask("POST", "users/nobody/service-accounts", &json!({ "name": "x" })).0, 404);
    // It may read what its policy has, until it ends.
    assert_eq!(admin.send("PUT", "/team", "").0, 200);
    assert_eq!(admin.send("PUT", "/team/k", "1").0, 200);
    assert_eq!((account.send("GET", "/team/k", "").0, account.send("PUT", "/team/k", "2").0), (200, 403));
    assert_eq!(ann.ask("DELETE", "users/ann/service-accounts/ann-ci", &json!({})).0, 204);
    assert_eq!(account.send("GET", "/team/k", "").0, 403);
    let file = std::fs::read_to_string(dir.path().join("users.toml")).unwrap();
    assert!(file.contains("name = \"ann-2\"") && !file.contains("ann-ci"), "{file}");
    // With the user go his accounts, and the file stays sound.
    assert_eq!(admin.ask("DELETE", "users/ann", &json!({})).0, 204);
    let file = std::fs::read_to_string(dir.path().join("users.toml")).unwrap();
    assert!(!file.contains("service_account"), "{file}");
    let log = std::fs::read_to_string(dir.path().join("audit.log")).unwrap();
    for action in ["CreateServiceAccount", "DeleteServiceAccount"] {
        assert!(log.contains(&format!("\"{action}\"")), "{action} is not in {log}");
    }
    assert!(!log.contains(text(&made, "secret_key")));
}
