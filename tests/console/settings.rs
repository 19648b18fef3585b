//! The settings of a bucket by subject: what is in force in words, tags as rows, documents as text.

use std::time::Duration;

use super::harness::{Answer, Browser, Site};
use super::users;

fn shows(page: &Answer, texts: &[&str]) {
    for text in texts {
        assert!(page.text().contains(text), "{text} is missing from\n{}", page.text());
    }
}

fn set(browser: &mut Browser<'_>, setting: &str, text: &str) {
    let answer = browser.post("set", &[("name", "b"), ("setting", setting), ("text", text)]);
    assert_eq!(answer.status, 303, "{}", answer.text());
}

#[test]
fn settings_are_told_in_words() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let page = browser.get("settings?name=b");
    shows(
        &page,
        &[
            "Objects that are replaced or deleted are gone.",
            "Object lock is off: versions can be deleted at any time.",
            "Scripts of pages of other sites cannot read or write objects.",
            "Nothing expires by itself.",
            "The bucket is not shown as a website.",
            "document?name=b&#38;kind=encryption",
        ],
    );
    set(
        &mut browser,
        "policy",
        r#"{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":{"AWS":"reader"},"Action":"s3:GetObject","Resource":"arn:aws:s3:::b/<x>/*"}]}"#,
    );
    set(
        &mut browser,
        "cors",
        "<CORSConfiguration><CORSRule><AllowedOrigin>https://a.example</AllowedOrigin><AllowedMethod>PUT</AllowedMethod></CORSRule></CORSConfiguration>",
    );
    set(
        &mut browser,
        "website",
        "<WebsiteConfiguration><IndexDocument><Suffix>index.html</Suffix></IndexDocument></WebsiteConfiguration>",
    );
    let page = browser.get("settings?name=b");
    shows(
        &page,
        &[
            "A policy of its own says who may do what:",
            "<li>reader may not read objects: objects of b that begin with &#60;x&#62;/</li>",
            "<li>Pages of https://a.example may send PUT</li>",
            "Each folder shows its index.html, and errors have a plain page.",
            "--website-domain",
        ],
    );
    assert!(!page.text().contains("<textarea"), "the texts have pages of their own");

    // Its user may not see these settings, and is not told that nothing is in force.
    let page = site.signed_in("reader").get("settings?name=b");
    for hidden in ["Nothing expires", "Object lock is", "cross-origin", "CORS (", "Public access"] {
        assert!(!page.text().contains(hidden), "{hidden}: {}", page.text());
    }
}

#[test]
fn rules_tell_what_they_take_now_or_next() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    for key in ["tmp/1", "tmp/2", "kept"] {
        browser.put("b", key, &[], b"12345");
    }
    let rule = |id: &str, prefix: &str, days: u32| {
        format!(
            "<Rule><ID>{id}</ID><Filter><Prefix>{prefix}</Prefix></Filter><Status>Enabled</Status><Expiration><Days>{days}</Days></Expiration></Rule>"
        )
    };
    let rules = format!(
        "<LifecycleConfiguration>{}{}{}</LifecycleConfiguration>",
        rule("soon", "tmp/", 3),
        rule("late", "kept", 90),
        rule("none", "nothing/", 1)
    );
    set(&mut browser, "lifecycle", &rules);
    site.server.clock.advance(Duration::from_secs(10 * 24 * 60 * 60));
    let page = site.signed_in("owner").get("settings?name=b");
    assert!(!page.text().contains("due now"), "{}", page.text());
    shows(&page, &["settings?name=b&#38;effect=1#expiry\">Preview what they delete</a>"]);
    let page = site.signed_in("owner").get("settings?name=b&effect=1");
    assert!(!page.text().contains("Preview what they delete"), "{}", page.text());
    shows(
        &page,
        &[
            ">soon</a>: keys that begin with tmp/: objects expire after 3 days. <strong>2 due now (10 B)</strong>",
            ">late</a>: keys that begin with kept: objects expire after 90 days. <strong>the first is due <time datetime=\"2026-05-02T00:00:00.000Z\"",
            ">none</a>: keys that begin with nothing/: objects expire after 1 day</li>",
        ],
    );
}

