//! The editors of documents: a form, the document with its effect, then the change.

use std::time::Duration;

use super::harness::{Answer, Browser, Site};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The draft of a page, as a browser sends it.
pub(super) fn draft(page: &Answer) -> String {
    let (_, rest) = page.text().split_once("<textarea name=\"text\"").unwrap();
    let text = rest.split_once('>').unwrap().1.split("</textarea>").next().unwrap();
    [("&#60;", "<"), ("&#62;", ">"), ("&#34;", "\""), ("&#39;", "'"), ("&#38;", "&")]
        .iter()
        .fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

fn preview(browser: &mut Browser<'_>, kind: &str, fields: &[(&str, &str)]) -> Answer {
    let mut all = vec![("name", "b"), ("kind", kind)];
    all.extend(fields);
    browser.post("editor", &all)
}

fn save(browser: &mut Browser<'_>, kind: &str, page: &Answer) {
    let text = draft(page);
    let answer = browser.post("set", &[("name", "b"), ("setting", kind), ("text", &text)]);
    assert_eq!(answer.status, 303, "{}\n{text}", answer.text());
}

#[test]
fn lifecycle_rules_show_their_effect_before_they_are_saved() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.post("set", &[("name", "b"), ("setting", "versioning"), ("status", "Enabled")]);
    for (key, content) in
        [("logs/old<1>", "12345"), ("logs/twice", "123"), ("logs/twice", "1234"), ("other", "1")]
    {
        browser.put("b", key, &[], content.as_bytes());
    }
    let begun = browser.s3(siltstone::s3::Method::Post, "bucket=b&key=logs%2Fup&uploads", &[], b"");
    assert_eq!(begun.status, 200);
    site.server.clock.advance(DAY * 10);
    let mut browser = site.signed_in("owner");
    browser.put("b", "logs/new", &[], b"12");
    let asked =
        [("prefix", "logs/"), ("days", "5"), ("noncurrent_days", "30"), ("abort_days", "3"), ("id", "tidy")];
    let page = preview(&mut browser, "lifecycle", &asked);
    for shown in [
        "Due at once: 3 (9 B)",
        "<td>tidy</td><td>expiration</td><td class=\"number\">3 (9 B)</td><td class=\"number\">2 (5 B)</td>",
        "<li>logs/old&#60;1&#62;: current version, 5 B</li>",
        "<li>logs/twice: current version, 4 B</li>",
        "<li>logs/up: upload, 0 B</li>",
    ] {
        assert!(page.text().contains(shown), "{shown} is missing from\n{}", page.text());
    }
    assert!(!browser.get("settings?name=b").text().contains("tidy"), "nothing changed yet");
    let edited = draft(&page).replace("<Days>5</Days>", "<Days>50</Days>");
    let again = preview(&mut browser, "lifecycle", &[("text", &edited)]);
    assert!(again.text().contains("Due at once: 1 (0 B)"), "{}", again.text());
    assert!(!again.text().contains("become COLD at once"), "{}", again.text());
    let moving = "<Expiration><Days>50</Days></Expiration><Transition><Days>2</Days><StorageClass>COLD</StorageClass></Transition>";
    let sized =
        "<Filter><And><Prefix>logs/</Prefix><ObjectSizeGreaterThan>4</ObjectSizeGreaterThan></And></Filter>";
    let moving = format!(
        "<LifecycleConfiguration><Rule><ID>cold</ID><Status>Enabled</Status>{sized}{moving}</Rule></LifecycleConfiguration>"
    );
    let moved = preview(&mut browser, "lifecycle", &[("text", &moving)]);
    for shown in [
        "Due at once: 0 (0 B)",
        "To become COLD at once: 1 (5 B)",
        "<td>cold</td><td>transition to COLD</td><td class=\"number\">1 (5 B)</td>",
        "<li>logs/old&#60;1&#62;: transition to COLD, 5 B</li>",
    ] {
        assert!(moved.text().contains(shown), "{shown} is missing from\n{}", moved.text());
    }
    save(&mut browser, "lifecycle", &page);
    assert!(browser.get("settings?name=b").text().contains(">tidy</a>: keys that begin with logs/: "));
    let second = preview(&mut browser, "lifecycle", &[("abort_days", "9"), ("id", "second")]);
    assert!(draft(&second).contains("tidy") && draft(&second).contains("second"));
    save(&mut browser, "lifecycle", &second);
    for wrong in [&[("id", "nothing")][..], &[("days", "x")], &[("text", "<no")], &[("text", "<Other/>")]] {
        assert_eq!(preview(&mut browser, "lifecycle", wrong).status, 400, "{wrong:?}");
    }
}

