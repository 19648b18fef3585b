//! Keys for a while, in the hands of strangers: tokens that are not what they seem, in each place of a
//! request that takes one, and names that try to be more than names.

use std::time::Duration;

use siltstone::auth::Users;

use super::sts::{asked, assume, keys, lake, server, users};
use super::*;
use crate::support::form::{Form, FormVersion};

/// Where a request has its token.
#[derive(Clone, Copy, Debug)]
enum TokenPlace {
    Header,
    Url,
    Form,
}

const PLACES: [TokenPlace; 3] = [TokenPlace::Header, TokenPlace::Url, TokenPlace::Form];

/// The answer to a request for `lake/a` with a token in that place.
fn ask(server: &Server, place: TokenPlace, dialect: Dialect, session: &SessionKeys) -> Answer {
    let get = server.request("GET", "/b/lake/a").dialect(dialect).in_session(session);
    match place {
        TokenPlace::Header => get.send(),
        TokenPlace::Url => get.presigned(&[]).send(),
        TokenPlace::Form => {
            let prefix = dialect.header_prefix();
            let form = Form::new(&[("key", "lake/posted")], b"f");
            let form = match &session.token {
                Some(token) => form.field(&format!("{prefix}security-token"), token),
                None => form,
            };
            let form = form.signed(&session.signer(), FormVersion::V4 { prefix });
            server.request("POST", "/b").dialect(dialect).form(&form).send()
        }
    }
}

/// Checks that these keys are refused with a code in all places and dialects, and store nothing.
fn is_refused(server: &Server, session: &SessionKeys, status: u16, code: &str, what: &str) {
    for dialect in Dialect::ALL {
        for place in PLACES {
            let answer = ask(server, place, dialect, session);
            let told = (answer.status, answer.code());
            assert_eq!(told, (status, code.to_owned()), "{what} {place:?} {dialect:?}");
        }
    }
    server.get("/b/lake/posted").is_error(404, "NoSuchKey");
}

/// Checks that these keys are good in all places and dialects.
fn is_taken(server: &Server, session: &SessionKeys) {
    for dialect in Dialect::ALL {
        for place in PLACES {
            let answer = ask(server, place, dialect, session);
            assert!(matches!(answer.status, 200 | 204), "{place:?} {dialect:?}: {answer:?}");
        }
    }
    assert_eq!(server.delete("/b/lake/posted").status, 204);
}

#[test]
fn no_place_takes_a_token_that_is_not_that_of_the_keys() {
    let server = server();
    server.put("/b/lake/a", b"a");
    let session = lake(&server);
    is_taken(&server, &session);
    let token = session.token.clone().unwrap();
    let other = lake(&server).token.unwrap();
    let of_user = keys(&asked(&server, &[("Action", "GetSessionToken")]).send()).token.unwrap();
    let foreign = Server::with_users(&users().replace("AAEC", "BAEC"), None);
    let foreign = lake(&foreign);
    let half = token.len() / 2;
    let first = if token.starts_with('A') { "B" } else { "A" };
    let swapped: String = token.chars().rev().collect();
    for (what, forged) in [
        ("first changed", format!("{first}{}", &token[1..])),
        ("cut in front", token[1..].to_owned()),
        ("cut behind", token[..token.len() - 1].to_owned()),
        ("half", token[..half].to_owned()),
        ("longer", format!("{token}A")),
        ("padded", format!("{token}=")),
        ("twice", format!("{token}{token}")),
        ("two halves", format!("{}{}", &token[..half], &other[half..])),
        ("backwards", swapped),
        ("of another session", other),
        ("of a user", of_user),
        ("of another server", foreign.token.clone().unwrap()),
        ("lower case", token.to_ascii_lowercase()),
        ("short", "A".to_owned()),
        ("zeros", "A".repeat(token.len())),
        ("long", "A".repeat(5_000)),
        ("no base64", "*".repeat(64)),
        ("two words", "a b".to_owned()),
        ("path", "../../users.toml".to_owned()),
    ] {
        let forged = SessionKeys { token: Some(forged), ..session.clone() };
        is_refused(&server, &forged, 400, "InvalidToken", what);
    }
    is_refused(&server, &foreign, 400, "InvalidToken", "all of another server");
    let none = SessionKeys { token: None, ..session.clone() };
    is_refused(&server, &none, 403, "InvalidAccessKeyId", "no token");
    let own = SessionKeys {
        access_key: crate::support::users::access_key("owner"),
        secret_key: crate::support::users::secret_key("owner"),
        token: Some(token),
    };
    is_refused(&server, &own, 400, "InvalidToken", "the keys of an administrator");
    let secret = SessionKeys { secret_key: "x".repeat(40), ..session.clone() };
    is_refused(&server, &secret, 403, "SignatureDoesNotMatch", "another secret");
    is_taken(&server, &session);
}

