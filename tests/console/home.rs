//! The page of the buckets: sizes, for those who may list them.

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
    let mut maker = site.signed_in("maker");
    assert_eq!(maker.post("create-bucket", &[("name", "alt-one")]).status, 303);
    let refused = site.signed_in("names").post("create-bucket", &[("name", "alt-two")]);
    assert_eq!(refused.status, 403, "a form that is sent all the same is refused");
}