#[test]
fn lifecycle_rules_are_changed_and_removed_one_by_one() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let tagged = "<Rule><ID>tag<>ged</ID><Filter><And><Prefix>t/</Prefix><Tag><Key>k</Key><Value>v</Value></Tag></And></Filter>\
        <Status>Enabled</Status><Expiration><Days>9</Days></Expiration></Rule>"
        .replace("g<>g", "g&lt;&gt;g");
    let text = format!(
        "<LifecycleConfiguration>{tagged}<Rule><ID>plain</ID><Filter><Prefix>p/</Prefix></Filter><Status>Enabled</Status>\
         <Expiration><Days>5</Days></Expiration></Rule></LifecycleConfiguration>"
    );
    browser.post("set", &[("name", "b"), ("setting", "lifecycle"), ("text", &text)]);
    let page = browser.get("editor?name=b&kind=lifecycle");
    for shown in [
        "<strong>plain</strong>: keys that begin with p/; objects expire after 5 days",
        "<strong>tag&#60;&#62;ged</strong>: keys that begin with t/, with conditions on tags or sizes",
    ] {
        assert!(page.text().contains(shown), "{shown} is missing from\n{}", page.text());
    }
    let links = page.links("/-/console/editor?name=b&kind=lifecycle&rule=");
    let by_text = browser.get(&links[0]);
    assert!(by_text.text().contains("name=\"rule_text\"") && !by_text.text().contains("name=\"days\""));
    let by_form = browser.get(&links[1]);
    for shown in [
        "name=\"prefix\" autocapitalize=\"none\" spellcheck=\"false\" value=\"p/\"",
        "value=\"5\"",
        "value=\"plain\"",
    ] {
        assert!(by_form.text().contains(shown), "{shown} is missing from\n{}", by_form.text());
    }

    let asked = [("rule", "plain"), ("id", "plain"), ("prefix", "q/"), ("days", "6"), ("status", "Disabled")];
    let page = preview(&mut browser, "lifecycle", &asked);
    assert!(
        draft(&page).contains("q/") && draft(&page).contains("<Key>k</Key>") && !draft(&page).contains("p/")
    );
    save(&mut browser, "lifecycle", &page);
    let page = browser.get("editor?name=b&kind=lifecycle");
    assert!(
        page.text().contains("<strong>plain</strong> (disabled): keys that begin with q/"),
        "{}",
        page.text()
    );

    let page = preview(&mut browser, "lifecycle", &[("remove", "tag<>ged")]);
    save(&mut browser, "lifecycle", &page);
    let page = browser.get("editor?name=b&kind=lifecycle");
    assert!(page.text().contains("plain") && !page.text().contains("ged"), "{}", page.text());
    assert_eq!(preview(&mut browser, "lifecycle", &[("remove", "tag<>ged")]).status, 409);
    let page = preview(&mut browser, "lifecycle", &[("remove", "plain")]);
    assert!(page.text().contains("No rule would be left") && draft(&page).is_empty(), "{}", page.text());
    save(&mut browser, "lifecycle", &page);
    assert_eq!(browser.s3(siltstone::s3::Method::Get, "bucket=b&lifecycle", &[], b"").status, 404);
}