#[test]
fn no_place_takes_a_token_that_is_over() {
    let server = server();
    server.put("/b/lake/a", b"a");
    let session = lake(&server);
    let file = |text: &str| server.authenticator.replace(Users::parse(text).unwrap());
    let role = "name = \"lake\"";
    for (what, text) in [
        ("revoked", users().replace(role, &format!("{role}\nsessions_after = 2026-01-31T12:00:01Z"))),
        ("of a role that is gone", users().replace("\"lake\"", "\"pond\"")),
        ("of a user who has gone", users().replace("catalogue", "other")),
        ("of a key that has gone", users().replace("AK-catalogue", "AK-new")),
        ("of another sealing key", users().replace("AAEC", "CAEC")),
    ] {
        is_taken(&server, &session);
        file(&text);
        is_refused(&server, &session, 400, "InvalidToken", what);
        file(&users());
    }
    let short = keys(&assume(&server, &[("DurationSeconds", "900")]).send());
    is_taken(&server, &short);
    server.clock.advance(Duration::from_secs(899));
    for dialect in Dialect::ALL {
        assert_eq!(ask(&server, TokenPlace::Header, dialect, &short).status, 200);
        assert_eq!(ask(&server, TokenPlace::Form, dialect, &short).status, 204);
    }
    server.clock.advance(Duration::from_secs(1));
    for dialect in Dialect::ALL {
        let header = server.request("GET", "/b/lake/a").dialect(dialect).in_session(&short);
        header.at("20260131T121500Z").send().is_error(400, "ExpiredToken");
        let form = ask(&server, TokenPlace::Form, dialect, &short);
        form.is_error(400, "ExpiredToken");
        assert_ne!(ask(&server, TokenPlace::Url, dialect, &short).status, 200);
    }
}

#[test]
fn a_chain_without_end_ends_with_its_first_session() {
    let server = server();
    server.put("/b/lake/a", b"a");
    let mut session = keys(&assume(&server, &[("DurationSeconds", "900")]).send());
    let mut links = 0;
    // The role may assume itself. Each token holds what its session came of, and is bounded.
    let refused = loop {
        let again = [
            ("Action", "AssumeRole"),
            ("RoleArn", "arn:aws:iam:::role/lake"),
            ("RoleSessionName", "job-again"),
            ("DurationSeconds", "3600"),
        ];
        let answer = asked(&server, &again).in_session(&session).send();
        if answer.status != 200 {
            break answer;
        }
        assert_eq!(answer.one("Expiration").as_deref(), Some("2026-01-31T12:15:00.250Z"));
        session = keys(&answer);
        links += 1;
        assert!(links < 1_000, "a token that does not grow has forgotten what it came of");
    };
    assert_eq!((refused.status, refused.one("Code").as_deref()), (400, Some("PackedPolicyTooLarge")));
    assert_eq!(server.request("GET", "/b/lake/a").in_session(&session).send().status, 200);
    let file = users().replace("AK-catalogue", "AK-new");
    server.authenticator.replace(Users::parse(&file).unwrap());
    server.request("GET", "/b/lake/a").in_session(&session).send().is_error(400, "InvalidToken");
}

#[test]
fn a_session_policy_that_is_wider_than_its_role_gives_nothing() {
    let server = server();
    server.put("/b/lake/a", b"a");
    server.put("/b/other/a", b"a");
    for policy in [
        r#"{"Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}"#,
        r#"{"Statement":{"Effect":"Allow","Action":["s3:*","siltstone:*","sts:*","iam:*"],"Resource":"*"}}"#,
        r#"{"Statement":{"Effect":"Allow","NotAction":"s3:ListMultipartUploadParts","NotResource":"arn:aws:s3:::none"}}"#,
    ] {
        let session = keys(&assume(&server, &[("Policy", policy)]).send());
        let status = |method: &str, target: &str| {
            server.request(method, target).in_session(&session).body(b"").send().status
        };
        assert_eq!(status("GET", "/b/lake/a"), 200, "{policy}");
        for (method, target) in [
            ("GET", "/b/other/a"),
            ("PUT", "/b/other/b"),
            ("DELETE", "/b/other/a"),
            ("PUT", "/b/lake/a?acl"),
            ("GET", "/b?policy"),
            ("PUT", "/b?policy"),
            ("PUT", "/new-bucket"),
            ("DELETE", "/b"),
            ("GET", "/"),
            ("GET", "/?quota&owner=owner"),
        ] {
            assert_eq!(status(method, target), 403, "{method} {target} with {policy}");
        }
        let api = server.request("GET", "/-/api/1/users").aws().in_session(&session).send();
        assert!(api.text().contains("AccessDenied"), "{api:?}");
        let boss = [
            ("Action", "AssumeRole"),
            ("RoleArn", "arn:aws:iam:::role/boss"),
            ("RoleSessionName", "me"),
            ("ExternalId", "tenant 7"),
        ];
        assert_eq!(asked(&server, &boss).in_session(&session).send().status, 403, "it is limited");
    }
}

