//! The pages of the activity and of the audit.

use std::time::Duration;

use siltstone::s3::Method;
use siltstone::service::ServerLoad;

use super::harness::{Answer, Site};
use crate::support::users::{access_key, secret_key, user};

/// The rows of the table of a page.
fn rows(page: &Answer) -> Vec<&str> {
    let text = page.text();
    let Some((_, log)) = text.split_once("<table class=\"log\">") else { return Vec::new() };
    let Some((_, rest)) = log.split_once("<tbody>") else { return Vec::new() };
    let body = rest.split("</tbody>").next().unwrap();
    body.split("<tr").skip(1).collect()
}

/// Whether a row has all of these texts.
fn has(row: &str, texts: &[&str]) -> bool {
    texts.iter().all(|text| row.contains(text))
}

#[test]
fn the_last_requests_of_all_users_are_shown_the_newest_first() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    owner.put("b", "first", &[], b"12345");
    site.server.clock.advance(Duration::from_millis(5));
    site.signed_in("reader").get("content?bucket=b&key=first");
    site.server.clock.advance(Duration::from_millis(5));
    site.browser().get("/b/private%3Cscript%3E?X-Amz-Signature=very-secret");
    let page = owner.get("activity");
    let rows = rows(&page);
    assert!(
        has(rows[0], &["(unknown)", "GetObject", "/b/private&#60;script&#62;", "400", "AuthorizationQuery"]),
        "{}",
        rows[0]
    );
    assert!(has(rows[1], &[">reader ", "127.0.0.1", "GetObject", "/b/first", ">200<", "5 B"]), "{}", rows[1]);
    assert!(has(rows[2], &[">owner ", "PutObject", "/b/first", ">5 B<"]), "{}", rows[2]);
    assert!(!page.text().contains("secret") && !page.text().contains("<script>"), "{}", page.text());
}

#[test]
fn the_requests_are_filtered_by_user_bucket_and_status() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    owner.post("create-bucket", &[("name", "other")]);
    owner.put("b", "in-b", &[], b"x");
    owner.put("other", "in-other", &[], b"x");
    owner.get("content?bucket=b&key=missing");
    let mut reader = site.signed_in("reader");
    reader.get("content?bucket=b&key=in-b");
    reader.get("content?bucket=other&key=in-other");
    for (filters, shown, hidden) in [
        ("user=reader", vec!["/b/in-b", "/other/in-other"], vec!["missing"]),
        ("bucket=other", vec!["/other/in-other"], vec!["/b/in-b", "missing"]),
        ("status=errors", vec!["/b/missing", "/other/in-other"], vec!["/b/in-b"]),
        ("status=4xx&user=owner", vec!["/b/missing"], vec!["/b/in-b", "in-other"]),
        ("status=2xx&bucket=b", vec!["/b/in-b"], vec!["missing", "in-other"]),
        ("status=5xx", vec![], vec!["in-b", "in-other", "missing"]),
    ] {
        let page = owner.get(&format!("activity?{filters}"));
        let rows = rows(&page).concat();
        assert!(shown.iter().all(|text| rows.contains(text)), "{filters}: {rows}");
        assert!(!hidden.iter().any(|text| rows.contains(text)), "{filters}: {rows}");
        assert!(page.text().contains("The filters leave out"), "{filters}: {}", page.text());
    }
    let page = owner.get("activity?status=5xx&user=%22%3E%3Cscript%3E");
    assert!(
        page.text().contains("None of the last requests is like that.") && !page.text().contains("<script>")
    );
    assert!(
        page.text().contains("<option value=\"&#34;&#62;&#60;script&#62;\" selected>"),
        "{}",
        page.text()
    );
}

#[test]
fn looks_of_pages_that_were_refused_and_health_checks_are_left_out() {
    let site = Site::new();
    site.browser().get("/-/health");
    // Asks for settings that the reader may not see.
    site.signed_in("reader").get("settings?name=b");
    let page = site.signed_in("owner").get("activity?status=errors");
    assert!(rows(&page).is_empty(), "{}", page.text());
    let page = site.signed_in("owner").get("activity");
    assert!(!page.text().contains("health"), "{}", page.text());
}