#[test]
fn the_website_is_made_by_a_form_and_keeps_its_routing_rules() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let asked = [("index", "index.html"), ("error", "wrong<1>.html")];
    let page = preview(&mut browser, "website", &asked);
    assert!(browser.get("editor?name=b&kind=website").text().contains("name=\"error\""));
    save(&mut browser, "website", &page);
    let page = browser.get("editor?name=b&kind=website");
    assert!(
        page.text().contains("value=\"index.html\"")
            && page.text().contains("value=\"wrong&#60;1&#62;.html\"")
    );
    let routed = draft(&preview(&mut browser, "website", &asked)).replace(
        "</WebsiteConfiguration>",
        "<RoutingRules><RoutingRule><Condition><KeyPrefixEquals>old/</KeyPrefixEquals></Condition><Redirect>\
         <ReplaceKeyPrefixWith>new/</ReplaceKeyPrefixWith></Redirect></RoutingRule></RoutingRules></WebsiteConfiguration>",
    );
    let answer = browser.post("set", &[("name", "b"), ("setting", "website"), ("text", &routed)]);
    assert_eq!(answer.status, 303, "{}", answer.text());
    let page = preview(&mut browser, "website", &[("index", "start.html")]);
    save(&mut browser, "website", &page);
    let stored = browser.s3(siltstone::s3::Method::Get, "bucket=b&website", &[], b"");
    for kept in ["<Suffix>start.html</Suffix>", "<KeyPrefixEquals>old/</KeyPrefixEquals>"] {
        assert!(stored.text().contains(kept), "{}", stored.text());
    }
    assert!(!stored.text().contains("wrong"));
    assert_eq!(preview(&mut browser, "website", &[("error", "e.html")]).status, 400);
}

#[test]
fn cross_origin_rules_policies_and_locks_are_made_by_forms() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.put("b", "open/k", &[], b"public");
    browser.put("b", "k", &[], b"private");
    let asked = [
        ("origins", "https://a.example\r\nhttps://b.example\r\n"),
        ("method", "GET"),
        ("method", "PUT"),
        ("headers", "*"),
    ];
    let page = preview(&mut browser, "cors", &asked);
    save(&mut browser, "cors", &page);
    let settings = browser.get("settings?name=b");
    assert!(settings.text().contains("https://b.example") && settings.text().contains("editor?name=b"));

    let page = preview(&mut browser, "policy", &[("template", "public"), ("prefix", "open/")]);
    let mut stranger = site.browser();
    assert_eq!(stranger.get("/b/open/k").status, 403, "nothing changed yet");
    save(&mut browser, "policy", &page);
    assert_eq!((stranger.get("/b/open/k").status, stranger.get("/b/k").status), (200, 403));
    site.replace_users(
        &(Site::users("secret of owner") + &crate::support::users::user("guest", &["GetObject"], &["c/*"])),
    );
    let page = preview(&mut browser, "policy", &[("template", "reader"), ("user", "guest"), ("prefix", "")]);
    save(&mut browser, "policy", &page);
    let mut guest = site.signed_in("guest");
    assert_eq!(guest.get("content?bucket=b&key=k").body, b"private");
    assert!(guest.get("bucket?name=b").text().contains(">open/</a>"));
    assert_eq!(stranger.get("/b/open/k").status, 200, "the earlier statement is still there");

    browser.post("set", &[("name", "b"), ("setting", "versioning"), ("status", "Enabled")]);
    let page = preview(&mut browser, "object-lock", &[("mode", "GOVERNANCE"), ("days", "2")]);
    save(&mut browser, "object-lock", &page);
    browser.put("b", "locked", &[], b"x");
    let page = browser.get("object?bucket=b&key=locked");
    assert!(page.text().contains("2026-02-02 12:00:00 UTC</time> (governance)</dd>"), "{}", page.text());
}

