//! IAM's calls, at a running server: who may send them, and what they never do.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use siltstone::base::{Clock as _, SystemClock};
use tempfile::TempDir;

use crate::support::process::{Running, on_a_free_port};
use crate::support::signer::{HeaderLines, Signer};
use crate::support::users::{access_key, secret_key, user, write_users};

const NAMESPACE: &str = "https://iam.amazonaws.com/doc/2010-05-08/";

fn start(dir: &Path) -> Running {
    let mut command = on_a_free_port(dir);
    command.args(["--users", "users.toml", "--audit-log", "audit.log", "--region", "eu"]);
    Running::start(command)
}

/// A user of the file, as programs sign for it.
struct Caller<'s> {
    server: &'s Running,
    signer: Signer,
}

fn caller<'s>(server: &'s Running, name: &str) -> Caller<'s> {
    with_keys(server, &access_key(name), &secret_key(name))
}

fn with_keys<'s>(server: &'s Running, access_key: &str, secret_key: &str) -> Caller<'s> {
    let signer = Signer {
        access_key: access_key.to_owned(),
        secret_key: secret_key.to_owned(),
        region: "us-east-1",
        service: "iam",
        moment: SystemClock.now().to_iso_basic(),
    };
    Caller { server, signer }
}

fn form(action: &str, params: &[(&str, &str)]) -> String {
    let mut form = format!("Action={action}&Version=2010-05-08");
    for (name, value) in params {
        let value: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
        form += &format!("&{name}={value}");
    }
    form
}

/// Sends a request; the status and the document of the answer.
fn exchange(server: &Running, method: &str, target: &str, lines: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let host = server.address();
    let length = body.len();
    write!(
        stream,
        "{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nConnection: close\r\n{lines}\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer[9..12].parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

impl Caller<'_> {
    fn lines(&self, method: &str, query: &str, body: &str) -> String {
        let host = self.server.address().as_bytes();
        let date = self.signer.moment.as_bytes();
        let pairs = [("host".to_owned(), host), ("x-amz-date".to_owned(), date)];
        let signed = HeaderLines::of(pairs.into_iter());
        let digest: String = Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
        let authorization = self.signer.authorization(method, "/", query, &signed, digest.as_bytes());
        format!("x-amz-date: {}\r\nAuthorization: {authorization}\r\n", self.signer.moment)
    }

    fn send(&self, action: &str, params: &[(&str, &str)]) -> (u16, String) {
        let body = form(action, params);
        exchange(self.server, "POST", "/", &self.lines("POST", "", &body), &body)
    }

    fn succeeds(&self, action: &str, params: &[(&str, &str)]) -> String {
        let (status, answer) = self.send(action, params);
        assert_eq!(status, 200, "{answer}");
        assert!(answer.contains(&format!("<{action}Response xmlns=\"{NAMESPACE}\">")), "{answer}");
        answer
    }

    fn refusal(&self, action: &str, params: &[(&str, &str)]) -> (u16, String) {
        refusal(self.send(action, params))
    }
}

/// The status and the code of a refusal.
fn refusal((status, answer): (u16, String)) -> (u16, String) {
    assert!(answer.contains(&format!("<ErrorResponse xmlns=\"{NAMESPACE}\">")), "{answer}");
    assert!(answer.contains("<RequestId>"), "{answer}");
    (status, leaf(&answer, "Code"))
}

/// The text of the first element of a name.
fn leaf(answer: &str, name: &str) -> String {
    let text = answer.split_once(&format!("<{name}>")).unwrap_or_else(|| panic!("{name} in {answer}")).1;
    text.split('<').next().unwrap().to_owned()
}

fn audited(dir: &Path) -> Vec<(String, Option<String>, Option<String>)> {
    let log = fs::read_to_string(dir.join("audit.log")).unwrap_or_default();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let part = |line: &Value, name: &str| line[name].as_str().map(str::to_owned);
    lines.map(|line| (part(&line, "action").unwrap(), part(&line, "user"), part(&line, "error"))).collect()
}

#[test]
fn calls_are_signed_for_iam_in_their_headers_and_as_a_whole() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write_users(dir, &user("admin", &["*"], &["*"]));
    let before = fs::read_to_string(dir.join("users.toml")).unwrap();
    let server = start(dir);
    let admin = caller(&server, "admin");
    let body = form("CreateUser", &[("UserName", "eve")]);
    let missing = (403, "MissingAuthenticationToken".to_owned());
    assert_eq!(refusal(exchange(&server, "POST", "/", "", &body)), missing);
    assert_eq!(refusal(exchange(&server, "GET", &format!("/?{body}"), "", "")), missing);
    // A link that somebody was made to follow.
    let host = [("host".to_owned(), server.address().as_bytes())];
    let lines = HeaderLines::of(host.into_iter());
    let query = admin.signer.presigned_query("GET", "/", &body, "X-Amz-", &[], &lines);
    let (status, answer) = exchange(&server, "GET", &format!("/?{query}"), "", "");
    assert_eq!(status, 403, "{answer}");
    // Signed for something else, or for another body.
    for service in ["s3", "sts"] {
        let mut other = caller(&server, "admin");
        other.signer.service = service;
        assert_eq!(
            other.refusal("CreateUser", &[("UserName", "eve")]),
            (400, "IncompleteSignature".to_owned())
        );
    }
    let lines = admin.lines("POST", "", &form("ListUsers", &[]));
    let changed = refusal(exchange(&server, "POST", "/", &lines, &body));
    assert_eq!(changed, (403, "SignatureDoesNotMatch".to_owned()));
    let (status, _) = exchange(&server, "POST", "/", "", &format!("{body}&x={}", "y".repeat(65 << 10)));
    assert_eq!(status, 413);
    let twice = format!("{body}&UserName=ann");
    assert_eq!(exchange(&server, "POST", "/", &admin.lines("POST", "", &twice), &twice).0, 400);
    assert_eq!(fs::read_to_string(dir.join("users.toml")).unwrap(), before);
    assert_eq!(audited(dir), []);
    let query = form("ListUsers", &[]);
    let (status, listed) =
        exchange(&server, "GET", &format!("/?{query}"), &admin.lines("GET", &query, ""), "");
    assert_eq!((status, leaf(&listed, "UserName")), (200, "admin".to_owned()));
}

