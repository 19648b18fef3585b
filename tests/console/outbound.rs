//! The page of mirrors, webhooks and the remote, and the notifications of a bucket.

use siltstone::s3::Method;

use super::harness::Site;

#[test]
fn mirrors_and_webhooks_are_shown_to_administrators() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    let state = owner.get("state");
    assert_eq!(state.links("/-/console/outbound"), ["/-/console/outbound"]);
    let page = owner.get("outbound");
    for shown in [
        "<h2>Mirror away <small>",
        "<h2>Webhook thumbs <small>accepts</small></h2>",
        "<dt>Server</dt><dd>https://hooks.example</dd>",
        "<dt>Lag</dt><dd>0 s</dd>",
        "<dt>Keys to send</dt><dd>0</dd>",
    ] {
        assert!(page.text().contains(shown), "{shown} is missing from\n{}", page.text());
    }
    assert!(!page.text().contains("on the remote"), "there is no remote");
    let mut reader = site.signed_in("reader");
    assert_eq!(reader.get("outbound").status, 403);
    assert!(reader.get("").links("/-/console/outbound").is_empty());
}

#[test]
fn a_mirror_starts_over_for_administrators_who_mean_it() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    let unsure = owner.post("outbound", &[("mirror", "away")]);
    assert!(unsure.status == 400 && unsure.text().contains("Tick the box"), "{}", unsure.text());
    let sure = [("mirror", "away"), ("sure", "yes")];
    let done = owner.post("outbound", &sure);
    assert_eq!((done.status, done.header("Location")), (303, Some("/-/console/outbound")));
    assert_eq!(owner.post("outbound", &[("mirror", "no<ne>"), ("sure", "yes")]).status, 400);
    assert_eq!(site.signed_in("reader").post("outbound", &sure).status, 403);
    assert_eq!(site.browser().post("outbound", &sure).status, 401);
    let form = [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-site")];
    assert_eq!(owner.send(Method::Post, "outbound", &form, b"mirror=away&sure=yes").status, 403);
}

#[test]
fn notifications_are_added_by_a_form_and_removed_one_by_one() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    let settings = |site: &Site| site.signed_in("owner").get("settings?name=b").text().to_owned();
    assert!(settings(&site).contains("No webhook gets events."), "{}", settings(&site));
    let add = |browser: &mut super::harness::Browser<'_>, fields: &[(&str, &str)]| {
        let fields: Vec<_> =
            [("name", "b"), ("kind", "notification")].iter().chain(fields).copied().collect();
        let preview = browser.post("editor", &fields);
        assert_eq!(preview.status, 200, "{}", preview.text());
        let draft = super::editors::draft(&preview);
        let saved = browser.post("set", &[("name", "b"), ("setting", "notification"), ("text", &draft)]);
        assert_eq!(saved.status, 303, "{}", saved.text());
    };
    add(
        &mut owner,
        &[("target", "thumbs"), ("id", "one"), ("event", "s3:ObjectCreated:*"), ("prefix", "a<b>/")],
    );
    add(&mut owner, &[("target", "audit"), ("id", "other"), ("event", "s3:ObjectRemoved:*")]);
    let page = owner.get("editor?name=b&kind=notification");
    assert!(
        page.text().contains("keys that begin with a&#60;b&#62;/; to thumbs; s3:ObjectCreated:*"),
        "{}",
        page.text()
    );
    assert!(page.text().contains("<strong>other</strong>: all keys; to audit; s3:ObjectRemoved:*"));
    add(&mut owner, &[("remove", "one")]);
    let stored = settings(&site);
    assert!(
        stored.contains("other: all keys; to audit; s3:ObjectRemoved:*") && !stored.contains("to thumbs"),
        "{stored}"
    );
    add(&mut owner, &[("remove", "other")]);
    assert!(!settings(&site).contains("to audit"));
    // A user who may not read them sees none.
    assert!(!site.signed_in("reader").get("settings?name=b").text().contains("Notifications"));
}
