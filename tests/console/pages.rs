//! What the pages show and do, without scripts.

use siltstone::s3::Method;

use super::harness::{Answer, Browser, HOST, Site};
use crate::support::is_long;
use crate::support::users::user;

/// The value of the first field of a name in a page.
fn field(answer: &Answer, name: &str) -> String {
    let (_, rest) = answer.text().split_once(&format!("name=\"{name}\" value=\"")).unwrap();
    rest.split('"').next().unwrap().to_owned()
}

/// Submits the form of a page that leads on with a deletion.
fn confirm(browser: &mut Browser<'_>, page: &Answer) -> Answer {
    let (_, form) = page.text().split_once("<form method=\"post\" action=\"/-/console/delete\"").unwrap();
    let mut fields = Vec::new();
    for field in form.split("type=\"hidden\" name=\"").skip(1) {
        let mut parts = field.split('"');
        let name = parts.next().unwrap();
        let value = parts.nth(1).unwrap().replace("&#38;", "&");
        fields.push((name, value));
    }
    let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    browser.post("delete", &fields)
}

#[test]
fn a_bucket_is_made_listed_and_deleted() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let answer = browser.post("create-bucket", &[("name", "photos"), ("versions", "1")]);
    assert_eq!((answer.status, answer.header("Location")), (303, Some("/-/console/bucket?name=photos")));
    assert!(browser.get("").text().contains(">photos</a>"));
    let versioning = browser.s3(Method::Get, "bucket=photos&versioning", &[], b"");
    assert!(versioning.text().contains("<Status>Enabled</Status>"));
    browser.put("photos", "k", &[], b"x");
    let answer = browser.post("delete-bucket", &[("name", "photos")]);
    assert!(answer.status == 409 && answer.text().contains("BucketNotEmpty"), "{}", answer.text());
    browser.post("create-bucket", &[("name", "empty")]);
    assert_eq!(browser.post("delete-bucket", &[("name", "empty")]).status, 303);
    assert!(!browser.get("").text().contains(">empty</a>"));
    let answer = browser.post("create-bucket", &[("name", "Not A Name")]);
    assert!(answer.status == 400 && answer.text().contains("InvalidBucketName"), "{}", answer.text());
}

#[test]
fn folders_are_browsed_searched_and_paged() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    for n in 0..450 {
        browser.put("b", &format!("logs/2026/day-{n:03}.txt"), &[], b"x");
    }
    browser.put("b", "logs/readme", &[], b"x");
    let page = browser.get("bucket?name=b");
    assert_eq!(page.links("/-/console/bucket?name=b&prefix="), ["/-/console/bucket?name=b&prefix=logs%2F"]);
    let page = browser.get("bucket?name=b&prefix=logs%2F");
    assert!(page.text().contains(">readme</a>") && !page.text().contains("day-000"));
    let mut next = "bucket?name=b&prefix=logs%2F2026%2F".to_owned();
    let mut seen = Vec::new();
    loop {
        let page = browser.get(&next);
        seen.extend(page.links("/-/console/object?"));
        match page.page_of_list("next") {
            Some(link) => next = link,
            None => break,
        }
    }
    // The last of three pages leads back to the first.
    let last = browser.get(&next);
    let second = browser.get(&last.page_of_list("prev").unwrap());
    assert!(second.text().contains(">day-200.txt</a>") && second.text().contains(">day-399.txt</a>"));
    assert_eq!(second.page_of_list("next").as_ref(), Some(&next));
    let first = browser.get(&second.page_of_list("prev").unwrap());
    assert!(first.text().contains(">day-000.txt</a>") && first.page_of_list("prev").is_none());
    assert_eq!(seen.len(), 450);
    assert!(seen.is_sorted() && seen[449].ends_with("day-449.txt"));
    let found = browser.get("bucket?name=b&prefix=logs%2F2026%2F&search=day-12");
    assert_eq!(found.links("/-/console/object?").len(), 10);
}

#[test]
fn an_object_is_shown_with_its_properties_and_downloaded() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let lines = [
        ("content-type", "text/plain"),
        ("x-amz-meta-camera", "X100 & more"),
        ("x-amz-tagging", "year=2026"),
        ("cache-control", "max-age=60"),
    ];
    browser.put("b", "notes/a b+c.txt", &lines, b"first line\n<second>");
    let page = browser.get("object?bucket=b&key=notes%2Fa%20b%2Bc.txt");
    for shown in [
        "<h1>notes/a b+c.txt</h1>",
        "<dd>19 B</dd>",
        "<dd>text/plain</dd>",
        "<dt>x-amz-meta-camera</dt><dd>X100 &#38; more</dd>",
        "<dt>Tag year</dt><dd>2026</dd>",
        "<dd>max-age=60</dd>",
        "first line\n&#60;second&#62;</pre>",
    ] {
        assert!(page.text().contains(shown), "{shown} is missing from\n{}", page.text());
    }
    let content = page.links("/-/console/content?").remove(0);
    let answer = browser.get(&content);
    assert_eq!(answer.body, b"first line\n<second>");
    assert_eq!(answer.header("Content-Disposition"), Some("attachment; filename*=UTF-8''a%20b%2Bc.txt"));
    let part = browser.send(Method::Get, &content, &[("range", "bytes=0-4")], b"");
    assert_eq!((part.status, &*part.body), (206, &b"first"[..]));
}

