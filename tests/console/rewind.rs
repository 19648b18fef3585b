//! The rewind of a folder to a time.

use std::time::Duration;

use siltstone::s3::Method;

use super::harness::{Answer, Browser, Site};

/// The bucket `kept`, which keeps versions, and a second for each request.
struct Story<'s> {
    site: &'s Site,
    browser: Browser<'s>,
}

impl<'s> Story<'s> {
    fn new(site: &'s Site) -> Self {
        let mut browser = site.signed_in("owner");
        browser.post("create-bucket", &[("name", "kept"), ("versions", "1")]);
        Self { site, browser }
    }

    fn put(&mut self, key: &str, text: &str) {
        self.site.server.clock.advance(Duration::from_secs(1));
        self.browser.put("kept", key, &[("x-amz-meta-text", text)], text.as_bytes());
    }

    fn delete(&mut self, key: &str) {
        self.site.server.clock.advance(Duration::from_secs(1));
        self.browser.s3(Method::Delete, &format!("bucket=kept&key={key}"), &[], b"");
    }

    fn content(&mut self, key: &str) -> Vec<u8> {
        self.browser.get(&format!("content?bucket=kept&key={key}")).body
    }

    /// The moment, and a second that belongs to no request.
    fn now(&self) -> String {
        use siltstone::base::Clock as _;
        let now = self.site.server.clock.now().to_iso8601();
        self.site.server.clock.advance(Duration::from_secs(1));
        now
    }
}

/// The hidden fields of the last form of a page.
fn fields(page: &Answer) -> Vec<(String, String)> {
    let (_, form) = page.text().rsplit_once("<form method=\"post\"").unwrap();
    let fields = form.split("type=\"hidden\" name=\"").skip(1);
    fields
        .map(|field| {
            let mut parts = field.split('"');
            (parts.next().unwrap().to_owned(), parts.nth(1).unwrap().to_owned())
        })
        .collect()
}

fn submit(browser: &mut Browser<'_>, fields: &[(String, String)]) -> Answer {
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    browser.post("rewind", &fields)
}

#[test]
fn a_folder_returns_to_a_time_after_the_changes_were_listed() {
    let site = Site::new();
    let mut story = Story::new(&site);
    for key in ["dir/changed", "dir/deleted", "dir/same", "outside"] {
        story.put(key, "old");
    }
    let time = story.now();
    story.put("dir/changed", "new");
    story.delete("dir/deleted");
    story.put("dir/late\nline", "new");
    story.put("outside", "new");
    let page = story.browser.get(&format!("rewind?bucket=kept&prefix=dir%2F&time={time}"));
    for shown in [
        "Restored: 2 (6 B)",
        "<li>dir/changed</li>",
        "<li>dir/deleted</li>",
        "marker: 1",
        "<li>dir/late⟨U+000A⟩line</li>",
    ] {
        assert!(page.text().contains(shown), "{shown} is missing from\n{}", page.text());
    }
    assert!(!page.text().contains("same") && !page.text().contains("outside"));
    assert_eq!(story.content("dir/changed"), b"new", "nothing changed yet");
    let answer = submit(&mut story.browser, &fields(&page));
    assert!(
        answer.status == 200 && answer.text().contains("2 restored, 1 removed by a delete marker"),
        "{}",
        answer.text()
    );
    assert_eq!(
        (story.content("dir/changed"), story.content("dir/deleted")),
        (b"old".to_vec(), b"old".to_vec())
    );
    assert_eq!((story.content("dir/same"), story.content("outside")), (b"old".to_vec(), b"new".to_vec()));
    let head = story.browser.s3(Method::Head, "bucket=kept&key=dir%2Fchanged", &[], b"");
    assert_eq!(head.header("x-amz-meta-text"), Some("old"), "metadata return, too");
    assert_eq!(story.browser.s3(Method::Head, "bucket=kept&key=dir%2Flate%0Aline", &[], b"").status, 404);
    let versions = story.browser.get("bucket?name=kept&prefix=dir%2F&versions=1");
    assert_eq!(versions.links("/-/console/object?").len(), 9, "no version goes");
}