#[test]
fn the_busiest_users_and_buckets_of_the_last_hour_are_shown() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    owner.post("create-bucket", &[("name", "busy")]);
    for _ in 0..3 {
        owner.put("busy", "k", &[], b"12345");
    }
    owner.put("b", "k", &[], b"x");
    site.browser().get("/not-there/k");
    let page = owner.get("activity");
    let (_, part) = page.text().split_once("<caption>Buckets with the most requests</caption>").unwrap();
    let part = part.split("</table>").next().unwrap();
    let rows: Vec<_> = part.split("<tr><td>").skip(1).map(|row| row.split('<').next().unwrap()).collect();
    assert_eq!(rows, ["busy", "b"], "{part}");
    assert!(page.text().contains("<caption>Users with the most requests</caption>"), "{}", page.text());
    site.server.clock.advance(Duration::from_secs(61 * 60));
    let later = site.signed_in("owner").get("activity");
    assert!(!later.text().contains("<caption>Buckets with the most"), "{}", later.text());
}

#[test]
fn the_figures_are_of_now() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    owner.s3(Method::Post, "bucket=b&key=half&uploads=", &[], b"");
    for _ in 0..9 {
        owner.put("b", "k", &[], &[0; 2048]);
    }
    let page = owner.get("activity");
    for shown in [
        "<dt>Requests a second</dt><dd>1.0</dd>",
        "<dt>In</dt><dd>1.8 KiB/s</dd>",
        "<dt>Open uploads</dt><dd>1</dd>",
    ] {
        assert!(page.text().contains(shown), "{shown} is missing from\n{}", page.text());
    }
    assert!(!page.text().contains("Busy workers"), "this server has no listener");
    site.server.clock.advance(Duration::from_secs(60));
    let load = ServerLoad { workers: 8, busy_workers: 3, waiting: 2, connections: 70 };
    site.server.service.show_load(move || Some(load));
    let page = site.signed_in("owner").get("activity");
    for shown in [
        "<dt>Requests a second</dt><dd>0.0</dd>",
        "<dt>Busy workers</dt><dd>3 of 8</dd>",
        "<dt>Requests waiting</dt><dd>2</dd>",
        "<dt>Connections</dt><dd>70</dd>",
    ] {
        assert!(page.text().contains(shown), "{shown} is missing from\n{}", page.text());
    }
}

#[test]
fn activity_and_audit_take_an_action_of_their_own() {
    let site = Site::new();
    site.replace_users(
        &(user("owner", &["*"], &["*"])
            + &user("state", &["AdminGetState"], &["*"])
            + &user("watcher", &["AdminGetActivity"], &["*"])
            + &user("reader", &["GetObject"], &["b/*"])),
    );
    for (name, sees_state, sees_activity) in
        [("owner", true, true), ("state", true, false), ("watcher", false, true), ("reader", false, false)]
    {
        let mut browser = site.signed_in(name);
        let status = |is_seen| if is_seen { 200 } else { 403 };
        for page in ["activity", "audit"] {
            let answer = browser.get(page);
            assert_eq!(answer.status, status(sees_activity), "{name}: {page}");
            assert_eq!(
                answer.text().contains("AdminGetActivity"),
                !sees_activity,
                "{name}: {}",
                answer.text()
            );
        }
        let state = browser.get("state");
        assert_eq!(state.status, status(sees_state), "{name}");
        assert_eq!(
            state.text().contains("<a href=\"/-/console/activity\">Activity</a>"),
            sees_state && sees_activity,
            "{name}: {}",
            state.text()
        );
        let place = if sees_state { "state" } else { "activity" };
        let home = browser.get("account");
        let leads = home.text().contains(&format!("<a href=\"/-/console/{place}\""));
        assert_eq!(leads, sees_state || sees_activity, "{name}: {}", home.text());
    }
}

#[test]
fn the_audit_tells_who_changed_what_by_which_session_and_key() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    let mut second = site.signed_in("owner");
    assert!(owner.get("audit").text().contains("Nothing has been changed since the start."));
    second.s3(
        Method::Put,
        "bucket=b&versioning=",
        &[],
        b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
    );
    site.server.clock.advance(Duration::from_millis(5));
    site.signed_in("reader").s3(Method::Put, "bucket=b&policy=", &[], b"{}");
    // Deletions of versions are writes of objects: there may be many of them.
    owner.put("b", "k", &[], b"x");
    owner.s3(Method::Delete, "bucket=b&key=k&versionId=null", &[], b"");
    let page = owner.get("audit");
    let rows = rows(&page);
    assert_eq!(rows.len(), 2, "{}", page.text());
    let key = format!("key {}", access_key("reader"));
    assert!(has(rows[0], &["reader<br>", &key, "PutBucketPolicy", ">b<", "AccessDenied"]), "{}", rows[0]);
    let key = format!("console session 1, key {}, from 127.0.0.1", access_key("owner"));
    assert!(has(rows[1], &["owner<br>", &key, "PutBucketVersioning", ">b<", ">done<"]), "{}", rows[1]);
    assert!(!page.text().contains(&secret_key("owner")) && page.text().contains("With --audit-log FILE"));
}
