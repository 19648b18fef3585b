//! Calls of STS, and what the keys of sessions are good for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use siltstone::auth::{KeyPair, Users};
use siltstone::service::{
    ChangeSender, GroupEntry, PolicyEntry, ProviderEntry, RoleEntry, UserChange, UserDirectory, UserEntry,
    UserError,
};

use super::audit::MemoryLog;
use super::*;
use crate::support::form::{Form, FormVersion};
use crate::support::users::user;

/// 32 bytes in base64.
const SEALING_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const ROLE: &str = "arn:aws:iam::123456789012:role/lake";
/// What catalogues send for one table.
const TABLE: &str = r#"{"Version":"2012-10-17","Statement":[
    {"Effect":"Allow","Action":["s3:GetObject","s3:PutObject","s3:DeleteObject"],"Resource":"arn:aws:s3:::b/lake/table/*"},
    {"Effect":"Allow","Action":"s3:ListBucket","Resource":"arn:aws:s3:::b","Condition":{"StringLike":{"s3:prefix":["lake/table/*"]}}},
    {"Effect":"Allow","Action":"kms:Decrypt","Resource":"*"},{"Effect":"Allow","Action":"s3:GetBucketLocation"}]}"#;

/// `owner` may do everything, `catalogue` nothing but assume the role `lake`.
pub(super) fn users() -> String {
    user("owner", &["*"], &["*"])
        + &user("catalogue", &["ListAllMyBuckets", "TagSession"], &["*"])
        + &user("writer", &["*"], &["b/*", "b"])
        + "[[role]]\nname = \"lake\"\nassumed_by = [\"catalogue\", \"owner\", \"lake\"]\nmax_duration = \"2h\"\n\
           [[role.allow]]\nactions = [\"GetObject\", \"PutObject\", \"DeleteObject\", \"AbortMultipartUpload\"]\n\
           resources = [\"b/lake/*\"]\n\
           [[role.allow]]\nactions = [\"ListBucket\"]\nresources = [\"b/lake/*\"]\n\n\
           [[role]]\nname = \"boss\"\nassumed_by = [\"*\"]\nexternal_id = \"tenant 7\"\n\
           policy = '{\"Statement\": {\"Effect\": \"Allow\", \"Action\": \"*\", \"Resource\": \"*\"}}'\n\n"
        + &format!("[[sealing_key]]\nkey = \"{SEALING_KEY}\"\n")
}

pub(super) fn server() -> Server {
    Server::with_users(&users(), None)
}

fn form(pairs: &[(&str, &str)]) -> String {
    pairs.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn asked<'s>(server: &'s Server, pairs: &[(&str, &str)]) -> Asked<'s> {
    let body = form(pairs);
    server
        .request("POST", "/")
        .aws()
        .header("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
        .header("p-content-sha256", hex(&Sha256::digest(&body)))
        .body(body.as_bytes())
}

pub(super) fn keys(answer: &Answer) -> SessionKeys {
    assert_eq!(answer.status, 200, "{answer:?}");
    SessionKeys {
        access_key: answer.one("AccessKeyId").unwrap(),
        secret_key: answer.one("SecretAccessKey").unwrap(),
        token: Some(answer.one("SessionToken").unwrap()),
    }
}

fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.one("Code").as_deref()), (status, Some(code)), "{answer:?}");
    assert!(answer.text().contains("<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"));
    assert_eq!(answer.one("RequestId").as_deref(), answer.header("x-request-id"));
}

const ASSUME: [(&str, &str); 4] =
    [("Action", "AssumeRole"), ("Version", "2011-06-15"), ("RoleArn", ROLE), ("RoleSessionName", "job-1")];

pub(super) fn assume<'s>(server: &'s Server, more: &[(&str, &str)]) -> Asked<'s> {
    asked(server, &[&ASSUME, more].concat()).by("catalogue")
}

pub(super) fn lake(server: &Server) -> SessionKeys {
    keys(&assume(server, &[]).send())
}

