//! AssumeRoleWithWebIdentity: keys for those whom a provider vouches for, and for nobody else,
//! whatever the provider does.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use siltstone::auth::Users;
use siltstone::base::Clock as _;

use super::audit::MemoryLog;
use super::*;
use crate::support::identity_provider::{IdentityProvider, Manner, SigningPair, unsigned};
use crate::support::users::user;

const ROLE: &str = "arn:aws:iam::123456789012:role/ci";

/// An issuer that shows `keys`, and a server with a role for its project `a`.
struct Site {
    server: Server,
    provider: IdentityProvider,
    pair: SigningPair,
}

fn users(issuers: &[(&str, &str)], more: &str) -> String {
    let mut text = user("owner", &["*"], &["*"]);
    for (url, rest) in issuers {
        text += &format!(
            "[[issuer]]\nurl = {url:?}\naudiences = [\"sts.amazonaws.com\", \"siltstone\"]\n{rest}\n"
        );
    }
    text + &format!(
        "[[role]]\nname = \"ci\"\nmax_duration = \"2h\"\n\
         policy = '{{\"Version\": \"2012-10-17\", \"Statement\": [\
            {{\"Effect\": \"Allow\", \"Action\": \"s3:*\", \"Resource\": \"arn:aws:s3:::b/${{jwt:project}}/*\"}},\
            {{\"Effect\": \"Deny\", \"Action\": \"s3:DeleteObject\", \"Resource\": \"*\",\
              \"Condition\": {{\"StringEquals\": {{\"jwt:groups\": \"readers\"}}}}}}]}}'\n\
         [[role.web_identity]]\nissuer = {:?}\n\
         condition = '{{\"StringLike\": {{\"jwt:sub\": \"project:a*\"}}, \"StringEquals\": {{\"jwt:ref\": \"main\"}}}}'\n\n\
         {more}\n[[sealing_key]]\nkey = \"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"\n",
        issuers[0].0
    )
}

impl Site {
    fn new() -> Self {
        Self::with(None)
    }

    fn with(log: Option<Arc<MemoryLog>>) -> Self {
        let pair = SigningPair::new("1");
        let provider = IdentityProvider::start(&[json!({"kty": "unknown"}), pair.public()]);
        let log = log.map(|log| -> Arc<dyn siltstone::service::AuditLog> { log });
        let server = Server::with_users(&users(&[(&provider.url(), "")], ""), log);
        Self { server, provider, pair }
    }

    fn claims(&self) -> Value {
        let now = self.server.clock.now().as_secs();
        json!({"iss": self.provider.url(), "sub": "project:a:main", "aud": "sts.amazonaws.com", "exp": now + 300,
            "iat": now, "nbf": now, "ref": "main", "project": "a", "groups": ["writers", "staff"]})
    }

    fn claims_with(&self, name: &str, value: Value) -> Value {
        let mut claims = self.claims();
        claims[name] = value;
        claims
    }

    fn token(&self) -> String {
        self.pair.token(&self.claims())
    }

    fn ask(&self, token: &str, more: &[(&str, &str)]) -> Asked<'_> {
        let mut pairs = vec![
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", "2011-06-15"),
            ("WebIdentityToken", token),
        ];
        for (name, value) in [("RoleArn", ROLE), ("RoleSessionName", "job-1")] {
            if !more.iter().any(|(other, _)| *other == name) {
                pairs.push((name, value));
            }
        }
        pairs.extend(more);
        let form: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        // As clients send it, which know no dialect.
        let asked = self.server.request("POST", "/").aws().anonymous();
        asked.header("Content-Type", "application/x-www-form-urlencoded").body(form.join("&").as_bytes())
    }

    fn code(&self, token: &str) -> String {
        let answer = self.ask(token, &[]).send();
        match answer.status {
            200 => "OK".to_owned(),
            _ => answer.one("Code").unwrap_or_default(),
        }
    }

    fn keys(&self) -> SessionKeys {
        keys(&self.ask(&self.token(), &[]).send())
    }
}

