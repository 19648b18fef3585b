//! The view of deleted objects, and the search for names at all depths.

use siltstone::s3::Method;

use super::harness::{Answer, Browser, Site};
use crate::support::users::{allow, user};

/// A bucket with versions.
fn kept(browser: &mut Browser<'_>) {
    browser.post("create-bucket", &[("name", "kept"), ("versions", "1")]);
}

fn delete(browser: &mut Browser<'_>, key: &str) {
    let answer = browser.s3(Method::Delete, &format!("bucket=kept&key={key}"), &[], b"");
    assert_eq!(answer.status, 204, "{}", answer.text());
}

/// The keys of the rows of a page, encoded as in its links.
fn rows(page: &Answer) -> Vec<String> {
    let links = page.links("/-/console/object?bucket=");
    links.iter().map(|link| link.rsplit("key=").next().unwrap().to_owned()).collect()
}

#[test]
fn deleted_objects_are_counted_listed_and_restored() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    kept(&mut browser);
    for key in ["at/deep/one", "at/two", "at/kept", "other"] {
        browser.put("kept", key, &[], key.as_bytes());
    }
    // Two markers above the version, and one above none.
    for key in ["at/deep/one", "at/two", "at/two", "other", "never-there"] {
        delete(&mut browser, key);
    }
    let root = browser.get("bucket?name=kept");
    assert!(root.text().contains("> (3)</span>"), "{}", root.text());
    let folder = browser.get("bucket?name=kept&prefix=at%2F");
    assert!(folder.text().contains("> (2)</span>"), "{}", folder.text());
    let deleted = browser.get("bucket?name=kept&prefix=at%2F&deleted=1");
    assert_eq!(rows(&deleted), ["at%2Fdeep%2Fone", "at%2Ftwo"]);
    assert!(deleted.text().contains("2 found<"), "{}", deleted.text());

    let fields = [("bucket", "kept"), ("at", "at%2F"), ("whole", "at%2Fdeep%2Fone"), ("whole", "at%2Ftwo")];
    let answer = browser.post("restore", &fields);
    let back = "/-/console/bucket?name=kept&prefix=at%2F&deleted=1";
    assert_eq!((answer.status, answer.header("Location")), (303, Some(back)), "{}", answer.text());
    let after = browser.get(back);
    assert!(
        after.text().contains("2 objects restored") && after.text().contains("The trash is empty."),
        "{}",
        after.text()
    );
    for key in ["at/deep/one", "at/two"] {
        assert_eq!(browser.get(&format!("content?bucket=kept&key={key}")).text(), key);
    }
    let again = browser.post("restore", &fields);
    assert!(again.status == 409 && again.text().contains("2 objects were not restored"), "{}", again.text());
    let lone = browser.post("restore", &[("bucket", "kept"), ("whole", "never-there")]);
    assert_eq!(lone.status, 409, "nothing is below its marker");
    assert_eq!(browser.post("restore", &[("bucket", "kept")]).status, 303);
}