#[test]
fn a_long_rewind_goes_in_steps_and_counts() {
    let site = Site::new();
    let mut story = Story::new(&site);
    let time = story.now();
    for n in 0..450 {
        story.browser.put("kept", &format!("k{n:03}"), &[], b"x");
    }
    story.now();
    let page = story.browser.get(&format!("rewind?bucket=kept&time={time}"));
    assert!(page.text().contains("delete marker: 200</h2>") && page.text().contains("<li>k199</li>"));
    let second = story.browser.get(&page.links("/-/console/rewind?").remove(0));
    assert!(
        second.text().contains("<li>k200</li>") && second.text().contains("<li>k399</li>"),
        "{}",
        second.text()
    );
    let mut answer = submit(&mut story.browser, &fields(&page));
    for removed in [200, 400] {
        assert!(answer.text().contains(&format!("{removed} removed")), "{}", answer.text());
        assert!(answer.text().contains("data-continue"));
        answer = submit(&mut story.browser, &fields(&answer));
    }
    assert!(answer.text().contains("The rewind is done") && answer.text().contains("450 removed"));
    assert!(!answer.text().contains("data-continue"));
    assert!(story.browser.get("bucket?name=kept").text().contains("There is nothing here."));
}

#[test]
fn an_object_that_was_changed_after_the_list_stays() {
    let site = Site::new();
    let mut story = Story::new(&site);
    story.put("a", "old");
    story.put("z", "old");
    let time = story.now();
    story.put("a", "new");
    story.put("z", "new");
    story.now();
    let page = story.browser.get(&format!("rewind?bucket=kept&time={time}"));
    story.put("a", "newer");
    let answer = submit(&mut story.browser, &fields(&page));
    assert!(answer.status == 409 && answer.text().contains("a: It was changed after the list was shown."));
    assert_eq!((story.content("a"), story.content("z")), (b"newer".to_vec(), b"old".to_vec()));
}

#[test]
fn a_rewind_needs_versions_permissions_and_a_time() {
    let site = Site::new();
    let mut story = Story::new(&site);
    let time = story.now();
    story.put("k", "new");
    let page = story.browser.get("rewind?bucket=b");
    assert!(page.status == 200 && page.text().contains("does not keep versions"), "{}", page.text());
    assert_eq!(story.browser.get(&format!("rewind?bucket=b&time={time}")).status, 409);
    assert_eq!(story.browser.get("rewind?bucket=kept&time=yesterday").status, 400);
    assert_eq!(story.browser.get("rewind?bucket=none").status, 404);
    let page = story.browser.get(&format!("rewind?bucket=kept&time={time}"));
    let fields = fields(&page);
    let on_b: Vec<_> = fields
        .iter()
        .map(|(name, value)| (name.clone(), if name == "bucket" { "b".to_owned() } else { value.clone() }))
        .collect();
    assert_eq!(submit(&mut story.browser, &on_b).status, 409);
    // A user who reads versions and may not delete.
    site.replace_users(
        &(Site::users("secret of owner")
            + &crate::support::users::user(
                "looks",
                &["ListBucket", "ListBucketVersions", "GetBucketVersioning", "GetObject", "GetObjectVersion"],
                &["kept", "kept/*"],
            )),
    );
    let mut looks = site.signed_in("looks");
    let answer = submit(&mut looks, &fields);
    assert!(answer.status == 409 && answer.text().contains("<li>k: "), "{}", answer.text());
    assert_eq!(site.signed_in("reader").get(&format!("rewind?bucket=kept&time={time}")).status, 403);
    let all: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let answer = site.signed_in("owner").post_with("rewind", &all, &[("sec-fetch-site", "same-site")]);
    assert_eq!(answer.status, 403);
    assert_eq!(site.signed_in("owner").get("content?bucket=kept&key=k").body, b"new");
}