#[test]
fn media_are_shown_in_the_page_and_long_texts_are_cut() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    for (content_type, shown) in
        [("image/png", "<img class"), ("audio/ogg", "<audio class"), ("video/mp4", "<video class")]
    {
        browser.put("b", "k", &[("content-type", content_type)], b"x");
        assert!(browser.get("object?bucket=b&key=k").text().contains(shown), "{shown}");
    }
    browser.put("b", "k", &[("content-type", "application/json")], "é".repeat(40_000).as_bytes());
    let page = browser.get("object?bucket=b&key=k");
    assert!(page.text().contains("Only the beginning is shown.") && page.body.len() < 80_000);
    browser.put("b", "k", &[("content-type", "image/png")], &vec![0; (20 << 20) + 1]);
    let page = browser.get("object?bucket=b&key=k");
    assert!(page.text().contains("Show the preview") && !page.text().contains("<img"), "{}", page.text());
    assert!(browser.get("object?bucket=b&key=k&preview=1").text().contains("<img class"));
    browser.put("b", "k", &[("content-type", "application/zip")], b"PK");
    assert!(!browser.get("object?bucket=b&key=k").text().contains("class=\"preview\""));
}

#[test]
fn selected_objects_and_folders_go_after_they_were_listed() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let keys = ["a", "dir/b", "dir/c/../d", "dir/two\nlines", "dir/\u{1}", "kept", "100%?x=1&y"];
    for key in keys {
        browser.put("b", key, &[], b"1234");
    }
    let page = browser.post(
        "delete",
        &[("bucket", "b"), ("object", "a"), ("folder", "dir%2F"), ("object", "100%25%3Fx%3D1%26y")],
    );
    assert!(page.status == 200 && page.text().contains("Delete 6 objects (24 B)?"), "{}", page.text());
    assert!(page.text().contains("<li>dir/two⟨U+000A⟩lines</li>"), "{}", page.text());
    assert_eq!(
        browser.get("bucket?name=b&prefix=dir%2F").links("/-/console/object?").len(),
        3,
        "nothing went yet"
    );
    let answer = confirm(&mut browser, &page);
    assert_eq!(
        (answer.status, answer.header("Location")),
        (303, Some("/-/console/bucket?name=b")),
        "{}",
        answer.text()
    );
    let left = browser.get("bucket?name=b");
    assert_eq!(left.links("/-/console/object?").len(), 1, "{}", left.text());
    assert!(left.links("/-/console/bucket?name=b&prefix=").is_empty());
    let nothing = browser.post("delete", &[("bucket", "b"), ("at", "a%2F")]);
    assert_eq!(nothing.header("Location"), Some("/-/console/bucket?name=b&prefix=a%2F"));
}

#[test]
fn what_came_or_was_replaced_after_the_list_was_shown_stays() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    for key in ["dir/a", "dir/same", "alone", "replaced", "twin"] {
        browser.put("b", key, &[], b"1234");
    }
    let listing = browser.get("bucket?name=b");
    let selected: Vec<_> = listing
        .text()
        .split("name=\"object\" value=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    let mut fields = vec![("bucket", "b"), ("folder", "dir%2F")];
    fields.extend(selected.iter().map(|id| ("object", *id)));
    browser.put("b", "twin", &[], b"another since the listing was shown");
    let question = browser.post("delete", &fields);
    assert!(question.text().contains("Delete 5 objects"), "{}", question.text());
    site.server.clock.advance(std::time::Duration::from_millis(1));
    browser.put("b", "dir/a", &[], b"replaced");
    browser.put("b", "dir/new", &[], b"arrived");
    browser.put("b", "replaced", &[], b"replaced");
    let answer = confirm(&mut browser, &question);
    assert_eq!(answer.status, 409, "{}", answer.text());
    assert!(answer.text().contains("2 deleted.") && answer.text().contains("4 objects were not deleted"));
    for (key, content) in [("dir/a", "replaced"), ("dir/new", "arrived"), ("replaced", "replaced")] {
        let found = browser.get(&format!("content?bucket=b&key={key}"));
        assert_eq!(found.text(), content);
        assert!(answer.text().contains(&format!("<li>{key}: ")), "{}", answer.text());
    }
    assert_eq!(browser.get("content?bucket=b&key=twin").status, 200);
    for key in ["dir/same", "alone"] {
        assert_eq!(browser.get(&format!("content?bucket=b&key={key}")).status, 404);
    }
}

#[test]
fn a_user_who_may_delete_and_not_read_deletes() {
    let site = Site::new();
    site.replace_users(
        &(user("owner", &["*"], &["*"]) + &user("some", &["ListBucket", "DeleteObject"], &["b", "b/*"])),
    );
    site.signed_in("owner").put("b", "dir/a", &[], b"1");
    site.signed_in("owner").put("b", "k", &[], b"1");
    let mut some = site.signed_in("some");
    let question = some.post("delete", &[("bucket", "b"), ("folder", "dir%2F"), ("object", "k")]);
    assert_eq!(confirm(&mut some, &question).status, 303);
    assert!(some.get("bucket?name=b").text().contains("There is nothing here."));
}

#[test]
fn a_long_deletion_goes_in_steps_and_counts() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    for n in 0..2_100 {
        browser.put("b", &format!("dir/{n:0>4}"), &[], b"1");
    }
    browser.put("b", "kept", &[], b"1");
    let mut answer = browser.post("delete", &[("bucket", "b"), ("folder", "dir%2F")]);
    assert!(answer.text().contains("Delete 2100 objects"), "{}", answer.text());
    for deleted in ["1000 deleted.", "2000 deleted."] {
        answer = confirm(&mut browser, &answer);
        assert!(answer.status == 200 && answer.text().contains(deleted), "{}", answer.text());
        assert!(answer.text().contains("data-continue"));
    }
    assert_eq!(confirm(&mut browser, &answer).status, 303);
    assert_eq!(browser.get("bucket?name=b").links("/-/console/object?").len(), 1);
}