#[test]
fn the_count_goes_on_in_steps_for_scripts() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    kept(&mut browser);
    for key in ["at/one", "at/two", "b"] {
        browser.put("kept", key, &[], b"x");
        delete(&mut browser, key);
    }
    browser.put("kept", "present", &[], b"x");
    let step = browser.get("deleted-count?name=kept");
    assert_eq!((step.status, step.text()), (200, r#"{"count":3,"further":null}"#));
    assert_eq!(step.header("Content-Type"), Some("application/json"));
    assert_eq!(step.header("Cache-Control"), Some("no-store"));
    for (address, count) in [("&prefix=at%2F", 2), ("&prefix=at%2F&after=at%2Fone", 1), ("&after=b", 0)] {
        let step = browser.get(&format!("deleted-count?name=kept{address}"));
        assert_eq!(step.text(), format!(r#"{{"count":{count},"further":null}}"#), "{address}");
    }
    assert_eq!(browser.get("deleted-count").status, 400);
    assert_eq!(browser.get("deleted-count?name=none").status, 404);
    assert_eq!(browser.post("deleted-count", &[("name", "kept")]).status, 405);
    assert_eq!(site.signed_in("reader").get("deleted-count?name=kept").status, 403);
    assert_eq!(site.browser().get("deleted-count?name=kept").status, 401);
}

#[test]
fn a_folder_whose_objects_were_deleted_says_so() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    kept(&mut browser);
    browser.put("kept", "k", &[], b"x");
    delete(&mut browser, "k");
    let page = browser.get("bucket?name=kept");
    assert!(page.text().contains("Everything here was deleted"), "{}", page.text());
    let plain = browser.get("bucket?name=b");
    assert!(!plain.text().contains("Trash") && plain.text().contains("There is nothing here."));
}

#[test]
fn markers_alone_and_many_markers_hold_no_walk_up() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    kept(&mut browser);
    browser.put("kept", "m", &[], b"below many markers");
    for _ in 0..2_100 {
        delete(&mut browser, "m");
    }
    for n in 0..2_100 {
        delete(&mut browser, &format!("lone-{n:04}"));
    }
    browser.put("kept", "z", &[], b"x");
    delete(&mut browser, "z");
    let page = browser.get("bucket?name=kept&deleted=1");
    assert_eq!(rows(&page), ["m", "z"], "{}", page.text());
    assert_eq!(browser.post("restore", &[("bucket", "kept"), ("whole", "m")]).status, 303);
    assert_eq!(browser.get("content?bucket=kept&key=m").text(), "below many markers");
}

#[test]
fn pages_of_deleted_objects_follow_one_another() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    kept(&mut browser);
    for n in 0..450 {
        browser.put("kept", &format!("f/{n:03}"), &[], b"x");
        delete(&mut browser, &format!("f/{n:03}"));
    }
    let mut next = Some("bucket?name=kept&deleted=1".to_owned());
    let mut seen = Vec::new();
    while let Some(address) = next {
        let page = browser.get(&address);
        assert!(page.text().contains("> (450)</span>"), "{}", page.text());
        seen.extend(rows(&page));
        next = page.page_of_list("next");
        assert_eq!(page.page_of_list("prev").is_some(), seen.len() > 200);
    }
    assert_eq!(seen.len(), 450);
    assert!(seen.is_sorted());
}

#[test]
fn what_goes_for_good_is_the_key_alone() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    kept(&mut browser);
    for key in ["a", "a", "ab", "a/b"] {
        browser.put("kept", key, &[], b"x");
    }
    delete(&mut browser, "a");
    let question = browser.post("delete", &[("bucket", "kept"), ("whole", "a")]);
    assert!(
        question.text().contains("Delete 3 objects") && question.text().contains("go for good"),
        "{}",
        question.text()
    );
    let (_, seen) = question.text().split_once("name=\"seen\" value=\"").unwrap();
    let seen = seen.split('"').next().unwrap();
    let fields = [("bucket", "kept"), ("confirmed", "1"), ("seen", seen), ("whole", "a")];
    let answer = browser.post("delete", &fields);
    assert_eq!(answer.status, 303, "{}", answer.text());
    let left = browser.get("bucket?name=kept&versions=1");
    assert_eq!(left.links("/-/console/object?").len(), 1, "{}", left.text());
    assert_eq!(browser.get("content?bucket=kept&key=ab").status, 200);
    assert_eq!(browser.get("content?bucket=kept&key=a/b").status, 200);
}

#[test]
fn others_restore_nothing_and_see_no_deleted_objects() {
    let site = Site::new();
    site.replace_users(
        &(user("owner", &["*"], &["*"])
            + &user("viewer", &["ListBucket", "ListBucketVersions", "GetObject"], &["kept", "kept/*"])
            + &user("lister", &["ListBucket"], &["kept"])
            + &user("nobody", &["ListAllMyBuckets"], &["*"])),
    );
    let mut owner = site.signed_in("owner");
    kept(&mut owner);
    owner.put("kept", "secret", &[], b"x");
    delete(&mut owner, "secret");
    let fields = [("bucket", "kept"), ("whole", "secret")];
    let mut viewer = site.signed_in("viewer");
    let page = viewer.get("bucket?name=kept&deleted=1");
    assert!(page.text().contains("secret") && !page.text().contains("data-form=\"row-restore\""));
    assert_eq!(viewer.post("restore", &fields).status, 403);
    for name in ["lister", "nobody"] {
        let mut browser = site.signed_in(name);
        assert_eq!(browser.get("bucket?name=kept&deleted=1").status, 403, "{name}");
        assert!(browser.post("restore", &fields).status >= 400, "{name}");
        assert!(!browser.get("bucket?name=kept").text().contains("secret"), "{name}");
    }
    assert_eq!(site.signed_in("nobody").get("bucket?name=kept&find=s").status, 403);
    assert_eq!(owner.get("content?bucket=kept&key=secret").status, 404);
}

