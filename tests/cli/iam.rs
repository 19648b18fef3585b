//! IAM's calls, at a running server: who may send them, and what they never do.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use siltstone::base::limits::QUERY_BODY_MAX_BYTES;
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
    /// The token, where the keys are those of a session.
    token: Option<String>,
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
    Caller { server, signer, token: None }
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
        let mut pairs = vec![("host".to_owned(), host), ("x-amz-date".to_owned(), date)];
        let mut of_token = String::new();
        if let Some(token) = &self.token {
            pairs.push(("x-amz-security-token".to_owned(), token.as_bytes()));
            of_token = format!("x-amz-security-token: {token}\r\n");
        }
        let signed = HeaderLines::of(pairs.into_iter());
        let digest: String = Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
        let authorization = self.signer.authorization(method, "/", query, &signed, digest.as_bytes());
        format!("x-amz-date: {}\r\n{of_token}Authorization: {authorization}\r\n", self.signer.moment)
    }

    fn send(&self, action: &str, params: &[(&str, &str)]) -> (u16, String) {
        let body = form(action, params);
        exchange(self.server, "POST", "/", &self.lines("POST", "", &body), &body)
    }

    /// Sends a call of STS, and returns who has the keys of its answer.
    fn session(&self, action: &str, params: &[(&str, &str)]) -> Self {
        let mut signer = self.signer.clone();
        signer.service = "sts";
        let (status, answer) = Caller { signer, token: self.token.clone(), ..*self }.send(action, params);
        assert_eq!(status, 200, "{answer}");
        let made = with_keys(self.server, &leaf(&answer, "AccessKeyId"), &leaf(&answer, "SecretAccessKey"));
        Caller { token: Some(leaf(&answer, "SessionToken")), ..made }
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
    let (status, _) =
        exchange(&server, "POST", "/", "", &format!("{body}&x={}", "y".repeat(QUERY_BODY_MAX_BYTES)));
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

const EVERYTHING: &str =
    r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}"#;
const TRUST: &str = r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::000000000000:user/ann"},"Action":"sts:AssumeRole"}}"#;
const ADMINISTRATOR: &str = "arn:aws:iam::aws:policy/consoleAdmin";

/// Each call that changes something, with parameters by which `ann` would rise, or lock out `admin`.
fn calls_that_change() -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
    let admin_key = ("AccessKeyId", "AK-admin");
    let arn = ("PolicyArn", "arn:aws:iam::000000000000:policy/shared");
    vec![
        ("CreateUser", vec![("UserName", "eve")]),
        ("UpdateUser", vec![("UserName", "ann"), ("NewUserName", "admin")]),
        ("DeleteUser", vec![("UserName", "admin")]),
        ("CreateAccessKey", vec![("UserName", "admin")]),
        ("CreateAccessKey", vec![]),
        ("UpdateAccessKey", vec![("UserName", "admin"), admin_key, ("Status", "Inactive")]),
        ("UpdateAccessKey", vec![("AccessKeyId", "AK-ann"), ("Status", "Inactive")]),
        ("DeleteAccessKey", vec![("UserName", "admin"), admin_key]),
        ("DeleteAccessKey", vec![admin_key]),
        ("CreateGroup", vec![("GroupName", "admins")]),
        ("UpdateGroup", vec![("GroupName", "staff"), ("NewGroupName", "admins")]),
        ("DeleteGroup", vec![("GroupName", "staff")]),
        ("AddUserToGroup", vec![("GroupName", "staff"), ("UserName", "ann")]),
        ("RemoveUserFromGroup", vec![("GroupName", "staff"), ("UserName", "admin")]),
        ("CreatePolicy", vec![("PolicyName", "mine"), ("PolicyDocument", EVERYTHING)]),
        ("CreatePolicyVersion", vec![arn, ("PolicyDocument", EVERYTHING), ("SetAsDefault", "true")]),
        ("SetDefaultPolicyVersion", vec![arn, ("VersionId", "v1")]),
        ("DeletePolicyVersion", vec![arn, ("VersionId", "v2")]),
        ("DeletePolicy", vec![arn]),
        ("AttachUserPolicy", vec![("UserName", "ann"), ("PolicyArn", ADMINISTRATOR)]),
        ("AttachGroupPolicy", vec![("GroupName", "staff"), ("PolicyArn", ADMINISTRATOR)]),
        ("AttachRolePolicy", vec![("RoleName", "reader"), ("PolicyArn", ADMINISTRATOR)]),
        ("DetachUserPolicy", vec![("UserName", "ann"), arn]),
        ("DetachGroupPolicy", vec![("GroupName", "staff"), arn]),
        ("DetachRolePolicy", vec![("RoleName", "reader"), arn]),
        ("PutUserPolicy", vec![("UserName", "ann"), ("PolicyName", "p"), ("PolicyDocument", EVERYTHING)]),
        ("PutGroupPolicy", vec![("GroupName", "staff"), ("PolicyName", "p"), ("PolicyDocument", EVERYTHING)]),
        ("PutRolePolicy", vec![("RoleName", "reader"), ("PolicyName", "p"), ("PolicyDocument", EVERYTHING)]),
        ("DeleteUserPolicy", vec![("UserName", "ann"), ("PolicyName", "p")]),
        ("DeleteGroupPolicy", vec![("GroupName", "staff"), ("PolicyName", "p")]),
        ("DeleteRolePolicy", vec![("RoleName", "reader"), ("PolicyName", "p")]),
        ("CreateRole", vec![("RoleName", "mine"), ("AssumeRolePolicyDocument", TRUST)]),
        ("UpdateRole", vec![("RoleName", "reader"), ("MaxSessionDuration", "43200")]),
        ("UpdateAssumeRolePolicy", vec![("RoleName", "boss"), ("PolicyDocument", TRUST)]),
        ("DeleteRole", vec![("RoleName", "reader")]),
    ]
}

