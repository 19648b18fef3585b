//! Attacks, none of which may succeed.

use siltstone::console::ConsoleAccess;
use siltstone::s3::Method;

use super::harness::{Answer, Site};
use crate::support::users::{access_key, secret_key};

const SCRIPT: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>";

#[test]
fn pages_of_other_origins_change_nothing() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let attacks: &[&[(&str, &str)]] = &[
        // A page stored in a bucket, opened at another port of the same host, is of the same site.
        &[("sec-fetch-site", "same-site"), ("origin", "http://127.0.0.1:9001")],
        &[("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")],
        &[("sec-fetch-site", "none")],
        &[("origin", "http://127.0.0.1:9001")],
        &[("origin", "null")],
        &[],
    ];
    for lines in attacks {
        let answer = browser.post_with("create-bucket", &[("name", "made")], lines);
        assert_eq!(answer.status, 403, "{lines:?}");
        let answer = browser.send(Method::Delete, "s3?bucket=b", lines, b"");
        assert_eq!(answer.status, 403, "{lines:?}");
        let answer = browser.post_with("sign-out", &[], lines);
        assert_eq!(answer.status, 403, "{lines:?}");
    }
    assert!(!browser.get("").text().contains("made") && browser.get("bucket?name=b").status == 200);
    let own = [("origin", "http://127.0.0.1:9000")];
    assert_eq!(browser.post_with("create-bucket", &[("name", "made")], &own).status, 303);
    // A change by GET does not exist.
    assert_eq!(browser.get("create-bucket?name=other").status, 405);
    assert_eq!(browser.get("delete?bucket=b&object=k&confirmed=1").status, 405);
}

#[test]
fn somebody_else_cannot_sign_the_browser_in() {
    let site = Site::new();
    let mut browser = site.browser();
    let key = access_key("reader");
    let secret = secret_key("reader");
    let fields = [("access_key", &*key), ("secret_key", &*secret)];
    let answer = browser.post_with("sign-in", &fields, &[("sec-fetch-site", "cross-site")]);
    assert_eq!((answer.status, answer.header("Set-Cookie")), (403, None));
}

#[test]
fn a_session_that_the_browser_was_given_before_is_not_adopted() {
    let site = Site::new();
    let mut browser = site.browser();
    browser.cookie = Some("siltstone-console=chosen-by-an-attacker".to_owned());
    browser.sign_in(&access_key("owner"), &secret_key("owner"));
    assert_ne!(browser.cookie.as_deref(), Some("siltstone-console=chosen-by-an-attacker"));
    browser.cookie = Some("siltstone-console=chosen-by-an-attacker".to_owned());
    assert_eq!(browser.get("").status, 401);
}

#[test]
fn redirects_lead_to_no_other_site() {
    let site = Site::new();
    for next in [
        "//evil.example/",
        "https://evil.example",
        "/-/console/../../b/page.html",
        "/-/console/%2e%2e/%2e%2e/b/page.html",
        "/-/console/%252e%252e/%252e%252e/b/evil",
        "javascript:alert(1)",
    ] {
        let key = access_key("owner");
        let secret = secret_key("owner");
        let fields = [("access_key", &*key), ("secret_key", &*secret), ("next", next)];
        let answer = site.browser().post("sign-in", &fields);
        assert!(answer.status == 200 && answer.text().contains("url=/-/console/\""), "{}", answer.text());
        assert!(!answer.text().contains("evil") && !answer.text().contains("javascript:"));
    }
}

#[test]
fn plain_http_from_other_hosts_is_refused() {
    let site = Site::new();
    let mut browser = site.browser();
    browser.peer = ([192, 0, 2, 7], 5).into();
    let answer = browser.sign_in(&access_key("owner"), &secret_key("owner"));
    assert!(answer.status == 403 && answer.text().contains("--console-insecure"), "{}", answer.text());
    // The page of the refusal has its style, and no form can be sent to it.
    let style = answer.links("/-/console/assets/").into_iter().find(|link| link.ends_with(".css")).unwrap();
    assert_eq!(browser.get(&style).status, 200);
    assert_eq!(browser.send(Method::Post, &style, &[], b"").status, 403);
    // A proxy on this host forwards for others.
    let mut browser = site.signed_in("owner");
    let forwarded = [("x-forwarded-for", "192.0.2.7")];
    assert_eq!(browser.send(Method::Get, "", &forwarded, b"").status, 403);
    let site = Site::with_access(ConsoleAccess::Insecure);
    let mut browser = site.browser();
    browser.peer = ([192, 0, 2, 7], 5).into();
    assert_eq!(browser.sign_in(&access_key("owner"), &secret_key("owner")).status, 200);
}