#[test]
fn a_catalogue_hands_out_keys_for_one_table() {
    let server = server();
    server.put("/b/lake/table/a", b"a");
    server.put("/b/lake/other/a", b"a");
    let answer = assume(&server, &[("Policy", TABLE), ("DurationSeconds", "900")]).send();
    let session = keys(&answer);
    assert_eq!(answer.one("Expiration").as_deref(), Some("2026-01-31T12:15:00.250Z"));
    let arn = "arn:aws:sts::000000000000:assumed-role/lake/job-1";
    assert_eq!(answer.one("Arn").as_deref(), Some(arn));
    assert!(answer.one("AssumedRoleId").unwrap().ends_with(":job-1"));
    assert!(session.access_key.starts_with("ASIA") && session.secret_key.len() == 40);
    for dialect in Dialect::ALL {
        let ask = |method: &str, target: &str| {
            server.request(method, target).dialect(dialect).in_session(&session).body(b"").send().status
        };
        assert_eq!(ask("GET", "/b/lake/table/a"), 200);
        assert_eq!(ask("PUT", "/b/lake/table/b"), 200);
        assert_eq!(ask("GET", "/b?prefix=lake%2Ftable%2F"), 200);
        for (method, target) in [
            ("GET", "/b/lake/other/a"),
            ("PUT", "/b/lake/other/b"),
            ("GET", "/b?prefix=lake%2Fother%2F"),
            ("GET", "/b"),
            ("GET", "/"),
            ("PUT", "/new-bucket"),
            ("GET", "/b?location"),
            ("PUT", "/b/lake/table/a?acl"),
            ("PUT", "/b?policy"),
        ] {
            assert_eq!(ask(method, target), 403, "{method} {target}");
        }
        let presigned = |target: &str| {
            server.request("GET", target).dialect(dialect).in_session(&session).presigned(&[]).send().status
        };
        assert_eq!((presigned("/b/lake/table/a"), presigned("/b/lake/other/a")), (200, 403));
        let prefix = dialect.header_prefix();
        let post = |key: &str| {
            let token = session.token.clone().unwrap();
            let form = Form::new(&[("key", key)], b"f").field(&format!("{prefix}security-token"), &token);
            let form = form.signed(&session.signer(), FormVersion::V4 { prefix });
            server.request("POST", "/b").dialect(dialect).form(&form).send().status
        };
        assert_eq!((post("lake/table/f"), post("lake/other/f")), (204, 403));
    }
}

#[test]
fn no_token_passes_that_is_not_the_one_of_the_keys() {
    let server = server();
    server.put("/b/lake/a", b"a");
    let session = lake(&server);
    let other = lake(&server);
    let token = session.token.clone().unwrap();
    let get = |keys: &SessionKeys| server.request("GET", "/b/lake/a").in_session(keys).send();
    assert_eq!(get(&session).status, 200);
    let with = |token: Option<String>| SessionKeys { token, ..session.clone() };
    get(&with(None)).is_error(403, "InvalidAccessKeyId");
    get(&with(other.token.clone())).is_error(400, "InvalidToken");
    get(&with(Some(token[1..].to_owned()))).is_error(400, "InvalidToken");
    get(&with(Some(String::new()))).is_error(400, "InvalidToken");
    for at in (0..token.len()).step_by(7) {
        let mut flipped = token.clone().into_bytes();
        flipped[at] = if flipped[at] == b'A' { b'B' } else { b'A' };
        get(&with(Some(String::from_utf8(flipped).unwrap()))).is_error(400, "InvalidToken");
        get(&with(Some(token[..at].to_owned()))).is_error(400, "InvalidToken");
    }
    let swapped = SessionKeys { secret_key: other.secret_key.clone(), ..session.clone() };
    get(&swapped).is_error(403, "SignatureDoesNotMatch");
    let foreign = Server::with_users(&users().replace("AAEC", "BAEC"), None);
    get(&lake(&foreign)).is_error(400, "InvalidToken");
    let permanent = SessionKeys {
        access_key: crate::support::users::access_key("owner"),
        secret_key: crate::support::users::secret_key("owner"),
        token: Some(token.clone()),
    };
    get(&permanent).is_error(400, "InvalidToken");
    let v2 = server.request("GET", "/b/lake/a").in_session(&session).presigned_v2(&[]).send();
    v2.is_error(403, "InvalidAccessKeyId");
    for name in ["x-amz-security-token", "X-Amz-Security-Token"] {
        let query = format!("/b/lake/a?{name}={token}");
        let v2 = server.request("GET", &query).in_session(&session).presigned_v2(&[]).send();
        v2.is_error(400, "InvalidRequest");
        assert!(v2.text().contains("signature version 4"), "{v2:?}");
    }
    // A token that is not signed was added on the way.
    let added = server.request("GET", "/b/lake/a").in_session(&with(None)).presigned(&[]);
    added.header("p-security-token", &token).send().is_error(403, "AccessDenied");
    assert_eq!(get(&session).status, 200);
}

