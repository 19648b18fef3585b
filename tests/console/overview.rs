//! The overview of the server on the page of the buckets, for administrators.

use std::time::Duration;

use super::harness::{Browser, Site};
use crate::support::users::user;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The part of the page about the server.
fn overview(browser: &mut Browser<'_>, query: &str) -> String {
    let page = browser.get(query);
    let (_, rest) = page.text().split_once("<section class=\"overview\"").expect("there is an overview");
    rest.split("</section>").next().unwrap().to_owned()
}

#[test]
fn concerns_are_told_with_their_beginning() {
    let site = Site::new();
    let shown = overview(&mut site.signed_in("owner"), "");
    // The certificate of the tests ended in 1970.
    assert!(shown.contains("1 thing needs you") && shown.contains("The certificate has expired"), "{shown}");
    assert!(shown.contains("since <time datetime=\"2026-01-31T12:00:00.250Z\""), "{shown}");
    assert!(shown.contains("class=\"health warned\"") && !shown.contains("All well"), "{shown}");
    site.server.clock.advance(10 * MINUTE);
    site.server.keys.replace(siltstone::keys::KeyRing::clone(&site.server.keys.get()));
    let mut owner = site.signed_in("owner");
    owner.put("b", "k", &[("x-amz-server-side-encryption", "AES256")], b"x");
    let ring = site.server.keys.get();
    site.server.keys.replace(siltstone::keys::KeyRing::default());
    let shown = overview(&mut owner, "");
    assert!(shown.contains("2 things need you") && shown.contains("class=\"health serious\""), "{shown}");
    let (first, second) = shown.split_once("</li>").unwrap();
    assert!(
        first.contains("Keys of encrypted objects are missing") && first.contains("T12:10:00.250Z"),
        "{first}"
    );
    assert!(second.contains("The certificate has expired") && second.contains("T12:00:00.250Z"), "{second}");
    site.server.keys.replace(siltstone::keys::KeyRing::clone(&ring));
    assert!(overview(&mut owner, "").contains("1 thing needs you"));
}

#[test]
fn a_side_that_is_out_needs_an_administrator() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    for (state, is_told) in [("filling", false), ("out", true)] {
        let mut sides = site.server.sides.lock().unwrap();
        sides.sides[1].state = state;
        sides.sides[1].why = "Input/output error".to_owned();
        drop(sides);
        let shown = overview(&mut owner, "");
        let told =
            ">Side B is not in the mirror: Input/output error. See to its disk, then restart the server";
        assert_eq!(shown.contains(told), is_told, "{state}: {shown}");
    }
    assert!(overview(&mut owner, "").contains("href=\"/-/console/state\""));
}

#[test]
fn the_overview_is_for_those_who_may_see_the_state() {
    let site = Site::new();
    site.replace_users(
        &(user("owner", &["*"], &["*"])
            + &user("lists", &["ListAllMyBuckets", "ListBucket"], &["*"])
            + &user("state", &["AdminGetState", "ListAllMyBuckets"], &["*"])),
    );
    for (name, is_shown) in [("owner", true), ("state", true), ("lists", false)] {
        let page = site.signed_in(name).get("");
        assert_eq!(page.text().contains("class=\"overview\""), is_shown, "{name}: {}", page.text());
        assert_eq!(page.text().contains("Disk: "), is_shown, "{name}: {}", page.text());
    }
    assert!(!site.signed_in("owner").get("?find=b").text().contains("class=\"overview\""), "a search is one");
}

#[test]
fn lines_show_what_has_been_sampled() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    let shown = overview(&mut owner, "");
    assert!(
        shown.contains("Requests a second: <strong>0.0</strong>") && !shown.contains("<polyline"),
        "{shown}"
    );
    site.server.service.sample_history();
    for _ in 0..3 {
        for _ in 0..120 {
            owner.put("b", "k", &[], &[0; 1024]);
        }
        site.server.clock.advance(MINUTE);
        site.server.service.sample_history();
    }
    let shown = overview(&mut owner, "");
    for part in [
        "Requests a second: <strong>2.0</strong>",
        "In: <strong>2.0 KiB/s</strong>",
        "Errors (5xx): <strong>0</strong>",
    ] {
        assert!(shown.contains(part), "{part} is missing from {shown}");
    }
    assert_eq!(shown.matches("<polyline").count(), 5, "{shown}");
    let day = overview(&mut owner, "?range=day");
    assert!(day.contains("aria-current=\"true\">24 h</a>") && day.contains("<polyline"), "{day}");
    let month = overview(&mut owner, "?range=month");
    assert!(month.contains("aria-current=\"true\">30 d</a>"), "{month}");
    assert!(overview(&mut owner, "?range=%3Cscript%3E").contains("aria-current=\"true\">1 h</a>"));
}