fn keys(answer: &Answer) -> SessionKeys {
    assert_eq!(answer.status, 200, "{answer:?}");
    SessionKeys {
        access_key: answer.one("AccessKeyId").unwrap(),
        secret_key: answer.one("SecretAccessKey").unwrap(),
        token: Some(answer.one("SessionToken").unwrap()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn peer(n: u8) -> Option<SocketAddr> {
    Some((Ipv4Addr::new(192, 0, 2, n), 40_000).into())
}

#[test]
fn a_job_gets_keys_for_what_its_token_says() {
    let site = Site::new();
    let answer = site.ask(&site.token(), &[("DurationSeconds", "900")]).send();
    let session = keys(&answer);
    assert!(answer.text().contains("<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/"));
    let told = |name: &str| answer.one(name).unwrap();
    assert_eq!(told("Arn"), "arn:aws:sts::000000000000:assumed-role/ci/job-1");
    assert_eq!(told("SubjectFromWebIdentityToken"), "project:a:main");
    assert_eq!((told("Audience"), told("Provider")), ("sts.amazonaws.com".to_owned(), site.provider.url()));
    assert_eq!(told("Expiration"), "2026-01-31T12:15:00.250Z");
    let status = |keys: &SessionKeys, method: &str, target: &str| {
        site.server.request(method, target).in_session(keys).body(b"").send().status
    };
    assert_eq!(status(&session, "PUT", "/b/a/x"), 200);
    assert_eq!(status(&session, "PUT", "/b/ab/x"), 403, "another project");
    assert_eq!(status(&session, "DELETE", "/b/a/x"), 204);
    let reader = site.claims_with("groups", json!(["readers", "writers"]));
    let reader = keys_of(&site, &reader);
    assert_eq!(status(&reader, "PUT", "/b/a/x"), 200);
    assert_eq!(status(&reader, "DELETE", "/b/a/x"), 403, "one of its groups is denied it");
    let several = site.claims_with("aud", json!(["other", "siltstone"]));
    assert_eq!(
        site.ask(&site.pair.token(&several), &[]).send().one("Audience").as_deref(),
        Some("siltstone")
    );
    // The policy of the call limits it, and may name claims that nothing else names.
    let policy = r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"s3:PutObject",
        "Resource":"arn:aws:s3:::b/a/${jwt:ref}"}}"#;
    let limited = keys(&site.ask(&site.token(), &[("Policy", policy)]).send());
    assert_eq!(status(&limited, "PUT", "/b/a/main"), 200);
    assert_eq!(status(&limited, "PUT", "/b/a/x"), 403);
    assert_eq!(site.provider.asked(), ["/.well-known/openid-configuration", "/keys"], "it was asked once");
}

fn keys_of(site: &Site, claims: &Value) -> SessionKeys {
    keys(&site.ask(&site.pair.token(claims), &[]).send())
}

#[test]
fn a_session_that_was_chained_to_that_of_a_job_ends_with_the_issuer() {
    let deep = "[[role]]\nname = \"deep\"\nassumed_by = [\"ci\", \"deep\"]\n\
                [[role.allow]]\nactions = [\"*\"]\nresources = [\"*\"]\n";
    let site = Site::new();
    let file = |text: &str| site.server.authenticator.replace(Users::parse(text).unwrap());
    let url = site.provider.url();
    let whole = users(&[(&url, ""), ("https://other.example", "")], deep);
    file(&whole);
    let form = "Action=AssumeRole&RoleArn=arn:aws:iam:::role/deep&RoleSessionName=me";
    let mut source = site.keys();
    for _ in 0..2 {
        let chained = site.server.request("POST", "/").aws().in_session(&source);
        let chained = chained.header("Content-Type", "application/x-www-form-urlencoded");
        let chained = chained.header("p-content-sha256", hex(&Sha256::digest(form)));
        let chained = keys(&chained.body(form.as_bytes()).send());
        let get = || site.server.request("GET", "/b").in_session(&chained).send();
        assert_eq!(get().status, 200);
        for text in [
            users(&[("https://other.example", "")], deep),
            users(&[("https://other.example", ""), (&url, "")], deep),
        ] {
            file(&text);
            get().is_error(400, "InvalidToken");
        }
        file(&whole);
        source = chained;
    }
}

#[test]
fn claims_about_times_and_long_numbers_are_compared_as_they_are() {
    let site = Site::new();
    let url = site.provider.url();
    let role = |condition: &str| {
        let text = format!(
            "[[role]]\nname = \"pods\"\n[[role.web_identity]]\nissuer = {url:?}\ncondition = '{condition}'\n"
        );
        site.server.authenticator.replace(Users::parse(&users(&[(&url, "")], &text)).unwrap());
    };
    let arn = "arn:aws:iam:::role/pods";
    let passes = |claims: &str| {
        let token = site.pair.token_of(claims);
        site.ask(&token, &[("RoleArn", arn)]).send().status == 200
    };
    let claims = |id: &str| {
        let mut text = site.claims_with("nonce", json!("n-1")).to_string();
        text.truncate(text.len() - 1);
        format!("{text},\"id\":{id}}}")
    };
    role(r#"{"NumericEquals": {"jwt:id": "9007199254740993"}}"#);
    for (id, expected) in [
        ("9007199254740993", true),
        ("\"9007199254740993\"", true),
        ("[1, 9007199254740993]", true),
        ("9007199254740992", false),
        ("9007199254740994", false),
        ("9007199254740992.0", false),
    ] {
        assert_eq!(passes(&claims(id)), expected, "{id}");
    }
    for operator in ["NumericEquals", "StringEquals"] {
        role(&format!(r#"{{"{operator}": {{"jwt:id": "18446744073709551617"}}}}"#));
        for (id, expected) in [
            ("18446744073709551617", true),
            ("{\"\\\"\":1}", false),
            ("18446744073709551616", false),
            ("18446744073709551618", false),
            ("-18446744073709551617", false),
        ] {
            assert_eq!(passes(&claims(id)), expected, "{operator} {id}");
        }
    }
    let now = site.server.clock.now().as_secs();
    for (condition, expected) in [
        (r#""StringEquals": {"jwt:nonce": "n-1"}"#.to_owned(), true),
        (r#""StringEquals": {"jwt:nonce": "n-2"}"#.to_owned(), false),
        (format!(r#""StringEquals": {{"jwt:iat": "{now}", "jwt:nbf": "{now}"}}"#), true),
        (format!(r#""NumericLessThanEquals": {{"jwt:exp": {}}}"#, now + 300), true),
        (format!(r#""NumericLessThan": {{"jwt:exp": {}}}"#, now + 300), false),
        (r#""DateGreaterThan": {"jwt:iat": "2026-01-31T11:59:59Z"}"#.to_owned(), true),
        (r#""DateGreaterThan": {"jwt:iat": "2026-01-31T12:00:01Z"}"#.to_owned(), false),
        (r#""Null": {"jwt:exp": "false", "jwt:jti": "true"}"#.to_owned(), true),
    ] {
        let of_subject = r#""StringLike": {"jwt:sub": "project:*"}"#;
        role(&format!("{{{of_subject}, {condition}}}"));
        assert_eq!(passes(&claims("1")), expected, "{condition}");
    }
}

#[test]
fn no_forged_token_passes() {
    let site = Site::new();
    let token = site.token();
    assert_eq!(site.code(&token), "OK");
    let stranger = SigningPair::new("1");
    assert_eq!(site.code(&stranger.token(&site.claims())), "InvalidIdentityToken");
    assert_eq!(
        site.code(&SigningPair::new("2").token(&site.claims())),
        "InvalidIdentityToken",
        "unknown key"
    );
    for alg in ["none", "None", "NONE", "HS256", "RS256", "ES384", ""] {
        let header = json!({"alg": alg, "kid": "1"});
        assert_eq!(
            site.code(&site.pair.token_with(&header, &site.claims())),
            "InvalidIdentityToken",
            "{alg}"
        );
        let bare = unsigned(&header, &site.claims());
        for unsigned in [bare.clone(), format!("{bare}.")] {
            assert_eq!(site.code(&unsigned), "InvalidIdentityToken", "{alg}");
        }
    }
    // The public key taken for a shared secret, in its forms.
    let public = site.pair.public();
    let text = |name: &str| public[name].as_str().unwrap().to_owned();
    let header = json!({"alg": "HS256", "kid": "1"});
    let forged = unsigned(&header, &site.claims());
    for secret in [
        site.pair.point().to_vec(),
        site.pair.point()[1..].to_vec(),
        public.to_string().into_bytes(),
        text("x").into_bytes(),
        Vec::new(),
    ] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret).unwrap();
        mac.update(forged.as_bytes());
        let signature = base64_url(&mac.finalize().into_bytes());
        assert_eq!(site.code(&format!("{forged}.{signature}")), "InvalidIdentityToken");
    }
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let (head, _) = signed.split_once('.').unwrap();
    let other = base64_url(site.claims_with("sub", json!("project:admin")).to_string().as_bytes());
    for forged in [
        format!("{head}.{other}.{signature}"),
        format!("{token}A"),
        format!("{token}="),
        format!(" {token}"),
        token[1..].to_owned(),
        token[..token.len() - 1].to_owned(),
        format!("{token}.{signature}"),
        "a.b.c".to_owned(),
        "..".to_owned(),
        "é".to_owned(),
        "x".repeat(40_000),
    ] {
        assert_eq!(site.code(&forged), "InvalidIdentityToken", "{forged}");
    }
    let key_in_header = json!({"alg": "ES256", "kid": "1", "jwk": stranger.public(), "jku": "http://127.0.0.1:1/",
        "x5u": "http://127.0.0.1:1/"});
    assert_eq!(site.code(&stranger.token_with(&key_in_header, &site.claims())), "InvalidIdentityToken");
    assert_eq!(site.code(&token), "OK");
}

#[test]
fn headers_that_readers_could_take_otherwise_are_refused() {
    let site = Site::new();
    let signed = |header: &str, claims: &str| {
        // Signed by the right key, so that nothing but the form can be what is wrong.
        let claims = serde_json::from_str::<Value>(claims).unwrap();
        site.pair.token_with(&serde_json::from_str(header).unwrap(), &claims)
    };
    let claims = site.claims().to_string();
    assert_eq!(site.code(&signed(r#"{"alg": "ES256", "kid": "1", "typ": "JWT"}"#, &claims)), "OK");
    for header in [
        r#"{"alg": "ES256", "kid": "1", "crit": ["exp"]}"#,
        r#"{"alg": "ES256", "kid": "1", "crit": [], "b64": false}"#,
        r#"{"alg": ["ES256"], "kid": "1"}"#,
        r#"{"alg": {"ES256": 1}, "kid": "1"}"#,
        r#"{"alg": null, "kid": "1"}"#,
        r#"{"kid": "1"}"#,
        r#"{"alg": "es256", "kid": "1"}"#,
        r#"{"alg": "ES256 ", "kid": "1"}"#,
        r#"{"alg": "ES256", "kid": 1}"#,
        r#"{"alg": "ES256", "kid": "../1"}"#,
        r#"{"alg": "ES256", "kid": "1\u0000"}"#,
        r#"{"alg": "ES256", "kid": "' OR '1'='1"}"#,
        r#"{"alg": "ES256", "kid": "/dev/null"}"#,
        r#"["ES256"]"#,
        r#""ES256""#,
    ] {
        assert_eq!(site.code(&signed(header, &claims)), "InvalidIdentityToken", "{header}");
    }
    // Members that are there twice, which two readers could read differently.
    let head = |text: &str| base64_url(text.as_bytes());
    let body = head(&claims);
    let signature = site.token().rsplit_once('.').unwrap().1.to_owned();
    for header in [
        r#"{"alg": "ES256", "alg": "none", "kid": "1"}"#,
        r#"{"alg": "none", "alg": "ES256", "kid": "1"}"#,
        r#"{"alg": "ES256", "kid": "1", "kid": "2"}"#,
    ] {
        for signature in ["", &*signature] {
            let forged = format!("{}.{body}.{signature}", head(header));
            assert_eq!(site.code(&forged), "InvalidIdentityToken", "{header}");
        }
    }
    // The last bits of the text say nothing, and must be zeros: one token has one text.
    let token = site.token();
    let (rest, last) = token.split_at(token.len() - 1);
    let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let at = digits.find(last).unwrap();
    for other in digits[at + 1..at + 16].chars() {
        assert_eq!(site.code(&format!("{rest}{other}")), "InvalidIdentityToken", "{other} for {last}");
    }
}

#[test]
fn claims_that_readers_could_take_otherwise_are_refused() {
    let site = Site::new();
    let claims = site.claims().to_string();
    for text in [
        format!("{{\"iss\": {}}}", "[".repeat(20_000)),
        format!("{}{}", "[".repeat(20_000), "]".repeat(20_000)),
        claims.replace("\"ref\"", &format!("\"deep\": {}1{}, \"ref\"", "[".repeat(5_000), "]".repeat(5_000))),
        claims.replacen('{', "{\"exp\": 1e999, ", 1),
        "null".to_owned(),
        "\u{feff}{}".to_owned(),
        String::new(),
    ] {
        let shown: String = text.chars().take(60).collect();
        assert_eq!(site.code(&site.pair.token_of(&text)), "InvalidIdentityToken", "{shown}");
    }
    for (name, value) in [
        ("exp", json!(-1)),
        ("exp", json!(true)),
        ("exp", json!([9_999_999_999_u64])),
        ("nbf", json!(1e300)),
        ("iat", json!("now")),
        ("aud", json!({"sts.amazonaws.com": true})),
        ("aud", json!([["sts.amazonaws.com"]])),
        ("aud", json!("sts.amazonaws.com ")),
        ("aud", json!("sts.amazonaws.com,siltstone")),
        ("iss", json!([site.provider.url()])),
    ] {
        let code = site.code(&site.pair.token(&site.claims_with(name, value.clone())));
        assert!(matches!(&*code, "InvalidIdentityToken" | "ExpiredTokenException"), "{name} {value}: {code}");
    }
}

#[test]
fn a_claim_that_looks_like_a_pattern_is_a_text() {
    let site = Site::new();
    site.server.put("/b/a/k", b"x");
    let read = |project: &str| {
        let session = keys_of(&site, &site.claims_with("project", json!(project)));
        site.server.request("GET", "/b/a/k").in_session(&session).send().status
    };
    assert_eq!(read("a"), 200);
    for project in ["*", "?", "a*", "${jwt:sub}", "${*}", "", "a/..", "b/../a", "A", "a/"] {
        assert_eq!(read(project), 403, "{project}");
    }
}

fn base64_url(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}

#[test]
fn no_token_passes_that_is_for_others_or_for_another_time() {
    let site = Site::new();
    let now = site.server.clock.now().as_secs();
    for (name, value, code) in [
        ("exp", json!(now - 60), "ExpiredTokenException"),
        ("exp", json!(0), "ExpiredTokenException"),
        ("exp", Value::Null, "InvalidIdentityToken"),
        ("exp", json!("9999999999"), "InvalidIdentityToken"),
        ("nbf", json!(now + 61), "InvalidIdentityToken"),
        ("iat", json!(now + 61), "InvalidIdentityToken"),
        ("aud", json!("other"), "InvalidIdentityToken"),
        ("aud", json!([]), "InvalidIdentityToken"),
        ("aud", json!("STS.amazonaws.com"), "InvalidIdentityToken"),
        ("aud", Value::Null, "InvalidIdentityToken"),
        ("iss", json!(format!("{}/", site.provider.url())), "InvalidIdentityToken"),
        ("iss", json!("https://other.example"), "InvalidIdentityToken"),
        ("iss", json!(""), "InvalidIdentityToken"),
        ("sub", json!(""), "InvalidIdentityToken"),
        ("sub", json!(["project:a"]), "InvalidIdentityToken"),
        ("sub", json!("project:b"), "AccessDenied"),
        ("sub", json!("PROJECT:a"), "AccessDenied"),
        ("ref", json!("other"), "AccessDenied"),
        ("ref", Value::Null, "AccessDenied"),
        ("ref", json!({"main": "main"}), "AccessDenied"),
    ] {
        let token = site.pair.token(&site.claims_with(name, value.clone()));
        assert_eq!(site.code(&token), code, "{name} {value}");
    }
    let asked = site.provider.asked();
    assert_eq!(asked, ["/.well-known/openid-configuration", "/keys"], "no other address is asked");
    for (name, value, status, code) in [
        ("RoleArn", "arn:aws:iam::1:role/unknown", 403, "AccessDenied"),
        ("RoleArn", "ci", 400, "ValidationError"),
        ("RoleSessionName", "a/b", 400, "ValidationError"),
        ("DurationSeconds", "899", 400, "ValidationError"),
        ("DurationSeconds", "7201", 400, "ValidationError"),
        ("Policy", "{}", 400, "MalformedPolicyDocument"),
        ("Policy", "", 400, "MalformedPolicyDocument"),
        ("PolicyArns.member.1.arn", "arn:aws:iam::aws:policy/ReadOnlyAccess", 400, "ValidationError"),
        ("ProviderId", "www.amazon.com", 400, "ValidationError"),
    ] {
        let answer = site.ask(&site.token(), &[(name, value)]).send();
        assert_eq!((answer.status, answer.one("Code").as_deref()), (status, Some(code)), "{name}={value}");
    }
    assert_eq!(site.ask(&site.token(), &[("DurationSeconds", "7200")]).send().status, 200);
    assert_eq!(site.ask("", &[]).send().one("Code").as_deref(), Some("ValidationError"));
}

#[test]
fn each_issuer_is_good_for_the_roles_that_trust_it() {
    let pairs = [SigningPair::new("1"), SigningPair::new("1")];
    let providers = [0, 1].map(|n: usize| IdentityProvider::start(&[pairs[n].public()]));
    let urls = [0, 1].map(|n: usize| providers[n].url());
    let other_role = format!(
        "[[role]]\nname = \"pods\"\n[[role.web_identity]]\nissuer = {:?}\n\
         condition = '{{\"StringEquals\": {{\"jwt:sub\": \"project:a:main\"}}}}'\n",
        urls[1]
    );
    let server = Server::with_users(&users(&[(&urls[0], ""), (&urls[1], "")], &other_role), None);
    let [provider, other] = providers;
    let [pair, other_pair] = pairs;
    let site = Site { server, provider, pair };
    let of_other = |claims: Value| other_pair.token(&claims);
    let ask = |token: &str, role: &str| {
        let arn = format!("arn:aws:iam::000000000000:role/{role}");
        let answer = site.ask(token, &[("RoleArn", &*arn)]).send();
        answer.one("Code").unwrap_or_else(|| "OK".to_owned())
    };
    let claimed = site.claims_with("iss", json!(other.url()));
    assert_eq!(ask(&site.token(), "ci"), "OK");
    assert_eq!(ask(&site.token(), "pods"), "AccessDenied", "the same subject of another issuer");
    assert_eq!(ask(&of_other(claimed.clone()), "pods"), "OK");
    assert_eq!(ask(&of_other(claimed), "ci"), "AccessDenied");
    // An issuer signs for itself alone.
    assert_eq!(ask(&of_other(site.claims()), "ci"), "InvalidIdentityToken");
    let session = keys(&site.ask(&site.token(), &[]).send());
    let put = || site.server.request("PUT", "/b/a/x").in_session(&session).send();
    assert_eq!(put().status, 200);
    // With the issuer, and with the role, go its sessions.
    let without = users(&[(&other.url(), "")], "");
    site.server.authenticator.replace(Users::parse(&without).unwrap());
    put().is_error(400, "InvalidToken");
}

#[test]
fn keys_that_change_are_asked_for_once_in_a_while() {
    let site = Site::new();
    assert_eq!(site.code(&site.token()), "OK");
    assert_eq!(site.provider.asked().len(), 2);
    let newer = SigningPair::new("2");
    site.provider.show(&[newer.public()]);
    let newer_token = || newer.token(&site.claims());
    for _ in 0..5 {
        assert_eq!(site.code(&newer_token()), "InvalidIdentityToken", "the keys are a moment old");
    }
    assert_eq!(site.provider.asked().len(), 0);
    site.server.clock.advance(Duration::from_secs(10));
    assert_eq!(site.code(&newer_token()), "OK");
    assert_eq!(site.code(&site.token()), "InvalidIdentityToken", "the old key is not shown any more");
    assert_eq!(site.provider.asked().len(), 2);
    // After an hour they are asked for again, and an hour later they count no more.
    site.provider.set(Manner::Status(500));
    site.server.clock.advance(Duration::from_secs(60 * 60));
    assert_eq!(site.code(&newer_token()), "OK", "the provider is away for a while");
    assert_eq!(site.code(&newer_token()), "OK");
    assert_eq!(site.provider.asked().len(), 1, "the failure is kept");
    site.server.clock.advance(Duration::from_secs(60 * 60));
    for _ in 0..100 {
        assert_eq!(site.code(&newer_token()), "IDPCommunicationError", "no failures of the network");
    }
    site.provider.set(Manner::Honest);
    assert_eq!(site.code(&newer_token()), "IDPCommunicationError", "the failure is kept");
    site.server.clock.advance(Duration::from_secs(10));
    assert_eq!(site.code(&newer_token()), "OK");
}

#[test]
fn a_provider_that_lies_or_fails_gives_no_keys_away() {
    let elsewhere = SigningPair::new("1");
    let other = IdentityProvider::start(&[elsewhere.public()]);
    for manner in [
        Manner::Status(404),
        Manner::Status(500),
        Manner::Redirect(format!("{}/keys", other.url())),
        Manner::Calls(other.url()),
        Manner::KeysAt("http://192.0.2.1/keys".to_owned()),
        Manner::KeysAt("file:///etc/passwd".to_owned()),
        Manner::KeysAt(String::new()),
        Manner::Text(String::new()),
        Manner::Text("{}".to_owned()),
        Manner::Text("[".repeat(100_000)),
        Manner::Text(json!({"keys": 1}).to_string()),
        Manner::Endless { slowly: false },
    ] {
        let site = Site::new();
        site.provider.set(manner.clone());
        assert_eq!(site.code(&elsewhere.token(&site.claims())), "IDPCommunicationError");
        assert_eq!(site.code(&site.token()), "IDPCommunicationError");
        site.provider.set(Manner::Honest);
        assert_eq!(site.code(&site.token()), "IDPCommunicationError", "the failure is kept");
        site.server.clock.advance(Duration::from_secs(10));
        assert_eq!(site.code(&site.token()), "OK");
    }
    assert_eq!(other.asked(), Vec::<String>::new());
}

#[test]
fn one_request_asks_a_provider_and_others_hold_no_worker() {
    let log = Arc::new(MemoryLog::default());
    let site = Site::with(Some(log.clone()));
    site.provider.set(Manner::Held);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| site.code(&site.token()));
        site.provider.await_held();
        // More than there are workers: together they wait no longer than one. They are no failures of
        // their network, since their tokens are not judged.
        let token = SigningPair::new("unknown").token(&site.claims());
        for _ in 0..=250 {
            assert_eq!(site.code(&token), "IDPCommunicationError");
        }
        assert_eq!(site.code(&site.token()), "IDPCommunicationError");
        site.provider.release();
        assert_eq!(first.join().unwrap(), "OK");
    });
    assert_eq!(log.taken().len(), 1, "what is not judged is not recorded");
    assert_eq!(site.code(&site.token()), "OK");
    assert_eq!(site.provider.asked().len(), 2, "it was asked once");
    // Who has a known key does not wait while the provider is asked for an unknown one.
    site.server.clock.advance(Duration::from_secs(10));
    site.provider.set(Manner::Held);
    std::thread::scope(|scope| {
        let unknown = SigningPair::new("2").token(&site.claims());
        let site = &site;
        let first = scope.spawn(move || site.code(&unknown));
        site.provider.await_held();
        assert_eq!(site.code(&site.token()), "OK");
        assert_eq!(site.code(&SigningPair::new("3").token(&site.claims())), "IDPCommunicationError");
        site.provider.release();
        assert_eq!(first.join().unwrap(), "InvalidIdentityToken");
    });
}

#[test]
fn a_provider_that_never_ends_its_answer_is_left() {
    let site = Site::new();
    site.provider.set(Manner::Endless { slowly: true });
    assert_eq!(site.code(&site.token()), "IDPCommunicationError");
    assert_eq!(site.provider.asked().len(), 1);
}

#[test]
fn a_network_that_fails_often_is_turned_away_and_others_are_not() {
    let log = Arc::new(MemoryLog::default());
    let site = Site::with(Some(log.clone()));
    let ask = |token: &str, n: u8| site.ask(token, &[]).peer(peer(n)).respond().status;
    for _ in 0..200 {
        assert_eq!(ask(&site.token(), 1), 200, "successes are free");
    }
    log.taken();
    for _ in 0..300 {
        assert_eq!(ask("a.b.c", 1), 400);
    }
    assert_eq!(log.taken().len(), 60, "what is turned away is not recorded");
    assert_eq!(ask(&site.token(), 1), 400);
    assert_eq!(ask(&site.token(), 2), 200);
    site.server.clock.advance(Duration::from_secs(60));
    assert_eq!(ask(&site.token(), 1), 200);
}

#[test]
fn keys_come_from_a_file_where_the_provider_is_not_to_be_asked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keys.json");
    let pair = SigningPair::new("1");
    let show =
        |pair: &SigningPair| std::fs::write(&path, json!({"keys": [pair.public()]}).to_string()).unwrap();
    let provider = IdentityProvider::start(&[]);
    let rest = format!("keys_file = {:?}", path.to_str().unwrap());
    let server = Server::with_users(&users(&[(&provider.url(), &rest)], ""), None);
    let site = Site { server, provider, pair };
    assert_eq!(site.code(&site.token()), "IDPCommunicationError", "there is no file");
    site.server.clock.advance(Duration::from_secs(10));
    show(&site.pair);
    assert_eq!(site.code(&site.token()), "OK");
    let newer = SigningPair::new("1");
    show(&newer);
    site.server.clock.advance(Duration::from_secs(10));
    assert_eq!(site.code(&site.token()), "InvalidIdentityToken");
    assert_eq!(site.code(&newer.token(&site.claims())), "OK");
    // What cannot be read has no keys, whatever was read before.
    for text in [None, Some(String::new()), Some("{}".to_owned()), Some(" ".repeat(300_000))] {
        show(&newer);
        site.server.clock.advance(Duration::from_secs(10));
        assert_eq!(site.code(&newer.token(&site.claims())), "OK");
        match &text {
            None => std::fs::remove_file(&path).unwrap(),
            Some(text) => std::fs::write(&path, text).unwrap(),
        }
        site.server.clock.advance(Duration::from_secs(10));
        assert_eq!(site.code(&newer.token(&site.claims())), "IDPCommunicationError", "{text:.9?}");
    }
    assert_eq!(site.provider.asked(), Vec::<String>::new());
}

#[test]
fn claims_that_do_not_fit_are_refused_and_others_are_left_out() {
    let site = Site::new();
    let many: Vec<_> = (0..400).map(|n| format!("group-{n:06}")).collect();
    let answer = site.ask(&site.pair.token(&site.claims_with("groups", json!(many))), &[]).send();
    assert_eq!(answer.one("Code").as_deref(), Some("PackedPolicyTooLarge"), "a policy names the groups");
    let long = site.claims_with("unused", json!("x".repeat(20_000)));
    assert_eq!(site.code(&site.pair.token(&long)), "OK");
}

#[test]
fn attempts_are_in_the_audit_log_and_tokens_are_not() {
    let log = Arc::new(MemoryLog::default());
    let site = Site::with(Some(log.clone()));
    let token = site.token();
    let session = site.keys();
    let foreign = site.pair.token(&site.claims_with("sub", json!("project:b")));
    assert_eq!(site.code(&foreign), "AccessDenied");
    let lines = log.taken();
    let told: Vec<_> = lines.iter().map(|it| (it.action.as_str(), it.user.as_deref(), it.status)).collect();
    let action = "AssumeRoleWithWebIdentity";
    assert_eq!(told, [(action, None, Some(200)), (action, None, Some(403))]);
    let state = lines[0].after.as_ref().unwrap();
    assert!(state.contains(&session.access_key) && state.contains("project:a:main"), "{state}");
    assert!(state.contains(&site.provider.url()), "{state}");
    let all = format!("{lines:?}");
    let signature = token.rsplit('.').next().unwrap();
    assert!(!all.contains(signature) && !all.contains(session.token.as_ref().unwrap()));
    log.full.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(site.code(&token), "ServiceUnavailable");
}