#[test]
fn a_session_ends_when_it_is_said_to_also_within_an_upload() {
    let server = server();
    let session = keys(&assume(&server, &[("DurationSeconds", "900")]).send());
    let ask = |method: &str, target: &str, moment: &str| {
        server.request(method, target).in_session(&session).at(moment).body(b"part").send()
    };
    let begun = ask("POST", "/b/lake/big?uploads", "20260131T120000Z");
    let id = begun.one("UploadId").unwrap();
    let part = |number: u32, moment: &str| {
        ask("PUT", &format!("/b/lake/big?partNumber={number}&uploadId={id}"), moment)
    };
    server.clock.advance(Duration::from_secs(899));
    assert_eq!(part(1, "20260131T121459Z").status, 200);
    server.clock.advance(Duration::from_secs(1));
    part(2, "20260131T121500Z").is_error(400, "ExpiredToken");
    let presigned = server.request("GET", "/b/lake/a").in_session(&session).presigned(&[]).send();
    assert_eq!(presigned.code(), "AccessDenied", "the URL itself has expired");
}

#[test]
fn sessions_end_with_their_role_and_by_revocation() {
    let server = server();
    server.put("/b/lake/a", b"a");
    let session = lake(&server);
    let get = || server.request("GET", "/b/lake/a").in_session(&session).send();
    let file = |text: &str| server.authenticator.replace(Users::parse(text).unwrap());
    assert_eq!(get().status, 200);
    file(&users().replace("name = \"lake\"", "name = \"lake\"\nsessions_after = 2026-01-31T12:00:00.251Z"));
    get().is_error(400, "InvalidToken");
    file(&users().replace("name = \"lake\"", "name = \"lake\"\nsessions_after = 2026-01-31T12:00:00.249Z"));
    assert_eq!(get().status, 200);
    file(&users().replace("\"lake\"", "\"pond\""));
    get().is_error(400, "InvalidToken");
    // The keys of the file open in its order, and the rights of a role are those of the moment.
    let second = format!("[[sealing_key]]\nkey = \"{}\"\n", SEALING_KEY.replace("AAEC", "CAEC"));
    file(&(users() + &second));
    assert_eq!(get().status, 200);
    assert_eq!(server.request("GET", "/b/lake/a").in_session(&lake(&server)).send().status, 200);
    file(&users().replace("\"GetObject\"", "\"GetObjectAcl\""));
    get().is_error(403, "AccessDenied");
    file(&users().replace(SEALING_KEY, &SEALING_KEY.replace("AAEC", "CAEC")));
    get().is_error(400, "InvalidToken");
}