#[test]
fn the_last_administrator_stays() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write_users(dir, &user("admin", &["*"], &["*"]));
    let server = start(dir);
    let admin = caller(&server, "admin");
    let key = access_key("admin");
    let own = [("AccessKeyId", &*key), ("Status", "Inactive")];
    let before = fs::read_to_string(dir.join("users.toml")).unwrap();
    assert_eq!(admin.refusal("UpdateAccessKey", &own), (400, "ValidationError".to_owned()));
    assert_eq!(admin.refusal("DeleteAccessKey", &own[..1]), (400, "ValidationError".to_owned()));
    let denial = "{\"Statement\": {\"Effect\": \"Deny\", \"Action\": \"s3:*\", \"Resource\": \"*\"}}";
    let policy = [("UserName", "admin"), ("PolicyName", "none"), ("PolicyDocument", denial)];
    assert_eq!(admin.refusal("PutUserPolicy", &policy), (400, "ValidationError".to_owned()));
    assert_eq!(fs::read_to_string(dir.join("users.toml")).unwrap(), before);
    // A second one, by a policy, is one as well.
    admin.succeeds("CreateUser", &[("UserName", "deputy")]);
    let made = admin.succeeds("CreateAccessKey", &[("UserName", "deputy")]);
    let arn = "arn:aws:iam::aws:policy/consoleAdmin";
    admin.succeeds("AttachUserPolicy", &[("UserName", "deputy"), ("PolicyArn", arn)]);
    admin.succeeds("UpdateAccessKey", &own);
    assert_eq!(admin.refusal("ListUsers", &[]), (403, "InvalidClientTokenId".to_owned()));
    let deputy = with_keys(&server, &leaf(&made, "AccessKeyId"), &leaf(&made, "SecretAccessKey"));
    let detach = [("UserName", "deputy"), ("PolicyArn", arn)];
    assert_eq!(deputy.refusal("DetachUserPolicy", &detach), (400, "ValidationError".to_owned()));
    assert!(
        deputy.succeeds("ListAccessKeys", &[("UserName", "admin")]).contains("<Status>Inactive</Status>")
    );
    deputy.succeeds("UpdateAccessKey", &[("UserName", "admin"), ("AccessKeyId", &key), ("Status", "Active")]);
    admin.succeeds("ListUsers", &[]);
}