#[test]
fn a_bucket_of_versions_is_emptied() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.post("create-bucket", &[("name", "kept"), ("versions", "1")]);
    for n in 0..1_203 {
        browser.put("kept", &format!("dir/{}", n % 601), &[], b"1");
    }
    browser.s3(Method::Delete, "bucket=kept&key=dir%2F1", &[], b"");
    assert!(browser.get("bucket?name=kept").text().contains("name=\"history\" value=\"\""));
    let folders = browser.get("bucket?name=kept&versions=1");
    assert!(folders.text().contains("name=\"history\" value=\"dir%2F\""), "{}", folders.text());
    let mut answer = browser.post("delete", &[("bucket", "kept"), ("history", "")]);
    assert!(answer.text().contains("delete 1204 objects") && answer.text().contains("go for good"));
    let untyped = confirm(&mut browser, &answer);
    assert!(untyped.status == 400 && untyped.text().contains("Type the name"), "{}", untyped.text());
    let mut typed = fields_of(&untyped, "confirm-delete");
    for (name, value) in &mut typed {
        if name == "typed" {
            "kept".clone_into(value);
        }
    }
    let typed: Vec<_> = typed.iter().map(|(name, value)| (&**name, &**value)).collect();
    answer = browser.post("delete", &typed);
    while answer.status == 200 {
        answer = confirm(&mut browser, &answer);
    }
    assert_eq!(answer.status, 303, "{}", answer.text());
    assert_eq!(browser.post("delete-bucket", &[("name", "kept")]).status, 303);
}

#[test]
fn a_form_selects_no_object_twice_and_a_thousand_at_most() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    for key in ["dir/a", "k"] {
        browser.put("b", key, &[], b"1234");
    }
    for page in ["delete", "archive"] {
        let mut fields = vec![("bucket", "b")];
        for _ in 0..250 {
            fields.extend([
                ("object", "k"),
                ("folder", "dir%2F"),
                ("folder", "dir%2Fa"),
                ("object", "dir%2Fa"),
            ]);
        }
        let answer = browser.post(page, &fields);
        assert!(answer.text().contains("2 objects (8 B)"), "{}", answer.text());
        fields.push(("folder", ""));
        assert_eq!(browser.post(page, &fields).status, 400, "{page}");
    }
}

#[test]
fn versions_are_listed_and_deleted_one_by_one() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.post("create-bucket", &[("name", "kept"), ("versions", "1")]);
    for text in ["one", "three"] {
        browser.put("kept", "k", &[("content-type", "text/plain")], text.as_bytes());
    }
    let question = browser.post("delete", &[("bucket", "kept"), ("object", "k")]);
    confirm(&mut browser, &question);
    assert!(browser.get("bucket?name=kept").text().contains("There is nothing here."));
    let page = browser.get("bucket?name=kept&versions=1");
    assert_eq!(page.links("/-/console/object?").len(), 3);
    assert!(page.text().contains("<em>deleted</em>"));
    let oldest = page.links("/-/console/object?").remove(2);
    let page = browser.get(&oldest);
    assert!(
        page.text().contains(">one</pre>") && page.text().contains("<span>Deleted <time"),
        "{}",
        page.text()
    );
    let question = browser.post("delete", &[("bucket", "kept"), ("object", &field(&page, "object"))]);
    assert!(question.text().contains("Versions that are named go for good."));
    assert_eq!(confirm(&mut browser, &question).status, 303);
    assert_eq!(browser.get(&oldest).status, 200, "the page of a key shows its other versions");
    assert_eq!(browser.get("bucket?name=kept&versions=1").links("/-/console/object?").len(), 2);
}

#[test]
fn an_older_version_becomes_current_and_a_deleted_object_comes_back() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.post("create-bucket", &[("name", "kept"), ("versions", "1")]);
    for text in ["one", "two"] {
        browser.put(
            "kept",
            "a/k",
            &[("content-type", "text/plain"), ("x-amz-meta-n", text)],
            text.as_bytes(),
        );
    }
    let oldest = browser.get("bucket?name=kept&prefix=a%2F&versions=1").links("/-/console/object?").remove(1);
    let page = browser.get(&oldest);
    assert!(page.text().contains("Make this version the current one"));
    let key = field(&page, "key");
    let version = field(&page, "version");
    let fields = [("bucket", "kept"), ("key", &*key), ("version", &*version), ("change", "restore")];
    let answer = browser.post("change", &fields);
    assert_eq!(
        answer.header("Location"),
        Some("/-/console/object?bucket=kept&key=a%2Fk"),
        "{}",
        answer.text()
    );
    let page = browser.get("object?bucket=kept&key=a%2Fk");
    assert!(page.text().contains(">one</pre>") && page.text().contains("<dt>x-amz-meta-n</dt><dd>one</dd>"));
    assert!(!page.text().contains("Make this version the current one"));
    let question = browser.post("delete", &[("bucket", "kept"), ("object", "a%2Fk")]);
    confirm(&mut browser, &question);
    let page = browser.get("object?bucket=kept&key=a%2Fk");
    let (_, undelete) = page.text().split_once("<h2>Versions</h2>").unwrap();
    assert!(undelete.contains("Undelete"), "{}", page.text());
    let marker = undelete.split("name=\"object\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let question = browser.post("delete", &[("bucket", "kept"), ("object", marker)]);
    assert!(question.text().contains("Bring 1 deleted object back?"), "{}", question.text());
    assert_eq!(confirm(&mut browser, &question).status, 303);
    assert_eq!(browser.get("content?bucket=kept&key=a%2Fk").body, b"one");
}