#[test]
fn a_chained_session_ends_with_everything_that_it_came_of() {
    let second = format!("[[sealing_key]]\nkey = \"{}\"\n", SEALING_KEY.replace("AAEC", "CAEC"));
    let server = server();
    server.put("/b/lake/a", b"a");
    let source = keys(&assume(&server, &[("DurationSeconds", "1800")]).send());
    let file = |text: &str| server.authenticator.replace(Users::parse(text).unwrap());
    file(&(users() + &second));
    let boss = [
        ("Action", "AssumeRole"),
        ("RoleArn", "arn:aws:iam:::role/boss"),
        ("RoleSessionName", "me"),
        ("ExternalId", "tenant 7"),
    ];
    let chained = |source: &SessionKeys| asked(&server, &boss).in_session(source).send();
    let first = chained(&source);
    assert_eq!(first.one("Expiration").as_deref(), Some("2026-01-31T12:30:00.250Z"), "with its source");
    let second_link = keys(&chained(&keys(&first)));
    let of_user = keys(&asked(&server, &[("Action", "GetSessionToken")]).by("catalogue").send());
    let get = |session: &SessionKeys| server.request("GET", "/b/lake/a").in_session(session).send();
    let whole = users() + &second;
    let later = "sessions_after = 2026-01-31T12:00:01Z";
    for (what, text) in [
        ("role", whole.replace("name = \"lake\"", "name = \"pond\"").replace(", \"lake\"]", "]")),
        ("role anew", whole.replace("name = \"lake\"", &format!("name = \"lake\"\n{later}"))),
        ("user anew", whole.replace("name = \"catalogue\"", &format!("name = \"catalogue\"\n{later}"))),
        ("key", whole.replace("AK-catalogue", "AK-other")),
        ("trust", whole.replace("[\"catalogue\", \"owner\", \"lake\"]", "[\"owner\"]")),
        ("sealing key", whole.replace(SEALING_KEY, &SEALING_KEY.replace("AAEC", "DAEC"))),
    ] {
        file(&whole);
        for session in [&source, &keys(&first), &second_link] {
            assert_eq!(get(session).status, 200, "{what}");
        }
        file(&text);
        for session in [&source, &keys(&first), &second_link] {
            get(session).is_error(400, "InvalidToken");
        }
    }
    // The key of another user is none of its own, whatever it is called.
    file(&whole);
    get(&of_user).is_error(403, "AccessDenied");
    file(&whole.replace("AK-catalogue", "AK-x").replace("AK-owner", "AK-catalogue"));
    get(&of_user).is_error(400, "InvalidToken");
}