#[test]
fn names_are_found_at_all_depths() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    for key in ["Lake.png", "2026/deep/er/the-lake.txt", "2026/other", "lake/x", "2025/LAKE"] {
        browser.put("b", key, &[], b"x");
    }
    let found = browser.get("bucket?name=b&find=lAke");
    assert_eq!(rows(&found), ["2025%2FLAKE", "2026%2Fdeep%2Fer%2Fthe-lake.txt", "Lake.png", "lake%2Fx"]);
    assert!(found.text().contains(">2026/deep/er/the-lake.txt</a>"), "{}", found.text());
    let below = browser.get("bucket?name=b&prefix=lake%2F&find=lake");
    assert!(rows(&below).is_empty(), "the folder itself is no hit");
    assert!(below.text().contains("No name here or below contains “lake”."), "{}", below.text());
    let markup = browser.get("bucket?name=b&find=%3Cb%3E%22");
    assert!(markup.text().contains("contains “&#60;b&#62;&#34;”"), "{}", markup.text());
}

#[test]
fn many_hits_come_in_pages() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    for n in 0..1_450 {
        browser.put("b", &format!("{}/{n:04}", if n % 3 == 0 { "yes" } else { "no" }), &[], b"x");
    }
    let mut next = Some("bucket?name=b&find=yes".to_owned());
    let mut seen = Vec::new();
    while let Some(address) = next {
        let page = browser.get(&address);
        seen.extend(rows(&page));
        next = page.page_of_list("next");
    }
    assert_eq!(seen.len(), 484);
    assert!(seen.is_sorted());
}

#[test]
fn names_are_found_where_the_user_may_list() {
    let site = Site::new();
    site.replace_users(
        &(user("owner", &["*"], &["*"])
            + &user("own", &["ListAllMyBuckets"], &["*"])
            + &allow(&["ListBucket"], &["b/own/*"])),
    );
    let mut owner = site.signed_in("owner");
    for key in ["own/mine", "other/mine"] {
        owner.put("b", key, &[], b"x");
    }
    let mut own = site.signed_in("own");
    let listed = own.get("bucket?name=b&prefix=own%2F").status;
    let all = own.get("bucket?name=b").status;
    assert_eq!(own.get("bucket?name=b&prefix=own%2F&find=mine").status, listed, "as the listing itself");
    assert_eq!((all, own.get("bucket?name=b&find=mine").status), (403, 403));
}

/// The fields of the form for a page, as its hidden fields have them.
fn hidden_fields(page: &Answer, form: &str) -> Vec<(String, String)> {
    let (_, rest) = page.text().split_once(&format!("data-form=\"{form}\"")).unwrap();
    let form = rest.split("</form>").next().unwrap();
    let mut fields = Vec::new();
    for field in form.split("type=\"hidden\" name=\"").skip(1) {
        let mut parts = field.split('"');
        let name = parts.next().unwrap().to_owned();
        fields.push((name, parts.nth(1).unwrap().to_owned()));
    }
    fields
}

fn send(browser: &mut Browser<'_>, page: &str, fields: &[(String, String)]) -> Answer {
    let fields: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    browser.post(page, &fields)
}

/// Deletes the folder `f/` of a bucket, and returns the page after it.
fn delete_folder(browser: &mut Browser<'_>, bucket: &str) -> Answer {
    let question = browser.post("delete", &[("bucket", bucket), ("at", "f%2F"), ("folder", "f%2F")]);
    let fields = hidden_fields(&question, "confirm-delete");
    let answer = send(browser, "delete", &fields);
    assert_eq!(answer.status, 303, "{}", answer.text());
    browser.get(answer.header("Location").unwrap())
}