#[test]
fn stored_documents_never_act_as_a_page_of_the_console() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let stored = [("content-type", "text/html"), ("content-disposition", "inline")];
    browser.put("b", "page.html", &stored, b"<script>alert(1)</script>");
    for page in ["content?bucket=b&key=page.html", "s3?bucket=b&key=page.html"] {
        let answer = browser.get(page);
        assert_eq!(answer.status, 200);
        let disposition = answer.header("Content-Disposition").unwrap();
        assert!(disposition.starts_with("attachment"), "{disposition}");
        assert_eq!(answer.header("Content-Security-Policy"), Some("default-src 'none'; sandbox"));
        assert_eq!(answer.header("X-Content-Type-Options"), Some("nosniff"));
    }
    let overridden = "response-content-disposition=inline&response-content-type=text%2Fhtml";
    let answer = browser.get(&format!("content?bucket=b&key=page.html&{overridden}"));
    assert!(answer.header("Content-Disposition").unwrap().starts_with("attachment"));
    assert_eq!(answer.header("Content-Security-Policy"), Some("default-src 'none'; sandbox"));
}

#[test]
fn names_and_values_are_text_and_nothing_else() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let key = format!("{SCRIPT}/{SCRIPT}");
    let lines = [("x-amz-meta-note", SCRIPT), ("content-type", SCRIPT)];
    browser.put("b", &key, &lines, b"x");
    let shown = |answer: &Answer| {
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(
            !answer.text().contains("<script>") && !answer.text().contains("<img src=x"),
            "{}",
            answer.text()
        );
        assert!(answer.text().contains("&#60;script&#62;"), "{}", answer.text());
    };
    shown(&browser.get("bucket?name=b"));
    shown(&browser.get("bucket?name=b&search=%3Cscript%3E"));
    let mut page = browser.get("bucket?name=b");
    while page.links("/-/console/object?").is_empty() {
        let folder = page.links("/-/console/bucket?name=b&prefix=").pop().unwrap();
        page = browser.get(&folder);
        shown(&page);
    }
    let object = &page.links("/-/console/object?")[0];
    shown(&browser.get(object));
    let id =
        &page.text().split("name=\"object\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    shown(&browser.post("delete", &[("bucket", "b"), ("object", id)]));
    let refused = browser.get("bucket?name=%3Cscript%3E");
    assert!(
        (400..500).contains(&refused.status) && !refused.text().contains("<script>"),
        "{}",
        refused.text()
    );
}

#[test]
fn marks_of_direction_and_control_characters_are_visible() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.put("b", "photo\u{202e}gnp.exe", &[], b"x");
    browser.put("b", "two\nlines\u{1}", &[], b"x");
    let page = browser.get("bucket?name=b");
    assert!(page.text().contains("photo⟨U+202E⟩gnp.exe") && page.text().contains("two⟨U+000A⟩lines⟨U+0001⟩"));
    for object in page.links("/-/console/object?") {
        assert_eq!(browser.get(&object).status, 200, "{object}");
    }
}