#[test]
fn who_may_assume_a_role_is_said_by_the_role() {
    let server = server();
    let boss = "arn:aws:iam:::role/boss";
    let ask = |by: &str, pairs: &[(&str, &str)]| asked(&server, pairs).by(by).send();
    let assume = |by: &str, arn: &str, more: &[(&str, &str)]| {
        let named = [("Action", "AssumeRole"), ("RoleArn", arn), ("RoleSessionName", "me")];
        ask(by, &[&named, more].concat())
    };
    refused(&assume("writer", ROLE, &[]), 403, "AccessDenied");
    refused(&assume("owner", "arn:aws:iam::1:role/unknown", &[]), 403, "AccessDenied");
    refused(&assume("owner", "arn:aws:iam::1:user/owner", &[]), 400, "ValidationError");
    refused(&assume("writer", boss, &[]), 403, "AccessDenied");
    refused(&assume("writer", boss, &[("ExternalId", "tenant 8")]), 403, "AccessDenied");
    assert_eq!(assume("writer", boss, &[("ExternalId", "tenant 7")]).status, 200);
    for (name, value) in [
        ("DurationSeconds", "899"),
        ("DurationSeconds", "7201"),
        ("DurationSeconds", "1h"),
        ("Policy", ""),
        ("Policy", "{}"),
        ("Policy", "null"),
        ("Policy", r#"{"Version":"2012-10-17","Statement":[]}"#),
        ("PolicyArns.member.1.arn", "arn:aws:iam::aws:policy/ReadOnlyAccess"),
        ("Tags.member.1.Key", "a"),
    ] {
        let answer = assume("catalogue", ROLE, &[(name, value)]);
        assert_eq!(answer.status, 400, "{name}={value}: {answer:?}");
    }
    refused(&assume("catalogue", ROLE, &[("Policy", "{}")]), 400, "MalformedPolicyDocument");
    let long =
        format!(r#"{{"Statement":{{"Effect":"Allow","Action":"s3:*","Sid":"{}"}}}}"#, "x".repeat(2_048));
    refused(&assume("catalogue", ROLE, &[("Policy", &long)]), 400, "ValidationError");
    assert_eq!(assume("catalogue", ROLE, &[("DurationSeconds", "7200")]).status, 200);
    for name in ["x", "a b", "a/b", "a:b", "é", "${aws:username}", &"x".repeat(65)] {
        let named = [("Action", "AssumeRole"), ("RoleArn", ROLE), ("RoleSessionName", name)];
        refused(&ask("catalogue", &named), 400, "ValidationError");
    }
    refused(
        &ask("catalogue", &[("Action", "AssumeRole"), ("RoleSessionName", "me")]),
        400,
        "ValidationError",
    );
}

#[test]
fn names_and_tags_that_policies_may_allow_take_a_permission() {
    let server = server();
    let federation = [("Action", "GetFederationToken"), ("Name", "guest")];
    let tagged = [("Tags.member.1.Key", "team"), ("Tags.member.1.Value", "red")];
    for user in ["writer", "catalogue"] {
        refused(&asked(&server, &federation).by(user).send(), 403, "AccessDenied");
    }
    assert_eq!(asked(&server, &federation).send().status, 200);
    assert_eq!(asked(&server, &[federation, tagged].concat()).send().status, 200);
    let boss = [
        ("Action", "AssumeRole"),
        ("RoleArn", "arn:aws:iam:::role/boss"),
        ("RoleSessionName", "me"),
        ("ExternalId", "tenant 7"),
    ];
    assert_eq!(asked(&server, &boss).by("writer").send().status, 200);
    refused(&asked(&server, &[&boss[..], &tagged].concat()).by("writer").send(), 403, "AccessDenied");
    assert_eq!(asked(&server, &[&boss[..], &tagged].concat()).by("catalogue").send().status, 200);
    for ignored in [("Policy", "{}"), tagged[0]] {
        let call = [("Action", "GetSessionToken"), ignored];
        refused(&asked(&server, &call).send(), 400, "ValidationError");
    }
    let managed = [("PolicyArns", "x"), ("PolicyArns.1.arn", "x")];
    for wrong in managed {
        refused(&asked(&server, &[boss[0], boss[1], boss[2], boss[3], wrong]).send(), 400, "ValidationError");
    }
}

#[test]
fn a_use_of_a_session_is_one_of_its_user() {
    let server = server();
    let session = keys(&asked(&server, &[("Action", "GetSessionToken")]).by("catalogue").send());
    let used = || server.authenticator.sessions_last_used("catalogue");
    assert_eq!(used(), None);
    server.request("GET", "/b/lake/a").in_session(&session).send();
    let first = used().expect("the session was used");
    server.clock.advance(Duration::from_secs(60));
    server.authenticator.replace(Users::parse(&users()).unwrap());
    assert_eq!(used(), Some(first), "another version of the file");
    assert_eq!(server.authenticator.sessions_last_used("owner"), None);
}

#[test]
fn policies_of_the_users_file_limit_a_session_by_their_names() {
    let server = server();
    let arn = |name: &str| format!("arn:aws:iam::aws:policy/{name}");
    let of = |arns: &[&str], more: &[(&str, &str)]| {
        let names: Vec<_> = (1..=arns.len()).map(|n| format!("PolicyArns.member.{n}.arn")).collect();
        let pairs: Vec<_> = names.iter().map(String::as_str).zip(arns.iter().copied()).collect();
        assume(&server, &[pairs.as_slice(), more].concat()).send()
    };
    server.put("/b/lake/a", b"a");
    let may = |session: &SessionKeys| {
        ["GET", "PUT"].map(|method| {
            server.request(method, "/b/lake/a").in_session(session).body(b"").send().status == 200
        })
    };
    let readonly = arn("readonly");
    let writeonly = arn("writeonly");
    let reader = keys(&of(&[&readonly], &[]));
    assert_eq!(may(&reader), [true, false]);
    assert_eq!(may(&keys(&of(&[&readonly, &writeonly], &[]))), [true, true], "they are united");
    let table = keys(&of(&[&readonly], &[("Policy", TABLE)]));
    assert_eq!(may(&table), [true, false]);
    assert_eq!(may(&keys(&of(&[&arn("consoleAdmin")], &[]))), [true, true]);
    let many = vec![readonly.as_str(); 11];
    for arns in [&[&*arn("unknown")][..], &["readonly"], &[""], &many] {
        refused(&of(arns, &[]), 400, "ValidationError");
    }
    let denied = "[[policy]]\nname = \"own\"\ndocument = '{\"Statement\": {\"Effect\": \"Allow\", \"Action\": \"s3:*\", \"Resource\": \"*\"}}'\n";
    server.authenticator.replace(Users::parse(&(users() + denied)).unwrap());
    let own = keys(&of(&["arn:aws:iam::000000000000:policy/own"], &[]));
    assert_eq!(may(&own), [true, true]);
    server.authenticator.replace(Users::parse(&users()).unwrap());
    assert_eq!(may(&own), [false, false], "a policy that is gone allows nothing");
}

#[test]
fn no_session_gets_more_than_it_was_given() {
    let server = server();
    let call =
        |session: &SessionKeys, pairs: &[(&str, &str)]| asked(&server, pairs).in_session(session).send();
    let boss = [
        ("Action", "AssumeRole"),
        ("RoleArn", "arn:aws:iam:::role/boss"),
        ("RoleSessionName", "me"),
        ("ExternalId", "tenant 7"),
    ];
    let whole = lake(&server);
    let limited = keys(&assume(&server, &[("Policy", TABLE)]).send());
    let of_user = keys(&asked(&server, &[("Action", "GetSessionToken")]).send());
    let federation = [("Action", "GetFederationToken"), ("Name", "guest")];
    let powerless = keys(&asked(&server, &federation).send());
    let everything = r#"{"Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}"#;
    let guest = keys(&asked(&server, &[&federation[..], &[("Policy", everything)]].concat()).send());
    for session in [&limited, &powerless, &guest] {
        refused(&call(session, &boss), 403, "AccessDenied");
    }
    for session in [&whole, &of_user] {
        let answer = call(session, &boss);
        assert_eq!(answer.one("Expiration").as_deref(), Some("2026-01-31T13:00:00.250Z"));
        let longer = [&boss[..], &[("DurationSeconds", "3601")]].concat();
        refused(&call(session, &longer), 400, "ValidationError");
    }
    for session in [&whole, &limited, &of_user, &powerless, &guest] {
        refused(&call(session, &[("Action", "GetSessionToken")]), 403, "AccessDenied");
        refused(&call(session, &federation), 403, "AccessDenied");
    }
    // The administration is for the role that has it, and for no session of an administrator.
    let admin = |session: &SessionKeys| {
        let users = server.request("GET", "/-/api/1/users").aws().in_session(session).send();
        let quota = server.request("GET", "/?quota&owner=ann").in_session(session).send();
        let users: serde_json::Value = serde_json::from_slice(&users.body).unwrap();
        (users["code"].as_str().unwrap_or_default().to_owned(), quota.status)
    };
    for session in [&whole, &limited, &of_user, &powerless, &guest] {
        assert_eq!(admin(session), ("AccessDenied".to_owned(), 403), "{session:?}");
    }
    let boss_session = keys(&asked(&server, &boss).send());
    let (users, quota) = admin(&boss_session);
    assert_ne!((users.as_str(), quota), ("AccessDenied", 403), "it may, and there is no directory here");
    let cut =
        [&boss[..], &[("Policy", r#"{"Statement":{"Effect":"Allow","Action":"s3:*","Resource":"*"}}"#)]];
    let boss_of_s3 = keys(&asked(&server, &cut.concat()).send());
    assert_eq!(admin(&boss_of_s3), ("AccessDenied".to_owned(), 403));
    // What the owner of a bucket may do with its policy, his session may if it is allowed.
    let policy = br#"{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}}"#;
    let put = |session: &SessionKeys| {
        server.request("PUT", "/b?policy").in_session(session).body(policy).send().status
    };
    assert_eq!([&whole, &limited, &powerless].map(put), [403; 3]);
    assert_eq!([&of_user, &guest, &boss_of_s3].map(put), [204; 3]);
    // The public policy does not help a session whose own policy lacks the object.
    server.put("/b/lake/other/a", b"a");
    let get =
        |session: &SessionKeys| server.request("GET", "/b/lake/other/a").in_session(session).send().status;
    assert_eq!([&whole, &limited, &powerless, &of_user, &guest].map(get), [200, 403, 403, 200, 200]);
    assert_eq!(server.request("GET", "/b/lake/other/a").anonymous().send().status, 200);
}

#[test]
fn policies_of_buckets_name_roles_and_sessions() {
    let server = server();
    server.put("/b/pub/a", b"a");
    let whole = lake(&server);
    let limited = keys(&assume(&server, &[("Policy", TABLE)]).send());
    let get = |session: &SessionKeys| server.request("GET", "/b/pub/a").in_session(session).send().status;
    let put = |principal: &str, effect: &str| {
        let policy = format!(
            r#"{{"Statement":{{"Effect":"{effect}","Principal":{{"AWS":"{principal}"}},"Action":"s3:GetObject","Resource":"arn:aws:s3:::b/pub/*"}}}}"#
        );
        let answer = server.request("PUT", "/b?policy").body(policy.as_bytes()).send();
        assert_eq!(answer.status, 204, "{principal}: {answer:?}");
        [get(&whole), get(&limited)]
    };
    assert_eq!([get(&whole), get(&limited)], [403, 403]);
    // The session policy limits what is given to the role, and not what is given to the session.
    assert_eq!(put("arn:aws:iam::1:role/lake", "Allow"), [200, 403]);
    assert_eq!(put("arn:aws:iam::1:role/boss", "Allow"), [403, 403]);
    assert_eq!(put("arn:aws:iam::1:root", "Allow"), [200, 403]);
    assert_eq!(put("arn:aws:sts::1:assumed-role/lake/job-1", "Allow"), [200, 200]);
    assert_eq!(put("arn:aws:sts::1:assumed-role/lake/job-2", "Allow"), [403, 403]);
    assert_eq!(put("catalogue", "Allow"), [403, 403], "who assumed the role is not the role");
    for principal in ["arn:aws:iam::1:role/none", "arn:aws:sts::1:assumed-role/none/job-1"] {
        let policy = format!(
            r#"{{"Statement":{{"Effect":"Allow","Principal":{{"AWS":"{principal}"}},"Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}}}}"#
        );
        let answer = server.request("PUT", "/b?policy").body(policy.as_bytes()).send();
        answer.is_error(400, "MalformedPolicy");
    }
}

#[test]
fn callers_learn_who_they_are() {
    let server = server();
    let who = |asked: Asked<'_>| {
        let answer = asked.send();
        assert_eq!(
            (answer.status, answer.one("Account").as_deref()),
            (200, Some("000000000000")),
            "{answer:?}"
        );
        (answer.one("Arn").unwrap(), answer.one("UserId").unwrap())
    };
    let ask = || asked(&server, &[("Action", "GetCallerIdentity"), ("Version", "2011-06-15")]);
    let (arn, id) = who(ask());
    assert_eq!((arn.as_str(), &id[..4]), ("arn:aws:iam::000000000000:user/owner", "AIDA"));
    let (arn, id) = who(ask().in_session(&lake(&server)));
    assert_eq!(arn, "arn:aws:sts::000000000000:assumed-role/lake/job-1");
    assert!(id.starts_with("AROA") && id.ends_with(":job-1"), "{id}");
    let federated = asked(&server, &[("Action", "GetFederationToken"), ("Name", "guest")]).send();
    let (arn, _) = who(ask().in_session(&keys(&federated)));
    assert_eq!(arn, "arn:aws:sts::000000000000:federated-user/guest");
    let of_user = asked(&server, &[("Action", "GetSessionToken")]).send();
    assert_eq!(who(ask().in_session(&keys(&of_user))).0, "arn:aws:iam::000000000000:user/owner");
    let query = server.request("GET", "/?Action=GetCallerIdentity&Version=2011-06-15").aws();
    let query = query.header("p-content-sha256", hex(&Sha256::digest(b""))).send();
    assert!(query.text().contains("<GetCallerIdentityResponse"), "{query:?}");
}

#[test]
fn calls_that_are_none_are_refused_in_the_form_of_sts() {
    let server = server();
    let ask = |pairs: &[(&str, &str)]| asked(&server, pairs);
    refused(&ask(&[("Action", "DecodeAuthorizationMessage")]).send(), 400, "InvalidAction");
    refused(&ask(&[]).send(), 400, "InvalidAction");
    refused(&ask(&[("Action", "GetCallerIdentity")]).anonymous().send(), 403, "MissingAuthenticationToken");
    refused(&ask(&[("Action", "GetCallerIdentity")]).by("nobody").send(), 403, "InvalidClientTokenId");
    let changed = ask(&[("Action", "GetCallerIdentity")]).body(b"Action=GetSessionToken").send();
    refused(&changed, 403, "SignatureDoesNotMatch");
    let unsigned =
        server.request("POST", "/").aws().header("Content-Type", "application/x-www-form-urlencoded");
    refused(&unsigned.body(b"Action=GetSessionToken").send(), 403, "SignatureDoesNotMatch");
    let twice = ask(&[("Action", "GetCallerIdentity"), ("Action", "GetSessionToken")]).send();
    refused(&twice, 400, "InvalidRequest");
    let form = |asked: Asked<'_>| {
        asked.aws().header("Content-Type", "application/x-www-form-urlencoded").anonymous().send()
    };
    refused(
        &form(server.request("POST", "/").body(&vec![b'a'; (128 << 10) + 1]).chunked()),
        413,
        "RequestEntityTooLarge",
    );
    refused(&form(server.request("POST", "/").body(b"Action=\xff")), 400, "ValidationError");
    server.request("POST", "/").send().is_error(405, "MethodNotAllowed");
}

#[test]
fn a_long_call_is_refused_unread() {
    let server = server();
    let asked = server.request("POST", "/").announcing(1 << 40).aws().anonymous();
    let long = asked.header("Content-Type", "application/x-www-form-urlencoded").send();
    refused(&long, 413, "RequestEntityTooLarge");
}

#[test]
fn sessions_are_in_the_audit_log_and_tokens_are_not() {
    let log = Arc::new(MemoryLog::default());
    let server = Server::with_users(&users(), Some(log.clone()));
    let answer = assume(&server, &[("Policy", TABLE)]).send();
    let session = keys(&answer);
    refused(&assume(&server, &[("Policy", "{}")]).send(), 400, "MalformedPolicyDocument");
    server.request("DELETE", "/b?policy").in_session(&session).send();
    let lines = log.taken();
    let told: Vec<_> = lines.iter().map(|it| (it.action.as_str(), it.user.as_deref(), it.status)).collect();
    assert_eq!(
        told,
        [
            ("AssumeRole", Some("catalogue"), Some(200)),
            ("AssumeRole", Some("catalogue"), Some(400)),
            ("DeleteBucketPolicy", Some("lake"), Some(403)),
        ]
    );
    assert_eq!(lines[0].subject.as_deref(), Some(ROLE));
    assert!(lines[0].after.as_ref().unwrap().contains(&session.access_key), "{lines:?}");
    assert_eq!(lines[1].error.as_deref(), Some("MalformedPolicyDocument"));
    assert_eq!(lines[2].session.as_deref(), Some("arn:aws:sts::000000000000:assumed-role/lake/job-1"));
    let all = format!("{lines:?}");
    assert!(!all.contains(&session.secret_key) && !all.contains(session.token.as_ref().unwrap()));
    log.full.store(true, Ordering::Relaxed);
    refused(&assume(&server, &[]).send(), 503, "ServiceUnavailable");
}

/// The users of a file that cannot be written.
#[derive(Default)]
struct ReadOnlyDirectory(AtomicUsize);

impl UserDirectory for ReadOnlyDirectory {
    fn list(&self) -> Result<Vec<UserEntry>, UserError> {
        Ok(Vec::new())
    }

    fn policies(&self) -> Result<Vec<PolicyEntry>, UserError> {
        Ok(Vec::new())
    }

    fn groups(&self) -> Result<Vec<GroupEntry>, UserError> {
        Ok(Vec::new())
    }

    fn roles(&self) -> Result<Vec<RoleEntry>, UserError> {
        Ok(Vec::new())
    }

    fn providers(&self) -> Result<Vec<ProviderEntry>, UserError> {
        Ok(Vec::new())
    }

    fn change(&self, _: &UserChange, _: ChangeSender<'_>) -> Result<Option<KeyPair>, UserError> {
        Err(UserError::Failed("the file is read-only".to_owned()))
    }

    fn add_sealing_key(&self) -> Result<(), UserError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Err(UserError::Failed("the file is read-only".to_owned()))
    }

    fn record_denied(&self, _: &UserChange, _: ChangeSender<'_>) {}
}

#[test]
fn a_users_file_that_cannot_be_written_is_tried_once() {
    let directory = Arc::<ReadOnlyDirectory>::default();
    let without_key = users().split("[[sealing_key]]").next().unwrap().to_owned();
    let server = Server::with_directory(&without_key, directory.clone());
    server.put("/b/lake/a", b"a");
    for _ in 0..3 {
        let session = lake(&server);
        assert_eq!(server.request("GET", "/b/lake/a").in_session(&session).send().status, 200);
    }
    assert_eq!(directory.0.load(Ordering::Relaxed), 1);
}
