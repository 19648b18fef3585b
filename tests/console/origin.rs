//! What browsers may open at the origin of the console besides its pages.

use siltstone::console::ConsoleAccess;
use siltstone::s3::Method;

use super::harness::{Answer, Browser, HOST, Site};
use crate::support::signer::{HeaderLines, Signer, encoded};
use crate::support::users::{access_key, secret_key};

const SCRIPT: &[u8] = b"<script>alert(1)</script>";

fn reader() -> Signer {
    Signer {
        access_key: access_key("reader"),
        secret_key: secret_key("reader"),
        region: "eu",
        service: "s3",
        moment: "20260131T120000Z".to_owned(),
    }
}

fn host() -> HeaderLines {
    HeaderLines::of([("host".to_owned(), HOST.as_bytes())].into_iter())
}

/// The address of a path, presigned by version 4.
fn presigned(method: &str, path: &str, query: &str) -> String {
    format!("{path}?{}", reader().presigned_query(method, path, query, "X-Amz-", &[], &host()))
}

/// The nosniff, the policy and the disposition of an answer.
fn confinement(answer: &Answer) -> [Option<&str>; 3] {
    ["X-Content-Type-Options", "Content-Security-Policy", "Content-Disposition"]
        .map(|name| answer.header(name))
}

const CONFINED: [Option<&str>; 3] = [Some("nosniff"), Some("sandbox"), None];
const SAVED: [Option<&str>; 3] = [Some("nosniff"), Some("sandbox"), Some("attachment")];
const PASSIVE: [Option<&str>; 3] = [Some("nosniff"), None, None];

/// A site whose bucket `b` has objects of the name and the type `types`.
fn site_with(types: &[&str]) -> Site {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    for content_type in types {
        owner.put("b", content_type, &[("content-type", content_type)], SCRIPT);
    }
    drop(owner);
    site
}

fn open(browser: &mut Browser<'_>, content_type: &str) -> Answer {
    browser.get(&presigned("GET", &format!("/b/{}", encoded(content_type)), ""))
}

#[test]
fn a_link_to_an_object_runs_nothing_whatever_its_type() {
    let active =
        ["text/html", "TEXT/HTML; charset=utf-8", "image/svg+xml", "application/xhtml+xml", "text/xml"];
    let doubtful = [
        "image/png;x=y, text/html",
        "image/png, text/html",
        "multipart/x-mixed-replace",
        "html",
        "image/png;",
    ];
    let passive = ["image/png", "text/plain; charset=utf-8", "application/pdf", "video/mp4"];
    let site = site_with(&[&active[..], &doubtful, &passive].concat());
    let mut browser = site.browser();
    for (types, expected) in [(&active[..], CONFINED), (&doubtful[..], SAVED), (&passive[..], PASSIVE)] {
        for content_type in types {
            let answer = open(&mut browser, content_type);
            assert_eq!((answer.status, answer.header("Content-Type")), (200, Some(*content_type)));
            assert_eq!(confinement(&answer), expected, "{content_type}");
        }
    }
}

/// Types made of pieces that browsers read differently. Only those may pass unconfined that are
/// exactly one passive type.
#[test]
fn of_generated_types_only_single_passive_ones_are_not_confined() {
    let essences = ["image/png", "text/html", "image/svg+xml", "text/plain", "application/xml", ""];
    let ends = ["", ";", ";a=b", ";a=\"b\"", ";a=\"b", ";a", " ", "\t", "/"];
    let joins = ["", ",", ", ", ";a=b,", ";a=\",", " "];
    let mut types = Vec::new();
    for first in essences {
        for end in ends {
            for join in joins {
                for second in essences {
                    types.push(format!("{first}{end}{join}{second}"));
                }
            }
        }
    }
    let site = site_with(&["image/png"]);
    let mut browser = site.browser();
    let mut unconfined = 0;
    for content_type in types {
        let override_of = format!("response-content-type={}", encoded(&content_type));
        let answer = browser.get(&presigned("GET", "/b/image%2Fpng", &override_of));
        let [nosniff, policy, _] = confinement(&answer);
        assert_eq!((answer.status, nosniff), (200, Some("nosniff")), "{content_type}");
        if policy != Some("sandbox") {
            let whole = content_type.trim();
            let essence = whole.split(';').next().unwrap().trim();
            assert!(["image/png", "text/plain"].contains(&essence), "{content_type}");
            assert!(!content_type.contains(','), "{content_type}");
            unconfined += 1;
        }
    }
    assert!(unconfined > 0);
}

