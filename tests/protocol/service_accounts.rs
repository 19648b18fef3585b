//! Service accounts: keys that belong to a user, and never may more than he may at that moment.

use siltstone::auth::Users;
use siltstone::base::Timestamp;

use super::*;
use crate::support::users::user;

const SEALING_KEY: &str = "[[sealing_key]]\nkey = \"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"\n";
/// The prefix `ci/` of the bucket `b`, and everything in the bucket of `ann`.
const NARROW: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "s3:*", "Resource": ["arn:aws:s3:::b/ci/*", "arn:aws:s3:::anns/ci/*"]},
    {"Effect": "Deny", "Action": "s3:DeleteObject", "Resource": "*"}]}"#;

fn account(name: &str, of: &str, more: &str) -> String {
    format!(
        "[[service_account]]\nname = \"{name}\"\nuser = \"{of}\"\naccess_key = \"SA-{name}\"\n\
         secret_key = \"secret of {name}\"\n{more}\n"
    )
}

fn users() -> String {
    user("owner", &["*"], &["*"])
        + &user("ann", &["GetObject", "PutObject", "DeleteObject"], &["b/*"])
        + "[[user.allow]]\nactions = [\"*\"]\nresources = [\"@owned\", \"@owned/*\"]\n\n"
        + &account("whole", "ann", "")
        + &account("ci", "ann", &format!("policy = '''{NARROW}'''"))
        + &account("reader", "ann", "policy = [\"readonly\"]")
        + &account("none", "ann", "policy = []")
        + &account("short", "ann", "expires = 2026-01-31T12:10:00Z")
        + &account("deputy", "owner", "")
        + &account("of-s3", "owner", "policy = [\"readwrite\"]")
        + "[[role]]\nname = \"boss\"\nassumed_by = [\"ann\"]\n\
           [[role.allow]]\nactions = [\"GetObject\"]\nresources = [\"b/*\"]\n\n"
        + SEALING_KEY
}

fn keys(name: &str) -> SessionKeys {
    SessionKeys { access_key: format!("SA-{name}"), secret_key: format!("secret of {name}"), token: None }
}

fn server() -> Server {
    let server = Server::with_users(&users(), None);
    server.store.create_bucket("anns", "ann").unwrap();
    server
}

fn status(server: &Server, by: &str, method: &str, target: &str) -> u16 {
    server.request(method, target).in_session(&keys(by)).body(b"").send().status
}

#[test]
fn an_account_may_what_its_user_and_its_policy_allow() {
    let server = server();
    for (by, method, target, expected) in [
        ("whole", "PUT", "/b/x", 200),
        ("whole", "PUT", "/anns/x", 200),
        ("ci", "PUT", "/b/ci/x", 200),
        ("ci", "GET", "/b/ci/x", 200),
        ("ci", "DELETE", "/b/ci/x", 403),
        ("ci", "PUT", "/b/x", 403),
        // The owner of a bucket may everything there, and his account does not.
        ("ci", "PUT", "/anns/ci/x", 200),
        ("ci", "PUT", "/anns/x", 403),
        ("ci", "GET", "/anns?policy", 403),
        ("reader", "GET", "/b/ci/x", 200),
        ("reader", "PUT", "/b/ci/x", 403),
        ("none", "GET", "/b/ci/x", 403),
        ("deputy", "PUT", "/new-bucket", 200),
        ("of-s3", "PUT", "/other-bucket", 200),
    ] {
        assert_eq!(status(&server, by, method, target), expected, "{by} {method} {target}");
    }
    // A policy of a bucket gives the account no more than its own policy has.
    let public = br#"{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}}"#;
    assert_eq!(server.request("PUT", "/b?policy").body(public).send().status, 204);
    assert_eq!((status(&server, "none", "GET", "/b/ci/x"), status(&server, "ci", "GET", "/b/x")), (403, 403));
    // What the account makes belongs to the user.
    assert_eq!(server.store.bucket("new-bucket").unwrap().owner, "owner");
}

#[test]
fn an_account_ends_with_its_time_its_user_and_his_rights() {
    let server = server();
    server.put("/b/ci/x", b"x");
    assert_eq!(status(&server, "short", "GET", "/b/ci/x"), 200);
    let url = || server.request("GET", "/b/ci/x").in_session(&keys("ci")).presigned(&[]).send().status;
    assert_eq!(url(), 200);
    server.clock.set(Timestamp::parse_iso8601("2026-01-31T12:10:00Z").unwrap());
    let over = server.request("GET", "/b/ci/x").in_session(&keys("short")).send();
    over.is_error(403, "InvalidAccessKeyId");
    let file = |text: &str| server.authenticator.replace(Users::parse(text).unwrap());
    file(&users().replace("\"GetObject\", \"PutObject\"", "\"PutObject\""));
    for by in ["whole", "ci", "reader"] {
        assert_eq!(status(&server, by, "GET", "/b/ci/x"), 403, "{by}");
    }
    file(&users().replace("SA-ci", "SA-ci-2"));
    server.request("GET", "/b/ci/x").in_session(&keys("ci")).send().is_error(403, "InvalidAccessKeyId");
}