#[test]
fn a_deletion_is_undone_by_one_button() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    kept(&mut browser);
    for key in ["f/a \u{202e}b", "f/two", "f/deleted before"] {
        browser.put("kept", key, &[], b"x");
    }
    delete(&mut browser, "f/deleted%20before");
    let after = delete_folder(&mut browser, "kept");
    assert!(after.text().contains("2 objects deleted"), "{}", after.text());
    let undone = send(&mut browser, "restore", &hidden_fields(&after, "undo"));
    let folder = "/-/console/bucket?name=kept&prefix=f%2F";
    assert_eq!((undone.status, undone.header("Location")), (303, Some(folder)), "{}", undone.text());
    let page = browser.get(folder);
    assert!(page.text().contains("2 objects restored"), "{}", page.text());
    assert_eq!(rows(&page).iter().filter(|key| key.ends_with("before")).count(), 0);
    assert_eq!(browser.get("content?bucket=kept&key=f%2Ftwo").text(), "x");
}

#[test]
fn a_restoration_is_undone_by_one_button_unless_the_object_has_changed() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    kept(&mut browser);
    for key in ["f/a \u{202e}b", "f/two"] {
        browser.put("kept", key, &[], b"x");
    }
    let after = delete_folder(&mut browser, "kept");
    send(&mut browser, "restore", &hidden_fields(&after, "undo"));
    let folder = "/-/console/bucket?name=kept&prefix=f%2F";
    let restored = browser.get(folder);
    let undo = hidden_fields(&restored, "undo");
    browser.put("kept", "f/two", &[], b"written since");
    let undone = send(&mut browser, "delete", &undo);
    assert_eq!(undone.status, 409, "{}", undone.text());
    assert_eq!(browser.get("content?bucket=kept&key=f%2Ftwo").text(), "written since");
    let page = browser.get(folder);
    assert!(!page.text().contains("202E") && page.text().contains("> (1)</span>"), "{}", page.text());
}

#[test]
fn a_restoration_has_no_undo_where_it_could_delete_for_good() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    kept(&mut browser);
    browser.put("kept", "k", &[], b"x");
    delete(&mut browser, "k");
    let suspended = b"<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>";
    assert_eq!(browser.s3(Method::Put, "bucket=kept&versioning=", &[], suspended).status, 200);
    let answer = browser.post("restore", &[("bucket", "kept"), ("whole", "k")]);
    let page = browser.get(answer.header("Location").unwrap());
    assert!(page.text().contains("1 object restored") && !page.text().contains(">Undo<"), "{}", page.text());
}

#[test]
fn many_go_for_good_after_the_name_of_the_bucket_was_typed() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    kept(&mut browser);
    for key in ["a", "b"] {
        browser.put("kept", key, &[], b"x");
        delete(&mut browser, key);
    }
    let selected = [("bucket", "kept"), ("whole", "a"), ("whole", "b")];
    let question = browser.post("delete", &selected);
    assert!(
        question.text().contains("Type the name of the bucket to delete them for good"),
        "{}",
        question.text()
    );
    for typed in [None, Some(("typed", "b"))] {
        let fields: Vec<_> = selected.into_iter().chain([("confirmed", "1")]).chain(typed).collect();
        let refused = browser.post("delete", &fields);
        assert!(refused.status == 400 && refused.text().contains("Type the name"), "{}", refused.text());
        assert!(browser.get("bucket?name=kept").text().contains("> (2)</span>"));
    }
    let fields = [&selected[..], &[("confirmed", "1"), ("typed", "kept")]].concat();
    assert_eq!(browser.post("delete", &fields).status, 303);
    assert!(!browser.get("bucket?name=kept").text().contains("> (2)</span>"));
    let one = browser.post("delete", &[("bucket", "kept"), ("whole", "a")]);
    assert!(!one.text().contains("Type the name"), "{}", one.text());
}

