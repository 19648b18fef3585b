//! The page of the state.

use std::time::Duration;

use siltstone::keys::KeyRing;
use siltstone::s3::Method;
use siltstone::service::MirrorSide;

use super::harness::{Browser, Site};
use crate::support::service::RING;

#[test]
fn failed_and_slow_requests_are_shown_without_their_signatures() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    let mut stranger = site.browser();
    stranger.get("/b/private%3Cscript%3E?X-Amz-Signature=very-secret&x=secret-too");
    stranger.get("/b/%E2%80%AEexe");
    owner.get("content?bucket=b&key=missing");
    let page = owner.get("state");
    let (_, failed) = page.text().split_once("The last requests that failed").unwrap();
    assert!(failed.contains("/b/private%3Cscript%3E") && failed.contains("403 AccessDenied"), "{failed}");
    assert!(failed.contains("from 127.0.0.1") && !failed.contains("secret") && !failed.contains("missing"));
    assert!(failed.contains("There is none since the start."), "no request was slow");
    assert_eq!(site.signed_in("reader").get("state").status, 403);
}

#[test]
fn the_disks_are_shown_with_their_states_in_words() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    let disks = |owner: &mut Browser<'_>| {
        let page = owner.get("state");
        let (_, disks) = page.text().split_once("<h2>Disks</h2>").unwrap();
        disks.split("<h2>").next().unwrap().to_owned()
    };
    let shown = disks(&mut owner);
    assert!(
        shown.contains("<td>Side B</td><td><code>/two</code><br><span class=\"hint\">ext4 on /dev/sda1"),
        "{shown}"
    );
    assert!(shown.contains("1.0 GiB of 4.0 GiB <meter") && shown.contains(">75 % used</meter>"), "{shown}");
    assert_eq!(shown.matches("Has all bytes</span>").count(), 2, "{shown}");
    assert!(shown.contains("No file of one side was repaired") && !shown.contains("disk replace"), "{shown}");

    site.server.sides.lock().unwrap().repaired_files = 2;
    site.server.sides.lock().unwrap().left_bytes = 1 << 20;
    site.server.sides.lock().unwrap().fill_bytes = 4 << 20;
    site.server.sides.lock().unwrap().sides[1].state = "filling";
    let shown = disks(&mut owner);
    assert!(
        shown.contains("disk-state warned") && shown.contains("Is being filled: 75 %, 1.0 MiB are left"),
        "{shown}"
    );
    assert!(shown.contains("2 files of one side were repaired"), "{shown}");

    let side = MirrorSide {
        state: "out",
        why: "<EIO>".to_owned(),
        ..site.server.sides.lock().unwrap().sides[1].clone()
    };
    site.server.sides.lock().unwrap().sides[1] = side;
    let shown = disks(&mut owner);
    assert!(
        shown.contains("disk-state serious") && shown.contains("Not in the mirror: &#60;EIO&#62;</span>"),
        "{shown}"
    );
    assert!(shown.contains("since <time datetime=\"1970-01-01T00:00:00.000Z\""), "{shown}");
    assert!(shown.contains("siltstone-tools --mirror /one=/two disk replace"), "{shown}");
}

#[test]
fn the_state_tells_when_the_certificate_expires() {
    let site = Site::new();
    let page = site.signed_in("owner").get("state");
    let shown = "1970-01-01 00:00:05 UTC</time> (it has expired)</dd>";
    assert!(page.text().contains(shown), "{}", page.text());
}

#[test]
fn the_state_tells_about_disk_commits_and_damage() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    owner.put("b", "dir/pre<b>cious", &[], b"precious bytes of an object");
    let page = owner.get("state");
    for shown in
        ["<dt>Free on the disk</dt>", "<dt>Mean time of a commit</dt>", "<dt>99 of 100 commits within</dt>"]
    {
        assert!(page.text().contains(shown), "{shown} is missing from\n{}", page.text());
    }
    assert!(!page.text().contains("Damaged objects"));
    damage(&site, b"precious bytes");
    site.server.clock.advance(Duration::from_secs(30 * 24 * 60 * 60));
    while site.server.store.scrub(1 << 20).unwrap().more {}
    let mut owner = site.signed_in("owner");
    let page = owner.get("state");
    assert!(
        page.text().contains("Damaged objects") && page.text().contains("b/dir/pre&#60;b&#62;cious ("),
        "{}",
        page.text()
    );
    assert_eq!(owner.get(&page.links("/-/console/object?").remove(0)).status, 200);
    owner.s3(Method::Delete, "bucket=b&key=dir%2Fpre%3Cb%3Ecious", &[], b"");
    assert!(!owner.get("state").text().contains("Damaged objects"));
}

#[test]
fn the_state_shows_the_keys_of_encrypted_objects_without_the_keys() {
    let site = Site::new();
    let page = site.signed_in("owner").get("state");
    let made = |day: &str| format!("<td class=\"wide\"><time datetime=\"2026-01-{day}T00:00:00.000Z\"");
    for row in [
        format!("<td><code>k-current</code></td><td></td><td>current</td>{}", made("03")),
        format!("<td><code>k-invoices</code></td><td>invoices</td><td>named</td>{}", made("02")),
        format!("<td><code>k-closed</code></td><td>closed</td><td>retired</td>{}", made("01")),
    ] {
        assert!(page.text().contains(&row), "{row} is missing from\n{}", page.text());
    }
    for secret in RING.lines().filter_map(|line| line.strip_prefix("secret = ")) {
        assert!(!page.text().contains(secret.trim_matches('"')), "{}", page.text());
    }
    assert_eq!(site.signed_in("reader").get("state").status, 403, "administrators alone see them");
}

#[test]
fn the_state_tells_that_the_keys_are_gone() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    let ring = site.server.keys.get();
    site.server.keys.replace(KeyRing::default());
    assert!(owner.get("state").text().contains("requests for encryption are refused"));
    site.server.keys.replace(KeyRing::clone(&ring));
    owner.put("b", "k", &[("x-amz-server-side-encryption", "AES256")], b"x");
    assert!(!owner.get("state").text().contains("The key ring lacks"));
    site.server.keys.replace(KeyRing::default());
    let page = owner.get("state");
    assert!(page.text().contains("The key ring lacks 1 key of 1 encrypted"), "{}", page.text());
}

/// Changes stored bytes on the disk.
fn damage(site: &Site, needle: &[u8]) {
    for (path, _) in site.server.fs.files() {
        let content = site.server.fs.contents(&path).unwrap();
        if let Some(place) = content.windows(needle.len()).position(|window| window == needle) {
            site.server.fs.damage(&path, place as u64, 0x10).unwrap();
        }
    }
}