#[test]
fn previews_are_for_those_who_may_set_the_rules_and_values_stay_text() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    owner.put("b", "secret-name", &[], b"x");
    let mut reader = site.signed_in("reader");
    let page = preview(
        &mut reader,
        "lifecycle",
        &[(
            "text",
            "<LifecycleConfiguration><Rule><Filter/><Status>Enabled</Status><Expiration><Date>2020-01-01T00:00:00Z</Date></Expiration></Rule></LifecycleConfiguration>",
        )],
    );
    assert!(page.status == 403 && !page.text().contains("secret-name"), "{}", page.text());
    let hostile = "</textarea><script>alert(1)</script>";
    for (kind, fields) in [
        ("lifecycle", vec![("id", hostile), ("prefix", hostile), ("days", "1")]),
        ("cors", vec![("origins", hostile), ("method", hostile)]),
        ("policy", vec![("template", "reader"), ("user", hostile), ("prefix", hostile)]),
        ("object-lock", vec![("mode", hostile), ("days", "1")]),
        ("website", vec![("index", hostile), ("error", hostile)]),
    ] {
        let page = preview(&mut owner, kind, &fields);
        assert!(!page.text().contains("<script>alert"), "{kind}\n{}", page.text());
        assert!(page.status == 200 && draft(&page).contains("alert(1)") || page.status == 400, "{kind}");
    }
    for page in [
        "editor?name=b&kind=lifecycle",
        "editor?name=b&kind=cors",
        "editor?name=b&kind=policy",
        "editor?name=b&kind=object-lock",
        "editor?name=b&kind=website",
    ] {
        assert_eq!(owner.get(page).status, 200, "{page}");
    }
    assert_eq!(owner.get("editor?name=b&kind=acl").status, 404);
    let forged =
        owner.post_with("editor", &[("name", "b"), ("kind", "cors")], &[("sec-fetch-site", "cross-site")]);
    assert_eq!(forged.status, 403);
}

#[test]
fn the_encryption_of_new_objects_is_set_by_a_form_which_keeps_the_rest() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let stored = |browser: &mut Browser<'_>| {
        let answer = browser.s3(siltstone::s3::Method::Get, "bucket=b&encryption", &[], b"");
        (answer.status, answer.text().to_owned())
    };
    let set = |browser: &mut Browser<'_>, algorithm: &str, key: &str| {
        let fields =
            [("name", "b"), ("setting", "default-encryption"), ("algorithm", algorithm), ("key", key)];
        let answer = browser.post("set", &fields);
        assert_eq!(answer.status, 303, "{}", answer.text());
    };
    let page = browser.get("settings?name=b");
    assert!(page.text().contains("data-form=\"encryption\""), "{}", page.text());
    set(&mut browser, "AES256", "");
    assert!(stored(&mut browser).1.contains("<SSEAlgorithm>AES256</SSEAlgorithm>"));
    let page = browser.get("settings?name=b");
    assert!(page.text().contains("value=\"AES256\" selected"), "{}", page.text());
    set(&mut browser, "aws:kms", "invoices");
    assert!(stored(&mut browser).1.contains("<KMSMasterKeyID>invoices</KMSMasterKeyID>"));
    let page = browser.get("settings?name=b");
    assert!(page.text().contains("name=\"key\" value=\"invoices\""), "{}", page.text());
    set(&mut browser, "", "");
    assert_eq!(stored(&mut browser).0, 404);

    let blocking = "<ServerSideEncryptionConfiguration><Rule><BlockedEncryptionTypes><EncryptionType>SSE-C</EncryptionType>\
        </BlockedEncryptionTypes></Rule></ServerSideEncryptionConfiguration>";
    let saved = browser.post("set", &[("name", "b"), ("setting", "encryption"), ("text", blocking)]);
    assert_eq!(saved.status, 303, "{}", saved.text());
    for algorithm in ["AES256", ""] {
        set(&mut browser, algorithm, "");
        let (status, text) = stored(&mut browser);
        assert!(status == 200 && text.contains("<EncryptionType>SSE-C</EncryptionType>"), "{text}");
        assert_eq!(text.contains("AES256"), !algorithm.is_empty(), "{text}");
    }

    let old =
        [("name", "b"), ("setting", "default-encryption"), ("shown", "another"), ("algorithm", "AES256")];
    assert_eq!(browser.post("set", &old).status, 409, "somebody else has changed it");
    assert!(!stored(&mut browser).1.contains("AES256"));
    let page = site.signed_in("reader").get("settings?name=b");
    assert!(!page.text().contains("data-form=\"encryption\""), "{}", page.text());
}