#[test]
fn no_call_lets_those_rise_who_may_not_give_rights() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    let text = format!("[[policy]]\nname = \"shared\"\ndocument = '{EVERYTHING}'\n\n")
        + &user("admin", &["*"], &["*"])
        + &user("ann", &["*"], &["b", "b/*", "@owned", "@owned/*"])
        + &user("lister", &["AdminListUsers"], &["*"])
        + "[[group]]\nname = \"staff\"\nmembers = [\"lister\"]\npolicy = [\"readonly\"]\n\n\
           [[role]]\nname = \"reader\"\nassumed_by = [\"ann\", \"admin\"]\npolicy = [\"readonly\"]\n\n\
           [[role]]\nname = \"boss\"\nassumed_by = [\"admin\"]\npolicy = [\"consoleAdmin\"]\n\n\
           [[service_account]]\nname = \"wide\"\nuser = \"ann\"\naccess_key = \"SA-wide\"\n\
           secret_key = \"secret of wide\"\npolicy = [\"consoleAdmin\"]\n\n\
           [[service_account]]\nname = \"narrow\"\nuser = \"admin\"\naccess_key = \"SA-narrow\"\n\
           secret_key = \"secret of narrow\"\npolicy = [\"readwrite\"]\n";
    write_users(dir, &text);
    let server = start(dir);
    let admin = caller(&server, "admin");
    let ann = caller(&server, "ann");
    let reader = [("RoleArn", "arn:aws:iam:::role/reader"), ("RoleSessionName", "me")];
    let wide_reader = [&reader[..], &[("Policy", EVERYTHING)]].concat();
    let boss = [("RoleArn", "arn:aws:iam:::role/boss"), ("RoleSessionName", "me"), ("Policy", READS)];
    let callers = [
        ("a user", ann.session("GetSessionToken", &[])),
        ("a lister", caller(&server, "lister")),
        ("an account with a wide policy", with_keys(&server, "SA-wide", "secret of wide")),
        ("an account of an administrator, cut", with_keys(&server, "SA-narrow", "secret of narrow")),
        ("a role", ann.session("AssumeRole", &reader)),
        ("a role with a wide session policy", ann.session("AssumeRole", &wide_reader)),
        ("a session of an administrator", admin.session("GetSessionToken", &[])),
        (
            "a guest of an administrator",
            admin.session("GetFederationToken", &[("Name", "guest"), ("Policy", EVERYTHING)]),
        ),
        ("a role of administrators, cut", admin.session("AssumeRole", &boss)),
        ("a user with keys", ann),
    ];
    let before = fs::read_to_string(dir.join("users.toml")).unwrap();
    for (who, caller) in &callers {
        for (action, params) in calls_that_change() {
            // It says what is there already, to those who may read it.
            if *who == "a lister" && action == "SetDefaultPolicyVersion" {
                continue;
            }
            let (status, code) = caller.refusal(action, &params);
            // A call that would neglect a parameter says so first, and one without a user that there
            // is none: both before anything is looked up.
            let expected = matches!((status, &*code), (403, "AccessDenied") | (400, "ValidationError"));
            // Whom the list is for learns that nothing changes by these.
            let is_known = *who == "a lister" && matches!(status, 400 | 404 | 409);
            assert!(expected || is_known, "{who}: {action} {params:?}: {status} {code}");
        }
        assert_eq!(fs::read_to_string(dir.join("users.toml")).unwrap(), before, "{who}");
    }
    // The same calls are good for who may give rights: nothing else refused them.
    admin.succeeds("CreateUser", &[("UserName", "eve")]);
    admin.succeeds("AttachUserPolicy", &[("UserName", "eve"), ("PolicyArn", ADMINISTRATOR)]);
}