#[test]
fn every_way_to_open_an_answer_is_confined() {
    let site = site_with(&["text/html"]);
    let mut owner = site.signed_in("owner");
    owner.s3(Method::Put, "bucket=public", &[], b"");
    owner.put("public", "page", &[("content-type", "text/html")], SCRIPT);
    let etag = owner.s3(Method::Head, "bucket=public&key=page", &[], b"").header("ETag").unwrap().to_owned();
    let mut browser = site.browser();
    let expires = 1_769_860_800 + 600;
    let version_2 = reader().presigned_query_v2("GET", "/b/text%2Fhtml", "", expires, &[]);
    let links = [
        presigned("GET", "/b/text%2Fhtml", ""),
        format!("/b/text%2Fhtml?{}", version_2.trim_start_matches('&')),
        presigned("GET", "/b", ""),
        presigned("GET", "/b", "versions"),
        presigned("GET", "/b/missing", ""),
        "/public/page".to_owned(),
        "/public/missing".to_owned(),
        "/b/text%2Fhtml".to_owned(),
        "/".to_owned(),
        "/b/text%2Fhtml?versionId=%zz".to_owned(),
        "/%zz".to_owned(),
        "/-/nothing".to_owned(),
    ];
    for link in &links {
        let answer = browser.get(link);
        let [nosniff, policy, _] = confinement(&answer);
        assert_eq!(nosniff, Some("nosniff"), "{link}");
        let is_text = answer.header("Content-Type").is_some_and(|it| it.starts_with("text/plain"));
        assert_eq!(policy, (!is_text).then_some("sandbox"), "{link}");
    }
    let answer = browser.send(Method::Head, &presigned("HEAD", "/b/text%2Fhtml", ""), &[], b"");
    assert_eq!((answer.status, confinement(&answer)), (200, CONFINED));
    let answer = browser.send(Method::Get, "/public/page", &[("range", "bytes=0-3")], b"");
    assert_eq!((answer.status, confinement(&answer)), (206, CONFINED));
    let answer = browser.send(Method::Get, "/public/page", &[("if-none-match", &etag)], b"");
    assert_eq!((answer.status, confinement(&answer), answer.header("Content-Type")), (304, CONFINED, None));
    // Browsers send these by themselves.
    for credentials in ["Basic dXNlcjpzZWNyZXQ=", "Negotiate x", "Bearer x", "AWS4-HMAC-SHA256 Credential=x"]
    {
        let answer = browser.send(Method::Get, "/public/page", &[("authorization", credentials)], b"");
        assert_eq!(confinement(&answer), CONFINED, "{credentials}");
    }
    let form = [("content-type", "multipart/form-data; boundary=x")];
    let answer = browser.send(Method::Post, "/public", &form, b"--x--\r\n");
    assert_eq!((answer.status / 100, confinement(&answer)), (4, CONFINED));
}

#[test]
fn a_cached_image_stays_one_when_it_is_asked_for_again() {
    let site = site_with(&["image/png"]);
    let mut browser = site.browser();
    let etag = open(&mut browser, "image/png").header("ETag").unwrap().to_owned();
    let ask = |browser: &mut Browser<'_>, query: &str| {
        let link = presigned("GET", "/b/image%2Fpng", query);
        browser.send(Method::Get, &link, &[("if-none-match", &etag)], b"")
    };
    let answer = ask(&mut browser, "");
    assert_eq!((answer.status, confinement(&answer)), (304, PASSIVE));
    let answer = ask(&mut browser, "response-content-type=text%2Fhtml");
    assert_eq!((answer.status, confinement(&answer)), (304, CONFINED));
}

#[test]
fn requests_that_are_signed_in_headers_get_what_was_stored() {
    let site = site_with(&["text/html"]);
    let lines = [
        ("host".to_owned(), HOST.as_bytes()),
        ("x-amz-content-sha256".to_owned(), &b"UNSIGNED-PAYLOAD"[..]),
        ("x-amz-date".to_owned(), &b"20260131T120000Z"[..]),
    ];
    let lines = HeaderLines::of(lines.into_iter());
    let authorization = reader().authorization("GET", "/b/text%2Fhtml", "", &lines, b"UNSIGNED-PAYLOAD");
    let sent = [
        ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
        ("x-amz-date", "20260131T120000Z"),
        ("authorization", &authorization),
    ];
    let answer = site.browser().send(Method::Get, "/b/text%2Fhtml", &sent, b"");
    assert_eq!((answer.status, confinement(&answer)), (200, [None; 3]));
}

#[test]
fn without_the_console_links_are_not_confined() {
    let site = Site::with_access(ConsoleAccess::Off);
    let link = presigned("GET", "/b", "");
    let answer = site.browser().get(&link);
    assert_eq!((answer.status, confinement(&answer)), (200, [None; 3]));
}

#[test]
fn pages_run_the_scripts_that_they_name_and_no_object() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let mut nonces = Vec::new();
    for page in ["", "bucket?name=b", "users", "state", "nothing"] {
        let answer = browser.get(page);
        let policy = answer.header("Content-Security-Policy").unwrap();
        let (_, of_scripts) = policy.split_once("script-src 'nonce-").unwrap();
        let nonce = of_scripts.split('\'').next().unwrap();
        assert_eq!(of_scripts, format!("{nonce}'"), "{page}");
        assert!(answer.text().contains(&format!("<script type=\"module\" nonce=\"{nonce}\"")), "{page}");
        assert!(!nonces.contains(&nonce.to_owned()), "{page}");
        nonces.push(nonce.to_owned());
    }
    let other = browser.get("content?bucket=b&key=missing");
    assert!(!other.header("Content-Security-Policy").unwrap().contains("script-src"));
}