#[test]
fn the_list_of_versions_shows_and_restores_each_by_its_time() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.post("set", &[("name", "b"), ("setting", "versioning"), ("status", "Enabled")]);
    for text in ["one", "three"] {
        browser.put("b", "k", &[("content-type", "text/plain")], text.as_bytes());
    }
    let page = browser.get("object?bucket=b&key=k");
    let (_, versions) = page.text().split_once("<h2>Versions</h2>").unwrap();
    let lines: Vec<_> = versions.split("<li").skip(1).collect();
    assert_eq!(lines.len(), 2, "{versions}");
    assert!(
        lines[0].starts_with(" aria-current=\"true\"")
            && lines[0].contains("UTC</time>, 5 B <em>current</em>")
    );
    assert!(!lines[0].contains("Restore") && !lines[0].contains("View"), "{}", lines[0]);
    assert!(
        lines[1].contains("UTC</time>, 3 B") && lines[1].contains("<details><summary>id</summary><code>")
    );
    let oldest =
        page.links("/-/console/object?").into_iter().find(|link| link.contains("&version=")).unwrap();
    assert!(browser.get(&oldest).text().contains(">one</pre>"));
    let (_, version) = lines[1].split_once("name=\"version\" value=\"").unwrap();
    let version = version.split('"').next().unwrap();
    let fields = [("bucket", "b"), ("key", "k"), ("change", "restore"), ("version", version)];
    assert_eq!(browser.post("change", &fields).status, 303);
    assert_eq!(browser.get("content?bucket=b&key=k").body, b"one");
    let page = site.signed_in("reader").get("object?bucket=b&key=k");
    let restore = "<span>Restore</span><span class=\"why\"> needs PutObject on b/k<";
    assert_eq!((page.text().matches(">View</a>").count(), page.text().matches(restore).count()), (2, 2));
    assert!(!page.text().contains("name=\"version\" value"), "{}", page.text());
}

/// The times in the texts of a page, each with what comes after it.
fn times_of(page: &str) -> Vec<&str> {
    let is_time = |text: &&str| {
        let bytes = text.as_bytes();
        let is_shape = |at: usize| match at {
            4 | 7 => bytes[at] == b'-',
            10 => bytes[at] == b' ',
            13 | 16 => bytes[at] == b':',
            _ => bytes[at].is_ascii_digit(),
        };
        bytes.len() >= 19 && (0..19).all(is_shape)
    };
    let texts = page.split('<').filter_map(|tag| Some(tag.split_once('>')?.1));
    texts.flat_map(|text| text.char_indices().map(|(at, _)| &text[at..])).filter(is_time).collect()
}

#[test]
fn a_bucket_is_made_with_locks_and_for_everyone_to_read() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let fields = [("name", "vault"), ("versions", "1"), ("lock", "1"), ("public", "1")];
    assert_eq!(browser.post("create-bucket", &fields).status, 303);
    let settings = browser.get("settings?name=vault");
    for shown in ["Object lock is on", "Suspend versioning", "Turn public access off"] {
        assert!(settings.text().contains(shown), "{shown} is missing from\n{}", settings.text());
    }
    browser.put("vault", "k", &[], b"open");
    assert_eq!(site.browser().get("/vault/k").body, b"open");
    // Who may make a bucket may not set its policy, perhaps: the page says how far it came.
    site.replace_users(&(user("owner", &["*"], &["*"]) + &user("maker", &["CreateBucket"], &["mine"])));
    let mut maker = site.signed_in("maker");
    let refused = maker.post("create-bucket", &[("name", "mine"), ("public", "1")]);
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(refused.text().contains("The bucket mine was made, but not its policy"), "{}", refused.text());
}

#[test]
fn without_scripts_every_time_names_its_zone() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.post("create-bucket", &[("name", "kept"), ("versions", "1")]);
    for key in ["k", "gone"] {
        browser.put("kept", key, &[("content-type", "text/plain")], b"1");
    }
    browser.s3(Method::Post, "bucket=kept&key=half&uploads=", &[], b"");
    let question = browser.post("delete", &[("bucket", "kept"), ("object", "gone")]);
    confirm(&mut browser, &question);
    browser.get("content?bucket=kept&key=none");
    let mut shown = 0;
    for address in [
        "",
        "bucket?name=kept",
        "bucket?name=kept&versions=1",
        "bucket?name=kept&deleted=1",
        "object?bucket=kept&key=k",
        "object?bucket=kept&key=gone",
        "settings?name=kept",
        "rewind?bucket=kept&time=2026-01-31+12:00:00",
        "state",
        "activity",
        "audit",
        "users",
        "account",
    ] {
        let page = browser.get(address);
        let times = times_of(page.text());
        shown += usize::from(!times.is_empty());
        for time in times {
            assert!(time[19..].starts_with(" UTC"), "{address}: {time}");
        }
    }
    assert!(shown >= 10, "{shown} pages have times");
}

/// The fields of the form of a page that has this text.
fn fields_of(page: &Answer, text: &str) -> Vec<(String, String)> {
    let form = page.text().split("<form ").find(|form| form.contains(text)).unwrap();
    let form = form.split("</form>").next().unwrap();
    let mut fields = Vec::new();
    for input in form.split("<input ").skip(1) {
        let attribute = |name: &str| {
            let (_, rest) = input.split_once(&format!("{name}=\""))?;
            Some(rest.split('"').next().unwrap().replace("&#38;", "&").replace("&#60;", "<"))
        };
        fields.push((attribute("name").unwrap(), attribute("value").unwrap_or_default()));
    }
    fields
}

/// Submits the form of a page that has this text, with a further field.
fn submit(browser: &mut Browser<'_>, action: &str, page: &Answer, text: &str, more: (&str, &str)) -> Answer {
    let fields = fields_of(page, text);
    let mut fields: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    fields.push(more);
    browser.post(action, &fields)
}