const READS: &str = r#"{"Statement":{"Effect":"Allow","Action":"s3:Get*","Resource":"*"}}"#;

#[test]
fn a_name_made_anew_has_nothing_of_who_had_it_before() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write_users(dir, &user("admin", &["*"], &["*"]));
    let server = start(dir);
    let admin = caller(&server, "admin");
    let who = |caller: &Caller<'_>| {
        let mut signer = caller.signer.clone();
        signer.service = "sts";
        let caller = Caller { server: &server, signer, token: caller.token.clone() };
        caller.send("GetCallerIdentity", &[])
    };
    let make_ann = || {
        admin.succeeds("CreateUser", &[("UserName", "ann")]);
        let keys = admin.succeeds("CreateAccessKey", &[("UserName", "ann")]);
        with_keys(&server, &leaf(&keys, "AccessKeyId"), &leaf(&keys, "SecretAccessKey"))
    };
    let trust = TRUST.replace("user/ann", "user/admin");
    let make_role = || {
        admin.succeeds("CreateRole", &[("RoleName", "lake"), ("AssumeRolePolicyDocument", &*trust)]);
    };
    let ann = make_ann();
    let of_ann = ann.session("GetSessionToken", &[]);
    make_role();
    let of_role =
        admin.session("AssumeRole", &[("RoleArn", "arn:aws:iam:::role/lake"), ("RoleSessionName", "me")]);
    let (_, old) = who(&of_ann);
    assert_eq!((who(&of_ann).0, who(&of_role).0, who(&ann).0), (200, 200, 200));
    let key = ann.signer.access_key.clone();
    admin.succeeds("DeleteAccessKey", &[("UserName", "ann"), ("AccessKeyId", &*key)]);
    admin.succeeds("DeleteUser", &[("UserName", "ann")]);
    admin.succeeds("DeleteRole", &[("RoleName", "lake")]);
    let invalid = (403, "InvalidClientTokenId".to_owned());
    let refused = |caller: &Caller<'_>| {
        let (status, answer) = who(caller);
        (status, leaf(&answer, "Code"))
    };
    let gone = [&ann, &of_ann, &of_role];
    assert_eq!(gone.map(refused), [invalid.clone(), invalid.clone(), invalid.clone()]);
    // In the same second, perhaps: no time has to pass for it.
    let new = make_ann();
    make_role();
    assert_eq!(gone.map(refused), [invalid.clone(), invalid.clone(), invalid]);
    let (status, identity) = who(&new);
    assert_eq!(status, 200);
    assert_ne!(leaf(&identity, "UserId"), leaf(&old, "UserId"), "the id is of the creation");
}