#[test]
fn what_cannot_come_back_has_no_undo() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.put("b", "f/one", &[], b"x");
    let after = delete_folder(&mut browser, "b");
    assert!(
        after.text().contains("1 object deleted") && !after.text().contains(">Undo<"),
        "{}",
        after.text()
    );
    kept(&mut browser);
    for n in 0..101 {
        browser.put("kept", &format!("f/{n}"), &[], b"x");
    }
    let after = delete_folder(&mut browser, "kept");
    assert!(after.text().contains("101 objects deleted") && !after.text().contains(">Undo<"));
    assert!(after.text().contains("> (101)</span>"));
}

#[test]
fn a_way_back_is_offered_to_those_alone_who_may_delete_versions() {
    let site = Site::new();
    let actions =
        ["ListBucket", "ListBucketVersions", "GetBucketVersioning", "GetObject", "PutObject", "DeleteObject"];
    let restoring = [&actions[..], &["DeleteObjectVersion"]].concat();
    site.replace_users(
        &(user("owner", &["*"], &["*"])
            + &user("deleter", &actions, &["kept", "kept/*"])
            + &user("restorer", &restoring, &["kept", "kept/*"])),
    );
    kept(&mut site.signed_in("owner"));
    for (name, is_offered) in [("deleter", false), ("restorer", true)] {
        let mut browser = site.signed_in(name);
        browser.put("kept", "f/k", &[], b"x");
        let after = delete_folder(&mut browser, "kept");
        assert!(after.text().contains("1 object deleted"), "{name}: {}", after.text());
        assert_eq!(after.text().contains(">Undo<"), is_offered, "{name}: {}", after.text());
        let deleted = browser.get("bucket?name=kept&deleted=1");
        assert!(deleted.text().contains("f/k"), "{name}: {}", deleted.text());
        for form in ["row-restore", "delete-for-good"] {
            let is_there = deleted.text().contains(&format!("data-form=\"{form}\""));
            assert_eq!(is_there, is_offered, "{name} {form}: {}", deleted.text());
        }
        let object = browser.get("object?bucket=kept&key=f%2Fk");
        assert!(object.text().contains("<p>Deleted <time"), "{name}: {}", object.text());
        for form in ["restore-deleted", "undelete"] {
            let is_there = object.text().contains(&format!("data-form=\"{form}\""));
            assert_eq!(is_there, is_offered, "{name} {form}: {}", object.text());
        }
    }
}

#[test]
fn versions_ask_for_the_permissions_of_versions() {
    let site = Site::new();
    let list = ["ListBucket", "ListBucketVersions", "GetBucketVersioning", "PutObject"];
    let of_objects = [&list[..], &["GetObject", "DeleteObject"]].concat();
    let of_versions = [&list[..], &["GetObjectVersion", "DeleteObjectVersion"]].concat();
    site.replace_users(
        &(user("owner", &["*"], &["*"])
            + &user("objects", &of_objects, &["kept", "kept/*"])
            + &user("versions", &of_versions, &["kept", "kept/*"])),
    );
    let mut owner = site.signed_in("owner");
    kept(&mut owner);
    owner.put("kept", "f/k", &[], b"one");
    owner.put("kept", "f/k", &[], b"two");
    let listed = owner.get("object?bucket=kept&key=f%2Fk").text().to_owned();
    let version = listed.split("form=\"versions\" name=\"version\" value=\"").nth(1).unwrap();
    let version = &version[..version.find('"').unwrap()];
    let pages = [
        format!("object?bucket=kept&key=f%2Fk&version={version}"),
        "bucket?name=kept&prefix=f%2F&versions=1".to_owned(),
    ];
    for page in &pages {
        let of_objects = site.signed_in("objects").get(page).text().to_owned();
        assert!(of_objects.contains("needs DeleteObjectVersion on kept/f/"), "{of_objects}");
        let of_versions = site.signed_in("versions").get(page).text().to_owned();
        assert!(!of_versions.contains("needs Delete"), "{of_versions}");
    }
    let page = site.signed_in("objects").get("object?bucket=kept&key=f%2Fk").text().to_owned();
    assert!(page.contains("needs GetObjectVersion on kept/f/k"), "{page}");
    assert!(!page.contains("needs DeleteObject"), "{page}");
}