/// A users file with users whose names look like patterns, variables and paths, all of one group
/// with a home for each.
fn users_of_odd_names(names: &[&str]) -> String {
    let mut text = crate::support::users::user("owner", &["*"], &["*"]);
    for (nth, name) in names.iter().enumerate() {
        text +=
            &format!("[[user]]\nname = '{name}'\naccess_key = 'AK{nth}'\nsecret_key = 'secret of {nth}'\n\n");
    }
    let members: Vec<_> = names.iter().map(|name| format!("'{name}'")).collect();
    let policy = r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["s3:GetObject","s3:PutObject"],"Resource":"arn:aws:s3:::b/home/${aws:username}/*"}}"#;
    text + &format!("[[group]]\nname = \"all\"\nmembers = [{}]\npolicy = ['{policy}']\n", members.join(", "))
}

#[test]
fn a_name_that_looks_like_a_pattern_is_a_name() {
    let names = ["*", "?*", "a*", "ann?", "${aws:username}", "${*}", "..", "bob/..", "%2A", "ann"];
    let server = Server::with_users(&users_of_odd_names(&names), None);
    server.put("/b/home/ann/k", b"x");
    server.put("/b/home/annx/k", b"x");
    server.put("/b/k", b"x");
    for (nth, name) in names.iter().enumerate() {
        let own = SessionKeys {
            access_key: format!("AK{nth}"),
            secret_key: format!("secret of {nth}"),
            token: None,
        };
        let status = |method: &str, target: &str| {
            server.request(method, target).in_session(&own).body(b"").send().status
        };
        assert_eq!(status("PUT", &format!("/b/home/{}/own", encoded(name))), 200, "{name}");
        let expected = if *name == "ann" { 200 } else { 403 };
        assert_eq!(status("GET", "/b/home/ann/k"), expected, "{name}");
        for target in ["/b/home/annx/k", "/b/k", "/b/home/k", "/b/home/ann%2F..%2Fk"] {
            assert_eq!(status("GET", target), 403, "{name} {target}");
        }
    }
}

#[test]
fn a_tag_that_looks_like_a_pattern_is_a_text() {
    let policy = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/${aws:PrincipalTag/team}/*"},{"Effect":"Allow","Action":"s3:PutObject","Resource":"arn:aws:s3:::b/in/*","Condition":{"StringLike":{"aws:PrincipalTag/team":"${aws:PrincipalTag/of}"}}}]}"#;
    let text = users()
        + &format!("\n[[role]]\nname = \"teams\"\nassumed_by = [\"catalogue\"]\npolicy = '{policy}'\n");
    let server = Server::with_users(&text, None);
    server.put("/b/red/k", b"x");
    for (team, status) in [
        ("red", 200),
        ("*", 403),
        ("r*", 403),
        ("re?", 403),
        ("${aws:username}", 403),
        ("", 403),
        ("red/", 403),
    ] {
        let call = [
            ("Action", "AssumeRole"),
            ("RoleArn", "arn:aws:iam:::role/teams"),
            ("RoleSessionName", "me"),
            ("Tags.member.1.Key", "team"),
            ("Tags.member.1.Value", team),
            ("Tags.member.2.Key", "of"),
            ("Tags.member.2.Value", "*"),
        ];
        let session = keys(&asked(&server, &call).by("catalogue").send());
        let get = server.request("GET", "/b/red/k").in_session(&session).send();
        assert_eq!(get.status, status, "{team}");
        let put = server.request("PUT", "/b/in/k").in_session(&session).body(b"").send().status;
        assert_eq!(
            put,
            if team == "*" { 200 } else { 403 },
            "a `*` that a variable stands for is no wildcard: {team}"
        );
    }
}