#[test]
fn tags_and_metadata_that_are_not_edited_keep_every_byte() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let lines = [("x-amz-tagging", "a%3Db=c&space=%20x%20&plain="), ("x-amz-meta-note", "a: b=c")];
    browser.put("b", "k", &lines, b"kept");
    let tags = |browser: &mut Browser<'_>| {
        browser.s3(Method::Get, "bucket=b&key=k&tagging=", &[], b"").text().to_owned()
    };
    let before = tags(&mut browser);
    for (form, change) in [("<legend>Tags", "tags"), ("<legend>Metadata", "metadata")] {
        let page = browser.get("object?bucket=b&key=k");
        let answer = submit(&mut browser, "change", &page, form, ("change", change));
        assert_eq!(answer.status, 303, "{}", answer.text());
        assert_eq!(tags(&mut browser), before);
    }
    assert!(before.contains("<Key>a=b</Key>"), "{before}");
    assert!(browser.get("object?bucket=b&key=k").text().contains("<dt>x-amz-meta-note</dt><dd>a: b=c</dd>"));
}

#[test]
fn a_changed_object_keeps_its_encryption() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let kind = "x-amz-server-side-encryption";
    for (key, value) in [("s3", "AES256"), ("kms", "aws:kms")] {
        browser.put("b", key, &[(kind, value)], b"secret");
        let page = browser.get(&format!("object?bucket=b&key={key}"));
        let answer = submit(&mut browser, "change", &page, "<legend>Metadata", ("change", "metadata"));
        assert_eq!(answer.status, 303, "{}", answer.text());
        let head = browser.s3(Method::Head, &format!("bucket=b&key={key}"), &[], b"");
        assert_eq!(head.header(kind), Some(value));
    }
}

