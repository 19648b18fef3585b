//! The page of the buckets: sizes, for those who may list them.

use siltstone::base::Quota;

use super::harness::Site;

/// The row of a bucket.
fn row<'p>(page: &'p str, bucket: &str) -> &'p str {
    let (_, rest) = page.split_once(&format!(">{bucket}</a>")).unwrap();
    rest.split("</tr>").next().unwrap()
}

#[test]
fn buckets_have_their_objects_and_bytes() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.post("create-bucket", &[("name", "kept"), ("versions", "1")]);
    browser.put("b", "one", &[], &[0; 1024]);
    browser.put("b", "two", &[], &[0; 512]);
    browser.put("kept", "k", &[], &[0; 10]);
    browser.put("kept", "k", &[], &[0; 3]);
    let page = browser.get("");
    assert!(row(page.text(), "b").contains("<td class=\"number\">2</td><td class=\"number\">1.5 KiB</td>"));
    let kept = row(page.text(), "kept");
    assert!(
        kept.contains(">1</td><td class=\"number\">3 B<br>") && kept.contains("and 10 B in older versions")
    );
    assert!(page.text().contains("<meter") && page.text().contains(" free "), "{}", page.text());
}

#[test]
fn sizes_are_for_users_who_may_list_the_bucket() {
    use crate::support::users::user;

    let site = Site::new();
    site.replace_users(
        &(user("owner", &["*"], &["*"])
            + &user("names", &["ListAllMyBuckets"], &["*"])
            + &user("lists", &["ListAllMyBuckets", "ListBucket"], &["kept"])),
    );
    let mut browser = site.signed_in("owner");
    browser.post("create-bucket", &[("name", "kept"), ("versions", "1")]);
    for bucket in ["b", "kept"] {
        browser.put(bucket, "k", &[], &[0; 10]);
        browser.put(bucket, "k", &[], &[0; 3]);
    }
    let page = site.signed_in("names").get("");
    for bucket in ["b", "kept"] {
        assert!(row(page.text(), bucket).starts_with("</span></td><td></td><td></td>"), "{}", page.text());
    }
    let page = site.signed_in("lists").get("");
    assert!(!page.text().contains(">b</a>") && !page.text().contains("<meter"));
    assert!(row(page.text(), "kept").contains(">1</td><td class=\"number\">3 B</td>"), "{}", page.text());
}

#[test]
fn quotas_have_bars_for_those_who_may_see_them() {
    use crate::support::users::user;

    let site = Site::new();
    let listing = &["ListAllMyBuckets", "ListBucket"];
    site.replace_users(
        &(user("owner", &["*"], &["*"])
            + &user("names", &["ListAllMyBuckets"], &["*"])
            + &user("lists", listing, &["*"])),
    );
    let quota = |document: &str| Quota::parse(document.as_bytes()).unwrap();
    let store = &site.server.store;
    store.set_bucket_quota("b", Some(&quota(r#"{"bytes": 2048, "objects": 2}"#))).unwrap();
    let mut owner = site.signed_in("owner");
    owner.post("create-bucket", &[("name", "free")]);
    owner.put("b", "one", &[], &[0; 1024]);
    let page = owner.get("");
    let half = row(page.text(), "b");
    assert!(half.contains("Quota: 1.0 KiB of 2.0 KiB <meter") && half.contains("value=\"50\""), "{half}");
    assert!(!row(page.text(), "free").contains("meter"), "{}", page.text());
    for absent in ["used up", "Your quota", "of the index"] {
        assert!(!page.text().contains(absent), "{absent} in {}", page.text());
    }
    owner.put("b", "two", &[], &[0; 512]);
    let text = "Reading and deleting work even when a quota is used up.";
    for (name, is_shown) in [("owner", true), ("lists", true), ("names", false)] {
        let page = site.signed_in(name).get("");
        let full = row(page.text(), "b").contains("Quota: 2 of 2 objects, used up <meter");
        assert_eq!((full, page.text().contains(text)), (is_shown, is_shown), "{name}: {}", page.text());
    }
    // HeadBucket does not tell of the index.
    store.set_bucket_quota("b", Some(&quota(r#"{"bytes": 4096, "index_bytes": 900}"#))).unwrap();
    assert!(row(owner.get("").text(), "b").contains(" of the index, used up <meter"));
    assert!(row(site.signed_in("lists").get("").text(), "b").contains("Quota: 1.5 KiB of 4.0 KiB <meter"));
    store.set_owner_quota("owner", Some(&quota(r#"{"bytes": 1048576, "buckets": 2}"#))).unwrap();
    let page = owner.get("");
    for shown in ["Your quota: 2 of 2 buckets, used up <meter", "Your quota: 1.5 KiB of 1.0 MiB <meter"] {
        assert!(page.text().contains(shown), "{shown} in {}", page.text());
    }
    assert!(!site.signed_in("lists").get("").text().contains("Your quota"));
}

#[test]
fn many_buckets_take_several_pages() {
    let site = Site::new();
    for n in 0..250 {
        site.server.store.create_bucket(&format!("n{n:03}"), "owner").unwrap();
    }
    let mut browser = site.signed_in("owner");
    let first = browser.get("");
    assert_eq!(first.links("/-/console/bucket?name=").len(), 200);
    let next = first.page_of_list("next").unwrap();
    let second = browser.get(&next);
    assert_eq!(second.links("/-/console/bucket?name=").len(), 51);
    assert!(second.text().contains(">n249</a>") && second.page_of_list("next").is_none());
    assert_eq!(second.page_of_list("prev").as_deref(), Some("/-/console/"));
    assert!(browser.get("?after=%21").status < 500);
}

#[test]
fn the_form_for_a_bucket_is_for_those_who_may_make_one() {
    use crate::support::users::user;

    let site = Site::new();
    site.replace_users(
        &(user("owner", &["*"], &["*"])
            + &user("names", &["ListAllMyBuckets", "ListBucket"], &["*"])
            + &user("objects", &["CreateBucket", "PutObject"], &["b", "b/*"])
            + &user("maker", &["ListAllMyBuckets", "CreateBucket"], &["alt-*"])),
    );
    for (name, is_shown) in [("owner", true), ("maker", true), ("objects", true), ("names", false)] {
        let page = site.signed_in(name).get("");
        assert_eq!(
            page.text().contains("action=\"/-/console/create-bucket\""),
            is_shown,
            "{name}: {}",
            page.text()
        );
    }
    let names = site.signed_in("names").get("");
    assert!(names.text().contains("needs CreateBucket on *"), "{}", names.text());
    let mut maker = site.signed_in("maker");
    assert_eq!(maker.post("create-bucket", &[("name", "alt-one")]).status, 303);
    let refused = site.signed_in("names").post("create-bucket", &[("name", "alt-two")]);
    assert_eq!(refused.status, 403, "a form that is sent all the same is refused");
}