#[test]
fn the_page_of_a_deleted_object_brings_it_back() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    kept(&mut browser);
    browser.put("kept", "f/k", &[], b"x");
    delete(&mut browser, "f/k");
    let page = browser.get("object?bucket=kept&key=f%2Fk");
    assert!(page.status == 200 && page.text().contains("<p>Deleted <time"), "{}", page.text());
    let answer = send(&mut browser, "restore", &hidden_fields(&page, "restore-deleted"));
    let object = "/-/console/object?bucket=kept&key=f%2Fk";
    assert_eq!((answer.status, answer.header("Location")), (303, Some(object)), "{}", answer.text());
    let page = browser.get(object);
    assert!(page.text().contains("1 object restored") && !page.text().contains("<p>Deleted <time"));
}

#[test]
fn found_objects_are_filtered_by_kind_and_size() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    for (key, bytes) in [("a/big.png", (1 << 20) + 1), ("a/small.png", 1), ("big.mp4", (1 << 20) + 1)] {
        browser.put("b", key, &[], &vec![0; bytes]);
    }
    assert_eq!(rows(&browser.get("bucket?name=b&kind=image")), ["a%2Fbig.png", "a%2Fsmall.png"]);
    assert_eq!(rows(&browser.get("bucket?name=b&larger=1048576")), ["a%2Fbig.png", "big.mp4"]);
    assert_eq!(rows(&browser.get("bucket?name=b&kind=image&larger=1048576&find=BIG")), ["a%2Fbig.png"]);
    assert_eq!(rows(&browser.get("bucket?name=b&newer=1")).len(), 3);
    site.server.clock.advance(std::time::Duration::from_secs(25 * 60 * 60));
    let mut browser = site.signed_in("owner");
    let none = browser.get("bucket?name=b&newer=1");
    assert!(rows(&none).is_empty() && none.text().contains("No object here or below is like that"));
}

#[test]
fn a_pasted_address_leads_to_its_page() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.put("b", "photos/a b+c.png", &[], b"x");
    let object = "/-/console/object?bucket=b&key=photos%2Fa%20b%2Bc.png";
    let folder = "/-/console/bucket?name=b&prefix=photos%2F";
    for (pasted, page) in [
        ("s3%3A%2F%2Fb%2Fphotos%2Fa%20b%2Bc.png", object),
        ("http%3A%2F%2F127.0.0.1%3A9000%2Fb%2Fphotos%2Fa%2520b%252Bc.png%3FX-Amz-Date%3D1", object),
        ("%20s3%3A%2F%2Fb%2Fphotos%2F", folder),
        ("s3%3A%2F%2Fb%2Fphotos", folder),
        ("s3%3A%2F%2Fb", "/-/console/bucket?name=b"),
        ("s3%3A%2F%2F%2Fevil.example", ""),
    ] {
        for form in ["?find=", "bucket?name=b&find="] {
            let answer = browser.get(&format!("{form}{pasted}"));
            assert_eq!(answer.header("Location").unwrap_or_default(), page, "{pasted}");
        }
    }
    assert_eq!(browser.get("?find=http%3A%2F%2Fevil.example%2Fb%2Fk").status, 200);
}

#[test]
fn buckets_are_found_by_a_part_of_their_names() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    kept(&mut browser);
    let found = browser.get("?find=EP");
    assert_eq!(found.links("/-/console/bucket?name="), ["/-/console/bucket?name=kept"]);
    assert!(browser.get("?find=nowhere").text().contains("No bucket has a name"));
}

#[test]
fn the_objects_beside_one_are_those_of_its_folder() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    for key in ["f/a", "f/b", "f/b/deeper", "f/c", "g"] {
        browser.put("b", key, &[], b"x");
    }
    let beside = |browser: &mut Browser<'_>, key: &str| {
        let page = browser.get(&format!("object?bucket=b&key={key}"));
        let links: Vec<_> = page.text().split("data-beside href=\"").skip(1).collect();
        let keys = links.iter().map(|link| link.split('"').next().unwrap().rsplit("%2F").next().unwrap());
        keys.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(beside(&mut browser, "f%2Fb"), ["a", "c"]);
    assert_eq!(beside(&mut browser, "f%2Fa"), ["b"]);
    assert_eq!(beside(&mut browser, "f%2Fc"), ["b"]);
    assert!(beside(&mut browser, "g").is_empty());
}