#[test]
fn tags_are_rows_and_go_with_the_last_one() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let fields =
        |shown: &'static str| [("bucket", "b"), ("setting", "bucket-tags"), ("was", ""), ("shown", shown)];
    let stored =
        |browser: &mut Browser<'_>| browser.s3(siltstone::s3::Method::Get, "bucket=b&tagging", &[], b"");
    let shown = |browser: &mut Browser<'_>| {
        let page = browser.get("settings?name=b").text().to_owned();
        let form = page.split("data-form=\"bucket-tags\"").nth(1).unwrap().to_owned();
        form.split("name=\"shown\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let first = shown(&mut browser);
    let first = &*first.leak();
    let add = [&fields(first)[..], &[("name", "team"), ("value", "sea+1")]].concat();
    let added = browser.post("set", &add);
    assert_eq!(added.status, 303, "{}", added.text());
    assert!(stored(&mut browser).text().contains("<Value>sea+1</Value>"));
    shows(&browser.get("settings?name=b"), &["name=\"value\" value=\"sea+1\""]);
    let again = browser.post("set", &add);
    assert_eq!(again.status, 409, "somebody else has changed them: {}", again.text());
    shows(&again, &["Settings of b", "name=\"value\" value=\"sea+1\""]);

    let second = shown(&mut browser);
    let second = &*second.leak();
    let reserved = [&fields(second)[..], &[("name", "aws:x"), ("value", "1")]].concat();
    let refused = browser.post("set", &reserved);
    assert_eq!(refused.status, 400);
    shows(&refused, &["role=\"alert\"", "name=\"name\" value=\"aws:x\""]);
    let none = [&fields(second)[..], &[("name", ""), ("value", "")]].concat();
    assert_eq!(browser.post("set", &none).status, 303);
    assert_eq!(stored(&mut browser).status, 404);
    let mut reader = site.signed_in("reader");
    assert_eq!(reader.post("set", &none[..3]).status, 403);
}

#[test]
fn a_document_is_edited_as_text_beside_what_it_would_change() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let rule = |days: u32| {
        format!(
            "<LifecycleConfiguration><Rule><ID>one</ID><Filter/><Status>Enabled</Status><Expiration><Days>{days}</Days></Expiration></Rule></LifecycleConfiguration>"
        )
    };
    let page = browser.get("document?name=b&kind=lifecycle");
    shows(&page, &["<h1>Lifecycle rules of b</h1>", "<textarea name=\"text\"", "XML, as S3 has it"]);
    set(&mut browser, "lifecycle", &rule(5));
    let page = browser.get("document?name=b&kind=lifecycle");
    shows(&page, &["&#60;Days&#62;5&#60;/Days&#62;"]);
    assert!(!page.text().contains("What would change"), "{}", page.text());
    let edited = [("name", "b"), ("kind", "lifecycle"), ("text", &*rule(6))];
    let draft = browser.post("editor", &edited);
    shows(
        &draft,
        &["<del>− &#60;Days&#62;5&#60;/Days&#62;</del>", "<ins>+ &#60;Days&#62;6&#60;/Days&#62;</ins>"],
    );
    let wrong = [("name", "b"), ("setting", "lifecycle"), ("text", "<LifecycleConfiguration>\n<Rule/>")];
    let refused = browser.post("set", &wrong);
    assert_eq!(refused.status, 400);
    shows(
        &refused,
        &[
            "of b: not saved</h1>",
            "role=\"alert\"",
            "<ins>+ &#60;Rule/&#62;</ins>",
            "&#60;Rule/&#62;</textarea>",
        ],
    );
    shows(&browser.get("document?name=b&kind=policy"), &["JSON, as S3 has it"]);

    assert_eq!(browser.get("document?name=b&kind=acl").status, 404);
    assert_eq!(browser.get("document?name=none&kind=cors").status, 404);
    assert_eq!(site.signed_in("reader").get("document?name=b&kind=lifecycle").status, 403);
}

#[test]
fn administrators_see_which_users_may_do_something_in_a_bucket() {
    let (site, _directory) = users::site();
    let page = site.signed_in("owner").get("settings?name=b");
    assert!(!page.text().contains("class=\"matrix\""), "it takes long: {}", page.text());
    let link = "settings?name=b&#38;users=1#access\">What each user may do here</a>";
    shows(&page, &[link]);
    let page = site.signed_in("owner").get("settings?name=b&users=1");
    let table =
        page.text().split("<table class=\"matrix\">").nth(1).unwrap().split("</table>").next().unwrap();
    // Those of the users file who are in effect and may do something here.
    let reader = table.split("<th scope=\"row\">reader</th>").nth(1).unwrap();
    assert!(reader.starts_with("<td title=\"yes\">"), "{table}");
    assert!(!table.contains("⟨U+202E⟩"), "{table}");
    for address in ["settings?name=b", "settings?name=b&users=1"] {
        let page = site.signed_in("reader").get(address);
        assert!(!page.text().contains("class=\"matrix\"") && !page.text().contains("What each user"));
    }
}