#[test]
fn a_user_sees_and_does_no_more_than_its_grants() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    owner.post("create-bucket", &[("name", "private")]);
    owner.put("private", "k", &[], b"secret bytes");
    owner.put("b", "k", &[], b"shared bytes");
    let mut reader = site.signed_in("reader");
    let home = reader.get("");
    assert!(home.status == 200 && !home.text().contains("private"), "{}", home.text());
    for page in
        ["bucket?name=private", "object?bucket=private&key=k", "content?bucket=private&key=k", "state"]
    {
        let answer = reader.get(page);
        assert!(answer.status == 403 && !answer.text().contains("secret bytes"), "{page}: {}", answer.text());
    }
    assert_eq!(reader.get("content?bucket=b&key=k").body, b"shared bytes");
    assert_eq!(reader.s3(Method::Put, "bucket=b&key=k", &[], b"x").status, 403);
    assert_eq!(reader.post("create-bucket", &[("name", "mine")]).status, 403);
    let answer = reader.post("delete", &[("bucket", "b"), ("object", "k"), ("confirmed", "1")]);
    assert_eq!(answer.status, 403, "{}", answer.text());
    let answer = reader.post("share", &[("bucket", "private"), ("key", "k"), ("expires", "3600")]);
    assert_eq!(answer.status, 403);
    assert_eq!(owner.get("content?bucket=b&key=k").body, b"shared bytes");
}

#[test]
fn strangers_read_nothing() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    owner.put("b", "k", &[], b"secret bytes");
    let mut stranger = site.browser();
    for page in [
        "bucket?name=b",
        "object?bucket=b&key=k",
        "content?bucket=b&key=k",
        "s3?bucket=b&key=k",
        "state",
        "outbound",
        "activity",
        "audit",
    ] {
        let answer = stranger.get(page);
        assert!(answer.status == 401 && !answer.text().contains("secret bytes"), "{page}: {}", answer.text());
    }
    assert_eq!(stranger.s3(Method::Put, "bucket=b&key=k", &[], b"x").status, 401);
    assert_eq!(stranger.post("create-bucket", &[("name", "made")]).status, 401);
}

#[test]
fn every_response_is_guarded() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.put("b", "k", &[], b"x");
    for page in [
        "",
        "bucket?name=b",
        "object?bucket=b&key=k",
        "connect",
        "state",
        "outbound",
        "activity",
        "audit",
        "nothing",
        "bucket?name=none",
        "s3?bucket=b",
    ] {
        let answer = browser.get(page);
        let policy = answer.header("Content-Security-Policy").unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{page}: {policy}");
        for (name, value) in [
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Cache-Control", "no-store"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{page}: {name}");
        }
        assert!(answer.header("Access-Control-Allow-Origin").is_none());
        if answer.header("Content-Type").is_some_and(|it| it.starts_with("text/html")) {
            let text = answer.text();
            assert!(
                !text.contains(" style=") && !text.contains(" onclick=") && !text.contains("<script>"),
                "{page}"
            );
        }
    }
}

#[test]
fn hostile_forms_and_addresses_get_an_answer() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    for page in [
        "bucket",
        "bucket?name=%ff",
        "bucket?name=b&after=nonsense",
        "bucket?name=b&versions=1&after=k&version=nonsense",
        "object?bucket=b",
        "object?bucket=b&key=",
        "content?key=k",
        "content?bucket=%2E%2E&key=k",
        "assets/x",
        "assets/../../Cargo.toml",
        "s3?bucket=b&key=%00",
        "s3",
    ] {
        let answer = browser.get(page);
        assert!((200..500).contains(&answer.status), "{page}: {}", answer.status);
    }
    let long = "x".repeat(2 << 20);
    assert_eq!(browser.post("create-bucket", &[("name", &long)]).status, 413);
    let mut stranger = site.browser();
    assert_eq!(stranger.post("sign-in", &[("access_key", &long[..5_000])]).status, 413);
    let lines = [("sec-fetch-site", "same-origin"), ("content-type", "multipart/form-data; boundary=x")];
    assert_eq!(browser.send(Method::Post, "delete", &lines, b"--x").status, 415);
    let lines = [("sec-fetch-site", "same-origin"), ("content-type", "application/x-www-form-urlencoded")];
    for body in [&b"object=%"[..], b"\xff", b"object=%ff&bucket=b"] {
        assert_eq!(browser.send(Method::Post, "delete", &lines, body).status, 400);
    }
    assert_eq!(browser.send(Method::Post, "s3?bucket=b", &lines, b"").status, 405);
}