#[test]
fn the_history_is_there_after_a_restart() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    let service = &site.server.service;
    assert!(!service.sample_history(), "nothing has happened that is worth a write");
    owner.put("b", "k", &[], b"x");
    site.server.clock.advance(60 * MINUTE);
    assert!(service.sample_history(), "an hour begins");
    service.save_history();
    assert!(!service.has_unsaved_history());
    let mut owner = site.signed_in("owner");
    let before = overview(&mut owner, "?range=month");
    assert!(before.contains("<polyline"), "{before}");
    // As a further process does at its start.
    service.resume_history();
    assert_eq!(overview(&mut owner, "?range=month"), before);
}

#[test]
fn buckets_show_how_they_have_grown() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    owner.put("b", "one", &[], &[0; 4096]);
    owner.post("create-bucket", &[("name", "still")]);
    let service = &site.server.service;
    service.sample_history();
    assert!(!owner.get("").text().contains("days"), "nothing is known yet");
    for _ in 0..9 {
        site.server.clock.advance(DAY);
        service.sample_history();
    }
    let mut owner = site.signed_in("owner");
    owner.put("b", "two", &[], &[0; 2048]);
    owner.post("create-bucket", &[("name", "young")]);
    owner.put("young", "k", &[], &[0; 1024]);
    let page = owner.get("");
    let row = |bucket: &str| {
        let (_, rest) = page.text().split_once(&format!(">{bucket}</a>")).unwrap();
        rest.split("</tr>").next().unwrap().to_owned()
    };
    assert!(row("b").contains("+2.0 KiB in 7 days"), "{}", row("b"));
    assert!(row("young").contains("+1.0 KiB in 7 days"), "{}", row("young"));
    assert!(!row("still").contains("in 7 days"), "{}", row("still"));
    owner.s3(siltstone::s3::Method::Delete, "bucket=b&key=one", &[], b"");
    let page = owner.get("");
    assert!(page.text().contains("−2.0 KiB in 7 days"), "{}", page.text());
}

#[test]
fn buckets_have_badges_for_those_who_may_see_them() {
    let site = Site::new();
    site.replace_users(
        &(user("owner", &["*"], &["*"])
            + &user("lists", &["ListAllMyBuckets", "ListBucket", "GetBucketVersioning"], &["*"])),
    );
    let mut owner = site.signed_in("owner");
    owner.post("create-bucket", &[("name", "plain")]);
    owner.post("create-bucket", &[("name", "photos"), ("versions", "1")]);
    let policy = br#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/*"}]}"#;
    assert!(owner.s3(siltstone::s3::Method::Put, "bucket=photos&policy=", &[], policy).status < 300);
    let rules = "<LifecycleConfiguration><Rule><ID>r</ID><Filter/><Status>Enabled</Status><Expiration><Days>3</Days></Expiration></Rule></LifecycleConfiguration>";
    let fields = [("name", "photos"), ("setting", "lifecycle"), ("text", rules)];
    let put = owner.post("set", &fields);
    assert_eq!(put.status, 303, "{}", put.text());
    let badges = |name: &str, bucket: &str| {
        let page = site.signed_in(name).get("");
        let (_, rest) = page.text().split_once(&format!(">{bucket}</a>")).unwrap();
        let row = rest.split("</tr>").next().unwrap();
        let badges = row.split("<span class=\"badge\">").skip(1);
        badges.map(|badge| badge.split('<').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(badges("owner", "photos"), ["Public", "Versions", "Expires", "Mirrored"]);
    assert_eq!(badges("lists", "photos"), ["Versions"]);
    assert!(badges("owner", "plain").is_empty());
}
