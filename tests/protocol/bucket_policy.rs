//! Bucket policies: the operations, and what a policy allows and denies.

use std::fmt::Write as _;

use super::*;

/// A statement about objects, to which `rest` adds.
fn statement(effect: &str, principal: &str, actions: &str, resources: &str, rest: &str) -> String {
    let principal =
        if principal == "*" { r#""*""#.to_owned() } else { format!(r#"{{"AWS": "{principal}"}}"#) };
    let list = |texts: &str, prefix: &str| {
        texts.split(' ').map(|text| format!(r#""{prefix}{text}""#)).collect::<Vec<_>>().join(", ")
    };
    let actions = list(actions, "s3:");
    let resources = list(resources, "arn:aws:s3:::");
    format!(
        r#"{{"Effect": "{effect}", "Principal": {principal}, "Action": [{actions}], "Resource": [{resources}]{rest}}}"#
    )
}

fn policy(statements: &[String]) -> String {
    format!(r#"{{"Version": "2012-10-17", "Statement": [{}]}}"#, statements.join(", "))
}

fn condition(text: &str) -> String {
    format!(r#", "Condition": {{{text}}}"#)
}

fn set(server: &Server, statements: &[String]) {
    let answer = server.request("PUT", "/b?policy").body(policy(statements).as_bytes()).send();
    assert_eq!((answer.status, answer.text()), (204, ""), "{statements:?}");
}

/// A server with a user `bob`, who may do nothing of use here.
fn with_bob() -> Server {
    Server::with_grants(&[("bob", &["GetObject"], &["elsewhere/*"])])
}

fn anonymous(server: &Server, method: &str, target: &str) -> Answer {
    server.request(method, target).anonymous().send()
}

#[test]
fn a_policy_comes_back_as_it_was_written() {
    let server = with_bob();
    let text = format!(" {}\n", policy(&[statement("Allow", "*", "GetObject", "b/*", "")]));
    server.get("/b?policy").is_error(404, "NoSuchBucketPolicy");
    server.get("/b?policyStatus").is_error(404, "NoSuchBucketPolicy");
    let put = server.request("PUT", "/b?policy").body(text.as_bytes()).send();
    assert_eq!((put.status, put.text()), (204, ""));
    let got = server.get("/b?policy");
    assert_eq!(
        (got.status, got.text(), got.header("Content-Type")),
        (200, text.as_str(), Some("application/json"))
    );
    assert_eq!(server.get("/b?policyStatus").one("IsPublic").as_deref(), Some("true"));
    set(&server, &[statement("Allow", "bob", "GetObject", "b/*", "")]);
    assert_eq!(server.get("/b?policyStatus").one("IsPublic").as_deref(), Some("false"));
    assert_eq!(server.delete("/b?policy").status, 204);
    assert_eq!(server.delete("/b?policy").status, 204, "also where there is none");
    server.get("/b?policy").is_error(404, "NoSuchBucketPolicy");
    for (method, query) in
        [("GET", "policy"), ("DELETE", "policy"), ("GET", "policyStatus"), ("PUT", "policy")]
    {
        let asked = server.request(method, &format!("/absent?{query}"));
        let body = if method == "PUT" { text.as_bytes() } else { b"" };
        asked.body(body).send().is_error(404, "NoSuchBucket");
    }
}

#[test]
fn a_policy_that_is_not_understood_is_refused_by_name_and_changes_nothing() {
    let server = with_bob();
    let good = policy(&[statement("Allow", "bob", "GetObject", "b/*", "")]);
    assert_eq!(server.request("PUT", "/b?policy").body(good.as_bytes()).send().status, 204);
    for (text, named) in [
        (String::new(), "EOF"),
        ("<Policy/>".to_owned(), "expected value"),
        (good.replace("Allow", "Permit"), "`Effect`"),
        (good.replace("s3:GetObject", "s3:GetObjects"), "s3:GetObjects"),
        (good.replace("arn:aws:s3:::b/", "arn:aws:s3:::c/"), "arn:aws:s3:::c/"),
        (good.replace("\"bob\"", "\"arn:aws:iam::1:role/r\""), "there is no role `r`"),
        (good.replace("\"bob\"", "\"arn:aws:iam::1:group/r\""), "arn:aws:iam::1:group/r"),
        (good.replace(r#""Principal""#, r#""NotPrincipal""#), "`NotPrincipal`"),
        (
            policy(&[statement(
                "Deny",
                "*",
                "GetObject",
                "b/*",
                &condition(r#""ArnLike": {"aws:SourceArn": "x"}"#),
            )]),
            "six components",
        ),
        (
            policy(&[statement(
                "Deny",
                "*",
                "GetObject",
                "b/*",
                &condition(r#""StringEquals": {"s3:prefix": "x"}"#),
            )]),
            "s3:prefix",
        ),
        (good.replacen('{', &format!("{{{}", " ".repeat(20 * 1024)), 1), "20480 bytes"),
        ("[".repeat(20_000), "recursion"),
        (format!("{good}{good}"), "trailing"),
        ("\u{0}".repeat(100), "expected value"),
    ] {
        let answer = server.request("PUT", "/b?policy").body(text.as_bytes()).send();
        answer.is_error(400, "MalformedPolicy");
        let message = answer.one("Message").unwrap();
        assert!(message.contains(named), "{message} for {text}");
    }
    server.request("PUT", "/b?policy").unframed().send().is_error(411, "MissingContentLength");
    let wrong = server
        .request("PUT", "/b?policy")
        .body(good.as_bytes())
        .header("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==");
    wrong.send().is_error(400, "BadDigest");
    assert_eq!(server.get("/b?policy").text(), good);
}

#[test]
fn a_policy_above_a_mebibyte_is_refused_unread() {
    let server = Server::new();
    server.request("PUT", "/b?policy").announcing(2 << 20).send().is_error(400, "MaxMessageLengthExceeded");
}

#[test]
fn a_public_prefix_is_read_by_everyone_and_tells_nothing_else() {
    let server = Server::new();
    for key in ["/b/pub/a", "/b/private"] {
        server.put(key, b"x");
    }
    set(&server, &[statement("Allow", "*", "GetObject", "b/pub/*", "")]);
    assert_eq!(anonymous(&server, "GET", "/b/pub/a").text(), "x");
    assert_eq!(anonymous(&server, "HEAD", "/b/pub/a").status, 200);
    anonymous(&server, "HEAD", "/b/private").is_bare(403);
    for (method, target) in [
        ("GET", "/b/private"),
        // A missing key looks like one that may not be read.
        ("GET", "/b/pub/absent"),
        ("GET", "/b/pub/a?versionId=null"),
        ("GET", "/b/pub/a?tagging"),
        ("GET", "/b"),
        ("GET", "/b?list-type=2&prefix=pub/"),
        ("GET", "/b?policy"),
        ("GET", "/"),
        ("PUT", "/b/pub/a"),
        ("DELETE", "/b/pub/a"),
        ("POST", "/b/pub/a?uploads"),
        ("PUT", "/new-bucket"),
    ] {
        anonymous(&server, method, target).is_error(403, "AccessDenied");
    }
    set(&server, &[statement("Allow", "*", "GetObject ListBucket", "b b/*", "")]);
    anonymous(&server, "GET", "/b/pub/absent").is_error(404, "NoSuchKey");
    assert_eq!(anonymous(&server, "GET", "/b").all("Key"), ["private", "pub/a"]);
    assert_eq!(anonymous(&server, "HEAD", "/b").status, 200);
}

#[test]
fn a_denial_wins_over_the_users_file_but_not_over_the_care_of_the_policy() {
    let server = Server::with_grants(&[
        ("ann", &["*"], &["@owned"]),
        ("ann", &["CreateBucket"], &["*"]),
        ("bob", &["*"], &["b", "b/*"]),
    ]);
    server.put("/b/k", b"x");
    set(&server, &[statement("Deny", "*", "*", "b b/*", "")]);
    // `owner` owns the bucket, `other` is an administrator, `bob` neither.
    for user in ["owner", "other", "bob"] {
        let ask = |method: &str, target: &str| server.request(method, target).by(user).send();
        ask("GET", "/b/k").is_error(403, "AccessDenied");
        ask("GET", "/b").is_error(403, "AccessDenied");
        ask("PUT", "/b/k").is_error(403, "AccessDenied");
        ask("DELETE", "/b").is_error(403, "AccessDenied");
        ask("PUT", "/b?publicAccessBlock").is_error(403, "AccessDenied");
        assert_eq!(ask("GET", "/b?policy").status, if user == "bob" { 403 } else { 200 }, "{user}");
        let put = server.request("PUT", "/b?policy").by(user);
        let put = put.body(policy(&[statement("Deny", "*", "*", "b b/*", "")]).as_bytes()).send();
        assert_eq!(put.status, if user == "bob" { 403 } else { 204 }, "{user}");
    }
    server.request("DELETE", "/b?policy").by("bob").send().is_error(403, "AccessDenied");
    server.request("DELETE", "/b?policy").by("ann").send().is_error(403, "AccessDenied");
    assert_eq!(server.request("DELETE", "/b?policy").by("other").send().status, 204);
    assert_eq!(server.request("GET", "/b/k").by("bob").send().text(), "x");
}

#[test]
fn an_owner_who_is_no_administrator_keeps_the_policy_too() {
    let server = Server::with_grants(&[
        ("ann", &["*"], &["@owned"]),
        ("ann", &["CreateBucket"], &["*"]),
        ("bob", &["*"], &["anns", "anns/*"]),
    ]);
    let ask = |method: &str, target: &str, user: &str| server.request(method, target).by(user).send();
    assert_eq!(ask("PUT", "/anns", "ann").status, 200);
    let closed = policy(&[statement("Deny", "*", "*", "anns anns/*", "")]);
    let put =
        |user: &str| server.request("PUT", "/anns?policy").by(user).body(closed.as_bytes()).send().status;
    assert_eq!([put("ann"), put("ann"), put("bob")], [204, 204, 403]);
    ask("GET", "/anns", "ann").is_error(403, "AccessDenied");
    assert_eq!(ask("GET", "/anns?policy", "ann").text(), closed);
    ask("GET", "/anns?policyStatus", "ann").is_error(403, "AccessDenied");
    ask("DELETE", "/anns?policy", "bob").is_error(403, "AccessDenied");
    assert_eq!(ask("DELETE", "/anns?policy", "ann").status, 204);
    assert_eq!(ask("GET", "/anns", "ann").status, 200);
}

#[test]
fn a_version_is_allowed_by_its_id() {
    let server = Server::new();
    server.set_versioning("Enabled");
    let version = |answer: &Answer| answer.header("p-version-id").unwrap().to_owned();
    let old = version(&server.put("/b/k", b"old"));
    let new = version(&server.put("/b/k", b"new"));
    let named = condition(&format!(r#""StringEquals": {{"s3:VersionId": "{old}"}}"#));
    set(&server, &[statement("Allow", "*", "GetObjectVersion", "b/*", &named)]);
    let get = |version: &str| anonymous(&server, "GET", &format!("/b/k?versionId={version}")).status;
    assert_eq!([get(&old), get(&new)], [200, 403]);
    anonymous(&server, "GET", "/b/k").is_error(403, "AccessDenied");
}

#[test]
fn users_are_allowed_what_the_users_file_does_not_grant() {
    let server = Server::with_grants(&[("ann", &[], &["*"]), ("bob", &[], &["*"])]);
    server.put("/b/k", b"x");
    set(
        &server,
        &[
            statement("Allow", "arn:aws:iam::123456789012:user/ann", "GetObject PutObject", "b/*", ""),
            statement("Allow", "*", "PutObject", "b/home/${aws:username}/*", ""),
        ],
    );
    let ask = |user: &str, method: &str, target: &str| {
        server.request(method, target).by(user).body(b"").send().status
    };
    assert_eq!((ask("ann", "GET", "/b/k"), ask("bob", "GET", "/b/k")), (200, 403));
    assert_eq!((ask("ann", "PUT", "/b/new"), ask("bob", "PUT", "/b/new")), (200, 403));
    assert_eq!((ask("bob", "PUT", "/b/home/bob/x"), ask("bob", "PUT", "/b/home/ann/x")), (200, 403));
    anonymous(&server, "PUT", "/b/home//x").is_error(403, "AccessDenied");
    anonymous(&server, "PUT", "/b/home/anonymous/x").is_error(403, "AccessDenied");
}

#[test]
fn conditions_hold_for_the_request_that_is_made() {
    let server = Server::with_grants(&[("ann", &[], &["*"])]);
    server.put("/b/home/ann/k", b"x");
    let get = |referer: &str| {
        let asked = server.request("GET", "/b/home/ann/k").anonymous();
        if referer.is_empty() { asked.send().status } else { asked.header("Referer", referer).send().status }
    };
    set(
        &server,
        &[statement(
            "Allow",
            "*",
            "GetObject",
            "b/*",
            &condition(r#""StringLike": {"aws:Referer": "https://site.example/*"}"#),
        )],
    );
    assert_eq!([get("https://site.example/a"), get("https://evil.example/"), get("")], [200, 403, 403]);

    set(
        &server,
        &[statement(
            "Allow",
            "ann",
            "ListBucket",
            "b",
            &condition(
                r#""StringLike": {"s3:prefix": "home/${aws:username}/*"}, "NumericLessThanEquals": {"s3:max-keys": 10}, "StringEquals": {"s3:delimiter": "/"}"#,
            ),
        )],
    );
    let list =
        |query: &str| server.request("GET", &format!("/b?list-type=2&{query}")).by("ann").send().status;
    assert_eq!(list("prefix=home/ann/&delimiter=/&max-keys=10"), 200);
    for query in [
        "prefix=home/bob/&delimiter=/&max-keys=10",
        "delimiter=/&max-keys=10",
        "prefix=home/ann/&max-keys=10",
        "prefix=home/ann/&delimiter=/&max-keys=11",
        "prefix=home/ann/&delimiter=/",
    ] {
        assert_eq!(list(query), 403, "{query}");
    }

    let over_tls = condition(r#""Bool": {"aws:SecureTransport": "false"}"#);
    set(&server, &[statement("Deny", "*", "GetObject", "b/*", &over_tls)]);
    server.get("/b/home/ann/k").is_error(403, "AccessDenied");
    let later = condition(r#""DateGreaterThan": {"aws:CurrentTime": "2026-02-01T00:00:00Z"}"#);
    set(&server, &[statement("Deny", "*", "GetObject", "b/*", &later)]);
    assert_eq!(server.get("/b/home/ann/k").status, 200);
}

#[test]
fn who_may_list_a_prefix_learns_which_keys_are_missing_there() {
    let server = Server::with_grants(&[("ann", &["GetObject", "PutObject"], &["b/*"])]);
    let only_public = condition(r#""StringLike": {"s3:prefix": "public/*"}"#);
    set(&server, &[statement("Allow", "ann", "ListBucket", "b", &only_public)]);
    let ask = |target: &str| server.request("GET", target).by("ann").send();
    ask("/b/public/absent").is_error(404, "NoSuchKey");
    ask("/b/private/absent").is_error(403, "AccessDenied");
    // What a request for an object states counts for nothing.
    ask("/b/private/absent?prefix=public/").is_error(403, "AccessDenied");
    let head = |key: &str| server.request("HEAD", &format!("/b/{key}")).by("ann").send().status;
    assert_eq!((head("public/absent"), head("private/absent")), (404, 403));
    let copy = |source: &str| {
        server.request("PUT", "/b/copy").header("p-copy-source", format!("b/{source}")).by("ann").send()
    };
    copy("public/absent").is_error(404, "NoSuchKey");
    copy("private/absent").is_error(403, "AccessDenied");
    let replace = |key: &str| {
        let put = server.request("PUT", &format!("/b/{key}")).header("If-Match", "x");
        put.body(b"x").by("ann").send()
    };
    replace("public/absent").is_error(404, "NoSuchKey");
    replace("private/absent").is_error(403, "AccessDenied");
    let in_pages = condition(r#""NumericLessThanEquals": {"s3:max-keys": 10}"#);
    set(&server, &[statement("Allow", "ann", "ListBucket", "b", &in_pages)]);
    ask("/b/public/absent?max-keys=1").is_error(403, "AccessDenied");
    let not_private = condition(r#""StringNotLike": {"s3:prefix": "private/*"}"#);
    set(&server, &[statement("Allow", "ann", "ListBucket", "b", &not_private)]);
    ask("/b/public/absent").is_error(404, "NoSuchKey");
    ask("/b/private/absent").is_error(403, "AccessDenied");
}

#[test]
fn an_address_is_allowed_or_denied() {
    let server = Server::new();
    server.put("/b/k", b"x");
    let inside = condition(r#""IpAddress": {"aws:SourceIp": ["192.0.2.0/24", "2001:db8::/32"]}"#);
    let outside = condition(r#""NotIpAddress": {"aws:SourceIp": ["192.0.2.0/24", "2001:db8::/32"]}"#);
    let statuses = |signed: bool| {
        ["192.0.2.77:1", "[2001:db8::5]:1", "[::ffff:192.0.2.1]:1", "198.51.100.1:1"].map(|peer| {
            let asked = server.request("GET", "/b/k").peer(Some(peer.parse().unwrap()));
            if signed { asked.respond().status } else { asked.anonymous().respond().status }
        })
    };
    set(&server, &[statement("Allow", "*", "GetObject", "b/*", &inside)]);
    assert_eq!((statuses(false), statuses(true)), ([200, 200, 200, 403], [200; 4]));
    set(&server, &[statement("Deny", "*", "GetObject", "b/*", &outside)]);
    assert_eq!((statuses(false), statuses(true)), ([403; 4], [200, 200, 200, 403]));
    // Without an address nobody is inside.
    assert_eq!(server.request("GET", "/b/k").peer(None).respond().status, 403);
}

#[test]
fn a_presigned_url_is_denied_as_its_signer_is() {
    let server = Server::with_grants(&[]);
    server.put("/b/k", b"x");
    let get = || server.request("GET", "/b/k").presigned(&[]).send();
    assert_eq!(get().status, 200);
    set(&server, &[statement("Deny", "owner", "GetObject", "b/*", "")]);
    get().is_error(403, "AccessDenied");
    assert_eq!(server.request("GET", "/b/k").by("other").send().status, 200);
}

/// Puts a key with a tag `state`.
fn put_tagged(server: &Server, target: &str, state: &str) {
    let put =
        server.request("PUT", target).header("p-tagging", format!("state={state}")).body(state.as_bytes());
    assert_eq!(put.send().status, 200);
}

#[test]
fn tags_of_the_object_decide_about_the_version_that_is_read() {
    let server = Server::with_grants(&[("ann", &["*"], &["b", "b/*"])]);
    server.set_versioning("Enabled");
    put_tagged(&server, "/b/k", "open");
    put_tagged(&server, "/b/k", "secret");
    server.put("/b/untagged", b"x");
    let versions = server.get("/b?versions&prefix=k").all("VersionId");
    let opened = condition(r#""StringEquals": {"s3:ExistingObjectTag/state": "open"}"#);
    let secret = condition(r#""StringEquals": {"s3:ExistingObjectTag/state": "secret"}"#);
    set(
        &server,
        &[
            statement("Allow", "*", "GetObject GetObjectVersion", "b/*", &opened),
            statement("Deny", "ann", "GetObject GetObjectVersion", "b/*", &secret),
        ],
    );
    anonymous(&server, "GET", "/b/k").is_error(403, "AccessDenied");
    anonymous(&server, "GET", "/b/untagged").is_error(403, "AccessDenied");
    anonymous(&server, "GET", "/b/absent").is_error(403, "AccessDenied");
    let by_version = |version: &str| anonymous(&server, "GET", &format!("/b/k?versionId={version}")).status;
    assert_eq!([by_version(&versions[0]), by_version(&versions[1])], [403, 200]);
    let ann = |target: &str| server.request("GET", target).by("ann").send().status;
    assert_eq!(
        [ann("/b/k"), ann("/b/untagged"), ann(&format!("/b/k?versionId={}", versions[1]))],
        [403, 200, 200]
    );
    // The source of a copy is read too.
    let copy =
        |from: String| server.request("PUT", "/b/copy").by("ann").header("p-copy-source", from).send().status;
    assert_eq!([copy("/b/k".to_owned()), copy(format!("/b/k?versionId={}", versions[1]))], [403, 200]);
    put_tagged(&server, "/b/k", "open");
    assert_eq!(anonymous(&server, "GET", "/b/k").text(), "open");
}

#[test]
fn tags_of_the_request_decide_wherever_they_come_from() {
    let server = Server::with_grants(&[("ann", &["*"], &["b", "b/*"])]);
    server.put("/b/k", b"x");
    let red = condition(r#""StringEquals": {"s3:RequestObjectTag/color": "red"}"#);
    set(&server, &[statement("Deny", "ann", "PutObject PutObjectTagging", "b/*", &red)]);
    let put = |tags: &str| {
        server.request("PUT", "/b/new").by("ann").header("p-tagging", tags).body(b"x").send().status
    };
    assert_eq!([put("color=red"), put("color=blue"), put("")], [403, 200, 200]);
    let tag = |color: &str| {
        let body =
            format!("<Tagging><TagSet><Tag><Key>color</Key><Value>{color}</Value></Tag></TagSet></Tagging>");
        server.request("PUT", "/b/k?tagging").by("ann").body(body.as_bytes()).send()
    };
    tag("red").is_error(403, "AccessDenied");
    assert_eq!(server.get("/b/k?tagging").all("Value"), Vec::<String>::new());
    assert_eq!(tag("blue").status, 200);
    assert_eq!(server.get("/b/k?tagging").all("Value"), ["blue"]);
    server.request("PUT", "/b/k?tagging").by("ann").body(b"<Tagging>").send().is_error(400, "MalformedXML");
    server.request("PUT", "/b/k?tagging").by("ann").unframed().send().is_error(411, "MissingContentLength");
    let allowed = condition(r#""ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["color"]}"#);
    set(&server, &[statement("Allow", "*", "PutObjectTagging", "b/*", &allowed)]);
    let body = b"<Tagging><TagSet><Tag><Key>size</Key><Value>1</Value></Tag></TagSet></Tagging>";
    server.request("PUT", "/b/k?tagging").anonymous().body(body).send().is_error(403, "AccessDenied");
}

#[test]
fn tags_that_a_copy_keeps_are_those_of_the_request() {
    let server = Server::with_grants(&[
        ("ann", &["*"], &["b", "b/*"]),
        ("bob", &["GetObject", "GetObjectTagging"], &["b/*"]),
    ]);
    server.set_versioning("Enabled");
    for color in ["blue", "red"] {
        let put =
            server.request("PUT", "/b/k").header("p-tagging", format!("color={color}")).body(b"x").send();
        assert_eq!(put.status, 200);
    }
    server.put("/b/untagged", b"x");
    let blue = format!("/b/k?versionId={}", server.get("/b?versions&prefix=k").all("VersionId")[1]);
    let copy = |user: &str, source: &str, lines: &[(&str, &str)]| {
        let asked = server.request("PUT", "/b/copy").by(user).header("p-copy-source", source);
        lines.iter().fold(asked, |asked, (name, value)| asked.header(name, value)).send().status
    };
    let red = condition(r#""StringEquals": {"s3:RequestObjectTag/color": "red"}"#);
    for action in ["PutObject", "PutObjectTagging", "PutObject PutObjectTagging"] {
        set(&server, &[statement("Deny", "ann", action, "b/*", &red)]);
        assert_eq!(copy("ann", "/b/k", &[]), 403, "{action}");
        assert_eq!(
            copy("ann", "/b/k", &[("p-tagging", "color=blue")]),
            403,
            "{action}: the header is without effect"
        );
        assert_eq!([copy("ann", &blue, &[]), copy("ann", "/b/untagged", &[])], [200, 200]);
        let replaced = [("p-tagging-directive", "REPLACE"), ("p-tagging", "color=blue")];
        assert_eq!(copy("ann", "/b/k", &replaced), 200);
        let replaced = [("p-tagging-directive", "REPLACE"), ("p-tagging", "color=red")];
        assert_eq!(copy("ann", &blue, &replaced), 403);
    }
    // What allows a put with a tag allows a copy with it, and no other.
    set(&server, &[statement("Allow", "bob", "PutObject PutObjectTagging", "b/*", &red)]);
    assert_eq!(copy("bob", "/b/k", &[]), 200);
    assert_eq!(copy("bob", "/b/untagged", &[]), 403);
    assert_eq!(copy("bob", "/b/untagged", &[("p-tagging", "color=red")]), 403);
    assert_eq!(copy("bob", "/b/absent", &[]), 403);
}

#[test]
fn principals_are_users_of_the_server() {
    let server =
        Server::with_grants(&[("ann", &["GetObject"], &["b/*"]), ("anonymous", &["GetObject"], &["b/*"])]);
    let put = |principal: &str, effect: &str| {
        let text = policy(&[statement(effect, principal, "GetObject", "b/*", "")]);
        server.request("PUT", "/b?policy").body(text.as_bytes()).send()
    };
    for effect in ["Allow", "Deny"] {
        for known in ["ann", "arn:aws:iam::123456789012:user/ann", "*"] {
            assert_eq!(put(known, effect).status, 204, "{known}");
        }
        for unknown in ["nobody", "arn:aws:iam::123456789012:user/nobody", "Ann", "anonymous"] {
            let refused = put(unknown, effect);
            refused.is_error(400, "MalformedPolicy");
            assert!(refused.text().contains("Invalid principal in policy"), "{}", refused.text());
        }
    }
    let mixed = [
        statement("Allow", "ann", "GetObject", "b/*", ""),
        statement("Deny", "nobody", "GetObject", "b/*", ""),
    ];
    let refused = server.request("PUT", "/b?policy").body(policy(&mixed).as_bytes()).send();
    refused.is_error(400, "MalformedPolicy");
}

#[test]
fn a_block_of_public_policies_counts_all_networks_together() {
    let server = Server::new();
    let block = "<PublicAccessBlockConfiguration><BlockPublicPolicy>true</BlockPublicPolicy></PublicAccessBlockConfiguration>";
    assert_eq!(server.request("PUT", "/b?publicAccessBlock").body(block.as_bytes()).send().status, 200);
    let from = |networks: &[&str]| {
        let list = networks.iter().map(|network| format!("{network:?}")).collect::<Vec<_>>().join(",");
        statement(
            "Allow",
            "*",
            "GetObject",
            "b/*",
            &condition(&format!(r#""IpAddress": {{"aws:SourceIp": [{list}]}}"#)),
        )
    };
    let put = |statements: &[String]| {
        server.request("PUT", "/b?policy").body(policy(statements).as_bytes()).send().status
    };
    let eights: Vec<_> = (0..=255).map(|first| format!("{first}.0.0.0/8")).collect();
    let eights: Vec<_> = eights.iter().map(String::as_str).collect();
    assert_eq!(put(&[from(&["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "2001:db8::/32"])]), 204);
    for public in [
        vec![from(&["0.0.0.0/1", "128.0.0.0/1"])],
        vec![from(&eights)],
        vec![from(&eights[..128]), from(&eights[128..])],
        vec![from(&["::ffff:0:0/96"])],
        vec![from(&["::/0"])],
        vec![from(&["10.0.0.0/8"]), from(&["11.0.0.0/8"])],
        vec![statement(
            "Allow",
            "*",
            "GetObject",
            "b/*",
            &condition(r#""StringEquals": {"aws:username": "${aws:username}"}"#),
        )],
        vec![statement(
            "Allow",
            "*",
            "GetObject",
            "b/*",
            &condition(r#""NotIpAddress": {"aws:SourceIp": "192.0.2.0/24"}"#),
        )],
    ] {
        assert_eq!(put(&public), 403, "{public:?}");
    }
}

#[test]
fn networks_of_ipv4_in_the_form_of_ipv6_are_those_of_ipv4() {
    let server = Server::new();
    server.put("/b/k", b"x");
    let allow = |network: &str| {
        let from = condition(&format!(r#""IpAddress": {{"aws:SourceIp": "{network}"}}"#));
        policy(&[statement("Allow", "*", "GetObject", "b/*", &from)])
    };
    let put = |network: &str| server.request("PUT", "/b?policy").body(allow(network).as_bytes()).send();
    for (network, expected) in [
        ("::ffff:127.0.0.0/104", 200),
        ("::ffff:127.0.0.1", 200),
        ("::ffff:7f00:0/104", 200),
        ("::ffff:192.0.2.0/120", 403),
    ] {
        assert_eq!(put(network).status, 204, "{network}");
        assert_eq!(anonymous(&server, "GET", "/b/k").status, expected, "{network}");
    }
    put("::ffff:127.0.0.0/8").is_error(400, "MalformedPolicy");
}

#[test]
fn every_further_place_of_a_request_is_held_to_the_policy() {
    let server = Server::with_grants(&[("ann", &["*"], &["*"])]);
    for key in ["/b/open", "/b/kept", "/b/kept2"] {
        server.put(key, b"x");
    }
    server.put("/other-bucket", b"");
    set(&server, &[statement("Deny", "*", "GetObject DeleteObject GetObjectTagging", "b/kept*", "")]);
    let copy = |target: &str| {
        server.request("PUT", target).by("ann").header("p-copy-source", "/b/kept").send().status
    };
    assert_eq!([copy("/other-bucket/k"), copy("/b/open")], [403, 403]);
    let id = server.request("POST", "/other-bucket/up?uploads").send().one("UploadId").unwrap();
    assert_eq!(copy(&format!("/other-bucket/up?partNumber=1&uploadId={id}")), 403);
    let mut body = String::from("<Delete>");
    for key in ["open", "kept", "kept2", "absent"] {
        let _ = write!(body, "<Object><Key>{key}</Key></Object>");
    }
    body += "</Delete>";
    let deleted = delete::many_by(&server, "ann", &body);
    assert_eq!(deleted.all("Code"), ["AccessDenied", "AccessDenied"]);
    assert_eq!(server.get("/b").all("Key"), ["kept", "kept2"]);
    // A condition on the entity tag reads the object.
    let put = server.request("PUT", "/b/kept").header("If-Match", "\"x\"").body(b"y").send();
    put.is_error(403, "AccessDenied");
}

#[test]
fn a_policy_goes_with_its_bucket() {
    let server = Server::new();
    let text = policy(&[statement("Allow", "*", "GetObject ListBucket", "site site/*", "")]);
    let create = || assert_eq!(server.request("PUT", "/site").send().status, 200);
    create();
    assert_eq!(server.request("PUT", "/site?policy").body(text.as_bytes()).send().status, 204);
    assert_eq!(anonymous(&server, "GET", "/site").status, 200);
    anonymous(&server, "GET", "/b").is_error(403, "AccessDenied");
    assert_eq!(server.delete("/site").status, 204);
    anonymous(&server, "GET", "/site").is_error(403, "AccessDenied");
    create();
    server.get("/site?policy").is_error(404, "NoSuchBucketPolicy");
    anonymous(&server, "GET", "/site").is_error(403, "AccessDenied");
}

#[test]
fn headers_of_a_request_decide_whether_it_is_made() {
    let server = with_bob();
    server.put("/b/pub/a", b"a");
    server.put("/b/secret/a", b"a");
    let put = |headers: &[(&str, &str)]| {
        let mut asked = server.request("PUT", "/b/new").by("bob");
        for (name, value) in headers {
            asked = asked.header(name, value);
        }
        asked.body(b"").send().status
    };
    let copy = |source: &str| put(&[("p-copy-source", source)]);
    let allowing = |actions: &str, rest: &str| {
        let puts = statement("Allow", "bob", actions, "b/*", rest);
        set(&server, &[statement("Allow", "bob", "GetObject", "b/*", ""), puts]);
    };
    let denying = |rest: &str| {
        let all = statement("Allow", "bob", "GetObject PutObject PutObjectRetention", "b/*", "");
        set(&server, &[all, statement("Deny", "bob", "PutObject", "b/*", rest)]);
    };
    allowing("PutObject", &condition(r#""StringLike": {"s3:x-amz-copy-source": "b/pub/*"}"#));
    assert_eq!(["/b/pub/a", "b/pub/a", "b%2Fpub%2Fa"].map(copy), [200; 3]);
    assert_eq!(["/b/secret/a", "b/%73ecret/a"].map(copy), [403; 2]);
    assert_eq!(put(&[]), 403);
    denying(&condition(r#""StringLike": {"s3:x-amz-copy-source": "b/secret/*"}"#));
    assert_eq!(["b/secret/a", "/b/secret/a", "b/%73ecret/a", "b%2Fsecret%2Fa"].map(copy), [403; 4]);
    assert_eq!([copy("b/pub/a"), put(&[])], [200; 2]);
    denying(&condition(r#""StringEquals": {"s3:x-amz-metadata-directive": "REPLACE"}"#));
    let directed = |directive| put(&[("p-copy-source", "b/pub/a"), ("p-metadata-directive", directive)]);
    assert_eq!(["REPLACE", "COPY"].map(directed), [403, 200]);
    allowing("PutObject", &condition(r#""StringEquals": {"s3:x-amz-storage-class": "STANDARD"}"#));
    assert_eq!(["STANDARD", "STANDARD_IA"].map(|class| put(&[("p-storage-class", class)])), [200, 403]);
    assert_eq!(put(&[]), 403);
    denying(&condition(r#""Null": {"s3:x-amz-grant-full-control": "false"}"#));
    assert_eq!([put(&[("p-grant-full-control", "id=\"bob\"")]), put(&[])], [403, 200]);
    denying(&condition(r#""NumericGreaterThan": {"s3:object-lock-remaining-retention-days": "10"}"#));
    let locked =
        |until| put(&[("p-object-lock-mode", "GOVERNANCE"), ("p-object-lock-retain-until-date", until)]);
    let bucket_has_no_lock = 400;
    assert_eq!(["2026-02-11T12:00:00Z", "2026-02-10T12:00:00Z"].map(locked), [403, bucket_has_no_lock]);
    denying(&condition(r#""StringNotEquals": {"s3:ResourceAccount": "000000000000"}"#));
    assert_eq!(put(&[]), 200);
    let everyone = statement("Allow", "*", "GetObject", "b/*", "");
    let anonymous_ones = condition(r#""StringEquals": {"aws:PrincipalType": "Anonymous"}"#);
    set(&server, &[everyone, statement("Deny", "*", "GetObject", "b/*", &anonymous_ones)]);
    let by_bob = server.request("GET", "/b/pub/a").by("bob").send().status;
    assert_eq!((anonymous(&server, "GET", "/b/pub/a").status, by_bob), (403, 200));
}