#[test]
fn others_than_administrators_change_and_learn_nothing() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    let of_address = |address: &str| {
        format!(
            "policy = '{{\"Statement\": {{\"Effect\": \"Allow\", \"Action\": \"siltstone:AdminListUsers\", \"Resource\": \"*\", \
             \"Condition\": {{\"IpAddress\": {{\"aws:SourceIp\": \"{address}\"}}}}}}}}'\n"
        )
    };
    let named = |name: &str| {
        format!(
            "[[user]]\nname = {name:?}\naccess_key = {:?}\nsecret_key = {:?}\n",
            access_key(name),
            secret_key(name)
        )
    };
    let text = user("admin", &["*"], &["*"])
        + &user("ann", &["*"], &["@owned", "@owned/*"])
        + &user("maker", &["AdminCreateUser"], &["*"])
        + &named("near")
        + &of_address("127.0.0.1")
        + &named("far")
        + &of_address("192.0.2.1");
    write_users(dir, &text);
    let server = start(dir);
    let ann = caller(&server, "ann");
    let denied = (403, "AccessDenied".to_owned());
    for subject in ["admin", "nobody"] {
        let name = [("UserName", subject)];
        for action in
            ["CreateUser", "GetUser", "DeleteUser", "CreateAccessKey", "ListAccessKeys", "ListUserPolicies"]
        {
            let (status, answer) = ann.send(action, &name);
            assert_eq!(refusal((status, answer.clone())), denied, "{action}");
            assert!(!answer.contains(subject), "{answer}");
        }
    }
    assert!(ann.succeeds("GetUser", &[]).contains("user/ann</Arn>"));
    let refused = audited(dir);
    assert_eq!(refused.len(), 6, "CreateUser, DeleteUser and CreateAccessKey, twice: {refused:?}");
    assert!(refused.iter().all(|(_, user, error)| user.as_deref() == Some("ann") && error.is_some()));
    let maker = caller(&server, "maker");
    let made = maker.succeeds("CreateUser", &[("UserName", "new")]);
    assert!(leaf(&made, "UserId").starts_with("AIDA"), "{made}");
    for (action, params) in [
        ("ListUsers", &[][..]),
        ("CreateAccessKey", &[("UserName", "admin")]),
        ("DeleteUser", &[("UserName", "new")]),
        ("AttachUserPolicy", &[("UserName", "maker"), ("PolicyArn", "arn:aws:iam::aws:policy/consoleAdmin")]),
        ("CreateGroup", &[("GroupName", "g")]),
    ] {
        assert_eq!(maker.refusal(action, params), denied, "{action}");
    }
    assert!(caller(&server, "near").succeeds("ListUsers", &[]).contains("<UserName>maker</UserName>"));
    assert_eq!(caller(&server, "far").refusal("ListUsers", &[]), denied);
}

#[test]
fn users_without_keys_and_with_resting_ones_are_read_again() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write_users(dir, &user("admin", &["*"], &["*"]));
    let made = {
        let server = start(dir);
        let admin = caller(&server, "admin");
        admin.succeeds("CreateUser", &[("UserName", "bare")]);
        admin.succeeds("CreateUser", &[("UserName", "deploy")]);
        let made = admin.succeeds("CreateAccessKey", &[("UserName", "deploy")]);
        let key = leaf(&made, "AccessKeyId");
        admin.succeeds(
            "UpdateAccessKey",
            &[("UserName", "deploy"), ("AccessKeyId", &key), ("Status", "Inactive")],
        );
        made
    };
    let server = start(dir);
    let admin = caller(&server, "admin");
    assert!(!admin.succeeds("ListAccessKeys", &[("UserName", "bare")]).contains("AccessKeyId"));
    let deploy = with_keys(&server, &leaf(&made, "AccessKeyId"), &leaf(&made, "SecretAccessKey"));
    assert_eq!(deploy.refusal("GetUser", &[]), (403, "InvalidClientTokenId".to_owned()));
    // A key that rests is nobody else's.
    let text = fs::read_to_string(dir.join("users.toml")).unwrap();
    let clash = format!(
        "{text}\n{}",
        user("other", &["*"], &["b"]).replace(&access_key("other"), &leaf(&made, "AccessKeyId"))
    );
    fs::write(dir.join("users.toml"), clash).unwrap();
    assert_eq!(admin.refusal("CreateGroup", &[("GroupName", "g")]), (500, "ServiceFailure".to_owned()));
}