#[test]
fn names_that_are_none_and_odd_forms_change_nothing() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write_users(dir, &user("admin", &["*"], &["*"]));
    let server = start(dir);
    let admin = caller(&server, "admin");
    admin.succeeds("CreateUser", &[("UserName", "ann")]);
    let before = fs::read_to_string(dir.join("users.toml")).unwrap();
    let long = "x".repeat(129);
    let names = [
        "../admin",
        "a/b",
        "/",
        "a\\b",
        "*",
        "?",
        "a b",
        " ann",
        "ann ",
        "a\n[[user]]",
        "a\"b",
        "a'b",
        "a#b",
        "${aws:username}",
        "é",
        "a\u{0}b",
        "a%2Fb",
        "<x>",
        "&amp;",
        "user:root",
        "arn:aws:iam::1:user/x",
        "a\u{202e}b",
        &long,
    ];
    for name in names {
        for (action, param, more) in [
            ("CreateUser", "UserName", &[][..]),
            ("CreateGroup", "GroupName", &[]),
            ("CreateRole", "RoleName", &[("AssumeRolePolicyDocument", TRUST)]),
            ("CreatePolicy", "PolicyName", &[("PolicyDocument", EVERYTHING)]),
            ("PutUserPolicy", "PolicyName", &[("UserName", "ann"), ("PolicyDocument", EVERYTHING)]),
        ] {
            let params = [&[(param, name)], more].concat();
            let (status, answer) = admin.send(action, &params);
            assert_eq!(status, 400, "{action} {name:?}: {answer}");
        }
    }
    for (action, param, more) in [
        ("CreateUser", "UserName", &[][..]),
        ("CreateGroup", "GroupName", &[]),
        ("CreateRole", "RoleName", &[("AssumeRolePolicyDocument", TRUST)]),
    ] {
        for name in ["admin", "Admin", "ANN"] {
            let params = [&[(param, name)], more].concat();
            let taken = (409, "EntityAlreadyExists".to_owned());
            assert_eq!(admin.refusal(action, &params), taken, "{action} {name}");
        }
        for path in ["/../", "//", "/admin/", "admin", "/\u{0}"] {
            let params = [&[(param, "new"), ("Path", path)], more].concat();
            let refused = (400, "ValidationError".to_owned());
            assert_eq!(admin.refusal(action, &params), refused, "{action} {path:?}");
        }
    }
    let utf_16: String = "Action=CreateUser&UserName=eve".chars().flat_map(|c| [c, '\0']).collect();
    for body in [
        "Action=CreateUser&UserName=%zz",
        "Action=CreateUser&UserName=%",
        "Action=CreateUser&UserName=%ff%fe",
        "Action=CreateUser&UserName=%C0%AF",
        "Action=CreateUser&UserName=%00",
        "Action=CreateUser&UserName=",
        "Action=CreateUser&UserName",
        "Action=CreateUser",
        "Action=CreateUser&username=eve",
        "Action=CreateUser&UserName[]=eve",
        "Action=CreateUser&UserName.member.1=eve",
        "Action=CreateUser&UserName%20=eve",
        "Action=CreateUser&UserName=eve&UserName=ann",
        "Action=CreateUser&UserName=eve&User%4eame=ann",
        "Action=CreateUser&UserName=eve&Action=DeleteUser",
        "Action=CreateUser&UserName=eve&PermissionsBoundary=arn",
        "Action=CreateUser;UserName=eve",
        "Action=createuser&UserName=eve",
        "Action=CreateUser%20&UserName=eve",
        "Action=CreateUser%00&UserName=eve",
        "action=CreateUser&UserName=eve",
        "{\"Action\": \"CreateUser\", \"UserName\": \"eve\"}",
        "<CreateUser><UserName>eve</UserName></CreateUser>",
        &format!("Action=CreateUser&UserName=eve{}", "&a=1".repeat(10_000)),
        &utf_16,
        "",
    ] {
        let (status, answer) = exchange(&server, "POST", "/", &admin.lines("POST", "", body), body);
        let shown: String = body.chars().take(80).collect();
        assert!(matches!(status, 400 | 403), "{shown}: {status} {answer}");
        assert!(answer.contains("<ErrorResponse"), "{shown}: {answer}");
    }
    // The call in the query of a form is none, and is signed with the rest.
    let body = form("ListUsers", &[]);
    let query = form("DeleteUser", &[("UserName", "ann")]);
    let (_, answer) =
        exchange(&server, "POST", &format!("/?{query}"), &admin.lines("POST", &query, &body), &body);
    assert!(!answer.contains("<DeleteUserResponse"), "{answer}");
    assert_eq!(fs::read_to_string(dir.join("users.toml")).unwrap(), before);
}
