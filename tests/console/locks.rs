//! The forms for retention and legal hold of a version.

use siltstone::s3::Method;

use super::harness::{Browser, Site};
use crate::support::users::user;

fn locked_bucket(browser: &mut Browser<'_>) {
    let lines = [("x-amz-bucket-object-lock-enabled", "true")];
    let made = browser.s3(Method::Put, "bucket=held", &lines, b"");
    assert_eq!(made.status, 200, "{}", made.text());
    browser.put("held", "k", &[], b"x");
}

#[test]
fn a_version_is_locked_for_days_and_held() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    locked_bucket(&mut browser);
    let retention = [("bucket", "held"), ("key", "k"), ("change", "retention"), ("mode", "GOVERNANCE")];
    let lock = |browser: &mut Browser<'_>, more: &[(&str, &str)]| {
        browser.post("change", &[&retention[..], more].concat())
    };
    assert_eq!(lock(&mut browser, &[("days", "30")]).status, 303);
    let page = browser.get("object?bucket=held&key=k");
    assert!(
        page.text().contains("(governance)</dd>") && page.text().contains("The version is locked"),
        "{}",
        page.text()
    );
    let shorter = lock(&mut browser, &[("days", "2")]);
    assert_eq!(shorter.status, 403, "{}", shorter.text());
    assert!(shorter.text().contains("name=\"days\" inputmode=\"numeric\" required value=\"2\""));
    assert_eq!(lock(&mut browser, &[("days", "2"), ("bypass", "1")]).status, 303);
    for nonsense in ["0", "-1", "soon", "4294967296"] {
        assert_eq!(lock(&mut browser, &[("days", nonsense)]).status, 400, "{nonsense}");
    }

    let hold = |browser: &mut Browser<'_>, status| {
        let fields = [("bucket", "held"), ("key", "k"), ("change", "legal-hold"), ("hold", status)];
        browser.post("change", &fields)
    };
    assert_eq!(hold(&mut browser, "ON").status, 303);
    let page = browser.get("object?bucket=held&key=k");
    assert!(page.text().contains("Take the legal hold off"), "{}", page.text());
    assert_eq!(hold(&mut browser, "OFF").status, 303);
    assert!(browser.get("object?bucket=held&key=k").text().contains("Put a legal hold on"));
    assert_eq!(hold(&mut browser, "MAYBE").status, 400);
}

#[test]
fn locks_are_offered_where_there_are_some_and_to_those_who_may() {
    let site = Site::new();
    site.replace_users(
        &(user("owner", &["*"], &["*"])
            + &user(
                "viewer",
                &["ListBucket", "GetObject", "GetBucketObjectLockConfiguration"],
                &["held", "held/*"],
            )),
    );
    let mut owner = site.signed_in("owner");
    locked_bucket(&mut owner);
    owner.put("b", "k", &[], b"x");
    let offered = "Retention and legal hold";
    assert!(owner.get("object?bucket=held&key=k").text().contains(offered));
    assert!(!owner.get("object?bucket=b&key=k").text().contains(offered));
    let mut viewer = site.signed_in("viewer");
    assert!(!viewer.get("object?bucket=held&key=k").text().contains(offered));
    let fields = [("bucket", "held"), ("key", "k"), ("change", "legal-hold"), ("hold", "ON")];
    assert_eq!(viewer.post("change", &fields).status, 403);
}