#[test]
fn an_account_of_a_user_who_is_locked_out_signs_nothing() {
    let server = server();
    server.put("/b/x", b"x");
    let assume = "Action=AssumeRole&RoleArn=arn:aws:iam:::role/boss&RoleSessionName=me";
    let digest = siltstone::base::digest::Sha256::of(assume.as_bytes());
    let asked = server.request("POST", "/").aws().in_session(&keys("whole"));
    let asked = asked.header("Content-Type", "application/x-www-form-urlencoded");
    let asked = asked.header("p-content-sha256", siltstone::base::digest::to_hex(&digest));
    let answer = asked.body(assume.as_bytes()).send();
    let session = SessionKeys {
        access_key: answer.one("AccessKeyId").unwrap(),
        secret_key: answer.one("SecretAccessKey").unwrap(),
        token: answer.one("SessionToken"),
    };
    let get = |keys: &SessionKeys| server.request("GET", "/b/x").in_session(keys).send();
    let file = |text: &str| server.authenticator.replace(Users::parse(text).unwrap());
    let first = "access_key = \"AK-ann\"\n";
    let second = "previous = { access_key = \"AK-ann-2\", secret_key = \"another of ann\" }\n";
    let resting = |keys: &str| users().replace(first, &format!("{first}{second}inactive = [{keys}]\n"));
    file(&resting("\"AK-ann\""));
    assert_eq!((get(&keys("whole")).status, get(&session).status), (200, 200), "she has another key");
    file(&resting("\"AK-ann\", \"AK-ann-2\""));
    for name in ["whole", "ci", "reader", "none", "short"] {
        get(&keys(name)).is_error(403, "InvalidAccessKeyId");
        let url = server.request("GET", "/b/x").in_session(&keys(name)).presigned(&[]).send();
        url.is_error(403, "InvalidAccessKeyId");
    }
    get(&session).is_error(400, "InvalidToken");
    assert_eq!(get(&keys("deputy")).status, 200, "those of others go on");
    file(&users());
    assert_eq!((get(&keys("whole")).status, get(&session).status), (200, 200));
}

#[test]
fn an_account_is_no_way_to_other_keys() {
    let server = server();
    let call = |by: &str, form: &str| {
        let digest = siltstone::base::digest::Sha256::of(form.as_bytes());
        let asked = server.request("POST", "/").aws().in_session(&keys(by));
        let asked = asked.header("Content-Type", "application/x-www-form-urlencoded");
        let asked = asked.header("p-content-sha256", siltstone::base::digest::to_hex(&digest));
        asked.body(form.as_bytes()).send()
    };
    for by in ["whole", "ci"] {
        assert_eq!(call(by, "Action=GetSessionToken").code(), "AccessDenied", "{by}");
        assert_eq!(call(by, "Action=GetFederationToken&Name=guest").code(), "AccessDenied", "{by}");
    }
    let assume = "Action=AssumeRole&RoleArn=arn:aws:iam:::role/boss&RoleSessionName=me";
    assert_eq!(call("ci", assume).code(), "AccessDenied", "its rights are cut");
    let answer = call("whole", assume);
    let session = SessionKeys {
        access_key: answer.one("AccessKeyId").unwrap(),
        secret_key: answer.one("SecretAccessKey").unwrap(),
        token: answer.one("SessionToken"),
    };
    server.put("/b/x", b"x");
    let get = || server.request("GET", "/b/x").in_session(&session).send();
    assert_eq!(get().status, 200);
    server.authenticator.replace(Users::parse(&users().replace("SA-whole", "SA-other")).unwrap());
    get().is_error(400, "InvalidToken");
    server.authenticator.replace(Users::parse(&users()).unwrap());
    let identity = call("ci", "Action=GetCallerIdentity");
    assert_eq!(identity.one("Arn").as_deref(), Some("arn:aws:iam::000000000000:service-account/ann/ci"));
    // The administration is for accounts of administrators, as far as their policy has it.
    let admin = |by: &str| {
        let users = server.request("GET", "/-/api/1/users").aws().in_session(&keys(by)).send();
        let users: serde_json::Value = serde_json::from_slice(&users.body).unwrap();
        users["code"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(
        (&*admin("of-s3"), &*admin("ci"), &*admin("whole")),
        ("AccessDenied", "AccessDenied", "AccessDenied")
    );
    assert_ne!(admin("deputy"), "AccessDenied", "it may, and there is no directory here");
    // Neither is it a key to the console, which knows users alone.
    for name in ["whole", "ci", "deputy"] {
        assert!(server.authenticator.enter(&format!("SA-{name}"), &format!("secret of {name}")).is_none());
        assert!(server.authenticator.admit(&format!("SA-{name}")).is_none());
    }
}

#[test]
fn a_file_with_an_account_that_is_not_sound_is_refused() {
    let problem = |text: &str| Users::parse(text).unwrap_err().problem;
    let ann = user("ann", &["GetObject"], &["b/*"]);
    let with = |text: String| problem(&(ann.clone() + &text));
    assert!(with(account("a", "bob", "")).contains("no user `bob`"));
    assert!(with(account("a", "anonymous", "")).contains("no user `anonymous`"));
    assert!(with(account("a b", "ann", "")).contains("`name` may not hold ' '"));
    assert!(with(account("a", "ann", "") + &account("a", "ann", "")).contains("there twice"));
    let same = account("a", "ann", "") + &account("b", "ann", "").replace("SA-b", "AK-ann");
    assert!(with(same).contains("access key"));
    assert!(with(account("a", "ann", "policy = \"{}\"")).contains("the policy"));
    assert!(with(account("a", "ann", "policy = [\"unknown\"]")).contains("no policy `unknown`"));
    assert!(with(account("a", "ann", "allow = []")).contains("unknown field"));
    let admins = Users::parse(&(user("boss", &["*"], &["*"]) + &account("a", "boss", ""))).unwrap();
    assert_eq!(admins.administrators().count(), 1, "keys that end are no administrator's");
    assert_eq!(admins.administrator_keys().unwrap().access_key, "AK-boss");
}