#[test]
fn an_edit_overwrites_nothing_that_came_since_its_page_was_shown() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.put("b", "k", &[("x-amz-tagging", "a=1")], b"seen");
    let page = browser.get("object?bucket=b&key=k");
    browser.put("b", "k", &[("x-amz-tagging", "a=2")], b"newer");
    let answer = submit(&mut browser, "change", &page, "<legend>Metadata", ("change", "metadata"));
    assert_eq!(answer.status, 412, "{}", answer.text());
    let answer = submit(&mut browser, "change", &page, "<legend>Tags", ("change", "tags"));
    assert_eq!(answer.status, 409, "{}", answer.text());
    assert_eq!(browser.get("content?bucket=b&key=k").body, b"newer");

    let page = browser.get("settings?name=b");
    let other = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/secret/*"}]}"#;
    assert_eq!(browser.post("set", &[("name", "b"), ("setting", "policy"), ("text", other)]).status, 303);
    let answer = submit(&mut browser, "set", &page, "value=\"public\"", ("x", ""));
    assert_eq!(answer.status, 409, "{}", answer.text());
    let page = browser.get("document?name=b&kind=policy");
    assert!(page.text().contains("secret/*"), "{}", page.text());
    let yet_another = other.replace("secret", "more-secret");
    let saved = browser.post("set", &[("name", "b"), ("setting", "policy"), ("text", &yet_another)]);
    assert_eq!(saved.status, 303);
    let mine = "{\"mine\": 1}";
    let answer = submit(&mut browser, "set", &page, "data-form=\"document\"", ("text", mine));
    assert_eq!(answer.status, 409);
    assert!(
        answer.text().contains("{&#34;mine&#34;: 1}") && answer.text().contains("secret/*"),
        "{}",
        answer.text()
    );
    let told = "Everyone may not read objects: objects of b that begin with more-secret/";
    assert!(browser.get("settings?name=b").text().contains(told));
    let answer = submit(&mut browser, "set", &answer, "data-form=\"document\"", ("text", ""));
    assert_eq!(answer.status, 303, "the page of the conflict saves");

    let draft = browser.post("editor", &[("name", "b"), ("kind", "lifecycle"), ("days", "9")]);
    let rule = "<LifecycleConfiguration><Rule><Filter/><Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>";
    browser.post("set", &[("name", "b"), ("setting", "lifecycle"), ("text", rule)]);
    let answer = submit(&mut browser, "set", &draft, "name=\"text\"", ("text", "<x/>"));
    assert_eq!(answer.status, 409, "{}", answer.text());
}

#[test]
fn a_refused_document_keeps_its_text() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let answer = browser.post("set", &[("name", "b"), ("setting", "cors"), ("text", "<my long work")]);
    assert!(
        answer.status == 400 && answer.text().contains("&#60;my long work</textarea>"),
        "{}",
        answer.text()
    );
}

#[test]
fn metadata_of_an_older_version_are_not_edited() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.post("create-bucket", &[("name", "kept"), ("versions", "1")]);
    for content in [b"old", b"new"] {
        browser.put("kept", "k", &[], content);
    }
    let oldest = browser.get("bucket?name=kept&versions=1").links("/-/console/object?").remove(1);
    let page = browser.get(&oldest);
    assert!(!page.text().contains("value=\"metadata\""), "{}", page.text());
    let version = field(&page, "version");
    let fields = [
        ("bucket", "kept"),
        ("key", "k"),
        ("version", &*version),
        ("change", "metadata"),
        ("content_type", "a/b"),
    ];
    assert_eq!(browser.post("change", &fields).status, 409);
    assert_eq!(browser.get("content?bucket=kept&key=k").body, b"new");
    let current = browser.get("bucket?name=kept&versions=1").links("/-/console/object?").remove(0);
    let page = browser.get(&current);
    let answer = submit(&mut browser, "change", &page, "<legend>Metadata", ("change", "metadata"));
    assert_eq!(answer.status, 303, "{}", answer.text());
}

/// Makes an object of copies of another one.
fn join(browser: &mut Browser<'_>, key: &str, source: &str, copies: usize) {
    let lines = [("content-type", "a/b"), ("x-amz-tagging", "t=1%20%2B%202"), ("x-amz-meta-note", "kept")];
    let created = browser.s3(Method::Post, &format!("bucket=kept&key={key}&uploads="), &lines, b"");
    let id = created.text().split("<UploadId>").nth(1).unwrap().split('<').next().unwrap().to_owned();
    let source = format!("kept/{source}");
    let mut parts = String::new();
    for number in 1..=copies {
        let query = format!("bucket=kept&key={key}&partNumber={number}&uploadId={id}");
        let part = browser.s3(Method::Put, &query, &[("x-amz-copy-source", &source)], b"");
        let etag = part.text().split("<ETag>").nth(1).unwrap().split("</ETag>").next().unwrap().to_owned();
        parts += &format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>");
    }
    let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
    let query = format!("bucket=kept&key={key}&uploadId={id}");
    let done = browser.s3(Method::Post, &query, &[], body.as_bytes());
    assert_eq!(done.status, 200, "{}", done.text());
}

/// In a long run: the digests of 16 GiB are computed.
#[test]
fn an_object_over_the_limit_of_a_copy_is_edited_and_restored() {
    if !is_long() {
        return;
    }
    let site = Site::with_quick_tags();
    let mut browser = site.signed_in("owner");
    browser.post("create-bucket", &[("name", "kept"), ("versions", "1")]);
    // Copies share their bytes: nothing but the table of extents grows.
    browser.put("kept", "piece", &[], &vec![7; 5 << 20]);
    join(&mut browser, "medium", "piece", 64);
    join(&mut browser, "large", "medium", 17);
    let oldest = browser.get("bucket?name=kept&versions=1").links("/-/console/object?").remove(0);
    let page = browser.get(&oldest);
    let answer = submit(&mut browser, "change", &page, "<legend>Metadata", ("change", "metadata"));
    assert_eq!(answer.status, 303, "{}", answer.text());
    let fields =
        [("bucket", "kept"), ("key", "large"), ("change", "restore"), ("version", &*field(&page, "version"))];
    assert_eq!(browser.post("change", &fields).status, 303);
    let page = browser.get("object?bucket=kept&key=large");
    for shown in ["<dd>5.3 GiB</dd>", "<dd>a/b</dd>", "<dd>kept</dd>", "<dt>Tag t</dt><dd>1 + 2</dd>"] {
        assert!(page.text().contains(shown), "{shown} is missing from\n{}", page.text());
    }
    assert_eq!(page.text().matches(">View</a>").count(), 2, "three versions");
    assert!(!browser.get("settings?name=kept").text().contains("Unfinished uploads"));
}

#[test]
fn all_versions_of_an_object_are_reached() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.post("create-bucket", &[("name", "kept"), ("versions", "1")]);
    for n in 0..450 {
        browser.put("kept", "k", &[], format!("{n}").as_bytes());
    }
    browser.put("kept", "k2", &[], b"another");
    let mut seen = Vec::new();
    let mut next = Some("object?bucket=kept&key=k".to_owned());
    while let Some(address) = next {
        let page = browser.get(&address);
        let (_, versions) = page.text().split_once("<h2>Versions</h2>").unwrap();
        seen.extend(versions.split("<code>").skip(1).map(|rest| rest.split('<').next().unwrap().to_owned()));
        next = page.page_of_list("next");
        assert_eq!(page.text().contains("Newer versions"), seen.len() > 200);
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 450);
}

#[test]
fn unfinished_uploads_are_listed_and_aborted() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.s3(Method::Post, "bucket=b&key=a%0Ab&uploads=", &[], b"");
    let page = browser.get("settings?name=b");
    assert!(page.text().contains("a⟨U+000A⟩b") && page.text().contains("owner"), "{}", page.text());
    let answer = submit(&mut browser, "set", &page, "value=\"upload\"", ("x", ""));
    assert_eq!(answer.status, 303, "{}", answer.text());
    assert!(!browser.get("settings?name=b").text().contains("Unfinished uploads"));
}

#[test]
fn folders_with_line_ends_are_searched_and_rewound() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.put("b", "line\r\nend/found", &[], b"1");
    let page = browser.get("bucket?name=b&prefix=line%0D%0Aend%2F");
    assert!(page.text().contains("data-at=\"line%0D%0Aend%2F\""), "{}", page.text());
    let at = field(&page, "at").replace('%', "%25");
    let found = browser.get(&format!("bucket?name=b&at={at}&search=fou"));
    assert_eq!(found.links("/-/console/object?").len(), 1, "{}", found.text());
    let rewind = browser.get(&format!("rewind?bucket=b&at={at}"));
    assert!(rewind.text().contains("line⟨U+000D⟩⟨U+000A⟩end/"), "{}", rewind.text());
}

#[test]
fn pages_offer_what_the_user_may_do() {
    use crate::support::users::allow;

    let site = Site::new();
    site.replace_users(
        &(user("owner", &["*"], &["*"])
            + &user("some", &["ListBucket", "ListAllMyBuckets"], &["*"])
            + &allow(&["GetObject"], &["b/*"])
            + &allow(&["PutObject", "DeleteObject"], &["b/own/*"])),
    );
    for key in ["own/k", "k"] {
        site.signed_in("owner").put("b", key, &[], b"1");
    }
    let mut some = site.signed_in("some");
    let root = some.get("bucket?name=b");
    let own = some.get("bucket?name=b&prefix=own%2F");
    for (offered, greyed) in [
        ("id=\"upload\"", "<span>Upload</span><span class=\"why\"> needs PutObject on b/*<"),
        ("data-form=\"new-folder\"", "<span>New folder</span><span class=\"why\"> needs PutObject on b/*<"),
        (
            "data-form=\"move-selection\"",
            "<span>Move or copy</span><span class=\"why\"> needs PutObject on b/*<",
        ),
        ("<button class=\"danger\">", "<span>Delete</span><span class=\"why\"> needs DeleteObject on b/*<"),
    ] {
        assert!(!root.text().contains(offered) && own.text().contains(offered), "{offered}");
        assert!(root.text().contains(greyed) && !own.text().contains(greyed), "{greyed}");
    }
    assert!(own.text().contains("<span>Tag</span><span class=\"why\"> needs PutObjectTagging on b/own/*<"));
    assert!(!own.text().contains("Delete this bucket"));
    let object = some.get("object?bucket=b&key=k");
    let own = some.get("object?bucket=b&key=own%2Fk");
    assert!(!object.text().contains("<legend>Metadata") && own.text().contains("<legend>Metadata"));
    for (offered, greyed) in [
        (
            "data-form=\"move-object\"",
            "<span>Move or rename …</span><span class=\"why\"> needs PutObject on b/k<",
        ),
        ("data-form=\"copy-object\"", "<span>Copy to …</span><span class=\"why\"> needs PutObject on b/k<"),
        ("<button class=\"danger\">", "<span>Delete …</span><span class=\"why\"> needs DeleteObject on b/k<"),
    ] {
        assert!(!object.text().contains(offered) && own.text().contains(offered), "{offered}");
        assert!(object.text().contains(greyed) && !own.text().contains(greyed), "{greyed}");
    }
    assert!(object.text().contains("Make a link"));
    assert!(site.signed_in("owner").get("bucket?name=b").text().contains("Delete this bucket"));
    let state = site.signed_in("owner").get("state");
    assert!(!state.text().contains("HeadObject"), "questions of pages are no failures: {}", state.text());
}

#[test]
fn type_metadata_and_tags_are_edited() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let lines = [("content-type", "text/plain"), ("x-amz-meta-note", "<a>"), ("cache-control", "max-age=1")];
    browser.put("b", "k", &lines, b"kept");
    let mut fields =
        vec![("bucket", "b"), ("key", "k"), ("change", "metadata"), ("content_type", "text/html")];
    for (name, value) in [
        ("Note", "new & <b>"),
        ("x-amz-meta-other", "1"),
        ("city", "Zürich"),
        ("", ""),
        ("cache-control", "no-store"),
    ] {
        fields.extend([("name", name), ("value", value), ("was", "")]);
    }
    assert_eq!(browser.post("change", &fields).status, 303);
    let mut tags = vec![("bucket", "b"), ("key", "k"), ("change", "tags")];
    for (name, value) in [("year", "2026"), ("plain", ""), ("", "")] {
        tags.extend([("name", name), ("value", value), ("was", "")]);
    }
    assert_eq!(browser.post("change", &tags).status, 303);
    let page = browser.get("object?bucket=b&key=k");
    for shown in [
        "<dd>text/html</dd>",
        "<dt>x-amz-meta-note</dt><dd>new &#38; &#60;b&#62;</dd>",
        "<dt>x-amz-meta-other</dt><dd>1</dd>",
        "<dt>x-amz-meta-city</dt><dd>Zürich</dd>",
        "<dt>Cache-Control</dt><dd>no-store</dd>",
        "<dt>Tag year</dt><dd>2026</dd>",
        "<dt>Tag plain</dt><dd></dd>",
        "<input name=\"name\" value=\"plain\"",
    ] {
        assert!(page.text().contains(shown), "{shown} is missing from\n{}", page.text());
    }
    assert_eq!(browser.get("content?bucket=b&key=k").body, b"kept");
    let bad = [
        ("bucket", "b"),
        ("key", "k"),
        ("change", "metadata"),
        ("content_type", "a/b"),
        ("name", "without a value"),
    ];
    assert_eq!(browser.post("change", &bad).status, 400);
    assert_eq!(browser.post("change", &[("bucket", "b"), ("key", "k"), ("change", "colour")]).status, 400);
}

#[test]
fn settings_of_a_bucket_are_shown_and_changed() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.put("b", "k", &[], b"1234");
    let set = |browser: &mut Browser<'_>, fields: &[(&str, &str)]| {
        let mut all = vec![("name", "b")];
        all.extend(fields);
        let answer = browser.post("set", &all);
        assert_eq!(answer.header("Location"), Some("/-/console/settings?name=b"), "{}", answer.text());
    };
    let page = browser.get("settings?name=b");
    assert!(
        page.text().contains("<p>1 object, 4 B, versions and parts of uploads included;"),
        "{}",
        page.text()
    );
    let limits = [("bytes", "10KiB"), ("objects", "2"), ("uploads", "3"), ("index_bytes", "1MiB")];
    set(&mut browser, &[&[("setting", "quota")][..], &limits].concat());
    set(&mut browser, &[("setting", "versioning"), ("status", "Enabled")]);
    let page = browser.get("settings?name=b");
    assert!(
        page.text().contains("name=\"bytes\" value=\"10240\"") && page.text().contains("Suspend versioning")
    );
    for shown in [
        " of 1.0 MiB.</p>",
        "name=\"index_bytes\" value=\"1048576\"",
        "name=\"uploads\" inputmode=\"numeric\" value=\"3\"",
    ] {
        assert!(page.text().contains(shown), "{shown}: {}", page.text());
    }
    let answer = browser.s3(Method::Put, "bucket=b&key=long", &[], &[0; 20_000]);
    assert!(answer.status == 403 && answer.text().contains("QuotaExceeded"), "{}", answer.text());
    set(&mut browser, &[("setting", "quota")]);
    assert!(browser.get("settings?name=b").text().contains("name=\"bytes\" value=\"\""));

    let mut stranger = site.browser();
    assert_eq!(stranger.get("/b/k").status, 403);
    set(&mut browser, &[("setting", "public"), ("status", "on")]);
    assert!(browser.get("settings?name=b").text().contains("Turn public access off"));
    assert_eq!((stranger.get("/b/k").status, stranger.get("/b").status), (200, 403), "and nobody lists it");
    set(&mut browser, &[("setting", "public"), ("status", "off")]);
    assert_eq!(stranger.get("/b/k").status, 403);

    let rule = "<CORSConfiguration><CORSRule><AllowedOrigin>https://a.example</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>";
    set(&mut browser, &[("setting", "cors"), ("text", rule)]);
    assert!(browser.get("settings?name=b").text().contains("https://a.example"));
    set(&mut browser, &[("setting", "cors"), ("text", "")]);
    assert!(!browser.get("settings?name=b").text().contains("https://a.example"));
    let answer = browser.post("set", &[("name", "b"), ("setting", "policy"), ("text", "{}")]);
    assert!(answer.status == 400 && answer.text().contains("MalformedPolicy"), "{}", answer.text());
    assert_eq!(browser.post("set", &[("name", "b"), ("setting", "acl"), ("text", "x")]).status, 400);
    assert_eq!(browser.get("settings?name=none").status, 404);
    assert_eq!(
        site.signed_in("reader")
            .post("set", &[("name", "b"), ("setting", "public"), ("status", "on")])
            .status,
        403
    );
}

#[test]
fn a_shared_link_works_without_a_session_and_ends_with_the_key() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.post("create-bucket", &[("name", "kept"), ("versions", "1")]);
    browser.put("kept", "a b.txt", &[], b"first");
    let page = browser.get("object?bucket=kept&key=a%20b.txt");
    let fields = [("bucket", "kept"), ("key", &*field(&page, "key")), ("expires", "3600")];
    let page = browser.post("share", &fields);
    let url = page.links(&format!("http://{HOST}/kept/")).remove(0);
    browser.put("kept", "a b.txt", &[], b"second");
    let address = url.strip_prefix(&format!("http://{HOST}")).unwrap();
    let mut stranger = site.browser();
    assert_eq!(stranger.get(address).body, b"first", "the link names the version");
    assert_eq!(stranger.get(&address.replace("a%20b", "b")).status, 403);
    site.server.clock.advance(std::time::Duration::from_secs(3_601));
    assert_eq!(stranger.get(address).status, 403);
    let mut browser = site.signed_in("owner");
    let page = browser.post("share", &fields);
    let url = page.links(&format!("http://{HOST}/kept/")).remove(0);
    let address = url.strip_prefix(&format!("http://{HOST}")).unwrap();
    assert_eq!(stranger.get(address).body, b"second");
    site.replace_users(&Site::users("rotated-secret-key"));
    assert_eq!(stranger.get(address).status, 403);
    let mut browser = site.browser();
    browser.sign_in("AK-owner", "rotated-secret-key");
    assert_eq!(browser.post("share", &[("bucket", "kept"), ("key", "k"), ("expires", "604801")]).status, 400);
    let past = [("bucket", "kept"), ("key", "a%20b.txt"), ("expires", "3600"), ("until", "2001-01-31")];
    let refused = browser.post("share", &past);
    assert!(refused.status == 400 && refused.text().contains("value=\"2001-01-31\""), "{}", refused.text());
    let page = browser.get("object?bucket=kept&key=a%20b.txt");
    let day = page.text().split("type=\"date\" name=\"until\" min=\"").nth(1).unwrap()[..10].to_owned();
    let until = [("bucket", "kept"), ("key", "a%20b.txt"), ("expires", "3600"), ("until", &*day)];
    let page = browser.post("share", &until);
    assert!(page.text().contains(&format!("until the end of {day}")), "{}", page.text());
}

#[test]
fn lines_to_paste_name_this_server_and_this_user() {
    let site = Site::new();
    let mut browser = site.signed_in("reader");
    let page = browser.get("connect");
    assert!(
        page.text().contains("export AWS_ENDPOINT_URL=http://127.0.0.1:9000\nexport AWS_DEFAULT_REGION=eu")
    );
    assert!(page.text().contains("AWS_ACCESS_KEY_ID=AK-reader") && !page.text().contains("secret of reader"));
}

#[test]
fn the_state_is_shown_to_administrators() {
    let site = Site::new();
    let page = site.signed_in("owner").get("state");
    assert!(
        page.text().contains("<p>The server takes writes.</p>")
            && page.text().contains("<dt>Buckets</dt><dd>1</dd>")
    );
    assert!(!site.signed_in("reader").get("").text().contains(">State</a>"));
}

#[test]
fn a_script_uploads_in_parts_and_sees_them() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let begun = browser.s3(Method::Post, "bucket=b&key=a%2F..%2Fb&uploads", &[], b"");
    let id = begun.text().split("<UploadId>").nth(1).unwrap().split('<').next().unwrap().to_owned();
    let part = browser.s3(
        Method::Put,
        &format!("bucket=b&key=a%2F..%2Fb&uploadId={id}&partNumber=1"),
        &[],
        b"whole",
    );
    let etag = part.header("ETag").unwrap().to_owned();
    let parts = browser.s3(Method::Get, &format!("bucket=b&key=a%2F..%2Fb&uploadId={id}"), &[], b"");
    assert!(parts.text().contains("<Size>5</Size>"), "{}", parts.text());
    let body = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
    );
    let done =
        browser.s3(Method::Post, &format!("bucket=b&key=a%2F..%2Fb&uploadId={id}"), &[], body.as_bytes());
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(browser.get("content?bucket=b&key=a%2F..%2Fb").body, b"whole");
}

#[test]
fn assets_are_kept_by_browsers_until_they_change() {
    let site = Site::new();
    let mut browser = site.browser();
    let page = browser.get("");
    let assets = page.links("/-/console/assets/");
    assert_eq!(assets.len(), 3);
    for asset in assets {
        let answer = browser.get(&asset);
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("Cache-Control"), Some("public, max-age=31536000, immutable"));
        assert!(!answer.body.is_empty());
    }
    assert_eq!(browser.get("assets/0000000000000000/style.css").status, 404);
}

#[test]
fn other_requests_are_those_of_the_s3_api() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    // A cookie is no signature.
    assert_eq!(browser.get("/b").status, 403);
    assert_eq!(browser.get("/-/health").text(), "alive\n");
}
